"""Curves of a training as one picture, in SVG that needs nothing else."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from hardzero.diagnostics.finding import visible

__all__ = ["curves"]

# Okabe and Ito's colours, which colour-blind people tell apart, dark enough for white.
_COLOURS: Final = ("#0072b2", "#d55e00", "#007a5a", "#8f5902", "#a0527e", "#444444")
_DASHES: Final = ("", "6 3", "2 2")
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 500, 12, 190  # of the plotting area
_WIDTH, _HEIGHT, _ROW = 730, 232, 16
_LONGEST: Final = 20  # characters of a name in the key


def curves(
    title: str,
    x: Sequence[int],
    series: Mapping[str, Sequence[float | None]],
    *,
    percent: bool = False,
) -> str:
    """Return curves over the updates of a training.

    Parameters
    ----------
    title : str
        What is shown, for readers that do not see it.
    x : sequence of int
        Updates, at least two.
    series : mapping
        Values under names that the key shows; None where there is none.
    percent : bool, default=False
        Whether values are shares from 0 to 1.

    Returns
    -------
    str
        An ``svg`` element; empty if nothing can be drawn.
    """
    values = [v for line in series.values() for v in line if v is not None]
    if len(x) < 2 or not values or not all(map(math.isfinite, values)):
        return ""
    low, high = (0.0, 1.0) if percent else (min(0.0, *values), max(values))
    if not math.isfinite(high - low):
        return ""
    high = high if high > low else low + 1
    middle = (low + high) / 2
    is_wide = not percent and min(values) > 0 and max(values) > 100 * min(values)
    if is_wide:  # on a logarithmic scale
        low, middle = min(values), math.sqrt(min(values) * high)

    def across(update: float) -> float:
        return _LEFT + (update - x[0]) / (x[-1] - x[0]) * (_RIGHT - _LEFT)

    def up(value: float) -> float:
        share = (value - low) / (high - low)
        if is_wide:
            share = math.log(value / low) / math.log(high / low)
        return _BOTTOM - share * (_BOTTOM - _TOP)

    def number(value: float) -> str:
        return f"{value:.0%}" if percent else f"{value:.3g}"

    height = max(_HEIGHT, _TOP + _ROW * len(series) + _ROW)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" class="chart">'
        f"<title>{escape(title)}</title>",
        f'<path class="axis" d="M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}"/>',
    ]
    for tick in (low, middle, high):
        y = up(tick)
        parts.append(
            f'<path class="grid" d="M{_LEFT} {y:.1f}H{_RIGHT}"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number(tick)}'
            "</text>"
        )
    for tick, anchor in ((x[0], "start"), (x[-1], "end")):
        parts.append(
            f'<text x="{across(tick):.1f}" y="{_BOTTOM + 16}" text-anchor="{anchor}">'
            f"{tick:,}</text>"
        )
    parts.append(
        f'<text x="{(_LEFT + _RIGHT) / 2}" y="{_BOTTOM + 32}" text-anchor="middle">'
        "update</text>"
    )
    for number_of_line, (name, line) in enumerate(series.items()):
        colour = _COLOURS[number_of_line % len(_COLOURS)]
        dash = _DASHES[number_of_line // len(_COLOURS) % len(_DASHES)]
        style = f'stroke="{colour}" stroke-dasharray="{dash}"'
        path, pen = [], "M"
        for update, value in zip(x, line, strict=True):
            if value is None:
                pen = "M"
                continue
            path.append(f"{pen}{across(update):.1f} {up(value):.1f}")
            pen = "L"
        y = _TOP + 6 + _ROW * number_of_line
        shown = visible(name)
        if len(shown) > _LONGEST:
            shown = f"…{shown[1 - _LONGEST :]}"  # the end tells layers apart
        parts.append(
            f'<path class="line" {style} d="{"".join(path)}"/>'
            f'<path class="line" {style} d="M{_RIGHT + 12} {y}h20"/>'
            f'<text x="{_RIGHT + 38}" y="{y + 4}">{escape(shown)}</text>'
        )
    return "".join([*parts, "</svg>"])
