"""Verdicts: the right kind of trouble first, and healthy networks left alone."""

import copy
import json
import math
from itertools import pairwise
from unittest.mock import ANY

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import hardzero
from hardzero.diagnostics import Diagnosis, Finding, diagnose
from hardzero.errors import DataError, ParameterError

torch = pytest.importorskip("torch")
nn = torch.nn


@pytest.fixture(scope="module")
def digits():
    """Return rows scaled to [0, 1] and their labels."""
    X, y = load_digits(return_X_y=True)
    return torch.tensor(X / 16, dtype=torch.float32), torch.tensor(y)


def mlp(*sizes, act=nn.ReLU):
    """Return linear maps with an activation between them."""
    layers = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), act()]
    return nn.Sequential(*layers[:-1])


def train(model, X, y, *, lr=0.1, steps=200, weight_decay=0.0, seed=0):
    """Take steps of SGD and return the optimizer."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr, weight_decay=weight_decay)
    for _ in range(steps):
        rows = torch.randint(0, len(X), (64,), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(X[rows]), y[rows]).backward()
        optimizer.step()
    return optimizer


def first(model, data, loss=None, optimizer=None):
    """Return the code of the first finding that is more than a note."""
    found = diagnose(model, data, loss, optimizer)
    return next((f.code for f in found.findings if f.severity != "note"), "healthy")


CE = nn.CrossEntropyLoss()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "sizes", [(64, 100, 100, 10), (64, 30, 10), (64, *[60] * 4, 10)]
)
def test_trained_networks_are_healthy(digits, sizes, seed):
    """Networks that learn are left alone, also if some of their units are dead."""
    torch.manual_seed(seed)
    model = mlp(*sizes)
    optimizer = train(model, *digits, steps=600, seed=seed)
    assert first(model, digits, CE, optimizer) == "healthy"


def test_a_very_sparse_network_is_healthy(digits):
    """Nine zeros in ten are no trouble where the network has learned."""
    X, y = (part.numpy() for part in digits)
    sparse = hardzero.RectifierClassifier(
        (100, 100), l1_activation=1e-2, max_epochs=60, random_state=0
    ).fit(X, y)
    found = diagnose(sparse, (X, y), CE)
    assert found.healthy
    assert max(layer["zeros"] for layer in found.layers) > 0.8


@pytest.mark.parametrize("seed", range(3))
def test_kinds_of_trouble_are_told_apart(digits, seed):
    """Each pathology made by training or at birth gets its own verdict first."""
    torch.manual_seed(seed)
    X, y = digits
    verdicts = {}

    model = mlp(64, 100, 100, 10)
    train(model, X * 255, y, seed=seed)
    verdicts["raw inputs"] = first(model, (X * 255, y), CE)
    assert verdicts.pop("raw inputs") in ("dead-units", "input-scale")

    model = mlp(64, 100, 100, 10)
    train(model, X, y, lr=3.0, seed=seed)
    verdicts["dead-units"] = first(model, digits, CE)

    model = nn.Sequential(*mlp(64, 50, 10), nn.Softmax(-1))
    train(model, X, y, seed=seed)
    verdicts["softmax-twice"] = first(model, digits, CE)

    model = mlp(64, 100, 100, 10, act=nn.Tanh)
    train(model, X * 50, y, lr=1.0, seed=seed)
    verdicts["saturated-units"] = first(model, (X * 50, y), CE)

    verdicts["vanishing-gradient"] = first(mlp(64, *[50] * 20, 10), digits, CE)

    model = mlp(64, 50, 10)
    partial = torch.optim.SGD(model[0].parameters(), 0.1)
    verdicts["not-optimised"] = first(model, digits, CE, partial)

    model = mlp(64, 50, 10)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    verdicts["frozen"] = first(model, digits, CE)

    target = (y.float() - 4.5)[:, None]
    model = nn.Sequential(*mlp(64, 50, 1), nn.ReLU())
    verdicts["rectified-output"] = first(model, (X, target), nn.MSELoss())

    model = mlp(64, 50, 10)
    train(model, X, torch.randint(0, 10, y.shape), steps=20, lr=0.01, seed=seed)
    verdicts["loss-at-entropy"] = first(model, digits, CE)

    model = mlp(64, 50, 10)
    with torch.no_grad():
        model[2].weight[3, 4] = float("nan")
    verdicts["non-finite-parameter"] = first(model, digits, CE)

    assert verdicts == {code: code for code in verdicts}


def test_causes_of_dead_units_are_told_apart(digits):
    """Biases, normalisation, a penalty, and a rate that was too high."""
    torch.manual_seed(0)
    X, y = digits
    born = mlp(64, 100, 10)
    with torch.no_grad():
        born[0].bias.fill_(-10)
    found = diagnose(born, digits, CE).findings[0]
    assert found.code == "dead-units"
    assert "biases are strongly negative (median -10)" in found.cause
    assert found.where == "1"
    shifted = nn.Sequential(
        nn.Linear(64, 50), nn.BatchNorm1d(50), nn.ReLU(), nn.Linear(50, 10)
    )
    with torch.no_grad():
        shifted[1].bias.fill_(-40)
    assert "BatchNorm1d" in diagnose(shifted, digits, CE).findings[0].cause
    killed = mlp(64, 100, 100, 10)
    train(killed, X, y, lr=3.0)
    found = diagnose(killed, digits, CE).findings[0]
    assert "updates" in found.cause
    assert "learning rate" in found.remedy


def test_the_first_operation_that_is_not_finite_is_named():
    """A logarithm of 0 in a module, and the gradient of a root of 0."""

    class Log(nn.Module):
        def forward(self, x):
            return torch.log(x)

    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), Log(), nn.Linear(4, 1))
    found = diagnose(model, torch.randn(50, 3)).findings[0]
    assert (found.code, found.where) == ("non-finite-value", "2")
    assert "log in 2" in found.summary

    class Root(nn.Module):
        def forward(self, x):
            return torch.sqrt(x.square())

    model = nn.Sequential(nn.Linear(3, 4), Root(), nn.Linear(4, 1))
    with torch.no_grad():
        model[0].weight[1], model[0].bias[1] = 0, 0
    data = torch.randn(50, 3), torch.randn(50, 1)
    found = diagnose(model, data, nn.MSELoss()).findings[0]
    assert (found.code, found.where) == ("non-finite-gradient", "0.weight")


def test_few_examples_are_said_to_be_few(digits):
    """Below 3,000 examples units are not called dead, but bounded in their rate."""
    model = mlp(64, 20, 10)
    with torch.no_grad():
        model[0].bias[:12] = -50
    X, y = digits
    found = diagnose(model, (X[:500], y[:500]), CE)
    (finding,) = [f for f in found.findings if f.code == "dead-units"]
    assert "12 of 20 units of 1 are not seen firing in 500 examples" in finding.summary
    assert "firing rate of each below 0.006" in finding.evidence[0]
    many = torch.randn(4000, 64), torch.randint(0, 10, (4000,))
    (finding,) = [f for f in diagnose(model, many).findings if f.code == "dead-units"]
    assert "are dead in 4,000 examples" in finding.summary


def test_all_kinds_of_models_and_data(digits):
    """Loaders, tensors, arrays, dicts; stacks, estimators and scikit-learn's MLPs."""
    X, y = digits
    rows, labels = X.numpy(), y.numpy()
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(X, y), batch_size=100
    )
    model = mlp(64, 20, 10)
    counts = {
        diagnose(model, data, CE).facts["n_examples"]
        for data in (loader, (X, y), (rows, labels), list(loader))
    }
    assert counts == {1797}
    assert diagnose(model, rows).facts["loss"] is None
    fitted = hardzero.RectifierClassifier((20,), max_epochs=3, random_state=0)
    fitted.fit(rows, labels)
    scikit = MLPClassifier((20,), random_state=0)
    scikit.partial_fit(rows, labels, classes=np.arange(10))
    for other in (fitted, fitted.stack_, scikit):
        found = diagnose(other, (rows, labels))
        assert found.layers[0]["units"] == 20


