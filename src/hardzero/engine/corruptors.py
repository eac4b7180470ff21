"""How the noise of `hardzero.engine.corruption` is drawn.

The noise is a function of a key and of the hash and the content of a row, so neither
the order of rows nor their batch matters, and a row with weight 2 fares like two equal
rows, which always have the same noise. All rows of zeros are equal: their hash is 0,
and all of them get the same. Dense and CSR rows get the same to the last bit.

The number u of an entry is the one that `hardzero.random.uniforms` has for its row and
column under the key. Values to swap in are drawn from a stream of their own, "value".

Zeros that turn on are found without a look at the others. Let p_j be the probability
that a 0 in column j turns on: `on`, or for ``swap`` the rate times the share of
non-zeros in that column. The columns get lengths -log(1 - p_j) and are laid end to
end, points fall on them as a Poisson process of rate 1, and a column turns on if it is
hit. That has probability 1 - exp(-length) = p_j, independently of other columns. The
gaps between the points are -log(1 - u) for the numbers u of a third stream, "on", that
belong to the row in the columns 0, 1, ... So the work is proportional to the number of
entries that turn on, however wide the row is. (A p_j of 1 is taken as 1 - 2**-24.)

References
----------
Box & Muller 1958, "A note on the generation of random normal deviates". Devroye 1986,
"Non-uniform random variate generation", section VI.1 (Poisson processes by exponential
gaps).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hardzero.errors import ParameterError
from hardzero.kernels.draws import uniforms, uniforms_at
from hardzero.kernels.network import Matrix
from hardzero.random import stream_key

__all__ = [
    "Corruptor",
    "Masker",
    "OffAndOn",
    "Shaker",
    "Swapper",
    "Unchanged",
    "mean_non_zero",
    "needs_dense",
]

Array = npt.NDArray[Any]
UInt64 = npt.NDArray[np.uint64]

_BLOCK_ENTRIES: Final = 1 << 21  # entries or points that are looked at at a time
_MAX_ENTRIES: Final = 2**31 - 1  # that a batch turns on: indices of CSR rows end there
_ENTRY_BYTES: Final = 60  # taken at the most by each of them, for a while


class Corruptor(ABC):
    """Noise that knows the training set."""

    def __call__(self, X: Matrix, hashes: UInt64, key: np.uint64) -> Matrix:
        """Return rows with noise.

        Parameters
        ----------
        X : C-contiguous ndarray or canonical CSR matrix of shape (n_rows, n_columns)
            Rows, float32 or float64. They are not changed. It is up to the caller that
            the entries of a CSR matrix are sorted and unique; stored zeros count as
            zeros.
        hashes : ndarray of uint64 of shape (n_rows,)
            What `hardzero.random.row_hashes` returned for these rows, or for those
            that they were made from.
        key : numpy.uint64
            What `hardzero.random.stream_key` returned for the epoch.

        Returns
        -------
        C-contiguous ndarray or canonical CSR matrix of shape (n_rows, n_columns)
            Of the type and dtype of `X`, and without stored zeros. `X` itself if there
            is no noise at all.

        Raises
        ------
        ParameterError
            If there is no such noise for `X`.
        """
        if not sp.issparse(X):
            return self._dense(X, hashes, key)
        if not X.data.all():
            X = X.copy()
            X.eliminate_zeros()
        return self._sparse(X, hashes, key)

    @abstractmethod
    def _dense(self, X: Array, hashes: UInt64, key: np.uint64) -> Array: ...

    @abstractmethod
    def _sparse(self, X: Matrix, hashes: UInt64, key: np.uint64) -> Matrix: ...


class Unchanged(Corruptor):
    """No noise."""

    def _dense(self, X: Array, _hashes: UInt64, _key: np.uint64) -> Array:
        return X

    def _sparse(self, X: Matrix, _hashes: UInt64, _key: np.uint64) -> Matrix:
        return X


class Masker(Corruptor):
    """Zeros in place of entries.

    Parameters
    ----------
    rate : float
        Probability.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate

    def _dense(self, X: Array, hashes: UInt64, key: np.uint64) -> Array:
        kept = uniforms(key, hashes, X.shape[1]) >= self._rate
        bits = X.view(f"u{X.itemsize}") * kept  # half the time of a choice by np.where
        return bits.view(X.dtype)

    def _sparse(self, X: Matrix, hashes: UInt64, key: np.uint64) -> Matrix:
        kept = uniforms_at(key, hashes, X.indptr, X.indices) >= self._rate
        starts = _starts(kept)[X.indptr]
        return _csr(X, X.data[kept], X.indices[kept], starts)


