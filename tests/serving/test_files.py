"""Model files: there and back, damaged, hostile, interrupted."""

import json
import os
import pickle
import stat
import struct
import sys
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from hardzero import RatingRegressor, RectifierClassifier, RectifierRegressor
from hardzero.atomic import replacing
from hardzero.errors import DataError, ParameterError
from hardzero.serving import StackModel, load, save
from hardzero.serving.files import read_model_file
from hardzero.stack import Layer, RectifierStack

same_folder = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


def make(classes=("no", "ja"), names=("größe", 'a"b'), dtype=np.float32):
    """Make a small model with every kind of array."""
    rng = np.random.default_rng(0)
    hidden = Layer(
        rng.normal(size=(2, 3)).astype(dtype), np.zeros(3), "prelu", signs=[1, -1, 1]
    )
    output = Layer(rng.normal(size=(3, 2)).astype(dtype), np.ones(2), "identity")
    return StackModel(RectifierStack((hidden, output), "softmax"), classes, names)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("names", [None, ("größe", 'a"b')])
@pytest.mark.parametrize(
    "classes",
    [
        ("no", "ja"),
        (0, 2**62),
        (-1, 1),
        (False, True),
        (0.1, 2.5),
        np.array([1, 200], np.uint8),
        np.array([0.1, 0.2], np.float32),
        np.array(["a", "bcd"], dtype=object),
    ],
)
def test_what_is_saved_is_loaded(tmp_path, classes, names, dtype):
    """Network, labels with their type, and names come back equal."""
    model = make(classes, names, dtype)
    save(model, tmp_path / "model")
    assert load(tmp_path / "model") == model


