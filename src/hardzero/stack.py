"""The hand-over type: a network as a frozen list of layers.

A `RectifierStack` is the only form in which a network travels between training,
theory, serving, files and other frameworks. It needs nothing but NumPy.

A layer maps its inputs X of shape (n_samples, n_inputs) to

    h = signs * f(X @ W + b)

with an elementwise activation f and fixed output signs of plus or minus one (Glorot,
Bordes & Bengio 2011, section 3: half of the units get the sign -1). The outputs of
the last layer go through the output link: a classifier ends with the activation
"identity" and the link "softmax".
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final, Literal, Protocol, get_args, runtime_checkable

import numpy as np
import numpy.typing as npt

from hardzero.activations import Activation, get
from hardzero.errors import DataError, ParameterError

__all__ = [
    "Architecture",
    "Layer",
    "LayerShape",
    "OutputLink",
    "RectifierStack",
    "apply_link",
]

Array = npt.NDArray[Any]
OutputLink = Literal["identity", "softmax", "sigmoid", "exp"]

_LINKS: Final[tuple[str, ...]] = get_args(OutputLink)


@runtime_checkable
class SparseMatrix(Protocol):
    """What is needed here of a SciPy sparse matrix or array."""

    def tocsr(self) -> Any:
        """Return it by compressed rows."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Layer:
    """One layer, h = signs * f(X @ W + b).

    Arrays become C-contiguous, read-only and of the dtype of `W` (float32 if that is
    float32, else float64). An array that is so already is kept, unless it is a view of
    memory that can be written to; any other is copied, so the caller's arrays stay as
    they were. That the arrays fit together is
    checked when the layer enters a `RectifierStack`, which can name its number.

    Parameters
    ----------
    W : array_like of shape (n_inputs, n_units)
        Weights.
    b : array_like of shape (n_units,)
        Biases.
    activation : Activation or str
        Elementwise function, or its spelling as `hardzero.activations.get` reads it.
    signs : array_like of shape (n_units,), optional
        Fixed output signs, each 1 or -1. None means all 1.
    slopes : array_like of shape (n_units,), optional
        Learned slopes of PReLU units; other units have none. For PReLU, None means
        the activation's initial slope for each unit.

    Raises
    ------
    ParameterError
        If an array is not of real numbers in the right number of dimensions, or the
        activation is unknown.

    Examples
    --------
    >>> from hardzero.stack import Layer
    >>> Layer([[1.0, -1.0]], [0.0, 0.0], "rectifier", signs=[1, -1])
    Layer(1 -> 2 rectifier, signs -1 for 1 of 2 units, float64)
    """

    W: Array
    b: Array
    activation: Activation
    signs: Array | None
    slopes: Array | None

    def __init__(
        self,
        W: npt.ArrayLike,
        b: npt.ArrayLike,
        activation: Activation | str,
        signs: npt.ArrayLike | None = None,
        slopes: npt.ArrayLike | None = None,
    ) -> None:
        activation = get(activation)
        W = _frozen("W", W, 2)
        b = _frozen("b", b, 1, W.dtype)
        if activation.has_slopes and slopes is None:
            slopes = np.full(b.shape, activation.parameter)
        self.__dict__.update(  # assignment is closed: the dataclass is frozen
            W=W,
            b=b,
            activation=activation,
            signs=None if signs is None else _frozen("signs", signs, 1, W.dtype),
            slopes=None if slopes is None else _frozen("slopes", slopes, 1, W.dtype),
        )

    @property
    def n_inputs(self) -> int:
        """Number of inputs."""
        n_inputs: int = self.W.shape[0]
        return n_inputs

    @property
    def n_units(self) -> int:
        """Number of units."""
        n_units: int = self.W.shape[1]
        return n_units

    @property
    def n_parameters(self) -> int:
        """Number of learned numbers: weights, biases and slopes, but not signs."""
        learned = (a.size for name, a in self.arrays().items() if name != "signs")
        return sum(learned)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of all arrays, float32 or float64."""
        return self.W.dtype

    def astype(self, dtype: npt.DTypeLike) -> "Layer":
        """Return the layer with its arrays in another dtype.

        Parameters
        ----------
        dtype : dtype_like
            Float32 or float64.

        Returns
        -------
        Layer
            This layer if it has that dtype already, else a new one.

        Raises
        ------
        ParameterError
            If `dtype` is neither.
        """
        dtype = _float_dtype(dtype)
        if dtype == self.dtype:
            return self
        W = _frozen("W", self.W, 2, dtype)
        return Layer(W, self.b, self.activation, self.signs, self.slopes)

    def arrays(self) -> dict[str, Array]:
        """Return the arrays that are there, by name, without copying.

        Returns
        -------
        dict of str to ndarray
            Under "W", "b" and, if the layer has them, "signs" and "slopes".
        """
        named = {"W": self.W, "b": self.b, "signs": self.signs, "slopes": self.slopes}
        return {name: array for name, array in named.items() if array is not None}

    def __eq__(self, other: object) -> bool:
        """Whether activation, dtype, shapes and all values are the same."""
        if not isinstance(other, Layer):
            return NotImplemented
        mine, theirs = self.arrays(), other.arrays()
        return (
            self.activation == other.activation
            and self.dtype == other.dtype
            and mine.keys() == theirs.keys()
            and all(np.array_equal(mine[name], theirs[name]) for name in mine)
        )

    def __hash__(self) -> int:
        """Hash that agrees with ``==``; it reads all values."""
        # Adding 0.0 turns -0.0 into 0.0, which is equal to it.
        content = ((name, (a + 0.0).tobytes()) for name, a in self.arrays().items())
        return hash((self.activation, self.dtype.str, self.W.shape, *content))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickle. Arrays come back writable, so they are frozen again."""
        for name, value in state.items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
                state[name] = _frozen(name, value, value.ndim, value.dtype)
        self.__dict__.update(state)

    def __repr__(self) -> str:
        """Return sizes, activation and signs, without the weights."""
        return f"Layer({self.n_inputs} -> {self.n_units} {_units(self)}, {self.dtype})"


