"""The callbacks of scikit-learn 1.9 and later; nothing happens before it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hardzero.engine.train import Epoch

if TYPE_CHECKING:

    class CallbackSupportMixin:
        """As scikit-learn's, which has no types."""

        def _init_callback_context(self, *, max_subtasks: int) -> Any: ...

    def with_callbacks(method: Any) -> Any:
        """As scikit-learn's, which has no types."""
else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ImportError:  # scikit-learn before 1.9

        class CallbackSupportMixin:
            """Stands for the mixin that this scikit-learn does not have."""

        def with_callbacks(method: Any) -> Any:
            """Return the method as it is."""
            return method


__all__ = ["CallbackSupportMixin", "EpochCallbacks", "with_callbacks"]


class EpochCallbacks:
    """Tells the callbacks of an estimator about its `fit`, each epoch being a task.

    Parameters
    ----------
    estimator : CallbackSupportMixin
        Estimator in its `fit`.
    n_epochs : int
        Number of epochs to come, at most.
    fitted : callable
        Gives the attributes that make the estimator predict as it is at the moment.
    X, y : array-like
        Training data as the user gave them.
    sample_weight : array-like or None
        Weights of the rows as the user gave them.
    """

    def __init__(
        self,
        estimator: CallbackSupportMixin,
        n_epochs: int,
        fitted: Callable[[], dict[str, Any]],
        X: Any,
        y: Any,
        sample_weight: Any,
    ) -> None:
        self.stopped = False
        self._n_left = n_epochs
        self._begun: dict[str, Any] = {"estimator": estimator, "X": X, "y": y}
        if sample_weight is not None:
            self._begun["metadata"] = {"sample_weight": sample_weight}
        self._ended = self._begun | {"reconstruction_attributes": fitted}
        self._fit: Any = None
        if hasattr(estimator, "_init_callback_context"):
            self._fit = estimator._init_callback_context(max_subtasks=n_epochs)
            self._fit.call_on_fit_task_begin(**self._begun)
            self._begin_epoch()

    def after_epoch(self, epoch: Epoch) -> bool:
        """Report the end of an epoch.

        Parameters
        ----------
        epoch : Epoch
            The finished epoch.

        Returns
        -------
        bool
            Whether a callback wants training to end.
        """
        if self._fit is not None:
            self.stopped = bool(self._epoch.call_on_fit_task_end(**self._ended))
            if self._n_left > 0 and not self.stopped:
                self._begin_epoch()
        return self.stopped

    def after_fit(self) -> None:
        """Report the end of `fit`; its attributes are set."""
        if self._fit is not None:
            self._fit.call_on_fit_task_end(**self._ended)

    def _begin_epoch(self) -> None:
        self._epoch = self._fit.subcontext(task_name="epoch")
        self._epoch.call_on_fit_task_begin(**self._begun)
        self._n_left -= 1
