"""Files that are replaced in one step."""

import os
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from hardzero import atomic
from hardzero.atomic import remove_leftovers, replacing


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path):
    """While the new content is written, and if that fails, the old file is there."""
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o640)

    def break_off():
        with replacing(path) as stream:
            stream.write(b"ne")
            raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        break_off()
    assert path.read_text() == "old"
    with replacing(path) as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_leftovers_of_this_file_alone(tmp_path):
    """Temporary files that a killed process left for this file are deleted."""
    left = []
    for name in ("file", "file2"):
        with replacing(tmp_path / name):
            (temporary,) = tmp_path.glob(".hardzero-*.tmp")
            left.append(temporary)
        (tmp_path / name).unlink()
    for temporary in left:
        temporary.touch()
    (tmp_path / "file.1.tmp").touch()
    remove_leftovers(tmp_path / "file")
    assert set(tmp_path.iterdir()) == {left[1], tmp_path / "file.1.tmp"}


def test_names_as_long_as_the_system_allows(tmp_path):
    """A name of 255 bytes leaves no room for more around it"""
    path = tmp_path / ("x" * 255)
    with replacing(path) as stream:
        stream.write(b"new")
    assert path.read_bytes() == b"new"


def test_missing_folder(tmp_path):
    """Without the folder there is an error, and no folder is made."""
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "folder" / "file"):
        pass
    assert not (tmp_path / "folder").exists()


_WRITER = """
import sys
from hardzero.atomic import replacing
with replacing(sys.argv[1]) as stream:
    stream.write(b"new")
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
@pytest.mark.parametrize("is_killed", [False, True])
def test_the_file_of_a_live_writer_stays(is_killed, tmp_path):
    """What another process still writes is spared, what a killed one left is not."""
    path = tmp_path / "file"
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"writing\n"
        (temporary,) = tmp_path.iterdir()
        os.utime(temporary, (0, 0))  # its age does not matter
        if is_killed:
            process.kill()
            process.wait()
        remove_leftovers(path)
        assert temporary.exists() != is_killed
    assert path.exists() != is_killed


@pytest.mark.parametrize(("age", "stays"), [(60, True), (7200, False)])
def test_without_locks_the_age_decides(age, stays, tmp_path, monkeypatch):
    """A file system without locks: what was not written to for an hour is left."""

    def refuse(_stream, _operation):
        raise OSError("no locks")

    with suppress(AttributeError):
        monkeypatch.setattr(atomic.fcntl, "flock", refuse)
    with replacing(tmp_path / "file"):
        (temporary,) = tmp_path.iterdir()
    temporary.touch()
    os.utime(temporary, (time.time() - age,) * 2)
    remove_leftovers(tmp_path / "file")
    assert temporary.exists() == stays


@pytest.mark.parametrize("has_old", [False, True])
def test_a_temporary_file_that_is_gone(has_old, tmp_path):
    """The error says what may have deleted it, and the old file stays."""
    path = tmp_path / "file"
    if has_old:
        path.write_text("old")

    def lose():
        with replacing(path):
            (temporary,) = tmp_path.glob(".*.tmp")
            temporary.unlink()

    with pytest.raises(FileNotFoundError, match="another run uses this path"):
        lose()
    assert path.exists() == has_old


def test_a_link_to_itself(tmp_path):
    """It is an error of the system, and stays."""
    path = tmp_path / "link"
    path.symlink_to(path)
    with pytest.raises(OSError, match="symbolic links"), replacing(path):
        pass
    assert list(tmp_path.iterdir()) == [path]
