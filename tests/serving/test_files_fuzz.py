"""Model files damaged in many thousand ways: a sound model or a DataError, each time.

The damage is drawn from a seeded generator, so that every run sees the same files. Half
of it is done to bytes, half to what the bytes mean; of the latter most get a checksum
that fits, so that it is not the checksum alone which finds it.
"""

import copy
import json
import os
import random
import struct
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest
from safetensors.numpy import save as to_safetensors

from hardzero.errors import DataError
from hardzero.serving import StackModel, load, save
from hardzero.serving.files import _checksum
from hardzero.stack import Layer, RectifierStack

MIB = 2**20


def test_two_thousand_damaged_files(tmp_path, monkeypatch):
    """Each gives a DataError that names the file, or a model that works."""
    accepted, reasons = judge(tmp_path, monkeypatch, n_files=2_000)
    assert accepted > 50
    assert len(reasons) > 30


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="cannot tell the peak memory")
def test_a_hundred_thousand_damaged_files(tmp_path, monkeypatch):
    """None of them crashes, hangs or takes more memory than a few times its size."""
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    accepted, reasons = judge(tmp_path, monkeypatch, n_files=100_000)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{accepted:,} accepted; peak memory grew by {grown / 1024:.0f} MiB")  # noqa: T201
    for reason, count in reasons.most_common():
        print(f"{count:7,} {reason}")  # noqa: T201
    assert accepted > 3_000
    assert grown < 128 * 1024  # KiB


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="cannot tell the peak memory")
@pytest.mark.parametrize(
    "filling",
    [
        *("[],", '"ab",', "0.5,", "{},", '{"a":0},', "[" * 1000 + "]" * 1000 + ","),
        '"\U0001f600",',
    ],
)
@pytest.mark.parametrize("where", ["header", "metadata"])
def test_the_largest_header_takes_bounded_memory(tmp_path, filling, where):
    """Even one that is filled with what takes most memory in Python."""
    path = tmp_path / "model"
    path.write_bytes(filled(filling, where))
    code = (
        "import resource, sys\n"
        "from hardzero.serving import load\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak()\n"
        "try: load(sys.argv[1])\n"
        "except ValueError as error: print((peak() - before) // 1024, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    mebibytes, _, error = done.stdout.partition(" ")
    print(f"{mebibytes} MiB for {path.stat().st_size / MIB:.0f} MiB: {error}")  # noqa: T201
    assert "is not a sound model file" in error
    assert int(mebibytes) < 800


def filled(filling, where):
    """Make a file whose header is as large as allowed and says nothing."""
    room = 2**24 - 200
    rows = filling * (room // len(json.dumps(filling)[1:-1].encode()))
    if where == "header":
        header = ('{"x":[' + rows + "0]}").encode()[: 2**24]
    else:
        header = json.dumps({"__metadata__": {"hardzero": f"[{rows}0]"}}).encode()
    return struct.pack("<Q", len(header)) + header


def judge(folder, monkeypatch, n_files):
    """Load damaged files; count those accepted and the reasons of those refused."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the disk is not on trial
    seeds, rng = make_seeds(), random.Random(20110411)
    path, copied = folder / "model", folder / "copy"
    accepted, reasons = 0, Counter()
    for number in range(n_files):
        path.write_bytes(make_damaged(seeds, rng))
        start = time.perf_counter()
        try:
            model = load(path)
        except DataError as error:
            reasons[reason_of(str(error), path)] += 1
        else:
            accepted += 1
            check_sound(model, copied)
        assert time.perf_counter() - start < 10, f"file {number} took too long"
    return accepted, reasons


def reason_of(message, path):
    """Check the frame of a message; return what is said in it, without its values."""
    start, end = f"{path} is not a sound model file: ", ". Give a file that hardzero"
    assert message.startswith(start)
    assert end in message
    assert len(message) < len(start) + 700
    reason = message[len(start) : message.index(end)].partition("(")[0]
    words = [word for word in reason.split() if word.isalpha()]
    return " ".join(words[:7])


def check_sound(model, path):
    """Check that a model predicts and can be saved again."""
    rows = np.zeros((2, model.stack.n_inputs))
    try:
        assert len(model.predict(rows)) == 2
    except DataError as error:
        if "overflow" not in str(error):
            raise
    assert all(np.isfinite(array).all() for array in model.stack.arrays().values())
    repr(model)
    save(model, path)
    assert load(path) == model


# ---------------------------------------------------------------- sound files


def make_seeds():
    """Make a model of each kind, as its arrays and its description."""
    rng = np.random.default_rng(0)
    hidden = Layer(rng.normal(size=(2, 3)), np.zeros(3), "prelu", signs=[1, -1, 1])
    output = Layer(rng.normal(size=(3, 2)), np.ones(2), "identity")
    plain = (Layer(rng.normal(size=(4, 2)), rng.normal(size=2), "identity"),)
    models = [
        StackModel(
            RectifierStack((hidden, output), "softmax").astype(np.float32),
            ("no", "ja"),
            ("größe", 'a"b'),
        ),
        StackModel(RectifierStack(plain, "softmax"), (1, 5), kind="rating"),
        StackModel(RectifierStack(plain, "sigmoid"), (0.5, 7.25)),
        StackModel(RectifierStack(plain, "exp")),
        StackModel(RectifierStack((hidden, output)), None, ("a", "b")),
    ]
    return [(model.stack.arrays(), describe(model)) for model in models]


def describe(model):
    """Write what `save` writes about a model."""
    classes = model.classes
    if classes is not None:
        dtype = "str" if classes.dtype.kind == "U" else classes.dtype.name
        classes = {"dtype": dtype, "values": classes.tolist()}
    return {
        "format": "hardzero.model",
        "version": 2,
        "kind": model.kind,
        "architecture": json.loads(model.stack.to_json()),
        "classes": classes,
        "feature_names": model.feature_names and list(model.feature_names),
        "versions": {"hardzero": "0.1.0"},
    }


def write(arrays, description, rng, *, signed=True):
    """Write a file, of the old version if nothing is lost by it."""
    if signed:
        description = {**description, "sha256": _checksum(description, arrays)}
    return to_safetensors(dict(arrays), {"hardzero": dump(description, rng)})


# ---------------------------------------------------------------- damage


def make_damaged(seeds, rng):
    """Draw a sound file and damage it once or more."""
    arrays, description = rng.choice(seeds)
    meaning = rng.choice((None, None, damage_description, damage_arrays))
    if meaning is not None:
        arrays, description = meaning(dict(arrays), copy.deepcopy(description), rng)
    content = write(arrays, description, rng, signed=rng.random() < 0.9)
    if meaning is not None and rng.random() < 0.9:
        return content
    others = write(*rng.choice(seeds), rng)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        content = rng.choice(BYTES)(content, others, rng)
    return content


def damage_description(arrays, description, rng):
    """Change the tree of JSON that the metadata is."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        description = change_tree(description, rng)
    return arrays, description if isinstance(description, dict) else {"": description}


def damage_arrays(arrays, description, rng):
    """Change values, types, shapes and names of arrays."""
    name = rng.choice(list(arrays))
    array = arrays.pop(name).copy()
    choice = rng.randrange(7)
    if choice == 0:
        with np.errstate(over="ignore"):
            array.flat[rng.randrange(array.size)] = np.float64(rng.choice(NUMBERS))
    elif choice == 1:
        array = array.astype(rng.choice(["f2", "f4", "f8", "i8", "u1", "?"]))
    elif choice == 2:
        array = array.reshape(rng.choice([array.shape[::-1], (-1,), (1, -1)]))
    elif choice == 3:
        array = array[: rng.randrange(len(array))]
    elif choice == 4:
        name = rng.choice(["", "0.W", "1.W.", "999.b", name + "\x00", "1.slopes"])
    elif choice == 5:
        array = np.zeros((0, *array.shape), array.dtype)
    if choice != 6:  # else it is lost
        arrays[name] = np.ascontiguousarray(array)
    return arrays, description


def change_tree(tree, rng):
    """Replace, remove, double or swap a node of a tree of JSON, or nest it deeper."""
    places = list(walk(tree))
    if not places:
        return tree
    parent, key = rng.choice(places)
    choice = rng.randrange(6)
    if choice < 2:
        parent[key] = copy.deepcopy(rng.choice(ODD))
    elif choice == 2:
        del parent[key]
    elif choice == 3 and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(parent[key]))
    elif choice == 3:
        parent[str(key) + rng.choice(["_", "\x00", "é"])] = parent[key]
    elif choice == 4:
        other, its_key = rng.choice(places)
        parent[key] = copy.deepcopy(other[its_key])
    else:
        for _ in range(rng.choice((1, 2, 70))):
            parent[key] = [parent[key]]
    return tree


def walk(tree):
    """Yield each place in a tree as its parent and its key or index."""
    if isinstance(tree, list | dict):
        keys = list(range(len(tree))) if isinstance(tree, list) else list(tree)
        for key in keys:
            yield tree, key
            yield from walk(tree[key])


def dump(tree, rng):
    """Write JSON, now and then with a name twice or too deep to be parsed."""
    text = json.dumps(tree)
    choice = rng.randrange(40)
    if choice == 0 and text.startswith("{") and len(tree):
        name = rng.choice(list(tree))
        text = f"{{{json.dumps({name: tree[name]})[1:-1]}, {text[1:]}"
    if choice == 1:
        depth = rng.choice((10, 900, 20_000))
        text = text.replace("null", "[" * depth + "]" * depth, 1)
    return text


def flip(content, _, rng):
    """Flip some bits."""
    content = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if content:
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content)


