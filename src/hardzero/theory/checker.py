"""Check a certificate of hardzero.theory from the weights up, in whole numbers.

``python checker.py CERTIFICATE`` says what is proved, or why nothing is. It takes the
networks, the domain and the claim from the file, and believes nothing else in it;
`hardzero.theory.proof` says how proofs go. It needs nothing else of hardzero.

A claim is about all x with row . (x, 1) >= 0 for the rows of the domain:

* regions: the network has `count` activation patterns in there;
* maximum: the largest of the functionals, sums of the outputs of all networks with
  rational coefficients, has the maximum `value`, at `point`, written as (x t, t);
* equal: two networks have the same outputs everywhere in there;
* different: they do not at `point`.
"""

import gzip
import json
import sys
from fractions import Fraction
from math import gcd
from typing import Any


def prove(file: Any) -> str:
    """Return what a certificate proves.

    Parameters
    ----------
    file : dict
        Content of the file.

    Returns
    -------
    str
        The claim.

    Raises
    ------
    Exception
        Of any kind, if it proves nothing.
    """
    _need(file["format"] == "hardzero certificate 1", "it is in another format")
    n, claim = len(file["point"]) - 1, file["claim"]
    rows = [[0] * n + [1], *(_row(row, n + 1) for row in file["domain"])]
    *values, t = _row(file["point"], n + 1)  # at the point: inputs, then all units
    _need(min(_dot(row, [*values, t]) for row in rows) >= 0 < t, "its point is outside")
    units: Any = []  # which of the values each sees, its pieces
    outputs: Any = []  # which of the values they are, scale
    for network in file["networks"]:
        seen = slice(0, n)
        for layer in network["layers"]:
            inputs = [*values[seen], t]
            units += [(seen, [_row(a, len(inputs)) for a in unit]) for unit in layer]
            values += [max(_dot(piece, inputs) for piece in unit) for unit in layer]
            seen = slice(len(values) - len(layer), len(values))
        scale = Fraction(*_row(network["scale"], 2))
        outputs += [(i, scale) for i in range(seen.start, seen.stop)]
    value = Fraction(*_row(file["value"], 2))  # of the largest functional
    bounds = []
    for functional in file["functionals"]:
        bounds.append([Fraction(0)] * len(values) + [value])
        for c, (i, scale) in zip(functional, outputs, strict=True):
            bounds[-1][i] = -Fraction(*_row(c, 2)) * scale
    least: Any = min((_dot(bound, [*values, t]) for bound in bounds), default=None)
    holds = {"regions": least is None, "different": (least or 0) < 0}
    holds |= dict.fromkeys(["equal", "maximum"], least == 0)
    _need(holds[claim], "its value is another one")
    k = len(file["networks"][0]["layers"][-1])
    ones = [[[(j == i) - (j == i + k), 1] for j in range(2 * k)] for i in range(k)]
    gaps = [f for c in ones for f in (c, [[-a, 1] for a, _ in c])]
    is_gap = [gaps, 0] == [file["functionals"], value]
    _need(is_gap or claim in ("regions", "maximum"), "it compares no networks")
    nodes, patterns = iter(file["proof"]), set()
    for pattern, maps in _cells(units, rows, nodes) if claim != "different" else ():
        patterns.add(pattern)
        if claim == "regions":
            inside = _row(next(nodes, None), n + 1)
            _need(min(_dot(row, inside) for row in rows) > 0, "a point is outside")
        for h in (_compose(bound, maps) for bound in bounds):
            _need(not any(h) or _sign(next(nodes, None), h, rows) > 0, "a bound fails")
    _need(not list(nodes), "its proof goes on after the end")
    _need(claim != "regions" or _row([file["count"]], 1) == [len(patterns)], "miscount")
    return f"{claim} of {len(file['networks'])} networks"


def _cells(units: Any, rows: Any, nodes: Any) -> Any:
    """Yield pattern and affine maps of each cell; `rows` are kept >= 0 on it."""
    n = len(rows[0]) - 1
    maps = [[int(i == j) for j in range(n + 1)] for i in range(n)]
    waiting: Any = [(len(rows), n, 0, 1, (), [])]
    while waiting:
        n_rows, n_maps, best, rival, pattern, cut = waiting.pop()
        rows[n_rows:], maps[n_maps:] = cut, []
        while len(maps) < n + len(units):
            seen, unit = units[len(maps) - n]
            if rival == len(unit):
                maps.append(_compose(unit[best], maps[seen]))
                best, rival, pattern = 0, 1, (*pattern, best)
                continue
            h = _compose([*map(int.__sub__, unit[rival], unit[best])], maps[seen])
            node = next(nodes, None)
            if type(node) is int and node == 0:
                h = [a // (gcd(*h) or 1) for a in h]
                waiting.append((len(rows), len(maps), rival, rival + 1, pattern, [h]))
                rows.append([-a for a in h])
            elif _sign(node, h, rows) > 0 and any(h):
                best = rival
            rival += 1
        yield pattern, maps


def _sign(node: Any, h: Any, rows: Any) -> Any:
    """Return the sign of h on the cell: m h is a sum of y rows[i] with all y >= 0."""
    m, *terms = _row(node, len(node))
    pairs = list(zip(terms[::2], terms[1::2], strict=True))
    total = [sum(y * rows[i][k] for i, y in pairs) for k in range(len(h))]
    _need(m and min(terms, default=0) >= 0 and total == [m * a for a in h], "no sign")
    return m


def _compose(row: Any, maps: Any) -> Any:
    """Return an affine row of the maps as one of the inputs."""
    h = [_dot(row, column) for column in zip(*maps, strict=True)]
    return [*h[:-1], h[-1] + row[-1]]


def _dot(a: Any, b: Any) -> Any:
    return sum(x * y for x, y in zip(a, b, strict=False))


def _row(given: Any, length: int) -> Any:
    _need([type(a) for a in given] == [int] * length, "a row has other entries")
    return given


def _need(condition: Any, reason: str) -> None:
    if not condition:
        raise ValueError(reason)


if __name__ == "__main__":
    sys.set_int_max_str_digits(10**6)
    try:
        read = gzip.open if sys.argv[1].endswith(".gz") else open
        with read(sys.argv[1], "rb") as stream:
            file = json.load(stream)
        about = (f"{k}: {str(file[k])[:200]}\n" for k in file if k != "proof")
        sys.stdout.write(f"valid: {prove(file)}\n{''.join(about)}")
    except Exception as error:  # noqa: BLE001 (whatever it is, nothing is proved)
        sys.exit(f"INVALID: {type(error).__name__}: {error}")
