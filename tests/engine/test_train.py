"""The training loop, on real kernels and on a network that plays a script."""

import dataclasses
import math
import signal

import numpy as np
import pytest
import scipy.sparse as sp

from hardzero import kernels
from hardzero.engine.initialise import initialise
from hardzero.engine.objectives import (
    Huber,
    Poisson,
    SigmoidLogLoss,
    SoftmaxLogLoss,
    Squared,
)
from hardzero.engine.schedules import parse_schedule
from hardzero.engine.state import PartialEpoch
from hardzero.engine.train import (
    Settings,
    TrainingState,
    Validation,
    _epochs_stalled,
    train,
)
from hardzero.errors import (
    DataError,
    DeadUnitWarning,
    DivergenceError,
    ParameterError,
)
from hardzero.kernels.options import StepOptions
from hardzero.kernels.rules import SGD, Adam
from hardzero.kernels.statistics import LayerStatistics
from hardzero.stack import Layer, RectifierStack

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 4))
Y = (X[:, 0] * X[:, 1] > 0).astype(np.int64)


class _Actor:
    """A network whose losses and validation outputs are given for each epoch.

    Its weights are one number, that of the last epoch that began.
    """

    def __init__(
        self,
        errors=(),
        gaps=(),
        losses=None,
        fired=None,
        n_validation=10,
        interrupted_validation=None,
    ):
        self.errors, self.gaps = errors, gaps
        self.losses = losses or {}
        self.fired = fired or (lambda _: [True] * 4)
        self.n_validation, self.n_validated = n_validation, 0
        self.interrupted_validation = interrupted_validation
        self.epoch = 0
        self.batches, self.rates = [], []

    def bind(self, *_):
        self.n_steps = 0
        self._count()

    def _count(self):
        self.n_rows, self.seen = 0, np.zeros(4, bool)

    def step(self, rows):
        self.n_steps += 1
        self.batches[-1].append(rows)
        self.n_rows += len(rows)
        self.seen |= self.fired(self.n_steps)
        loss = self.losses.get(self.n_steps, 1.0)
        if isinstance(loss, type):
            raise loss
        return loss

    def forward(self, X):
        """Get the first rows wrong, and the others right by a gap."""
        self.n_validated += 1
        if self.n_validated == self.interrupted_validation:
            raise KeyboardInterrupt
        gap = self.gaps[self.epoch - 1] if self.gaps else 1.0
        outputs = np.zeros((len(X), 2))
        outputs[:, 0] = gap
        outputs[: self.errors[self.epoch - 1], 0] = -gap
        return outputs

    def set_learning_rate(self, rate):
        self.rates.append(rate)
        self.batches.append([])

    def begin_epoch(self, number):
        self.epoch = number

    def stack(self):
        layer = Layer(np.full((4, 2), float(self.epoch)), np.zeros(2), "identity")
        return RectifierStack((layer,), "softmax")

    def statistics(self):
        n_nonzero = self.n_rows * int(self.seen.sum())
        counts = LayerStatistics(self.n_rows, n_nonzero, self.seen)
        self._count()
        return [counts]

    def train(self, *, patience=None, max_epochs=None, batch_size=60, **options):
        if self.errors:
            n = self.n_validation
            options.setdefault(
                "validation", Validation(np.zeros((n, 4)), np.zeros(n, np.int64))
            )
            max_epochs = max_epochs or len(self.errors)
        settings = Settings(batch_size, max_epochs or 3, 0.1, patience=patience)
        trained = train(self, X, Y, settings=settings, seed=0, **options)
        return trained.stack, trained.history


def _kept_epoch(stack):
    return stack.layers[0].W[0, 0]


# ------------------------------------------------------------------ batches


def test_each_row_once_and_last_batch_short():
    """An epoch visits each row once; the last batch has what is left over."""
    actor = _Actor()
    actor.train(batch_size=25, max_epochs=2)
    for batches in actor.batches:
        assert [len(rows) for rows in batches] == [25, 25, 10]
        np.testing.assert_array_equal(np.sort(np.concatenate(batches)), np.arange(60))
        assert all(rows.dtype == np.int64 for rows in batches)


def test_order_depends_on_seed_and_epoch_alone():
    """Epochs are shuffled differently, and a longer run starts like a shorter one."""
    short, long = _Actor(), _Actor()
    short.train(max_epochs=2)
    long.train(max_epochs=4)
    orders = [np.concatenate(batches) for batches in long.batches]
    assert len({tuple(order) for order in orders}) == 4
    for mine, theirs in zip(short.batches, orders, strict=False):
        np.testing.assert_array_equal(np.concatenate(mine), theirs)


