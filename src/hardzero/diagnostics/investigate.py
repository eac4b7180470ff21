"""Which cause is it? The training again, with one suspect changed at a time."""

import inspect
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hardzero.diagnostics.diagnose import diagnose
from hardzero.diagnostics.finding import Diagnosis, Finding
from hardzero.diagnostics.pytorch import require_pytorch
from hardzero.engine.progress import show_progress
from hardzero.errors import ParameterError

if TYPE_CHECKING:
    from hardzero.diagnostics.suspects import Setup, Suspect

__all__ = ["investigate"]

_SEED, _SECOND_SEED = 0, 1
_CONFIRMED: Final = 0.95
_ONCE: Final = 0.85
_UNSURE: Final = 0.6
_GUESS: Final = 0.3
_AS_GOOD: Final = 0.9  # of the winner's gain: a change as good as the winner


def investigate(
    make_model: Callable[[], Any],
    train: Callable[[Any, Any, dict[str, Any]], Any],
    data: Any,
    settings: Mapping[str, Any] | None = None,
    *,
    loss: Any = None,
    budget: float = 60.0,
    verbose: bool = False,
) -> Diagnosis:
    """Prove the cause of a trouble: train again with one suspect changed at a time.

    Suspects are the learning rate (from a hundredth to a hundred times), penalties
    (off), the rectifier at the output (removed), biases (0), the shift of normalisation
    layers (0), the scale of the inputs (standardised), that of the initial weights
    (He's) and the balance of the layers (the same scale in all). All runs start from
    the same seed. What cures is the cause: what was found is gone and the loss is
    lower.

    Parameters
    ----------
    make_model : callable
        Takes nothing and returns a new ``torch.nn.Module``, whose random weights come
        from the generators of PyTorch, NumPy or Python.
    train : callable
        Takes the model, data and settings, and trains the model in place.
    data : tuple
        (X, y), arrays or tensors, as the model takes them. Each run has its own copy.
    settings : mapping, optional
        What `train` reads from its third argument: ``lr`` or ``learning_rate``,
        ``weight_decay``, ``l1``, ``l2`` and the like are changed under these names.
    loss : callable, optional
        Takes outputs and targets and returns a scalar, without penalties. Without it
        a cure is judged by findings alone.
    budget : float, default=60.0
        Seconds. No rerun starts that would exceed it if it took as long as the first
        run, which is always made.
    verbose : bool, default=False
        Whether a progress bar is shown on standard error.

    Returns
    -------
    Diagnosis
        That of the first run. If it is not healthy, its first finding has the proven
        cause, with the numbers of all reruns, which ``facts["investigation"]`` has for
        programs.

    Raises
    ------
    ParameterError
        If PyTorch is not installed, an argument cannot be used, or `make_model` does
        not start from the same weights each time. What `train` raises in the first run
        is passed on; a rerun in which it raises has not cured.
    """
    torch = require_pytorch("investigate")
    from hardzero.diagnostics.suspects import SUSPECTS

    settings = _checked(torch, make_model, train, data, settings, budget)
    case = _Case(torch, make_model, train, data, settings, loss)
    with (
        _random_states_kept(torch),
        show_progress(
            1, len(SUSPECTS) + 3, enabled=verbose, title="investigation"
        ) as bar,
    ):
        clock = _Clock(budget)
        bar.describe("as it is")
        original = case.run(_SEED)
        bar.advance(1)
        clock.first_run_ends()
        trouble = _trouble(original)
        if trouble is None:
            return original
        trials: list[_Trial] = []
        for suspect in SUSPECTS:
            bar.describe(suspect.name)
            if not any(t.cured and t.suspect.name in suspect.unless for t in trials):
                trials.append(_try(case, suspect, original, trouble, clock))
            bar.advance(1)
        cures = sorted((t for t in trials if t.cured), key=_Trial.rank)
        bar.describe("a second seed")
        confirmed = _confirm(case, cures[0], trouble, clock) if cures else None
        bar.advance(2)
        bar.describe("done")
    return _report(original, trouble, trials, cures, confirmed, clock)


