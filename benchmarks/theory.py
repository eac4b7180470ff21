"""How long exact answers about piecewise-linear networks take, and who counts right.

Cells of random dyadic networks (`reference networks` below; each count is checked
against the published one), thirteen degenerate networks, equality, maxima, a spike that
solvers in floats miss, breakpoints on a segment, least widths and certificates. CPU
seconds of one thread: median and range of three runs. Tools from elsewhere run in a
process of their own with the interpreter given by ``--peers``, if they are installed
there; relucent runs once. About 4 minutes, and 8 more for relucent.
"""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import machine
import numpy as np
import racing

#: Hidden sizes and the numbers of cells on R^d and on [-1, 1]^d.
COUNTS = {
    (2, 16, 16): (450, 225),
    (2, 32, 32): (2034, 1027),
    (2, 64, 64): (7397, 3846),
    (3, 16, 16): (4318, 1431),
    (4, 16, 16): (33196, 5235),
}
LIMIT = 120  # seconds a tool may take for one network
SPIKES = (4, 16, 20, 24, 30, 100, 200)


def main() -> None:
    """Measure everything that has no result yet."""
    parser = racing.arguments(__doc__)
    parser.add_argument(
        "--peers", help="python that has affinitree, regioncam and relucent"
    )
    options = parser.parse_args()
    peers = options.peers
    options.peers = machine.versions_in(peers, ("affinitree", "regioncam", "relucent"))
    result = racing.Result("theory", options, __doc__.splitlines()[0])
    sizes = dict(itertools.islice(COUNTS.items(), 1 if options.quick else None))
    for size, counts in sizes.items():
        for domain, expected in zip((None, [-1, 1]), counts, strict=True):
            case = "-".join(map(str, size))
            where = "box" if domain else "all"
            for tool, python in tools(peers, domain, size[0]):
                key = {"case": case, "where": where, "tool": tool}
                if not result.has(**key):
                    repeats = 1 if tool == "relucent" else 3  # it takes minutes
                    found = run(python, tool, reference(size), domain, repeats)
                    right = found.get("count") == expected
                    if tool == "hardzero" and not right:
                        raise SystemExit(f"{key}: {found}, expected {expected}")
                    result.add(key | found | {"right": right})
    for name, layers, expected in degenerate():
        for domain in (None, [-2, 2]):
            for tool, python in tools(peers, domain, 2):
                where = "box" if domain else "all"
                key = {"case": name, "where": where, "tool": tool}
                if not result.has(**key):
                    found = run(python, tool, layers, domain, repeats=1)
                    right = found.get("count") == expected
                    if tool == "hardzero" and not right:
                        raise SystemExit(f"{key}: {found}, expected {expected}")
                    result.add(key | found | {"right": right})
    for name, measure in ({} if options.quick else answers()).items():
        if not result.has(case=name):
            result.add({"case": name, "where": "", "tool": "hardzero"} | measure())
            print(result.records[-1]["case"], result.records[-1]["cpu_seconds"])


def tools(peers: str | None, domain: Any, n_inputs: int) -> Iterator[tuple[str, str]]:
    """Yield the tools that can count on a domain, and their interpreters."""
    yield "hardzero", sys.executable
    if peers and domain is None:
        yield "affinitree", peers
        yield "relucent", peers
    if peers and domain is not None and n_inputs == 2:
        yield "regioncam", peers


def run(
    python: str, tool: str, layers: Any, domain: Any, repeats: int = 3
) -> dict[str, Any]:
    """Count in child processes; what went wrong stands under ``absent``."""
    script = Path(__file__).with_name("theory_contenders.py")
    task = json.dumps({"layers": layers, "domain": domain})
    found: list[dict[str, Any]] = []
    for _ in range(repeats):
        try:
            done = subprocess.run(
                [python, "-W", "ignore", str(script), tool],
                input=task,
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=True,
                env=machine.environment(1),
            )
        except subprocess.TimeoutExpired:
            return {"absent": f"more than {LIMIT} s"}
        except subprocess.CalledProcessError as error:
            return {"absent": error.stderr.strip().splitlines()[-1][:200]}
        found.append(json.loads(done.stdout))
    seconds = [each["cpu_seconds"] for each in found]
    return {
        "count": found[0]["count"],
        "cpu_seconds": statistics.median(seconds),
        "range": [min(seconds), max(seconds)],
    }


def reference(hidden: tuple[int, ...]) -> list[Any]:
    """Return the layers of a published reference network with one output."""
    rng = np.random.default_rng(0)
    layers = []
    for a, b in itertools.pairwise((*hidden, 1)):
        W = np.round(rng.normal(0, np.sqrt(2 / a), (b, a)) * 256) / 256
        layers.append(
            [W.tolist(), (np.round(rng.normal(0, 0.5, b) * 256) / 256).tolist()]
        )
    return layers


