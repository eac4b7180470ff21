"""Pipelines of scalers and an estimator become one network."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)

from hardzero import RatingRegressor, RectifierClassifier, RectifierRegressor
from hardzero.errors import DataError, ParameterError
from hardzero.serving import StackModel, load, save
from hardzero.serving.folding import fold_scaling
from hardzero.stack import Layer, RectifierStack


@pytest.fixture(name="X", scope="module")
def make_rows():
    """Columns of very different sizes, one of them constant."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(80, 4)) * [1, 1e-3, 1e3, 0] + [0, 1, -1e4, 5]


@pytest.mark.parametrize(
    "steps",
    [
        (StandardScaler(),),
        (StandardScaler(with_mean=False),),
        (StandardScaler(with_std=False), MaxAbsScaler()),
        (RobustScaler(),),
        (RobustScaler(with_centering=False, with_scaling=False), StandardScaler()),
        (MaxAbsScaler(), "passthrough", MinMaxScaler((-1, 3))),
        (MinMaxScaler(), StandardScaler()),
    ],
    ids=str,
)
def test_what_is_saved_takes_rows_that_are_not_scaled(tmp_path, X, steps):
    """It predicts what the pipeline predicts, up to rounding."""
    classifier = RectifierClassifier(max_epochs=5, random_state=0)
    pipeline = make_pipeline(*steps, classifier).fit(X, X[:, 0] > 0)
    save(pipeline, tmp_path / "model")
    loaded = load(tmp_path / "model")
    expected = pipeline.predict_proba(X)
    assert np.allclose(loaded.predict_proba(X), expected, rtol=1e-6)
    assert np.ptp(expected) > 0.1
    assert loaded.score(X, X[:, 0] > 0) == pipeline.score(X, X[:, 0] > 0)


@pytest.mark.parametrize("estimator", [RectifierRegressor, RatingRegressor])
def test_pipelines_of_every_kind(X, estimator):
    """The kind is that of the last step."""
    y = np.rint(X[:, 0])
    last = estimator(max_epochs=3, random_state=0)
    pipeline = make_pipeline(StandardScaler(), last).fit(X, y)
    model = StackModel.of(pipeline)
    assert model.kind == StackModel.of(last).kind
    assert np.allclose(model.predict(X), pipeline.predict(X), rtol=1e-6)


def test_a_sparse_pipeline(X):
    """Scalers that leave zeros alone take sparse rows, and so does the model."""
    rows = sp.csr_array(np.maximum(X, 0))
    pipeline = make_pipeline(MaxAbsScaler(), RectifierClassifier(max_epochs=2))
    pipeline.fit(rows, X[:, 0] > 0)
    model = StackModel.of(pipeline)
    assert np.allclose(model.predict_proba(rows), pipeline.predict_proba(rows))


def test_names_are_those_of_the_columns_that_go_in(X):
    """The estimator at the end does not know them."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd"))
    pipeline = make_pipeline(StandardScaler(), RectifierClassifier(max_epochs=1))
    model = StackModel.of(pipeline.fit(frame, X[:, 0] > 0))
    assert model.feature_names == tuple("abcd")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (FunctionTransformer(np.tanh), r"step 'odd' .* is a FunctionTransformer, whi"),
        (MinMaxScaler(clip=True), r"step 'odd' .* clips values, which .* without clip"),
    ],
)
def test_steps_that_cannot_be_folded_are_named(X, step, message):
    """With what to do in place of it."""
    steps = [("odd", step), ("last", RectifierClassifier(max_epochs=1))]
    pipeline = Pipeline(steps).fit(X, X[:, 0] > 0)
    with pytest.raises(ParameterError, match=rf"{message}.* or pickle the pipeline"):
        StackModel.of(pipeline)


def test_pipelines_that_are_no_model(X):
    """Not fitted, or with another estimator at the end."""
    unfitted = make_pipeline(StandardScaler(), RectifierClassifier())
    with pytest.raises(ParameterError, match=r"'standardscaler' .* is not fitted"):
        StackModel.of(unfitted)
    with pytest.raises(ParameterError, match=r"StandardScaler has no stack_, expected"):
        StackModel.of(make_pipeline(StandardScaler()).fit(X))


def test_a_weight_that_cannot_be_stored():
    """The column is named, by number or name."""
    stack = RectifierStack((Layer([[1.0], [1e9]], [0.0], "identity"),))
    shift, scale = np.zeros(2), np.array([1.0, 1e-307])
    for names, column in ((None, "1"), (("a", "b"), "'b'")):
        with pytest.raises(DataError, match=rf"Column {column} .* a weight cannot be"):
            fold_scaling(stack, shift, scale, names)
