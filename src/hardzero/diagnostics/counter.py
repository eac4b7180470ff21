"""Counts of the units at one site while a network is trained.

The work of each update is a sign, a product of a matrix and a vector, and a sum; what
is made of the counts waits for the end of a block of updates. All counters stay on the
device of the model, and nothing is read back before somebody asks.
"""

from typing import Any, Final

import torch
from torch import Tensor

from hardzero.diagnostics.sites import Site

__all__ = ["UnitCounter"]

_NEVER: Final = -1
_EXACT: Final = 2**24  # whole numbers up to here are exact in float32


class UnitCounter:
    """What is known of the units at one site.

    Parameters
    ----------
    site : Site
        The place.
    n_units : int
        Number of units.
    unit_axis : int
        Axis of outputs that counts them.
    n_axes : int
        Number of axes of outputs.
    device : device
        Where outputs are.
    maker : str
        Name of the module that makes what goes in.
    """

    def __init__(
        self,
        site: Site,
        n_units: int,
        unit_axis: int,
        n_axes: int,
        device: torch.device,
        maker: str,
    ) -> None:
        self.site, self.n_units, self.maker = site, n_units, maker
        self.unit_axis = unit_axis
        self._is_last = unit_axis == n_axes - 1
        self._others = [axis for axis in range(n_axes) if axis != unit_axis]
        self._block: Tensor = torch.zeros(n_units, device=device)
        self._carry: Tensor = torch.zeros(n_units, dtype=torch.float64, device=device)
        self._n_block = 0
        self._shape: Any = None  # of the last outputs, and what follows from it
        self._n, self._is_quick = 0, False
        self._ones: Tensor = torch.ones(0)
        self.n_values = 0  # of each unit
        self.active: Tensor = torch.zeros(n_units, dtype=torch.float64, device=device)
        never = torch.full((n_units,), _NEVER, dtype=torch.int64, device=device)
        self.first: Tensor = never  # update in which it was first seen firing
        self.last: Tensor = never.clone()  # and last
        self.longest: Tensor = torch.zeros_like(never)  # silence that ended

    def count(self, outputs: Tensor) -> None:
        """Count one output of the site.

        Parameters
        ----------
        outputs : Tensor
            Of a rectifier: 0 or above; a leaky one counts as active above 0.
        """
        h = outputs.detach()
        shape = h.shape
        if shape[self.unit_axis] != self.n_units:
            return
        if shape != self._shape or h.dtype != self._ones.dtype:
            self._shape, self._n = shape, h.numel() // self.n_units
            self._ones = torch.ones(self._n, dtype=h.dtype, device=h.device)
            is_float = h.dtype in (torch.float32, torch.float64)
            self._is_quick = self._is_last and is_float and self._n <= _EXACT
        if self.site.kind != "rectifier":
            h = h.clamp(min=0)
        if self._is_quick and h.dtype == self._block.dtype:
            if self._n_block + self._n > _EXACT:
                self._carry += self._block
                self._block.zero_()
            signs = h.reshape(self._n, self.n_units).sign()
            self._block.addmv_(signs.t(), self._ones)
        else:
            self._carry += (h != 0).sum(self._others)
        self._n_block += self._n

    def close_block(self, before: int, update: int) -> Tensor | None:
        """Add up a block of updates.

        Parameters
        ----------
        before : int
            Number of the last update of the block before.
        update : int
            Number of the update that it ends with.

        Returns
        -------
        Tensor or None
            Share of exact zeros in the block; None if there was no output.
        """
        if not self._n_block:
            return None
        counts = self._carry + self._block
        fires = counts > 0
        silence = before - self.last  # at least
        self.longest = torch.where(
            fires & (self.last != _NEVER), self.longest.maximum(silence), self.longest
        )
        self.first = torch.where(fires & (self.first == _NEVER), update, self.first)
        self.last = torch.where(fires, update, self.last)
        self.active += counts
        self.n_values += self._n_block
        zeros: Tensor = 1 - counts.sum() / (self._n_block * self.n_units)
        self._block.zero_()
        self._carry.zero_()
        self._n_block = 0
        return zeros

    def facts(self) -> dict[str, Any]:
        """Return the counters as arrays.

        Returns
        -------
        dict
            For each unit `first` and `last` (updates in which it was seen firing, -1
            for never), `longest` (the longest silence that ended, in updates), and
            `rate` (share of its outputs that were not 0).
        """
        return {
            "first": self.first.cpu().numpy(),
            "last": self.last.cpu().numpy(),
            "longest": self.longest.cpu().numpy(),
            "rate": (self.active / max(self.n_values, 1)).cpu().numpy(),
        }
