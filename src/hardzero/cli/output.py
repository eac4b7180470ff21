"""Print without ever failing the job that is reported on."""

import io
import os
import sys
from pathlib import Path


def prepare_streams() -> None:
    """Make standard output and standard error take any text.

    Letters that their encoding lacks are written as backslash escapes. A stream that
    was closed before the program started is replaced by one that discards.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # It stays open as long as the program runs, as these streams do.
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def report(text: str) -> None:
    """Print to standard output; if nobody can read it, the job is done all the same.

    Parameters
    ----------
    text : str
        What is good to know.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:  # the reader has gone, or the disk is full
        discard_output()


def discard_output() -> None:
    """Send what is still waiting for standard output, and what follows, nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
