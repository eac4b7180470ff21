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


@given(
    st.one_of(
        st.just(CONSTANT),
        st.builds(
            lambda every, factor: Schedule("step", (every, factor)),
            st.integers(1, 1000),
            st.sampled_from([1.0, 0.5, 0.1, 1e-3]),
        ),
        st.builds(
            lambda final: Schedule("cosine", (final,)),
            st.sampled_from([0.0, 0.01, 1.0]),
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
    ],
)
def test_other_spellings_are_refused(spelling):
    """What is no schedule is refused with the list of schedules."""
    with pytest.raises(ParameterError, match=r"is not a learning-rate.*'cosine"):
        parse_schedule(spelling)
