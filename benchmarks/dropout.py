"""Time of a training step with dropout beside the same step without, and PyTorch's.

0.2 of the inputs and 0.5 of each hidden layer are dropped. Image tasks:
784-1000-1000-1000-10 on MNIST, trained without a penalty and with the L1 penalty that
leaves 83 % zeros; text task: 5000-1000-1000-1000-5 on a bag of words; batches of 100
and 10. All contenders of a race take turns, so a ratio compares steps of one run.
About 4 minutes on 2 cores.
"""

from __future__ import annotations

import racing
from racing import Contender

CONTENDERS = (
    Contender("hardzero", "training_contenders", "hardzero", {"engine": "auto"}),
    Contender("hardzero with dropout", "dropout_contenders", "hardzero"),
    Contender("PyTorch", "training_contenders", "torch_eager", {"fused": True}),
    Contender("PyTorch with dropout", "dropout_contenders", "torch_dropout"),
)

#: What tables call the tasks.
NETWORKS = {"image-plain": "images", "image-l1": "images, L1", "text1000-50": "text"}

BATCHES = dict.fromkeys(NETWORKS, (100, 10))


def main() -> None:
    """Run the races that the command line asks for."""
    racing.run_script("dropout", __doc__, CONTENDERS, BATCHES)


if __name__ == "__main__":
    main()
