"""Comparing two models: exact test, interval, bootstrap, and what is refused."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multinomial, norm, ttest_rel
from sklearn.utils.multiclass import type_of_target

from hardzero import significance
from hardzero.errors import DataError, ParameterError
from hardzero.significance import ErrorComparison, RowCounts, compare_errors


def _classes(both_right, only_a_wrong, only_b_wrong, both_wrong):
    """True and predicted classes with these counts of rows."""
    y = np.zeros(both_right + only_a_wrong + only_b_wrong + both_wrong, dtype=int)
    pred_a, pred_b = y.copy(), y.copy()
    pred_a[both_right : both_right + only_a_wrong] = 1
    pred_b[both_right + only_a_wrong :] = 1
    pred_a[len(y) - both_wrong :] = 2
    return y, pred_a, pred_b


def _numbers(n, seed=0, tails=math.inf):
    """True numbers and two predictions with errors that go together."""
    rng = np.random.default_rng(seed)
    y, common, own = rng.normal(size=(3, n))
    weight = np.ones(n) if math.isinf(tails) else 1 / np.sqrt(rng.chisquare(tails, n))
    return y, y + weight * common, y + weight * (0.8 * common + 0.5 * own)


counts = st.tuples(*[st.integers(0, 40)] * 4).filter(any)


# ------------------------------------------------------------------ classes


@given(counts)
def test_counts_are_those_of_the_rows(numbers):
    """Each row is counted once, and the errors are shares of all rows."""
    comparison = compare_errors(*_classes(*numbers))
    assert comparison.counts == RowCounts(*numbers)
    assert dataclasses.astuple(comparison.counts) == numbers
    _, a, b, wrong = numbers
    n = sum(numbers)
    assert comparison.n == n
    assert comparison.error_a == (a + wrong) / n
    assert comparison.error_b == (b + wrong) / n
    assert comparison.difference == (a - b) / n
    assert comparison.measure == "error rate"
    assert comparison.test == "exact McNemar"


@given(st.integers(0, 200), st.integers(0, 200))
def test_p_value_is_that_of_the_fair_coin(b, c):
    """Twice the tail of Binomial(b + c, 1/2), added up in whole numbers."""
    tail = sum(math.comb(b + c, i) for i in range(min(b, c) + 1))
    expected = min(1.0, 2 * tail / 2 ** (b + c))
    assert compare_errors(*_classes(1, b, c, 0)).p_value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("numbers", "p_value", "interval"),
    [  # Fagerland, Lydersen & Laake 2017, chapter 8: Bentur et al., Cavo et al.
        ((1, 1, 7, 12), 0.0703, (-0.517, -0.026)),
        ((59, 6, 16, 80), 0.0525, (-0.124, -0.005)),
    ],
)
def test_examples_of_a_textbook(numbers, p_value, interval):
    """Exact p-values and Tango's intervals of two published tables."""
    comparison = compare_errors(*_classes(*numbers))
    assert round(comparison.p_value, 4) == p_value
    assert tuple(round(end, 3) for end in comparison.interval) == interval


def test_another_textbook():
    """Armitage & Berry 1994, p. 127, two media for cultures: p = 0.0129."""
    assert round(compare_errors(*_classes(20, 12, 2, 16)).p_value, 4) == 0.0129


def test_agrees_with_mlxtend():
    """The same exact test, written by others."""
    evaluate = pytest.importorskip("mlxtend.evaluate")
    for numbers in ((50, 12, 5, 3), (0, 1, 9, 0), (10, 30, 30, 1)):
        arrays = _classes(*numbers)
        table = evaluate.mcnemar_table(*arrays)
        _, expected = evaluate.mcnemar(table, exact=True)
        assert compare_errors(*arrays).p_value == pytest.approx(min(expected, 1))


def test_mnist_with_and_without_pre_training():
    """Errors of 1.43 and 1.20 % on 10,000 rows differ by chance (p >= 0.05) only if
    the two networks disagree on 127 rows or more, of at most 263 that are possible.
    """
    p_values = {
        b + c: compare_errors(*_classes(10_000 - b - 120, b, c, 120 - c)).p_value
        for c in range(121)
        for b in [c + 23]
    }
    assert max(p_values) == 263
    assert {m for m, p in p_values.items() if p >= 0.05} == set(range(127, 264, 2))


