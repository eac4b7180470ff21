"""A training that is watched: what is counted, and that nothing else changes."""

import contextlib
import copy
import io
import math
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor

import pytest

import hardzero
from hardzero.errors import ParameterError

torch = pytest.importorskip("torch")
from torch.optim.optimizer import (  # noqa: E402
    _global_optimizer_post_hooks as post_hooks,
)
from torch.optim.optimizer import (  # noqa: E402
    _global_optimizer_pre_hooks as pre_hooks,
)

from hardzero.diagnostics.counter import UnitCounter  # noqa: E402
from hardzero.diagnostics.sites import Site  # noqa: E402

nn, F = torch.nn, torch.nn.functional
SITE = Site("1", "1", "relu", "rectifier")


def mlp(*, inplace=False):
    """Return a perceptron with two rectifiers that are modules."""
    return nn.Sequential(
        *[nn.Linear(6, 12), nn.ReLU(inplace), nn.Dropout(0.2)],
        *[nn.Linear(12, 8), nn.ReLU(inplace), nn.Linear(8, 3)],
    )


class Functions(nn.Module):
    """Rectifiers that are calls, and one module that is used twice."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 12), nn.Linear(12, 12)
        self.rectifier, self.end = nn.ReLU(), nn.Linear(12, 3)

    def forward(self, x):
        """Return logits."""
        h = self.rectifier(self.first(x))
        h = self.rectifier(self.second(h))
        return self.end(F.relu(self.second(h)))


class Encoder(nn.Module):
    """A transformer layer, whose rectifier is a function."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(6, 2, 16, 0.0, batch_first=True)
        self.end = nn.Linear(6, 3)

    def forward(self, x):
        """Return logits."""
        return self.end(self.layer(x[:, None]).mean(1))


def conv():
    """Return a convolutional network with batch normalisation."""
    return nn.Sequential(
        *[nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2, padding=1)],
        *[nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3)],
    )


def data(n=64):
    """Return rows and labels."""
    generator = torch.Generator().manual_seed(1)
    X = torch.randn(n, 6, generator=generator)
    return X, (X[:, 0] > 0).long() + (X[:, 1] > 0).long()


def train(model, *, updates=30, around=None, each=None, lr=0.1, **settings):
    """Train with SGD; `around` makes a context, `each` is called before a step."""
    torch.manual_seed(2)
    X, y = data()
    optimizer = torch.optim.SGD(model.parameters(), lr, **settings)
    loss = nn.CrossEntropyLoss()
    with around(model, optimizer) if around else contextlib.nullcontext() as watch:
        for number in range(updates):
            rows = torch.randint(0, len(X), (16,))
            optimizer.zero_grad()
            loss(model(X[rows]), y[rows]).backward()
            if each:
                each(number, model)
            optimizer.step()
    return watch


@pytest.mark.parametrize("make", [mlp, Functions, Encoder, conv])
@pytest.mark.parametrize("every", [1, 7])
def test_the_training_is_the_same_bit_for_bit(make, every):
    """Weights, buffers, random state and hooks are those of a training unwatched."""
    states = []
    for around in (None, lambda m, o: hardzero.watch(m, o, every=every)):
        torch.manual_seed(0)
        model = make()
        train(model, around=around)
        states.append((model.state_dict(), torch.get_rng_state()))
        for module in model.modules():
            assert not module._forward_hooks
            assert not module._forward_pre_hooks
    (plain, before), (watched, after) = states
    assert torch.equal(before, after)
    assert all(torch.equal(plain[name], watched[name]) for name in plain)


@pytest.mark.parametrize("make", [mlp, lambda: mlp(inplace=True), conv])
@pytest.mark.parametrize("every", [1, 10])
def test_counts_are_exact(make, every):
    """Each unit has as many outputs above 0 as a plain count over all updates."""
    torch.manual_seed(0)
    model = make()
    expected = {}

    def recount(name):
        def hook(_, __, outputs):
            positive = (outputs.detach() > 0).movedim(1, -1).flatten(0, -2)
            counts, n = expected.get(name, (0, 0))
            expected[name] = counts + positive.sum(0), n + len(positive)

        return hook

    for name, module in model.named_modules():
        if isinstance(module, nn.ReLU):
            module.register_forward_hook(recount(name))
    watch = train(model, around=lambda m, _: hardzero.watch(m, every=every), updates=33)
    assert watch.n_updates == 33
    assert watch.units.keys() == expected.keys()
    for name, (counts, n) in expected.items():
        assert (watch.units[name]["rate"] == (counts / n).double().numpy()).all() or (
            abs(watch.units[name]["rate"] - (counts.double() / n).numpy()).max() < 1e-15
        )