@pytest.mark.parametrize(
    ("link", "classes", "kind"),
    [
        ("softmax", (1, 2), "rating"),
        ("sigmoid", ("a", "b"), "multilabel"),
        ("identity", None, "regressor"),
        ("exp", None, "regressor"),
    ],
)
def test_every_kind_is_saved_and_loaded(tmp_path, link, classes, kind):
    """With the same predictions."""
    stack = RectifierStack(make().stack.layers, link)
    model = StackModel(stack, classes, None, kind)
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded == model
    X = np.random.default_rng(1).normal(size=(9, 2))
    assert np.array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("estimator", "target", "kind"),
    [
        (RectifierClassifier, lambda X: X[:, 0] > 0, "classifier"),
        (RectifierClassifier, lambda X: (X > 0).astype(int), "multilabel"),
        (RectifierRegressor, lambda X: 1000 + X[:, 0], "regressor"),
        (RectifierRegressor, lambda X: 100 * X, "regressor"),
        (
            partial(RectifierRegressor, loss="poisson"),
            lambda X: np.floor(np.exp(X[:, 0])),
            "regressor",
        ),
        (RatingRegressor, lambda X: np.rint(X[:, 0]), "rating"),
    ],
    ids=["classes", "labels", "number", "numbers", "counts", "ratings"],
)
def test_every_estimator_can_be_saved(tmp_path, estimator, target, kind):
    """What was fitted and what was loaded predict the same bits."""
    X = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    fitted = estimator(max_epochs=2, random_state=0).fit(X, target(X))
    save(fitted, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.kind == kind
    predicted = fitted.predict(X)
    assert loaded.predict(X).dtype == predicted.dtype
    assert np.array_equal(loaded.predict(X), predicted)
    if kind in ("classifier", "multilabel"):
        assert np.array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    if kind != "regressor":
        assert np.array_equal(loaded.classes, fitted.classes_)


def test_files_of_version_1_are_read():
    """A file that the first release wrote, before there were other kinds."""
    found = read_model_file(Path(__file__).parent / "data" / "version-1.safetensors")
    assert found.version == 1
    assert found.written_by["hardzero"] == "0.1.0"
    assert found.model.kind == "classifier"
    assert found.model.classes.tolist() == ["no", "ja"]
    assert found.model.feature_names == ("größe", 'a"b')
    assert found.model.outputs([[1, 0]]).tolist() == [[1.28125, 0.5]]
    assert found.model.predict([[1, 0]]).tolist() == ["no"]
    hidden, output = found.model.stack.layers
    assert hidden.W.tolist() == [[1, -2, 0.5], [0.25, 3, -1]]
    assert str(hidden.activation) == "prelu"
    assert output.b.tolist() == [0.25, -0.5]


def test_the_file_says_what_wrote_it(tmp_path):
    """Versions of the format and of the libraries."""
    save(make(), tmp_path / "model")
    found = read_model_file(tmp_path / "model")
    assert found.model == make()
    assert found.version == 2
    assert found.written_by.keys() == {"hardzero", "numpy", "python"}


def test_a_fitted_classifier_can_be_saved(tmp_path):
    """A fitted classifier needs no wrapping; the model predicts the same bits."""
    X = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    classifier = RectifierClassifier((8,), max_epochs=2).fit(X, X[:, 0] > 0)
    save(classifier, tmp_path / "model")
    assert np.array_equal(
        load(tmp_path / "model").predict_proba(X), classifier.predict_proba(X)
    )
    with pytest.raises(ParameterError, match="Call fit first"):
        save(RectifierClassifier(), tmp_path / "model")


def test_any_safetensors_reader_sees_the_arrays(tmp_path):
    """The file is ordinary safetensors, and saving twice gives the same bytes."""
    model = make()
    save(model, tmp_path / "a")
    save(model, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    arrays = load_arrays((tmp_path / "a").read_bytes())
    assert arrays.keys() == model.stack.arrays().keys()
    assert np.array_equal(arrays["1.W"], model.stack.layers[0].W)


@same_folder
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_no_altered_model_goes_unnoticed(tmp_path, place, flip):
    """A file with one byte changed is refused, or holds the very same model."""
    path = tmp_path / "model"
    save(make(), path)
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= flip
    path.write_bytes(content)
    try:
        loaded = load(path)
    except DataError:
        return
    assert loaded == make()


@same_folder
@given(cut=st.floats(0, 1, exclude_max=True), extra=st.binary(min_size=1, max_size=9))
def test_files_cut_off_or_continued_are_refused(tmp_path, cut, extra):
    """A file that is too short or too long is a DataError that names it."""
    path = tmp_path / "model"
    save(make(), path)
    content = path.read_bytes()
    for wrong in (content[: int(cut * len(content))], content + extra):
        path.write_bytes(wrong)
        with pytest.raises(DataError, match=r"model is not a sound model file"):
            load(path)


@same_folder
@given(content=st.binary(max_size=200))
def test_any_bytes_give_a_data_error(tmp_path, content):
    """Whatever the file holds, only DataError comes out."""
    path = tmp_path / "model"
    for prefix in (b"", struct.pack("<Q", len(content))):
        path.write_bytes(prefix + content)
        with pytest.raises(DataError):
            load(path)


def description_of(path):
    """Return the arrays and the JSON of a model file."""
    content = path.read_bytes()
    n_bytes = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + n_bytes])
    return load_arrays(content), json.loads(header["__metadata__"]["hardzero"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"version": 3},
            r"its version is 3 and this version of hardzero reads 1 and 2",
        ),
        ({"version": True}, r"its version is True and"),
        ({"version": [[]]}, r"its version is \[\[\]\] and"),
        ({"version": 1}, r"does not have exactly"),
        ({"format": "x"}, r"its format is 'x'"),
        ({"sha256": "0"}, r"its checksum does not fit"),
        ({"more": 1}, r"does not have exactly"),
        ({"architecture": {}}, r"the architecture has \[\]"),
        ({"architecture": None}, r"the architecture has NoneType"),
        ({"classes": ["a", "b"]}, r"its checksum"),
    ],
)
def test_altered_metadata_is_refused(tmp_path, change, message):
    """Each part of the metadata is checked."""
    path = tmp_path / "model"
    save(make(), path)
    arrays, description = description_of(path)
    text = json.dumps({**description, **change})
    path.write_bytes(save_arrays(arrays, {"hardzero": text}))
    with pytest.raises(DataError, match=message):
        load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ["a", "b"]}, r"its classes are malformed"),
        ({"classes": {"dtype": "O", "values": [1, 2]}}, r"no labels are of type 'O'"),
        ({"classes": {"dtype": "<U999999999", "values": ["a", "b"]}}, r"no labels are"),
        ({"classes": {"dtype": [1], "values": ["a", "b"]}}, r"classes are malformed"),
        ({"classes": {"dtype": "int8", "values": [1, 300]}}, r"classes are malformed"),
        ({"classes": {"dtype": "int64", "values": [1, 2.5]}}, r"not all of type int64"),
        ({"classes": {"dtype": "str", "values": ["a"]}}, r"of shape \(1,\)"),
        ({"classes": {"dtype": "str", "values": ["a", "a"]}}, r"more than once"),
        ({"classes": {"dtype": "str", "values": ["a", 1]}}, r"classes are malformed"),
        ({"classes": None}, r"classes is object of shape \(\)"),
        ({"kind": "regressor"}, r"'softmax', expected 'identity' or 'exp'"),
        ({"kind": "rating"}, r"<U2, expected numbers"),
        ({"kind": None}, r"its kind is None, expected a text"),
        ({"kind": "other"}, r"kind is 'other', expected one of"),
        ({"versions": ["1"]}, r"its versions are no object of strings"),
        ({"versions": {"numpy": 2}}, r"its versions are no object of strings"),
        ({"feature_names": ["a", "\ud800"]}, r"lone surrogate"),
        ({"feature_names": "ab"}, r"neither null nor a list of strings"),
        ({"feature_names": ["a"]}, r"1 names but the network has 2 inputs"),
    ],
)
def test_forged_files_with_a_right_checksum_are_refused(
    tmp_path, monkeypatch, change, message
):
    """A checksum that fits does not make wrong content right."""
    path = tmp_path / "model"
    save(make(), path)
    arrays, description = description_of(path)
    text = json.dumps({**description, **change})
    path.write_bytes(save_arrays(arrays, {"hardzero": text}))
    sha256 = description["sha256"]
    monkeypatch.setattr("hardzero.serving.files._checksum", lambda *_: sha256)
    with pytest.raises(DataError, match=message):
        load(path)


