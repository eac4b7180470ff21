"""Files that are replaced in one step."""

import pytest

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
