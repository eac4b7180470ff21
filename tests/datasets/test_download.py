"""Downloading from a server on this machine that behaves well or badly."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hardzero.datasets import download
from hardzero.datasets.download import RemoteFile, cache_folder, fetch
from hardzero.errors import DataError

CONTENT = bytes(range(256)) * 5000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Answers(BaseHTTPRequestHandler):
    """Serve the content, or something wrong, by the last part of the path."""

    def do_GET(self) -> None:
        """Answer."""
        body = {
            "/altered": CONTENT[:-1] + b"!",
            "/long": CONTENT * 2,
            "/page": b"<html>moved</html>",
        }.get(self.path, CONTENT)
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:9999] if self.path == "/broken" else body)

    def log_request(self, *_: object) -> None:
        """Keep quiet."""

    def log_error(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server on a free port of this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as running:
        running.daemon_threads = True
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def remote(*urls: str) -> RemoteFile:
    """Describe the content under these addresses."""
    return RemoteFile("data.bin", urls, len(CONTENT), SHA256)


def test_fetch_stores_the_verified_file(server: str, tmp_path: Path) -> None:
    """The copy has the right bytes, and nothing else is left in the folder."""
    folder = tmp_path / "new" / "folder"
    assert fetch(remote(f"{server}/right"), folder).read_bytes() == CONTENT
    assert [path.name for path in folder.iterdir()] == ["data.bin"]


def test_fetch_does_not_ask_twice(tmp_path: Path) -> None:
    """A sound copy is used without any network."""
    (tmp_path / "data.bin").write_bytes(CONTENT)
    assert fetch(remote("http://127.0.0.1:1/x"), tmp_path).read_bytes() == CONTENT


def test_fetch_replaces_a_damaged_copy(server: str, tmp_path: Path) -> None:
    """A copy with another checksum is fetched anew."""
    (tmp_path / "data.bin").write_bytes(CONTENT[:100])
    assert fetch(remote(f"{server}/right"), tmp_path).read_bytes() == CONTENT


def test_fetch_goes_on_to_the_next_address(server: str, tmp_path: Path) -> None:
    """Every kind of bad answer leads to the next mirror."""
    bad = ("altered", "long", "page", "missing", "broken")
    urls = (f"{server}/{path}" for path in bad)
    path = fetch(remote("nonsense", *urls, f"{server}/right"), tmp_path)
    assert path.read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["data.bin"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("altered", r"altered: SHA-256 is [0-9a-f]{64}, expected "),
        ("long", r"long: more than the expected 1,280,000 bytes"),
        ("page", r"page: only 18 of 1,280,000 bytes"),
        ("missing", r"missing: HTTP Error 404: Not Found"),
        ("broken", r"broken: .*9,?999"),
    ],
)
def test_the_error_says_what_was_wrong(
    server: str, tmp_path: Path, path: str, reason: str
) -> None:
    """Each address is listed with its reason; no file is left behind."""
    with pytest.raises(DataError, match=rf"Could not download data.bin.*{reason}"):
        fetch(remote(f"{server}/{path}"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_offline_says_what_to_do(tmp_path: Path) -> None:
    """No server: the reason, the folder and the environment variable are named."""
    with pytest.raises(DataError) as caught:
        fetch(remote("http://127.0.0.1:1/x"), tmp_path)
    message = str(caught.value)
    assert "refused" in message
    assert f"put the file into {tmp_path}" in message
    assert "HARDZERO_DATA (now not set)" in message


def test_file_urls_work(tmp_path: Path) -> None:
    """A mirror may be a folder."""
    source = tmp_path / "source.bin"
    source.write_bytes(CONTENT)
    assert fetch(remote(source.as_uri()), tmp_path / "to").read_bytes() == CONTENT


def test_an_interrupted_download_leaves_nothing(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the middle leaves neither a broken file nor a temporary one."""

    class Interrupted:
        def update(self, _: bytes) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(download.hashlib, "sha256", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(remote(f"{server}/right"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_a_data_error(tmp_path: Path) -> None:
    """The message names the variable that moves the cache."""
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"Cannot write to .* HARDZERO_CACHE"):
        fetch(remote("http://127.0.0.1:1/x"), tmp_path / "file")


def test_verbose_shows_a_bar_on_standard_error(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bar goes to standard error; standard output stays clean."""
    fetch(remote(f"{server}/right"), tmp_path, verbose=True)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("platform", "variable"),
    [("linux", "XDG_CACHE_HOME"), ("win32", "LOCALAPPDATA"), ("darwin", "HOME")],
)
def test_the_cache_lies_where_the_system_keeps_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, variable: str
) -> None:
    """HARDZERO_CACHE wins; else the usual folder of the operating system."""
    monkeypatch.setenv("HARDZERO_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("HARDZERO_CACHE")
    monkeypatch.setattr(download.sys, "platform", platform)
    monkeypatch.setenv(variable, str(tmp_path))
    assert cache_folder().is_relative_to(tmp_path)
    assert cache_folder().name == "hardzero"
