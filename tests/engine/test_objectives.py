"""Losses and their derivatives, against other definitions and at their extremes."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardzero import kernels
from hardzero.engine.initialise import initialise
from hardzero.engine.objectives import (
    OBJECTIVES,
    Absolute,
    Huber,
    LogCosh,
    Poisson,
    Quantile,
    SigmoidLogLoss,
    SoftmaxLogLoss,
    Squared,
    check_targets,
    parse_objective,
)
from hardzero.errors import DataError, ParameterError
from hardzero.kernels.rules import SGD

RNG = np.random.default_rng(0)
REGRESSIONS = [
    Squared(),
    Absolute(),
    Huber(),
    Huber(0.3),
    LogCosh(),
    Quantile(0.9),
    Poisson(),
]
ELEMENTWISE = [SigmoidLogLoss(), *REGRESSIONS]
ALL = [SoftmaxLogLoss(), *ELEMENTWISE]


def _targets(objective, n_rows, n_outputs):
    if isinstance(objective, SoftmaxLogLoss):
        return RNG.integers(0, n_outputs, n_rows)
    if isinstance(objective, SigmoidLogLoss):
        return RNG.integers(0, 2, (n_rows, n_outputs)).astype(float)
    if isinstance(objective, Poisson):
        return RNG.poisson(2.0, (n_rows, n_outputs)).astype(float)
    return RNG.standard_normal((n_rows, n_outputs))


def _exact(objective, f, y):
    """Return loss and derivative of one output in many digits."""
    f, y = mpmath.mpf(float(f)), mpmath.mpf(float(y))
    d = f - y
    match objective:
        case SigmoidLogLoss():
            return mpmath.log1p(mpmath.exp(f)) - y * f, 1 / (1 + mpmath.exp(-f)) - y
        case Squared():
            return d**2 / 2, d
        case Absolute():
            return abs(d), mpmath.sign(d)
        case Huber(delta=delta):
            c = mpmath.mpf(delta)
            if abs(d) <= c:
                return d**2 / 2, d
            return c * (abs(d) - c / 2), c * mpmath.sign(d)
        case LogCosh():
            return mpmath.log(mpmath.cosh(d)), mpmath.tanh(d)
        case Quantile(q=q):
            q = mpmath.mpf(q)
            return max(q * -d, (1 - q) * d), (1 - q if d > 0 else -q) if d else 0
        case Poisson():
            return mpmath.exp(f) - y * f, mpmath.exp(f) - y
    raise AssertionError(objective)


# ------------------------------------------------------------------ derivatives


@pytest.mark.parametrize("objective", ALL, ids=str)
def test_delta_is_the_derivative_of_the_loss(objective):
    """Finite differences of the weighted loss agree with its derivative."""
    outputs = RNG.standard_normal((5, 3))
    y = _targets(objective, 5, 3)
    shares = RNG.dirichlet(np.ones(5))
    _, delta = objective.loss_and_delta(outputs, y, shares)
    for place in np.ndindex(outputs.shape):
        step = np.zeros_like(outputs)
        step[place] = 1e-6
        above, _ = objective.loss_and_delta(outputs + step, y, shares)
        below, _ = objective.loss_and_delta(outputs - step, y, shares)
        assert (above - below) / 2e-6 == pytest.approx(delta[place], abs=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("objective", ELEMENTWISE, ids=str)
def test_values_at_extremes(objective, dtype):
    """Losses and derivatives are those of many digits, however large the outputs."""
    largest = 80 if isinstance(objective, Poisson) else 1e18
    sizes = np.geomspace(1e-3, largest, 40)
    f = np.concatenate([-sizes, [0.0], sizes]).astype(dtype)[:, None]
    targets = [0.0, 1.0]
    if not isinstance(objective, SigmoidLogLoss):
        targets += [0.75, 1e3]
    for target in targets:
        y = np.full_like(f, target)
        losses = objective.losses(f, y)
        _, delta = objective.loss_and_delta(f, y, np.ones(len(f), dtype))
        with mpmath.workprec(300):
            exact = [_exact(objective, a, target) for a in f[:, 0]]
            exact = np.array([[float(number) for number in pair] for pair in exact])
        # Where outputs come close to the target, digits of both are lost.
        tolerance, tiny = 8 * np.finfo(dtype).eps, np.finfo(dtype).tiny
        np.testing.assert_allclose(
            losses, exact[:, 0], rtol=tolerance, atol=tolerance * target + tiny
        )
        np.testing.assert_allclose(
            delta[:, 0], exact[:, 1], rtol=tolerance, atol=tolerance * target + tiny
        )
        assert delta.dtype == dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_labels_that_are_surely_right(dtype):
    """The loss of a label does not vanish before it must: no 1 - 1 takes its digits."""
    f = np.array([[30.0], [-30.0]], dtype)
    y = np.array([[1.0], [0.0]], dtype)
    loss, delta = SigmoidLogLoss().loss_and_delta(f, y, np.ones(2, dtype))
    assert loss == pytest.approx(2 * np.exp(-30), rel=1e-6)
    np.testing.assert_allclose(delta, [[-np.exp(-30)], [np.exp(-30)]], rtol=1e-6)


def test_small_errors_of_log_cosh():
    """The log-cosh of a tiny error is half its square, not rounding."""
    losses = LogCosh().losses(np.array([[1e-6], [-1e-9]]), np.zeros((2, 1)))
    np.testing.assert_allclose(losses, [5e-13, 5e-19], rtol=1e-12)


@pytest.mark.parametrize("objective", [Absolute(), Quantile(0.9)], ids=str)
def test_derivative_at_the_kink_is_zero(objective):
    """Where output and target are equal, the derivative used is 0."""
    y = np.array([[3.0]])
    loss, delta = objective.loss_and_delta(y, y, np.ones(1))
    assert (loss, delta[0, 0]) == (0, 0)


@pytest.mark.parametrize("objective", ALL, ids=str)
@pytest.mark.parametrize("value", [1e300, -1e300, np.inf, -np.inf, np.nan])
def test_overflow_is_silent(objective, value):
    """Outputs that overflow the loss give an infinite loss or NaN, and no warning."""
    outputs = np.array([[value, 0.0]])
    y = np.zeros(1, np.int64)
    if not isinstance(objective, SoftmaxLogLoss):
        y = np.zeros((1, 2))
    loss, delta = objective.loss_and_delta(outputs, y, np.ones(1))
    assert delta.shape == (1, 2)
    if not np.isfinite(value) and not (
        value < 0 and objective.output_link != "identity"
    ):
        assert not np.isfinite(loss)


@pytest.mark.parametrize("objective", ALL, ids=str)
def test_agrees_with_torch(objective):
    """PyTorch's losses and gradients, summed over outputs, are the same numbers."""
    torch = pytest.importorskip("torch")
    F = torch.nn.functional
    outputs = 10 * RNG.standard_normal((50, 3))
    y = _targets(objective, 50, 3)
    f, t = torch.tensor(outputs, requires_grad=True), torch.tensor(y)
    match objective:
        case SoftmaxLogLoss():
            rows = F.cross_entropy(f, t, reduction="none")
        case SigmoidLogLoss():
            rows = F.binary_cross_entropy_with_logits(f, t, reduction="none").sum(1)
        case Squared():
            rows = F.mse_loss(f, t, reduction="none").sum(1) / 2
        case Absolute():
            rows = F.l1_loss(f, t, reduction="none").sum(1)
        case Huber(delta=delta):
            rows = F.huber_loss(f, t, reduction="none", delta=delta).sum(1)
        case Poisson():
            rows = F.poisson_nll_loss(f, t, log_input=True, reduction="none").sum(1)
        case LogCosh():
            rows = torch.log(torch.cosh(f - t)).sum(1)
        case Quantile(q=q):
            rows = torch.maximum(q * (t - f), (1 - q) * (f - t)).sum(1)
    rows.mean().backward()
    loss, delta = objective.loss_and_delta(outputs, y, np.full(50, 1 / 50))
    np.testing.assert_allclose(objective.losses(outputs, y), rows.detach(), rtol=1e-12)
    np.testing.assert_allclose(delta, f.grad, rtol=1e-10, atol=1e-15)
    assert loss == pytest.approx(float(rows.detach().mean()), rel=1e-12)


