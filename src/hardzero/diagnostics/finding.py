"""What a diagnosis says: findings with cause, evidence and remedy."""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, get_args

from hardzero.atomic import replacing
from hardzero.errors import DataError, ParameterError

__all__ = ["Diagnosis", "Finding", "Severity", "by_severity", "visible"]

Severity = Literal["note", "warning", "serious"]

_FORMAT: Final = "hardzero diagnosis 1"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a network, or worth knowing.

    Parameters
    ----------
    code : str
        Kind of trouble, such as "dead-units".
    severity : {"note", "warning", "serious"}
        A network with a warning or something serious is not healthy.
    where : str
        Layer, unit, parameter or input that it is about.
    summary : str
        The fact, in one sentence.
    evidence : tuple of str
        Numbers that it rests on, with how many examples they are from.
    cause : str
        Why, as far as can be told.
    not_the_cause : tuple of str
        What else it looks like, and why it is not that.
    remedy : str
        What to do.
    confidence : float
        From 0 to 1, how sure the cause is.
    when : int or None
        Step of training at which it began, if it was watched.
    """

    code: str
    severity: Severity
    where: str
    summary: str
    evidence: tuple[str, ...]
    cause: str
    remedy: str
    not_the_cause: tuple[str, ...] = ()
    confidence: float = 0.5
    when: int | None = None

    def __post_init__(self) -> None:
        """Check severity and confidence."""
        if self.severity not in get_args(Severity):
            raise ParameterError(
                f"severity is {self.severity!r}, expected one of "
                f"{', '.join(get_args(Severity))}."
            )
        if not 0 <= self.confidence <= 1:
            raise ParameterError(
                f"confidence is {self.confidence!r}, expected a number from 0 to 1."
            )


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Put the most serious findings first, and leave their order otherwise.

    Parameters
    ----------
    findings : iterable of Finding
        In any order.

    Returns
    -------
    tuple of Finding
        The same ones.
    """
    severities = get_args(Severity)
    return tuple(sorted(findings, key=lambda f: -severities.index(f.severity)))


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong with a network, most serious first.

    Parameters
    ----------
    findings : tuple of Finding
        What was found; empty for a healthy network.
    layers : tuple of dict
        One row for each place where units put out zeros or saturate, in the order in
        which the network computes: name, numbers of units and of examples, share of
        exact zeros with its 95 % interval, dead units, and so on.
    facts : dict
        About data, loss and parameters.
    """

    findings: tuple[Finding, ...]
    layers: tuple[Mapping[str, Any], ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def healthy(self) -> bool:
        """Whether nothing is more than a note."""
        return all(finding.severity == "note" for finding in self.findings)

    def to_json(self) -> str:
        """Return the diagnosis as text for programs.

        Returns
        -------
        str
            JSON; `from_json` reads it.
        """
        content = {
            "format": _FORMAT,
            "healthy": self.healthy,
            "findings": [asdict(finding) for finding in self.findings],
            "layers": [dict(layer) for layer in self.layers],
            "facts": dict(self.facts),
        }
        return json.dumps(content, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Diagnosis":
        """Read what `to_json` wrote.

        Parameters
        ----------
        text : str or bytes
            The JSON.

        Returns
        -------
        Diagnosis
            Equal to the one that was written.

        Raises
        ------
        DataError
            If it is no such text.
        """
        try:
            content = json.loads(text, parse_constant=_refuse)
            if content["format"] != _FORMAT:
                raise DataError(
                    f"the format is {content['format']!r}, expected {_FORMAT!r}."
                )
            findings = tuple(map(_finding, content["findings"]))
            layers = tuple(_checked(row, _LAYER, "layer") for row in content["layers"])
            facts = _checked(content["facts"], {}, "facts")
            _check_history(facts.get("history", {"update": [], "series": {}}))
        except DataError:
            raise
        except (*_WRONG, RecursionError) as error:
            raise DataError(f"this is no diagnosis: {error!r}.") from None
        return cls(findings, layers, facts)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page that shows everything, for a browser or a printer.

        Parameters
        ----------
        path : str or PathLike
            File to write; it needs nothing else, no network either.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        from hardzero.diagnostics.page import render  # it knows what a Diagnosis is

        with replacing(Path(path)) as stream:
            stream.write(render(self).encode())

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from hardzero.diagnostics.page import render_fragment

        return render_fragment(self)

    def __str__(self) -> str:
        """Return the findings on one screen, the most serious in full."""
        n = self.facts.get("n_examples", 0)
        verdict = "healthy" if self.healthy else "not healthy"
        n_layers = f"{len(self.layers):,}"
        n_all = self.facts.get("n_activations", len(self.layers))
        if n_all > len(self.layers):
            n_layers += f" of {n_all:,}"
        lines = [f"{verdict}: {n_layers} activations, {n:,} examples"]
        for finding in self.findings[:6]:
            if finding.severity == "note":
                lines += [f"note: {finding.summary}"]
                continue
            lines += ["", f"{finding.severity}: {finding.summary}"]
            if finding.when is not None:
                lines += [f"  since    step {finding.when:,}"]
            lines += [f"  cause    {finding.cause}", f"  remedy   {finding.remedy}"]
            lines += [f"  {fact}" for fact in finding.evidence[:2]]
        if len(self.findings) > 6:
            lines += ["", f"... and {len(self.findings) - 6} more"]
        return "\n".join(map(visible, lines))


_FINDING: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("code", "severity", "where", "summary", "cause", "remedy"), str),
    "evidence": list,
    "not_the_cause": list,
    "confidence": float,
}
_LAYER: Final[Mapping[str, Any]] = {
    "name": str,
    "function": str,
    "units": int,
    "examples": int,
    "zeros": float,
    "zeros_low": float,
    "zeros_high": float,
    "dead": int | None,
    "silent_examples": int,
}
_MORE: Final[Mapping[str, Any]] = {
    "when": int | None,
    "axis_is_sure": bool,
    "zeros_by_class": dict,
    "silent": int,
    "born_dead": int,
    "died_by": int | None,
    "came_back": int,
    "counted": int,
    "n_activations": int,
    "n_examples": int,
    "n_batches": int,
    "n_parameters": int,
    "n_updates": int,
    "n_classes": int | None,
    "loss": int | float | None,
    "unseen": list,
    "history": dict,
    "investigation": dict,
}
"""Types of what a diagnosis must hold, and of what it may hold."""
_WRONG: Final = (LookupError, ValueError, TypeError, AttributeError)


def _refuse(constant: str) -> None:
    raise ValueError(f"it holds {constant}")


def _finding(given: Any) -> Finding:
    """Return a finding that was read, if its parts are of the right kinds."""
    _checked(given, _FINDING, "finding")
    lists = {name: tuple(given[name]) for name in ("evidence", "not_the_cause")}
    for name, texts in lists.items():
        if not all(isinstance(text, str) for text in texts):
            raise DataError(f"{name} of a finding holds something else than texts.")
    return Finding(**{**given, **lists})


def _checked(given: Any, must: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return a dict that was read, if its values are of the right kinds."""
    if not isinstance(given, dict):
        raise DataError(f"{what} is a {type(given).__name__}, expected an object.")
    may = {name: kind for name, kind in _MORE.items() if name in given}
    for name, kind in {**may, **must}.items():
        if not _is_a(given[name], kind):
            raise DataError(f"{name} of {what} is {given[name]!r:.80}.")
    for label, share in given.get("zeros_by_class", {}).items():
        if not _is_a(share, float):
            raise DataError(f"zeros_by_class of {what} has {share!r:.80} for {label}.")
    return given


def _check_history(given: Mapping[str, Any]) -> None:
    """Refuse curves whose points are not numbers, or not as many as updates."""
    updates, lines = given["update"], given["series"].values()
    fits = all(_is_a(update, int) for update in updates)
    for line in lines:
        fits = fits and len(line) == len(updates)
        fits = fits and all(v is None or _is_a(v, float) for v in line)
    if not fits or any(b <= a for a, b in pairwise(updates)):
        raise DataError("the history has points that are no numbers, or too few.")


def _is_a(value: Any, kind: Any) -> bool:
    """Return whether a value has a type; truth values are no numbers."""
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind) or (kind is float and isinstance(value, int))


def visible(text: str) -> str:
    """Write out what cannot be printed or encoded, such as a lone surrogate.

    Parameters
    ----------
    text : str
        Any text; names of modules may hold whatever they like.

    Returns
    -------
    str
        The text with such characters as escapes of Python.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )
