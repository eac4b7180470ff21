"""Real data sets and the user's own tables, from files that are never trusted.

Each ``load_*`` function returns a `Dataset` with float32 features in [0, 1], read from
the files as their authors published them, downloaded by checksum, or bundled.
`read_table` reads CSV, Parquet, npz and svmlight. Malformed files of any kind are
refused with a `hardzero.errors.DataError` that says what is wrong.
"""

from hardzero.datasets.cifar10 import load_cifar10, read_cifar10_batch
from hardzero.datasets.dataset import Dataset
from hardzero.datasets.digits import load_digits
from hardzero.datasets.idx import read_idx
from hardzero.datasets.mnist import load_mnist
from hardzero.datasets.tables import read_table

__all__ = [
    "Dataset",
    "load_cifar10",
    "load_digits",
    "load_mnist",
    "read_cifar10_batch",
    "read_idx",
    "read_table",
]
