"""Denoising auto-encoders: what they learn, reconstruct, refuse and keep."""

import contextlib
import copy
import inspect
import pickle
import re
import signal
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from hardzero import (
    DataError,
    DenoisingAutoencoder,
    DivergenceError,
    ParameterError,
)
from hardzero.engine.corruption import Masking, parse_corruption
from hardzero.engine.denoise import DenoisingNetwork, SampledDenoisingNetwork
from hardzero.engine.reconstruction import Reconstruction, Softplus, parse_decoder
from hardzero.random import row_hashes, stream_key

pytestmark = pytest.mark.filterwarnings("ignore::hardzero.DeadUnitWarning")

DIGITS = load_digits().data / 16
X = DIGITS[:150]
CORRUPTIONS = [
    "none",
    "masking(0.3)",
    "salt_and_pepper(0.5, 0.1)",
    "salt_and_pepper(0.1, density)",
    "gaussian(0.2)",
    "swap(0.3)",
]
SPARSE_CORRUPTIONS = [one for one in CORRUPTIONS if "gaussian" not in one]
DECODERS = [
    "softplus",
    "sigmoid",
    "linear",
    "rectifier",
    "censored_gaussian(0.5)",
    "censored_laplace",
]
every_corruption = pytest.mark.parametrize("corruption", CORRUPTIONS)


def make(sizes=(12,), **options):
    """Return a small auto-encoder."""
    settings = {"corruption": "masking(0.3)", "decoder": "softplus", "max_epochs": 4}
    return DenoisingAutoencoder(
        sizes, **settings | {"learning_rate": 0.01, "random_state": 0} | options
    )


def learned(autoencoder, number):
    """Return encoder and decoder of a layer, counted from 1."""
    return autoencoder._layers[number - 1].stack.layers


def assert_alike(first, second, rtol=1e-8):
    """Compare two auto-encoders, encoders and decoders, up to rounding."""
    for number in range(1, len(first.stack_.layers) + 1):
        for one, other in zip(
            learned(first, number), learned(second, number), strict=True
        ):
            size = np.abs(one.W).max()
            np.testing.assert_allclose(one.W, other.W, rtol=rtol, atol=rtol * size)
            np.testing.assert_allclose(one.b, other.b, rtol=rtol, atol=rtol * size)


def assert_equal(first, second):
    """Compare two auto-encoders bit for bit."""
    assert first.stack_ == second.stack_
    for number in range(1, len(first.stack_.layers) + 1):
        for one, other in zip(
            learned(first, number), learned(second, number), strict=True
        ):
            np.testing.assert_array_equal(one.W, other.W)
            np.testing.assert_array_equal(one.b, other.b)
    assert [one.loss for one in first.histories_] == [
        one.loss for one in second.histories_
    ]


# ------------------------------------------------------------------ what noise is


@every_corruption
@pytest.mark.parametrize(
    "options", [{"l1_activation": 0.1}, {"tied": True, "l1_activation": 0.1}], ids=str
)
def test_weighted_rows_are_repeated_rows(corruption, options):
    """In one batch, a row of weight 2 is as good as two, noise included."""
    weights = np.random.default_rng(0).integers(0, 4, 150)
    network = make((12, 6), corruption=corruption, batch_size=1000, **options)
    weighted = clone(network).fit(X, sample_weight=weights)
    repeated = clone(network).fit(np.repeat(X, weights, axis=0))
    assert_alike(weighted, repeated)


def test_weighted_rows_are_repeated_rows_in_the_validation_split():
    """Rows are set aside by weight, and equal ones together."""
    weights = np.random.default_rng(0).integers(1, 4, 150)
    network = make(batch_size=1000, early_stopping=True, validation_fraction=0.3)
    weighted = clone(network).fit(X, sample_weight=weights)
    repeated = clone(network).fit(np.repeat(X, weights, axis=0))
    assert_alike(weighted, repeated)
    np.testing.assert_allclose(
        weighted.histories_[0].validation_loss, repeated.histories_[0].validation_loss
    )


@every_corruption
def test_the_order_of_rows_does_not_matter(corruption):
    """With all rows in one batch, and row by row the same noise."""
    network = make((12, 6), corruption=corruption, batch_size=1000)
    order = np.random.default_rng(0).permutation(150)
    assert_alike(clone(network).fit(X), clone(network).fit(X[order]))


@pytest.mark.parametrize("corruption", SPARSE_CORRUPTIONS)
def test_sparse_rows_are_as_dense_ones(corruption):
    """The format of the rows does not matter, nor stored zeros in it."""
    rows = sp.csr_array(X)
    rows.data[::5] = 0
    network = make((12, 6), corruption=corruption)
    dense, sparse = (clone(network).fit(one) for one in (rows.toarray(), rows))
    assert_alike(dense, sparse)
    np.testing.assert_allclose(
        dense.score_samples(rows.toarray()), sparse.score_samples(rows.tocoo())
    )
    np.testing.assert_allclose(
        dense.reconstruct(X), sparse.reconstruct(sp.csc_array(X))
    )


def test_layers_and_epochs_have_noise_of_their_own():
    """Two layers of the same size on the same rows see different zeros."""
    seen = []
    network = make((64, 64), corruption="masking(0.5)", max_epochs=2, batch_size=1000)

    class Spy(Masking):
        def fit(self, X, sample_weight=None):
            inner = super().fit(X, sample_weight)

            def corruptor(rows, hashes, key):
                seen.append(inner(np.ones((len(hashes), 64)), hashes, key))
                return inner(rows, hashes, key)

            return corruptor

    network.set_params(corruption=Spy(0.5)).fit(X)
    assert len(seen) == 4
    for number, one in enumerate(seen):
        assert 0.4 < one.mean() < 0.6
        for other in seen[:number]:
            assert len({one.sum(), other.sum()}) == 2


def test_layers_have_first_weights_of_their_own():
    """Two layers of the same size do not start from the same weights."""
    network = make((64, 64), max_epochs=1, learning_rate=1e-14).fit(X)
    first, second = (layer.W.ravel() for layer in network.stack_.layers)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.1


# ------------------------------------------------------------------ the same bits


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tied": True, "sizes": (12, 6)},
        {"corruption": "swap(0.2)", "early_stopping": True},
        {"learning_rate": (0.01, 0.001)},
    ],
    ids=str,
)
def test_the_same_seed_gives_the_same_bits(options):
    """And another seed others."""
    network = make(**options)
    first = clone(network).fit(X)
    assert_equal(first, clone(network).fit(X))
    other = clone(network).set_params(random_state=1).fit(X)
    assert first.stack_ != other.stack_


def test_without_a_seed_each_fit_is_another():
    """A RandomState, too, is asked anew for each fit."""
    for state in (None, np.random.RandomState(0)):
        network = make(random_state=state, max_epochs=1)
        assert network.fit(X).stack_ != network.fit(X).stack_


