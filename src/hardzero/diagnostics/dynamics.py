"""What the history of a training adds to a diagnosis: when it began, and why then."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from hardzero.diagnostics.finding import Diagnosis, Finding, by_severity

if TYPE_CHECKING:
    from hardzero.diagnostics.monitor import Watch

__all__ = ["summary", "with_history"]

Array = npt.NDArray[Any]
Records = list[dict[str, float]]

_LARGE_UPDATE: Final = 0.1  # of the norm of the weights, in one update
_SCALED: Final = (
    "Inputs are not scaled: gradients of the first layer are as much too large, and a "
    "step that suits the biases throws the weights far off."
)
_SCALE: Final = "Scale the inputs (divide by the largest value, or standardise)."
_MOST_POINTS: Final = 100  # of a curve in a picture
_MOST_CURVES: Final = 8
_WINDOW: Final = 100  # updates without firing after which a unit counts as silent


def with_history(found: Diagnosis, watch: "Watch") -> Diagnosis:
    """Return a diagnosis with what the training says about it.

    Parameters
    ----------
    found : Diagnosis
        Of the network as it is now.
    watch : Watch
        The training.

    Returns
    -------
    Diagnosis
        Findings with the update in which they began, and new ones.
    """
    records, units = watch.records, watch.units
    codes = {finding.code for finding in found.findings}
    findings = []
    for finding in found.findings:
        if finding.code == "dead-units" and finding.where in units:
            finding = _with_deaths(finding, units[finding.where], watch, records)
            if "input-scale" in codes and finding.when:
                finding = replace(finding, cause=_SCALED, remedy=_SCALE)
        elif finding.code == "loss-at-entropy":
            finding = _with_shrinkage(finding, records)
        findings.append(finding)
    findings = list(_with_first_bad(findings, watch))
    if "not-optimised" not in codes:
        findings += _never_moved(records, watch)
    if watch.first_bad is None:
        is_sick = any(finding.severity == "serious" for finding in findings)
        is_sick = is_sick or "loss-at-entropy" in codes
        # It comes first: units that die little by little are a part of it.
        findings = [*_less_plastic(records, watch, is_sick=is_sick), *findings]
    layers = [
        {**layer, **_lives(units[layer["name"]], watch)}
        if layer["name"] in units
        else layer
        for layer in found.layers
    ]
    facts = {**found.facts, "n_updates": watch.n_updates, "unseen": watch.unseen}
    history = _history(records, units, watch)
    if history:
        facts["history"] = history
    return Diagnosis(by_severity(findings), tuple(layers), facts)


def _history(
    records: Records, units: dict[str, dict[str, Array]], watch: "Watch"
) -> dict[str, Any]:
    """Return the loss, zeros and silent units over time, thinned out for a picture."""
    if len(records) < 2:
        return {}
    rows = [records[i] for i in _spread(len(records), _MOST_POINTS)]
    names = list(units)
    sites = [names[i] for i in _spread(len(names), _MOST_CURVES)]
    updates = [int(row["update"]) for row in rows]
    series: dict[str, list[float | None]] = {
        name: [_rounded(row.get(name)) for row in rows]
        for name in ["loss", *(f"zeros/{site}" for site in sites)]
    }
    for site in sites:
        of_site = units[site]
        deaths = of_site["last"][_is_silent(of_site, watch)]
        n = len(of_site["last"])
        series[f"silent/{site}"] = [
            round(float((deaths < update).sum()) / n, 4) for update in updates
        ]
    for name in [name for name, line in series.items() if set(line) == {None}]:
        del series[name]
    return {"update": updates, "series": series}


def _spread(n: int, most: int) -> list[int]:
    """Return up to so many of the numbers below n, evenly, both ends among them."""
    return sorted({int(i) for i in np.linspace(0, n - 1, min(n, most)).round()})


def _rounded(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(f"{value:.4g}")


def summary(watch: "Watch") -> str:
    """Return a training in a few lines.

    Parameters
    ----------
    watch : Watch
        The training.

    Returns
    -------
    str
        One line for each site, with its zeros and its deaths.
    """
    records, units = watch.records, watch.units
    lines = [f"{watch.n_updates:,} updates, {len(units)} activations"]
    if records and "loss" in records[-1]:
        lines[0] += f", loss {records[0].get('loss', np.nan):.4g} to "
        lines[0] += f"{records[-1]['loss']:.4g}"
    width = max(map(len, units), default=0)
    for name, of_site in units.items():
        zeros = [row[f"zeros/{name}"] for row in records if f"zeros/{name}" in row]
        if not zeros:
            continue
        lives = _lives(of_site, watch)
        lines.append(
            f"{name:{width}}  zeros {zeros[0]:.0%} to {zeros[-1]:.0%}, silent "
            f"{lives['silent']} of {len(of_site['last'])} ({lives['born_dead']} from "
            f"the start), {lives['came_back']} came back"
        )
    if watch.first_bad is not None:
        lines.append(f"not finite after update {watch.first_bad.update:,}")
    lines += watch.unseen
    return "\n".join(lines)


def _lives(of_site: dict[str, Array], watch: "Watch") -> dict[str, Any]:
    """Count births and deaths."""
    silent = _is_silent(of_site, watch)
    born = silent & (of_site["first"] < 0)
    died = silent & ~born
    return {
        "silent": int(silent.sum()),
        "born_dead": int(born.sum()),
        "died_by": int(np.median(of_site["last"][died])) if died.any() else None,
        "came_back": int((of_site["longest"] >= _window(watch)).sum()),
    }


def _window(watch: "Watch") -> int:
    """Return how many updates without firing count as silence."""
    return max(watch.every, min(_WINDOW, watch.n_updates // 4))


def _is_silent(of_site: dict[str, Array], watch: "Watch") -> Array:
    silent: Array = of_site["last"] <= watch.n_updates - _window(watch)
    return silent


def _with_deaths(
    finding: Finding, of_site: dict[str, Array], watch: "Watch", records: Records
) -> Finding:
    """Say when units died, and choose the cause that fits that."""
    silent = _is_silent(of_site, watch)
    if not silent.any():
        return finding
    born = silent & (of_site["first"] < 0)
    n_silent, n_born = int(silent.sum()), int(born.sum())
    deaths = np.where(of_site["first"] < 0, 0, of_site["last"])[silent]
    low, median, high = (int(np.quantile(deaths, q)) for q in (0.25, 0.5, 0.75))
    when = f"half of the deaths between updates {low:,} and {high:,}"
    evidence = (
        f"{n_silent} silent in the last {_window(watch)} of {watch.n_updates:,} "
        f"updates, {n_born} of them from the start"
        + ("" if n_born == n_silent else f"; {when}"),
    )
    if 2 * n_born >= n_silent:
        cause = finding.cause.replace(", or driven there by updates", "")
        if "updates threw them" in cause:
            cause = (
                "They did not fire before the first update either: initialisation, "
                "biases or the scale of the inputs."
            )
        remedy = finding.remedy
        if "Watch the training" in remedy:
            cause = "What they are given, or their weights, keep them below 0."
            remedy = (
                "Draw their weights anew (hardzero.remedies.initialise), or centre "
            )
            remedy += "the inputs."
        return replace(
            finding,
            cause=f"Dead from the start. {cause}",
            remedy=remedy,
            not_the_cause=("learning rate: they were dead before it could act",),
            evidence=(*evidence, *finding.evidence),
            confidence=max(finding.confidence, 0.85),
            when=0,
        )
    finding = replace(finding, evidence=(*evidence, *finding.evidence), when=median)
    largest = _largest_update(records, high)
    if largest is not None and largest[1] > _LARGE_UPDATE:
        name, ratio, update = largest
        size = f"{ratio:.0%} of" if ratio < 10 else f"{ratio:.2g} times"
        cause = f"Updates were too large when they died: one near update {update:,} "
        cause += f"changed {name} by {size} its norm."
        remedy = "Lower the learning rate, above all in the first steps; then revive "
        remedy += "the units."
        if watch.is_recurrent(finding.where):
            cause += " Through time a gradient is multiplied at each step, and grows "
            cause += "without bound once weights are a little too large."
            remedy = "Clip gradients (torch.nn.utils.clip_grad_norm_), and lower the "
            remedy += "learning rate if that does not do."
        return replace(
            finding,
            cause=cause,
            remedy=remedy,
            not_the_cause=("initialisation: they fired before",),
            confidence=0.9,
        )
    shrunk = _shrunk(records, watch, finding.where)
    if shrunk is not None and shrunk < 0.5:
        return replace(
            finding,
            cause=f"The weights of their layer shrank to {shrunk:.0%} of their norm "
            "while they died: a penalty or weight decay took them.",
            remedy="Lower the penalty; such units can be pruned without changing "
            "outputs.",
            not_the_cause=(
                "initialisation: they fired before",
                "learning rate: no update was large",
            ),
            confidence=0.85,
        )
    return finding


def _with_shrinkage(finding: Finding, records: Records) -> Finding:
    """Say that weights shrank, if nearly all did, while nothing was learned."""
    sized = [row for row in records if any(n.startswith("weight/") for n in row)]
    if len(sized) < 2:
        return finding
    first, last = sized[0], sized[-1]
    left = {
        name: last[name] / first[name]
        for name in first
        if name.startswith("weight/") and first[name] and name in last
    }
    left = {name: share for name, share in left.items() if "bias" not in name}
    if not left or max(left.values()) > 0.5:
        return finding
    return replace(
        finding,
        cause="A penalty or weight decay outweighs the loss: all weight tensors "
        f"({len(left)}) shrank, to {max(left.values()):.0%} of their norm or less.",
        remedy="Lower the penalty by a factor of ten, and further while this remains.",
        not_the_cause=("learning rate: weights that it throws off become large",),
        confidence=0.85,
    )


def _largest_update(records: Records, last: int) -> tuple[str, float, int] | None:
    """Return parameter, size and time of the largest update so far."""
    seen = [
        (name.removeprefix("update/"), value, int(row["update"]))
        for row in records
        if row["update"] <= max(last, records[0]["update"])
        for name, value in row.items()
        if name.startswith("update/") and not name.endswith("bias")
    ]
    return max(seen, key=lambda item: item[1], default=None)


def _shrunk(records: Records, watch: "Watch", site: str) -> float | None:
    """Return how much of the norm of a site's weights is left."""
    name = f"weight/{watch.maker_of(site)}.weight"
    norms = [row[name] for row in records if name in row]
    return norms[-1] / norms[0] if norms and norms[0] else None


