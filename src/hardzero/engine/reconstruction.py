"""What the reconstruction of a row costs: the decoders of denoising auto-encoders.

With the pre-activation a of a decoder unit, its target x, softplus(a) =
log(1 + exp(a)), t = a / s, and Phi and phi the standard normal distribution function
and density:

=========================  ==============================  ==================  =======
spelling                   cost of an entry                reconstruction      targets
=========================  ==============================  ==================  =======
``softplus``               (x - softplus(a))^2             softplus(a)         >= 0
``sigmoid``                softplus(a) - x a               sigmoid(a)          0 to 1
``linear``                 (x - a)^2                       a                   any
``linear(pre)``            the same                        a                   any
``rectifier``              (x - max(0, a))^2               max(0, a)           >= 0
``censored_gaussian(s)``   x = 0: -log Phi(-t)             a Phi(t)            >= 0
                           x > 0: (x - a)^2 / (2 s^2)      + s phi(t)
``censored_laplace(s)``    x = 0: -log P(u <= 0)           max(0, a)           >= 0
                           x > 0: abs(x - a) / s           + s/2 exp(-abs t)
=========================  ==============================  ==================  =======

A row costs the sum over its features. The targets of the first layer are the input,
those of a deeper layer the activations of the layer below, or, with ``linear(pre)``,
its pre-activations. The derivative of ``rectifier`` is 0 for a <= 0: a unit whose
target is positive and whose pre-activation is not learns nothing from this entry,
which is why the other decoders exist. Cross-entropy has no minimum for targets above
1: at x = 1.5 it falls without bound as a grows.

The censored decoders are Tobit models: the target is max(0, u) of a latent u that has
a normal or Laplace distribution around a, with standard deviation s or scale s, 1 if
not given. Their cost is minus the log-likelihood, less the constants log(s sqrt(2 pi))
and log(2 s) of the densities, which do not depend on a. Without them costs are never
negative, and they are 0 where the model is sure of what it sees. The reconstruction is
the mean of max(0, u).

References
----------
Glorot, Bordes & Bengio 2011, "Deep sparse rectifier neural networks", section 3.2
(softplus, sigmoid, linear and rectifier decoders). Tobin 1958, "Estimation of
relationships for limited dependent variables" (the censored normal likelihood).
Vincent et al. 2008, "Extracting and composing robust features with denoising
autoencoders", section 2.3 (clean targets for corrupted inputs).
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx

from hardzero.engine.objectives import Objective
from hardzero.errors import DataError, ParameterError
from hardzero.kernels.network import Matrix
from hardzero.kernels.rules import plain_float

__all__ = [
    "DECODERS",
    "CensoredGaussian",
    "CensoredLaplace",
    "Decoder",
    "Linear",
    "Reconstruction",
    "Rectifier",
    "Sigmoid",
    "Softplus",
    "parse_decoder",
]

Array = npt.NDArray[Any]


def parse_decoder(spelling: "str | Decoder") -> "Decoder":
    """Return the decoder that a spelling names.

    Parameters
    ----------
    spelling : str or Decoder
        One of the spellings in the table at the top of the module, such as
        ``"softplus"``, ``"linear(pre)"``, ``"censored_gaussian"``, which means a scale
        of 1, or ``"censored_gaussian(0.5)"``. A Decoder is returned as it is.

    Returns
    -------
    Decoder
        The decoder.

    Raises
    ------
    ParameterError
        If the name is unknown, or the parameter is unknown, unreadable or out of range.

    Examples
    --------
    >>> from hardzero.engine.reconstruction import parse_decoder
    >>> parse_decoder("censored_gaussian(0.5)")
    CensoredGaussian(scale=0.5)
    >>> str(parse_decoder("linear(pre)"))
    'linear(pre)'
    """
    if isinstance(spelling, Decoder):
        return spelling
    match = _SPELLING.fullmatch(spelling) if isinstance(spelling, str) else None
    if match is None:
        raise ParameterError(
            f"the decoder is {spelling!r}, expected a name, or a name with one "
            f"parameter in parentheses. {_advice('')}"
        )
    name, inside = match["name"], match["inside"]
    if name not in DECODERS:
        raise ParameterError(f"the decoder {name!r} is unknown. {_advice(name)}")
    kind = DECODERS[name]
    if inside is None:
        return kind()
    if issubclass(kind, _Censored):
        return _with_scale(kind, inside)
    if kind is Linear and inside == "pre":
        return Linear(before_activation=True)
    allowed = "'linear' or 'linear(pre)'" if kind is Linear else repr(name)
    raise ParameterError(
        f"the decoder {name!r} has {inside!r} in parentheses. Write {allowed}."
    )


class Decoder(ABC):
    """What a reconstruction costs; the module's table has the formulas.

    All methods work elementwise, on float32 in float32, on float64 in float64. A cost
    that overflows is infinite or NaN, without a warning.
    """

    name: ClassVar[str]
    """Name in `DECODERS`."""

    accepts: ClassVar[tuple[float, float]]
    """Least and largest target."""

    def both(self, a: Array, x: Array) -> tuple[Array, Array]:
        """Return what entries cost, and the derivatives.

        Parameters
        ----------
        a : ndarray of any shape
            Pre-activations of the decoder.
        x : ndarray of the same shape and dtype
            Targets.

        Returns
        -------
        terms : ndarray
            Costs, of the shape and dtype of `a`, C-contiguous.
        derivatives : ndarray
            Their derivatives with respect to `a`, alike.
        """
        terms, slopes = np.empty(a.shape, a.dtype), np.empty(a.shape, a.dtype)
        with _quiet():
            for piece in _pieces(a, x, terms, slopes):
                self._cost(*piece)
        return terms, slopes

    def terms(self, a: Array, x: Array) -> Array:
        """Return what entries cost.

        Parameters
        ----------
        a : ndarray of any shape
            Pre-activations of the decoder.
        x : ndarray of the same shape and dtype
            Targets.

        Returns
        -------
        ndarray
            Costs, of the shape and dtype of `a`.
        """
        return self.both(a, x)[0]

    def derivatives(self, a: Array, x: Array) -> Array:
        """Return the derivatives of what entries cost.

        Parameters
        ----------
        a : ndarray of any shape
            Pre-activations of the decoder.
        x : ndarray of the same shape and dtype
            Targets.

        Returns
        -------
        ndarray
            Derivatives with respect to `a`, of its shape and dtype. They are 0 at a
            kink: for the rectifier at a = 0, for the censored Laplace where a = x > 0.
        """
        return self.both(a, x)[1]

    def reconstruct(self, a: Array) -> Array:
        """Return the reconstructions.

        Parameters
        ----------
        a : ndarray of any shape
            Pre-activations of the decoder.

        Returns
        -------
        ndarray
            Reconstructions in the units of the targets, of the shape and dtype of `a`.
        """
        out = np.empty(a.shape, a.dtype)
        with _quiet():
            for piece in _pieces(a, out):
                self._mean(*piece)
        return out

    def check_targets(self, x: Matrix) -> None:
        """Check that all targets can be reconstructed.

        Parameters
        ----------
        x : ndarray or sparse matrix
            Targets.

        Raises
        ------
        DataError
            If one is NaN or lies outside `accepts`.
        """
        if 0 in x.shape:
            return
        low, high = x.min(), x.max()
        if not (low >= self.accepts[0] and high <= self.accepts[1]):
            expected = " to ".join(f"{end:g}" for end in self.accepts)
            raise DataError(
                f"the values to reconstruct go from {low:g} to {high:g}, expected "
                f"{expected} for the decoder '{self}'. Rescale them, or take the "
                "decoder 'linear', which has no limits."
            )

    def __str__(self) -> str:
        """Return the spelling that `parse_decoder` reads."""
        return self.name

    @abstractmethod
    def _cost(self, a: Array, x: Array, terms: Array, slopes: Array) -> None:
        """Write costs and derivatives of a piece into the last two vectors."""

    @abstractmethod
    def _mean(self, a: Array, out: Array) -> None:
        """Write reconstructions of a piece into the last vector."""


@dataclass(frozen=True)
class Softplus(Decoder):
    """Squared distance to the softplus, for targets of 0 or more.

    The derivative is 2 (softplus(a) - x) sigmoid(a).
    """

    name = "softplus"
    accepts = (0.0, math.inf)

    def _cost(self, a: Array, x: Array, terms: Array, slopes: Array) -> None:
        parts = _Parts(a)
        errors = parts.bend()
        errors += parts.above
        errors -= x
        np.square(errors, out=terms)
        np.divide(parts.rise, parts.sum, out=slopes)
        errors *= 2
        slopes *= errors

    def _mean(self, a: Array, out: Array) -> None:
        parts = _Parts(a)
        np.add(parts.bend(), parts.above, out=out)


@dataclass(frozen=True)
class Sigmoid(Decoder):
    """Cross-entropy of the sigmoid, for targets between 0 and 1.

    The derivative is sigmoid(a) - x, written as (1 - x) sigmoid(a) - x sigmoid(-a),
    which keeps its digits where the sigmoid is close to a target of 1.
    """

    name = "sigmoid"
    accepts = (0.0, 1.0)

    def _cost(self, a: Array, x: Array, terms: Array, slopes: Array) -> None:
        parts = _Parts(a)
        # where x = 1 and a is large, max(a, 0) - x a is exactly 0
        np.multiply(x, a, out=terms)
        np.subtract(parts.above, terms, out=terms)
        terms += parts.bend()
        np.subtract(1, x, out=slopes)
        slopes *= parts.rise
        parts.fall *= x
        slopes -= parts.fall
        slopes /= parts.sum

    def _mean(self, a: Array, out: Array) -> None:
        parts = _Parts(a)
        np.divide(parts.rise, parts.sum, out=out)


@dataclass(frozen=True)
class Linear(Decoder):
    """Squared distance, for targets of any size.

    The derivative is 2 (a - x).

    Parameters
    ----------
    before_activation : bool, default=False
        Whether the targets are the pre-activations of the layer below, not its
        activations.
    """

    before_activation: bool = False

    name = "linear"
    accepts = (-math.inf, math.inf)

    def __str__(self) -> str:
        """Return the spelling that `parse_decoder` reads."""
        return "linear(pre)" if self.before_activation else "linear"

    def _cost(self, a: Array, x: Array, terms: Array, slopes: Array) -> None:
        errors = np.subtract(a, x, out=slopes)
        np.square(errors, out=terms)
        errors *= 2

    def _mean(self, a: Array, out: Array) -> None:
        out[:] = a


@dataclass(frozen=True)
class Rectifier(Decoder):
    """Squared distance to the rectifier, for targets of 0 or more.

    The derivative is 2 (a - x) for a > 0 and 0 for a <= 0, whatever the target.
    """

    name = "rectifier"
    accepts = (0.0, math.inf)

    def _cost(self, a: Array, x: Array, terms: Array, slopes: Array) -> None:
        errors = np.maximum(a, 0, out=slopes)
        errors -= x
        np.square(errors, out=terms)
        errors *= a > 0
        errors *= 2

    def _mean(self, a: Array, out: Array) -> None:
        np.maximum(a, 0, out=out)


@dataclass(frozen=True)
class _Censored(Decoder):
    scale: float = 1.0

    accepts = (0.0, math.inf)

    def __post_init__(self) -> None:
        """Check the parameter."""
        scale = plain_float(self.scale)
        if not 0 < scale < math.inf:
            raise ParameterError(
                f"scale of the decoder {self.name!r} is {self.scale!r}, expected a "
                f"finite number above 0. Write for example '{self.name}(1)'."
            )
        object.__setattr__(self, "scale", scale)  # the decoder is frozen

    def __str__(self) -> str:
        """Return the spelling that `parse_decoder` reads."""
        return f"{self.name}({repr(self.scale).removesuffix('.0')})"


@dataclass(frozen=True)
class CensoredGaussian(_Censored):
    """Minus the log-likelihood of a normal variable whose negative values show as 0.

    The derivative is (a - x) / s^2 for x > 0; for x = 0 it is the density over the
    probability of what is censored, phi(t) / (s Phi(-t)).

    Parameters
    ----------
    scale : float, default=1.0
        Standard deviation s of the latent variable, finite and above 0.

    Raises
    ------
    ParameterError
        If `scale` is not such a number.
    """

    name = "censored_gaussian"

    def _cost(self, a: Array, x: Array, terms: Array, slopes: Array) -> None:
        errors = np.subtract(a, x, out=slopes)
        errors /= self.scale
        np.square(errors, out=terms)
        terms /= 2
        zero = np.flatnonzero(x <= 0)
        t = a[zero] / self.scale
        ratio, density = _mills(np.abs(t)), _density(t)
        tail = ratio * density  # Phi(-|t|)
        far = np.square(t) / 2 + math.log(2 * math.pi) / 2 - np.log(ratio)
        terms[zero] = np.where(t > 0, far, -np.log1p(-tail))
        slopes[zero] = np.where(t > 0, 1 / ratio, density / (1 - tail))
        slopes /= self.scale

    def _mean(self, a: Array, out: Array) -> None:
        # E max(0, t + z) = max(t, 0) + E max(0, z - |t|) for a standard normal z; the
        # last is phi(t) times 1 - |t| Phi(-|t|) / phi(t), and 0 from |t| = 40 on
        t = np.minimum(np.abs(a) / self.scale, 40)
        beyond = _density(t) * (1 - t * _mills(t))
        np.add(np.maximum(a, 0), self.scale * beyond, out=out)


@dataclass(frozen=True)
class CensoredLaplace(_Censored):
    """Minus the log-likelihood of a Laplace variable whose negative values show as 0.

    The derivative is sign(a - x) / s for x > 0; for x = 0 it is 1 / s where a > 0 and
    exp(t) / ((2 - exp(t)) s) below.

    Parameters
    ----------
    scale : float, default=1.0
        Scale s of the latent variable, its mean absolute deviation, finite and above 0.

    Raises
    ------
    ParameterError
        If `scale` is not such a number.
    """

    name = "censored_laplace"

    def _cost(self, a: Array, x: Array, terms: Array, slopes: Array) -> None:
        errors = (a - x) / self.scale
        np.abs(errors, out=terms)
        np.subtract(errors > 0, errors < 0, out=slopes, dtype=a.dtype)
        zero = np.flatnonzero(x <= 0)
        t = a[zero] / self.scale
        below = np.exp(np.minimum(t, 0))
        terms[zero] = np.maximum(t, 0) - np.log1p(-below / 2)
        slopes[zero] = below / (2 - below)
        slopes /= self.scale

    def _mean(self, a: Array, out: Array) -> None:
        beyond = self.scale / 2 * np.exp(-np.abs(a) / self.scale)
        np.add(np.maximum(a, 0), beyond, out=out)


DECODERS: Final = MappingProxyType[str, type[Decoder]](
    {
        kind.name: kind
        for kind in (
            Softplus,
            Sigmoid,
            Linear,
            Rectifier,
            CensoredGaussian,
            CensoredLaplace,
        )
    }
)
"""All decoders by name."""


@dataclass(frozen=True)
class Reconstruction(Objective):
    """The cost of reconstructing rows, summed over features.

    Targets are rows of numbers, a dense array or a CSR matrix of the shape of the
    outputs, which are the pre-activations of the decoder.

    Parameters
    ----------
    decoder : Decoder
        What an entry costs.
    """

    decoder: Decoder

    name = "reconstruction"
    output_link = "identity"
    is_computed_by_step = True  # of `hardzero.engine.denoise.DenoisingNetwork`

    def loss_and_delta(  # noqa: D102
        self, outputs: Array, y: Matrix, shares: Array
    ) -> tuple[float, Array]:
        self._check_shapes(outputs, y)
        with _quiet():
            terms, delta = self.decoder.both(outputs, _dense(y, outputs.dtype))
            losses = terms.sum(axis=1, dtype=np.float64)
            delta *= shares[:, None].astype(delta.dtype, copy=False)
            if not shares.all():
                losses[shares == 0] = 0.0
                delta[shares == 0] = 0.0
            return float((losses * shares).sum(dtype=np.float64)), delta

    def _losses(self, outputs: Array, y: Matrix) -> Array:
        terms = self.decoder.terms(outputs, _dense(y, outputs.dtype))
        return np.asarray(terms.sum(axis=1, dtype=np.float64))

    def _slopes(self, outputs: Array, y: Matrix) -> Array:
        return self.decoder.derivatives(outputs, _dense(y, outputs.dtype))

    def __str__(self) -> str:
        """Return what is minimised, such as ``reconstruction(softplus)``."""
        return f"{self.name}({self.decoder})"


# What others call these; used only to give advice.
_ELSEWHERE: Final = {
    "cross_entropy": "sigmoid",
    "binary_crossentropy": "sigmoid",
    "logistic": "sigmoid",
    "identity": "linear",
    "squared": "linear",
    "mse": "linear",
    "relu": "rectifier",
    "tobit": "censored_gaussian",
    "gaussian": "censored_gaussian",
    "laplace": "censored_laplace",
}

_SPELLING: Final = re.compile(r"\s*(?P<name>\w+)\s*(\(\s*(?P<inside>[^()]*?)\s*\)\s*)?")


def _advice(name: str) -> str:
    near = get_close_matches(name.lower(), [*DECODERS, *_ELSEWHERE], n=1)
    if near:
        return f"Did you mean {_ELSEWHERE.get(near[0], near[0])!r}?"
    return f"Choose one of: {', '.join(DECODERS)}."


def _with_scale(kind: type[_Censored], inside: str) -> Decoder:
    try:
        scale = float(re.sub(r"^scale\s*=", "", inside))
    except ValueError:
        raise ParameterError(
            f"the decoder {kind.name!r} has {inside!r} in parentheses, expected its "
            f"scale, a number. Write for example '{kind.name}(1)'."
        ) from None
    return kind(scale)


# Temporary arrays of a piece stay in the cache of a core, and below the size from which
# the system hands out fresh pages for each.
_PIECE: Final = 8192


def _pieces(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Yield vectors of a few thousand corresponding entries of C-contiguous arrays."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, _PIECE):
        yield tuple(array[start : start + _PIECE] for array in flat)


def _quiet() -> np.errstate:
    return np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore")


class _Parts:
    """What softplus and sigmoid are made of, without overflow or cancellation.

    With rise = exp(min(a, 0)) and fall = exp(-max(a, 0)), one of which is 1, sigmoid(a)
    is rise / sum and sigmoid(-a) is fall / sum, where sum = rise + fall.
    """

    def __init__(self, a: Array) -> None:
        self.above = np.maximum(a, 0)
        self.rise = np.minimum(a, 0)
        np.exp(self.rise, out=self.rise)
        self.fall = -self.above
        np.exp(self.fall, out=self.fall)
        self.sum = self.rise + self.fall

    def bend(self) -> Array:
        """Return softplus(a) - max(a, 0) = log(1 + exp(-|a|))."""
        product: Array = self.rise * self.fall
        np.log1p(product, out=product)
        return product


def _mills(t: Array) -> Array:
    """Return Phi(-t) / phi(t), which neither overflows nor vanishes for t >= 0."""
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(t / math.sqrt(2)))


def _density(t: Array) -> Array:
    return np.asarray(np.exp(-np.square(t) / 2) / math.sqrt(2 * math.pi))


def _dense(y: Matrix, dtype: np.dtype[Any]) -> Array:
    rows: Array = y if isinstance(y, np.ndarray) else y.toarray()
    return rows.astype(dtype, copy=False)
