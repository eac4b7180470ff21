"""First weights."""

import numpy as np
import pytest

from hardzero import activations
from hardzero.engine.initialise import SCHEMES, choose_scheme, initialise
from hardzero.errors import ParameterError

VARIANCES = {
    "glorot": 2 / (200 + 300),
    "he": 2 / 200,
    "he_mean": 4 / (200 + 300),
    "lecun": 1 / 200,
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_variance_and_distribution(scheme):
    """Weights have the variance of their scheme; biases are 0."""
    layer = initialise([200, 300, 2], ["rectifier"], seed=0, scheme=scheme).layers[0]
    family, distribution = scheme.rsplit("_", 1)
    assert layer.W.var() == pytest.approx(VARIANCES[family], rel=0.03)
    assert abs(layer.W.mean()) < 4 * np.sqrt(VARIANCES[family] / layer.W.size)
    limit = np.sqrt(3 * VARIANCES[family])
    if distribution == "uniform":
        assert 0.99 * limit < np.abs(layer.W).max() <= np.float32(limit)
    else:
        assert np.abs(layer.W).max() > 1.5 * limit
    assert not layer.b.any()


def test_leaky_slope_lowers_he():
    """He's variance counts what passes on the negative side (eq. 15)."""
    layer = initialise(
        [200, 300, 2], ["leaky_rectifier(0.5)"], seed=0, scheme="he_normal"
    ).layers[0]
    assert layer.W.var() == pytest.approx(2 / 1.25 / 200, rel=0.03)


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("rectifier", "he_mean_normal"),
        ("prelu", "he_mean_normal"),
        ("gelu", "he_mean_normal"),
        ("selu", "lecun_normal"),
        ("tanh", "glorot_uniform"),
        ("softplus", "glorot_uniform"),
        ("identity", "glorot_uniform"),
    ],
)
def test_auto_follows_the_activation(name, scheme):
    """Auto takes He for the rectifier's relatives, LeCun for SELU, else Glorot."""
    assert choose_scheme(activations.get(name)) == scheme
    auto = initialise([5, 7, 3], [name], seed=1)
    assert (
        auto.layers[0] == initialise([5, 7, 3], [name], seed=1, scheme=scheme).layers[0]
    )
    glorot = initialise([5, 7, 3], [name], seed=1, scheme="glorot_uniform")
    assert np.abs(auto.layers[1].W).max() <= np.sqrt(6 / 10)
    assert auto.layers[1].activation == glorot.layers[1].activation


def test_every_activation_has_a_start():
    """Each entry of the catalogue can be initialised by "auto"."""
    for name in activations.CATALOGUE:
        stack = initialise([3, 4, 2], [name], seed=0, sign_flip=True)
        assert stack.layers[0].activation == activations.get(name)


def test_rectifier_signals_keep_their_size():
    """Through 15 square layers "auto" keeps the second moment, Glorot loses it."""
    X = np.random.default_rng(0).standard_normal((200, 300)).astype(np.float32)

    def moment(scheme):
        stack = initialise([300] * 17, ["rectifier"] * 15, seed=0, scheme=scheme)
        return np.square(stack.truncate(15)(X)).mean()

    assert 0.3 < moment("auto") < 3
    assert moment("glorot_uniform") < 1e-3


def test_sign_flip_turns_the_second_half():
    """Half of each hidden layer's units, rounded down, have the sign -1."""
    stack = initialise([3, 4, 5, 1, 2], ["rectifier"] * 3, seed=0, sign_flip=True)
    signs = [None if s is None else list(s) for s in (x.signs for x in stack.layers)]
    assert signs == [[1, 1, -1, -1], [1, 1, 1, -1, -1], [1], None]


def test_seed_decides():
    """One seed gives the same weights, rounded for float32; another gives others."""
    args = [4, 5, 2], ["rectifier"]
    double = initialise(*args, seed=3, dtype=np.float64)
    assert initialise(*args, seed=3, dtype=np.float64) == double
    assert initialise(*args, seed=3, dtype=np.float32) == double.astype(np.float32)
    assert initialise(*args, seed=4, dtype=np.float64) != double


def test_errors():
    """Unknown schemes and a wrong number of activations are refused."""
    with pytest.raises(ParameterError, match=r"init='xavier'.*glorot_uniform"):
        initialise([1, 2, 3], ["rectifier"], seed=0, scheme="xavier")
    with pytest.raises(ParameterError, match="2 activations were given for 1 hidden"):
        initialise([1, 2, 3], ["rectifier", "tanh"], seed=0)
