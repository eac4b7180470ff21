"""What every loader hands back: features and labels, split by their authors."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A labelled data set with its fixed training and test part.

    Parameters
    ----------
    name : str
        Short name, such as ``"mnist"``.
    X_train : ndarray of shape (n_train, n_features), float32
        Training features in [0, 1], C-contiguous, in the order of the source.
    y_train : ndarray of shape (n_train,), int64
        Training labels, 0 to ``n_classes - 1``.
    X_test : ndarray of shape (n_test, n_features), float32
        Test features in [0, 1].
    y_test : ndarray of shape (n_test,), int64
        Test labels.
    feature_shape : tuple of int
        Shape that one row is the flat form of: (rows, columns) for grey pictures,
        (channels, rows, columns) for coloured ones.
    class_names : tuple of str
        What label 0, 1, ... stands for.
    source : str
        Where the data come from and what to cite.
    """

    name: str
    X_train: NDArray[np.float32]
    y_train: NDArray[np.int64]
    X_test: NDArray[np.float32]
    y_test: NDArray[np.int64]
    feature_shape: tuple[int, ...]
    class_names: tuple[str, ...]
    source: str

    @property
    def n_features(self) -> int:
        """Number of columns of ``X_train`` and ``X_test``."""
        return int(self.X_train.shape[1])

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}: {len(self.X_train):,} training and "
            f"{len(self.X_test):,} test rows of shape {self.feature_shape}, "
            f"{self.n_classes} classes)"
        )


def scale_bytes(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Flatten pictures and scale their grey values from 0..255 to [0, 1].

    Parameters
    ----------
    pixels : ndarray of shape (n_rows, ...), uint8
        One picture a row.

    Returns
    -------
    ndarray of shape (n_rows, n_features), float32
        ``pixels / 255``; 0 stays an exact zero.
    """
    X = pixels.reshape(len(pixels), -1).astype(np.float32)
    X /= 255
    return X
