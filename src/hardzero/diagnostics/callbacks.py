"""Watch a training that a framework runs: one callback for each.

Each function returns an instance of the framework's own callback class with a `watch`,
which is a `hardzero.diagnostics.monitor.Watch` once the training has begun.
scikit-learn's callbacks have no place here: as of 1.9 none of its neural networks
calls them.
"""

from typing import TYPE_CHECKING, Any

from hardzero.diagnostics.watch import watch
from hardzero.errors import ParameterError

if TYPE_CHECKING:
    from hardzero.diagnostics.monitor import Watch

__all__ = ["keras", "lightning", "skorch", "transformers"]


def lightning(every: int = 10) -> Any:
    """Return a callback for ``lightning.Trainer``.

    Parameters
    ----------
    every : int, default=10
        As for `hardzero.watch`.

    Returns
    -------
    Callback
        Of ``lightning.pytorch``, or of ``pytorch_lightning`` where only that is
        installed.

    Raises
    ------
    ParameterError
        If neither is installed.
    """
    try:
        from lightning.pytorch.callbacks import Callback
    except ImportError:
        try:
            from pytorch_lightning.callbacks import Callback
        except ImportError:
            raise _missing("lightning") from None

    class WatchCallback(_Watching, Callback):  # type: ignore[misc]
        def on_train_start(self, _: Any, module: Any) -> None:
            self.begin(module)

        def on_train_end(self, _: Any, __: Any) -> None:
            self.end()

        def on_exception(self, _: Any, __: Any, ___: BaseException) -> None:
            self.end()

    return WatchCallback(every)


def skorch(every: int = 10) -> Any:
    """Return a callback for the networks of skorch.

    Parameters
    ----------
    every : int, default=10
        As for `hardzero.watch`.

    Returns
    -------
    Callback
        Of ``skorch.callbacks``.

    Raises
    ------
    ParameterError
        If skorch is not installed.
    """
    try:
        from skorch.callbacks import Callback
    except ImportError:
        raise _missing("skorch") from None

    class WatchCallback(_Watching, Callback):  # type: ignore[misc]
        def on_train_begin(self, net: Any, **_: Any) -> None:
            self.begin(net.module_)

        def on_train_end(self, _: Any, **__: Any) -> None:
            self.end()

    return WatchCallback(every)


def transformers(every: int = 10) -> Any:
    """Return a callback for the ``Trainer`` of Hugging Face.

    Parameters
    ----------
    every : int, default=10
        As for `hardzero.watch`.

    Returns
    -------
    TrainerCallback
        Of ``transformers``.

    Raises
    ------
    ParameterError
        If transformers is not installed.
    """
    try:
        from transformers import TrainerCallback
    except ImportError:
        raise _missing("transformers") from None

    class WatchCallback(_Watching, TrainerCallback):  # type: ignore[misc]
        def on_train_begin(
            self, _: Any, __: Any, ___: Any, model: Any = None, **____: Any
        ) -> None:
            self.begin(model)

        def on_train_end(self, _: Any, __: Any, ___: Any, **____: Any) -> None:
            self.end()

    return WatchCallback(every)


def keras(every: int = 10) -> Any:
    """Return a callback for ``fit`` of Keras with its PyTorch backend.

    Keras has optimizers of its own and calls no hooks of PyTorch, so that an update is
    a batch of ``fit``, activations are counted in the measured ones only, and they are
    named by their order.

    Parameters
    ----------
    every : int, default=10
        As for `hardzero.watch`.

    Returns
    -------
    Callback
        Of ``keras.callbacks``.

    Raises
    ------
    ParameterError
        If Keras is not installed, or its backend is not PyTorch.
    """
    try:
        import keras as framework
    except ImportError:
        raise _missing("keras") from None
    if framework.backend.backend() != "torch":
        raise ParameterError(
            f"Keras runs on {framework.backend.backend()}, expected torch. Set "
            "KERAS_BACKEND=torch before it is imported."
        )

    class WatchCallback(_Watching, framework.callbacks.Callback):  # type: ignore[misc]
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            self.begin(self.model)

        def on_train_batch_begin(self, *_: Any, **__: Any) -> None:
            self.watch.begin_update()

        def on_train_batch_end(self, *_: Any, **__: Any) -> None:
            self.watch.end_update()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            self.end()

    return WatchCallback(every)


class _Watching:
    """The part that all callbacks share."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self.every = every
        self.watch: Watch

    def begin(self, model: Any) -> None:
        self.watch = watch(model, every=self.every)
        self.watch.__enter__()

    def end(self) -> None:
        self.watch.__exit__(None, None, None)


def _missing(package: str) -> ParameterError:
    return ParameterError(f"{package} is not installed. Run pip install {package}.")
