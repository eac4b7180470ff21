"""Tables as text: a line of names, then fields separated by commas or tabs."""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from hardzero.datasets import files
from hardzero.datasets.columns import Columns, Table, Wanted, choose_columns
from hardzero.errors import DataError

_ROWS_AT_ONCE: Final = 10_000


def read_delimited(path: Path, wanted: Wanted) -> Table:
    """Read ``.csv`` or ``.tsv``, plain, ``.gz`` or ``.xz``, in UTF-8.

    Fields of ``.csv`` are separated by commas or, if the first line has none outside
    quotes, by semicolons or tabs, as some spreadsheets write them.

    Parameters
    ----------
    path : Path
        The table.
    wanted : Wanted
        Which columns to take. The others may hold anything.

    Returns
    -------
    Table
        Labels are int64 if all are written as integers, else strings as written.

    Raises
    ------
    DataError
        If a cell is not a finite number, a label is missing, the text is malformed, or
        its first line has only numbers; the message names line and column.
    """
    separators = "\t" if ".tsv" in map(str.lower, path.suffixes) else ",;\t"
    with (
        files.open_data(path) as stream,
        io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text,
    ):
        try:
            return _read(path, text, separators, wanted)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path} is not UTF-8 text: it has the byte "
                f"{error.object[error.start]:#04x} ({error.reason}). Save it as UTF-8."
            ) from error


def _read(path: Path, text: IO[str], separators: str, wanted: Wanted) -> Table:
    texts = iter(files.Lines(text, path))
    first = next(texts, "")
    separator = _find_separator(first, separators)
    lines = csv.reader(chain([first], texts), delimiter=separator, strict=True)
    try:
        header = next(lines, [])
        if wanted.features is None:
            _check_header(path, header)
        columns = choose_columns(path, header, wanted)
        blocks = [np.empty((0, len(columns.numbers)))]
        labels: list[str] = []
        places: list[int] = []
        rows = ((lines.line_num, row) for row in lines if row)
        blocks.extend(_parse(path, rows, len(header), columns, labels, places))
    except csv.Error as error:
        raise DataError(
            f"{path}, line {lines.line_num}: {error}. Expected fields separated by "
            f"{separator!r}, in double quotes if they hold one."
        ) from error
    y = parse_labels(labels) if wanted.has_labels else None
    return columns.make_table(np.concatenate(blocks), y, np.array(places, np.int64))


def _find_separator(line: str, separators: str) -> str:
    """Return the first of the separators that a line has outside quotes."""
    bare = re.sub('"[^"]*"?', "", line)
    return next((one for one in separators if one in bare), separators[0])


def _check_header(path: Path, header: list[str]) -> None:
    """Refuse a first line of numbers, unless they number the columns from 0."""
    is_numbered = [name.strip() for name in header] == list(
        map(str, range(len(header)))
    )
    if header and all(map(_is_finite, header)) and not is_numbered:
        shown = ", ".join(header[:5]) + (", ..." if len(header) > 5 else "")
        raise DataError(
            f"{path} has only numbers in its first line ({shown}), which must hold the "
            "names of the columns. Put a line of names before the first row."
        )


def _parse(
    path: Path,
    rows: Iterable[tuple[int, list[str]]],
    n_fields: int,
    columns: Columns,
    labels: list[str],
    lines: list[int],
) -> Iterator[npt.NDArray[np.float64]]:
    """Turn rows of text into blocks of numbers; append to labels and lines."""
    places = tuple(columns.numbers.values())
    block: list[list[float]] = []
    for line, row in rows:
        if len(row) != n_fields:
            raise DataError(
                f"{path}, line {line} has {len(row)} fields, expected {n_fields} as in "
                "the first line. Correct it, or quote fields that hold a separator."
            )
        try:
            numbers = [float(row[place]) for place in places]
        except ValueError:
            raise _bad_cell(path, line, row, columns) from None
        if not all(map(math.isfinite, numbers)):
            raise _bad_cell(path, line, row, columns)
        block.append(numbers)
        lines.append(line)
        if columns.target is not None:
            labels.append(row[columns.target].strip())
            if not labels[-1]:
                raise DataError(
                    f"{path}, line {line}: the label is missing. Give every row a "
                    "label, or leave the row out."
                )
        if len(block) == _ROWS_AT_ONCE:
            yield np.array(block)
            block = []
    if block:
        yield np.array(block)


def _bad_cell(path: Path, line: int, row: list[str], columns: Columns) -> DataError:
    """Say which cell of a row is not a finite number."""
    name, place = next(
        (n, i) for n, i in columns.numbers.items() if not _is_finite(row[i])
    )
    cell = row[place]
    what = (
        f"{cell!r} is not a finite number" if cell.strip() else "the value is missing"
    )
    hint = (
        "write its decimals with a point"
        if _is_finite(cell.replace(",", "."))
        else "encode words as numbers, fill in missing values, or leave the column out"
    )
    return DataError(
        f"{path}, line {line}, column {name!r}: {what}. Features and weights must be "
        f"numbers: {hint}."
    )


def _is_finite(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def parse_labels(labels: list[str]) -> npt.NDArray[Any]:
    """Make integers of labels that are all written as integers, else keep the words.

    Parameters
    ----------
    labels : list of str
        As written.

    Returns
    -------
    ndarray of shape (n_labels,), int64 or str
        Integers only if writing them again gives the same text: "7" but not "07",
        "+7" or "7.0".
    """
    try:
        numbers = np.array([int(label) for label in labels], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(labels, dtype=np.str_)
    is_exact = list(map(str, numbers.tolist())) == labels
    return numbers if is_exact else np.array(labels, dtype=np.str_)