def _score(b, c, n, difference):
    """Tango's statistic with the likelihood maximised by brute force."""
    low, high = max(0.0, -difference), (1 - difference) / 2
    q = np.linspace(low, high, 200_001)[1:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        likelihood = (
            (b * np.log(q + difference) if b else 0)
            + (c * np.log(q) if c else 0)
            + ((n - b - c) * np.log(1 - 2 * q - difference) if n > b + c else 0)
        )
    best = q[np.argmax(likelihood * np.ones_like(q))]
    variance = n * (2 * best + difference * (1 - difference))
    return (b - c - n * difference) / math.sqrt(variance)


@pytest.mark.parametrize(
    ("numbers", "confidence"),
    [
        ((50, 12, 5, 3), 0.95),
        ((500, 7, 30, 100), 0.99),
        ((0, 5, 3, 0), 0.9),
        ((20, 6, 0, 0), 0.95),
        ((3, 0, 4, 0), 0.8),
    ],
)
def test_ends_of_the_interval_are_where_the_score_test_rejects(numbers, confidence):
    """At both ends the statistic, from its definition, is the normal quantile."""
    _, b, c, _ = numbers
    low, high = compare_errors(*_classes(*numbers), confidence=confidence).interval
    z = norm.ppf((1 + confidence) / 2)
    assert _score(b, c, sum(numbers), low) == pytest.approx(z, rel=1e-3)
    assert _score(b, c, sum(numbers), high) == pytest.approx(-z, rel=1e-3)


@given(counts, st.floats(0.01, 0.999))
def test_interval_holds_the_difference(numbers, confidence):
    """Ends lie in [-1, 1] around the difference, further apart for more confidence."""
    arrays = _classes(*numbers)
    comparison = compare_errors(*arrays, confidence=confidence)
    low, high = comparison.interval
    assert -1 <= low <= comparison.difference <= high <= 1
    wide = compare_errors(*arrays, confidence=0.9999).interval
    assert wide[0] <= low
    assert high <= wide[1]


@given(counts)
def test_models_change_places(numbers):
    """The other way round the difference has the other sign, all else is the same."""
    y, pred_a, pred_b = _classes(*numbers)
    one, other = compare_errors(y, pred_a, pred_b), compare_errors(y, pred_b, pred_a)
    assert one.p_value == other.p_value
    assert one.difference == -other.difference
    assert one.interval == (-other.interval[1], -other.interval[0])


@pytest.mark.slow
@pytest.mark.parametrize("n", [30, 100, 1000])
@pytest.mark.parametrize("shares", [(0.1, 0.1), (0.2, 0.05), (0.02, 0.01)])
def test_coverage_of_the_score_interval(n, shares):
    """Of 10,000 drawn tables the intervals of 93.5 % or more hold the true difference,
    and of those with models that err alike 5 % or less have p < 0.05.
    """
    b, c = multinomial(n, [*shares, 1 - sum(shares)]).rvs(10_000, random_state=0).T[:2]
    truth = shares[0] - shares[1]
    held = rejected = 0
    tables, times = np.unique(np.stack([b, c], axis=1), axis=0, return_counts=True)
    for (only_a, only_b), k in zip(tables.tolist(), times.tolist(), strict=True):
        comparison = compare_errors(*_classes(n - only_a - only_b, only_a, only_b, 0))
        low, high = comparison.interval
        held += k * (low <= truth <= high)
        rejected += k * (comparison.p_value < 0.05)
    assert held >= 9_350
    if truth == 0:
        assert rejected <= 500


@pytest.mark.parametrize(
    ("y", "pred"),
    [
        (["cat", "dog", "cat"], ["cat", "dog", "dog"]),
        ([True, False, True], [True, False, False]),
        ([True, False, True], [1, 0, 0]),
        ([3, 1, 2], np.array([3, 1, 7], np.uint8)),
        ([3.0, 1.0, 2.0], [3, 1, 0]),
        (np.array(["cat", "dog", "cat"], object), np.array(["cat", "dog", "bird"])),
        (np.array([1, 2, 3], object), [1, 2, 2]),
        ([[1], [2], [3]], [1, 2, 1]),
        ([1, 2, 3], np.array([[1], [2], [1]])),
        ([[1, 0], [0, 1], [1, 1]], [[1, 0], [0, 1], [0, 1]]),
        ([["a", "b"], ["c", "d"], ["e", "f"]], [["a", "b"], ["c", "d"], ["e", "c"]]),
    ],
)
def test_labels_of_any_kind(y, pred):
    """Strings, booleans, numbers, columns, rows of labels: two of three are right."""
    comparison = compare_errors(y, pred, y)
    assert comparison.counts == RowCounts(2, 1, 0, 0)
    assert comparison.p_value == 1


def test_data_frames():
    """A Series of categories or of strings is what its values are, row by row."""
    pandas = pytest.importorskip("pandas")
    y = pandas.Series(["cat", "dog", "cat"], index=[7, 8, 9])
    for dtype in ("category", "string", "object"):
        comparison = compare_errors(y.astype(dtype), ["cat"] * 3, y)
        assert comparison.counts == RowCounts(2, 1, 0, 0)


@pytest.mark.parametrize(
    ("numbers", "p_value"),
    [((5, 0, 0, 2), 1), ((1, 0, 0, 0), 1), ((0, 1, 0, 0), 1), ((9, 0, 0, 0), 1)],
)
def test_next_to_nothing_differs(numbers, p_value):
    """Equal predictions, perfect ones and a single row have p = 1, and an interval
    that is as wide as so few rows must leave it.
    """
    comparison = compare_errors(*_classes(*numbers))
    assert comparison.p_value == p_value
    low, high = comparison.interval
    z2, n = norm.ppf(0.975) ** 2, sum(numbers)
    if comparison.difference == 0:  # two intervals of Wilson for 0 of n
        assert high == pytest.approx(z2 / (n + z2))
        assert low == -high


# ------------------------------------------------------------------ numbers


@pytest.mark.parametrize("measure", ["rmse", "mae"])
def test_errors_of_numbers(measure):
    """The errors are those of the definition, and their difference is given."""
    y, pred_a, pred_b = _numbers(100)
    comparison = compare_errors(y, pred_a, pred_b, measure=measure)
    for error, pred in ((comparison.error_a, pred_a), (comparison.error_b, pred_b)):
        if measure == "rmse":
            assert error == pytest.approx(np.sqrt(np.mean((y - pred) ** 2)), rel=1e-12)
        else:
            assert error == pytest.approx(np.mean(np.abs(y - pred)), rel=1e-12)
    assert comparison.difference == pytest.approx(
        comparison.error_a - comparison.error_b, rel=1e-9
    )
    assert (comparison.measure, comparison.test) == (measure, "paired bootstrap")
    assert comparison.counts is None


def test_mean_absolute_errors_agree_with_the_paired_t_test():
    """Of many well-behaved rows, bootstrap and Student agree."""
    y, pred_a, pred_b = _numbers(4000)
    comparison = compare_errors(y, pred_a, 1.05 * pred_b - 0.05 * y, measure="mae")
    a, b = np.abs(y - pred_a), np.abs(y - (1.05 * pred_b - 0.05 * y))
    student = ttest_rel(a, b)
    assert comparison.interval == pytest.approx(student.confidence_interval(), rel=0.02)
    assert comparison.p_value == pytest.approx(student.pvalue, abs=0.01)


def test_standard_error_of_the_rmse_is_that_of_the_jackknife():
    """The interval of the RMSE is as wide as leaving out row after row says."""
    y, pred_a, pred_b = _numbers(2000)
    a, b = (y - pred_a) ** 2, (y - pred_b) ** 2
    n = len(y)
    without = [np.sqrt((x.sum() - x) / (n - 1)) for x in (a, b)]
    left_out = without[0] - without[1]
    error = np.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum())
    low, high = compare_errors(y, pred_a, pred_b).interval
    assert (high - low) / 2 == pytest.approx(norm.ppf(0.975) * error, rel=0.03)


