"""Good or bad reviews with few labels: denoising pre-training beside mSDA on bow5000.

Reviews of four kinds of goods at Amazon, presence of 5,000 words and pairs of words.
In each domain 50, 200 or all 2,000 rows of the training file have labels, the first two
in five draws; the score is the accuracy on the domain's test file. Contenders: logistic
regression on tf-idf; marginalised stacked denoising auto-encoders (mSDA), the closed
form of Chen, Xu, Weinberger & Sha 2012, with a linear support vector machine on words
and all layers; a rectifier network from random weights; the same after pre-training.

Where the study is transductive: mSDA, pre-training and the document frequencies of
tf-idf see all 27,677 rows of all domains without labels, so also the rows of the test
files. The last contender is pre-trained on the 8,000 rows of the training files only,
with as many updates.

Networks have two layers of 500 units and dropout. Pre-training follows the settings of
Glorot's own code for these data (four fifths of the words masked, sigmoid and cross-
entropy in the first layer, softplus and squares in the second, L1 of 1e-4 and 1e-3 on
activations), but that has three layers of 5,000 units, less noise in the second layer,
and more epochs of SGD in place of 12 of Adam. Units, dropout, epochs and the list of
candidates come from trials with labels of the training files of two domains.
Everything else (solver, learning rate and epochs of networks, C of both linear models,
noise of mSDA) is chosen by five-fold cross-validation among the labelled rows of the
draw, with all labels on one fifth of them. Networks with and without pre-training
choose from the same list.

The result is written after each contender, and ``--resume`` goes on from there. About
12 minutes on 2 cores, of which it uses one.
"""

from __future__ import annotations

import functools
import statistics
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import alone
import numpy as np
import racing
import tabular
from host import MissingError
from scipy import linalg, sparse, stats

Record = dict[str, Any]
Rows = Any  # row numbers

DOMAINS = ("books", "dvd", "electronics", "kitchen")
N_LABELS = (50, 200, 2000)
N_DRAWS = 5
N_UNITS = 500
N_FEATURES = 5000
QUICK = {
    "domains": ["books", "dvd"],
    "n_labels": [50],
    "n_draws": 2,
    "n_units": 20,
    "n_features": 200,
    "n_rows": 200,
    "epochs": 1,
}

#: From this many labels on a fifth of them validates, and epochs are few.
MANY = 1000
EPOCHS_OF_FEW, EPOCHS_OF_MANY = 25, 20
BATCH_OF_FEW, BATCH_OF_MANY = 20, 50

N_LAYERS = 2
PRETRAINING_EPOCHS = 12
PRETRAINING: Record = {
    "corruption": ("masking(0.8)", "masking(0.5)"),
    "l1_activation": (1e-4, 1e-3),
    "decoder": ("sigmoid", "softplus"),
    "rescale": "none",
    "batch_size": 100,
}

#: What networks choose from, each with the best number of epochs up to the last.
CANDIDATES = [
    {"solver": "sgd", "learning_rate": 0.03},
    {"solver": "sgd", "learning_rate": 0.1},
    {"solver": "adam", "learning_rate": 0.001},
]
DROPOUT = {"input_dropout": 0.2, "dropout": 0.5}

#: Inverse penalties of the linear models.
STRENGTHS = (0.1, 1.0, 10.0, 100.0)

#: Noise of mSDA, and the most layers.
MSDA_NOISE = (0.7, 0.9)
MSDA_LAYERS = 4


def main() -> None:
    """Measure every contender that has no result yet."""
    parser = racing.arguments(__doc__)
    parser.add_argument(
        "--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS)
    )
    parser.add_argument("--domains", nargs="+", choices=DOMAINS, default=list(DOMAINS))
    parser.add_argument("--n-labels", type=int, nargs="+", default=list(N_LABELS))
    parser.add_argument("--n-draws", type=int, default=N_DRAWS)
    parser.add_argument("--n-units", type=int, default=N_UNITS)
    parser.add_argument("--epochs", type=int, default=PRETRAINING_EPOCHS)
    options = parser.parse_args()
    options.n_features, options.n_rows = N_FEATURES, None
    if options.quick:
        vars(options).update(QUICK)
    if tabular.find_folder("amazon-reviews") is None:
        raise SystemExit("HARDZERO_DATA has no folder amazon-reviews: nothing to do.")
    result = racing.Result("pretraining_amazon", options, __doc__.splitlines()[0])
    how = {name: getattr(options, name) for name in QUICK}
    for contender in options.contenders:
        spec = {"contender": contender}
        if not result.has(**spec):
            print(f"{contender} ...", flush=True)
            result.add(spec | alone.measure(__file__, spec | how, 1))
            for sentence in _sentences(result.records[-1]):
                print(sentence, flush=True)
    for line in conclusions(result.records):
        print(line, flush=True)