class Shaker(Corruptor):
    """Normal noise on every entry.

    Parameters
    ----------
    deviation : float
        Standard deviation.
    """

    def __init__(self, deviation: float) -> None:
        self._deviation = deviation

    def _dense(self, X: Array, hashes: UInt64, key: np.uint64) -> Array:
        n_columns = X.shape[1]
        u = uniforms(key, hashes, n_columns + n_columns % 2)
        radius = np.sqrt(-2 * np.log(1 - u[:, ::2]))
        angle = np.float32(2 * math.pi) * u[:, 1::2]
        noise = np.empty_like(u)
        np.multiply(radius, np.cos(angle), out=noise[:, ::2])
        np.multiply(radius, np.sin(angle), out=noise[:, 1::2])
        noise *= self._deviation
        return X + noise[:, :n_columns]

    def _sparse(self, _X: Matrix, _hashes: UInt64, _key: np.uint64) -> Matrix:
        raise needs_dense(self._deviation)


class _ZeroAware(Corruptor):
    """Noise that changes non-zeros, and turns zeros on without a look at the others.

    Entries are known by their places in the dense matrix, counted row by row.
    """

    def _dense(self, X: Array, hashes: UInt64, key: np.uint64) -> Array:
        flat = X.ravel()
        places = np.flatnonzero(flat)
        starts, columns = _rows_and_columns(places, X.shape)
        result = np.zeros_like(flat)
        result[places] = self._changed(flat[places], starts, columns, hashes, key)
        places, values = self._turned_on(X.shape[1], hashes, key)
        was_zero = flat[places] == 0
        result[places[was_zero]] = values[was_zero]
        return result.reshape(X.shape)

    def _sparse(self, X: Matrix, hashes: UInt64, key: np.uint64) -> Matrix:
        n_columns = X.shape[1]
        most = len(hashes) * min(self._end(n_columns), n_columns)
        if most > _MAX_ENTRIES:
            raise _too_many(most, X.shape)
        old = _places(X.indptr, X.indices, n_columns)
        changed = self._changed(X.data, X.indptr, X.indices, hashes, key)
        new, values = self._turned_on(n_columns, hashes, key)
        was_zero = np.append(old, -1)[old.searchsorted(new)] != new
        data = np.concatenate([changed, values[was_zero].astype(X.dtype)])
        places = np.concatenate([old, new[was_zero]])
        order = places.argsort(kind="stable")  # which merges two sorted runs
        order = order[data[order] != 0]
        starts, columns = _rows_and_columns(places[order], X.shape)
        return _csr(X, data[order], columns, starts)

    @abstractmethod
    def _end(self, n_columns: int) -> float:
        """Return where the columns end, laid end to end."""

    @abstractmethod
    def _changed(
        self, data: Array, starts: Array, columns: Array, hashes: UInt64, key: np.uint64
    ) -> Array:
        """Return what becomes of non-zeros."""

    @abstractmethod
    def _turned_on(
        self, n_columns: int, hashes: UInt64, key: np.uint64
    ) -> tuple[Array, Array]:
        """Return ascending places, and what they become if they hold zeros."""


class OffAndOn(_ZeroAware):
    """Non-zeros that turn off, zeros that turn on.

    Parameters
    ----------
    off : float
        Probability that a non-zero becomes 0.
    on : float
        Probability that a 0 becomes the value.
    value : float
        The value.
    """

    def __init__(self, off: float, on: float, value: float) -> None:
        self._off = off
        self._length = float(_length(on))
        self._value = value

    def _end(self, n_columns: int) -> float:
        return self._length * n_columns

    def _changed(
        self, data: Array, starts: Array, columns: Array, hashes: UInt64, key: np.uint64
    ) -> Array:
        is_off = uniforms_at(key, hashes, starts, columns) < self._off
        return np.where(is_off, data.dtype.type(0), data)

    def _turned_on(
        self, n_columns: int, hashes: UInt64, key: np.uint64
    ) -> tuple[Array, Array]:
        if self._length == 0:
            return np.empty(0, dtype=np.int64), np.empty(0)
        length = self._length
        starts, columns = _hit(
            lambda points: (points / length).astype(np.int64),
            _stream(key, "on"),
            hashes,
            self._end(n_columns),
            n_columns,
        )
        places = _places(starts, columns, n_columns)
        return places, np.full(len(places), self._value)