def test_wrong_arrays_are_refused(tmp_path, monkeypatch):
    """Arrays must be those of the architecture, of its type, and finite."""
    path = tmp_path / "model"
    save(make(), path)
    arrays, description = description_of(path)
    metadata = {"hardzero": json.dumps(description)}
    sha256 = description["sha256"]
    monkeypatch.setattr("hardzero.serving.files._checksum", lambda *_: sha256)
    wrong = {
        r"arrays are not those": {"1.W": arrays["1.W"]},
        r"'1.b' is float32 of shape \(1,\)": {**arrays, "1.b": np.zeros(1, np.float32)},
        r"'2.b' is float64 of shape": {**arrays, "2.b": np.zeros(2)},
        r"not finite": {**arrays, "2.b": np.array([0, np.nan], np.float32)},
        r"signs of layer 1 hold 2": {**arrays, "1.signs": 2 * arrays["1.signs"]},
    }
    for message, content in wrong.items():
        path.write_bytes(save_arrays(content, metadata))
        with pytest.raises(DataError, match=message):
            load(path)


def test_files_of_others_are_refused(tmp_path):
    """Pickles, safetensors without our metadata, nested JSON: refused, not run."""
    path = tmp_path / "model"
    path.write_bytes(pickle.dumps(make()))
    with pytest.raises(DataError, match=r"not a sound model file"):
        load(path)
    path.write_bytes(save_arrays({"a": np.zeros(2)}))
    with pytest.raises(DataError, match=r"without a hardzero model"):
        load(path)
    path.write_bytes(save_arrays({"a": np.zeros(2)}, {"hardzero": "[" * 100_000}))
    with pytest.raises(DataError, match=r"not a sound model file"):
        load(path)
    with pytest.raises(DataError, match=r"Cannot read .*absent: No such file"):
        load(tmp_path / "absent")
    with pytest.raises(DataError, match=r"Cannot read"):
        load(tmp_path)


@pytest.mark.parametrize("claim", [2**63, 2**40, 2**27, 2**20])
def test_a_large_claim_costs_no_memory(tmp_path, claim):
    """A header that claims more than the file has is refused at once."""
    path = tmp_path / "model"
    path.write_bytes(struct.pack("<Q", claim) + b"{" * 100)
    message = "model file: it is not a safetensors file, which starts with"
    if claim == 2**20:
        message = r"cut off .* its header claims 1,048,576 bytes, but the file has 108"
    tracemalloc.start()
    with pytest.raises(DataError, match=message):
        load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    """Killed while writing: the old model is whole and nothing else is left."""
    path = tmp_path / "model"
    save(make(), path)

    def fail(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(KeyboardInterrupt):
        save(make(classes=(1, 2)), path)
    assert load(path) == make()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="has no modes and devices")