def measure(spec: Record) -> Record:
    """Let one contender learn from every draw of labels and score it."""
    started = time.process_time()
    reviews = read(spec["domains"], spec["n_features"], spec["n_rows"])
    contender = CONTENDERS[spec["contender"]](reviews, spec)
    prepared = time.process_time() - started
    cells = []
    for domain, n_labels, draw in draws(spec):
        rows = reviews.rows(domain, "train")
        rows = rows[draw_labels(reviews.y[rows], n_labels, draw)]
        started = time.process_time()
        predictions, settings = contender.learn(domain, rows, reviews.y[rows], draw)
        wrong = predictions != reviews.y[reviews.rows(domain, "test")]
        cell = {
            "domain": domain,
            "n_labels": n_labels,
            "draw": draw,
            "n_test": len(wrong),
            "accuracy": round(1 - float(np.mean(wrong)), 5),
            "chosen": settings,
            "cpu_seconds": round(time.process_time() - started, 2),
        }
        if n_labels == max(spec["n_labels"]):
            cell["wrong"] = np.packbits(wrong).tobytes().hex()
        cells.append(cell)
    return {
        "preparation_cpu_seconds": round(prepared, 1),
        "about": contender.about,
        "cells": cells,
    }


def draws(spec: Record) -> Iterator[tuple[str, int, int]]:
    """Yield domain, number of labels and number of the draw."""
    for domain in spec["domains"]:
        for n_labels in spec["n_labels"]:
            for draw in range(1 if n_labels == N_LABELS[-1] else spec["n_draws"]):
                yield domain, n_labels, draw