def degenerate() -> Iterator[tuple[str, Any, int]]:
    """Yield thirteen networks with coincident hyperplanes or slivers, and counts."""

    def closed(*layers: Any) -> list[Any]:
        n = len(layers[-1][1])
        return [*map(list, layers), [[[1.0] * n], [0.0]]]

    axes = [[1, 0], [0, 1]]
    yield "three lines through a point", closed(([*axes, [1, 1]], [0] * 3)), 6
    yield "double and opposite", closed(([[1, 0], [-1, 0], [2, 0]], [0] * 3)), 2
    grid = [[1, 0], [1, 0], [0, 1], [0, 1]]
    yield "parallel grid", closed((grid, [0, -1, 0, -1])), 9
    folds = ([[1, 0], [-1, 0], [0, 1], [0, -1]], [0] * 4)
    yield (
        "concurrent across layers",
        closed(folds, ([[1, 1, 1, 1], [1, 1, -1, -1]], [-1, 0])),
        16,
    )
    yield (
        "zero on a region",
        closed((axes, [0, 0]), ([[1, 0], [-1, 0], [1, 1]], [0] * 3)),
        4,
    )
    for e in (10, 20, 24, 30, 40, 52):
        tiny = closed(([*axes, [-1, -1]], [0, 0, 2.0**-e]))
        yield f"triangle of 2^-{e}", tiny, 7
    yield "sliver", closed(([[1, 0], [1, 2.0**-30]], [0, 0])), 4
    yield (
        "without biases",
        closed(
            ([[1, 2], [-2, 1], [3, -1], [1, 1]], [0] * 4),
            ([[1, -1, 1, 0], [-1, 1, 0, 1], [2, -1, -1, 1], [0, 1, -1, -1]], [0] * 4),
        ),
        12,
    )


def answers() -> dict[str, Callable[[], dict[str, Any]]]:
    """Return the other measurements by name; what they need is made before."""
    from hardzero import theory
    from hardzero.stack import Layer, RectifierStack

    def stack(seed: int, *sizes: int, dtype: Any = np.float64) -> RectifierStack:
        rng = np.random.default_rng(seed)
        pairs = list(itertools.pairwise(sizes))
        return RectifierStack(
            tuple(
                Layer(
                    rng.normal(size=(a, b)).astype(dtype),
                    rng.normal(size=b).astype(dtype),
                    "identity" if k == len(pairs) - 1 else "rectifier",
                )
                for k, (a, b) in enumerate(pairs)
            )
        )

    def copy(layers: Any, change: float = 0.0, unit: int = 0) -> Any:
        """Return hidden units in another order and scale, one bias changed."""
        rng = np.random.default_rng(2)
        first, *others = [(np.array(W).T, np.array(b)) for W, b in layers]
        first[1][unit] += change
        n = len(first[1])
        order = rng.permutation(n)
        scale = 2.0 ** rng.integers(-2, 3, n)
        W, b = first[0][:, order] * scale, first[1][order] * scale
        above = others[0][0][order] / scale[:, None], others[0][1]
        return theory.rational_network([(W, b), above, *others[1:]])

    def network(layers: Any) -> Any:
        return theory.rational_network([(np.array(W).T, b) for W, b in layers])

    def is_equal(f: Any, g: Any, domain: Any = None) -> Callable[[], bool]:
        return lambda: bool(theory.equal(f, g, domain))

    shallow = stack(1, 50, 1000, 1)
    rows = [[layer.W.T.tolist(), layer.b.tolist()] for layer in shallow.layers]
    image = stack(3, 784, 256, 256, 10, dtype=np.float32)
    ends = list(np.random.default_rng(4).random((2, 784)))
    plane, wide = reference((2, 64, 64)), reference((4, 16, 16))
    in_plane, in_space = network(plane), network(wide)
    box = (-1, 1)
    # 30 kinks and a linear part that no set of them makes up.
    first, last = stack(5, 3, 30, 1).layers
    tilted = theory.rational_network(
        [
            (
                np.hstack([first.W, [[1, -1], [2, -2], [3, -3]]]),
                np.hstack([first.b, [0, 0]]),
            ),
            (np.vstack([last.W, [[1], [-1]]]), last.b),
        ]
    )
    certificate: list[Any] = []

    def certify() -> str:
        certificate[:] = [theory.linear_regions(in_space).certificate()]
        return repr(certificate[0])

    tiny = 2.0**-40
    return {
        "equal, 50-1000, permuted copy": timed(
            is_equal(shallow, copy(rows)), expected=True
        ),
        "equal, 50-1000, bias + 2^-40": timed(
            is_equal(shallow, copy(rows, tiny)), expected=False
        ),
        "equal, 2-64-64 on a box, permuted copy": timed(
            is_equal(in_plane, copy(plane), box), expected=True
        ),
        # Of all 64 units the one whose change takes longest to find.
        "equal, 2-64-64 on a box, bias + 2^-40": timed(
            is_equal(in_plane, copy(plane, tiny, 48), box), expected=False
        ),
        "equal, 4-16-16 on a box, permuted copy": timed(
            is_equal(in_space, copy(wide), box), expected=True
        ),
        "equal, 4-16-16 on a box, bias + 2^-40": timed(
            is_equal(in_space, copy(wide, tiny), box), expected=False
        ),
        "maximum, 2-64-64 on a box": timed(
            lambda: float(theory.maximum(in_plane, box).value)
        ),
        "maximum, 4-16-16 on a box": timed(
            lambda: float(theory.maximum(in_space, box).value)
        ),
        "maximum of a spike, k up to 200": timed(
            lambda: [exact_spike(k) for k in SPIKES], expected=[True] * len(SPIKES)
        ),
        "the same by scipy.optimize.milp": timed(
            lambda: [milp_spike(k) for k in SPIKES]
        ),
        "breakpoints, 784-256-256-10, exact": timed(
            lambda: theory.along(image, ends).n_transitions
        ),
        "breakpoints, 784-256-256-10, floats": timed(
            lambda: theory.along(image, ends, exact=False).n_transitions
        ),
        "least width, 30 kinks and a linear part": timed(
            lambda: theory.least_width(tilted).width
        ),
        "certificate, 4-16-16 on R^4, made": timed(certify, repeats=1),
        "certificate, 4-16-16 on R^4, checked": timed(
            lambda: theory.verify(certificate[0]) if certificate else certify(),
            repeats=1,
        ),
    }


