"""The compiled core against the reference, against itself, and against PyTorch."""

import os
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from strategies import exact_rules, floating_task, problems, short_problems

from hardzero.activations import CATALOGUE
from hardzero.kernels import build
from hardzero.kernels.reference import ReferenceNetwork
from hardzero.kernels.rules import SGD, Adam
from hardzero.kernels.sparse import SparseNetwork, instruction_sets
from hardzero.stack import Layer, RectifierStack

LEVELS = instruction_sets()[1]
MODES = ["auto", "sparse", "dense"]
RULES = [
    SGD(0.1),
    SGD(0.1, l2=0.01),
    SGD(0.1, momentum=0.9),
    SGD(0.05, momentum=0.9, nesterov=True, l2=0.01),
    Adam(0.01, l2=0.01),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("mode", MODES)
@given(problem=problems(), rule=exact_rules(), sparse=st.booleans())
def test_equals_the_reference_on_small_integers(level, mode, problem, rule, sparse):
    """Every kernel of every instruction set gives the reference's numbers, with =="""
    expected = problem.train(ReferenceNetwork, rule)
    assert (
        problem.train(SparseNetwork, rule, sparse=sparse, mode=mode, level=level)
        == expected
    )


@pytest.mark.parametrize("mode", MODES)
@given(problem=short_problems(), rule=exact_rules(), threads=st.integers(1, 3))
def test_lazy_updates_equal_eager_ones(mode, problem, rule, threads):
    """Rows that idle in one batch and are used in the next have momentum and decay"""
    expected = problem.train(ReferenceNetwork, rule)
    assert problem.train(SparseNetwork, rule, mode=mode, n_threads=threads) == expected


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 7, 150])
def test_neither_skipping_nor_kernels_nor_threads_change_a_bit(rule, dtype, n_rows):
    """Skipping on or off, sparse or dense kernels, 1 or n threads: the same bits

    Only listing zeros shows in weight decay and momentum, which then have no idle rows
    to be lazy about: the same mathematics, rounded once a step instead of once.
    """
    plain = _trained(rule, dtype, n_rows)
    eager = {"skip_zeros": False}
    for options in (
        eager if rule == RULES[0] or isinstance(rule, Adam) else {"n_threads": 4},
        {"mode": "sparse"},
        {"mode": "dense"},
        {"n_threads": 2},
        {"n_threads": 3, "mode": "sparse"},
        {"n_threads": 3, "mode": "dense"},
        {"n_threads": 5, "mode": "auto"},
    ):
        assert _trained(rule, dtype, n_rows, **options) == plain, options


@pytest.mark.skipif(
    not {"v3", "v4"} <= set(LEVELS), reason="needs a processor with AVX-512"
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_instruction_sets_with_fused_multiply_add_give_the_same_bits(dtype):
    """x86-64-v3 and v4 differ in the width of their registers, not in their results"""
    v3, v4 = (_trained(SGD(0.1), dtype, 20, level=level) for level in ("v3", "v4"))
    assert v3 == v4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 15, 16, 17, 129, 1024, 1025, 2100])
def test_wide_layers_give_the_same_bits(width, dtype):
    """Rows longer than one stretch of columns, and batches that leave the cache"""
    rng = np.random.default_rng(width)
    stack = _stack(rng, (9, width, width, 3), dtype)
    X = rng.normal(size=(300, 9)).astype(dtype)
    y = rng.integers(0, 3, 300)
    expected = None
    for options in ({"mode": "sparse"}, {"mode": "dense"}, {"n_threads": 2}):
        network = SparseNetwork(stack, SGD(0.01), **options)
        network.bind(X, y)
        network.step(np.arange(300))
        network.step(np.arange(12))
        result = network.stack()
        expected = expected or result
        assert result == expected, options
    reference = ReferenceNetwork(stack, SGD(0.01))
    reference.bind(X, y)
    reference.step(np.arange(300))
    reference.step(np.arange(12))
    for ours, theirs in zip(expected.layers, reference.stack().layers, strict=True):
        atol = 1e-4 if dtype == np.float32 else 1e-12  # rounding moves kinks
        np.testing.assert_allclose(ours.W, theirs.W, atol=atol)