def test_what_cannot_be_diagnosed():
    """Errors say what was given and what was expected."""
    model = mlp(4, 3, 2)
    with pytest.raises(ParameterError, match="the model is a int"):
        diagnose(3, torch.randn(3, 4))
    with pytest.raises(ParameterError, match="data is a int"):
        diagnose(model, 3)
    with pytest.raises(ParameterError, match="X has 3 rows and y has 2"):
        diagnose(model, (torch.randn(3, 4), torch.zeros(2)))
    with pytest.raises(ParameterError, match="data has no batches"):
        diagnose(model, [])
    with pytest.raises(ParameterError, match="data has dtype"):
        diagnose(model, np.array([["a"]]))


def test_a_diagnosis_goes_to_json_and_back(digits):
    """Equal after the way through JSON; damaged text is told."""
    model = mlp(64, 20, 10)
    found = diagnose(model, digits, CE)
    again = Diagnosis.from_json(found.to_json())
    assert again.findings == found.findings
    assert again.to_json() == found.to_json()
    assert again.healthy == found.healthy
    assert "activations, 1,797 examples" in str(found)
    for text in ("", "{}", "[]", '{"format": "other"}', found.to_json()[:-9]):
        with pytest.raises(DataError):
            Diagnosis.from_json(text)
    with pytest.raises(ParameterError, match="severity is 'bad'"):
        Finding("a", "bad", "b", "c", (), "d", "e")
    with pytest.raises(ParameterError, match="confidence is 2"):
        Finding("a", "note", "b", "c", (), "d", "e", confidence=2)