def overwrite(content, _, rng):
    """Overwrite or insert some bytes."""
    place = rng.randint(0, len(content))
    new = rng.choice((b"\0", b"\xff" * 8, b'"', b"{", b"[", b"]}", b"\\", b"9" * 400))
    return content[:place] + new + content[place + rng.choice((0, len(new))) :]


def cut(content, _, rng):
    """Keep the start, or leave out the middle."""
    start = rng.randint(0, len(content))
    return content[:start] + rng.choice((b"", content[start + rng.randint(1, 64) :]))


def repeat(content, _, rng):
    """Repeat a part, or append something."""
    start = rng.randint(0, len(content))
    part = content[start : start + rng.choice((4, 64, 1000))]
    return content[:start] + part + content[start:] + rng.choice((b"", b"", part))


def splice(content, other, rng):
    """Go on with another file."""
    return content[: rng.randint(0, len(content))] + other[rng.randint(0, len(other)) :]


def claim(content, _, rng):
    """Claim another length of the header."""
    now = int.from_bytes(content[:8], "little")
    near = max(now + rng.randint(-9, 9), 0)
    new = rng.choice((near, 0, len(content), 2**24, 2**31, 2**40, 2**63, 2**64 - 1))
    return struct.pack("<Q", min(new, 2**64 - 1)) + content[8:]