@dataclass(frozen=True, repr=False)
class RectifierStack:
    """A feed-forward network: frozen layers and an output link.

    Stacks are equal if all layers have equal values. They can be hashed and pickled.

    Parameters
    ----------
    layers : iterable of Layer
        From the input to the output; at least one. All have the same dtype.
    output_link : {"identity", "softmax", "sigmoid", "exp"}, default="identity"
        What maps the outputs of the last layer to predictions, see `apply_link`.

    Raises
    ------
    ParameterError
        If shapes do not fit, values are not finite, signs are not 1 or -1, only PReLU
        layers have slopes, dtypes differ, or the link is unknown. The message names
        the layer, counted from 1.

    Examples
    --------
    >>> import numpy as np
    >>> from hardzero.stack import Layer, RectifierStack
    >>> hidden = Layer(np.eye(2), np.zeros(2), "rectifier", signs=[1, -1])
    >>> output = Layer(np.ones((2, 3)), np.zeros(3), "identity")
    >>> stack = RectifierStack((hidden, output), "softmax")
    >>> stack
    RectifierStack: 2 -> 2 -> 3, float64, 15 parameters
      1  2 -> 2  rectifier, signs -1 for 1 of 2 units
      2  2 -> 3  identity
      output link softmax
    >>> stack([[3.0, 1.0]])
    array([[2., 2., 2.]])
    """

    layers: tuple[Layer, ...]
    output_link: OutputLink = "identity"

    def __post_init__(self) -> None:
        """Check that the layers are sound and fit together."""
        object.__setattr__(self, "layers", tuple(self.layers))
        for number, layer in enumerate(self.layers, start=1):
            _check_layer(number, layer)
            if layer.dtype != self.dtype:
                raise ParameterError(
                    f"layer {number} is {layer.dtype} but layer 1 is {self.dtype}. "
                    "Give all layers one dtype, for example with Layer.astype."
                )
        _check_chain(self.layers)
        _check_link(self.output_link)

    @property
    def n_inputs(self) -> int:
        """Number of inputs of the first layer."""
        return self.layers[0].n_inputs

    @property
    def n_outputs(self) -> int:
        """Number of units of the last layer."""
        return self.layers[-1].n_units

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of inputs, then of the units of each layer."""
        return (self.n_inputs, *(layer.n_units for layer in self.layers))

    @property
    def n_parameters(self) -> int:
        """Number of learned numbers: weights, biases and slopes, but not signs."""
        return sum(layer.n_parameters for layer in self.layers)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of all arrays, float32 or float64."""
        return self.layers[0].dtype

    @property
    def architecture(self) -> "Architecture":
        """All about the network but the values of its arrays."""
        return Architecture(
            layers=tuple(
                LayerShape(
                    layer.n_inputs,
                    layer.n_units,
                    str(layer.activation),
                    layer.signs is not None,
                )
                for layer in self.layers
            ),
            output_link=self.output_link,
            dtype=self.dtype.name,
        )

    def __call__(self, X: npt.ArrayLike | SparseMatrix) -> Array:
        """Return the outputs of the last layer, before the output link.

        This is the plain NumPy forward pass. All rows go through at once, so large
        inputs should come in pieces.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_inputs)
            Inputs; brought to the dtype of the stack. Sparse input is not made dense.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs)
            Outputs; `apply_link` turns them into predictions.

        Raises
        ------
        ParameterError
            If `X` does not have `n_inputs` columns.
        """
        h: Any
        if isinstance(X, SparseMatrix):
            h = X.tocsr().astype(self.dtype)
        else:
            h = np.asarray(X, dtype=self.dtype)
        if h.ndim != 2 or h.shape[1] != self.n_inputs:
            raise ParameterError(
                f"X has shape {h.shape}, expected (n_samples, {self.n_inputs}). Give "
                "one row per sample and one column per input of the first layer."
            )
        for layer in self.layers:
            h = layer.activation(h @ layer.W + layer.b, layer.slopes)
            if layer.signs is not None:
                h *= layer.signs
        outputs: Array = h
        return outputs

    def truncate(self, n_layers: int) -> "RectifierStack":
        """Return the first layers as a stack whose outputs are hidden activations.

        Parameters
        ----------
        n_layers : int
            How many layers to keep, from 1 to ``len(layers)``.

        Returns
        -------
        RectifierStack
            The same layers, not copied, with the output link "identity".

        Raises
        ------
        ParameterError
            If `n_layers` is out of range.
        """
        if not 1 <= n_layers <= len(self.layers):
            raise ParameterError(
                f"n_layers is {n_layers}, expected 1 to {len(self.layers)}, the number "
                "of layers. Keep at least one layer and at most all."
            )
        return RectifierStack(self.layers[:n_layers])

    def astype(self, dtype: npt.DTypeLike) -> "RectifierStack":
        """Return the stack with all arrays in another dtype.

        Parameters
        ----------
        dtype : dtype_like
            Float32 or float64.

        Returns
        -------
        RectifierStack
            Layers of that dtype already are not copied.

        Raises
        ------
        ParameterError
            If `dtype` is neither, or a value is too large for float32.
        """
        layers = tuple(layer.astype(dtype) for layer in self.layers)
        return RectifierStack(layers, self.output_link)

    def arrays(self) -> dict[str, Array]:
        """Return all arrays by name, without copying.

        Returns
        -------
        dict of str to ndarray
            Names are the layer's number, counted from 1, and the array's name: "1.W",
            "1.b", "1.signs", "1.slopes", "2.W", ...
        """
        return {
            f"{number}.{name}": array
            for number, layer in enumerate(self.layers, start=1)
            for name, array in layer.arrays().items()
        }

    @classmethod
    def from_arrays(
        cls, architecture: "Architecture", arrays: Mapping[str, Array]
    ) -> "RectifierStack":
        """Put a stack together again from its architecture and its arrays.

        Parameters
        ----------
        architecture : Architecture
            What `architecture` or `Architecture.from_json` gave.
        arrays : mapping of str to ndarray
            What `arrays` gave, for example after a way through a file.

        Returns
        -------
        RectifierStack
            Equal to the stack that gave both.

        Raises
        ------
        DataError
            If arrays are missing or left over, have another shape or dtype than the
            architecture says, or hold values that no stack can have.
        """
        shapes = architecture.array_shapes()
        if shapes.keys() != arrays.keys():
            raise DataError(
                f"the arrays do not belong to the architecture: missing "
                f"{sorted(shapes.keys() - arrays.keys())}, left over "
                f"{sorted(arrays.keys() - shapes.keys())}. Give the arrays of the "
                "stack that the architecture describes."
            )
        for name, shape in shapes.items():
            array = arrays[name]
            if array.shape != shape or array.dtype != architecture.dtype:
                raise DataError(
                    f"array {name!r} is {array.dtype} of shape {array.shape}, but the "
                    f"architecture says {architecture.dtype} of shape {shape}. Give "
                    "the arrays of the stack that the architecture describes."
                )
        try:
            return cls(
                tuple(
                    Layer(
                        arrays[f"{number}.W"],
                        arrays[f"{number}.b"],
                        layer.activation,
                        arrays.get(f"{number}.signs"),
                        arrays.get(f"{number}.slopes"),
                    )
                    for number, layer in enumerate(architecture.layers, start=1)
                ),
                architecture.output_link,
            )
        except ParameterError as error:
            raise DataError(str(error)) from error

    def to_json(self) -> str:
        """Return the architecture, without the weights, as JSON.

        Returns
        -------
        str
            What `Architecture.from_json` reads.
        """
        return self.architecture.to_json()

    def __repr__(self) -> str:
        """Return the network on one screen, without the weights."""
        sizes = " -> ".join(_abridge(self.sizes, 8, "..."))
        lines = [
            f"  {number}  {layer.n_inputs} -> {layer.n_units}  {_units(layer)}"
            for number, layer in enumerate(self.layers, start=1)
        ]
        return "\n".join(
            [
                f"RectifierStack: {sizes}, {self.dtype}, "
                f"{self.n_parameters:,} parameters",
                *_abridge(lines, 16, "  ..."),
                f"  output link {self.output_link}",
            ]
        )