@every_corruption
@pytest.mark.parametrize(
    "options", [{}, {"solver": "sgd", "momentum": 0.5, "l2": 1e-3}], ids=str
)
def test_engines_agree(corruption, options):
    """In float64 the kernels learn what the definition of right learns."""
    reference, *others = (
        make((12, 6), corruption=corruption, engine=engine, **options).fit(X)
        for engine in ("reference", "dense", "sparse")
    )
    for other in others:
        assert_alike(reference, other, rtol=1e-9)
        np.testing.assert_allclose(
            other.transform(X), reference.transform(X), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("engine", ["auto", "sparse"])
def test_threads_do_not_matter(engine):
    """Two threads give the bits of one."""
    one, two = (make((30, 9), engine=engine, n_threads=n).fit(X) for n in (1, 2))
    assert_equal(one, two)
    np.testing.assert_array_equal(one.transform(X), two.transform(X))


# ------------------------------------------------------------------ what it learns


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_noise_is_undone(corruption):
    """Trained to undo a kind of noise, it brings rows with such noise nearer to what
    they were.
    """
    network = make(60, corruption=corruption, max_epochs=15).fit(DIGITS[:500])
    clean = DIGITS[500:]
    corruptor = parse_corruption(corruption).fit(DIGITS[:500])
    noisy = corruptor(clean, row_hashes(clean), stream_key(5, "test", 0))
    before = ((noisy - clean) ** 2).sum(axis=1).mean()
    after = ((network.reconstruct(noisy) - clean) ** 2).sum(axis=1).mean()
    assert after < (0.8 * before if before else 2.0)
    history = network.histories_[0]
    assert history.loss[-1] < 0.5 * history.loss[0]


def test_rows_unlike_those_of_fit_are_anomalies():
    """Digits with shuffled pixels, of the same values, have lower scores."""
    network = make(60, max_epochs=20).fit(DIGITS[:1000])
    rng = np.random.default_rng(0)
    strange = rng.permuted(DIGITS[1000:], axis=1)
    scores = network.score_samples(np.vstack([DIGITS[1000:], strange]))
    is_known = np.repeat([True, False], len(strange))
    assert roc_auc_score(is_known, scores) > 0.99


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("options", [{}, {"tied": True}], ids=str)
def test_scores_are_the_loss_without_noise(decoder, options):
    """For one layer the mean score is minus the loss that training reports, where
    there is no noise and weights hardly move; weights of rows count in both.
    """
    weights = np.random.default_rng(0).integers(0, 3, 150)
    network = make(
        corruption="none",
        decoder=decoder,
        learning_rate=1e-13,
        max_epochs=1,
        **options,
    ).fit(X, sample_weight=weights)
    scores = network.score_samples(X)
    assert (scores.shape, scores.dtype) == ((150,), np.float64)
    loss = network.histories_[0].loss[0]
    assert -network.score(X, sample_weight=weights) == pytest.approx(loss, rel=1e-9)
    assert network.score(X) == pytest.approx(scores.mean())


def test_scores_of_deep_ones_are_costs_of_their_reconstruction():
    """They compare rows with what `reconstruct` returns."""
    network = make((12, 8, 6), decoder=("linear", "softplus", "linear(pre)")).fit(X)
    errors = ((network.reconstruct(X) - X) ** 2).sum(axis=1)
    np.testing.assert_allclose(network.score_samples(X), -errors, rtol=1e-9)


@pytest.mark.parametrize("part", [1, 100, 10**6])
def test_scores_do_not_depend_on_pieces(part, monkeypatch):
    """Rows that do not fit into memory at once are scored in pieces."""
    network = make((12, 8)).fit(X)
    whole = network.score_samples(X)
    monkeypatch.setattr("hardzero.estimators.denoising._PIECE", part)
    np.testing.assert_allclose(network.score_samples(X), whole)


def test_a_penalty_on_encodings_makes_zeros():
    """It can be given per layer, and shows in the sparsity of that layer alone."""
    plain, second = (
        make((30, 30), max_epochs=20, l1_activation=penalty).fit(X)
        for penalty in (0.0, (0.0, 0.3))
    )
    assert plain.histories_[0].sparsity == second.histories_[0].sparsity
    (before,), (after,) = (one.histories_[1].sparsity[-1] for one in (plain, second))
    assert after > before + 0.1


# ------------------------------------------------------------------ sampling

WIDE = sp.csr_array(np.hstack([X, np.zeros((150, 300)), X[:, ::-1]]))


def sampling(share=0.2, **options):
    """Return an auto-encoder that reconstructs a part of the zeros."""
    settings = {"solver": "sgd", "learning_rate": 0.003, "sizes": 12}
    return make(reconstruction_sampling=share, **settings | options)


@pytest.mark.parametrize("corruption", SPARSE_CORRUPTIONS)
def test_sampling_all_zeros_is_reconstructing_them(corruption):
    """A share of 1 gives what is learned without sampling, in all layers."""
    sampled, exact = (
        sampling(share, corruption=corruption, sizes=(12, 6)).fit(WIDE)
        for share in (1.0, None)
    )
    assert_alike(sampled, exact)
    losses = [one.histories_[0].loss for one in (sampled, exact)]
    assert losses[0] == pytest.approx(losses[1])


@pytest.mark.parametrize("share", [0.1, "auto"])
def test_sampling_learns_the_same(share):
    """With few of the zeros, reconstructions are about as good; scores are exact."""
    start, exact, sampled = (
        sampling(how, max_epochs=n).fit(WIDE)
        for how, n in ((None, 1), (None, 40), (share, 40))
    )
    gain = sampled.score(WIDE) - start.score(WIDE)
    assert gain > 0.8 * (exact.score(WIDE) - start.score(WIDE)) > 0
    errors = ((sampled.reconstruct(WIDE) - WIDE.toarray()) ** 2).sum(axis=1)
    np.testing.assert_allclose(sampled.score_samples(WIDE), -errors)
    assert_equal(sampled, sampling(share, max_epochs=40).fit(WIDE))


def test_sampling_draws_by_content_of_rows():
    """A weight of two is two rows, and the order of rows does not matter."""
    network = sampling(batch_size=1000)
    weights = np.random.default_rng(0).integers(0, 4, 150)
    rows = np.repeat(np.arange(150), weights)
    weighted = clone(network).fit(WIDE, sample_weight=weights)
    assert_alike(weighted, clone(network).fit(WIDE[rows]))
    order = np.random.default_rng(0).permutation(rows)
    assert_alike(weighted, clone(network).fit(WIDE[order]))


def test_sampling_goes_on(tmp_path):
    """Calls of partial_fit and checkpoints do what one fit does."""
    whole = sampling().fit(WIDE)
    parts = sampling()
    for _ in range(4):
        parts.partial_fit(WIDE)
    assert_equal(parts, whole)
    with pytest.raises(ParameterError, match="reconstruction_sampling was on and is o"):
        parts.set_params(reconstruction_sampling=None).partial_fit(WIDE)
    network = sampling(checkpoint=tmp_path / "file", checkpoint_seconds=0.0)
    with (
        _ended_at(13, _cut_off, SampledDenoisingNetwork),
        pytest.raises(_CutOffError),
    ):
        network.fit(WIDE)
    assert_equal(network.fit(WIDE), whole)


def test_sampling_with_validation_rows():
    """Their loss is estimated by the same sample after each epoch."""
    network = sampling(learning_rate=1e-13).fit(WIDE[:100], X_val=WIDE[100:])
    losses = network.histories_[0].validation_loss
    assert losses == pytest.approx([losses[0]] * 4)
    exact = sampling(None, learning_rate=1e-13).fit(WIDE[:100], X_val=WIDE[100:])
    assert losses[0] == pytest.approx(exact.histories_[0].validation_loss[0], rel=0.1)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (X, {}, "sampling=0.2 was given with a dense X, expected sparse rows"),
        (WIDE, {"tied": True}, "sampling=0.2 was given with tied=True, expected"),
        (WIDE, {"solver": "adam"}, "Give solver='sgd', momentum=0"),
        (WIDE, {"momentum": 0.9}, "Give solver='sgd', momentum=0"),
        (WIDE, {"share": 0.0}, "reconstruction_sampling=0.0 was given"),
        (WIDE, {"share": "all"}, "reconstruction_sampling='all' was given"),
    ],
)
def test_sampling_that_is_not_possible(rows, options, message):
    """What it cannot be combined with is named."""
    with pytest.raises(ParameterError, match=message):
        sampling(**options).fit(rows)


# ------------------------------------------------------------------ validation


def test_validation_rows_choose_the_epoch():
    """The weights of the epoch with the least error on them are kept."""
    network = make(60, corruption="none", max_epochs=40, learning_rate=0.05)
    chosen = clone(network).fit(X[:10], X_val=X[40:])
    (history,) = chosen.histories_
    losses = history.validation_loss
    assert len(losses) == 40
    best = int(np.argmin(losses)) + 1
    assert history.best_epoch == best < 40
    assert -chosen.score(X[40:]) == pytest.approx(losses[best - 1])
    shorter = clone(network).set_params(max_epochs=best).fit(X[:10])
    assert shorter.stack_ == chosen.stack_


def test_early_stopping_needs_no_rows_of_its_own():
    """Some rows are set aside; training ends when their error no longer falls."""
    network = make(
        (60, 30),
        corruption="none",
        learning_rate=0.05,
        max_epochs=300,
        early_stopping=True,
        validation_fraction=0.4,
        patience=3,
    ).fit(X)
    for history in network.histories_:
        assert history.stopped == "early_stopping"
        assert history.n_epochs == history.best_epoch + 3 < 300
    message = (
        r"early_stopping=True .* only one row, .*X_val, or early_stopping=False\.$"
    )
    with pytest.raises(DataError, match=message):
        clone(network).fit(np.ones((9, 3)))


def test_the_noise_of_validation_rows_stays_the_same():
    """Where nothing is learned, their error is the same after each epoch."""
    network = make(learning_rate=1e-14, max_epochs=3).fit(X[:100], X_val=X[100:])
    losses = network.histories_[0].validation_loss
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-9)
    assert losses[0] != pytest.approx(-network.score(X[100:]), rel=1e-3)


def test_the_best_rate_of_a_grid_is_kept():
    """Each layer takes the one with the least error on validation rows."""
    rates = (1e-4, 0.03, 0.003)
    network = make((20, 10), learning_rate=rates, max_epochs=5)
    chosen = clone(network).fit(X[:100], X_val=X[100:])
    single = [
        clone(network).set_params(learning_rate=rate).fit(X[:100], X_val=X[100:])
        for rate in rates
    ]
    least = min(single, key=lambda one: min(one.histories_[0].validation_loss))
    assert chosen.learning_rates_[0] == least.learning_rates_[0] == 0.03
    assert chosen.stack_.layers[0] == least.stack_.layers[0]
    assert len(chosen.learning_rates_) == 2
    assert set(chosen.learning_rates_) <= set(rates)
    assert chosen.histories_[0].learning_rate == chosen.learning_rates_[:1] * 5
    aside = clone(network).fit(X)  # rows are set aside if none are given
    assert len(aside.histories_[0].validation_loss) == 5