def test_only_given_rows_are_trained_on():
    """With `rows`, no other row is seen."""
    actor = _Actor()
    actor.train(rows=np.array([3, 5, 59]), max_epochs=1)
    assert sorted(actor.batches[0][0]) == [3, 5, 59]


def test_schedule_sets_the_rate_of_each_epoch():
    """Each epoch runs at learning rate times factor, and the history says so."""
    actor = _Actor()
    settings = Settings(60, 3, 0.5, parse_schedule("step(1, 0.5)"))
    trained = train(actor, X, Y, settings=settings, seed=0)
    assert actor.rates == [0.5, 0.25, 0.125]
    assert trained.history.learning_rate == (0.5, 0.25, 0.125)


def test_loss_is_the_mean_over_rows():
    """The loss of an epoch weighs each batch by its rows."""
    _, history = _Actor(losses={1: 1.0, 2: 3.0}).train(batch_size=45, max_epochs=1)
    assert history.loss == ((45 * 1.0 + 15 * 3.0) / 60,)


# ------------------------------------------------------------------ best weights


def test_lowest_validation_error_is_kept():
    """The weights of the epoch with the lowest validation error are returned."""
    stack, history = _Actor(errors=(5, 3, 1, 4, 2)).train()
    assert _kept_epoch(stack) == history.best_epoch == 3
    assert history.validation_error == (0.5, 0.3, 0.1, 0.4, 0.2)
    assert history.stopped == "max_epochs"


def test_ties_go_to_the_lower_validation_loss():
    """Of equal errors the lower loss is better; of equal losses the earlier epoch."""
    stack, _ = _Actor(errors=(0, 0, 0, 0), gaps=(1, 3, 3, 2)).train()
    assert _kept_epoch(stack) == 2


def test_error_goes_before_loss():
    """A lower error is better even at a higher loss."""
    stack, _ = _Actor(errors=(1, 0), gaps=(1, 1e-3)).train()
    assert _kept_epoch(stack) == 2


def test_without_validation_the_last_weights_are_kept():
    """Without validation rows the last epoch is the best, and errors are empty."""
    stack, history = _Actor().train(max_epochs=3)
    assert _kept_epoch(stack) == history.best_epoch == 3
    assert history.validation_error == ()


@pytest.mark.parametrize("patience", [1, 2, 3])
def test_patience_is_exact(patience):
    """Training stops after exactly `patience` epochs in a row without a better one."""
    errors = (5, 4, 6, 3, *[9] * 10)
    stack, history = _Actor(errors=errors).train(patience=patience)
    assert history.stopped == "early_stopping"
    assert history.n_epochs == history.best_epoch + patience
    assert _kept_epoch(stack) == history.best_epoch == (2 if patience == 1 else 4)


def test_patience_that_runs_out_at_the_end():
    """If patience is not used up, all epochs run."""
    _, history = _Actor(errors=(1, 2, 2)).train(patience=3)
    assert (history.n_epochs, history.stopped) == (3, "max_epochs")


def test_outputs_that_overflow_are_wrong():
    """A validation row with outputs that are not finite counts as an error."""
    actor = _Actor(errors=(1, 2), gaps=(math.inf, 1.0))
    stack, history = actor.train()
    assert history.validation_error == (1.0, 0.2)
    assert _kept_epoch(stack) == 2


# ------------------------------------------------------------------ interruptions


def test_ctrl_c_keeps_the_best_so_far():
    """Ctrl-C in a later epoch leaves the best complete epoch."""
    actor = _Actor(errors=(4, 2, 3, 1), losses={10: KeyboardInterrupt})
    stack, history = actor.train(batch_size=20)
    assert (history.n_epochs, history.stopped) == (3, "interrupted")
    assert _kept_epoch(stack) == history.best_epoch == 2


def test_ctrl_c_in_the_first_epoch_keeps_what_there_is():
    """Ctrl-C in the first epoch makes an epoch of the batches so far."""
    actor = _Actor(errors=(4,), losses={1: 3.0, 3: KeyboardInterrupt})
    stack, history = actor.train(batch_size=20)
    assert (history.n_epochs, history.best_epoch) == (1, 1)
    assert (history.loss, history.validation_error) == ((2.0,), (0.4,))
    assert _kept_epoch(stack) == 1


