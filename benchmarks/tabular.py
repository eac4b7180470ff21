"""Default settings on real tables: hardzero, scikit-learn's MLP, boosting, linear.

Every estimator runs with its defaults on the same float32 rows, one at a time, on one
thread. A seed decides about the split and about the estimator; the files of a data set
that comes in two parts are pooled first. Columns are standardised on the training rows,
except in bags of words, which stay sparse and say only which words occur. Boosting
takes dense arrays alone, so of a bag of words it gets the most frequent columns.

The score is the accuracy on the test rows, in regression R2. Two estimators are
compared seed by seed: the mean difference counts as noise unless Student's 95 %
interval around it leaves out 0.
"""

from __future__ import annotations

import gzip
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import alone
import machine
import numpy as np
import racing
import tasks
from host import MissingError
from scipy import sparse, stats

CONTENDERS = ("hardzero", "MLP", "boosting", "linear")
MAX_COLUMNS = 1000  # of a bag of words, for boosting: with 2000 it diverges on Reuters
QUICK_DATASETS = ("iris", "digits", "diabetes", "amazon-books")
QUICK_LIMIT = 200  # rows to train on, rows to test on, columns for boosting


@dataclass(frozen=True)
class Source:
    """Where a data set comes from and how it is split.

    Parameters
    ----------
    read : callable
        Returns all rows, as an array, a CSR matrix or a list of texts, and targets.
    n_train : int, optional
        Training rows, three quarters if left out.
    n_test : int, optional
        Test rows, all others if left out.
    folder : str, optional
        Sub-folder of ``HARDZERO_DATA`` that it needs.
    is_regression : bool, default=False
        Whether the targets are numbers to predict.
    """

    read: Callable[[], tuple[Any, Any]]
    n_train: int | None = None
    n_test: int | None = None
    folder: str | None = None
    is_regression: bool = False


def main() -> None:
    """Measure every estimator on every data set that is here."""
    parser = racing.arguments(__doc__)
    parser.add_argument(
        "--datasets",
        nargs="+",
        choices=SOURCES,
        metavar="NAME",
        help="which of " + ", ".join(SOURCES),
    )
    parser.add_argument(
        "--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS)
    )
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 0 on")
    options = parser.parse_args()
    options.datasets = options.datasets or list(
        QUICK_DATASETS if options.quick else SOURCES
    )
    if options.quick:
        options.seeds = min(options.seeds, 2)
    result = racing.Result("tabular", options, __doc__.splitlines()[0])
    limit = QUICK_LIMIT if options.quick else None
    for name in options.datasets:
        folder = SOURCES[name].folder
        if folder is not None and find_folder(folder) is None:
            print(f"{name}: skipped, HARDZERO_DATA has no folder {folder}")
            continue
        for contender in options.contenders:
            spec = {
                "dataset": name,
                "contender": contender,
                "seeds": list(range(options.seeds)),
            }
            if result.has(**spec):
                continue
            result.add(spec | alone.measure(__file__, spec | {"limit": limit}, 1))
            print(_sentence(result.records[-1]), flush=True)
        print(_comparison(result.records, name), flush=True)


