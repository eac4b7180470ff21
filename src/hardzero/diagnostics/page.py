"""A diagnosis as one page: no network, no scripts, readable on paper."""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Final

from hardzero.diagnostics.finding import Diagnosis, Finding

__all__ = ["render", "render_fragment"]

_MOST_LAYERS: Final = 200
_MOST_CLASSES: Final = 20
_MOST_JSON: Final = 100_000

_SYMBOLS: Final = {"serious": "✖", "warning": "▲", "note": "○"}

_STYLE: Final = """
.hz{font:15px/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff;max-width:60rem;
margin:0 auto;padding:1rem}
.hz h1{font-size:1.5rem;margin:.2rem 0}.hz h2{font-size:1.15rem;margin:1.6rem 0 .5rem}
.hz .finding{border:1px solid #ccc;border-left:.4rem solid #777;border-radius:.3rem;
padding:.5rem .9rem;margin:.7rem 0;break-inside:avoid}
.hz .serious{border-left-color:#b3261e}.hz .warning{border-left-color:#b26a00}
.hz .word{font-weight:600}.hz dl{margin:.3rem 0}.hz dt{font-weight:600}
.hz dd{margin:0 0 .3rem 1rem}.hz small,.hz .quiet{color:#555}
.hz .scroll{overflow-x:auto}.hz table{border-collapse:collapse;font-size:.9rem}
.hz th,.hz td{padding:.2rem .6rem;border-bottom:1px solid #ddd;text-align:right;
white-space:nowrap}.hz th:first-child,.hz td:first-child{text-align:left;
white-space:normal;overflow-wrap:anywhere;min-width:6rem}
@media print{.hz{max-width:none;font-size:11px}.hz .scroll{overflow:visible}}
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
        short.
    """
    verdict = "healthy" if diagnosis.healthy else "not healthy"
    data = diagnosis.to_json()
    kept = data.replace("<", "\\u003c") if len(data) <= _MOST_JSON else "null"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Diagnosis: {verdict}</title>\n</head>\n"
        '<body style="margin:0;background:#fff">\n'
        f"{render_fragment(diagnosis)}\n"
        f'<script type="application/json" id="diagnosis">{kept}</script>\n'
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
        *map(_card, diagnosis.findings),
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


def _card(finding: Finding) -> str:
    facts = "".join(f"<li>{escape(fact)}</li>" for fact in finding.evidence)
    others = "".join(f"<li>{escape(text)}</li>" for text in finding.not_the_cause)
    details = [
        (
            "Cause",
            f"{escape(finding.cause)} <small>({finding.confidence:.0%} sure)</small>",
        ),
        ("Remedy", escape(finding.remedy)),
        ("Seen", f"<ul>{facts}</ul>" if facts else ""),
        ("Not the cause", f"<ul>{others}</ul>" if others else ""),
    ]
    rows = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in details if text)
    return (
        f'<div class="finding {finding.severity}">'
        f'<span class="word">{_SYMBOLS[finding.severity]} {finding.severity}</span> '
        f"<small>{escape(finding.code)}</small><br>{escape(finding.summary)}"
        f"<dl>{rows}</dl></div>"
    )


def _layers(layers: Iterable[Mapping[str, Any]]) -> str:
    rows = list(layers)
    if not rows:
        return ""
    names = "place,function,units,examples,exact zeros,,dead,silent examples"
    head = "".join(f'<th scope="col">{name}</th>' for name in names.split(","))
    body = "".join(
        "<tr>"
        f"<td>{escape(str(row['name']))}</td><td>{escape(str(row['function']))}</td>"
        f"<td>{row['units']:,}</td><td>{row['examples']:,}</td>"
        f"<td>{row['zeros']:.1%}</td><td>{_bar(row)}</td>"
        f"<td>{'' if row['dead'] is None else row['dead']}</td>"
        f"<td>{row['silent_examples']:,}</td></tr>"
        for row in rows[:_MOST_LAYERS]
    )
    return (
        "<h2>Activations, from input to output</h2>"
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{_left_out(len(rows), _MOST_LAYERS)}"
    )


def _bar(row: Mapping[str, Any]) -> str:
    """Draw a share of zeros with its interval."""
    share, low, high = (100 * row[key] for key in ("zeros", "zeros_low", "zeros_high"))
    return (
        '<svg width="104" height="14" role="img" aria-label="'
        f'{share:.1f} % zeros, {low:.1f} to {high:.1f}">'
        '<rect x="2" y="3" width="100" height="8" fill="#e6e6e6"/>'
        f'<rect x="2" y="3" width="{share:.1f}" height="8" fill="#0072b2"/>'
        f'<path d="M{low + 2:.1f} 7H{high + 2:.1f}" stroke="#1a1a1a"/></svg>'
    )


def _classes(layers: Iterable[Mapping[str, Any]]) -> str:
    rows = [row for row in layers if row.get("zeros_by_class")][:_MOST_LAYERS]
    if not rows:
        return ""
    labels = list(rows[0]["zeros_by_class"])
    shown = labels[:_MOST_CLASSES]
    head = "".join(f'<th scope="col">{escape(label)}</th>' for label in shown)
    body = ""
    for row in rows:
        cells = ""
        for label in shown:
            share = row["zeros_by_class"].get(label)
            text = "" if share is None else f"{share:.0%}"
            depth = 0.0 if share is None else 0.45 * share
            cells += f'<td style="background:rgba(0,114,178,{depth:.2f})">{text}</td>'
        body += f"<tr><td>{escape(str(row['name']))}</td>{cells}</tr>"
    return (
        "<h2>Exact zeros by class</h2>"
        f'<div class="scroll"><table><thead><tr><th scope="col">place</th>{head}</tr>'
        f"</thead><tbody>{body}</tbody></table></div>"
        f"{_left_out(len(labels), _MOST_CLASSES, 'classes')}"
    )


def _facts(facts: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(name.replace('_', ' ').removeprefix('n '))}</td>"
        f"<td>{escape(_number(value))}</td></tr>"
        for name, value in facts.items()
        if value is not None
    )
    return (
        f"<h2>Data and model</h2><table><tbody>{rows}</tbody></table>" if rows else ""
    )


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _left_out(n: int, most: int, what: str = "places") -> str:
    return f"<p><small>{n - most} more {what} are not shown.</small></p>" * (n > most)
