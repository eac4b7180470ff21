"""The contract of scikit-learn, by its own checks, with no failure declared."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from hardzero import (
    DenoisingAutoencoder,
    RatingRegressor,
    RectifierClassifier,
    RectifierRegressor,
)

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


class AllRows(DenoisingAutoencoder):
    """Has no partial_fit, which refuses options that need all rows at once."""

    partial_fit = property()


SUPERVISED = [RectifierClassifier(), RectifierRegressor(), RatingRegressor()]
FIRST = [*SUPERVISED, DenoisingAutoencoder()]
REST = [
    *(type(one)(**options) for one in SUPERVISED for options in OPTIONS[1:]),
    *(type(one)(pretraining="denoising") for one in SUPERVISED),
    RectifierClassifier(
        (30, 20), pretraining=DenoisingAutoencoder(early_stopping=True)
    ),
    RectifierClassifier(scoring="accuracy", early_stopping=True),
    RectifierRegressor(loss="huber(0.5)"),
    RectifierRegressor(loss="log_cosh", target_scaling="none", fit_intercept=False),
    RatingRegressor(class_weight="balanced"),
    # "linear", as many checks give numbers of any sign
    *(
        DenoisingAutoencoder(**{"decoder": "linear"} | options)
        for options in (
            {"corruption": "none"},
            {"corruption": "salt_and_pepper(0.5, 0.1)"},
            {"corruption": "salt_and_pepper(0.1, 0.1)", "tied": True},
            {"corruption": "swap(0.15)", "hidden_sizes": (40, 20), "sign_flip": True},
            {"corruption": ("masking(0.1)", "gaussian(0.3)"), "hidden_sizes": (20, 9)},
            {"early_stopping": True, "validation_fraction": 0.3, "patience": 2},
            {"solver": "sgd", "momentum": 0.5, "l2": 1e-4, "l1_activation": 1e-3},
            {"decoder": ("auto", "linear(pre)"), "hidden_sizes": (20, 10)},
            {"engine": "dense", "activation": "prelu"},
        )
    ),
    AllRows(decoder="linear", learning_rate=(0.01, 0.001), activation="tanh"),
    AllRows((20, 10), decoder=("auto", "sigmoid"), rescale="unit"),
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