class Swapper(_ZeroAware):
    """Entries that become those of other rows in their column.

    Parameters
    ----------
    rate : float
        Probability.
    X : C-contiguous ndarray or canonical CSR matrix of shape (n_samples, n_columns)
        Training rows.
    sample_weight : ndarray of shape (n_samples,) or None
        Their weights.
    """

    def __init__(self, rate: float, X: Matrix, sample_weight: Array | None) -> None:
        self._rate = rate
        self._values = _ColumnValues(X, sample_weight)
        self._ends = np.cumsum(_length(rate * self._values.shares))

    def _end(self, _n_columns: int) -> float:
        return float(self._ends[-1])

    def _changed(
        self, data: Array, starts: Array, columns: Array, hashes: UInt64, key: np.uint64
    ) -> Array:
        is_swapped = uniforms_at(key, hashes, starts, columns) < self._rate
        starts, columns = _starts(is_swapped)[starts], columns[is_swapped]
        drawn = uniforms_at(_stream(key, "value"), hashes, starts, columns)
        changed = data.copy()
        changed[is_swapped] = self._values.any(columns, drawn)
        return changed

    def _turned_on(
        self, n_columns: int, hashes: UInt64, key: np.uint64
    ) -> tuple[Array, Array]:
        ends = self._ends
        starts, columns = _hit(
            lambda points: ends.searchsorted(points, "right"),
            _stream(key, "on"),
            hashes,
            self._end(n_columns),
            n_columns,
        )
        drawn = uniforms_at(_stream(key, "value"), hashes, starts, columns)
        places = _places(starts, columns, n_columns)
        return places, self._values.non_zero(columns, drawn)


class _ColumnValues:
    """Distribution of the entries of each column of the training set.

    Attributes
    ----------
    shares : ndarray of float64 of shape (n_columns,)
        Weighted share of non-zeros in each column.
    """

    def __init__(self, X: Matrix, sample_weight: Array | None) -> None:
        weights = _weights(X, sample_weight)
        blocks = [_sorted_values(*block) for block in _column_blocks(X, weights)]
        columns, values, counts = (
            np.concatenate(parts) for parts in zip(*blocks, strict=True)
        )
        self._starts = columns.searchsorted(np.arange(X.shape[1] + 1))
        sums = np.concatenate([[0.0], counts.cumsum()])
        first, last = sums[self._starts[:-1]], sums[self._starts[1:]]
        self.shares = np.minimum((last - first) / weights.sum(), 1.0)
        # In column j this climbs from above j to j + 1, by the weights of its values.
        parts = (sums[1:] - first[columns]) / (last - first)[columns]
        self._steps = columns + np.minimum(parts, 1.0)
        self._values = np.append(values, 0)

    def any(self, columns: Array, drawn: Array) -> Array:
        """Return entries for uniform numbers."""
        shares = self.shares[columns]
        among = drawn / np.maximum(shares, np.finfo(np.float64).tiny)
        return np.where(among < 1, self.non_zero(columns, among), 0)

    def non_zero(self, columns: Array, drawn: Array) -> Array:
        """Return entries other than 0 for uniform numbers."""
        index = self._steps.searchsorted(columns + drawn.astype(np.float64), "right")
        last = self._starts[columns + 1] - 1
        return np.asarray(self._values[np.minimum(index, last)])


def mean_non_zero(X: Matrix, sample_weight: Array | None) -> tuple[float, float]:
    """Return how many entries are not 0, and what they are on average.

    Parameters
    ----------
    X : C-contiguous ndarray or canonical CSR matrix of shape (n_samples, n_columns)
        Training rows.
    sample_weight : ndarray of shape (n_samples,) or None
        Their weights.

    Returns
    -------
    share : float
        Weighted share of non-zeros, from 0 to 1.
    mean : float
        Their weighted mean; 1 if there are none.
    """
    weights = _weights(X, sample_weight)
    count = total = 0.0
    for values, their_weights in _row_blocks(X, weights):
        count += their_weights.sum()
        total += (their_weights * values).sum()
    share = count / (weights.sum() * X.shape[1])
    return float(min(share, 1.0)), float(total / count) if count > 0 else 1.0


def needs_dense(deviation: float) -> ParameterError:
    """Return the error of normal noise on sparse rows.

    Parameters
    ----------
    deviation : float
        Standard deviation.

    Returns
    -------
    ParameterError
        The error.
    """
    return ParameterError(
        f"X is a sparse matrix, but the corruption 'gaussian({deviation:g})' changes "
        "every entry, so that nothing would stay sparse. Give X.toarray(), or take a "
        "corruption that keeps rows sparse, such as 'masking(0.25)'."
    )


def _too_many(most: float, shape: tuple[int, int]) -> ParameterError:
    size = most * _ENTRY_BYTES / 2**30
    return ParameterError(
        f"the corruption turns on up to {most:,.0f} zeros of a batch of {shape[0]:,} "
        f"sparse rows with {shape[1]:,} columns, which takes about {size:,.0f} GiB, "
        f"expected at most {_MAX_ENTRIES:,}. Turn on fewer, for example with "
        "'salt_and_pepper(0.8, density)', or give a smaller batch_size."
    )


# ------------------------------------------------------------------ points


def _length(probability: Array | float) -> Array:
    """Return the length of a column that is hit with this probability."""
    return np.asarray(-np.log1p(-np.minimum(probability, 1 - 2.0**-24)))