@pytest.mark.parametrize("rates", [(1e200, 0.01), (0.01, 1e200), [0.01, 1e200, 1e250]])
def test_rates_that_diverge_are_passed_over(rates):
    """One that does not is enough; if there is none, the error is told."""
    network = make((12, 6), solver="sgd", learning_rate=rates)
    assert network.fit(X).learning_rates_ == (0.01, 0.01)
    network.set_params(learning_rate=(1e200, 1e210))
    with pytest.raises(DivergenceError, match=r"at learning rate 1e\+210"):
        network.fit(X)
    with pytest.raises(NotFittedError):
        network.transform(X)


def test_a_grid_without_rows_to_choose_by():
    """The error speaks of rates, and of early stopping only where it is asked for."""
    network = make(learning_rate=(0.1, 0.01))
    message = r"^the choice of one learning_rate of \(0.1, 0.01\) needs .*or one learn"
    with pytest.raises(DataError, match=message):
        network.fit(np.ones((9, 3)))
    with pytest.raises(DataError, match="early_stopping=False and one learning_rate"):
        network.set_params(early_stopping=True).fit(np.ones((9, 3)))


def test_layers_that_diverge_are_named():
    """With the scale of the decoder, where the costs are divided by one."""
    tiny = ("softplus", "censored_gaussian(1e-25)")
    message = r"^layer 2 of 2: training.*'censored_gaussian\(1e-25\)' divides errors"
    with pytest.raises(DivergenceError, match=message) as raised:
        make((12, 6), decoder=tiny, solver="sgd").fit(X)
    assert (raised.value.layer, raised.value.epoch) == (2, 1)
    with pytest.raises(DivergenceError, match=r"^layer 1 of 2") as raised:
        make((12, 6), solver="sgd", learning_rate=1e200).fit(X)
    assert "scale: " not in str(raised.value)


def test_errors_name_validation_rows():
    """Not the training rows, which are sound."""
    for rows, message in (
        (np.full_like(X, np.nan), "Input X_val contains NaN"),
        (X[:, :9], "X_val has 9 features"),
    ):
        with pytest.raises(ValueError, match=message):
            make().fit(X, X_val=rows)


def test_one_rate_is_no_grid():
    """A sequence of one number needs no validation rows."""
    network = make(learning_rate=[0.01]).fit(X)
    assert_equal(network, make().fit(X))
    assert network.histories_[0].validation_loss == ()


# ------------------------------------------------------------------ layers


def test_parameters_for_each_layer():
    """Noise, decoder and activation can be given for each layer, also as objects."""
    network = make(
        (12, 8, 6),
        activation=("rectifier", "tanh", "softplus"),
        corruption=("none", Masking(0.5), "swap(0.1)"),
        decoder=(Softplus(), "linear(pre)", "sigmoid"),
    ).fit(X)
    assert network.corruptions_ == ("none", "masking(0.5)", "swap(0.1)")
    assert network.decoders_ == ("softplus", "linear(pre)", "sigmoid")
    assert network.stack_.sizes == (64, 12, 8, 6)
    names = [str(layer.activation) for layer in network.stack_.layers]
    assert names == ["rectifier", "tanh", "softplus"]
    assert len(network.histories_) == 3
    assert network.transform(X).shape == (150, 6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"corruption": ("none",)}, "corruption has 1 entries but hidden_sizes has 2"),
        ({"decoder": ["linear"] * 3}, "decoder has 3 entries but .* per layer, or a"),
        ({"l1_activation": (0.1,)}, "l1_activation has 1 entries but"),
        ({"activation": ["tanh"] * 3}, "activation has 3 entries but hidden_sizes has"),
        ({"sizes": ()}, "hidden_sizes is empty, expected at least one layer"),
        ({"corruption": "masking"}, r"'masking' got .*\(rate\).*'masking\(0.25\)'"),
        ({"corruption": "maskin(0.1)"}, r"'maskin' is unknown.*'masking\(0.25\)'"),
        ({"corruption": ("none", "masking(2)")}, "rate of .* is 2.0, expected"),
        ({"corruption": 3}, "corruption=3 was given to DenoisingAutoencoder, expec"),
        ({"decoder": "soft"}, "the decoder 'soft' is unknown"),
        ({"decoder": None}, "decoder=None was given to DenoisingAutoencoder"),
        ({"rescale": "all"}, "rescale='all' was given to DenoisingAutoencoder, exp"),
        ({"tied": 2}, "tied=2 was given to DenoisingAutoencoder"),
        ({"learning_rate": ()}, r"learning_rate=\(\) was given.*a sequence of such"),
        ({"learning_rate": (0.1, -1)}, r"learning_rate=\(0.1, -1\) was given"),
        ({"learning_rate": 0.0}, "learning_rate=0.0 was given"),
        ({"l1_activation": -1}, "l1_activation=-1 was given"),
        ({"max_epochs": 0}, "max_epochs=0 was given to DenoisingAutoencoder"),
        ({"solver": "lbfgs"}, "solver='lbfgs' was given to DenoisingAutoencoder"),
        ({"engine": "gpu"}, "engine='gpu' was given to DenoisingAutoencoder"),
        ({"activation": "relux"}, "relux"),
        ({"random_state": "x"}, "random_state='x' was given"),
    ],
    ids=str,
)
def test_parameters_that_are_not_allowed(options, message):
    """Each is refused by name, by fit and partial_fit, before anything is learned."""
    network = make(**{"sizes": (12, 6)} | options)
    for train in (network.fit, network.partial_fit):
        with pytest.raises(ParameterError, match=message):
            train(X)
    assert not hasattr(network, "stack_")


def test_parameters_are_documented_in_their_order():
    """Each parameter of the constructor has its entry."""
    given = list(inspect.signature(DenoisingAutoencoder).parameters)
    text = inspect.getdoc(DenoisingAutoencoder)
    text = text[text.index("Parameters\n") : text.index("Attributes\n")]
    assert re.findall(r"^(\w+) : ", text, re.MULTILINE) == given


def test_the_decoder_that_suits_the_rows():
    """Of "auto" becomes sigmoid for zeros and ones, linear for numbers of any sign,
    softplus for others; in deeper layers the encodings count.
    """
    binary = X > 0.5
    for rows, options, expected in (
        (X, {}, ("softplus", "softplus")),
        (sp.csr_array(X), {}, ("softplus", "softplus")),
        (X - 0.5, {}, ("linear", "softplus")),
        (sp.csr_array(-X), {}, ("linear", "softplus")),
        (binary, {}, ("sigmoid", "softplus")),
        (binary.astype(int), {}, ("sigmoid", "softplus")),
        (sp.csr_array(binary), {}, ("sigmoid", "softplus")),
        (2 * binary, {}, ("softplus", "softplus")),
        (np.zeros((9, 4)), {}, ("sigmoid", "softplus")),
        (X, {"activation": "tanh"}, ("softplus", "linear")),
        (X, {"activation": "leaky_rectifier(0.1)"}, ("softplus", "linear")),
        (X, {"activation": "softplus"}, ("softplus", "softplus")),
        (X, {"sign_flip": True}, ("softplus", "softplus")),
        (X, {"sign_flip": True, "activation": "tanh"}, ("softplus", "linear")),
    ):
        network = make((8, 4), **{"decoder": "auto", "max_epochs": 1} | options)
        assert network.fit(rows).decoders_ == expected, options


def test_the_decoder_suits_rows_that_were_set_aside():
    """Whichever row has the only negative number, the decoder is linear."""
    rows = X[:40].copy()
    network = make(decoder="auto", early_stopping=True, validation_fraction=0.5)
    for number in range(8):
        negative = rows.copy()
        negative[number, 0] = -1
        assert network.fit(negative).decoders_ == ("linear",)
        assert network.fit(rows, X_val=negative).decoders_ == ("linear",)


