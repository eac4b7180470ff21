"""What it costs to watch a training, as a ratio to the same training unwatched.

A 784-1000-1000-1000-10 perceptron at batches of 10 and 128, and a small transformer, on
random data with SGD. The loop runs in blocks of 10 updates, each block once plain and
once with the tool (networks of their own, the order alternates); a ratio is that of CPU
times of two neighbours, and the result their median and quartiles. ``plain`` against
itself says how far to trust that. ``histograms`` is what loggers of histograms do: one
of each weight and each gradient in every 100th update. cockpit (economy, in every 10th)
and delve (read in every 100th) run with the interpreter given by ``--peers``.
"""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

UPDATES = 10  # in a block: each has one in which more is measured
TOOLS = ("plain", "hardzero", "histograms")
PEERS = {"cockpit": "cockpit-for-pytorch", "delve": "delve"}


def main() -> None:
    """Measure every pair of a tool and a training that has no result yet."""
    import machine
    import racing

    parser = racing.arguments(__doc__)
    parser.add_argument("--peers", help="python that has cockpit-for-pytorch and delve")
    parser.add_argument("--blocks", type=int, default=60)
    options = parser.parse_args()
    if options.quick:
        options.blocks = 4
    peers = options.peers
    options.peers = machine.versions_in(peers, tuple(PEERS.values()))
    result = racing.Result("watch_overhead", options, __doc__.splitlines()[0])
    tools = [(tool, sys.executable) for tool in TOOLS]
    tools += [(tool, peers) for tool in PEERS if peers]
    for name, (tool, python) in itertools.product(TRAININGS, tools):
        key = {"training": name, "tool": tool}
        if not result.has(**key):
            done = subprocess.run(
                [
                    python,
                    "-W",
                    "ignore",
                    __file__,
                    "--one",
                    name,
                    tool,
                    str(options.blocks),
                ],
                capture_output=True,
                text=True,
                check=False,
                env=machine.environment(1),
            )
            if done.returncode:
                found = {"absent": done.stderr.strip().splitlines()[-1][:200]}
            else:
                found = json.loads(done.stdout.splitlines()[-1])
            result.add(key | found)
            print(key | found)


def measure(name: str, tool: str, blocks: int) -> dict[str, Any]:
    """Return the ratio of CPU times with and without a tool, and the plain time."""
    import torch

    torch.set_num_threads(1)
    plain, watched = TRAININGS[name](), TRAININGS[name]()
    around = {
        "plain": unwatched,
        "hardzero": with_hardzero,
        "histograms": with_histograms,
        "cockpit": with_cockpit,
        "delve": with_delve,
    }[tool](*watched)
    steps = [unwatched(*plain), around]
    for step in steps:
        for _ in range(25):  # past the first updates, which are all measured
            step()
    ratios, times = [], []
    blocks *= 6 if name.endswith("batch 10") else 1  # as long, for as little noise
    for block in range(blocks):
        seconds = [0.0, 0.0]
        for which in ((0, 1), (1, 0))[block % 2]:
            started = time.process_time()
            for _ in range(UPDATES):
                steps[which]()
            seconds[which] = time.process_time() - started
        ratios.append(seconds[1] / seconds[0])
        times.append(seconds)
    total = [sum(column) for column in zip(*times, strict=True)]
    low, median, high = statistics.quantiles(ratios, n=4)
    return {
        "ratio_of_sums": round(total[1] / total[0], 4),
        "ratio": round(median, 4),
        "quartiles": [round(low, 4), round(high, 4)],
        "blocks": blocks,
        "plain_ms": round(1000 * total[0] / blocks / UPDATES, 3),
    }


def perceptron(batch: int) -> Callable[[], Any]:
    """Return how to make the perceptron with its data."""

    def make() -> Any:
        import torch
        from torch import nn

        torch.manual_seed(0)
        sizes = (784, 1000, 1000, 1000, 10)
        layers: list[Any] = []
        for a, b in itertools.pairwise(sizes):
            layers += [nn.Linear(a, b), nn.ReLU()]
        model = nn.Sequential(*layers[:-1])
        X, y = torch.randn(20 * batch, 784), torch.randint(0, 10, (20 * batch,))
        return model, X, y, batch

    return make