@pytest.mark.parametrize("measure", ["rmse", "mae"])
@pytest.mark.parametrize("gain", np.linspace(0.9, 1.1, 9))
def test_p_value_and_interval_say_the_same(measure, gain):
    """0 lies outside the interval if and only if p <= 1 - confidence."""
    y, pred_a, pred_b = _numbers(60)
    pred_b = y + gain * (pred_b - y)
    p_value = compare_errors(y, pred_a, pred_b, measure=measure).p_value
    confidences = [0.5, 0.9, 0.95, 0.99, 0.999, 1 - p_value + 1e-4, 1 - p_value - 1e-4]
    for confidence in confidences:
        if not 0 < confidence <= 0.999:
            continue
        low, high = compare_errors(
            y, pred_a, pred_b, measure=measure, confidence=confidence
        ).interval
        assert (low > 0 or high < 0) == (p_value <= 1 - confidence)


def test_models_of_numbers_change_places():
    """The other way round everything but the sign is the same."""
    y, pred_a, pred_b = _numbers(50)
    one, other = compare_errors(y, pred_a, pred_b), compare_errors(y, pred_b, pred_a)
    assert one.p_value == other.p_value
    assert one.difference == pytest.approx(-other.difference)
    assert one.interval == pytest.approx((-other.interval[1], -other.interval[0]))


