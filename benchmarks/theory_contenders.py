"""Count the cells of one network with one tool, in a process of its own.

``python theory_contenders.py TOOL`` reads a JSON list of layers (W as rows of outputs,
b) and a domain, null or [low, high], from standard input, and prints a JSON object with
the count and the CPU seconds that it took. Tools are ``hardzero``, ``affinitree``,
``regioncam`` and ``relucent``; those from elsewhere are imported only here.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import Any


def main() -> None:
    """Read, count, print."""
    task = json.load(sys.stdin)
    count = {
        "hardzero": hardzero,
        "affinitree": affinitree,
        "regioncam": regioncam,
        "relucent": relucent,
    }
    with silence():
        n_cells, seconds = count[sys.argv[1]](task["layers"], task["domain"])
    print(json.dumps({"count": n_cells, "cpu_seconds": round(seconds, 4)}))


def hardzero(layers: Any, domain: Any) -> tuple[int, float]:
    """Count activation patterns, exactly."""
    from hardzero import theory

    started = time.process_time()
    network = theory.rational_network(
        [([list(column) for column in zip(*W, strict=True)], b) for W, b in layers]
    )
    regions = theory.linear_regions(network, domain)
    return sum(1 for _ in regions), time.process_time() - started


def affinitree(layers: Any, domain: Any) -> tuple[int, float]:
    """Count the leaves of the decision tree; on all inputs only."""
    import affinitree as tool
    import numpy as np

    if domain is not None:
        raise SystemExit("affinitree takes all inputs")
    started = time.process_time()
    architecture = tool.Architecture(len(layers[0][0][0]))
    for number, (W, b) in enumerate(layers):
        architecture.linear(
            tool.AffFunc.from_mats(np.array(W, float), np.array(b, float))
        )
        if number < len(layers) - 1:
            architecture.relu()
    tree = tool.builder.from_layers(architecture)
    return tree.num_terminals(), time.process_time() - started


def regioncam(layers: Any, domain: Any) -> tuple[int, float]:
    """Count faces in the plane; on boxes around 0 only."""
    import numpy as np
    import regioncam as tool

    if domain is None or len(layers[0][0][0]) != 2:
        raise SystemExit("regioncam takes boxes in the plane")
    started = time.process_time()
    camera = tool.Regioncam(size=float(domain[1]))
    for W, b in layers[:-1]:
        camera.linear(np.array(W, np.float32).T.copy(), np.array(b, np.float32))
        camera.relu()
    return camera.num_faces, time.process_time() - started


def relucent(layers: Any, domain: Any) -> tuple[int, float]:
    """Count the polyhedra that a search from cell to cell finds; on all inputs only."""
    import numpy as np
    import relucent as tool
    import torch

    if domain is not None:
        raise SystemExit("relucent takes all inputs")
    modules: list[Any] = []
    for W, b in layers:
        linear = torch.nn.Linear(len(W[0]), len(b)).double()
        with torch.no_grad():
            linear.weight.copy_(torch.tensor(np.array(W, float)))
            linear.bias.copy_(torch.tensor(np.array(b, float)))
        modules += [linear, torch.nn.ReLU()]
    started = os.times()
    complex_ = tool.Complex(torch.nn.Sequential(*modules[:-1]))
    start = np.random.default_rng(0).normal(size=len(layers[0][0][0]))
    complex_.bfs(torch.tensor(start), nworkers=1)
    ended = os.times()
    own = ended.user + ended.system - started.user - started.system
    of_children = ended.children_user + ended.children_system
    return len(complex_), own + of_children


@contextlib.contextmanager
def silence() -> Any:
    """Keep what tools print away from the answer."""
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)


if __name__ == "__main__":
    main()
