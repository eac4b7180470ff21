"""Names and parameters of noise."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from hardzero.engine.corruption import (
    CORRUPTIONS,
    Corruption,
    Gaussian,
    Masking,
    NoCorruption,
    SaltAndPepper,
    Swap,
    parse_corruption,
)
from hardzero.errors import ParameterError


@pytest.mark.parametrize(
    ("spelling", "corruption"),
    [
        ("none", NoCorruption()),
        (" none() ", NoCorruption()),
        ("masking(0.25)", Masking(0.25)),
        ("masking( rate = .25 )", Masking(0.25)),
        ("salt_and_pepper(0.8, 0.005)", SaltAndPepper(0.8, 0.005)),
        ("salt_and_pepper(on=5e-3, off=0.8)", SaltAndPepper(0.8, 0.005)),
        ("salt_and_pepper(off=0.8, 0.005)", SaltAndPepper(0.8, 0.005)),
        ("salt_and_pepper (0.8,density)", SaltAndPepper(0.8, "density")),
        ("gaussian(2)", Gaussian(2)),
        ("swap(1)", Swap(1.0)),
    ],
)
def test_spellings(spelling, corruption):
    """A name and numbers in parentheses, which may have names, make a corruption."""
    assert parse_corruption(spelling) == corruption
    assert parse_corruption(corruption) is corruption


PARTS = st.floats(0, 1)


@given(
    st.just(NoCorruption())
    | st.builds(Masking, PARTS)
    | st.builds(SaltAndPepper, PARTS, PARTS | st.just("density"))
    | st.builds(Gaussian, st.floats(0, allow_infinity=False))
    | st.builds(Swap, PARTS)
)
def test_spelling_of_corruptions(corruption):
    """A corruption is spelled as it is read."""
    assert parse_corruption(str(corruption)) == corruption
    assert hash(parse_corruption(str(corruption))) == hash(corruption)


def test_spellings_are_short():
    """Numbers are spelled as users would."""
    assert str(SaltAndPepper(1, np.float32(0.5))) == "salt_and_pepper(1, 0.5)"
    assert str(SaltAndPepper(0.8, "density")) == "salt_and_pepper(0.8, density)"
    assert str(NoCorruption()) == "none"


def test_catalogue():
    """Each kind stands in the catalogue by its name, with an example that is one."""
    for name, kind in CORRUPTIONS.items():
        assert kind.name == name
        assert type(parse_corruption(kind.example)) is kind
        assert issubclass(kind, Corruption)


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("masks", r"'masks' is unknown. Did you mean 'masking\(0.25\)'\?"),
        ("dropout(0.5)", r"'dropout' is unknown. Did you mean 'masking\(0.25\)'\?"),
        ("Gaussian(1)", r"'Gaussian' is unknown. Did you mean 'gaussian\(0.3\)'\?"),
        ("xyz(1)", r"'xyz' is unknown. Give one such as 'none', 'masking\(0.25\)', "),
        ("masking 0.5", r"is 'masking 0.5', expected a name, with its parameters in "),
        ("", r"is '', expected a name.* Give one such as 'none', 'masking"),
        (None, r"is None, expected a name.* Give one such as 'none', 'masking"),
        ("none(1)", r"'none' got \(1\), expected no parameters. Write .* 'none'"),
        ("masking", r"'masking' got \(\), expected \(rate\). Write .*'masking\(0.25"),
        ("masking(1, 2)", r"'masking' got \(1, 2\), expected \(rate\)"),
        ("masking(part=1)", r"'masking' got \(part=1\), expected \(rate\)"),
        ("swap(rate=0, rate=1)", r"'swap' got \(rate=0, rate=1\), expected \(rate\)"),
        ("salt_and_pepper(0.8)", r"got \(0.8\), expected \(off, on\). Write .*density"),
        ("salt_and_pepper(1, off=0)", r"got \(1, off=0\), expected \(off, on\)"),
        ("masking(a)", r"rate of .*'masking' is 'a', expected a finite number from 0 "),
        ("masking(1.01)", r"rate of .* is 1.01, .* number from 0 to 1. Write .*'mask"),
        ("masking(-0.1)", r"rate of .* is -0.1, expected a finite number from 0 to 1"),
        ("swap(nan)", r"rate of the corruption 'swap' is nan, expected a finite numbe"),
        ("swap(density)", r"rate of .*'swap' is 'density', expected a finite number f"),
        ("gaussian(-1)", r"deviation of .* is -1.0, expected .* number of 0 or more. "),
        ("gaussian(inf)", r"deviation of .* is inf, expected a finite number of 0 or "),
        ("salt_and_pepper(0, 2)", r"on of .* is 2.0, .* from 0 to 1 or 'density'. Wri"),
        ("salt_and_pepper(0, x)", r"on of .* is 'x', .* from 0 to 1 or 'density'. Wri"),
        ("salt_and_pepper(density, 0)", r"off of .* is 'density', .* from 0 to 1. Wri"),
    ],
)
def test_errors_of_spellings(spelling, message):
    """Errors say what was given, what there is, and what to write."""
    with pytest.raises(ParameterError, match=message):
        parse_corruption(spelling)


def test_density_needs_zeros():
    """Where there are fewer zeros than non-zeros turn off, density cannot be kept."""
    X = np.array([[1.0, 2.0, 3.0, 0.0]])
    SaltAndPepper(0.33, "density").fit(X)
    SaltAndPepper(0, "density").fit(np.ones((2, 2)))
    SaltAndPepper(0.34, 0.1).fit(X)
    message = (
        r"'salt_and_pepper\(0.34, density\)' turns on .* 75.0% of the entries of X are "
        r".* Give 'salt_and_pepper\(0.34, on\)' a number for on, or take 'masking"
    )
    for form in (X, sp.csr_array(X)):
        with pytest.raises(ParameterError, match=message):
            SaltAndPepper(0.34, "density").fit(form)


def test_gaussian_noise_needs_dense_rows():
    """Sparse rows would not stay sparse."""
    X = sp.csr_array(np.eye(3))
    message = r"sparse matrix, but .* 'gaussian\(0.3\)' changes .* X.toarray\(\), or "
    with pytest.raises(ParameterError, match=message):
        Gaussian(0.3).fit(X)
    corruptor = Gaussian(0.3).fit(X.toarray())
    with pytest.raises(ParameterError, match=message):
        corruptor(X, np.zeros(3, dtype=np.uint64), np.uint64(0))
