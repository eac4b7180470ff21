"""The one catalogue of activation functions: formula, derivative, zeros, source.

Every function here acts elementwise on pre-activations x. Kernels, PyTorch twins,
theory and documentation read this table instead of keeping definitions of their own.

Notes
-----
Where a function has a kink, `Activation.derivative` uses the derivative from the left
(0 at 0 for the rectifier, the slope for the leaky rectifier) and, at the cap of
the capped rectifier, 0; for abs_tanh it uses the mean of both sides, 0. PyTorch does
the same for those of the functions that it has.

The rescaled leaky integrate-and-fire unit is the firing rate that Glorot et al. 2011
give in section 2.1, with the threshold moved to 0 and the scales taken out: for an
input current I, x = (E + R I - V_th) / (V_th - V_r), rates count per membrane time
constant tau, and refractory = t_ref / tau. (The paper tried "a rescaled version"
without saying which; 0.1 is 2 ms against 20 ms.) The rate is about x + 1/2 for large
x while far below its limit 1/refractory. Its derivative grows without bound as x falls
to 0; where it would leave the range of floats, at denormal x, the largest float is
used.

Values and derivatives are computed in the dtype of x by forms that neither overflow
nor cancel: with ``e = exp(-|x|)``, which lies in (0, 1], sigmoid(x) is 1/(1 + e) for
x >= 0 and e/(1 + e) below, and 1 - tanh(x)**2 is (2e/(1 + e**2))**2.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from hardzero.errors import ParameterError

__all__ = ["CATALOGUE", "Activation", "get"]

Array = npt.NDArray[Any]
Parameter = float | Array
Saturation = Literal["none", "left", "right", "both"]


def get(spelling: "str | Activation") -> "Activation":
    """Return the activation function that a spelling names.

    Parameters
    ----------
    spelling : str or Activation
        A name of `CATALOGUE`, with a parameter in parentheses where the default is not
        wanted: ``"rectifier"``, ``"leaky_rectifier(0.1)"``, ``"elu(alpha=0.5)"``. An
        Activation is returned as it is.

    Returns
    -------
    Activation
        The function with its parameter.

    Raises
    ------
    ParameterError
        If the name is unknown, or the parameter is unknown, unreadable or out of range.

    Examples
    --------
    >>> from hardzero.activations import get
    >>> get("rectifier")([-1.0, 2.0])
    array([0., 2.])
    >>> str(get("leaky_rectifier(0.1)"))
    'leaky_rectifier(0.1)'
    """
    if isinstance(spelling, Activation):
        return spelling
    match = _SPELLING.fullmatch(spelling) if isinstance(spelling, str) else None
    if match is None:
        raise ParameterError(
            f"activation is {spelling!r}, expected a name, or a name with one "
            f"parameter in parentheses. {_advice('')}"
        )
    name, key, text = match["name"], match["key"], match["value"]
    if name not in CATALOGUE:
        raise ParameterError(f"activation {name!r} is unknown. {_advice(name)}")
    return CATALOGUE[name] if text is None else _parse(CATALOGUE[name], key, text)


_SPELLING = re.compile(
    r"\s*(?P<name>\w+)\s*(\(\s*((?P<key>\w+)\s*=\s*)?(?P<value>[^=()]*?)\s*\)\s*)?"
)

# What other libraries call functions of the catalogue; used only to give advice.
_ELSEWHERE = {
    "relu": "rectifier",
    "leaky_relu": "leaky_rectifier",
    "swish": "silu",
    "logistic": "sigmoid",
    "linear": "identity",
    "none": "identity",
    "relu6": "capped_rectifier(6)",
    "lif": "leaky_integrate_and_fire",
}


def _advice(name: str) -> str:
    lowered = name.lower()
    near = get_close_matches(lowered, [*CATALOGUE, *_ELSEWHERE], n=1)
    if near:
        return f"Did you mean {_ELSEWHERE.get(near[0], near[0])!r}?"
    return f"Choose one of: {', '.join(CATALOGUE)}."


def _parse(entry: "Activation", key: str | None, text: str) -> "Activation":
    if not entry.parameters:
        raise ParameterError(
            f"activation {entry.name!r} takes no parameter but got {text!r}. "
            f"Write {entry.name!r}."
        )
    (known, default), *_ = entry.parameters
    if key not in (None, known):
        raise ParameterError(
            f"activation {entry.name!r} has no parameter {key!r}; its parameter is "
            f"{known!r}. Write '{entry.name}({known}={text})'."
        )
    try:
        value = float(text)
    except ValueError:
        raise ParameterError(
            f"activation {entry.name!r} got {text!r} for its parameter {known!r}, "
            f"expected a number. Write for example '{entry.name}({_short(default)})'."
        ) from None
    return replace(entry, parameters=((known, value),))


def _short(value: float) -> str:
    return repr(value).removesuffix(".0")


@dataclass(frozen=True, kw_only=True)
class Activation:
    """One elementwise function, with what the rest of hardzero must know about it.

    Take one from `get` or `CATALOGUE` rather than building it.

    Parameters
    ----------
    name : str
        Name in `CATALOGUE`.
    code : int
        Number by which the compiled core knows the function.
    formula : str
        f(x), as text.
    derivative_formula : str
        f'(x), as text, including the value used at kinks.
    parameters : tuple of (str, float)
        Name and value of each parameter; empty, or one pair.
    exact_zeros : bool
        Whether a whole interval of pre-activations is mapped to exactly 0.
    saturation : {"none", "left", "right", "both"}
        Sides (x to minus or plus infinity) on which the derivative tends to 0.
    source : str
        Where the function comes from.
    parameter_range : tuple of (float, float)
        Smallest and largest value allowed for the parameter.

    Raises
    ------
    ParameterError
        If the parameter is not a finite number within `parameter_range`.
    """

    name: str
    code: int
    formula: str
    derivative_formula: str
    parameters: tuple[tuple[str, float], ...] = ()
    exact_zeros: bool
    saturation: Saturation
    source: str
    parameter_range: tuple[float, float] = field(default=(1e-6, 1e6), repr=False)
    _value: Callable[[Array, Parameter], Array] = field(repr=False, compare=False)
    _slope: Callable[[Array, Parameter], Array] = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the parameter."""
        low, high = self.parameter_range
        for key, value in self.parameters:
            if not low <= value <= high:  # catches NaN too
                raise ParameterError(
                    f"activation {self.name!r} got {key} = {value!r}, expected a "
                    f"number from {low:g} to {high:g}. Change {key}."
                )

    @property
    def parameter(self) -> float:
        """Value of the only parameter, 0.0 if there is none."""
        return self.parameters[0][1] if self.parameters else 0.0

    @property
    def has_slopes(self) -> bool:
        """Whether each unit has a slope of its own that is learned (PReLU)."""
        return self.name == "prelu"

    @property
    def value_at_zero(self) -> float:
        """Value f(0)."""
        return float(self(np.zeros(1))[0])

    @property
    def derivative_at_zero(self) -> float:
        """Value used for f'(0)."""
        return float(self.derivative(np.zeros(1))[0])

    def __call__(self, x: npt.ArrayLike, slopes: npt.ArrayLike | None = None) -> Array:
        """Apply the function to pre-activations.

        Parameters
        ----------
        x : array_like of any shape (..., n_units)
            Pre-activations. Float32 stays float32, all else is taken as float64.
        slopes : array_like of shape (n_units,), optional
            Learned slopes of a PReLU layer; without them its initial slope is used.

        Returns
        -------
        ndarray of the shape of `x`
            Activations. Zeros may have either sign; NaN stays NaN.

        Raises
        ------
        ParameterError
            If `slopes` are given to a function that has none.
        """
        x = _float_array(x)
        return self._value(x, self._parameter(x, slopes))

    def derivative(
        self, x: npt.ArrayLike, slopes: npt.ArrayLike | None = None
    ) -> Array:
        """Return the derivative with respect to the pre-activations.

        Parameters
        ----------
        x : array_like of any shape (..., n_units)
            Pre-activations. Float32 stays float32, all else is taken as float64.
        slopes : array_like of shape (n_units,), optional
            Learned slopes of a PReLU layer; without them its initial slope is used.

        Returns
        -------
        ndarray of the shape of `x`
            f'(x), finite for every finite `x`.

        Raises
        ------
        ParameterError
            If `slopes` are given to a function that has none.
        """
        x = _float_array(x)
        return self._slope(x, self._parameter(x, slopes))

    def slope_derivative(self, x: npt.ArrayLike) -> Array:
        """Return the derivative with respect to the learned slopes, min(x, 0).

        Parameters
        ----------
        x : array_like of any shape (..., n_units)
            Pre-activations. Float32 stays float32, all else is taken as float64.

        Returns
        -------
        ndarray of the shape of `x`
            Derivative of each activation with respect to its unit's slope.

        Raises
        ------
        ParameterError
            If the function has no learned slopes.
        """
        if not self.has_slopes:
            raise ParameterError(
                f"activation {self.name!r} has no learned slopes; only 'prelu' has. "
                "Ask `has_slopes` first."
            )
        minimum: Array = np.minimum(_float_array(x), 0.0)
        return minimum

    def _parameter(self, x: Array, slopes: npt.ArrayLike | None) -> Parameter:
        if slopes is None:
            return self.parameter
        if not self.has_slopes:
            raise ParameterError(
                f"slopes were given to activation {self.name!r}, which has none; only "
                "'prelu' has learned slopes. Leave slopes out."
            )
        return np.asarray(slopes, dtype=x.dtype)

    def __str__(self) -> str:
        """Return the spelling that `get` reads back."""
        if self.parameters == CATALOGUE[self.name].parameters:
            return self.name
        return f"{self.name}({_short(self.parameter)})"

    def __reduce__(self) -> tuple[Callable[[str], "Activation"], tuple[str]]:
        """Pickle the spelling, not the functions."""
        return get, (str(self),)


