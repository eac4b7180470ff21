"""The regressor, as its users see it."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.metrics import d2_pinball_score, mean_poisson_deviance
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from hardzero import RectifierRegressor

X, Y = load_diabetes(return_X_y=True)
X = StandardScaler().fit_transform(X)
LOSSES = ["squared", "absolute", "huber(0.5)", "log_cosh", "quantile(0.5)", "poisson"]


def network(**options):
    """Return a small network."""
    return RectifierRegressor(**{"hidden_sizes": 30, "random_state": 0} | options)


# ------------------------------------------------------------------ losses


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_learns(loss):
    """On real data each loss does as well as ridge regression, within 0.15."""
    train, test, y_train, y_test = train_test_split(X, Y, random_state=0)
    model = network(loss=loss, early_stopping=True, max_epochs=300).fit(train, y_train)
    ridge = Ridge().fit(train, y_train).score(test, y_test)
    assert model.score(test, y_test) > ridge - 0.15
    assert model.loss_curve_[-1] < model.loss_curve_[0]


def test_each_loss_finds_its_own_centre():
    """Without features that tell, predictions are mean, median, quantile of targets."""
    y = np.random.default_rng(0).exponential(5.0, 400)
    nothing = np.ones((400, 1))
    for loss, centre in (
        ("squared", y.mean()),
        ("poisson", y.mean()),
        ("absolute", np.median(y)),
        ("quantile(0.9)", np.quantile(y, 0.9)),
        ("quantile(0.1)", np.quantile(y, 0.1)),
    ):
        model = network(
            loss=loss,
            hidden_sizes=(),
            learning_rate=0.02,
            learning_rate_schedule="cosine",
            max_epochs=200,
            tol=None,
        ).fit(nothing, y)
        assert model.predict([[1.0]])[0] == pytest.approx(centre, rel=0.03, abs=0.1)


def test_quantiles_cover_their_share():
    """The 0.9-quantile lies above nine tenths of the targets."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (1000, 1))
    y = rows[:, 0] + rng.normal(0, 0.1 + np.abs(rows[:, 0]))
    for q in (0.1, 0.9):
        model = network(loss=f"quantile({q})", max_epochs=100).fit(rows, y)
        assert (y <= model.predict(rows)).mean() == pytest.approx(q, abs=0.03)
        assert d2_pinball_score(y, model.predict(rows), alpha=q) > 0.3


def test_outliers_move_robust_losses_less():
    """One target in ten is off by 100: absolute and Huber losses hardly notice."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 3))
    clean = rows @ [1.0, -2.0, 0.5]
    y = clean + 100 * (rng.random(500) < 0.1)
    errors = {
        loss: np.median(np.abs(network(loss=loss).fit(rows, y).predict(rows) - clean))
        for loss in ("squared", "absolute", "huber(0.01)")
    }
    assert max(errors["absolute"], errors["huber(0.01)"]) < errors["squared"] / 4


def test_counts():
    """Poisson's loss predicts positive means of counts, large ones from the start."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (500, 2))
    mean = 2000 * np.exp(rows[:, 0])
    y = rng.poisson(mean)
    model = network(loss="poisson", max_epochs=60).fit(rows, y)
    assert model.out_activation_ == "exp"
    assert model.predict(rows).min() > 0
    assert mean_poisson_deviance(y, model.predict(rows)) < 0.02 * mean_poisson_deviance(
        y, np.full(500, y.mean())
    )


# ------------------------------------------------------------------ targets


def test_scale_of_targets_does_not_matter():
    """Standardised inside, targets in other units give the same predictions there."""
    plain = network(max_epochs=20).fit(X, Y).predict(X)
    other = network(max_epochs=20).fit(X, 1024 * Y - 2048).predict(X)
    np.testing.assert_allclose(other, 1024 * plain - 2048, rtol=1e-6)


def test_targets_as_they_are():
    """Without scaling the first loss is that of raw targets."""
    raw = network(target_scaling="none", max_epochs=1).fit(X, Y)
    assert raw.loss_curve_[0] == pytest.approx((Y**2).mean() / 2, rel=0.1)
    scaled = network(max_epochs=1).fit(X, Y)
    assert scaled.loss_curve_[0] < 1.5


@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_several_outputs(loss):
    """Columns are learned together, and come back in the shape that they had."""
    both = np.column_stack([Y, 1000 - 2 * Y])
    model = network(loss=loss).fit(X, both)
    assert model.predict(X).shape == (442, 2)
    assert model.n_outputs_ == 2
    assert model.score(X, both) > 0.5
    for shape in ((442,), (442, 1)):
        assert model.fit(X, Y.reshape(shape)).predict(X).shape == shape


def test_the_stack_predicts_the_same():
    """The scaling is part of the network that is handed on."""
    model = network(max_epochs=5).fit(X, Y)
    np.testing.assert_allclose(model.stack_(X)[:, 0], model.predict(X), rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept(dtype):
    """float32 features give float32 predictions, whatever the targets are."""
    for loss in ("squared", "poisson"):
        model = network(max_epochs=2, loss=loss).fit(X.astype(dtype), Y)
        assert model.predict(X).dtype == model.transform(X).dtype == dtype


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_array])
def test_sparse_equals_dense(make):
    """Sparse features of any format give what dense ones give, up to rounding."""
    dense = network(max_epochs=5).fit(X, Y).predict(X)
    np.testing.assert_allclose(
        network(max_epochs=5).fit(make(X), Y).predict(make(X)), dense, rtol=1e-6
    )