@pytest.mark.parametrize("rule", [SGD(0.01), SGD(0.01, 0.9, l2=0.1), Adam(0.01)])
@pytest.mark.parametrize("width", [7, 129, 1030])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense input", "CSR"])
def test_many_rows_over_few_inputs_give_the_same_bits(rule, width, sparse):
    """The update of a first layer whose inputs are active in many rows of the batch"""
    rng = np.random.default_rng(width)
    stack = _stack(rng, (300, width, 3), np.float32)
    X = (rng.normal(size=(330, 300)) * (rng.random((330, 300)) < 0.3)).astype("f4")
    X[:, 7] = 0
    y = rng.integers(0, 3, 330)
    results = []
    for options in ({"mode": "sparse"}, {"mode": "dense"}, {"n_threads": 2}):
        network = SparseNetwork(stack, rule, **options)
        network.bind(sp.csr_array(X) if sparse else X, y)
        for n_rows in (330, 64, 65, 130):
            network.step(np.arange(n_rows))
        results.append(network.stack())
    assert results[0] == results[1] == results[2]
    reference = ReferenceNetwork(stack.astype("f8"), rule)
    reference.bind(X.astype("f8"), y)
    for n_rows in (330, 64, 65, 130):
        reference.step(np.arange(n_rows))
    ours, theirs = results[0].layers[0].W, reference.stack().layers[0].W
    assert np.mean(np.abs(ours - theirs) > 1e-4) < 1e-3  # Adam may turn at a kink


@pytest.mark.parametrize("sparse", [False, True], ids=["dense input", "CSR"])
@pytest.mark.parametrize("activation", CATALOGUE)
def test_every_activation_trains_as_the_reference_does(activation, sparse):
    """All activation functions run through the core"""
    stack, X, y, weight = floating_task(activation, np.float64, (11, 19, 8, 4), 40)
    results = []
    for engine in (ReferenceNetwork, SparseNetwork):
        network = engine(stack, SGD(0.05), l1_activation=0.01)
        network.bind(sp.csr_array(X) if sparse else X, y, weight)
        losses = [network.step(np.arange(i, 40, 4)) for i in range(4)]
        results.append((losses, network.stack()))
    (losses, trained), (our_losses, ours) = results
    np.testing.assert_allclose(our_losses, losses, rtol=1e-9)
    for a, b in zip(ours.layers, trained.layers, strict=True):
        for name, array in a.arrays().items():
            np.testing.assert_allclose(array, b.arrays()[name], atol=1e-9)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CATALOGUE)
def test_activations_are_those_of_the_catalogue(name, dtype, level):
    """Values and derivatives agree to rounding, and none is NaN or infinite"""
    from hardzero.kernels import _core

    entry = CATALOGUE[name]
    x = np.concatenate([np.linspace(-30, 30, 601), [-1e4, -0.0, 0.0, 1e-40, 1e4]])
    x = x.astype(dtype)
    value, slope = _core.activate(entry.code, entry.parameter, x, level)
    eps = 32 * np.finfo(dtype).eps
    np.testing.assert_allclose(value, entry(x), rtol=eps, atol=eps)
    ordinary = np.abs(x) > 1e-30 if name == "leaky_integrate_and_fire" else slice(None)
    np.testing.assert_allclose(
        slope[ordinary], entry.derivative(x)[ordinary], rtol=eps, atol=eps
    )
    assert np.isfinite(value).all()
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("l1_activation", [0.0, 1e-3])
def test_weights_agree_with_pytorch_after_20_steps(l1_activation):
    """Exact: PyTorch's autograd gives the same weights to 1e-6 in float32"""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    stack = _stack(rng, (64, 100, 100, 10), np.float32)
    X = (rng.random((200, 64)) * (rng.random((200, 64)) < 0.2)).astype(np.float32)
    y = rng.integers(0, 10, 200)
    parameters = [
        torch.tensor(np.array(a), requires_grad=True)
        for layer in stack.layers
        for a in (layer.W, layer.b)
    ]
    optimizer = torch.optim.SGD(parameters, lr=0.05)
    network = SparseNetwork(stack, SGD(0.05), l1_activation=l1_activation)
    network.bind(X, y)
    for rows in np.arange(200).reshape(20, 10):
        h, penalty = torch.from_numpy(X[rows]), 0.0
        for i in range(3):
            h = h @ parameters[2 * i] + parameters[2 * i + 1]
            if i < 2:
                h = h.relu()
                penalty = penalty + h.abs().sum() / len(rows)
        loss = torch.nn.functional.cross_entropy(h, torch.from_numpy(y[rows]))
        optimizer.zero_grad()
        (loss + l1_activation * penalty).backward()
        optimizer.step()
        assert network.step(rows) == pytest.approx(loss.item(), rel=1e-5)
    for i, layer in enumerate(network.stack().layers):
        np.testing.assert_allclose(layer.W, parameters[2 * i].detach(), atol=1e-6)
        np.testing.assert_allclose(layer.b, parameters[2 * i + 1].detach(), atol=1e-6)


