"""The estimators inside what others build, with the real packages."""

import numpy as np
import pytest
import scipy.sparse as sp
from joblib import Parallel, delayed, dump, load
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import load_digits
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectFromModel, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from hardzero import RatingRegressor, RectifierClassifier, RectifierRegressor

pytestmark = pytest.mark.filterwarnings("ignore::hardzero.DeadUnitWarning")
X, Y = load_digits(return_X_y=True)
X, Y = X[:200] / 16, Y[:200]
WORDS = np.array([f"digit {k}" for k in range(10)])[Y]
ESTIMATORS = [RectifierClassifier, RectifierRegressor, RatingRegressor]


def network(make=RectifierClassifier, **options):
    """Return a small, quick network."""
    return make(
        **{"hidden_sizes": 20, "max_epochs": 15, "random_state": 0, "n_threads": 1}
        | {"learning_rate": 0.01}
        | options
    )


# ------------------------------------------------------------------ scikit-learn


def test_pipeline_of_text():
    """Words become sparse features, which are never made dense."""
    words = ["sun and sand", "rain and wind", "sun", "wind", "sand", "rain"] * 5
    pipeline = make_pipeline(TfidfVectorizer(), network())
    assert pipeline.fit(words, ["good", "bad"] * 15).score(words, ["good", "bad"] * 15)


def test_pipeline_of_columns():
    """Mixed columns go through a ColumnTransformer, names included."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"size": X[:, 20], "kind": np.where(Y > 4, "big", "small")})
    columns = ColumnTransformer(
        [("scale", StandardScaler(), ["size"]), ("encode", OneHotEncoder(), ["kind"])]
    )
    pipeline = make_pipeline(columns, network(RectifierRegressor))
    assert pipeline.fit(frame, Y).score(frame, Y) > 0.6


def test_searches():
    """Grids are searched through, by halving and in several processes, too."""
    grid = {"hidden_sizes": [(2,), (30, 20)], "dropout": [0.0, 0.9]}
    best = {"hidden_sizes": (30, 20), "dropout": 0.0}
    search = GridSearchCV(network(early_stopping=True), grid, cv=2, n_jobs=2)
    assert search.fit(X, WORDS).best_params_ == best
    halving = HalvingGridSearchCV(
        network(), grid, cv=2, resource="max_epochs", max_resources=12, random_state=0
    )
    assert halving.fit(X, WORDS).best_params_ == best | {"max_epochs": 12}


@pytest.mark.parametrize("make", ESTIMATORS)
def test_cross_validation_keeps_own_validation_rows_whole(make):
    """Rows that are routed to fit as validation rows are not cut to a fold's rows."""
    with config_context(enable_metadata_routing=True):
        routed = network(make, early_stopping=True).set_fit_request(
            X_val=True, y_val=True, sample_weight=True
        )
        routed.set_score_request(sample_weight=False)
        result = cross_validate(
            routed,
            X[:150],
            Y[:150],
            cv=2,
            params={
                "X_val": X[150:],
                "y_val": Y[150:],
                "sample_weight": np.arange(1, 151),
            },
            return_estimator=True,
        )
    for fitted in result["estimator"]:
        assert len(fitted.validation_loss_curve_) == fitted.n_iter_
        assert fitted.batch_size_ == 32  # of 75 rows: none was set aside


def test_weights_are_routed_through_a_pipeline():
    """Requests reach fit, partial_fit and score."""
    weights = np.arange(1.0, 201)
    with config_context(enable_metadata_routing=True):
        inner = network().set_fit_request(sample_weight=True)
        inner.set_score_request(sample_weight=True)
        inner.set_partial_fit_request(sample_weight=True, classes=True)
        pipeline = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False), inner
        )
        pipeline.fit(X, Y, sample_weight=weights)
    direct = clone(inner).fit(StandardScaler().fit_transform(X), Y, weights)
    assert pipeline[-1].stack_ == direct.stack_


