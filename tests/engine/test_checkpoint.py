"""Checkpoints: a run that was cut off ends with the bits of one that was not."""

import contextlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from engine import killed
from engine.killed import CASES, digest, run
from safetensors.numpy import save_file

from hardzero.atomic import replacing
from hardzero.engine.checkpoint import Checkpoint
from hardzero.engine.schedules import parse_schedule
from hardzero.engine.train import Validation
from hardzero.errors import DataError, ParameterError
from hardzero.kernels.sparse import SparseNetwork

SHORT = {name: {**case, "patience": 2} for name, case in CASES.items()}
SHORT["lazy"]["patience"] = SHORT["normalised"]["patience"] = None


class _CutOff(Exception):  # noqa: N818
    """Ends a run as a kill does: nothing is done about it."""


@contextlib.contextmanager
def _counting(cut_at=None):
    """Count the steps of the core in a list, and cut off before one of them."""
    seen = []

    def counted(method):
        def count(self, rows):
            if len(seen) == cut_at:
                raise _CutOff
            seen.append(rows)
            return method(self, rows)

        return count

    with pytest.MonkeyPatch.context() as patch:
        for name in ("step", "forward_batch"):
            patch.setattr(SparseNetwork, name, counted(getattr(SparseNetwork, name)))
        yield seen


def _cut_off(case, checkpoint, n_steps, **options):
    with _counting(n_steps), pytest.raises(_CutOff):
        run(case, checkpoint, **options)


# ------------------------------------------------------------------ same bits


@pytest.mark.parametrize("case", SHORT.values(), ids=SHORT)
@pytest.mark.parametrize("every_seconds", [None, 0])
def test_cut_off_at_any_step(case, every_seconds, tmp_path):
    """Whatever step a run was cut off at, going on ends with the same bits."""
    with _counting() as steps:
        whole = digest(run(case, max_epochs=2))
    n_steps = len(steps)
    assert n_steps >= 20
    for n in range(n_steps):
        checkpoint = Checkpoint(tmp_path / f"{n}", every_seconds)
        _cut_off(case, checkpoint, n, max_epochs=2)
        with _counting() as steps:
            assert digest(run(case, checkpoint, max_epochs=2)) == whole
        if every_seconds == 0:
            assert len(steps) == n_steps - n  # nothing is done twice


@pytest.mark.parametrize("engine", ["sparse", "dense", "reference"])
@pytest.mark.parametrize("case", SHORT.values(), ids=SHORT)
def test_every_engine_goes_on(engine, case, tmp_path):
    """All kernels go on from a checkpoint in the middle of a run with the same bits."""
    whole = digest(run(case, max_epochs=6, engine=engine))
    checkpoint = Checkpoint(tmp_path / "file")
    run(case, checkpoint, max_epochs=6, engine=engine, on_epoch=_after(2))
    again = run(case, checkpoint, max_epochs=6, engine=engine)
    assert digest(again) == whole


def _after(number):
    return lambda epoch: epoch.number == number


def test_cut_off_again_and_again(tmp_path):
    """A run that is cut off every few steps gets to the end, with the same bits."""
    case = SHORT["adam"]
    checkpoint = Checkpoint(tmp_path / "file", every_seconds=0)
    for _ in range(1000):
        try:
            with _counting(7):
                trained = run(case, checkpoint)
            break
        except _CutOff:
            pass
    assert trained.history.stopped == "early_stopping"
    assert digest(trained) == digest(run(case))


