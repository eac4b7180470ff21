"""Certificates: true ones are valid, and whatever changes the truth is refused."""

import ast
import copy
import gzip
import json
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from hardzero import theory
from hardzero.errors import DataError, ParameterError
from hardzero.theory import checker
from hardzero.theory.domain import Domain, read_domain
from hardzero.theory.proof import prove


def random_network(rng, sizes, kind="ints"):
    """Draw a rectifier network; with whole numbers it is mostly degenerate."""
    layers = []
    for a, b in pairwise(sizes):
        W, c = rng.integers(-2, 3, (a, b)), rng.integers(-2, 3, b)
        if kind == "floats":
            W, c = rng.normal(size=(a, b)), rng.normal(size=b)
        layers.append((W.tolist(), c.tolist()))
    return theory.rational_network(layers)


DOMAINS = {
    "all": None,
    "box": (-1, 1),
    "half space": ([0, None, None], None),
    "small box": (Fraction(-1, 3), Fraction(1, 7)),
}


@pytest.mark.parametrize("kind", ["ints", "floats"])
@pytest.mark.parametrize("where", DOMAINS)
def test_counts_are_proved(kind, where):
    """The number of activation patterns comes with a proof that is valid."""
    rng = np.random.default_rng(0)
    for sizes in [(1, 4, 1), (2, 3, 3, 1), (3, 3, 2), (2, 2, 2, 2, 1)]:
        domain = DOMAINS[where]
        if where == "half space":
            domain = ([0, *[None] * (sizes[0] - 1)], [None] * sizes[0])
        for _ in range(4):
            regions = theory.linear_regions(random_network(rng, sizes, kind), domain)
            certificate = regions.certificate()
            assert f"{regions.n_activation_patterns} activation" in theory.verify(
                certificate
            )
            assert certificate.is_about(regions.network)


def test_maxout_networks_are_proved():
    """Units with several pieces compare them one after the other."""
    rng = np.random.default_rng(1)
    for _ in range(6):
        units = [
            [(rng.integers(-2, 3, 2).tolist(), int(rng.integers(-2, 3)))] * 1
            + [(rng.integers(-2, 3, 2).tolist(), int(rng.integers(-2, 3)))] * 2
            + [([0, 0], 0)]
            for _ in range(3)
        ]
        layers = [theory.MaxLayer(units), ([[1], [-2], [1]], [0], "prelu(-1)")]
        network = theory.rational_network(layers)
        for domain in (None, (-1, 1)):
            regions = theory.linear_regions(network, domain)
            assert theory.verify(regions.certificate())
            assert theory.verify(theory.equal(network, network, domain).certificate())


@pytest.mark.parametrize("domain", [None, (-1, 1), ([[1, 1]], [1])])
def test_verdicts_on_two_networks_are_proved(domain):
    """Equality cell by cell, difference by a point."""
    rng = np.random.default_rng(2)
    for _ in range(6):
        f = random_network(rng, (2, 3, 2, 2))
        g = theory.minimise(f, domain).network
        verdict = theory.equal(f, g, domain)
        assert verdict
        assert "are equal" in theory.verify(verdict.certificate())
        other = random_network(rng, (2, 2, 2))
        verdict = theory.equal(f, other, domain)
        assert ("differ at" in theory.verify(verdict.certificate())) is not bool(
            verdict
        )


def test_extremes_are_proved():
    """A maximum with the point where it is taken; a minimum as a maximum."""
    rng = np.random.default_rng(3)
    for _ in range(8):
        network = random_network(rng, (2, 3, 3, 2))
        for find in (theory.maximum, theory.minimum):
            found = find(network, (-1, 1), [1, Fraction(-1, 3)])
            claim = theory.verify(found.certificate())
            assert f"{abs(found.value)} is the max" in claim.removeprefix("-")
        worst = theory.supremum_difference(network, theory.normalise(network), (-1, 1))
        assert worst.value == 0
        assert theory.verify(worst.certificate())


def test_flat_domains_and_many_dimensions_are_proved():
    """Within a hyperplane, and in nine dimensions, where cells are kept by rows."""
    rng = np.random.default_rng(4)
    flat = ([[1, 1], [-1, -1], [1, 0], [-1, 0]], [1, -1, 2, 2])
    for _ in range(6):
        f = random_network(rng, (2, 3, 1))
        assert theory.verify(theory.maximum(f, flat).certificate())
        assert theory.verify(theory.equal(f, f, flat).certificate())
    with pytest.raises(ParameterError, match="the domain lies in a hyperplane"):
        theory.linear_regions(f, flat).certificate()
    wide = random_network(rng, (9, 4, 3, 1), "floats")
    regions = theory.linear_regions(wide, (-1, 1))
    assert theory.verify(regions.certificate())
    assert theory.verify(theory.maximum(wide, (-1, 1)).certificate())


