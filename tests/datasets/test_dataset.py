"""The data class that loaders return."""

import dataclasses

import numpy as np
import pytest

from hardzero.datasets import Dataset
from hardzero.datasets.dataset import scale_bytes


def make() -> Dataset:
    """Make a small data set."""
    return Dataset(
        name="two",
        X_train=np.zeros((3, 4), np.float32),
        y_train=np.zeros(3, np.int64),
        X_test=np.zeros((2, 4), np.float32),
        y_test=np.ones(2, np.int64),
        feature_shape=(2, 2),
        class_names=("no", "yes"),
        source="made up",
    )


def test_counts_come_from_the_arrays() -> None:
    """n_features and n_classes say what the arrays and names hold."""
    assert (make().n_features, make().n_classes) == (4, 2)


def test_repr_fits_on_one_line() -> None:
    """The repr gives name, sizes and shape, not the numbers."""
    assert repr(make()) == (
        "Dataset('two': 3 training and 2 test rows of shape (2, 2), 2 classes)"
    )


def test_is_frozen() -> None:
    """A field cannot be replaced."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        make().name = "other"  # type: ignore[misc]


def test_scale_bytes_is_exact_at_the_ends() -> None:
    """0 becomes exactly 0 and 255 exactly 1, in float32, one row a picture."""
    X = scale_bytes(np.array([[[0, 255], [51, 0]]], np.uint8))
    assert X.dtype == np.float32
    assert X.tolist() == [[0.0, 1.0, np.float32(0.2), 0.0]]
