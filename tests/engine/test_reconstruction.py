"""Decoders against other definitions of their costs, and what training sees of them."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import integrate, optimize, sparse, special, stats

from hardzero.engine.objectives import Objective
from hardzero.engine.reconstruction import (
    DECODERS,
    CensoredGaussian,
    CensoredLaplace,
    Linear,
    Reconstruction,
    Rectifier,
    Sigmoid,
    Softplus,
    parse_decoder,
)
from hardzero.errors import DataError, ParameterError

RNG = np.random.default_rng(0)
CENSORED = [
    CensoredGaussian(),
    CensoredGaussian(0.5),
    CensoredLaplace(),
    CensoredLaplace(3.0),
]
ALL = [Softplus(), Sigmoid(), Linear(), Linear(True), Rectifier(), *CENSORED]


def _targets(decoder, shape):
    """Draw targets, about half of which are 0."""
    if isinstance(decoder, Linear):
        return RNG.standard_normal(shape)
    positive = RNG.uniform(size=shape) * (1 if isinstance(decoder, Sigmoid) else 3)
    return np.where(RNG.uniform(size=shape) < 0.5, 0.0, positive)


def _exact(decoder, a, x):
    """Return cost and derivative of one entry in many digits."""
    a, x = mpmath.mpf(float(a)), mpmath.mpf(float(x))
    softplus, sigmoid = mpmath.log1p(mpmath.exp(a)), 1 / (1 + mpmath.exp(-a))
    match decoder:
        case Softplus():
            return (x - softplus) ** 2, 2 * (softplus - x) * sigmoid
        case Sigmoid():
            return softplus - x * a, sigmoid - x
        case Linear():
            return (x - a) ** 2, 2 * (a - x)
        case Rectifier():
            return (x - max(a, 0)) ** 2, 2 * (a - x) if a > 0 else 0
        case CensoredGaussian(scale=scale):
            if x > 0:
                return ((x - a) / scale) ** 2 / 2, (a - x) / scale**2
            censored = mpmath.erfc(a / scale / mpmath.sqrt(2)) / 2
            density = mpmath.npdf(a / scale) / scale
            return -mpmath.log(censored), density / censored
        case CensoredLaplace(scale=scale):
            if x > 0:
                return abs(x - a) / scale, mpmath.sign(a - x) / scale
            tail = mpmath.exp(-abs(a) / scale) / 2
            censored = tail if a > 0 else 1 - tail
            return -mpmath.log(censored), tail / censored / scale
    raise AssertionError(decoder)


# ------------------------------------------------------------------ costs, derivatives


@pytest.mark.parametrize("decoder", ALL, ids=str)
def test_derivatives_are_those_of_the_terms(decoder):
    """Central differences of the costs agree, at 0 and far from it too."""
    sizes = np.array([0.01, 0.1, 0.3, 1, 2, 5, 12, 30, 100, 1000])
    points = np.concatenate([-sizes, [0.0], sizes])
    a, x = np.meshgrid(points, [0.0, 0.15, 0.77, 1.0], indexing="ij")
    step = 1e-5
    if isinstance(decoder, Rectifier):  # the derivative at its kink is by agreement
        a, x = a[points != 0], x[points != 0]
    differences = decoder.terms(a + step, x) - decoder.terms(a - step, x)
    np.testing.assert_allclose(
        decoder.derivatives(a, x), differences / (2 * step), rtol=1e-5, atol=1e-8
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("decoder", ALL, ids=str)
def test_values_at_extremes(decoder, dtype):
    """Costs and derivatives are those of many digits, however large |a| is."""
    sizes = np.geomspace(1e-3, 1e15, 40)
    a = np.concatenate([-sizes, [-10, 0, 10], sizes]).astype(dtype)
    for target in [0.0, 0.3, 1.0, *([] if isinstance(decoder, Sigmoid) else [1e3])]:
        x = np.full_like(a, target)
        terms, derivatives = decoder.both(a, x)
        with mpmath.workprec(300):
            exact = [_exact(decoder, *pair) for pair in zip(a, x, strict=True)]
            exact = np.array([[float(number) for number in pair] for pair in exact])
        # where the reconstruction comes close to the target, digits of both are lost
        noise = 8 * np.finfo(dtype).eps
        scale = getattr(decoder, "scale", 1.0)
        near = noise * max(target, 1e-30) / scale
        np.testing.assert_allclose(
            derivatives, exact[:, 1], rtol=2 * noise, atol=2 * near / scale
        )
        squares = 2 * near * np.sqrt(np.abs(exact[:, 0])) + near**2
        np.testing.assert_array_less(
            np.abs(terms - exact[:, 0]),
            2 * noise * np.abs(exact[:, 0])
            + (near if isinstance(decoder, Sigmoid | CensoredLaplace) else squares)
            + np.finfo(dtype).tiny,
        )
        assert terms.dtype == derivatives.dtype == dtype


@pytest.mark.parametrize(
    ("decoder", "expected"),
    [
        (Softplus(), -0.04),
        (Sigmoid(), -0.18),
        (Linear(), -4.6),
        (Rectifier(), 0.0),
        (CensoredGaussian(0.5), -9.2),
        (CensoredLaplace(), -1.0),
    ],
    ids=str,
)
def test_pull_on_a_unit_that_is_off(decoder, expected):
    """Only the rectifier leaves a unit at -2 alone whose target is 0.3."""
    derivatives = decoder.derivatives(np.array([-2.0]), np.array([0.3]))
    assert derivatives[0] == pytest.approx(expected, abs=0.005)


def test_rectifier_learns_nothing_at_zero():
    """The derivative at a = 0 is 0 even if the target is positive."""
    assert Rectifier().derivatives(np.zeros(1), np.ones(1)) == 0


def test_censored_laplace_rests_at_the_target():
    """The derivative at the kink a = x > 0 is 0."""
    assert CensoredLaplace().both(np.full(1, 2.0), np.full(1, 2.0)) == (0, 0)


@pytest.mark.parametrize("decoder", CENSORED, ids=str)
def test_nothing_is_left_to_learn_where_a_zero_is_sure(decoder):
    """A target of 0 costs nothing once a is far below 0, but half a chance at 0."""
    terms, derivatives = decoder.both(np.array([-200.0, 0.0]), np.zeros(2))
    assert terms == pytest.approx([0, np.log(2)], abs=1e-20)
    assert derivatives[0] == pytest.approx(0, abs=1e-20)
    assert derivatives[1] > 0


def test_cross_entropy_of_a_target_above_one_has_no_minimum():
    """At a target of 1.5 it falls without bound, which is why such are refused."""
    terms = Sigmoid().terms(np.array([100.0, 1000.0]), np.array([1.5, 1.5]))
    np.testing.assert_allclose(terms, [-50, -500])


@pytest.mark.parametrize("decoder", [Softplus(), Sigmoid()], ids=str)
def test_large_pre_activations_are_stable(decoder):
    """At 1e4 and -1e4 in float32 everything is finite and right to the last digits."""
    a, x = np.array([1e4, -1e4], np.float32), np.array([0.25, 0.25], np.float32)
    terms, derivatives = decoder.both(a, x)
    if isinstance(decoder, Softplus):
        expected = [9999.75**2, 0.0625], [2 * 9999.75, 0]
    else:
        expected = [7500, 2500], [0.75, -0.25]
    np.testing.assert_allclose(terms, expected[0], rtol=3e-7)
    np.testing.assert_allclose(derivatives, expected[1], rtol=3e-7)
    np.testing.assert_array_equal(
        decoder.reconstruct(a), [1e4 if isinstance(decoder, Softplus) else 1, 0]
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_reconstruction_that_is_surely_right(dtype):
    """What is left to learn close to targets of 1 and 0 is not rounded away."""
    derivatives = Sigmoid().derivatives(np.array([30, -30], dtype), np.array([1, 0]))
    np.testing.assert_allclose(derivatives, [-np.exp(-30), np.exp(-30)], rtol=1e-6)
    derivatives = Softplus().derivatives(np.array([-30], dtype), np.zeros(1))
    np.testing.assert_allclose(derivatives, 2 * np.exp(-60), rtol=1e-5)


@pytest.mark.parametrize("decoder", CENSORED, ids=str)
@pytest.mark.parametrize("a", [-3.0, -0.4, 0.0, 1.3, 7.0])
def test_likelihood_of_all_that_can_be_seen_is_one(decoder, a):
    """The probability of 0 and the density above it add up to 1."""
    scale = decoder.scale
    constant = np.sqrt(2 * np.pi) if isinstance(decoder, CensoredGaussian) else 2

    def likelihood(x):
        return np.exp(-decoder.terms(np.array([a]), np.array([x]))[0])

    above, _ = integrate.quad(likelihood, 1e-300, max(a, 0) + 1e-300)
    beyond, _ = integrate.quad(likelihood, max(a, 0) + 1e-300, np.inf)
    total = likelihood(0.0) + (above + beyond) / (constant * scale)
    assert total == pytest.approx(1, abs=1e-7)


# ------------------------------------------------------------------ reconstructions


@pytest.mark.parametrize("decoder", CENSORED, ids=str)
@pytest.mark.parametrize("a", [-4.0, -0.3, 0.0, 0.8, 9.0])
def test_censored_reconstruction_is_the_mean(decoder, a):
    """It is the mean of max(0, u), found by quadrature over the latent u."""
    family = stats.norm if isinstance(decoder, CensoredGaussian) else stats.laplace
    latent = family(a, decoder.scale)
    mean = sum(
        integrate.quad(lambda u: u * latent.pdf(u), *ends)[0]
        for ends in [(0, max(a, 0)), (max(a, 0), np.inf)]
    )
    assert decoder.reconstruct(np.array([a]))[0] == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("decoder", CENSORED, ids=str)
def test_censored_reconstruction_is_positive_and_climbs(decoder, dtype):
    """From tiny numbers far below 0 it climbs to a itself, without a step or noise."""
    a = np.linspace(-10, 10, 2001, dtype=dtype) * decoder.scale
    x = decoder.reconstruct(a)
    assert x.dtype == dtype
    assert (x > 0).all()
    assert (np.diff(x) >= 0).all()
    np.testing.assert_array_equal(
        decoder.reconstruct(np.array([-1e30, 1e30], dtype)), np.array([0, 1e30], dtype)
    )


@pytest.mark.parametrize(
    ("decoder", "function"),
    [
        (Softplus(), lambda a: np.logaddexp(a, 0)),
        (Sigmoid(), special.expit),
        (Linear(), lambda a: a),
        (Rectifier(), lambda a: np.maximum(a, 0)),
    ],
    ids=str,
)
def test_reconstruction_is_the_function_of_the_table(decoder, function):
    """Softplus, sigmoid, identity and rectifier of the pre-activation."""
    a = np.linspace(-700, 700, 997)
    before = a.copy()
    np.testing.assert_allclose(decoder.reconstruct(a), function(a), rtol=1e-14)
    decoder.reconstruct(a)[:] = 0
    np.testing.assert_array_equal(a, before)


@pytest.mark.parametrize(
    "decoder", [Softplus(), Sigmoid(), Linear(), Rectifier()], ids=str
)
def test_best_reconstruction_is_the_mean(decoder):
    """The pre-activation of least expected cost reconstructs the mean target."""
    x = np.array([0.0, 0.0, 0.1, 0.4, 1.0])

    def cost(a):
        return decoder.terms(np.full(5, a), x).mean()

    best = optimize.minimize_scalar(cost, (0.1, 0.5), options={"xtol": 1e-10}).x
    assert decoder.reconstruct(np.array([best]))[0] == pytest.approx(0.3, abs=1e-6)


@pytest.mark.parametrize("decoder", CENSORED, ids=str)
@pytest.mark.parametrize("truth", [-1.0, 0.7])
def test_censored_costs_find_the_truth(decoder, truth):
    """If the model made the targets, the true centre has the least expected cost."""
    family = stats.norm if isinstance(decoder, CensoredGaussian) else stats.laplace
    quantiles = (np.arange(20000) + 0.5) / 20000
    x = np.maximum(family(truth, decoder.scale).ppf(quantiles), 0)

    def cost(a):
        return decoder.terms(np.full(len(x), a), x).mean()

    best = optimize.minimize_scalar(cost, bounds=(-5, 5), method="bounded").x
    assert best == pytest.approx(truth, abs=2e-3 * decoder.scale)


# ------------------------------------------------------------------ arrays


@pytest.mark.parametrize("decoder", ALL, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 0), (3, 9001), (2, 3, 4)])
def test_any_shape(decoder, shape):
    """Costs, derivatives and reconstructions are elementwise, whatever the shape."""
    a, x = RNG.standard_normal(shape), _targets(decoder, shape)
    terms, derivatives = decoder.both(np.asarray(a), np.asarray(x))
    assert terms.shape == derivatives.shape == np.shape(a)
    np.testing.assert_array_equal(decoder.terms(np.asarray(a), np.asarray(x)), terms)
    np.testing.assert_array_equal(
        decoder.derivatives(np.asarray(a), np.asarray(x)), derivatives
    )
    reconstruction = decoder.reconstruct(np.asarray(a))
    for place in list(np.ndindex(np.shape(a)))[::1013]:
        alone = decoder.both(np.array([a[place]]), np.array([x[place]]))
        assert terms[place] == pytest.approx(alone[0][0], rel=1e-12)
        assert derivatives[place] == pytest.approx(alone[1][0], rel=1e-12)
        assert reconstruction[place] == pytest.approx(
            decoder.reconstruct(np.array([a[place]]))[0], rel=1e-12
        )


@pytest.mark.parametrize("decoder", ALL, ids=str)
def test_any_memory_order(decoder):
    """Columns first, or every other one: the same, and results are C-contiguous."""
    a, x = RNG.standard_normal((6, 8)), _targets(decoder, (6, 8))
    before = a.copy(), x.copy()
    for one, two in [
        (np.asfortranarray(a), x),
        (a, np.asfortranarray(x)),
        (np.repeat(a, 2, axis=1)[:, ::2], x),
    ]:
        results = decoder.both(one, two)
        for result, expected in zip(results, decoder.both(a, x), strict=True):
            np.testing.assert_array_equal(result, expected)
            assert result.flags.c_contiguous
    np.testing.assert_array_equal((a, x), before)


# ------------------------------------------------------------------ the objective


@pytest.mark.parametrize("decoder", ALL, ids=str)
def test_loss_by_hand(decoder):
    """Loss and derivative are sums over features, weighted means over rows."""
    a, y = RNG.standard_normal((4, 3)), _targets(decoder, (4, 3))
    weights = np.array([1.0, 2.0, 0.5, 0.5])
    objective = Reconstruction(decoder)
    loss, delta = objective.loss_and_delta(a, y, weights / 4)
    by_hand = 0.0
    for row in range(4):
        pairs = zip(a[row], y[row], strict=True)
        cost = sum(float(_exact(decoder, *pair)[0]) for pair in pairs)
        assert objective.losses(a, y)[row] == pytest.approx(cost, rel=1e-12)
        by_hand += weights[row] * cost / 4
    assert isinstance(loss, float)
    assert loss == pytest.approx(by_hand, rel=1e-12)
    for place in np.ndindex(a.shape):
        step = np.zeros_like(a)
        step[place] = 1e-6
        above, _ = objective.loss_and_delta(a + step, y, weights / 4)
        below, _ = objective.loss_and_delta(a - step, y, weights / 4)
        assert (above - below) / 2e-6 == pytest.approx(delta[place], abs=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("decoder", ALL, ids=str)
def test_sparse_targets(decoder, dtype):
    """CSR rows cost what the same rows cost as an array, to the last bit."""
    a = RNG.standard_normal((5, 7)).astype(dtype)
    y = _targets(decoder, (5, 7)).astype(dtype)
    rows = sparse.csr_matrix(y)
    objective, shares = Reconstruction(decoder), np.full(5, 0.2)
    loss, delta = objective.loss_and_delta(a, y, shares)
    again, more = objective.loss_and_delta(a, rows, shares)
    assert again == loss
    np.testing.assert_array_equal(more, delta)
    np.testing.assert_array_equal(objective.losses(a, rows), objective.losses(a, y))
    assert delta.dtype == dtype
    assert delta.flags.c_contiguous
    assert objective.losses(a, y).dtype == np.float64


@pytest.mark.parametrize("decoder", ALL, ids=str)
def test_a_row_of_no_weight_has_no_influence(decoder):
    """A row with share 0 may overflow: loss and derivative are as without it."""
    a, y = RNG.standard_normal((3, 2)), _targets(decoder, (3, 2))
    objective = Reconstruction(decoder)
    loss, delta = objective.loss_and_delta(a[:2], y[:2], np.full(2, 0.5))
    for value in (np.inf, -np.inf, np.nan, 1e300):
        a[2] = value
        again, more = objective.loss_and_delta(a, y, np.array([0.5, 0.5, 0.0]))
        assert again == loss
        np.testing.assert_array_equal(more, np.vstack([delta, np.zeros((1, 2))]))


@pytest.mark.parametrize("decoder", ALL, ids=str)
@pytest.mark.parametrize("value", [1e300, -1e300, np.inf, -np.inf, np.nan])
def test_overflow_is_silent(decoder, value):
    """Pre-activations that overflow give an infinite cost or NaN, and no warning."""
    with np.errstate(all="raise"):
        a, y = np.array([[value, 0.0]]), np.array([[0.0, 1.0]])
        objective = Reconstruction(decoder)
        loss, delta = objective.loss_and_delta(a, y, np.ones(1))
        losses = objective.losses(a, y)
        decoder.reconstruct(a)
    np.testing.assert_array_equal(losses, [loss])
    assert delta.shape == (1, 2)
    if value == np.inf or np.isnan(value):
        assert not np.isfinite(loss)


def test_training_treats_it_as_an_objective():
    """It is an objective with identity outputs, that classifies nothing."""
    objective = Reconstruction(Softplus())
    assert isinstance(objective, Objective)
    assert objective.output_link == "identity"
    assert objective.wrong(np.zeros((1, 2)), np.zeros((1, 2))) is None
    assert str(objective) == "reconstruction(softplus)"
    assert str(Reconstruction(Linear(True))) == "reconstruction(linear(pre))"


def test_shapes_are_never_broadcast():
    """A column of outputs and a row of targets do not make a square of differences."""
    objective = Reconstruction(Linear())
    with pytest.raises(DataError, match=r"shape \(3,\), expected \(3, 1\) for outputs"):
        objective.losses(np.zeros((3, 1)), np.zeros(3))
    with pytest.raises(DataError, match=r"shape \(1, 3\), expected \(3, 1\)"):
        objective.loss_and_delta(
            np.zeros((3, 1)), sparse.csr_matrix((1, 3)), np.ones(3)
        )


def _plain(decoder, a, x):
    """Return costs by the formulas as a textbook writes them."""
    match decoder:
        case Softplus():
            return (x - np.logaddexp(0, a)) ** 2
        case Sigmoid():
            return -x * np.log(special.expit(a)) - (1 - x) * np.log(special.expit(-a))
        case Linear():
            return (x - a) ** 2
        case Rectifier():
            return (x - np.maximum(a, 0)) ** 2
        case CensoredGaussian(scale=s):
            density = stats.norm.logpdf(x, a, s) + np.log(s * np.sqrt(2 * np.pi))
            return -np.where(x > 0, density, stats.norm.logcdf(0, a, s))
        case CensoredLaplace(scale=s):
            density = stats.laplace.logpdf(x, a, s) + np.log(2 * s)
            return -np.where(x > 0, density, np.log(stats.laplace.cdf(0, a, s)))
    raise AssertionError(decoder)


@st.composite
def _batches(draw):
    """Draw a decoder and rows, outputs and shares that it accepts."""
    scale = draw(st.floats(0.1, 10))
    decoder = draw(
        st.sampled_from(
            [*ALL[:5], CensoredGaussian(scale), CensoredLaplace(scale)],
        )
    )
    shape = draw(hnp.array_shapes(min_dims=2, max_dims=2, max_side=6))
    low, high = np.clip(decoder.accepts, -20, 20)
    targets = st.one_of(
        st.just(0.0), st.floats(low, high, width=32, allow_subnormal=False)
    )
    y = draw(hnp.arrays(np.float64, shape, elements=targets))
    a = draw(hnp.arrays(np.float64, shape, elements=st.floats(-20, 20)))
    weights = draw(hnp.arrays(np.float64, shape[0], elements=st.floats(0.0625, 4)))
    return decoder, a, y, weights / weights.sum(), draw(st.booleans())


@given(_batches())
def test_loss_is_the_plain_formula(batch):
    """Whatever decoder, rows and weights: the share of each row times its sum."""
    decoder, a, y, shares, is_sparse = batch
    rows = sparse.csr_matrix(y) if is_sparse else y
    plain = _plain(decoder, a, y).sum(axis=1)
    objective = Reconstruction(decoder)
    loss, delta = objective.loss_and_delta(a, rows, shares)
    np.testing.assert_allclose(objective.losses(a, rows), plain, rtol=1e-9, atol=1e-9)
    assert loss == pytest.approx(plain @ shares, rel=1e-9, abs=1e-9)
    np.testing.assert_array_equal(delta, decoder.derivatives(a, y) * shares[:, None])
    single, _ = objective.loss_and_delta(a.astype(np.float32), rows, shares)
    assert single == pytest.approx(plain @ shares, rel=1e-4, abs=1e-3)


# ------------------------------------------------------------------ spellings


@given(
    st.one_of(
        st.sampled_from([*(kind() for kind in DECODERS.values()), Linear(True)]),
        st.builds(CensoredGaussian, st.floats(1e-300, 1e300)),
        st.builds(CensoredLaplace, st.floats(1e-300, 1e300)),
    )
)
def test_spelling_and_back(decoder):
    """A decoder reads back what it writes."""
    assert parse_decoder(str(decoder)) == decoder
    assert parse_decoder(decoder) is decoder


def test_spellings():
    """A name alone has the default; spaces and the parameter's name are allowed."""
    assert parse_decoder("linear") == Linear(before_activation=False)
    assert parse_decoder(" linear ( pre ) ") == Linear(before_activation=True)
    assert parse_decoder("censored_laplace") == CensoredLaplace(1.0)
    assert parse_decoder("censored_gaussian(scale = 0.5)") == CensoredGaussian(0.5)
    assert str(CensoredGaussian(2)) == "censored_gaussian(2)"
    assert str(Softplus()) == "softplus"


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        (
            "",
            "decoder is '', expected a name.*Choose one of: softplus, sigmoid, linear",
        ),
        (3, "is 3, expected a name"),
        ("xyz", "'xyz' is unknown. Choose one of: softplus"),
        ("sofplus", "'sofplus' is unknown. Did you mean 'softplus'"),
        ("relu", "'relu' is unknown. Did you mean 'rectifier'"),
        ("cross_entropy", "Did you mean 'sigmoid'"),
        ("tobit(1)", "'tobit' is unknown. Did you mean 'censored_gaussian'"),
        ("softplus(2)", "'softplus' has '2' in parentheses. Write 'softplus'"),
        ("linear(post)", r"'linear' has 'post' .* 'linear' or 'linear\(pre\)'"),
        ("linear()", r"'linear' has '' in parentheses. Write 'linear' or"),
        (
            "censored_laplace(x)",
            r"has 'x' in parentheses, expected its scale, a number.*laplace\(1\)'",
        ),
        ("censored_gaussian(s=2)", "has 's=2' in parentheses, expected its scale"),
        ("censored_gaussian(0)", "scale of .* 'censored_gaussian' is 0.0, .* above 0"),
        ("censored_gaussian(-1)", r"is -1.0, expected a finite number above 0\. Write"),
        ("censored_laplace(inf)", "scale of the decoder 'censored_laplace' is inf"),
        ("censored_laplace(nan)", "scale of the decoder 'censored_laplace' is nan"),
    ],
)
def test_other_spellings_are_refused(spelling, message):
    """The error says what was read and what to write."""
    with pytest.raises(ParameterError, match=message):
        parse_decoder(spelling)


