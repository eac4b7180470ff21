"""The bundled digits."""

import numpy as np

from hardzero.datasets import load_digits


def test_digits_have_the_promised_form() -> None:
    """1,200 + 597 rows of 64 float32 features in [0, 1]; ten classes in each part."""
    digits = load_digits()
    assert digits.X_train.shape == (1200, 64)
    assert digits.X_test.shape == (597, 64)
    assert digits.X_train.dtype == np.float32
    assert digits.y_train.dtype == np.int64
    assert digits.X_train.flags.c_contiguous
    assert (digits.X_train.min(), digits.X_train.max()) == (0, 1)
    assert digits.feature_shape == (8, 8)
    for y in (digits.y_train, digits.y_test):
        assert np.bincount(y).min() >= 0.09 * len(y)


def test_digits_are_the_same_every_time() -> None:
    """Loading twice gives the same rows, in arrays of their own."""
    first, second = load_digits(), load_digits()
    assert np.array_equal(first.X_test, second.X_test)
    assert not np.shares_memory(first.X_test, second.X_test)
