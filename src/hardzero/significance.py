"""Whether one model errs less than another on the same rows, or by chance.

Only rows on which two models differ can tell them apart, so a paired comparison finds
differences that two separate intervals hide.

**Classes.** Let b be the number of rows that only model a gets wrong, c of those that
only model b does, n of all. If both err equally often, b is Binomial(b + c, 1/2): the
exact test of McNemar, two-sided. The interval of the difference (b - c) / n is Tango's
score interval, the values D with

    abs(b - c - n D) <= z sqrt(n (2 q + D (1 - D))),

where q, the probability that only model b errs, is the most likely one under D, the
larger root of

    2 n q^2 + ((2 n - b + c) D - b - c) q - c D (1 - D) = 0.

An exact test is the more cautious of the two: close to the border its p-value can be a
little above 1 - confidence while the interval already excludes 0.

**Numbers.** Rows are drawn with replacement, each with the errors of both models. With
the difference d of the two root mean squares (or means) and its standard error s to
first order, each draw gives t* = abs(d* - d) / s*. The interval is d ± t s with the
quantile t of these, and the p-value their share at or above abs(d) / s: it is at most
1 - confidence exactly where the interval excludes 0. Of few rows or errors with heavy
tails, percentile and BCa intervals were tried and are too short; this one keeps its
confidence (the tests simulate it).

References
----------
McNemar 1947, "Note on the sampling error of the difference between correlated
proportions or percentages". Tango 1998, "Equivalence test and confidence interval for
the difference in proportions for the paired-sample design", section 3. Hall 1988, "On
symmetric bootstrap confidence intervals", section 2.
"""

import json
import math
import numbers
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from reprlib import repr as shorten
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from hardzero.errors import DataError, ParameterError
from hardzero.random import generator

__all__ = ["ErrorComparison", "RowCounts", "compare_errors"]

Array = npt.NDArray[Any]
Kind = Literal["auto", "classification", "regression"]
Measure = Literal["rmse", "mae"]

N_RESAMPLES: Final = 9999
N_GROUPS: Final = 5000
MIN_ROWS: Final = 10
MAX_CONFIDENCE: Final = 0.999
_BLOCK_DRAWS: Final = 1 << 20  # drawn at a time: a few 8 MB arrays


@dataclass(frozen=True)
class RowCounts:
    """How many rows each of two classifiers gets right.

    Parameters
    ----------
    both_right : int
        Rows that both get right.
    only_a_wrong : int
        Rows that model a alone gets wrong.
    only_b_wrong : int
        Rows that model b alone gets wrong.
    both_wrong : int
        Rows that both get wrong.

    Raises
    ------
    ParameterError
        If one of them is no whole number of 0 or more.
    """

    both_right: int
    only_a_wrong: int
    only_b_wrong: int
    both_wrong: int

    def __post_init__(self) -> None:
        """Make NumPy numbers Python's, and check."""
        for field in fields(self):
            count = _whole_number(field.name, getattr(self, field.name), 0)
            object.__setattr__(self, field.name, count)