def _with_first_bad(findings: list[Finding], watch: "Watch") -> Iterator[Finding]:
    """Say when the first value came that was not finite, and from where."""
    bad = watch.first_bad
    if bad is None:
        yield from findings
        return
    where = bad.parameters[0] if bad.parameters else bad.module or "output"
    evidence = [f"all outputs were finite before update {bad.update + 1:,}"]
    if bad.parameters:
        cause = (
            f"Update {bad.update:,} wrote NaN or infinity into {where}: it was too "
            "large, or its gradient was not finite."
        )
        if bad.update == 0:
            cause = f"{where} held NaN or infinity before the first update."
    else:
        function = bad.function or "an operation"
        cause = f"{function} in {where} put it out though all parameters were finite."
        if bad.example is not None:
            evidence.append(f"first in row {bad.example} of the batch")
    known = {"non-finite-parameter", "non-finite-value", "non-finite-loss"}
    is_known = False
    for finding in findings:
        if finding.code in known and not is_known:
            is_known = True
            yield replace(
                finding,
                cause=cause,
                evidence=(*evidence, *finding.evidence),
                confidence=0.95,
                when=bad.update,
            )
        else:
            yield finding
    if not is_known:
        yield Finding(
            "non-finite-parameter" if bad.parameters else "non-finite-value",
            "serious",
            where,
            f"Outputs were not finite after update {bad.update:,} of "
            f"{watch.n_updates:,}.",
            tuple(evidence),
            cause,
            "Lower the learning rate or clip gradients; compute what leaves the range "
            "in float32.",
            confidence=0.95,
            when=bad.update,
        )


