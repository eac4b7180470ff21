"""Files of networks with rational weights."""

import json
from fractions import Fraction

import pytest

from hardzero import theory
from hardzero.errors import DataError


@pytest.mark.parametrize(
    "layers",
    [
        [([[1, 2, -1]], [0, "1/3", 0]), ([[1]] * 3, [0])],
        [([[0.1]], [3], "leaky_rectifier(0.1)"), ([[1]], [0])],
        [([[1, 1]], [4, 0], "identity"), theory.max_pool(2, [[0, 1], [1]])],
        [([[10**80]], ["1/7"], "capped_rectifier(6)"), ([["-1/3"]], [0])],
    ],
)
def test_what_was_saved_is_loaded(layers, tmp_path):
    """Every weight comes back as it was."""
    network = theory.rational_network(layers)
    theory.save_network(network, tmp_path / "network.json")
    assert theory.load_network(tmp_path / "network.json") == network


def test_a_file_by_hand_is_read_as_it_is_written(tmp_path):
    """0.1 in a file is a tenth, not the nearest float."""
    path = tmp_path / "network.json"
    path.write_text(
        '{"layers": [{"W": [[1, 0.1]], "b": [0, "1/3"], "activation": "identity"},'
        ' {"W": [[1], [1e-3]], "b": [0]}]}'
    )
    expected = theory.rational_network(
        [([[1, "1/10"]], [0, "1/3"], "identity"), ([[1], ["1/1000"]], [0])]
    )
    assert theory.load_network(path) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not JSON in UTF-8"),
        ("[" * 100_000, "is not JSON in UTF-8"),
        (b"\xff\xfe", "is not JSON in UTF-8"),
        ("[1, 2]", "has no list of layers"),
        ('{"layers": 3}', "has no list of layers"),
        ('{"layers": [], "layers": []}', "an object has a key twice"),
        ('{"layers": [{"W": [[1e99999999]], "b": [0]}]}', "exponent .* is too large"),
        ('{"layers": []}', "layers is empty"),
        ('{"layers": [3]}', "layer 1 is no object"),
        ('{"layers": [{"W": [[1]]}]}', "layer 1 has W, expected W and b"),
        (
            '{"layers": [{"W": [[1]], "b": [0], "activaton": "identity"}]}',
            "layer 1 has W, b, activaton, expected W and b, and activation",
        ),
        (
            '{"layers": [{"W": [[1]], "b": [0]}], "scale": 2}',
            "has layers, scale, expected layers",
        ),
        (
            '{"layers": [], "format": "hardzero certificate 1"}',
            "has format, layers, ex",
        ),
        ('{"layers": [{"W": [[1]], "b": [1, 2]}]}', r"expected W of shape"),
        ('{"layers": [{"W": [["x"]], "b": [1]}]}', r"W\[0\]\[0\] of layer 1 is 'x'"),
        ('{"layers": [{"W": [[NaN]], "b": [1]}]}', "is nan, expected a finite number"),
        ('{"layers": [{"W": [["1/0"]], "b": [1]}]}', "'1/0', expected a finite"),
        ('{"layers": [{"W": 3, "b": [1]}]}', "expected W as rows of numbers"),
        ('{"layers": [{"W": ["12"], "b": [1, 2]}]}', "expected W as rows of numbers"),
        ('{"layers": [{"W": [{"1": 0}], "b": [1]}]}', "expected W as rows of numbers"),
        ('{"layers": [{"units": [3]}]}', "units of layer 1 are no lists of pieces"),
        ('{"layers": [{"units": [[[1, 0], [1]]]}]}', r"pieces with \[1, 0\] weights"),
        ('{"layers": [{"units": []}]}', "layer 1 has no units"),
        (
            '{"layers": [{"units": [[[1, 0]]]}, {"units": [[[1, 1, 0]]]}]}',
            "layer 2 has pieces with another number of weights",
        ),
        (
            '{"layers": [{"W": [[1]], "b": [0], "activation": "tanh"}]}',
            "tanh, which is not piecewise linear",
        ),
        (
            json.dumps({"layers": [{"W": [["9" * 10**6 + "9"]], "b": [0]}]}),
            "finite num",
        ),
        ('{"layers": [{"W": [[' + "9" * 10**6 + '9]], "b": [0]}]}', "is not JSON"),
    ],
)
def test_malformed_files_say_what_is_wrong(content, message, tmp_path):
    """No traceback out of json or out of a list; the file is named."""
    path = tmp_path / "network.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=message) as caught:
        theory.load_network(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    """The message says what to give."""
    with pytest.raises(DataError, match=r"Cannot read .*none\.json: No such file"):
        theory.load_network(tmp_path / "none.json")


def test_numbers_longer_than_python_prints_are_kept(tmp_path):
    """Weights of ten thousand digits are written and read."""
    path = tmp_path / "long.json"
    network = theory.rational_network([([[Fraction(1, 7**12_000)]], [10**10_000])])
    theory.save_network(network, path)
    assert theory.load_network(path) == network
