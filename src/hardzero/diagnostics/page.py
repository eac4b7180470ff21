"""A diagnosis as one page: no network, no scripts, readable on paper."""

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from hardzero.diagnostics.chart import curves
from hardzero.diagnostics.finding import Diagnosis, Finding, visible

__all__ = ["render", "render_fragment"]

# Bytes for each part, so that a page stays below 300 kB whatever is in it.
_FINDINGS: Final = 85_000
_CHARTS: Final = 40_000
_LAYERS: Final = 80_000
_CLASSES: Final = 50_000
_FACTS: Final = 4_000
_JSON: Final = 50_000

_MOST_CLASSES: Final = 20
_NAME: Final = 60  # characters of a name that are shown; more are left out inside
_TEXT: Final = 600
_TITLE: Final = 500  # the same for what a pointer that rests on a name brings up

_CURVES: Final = {
    "loss": "Loss of the measured updates",
    "zeros": "Share of exact zeros in each activation",
    "silent": "Share of units that did not fire any more in each activation",
}
_SYMBOLS: Final = {"serious": "✖", "warning": "▲", "note": "○"}

_STYLE: Final = """
.hz{font:15px/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff;color-scheme:light;
max-width:60rem;margin:0 auto;padding:1rem;box-sizing:border-box;overflow-wrap:anywhere}
.hz h1{font-size:1.5rem;margin:.2rem 0}.hz h2{font-size:1.15rem;margin:1.6rem 0 .5rem}
.hz h3{font-size:1rem;margin:0;font-weight:600}
.hz .finding{border:1px solid #ccc;border-left:.4rem solid #777;border-radius:.3rem;
padding:.5rem .9rem;margin:.7rem 0;break-inside:avoid}
.hz .serious{border-left-color:#b3261e}.hz .warning{border-left-color:#b26a00}
.hz dl{margin:.3rem 0}.hz dt{font-weight:600}.hz ul{margin:0;padding-left:1.2rem}
.hz dd{margin:0 0 .3rem 1rem}.hz small,.hz .quiet{color:#555}
.hz .scroll{overflow-x:auto}.hz table{border-collapse:collapse;font-size:.9rem}
.hz caption{text-align:left;color:#555;padding-bottom:.3rem}
.hz th,.hz td{padding:.2rem .6rem;border-bottom:1px solid #ddd;text-align:right;
white-space:nowrap}.hz th:first-child{text-align:left;font-weight:400;
white-space:normal;overflow-wrap:anywhere;min-width:6rem}.hz thead th{font-weight:600}
.hz figure{margin:0 0 1rem}.hz figcaption{color:#555;font-size:.9rem}
.hz .chart{width:100%;min-width:36rem;max-width:46rem;font-size:12px;fill:#1a1a1a}
.hz .chart path{fill:none}.hz .axis{stroke:#1a1a1a}.hz .grid{stroke:#ddd}
.hz .line{stroke-width:1.6}
.hz .a{fill:#e6e6e6}.hz .b{fill:#0072b2}.hz .c{stroke:#1a1a1a}
@media print{.hz figure{break-inside:avoid}.hz .chart{min-width:0}
.hz{max-width:none;padding:0;font-size:11px}.hz .scroll{overflow:visible}
.hz table{width:100%}.hz th,.hz td{white-space:normal;padding:.1rem .2rem}
.hz tr{break-inside:avoid}.hz h2,.hz h3{break-after:avoid}}
"""


def render(diagnosis: Diagnosis) -> str:
    """Return a whole page.

    Parameters
    ----------
    diagnosis : Diagnosis
        What to show.

    Returns
    -------
    str
        HTML that needs nothing else, with the diagnosis as JSON inside if that is
        short; otherwise the page says that it is not there.
    """
    verdict = "healthy" if diagnosis.healthy else "not healthy"
    data = json.dumps(json.loads(diagnosis.to_json()), separators=(",", ":"))
    data = data.replace("<", "\\u003c")
    inside = (
        f'<script type="application/json" id="diagnosis">{data}</script>\n'
        if len(data) <= _JSON
        else '<p class="hz"><small>The diagnosis as JSON has '
        f"{len(data):,} bytes and is not in this page; to_json() returns it."
        "</small></p>\n"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Diagnosis: {verdict}</title>\n</head>\n"
        '<body style="margin:0;background:#fff">\n'
        f"<main>\n{render_fragment(diagnosis)}\n</main>\n{inside}"
        "</body>\n</html>\n"
    )


