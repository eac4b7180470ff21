"""Checks of the constructor parameters of estimators.

They are checked against one table, `PARAMETERS`, when `fit` is called, as
scikit-learn asks for; each message says what was given, what is expected and what to
do.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer_names
from sklearn.utils import check_random_state

from hardzero import activations
from hardzero.activations import Activation
from hardzero.engine.corruption import Corruption
from hardzero.engine.initialise import SCHEMES
from hardzero.engine.reconstruction import Decoder
from hardzero.engine.schedules import parse_schedule
from hardzero.errors import ParameterError
from hardzero.kernels.rules import plain_float
from hardzero.threads import MAX_THREADS

__all__ = [
    "DENOISING",
    "PARAMETERS",
    "Check",
    "changes_between",
    "check_hidden_activations",
    "check_parameter",
    "check_parameters",
    "choose_batch_size",
    "draw_seed",
]


@dataclass(frozen=True)
class Check:
    """What a parameter of an estimator may be.

    Parameters
    ----------
    accepts : callable
        Says whether a value is allowed.
    expected : str
        What is allowed, to follow "expected".
    remedy : str
        What to do, one sentence.
    """

    accepts: Callable[[Any], bool]
    expected: str
    remedy: str


def check_parameters(
    estimator: BaseEstimator, checks: Mapping[str, Check] | None = None
) -> None:
    """Check the parameters of an estimator against a table, then their mixture.

    Parameters
    ----------
    estimator : BaseEstimator
        Estimator; parameters that the table does not have are not checked.
    checks : mapping of str to Check, optional
        Table; `PARAMETERS`, if not given.

    Raises
    ------
    ParameterError
        If a value is not allowed, or two values contradict each other.
    """
    values = estimator.get_params(deep=False)
    for name in values:
        if name in (PARAMETERS if checks is None else checks):
            check_parameter(estimator, name, checks)
    parse_schedule(values.get("learning_rate_schedule", "constant"))
    if values["momentum"] and values["solver"] != "sgd":
        raise ParameterError(
            f"momentum={values['momentum']!r} was given with solver="
            f"{values['solver']!r}, which has moments of its own. Give solver='sgd', "
            "or leave momentum at 0."
        )
    if values.get("warm_start") and values["checkpoint"] is not None:
        raise ParameterError(
            f"checkpoint={values['checkpoint']!r} was given with warm_start=True, but "
            "both say from where training goes on. Give one of them."
        )
    if values["checkpoint_seconds"] is not None and values["checkpoint"] is None:
        raise ParameterError(
            f"checkpoint_seconds={values['checkpoint_seconds']!r} was given without a "
            "file to write. Give checkpoint, its path, or leave checkpoint_seconds out."
        )
    if values.get("pretraining") is not None and not values["fit_intercept"]:
        raise ParameterError(
            "pretraining was given with fit_intercept=False, but an auto-encoder "
            "learns biases. Give pretraining=None, or fit_intercept=True."
        )
    if values.get("nesterov") and not (
        values["solver"] == "sgd" and values["momentum"]
    ):
        raise ParameterError(
            f"nesterov=True was given with solver={values['solver']!r} and "
            f"momentum={values['momentum']!r}, expected solver='sgd' and a momentum "
            "above 0. Set these two, or nesterov=False."
        )


def check_parameter(
    estimator: BaseEstimator, name: str, checks: Mapping[str, Check] | None = None
) -> None:
    """Check one parameter of an estimator against a table.

    Parameters
    ----------
    estimator : BaseEstimator
        Estimator.
    name : str
        Name of the parameter, one of the table's.
    checks : mapping of str to Check, optional
        Table; `PARAMETERS`, if not given.

    Raises
    ------
    ParameterError
        If its value is not allowed.
    """
    check = (PARAMETERS if checks is None else checks)[name]
    value = getattr(estimator, name)
    if not check.accepts(value):
        raise ParameterError(
            f"{name}={_show(value)} was given to {type(estimator).__name__}, "
            f"expected {check.expected}. {check.remedy}"
        )


def _show(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python prints no whole number of more than 4300 digits
        return "(a number of thousands of digits)"
    return text if len(text) <= 500 else f"{text[:200]}..."


def _is_count(value: Any, most: int = 2**31 - 1) -> bool:
    return _is_whole(value) and bool(1 <= value <= most)


def _is_size(value: Any) -> bool:
    return _is_count(value, _MAX_UNITS)


def _is_probability(value: Any) -> bool:
    return bool(0 <= plain_float(value) < 1)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not _is_flag(value)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def _is_sequence_of(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def accepts_all(value: Any) -> bool:
        is_text = isinstance(value, str | bytes)
        is_vector = isinstance(value, np.ndarray) and value.ndim == 1
        is_sequence = is_vector or (isinstance(value, Sequence) and not is_text)
        return is_sequence and all(accepts(item) for item in value)

    return accepts_all


def _one_of(*choices: str) -> Check:
    listed = ", ".join(repr(choice) for choice in choices)
    return Check(
        lambda value: isinstance(value, str) and value in choices,
        f"one of {listed}",
        "Choose one of these.",
    )


def _number(
    accepts: Callable[[float], bool], expected: str, *, example: str, auto: bool = False
) -> Check:
    return Check(
        lambda value: (
            (auto and _is_auto(value))
            or (not _is_flag(value) and accepts(plain_float(value)))
        ),
        ("'auto' or " if auto else "") + expected,
        f"Give, for example, {example}.",
    )


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _is_random_state(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, np.random.RandomState)
        or (_is_whole(value) and bool(0 <= value < 2**32))
    )


def _is_autoencoder(value: Any) -> bool:
    if type(value).__name__ == "FrozenEstimator":  # a fitted one
        value = value.estimator
    return hasattr(value, "learn_layers") and not isinstance(value, type)


def _is_path_of_file(value: Any) -> bool:
    if not isinstance(value, str | PathLike):
        return False
    _, name = os.path.split(os.fsdecode(value))
    return name not in ("", ".", "..")


def _is_class_weight(value: Any) -> bool:
    if value is None or (isinstance(value, str) and value == "balanced"):
        return True
    return isinstance(value, Mapping) and all(
        0 <= plain_float(weight) < np.inf for weight in value.values()
    )


_FLAG = Check(_is_flag, "True or False", "Give one of the two.")
_NOT_NEGATIVE = _number(
    lambda value: 0 <= value < np.inf,
    "a finite number of 0 or more",
    example="0.0 for none",
)
_BOUND = Check(
    lambda value: value is None or 0 < plain_float(value) < np.inf,
    "None or a finite number above 0",
    "Give None for no bound.",
)
_COUNT = Check(
    _is_count, "a whole number of 1 or more, below 2**31", "Give such a number."
)
_MAX_UNITS = 10**7

PARAMETERS = {
    "hidden_sizes": Check(
        lambda value: _is_size(value) or _is_sequence_of(_is_size)(value),
        f"a whole number from 1 to {_MAX_UNITS}, or a sequence of them, one per hidden "
        "layer",
        "Give, for example, (100,) for one hidden layer of 100 units.",
    ),
    "activation": Check(
        lambda value: (
            isinstance(value, str | Activation)
            or _is_sequence_of(lambda item: isinstance(item, str | Activation))(value)
        ),
        "a name of hardzero.activations, or a sequence of names, one per hidden layer",
        "Give, for example, 'rectifier' or 'leaky_rectifier(0.1)'.",
    ),
    "sign_flip": _FLAG,
    "dropout": Check(
        lambda value: _is_probability(value) or _is_sequence_of(_is_probability)(value),
        "a number from 0 to below 1, or a sequence of them, one per hidden layer",
        "Give, for example, 0.5 for all hidden layers.",
    ),
    "input_dropout": _number(
        _is_probability, "a number from 0 to below 1", example="0.2"
    ),
    "batch_norm": _FLAG,
    "l1_activation": _NOT_NEGATIVE,
    "l1": _NOT_NEGATIVE,
    "l2": _NOT_NEGATIVE,
    "max_norm": _BOUND,
    "clip_norm": _BOUND,
    "fit_intercept": _FLAG,
    "loss": Check(
        lambda value: isinstance(value, str),
        "the name of a loss",
        "Give 'squared', 'absolute', 'huber(1)', 'log_cosh', 'quantile(0.5)' or "
        "'poisson'.",
    ),
    "target_scaling": _one_of("standard", "none"),
    "class_weight": Check(
        _is_class_weight,
        "None, 'balanced', or a dict from labels to finite numbers of 0 or more",
        "Give, for example, {'rare': 10}.",
    ),
    "pretraining": Check(
        lambda value: (
            value is None
            or (isinstance(value, str) and value == "denoising")
            or _is_autoencoder(value)
        ),
        "None, 'denoising' or a DenoisingAutoencoder",
        "Give, for example, DenoisingAutoencoder(max_epochs=50).",
    ),
    "solver": _one_of("adam", "sgd"),
    "learning_rate": _number(
        lambda value: 0 < value < np.inf,
        "a finite number above 0",
        example="0.001",
        auto=True,
    ),
    "learning_rate_schedule": Check(
        lambda value: isinstance(value, str),
        "the name of a schedule",
        "Give 'constant', 'step(10, 0.5)' or 'cosine'.",
    ),
    "momentum": _number(
        lambda value: 0 <= value < 1, "a number from 0 to below 1", example="0.9"
    ),
    "nesterov": _FLAG,
    "batch_size": Check(
        lambda value: _is_auto(value) or _is_count(value),
        "'auto' or a whole number of 1 or more, below 2**31",
        "Give such a number of rows.",
    ),
    "shuffle": _FLAG,
    "max_epochs": _COUNT,
    "tol": Check(
        lambda value: value is None or 0 <= plain_float(value) < np.inf,
        "None or a finite number of 0 or more",
        "Give None to train for all of max_epochs.",
    ),
    "early_stopping": _FLAG,
    "validation_fraction": _number(
        lambda value: 0 < value < 1, "a number between 0 and 1", example="0.1"
    ),
    "patience": _COUNT,
    "scoring": Check(
        lambda value: (
            value in get_scorer_names()
            if isinstance(value, str)
            else value is None or callable(value)
        ),
        "None, the name of a scorer, or a callable (estimator, X, y)",
        "Give, for example, 'accuracy' to a classifier or 'r2' to a regressor; "
        "sklearn.metrics.get_scorer_names() lists them.",
    ),
    "init": _one_of("auto", *SCHEMES),
    "warm_start": _FLAG,
    "checkpoint": Check(
        lambda value: value is None or _is_path_of_file(value),
        "None or the path of a file",
        "Give the file that training may write and resume from.",
    ),
    "checkpoint_seconds": Check(
        lambda value: value is None or 0 <= plain_float(value) < np.inf,
        "None or a finite number of 0 or more",
        "Give None to write after each epoch.",
    ),
    "engine": _one_of("auto", "sparse", "dense", "reference"),
    "n_threads": Check(
        lambda value: (
            _is_count(value, MAX_THREADS) or (_is_whole(value) and bool(value == -1))
        ),
        f"a whole number from 1 to {MAX_THREADS}, or -1 for all processors",
        "Give the number of threads.",
    ),
    "random_state": Check(
        _is_random_state,
        "None, a whole number from 0 to 4294967295, or a numpy.random.RandomState",
        "Give a number for the same result in each run.",
    ),
    "verbose": Check(
        lambda value: _is_flag(value) or _is_whole(value),
        "True or False",
        "Give True for a progress bar.",
    ),
}

DENOISING = PARAMETERS | {
    "corruption": Check(
        lambda value: (
            isinstance(value, str | Corruption)
            or _is_sequence_of(lambda item: isinstance(item, str | Corruption))(value)
        ),
        "a kind of noise, or a sequence of them, one per layer",
        "Give 'auto', or, for example, 'masking(0.25)'.",
    ),
    "decoder": Check(
        lambda value: (
            isinstance(value, str | Decoder)
            or _is_sequence_of(lambda item: isinstance(item, str | Decoder))(value)
        ),
        "a decoder, or a sequence of them, one per layer",
        "Give 'auto', or, for example, 'softplus' or 'sigmoid'.",
    ),
    "rescale": _one_of("global", "unit", "none"),
    "tied": _FLAG,
    "l1_activation": Check(
        lambda value: (
            _NOT_NEGATIVE.accepts(value)
            or _is_sequence_of(_NOT_NEGATIVE.accepts)(value)
        ),
        "a finite number of 0 or more, or a sequence of them, one per layer",
        "Give, for example, 0.0 for none.",
    ),
    "reconstruction_sampling": Check(
        lambda value: (
            value is None
            or _is_auto(value)
            or (not _is_flag(value) and 0 < plain_float(value) <= 1)
        ),
        "None, 'auto' or a number above 0 and at most 1",
        "Give None to reconstruct all features in each step.",
    ),
    "learning_rate": Check(
        lambda value: (
            PARAMETERS["learning_rate"].accepts(value)
            or (
                _is_sequence_of(
                    lambda item: not _is_flag(item) and 0 < plain_float(item) < np.inf
                )(value)
                and len(value) > 0
            )
        ),
        "'auto', a finite number above 0, or a sequence of such numbers to choose from",
        "Give, for example, 0.001, or (0.1, 0.01, 0.001).",
    ),
}
"""Parameters of `DenoisingAutoencoder`."""


def check_hidden_activations(
    activation: str | Activation | Sequence[str | Activation], n_hidden: int
) -> list[Activation]:
    """Return one activation for each hidden layer.

    Parameters
    ----------
    activation : str, Activation or sequence of them
        One for all hidden layers, or one for each.
    n_hidden : int
        Number of hidden layers.

    Returns
    -------
    list of Activation
        As many as there are hidden layers.

    Raises
    ------
    ParameterError
        If a name is unknown or the number of names does not fit.
    """
    if isinstance(activation, str | Activation):
        return [activations.get(activation)] * n_hidden
    if len(activation) != n_hidden:
        raise ParameterError(
            f"activation has {len(activation)} entries but hidden_sizes has {n_hidden}."
            " Give one activation per hidden layer, or a single one for all."
        )
    return [activations.get(one) for one in activation]


def choose_batch_size(batch_size: int | str, n_samples: int) -> int:
    """Return the number of rows in a mini-batch.

    Parameters
    ----------
    batch_size : int or "auto"
        "auto" takes all rows if they are at most 64, else a fiftieth of them, but at
        least 32 and at most 200.
    n_samples : int
        Number of training rows.

    Returns
    -------
    int
        Rows in a mini-batch, at most `n_samples`.
    """
    if isinstance(batch_size, str):
        few = n_samples <= 64
        batch_size = n_samples if few else min(max(n_samples // 50, 32), 200)
    return min(int(batch_size), n_samples)


def changes_between(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return what was changed of the parameters that later training cannot change.

    Parameters
    ----------
    then : mapping of str to str
        Their values when training began.
    now : mapping of str to str
        Their values now.

    Returns
    -------
    list of str
        An entry for each that was changed; engines that can go on from each other's
        state count as the same.
    """
    return [
        f"{name} was {before} and is {now[name]}"
        for name, before in then.items()
        if _KIN.get(before, before) != _KIN.get(now[name], now[name])
    ]


_KIN = {"'sparse'": "'auto'", "'reference'": "'dense'"}


def draw_seed(random_state: int | np.random.RandomState | None) -> int:
    """Return the seed of one fit.

    Parameters
    ----------
    random_state : int, RandomState or None
        An integer is the seed itself. A RandomState is asked for a number, so that
        each fit gets another; None asks NumPy's global one.

    Returns
    -------
    int
        Seed, in [0, 2**32).
    """
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))
