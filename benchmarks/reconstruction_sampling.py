"""Reconstruction sampling: seconds an epoch and peak memory beside dense decoding.

A denoising auto-encoder of 256 rectifiers with a sigmoid decoder and cross-entropy on
the 100,000 rows of 100,000 columns of `wide_sparse`, 100 ones a row. Salt and pepper
that keeps the density turns off 80 % of the ones and as many zeros on. Dense decoding
computes 100,000 outputs a row; sampling computes some 180 that are certain and a share
of the others. All do the same on the same rows at the same rate and batch, each in a
process of its own.

An epoch of dense decoding would take minutes: some of its batches are timed after one
that is not, and their mean is scaled up to the number of batches of an epoch. Of
sampling whole epochs are timed. Wall and CPU times are given; on a busy machine the
ratio of CPU times is the fairer one. The loss of test rows, always that of dense
decoding with the same noise, shows that something is learned in the time.

About 10 minutes on 2 idle cores, of which one is used.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import alone
import numpy as np
import racing
from memory import forget_peak, peak_mib
from numpy.typing import NDArray
from wide_sparse import wide_rows

from hardzero.engine.corruption import Corruptor, parse_corruption
from hardzero.engine.reconstruction import Reconstruction, parse_decoder
from hardzero.kernels import build
from hardzero.kernels.rules import SGD
from hardzero.kernels.sampled import SampledAutoencoder, sample_outputs
from hardzero.random import generator, row_hashes, stream_key
from hardzero.stack import Layer, RectifierStack

N_UNITS = 256
N_TEST = 500
RATE = 0.01
NOISE = "salt_and_pepper(0.8, density)"
OBJECTIVE = Reconstruction(parse_decoder("sigmoid"))
CONTENDERS = ("sampled 0.002", "sampled 0.02", "exact auto", "exact dense")
LIMIT_MIB = 2048
WANTED_RATIO = 10

Float32 = NDArray[np.float32]
Step = Callable[[Any, Any, NDArray[np.uint64], int], float]


def main() -> None:
    """Measure sampling with two shares, and dense decoding by two engines."""
    parser = racing.arguments(__doc__)
    parser.add_argument(
        "--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS)
    )
    parser.add_argument("--size", type=int, default=100_000, help="rows and columns")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=2, help="of sampling")
    parser.add_argument("--exact-batches", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.quick:
        options.size, options.exact_batches, options.repeats = 2000, 5, 1
    result = racing.Result("reconstruction_sampling", options, __doc__.splitlines()[0])
    for repeat in range(options.repeats):
        for contender in options.contenders:
            spec = {
                "contender": contender,
                "size": options.size,
                "batch": options.batch,
                "n_epochs": options.epochs,
                "exact_batches": options.exact_batches,
                "n_threads": options.threads,
                "repeat": repeat,
            }
            if result.has(**spec):
                continue
            result.add(spec | alone.measure(__file__, spec, options.threads))
            print(_sentence(result.records[-1]), flush=True)
    if not options.quick:
        _judge(result.records)


def measure(spec: dict[str, Any]) -> dict[str, Any]:
    """Train one network; read time, peak and losses."""
    kind, option = spec["contender"].split()
    n = spec["size"]
    X = wide_rows(n + N_TEST, n)[0]
    X, X_test = X[:n], X[n:]
    hashes, test_hashes = row_hashes(X), row_hashes(X_test)
    corruptor = parse_corruption(NOISE).fit(X)
    make = sampled if kind == "sampled" else exact
    network, step = make(_stack(X), option, spec["n_threads"])
    gc.collect()
    is_exact_peak = forget_peak()
    before = peak_mib()
    losses = [_test_loss(network, corruptor, X_test, test_hashes)]
    is_whole = kind == "sampled"
    seconds: dict[str, list[float]] = {"wall": [], "cpu": []}
    for epoch in range(1, spec["n_epochs"] + 1 if is_whole else 2):
        batches = list(_batches(n, spec["batch"], epoch))
        if not is_whole:
            batches = batches[: spec["exact_batches"] + 1]
            _train(step, corruptor, X, hashes, epoch, batches[:1])
            del batches[0]
        wall, cpu = time.perf_counter(), time.process_time()
        _train(step, corruptor, X, hashes, epoch, batches)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        scale = math.ceil(n / spec["batch"]) / len(batches)
        seconds["wall"].append(round(wall * scale, 2))
        seconds["cpu"].append(round(cpu * scale, 2))
        if is_whole:
            losses.append(_test_loss(network, corruptor, X_test, test_hashes))
    peak = peak_mib()
    n_bytes = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    return {
        "epoch_seconds": seconds["wall"],
        "epoch_cpu_seconds": seconds["cpu"],
        "is_scaled": not is_whole,
        "batches_timed": len(batches),
        "test_loss": [round(loss, 2) for loss in losses],  # before, and after epochs
        "peak_mib": peak,
        "before_training_mib": before,
        "data_mib": round(n_bytes / 2**20, 1),
        "peak_forgotten_before_training": is_exact_peak,
    }


def sampled(
    stack: RectifierStack, option: str, n_threads: int
) -> tuple[SampledAutoencoder, Step]:
    """Return a network that samples this share of the zeros, and its step."""
    network = SampledAutoencoder(stack, SGD(RATE), n_threads=n_threads)

    def step(
        clean: Any, corrupted: Any, hashes: NDArray[np.uint64], epoch: int
    ) -> float:
        key = stream_key(0, "reconstruction sampling", epoch)
        chosen = sample_outputs(clean, corrupted, hashes, key, float(option))
        shares = np.full(clean.shape[0], 1 / clean.shape[0], np.float32)
        return network.step(corrupted, chosen, shares, OBJECTIVE.decoder.both)

    return network, step


def exact(stack: RectifierStack, option: str, n_threads: int) -> tuple[Any, Step]:
    """Return a network of this engine, and its step with all outputs."""
    network = build(stack, SGD(RATE), option, n_threads=n_threads)  # type: ignore[arg-type]

    def step(clean: Any, corrupted: Any, hashes: NDArray[np.uint64], _: int) -> float:
        network.bind(corrupted)
        outputs = network.forward_batch(np.arange(len(hashes)))
        shares = np.full(len(hashes), 1 / len(hashes), np.float32)
        loss, delta = OBJECTIVE.loss_and_delta(outputs, clean, shares)
        network.backward_batch(delta)
        return loss

    return network, step


def _train(
    step: Step,
    corruptor: Corruptor,
    X: Any,
    hashes: NDArray[np.uint64],
    epoch: int,
    batches: list[NDArray[np.int64]],
) -> None:
    key = stream_key(0, "corruption", epoch)
    for rows in batches:
        clean = X[rows]
        corrupted = corruptor(clean, hashes[rows], key)
        loss = step(clean, corrupted, hashes[rows], epoch)
        if not math.isfinite(loss):
            raise FloatingPointError(f"diverged with the loss {loss}")


def _batches(n: int, size: int, epoch: int) -> Iterator[NDArray[np.int64]]:
    order = generator(0, "shuffle", epoch).permutation(n)
    return (order[start : start + size] for start in range(0, n, size))


def _test_loss(
    network: Any, corruptor: Corruptor, X: Any, hashes: NDArray[np.uint64]
) -> float:
    """Return the mean loss of test rows with all outputs."""
    key, losses = stream_key(0, "corruption", 0), []
    for start in range(0, X.shape[0], 50):
        rows = slice(start, start + 50)
        corrupted = corruptor(X[rows], hashes[rows], key)
        losses.append(OBJECTIVE.losses(network.forward(corrupted), X[rows]))
    return float(np.concatenate(losses).mean())


def _stack(X: Any) -> RectifierStack:
    """Return first weights; the decoder starts with the mean share of ones."""
    n_columns, rng = X.shape[1], np.random.default_rng(0)
    bound = math.sqrt(6 / (n_columns + N_UNITS))
    density = X.nnz / (X.shape[0] * n_columns)
    W, V = (
        rng.uniform(-bound, bound, shape).astype(np.float32)
        for shape in ((n_columns, N_UNITS), (N_UNITS, n_columns))
    )
    biases: Float32 = np.full(n_columns, math.log(density / (1 - density)), np.float32)
    encoder = Layer(W, np.zeros(N_UNITS), "rectifier")
    return RectifierStack([encoder, Layer(V, biases, "identity")])


def _judge(records: list[dict[str, Any]]) -> None:
    """Fail if sampling is not what it is promised to be."""
    faults = [r for r in records if r["absent"] is not None]
    done = [r for r in records if r["absent"] is None]
    best = {
        kind: min(
            (
                min(r["epoch_cpu_seconds"])
                for r in done
                if r["contender"].startswith(kind)
            ),
            default=math.nan,
        )
        for kind in ("exact", "sampled 0.002")
    }
    ratio = best["exact"] / best["sampled 0.002"]
    print(
        f"the fastest dense decoding takes {ratio:.1f} times the CPU time of sampling"
    )
    faults += [
        r
        for r in done
        if r["contender"].startswith("sampled") and r["peak_mib"] >= LIMIT_MIB
    ]
    if faults or ratio < WANTED_RATIO:
        raise SystemExit(
            f"sampling must stay below {LIMIT_MIB} MiB and be {WANTED_RATIO} times as "
            f"fast as dense decoding: {ratio:.1f} times, {faults}"
        )


def _sentence(record: dict[str, Any]) -> str:
    name = f"{record['contender']}, repeat {record['repeat']}"
    if record["absent"] is not None:
        return f"{name}: {record['absent']}"
    scaled = f" (from {record['batches_timed']} batches)" if record["is_scaled"] else ""
    return (
        f"{name}: epochs of {record['epoch_seconds']} s{scaled}, CPU "
        f"{record['epoch_cpu_seconds']} s, peak {record['peak_mib']:.0f} MiB, test "
        f"loss {record['test_loss']}"
    )


if __name__ == "__main__" and not alone.answer(measure):
    main()
