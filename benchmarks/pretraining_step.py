"""Time of one denoising step: hardzero beside PyTorch and dense code by hand.

Auto-encoders of one layer in the shapes of Glorot, Bordes & Bengio 2011, trained here
(`pretraining_tasks.py`): 784-1000-784 and 1000-1000-1000 on images, 5000-5000-5000 on
bags of words; plain SGD in the paper's batches of 10, and of 100. Each is raced twice:
the ``kernels`` alone, that is products and update for given noisy rows and deltas, and
the whole ``step`` with noise and loss. About 5 minutes on 2 cores, of which it uses
one, and as long once more to train the auto-encoders.

How much can be gained is limited, for the decoder puts out and learns from every
feature. Per row, with d features, n units, a share p of non-zeros in the noisy input, q
in the hidden layer, and r of pairs of an input and a unit that are both active (about p
q), the multiplications with additions are, in units of d n:

=======================  ==========  ==============  ==================================
product                  dense code  without zeros   why
=======================  ==========  ==============  ==================================
encoder, forward         1           p               rows of W with an active input
decoder, forward         1           q               rows of V with an active unit
deltas back to units     1           q               the slope of the others is 0
update of the decoder    1           q               rows of V with an active unit
update of the encoder    1           r               active input and active unit
=======================  ==========  ==============  ==================================

No skipping of zeros can therefore be faster than dense code of the same speed per
multiplication by more than

    limit of the kernels = 5 / (p + 3 q + r)

which is below 5 / (3 q) however sparse the input is; beside code that skips the zeros
of the input, but not those of the hidden layer, the 5 is 3 + 2 p. In the whole step the
other contender's time outside of its kernels, spent on noise and loss over all d
outputs, remains (Amdahl): with its times T of a step and K of the kernels,

    limit of the step = T / (K / limit of the kernels + T - K)

A ratio above its limit is not a mistake: it means that the other code needs more time
per multiplication, because it makes more passes over the weights than it has to or
waits for memory.
"""

from __future__ import annotations

from typing import Any

import pretraining_tasks
import racing
import tabular
from racing import Contender

MODULE = "pretraining_contenders"
PARTS = ("kernels", "step")

#: Small, so that thousands of steps leave the zeros where they are.
LEARNING_RATE = 1e-4

BATCHES = {
    "image-layer1": (10, 100),
    "image-layer1-83": (10, 100),
    "image-layer2": (10, 100),
    "text-layer1-29": (10,),
    "text-layer1-54": (10,),
}

#: Factory and its options by name; the first is the base of the ratios.
CONTENDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "hardzero": ("hardzero", {"engine": "auto"}),
    "hardzero dense": ("hardzero", {"engine": "dense"}),
    "NumPy + sgemm by hand": ("numpy_by_hand", {}),
    "PyTorch by hand": ("torch_by_hand", {}),
    "PyTorch by hand, bags": ("torch_by_hand", {"bags": True}),
    "PyTorch": ("torch_eager", {}),
    "EmbeddingBag(sparse)": ("torch_embedding_bag", {}),
}

#: What tables call the tasks.
NETWORKS = {
    "image-layer1": "images",
    "image-layer1-83": "images, more L1",
    "image-layer2": "images, layer 2",
    "text-layer1-29": "text",
    "text-layer1-54": "text, more L1",
}

ONLY_SPARSE = ("PyTorch by hand, bags", "EmbeddingBag(sparse)")

#: Those that skip zeros of the input where it is sparse.
SKIP_INPUTS = ("hardzero dense", *ONLY_SPARSE)

Record = dict[str, Any]


def main() -> None:
    """Run the races that the command line asks for."""
    parser = racing.arguments(__doc__)
    racing.pace_arguments(parser)
    parser.add_argument(
        "--tasks",
        nargs="+",
        choices=BATCHES,
        default=list(BATCHES),
        metavar="TASK",
        help="which of " + ", ".join(BATCHES),
    )
    options = parser.parse_args()
    if tabular.find_folder(pretraining_tasks.TEXT_FOLDER) is None:
        print(f"left out, for want of {pretraining_tasks.TEXT_FOLDER}: text")
        options.tasks = [name for name in options.tasks if not name.startswith("text")]
    result = racing.Result("pretraining_step", options, __doc__.splitlines()[0])
    abouts = pretraining_tasks.require(*options.tasks)
    for n_threads in options.threads:
        for task in options.tasks:
            for batch in BATCHES[task][:1] if options.quick else BATCHES[task]:
                case = {
                    "task": task,
                    "batch": batch,
                    "n_threads": n_threads,
                    "learning_rate": LEARNING_RATE,
                }
                for part in PARTS:
                    if result.has(part=part, **case):
                        continue
                    print(f"{task}, batch {batch}, {n_threads} threads, {part}")
                    contenders = _contenders(part, abouts[task])
                    times = racing.race(contenders, case, racing.pace(options))
                    racing.show(times, n_threads)
                    result.add(
                        case
                        | {"part": part, "about": abouts[task]}
                        | {"contenders": times}
                    )
                add_limits([r for r in result.records if case.items() <= r.items()])
                result.write()


def add_limits(records: list[Record]) -> None:
    """Add to each contender how much faster than it one can be, and what is reached.

    Parameters
    ----------
    records : list of dict
        Both parts of one case; at one thread times are CPU times, else wall times. All
        contenders but the first get ``limit`` and ``reached``, the ratio over it. The
        step gets ``outside_kernels``, a share of the time of the first.
    """
    by_part = {record["part"]: record for record in records}
    kernels = {c["name"]: c for c in by_part["kernels"]["contenders"]}
    clock = "cpu_ms" if records[0]["n_threads"] == 1 else "wall_ms"
    inside, whole = (by_part[part]["contenders"][0][clock]["median"] for part in PARTS)
    by_part["step"]["outside_kernels"] = round(1 - inside / whole, 3)
    for part in PARTS:
        record = by_part[part]
        for contender in record["contenders"][1:]:
            products = kernels.get(contender["name"], {})
            ratio = racing.record_ratio(contender, record["n_threads"] == 1)
            if ratio is None or "cpu_ms" not in products:
                continue
            limit = kernels_limit(record["about"], contender["name"])
            if part == "step":
                whole, inside = (c[clock]["median"] for c in (contender, products))
                limit = whole / (inside / limit + max(whole - inside, 0.0))
            contender["limit"] = round(limit, 3)
            contender["reached"] = round(ratio / limit, 3)


def kernels_limit(about: Record, contender: str) -> float:
    """Return how much faster than a contender's products those without zeros can be.

    Parameters
    ----------
    about : dict
        Shares of non-zeros in the task.
    contender : str
        Name of the contender.

    Returns
    -------
    float
        Its multiplications over those without zeros, see the module's docstring.
    """
    p, q, pairs = (about[name] for name in ("noisy_nonzero", "hidden_nonzero", "pairs"))
    skips = about["is_sparse"] and contender in SKIP_INPUTS
    return float((3 + 2 * p if skips else 5) / (p + 3 * q + pairs))


def _contenders(part: str, about: Record) -> list[Contender]:
    return [
        Contender(name, MODULE, factory, options | {"part": part})
        for name, (factory, options) in CONTENDERS.items()
        if about["is_sparse"] or name not in ONLY_SPARSE
    ]


if __name__ == "__main__":
    main()