def _kill_and_go_on(name, path, delay, every_seconds):
    """Return the digest of a run that was killed, and whether it was still going on."""
    command = [sys.executable, killed.__file__, name, str(path)]
    command += [] if every_seconds is None else [str(every_seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "training\n"
        time.sleep(delay)
        process.kill()
        is_late = bool(process.stdout.read())
    return digest(run(CASES[name], Checkpoint(path, every_seconds))), not is_late


def _kill_often(n_kills, folder):
    seed = time.time_ns()
    draw = random.Random(seed)
    expected = {name: digest(run(case)) for name, case in CASES.items()}
    n_killed = 0
    while n_killed < n_kills:
        name, every = draw.choice(list(CASES)), draw.choice([None, 0, 0.01])
        path = folder / f"{n_killed}"
        path.unlink(missing_ok=True)
        found, was_killed = _kill_and_go_on(name, path, draw.uniform(0, 0.2), every)
        assert found == expected[name], (seed, name, every)
        n_killed += was_killed
    assert {file.name for file in folder.iterdir()} == set(map(str, range(n_kills)))


def test_kill_9(tmp_path):
    """After kill -9 at random moments, a run ends with the same bits: three times."""
    _kill_often(3, tmp_path)


@pytest.mark.slow
def test_kill_9_often(tmp_path):
    """After kill -9 at random moments, a run ends with the same bits: 50 times."""
    _kill_often(50, tmp_path)


def test_ctrl_c_leaves_a_file_to_go_on_from(tmp_path):
    """Ctrl-C gives the best weights so far, and the run can be finished later."""
    case, checkpoint = SHORT["lazy"], Checkpoint(tmp_path / "file")

    def interrupt(epoch):
        if epoch.number == 2:
            raise KeyboardInterrupt

    first = run(case, checkpoint, max_epochs=4, on_epoch=interrupt)
    assert (first.history.n_epochs, first.history.stopped) == (2, "interrupted")
    again = run(case, checkpoint, max_epochs=4)
    assert digest(again) == digest(run(case, max_epochs=4))


# ------------------------------------------------------------------ when


@pytest.mark.parametrize("name", CASES)
def test_finished_run_returns_at_once(name, tmp_path):
    """The checkpoint of a finished run gives its result without a step."""
    checkpoint = Checkpoint(tmp_path / "file", every_seconds=1000)
    first = run(CASES[name], checkpoint)
    with _counting() as steps:
        again = run(CASES[name], checkpoint)
    assert steps == []
    assert digest(again) == digest(first)
    assert again.history == first.history


def test_more_epochs(tmp_path):
    """With more epochs planned, a finished run goes on."""
    checkpoint = Checkpoint(tmp_path / "file")
    run(SHORT["lazy"], checkpoint, max_epochs=2)
    more = run(SHORT["lazy"], checkpoint, max_epochs=5)
    assert digest(more) == digest(run(SHORT["lazy"], max_epochs=5))


@pytest.mark.parametrize(
    ("every_seconds", "n_writes"),
    [(None, 1 + 3), (0, 1 + 3 * 15), (1000, 1 + 1)],
    ids=["each epoch", "each step", "start and end"],
)
def test_when_it_writes(every_seconds, n_writes, tmp_path, monkeypatch):
    """The file is written at the start, when it is due, and at the end."""
    writes, replace_file = [], os.replace
    monkeypatch.setattr(
        Path, "replace", lambda *paths: writes.append(replace_file(*paths))
    )
    run(SHORT["lazy"], Checkpoint(tmp_path / "file", every_seconds), max_epochs=3)
    assert len(writes) == n_writes


def test_seed_in_the_file(tmp_path):
    """The seed of a run can be read from its checkpoint."""
    checkpoint = Checkpoint(tmp_path / "file")
    assert checkpoint.seed() is None
    run(SHORT["lazy"], checkpoint, max_epochs=1)
    assert checkpoint.seed() == 0


@pytest.mark.parametrize("value", [-1, float("nan"), "often"])
def test_every_seconds_is_checked(value):
    """Seconds are a number of 0 or more."""
    with pytest.raises(ParameterError, match=f"every_seconds is {value!r}, expected"):
        Checkpoint("file", value)


# ------------------------------------------------------------------ other tasks


def _data(change=None, **options):
    """Return a run in which the arrays of the call to `train` are changed."""

    def train(network, X, y, **given):
        given |= options
        X, y = (change or (lambda *arrays: arrays))(X, y)
        return killed_train(network, X, y, **given)

    return train


killed_train = killed.train


def _other_values(X, y):
    X = X.copy()
    X.data[0] += 1
    return X, y


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            _data(lambda X, y: (X[:-1], y[:-1]), sample_weight=None, rows=None),
            r"X is CSR .*\(300, 40\) in the file an",
        ),
        (_data(_other_values), "task: content of X is [0-9a-f]{8} in the file a"),
        (_data(lambda X, y: (X, 1 - y)), "task: content of y is "),
        (
            _data(lambda X, y: (X.toarray(), y)),
            "task: X is CSR float32 of .*; content of X is ",
        ),
        (_data(sample_weight=None), "sample_weight is float32 .* and absent now"),
        (_data(rows=np.arange(200)), r"rows is int64 of shape \(3.*; content of rows"),
        (_data(seed=1), "task: seed is 0 in the file and 1 now. Give the data and"),
        (
            _data(settings=killed.Settings(30, 3, 0.01)),
            "batch_size is 20 in .* 30 now;",
        ),
        (_data(settings=killed.Settings(20, 3, 0.1)), "learning_rate is 0.01 in"),
        (
            _data(settings=killed.Settings(20, 3, 0.01, parse_schedule("cosine"))),
            r"schedule is step\(5, 0.8\) in the file and cosine\(0\) over 3 epochs",
        ),
        (
            _data(settings=killed.Settings(20, 3, 0.01, shuffle=False)),
            "shuffle is True",
        ),
        (
            _data(
                validation=Validation(np.zeros((1, 40), np.float32), np.zeros(1, int))
            ),
            r"validation X is absent in the file and float32 of shape \(1, 40\) now",
        ),
    ],
)
def test_another_task_is_refused(other, message, tmp_path, monkeypatch):
    """A checkpoint of other data or settings is refused, and the error says which."""
    checkpoint = Checkpoint(tmp_path / "file")
    run(SHORT["lazy"], checkpoint, max_epochs=1)
    before = (tmp_path / "file").read_bytes()
    monkeypatch.setattr(killed, "train", other)
    with pytest.raises(DataError, match=rf"the checkpoint .*file is of .*{message}"):
        run(SHORT["lazy"], checkpoint, max_epochs=3)
    assert (tmp_path / "file").read_bytes() == before