def test_units_that_are_equal_are_told(digits):
    """After a constant initialisation; weights of 0 and ordinary draws are none."""
    torch.manual_seed(0)
    model = mlp(64, 20, 10)
    with torch.no_grad():
        model[0].weight.fill_(0.01)
        model[0].bias.zero_()
    (finding,) = [f for f in diagnose(model, digits, CE).findings if "clone" in f.code]
    assert (finding.code, finding.where) == ("cloned-units", "0")
    assert "20 of 20 units of 0" in finding.summary
    with torch.no_grad():
        model[0].weight.normal_()
        model[2].weight.zero_()
    found = diagnose(model, digits, CE).findings
    assert "cloned-units" not in [f.code for f in found]


def test_rectifiers_by_mask_have_a_cause(digits):
    """What goes into x * (x > 0) and where(x > 0, x, 0) is known, too."""

    class Masked(nn.Module):
        def __init__(self, rectify):
            super().__init__()
            self.map, self.rectify = nn.Linear(64, 20), rectify
            nn.init.constant_(self.map.bias[:8], -50.0)

        def forward(self, x):
            return self.rectify(self.map(x)) * 1.0

    for rectify in (
        lambda a: a * (a > 0),
        lambda a: torch.where(a > 0, a, torch.zeros_like(a)),
    ):
        model = nn.Sequential(Masked(rectify), nn.Linear(20, 10))
        found = diagnose(model, digits[0]).findings
        (dead,) = [f for f in found if f.code == "dead-units"]
        assert "biases are strongly negative (median -50)" in dead.cause


def test_sentences_of_a_finding_are_whole():
    """Parentheses are closed in what is said about inputs on a large scale."""
    torch.manual_seed(0)
    data = 100 * torch.randn(100, 64), torch.randint(0, 10, (100,))
    found = diagnose(mlp(64, 20, 10), data, CE).findings
    assert "input-scale" in [f.code for f in found]
    for finding in found:
        for text in (finding.summary, finding.cause, finding.remedy):
            assert text.count("(") == text.count(")")
            assert text.endswith(".")


