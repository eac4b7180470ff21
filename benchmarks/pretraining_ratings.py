"""Stars of restaurants from words, with and without denoising pre-training.

The shape of table 2 of Glorot, Bordes & Bengio 2011 on 6,166 reviews of we8there.com:
RMSE in stars and exact zeros of a softmax without hidden layer, rectifier networks with
one and three and a tanh network with three, each from random weights and pre-trained.
Beside them ridge and logistic regressions on tf-idf. What differs from the paper: the
words are 2,640 bigrams (presence), there are 6,166 reviews and no others, where the
paper had 300,000 without stars and 10,000 with; hidden layers have 300 units in place
of 5,000, with dropout, and Adam where it validates better than SGD. So pre-training
sees nothing that training does not see, only the same reviews without their stars.

Ten folds. In each, a tenth of the training rows validates: by their RMSE it is chosen
when to stop, and which solver and learning rate are taken. Candidates, dropout and
patience are the same with and without pre-training, and the chosen network is not
trained again on all rows. Pre-training sees all training rows of the fold, without
their stars, with the noise of the paper's text experiments: four fifths of the words
off and as many others on, then masking. The linear models choose their penalty by 5
folds among the training rows, and are then fitted to all of them. Units, dropout, the
list of candidates and the epochs of pre-training come from trials on validation rows
within the training rows of the first fold.

The result is written after each fold of each model; ``--resume`` goes on from there.
About 12 minutes on 2 cores, of which it uses one.
"""

from __future__ import annotations

import csv
import functools
import gzip
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import alone
import numpy as np
import racing
import tabular
from host import MissingError
from scipy import sparse, special

N_FOLDS = 10
N_UNITS = 300
QUICK_ROWS = 300


@dataclass(frozen=True)
class Architecture:
    """A network of the study.

    Parameters
    ----------
    n_hidden : int
        Number of hidden layers.
    activation : str
        Their activation.
    published : tuple of float
        RMSE with its deviation and zeros in percent with theirs: table 2 of the paper.
    """

    n_hidden: int
    activation: str
    published: tuple[float, float, float, float]


ARCHITECTURES = {
    "no hidden layer": Architecture(0, "rectifier", (0.885, 0.006, 99.4, 0.0)),
    "rectifier, 1 layer": Architecture(1, "rectifier", (0.807, 0.004, 28.9, 0.2)),
    "rectifier, 3 layers": Architecture(3, "rectifier", (0.746, 0.004, 53.9, 0.7)),
    "tanh, 3 layers": Architecture(3, "tanh", (0.774, 0.008, 0.0, 0.0)),
}

#: What validation chooses from, always with dropout: trials without it did worse.
CANDIDATES = [
    {"solver": solver, "learning_rate": rate}
    for solver, rate in (("adam", 3e-4), ("adam", 1e-3), ("sgd", 0.03), ("sgd", 0.1))
]
DROPOUT = {"input_dropout": 0.2, "dropout": 0.5}

#: Noise of the layers, and their penalty on activations.
NOISE = ("salt_and_pepper(0.8, density)", "masking(0.5)", "masking(0.3)")
L1 = (1e-4, 0.0, 0.0)
PRETRAINING_RATE = 0.002

PATIENCE = 3

#: Inverse penalties that the linear models choose from.
STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0)

#: The columns that tell thresholds apart are this large, so their penalty is as good
#: as none.
SIZE_OF_ONE = 10.0

Record = dict[str, Any]
Predict = Callable[[Any], Any]
Model = tuple[str, bool]

#: Which models are compared: each with and without pre-training, then what the paper
#: says of depth and of tanh, and the best linear model.
COMPARED: list[tuple[Model, Model]] = [
    *(
        ((name, True), (name, False))
        for name, architecture in ARCHITECTURES.items()
        if architecture.n_hidden
    ),
    (("rectifier, 3 layers", True), ("rectifier, 1 layer", True)),
    (("rectifier, 3 layers", True), ("tanh, 3 layers", True)),
    (("rectifier, 3 layers", True), ("ordinal logistic", False)),
]