@pytest.mark.parametrize(("validation", "n_epochs"), [(1, 1), (2, 1), (3, 2)])
def test_ctrl_c_while_validating(validation, n_epochs):
    """Ctrl-C during a validation leaves the epochs before; the first is done again."""
    actor = _Actor(errors=(4, 3, 2), interrupted_validation=validation)
    stack, history = actor.train(batch_size=20)
    assert (history.n_epochs, history.stopped) == (n_epochs, "interrupted")
    assert _kept_epoch(stack) == history.best_epoch == n_epochs
    assert history.sparsity[0] == (0.0,)


def test_ctrl_c_while_counting(monkeypatch):
    """Ctrl-C that takes the counts of the first epoch leaves counts of its weights."""
    stack = initialise([4, 5, 2], ["rectifier"], seed=0, dtype=np.float64)
    network = kernels.build(stack, SGD(0.1))
    statistics, calls = network.statistics, []

    def interrupted():
        calls.append(statistics())
        if len(calls) == 1:
            raise KeyboardInterrupt
        return calls[-1]

    monkeypatch.setattr(network, "statistics", interrupted)
    settings = Settings(batch_size=30, max_epochs=3, learning_rate=0.1)
    trained = train(network, X, Y, settings=settings, seed=0)
    stack, history = trained.stack, trained.history
    assert (history.n_epochs, history.stopped) == (1, "interrupted")
    assert history.sparsity[0] == (np.mean(stack.truncate(1)(X) == 0),)


def test_ctrl_c_before_the_first_batch_goes_on():
    """Before anything was learned, Ctrl-C is left to the caller."""
    with pytest.raises(KeyboardInterrupt):
        _Actor(losses={1: KeyboardInterrupt}).train()


def test_on_epoch_can_stop():
    """The callback sees each epoch and ends training by returning True."""
    seen = []

    def watch(epoch):
        seen.append((epoch.number, epoch.validation_error))
        return epoch.number == 2

    _, history = _Actor(errors=(1, 2, 3)).train(on_epoch=watch)
    assert seen == [(1, 0.1), (2, 0.2)]
    assert history.stopped == "interrupted"


def test_a_signal_stops_real_kernels():
    """SIGINT during compiled training ends it with finite weights and a history."""

    def interrupt(epoch):
        if epoch.number == 3:
            signal.raise_signal(signal.SIGINT)

    stack, history = _fit(max_epochs=1000, on_epoch=interrupt)
    assert (history.stopped, history.n_epochs) == ("interrupted", 3)
    assert stack(X).shape == (60, 2)


# ------------------------------------------------------------------ divergence


def test_loss_that_is_not_finite_stops_at_once():
    """A batch loss that is not finite raises in that step, naming what and where."""
    actor = _Actor(losses={5: math.nan})
    with pytest.raises(DivergenceError, match=r"epoch 2 at learning rate 0.1:.*0.01"):
        actor.train(batch_size=20)
    assert actor.n_steps == 5


@pytest.mark.parametrize("engine", ["auto", "dense", "reference"])
def test_divergence_names_layer_epoch_and_rate(engine):
    """Weights that blow up raise an error with layer, epoch and learning rate."""
    big = (1e18 * X).astype(np.float32)
    with pytest.raises(DivergenceError, match=r"layer \d are not finite") as raised:
        _fit(X=big, rule=SGD(1e20), learning_rate=1e20, engine=engine)
    error = raised.value
    assert error.layer in (1, 2)
    assert (error.epoch, error.learning_rate) == (1, 1e20)


def test_divergence_hidden_from_the_loss():
    """Weights that are not finite after an epoch raise even if the losses are."""

    class Broken(_Actor):
        def stack(self):
            layer = Layer(np.full((4, 2), np.inf), np.zeros(2), "identity")
            return RectifierStack((layer,), "softmax")

    with pytest.raises(DivergenceError, match="the parameters of layer 1"):
        Broken().train()


# ------------------------------------------------------------------ dead units


def test_units_that_die_are_found_in_the_first_epoch():
    """Units that fire only in the first half of the first epoch are dead after it."""

    def fired(step):
        return [True, True, True, step <= 2]

    rows = np.arange(240) % 60
    with pytest.warns(DeadUnitWarning, match="1 of 4 in hidden layer 1"):
        _, history = _Actor(fired=fired).train(rows=rows, max_epochs=1)
    assert history.dead_units == ((0,),)


