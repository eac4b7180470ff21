"""The cause that reruns prove, and what they cannot."""

import random

import numpy as np
import pytest
from sklearn.datasets import load_digits

import hardzero
from hardzero.errors import ParameterError

torch = pytest.importorskip("torch")
from hardzero.diagnostics.suspects import (  # noqa: E402  (it needs PyTorch)
    SUSPECTS,
    CannotBeTestedError,
    Setup,
)

nn = torch.nn
CE = nn.CrossEntropyLoss()
torch.manual_seed(0)
STANDARD = torch.randn(50, 9)
STANDARD = (STANDARD - STANDARD.mean(0)) / STANDARD.std(0, correction=0)
HE = nn.Linear(50, 50)
nn.init.kaiming_normal_(HE.weight, nonlinearity="relu")
BALANCED = nn.Sequential(nn.Linear(50, 50), nn.Linear(50, 50))
CONSTANT = nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 5))
nn.init.ones_(CONSTANT[0].weight)


@pytest.fixture(scope="module")
def digits():
    """Return rows scaled to [0, 1] and their labels."""
    X, y = load_digits(return_X_y=True)
    return torch.tensor(X / 16, dtype=torch.float32), torch.tensor(y)


def small():
    """Return a network of two hidden layers."""
    return nn.Sequential(
        nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 10)
    )


def train(model, data, settings):
    """Take steps of SGD."""
    X, y = data
    optimizer = torch.optim.SGD(
        model.parameters(),
        settings.get("lr", 0.1),
        weight_decay=settings.get("weight_decay", 0.0),
    )
    for _ in range(settings.get("steps", 150)):
        rows = torch.randint(0, len(X), (64,))
        optimizer.zero_grad()
        CE(model(X[rows]), y[rows]).backward()
        optimizer.step()


def trial(found, suspect):
    """Return what came of one suspect."""
    trials = found.facts["investigation"]["trials"]
    return next(t for t in trials if t["suspect"] == suspect)


def deep_biases():
    """Return a network whose hidden units start far below 0."""
    model = small()
    with torch.no_grad():
        for layer in model[:4:2]:
            layer.bias.fill_(-5)
    return model


def dead_shift():
    """Return a network whose normalisation keeps units from firing."""
    model = nn.Sequential(
        nn.Linear(64, 40), nn.BatchNorm1d(40), nn.ReLU(), nn.Linear(40, 10)
    )
    nn.init.constant_(model[1].bias, -6)
    return model


def tiny_weights():
    """Return a deep network whose weights are far too small."""
    layers = []
    for width in (64, *[40] * 4):
        layers += [nn.Linear(width, 40), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(40, 10))
    with torch.no_grad():
        for layer in model[::2]:
            layer.weight.mul_(0.05)
    return model


def rectified():
    """Return a network with a rectifier at its output."""
    return nn.Sequential(*small(), nn.ReLU())


SICK = {
    "learning rate": (small, {"lr": 8.0}),
    "biases": (deep_biases, {"lr": 0.1}),
    "penalty": (small, {"lr": 0.1, "weight_decay": 3.0}),
    "rectifier at the output": (rectified, {"lr": 0.1, "weight_decay": 1e-5}),
    "normalisation shift": (dead_shift, {"lr": 0.01}),
    "initial weights": (tiny_weights, {"lr": 0.1}),
}


@pytest.mark.parametrize("cause", SICK)
def test_the_cause_that_was_made_is_named(digits, cause):
    """Of troubles made by training, the reruns name what made them."""
    make_model, settings = SICK[cause]
    found = hardzero.investigate(make_model, train, digits, settings, loss=CE)
    investigation = found.facts["investigation"]
    assert investigation["cause"] == cause
    assert investigation["confirmed"]
    finding = found.findings[0]
    assert finding.confidence == 0.95, finding.cause
    assert finding.code not in trial(found, cause)["findings"]
    assert trial(found, cause)["loss"] < found.facts["loss"] or not found.facts["loss"]
    assert trial(found, cause)["change"] in finding.cause
    assert any(fact.startswith("second seed") for fact in finding.evidence)


def test_what_does_not_cure_is_not_the_cause(digits):
    """The other reruns stand under what is not the cause, with their numbers."""
    found = hardzero.investigate(deep_biases, train, digits, {"lr": 0.1}, loss=CE)
    finding = found.findings[0]
    rate = trial(found, "learning rate")
    assert rate["outcome"] == "not cured"
    assert rate["change"] == "lr=0.01 instead of 0.1"
    assert f"loss {rate['loss']:.4g}" in rate["message"]
    assert f"learning rate: {rate['message']}" in finding.not_the_cause
    assert not any("biases:" in fact for fact in finding.not_the_cause)


