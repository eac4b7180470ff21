"""Scorers that users choose."""

import functools

import numpy as np
import pytest
from sklearn.metrics import make_scorer, r2_score

from hardzero import ParameterError, RectifierClassifier, RectifierRegressor
from hardzero.estimators.scoring import name_scorer, score_rows

X = np.random.default_rng(0).normal(size=(80, 4))
Y = (X[:, 0] > 0).astype(int)


def unweighted(estimator, X, y):
    """Take no weights."""
    return estimator.score(X, y)


def make_returning(score):
    """Return a scorer of a name that always returns the same."""

    def scorer(*_):
        return score

    return scorer


def test_scorers_that_cannot_be_called():
    """The error names the scorer, how it was called and what to do."""
    network = RectifierClassifier(5, max_epochs=1, scoring=unweighted)
    network.set_params(early_stopping=True)
    assert network.fit(X, Y).n_iter_ == 1
    with pytest.raises(
        ParameterError,
        match=r"scoring=unweighted failed .*y, sample_weight=...\).*leave sample_",
    ):
        network.fit(X, Y, sample_weight=1 + Y)
    with pytest.raises(ParameterError, match=r"scoring=.*lambda> failed .*X, y\): .*3"):
        network.set_params(scoring=lambda *, y: y).fit(X, Y)


def test_named_scorers_without_weights():
    """So are those of scikit-learn that take no weights."""
    network = RectifierRegressor(
        5, max_epochs=1, scoring="neg_max_error", early_stopping=True
    )
    assert network.fit(X, X[:, 0]).n_iter_ == 1
    with pytest.raises(
        ParameterError, match=r"scoring='neg_max_error' failed .*sample_weight"
    ):
        network.fit(X, X[:, 0], sample_weight=1 + Y)


@pytest.mark.parametrize(
    ("returned", "shown"),
    [
        ("good", "'good' of type str"),
        ("0.5", "'0.5' of type str"),
        (np.ones(2), r"array\(\[1., 1.\]\) of type ndarray"),
        (None, "None of type NoneType"),
        ({"r2": 1.0}, "{'r2': 1.0} of type dict"),
        (1j, "1j of type complex"),
    ],
)
def test_scores_that_are_no_number(returned, shown):
    """The error names the scorer and shows what came back."""
    scorer = make_returning(returned)
    with pytest.raises(
        ParameterError, match=f"scoring=.*scorer returned {shown}, expected one number"
    ):
        score_rows(scorer, scorer, None, X, Y, None)


@pytest.mark.parametrize("score", [1, 0.25, np.float32(0.5), np.array(2.0), np.True_])
def test_numbers_of_any_type(score):
    """Python's, NumPy's and arrays without dimensions are numbers."""
    assert score_rows(make_returning(score), None, None, X, Y, None) == float(score)


def test_weights_reach_the_scorer():
    """They are handed on by name."""
    scorer = make_scorer(lambda y, _, sample_weight: (y * sample_weight).sum())
    network = RectifierClassifier(5, max_epochs=1).fit(X, Y)
    weights = np.arange(80.0)
    assert score_rows(scorer, scorer, network, X, Y, weights) == weights[Y == 1].sum()


def test_names_of_scorers():
    """Only what has the same name in every process has one."""
    assert name_scorer(None) is None
    assert name_scorer("r2") == "r2"
    assert name_scorer(_by_hand) == f"{__name__}._by_hand"
    for scoring in (
        lambda *_: 0.0,
        functools.partial(_by_hand),
        make_scorer(r2_score),
    ):
        with pytest.raises(ParameterError, match="name of a scorer or a function of a"):
            name_scorer(scoring)


def _by_hand(*_):
    return 0.0
