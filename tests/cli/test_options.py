"""Arguments that are checked while they are parsed."""

import argparse

import pytest

from hardzero.cli.options import (
    add_threads,
    output_path,
    positive,
    sizes,
    threads,
)


def test_numbers():
    """Whole numbers above 0, alone or in a list."""
    assert positive("12") == 12
    assert sizes("300") == (300,)
    assert sizes("300, 100") == (300, 100)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "x", "", "²"])
def test_what_is_no_such_number(text):
    """Anything else is refused with what was given."""
    with pytest.raises(argparse.ArgumentTypeError, match="is not a whole number above"):
        positive(text)
    with pytest.raises(argparse.ArgumentTypeError, match="is not a whole number above"):
        sizes(f"1,{text}")


def test_numbers_too_large_are_refused():
    """Larger than any array or number of threads can be."""
    assert positive("2147483647") == 2**31 - 1
    assert threads("0001024") == 1024
    for read, text in ((positive, "2147483648"), (threads, "1025"), (sizes, "9" * 99)):
        with pytest.raises(argparse.ArgumentTypeError, match="is more than"):
            read(text)


def test_output_path(tmp_path):
    """The folder must exist, and the path must not be one."""
    assert output_path(str(tmp_path / "new")) == tmp_path / "new"
    with pytest.raises(argparse.ArgumentTypeError, match="there is no folder"):
        output_path(str(tmp_path / "absent" / "new"))
    with pytest.raises(argparse.ArgumentTypeError, match="is a folder"):
        output_path(str(tmp_path))


def test_all_processors_by_default():
    """A number of threads need not be given."""
    parser = argparse.ArgumentParser()
    add_threads(parser)
    assert parser.parse_args([]).threads == -1
    assert parser.parse_args(["--threads", "3"]).threads == 3