def _hit(
    find: Callable[[Array], Array],
    key: np.uint64,
    hashes: UInt64,
    end: float,
    n_columns: int,
) -> tuple[Array, Array]:
    """Return the columns of each row that points fall on, as CSR matrices have them.

    At 16 points a column, where nearly all zeros turn on, those of a batch would take
    gigabytes. So a few rows are drawn at a time.
    """
    n = max(1, _BLOCK_ENTRIES // _enough(end))
    parts = [
        _distinct(find(_points(key, hashes[start : start + n], end)), n_columns)
        for start in range(0, max(len(hashes), 1), n)
    ]
    counts = np.concatenate([np.diff(starts) for starts, _ in parts])
    return _starts(counts), np.concatenate([columns for _, columns in parts])


def _enough(end: float) -> int:
    """Return how many points reach the end with next to certainty."""
    return int(end + 5 * math.sqrt(end)) + 8


def _points(key: np.uint64, hashes: UInt64, end: float) -> Array:
    """Return the points of each row, at least as far as the end."""
    n_points = _enough(end)
    while True:
        u = uniforms(key, hashes, n_points).astype(np.float64)
        points = np.cumsum(-np.log1p(-u), axis=1)
        if points[:, -1].min(initial=math.inf) >= end:
            return np.asarray(points)
        n_points *= 2


def _distinct(columns: Array, n_columns: int) -> tuple[Array, Array]:
    """Return ascending columns of each row without repetition, as CSR matrices do."""
    is_new = columns < n_columns
    is_new[:, 1:] &= columns[:, 1:] != columns[:, :-1]
    return _starts(is_new.sum(axis=1)), columns[is_new]


@lru_cache(maxsize=16)
def _stream(key: np.uint64, purpose: str) -> np.uint64:
    return stream_key(int(key), purpose, 0)


# ------------------------------------------------------------------ places


def _starts(counts: Array) -> Array:
    """Return where parts of these sizes start, and where the last one ends."""
    return np.concatenate([[0], counts.cumsum()])


def _places(starts: Array, columns: Array, n_columns: int) -> Array:
    """Return the places of CSR entries in the dense matrix."""
    first = np.arange(len(starts) - 1) * n_columns
    return np.repeat(first, np.diff(starts)) + columns


def _rows_and_columns(places: Array, shape: tuple[int, int]) -> tuple[Array, Array]:
    """Return starts of rows and columns of ascending places in the dense matrix."""
    first = np.arange(shape[0] + 1) * shape[1]
    starts = places.searchsorted(first)
    return starts, places - np.repeat(first[:-1], np.diff(starts))


def _csr(X: Matrix, data: Array, columns: Array, starts: Array) -> Matrix:
    """Return a CSR matrix like another one."""
    dtype = X.indices.dtype
    arrays = data, columns.astype(dtype, copy=False), starts.astype(dtype, copy=False)
    result = type(X)(arrays, shape=X.shape)
    result.has_canonical_format = True  # spares a look at all entries
    return result


# ------------------------------------------------------------ training set


def _weights(X: Matrix, sample_weight: Array | None) -> Array:
    if sample_weight is None:
        return np.ones(X.shape[0])
    return sample_weight.astype(np.float64)


def _row_blocks(X: Matrix, weights: Array) -> Iterator[tuple[Array, Array]]:
    """Yield non-zeros with their weights, in the same pieces for dense and CSR rows."""
    n = max(1, _BLOCK_ENTRIES // X.shape[1])
    for start in range(0, X.shape[0], n):
        rows, _, values = _non_zeros(X[start : start + n])
        yield values, weights[start + rows]


def _column_blocks(X: Matrix, weights: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Yield columns, values and weights of the non-zeros of some columns at a time."""
    if sp.issparse(X):
        X = X.tocsc()
    n = max(1, _BLOCK_ENTRIES // X.shape[0])
    for start in range(0, X.shape[1], n):
        rows, columns, values = _non_zeros(X[:, start : start + n])
        yield start + columns, values, weights[rows]


def _non_zeros(X: Matrix) -> tuple[Array, Array, Array]:
    entries = sp.coo_array(X)
    entries.eliminate_zeros()  # stored ones
    return entries.row, entries.col, entries.data


def _sorted_values(
    columns: Array, values: Array, weights: Array
) -> tuple[Array, Array, Array]:
    """Return the different values of each column, ascending, with their weights."""
    order = np.lexsort((values, columns))
    order = order[weights[order] > 0]
    columns, values = columns[order], values[order]
    is_new = np.ones(len(order), dtype=np.bool_)
    is_new[1:] = (columns[1:] != columns[:-1]) | (values[1:] != values[:-1])
    sums = np.bincount(is_new.cumsum() - 1, weights=weights[order])
    return columns[is_new], values[is_new], sums