# ------------------------------------------------------------------ weights


@pytest.mark.parametrize("objective", ALL, ids=str)
def test_a_row_of_no_weight_has_no_influence(objective):
    """A row with share 0 may overflow: loss and derivative are as without it."""
    outputs = RNG.standard_normal((3, 2))
    y = _targets(objective, 3, 2)
    loss, delta = objective.loss_and_delta(outputs[:2], y[:2], np.full(2, 0.5))
    outputs[2] = np.inf
    again, more = objective.loss_and_delta(outputs, y, np.array([0.5, 0.5, 0.0]))
    assert again == loss
    np.testing.assert_array_equal(more, np.vstack([delta, np.zeros((1, 2))]))


@pytest.mark.parametrize("engine", ["auto", "dense", "reference"])
def test_softmax_is_what_step_minimises(engine):
    """Two halves of a step with this objective are one `Network.step`."""
    stack = initialise([4, 5, 3], ["rectifier"], seed=0, dtype=np.float64)
    X, y = RNG.standard_normal((20, 4)), RNG.integers(0, 3, 20)
    weights = RNG.uniform(size=20)
    rows = np.arange(20)
    one, two = (kernels.build(stack, SGD(0.5), engine=engine) for _ in range(2))
    for network in (one, two):
        network.bind(X, y, weights)
    objective, shares = SoftmaxLogLoss(), weights / weights.sum()
    loss, delta = objective.loss_and_delta(two.forward_batch(rows), y, shares)
    two.backward_batch(delta)
    assert one.step(rows) == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(one.stack()(X), two.stack()(X), rtol=1e-10)


