"""The warning about dead units."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from hardzero.engine.dead_units import warn_of_dead_units
from hardzero.errors import DeadUnitWarning
from hardzero.kernels.statistics import LayerStatistics

SMALL = np.ones((100, 3))
LARGE = np.full((100, 3), 8.0)


def _layer(n_dead, n_rows=200, n_units=20):
    fired = np.arange(n_units) >= n_dead
    return LayerStatistics(n_rows, int(fired.sum()) * n_rows, fired)


@pytest.mark.parametrize(
    ("whole", "last", "X", "message"),
    [
        (0, 3, LARGE, r"3 of 20 in hidden layer 2.* last 100 rows.*mean square 8 make "
         r"the steps at learning rate 0.1 too large. Remedy: scale the in.*to 0.01"),
        (0, 3, sp.csr_matrix(LARGE), "mean square 8 make"),
        (0, 3, SMALL, r"the learning rate 0.1 is too high.*Remedy: lower learning_rate,"
         r" for example to 0.01"),
        (3, 3, SMALL, r"silent from the start.*Remedy: scale the .*init='he_normal'"),
    ],
)  # fmt: skip
def test_cause_and_remedy(whole, last, X, message):
    """The warning names layer, likely cause and remedy, from what was seen."""
    after = [_layer(0, 100), _layer(last, 100)]
    with pytest.warns(DeadUnitWarning, match=message):
        warn_of_dead_units([_layer(0), _layer(whole)], after, X, 0.1)


def test_few_last_rows_count_only_with_the_others():
    """If the last rows are few, units are dead only if they never fired."""
    with pytest.warns(DeadUnitWarning, match="3 of 20 .*last 160 rows.*silent from"):
        warn_of_dead_units([_layer(3, 160)], [_layer(9, 63)], SMALL, 0.1)


@pytest.mark.parametrize(
    ("whole", "last"),
    [
        ([_layer(2)], [_layer(2, 100)]),
        ([_layer(0)], [_layer(20, 63)]),
        ([_layer(20, 159)], [_layer(20, 64)]),
        ([], []),
    ],
    ids=["a tenth", "few last rows", "few rows", "no layer"],
)
def test_no_warning(whole, last):
    """Up to a tenth of the units, or after too few rows, nothing is said."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_dead_units(whole, last, LARGE, 0.1)
