"""Random numbers: known answers, and independence of order, form and batch."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from hardzero.random import generator, philox, row_hashes, stream_key, uniforms

MASK = 2**64 - 1


def _words(text):
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        (
            "00000000 00000000 00000000 00000000",
            "00000000 00000000",
            "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
        ),
        (
            "ffffffff ffffffff ffffffff ffffffff",
            "ffffffff ffffffff",
            "408f276d 41c83b0e a20bc7c6 6d5451fd",
        ),
        (
            "243f6a88 85a308d3 13198a2e 03707344",
            "a4093822 299f31d0",
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_known_answers_of_philox(counter, key, answer):
    """The generator is Philox4x32-10: it gives the published answers of Random123."""
    block = philox(_words(counter), _words(key))
    assert block.dtype == np.uint32
    assert block.tolist() == _words(answer)


def test_philox_takes_counters_of_any_shape():
    """Each counter is worked on by itself."""
    rng = np.random.default_rng(0)
    counters = rng.integers(0, 2**32, (3, 5, 4), dtype=np.uint32)
    blocks = philox(counters, [1, 2])
    assert blocks.shape == counters.shape
    assert np.array_equal(blocks[2, 3], philox(counters[2, 3], [1, 2]))
    assert philox(np.zeros((0, 4), np.uint32), [1, 2]).shape == (0, 4)


# The definitions once more, in Python's integers: what a C++ twin computes.


def _mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


GOLDEN = 0x9E3779B97F4A7C15


def _next(z):
    return _mix((z + GOLDEN) & MASK)


def _key(seed, purpose, epoch):
    h = 0xCBF29CE484222325
    for byte in purpose.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return _next(_next(_next(seed) ^ h) ^ epoch)


def _row_hash(row):
    total = 0
    for column, value in enumerate(row):
        if value != 0:
            bits = int(np.float64(value).view(np.uint64))
            total += _next(_next(column) ^ bits)
    return total & MASK


def _uniform(key, row_hash, column):
    counter = [row_hash & 0xFFFFFFFF, row_hash >> 32, column // 4, 0]
    block = philox(counter, [key & 0xFFFFFFFF, key >> 32])
    return (int(block[column % 4]) >> 8) / 2**24


seeds = st.integers(0, MASK)


@given(seeds, st.text(), seeds)
def test_stream_key_is_its_formula(seed, purpose, epoch):
    """The key is the documented function of seed, purpose and epoch."""
    key = stream_key(seed, purpose, epoch)
    assert key.dtype == np.uint64
    assert int(key) == _key(seed, purpose, epoch)


def test_pinned_values():
    """These values never change, and every implementation gives them."""
    assert _mix(GOLDEN) == 0xE220A8397B1DCDAF  # first output of splitmix64 from 0
    assert int(stream_key(0, "", 0)) == 0xA6BBC8DCBE30928C
    assert int(stream_key(2011, "corruption", 3)) == 0x1643BF3CE354BBA3
    X = np.array([[0.0, 1.5, 0.0, -2.0], [0.0, 0.0, 0.0, 0.0]])
    assert row_hashes(X).tolist() == [0xD3FBDF79188FAD90, 0]
    assert (uniforms(7, [0, MASK], 5) * 2**24).astype(int).tolist() == [
        [16015482, 12585465, 1915578, 1437100, 8305389],
        [4956803, 9690760, 4468515, 8460786, 4616625],
    ]


def test_keys_differ():
    """Seeds, purposes and epochs have streams of their own."""
    keys = {
        int(stream_key(seed, purpose, epoch))
        for seed in (0, 1, 2, 2**32, MASK)
        for purpose in ("", "shuffle", "shufflf", "corruption")
        for epoch in (0, 1, 2, 2**32)
    }
    assert len(keys) == 5 * 4 * 4


def test_seeds_and_epochs_out_of_range():
    """The error names the argument and its range."""
    with pytest.raises(ValueError, match=r"seed is -1, expected .* 0 to 2\*\*64 - 1"):
        stream_key(-1, "shuffle", 0)
    with pytest.raises(ValueError, match=f"epoch is {MASK + 1}, expected"):
        generator(0, "shuffle", MASK + 1)
    with pytest.raises(TypeError, match="float"):
        stream_key(1.5, "shuffle", 0)


def test_generators_repeat_and_differ():
    """The same arguments give the same numbers, any other argument gives others."""
    first = generator(5, "init").random(4)
    assert np.array_equal(first, generator(np.int64(5), "init", 0).random(4))
    for other in (generator(6, "init"), generator(5, "split"), generator(5, "init", 1)):
        assert not np.any(first == other.random(4))


values = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 2.0**-140, 1e-45, 255.0])
matrices = st.integers(1, 6).flatmap(
    lambda d: st.lists(st.lists(values, min_size=d, max_size=d), min_size=1, max_size=5)
)


@given(matrices)
def test_row_hash_is_its_formula(rows):
    """The hash is the documented sum over the entries that are not zero."""
    hashes = row_hashes(np.array(rows))
    assert hashes.dtype == np.uint64
    assert hashes.tolist() == [_row_hash(row) for row in rows]


@given(matrices)
def test_row_hash_depends_on_content_only(rows):
    """Form, dtype of equal values, order of the rows and added zeros do not matter."""
    X = np.array(rows, dtype=np.float32)
    hashes = row_hashes(X)
    explicit = sp.csr_array(np.ones_like(X))
    explicit.data = X.ravel().copy()  # zeros and -0.0 are stored
    same = [
        X.astype(np.float64),
        np.asfortranarray(X),
        X + 0.0,
        np.hstack([X, np.zeros_like(X)]),
        sp.csr_array(X),
        sp.csr_matrix(X.astype(np.float64)),
        sp.csc_array(X),
        sp.coo_array(X),
        explicit,
        sp.csr_array(X)[:, ::-1][:, ::-1],  # columns out of order
    ]
    for form in same:
        assert np.array_equal(row_hashes(form), hashes)
    assert np.array_equal(row_hashes(X[::-1]), hashes[::-1])


def test_entries_of_one_place_are_added_up():
    """A CSR matrix with two entries in one place is hashed as what it means."""
    twice = sp.csr_array(([1.0, 2.0, 4.0, -4.0], [1, 1, 0, 0], [0, 2, 4]), shape=(2, 3))
    plain = [[0.0, 3.0, 0.0], [0.0, 0.0, 0.0]]
    assert np.array_equal(row_hashes(twice), row_hashes(plain))
    assert twice.nnz == 4  # the caller's matrix is as it was


def test_row_hashes_differ():
    """Neighbouring contents have different hashes."""
    rows = [np.eye(64), 2 * np.eye(64), np.tri(64), np.eye(64) - np.eye(64, k=1)]
    hashes = row_hashes(np.concatenate(rows))
    assert len(set(hashes.tolist())) == 4 * 64 - 2  # two of them are e_0, e_63 again


def test_row_hashes_of_many_rows_are_those_of_each():
    """Cutting the work into blocks does not show."""
    X = np.random.default_rng(0).integers(0, 3, (3000, 700)).astype(np.float32)
    hashes = row_hashes(X)
    assert np.array_equal(hashes[1490:1500], row_hashes(X[1490:1500]))
    assert np.array_equal(hashes, row_hashes(sp.csr_array(X)))


def test_rows_must_be_rows():
    """One dimension is not enough."""
    with pytest.raises(ValueError, match=r"X has shape \(3,\), expected \(n_samples"):
        row_hashes([1.0, 2.0, 3.0])


@given(seeds, st.lists(seeds, max_size=4), st.integers(0, 9))
def test_uniforms_are_their_formula(key, hashes, n_columns):
    """Each number is the documented function of key, row and column."""
    numbers = uniforms(key, np.array(hashes, dtype=np.uint64), n_columns)
    assert numbers.dtype == np.float32
    assert numbers.shape == (len(hashes), n_columns)
    expected = [[_uniform(key, h, j) for j in range(n_columns)] for h in hashes]
    assert numbers.tolist() == expected


def test_uniforms_do_not_depend_on_company():
    """Other rows, their order and more columns leave a row's numbers as they are."""
    hashes = np.random.default_rng(0).integers(0, MASK, 5000, dtype=np.uint64)
    key = stream_key(0, "corruption", 1)
    numbers = uniforms(key, hashes, 300)
    assert np.array_equal(uniforms(key, hashes[4990:], 300), numbers[4990:])
    assert np.array_equal(uniforms(key, hashes[::-1], 300), numbers[::-1])
    assert np.array_equal(uniforms(key, hashes, 7), numbers[:, :7])


def test_uniforms_are_uniform():
    """Over rows and over columns the numbers look uniform on [0, 1)."""
    rows = row_hashes(np.eye(400))
    numbers = uniforms(stream_key(1, "corruption", 1), rows, 400).astype(float)
    n = numbers.size
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 4 / np.sqrt(12 * n)
    counts, _ = np.histogram(numbers, bins=64, range=(0, 1))
    chi_square = ((counts - n / 64) ** 2 / (n / 64)).sum()
    assert chi_square < 63 + 5 * np.sqrt(2 * 63)
    for a, b in ((numbers[1:], numbers[:-1]), (numbers[:, 1:], numbers[:, :-1])):
        correlation = np.corrcoef(a.ravel(), b.ravel())[0, 1]
        assert abs(correlation) < 4 / np.sqrt(n)
