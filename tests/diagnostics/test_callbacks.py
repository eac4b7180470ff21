"""Callbacks: trainings that frameworks run are watched from beginning to end.

The frameworks themselves are heavy. So the order in which each calls its callbacks is
played here; with those that are installed a training is run as well.
"""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from hardzero.errors import ParameterError

torch = pytest.importorskip("torch")
nn = torch.nn

from hardzero.diagnostics import callbacks  # noqa: E402


def network():
    """Return a small perceptron."""
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))


def rows():
    """Return rows and labels."""
    X = torch.randn(64, 6, generator=torch.Generator().manual_seed(0))
    return X, (X[:, 0] > 0).long()


def train(model, updates=20, around=lambda: None):
    """Take steps of SGD."""
    X, y = rows()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(updates):
        around()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(X), y).backward()
        optimizer.step()


@pytest.fixture
def installed(monkeypatch):
    """Return how to put a module with a class into the place of a framework."""

    def install(name, **content):
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            module = ModuleType(".".join(parts[:end]))
            monkeypatch.setitem(sys.modules, module.__name__, module)
        vars(module).update(content)

    return install


class Plain:
    """A framework's class of callbacks."""


def test_lightning_starts_and_ends_the_watch(installed):
    """Also at an exception, which lightning tells its callbacks of."""
    installed("lightning.pytorch.callbacks", Callback=Plain)
    for end in ("on_train_end", "on_exception"):
        callback, model = callbacks.lightning(every=5), network()
        callback.on_train_start(None, model)
        train(model)
        getattr(callback, end)(*[None] * (2 if end == "on_train_end" else 3))
        assert callback.watch.n_updates == 20
        assert not model._forward_hooks
        assert isinstance(callback, Plain)


def test_lightning_under_its_older_name(installed, monkeypatch):
    """pytorch_lightning has the same class."""
    monkeypatch.setitem(sys.modules, "lightning.pytorch.callbacks", None)
    installed("pytorch_lightning.callbacks", Callback=Plain)
    assert isinstance(callbacks.lightning(), Plain)


def test_skorch_watches_the_module(installed):
    """The network of PyTorch within the estimator is watched."""
    installed("skorch.callbacks", Callback=Plain)
    callback, model = callbacks.skorch(), network()
    net = SimpleNamespace(module_=model)
    callback.on_train_begin(net, X=None, y=None)
    train(model)
    callback.on_train_end(net, X=None, y=None)
    assert list(callback.watch.units) == ["1"]


def test_transformers_watches_the_model(installed):
    """The trainer hands its model over by name."""
    installed("transformers", TrainerCallback=Plain)
    callback, model = callbacks.transformers(), network()
    callback.on_train_begin(None, None, None, model=model, optimizer=None)
    train(model)
    callback.on_train_end(None, None, None, model=model)
    assert callback.watch.n_updates == 20


def test_keras_counts_batches(installed):
    """Without PyTorch's hooks an update is a batch, and calls are seen in some."""
    backend = SimpleNamespace(backend=lambda: "torch")
    installed("keras", callbacks=SimpleNamespace(Callback=Plain), backend=backend)
    callback, model = callbacks.keras(), network()
    callback.model = model
    callback.on_train_begin()
    X, y = rows()
    for batch in range(20):
        callback.on_train_batch_begin(batch, logs=None)
        h = nn.functional.relu(X @ model[0].weight.t())  # by no module's forward
        loss = nn.functional.cross_entropy(h @ model[2].weight.t(), y)
        (gradient,) = torch.autograd.grad(loss, [model[2].weight])
        with torch.no_grad():
            model[2].weight -= 0.1 * gradient
        callback.on_train_batch_end(batch, logs=None)
    callback.on_train_end()
    assert callback.watch.n_updates == 20
    assert list(callback.watch.units) == ["model"]
    expected = float((h == 0).float().mean())
    assert callback.watch.records[-1]["zeros/model"] == pytest.approx(expected)


def test_keras_needs_the_backend(installed):
    """Other backends hold no modules of PyTorch."""
    backend = SimpleNamespace(backend=lambda: "jax")
    installed("keras", callbacks=SimpleNamespace(Callback=Plain), backend=backend)
    with pytest.raises(ParameterError, match="Keras runs on jax, expected torch"):
        callbacks.keras()


@pytest.mark.parametrize("name", ["lightning", "skorch", "transformers", "keras"])
def test_missing_frameworks_are_named(name, monkeypatch):
    """The message says what to install."""
    for module in (
        *("lightning.pytorch.callbacks", "pytorch_lightning.callbacks", "keras"),
        *("skorch.callbacks", "transformers"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ParameterError, match=f"pip install {name}"):
        getattr(callbacks, name)()


def test_a_training_by_skorch():
    """The real one calls what is played above."""
    skorch = pytest.importorskip("skorch")
    callback, (X, y) = callbacks.skorch(), rows()
    skorch.NeuralNetClassifier(
        network(),
        criterion=nn.CrossEntropyLoss,
        max_epochs=5,
        batch_size=16,
        callbacks=[callback],
        verbose=0,
    ).fit(X.numpy(), np.asarray(y))
    assert callback.watch.n_updates > 10


@pytest.mark.filterwarnings("ignore::FutureWarning")  # between lightning and PyTorch
def test_a_training_by_lightning():
    """The real one calls what is played above."""
    lightning = pytest.importorskip("lightning")

    class Task(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = network()

        def training_step(self, batch, _):
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    callback = callbacks.lightning()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*rows()), 16)
    lightning.Trainer(
        max_epochs=5,
        callbacks=[callback],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        accelerator="cpu",
    ).fit(Task(), loader)
    assert callback.watch.n_updates == 20
    assert list(callback.watch.units) == ["net.1"]
