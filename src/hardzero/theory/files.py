"""Networks with rational weights as JSON files that a person can write."""

import json
import os
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from hardzero.atomic import replacing
from hardzero.errors import DataError, ParameterError
from hardzero.theory.rational import (
    MaxLayer,
    RationalNetwork,
    from_rational_layers,
    rational_layers,
    rational_network,
)

__all__ = ["load_network", "save_network"]

_FORMAT: Final = "hardzero rational network"


def save_network(network: RationalNetwork, path: str | os.PathLike[str]) -> None:
    """Write a network with its exact weights.

    Parameters
    ----------
    network : RationalNetwork
        The network.
    path : str or PathLike
        File to write, by custom ending in ``.json``.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    layers = [
        {"units": [[[str(a) for a in piece] for piece in unit] for unit in layer]}
        for layer in rational_layers(network)
    ]
    text = json.dumps({"format": _FORMAT, "layers": layers}, indent=1)
    with replacing(Path(path)) as stream:
        stream.write(text.encode() + b"\n")


def load_network(path: str | os.PathLike[str]) -> RationalNetwork:
    """Read a network with exact weights.

    Parameters
    ----------
    path : str or PathLike
        A JSON file with a list ``layers``, from the input to the output. A layer is an
        object with ``W`` (one row for each input), ``b`` and, where it is not a
        rectifier (the last one: affine), ``activation``; or one with ``units``, for
        each unit its affine pieces, for each piece its weights and then its constant.
        Numbers are numbers or texts such as "1/3"; those with a decimal point are
        taken as they are written: 0.1 is 1/10.

    Returns
    -------
    RationalNetwork
        The network.

    Raises
    ------
    DataError
        If the file is not such JSON.
    OSError
        If it cannot be read.
    """
    try:
        content = json.loads(
            Path(path).read_text("utf-8"), parse_float=Fraction, parse_int=_whole
        )
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON in UTF-8: {error}.") from None
    layers = content.get("layers") if isinstance(content, dict) else None
    if not isinstance(layers, list):
        raise DataError(
            f"{path} has no list of layers. Write "
            '{"layers": [{"W": [[1, "1/2"]], "b": [0, 0]}, ...]}.'
        )
    try:
        if layers and all(
            isinstance(layer, dict) and "units" in layer for layer in layers
        ):
            return _from_units(layers)
        return rational_network([_layer(i, layer) for i, layer in enumerate(layers, 1)])
    except ParameterError as error:
        raise DataError(f"{path}: {error}") from None


def _whole(text: str) -> int:
    if len(text) > 4000:  # Python reads no longer ones
        raise ValueError(f"a number has {len(text)} digits, more than 4000")
    return int(text)


def _from_units(layers: list[dict[str, Any]]) -> RationalNetwork:
    """Read the form that `save_network` writes."""
    units = []
    width: int | None = None
    for number, layer in enumerate(layers, start=1):
        of_layer = _layer(number, layer)
        if width is not None and any(
            len(w) != width for unit in of_layer.units for w, _ in unit
        ):
            raise ParameterError(
                f"layer {number} has pieces with another number of weights than layer "
                f"{number - 1} has units, {width}."
            )
        network = rational_network([of_layer])
        units += rational_layers(network)
        width = network.n_outputs
    return from_rational_layers(units)


def _layer(number: int, layer: Any) -> Any:
    if not isinstance(layer, dict):
        raise ParameterError(
            f'layer {number} is no object, expected {{"W": ..., "b": ...}}.'
        )
    if "units" in layer:
        try:
            return MaxLayer(
                [[(p[:-1], p[-1]) for p in unit] for unit in layer["units"]]
            )
        except (TypeError, IndexError, KeyError):
            raise ParameterError(
                f"units of layer {number} are no lists of pieces, each a list of "
                "weights and a constant."
            ) from None
    if not {"W", "b"} <= layer.keys():
        raise ParameterError(
            f"layer {number} has {', '.join(map(str, layer)) or 'nothing'}, expected W "
            "and b."
        )
    kind = (layer["activation"],) if "activation" in layer else ()
    return (layer["W"], layer["b"], *kind)
