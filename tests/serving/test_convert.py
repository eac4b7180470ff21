"""Networks from and to scikit-learn and PyTorch."""

import math
import pickle
from collections import OrderedDict
from itertools import pairwise, product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.utils.validation import check_is_fitted

import hardzero
from hardzero.activations import CATALOGUE
from hardzero.errors import ParameterError
from hardzero.serving import convert
from hardzero.serving.convert import from_sklearn, from_torch, to_sklearn, to_torch
from hardzero.serving.model import StackModel
from hardzero.stack import Layer, RectifierStack

TARGETS = ["binary", "strings", "classes", "labels", "number", "numbers", "counts"]
IN_SKLEARN = ["identity", "rectifier", "sigmoid", "tanh"]
NOT_IN_TORCH = ["abs_tanh", "rectified_tanh", "leaky_integrate_and_fire"]
IN_TORCH = [
    *(name for name in CATALOGUE if name not in NOT_IN_TORCH),
    *("leaky_rectifier(0.3)", "prelu(0.7)", "elu(0.5)"),
    *("rescaled_softplus(0.5)", "capped_rectifier(6)"),
]
LINKS = ["identity", "softmax", "sigmoid"]


def rows(n_rows=40, n_inputs=5, dtype=np.float64):
    """Draw inputs."""
    return np.random.default_rng(1).normal(size=(n_rows, n_inputs)).astype(dtype)


def targets(kind, n_rows=40):
    """Draw targets of some kind."""
    rng = np.random.default_rng(2)
    if kind == "binary":
        return rng.integers(0, 2, n_rows) * 3 - 1
    if kind == "strings":
        return np.array(["no", "yes"])[rng.integers(0, 2, n_rows)]
    if kind == "classes":
        return np.array(["b", "a", "long name", "c"])[np.arange(n_rows) % 4]
    if kind == "labels":
        return rng.integers(0, 2, (n_rows, 3))
    if kind == "counts":
        return rng.poisson(2.0, n_rows).astype(float)
    return rng.normal(size=n_rows if kind == "number" else (n_rows, 3))


def trained_mlp(kind, activation="relu", dtype=np.float64, hidden=(7, 6)):
    """Train a perceptron of scikit-learn for a few epochs."""
    settings = {
        "hidden_layer_sizes": hidden,
        "activation": activation,
        "random_state": 0,
        "learning_rate_init": 0.05,
    }
    X, y = rows(dtype=dtype), targets(kind)
    if y.dtype.kind == "f":
        loss = "poisson" if kind == "counts" else "squared_error"
        mlp, classes = MLPRegressor(loss, **settings), {}
        y = y.astype(dtype)
    else:
        mlp, classes = MLPClassifier(**settings), {"classes": np.unique(y)}
        if kind == "labels":
            classes = {"classes": np.arange(3)}
    for _ in range(3):
        mlp.partial_fit(X, y, **classes)
        classes = {}
    return mlp


def random_stack(
    activations, link="identity", signs=True, dtype=np.float64, n_outputs=3
):
    """Draw a network with five inputs."""
    rng = np.random.default_rng(3)
    sizes = [*(5, 8, 7, 6)[: len(activations)], n_outputs]
    layers = []
    for shape, activation in zip(pairwise(sizes), activations, strict=True):
        n_units = shape[1]
        flip = rng.choice([-1.0, 1.0], n_units) if signs else None
        slopes = rng.uniform(-1, 1, n_units) if "prelu" in activation else None
        W = rng.normal(size=shape).astype(dtype)
        b = rng.normal(size=n_units)
        layers.append(Layer(W, b, activation, flip, slopes))
    return RectifierStack(layers, link)


def assert_same_predictions(model, mlp, tolerance=1e-12):
    """Check that two models agree on what they predict."""
    X = rows(200, 5, model.stack.dtype) * 2
    if hasattr(mlp, "classes_"):
        assert np.array_equal(model.predict(X), mlp.predict(X))
        assert_close(model.predict_proba(X), mlp.predict_proba(X), tolerance)
    else:
        assert_close(model.predict(X), mlp.predict(X), tolerance)


def assert_close(ours, theirs, tolerance):
    """Check that two arrays agree, in proportion to the largest number."""
    atol = tolerance * np.abs(theirs).max()
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol, strict=True)


