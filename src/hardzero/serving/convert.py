"""Networks from and to scikit-learn and PyTorch, with the same predictions.

What the other side lacks is folded into weights:

=======================  ===============================================================
ours                     theirs
=======================  ===============================================================
fixed signs s            rows of the next W times s, which is exact: s is 1 or -1
two softmax outputs      one logistic output z1 - z0; z comes back as outputs (0, z)
(weights and biases)     a batch normalisation in evaluation, scaled into the linear
                         module before it, or behind it if an activation is between
=======================  ===============================================================

Whatever comes in becomes a `StackModel`, which predicts and can be saved. Only the
network is converted: neither settings of training nor the state of an optimiser.
"""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from hardzero.activations import Activation, get
from hardzero.errors import ParameterError
from hardzero.serving.model import StackModel
from hardzero.stack import Layer, OutputLink, RectifierStack

if TYPE_CHECKING:
    import torch
    from sklearn.neural_network import MLPClassifier, MLPRegressor

__all__ = ["from_sklearn", "from_torch", "to_sklearn", "to_torch"]

Array = npt.NDArray[Any]

# -------------------------------------------------------------------- scikit-learn

_FROM_HIDDEN: Final = {
    "identity": "identity",
    "logistic": "sigmoid",
    "relu": "rectifier",
    "tanh": "tanh",
}
_FROM_OUTPUT: Final[dict[str, OutputLink]] = {
    "exp": "exp",
    "identity": "identity",
    "logistic": "sigmoid",
    "softmax": "softmax",
}
_TO_HIDDEN: Final = {ours: theirs for theirs, ours in _FROM_HIDDEN.items()}
_TO_OUTPUT: Final = {ours: theirs for theirs, ours in _FROM_OUTPUT.items()}


def from_sklearn(mlp: "MLPClassifier | MLPRegressor") -> StackModel:
    """Take over the network of a fitted multi-layer perceptron of scikit-learn.

    Parameters
    ----------
    mlp : MLPClassifier or MLPRegressor
        Fitted; of two classes, several classes, several labels at once, or numbers.

    Returns
    -------
    StackModel
        With the same predictions, classes and names of features, in the dtype of the
        weights. Two classes become two softmax outputs, of which the first is 0.

    Raises
    ------
    ParameterError
        If `mlp` is something else, is not fitted, or knows one class only.

    Examples
    --------
    >>> import numpy as np
    >>> from hardzero import from_sklearn
    >>> from sklearn.neural_network import MLPClassifier
    >>> X, y = np.eye(4), np.array(["a", "b", "a", "b"])
    >>> mlp = MLPClassifier((5,), solver="lbfgs", random_state=0).fit(X, y)
    >>> from_sklearn(mlp).predict(X).tolist()
    ['a', 'b', 'a', 'b']
    """
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    if not isinstance(mlp, MLPClassifier | MLPRegressor):
        raise ParameterError(
            f"mlp is a {type(mlp).__name__}, expected an MLPClassifier or MLPRegressor "
            "of scikit-learn. Take it out of its pipeline or search first."
        )
    if not hasattr(mlp, "coefs_"):
        raise ParameterError(
            f"this {type(mlp).__name__} has no weights, expected a fitted one. Call "
            "fit first."
        )
    n_hidden = len(mlp.coefs_) - 1
    activations = [_FROM_HIDDEN[mlp.activation]] * n_hidden + ["identity"]
    layers = map(Layer, mlp.coefs_, mlp.intercepts_, activations)
    stack = RectifierStack(tuple(layers), _FROM_OUTPUT[mlp.out_activation_])
    classes: Any = getattr(mlp, "classes_", None)
    if stack.output_link == "sigmoid" and stack.n_outputs == 1:
        if len(classes) == 1:
            raise ParameterError(
                f"this MLPClassifier was fitted to the classes {classes.tolist()}, "
                "expected at least two. Fit it to rows of another class too."
            )
        stack = _with_two_outputs(stack)
    names = getattr(mlp, "feature_names_in_", None)
    return StackModel(stack, classes, None if names is None else tuple(names))