def test_units_that_are_constant_are_not_dead():
    """A normalisation with scale 0 and a bias puts out the bias for all examples."""
    torch.manual_seed(0)
    model = nn.Sequential(
        *[nn.Linear(6, 10), nn.BatchNorm1d(10), nn.ReLU(), nn.Linear(10, 2)]
    )
    with torch.no_grad():
        model[1].weight[:7], model[1].bias[:7] = 0, 0.5
    found = diagnose(model, torch.randn(300, 6))
    finding = next(f for f in found.findings if f.code == "constant-units")
    assert finding.severity == "warning"
    assert finding.summary.startswith("7 of 10 units of 2 put out one value above 0")
    assert finding.cause.startswith("1 (BatchNorm1d) multiplies by 0")
    assert not any(f.code == "dead-units" for f in found.findings)


def test_biases_far_below_zero_are_named_in_any_layer():
    """Behind a sound layer they are no signal that vanished."""
    torch.manual_seed(0)
    model = mlp(6, 20, 20, 2)
    with torch.no_grad():
        model[2].bias[:12] = -50
    X, y = torch.randn(400, 6), torch.randint(0, 2, (400,))
    found = diagnose(model, (X, y), nn.CrossEntropyLoss())
    dead = next(f for f in found.findings if f.code == "dead-units")
    assert (dead.where, dead.severity) == ("3", "serious")
    assert "biases are strongly negative" in dead.cause


def test_layers_out_of_balance_are_a_cause():
    """Units that died between a tiny and a huge layer are not blamed on the rate."""
    torch.manual_seed(0)
    model = mlp(6, 20, 2)
    with torch.no_grad():
        model[0].weight.abs_().mul_(-1000)
        model[2].weight.mul_(1e-3)
        model[0].bias.zero_()
    X, y = torch.rand(400, 6), torch.randint(0, 2, (400,))
    dead = diagnose(model, (X, y), nn.CrossEntropyLoss()).findings[0]
    assert dead.code == "dead-units"
    assert dead.cause.startswith("The scales of the layers are unbalanced")
    assert "hardzero.remedies.rebalance" in dead.remedy


@pytest.mark.parametrize(
    ("loss", "targets"),
    [
        (nn.BCEWithLogitsLoss(), lambda n: torch.randint(0, 2, (n, 1)).float()),
        (nn.MSELoss(), lambda n: torch.randn(n, 1)),
    ],
)
def test_the_best_constant_is_known_for_other_losses(loss, targets):
    """Bernoulli entropy and the variance are recognised, too."""
    torch.manual_seed(0)
    model = mlp(6, 20, 1)
    y = targets(2000)
    with torch.no_grad():
        model[2].weight.zero_()
        mean = y.mean()
        model[2].bias.fill_(mean if loss._get_name()[0] == "M" else torch.logit(mean))
    found = diagnose(model, (torch.randn(2000, 6), y), loss)
    assert [f.code for f in found.findings if f.severity != "note"] == [
        "loss-at-entropy"
    ]


def test_weights_that_shrank_to_nothing_are_the_cause_of_a_stuck_loss():
    """Gradients that vanish with the weights are no finding of their own."""
    torch.manual_seed(0)
    model = mlp(6, 20, 20, 20, 3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1e-3)
    X, y = torch.randn(600, 6), torch.arange(600) % 3
    found = diagnose(model, (X, y), nn.CrossEntropyLoss())
    stuck = [f for f in found.findings if f.severity != "note"]
    assert [f.code for f in stuck] == ["loss-at-entropy"]
    assert "next to nothing" in stuck[0].cause


def test_inputs_that_are_all_the_same_come_first():
    """Nothing that the units do there says anything of them."""
    model = mlp(6, 20, 3)
    X, y = torch.full((300, 6), 0.5), torch.arange(300) % 3
    found = diagnose(model, (X, y), nn.CrossEntropyLoss())
    assert found.findings[0].code == "inactive-inputs"
    assert found.findings[0].severity == "serious"


