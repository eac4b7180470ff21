"""What one pass finds: every way to write a rectifier, the right axis, exact counts."""

import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hardzero.diagnostics.record import record  # noqa: E402
from hardzero.errors import ParameterError  # noqa: E402

nn, F = torch.nn, torch.nn.functional


def batches(X, y=None, size=40):
    """Cut rows into batches."""
    return [
        (X[i : i + size], None if y is None else y[i : i + size])
        for i in range(0, len(X), size)
    ]


def by_hand(h, axis):
    """Count by brute force in how many examples each unit was above 0."""
    h = np.moveaxis(h.detach().numpy(), axis, -1)
    return (h.reshape(len(h), -1, h.shape[-1]) > 0).any(1).sum(0)


class Spelled(nn.Module):
    """A linear map with one spelling of the rectifier behind it."""

    def __init__(self, spelling):
        super().__init__()
        self.map = nn.Linear(5, 7)
        self.module = nn.ReLU()
        self.in_place = nn.ReLU(inplace=True)
        self.spelling = spelling
        with torch.no_grad():
            self.map.bias[:3] = -50

    def forward(self, x):
        """Apply both."""
        return self.spelling(self, self.map(x)) * 1.0


SPELLINGS = {
    "module": lambda model, a: model.module(a),
    "module in place": lambda model, a: model.in_place(a),
    "F.relu": lambda _, a: F.relu(a),
    "F.relu in place": lambda _, a: F.relu(a, inplace=True),
    "torch.relu": lambda _, a: torch.relu(a),
    "relu_": lambda _, a: a.relu_(),
    "clamp": lambda _, a: a.clamp(min=0),
    "torch.clamp": lambda _, a: torch.clamp(a, 0),
    "clip": lambda _, a: a.clip(0),
    "clamp_min": lambda _, a: torch.clamp_min(a, 0),
    "clamp_": lambda _, a: a.clamp_(min=0),
    "maximum": lambda _, a: torch.maximum(a, torch.tensor(0.0)),
    "threshold": lambda _, a: F.threshold(a, 0.0, 0.0),
    "mask": lambda _, a: a * (a > 0),
    "where": lambda _, a: torch.where(a > 0, a, torch.zeros_like(a)),
    "relu6": lambda _, a: F.relu6(a),
    "hardtanh": lambda _, a: F.hardtanh(a, 0.0, 5.0),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_of_a_rectifier_is_counted_exactly(spelling):
    """Modules, functions, methods, clamps and masks, in place or not."""
    torch.manual_seed(0)
    model = Spelled(SPELLINGS[spelling])
    X = torch.randn(200, 5)
    found = record(model, batches(X))
    (units,) = found.sites.values()
    assert units.site.kind == "rectifier"
    assert units.is_sure
    expected = by_hand(torch.relu(model.map(X)), 1)
    np.testing.assert_array_equal(units.fired.numpy(), expected)
    assert units.never_fired.tolist() == [True] * 3 + [False] * 4
    assert (units.n_examples, units.n_units) == (200, 7)


def test_channels_of_convolutions_and_features_of_sequences():
    """The unit axis comes from the layer that made the values."""
    torch.manual_seed(0)
    X = torch.randn(60, 2, 9, 9)
    conv = nn.Sequential(
        nn.Conv2d(2, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 5, 2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(20, 6),
        nn.ReLU(),
    ).eval()
    found = record(conv, batches(X))
    assert [u.n_units for u in found.sites.values()] == [4, 5, 6]
    first = found.sites["2"]
    np.testing.assert_array_equal(first.fired.numpy(), by_hand(conv[:3](X), 1))
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2)
    for training in (True, False):
        encoder.train(training)
        found = record(encoder, batches(torch.randn(60, 7, 8)))
        assert [u.n_units for u in found.sites.values()] == [16, 16]
        assert all(u.n_examples == 60 for u in found.sites.values())
        assert all(u.n_values == 420 for u in found.sites.values())
    recurrent = nn.RNN(4, 5, nonlinearity="relu", batch_first=True)
    (units,) = record(recurrent, batches(torch.randn(60, 3, 4))).sites.values()
    assert (units.n_units, units.n_values) == (5, 180)


def test_a_module_used_twice_is_two_places():
    """A call site is what counts, not the module."""
    shared = nn.ReLU()
    model = nn.Sequential(nn.Linear(4, 6), shared, nn.Linear(6, 3), shared)
    found = record(model, batches(torch.randn(50, 4)))
    assert [u.n_units for u in found.sites.values()] == [6, 3]
    assert list(found.sites) == ["1", "1#2"]


def test_the_model_is_left_bit_for_bit_as_it_was():
    """Mode, parameters, buffers, gradients, random states and hooks."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)
    ).train()
    model[0].eval()
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    gradients = [p.grad.clone() for p in model.parameters()]
    modes = [module.training for module in model.modules()]
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    X, y = torch.randn(90, 4), torch.randint(0, 3, (90,))
    torch.set_rng_state(states[0])
    record(model, batches(X, y), nn.CrossEntropyLoss())
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert torch.equal(parameter.grad, gradient)
    assert modes == [module.training for module in model.modules()]
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1] == random.getstate()
    np.testing.assert_array_equal(states[2], np.random.get_state()[1])  # noqa: NPY002
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


def test_everything_is_put_back_after_an_error():
    """A loss that fails leaves no hook and no other mode behind."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU()).train()

    def broken(*_):
        raise RuntimeError("no loss today")

    with pytest.raises(RuntimeError, match="no loss today"):
        record(model, batches(torch.randn(9, 4)), broken)
    assert model.training
    assert not model[0]._forward_hooks


def test_gradients_of_parameters_and_of_outputs():
    """Squares of gradients add up to those that backward finds, batch by batch."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    X, y = torch.randn(80, 4), torch.randint(0, 3, (80,))
    loss = nn.CrossEntropyLoss()
    found = record(model, batches(X, y), loss)
    expected = 0.0
    for x, t in batches(X, y):
        model.zero_grad()
        loss(model(x), t).backward()
        expected += float(model[0].weight.grad.square().sum())
    assert found.parameters["0.weight"].gradient_squares == pytest.approx(expected)
    assert found.sites["1"].gradient_squares > 0
    assert found.losses == pytest.approx(
        [loss(model(x), t).item() for x, t in batches(X, y)]
    )


def test_zeros_are_counted_by_class_and_example():
    """Shares of zeros of a class are means over its examples."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    X, y = torch.randn(100, 4), torch.randint(0, 2, (100,))
    units = record(model, batches(X, y)).sites["1"]
    zeros = (model[:2](X) == 0).float().mean(1)
    for label in (0, 1):
        count, total = units.by_class[label]
        assert count == int((y == label).sum())
        assert total == pytest.approx(float(zeros[y == label].sum()), rel=1e-5)
    assert units.zero_share == pytest.approx(float(zeros.sum()), rel=1e-5)
    assert units.zeros == pytest.approx(float((model[:2](X) == 0).float().mean()))


def test_bfloat16_counts_the_same():
    """Half precision has the same zeros."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(
        torch.bfloat16
    )
    X = torch.randn(60, 4).to(torch.bfloat16)
    units = record(model, batches(X)).sites["1"]
    np.testing.assert_array_equal(
        units.fired.numpy(), (model[:2](X) > 0).sum(0).numpy()
    )


def test_sequences_that_come_first_are_counted_by_example():
    """A recurrent network by itself says so; within a model the targets do."""
    torch.manual_seed(0)
    recurrent = nn.RNN(4, 5, nonlinearity="relu")
    X = torch.randn(7, 60, 4)
    (units,) = record(recurrent, [(X, None)]).sites.values()
    fires = (recurrent(X)[0] > 0).any(0).sum(0)
    assert (units.n_examples, units.n_values) == (60, 420)
    assert units.fired.tolist() == fires.tolist()

    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.recurrent, self.map = recurrent, nn.Linear(5, 2)

        def forward(self, x):
            return self.map(self.recurrent(x)[0][-1])

    batch = X, torch.randint(0, 2, (60,))
    found = record(Last(), [batch], nn.CrossEntropyLoss())
    (units,) = found.sites.values()
    assert (found.n_examples, units.n_examples) == (60, 60)
    assert units.fired.tolist() == fires.tolist()
    assert len(found.input_sum) == 28
    assert units.by_class.keys() == {0, 1}


@pytest.mark.parametrize(
    ("model", "X"),
    [
        (nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU()), (1, 8, 8)),
        (nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU()), (3, 8, 8)),
        (nn.Sequential(nn.Linear(8, 5), nn.ReLU()), (2, 8)),
        (nn.Sequential(nn.Flatten(0), nn.Unflatten(0, (-1, 8)), nn.Linear(8, 5)), 0),
    ],
)
def test_shares_of_zeros_are_right_whatever_rows_are(model, X):
    """Also where outputs have other rows than there are examples."""
    torch.manual_seed(0)
    if not X:
        model, X = nn.Sequential(model, nn.ReLU()), (40, 4)
    X = torch.randn(*X)
    (units,) = record(model, [(X, None), (X, None)]).sites.values()
    zeros = float((model(X) == 0).float().mean())
    assert units.zeros == pytest.approx(zeros)
    assert units.zero_share / units.n_examples == pytest.approx(zeros)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_gradients_are_taken_wherever_the_call_stands(context):
    """Gradients may be switched off around it; they stay so."""
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    with context():
        X, y = torch.randn(20, 4), torch.zeros(20, dtype=torch.long)
        found = record(model, [(X, y)], nn.CrossEntropyLoss())
        assert not torch.is_grad_enabled()
        made_here = nn.Linear(4, 3)
    assert all(p.has_gradient for p in found.parameters.values())
    if context is torch.inference_mode:
        with pytest.raises(ParameterError, match=r"within torch.inference_mode\(\)"):
            record(made_here, [(X, y)], nn.CrossEntropyLoss())


def test_buffers_that_grow_or_appear_are_put_back():
    """Also those that are replaced, resized, or were None."""

    class Collects(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = nn.Linear(4, 3)
            self.register_buffer("seen", torch.zeros(0, 4))
            self.register_buffer("last", None)
            self.register_buffer("grown", torch.ones(2))

        def forward(self, x):
            self.seen = torch.cat([self.seen, x])
            self.last = x
            self.grown.resize_(5).fill_(3)
            self.register_buffer("new", x.sum())
            return self.map(x).relu()

    model = Collects()
    before = dict(model._buffers)
    record(model, [(torch.randn(9, 4), None)])
    assert list(model._buffers) == list(before)
    assert all(model._buffers[name] is before[name] for name in before)
    assert model.seen.shape == (0, 4)
    assert torch.equal(model.grown, torch.ones(2))


def test_hooks_of_a_training_do_not_run():
    """Hooks on weights and backward hooks stay, and are not called."""
    model, calls = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), []
    model[0].weight.register_hook(lambda _: calls.append("weight"))
    model[2].register_full_backward_hook(lambda *_: calls.append("module"))
    X, y = torch.randn(20, 4), torch.zeros(20, dtype=torch.long)
    record(model, [(X, y)], nn.CrossEntropyLoss())
    assert not calls
    model(X).sum().backward()
    assert sorted(calls) == ["module", "weight"]