def test_late_death_is_recorded_but_not_warned_of():
    """After the first epoch dead units are in the history only."""

    def fired(step):
        return [step <= 4] * 4

    rows = np.arange(240) % 60
    _, history = _Actor(fired=fired).train(rows=rows, max_epochs=2)
    assert history.dead_units == ((0,), (4,))


# ------------------------------------------------------------------ real kernels


def _fit(*, X=X, rule=None, engine="auto", sizes=(4, 8, 2), seed=0, **options):
    stack = initialise(
        sizes, ["rectifier"] * (len(sizes) - 2), seed=seed, dtype=X.dtype
    )
    network = kernels.build(stack, rule or Adam(0.01), engine=engine)
    settings = Settings(
        options.pop("batch_size", 16),
        options.pop("max_epochs", 5),
        options.pop("learning_rate", 0.01),
    )
    trained = train(network, X, Y, settings=settings, seed=seed, **options)
    return trained.stack, trained.history


def test_same_seed_same_bits():
    """The same seed gives equal weights and losses; another seed gives others."""
    (first, one), (second, two) = _fit(), _fit()
    assert first == second
    assert one.loss == two.loss
    assert _fit(seed=1)[0] != first


def test_engines_and_formats_agree():
    """All engines, and sparse input, give the same training up to rounding."""
    stack, history = _fit(engine="reference")
    for other, its in (
        _fit(engine="auto"),
        _fit(engine="sparse"),
        _fit(engine="dense"),
        _fit(X=sp.csr_matrix(X)),
    ):
        np.testing.assert_allclose(other(X), stack(X), rtol=1e-7, atol=1e-10)
        assert its.sparsity == pytest.approx(np.array(history.sparsity))


def test_training_learns():
    """The loop brings the loss down, and the statistics are of the hidden layers."""
    _, history = _fit(max_epochs=60, sizes=(4, 16, 8, 2))
    assert history.loss[-1] < history.loss[0] / 2
    assert all(len(zeros) == 2 and 0 < zeros[0] < 1 for zeros in history.sparsity)
    assert min(history.seconds) > 0


def test_at_least_one_epoch():
    """No epochs at all is an error, not a network of random weights."""
    with pytest.raises(ParameterError, match="Give max_epochs of 1 or more"):
        _fit(max_epochs=0)


# ------------------------------------------------------------------ objectives


LABELS = np.stack([Y, 1 - Y, (X[:, 2] > 0)], axis=1).astype(float)
NUMBERS = np.stack([X[:, 0] * X[:, 1], np.sin(X[:, 2])], axis=1)
COUNTS = np.random.default_rng(1).poisson(np.exp(X[:, :1]))


def _train(
    *,
    X=X,
    y=Y,
    objective=None,
    engine="auto",
    rule=None,
    options=None,
    l1_activation=0.0,
    network=None,
    batch_size=16,
    max_epochs=5,
    seed=0,
    **rest,
):
    """Train a small network; return what `train` does, and the network."""
    objective = objective or SoftmaxLogLoss()
    n_outputs = 2 if y.ndim == 1 else y.shape[1]
    network = network or kernels.build(
        initialise(
            (X.shape[1], 8, n_outputs),
            ["rectifier"],
            seed=seed,
            output_link=objective.output_link,
            dtype=X.dtype,
        ),
        rule or Adam(0.01),
        engine=engine,
        options=options or StepOptions(),
        l1_activation=l1_activation,
    )
    settings = Settings(
        batch_size,
        max_epochs,
        0.01,
        rest.pop("schedule", parse_schedule("constant")),
        rest.pop("patience", None),
        rest.pop("shuffle", True),
    )
    trained = train(
        network, X, y, settings=settings, objective=objective, seed=seed, **rest
    )
    return trained, network


@pytest.mark.parametrize(
    ("objective", "y"),
    [
        (SigmoidLogLoss(), LABELS),
        (Squared(), NUMBERS),
        (Huber(0.5), NUMBERS),
        (Poisson(), COUNTS.astype(float)),
    ],
    ids=["sigmoid", "squared", "huber", "poisson"],
)
def test_every_objective_is_learned(objective, y):
    """The loss of each objective falls, on all kernels alike and on sparse rows."""
    trained, _ = _train(objective=objective, y=y, engine="reference", max_epochs=40)
    history = trained.history
    assert history.loss[-1] < history.loss[0] - 0.1
    outputs = trained.stack(X)
    assert objective.losses(outputs, y).mean() < history.loss[0] - 0.1
    for other in (
        {"engine": "auto"},
        {"engine": "sparse"},
        {"engine": "dense"},
        {"X": sp.csr_matrix(X)},
    ):
        its, _ = _train(objective=objective, y=y, max_epochs=40, **other)
        np.testing.assert_allclose(its.stack(X), outputs, rtol=1e-6, atol=1e-8)


