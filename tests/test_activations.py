"""Activations: values and derivatives against textbook formulas in long arithmetic."""

import copy
import pickle

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardzero.activations import CATALOGUE, Activation, get
from hardzero.errors import ParameterError

SPELLINGS = [
    *CATALOGUE,
    "leaky_rectifier(0.3)",
    "prelu(-0.5)",
    "elu(0.5)",
    "rescaled_softplus(1.3)",
    "capped_rectifier(6)",
    "leaky_integrate_and_fire(0.5)",
]
DTYPES = [np.float32, np.float64]


def _sigmoid(x):
    return 1 / (1 + mpmath.exp(-x))


def _step(x):
    return mpmath.mpf(x > 0)


def _softplus(x):
    return mpmath.log(1 + mpmath.exp(x))


def _gate(x):
    return mpmath.tanh(_softplus(x))


def _density(x):
    return mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)


def _cdf(x):
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def _rate(x, p):
    return 1 / (p + mpmath.log(1 + 1 / x)) if x > 0 else mpmath.mpf(0)


SCALE = "1.0507009873554804934193349852946"
ALPHA = "1.6732632423543772848170429916717"


def _elu(x, a):
    return x if x > 0 else a * (mpmath.exp(x) - 1)


def _elu_slope(x, a):
    return mpmath.mpf(1) if x > 0 else a * mpmath.exp(x)


def _tanh_slope(x):
    return 1 - mpmath.tanh(x) ** 2


# name: (f(x, p), f'(x, p)); naive, because the precision is chosen large enough
EXACT = {
    "identity": (lambda x, _: x, lambda _x, _: mpmath.mpf(1)),
    "rectifier": (lambda x, _: max(x, 0), lambda x, _: _step(x)),
    "leaky_rectifier": (
        lambda x, p: x if x > 0 else p * x,
        lambda x, p: 1 if x > 0 else p,
    ),
    "prelu": (lambda x, p: x if x > 0 else p * x, lambda x, p: 1 if x > 0 else p),
    "elu": (_elu, _elu_slope),
    "selu": (
        lambda x, _: mpmath.mpf(SCALE) * _elu(x, mpmath.mpf(ALPHA)),
        lambda x, _: mpmath.mpf(SCALE) * _elu_slope(x, mpmath.mpf(ALPHA)),
    ),
    "gelu": (lambda x, _: x * _cdf(x), lambda x, _: _cdf(x) + x * _density(x)),
    "softplus": (lambda x, _: _softplus(x), lambda x, _: _sigmoid(x)),
    "rescaled_softplus": (
        lambda x, p: _softplus(p * x) / p,
        lambda x, p: _sigmoid(p * x),
    ),
    "silu": (
        lambda x, _: x * _sigmoid(x),
        lambda x, _: _sigmoid(x) + x * _sigmoid(x) * (1 - _sigmoid(x)),
    ),
    "mish": (
        lambda x, _: x * _gate(x),
        lambda x, _: _gate(x) + x * _sigmoid(x) * (1 - _gate(x) ** 2),
    ),
    "sigmoid": (
        lambda x, _: _sigmoid(x),
        lambda x, _: _sigmoid(x) * (1 - _sigmoid(x)),
    ),
    "tanh": (lambda x, _: mpmath.tanh(x), lambda x, _: _tanh_slope(x)),
    "abs_tanh": (
        lambda x, _: abs(mpmath.tanh(x)),
        lambda x, _: mpmath.sign(x) * _tanh_slope(x),
    ),
    "rectified_tanh": (
        lambda x, _: max(mpmath.tanh(x), 0),
        lambda x, _: _step(x) * _tanh_slope(x),
    ),
    "capped_rectifier": (
        lambda x, p: min(max(x, 0), p),
        lambda x, p: mpmath.mpf(0 < x < p),
    ),
    "leaky_integrate_and_fire": (
        _rate,
        lambda x, p: _rate(x, p) ** 2 / (x * (1 + x)) if x > 0 else mpmath.mpf(0),
    ),
}