def test_what_cannot_be_certified_is_told():
    """No certificate for infinite values, nor for agreeing decisions."""
    network = theory.rational_network([([[1]], [0]), ([[1]], [0])])
    with pytest.raises(ParameterError, match="extreme value is inf"):
        theory.maximum(network).certificate()
    with pytest.raises(ParameterError, match="decisions were compared"):
        theory.same_decision(network, network).certificate()
    opposite = theory.rational_network([([[-1]], [1])])
    verdict = theory.same_decision(network, opposite)
    assert "differ at" in theory.verify(verdict.certificate())


@pytest.fixture(scope="module")
def certificates():
    """Return a small certificate of each kind."""
    rng = np.random.default_rng(5)
    network = random_network(rng, (2, 2, 2, 1))
    return {
        "regions": theory.linear_regions(network, (-1, 1)).certificate(),
        "equal": theory.equal(network, network, (-1, 1)).certificate(),
        "different": theory.equal(
            network, random_network(rng, (2, 2, 1)), (-1, 1)
        ).certificate(),
        "maximum": theory.maximum(network, (-1, 1)).certificate(),
    }


def leaves(content, path=()):
    """Yield the places of all numbers in nested lists and objects."""
    if isinstance(content, int):
        yield path
    elif isinstance(content, (list, dict)):
        items = content.items() if isinstance(content, dict) else enumerate(content)
        for key, value in items:
            yield from leaves(value, (*path, key))


def at(content, path):
    """Return what a place is in."""
    for key in path[:-1]:
        content = content[key]
    return content


def is_true(certificate):
    """Return whether a claim holds, found out without its proof."""
    content = certificate.content
    networks = certificate.networks
    n = networks[0].n_inputs
    domain = Domain(n, tuple(tuple(row) for row in content["domain"]))
    if certificate.claim == "regions":
        regions = theory.linear_regions(networks[0], domain)
        return regions.n_activation_patterns == content["count"]
    if certificate.claim == "equal":
        return bool(theory.equal(*networks, domain))
    if certificate.claim == "different":
        *x, t = content["point"]
        point = [Fraction(a, t) for a in x]
        return domain.contains(point) and networks[0](point) != networks[1](point)
    ((*c,),) = content["functionals"]
    found = theory.maximum(networks[0], domain, [Fraction(*a) for a in c])
    return found.value == Fraction(*content["value"])


@pytest.mark.parametrize("claim", ["regions", "equal", "different", "maximum"])
def test_whatever_changes_the_truth_is_refused(certificates, claim):
    """Each number of a certificate is changed in turn: what is still accepted is true,
    and most of it is refused.
    """
    n_accepted = n_changed = 0
    for path in leaves(certificates[claim].content):
        for change in (1, -1, 1000):
            content = copy.deepcopy(certificates[claim].content)
            at(content, path)[path[-1]] += change
            n_changed += 1
            try:
                theory.verify(theory.Certificate(content))
            except DataError:
                continue
            n_accepted += 1
            assert is_true(theory.Certificate(content)), (path, change)
    assert n_changed > 30
    assert n_accepted < (0.9 if claim == "different" else 0.5) * n_changed


@pytest.mark.parametrize("claim", ["regions", "equal", "different", "maximum"])
def test_a_part_that_is_missing_or_of_another_kind_is_refused(certificates, claim):
    """Each value is taken out, or replaced; nothing but DataError comes out."""
    for key in certificates[claim].content:
        for other in (None, True, 1.5, "1", [], {}, [[]], [None], 10**30, -1):
            content = {**certificates[claim].content, key: other}
            try:
                theory.verify(theory.Certificate(content))
            except DataError:
                continue
            assert is_true(theory.Certificate(content)), (key, other)
        content = dict(certificates[claim].content)
        del content[key]
        if claim != "different" and not (claim != "regions" and key == "count"):
            with pytest.raises(DataError, match="the certificate proves nothing"):
                theory.verify(theory.Certificate(content))


def test_proofs_that_are_cut_off_or_too_long_are_refused(certificates):
    """A proof must end where the cells end."""
    for claim in ("regions", "equal", "maximum"):
        content = certificates[claim].content
        for proof in (content["proof"][:-1], [*content["proof"], 0], []):
            with pytest.raises(DataError, match="proves nothing"):
                theory.verify(theory.Certificate({**content, "proof": proof}))