@dataclass
class _Trial:
    """What came of one suspect."""

    suspect: "Suspect"
    outcome: str  # cured, not cured, failed, not tested, left
    change: str = ""
    message: str = ""
    loss: float | None = None
    codes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def cured(self) -> bool:
        return self.outcome == "cured"

    def rank(self) -> tuple[float, int]:
        """Order cures: lowest loss first; without a loss, fewest findings."""
        return math.inf if self.loss is None else self.loss, len(self.codes)

    def __str__(self) -> str:
        return f"{self.suspect.name}: {self.message}"


class _Clock:
    """Seconds used, and whether another run fits into the budget."""

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self._start = time.perf_counter()
        self.first_run = 0.0

    def first_run_ends(self) -> None:
        self.first_run = self.used()

    def used(self) -> float:
        return time.perf_counter() - self._start

    def allows(self, n_runs: int) -> bool:
        return self.used() + n_runs * self.first_run <= self.budget


class _Case:
    """The user's training, to be run with or without a change."""

    def __init__(
        self,
        torch: Any,
        make_model: Callable[[], Any],
        train: Callable[[Any, Any, dict[str, Any]], Any],
        data: Any,
        settings: Mapping[str, Any],
        loss: Any,
    ) -> None:
        self._torch = torch
        self._make_model = make_model
        self._train = train
        self._data = data
        self._settings = settings
        self._loss = loss
        self._starts: dict[int, str] = {}

    @property
    def has_loss(self) -> bool:
        return self._loss is not None

    def set_up(self, seed: int, rectified_output: str | None = None) -> "Setup":
        """Make what a run starts from, with all generators at the seed."""
        from hardzero.diagnostics.suspects import Setup

        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002  (what training draws from)
        self._torch.manual_seed(seed)
        model = self._make_model()
        if not isinstance(model, self._torch.nn.Module):
            raise ParameterError(
                f"make_model returns a {type(model).__name__}, expected a "
                "torch.nn.Module."
            )
        start = _fingerprint(self._torch, model)
        if self._starts.setdefault(seed, start) != start:
            raise ParameterError(
                "make_model does not start from the same weights each time, so that "
                "runs cannot be compared. Make all layers inside it, and draw their "
                "weights from the generators of torch, numpy or random."
            )
        X, y = (_copy(self._torch, part) for part in self._data)
        return Setup(model, X, y, dict(self._settings), rectified_output)

    def finish(self, setup: "Setup") -> Diagnosis:
        """Train and look at what came out."""
        data = setup.X, setup.y
        trained = self._train(setup.model, data, setup.settings)
        if isinstance(trained, self._torch.nn.Module) and trained is not setup.model:
            raise ParameterError(
                "train returns another model than it was given. Train that one in "
                "place."
            )
        return diagnose(setup.model, data, self._loss)

    def run(self, seed: int) -> Diagnosis:
        return self.finish(self.set_up(seed))


def _checked(
    torch: Any, make_model: Any, train: Any, data: Any, settings: Any, budget: Any
) -> Mapping[str, Any]:
    calls = ("make_model", make_model, 0), ("train", train, 3)
    for name, given, n_arguments in calls:
        if not callable(given) or isinstance(given, torch.nn.Module):
            raise ParameterError(
                f"{name} is a {type(given).__name__}, expected a function: make_model "
                "returns a new model, train(model, data, settings) trains it."
            )
        if not _takes(given, n_arguments):
            raise ParameterError(
                f"{name} cannot be called with {n_arguments} arguments: it is "
                f"{name}{inspect.signature(given)}, expected make_model() and "
                "train(model, data, settings)."
            )
    is_pair = isinstance(data, (tuple, list)) and len(data) == 2
    if not is_pair or not all(hasattr(part, "shape") for part in data):
        raise ParameterError(
            f"data is a {type(data).__name__}, expected (X, y), two arrays or tensors."
        )
    if not isinstance(settings, (Mapping, type(None))):
        raise ParameterError(
            f"settings is a {type(settings).__name__}, expected a dict such as "
            "{'lr': 0.1}, which train reads."
        )
    is_number = isinstance(budget, (int, float)) and not isinstance(budget, bool)
    if not is_number or not budget > 0:
        raise ParameterError(
            f"budget is {budget!r}, expected seconds, a number above 0."
        )
    return settings or {}