def test_a_healthy_training_is_run_once(digits):
    """Nothing is rerun where nothing is wrong, and the diagnosis is the usual one."""
    made = []

    def make_model():
        made.append(small())
        return made[-1]

    found = hardzero.investigate(make_model, train, digits, {"steps": 400}, loss=CE)
    assert found.healthy
    assert len(made) == 1
    assert found == hardzero.diagnose(made[0], digits, CE)


def test_raw_inputs_are_told_from_the_rate(digits):
    """Inputs of a large scale are the cause though a lower rate helps, too."""
    X, y = digits
    found = hardzero.investigate(
        small, train, (X * 2000, y), {"lr": 0.1, "steps": 300}, loss=CE
    )
    assert found.facts["investigation"]["cause"] == "scale of the inputs"


def test_no_change_alone_cures(digits):
    """Where two causes are at work, none is named."""
    settings = {"lr": 0.1, "weight_decay": 3.0}
    found = hardzero.investigate(deep_biases, train, digits, settings, loss=CE)
    assert found.facts["investigation"]["cause"] is None
    finding = found.findings[0]
    assert finding.cause.startswith("None of the 8 changes that were tested cures it")
    assert "The lowest loss is with " in finding.cause
    assert finding.confidence <= 0.3
    tested = [f for f in finding.not_the_cause if "loss" in f]
    assert len(tested) == 8


def test_budget_for_no_rerun(digits):
    """A budget that is too small for a rerun says what would do."""
    found = hardzero.investigate(
        small, train, digits, {"lr": 8.0}, loss=CE, budget=1e-6
    )
    outcomes = {t["outcome"] for t in found.facts["investigation"]["trials"]}
    assert outcomes == {"left", "not tested"}
    finding = found.findings[0]
    assert any(
        "not tested for want of time: learning rate, biases" in fact
        and "s would do for all" in fact
        for fact in finding.evidence
    )
    plain = found_without(small, digits, {"lr": 8.0}).findings[0]
    assert (finding.cause, finding.confidence) == (plain.cause, plain.confidence)
    assert finding.not_the_cause == plain.not_the_cause


def found_without(make_model, data, settings):
    """Return the diagnosis of the first run alone."""
    torch.manual_seed(0)
    model = make_model()
    train(model, data, settings)
    return hardzero.diagnose(model, data, CE)


def test_budget_for_some_reruns(digits, monkeypatch):
    """When the next run would exceed the budget, the rest is left; no second seed."""
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def slowly(model, data, settings):
        train(model, data, settings)
        now[0] += 10.0

    found = hardzero.investigate(
        small, slowly, digits, {"lr": 8.0}, loss=CE, budget=29.0
    )
    outcomes = [t["outcome"] for t in found.facts["investigation"]["trials"]]
    assert [o for o in outcomes if o != "not tested"] == ["cured", *["left"] * 3]
    assert found.facts["investigation"]["confirmed"] is None
    assert found.facts["investigation"]["seconds"] == 20
    assert found.findings[0].confidence == 0.85
    assert any("about 70 s would do" in fact for fact in found.findings[0].evidence)


def test_second_seed_that_does_not_confirm(digits):
    """A cause that one seed alone shows is not sure."""

    def only_once(model, data, settings):
        unlucky = torch.initial_seed() == 0
        train(model, data, settings if unlucky else {"lr": 0.5})

    found = hardzero.investigate(small, only_once, digits, {"lr": 8.0}, loss=CE)
    assert found.facts["investigation"]["cause"] == "learning rate"
    assert found.facts["investigation"]["confirmed"] is False
    assert found.findings[0].confidence == 0.6
    assert "A second seed does not confirm it" in found.findings[0].cause


def test_cures_that_are_as_good_share_the_cause(digits):
    """Without a loss, two changes that cure cannot be told apart, which is said."""

    def either(model, data, settings):
        if settings == {"lr": 8.0, "l2": 1e-5}:
            train(model, data, settings)
        else:
            train(model, data, {"lr": 0.5})

    found = hardzero.investigate(small, either, digits, {"lr": 8.0, "l2": 1e-5})
    finding = found.findings[0]
    assert "As good a change, so that they share it: penalty" in finding.cause
    assert finding.confidence == 0.6


