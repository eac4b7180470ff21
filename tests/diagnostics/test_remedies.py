"""Remedies keep what they promise: functions to the bit, sizes, and the argument."""

import copy
import inspect
import itertools
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hardzero import diagnose, remedies  # noqa: E402
from hardzero.errors import ParameterError  # noqa: E402

nn, F = torch.nn, torch.nn.functional
SEEDS = range(8)


def perceptron(seed, activation=nn.ReLU, dtype=torch.float32):
    """Return a perceptron with units of very different scales, and inputs."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(5, 9),
        activation(),
        nn.Dropout(0.3),
        nn.Sequential(nn.Linear(9, 7, bias=False), nn.BatchNorm1d(7), activation()),
        nn.Linear(7, 6),
        activation(),
        nn.Linear(6, 3),
    )
    return scrambled(model, dtype), torch.randn(40, 5, dtype=dtype)


def convolutions(seed, activation=nn.ReLU, dtype=torch.float32, groups=1):
    """Return a convolutional network of that kind, and inputs."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1, groups=groups),
        nn.BatchNorm2d(6),
        activation(),
        nn.MaxPool2d(2, padding=1),
        nn.Conv2d(6, 5, 2, padding="same", padding_mode="circular", bias=groups == 1),
        activation(),
        nn.Dropout2d(0.2),
        nn.AvgPool2d(2, padding=1),
        nn.Flatten(),
        nn.Linear(5 * 3 * 3, 8),
        activation(),
        nn.Linear(8, 3),
    )
    return scrambled(model, dtype), torch.randn(20, 2, 8, 8, dtype=dtype)


def grouped(seed, activation, dtype):
    """Return one whose first layer works in groups."""
    return convolutions(seed, activation, dtype, groups=2)


def scrambled(model, dtype):
    """Scale each unit by up to a thousand, and fill the statistics."""
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(torch.exp(torch.randn(len(p), *[1] * (p.ndim - 1)) * 2))
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.running_mean.normal_()
                module.running_var.uniform_(0.2, 2)
                module.bias.normal_()
                module.weight.mul_(torch.randn(len(module.weight)).sign())
    return model.to(dtype)


def kill(layer, units):
    """Give some units of a layer a bias that nothing outweighs."""
    with torch.no_grad():
        layer.bias[units] = -1e8


def state(model):
    """Return all that a model remembers, by name."""
    values = {k: v.clone() for k, v in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    return values, modes


def assert_same_state(model, before):
    """Fail if anything in a model changed."""
    values, modes = state(model)
    assert modes == before[1]
    assert values.keys() == before[0].keys()
    for name, value in values.items():
        assert torch.equal(value, before[0][name]), name


MAKERS = {"perceptron": perceptron, "convolutions": convolutions}
ALL = {
    "rebalance": lambda m, _: remedies.rebalance(m),
    "prune": lambda m, X: remedies.prune_dead(m, X),
    "revive": lambda m, X: remedies.revive(m, X),
    "rescale": lambda m, X: remedies.rescale_inputs(m, X),
    "he": lambda m, _: remedies.initialise(m),
    "lsuv": lambda m, X: remedies.initialise(m, "lsuv", X),
}


@pytest.mark.parametrize("remedy", ALL)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_the_argument_is_left_alone(remedy, make):
    """Remedies return a copy, and change neither the model nor its modes nor data."""
    model, X = make(0)
    kill(model[4] if make is perceptron else model[9], [0, 1])
    model[1].train()
    model[-1].eval()
    before, data = state(model), X.clone()
    changed = ALL[remedy](model, X)
    assert_same_state(model, before)
    assert torch.equal(X, data)
    assert not set(changed.parameters()) & set(model.parameters())
    if remedy != "rescale":
        modes = [module.training for module in changed.modules()]
        assert modes == before[1]


def test_names_load_on_first_use_and_are_documented(monkeypatch):
    """Without PyTorch the message says what to install."""
    for name in remedies.__all__:
        assert inspect.getdoc(getattr(remedies, name))
    assert dir(remedies) == remedies.__all__
    with pytest.raises(AttributeError, match="no attribute 'reballance'"):
        remedies.reballance  # noqa: B018
    monkeypatch.delitem(vars(remedies), "rebalance")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ParameterError, match=r"rebalance needs PyTorch.*pip install"):
        remedies.rebalance  # noqa: B018
    code = "import hardzero, sys; hardzero.remedies; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_a_diagnosis_after_the_remedy_finds_nothing():
    """Dead units are named before, and are gone after revival and after pruning."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 3))
    kill(model[0], range(38))
    X, y = torch.randn(4000, 6), torch.randint(0, 3, (4000,))
    loss = nn.CrossEntropyLoss()
    codes = [f.code for f in diagnose(model, (X, y), loss).findings]
    assert "dead-units" in codes
    for mended in (
        remedies.revive(model, X, form="data"),
        remedies.prune_dead(model, X),
    ):
        codes = [f.code for f in diagnose(mended, (X, y), loss).findings]
        assert "dead-units" not in codes


# ---------------------------------------------------------------- rebalance


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("activation", [nn.ReLU, lambda: nn.LeakyReLU(0.3), nn.PReLU])
@pytest.mark.parametrize("make", [perceptron, convolutions, grouped])
def test_rebalancing_changes_no_bit(make, activation, dtype):
    """Outputs are the same bits, in training, with dropout and batch statistics, and in
    evaluation, in every dtype.
    """
    for seed in SEEDS:
        model, X = make(seed, activation, dtype)
        balanced = remedies.rebalance(model)
        assert any(
            not torch.equal(a, b)
            for a, b in zip(model.parameters(), balanced.parameters(), strict=True)
        )
        for is_training in (False, True):
            outputs = []
            for each in (model, balanced):
                torch.manual_seed(seed)
                outputs.append(each.train(is_training)(X))
            assert torch.equal(*outputs)
            assert bool(torch.isfinite(outputs[0]).all())


@pytest.mark.parametrize("seed", SEEDS)
def test_norms_into_and_out_of_units_differ_by_less_than_two(seed):
    """Every unit with weights on both sides ends within a factor of two, and the sum
    of squares does not grow.
    """
    torch.manual_seed(seed)
    model = nn.Sequential(
        *itertools.chain(*([nn.Linear(6, 6), nn.ReLU()] for _ in range(12))),
        nn.Linear(6, 2),
    )
    scrambled(model, torch.float32)
    with torch.no_grad():
        model[4].weight[:, 3] = 0  # nothing reads unit 3
    balanced = remedies.rebalance(model)
    for i in range(0, 24, 2):
        first, second = balanced[i], balanced[i + 2]
        into = torch.cat([first.weight, first.bias[:, None]], 1).norm(dim=1)
        out = second.weight.norm(dim=0)
        ratios = torch.log2(out / into)
        assert (ratios[torch.isfinite(ratios)].abs() <= 1.001).all()
        assert torch.isfinite(ratios).sum() == (5 if i == 2 else 6)

    def squares(m):
        return sum(float(p.detach().double().square().sum()) for p in m.parameters())

    assert squares(balanced) < squares(model)


def test_weights_that_would_leave_the_range_of_a_dtype_stay():
    """A unit whose weights would lose digits as subnormal numbers is not scaled."""
    model = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1)).half()
    with torch.no_grad():
        model[0].weight[:] = torch.tensor([[6e4], [1.0]])
        model[0].bias[:] = torch.tensor([6.1e-5 * 1.25, 0.0])
        model[2].weight[:] = torch.tensor([[1e-4, 64.0]])
    balanced = remedies.rebalance(model)
    assert torch.equal(balanced[0].weight[0], model[0].weight[0])
    assert balanced[0].weight[1, 0] == 8
    assert balanced[2].weight[0, 1] == 8


@pytest.mark.parametrize("activation", [nn.ReLU6, nn.Tanh, nn.ELU, nn.Hardtanh])
def test_units_of_other_functions_stay(activation):
    """Functions that are not homogeneous keep their weights."""
    model, _ = perceptron(0, activation)
    balanced = remedies.rebalance(model)
    for a, b in zip(model.parameters(), balanced.parameters(), strict=True):
        assert torch.equal(a, b)


def test_layers_between_are_left_out():
    """Weights around a layer of another kind stay, those elsewhere do not."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(3, 4),
        nn.LayerNorm(4),
        nn.ReLU(),
        nn.Linear(4, 4),
        nn.ReLU(),
        nn.Linear(4, 2),
    )
    with torch.no_grad():
        model[5].weight *= 1000
    balanced = remedies.rebalance(model)
    assert torch.equal(balanced[0].weight, model[0].weight)
    assert not torch.equal(balanced[3].weight, model[3].weight)
    X = torch.randn(9, 3)
    assert torch.equal(balanced(X), model(X))