def _float_array(x: npt.ArrayLike) -> Array:
    x = np.asarray(x)
    return x if x.dtype == np.float32 else np.asarray(x, dtype=np.float64)


# Values and derivatives, each f(x, parameter), in the order of the catalogue.


def _identity(x: Array, _: Parameter) -> Array:
    return x.copy()


def _identity_slope(x: Array, _: Parameter) -> Array:
    return np.ones_like(x)


def _rectifier(x: Array, _: Parameter) -> Array:
    return np.maximum(x, 0.0)


def _rectifier_slope(x: Array, _: Parameter) -> Array:
    return (x > 0.0).astype(x.dtype)


def _leaky(x: Array, slope: Parameter) -> Array:
    return np.where(x > 0.0, x, np.minimum(x, 0.0) * slope)


def _leaky_slope(x: Array, slope: Parameter) -> Array:
    return np.where(x > 0.0, x.dtype.type(1.0), np.asarray(slope, dtype=x.dtype))


def _elu(x: Array, alpha: Parameter) -> Array:
    return np.where(x > 0.0, x, alpha * np.expm1(np.minimum(x, 0.0)))


def _elu_slope(x: Array, alpha: Parameter) -> Array:
    return np.where(x > 0.0, x.dtype.type(1.0), alpha * np.exp(np.minimum(x, 0.0)))