def _points(dtype):
    info = np.finfo(dtype)
    small = np.array([1, 3, 2**20]) * info.smallest_subnormal  # denormal
    ordinary = [info.tiny, 1e-30, info.eps / 3, 1e-4, 0.1, 0.5, 0.999, 1, 1.001, 1.7]
    large = [
        3,
        6,
        9.5,
        17,
        37,
        88,
        104,
        300,
        709,
        745,
        1e4,
    ]  # exp ends near 104 and 745
    positive = np.concatenate([small, ordinary, large], dtype=dtype)
    return np.concatenate([-positive[::-1], np.array([-0.0, 0.0], dtype), positive])


def _exactly(function, x, parameter):
    """Evaluate with enough digits for 1 - tanh(x)**2 and exp(x) - 1 as they stand."""
    x, parameter = mpmath.mpf(float(x)), mpmath.mpf(float(parameter))
    digits = 60 + int(0.9 * abs(x) * max(parameter, 1))
    if x:
        digits += abs(int(mpmath.log10(abs(x))))
    # Nothing cancels in gelu, and erfc would take a minute with 9000 digits.
    with mpmath.workdps(60 if function in EXACT["gelu"] else digits):
        return +function(x, parameter)


def _assert_close(got, expected, x, activation):
    info = np.finfo(got.dtype)
    # A relative error of eps in the argument of exp(-u) makes one of u * eps in it.
    u = x * x if activation.name == "gelu" else abs(x) * max(activation.parameter, 1)
    largest = mpmath.mpf(float(info.max))
    expected = max(min(expected, largest), -largest)
    error = abs(mpmath.mpf(float(got)) - expected)
    relative = float(info.eps) * (16 + 2 * float(u))
    # Where exp(-|x|) is denormal it is rounded to a multiple of the smallest float.
    floor = (4 + abs(float(x))) * mpmath.mpf(float(info.smallest_subnormal))
    bound = relative * abs(expected) + floor
    assert error <= bound, f"{activation} at {x!r}: {got!r}, not {expected}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_values_and_derivatives_are_right_from_denormals_to_1e4(spelling, dtype):
    """Each function and derivative has a relative error of a few units of rounding."""
    activation = get(spelling)
    value, derivative = EXACT[activation.name]
    x = _points(dtype)
    with np.errstate(all="raise", under="ignore"):
        values, derivatives = activation(x), activation.derivative(x)
    assert values.dtype == derivatives.dtype == dtype
    for i, point in enumerate(x):
        p = dtype(activation.parameter)
        _assert_close(values[i], _exactly(value, point, p), point, activation)
        _assert_close(derivatives[i], _exactly(derivative, point, p), point, activation)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_derivative_belongs_to_value(spelling):
    """The derivative is the limit of difference quotients of the value."""
    activation = get(spelling)
    value, _ = EXACT[activation.name]
    p = mpmath.mpf(activation.parameter)
    for x in (-3.3, -1.1, -0.4, 0.3, 0.9, 2.6):
        limit = mpmath.diff(lambda t: value(t, p), mpmath.mpf(x))
        assert abs(activation.derivative(x) - float(limit)) < 1e-14


