"""Rectifier networks that classify."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import is_multilabel

from hardzero.activations import Activation
from hardzero.engine.objectives import Objective, SigmoidLogLoss, SoftmaxLogLoss
from hardzero.errors import ParameterError
from hardzero.estimators.base import RectifierEstimator, Rows
from hardzero.estimators.inputs import naming
from hardzero.estimators.pretraining import separate_labels
from hardzero.estimators.targets import Classes, Coding, Indicators
from hardzero.estimators.weights import weigh_classes
from hardzero.kernels import Engine
from hardzero.stack import RectifierStack, apply_link

__all__ = ["RectifierClassifier"]

Array = npt.NDArray[Any]


class RectifierClassifier(ClassifierMixin, RectifierEstimator):
    """A deep rectifier network that classifies, and whose hidden layers transform.

    Trains on dense or sparse features with softmax log-likelihood, or, if `y` is a
    matrix of 0 and 1 with a column for each of several labels, with sigmoid
    log-likelihood of each label. Zeros, in the features and in the hidden layers, are
    not computed with, so the more of them, the faster training and prediction are.
    float32 features give float32 results.

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
    dropout : float or sequence of float, default=0.0
        Probability, in [0, 1), to set an activation of a hidden layer to zero in
        training; one for all hidden layers or one for each. The zeros are exact and are
        not computed with. Whether a unit is dropped depends on `random_state`, the
        epoch and the content of the row, not on the order of rows.
    input_dropout : float, default=0.0
        The same for the features.
    batch_norm : bool, default=False
        Normalise the pre-activations of hidden layers over each mini-batch. After
        training this is part of the weights and biases and costs nothing. Needs
        mini-batches of 2 rows or more; 32 or more are advisable.
    l1_activation : float, default=0.0
        Penalty on the hidden activations: this times the mean over rows of the sum over
        all hidden units of ``|h|``. More of it gives more zeros.
    l1 : float, default=0.0
        Penalty on the weights: this times the sum of their absolute values, as a soft
        threshold after each update, so that weights become exactly 0. Biases are free.
    l2 : float, default=0.0
        Penalty on the weights: this times half the sum of their squares. Biases are
        free.
    max_norm : float or None, default=None
        Bound on the Euclidean norm of the weights into each hidden unit.
    clip_norm : float or None, default=None
        Bound on the Euclidean norm of the whole gradient in each update.
    fit_intercept : bool, default=True
        False leaves all biases at 0. A network of rectifiers is then positively
        homogeneous: inputs times c > 0 give outputs times c.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class, times which the weights of its rows are taken, in
        training and in validation; classes that a dict lacks have weight 1. "balanced"
        gives all classes the same total weight, among the rows of each call. Not for a
        matrix of labels: give `sample_weight` there.
    pretraining : None, "denoising" or DenoisingAutoencoder, default=None
        Train the hidden layers first, without targets, as a `DenoisingAutoencoder`
        does: "denoising" with its defaults, or with the settings of the one given. The
        hidden layers of this estimator, and its engine, threads and checkpoint, count,
        not those of the auto-encoder. Then all layers are trained together. Rows
        without targets take part in the first phase: those given to `fit` as
        `X_unlabeled`, rows whose target is the number -1 (unless -1 and one other
        number are the only labels, or -1 is among the `classes` of `partial_fit`: then
        it is a label), and rows that early stopping sets aside. What -1 is, is decided
        once: training that goes on, and `score`, keep to it. `partial_fit` pre-trains
        in its first call. A fitted auto-encoder in a `sklearn.frozen.FrozenEstimator`
        is used as it is.
    solver : {"adam", "sgd"}, default="adam"
        Update rule. "adam" needs little tuning; "sgd" without momentum changes only
        weights whose input is not zero, and is the fastest for a sparse network.
    learning_rate : float or "auto", default="auto"
        Step size. "auto" is 0.001 for Adam and 0.05 * (1 - momentum) for SGD.
    learning_rate_schedule : str, default="constant"
        "constant"; "step(every, factor)", which multiplies the learning rate by
        `factor` after every `every` epochs ("step" is "step(10, 0.5)"); or
        "cosine(final)", which lets it fall along half a cosine to `final` times its
        first value at the end of `max_epochs` ("cosine" is "cosine(0)"). With
        "warmup(n)+" before one of them it rises linearly in the first `n` epochs. Where
        training goes on by `warm_start` or `partial_fit`, epochs count from the first
        call, and "cosine" stays at `final` times the rate after `max_epochs` of them:
        with "cosine(0)" nothing is learned any more, of which a warning tells.
    momentum : float, default=0.0
        Momentum of "sgd", in [0, 1). Not used by "adam".
    nesterov : bool, default=False
        Use Nesterov's momentum; needs ``solver="sgd"`` and a momentum above 0.
    batch_size : int or "auto", default="auto"
        Rows in a mini-batch. "auto" takes all training rows if they are at most 64,
        else a fiftieth of them, but at least 32 and at most 200. The last batch of an
        epoch holds what is left.
    shuffle : bool, default=True
        Visit the rows in another order in each epoch.
    max_epochs : int, default=100
        Number of passes over the training rows in one call of `fit`, unless training
        stops earlier.
    tol : float or None, default=1e-4
        Without `early_stopping`, training ends after `patience` epochs in a row whose
        mean training loss was not lower than the lowest before by this much. None
        trains for all of `max_epochs`.
    early_stopping : bool, default=False
        Stop when the validation error no longer gets better. Without `X_val`, part of
        the training rows is set aside for it. Equal rows of a class stay on one side.
    validation_fraction : float, default=0.1
        Share of rows, by weight and of each class, that early stopping sets aside, in
        (0, 1).
    patience : int, default=10
        Early stopping ends training after exactly this many epochs in a row that were
        not better than the best one: none with a better score, nor with the same one
        and a lower validation loss.
        See also `tol`.
    scoring : str, callable or None, default=None
        What validation rows are judged by, greater being better: the name of a scorer,
        see `sklearn.metrics.get_scorer_names`, or a callable (estimator, X, y). It gets
        the rows as arrays without names of columns, and weights, if there are any, as
        `sample_weight`; it must return one number. None takes the share of
        rows that are right.
    init : str, default="auto"
        Distribution of the first weights: "glorot", "he", "he_mean" or "lecun", each
        followed by "_uniform" or "_normal", for all layers; see
        `hardzero.engine.initialise`. "auto" chooses for each layer: He, by the mean of
        inputs and units, for the rectifier and its relatives, LeCun for SELU, Glorot
        for tanh, softplus and others, and for the output layer. Biases start at 0.
    warm_start : bool, default=False
        Let `fit` go on from where the last training stopped, with the state of the
        optimiser, for up to `max_epochs` more epochs. ``n_iter_``, the history and the
        schedule count all epochs since the start. That state is kept in memory after
        each training; a pickle holds it only if this is True, or after `partial_fit`.
    checkpoint : str, path or None, default=None
        File that `fit` writes after each epoch. If it is there, training goes on from
        it and ends with the same bits as one that was never interrupted; if it belongs
        to other data or settings, that is an error. The file stays when training has
        ended; a higher `max_epochs` then goes on from it, unless the schedule is
        "cosine", which depends on it. Not together with `warm_start`.
    checkpoint_seconds : float or None, default=None
        Write the checkpoint after this many seconds instead, also in the middle of an
        epoch, and at the end.
    engine : {"auto", "sparse", "dense", "reference"}, default="auto"
        Kernels: "sparse" always skips zeros, "dense" never does, "auto" decides by what
        is faster, "reference" is slow and simple.
    n_threads : int, default=1
        Number of threads, -1 for all processors. The result does not depend on it,
        unless it was pre-trained with tied weights.
    random_state : int, RandomState or None, default=None
        Decides about first weights, shuffles, dropout and the validation split. The
        same integer gives the same bits on the same machine.
    verbose : bool, default=False
        Show a progress bar on standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels; for a matrix of labels the numbers of its columns.
    stack_ : RectifierStack
        The trained network; `decision_function` gives its outputs.
    history_ : FitHistory
        Loss, validation scores, sparsity, dead units, learning rate and seconds of each
        epoch.
    loss_curve_ : list of float of length ``n_iter_``
        Mean log loss of the training rows in each epoch.
    validation_loss_curve_, validation_scores_ : list of float
        Mean log loss of the validation rows after each epoch, and their score (by
        default the share of rows that are right); only with validation rows.
    n_iter_ : int
        Number of epochs, over all calls if training went on.
    best_epoch_ : int
        Epoch, counted from 1, whose weights were kept: with validation rows the best
        one, else the last.
    learning_rate_, batch_size_ : float, int
        What was used, also where "auto" was given.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (``n_features_in_``,)
        Names of the features, if all of them are strings.
    n_outputs_ : int
        Number of outputs of the network, the number of classes or labels.
    out_activation_ : str
        "softmax"; "sigmoid" for a matrix of labels.

    See Also
    --------
    hardzero.glorot2011 : Settings of Glorot, Bordes & Bengio 2011.

    Notes
    -----
    Ctrl-C during `fit` ends training with a warning and leaves a fitted estimator with
    the best weights so far. With `warm_start`, or in `partial_fit` that went on, later
    training goes on from the last complete epoch; without, Ctrl-C in the middle of an
    epoch leaves nothing to go on from. Of the very first epoch, the rows that were seen
    count as an epoch.

    Training that goes on, by `partial_fit` or `warm_start`, does so from the last
    epoch, not from the best one: as if it had never stopped.

    Rows of weight 0 are left out before anything else. Constant columns are allowed;
    they act as a bias. Features are not scaled: they should be of about size 1. Of any
    other finite size they are trained on as they are, which may end in a
    `DivergenceError` or a network that learned little.

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
    _mark = "-1"

    def __init__(
        self,
        hidden_sizes: int | Sequence[int] = (100,),
        *,
        activation: str | Activation | Sequence[str | Activation] = "rectifier",
        sign_flip: bool = False,
        dropout: float | Sequence[float] = 0.0,
        input_dropout: float = 0.0,
        batch_norm: bool = False,
        l1_activation: float = 0.0,
        l1: float = 0.0,
        l2: float = 0.0,
        max_norm: float | None = None,
        clip_norm: float | None = None,
        fit_intercept: bool = True,
        class_weight: Mapping[Any, float] | str | None = None,
        pretraining: str | BaseEstimator | None = None,
        solver: str = "adam",
        learning_rate: float | str = "auto",
        learning_rate_schedule: str = "constant",
        momentum: float = 0.0,
        nesterov: bool = False,
        batch_size: int | str = "auto",
        shuffle: bool = True,
        max_epochs: int = 100,
        tol: float | None = 1e-4,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 10,
        scoring: str | Callable[..., float] | None = None,
        init: str = "auto",
        warm_start: bool = False,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_seconds: float | None = None,
        engine: Engine = "auto",
        n_threads: int = 1,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.hidden_sizes = hidden_sizes
        self.activation = activation
        self.sign_flip = sign_flip
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.batch_norm = batch_norm
        self.l1_activation = l1_activation
        self.l1 = l1
        self.l2 = l2
        self.max_norm = max_norm
        self.clip_norm = clip_norm
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.pretraining = pretraining
        self.solver = solver
        self.learning_rate = learning_rate
        self.learning_rate_schedule = learning_rate_schedule
        self.momentum = momentum
        self.nesterov = nesterov
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.max_epochs = max_epochs
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.scoring = scoring
        self.init = init
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.engine = engine
        self.n_threads = n_threads
        self.random_state = random_state
        self.verbose = verbose

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Train for one epoch on some rows.

        Any number of calls over the same rows gives the same bits as that many epochs
        of `fit`. There are no validation rows: `early_stopping` does nothing here.

        Between calls most parameters may change, `learning_rate`, `batch_size`,
        `dropout`, `l2` and the other penalties among them. Fixed are `hidden_sizes`,
        `activation`, `sign_flip`, `batch_norm`, `fit_intercept`, `solver`, whether
        `momentum` is above 0, and `engine`, but for "auto" and "sparse", or "dense" and
        "reference", which may take turns. ``batch_size="auto"`` goes by the rows of
        each call.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Labels. With `pretraining`, the first call needs some; later, rows that are
            marked as having none are left out, and a call without others changes
            nothing.
        classes : array-like of shape (n_classes,), optional
            All labels there will ever be. In the first call None means that there are
            no others than those in `y`; later calls need not give it again. Not used
            for a matrix of labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row, as in `fit`.

        Returns
        -------
        self : RectifierClassifier
            The estimator, trained for one more epoch.

        Raises
        ------
        ParameterError
            If a parameter of the estimator is not allowed, a fixed one was changed in
            between, or `checkpoint` is given.
        DataError
            If `y` has other labels than those at the start, `classes` are others than
            at the start, or weights do not fit.
        ValueError
            If scikit-learn's checks do not accept `X` and `y`.
        DivergenceError
            If weights or losses stop being finite numbers.
        """
        coding: Coding | None = None
        if classes is not None and not is_multilabel(y):
            with naming(y="classes"):
                coding = Classes.learn(np.asarray(classes))
            self._compare_classes(coding)
        return self._partial_fit(X, y, sample_weight, coding)

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each row, or all labels that it has.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_labels)
            Classes; for a matrix of labels 1 where the probability is above one half.

        Raises
        ------
        DataError
            If inputs are so large that the outputs of the network overflow.
        """
        outputs = self._outputs(X)
        if self.out_activation_ == "sigmoid":
            return (outputs > 0).astype(np.int64)
        labels: Array = self.classes_[outputs.argmax(axis=1)]
        return labels

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class or label.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of ``classes_``; each row sums to 1, but for a
            matrix of labels, where each entry is that of its label alone.

        Raises
        ------
        DataError
            If inputs are so large that the outputs of the network overflow.
        """
        outputs = self._outputs(X)
        return apply_link(self.stack_.output_link, outputs)

    def decision_function(self, X: Any) -> Array:
        """Return the outputs of the network before softmax or sigmoid.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes the log-odds of the second, ``classes_[1]``; else one
            column for each class or label.

        Raises
        ------
        DataError
            If inputs are so large that the outputs of the network overflow.
        """
        outputs = self._outputs(X)
        if outputs.shape[1] == 2 and self.out_activation_ == "softmax":
            with np.errstate(over="ignore"):  # outputs are finite: so far apart
                log_odds: Array = outputs[:, 1] - outputs[:, 0]
            most = np.finfo(log_odds.dtype).max
            return log_odds.clip(-most, most)
        return outputs

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Labels. With `pretraining`, rows that are marked as having none do not
            count.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        float
            Weighted share of rows whose prediction is right.

        Raises
        ------
        DataError
            If all rows are marked, or inputs are so large that the outputs of the
            network overflow.
        """
        return float(super().score(*self._with_targets(X, y, sample_weight)))

    def _separate(self, y: Any, coding: Coding | None) -> tuple[Any, Array | None]:
        assert coding is None or isinstance(coding, Classes | Indicators)
        return separate_labels(y, None if coding is None else coding.classes)

    def _target_form(self, y: Any) -> dict[str, bool]:
        return {"multi_output": y is not None and is_multilabel(y)}

    def _learn_coding(
        self, y: Array, sample_weight: Array | None, dtype: npt.DTypeLike
    ) -> Coding:
        return Classes.learn(y) if y.ndim == 1 else Indicators(y.shape[1])

    def _objective(self, coding: Coding) -> Objective:
        return SoftmaxLogLoss() if isinstance(coding, Classes) else SigmoidLogLoss()

    def _loss_weights(self, rows: Rows, coding: Coding) -> Array | None:
        if isinstance(coding, Classes):
            return weigh_classes(
                self.class_weight, coding.classes, rows.codes, rows.sample_weight
            )
        if self.class_weight is not None:
            raise ParameterError(
                f"class_weight={self.class_weight!r} was given with a matrix of "
                "labels, expected one label for each row. Give sample_weight instead."
            )
        return rows.sample_weight

    def _predicting(self, coding: Coding, stack: RectifierStack) -> dict[str, Any]:
        assert isinstance(coding, Classes | Indicators)
        return super()._predicting(coding, stack) | {"classes_": coding.classes}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