def _takes(function: Any, n_arguments: int) -> bool:
    """Return whether a function can be called with so many arguments."""
    try:
        inspect.signature(function).bind(*range(n_arguments))
    except TypeError:
        return False
    except ValueError:  # of what is not written in Python
        return True
    return True


@contextmanager
def _random_states_kept(torch: Any) -> Iterator[None]:
    of_python = random.getstate()
    of_numpy = np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)  # noqa: NPY002


def _fingerprint(torch: Any, model: Any) -> str:
    """Return what two models with the same parameters have in common."""
    sizes = [
        None
        if torch.nn.parameter.is_lazy(p)
        else float(p.detach().abs().cpu().double().sum())
        for p in model.parameters()
    ]
    return repr(sizes)


def _copy(torch: Any, part: Any) -> Any:
    return part.clone() if isinstance(part, torch.Tensor) else part.copy()


def _trouble(found: Diagnosis) -> Finding | None:
    """Return the first finding that is more than a note."""
    return next((f for f in found.findings if f.severity != "note"), None)


def _codes(found: Diagnosis) -> tuple[str, ...]:
    """Return the kinds of trouble, without notes."""
    return tuple(dict.fromkeys(f.code for f in found.findings if f.severity != "note"))


def _try(
    case: _Case,
    suspect: "Suspect",
    original: Diagnosis,
    trouble: Finding,
    clock: _Clock,
) -> _Trial:
    from hardzero.diagnostics.suspects import CannotBeTestedError

    setup = case.set_up(_SEED, _rectified_output(original))
    try:
        change = suspect.change(setup)
    except CannotBeTestedError as reason:
        return _Trial(suspect, "not tested", message=str(reason))
    if not clock.allows(1):
        return _Trial(suspect, "left", change)
    begin = clock.used()
    try:
        found = case.finish(setup)
    except Exception as error:  # noqa: BLE001  (the user's code)
        message = f"{change}: training fails, {type(error).__name__}: {error}"
        return _Trial(suspect, "failed", change, message)
    seconds = clock.used() - begin
    loss, codes = found.facts["loss"], _codes(found)
    cured = _is_cure(case, found, original, trouble)
    message = f"{change}: {_loss(loss)}; {_named(codes)}"
    if found == original:
        message += ": exactly what it was, so it has no effect or train ignores it"
    outcome = "cured" if cured else "not cured"
    return _Trial(suspect, outcome, change, message, loss, codes, seconds)


def _rectified_output(found: Diagnosis) -> str | None:
    """Return the module that rectifies the output, if one does."""
    return next((f.where for f in found.findings if f.code == "rectified-output"), None)


def _is_cure(
    case: _Case, found: Diagnosis, original: Diagnosis, trouble: Finding
) -> bool:
    if trouble.code in _codes(found):
        return False
    if not case.has_loss:
        return True
    before, after = original.facts["loss"], found.facts["loss"]
    return after is not None and (before is None or after < before)


def _loss(loss: float | None) -> str:
    return "no finite loss" if loss is None else f"loss {loss:.4g}"


def _named(codes: tuple[str, ...]) -> str:
    return ", ".join(codes) or "healthy"


def _confirm(
    case: _Case, winner: _Trial, trouble: Finding, clock: _Clock
) -> tuple[bool, str] | None:
    """Return whether a second seed says the same, and its numbers; None if no time."""
    if not clock.allows(2):
        return None
    try:
        original = case.run(_SECOND_SEED)
        setup = case.set_up(_SECOND_SEED, _rectified_output(original))
        winner.suspect.change(setup)
        changed = case.finish(setup)
    except Exception as error:  # noqa: BLE001  (the user's code)
        return False, f"second seed: fails, {type(error).__name__}: {error}"
    agrees = trouble.code in _codes(original) and _is_cure(
        case, changed, original, trouble
    )
    numbers = (
        f"second seed: {_loss(original.facts['loss'])}, {_named(_codes(original))}; "
        f"{winner.change}: {_loss(changed.facts['loss'])}, {_named(_codes(changed))}"
    )
    return agrees, numbers