# The fixed point (mean 0, variance 1) of Klambauer et al. 2017, to double precision.
_SELU_ALPHA: Final = 1.6732632423543772
_SELU_SCALE: Final = 1.0507009873554805


def _selu(x: Array, _: Parameter) -> Array:
    return _SELU_SCALE * _elu(x, _SELU_ALPHA)


def _selu_slope(x: Array, _: Parameter) -> Array:
    return _elu_slope(x, _SELU_ALPHA) * _SELU_SCALE


def _gelu(x: Array, _: Parameter) -> Array:
    return _above(x) * _normal_cdf(x)


def _gelu_slope(x: Array, _: Parameter) -> Array:
    z = np.clip(x, -50.0, 50.0)  # beyond it the density is 0 and x * x may overflow
    density: Array = np.exp(-0.5 * z * z) * (1.0 / math.sqrt(2.0 * math.pi))
    slope: Array = _normal_cdf(x) + z * density
    return slope


# A gate of 0 closes also for infinite x, but 0 times infinity is not a number.


def _above(x: Array) -> Array:
    above: Array = np.maximum(x, np.finfo(x.dtype).min)
    return above


def _within(x: Array) -> Array:
    return np.clip(x, np.finfo(x.dtype).min, np.finfo(x.dtype).max)


def _normal_cdf(x: Array) -> Array:
    from scipy.special import erfc  # not at the top: it takes a tenth of a second

    # erfc keeps full relative accuracy in the left tail, where 1 + erf has none.
    cdf: Array = 0.5 * erfc(x * -math.sqrt(0.5))
    return cdf