def to_sklearn(model: Any) -> "MLPClassifier | MLPRegressor":
    """Make a fitted multi-layer perceptron of scikit-learn.

    Parameters
    ----------
    model : StackModel, RectifierStack or fitted estimator
        Its hidden layers all have the same activation: identity, rectifier, sigmoid or
        tanh. The softmax outputs of a RectifierStack become the classes 0, 1, ...

    Returns
    -------
    MLPClassifier or MLPRegressor
        With the same predictions: a classifier for softmax and sigmoid outputs, a
        regressor for identity and exp outputs, the latter with the loss "poisson" of
        scikit-learn 1.7 and later. Classes are sorted, and labels that may occur
        together are numbered, as always in scikit-learn. It can be pickled, and
        ``partial_fit`` goes on from its weights; settings of training are
        scikit-learn's defaults.

    Raises
    ------
    ParameterError
        If scikit-learn has no such network.
    """
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    model = _model_of(model)
    _check_that_mlp_predicts_so(model)
    stack, classes, link = model.stack, model.classes, model.stack.output_link
    mixing = np.eye(stack.n_outputs, dtype=stack.dtype)
    if link == "softmax":
        classes, order = np.unique(classes, return_index=True)  # theirs are sorted
        mixing = mixing[:, order]
        if len(classes) == 2:
            mixing = mixing[:, 1:] - mixing[:, :1]
    layers = _without_signs(stack, mixing)
    settings: dict[str, Any] = {
        "hidden_layer_sizes": tuple(layer.n_units for layer in layers[:-1]),
        "activation": _shared_activation(layers[:-1]),
    }
    mlp: Any
    if link in ("softmax", "sigmoid"):
        mlp = MLPClassifier(**settings)
        labels = classes if link == "softmax" else np.eye(stack.n_outputs, dtype=int)
        mlp._label_binarizer = _label_binarizer(labels)
        mlp.classes_ = mlp._label_binarizer.classes_
    else:
        loss = {"loss": "poisson"} if link == "exp" else {}
        mlp = MLPRegressor(**settings, **loss)
    if model.feature_names is not None:
        mlp.feature_names_in_ = np.array(model.feature_names, dtype=object)
    mlp.n_features_in_ = stack.n_inputs
    mlp.n_outputs_ = layers[-1].n_units
    mlp.n_layers_ = len(layers) + 1
    mlp.coefs_ = [layer.W.copy() for layer in layers]
    mlp.intercepts_ = [layer.b.copy() for layer in layers]
    is_binary = link == "softmax" and mlp.n_outputs_ == 1
    mlp.out_activation_ = "logistic" if is_binary else _TO_OUTPUT[link]
    # What training that goes on counts from.
    mlp.n_iter_ = mlp.t_ = 0
    mlp.loss_curve_ = []
    mlp.best_loss_ = np.inf
    mlp.validation_scores_ = mlp.best_validation_score_ = None
    return mlp


def _check_that_mlp_predicts_so(model: StackModel) -> None:
    if model.classes is not None and len(model.classes) == 1:
        raise ParameterError(
            f"the network has one {model.stack.output_link} output, expected at least "
            "two: an MLPClassifier with one output has two classes. Build it with the "
            "softmax outputs (0, z) in place of its output z."
        )
    if model.kind == "rating":
        raise ParameterError(
            "the model predicts the mean of its classes, which no multi-layer "
            "perceptron of scikit-learn does. Convert its stack, and take the mean of "
            "what predict_proba returns."
        )


def _shared_activation(hidden: Sequence[Layer]) -> str:
    """Return scikit-learn's name for the activation of all hidden layers."""
    for number, layer in enumerate(hidden, start=1):
        if layer.activation.name not in _TO_HIDDEN:
            raise ParameterError(
                f"layer {number} has the activation {layer.activation}, expected one "
                f"that scikit-learn has: {', '.join(_TO_HIDDEN)}. Train with one of "
                "these, or convert by to_torch."
            )
        if layer.activation != hidden[0].activation:
            raise ParameterError(
                f"layer {number} has the activation {layer.activation} but layer 1 has "
                f"{hidden[0].activation}, expected the same in all hidden layers: "
                "scikit-learn has one for all. Train with one, or convert by to_torch."
            )
    return _TO_HIDDEN[hidden[0].activation.name] if hidden else "relu"


