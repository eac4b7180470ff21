"""A training that is watched: hooks on the model and on its optimizers.

Hooks are cheap where they run in every update: one counter for each rectifier that is a
module, and one look at whether outputs are finite. The rest is measured once in a block
of updates: in its last forward pass PyTorch's calls are seen, so that rectifiers that
are functions are found and counted, too, and around its step gradients, weights and
their change are measured, all on the device.
"""

import copy
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock, get_ident
from types import TracebackType
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.modules.loss import _Loss
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from hardzero.diagnostics.counter import UnitCounter
from hardzero.diagnostics.finding import Diagnosis
from hardzero.diagnostics.record import call_model, left_alone, main_output
from hardzero.diagnostics.sites import Call, watching_calls
from hardzero.errors import ParameterError, warn_user

__all__ = ["FirstBad", "Watch"]

_MODULES: Final = (nn.ReLU, nn.ReLU6, nn.Threshold, nn.Hardtanh, nn.LeakyReLU)
_RUNS: Final = 64  # of as many entries of a tensor stand for all of it
_ROWS: Final = 64  # examples that an effective rank is taken over
_MOST_ROWS: Final = 1024
_MOST_CLASSES: Final = 1000
_SLOWER: Final = 8  # blocks from one rank or balance to the next
_DORMANT: Final = 0.025  # Sokar et al. 2023: share of the layer's mean size


@dataclass
class FirstBad:
    """The first output that was not finite.

    Parameters
    ----------
    update : int
        Updates that were done before.
    parameters : tuple of str
        Parameters that held NaN or infinity by then.
    module, function : str
        What made the first such value of the pass, where all parameters were finite.
    example : int or None
        The first row of the batch in which it was.
    """

    update: int
    parameters: tuple[str, ...]
    module: str = ""
    function: str = ""
    example: int | None = None


def _harmless(hook: Callable[..., None]) -> Callable[..., None]:
    """Let a hook that fails end the watching, not the training."""

    @functools.wraps(hook)
    def harmless(self: "Watch", *arguments: Any) -> None:
        if not self.has_given_up:
            try:
                hook(self, *arguments)
            except Exception as error:  # noqa: BLE001 (whatever it is, go on training)
                self.give_up(error)

    return harmless


class _Hook:
    """A hook that copies of the model, and files with it, do not take along."""

    def __init__(self, run: Callable[..., None]) -> None:
        self._run = run

    def __call__(self, *arguments: Any) -> None:
        self._run(*arguments)

    def __reduce__(self) -> Any:
        return _nothing_to_run, ()


def _nothing_to_run() -> Callable[..., None]:
    return _run_nothing


def _run_nothing(*_: Any) -> None:
    """Stand for a hook where the watch is not."""


class _AnyOptimizer:
    """The watches that see steps of any optimizer.

    PyTorch walks through its global hooks in Python, while other threads may step. So
    it gets two, once, which stay and hand steps on to the watches there are.
    """

    def __init__(self) -> None:
        self._watches: tuple[Watch, ...] = ()
        self._is_known = False
        self._lock = Lock()

    def add(self, watch: "Watch") -> None:
        """Tell a watch of steps from now on."""
        with self._lock:
            self._watches = (*self._watches, watch)
            if not self._is_known:
                register_optimizer_step_pre_hook(self._before)
                register_optimizer_step_post_hook(self._after)
                self._is_known = True

    def remove(self, watch: "Watch") -> None:
        """Tell it no longer."""
        with self._lock:
            self._watches = tuple(w for w in self._watches if w is not watch)

    def _before(self, *arguments: Any) -> None:
        for watch in self._watches:
            watch._before_step(*arguments)

    def _after(self, *arguments: Any) -> None:
        for watch in self._watches:
            watch._after_step(*arguments)