def _softplus(x: Array, _: Parameter) -> Array:
    return np.maximum(x, 0.0) + np.log1p(_decay(x))


def _softplus_slope(x: Array, _: Parameter) -> Array:
    return _sigmoid(x, 0.0)


def _rescaled_softplus(x: Array, alpha: Parameter) -> Array:
    return np.maximum(x, 0.0) + np.log1p(_decay(x, alpha)) / alpha


def _rescaled_softplus_slope(x: Array, alpha: Parameter) -> Array:
    e = _decay(x, alpha)
    return np.where(x >= 0.0, x.dtype.type(1.0), e) / (1.0 + e)


def _silu(x: Array, _: Parameter) -> Array:
    return _above(x) * _sigmoid(x, 0.0)


def _silu_slope(x: Array, _: Parameter) -> Array:
    return _sigmoid(x, 0.0) * (1.0 + _within(x) * _sigmoid(-x, 0.0))


def _mish(x: Array, _: Parameter) -> Array:
    e = _decay(x)
    # tanh(softplus(x)) = n/(n + 2) with n = u(u + 2), u = exp(x); for x >= 0 both
    # sides of the fraction are divided by u**2.
    above = 1.0 + 2.0 * e
    below = e * (e + 2.0)
    gate = np.where(x >= 0.0, above / (above + 2.0 * e * e), below / (below + 2.0))
    return _above(x) * gate


def _mish_slope(x: Array, _: Parameter) -> Array:
    e = _decay(x)
    above = 1.0 + 2.0 * e
    below = e * (e + 2.0)
    right = above + 2.0 * e * e
    left = below + 2.0
    gate = np.where(x >= 0.0, above / right, below / left)
    gate_slope = np.where(
        x >= 0.0,
        4.0 * e * e * (1.0 + e) / (right * right),
        4.0 * e * (1.0 + e) / (left * left),
    )
    slope: Array = gate + _within(x) * gate_slope
    return slope


def _sigmoid(x: Array, _: Parameter) -> Array:
    e = _decay(x)
    return np.where(x >= 0.0, x.dtype.type(1.0), e) / (1.0 + e)


def _sigmoid_slope(x: Array, _: Parameter) -> Array:
    e = _decay(x)
    return e / ((1.0 + e) * (1.0 + e))


def _decay(x: Array, rate: Parameter = 1.0) -> Array:
    with np.errstate(over="ignore"):  # rate * |x| may reach infinity: the decay is 0
        e: Array = np.exp(-rate * np.abs(x))
    return e


def _tanh(x: Array, _: Parameter) -> Array:
    return np.tanh(x)


def _tanh_slope(x: Array, _: Parameter) -> Array:
    e = _decay(x)
    sech: Array = 2.0 * e / (1.0 + e * e)
    return sech * sech


def _abs_tanh(x: Array, _: Parameter) -> Array:
    return np.abs(np.tanh(x))


def _abs_tanh_slope(x: Array, _: Parameter) -> Array:
    return np.sign(x) * _tanh_slope(x, 0.0)


def _rectified_tanh(x: Array, _: Parameter) -> Array:
    return np.maximum(np.tanh(x), 0.0)


def _rectified_tanh_slope(x: Array, _: Parameter) -> Array:
    return np.where(x > 0.0, _tanh_slope(x, 0.0), x.dtype.type(0.0))