@pytest.mark.parametrize("measure", ["rmse", "mae"])
def test_units_do_not_matter(measure):
    """In units of 1e200, whose squares overflow, the same comes out times 1e200."""
    arrays = _numbers(30)
    one = compare_errors(*arrays, kind="regression", measure=measure)
    other = compare_errors(
        *(1e200 * x for x in arrays), kind="regression", measure=measure
    )
    assert other.p_value == one.p_value
    assert np.array(other.interval) / 1e200 == pytest.approx(np.array(one.interval))
    assert other.error_a / 1e200 == pytest.approx(one.error_a)


def test_seed():
    """The same seed, 0 if none is given, gives the same comparison; another one gives
    nearly the same.
    """
    arrays = _numbers(80)
    one = compare_errors(*arrays)
    assert compare_errors(*arrays, random_state=0) == one
    other = compare_errors(*arrays, random_state=1)
    assert other.interval != one.interval
    assert other.interval == pytest.approx(one.interval, abs=0.02)


@pytest.mark.parametrize("n", [200, 299])
def test_groups_of_rows(n, monkeypatch):
    """Rows beyond the limit are put together in groups, and hardly anything changes."""
    arrays = _numbers(n)
    one = compare_errors(*arrays)
    monkeypatch.setattr(significance, "N_GROUPS", 199)
    other = compare_errors(*arrays)
    assert other.error_a == one.error_a
    assert other.difference == pytest.approx(one.difference, rel=1e-9)
    assert other.interval != one.interval
    assert np.diff(other.interval) == pytest.approx(np.diff(one.interval), rel=0.2)