def test_weights_that_are_not_finite_are_refused():
    """The message names the layers."""
    model, _ = perceptron(0)
    with torch.no_grad():
        model[4].weight[0, 0] = torch.nan
    with pytest.raises(ParameterError, match=r"layer '4' \(Linear\).*not finite"):
        remedies.rebalance(model)


# ---------------------------------------------------------------- chains


class Residual(nn.Module):
    """Something else than a chain."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(4, 4)

    def forward(self, x):
        """Add."""
        return x + F.relu(self.map(x))


CHAINS = {
    "rebalance": lambda m: remedies.rebalance(m),
    "prune": lambda m: remedies.prune_dead(m, torch.zeros(2, 4)),
    "revive": lambda m: remedies.revive(m, torch.zeros(2, 4)),
    "he": lambda m: remedies.initialise(m),
}


@pytest.mark.parametrize("remedy", CHAINS.values(), ids=CHAINS)
def test_what_is_no_chain_is_refused(remedy):
    """Models of other classes, tied parameters, and hooks."""
    with pytest.raises(ParameterError, match=r"the model is a Residual"):
        remedy(Residual())
    layer = nn.Linear(4, 4)
    with pytest.raises(ParameterError, match=r"'0.weight' and '2.weight' are one"):
        remedy(nn.Sequential(layer, nn.ReLU(), layer))
    hooked = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    hooked[1].register_forward_hook(lambda _, __, y: y + 1)
    with pytest.raises(ParameterError, match=r"layer '1' \(ReLU\) has hooks"):
        remedy(hooked)


FLATTENED = {
    "flatten": lambda x: torch.flatten(x, 1),
    "method": lambda x: x.flatten(start_dim=1),
    "view": lambda x: x.view(x.size(0), -1),
    "shape": lambda x: x.reshape(x.shape[0], -1),
}


class Written(nn.Module):
    """A chain written as a forward method, as most are."""

    def __init__(self, flatten):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6))
        self.conv = nn.Conv2d(6, 5, 3, padding=1)
        self.drop = nn.Dropout2d()
        self.one, self.two = nn.Linear(5 * 9, 12), nn.Linear(12, 3)
        self.flatten = flatten

    def forward(self, x):
        """Apply all."""
        x = F.max_pool2d(F.relu(self.features(x), inplace=True), 2, stride=1)
        x = F.leaky_relu(self.drop(self.conv(x)).relu(), 0.1)
        x = F.relu(self.one(self.flatten(F.adaptive_avg_pool2d(x, 3))))
        x = F.dropout(x, 0.3, training=self.training)
        return F.log_softmax(self.two(x), dim=1)


@pytest.mark.parametrize("flatten", FLATTENED.values(), ids=FLATTENED)
def test_chains_written_as_forward_methods_are_followed(flatten):
    """Functions count as the layers that they are."""
    for seed in range(3):
        torch.manual_seed(seed)
        model = scrambled(Written(flatten), torch.float64)
        kill(model.features[1], [4])
        kill(model.conv, [1, 2])
        kill(model.one, [7])
        X = torch.randn(30, 1, 8, 8, dtype=torch.float64)
        balanced = remedies.rebalance(model)
        for layer in ("conv", "one", "two"):
            assert not torch.equal(
                getattr(balanced, layer).weight, getattr(model, layer).weight
            )
        for is_training in (True, False):
            outputs = []
            for each in (model, balanced):
                torch.manual_seed(seed)
                outputs.append(each.train(is_training)(X))
            assert torch.equal(*outputs)
        box = torch.full((1, 8, 8), 5.0)
        for pruned in (
            remedies.prune_dead(model, X),
            remedies.prune_dead(model, domain=(-box, box)),
        ):
            assert type(pruned) is Written
            torch.testing.assert_close(pruned(X), model(X))
            assert pruned.conv.in_channels <= 5
            assert pruned.one.in_features <= 27
            assert pruned.two.in_features <= 11
        revived = remedies.revive(model, X, form="data")
        assert torch.equal(revived(X), model(X))
        assert remedies.revive_(revived, X) == {}
    fresh = remedies.initialise(model)
    weights = fresh.one.weight.detach()
    assert float(weights.var()) == pytest.approx(2 / 45, rel=0.2)


class Odd(nn.Module):
    """Models whose forward method is no chain."""

    def __init__(self, how):
        super().__init__()
        self.a, self.b, self.how = nn.Linear(4, 4), nn.Linear(4, 4), how

    def forward(self, x):
        """Apply them somehow."""
        return self.how(self, x)


ODD = {
    "one layer twice": (
        lambda m, x: m.a(F.relu(m.b(F.relu(m.a(x))))),
        r"layer 'a' runs at 2 places",
    ),
    "branches": (
        lambda m, x: m.b(F.relu(m.a(x))) + x,
        r"is a Odd whose forward method is no chain of layers: add",
    ),
    "weights by hand": (
        lambda m, x: F.linear(F.relu(m.b(x)), m.a.weight),
        r"no chain of layers: a_weight reads more",
    ),
    "training": (
        lambda m, x: m.b(F.relu(m.a(x)) if m.training else m.a(x)),
        r"runs other layers in training than in evaluation",
    ),
    "by value": (
        lambda m, x: m.a(x) if x.sum() > 0 else m.b(x),
        r"cannot be traced \(.*control flow",
    ),
}


@pytest.mark.parametrize("remedy", CHAINS.values(), ids=CHAINS)
@pytest.mark.parametrize(("how", "message"), ODD.values(), ids=ODD)
def test_forward_methods_that_are_no_chains_are_refused(remedy, how, message):
    """What is read twice, by hand, or now and then cannot be changed unnoticed."""
    with pytest.raises(ParameterError, match=message):
        remedy(Odd(how))


def test_a_view_that_puts_examples_together_is_no_flattening():
    """The number of examples is that of the inputs only until a step changes it."""

    class Halves(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv1d(2, 3, 2), nn.Linear(2 * 3 * 4, 1)

        def forward(self, x):
            n = x.size(0)
            h = F.relu(self.a(x.view(-1, 2, 5)))
            return self.b(h.view(n, -1))

    torch.manual_seed(0)
    model = Halves()
    kill(model.a, [1])
    with pytest.raises(ParameterError, match="no chain of layers: view_1 reads more"):
        remedies.prune_dead(model, torch.randn(8, 4, 5))


def test_dropout_that_never_ends_is_not_taken_for_the_usual():
    """``F.dropout`` without ``training`` drops units in evaluation, too."""
    torch.manual_seed(0)
    model = Odd(lambda m, x: m.b(F.dropout(F.relu(m.a(x)), 0.5)))
    kill(model.a, [1])
    with pytest.raises(ParameterError, match=r"'dropout' \(Step\) is not seen through"):
        remedies.prune_dead(model, torch.randn(100, 4))


def test_one_rectifier_module_at_two_places_is_fine():
    """A module without parameters may be used again."""
    torch.manual_seed(0)
    relu = nn.ReLU(inplace=True)
    model = nn.Sequential(nn.Linear(4, 5), relu, nn.Linear(5, 6), relu, nn.Linear(6, 2))
    with torch.no_grad():
        model[2].bias += 10  # all of them fire
    kill(model[0], [1])
    kill(model[2], [0, 4])
    X = torch.randn(50, 4)
    pruned = remedies.prune_dead(model, X)
    assert [len(pruned[i].weight) for i in (0, 2, 4)] == [4, 4, 2]
    torch.testing.assert_close(pruned(X), model(X))


# ---------------------------------------------------------------- prune_dead


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("form", ["data", "box"])
def test_pruned_perceptrons_compute_the_same(seed, form):
    """Units that never fire are gone, names and modes are kept, outputs equal."""
    model, X = perceptron(seed, dtype=torch.float64)
    kill(model[0], [0, 4])
    kill(model[3][1], [2])  # a normalisation in front of the rectifier
    kill(model[4], [1, 2, 5])
    model.eval()
    if form == "data":
        pruned = remedies.prune_dead(model, X)
    else:
        pruned = remedies.prune_dead(model, domain=(-5, 5))
    assert list(pruned.state_dict()) == list(model.state_dict())
    n = len(pruned[0].weight), len(pruned[3][0].weight), len(pruned[4].weight)
    assert all(a <= b for a, b in zip(n, (7, 6, 3), strict=True))
    assert pruned[3][1].num_features == n[1]
    assert (pruned[0].out_features, pruned[4].in_features) == n[:2]
    torch.testing.assert_close(pruned(X), model(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("form", ["data", "box"])
def test_pruned_convolutions_compute_the_same(seed, form):
    """Channels are units; a flattened channel is a block of features."""
    model, X = convolutions(seed, dtype=torch.float64)
    kill(model[1], [0, 3])
    kill(model[9], [7])
    model.eval()
    corner = torch.full((2, 8, 8), 4.0)
    if form == "data":
        pruned = remedies.prune_dead(model, X)
    else:
        pruned = remedies.prune_dead(model, domain=(-corner, corner))
    assert pruned[0].out_channels == pruned[1].num_features == pruned[4].in_channels
    assert pruned[0].out_channels <= 4
    assert pruned[9].out_features <= 7
    torch.testing.assert_close(pruned(X), model(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_small_whole_numbers_stay_equal_to_the_bit(seed):
    """Where no sum rounds, neither does the smaller network."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv1d(2, 6, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(24, 8),
        nn.ReLU(),
        nn.Linear(8, 3),
    ).double()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randint(-4, 5, p.shape))
        model[0].bias[::2] = -500
        model[3].bias[1] = -50000
    X = torch.randint(-9, 10, (64, 2, 4)).double()
    box = torch.full((2, 4), 9.0)
    for pruned in (
        remedies.prune_dead(model, X),
        remedies.prune_dead(model, domain=(-box, box)),
    ):
        assert pruned[0].out_channels == 3
        assert torch.equal(pruned(X), model(X))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_input_of_a_box_makes_a_pruned_unit_fire(seed):
    """Random networks with units at the edge: what is taken out fires nowhere, at
    corners neither, in float32 as it is computed, which some units do that never fire
    in real numbers.
    """
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(30, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 1)
    )
    with torch.no_grad():
        reach = model[0].weight.double().abs().sum(1)  # exact bounds are about 0
        model[0].bias.copy_(-reach * (1 + 1e-5 * torch.randn(300)))
        edge = (-reach).float()
        below = torch.nextafter(edge, torch.full_like(edge, -torch.inf))
        edge = torch.where(edge.double() > -reach, below, edge)
        model[0].bias[::2] = edge[::2]  # these never fire in real numbers
        model[2].bias.uniform_(-1e-5, 0)
        model[2].weight.copy_(-model[2].weight.abs())
        model[2].bias[::3] = 0
    pruned = remedies.prune_dead(model, domain=(-1, 1))
    kept = {tuple(row.tolist()) for row in pruned[0].weight}
    gone = [
        i for i, row in enumerate(model[0].weight) if tuple(row.tolist()) not in kept
    ]
    assert 20 < len(gone) < 280
    corners = model[0].weight.detach().sign()  # where each unit is at its highest
    X = torch.cat([corners, torch.rand(2000, 30) * 2 - 1])
    with torch.no_grad():
        z = model[0](X)
        assert float(z[:, gone].max()) <= 0
        assert float(z[:, ::2].max()) > 0  # but in float32
        torch.testing.assert_close(pruned(X), model(X))