def _never_moved(records: Records, watch: "Watch") -> Iterator[Finding]:
    """Find parameters that got gradients and stayed as they were."""
    sizes: dict[str, list[tuple[float, float]]] = {}
    for row in records:
        for name, value in row.items():
            kind, _, parameter = name.partition("/")
            if kind == "update" and f"gradient/{parameter}" in row:
                pair = value, row[f"gradient/{parameter}"]
                sizes.setdefault(parameter, []).append(pair)
    still = [
        name
        for name, pairs in sizes.items()
        if not any(change for change, _ in pairs) and any(g > 0 for _, g in pairs)
    ]
    if still:
        yield Finding(
            "not-optimised",
            "serious",
            still[0],
            f"{len(still)} of {len(sizes)} parameters get gradients but never moved "
            f"in {watch.n_updates:,} updates, {still[0]} first.",
            (f"unmoved: {', '.join(still[:5])}",),
            "The optimizer does not hold them, or its learning rate is 0 for them.",
            "Make the optimizer after the model is complete, from model.parameters().",
            confidence=0.95,
            when=0,
        )


def _fell_back(records: Records) -> float | None:
    """Return the loss of the last quarter relative to that of the best one."""
    losses = [row["loss"] for row in records if "loss" in row]
    if len(losses) < 8 or not np.isfinite(losses).all() or min(losses) <= 0:
        return None
    quarters = [float(part.mean()) for part in np.array_split(np.array(losses), 4)]
    return quarters[-1] / min(quarters)