@pytest.mark.slow
def test_a_million_rows():
    """A million rows take seconds, and sorted rows are no trouble."""
    y, pred_a, pred_b = _numbers(1_000_000)
    order = np.argsort(np.abs(pred_a - y))
    one = compare_errors(y, pred_a, pred_b)
    other = compare_errors(y[order], pred_a[order], pred_b[order])
    assert np.diff(one.interval) == pytest.approx(np.diff(other.interval), rel=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("tails", [math.inf, 5])
@pytest.mark.parametrize("n", [15, 40, 200])
@pytest.mark.parametrize("measure", ["rmse", "mae"])
def test_coverage_of_the_bootstrap(measure, n, tails, monkeypatch):
    """Of 1,000 drawn sets of rows the intervals of 92 % or more hold the true
    difference, with errors of normal and of heavy tails, from few rows on.
    """
    monkeypatch.setattr(significance, "N_RESAMPLES", 999)
    y, pred_a, pred_b = _numbers(4_000_000, 1, tails)
    power = 2 if measure == "rmse" else 1
    a, b = (
        np.mean(np.abs(y - pred) ** power) ** (1 / power) for pred in (pred_a, pred_b)
    )
    held = 0
    for seed in range(1000):
        comparison = compare_errors(*_numbers(n, seed, tails), measure=measure)
        low, high = comparison.interval
        held += low <= a - b <= high
    assert held >= 920


def test_rows_of_several_numbers():
    """Rows, not entries, are drawn: a copied output changes nothing, nor does a row of
    twice as many outputs count as two.
    """
    arrays = _numbers(40)
    twice = [np.column_stack([x, x]) for x in arrays]
    assert compare_errors(*twice) == compare_errors(*arrays)
    y, pred_a, _ = arrays
    half = compare_errors(
        np.column_stack([y, y]), np.column_stack([pred_a, y]), np.column_stack([y, y])
    )
    assert half.error_a == pytest.approx(np.sqrt(np.mean((y - pred_a) ** 2) / 2))


@pytest.mark.parametrize("measure", ["rmse", "mae"])
def test_equal_and_perfect_predictions(measure):
    """No difference at all has p = 1; a constant one is certain."""
    y, pred_a, _ = _numbers(50)
    same = compare_errors(y, pred_a, pred_a, measure=measure)
    assert (same.difference, same.interval, same.p_value) == (0, (0, 0), 1)
    perfect = compare_errors(y, y, y, measure=measure)
    assert (perfect.error_a, perfect.interval, perfect.p_value) == (0, (0, 0), 1)
    mirrored = compare_errors(y, pred_a, 2 * y - pred_a, measure=measure)
    assert mirrored.p_value == 1
    constant = compare_errors(y, y + 0.1, y, measure=measure)
    assert constant.interval == pytest.approx((0.1, 0.1))
    assert constant.p_value == 1 / 10_000


def test_hardly_any_row_differs():
    """If a single row makes the difference, no interval is wide enough, and JSON can
    say so.
    """
    y, pred_a, _ = _numbers(50)
    pred_b = pred_a.copy()
    pred_b[7] += 1
    comparison = compare_errors(y, pred_a, pred_b)
    assert comparison.interval == (-math.inf, math.inf)
    assert comparison.p_value > 0.35  # a draw lacks that row with 0.98**50 = 0.364
    assert json.loads(comparison.to_json())["interval"] == [None, None]
    assert ErrorComparison.from_json(comparison.to_json()) == comparison


# ------------------------------------------------------------------ what it takes


@pytest.mark.parametrize(
    "y",
    [
        [0, 1, 1],
        [0.0, 1.0, 2.0],
        [0.5, 1.0, 2.0],
        ["a", "b", "c"],
        [True, False, True],
        [[1, 0], [0, 1], [1, 1]],
        [[1, 2], [3, 1], [1, 1]],
        [[0.5, 2], [3, 1], [1, 1]],
        np.array([0.25, 0.5, 1], np.float32),
    ],
)
def test_kind_is_that_of_scikit_learn(y):
    """What scikit-learn calls continuous is regression, the rest are classes."""
    y = np.repeat(np.asarray(y), 5, axis=0)
    is_continuous = type_of_target(y).startswith("continuous")
    assert (compare_errors(y, y, y).counts is None) == is_continuous


def test_kind_looks_at_predictions_too():
    """Whole numbers predicted with fractions are numbers, unless it is said."""
    y = np.arange(20)
    assert compare_errors(y, y + 0.5, y).measure == "rmse"
    assert compare_errors(y, y, y + 0.5).measure == "rmse"
    assert compare_errors(y, y + 1, y).measure == "error rate"
    assert compare_errors(y, y + 1, y, kind="regression").measure == "rmse"
    assert compare_errors(y, y + 0.5, y, kind="classification").error_a == 1


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (([1, 2, 3], [1, 2], [1, 2, 3]), r"pred_a has shape \(2,\) and y \(3,\)"),
        (([1, 2], [1, 2], [[1, 2]]), r"pred_b has shape \(1, 2\) .*, not probabilit"),
        (([], [], []), "y has no rows"),
        ((1, 1, 1), r"y has type int and shape \(\). Give one value a row"),
        (([[[1]]], [1], [1]), r"y has type list and shape \(1, 1, 1\)"),
        ((np.empty((3, 0)),) * 3, r"shape \(3, 0\)"),
        (([1, [2, 3]], [1, 2], [1, 2]), "y is not an array"),
        (([0.5, np.nan], [0.5, 1], [0.5, 1]), "y is nan in row 1, counted from 0"),
        (([0, 1], [0, 1], [np.inf, 1]), "pred_b is inf in row 0.*Leave out rows"),
        (([[0.5, 1], [1, np.nan]],) * 3, r"y is \[ *1\. +nan\] in row 1"),
        (([1, 2], ["1", "2"], [1, 2]), "pred_a holds strings and y numbers, so no row"),
        ((["a", "b"], ["a", "b"], [0, 1]), "pred_b holds numbers and y strings"),
        ((["a", None], ["a", "b"], ["a", "b"]), "values of the types NoneType, str"),
        (([1j, 2], [1, 2], [1, 2]), "type complex128. Give numbers alone or strings"),
        ((np.array(["2020"], "M8[Y]"),) * 3, "type datetime64"),
        (([0.5] * 9,) * 3, "y has 9 rows, too few to resample.*at least 10"),
        (([0.5],) * 3, "y has 1 row, too few"),
        (([1.5e308] * 10, [-1.5e308] * 9 + [0.5], [0.5] * 10), "larger unit"),
    ],
)
def test_arrays_that_are_refused(arrays, message):
    """What cannot be compared row by row is named, with what to do."""
    with pytest.raises(DataError, match=message):
        compare_errors(*arrays)