def test_a_bound_of_zero_that_rounding_may_lift_is_no_proof():
    """In real numbers the unit never fires; in floats it does."""
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1)).double()
    with torch.no_grad():
        model[0].weight[:] = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
        model[0].bias[:] = torch.tensor([-0.6, -0.6 - 1e-12], dtype=torch.float64)
        model[0].weight.copy_(model[0].weight[:, [2, 1, 0]])
    pruned = remedies.prune_dead(model, domain=(-1, 1))
    assert pruned[0].bias.tolist() == [-0.6]


def test_units_without_weights_are_dead_in_any_box():
    """Zeros do not round: a unit whose weights and bias are 0 goes, and what reads only
    such units, too.
    """
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1)
    )
    with torch.no_grad():
        model[0].weight[1:3] = 0
        model[0].bias[1:3] = 0
        model[2].weight[0, [0, 3]] = 0
        model[2].bias.abs_()
        model[2].bias[0] = 0
    pruned = remedies.prune_dead(model, domain=(-100, 100))
    assert [layer.out_features for layer in pruned[::2]] == [2, 2, 1]


@pytest.mark.parametrize("training", [False, True])
def test_a_normalisation_behind_a_rectifier_goes_into_the_next_bias(training):
    """A unit that never fires is a constant there; the bias is made if need be."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv1d(2, 5, 3),
        nn.ReLU(),
        nn.BatchNorm1d(5),
        nn.AvgPool1d(2),
        nn.Conv1d(5, 4, 2, bias=False),
        nn.Flatten(),
        nn.Linear(4 * 4, 6),
        nn.ReLU(),
        nn.PReLU(6),
        nn.BatchNorm1d(6),
        nn.Tanh(),
        nn.Linear(6, 2),
    )
    scrambled(model, torch.float64)
    kill(model[0], [1, 2])
    kill(model[6], [0])
    model.train(training)
    X = torch.randn(30, 2, 12, dtype=torch.float64)
    pruned = remedies.prune_dead(model, X)
    assert pruned.training is training
    assert pruned[4].bias is not None
    assert (pruned[0].out_channels, pruned[2].num_features) == (3, 3)
    torch.testing.assert_close(pruned.eval()(X), model.eval()(X))
    box = torch.full((2, 12), 4.0)
    pruned = remedies.prune_dead(model, domain=(-box, box))
    torch.testing.assert_close(pruned(X), model(X))


def test_constants_in_front_of_zero_padding_are_refused():
    """There a constant unit is not the same at the border."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.ReLU(),
        nn.BatchNorm2d(4),
        nn.Conv2d(4, 2, 3, padding=1),
    )
    scrambled(model, torch.float32)
    kill(model[0], [2])
    X = torch.randn(8, 1, 6, 6)
    with pytest.raises(ParameterError, match=r"layer '3' \(Conv2d\), whose zero pad"):
        remedies.prune_dead(model, X)
    model[3] = nn.Conv2d(4, 2, 3, padding=1, padding_mode="reflect")
    pruned = remedies.prune_dead(model, X)
    torch.testing.assert_close(pruned.eval()(X), model.eval()(X))
    model[3] = nn.Sequential(nn.AvgPool2d(2, padding=1), nn.Conv2d(4, 2, 1))
    with pytest.raises(ParameterError, match=r"'3.0' \(AvgPool2d\), which averages"):
        remedies.prune_dead(model, X)


