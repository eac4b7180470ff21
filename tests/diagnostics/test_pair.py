"""A generator and a discriminator, looked at as one."""

import copy

import pytest

import hardzero
from hardzero.errors import ParameterError

torch = pytest.importorskip("torch")
nn = torch.nn
N = 400


def pair():
    """Return a generator and a discriminator, as they are drawn."""
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    discriminator = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))
    return generator, discriminator


@pytest.fixture
def data():
    """Return latent vectors and real rows, on the scale of what comes out at first."""
    torch.manual_seed(1)
    return torch.randn(N, 4), 0.3 * torch.randn(N, 2)


def codes(found):
    """Return the codes of what is more than a note."""
    return [f.code for f in found.findings if f.severity != "note"]


def test_a_pair_at_its_start_is_healthy(data):
    """Both are found, under their names."""
    found = hardzero.diagnose(pair(), data)
    assert found.healthy
    assert [row["name"] for row in found.layers] == ["generator.1", "discriminator.1"]
    assert found.facts["n_examples"] == 2 * N
    assert found.facts["blocked_rows"] == 0
    assert found.layers[1]["zeros_by_class"].keys() == {"0", "1"}
    assert hardzero.diagnostics.Diagnosis.from_json(found.to_json()) == found


def test_rows_without_a_gradient_are_counted(data):
    """A discriminator whose rectifiers are off tells the generator nothing."""
    generator, discriminator = pair()
    with torch.no_grad():
        discriminator[0].weight[:, 1] = 0
        discriminator[0].weight[:, 0] = discriminator[0].weight[:, 0].abs()
        discriminator[0].bias[:] = -0.3 * discriminator[0].weight[:, 0]
    found = hardzero.diagnose((generator, discriminator), data)
    with torch.no_grad():
        blocked = float((generator(data[0])[:, 0] <= 0.3).float().mean())
    assert 0.1 < blocked < 1
    assert found.facts["blocked_rows"] == pytest.approx(blocked)
    assert "blocked-gradient" in codes(found)
    discriminator[1] = nn.LeakyReLU(0.2)
    found = hardzero.diagnose((generator, discriminator), data)
    assert "blocked-gradient" not in codes(found)


def test_generated_rows_on_one_spot_are_a_collapse(data):
    """Rows may be copies of a few, or differ by next to nothing."""
    generator, discriminator = pair()
    found = hardzero.diagnose((generator, discriminator), data)
    assert "mode-collapse" not in codes(found)

    class Few(nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = nn.Parameter(torch.randn(5, 2))

        def forward(self, z):
            """Return one of five rows."""
            return self.rows[(z[:, 0] * 1000).long() % 5]

    assert "mode-collapse" in codes(hardzero.diagnose((Few(), discriminator), data))
    with torch.no_grad():
        generator[2].weight *= 1e-3
    found = hardzero.diagnose((generator, discriminator), data)
    assert "mode-collapse" in codes(found)


def test_a_part_of_the_data_that_is_left_out_is_a_collapse():
    """Where generated rows are as good as real ones, but only of one kind."""
    _, discriminator = pair()
    torch.manual_seed(0)
    kinds = torch.tensor([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0]])
    real = kinds[torch.arange(N) % 4] + 0.3 * torch.randn(N, 2)

    class Kinds(nn.Module):
        def __init__(self, n_kinds):
            super().__init__()
            self.n_kinds, self.scale = n_kinds, nn.Parameter(torch.tensor(0.3))

        def forward(self, z):
            """Return rows of the first kinds."""
            kind = kinds[(z[:, 0].abs() * 1000).long() % self.n_kinds]
            return kind + self.scale * z[:, 1:3]

    for n_kinds, severity in ((1, "serious"), (4, None)):
        found = hardzero.diagnose(
            (Kinds(n_kinds), discriminator), (torch.randn(N, 4), real)
        )
        assert found.facts["realistic"] > 0.8
        assert found.facts["covered"] == pytest.approx(n_kinds / 4, abs=0.1)
        severities = {f.code: f.severity for f in found.findings}
        assert severities.get("mode-collapse") == severity


def test_a_discriminator_that_tells_all_is_told(data):
    """Logits and probabilities have their own middle."""
    _, discriminator = pair()
    generator = nn.Sequential(nn.Linear(4, 2))
    with torch.no_grad():
        generator[0].bias.fill_(50)
    optimizer = torch.optim.Adam(discriminator.parameters(), 0.05)
    for _ in range(50):
        rows = torch.cat([data[1], generator(data[0]).detach()])
        labels = torch.cat([torch.ones(N, 1), torch.zeros(N, 1)])
        optimizer.zero_grad()
        nn.BCEWithLogitsLoss()(discriminator(rows), labels).backward()
        optimizer.step()
    found = hardzero.diagnose((generator, discriminator), data, optimizer=optimizer)
    assert found.facts["told_rightly"] == 1
    assert "one-sided-pair" in codes(found)
    assert "not-optimised" not in codes(found)  # another one holds the generator
    squashed = nn.Sequential(discriminator, nn.Sigmoid())
    found = hardzero.diagnose((generator, squashed), data, nn.BCELoss())
    assert found.facts["told_rightly"] == 1


def test_both_are_left_as_they_were(data):
    """Parameters, buffers, modes, gradients and hooks."""
    generator, discriminator = pair()
    generator.insert(1, nn.BatchNorm1d(32))
    discriminator.train()
    before = [copy.deepcopy(m.state_dict()) for m in (generator, discriminator)]
    state = torch.get_rng_state()
    hardzero.diagnose((generator, discriminator), data)
    assert torch.equal(state, torch.get_rng_state())
    for model, values in zip((generator, discriminator), before, strict=True):
        now = model.state_dict()
        assert all(torch.equal(now[name], value) for name, value in values.items())
        assert all(m.training for m in model.modules())
        assert all(p.grad is None for p in model.parameters())
        assert not any(m._forward_hooks for m in model.modules())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda z, _: z, r"expected \(latent, rows\)"),
        (lambda z, x: (x, z), "size|shape"),
        (lambda z, x: (z, torch.cat([x, x], 1)), r"shape \(2,\), and real ones"),
        (lambda z, x: (z[:0], x), "data has no batches"),
        (lambda z, x: ([((z, z), 0)], x), "latent vectors are batches of tuple"),
        (lambda z, x: (iter([z]), x), "an iterator that ends after one pass"),
    ],
)
def test_data_that_do_not_fit_are_told(data, change, message):
    """Errors say what was given and what was expected."""
    with pytest.raises((ParameterError, RuntimeError), match=message):
        hardzero.diagnose(pair(), change(*data))


def test_more_latent_vectors_than_rows_and_loaders(data):
    """As many of each are taken, from whatever yields batches."""
    z, x = data
    latent = torch.utils.data.DataLoader(z, batch_size=64)
    rows = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x[:100], torch.zeros(100)), batch_size=50
    )
    found = hardzero.diagnose(pair(), (latent, rows))
    assert found.facts["n_examples"] == 200


def test_outputs_and_rows_without_a_second_axis(data):
    """One number a row, as a vector."""
    generator = nn.Sequential(
        nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1), nn.Flatten(0)
    )
    discriminator = nn.Sequential(
        *[nn.Unflatten(0, (-1, 1)), nn.Linear(1, 8), nn.ReLU()],
        *[nn.Linear(8, 1), nn.Flatten(0)],
    )
    found = hardzero.diagnose((generator, discriminator), (data[0], data[1][:, 0]))
    assert found.facts["n_examples"] == 2 * N
    assert 0 <= found.facts["told_rightly"] <= 1