@pytest.mark.parametrize(
    ("activation", "sign_flip", "decoder", "target", "back"),
    [
        ("rectifier", False, "softplus", "h", "m"),
        ("rectifier", False, "linear", "h", "m"),
        ("rectifier", True, "linear", "h", "m"),
        ("rectifier", True, "softplus", "|h|", "m s"),
        ("rectifier", True, "censored_gaussian(0.5)", "|h|", "m s"),
        ("rectifier", False, "linear(pre)", "z", "f(m) s"),
        ("rectifier", True, "linear(pre)", "z", "f(m) s"),
        ("tanh", False, "linear(pre)", "z", "f(m) s"),
        ("tanh", False, "sigmoid", "(f(z) + 1) / 2", "(2 m - 1) s"),
        ("tanh", True, "sigmoid", "(f(z) + 1) / 2", "(2 m - 1) s"),
        ("tanh", True, "linear", "h", "m"),
        ("softplus", True, "rectifier", "|h|", "m s"),
        ("sigmoid", False, "sigmoid", "h", "m"),
        ("leaky_rectifier(0.1)", True, "linear", "h", "m"),
        ("prelu", False, "linear(pre)", "z", "f(m) s"),
    ],
)
def test_what_deeper_layers_reconstruct(activation, sign_flip, decoder, target, back):
    """The loss of the second layer compares the decoder's outputs with targets made
    of the first layer's z and h = s f(z), and the way back undoes that.
    """
    network = make(
        (8, 5),
        activation=activation,
        sign_flip=sign_flip,
        corruption="none",
        decoder=("softplus", decoder),
        learning_rate=1e-13,
        max_epochs=1,
    ).fit(X)
    layer = network.stack_.layers[0]
    assert sign_flip == (layer.signs is not None)
    s = layer.signs if sign_flip else 1.0
    z = X @ layer.W + layer.b
    f_of_z = layer.activation(z, layer.slopes)
    h = f_of_z * s
    targets = {"h": h, "|h|": abs(h), "z": z, "(f(z) + 1) / 2": (f_of_z + 1) / 2}
    a = network.transform(X) @ learned(network, 2)[1].W + learned(network, 2)[1].b
    kind = parse_decoder(decoder)
    costs = Reconstruction(kind).losses(a, targets[target])
    assert network.histories_[1].loss[0] == pytest.approx(costs.mean(), rel=1e-9)
    m = kind.reconstruct(a)
    f_of_m = layer.activation(m, layer.slopes)
    ways = {"m": m, "m s": m * s, "f(m) s": f_of_m * s, "(2 m - 1) s": (2 * m - 1) * s}
    first = learned(network, 1)[1]
    expected = np.logaddexp(0, ways[back] @ first.W + first.b)
    np.testing.assert_allclose(network.reconstruct(X), expected, rtol=1e-9)


def test_deeper_layers_add_noise_to_outputs_not_to_preactivations():
    """With "linear(pre)", too: masking all of them leaves the biases alone."""
    network = make(
        (8, 5), decoder=("softplus", "linear(pre)"), corruption=("none", "masking(1)")
    )
    network.set_params(learning_rate=1e-13, max_epochs=1).fit(X)
    encoder, decoder = learned(network, 2)
    outputs = np.maximum(encoder.b, 0) @ decoder.W + decoder.b
    first = network.stack_.layers[0]
    costs = ((X @ first.W + first.b - outputs) ** 2).sum(axis=1)
    assert network.histories_[1].loss[0] == pytest.approx(costs.mean())


# ------------------------------------------------------------------ scales


def first_layer(network):
    """Return an auto-encoder of the first layer alone."""
    alone = copy.copy(network)
    alone._layers = network._layers[:1]
    alone.stack_ = network.stack_.truncate(1)
    return alone


@pytest.mark.parametrize("sign_flip", [False, True])
@pytest.mark.parametrize("rescale", ["global", "unit"])
def test_the_layer_below_a_sigmoid_is_scaled(rescale, sign_flip):
    """Its outputs over the training rows are at most 1, and one is 1, of all units or
    of each; what it reconstructs is as before.
    """
    network = make(
        (20, 10, 5),
        sign_flip=sign_flip,
        rescale=rescale,
        decoder=("softplus", "sigmoid", "softplus"),
    ).fit(3 * X)
    plain = make(20, sign_flip=sign_flip).fit(3 * X)
    alone = first_layer(network)
    h = np.abs(alone.transform(3 * X))
    assert h.max() == pytest.approx(1)
    factors = np.abs(plain.transform(3 * X)).max(axis=0)
    if rescale == "unit":
        np.testing.assert_allclose(h.max(axis=0)[factors > 0], 1)
        factors[factors == 0] = 1
    else:
        factors = factors.max()
    layer = plain.stack_.layers[0]
    np.testing.assert_allclose(alone.stack_.layers[0].W, layer.W / factors)
    np.testing.assert_allclose(alone.reconstruct(X), plain.reconstruct(X))
    np.testing.assert_allclose(alone.score_samples(X), plain.score_samples(X))
    assert np.abs(network.reconstruct(3 * X)).max() > 1  # scaled back


def test_units_that_are_dead_are_scaled_by_one():
    """A unit, or a whole layer, that puts out 0 is left as it is."""
    network = make(
        (6, 4),
        decoder=("softplus", "sigmoid"),
        rescale="unit",
        l1_activation=(100.0, 0.0),
        learning_rate=0.1,
        max_epochs=60,
    ).fit(X)
    assert not first_layer(network).transform(X).any()
    assert all(np.isfinite(layer.W).all() for layer in network.stack_.layers)
    assert np.isfinite(network.reconstruct(X)).all()


def test_outputs_that_no_decoder_puts_out():
    """Without a scale, or where scaling is of no help, the decoder is refused."""
    for options, message in (
        ({"rescale": "none"}, r"'sigmoid' of layer 2 puts out numbers from 0 to 1, but"
         r" what it has to put out is from 0 to \d.*rescale='global'"),
        ({"activation": "softplus"}, "'sigmoid' of layer 2 .*'softplus' for numbers"),
        ({"activation": "leaky_rectifier(0.1)"}, r"of layer 2 .* from -0\.\d+ to"),
        ({"activation": "tanh", "decoder": "softplus"}, "'softplus' of layer 2"),
    ):  # fmt: skip
        network = make((8, 4), **{"decoder": ("softplus", "sigmoid")} | options)
        with pytest.raises(DataError, match=message):
            network.fit(30 * X)
    small = make((8, 4), decoder=("softplus", "sigmoid"), rescale="none")
    assert small.fit(X / 100).decoders_ == ("softplus", "sigmoid")


def test_rows_that_the_decoder_does_not_put_out():
    """Rows out of the decoder's range are refused with what to do, also those to
    validate on, and those to score if their cost had no bound.
    """
    message = (
        r"the decoder 'sigmoid' of layer 1 puts out numbers from 0 to 1, but what it "
        r"has to put out is from 0 to 2\. Scale X .*MinMaxScaler, or choose another"
    )
    network = make(decoder="sigmoid")
    for fit in (network.fit, network.partial_fit):
        with pytest.raises(DataError, match=message):
            fit(2 * X)
    with pytest.raises(DataError, match=message):
        network.fit(X, X_val=2 * X)
    network.fit(X)
    for act in (network.score_samples, network.score):
        with pytest.raises(DataError, match=message):
            act(2 * X)
    assert network.reconstruct(2 * X).max() <= 1
    for decoder in ("softplus", "rectifier", "censored_laplace"):
        with pytest.raises(DataError, match=rf"{decoder}.* from 0 to inf.*'linear' fo"):
            make(decoder=decoder).fit(X - 1)
    odd = make().fit(X).score_samples(np.vstack([X[:1], X[:1] - 5]))
    assert odd[1] < odd[0] - 100


# ------------------------------------------------------------------ using it


def test_transform_is_the_way_through_the_layers():
    """Without noise, and `fit_transform` gives the same."""
    network = make((12, 6), sign_flip=True).fit(X)
    h = X
    for layer in network.stack_.layers:
        h = np.maximum(h @ layer.W + layer.b, 0) * layer.signs
    np.testing.assert_allclose(network.transform(X), h)
    np.testing.assert_array_equal(clone(network).fit_transform(X), network.transform(X))


def test_ways_there_and_back():
    """`reconstruct` is both ways; encodings can be a list, a frame or sparse."""
    network = make((12, 6)).fit(X)
    codes = network.transform(X)
    rows = network.reconstruct(X)
    assert (codes.shape, rows.shape) == ((150, 6), (150, 64))
    for form in (list, pd.DataFrame, sp.csr_array, np.asfortranarray, np.float32):
        found = network.inverse_transform(form(codes))
        np.testing.assert_allclose(found, rows, rtol=1e-5)
        assert found.dtype == np.float64
    assert network.n_features_in_ == 64  # inverse_transform changes nothing


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones(6), "Expected 2D array, got 1D array instead"),
        (np.ones((0, 6)), r"Found array with 0 sample\(s\)"),
        (np.full((3, 6), np.nan), "Input X contains NaN"),
        (np.full((3, 6), np.inf), "Input X contains infinity or a value too large"),
        (np.full((3, 6), "x"), "X holds text where numbers are needed"),
        ([[10**400] * 6], "holds a number that is no finite float"),
        (np.full((3, 6), 1j), "Complex data not supported"),
        (np.ma.masked_array(np.ones((3, 6)), np.eye(3, 6)), "X has 3 masked entries"),
        (np.full((3, 6), "2020-01-01", "M8[D]"), "X holds dates or times"),
    ],
)
def test_encodings_that_are_none(values, message):
    """They are checked as features are, with the same messages."""
    network = make((12, 6)).fit(X)
    for method in (network.inverse_transform, network.transform):
        with pytest.raises(ValueError, match=message):
            method(values)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_encodings_of_another_width(form):
    """There is one column for each unit of the last layer."""
    network = make((12, 6)).fit(X)
    message = r"X has shape \(3, 12\), expected \(n_samples, 6\), one column for each"
    with pytest.raises(DataError, match=message):
        network.inverse_transform(form(np.ones((3, 12))))


