"""A training run with a checkpoint, in a process of its own, for tests to kill.

``python killed.py CASE PATH [EVERY_SECONDS]`` prints "training" when it begins and at
the end one line: a digest of the weights and of all the history but the seconds.
"""

import hashlib
import json
import sys

import numpy as np
import scipy.sparse as sp

from hardzero import kernels
from hardzero.engine.checkpoint import Checkpoint
from hardzero.engine.initialise import initialise
from hardzero.engine.objectives import Huber, SoftmaxLogLoss
from hardzero.engine.schedules import parse_schedule
from hardzero.engine.train import Settings, Trained, Validation, train
from hardzero.kernels.options import StepOptions
from hardzero.kernels.rules import SGD, Adam

CASES = {
    "adam": {
        "rule": Adam(0.01),
        "options": StepOptions(dropout=(0.1, 0.3, 0.2), seed=1),
        "schedule": "warmup(3)+cosine",
        "patience": 25,
    },
    "lazy": {
        "rule": SGD(0.05, 0.9, nesterov=True, l2=1e-3),
        "options": StepOptions(),
        "schedule": "step(5, 0.8)",
        "patience": None,
    },
    "normalised": {
        "rule": SGD(0.05, 0.5),
        "options": StepOptions(batch_norm=True, clip_norm=1.0, max_norm=2.0),
        "schedule": "constant",
        "patience": None,
        "objective": Huber(),
    },
}


def run(case, checkpoint=None, *, max_epochs=40, engine="auto", **more) -> Trained:
    """Train on rows that depend on nothing but the seed."""
    rng = np.random.default_rng(0)
    X = sp.random_array((300, 40), density=0.1, rng=rng, format="csr", dtype=np.float32)
    y = (X @ rng.standard_normal(40) > 0).astype(np.int64)
    objective = case.get("objective", SoftmaxLogLoss())
    if not isinstance(objective, SoftmaxLogLoss):
        y = np.stack([y, 1 - y], axis=1).astype(np.float32)
    stack = initialise(
        (40, 16, 8, 2),
        ["rectifier"] * 2,
        seed=0,
        output_link=objective.output_link,
    )
    settings = Settings(
        20, max_epochs, 0.01, parse_schedule(case["schedule"]), case["patience"]
    )
    if case["patience"]:
        more["validation"] = Validation(X[200:], y[200:])
        more["rows"] = np.arange(200)
    return train(
        kernels.build(stack, case["rule"], engine=engine, options=case["options"]),
        X,
        y,
        settings=settings,
        seed=0,
        objective=objective,
        checkpoint=checkpoint,
        sample_weight=rng.integers(0, 3, 300).astype(np.float32),
        **more,
    )


def digest(trained) -> str:
    """Return a digest of all that training hands over, but for the seconds."""
    history = json.loads(trained.history.to_json())
    del history["seconds"]
    content = hashlib.sha256(json.dumps(history).encode())
    for name, array in sorted(trained.stack.arrays().items()):
        content.update(name.encode() + array.tobytes())
    return content.hexdigest()


if __name__ == "__main__":
    name, path, *seconds = sys.argv[1:]
    every = float(seconds[0]) if seconds else None
    sys.stdout.write("training\n")
    sys.stdout.flush()
    sys.stdout.write(digest(run(CASES[name], Checkpoint(path, every))))