# ------------------------------------------------------------------ targets


@pytest.mark.parametrize("decoder", ALL, ids=str)
def test_sound_targets_pass(decoder):
    """Targets as the table of the module has them are accepted, also none."""
    y = _targets(decoder, (6, 3))
    decoder.check_targets(y)
    decoder.check_targets(sparse.csr_matrix(y))
    decoder.check_targets(y[:0])


@pytest.mark.parametrize(
    ("decoder", "low", "high", "message"),
    [
        (Sigmoid(), 0, 1.5, "from 0 to 1.5, expected 0 to 1 for the decoder 'sigmoid'"),
        (Sigmoid(), -0.5, 1, "from -0.5 to 1, expected 0 to 1"),
        (
            Softplus(),
            -1,
            3,
            r"expected 0 to inf for .* 'softplus'\. Rescale .*'linear'",
        ),
        (Rectifier(), -1, 3, "expected 0 to inf for the decoder 'rectifier'"),
        (CensoredGaussian(), -1, 3, r"for the decoder 'censored_gaussian\(1\)'"),
        (Linear(), 0, np.nan, "from nan to nan"),
    ],
    ids=str,
)
def test_other_targets_are_refused(decoder, low, high, message):
    """The error says what the targets are and what the decoder takes."""
    y = np.array([[low, high]])
    with pytest.raises(DataError, match=message):
        decoder.check_targets(y)
    with pytest.raises(DataError, match="the values to reconstruct go from"):
        decoder.check_targets(sparse.csr_matrix(y))