def test_first_loss_is_that_of_the_first_weights():
    """With one batch, the loss of the first epoch is that of the untrained network."""
    stack = initialise(
        (4, 8, 2), ["rectifier"], seed=0, output_link="identity", dtype=np.float64
    )
    trained, _ = _train(objective=Squared(), y=NUMBERS, batch_size=60, max_epochs=1)
    expected = np.square(stack(X) - NUMBERS).sum(axis=1).mean() / 2
    assert trained.history.loss[0] == pytest.approx(expected, rel=1e-12)


def test_regressions_stop_by_their_loss():
    """Early stopping of a regression goes by the validation loss, without an error."""
    trained, _ = _train(
        objective=Squared(),
        y=NUMBERS,
        validation=Validation(X[:20], RNG.standard_normal((20, 2))),
        patience=3,
        max_epochs=500,
    )
    history = trained.history
    assert history.stopped == "early_stopping"
    assert history.validation_error == ()
    assert history.best_epoch == int(np.argmin(history.validation_loss)) + 1
    assert history.n_epochs == history.best_epoch + 3


def test_score_decides():
    """With a score, the epoch with the greatest one is kept, and the history has it."""
    scores = (0.1, 0.5, 0.3, 0.5, 0.2)
    rows = np.zeros((10, 4)), np.zeros(10, np.int64)
    actor = _Actor(errors=(0, 5, 4, 0, 2))
    validation = Validation(*rows, score=lambda _: scores[actor.epoch - 1])
    stack, history = actor.train(validation=validation)
    assert history.validation_score == scores
    assert history.validation_error == (0.0, 0.5, 0.4, 0.0, 0.2)
    assert _kept_epoch(stack) == history.best_epoch == 4  # the lower loss of two 0.5


def test_targets_are_checked():
    """Targets that do not suit the objective are refused before the first step."""
    with pytest.raises(DataError, match="expected counts or rates of 0 or more"):
        _train(objective=Poisson(), y=NUMBERS)
    with pytest.raises(DataError, match=r"shape \(59, 2\), expected .*\(60, 2\)"):
        _train(objective=Squared(), y=NUMBERS[1:])


def test_losses_that_overflow():
    """A loss that overflows though the outputs do not is divergence without a layer."""
    with pytest.raises(
        DivergenceError, match=r"epoch 1 at .* the losses, though .*targets"
    ) as raised:
        _train(objective=Squared(), y=1e200 * NUMBERS)
    assert raised.value.layer is None


# ------------------------------------------------------------------ weights of rows


@pytest.mark.parametrize(
    ("objective", "y"),
    [(SoftmaxLogLoss(), Y), (Squared(), NUMBERS)],
    ids=["softmax", "squared"],
)
def test_losses_are_weighted_means(objective, y):
    """The loss of an epoch is the weighted mean, over batches of unequal weight."""
    weights = RNG.uniform(0, 3, 60)
    weights[:10] = 0.0
    start = initialise(
        (4, 8, 2), ["rectifier"], seed=0, output_link=objective.output_link, dtype=float
    )
    frozen = kernels.build(start, SGD(0.0))
    settings = Settings(16, 1, 0.0)
    history = train(
        frozen,
        X,
        y,
        settings=settings,
        seed=0,
        objective=objective,
        sample_weight=weights,
        validation=Validation(X, y, weights),
    ).history
    expected = np.average(objective.losses(start(X), y), weights=weights)
    assert history.loss[0] == pytest.approx(expected, rel=1e-12)
    assert history.validation_loss[0] == pytest.approx(expected, rel=1e-12)