def _label_binarizer(labels: Array) -> Any:
    from sklearn.preprocessing import LabelBinarizer

    try:
        return LabelBinarizer().fit(labels)
    except ValueError as error:
        raise ParameterError(
            f"scikit-learn takes no classes like {labels.tolist()[0]!r} ({error}), "
            "expected whole numbers, booleans or strings. Rename the classes."
        ) from error


# ------------------------------------------------------------------------- PyTorch


def from_torch(
    sequential: "torch.nn.Sequential", classes: npt.ArrayLike | None = None
) -> StackModel:
    """Take over a feed-forward network of PyTorch, as it is in evaluation.

    Parameters
    ----------
    sequential : torch.nn.Sequential
        Linear modules, each with at most one activation behind it: ReLU, LeakyReLU,
        PReLU, ELU, SELU, GELU (the exact one), Softplus, SiLU, Mish, Sigmoid, Tanh,
        ReLU6, or Hardtanh from 0 on. Flatten may come first and Softmax last. Identity,
        Dropout and AlphaDropout are left out, BatchNorm1d is folded into a Linear.
        Networks may be nested. float64 stays, all else becomes float32.
    classes : array_like of shape (n_classes,), optional
        What the outputs stand for. Outputs without Softmax or Sigmoid are logits of
        these classes; if none are given, they are numbers to be predicted. Outputs with
        Softmax or Sigmoid have the classes 0, 1, ... if none are given.

    Returns
    -------
    StackModel
        With the same predictions. Two classes may share one output, a logit or a
        Sigmoid, that stands for the second. Several outputs with Sigmoid are labels
        that may occur together.

    Raises
    ------
    ParameterError
        If PyTorch is not installed, or a module cannot be converted; the message names
        it and its place.
    """
    nn = _import_torch().nn
    network = _SequentialReader(nn)
    for place, module in _modules(nn, sequential):
        network.read(place, module)
    stack = network.finish(has_classes=classes is not None)
    has_one_output = stack.n_outputs == 1 and not network.has_softmax
    if classes is None and stack.output_link != "identity":
        classes = range(2 if has_one_output else stack.n_outputs)
    labels = None if classes is None else np.asarray(classes)
    if labels is not None and labels.shape == (2,) and has_one_output:
        stack = _with_two_outputs(stack)
    return StackModel(stack, labels)


def to_torch(model: Any) -> "torch.nn.Sequential":
    """Make a feed-forward network of PyTorch.

    Parameters
    ----------
    model : StackModel, RectifierStack or fitted estimator
        Its activations are among those of `from_torch`.

    Returns
    -------
    torch.nn.Sequential
        In evaluation mode, on the CPU, in the dtype of the network: Linear modules with
        activations between them, then Softmax or Sigmoid if the network has such
        outputs; ``[:-1]`` leaves that out for training. Softplus gets the threshold 40,
        where its linear part agrees to the last bit.

    Raises
    ------
    ParameterError
        If PyTorch is not installed, or has no such activation or output link.
    """
    torch = _import_torch()
    stack = _model_of(model).stack
    if stack.output_link == "exp":
        raise ParameterError(
            "the network has the output link 'exp', for which PyTorch has no module. "
            f"Convert stack.truncate({len(stack.layers)}), which has no link, and "
            "apply torch.exp to the outputs."
        )
    # If the last activation were a Sigmoid, it would look like an output link.
    is_clear = stack.layers[-1].activation.name != "sigmoid"
    mixing = None if is_clear else np.eye(stack.n_outputs, dtype=stack.dtype)
    modules = []
    for number, layer in enumerate(_without_signs(stack, mixing), start=1):
        modules.append(_linear(torch, layer))
        if layer.activation.name != "identity":
            modules.append(_activation_module(torch, number, layer))
    if stack.output_link == "softmax":
        modules.append(torch.nn.Softmax(dim=1))
    elif stack.output_link == "sigmoid":
        modules.append(torch.nn.Sigmoid())
    return torch.nn.Sequential(*modules).eval()


def _import_torch() -> Any:
    if find_spec("torch") is None:
        raise ParameterError(
            "torch is not installed, expected PyTorch for this conversion. Run pip "
            "install 'hardzero[torch]'."
        )
    import torch

    return torch


