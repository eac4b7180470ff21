"""Noise on the inputs that a denoising auto-encoder has to undo.

With u uniform on [0, 1), different for each place:

=================================  ====================================================
spelling                           what becomes of an entry x in column j
=================================  ====================================================
``none``                           x
``masking(rate)``                  0 where u < rate; the others are not scaled up
``salt_and_pepper(off, on)``       where x is not 0: 0 if u < off; where x is 0: with
                                   probability `on` the mean of all entries of the
                                   training set that are not 0
``salt_and_pepper(off, density)``  the same with on = off rho / (1 - rho), where rho is
                                   the share of entries of the training set that are
                                   not 0: as many turn on as turn off
``gaussian(deviation)``            x + deviation z, where z is normal with variance 1
``swap(rate)``                     with probability `rate` what a random row of the
                                   training set has in column j
=================================  ====================================================

Names and parameters are all that stands here. `hardzero.engine.corruptors` draws the
noise, and says what it depends on.

References
----------
Vincent, Larochelle, Lajoie, Bengio & Manzagol 2010, "Stacked denoising autoencoders",
section 3.3 (masking, salt and pepper, Gaussian). Glorot, Bordes & Bengio 2011, "Deep
sparse rectifier neural networks", sections 4.1 (masking) and 4.2 (salt and pepper with
levels of its own for zeros). Swapping within a column is folklore of those who denoise
tables.
"""

# ruff: noqa: ARG002, D102  (`fit` is documented in `Corruption`; not all kinds learn)

import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal

import numpy.typing as npt
import scipy.sparse as sp

from hardzero.engine.corruptors import (
    Corruptor,
    Masker,
    OffAndOn,
    Shaker,
    Swapper,
    Unchanged,
    mean_non_zero,
    needs_dense,
)
from hardzero.errors import ParameterError
from hardzero.kernels.network import Matrix
from hardzero.kernels.rules import plain_float

__all__ = [
    "CORRUPTIONS",
    "Corruption",
    "Corruptor",
    "Gaussian",
    "Masking",
    "NoCorruption",
    "SaltAndPepper",
    "Swap",
    "parse_corruption",
]

Array = npt.NDArray[Any]


def parse_corruption(spelling: "str | Corruption") -> "Corruption":
    """Return the corruption that a spelling names.

    Parameters
    ----------
    spelling : str or Corruption
        One of the spellings in the table at the top of the module; parameters may be
        named, as in ``"salt_and_pepper(off=0.8, on=density)"``. A Corruption is
        returned as it is.

    Returns
    -------
    Corruption
        The corruption.

    Raises
    ------
    ParameterError
        If the name is unknown, or parameters are missing, unknown, unreadable or out of
        range.

    Examples
    --------
    >>> from hardzero.engine.corruption import parse_corruption
    >>> parse_corruption("masking(0.25)")
    Masking(rate=0.25)
    >>> str(parse_corruption("salt_and_pepper(0.8, density)"))
    'salt_and_pepper(0.8, density)'
    """
    if isinstance(spelling, Corruption):
        return spelling
    match = _SPELLING.fullmatch(spelling) if isinstance(spelling, str) else None
    if match is None:
        raise ParameterError(
            f"the corruption is {spelling!r}, expected a name, with its parameters in "
            f"parentheses. {_advice('')}"
        )
    name, inside = match["name"], match["inside"] or ""
    if name not in CORRUPTIONS:
        raise ParameterError(f"the corruption {name!r} is unknown. {_advice(name)}")
    kind = CORRUPTIONS[name]
    return kind(**_arguments(kind, inside.strip()))


class Corruption(ABC):
    """Noise on inputs; the module's table has the formulas."""

    name: ClassVar[str]
    """Name in `CORRUPTIONS`."""

    example: ClassVar[str]
    """A spelling, for messages."""

    @abstractmethod
    def fit(self, X: Matrix, sample_weight: Array | None = None) -> Corruptor:
        """Learn from training rows what the noise needs to know.

        Parameters
        ----------
        X : C-contiguous ndarray or canonical CSR matrix of shape (n_samples, n_columns)
            Training rows, float32 or float64.
        sample_weight : ndarray of shape (n_samples,) or None
            Weights, 0 or more and not all 0; a row counts so many times. None counts
            each once.

        Returns
        -------
        Corruptor
            What puts the noise on rows of as many columns.

        Raises
        ------
        ParameterError
            If there is no such noise for `X`.
        """

    def __str__(self) -> str:
        """Return the spelling that `parse_corruption` reads."""
        inside = ", ".join(_short(getattr(self, name)) for name in _names(type(self)))
        return f"{self.name}({inside})" if inside else self.name


@dataclass(frozen=True)
class NoCorruption(Corruption):
    """No noise: the network learns to copy."""

    name = "none"
    example = "none"

    def fit(self, X: Matrix, sample_weight: Array | None = None) -> Corruptor:
        return Unchanged()


@dataclass(frozen=True)
class Masking(Corruption):
    """Entries that are set to 0.

    Parameters
    ----------
    rate : float
        Probability, from 0 to 1.

    Raises
    ------
    ParameterError
        If `rate` is not such a number.
    """

    rate: float

    name = "masking"
    example = "masking(0.25)"

    def __post_init__(self) -> None:
        """Check the parameter."""
        _set_number(self, "rate", 1.0)

    def fit(self, X: Matrix, sample_weight: Array | None = None) -> Corruptor:
        return Masker(self.rate)


