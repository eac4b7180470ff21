"""Model files: safetensors for the arrays, JSON for the rest; loading runs no code.

A model file is an ordinary safetensors file. Its arrays are those of
`RectifierStack.arrays`; its metadata has one entry, "hardzero", a JSON object with the
kind of the model, the architecture, the classes, the feature names, the versions that
wrote it, and a SHA-256 checksum over the values of all of that and of the arrays. A
file with an altered byte is refused, unless it still spells the same values, such as
JSON with another space. Version 1 of the format had no kind: all were classifiers.
"""

import errno
import hashlib
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as brief
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save as to_safetensors

import hardzero
from hardzero.atomic import replacing
from hardzero.errors import DataError, ParameterError
from hardzero.serving.model import LABEL_TYPES, FittedEstimator, StackModel, label_type
from hardzero.serving.tensors import (
    LARGEST_HEADER,
    TensorFile,
    open_tensors,
    parse_json,
)
from hardzero.stack import Architecture, RectifierStack

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

__all__ = ["ModelFile", "load", "read_model_file", "save"]

_FORMAT: Final = "hardzero.model"
_CHECKPOINT: Final = "hardzero.checkpoint"
_VERSION: Final = 2
_ENTRY: Final = "hardzero"
_KEYS_1: Final = frozenset(
    {
        *("format", "version", "architecture", "classes"),
        *("feature_names", "versions", "sha256"),
    }
)
_KEYS: Final = {1: _KEYS_1, 2: _KEYS_1 | {"kind"}}
_LABELS_OF_ANY_FILE: Final = 2**26
_LONGEST_REASON: Final = 500


@dataclass(frozen=True)
class ModelFile:
    """What a model file holds.

    Parameters
    ----------
    model : StackModel
        The model.
    version : int
        Version of the format, 1 or 2.
    written_by : dict of str to str
        Versions of hardzero, Python and NumPy that wrote it.
    """

    model: StackModel
    version: int
    written_by: Mapping[str, str]