@pytest.mark.parametrize("rule", RULES[1:4], ids=repr)
def test_a_row_that_idles_for_thousands_of_steps_is_caught_up_on(rule):
    """Lazy decay and momentum are exact for any idle time, and over a change of rate"""
    rng = np.random.default_rng(2)
    stack = _stack(rng, (3, 4, 2), np.float64)
    X = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [1.0, 1.0, 1.0]])
    y = np.array([0, 1, 1])
    results = []
    for engine in (ReferenceNetwork, SparseNetwork):
        network = engine(stack, rule)
        network.bind(X, y)
        network.step(np.array([2]))
        for _ in range(2500):
            network.step(np.array([0]))
        network.set_learning_rate(0.01)
        for _ in range(30):
            network.step(np.array([1]))
        results.append(network.stack())
    for a, b in zip(results[0].layers, results[1].layers, strict=True):
        np.testing.assert_allclose(a.W, b.W, rtol=1e-10, atol=1e-12)


def test_minus_zero_and_denormals_do_no_harm():
    """Weights and biases of -0.0 and denormal inputs give the reference's values"""
    stack = RectifierStack(
        [
            Layer(
                np.array([[-0.0, 1.0], [2.0, -0.0]]),
                np.array([-0.0, -0.0]),
                "rectifier",
            ),
            Layer(np.eye(2), np.zeros(2), "identity"),
        ],
        "softmax",
    )
    X = np.array([[0.0, -0.0], [5e-324, 1.0], [-1.0, 0.0]])
    for mode in MODES:
        network = SparseNetwork(stack, SGD(0.5), mode=mode)
        np.testing.assert_array_equal(network.forward(X), stack(X))


def test_nan_is_not_taken_for_a_zero():
    """A weight that is not a number shows in the loss, never as a silent unit"""
    stack = _stack(np.random.default_rng(0), (4, 5, 2), np.float64)
    for mode in MODES:
        network = SparseNetwork(stack, SGD(0.1), mode=mode)
        network.bind(np.ones((2, 4)), np.array([0, 1]))
        network._core.W(0)[1, 2] = np.nan
        assert np.isnan(network.step(np.array([0, 1])))


def test_rows_outside_of_the_training_set_are_refused():
    """A wrong row number is an IndexError, not a read of foreign memory"""
    network, _, _ = _bound()
    for row in (-1, 60, 2**40):
        with pytest.raises(IndexError, match="row"):
            network.step(np.array([0, row]))


def test_interrupt_arrives_within_a_batch():
    """Ctrl-C stops a loop of steps within a second, and the network stays usable"""
    network, _, _ = _bound(sizes=(23, 300, 300, 5))
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()

    def train() -> None:
        while time.monotonic() - begin < 20:
            network.step(np.arange(60))

    with pytest.raises(KeyboardInterrupt):
        train()
    assert time.monotonic() - begin < 2
    assert np.isfinite(network.step(np.arange(60)))


