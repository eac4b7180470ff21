"""The automatic plan beside the better of always skipping and never skipping.

1000-1000-1000-1000-10 with 1 % to 100 % of the inputs and hidden units active, batches
of 1, 10, 100 and 1000, training steps and predictions. ``hardzero`` chooses per layer
and pass; it must never be slower than the better of its own sparse kernels, its own
dense ones and BLAS by hand by more than 5 %.
"""

from __future__ import annotations

from typing import Any

import racing
import tasks
from racing import Contender

DENSITIES = (1, 3, 5, 10, 17, 25, 35, 50, 70, 100)
BATCHES = (10, 1, 100, 1000)

PASSES = {
    "step": "training_contenders",
    "predict": "inference_contenders",
}
BY_HAND = {"step": "numpy_by_hand", "predict": "numpy_forward"}


def main() -> None:
    """Run the races that the command line asks for."""
    parser = racing.arguments(__doc__)
    racing.pace_arguments(parser)
    parser.add_argument(
        "--densities", type=int, nargs="+", default=DENSITIES, metavar="PERCENT"
    )
    parser.add_argument(
        "--batches", type=int, nargs="+", default=BATCHES, metavar="ROWS"
    )
    parser.add_argument("--passes", nargs="+", choices=PASSES, default=list(PASSES))
    options = parser.parse_args()
    if options.quick:
        options.densities, options.batches = (5, 50), options.batches[:1]
    result = racing.Result("never_lose", options, __doc__.splitlines()[0])
    names = [f"layers-{density}" for density in options.densities]
    abouts = tasks.require(*names)
    for n_threads in options.threads:
        for density, name in zip(options.densities, names, strict=True):
            for batch in options.batches:
                for which in options.passes:
                    case = {
                        "task": name,
                        "batch": batch,
                        "n_threads": n_threads,
                        "learning_rate": learning_rate(density),
                    }
                    if result.has(**{"pass": which}, **case):
                        continue
                    print(f"{density} % active, batch {batch}, {which}")
                    times = racing.race(_contenders(which), case, racing.pace(options))
                    racing.show(times, n_threads)
                    loss = loss_to_best(times, n_threads)
                    if loss is not None:
                        print(f"  slower than the best of the others by {loss:.1%}")
                    record = case | {"pass": which, "density": density, "loss": loss}
                    result.add(record | {"about": abouts[name], "contenders": times})


def learning_rate(density: int) -> float:
    """Return a rate at which a race's steps leave the active units as they were."""
    return 1e-3 if density <= 50 else 1e-5  # many positive inputs: gradients add up


def loss_to_best(times: list[dict[str, Any]], n_threads: int) -> float | None:
    """Return by how much the first contender is slower than the best of the others.

    Parameters
    ----------
    times : list of dict
        Records of a race.
    n_threads : int
        At 1 the ratios of CPU times count, else those of wall times.

    Returns
    -------
    float or None
        0.05 for 5 % slower, negative if it is faster; None without a comparison.
    """
    ratios = [racing.record_ratio(record, n_threads == 1) for record in times[1:]]
    found = [ratio for ratio in ratios if ratio is not None]
    return round(1 / min(found) - 1, 4) if found else None


def _contenders(which: str) -> list[Contender]:
    module = PASSES[which]
    return [
        Contender("hardzero", module, "hardzero", {"engine": "auto"}),
        Contender("hardzero sparse only", module, "hardzero", {"engine": "sparse"}),
        Contender("hardzero dense", module, "hardzero", {"engine": "dense"}),
        Contender("NumPy by hand", module, BY_HAND[which]),
    ]


if __name__ == "__main__":
    main()
