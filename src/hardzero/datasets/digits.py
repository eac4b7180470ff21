"""The 1,797 handwritten digits that come with scikit-learn: no download needed."""

import numpy as np

from hardzero.datasets.dataset import Dataset

N_TRAIN = 1200


def load_digits() -> Dataset:
    """Load the 8x8 handwritten digits bundled with scikit-learn.

    The first 1,200 rows are the training part and the last 597 the test part. Rows
    are sorted by writer, so most test digits are by people whose hand is not in the
    training part: harder, and more honest, than a shuffled split.

    Returns
    -------
    Dataset
        1,200 + 597 rows, 64 features in [0, 1], 10 classes.

    References
    ----------
    .. [1] E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI
       Machine Learning Repository, 1998.

    Examples
    --------
    >>> from hardzero.datasets import load_digits
    >>> load_digits().X_train.shape
    (1200, 64)
    """
    from sklearn import datasets  # 1 s to import, so only when it is used

    bundled = datasets.load_digits()
    X = bundled.data.astype(np.float32) / 16
    y = bundled.target.astype(np.int64)
    return Dataset(
        name="digits",
        X_train=X[:N_TRAIN],
        y_train=y[:N_TRAIN],
        X_test=X[N_TRAIN:],
        y_test=y[N_TRAIN:],
        feature_shape=(8, 8),
        class_names=tuple("0123456789"),
        source=(
            "E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits (UCI, "
            "1998), test part, as bundled with scikit-learn"
        ),
    )