@pytest.mark.parametrize("decoder", DECODERS)
def test_reconstructions_that_overflow(decoder):
    """An infinite reconstruction is an error, not a result, for encodings and rows."""
    network = make((12, 6), decoder=["softplus", decoder], max_epochs=1)
    network.fit(X.astype(np.float32))
    codes = np.ones((3, 6), np.float32)
    codes[1] = 3e38
    for number in (1, 2):
        W = learned(network, number)[1].W
        W.setflags(write=True)
        W[:] = 9
    if decoder == "sigmoid":  # nothing overflows
        assert np.isfinite(network.inverse_transform(codes)).all()
        return
    message = r"row 1 of X, counted from 0, has encodings of up to 3e\+38 in size.*32"
    for form in (np.asarray, sp.csr_array):
        with pytest.raises(DataError, match=message + ".*Give what transform returned"):
            network.inverse_transform(form(codes))
    rows = X[:3].astype(np.float32)
    rows[1] = 1e37
    assert np.isfinite(network.transform(rows)).all()
    with pytest.raises(DataError, match=r"row 1 of X.*inputs of up to 1e\+37.*Scale"):
        network.reconstruct(rows)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("decoder", [one for one in DECODERS if one != "sigmoid"])
def test_scores_beyond_float32(decoder, form):
    """A cost that overflows float32 is computed in float64; other rows keep theirs."""
    network = make((12, 6), decoder=decoder).fit(X.astype(np.float32))
    rows = X[:5].astype(np.float32)
    usual = network.score_samples(form(rows))
    rows[[1, 3]] *= np.float32(1e30)
    scores = network.score_samples(form(rows))
    np.testing.assert_array_equal(scores[[0, 2, 4]], usual[[0, 2, 4]])
    decoded = network.reconstruct(form(rows)).astype(np.float64)
    exponent = 1 if decoder == "censored_laplace" else 2
    scale = {"censored_gaussian(0.5)": 2}.get(decoder, 1)
    errors = np.abs(decoded - rows)[[1, 3]] ** exponent * scale
    if "censored" in decoder:
        errors = np.where(rows[[1, 3]] > 0, errors, 0)
        assert (scores[[1, 3]] <= -errors.sum(axis=1) * (1 - 1e-5)).all()
    else:
        np.testing.assert_allclose(scores[[1, 3]], -errors.sum(axis=1), rtol=1e-5)


def test_scores_beyond_float64():
    """What not even float64 can tell is an error that names the row."""
    network = make((12, 6), decoder="linear").fit(X)
    rows = X[:5].copy()
    rows[3] = 1e200
    message = r"row 3 of X, counted from 0, has inputs of up to 1e\+200 in size.*cost"
    with pytest.raises(DataError, match=message):
        network.score_samples(rows)


def test_threads_change_rounding_of_tied_weights_only():
    """As the docstring has it: else there are the same bits."""
    rows = sp.random_array((300, 200), density=0.03, rng=0, dtype=np.float32).tocsr()
    for tied in (False, True):
        one, two = (
            make((70,), tied=tied, n_threads=n, max_epochs=2).fit(rows).transform(rows)
            for n in (1, 2)
        )
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-5 if tied else 0)


@pytest.mark.parametrize(
    "method", ["transform", "reconstruct", "score_samples", "score"]
)
def test_rows_that_cannot_be_used(method):
    """Rows of another width, NaN and unfitted auto-encoders are refused."""
    network = make()
    with pytest.raises(NotFittedError, match="DenoisingAutoencoder instance is not"):
        getattr(network, method)(X)
    with pytest.raises(NotFittedError):
        network.inverse_transform(X)
    use = getattr(network.fit(X), method)
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 64"):
        use(X[:, :3])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        use(np.full_like(X, np.nan))
    network.set_params(n_threads=0)
    with pytest.raises(ParameterError, match="n_threads=0 was given to Denoising"):
        use(X)


@pytest.mark.parametrize("options", [{}, {"tied": True}], ids=str)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_float32_stays_float32(options, form):
    """Rows, weights and results have one dtype; other numbers become float32."""
    rows = form(X.astype(np.float32))
    for dtype, expected in (
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.float16, np.float32),
        (np.int64, np.float32),
    ):
        if form is sp.csr_array and dtype is np.float16:
            continue  # SciPy has none
        network = make((12, 6), **options).fit((16 * rows).astype(dtype))
        assert network.stack_.dtype == expected
        for other in (rows, form(X)):
            codes = network.transform(other)
            assert codes.dtype == expected
            assert network.inverse_transform(codes).dtype == expected
            assert network.score_samples(other).dtype == np.float64


def test_frames_and_names():
    """Names of features are checked, and units get names in frames."""
    frame = pd.DataFrame(X, columns=[f"pixel {k}" for k in range(64)])
    network = make((12, 6)).set_output(transform="pandas").fit(frame)
    codes = network.transform(frame)
    names = [f"denoisingautoencoder{k}" for k in range(6)]
    assert list(codes.columns) == list(network.get_feature_names_out()) == names
    np.testing.assert_array_equal(network.inverse_transform(codes), (
        network.reconstruct(frame)
    ))  # fmt: skip
    assert list(network.feature_names_in_) == list(frame.columns)
    assert network.n_features_in_ == 64
    with pytest.raises(ValueError, match="feature names should match"):
        network.transform(frame[frame.columns[::-1]])
    with pytest.raises(ValueError, match="feature names should match"):
        network.fit(frame, X_val=frame[frame.columns[::-1]])


def test_pipelines_and_searches():
    """It can be a step, and its score chooses parameters."""
    pipeline = make_pipeline(MinMaxScaler(), make(decoder="softplus"))
    assert pipeline.fit_transform(X * 9 - 3).shape == (150, 12)
    search = GridSearchCV(make(max_epochs=20), {"hidden_sizes": [2, 40]}, cv=2)
    assert search.fit(X).best_params_ == {"hidden_sizes": 40}


# ------------------------------------------------------------------ keeping it


@pytest.mark.parametrize("options", [{}, {"tied": True}, {"early_stopping": True}])
def test_pickles_are_as_large_as_the_parameters(options):
    """A pickle holds encoders and decoders, no more, and does the same."""
    network = make((300, 200), **options).fit(X)
    size = sum(
        array.nbytes
        for number in (1, 2)
        for layer in learned(network, number)
        for array in (layer.W, layer.b)
    )
    data = pickle.dumps(network)
    assert len(data) <= 1.1 * size
    again = pickle.loads(data)
    assert_equal(network, again)
    for method in ("transform", "reconstruct", "score_samples"):
        np.testing.assert_array_equal(
            getattr(network, method)(X), getattr(again, method)(X)
        )


def test_joblib_and_memory_maps(tmp_path):
    """Files, and read-only rows on disk, are used as they are."""
    joblib.dump((make((12, 6)).fit(X), X, sp.csr_array(X)), tmp_path / "file")
    network, dense, sparse = joblib.load(tmp_path / "file", mmap_mode="r")
    assert not dense.flags.writeable
    expected = make((12, 6)).fit(X)
    for rows in (dense, sparse):
        np.testing.assert_allclose(
            network.score_samples(rows), expected.score_samples(X)
        )
        for options in ({}, {"corruption": "swap(0.1)"}, {"tied": True}):
            fitted = make((12, 6), **options).fit(rows)
            assert_alike(fitted, make((12, 6), **options).fit(X))


def test_progress_of_each_layer(capsys):
    """With verbose each layer has a bar of its own; without, there is none."""
    make((12, 6)).fit(X)
    assert capsys.readouterr() == ("", "")
    make((12, 6), verbose=True).fit(X)
    shown = capsys.readouterr()
    assert not shown.out
    for text in ("layer 1 of 2", "layer 2 of 2", "epoch 4"):
        assert text in shown.err


# ------------------------------------------------------------------ partial_fit

