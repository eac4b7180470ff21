"""The hand-over type: checks, values, files, and what must not change outputs."""

import copy
import itertools
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st

from hardzero.activations import CATALOGUE, get
from hardzero.errors import DataError, ParameterError
from hardzero.stack import Architecture, Layer, LayerShape, RectifierStack, apply_link


@st.composite
def stacks(draw, activations=tuple(CATALOGUE)):
    """Small stacks with small-integer values, so that sums are exact."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=2, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    layers = []
    for n_inputs, n_units in itertools.pairwise(sizes):
        activation = get(draw(st.sampled_from(activations)))
        signs = rng.choice([-1, 1], n_units) if draw(st.booleans()) else None
        slopes = rng.integers(-2, 3, n_units) if activation.has_slopes else None
        W = rng.integers(-3, 4, (n_inputs, n_units))
        b = rng.integers(-3, 4, n_units)
        layers.append(Layer(W, b, activation, signs, slopes))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    link = draw(st.sampled_from(["identity", "softmax", "sigmoid", "exp"]))
    return RectifierStack(layers, link).astype(dtype)


def _inputs(stack, n=7, seed=0):
    return np.random.default_rng(seed).integers(-3, 4, (n, stack.n_inputs))


def _classifier():
    rng = np.random.default_rng(0)
    return RectifierStack(
        (
            Layer(rng.normal(size=(4, 6)), np.zeros(6), "rectifier", [1, -1] * 3),
            Layer(rng.normal(size=(6, 5)), np.ones(5), "prelu", slopes=np.arange(5)),
            Layer(rng.normal(size=(5, 3)), np.zeros(3), "identity"),
        ),
        "softmax",
    )


# Outputs


def test_outputs_by_hand():
    """A layer computes signs * f(x @ W + b)."""
    stack = RectifierStack(
        (
            Layer([[1.0, 2.0]], [-1.0, 0.5], "rectifier", signs=[1, -1]),
            Layer([[1.0], [10.0]], [0.25], "identity"),
        )
    )
    assert stack([[3.0], [-1.0], [0.5]]).tolist() == [[2 - 65 + 0.25], [0.25], [-14.75]]


@given(stacks())
def test_sparse_input_gives_the_same_outputs(stack):
    """CSR and other sparse formats are taken without being made dense."""
    X = _inputs(stack)
    dense = stack(X)
    assert dense.dtype == stack.dtype
    for form in (sp.csr_array, sp.csc_matrix, sp.coo_array):
        assert np.array_equal(stack(form(X)), dense)


@given(stacks(activations=("rectifier", "prelu", "capped_rectifier")), st.data())
def test_order_of_hidden_units_does_not_matter(stack, data):
    """Permuting the units of a hidden layer leaves all outputs as they are."""
    layers = list(stack.layers)
    for i in range(len(layers) - 1):
        order = data.draw(st.permutations(range(layers[i].n_units)))
        layer, after = layers[i], layers[i + 1]
        layers[i] = Layer(
            layer.W[:, order],
            layer.b[order],
            layer.activation,
            None if layer.signs is None else layer.signs[order],
            None if layer.slopes is None else layer.slopes[order],
        )
        layers[i + 1] = Layer(
            after.W[order], after.b, after.activation, after.signs, after.slopes
        )
    X = _inputs(stack)
    assert np.array_equal(RectifierStack(layers)(X), stack(X))


@given(stacks(activations=("rectifier", "prelu", "leaky_rectifier")), st.data())
def test_powers_of_two_can_move_through_a_rectifier(stack, data):
    """Scaling a unit by c > 0 and its outgoing weights by 1/c changes no output bit."""
    layers = list(stack.layers)
    for i in range(len(layers) - 1):
        layer, after = layers[i], layers[i + 1]
        n = layer.n_units
        exponents = data.draw(st.lists(st.integers(-9, 9), min_size=n, max_size=n))
        c = np.exp2(exponents).astype(stack.dtype)
        layers[i] = Layer(
            layer.W * c, layer.b * c, layer.activation, layer.signs, layer.slopes
        )
        layers[i + 1] = Layer(
            after.W / c[:, None], after.b, after.activation, after.signs, after.slopes
        )
    X = _inputs(stack)
    assert RectifierStack(layers)(X).tobytes() == stack(X).tobytes()


@given(stacks(activations=("rectifier",)))
def test_a_dead_unit_changes_nothing(stack):
    """Appending a unit that never fires leaves all outputs as they are."""
    assume(len(stack.layers) > 1)
    stack = stack.astype(np.float64)
    first, *rest = stack.layers
    dead = Layer(
        np.column_stack([first.W, np.zeros(first.n_inputs)]),
        np.append(first.b, -1.0),
        "rectifier",
        None if first.signs is None else np.append(first.signs, 1),
    )
    after = Layer(
        np.vstack([rest[0].W, np.full(rest[0].n_units, 7.0)]),
        rest[0].b,
        rest[0].activation,
        rest[0].signs,
    )
    X = _inputs(stack)
    assert np.array_equal(RectifierStack([dead, after, *rest[1:]])(X), stack(X))


@given(stacks())
def test_truncated_stacks_compose(stack):
    """truncate(k) gives the outputs of layer k, from which the rest goes on."""
    X = _inputs(stack)
    for k in range(1, len(stack.layers) + 1):
        head = stack.truncate(k)
        assert head.layers == stack.layers[:k]
        assert head.output_link == "identity"
        if k < len(stack.layers):
            tail = RectifierStack(stack.layers[k:])
            assert np.array_equal(tail(head(X)), stack(X))
        else:
            assert np.array_equal(head(X), stack(X))


def test_the_forward_pass_leaves_its_input_alone():
    """X keeps its values, also where the first layer is an identity with signs."""
    stack = RectifierStack([Layer(np.eye(2), [0.0, 0.0], "identity", [-1, -1])])
    X = np.ones((1, 2))
    stack(X)
    assert X.tolist() == [[1, 1]]


# Sizes


def test_sizes_and_counts():
    """Learned numbers are weights, biases and slopes; signs are fixed."""
    stack = _classifier()
    assert stack.sizes == (4, 6, 5, 3)
    assert (stack.n_inputs, stack.n_outputs) == (4, 3)
    assert stack.n_parameters == (4 * 6 + 6) + (6 * 5 + 5 + 5) + (5 * 3 + 3)
    assert stack.dtype == np.float64
    assert stack.astype(np.float32).dtype == np.float32
    assert stack.astype("float64") == stack


def test_repr_of_a_classifier():
    """The whole network is seen at one glance."""
    assert repr(_classifier()) == (
        "RectifierStack: 4 -> 6 -> 5 -> 3, float64, 88 parameters\n"
        "  1  4 -> 6  rectifier, signs -1 for 3 of 6 units\n"
        "  2  6 -> 5  prelu\n"
        "  3  5 -> 3  identity\n"
        "  output link softmax"
    )
    assert repr(_classifier().layers[1]) == "Layer(6 -> 5 prelu, float64)"


def test_repr_of_a_deep_stack_fits_on_a_screen():
    """A hundred layers take no more than twenty lines."""
    deep = RectifierStack([Layer([[1.0]], [0.0], "rectifier")] * 100)
    lines = repr(deep).splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 100


# Arrays


def test_arrays_are_copied_and_read_only():
    """The caller may go on writing to the arrays that were given."""
    W = np.asfortranarray(np.ones((2, 3)))
    b = np.zeros(3)
    layer = Layer(W, b, "rectifier")
    W[0, 0] = b[0] = 5
    assert layer.W[0, 0] == 1
    assert layer.b[0] == 0
    assert layer.W.flags.c_contiguous
    for array in layer.arrays().values():
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_read_only_arrays_are_not_copied():
    """Weights that nobody can write to are shared, not copied."""
    W = np.ones((2, 3), dtype=np.float32)
    W.flags.writeable = False
    layer = Layer(W, np.zeros(3), "rectifier")
    assert layer.W is W
    assert layer.b.dtype == np.float32
    assert RectifierStack([layer]).truncate(1).layers[0].W is W
    view = W[:]
    assert Layer(view, np.zeros(3), "rectifier").W is view
    constant = np.frombuffer(bytes(24), np.float32).reshape(2, 3)
    assert Layer(constant, np.zeros(3), "rectifier").W is constant


@pytest.mark.parametrize("memory", [np.ones(6), bytearray(48)], ids=type)
def test_views_of_memory_that_can_be_written_to_are_copied(memory):
    """A layer does not change through the array that its weights are a view of."""
    W = np.frombuffer(memory).reshape(2, 3)
    W.flags.writeable = False
    layer = Layer(W, np.zeros(3), "rectifier")
    before = layer.W.copy()
    np.frombuffer(memory)[:] = 7
    np.testing.assert_array_equal(layer.W, before)


@pytest.mark.parametrize(
    ("given_dtype", "kept"),
    [(np.float32, np.float32), (np.float64, np.float64), (int, np.float64)],
)
def test_dtype_of_w_decides(given_dtype, kept):
    """All arrays of a layer have one dtype: float32 if W has it, else float64."""
    layer = Layer(np.ones((2, 2), given_dtype), [0, 0], "prelu", [1, -1])
    assert {array.dtype for array in layer.arrays().values()} == {np.dtype(kept)}
    assert layer.arrays().keys() == {"W", "b", "signs", "slopes"}


def test_prelu_starts_from_its_initial_slope():
    """Without slopes each PReLU unit gets the slope of the activation."""
    layer = Layer(np.ones((1, 2)), [0, 0], "prelu(0.5)")
    assert layer.slopes.tolist() == [0.5, 0.5]


def test_nothing_can_be_assigned():
    """Layers and stacks are frozen."""
    stack = _classifier()
    with pytest.raises(AttributeError):
        stack.output_link = "exp"
    with pytest.raises(AttributeError):
        stack.layers[0].W = np.ones((4, 6))


# Equality


@given(stacks(), st.data())
def test_equal_means_equal_in_every_value(stack, data):
    """One changed value makes stacks different; equal stacks have equal hashes."""
    same = RectifierStack(
        [Layer(a.W.copy(), a.b, a.activation, a.signs, a.slopes) for a in stack.layers],
        stack.output_link,
    )
    assert stack == same
    assert hash(stack) == hash(same)
    arrays = {name: array.copy() for name, array in stack.arrays().items()}
    name = data.draw(st.sampled_from(sorted(arrays)))
    arrays[name].flat[0] *= -1
    arrays[name].flat[0] += 0 if name.endswith("signs") else 1
    changed = RectifierStack.from_arrays(stack.architecture, arrays)
    if not np.array_equal(arrays[name], stack.arrays()[name]):
        assert changed != stack


def test_what_makes_stacks_different():
    """Link, activation, dtype and missing signs count; the sign of a zero does not."""
    W, b = np.zeros((1, 1)), np.zeros(1)
    layer = Layer(W, b, "rectifier")
    stack = RectifierStack([layer])
    assert stack != RectifierStack([layer], "exp")
    assert stack != stack.astype(np.float32)
    assert layer != Layer(W, b, "tanh")
    assert layer != Layer(W, b, "rectifier", signs=[1])
    assert layer != "layer"
    assert layer == Layer(-W, -b, "rectifier")
    assert hash(layer) == hash(Layer(-W, -b, "rectifier"))


@given(stacks())
def test_pickles_and_copies_are_equal_and_read_only(stack):
    """A copy is as good, and as frozen, as the original."""
    for again in (pickle.loads(pickle.dumps(stack)), copy.deepcopy(stack)):
        assert again == stack
        assert not any(array.flags.writeable for array in again.arrays().values())


# Files


@given(stacks())
def test_architecture_and_arrays_make_the_stack_again(stack):
    """What to_json and arrays() give is all there is to know."""
    architecture = Architecture.from_json(stack.to_json())
    assert architecture == stack.architecture
    assert RectifierStack.from_arrays(architecture, stack.arrays()) == stack


def test_json_holds_no_weights():
    """The JSON is the architecture alone, in plain words."""
    content = json.loads(_classifier().to_json())
    assert content == {
        "format": "hardzero.stack",
        "version": 1,
        "layers": [
            {"n_inputs": 4, "n_units": 6, "activation": "rectifier", "has_signs": True},
            {"n_inputs": 6, "n_units": 5, "activation": "prelu", "has_signs": False},
            {"n_inputs": 5, "n_units": 3, "activation": "identity", "has_signs": False},
        ],
        "output_link": "softmax",
        "dtype": "float64",
    }


def _edit(**changes):
    return json.dumps({**json.loads(_classifier().to_json()), **changes})


LAYER = {"n_inputs": 1, "n_units": 1, "activation": "tanh", "has_signs": False}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        (b"\xff", "not JSON"),
        ("[]", "the architecture has list, expected an object with"),
        ("{}", r"the architecture has \[\], expected an object with"),
        (_edit(format="other"), "format 'other', expected 'hardzero.stack'"),
        (_edit(version=2), "version 2, expected 1"),
        (_edit(version=True), "version = True, expected int"),
        (_edit(layers={}), r"layers = \{\}, expected list"),
        (_edit(layers=[]), "layers is empty"),
        (_edit(layers=[3]), "layer 1 has int, expected an object"),
        (_edit(layers=[LAYER | {"n_units": "2"}]), "layer 1 has n_units = '2'"),
        (_edit(layers=[LAYER | {"n_units": 1.0}]), r"layer 1 has n_units = 1\.0"),
        (_edit(layers=[LAYER | {"n_units": -1}]), "layer 1 has 1 inputs and -1 units"),
        (_edit(layers=[LAYER | {"activation": "relu"}]), "Did you mean 'rectifier'"),
        (_edit(layers=[LAYER | {"extra": 1}]), "layer 1 has .*'extra'"),
        (_edit(layers=[LAYER, LAYER | {"n_inputs": 2}]), "layer 2 takes 2 inputs"),
        (_edit(output_link="cubic"), "output_link is 'cubic'"),
        (_edit(dtype="float16"), "dtype is 'float16', expected 'float32' or 'float64'"),
        (_edit(dtype="many"), "dtype is 'many'"),
    ],
)
def test_damaged_json_gives_a_clear_error(text, message):
    """Whatever stands in the file, the error says what and where."""
    with pytest.raises(DataError, match=message):
        Architecture.from_json(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"1.W": None}, r"missing \['1.W'\], left over \[\]"),
        ({"1.slopes": np.ones(6)}, r"left over \['1.slopes'\]"),
        ({"1.b": np.zeros(7)}, r"'1.b' is float64 of shape \(7,\), but .* \(6,\)"),
        ({"1.b": np.zeros(6, int)}, "'1.b' is int64 .*architecture says float64"),
        ({"1.signs": np.zeros(6)}, "signs of layer 1 hold 0, expected only 1 and -1"),
        ({"3.b": np.array([0, np.nan, 0])}, "b of layer 3 has 1 values"),
    ],
)
def test_arrays_must_belong_to_the_architecture(change, message):
    """Missing, left over, misshapen or impossible arrays are named."""
    stack = _classifier()
    arrays = {k: v for k, v in (stack.arrays() | change).items() if v is not None}
    with pytest.raises(DataError, match=message):
        RectifierStack.from_arrays(stack.architecture, arrays)


def test_architecture_is_checked_when_it_is_made():
    """An impossible architecture cannot be made in Python either."""
    with pytest.raises(ParameterError, match="layer 1 has 0 inputs and 3 units"):
        Architecture((LayerShape(0, 3, "tanh"),), "identity", "float32")


# Errors


GOOD = Layer(np.ones((2, 3)), np.zeros(3), "rectifier")


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (
            Layer(np.ones((4, 2)), np.zeros(2), "tanh"),
            "layer 2 takes 4 inputs but layer 1 has 3 units.*3 rows.*4 columns",
        ),
        (
            Layer(np.ones((3, 2)), np.zeros(3), "tanh"),
            r"b of layer 2 has shape \(3,\), expected \(2,\).*W has shape \(3, 2\)",
        ),
        (
            Layer(np.ones((3, 2)), np.zeros(2), "tanh", signs=[1]),
            r"signs of layer 2 has shape \(1,\)",
        ),
        (
            Layer(np.ones((3, 2)), np.zeros(2), "prelu", slopes=[1]),
            r"slopes of layer 2 has shape \(1,\)",
        ),
        (
            Layer(np.ones((3, 2)), np.zeros(2), "tanh", signs=[1, 0.5]),
            "signs of layer 2 hold 0.5, expected only 1 and -1",
        ),
        (
            Layer(np.ones((3, 2)), np.zeros(2), "tanh", slopes=[1, 1]),
            "layer 2 has slopes but its activation is tanh",
        ),
        (
            Layer(np.ones((3, 0)), np.zeros(0), "tanh"),
            r"W of layer 2 has shape \(3, 0\), expected at least one",
        ),
        (
            Layer([[0, 0], [0, np.inf], [np.nan, 0]], np.zeros(2), "tanh"),
            r"W of layer 2 has 2 values.*first at \(1, 1\): inf.*lower the learning",
        ),
        (
            Layer(np.ones((3, 2), np.float32), [0, 1e300], "tanh"),
            r"b of layer 2 has 1 values.*\(1,\): inf",
        ),
        (
            Layer(np.ones((3, 2), np.float32), np.zeros(2), "tanh"),
            "layer 2 is float32 but layer 1 is float64.*Layer.astype",
        ),
        ("tanh", r"layer 2 is a str, expected a Layer.*Layer\(W, b, activation\)"),
    ],
)
def test_the_error_names_the_layer(layer, message):
    """A layer that is unsound or does not fit is named by its number."""
    with pytest.raises(ParameterError, match=message):
        RectifierStack([GOOD, layer])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones(3), np.zeros(3)), r"W of a layer has shape \(3,\).*2 dimensions"),
        ((np.ones((3, 1)), 0.0), r"b of a layer has shape \(\).*1 dimension: "),
        (([[1, 2], [3]], [0, 0]), "W of a layer cannot be read.*object"),
        ((np.ones((1, 1)) * 1j, [0]), "W of a layer cannot be read.*complex128"),
        ((np.ones((1, 1)), ["a"]), "b of a layer cannot be read"),
    ],
)
def test_arrays_must_be_arrays_of_numbers(arguments, message):
    """What cannot be weights at all is refused by the layer."""
    with pytest.raises(ParameterError, match=message):
        Layer(*arguments, "rectifier")


def test_errors_of_the_stack():
    """Each error says what was given and what is expected."""
    with pytest.raises(ParameterError, match=r"layers is empty\. Give at least one"):
        RectifierStack([])
    with pytest.raises(ParameterError, match="output_link is 'probit', expected one"):
        RectifierStack([GOOD], "probit")
    stack = RectifierStack([GOOD])
    with pytest.raises(ParameterError, match="n_layers is 0, expected 1 to 1"):
        stack.truncate(0)
    with pytest.raises(ParameterError, match="n_layers is 2, expected 1 to 1"):
        stack.truncate(2)
    with pytest.raises(ParameterError, match=r"X has shape \(2,\), expected \(n_sam"):
        stack([1.0, 2.0])
    with pytest.raises(ParameterError, match=r"X has shape \(1, 3\), .*, 2\)"):
        stack(sp.csr_array(np.ones((1, 3))))
    for dtype in (np.float16, "many", object):
        with pytest.raises(ParameterError, match=r"dtype is .*expected float32 or"):
            stack.astype(dtype)
    with pytest.raises(ParameterError, match=r"layer 1 has 1 values .* not finite"):
        RectifierStack([Layer([[1e300]], [0.0], "tanh")]).astype(np.float32)


# Links


def test_links():
    """Each link is what its name says."""
    z = np.array([[0.0, np.log(3.0)], [-1.0, 1.0]])
    assert apply_link("identity", z) is z
    assert apply_link("softmax", z)[0] == pytest.approx([0.25, 0.75])
    assert apply_link("sigmoid", z)[0] == pytest.approx([0.5, 0.75])
    assert apply_link("exp", z)[0] == pytest.approx([1, 3])
    with pytest.raises(ParameterError, match="output_link is 'log'"):
        apply_link("log", z)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_links_neither_overflow_nor_warn(dtype):
    """Outputs of any finite size have finite predictions of the same dtype."""
    z = np.array([[-1e4, 1e4], [1e4, 1e4], [-1e30, 1e30]], dtype)
    for link in ("identity", "softmax", "sigmoid", "exp"):
        with np.errstate(all="raise", under="ignore"):
            predictions = apply_link(link, z)
        assert predictions.dtype == dtype
        assert np.isfinite(predictions).all()
    assert apply_link("softmax", z).tolist() == [[0, 1], [0.5, 0.5], [0, 1]]


def test_stack_needs_numpy_only():
    """Importing the stack loads neither SciPy nor scikit-learn nor PyTorch."""
    code = (
        "import sys, hardzero.stack; "
        "sys.exit(str({'scipy', 'sklearn', 'torch'} & set(sys.modules) or ''))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert run.stderr.decode().strip() == ""
