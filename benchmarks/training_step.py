"""Time of one training step: hardzero beside every dense peer, on the same network.

Image task: 784-1000-1000-1000-10 on MNIST, trained to about 83 % zeros in the hidden
layers, and without a penalty; batches of 1, 10, 100, 1000. Text task:
5000-5000-5000-5000-5 on a bag of words at 50 % and 83 % zeros; batches of 1, 10, 100.
Every contender does one plain SGD step on the same rows from the same weights; each is
held to NumPy's float64 result before it is timed.
"""

from __future__ import annotations

import racing
from racing import Contender

MODULE = "training_contenders"
HUGE_PAGES = {"THP_MEM_ALLOC_ENABLE": "1"}

CONTENDERS = (
    Contender("hardzero", MODULE, "hardzero", {"engine": "auto"}),
    Contender("hardzero sparse only", MODULE, "hardzero", {"engine": "sparse"}),
    Contender("hardzero dense", MODULE, "hardzero", {"engine": "dense"}),
    Contender("NumPy + sgemm by hand", MODULE, "numpy_by_hand"),
    Contender("PyTorch by hand", MODULE, "torch_by_hand"),
    Contender("PyTorch", MODULE, "torch_eager"),
    Contender("PyTorch fused SGD", MODULE, "torch_eager", {"fused": True}),
    Contender(
        "torch.compile", MODULE, "torch_eager", {"fused": True, "compiled": True}
    ),
    Contender("EmbeddingBag(sparse)", MODULE, "torch_embedding_bag"),
    Contender("JAX jit", MODULE, "jax_jit", single_core=True),
    Contender("scikit-learn", MODULE, "sklearn_partial_fit"),
)

#: With huge pages for PyTorch's allocator: off by default and little known.
#: `--huge-pages` lets them take part.
HUGE_PAGE_CONTENDERS = (
    Contender(
        "PyTorch fused SGD, huge pages",
        MODULE,
        "torch_eager",
        {"fused": True},
        HUGE_PAGES,
    ),
    Contender(
        "PyTorch by hand, huge pages", MODULE, "torch_by_hand", environment=HUGE_PAGES
    ),
    Contender(
        "EmbeddingBag(sparse), huge pages",
        MODULE,
        "torch_embedding_bag",
        environment=HUGE_PAGES,
    ),
)

ALL_CONTENDERS = CONTENDERS + HUGE_PAGE_CONTENDERS

BATCHES = {
    "image-l1": (10, 1, 100, 1000),
    "image-plain": (10, 1, 100, 1000),
    "text-50": (10, 1, 100),
    "text-83": (10, 1, 100),
}


def main() -> None:
    """Run the races that the command line asks for."""
    bags = {c.name for c in ALL_CONTENDERS if c.factory == "torch_embedding_bag"}
    racing.run_script("training_step", __doc__, ALL_CONTENDERS, BATCHES, needs_csr=bags)


if __name__ == "__main__":
    main()
