"""Targets, their codes, and the way back."""

import datetime as dt

import numpy as np
import pytest

from hardzero import DataError, Layer, RectifierStack
from hardzero.estimators.targets import Classes, Counts, Indicators, Numbers


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["b", "a", "b"]),
        np.array(["b", "a", "b"], dtype=object),
        np.array([3, -1, 3]),
        np.array([True, False, True]),
    ],
    ids=["str", "object", "int", "bool"],
)
def test_labels_come_back(labels):
    """Codes are the places of labels in sorted order, and lead back to them."""
    coding = Classes.learn(labels)
    codes = coding.encode(labels)
    assert codes.dtype == np.int64
    assert list(codes) == [1, 0, 1]
    np.testing.assert_array_equal(coding.decode(codes), labels)
    assert coding.decode(codes).dtype == labels.dtype


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([1.5, 2.5, 1.0]), "Unknown label type"),
        (np.array(["a", None, "b"], dtype=object), "y mixes labels.*Drop rows"),
        (np.array([b"a", b"b", b"a"]), "labels of type bytes.*Decode them first"),
        (np.array(["a", b"b"], object), "labels of type bytes.*Decode them first"),
    ],
)
def test_refused_labels(y, message):
    """Targets that are no labels are refused."""
    with pytest.raises(ValueError, match=message):
        Classes.learn(y)


def test_unknown_labels_are_named():
    """A label that was not there at the start is an error that says so."""
    coding = Classes.learn(np.array(["a", "b"]))
    with pytest.raises(
        DataError, match=r"y_val has labels .* 2 known classes: 'c', 'd'"
    ):
        coding.encode(np.array(["d", "a", "c"]), "y_val")
    with pytest.raises(DataError, match=r"shape \(2, 2\), expected \(n_samples,\)"):
        coding.encode(np.eye(2))


def test_indicators():
    """A matrix of labels is coded as it is; anything but 0 and 1 is refused."""
    coding = Indicators(2)
    y = np.array([[0, 1], [1, 1]])
    np.testing.assert_array_equal(coding.encode(y), y)
    np.testing.assert_array_equal(coding.encode(y == 1), y)
    assert list(coding.classes) == [0, 1]
    with pytest.raises(DataError, match=r"other than 0 and 1.*MultiLabelBinarizer"):
        coding.encode(y * 2)
    with pytest.raises(DataError, match="3 columns, expected 2"):
        coding.encode(np.ones((2, 3)))
    with pytest.raises(DataError, match=r"shape \(2,\), expected \(n_samples, 2\)"):
        coding.encode(np.ones(2))


def learn(y, weights=None, dtype=np.float64, *, scaled=True, centred=True):
    """Return the coding of numbers."""
    return Numbers.learn(np.asarray(y), weights, dtype, scaled=scaled, centred=centred)


def test_numbers_are_standardised():
    """Codes have weighted mean 0 and mean square 1, and lead back to the numbers."""
    rng = np.random.default_rng(0)
    y = rng.normal([1e3, -1e-3], [5, 1e-4], (50, 2))
    weights = rng.random(50)
    coding = learn(y, weights)
    codes = coding.encode(y)
    np.testing.assert_allclose(np.average(codes, axis=0, weights=weights), 0, atol=1e-9)
    np.testing.assert_allclose(np.average(codes**2, axis=0, weights=weights), 1)
    np.testing.assert_allclose(coding.decode(codes), y)
    repeated = learn(y.repeat(2, axis=0), weights.repeat(2))
    np.testing.assert_allclose(repeated.scale, coding.scale)


def test_vectors_stay_vectors():
    """Targets of one dimension come back as such; columns stay columns."""
    y = np.array([1.0, 2.0, 6.0])
    for shape in ((3,), (3, 1)):
        coding = learn(y.reshape(shape))
        assert coding.decode(coding.encode(y.reshape(shape))).shape == shape


def test_scaling_that_is_not_wanted():
    """Without scaling, numbers are their own codes; without a bias, the mean stays."""
    y = np.array([1.0, 3.0])
    assert list(learn(y, scaled=False).encode(y)[:, 0]) == [1, 3]
    coding = learn(y, centred=False)
    assert list(coding.centre) == [0]
    np.testing.assert_allclose(coding.encode(y)[:, 0], y / np.sqrt(5))