@dataclass(frozen=True, repr=False)
class ErrorComparison:
    """How far the errors of two models differ on the same rows, and how sure that is.

    Parameters
    ----------
    measure : {"error rate", "rmse", "mae"}
        What an error is: the share of wrong rows, the root mean squared error or the
        mean absolute error.
    error_a : float
        Error of model a, 0 or more.
    error_b : float
        Error of model b, 0 or more.
    difference : float
        ``error_a - error_b``: above 0 if model b errs less.
    interval : tuple of two float
        Lower and upper end of the confidence interval of the difference; infinite
        where so few rows differ that they set no limit.
    confidence : float
        Confidence of the interval, in (0, 1).
    p_value : float
        Probability of a difference at least this large, in either direction, between
        models that err alike; in [0, 1], and 0 only if it is too small for float64.
    n : int
        Number of rows.
    test : {"exact McNemar", "paired bootstrap"}
        Where the p-value comes from.
    counts : RowCounts or None
        For classes, which rows are right; None for numbers.

    Raises
    ------
    ParameterError
        If a value has another type than described or is out of its range, or values
        contradict each other.
    """

    measure: str
    error_a: float
    error_b: float
    difference: float
    interval: tuple[float, float]
    confidence: float
    p_value: float
    n: int
    test: str
    counts: RowCounts | None = None

    def __post_init__(self) -> None:
        """Make NumPy numbers Python's, and check."""
        if not isinstance(self.measure, str) or self.measure not in _TESTS:
            raise _unexpected("measure", self.measure, f"one of {', '.join(_TESTS)}")
        self._read_numbers()
        if self.test != _TESTS[self.measure]:
            expected = f"{_TESTS[self.measure]!r} for the measure {self.measure!r}"
            raise _unexpected("test", self.test, expected)
        is_kind, kind = self.counts is None, "None"
        if self.measure == "error rate":
            is_kind, kind = isinstance(self.counts, RowCounts), "RowCounts"
        if not is_kind:
            expected = f"{kind} for the measure {self.measure!r}"
            raise _unexpected("counts", self.counts, expected)
        low, high = self.interval
        if not low <= self.difference <= high:
            expected = f"one that holds the difference {self.difference!r}"
            raise _unexpected("interval", self.interval, expected)
        if self.counts is not None:
            total = sum(asdict(self.counts).values())
            if total != self.n:
                expected = f"the sum of counts, {shorten(total)}"
                raise _unexpected("n", self.n, expected)
            both, only_a = self.counts.both_wrong, self.counts.only_a_wrong
            self._check_equal("error_a", self.error_a, (both + only_a) / self.n)
            only_b = self.counts.only_b_wrong
            self._check_equal("error_b", self.error_b, (both + only_b) / self.n)
        self._check_equal("difference", self.difference, self.error_a - self.error_b)

    def to_json(self) -> str:
        """Return the comparison as JSON.

        Returns
        -------
        str
            One object with "format", "version" and the fields of the class. An
            infinite end of the interval is null.
        """
        content = {**_HEADER, **asdict(self)}
        content["interval"] = [x if math.isfinite(x) else None for x in self.interval]
        return json.dumps(content, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> "ErrorComparison":
        """Read what `to_json` wrote.

        Parameters
        ----------
        text : str or bytes
            JSON.

        Returns
        -------
        ErrorComparison
            Equal to the one that was written.

        Raises
        ------
        DataError
            If the text is not the JSON of a comparison.
        """
        if not isinstance(text, str | bytes):
            raise DataError(
                f"the comparison is of type {type(text).__name__}, expected str or "
                f"bytes. {_REMEDY}"
            )
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"the comparison is not JSON: {error}. {_REMEDY}"
            ) from error
        expected = {*_HEADER, *(field.name for field in fields(cls))}
        if not isinstance(content, dict) or content.keys() != expected:
            raise DataError(
                "the JSON is not an object with the keys "
                f"{', '.join(sorted(expected))}. {_REMEDY}"
            )
        for key, value in _HEADER.items():
            given = content.pop(key)
            if type(given) is not type(value) or given != value:
                raise DataError(
                    f"the comparison does not have {key} {value!r}, which this version "
                    f"reads. {_REMEDY}"
                )
        try:
            content["interval"] = _limited(content["interval"])
            content["counts"] = _counts(content["counts"])
            return cls(**content)
        except ParameterError as error:
            raise DataError(
                f"the comparison is malformed: {error} {_REMEDY}"
            ) from error

    def __repr__(self) -> str:
        """Return the comparison in plain words, in three lines."""
        detail = ""
        if self.counts is None:
            a, b, difference, low, high = (f"{x:z.4g}" for x in self._numbers())
            errors = f"{self.measure} {a} of a, {b} of b"
        else:
            digits = max(2, len(str(self.n)) - 3)
            a, b, difference, low, high = (
                f"{100 * x:z.{digits}f}" for x in self._numbers()
            )
            errors = f"a errs on {a} %, b on {b} %"
            difference += " points"
            only_a, only_b = self.counts.only_a_wrong, self.counts.only_b_wrong
            detail = f": {_rows(only_a)} only a gets wrong, {only_b:,} only b"
        return (
            f"ErrorComparison: {errors} of {_rows(self.n)}\n"
            f"  difference {difference}, {100 * self.confidence:.6g} % interval {low} "
            f"to {high}, p = {self.p_value:.2g}\n"
            f"  {self.test}{detail}"
        )

    def _read_numbers(self) -> None:
        """Check each number for itself."""
        convert = object.__setattr__
        highest = 1.0 if self.measure == "error rate" else _LARGEST
        least = 1 if self.measure == "error rate" else MIN_ROWS
        for name, low, high in (
            ("error_a", 0.0, highest),
            ("error_b", 0.0, highest),
            ("difference", -highest, highest),
            ("confidence", 0.0, 1.0),
            ("p_value", 0.0, 1.0),
        ):
            convert(self, name, _number(name, getattr(self, name), low, high))
        if self.confidence in (0.0, 1.0):
            raise _unexpected("confidence", self.confidence, "between 0 and 1")
        convert(self, "n", _whole_number("n", self.n, least))
        ends = self.interval
        if not isinstance(ends, list | tuple) or len(ends) != 2:
            raise _unexpected("interval", ends, "two numbers")
        furthest = 1.0 if self.measure == "error rate" else math.inf
        low, high = (_number("interval", end, -furthest, furthest) for end in ends)
        convert(self, "interval", (low, high))

    def _check_equal(self, name: str, value: float, expected: float) -> None:
        if abs(value - expected) > 1e-9 * max(self.error_a, self.error_b):
            raise _unexpected(name, value, f"{expected!r}, as other fields say")

    def _numbers(self) -> tuple[float, ...]:
        return (self.error_a, self.error_b, self.difference, *self.interval)


