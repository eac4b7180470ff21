"""Time of a prediction: hardzero beside every dense peer, on the same network.

The same networks and rows as `training_step.py`; each contender's outputs are held to
NumPy's float64 result before it is timed. Lower precision (bfloat16 on matrix units) is
other mathematics and not part of the comparison.
"""

from __future__ import annotations

import racing
from racing import Contender

MODULE = "inference_contenders"

CONTENDERS = (
    Contender("hardzero", MODULE, "hardzero", {"engine": "auto"}),
    Contender("hardzero sparse only", MODULE, "hardzero", {"engine": "sparse"}),
    Contender("hardzero dense", MODULE, "hardzero", {"engine": "dense"}),
    Contender("NumPy", MODULE, "numpy_forward"),
    Contender("NumPy, CSR first", MODULE, "numpy_forward", {"sparse_input": True}),
    Contender("PyTorch", MODULE, "torch_eager"),
    Contender("torch.compile", MODULE, "torch_eager", {"compiled": True}),
    Contender("ONNX Runtime", MODULE, "onnx_runtime"),
    Contender("JAX jit", MODULE, "jax_jit", single_core=True),
)

BATCHES = {
    "image-l1": (1, 10, 100, 1000),
    "image-plain": (1, 10, 100, 1000),
    "text-50": (1, 10, 100),
    "text-83": (1, 10, 100),
}


def main() -> None:
    """Run the races that the command line asks for."""
    racing.run_script(
        "inference", __doc__, CONTENDERS, BATCHES, needs_csr={"NumPy, CSR first"}
    )


if __name__ == "__main__":
    main()