@pytest.mark.parametrize(
    ("name", "zero"),
    [
        ("gelu", -0.7517915246935645),
        ("silu", -1.2784645427610738),
        ("mish", -1.1924312145154924),
    ],
)
def test_minimum_of_the_functions_that_have_one(name, zero):
    """Where the derivative crosses 0 only its absolute error can be small."""
    assert abs(get(name).derivative(zero)) < 1e-15
    assert abs(get(name).derivative(np.float32(zero))) < 2e-7


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_largest_floats_give_neither_warning_nor_nan(spelling, dtype):
    """Values and derivatives stay numbers up to the ends of the range of floats."""
    activation = get(spelling)
    x = np.array([-1.0, 1.0], dtype) * np.finfo(dtype).max
    if spelling == "selu":  # scales by more than 1
        x *= dtype(0.5)
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(activation(x)).all()
        assert np.isfinite(activation.derivative(x)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_infinities_give_limits(spelling, dtype):
    """At infinity values and derivatives are what they tend to, without a warning."""
    activation = get(spelling)
    far, infinite = np.array([[-1e30, 1e30], [-np.inf, np.inf]], dtype)
    with np.errstate(all="raise", under="ignore"):
        values, slopes = activation(infinite), activation.derivative(infinite)
    np.testing.assert_allclose(slopes, activation.derivative(far), atol=1e-20)
    limits = activation(far)
    limits = np.where(np.abs(limits) > 1e20, np.copysign(np.inf, limits), limits)
    np.testing.assert_allclose(values, limits, atol=1e-20)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_nan_stays_nan(spelling):
    """A NaN is handed on, so that diverged weights can be noticed."""
    assert np.isnan(get(spelling)(np.nan))


AT_ZERO = {
    "identity": (0, 1),
    "rectifier": (0, 0),
    "leaky_rectifier": (0, 0.01),
    "prelu": (0, 0.25),
    "elu": (0, 1),
    "selu": (0, 1.7580993408473766),
    "gelu": (0, 0.5),
    "softplus": (np.log(2), 0.5),
    "rescaled_softplus": (np.log(2) / 3, 0.5),
    "silu": (0, 0.5),
    "mish": (0, 0.6),
    "sigmoid": (0.5, 0.25),
    "tanh": (0, 1),
    "abs_tanh": (0, 0),
    "rectified_tanh": (0, 0),
    "capped_rectifier": (0, 0),
    "leaky_integrate_and_fire": (0, 0),
}


@pytest.mark.parametrize("name", CATALOGUE)
def test_value_and_derivative_at_zero(name):
    """The table says what is used at 0: for the rectifier the derivative 0."""
    activation = get(name)
    at_zero = activation.value_at_zero, activation.derivative_at_zero
    assert at_zero == pytest.approx(AT_ZERO[name], rel=1e-15)


def test_derivative_at_the_cap_is_zero():
    """The capped rectifier uses the derivative 0 at its cap."""
    assert get("capped_rectifier(6)").derivative([5.0, 6.0, 7.0]).tolist() == [1, 0, 0]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_exact_zeros_and_saturation_are_what_the_table_says(spelling):
    """exact_zeros and saturation describe the functions as they are."""
    activation = get(spelling)
    has_zeros = bool((activation([-3.0, -2.0, -1.0]) == 0).all())
    assert activation.exact_zeros == has_zeros
    left, right = np.abs(activation.derivative([-1e4, 1e4])) < 1e-3
    sides = {(0, 0): "none", (1, 0): "left", (0, 1): "right", (1, 1): "both"}
    assert activation.saturation == sides[int(left), int(right)]


def test_codes_are_the_positions_in_the_catalogue():
    """The compiled core may use the code as an index."""
    assert [a.code for a in CATALOGUE.values()] == list(range(17))
    assert all(name == activation.name for name, activation in CATALOGUE.items())


def test_catalogue_cannot_be_changed():
    """The catalogue is read-only."""
    with pytest.raises(TypeError):
        CATALOGUE["rectifier"] = get("tanh")
    with pytest.raises(AttributeError):
        get("rectifier").name = "relu"


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spelling_is_read_back(spelling):
    """str() gives the spelling, and neither pickling nor copying changes anything."""
    activation = get(spelling)
    assert str(activation) == spelling
    assert get(activation) is activation
    for same in (pickle.loads(pickle.dumps(activation)), copy.deepcopy(activation)):
        assert same == activation
        assert hash(same) == hash(activation)
        assert same(-0.7) == activation(-0.7)


@given(st.floats(1e-6, 1e6))
def test_every_parameter_in_range_survives_its_spelling(value):
    """A spelling loses no digit of the parameter."""
    assert get(f"elu(alpha={value!r})").parameter == value
    assert get(str(get(f"elu({value!r})"))).parameter == value


def test_spelling_may_have_spaces_and_the_name_of_the_parameter():
    """Space is ignored, and the parameter may be named."""
    assert get(" elu( alpha = 0.5 ) ") == get("elu(0.5)")


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("relu", "'relu' is unknown. Did you mean 'rectifier'"),
        ("ReLU6", "Did you mean 'capped_rectifier\\(6\\)'"),
        ("tahn", "Did you mean 'tanh'"),
        ("zzz", "Choose one of: identity, rectifier, leaky_rectifier"),
        ("", "expected a name"),
        (None, "activation is None, expected a name"),
        ("elu(1", "expected a name"),
        ("tanh(2)", "'tanh' takes no parameter but got '2'. Write 'tanh'"),
        ("elu(beta=2)", "no parameter 'beta'.*Write 'elu\\(alpha=2\\)'"),
        ("elu(much)", "got 'much' for its parameter 'alpha', expected a number"),
        ("elu()", "got '' for its parameter 'alpha'.*Write for example 'elu\\(1\\)'"),
        ("elu(-1)", "alpha = -1.0, expected a number from 1e-06 to 1e\\+06"),
        ("elu(nan)", "alpha = nan"),
        ("prelu(inf)", "slope = inf"),
    ],
)
def test_bad_spellings_say_what_to_write(spelling, message):
    """The error names what was given and what to write instead."""
    with pytest.raises(ParameterError, match=message):
        get(spelling)


