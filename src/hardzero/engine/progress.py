"""A progress bar over the epochs of a training run."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["ProgressBar", "show_progress"]

_SECONDS_BETWEEN_UPDATES = 0.1


class ProgressBar(Protocol):
    """Something that is told how far training has come."""

    def advance(self, n_rows: int) -> None:
        """Count rows that went through a training step.

        Parameters
        ----------
        n_rows : int
            Number of rows.
        """
        ...

    def describe(self, text: str) -> None:
        """Show how the last finished epoch went.

        Parameters
        ----------
        text : str
            One line.
        """
        ...


@contextmanager
def show_progress(
    n_rows: int, max_epochs: int, *, enabled: bool, title: str = "training"
) -> Iterator[ProgressBar]:
    """Show a bar on standard error while the block runs.

    When standard error goes away meanwhile (a closed terminal or pipe, a full disk),
    the bar is not shown any more and nothing else happens.

    Parameters
    ----------
    n_rows : int
        Training rows in an epoch.
    max_epochs : int
        Planned number of epochs.
    enabled : bool
        False gives a bar that shows nothing and costs nothing.
    title : str, default="training"
        What is going on.

    Yields
    ------
    ProgressBar
        The bar.
    """
    if not enabled:
        yield _NoBar()
        return
    # Imported here because it takes longer to load than a small network to train.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    stream: Any = _UntilItFails(console.file)
    console.file = stream
    with Progress(
        TextColumn(title),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
        console=console,
    ) as display:
        yield _RichBar(display, display.add_task("", total=n_rows * max_epochs))


class _NoBar:
    def advance(self, n_rows: int) -> None:
        pass

    def describe(self, text: str) -> None:
        pass


class _UntilItFails:
    """A stream that swallows what is written after the first error."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._has_failed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._try(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, action: Callable[..., object], *arguments: str) -> None:
        if not self._has_failed:
            try:
                action(*arguments)
            except (OSError, ValueError):  # ValueError: the stream is closed
                self._has_failed = True


class _RichBar:
    def __init__(self, display: "Progress", task: "TaskID") -> None:
        self._display = display
        self._task = task
        self._waiting = 0
        self._last = 0.0

    def advance(self, n_rows: int) -> None:
        # An update takes a lock and would slow small batches down.
        self._waiting += n_rows
        now = time.perf_counter()
        if now - self._last > _SECONDS_BETWEEN_UPDATES:
            self._display.advance(self._task, self._waiting)
            self._waiting, self._last = 0, now

    def describe(self, text: str) -> None:
        self._display.advance(self._task, self._waiting)
        self._display.update(self._task, description=text)
        self._waiting = 0
