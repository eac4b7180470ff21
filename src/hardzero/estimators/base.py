"""What all supervised estimators share: one way to train, and to use what was learned.

A fit reads from left to right: `_read` checks the user's data and codes the targets,
`_train` hands them to the engine, `_keep` makes fitted attributes of what comes back.
A public estimator adds its constructor, what its targets mean and its predictions.
"""

import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.metrics import check_scoring
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from hardzero import kernels
from hardzero.engine.checkpoint import Checkpoint
from hardzero.engine.forward import ForwardPass
from hardzero.engine.initialise import initialise
from hardzero.engine.objectives import Objective, parse_objective
from hardzero.engine.schedules import parse_schedule
from hardzero.engine.task import describe_task
from hardzero.engine.train import Settings, Trained, TrainingState, Validation, train
from hardzero.errors import DataError, ParameterError, warn_user
from hardzero.estimators.callbacks import (
    CallbackSupportMixin,
    EpochCallbacks,
    with_callbacks,
)
from hardzero.estimators.inputs import (
    check_mask,
    naming,
    read_features,
    read_rows,
    read_table,
)
from hardzero.estimators.parameters import (
    changes_between,
    check_hidden_activations,
    check_parameter,
    check_parameters,
    choose_batch_size,
    draw_seed,
)
from hardzero.estimators.pretraining import (
    Pretrained,
    Unlabeled,
    describe_pretraining,
    is_fitted,
    kept_seed,
    pretrain,
)
from hardzero.estimators.scoring import name_scorer, score_rows
from hardzero.estimators.split import split_off_validation_rows
from hardzero.estimators.targets import Classes, Coding
from hardzero.estimators.weights import read_weights
from hardzero.kernels.network import Matrix, Network
from hardzero.kernels.options import StepOptions
from hardzero.kernels.rules import SGD, Adam, Rule, plain_float
from hardzero.results import FitHistory
from hardzero.stack import RectifierStack
from hardzero.threads import count_threads