def save(
    model: "StackModel | FittedEstimator | Pipeline", path: str | os.PathLike[str]
) -> None:
    """Write a model to a file, in one step: never half a file, even if killed.

    If the process is killed, or the machine stops, while it writes, a temporary file
    named ``.hardzero-*.tmp`` may be left in the folder; it can be deleted.

    Parameters
    ----------
    model : StackModel, fitted estimator or pipeline
        What to save; a pipeline of scalers and an estimator as `StackModel.of` takes
        it, so that the saved model takes rows that are not scaled.
    path : path
        File to write; one that is there already is replaced.

    Raises
    ------
    ParameterError
        If the model is not a fitted estimator, a step of a pipeline is no scaler, or
        labels and names are longer than `load` accepts.
    OSError
        If the file cannot be written.
    """
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "cannot save there: there is no such folder", str(folder)
        )
    if not isinstance(model, StackModel):
        model = StackModel.of(model)
    arrays = model.stack.arrays()
    description = {
        "format": _FORMAT,
        "version": _VERSION,
        "kind": model.kind,
        "architecture": json.loads(model.stack.to_json()),
        "classes": _spell_classes(model.classes),
        "feature_names": model.feature_names and list(model.feature_names),
        "versions": {
            "hardzero": hardzero.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    description["sha256"] = _checksum(description, arrays)
    content = to_safetensors(arrays, {_ENTRY: json.dumps(description)})
    _check_size(model, content)
    with replacing(path) as stream:
        stream.write(content)


def load(path: str | os.PathLike[str]) -> StackModel:
    """Read a model that `save` wrote.

    Parameters
    ----------
    path : path
        The file. It may come from anyone: nothing in it is run, and nothing is
        allocated that its size does not warrant.

    Returns
    -------
    StackModel
        Equal to the one that was saved.

    Raises
    ------
    DataError
        If the file is missing, is not a model file but perhaps a checkpoint, is cut
        off, or was altered; the message says which.
    """
    return read_model_file(path).model


def read_model_file(path: str | os.PathLike[str]) -> ModelFile:
    """Read a model that `save` wrote, and what wrote it.

    Parameters
    ----------
    path : path
        As for `load`.

    Returns
    -------
    ModelFile
        The model and the versions.

    Raises
    ------
    DataError
        As for `load`.
    """
    path = Path(path)
    try:
        with open_tensors(path, _refuse_checkpoint) as tensors:
            description = _describe(tensors.metadata.get(_ENTRY))
            architecture = Architecture.from_json(
                json.dumps(description["architecture"])
            )
            arrays = _read_arrays(tensors, architecture)
        if _checksum(description, arrays) != description["sha256"]:
            raise DataError("its checksum does not fit its content")
        model = StackModel(
            RectifierStack.from_arrays(architecture, arrays),
            _read_classes(description["classes"], _most_bytes(tensors.n_bytes)),
            _read_names(description["feature_names"]),
            _read_kind(description),
        )
        return ModelFile(
            model, description["version"], _read_versions(description["versions"])
        )
    except _CheckpointError as error:
        raise DataError(
            f"{path} is a checkpoint of training, not a model. To go on from it, fit "
            "with the data and settings that it was written with and with this file as "
            "checkpoint (hardzero fit --checkpoint), then save the estimator."
        ) from error
    except OSError as error:
        raise DataError(
            f"Cannot read {path}: {error.strerror or error}. "
            "Give the path of a model file."
        ) from error
    except (DataError, ParameterError, RecursionError, MemoryError) as error:
        raise DataError(
            f"{path} is not a sound model file: {_reason(error)}. Give a file that "
            "hardzero wrote; if it is one, it was damaged: save it again."
        ) from error


class _CheckpointError(DataError):
    """The file is a sound file of hardzero, but no model."""


def _refuse_checkpoint(metadata: Mapping[str, str]) -> None:
    description = parse_json(metadata.get(_ENTRY, "null"), "its metadata")
    if isinstance(description, dict) and description.get("format") == _CHECKPOINT:
        raise _CheckpointError("it is a checkpoint")


def _spell_classes(classes: npt.NDArray[Any] | None) -> dict[str, Any] | None:
    if classes is None:
        return None
    return {"dtype": label_type(classes), "values": classes.tolist()}


def _check_size(model: StackModel, content: bytes) -> None:
    """Refuse to write what `load` would refuse to read."""
    n_header = int.from_bytes(content[:8], "little")
    if n_header > LARGEST_HEADER:
        raise ParameterError(
            f"Classes and feature names take {n_header:,} bytes in the file, expected "
            f"at most {LARGEST_HEADER:,}. Give shorter ones, or no feature names."
        )
    n_bytes = 0 if model.classes is None else model.classes.nbytes
    if n_bytes > _most_bytes(len(content)):
        raise ParameterError(
            f"The classes take {n_bytes:,} bytes, because each is stored as wide as "
            "the longest. Give shorter labels."
        )


def _most_bytes(file_size: int) -> int:
    """Return how much memory the labels of a file of this size may take."""
    return max(file_size, _LABELS_OF_ANY_FILE)


def _checksum(description: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """Return the SHA-256 of everything but the checksum itself."""
    rest = {key: value for key, value in description.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(name.encode())
        little_endian = arrays[name].dtype.newbyteorder("<")
        digest.update(arrays[name].astype(little_endian, copy=False).data)
    return digest.hexdigest()


def _describe(text: str | None) -> dict[str, Any]:
    """Read the JSON in the metadata and check which keys it has."""
    if text is None:
        raise DataError("it is a safetensors file without a hardzero model")
    description = parse_json(text, "its metadata")
    if not isinstance(description, dict) or not description.keys() >= {
        "format",
        "version",
    }:
        raise DataError("its metadata lacks format and version")
    if description["format"] != _FORMAT:
        raise DataError(
            f"its format is {brief(description['format'])}, expected {_FORMAT!r}"
        )
    version = description["version"]
    if type(version) is not int or version not in _KEYS:
        raise DataError(
            f"its version is {brief(version)} and this version of hardzero reads "
            f"{' and '.join(map(str, _KEYS))} (versions that wrote it: "
            f"{brief(description.get('versions'))})"
        )
    if description.keys() != _KEYS[version]:
        raise DataError(
            f"its metadata does not have exactly {', '.join(sorted(_KEYS[version]))}"
        )
    return description


def _read_arrays(
    tensors: TensorFile, architecture: Architecture
) -> dict[str, npt.NDArray[Any]]:
    """Read the arrays after comparing their names, shapes and types."""
    shapes = architecture.array_shapes()
    if shapes.keys() != tensors.places.keys():
        raise DataError("its arrays are not those of its architecture")
    for name, shape in shapes.items():
        found = tensors.places[name]
        if found.shape != shape or found.dtype != architecture.dtype:
            raise DataError(
                f"its array {name!r} is {found.dtype} of shape {found.shape}, its "
                f"architecture says {architecture.dtype} of shape {brief(shape)}"
            )
    return {name: tensors.read(name) for name in shapes}


def _read_kind(description: Mapping[str, Any]) -> Any:
    """Return the kind, which the model checks if it is a text."""
    kind = description.get("kind", "classifier")
    if not isinstance(kind, str):
        raise DataError(f"its kind is {brief(kind)}, expected a text")
    return kind


def _read_classes(labels: Any, most_bytes: int) -> npt.NDArray[Any] | None:
    """Make an array of labels again, exactly as it was."""
    if labels is None:
        return None
    try:
        dtype, values = labels["dtype"], labels["values"]
        if dtype not in LABEL_TYPES:
            raise ValueError(f"no labels are of type {brief(dtype)}")
        if dtype == "str":  # an array has room for the longest label in each place
            n_bytes = 4 * len(values) * max(map(len, values), default=0)
            if n_bytes > most_bytes:
                raise ValueError(f"they would take {n_bytes:,} bytes")
        classes = np.array(values, dtype=dtype)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"its classes are malformed ({error})") from error
    if classes.tolist() != values:
        raise DataError(f"its classes are not all of type {dtype}")
    return classes


def _read_names(names: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return tuple(names)
    raise DataError("its feature_names are neither null nor a list of strings")


def _read_versions(versions: Any) -> dict[str, str]:
    if isinstance(versions, dict) and all(
        isinstance(version, str) for version in versions.values()
    ):
        return versions
    raise DataError("its versions are no object of strings")


def _reason(error: Exception) -> str:
    """Say what is wrong with a file, at no greater length than anyone reads."""
    text = str(error) or "it needs more memory than there is"
    if len(text) > _LONGEST_REASON:
        text = f"{text[:_LONGEST_REASON]} ..."
    return text.rstrip(".")
