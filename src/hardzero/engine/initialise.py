"""First weights of a network: drawn per layer from one seeded stream, biases zero.

Each scheme sets the variance of the weights from the number of inputs and units of
the layer, so that signals keep their size on the way through the network, or gradients
on the way back, or both halfway:

===========  ========================  ==================================
scheme       variance                  meant for
===========  ========================  ==================================
``he``       2 / n_inputs              units that are off half of the time
``he_mean``  4 / (n_inputs + n_units)  the same
``glorot``   2 / (n_inputs + n_units)  tanh-like units, output layers
``lecun``    1 / n_inputs              SELU
===========  ========================  ==================================

each with ``_normal`` or ``_uniform`` for the distribution. Between layers of one width
``he_mean`` is ``he``; a wide layer on few inputs gets smaller weights from it, which
classified small tables better (iris, wine, breast cancer) and was no worse elsewhere.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hardzero import activations
from hardzero.activations import Activation
from hardzero.errors import ParameterError
from hardzero.random import generator
from hardzero.stack import Layer, OutputLink, RectifierStack

__all__ = ["SCHEMES", "choose_scheme", "initialise"]

SCHEMES = (
    "glorot_normal",
    "glorot_uniform",
    "he_mean_normal",
    "he_mean_uniform",
    "he_normal",
    "he_uniform",
    "lecun_normal",
    "lecun_uniform",
)

_RECTIFIER_LIKE = frozenset(
    {
        "rectifier",
        "leaky_rectifier",
        "prelu",
        "elu",
        "gelu",
        "silu",
        "mish",
        "capped_rectifier",
        "rectified_tanh",
        "leaky_integrate_and_fire",
    }
)


def initialise(
    sizes: Sequence[int],
    hidden_activations: Sequence[Activation | str],
    *,
    seed: int,
    scheme: str = "auto",
    sign_flip: bool = False,
    output_link: OutputLink = "softmax",
    dtype: npt.DTypeLike = np.float32,
) -> RectifierStack:
    """Return a network with random weights and zero biases.

    Parameters
    ----------
    sizes : sequence of int
        Number of inputs, of units of each hidden layer, and of outputs.
    hidden_activations : sequence of Activation or str
        One activation for each hidden layer. The output layer is linear.
    seed : int
        Seed of the weights. The numbers are drawn in float64 and then rounded, so a
        float32 network is the rounded float64 network of the same seed.
    scheme : str
        "auto" or one of `SCHEMES`: distribution of the weights. "auto" takes what
        `choose_scheme` returns, layer by layer.
    sign_flip : bool
        Give the second half of the units of each hidden layer the output sign -1 (of
        an odd number of units, the smaller half).
    output_link : {"identity", "softmax", "sigmoid", "exp"}
        Link of the output layer.
    dtype : dtype
        float32 or float64.

    Returns
    -------
    RectifierStack
        The network.

    Raises
    ------
    ParameterError
        If the scheme is unknown or the number of activations does not fit.

    References
    ----------
    Glorot & Bengio 2010, "Understanding the difficulty of training deep feedforward
    neural networks", eq. 16. He et al. 2015, "Delving deep into rectifiers", eq. 10
    and 15. Klambauer et al. 2017, "Self-normalizing neural networks", section 2.
    Glorot, Bengio & Bordes 2011, "Deep sparse rectifier neural networks", section 4.1
    (sign flip).
    """
    n_hidden = len(sizes) - 2
    if len(hidden_activations) != n_hidden:
        raise ParameterError(
            f"{len(hidden_activations)} activations were given for {n_hidden} hidden "
            "layers. Give one for each hidden layer."
        )
    if scheme not in ("auto", *SCHEMES):
        raise ParameterError(
            f"init={scheme!r} is not an initialisation. Give 'auto' or one of "
            f"{', '.join(SCHEMES)}."
        )
    stream = generator(seed, "init")
    layers = []
    for i in range(n_hidden + 1):
        is_hidden = i < n_hidden
        activation = activations.get(hidden_activations[i] if is_hidden else "identity")
        layers.append(
            Layer(
                W=_draw_weights(
                    stream,
                    sizes[i],
                    sizes[i + 1],
                    choose_scheme(activation) if scheme == "auto" else scheme,
                    activation,
                ).astype(dtype),
                b=np.zeros(sizes[i + 1], dtype),
                activation=activation,
                signs=_half_negative(sizes[i + 1], dtype)
                if is_hidden and sign_flip
                else None,
                slopes=_first_slopes(activation, sizes[i + 1], dtype),
            )
        )
    return RectifierStack(tuple(layers), output_link)


def choose_scheme(activation: Activation) -> str:
    """Return the initialisation that suits an activation.

    Parameters
    ----------
    activation : Activation
        Activation of the layer.

    Returns
    -------
    str
        "he_mean_normal" for the rectifier and its relatives, "lecun_normal" for SELU,
        "glorot_uniform" for all others, the linear output layer included.
    """
    if activation.name in _RECTIFIER_LIKE:
        return "he_mean_normal"
    if activation.name == "selu":
        return "lecun_normal"
    return "glorot_uniform"


def _draw_weights(
    stream: np.random.Generator,
    n_inputs: int,
    n_units: int,
    scheme: str,
    activation: Activation,
) -> npt.NDArray[np.float64]:
    family, distribution = scheme.rsplit("_", 1)
    mean = (n_inputs + n_units) / 2
    variance = 1 / (n_inputs if family in ("he", "lecun") else mean)
    if family in ("he", "he_mean"):
        variance *= 2 / (1 + _negative_slope(activation) ** 2)
    if distribution == "normal":
        return stream.normal(0.0, math.sqrt(variance), (n_inputs, n_units))
    limit = math.sqrt(3 * variance)
    return stream.uniform(-limit, limit, (n_inputs, n_units))


def _negative_slope(activation: Activation) -> float:
    # He et al. 2015, eq. 15: a unit that lets part of the negative side through
    # passes more variance on than a rectifier.
    is_leaky = activation.name in ("leaky_rectifier", "prelu")
    return activation.parameter if is_leaky else 0.0


def _half_negative(n_units: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    signs = np.ones(n_units, dtype)
    signs[n_units - n_units // 2 :] = -1
    return signs


def _first_slopes(
    activation: Activation, n_units: int, dtype: npt.DTypeLike
) -> npt.NDArray[Any] | None:
    if not activation.has_slopes:
        return None
    return np.full(n_units, activation.parameter, dtype)