@pytest.mark.parametrize("dtype", ["float64", "uint8", "bool", "uint16", ">f4"])
def test_arrays_of_other_dtypes_are_read(dtype):
    """Numbers are taken in the dtype of the model; labels stay whole."""
    X = (np.arange(320).reshape(40, 8) % 2).astype(dtype)
    y = (np.arange(40) % 3).astype(np.uint8)
    if dtype == "uint16":
        model = nn.Sequential(nn.Embedding(2, 3), nn.Flatten(), nn.Linear(24, 3))
    else:
        model = mlp(8, 16, 3)
    found = diagnose(model, (X, y), nn.CrossEntropyLoss())
    assert found.facts["n_classes"] == 3
    assert diagnose(model, (X, y.tolist()), nn.CrossEntropyLoss()).facts == found.facts


def test_tensors_in_double_precision_are_read():
    """As arrays are: in the dtype of the model."""
    assert diagnose(mlp(8, 4, 2), torch.randn(40, 8).double()).facts["n_examples"] == 40


@pytest.mark.parametrize(
    ("data", "loss", "message"),
    [
        ([[1.0, 2.0]] * 8, None, "data is a list of numbers"),
        ("table.csv", None, "data is a str, expected a DataLoader"),
        (torch.ones(6, 8), nn.CrossEntropyLoss(), "data has no targets"),
        (
            (torch.ones(6, 8), torch.zeros(6).long()),
            nn.CrossEntropyLoss(reduction="none"),
            r"a Tensor of shape \(6,\), expected a tensor with one number",
        ),
        (
            (torch.ones(6, 8), torch.zeros(6).long()),
            lambda *_: 1.0,
            "loss returns a float, expected a tensor",
        ),
        (torch.ones(8), None, "puts out .* for 8 examples"),
        (torch.ones(0, 8), None, "data has no batches"),
    ],
)
def test_data_and_losses_that_cannot_be_used_are_told(data, loss, message):
    """Errors say what was given and what was expected."""
    with pytest.raises(ParameterError, match=message):
        diagnose(mlp(8, 4, 2), data, loss)


def test_parameters_without_numbers_are_told():
    """A model on the meta device has none."""
    with pytest.raises(
        ParameterError, match="is on the meta device and holds no numbers"
    ):
        diagnose(mlp(8, 4, 2).to("meta"), torch.ones(6, 8))


def test_empty_batches_are_passed_over():
    """A loader may end with one."""
    X = torch.randn(40, 8)
    found = diagnose(mlp(8, 4, 2), [(X, None), (X[:0], None)])
    assert found.facts["n_examples"] == 40


def test_parametrised_weights_are_left_alone():
    """Spectral normalisation changes buffers when a weight is read in training mode."""
    torch.manual_seed(0)
    linear = torch.nn.utils.parametrizations.spectral_norm(nn.Linear(8, 4))
    model = nn.Sequential(linear, nn.ReLU(), nn.Linear(4, 2))
    before = {name: v.clone() for name, v in model.state_dict().items()}
    diagnose(model, torch.randn(40, 8))
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())


def test_large_weights_that_updates_left_are_no_imbalance(digits):
    """A rate of 10 makes the last layer huge, and kills units below."""
    X, y = digits
    torch.manual_seed(2)
    model = mlp(64, 64, 64, 10)
    train(model, X, y, lr=10.0, steps=300)
    dead = diagnose(model, (X, y), nn.CrossEntropyLoss()).findings[0]
    assert dead.code == "dead-units"
    assert "learning rate that is too high" in dead.cause


def test_missing_values_in_the_data_come_first():
    """The example and the feature are named, whatever they have done to the model."""
    X, y = torch.randn(600, 8), torch.randint(0, 3, (600,))
    X[300, 5] = float("nan")
    model = mlp(8, 16, 3)
    train(model, X, y, steps=50)
    first = diagnose(model, (X, y), nn.CrossEntropyLoss()).findings[0]
    assert first.code == "non-finite-input"
    assert "first in example 300, feature 5" in first.summary