def main() -> None:
    """Train every model on every fold that has no result yet."""
    parser = racing.arguments(__doc__)
    parser.add_argument("--folds", type=int, nargs="+", default=list(range(N_FOLDS)))
    parser.add_argument("--units", type=int, default=N_UNITS)
    parser.add_argument("--max-epochs", type=int, default=100)
    parser.add_argument("--pretraining-epochs", type=int, default=40)
    options = parser.parse_args()
    if options.quick:
        options.folds, options.units = options.folds[:2], 8
        options.max_epochs = options.pretraining_epochs = 1
    if tabular.find_folder("we8there") is None:
        raise SystemExit("HARDZERO_DATA has no folder we8there: nothing to do.")
    result = racing.Result("pretraining_ratings", options, __doc__.splitlines()[0])
    how = {
        "n_units": options.units,
        "max_epochs": options.max_epochs,
        "pretraining_epochs": options.pretraining_epochs,
        "n_rows": QUICK_ROWS if options.quick else None,
    }
    for fold in options.folds:
        for spec in _specs(fold):
            if not result.has(**spec):
                result.add(spec | alone.measure(__file__, spec | how, 1))
                print(_sentence(result.records[-1]), flush=True)
    for summary in summaries(result.records):
        print(_summary_sentence(summary), flush=True)
    for model, other in COMPARED:
        print(_comparison_sentence(result.records, model, other), flush=True)


def measure(spec: Record) -> Record:
    """Fit one model on the training rows of one fold and test it on the others."""
    reviews = read(spec["n_rows"])
    train, test = reviews.fold(spec["fold"])
    started = time.process_time()
    if spec["model"] in ARCHITECTURES:
        found, predictions = _fit_network(spec, reviews, train, test)
    else:
        found, predictions = _fit_baseline(spec["model"], reviews, train, test)
    return found | {
        "rmse": round(rmse(reviews.stars[test], predictions), 5),
        "n_train": len(train),
        "n_test": len(test),
        "cpu_seconds": round(time.process_time() - started, 2),
        "stars": "".join(map(str, reviews.stars[test])),
        "predictions": " ".join(f"{stars:.3f}" for stars in predictions),
    }


@dataclass(frozen=True, eq=False)
class Reviews:
    """The reviews.

    Parameters
    ----------
    counts : csr_matrix of shape (n_reviews, n_terms), float32
        How often each term occurs.
    stars : ndarray of shape (n_reviews,), int64
        Overall rating, 1 to 5.
    """

    counts: Any
    stars: Any

    @functools.cached_property
    def presence(self) -> Any:
        """1 where a term occurs."""
        present = self.counts.copy()
        present.data[:] = 1
        return present

    def fold(self, number: int) -> tuple[Any, Any]:
        """Return training and test rows of a fold, with equal shares of the stars."""
        from sklearn.model_selection import StratifiedKFold

        folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
        return list(folds.split(self.counts, self.stars))[number]


def read(n_rows: int | None = None) -> Reviews:
    """Read the reviews.

    Parameters
    ----------
    n_rows : int, optional
        Only about this many, evenly spaced: the file is sorted by stars.

    Returns
    -------
    Reviews
        In the order of the file.
    """
    from scipy.io import mmread

    folder = tabular.find_folder("we8there")
    if folder is None:
        raise MissingError("HARDZERO_DATA has no folder we8there")
    with gzip.open(folder / "counts.mtx.gz") as file:
        counts = sparse.csr_matrix(mmread(file), dtype=np.float32)
    with Path(folder / "ratings.csv").open(newline="") as file:
        stars = [int(row["Overall"]) for row in csv.DictReader(file)]
    step = 1 if n_rows is None else len(stars) // n_rows
    return Reviews(counts[::step], np.array(stars[::step]))


def rmse(stars: Any, predictions: Any) -> float:
    """Return the root of the mean squared error."""
    return float(np.sqrt(np.mean((stars - predictions) ** 2)))


