"""The regressor of ratings, as its users see it."""

import numpy as np
import pytest

from hardzero import DataError, RatingRegressor, RectifierClassifier

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 4))
STARS = np.clip(np.round(3 + X[:, 0] + 0.7 * RNG.normal(size=600)), 1, 5)


@pytest.fixture(scope="module")
def fitted():
    """Return a network that learned one to five stars."""
    return RatingRegressor(20, max_epochs=50, random_state=0).fit(X, STARS)


def test_prediction_is_the_expected_rating(fitted):
    """Predictions are means of the ratings under the predicted distribution."""
    distribution = fitted.predict_distribution(X)
    assert list(fitted.classes_) == [1, 2, 3, 4, 5]
    assert distribution.shape == (600, 5)
    np.testing.assert_allclose(distribution.sum(axis=1), 1)
    np.testing.assert_allclose(fitted.predict(X), distribution @ [1, 2, 3, 4, 5])
    assert 1 <= fitted.predict(X).min() <= fitted.predict(X).max() <= 5


def test_expected_rating_beats_the_most_probable_one(fitted):
    """Under squared error, on new rows: that is what it is for."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(600, 4))
    stars = np.clip(np.round(3 + rows[:, 0] + 0.7 * rng.normal(size=600)), 1, 5)
    best = fitted.classes_[fitted.predict_distribution(rows).argmax(axis=1)]
    error = ((fitted.predict(rows) - stars) ** 2).mean()
    assert error < 0.95 * ((best - stars) ** 2).mean()


def test_it_is_the_classifier_within(fitted):
    """The network is the one that the classifier of the same settings learns."""
    classifier = RectifierClassifier(20, max_epochs=50, random_state=0)
    assert classifier.fit(X, STARS.astype(int)).stack_ == fitted.stack_


def test_ratings_are_any_numbers():
    """Ratings need be neither whole nor evenly spaced; bools and ints are numbers."""
    for ratings in ((0.5, 2.25, 10.0), (-3, 0, 7), (False, True, True)):
        y = np.array(ratings)[RNG.integers(0, 3, 600)]
        model = RatingRegressor(5, max_epochs=2, random_state=0).fit(X, y)
        assert list(model.classes_) == sorted(set(ratings))
        assert min(ratings) <= model.predict(X).min()
        assert model.predict(X).max() <= max(ratings)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept(dtype):
    """float32 features give float32 predictions."""
    model = RatingRegressor(5, max_epochs=2).fit(X.astype(dtype), STARS)
    assert model.predict(X).dtype == model.predict_distribution(X).dtype == dtype


def test_numbers_that_are_no_ratings():
    """A warning tells of more than 20 ratings in less than twice as many rows."""
    model = RatingRegressor(5, max_epochs=1)
    with pytest.warns(
        UserWarning, match="y has 41 different ratings in 80 rows.*Recti"
    ):
        model.fit(X[:80], np.arange(80) % 41)
    model.fit(X[:80], np.arange(80) % 40)
    model.fit(X[:20], np.arange(20))


def test_new_ratings_are_refused():
    """A validation rating that training rows do not have is an error."""
    with pytest.raises(DataError, match=r"y_val has labels .*5 known classes: 4.5"):
        RatingRegressor(5).fit(X, STARS, X_val=X[:1], y_val=[4.5])


def test_class_weight_shifts_ratings(fitted):
    """A rating of more weight is expected more often."""
    heavy = RatingRegressor(
        20, max_epochs=50, random_state=0, class_weight={5.0: 20.0}
    ).fit(X, STARS)
    assert heavy.predict(X).mean() > fitted.predict(X).mean() + 0.3


def test_early_stopping_when_all_ratings_differ():
    """Rows are then set aside by chance, as there are no two of one rating."""
    model = RatingRegressor(20, early_stopping=True, max_epochs=5, random_state=0)
    with pytest.warns(UserWarning, match="different ratings"):
        model.fit(X[:100], X[:100, 0])
    assert len(model.classes_) == 100
    assert model.batch_size_ == 32
    assert len(model.validation_loss_curve_) == 5


def test_epochs_are_judged_by_what_is_predicted():
    """Without a scorer the best epoch has the lowest squared error of predictions."""
    model = RatingRegressor(20, max_epochs=8, random_state=0)
    model.fit(X[:400], STARS[:400], X_val=X[400:], y_val=STARS[400:])
    error = ((model.predict(X[400:]) - STARS[400:]) ** 2).mean()
    assert -max(model.validation_scores_) == pytest.approx(error)


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([0, 1, np.nan], "classes has the rating nan, expected finite"),
        ([0, np.inf], "classes has the rating inf"),
        ([0, 1e300], r"rating 1e\+300, expected finite numbers of at most 2.1e\+37"),
        ([0, 1j], "classes is complex128, expected ratings that are real"),
        ([[0, 1]], r"classes has shape \(1, 2\), expected one dimension"),
        ([0, None], "classes is object"),
        (["a", "b"], "classes is <U1"),
        (np.ma.array([0, 1], mask=[True, False]), "classes has 1 masked"),
        ([[1], [1, 2]], "classes is no array"),
        ([], r"classes has shape \(0,\)"),
    ],
    ids=str,
)
def test_classes_that_are_no_ratings(classes, message):
    """Ratings are finite real numbers in one dimension."""
    with pytest.raises(DataError, match=message):
        RatingRegressor(5).partial_fit(X, STARS, classes=classes)


def test_huge_ratings():
    """Predictions are finite in float32 as well; what is larger is refused."""
    y = np.sign(X[:, 0])
    model = RatingRegressor(20, max_epochs=50, random_state=0)
    predicted = model.fit(X.astype(np.float32), y * 1e37).predict(X)
    assert np.isfinite(predicted).all()
    assert np.corrcoef(predicted / 1e37, y)[0, 1] > 0.5
    with pytest.raises(DataError, match=r"y has the rating .*1e\+300, expected"):
        model.fit(X.astype(np.float32), y * 1e300)