def test_losses_that_take_something_else_are_found():
    """Probabilities for logarithms, a second sigmoid; a second log is harmless."""
    torch.manual_seed(0)
    X, y = torch.randn(600, 8), torch.randint(0, 3, (600,))
    hot = nn.functional.one_hot(y, 3).float()
    for end, loss, targets, code in [
        (nn.Softmax(1), nn.NLLLoss(), y, "wrong-loss"),
        (nn.Sigmoid(), nn.BCEWithLogitsLoss(), hot, "sigmoid-twice"),
        (nn.Softmax(1), nn.CrossEntropyLoss(), y, "softmax-twice"),
        (nn.LogSoftmax(1), nn.CrossEntropyLoss(), y, None),
        (nn.LogSoftmax(1), nn.NLLLoss(), y, None),
    ]:
        model = nn.Sequential(*mlp(8, 16, 3), end)
        codes = [f.code for f in diagnose(model, (X, targets), loss).findings]
        known = {"wrong-loss", "sigmoid-twice", "softmax-twice"} & set(codes)
        assert known == ({code} if code else set())


def test_weights_of_zero_are_not_blamed_on_a_penalty():
    """Nothing shrank: they were 0 from the start."""
    model = mlp(8, 16, 16, 3)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    found = diagnose(model, torch.randn(300, 8))
    dead = next(f for f in found.findings if f.code == "dead-units")
    assert dead.cause.startswith("Their weights and biases are exactly 0")


def _places(value, path=()):
    """Yield the path to each value in nested dicts and lists."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _places(value[key], (*path, key))


def test_changed_files_are_refused_or_can_be_shown(digits):
    """Whatever a value becomes, reading says so, or printing works."""
    model = mlp(64, 20, 10)
    with torch.no_grad():
        model[0].bias[:15] = -100
    text = diagnose(model, digits, CE).to_json()
    n_refused = 0
    for path in _places(json.loads(text)):
        for value in (None, True, -3, 0.5, math.nan, "<b>", [], [1], {}, {"a": []}):
            content = {"": json.loads(text)}
            at = content
            *way, last = ("", *path)
            for key in way:
                at = at[key]
            at[last] = value
            try:
                found = Diagnosis.from_json(json.dumps(content[""]))
            except DataError:
                n_refused += 1
            else:
                assert "<b>" not in found._repr_html_()
                assert str(found)
                assert Diagnosis.from_json(found.to_json()) == found
    assert n_refused > 400


def test_layers_with_very_many_units_are_sampled():
    """Evenly spaced units stand for all, and findings say so."""
    model = nn.Sequential(nn.Linear(4, 40_000), nn.ReLU(), nn.Linear(40_000, 2))
    with torch.no_grad():
        model[0].bias[:10_000] = -50
    found = diagnose(model, torch.randn(5000, 4).clamp(-3, 3))
    (finding,) = found.findings
    assert finding.code == "dead-units"
    assert "(16,384 evenly spaced ones of 40,000 were counted)" in finding.summary
    assert int(finding.summary.split()[0]) >= 16_384 // 4
    assert "biases are strongly negative" in finding.cause
    assert (found.layers[0]["units"], found.layers[0]["counted"]) == (40_000, 16_384)


@pytest.mark.parametrize("n_batches", [1, 3])
def test_models_with_very_many_activations_are_sampled(n_batches):
    """Evenly spaced ones are counted, and the first and the last."""
    torch.manual_seed(0)
    pairs = [m for _ in range(2999) for m in (nn.Linear(3, 3), nn.ReLU())]
    model = nn.Sequential(*pairs, nn.Linear(3, 2), nn.ReLU())
    with torch.no_grad():
        for layer in model[::2]:
            layer.weight.copy_(torch.eye(3)[: len(layer.weight)])
            layer.bias.zero_()
    X, y = torch.rand(20, 3), torch.rand(20, 2) - 5
    found = diagnose(model, [(X, y)] * n_batches, nn.MSELoss())
    names = [row["name"] for row in found.layers]
    assert names == [*(str(1 + 2 * i) for i in range(0, 3000, 4)), "5999"]
    assert all(row["examples"] == 20 * n_batches for row in found.layers[:-1])
    assert str(found).startswith("not healthy: 751 of 3,000 activations")
    assert "rectified-output" in {f.code for f in found.findings}


def test_the_scale_that_reaches_the_first_map_counts(digits):
    """A layer in front that standardises is enough; an offset is told from a scale."""
    X, y = digits
    raw = 100 * X + 1000
    torch.manual_seed(0)
    found = diagnose(mlp(64, 100, 10), (raw, y), CE)
    (finding,) = [f for f in found.findings if f.code == "input-scale"]
    assert "far from 0: their mean is 1.0" in finding.cause
    found = diagnose(mlp(64, 100, 10), (100 * X, y), CE)
    (finding,) = [f for f in found.findings if f.code == "input-scale"]
    assert finding.cause == "The features are not scaled."

    class Centred(nn.Module):
        def forward(self, x):
            """Return values near 0."""
            return (x - 1000) / 100

    for first in (Centred(), nn.BatchNorm1d(64, momentum=None)):
        model = nn.Sequential(first, *mlp(64, 100, 10))
        model(raw)
        found = diagnose(model, (raw, y), CE)
        assert "input-scale" not in {f.code for f in found.findings}


def test_targets_that_are_repeated_are_found():
    """Outputs (n, 1) with targets (n,) become a square in PyTorch's losses."""
    X = torch.randn(400, 5)
    y = X[:, 0] - 2 * X[:, 1]
    model = mlp(5, 16, 1)
    with pytest.warns(UserWarning, match="target size"):
        found = diagnose(model, (X, y), nn.MSELoss())
    assert found.findings[0].code == "wrong-loss"
    assert "shape (144, 1) and targets of shape (144,)" in found.findings[0].summary
    assert "wrong-loss" not in {
        f.code for f in diagnose(model, (X, y[:, None]), nn.MSELoss()).findings
    }