def render_fragment(diagnosis: Diagnosis) -> str:
    """Return the part of a page that a notebook shows.

    Parameters
    ----------
    diagnosis : Diagnosis
        What to show.

    Returns
    -------
    str
        HTML with a style of its own that reaches nothing else.
    """
    n = diagnosis.facts.get("n_examples", 0)
    verdict = "Healthy" if diagnosis.healthy else "Not healthy"
    parts = [
        f"<style>{_STYLE}</style>",
        '<div class="hz">',
        f"<h1>{verdict}</h1>",
        f"<p>{len(diagnosis.layers)} activations looked at, {n:,} examples.</p>",
        _findings(diagnosis.findings),
        _training(diagnosis.facts.get("history")),
        _layers(diagnosis.layers),
        _classes(diagnosis.layers),
        _facts(diagnosis.facts),
        "<h2>How to read this</h2>",
        '<p class="quiet">A unit that never fired in n independent examples has a '
        "firing rate below 3/n, with 95 % confidence; below 3,000 examples it is "
        "“not seen firing”, not dead. The interval of a share of zeros is "
        "over examples. A network that has learned is not called sick for dead units "
        "until nine in ten are. Positions and pixels of one example count as one.</p>",
        "</div>",
    ]
    return "\n".join(filter(None, parts))


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return ""
    cards = _within(map(_card, findings), _FINDINGS)
    left_out = _left_out(len(findings) - len(cards), "findings")
    return "\n".join(["<h2>Findings</h2>", *cards, left_out])


def _card(finding: Finding) -> str:
    where, short = visible(finding.where), _shortened(visible(finding.where), _NAME)

    def text(given: str) -> str:
        shown = visible(given)
        if where != short:
            shown = shown.replace(where, short)
        return escape(_shortened(shown, _TEXT))

    def listed(given: Sequence[str]) -> str:
        items = "".join(f"<li>{text(item)}</li>" for item in given[:10])
        return f"<ul>{items}</ul>" if items else ""

    details = {
        "Where": _name(finding.where),
        "Since": "" if finding.when is None else f"step {finding.when:,}",
        "Cause": f"{text(finding.cause)} <small>({finding.confidence:.0%} sure)"
        "</small>",
        "Remedy": text(finding.remedy),
        "Seen": listed(finding.evidence),
        "Not the cause": listed(finding.not_the_cause),
    }
    rows = "".join(
        f"<dt>{name}</dt><dd>{shown}</dd>" for name, shown in details.items() if shown
    )
    return (
        f'<section class="finding {finding.severity}"><h3>'
        f'<span aria-hidden="true">{_SYMBOLS[finding.severity]}</span> '
        f"{finding.severity}: {text(finding.summary)}</h3>"
        f"<small>{text(finding.code)}</small><dl>{rows}</dl></section>"
    )


def _training(history: Mapping[str, Any] | None) -> str:
    """Draw what a watch has seen: the loss, zeros and silent units over time."""
    if history is None:
        return ""
    updates, series = history["update"], history["series"]
    pictures: list[str] = []
    for kind, title in _CURVES.items():
        lines = {
            name.removeprefix(f"{kind}/"): line
            for name, line in series.items()
            if name == kind or name.startswith(f"{kind}/")
        }
        picture = curves(title, updates, lines, percent=kind != "loss")
        if picture:
            pictures.append(
                f"<figure><figcaption>{title}</figcaption>"
                f"{_scrolling(title, picture)}</figure>"
            )
    kept = _within(pictures, _CHARTS)
    return "\n".join(["<h2>The training</h2>", *kept]) if kept else ""


def _layers(layers: Sequence[Mapping[str, Any]]) -> str:
    rows = (
        f'<tr><th scope="row">{_name(row["name"])}</th>'
        f"<td>{_name(row['function'])}</td>"
        f"<td>{row['units']:,}</td><td>{row['examples']:,}</td>"
        f"<td>{row['zeros']:.1%} {_bar(row)}</td>"
        f"<td>{_dead(row)}</td>"
        f"<td>{row['silent_examples']:,}</td></tr>"
        for row in layers
    )
    kept = _within(rows, _LAYERS)
    if not kept:
        return ""
    return _table(
        "Activations, from input to output",
        "Units, exact zeros with their 95 % interval, dead units, and examples for "
        "which no unit fired.",
        ["place", "function", "units", "examples", "exact zeros", "dead", "silent"],
        kept,
    ) + _left_out(len(layers) - len(kept), "places")