# -------------------------------------------------------------------- scikit-learn


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", TARGETS)
def test_an_mlp_keeps_its_predictions_here_and_back(kind, dtype):
    """Its predictions and probabilities stay, and weights return to the last bit."""
    mlp = trained_mlp(kind, dtype=dtype)
    model = from_sklearn(mlp)
    assert model.stack.dtype == dtype
    tolerance = 1e-12 if dtype == np.float64 else 1e-6
    assert_same_predictions(model, mlp, tolerance)
    back = to_sklearn(model)
    assert type(back) is type(mlp)
    assert_same_predictions(model, back, tolerance)
    for ours, theirs in (
        *zip(back.coefs_, mlp.coefs_, strict=True),
        *zip(back.intercepts_, mlp.intercepts_, strict=True),
    ):
        assert ours.dtype == dtype
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("kind", TARGETS)
def test_all_that_fit_leaves_behind_is_there(kind):
    """The perceptron has the public attributes of a fitted one, with the same values,
    but for those that tell of its training.
    """
    mlp = trained_mlp(kind)
    back = to_sklearn(from_sklearn(mlp))
    check_is_fitted(back)
    public = {name for name in vars(mlp) if name.endswith("_") and name[0] != "_"}
    public -= {"loss_"}  # there was no training
    assert public <= vars(back).keys()
    assert back.loss_curve_ == []
    for name in (
        *("out_activation_", "n_outputs_", "n_layers_", "n_features_in_", "loss"),
        *("hidden_layer_sizes", "activation"),
    ):
        assert getattr(back, name) == getattr(mlp, name), name
    if hasattr(mlp, "classes_"):
        assert back.classes_.dtype == mlp.classes_.dtype
        assert np.array_equal(back.classes_, mlp.classes_)
        assert back._label_binarizer.y_type_ == mlp._label_binarizer.y_type_


@pytest.mark.parametrize("activation", ["identity", "logistic", "relu", "tanh"])
def test_all_activations_of_an_mlp(activation):
    """scikit-learn's four activations are all here."""
    mlp = trained_mlp("classes", activation)
    model = from_sklearn(mlp)
    assert_same_predictions(model, mlp)
    assert to_sklearn(model).activation == activation


def test_an_mlp_without_hidden_layers():
    """Logistic regression is a perceptron too."""
    mlp = trained_mlp("strings", hidden=())
    model = from_sklearn(mlp)
    assert_same_predictions(model, mlp)
    assert to_sklearn(model).hidden_layer_sizes == ()


@pytest.mark.parametrize("activation", IN_SKLEARN)
@pytest.mark.parametrize("link", [*LINKS, "exp"])
@pytest.mark.parametrize("n_outputs", [2, 3])
def test_a_stack_keeps_its_predictions_there_and_back(activation, link, n_outputs):
    """Signs, also those of the outputs, and all links survive scikit-learn."""
    activations = (activation, activation, "identity")
    stack = random_stack(activations, link, n_outputs=n_outputs)
    mlp = to_sklearn(stack)
    model = from_sklearn(mlp)
    assert_same_predictions(model, mlp)
    X = rows(100)
    expected = stack(X)
    if link == "softmax" and n_outputs == 2:
        expected = np.stack([np.zeros(100), expected[:, 1] - expected[:, 0]], axis=1)
    assert_close(model.stack(X), expected, 1e-12)


def test_signs_and_order_are_folded_exactly():
    """On small integers, scikit-learn computes the very outputs of the stack; the
    outputs of an activation become a layer of their own.
    """
    rng = np.random.default_rng(0)
    layers = []
    for n_inputs, n_units in ((5, 7), (7, 6), (6, 4)):
        W = rng.integers(-3, 4, (n_inputs, n_units)).astype(float)
        signs = rng.choice([-1.0, 1.0], n_units)
        layers.append(Layer(W, W[0], "rectifier", signs))
    stack = RectifierStack(layers)
    mlp = to_sklearn(stack)
    assert mlp.hidden_layer_sizes == (7, 6, 4)
    X = rng.integers(-3, 4, (50, 5)).astype(float)
    assert np.array_equal(mlp.predict(X), stack(X))