@pytest.mark.parametrize(
    ("data", "loss", "notes"),
    [
        (torch.ones(9, 7), None, ["the model ran on (9, 7) float32"]),
        (
            (torch.ones(9, 8), torch.ones(9)),
            nn.CrossEntropyLoss(),
            ["the loss took outputs (9, 2) float32 and targets (9,) float32"],
        ),
    ],
)
def test_errors_of_the_model_or_the_loss_say_what_these_were_given(data, loss, notes):
    """They stay what they are, with a note."""
    with pytest.raises(RuntimeError) as caught:
        diagnose(mlp(8, 4, 2), data, loss)
    assert caught.value.__notes__ == [
        f"hardzero.diagnose: {note} when this was raised." for note in notes
    ]
    with pytest.raises(ParameterError, match="loss is 'mse', expected a function"):
        diagnose(mlp(8, 4, 2), data, "mse")


def test_advice_fits_the_activation():
    """Deep sigmoid networks are not told to use He's initialisation as they are."""
    torch.manual_seed(0)
    layers = [m for _ in range(8) for m in (nn.Linear(20, 20), nn.Sigmoid())]
    model = nn.Sequential(*layers, nn.Linear(20, 3))
    X, y = torch.randn(500, 20), torch.randint(0, 3, (500,))
    found = diagnose(model, (X, y), CE)
    (finding,) = [f for f in found.findings if f.code == "vanishing-gradient"]
    assert "slope is at most 1/4" in finding.cause