def test_each_use_of_a_module_and_each_call_is_a_site():
    """A shared module has one site for each use; calls are seen in sampled updates."""
    model = Functions()
    watch = train(model, around=lambda m, o: hardzero.watch(m, o, every=5))
    assert list(watch.units) == ["rectifier", "rectifier#2", "relu after second"]
    assert "zeros/relu after second" in watch.records[-1]
    assert watch.records[-1]["zeros/rectifier"] > 0


def test_the_time_of_death_is_known_to_the_block():
    """A unit that is switched off in update 42 was last seen in the block before 50."""

    def switch(number, model):
        if number == 41:
            with torch.no_grad():
                model[0].bias[3], model[0].bias[5] = -1e6, -1e6
        if number == 91:
            with torch.no_grad():
                model[0].bias[5] = 1.0

    torch.manual_seed(0)
    model = mlp()
    watch = train(model, around=hardzero.watch, each=switch, updates=200, lr=0.01)
    first, last = watch.units["1"]["first"], watch.units["1"]["last"]
    assert last[3] == 50
    assert last[5] > 190
    assert 40 <= watch.units["1"]["longest"][5] <= 60
    assert first[3] == 1
    assert "came back" in str(watch)
    found = watch.diagnose(data(), nn.CrossEntropyLoss())
    layer = next(layer for layer in found.layers if layer["name"] == "1")
    assert layer["silent"] >= 1
    assert layer["died_by"] == 50


def test_units_dead_from_the_start_are_not_blamed_on_updates():
    """Never firing is told apart from dying."""
    torch.manual_seed(0)
    model = mlp()
    nn.init.constant_(model[0].bias, -50.0)
    watch = train(model, around=hardzero.watch)
    found = watch.diagnose(data(), nn.CrossEntropyLoss())
    dead = found.findings[0]
    assert (dead.code, dead.where, dead.when) == ("dead-units", "1", 0)
    assert dead.cause.startswith("Dead from the start. Their biases are strongly neg")
    assert "they were dead before" in dead.not_the_cause[0]


def test_units_killed_by_large_updates_are_told():
    """The update that was too large is named, with its size."""
    torch.manual_seed(0)
    model = mlp()
    watch = train(model, around=hardzero.watch, lr=20.0, updates=60)
    found = watch.diagnose(data(), nn.CrossEntropyLoss())
    dead = next(f for f in found.findings if f.code == "dead-units")
    assert dead.cause.startswith("Updates were too large when they died")
    assert 0 < dead.when <= 20


def test_a_penalty_that_takes_everything_is_told():
    """Weights that shrank while nothing was learned."""
    torch.manual_seed(0)
    watch = train(mlp(), around=hardzero.watch, weight_decay=2.0, updates=200)
    found = watch.diagnose(data(), nn.CrossEntropyLoss())
    assert any(
        "penalty or weight decay" in f.cause and f.confidence > 0.8
        for f in found.findings
    )


def test_passes_in_evaluation_or_without_gradients_do_not_count():
    """Only the passes that training needs are counted."""
    torch.manual_seed(0)
    model, (X, y) = mlp(), data()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with hardzero.watch(model, every=1) as watch:
        F.cross_entropy(model(X), y).backward()
        optimizer.step()
        model.eval()
        model(X)
        model.train()
        with torch.no_grad():
            model(X)
    assert watch._counters["1"].n_values == len(X)