def _report(
    original: Diagnosis,
    trouble: Finding,
    trials: list[_Trial],
    cures: list[_Trial],
    confirmed: tuple[bool, str] | None,
    clock: _Clock,
) -> Diagnosis:
    """Return the diagnosis of the first run, with what the reruns say of its cause."""
    tested = [t for t in trials if t.outcome in {"cured", "not cured", "failed"}]
    evidence = [
        f"as it is: {_loss(original.facts['loss'])}; {_named(_codes(original))}"
    ]
    evidence += [str(t) for t in cures]
    if confirmed is not None:
        evidence.append(confirmed[1])
    names = (t.suspect.name for t in trials if t.outcome == "left")
    left = list(dict.fromkeys(names))
    if left:
        needs = clock.used() + (len(left) + 2) * clock.first_run
        evidence.append(
            f"not tested for want of time: {', '.join(left)}. A run takes "
            f"{clock.first_run:.2g} s; about {math.ceil(needs)} s would do for all; "
            f"budget was {clock.budget:g}"
        )
    evidence += [f"not tested: {t}" for t in trials if t.outcome == "not tested"]
    finding = replace(
        trouble,
        evidence=(*evidence, *trouble.evidence),
        not_the_cause=(
            *(str(t) for t in tested if not t.cured),
            *(() if cures else trouble.not_the_cause),  # guesses, until one is proven
        ),
    )
    if cures:
        finding = _with_proof(finding, cures, original, confirmed)
    elif tested:
        finding = _without_proof(finding, tested, original)
    investigation = {
        "cause": cures[0].suspect.name if cures else None,
        "confirmed": None if confirmed is None else confirmed[0],
        "seconds": round(clock.used(), 3),
        "trials": [
            {
                "suspect": t.suspect.name,
                "outcome": t.outcome,
                "change": t.change,
                "message": t.message,
                "loss": t.loss,
                "findings": list(t.codes),
                "seconds": round(t.seconds, 3),
            }
            for t in trials
        ],
    }
    findings = tuple(finding if f is trouble else f for f in original.findings)
    return replace(
        original,
        findings=findings,
        facts={**original.facts, "investigation": investigation},
    )


def _with_proof(
    finding: Finding,
    cures: list[_Trial],
    original: Diagnosis,
    confirmed: tuple[bool, str] | None,
) -> Finding:
    winner, *others = cures
    before, after = original.facts["loss"], winner.loss
    effect = f"{finding.code} is gone"
    if after is not None:
        effect += f" and the loss is {after:.4g}"
        effect += ", it was " + ("not finite" if before is None else f"{before:.4g}")
    cause = (
        f"{winner.suspect.cause} With one change, {winner.change}, and the same seed, "
        f"{effect}."
    )
    confidence = _ONCE if confirmed is None else _CONFIRMED
    if winner.codes:
        cause += f" What is left: {_named(winner.codes)}."
        confidence = _UNSURE
    as_good = [t.suspect.name for t in others if _is_as_good(t, winner, before)]
    if as_good:
        cause += f" As good a change, so that they share it: {', '.join(as_good)}."
        confidence = _UNSURE
    if confirmed is not None and not confirmed[0]:
        cause += " A second seed does not confirm it."
        confidence = _UNSURE
    return replace(
        finding, cause=cause, remedy=winner.suspect.remedy, confidence=confidence
    )


def _is_as_good(trial: _Trial, winner: _Trial, before: float | None) -> bool:
    """Return whether another change leaves no more trouble and gains as much."""
    if not set(trial.codes) <= set(winner.codes):
        return False
    if trial.loss is None or winner.loss is None or before is None:
        return True
    return before - trial.loss >= _AS_GOOD * (before - winner.loss)


def _without_proof(
    finding: Finding, tested: list[_Trial], original: Diagnosis
) -> Finding:
    before = original.facts["loss"]
    cause = f"None of the {len(tested)} changes that were tested cures it alone."
    better = [
        (t.loss, t.message)
        for t in tested
        if t.loss is not None and (before is None or t.loss < before)
    ]
    if better:
        cause += f" The lowest loss is with {min(better)[1]}."
    cause += f" A look at the network suggests: {finding.cause}"
    return replace(finding, cause=cause, confidence=min(finding.confidence, _GUESS))