def test_what_only_the_caller_knows(tmp_path):
    """Whatever the caller names is compared too, and engines and losses are."""
    path = tmp_path / "file"
    run(SHORT["lazy"], Checkpoint(path, task={"rule": "A", "l2": 0.1}), max_epochs=1)
    with pytest.raises(
        DataError, match=r"task: rule is A in .* absent now; l2 is 0.1 in .* 0.2 now"
    ):
        run(SHORT["lazy"], Checkpoint(path, task={"l2": 0.2}), max_epochs=1)
    with pytest.raises(DataError, match=r"kernels is SparseNetwork in .* DenseNetwork"):
        run(
            SHORT["lazy"],
            Checkpoint(path, task={"rule": "A", "l2": 0.1}),
            max_epochs=1,
            engine="dense",
        )
    with pytest.raises(DataError, match=r"loss is softmax in .* and huber\(1\) now"):
        run(SHORT["normalised"], Checkpoint(path), max_epochs=1)


def test_cosine_over_more_epochs_is_another_task(tmp_path):
    """A schedule that depends on the planned epochs cannot go on with others."""
    checkpoint = Checkpoint(tmp_path / "file")
    run(SHORT["adam"], checkpoint, max_epochs=3)
    with pytest.raises(
        DataError, match=r"over 3 epochs in the file and .*over 4 epochs"
    ):
        run(SHORT["adam"], checkpoint, max_epochs=4)


