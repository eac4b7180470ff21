"""The contract of scikit-learn, by its own checks, with no failure declared."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from hardzero import RatingRegressor, RectifierClassifier, RectifierRegressor

OPTIONS = [
    {},
    {"dropout": 0.3, "input_dropout": 0.1, "max_norm": 3.0},
    {"batch_norm": True, "clip_norm": 1.0},
    {"solver": "sgd", "momentum": 0.9, "nesterov": True, "l1": 1e-5, "l2": 1e-4},
    {"early_stopping": True, "validation_fraction": 0.3},
    {"engine": "dense", "shuffle": False},
    {"engine": "sparse", "hidden_sizes": (100, 50), "activation": ("prelu", "elu")},
    {"sign_flip": True, "l1_activation": 1e-4, "learning_rate_schedule": "cosine"},
]
FIRST = [RectifierClassifier(), RectifierRegressor(), RatingRegressor()]
REST = [
    *(type(one)(**options) for one in FIRST for options in OPTIONS[1:]),
    RectifierClassifier(scoring="accuracy", early_stopping=True),
    RectifierRegressor(loss="huber(0.5)"),
    RectifierRegressor(loss="log_cosh", target_scaling="none", fit_intercept=False),
    RatingRegressor(class_weight="balanced"),
]


# The checks give regressors numbers of any kind, which RatingRegressor warns of.
pytestmark = pytest.mark.filterwarnings("ignore:y has .* different ratings")


@parametrize_with_checks(FIRST)
def test_scikit_learn_check(estimator, check):
    """Every check of scikit-learn passes."""
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(REST)
def test_scikit_learn_check_with_options(estimator, check):
    """Every check of scikit-learn passes, whatever the options."""
    check(estimator)