def test_a_stack_without_signs_comes_back_equal():
    """Nothing is computed where nothing has to be folded."""
    stack = random_stack(("tanh", "tanh", "identity"), "softmax", signs=False)
    assert from_sklearn(to_sklearn(stack)).stack == stack


@pytest.mark.parametrize("classes", [["b", "a", "c"], ["b", "a"], [3, 1, 2], [True, 0]])
def test_classes_in_any_order(classes):
    """scikit-learn sorts classes, so outputs are put in their order."""
    stack = random_stack(("rectifier", "identity"), "softmax", n_outputs=len(classes))
    model = StackModel(stack, classes)
    mlp = to_sklearn(model)
    assert mlp.classes_.tolist() == sorted(classes)
    X = rows(100)
    assert np.array_equal(mlp.predict(X), model.predict(X))
    order = np.argsort(classes)
    assert_close(mlp.predict_proba(X), model.predict_proba(X)[:, order], 1e-12)


def test_a_fitted_estimator_goes_to_scikit_learn():
    """The stack and the classes of an estimator are all that is needed."""
    X, y = rows(), targets("classes")
    ours = hardzero.RectifierClassifier(
        (8, 6), sign_flip=True, max_epochs=3, random_state=0
    )
    ours.fit(X, y)
    assert_same_predictions(StackModel.of(ours), to_sklearn(ours))


@pytest.mark.parametrize("kind", TARGETS)
def test_an_mlp_is_alive(kind):
    """It can be pickled, cloned and scored, and its weights are its own: training goes
    on as that of an equal perceptron does.
    """
    mlp = trained_mlp(kind)
    model = from_sklearn(mlp)
    copy = pickle.loads(pickle.dumps(to_sklearn(model)))
    assert_same_predictions(model, copy)
    X, y = rows(), targets(kind)
    assert math.isfinite(copy.score(X, y))
    assert not hasattr(clone(copy), "coefs_")
    other = to_sklearn(model)
    for one in (copy, other):
        one.set_params(random_state=0).partial_fit(X, y)
        one.partial_fit(X, y)
        assert one.loss_curve_[1] < one.loss_curve_[0]
        assert one.n_iter_ == 1
    assert np.array_equal(copy.predict(X), other.predict(X))
    assert_same_predictions(model, mlp)


def test_names_of_features_go_along():
    """A data frame's columns are known on both sides."""
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(rows(), columns=list("abcde"))
    mlp = MLPClassifier((3,)).partial_fit(X, targets("binary"), classes=[-1, 2])
    model = from_sklearn(mlp)
    assert model.feature_names == tuple("abcde")
    back = to_sklearn(model)
    assert np.array_equal(back.feature_names_in_, mlp.feature_names_in_)
    assert np.array_equal(back.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        back.predict(X.rename(columns={"a": "z"}))


def one_class():
    """Fit a perceptron to a single class."""
    return MLPClassifier((3,)).partial_fit(rows(), np.zeros(40), classes=[0])


@pytest.mark.parametrize(
    ("mlp", "message"),
    [
        (lambda: "mlp", r"mlp is a str, expected an MLPClassifier or MLPRegressor"),
        (MLPClassifier, r"this MLPClassifier has no weights.* Call fit first"),
        (one_class, r"fitted to the classes \[0\], expected at least two"),
    ],
)
def test_what_cannot_come_from_scikit_learn(mlp, message):
    """Anything but a fitted perceptron of two classes or more is refused."""
    with pytest.raises(ParameterError, match=message):
        from_sklearn(mlp())


RATINGS = StackModel(
    random_stack(("rectifier", "identity"), "softmax"), [1, 2, 3], kind="rating"
)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MLPClassifier(), r"MLPClassifier has no stack_"),
        (RATINGS, r"predicts the mean of its classes"),
        (random_stack(("gelu", "identity")), r"layer 1 has the activation gelu, exp"),
        (
            random_stack(("tanh", "rectifier", "identity")),
            r"layer 2 has the activation rectifier but layer 1 has tanh",
        ),
        (
            random_stack(("tanh", "identity"), "sigmoid", n_outputs=1),
            r"one sigmoid output, expected at least two",
        ),
        (
            StackModel(random_stack(("tanh", "identity"), "softmax"), [0.5, 1.5, 2]),
            r"no classes like 0\.5 .* expected whole numbers",
        ),
    ],
)
def test_what_cannot_go_to_scikit_learn(model, message):
    """A network that scikit-learn does not have is refused, with the reason."""
    with pytest.raises(ParameterError, match=message):
        to_sklearn(model)