def test_two_ways_to_health_are_not_told_apart(digits):
    """Where another change is nearly as good, the cause is not sure."""

    def either(model, data, settings):
        if settings["lr"] == 8.0 and settings["l2"]:
            train(model, data, {"lr": 8.0})
        else:
            train(model, data, {"lr": 0.8 if settings["l2"] else 0.5})

    settings = {"lr": 8.0, "l2": 1e-5}
    found = hardzero.investigate(small, either, digits, settings, loss=CE)
    assert {"cured"} == {
        trial(found, name)["outcome"] for name in ("learning rate", "penalty")
    }
    assert "As good a change" in found.findings[0].cause
    assert found.findings[0].confidence == 0.6


def test_a_cure_that_leaves_trouble_is_not_sure(digits):
    """A change after which the network is not healthy is no full proof."""

    def partly(model, data, settings):
        if settings["lr"] == 8.0:
            nn.init.constant_(model[0].weight, float("nan"))
        else:
            train(model, data, {"lr": 0.1, "weight_decay": 3.0})

    found = hardzero.investigate(small, partly, digits, {"lr": 8.0}, loss=CE)
    finding = found.findings[0]
    assert finding.code == "non-finite-parameter"
    assert found.facts["investigation"]["cause"] == "learning rate"
    assert "What is left: loss-at-entropy" in finding.cause
    assert finding.confidence == 0.6


def test_a_rerun_that_fails_has_not_cured(digits):
    """What training raises in a rerun is told, and the other suspects are tested."""

    def fussy(model, data, settings):
        if settings["lr"] != 8.0:
            raise RuntimeError("no such rate")
        train(model, data, settings)

    found = hardzero.investigate(small, fussy, digits, {"lr": 8.0}, loss=CE)
    assert trial(found, "learning rate")["outcome"] == "failed"
    assert any(
        "lr=0.8 instead of 8: training fails, RuntimeError: no such rate" in fact
        for fact in found.findings[0].not_the_cause
    )
    assert trial(found, "biases")["outcome"] == "not cured"


def test_first_run_that_fails_is_passed_on(digits):
    """What training raises in the first run is the user's to see."""

    def broken(*_):
        raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match="out of order"):
        hardzero.investigate(small, broken, digits)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, None])
def test_random_states_are_restored(digits, error):
    """Random numbers go on as if nothing had been run, also after Ctrl-C."""
    runs = []

    def interrupted(model, data, settings):
        runs.append(settings)
        if error is not None and (error is RuntimeError or len(runs) == 2):
            raise error
        train(model, data, settings)

    def draw():
        of_numpy = np.random.rand()  # noqa: NPY002
        return random.random(), of_numpy, float(torch.rand(()))

    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(7)
    expected = draw()
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(7)
    if error is None:
        hardzero.investigate(small, interrupted, digits, {"lr": 8.0}, loss=CE)
    else:
        with pytest.raises(error):
            hardzero.investigate(small, interrupted, digits, {"lr": 8.0}, loss=CE)
    assert draw() == expected
    assert len(runs) == {KeyboardInterrupt: 2, RuntimeError: 1, None: 7}[error]


def test_settings_that_train_ignores(digits):
    """A setting that changes nothing at all is told."""

    def deaf(model, data, _):
        train(model, data, {"lr": 8.0})

    found = hardzero.investigate(small, deaf, digits, {"lr": 0.1}, loss=CE)
    assert "no effect or train ignores it" in trial(found, "learning rate")["message"]


@pytest.mark.parametrize("as_arrays", [False, True])
def test_what_the_user_gave_is_left_alone(digits, as_arrays):
    """Runs that scale data in place or take settings out do not disturb each other."""

    def greedy(model, data, settings):
        X, y = data
        X /= 2
        rate = settings.pop("lr")
        train(model, tuple(map(torch.as_tensor, (X, y))), {"lr": rate})

    X, y = (part.numpy() for part in digits) if as_arrays else digits
    before, settings = X + 0, {"lr": 8.0}
    found = hardzero.investigate(small, greedy, (X, y), settings, loss=CE)
    assert found.facts["investigation"]["cause"] == "learning rate"
    assert (before == X).all()
    assert settings == {"lr": 8.0}


def test_a_loss_that_is_not_finite_is_cured(digits):
    """Parameters that are not numbers are a trouble, and a lower rate its cure."""
    found = hardzero.investigate(small, train, digits, {"lr": 1e20}, loss=CE)
    assert found.findings[0].code == "non-finite-parameter"
    assert found.facts["investigation"]["cause"] is None  # a tenth is not enough
    found = hardzero.investigate(
        linear, train, digits, {"lr": 1.9, "weight_decay": 3, "steps": 200}, loss=CE
    )
    assert found.facts["loss"] is None
    assert found.facts["investigation"]["cause"] in {"learning rate", "penalty"}
    assert "it was not finite" in found.findings[0].cause


