"""Settings of published experiments, as parameters of our estimators."""

from typing import Any

from hardzero.errors import ParameterError

__all__ = ["GLOROT2011_LEARNING_RATES", "glorot2011"]

GLOROT2011_LEARNING_RATES = (0.1, 0.01, 0.001, 0.0001)
"""Learning rates that Glorot et al. 2011 chose from, on validation error."""


def glorot2011(data: str = "image", *, learning_rate: float = 0.1) -> dict[str, Any]:
    """Return the supervised settings of "Deep sparse rectifier neural networks".

    Parameters
    ----------
    data : {"image"}
        Which of the paper's experiments. "image": MNIST, CIFAR10 and NISTP, three
        hidden layers of 1000 units, inputs scaled to [0, 1].
    learning_rate : float
        One of the paper's choices, `GLOROT2011_LEARNING_RATES`. The paper takes the one
        with the lowest validation error for each network.

    Returns
    -------
    dict
        Parameters of `hardzero.RectifierClassifier`.

    Raises
    ------
    ParameterError
        If there is no recipe for `data`, or the paper did not try the learning rate.

    Notes
    -----
    From the paper: depth, width, mini-batches of 10, plain stochastic gradient descent
    at a constant rate, L1 penalty of 0.001 on the activations, sign flip of half of the
    units. From the authors' code: uniform initial weights of Glorot & Bengio 2010 in
    all layers and zero biases, also for rectifiers. The paper says neither for how
    many epochs it trained nor when it stopped, so ``max_epochs``, ``early_stopping``,
    ``patience`` and ``tol`` are not part of the recipe.

    References
    ----------
    Glorot, Bordes & Bengio 2011, "Deep sparse rectifier neural networks", sections 3
    and 4.1. Glorot & Bengio 2010, "Understanding the difficulty of training deep
    feedforward neural networks", eq. 16.

    Examples
    --------
    >>> from hardzero import RectifierClassifier, glorot2011
    >>> RectifierClassifier(**glorot2011(), max_epochs=50).hidden_sizes
    (1000, 1000, 1000)
    """
    if data != "image":
        raise ParameterError(
            f"there is no recipe for data={data!r}, expected 'image'. Give 'image'."
        )
    if learning_rate not in GLOROT2011_LEARNING_RATES:
        raise ParameterError(
            f"learning_rate={learning_rate!r} was not tried in the paper, expected "
            f"one of {', '.join(map(str, GLOROT2011_LEARNING_RATES))}. Give one of "
            "these, or change the returned settings."
        )
    return {
        "hidden_sizes": (1000, 1000, 1000),
        "activation": "rectifier",
        "sign_flip": True,
        "l1_activation": 0.001,
        "l2": 0.0,
        "solver": "sgd",
        "learning_rate": learning_rate,
        "learning_rate_schedule": "constant",
        "momentum": 0.0,
        "nesterov": False,
        "batch_size": 10,
        "init": "glorot_uniform",
    }