def exact_spike(k: int) -> bool:
    """Find the maximum 1/2 of a spike of width 2^-k, exactly."""
    from hardzero import theory

    half, h = Fraction(1, 2), Fraction(1, 2 ** (k + 1))
    biases = [-half, -half - h, -half - 2 * h]
    weights = [[2**k], [-(2 ** (k + 1))], [2**k]]
    spike = theory.rational_network([([[1] * 3], biases), (weights, [0])])
    found = theory.maximum(spike, (0, 1))
    return (found.value, found.argument) == (half, (half + h,))


def milp_spike(k: int) -> bool:
    """Find it by a mixed-integer program in floats: x, three units, three switches."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    h = 2.0 ** -(k + 1)
    biases = np.array([-0.5, -0.5 - h, -0.5 - 2 * h])
    gain = np.array([2.0**k, -(2.0 ** (k + 1)), 2.0**k])
    rows, low, high = [], [], []
    for i, b in enumerate(biases):
        unit, switch = np.eye(7)[1 + i], np.eye(7)[4 + i]
        x = np.eye(7)[0]
        rows += [unit - x, unit - x + 2 * switch, unit - 2 * switch]
        low += [b, -np.inf, -np.inf]
        high += [np.inf, b + 2, 0.0]
    found = milp(
        np.concatenate([[0], -gain, [0] * 3]),
        integrality=[0] * 4 + [1] * 3,
        bounds=Bounds([0.0] * 7, [1.0] * 7),
        constraints=LinearConstraint(np.array(rows), low, high),
    )
    if found.x is None:
        return False
    x = Fraction(found.x[0])
    units = [max(x + Fraction(b), Fraction(0)) for b in biases]
    value = sum(Fraction(g) * u for g, u in zip(gain, units, strict=True))
    return abs(value - Fraction(1, 2)) < 1e-3 and abs(-found.fun - 0.5) < 1e-3


def timed(
    answer: Callable[[], Any], repeats: int = 3, expected: Any = None
) -> Callable[[], dict[str, Any]]:
    """Return a function that measures an answer, and stops if it is wrong."""

    def measure() -> dict[str, Any]:
        seconds = []
        found = None
        for _ in range(repeats):
            started = time.process_time()
            found = answer()
            seconds.append(round(time.process_time() - started, 4))
            if expected is not None and found != expected:
                raise SystemExit(f"the answer is {found}, expected {expected}")
        return {
            "answer": found,
            "cpu_seconds": statistics.median(seconds),
            "range": [min(seconds), max(seconds)],
        }

    return measure


if __name__ == "__main__":
    main()