# ------------------------------------------------------------------ damage


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The bytes of a checkpoint in the middle of an epoch."""
    path = tmp_path_factory.mktemp("sound") / "file"
    _cut_off(SHORT["adam"], Checkpoint(path, 0), 15, max_epochs=3)
    return path.read_bytes()


def test_damaged_files_are_refused(sound, tmp_path):
    """Cut off or altered anywhere, a checkpoint is refused with a clear error."""
    path, rng = tmp_path / "file", np.random.default_rng(0)
    path.write_bytes(sound)
    assert Checkpoint(path).seed() == 0
    pieces = [sound[:n] for n in rng.integers(0, len(sound), 100)]
    pieces += [sound[:0], sound + b"0"]
    for place in rng.integers(0, len(sound), 400):
        altered = bytearray(sound)
        altered[place] ^= int(rng.integers(1, 256))
        pieces.append(bytes(altered))
    for content in pieces:
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"is not a sound checkpoint: .*Delete"):
            Checkpoint(path).seed()


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (None, "a safetensors file without a checkpoint"),
        ({"hardzero": "{"}, "not a sound checkpoint"),
        ({"hardzero": "[]"}, "not a sound checkpoint"),
        ({"hardzero": "[" * 100_000}, "not a sound checkpoint"),
        (
            {"hardzero": '{"format": "hardzero.model"}'},
            "its format is 'hardzero.model'",
        ),
        (
            {"hardzero": '{"format": "hardzero.checkpoint", "version": 9}'},
            "its version is 9 and this version of hardzero reads 1",
        ),
        (
            {"hardzero": '{"format": "hardzero.checkpoint", "version": 1}'},
            "not a sound checkpoint: .*sha256",
        ),
    ],
)
def test_other_files_are_refused(metadata, message, tmp_path):
    """A safetensors file that is no checkpoint of this version is refused."""
    path = tmp_path / "file"
    save_file({"W": np.zeros(3)}, path, metadata)
    with pytest.raises(DataError, match=message):
        run(SHORT["lazy"], Checkpoint(path), max_epochs=1)


# ------------------------------------------------------------------ no room


@contextlib.contextmanager
def _largest_file(n_bytes):
    """Let no file of this process grow beyond some bytes, as on a full disk."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("place", ["missing/file", "plain/file", ".", "folder"])
def test_unwritable_from_the_start(place, tmp_path):
    """A place that cannot be written to is an error before the first step."""
    (tmp_path / "plain").touch()
    (tmp_path / "folder").mkdir()
    with (
        _counting() as steps,
        pytest.raises(
            DataError, match=rf"cannot .* the checkpoint {tmp_path}.*\. Give"
        ),
    ):
        run(SHORT["lazy"], Checkpoint(tmp_path / place), max_epochs=1)
    assert steps == []


def _pipe(path):
    os.mkfifo(path)
    return path


def _loop(path):
    path.symlink_to(path)
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_pipe, "file: it is a pipe, expected a regular file"),
        (lambda _path: "/dev/zero", "/dev/zero: it is a device, expected"),
        (lambda path: path.parent, "it is a folder, expected"),
        (lambda path: f"{path}\0b", r"file\\x00b': it is no path \(embedded null"),
        (lambda path: path.with_name("x" * 300), "x{300}: File name too long"),
        (_loop, "file: Too many levels of symbolic links"),
    ],
    ids=["pipe", "device", "folder", "null", "long", "loop"],
)
def test_what_is_no_file(make, message, tmp_path):
    """Anything but a file at the path is refused by name, and never waited for."""
    checkpoint = Checkpoint(make(tmp_path / "file"))
    message = f"cannot read the checkpoint .*{message}.*Give another path"
    with pytest.raises(DataError, match=message):
        checkpoint.seed()
    with pytest.raises(DataError, match=message):
        run(SHORT["lazy"], checkpoint, max_epochs=1)


