"""The axis of units, followed through whatever a model does with its signals."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from hardzero.diagnostics.axes import Before, UnitAxes  # noqa: E402
from hardzero.diagnostics.record import record  # noqa: E402

nn, F = torch.nn, torch.nn.functional

N, UNITS, DEAD = 12, 6, (1, 4)
WAYS = {
    "nothing": lambda h: h,
    "transpose": lambda h: h.unsqueeze(2).transpose(1, 2),
    "transpose by keywords": lambda h: h.unsqueeze(1).transpose(dim0=1, dim1=2),
    "permute": lambda h: h.view(N, 1, UNITS).permute(2, 0, 1).permute(1, 2, 0),
    "permute by keyword": lambda h: h.unsqueeze(-1).permute(dims=(0, 2, 1)),
    "permute, negative": lambda h: torch.permute(h.unsqueeze(-1), (-3, -1, -2)),
    "movedim": lambda h: h.unsqueeze(-1).movedim(1, 2),
    "moveaxis by keywords": lambda h: torch.moveaxis(
        h[..., None], source=1, destination=2
    ),
    "swapaxes": lambda h: h.unsqueeze(-1).swapaxes(1, 2),
    "swapdims": lambda h: h.unsqueeze(-1).swapdims(-1, -2),
    "mT": lambda h: h.unsqueeze(-1).mT,
    "in place": lambda h: h.clone().unsqueeze_(-1).transpose_(1, 2),
    "unsqueeze of a middle axis": lambda h: h.unsqueeze(1).expand(N, 3, UNITS),
    "squeeze": lambda h: h.view(N, 1, UNITS, 1).squeeze(),
    "None": lambda h: h[:, None, :, None],
    "Ellipsis": lambda h: h[None, ..., None][0],
    "select": lambda h: torch.stack([h, h], 1)[:, 1],
    "stack at the front": lambda h: torch.stack([h, h], dim=1).transpose(1, 2),
    "stack at the end": lambda h: torch.stack([h, h], -1),
    "sum over positions": lambda h: torch.stack([h, h], 1).sum(1),
    "mean over positions behind": lambda h: torch.stack([h, h], 2).mean(-1),
    "maximum over positions": lambda h: torch.stack([h, h], 2).max(dim=2).values,
    "reshape": lambda h: h.reshape(N, 1, UNITS, 1).reshape(-1, UNITS),
    "merge of examples and positions": lambda h: torch.stack([h, h], 1).view(-1, UNITS),
    "unflatten": lambda h: h.unflatten(0, (N, 1)),
    "broadcast from below": lambda h: torch.ones(N, 2, UNITS) * h[:, None],
    "broadcast of a mask": lambda h: torch.ones(2, 1, 1) * h,
    "chunk": lambda h: torch.cat([h, h], 1).chunk(2, dim=1)[0],
    "split": lambda h: torch.cat([h, h], 0).split(N)[1],
    "unbind": lambda h: torch.stack([h, h], 2).unbind(2)[1],
    "flip": lambda h: h.flip(0),
    "repeat": lambda h: h.repeat(2, 1),
    "where": lambda h: torch.where(torch.ones(N, 1, dtype=bool), h, torch.zeros(N, 1)),
    "slice": lambda h: torch.cat([h, h], 1)[:, :UNITS],
    "narrow": lambda h: torch.cat([h, h], 1).narrow(1, 0, UNITS),
}


class Turned(nn.Module):
    """A linear map with two dead units, what comes behind it, and a rectifier."""

    def __init__(self, way):
        super().__init__()
        self.below, self.way = nn.Linear(4, UNITS), way
        with torch.no_grad():
            self.below.bias.fill_(9)
            self.below.bias[list(DEAD)] = -9

    def forward(self, x):
        """Return one number."""
        return F.relu(self.way(self.below(x))).sum()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_units_are_found_behind(way):
    """The two dead units are found, whichever axis they lie on by then."""
    torch.manual_seed(0)
    found = record(Turned(way), [(torch.rand(N, 4), None)])
    (units,) = found.sites.values()
    assert units.is_sure
    assert units.never_fired.nonzero()[0].tolist() == list(DEAD)
    assert units.zeros == pytest.approx(len(DEAD) / UNITS)
    assert units.zero_share / units.n_examples == pytest.approx(len(DEAD) / UNITS)


def test_as_many_units_as_examples():
    """A square matrix that is turned is not taken for the one before."""
    torch.manual_seed(0)
    below = nn.Linear(3, 8)
    with torch.no_grad():
        below.bias.fill_(9)
        below.bias[5] = -9
    model = nn.Sequential(below)
    model.forward = lambda x: F.relu(below(x).T).T
    (units,) = record(model, [(torch.rand(8, 3), None)]).sites.values()
    assert units.never_fired.nonzero()[0].tolist() == [5]


PRODUCTS = {
    "W @ x.T": lambda W, x: W @ x.T,
    "mm": lambda W, x: torch.mm(W, x.t()),
    "einsum": lambda W, x: torch.einsum("oi,bi->ob", W, x),
    "einsum, weights second": lambda W, x: torch.einsum("bi, oi -> bo", x, W),
    "x @ W.T": lambda W, x: x @ W.T,
    "addmm": lambda W, x: torch.addmm(torch.zeros(6, 1), W, x.T),
}


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_products_with_weights_on_either_side(product):
    """The axis of units is that of the weights, in W x as in x W."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            W = torch.ones(6, 4)
            W[2] = -1
            self.W = nn.Parameter(W)

        def forward(self, x):
            return product(self.W, x).relu()

    (units,) = record(Model(), [(torch.rand(N, 4) + 0.1, None)]).sites.values()
    assert units.never_fired.nonzero()[0].tolist() == [2]


