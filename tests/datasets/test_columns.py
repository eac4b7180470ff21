"""Choosing columns by name."""

from pathlib import Path

import numpy as np
import pytest

from hardzero.datasets.columns import Wanted, check_finite, choose_columns
from hardzero.errors import DataError

TABLE = Path("table")


def test_features_are_all_but_the_target():
    """Without names every other column is a feature, in the order of the table."""
    columns = choose_columns(TABLE, ["a", " k ", "b"], Wanted(target="k"))
    assert columns.features == {"a": 0, "b": 2}
    assert columns.target == 1


def test_features_come_in_the_order_wanted():
    """With names only those are taken, also the target if it is named."""
    wanted = Wanted(has_labels=False, target="k", features=("b", "k"))
    columns = choose_columns(TABLE, ["k", "a", "b"], wanted)
    assert columns.features == {"b": 2, "k": 0}
    assert columns.target is None


def test_missing_columns_are_listed():
    """Long lists are cut."""
    wanted = Wanted(has_labels=False, features=tuple("xyz"))
    with pytest.raises(
        DataError, match=r"no column 'x', 'y', 'z'; it has '0', .* \(99 i"
    ):
        choose_columns(TABLE, list(map(str, range(99))), wanted)


def test_check_finite_names_the_first():
    """Row and column of the first value that is not finite."""
    X = np.zeros((3, 2))
    check_finite(TABLE, X)
    X[1, 1] = np.nan
    with pytest.raises(DataError, match=r"table, row 1, column 'b': nan is not a fin"):
        check_finite(TABLE, X, ("a", "b"))