def test_classifiers_of_classifiers():
    """Calibration, stacking, voting, bagging, boosting and the like take networks."""
    for outer in (
        CalibratedClassifierCV(network(), cv=2),
        CalibratedClassifierCV(FrozenEstimator(network().fit(X, WORDS))),
        StackingClassifier([("net", network()), ("line", LogisticRegression())], cv=2),
        VotingClassifier(
            [("a", network()), ("b", network(dropout=0.1))], voting="soft"
        ),
        BaggingClassifier(network(), n_estimators=3, random_state=0),
        AdaBoostClassifier(network(max_epochs=3), n_estimators=3, random_state=0),
        OneVsRestClassifier(network()),
    ):
        outer.fit(X, WORDS)
        assert outer.score(X, WORDS) > 0.7, outer
        np.testing.assert_allclose(outer.predict_proba(X[:9]).sum(axis=1), 1, rtol=1e-6)


def test_regressors_of_regressors():
    """Stacking, transformed targets and the like take networks."""
    for outer in (
        StackingRegressor(
            [("net", network(RectifierRegressor)), ("stars", network(RatingRegressor))],
            final_estimator=Ridge(),
            cv=2,
        ),
        TransformedTargetRegressor(
            network(RectifierRegressor), func=np.log1p, inverse_func=np.expm1
        ),
    ):
        assert outer.fit(X, Y).score(X, Y) > 0.6
    both = MultiOutputRegressor(network(RectifierRegressor))
    assert both.fit(X, np.column_stack([Y, -Y])).predict(X).shape == (200, 2)


def test_chains_and_unlabelled_rows():
    """Chains of labels and self-training take networks, labels of words included."""
    matrix = np.column_stack([Y > 4, Y % 2 == 0]).astype(int)
    chain = ClassifierChain(network(), order=[1, 0]).fit(X, matrix)
    assert chain.predict(X).shape == (200, 2)
    some = np.where(np.arange(200) % 4 == 0, Y, -1)
    assert SelfTrainingClassifier(network(max_epochs=60)).fit(X, some).score(X, Y) > 0.6


def test_selection_and_importance():
    """Features are chosen by how much predictions lose without them."""
    rows = np.column_stack([X[:, 20:22], np.zeros(200)])
    fitted = network(RectifierRegressor).fit(rows, rows[:, 0])
    importance = permutation_importance(
        fitted, rows, rows[:, 0], n_repeats=2, random_state=0
    )
    assert importance.importances_mean.argmax() == 0
    selector = SequentialFeatureSelector(
        network(RectifierRegressor, hidden_sizes=5), n_features_to_select=1, cv=2
    )
    assert list(selector.fit(rows, rows[:, 0]).get_support(indices=True)) == [0]
    chosen = SelfImportance.select(fitted)
    assert chosen.transform(rows).shape[1] >= 1


class SelfImportance:
    """Importance of features as the size of their first weights."""

    @staticmethod
    def select(fitted):
        """Return a selector that goes by it."""
        return SelectFromModel(
            fitted,
            importance_getter=lambda one: np.abs(one.stack_.layers[0].W).sum(axis=1),
            prefit=True,
        )


@pytest.mark.parametrize("make", ESTIMATORS)
def test_functions_of_model_selection(make):
    """Scores, predictions and curves of cross-validation can be had."""
    assert cross_val_score(network(make), X, Y, cv=2).mean() > 0.4
    assert cross_val_predict(network(make), X, Y, cv=2).shape == (200,)
    _, train, _ = learning_curve(
        network(make),
        X,
        Y,
        cv=2,
        train_sizes=[0.5, 1.0],
        exploit_incremental_learning=True,
    )
    assert train.shape == (2, 2)


# ------------------------------------------------------------------ containers


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("make", ESTIMATORS)
def test_set_output(make, kind):
    """Hidden activations come as frames with names, if asked for."""
    frames = pytest.importorskip(kind)
    frame = frames.DataFrame({f"pixel {k}": column for k, column in enumerate(X.T)})
    fitted = network(make).set_output(transform=kind).fit(frame, Y)
    hidden = fitted.transform(frame)
    assert isinstance(hidden, frames.DataFrame)
    assert list(hidden.columns) == list(fitted.get_feature_names_out())
    assert next(iter(hidden.columns)) == f"{make.__name__.lower()}0"