def test_leaky_units_and_outputs_stay():
    """A leaky unit that never fires passes signals on, and outputs are outputs."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(3, 4), nn.LeakyReLU(), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)
    )
    model.append(nn.ReLU())
    kill(model[0], [0, 1])
    kill(model[4], [2])
    pruned = remedies.prune_dead(model, torch.randn(3000, 3))
    assert pruned[0].out_features == 4
    assert pruned[4].out_features == 3


def test_one_unit_of_a_dead_layer_is_kept():
    """No layer ends with width 0."""
    torch.manual_seed(0)
    model, X = perceptron(0)
    kill(model[4], range(6))
    pruned = remedies.prune_dead(model, X)
    assert pruned[4].out_features == 1
    torch.testing.assert_close(pruned.eval()(X), model.eval()(X))


def test_frozen_parameters_stay_frozen():
    """Smaller parameters require a gradient if the larger ones did."""
    model, X = perceptron(0)
    kill(model[4], [0])
    model[4].weight.requires_grad = False
    pruned = remedies.prune_dead(model, X)
    assert not pruned[4].weight.requires_grad
    assert pruned[4].bias.requires_grad


@pytest.mark.parametrize(
    ("between", "message"),
    [
        ([nn.ReLU(), nn.Softmax(-1)], r"layer '2' \(Softmax\) is not seen through"),
        ([nn.LayerNorm(4), nn.ReLU()], r"layer '1' \(LayerNorm\) is not seen thr"),
        ([nn.ReLU(), Residual()], r"layer '2' \(Residual\) is not seen through"),
    ],
)
def test_units_behind_layers_of_other_kinds_are_refused(between, message):
    """The message names the layer, and how many units are meant."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), *between, nn.Linear(4, 2))
    X = torch.randn(9, 3)
    assert remedies.prune_dead(model, X)[0].out_features <= 4
    with torch.no_grad():
        model[0].weight[1] = -(model[0].weight[1].abs()) - 5
    with pytest.raises(ParameterError, match=f"[12] units of layer '0'.*{message}"):
        remedies.prune_dead(model, X.abs() + 1)


