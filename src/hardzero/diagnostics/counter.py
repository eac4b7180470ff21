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

_NEVER: Final = 2**62  # an update that no training comes to
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
        self._carry: Tensor | None = None  # what was counted before in this block
        self._n_block = 0  # values of each unit in this block
        self._n_float = 0  # and since the carry
        self._shape: Any = None  # of the last outputs, and what follows from it
        self._dtype: Any = None
        self._n, self._is_known, self._is_quick, self._is_plain = 0, False, False, False
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
        if h.shape != self._shape or h.dtype != self._dtype:
            self._prepare(h)
        if self._n_float + self._n > _EXACT:
            self._add_to_carry(self._block)
            self._block.zero_()
            self._n_float = 0
        if self._is_plain:  # each call less counts in small batches
            self._block.addmv_(h.sign().t(), self._ones)
        elif self._is_known:
            h = h.clamp(min=0)
            if self._is_quick:
                signs = h.reshape(self._n, self.n_units).sign()
                self._block.addmv_(signs.t(), self._ones)
            else:
                self._add_to_carry((h != 0).sum(self._others))
        self._n_block += self._n
        self._n_float += self._n

    def fits(self, outputs: Tensor) -> bool:
        """Return whether outputs have the axes and units of the first ones.

        Parameters
        ----------
        outputs : Tensor
            Of the site.

        Returns
        -------
        bool
            If not, they are not counted.
        """
        has_axes = outputs.ndim == len(self._others) + 1
        return bool(has_axes and outputs.shape[self.unit_axis] == self.n_units)

    def _prepare(self, h: Tensor) -> None:
        """Choose the quickest way for outputs of this shape."""
        self._shape, self._dtype = h.shape, h.dtype
        self._is_known = self.fits(h)
        self._n = h.numel() // self.n_units if self._is_known else 0
        self._ones = torch.ones(self._n, dtype=h.dtype, device=h.device)
        self._is_quick = (
            self._is_known
            and self._is_last
            and h.dtype == self._block.dtype
            and self._n <= _EXACT
        )
        is_rectifier = self.site.kind == "rectifier"
        self._is_plain = self._is_quick and h.ndim == 2 and is_rectifier

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
        counts = self._block if self._carry is None else self._carry + self._block
        fires = counts > 0
        silence = (before - self.last) * fires  # at least; below 0 at the first firing
        self.longest = torch.maximum(self.longest, silence)
        self.last = torch.where(fires, update, self.last)
        self.first = torch.minimum(self.first, self.last)
        self.active += counts
        self.n_values += self._n_block
        zeros: Tensor = 1 - counts.sum() / (self._n_block * self.n_units)
        self._block.zero_()
        self._carry, self._n_block, self._n_float = None, 0, 0
        return zeros

    def _add_to_carry(self, counts: Tensor) -> None:
        counts = counts.double()
        self._carry = counts if self._carry is None else self._carry + counts

    def facts(self) -> dict[str, Any]:
        """Return the counters as arrays.

        Returns
        -------
        dict
            For each unit `first` and `last` (updates in which it was seen firing, -1
            for never), `longest` (the longest silence that ended, in updates), and
            `rate` (share of its outputs that were not 0).
        """
        seen = self.first != _NEVER
        return {
            "first": torch.where(seen, self.first, -1).cpu().numpy(),
            "last": torch.where(seen, self.last, -1).cpu().numpy(),
            "longest": self.longest.cpu().numpy(),
            "rate": (self.active / max(self.n_values, 1)).cpu().numpy(),
        }
