"""Weights of rows and classes."""

import numpy as np
import pandas as pd
import pytest

from hardzero import DataError, ParameterError
from hardzero.estimators.weights import read_weights, weigh_classes


def test_weights_that_say_nothing():
    """Equal weights are as good as none."""
    assert read_weights(None, 3, "sample_weight") is None
    assert read_weights([2, 2, 2], 3, "sample_weight") is None
    assert read_weights(5, 3, "sample_weight") is None


@pytest.mark.parametrize("make", [list, np.array, pd.Series, tuple])
def test_only_ratios_matter(make):
    """Weights of any container come near 1, by a power of two, which is exact."""
    for factor in (1, 2.0**-900, 2.0**900):
        weights = read_weights(make([1 * factor, 3 * factor, 0]), 3, "sample_weight")
        assert list(weights) == [0.25, 0.75, 0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, -1, 1], r"sample_weight is -1 in row 1.*0 to leave a row out"),
        ([1, 1, np.nan], "sample_weight is nan in row 2"),
        ([np.inf, 1, 1], "sample_weight is inf in row 0"),
        ([0, 0, 0], "all sample_weight are zero, which leaves no row"),
        ([1, 1], r"shape \(2,\), expected \(3,\)"),
        (np.ones((3, 1)), r"shape \(3, 1\), expected \(3,\)"),
        (["a", "b", "c"], "holds what is not a number"),
        (0, "all sample_weight are zero"),
    ],
    ids=str,
)
def test_refused_weights(weights, message):
    """An error says which weight is wrong, and how."""
    with pytest.raises(DataError, match=message):
        read_weights(weights, 3, "sample_weight")


def test_class_weights():
    """Rows count by their own weight times that of their class, 1 if it has none."""
    classes, codes = np.array(["a", "b", "c"]), np.array([0, 1, 1, 2])
    rows = np.array([1.0, 1.0, 0.5, 1.0])
    assert weigh_classes(None, classes, codes, rows) is rows
    weights = weigh_classes({"a": 4, "b": 2}, classes, codes, rows)
    np.testing.assert_allclose(weights / weights[0], [1, 0.5, 0.25, 0.25])


def test_balanced_classes_weigh_the_same():
    """Balanced weights give classes the same total, row weights included."""
    classes, codes = np.array([3, 5, 9]), np.array([0, 1, 1, 1])
    for rows in (None, np.array([1.0, 1.0, 0.5, 0.25])):
        weights = weigh_classes("balanced", classes, codes, rows)
        totals = np.bincount(codes, weights)
        np.testing.assert_allclose(totals[0], totals[1])


def test_misspelt_classes():
    """Weights for unknown labels beside labels without a weight look like a slip."""
    classes, codes = np.array(["cat", "dog"]), np.array([0, 1])
    weigh_classes({"cat": 2, "dog": 1, "eel": 3}, classes, codes, None)
    weigh_classes({"cat": 2}, classes, codes, None)
    with pytest.raises(ParameterError, match=r"'catt', and y has labels .*: 'cat'"):
        weigh_classes({"catt": 2, "dog": 1}, classes, codes, None)


def test_classes_without_any_weight():
    """Class weights that leave no row are refused."""
    with pytest.raises(DataError, match=r"by class_weight.* are zero"):
        weigh_classes({0: 0}, np.array([0]), np.array([0, 0]), None)


@pytest.mark.parametrize(
    "weights",
    [
        np.array([1, 2, 3j]),
        ["1", "2", "3"],
        np.array(["1", 2, 3], dtype=object),
        np.array([1, 2, 3], dtype="m8[s]"),
        np.array(["2020-01-01"] * 3, dtype="M8[D]"),
        [1, 2, 10**400],
        [1, 2, None],
    ],
    ids=["complex", "text", "object", "timedelta", "datetime", "huge", "none"],
)
def test_weights_that_are_no_numbers(weights):
    """Only real numbers weigh."""
    with pytest.raises(DataError, match=r"sample_weight (holds what|is nan)"):
        read_weights(weights, 3, "sample_weight")


def test_masked_weights():
    """A mask would be lost."""
    weights = np.ma.array([1.0, 2.0, 3.0], mask=[True, False, False])
    with pytest.raises(DataError, match=r"sample_weight has 1 masked.*\.filled"):
        read_weights(weights, 3, "sample_weight")
    assert read_weights(np.ma.array([1.0, 2.0]), 2, "sample_weight") is not None