def test_other_models_and_optimizers_are_none_of_its_business():
    """Only steps of optimizers that hold its parameters are updates."""
    model, other = mlp(), mlp()
    with hardzero.watch(model) as watch:
        train(other, updates=5)
        assert watch.n_updates == 0
        with hardzero.watch(other) as inner:
            train(model, updates=3)
        assert (watch.n_updates, inner.n_updates) == (3, 0)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_hooks_go_whatever_happens(error):
    """An error in the block or in the model leaves no hook behind."""
    model = mlp()

    class Bad(nn.Module):
        def forward(self, _):
            raise error

    broken = nn.Sequential(mlp(), Bad())
    with pytest.raises(error), hardzero.watch(broken):
        broken(torch.zeros(2, 6))
    with pytest.raises(error), hardzero.watch(model):
        raise error
    for module in [*model.modules(), *broken.modules()]:
        assert not module._forward_hooks
    assert not torch.nn.modules.module._global_forward_hooks
    assert not torch.overrides._get_current_function_mode_stack()


def test_the_first_value_that_is_not_finite_has_an_operation_and_a_row():
    """Parameters are finite: a call of the model made it, for one example."""

    class Root(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 3)

        def forward(self, x):
            h = self.linear(x)
            return h + x[:, :1].sqrt()

    model, optimizer = Root(), None
    X, y = data()
    X = X.abs()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with hardzero.watch(model, every=4) as watch:
        for number in range(12):
            optimizer.zero_grad()
            if number == 6:
                X = X.clone()
                X[9, 0] = -1.0
            F.cross_entropy(model(X), y).backward()
            optimizer.step()
    bad = watch.first_bad
    assert (bad.update, bad.function, bad.example) == (6, "sqrt", 9)
    assert bad.parameters == ()
    found = watch.diagnose((X, y), nn.CrossEntropyLoss())
    finding = next(f for f in found.findings if f.when == 6)
    assert finding.severity == "serious"
    assert not found.healthy


def test_an_update_that_writes_infinity_is_named():
    """Parameters that were not finite at the first bad output are named."""
    model = mlp()
    watch = train(
        model,
        around=hardzero.watch,
        each=lambda k, m: m[3].weight.grad.fill_(math.inf) if k == 3 else None,
        updates=8,
    )
    assert watch.first_bad.update == 4
    assert watch.first_bad.parameters[0] == "3.weight"
    found = watch.diagnose(data(), nn.CrossEntropyLoss())
    assert found.findings[0].when == 4
    assert "Update 4 wrote NaN or infinity into 3.weight" in found.findings[0].cause


def test_parameters_with_gradients_that_never_move_are_found():
    """An optimizer without the first layer leaves it where it was."""
    model, (X, y) = mlp(), data()
    optimizer = torch.optim.SGD(model[3:].parameters(), 0.1)
    with hardzero.watch(model) as watch:
        for _ in range(20):
            F.cross_entropy(model(X), y).backward()
            optimizer.step()
    found = watch.diagnose((X, y), nn.CrossEntropyLoss())
    finding = next(f for f in found.findings if f.code == "not-optimised")
    assert finding.where == "0.weight"
    assert "never moved in 20 updates" in finding.summary


def tasks(n_tasks, rate, spike=None):
    """Train on tasks one after the other, each with labels drawn anew."""
    torch.manual_seed(0)
    X = torch.rand(300, 20)
    model = nn.Sequential(
        *[nn.Linear(20, 60), nn.ReLU(), nn.Linear(60, 60), nn.ReLU(), nn.Linear(60, 5)]
    )
    optimizer = torch.optim.SGD(model.parameters(), rate)
    loss = nn.CrossEntropyLoss()
    with hardzero.watch(model) as watch:
        for update in range(150 * n_tasks):
            if update % 150 == 0:
                y = torch.randint(0, 5, (300,)) if spike is None else X.argmax(1) % 5
            if spike is not None:
                is_high = 600 <= update < 605
                optimizer.param_groups[0]["lr"] = spike if is_high else rate
            rows = torch.randint(0, 300, (64,))
            optimizer.zero_grad()
            loss(model(X[rows]), y[rows]).backward()
            optimizer.step()
    return watch, watch.diagnose((X, y), loss)


def test_networks_that_learn_less_and_less_are_found():
    """Units die little by little over tasks, and the loss gets worse."""
    watch, found = tasks(25, 1.0)
    losses = [row["loss"] for row in watch.records]
    assert sum(losses[-90:]) > 1.1 * sum(losses[90:180])
    first = found.findings[0]
    assert (first.code, first.severity) == ("loss-of-plasticity", "serious")
    assert 100 < first.when < watch.n_updates
    assert any("times that of its best quarter" in fact for fact in first.evidence)