@dataclass(frozen=True)
class LayerShape:
    """What an `Architecture` says about one layer.

    Parameters
    ----------
    n_inputs, n_units : int
        Sizes, at least 1.
    activation : str
        Spelling that `hardzero.activations.get` reads.
    has_signs : bool
        Whether fixed output signs belong to the layer.
    """

    n_inputs: int
    n_units: int
    activation: str
    has_signs: bool = False


@dataclass(frozen=True)
class Architecture:
    """All about a `RectifierStack` but the values of its arrays.

    Parameters
    ----------
    layers : tuple of LayerShape
        From the input to the output; at least one.
    output_link : {"identity", "softmax", "sigmoid", "exp"}
        See `apply_link`.
    dtype : {"float32", "float64"}
        Dtype of all arrays.

    Raises
    ------
    ParameterError
        If a size, an activation, the link or the dtype is not allowed, or the output
        of a layer does not fit the input of the next.
    """

    layers: tuple[LayerShape, ...]
    output_link: OutputLink
    dtype: str

    def __post_init__(self) -> None:
        """Check that the layers are sound and fit together."""
        object.__setattr__(self, "layers", tuple(self.layers))
        for number, layer in enumerate(self.layers, start=1):
            if min(layer.n_inputs, layer.n_units) < 1:
                raise ParameterError(
                    f"layer {number} has {layer.n_inputs} inputs and {layer.n_units} "
                    "units, expected at least one of each. Leave the layer out."
                )
            get(layer.activation)
        _check_chain(self.layers)
        _check_link(self.output_link)
        if self.dtype not in ("float32", "float64"):
            raise ParameterError(
                f"dtype is {self.dtype!r}, expected 'float32' or 'float64'."
            )

    def array_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each array that belongs to such a stack.

        Returns
        -------
        dict of str to tuple of int
            Shapes under the names that `RectifierStack.arrays` uses.
        """
        shapes: dict[str, tuple[int, ...]] = {}
        for number, layer in enumerate(self.layers, start=1):
            shapes[f"{number}.W"] = (layer.n_inputs, layer.n_units)
            shapes[f"{number}.b"] = (layer.n_units,)
            if layer.has_signs:
                shapes[f"{number}.signs"] = (layer.n_units,)
            if get(layer.activation).has_slopes:
                shapes[f"{number}.slopes"] = (layer.n_units,)
        return shapes

    def to_json(self) -> str:
        """Return the architecture as JSON.

        Returns
        -------
        str
            One object with "format", "version", "dtype", "output_link" and "layers".
        """
        return json.dumps({**_HEADER, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Architecture":
        """Read what `to_json` wrote.

        Parameters
        ----------
        text : str or bytes
            JSON.

        Returns
        -------
        Architecture
            Equal to the one that was written.

        Raises
        ------
        DataError
            If the text is not JSON, or not of an architecture, or of one that cannot
            be.
        """
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"the architecture is not JSON: {error}. {_REMEDY}"
            ) from error
        fields = _checked("the architecture", fields, _ARCHITECTURE_FIELDS)
        for key, expected in _HEADER.items():
            if fields[key] != expected:
                raise DataError(
                    f"the architecture has {key} {fields[key]!r}, expected "
                    f"{expected!r}. {_REMEDY}"
                )
        layers = (
            LayerShape(**_checked(f"layer {number}", layer, _LAYER_FIELDS))
            for number, layer in enumerate(fields["layers"], start=1)
        )
        try:
            return cls(tuple(layers), fields["output_link"], fields["dtype"])
        except ParameterError as error:
            raise DataError(f"the architecture cannot be: {error}") from error


_HEADER: Final = {"format": "hardzero.stack", "version": 1}
_REMEDY: Final = "Give the JSON that RectifierStack.to_json of this version wrote."
_LAYER_FIELDS: Final = {
    "n_inputs": int,
    "n_units": int,
    "activation": str,
    "has_signs": bool,
}
_ARCHITECTURE_FIELDS: Final = {
    "format": str,
    "version": int,
    "layers": list,
    "output_link": str,
    "dtype": str,
}


def _checked(name: str, fields: Any, types: Mapping[str, type]) -> dict[str, Any]:
    if not isinstance(fields, dict) or fields.keys() != types.keys():
        found = sorted(fields) if isinstance(fields, dict) else type(fields).__name__
        raise DataError(
            f"{name} has {found}, expected an object with {sorted(types)}. {_REMEDY}"
        )
    for key, expected in types.items():
        if type(fields[key]) is not expected:  # a bool is no int here
            raise DataError(
                f"{name} has {key} = {fields[key]!r}, expected {expected.__name__}. "
                f"{_REMEDY}"
            )
    return fields


def apply_link(link: OutputLink, outputs: npt.ArrayLike) -> Array:
    """Map the outputs of a last layer to predictions.

    Parameters
    ----------
    link : {"identity", "softmax", "sigmoid", "exp"}
        "softmax": probabilities of exclusive classes, exp(z) / sum of exp(z) over a
        row; "sigmoid": a probability for each unit; "exp": a positive mean, at most
        the largest float; "identity": the outputs themselves.
    outputs : array_like of shape (n_samples, n_outputs)
        What `RectifierStack.__call__` returned.

    Returns
    -------
    ndarray of shape (n_samples, n_outputs)
        Predictions; a softmax row sums to 1 up to rounding.

    Raises
    ------
    ParameterError
        If the link is unknown.
    """
    _check_link(link)
    z: Array = np.asarray(outputs)
    if link == "softmax":
        with np.errstate(over="ignore"):  # so far below the maximum: probability 0
            z = np.exp(z - z.max(axis=-1, keepdims=True))
        z /= z.sum(axis=-1, keepdims=True)
    elif link == "sigmoid":
        z = get("sigmoid")(z)
    elif link == "exp":
        with np.errstate(over="ignore"):
            z = np.exp(z)
        z = np.minimum(z, np.finfo(z.dtype).max)
    return z


def _check_link(link: str) -> None:
    if link not in _LINKS:
        raise ParameterError(
            f"output_link is {link!r}, expected one of {', '.join(_LINKS)}. "
            "A classifier takes 'softmax'."
        )


def _check_chain(layers: Sequence[Layer | LayerShape]) -> None:
    if not layers:
        raise ParameterError("layers is empty. Give at least one layer.")
    for number, (before, layer) in enumerate(pairwise(layers), start=2):
        if layer.n_inputs != before.n_units:
            raise ParameterError(
                f"layer {number} takes {layer.n_inputs} inputs but layer {number - 1} "
                f"has {before.n_units} units. Give the W of layer {number} "
                f"{before.n_units} rows, or that of layer {number - 1} "
                f"{layer.n_inputs} columns."
            )


def _check_layer(number: int, layer: Layer) -> None:
    if not isinstance(layer, Layer):
        raise ParameterError(
            f"layer {number} is a {type(layer).__name__}, expected a Layer. "
            "Write Layer(W, b, activation)."
        )
    if layer.W.size == 0:
        raise ParameterError(
            f"W of layer {number} has shape {layer.W.shape}, expected at least one "
            "input and one unit. Leave the layer out."
        )
    if layer.slopes is not None and not layer.activation.has_slopes:
        raise ParameterError(
            f"layer {number} has slopes but its activation is {layer.activation}. "
            "Leave slopes out, or take the activation 'prelu'."
        )
    for name, array in layer.arrays().items():
        if name != "W" and array.shape != (layer.n_units,):
            raise ParameterError(
                f"{name} of layer {number} has shape {array.shape}, expected "
                f"({layer.n_units},) because its W has shape {layer.W.shape}. Give one "
                "value per unit; W has one row per input and one column per unit."
            )
        finite = np.isfinite(array)
        if not finite.all():
            first = tuple(map(int, np.argwhere(~finite)[0]))
            raise ParameterError(
                f"{name} of layer {number} has {np.count_nonzero(~finite)} values that "
                f"are not finite, the first at {first}: {array[first]}. Give finite "
                "numbers; if training made these, lower the learning rate."
            )
    if layer.signs is not None and not (np.abs(layer.signs) == 1).all():
        wrong = layer.signs[np.abs(layer.signs) != 1]
        raise ParameterError(
            f"signs of layer {number} hold {wrong[0]:g}, expected only 1 and -1. "
            "Move any other factor into the W of the next layer."
        )


def _frozen(
    name: str, value: npt.ArrayLike, ndim: int, dtype: np.dtype[Any] | None = None
) -> Array:
    """Return a C-contiguous read-only float array, the value itself if it is one."""
    try:
        array: Array = np.asarray(value)
    except ValueError:  # rows of different lengths
        array = np.empty((), dtype=object)
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise ParameterError(
            f"{name} of a layer cannot be read as an array of real numbers: NumPy "
            f"makes it {array.dtype}. Give it as float32 or float64."
        )
    if array.ndim != ndim:
        raise ParameterError(
            f"{name} of a layer has shape {array.shape}, expected {ndim} "
            f"dimension{'s' * (ndim > 1)}: {_SHAPES[ndim]}. Reshape it."
        )
    if dtype is None:
        dtype = np.dtype(np.float32 if array.dtype == np.float32 else np.float64)
    is_right = array.flags.c_contiguous and array.dtype == dtype
    if not (is_right and _is_read_only(array)):
        with np.errstate(over="ignore"):  # infinities are found by the stack
            array = np.array(array, dtype=dtype, order="C")
        array.flags.writeable = False
    return array


def _is_read_only(memory: object) -> bool:
    """Whether an array can be written to neither itself nor through its bases."""
    while isinstance(memory, np.ndarray):
        if memory.flags.writeable:
            return False
        memory = memory.base
    return memory is None or isinstance(memory, bytes)


_SHAPES: Final = {1: "(n_units,)", 2: "(n_inputs, n_units)"}


def _float_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    try:
        known = np.dtype(dtype)
    except TypeError:
        known = None
    if known not in (np.float32, np.float64):
        raise ParameterError(f"dtype is {dtype!r}, expected float32 or float64.")
    return known


def _units(layer: Layer) -> str:
    if layer.signs is None:
        return str(layer.activation)
    n_flipped = np.count_nonzero(layer.signs < 0)
    return f"{layer.activation}, signs -1 for {n_flipped} of {layer.n_units} units"


def _abridge(items: Iterable[object], n_most: int, dots: str) -> list[str]:
    """Return the items as text, with dots for the middle ones of more than n_most."""
    texts = list(map(str, items))
    half = n_most // 2
    return texts if len(texts) <= n_most else [*texts[:half], dots, *texts[-half:]]