@pytest.mark.parametrize("make", ESTIMATORS)
def test_read_only_memory_maps(make, tmp_path):
    """Arrays and sparse matrices on disk, opened read-only, are used as they are."""
    dump((X, sp.csr_array(X), Y), tmp_path / "data.joblib")
    rows, sparse, y = load(tmp_path / "data.joblib", mmap_mode="r")
    assert not rows.flags.writeable
    plain = network(make, max_epochs=2).fit(X, Y).predict(X)
    for given in (rows, sparse):
        fitted = network(make, max_epochs=2).fit(given, y)
        np.testing.assert_allclose(fitted.predict(given), plain, rtol=1e-6, atol=1e-9)
        fitted.partial_fit(given, y).transform(given)
        network(
            make, early_stopping=True, max_epochs=2, batch_norm=True, dropout=0.1
        ).fit(given, y)


@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_processes_and_threads(make, backend):
    """Fits in other processes and in threads give the bits of a fit here."""

    def fit_and_score(estimator):  # local, so that it travels with its data
        return estimator.fit(X, Y).score(X, Y)

    expected = fit_and_score(network(make))
    scores = Parallel(n_jobs=2, backend=backend)(
        delayed(fit_and_score)(network(make)) for _ in range(3)
    )
    assert scores == [expected] * 3


# ------------------------------------------------------------------ other packages


def test_imbalanced_learn():
    """Resamplers in its pipelines, and its ensembles, take networks."""
    imblearn = pytest.importorskip("imblearn")
    from imblearn.ensemble import BalancedBaggingClassifier
    from imblearn.over_sampling import SMOTE, RandomOverSampler
    from imblearn.pipeline import make_pipeline as make_resampling_pipeline

    assert imblearn.__version__
    rare = np.where((Y == 8) | (Y == 3), "rare", "common")
    for resample in (RandomOverSampler(random_state=0), SMOTE(random_state=0)):
        pipeline = make_resampling_pipeline(StandardScaler(), resample, network())
        assert pipeline.fit(X, rare).score(X, rare) > 0.9
    bag = BalancedBaggingClassifier(network(), n_estimators=3, random_state=0)
    found = bag.fit(X, rare).predict(X) == "rare"
    assert found[rare == "rare"].mean() > 0.7


def test_mlxtend():
    """Its stacking, voting, selection and tests take networks."""
    pytest.importorskip("mlxtend")
    from mlxtend.classifier import EnsembleVoteClassifier, StackingCVClassifier
    from mlxtend.evaluate import mcnemar, mcnemar_table
    from mlxtend.feature_selection import SequentialFeatureSelector as Selector

    stack = StackingCVClassifier(
        [network(), network(dropout=0.1)],
        network(hidden_sizes=()),
        use_probas=True,
        cv=2,
        random_state=0,
    )
    assert stack.fit(X, Y).score(X, Y) > 0.7
    vote = EnsembleVoteClassifier([network(), network(dropout=0.1)], voting="soft")
    assert vote.fit(X, Y).score(X, Y) > 0.8
    selector = Selector(network(max_epochs=3, hidden_sizes=5), k_features=1, cv=2)
    assert len(selector.fit(X[:, 18:22], Y > 4).k_feature_idx_) == 1
    first, second = network().fit(X, Y), network(max_epochs=1).fit(X, Y)
    table = mcnemar_table(Y, first.predict(X), second.predict(X))
    assert mcnemar(table)[1] < 0.05


@pytest.mark.parametrize("make", ESTIMATORS)
def test_skops(make):
    """A skops file predicts the same and asks to trust nothing but our own classes."""
    skops = pytest.importorskip("skops.io")
    fitted = network(make).fit(X, Y)
    data = skops.dumps(fitted)
    untrusted = skops.get_untrusted_types(data=data)
    assert all(name.startswith("hardzero.") for name in untrusted), untrusted
    again = skops.loads(data, trusted=untrusted)
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