def _fit_network(
    spec: Record, reviews: Reviews, train: Any, test: Any
) -> tuple[Record, Any]:
    """Pre-train if asked, try all candidates, keep the one with the best validation."""
    from sklearn.frozen import FrozenEstimator
    from sklearn.model_selection import train_test_split

    import hardzero

    X, y = reviews.presence, reviews.stars
    architecture = ARCHITECTURES[spec["model"]]
    n_hidden = architecture.n_hidden
    fitting, validation = train_test_split(
        train, test_size=0.1, stratify=y[train], random_state=spec["fold"]
    )
    layers = None
    if spec["pretraining"]:
        autoencoder = hardzero.DenoisingAutoencoder(
            (spec["n_units"],) * n_hidden,
            activation=architecture.activation,
            corruption=NOISE[:n_hidden],
            l1_activation=L1[:n_hidden],
            learning_rate=PRETRAINING_RATE,
            max_epochs=spec["pretraining_epochs"],
            random_state=spec["fold"],
        )
        layers = FrozenEstimator(autoencoder.fit(X[train]))
    tried = []
    for candidate in CANDIDATES:
        model = hardzero.RatingRegressor(
            (spec["n_units"],) * n_hidden,
            activation=architecture.activation,
            **candidate,
            **DROPOUT,
            max_epochs=spec["max_epochs"],
            early_stopping=True,
            patience=PATIENCE,
            batch_size=32,
            pretraining=layers,
            random_state=spec["fold"],
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", hardzero.DeadUnitWarning)
            try:
                model.fit(
                    X[fitting], y[fitting], X_val=X[validation], y_val=y[validation]
                )
                error = rmse(y[validation], model.predict(X[validation]))
            except hardzero.DivergenceError:
                error = float("inf")
        tried.append((error, len(tried), model))
    error, number, model = min(tried)
    zeros = [
        round(float(np.mean(model.transform(X[test], layer) == 0)), 4)
        for layer in range(n_hidden)
    ]
    found = {
        "chosen": CANDIDATES[number],
        "best_epoch": model.best_epoch_,
        "validation_rmse": round(error, 5),
        "validation_rmse_by_candidate": [
            round(error, 5) if np.isfinite(error) else None for error, _, _ in tried
        ],
        "zeros": round(float(np.mean(zeros)), 4) if zeros else None,
        "zeros_by_layer": zeros,
    }
    return found, model.predict(X[test])


def _fit_baseline(
    name: str, reviews: Reviews, train: Any, test: Any
) -> tuple[Record, Any]:
    """Choose the penalty by folds among the training rows, then fit all of them."""
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.model_selection import StratifiedKFold

    fit, y = BASELINES[name], reviews.stars
    tf_idf = TfidfTransformer(sublinear_tf=True).fit(reviews.counts[train])
    X = tf_idf.transform(reviews.counts.astype(np.float64)).tocsr()
    if fit is _mean:
        return {"chosen": None}, fit(X[train], y[train], 1.0)(X[test])
    inner = list(StratifiedKFold(5).split(X[train], y[train]))
    errors = []
    for strength in STRENGTHS:
        squared = 0.0
        for fitting, validation in inner:
            rows, others = train[fitting], train[validation]
            predictions = fit(X[rows], y[rows], strength)(X[others])
            squared += float(np.sum((predictions - y[others]) ** 2))
        errors.append(round(float(np.sqrt(squared / len(train))), 5))
    chosen = STRENGTHS[int(np.argmin(errors))]
    predict = fit(X[train], y[train], chosen)
    found = {"chosen": {"C": chosen}, "validation_rmse": min(errors)}
    return found, predict(X[test])


def _mean(_: Any, y: Any, __: float) -> Predict:
    return lambda X: np.full(X.shape[0], y.mean())


def _ridge(X: Any, y: Any, C: float) -> Predict:
    from sklearn.linear_model import Ridge

    return Ridge(alpha=1 / C).fit(X, y).predict


def _multinomial(X: Any, y: Any, C: float) -> Predict:
    """Return the expected stars of a logistic regression with a class for each."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=C, max_iter=1000).fit(X, y)
    return lambda X: model.predict_proba(X) @ model.classes_


def _ordinal(X: Any, y: Any, C: float) -> Predict:
    """Return the expected stars of one set of weights with a threshold a star.

    All thresholds are learned at once, as the columns that tell copies of a row apart:
    the copy of threshold k has the label "more than k stars". Expected are one star and
    the sum of these probabilities.
    """
    from sklearn.linear_model import LogisticRegression

    n_rows, levels = X.shape[0], np.unique(y)[:-1]
    copies = [
        sparse.hstack([X, _column(n_rows, k, len(levels))]) for k in range(len(levels))
    ]
    above = np.concatenate([y > level for level in levels])
    model = LogisticRegression(C=C, fit_intercept=False, max_iter=1000)
    model.fit(sparse.vstack(copies, format="csr"), above)
    w, thresholds = np.split(model.coef_[0], [X.shape[1]])

    def predict(X: Any) -> Any:
        above = special.expit((X @ w)[:, None] + SIZE_OF_ONE * thresholds)
        return levels[0] + above.sum(axis=1)

    return predict


def _column(n_rows: int, k: int, n_columns: int) -> Any:
    rows = np.arange(n_rows)
    ones = np.full(n_rows, SIZE_OF_ONE)
    return sparse.csr_matrix((ones, (rows, np.full(n_rows, k))), (n_rows, n_columns))


def summaries(records: list[Record]) -> list[Record]:
    """Sum up each model over the folds that it was tested on.

    Parameters
    ----------
    records : list of dict
        Finished folds.

    Returns
    -------
    list of dict
        For each model, without pre-training and then with it: ``rmse`` and ``zeros``
        (in percent), each with mean and standard deviation over folds, zeros None where
        there is no hidden layer.
    """
    made = []
    for model in (*BASELINES, *ARCHITECTURES):
        for pretraining in (False, True):
            folds = _folds(records, (model, pretraining))
            if not folds:
                continue
            has_zeros = folds[0].get("zeros") is not None
            zeros = [100 * fold["zeros"] for fold in folds] if has_zeros else None
            made.append(
                {
                    "model": model,
                    "pretraining": pretraining,
                    "rmse": _mean_and_deviation([fold["rmse"] for fold in folds]),
                    "zeros": _mean_and_deviation(zeros) if zeros else None,
                }
            )
    return made


def compare(records: list[Record], model: Model, other: Model) -> tuple[Any, int, int]:
    """Compare two models, row by row over all folds.

    Parameters
    ----------
    records : list of dict
        Finished folds.
    model, other : tuple of str and bool
        Name, and whether it was pre-trained.

    Returns
    -------
    comparison : ErrorComparison
        Paired bootstrap of the two RMSE over all rows; its difference is above 0 if
        `model` errs less.
    n_better, n_folds : int
        Folds in which it does, and all folds.
    """
    import hardzero

    ours, theirs = _folds(records, model), _folds(records, other)
    comparison = hardzero.compare_errors(
        np.concatenate([_stars(fold) for fold in ours]),
        np.concatenate([_predictions(fold) for fold in theirs]),
        np.concatenate([_predictions(fold) for fold in ours]),
        kind="regression",
    )
    pairs = zip(ours, theirs, strict=True)
    n_better = sum(one["rmse"] < another["rmse"] for one, another in pairs)
    return comparison, n_better, len(ours)


def _folds(records: list[Record], model: Model) -> list[Record]:
    found = [
        record
        for record in records
        if (record["model"], record["pretraining"]) == model
        and record["absent"] is None
    ]
    return sorted(found, key=lambda record: record["fold"])


def _stars(fold: Record) -> Any:
    return np.array([int(star) for star in fold["stars"]])


def _predictions(fold: Record) -> Any:
    return np.array([float(stars) for stars in fold["predictions"].split()])


def _mean_and_deviation(values: list[float]) -> tuple[float, float]:
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return statistics.mean(values), deviation


def _specs(fold: int) -> list[Record]:
    specs = [{"model": name, "pretraining": False} for name in BASELINES]
    for name, architecture in ARCHITECTURES.items():
        specs.append({"model": name, "pretraining": False})
        if architecture.n_hidden:
            specs.append({"model": name, "pretraining": True})
    return [spec | {"fold": fold} for spec in specs]


def _name(record: Record) -> str:
    return record["model"] + (", pre-trained" if record["pretraining"] else "")


def _sentence(record: Record) -> str:
    name = f"fold {record['fold']}, {_name(record)}"
    if record["absent"] is not None:
        return f"{name}: {record['absent']}"
    zeros = record.get("zeros")
    share = "" if zeros is None else f", zeros {zeros:.1%}"
    return (
        f"{name}: RMSE {record['rmse']:.4f}{share}, chosen {record['chosen']}, "
        f"{record['cpu_seconds']} CPU seconds"
    )


def _summary_sentence(summary: Record) -> str:
    mean, deviation = summary["rmse"]
    text = f"{_name(summary)}: RMSE {mean:.4f} ± {deviation:.4f}"
    if summary["zeros"] is not None:
        text += f", zeros {summary['zeros'][0]:.1f} %"
    return text


def _comparison_sentence(records: list[Record], model: Model, other: Model) -> str:
    comparison, n_better, n_folds = compare(records, model, other)
    low, high = comparison.interval
    names = [
        _name({"model": name, "pretraining": pretraining})
        for name, pretraining in (model, other)
    ]
    return (
        f"{names[0]}, beside {names[1]}: RMSE lower by {comparison.difference:.4f} "
        f"({low:.4f} to {high:.4f}), p = {comparison.p_value:.2g}, "
        f"better in {n_better} of {n_folds} folds"
    )


BASELINES: dict[str, Callable[[Any, Any, float], Predict]] = {
    "mean": _mean,
    "ridge": _ridge,
    "multinomial logistic": _multinomial,
    "ordinal logistic": _ordinal,
}

if __name__ == "__main__" and not alone.answer(measure):
    main()
