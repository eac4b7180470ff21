"""Model files: safetensors for the arrays, JSON for the rest; loading runs no code.

A model file is an ordinary safetensors file. Its arrays are those of
`RectifierStack.arrays`; its metadata has one entry, "hardzero", a JSON object with the
architecture, the classes, the feature names, the versions that wrote it, and a SHA-256
checksum over the values of all of that and of the arrays. A file with an altered byte
is refused, unless it still spells the same values, such as JSON with another space.
"""

import contextlib
import hashlib
import json
import os
import platform
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

import hardzero
from hardzero.errors import DataError, ParameterError
from hardzero.serving.model import LABEL_TYPES, FittedClassifier, StackModel, label_type
from hardzero.stack import Architecture, RectifierStack

_HEADER: Final = {"format": "hardzero.model", "version": 1}
_ENTRY: Final = "hardzero"
_LARGEST_HEADER: Final = 2**26
_DTYPES: Final = {"F32": "float32", "F64": "float64"}


def save(model: StackModel | FittedClassifier, path: str | os.PathLike[str]) -> None:
    """Write a model to a file, in one step: never half a file, even if killed.

    If the process is killed, or the machine stops, while it writes, a temporary file
    named ``.hardzero-*.tmp`` may be left in the folder; it can be deleted.

    Parameters
    ----------
    model : StackModel or fitted classifier
        What to save.
    path : path
        File to write; one that is there already is replaced.

    Raises
    ------
    ParameterError
        If the model is not a fitted classifier, or its labels would take more memory
        than `load` gives to a file of this size.
    OSError
        If the file cannot be written.
    """
    if not isinstance(model, StackModel):
        model = StackModel.of(model)
    arrays = model.stack.arrays()
    description = {
        **_HEADER,
        "architecture": json.loads(model.stack.to_json()),
        "classes": {
            "dtype": label_type(model.classes),
            "values": model.classes.tolist(),
        },
        "feature_names": model.feature_names and list(model.feature_names),
        "versions": {
            "hardzero": hardzero.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    description["sha256"] = _checksum(description, arrays)
    content = to_safetensors(arrays, {_ENTRY: json.dumps(description)})
    if model.classes.nbytes > _most_bytes(len(content)):
        raise ParameterError(
            f"The classes take {model.classes.nbytes:,} bytes, because each is stored "
            "as wide as the longest. Give shorter labels."
        )
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
        If the file is missing, is not a model file, is cut off, or was altered; the
        message says which.
    """
    path = Path(path)
    try:
        _check_header(path)
        with safe_open(path, framework="numpy") as tensors:
            description = _describe((tensors.metadata() or {}).get(_ENTRY))
            architecture = Architecture.from_json(
                json.dumps(description["architecture"])
            )
            arrays = _arrays(tensors, architecture)
        if _checksum(description, arrays) != description["sha256"]:
            raise DataError("its checksum does not fit its content")
        return StackModel(
            RectifierStack.from_arrays(architecture, arrays),
            _classes(description["classes"], _most_bytes(path.stat().st_size)),
            _names(description["feature_names"]),
        )
    except OSError as error:
        raise DataError(
            f"Cannot read {path}: {error.strerror or error}. "
            "Give the path of a model file."
        ) from error
    except (DataError, ParameterError, SafetensorError, RecursionError) as error:
        raise DataError(
            f"{path} is not a sound model file: {str(error).rstrip('.')}. Give a file "
            "that hardzero wrote; if it is one, it was damaged: save it again."
        ) from error


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file that takes the place of ``path`` when all went well.

    It lies beside ``path`` as ``.hardzero-*.tmp``, and is left there only if the
    process is killed. File and folder are on disk, as far as the system tells, before
    this returns.

    Parameters
    ----------
    path : path
        File that should appear, or be replaced, in one step.

    Yields
    ------
    binary stream
        Where to write its content.

    Raises
    ------
    OSError
        If the folder does not exist or cannot be written to.
    """
    path = Path(path).resolve()  # write to what a symbolic link points at
    if path.exists() and not path.is_file():  # a device or a pipe must stay one
        with path.open("wb") as stream:
            yield stream
        return
    temporary = path.with_name(f".hardzero-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if path.exists():
            temporary.chmod(path.stat().st_mode)
        temporary.replace(path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Bring the new name of a file to disk, on systems that can be asked to."""
    with contextlib.suppress(OSError):  # Windows opens no folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _most_bytes(file_size: int) -> int:
    """Return how much memory the labels of a file of this size may take."""
    return max(file_size, _LARGEST_HEADER)


def _checksum(description: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """Return the SHA-256 of everything but the checksum itself."""
    rest = {key: value for key, value in description.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(name.encode())
        little_endian = arrays[name].dtype.newbyteorder("<")
        digest.update(arrays[name].astype(little_endian, copy=False).data)
    return digest.hexdigest()


def _check_header(path: Path) -> None:
    """Check the size that the first 8 bytes claim, before any of it is read."""
    with path.open("rb") as stream:
        start = stream.read(8)
        size = os.fstat(stream.fileno()).st_size
    n_bytes = int.from_bytes(start, "little")
    if n_bytes > min(size - 8, _LARGEST_HEADER) or len(start) < 8:
        raise DataError(
            f"its header claims {n_bytes:,} bytes, but the file has {size:,} and a "
            f"header at most {_LARGEST_HEADER:,}"
        )


def _describe(text: str | None) -> dict[str, Any]:
    """Read the JSON in the metadata and check which keys it has."""
    if text is None:
        raise DataError("it is a safetensors file without a hardzero model")
    try:
        description = json.loads(text)
    except ValueError as error:
        raise DataError(f"its metadata is not JSON ({error})") from error
    keys = {"architecture", "classes", "feature_names", "versions", "sha256", *_HEADER}
    if not isinstance(description, dict) or not description.keys() >= _HEADER.keys():
        raise DataError(f"its metadata lacks {' and '.join(_HEADER)}")
    for key, expected in _HEADER.items():
        if description[key] != expected:
            raise DataError(
                f"its {key} is {description[key]!r} and this version of hardzero reads "
                f"{expected!r} (versions that wrote it: {description.get('versions')})"
            )
    if description.keys() != keys:
        raise DataError(f"its metadata does not have exactly {', '.join(sorted(keys))}")
    return description


def _arrays(tensors: Any, architecture: Architecture) -> dict[str, npt.NDArray[Any]]:
    """Load the arrays after comparing their names, shapes and types."""
    shapes = architecture.array_shapes()
    if shapes.keys() != set(tensors.keys()):
        raise DataError("its arrays are not those of its architecture")
    for name, shape in shapes.items():
        entry = tensors.get_slice(name)
        dtype, found = entry.get_dtype(), tuple(entry.get_shape())
        if found != shape or _DTYPES.get(dtype) != architecture.dtype:
            raise DataError(
                f"its array {name!r} is {dtype} of shape {found}, its architecture "
                f"says {architecture.dtype} of shape {shape}"
            )
    return {name: tensors.get_tensor(name) for name in shapes}


def _classes(labels: Any, most_bytes: int) -> npt.NDArray[Any]:
    """Make an array of labels again, exactly as it was."""
    try:
        dtype, values = labels["dtype"], labels["values"]
        if dtype not in LABEL_TYPES:
            raise ValueError(f"no labels are of type {dtype}")
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


def _names(names: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return tuple(names)
    raise DataError("its feature_names are neither null nor a list of strings")