def _capped(x: Array, cap: Parameter) -> Array:
    return np.minimum(np.maximum(x, 0.0), cap)


def _capped_slope(x: Array, cap: Parameter) -> Array:
    return ((x > 0.0) & (x < cap)).astype(x.dtype)


def _firing_rate(x: Array, refractory: Parameter) -> Array:
    rate: Array = 1.0 / (refractory + _charging_time(x))
    return np.where(x <= 0.0, x.dtype.type(0.0), rate)


def _firing_rate_slope(x: Array, refractory: Parameter) -> Array:
    rate = _firing_rate(x, refractory)
    safe = np.maximum(x, np.finfo(x.dtype).smallest_subnormal)
    with np.errstate(over="ignore"):  # only for denormal x
        slope: Array = rate * rate / (1.0 + safe) / safe
    bounded: Array = np.minimum(slope, np.finfo(x.dtype).max)
    return bounded


def _charging_time(x: Array) -> Array:
    """Return log(1 + 1/x) for x > 0, in a form that 1/x cannot overflow."""
    small = np.clip(x, np.finfo(x.dtype).smallest_subnormal, 1.0)
    return np.where(
        x < 1.0,
        np.log1p(small) - np.log(small),
        np.log1p(1.0 / np.maximum(x, 1.0)),
    )


_GLOROT: Final = "Glorot, Bordes & Bengio 2011"