def linear():
    """Return the smallest network."""
    return nn.Sequential(nn.Linear(64, 10))


def test_result_is_a_diagnosis(digits, tmp_path):
    """It goes to JSON and back, to text and to a page as others do."""
    found = hardzero.investigate(small, train, digits, {"lr": 8.0}, loss=CE)
    assert hardzero.Diagnosis.from_json(found.to_json()) == found
    assert "learning rate is too high" in str(found)
    found.save_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "lr=0.8 instead of 8" in page
    assert "{&#x27;" not in page  # no dict as it is printed


def test_same_call_same_result(digits):
    """A second call gives the same findings, whatever was drawn before."""
    first = hardzero.investigate(small, train, digits, {"lr": 8.0}, loss=CE)
    torch.rand(5)
    second = hardzero.investigate(small, train, digits, {"lr": 8.0}, loss=CE)
    assert first.findings == second.findings


def test_progress_is_shown_on_request(digits, capfd):
    """Verbose shows a bar on standard error, and nothing without it."""
    hardzero.investigate(small, train, digits, {"lr": 8.0}, loss=CE)
    assert capfd.readouterr().err == ""
    hardzero.investigate(small, train, digits, {"lr": 8.0}, loss=CE, verbose=True)
    assert "investigation" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"make_model": small()}, "make_model is a Sequential, expected a function"),
        ({"make_model": lambda: 3}, "make_model returns a int, expected a torch"),
        ({"train": None}, "train is a NoneType, expected a function"),
        ({"data": [1, 2, 3]}, r"data is a list, expected \(X, y\)"),
        ({"data": ([1], [2])}, r"data is a tuple, expected \(X, y\), two arrays"),
        ({"settings": 0.1}, "settings is a float, expected a dict such as"),
        ({"budget": 0}, "budget is 0, expected seconds, a number above 0"),
        ({"budget": float("nan")}, "budget is nan, expected seconds"),
        ({"budget": "60"}, "budget is '60', expected seconds"),
        ({"train": lambda *_: small()}, "train returns another model"),
    ],
)
def test_arguments_that_cannot_be_used(digits, change, match):
    """Errors say what was given and what was expected."""
    given = {"make_model": small, "train": train, "data": digits, **change}
    with pytest.raises(ParameterError, match=match):
        hardzero.investigate(**given)


def test_models_must_start_from_the_same_weights(digits):
    """A model that goes on from where it was trained makes runs incomparable."""
    model = small()
    with pytest.raises(ParameterError, match="does not start from the same weights"):
        hardzero.investigate(lambda: model, train, digits, {"lr": 8.0}, loss=CE)


# Suspects by themselves.


def change(name, model, X=None, settings=None, rectified_output=None):
    """Return what the change of a suspect says, and what it made."""
    suspect = next(s for s in SUSPECTS if s.name == name)
    X = torch.randn(50, 64) if X is None else X
    setup = Setup(model, X, None, settings or {}, rectified_output)
    return suspect.change(setup), setup


def test_balanced_layers_compute_the_same():
    """Layers of one scale compute what those of different scales did."""
    model = small().double()
    with torch.no_grad():
        model[0].weight.mul_(30)
        model[4].weight.mul_(0.01)
    X = torch.randn(50, 64, dtype=torch.float64)
    before = model(X)
    said, setup = change("balance of the layers", model, X)
    torch.testing.assert_close(setup.model(X), before)
    assert said.startswith("3 layers start with one scale, 0.28 of He's, instead of")
    scales = [(m.weight.std() * (m.in_features / 2) ** 0.5).item() for m in model[::2]]
    assert max(scales) < 1.05 * min(scales)


def test_he_weights_have_his_scale_and_draw_nothing():
    """Weights get a variance of 2 / fan-in; global random numbers stay."""
    model = nn.Sequential(nn.Conv2d(8, 30, 3), nn.Flatten(), nn.Linear(120, 50))
    X, state = torch.zeros(0), torch.get_rng_state()
    said, _ = change("initial weights", model, X)
    assert torch.equal(state, torch.get_rng_state())
    assert said == "He's initialisation of 2 layers"
    for weight, fan_in in ((model[0].weight, 72), (model[2].weight, 120)):
        assert weight.var().item() == pytest.approx(2 / fan_in, rel=0.1)