__all__ = ["RectifierEstimator", "Rows"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows to learn from, checked and coded.

    Parameters
    ----------
    X : C-contiguous ndarray or canonical CSR matrix of shape (n_samples, n_features)
        Features.
    codes : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Coded targets.
    sample_weight : ndarray of float64 of shape (n_samples,) or None
        Weights; None means all 1.
    unlabeled : Unlabeled, optional
        Rows that came with them but have no targets.
    """

    X: Matrix
    codes: Array
    sample_weight: Array | None
    unlabeled: Unlabeled | None = None


@dataclass(frozen=True, eq=False)
class _Training:
    """All that later training goes on from; `state` holds the network's arrays."""

    seed: int
    structure: dict[str, str]
    coding: Coding
    stack: RectifierStack
    state: TrainingState
    pretraining: tuple[FitHistory, ...]


class RectifierEstimator(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
    """Base of the estimators that train a rectifier network on rows with targets."""

    stack_: RectifierStack
    history_: FitHistory
    _forward: ForwardPass
    _coding: Coding
    _training: _Training | None  # None where an interrupt has left half an epoch
    _is_incremental: bool
    _default_scoring: ClassVar[str | None] = None
    _mark: ClassVar[str] = "NaN"  # of rows without a target

    # ------------------------------------------------------------------ training

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_unlabeled: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
    ) -> Self:
        """Train the network.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features, finite. Sparse matrices of any format are used as CSR and never
            made dense. Features that are not float32 or float64 become float32.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets, as the class describes them.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row, 0 or more. The objective is the weighted mean of the
            rows' losses, plus penalties: only the ratios of weights matter, a row of
            weight 0 is as good as absent, and with all rows in one batch a row of
            weight 2 is as good as two.
        X_unlabeled : array-like or sparse matrix of shape (n_unlabeled, n_features), \
optional
            More rows to pre-train on, without targets, each counting as much as a row
            of `X` on average; for `pretraining` only. They need not be as many as rows
            of `X`, and searches and cross-validation that route them as metadata hand
            them on whole, unless they are exactly as many, which scikit-learn takes for
            one value a row. Rows of `X` without targets may be marked in `y` instead.
        X_val : array-like or sparse matrix of shape (n_validation, n_features), \
optional
            Validation rows. The weights of the best epoch on them are kept; with
            ``early_stopping`` they also decide when to stop. They need not be as many
            as rows of `X`, and searches and cross-validation that route them as
            metadata hand them on whole.
        y_val : array-like of shape (n_validation,) or (n_validation, n_outputs), \
optional
            Targets of the validation rows, no labels that `y` does not have.
        sample_weight_val : array-like of shape (n_validation,), optional
            Weights of the validation rows.

        Returns
        -------
        self : RectifierEstimator
            The fitted estimator.

        Raises
        ------
        ParameterError
            If a parameter of the estimator is not allowed.
        DataError
            If rows, weights or validation rows do not fit, there are too few rows to
            set some aside, or the checkpoint is one of another task.
        ValueError
            If scikit-learn's checks do not accept `X` and `y`.
        DivergenceError
            If weights or losses stop being finite numbers.
        """
        check_parameters(self)
        before = self._previous_training() if self._goes_on() else None
        if before is None:
            self.__dict__.pop("stack_", None)  # a fit that fails leaves no half of one
        coding, rows = self._read(X, y, sample_weight, before)
        checkpoint = self._checkpoint()
        seed = self._seed(checkpoint) if before is None else before.seed
        validation = self._read_validation(
            X_val, y_val, sample_weight_val, rows, coding
        )
        chosen = None
        if validation is None and self.early_stopping:
            chosen, held_out = split_off_validation_rows(
                rows.X,
                self._strata(rows, coding),
                rows.sample_weight,
                self.validation_fraction,
                seed,
            )
            validation = _take(rows, held_out)
        pretrained = None
        if before is None and self._pretrains():
            unlabeled = self._read_unlabeled(X_unlabeled, rows)
            if checkpoint is not None:
                self._check(checkpoint, rows, coding, seed, chosen, validation)
            pretrained = self._pretrain(rows, unlabeled, coding, seed)
        elif X_unlabeled is not None:
            reason = "training goes on, and pre-training comes first"
            _warn_of_unused_rows(reason if before else "there is no pre-training")
        network, settings = self._build(rows, coding, seed, before, pretrained, chosen)

        def fitted() -> dict[str, Any]:
            return self._predicting(coding, network.stack())

        callbacks = EpochCallbacks(
            self, settings.max_epochs, fitted, X, y, sample_weight
        )
        trained = train(
            network,
            rows.X,
            rows.codes,
            settings=settings,
            seed=seed,
            objective=self._objective(coding),
            sample_weight=self._loss_weights(rows, coding),
            rows=chosen,
            validation=self._judge(validation, coding, network),
            start=None if before is None else before.state,
            n_epochs=None if before is None else settings.max_epochs,
            checkpoint=_told(checkpoint, pretrained),
            keeps_epochs=bool(self.warm_start),
            l1_activation=float(self.l1_activation),
            progress=bool(self.verbose),
            on_epoch=callbacks.after_epoch,
        )
        told = _pretraining(before, pretrained)
        self._keep(trained, network, coding, settings, seed, told, incremental=False)
        callbacks.after_fit()
        if trained.history.stopped == "interrupted" and not callbacks.stopped:
            _warn_of_interrupt(trained, self.checkpoint is not None)
        return self

    def _partial_fit(
        self, X: Any, y: Any, sample_weight: Any, coding: Coding | None = None
    ) -> Self:
        """Train one epoch on some rows; `coding` is used when it is the first."""
        check_parameters(self)
        if self.checkpoint is not None:
            raise ParameterError(
                f"checkpoint={self.checkpoint!r} was given, which partial_fit does not "
                "write: it cannot know all rows. Save the estimator between calls, or "
                "call fit."
            )
        before = self._previous_training() if hasattr(self, "stack_") else None
        if before is not None and self._are_marked(y, before.coding):
            X = read_features(self, X, dtype=before.stack.dtype, reset=False)
            check_consistent_length(X, y)
            read_weights(sample_weight, X.shape[0], "sample_weight")
            return self  # pre-training, for which they would do, comes first
        coding, rows = self._read(X, y, sample_weight, before, coding)
        seed = draw_seed(self.random_state) if before is None else before.seed
        pretrained = None
        if before is None and self._pretrains():
            pretrained = self._pretrain(rows, None, coding, seed)
        network, settings = self._build(rows, coding, seed, before, pretrained)
        trained = train(
            network,
            rows.X,
            rows.codes,
            settings=settings,
            seed=seed,
            objective=self._objective(coding),
            sample_weight=self._loss_weights(rows, coding),
            start=None if before is None else before.state,
            n_epochs=1,
            l1_activation=float(self.l1_activation),
            progress=bool(self.verbose),
        )
        told = _pretraining(before, pretrained)
        self._keep(trained, network, coding, settings, seed, told, incremental=True)
        if trained.history.stopped == "interrupted":
            _warn_of_interrupt(trained)
        return self

    def _compare_classes(self, coding: Classes) -> None:
        if not hasattr(self, "stack_") or not isinstance(self._coding, Classes):
            return
        now, then = coding.classes.tolist(), self._coding.classes.tolist()
        if now != then:
            raise DataError(
                f"classes are {now} and were {then} in the first training call. Give "
                "the same, or none; call fit to train anew."
            )

    def _goes_on(self) -> bool:
        return bool(self.warm_start) and hasattr(self, "stack_")

    def _previous_training(self) -> _Training:
        before: _Training | None = getattr(self, "_training", None)
        if before is None:
            raise ParameterError(
                "the state of the optimiser is not there any more: a pickle or a copy "
                "holds it only after partial_fit or with warm_start=True, or training "
                "was interrupted in the middle of an epoch. Set warm_start=True before "
                "the first fit, or call fit with warm_start=False to train anew."
            )
        changed = changes_between(before.structure, self._structure())
        if changed:
            raise ParameterError(
                f"the network that training goes on with is another one: "
                f"{'; '.join(changed)}. Set it back, or call fit with warm_start=False "
                "to train anew."
            )
        return before

    def _structure(self) -> dict[str, str]:
        """Return the parameters that cannot change between two calls."""
        fixed = {"hidden_sizes": str(tuple(self._hidden_sizes()))}
        names = ("solver", "batch_norm", "sign_flip", "fit_intercept")
        given = self.get_params(deep=False)
        for name in (*names, "loss", "target_scaling", "engine"):
            if name in given:
                fixed[name] = repr(_plain(given[name]))
        if "loss" in given:
            fixed["loss"] = repr(str(parse_objective(given["loss"])))
        activations = check_hidden_activations(
            self.activation, len(self._hidden_sizes())
        )
        fixed["activation"] = ", ".join(map(str, activations)) or "none"
        fixed["momentum"] = "above 0" if self.momentum else "0"
        return fixed

    # ------------------------------------------------------------------ reading

    def _read(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        before: _Training | None,
        coding: Coding | None = None,
    ) -> tuple[Coding, Rows]:
        dtype: Any = (np.float32, np.float64)
        if before is not None:
            coding, dtype = before.coding, before.stack.dtype
        is_unlabeled = None
        if self.pretraining is not None:
            check_mask(y, "y")
            y, is_unlabeled = self._separate(y, coding)
            _refuse_all(is_unlabeled, self._mark)
        X, y = read_table(
            self, X, y, dtype=dtype, reset=before is None, **self._target_form(y)
        )
        weights = read_weights(sample_weight, X.shape[0], "sample_weight")
        if weights is not None and weights.min() == 0:
            kept = np.flatnonzero(weights)
            X, y, weights = X[kept], y[kept], weights[kept]
            is_unlabeled = None if is_unlabeled is None else is_unlabeled[kept]
        unlabeled = None
        if is_unlabeled is not None and is_unlabeled.any():  # some may weigh 0
            kept = np.flatnonzero(~is_unlabeled)
            if len(kept) == 0:
                raise DataError(
                    "all rows with targets have weight 0, expected some above 0. Give "
                    "other weights."
                )
            without = weights if weights is None else weights[is_unlabeled]
            unlabeled = Unlabeled(X[np.flatnonzero(is_unlabeled)], without)
            X, y = X[kept], y[kept]
            weights = None if weights is None else weights[kept]
        if coding is None:
            coding = self._learn_coding(y, weights, X.dtype)
        return coding, Rows(X, coding.encode(y), weights, unlabeled)

    def _read_validation(
        self, X_val: Any, y_val: Any, sample_weight: Any, rows: Rows, coding: Coding
    ) -> Rows | None:
        given = {"X_val": X_val, "y_val": y_val}
        missing = [name for name, value in given.items() if value is None]
        if len(missing) == 2 and sample_weight is None:
            return None
        if missing:
            raise DataError(
                f"validation data were given without {' and '.join(missing)}. Give "
                "X_val and y_val both, or neither of them."
            )
        form = self._target_form(y_val)
        with naming(X="X_val", y="y_val"):
            X, y = read_table(
                self, X_val, y_val, dtype=rows.X.dtype, reset=False, **form
            )
            weights = read_weights(sample_weight, X.shape[0], "sample_weight_val")
        return Rows(X, coding.encode(y, "y_val"), weights)

    def _judge(
        self, rows: Rows | None, coding: Coding, network: Network
    ) -> Validation | None:
        """Return what judges epochs by validation rows."""
        if rows is None:
            return None
        weights = self._loss_weights(rows, coding)
        validation = Validation(rows.X, rows.codes, weights)
        scoring = self._default_scoring if self.scoring is None else self.scoring
        if scoring is None:
            return validation
        scorer = check_scoring(self, scoring)
        y = coding.decode(rows.codes)
        judged = copy.copy(self)
        judged.__dict__.pop("feature_names_in_", None)  # the rows have lost them

        def score(_: Array) -> float:
            judged.__dict__.update(self._predicting(coding, network.stack()))
            return score_rows(scorer, scoring, judged, rows.X, y, weights)

        return replace(validation, score=score)

    # ------------------------------------------------------------------ building

    def _build(
        self,
        rows: Rows,
        coding: Coding,
        seed: int,
        before: _Training | None,
        pretrained: Pretrained | None,
        chosen: Array | None = None,
    ) -> tuple[Network, Settings]:
        settings = self._settings(rows.X.shape[0] if chosen is None else len(chosen))
        if before is not None:
            stack = before.stack
        else:
            stack = self._first_stack(rows, coding, seed)
            stack = stack if pretrained is None else pretrained.put_into(stack)
        network = kernels.build(
            stack,
            self._rule(settings.learning_rate),
            engine=self.engine,
            l1_activation=float(self.l1_activation),
            options=self._options(seed),
            n_threads=count_threads(int(self.n_threads)),
        )
        return network, settings

    def _pretrains(self) -> bool:
        return self.pretraining is not None and bool(self._hidden_sizes())

    def _read_unlabeled(self, X_unlabeled: Any, rows: Rows) -> Unlabeled | None:
        if X_unlabeled is None:
            return None
        if is_fitted(self.pretraining):
            _warn_of_unused_rows("the hidden layers were trained before")
        with naming(X="X_unlabeled"):
            X = read_features(self, X_unlabeled, dtype=rows.X.dtype, reset=False)
        weights = rows.sample_weight
        if weights is not None:
            weights = np.full(X.shape[0], weights.mean())
        return Unlabeled(X, weights)

    def _pretrain(
        self, rows: Rows, more: Unlabeled | None, coding: Coding, seed: int
    ) -> Pretrained:
        """Return the hidden layers to start from."""
        with_targets = Unlabeled(rows.X, rows.sample_weight)
        parts = [
            part for part in (with_targets, rows.unlabeled, more) if part is not None
        ]
        return pretrain(self, parts, self._first_stack(rows, coding, seed), seed)

    def _settings(self, n_samples: int) -> Settings:
        rate = self.learning_rate
        if rate == "auto":
            rate = 0.001 if self.solver == "adam" else 0.05 * (1 - self.momentum)
        size = choose_batch_size(self.batch_size, n_samples)
        if self.batch_norm and size == 1 and self._hidden_sizes():
            raise ParameterError(
                f"batch_norm=True was given with mini-batches of 1 sample (batch_size="
                f"{self.batch_size!r}, {n_samples} to train on), which has no variance "
                "to normalise by, expected 2 or more. Give a batch_size of 32 or more "
                "and as many rows, or batch_norm=False."
            )
        return Settings(
            batch_size=size,
            max_epochs=int(self.max_epochs),
            learning_rate=float(rate),
            schedule=parse_schedule(self.learning_rate_schedule),
            patience=int(self.patience) if self.early_stopping else None,
            tol=None if self.early_stopping or self.tol is None else float(self.tol),
            n_stalled=int(self.patience),
            shuffle=bool(self.shuffle),
        )

    def _first_stack(self, rows: Rows, coding: Coding, seed: int) -> RectifierStack:
        hidden = self._hidden_sizes()
        return initialise(
            (rows.X.shape[1], *hidden, coding.n_outputs),
            check_hidden_activations(self.activation, len(hidden)),
            seed=seed,
            scheme=self.init,
            sign_flip=bool(self.sign_flip),
            dtype=rows.X.dtype,
            output_link=coding.link,
        )

    def _hidden_sizes(self) -> list[int]:
        sizes = np.atleast_1d(np.asarray(self.hidden_sizes, dtype=int))
        return [int(size) for size in sizes]

    def _rule(self, learning_rate: float) -> Rule:
        l2 = float(self.l2)
        if self.solver == "adam":
            return Adam(learning_rate, l2=l2)
        momentum = float(self.momentum)
        return SGD(learning_rate, momentum, nesterov=bool(self.nesterov), l2=l2)

    def _options(self, seed: int) -> StepOptions:
        return StepOptions(
            dropout=(float(self.input_dropout), *self._dropout()),
            batch_norm=bool(self.batch_norm),
            l1_weights=float(self.l1),
            max_norm=np.inf if self.max_norm is None else float(self.max_norm),
            clip_norm=np.inf if self.clip_norm is None else float(self.clip_norm),
            fit_biases=bool(self.fit_intercept),
            seed=seed,
        )

    def _dropout(self) -> list[float]:
        n_hidden = len(self._hidden_sizes())
        if np.ndim(self.dropout) == 0:
            return [float(self.dropout)] * n_hidden
        hidden = [float(rate) for rate in self.dropout]
        if len(hidden) != n_hidden:
            raise ParameterError(
                f"dropout has {len(hidden)} entries but hidden_sizes has {n_hidden}. "
                "Give one per hidden layer, or a single one for all; input_dropout is "
                "for the features."
            )
        return hidden

    def _checkpoint(self) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        names = (
            *("solver", "momentum", "nesterov", "l1_activation", "l1", "l2", "init"),
            *("input_dropout", "batch_norm", "max_norm", "clip_norm", "fit_intercept"),
            "engine",
        )
        task = {name: _plain(getattr(self, name)) for name in names}
        task["dropout"] = str(list(self._dropout()))
        task["scoring"] = name_scorer(self.scoring)
        task["pre-training"] = describe_pretraining(self) if self._pretrains() else None
        return Checkpoint(
            self.checkpoint,
            every_seconds=self.checkpoint_seconds,
            task={"estimator": type(self).__name__} | task,
        )

    def _check(
        self,
        checkpoint: Checkpoint,
        rows: Rows,
        coding: Coding,
        seed: int,
        chosen: Array | None,
        validation: Rows | None,
    ) -> None:
        """Refuse a file of another task before time is put into hidden layers."""
        network, settings = self._build(rows, coding, seed, None, None, chosen)
        known = describe_task(
            network,
            rows.X,
            rows.codes,
            self._loss_weights(rows, coding),
            np.arange(rows.X.shape[0]) if chosen is None else chosen,
            settings=settings,
            seed=seed,
            objective=self._objective(coding),
            validation=self._judge(validation, coding, network),
            more=checkpoint.task,
        )
        checkpoint.check(known)

    def _seed(self, checkpoint: Checkpoint | None) -> int:
        if checkpoint is not None and not isinstance(
            self.random_state, int | np.integer
        ):
            kept = checkpoint.seed()  # a run that is resumed keeps its draws
            kept = kept_seed(self) if kept is None else kept
            if kept is not None:
                return kept
        return draw_seed(self.random_state)

    # ------------------------------------------------------------------ keeping

    def _keep(
        self,
        trained: Trained,
        network: Network,
        coding: Coding,
        settings: Settings,
        seed: int,
        pretraining: tuple[FitHistory, ...],
        *,
        incremental: bool,
    ) -> None:
        history = replace(trained.history, pretraining=pretraining)
        training = None
        if trained.is_whole:
            state = trained.state
            at_end = state.network if state.network is not None else network.state()
            training = _Training(
                seed,
                self._structure(),
                coding,
                trained.stack,
                # What was best is forgotten: each fit has validation rows of its own.
                replace(state, best=None, network=at_end),
                pretraining,
            )
        fitted = self._predicting(coding, trained.stack) | {
            "history_": history,
            "n_iter_": history.n_epochs,
            "best_epoch_": history.best_epoch,
            "learning_rate_": settings.learning_rate,
            "batch_size_": settings.batch_size,
            "_is_incremental": incremental,
            "_training": training,
        }
        self.__dict__.update(fitted)  # all or, if Ctrl-C comes first, nothing

    def _predicting(self, coding: Coding, stack: RectifierStack) -> dict[str, Any]:
        """Return the attributes that predictions need."""
        return {
            "stack_": coding.finish(stack),
            "n_outputs_": stack.n_outputs,
            "out_activation_": stack.output_link,
            "_coding": coding,
            "_forward": ForwardPass(),
        }

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if not (self.warm_start or state.get("_is_incremental")):
            state.pop("_training", None)  # twice the size of the weights, or more
        return state

    # ------------------------------------------------------------------ using

    def transform(self, X: Any, layer: int = -1) -> Array:
        """Return the activations of a hidden layer, signs applied.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.
        layer : int, default=-1
            Number of the hidden layer, counted from 0, or from the last one backwards
            as -1, -2, ...

        Returns
        -------
        ndarray of shape (n_samples, n_units)
            Activations.

        Raises
        ------
        DataError
            If inputs are so large that the activations overflow.
        ParameterError
            If there is no such layer, or names of columns were asked for by
            ``set_output`` for another layer than the last.
        """
        check_is_fitted(self)
        n_hidden = len(self.stack_.layers) - 1
        if n_hidden == 0:
            raise ParameterError(
                "transform gives hidden activations, but the network has no hidden "
                "layer. Give hidden_sizes at least one entry and fit again."
            )
        is_whole = isinstance(layer, int | np.integer)
        if not (is_whole and -n_hidden <= layer < n_hidden):
            raise ParameterError(
                f"layer={layer!r} was given to transform, but the network has "
                f"{n_hidden} hidden layers. Give a number from {-n_hidden} to "
                f"{n_hidden - 1}."
            )
        number = int(layer) % n_hidden + 1
        if number != n_hidden and self._names_columns():
            raise ParameterError(
                f"layer={layer} was given to transform, but set_output names the units "
                "of the last hidden layer only. Give layer=-1, or call "
                "set_output(transform='default')."
            )
        return self._outputs(X, number)

    def _outputs(self, X: Any, n_layers: int | None = None) -> Array:
        check_is_fitted(self)
        check_parameter(self, "engine")
        check_parameter(self, "n_threads")
        X = read_rows(self, X, self.stack_.dtype)
        return self._forward(
            self.stack_,
            X,
            n_layers=n_layers,
            engine=self.engine,
            n_threads=count_threads(int(self.n_threads)),
        )

    def _names_columns(self) -> bool:
        # What set_output was called with is kept by scikit-learn under this name.
        own = getattr(self, "_sklearn_output_config", {})
        config = own.get("transform", get_config()["transform_output"])
        return bool(config != "default")

    @property
    def loss_curve_(self) -> list[float]:
        """Mean loss of the training rows in each epoch, without penalties."""
        return list(self.history_.loss)

    @property
    def validation_loss_curve_(self) -> list[float]:
        """Mean loss of the validation rows after each epoch."""
        losses = list(self.history_.validation_loss)
        if not losses:
            raise AttributeError("there is no validation_loss_curve_" + _NOT_VALIDATED)
        return losses

    @property
    def validation_scores_(self) -> list[float]:
        """Score on the validation rows after each epoch."""
        history = self.history_
        scores = list(history.validation_score)
        if not scores:
            scores = [1.0 - error for error in history.validation_error]
        if not scores:
            raise AttributeError("there are no validation_scores_" + _NOT_VALIDATED)
        return scores

    @property
    def _n_features_out(self) -> int:
        return self.stack_.sizes[-2]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "stack_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # ------------------------------------------- what the public estimators decide

    def _with_targets(self, X: Any, y: Any, weights: Any) -> tuple[Any, Any, Any]:
        """Leave out rows that are marked as having no target."""
        check_is_fitted(self)
        if self.pretraining is None:
            return X, y, weights
        _, is_unlabeled = self._separate(y, self._coding)
        if is_unlabeled is None:
            return X, y, weights
        _refuse_all(is_unlabeled, self._mark)
        kept = np.flatnonzero(~is_unlabeled)
        rows, targets, *more = (
            _safe_indexing(part, kept) for part in (X, y, weights) if part is not None
        )
        return rows, targets, more[0] if more else None

    def _are_marked(self, y: Any, coding: Coding) -> bool:
        """Return whether all rows are marked as having no target."""
        if self.pretraining is None:
            return False
        check_mask(y, "y")
        _, is_unlabeled = self._separate(y, coding)
        return is_unlabeled is not None and bool(is_unlabeled.all())

    def _separate(self, y: Any, coding: Coding | None) -> tuple[Any, Array | None]:
        """Return targets, and which rows are marked as having none.

        What a mark is was decided with the coding, if there is one.
        """
        raise NotImplementedError

    def _target_form(self, y: Any) -> dict[str, bool]:
        """Return how scikit-learn shall check targets."""
        raise NotImplementedError

    def _learn_coding(
        self, y: Array, sample_weight: Array | None, dtype: npt.DTypeLike
    ) -> Coding:
        """Return the coding of checked targets."""
        raise NotImplementedError

    def _objective(self, coding: Coding) -> Objective:
        """Return what training makes small."""
        raise NotImplementedError

    def _loss_weights(self, rows: Rows, coding: Coding) -> Array | None:
        """Return the weights of rows in the loss."""
        return rows.sample_weight

    def _strata(self, rows: Rows, coding: Coding) -> Array:
        """Return the classes that a validation split keeps in proportion."""
        return coding.strata(rows.codes)


_NOT_VALIDATED = (
    ": training had no validation rows. Set early_stopping=True, or give X_val and "
    "y_val to fit. For losses without classes a score needs scoring, too."
)


def _told(
    checkpoint: Checkpoint | None, pretrained: Pretrained | None
) -> Checkpoint | None:
    """Return a checkpoint that is refused after another pre-training."""
    if checkpoint is None or pretrained is None:
        return checkpoint
    task = {**checkpoint.task, "pre-trained layers": pretrained.checksum()}
    return replace(checkpoint, task=task)


def _pretraining(
    before: _Training | None, pretrained: Pretrained | None
) -> tuple[FitHistory, ...]:
    if before is not None:
        return before.pretraining
    return () if pretrained is None else pretrained.histories


def _refuse_all(is_unlabeled: Array | None, mark: str) -> None:
    if is_unlabeled is not None and is_unlabeled.all():
        raise DataError(
            f"y is {mark} in all rows, expected some rows with targets. Use "
            "DenoisingAutoencoder to learn from rows without targets alone."
        )


def _warn_of_unused_rows(reason: str) -> None:
    warn_user(
        f"X_unlabeled is not used: {reason}. Set pretraining='denoising' and "
        "warm_start=False to learn from it, or leave it out."
    )


def _take(rows: Rows, chosen: Array) -> Rows:
    weights = rows.sample_weight
    return Rows(
        rows.X[chosen],
        rows.codes[chosen],
        None if weights is None else weights[chosen],
    )


def _plain(value: Any) -> str | int | float | bool | None:
    """Return what is written of a parameter, the same in every process."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return plain_float(value)


def _warn_of_interrupt(trained: Trained, has_checkpoint: bool = False) -> None:
    history = trained.history
    how = "to train from the start"
    if has_checkpoint:
        how = "to go on from the checkpoint"
    elif trained.is_whole:
        how += ", or, if warm_start=True, to go on"
    warn_user(
        f"training was interrupted; the weights of epoch {history.best_epoch} of "
        f"{history.n_epochs} are kept. Call fit again {how}."
    )