OPTIONS = [
    {},
    {"solver": "sgd", "momentum": 0.9, "l2": 1e-3, "learning_rate": 0.001},
    {"solver": "sgd", "engine": "sparse", "l2": 1e-3},
    {"tied": True, "l1_activation": 0.01},
    {"corruption": "swap(0.2)", "engine": "dense", "activation": "prelu"},
    {"corruption": "salt_and_pepper(0.3, density)", "engine": "reference"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_calls_of_partial_fit_equal_epochs_of_fit(options, form):
    """For one layer, K calls over the same rows give the bits of fit with K epochs."""
    rows, weights = form(X), np.random.default_rng(0).integers(0, 3, 150)
    whole = make(**options).fit(rows, sample_weight=weights)
    pieces = make(**options)
    for _ in range(4):
        assert pieces.partial_fit(rows, sample_weight=weights) is pieces
    assert_equal(pieces, whole)
    assert pieces.histories_[0].n_epochs == 4


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_partial_fit_goes_on_after_fit(options):
    """With the state of the optimiser, as if there had been more epochs."""
    parts = make(**options).set_params(max_epochs=2).fit(X)
    for _ in range(2):
        parts.partial_fit(X)
    assert_equal(parts, make(**options).fit(X))


def test_partial_fit_goes_on_after_early_stopping():
    """From the last epoch, not from the best."""
    network = make(60, corruption="none", learning_rate=0.05, max_epochs=100)
    network.set_params(early_stopping=True, patience=2).fit(X[:40], X_val=X[40:])
    (stopped,) = network.histories_
    assert stopped.stopped == "early_stopping"
    longer = make(60, corruption="none", learning_rate=0.05).set_params(
        max_epochs=stopped.n_epochs + 1
    )
    assert network.partial_fit(X[:40]).stack_ == longer.fit(X[:40]).stack_


@pytest.mark.parametrize(
    "way", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
)
def test_partial_fit_goes_on_after_pickling(way):
    """After partial_fit a pickle and a copy hold the state; after fit they say that
    they do not.
    """
    network = make((12, 6), tied=True).partial_fit(X)
    assert_equal(way(network).partial_fit(X), network.partial_fit(X))
    again = way(make((12, 6)).fit(X))
    with pytest.raises(
        ParameterError, match=r"not there any more.*a pickle or a copy.*Call fit to tr"
    ):
        again.partial_fit(X)
    assert again.fit(X).histories_[0].n_epochs == 4


def test_layers_are_trained_together_by_partial_fit():
    """Deeper layers learn from what those below have become; errors fall."""
    network = make((40, 20), learning_rate=0.003)
    for _ in range(60):
        for start in range(0, 150, 50):
            network.partial_fit(X[start : start + 50])
    for history in network.histories_:
        assert history.n_epochs == 180
        assert history.loss[-1] < 0.8 * history.loss[0]
    assert network.score(X) > make((40, 20)).fit(X).score(X)


def test_fit_after_partial_fit_starts_anew():
    """Nothing is left of earlier calls, as to width and kind of the rows, too."""
    network = make(decoder="auto").partial_fit(X - 1)
    assert network.decoders_ == ("linear",)
    assert_equal(network.fit(X[:, :9]), make(decoder="auto").fit(X[:, :9]))


def test_what_may_change_between_calls():
    """Rates, penalties and sizes of batches may."""
    network = make((12, 6)).partial_fit(X)
    network.set_params(
        learning_rate=0.1, batch_size=7, l1_activation=(0.1, 0.2), l2=0.1
    )
    network.partial_fit(X[:50])
    assert network.learning_rates_ == (0.1, 0.1)
    assert network.histories_[0].learning_rate == (0.01, 0.1)
    strong = make(30).partial_fit(X).set_params(l1_activation=1.0)
    weak = make(30).partial_fit(X)
    for _ in range(20):
        strong.partial_fit(X)
        weak.partial_fit(X)
    sparsity = [one.histories_[0].sparsity[-1][0] for one in (strong, weak)]
    assert sparsity[0] > sparsity[1] + 0.1


def test_what_cannot_change_between_calls():
    """What the layers are made of is named when it was changed."""
    network = make((12, 6)).partial_fit(X)
    for name, value, shown in (
        ("hidden_sizes", (12, 6, 3), r"hidden_sizes was \(12, 6\) and is \(12, 6, 3\)"),
        ("hidden_sizes", (12,), r"hidden_sizes was \(12, 6\) and is \(12,\)"),
        ("hidden_sizes", (12, 7), r"and is \(12, 7\)"),
        ("activation", "tanh", "activation was rectifier, rectifier and is tanh, tanh"),
        ("sign_flip", True, "sign_flip was False and is True"),
        ("tied", True, "tied was False and is True"),
        ("solver", "sgd", "solver was 'adam' and is 'sgd'"),
        ("engine", "dense", "engine was 'auto' and is 'dense'"),
        ("decoder", "linear", "decoder was softplus, softplus and is linear, linear"),
        ("corruption", ("none", "none"), r"corruption was masking\(0.3\), .* is none,"),
    ):
        changed = copy.deepcopy(network).set_params(**{name: value})
        with pytest.raises(ParameterError, match=f"{shown}.*Set it back"):
            changed.partial_fit(X)
    spelled = network.set_params(hidden_sizes=[12, 6], corruption=Masking(0.3))
    spelled.set_params(engine="sparse")  # of whose state "auto" is, too
    assert spelled.partial_fit(X).histories_[0].n_epochs == 2
    with pytest.raises(ValueError, match=r"X has 9 features, but Den.* expecting 64"):
        network.partial_fit(X[:, :9])


def test_what_needs_all_rows_at_once(tmp_path):
    """Files, choices of a rate and scales are refused by partial_fit."""
    for options, message in (
        ({"checkpoint": tmp_path / "file"}, r"checkpoint=.* was given, which needs all "
         "rows at once, expected None for partial_fit. Change it, or call fit"),
        ({"learning_rate": (0.1, 0.01)}, "learning_rate=.*expected one number for"),
        ({"decoder": ("softplus", "sigmoid")}, "the decoder 'sigmoid' of layer 2 was "
         "given, which needs the layer below scaled .*Choose 'softplus' for that"),
    ):  # fmt: skip
        network = make((12, 6), **options)
        with pytest.raises(ParameterError, match=message):
            network.partial_fit(X)
        assert not hasattr(network, "stack_")
        with pytest.raises(ParameterError, match=message):
            network.fit(X).partial_fit(X)
    tanh = make((12, 6), decoder="sigmoid", activation="tanh")
    assert tanh.partial_fit(X).decoders_ == ("sigmoid", "sigmoid")


def test_a_failed_call_of_partial_fit_changes_nothing():
    """Bad rows, or weights that blow up, leave it as it was."""
    network = make((12, 6), solver="sgd").partial_fit(X)
    kept = copy.deepcopy(network)
    with pytest.raises(ValueError, match="NaN"):
        network.partial_fit(np.full_like(X, np.nan))
    with pytest.raises(DataError, match="layer 1 puts out numbers from 0"):
        network.partial_fit(X - 1)
    with pytest.raises(DivergenceError, match="epoch 2"):
        network.set_params(learning_rate=1e200).partial_fit(X)
    network.set_params(learning_rate=0.01)
    assert_equal(network, kept)
    assert_equal(network.partial_fit(X), kept.partial_fit(X))


# ------------------------------------------------------------------ checkpoints


class _CutOffError(Exception):
    """Ends a run."""


@contextlib.contextmanager
def _ended_at(number, how, kind=DenoisingNetwork):
    """Let something happen in this step, counted from 1, after its update."""
    step, n_steps = kind.step, 0

    def counted(self, rows):
        nonlocal n_steps
        loss = step(self, rows)
        n_steps += 1
        if n_steps == number:
            how()
        return loss

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "step", counted)
        yield


def _cut_off():
    raise _CutOffError


CUT_OFF = [
    {},
    {"tied": True, "corruption": "swap(0.2)", "random_state": None},
    {"decoder": ("softplus", "sigmoid"), "early_stopping": True},
    {"learning_rate": (0.01, 0.1)},
]


def _cut_off_and_go_on(options, number, seconds, folder):
    network = make((12, 6), **options)
    np.random.seed(0)  # noqa: NPY002
    whole = clone(network).fit(X)
    np.random.seed(0)  # noqa: NPY002
    network.set_params(checkpoint=folder / "file", checkpoint_seconds=seconds)
    with _ended_at(number, _cut_off), pytest.raises(_CutOffError):
        clone(network).fit(X)
    assert_equal(clone(network).fit(X), whole)
    assert_equal(clone(network).fit(X), whole)  # from the files of a finished run
    rates = [".rate0.01", ".rate0.1"] if "learning_rate" in options else [""]
    names = {f"file.layer{layer}{rate}" for layer in (1, 2) for rate in rates}
    assert {path.name for path in folder.iterdir()} == names


# 150 rows are 5 batches, so that a layer has 20 steps at each rate.
@pytest.mark.parametrize(
    ("options", "number", "seconds"),
    [
        (CUT_OFF[0], 8, None),
        (CUT_OFF[0], 24, 0.0),
        (CUT_OFF[1], 33, None),
        (CUT_OFF[2], 33, 0.0),
        (CUT_OFF[3], 64, None),
    ],
    ids=str,
)
def test_a_run_that_was_cut_off_ends_with_the_same_bits(
    options, number, seconds, tmp_path
):
    """Wherever it was, in the first layer or in the second, and without a seed, too."""
    _cut_off_and_go_on(options, number, seconds, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("options", CUT_OFF, ids=str)
@pytest.mark.parametrize("number", range(1, 36, 3))
@pytest.mark.parametrize("seconds", [None, 0.0])
def test_a_run_cut_off_anywhere_ends_with_the_same_bits(
    options, number, seconds, tmp_path
):
    """At any step, also in the middle of an epoch."""
    _cut_off_and_go_on(options, number, seconds, tmp_path)


_KILLED = """
import os, signal, sys
import numpy as np
from hardzero import DenoisingAutoencoder
from hardzero.engine.denoise import DenoisingNetwork

path, number, n_steps, step = sys.argv[1], int(sys.argv[2]), 0, DenoisingNetwork.step

def counted(self, rows):
    global n_steps
    n_steps += 1
    if n_steps == number:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, rows)

DenoisingNetwork.step = counted
X = np.load(path + ".npy")
DenoisingAutoencoder(
    (12, 6), corruption="masking(0.3)", decoder="softplus", max_epochs=4,
    learning_rate=0.01, random_state=0, checkpoint=path, checkpoint_seconds=0.0,
).fit(X)
"""


def _kill_and_go_on(number, folder):
    path = folder / f"killed at {number}"
    np.save(f"{path}.npy", X)
    command = [sys.executable, "-c", _KILLED, str(path), str(number)]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed, whole = (
        make((12, 6), checkpoint=path, checkpoint_seconds=0.0),
        make((12, 6)),
    )
    with _ended_at(42 - number, _cut_off):  # no step of 40 is done twice
        resumed.fit(X)
    assert_equal(resumed, whole.fit(X))


needs_kill = pytest.mark.skipif(
    not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL"
)


@needs_kill
def test_kill_9(tmp_path):
    """A process killed in the second layer is gone on from, with the same bits."""
    _kill_and_go_on(28, tmp_path)


@needs_kill
@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 3, 5, 6, 14, 20, 21, 22, 26, 39, 40])
def test_kill_9_at_any_step(number, tmp_path):
    """Wherever the process was killed."""
    _kill_and_go_on(number, tmp_path)