def transformer() -> Any:
    """Return a small transformer with its data."""
    import torch
    from torch import nn

    torch.manual_seed(0)

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(128, 4, 512, 0.0, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2)
            self.end = nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            return self.end(self.encoder(x).mean(1))

    X, y = torch.randn(20 * 32, 32, 128), torch.randint(0, 10, (20 * 32,))
    return Encoder(), X, y, 32


TRAININGS: dict[str, Callable[[], Any]] = {
    "perceptron, batch 10": perceptron(10),
    "perceptron, batch 128": perceptron(128),
    "transformer, batch 32": transformer,
}


def unwatched(model: Any, X: Any, y: Any, batch: int) -> Callable[[], None]:
    """Return one update."""
    import torch

    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    loss = torch.nn.CrossEntropyLoss()
    starts = itertools.cycle(range(0, len(X), batch))

    def step() -> None:
        start = next(starts)
        part = slice(start, start + batch)
        optimizer.zero_grad()
        loss(model(X[part]), y[part]).backward()
        optimizer.step()

    return step


def with_hardzero(model: Any, X: Any, y: Any, batch: int) -> Callable[[], None]:
    """Return one update that `hardzero.watch` sees."""
    import hardzero

    step = unwatched(model, X, y, batch)
    hardzero.watch(model).__enter__()
    return step


def with_histograms(model: Any, X: Any, y: Any, batch: int) -> Callable[[], None]:
    """Return one update after which histograms are made, now and then."""
    import torch

    step = unwatched(model, X, y, batch)
    numbers = itertools.count(1)

    def logged() -> None:
        step()
        if next(numbers) % 100 == 0:
            for p in model.parameters():
                for values in (p.detach(), p.grad):
                    torch.histc(values, 64).tolist()

    return logged


def with_cockpit(model: Any, X: Any, y: Any, batch: int) -> Callable[[], None]:
    """Return one update with cockpit's economy configuration."""
    import backpack
    import torch
    from cockpit import Cockpit
    from cockpit.utils.configuration import configuration

    backpack.extend(model)
    loss = backpack.extend(torch.nn.CrossEntropyLoss(reduction="mean"))
    single = backpack.extend(torch.nn.CrossEntropyLoss(reduction="none"))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    from cockpit.utils import schedules

    quantities = configuration("economy", track_schedule=schedules.linear(10))
    tool = Cockpit(list(model.parameters()), quantities=quantities)
    starts = itertools.cycle(range(0, len(X), batch))
    numbers = itertools.count()

    def step() -> None:
        start = next(starts)
        part = slice(start, start + batch)
        optimizer.zero_grad()
        outputs = model(X[part])
        value, losses = loss(outputs, y[part]), single(outputs, y[part])
        info = {
            "batch_size": batch,
            "individual_losses": losses,
            "loss": value,
            "optimizer": optimizer,
        }
        with tool(next(numbers), info=info):
            value.backward(create_graph=tool.create_graph(0))
        optimizer.step()

    return step


def with_delve(model: Any, X: Any, y: Any, batch: int) -> Callable[[], None]:
    """Return one update while delve takes covariances."""
    import tempfile

    from delve import SaturationTracker

    step = unwatched(model, X, y, batch)
    folder = tempfile.mkdtemp()
    tool = SaturationTracker(folder, save_to="csv", modules=model, device="cpu")
    numbers = itertools.count(1)

    def tracked() -> None:
        step()
        if next(numbers) % 100 == 0:
            tool.add_saturations()

    return tracked


if __name__ == "__main__":
    if "--one" in sys.argv:
        one = sys.argv.index("--one")
        sys.path.insert(0, str(Path(__file__).parent))
        print(json.dumps(measure(*sys.argv[one + 1 : one + 3], int(sys.argv[one + 3]))))
    else:
        main()