_HEADER: Final = {"format": "hardzero.error_comparison", "version": 1}
_REMEDY: Final = "Give the JSON that ErrorComparison.to_json wrote."
_TESTS: Final = {
    "error rate": "exact McNemar",
    "rmse": "paired bootstrap",
    "mae": "paired bootstrap",
}
_LARGEST: Final = float(np.finfo(np.float64).max)


def _number(name: str, value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise _unexpected(name, value, "a number")
    number: Any = value  # an int may be larger than any float
    if not low <= number <= high:  # neither is NaN
        raise _unexpected(name, value, f"a number from {low:g} to {high:g}")
    return float(number)


def _whole_number(name: str, value: Any, least: int) -> int:
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_whole or not least <= value < 2**63:
        raise _unexpected(name, value, f"a whole number of {least} or more")
    return int(value)


def _unexpected(name: str, value: Any, expected: str) -> ParameterError:
    return ParameterError(f"{name} is {shorten(value)}, expected {expected}.")


def _limited(ends: Any) -> Any:
    """Return an interval as JSON has it, with infinite ends in place of None."""
    if not isinstance(ends, list) or len(ends) != 2:
        return ends  # which is refused
    low, high = ends
    return -math.inf if low is None else low, math.inf if high is None else high


def _counts(content: Any) -> RowCounts | None:
    if content is None:
        return None
    names = [field.name for field in fields(RowCounts)]
    if not isinstance(content, dict) or content.keys() != set(names):
        raise _unexpected("counts", content, f"an object with {', '.join(names)}")
    return RowCounts(**content)


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def compare_errors(
    y: npt.ArrayLike,
    pred_a: npt.ArrayLike,
    pred_b: npt.ArrayLike,
    *,
    kind: Kind = "auto",
    measure: Measure = "rmse",
    confidence: float = 0.95,
    random_state: int = 0,
) -> ErrorComparison:
    """Compare the errors of two models on the same test rows.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        True classes (whole numbers, booleans or strings) or true numbers. Of a row of
        several labels, all must be predicted for the row to be right; a row of several
        numbers counts with the mean over them of squared or absolute errors.
    pred_a : array-like like `y`
        Predictions of model a, row by row.
    pred_b : array-like like `y`
        Predictions of model b.
    kind : {"auto", "classification", "regression"}, default="auto"
        What is predicted. "auto" takes numbers with fractions, or so large that their
        dtype has none there (float64 from 2**52, float32 from 2**23), in any of the
        three arrays, for regression and all else for classes.
    measure : {"rmse", "mae"}, default="rmse"
        For regression, root mean squared or mean absolute error.
    confidence : float, default=0.95
        Confidence of the interval, in (0, 1); at most 0.999 for regression.
    random_state : int, default=0
        Seed of the bootstrap, from 0 to 2**64 - 1. Classes need none.

    Returns
    -------
    ErrorComparison
        Errors, difference, interval and p-value. The formulas stand at the top of the
        module.

    Raises
    ------
    ParameterError
        If an option is out of its range, or `measure` is "mae" and classes are
        compared.
    DataError
        If the arrays are empty, differ in shape, hold masked entries, NaN, infinite
        values, whole numbers beyond 64 bits or labels of different types, or there are
        fewer than 10 rows of numbers.

    Notes
    -----
    The bootstrap draws 9,999 times, so its p-values are 0.0001 or more. More than 5,000
    rows are first dealt at random into 5,000 groups of equal size, give or take one,
    and groups are drawn in their place. That keeps the standard error, give or take
    1 %, and takes a second or two for a million rows.

    References
    ----------
    .. [1] McNemar, "Note on the sampling error of the difference between correlated
       proportions or percentages", 1947.
    .. [2] Tango, "Equivalence test and confidence interval for the difference in
       proportions for the paired-sample design", 1998, section 3.
    .. [3] Hall, "On symmetric bootstrap confidence intervals", 1988, section 2.

    Examples
    --------
    >>> from hardzero import compare_errors
    >>> y = ["cat"] * 20
    >>> compare_errors(y, ["cat"] * 12 + ["dog"] * 8, ["cat"] * 19 + ["dog"])
    ErrorComparison: a errs on 40.00 %, b on 5.00 % of 20 rows
      difference 35.00 points, 95 % interval 13.25 to 56.71, p = 0.016
      exact McNemar: 7 rows only a gets wrong, 0 only b
    """
    _check_options(kind, measure, confidence, random_state)
    y, pred_a, pred_b = arrays = _read(y=y, pred_a=pred_a, pred_b=pred_b)
    if kind == "auto":
        kind = "regression" if any(map(_has_fractions, arrays)) else "classification"
    if kind == "classification":
        if measure != "rmse":
            raise ParameterError(
                f"measure is {measure!r}, but classes are compared, which are right or "
                "wrong. Leave measure out, or give kind='regression'."
            )
        return _compare_classes(y, pred_a, pred_b, confidence)
    return _compare_numbers(y, pred_a, pred_b, measure, confidence, random_state)


def _check_options(kind: str, measure: str, confidence: Any, random_state: Any) -> None:
    choices = {"kind": (kind, get_args(Kind)), "measure": (measure, get_args(Measure))}
    for name, (value, allowed) in choices.items():
        if not isinstance(value, str) or value not in allowed:
            raise _unexpected(name, value, f"one of {', '.join(allowed)}")
    if not isinstance(confidence, float | np.floating) or not 0 < confidence < 1:
        raise ParameterError(
            f"confidence is {confidence!r}, expected a number above 0 and below 1, "
            "such as 0.95."
        )
    if not isinstance(random_state, int | np.integer) or not 0 <= random_state < 2**64:
        raise ParameterError(
            f"random_state is {random_state!r}, expected a whole number from 0 to "
            "2**64 - 1."
        )


def _read(**given: npt.ArrayLike) -> list[Array]:
    """Return the three as arrays of numbers or of strings, equal in shape."""
    arrays = [_plain(name, values) for name, values in given.items()]
    y = arrays[0]
    if len(y) == 0:
        raise DataError("y has no rows. Give at least one.")
    for name, array in zip(given, arrays, strict=True):
        if array.shape != y.shape:
            raise DataError(
                f"{name} has shape {array.shape} and y {y.shape}. Give the predictions "
                "of both models for the rows of y, not probabilities."
            )
        if (array.dtype.kind == "U") != (y.dtype.kind == "U"):
            raise DataError(
                f"{name} holds {_content(array)} and y {_content(y)}, so no row could "
                "be right. Give labels of one type."
            )
    return arrays


def _plain(name: str, values: Any) -> Array:
    if np.ma.is_masked(values):  # or the mask would be dropped
        n_masked = np.ma.getmaskarray(values).sum()
        raise DataError(
            f"{name} has {n_masked} masked entries, expected an array without. Leave "
            "their rows out, in all three arrays."
        )
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DataError(f"{name} is not an array: {error}. {_SHAPES}") from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2) or array.shape[1:] == (0,):
        raise DataError(
            f"{name} has type {type(values).__name__} and shape {array.shape}. "
            f"{_SHAPES}"
        )
    if array.dtype.kind in "OT":
        types: set[Any] = set(map(type, array.ravel().tolist()))
        if all(issubclass(kind, str) for kind in types):
            array = array.astype(str)
        elif all(issubclass(kind, (numbers.Real, np.bool_)) for kind in types):
            array = _as_numbers(name, array, types)
        else:
            names = ", ".join(sorted(kind.__name__ for kind in types))
            raise DataError(f"{name} holds values of the types {names}. {_VALUES}")
    if array.dtype.kind not in "biufU":
        raise DataError(f"{name} holds values of the type {array.dtype}. {_VALUES}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = np.argwhere(~np.isfinite(array))[0, 0]
        raise DataError(
            f"{name} is {array[row]} in row {row}, counted from 0. Leave out rows "
            "without a finite value, in all three arrays."
        )
    return array


def _as_numbers(name: str, array: Array, types: set[Any]) -> Array:
    """Return an array of objects that are numbers as one of float64 or int64."""
    is_whole = all(issubclass(kind, (numbers.Integral, np.bool_)) for kind in types)
    dtype: Any = np.int64 if is_whole else np.float64
    try:
        return array.astype(dtype)
    except OverflowError as error:
        raise DataError(
            f"{name} holds numbers that do not fit into {dtype.__name__} ({error}). "
            "Give classes as strings, numbers in a larger unit."
        ) from error


_SHAPES: Final = "Give one value a row, or one row of as many values for each row."
_VALUES: Final = "Give numbers alone or strings alone, without gaps."


def _content(array: Array) -> str:
    return "strings" if array.dtype.kind == "U" else "numbers"


def _has_fractions(array: Array) -> bool:
    if array.dtype.kind != "f":
        return False
    too_large = 1 / np.finfo(array.dtype).eps  # for fractions
    return bool(((array != np.rint(array)) | (np.abs(array) >= too_large)).any())


def _compare_classes(
    y: Array, pred_a: Array, pred_b: Array, confidence: float
) -> ErrorComparison:
    from scipy.stats import binomtest  # 0.5 s to import, so only when it is used

    n = len(y)
    a_wrong, b_wrong = (
        (prediction != y).reshape(n, -1).any(axis=1) for prediction in (pred_a, pred_b)
    )
    counts = RowCounts(
        both_right=int(np.count_nonzero(~a_wrong & ~b_wrong)),
        only_a_wrong=int(np.count_nonzero(a_wrong & ~b_wrong)),
        only_b_wrong=int(np.count_nonzero(~a_wrong & b_wrong)),
        both_wrong=int(np.count_nonzero(a_wrong & b_wrong)),
    )
    b, c = counts.only_a_wrong, counts.only_b_wrong
    z = float(ndtri((1 + confidence) / 2))
    return ErrorComparison(
        measure="error rate",
        error_a=(counts.both_wrong + b) / n,
        error_b=(counts.both_wrong + c) / n,
        difference=(b - c) / n,
        interval=(-_upper_end(c, b, n, z), _upper_end(b, c, n, z)),
        confidence=float(confidence),
        p_value=float(binomtest(b, b + c).pvalue) if b + c else 1.0,
        n=n,
        test="exact McNemar",
        counts=counts,
    )


def _upper_end(b: int, c: int, n: int, z: float) -> float:
    """Return the largest D that the score test does not reject."""
    inside, outside = (b - c) / n, 1.0
    for _ in range(60):
        D = (inside + outside) / 2
        half = (2 * n - b + c) * D - b - c
        root = math.sqrt(max(half * half + 8 * n * c * D * (1 - D), 0.0))
        variance = n * ((root - half) / (2 * n) + D * (1 - D))
        if (b - c - n * D) ** 2 <= z * z * variance:
            inside = D
        else:
            outside = D
    return inside


def _compare_numbers(
    y: Array,
    pred_a: Array,
    pred_b: Array,
    measure: Measure,
    confidence: float,
    random_state: int,
) -> ErrorComparison:
    if y.dtype.kind == "U":
        raise DataError(
            "y holds strings, which are no numbers. Give numbers, or "
            "kind='classification'."
        )
    n = len(y)
    if n < MIN_ROWS:
        raise DataError(
            f"y has {_rows(n)}, too few to resample numbers. Give at least {MIN_ROWS}."
        )
    if confidence > MAX_CONFIDENCE:
        raise ParameterError(
            f"confidence is {confidence}, more than {N_RESAMPLES:,} draws can tell. "
            f"Give at most {MAX_CONFIDENCE}."
        )
    a, b = _distances(y, pred_a), _distances(y, pred_b)
    scale = float(max(a.max(), b.max())) or 1.0  # the squares could overflow
    power = 2 if measure == "rmse" else 1
    a, b = (((x / scale) ** power).mean(axis=1) for x in (a, b))
    error_a, error_b = (float(x.mean() ** (1 / power)) for x in (a, b))

    rng = generator(random_state, "bootstrap")
    groups, offset = _make_groups(a, b, rng)
    m = len(groups)
    all_rows = groups.sum(axis=0, keepdims=True)
    difference, spread = map(float, np.ravel(_difference(all_rows, m, offset, measure)))
    noise = 1e-12 * (error_a + error_b)  # of rounding
    difference = difference if abs(difference) > noise else 0.0
    ratios = np.concatenate(
        [
            _ratio(drawn - difference, error, noise)
            for drawn, error in (
                _difference(sums, m, offset, measure) for sums in _resample(groups, rng)
            )
        ]
    )
    ratio = _ratio(np.array([difference]), np.array([spread]), noise)[0]
    rank = math.ceil(round(confidence * (N_RESAMPLES + 1), 6))
    half = float(np.sort(ratios)[rank - 1]) * spread if spread else 0.0
    return ErrorComparison(
        measure=measure,
        error_a=error_a * scale,
        error_b=error_b * scale,
        difference=difference * scale,
        interval=((difference - half) * scale, (difference + half) * scale),
        confidence=float(confidence),
        p_value=float(1 + np.count_nonzero(ratios >= ratio)) / (N_RESAMPLES + 1),
        n=n,
        test="paired bootstrap",
    )


def _distances(y: Array, prediction: Array) -> Array:
    with np.errstate(over="ignore"):
        distances = np.abs(prediction.astype(np.float64) - y).reshape(len(y), -1)
    if not np.isfinite(distances).all():
        raise DataError(
            "an error is too large for float64. Give y and predictions in a larger "
            "unit."
        )
    return distances


def _make_groups(a: Array, b: Array, rng: np.random.Generator) -> tuple[Array, float]:
    """Return what is summed over the rows of each group, and the mean of a - b."""
    n = len(a)
    u, w = a - b, a + b
    offset = float(u.mean())
    sums = np.column_stack([np.ones(n), a, b, u - offset, w - w.mean()])
    if n > N_GROUPS:
        starts = np.arange(N_GROUPS) * n // N_GROUPS
        sums = np.add.reduceat(sums[rng.permutation(n)], starts)
    u, w = sums[:, 3], sums[:, 4]
    return np.column_stack([sums, u * u, u * w, w * w]), offset


def _resample(groups: Array, rng: np.random.Generator) -> Iterator[Array]:
    """Yield the sums over groups drawn with replacement, many draws at a time."""
    m = len(groups)
    size = _BLOCK_DRAWS // m
    for start in range(0, N_RESAMPLES, size):
        k = min(size, N_RESAMPLES - start)
        drawn = rng.integers(m, size=(k, m), dtype=np.int32)
        drawn += np.arange(0, k * m, m, dtype=np.int32)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=k * m).reshape(k, m)
        yield counts.astype(np.float64) @ groups