def test_a_normalisation_of_positions_is_refused():
    """Behind flattening it does not treat a channel as one unit."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv1d(2, 3, 2),
        nn.Flatten(),
        nn.BatchNorm1d(12),
        nn.ReLU(),
        nn.Linear(12, 2),
    )
    kill(model[0], [1])
    message = r"layer '2' \(BatchNorm1d\) does not normalise the units of layer '0'"
    with pytest.raises(ParameterError, match=message):
        remedies.prune_dead(model, torch.randn(9, 2, 5))


def test_grouped_convolutions_are_refused():
    """A unit belongs to a group on both sides."""
    torch.manual_seed(0)
    layers = [nn.Conv1d(4, 4, 1, groups=2), nn.ReLU(), nn.Conv1d(4, 4, 1)]
    X = torch.randn(9, 4, 5)
    for chain in (layers, [layers[2], layers[1], layers[0]]):
        model = nn.Sequential(*copy.deepcopy(chain))
        kill(model[0], [1])
        with pytest.raises(ParameterError, match="is a grouped convolution"):
            remedies.prune_dead(model, X)


def test_arguments_of_pruning_are_checked():
    """Either data or a box that is one."""
    model, X = perceptron(0)
    with pytest.raises(ParameterError, match=r"either data.*got none"):
        remedies.prune_dead(model)
    with pytest.raises(ParameterError, match=r"either data.*got both"):
        remedies.prune_dead(model, X, domain=(0, 1))
    with pytest.raises(ParameterError, match=r"expected \(lower, upper\)"):
        remedies.prune_dead(model, domain=3)
    with pytest.raises(ParameterError, match="lower <= upper"):
        remedies.prune_dead(model, domain=(1, 0))
    with pytest.raises(ParameterError, match="not finite"):
        remedies.prune_dead(model, domain=(0, np.inf))
    images, _ = convolutions(0)
    with pytest.raises(ParameterError, match=r"layer '0' \(Conv2d\) is no linear"):
        remedies.prune_dead(images, domain=(0, 1))
    with pytest.raises(ParameterError, match="no batches"):
        remedies.prune_dead(model, [])
    with pytest.raises(ParameterError, match=r"shape \(4,\).*'0' \(Linear\) takes 5"):
        remedies.prune_dead(model, domain=(np.zeros(4), np.ones(4)))
    with pytest.raises(ParameterError, match=r"shape \(1, 3, 3\).* takes 2 channels"):
        remedies.prune_dead(images, domain=(np.zeros((1, 3, 3)), 1))
    with pytest.raises(ParameterError, match="inputs are tuple, expected tensors"):
        remedies.prune_dead(model, [(X, X, X)])
    model[1] = nn.GELU()
    with pytest.raises(ParameterError, match=r"layer '1' \(GELU\) has no bounds"):
        remedies.prune_dead(model, domain=(0, 1))


# ---------------------------------------------------------------- revive


def firing_rates(chain, X):
    """Return for each unit in which share of examples and positions it is above 0."""
    h = chain(X)
    return (
        (h > 0).double().flatten(2).mean((0, 2))
        if h.ndim > 2
        else (h > 0).double().mean(0)
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("form", ["redo", "data"])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_revived_networks_compute_the_same_on_the_data(make, form, seed):
    """Weights out of revived units are 0, so that no bit changes; in the form "data"
    all of them fire on about half of the data.
    """
    model, X = make(seed, dtype=torch.float64)
    last = model[4] if make is perceptron else model[9]
    kill(last, [0, 3])
    kill(model[3][1] if make is perceptron else model[1], [1])
    model.eval()
    revived = remedies.revive(model, X, form=form)
    assert torch.equal(revived(X), model(X))
    ends = (2, 5, 6) if make is perceptron else (3, 6, 11)
    ends = (2, 4, 6) if make is perceptron else ends
    for end in ends:
        before = firing_rates(model[:end], X)
        after = firing_rates(revived[:end], X)
        dead = before == 0
        assert torch.equal(after[~dead], before[~dead])
        if form == "data":
            assert bool(((after[dead] > 0.1) & (after[dead] < 0.9)).all())
    assert firing_rates(model[: ends[-1]], X)[0] == 0
    assert revived[-1].weight[:, 0].abs().max() == 0
    gradients = torch.autograd.grad(revived(X).square().sum(), revived[-1].weight)[0]
    if form == "data":
        assert bool((gradients[:, [0, 3]] != 0).all())


def test_pre_activations_of_revived_units_are_centred_and_scaled():
    """Mean 0 over the data and the mean variance of the other units, behind a
    normalisation as well; a whole dead layer gets variance 1.
    """
    for seed in SEEDS:
        torch.manual_seed(seed)
        model = nn.Sequential(
            nn.Conv1d(2, 6, 3),
            nn.ReLU(),
            nn.Conv1d(6, 5, 2, bias=False),
            nn.BatchNorm1d(5),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(30, 4),
            nn.ReLU(),
            nn.Linear(4, 2),
        )
        scrambled(model, torch.float64)
        kill(model[0], [0, 5])
        kill(model[3], [2])
        kill(model[6], range(4))
        X = 3 * torch.randn(100, 2, 9, dtype=torch.float64) + 1
        revived = remedies.revive(model, X, form="data").eval()
        for end, units in ((1, [0, 5]), (4, [2])):
            z = revived[:end](X).detach().transpose(1, 2).flatten(0, 1)
            others = [i for i in range(z.shape[1]) if i not in units]
            variances = z.var(0, correction=0)
            torch.testing.assert_close(z[:, units].mean(0), 0 * z[0, units])
            assert variances[units] == pytest.approx(
                [float(variances[others].mean())] * len(units), rel=1e-4
            )
        norm = remedies.revive(model, X).eval()
        z = norm[:3](X).detach()[:, 2]
        assert norm[3].running_mean[2] == pytest.approx(float(z.mean()))
        assert norm[3].running_var[2] == pytest.approx(float(z.var(correction=0)))
        z = revived[:7](X).detach()
        assert z.var(0, correction=0).tolist() == pytest.approx([1] * 4)
        assert remedies.revive(revived, X)[6].weight.equal(revived[6].weight)


@pytest.mark.parametrize("form", ["redo", "data"])
def test_what_a_dead_unit_gave_through_a_normalisation_is_kept(form):
    """Behind a rectifier it makes the unit a constant, which the next bias takes on."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(3, 5), nn.ReLU(), nn.BatchNorm1d(5), nn.PReLU(), nn.Linear(5, 2)
    )
    scrambled(model, torch.float64).eval()
    kill(model[0], [1, 4])
    X = torch.randn(50, 3, dtype=torch.float64)
    revived = remedies.revive(model, X, form=form)
    torch.testing.assert_close(revived(X), model(X))
    assert not torch.equal(revived[4].bias, model[4].bias)
    h = revived[:2](X).detach()
    torch.testing.assert_close(revived[2].running_mean[[1, 4]], h[:, [1, 4]].mean(0))
    model[4].bias = None
    with pytest.raises(
        ParameterError, match=r"layer '4' \(Linear\) has no bias to take"
    ):
        remedies.revive(model, X, form=form)


