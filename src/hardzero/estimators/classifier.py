"""Rectifier networks as a scikit-learn classifier."""

import os
import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from hardzero import kernels
from hardzero.activations import Activation
from hardzero.engine.forward import ForwardPass
from hardzero.engine.initialise import initialise
from hardzero.engine.schedules import parse_schedule
from hardzero.engine.train import Settings, train
from hardzero.errors import ParameterError
from hardzero.estimators.inputs import (
    check_hidden_activations,
    check_parameters,
    draw_seed,
    read_rows,
    read_training_set,
    read_validation_set,
    split_off_validation_rows,
)
from hardzero.kernels import Engine
from hardzero.kernels.network import MAX_THREADS
from hardzero.kernels.rules import SGD, Adam, Rule
from hardzero.results import FitHistory
from hardzero.stack import RectifierStack, apply_link

__all__ = ["RectifierClassifier"]

Array = npt.NDArray[Any]


class RectifierClassifier(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator
):
    """A deep rectifier network that classifies, and whose hidden layers transform.

    Trains on dense or sparse features with softmax log-likelihood. Zeros, in the
    features and in the hidden layers, are not computed with, so the more of them, the
    faster training and prediction are. float32 features give float32 results.

    Parameters
    ----------
    hidden_sizes : int or sequence of int, default=(100,)
        Number of units in each hidden layer; an empty sequence makes softmax
        regression.
    activation : str or sequence of str, default="rectifier"
        Activation of the hidden layers, one for all or one for each: a name of
        `hardzero.activations`, with a parameter if needed ("leaky_rectifier(0.1)").
    sign_flip : bool, default=False
        Give the second half of the units of each hidden layer the fixed output sign -1.
    l1_activation : float, default=0.0
        Penalty on the hidden activations: this times the mean over rows of the sum
        over all hidden units of ``|h|``. More of it gives more zeros.
    l2 : float, default=0.0
        Penalty on the weights: this times half the sum of their squares. Biases are
        free.
    solver : {"adam", "sgd"}, default="adam"
        Update rule. "adam" needs little tuning; "sgd" without momentum changes only
        weights whose input is not zero, and is the fastest for a sparse network.
    learning_rate : float or "auto", default="auto"
        Step size. "auto" is 0.001 for Adam and 0.05 * (1 - momentum) for SGD.
    learning_rate_schedule : str, default="constant"
        "constant"; "step(every, factor)", which multiplies the learning rate by
        `factor` after every `every` epochs ("step" is "step(10, 0.5)"); or
        "cosine(final)", which lets it fall along half a cosine to `final` times its
        first value at the end of `max_epochs` ("cosine" is "cosine(0)").
    momentum : float, default=0.0
        Momentum of "sgd", in [0, 1). Not used by "adam".
    nesterov : bool, default=False
        Use Nesterov's momentum; needs ``solver="sgd"`` and a momentum above 0.
    batch_size : int or "auto", default="auto"
        Rows in a mini-batch. "auto" takes a fiftieth of the training rows, but at least
        32 and at most 200, and never more than there are. The last batch of an epoch
        holds what is left.
    max_epochs : int, default=100
        Number of passes over the training rows, unless training stops earlier.
    early_stopping : bool, default=False
        Stop when the validation error no longer falls. Without `X_val`, part of the
        training rows is set aside for it.
    validation_fraction : float, default=0.1
        Share of rows, of each class, that early stopping sets aside, in (0, 1).
    patience : int, default=10
        Early stopping ends training after exactly this many epochs in a row that were
        not better than the best one: none with a lower validation error, nor with the
        same error and a lower validation loss.
    init : str, default="auto"
        Distribution of the first weights: "glorot", "he", "he_mean" or "lecun", each
        followed by "_uniform" or "_normal", for all layers; see
        `hardzero.engine.initialise`. "auto" chooses for each layer: He, by the mean of
        inputs and units, for the rectifier and its relatives, LeCun for SELU, Glorot
        for tanh, softplus and others, and for the output layer. Biases start at 0.
    engine : {"auto", "sparse", "dense", "reference"}, default="auto"
        Kernels: "sparse" always skips zeros, "dense" never does, "auto" decides by
        what is faster, "reference" is slow and simple.
    n_threads : int, default=1
        Number of threads, -1 for all processors. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Decides about first weights, shuffles and the validation split. The same integer
        gives the same bits on the same machine.
    verbose : bool, default=False
        Show a progress bar on standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.
    stack_ : RectifierStack
        The trained network; `decision_function` gives its outputs.
    history_ : FitHistory
        Loss, validation error, sparsity, dead units, learning rate and seconds of each
        epoch.
    loss_curve_ : list of float of length n_iter_
        Mean log loss of the training rows in each epoch.
    n_iter_ : int
        Number of epochs.
    best_epoch_ : int
        Epoch, counted from 1, whose weights were kept: with validation rows the one
        with the lowest validation error (of equal ones the lowest loss), else the last.
    learning_rate_, batch_size_ : float, int
        What was used, also where "auto" was given.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if all of them are strings.
    n_outputs_ : int
        Number of outputs of the network, the number of classes.
    out_activation_ : str
        "softmax".

    See Also
    --------
    hardzero.glorot2011 : Settings of Glorot, Bordes & Bengio 2011.

    Notes
    -----
    Ctrl-C during `fit` ends training with a warning and leaves a fitted estimator with
    the best weights so far.

    References
    ----------
    Glorot, Bordes & Bengio 2011, "Deep sparse rectifier neural networks".

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from hardzero import RectifierClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> classifier = RectifierClassifier(random_state=0).fit(X_train, y_train)
    >>> bool(classifier.score(X_test, y_test) > 0.95)
    True
    """

    classes_: Array
    stack_: RectifierStack
    history_: FitHistory
    _forward: ForwardPass

    def __init__(
        self,
        hidden_sizes: int | Sequence[int] = (100,),
        *,
        activation: str | Activation | Sequence[str | Activation] = "rectifier",
        sign_flip: bool = False,
        l1_activation: float = 0.0,
        l2: float = 0.0,
        solver: str = "adam",
        learning_rate: float | str = "auto",
        learning_rate_schedule: str = "constant",
        momentum: float = 0.0,
        nesterov: bool = False,
        batch_size: int | str = "auto",
        max_epochs: int = 100,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 10,
        init: str = "auto",
        engine: Engine = "auto",
        n_threads: int = 1,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.hidden_sizes = hidden_sizes
        self.activation = activation
        self.sign_flip = sign_flip
        self.l1_activation = l1_activation
        self.l2 = l2
        self.solver = solver
        self.learning_rate = learning_rate
        self.learning_rate_schedule = learning_rate_schedule
        self.momentum = momentum
        self.nesterov = nesterov
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.init = init
        self.engine = engine
        self.n_threads = n_threads
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, *, X_val: Any = None, y_val: Any = None) -> Self:
        """Train the network.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features, finite. Sparse matrices of any format are used as CSR and never
            made dense. Features that are not float32 or float64 become float32.
        y : array-like of shape (n_samples,)
            Labels: numbers, strings or booleans. One class is allowed.
        X_val : array-like or sparse matrix of shape (n_validation, n_features), \
optional
            Validation rows. The weights of the epoch with the lowest validation error
            are kept; with ``early_stopping`` they also decide when to stop.
        y_val : array-like of shape (n_validation,), optional
            Labels of the validation rows, none that `y` does not have.

        Returns
        -------
        self : RectifierClassifier
            The fitted estimator.

        Raises
        ------
        ParameterError
            If a parameter of the estimator is not allowed.
        DataError
            If the validation rows do not fit, or there are too few rows to set some
            aside.
        ValueError
            If `X` or `y` is not usable for classification.
        DivergenceError
            If weights or losses stop being finite numbers.
        """
        check_parameters(self)
        self.__dict__.pop("stack_", None)  # a fit that fails leaves nothing half-fitted
        X, y, classes = read_training_set(self, X, y)
        validation = read_validation_set(self, X_val, y_val, classes, X.dtype)
        seed = draw_seed(self.random_state)
        rows = np.arange(X.shape[0])
        if validation is None and self.early_stopping:
            rows, held_out = split_off_validation_rows(
                y, self.validation_fraction, seed
            )
            validation = X[held_out], y[held_out]
        settings = self._settings(len(rows))
        network = kernels.build(
            self._first_stack(X.shape[1], len(classes), X.dtype, seed),
            self._rule(settings.learning_rate),
            engine=self.engine,
            l1_activation=float(self.l1_activation),
            n_threads=self._count_threads(),
        )
        stack, history = train(
            network,
            X,
            y,
            settings=settings,
            seed=seed,
            rows=rows,
            validation=validation,
            progress=bool(self.verbose),
        )
        self._keep(stack, history, classes, settings)
        return self

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.

        Raises
        ------
        DataError
            If inputs are so large that the outputs of the network overflow.
        """
        best: Array = self._outputs(X).argmax(axis=1)
        labels: Array = self.classes_[best]
        return labels

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of ``classes_``; each row sums to 1.

        Raises
        ------
        DataError
            If inputs are so large that the outputs of the network overflow.
        """
        return apply_link("softmax", self._outputs(X))

    def decision_function(self, X: Any) -> Array:
        """Return the outputs of the network before the softmax.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes the log-odds of the second, ``classes_[1]``; else one
            column for each class.

        Raises
        ------
        DataError
            If inputs are so large that the outputs of the network overflow.
        """
        outputs = self._outputs(X)
        if outputs.shape[1] == 2:
            with np.errstate(over="ignore"):  # outputs are finite: so far apart
                log_odds: Array = outputs[:, 1] - outputs[:, 0]
            most = np.finfo(log_odds.dtype).max
            return log_odds.clip(-most, most)
        return outputs

    def transform(self, X: Any, layer: int = -1) -> Array:
        """Return the activations of a hidden layer, signs applied.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.
        layer : int, default=-1
            Number of the hidden layer, counted from 0, or from the last one backwards
            as -1, -2, ...

        Returns
        -------
        ndarray of shape (n_samples, n_units)
            Activations.

        Raises
        ------
        DataError
            If inputs are so large that the activations overflow.
        ParameterError
            If there is no such layer, or names of columns were asked for by
            ``set_output`` for another layer than the last.
        """
        check_is_fitted(self)
        n_hidden = len(self.stack_.layers) - 1
        if n_hidden == 0:
            raise ParameterError(
                "transform gives hidden activations, but the network has no hidden "
                "layer. Give hidden_sizes at least one entry and fit again."
            )
        is_whole = isinstance(layer, int | np.integer)
        if not (is_whole and -n_hidden <= layer < n_hidden):
            raise ParameterError(
                f"layer={layer!r} was given to transform, but the network has "
                f"{n_hidden} hidden layers. Give a number from {-n_hidden} to "
                f"{n_hidden - 1}."
            )
        number = int(layer) % n_hidden + 1
        if number != n_hidden and self._names_columns():
            raise ParameterError(
                f"layer={layer} was given to transform, but set_output names the units "
                "of the last hidden layer only. Give layer=-1, or call "
                "set_output(transform='default')."
            )
        return self._outputs(X, number)

    def _settings(self, n_samples: int) -> Settings:
        rate = self.learning_rate
        if rate == "auto":
            rate = 0.001 if self.solver == "adam" else 0.05 * (1 - self.momentum)
        size = self.batch_size
        if size == "auto":
            size = min(max(n_samples // 50, 32), 200)
        return Settings(
            batch_size=min(int(size), n_samples),
            max_epochs=int(self.max_epochs),
            learning_rate=float(rate),
            schedule=parse_schedule(self.learning_rate_schedule),
            patience=int(self.patience) if self.early_stopping else None,
        )

    def _first_stack(
        self, n_features: int, n_classes: int, dtype: npt.DTypeLike, seed: int
    ) -> RectifierStack:
        sizes = self.hidden_sizes
        hidden = [int(size) for size in np.atleast_1d(np.asarray(sizes, dtype=int))]
        return initialise(
            (n_features, *hidden, n_classes),
            check_hidden_activations(self.activation, len(hidden)),
            seed=seed,
            scheme=self.init,
            sign_flip=bool(self.sign_flip),
            dtype=dtype,
        )

    def _rule(self, learning_rate: float) -> Rule:
        l2 = float(self.l2)
        if self.solver == "adam":
            return Adam(learning_rate, l2=l2)
        momentum = float(self.momentum)
        return SGD(learning_rate, momentum, nesterov=bool(self.nesterov), l2=l2)

    def _count_threads(self) -> int:
        if self.n_threads != -1:
            return int(self.n_threads)
        try:
            n_processors = len(os.sched_getaffinity(0))
        except AttributeError:  # macOS and Windows cannot tell
            n_processors = os.cpu_count() or 1
        return min(n_processors, MAX_THREADS)

    def _keep(
        self,
        stack: RectifierStack,
        history: FitHistory,
        classes: Array,
        settings: Settings,
    ) -> None:
        fitted = {
            "classes_": classes,
            "stack_": stack,
            "history_": history,
            "n_iter_": history.n_epochs,
            "best_epoch_": history.best_epoch,
            "learning_rate_": settings.learning_rate,
            "batch_size_": settings.batch_size,
            "n_outputs_": stack.n_outputs,
            "out_activation_": stack.output_link,
            "_forward": ForwardPass(),
        }
        self.__dict__.update(fitted)  # all or, if Ctrl-C comes first, nothing
        if history.stopped == "interrupted":
            warnings.warn(
                f"training was interrupted; the weights of epoch {history.best_epoch} "
                f"of {history.n_epochs} are kept. Call fit again to train from the "
                "start.",
                stacklevel=3,
            )

    def _outputs(self, X: Any, n_layers: int | None = None) -> Array:
        check_is_fitted(self)
        X = read_rows(self, X, self.stack_.dtype)
        return self._forward(
            self.stack_,
            X,
            n_layers=n_layers,
            engine=self.engine,
            n_threads=self._count_threads(),
        )

    def _names_columns(self) -> bool:
        # What set_output was called with is kept by scikit-learn under this name.
        own = getattr(self, "_sklearn_output_config", {})
        config = own.get("transform", get_config()["transform_output"])
        return bool(config != "default")

    @property
    def loss_curve_(self) -> list[float]:
        """Mean log loss of the training rows in each epoch."""
        return list(self.history_.loss)

    @property
    def _n_features_out(self) -> int:
        return self.stack_.sizes[-2]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "stack_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
