"""The compiled core (core/module.cpp), as far as Python calls it."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Words = list[int]

class Inputs32:
    @staticmethod
    def dense(X: Array) -> Inputs32: ...
    @staticmethod
    def csr(indptr: Array, indices: Array, data: Array, n_columns: int) -> Inputs32: ...

class Inputs64:
    @staticmethod
    def dense(X: Array) -> Inputs64: ...
    @staticmethod
    def csr(indptr: Array, indices: Array, data: Array, n_columns: int) -> Inputs64: ...

class Network32:
    def __init__(
        self, shapes: list[tuple[int, int, int, float, bool]], level: str
    ) -> None: ...
    def W(self, layer: int) -> Array: ...  # noqa: N802
    def array(self, layer: int, name: str, moment: int = 0) -> Array: ...
    def times(self, layer: int, /) -> Array: ...
    def n_steps(self) -> Array: ...
    def set_options(
        self,
        dropout: list[float],
        batch_norm: bool,
        epsilon: float,
        momentum: float,
        l1_weights: float,
        max_norm: float,
        clip_norm: float,
        fit_biases: bool,
        /,
    ) -> None: ...
    def set_keys(self, keys: list[int], /) -> None: ...
    def set_rule(
        self,
        kind: int,
        learning_rate: float,
        momentum: float,
        l2: float,
        beta1: float,
        beta2: float,
        epsilon: float,
        l1_activation: float,
        /,
    ) -> None: ...
    def set_plan(
        self,
        mode: int,
        skip_zeros: bool,
        timed: bool,
        n_threads: int,
        costs: list[float],
        /,
    ) -> None: ...
    def bind(
        self, X: Any, y: Array | None, weight: Array | None, row_hash: Array | None
    ) -> None: ...
    def step(self, rows: Array) -> float: ...
    def forward_batch(self, rows: Array) -> Array: ...
    def backward_batch(self, delta: Array) -> None: ...
    def forward(self, X: Any, start: int, stop: int, /) -> Array: ...
    def flush(self) -> None: ...
    def forget(self) -> None: ...
    def statistics(self, layer: int, /) -> tuple[int, int, bytes]: ...
    def choice(
        self, layer: int, backward: bool, /
    ) -> tuple[int, int, int, int, float, float, float]: ...

class Network64(Network32): ...

def usable_levels() -> list[str]: ...
def active_level() -> str: ...
def activate(
    code: int, parameter: float, x: Array, level: str
) -> tuple[Array, Array]: ...
def forward_chosen(
    D: Array,
    c: Array,
    h: Array,
    columns: Array,
    rows: Array,
    n_threads: int,
    level: str,
) -> Array: ...
def backward_chosen(
    D: Array,
    c: Array,
    h: Array,
    columns: Array,
    rows: Array,
    delta: Array,
    rate: float,
    n_threads: int,
    level: str,
) -> Array: ...
def stream_key(seed: int, purpose: str, epoch: int, /) -> int: ...
def entry_hash(column: int, value: float, /) -> int: ...
def uniforms(
    key: int, row_hashes: Array, n_columns: int, level: str
) -> npt.NDArray[np.float32]: ...
def uniforms_at(
    key: int, row_hashes: Array, indptr: Array, indices: Array, level: str
) -> npt.NDArray[np.float32]: ...
def philox(counter: Words, key: Words, /) -> Words: ...