def test_checkpoints_of_other_tasks_are_refused(tmp_path):
    """What differs is named: rows, noise, decoders, rates."""
    network = make((12, 6), checkpoint=tmp_path / "file").fit(X)
    for name, value, shown in (
        ("corruption", "masking(0.4)", r"corruption is masking\(0.3\) in the file"),
        ("decoder", "linear", r"loss is reconstruction\(softplus\) in the file and"),
        ("learning_rate", 0.1, "learning_rate is 0.01 in the file and 0.1 now"),
        ("l1_activation", 0.1, "l1_activation is 0.0 in the file and 0.1"),
        ("tied", True, "tied is False in the file and True"),
        ("l2", 0.1, "l2"),
        ("hidden_sizes", (13, 6), "layer sizes"),
        ("random_state", 1, "seed"),
    ):
        with pytest.raises(DataError, match=rf"layer1 is of another task.*{shown}"):
            clone(network).set_params(**{name: value}).fit(X)
    with pytest.raises(DataError, match=r"layer1 is of another task.*content of X"):
        clone(network).fit(2 * X)
    with pytest.raises(DataError, match=r"layer2 is of another task.*corruption"):
        clone(network).set_params(corruption=("masking(0.3)", "none")).fit(X)


def test_checkpoints_of_fewer_epochs(tmp_path):
    """A finished run of one layer goes on if more epochs are planned. Where there is a
    layer above, that would have other inputs: this is refused, and no file is changed.
    """
    network = make(12, checkpoint=tmp_path / "file").fit(X)
    longer = clone(network).set_params(max_epochs=6)
    assert_equal(longer.fit(X), make(12, max_epochs=6).fit(X))
    make((12, 6), checkpoint=tmp_path / "deep").fit(X)
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    deep = make((12, 6), checkpoint=tmp_path / "deep")
    message = (
        r"layer1 is of .*max_epochs is 4 in the .* 6 now.*outcome: .*deep\.layer2\."
    )
    for sizes in ((12, 6), (12,), (12, 6, 3)):
        with pytest.raises(DataError, match=message):
            clone(deep).set_params(hidden_sizes=sizes, max_epochs=6).fit(X)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files
    assert_equal(clone(deep).fit(X), make((12, 6)).fit(X))
    (tmp_path / "deep.layer1").unlink()
    with pytest.raises(DataError, match="layer2 is of another task: max_epochs is 4"):
        clone(deep).set_params(max_epochs=6).fit(X)
    assert not (tmp_path / "deep.layer1").exists()


def test_patience_is_fixed_once_there_is_a_layer_above(tmp_path):
    """More of it may mean more epochs of the layers below, too."""
    options = {"early_stopping": True, "patience": 1, "checkpoint": tmp_path / "file"}
    for sizes, can_change in ((12, True), ((12, 6), False)):
        make(sizes, **options).fit(X)
        changed = make(sizes, **options | {"patience": 2})
        if can_change:
            changed.fit(X)
            options["patience"] = 2
            continue
        changed.set_params(patience=3)
        with pytest.raises(
            DataError, match=r"layer1 .*patience is 2 in the file and 3"
        ):
            changed.fit(X)


def test_a_run_cut_off_in_the_first_layer_may_become_longer(tmp_path):
    """As long as nothing was made of that layer."""
    network = make((12, 6), checkpoint=tmp_path / "file")
    with _ended_at(8, _cut_off), pytest.raises(_CutOffError):
        clone(network).fit(X)
    longer = network.set_params(max_epochs=6).fit(X)
    assert_equal(longer, make((12, 6), max_epochs=6).fit(X))


def test_a_run_with_rates_that_diverge_goes_on(tmp_path):
    """The file of such a rate never has all epochs, and is no error."""
    options = {"solver": "sgd", "learning_rate": (1e200, 0.01)}
    network = make((12, 6), checkpoint=tmp_path / "file", **options).fit(X)
    assert_equal(clone(network).fit(X), make((12, 6), **options).fit(X))


def test_files_of_all_layers_are_read_before_the_first_is_trained(tmp_path):
    """What is no checkpoint, or cannot be one, is no reason to wait for."""
    network = make((12, 6), checkpoint=tmp_path / "file")
    (tmp_path / "file.layer2").write_text("garbage")
    with pytest.raises(DataError, match="layer2 is not a sound checkpoint"):
        network.fit(X)
    (tmp_path / "file.layer2").unlink()
    (tmp_path / "file.layer2").mkdir()
    with pytest.raises(DataError, match=r"layer2: it is a folder"):
        network.fit(X)
    assert [path.name for path in tmp_path.iterdir()] == ["file.layer2"]


# ------------------------------------------------------------------ interrupts


def _press_ctrl_c():
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_leaves_the_layers_trained_so_far():
    """The one under way is kept as it was after its last epoch, and all can be used."""
    network = make((12, 6, 3))
    with (
        _ended_at(33, _press_ctrl_c),
        pytest.warns(
            UserWarning, match=r"interrupted in layer 2 of 3; it is kept.*Call fit aga"
        ),
    ):
        network.fit(X)
    assert network.stack_.sizes == (64, 12, 6)
    assert [one.stopped for one in network.histories_] == ["max_epochs", "interrupted"]
    assert network.histories_[1].n_epochs == 2
    shorter = make((12, 6), max_epochs=2).fit(X)
    assert network.stack_.layers[0] == make(12).fit(X).stack_.layers[0]
    assert shorter.transform(X).shape == network.transform(X).shape == (150, 6)
    assert network.reconstruct(X).shape == (150, 64)
    assert network.score(X) < 0
    with pytest.raises(ParameterError, match=r"training was interrupted.*Call fit"):
        network.partial_fit(X)
    assert network.fit(X).stack_.sizes == (64, 12, 6, 3)


def test_ctrl_c_between_two_layers(monkeypatch):
    """What was trained is kept; before that, there is nothing to keep."""
    begun = []
    train_layer = DenoisingAutoencoder._train_layer

    def interrupted(self, plan, *rest):
        begun.append(plan.number)
        if len(begun) == number:
            _press_ctrl_c()
        return train_layer(self, plan, *rest)

    monkeypatch.setattr(DenoisingAutoencoder, "_train_layer", interrupted)
    number = 2
    with pytest.warns(UserWarning, match="interrupted in layer 1 of 2"):
        network = make((12, 6)).fit(X)
    assert network.stack_ == make(12).fit(X).stack_
    assert network.histories_[0].stopped == "interrupted"
    begun.clear()
    number = 1
    with pytest.raises(KeyboardInterrupt):
        network.fit(X)
    with pytest.raises(NotFittedError):
        network.transform(X)