def _difference(
    sums: Array, m: int, offset: float, measure: Measure
) -> tuple[Array, Array]:
    """Return the difference of errors in each draw and its standard error.

    The error to first order is the spread of ``slope_a a - slope_b b``, computed from
    u = a - b and w = a + b: errors of two good models hardly differ from each other.
    """
    size, a, b, u, w, uu, uw, ww = sums.T
    difference = u / size + offset
    slope_a = slope_b = np.ones_like(a)
    if measure == "rmse":
        root_a, root_b = np.sqrt(a / size), np.sqrt(b / size)
        difference = _divide(difference, root_a + root_b)
        slope_a, slope_b = _divide(0.5, root_a), _divide(0.5, root_b)
    of_u, of_w = (slope_a + slope_b) / 2, (slope_a - slope_b) / 2
    variance = (
        of_u**2 * (uu - u * u / m)
        + 2 * of_u * of_w * (uw - u * w / m)
        + of_w**2 * (ww - w * w / m)
    )
    return difference, np.sqrt(np.maximum(variance, 0)) / size


def _divide(x: Array | float, root: Array) -> Array:
    """Return ``x / root``, and 0 where the root is 0: no error moves it."""
    return np.divide(x, root, out=np.zeros_like(root), where=root > 0)


def _ratio(differences: Array, spreads: Array, noise: float) -> Array:
    size = np.where(np.abs(differences) > noise, np.abs(differences), 0.0)
    unlimited = np.where(size > 0, np.inf, 0.0)  # where there is no spread
    return np.divide(size, spreads, out=unlimited, where=spreads > 0)