@pytest.mark.skipif(not hasattr(torch.compiler, "set_stance"), reason="PyTorch < 2.6")
@pytest.mark.parametrize("loss", [None, CE])
def test_compiled_models_are_looked_at_uncompiled(loss):
    """As a whole, in part, or compiled in place; before and after they have run."""
    torch.manual_seed(0)
    X, y = torch.randn(300, 8), torch.randint(0, 3, (300,))
    plain = mlp(8, 16, 3)
    expected = diagnose(plain, (X, y), loss)
    inner = copy.deepcopy(plain)
    in_place = copy.deepcopy(plain)
    in_place.compile(backend="eager")
    for model in (
        torch.compile(copy.deepcopy(plain), backend="eager"),
        nn.Sequential(torch.compile(inner, backend="eager")),
        in_place,
    ):
        for has_run in (False, True):
            if has_run:
                model(X)
            found = diagnose(model, (X, y), loss)
            assert found.layers[0] == {**expected.layers[0], "name": ANY}
            assert found.facts == expected.facts


def test_parts_that_are_mapped_are_passed_over():
    """torch.vmap gives no numbers to look at; everything else is seen."""

    class Mapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 5), nn.Linear(5, 3)

        def forward(self, x):
            """Return logits."""
            h = torch.vmap(lambda row: self.first(row).relu())(x)
            return self.second(h).relu()

    found = diagnose(Mapped(), torch.randn(30, 8))
    assert [row["name"] for row in found.layers] == ["relu after second"]


def test_models_without_values_are_told():
    """What is made at the first batch cannot be left as it was."""
    with pytest.raises(
        ParameterError, match=r"0.weight has no values before the first"
    ):
        diagnose(nn.Sequential(nn.LazyLinear(4), nn.ReLU()), torch.randn(9, 3))


def test_no_gradient_below_a_silent_layer_is_not_called_vanishing():
    """The layer of which nothing comes through says why."""
    torch.manual_seed(0)
    model = mlp(8, 20, 20, 20, 3)
    with torch.no_grad():
        model[2].bias.fill_(-50)
    X, y = torch.randn(400, 8), torch.randint(0, 3, (400,))
    codes = [f.code for f in diagnose(model, (X, y), CE).findings]
    assert codes[0] == "dead-units"
    assert "vanishing-gradient" not in codes


def test_modest_rates_are_not_blamed(digits):
    """Of dead units behind a rate that is usual, the rate is not called too high."""
    X, y = digits
    torch.manual_seed(0)
    model = mlp(64, 40, 10)
    with torch.no_grad():
        model[0].weight[:30] = -model[0].weight[:30].abs()
        model[0].bias.zero_()
    causes = {}
    for rate in (0.1, 3.0):
        optimizer = torch.optim.SGD(model.parameters(), rate)
        (dead, *_) = diagnose(model, (X, y), CE, optimizer).findings
        assert dead.code == "dead-units"
        causes[rate] = dead.cause, dead.confidence
    assert "is not high now (0.1, SGD)" in causes[0.1][0]
    assert "too high (the optimizer's is 3)" in causes[3.0][0]
    assert causes[0.1][1] < causes[3.0][1]


def test_a_stuck_loss_behind_a_silent_layer_says_so(digits):
    """And sends to that layer instead of to the learning rate."""
    model = mlp(64, 40, 10)
    with torch.no_grad():
        model[0].bias.fill_(-100)
        model[2].bias.zero_()
    found = diagnose(model, digits, CE)
    (stuck,) = [f for f in found.findings if f.code == "loss-at-entropy"]
    assert "Nothing comes through 1" in stuck.cause


def test_saturation_by_raw_inputs_says_so():
    """The first layer names the scale; without it, weights or inputs are large."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 20), nn.Tanh(), nn.Linear(20, 3))
    X, y = torch.randn(400, 8), torch.randint(0, 3, (400,))
    (found, *_) = diagnose(model, (200 * X, y), CE).findings
    assert found.code == "saturated-units"
    assert "Inputs are on a scale of 2" in found.cause
    with torch.no_grad():
        model[0].weight *= 200
    (found, *_) = diagnose(model, (X, y), CE).findings
    assert "weights or inputs have a large scale" in found.cause
