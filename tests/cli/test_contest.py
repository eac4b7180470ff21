"""Training one network after another."""

import dataclasses

import pytest

from hardzero.cli import contest
from hardzero.cli.contest import ACTIVATIONS, Contest, hold_contest

SMALL = Contest("digits", (20, 10), max_epochs=2, batch_size=50, n_seeds=2)


def test_every_activation_from_every_seed():
    """Seed by seed; only the rectifier has zeros, and dead units perhaps."""
    runs = list(hold_contest(SMALL, n_threads=1))
    assert [(run.seed, run.activation) for run in runs] == [
        (seed, activation) for seed in (0, 1) for activation in ACTIVATIONS
    ]
    for run in runs:
        assert 0 <= run.test_error <= 1
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
