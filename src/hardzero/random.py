"""Counter-based random numbers: the same values in any order, batch and thread.

A number is a pure function of (seed, purpose, epoch, content of the row, column), so
noise depends neither on the order of the rows nor on how they are cut into batches, a
row with weight 2 gets the noise of two equal rows, and a resumed run equals one that
was never interrupted. The compiled core computes the same bits.

All arithmetic is on unsigned integers and wraps. With ``G = 0x9E3779B97F4A7C15`` and
the finaliser of splitmix64 (Steele, Lea & Flood 2014, section 4, constants of variant
13 of Stafford),

    mix(z):  z ^= z >> 30;  z *= 0xBF58476D1CE4E5B9
             z ^= z >> 27;  z *= 0x94D049BB133111EB
             z ^= z >> 31

the definitions are

    fnv(s)   h = 0xCBF29CE484222325; for each byte c of s:  h ^= c;  h *= 0x100000001B3
    key      mix((mix((mix(seed + G) ^ fnv(purpose as UTF-8)) + G) ^ epoch) + G)
    row      sum over entries v != 0 in column j of  mix((mix(j + G) ^ bits(v)) + G)
    uniform  (w[j % 4] >> 8) * 2**-24  with w = philox4x32_10(counter, key), where
             counter = (low 32 bits of row, high 32 bits of row, j // 4, 0)
             key     = (low 32 bits of key, high 32 bits of key)

where bits(v) is the pattern of v as a float64.

References
----------
Salmon, Moraes, Dror & Shaw 2011, Parallel random numbers: as easy as 1, 2, 3, section
3.3 (Philox). FNV-1a is by Fowler, Noll & Vo.
"""

from collections.abc import Iterator
from operator import index
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

__all__ = ["generator", "philox", "row_hashes", "stream_key", "uniforms"]

Array = npt.NDArray[Any]
UInt64 = npt.NDArray[np.uint64]

_GOLDEN: Final = 0x9E3779B97F4A7C15
_MASK32: Final = 0xFFFFFFFF
_MASK64: Final = 0xFFFFFFFFFFFFFFFF
_BLOCK_ENTRIES: Final = 1 << 20  # entries worked on at a time: a few 8 MB arrays


@runtime_checkable
class SparseMatrix(Protocol):
    """What is needed here of a SciPy sparse matrix or array."""

    def tocsr(self) -> Any:
        """Return it by compressed rows."""


def generator(seed: int, purpose: str, epoch: int = 0) -> np.random.Generator:
    """Return a NumPy generator of its own for one purpose in one epoch.

    For what does not depend on rows: initial weights, shuffles, splits.

    Parameters
    ----------
    seed : int
        Seed of the run, from 0 to 2**64 - 1.
    purpose : str
        What the numbers are for, for example "shuffle".
    epoch : int, default=0
        Epoch, from 0 to 2**64 - 1.

    Returns
    -------
    numpy.random.Generator
        On the bit generator `numpy.random.Philox`, keyed by `stream_key`. Equal
        arguments give equal numbers, as far as NumPy keeps its distributions.

    Raises
    ------
    ValueError
        If `seed` or `epoch` is out of range.
    TypeError
        If one is not an integer.
    """
    key = int(stream_key(seed, purpose, epoch))
    return np.random.Generator(np.random.Philox(key=key))


def stream_key(seed: int, purpose: str, epoch: int) -> np.uint64:
    """Return the key of a stream of random numbers.

    The formula stands at the top of this module. For a fixed purpose and epoch,
    different seeds have different keys, and for a fixed seed and purpose different
    epochs have.

    Parameters
    ----------
    seed : int
        Seed of the run, from 0 to 2**64 - 1.
    purpose : str
        What the numbers are for, for example "corruption".
    epoch : int
        Epoch, from 0 to 2**64 - 1.

    Returns
    -------
    numpy.uint64
        Key.

    Raises
    ------
    ValueError
        If `seed` or `epoch` is out of range.
    TypeError
        If one is not an integer.
    """
    for name, value in (("seed", seed), ("epoch", epoch)):
        if not 0 <= index(value) <= _MASK64:
            raise ValueError(
                f"{name} is {value}, expected an integer from 0 to 2**64 - 1."
            )
    key = np.array([seed], dtype=np.uint64)
    for part in (_fnv1a(purpose.encode()), epoch):
        key = _mix(key + _GOLDEN_ARRAY) ^ np.uint64(part)
    return np.uint64(_mix(key + _GOLDEN_ARRAY)[0])