def test_replacing_keeps_mode_links_and_devices(tmp_path):
    """Permissions stay, a link is followed, a device is written to and stays one."""
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    with replacing(link) as stream:
        stream.write(b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
    with replacing(os.devnull) as stream:
        stream.write(b"gone")
    assert not os.path.isfile(os.devnull)  # noqa: PTH113


def test_labels_that_would_take_much_more_memory_than_the_file(tmp_path, monkeypatch):
    """A single long label among many is refused before an array is made of them."""
    path = tmp_path / "model"
    save(make(), path)
    arrays, description = description_of(path)
    values = ["x" * 1_000_000, *map(str, range(100_000))]
    classes = {"dtype": "str", "values": values}
    text = json.dumps({**description, "classes": classes})
    path.write_bytes(save_arrays(arrays, {"hardzero": text}))
    sha256 = description["sha256"]
    monkeypatch.setattr("hardzero.serving.files._checksum", lambda *_: sha256)
    with pytest.raises(DataError, match=r"would take 400,004,000,000 bytes"):
        load(path)


def test_labels_that_could_not_be_loaded_are_not_saved(tmp_path):
    """What `load` would refuse, `save` refuses first."""
    with pytest.raises(ParameterError, match=r"The classes take 80,000,000 bytes"):
        save(make(classes=("x" * 10_000_000, "y")), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_names_that_could_not_be_loaded_are_not_saved(tmp_path):
    """The header has a limit, so that a hostile one cannot take all memory."""
    names = ("x" * 10_000_000, "y" * 10_000_000)
    with pytest.raises(ParameterError, match=r"names take 20,.* at most 16,777,216. G"):
        save(make(names=names), tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="has no named pipes")
def test_a_pipe_is_no_model(tmp_path):
    """It is not waited for."""
    os.mkfifo(tmp_path / "model")
    with pytest.raises(DataError, match=r"model is not a sound .* no ordinary file"):
        load(tmp_path / "model")


def test_messages_stay_short(tmp_path):
    """However long the nonsense in a file."""
    path = tmp_path / "model"
    save(make(), path)
    arrays, description = description_of(path)
    for key in ("format", "version", "architecture", "kind", "versions"):
        text = json.dumps({**description, key: {"x" * 100_000: ["y" * 100_000] * 9}})
        path.write_bytes(save_arrays(arrays, {"hardzero": text}))
        with pytest.raises(DataError, match=r"not a sound model file") as caught:
            load(path)
        assert len(str(caught.value)) < 1000


def test_not_enough_memory_is_said(tmp_path, monkeypatch):
    """A model larger than the memory is a DataError too."""
    save(make(), tmp_path / "model")

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr("hardzero.serving.tensors.np.empty", fail)
    with pytest.raises(DataError, match=r"needs more memory than there is"):
        load(tmp_path / "model")


def test_the_temporary_file_can_be_recognised(tmp_path):
    """Whatever the name of the file, and however long."""
    path = tmp_path / ("語" * 85)
    with replacing(path) as stream:
        [temporary] = tmp_path.iterdir()
        stream.write(b"x")
    assert temporary.match(".hardzero-*.tmp")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="opens no folders")
def test_the_folder_is_synchronised_after_the_file(tmp_path, monkeypatch):
    """A new name that is not on disk would be lost with the power."""
    kinds = []
    monkeypatch.setattr(
        os, "fsync", lambda f: kinds.append(stat.S_ISDIR(os.fstat(f).st_mode))
    )
    save(make(), tmp_path / "model")
    assert kinds == [False, True]


@pytest.mark.parametrize("options", [{}, {"early_stopping": True, "batch_norm": True}])
def test_a_checkpoint_is_told_from_a_damaged_model(tmp_path, options):
    """Whatever arrays it has."""
    path = tmp_path / "run.ckpt"
    X = np.random.default_rng(0).normal(size=(40, 2))
    RectifierClassifier(max_epochs=2, checkpoint=path, **options).fit(X, X[:, 0] > 0)
    with pytest.raises(DataError, match=r"is a checkpoint of training, not .* go on"):
        load(path)


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    """And not a temporary file in it."""
    with pytest.raises(FileNotFoundError, match=r"no such folder: '.*absent'"):
        save(make(), tmp_path / "absent" / "model")
