"""The progress bar."""

import io
import os
import sys
import time
from pathlib import Path

import pytest

from hardzero.engine.progress import show_progress


def test_bar_shows_the_last_epoch(capsys):
    """The bar goes to standard error and shows what was told last."""
    with show_progress(10, 2, enabled=True) as bar:
        for _ in range(20):
            bar.advance(1)
        bar.describe("epoch 2  loss 0.5")
    shown = capsys.readouterr()
    assert not shown.out
    assert "100 %" in shown.err
    assert "epoch 2  loss 0.5" in shown.err


def test_disabled_bar_is_silent(capsys):
    """Without verbose nothing is shown."""
    with show_progress(10, 2, enabled=False) as bar:
        bar.advance(10)
        bar.describe("epoch 1")
    assert capsys.readouterr() == ("", "")


def _broken_pipe(kept):
    read, write = os.pipe()
    os.close(read)
    return kept(os.fdopen(write, "w", buffering=1))


def _closed(_kept):
    stream = io.StringIO()
    stream.close()
    return stream


def _full(kept):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    return kept(Path("/dev/full").open("w", buffering=1))


def _none(_kept):
    return None


class _ClosesLater(io.StringIO):
    """A terminal that is closed after the bar was first shown."""

    def isatty(self):
        return True

    def write(self, text):
        if self.getvalue():
            raise OSError("gone")
        return super().write(text)


@pytest.mark.parametrize(
    "gone", [_broken_pipe, _closed, _full, _none, lambda _kept: _ClosesLater()]
)
def test_bar_switches_itself_off(gone, monkeypatch):
    """Without a standard error that can be written to, the block runs on."""
    streams = []

    def kept(stream):
        streams.append(stream)
        return stream

    monkeypatch.setattr(sys, "stderr", gone(kept))
    n_done = 0
    with show_progress(10, 2, enabled=True) as bar:
        for _ in range(4):
            bar.advance(5)
            bar.describe("epoch")
            time.sleep(0.11)  # long enough to be shown from its own thread
            n_done += 1
    assert n_done == 4
    for stream in streams:
        with pytest.raises(OSError, match=r"Broken pipe|No space"):
            stream.close()  # what could not be written is still in its buffer
