"""Predictions of a network without its estimator."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from hardzero.errors import DataError, ParameterError
from hardzero.estimators.classifier import RectifierClassifier
from hardzero.estimators.rating import RatingRegressor
from hardzero.estimators.regressor import RectifierRegressor
from hardzero.serving import StackModel
from hardzero.stack import Layer, RectifierStack


@pytest.fixture(scope="module")
def rows():
    """Rows of which about half of the values are zero, and their labels."""
    rng = np.random.default_rng(0)
    X = np.maximum(rng.normal(size=(3000, 7)), 0).astype(np.float32)
    return X, np.where(X[:, 0] > X[:, 1], "yes", "no")


@pytest.fixture(scope="module")
def classifier(rows):
    """A fitted classifier."""
    return RectifierClassifier((20, 10), max_epochs=2, random_state=0).fit(*rows)


def tiny(link="softmax", classes=(3, 5), names=None, kind=None):
    """Make a model of one layer with two inputs."""
    layer = Layer([[1.0, 0.0], [0.0, 2.0]], [0.0, 0.0], "identity")
    return StackModel(RectifierStack((layer,), link), classes, names, kind)


def narrow(link="identity"):
    """Make a regressor with a single output."""
    return StackModel(RectifierStack((Layer([[2.0]], [1.0], "identity"),), link))


def fitted(stack, base, **attributes):
    """Make what looks like an estimator of scikit-learn with this network."""
    estimator = type("Fitted", (base, BaseEstimator), {})()
    estimator.__dict__.update(attributes, stack_=stack)
    return estimator


def test_predicts_as_the_classifier(classifier, rows):
    """Same probabilities, to the last bit, and same labels, dense and sparse."""
    model = StackModel.of(classifier)
    X, _ = rows
    for form in (X, sp.csr_matrix(X), sp.csc_array(X), X.astype(np.float64)):
        assert np.array_equal(model.predict_proba(form), classifier.predict_proba(X))
        assert np.array_equal(model.predict(form), classifier.predict(X))


def test_threads_do_not_change_a_bit(classifier, rows):
    """One thread and three give the same probabilities."""
    model = StackModel.of(classifier)
    one, three = (model.predict_proba(rows[0], n_threads=n) for n in (1, 3))
    assert np.array_equal(one, three)


def test_no_rows_give_no_predictions():
    """Zero rows are rows too."""
    assert tiny().predict(np.empty((0, 2))).shape == (0,)


def test_labels_come_back(classifier):
    """Predictions are labels, of the type that was given."""
    assert tiny().predict([[2, 0], [0, 2]]).tolist() == [3, 5]
    words = np.array(["a", "b"], dtype=object)
    assert tiny(classes=words).predict([[2, 0]]).tolist() == ["a"]
    assert StackModel.of(classifier).classes.tolist() == ["no", "yes"]


def test_feature_names_are_taken_over(rows):
    """What the classifier knows as feature_names_in_ is kept."""
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(rows[0][:50], columns=list("abcdefg"))
    model = StackModel.of(RectifierClassifier(max_epochs=1).fit(X, rows[1][:50]))
    assert model.feature_names == tuple("abcdefg")


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1, 2, 3]], r"shape \(1, 3\), expected \(n_samples, 2\)"),
        ([1, 2], r"shape \(2,\), expected"),
        ([[1, np.nan]], r"missing, infinite or too large for float64"),
        (sp.csr_array([[1.0, np.inf]]), r"expected finite numbers"),
        (sp.csr_array([[1.0, 2.0, 3.0]]), r"shape \(1, 3\)"),
        ([[1, 2j]], r"values of type complex128, expected real numbers"),
        (sp.csr_array([[1, 2j]]), r"values of type complex128"),
        (np.array([[1, 2j]], dtype=object), r"values of type complex, expected real"),
        (np.array([[np.datetime64(1, "D"), 1.5]], object), r"of type datetime64"),
        ([[10**400, None]], r"not numbers .*int too large"),
        (np.array([["2020-01-01"] * 2], "M8[D]"), r"of type datetime64\[D\]"),
        (np.ma.masked_array([[1.0, 2.0]], [[0, 1]]), r"masked array"),
        (np.array([["red", 2]], dtype=object), r"not numbers .* Encode words"),
        ([["red", "blue"]], r"not numbers .* Encode words"),
        ([[1, 2], [3]], r"not a table of numbers"),
        ([[1e308, 1e308]], r"row 0 of X.* overflow float64"),
    ],
)
def test_unusable_rows_are_refused(X, message):
    """Wrong widths and values that are not finite are a DataError."""
    with pytest.raises(DataError, match=message):
        tiny().predict(X)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"classes": [1, 2, 3]}, r"int64 of shape \(3,\), .* shape \(2,\)"),
        ({"classes": [None, 1]}, r"classes is object"),
        ({"classes": ["a", "a"]}, r"'a'.* more than once, expected labels that can"),
        ({"classes": [0.5, np.nan]}, r"NaN or infinity"),
        ({"link": "identity"}, r"given for a regressor, .* 'identity' makes it"),
        ({"names": ["a"]}, r"1 names but the network has 2 inputs"),
        ({"names": ["a", "\ud800"]}, r"feature_names has .* surrogate '\\ud800'"),
        ({"classes": ["a", "\udfff"]}, r"classes has .* lone surrogate"),
        ({"classes": None}, r"classes is object of shape \(\)"),
        ({"link": "sigmoid", "kind": "classifier"}, r"'sigmoid', expected 'softmax'"),
        ({"kind": "regressor"}, r"'softmax', expected 'identity' or 'exp'"),
        ({"kind": "cluster"}, r"'cluster', expected one of classifier, multilabel"),
        ({"kind": "rating", "classes": ["a", "b"]}, r"<U1, expected numbers"),
        ({"kind": "rating", "classes": [False, True]}, r"bool, expected numbers"),
    ],
)
def test_parts_must_fit(wrong, message):
    """Classes, link and names are checked against the network."""
    with pytest.raises(ParameterError, match=message):
        tiny(**wrong)


def test_an_unfitted_classifier_is_refused():
    """The message says to call fit."""
    with pytest.raises(ParameterError, match=r"no stack_, .* Call fit first"):
        StackModel.of(RectifierClassifier())


def test_equality_copies_and_repr():
    """Models compare by value, can be copied and pickled, and show their classes."""
    model = tiny(names=("a", "b"))
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert other == model
        assert hash(other) == hash(model)
        assert np.array_equal(other.predict([[1, 2]]), model.predict([[1, 2]]))
    assert tiny(classes=(3, 6)) != tiny()
    assert tiny(names=("a", "c")) != model
    assert tiny() != "model"
    assert repr(model).startswith(
        "StackModel: classifier of 2 classes (3, 5)\nRectifierStack: 2"
    )


def test_columns_are_found_by_name():
    """A data frame may have the columns in any order, but no other columns."""
    pd = pytest.importorskip("pandas")
    model = tiny(names=("a", "b"))
    X = pd.DataFrame({"a": [1.0, 5.0], "b": [2.0, 0.0]})
    expected = model.predict_proba(X.to_numpy())
    for frame in (X, X[["b", "a"]], X.set_axis([0, 1], axis=1)):
        assert np.array_equal(model.predict_proba(frame), expected)
    assert np.array_equal(tiny().predict_proba(X), expected)
    wrong = {
        r"lacks the columns 'b', has the unknown columns 'c'": {"b": "c"},
        r"lacks the columns 'b', has the unknown columns none": {"b": "a"},
        r"lacks the columns 'b', has the unknown columns 7": {"b": 7},
    }
    for message, names in wrong.items():
        with pytest.raises(DataError, match=message):
            model.predict(X.rename(columns=names))
    with pytest.raises(DataError, match=r"the unknown columns 'c', and has 3 columns"):
        model.predict(X.assign(c=1))


def test_the_label_is_that_of_the_largest_output():
    """As in the classifier, even where the probabilities are rounded to the same."""
    X = [[2.0**-9, np.nextafter(2.0**-10, 1)]]
    assert tiny().predict_proba(X).tolist() == [[0.5, 0.5]]
    assert tiny().predict(X).tolist() == [5]


def test_rows_of_the_user_are_not_changed():
    """Entries of sparse rows in any order, given twice, stay as they are."""
    X = sp.csr_array((np.ones(3), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2))
    assert np.array_equal(tiny().predict_proba(X), tiny().predict_proba([[1, 2]]))
    assert X.indices.tolist() == [1, 0, 1]


def test_several_labels_at_once():
    """Each label is predicted by the sign of its output."""
    model = tiny("sigmoid", ("sun", "rain"))
    assert model.kind == "multilabel"
    found = model.predict([[3, -1], [0, 1], [-1, 1e-300]])
    assert found.tolist() == [[1, 0], [0, 1], [0, 1]]
    assert found.dtype == np.int64
    chances = model.predict_proba([[np.log(3), 0]])
    assert np.allclose(chances, [[0.75, 0.5]], rtol=1e-15)


def test_ratings_are_the_mean_of_the_classes():
    """Expected value under the probabilities, of the dtype of the network."""
    model = tiny(classes=(1, 5), kind="rating")
    assert np.allclose(model.predict([[np.log(3), 0], [0, 0]]), [2, 3], rtol=1e-15)
    single = StackModel(model.stack.astype(np.float32), (1, 5), kind="rating")
    assert single.predict([[0, 0]]).dtype == np.float32


def test_regressors():
    """Numbers, after the link; one output gives a flat array, and no probabilities."""
    assert narrow().kind == "regressor"
    assert narrow().predict([[1], [2]]).tolist() == [3, 5]
    assert tiny("identity", None).predict([[1, 2]]).tolist() == [[1, 4]]
    assert narrow("exp").predict([[-0.5]]).tolist() == [1]
    with pytest.raises(ParameterError, match=r"no probabilities. Call predict"):
        narrow().predict_proba([[1]])
    assert repr(narrow()).startswith("StackModel: regressor, 1 output(s)\nRect")
    assert narrow() == narrow()
    assert narrow() != narrow("exp")
    assert hash(narrow()) == hash(narrow())


def test_kinds_differ():
    """A rating model is not a classifier, though all else is equal."""
    assert tiny(kind="rating") != tiny()
    assert tiny("identity", None) != tiny()


def test_the_kind_is_that_of_the_estimator():
    """Inferred from what kind of estimator it is, its classes and its link."""
    softmax, sigmoid, identity = (
        tiny(link, None if link == "identity" else (3, 5)).stack
        for link in ("softmax", "sigmoid", "identity")
    )
    classes = np.array([3, 5])
    for estimator, kind in (
        (fitted(softmax, ClassifierMixin, classes_=classes), "classifier"),
        (fitted(sigmoid, ClassifierMixin, classes_=classes), "multilabel"),
        (fitted(softmax, RegressorMixin, classes_=classes), "rating"),
        (fitted(identity, RegressorMixin), "regressor"),
    ):
        model = StackModel.of(estimator)
        assert model.kind == kind
        assert model.stack is estimator.stack_
        assert (model.classes is None) == (kind == "regressor")


def test_outputs_lead_to_both_predictions_and_probabilities():
    """One pass through the network is enough for both."""
    for model in (tiny(), tiny("sigmoid"), tiny(kind="rating"), tiny("exp", None)):
        X = [[0.5, -1], [2, 3]]
        outputs = model.outputs(X)
        assert np.array_equal(model.decide(outputs), model.predict(X))
        if model.classes is not None:
            assert np.array_equal(model.apply_link(outputs), model.predict_proba(X))


def test_hidden_activations_are_those_of_the_classifier(classifier, rows):
    """Same bits for each layer, forwards and backwards, dense and sparse."""
    model, (X, _) = StackModel.of(classifier), rows
    for layer in (-2, -1, 0, 1):
        expected = classifier.transform(X, layer)
        assert np.array_equal(model.transform(X, layer), expected)
        assert np.array_equal(model.transform(sp.csr_array(X), layer), expected)
    assert np.array_equal(model.transform(X, n_threads=3), classifier.transform(X))


@pytest.mark.parametrize("layer", [2, -3, 0.0, "last"])
def test_hidden_layers_that_are_not_there(classifier, rows, layer):
    """The message says how many there are."""
    with pytest.raises(ParameterError, match=r"the network has 2 hidden layers, expe"):
        StackModel.of(classifier).transform(rows[0], layer)
    with pytest.raises(ParameterError, match=r"has 0 hidden layers"):
        tiny().transform([[1, 2]])


@pytest.mark.parametrize(
    ("estimator", "target"),
    [
        (RectifierClassifier, lambda X: X[:, 0] > 1),
        (RectifierClassifier, lambda X: (X[:, :3] > 1).astype(int)),
        (RectifierRegressor, lambda X: X[:, 0]),
        (RectifierRegressor, lambda X: X[:, :2]),
        (RatingRegressor, lambda X: np.rint(X[:, 0])),
    ],
    ids=["classes", "labels", "number", "numbers", "ratings"],
)
def test_scores_are_those_of_the_estimator(rows, estimator, target):
    """Of every kind, with and without weights."""
    X = rows[0][:200]
    y, weights = target(X), np.arange(200.0)
    fitted = estimator(max_epochs=3, random_state=0).fit(X, y)
    model = StackModel.of(fitted)
    assert model.score(X, y) == fitted.score(X, y)
    assert model.score(X, y, weights) == fitted.score(X, y, weights)
    assert isinstance(model.score(X, y), float)