def row_hashes(X: npt.ArrayLike | SparseMatrix) -> UInt64:
    """Return a hash of the content of each row.

    It depends only on the entries that are not zero, as columns and float64 values.
    Dense and sparse input, float32 and float64 of equal values, explicit zeros and
    -0.0, and added columns of zeros all give the same hashes.

    Parameters
    ----------
    X : array_like or sparse matrix of shape (n_samples, n_features)
        Rows; real numbers without NaN.

    Returns
    -------
    ndarray of shape (n_samples,), dtype uint64
        Hashes; 0 for a row of zeros.

    Raises
    ------
    ValueError
        If `X` does not have two dimensions.
    """
    if isinstance(X, SparseMatrix):
        return _csr_row_hashes(X.tocsr())
    dense = np.asarray(X)
    if dense.ndim != 2:
        raise ValueError(
            f"X has shape {dense.shape}, expected (n_samples, n_features). Give one "
            "row per sample."
        )
    columns = np.arange(dense.shape[1])
    hashes = np.empty(dense.shape[0], dtype=np.uint64)
    for rows in _blocks(dense.shape[0], dense.shape[1]):
        values = dense[rows]
        entries = _entry_hashes(columns, values)
        entries[values == 0] = 0
        hashes[rows] = entries.sum(axis=1, dtype=np.uint64)
    return hashes


def uniforms(key: int | np.uint64, row_hashes: npt.ArrayLike, n_columns: int) -> Array:
    """Return the uniform random numbers that belong to rows.

    Parameters
    ----------
    key : int or numpy.uint64
        What `stream_key` returned.
    row_hashes : array_like of shape (n_samples,), dtype uint64
        What `row_hashes` returned.
    n_columns : int
        Number of columns. More columns leave the first ones as they are.

    Returns
    -------
    ndarray of shape (n_samples, n_columns), dtype float32
        Multiples of 2**-24 in [0, 1). Rows of equal content have equal numbers.
    """
    hashes = np.asarray(row_hashes, dtype=np.uint64)
    key_words = np.array([int(key) & _MASK32, int(key) >> 32], dtype=np.uint32)
    n_quads = -(-n_columns // 4)
    numbers = np.empty((len(hashes), n_columns), dtype=np.float32)
    for rows in _blocks(len(hashes), n_columns):
        block = hashes[rows, None]
        counter = np.zeros((len(block), n_quads, 4), dtype=np.uint32)
        counter[..., 0] = block & np.uint64(_MASK32)
        counter[..., 1] = block >> np.uint64(32)
        counter[..., 2] = np.arange(n_quads)
        words = philox(counter, key_words).reshape(len(block), 4 * n_quads)
        np.multiply(words[:, :n_columns] >> 8, 2.0**-24, out=numbers[rows])
    return numbers


def philox(counter: npt.ArrayLike, key: npt.ArrayLike) -> npt.NDArray[np.uint32]:
    """Return the Philox4x32-10 blocks of counters under a key.

    Parameters
    ----------
    counter : array_like of shape (..., 4), dtype uint32
        Counters, lowest word first.
    key : array_like of shape (2,), dtype uint32
        Key, lowest word first.

    Returns
    -------
    ndarray of shape (..., 4), dtype uint32
        Four random words for each counter.

    References
    ----------
    Salmon, Moraes, Dror & Shaw 2011, section 3.3 and Table 2.
    """
    words = np.asarray(counter, dtype=np.uint32).astype(np.uint64)
    c0, c1, c2, c3 = np.moveaxis(np.atleast_2d(words), -1, 0)
    k0, k1 = (int(word) for word in np.asarray(key, dtype=np.uint32))
    low, high = np.uint64(_MASK32), np.uint64(32)
    for _ in range(10):
        product0 = c0 * np.uint64(0xD2511F53)
        product1 = c2 * np.uint64(0xCD9E8D57)
        c0 = (product1 >> high) ^ c1 ^ np.uint64(k0)
        c2 = (product0 >> high) ^ c3 ^ np.uint64(k1)
        c1 = product1 & low
        c3 = product0 & low
        k0 = (k0 + 0x9E3779B9) & _MASK32
        k1 = (k1 + 0xBB67AE85) & _MASK32
    block = np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)
    return block.reshape(words.shape)


def _fnv1a(text: bytes) -> int:
    h = 0xCBF29CE484222325
    for byte in text:
        h = ((h ^ byte) * 0x100000001B3) & _MASK64
    return h


# NumPy warns when scalars wrap but not when arrays do.
_GOLDEN_ARRAY: Final = np.array([_GOLDEN], dtype=np.uint64)


def _mix(z: UInt64) -> UInt64:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _entry_hashes(columns: Array, values: Array) -> UInt64:
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    return _mix(
        (_mix(columns.astype(np.uint64) + _GOLDEN_ARRAY) ^ bits) + _GOLDEN_ARRAY
    )


def _csr_row_hashes(X: Any) -> UInt64:
    if not X.has_canonical_format:  # entries of one place must be added up first
        X = X.copy()
        X.sum_duplicates()
    entries = _entry_hashes(X.indices, X.data)
    entries[X.data == 0] = 0
    # Differences of running sums also hold for empty rows, and wrap as sums do.
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(entries, dtype=np.uint64)])
    hashes: UInt64 = sums[X.indptr[1:]] - sums[X.indptr[:-1]]
    return hashes


def _blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    size = max(1, _BLOCK_ENTRIES // max(1, n_columns))
    return (slice(start, start + size) for start in range(0, n_rows, size))
