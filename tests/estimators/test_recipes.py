"""Settings of published experiments."""

import pytest

from hardzero import ParameterError, RectifierClassifier, glorot2011


def test_glorot2011_is_the_paper():
    """The recipe has the published settings of the image experiments."""
    assert glorot2011() == {
        "hidden_sizes": (1000, 1000, 1000),
        "activation": "rectifier",
        "sign_flip": True,
        "l1_activation": 0.001,
        "l2": 0.0,
        "solver": "sgd",
        "learning_rate": 0.1,
        "learning_rate_schedule": "constant",
        "momentum": 0.0,
        "nesterov": False,
        "batch_size": 10,
        "init": "glorot_uniform",
    }


@pytest.mark.parametrize("rate", [0.1, 0.01, 0.001, 0.0001])
def test_glorot2011_is_a_classifier(rate):
    """Each learning rate of the paper gives parameters that a classifier takes."""
    recipe = glorot2011("image", learning_rate=rate)
    assert RectifierClassifier(**recipe).learning_rate == rate


def test_other_settings_are_refused():
    """Unknown data and rates that the paper did not try are refused."""
    with pytest.raises(ParameterError, match="no recipe for data='text'"):
        glorot2011("text")
    with pytest.raises(ParameterError, match=r"rate=0.5 was not tried.*0\.1, 0\.01"):
        glorot2011(learning_rate=0.5)
