"""Update rules: how a gradient g moves a parameter w.

==================  ====================================================================
rule                one step, from m = v = 0 before step t = 1
==================  ====================================================================
gradient            g <- g + l2 w for weights; biases and learned slopes have no penalty
plain               w <- w - learning_rate g
momentum            m <- momentum m + g;  w <- w - learning_rate m
Nesterov momentum   m <- momentum m + g;  w <- w - learning_rate (g + momentum m)
Adam                m <- beta1 m + (1 - beta1) g;  v <- beta2 v + (1 - beta2) g^2;
                    w <- w - learning_rate (m / (1 - beta1^t))
                    / ((sqrt(v) + epsilon) / sqrt(1 - beta2^t))
==================  ====================================================================

Adam's epsilon stands where scikit-learn and Keras have it, inside the correction; as
PyTorch has it, outside, it is epsilon / sqrt(1 - beta2^t) here.

A rule holds settings only; m, v and t belong to the network that uses it.
"""

import math
import numbers
from dataclasses import dataclass
from typing import Any

from hardzero.errors import ParameterError

__all__ = ["SGD", "Adam", "Rule", "plain_float"]


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent, with momentum and weight decay on request.

    Parameters
    ----------
    learning_rate : float
        Step size, 0 or more.
    momentum : float, default=0.0
        Share of the last movement that is kept, in [0, 1).
    nesterov : bool, default=False
        Whether the momentum looks one step ahead; needs a momentum above 0.
    l2 : float, default=0.0
        Weight decay, 0 or more: the loss gains l2/2 times the sum of squared weights.

    Raises
    ------
    ParameterError
        If a setting is not a number in its range.

    References
    ----------
    .. [1] Polyak, "Some methods of speeding up the convergence of iteration methods",
       1964 (momentum).
    .. [2] Sutskever, Martens, Dahl & Hinton, "On the importance of initialization and
       momentum in deep learning", 2013, section 2 (Nesterov's form for networks).

    Examples
    --------
    >>> from hardzero.kernels.rules import SGD
    >>> SGD(0.1, momentum=0.9)
    SGD(learning_rate=0.1, momentum=0.9, nesterov=False, l2=0.0)
    """

    learning_rate: float
    momentum: float = 0.0
    nesterov: bool = False
    l2: float = 0.0

    def __post_init__(self) -> None:
        """Check the settings and make plain floats of them."""
        _set_number(self, "learning_rate", 0.0, math.inf)
        _set_number(self, "momentum", 0.0, 1.0)
        _set_number(self, "l2", 0.0, math.inf)
        if self.nesterov and self.momentum == 0.0:
            raise ParameterError(
                "nesterov is True but momentum is 0, expected a momentum above 0. Give "
                "for example momentum=0.9, or leave nesterov out."
            )


@dataclass(frozen=True)
class Adam:
    """Adam, with bias correction.

    Parameters
    ----------
    learning_rate : float
        Step size, 0 or more.
    beta1 : float, default=0.9
        Decay of the running mean of gradients, in [0, 1).
    beta2 : float, default=0.999
        Decay of the running mean of squared gradients, in [0, 1).
    epsilon : float, default=1e-8
        Number above 0 that is added to the root of the running mean of squares.
    l2 : float, default=0.0
        Weight decay, 0 or more, added to the gradient as in `SGD` (not AdamW's).

    Raises
    ------
    ParameterError
        If a setting is not a number in its range.

    References
    ----------
    .. [1] Kingma & Ba, "Adam: A method for stochastic optimization", 2015, the more
       efficient order at the end of section 2 ("epsilon hat").

    Examples
    --------
    >>> from hardzero.kernels.rules import Adam
    >>> Adam(0.001).beta2
    0.999
    """

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    l2: float = 0.0

    def __post_init__(self) -> None:
        """Check the settings and make plain floats of them."""
        _set_number(self, "learning_rate", 0.0, math.inf)
        _set_number(self, "beta1", 0.0, 1.0)
        _set_number(self, "beta2", 0.0, 1.0)
        _set_number(self, "epsilon", math.ulp(0.0), math.inf)
        _set_number(self, "l2", 0.0, math.inf)


Rule = SGD | Adam


def plain_float(value: Any) -> float:
    """Return a real number of any type as a float.

    Parameters
    ----------
    value : Any
        Anything.

    Returns
    -------
    float
        The number; NaN if it is none, or too large for a float.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def _set_number(rule: Rule, name: str, low: float, below: float) -> None:
    """Make a plain float of a setting and check that it lies in [low, below)."""
    value = getattr(rule, name)
    number = plain_float(value)
    if not low <= number < below:
        above = "above 0" if low > 0.0 else "of 0 or more"
        limit = "" if below == math.inf else f" and below {below:g}"
        raise ParameterError(
            f"{name} of {type(rule).__name__} is {value!r}, expected a finite number "
            f"{above}{limit}. Change {name}."
        )
    object.__setattr__(rule, name, number)  # the rule is frozen