class Watch:
    """A training that is watched; made by `hardzero.watch`.

    Parameters
    ----------
    model : Module
        The model.
    optimizer : Optimizer or None
        Whose steps count.
    every : int
        Updates in a block.
    probe : object
        Inputs on which the set of active units is compared, or None.
    """

    def __init__(
        self, model: nn.Module, optimizer: Any, every: int, probe: Any = None
    ) -> None:
        self.model, self.optimizer, self.every = model, optimizer, every
        self._probe = probe
        self._patterns: dict[str, Tensor] = {}  # of the probe, at the last look
        self.n_updates = 0
        self.first_bad: FirstBad | None = None
        self.unseen: list[str] = []
        self._counters: dict[str, UnitCounter] = {}
        self._hooked: dict[str, int] = {}  # modules, and their uses in this pass
        self._has_functions = False
        self._shares: dict[str, Tensor] = {}  # of zeros in each row of this pass
        self._by_class: dict[str, Tensor] = {}  # for each class rows, and their shares
        self._rows: list[dict[str, Any]] = []  # one a block; tensors on the device
        self._row: dict[str, Any] = {}
        self._is_sampled = True  # whether the next step ends a block: the first ones do
        self._last_closed = 0  # the update that the last block ended with
        self._n_blocks, self._stride = 0, 1  # so far; from one that is kept to the next
        self._exit, self._first_hooks = ExitStack(), ExitStack()
        self._loss_module: nn.Module | None = None
        self._last_pass: tuple[nn.Module, Any, Any, Any] | None = None
        self._is_whole = False  # whether the model itself was called
        self._mode = ExitStack()
        self._samples: tuple[list[str], list[Tensor], list[Tensor]] | None = None
        self._named: list[tuple[str, Tensor]] = []
        self._parameter_ids: set[int] = set()
        self._pairs: list[tuple[str, nn.Module, nn.Module]] | None = None
        self._loss: Tensor | None = None
        self._outermost: nn.Module | None = None  # in whose pass we are
        self._is_used, self.has_given_up = False, False

    # Beginning and end

    def __enter__(self) -> "Watch":
        """Begin to watch."""
        if self._is_used:
            raise ParameterError(
                "this watch was used already. Make a new one for each training."
            )
        is_scripted = isinstance(self.model, torch.jit.ScriptModule)
        if hasattr(self.model, "_orig_mod") or is_scripted:
            self.unseen.append(
                "the model is compiled: its activations are not counted while it "
                "trains, and its loss is not seen. Gradients, weights and updates are; "
                "to see the units, ask diagnose(data), or watch before compiling."
            )
            warn_user(f"hardzero.watch: {self.unseen[-1]}")
        self._is_used = True
        self._thread = get_ident()
        self._read_parameters()
        keep = self._exit.callback
        if not self.unseen:
            # Some frameworks call the parts of a model, and never the model.
            for module in (self.model, *self.model.children()):
                if isinstance(module, torch.jit.ScriptModule):
                    continue
                before = module.register_forward_pre_hook(_Hook(self._before))
                after = module.register_forward_hook(
                    _Hook(self._after), always_call=True, with_kwargs=True
                )
                kind = self._first_hooks if module is not self.model else self._exit
                kind.callback(before.remove)
                kind.callback(after.remove)
            self._first_hooks.callback(
                register_module_forward_hook(self._see_loss).remove
            )
        if self.optimizer is None:
            _of_any_optimizer.add(self)
            keep(_of_any_optimizer.remove, self)
        else:
            keep(self.optimizer.register_step_pre_hook(self._before_step).remove)
            keep(self.optimizer.register_step_post_hook(self._after_step).remove)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take all hooks away, whatever happened."""
        self._mode.close()
        self._first_hooks.close()
        self._exit.close()
        if self.n_updates > self.every and self.n_updates % self.every:
            self._close_block()
        if self._rows:
            self._rows[-1] |= self._weights()

    def _read_parameters(self) -> None:
        self._named = [
            (name.removeprefix("_orig_mod."), p)
            for name, p in self.model.named_parameters()
            if not nn.parameter.is_lazy(p)
        ]
        self._parameter_ids = {id(p) for _, p in self._named}
        self._is_lazy = any(map(nn.parameter.is_lazy, self.model.parameters()))

    def give_up(self, error: Exception) -> None:
        """Stop watching, and say why.

        Parameters
        ----------
        error : Exception
            What a hook ran into.
        """
        self.has_given_up = True
        self.unseen.append(
            f"watching ended after {self.n_updates:,} updates, at an error of its own: "
            f"{type(error).__name__}: {error}"
        )
        warn_user(f"hardzero.watch: {self.unseen[-1]}")

    # What is known

    @property
    def units(self) -> dict[str, dict[str, Any]]:
        """For each site what `UnitCounter.facts` says of its units."""
        return {name: counter.facts() for name, counter in self._counters.items()}

    @property
    def zeros_by_class(self) -> dict[str, dict[int, float]]:
        """For each site and class the share of zeros in the rows of that class.

        Of the updates in which signals are measured, where the loss is a module that
        takes whole numbers up to 1,000 as targets.
        """
        found = {}
        for name, (counts, shares) in self._by_class.items():
            seen = counts.nonzero()[:, 0].tolist()
            found[name] = {c: float(shares[c] / counts[c]) for c in seen}
        return found

    def maker_of(self, site: str) -> str:
        """Return the name of the module that makes what goes into a site.

        Parameters
        ----------
        site : str
            Name of the site.

        Returns
        -------
        str
            Empty for the model itself, or if it is not known.
        """
        return self._counters[site].maker

    def is_recurrent(self, site: str) -> bool:
        """Return whether a site is a recurrent layer, or called at each time step.

        Parameters
        ----------
        site : str
            Name of the site.

        Returns
        -------
        bool
            False if it is not known.
        """
        counter = self._counters.get(site)
        return counter is not None and (
            counter.site.function.startswith("rnn_") or f"{site}#4" in self._counters
        )

    @property
    def records(self) -> list[dict[str, float]]:
        """One row a block: the update, and numbers under names such as "zeros/1".

        Names are ``loss``, ``zeros/SITE`` (share of exact zeros), ``signal/SITE`` and
        ``gradient/SITE`` (root mean squares of outputs and of the loss's gradient with
        respect to them), ``rank/SITE`` (effective rank), ``dormant/SITE`` (share of
        units with a score up to 0.025), ``gradient/PARAMETER``, ``weight/PARAMETER``
        (Euclidean norms), ``update/PARAMETER`` (norm of the change to that of the
        weights), ``silent/SITE`` (share of rows in which no unit fires),
        ``reached/PARAMETER`` (share of entries with a gradient that is not 0), and
        ``balance/SITE`` (sum over units of the squared norm of what comes in less that
        of what goes out, which gradient flow keeps), and with a probe ``flips/SITE``
        (share of outputs on the probe that went on or off since the row before that has
        it). ``update``, ``reached``
        are taken from up to 4,096 entries, ranks from up to 64 rows.
        """
        return [_plain(row) for row in self._rows]

    def write(self, logger: Any) -> None:
        """Write `records` to a logger of experiments.

        Parameters
        ----------
        logger : object
            TensorBoard's ``SummaryWriter``, or anything with a method or function
            ``add_scalar(name, value, step)``, ``log_metrics(dict, step=...)`` (MLflow)
            or ``log(dict, step=...)`` (Weights & Biases, trackio).

        Raises
        ------
        ParameterError
            If it has none of these.
        """
        for row in self.records:
            step = int(row.pop("update"))
            if hasattr(logger, "add_scalar"):
                for name, value in row.items():
                    logger.add_scalar(name, value, step)
            elif hasattr(logger, "log_metrics"):
                logger.log_metrics(row, step=step)
            elif hasattr(logger, "log"):
                logger.log(row, step=step)
            else:
                raise ParameterError(
                    f"logger is a {type(logger).__name__}, expected one with "
                    "add_scalar, log_metrics or log."
                )

    def diagnose(self, data: Any, loss: Any = None) -> Diagnosis:
        """Say what is wrong with the network, and when it began.

        Parameters
        ----------
        data : DataLoader, tuple or array
            As for `hardzero.diagnose`.
        loss : callable, optional
            As there.

        Returns
        -------
        Diagnosis
            That of `hardzero.diagnose`, with what the training adds: when units died
            and what happened then, the first value that was not finite, parameters that
            never moved, loss of plasticity.

        Raises
        ------
        ParameterError
            If the data cannot be used.
        """
        from hardzero.diagnostics.diagnose import diagnose
        from hardzero.diagnostics.dynamics import with_history

        found = diagnose(self.model, data, loss, self.optimizer)
        return with_history(found, self)

    def __str__(self) -> str:
        """Return one line for each site, and one for the training."""
        from hardzero.diagnostics.dynamics import summary

        return summary(self)

    # Loops without PyTorch's hooks

    def begin_update(self) -> None:
        """Say that an update begins, where a framework calls no hooks of PyTorch."""
        if self._is_sampled:
            self._outermost = self.model
            self._mode.enter_context(
                watching_calls(self.model, self._see_call, inside=self.model)
            )

    def end_update(self) -> None:
        """Say that it has ended."""
        self._outermost = None
        self._mode.close()
        self._count_update()

    # Hooks on the model

    @_harmless
    def _before(self, module: nn.Module, _: Any) -> None:
        if self._outermost is not None or not self._counts():
            return
        if get_ident() != self._thread or _is_symbolic():
            return  # modes are those of a thread
        if self._is_lazy:
            self._read_parameters()
            if self._is_lazy:
                return  # this pass makes the parameters
        self._outermost = module
        self._is_whole |= module is self.model
        for name in self._hooked:
            self._hooked[name] = 0
        if not self._is_sampled:
            return
        # Once all rectifiers are modules with hooks, look only now and then for others.
        if self._has_functions or self._is_thorough:
            self._mode.enter_context(
                watching_calls(self.model, self._see_call, inside=module)
            )

    def _after(self, module: nn.Module, inputs: Any, named: Any, outputs: Any) -> None:
        if self._outermost is not module or get_ident() != self._thread:
            return
        self._outermost = None
        self._mode.close()
        self._last_pass = module, inputs, named, outputs
        if self._loss_module is None:  # else a look at the loss is enough
            self._look_for_bad()
            if self._is_sampled:
                self._loss = _loss_among(outputs)

    def _counts(self) -> bool:
        return bool(self.model.training and torch.is_grad_enabled())

    @property
    def _is_thorough(self) -> bool:
        """Whether ranks, balances and sizes of updates are due in this block."""
        return self.n_updates < self.every or self._n_blocks % _SLOWER == 0

    @_harmless
    def _see_call(self, call: Call) -> None:
        if call.site.kind == "softmax" or call.after.is_complex():
            return
        if not call.after.numel() or call.after.layout != torch.strided:
            return
        counter = self._counters.get(call.site.name)
        if counter is None:
            counter = UnitCounter(
                call.site,
                call.after.shape[call.unit_axis],
                call.unit_axis,
                call.after.ndim,
                call.after.device,
                call.maker,
            )
            self._counters[call.site.name] = counter
            self._hook(call)
        if call.site.module not in self._hooked:
            self._has_functions = True
            self._see_outputs(counter, call.after)

    def _hook(self, call: Call) -> None:
        """See a module that is a rectifier in every pass, this one included."""
        prefix = call.site.module
        module = self.model.get_submodule(prefix)
        if not call.site.is_rectifier or not isinstance(module, _MODULES):
            return
        if prefix in self._hooked:
            return
        label = prefix or "model"
        names = [label]  # of its uses within one pass
        self._hooked[prefix] = 0

        def see(_: nn.Module, __: Any, outputs: Tensor) -> None:
            if self._outermost is None or not isinstance(outputs, Tensor):
                return
            number = self._hooked[prefix]
            self._hooked[prefix] = number + 1
            if number == len(names):
                names.append(f"{label}#{number + 1}")
            counter = self._counters.get(names[number])
            if counter is None or self.has_given_up:
                return
            if self._is_sampled:
                self._see_outputs(counter, outputs)
                return
            try:  # as _harmless does, without the time of another call
                counter.count(outputs)
            except Exception as error:  # noqa: BLE001
                self.give_up(error)

        self._exit.callback(module.register_forward_hook(_Hook(see)).remove)

    @_harmless
    def _see_outputs(self, counter: UnitCounter, outputs: Tensor) -> None:
        with torch._C.DisableTorchFunction():  # our own calls are none of the model's
            if counter.site.is_rectifier:
                counter.count(outputs)
            is_due = self._is_sampled and self._is_thorough
            is_due = is_due and outputs.numel() > 0 and counter.fits(outputs)
            if is_due and f"signal/{counter.site.name}" not in self._row:
                self._measure(counter.site.name, counter, outputs)

    def _measure(self, name: str, counter: UnitCounter, outputs: Tensor) -> None:
        """Measure the size, rank and gradient of outputs."""
        row = self._row
        h = outputs.detach()
        row[f"signal/{name}"] = _root_mean_square(h)
        if outputs.requires_grad:

            def see(gradient: Tensor) -> None:
                size = _root_mean_square(gradient.detach())
                row.setdefault(f"gradient/{name}", size)

            outputs.register_hook(see)
        units = h.movedim(counter.unit_axis, -1).reshape(-1, counter.n_units)
        sizes = units.abs().float().mean(0)
        if counter.site.is_rectifier and counter.unit_axis > 0:
            shares = (h <= 0).flatten(1).float().mean(1)
            row[f"silent/{name}"] = (shares == 1).float().mean()
            self._shares[name] = shares
        row[f"dormant/{name}"] = (sizes <= _DORMANT * sizes.mean()).float().mean()
        step = max(len(units) // _ROWS, 1)
        row[f"rank/{name}"] = _effective_rank(units[::step][:_ROWS].float())

    @_harmless
    def _look_for_bad(self) -> None:
        """Look once for outputs that are not finite, and for what made them."""
        if self.first_bad is not None or self._last_pass is None:
            return
        result = main_output(self._last_pass[-1])
        if result is None or not result.is_floating_point():
            return
        if result.device.type != "cpu" and not self._is_sampled:
            return  # reading a number back would make the device wait
        if math.isfinite(float(result.detach().sum())):
            return
        if bool(torch.isfinite(result.detach()).all()):
            return  # only their sum is too large
        bad = tuple(
            name
            for name, p in self.model.named_parameters()
            if not bool(torch.isfinite(p.detach()).all())
        )
        self.first_bad = FirstBad(self.n_updates, bad)
        if not bad:
            self._find_operation(*self._last_pass[:3])

    def _find_operation(self, part: Any, inputs: Any, named: Any) -> None:
        """Run the pass again, to see which operation put out what is not finite."""
        found = self.first_bad
        assert found is not None

        def every(module: str, name: str, result: Tensor) -> None:
            if found.function or not result.is_floating_point() or "mask" in name:
                return
            is_bad = ~torch.isfinite(result)
            if result.ndim and bool(is_bad.any()):
                found.module, found.function = module, name
                rows = is_bad.reshape(len(is_bad), -1).any(1).nonzero()
                found.example = int(rows[0])

        names = {id(m): name for name, m in self.model.named_modules()}
        twin = copy.deepcopy(self.model)  # models may count their passes
        with left_alone(twin), torch.no_grad():
            twin.train()
            with watching_calls(twin, lambda _: None, every):
                twin.get_submodule(names[id(part)])(*inputs, **named)

    def _count_by_class(self, targets: Any) -> None:
        """Add the zeros of each row to those of its class."""
        shares, self._shares = self._shares, {}
        if not isinstance(targets, Tensor) or targets.ndim != 1 or not len(targets):
            return
        if targets.is_floating_point() or targets.is_complex():
            return
        n_classes = int(targets.max()) + 1
        if int(targets.min()) < 0 or n_classes > _MOST_CLASSES:
            return
        for name, of_rows in shares.items():
            if len(of_rows) != len(targets):
                continue
            sums = of_rows.new_zeros(2, n_classes, dtype=torch.float64)
            sums[0].index_add_(0, targets, torch.ones_like(of_rows).double())
            sums[1].index_add_(0, targets, of_rows.double())
            before = self._by_class.get(name, sums[:, :0])
            missing = abs(before.shape[1] - n_classes)
            small, large = sorted((before, sums), key=lambda s: s.shape[1])
            self._by_class[name] = large + nn.functional.pad(small, (0, missing))

    @_harmless
    def _see_loss(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        if (
            isinstance(module, _Loss)
            and isinstance(outputs, Tensor)
            and outputs.numel() == 1
            and outputs.requires_grad
        ):
            self._loss, self._loss_module = outputs.detach(), module
            if self._shares:
                self._count_by_class(inputs[1] if len(inputs) > 1 else None)
            is_cheap = outputs.device.type == "cpu" or self._is_sampled
            if is_cheap and not math.isfinite(self._loss.item()):
                self._look_for_bad()

    def _settle(self) -> None:
        """Keep only the hooks that the first update has shown to be needed."""
        if self._is_whole and self._loss is None and self._loss_module is None:
            self.unseen.append(
                "the loss is a function call, which no hook sees; make it a module, "
                "such as torch.nn.CrossEntropyLoss(), to have it in the records."
            )
        if self._is_whole and self._loss_module is not None:
            self._first_hooks.close()
            hook = self._loss_module.register_forward_hook(_Hook(self._see_loss))
            self._exit.callback(hook.remove)

    # Hooks on optimizers

    def _is_ours(self, optimizer: Any) -> bool:
        return any(
            id(p) in self._parameter_ids
            for group in optimizer.param_groups
            for p in group["params"]
        )

    @_harmless
    def _before_step(self, optimizer: Any, _: Any, __: Any) -> None:
        if not self._is_sampled or not self._is_ours(optimizer):
            return
        named = [
            (name, p, p.grad)
            for name, p in self._named
            if p.grad is not None and p.grad.layout == torch.strided
        ]
        if not named:
            return
        gradients = [gradient.detach() for _, _, gradient in named]
        self._row["gradients"] = (
            [f"gradient/{name}" for name, _, _ in named],
            _norms(gradients),
        )
        large = [(name, p, g) for name, p, g in named if p.ndim > 1]
        if large and self._is_thorough:
            names = [name for name, _, _ in large]
            tensors = [p for _, p, _ in large]
            self._samples = names, tensors, [_sampled(p).clone() for p in tensors]
            parts = [_sampled(g) for _, _, g in large]
            counts = torch.stack([torch.count_nonzero(part) for part in parts])
            sizes = torch.tensor([part.numel() for part in parts])
            self._row["reached"] = (
                [f"reached/{name}" for name in names],
                counts / sizes.to(counts.device),
            )

    @_harmless
    def _after_step(self, optimizer: Any, _: Any, __: Any) -> None:
        if self._is_ours(optimizer):
            self._count_update()

    def _count_update(self) -> None:
        ends_block = self._is_sampled
        self.n_updates += 1
        self._last_pass = None
        if ends_block:
            self._close_block()
        number = self.n_updates + 1
        self._is_sampled = number <= self.every or number % self.every == 0
        if self.n_updates == 1:
            self._settle()

    def _close_block(self) -> None:
        row = self._row
        row["update"] = self.n_updates
        if self._loss is not None:
            row["loss"] = self._loss
        for name, counter in self._counters.items():
            zeros = counter.close_block(self._last_closed, self.n_updates)
            if zeros is not None:
                row[f"zeros/{name}"] = zeros
        if self._samples is not None:
            names, tensors, before = self._samples
            changes = torch._foreach_sub([_sampled(p) for p in tensors], before)
            sizes = _norms(before).clamp(min=1e-30)
            row["updates"] = [f"update/{n}" for n in names], _norms(changes) / sizes
        if self._is_thorough:
            self._read_parameters()  # heads get replaced
            row |= dict(self._balances())
            row |= self._weights()
            row |= self._flips()
        self._samples, self._row = None, {}
        if self._n_blocks % self._stride == 0:
            # Elsewhere, reading numbers back would make the device wait.
            is_on_cpu = all(p.device.type == "cpu" for _, p in self._named[:1])
            self._rows.append(_plain(row) if is_on_cpu else row)
        self._n_blocks += 1
        self._last_closed = self.n_updates
        if len(self._rows) > _MOST_ROWS:  # every second one is enough from now on
            del self._rows[1::2]
            self._stride *= 2

    def _weights(self) -> dict[str, Any]:
        if not self._named:
            return {}
        names = [f"weight/{name}" for name, _ in self._named]
        return {"weights": (names, _norms([p.detach() for _, p in self._named]))}

    def _flips(self) -> dict[str, Tensor]:
        """Return for each rectifier the share of its outputs that went on or off."""
        if self._probe is None:
            return {}
        patterns: dict[str, Tensor] = {}

        def see(call: Call) -> None:
            if call.site.is_rectifier:
                patterns[call.site.name] = call.after.detach() > 0

        with (
            left_alone(self.model),
            torch.no_grad(),
            watching_calls(self.model, see),
        ):
            call_model(self.model, self._probe)
        before, self._patterns = self._patterns, patterns
        return {
            f"flips/{name}": (pattern ^ before[name]).float().mean()
            for name, pattern in patterns.items()
            if name in before and before[name].shape == pattern.shape
        }

    def _balances(self) -> Iterator[tuple[str, Tensor]]:
        """Yield for each rectifier layer how far it is out of balance."""
        if self._pairs is None:
            self._pairs = list(_pairs(self.model, self._counters.values()))
        for name, below, above in self._pairs:
            # Not as attributes: parametrised ones change buffers when they are read.
            kinds = [below._parameters.get("weight"), below._parameters.get("bias")]
            incoming = [p for p in kinds if p is not None]
            outgoing = above._parameters.get("weight")
            if kinds[0] is None or outgoing is None:
                continue
            sides = [*incoming, outgoing]
            squares = _norms([side.detach() for side in sides]).square()
            yield f"balance/{name}", squares[:-1].sum() - squares[-1]


_of_any_optimizer: Final = _AnyOptimizer()


def _plain(row: dict[str, Any]) -> dict[str, float]:
    """Return a row with numbers in place of tensors."""
    plain: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, tuple):  # names, a tensor of as many numbers
            plain |= dict(zip(value[0], value[1].tolist(), strict=True))
        else:
            plain[name] = float(value)
    return plain


def _is_symbolic() -> bool:
    """Return whether a pass is traced, exported or transformed, and has no numbers."""
    return bool(
        torch.jit.is_tracing()
        or torch.compiler.is_compiling()
        or torch._C._functorch.peek_interpreter_stack() is not None
    )


def _loss_among(outputs: Any) -> Tensor | None:
    """Return the loss that a model computes itself, if it puts one out."""
    if isinstance(outputs, Tensor):
        parts: Iterable[Any] = [outputs]
    elif isinstance(outputs, Mapping):
        parts = [outputs.get("loss")]
    elif isinstance(outputs, (tuple, list)):
        parts = outputs
    else:
        parts = [getattr(outputs, "loss", None)]
    for part in parts:
        if isinstance(part, Tensor) and not part.ndim and part.requires_grad:
            return part.detach()
    return None


def _root_mean_square(values: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(values, dtype=torch.float32)
    return norm * values.numel() ** -0.5


def _norms(tensors: list[Tensor]) -> Tensor:
    """Return Euclidean norms as one tensor."""
    return torch.stack([norm.float() for norm in torch._foreach_norm(tensors)])


def _sampled(values: Tensor) -> Tensor:
    """Return up to 4,096 entries: 64 runs of neighbours, evenly spaced."""
    flat = values.detach().reshape(-1)
    length = len(flat) // _RUNS
    return (
        flat if length <= _RUNS else flat[: length * _RUNS].view(_RUNS, -1)[:, :_RUNS]
    )


def _effective_rank(rows: Tensor) -> Tensor:
    """Return exp of the entropy of singular values (Roy & Vetterli 2007)."""
    rows = rows / rows.abs().max().clamp(min=1e-30)
    try:
        values = torch.linalg.eigvalsh(rows @ rows.t()).clamp(min=0).sqrt()
    except torch.linalg.LinAlgError:  # of what is not finite
        return torch.tensor(math.nan)
    shares = values / values.sum().clamp(min=1e-30)
    return torch.exp(-(shares * (shares + 1e-30).log()).sum())


def _pairs(
    model: nn.Module, counters: Iterable[UnitCounter]
) -> Iterator[tuple[str, nn.Module, nn.Module]]:
    """Yield rectifiers between two linear maps, and those maps."""
    modules = dict(model.named_modules())
    linear = [m for m in modules.values() if isinstance(m, nn.Linear)]
    rectifiers = [c for c in counters if c.site.is_rectifier]
    makers = [modules.get(c.maker) for c in rectifiers]
    followers = [*makers[1:], *linear[-1:]]
    for counter, below, above in zip(rectifiers, makers, followers, strict=False):
        if (
            isinstance(below, nn.Linear)
            and isinstance(above, nn.Linear)
            and above is not below
            and above.in_features == below.out_features
        ):
            yield counter.site.name, below, above
