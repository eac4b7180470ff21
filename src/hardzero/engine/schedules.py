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
=======================  =====================================================

``step`` alone means ``step(10, 0.5)``, ``cosine`` alone means ``cosine(0)``. The cosine
would reach `final` one epoch after the last, so no epoch is trained at a rate of 0.

References
----------
Loshchilov & Hutter 2017, "SGDR: stochastic gradient descent with warm restarts", eq. 5,
here without restarts.
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

    Raises
    ------
    ParameterError
        If there is no such schedule.

    Examples
    --------
    >>> from hardzero.engine.schedules import parse_schedule
    >>> schedule = parse_schedule("step(2, 0.1)")
    >>> [schedule.factor(epoch, 4) for epoch in (1, 2, 3, 4)]
    [1.0, 1.0, 0.1, 0.1]
    """

    name: str = "constant"
    parameters: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check name and parameters."""
        numbers = self.parameters
        allowed = self.name in _DEFAULTS and len(numbers) == len(_DEFAULTS[self.name])
        if allowed and self.name == "step":
            every, factor = numbers
            allowed = every >= 1 and float(every).is_integer() and 0 < factor <= 1
        elif allowed and self.name == "cosine":
            allowed = 0 <= numbers[0] <= 1
        if not allowed:
            raise ParameterError(
                f"{str(self)!r} is not a learning-rate schedule. Give 'constant', "
                "'step(every, factor)' with every = 1, 2, ... and a factor above 0 and "
                "up to 1, or 'cosine(final)' with final from 0 to 1."
            )

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
        if self.name == "step":
            every, factor = self.parameters
            return float(factor ** ((epoch - 1) // every))
        if self.name == "cosine":
            (final,) = self.parameters
            wave = (1 + math.cos(math.pi * (epoch - 1) / max_epochs)) / 2
            return final + (1 - final) * wave
        return 1.0

    def __str__(self) -> str:
        """Return the spelling that `parse_schedule` reads."""
        inside = ", ".join(f"{number:g}" for number in self.parameters)
        return f"{self.name}({inside})" if inside else self.name


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
    match = _SPELLING.fullmatch(spelling)
    if match is None:
        return Schedule(spelling)  # which says what is allowed
    name, inside = match.groups()
    if inside is None:
        return Schedule(name, _DEFAULTS.get(name, ()))
    return Schedule(name, tuple(float(number) for number in inside.split(",")))


_NUMBER: Final = r"\s*[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\s*"
_SPELLING: Final = re.compile(rf"\s*(\w+)\s*(?:\(({_NUMBER}(?:,{_NUMBER})*)\)\s*)?")
