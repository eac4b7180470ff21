"""Models that come as programs are diagnosed like the modules that they came from."""

import warnings

import numpy as np
import pytest

from hardzero.diagnostics import diagnose
from hardzero.errors import DataError, ParameterError

torch = pytest.importorskip("torch")
nn = torch.nn

from hardzero.diagnostics.programs import (  # noqa: E402
    likelihood,
    read_arrays,
    read_program,
)

# What is looked at here is old, and PyTorch says so.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")

CE = nn.CrossEntropyLoss()


@pytest.fixture(scope="module")
def network():
    """Return a network with three troubles: dead channels, dead units, softmax."""
    torch.manual_seed(0)
    found = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 20),
        nn.ReLU(),
        nn.Linear(20, 3),
        nn.Softmax(-1),
    ).eval()
    with torch.no_grad():
        found[1].bias[:1] = -40
        found[5].bias[:8] = -50
    return found


@pytest.fixture(scope="module")
def data():
    """Return images and labels."""
    torch.manual_seed(1)
    return torch.randn(3000, 1, 4, 4), torch.randint(0, 3, (3000,))


def scripted(network, _):
    """Return the network as TorchScript."""
    return torch.jit.script(network)


def traced(network, X):
    """Return a trace of it."""
    return torch.jit.trace(network, X[:5])


def frozen(network, _):
    """Return it without parameters."""
    return torch.jit.freeze(torch.jit.script(network))


def around(network, _):
    """Return a module with a part that is scripted."""
    return nn.Sequential(torch.jit.script(network[:4]), network[4:])


def exported(network, X):
    """Return a program with any number of rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = {0: torch.export.Dim("rows")}
        return torch.export.export(network, (X[:5],), dynamic_shapes=(rows,))


def codes(found):
    """Return kinds of trouble and what rests on counts."""
    counts = [(layer["units"], layer["dead"], layer["zeros"]) for layer in found.layers]
    return [(f.code, f.severity) for f in found.findings], counts


@pytest.mark.parametrize("form", [scripted, traced, frozen, around, exported])
def test_programs_have_the_same_findings(network, data, form):
    """TorchScript hides its calls and an exported program its modules; kinds of
    trouble and counts are the same, and so are gradients.
    """
    expected = codes(diagnose(network, data, CE))
    kinds = [code for code, _ in expected[0]]
    assert kinds[0] == "softmax-twice"
    assert kinds.count("dead-units") == 2
    assert codes(diagnose(form(network, data[0]), data, CE)) == expected


@pytest.mark.parametrize("form", [scripted, traced, exported])
def test_places_in_programs_are_named_after_their_parameters(network, data, form):
    """Also what stopped the units: biases, and a normalisation layer."""
    found = diagnose(form(network, data[0]), data)
    assert [layer["name"] for layer in found.layers] == ["relu after 1", "relu after 5"]
    dead = {f.where: f for f in found.findings if f.code == "dead-units"}
    normal, biased = dead["relu after 1"], dead["relu after 5"]
    assert "BatchNorm" in normal.cause
    assert "biases are strongly negative (median -50)" in biased.cause


def test_a_program_for_a_fixed_number_of_rows_is_given_that(network, data):
    """Other numbers are told, not dropped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(network, (data[0][:100],))
    assert diagnose(program, data).facts["n_batches"] == 30
    with pytest.raises(ParameterError, match="batches of 100 examples, and X has 150"):
        diagnose(program, data[0][:150])


def test_memory_that_was_not_computed_is_no_trouble():
    """Room for results may hold anything, such as infinity."""

    class Room(nn.Module):
        def forward(self, x):
            room = torch.empty(x.shape)
            return x + room.fill_(1.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
        torch.use_deterministic_algorithms(True)  # then such memory holds NaN
        try:
            assert diagnose(Room(), torch.randn(9, 3)).healthy
        finally:
            torch.use_deterministic_algorithms(False)


# ------------------------------------------------------------------------ files


def test_files_are_read_and_damaged_ones_told(network, data, tmp_path):
    """TorchScript, torch.export; NumPy's arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(network), tmp_path / "a.pt")
        torch.export.save(exported(network, data[0]), tmp_path / "a.pt2")
    for name in ("a.pt", "a.pt2"):
        found = diagnose(read_program(tmp_path / name), data)
        assert [layer["dead"] for layer in found.layers] == [1, 8]
    torch.save(network.state_dict(), tmp_path / "state.pt")
    (tmp_path / "bad.pt2").write_bytes(b"no model")
    for name in ("state.pt", "bad.pt2"):
        with pytest.raises(DataError, match="cannot be read"):
            read_program(tmp_path / name)
    np.save(tmp_path / "X.npy", np.zeros((3, 2)))
    np.savez(tmp_path / "both.npz", X=np.zeros((3, 2)), y=np.arange(3))
    assert read_arrays(tmp_path / "X.npy")[1] is None
    assert read_arrays(tmp_path / "both.npz")[1].tolist() == [0, 1, 2]
    np.savez(tmp_path / "other.npz", Z=np.zeros(3))
    np.savez(tmp_path / "text.npz", X=np.zeros((3, 2)), y=np.array(["a", "b", "c"]))
    with pytest.raises(DataError, match="holds Z, expected X"):
        read_arrays(tmp_path / "other.npz")
    with pytest.raises(DataError, match=r"y in .* has dtype <U1"):
        read_arrays(tmp_path / "text.npz")
    with pytest.raises(DataError, match="cannot be read"):
        read_arrays(tmp_path / "bad.pt2")


def test_the_loss_of_logits_probabilities_and_numbers():
    """Probabilities are no logits: they have the same loss."""
    torch.manual_seed(0)
    logits, labels = torch.randn(9, 3), torch.randint(0, 3, (9,))
    expected = CE(logits, labels).item()
    assert likelihood(logits, labels).item() == pytest.approx(expected)
    assert likelihood(logits.softmax(1), labels).item() == pytest.approx(expected)
    numbers = torch.randn(9)
    found = likelihood(logits[:, :1], numbers).item()
    assert found == pytest.approx((logits[:, 0] - numbers).square().mean().item())
