"""Update rules: settings that are checked once and cannot change."""

import dataclasses

import numpy as np
import pytest

from hardzero.errors import ParameterError
from hardzero.kernels.rules import SGD, Adam


def test_defaults_are_pytorchs():
    """Without settings SGD is plain, and Adam has the paper's constants"""
    assert SGD(0.1) == SGD(0.1, momentum=0.0, nesterov=False, l2=0.0)
    assert Adam(0.1) == Adam(0.1, beta1=0.9, beta2=0.999, epsilon=1e-8, l2=0.0)


def test_numbers_become_floats():
    """Integers and NumPy numbers are taken, and become plain floats"""
    rule = SGD(np.float32(0.5), momentum=np.float64(0.25), l2=1)
    assert rule == SGD(0.5, momentum=0.25, l2=1.0)
    settings = (rule.learning_rate, rule.momentum, rule.l2)
    assert all(type(setting) is float for setting in settings)


def test_a_rule_is_frozen_and_replaced():
    """A rule cannot be changed; `replace` makes a new one and checks it again"""
    rule = SGD(0.1, momentum=0.9)
    with pytest.raises(dataclasses.FrozenInstanceError):
        rule.learning_rate = 0.2
    assert dataclasses.replace(rule, learning_rate=0.0) == SGD(0.0, momentum=0.9)
    with pytest.raises(ParameterError, match="learning_rate of SGD is -1"):
        dataclasses.replace(rule, learning_rate=-1.0)


@pytest.mark.parametrize(
    ("rule", "settings", "message"),
    [
        (
            SGD,
            {"learning_rate": -0.1},
            r"learning_rate of SGD is -0\.1, expected a fin",
        ),
        (SGD, {"learning_rate": np.nan}, "learning_rate of SGD is nan"),
        (
            SGD,
            {"learning_rate": np.inf},
            "is inf, expected a finite number of 0 or more",
        ),
        (SGD, {"learning_rate": "0.1"}, "learning_rate of SGD is '0.1'"),
        (SGD, {"learning_rate": True}, "learning_rate of SGD is True"),
        (SGD, {"learning_rate": None}, "learning_rate of SGD is None"),
        (SGD, {"momentum": 1.0}, "momentum of SGD is 1.0, .* of 0 or more and below 1"),
        (SGD, {"l2": -1e-9}, "l2 of SGD is -1e-09"),
        (SGD, {"nesterov": True}, "momentum is 0, expected a momentum above 0"),
        (Adam, {"learning_rate": -1}, "learning_rate of Adam is -1"),
        (Adam, {"beta1": 1.0}, "beta1 of Adam is 1.0, .*below 1. Change beta1"),
        (Adam, {"beta2": -0.5}, "beta2 of Adam is -0.5"),
        (Adam, {"epsilon": 0.0}, "epsilon of Adam is 0.0, expected a .* above 0"),
        (Adam, {"l2": np.inf}, "l2 of Adam is inf"),
    ],
)
def test_refuses_settings_out_of_range(rule, settings, message):
    """A setting out of its range raises an error that names it and its range"""
    with pytest.raises(ParameterError, match=message):
        rule(**{"learning_rate": 0.1, **settings})