# ------------------------------------------------------------------------- PyTorch


def nn():
    """Return PyTorch's modules, with known initial weights, or skip the test."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    return torch.nn


def torch_outputs(module, X):
    """Let PyTorch compute."""
    torch = pytest.importorskip("torch")
    with torch.no_grad():
        return module(torch.tensor(X)).numpy()


def assert_same_outputs(model, module, tolerance=1e-12):
    """Check that a model and a module of PyTorch agree."""
    X = rows(200, model.stack.n_inputs, model.stack.dtype) * 3
    ours = model.apply_link(model.outputs(X))
    theirs = torch_outputs(module, X)
    if ours.shape[1] == 2 and theirs.shape[1] == 1:
        theirs = np.hstack([1 - theirs, theirs])
    assert_close(ours, theirs, tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("activation", IN_TORCH)
def test_activations_go_to_pytorch_and_back(activation, dtype):
    """Each activation that PyTorch has, with its parameter, between layers and at the
    end, gives the same numbers there and again here.
    """
    tolerance = 1e-12 if dtype == np.float64 else 1e-6
    ends = (activation, activation, "identity"), ("tanh", activation)
    for activations, signs in product(ends, (True, False)):
        stack = random_stack(activations, signs=signs, dtype=dtype)
        model = StackModel(stack)
        module = to_torch(model)
        assert_same_outputs(model, module, tolerance)
        back = from_torch(module)
        assert back.stack.dtype == dtype
        assert back.kind == "regressor"
        assert_same_outputs(back, module, tolerance)
        assert back.stack.layers[0].activation.name == stack.layers[0].activation.name


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("activations", [("rectifier", "identity"), ("gelu",) * 2])
def test_links_go_to_pytorch_and_back(link, activations):
    """Softmax and Sigmoid become the last module, and are read as such."""
    model = convert._model_of(random_stack(activations, link))
    module = to_torch(model)
    assert_same_outputs(model, module)
    back = from_torch(module)
    assert back.kind == model.kind
    assert_same_outputs(back, module)


def test_a_stack_without_signs_comes_back_from_pytorch_equal():
    """Nothing is computed where nothing has to be folded."""
    stack = random_stack(("tanh", "prelu", "identity"), "softmax", signs=False)
    assert from_torch(to_torch(stack)).stack == stack


def test_to_torch_leaves_the_world_as_it_was():
    """PyTorch's random numbers are not touched, the module evaluates and its weights
    are its own.
    """
    torch = pytest.importorskip("torch")
    before = torch.get_rng_state()
    stack = random_stack(("prelu", "identity"), "softmax")
    module = to_torch(stack)
    assert torch.equal(torch.get_rng_state(), before)
    assert not module.training
    expected = stack(rows())
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    assert np.array_equal(stack(rows()), expected)


def test_modules_that_do_nothing_in_evaluation():
    """Dropout, Identity, Flatten in front and nesting change nothing."""
    n = nn()
    inner = n.Sequential(n.Linear(6, 4), n.Dropout(0.3))
    parts = OrderedDict(
        [
            ("flat", n.Flatten()),
            ("noise", n.Dropout(0.2)),
            ("first", n.Linear(5, 6, bias=False)),
            ("bend", n.ReLU6()),
            ("deep", n.Sequential(inner, n.Identity(), n.Hardtanh(0.0, 2.0))),
            ("end", n.Softmax(-1)),
            ("nothing", n.Identity()),
        ]
    )
    module = n.Sequential(parts).eval()
    model = from_torch(module, classes=list("abcd"))
    assert [str(layer.activation) for layer in model.stack.layers] == [
        "capped_rectifier(6)",
        "capped_rectifier(2)",
    ]
    assert model.classes.tolist() == list("abcd")
    assert_same_outputs(model, module, 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_batch_normalisation_is_folded(dtype):
    """In front, before and after an activation, with and without its own scale."""
    torch = pytest.importorskip("torch")
    n = torch.nn
    module = n.Sequential(
        n.BatchNorm1d(5),
        n.Linear(5, 8, bias=False),
        n.BatchNorm1d(8, eps=0.1),
        n.ReLU(),
        n.BatchNorm1d(8, affine=False),
        n.Dropout(),
        n.Linear(8, 6),
        n.Tanh(),
        n.Linear(6, 2),
        n.BatchNorm1d(2),
    ).to(getattr(torch, dtype))
    generator = torch.Generator().manual_seed(0)
    for part in module:
        if isinstance(part, n.BatchNorm1d):
            part.running_mean.normal_(generator=generator)
            part.running_var.uniform_(0.1, 2.0, generator=generator)
            if part.affine:
                n.init.normal_(part.weight, generator=generator)
                n.init.normal_(part.bias, generator=generator)
    module.eval()
    model = from_torch(module)
    assert model.stack.sizes == (5, 8, 6, 2)
    assert_same_outputs(model, module, 1e-12 if dtype == "float64" else 1e-6)


@pytest.mark.parametrize("end", ["Sigmoid", None])
def test_one_output_of_two_classes(end):
    """A logit, or a Sigmoid, is the second class; without classes a Sigmoid is 0 or 1,
    and a bare output a number.
    """
    n = nn()
    body = (n.Linear(5, 4), n.SiLU(), n.Linear(4, 1, bias=False), n.BatchNorm1d(1))
    module = n.Sequential(*body, n.Sigmoid()).double().eval()
    given = module if end else module[:-1]
    model = from_torch(given, classes=["no", "yes"])
    assert model.kind == "classifier"
    assert_same_outputs(model, module)
    is_second = torch_outputs(module, rows())[:, 0] > 0.5
    assert is_second.any()
    assert not is_second.all()
    assert np.array_equal(model.predict(rows()), np.where(is_second, "yes", "no"))
    bare = from_torch(given)
    assert bare.kind == ("classifier" if end else "regressor")
    assert_same_outputs(bare, given)
    if end:
        assert bare.classes.tolist() == [0, 1]


def test_several_outputs_with_sigmoid_are_labels():
    """Each of them is a label that may occur with others; names may be given."""
    n = nn()
    module = n.Sequential(n.Linear(5, 3), n.Sigmoid())
    assert from_torch(module).kind == "multilabel"
    model = from_torch(module, classes=["a", "b", "c"])
    assert model.classes.tolist() == ["a", "b", "c"]
    assert_same_outputs(model, module, 1e-6)


def test_logits_become_probabilities_if_classes_are_given():
    """As after training with CrossEntropyLoss."""
    n = nn()
    module = n.Sequential(n.Linear(5, 4), n.Mish(), n.Linear(4, 3)).double()
    model = from_torch(module, classes=[5, 1, 3])
    assert_same_outputs(model, n.Sequential(module, n.Softmax(1)))
    X = rows()
    best = torch_outputs(module, X).argmax(axis=1)
    assert np.array_equal(model.predict(X), np.array([5, 1, 3])[best])


def test_half_precision_becomes_single():
    """bfloat16, which NumPy lacks, is read as float32."""
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(5, 3)).bfloat16()
    model = from_torch(module)
    assert model.stack.dtype == np.float32
    assert_same_outputs(model, module.float(), 1e-6)


def test_a_prelu_may_share_one_slope():
    """As PyTorch makes it by default; here each unit has its own."""
    n = nn()
    module = n.Sequential(n.Linear(5, 4), n.PReLU(init=0.4)).double()
    model = from_torch(module)
    assert model.stack.layers[0].slopes.tolist() == [np.float32(0.4)] * 4
    assert_same_outputs(model, module)


def impostor(n):
    """Make a module that is called like another one."""
    return type("ReLU", (n.Module,), {})()


def hooked(n):
    """Make a module that computes something else than its class says."""
    linear = n.Linear(5, 3)
    linear.register_forward_hook(lambda _module, _inputs, output: output + 1)
    return linear


def changed(module, how):
    """Let a module compute something else than its class says."""
    if how == "hook":
        module.register_forward_hook(lambda _module, _inputs, output: output + 1)
    elif how == "pre-hook":
        module.register_forward_pre_hook(lambda _module, inputs: (inputs[0] + 1,))
    else:
        module.forward = lambda x: x + 1
    return module


@pytest.mark.parametrize("how", ["hook", "pre-hook", "forward"])
@pytest.mark.parametrize("kind", ["Identity", "Dropout", "Sequential", "Linear"])
def test_modules_that_do_more_than_their_class(how, kind):
    """Hooks and a forward of its own are refused, whatever the module and the place."""
    n = nn()
    module = n.Linear(3, 3) if kind == "Linear" else getattr(n, kind)()
    why = "has a forward of its own" if how == "forward" else "has hooks"
    network = n.Sequential(n.Linear(5, 3), n.Sequential(changed(module, how)))
    with pytest.raises(ParameterError, match=rf"module '1\.0', a {kind}, .* {why}"):
        from_torch(network)
    outer = changed(n.Sequential(n.Linear(5, 3)), how)
    with pytest.raises(ParameterError, match=f"the Sequential cannot .* {why}"):
        from_torch(outer)


def filled(module, name, value):
    """Set one value of a parameter or buffer."""
    getattr(module, name).data.view(-1)[1] = value
    return module


UNREADABLE = {
    r"module '1', a Conv1d, cannot be converted: it is none of those that from_torch": (
        lambda n: [n.Linear(5, 3), n.Conv1d(1, 2, 3)]
    ),
    r"module '1\.0', a LogSoftmax, .* is none of those": (
        lambda n: [n.Linear(5, 3), n.Sequential(n.LogSoftmax(1))]
    ),
    r"module '1', a ReLU, .* is none of those": (
        lambda n: [n.Linear(5, 3), impostor(n)]
    ),
    r"module '1', a GELU, .*approximate='tanh'": (
        lambda n: [n.Linear(5, 3), n.GELU("tanh")]
    ),
    r"module '1', a Softplus, .* has other settings": (
        lambda n: [n.Linear(5, 3), n.Softplus(threshold=5)]
    ),
    r"module '1', a Hardtanh, .* has other settings": (
        lambda n: [n.Linear(5, 3), n.Hardtanh()]
    ),
    r"module '1', a LeakyReLU, .* out of range: .*slope = 0\.0": (
        lambda n: [n.Linear(5, 3), n.LeakyReLU(0)]
    ),
    r"module '0', a ReLU, .* no Linear right before it": (
        lambda n: [n.ReLU(), n.Linear(5, 3)]
    ),
    r"module '2', a Tanh, .* no Linear right before it": (
        lambda n: [n.Linear(5, 3), n.ReLU(), n.Tanh()]
    ),
    r"module '2', a Linear, .* comes after Softmax": (
        lambda n: [n.Linear(5, 3), n.Softmax(1), n.Linear(3, 3)]
    ),
    r"module '1', a Softmax, .* has dim 0\. Give Softmax\(dim=1\)": (
        lambda n: [n.Linear(5, 3), n.Softmax(0)]
    ),
    r"module '0', a Softmax, .* no Linear before it": lambda n: [n.Softmax(1)],
    r"module '1', a Flatten, .* not Flatten\(\) in front": (
        lambda n: [n.Linear(5, 3), n.Flatten()]
    ),
    r"module '0', a Linear, .* has hooks": lambda n: [hooked(n)],
    r"module '1', a BatchNorm1d, .* no running mean": (
        lambda n: [n.Linear(5, 3), n.BatchNorm1d(3, track_running_stats=False)]
    ),
    r"module '1', a BatchNorm1d, .* has 3 features where the other one has 4": (
        lambda n: [n.Linear(5, 3), n.BatchNorm1d(4)]
    ),
    r"module '1', a Linear, .* has 5 features where the other one has 4": (
        lambda n: [n.BatchNorm1d(4), n.Linear(5, 3)]
    ),
    r"module '2', a BatchNorm1d, .* ends a network after an activation": (
        lambda n: [n.Linear(5, 3), n.ReLU(), n.BatchNorm1d(3)]
    ),
    r"module '1', a BatchNorm1d, .* follows another": (
        lambda n: [n.BatchNorm1d(5), n.BatchNorm1d(5), n.Linear(5, 3)]
    ),
    r"layer 2 takes 4 inputs but layer 1 has 3 units": (
        lambda n: [n.Linear(5, 3), n.Linear(4, 2)]
    ),
    r"module '0', a Linear, .* has 1 of 15 values in its weight that are not finite, "
    r"the first is nan\. Give finite numbers": (
        lambda n: [filled(n.Linear(5, 3), "weight", math.nan)]
    ),
    r"module '0', a Linear, .* 1 of 3 values in its bias .* is inf": (
        lambda n: [filled(n.Linear(5, 3), "bias", math.inf)]
    ),
    r"module '1', a PReLU, .* 1 of 3 values in its weight .* nan": (
        lambda n: [n.Linear(5, 3), filled(n.PReLU(3), "weight", math.nan)]
    ),
    r"module '1', a BatchNorm1d, .* values in its running_mean .* nan": (
        lambda n: [n.Linear(5, 3), filled(n.BatchNorm1d(3), "running_mean", math.nan)]
    ),
    r"module '1', a BatchNorm1d, .* running_var plus eps, which is 0 for feature 1": (
        lambda n: [n.Linear(5, 3), filled(n.BatchNorm1d(3, 0.0), "running_var", 0)]
    ),
    r"module '0', a BatchNorm1d, .* which is -1 for feature 1, expected more than 0": (
        lambda n: [filled(n.BatchNorm1d(5, 0.0), "running_var", -1), n.Linear(5, 3)]
    ),
    r"module '1', a BatchNorm1d, .* too large for float32": (
        lambda n: [
            filled(n.Linear(5, 3), "bias", 1e5),
            filled(n.BatchNorm1d(3), "weight", 3e38),
        ]
    ),
    r"module '1', a Linear, .* too large for float32\. Give the BatchNorm1d a": (
        lambda n: [
            filled(n.BatchNorm1d(5), "weight", 3e38),
            filled(n.Linear(5, 3), "weight", 1e5),
        ]
    ),
    r"module '1', a LeakyReLU, .*[^.]\.$": (lambda n: [n.Linear(5, 3), n.LeakyReLU(0)]),
    r"the network has no Linear module": lambda n: [n.Identity()],
}


@pytest.mark.parametrize("message", UNREADABLE)
def test_unreadable_modules_are_named(message):
    """The message says which module it is, where it stands and what is wrong."""
    n = nn()
    with pytest.raises(ParameterError, match=message):
        from_torch(n.Sequential(*UNREADABLE[message](n)))


def test_only_a_plain_sequential_is_read():
    """A class with a forward of its own computes what it likes."""
    n = nn()

    class Twice(n.Sequential):
        def forward(self, x):
            return super().forward(super().forward(x))

    for module in (n.Linear(5, 5), Twice(n.Linear(5, 5)), n.Sequential(Twice())):
        message = rf"is a {'Linear' if isinstance(module, n.Linear) else 'Twice'}, exp"
        with pytest.raises(ParameterError, match=message):
            from_torch(module)


@pytest.mark.parametrize("activation", NOT_IN_TORCH)
def test_activations_that_pytorch_lacks(activation):
    """They are named, with their layer."""
    nn()
    stack = random_stack(("tanh", activation, "identity"))
    with pytest.raises(
        ParameterError, match=f"layer 2 has the activation {activation}"
    ):
        to_torch(stack)


def test_the_link_that_pytorch_lacks():
    """The message says how to do without it, and that works."""
    nn()
    stack = random_stack(("tanh", "identity"), "exp")
    with pytest.raises(ParameterError, match=r"'exp'.* stack\.truncate\(2\)"):
        to_torch(stack)
    outputs = torch_outputs(to_torch(stack.truncate(2)), rows())
    assert_close(np.exp(outputs), StackModel(stack).predict(rows()), 1e-12)


def test_without_pytorch_the_message_says_what_to_install(monkeypatch):
    """PyTorch is an extra."""
    monkeypatch.setattr(convert, "find_spec", lambda _name: None)
    for convert_it in (from_torch, to_torch):
        with pytest.raises(ParameterError, match=r"pip install 'hardzero\[torch\]'"):
            convert_it(RATINGS)