def test_strings_are_no_numbers():
    """Regression of strings is refused."""
    with pytest.raises(DataError, match="y holds strings, which are no numbers"):
        compare_errors(["a"], ["a"], ["a"], kind="regression")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "both"}, "kind is 'both', expected one of auto, classification, reg"),
        ({"measure": "r2"}, "measure is 'r2', expected one of rmse, mae"),
        (
            {"kind": np.array(["a", "b"])},
            r"kind is array\(.*, expected one of auto, cl",
        ),
        ({"measure": ["mae"]}, r"measure is \['mae'\], expected one of rmse, mae"),
        ({"measure": "mae"}, "measure is 'mae', but classes are compared"),
        ({"confidence": 95}, "confidence is 95, expected a number above 0 and below 1"),
        ({"confidence": 1.0}, "confidence is 1.0"),
        ({"confidence": math.nan}, "confidence is nan"),
        ({"confidence": "high"}, "confidence is 'high'"),
        ({"random_state": -1}, "random_state is -1, expected a whole number from 0"),
        ({"random_state": None}, "random_state is None"),
        ({"kind": "regression", "confidence": 0.9999}, "9,999 draws.*at most 0.999"),
    ],
)
def test_options_that_are_refused(options, message):
    """An option out of its range is named, with its range."""
    y = np.arange(12)
    with pytest.raises(ParameterError, match=message):
        compare_errors(y, y, y, **options)


# ------------------------------------------------------------------ the result


def test_summary_of_classes():
    """Three lines say it in plain words."""
    assert repr(compare_errors(*_classes(9852, 28, 5, 115))) == (
        "ErrorComparison: a errs on 1.43 %, b on 1.20 % of 10,000 rows\n"
        "  difference 0.23 points, 95 % interval 0.13 to 0.36, p = 6.6e-05\n"
        "  exact McNemar: 28 rows only a gets wrong, 5 only b"
    )


def test_summary_of_numbers():
    """The same for numbers, without counts."""
    y = np.arange(10) / 2
    lines = repr(compare_errors(y, y + 2, y + 1, measure="mae")).splitlines()
    assert lines == [
        "ErrorComparison: mae 2 of a, 1 of b of 10 rows",
        "  difference 1, 95 % interval 1 to 1, p = 0.0001",
        "  paired bootstrap",
    ]