@pytest.mark.parametrize("shape", [(200, 5), (200, 3, 4, 4)])
@pytest.mark.parametrize("kind", ["tensor", "array"])
def test_standardised_inputs(shape, kind):
    """Features, or images as a whole, get mean 0 and deviation 1; the kind stays."""
    X = torch.randn(shape) * 40 + 100
    X[:, 0] = 7.0 if len(shape) == 2 else X[:, 0]
    said, setup = change(
        "scale of the inputs", small(), X if kind == "tensor" else X.numpy()
    )
    assert said == "inputs standardised"
    assert type(setup.X) is (torch.Tensor if kind == "tensor" else np.ndarray)
    scaled = torch.as_tensor(setup.X)
    assert scaled.dtype == X.dtype
    if len(shape) == 2:
        assert not scaled[:, 0].any()  # a constant
        scaled = scaled[:, 1:]
        torch.testing.assert_close(scaled.std(0, correction=0), torch.ones(4))
    assert scaled.mean().abs() < 1e-4
    assert scaled.std().item() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    ("name", "given", "match"),
    [
        (
            "learning rate",
            {"settings": {"steps": 3}},
            "settings have no lr, learning_r",
        ),
        ("learning rate", {"settings": {"lr": [1]}}, r"no number .* lr=\[1\]"),
        (
            "penalty",
            {"settings": {"L2": 0}},
            "no number other than 0 in settings: L2=0",
        ),
        ("biases", {"model": nn.Linear(3, 2, bias=False)}, "no layer has biases"),
        ("biases", {"model": nn.LazyLinear(2)}, "no layer has biases"),
        ("normalisation shift", {}, "the model has no normalisation layer"),
        ("normalisation shift", {"model": nn.LayerNorm(3)}, "start with a shift of 0"),
        ("scale of the inputs", {"model": nn.Embedding(3, 2)}, "embeddings"),
        ("scale of the inputs", {"X": [[1.0]]}, "X is a list, which is not centred"),
        ("scale of the inputs", {"X": np.array([np.nan])}, "X holds NaN or infinity"),
        ("scale of the inputs", {"X": STANDARD}, "inputs are standardised already"),
        ("initial weights", {"model": nn.ReLU()}, "no layer with weights"),
        ("initial weights", {"model": HE}, "weights have the scale of He's"),
        ("balance of the layers", {"model": HE}, "fewer than two layers"),
        ("balance of the layers", {"model": CONSTANT}, "weights that are all the same"),
        ("balance of the layers", {"model": BALANCED}, "have the same scale already"),
        ("rectifier at the output", {}, "the output is not rectified"),
        (
            "rectifier at the output",
            {"rectified_output": "0"},
            "by a call in forward",
        ),
    ],
)
def test_suspects_that_cannot_be_tested(name, given, match):
    """A suspect says why there is nothing to change."""
    with pytest.raises(CannotBeTestedError, match=match):
        change(name, **{"model": small(), **given})


def test_a_rectifier_inside_a_block_is_removed():
    """The rectifier is found by its name, however deep it is."""
    model = nn.Sequential(
        nn.Linear(64, 10), nn.Sequential(nn.Linear(10, 10), nn.ReLU())
    )
    said, setup = change("rectifier at the output", model, rectified_output="1.1")
    assert said == "rectifier 1.1 at the output removed"
    assert isinstance(setup.model[1][1], nn.Identity)


def test_suspects_that_were_not_tested_are_listed(digits):
    """What could not be tested stands in the evidence with the reason."""
    found = hardzero.investigate(small, train, digits, {"lr": 8.0}, loss=CE)
    evidence = found.findings[0].evidence
    assert (
        "not tested: normalisation shift: the model has no normalisation layer"
        in evidence
    )
    assert trial(found, "normalisation shift")["outcome"] == "not tested"


def test_rates_are_tried_in_steps(digits):
    """A hundredth where a tenth does not do, ten times where learning has not begun."""
    settings = {"lr": 60.0}
    found = hardzero.investigate(small, train, digits, settings, loss=CE)
    cause = found.facts["investigation"]["cause"]
    trials = found.facts["investigation"]["trials"]
    assert cause == "learning rate"
    assert [t["outcome"] for t in trials if t["suspect"] == cause] == [
        "not cured",
        "cured",
    ]
    found = hardzero.investigate(small, train, digits, {"lr": 1e-3}, loss=CE)
    assert found.facts["investigation"]["cause"] == "low learning rate"


def test_functions_with_other_arguments_are_told(digits):
    """Before anything is trained."""
    message = r"train cannot be called with 3 arguments: it is train\(model, data\)"
    with pytest.raises(ParameterError, match=message):
        hardzero.investigate(small, lambda model, data: None, digits)  # noqa: ARG005
    with pytest.raises(ParameterError, match="make_model cannot be called with 0"):
        hardzero.investigate(lambda width: width, train, digits)
    hardzero.investigate(small, lambda *_: None, digits, budget=1e-6)