def test_equality_of_other_combinations_is_not_called_equality(certificates):
    """Functionals that are not the differences of outputs do not pass for them."""
    content = copy.deepcopy(certificates["equal"].content)
    content["functionals"] = [[[0, 1], [0, 1]]] * 2
    with pytest.raises(DataError, match="it compares no networks"):
        theory.verify(theory.Certificate(content))


def test_a_count_over_two_networks_is_not_taken_for_that_of_the_first():
    """Patterns of networks side by side are more than those of one of them."""
    rng = np.random.default_rng(6)
    f, g = (random_network(rng, (2, 3, 1)) for _ in range(2))
    domain = read_domain((-1, 1), 2)
    proof = json.loads(json.dumps(list(prove([f, g], domain, (), with_points=True))))
    content = copy.deepcopy(theory.linear_regions(f, (-1, 1)).certificate().content)
    other = theory.linear_regions(g, (-1, 1)).certificate().content
    content["networks"] += other["networks"]
    content["proof"] = proof
    for count in range(1, 80):
        content["count"] = count
        with pytest.raises(DataError, match="proves nothing"):
            theory.verify(theory.Certificate(content))
    maximum = copy.deepcopy(theory.maximum(f, (-1, 1)).certificate().content)
    maximum["networks"] *= 2
    with pytest.raises(DataError, match="proves nothing"):
        theory.verify(theory.Certificate(maximum))


@pytest.mark.parametrize("name", ["proof.json", "proof.json.gz"])
def test_files_are_checked_without_hardzero(certificates, name, tmp_path):
    """The checker is one file of the standard library; it reads what save wrote."""
    for claim, certificate in certificates.items():
        path = tmp_path / name
        certificate.save(path)
        again = theory.load_certificate(path)
        assert again.content == certificate.content
        assert again.to_json() == certificate.to_json()
        assert claim in repr(again)
        done = run_checker(path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"valid: {claim} of ")
        assert f"\ndomain: {certificate.content['domain']}"[:200] in done.stdout
    content = {**certificates["regions"].content, "count": 1}
    theory.Certificate(content).save(path)
    done = run_checker(path)
    assert done.returncode == 1
    assert "INVALID: ValueError: miscount" in done.stderr


def run_checker(path):
    """Run the checker as a script that cannot import anything but the library."""
    return subprocess.run(
        [sys.executable, "-I", "-S", checker.__file__, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_checker_is_short():
    """Under a hundred lines of code, without those that are empty or documentation."""
    text = Path(checker.__file__).read_text()
    documentation = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.FunctionDef)) and ast.get_docstring(node):
            documentation |= set(
                range(node.body[0].lineno, node.body[0].end_lineno + 1)
            )
    lines = enumerate(text.splitlines(), start=1)
    assert sum(bool(line.strip()) for i, line in lines if i not in documentation) < 100


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"3", b"{", b"[" * 100_000, b"\xff", b"1" * 5000, b'{"a": NaN}'],
)
@pytest.mark.parametrize("is_compressed", [False, True])
def test_files_that_are_no_certificates(content, is_compressed, tmp_path):
    """Neither a traceback nor a verdict, but what is wrong."""
    path = tmp_path / ("file.json.gz" if is_compressed else "file.json")
    path.write_bytes(gzip.compress(content) if is_compressed else content)
    with pytest.raises(DataError, match=r"is no certificate|proves nothing"):
        theory.verify(path)
    path.write_bytes(b"not gzip")
    with pytest.raises(DataError, match="is no certificate"):
        theory.verify(path)


def test_numbers_of_any_length(tmp_path):
    """Weights of thousands of digits go into a file and come back."""
    huge = 7**6000  # 5,071 digits
    network = theory.rational_network([([[huge]], [1]), ([[Fraction(1, huge)]], [0])])
    found = theory.maximum(network, (-1, 1))
    assert found.value == 1 + Fraction(1, huge)
    path = tmp_path / "huge.json"
    found.certificate().save(path)
    assert theory.verify(path)
    assert run_checker(path).returncode == 0