def measure(spec: dict[str, Any]) -> dict[str, Any]:
    """Train and test one estimator on every seed's split."""
    source = SOURCES[spec["dataset"]]
    kind = "regression" if source.is_regression else "classification"
    build = ESTIMATORS[spec["contender"], kind]
    X, y = source.read()
    names = ("scores", "training_scores", "cpu_seconds", "n_iter")
    measured: dict[str, Any] = {name: [] for name in names}
    noted: set[str] = set()
    for seed in spec["seeds"]:
        train, test = _split(source, y, seed, spec["limit"])
        X_train, X_test = _prepare(X, train, test)
        if spec["contender"] == "boosting" and sparse.issparse(X_train):
            n_columns = spec["limit"] or MAX_COLUMNS
            X_train, X_test = _frequent_columns(X_train, X_test, n_columns)
        model = build(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            started = time.process_time()
            model.fit(X_train, y[train])
            seconds = time.process_time() - started
        noted |= {warning.category.__name__ for warning in caught}
        measured["scores"].append(round(float(model.score(X_test, y[test])), 5))
        training_score = float(model.score(X_train, y[train]))
        measured["training_scores"].append(round(training_score, 5))
        measured["cpu_seconds"].append(round(seconds, 4))
        n_iter = getattr(model, "n_iter_", None)
        measured["n_iter"].append(None if n_iter is None else int(np.max(n_iter)))
    return measured | {
        "score": racing.spread(measured["scores"]),
        "cpu": racing.spread(measured["cpu_seconds"]),
        "n_train": len(train),
        "n_test": len(test),
        "n_columns": X_train.shape[1],
        "is_regression": source.is_regression,
        "estimator": type(model).__name__,
        "warnings": sorted(noted),
    }


def difference(
    record: dict[str, Any], other: dict[str, Any]
) -> tuple[float, float, str]:
    """Compare the scores of two estimators on one data set, seed by seed.

    Parameters
    ----------
    record, other : dict
        Two records with the same seeds.

    Returns
    -------
    mean : float
        Mean over seeds of the score of `record` less that of `other`.
    standard_error : float
        Of that mean; NaN if there is only one seed.
    verdict : {"better", "worse", "same"}
        Of `record`; "same" unless Student's 95 % interval leaves out 0.
    """
    if record["seeds"] != other["seeds"]:
        raise SystemExit(
            f"tabular.json has {record['dataset']} on other seeds for "
            f"{record['contender']} than for {other['contender']}. Measure it again."
        )
    gaps = np.subtract(record["scores"], other["scores"])
    mean = float(gaps.mean())
    if len(gaps) == 1:
        return mean, float("nan"), "same"
    error = float(gaps.std(ddof=1) / np.sqrt(len(gaps)))
    half = error * float(stats.t.ppf(0.975, len(gaps) - 1))
    if abs(mean) <= half:
        return mean, error, "same"
    return mean, error, "better" if mean > 0 else "worse"


def find_folder(name: str) -> Path | None:
    """Return the folder of a data set, None if it is not here."""
    if name == "mnist":
        return tasks.mnist_folder()
    shared = machine.ROOT.parent / "shared" / "data"
    for root in (os.environ.get("HARDZERO_DATA"), shared):
        if root and (Path(root) / name).is_dir():
            return Path(root) / name
    return None


def _bundled(name: str) -> Callable[[], tuple[Any, Any]]:
    def read() -> tuple[Any, Any]:
        from sklearn import datasets

        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return X, y

    return read


def _diabetes_standardised() -> tuple[Any, Any]:
    X, y = _bundled("diabetes")()
    return X, (y - y.mean()) / y.std()


def _usps() -> tuple[Any, Any]:
    folder = _folder("usps")
    lines = [np.loadtxt(folder / f"zip.{part}.gz") for part in ("train", "test")]
    table = np.concatenate(lines)
    return table[:, 1:], table[:, 0].astype(np.int64)


def _mnist() -> tuple[Any, Any]:
    data = tasks.mnist()
    X = np.concatenate([data.X_train, data.X_test])
    return X, np.concatenate([data.y_train, data.y_test])


def _reuters() -> tuple[Any, Any]:
    folder = _folder("reuters-r8")
    topics, texts = [], []
    for part in ("train", "test"):
        path = folder / f"r8-{part}-all-terms.txt.gz"
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                topic, _, text = line.rstrip("\n").partition("\t")
                topics.append(topic)
                texts.append(text)
    return texts, np.array(topics)


def _amazon(domain: str) -> Callable[[], tuple[Any, Any]]:
    def read() -> tuple[Any, Any]:
        from sklearn.datasets import load_svmlight_files

        folder = _folder("amazon-reviews") / "bow5000"
        X_train, y_train, X_test, y_test = load_svmlight_files(
            [folder / f"{domain}_{part}.svmlight.gz" for part in ("train", "test")],
            n_features=5000,
            dtype=np.float32,
            zero_based=True,
        )
        X = sparse.vstack([X_train, X_test], format="csr")
        X.data[:] = 1  # presence, not count
        return X, np.concatenate([y_train, y_test])

    return read


def _folder(name: str) -> Path:
    folder = find_folder(name)
    if folder is None:
        raise MissingError(f"HARDZERO_DATA has no folder {name}")
    return folder


def _split(source: Source, y: Any, seed: int, limit: int | None) -> tuple[Any, Any]:
    """Draw training and test rows, the same share of each class."""
    from sklearn.model_selection import train_test_split

    n_train = source.n_train or len(y) * 3 // 4
    n_test = source.n_test or len(y) - n_train
    if limit:
        n_train, n_test = min(n_train, limit), min(n_test, limit)
    train, test = train_test_split(
        np.arange(len(y)),
        train_size=n_train,
        test_size=n_test,
        random_state=seed,
        stratify=None if source.is_regression else y,
    )
    return train, test


def _prepare(X: Any, train: Any, test: Any) -> tuple[Any, Any]:
    """Return float32 features of both parts; only training rows decide about them."""
    if sparse.issparse(X):
        return X[train], X[test]
    if isinstance(X, list):
        from sklearn.feature_extraction.text import CountVectorizer

        words = CountVectorizer(token_pattern=r"\S+", binary=True, dtype=np.float32)
        X_train = words.fit_transform([X[row] for row in train])
        return X_train, words.transform([X[row] for row in test])
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(X[train])
    return tuple(scaler.transform(X[rows]).astype(np.float32) for rows in (train, test))


def _frequent_columns(X_train: Any, X_test: Any, n_columns: int) -> tuple[Any, Any]:
    """Make dense arrays of the columns with most non-zeros in the training rows."""
    counts = X_train.getnnz(axis=0)
    kept = np.sort(np.argsort(-counts, kind="stable")[:n_columns])
    return X_train[:, kept].toarray(), X_test[:, kept].toarray()


def _classifier(seed: int) -> Any:
    from hardzero import RectifierClassifier

    return RectifierClassifier(random_state=seed)


def _regressor(seed: int) -> Any:
    try:
        from hardzero import RectifierRegressor
    except ImportError:
        raise MissingError(
            "this version of hardzero has no RectifierRegressor"
        ) from None

    return RectifierRegressor(random_state=seed)


def _mlp_classifier(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(random_state=seed)


def _mlp_regressor(seed: int) -> Any:
    from sklearn.neural_network import MLPRegressor

    return MLPRegressor(random_state=seed)


def _boosting_classifier(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed)


def _boosting_regressor(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(random_state=seed)


def _linear_classifier(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(random_state=seed)


def _linear_regressor(seed: int) -> Any:
    from sklearn.linear_model import Ridge

    return Ridge(random_state=seed)


def _sentence(record: dict[str, Any]) -> str:
    name = f"{record['dataset']}, {record['contender']}"
    if record["absent"] is not None:
        return f"{name}: {record['absent']}"
    scores = record["scores"]
    notes = "".join(f", {warning}" for warning in record["warnings"])
    return (
        f"{name}: {np.mean(scores):.4f} (seeds {min(scores):.4f} to {max(scores):.4f}),"
        f" {record['cpu']['median']:.2f} CPU seconds{notes}"
    )


def _comparison(records: list[dict[str, Any]], dataset: str) -> str:
    """Say how hardzero did beside each of the others."""
    found = {
        record["contender"]: record
        for record in records
        if record["dataset"] == dataset and record["absent"] is None
    }
    ours = found.pop("hardzero", None)
    if ours is None:
        return f"{dataset}: no result of hardzero to compare"
    parts = []
    for name, record in found.items():
        mean, error, verdict = difference(ours, record)
        parts.append(f"{verdict}, {mean:+.4f} ± {error:.4f}, beside {name}")
    return f"{dataset}: hardzero is {'; '.join(parts)}"


SOURCES = {
    "iris": Source(_bundled("iris")),
    "wine": Source(_bundled("wine")),
    "breast-cancer": Source(_bundled("breast_cancer")),
    "digits": Source(_bundled("digits")),
    "usps": Source(_usps, n_train=7291, folder="usps"),
    "mnist-5000": Source(_mnist, n_train=5000, n_test=10_000, folder="mnist"),
    "reuters-r8": Source(_reuters, n_train=5485, folder="reuters-r8"),
    "amazon-books": Source(_amazon("books"), n_train=2000, folder="amazon-reviews"),
    "amazon-dvd": Source(_amazon("dvd"), n_train=2000, folder="amazon-reviews"),
    "amazon-electronics": Source(
        _amazon("electronics"), n_train=2000, folder="amazon-reviews"
    ),
    "amazon-kitchen": Source(_amazon("kitchen"), n_train=2000, folder="amazon-reviews"),
    "diabetes": Source(_bundled("diabetes"), is_regression=True),
    "diabetes-standardised": Source(_diabetes_standardised, is_regression=True),
}

ESTIMATORS: dict[tuple[str, str], Callable[[int], Any]] = {
    ("hardzero", "classification"): _classifier,
    ("hardzero", "regression"): _regressor,
    ("MLP", "classification"): _mlp_classifier,
    ("MLP", "regression"): _mlp_regressor,
    ("boosting", "classification"): _boosting_classifier,
    ("boosting", "regression"): _boosting_regressor,
    ("linear", "classification"): _linear_classifier,
    ("linear", "regression"): _linear_regressor,
}

if __name__ == "__main__" and not alone.answer(measure):
    main()
