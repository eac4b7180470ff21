"""Rectifier networks that predict numbers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin

from hardzero.activations import Activation
from hardzero.engine.objectives import Objective, parse_objective
from hardzero.errors import ParameterError
from hardzero.estimators.base import RectifierEstimator, Rows
from hardzero.estimators.pretraining import separate_numbers
from hardzero.estimators.targets import Coding, Counts, Numbers
from hardzero.kernels import Engine
from hardzero.stack import Layer, RectifierStack, apply_link

__all__ = ["RectifierRegressor"]

Array = npt.NDArray[Any]


class RectifierRegressor(RegressorMixin, RectifierEstimator):
    """A deep rectifier network that predicts numbers and has layers that transform.

    Trains on dense or sparse features with one of several losses. Zeros, in the
    features and in the hidden layers, are not computed with. float32 features give
    float32 results.

    Parameters
    ----------
    hidden_sizes : int or sequence of int, default=(100,)
        Number of units in each hidden layer; an empty sequence makes a linear model.
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
        homogeneous: inputs times c > 0 give outputs times c (not with
        ``loss="poisson"``, whose outputs are logarithms).
    loss : str, default="squared"
        "squared", "absolute", "huber(delta)" ("huber" is "huber(1)"), "log_cosh",
        "quantile(q)" or "poisson"; see Notes.
    target_scaling : {"standard", "none"}, default="standard"
        "standard" trains on targets of mean 0 and mean square 1, by the training rows
        and their weights (in `partial_fit` by those of the first call), and makes the
        scaling part of the last layer; ``fit_intercept=False`` leaves the mean alone.
        "none", and always ``loss="poisson"``, trains on the targets as they are.
    pretraining : None, "denoising" or DenoisingAutoencoder, default=None
        Train the hidden layers first, without targets, as a `DenoisingAutoencoder`
        does: "denoising" with its defaults, or with the settings of the one given. The
        hidden layers of this estimator, and its engine, threads and checkpoint, count,
        not those of the auto-encoder. Then all layers are trained together. Rows
        without targets take part in the first phase: those given to `fit` as
        `X_unlabeled`, rows whose target is NaN, and rows that early stopping sets
        aside. `partial_fit` does it in its first call. A fitted auto-encoder in a
        `sklearn.frozen.FrozenEstimator` is used as it is.
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
        Stop when the validation loss no longer gets better. Without `X_val`, part of
        the training rows is set aside for it. Equal rows stay on one side.
    validation_fraction : float, default=0.1
        Share of rows, by weight, that early stopping sets aside, in (0, 1).
    patience : int, default=10
        Early stopping ends training after exactly this many epochs in a row that were
        not better than the best one: none with a better score, nor with the same one
        and a lower validation loss.
        See also `tol`.
    scoring : str, callable or None, default=None
        What validation rows are judged by, greater being better: the name of a scorer,
        see `sklearn.metrics.get_scorer_names`, or a callable (estimator, X, y). It gets
        the rows as arrays without names of columns, and weights, if there are any, as
        `sample_weight`; it must return one number. None takes the validation
        loss alone.
    init : str, default="auto"
        Distribution of the first weights: "glorot", "he", "he_mean" or "lecun", each
        followed by "_uniform" or "_normal", for all layers; see
        `hardzero.engine.initialise`. "auto" chooses for each layer: He, by the mean of
        inputs and units, for the rectifier and its relatives, LeCun for SELU, Glorot
        for tanh, softplus and others, and for the output layer. Biases start at 0, but
        for "poisson" at the logarithms of the mean targets.
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
    stack_ : RectifierStack
        The trained network; `predict` gives its outputs.
    history_ : FitHistory
        Loss, validation scores, sparsity, dead units, learning rate and seconds of each
        epoch.
    loss_curve_ : list of float of length ``n_iter_``
        Mean loss of the training rows in each epoch.
    validation_loss_curve_, validation_scores_ : list of float
        Mean loss of the validation rows after each epoch, and their score if `scoring`
        is given; only with validation rows.
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
        Number of outputs of the network.
    out_activation_ : str
        "identity", or "exp" for ``loss="poisson"``.

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

    ==================  ================================================================
    loss                of one row and output, with d = target - output
    ==================  ================================================================
    "squared"           d^2 / 2
    "absolute"          abs(d)
    "huber(delta)"      d^2 / 2 where abs(d) <= delta, else
                        delta (abs(d) - delta / 2)
    "log_cosh"          log cosh d
    "quantile(q)"       q d where d >= 0, else (q - 1) d: the output is the q-quantile
    "poisson"           exp(output) - target output: targets are counts, and predictions
                        exp(output)
    ==================  ================================================================

    Losses are summed over the outputs. With ``target_scaling="standard"`` they are
    those of standardised targets, and so is `delta`; ``loss_curve_`` shows these.

    References
    ----------
    Glorot, Bordes & Bengio 2011, "Deep sparse rectifier neural networks". Huber 1964,
    "Robust estimation of a location parameter". Koenker & Bassett 1978, "Regression
    quantiles".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from hardzero import RectifierRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> regressor = RectifierRegressor(early_stopping=True, random_state=0)
    >>> model = make_pipeline(StandardScaler(), regressor).fit(X_train, y_train)
    >>> bool(model.score(X_test, y_test) > 0.2)
    True
    """

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
        loss: str = "squared",
        target_scaling: str = "standard",
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
        self.loss = loss
        self.target_scaling = target_scaling
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

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train for one epoch on some rows.

        Any number of calls over the same rows gives the same bits as that many epochs
        of `fit`. There are no validation rows: `early_stopping` does nothing here.

        Between calls most parameters may change, `learning_rate`, `batch_size`,
        `dropout`, `l2` and the other penalties among them. Fixed are `hidden_sizes`,
        `activation`, `sign_flip`, `batch_norm`, `fit_intercept`, `solver`, whether
        `momentum` is above 0, `loss`, `target_scaling` and `engine`, but for "auto" and
        "sparse", or "dense" and "reference", which may take turns.
        ``batch_size="auto"`` goes by the rows of each call.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets. Those of the first call decide about their scaling.
            With `pretraining`, the first call needs some; later, rows that are marked
            as having none are left out, and a call without others changes nothing.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row, as in `fit`.

        Returns
        -------
        self : RectifierRegressor
            The estimator, trained for one more epoch.

        Raises
        ------
        ParameterError
            If a parameter of the estimator is not allowed, a fixed one was changed in
            between, or `checkpoint` is given.
        DataError
            If `y` has another number of columns than before, or weights do not fit.
        ValueError
            If scikit-learn's checks do not accept `X` and `y`.
        DivergenceError
            If weights or losses stop being finite numbers.
        """
        return self._partial_fit(X, y, sample_weight)

    def predict(self, X: Any) -> Array:
        """Return the predicted numbers.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Predictions, in the shape that `y` had in `fit`.

        Raises
        ------
        DataError
            If inputs are so large that the outputs of the network overflow.
        """
        outputs = self._outputs(X)
        predicted = apply_link(self.stack_.output_link, outputs)
        assert isinstance(self._coding, Counts | Numbers)
        return predicted[:, 0] if self._coding.is_vector else predicted

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets. With `pretraining`, rows that are marked as having none do not
            count.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        float
            Coefficient of determination, R^2; 1 is the best.

        Raises
        ------
        DataError
            If all rows are marked, or inputs are so large that the outputs of the
            network overflow.
        """
        return float(super().score(*self._with_targets(X, y, sample_weight)))

    def _separate(self, y: Any, coding: Coding | None) -> tuple[Any, Array | None]:
        return separate_numbers(y)

    def _target_form(self, y: Any) -> dict[str, bool]:
        return {"multi_output": True, "y_numeric": True}

    def _learn_coding(
        self, y: Array, sample_weight: Array | None, dtype: npt.DTypeLike
    ) -> Coding:
        if self._loss().output_link == "exp":
            return Counts.learn(y)
        return Numbers.learn(
            y,
            sample_weight,
            dtype,
            scaled=self.target_scaling == "standard",
            centred=bool(self.fit_intercept),
        )

    def _first_stack(self, rows: Rows, coding: Coding, seed: int) -> RectifierStack:
        stack = super()._first_stack(rows, coding, seed)
        last = stack.layers[-1]
        W, b = last.W, last.b
        if isinstance(coding, Counts) and self.fit_intercept:
            means = np.average(rows.codes, axis=0, weights=rows.sample_weight)
            b = np.log(np.maximum(means, 1e-9))
        elif isinstance(coding, Numbers):
            W = W * rows.codes.any(axis=0)  # what is constant is predicted exactly
        start = Layer(W, b, last.activation)
        return replace(stack, layers=(*stack.layers[:-1], start))

    def _objective(self, coding: Coding) -> Objective:
        return self._loss()

    def _loss(self) -> Objective:
        objective = parse_objective(self.loss)
        if objective.output_link not in ("identity", "exp"):
            raise ParameterError(
                f"loss={self.loss!r} is for classes, expected 'squared', 'absolute', "
                "'huber(1)', 'log_cosh', 'quantile(0.5)' or 'poisson'. Choose one of "
                "these, or use RectifierClassifier."
            )
        return objective

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