@pytest.mark.slow
def test_a_tree_of_200_000_tests_is_checked_in_time():
    """The 33,196 cells of the network 4-16-16 on R^4, generated as in the anchors."""
    import time

    rng = np.random.default_rng(0)
    layers = []
    for a, b in [(4, 16), (16, 16), (16, 1)]:
        W = np.round(rng.normal(0, math.sqrt(2 / a), (b, a)) * 256) / 256
        layers.append((W.T, np.round(rng.normal(0, 0.5, b) * 256) / 256))
    regions = theory.linear_regions(theory.rational_network(layers))
    certificate = regions.certificate()
    assert sum(node == 0 or len(node) != 5 for node in certificate.content["proof"]) > 0
    assert len(certificate.content["proof"]) == 199_074 + 33_196
    start = time.process_time()
    assert "33,196 activation patterns" in theory.verify(certificate)
    assert time.process_time() - start < 120


def test_json_is_plain(certificates):
    """No floats, no exponents, no line breaks."""
    text = certificates["maximum"].to_json()
    assert json.loads(text) == certificates["maximum"].content
    assert "." not in text.replace('"hardzero certificate 1"', "")
    assert "\n" not in text


def test_a_damaged_compressed_file_is_told(certificates, tmp_path):
    """Each byte of the body that is changed gives an error, never a traceback."""
    path = tmp_path / "proof.json.gz"
    certificates["regions"].save(path)
    data = path.read_bytes()
    for place in range(10, len(data), 7):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        with pytest.raises(DataError, match=r"is no certificate|proves nothing"):
            theory.verify(path)


def test_numbers_of_other_types_are_refused(certificates):
    """A count is a whole number, a cut is 0, and nothing follows the end."""
    content = certificates["regions"].content
    cut = content["proof"].index(0)
    for change in (
        {"count": float(content["count"])},
        {"proof": [*content["proof"][:cut], False, *content["proof"][cut + 1 :]]},
        {"proof": [*content["proof"][:cut], 0.0, *content["proof"][cut + 1 :]]},
        {"proof": [*content["proof"], None, [1]]},
    ):
        with pytest.raises(DataError, match="proves nothing"):
            theory.verify(theory.Certificate({**content, **change}))


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        (None, "everywhere"),
        ((-1, "1/2"), "on [-1, 1/2]^2"),
        ((0, None), "on [0, infinity)^2"),
        (([0, 0], [1, 2]), "on [0, 1] x [0, 2]"),
        (([[1, "-1/2"]], [1]), "where 2 x0 + -1 x1 <= 2"),
        (([[1, k] for k in range(9)], [1] * 9), "1 x0 + 5 x1 <= 1 and 3 more"),
    ],
)
def test_claims_name_their_domain(domain, words):
    """A box of equal sides is written as one."""
    f = theory.rational_network([([[1, 0], [0, 1]], [0, 0]), ([[1], [1]], [0])])
    claim = theory.verify(theory.linear_regions(f, domain).certificate())
    assert claim.endswith(words)


def test_long_numbers_are_for_all_threads_at_once():
    """Python's limit holds for all threads: the last one puts it back."""
    before = sys.get_int_max_str_digits()
    network = theory.rational_network([([[10**6000]], [0]), ([[1]], [0])])
    certificate = theory.maximum(network, (0, 1)).certificate()

    def work(_):
        return [len(certificate.to_json()) > 6000 for _ in range(20)]

    with ThreadPoolExecutor(6) as pool:
        assert all(all(found) for found in pool.map(work, range(6)))
    assert sys.get_int_max_str_digits() == before


@pytest.mark.parametrize(
    ("claim", "networks", "functionals"),
    [
        ("equal", [1, 2], [[[0, 1], [0, 1]]]),
        ("different", [1, 1], [[[1, 1], [1, 1]], [[-1, 1], [-1, 1]]]),
        ("equal", [1], [[[0, 1]]]),
    ],
)
def test_only_differences_of_outputs_compare_networks(claim, networks, functionals):
    """The file alone, without the rest of hardzero, takes nothing else for equality."""
    content = {
        "format": "hardzero certificate 1",
        "claim": claim,
        "networks": [{"layers": [[[[w, 0]]]], "scale": [1, 1]} for w in networks],
        "domain": [],
        "functionals": functionals,
        "value": [0, 1],
        "point": [-1, 1],
        "proof": [],
    }
    with pytest.raises(ValueError, match="it compares no networks"):
        checker.prove(content)


def test_layers_of_zeros_are_the_same_whatever_their_scale():
    """A certificate knows a model again that was written and read."""
    network = theory.rational_network(
        [([[0]], [0], "leaky_rectifier(0.25)"), ([[0]], [0])]
    )
    again = theory.rational_network(
        [([[0]], [0], "leaky_rectifier(0.5)"), ([[0]], [0])]
    )
    assert theory.maximum(network, (0, 1)).certificate().is_about(network)
    assert network.scales == again.scales == (1, 1)
