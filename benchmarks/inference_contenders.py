"""The forward pass on a mini-batch, up to the last pre-activations, by every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
from host import MissingError, Ready
from tasks import Case, Floats, stack_of

#: Largest difference from NumPy's float64 outputs, relative to the largest output.
TOLERANCE = 1e-5


def hardzero(case: Case, engine: str) -> Ready:
    """Our own kernels.

    ``auto`` is the product, ``sparse`` always skips, ``dense`` never does.
    """
    from hardzero import kernels
    from hardzero.kernels.rules import SGD

    network = kernels.build(
        stack_of(case.task.weights, case.task.biases),
        SGD(case.learning_rate),
        engine=engine,
        n_threads=case.n_threads,
    )
    return _ready(network.forward, case.batches())


def numpy_forward(case: Case, sparse_input: bool = False) -> Ready:
    """NumPy's matrix products; SciPy's CSR product in the first layer on request."""
    if sparse_input and not case.is_sparse:
        raise MissingError("only for sparse input")
    W, b = case.task.weights, case.task.biases
    last = len(W) - 1

    def forward(X: Any) -> Floats:
        h = X
        for layer in range(last + 1):
            h = h @ W[layer]
            h += b[layer]
            if layer < last:
                np.maximum(h, 0, out=h)
        return h

    return _ready(forward, case.csr_batches() if sparse_input else case.dense_batches())


def torch_eager(case: Case, compiled: bool = False) -> Ready:
    """PyTorch's modules in inference mode."""
    import torch
    from training_contenders import torch_network

    torch.set_num_threads(case.n_threads)
    network = torch_network(case).eval()
    if compiled:
        network = torch.compile(network, fullgraph=True)
    # a compiled module is entered quicker under no_grad than in inference mode
    quiet = torch.no_grad if compiled else torch.inference_mode

    def forward(X: Any) -> Any:
        with quiet():
            return network(X)

    return _ready(forward, [torch.from_numpy(X) for X in case.dense_batches()])


def onnx_runtime(case: Case) -> Ready:
    """ONNX Runtime on a graph of Gemm and Relu nodes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = case.n_threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        _onnx_model(case), options, providers=["CPUExecutionProvider"]
    )

    def forward(X: Floats) -> Floats:
        outputs: Floats = session.run(None, {"X": X})[0]
        return outputs

    return _ready(forward, case.dense_batches())


def jax_jit(case: Case) -> Ready:
    """JAX: the forward pass under ``jit``."""
    import jax
    import jax.numpy as jnp

    last = len(case.task.weights) - 1
    pairs = zip(case.task.weights, case.task.biases, strict=True)
    parameters = [(jnp.array(W), jnp.array(b)) for W, b in pairs]

    @jax.jit
    def apply(parameters: Any, X: Any) -> Any:
        h = X
        for layer, (W, b) in enumerate(parameters):
            h = h @ W + b
            if layer < last:
                h = jax.nn.relu(h)
        return h

    def forward(X: Any) -> Any:
        return apply(parameters, X).block_until_ready()

    return _ready(forward, [jnp.array(X) for X in case.dense_batches()])


def check(case: Case, ready: Ready) -> dict[str, Any]:
    """Compare the outputs of one check batch with NumPy's in float64.

    Returns
    -------
    dict
        ``largest_difference``, relative to the largest output, and ``agrees``.
    """
    i = case.checks[0]
    ready.run(i)
    h = case.batches()[i].astype(np.float64)
    for W, b in zip(case.task.weights, case.task.biases, strict=True):
        outputs = h @ W + b
        h = np.maximum(outputs, 0)
    gap = np.abs(ready.result()[0] - outputs).max() / np.abs(outputs).max()
    return {
        "largest_difference": float(f"{gap:.2g}"),
        "agrees": bool(gap <= TOLERANCE),
    }


def _ready(forward: Any, batches: list[Any]) -> Ready:
    """Time ``forward(batches[i])`` and keep its last outputs for the check."""
    outputs: list[Any] = [None]

    def run(i: int) -> None:
        outputs[0] = forward(batches[i])

    return Ready(run, lambda: [np.asarray(outputs[0])])


def _onnx_model(case: Case) -> bytes:
    """Write the network as an ONNX graph for this batch size."""
    from onnx import TensorProto, helper, numpy_helper

    nodes, constants, current = [], [], "X"
    last = len(case.task.weights) - 1
    for layer in range(last + 1):
        names = [f"W{layer}", f"b{layer}"]
        arrays = (case.task.weights[layer], case.task.biases[layer])
        constants += map(numpy_helper.from_array, arrays, names)
        nodes.append(helper.make_node("Gemm", [current, *names], [f"a{layer}"]))
        current = f"a{layer}"
        if layer < last:
            nodes.append(helper.make_node("Relu", [current], [f"h{layer}"]))
            current = f"h{layer}"
    sizes = case.task.sizes
    graph = helper.make_graph(
        nodes,
        "rectifier network",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [case.batch, sizes[0]])],
        [
            helper.make_tensor_value_info(
                current, TensorProto.FLOAT, [case.batch, sizes[-1]]
            )
        ],
        constants,
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    return bytes(model.SerializeToString())