def test_new_weights_are_drawn_as_those_of_a_new_layer():
    """Uniform between minus and plus 1/sqrt(n_in), biases 0, from the generator."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 2000), nn.ReLU(), nn.Linear(2000, 1))
    kill(model[0], range(2000))
    X = torch.randn(50, 16)
    one, other, third = (
        remedies.revive(model, X, generator=torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(one[0].weight, other[0].weight)
    assert not torch.equal(one[0].weight, third[0].weight)
    weights = one[0].weight.detach()
    assert float(weights.abs().max()) <= 0.25
    assert float(weights.var()) == pytest.approx(0.25**2 / 3, rel=0.02)
    assert not one[0].bias.any()
    new, old = nn.Linear(16, 2000).weight.detach(), weights
    for q in (0.1, 0.5, 0.9):  # the same quantiles as PyTorch's own
        assert float(new.quantile(q)) == pytest.approx(float(old.quantile(q)), abs=0.01)


def test_dormant_units_are_those_of_sokar():
    """A unit's mean output against the mean of its layer, up to tau."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 20), nn.ReLU(), nn.Linear(20, 1))
    with torch.no_grad():
        model[0].bias.copy_(2 * torch.randn(20) - 1)  # some fire rarely, but strongly
    kill(model[0], [5])
    X = torch.randn(600, 4)
    means = torch.relu(model[0](X)).mean(0).detach()
    scores = means / means.mean()
    ordered = scores.sort().values
    for tau in (0.0, *((ordered[1:] + ordered[:-1]) / 2).tolist()):
        expected = (scores <= tau).nonzero().flatten().tolist()
        changed = copy.deepcopy(model)
        assert remedies.revive_(changed, X, tau=tau) == {"0": expected}
        assert 5 in expected
    assert remedies.revive_(changed, X) == {}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_optimisers_forget_what_they_knew_of_revived_units(make):
    """Momentum and both averages are 0 for new weights, in and out, and unchanged for
    all others; parameters stay the same objects.
    """
    model, X = make(0)
    model.eval()
    optimizer = torch.optim.Adam(model.parameters(), amsgrad=True)
    model(X).square().sum().backward()
    optimizer.step()
    last, end = (model[4], 6) if make is perceptron else (model[9], 11)
    before = copy.deepcopy(optimizer.state_dict())["state"]
    alive = optimizer.state[last.bias]["exp_avg"].nonzero().flatten().tolist()
    kill(last, alive[:1])
    parameters, modes = list(model.parameters()), state(model)[1]
    gradients = [p.grad.clone() for p in parameters]
    found = remedies.revive_(model, X, optimizer=optimizer)
    name = "4" if make is perceptron else "9"
    assert alive[0] in found[name]
    columns = before[[id(p) for p in parameters].index(id(model[end].weight))][
        "exp_avg"
    ]
    assert bool(columns[:, alive[0]].any())
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert all(
        torch.equal(p.grad, g) for p, g in zip(parameters, gradients, strict=True)
    )
    assert state(model)[1] == modes
    units = found[name]
    others = [i for i in range(len(last.weight)) if i not in units]
    order = {id(p): i for i, p in enumerate(parameters)}
    for key in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"):
        for p, axis in ((last.weight, 0), (last.bias, 0), (model[end].weight, 1)):
            new, old = optimizer.state[p][key], before[order[id(p)]][key]
            assert not new.index_select(axis, torch.tensor(units)).any()
            if axis:
                kept = torch.tensor(others)
                assert torch.equal(
                    new.index_select(axis, kept), old.index_select(axis, kept)
                )
        assert torch.equal(
            optimizer.state[model[end].bias][key],
            before[order[id(model[end].bias)]][key],
        )
    assert int(optimizer.state[last.weight]["step"]) == 1


def test_training_goes_on_with_revived_units():
    """A network whose hidden units all died learns again once they are revived."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
    kill(model[0], range(16))
    X = torch.randn(200, 2)
    y = (X[:, :1] * X[:, 1:]).sign()
    optimizer = torch.optim.Adam(model.parameters(), 0.05)

    def train():
        for _ in range(150):
            optimizer.zero_grad()
            loss = F.mse_loss(model(X), y)
            loss.backward()
            optimizer.step()
        return float(loss.detach())

    stuck = train()
    remedies.revive_(model, X, form="data", optimizer=optimizer)
    assert stuck > 0.95
    assert train() < 0.5


def test_a_failed_revival_leaves_the_model_as_it_was():
    """Nothing is half done: all is worked out first."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4, bias=False), nn.ReLU()
    )
    model.append(nn.Linear(4, 2))
    kill(model[0], [0])
    with torch.no_grad():
        model[0].bias[1:] = 5
        model[2].weight[2] = -1
    before = state(model)
    X = torch.randn(20, 3)
    with pytest.raises(ParameterError, match=r"layer '2' \(Linear\) has no bias"):
        remedies.revive_(model, X, form="data")
    assert_same_state(model, before)
    with pytest.raises(ParameterError, match=r"inputs of layer '0'.* are the same for"):
        remedies.revive_(model, torch.ones(20, 3), form="data")
    assert_same_state(model, before)


