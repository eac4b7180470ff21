"""Means and variances, batch by batch."""

from typing import Any

import torch
from torch import Tensor

__all__ = ["Moments"]


class Moments:
    """Mean, variance and range of each column, in float64.

    Batches are joined as Chan, Golub and LeVeque (1979) do, so that nothing cancels.

    Parameters
    ----------
    n_columns : int
        Number of columns.
    """

    def __init__(self, n_columns: int) -> None:
        self._n = 0
        self.mean: Any = torch.zeros(n_columns, dtype=torch.float64)
        self._squares: Any = torch.zeros(n_columns, dtype=torch.float64)
        self.is_constant: Any = torch.ones(n_columns, dtype=torch.bool)
        self._first: Any = None

    def add(self, rows: Tensor) -> None:
        """Count some rows.

        Parameters
        ----------
        rows : Tensor of shape (n_rows, n_columns)
            The rows.
        """
        rows = rows.detach().double().cpu()
        if len(rows) == 0:
            return
        if self._first is None:
            self._first = rows[0]
        self.is_constant &= (rows == self._first).all(0)
        n, mean = len(rows), rows.mean(0)
        total = self._n + n
        gap = mean - self.mean
        self.mean = self.mean + gap * (n / total)
        self._squares = (
            self._squares
            + (rows - mean).square().sum(0)
            + gap.square() * (self._n * n / total)
        )
        self._n = total

    @property
    def variance(self) -> Any:
        """Mean squared deviation from the mean; 0 where all values are equal."""
        variance = self._squares / max(self._n, 1)
        return torch.where(self.is_constant, torch.zeros_like(variance), variance)