def _modules(nn: Any, network: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the modules in order, out of nested networks too, with their places."""
    is_sequential = isinstance(network, nn.Sequential)
    if not (is_sequential and type(network).forward is nn.Sequential.forward):
        raise ParameterError(
            f"sequential is a {type(network).__name__}, expected a torch.nn.Sequential "
            "that calls its modules one after the other. Put the modules into one."
        )
    kind = type(network).__name__
    what = f"module {prefix[:-1]!r}, a {kind}," if prefix else f"the {kind}"
    _check_that_class_computes(what, network)
    for name, module in network._modules.items():
        if isinstance(module, nn.Sequential):
            yield from _modules(nn, module, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", module


def _check_that_class_computes(what: str, module: Any) -> None:
    """Refuse a module that computes something else than others of its class."""
    if module._forward_hooks or module._forward_pre_hooks:
        raise _refusal(what, "has hooks, which may change what it does. Remove them")
    if "forward" in vars(module):
        raise _refusal(
            what,
            "has a forward of its own, not that of its class. Delete the attribute",
        )


def _refusal(what: str, why: str) -> ParameterError:
    return ParameterError(f"{what} cannot be converted: it {why.rstrip('.')}.")


class _SequentialReader:
    """The layers of the modules that were read so far."""

    def __init__(self, nn: Any) -> None:
        self.has_softmax = False
        self._nn = nn
        self._place = ""
        self._layers: list[Layer] = []
        # Scale and shift of a batch normalisation that waits for the next Linear.
        self._waiting: tuple[Array, Array] | None = None

    def read(self, place: str, module: Any) -> None:
        nn, kind = self._nn, type(module)
        self._place = f"module {place!r}, a {kind.__name__},"
        _check_that_class_computes(self._place, module)
        if kind in (nn.Identity, nn.Dropout, nn.AlphaDropout):
            return
        if self.has_softmax:
            raise self._refusal("comes after Softmax. Let Softmax be the last module")
        if kind is nn.Linear:
            self._read_linear(module)
        elif kind is nn.BatchNorm1d:
            self._read_batch_norm(module)
        elif kind is nn.Flatten:
            is_first = not self._layers and self._waiting is None
            if not is_first or (module.start_dim, module.end_dim) != (1, -1):
                raise self._refusal(
                    "is not Flatten() in front of all others. Leave it out, and give "
                    "one row of numbers per sample"
                )
        elif kind is nn.Softmax:
            if module.dim not in (1, -1):
                raise self._refusal(f"has dim {module.dim}. Give Softmax(dim=1)")
            if not self._layers or self._waiting is not None:
                raise self._refusal("has no Linear before it. Put one there")
            self.has_softmax = True
        else:
            self._read_activation(module)

    def finish(self, has_classes: bool) -> RectifierStack:
        if not self._layers:
            raise ParameterError(
                "the network has no Linear module. Give a torch.nn.Sequential with at "
                "least one."
            )
        if self._waiting is not None:
            raise self._refusal("ends a network after an activation. Add a Linear")
        link: OutputLink = "identity"
        last = self._layers[-1]
        if self.has_softmax:
            link = "softmax"
        elif last.activation.name == "sigmoid":
            link = "sigmoid"
            self._layers[-1] = Layer(last.W, last.b, "identity")
        elif has_classes:
            link = "softmax"
        return RectifierStack(tuple(self._layers), link)

    def _read_linear(self, module: Any) -> None:
        W = self._numbers(module, "weight").T
        has_bias = module.bias is not None
        b = self._numbers(module, "bias") if has_bias else np.zeros(W.shape[1])
        if self._waiting is not None:
            scale, shift = self._waiting
            self._check_width(scale, len(W))
            self._waiting = None
            with np.errstate(over="ignore", invalid="ignore"):
                b, W = b + shift @ W, (scale[:, np.newaxis] * W).astype(W.dtype)
                b = b.astype(W.dtype)
            self._check_folded(W, b)
        self._layers.append(Layer(W, b, "identity"))

    def _read_batch_norm(self, module: Any) -> None:
        if module.running_mean is None:
            raise self._refusal(
                "has no running mean and variance. Train it with "
                "track_running_stats=True"
            )
        if self._waiting is not None:
            raise self._refusal("follows another one. Leave one of them out")
        scale, shift = self._scale_and_shift(module)
        last = self._layers[-1] if self._layers else None
        if last is None or last.activation.name != "identity":
            self._waiting = scale, shift
            return
        self._check_width(scale, last.n_units)
        with np.errstate(over="ignore", invalid="ignore"):
            W = (last.W * scale).astype(last.dtype)
            b = (last.b * scale + shift).astype(last.dtype)
        self._check_folded(W, b)
        self._layers[-1] = Layer(W, b, "identity")

    def _scale_and_shift(self, batch_norm: Any) -> tuple[Array, Array]:
        """Return g and c of the map x g + c that it is, in float64."""
        mean = self._numbers(batch_norm, "running_mean").astype(np.float64)
        variance = self._numbers(batch_norm, "running_var").astype(np.float64)
        variance = variance + batch_norm.eps
        if not (variance > 0.0).all():
            number = int(np.argmin(variance > 0.0))
            raise self._refusal(
                f"divides by the root of running_var plus eps, which is "
                f"{variance[number]:g} for feature {number}, expected more than 0. "
                "Give it a larger eps, or leave the feature out"
            )
        scale = 1.0 / np.sqrt(variance)
        if batch_norm.weight is None:
            return scale, -mean * scale
        scale = scale * self._numbers(batch_norm, "weight")
        return scale, self._numbers(batch_norm, "bias") - mean * scale

    def _check_folded(self, W: Array, b: Array) -> None:
        if not (np.isfinite(W).all() and np.isfinite(b).all()):
            raise self._refusal(
                f"gives, folded with its neighbour, weights too large for {W.dtype}. "
                "Give the BatchNorm1d a larger eps, or convert network.double()"
            )

    def _read_activation(self, module: Any) -> None:
        try:
            activation = _activation(self._nn, module)
        except ParameterError as error:
            raise self._refusal(f"is out of range: {error}") from error
        if activation is None:
            raise self._refusal(
                f"is none of those that from_torch lists, or has other settings: "
                f"{module}. Leave it out, or replace it"
            )
        last = self._layers[-1] if self._layers and self._waiting is None else None
        if last is None or last.activation.name != "identity":
            raise self._refusal("has no Linear right before it. Put one there")
        slopes = None
        if activation.has_slopes:
            slopes = self._numbers(module, "weight")
            if len(slopes) == 1:
                slopes = np.full(last.n_units, slopes[0])
        self._layers[-1] = Layer(last.W, last.b, activation, None, slopes)

    def _check_width(self, scale: Array, n_units: int) -> None:
        if len(scale) != n_units:
            raise self._refusal(
                f"has {n_units} features where the other one has {len(scale)}. Give "
                "BatchNorm1d as many as Linear"
            )

    def _numbers(self, module: Any, name: str) -> Array:
        array = _array(getattr(module, name))
        bad = array[~np.isfinite(array)]
        if len(bad):
            raise self._refusal(
                f"has {len(bad)} of {array.size} values in its {name} that are not "
                f"finite, the first is {bad[0]}. Give finite numbers; such a network "
                "predicts nothing"
            )
        return array

    def _refusal(self, why: str) -> ParameterError:
        return _refusal(self._place, why)


def _array(tensor: Any) -> Array:
    tensor = tensor.detach().cpu()
    has_numpy_dtype = tensor.dtype.itemsize in (4, 8)
    array: Array = (tensor if has_numpy_dtype else tensor.float()).numpy()
    return array


_PLAIN: Final = {
    "GELU": "gelu",
    "Mish": "mish",
    "ReLU": "rectifier",
    "SELU": "selu",
    "SiLU": "silu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
}
# exp(-20) = 2e-9 is the relative error of Softplus behind its default threshold, and
# exp(-40) is less than a rounding error of float64.
_LOWEST_THRESHOLD: Final = 20.0
_EXACT_THRESHOLD: Final = 40.0


def _activation(nn: Any, module: Any) -> Activation | None:
    """Return the activation that a module computes, None if there is none."""
    kind = type(module)
    name = kind.__name__
    if kind is not getattr(nn, name, None):
        return None
    if name in _PLAIN and (name != "GELU" or module.approximate == "none"):
        return get(_PLAIN[name])
    if name == "PReLU":
        return get("prelu")
    if name == "LeakyReLU":
        return get(f"leaky_rectifier({float(module.negative_slope)!r})")
    if name == "ELU":
        return get(f"elu({float(module.alpha)!r})")
    if name == "Softplus" and module.threshold >= _LOWEST_THRESHOLD:
        is_plain = module.beta == 1
        return get("softplus" if is_plain else f"rescaled_softplus({module.beta!r})")
    if name in ("Hardtanh", "ReLU6") and module.min_val == 0:
        return get(f"capped_rectifier({float(module.max_val)!r})")
    return None


def _activation_module(torch: Any, number: int, layer: Layer) -> Any:
    nn, activation = torch.nn, layer.activation
    for theirs, ours in _PLAIN.items():
        if activation.name == ours:
            return getattr(nn, theirs)()
    parameter = activation.parameter
    if activation.name == "prelu":
        module = nn.PReLU(layer.n_units, dtype=_dtype(torch, layer))
        module.weight.data.copy_(torch.tensor(layer.slopes))
        return module
    if activation.name == "leaky_rectifier":
        return nn.LeakyReLU(parameter)
    if activation.name == "elu":
        return nn.ELU(parameter)
    if activation.name in ("softplus", "rescaled_softplus"):
        return nn.Softplus(parameter or 1.0, _EXACT_THRESHOLD)
    if activation.name == "capped_rectifier":
        return nn.Hardtanh(0.0, parameter)
    raise ParameterError(
        f"layer {number} has the activation {activation}, for which PyTorch has no "
        "module. Train with another one to convert the network."
    )


def _linear(torch: Any, layer: Layer) -> Any:
    # skip_init leaves PyTorch's random numbers alone.
    module = torch.nn.utils.skip_init(
        torch.nn.Linear, layer.n_inputs, layer.n_units, dtype=_dtype(torch, layer)
    )
    module.weight.data.copy_(torch.tensor(layer.W.T))
    module.bias.data.copy_(torch.tensor(layer.b))
    return module


def _dtype(torch: Any, layer: Layer) -> Any:
    return torch.float32 if layer.dtype == np.float32 else torch.float64


# ---------------------------------------------------------------------------- both


def _model_of(model: Any) -> StackModel:
    if isinstance(model, StackModel):
        return model
    if isinstance(model, RectifierStack):
        has_classes = model.output_link in ("softmax", "sigmoid")
        return StackModel(model, np.arange(model.n_outputs) if has_classes else None)
    return StackModel.of(model)


def _with_two_outputs(stack: RectifierStack) -> RectifierStack:
    """Replace the output z by (0, z), whose softmax is (1 - sigmoid(z), sigmoid(z))."""
    layers = _without_signs(stack, np.array([[0.0, 1.0]], dtype=stack.dtype))
    return RectifierStack(layers, "softmax")


def _without_signs(
    stack: RectifierStack, mixing: Array | None = None
) -> tuple[Layer, ...]:
    """Return layers without signs that put out the outputs of a stack.

    The outputs are multiplied by the matrix `mixing`, if it is given; the last layer
    then has the activation "identity".
    """
    layers: list[Layer] = []
    signs = None
    for layer in stack.layers:
        W = layer.W if signs is None else signs[:, np.newaxis] * layer.W
        layers.append(Layer(W, layer.b, layer.activation, None, layer.slopes))
        signs = layer.signs
    if mixing is None and signs is None:
        return tuple(layers)
    end = np.eye(stack.n_outputs, dtype=stack.dtype) if mixing is None else mixing
    if signs is not None:
        end = signs[:, np.newaxis] * end
    last = layers[-1]
    if last.activation.name == "identity":
        layers[-1] = Layer(last.W @ end, last.b @ end, "identity")
    else:
        b = np.zeros(end.shape[1], dtype=stack.dtype)
        layers.append(Layer(end, b, "identity"))
    return tuple(layers)