@pytest.mark.parametrize("value", [0.0, 0.1, 1e30, -1e-30])
def test_constant_targets(value):
    """The codes of a constant are exactly 0, or, if it is not centred, 1 and -1."""
    y = np.full(7, value)
    coding = learn(y, np.random.default_rng(0).random(7))
    assert not coding.encode(y).any()
    assert (coding.decode(coding.encode(y)) == y).all()
    codes = learn(y, centred=False).encode(y)
    np.testing.assert_allclose(codes[:, 0], np.sign(value))


def test_huge_targets():
    """Numbers whose squares overflow are scaled, too, up to what dtypes hold."""
    y = np.array([1e300, -1e300, 0.0])
    np.testing.assert_allclose((learn(y).encode(y) ** 2).mean(), 1)
    with pytest.raises(DataError, match=r"up to 1e\+300 in size, which float32 cannot"):
        learn(y, dtype=np.float32)


def test_scale_becomes_part_of_the_last_layer():
    """The finished network puts out numbers on the scale of the targets."""
    rng = np.random.default_rng(0)
    stack = RectifierStack(
        (
            Layer(rng.normal(size=(3, 4)), rng.normal(size=4), "rectifier"),
            Layer(rng.normal(size=(4, 2)), rng.normal(size=2), "identity"),
        ),
        "identity",
    )
    coding = learn(rng.normal([5, -3], [2, 9], (20, 2)))
    X = rng.normal(size=(6, 3))
    np.testing.assert_allclose(coding.finish(stack)(X), coding.decode(stack(X)))


def test_counts():
    """Counts are coded as they are, and may not be negative."""
    coding = Counts.learn(np.array([0, 3]))
    np.testing.assert_array_equal(coding.encode(np.array([0, 3])), [[0.0], [3.0]])
    with pytest.raises(DataError, match=r"negative values, down to -2.*Use another"):
        coding.encode(np.array([1, -2]))


def test_what_float32_is_too_coarse_for():
    """Numbers that differ by less than it resolves are refused, not rounded."""
    rng = np.random.default_rng(0)
    y = 1.7e9 + 10 * rng.normal(size=50)
    with pytest.raises(
        DataError, match=r"about 1.7e\+09 that differ by about .*astype"
    ):
        learn(y, dtype=np.float32)
    with pytest.raises(DataError, match="too little for outputs of float32"):
        learn(y, dtype=np.float32, scaled=False)
    for fine in (y - 1.7e9, 2000 + rng.normal(size=50), np.full(5, 1.7e9)):
        assert np.isfinite(learn(fine, dtype=np.float32).encode(fine)).all()
    assert np.isfinite(learn(y).encode(y)).all()


def test_what_is_too_small_for_float32():
    """Numbers that would become 0 are refused."""
    y = np.array([1.0, -1.0, 0.5])
    with pytest.raises(DataError, match=r"at most 1e-50 in size, which float32.*Multi"):
        learn(y * 1e-50, dtype=np.float32)
    np.testing.assert_allclose(learn(y * 1e-50).encode(y * 1e-50), learn(y).encode(y))


def test_what_is_too_large_to_compute_with():
    """Finite numbers near the end of the range are refused as what they are."""
    message = r"has numbers of up to .* in size, which is too large to compute with"
    with pytest.raises(DataError, match=f"y {message}"):
        learn([1.7e308, -1.7e308])
    with pytest.raises(DataError, match=f"y_val {message}"):
        learn([1e-9, -1e-9]).encode(np.array([1e305]), "y_val")
    with pytest.raises(DataError, match=f"y {message}"):
        Counts.learn(np.array([0, 1e307])).encode(np.array([0, 1e307]))


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["2020-01-01", "NaT"], dtype="M8[D]"),
        np.array([1, 2], dtype="m8[s]"),
        np.array([dt.date(2020, 1, 1)] * 2, dtype=object),
    ],
    ids=["datetime", "timedelta", "object"],
)
def test_dates_are_no_labels(labels):
    """Labels are numbers, strings or booleans."""
    with pytest.raises(DataError, match=r"y holds dates or times.*astype\(str\)"):
        Classes.learn(labels)
