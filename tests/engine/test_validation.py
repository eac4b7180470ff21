"""How good outputs are: error, loss, score, and what epochs are ranked by."""

import math

import numpy as np
import pytest

from hardzero.engine.objectives import SigmoidLogLoss, SoftmaxLogLoss, Squared
from hardzero.engine.validation import Validation, judge
from hardzero.errors import ParameterError

OUTPUTS = np.array([[0.0, 2.0], [2.0, 0.0], [0.0, 2.0], [0.0, 2.0]])
CLASSES = np.array([1, 1, 1, 0])
RIGHT, WRONG = math.log1p(math.exp(-2)), 2 + math.log1p(math.exp(-2))


def _judge(outputs=OUTPUTS, y=CLASSES, objective=None, **options):
    validation = Validation(np.zeros((len(y), 1)), y, **options)
    return judge(validation, objective or SoftmaxLogLoss(), outputs)


def test_classifier():
    """A classifier is ranked by its share of wrong rows, then by its loss."""
    verdict = _judge()
    assert verdict.error == 0.5
    assert verdict.loss == pytest.approx((RIGHT + WRONG) / 2)
    assert verdict.rank == (verdict.error, verdict.loss)
    assert verdict.score is None


def test_labels_are_wrong_together():
    """With several labels, a row counts as wrong as soon as one of them is."""
    y = np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    assert _judge(OUTPUTS - 1, y, SigmoidLogLoss()).error == 0.25


def test_regression_has_no_error():
    """A regression is ranked by its loss alone."""
    verdict = _judge(OUTPUTS, np.zeros((4, 2)), Squared())
    assert (verdict.rank, verdict.loss, verdict.error) == ((0.0, 2.0), 2.0, None)


def test_score_goes_before_error():
    """With a score, the greatest is the best; error and loss are still measured."""
    seen = []
    verdict = _judge(score=lambda outputs: seen.append(outputs) or 7)
    assert verdict.rank == (-7.0, verdict.loss)
    assert (verdict.score, verdict.error) == (7.0, 0.5)
    np.testing.assert_array_equal(seen[0], OUTPUTS)


def test_weights_are_copies():
    """Rows of weight 2 count as two rows, rows of weight 0 not at all."""
    verdict = _judge(sample_weight=np.array([2.0, 1.0, 0.0, 0.0]))
    again = _judge(OUTPUTS[[0, 0, 1]], CLASSES[[0, 0, 1]])
    assert verdict.error == again.error == 1 / 3
    assert verdict.loss == pytest.approx(again.loss, rel=1e-15)


def test_overflow_is_wrong():
    """An output that is not finite is wrong, its loss infinite, its score the least."""
    outputs = OUTPUTS.copy()
    outputs[0, 1] = np.inf

    def score(_):
        raise AssertionError

    verdict = _judge(outputs, score=score)
    assert (verdict.error, verdict.loss, verdict.score) == (0.75, math.inf, -math.inf)
    assert _judge(outputs).rank > _judge().rank


def test_overflow_without_weight():
    """An output that is not finite does no harm where the weight is 0."""
    outputs = OUTPUTS.copy()
    outputs[0, 1] = np.nan
    weights = np.array([0.0, 1.0, 1.0, 1.0])
    assert _judge(outputs, sample_weight=weights).error == 2 / 3


def test_no_weight_at_all():
    """Weights that add up to 0 are an error."""
    with pytest.raises(ParameterError, match="validation rows add up to 0"):
        _judge(sample_weight=np.zeros(4))


def test_score_that_is_no_number():
    """A score of NaN, such as of a single class, is an error."""
    with pytest.raises(ParameterError, match="score of the validation rows is nan"):
        _judge(score=lambda _: math.nan)
