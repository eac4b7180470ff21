"""Draw a comparison: one panel per measure, one dot per network."""

import statistics
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from hardzero.atomic import replacing
from hardzero.cli.contest import ACTIVATIONS, Run

_COLOURS: Final = ("#c1272d", "#0072b2", "#e69f00")  # told apart by the colour-blind


def draw(runs: Sequence[Run], data: str, path: Path) -> None:
    """Write the picture.

    Parameters
    ----------
    runs : sequence of Run
        At least one for each activation; networks that were pre-trained, if there are
        any, are drawn to the right of the others, hollow.
    data : str
        Name of the data set, for the title.
    path : Path
        File to write; its suffix, ``.png`` or ``.svg``, says in which format.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    measures: dict[str, Callable[[Run], float]] = {
        "test error, %": lambda run: 100 * run.test_error,
        "exact zeros in hidden layers, %": lambda run: 100 * statistics.mean(run.zeros),
        "seconds of training": lambda run: run.pretraining_seconds + run.seconds,
    }
    starts = sorted({run.pretrained for run in runs})
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    hollow = "; hollow: after denoising pre-training" if len(starts) == 2 else ""
    figure.suptitle(
        f"{data}: each dot is a network, each line a mean over seeds{hollow}"
    )
    panels = figure.subplots(1, len(measures))
    for panel, (title, measure) in zip(panels, measures.items(), strict=True):
        panel.set_title(title, fontsize="medium")
        for number, (activation, pretrained) in enumerate(product(ACTIVATIONS, starts)):
            values = [
                measure(run)
                for run in runs
                if (run.activation, run.pretrained) == (activation, pretrained)
            ]
            middle = (number + 0.5) / len(starts) - 0.5
            reach = 0.3 / len(starts)
            panel.plot(
                [middle] * len(values),
                values,
                "o",
                color=_COLOURS[number // len(starts)],
                fillstyle="none" if pretrained else "full",
                alpha=0.6,
                clip_on=False,  # or a dot on the axis would be half a dot
            )
            panel.hlines(
                statistics.mean(values),
                middle - reach,
                middle + reach,
                colors=_COLOURS[number // len(starts)],
            )
        panel.set_xticks(range(len(ACTIVATIONS)), ACTIVATIONS)
        panel.set_xlim(-0.6, len(ACTIVATIONS) - 0.4)
        panel.set_ylim(0, 1.05 * max(map(measure, runs)) or 1)
        panel.spines[["top", "right"]].set_visible(False)
    with replacing(path) as stream:
        figure.savefig(stream, format=path.suffix.lower()[1:], dpi=150)
