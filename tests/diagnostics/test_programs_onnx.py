"""ONNX models compute as modules what ONNX says, and are diagnosed like others."""

import numpy as np
import pytest

from hardzero.diagnostics import diagnose
from hardzero.errors import DataError, ParameterError

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
evaluation = pytest.importorskip("onnx.reference")

from hardzero.diagnostics.programs import Graph, read_program  # noqa: E402


def proto(nodes, constants, shape, opset=17):
    """Return an ONNX model from x to y."""
    initial = [
        onnx.numpy_helper.from_array(np.asarray(value), name)
        for name, value in constants.items()
    ]
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes,
        "graph",
        [onnx.helper.make_tensor_value_info("x", kind, shape)],
        [onnx.helper.make_tensor_value_info("y", kind, None)],
        initial,
    )
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", opset)]
    )


def node(kind, inputs, output, **settings):
    """Return an operator."""
    return onnx.helper.make_node(kind, inputs.split(), [output], **settings)


def reference(model, x):
    """Return what ONNX itself computes."""
    return evaluation.ReferenceEvaluator(model).run(None, {"x": x})[0]


def floats(*shape):
    """Return random weights."""
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.fixture(scope="module")
def convolutional():
    """Return a convolutional model in ONNX that has dead units."""
    nodes = [
        node("Conv", "x W0 b0", "0", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "0 g s m v", "1"),
        node("Relu", "1", "2", name="/features/relu.1"),
        node("MaxPool", "2", "3", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "3", "4"),
        node("MatMul", "4 W1", "5"),
        node("Add", "b1 5", "6"),
        node("LeakyRelu", "6", "7", alpha=0.2),
        node("Gemm", "7 W2 b2", "8", transB=1, alpha=0.5, beta=2.0),
        node("Relu", "8", "9"),
        node("Add", "9 7", "10"),
        node("Gemm", "10 W3", "11"),
        node("Softmax", "11", "y"),
    ]
    b2 = floats(5)
    b2[:2] = -100
    constants = {"W0": floats(4, 2, 3, 3), "b0": floats(4), "g": floats(4) + 2}
    constants |= {"s": floats(4), "m": floats(4), "v": floats(4) ** 2 + 1}
    constants |= {"W1": floats(16, 5), "b1": floats(5), "W2": floats(5, 5), "b2": b2}
    return proto(nodes, constants | {"W3": floats(5, 3)}, ["n", 2, 4, 4])


def test_an_onnx_model_computes_the_same_and_is_diagnosed(convolutional):
    """Convolutions, normalisation, linear maps and residual sums."""
    x = floats(50, 2, 4, 4)
    found = Graph(convolutional).eval()(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(found, reference(convolutional, x), atol=1e-5)
    diagnosis = diagnose(convolutional, x)
    (dead,) = (f for f in diagnosis.findings if f.code == "dead-units")
    assert "of 5 units" in dead.summary
    assert "biases are strongly negative (median -" in dead.cause
    names = [layer["name"] for layer in diagnosis.layers]
    assert names[0] == "features_relu_1"
    assert [layer["units"] for layer in diagnosis.layers] == [4, 5, 5]


@pytest.mark.parametrize(
    ("kind", "settings", "constants"),
    [
        ("Clip", {}, {"low": np.float32(0), "high": np.float32(1)}),
        ("Elu", {"alpha": 0.7}, {}),
        ("Softplus", {}, {}),
        ("Sigmoid", {}, {}),
        ("Tanh", {}, {}),
        ("LogSoftmax", {"axis": 1}, {}),
        ("Reshape", {}, {"shape": np.array([0, 2, -1])}),
        ("Sub", {}, {"other": floats(1)}),
        ("Mul", {}, {"other": floats(1)}),
        ("Div", {}, {"other": floats(1)}),
        ("GlobalAveragePool", {}, {}),
        ("AveragePool", {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}, {}),
        ("Identity", {}, {}),
        ("Dropout", {}, {}),
        ("Flatten", {}, {}),
    ],
)
def test_each_operator_computes_what_onnx_says(kind, settings, constants):
    """Equal to the reference of ONNX."""
    inputs = " ".join(["x", *constants])
    model = proto([node(kind, inputs, "y", **settings)], constants, ["n", 2, 4, 4])
    x = floats(7, 2, 4, 4)
    found = Graph(model)(torch.tensor(x)).numpy()
    np.testing.assert_allclose(found, reference(model, x), atol=1e-6)


def test_what_cannot_be_converted_is_named():
    """Operators, settings, inputs and old versions."""
    x = ["n", 2, 4, 4]
    unknown = [node("Einsum", "x", "0", equation="i->i"), node("Det", "0", "y")]
    for nodes, constants, message in (
        (unknown, {}, "uses Det, Einsum; known are Add, AveragePool"),
        ([node("Flatten", "x", "y", axis=2)], {}, "axis is 2"),
        ([node("Gemm", "x x", "y")], {}, "input 1 is not a constant"),
        ([node("Gemm", "x W", "y", transA=1)], {"W": floats(3, 3)}, "transA"),
        (
            [node("Conv", "x W", "y", pads=[0, 1, 1, 1])],
            {"W": floats(3, 2, 3, 3)},
            "differ between the sides",
        ),
        (
            [node("MaxPool", "x", "y", kernel_shape=[2, 2], ceil_mode=1)],
            {},
            "ceil_mode",
        ),
    ):
        with pytest.raises(ParameterError, match=message):
            diagnose(proto(nodes, constants, x), torch.zeros(3, 2, 4, 4))
    old = proto([node("Relu", "x", "y")], {}, x, opset=9)
    with pytest.raises(ParameterError, match="has opset 9, expected 13"):
        Graph(old)


def test_files_are_read_and_damaged_ones_told(convolutional, tmp_path):
    """What an exporter wrote, and what none did."""
    onnx.save(convolutional, tmp_path / "a.onnx")
    assert isinstance(read_program(tmp_path / "a.onnx"), Graph)
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(DataError, match="cannot be read"):
        read_program(tmp_path / "bad.onnx")
