"""The network that denoises: which rows it sees, what they cost, where it goes."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from hardzero import kernels
from hardzero.engine import denoise
from hardzero.engine.corruption import parse_corruption
from hardzero.engine.denoise import DenoisingNetwork
from hardzero.engine.initialise import initialise
from hardzero.engine.reconstruction import Reconstruction, parse_decoder
from hardzero.errors import ParameterError
from hardzero.kernels.rules import SGD
from hardzero.random import row_hashes, stream_key

N, D, H = 12, 5, 7
X = np.random.default_rng(0).uniform(size=(N, D)) * (
    np.random.default_rng(1).uniform(size=(N, D)) < 0.7
)
CORRUPTIONS = ["none", "masking(0.4)", "salt_and_pepper(0.4, 0.3)", "swap(0.4)"]


def make(
    X=X, corruption="masking(0.4)", decoder="softplus", rate=0.1, engine="dense", **more
):
    """Return a network bound to rows, and its stack."""
    stack = initialise(
        (D, H, D), ["rectifier"], seed=0, output_link="identity", dtype=float
    )
    weights = more.pop("weights", None)
    network = DenoisingNetwork(
        kernels.build(stack, SGD(rate), engine=engine),
        parse_corruption(corruption).fit(X, weights),
        Reconstruction(parse_decoder(decoder)),
        row_hashes(X),
        **{"seed": 3, "purpose": "layer 1"} | more,
    )
    network.bind(X, None, weights)
    return network, stack


def outputs_of(stack, rows):
    """Return what a stack puts out, from its arrays."""
    h = np.maximum(rows @ stack.layers[0].W + stack.layers[0].b, 0)
    return h @ stack.layers[1].W + stack.layers[1].b


def noisy(corruption, rows, epoch, hashes=None):
    """Return rows with the noise of an epoch."""
    key = stream_key(3, "corruption of layer 1", epoch)
    hashes = row_hashes(rows) if hashes is None else hashes
    return parse_corruption(corruption).fit(X)(rows, hashes, key)


# ------------------------------------------------------------------ what it sees


@pytest.mark.parametrize("corruption", [*CORRUPTIONS, "gaussian(0.3)"])
def test_the_network_sees_rows_with_the_noise_of_the_epoch(corruption):
    """Its outputs are those of the plain network for corrupted rows."""
    network, stack = make(corruption=corruption)
    rows = np.array([4, 0, 9])
    for epoch in (1, 2, 7):
        network.begin_epoch(epoch)
        expected = outputs_of(stack, noisy(corruption, X, epoch)[rows])
        np.testing.assert_allclose(network.forward_batch(rows), expected, rtol=1e-12)


def test_each_epoch_has_noise_of_its_own_and_keeps_it():
    """Noise differs between epochs, and is the same when an epoch is begun again."""
    network, _ = make()
    rows, seen = np.arange(N), []
    for epoch in (1, 2, 1):
        network.begin_epoch(epoch)
        seen.append(network.forward_batch(rows).copy())
    assert not np.array_equal(seen[0], seen[1])
    np.testing.assert_array_equal(seen[0], seen[2])


@pytest.mark.parametrize("change", [{"seed": 4}, {"purpose": "layer 2"}], ids=str)
def test_seed_and_purpose_make_other_noise(change):
    """Two layers, and two seeds, do not share their noise."""
    rows = np.arange(N)
    first, other = (make(**more)[0].forward_batch(rows) for more in ({}, change))
    assert not np.array_equal(first, other)


def test_noise_depends_neither_on_batch_nor_on_order():
    """A row gets the same noise in any batch, at any place."""
    network, _ = make()
    together = network.forward_batch(np.arange(N)).copy()
    order = np.random.default_rng(2).permutation(N)
    np.testing.assert_allclose(network.forward_batch(order), together[order])
    for row in order[:4]:
        np.testing.assert_allclose(
            network.forward_batch(np.array([row]))[0], together[row]
        )


@pytest.mark.parametrize("corruption", CORRUPTIONS)
@pytest.mark.parametrize("engine", ["reference", "sparse", "dense"])
def test_sparse_rows_are_as_dense_ones(corruption, engine):
    """CSR rows give the steps of dense ones."""
    stacks = []
    for rows in (X, sp.csr_array(X)):
        network, _ = make(rows, corruption, engine=engine)
        losses = [network.step(np.arange(k, N, 2)) for k in (0, 1)]
        stacks.append((network.stack(), losses))
    np.testing.assert_allclose(stacks[0][1], stacks[1][1], rtol=1e-12)
    for one, other in zip(stacks[0][0].layers, stacks[1][0].layers, strict=True):
        np.testing.assert_allclose(one.W, other.W, rtol=1e-10, atol=1e-14)


def test_inputs_and_targets_are_made_from_the_rows():
    """What makes inputs comes before the noise; targets are made of clean rows."""
    network, stack = make(
        X - 0.3, inputs=lambda z: np.maximum(z, 0), target=lambda z: z**2
    )
    rows = np.arange(N)
    clean = np.maximum(X - 0.3, 0)
    seen = noisy("masking(0.4)", clean, 1, row_hashes(X - 0.3))
    outputs = outputs_of(stack, seen)
    np.testing.assert_allclose(network.forward_batch(rows), outputs, rtol=1e-12)
    cost = (((X - 0.3) ** 2 - np.logaddexp(0, outputs)) ** 2).sum(axis=1).mean()
    assert network.step(rows) == pytest.approx(cost, rel=1e-12)


# ------------------------------------------------------------------ a step


@pytest.mark.parametrize("decoder", ["softplus", "sigmoid", "linear", "rectifier"])
@pytest.mark.parametrize("corruption", ["none", "masking(0.4)"])
def test_a_step_goes_down_the_gradient(decoder, corruption):
    """It moves each weight by minus the rate times the derivative of the loss, which
    compares outputs for corrupted rows with clean rows.
    """
    network, stack = make(corruption=corruption, decoder=decoder)
    rows = np.arange(N)
    seen = noisy(corruption, X, 1)
    objective = Reconstruction(parse_decoder(decoder))

    def loss(changed):
        return objective.losses(outputs_of(changed, seen), X).mean()

    assert network.step(rows) == pytest.approx(loss(stack), rel=1e-12)
    moved = network.stack()
    for number in (0, 1):
        slope = np.empty_like(stack.layers[number].W)
        for place in np.ndindex(*slope.shape):
            ends = []
            for shift in (1e-6, -1e-6):
                W = stack.layers[number].W.copy()
                W[place] += shift
                layers = list(stack.layers)
                layers[number] = dataclasses.replace(layers[number], W=W)
                ends.append(loss(dataclasses.replace(stack, layers=tuple(layers))))
            slope[place] = (ends[0] - ends[1]) / 2e-6
        found = (stack.layers[number].W - moved.layers[number].W) / 0.1
        np.testing.assert_allclose(found, slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_a_weight_of_two_is_two_rows(corruption):
    """A step over weighted rows is one over repeated rows."""
    weights = np.random.default_rng(3).integers(1, 4, N)
    weighted, _ = make(corruption=corruption, weights=weights.astype(float))
    repeated, _ = make(np.repeat(X, weights, axis=0), corruption)
    n_rows = weights.sum()
    losses = [one.step(np.arange(n)) for one, n in ((weighted, N), (repeated, n_rows))]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    for one, other in zip(
        weighted.stack().layers, repeated.stack().layers, strict=True
    ):
        np.testing.assert_allclose(one.W, other.W, rtol=1e-10)


def test_a_step_with_an_infinite_loss_changes_nothing():
    """The loss is handed over; weights stay as they were."""
    network, stack = make(1e200 * X, corruption="none")
    assert not np.isfinite(network.step(np.arange(N)))
    assert network.stack() == stack


def test_nothing_can_be_done_before_rows_are_bound():
    """The error of all networks says so."""
    stack = initialise((D, H, D), ["rectifier"], seed=0, dtype=float)
    network = DenoisingNetwork(
        kernels.build(stack, SGD(0.1), engine="dense"),
        parse_corruption("none").fit(X),
        Reconstruction(parse_decoder("linear")),
        row_hashes(X),
        seed=0,
        purpose="layer 1",
    )
    for act in (network.step, network.forward_batch):
        with pytest.raises(ParameterError, match="bind"):
            act(np.arange(3))


# ------------------------------------------------------------------ validation


def test_the_loss_of_other_rows_always_has_the_same_noise():
    """It is the weighted mean cost under the noise of epoch 0, whatever the epoch."""
    network, stack = make()
    other = np.random.default_rng(4).uniform(size=(9, D))
    weights = np.arange(9.0)
    outputs = outputs_of(stack, noisy("masking(0.4)", other, 0))
    costs = ((other - np.logaddexp(0, outputs)) ** 2).sum(axis=1)
    for epoch in (1, 2):
        network.begin_epoch(epoch)
        found = network.loss(other, row_hashes(other), weights)
        assert found == pytest.approx(np.average(costs, weights=weights), rel=1e-12)
    plain = network.loss(other, row_hashes(other), None)
    assert plain == pytest.approx(costs.mean(), rel=1e-12)


def test_the_loss_is_the_same_in_pieces(monkeypatch):
    """Rows that do not fit into memory at once cost what they cost together."""
    network, _ = make()
    weights = np.random.default_rng(5).uniform(size=N)
    whole = network.loss(X, row_hashes(X), weights)
    for piece in (1, 2 * D, 5 * D + 1):
        monkeypatch.setattr(denoise, "_PIECE", piece)
        for rows in (X, sp.csr_array(X)):
            pieces = network.loss(rows, row_hashes(X), weights)
            assert pieces == pytest.approx(whole, rel=1e-12)


def test_the_loss_leaves_out_rows_without_weight():
    """A row of weight 0 does not count, even where its cost is infinite."""
    network, _ = make(corruption="none")
    rows = np.vstack([X, np.full((1, D), 1e200)])
    weights = np.append(np.ones(N), 0)
    plain = network.loss(X, row_hashes(X), None)
    assert network.loss(rows, row_hashes(rows), weights) == pytest.approx(plain)
    assert network.loss(rows, row_hashes(rows), None) == np.inf


# ------------------------------------------------------------------ the protocol


def test_state_and_stack_can_be_set():
    """A copy that gets the state, or the stack, goes on with the same bits."""
    network, _ = make()
    network.step(np.arange(N))
    copy, _ = make()
    copy.set_state(network.state())
    other, _ = make()
    other.load(network.stack())
    for one in (network, copy, other):
        one.set_learning_rate(0.01)
        one.begin_epoch(2)
        one.step(np.arange(0, N, 2))
    assert network.stack() == copy.stack() == other.stack()
    np.testing.assert_array_equal(network.forward(X), copy.forward(X))


def test_statistics_count_the_encodings_of_corrupted_rows():
    """Zeros are counted as the steps have seen them."""
    network, stack = make()
    network.step(np.arange(N))
    seen = noisy("masking(0.4)", X, 1)
    h = np.maximum(seen @ stack.layers[0].W + stack.layers[0].b, 0)
    (counts,) = network.statistics()
    assert (counts.n_rows, counts.n_nonzero) == (N, np.count_nonzero(h))
