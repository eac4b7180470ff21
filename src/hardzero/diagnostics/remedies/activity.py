"""How strongly each unit of a chain fires on data."""

from typing import Any

from torch import Tensor

from hardzero.diagnostics.remedies.chain import RECTIFIERS, Link, Pair, pairs
from hardzero.errors import ParameterError

__all__ = ["mean_activity", "rectifiers", "units_of"]


def mean_activity(chain: list[Link], inputs: list[Any]) -> dict[int, Tensor]:
    """Run a chain layer by layer, and average what its units put out.

    Parameters
    ----------
    chain : list of Link
        The layers, in evaluation mode.
    inputs : list of Tensor
        Batches.

    Returns
    -------
    dict
        For the place of each rectifier between two linear maps the mean of its output
        for each unit, in float64. It is 0 if and only if the unit never fired.

    Raises
    ------
    ParameterError
        If it cannot be told which values belong to a unit.
    """
    places = rectifiers(chain)
    sums: dict[int, Tensor] = {}
    n_values = dict.fromkeys(places, 0)
    for batch in inputs:
        x = batch.clone()  # the first layer may work in place
        for place, link in enumerate(chain):
            x = link.module(x)
            if place in places:
                h = units_of(places[place], x).double()
                sums[place] = sums.get(place, 0) + h.sum((0, 2))
                n_values[place] += len(h) * h.shape[2]
    return {place: total / n_values[place] for place, total in sums.items()}


def rectifiers(chain: list[Link]) -> dict[int, Pair]:
    """Return where rectifiers are, and between which maps.

    Parameters
    ----------
    chain : list of Link
        The layers.

    Returns
    -------
    dict
        For the place of each rectifier between two linear maps, those maps.
    """
    return {
        pair.place + 1 + i: pair
        for pair in pairs(chain)
        for i, link in enumerate(pair.between)
        if link.is_any(RECTIFIERS) and pair.second is not None
    }


def units_of(pair: Pair, h: Tensor) -> Tensor:
    """Return a signal between two maps by the unit that it belongs to.

    Parameters
    ----------
    pair : Pair
        The maps.
    h : Tensor
        The signal.

    Returns
    -------
    Tensor of shape (n_examples, n_units, n_positions)
        The same values.

    Raises
    ------
    ParameterError
        If it cannot be told which values belong to a unit.
    """
    values = pair.by_unit(h)
    if values is None:
        raise ParameterError(
            f"which values belong to a unit of {pair.first} cannot be told behind it: "
            f"{pair.obstacle() or 'shapes do not fit'}. Give the chains before and "
            "behind it one by one."
        )
    return values