def _died_at_once(of_site: dict[str, Array], watch: "Watch") -> bool:
    """Return whether half of the deaths are within a fiftieth of the training."""
    died = of_site["last"][_is_silent(of_site, watch) & (of_site["first"] >= 0)]
    if len(died) < 5:
        return False
    low, high = np.quantile(died, [0.25, 0.75])
    return bool(high - low < max(0.02 * watch.n_updates, 2 * watch.every))


def _less_plastic(
    records: Records, watch: "Watch", *, is_sick: bool
) -> Iterator[Finding]:
    """Find a training that learns less and less, while its units fall asleep.

    Units die little by little. Where they die at once, an update was too large.
    """
    worse = _fell_back(records)
    if is_sick if worse is None else worse < 1.05:
        return
    tired = []
    for name in watch.units:
        rows = [row for row in records if f"rank/{name}" in row]
        if len(rows) < 8:
            continue
        ranks = np.array([row[f"rank/{name}"] for row in rows])
        dormant = np.array([row[f"dormant/{name}"] for row in rows])
        early = ranks[: len(ranks) // 4 + 1].max()
        if not np.isfinite(ranks).all() or ranks[-2:].max() > early / 2:
            continue
        if dormant[-2:].min() < dormant[0] + 0.25:
            continue
        if not _died_at_once(watch.units[name], watch):
            awake = int(np.flatnonzero(ranks > early / 2)[-1])
            since = int(rows[awake + 1]["update"])
            tired.append((ranks[-1] / early, name, early, ranks, dormant, since))
    if not tired:
        return
    _, name, early, ranks, dormant, since = min(tired, key=lambda layer: layer[0])
    evidence = [
        f"dormant at first {dormant[0]:.0%} (score up to 0.025, Sokar et al. 2023)",
        f"{len(ranks)} measurements in {watch.n_updates:,} updates",
    ]
    if worse is not None:
        evidence.append(f"the loss is {worse:.3g} times that of its best quarter")
    if len(tired) > 1:
        evidence.append(f"also {', '.join(t[1] for t in tired if t[1] != name)}")
    yield Finding(
        "loss-of-plasticity",
        "warning" if worse is None else "serious",
        name,
        f"The outputs of {name} fell from an effective rank of {early:.1f} to "
        f"{ranks[-1]:.1f}, and {dormant[-1]:.0%} of its units are dormant.",
        tuple(evidence),
        "The network learns with fewer and fewer of its units, as happens over a "
        "sequence of tasks or under a rate that is too high for too long.",
        "Revive dormant units now and then (hardzero.remedies.revive_ between two "
        "updates), lower the rate, or regularise towards the initialisation.",
        ("a single large update: units would have died at once",),
        confidence=0.7 if worse is None else 0.85,
        when=since,
    )