def test_weights_are_copies_of_rows():
    """In one batch, weights of 2 and 0 train as rows that are there twice or not."""
    weights = RNG.integers(0, 3, 60).astype(float)
    copies = np.repeat(np.arange(60), weights.astype(int))
    for objective, y in ((SoftmaxLogLoss(), Y), (Huber(), NUMBERS)):
        weighted, _ = _train(
            objective=objective, y=y, sample_weight=weights, batch_size=200
        )
        copied, _ = _train(
            X=X[copies], objective=objective, y=y[copies], batch_size=200
        )
        np.testing.assert_allclose(weighted.stack(X), copied.stack(X), rtol=1e-9)
        assert weighted.history.loss == pytest.approx(copied.history.loss, rel=1e-12)


def test_no_weight_at_all():
    """If all rows to train on have weight 0, there is nothing to learn."""
    with pytest.raises(ParameterError, match="training rows are all 0"):
        _train(sample_weight=(np.arange(60) >= 30) * 1.0, rows=np.arange(30))


# ------------------------------------------------------------------ going on


RULES = [SGD(0.05, l2=0.01), SGD(0.05, 0.9, nesterov=True), Adam(0.01)]
OPTIONS = [
    StepOptions(),
    StepOptions(dropout=(0.1, 0.5), seed=3),
    StepOptions(batch_norm=True, max_norm=1.0, clip_norm=0.5),
]


@pytest.mark.parametrize("engine", ["auto", "sparse", "dense", "reference"])
@pytest.mark.parametrize("rule", RULES, ids=["sgd", "nesterov", "adam"])
@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "dropout", "batch_norm"])
def test_calls_of_one_epoch_are_one_fit(engine, rule, options):
    """Calls of one epoch each do what one call does, bit for bit."""
    sparse = sp.random_array((60, 30), density=0.1, rng=0, format="csr")
    common = {
        "X": sparse,
        "engine": engine,
        "rule": rule,
        "options": options,
        "l1_activation": 1e-3,
        "schedule": parse_schedule("warmup(1)+cosine"),
    }
    whole, _ = _train(**common, max_epochs=4)
    state, network = None, None
    for number in range(1, 5):
        part, network = _train(
            **common, max_epochs=4, network=network, start=state, n_epochs=1
        )
        state = part.state
        assert state.n_epochs == part.history.best_epoch == number
    assert part.stack == whole.stack
    assert part.history.loss == whole.history.loss
    assert part.history.sparsity == whole.history.sparsity
    assert part.history.learning_rate == whole.history.learning_rate


def test_another_network_goes_on_from_a_state():
    """A state with that of the network can be taken to a new network."""
    whole, _ = _train(max_epochs=4)
    half, network = _train(max_epochs=2)
    state = dataclasses.replace(half.state, network=network.state())
    _train(network=network, start=half.state, n_epochs=1)  # leaves the copy alone
    rest, _ = _train(max_epochs=4, start=state)
    assert rest.stack == whole.stack
    assert rest.history.loss == whole.history.loss


def test_going_on_keeps_the_best():
    """The best epoch, and patience, reach across calls."""
    errors = (5, 3, 4, 4, 4, 4)
    actor = _Actor(errors=errors)
    validation = Validation(np.zeros((10, 4)), np.zeros(10, np.int64))
    settings = Settings(60, 10, 0.1, patience=3)
    common = {"settings": settings, "seed": 0, "validation": validation}
    first = train(actor, X, Y, **common, n_epochs=3)
    assert (first.history.n_epochs, first.history.stopped) == (3, "max_epochs")
    second = train(actor, X, Y, **common, start=first.state, n_epochs=3)
    assert (second.history.n_epochs, second.history.best_epoch) == (5, 2)
    assert second.history.stopped == "early_stopping"
    assert _kept_epoch(second.stack) == 2
    third = train(actor, X, Y, **common, start=second.state, n_epochs=3)
    assert third.history == second.history
    anew = dataclasses.replace(second.state, best=None)
    fourth = train(actor, X, Y, **common, start=anew, n_epochs=1)
    assert (fourth.history.n_epochs, fourth.history.best_epoch) == (6, 6)


def test_validation_only_in_some_calls():
    """A history holds validation errors only if all of its epochs have one."""
    first, network = _train(validation=Validation(X, Y), max_epochs=2)
    assert len(first.history.validation_error) == 2
    second, _ = _train(network=network, start=first.state, n_epochs=1)
    assert second.history.validation_error == second.history.validation_loss == ()
    assert second.history.best_epoch == 3
    third, _ = _train(
        network=network, start=second.state, n_epochs=1, validation=Validation(X, Y)
    )
    assert third.history.best_epoch == 4  # rows decide only among epochs that had them


