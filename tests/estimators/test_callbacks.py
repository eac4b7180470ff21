"""The callbacks of scikit-learn 1.9."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hardzero import RatingRegressor, RectifierClassifier, RectifierRegressor

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9")

pytestmark = pytest.mark.filterwarnings("ignore::hardzero.DeadUnitWarning")
X, Y = load_digits(return_X_y=True)
X, Y = X[:200] / 16, Y[:200]


class Recorder:
    """Write down what is called, and stop after some epochs."""

    def __init__(self, stop_after=None):
        self.calls, self.scores = [], []
        self.stop_after = stop_after

    def setup(self, estimator, context):  # noqa: ARG002
        """Note the start."""
        self.calls.append("setup")

    def on_fit_task_begin(self, estimator, context, *, X, y):  # noqa: ARG002
        """Note the task and its data."""
        self.calls.append(f"begin {context.task_name}")
        self.rows = X

    def on_fit_task_end(self, estimator, context, *, fitted_estimator, X, y, metadata):  # noqa: ARG002
        """Note the task and how good the estimator is at its end."""
        self.calls.append(f"end {context.task_name}")
        self.scores.append(fitted_estimator.score(X, y))
        self.metadata = metadata
        return self.stop_after is not None and len(self.scores) >= self.stop_after

    def teardown(self, estimator, context):  # noqa: ARG002
        """Note the end."""
        self.calls.append("teardown")


@pytest.mark.parametrize(
    "make", [RectifierClassifier, RectifierRegressor, RatingRegressor]
)
def test_each_epoch_is_a_task(make):
    """Callbacks hear of each epoch in turn, with an estimator that predicts."""
    recorder = Recorder()
    network = make(20, max_epochs=3, random_state=0).set_callbacks(recorder)
    network.fit(X, Y)
    epochs = ["begin epoch", "end epoch"] * 3
    assert recorder.calls == ["setup", "begin fit", *epochs, "end fit", "teardown"]
    expected = [
        make(20, max_epochs=n, random_state=0).fit(X, Y).score(X, Y) for n in (1, 2, 3)
    ]
    assert recorder.scores == pytest.approx([*expected, expected[-1]])


def test_a_callback_ends_training():
    """Training ends after the epoch whose end call returns True, without a warning."""
    recorder = Recorder(stop_after=4)
    network = RectifierClassifier(20, random_state=0).set_callbacks(recorder)
    network.fit(X, Y, sample_weight=np.ones(200))
    assert network.n_iter_ == 4
    assert "sample_weight" in recorder.metadata
    assert recorder.calls.count("begin epoch") == 4


def test_callbacks_end_even_if_training_fails():
    """A fit that raises tears its callbacks down."""
    recorder = Recorder()
    network = RectifierClassifier(20).set_callbacks(recorder)
    with pytest.raises(ValueError, match="NaN"):
        network.fit(np.full_like(X, np.nan), Y)
    network.set_params(solver="sgd", learning_rate=1e300)
    with pytest.raises(ArithmeticError):
        network.fit(X, Y)
    assert recorder.calls == ["setup", "begin fit", "begin epoch", "teardown"]


def test_names_of_columns_reach_callbacks():
    """Callbacks see the user's frame, so that scoring it warns of nothing."""
    pd = pytest.importorskip("pandas")
    recorder = Recorder()
    frame = pd.DataFrame(X).add_prefix("pixel ")
    network = RectifierClassifier(5, max_epochs=2).set_callbacks(recorder)
    network.fit(frame, Y)
    assert recorder.rows is frame


def test_progress_bar_of_scikit_learn(capsys):
    """The bar that scikit-learn brings works."""
    network = RectifierClassifier(5, max_epochs=3)
    network.set_callbacks(callback.ProgressBar()).fit(X, Y)
    assert "RectifierClassifier" in "".join(capsys.readouterr())


def test_early_stopping_with_callbacks():
    """An epoch that was announced and never came does no harm."""
    recorder = Recorder()
    network = RectifierClassifier(5, early_stopping=True, patience=1, random_state=0)
    network.set_callbacks(recorder).fit(X, Y)
    assert network.history_.stopped == "early_stopping"
    assert recorder.calls.count("end epoch") == network.n_iter_