@given(counts)
def test_json_and_back_is_the_same_comparison(numbers):
    """No digit is lost on the way through JSON."""
    comparison = compare_errors(*_classes(*numbers))
    again = ErrorComparison.from_json(comparison.to_json())
    assert again == comparison
    assert hash(again) == hash(comparison)


def _counts(**changes):
    counts = dict(both_right=1, only_a_wrong=2, only_b_wrong=3, both_wrong=4)  # noqa: C408
    return counts | changes


def _changed(**changes):
    content = json.loads(compare_errors(*_classes(1, 2, 3, 4)).to_json())
    return json.dumps(content | changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the comparison is not JSON"),
        ("[" * 100_000, "the comparison is not JSON"),
        ("[]", "not an object with the keys confidence, counts"),
        (_changed(more=1), "not an object with the keys"),
        (_changed(version=2), "does not have version 1"),
        (_changed(format="hardzero.fit_history"), "does not have format"),
        (_changed(version=True), "does not have version 1"),
        (None, "the comparison is of type NoneType, expected str or bytes"),
    ],
)
def test_json_of_something_else(text, message):
    """What is no comparison is refused."""
    with pytest.raises(DataError, match=f"{message}.*ErrorComparison.to_json wrote"):
        ErrorComparison.from_json(text)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"error_a": "x"}, "error_a is 'x', expected a number"),
        ({"error_a": None}, "error_a is None, expected a number"),
        ({"error_a": True}, "error_a is True, expected a number"),
        ({"error_b": -0.5}, "error_b is -0.5, expected a number from 0 to 1"),
        ({"error_b": math.nan}, "error_b is nan, expected a number from 0 to 1"),
        ({"error_a": 0.5001}, "error_a is 0.5001, expected 0.6, as other fields say"),
        ({"difference": 0.1}, "difference is 0.1, expected -0.0999.*as other fields"),
        ({"difference": [1]}, r"difference is \[1\], expected a number"),
        ({"confidence": 0}, "confidence is 0.0, expected between 0 and 1"),
        ({"confidence": 95}, "confidence is 95, expected a number from 0 to 1"),
        ({"p_value": 5}, "p_value is 5, expected a number from 0 to 1"),
        ({"p_value": -1e-9}, "p_value is -1e-09, expected a number from 0 to 1"),
        ({"n": "x"}, "n is 'x', expected a whole number of 1 or more"),
        ({"n": 10.0}, "n is 10.0, expected a whole number of 1"),
        ({"n": -3}, "n is -3, expected a whole number of 1"),
        ({"n": 10**400}, "n is 1000.*expected a whole number of 1"),
        ({"n": 11}, "n is 11, expected the sum of counts, 10"),
        ({"interval": [1]}, r"interval is \[1\], expected two numbers"),
        ({"interval": "ab"}, "interval is 'ab', expected two numbers"),
        ({"interval": ["a", "b"]}, "interval is 'a', expected a number"),
        ({"interval": [math.nan, 1]}, "interval is nan, expected a number"),
        ({"interval": [10**400, 1]}, "interval is 1000.*expected a number"),
        ({"interval": [None, 1]}, "interval is -inf, expected a number from -1 to 1"),
        ({"interval": [0.2, 0.4]}, r"interval is \(0.2, 0.4\), .* that holds the diff"),
        ({"interval": [0.4, -0.4]}, r"interval is \(0.4, -0.4\), .* that holds the d"),
        ({"measure": "r2"}, "measure is 'r2', expected one of error rate, rmse, mae"),
        ({"measure": ["mae"]}, r"measure is \['mae'\], expected one of"),
        (
            {"measure": "mae"},
            "test is 'exact McNemar', expected 'paired bootstrap' for",
        ),
        ({"test": None}, "test is None, expected 'exact McNemar' for the measure"),
        ({"counts": None}, "counts is None, expected RowCounts"),
        ({"counts": 3}, "counts is 3, expected an object with both_right, only_a_wr"),
        ({"counts": {"right": 1}}, "counts is {'right': 1}, expected an object with"),
        (
            {"counts": _counts(both_wrong="y")},
            "both_wrong is 'y', expected a whole num",
        ),
        ({"counts": _counts(both_wrong=-4)}, "both_wrong is -4, expected a whole numb"),
        ({"counts": _counts(both_right=9)}, "n is 10, expected the sum of counts, 18"),
        (
            {"measure": "mae", "test": "paired bootstrap"},
            "counts is RowCounts.*, expected None for the measure 'mae'",
        ),
        (
            {"measure": "mae", "test": "paired bootstrap", "n": 9},
            "n is 9, expected a whole number of 10",
        ),
    ],
    ids=str,
)
def test_json_of_impossible_comparisons(changes, message):
    """Types, ranges and what fields say of each other are checked; the error names
    field, value and what was expected.
    """
    with pytest.raises(DataError, match=f"the comparison is malformed: {message}"):
        ErrorComparison.from_json(_changed(**changes))


