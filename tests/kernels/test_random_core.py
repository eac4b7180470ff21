"""The compiled core draws the random numbers of `hardzero.random`, bit for bit."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hardzero import random
from hardzero.kernels import _core

WORD = st.integers(0, 2**32 - 1)
LONG = st.integers(0, 2**64 - 1)


@given(counter=st.lists(WORD, min_size=4, max_size=4), key=st.tuples(WORD, WORD))
def test_philox(counter, key):
    """One block of Philox4x32-10"""
    assert _core.philox(counter, list(key)) == random.philox(counter, key).tolist()


@given(seed=LONG, purpose=st.text(), epoch=LONG)
def test_stream_keys(seed, purpose, epoch):
    """The key of a stream, for any seed, purpose and epoch"""
    key = random.stream_key(seed, purpose, epoch)
    assert _core.stream_key(seed, purpose, epoch) == key


@given(column=st.integers(0, 2**31 - 1), value=st.floats(allow_nan=False))
def test_row_hashes(column, value):
    """The hash of a row that has one entry"""
    row = random._entry_hashes(np.array([column]), np.array([value]))
    assert _core.entry_hash(column, value) == row[0]