_TABLE: Final = (
    Activation(
        name="identity",
        code=0,
        formula="x",
        derivative_formula="1",
        exact_zeros=False,
        saturation="none",
        source="the linear unit",
        _value=_identity,
        _slope=_identity_slope,
    ),
    Activation(
        name="rectifier",
        code=1,
        formula="max(x, 0)",
        derivative_formula="1 if x > 0, else 0",
        exact_zeros=True,
        saturation="left",
        source=f"Nair & Hinton 2010; {_GLOROT}, section 3",
        _value=_rectifier,
        _slope=_rectifier_slope,
    ),
    Activation(
        name="leaky_rectifier",
        code=2,
        formula="x if x > 0, else slope x",
        derivative_formula="1 if x > 0, else slope",
        parameters=(("slope", 0.01),),
        exact_zeros=False,
        saturation="none",
        source="Maas, Hannun & Ng 2013, section 2",
        _value=_leaky,
        _slope=_leaky_slope,
    ),
    Activation(
        name="prelu",
        code=3,
        formula="x if x > 0, else slope x, with a learned slope for each unit",
        derivative_formula="1 if x > 0, else slope; with respect to slope: min(x, 0)",
        parameters=(("slope", 0.25),),
        exact_zeros=False,
        saturation="none",
        source="He, Zhang, Ren & Sun 2015, section 2.1",
        parameter_range=(-1e6, 1e6),
        _value=_leaky,
        _slope=_leaky_slope,
    ),
    Activation(
        name="elu",
        code=4,
        formula="x if x > 0, else alpha (exp(x) - 1)",
        derivative_formula="1 if x > 0, else alpha exp(x)",
        parameters=(("alpha", 1.0),),
        exact_zeros=False,
        saturation="left",
        source="Clevert, Unterthiner & Hochreiter 2016, section 3",
        _value=_elu,
        _slope=_elu_slope,
    ),
    Activation(
        name="selu",
        code=5,
        formula="1.0507... x if x > 0, else 1.0507... 1.6732... (exp(x) - 1)",
        derivative_formula="1.0507... if x > 0, else 1.0507... 1.6732... exp(x)",
        exact_zeros=False,
        saturation="left",
        source="Klambauer, Unterthiner, Mayr & Hochreiter 2017, section 2",
        _value=_selu,
        _slope=_selu_slope,
    ),
    Activation(
        name="gelu",
        code=6,
        formula="x Phi(x), with the normal distribution function Phi",
        derivative_formula="Phi(x) + x phi(x), with the normal density phi",
        exact_zeros=False,
        saturation="left",
        source="Hendrycks & Gimpel 2016, section 2",
        _value=_gelu,
        _slope=_gelu_slope,
    ),
    Activation(
        name="softplus",
        code=7,
        formula="log(1 + exp(x))",
        derivative_formula="sigmoid(x)",
        exact_zeros=False,
        saturation="left",
        source=f"Dugas et al. 2001; {_GLOROT}, section 3",
        _value=_softplus,
        _slope=_softplus_slope,
    ),
    Activation(
        name="rescaled_softplus",
        code=8,
        formula="log(1 + exp(alpha x)) / alpha",
        derivative_formula="sigmoid(alpha x)",
        parameters=(("alpha", 3.0),),
        exact_zeros=False,
        saturation="left",
        source=f"{_GLOROT}, section 4.1",
        _value=_rescaled_softplus,
        _slope=_rescaled_softplus_slope,
    ),
    Activation(
        name="silu",
        code=9,
        formula="x sigmoid(x)",
        derivative_formula="sigmoid(x) (1 + x sigmoid(-x))",
        exact_zeros=False,
        saturation="left",
        source="Hendrycks & Gimpel 2016, section 2; Ramachandran et al. 2017 (Swish)",
        _value=_silu,
        _slope=_silu_slope,
    ),
    Activation(
        name="mish",
        code=10,
        formula="x tanh(softplus(x))",
        derivative_formula="t + x sigmoid(x) (1 - t^2), with t = tanh(softplus(x))",
        exact_zeros=False,
        saturation="left",
        source="Misra 2019",
        _value=_mish,
        _slope=_mish_slope,
    ),
    Activation(
        name="sigmoid",
        code=11,
        formula="1 / (1 + exp(-x))",
        derivative_formula="sigmoid(x) sigmoid(-x)",
        exact_zeros=False,
        saturation="both",
        source="the logistic unit",
        _value=_sigmoid,
        _slope=_sigmoid_slope,
    ),
    Activation(
        name="tanh",
        code=12,
        formula="tanh(x)",
        derivative_formula="1 - tanh(x)^2",
        exact_zeros=False,
        saturation="both",
        source="LeCun, Bottou, Orr & Mueller 1998, section 4.4",
        _value=_tanh,
        _slope=_tanh_slope,
    ),
    Activation(
        name="abs_tanh",
        code=13,
        formula="|tanh(x)|",
        derivative_formula="sign(x) (1 - tanh(x)^2); 0 at 0",
        exact_zeros=False,
        saturation="both",
        source="Jarrett, Kavukcuoglu, Ranzato & LeCun 2009",
        _value=_abs_tanh,
        _slope=_abs_tanh_slope,
    ),
    Activation(
        name="rectified_tanh",
        code=14,
        formula="max(tanh(x), 0)",
        derivative_formula="1 - tanh(x)^2 if x > 0, else 0",
        exact_zeros=True,
        saturation="both",
        source=f"{_GLOROT}, section 4.1 (footnote to Table 1)",
        _value=_rectified_tanh,
        _slope=_rectified_tanh_slope,
    ),
    Activation(
        name="capped_rectifier",
        code=15,
        formula="min(max(x, 0), cap)",
        derivative_formula="1 if 0 < x < cap, else 0",
        parameters=(("cap", 1.0),),
        exact_zeros=True,
        saturation="both",
        source="Krizhevsky 2010 (with cap 6)",
        _value=_capped,
        _slope=_capped_slope,
    ),
    Activation(
        name="leaky_integrate_and_fire",
        code=16,
        formula="1 / (refractory + log(1 + 1/x)) if x > 0, else 0",
        derivative_formula="f(x)^2 / (x (1 + x)) if x > 0, else 0",
        parameters=(("refractory", 0.1),),
        exact_zeros=True,
        saturation="both",
        source=f"{_GLOROT}, section 2.1, rescaled as in the notes of this module",
        _value=_firing_rate,
        _slope=_firing_rate_slope,
    ),
)

CATALOGUE: Final[Mapping[str, Activation]] = MappingProxyType(
    {activation.name: activation for activation in _TABLE}
)