def test_tasks_that_are_learned_cost_no_plasticity():
    """At a moderate rate; and what one spike of the rate did is not called that."""
    codes = {f.code for f in tasks(12, 0.1)[1].findings}
    assert "loss-of-plasticity" not in codes
    _, found = tasks(10, 0.1, spike=60.0)
    assert "loss-of-plasticity" not in {f.code for f in found.findings}
    deaths = [f.when for f in found.findings if f.code == "dead-units"]
    assert any(590 <= when <= 620 for when in deaths if when is not None)


def test_recurrent_layers_are_told_to_clip():
    """Where updates were too large, through time; other layers are not."""
    torch.manual_seed(0)

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.memory = nn.RNN(3, 20, nonlinearity="relu", batch_first=True)
            self.end = nn.Linear(20, 3)
            nn.init.eye_(self.memory.weight_hh_l0)

        def forward(self, x):
            """Return logits."""
            return self.end(self.memory(x)[0][:, -1])

    model, loss = Reader(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    X, y = torch.randn(90, 40, 3), torch.arange(90) % 3
    with hardzero.watch(model) as watch:
        for _ in range(40):
            optimizer.zero_grad()
            loss(model(X), y).backward()
            optimizer.step()
    assert watch.is_recurrent("memory")
    assert not watch.is_recurrent("end")
    (finding, *_) = watch.diagnose((X, y), loss).findings
    assert finding.code in {"dead-units", "non-finite-parameter"}
    assert "lip gradients" in finding.remedy


def test_records_go_to_loggers(monkeypatch):
    """TensorBoard, MLflow and Weights & Biases get a number under each name."""
    monkeypatch.setattr("hardzero.diagnostics.monitor._MOST_ROWS", 8)
    watch = train(mlp(), around=lambda m, o: hardzero.watch(m, o, every=2), updates=100)
    assert len(watch.records) <= 8
    assert watch.records[0]["update"] == 1
    seen = []

    class Board:
        def add_scalar(self, name, value, step):
            seen.append((name, value, step))

    class Flow:
        def log_metrics(self, row, step):
            seen.extend((name, value, step) for name, value in row.items())

    class Run:
        def log(self, row, step):
            seen.extend((name, value, step) for name, value in row.items())

    rows = []
    for kind in (Board, Flow, Run):
        seen.clear()
        watch.write(kind())
        rows.append(list(seen))
    assert rows[0] == rows[1] == rows[2]
    assert ("loss", watch.records[0]["loss"], 1) in rows[0]
    with pytest.raises(ParameterError, match="logger is a list, expected one with"):
        watch.write([])


def test_balance_is_kept_by_small_steps():
    """Gradient flow keeps what comes in less what goes out (Du, Hu & Lee 2018)."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3, bias=False))
    watch = train(model, around=hardzero.watch, lr=0.01, updates=200)
    values = [row["balance/1"] for row in watch.records if "balance/1" in row]
    with torch.no_grad():
        below, above = model[0], model[2]
        squares = [p.square().sum() for p in (below.weight, below.bias, above.weight)]
    expected = float(squares[0] + squares[1] - squares[2])
    assert abs(values[-1] - expected) < 0.01
    assert abs(values[-1] - values[0]) < 0.01


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_half_precision_counts_the_same():
    """Under autocast rectifiers put out bfloat16, and zeros are zeros."""
    torch.manual_seed(0)
    model, (X, y) = mlp(), data()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with hardzero.watch(model, every=1) as watch:
        with torch.autocast("cpu", torch.bfloat16):
            h = model[1](model[0](X))
            loss = F.cross_entropy(model(X).float(), y)
        loss.backward()
        optimizer.step()
    expected = (h > 0).double().mean(0).numpy()
    assert (watch.units["1"]["rate"] == expected).all()


def test_a_compiled_model_says_what_cannot_be_seen():
    """It is told at once, and in the report."""
    model = torch.compile(mlp(), backend="eager")
    with pytest.warns(UserWarning, match="activations are not counted"):
        watch = train(model, around=hardzero.watch, updates=12)
    assert watch.n_updates == 12
    assert "the model is compiled" in str(watch)
    assert watch.records[0]["gradient/0.weight"] > 0


def test_wrong_arguments_are_told():
    """Errors say what was given and what was expected."""
    with pytest.raises(ParameterError, match="model is a int, expected the torch"):
        hardzero.watch(3)
    with pytest.raises(ParameterError, match="optimizer is a float, expected a torch"):
        hardzero.watch(mlp(), 0.1)
    for every in (0, 2.5, True):
        with pytest.raises(ParameterError, match="expected a whole number from 1 on"):
            hardzero.watch(mlp(), every=every)
    watch = hardzero.watch(mlp())
    with watch:
        pass
    with pytest.raises(ParameterError, match="used already"), watch:
        pass
    assert str(watch) == "0 updates, 0 activations"


def test_an_error_of_the_watch_does_not_end_the_training(monkeypatch):
    """It warns, says so in the report, and lets the training go on."""

    def fail(*_):
        raise RuntimeError("out of order")

    monkeypatch.setattr("hardzero.diagnostics.monitor._norms", fail)
    torch.manual_seed(0)
    model = mlp()
    before = model[0].weight.detach().clone()
    with pytest.warns(UserWarning, match="RuntimeError: out of order"):
        watch = train(model, around=hardzero.watch)
    assert not torch.equal(before, model[0].weight)
    assert "watching ended after 0 updates" in str(watch)


def test_without_rectifiers_there_is_still_a_history():
    """Norms, losses and updates need no activations."""
    watch = train(nn.Sequential(nn.Linear(6, 3)), around=hardzero.watch)
    assert watch.units == {}
    assert watch.records[-1]["update"] == 30
    assert watch.records[-1]["loss"] < watch.records[0]["loss"]


def test_parts_that_are_called_without_the_whole_are_watched():
    """As frameworks do, which call a method of their own in place of the model."""

    class Task(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Sequential(nn.Linear(6, 8), nn.ReLU()), Head()

        def step(self, x, y):
            return F.cross_entropy(self.head(x=self.body(x)), y)

    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.end = nn.Linear(8, 3)

        def forward(self, x):
            return self.end(x.relu()) + (0 if x.sum() < 1e9 else math.nan)

    model, (X, y) = Task(), data()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with hardzero.watch(model, every=2) as watch:
        for number in range(7):
            scale = 1e12 if number == 6 else 1.0
            model.step(X * scale, y).backward()
            optimizer.step()
    assert list(watch.units) == ["body.1", "head"]
    assert watch.n_updates == 7
    bad = watch.first_bad
    assert (bad.update, bad.module, bad.function) == (6, "head", "add")


def test_the_active_set_of_a_probe_is_compared():
    """Units of an untrained direction flip; where nothing moves, none does."""
    torch.manual_seed(0)
    X, _ = data()
    model = mlp()
    watch = train(
        model,
        around=lambda m, o: hardzero.watch(m, o, every=2, probe=X[:16]),
        updates=100,
    )
    flips = [row["flips/1"] for row in watch.records if "flips/1" in row]
    assert len(flips) > 3
    assert 0 < max(flips) < 0.5
    still = train(
        mlp(),
        around=lambda m, o: hardzero.watch(m, o, every=2, probe=X[:16]),
        lr=0.0,
    )
    assert {row["flips/4"] for row in still.records if "flips/4" in row} == {0.0}


def test_a_probe_does_not_change_the_training():
    """Its passes leave buffers and random states alone."""
    states = []
    for probe in (None, data()[0][:8]):
        torch.manual_seed(0)
        model = conv()
        train(model, around=lambda m, o, p=probe: hardzero.watch(m, o, probe=p))
        states.append(model.state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_copies_and_files_of_the_model_do_not_take_the_watch_along():
    """Averages of weights, checkpoints: their hooks do nothing."""
    torch.manual_seed(0)
    model, X = mlp(), data()[0]
    with hardzero.watch(model) as watch:
        train(model, updates=3)
        twin = copy.deepcopy(model)
        file = io.BytesIO()
        torch.save(model, file)
        n_values = watch._counters["1"].n_values
        train(twin, updates=3)
        assert watch.n_updates == 3
        assert watch._counters["1"].n_values == n_values
    file.seek(0)
    again = torch.load(file, weights_only=False)
    assert torch.equal(again.eval()(X), model.eval()(X))


def test_parametrised_weights_are_not_read():
    """Spectral normalisation changes buffers whenever a weight is read in training."""
    states = []
    for around in (None, lambda m, o: hardzero.watch(m, o, every=2)):
        torch.manual_seed(0)
        normalise = torch.nn.utils.parametrizations.spectral_norm
        model = nn.Sequential(
            *[normalise(nn.Linear(6, 8)), nn.ReLU(), normalise(nn.Linear(8, 3))]
        )
        train(model, around=around)
        states.append(model.state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_models_may_be_lazy_shared_or_fed_nothing():
    """What has no numbers yet, or other shapes, is left out; the training goes on."""
    shared = nn.ReLU()

    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.end = nn.LazyLinear(8), nn.Linear(8, 3)
            self.act = shared

        def forward(self, x):
            if len(x) % 2:  # as a sequence of one
                return self.end(self.act(self.first(x)[None]))[0]
            return self.end(self.act(self.first(x)))

    model, (X, y) = Odd(), data()
    with hardzero.watch(model, every=2) as watch:
        model(X)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for n in (16, 15, 0, 16, 7, 16):
            optimizer.zero_grad()
            (F.cross_entropy(model(X[:n]), y[:n], reduction="sum") / 16).backward()
            optimizer.step()
    assert not watch.has_given_up
    assert watch.n_updates == 6


def test_other_threads_are_not_followed():
    """Modes belong to a thread: passes of others go their way."""
    model, (X, y) = mlp(), data()

    def work(_):
        for _ in range(30):
            F.cross_entropy(model(X), y).backward()

    with hardzero.watch(model, every=1) as watch, ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    assert watch.units == {}
    assert not torch.overrides._get_current_function_mode_stack()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_passes_without_numbers_are_not_counted():
    """Traces and transformed calls of the model within the block are none of it."""
    torch.manual_seed(0)
    model, (X, y) = mlp(), data()
    model[2].p = 0.0  # a trace is compared with a second one
    weights = dict(model.named_parameters())

    def loss(weights, x, label):
        logits = torch.func.functional_call(model, weights, (x[None],))
        return F.cross_entropy(logits, label[None])

    with hardzero.watch(model, every=1) as watch:
        traced = torch.jit.trace(model, X[:4])
        of_examples = torch.func.vmap(
            torch.func.grad(loss), in_dims=(None, 0, 0), randomness="different"
        )(weights, X[:4], y[:4])
        train(model, updates=3)
    assert torch.equal(traced(X[:4]).isfinite().all(), torch.tensor(True))
    assert of_examples["0.weight"].shape == (4, 12, 6)
    assert not watch.has_given_up
    assert watch._counters["1"].n_values == 3 * 16


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_models_say_what_cannot_be_seen():
    """They run no hooks in Python."""
    model = torch.jit.script(mlp())
    with pytest.warns(UserWarning, match="activations are not counted"):
        watch = train(model, around=hardzero.watch, updates=12)
    assert watch.records[0]["gradient/0.weight"] > 0
    parts = nn.Sequential(torch.jit.script(mlp()), nn.ReLU())
    units = train(parts, around=hardzero.watch, updates=3).units
    assert list(units) == ["relu after 0.0", "relu after 0.3", "1"]


def test_watches_come_and_go_while_other_threads_step():
    """PyTorch's own hooks are not changed while it walks through them."""
    stop, errors = threading.Event(), []

    def train():
        weight = nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([weight], 0.1)
        optimizer.register_step_pre_hook(lambda *_: time.sleep(0))
        weight.grad = torch.ones(2)
        try:
            while not stop.is_set():
                optimizer.step()
        except RuntimeError as error:
            errors.append(error)

    before = [dict(hooks) for hooks in (pre_hooks, post_hooks)]
    threads = [threading.Thread(target=train) for _ in range(3)]
    with hardzero.watch(nn.Linear(2, 2)):
        for thread in threads:
            thread.start()
    after = [dict(hooks) for hooks in (pre_hooks, post_hooks)]
    for _ in range(300):
        with hardzero.watch(nn.Linear(2, 2)):
            time.sleep(0)
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors
    assert [dict(hooks) for hooks in (pre_hooks, post_hooks)] == after
    sizes = zip(map(len, before), map(len, after), strict=True)
    assert all(now <= then + 1 for then, now in sizes)


def test_blocks_with_more_values_than_float32_counts():
    """Counts stay exact, and the carry comes once in so many values."""
    counter = UnitCounter(SITE, 2, 1, 2, torch.device("cpu"), "")
    n_carries = 0
    for _ in range(9):
        had = counter._n_float
        counter.count(torch.ones(2**22 + 1, 2))
        n_carries += counter._n_float < had
    assert n_carries == 2
    counter.close_block(0, 1)
    assert counter.active.tolist() == [9 * (2**22 + 1)] * 2


def test_zeros_are_known_by_class_and_row():
    """As counted by hand, in the updates that are measured."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 7))
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.zero_()
        model[0].weight[:4, 0] = 1  # rows with x[0] > 0 fire in 4 units, others in none
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    loss = nn.CrossEntropyLoss()
    with hardzero.watch(model, every=1) as watch:
        for update in range(40):
            X, y = torch.rand(20, 6), torch.arange(20) % (3 if update < 20 else 6)
            X[y == 1, 0] *= -1
            optimizer.zero_grad()
            loss(model(X), y).backward()
            optimizer.step()
    by_class = watch.zeros_by_class["1"]
    assert list(by_class) == [0, 1, 2, 3, 4, 5]
    assert by_class[1] == 1
    assert all(by_class[c] == pytest.approx(8 / 12) for c in (0, 2, 3, 4, 5))
    row = watch.records[0]
    assert row["silent/1"] == pytest.approx(7 / 20)
    assert row["zeros/1"] == pytest.approx((7 + 13 * 8 / 12) / 20)


@pytest.mark.skipif(not torch.distributed.is_available(), reason="not built in")
def test_distributed_training_is_watched_in_each_process(tmp_path):
    """Through the wrapper as through the model within."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1
    )
    try:
        lines = []
        for is_whole in (True, False):
            torch.manual_seed(0)
            model = mlp()
            wrapped = nn.parallel.DistributedDataParallel(model)
            optimizer = torch.optim.SGD(wrapped.parameters(), 0.1)
            with hardzero.watch(wrapped if is_whole else model) as watch:
                for _ in range(12):
                    optimizer.zero_grad()
                    loss = nn.CrossEntropyLoss()
                    loss(wrapped(torch.randn(8, 6)), torch.arange(8) % 3).backward()
                    optimizer.step()
            assert (watch.n_updates, watch.unseen) == (12, [])
            lines.append(str(watch).replace("module.", ""))
        assert lines[0].split() == lines[1].split()
        assert "silent" in lines[0]
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("form", ["tuple", "dict", "object", "scalar"])
def test_losses_that_models_compute_are_seen(form):
    """As language models do: next to the logits, or alone."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = nn.Linear(6, 3)

        def forward(self, x, y):
            """Return logits and loss."""
            logits = self.map(x)
            loss = F.cross_entropy(logits, y)
            outputs = {"loss": loss, "logits": logits}
            return {
                "tuple": (logits, loss),
                "dict": outputs,
                "object": types.SimpleNamespace(**outputs),
                "scalar": loss,
            }[form]

    torch.manual_seed(0)
    model, seen = Model(), []
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with hardzero.watch(model) as watch:
        for _ in range(10):
            optimizer.zero_grad()
            outputs = model(torch.randn(8, 6), torch.arange(8) % 3)
            loss = {
                "tuple": lambda o: o[1],
                "dict": lambda o: o["loss"],
                "object": lambda o: o.loss,
                "scalar": lambda o: o,
            }[form](outputs)
            seen.append(loss.item())
            loss.backward()
            optimizer.step()
    assert [row["loss"] for row in watch.records] == pytest.approx(seen)


def test_a_loss_that_no_hook_sees_is_said_to_be_unseen():
    """At once, and once."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with hardzero.watch(model) as watch:
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.randn(8, 6)), torch.arange(8) % 3).backward()
            optimizer.step()
            (line,) = watch.unseen
            assert line.startswith("the loss is a function call")
    assert "loss" not in watch.records[-1]


def test_rows_hold_no_tensors_on_a_cpu():
    """Thousands of small tensors among large ones would keep memory from shrinking."""
    watch = train(mlp(), around=lambda m, o: hardzero.watch(m, o, every=2), updates=30)
    kinds = {type(value) for row in watch._rows[:-1] for value in row.values()}
    assert kinds == {float}