def test_channels_of_a_convolution_whatever_comes_between():
    """Channels stay units behind pooling, and under means over positions."""
    torch.manual_seed(0)
    below = nn.Conv2d(1, 5, 3)
    with torch.no_grad():
        below.bias.fill_(9)
        below.bias[3] = -99
    for behind in (
        nn.Identity(),
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        nn.PixelUnshuffle(1),
    ):
        model = nn.Sequential(below, behind, nn.ReLU())
        (units,) = record(model, [(torch.rand(N, 1, 8, 8), None)]).sites.values()
        assert units.is_sure
        assert units.never_fired.nonzero()[0].tolist() == [3]
    flat = nn.Sequential(below, nn.Flatten(), nn.ReLU())
    (units,) = record(flat, [(torch.rand(N, 1, 8, 8), None)]).sites.values()
    assert units.n_units == 5 * 36
    assert int(units.never_fired.sum()) == 36


STEPS = {
    "transpose": lambda h, i, j: h.transpose(i, j),
    "permute": lambda h, i, _: h.permute(*range(i, h.ndim), *range(i)),
    "movedim": lambda h, i, j: h.movedim(i, j),
    "unsqueeze": lambda h, i, _: h.unsqueeze(i),
    "None": lambda h, i, _: h[(slice(None),) * i + (None,)],
    "squeeze": lambda h, i, _: h.squeeze(i),
    "select": lambda h, i, _: h.select(i, h.shape[i] - 1),
    "narrow": lambda h, i, _: h.narrow(i, 0, max(h.shape[i] - 1, 1)),
    "mean": lambda h, i, _: h.mean(i),
    "amax": lambda h, i, j: h.amax(i, keepdim=j > 1),
    "stack": lambda h, i, _: torch.stack([h, h], i),
    "cat": lambda h, i, _: torch.cat([h, h], i),
    "flip": lambda h, i, _: h.flip(i),
    "relu": lambda h, *_: h.relu(),
    "contiguous": lambda h, *_: h.contiguous(),
    "expand": lambda h, i, _: h.unsqueeze(i).expand(*h.shape[:i], 2, *h.shape[i:]),
    "add": lambda h, *_: h + torch.zeros(2, *[1] * h.ndim),
    "chunk": lambda h, i, _: h.chunk(2, i),
    "flatten": lambda h, i, _: h.flatten(i, min(i + 1, h.ndim - 1)),
    "reshape": lambda h, i, _: h.reshape(*h.shape[:i], 1, *h.shape[i:]),
}
STEP = st.tuples(st.sampled_from(list(STEPS)), st.integers(0, 5), st.integers(0, 5))
# Along the units these leave one, mix them, or repeat them.
OTHER_AXES_ONLY = {"select", "mean", "amax", "squeeze", "cat", "flatten"}


class Following(torch.overrides.TorchFunctionMode):
    """Hand each call to a `UnitAxes`."""

    def __init__(self, axes):
        super().__init__()
        self.axes = axes

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """Call, and follow."""
        before = Before(args[0] if torch.is_tensor(args[0]) else None, self.axes)
        out = func(*args, **(kwargs or {}))
        results = out if isinstance(out, (tuple, list)) else (out,)
        if torch.is_tensor(results[0]):
            self.axes.follow(func, func.__name__, args, kwargs or {}, before, results)
        return out


@given(st.lists(STEP, max_size=6))
@settings(max_examples=200, deadline=None)
def test_the_axis_is_right_behind_any_chain_of_steps(steps):
    """Along it, and nowhere else, the number of the unit changes."""
    axes = UnitAxes()
    ids = torch.arange(5.0).expand(3, 2, 5)  # each number is that of its unit
    with Following(axes):
        h = F.linear(torch.ones(3, 2, 1), torch.ones(5, 1))
    known = axes.get(h)
    for name, i, j in steps:
        i, j = i % h.ndim, j % h.ndim
        if name in OTHER_AXES_ONLY and known in (
            {i, i + 1} if name == "flatten" else {i}
        ):
            continue
        with Following(axes):
            out = STEPS[name](h, i, j)
        of_ids = STEPS[name](ids, i, j)
        h, ids = (o if torch.is_tensor(o) else o[0] for o in (out, of_ids))
        known = axes.get(h)
        assert known is not None, name
        rows = ids.movedim(known, -1).reshape(-1, ids.shape[known])
        assert bool((rows == rows[0]).all()), name
        assert len(rows[0].unique()) == len(rows[0]), name