def test_what_is_known_can_be_checked_before(tmp_path):
    """A file of another task, what is no file, and a folder that is not there are
    refused before there is a network; nothing is written.
    """
    path = tmp_path / "file"
    checkpoint = Checkpoint(path)
    checkpoint.check({"seed": 1})
    assert list(tmp_path.iterdir()) == []
    run(SHORT["lazy"], checkpoint, max_epochs=1)
    before, seed = path.read_bytes(), checkpoint.seed()
    checkpoint.check({"seed": seed})
    with pytest.raises(DataError, match=f"seed is {seed} in the file and -1 now"):
        checkpoint.check({"seed": -1})
    Checkpoint(path, free=["seed"]).check({"seed": -1})
    with pytest.raises(DataError, match=r"delete the file, and with it .*: above, top"):
        Checkpoint(path, later=["above", "top"]).check({"seed": -1})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(DataError, match="it is a folder"):
        Checkpoint(tmp_path).check({})
    with pytest.raises(DataError, match=r"cannot write the checkpoint .*No such file"):
        Checkpoint(tmp_path / "no folder" / "file").check({})


def test_two_runs_on_one_path(tmp_path):
    """Whose temporary file vanishes is told that another run may use the path."""
    case, path = SHORT["lazy"], tmp_path / "file"

    def lose(temporary, target):
        temporary.unlink()
        return replace(temporary, target)

    replace = Path.replace
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", lose)
        with pytest.raises(DataError, match="another run uses this path"):
            run(case, Checkpoint(path), max_epochs=1)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)
def test_folder_without_permission(tmp_path):
    """A folder that belongs to someone else is an error before the first step."""
    tmp_path.chmod(0o500)
    with pytest.raises(DataError, match=r"cannot write the checkpoint .*Permission"):
        run(SHORT["lazy"], Checkpoint(tmp_path / "file"), max_epochs=1)


def test_full_disk_from_the_start(tmp_path):
    """Without room for the first checkpoint, the last good file stays as it is."""
    checkpoint = Checkpoint(tmp_path / "file")
    run(SHORT["lazy"], checkpoint, max_epochs=1)
    before = (tmp_path / "file").read_bytes()
    with (
        _largest_file(1000),
        pytest.raises(DataError, match=r"cannot write .*file: File too large\. Give a"),
    ):
        run(SHORT["lazy"], checkpoint, max_epochs=2)
    assert (tmp_path / "file").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_disk_that_fills_up(tmp_path):
    """When the disk fills up, one warning is given, training and the file go on."""
    case, checkpoint = SHORT["lazy"], Checkpoint(tmp_path / "file")
    files = []

    with contextlib.ExitStack() as full:

        def watch(epoch):
            files.append((tmp_path / "file").read_bytes())
            if epoch.number == 2:
                full.enter_context(_largest_file(1000))
            if epoch.number == 4:
                full.close()

        with pytest.warns(UserWarning, match=r"too large.*Training goes") as caught:
            trained = run(case, checkpoint, max_epochs=5, on_epoch=watch)
    assert len(caught) == 1
    assert digest(trained) == digest(run(case, max_epochs=5))
    assert files[1] == files[2] == files[3]
    assert len({files[0], files[1], files[4]}) == 3
    assert digest(run(case, checkpoint, max_epochs=5)) == digest(trained)


def test_leftovers_are_removed(tmp_path):
    """What a killed process left of a half-written file goes away."""
    with replacing(tmp_path / "file"):
        (temporary,) = tmp_path.glob(".*.tmp")
    (tmp_path / "file").unlink()
    for leftover in (temporary, tmp_path / "file.tmp"):
        leftover.touch()
    run(SHORT["lazy"], Checkpoint(tmp_path / "file"), max_epochs=1)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"file", "file.tmp"}


def test_link_stays_a_link(tmp_path):
    """Through a symbolic link, the file that it points at is written."""
    (tmp_path / "link").symlink_to(tmp_path / "file")
    run(SHORT["lazy"], Checkpoint(tmp_path / "link"), max_epochs=1)
    assert (tmp_path / "link").is_symlink()
    assert Checkpoint(tmp_path / "file").seed() == 0


def test_file_stays_small(tmp_path):
    """Without validation rows a file holds each number of the network once."""
    path = tmp_path / "file"
    run(SHORT["lazy"], Checkpoint(path), max_epochs=1)
    n_numbers = 40 * 16 + 16 * 8 + 8 * 2
    assert path.stat().st_size < 4 * 2 * n_numbers + 6000  # weights and momentum
