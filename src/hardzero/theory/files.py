"""Networks with rational weights as JSON files that a person can write."""

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from hardzero.atomic import replacing
from hardzero.errors import DataError, ParameterError
from hardzero.theory.convert import as_network
from hardzero.theory.rational import (
    MaxLayer,
    RationalNetwork,
    from_rational_layers,
    rational_layers,
    rational_network,
    text_to_fraction,
)

__all__ = ["load_network", "long_numbers", "read_json", "save_network"]

_MOST_DIGITS: Final = 1_000_000
_FORMAT: Final = "hardzero rational network"

_lock = threading.Lock()
_n_using, _limit = 0, 0


def save_network(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a network with its exact weights.

    Parameters
    ----------
    model : object
        Any model that `hardzero.theory.as_network` reads.
    path : str or PathLike
        File to write, by custom ending in ``.json``.

    Raises
    ------
    ParameterError
        If the model cannot be read.
    OSError
        If the file cannot be written.
    """
    with long_numbers():
        layers = [
            {"units": [[[str(a) for a in piece] for piece in unit] for unit in layer]}
            for layer in rational_layers(as_network(model))
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
        If the file cannot be read or is not such JSON.
    """
    content = read_json(path)
    layers = content.get("layers") if isinstance(content, dict) else None
    if not isinstance(layers, list):
        raise DataError(
            f"{path} has no list of layers. Write "
            '{"layers": [{"W": [[1, "1/2"]], "b": [0, 0]}, ...]}.'
        )
    others = content.keys() - {"format", "layers"}
    if others or content.get("format", _FORMAT) != _FORMAT:
        raise DataError(
            f"{path} has {', '.join(sorted(content))}, expected layers, and if it says "
            f'a format, "{_FORMAT}". Take everything else out.'
        )
    try:
        with long_numbers():
            if layers and all(map(_has_units, layers)):
                return _from_units(layers)
            return rational_network(
                [_layer(i, layer) for i, layer in enumerate(layers, 1)]
            )
    except ParameterError as error:
        raise DataError(f"{path}: {error}") from None


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read JSON in which 0.1 is a tenth.

    Parameters
    ----------
    path : str or PathLike
        The file.

    Returns
    -------
    object
        What it holds.

    Raises
    ------
    DataError
        If the file cannot be read or is not JSON.
    """
    try:
        text = Path(path).read_text("utf-8")
        with long_numbers():
            return json.loads(
                text, parse_float=text_to_fraction, object_pairs_hook=_object
            )
    except OSError as error:
        raise DataError(
            f"Cannot read {path}: {error.strerror or error}. Give the path of an "
            "existing, readable file."
        ) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON in UTF-8: {error}.") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"an object has a key twice: {[key for key, _ in pairs]}")
    return found


@contextmanager
def long_numbers() -> Iterator[None]:
    """Let whole numbers of up to a million digits become text, and back.

    Yields
    ------
    None
        Python's limit, which all threads share, is as before after the last of them.
    """
    global _n_using, _limit
    with _lock:
        if not _n_using:
            _limit = sys.get_int_max_str_digits()
            sys.set_int_max_str_digits(_MOST_DIGITS)
        _n_using += 1
    try:
        yield
    finally:
        with _lock:
            _n_using -= 1
            if not _n_using:
                sys.set_int_max_str_digits(_limit)


def _has_units(layer: Any) -> bool:
    return isinstance(layer, dict) and "units" in layer


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
    if layer.keys() == {"units"}:
        try:
            return MaxLayer(
                [[(p[:-1], p[-1]) for p in unit] for unit in layer["units"]]
            )
        except (TypeError, IndexError, KeyError):
            raise ParameterError(
                f"units of layer {number} are no lists of pieces, each a list of "
                "weights and a constant."
            ) from None
    if not {"W", "b"} <= layer.keys() <= {"W", "b", "activation"}:
        raise ParameterError(
            f"layer {number} has {', '.join(map(str, layer)) or 'nothing'}, expected W "
            "and b, and activation where it is not the usual one."
        )
    kind = (layer["activation"],) if "activation" in layer else ()
    return (layer["W"], layer["b"], *kind)