def test_python_threads_may_train_side_by_side():
    """Networks in several Python threads, each with a pool, give the usual bits"""
    expected = _trained(SGD(0.1), np.float32, 30)
    results = []
    threads = [
        threading.Thread(
            target=lambda: results.append(
                _trained(SGD(0.1), np.float32, 30, n_threads=3)
            )
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_python_threads_may_share_a_network():
    """Predictions that several threads ask of one network are not mixed up"""
    network, X, _ = _bound(sizes=(23, 64, 64, 5))
    expected = network.forward(X)
    wrong = []

    def predict(row: int) -> None:
        wrong.extend(
            row
            for _ in range(200)
            if not np.array_equal(network.forward(X[row : row + 1])[0], alone[row])
        )

    alone = [network.forward(X[row : row + 1])[0] for row in range(4)]
    threads = [threading.Thread(target=predict, args=(row,)) for row in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    np.testing.assert_array_equal(network.forward(X), expected)


def test_thread_counts_may_alternate():
    """A thread left over from a job of many threads takes no part in one of few"""
    rng = np.random.default_rng(0)
    stack = _stack(rng, (300, 1024, 10), np.float32)
    X = rng.normal(size=(64, 300)).astype(np.float32)
    networks = [SparseNetwork(stack, SGD(0.1), n_threads=n) for n in (8, 2, 5)]
    expected = networks[0].forward(X)
    for _ in range(300):
        for network in networks:
            np.testing.assert_array_equal(network.forward(X), expected)


def test_a_daemon_thread_may_be_training_when_python_ends():
    """The interpreter ends in peace while a daemon thread is inside of the core"""
    code = """
import threading, time
import numpy as np
from hardzero.kernels.rules import SGD
from hardzero.kernels.sparse import SparseNetwork
from hardzero.stack import Layer, RectifierStack
stack = RectifierStack([Layer(np.eye(900), np.zeros(900), "rectifier"),
                        Layer(np.eye(900), np.zeros(900), "identity")], "softmax")
network = SparseNetwork(stack, SGD(0.1))
network.bind(np.ones((300, 900)), np.zeros(300, dtype=np.int64))
def train():
    while True:
        network.step(np.arange(300))
threading.Thread(target=train, daemon=True).start()
time.sleep(0.3)
"""
    done = _run(code)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_forked_while_a_thread_predicts_goes_on():
    """The child inherits no lock that nobody will ever open"""
    code = """
import os, sys, threading, time, warnings
import numpy as np
from hardzero.kernels.rules import SGD
from hardzero.kernels.sparse import SparseNetwork
from hardzero.stack import Layer, RectifierStack
warnings.simplefilter("ignore")
stack = RectifierStack([Layer(np.eye(600), np.zeros(600), "identity")], "softmax")
network = SparseNetwork(stack, SGD(0.1), n_threads=2)
X = np.ones((900, 600))
stop = False
def predict():
    while not stop:
        network.forward(X)
thread = threading.Thread(target=predict)
thread.start()
for ending in [os._exit] * 10 + [sys.exit]:
    child = os.fork()
    if not child:
        network.forward(X)
        ending(0)
    begin = time.monotonic()
    os.waitpid(child, 0)
    assert time.monotonic() - begin < 5, "it waits for threads that it does not have"
stop = True
thread.join()
"""
    assert _run(code).returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_goes_on():
    """After a fork the child trains with threads of its own"""
    code = """
import os, warnings
import numpy as np
from hardzero.kernels.rules import SGD
from hardzero.kernels.sparse import SparseNetwork
from hardzero.stack import Layer, RectifierStack
stack = RectifierStack([Layer(np.eye(200), np.zeros(200), "rectifier"),
                        Layer(np.eye(200), np.zeros(200), "identity")], "softmax")
network = SparseNetwork(stack, SGD(0.1), n_threads=3)
network.bind(np.ones((50, 200)), np.zeros(50, dtype=np.int64))
network.step(np.arange(50))
warnings.simplefilter("ignore")
child = os.fork()
for _ in range(50):
    network.step(np.arange(50))
if child:
    _, status = os.waitpid(child, 0)
    raise SystemExit(os.waitstatus_to_exitcode(status))
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_environment_forces_an_instruction_set():
    """HARDZERO_ISA chooses the level, and a wrong one is named with those there are"""
    code = "from hardzero.kernels.sparse import instruction_sets as i; print(i()[0])"
    for level in LEVELS:
        done = _run(code, HARDZERO_ISA=level)
        assert done.stdout.strip() == level
    done = _run(code, HARDZERO_ISA="mmx")
    assert done.returncode != 0
    assert 'level "mmx" is not one of those' in done.stderr
    assert LEVELS[0] in done.stderr


def test_busy_cores_do_not_make_the_pool_collapse():
    """With every core taken by others, two threads are not much slower than one"""
    spin = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        times = {}
        for n_threads in (1, 2):
            network, _, _ = _bound(sizes=(23, 400, 400, 5), n_threads=n_threads)
            network.step(np.arange(10))
            begin = time.monotonic()
            for _ in range(300):
                network.step(np.arange(10))
            times[n_threads] = time.monotonic() - begin
    finally:
        for process in spin:
            process.kill()
            process.wait()
    # Pools that wait for each of their threads at every pass were seen 10 to 40 times
    # slower here.
    assert times[2] < 5 * times[1] + 0.2


def test_choices_can_be_printed():
    """Each pass of each layer says which kernel it took, from what, and why"""
    network, _, _ = _bound()
    network.step(np.arange(10))
    lines = [str(choice) for choice in network.choices()]
    assert len(lines) == 4
    assert lines[0].startswith("layer 1 forward: ")
    assert "non-zeros in 10 rows" in lines[0]
    forced, _, _ = _bound(mode="dense")
    forced.step(np.arange(10))
    assert all(": dense (" in str(choice) for choice in forced.choices())


def test_build_chooses_the_engine():
    """The core is what "auto" and "sparse" mean, and other names are refused"""
    stack = _stack(np.random.default_rng(0), (4, 5, 2), np.float64)
    assert isinstance(build(stack, SGD(0.1)), SparseNetwork)
    assert isinstance(build(stack, SGD(0.1), "sparse"), SparseNetwork)
    with pytest.raises(ValueError, match="engine is 'gpu', expected 'auto'"):
        build(stack, SGD(0.1), "gpu")


def _run(code: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _stack(
    rng: np.random.Generator, sizes: tuple[int, ...], dtype: type
) -> RectifierStack:
    layers = [
        Layer(
            rng.normal(size=(n, m)) * np.sqrt(2 / n),
            0.1 * rng.normal(size=m),
            "rectifier",
        )
        for n, m in pairwise(sizes)
    ]
    layers[-1] = Layer(layers[-1].W, layers[-1].b, "identity")
    return RectifierStack(layers, "softmax").astype(dtype)


def _bound(sizes=(23, 37, 5), **options):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 23)) * (rng.random((60, 23)) < 0.3)
    network = SparseNetwork(_stack(rng, sizes, np.float64), SGD(0.01), **options)
    network.bind(X, rng.integers(0, 5, 60))
    return network, X, options


def _trained(rule, dtype, n_rows, **options) -> RectifierStack:
    """Return the stack after some steps on random rows; == compares its bits."""
    rng = np.random.default_rng(4)
    stack = _stack(rng, (33, 150, 1, 70, 5), dtype)
    X = (rng.normal(size=(300, 33)) * (rng.random((300, 33)) < 0.3)).astype(dtype)
    X[5] = 0.0
    network = SparseNetwork(stack, rule, l1_activation=1e-3, **options)
    network.bind(X, rng.integers(0, 5, 300), rng.random(300))
    for _ in range(5):
        network.step(rng.permutation(300)[:n_rows])
    return network.stack()


def test_tiles_of_a_million_outputs():
    """So many blocks that their products with the number of tiles exceed 32 bits"""
    n = 2**21 + 17  # in float64; from 2**20 on such a product overflowed
    rng = np.random.default_rng(0)
    W = rng.normal(size=(3, n))
    stack = RectifierStack([Layer(W, np.zeros(n), "identity")])
    X = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    outputs = SparseNetwork(stack, SGD(0.1), mode="sparse").forward(X)
    assert (outputs == [W[0], 2 * W[2]]).all()