def test_infinite_ends_survive_json():
    """They are null in JSON."""
    comparison = dataclasses.replace(
        compare_errors(np.arange(12) / 2, np.arange(12) / 2 + 1, np.arange(12) / 2),
        interval=(-math.inf, math.inf),
    )
    assert '"interval": [null, null]' in comparison.to_json()
    assert ErrorComparison.from_json(comparison.to_json()) == comparison


def test_a_p_value_may_be_too_small_for_a_float():
    """It is 0 then, and may be read again."""
    comparison = compare_errors(*_classes(0, 3000, 0, 0))
    assert comparison.p_value == 0
    assert ErrorComparison.from_json(comparison.to_json()) == comparison


@pytest.mark.parametrize("place", range(3))
def test_masked_entries_are_refused(place):
    """They would be compared in spite of the mask."""
    arrays = [np.arange(12)] * 3
    arrays[place] = np.ma.masked_array(arrays[place], arrays[place] > 9)
    name = ("y", "pred_a", "pred_b")[place]
    with pytest.raises(
        DataError, match=f"{name} has 2 masked entries, expected an arr"
    ):
        compare_errors(*arrays)
    arrays[place] = np.ma.masked_array(np.arange(12))
    assert compare_errors(*arrays).error_a == 0


@pytest.mark.parametrize(
    ("dtype", "least"), [(np.float16, 1024), (np.float32, 2**23), (np.float64, 2**52)]
)
def test_floats_too_large_for_fractions_are_numbers(dtype, least):
    """Where a dtype has whole numbers only, they do not look like classes."""
    y = np.full(20, least, dtype)
    assert compare_errors(y, y, y).measure == "rmse"
    assert compare_errors(-y, -y, -y).measure == "rmse"
    assert compare_errors(y - 1, y - 1, y - 1).measure == "error rate"
    assert compare_errors(y, y, y, kind="classification").error_a == 0


def test_huge_numbers_are_compared():
    """A model that errs by 30 % is worse than one that errs by 10 %."""
    y = np.random.default_rng(0).random(30) * 1e200
    comparison = compare_errors(y, y * 1.1, y * 1.3)
    assert comparison.error_b == pytest.approx(3 * comparison.error_a)
    assert comparison.p_value < 0.01


def test_whole_numbers_among_objects_are_not_rounded():
    """Classes beyond 2**53 differ by one; what no integer type holds is refused."""
    y = np.array([2**53] * 3, object)
    assert compare_errors(y, y, y + 1).error_b == 1
    with pytest.raises(DataError, match="y holds numbers that do not fit into int64"):
        compare_errors([10**30] * 3, [10**30] * 3, [10**30 + 1] * 3)
    with pytest.raises(DataError, match=r"pred_b holds numbers .*into float64"):
        compare_errors([0.5] * 10, [0.5] * 10, [0.5] * 9 + [10**400])


@pytest.mark.parametrize("measure", ["rmse", "mae"])
def test_what_is_rounding_is_no_difference(measure):
    """Errors of equal size have a difference of 0 and an interval that holds it, with
    a p-value of 1.
    """
    y = np.random.default_rng(0).random(30)
    comparison = compare_errors(y, y + 1, y - 1, measure=measure)
    assert (comparison.difference, comparison.p_value) == (0, 1)
    low, high = comparison.interval
    assert low <= 0 <= high