def test_arguments_of_reviving_are_checked():
    """Messages say what was given and what is expected."""
    model, X = perceptron(0)
    with pytest.raises(ParameterError, match="form is 'he', expected 'redo' or 'data'"):
        remedies.revive(model, X, form="he")
    with pytest.raises(ParameterError, match="tau is -1, expected a number from 0 on"):
        remedies.revive(model, X, tau=-1)
    other = torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1)
    with pytest.raises(ParameterError, match="optimizer trains no parameter"):
        remedies.revive_(model, X, optimizer=other)
    with pytest.raises(ParameterError, match="data is a int, expected a DataLoader"):
        remedies.revive(model, 3)
    grouped = nn.Sequential(nn.Conv1d(4, 4, 1), nn.ReLU(), nn.Conv1d(4, 4, 1, groups=2))
    kill(grouped[0], [1])
    with pytest.raises(
        ParameterError, match=r"1 units.*'2' .*is a grouped convolution"
    ):
        remedies.revive(grouped, torch.randn(30, 4, 3))


# ---------------------------------------------------------------- rescale_inputs


class Branching(nn.Module):
    """A model that is no chain and starts with something else."""

    def __init__(self, first):
        super().__init__()
        self.inner = nn.ModuleDict({"first": first})
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        """Add."""
        h = F.relu(self.inner["first"](input=x))
        return self.last(h) + h[..., :2]


FIRST = {
    "rows": (lambda: nn.Linear(6, 4), (50, 6), True),
    "no bias": (lambda: nn.Linear(6, 4, bias=False), (50, 6), True),
    "sequences": (lambda: nn.Linear(6, 4), (50, 3, 6), True),
    "chain": (
        lambda: nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(6, 4)),
        (50, 2, 3),
        True,
    ),
    "channels": (lambda: nn.Conv1d(6, 4, 4), (50, 6, 4), True),
    "groups": (lambda: nn.Conv1d(6, 4, 4, groups=2, bias=False), (50, 6, 4), True),
    "reflected": (
        lambda: nn.Conv2d(6, 4, 3, padding=1, padding_mode="reflect"),
        (50, 6, 4, 4),
        True,
    ),
    "zero padding": (lambda: nn.Conv1d(6, 4, 3, padding=1), (50, 6, 4), False),
}


@pytest.mark.parametrize("first", FIRST)
def test_rescaled_models_compute_the_same_from_inputs_on_one_scale(first):
    """In training and in evaluation, of any shape; a zero-padded convolution is only
    scaled, as zeros have to stay zeros.
    """
    make, shape, is_shifted = FIRST[first]
    torch.manual_seed(0)
    model = make().double()
    axis = -1 if isinstance(model, nn.Linear) else 1
    X = torch.randn(shape, dtype=torch.float64)
    if first == "chain":
        X = X.flatten(1)
    X = X.movedim(axis, -1) * torch.logspace(-3, 4, 6).double() + 7
    X = X.movedim(-1, axis).reshape(shape)
    changed = remedies.rescale_inputs(model, X)
    for is_training in (False, True):
        outputs = []
        for each in (changed, model):
            torch.manual_seed(0)
            outputs.append(each.train(is_training)(X))
        torch.testing.assert_close(*outputs)
    standardise = next(
        m for m in changed.modules() if isinstance(m, remedies.Standardise)
    )
    assert bool(standardise.mean.any()) == is_shifted
    flat = X.flatten(1) if first == "chain" else X
    z = standardise(flat).movedim(axis, -1).flatten(0, -2)
    if is_shifted:
        torch.testing.assert_close(
            z.mean(0), torch.zeros(6).double(), atol=1e-6, rtol=0
        )
        torch.testing.assert_close(z.std(0, correction=0), torch.ones(6).double())
    else:
        torch.testing.assert_close(z.square().mean(0), torch.ones(6).double())


def test_any_model_whose_first_layer_runs_is_rescaled():
    """The layer is found by running, and everything else keeps its name."""
    torch.manual_seed(0)
    model = Branching(nn.Linear(3, 4)).double()
    X = torch.randn(60, 3, dtype=torch.float64) * 50 + 1000
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(X, torch.zeros(60)), batch_size=17
    )
    changed = remedies.rescale_inputs(model, loader)
    torch.testing.assert_close(changed(X), model(X))
    assert {"last.weight", "inner.first.1.weight"} <= set(changed.state_dict())
    standardise = changed.inner["first"][0]
    torch.testing.assert_close(standardise.mean, X.mean(0))
    torch.testing.assert_close(standardise.scale, X.std(0, correction=0))
    assert repr(standardise) == "Standardise(n_features=3)"
    again = copy.deepcopy(changed)
    again.load_state_dict(changed.state_dict())
    assert torch.equal(again(X), changed(X))


def test_constant_features_are_not_scaled():
    """A feature that never varies has scale 1, however it rounds."""
    X = torch.full((1000, 2), 0.1)
    X[:, 1] = torch.arange(1000)
    changed = remedies.rescale_inputs(nn.Linear(2, 1), X)
    assert changed[0].scale[0] == 1
    assert not changed[0](X)[:, 0].any()


def test_first_layers_that_cannot_be_adapted_are_refused():
    """Tied, parametrised and other layers, and missing values; the message says so."""
    X = torch.randn(9, 4)
    tied = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    tied[1].weight = tied[0].weight
    with pytest.raises(
        ParameterError, match=r"'0' \(Linear\) runs first.*shares its p"
    ):
        remedies.rescale_inputs(tied, X)
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    with pytest.raises(ParameterError, match="runs first, but is no plain linear"):
        remedies.rescale_inputs(normed, X)
    hooked = nn.Linear(4, 4)
    hooked.register_forward_hook(lambda _, __, y: y)
    with pytest.raises(ParameterError, match="runs first, but has hooks"):
        remedies.rescale_inputs(hooked, X)
    with pytest.raises(ParameterError, match="no linear layer or convolution runs"):
        remedies.rescale_inputs(nn.ReLU(), X)
    X[2, 1] = torch.nan
    with pytest.raises(ParameterError, match=r"inputs of layer '0'.*not all finite"):
        remedies.rescale_inputs(nn.Sequential(nn.Linear(4, 4)), X)


