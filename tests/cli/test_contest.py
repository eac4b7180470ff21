"""Training one network after another."""

import dataclasses

import numpy as np
import pytest

from hardzero import compare_errors, datasets
from hardzero.cli import contest
from hardzero.cli.contest import ACTIVATIONS, Contest, Run, compare_starts, hold_contest
from hardzero.errors import ParameterError

SMALL = Contest("digits", (20, 10), max_epochs=2, batch_size=50, n_seeds=2)


def test_every_activation_from_every_seed():
    """Seed by seed; only the rectifier has zeros, and dead units perhaps."""
    runs = list(hold_contest(SMALL, n_threads=1))
    assert [(run.seed, run.activation) for run in runs] == [
        (seed, activation) for seed in (0, 1) for activation in ACTIVATIONS
    ]
    for run in runs:
        assert run.test_error == len(run.wrong_rows) / run.n_rows
        assert run.n_rows == 597
        assert set(run.wrong_rows) <= set(range(597))
        assert not run.pretrained
        assert run.pretraining_seconds == 0
        assert len(run.zeros) == 2
        assert run.n_units == 30
        assert run.seconds > 0
        assert (min(run.zeros) > 0.1) == (run.activation == "rectifier")
        assert 0 <= run.dead_units <= (29 if run.activation == "rectifier" else 0)


def test_the_same_seed_gives_the_same_network():
    """All but the time is the same again, with another number of threads too."""
    one, two = (
        [
            dataclasses.replace(run, seconds=0)
            for run in hold_contest(SMALL, n_threads=n)
        ]
        for n in (1, 2)
    )
    assert one == two


def test_few_labels_and_pre_training(monkeypatch):
    """All networks of a seed know the same labels; only the pre-trained ones get the
    other rows, and another seed draws other labels.
    """
    fit, seen = contest.RectifierClassifier.fit, []

    def watched(self, X, y, X_unlabeled=None):
        seen.append((X, y, X_unlabeled, self.pretraining))
        return fit(self, X, y, X_unlabeled=X_unlabeled)

    monkeypatch.setattr(contest.RectifierClassifier, "fit", watched)
    few = dataclasses.replace(SMALL, n_labels=100, pretraining=True)
    runs = list(hold_contest(few, n_threads=1))
    assert [run.pretrained for run in runs] == [False, True] * 6
    assert all((run.pretraining_seconds > 0) == run.pretrained for run in runs)
    for i, (X, y, unlabelled, pretraining) in enumerate(seen):
        assert X.shape == (100, 64)
        assert (seen[i - i % 6][0] == X).all()
        assert (seen[i - i % 6][1] == y).all()
        assert pretraining == ("denoising" if i % 2 else None)
        assert (unlabelled is not None) == (i % 2 == 1)
        if unlabelled is not None:
            together = np.concatenate([X, unlabelled])
            everything = datasets.load_digits().X_train
            assert (np.sort(together, axis=0) == np.sort(everything, axis=0)).all()
    assert (seen[0][0] != seen[6][0]).any()


def test_pre_training_with_all_labels():
    """Without rows to spare, pre-training uses those with labels."""
    one = dataclasses.replace(SMALL, n_seeds=1, pretraining=True)
    for n_labels in (None, 1200):
        runs = list(
            hold_contest(dataclasses.replace(one, n_labels=n_labels), n_threads=1)
        )
        assert [run.pretraining_seconds > 0 for run in runs] == [False, True] * 3


def test_more_labels_than_rows():
    """They are refused before anything is trained."""
    too_many = dataclasses.replace(SMALL, n_labels=1201)
    with pytest.raises(ParameterError, match="1,201 labels are wanted, but digits has"):
        next(hold_contest(too_many, n_threads=1))


def _run(pretrained, seed, wrong_rows, activation="tanh"):
    return Run(
        activation=activation,
        pretrained=pretrained,
        seed=seed,
        test_error=len(wrong_rows) / 40,
        wrong_rows=tuple(wrong_rows),
        n_rows=40,
        zeros=(0.0,),
        dead_units=0,
        n_units=10,
        pretraining_seconds=0.0,
        seconds=1.0,
    )


def test_comparison_of_one_seed_is_exact():
    """One network against another is McNemar's test on the rows that they get wrong."""
    runs = [
        _run(False, 0, range(9)),
        _run(True, 0, [0, 30]),
        _run(True, 0, [], activation="rectifier"),
    ]
    y = np.zeros(40)
    a, b = (np.isin(np.arange(40), run.wrong_rows) for run in runs[:2])
    assert compare_starts(runs, "tanh") == compare_errors(y, a, b)


def test_comparison_of_several_seeds_counts_rows_once():
    """Five times the same two networks are no more evidence than the two."""
    runs = [
        run
        for seed in range(5)
        for run in (_run(False, seed, range(9)), _run(True, seed, [0, 30]))
    ]
    one, five = compare_starts(runs[:2], "tanh"), compare_starts(runs, "tanh")
    assert five.test == "paired bootstrap"
    assert (five.n, five.difference) == (40, pytest.approx(7 / 40))
    assert (five.error_a, five.error_b) == pytest.approx((one.error_a, one.error_b))
    assert five.interval == pytest.approx(one.interval, abs=0.05)
    assert five.p_value > one.p_value / 5


def test_ctrl_c_ends_the_contest(monkeypatch):
    """A network whose training was interrupted does not count."""
    fit = contest.RectifierClassifier.fit

    def interrupted(self, X, y):
        fit(self, X, y)
        self.history_ = dataclasses.replace(self.history_, stopped="interrupted")
        return self

    monkeypatch.setattr(contest.RectifierClassifier, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(hold_contest(SMALL, n_threads=1))