# ------------------------------------------------------------------ right and wrong


def test_which_rows_are_wrong():
    """A class is wrong if another output is larger, labels if one of them is wrong."""
    outputs = np.array([[1.0, 2.0], [2.0, 1.0], [-1.0, 1.0]])
    np.testing.assert_array_equal(
        SoftmaxLogLoss().wrong(outputs, np.array([1, 1, 0])), [False, True, True]
    )
    labels = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(
        SigmoidLogLoss().wrong(outputs, labels), [False, True, False]
    )
    assert Squared().wrong(outputs, labels) is None


# ------------------------------------------------------------------ spellings


@given(
    st.one_of(
        st.sampled_from([kind() for kind in OBJECTIVES.values()]),
        st.builds(Huber, st.floats(1e-300, 1e300)),
        st.builds(Quantile, st.floats(0, 1, exclude_min=True, exclude_max=True)),
    )
)
def test_spelling_and_back(objective):
    """An objective reads back what it writes."""
    assert parse_objective(str(objective)) == objective
    assert parse_objective(objective) is objective


def test_spellings():
    """A name alone has the default; spaces and the parameter's name are allowed."""
    assert parse_objective("huber") == Huber(1.0)
    assert parse_objective(" quantile ( q = 0.9 ) ") == Quantile(0.9)
    assert str(Huber(1.5)) == "huber(1.5)"
    assert str(Squared()) == "squared"


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("", "is '', expected a name.*Choose one of: softmax, sigmoid, squared"),
        (3, "is 3, expected a name"),
        ("hubber", "'hubber' is unknown. Did you mean 'huber'"),
        ("mse", "'mse' is unknown. Did you mean 'squared'"),
        ("squared(2)", "'squared' takes no parameter but got '2'. Write 'squared'"),
        ("huber(q=2)", r"no parameter 'q'; its .* is 'delta'. Write 'huber\(delta=2"),
        ("huber(x)", r"got 'x' for its parameter 'delta', .*example 'huber\(1\)'"),
        ("huber(0)", r"delta of the loss 'huber' is 0.0, expected .* above 0\."),
        ("huber(inf)", "delta of the loss 'huber' is inf"),
        ("huber(nan)", "delta of the loss 'huber' is nan"),
        ("quantile(0)", "q of the loss 'quantile' is 0.0, .* above 0 and below 1"),
        ("quantile(1)", "q of the loss 'quantile' is 1.0"),
    ],
)
def test_other_spellings_are_refused(spelling, message):
    """The error says what was read and what to write."""
    with pytest.raises(ParameterError, match=message):
        parse_objective(spelling)


# ------------------------------------------------------------------ targets


@pytest.mark.parametrize("objective", ALL, ids=str)
def test_sound_targets_pass(objective):
    """Targets as the table of the module has them are accepted, also none."""
    y = _targets(objective, 6, 3)
    check_targets(objective, y, 6, 3)
    check_targets(objective, y[:0], 0, 3)


@pytest.mark.parametrize(
    ("objective", "y", "message"),
    [
        (SoftmaxLogLoss(), np.zeros(2), r"float64 of shape \(2,\), expected int64"),
        (SoftmaxLogLoss(), np.zeros((2, 2), np.int64), r"expected int64 of shape \(2,"),
        (SoftmaxLogLoss(), np.array([0, 2]), "classes from 0 to 2, expected 0 to 1"),
        (SoftmaxLogLoss(), np.array([-1, 1]), "classes from -1 to 1"),
        (Squared(), np.zeros(2), r"shape \(2,\), expected floats of shape \(2, 2\)"),
        (Squared(), np.zeros((3, 2)), r"shape \(3, 2\), expected .*one row for each"),
        (Squared(), np.zeros((2, 2), int), "is int64 .* expected floats"),
        (Huber(), np.array([[0, np.nan], [0, 0]]), "NaN or infinite value"),
        (Huber(), np.array([[0, np.inf], [0, 0]]), "NaN or infinite value"),
        (Poisson(), np.array([[0, -2.0], [0, 0]]), "value -2, expected counts .* 0 or"),
        (SigmoidLogLoss(), np.array([[0, 0.5], [0, 1]]), "expected labels 0 and 1"),
    ],
)
def test_other_targets_are_refused(objective, y, message):
    """The error says what `y` holds and what the loss takes."""
    with pytest.raises(DataError, match=message):
        check_targets(objective, y, 2, 2)


def test_shapes_are_never_broadcast():
    """A column of outputs and a row of targets do not make a square of differences."""
    with pytest.raises(DataError, match=r"shape \(3,\), expected \(3, 1\) for outputs"):
        Squared().losses(np.zeros((3, 1)), np.zeros(3))
    with pytest.raises(DataError, match=r"shape \(3, 1\), expected \(3,\) for outputs"):
        SoftmaxLogLoss().loss_and_delta(
            np.zeros((3, 2)), np.zeros((3, 1), np.int64), np.ones(3)
        )