@dataclass(frozen=True)
class SaltAndPepper(Corruption):
    """Non-zeros that turn off and zeros that turn on, each at a rate of its own.

    Parameters
    ----------
    off : float
        Probability that an entry other than 0 becomes 0, from 0 to 1.
    on : float or "density"
        Probability that a 0 becomes the mean non-zero, from 0 to 1; or "density" to
        turn on as many as off.

    Raises
    ------
    ParameterError
        If a parameter is not as described.
    """

    off: float
    on: float | Literal["density"]

    name = "salt_and_pepper"
    example = "salt_and_pepper(0.8, density)"

    def __post_init__(self) -> None:
        """Check the parameters."""
        _set_number(self, "off", 1.0)
        if self.on != "density":
            _set_number(self, "on", 1.0, " or 'density'")

    def fit(self, X: Matrix, sample_weight: Array | None = None) -> Corruptor:
        share, mean = mean_non_zero(X, sample_weight)
        if self.on != "density":
            return OffAndOn(self.off, self.on, mean)
        if self.off * share > 1 - share:
            raise ParameterError(
                f"the corruption '{self}' turns on as many zeros as it turns off "
                f"non-zeros, but {share:.1%} of the entries of X are non-zeros, which "
                f"leaves too few zeros. Give 'salt_and_pepper({_short(self.off)}, on)' "
                f"a number for on, or take '{Masking.example}'."
            )
        on = self.off * share / (1 - share) if self.off > 0 else 0.0
        return OffAndOn(self.off, on, mean)


@dataclass(frozen=True)
class Gaussian(Corruption):
    """Normal noise on every entry, for dense inputs.

    Parameters
    ----------
    deviation : float
        Standard deviation, 0 or more.

    Raises
    ------
    ParameterError
        If `deviation` is not such a number.
    """

    deviation: float

    name = "gaussian"
    example = "gaussian(0.3)"

    def __post_init__(self) -> None:
        """Check the parameter."""
        _set_number(self, "deviation", math.inf)

    def fit(self, X: Matrix, sample_weight: Array | None = None) -> Corruptor:
        if sp.issparse(X):
            raise needs_dense(self.deviation)
        return Shaker(self.deviation)


@dataclass(frozen=True)
class Swap(Corruption):
    """Entries that are replaced by what other rows have in their column.

    Parameters
    ----------
    rate : float
        Probability, from 0 to 1.

    Raises
    ------
    ParameterError
        If `rate` is not such a number.
    """

    rate: float

    name = "swap"
    example = "swap(0.15)"

    def __post_init__(self) -> None:
        """Check the parameter."""
        _set_number(self, "rate", 1.0)

    def fit(self, X: Matrix, sample_weight: Array | None = None) -> Corruptor:
        return Swapper(self.rate, X, sample_weight)


CORRUPTIONS: Final = MappingProxyType[str, type[Corruption]](
    {kind.name: kind for kind in (NoCorruption, Masking, SaltAndPepper, Gaussian, Swap)}
)
"""All corruptions by name."""

_SPELLING: Final = re.compile(r"\s*(?P<name>\w+)\s*(\((?P<inside>[^()]*)\)\s*)?")

# What others call these; used only to give advice.
_ELSEWHERE: Final = {
    "identity": "none",
    "mask": "masking",
    "zeros": "masking",
    "dropout": "masking",
    "salt_pepper": "salt_and_pepper",
    "normal": "gaussian",
    "noise": "gaussian",
    "swap_noise": "swap",
}


def _advice(name: str) -> str:
    near = get_close_matches(name.lower(), [*CORRUPTIONS, *_ELSEWHERE], n=1)
    if near:
        kind = CORRUPTIONS[_ELSEWHERE.get(near[0], near[0])]
        return f"Did you mean '{kind.example}'?"
    examples = ", ".join(f"'{kind.example}'" for kind in CORRUPTIONS.values())
    return f"Give one such as {examples}."


def _arguments(kind: type[Corruption], inside: str) -> dict[str, Any]:
    known = _names(kind)
    arguments: dict[str, Any] = {}
    for place, part in enumerate(inside.split(",") if inside else []):
        before, is_named, after = (piece.strip() for piece in part.partition("="))
        name = before if is_named else "".join(known[place : place + 1])
        if name not in known or name in arguments:
            break
        arguments[name] = _value(after if is_named else before)
    else:
        if len(arguments) == len(known):
            return arguments
    expected = f"({', '.join(known)})" if known else "no parameters"
    raise ParameterError(
        f"the corruption {kind.name!r} got ({inside}), expected {expected}. Write "
        f"for example '{kind.example}'."
    )


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _set_number(
    corruption: Corruption, name: str, high: float, otherwise: str = ""
) -> None:
    """Make a plain float of a parameter and check that it lies in [0, high]."""
    value = getattr(corruption, name)
    number = plain_float(value)
    if not (0 <= number <= high and math.isfinite(number)):
        limit = "of 0 or more" if high == math.inf else f"from 0 to {high:g}"
        raise ParameterError(
            f"{name} of the corruption {corruption.name!r} is {value!r}, expected a "
            f"finite number {limit}{otherwise}. Write for example "
            f"'{corruption.example}'."
        )
    object.__setattr__(corruption, name, number)  # the corruption is frozen


def _names(kind: type[Corruption]) -> list[str]:
    return [field.name for field in fields(kind)]  # type: ignore[arg-type]


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else repr(value).removesuffix(".0")