# ---------------------------------------------------------------- initialise


def wide_network():
    """Return a chain whose layers feed all kinds of functions."""
    return nn.Sequential(
        nn.Conv2d(4, 64, 5, groups=2),
        nn.BatchNorm2d(64),
        nn.Dropout(),
        nn.ReLU(inplace=True),
        nn.ConvTranspose2d(64, 8, 2, stride=2),
        nn.LeakyReLU(0.5),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 4 * 4, 300),
        nn.Tanh(),
        nn.Linear(300, 200),
        nn.PReLU(init=0.1),
        nn.Linear(200, 100),
    )


EXPECTED = {
    0: 2 / (2 * 25),
    8: 2 / (128 + 300),
    10: 2 / (1 + 0.1**2) / 300,
    12: 2 / (200 + 100),
}


class Functional(nn.Module):
    """The same kinds with functions instead of modules."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(100, 300), nn.Linear(300, 200)
        self.c, self.d = nn.Linear(200, 100), nn.Linear(100, 100)
        self.norm = nn.LayerNorm(300)

    def forward(self, x):
        """Apply all."""
        x = self.norm(self.a(x)).clamp(min=0)
        x = F.leaky_relu(self.b(x), 0.3)
        return self.d(torch.tanh(self.c(x)).relu())


@pytest.mark.parametrize("is_run", [False, True])
def test_he_gives_each_layer_the_variance_of_what_it_feeds(is_run):
    """He before rectifiers, with their slopes, and Glorot before everything else;
    whether what follows is read off a chain or seen by running.
    """
    torch.manual_seed(0)
    model = scrambled(wide_network(), torch.float32)
    X = torch.randn(2, 4, 8, 8)
    fresh = remedies.initialise(model, "he", X if is_run else None)
    for place, variance in EXPECTED.items():
        weights = fresh[place].weight.detach()
        assert float(weights.var()) == pytest.approx(variance, rel=0.05)
    for place in (0, 4, 8, 10, 12):
        assert not fresh[place].bias.any()
    assert fresh[12].weight.abs().max() <= (6 / 300) ** 0.5
    assert not fresh[1].running_mean.any()
    assert bool((fresh[1].weight == 1).all())
    assert torch.equal(fresh[11].weight, model[11].weight)


def test_transposed_convolutions_count_what_reaches_an_output():
    """With stride 2 and kernel 2 each output is reached by one position."""
    torch.manual_seed(0)
    layer = nn.ConvTranspose2d(64, 50, 2, stride=2)
    fresh = remedies.initialise(
        nn.Sequential(layer, nn.ReLU()), data=torch.randn(3, 64, 8, 8)
    )
    assert float(fresh[0].weight.detach().var()) == pytest.approx(2 / 64, rel=0.03)
    h = fresh[0](torch.randn(20, 64, 8, 8)).detach()
    assert float(h.var()) == pytest.approx(2, rel=0.1)


def test_he_sees_functions_in_models_that_are_no_chain():
    """What follows a layer is what runs after it."""
    torch.manual_seed(0)
    model = Functional()
    fresh = remedies.initialise(model, data=torch.randn(20, 100))
    variances = {"a": 2 / 100, "b": 2 / 1.09 / 300, "c": 2 / 300, "d": 2 / 200}
    for name, variance in variances.items():
        weights = getattr(fresh, name).weight.detach()
        assert float(weights.var()) == pytest.approx(variance, rel=0.04)


@pytest.mark.parametrize("make", [wide_network, Functional])
def test_lsuv_gives_pre_activations_variance_one(make):
    """Orthogonal weights times one number, layer by layer over all of the data."""
    torch.manual_seed(0)
    model = make()
    X = 40 * torch.randn(70, 4, 8, 8) if make is wide_network else torch.rand(70, 100)
    batches = [X[:30], X[30:60], X[60:]]
    fresh = remedies.initialise(model, "lsuv", batches).eval()
    seen = {}
    kinds = (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)
    for name, module in fresh.named_modules():
        if isinstance(module, kinds):
            module.register_forward_hook(
                lambda _, __, z, name=name: seen.update({name: float(z.var())})
            )
    with torch.no_grad():
        fresh(X)
    assert len(seen) == (5 if make is wide_network else 4)
    assert all(abs(v - 1) < 0.011 for v in seen.values()), seen
    for module in fresh.modules():
        if isinstance(module, kinds):
            W = module.weight.detach().flatten(1)
            products = W @ W.T if len(W) < W.shape[1] else W.T @ W
            size = products.diagonal().mean()
            torch.testing.assert_close(
                products / size, torch.eye(len(products)), atol=1e-5, rtol=0
            )


@pytest.mark.parametrize("method", ["he", "lsuv"])
def test_a_generator_makes_initialisation_repeatable(method):
    """The same seed gives the same bits, and PyTorch's own state is not touched."""
    model, X = convolutions(0)
    before = torch.get_rng_state()
    one, other, third = (
        remedies.initialise(
            model, method, X, generator=torch.Generator().manual_seed(seed)
        )
        for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), before)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(one[0].weight, third[0].weight)


def test_arguments_of_initialise_are_checked():
    """Messages say what was given and what to do."""
    model, X = perceptron(0)
    with pytest.raises(ParameterError, match="method is 'xavier', expected 'he' or"):
        remedies.initialise(model, "xavier")
    with pytest.raises(ParameterError, match=r"'lsuv' scales.*data is None"):
        remedies.initialise(model, "lsuv")
    with pytest.raises(
        ParameterError, match=r"layer 'clamp' \(Step\) follows.*Give data"
    ):
        remedies.initialise(Functional())
    with pytest.raises(
        ParameterError, match=r"layer '0' \(Linear\) puts out has varia"
    ):
        remedies.initialise(model, "lsuv", torch.ones_like(X) * torch.inf)
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(5, 4))
    with pytest.raises(ParameterError, match="is parametrised or has hooks"):
        remedies.initialise(nn.Sequential(normed, nn.ReLU()), data=X)