def draw_labels(y: Any, n_labels: int, draw: int) -> Rows:
    """Return which rows have labels, half of them of each class.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        Labels of a domain's training file.
    n_labels : int
        How many are drawn.
    draw : int
        Seed.

    Returns
    -------
    ndarray of shape (n_labels,)
        Row numbers.
    """
    rng = np.random.default_rng(draw)
    return np.concatenate(
        [rng.permutation(np.flatnonzero(y == c))[: n_labels // 2] for c in (0, 1)]
    )


@dataclass(frozen=True, eq=False)
class Reviews:
    """All reviews in one matrix: training files of the domains, then test files.

    Parameters
    ----------
    X : csr_matrix of shape (n_reviews, n_features), float32
        1 where a term occurs.
    y : ndarray of shape (n_reviews,), int64
        1 for a good review, 0 for a bad one.
    parts : dict
        First row and row after the last of ``(domain, "train")`` and the like.
    """

    X: Any
    y: Any
    parts: dict[tuple[str, str], tuple[int, int]]

    def rows(self, domain: str, part: str) -> Rows:
        """Return the row numbers of a file."""
        return np.arange(*self.parts[domain, part])

    @property
    def training_rows(self) -> Rows:
        """Row numbers of all training files."""
        return np.concatenate(
            [self.rows(*part) for part in self.parts if part[1] == "train"]
        )


def read(
    domains: Sequence[str] = DOMAINS,
    n_features: int = N_FEATURES,
    n_rows: int | None = None,
) -> Reviews:
    """Read the reviews.

    Parameters
    ----------
    domains : sequence of str
        Which of them.
    n_features : int
        Leave out the terms after this many.
    n_rows : int, optional
        Only about this many rows of each file, evenly spaced.

    Returns
    -------
    Reviews
        All files in one matrix.
    """
    from sklearn.datasets import load_svmlight_file

    folder = tabular.find_folder("amazon-reviews")
    if folder is None:
        raise MissingError("HARDZERO_DATA has no folder amazon-reviews")
    matrices, labels, parts, n_before = [], [], {}, 0
    for part in ("train", "test"):
        for domain in domains:
            X, y = load_svmlight_file(
                folder / "bow5000" / f"{domain}_{part}.svmlight.gz",
                n_features=N_FEATURES,
                dtype=np.float32,
                zero_based=True,
            )
            step = 1 if n_rows is None else len(y) // n_rows
            matrices.append(X[::step, :n_features])
            labels.append(y[::step] > 0)
            parts[domain, part] = (n_before, n_before + len(labels[-1]))
            n_before += len(labels[-1])
    X = sparse.vstack(matrices, format="csr")
    X.data[:] = 1
    return Reviews(X, np.concatenate(labels).astype(np.int64), parts)


class Logistic:
    """Logistic regression on tf-idf.

    Parameters
    ----------
    reviews : Reviews
        All rows; document frequencies are those among all of them.
    how : dict
        Settings of the script, of which it needs none.
    """

    def __init__(self, reviews: Reviews, how: Record) -> None:  # noqa: ARG002
        from sklearn.feature_extraction.text import TfidfTransformer

        self.reviews, self.about = reviews, {}
        self.X = TfidfTransformer().fit_transform(reviews.X)

    def learn(self, domain: str, rows: Rows, y: Any, seed: int) -> tuple[Any, Record]:
        """Learn from some rows and predict the test rows of the domain."""
        from sklearn.linear_model import LogisticRegression

        X = self.X[rows]
        wrong = []
        for C in STRENGTHS:
            model = LogisticRegression(C=C, max_iter=1000, random_state=seed)
            wrong.append(
                sum(
                    np.sum(model.fit(X[fit], y[fit]).predict(X[held]) != y[held])
                    for fit, held in inner_folds(y)
                )
            )
        C = STRENGTHS[int(np.argmin(wrong))]
        model = LogisticRegression(C=C, max_iter=1000, random_state=seed).fit(X, y)
        return model.predict(self.X[self.reviews.rows(domain, "test")]), {"C": C}


class MarginalisedAutoencoders:
    """mSDA: layers in closed form, then a linear support vector machine.

    A layer is the linear map that best restores the rows from masked copies of them, as
    if each row had infinitely many, followed by tanh. Chen, Xu, Weinberger & Sha 2012,
    "Marginalized denoising autoencoders for domain adaptation", section 3. The machine
    sees words and all layers side by side, through their inner products.

    Parameters
    ----------
    reviews : Reviews
        All rows; the layers learn from all of them.
    how : dict
        Settings of the script, of which it needs the domains.
    """

    def __init__(self, reviews: Reviews, how: Record) -> None:
        self.reviews = reviews
        self.about = {"noise": MSDA_NOISE, "layers": MSDA_LAYERS}
        self.products = {}
        for noise in MSDA_NOISE:
            products = dict.fromkeys(how["domains"], 0.0)
            h = reviews.X
            for layer in range(MSDA_LAYERS + 1):
                h = h if layer == 0 else marginalised_layer(h, noise)
                for domain in products:
                    products[domain] += self._inner_products(h, domain)
            for domain, product in products.items():
                n_train = product.shape[1]
                product /= np.mean(np.diagonal(product[:n_train]))
                self.products[domain, noise] = product

    def _inner_products(self, h: Any, domain: str) -> Any:
        """Return those of all rows of a domain, training first, with training rows."""
        own = [h[self.reviews.rows(domain, part)] for part in ("train", "test")]
        found = [some @ own[0].T for some in own]
        return np.concatenate([k.toarray() if sparse.issparse(k) else k for k in found])

    def learn(self, domain: str, rows: Rows, y: Any, seed: int) -> tuple[Any, Record]:
        """Learn from some rows and predict the test rows of the domain."""
        from sklearn.svm import SVC

        chosen = rows - self.reviews.parts[domain, "train"][0]
        candidates = [(noise, C) for noise in MSDA_NOISE for C in STRENGTHS]
        wrong = []
        for noise, C in candidates:
            K = self.products[domain, noise][np.ix_(chosen, chosen)]
            model = SVC(C=C, kernel="precomputed", random_state=seed)
            wrong.append(
                sum(
                    np.sum(
                        model.fit(K[np.ix_(fit, fit)], y[fit]).predict(
                            K[np.ix_(held, fit)]
                        )
                        != y[held]
                    )
                    for fit, held in inner_folds(y)
                )
            )
        noise, C = candidates[int(np.argmin(wrong))]
        K = self.products[domain, noise][:, chosen]
        model = SVC(C=C, kernel="precomputed", random_state=seed).fit(K[chosen], y)
        n_train = len(self.reviews.rows(domain, "train"))
        return model.predict(K[n_train:]), {"noise": noise, "C": C}


def marginalised_layer(h: Any, noise: float) -> Any:
    """Return the next layer of mSDA.

    With S the inner products of the columns and a constant one, and q the probability
    of each to survive (1 for the constant), the expected inner products with masked
    rows are P = S q, and those among masked rows Q = S q q', but q S on the diagonal.
    The layer is tanh(W h) with W Q = P.

    Parameters
    ----------
    h : ndarray or csr_matrix of shape (n_rows, n_features)
        Rows.
    noise : float
        Probability of each entry to be masked.

    Returns
    -------
    ndarray of shape (n_rows, n_features), float32
        Rows of the next layer.
    """
    d = h.shape[1]
    S = np.empty((d + 1, d + 1))
    inner = h.T @ h
    S[:d, :d] = inner.toarray() if sparse.issparse(inner) else inner
    S[d, :d] = S[:d, d] = np.asarray(h.sum(axis=0)).ravel()
    S[d, d] = h.shape[0]
    q = np.append(np.full(d, 1 - noise), 1.0)
    P = S[:d] * q
    Q = S * np.outer(q, q)
    np.fill_diagonal(Q, q * np.diagonal(S) + 1e-5)
    W = linalg.solve(Q, P.T, assume_a="pos", overwrite_a=True).astype(np.float32)
    a = h @ W[:d]
    a += W[d]
    return np.tanh(a, out=a)


class Network:
    """A rectifier network.

    Parameters
    ----------
    reviews : Reviews
        All rows.
    how : dict
        Settings of the script.
    pretraining : {"none", "all", "training"}
        Rows that it is pre-trained on: none, all, or those of the training files.
    """

    def __init__(self, reviews: Reviews, how: Record, pretraining: str) -> None:
        self.reviews = reviews
        self.sizes = (how["n_units"],) * N_LAYERS
        self.layers = None
        self.about: Record = {"sizes": self.sizes}
        if pretraining != "none":
            rows = reviews.training_rows if pretraining == "training" else slice(None)
            X = reviews.X[rows]
            n_epochs = round(how["epochs"] * reviews.X.shape[0] / X.shape[0])
            self._pretrain(X, n_epochs)  # as many updates on few rows as on all

    def _pretrain(self, X: Any, n_epochs: int) -> None:
        from sklearn.frozen import FrozenEstimator

        import hardzero

        autoencoder = hardzero.DenoisingAutoencoder(
            self.sizes, **PRETRAINING, max_epochs=n_epochs, random_state=0
        ).fit(X)
        self.layers = FrozenEstimator(autoencoder)
        self.about |= {
            "n_rows": X.shape[0],
            "n_epochs": n_epochs,
            "losses": [
                [float(f"{loss:.4g}") for loss in history.loss]
                for history in autoencoder.histories_
            ],
            "zeros": [
                round(float(history.sparsity[-1][0]), 4)
                for history in autoencoder.histories_
            ],
        }

    def learn(self, domain: str, rows: Rows, y: Any, seed: int) -> tuple[Any, Record]:
        """Learn from some rows and predict the test rows of the domain."""
        import hardzero

        X = self.reviews.X[rows]
        n_epochs = EPOCHS_OF_FEW if len(y) < MANY else EPOCHS_OF_MANY
        tried = []
        for candidate in CANDIDATES:
            folds = []
            for fit, held in inner_folds(y):
                validation = {"X_val": X[held], "y_val": y[held]}
                try:
                    model = self._fit(
                        X[fit], y[fit], candidate, n_epochs, seed, **validation
                    )
                except hardzero.DivergenceError:
                    break
                folds.append(model.history_)
            else:
                errors = np.mean([fold.validation_error for fold in folds], axis=0)
                losses = np.mean([fold.validation_loss for fold in folds], axis=0)
                tried += [
                    (error, loss, epoch + 1, len(tried), candidate)
                    for epoch, (error, loss) in enumerate(
                        zip(errors, losses, strict=True)
                    )
                ]
        _, _, n_epochs, _, candidate = min(tried)
        model = self._fit(X, y, candidate, n_epochs, seed)
        test = self.reviews.X[self.reviews.rows(domain, "test")]
        zeros = [
            round(float(np.mean(model.transform(test, layer) == 0)), 3)
            for layer in range(N_LAYERS)
        ]
        settings = candidate | {"epochs": n_epochs, "zeros": zeros}
        return model.predict(test), settings

    def _fit(
        self,
        X: Any,
        y: Any,
        candidate: Record,
        n_epochs: int,
        seed: int,
        **validation: Any,
    ) -> Any:
        import hardzero

        model = hardzero.RectifierClassifier(
            self.sizes,
            pretraining=self.layers,
            **candidate,
            **DROPOUT,
            batch_size=BATCH_OF_FEW if len(y) < MANY else BATCH_OF_MANY,
            max_epochs=n_epochs,
            tol=None,
            random_state=seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", hardzero.DeadUnitWarning)
            return model.fit(X, y, **validation)


def inner_folds(y: Any) -> list[tuple[Rows, Rows]]:
    """Return five folds of few rows, only the first of them of many."""
    from sklearn.model_selection import StratifiedKFold

    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(y, y)
    return list(folds) if len(y) < MANY else [next(folds)]


def accuracies(records: list[Record]) -> dict[str, dict[tuple[int, str, int], float]]:
    """Return the accuracy of each contender by number of labels, domain and draw.

    Parameters
    ----------
    records : list of dict
        Finished contenders.

    Returns
    -------
    dict of dict
        Fractions of right test rows.
    """
    return {
        record["contender"]: {
            (cell["n_labels"], cell["domain"], cell["draw"]): cell["accuracy"]
            for cell in record["cells"]
        }
        for record in records
        if record["absent"] is None
    }


def gain(
    better: dict[tuple[int, str, int], float],
    other: dict[tuple[int, str, int], float],
    n_labels: int,
) -> tuple[float, float, float]:
    """Compare two contenders, draw by draw.

    Parameters
    ----------
    better, other : dict
        Of `accuracies`.
    n_labels : int
        Which draws.

    Returns
    -------
    mean, low, high : float
        Mean over draws of all domains of the accuracy of `better` less that of `other`,
        and Student's 95 % interval around it; NaN if there is only one draw.
    """
    gaps = [better[key] - other[key] for key in better if key[0] == n_labels]
    mean = statistics.mean(gaps)
    if len(gaps) == 1:
        return mean, float("nan"), float("nan")
    half = statistics.stdev(gaps) / len(gaps) ** 0.5
    half *= float(stats.t.ppf(0.975, len(gaps) - 1))
    return mean, mean - half, mean + half


def paired(records: list[Record], contender: str, other: str) -> Any:
    """Compare two contenders with all labels, over the test rows of all domains.

    Parameters
    ----------
    records : list of dict
        Finished contenders.
    contender, other : str
        Whose errors are compared.

    Returns
    -------
    ErrorComparison
        McNemar's test; its difference is above 0 if `contender` errs less.
    """
    import hardzero

    wrong = [_wrong(records, name) for name in (other, contender)]
    return hardzero.compare_errors(np.zeros_like(wrong[0]), *wrong)


def _wrong(records: list[Record], contender: str) -> Any:
    cells = next(r["cells"] for r in records if r["contender"] == contender)
    rows = [
        np.unpackbits(
            np.frombuffer(bytes.fromhex(cell["wrong"]), np.uint8), count=cell["n_test"]
        )
        for cell in sorted(cells, key=lambda cell: cell["domain"])
        if "wrong" in cell
    ]
    return np.concatenate(rows).astype(np.int64)


def pairs(names: Collection[str]) -> list[tuple[str, str]]:
    """Return which contenders are compared, the pre-trained network first.

    Parameters
    ----------
    names : collection of str
        Contenders that have results.

    Returns
    -------
    list of tuple of str
        Pairs of contenders.
    """
    if PRETRAINED not in names:
        return []
    return [(PRETRAINED, other) for other in names if other != PRETRAINED]


def conclusions(records: list[Record]) -> Iterator[str]:
    """Yield what pre-training gains beside each other contender."""
    found = accuracies(records)
    for name, other in pairs(found):
        for n_labels in sorted({key[0] for key in found[name]}):
            mean, low, high = gain(found[name], found[other], n_labels)
            yield (
                f"{n_labels} labels: {name} less {other}: {100 * mean:+.2f} points "
                f"({100 * low:+.2f} to {100 * high:+.2f})"
            )
        yield str(paired(records, name, other))


def _sentences(record: Record) -> Iterator[str]:
    if record["absent"] is not None:
        yield f"{record['contender']}: {record['absent']}"
        return
    yield (
        f"{record['contender']}: {record['preparation_cpu_seconds']} CPU seconds to "
        f"prepare, {record['about']}"
    )
    scores: dict[tuple[str, int], list[float]] = {}
    for cell in record["cells"]:
        key = (cell["domain"], cell["n_labels"])
        scores.setdefault(key, []).append(cell["accuracy"])
    for (domain, n_labels), of_draws in scores.items():
        yield (
            f"{record['contender']}, {domain}, {n_labels} labels: "
            f"{statistics.mean(of_draws):.2%} ({min(of_draws):.2%} to "
            f"{max(of_draws):.2%})"
        )


PRETRAINED = "network, pre-trained"
INDUCTIVE = "network, pre-trained on training files"

CONTENDERS: dict[str, Callable[[Reviews, Record], Any]] = {
    "logistic on tf-idf": Logistic,
    "mSDA": MarginalisedAutoencoders,
    "network": functools.partial(Network, pretraining="none"),
    PRETRAINED: functools.partial(Network, pretraining="all"),
    INDUCTIVE: functools.partial(Network, pretraining="training"),
}

if __name__ == "__main__" and not alone.answer(measure):
    main()
