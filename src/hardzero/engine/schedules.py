"""How the learning rate changes from epoch to epoch.

A schedule multiplies the learning rate by a factor that depends on the epoch alone. It
is spelled like an activation, a name with parameters in parentheses, so that it
survives ``clone``, reads well in ``repr`` and can be searched over:

=======================  =====================================================
spelling                 factor in epoch e = 1, 2, ... of n
=======================  =====================================================
``constant``             1
``step(every, factor)``  factor to the power (e - 1) // every
``cosine(final)``        final + (1 - final) (1 + cos(pi (e - 1) / n)) / 2
``warmup(w)+SCHEDULE``   e / (w + 1) up to epoch w; then SCHEDULE, in epoch
                         e - w of n - w
=======================  =====================================================

``step`` alone means ``step(10, 0.5)``, ``cosine`` alone means ``cosine(0)``, and
``warmup(5)`` alone means ``warmup(5)+constant``. The cosine would reach `final` one
epoch after the last, so no epoch is trained at a rate of 0; where training goes on
after the n epochs, it stays at `final`, and with ``cosine(0)`` `train` warns that it
learns nothing there. A warm-up climbs in equal steps, and the first
epoch after it has the full rate.

References
----------
Loshchilov & Hutter 2017, "SGDR: stochastic gradient descent with warm restarts", eq. 5,
here without restarts. Goyal et al. 2017, "Accurate, large minibatch SGD", section 2.2
(gradual warm-up).
"""

import math
import re
from dataclasses import dataclass
from typing import Final

from hardzero.errors import ParameterError

__all__ = ["CONSTANT", "Schedule", "parse_schedule"]

_DEFAULTS: Final[dict[str, tuple[float, ...]]] = {
    "constant": (),
    "step": (10, 0.5),
    "cosine": (0,),
}


@dataclass(frozen=True)
class Schedule:
    """A factor on the learning rate for each epoch.

    Parameters
    ----------
    name : {"constant", "step", "cosine"}, default="constant"
        Formula, see the table at the top of the module.
    parameters : tuple of float
        What stands in parentheses in the spelling: nothing for "constant"; for "step"
        a whole number of 1 or more and a factor in (0, 1]; for "cosine" a number in
        [0, 1].
    warmup : int, default=0
        Number of epochs, 0 or more, in which the factor climbs before.

    Raises
    ------
    ParameterError
        If there is no such schedule.

    Examples
    --------
    >>> from hardzero.engine.schedules import parse_schedule
    >>> schedule = parse_schedule("warmup(1)+step(2, 0.1)")
    >>> [schedule.factor(epoch, 4) for epoch in (1, 2, 3, 4)]
    [0.5, 1.0, 1.0, 0.1]
    """

    name: str = "constant"
    parameters: tuple[float, ...] = ()
    warmup: int = 0

    def __post_init__(self) -> None:
        """Check name and parameters."""
        numbers = self.parameters
        allowed = self.name in _DEFAULTS and len(numbers) == len(_DEFAULTS[self.name])
        if allowed and self.name == "step":
            every, factor = numbers
            allowed = every >= 1 and float(every).is_integer() and 0 < factor <= 1
        elif allowed and self.name == "cosine":
            allowed = 0 <= numbers[0] <= 1
        if not (allowed and self.warmup >= 0):
            raise _no_schedule(str(self))

    def factor(self, epoch: int, max_epochs: int) -> float:
        """Return the factor on the learning rate in an epoch.

        Parameters
        ----------
        epoch : int
            Number of the epoch, counted from 1.
        max_epochs : int
            Planned number of epochs.

        Returns
        -------
        float
            Factor in [0, 1].
        """
        if epoch <= self.warmup:
            return epoch / (self.warmup + 1)
        n_before = epoch - self.warmup - 1
        if self.name == "step":
            every, factor = self.parameters
            return float(factor ** (n_before // every))
        if self.name == "cosine":
            (final,) = self.parameters
            part = min(n_before / max(max_epochs - self.warmup, 1), 1.0)
            return final + (1 - final) * (1 + math.cos(math.pi * part)) / 2
        return 1.0

    @property
    def depends_on_max_epochs(self) -> bool:
        """Whether another plan would give epochs another factor."""
        return self.name == "cosine"

    def __str__(self) -> str:
        """Return the spelling that `parse_schedule` reads."""
        inside = ", ".join(map(_short, self.parameters))
        before = f"warmup({self.warmup})+" if self.warmup else ""
        return f"{before}{self.name}({inside})" if inside else f"{before}{self.name}"


CONSTANT: Final = Schedule()
"""The schedule that leaves the learning rate as it is."""


def parse_schedule(spelling: str) -> Schedule:
    """Return the schedule that a string names.

    Parameters
    ----------
    spelling : str
        One of the spellings in the table at the top of the module.

    Returns
    -------
    Schedule
        The schedule.

    Raises
    ------
    ParameterError
        If there is no such schedule.
    """
    warmup, rest = 0, spelling
    if before := _WARMUP.match(spelling):
        warmup = int(before[1])
        rest = spelling[before.end() :] if before[2] else "constant"
    match = _SPELLING.fullmatch(rest)
    if match is None:
        raise _no_schedule(spelling)
    name, inside = match.groups()
    if inside is None:
        return Schedule(name, _DEFAULTS.get(name, ()), warmup)
    return Schedule(name, tuple(float(number) for number in inside.split(",")), warmup)


_NUMBER: Final = r"\s*[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\s*"
_SPELLING: Final = re.compile(rf"\s*(\w+)\s*(?:\(({_NUMBER}(?:,{_NUMBER})*)\)\s*)?")
_WARMUP: Final = re.compile(r"\s*warmup\s*\(\s*([0-9]{1,9})\s*\)\s*(?:(\+)|$)")


def _short(number: float) -> str:
    return repr(float(number)).removesuffix(".0")


def _no_schedule(spelling: str) -> ParameterError:
    return ParameterError(
        f"{spelling!r} is not a learning-rate schedule. Give 'constant', "
        "'step(every, factor)' with every = 1, 2, ... and a factor above 0 and up to "
        "1, 'cosine(final)' with final from 0 to 1, or 'warmup(epochs)+' and one of "
        "these."
    )