@pytest.mark.parametrize("number", [13, 18])
def test_ctrl_c_in_a_grid(number, monkeypatch):
    """The best of the rates so far is kept, and no other is tried."""
    network = make((12, 6), learning_rate=(0.01, 0.001, 0.1))
    with (
        _ended_at(number, _press_ctrl_c),
        pytest.warns(UserWarning, match="interrupted in layer 1 of 2"),
    ):
        network.fit(X)
    assert network.learning_rates_ == (0.01,)
    train_at, begun = DenoisingAutoencoder._train_at, []

    def interrupted(self, plan, *rest):
        begun.append(plan.number)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return train_at(self, plan, *rest)

    monkeypatch.setattr(DenoisingAutoencoder, "_train_at", interrupted)
    with pytest.warns(UserWarning, match="interrupted in layer 1 of 2"):
        network.fit(X)
    assert network.learning_rates_ == (0.01,)
    assert network.histories_[0].n_epochs == 4


def test_ctrl_c_leaves_a_file_to_go_on_from(tmp_path):
    """The next fit goes on from the files, with the same bits."""
    network = make((12, 6), checkpoint=tmp_path / "file")
    with (
        _ended_at(33, _press_ctrl_c),
        pytest.warns(UserWarning, match="interrupted in layer 2"),
    ):
        network.fit(X)
    assert_equal(network.fit(X), make((12, 6)).fit(X))


def test_ctrl_c_in_partial_fit():
    """It leaves the auto-encoder as it was."""
    network = make((12, 6)).partial_fit(X)
    kept = copy.deepcopy(network)
    with _ended_at(8, _press_ctrl_c), pytest.raises(KeyboardInterrupt):
        network.partial_fit(X)
    assert_equal(network, kept)
    assert_equal(network.partial_fit(X), kept.partial_fit(X))


# ------------------------------------------------------------------ bad input


def _with(value):
    return np.where(X[3, 20] == X, value, X)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (_with(np.nan), r"Input X contains NaN[\s\S]*impute"),
        (_with(np.inf), "Input X contains infinity or a value too"),
        (sp.csr_array(_with(np.nan)), "Input X contains NaN"),
        (
            np.array(["red", "blue", "red", "2"] * 80).reshape(80, 4),
            "X holds text.*OneHotEncoder, and documents with .*TfidfVectorizer",
        ),
        (X[:, 0], "Expected 2D array, got 1D array instead"),
        (X[:0], r"0 sample\(s\)"),
        (X[:, :0], r"0 feature\(s\)"),
        (X * 1j, "Complex data not supported"),
        (np.arange(80).reshape(20, 4).astype("M8[s]"), "X holds dates or times"),
        (np.ma.array(X, mask=X > 0.9), r"X has \d+ masked entries.*\.filled"),
        (["the cat sat on the mat"] * 9, r"float.*the cat.*Tfidf"),
    ],
    ids=[
        *("nan", "inf", "sparse", "text", "1d", "rows", "columns"),
        *("complex", "dates", "mask", "documents"),
    ],
)
def test_features_that_cannot_be_used(method, rows, message):
    """Each is refused by name, and the auto-encoder is as it was before."""
    network = make(5)
    with pytest.raises(ValueError, match=message):
        getattr(network, method)(rows)
    assert not hasattr(network, "stack_")
    with pytest.raises(ValueError, match=message.replace("X ", "X_val ")):
        network.fit(X, X_val=rows)


def test_weights_that_leave_no_row():
    """Weights that are all 0, negative, or too few are refused."""
    network = make(5)
    for weights, message in (
        (np.zeros(150), "all sample_weight are zero"),
        (np.where(X[:, 20] > 0.5, 1, -1), "sample_weight is -1 in row"),
        (np.ones(149), r"shape \(149,\), expected \(150,\)"),
    ):
        for train in (network.fit, network.partial_fit):
            with pytest.raises(DataError, match=message):
                train(X, sample_weight=weights)
        with pytest.raises(DataError, match=message):
            make(5).fit(X).score(X, sample_weight=weights)


@every_corruption
@pytest.mark.parametrize(
    "rows", [X[:1], np.zeros((9, 4)), np.ones((9, 4))], ids=["one", "zeros", "ones"]
)
def test_rows_that_say_little(corruption, rows):
    """One row, zeros and constants are learned; no warning, no NaN."""
    if "density" in corruption and rows.all():
        rows = np.hstack([rows, np.zeros((9, 40))])  # it needs zeros to turn on
    network = make((9, 5), decoder="auto", corruption=corruption, max_epochs=40)
    network.fit(rows)
    before = clone(network).set_params(max_epochs=1).fit(rows)
    assert network.score(rows) > before.score(rows)
    assert np.isfinite(network.reconstruct(rows)).all()
    if "gaussian" not in corruption:
        sparse = clone(network).fit(sp.csr_array(rows))
        np.testing.assert_allclose(
            sparse.reconstruct(rows), network.reconstruct(rows), rtol=1e-6
        )


@pytest.mark.parametrize("corruption", ["none", "gaussian(0.1)", "swap(0.2)"])
def test_columns_that_say_nothing(corruption):
    """Constant columns, and such of zeros, do no harm and are reconstructed."""
    constant = np.column_stack([X, np.full(150, 0.7), np.zeros(150)])
    network = make(60, corruption=corruption, max_epochs=150).fit(constant)
    made = network.reconstruct(constant)
    np.testing.assert_allclose(made[:, 64], 0.7, atol=0.1)
    np.testing.assert_allclose(made[:, 65], 0, atol=0.1)


@pytest.mark.parametrize("size", [1e-30, 1e30])
@pytest.mark.parametrize("solver", ["adam", "sgd"])
@pytest.mark.parametrize("decoder", ["auto", "linear", "censored_gaussian"])
@pytest.mark.parametrize("tied", [False, True])
def test_tiny_and_huge_features(size, solver, decoder, tied):
    """They end in finite results or in an error that tells the cure."""
    network = make((8, 5), solver=solver, decoder=decoder, tied=tied)
    cure = "at learning rate .*, or scale the inputs.*StandardScaler|overflow|so large"
    rows = X.astype(np.float32) * np.float32(size)
    with _only_with((DivergenceError, DataError) if size > 1 else (), cure):
        network.fit(rows)
        assert np.isfinite(network.reconstruct(rows)).all()
        assert not np.isnan(network.score_samples(rows)).any()


@contextlib.contextmanager
def _only_with(errors, message):
    """Let errors of these kinds pass only if their text matches."""
    with contextlib.suppress(*errors):
        try:
            yield
        except errors as raised:
            if not re.search(message, str(raised)):
                raise AssertionError(str(raised)) from raised
            raise


def test_forms_of_the_same_rows():
    """Order in memory, kind of container and dtype of index do not matter."""
    expected = make((12, 6)).fit(X)
    read_only = X.copy()
    read_only.flags.writeable = False
    sparse = sp.csr_array(X)
    wide = sparse.copy()
    wide.indices, wide.indptr = (
        a.astype(np.int64) for a in (wide.indices, wide.indptr)
    )
    order = np.argsort(-sparse.indices[: sparse.indptr[1]])
    unsorted = sparse.copy()
    unsorted.indices[: len(order)] = unsorted.indices[order]
    unsorted.data[: len(order)] = unsorted.data[order]
    unsorted.has_sorted_indices = False
    for rows in (
        read_only,
        np.asfortranarray(X),
        X.tolist(),
        X.astype(object),
        pd.DataFrame(X),
        np.ma.array(X),
        np.hstack([X, X])[:, :64],
        X[::-1][::-1],
        sp.csr_matrix(X),
        sp.csc_array(X),
        sp.coo_array(X),
        sp.lil_array(X),
        wide,
        unsorted,
    ):
        fitted = make((12, 6)).fit(rows)
        rtol = 1e-8 if fitted.stack_.dtype == np.float64 else 1e-3
        assert_alike(fitted, expected, rtol=rtol)
    assert (read_only == X).all()
    assert (unsorted != sparse).nnz == 0
    assert not unsorted.has_sorted_indices  # the user's matrix is left as it was


def test_a_failed_fit_leaves_nothing():
    """An auto-encoder that could not be fitted again does not look fitted."""
    network = make().fit(X)
    with pytest.raises(DivergenceError, match=r"epoch 1 at learning rate 1e\+300"):
        network.set_params(solver="sgd", learning_rate=1e300).fit(X)
    with pytest.raises(NotFittedError):
        network.transform(X)


def test_noise_that_needs_dense_rows():
    """Gaussian noise on sparse rows is refused with what to take instead."""
    with pytest.raises(ParameterError, match=r"X is a sparse.*toarray\(\), or take"):
        make(corruption="gaussian(0.1)").fit(sp.csr_array(X))
    below = make((12, 6), corruption=("none", "gaussian(0.1)"))
    assert below.fit(sp.csr_array(X)).stack_.sizes == (64, 12, 6)


def test_expit_is_what_sigmoid_reconstructs():
    """For one layer the reconstruction is written out."""
    network = make(decoder="sigmoid").fit(X)
    encoder, decoder = learned(network, 1)
    h = np.maximum(X @ encoder.W + encoder.b, 0)
    np.testing.assert_allclose(
        network.reconstruct(X), expit(h @ decoder.W + decoder.b), rtol=1e-9
    )