def _dead(row: Mapping[str, Any]) -> str:
    if row["dead"] is None:
        return ""
    is_sampled = row.get("counted", row["units"]) < row["units"]
    return f"{row['dead']:,}" + (f" of {row['counted']:,}" if is_sampled else "")


def _bar(row: Mapping[str, Any]) -> str:
    """Draw a share of zeros with its interval."""
    share, low, high = (100 * row[key] for key in ("zeros", "zeros_low", "zeros_high"))
    return (
        '<svg width="104" height="14" role="img"><title>'
        f"{share:.1f} % zeros, {low:.1f} to {high:.1f}</title>"
        '<rect class="a" x="2" y="3" width="100" height="8"/>'
        f'<rect class="b" x="2" y="3" width="{share:.1f}" height="8"/>'
        f'<path class="c" d="M{low + 2:.1f} 7H{high + 2:.1f}"/></svg>'
    )


def _classes(layers: Iterable[Mapping[str, Any]]) -> str:
    counted = [layer for layer in layers if layer.get("zeros_by_class")]
    labels = {label for layer in counted for label in layer["zeros_by_class"]}
    ordered = sorted(labels, key=_in_order)
    shown = ordered[:_MOST_CLASSES]

    def cell(share: float | None) -> str:
        if share is None:
            return "<td></td>"
        shade = f"rgba(0,114,178,{0.45 * share:.2f})"
        return f'<td style="background:{shade}">{share:.0%}</td>'

    rows = (
        f'<tr><th scope="row">{_name(layer["name"])}</th>'
        + "".join(cell(layer["zeros_by_class"].get(label)) for label in shown)
        + "</tr>"
        for layer in counted
    )
    kept = _within(rows, _CLASSES)
    if not kept:
        return ""
    return (
        _table(
            "Exact zeros by class",
            "Mean share of zeros over the examples of each class.",
            ["place", *shown],
            kept,
        )
        + _left_out(len(ordered) - len(shown), "classes")
        + _left_out(len(counted) - len(kept), "places")
    )


def _in_order(label: str) -> tuple[float, str]:
    """Put numbers in their order, and before words."""
    is_number = label.removeprefix("-").isdecimal() and len(label) < 20
    return (float(label) if is_number else float("inf")), label


def _facts(facts: Mapping[str, Any]) -> str:
    known = {
        name: value
        for name, value in facts.items()
        if isinstance(value, (int, float, str))
    }
    rows = (
        f'<tr><th scope="row">{_name(name.replace("_", " ").removeprefix("n "))}</th>'
        f"<td>{_name(_number(value))}</td></tr>"
        for name, value in known.items()
    )
    kept = _within(rows, _FACTS)
    if not kept:
        return ""
    return _table("Data and model", "", [], kept) + _left_out(
        len(known) - len(kept), "facts"
    )


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _table(title: str, caption: str, head: Sequence[str], rows: Sequence[str]) -> str:
    """Return a heading and a table that scrolls by itself if it is wide."""
    columns = "".join(f'<th scope="col">{_name(name)}</th>' for name in head)
    table = (
        "<table>"
        + (f"<caption>{caption}</caption>" if caption else "")
        + (f"<thead><tr>{columns}</tr></thead>" if head else "")
        + f"<tbody>{''.join(rows)}</tbody></table>"
    )
    return f"<h2>{title}</h2>{_scrolling(title, table)}"


def _scrolling(title: str, content: str) -> str:
    """Return what is wide so that it scrolls by itself, by keys as well."""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{title}">'
        f"{content}</div>"
    )


def _within(pieces: Iterable[str], n_bytes: int) -> list[str]:
    """Return the first pieces, as many as have room."""
    kept = []
    for piece in pieces:
        n_bytes -= len(piece.encode())
        if n_bytes < 0:
            break
        kept.append(piece)
    return kept


def _name(given: Any) -> str:
    """Return a name as HTML; a pointer that rests on a long one shows all of it."""
    text = visible(str(given))
    if len(text) <= _NAME:
        return escape(text)
    title = escape(_shortened(text, _TITLE))
    return f'<span title="{title}">{escape(_shortened(text, _NAME))}</span>'


def _shortened(text: str, most: int) -> str:
    """Leave out the middle of what is too long."""
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


def _left_out(n: int, what: str) -> str:
    told = f"{n:,} more {what} are not shown; to_json() has them all."
    return f"<p><small>{told}</small></p>" if n else ""
