"""What torchdiag and dead-relu-viz say of the labelled networks of one seed.

``python diagnosis_contenders.py SEED N`` trains the first N of them and prints one JSON
object a line: the network and the alarms of each tool, named like the findings of
hardzero. torchdiag is given all examples, and gradients over all of them; a layer of
which it calls the share of dead units a warning is an alarm, as is each gradient that
it does not call OK. dead-relu-viz paints layers with dead units red: each is an alarm.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import re
import sys
from typing import Any

from diagnosis_networks import networks

WORDS = {
    "EXPLODE": "exploding-gradient",
    "VANISH": "vanishing-gradient",
    "no_grad": "no-gradient",
}


def main() -> None:
    """Train, ask, print."""
    seed, n_cases = map(int, sys.argv[1:])
    for name, _, make in itertools.islice(networks(), n_cases):
        model, (X, y), loss, _ = make(seed)
        alarms = {
            "torchdiag": torchdiag(model, X, y, loss),
            "dead-relu-viz": dead_relu_viz(model, X, y),
        }
        print(json.dumps({"network": name, "alarms": alarms}), flush=True)


def torchdiag(model: Any, X: Any, y: Any, loss: Any) -> list[str]:
    """Return its alarms about dead units and gradients."""
    import torchdiag as tool

    model.zero_grad()
    loss(model(X), y).backward()
    with contextlib.redirect_stdout(io.StringIO()):
        dead = tool.check_dead_neurons(model, X)
        gradients = tool.check_gradients(model)
    found = {WORDS.get(layer["status"]) for layer in gradients.values()}
    if any(layer["dead_pct"] > 20 for layer in dead.values()):
        found.add("dead-units")
    return sorted(code for code in found if code)


def dead_relu_viz(model: Any, X: Any, y: Any) -> list[str]:
    """Return whether it paints a layer red, from what it prints."""
    import dead_relu_viz as tool
    import torch

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), 256)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(Exception):
        tool.visualization(model, loader, with_activation=True)
    counts = re.findall(r"-> +(\d+) dead", printed.getvalue())
    return ["dead-units"] if any(map(int, counts)) else []


if __name__ == "__main__":
    main()
