"""Certificates: what was found, with a proof that others can check.

A certificate is JSON. It holds the weights of the networks in whole numbers, the
domain as rows that are >= 0 on it, a claim and a proof (see `hardzero.theory.proof`).
The checker, `hardzero.theory.checker`, is a file of plain Python that needs nothing
else: it takes weights and domain as they are, and works the claim out again.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from hardzero.atomic import replacing
from hardzero.errors import DataError
from hardzero.theory import checker
from hardzero.theory.convert import as_network
from hardzero.theory.domain import Domain
from hardzero.theory.files import long_numbers
from hardzero.theory.halfspaces import polyhedron_of
from hardzero.theory.proof import Node, prove
from hardzero.theory.rational import RationalNetwork, as_whole

__all__ = [
    "Certificate",
    "certify_different",
    "certify_equal",
    "certify_maximum",
    "certify_regions",
    "differences",
    "load_certificate",
    "verify",
]


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """A claim about networks with its proof.

    Parameters
    ----------
    content : dict
        What the file holds, see `hardzero.theory.checker`.
    """

    content: dict[str, Any]

    @property
    def claim(self) -> str:
        """What is claimed: "regions", "equal", "different" or "maximum"."""
        return str(self.content.get("claim"))

    @property
    def networks(self) -> tuple[RationalNetwork, ...]:
        """The networks that it is about; their scales are those of the outputs."""
        found = []
        for network in self.content["networks"]:
            layers = tuple(
                tuple(tuple(map(tuple, unit)) for unit in layer)
                for layer in network["layers"]
            )
            scales = [Fraction(1)] * (len(layers) - 1)
            scale = Fraction(*network["scale"])
            n_inputs = len(layers[0][0][0]) - 1
            found.append(RationalNetwork(n_inputs, layers, (*scales, scale)))
        return tuple(found)

    def is_about(self, *models: Any) -> bool:
        """Return whether its networks are those of some models.

        Parameters
        ----------
        *models : object
            Any models that `hardzero.theory.as_network` reads, in the same order.

        Returns
        -------
        bool
            Whether all weights are the same.
        """
        ours, theirs = self.networks, tuple(map(as_network, models))
        return [(f.layers, f.scales[-1]) for f in ours] == [
            (f.layers, f.scales[-1]) for f in theirs
        ]

    def describe(self) -> str:
        """Return the claim in words.

        Returns
        -------
        str
            One line.
        """
        networks = self.networks
        claims_two = self.claim in ("equal", "different")
        if len(networks) not in ({2} if claims_two else {1, 2}):
            raise DataError(
                f"it is about {len(networks)} networks, which is not their number for "
                f'the claim "{self.claim}".'
            )
        if len(networks) == 2:
            f, g = networks
            expected = _ratios(differences(f.n_outputs))
            if f.n_outputs != g.n_outputs or self.content["functionals"] != expected:
                raise DataError("its functionals are not the differences of outputs.")
            if claims_two and self.content["value"] != [0, 1]:
                raise DataError("its value is not 0.")
        names = [" -> ".join(map(str, network.sizes)) for network in networks]
        where = _say_domain(self.content["domain"], networks[0].n_inputs)
        *numerators, t = self.content["point"]
        point = ", ".join(_short(Fraction(a, t)) for a in numerators[:8])
        point += ", ..." if len(numerators) > 8 else ""
        if self.claim == "regions":
            n_patterns = self.content["count"]
            return f"{names[0]} has {n_patterns:,} activation patterns {where}"
        if self.claim == "equal":
            return f"{names[0]} and {names[1]} are equal {where}"
        if self.claim == "different":
            return f"{names[0]} and {names[1]} differ at ({point})"
        value = Fraction(*self.content["value"])
        if len(networks) == 2:
            return (
                f"{_short(value)} is the largest difference between outputs of "
                f"{names[0]} and {names[1]} {where}, at ({point})"
            )
        forms = " or of ".join(
            " ".join(_short(Fraction(*a)) for a in c)
            for c in self.content["functionals"]
        )
        return (
            f"{_short(value)} is the maximum of {forms} times {names[0]} {where}, "
            f"at ({point})"
        )

    def to_json(self) -> str:
        """Return the certificate as text.

        Returns
        -------
        str
            JSON without line breaks.
        """
        with long_numbers():
            return json.dumps(self.content, separators=(",", ":"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate to a file.

        Parameters
        ----------
        path : str or PathLike
            File to write; with ``.gz`` at the end it is compressed.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        data = self.to_json().encode()
        if Path(path).suffix == ".gz":
            data = gzip.compress(data, mtime=0)
        with replacing(Path(path)) as stream:
            stream.write(data)

    def __repr__(self) -> str:
        """Return the claim and the length of the proof."""
        n_entries = len(self.content.get("proof", ()))
        return f"Certificate({self.claim}, {n_entries:,} entries)"


def load_certificate(path: str | os.PathLike[str]) -> Certificate:
    """Read a certificate; `verify` checks it.

    Parameters
    ----------
    path : str or PathLike
        What `Certificate.save` wrote.

    Returns
    -------
    Certificate
        Its content, not yet checked.

    Raises
    ------
    DataError
        If the file holds no JSON object.
    OSError
        If it cannot be read.
    """
    try:
        data = Path(path).read_bytes()
        if Path(path).suffix == ".gz":
            data = gzip.decompress(data)
        with long_numbers():
            content = json.loads(data)
    except (
        ValueError,
        RecursionError,
        EOFError,
        gzip.BadGzipFile,
        zlib.error,
    ) as error:
        raise DataError(f"{path} is no certificate: {error}.") from None
    if not isinstance(content, dict):
        raise DataError(
            f"{path} is no certificate: it holds a {type(content).__name__}, expected "
            "an object."
        )
    return Certificate(content)


def verify(certificate: "Certificate | str | os.PathLike[str]") -> str:
    """Check a certificate from the weights up.

    Parameters
    ----------
    certificate : Certificate, str or PathLike
        The certificate, or its file.

    Returns
    -------
    str
        What it proves, in one line.

    Raises
    ------
    DataError
        If it proves nothing; the message says where the proof fails.
    OSError
        If the file cannot be read.
    """
    if not isinstance(certificate, Certificate):
        certificate = load_certificate(certificate)
    try:
        with long_numbers():
            checker.prove(certificate.content)
        return certificate.describe()
    # Whatever is wrong with a file from elsewhere: nothing is proved.
    except Exception as error:
        raise DataError(
            f"the certificate proves nothing: {type(error).__name__}: {error}."
        ) from error


def certify_regions(
    network: RationalNetwork, domain: Domain, n_activation_patterns: int
) -> Certificate:
    """Prove a number of activation patterns.

    Parameters
    ----------
    network : RationalNetwork
        The network.
    domain : Domain
        Where; it must have an interior.
    n_activation_patterns : int
        How many there are.

    Returns
    -------
    Certificate
        With a point inside each cell, and a proof that there are no others.
    """
    point = polyhedron_of(domain).point()
    return _certificate(
        "regions", [network], domain, point, count=n_activation_patterns
    )


def certify_equal(
    f: RationalNetwork, g: RationalNetwork, domain: Domain
) -> Certificate:
    """Prove that two networks are equal on a domain.

    Parameters
    ----------
    f, g : RationalNetwork
        Networks that are equal there.
    domain : Domain
        Where.

    Returns
    -------
    Certificate
        With the cells of both networks together.
    """
    return _certificate(
        "equal",
        [f, g],
        domain,
        polyhedron_of(domain).point(),
        differences(f.n_outputs),
    )


def certify_different(
    f: RationalNetwork,
    g: RationalNetwork,
    domain: Domain,
    witness: Sequence[Fraction],
) -> Certificate:
    """Prove that two networks differ somewhere on a domain.

    Parameters
    ----------
    f, g : RationalNetwork
        Networks.
    domain : Domain
        Where.
    witness : sequence of Fraction
        A point of the domain at which they differ.

    Returns
    -------
    Certificate
        With that point.
    """
    functionals = differences(f.n_outputs)
    return _certificate("different", [f, g], domain, _at(witness), functionals)


def certify_maximum(
    networks: Sequence[RationalNetwork],
    domain: Domain,
    functionals: Sequence[Sequence[Fraction]],
    value: Fraction,
    argument: Sequence[Fraction],
) -> Certificate:
    """Prove the maximum of the largest of some functionals of the outputs.

    Parameters
    ----------
    networks : sequence of RationalNetwork
        One or more networks with the same inputs.
    domain : Domain
        Where.
    functionals : sequence of sequence of Fraction
        For each its coefficients of the outputs of all networks.
    value : Fraction
        The maximum.
    argument : sequence of Fraction
        A point of the domain where it is taken.

    Returns
    -------
    Certificate
        With that point, and a proof that no value on any cell is larger.
    """
    return _certificate(
        "maximum", networks, domain, _at(argument), functionals, value=value
    )


def differences(n_outputs: int) -> list[list[Fraction]]:
    """Return f_i - g_i and g_i - f_i as functionals of the outputs of f and of g.

    Parameters
    ----------
    n_outputs : int
        Of each of them.

    Returns
    -------
    list of list of Fraction
        Coefficients; the largest of the functionals is ``max of abs(f_i - g_i)``.
    """
    return [
        [
            Fraction(sign * ((j == i) - (j == n_outputs + i)))
            for j in range(2 * n_outputs)
        ]
        for i in range(n_outputs)
        for sign in (1, -1)
    ]


def _certificate(
    claim: str,
    networks: Sequence[RationalNetwork],
    domain: Domain,
    point: Sequence[int],
    functionals: Sequence[Sequence[Fraction]] = (),
    value: Fraction = Fraction(0),
    **facts: Any,
) -> Certificate:
    proof: Iterable[Node] = ()
    if claim != "different":
        bounds = _bounds(networks, domain.n_dimensions, functionals, value)
        proof = prove(networks, domain, bounds, with_points=claim == "regions")
    content = {
        "format": "hardzero certificate 1",
        "claim": claim,
        **facts,
        "networks": [
            {"layers": network.layers, "scale": network.scales[-1].as_integer_ratio()}
            for network in networks
        ],
        "domain": domain.rows,
        "functionals": _ratios(functionals),
        "value": value.as_integer_ratio(),
        "point": point,
        "proof": list(proof),
    }
    # As it comes out of a file: lists in place of tuples.
    with long_numbers():
        return Certificate(json.loads(json.dumps(content)))


def _ratios(rows: Sequence[Sequence[Fraction]]) -> list[list[list[int]]]:
    return [[list(a.as_integer_ratio()) for a in row] for row in rows]


def _bounds(
    networks: Sequence[RationalNetwork],
    n_inputs: int,
    functionals: Sequence[Sequence[Fraction]],
    value: Fraction,
) -> list[list[Fraction]]:
    """Return value - functional as rows over the inputs and all units."""
    outputs = []
    n_seen = n_inputs
    for network in networks:
        n_seen += sum(map(len, network.layers))
        places = range(n_seen - network.n_outputs, n_seen)
        outputs += [(place, network.scales[-1]) for place in places]
    bounds = []
    for c in functionals:
        bound = [Fraction(0)] * n_seen + [value]
        for a, (place, scale) in zip(c, outputs, strict=True):
            bound[place] = -a * scale
        bounds.append(bound)
    return bounds


def _say_domain(rows: Sequence[Sequence[int]], n_inputs: int) -> str:
    """Say where rows are >= 0, of a box between which bounds."""
    if not rows:
        return "everywhere"
    sides: dict[tuple[int, bool], Fraction] = {}
    for *weights, constant in rows:
        places = [i for i, a in enumerate(weights) if a]
        if len(places) == 1:
            a = weights[places[0]]
            sides[places[0], a > 0] = Fraction(-constant, a)
    if len(sides) == len(rows):
        bounds = [
            (sides.get((i, True)), sides.get((i, False))) for i in range(n_inputs)
        ]
        words = list(map(_say_interval, bounds))
        if len(set(words)) == 1:
            return f"on {words[0]}" + (f"^{n_inputs}" if n_inputs > 1 else "")
        return f"on {_first(words, ' x ')}"
    inequalities = [
        " + ".join(f"{-a} x{i}" for i, a in enumerate(weights) if a) + f" <= {constant}"
        for *weights, constant in rows
    ]
    return f"where {_first(inequalities, ', ')}"


def _say_interval(bounds: tuple[Fraction | None, Fraction | None]) -> str:
    low, high = bounds
    left = "(-infinity" if low is None else f"[{_short(low)}"
    right = "infinity)" if high is None else f"{_short(high)}]"
    return f"{left}, {right}"


def _first(words: Sequence[str], between: str) -> str:
    """Join words, of many the first ones."""
    most = 6
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return between.join(words[:most]) + more


def _short(value: Fraction) -> str:
    """Write a number exactly if that takes less than a line."""
    bits = value.numerator.bit_length() + value.denominator.bit_length()
    return str(value) if bits < 240 else f"a fraction of {bits} bits"


def _at(x: Sequence[Fraction]) -> list[int]:
    """Return a point as (x t, t) in whole numbers."""
    numerators, t = as_whole(x)
    return [*numerators, t]
