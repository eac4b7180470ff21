"""The learning rate from epoch to epoch."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardzero.engine.schedules import CONSTANT, Schedule, parse_schedule
from hardzero.errors import ParameterError


def _factors(spelling, n):
    schedule = parse_schedule(spelling)
    return [schedule.factor(epoch, n) for epoch in range(1, n + 1)]


def test_constant_never_changes():
    """A constant schedule has the factor 1 in every epoch."""
    assert _factors("constant", 4) == [1, 1, 1, 1]
    assert parse_schedule("constant") == CONSTANT


def test_step_multiplies_every_few_epochs():
    """step(every, factor) multiplies by the factor after every so many epochs."""
    assert _factors("step(2, 0.5)", 5) == [1, 1, 0.5, 0.5, 0.25]
    assert parse_schedule("step") == parse_schedule("step(10, 0.5)")


def test_cosine_falls_along_half_a_cosine():
    """The cosine starts at 1, is halfway in the middle, and would end at `final`."""
    assert _factors("cosine", 4) == pytest.approx(
        [1, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2]
    )
    assert parse_schedule("cosine(0.2)").factor(5, 4) == pytest.approx(0.2)
    assert parse_schedule("cosine") == parse_schedule("cosine(0)")


def test_cosine_stays_at_the_end():
    """Beyond the planned epochs the cosine does not rise again."""
    assert parse_schedule("cosine(0.2)").factor(9, 4) == pytest.approx(0.2)


def test_warmup_climbs_and_then_the_schedule_begins():
    """A warm-up climbs in equal steps; what follows counts epochs from its end."""
    assert _factors("warmup(3)", 5) == [0.25, 0.5, 0.75, 1, 1]
    assert parse_schedule("warmup(3)") == parse_schedule("warmup(3)+constant")
    assert _factors("warmup(1)+step(2, 0.5)", 6) == [0.5, 1, 1, 0.5, 0.5, 0.25]
    assert _factors("warmup(2)+cosine", 6)[2:] == _factors("cosine", 4)
    assert parse_schedule("warmup(0)+cosine") == parse_schedule("cosine")


def test_warmup_longer_than_training():
    """A warm-up may be cut off by the end of training."""
    assert _factors("warmup(3)+cosine", 2) == [0.25, 0.5]
    assert parse_schedule("warmup(3)+cosine").factor(4, 3) == 1


@pytest.mark.parametrize(
    ("spelling", "depends"),
    [("constant", False), ("warmup(2)+step", False), ("warmup(2)+cosine", True)],
)
def test_which_schedules_depend_on_the_plan(spelling, depends):
    """Only the cosine gives an epoch another factor if more epochs are planned."""
    schedule = parse_schedule(spelling)
    assert schedule.depends_on_max_epochs is depends
    assert (schedule.factor(5, 10) != schedule.factor(5, 20)) is depends


@given(
    st.one_of(
        st.just(CONSTANT),
        st.builds(
            lambda every, factor: Schedule("step", (every, factor)),
            st.integers(1, 10**7),
            st.floats(0, 1, exclude_min=True),
        ),
        st.builds(
            lambda final, warmup: Schedule("cosine", (final,), warmup),
            st.floats(0, 1),
            st.integers(0, 20),
        ),
    ),
    st.integers(1, 50),
)
def test_spelling_and_range(schedule, n):
    """A schedule reads back what it writes, and no factor leaves [0, 1]."""
    assert parse_schedule(str(schedule)) == schedule
    assert all(0 <= schedule.factor(epoch, n) <= 1 for epoch in range(1, n + 1))


@pytest.mark.parametrize(
    "spelling",
    [
        "",
        "linear",
        "constant(1)",
        "step(2)",
        "step(2.5, 0.1)",
        "step(0, 0.1)",
        "step(1e999, 0.1)",
        "step(2, 0)",
        "step(2, 1.5)",
        "step(2, nan)",
        "step(2, 0.1",
        "cosine(2)",
        "cosine(-0.1)",
        "cosine(0, 1)",
        "cosine()",
        "warmup",
        "warmup()",
        "warmup(-1)",
        "warmup(1.5)+cosine",
        "warmup(2)+",
        "warmup(2)cosine",
        "warmup(2)+linear",
        "warmup(2)+warmup(2)+cosine",
        "cosine+warmup(2)",
    ],
)
def test_other_spellings_are_refused(spelling):
    """What is no schedule is refused with the list of schedules."""
    with pytest.raises(ParameterError, match=r"is not a learning-rate.*'cosine"):
        parse_schedule(spelling)