def test_epochs_beyond_the_plan():
    """With a number of epochs, training goes on beyond the planned ones."""
    first, network = _train(max_epochs=2)
    second, _ = _train(network=network, max_epochs=2, start=first.state, n_epochs=3)
    assert second.history.n_epochs == 5
    third, _ = _train(network=network, max_epochs=2, start=second.state)
    assert third.history == second.history
    assert third.stack == second.stack


def test_interrupted_and_gone_on():
    """After Ctrl-C, going on begins the unfinished epoch anew."""
    actor = _Actor(losses={5: KeyboardInterrupt})
    settings = Settings(20, 3, 0.1)
    first = train(actor, X, Y, settings=settings, seed=0)
    assert (first.history.n_epochs, first.history.stopped) == (1, "interrupted")
    actor.losses = {}
    second = train(actor, X, Y, settings=settings, seed=0, start=first.state)
    assert (second.history.n_epochs, second.history.stopped) == (3, "max_epochs")
    assert [len(np.concatenate(epoch)) for epoch in actor.batches[2:]] == [60, 60]


def test_interrupted_in_the_first_step_of_a_later_call():
    """Ctrl-C in a later call, before its first step, keeps what was there before."""
    first, network = _train(max_epochs=1)

    def interrupted(_):
        raise KeyboardInterrupt

    network.step = interrupted
    second, _ = _train(network=network, start=first.state, n_epochs=1)
    assert second.stack is first.stack
    assert (second.history.n_epochs, second.history.stopped) == (1, "interrupted")


def test_whether_an_interrupt_leaves_a_whole_state():
    """In mid-epoch it does only if the last complete epoch was kept."""
    settings = Settings(20, 3, 0.1)

    def interrupted(step, **options):
        actor = _Actor(losses={step: KeyboardInterrupt})
        actor.state = lambda: {"epoch": np.array(actor.epoch)}
        return train(actor, X, Y, settings=settings, seed=0, **options)

    for step in (4, 5, 6):  # of the second epoch, the first of them included
        assert not interrupted(step).is_whole
        trained = interrupted(step, keeps_epochs=True)
        assert trained.is_whole
        assert trained.state.network["epoch"] == trained.history.n_epochs == 1
    for whole in (_train(max_epochs=1)[0], interrupted(2)):  # an epoch of what was seen
        assert whole.is_whole
        assert whole.state.network is None


def test_state_left_in_an_epoch_of_other_rows():
    """A state in the middle of an epoch fits only as many rows as that has."""
    partial = PartialEpoch(50, 16, 1.0, 16.0, 0.1, None, None)
    with pytest.raises(ParameterError, match=r"epoch of 50 rows, but there are 60"):
        _train(start=TrainingState(partial=partial))


# ------------------------------------------------------------------ order


@pytest.mark.parametrize("engine", ["auto", "dense", "reference"])
def test_unshuffled_calls_split_anywhere(engine):
    """Without shuffling, calls cut at multiples of the batch size are one call."""
    common = {"engine": engine, "shuffle": False, "n_epochs": 1, "batch_size": 10}
    whole, _ = _train(**common)
    state, network = None, None
    for part in (slice(0, 20), slice(20, 30), slice(30, 60)):
        trained, network = _train(
            **common, X=X[part], y=Y[part], network=network, start=state
        )
        state = trained.state
    assert trained.stack == whole.stack


def test_unshuffled_order():
    """Without shuffling, every epoch visits the rows in the order given."""
    actor = _Actor()
    settings = Settings(20, 2, 0.1, shuffle=False)
    rows = np.arange(60)[::-1]
    train(actor, X, Y, settings=settings, seed=0, rows=rows)
    for batches in actor.batches:
        np.testing.assert_array_equal(np.concatenate(batches), rows)


@pytest.mark.parametrize(
    ("losses", "stalled"),
    [
        ([], 0),
        ([5.0], 0),
        ([5.0, 4.0, 3.0], 0),
        ([5.0, 4.0, 3.95, 3.9], 2),
        ([5.0, 4.0, 4.5, 4.4], 2),
        ([5.0, 4.0, 4.5, 3.9], 0),
        ([5.0, 4.95, 4.9, 4.85, 4.8], 4),  # too little each time
    ],
)
def test_epochs_without_progress_are_counted(losses, stalled):
    """A loss counts as lower if it is by tol or more."""
    assert _epochs_stalled(losses, 0.1) == stalled