def test_each_prelu_unit_has_its_slope():
    """Slopes act by column, in the dtype of the pre-activations."""
    prelu = get("prelu")
    x = np.array([[-2.0, -2.0, 2.0], [0.0, 4.0, -4.0]], dtype=np.float32)
    slopes = np.array([0.5, -1.0, 0.25])
    assert prelu(x, slopes).tolist() == [[-1, 2, 2], [0, 4, -1]]
    assert prelu.derivative(x, slopes).tolist() == [[0.5, -1, 1], [0.5, 1, 0.25]]
    assert prelu.slope_derivative(x).tolist() == [[-2, -2, 0], [0, 0, -4]]
    assert prelu(x, slopes).dtype == prelu.derivative(x, slopes).dtype == np.float32
    assert prelu(x).tolist() == get("leaky_rectifier(0.25)")(x).tolist()


def test_slopes_belong_to_prelu_only():
    """Any other function refuses slopes."""
    for call in (get("tanh"), get("tanh").derivative):
        with pytest.raises(ParameterError, match=r"slopes were given to .*'tanh'"):
            call([1.0], slopes=[0.1])
    with pytest.raises(ParameterError, match="'tanh' has no learned slopes"):
        get("tanh").slope_derivative([1.0])


def test_the_input_is_left_alone():
    """No function writes to its input or hands it out as its result."""
    for activation in CATALOGUE.values():
        x = np.array([-1.0, 2.0])
        y = activation(x)
        y[:] = 7
        assert x.tolist() == [-1, 2]


def test_integers_become_float64():
    """Whatever is not float32 is computed in float64."""
    assert isinstance(get("rectifier"), Activation)
    assert get("rectifier")([1, -1]).dtype == np.float64


def test_rescaled_softplus_tends_to_the_rectifier():
    """At 0 it differs from the rectifier by log(2)/alpha, nowhere by more."""
    x = np.linspace(-3, 3, 61)
    for alpha in (1, 1.3, 2, 3, 6):
        gap = get(f"rescaled_softplus({alpha})")(x) - get("rectifier")(x)
        assert gap.max() == gap[30] == pytest.approx(np.log(2) / alpha)
        assert gap.min() > 0


def test_firing_rate_is_about_linear_until_it_saturates():
    """Far below its limit 1/refractory the rate is about x + 1/2."""
    rate = get("leaky_integrate_and_fire(1e-6)")
    assert rate(50.0) == pytest.approx(50.5, rel=1e-3)
    assert get("leaky_integrate_and_fire")(1e9) == pytest.approx(10)