def change_header(content, _, rng):
    """Change names, types, shapes and offsets in the header."""
    end = 8 + int.from_bytes(content[:8], "little")
    try:
        tree = change_tree(json.loads(content[8:end]), rng)
    except (ValueError, RecursionError):  # damaged before
        return content
    header = dump(tree, rng).encode()
    header += b" " * (-len(header) % 8)
    n_bytes = len(header) if rng.random() < 0.9 else end - 8
    return struct.pack("<Q", n_bytes) + header + content[end:]


BYTES = (flip, overwrite, cut, repeat, splice, claim, *[change_header] * 5)
NUMBERS = (np.nan, np.inf, -np.inf, 3e38, 1e-45, -0.0, 2.0, 1e300)
ODD = (
    *(None, True, False, 0, 1, -1, 2, 3, 2**31, 2**53, 2**63 - 1, 2**63, 2**64),
    *(10**400, 0.5, -0.0, 1e308, float("inf"), float("nan")),
    *("", "a", "\ud800", "\udc80x", "\x00", "é" * 999, "x" * 20_000, "1", "null"),
    *("F16", "BF16", "I64", "F64", "F32", "<f4", "O", "float16", "str", "bool"),
    *("softmax", "sigmoid", "identity", "exp", "float64", "float32", "longdouble"),
    *("rating", "regressor", "multilabel", "classifier", "rectifier", "prelu"),
    *("leaky_rectifier(1e999)", "leaky_rectifier(nan)", "prelu(", "swish(9)"),
    *([], {}, [[]], [0, 4], [4, 0], [2, 3], [2**62, 2**62], [0] * 999, {"a": {}}),
)
