"""What a training step does beside the loss and the update rule.

==============  ======================================================================
option          what is done
==============  ======================================================================
dropout         an activation of level l is set to 0 with probability p_l, and divided
                by 1 - p_l otherwise; level 0 are the inputs
batch_norm      a hidden layer computes h = s f(gamma (z - mean) / sqrt(var + epsilon)
                + b) of z = x W, with mean and variance of z over the batch; predictions
                use running means of both, folded into W and b
l1_weights      after the update w <- sign(w) max(|w| - learning_rate l1_weights, 0):
                weights become exactly 0; biases are free
max_norm        after the update the weights into a hidden unit are scaled down to at
                most this Euclidean norm
clip_norm       the gradient of the loss and the penalty on activations, over all
                parameters that are learned, is scaled down to at most this Euclidean
                norm, before the rule adds l2
fit_biases      False leaves biases as they are: with all of them 0, and rectifiers, a
                network is positively homogeneous
==============  ======================================================================

Whether unit j of row i is dropped in an epoch depends on nothing but the seed, the
epoch, the level, j and the content of row i: a row of weight 2 does what two equal rows
do, and neither the order of rows nor the format of a matrix matters.

References
----------
.. [1] Srivastava, Hinton, Krizhevsky, Sutskever & Salakhutdinov, "Dropout: a simple way
   to prevent neural networks from overfitting", 2014, sections 4 and 5.1 (max-norm).
.. [2] Ioffe & Szegedy, "Batch normalization", 2015, algorithms 1 and 2.
.. [3] Pascanu, Mikolov & Bengio, "On the difficulty of training recurrent neural
   networks", 2013, algorithm 1 (clipping by norm).
.. [4] Parikh & Boyd, "Proximal algorithms", 2014, section 6.5.2 (soft threshold).
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from hardzero.errors import ParameterError
from hardzero.kernels.rules import plain_float
from hardzero.random import stream_key

__all__ = ["BATCH_NORM_EPSILON", "BATCH_NORM_MOMENTUM", "NO_OPTIONS", "StepOptions"]

BATCH_NORM_EPSILON: Final = 1e-5
"""Added to a variance before its root is taken."""

BATCH_NORM_MOMENTUM: Final = 0.1
"""Share of a batch in the running mean and variance."""


@dataclass(frozen=True)
class StepOptions:
    """Options of a training step, as the module describes them.

    Parameters
    ----------
    dropout : tuple of float, default=()
        Probability to drop, in [0, 1), for the inputs and each hidden layer; empty for
        no dropout.
    batch_norm : bool, default=False
        Whether hidden layers normalise.
    l1_weights : float, default=0.0
        Penalty on weights, 0 or more.
    max_norm : float, default=inf
        Bound on the weights into a hidden unit, above 0.
    clip_norm : float, default=inf
        Bound on the gradient, above 0.
    fit_biases : bool, default=True
        Whether biases are learned.
    seed : int, default=0
        Seed of what is drawn, from 0 to 2**64 - 1.

    Raises
    ------
    ParameterError
        If an option is not a number in its range.

    Examples
    --------
    >>> from hardzero.kernels.options import StepOptions
    >>> StepOptions(dropout=(0.2, 0.5)).drops
    True
    """

    dropout: tuple[float, ...] = ()
    batch_norm: bool = False
    l1_weights: float = 0.0
    max_norm: float = math.inf
    clip_norm: float = math.inf
    fit_biases: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the options."""
        if not 0.0 <= plain_float(self.l1_weights) < math.inf:
            raise ParameterError(
                f"l1_weights is {self.l1_weights!r}, expected a finite number of 0 or "
                "more. Give 0 for no penalty."
            )
        for name in ("max_norm", "clip_norm"):
            if not plain_float(getattr(self, name)) > 0.0:
                raise ParameterError(
                    f"{name} is {getattr(self, name)!r}, expected a number above 0. "
                    "Give infinity for no bound."
                )
        if not isinstance(self.dropout, tuple):
            raise ParameterError(
                f"dropout is {self.dropout!r}, expected a tuple of probabilities. Give "
                "one for the inputs and one for each hidden layer."
            )
        for rate in self.dropout:
            if not 0.0 <= plain_float(rate) < _BELOW_1:
                raise ParameterError(
                    f"dropout is {rate!r}, expected a probability from 0 to below 1. "
                    "Give 0 to drop nothing."
                )
        is_whole = isinstance(self.seed, int | np.integer)
        if not (is_whole and 0 <= self.seed < 2**64):
            raise ParameterError(
                f"seed is {self.seed!r}, expected a whole number from 0 to 2**64 - 1. "
                "Give for example 0."
            )

    @property
    def drops(self) -> bool:
        """Whether anything is dropped."""
        return any(rate > 0.0 for rate in self.dropout)

    def keys(self, epoch: int) -> list[np.uint64]:
        """Return the keys of the streams that dropout draws from.

        Parameters
        ----------
        epoch : int
            Number of the epoch.

        Returns
        -------
        list of uint64
            One key for each level, from the inputs on.
        """
        return [
            stream_key(self.seed, f"dropout {level}", epoch)
            for level in range(len(self.dropout))
        ]


_BELOW_1: Final = 1.0 - 2.0**-25  # what float32 rounds to 1

NO_OPTIONS: Final = StepOptions()
"""A step of nothing but the loss and the rule."""
