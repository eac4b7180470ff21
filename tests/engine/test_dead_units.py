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
CENTRED = SMALL * np.where(np.arange(100) % 2, 1, -1)[:, np.newaxis]


def _layer(n_dead, n_rows=200, n_units=20):
    fired = np.arange(n_units) >= n_dead
    return LayerStatistics(n_rows, int(fired.sum()) * n_rows, fired)


@pytest.mark.parametrize(
    ("whole", "last", "X", "message"),
    [
        (0, 3, LARGE, r"3 of 20 in hidden layer 2.* last 100 rows.*mean square 8 make "
         r"the steps too large, or the learning rate 0.1 is .*scale the in.*to 0.01"),
        (0, 3, sp.csr_matrix(LARGE), "mean square 8 make"),
        (0, 3, SMALL, r"cause: the inputs are far from centred, or the learning rate"),
        (0, 3, CENTRED, r"cause: the learning rate 0.1 is too high. Remedy: lower "
         r"learning_rate, for example to 0.01, or take an activation"),
        (3, 3, SMALL, r"silent from the start, because the inputs are far.*: scale "),
        (3, 3, CENTRED, r"silent from the start, because the init.*'he_normal'"),
    ],
)  # fmt: skip
def test_cause_and_remedy(whole, last, X, message):
    """The warning names layer, likely cause and remedy, from what was seen."""
    after = [_layer(0, 100), _layer(last, 100)]
    with pytest.warns(DeadUnitWarning, match=message):
        warn_of_dead_units([_layer(0), _layer(whole)], after, X, 0.1)


def _cause(X, learning_rate, l1_activation):
    after = [_layer(3, 100)]
    with pytest.warns(DeadUnitWarning) as caught:
        warn_of_dead_units([_layer(0)], after, X, learning_rate, l1_activation)
    return str(caught[0].message).partition("Likely cause: ")[2]


def test_only_causes_that_apply_are_named():
    """The penalty is one if there is some; Adam's default rate only if nothing else
    is found.
    """
    assert "l1_activation" not in _cause(CENTRED, 0.1, 0.0)
    both = _cause(CENTRED, 0.1, 0.5)
    assert both.startswith("the penalty l1_activation=0.5 is too high, or the learning")
    assert "Remedy: lower l1_activation, or lower learning_rate" in both
    assert "learning" not in _cause(CENTRED, 0.001, 0.5)
    assert "learning" not in _cause(SMALL, 0.001, 0.0)
    assert "learning rate 0.001" in _cause(CENTRED, 0.001, 0.0)


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
