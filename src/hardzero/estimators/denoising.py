"""Denoising auto-encoders: hidden layers learned from rows without targets."""

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from hardzero import kernels
from hardzero.activations import Activation
from hardzero.engine.checkpoint import Checkpoint
from hardzero.engine.corruption import Corruption, parse_corruption
from hardzero.engine.corruptors import mean_non_zero
from hardzero.engine.denoise import (
    DenoisingNetwork,
    SampledDenoisingNetwork,
)
from hardzero.engine.forward import ForwardPass
from hardzero.engine.initialise import initialise
from hardzero.engine.reconstruction import (
    Decoder,
    Reconstruction,
    parse_decoder,
)
from hardzero.engine.train import Settings, Validation, train
from hardzero.errors import DataError, DivergenceError, ParameterError, warn_user
from hardzero.estimators.inputs import naming, read_features, read_rows
from hardzero.estimators.layers import (
    HOMOGENEOUS,
    Forward,
    LayerPlan,
    LayerRows,
    LearnedLayer,
    choose_corruption,
    choose_decoder,
    value_range,
)
from hardzero.estimators.parameters import (
    DENOISING,
    changes_between,
    check_hidden_activations,
    check_parameter,
    check_parameters,
    choose_batch_size,
    draw_seed,
)
from hardzero.estimators.split import split_off_validation_rows
from hardzero.estimators.weights import read_weights
from hardzero.kernels import Engine
from hardzero.kernels.network import Matrix, Network
from hardzero.kernels.rules import SGD, Adam, Rule
from hardzero.kernels.sampled import SampledAutoencoder
from hardzero.kernels.tied import TiedNetwork
from hardzero.random import row_hashes, stream_key
from hardzero.results import FitHistory
from hardzero.stack import Layer, RectifierStack
from hardzero.threads import count_threads

__all__ = ["DenoisingAutoencoder"]

Array = npt.NDArray[Any]


class DenoisingAutoencoder(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Hidden layers that were trained, one after the other, to undo noise.

    Each layer gets rows to which noise was added and learns an encoding,
    h = f(x W + b), from which a decoder makes the rows as they were without the noise.
    The next layer does the same with the encodings of the rows. `transform` gives the
    encodings of the last layer, which are sparse if its units are rectifiers;
    `score_samples` says how well a row can be reconstructed, so that what it finds odd
    is an anomaly.

    Parameters
    ----------
    hidden_sizes : int or sequence of int, default=(100,)
        Number of units in each layer.
    activation : str or sequence of str, default="rectifier"
        Activation of the layers, one for all or one for each: a name of
        `hardzero.activations`, with a parameter if needed ("leaky_rectifier(0.1)").
    sign_flip : bool, default=False
        Give the second half of the units of each layer the fixed output sign -1.
        Decoders that put out no negative numbers then reconstruct outputs of the layer
        below without their signs.
    corruption : str or sequence of str, default="auto"
        The noise, one kind for all layers or one for each: "none", "masking(rate)",
        "salt_and_pepper(off, on)", "salt_and_pepper(off, density)",
        "gaussian(deviation)" or "swap(rate)"; see `hardzero.engine.corruption`. "auto"
        is "masking(0.5)", for sparse matrices "masking(0.8)". The noise of a row
        depends on `random_state`, the layer, the epoch and the content of the row, not
        on the order of rows.
    decoder : str or sequence of str, default="auto"
        What is put out and what it costs, one for all layers or one for each:
        "softplus", "sigmoid", "linear", "linear(pre)", "rectifier",
        "censored_gaussian(s)" or "censored_laplace(s)"; see Notes. "auto" is "sigmoid"
        for features that are all 0 or 1; else "linear" if some are negative, which
        outputs of layers of tanh units are, too; else "softplus".
    rescale : {"global", "unit", "none"}, default="global"
        Only for "sigmoid" above a layer of rectifiers or their like: divide weights and
        biases of that layer, once it is trained, so that the largest output over the
        training rows is 1, of all its units together or of each by itself. "none"
        leaves them, which is an error if outputs are above 1.
    tied : bool, default=False
        Let the decoder have the transposed weights of the encoder, not its own. The
        same bits then need the same `n_threads`.
    l1_activation : float or sequence of float, default=0.0
        Penalty on the encodings, one for all layers or one for each: this times the
        mean over rows of the sum over units of ``|h|``. More of it gives more zeros.
    l2 : float, default=0.0
        Penalty on the weights: this times half the sum of their squares.
    reconstruction_sampling : float, "auto" or None, default=None
        Only for the first layer and sparse `X`: reconstruct, in each row, the features
        that are not 0, before or after the noise, and this share of the others, drawn
        anew in each epoch and weighted by its inverse, so that the gradient is right on
        average. "auto" draws about as many as there are non-zeros. None reconstructs
        all features. Needs ``solver="sgd"`` without momentum, and untied weights.
    solver : {"adam", "sgd"}, default="adam"
        Update rule.
    learning_rate : float, "auto" or sequence of float, default="auto"
        Step size. "auto" is 0.001 for Adam and 0.01 * (1 - momentum) for SGD. Of a
        sequence each layer is trained with every number, and the one with the least
        reconstruction error on validation rows is kept.
    momentum : float, default=0.0
        Momentum of "sgd", in [0, 1). Not used by "adam".
    batch_size : int or "auto", default="auto"
        Rows in a mini-batch. "auto" takes all training rows if they are at most 64,
        else a fiftieth of them, but at least 32 and at most 200.
    max_epochs : int, default=30
        Number of passes over the training rows for each layer.
    early_stopping : bool, default=False
        Set validation rows aside, if none are given to `fit`, and stop when their
        reconstruction error no longer falls. Equal rows stay on one side.
    validation_fraction : float, default=0.1
        Share of rows, by weight, that are set aside for early stopping or for the
        choice of a learning rate, in (0, 1).
    patience : int, default=10
        Early stopping ends training after this many epochs in a row that were not
        better than the best one.
    init : str, default="auto"
        Distribution of the first weights, as in `RectifierClassifier`.
    checkpoint : str, path or None, default=None
        Beginning of the names of files that `fit` writes after each epoch: one for each
        layer, such as "PATH.layer1", or for each layer and learning rate. What is there
        is gone on from, and ends with the same bits as a run that was never
        interrupted; files of other data or settings are an error. A higher `max_epochs`
        goes on with a first layer, as long as there is no file of a layer above it: the
        latter would have other inputs.
    checkpoint_seconds : float or None, default=None
        Write the files after this many seconds instead, also in the middle of an epoch.
    engine : {"auto", "sparse", "dense", "reference"}, default="auto"
        Kernels, as in `RectifierClassifier`. Tied weights and the sampling of
        reconstructions have kernels of their own, whatever is given here.
    n_threads : int, default=1
        Number of threads, -1 for all processors. The result does not depend on it,
        unless weights are tied: NumPy's linear algebra then multiplies matrices, and
        other numbers of threads may change the last bits.
    random_state : int, RandomState or None, default=None
        Decides about first weights, shuffles, noise and the validation split.
    verbose : bool, default=False
        Show a progress bar for each layer on standard error.

    Attributes
    ----------
    stack_ : RectifierStack
        The encoders, from the first to the last.
    histories_ : tuple of FitHistory
        Reconstruction error, sparsity, dead units and seconds of each epoch, for each
        layer.
    corruptions_, decoders_ : tuple of str
        What was used for each layer, also where "auto" was given.
    learning_rates_ : tuple of float
        Learning rate of each layer.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (``n_features_in_``,)
        Names of the features, if all of them are strings.

    Notes
    -----
    With the target x of a unit of the decoder and its pre-activation a:

    =========================  =====================  ==================================
    decoder                    reconstruction         cost
    =========================  =====================  ==================================
    "softplus"                 log(1 + exp(a))        squared difference
    "sigmoid"                  1 / (1 + exp(-a))      cross-entropy, x in [0, 1]
    "linear"                   a                      squared difference
    "linear(pre)"              a                      the same to the pre-activation of
                                                      the unit of the layer below
    "rectifier"                max(0, a)              squared difference
    "censored_gaussian(s)"     mean of max(0, u)      minus the log-likelihood of
                                                      x = max(0, u), u normal about a
    "censored_laplace(s)"      the same               the same, u of Laplace's law
    =========================  =====================  ==================================

    The cost of a row is the sum over its features, that of a batch the weighted mean
    over rows. Encodings of the layers below are kept in memory as dense arrays.

    References
    ----------
    Glorot, Bordes & Bengio 2011, "Deep sparse rectifier neural networks", section 3.2.
    Vincent, Larochelle, Bengio & Manzagol 2008, "Extracting and composing robust
    features with denoising autoencoders". Dauphin, Glorot & Bengio 2011, "Large-scale
    learning of embeddings with reconstruction sampling".

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hardzero import DenoisingAutoencoder
    >>> X = load_digits().data / 16
    >>> autoencoder = DenoisingAutoencoder((50,), random_state=0).fit(X)
    >>> autoencoder.transform(X).shape
    (1797, 50)
    >>> noise = X[::-1, ::-1] * (X < 0.5)
    >>> float(autoencoder.score(X)) > float(autoencoder.score(noise))
    True
    """

    stack_: RectifierStack
    histories_: tuple[FitHistory, ...]
    _layers: tuple[LearnedLayer, ...]
    _fixed: dict[str, str]  # parameters that partial_fit cannot change
    _seed: int

    def __init__(
        self,
        hidden_sizes: int | Sequence[int] = (100,),
        *,
        activation: str | Activation | Sequence[str | Activation] = "rectifier",
        sign_flip: bool = False,
        corruption: str | Corruption | Sequence[str | Corruption] = "auto",
        decoder: str | Decoder | Sequence[str | Decoder] = "auto",
        rescale: str = "global",
        tied: bool = False,
        l1_activation: float | Sequence[float] = 0.0,
        l2: float = 0.0,
        reconstruction_sampling: float | str | None = None,
        solver: str = "adam",
        learning_rate: float | str | Sequence[float] = "auto",
        momentum: float = 0.0,
        batch_size: int | str = "auto",
        max_epochs: int = 30,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 10,
        init: str = "auto",
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
        self.corruption = corruption
        self.decoder = decoder
        self.rescale = rescale
        self.tied = tied
        self.l1_activation = l1_activation
        self.l2 = l2
        self.reconstruction_sampling = reconstruction_sampling
        self.solver = solver
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.init = init
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.engine = engine
        self.n_threads = n_threads
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ training

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, X_val: Any = None
    ) -> Self:
        """Train all layers, from the first to the last.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features, finite. Sparse matrices of any format are used as CSR; features
            that are not float32 or float64 become float32.
        y : object, optional
            Not used.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row, 0 or more; with all rows in one batch a row of weight 2
            is as good as two.
        X_val : array-like or sparse matrix of shape (n_validation, n_features), \
optional
            Validation rows, in place of some of `X`. The weights of the epoch with the
            least reconstruction error on them are kept.

        Returns
        -------
        self : DenoisingAutoencoder
            The fitted auto-encoder. After Ctrl-C, it has the layers that were trained
            until then.

        Raises
        ------
        ParameterError
            If a parameter is not allowed.
        DataError
            If `X` does not suit a decoder, weights do not fit, or the checkpoint is
            one of another task.
        ValueError
            If scikit-learn's checks do not accept `X`.
        DivergenceError
            If weights or losses stop being finite numbers, with each learning rate.
        """
        self._check_parameters()
        self.__dict__.pop("stack_", None)  # a fit that fails leaves no half of one
        X, weights = self._read(X, sample_weight, reset=True)
        held_out = None
        if X_val is not None:
            with naming(X="X_val"):
                X_val = read_features(self, X_val, dtype=X.dtype, reset=False)
            if sp.issparse(X) != sp.issparse(X_val):
                raise DataError(
                    "X and X_val are a dense and a sparse matrix, expected two of one "
                    "kind. Convert one of them, for example with "
                    "scipy.sparse.csr_array(X_val)."
                )
            held_out = LayerRows(X_val, row_hashes(X_val), None)
        seed = self._draw_seed()
        layers = self._train(self._split(X, weights, held_out, seed), seed)
        self._keep(layers, seed, incremental=False)
        if layers[-1].history.stopped == "interrupted":
            how = "train from the start"
            if self.checkpoint is not None:
                how = "go on from the checkpoint"
            warn_user(
                f"training was interrupted in layer {len(layers)} of "
                f"{len(self._sizes())}; it is kept as it is, with those below it. Call "
                f"fit again to {how}."
            )
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train each layer for one epoch on some rows, from the first to the last.

        Each layer sees what those below it make of the rows after this call has changed
        them. What "auto" stands for is decided by the rows of the first call.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.
        y : object, optional
            Not used.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row, as in `fit`.

        Returns
        -------
        self : DenoisingAutoencoder
            The auto-encoder, trained for one more epoch. Ctrl-C leaves it as it was.

        Raises
        ------
        ParameterError
            If a parameter is not allowed, the layers are others than before, or what
            needs all rows at once was asked for: a checkpoint, a choice of learning
            rates, or a layer that is rescaled.
        DataError
            If `X` does not suit a decoder, or weights do not fit.
        ValueError
            If scikit-learn's checks do not accept `X`.
        DivergenceError
            If weights or losses stop being finite numbers.
        """
        self._check_parameters()
        self._refuse_what_needs_all_rows()
        is_first = not hasattr(self, "stack_")
        before = () if is_first else self._previous_layers()
        X, weights = self._read(X, sample_weight, reset=is_first)
        seed = draw_seed(self.random_state) if is_first else self._seed
        rows = LayerRows(X, row_hashes(X), weights)
        layers = self._train([rows], seed, n_epochs=1, before=before)
        if layers[-1].history.stopped == "interrupted":
            raise KeyboardInterrupt
        self._keep(layers, seed, incremental=True)
        return self

    def learn_layers(
        self, X: Matrix, sample_weight: Array | None, seed: int
    ) -> tuple[tuple[Layer, ...], tuple[FitHistory, ...]]:
        """Return layers learned from rows that were checked before.

        For the estimators that pre-train; nothing is kept.

        Parameters
        ----------
        X : C-contiguous ndarray or canonical CSR matrix of shape (n_samples, \
n_features)
            Features.
        sample_weight : ndarray of float64 of shape (n_samples,) or None
            Weights above 0; None means all 1.
        seed : int
            Seed, for a `random_state` that is no number.

        Returns
        -------
        layers : tuple of Layer
            Encoders; after an interrupt those that were trained.
        histories : tuple of FitHistory
            How each of them was trained.
        """
        self._check_parameters()
        seed = self._draw_seed(seed)
        layers = self._train(self._split(X, sample_weight, None, seed), seed)
        return (
            tuple(one.stack.layers[0] for one in layers),
            tuple(one.history for one in layers),
        )

    def _split(
        self, X: Matrix, weights: Array | None, held_out: LayerRows | None, seed: int
    ) -> list[LayerRows]:
        """Return rows to train on and, if there are, rows to validate on."""
        rows = LayerRows(X, row_hashes(X), weights)
        if held_out is not None:
            return [rows, held_out]
        if not (self.early_stopping or self._has_grid()):
            return [rows]
        strata = np.zeros(X.shape[0], dtype=np.int64)
        training, validation = split_off_validation_rows(
            X,
            strata,
            weights,
            self.validation_fraction,
            seed,
            **self._reason_to_split(),
        )
        return [rows.take(training), rows.take(validation)]

    def _reason_to_split(self) -> dict[str, str]:
        """Return what validation rows are needed for, and how to do without."""
        if self.early_stopping:
            remedy = "early_stopping=False"
            if self._has_grid():
                remedy += " and one learning_rate"
            return {"purpose": "early_stopping=True", "remedy": f"X_val, or {remedy}"}
        return {
            "purpose": f"the choice of one learning_rate of {self.learning_rate!r}",
            "remedy": "X_val, or one learning_rate",
        }

    def _train(
        self,
        data: list[LayerRows],
        seed: int,
        *,
        n_epochs: int | None = None,
        before: Sequence[LearnedLayer] = (),
    ) -> list[LearnedLayer]:
        """Train one layer after the other, each on what those below make of the rows.

        Parameters
        ----------
        data : list of LayerRows
            Training rows, then validation rows if there are any.
        seed : int
            Seed of everything.
        n_epochs : int, optional
            How many epochs to run; `max_epochs`, if not given.
        before : sequence of LearnedLayer
            Layers to go on with.

        Returns
        -------
        list of LearnedLayer
            The layers; after an interrupt those that were trained.
        """
        if self.checkpoint is not None:
            self._check_files(seed)
        layers: list[LearnedLayer] = []
        none: list[None] = [None] * len(self._sizes())
        try:
            for old in before or none:
                data = self._add_layer(layers, data, seed, n_epochs, old)
                if layers[-1].history.stopped == "interrupted":
                    break
        except KeyboardInterrupt:  # between two layers
            if not layers:
                raise
            layers[-1] = layers[-1].interrupted()
        return layers

    def _add_layer(
        self,
        layers: list[LearnedLayer],
        lower: list[LayerRows],
        seed: int,
        n_epochs: int | None,
        old: LearnedLayer | None,
    ) -> list[LayerRows]:
        """Train the next layer on rows of the last one; return its own rows."""
        number = len(layers) + 1
        forward = self._forward_pass()
        shown = lower
        if layers:
            shown = [some.through(layers[-1].encoder, forward) for some in lower]
        if old is not None:
            below = layers[-1].stack.layers[0] if layers else None
            penalty = float(self._of_layer("l1_activation", number))
            plan = replace(old.plan, below=below, l1_activation=penalty)
        else:
            decoder = self._decoder_of(number, shown, layers)
            if layers and self._is_rescaled(decoder, layers[-1].plan.activation):
                scale = self._scale_of(shown[0].X)
                layers[-1] = layers[-1].rescaled(scale)
                shown = [some.replaced(some.X / scale) for some in shown]
            plan = self._plan(number, decoder, shown[0], layers)
        seen = shown
        if plan.sees_preactivations:
            seen = [some.through(layers[-1].linear, forward) for some in lower]
        for some in seen[:1] if layers else seen:  # held-out encodings may be larger
            self._check_targets(plan, some.X)
        layers.append(self._train_layer(plan, seen, seed, n_epochs, old))
        return shown

    def _train_layer(
        self,
        plan: LayerPlan,
        data: list[LayerRows],
        seed: int,
        n_epochs: int | None,
        before: LearnedLayer | None,
    ) -> LearnedLayer:
        """Train one layer, at each learning rate of the grid if there is one."""
        rates = self._rates()
        if len(rates) == 1:
            file = self._checkpoint(plan, rates[0])
            return self._train_at(plan, data, seed, rates[0], file, n_epochs, before)
        trained: list[LearnedLayer] = []
        failed: DivergenceError | None = None
        is_interrupted = False
        for rate in rates:
            file = self._checkpoint(plan, rate)
            try:
                trained.append(self._train_at(plan, data, seed, rate, file))
                is_interrupted = trained[-1].history.stopped == "interrupted"
            except DivergenceError as error:  # the next one may do
                failed = error
            except KeyboardInterrupt:  # between two rates
                if not trained:
                    raise
                is_interrupted = True
            if is_interrupted:
                break
        if not trained:
            assert failed is not None
            raise failed
        best = min(trained, key=lambda one: one.best_loss)
        return best.interrupted() if is_interrupted else best

    def _train_at(
        self,
        plan: LayerPlan,
        data: list[LayerRows],
        seed: int,
        rate: float,
        checkpoint: Checkpoint | None,
        n_epochs: int | None = None,
        before: LearnedLayer | None = None,
    ) -> LearnedLayer:
        rows = data[0]
        settings = self._settings(rows.X.shape[0], rate)
        own_seed = _seed_of(plan.number, seed)
        network = self._network(plan, rows, own_seed, rate, before)
        validation = None
        if len(data) > 1:
            X, hashes, weights = data[1].X, data[1].hashes, data[1].weights
            validation = Validation(
                X, X, weights, loss=lambda: network.loss(X, hashes, weights)
            )
        title = f"layer {plan.number} of {len(self._sizes())}"
        try:
            trained = train(
                network,
                rows.X,
                rows.X,
                settings=settings,
                seed=own_seed,
                objective=Reconstruction(plan.decoder),
                sample_weight=rows.weights,
                validation=validation,
                start=None if before is None else before.state,
                n_epochs=n_epochs,
                checkpoint=checkpoint,
                l1_activation=plan.l1_activation,
                progress=bool(self.verbose),
                title=title,
            )
        except DivergenceError as error:
            raise DivergenceError(
                f"{title}: {error}{_advice_on_scale(plan.decoder)}",
                layer=plan.number,
                epoch=error.epoch,
                learning_rate=error.learning_rate,
            ) from error
        state = None
        if trained.is_whole:
            at_end = trained.state.network
            at_end = network.state() if at_end is None else at_end
            # What was best is forgotten: later calls have no validation rows.
            state = replace(trained.state, best=None, network=at_end)
        return LearnedLayer(plan, trained.stack, trained.history, rate, state)

    # ------------------------------------------------------------------ building

    def _plan(
        self, number: int, decoder: Decoder, rows: LayerRows, layers: list[LearnedLayer]
    ) -> LayerPlan:
        sizes = self._sizes()
        below = layers[-1].stack.layers[0] if layers else None
        corruption = self._of_layer("corruption", number)
        if isinstance(corruption, str) and corruption == "auto":
            corruption = choose_corruption(rows.X)
        return LayerPlan(
            number=number,
            n_units=sizes[number - 1],
            activation=check_hidden_activations(self.activation, len(sizes))[
                number - 1
            ],
            corruption=parse_corruption(corruption),
            decoder=decoder,
            l1_activation=float(self._of_layer("l1_activation", number)),
            below=below,
        )

    def _check_targets(self, plan: LayerPlan, X: Matrix) -> None:
        low, high = plan.decoder.accepts
        least, most = value_range(X if plan.target is None else plan.target(X))
        if not (low <= least and most <= high):
            remedy = "Choose"
            if plan.number == 1:
                remedy = (
                    "Scale X into this range, for example with "
                    "sklearn.preprocessing.MinMaxScaler, or choose"
                )
            raise DataError(
                f"the decoder {str(plan.decoder)!r} of layer {plan.number} puts out "
                f"numbers from {low:g} to {high:g}, but what it has to put out is from "
                f"{least:g} to {most:g}. {remedy} another decoder: 'softplus' for "
                "numbers of 0 or more, 'linear' for numbers of any sign; or, for "
                "'sigmoid' above rectifiers, rescale='global'."
            )

    def _refuse_what_needs_all_rows(self) -> None:
        for name, is_given, expected in (
            ("checkpoint", self.checkpoint is not None, "None"),
            ("learning_rate", self._has_grid(), "one number"),
        ):
            if is_given:
                raise ParameterError(
                    f"{name}={getattr(self, name)!r} was given, which needs all rows "
                    f"at once, expected {expected} for partial_fit. Change it, or call "
                    "fit."
                )
        sizes = self._sizes()
        activations = check_hidden_activations(self.activation, len(sizes))
        for number in range(2, len(sizes) + 1):
            decoder = self._of_layer("decoder", number)
            if isinstance(decoder, str) and decoder == "auto":
                continue  # which does without
            if self._is_rescaled(parse_decoder(decoder), activations[number - 2]):
                raise ParameterError(
                    f"the decoder 'sigmoid' of layer {number} was given, which needs "
                    "the layer below scaled by its largest output for any row, but "
                    "partial_fit does not see all rows. Choose 'softplus' for that "
                    "layer, or call fit."
                )

    def _decoder_of(
        self, number: int, data: list[LayerRows], layers: list[LearnedLayer]
    ) -> Decoder:
        given = self._of_layer("decoder", number)
        if isinstance(given, str) and given == "auto":
            below = layers[-1].stack.layers[0] if layers else None
            given = choose_decoder([some.X for some in data], below)
        return parse_decoder(given)

    def _is_rescaled(self, decoder: Decoder, below: Activation) -> bool:
        """Return whether outputs of the layer below are scaled to [0, 1]."""
        return (
            self.rescale != "none"
            and decoder.accepts[1] == 1.0
            and below.name in HOMOGENEOUS
        )

    def _scale_of(self, X: Matrix) -> Array:
        """Return what outputs are divided by: the largest, of all units or of each."""
        largest = np.abs(X).max(axis=0)
        if self.rescale == "global":
            largest = np.full_like(largest, largest.max())
        return np.where(largest > 0, largest, 1).astype(X.dtype)

    def _network(
        self,
        plan: LayerPlan,
        rows: LayerRows,
        seed: int,
        rate: float,
        before: LearnedLayer | None,
    ) -> DenoisingNetwork:
        stack = self._first_stack(plan, rows, seed) if before is None else before.stack
        rule = self._rule(rate)
        n_threads = count_threads(int(self.n_threads))
        inputs = rows.X if plan.inputs is None else plan.inputs(rows.X)
        corruptor = plan.corruption.fit(inputs, rows.weights)
        objective = Reconstruction(plan.decoder)
        purpose = f"layer {plan.number}"
        if self.reconstruction_sampling is not None and plan.number == 1:
            sampled = SampledAutoencoder(
                stack, rule, l1_activation=plan.l1_activation, n_threads=n_threads
            )
            share = self._share_of_zeros(rows.X, rows.weights)
            return SampledDenoisingNetwork(
                sampled,
                corruptor,
                objective,
                rows.hashes,
                share=share,
                seed=seed,
                purpose=purpose,
            )
        network: Network
        if self.tied:
            network = TiedNetwork(
                stack,
                rule,
                l1_activation=plan.l1_activation,
                n_threads=n_threads,
            )
        else:
            network = kernels.build(
                stack,
                rule,
                engine=self.engine,
                l1_activation=plan.l1_activation,
                n_threads=n_threads,
            )
        return DenoisingNetwork(
            network,
            corruptor,
            objective,
            rows.hashes,
            inputs=plan.inputs,
            target=plan.target,
            seed=seed,
            purpose=purpose,
        )

    def _share_of_zeros(self, X: Matrix, weights: Array | None) -> float:
        """Return the share of zeros that reconstruction sampling computes."""
        if not sp.issparse(X) or self.tied:
            what = "tied=True" if sp.issparse(X) else "a dense X"
            raise ParameterError(
                f"reconstruction_sampling={self.reconstruction_sampling!r} was given "
                f"with {what}, expected sparse rows and weights that are not tied. "
                "Change one of them, or leave reconstruction_sampling at None."
            )
        given = self.reconstruction_sampling
        if given is not None and not isinstance(given, str):
            return float(given)
        density, _ = mean_non_zero(X, weights)
        share = max(density, 1 / X.shape[1]) / max(1.0 - density, 1e-6)
        return float(min(1.0, share))

    def _first_stack(
        self, plan: LayerPlan, rows: LayerRows, seed: int
    ) -> RectifierStack:
        n_inputs = rows.X.shape[1]
        stack = initialise(
            (n_inputs, plan.n_units, n_inputs),
            [plan.activation],
            seed=seed,
            scheme=self.init,
            sign_flip=bool(self.sign_flip),
            output_link="identity",
            dtype=rows.X.dtype,
        )
        if not self.tied:
            return stack
        encoder, decoder = stack.layers
        return replace(stack, layers=(encoder, replace(decoder, W=encoder.W.T.copy())))

    def _settings(self, n_samples: int, rate: float) -> Settings:
        return Settings(
            batch_size=choose_batch_size(self.batch_size, n_samples),
            max_epochs=int(self.max_epochs),
            learning_rate=rate,
            patience=int(self.patience) if self.early_stopping else None,
        )

    def _rule(self, learning_rate: float) -> Rule:
        l2 = float(self.l2)
        if self.solver == "adam":
            return Adam(learning_rate, l2=l2)
        return SGD(learning_rate, float(self.momentum), l2=l2)

    def _rates(self) -> list[float]:
        if isinstance(self.learning_rate, str):
            return [0.001 if self.solver == "adam" else 0.01 * (1 - self.momentum)]
        return [float(rate) for rate in np.atleast_1d(self.learning_rate)]

    def _has_grid(self) -> bool:
        return len(self._rates()) > 1

    def _sizes(self) -> list[int]:
        return [int(size) for size in np.atleast_1d(np.asarray(self.hidden_sizes))]

    def _of_layer(self, name: str, number: int) -> Any:
        """Return a parameter of one layer that may be given once for all."""
        value = getattr(self, name)
        if isinstance(value, str | Corruption | Decoder) or np.ndim(value) == 0:
            return value
        return value[number - 1]

    def _draw_seed(self, otherwise: int | None = None) -> int:
        """Return the seed; a run that is resumed keeps the one in its first file."""
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        kept = self.kept_seed()
        if kept is not None:
            return kept
        return draw_seed(self.random_state) if otherwise is None else otherwise

    def kept_seed(self) -> int | None:
        """Return the seed of the run in the checkpoint.

        Returns
        -------
        int or None
            Seed; None if there is no checkpoint, or it was not written yet.
        """
        if self.checkpoint is None:
            return None
        return Checkpoint(self._file(1, self._rates()[0])).seed()

    def _file(self, number: int, rate: float) -> str:
        assert self.checkpoint is not None
        suffix = f".rate{rate!r}" if self._has_grid() else ""
        return f"{fspath(self.checkpoint)}.layer{number}{suffix}"

    def _check_files(self, seed: int) -> None:
        """Refuse files that would be refused after the layers below are trained."""
        for number in range(1, len(self._sizes()) + 1):
            for rate in self._rates():
                file = self._known_checkpoint(number, rate)
                own = {"seed": _seed_of(number, seed), "learning_rate": rate}
                file.check({**file.task, **own})

    def _checkpoint(self, plan: LayerPlan, rate: float) -> Checkpoint | None:
        """Return the file of a layer."""
        if self.checkpoint is None:
            return None
        file = self._known_checkpoint(plan.number, rate)
        return replace(file, task={**file.task, "corruption": str(plan.corruption)})

    def _known_checkpoint(self, number: int, rate: float) -> Checkpoint:
        """Return the file of a layer with what is known before there are inputs.

        More epochs of a layer would change the inputs of those above it. So the number
        of epochs is fixed, but for a first layer above which there is no other yet.
        """
        later = self._files_above(number)
        task: dict[str, str | int | float | bool | None] = {
            "estimator": type(self).__name__,
            "l1_activation": float(self._of_layer("l1_activation", number)),
            "tied": bool(self.tied),
            "solver": self.solver,
            "momentum": float(self.momentum),
            "l2": float(self.l2),
            "init": self.init,
            "engine": self.engine,
            "reconstruction_sampling": str(self.reconstruction_sampling),
            "max_epochs": int(self.max_epochs),
            "patience": int(self.patience) if self.early_stopping else None,
        }
        corruption = self._of_layer("corruption", number)
        if not (isinstance(corruption, str) and corruption == "auto"):
            task["corruption"] = str(parse_corruption(corruption))
        is_fixed = number > 1 or later
        return Checkpoint(
            self._file(number, rate),
            every_seconds=self.checkpoint_seconds,
            task=task,
            free=() if is_fixed else ("max_epochs", "patience"),
            later=later,
        )

    def _files_above(self, number: int) -> list[str]:
        """Return the files of the layers above one, as far as there are any."""
        last = max(len(self._sizes()), number + 1)
        names = (
            self._file(above, rate)
            for above in range(number + 1, last + 1)
            for rate in self._rates()
        )
        return [name for name in names if Path(name).exists()]

    # ------------------------------------------------------------------ reading

    def _check_parameters(self) -> None:
        check_parameters(self, DENOISING)
        is_plain = self.solver == "sgd" and not self.momentum and not self.l2
        if self.reconstruction_sampling is not None and not is_plain:
            raise ParameterError(
                f"reconstruction_sampling={self.reconstruction_sampling!r} was given "
                f"with solver={self.solver!r}, momentum={self.momentum!r} and l2="
                f"{self.l2!r}, which would move the weights of all features in each "
                "step. Give solver='sgd', momentum=0 and l2=0, and a learning_rate for "
                "them, for example 0.05, or reconstruction_sampling=None."
            )
        n_layers = len(self._sizes())
        if n_layers == 0:
            raise ParameterError(
                "hidden_sizes is empty, expected at least one layer. Give, for "
                "example, (100,)."
            )
        for name in ("corruption", "decoder", "l1_activation"):
            value = getattr(self, name)
            if isinstance(value, str | Corruption | Decoder) or np.ndim(value) == 0:
                continue
            if len(value) != n_layers:
                raise ParameterError(
                    f"{name} has {len(value)} entries but hidden_sizes has {n_layers}. "
                    "Give one per layer, or a single one for all."
                )
        check_hidden_activations(self.activation, n_layers)

    def _read(self, X: Any, sample_weight: Any, *, reset: bool) -> tuple[Matrix, Any]:
        dtype: Any = (np.float32, np.float64) if reset else self.stack_.dtype
        X = read_features(self, X, dtype=dtype, reset=reset)
        weights = read_weights(sample_weight, X.shape[0], "sample_weight")
        if weights is not None and weights.min() == 0:
            kept = np.flatnonzero(weights)
            X, weights = X[kept], weights[kept]
        return X, weights

    # ------------------------------------------------------------------ keeping

    def _previous_layers(self) -> tuple[LearnedLayer, ...]:
        """Return the layers that partial_fit goes on with."""
        changed = changes_between(self._fixed, self._structure())
        if changed:
            raise ParameterError(
                "the auto-encoder that training goes on with is another one: "
                f"{'; '.join(changed)}. Set it back, or call fit to train anew."
            )
        layers = self._layers
        if len(layers) < len(self._sizes()) or any(one.state is None for one in layers):
            raise ParameterError(
                "the state of the optimiser is not there any more: training was "
                "interrupted, a layer was rescaled, or this is a pickle or a copy, "
                "which holds it only after partial_fit. Call fit to train anew."
            )
        return layers

    def _structure(self) -> dict[str, str]:
        """Return the parameters that cannot change between two calls."""
        sizes = self._sizes()
        activations = check_hidden_activations(self.activation, len(sizes))
        fixed = {
            "hidden_sizes": str(tuple(sizes)),
            "activation": ", ".join(map(str, activations)),
            "momentum": "above 0" if self.momentum else "0",
            "reconstruction_sampling": "on" if self.reconstruction_sampling else "off",
        }
        for name in ("sign_flip", "tied"):
            fixed[name] = str(bool(getattr(self, name)))
        for name in ("solver", "engine"):
            fixed[name] = repr(getattr(self, name))
        for name in ("corruption", "decoder"):
            each = (self._of_layer(name, n + 1) for n in range(len(sizes)))
            fixed[name] = ", ".join(map(str, each))
        return fixed

    def _keep(
        self, layers: list[LearnedLayer], seed: int, *, incremental: bool
    ) -> None:
        self.__dict__.update(
            {
                "stack_": RectifierStack(
                    tuple(one.stack.layers[0] for one in layers), "identity"
                ),
                "histories_": tuple(one.history for one in layers),
                "learning_rates_": tuple(one.rate for one in layers),
                "corruptions_": tuple(str(one.plan.corruption) for one in layers),
                "decoders_": tuple(str(one.plan.decoder) for one in layers),
                "_layers": tuple(layers),
                "_fixed": self._structure(),
                "_seed": seed,
                "_is_incremental": incremental,
                "_forward": ForwardPass(),
            }
        )

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "_layers" in state and not state["_is_incremental"]:
            state["_layers"] = tuple(replace(one, state=None) for one in self._layers)
        return state

    # ------------------------------------------------------------------ using

    def transform(self, X: Any) -> Array:
        """Return the encodings of rows by the last layer; no noise is added.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_units)
            Encodings, signs applied.

        Raises
        ------
        DataError
            If inputs are so large that the encodings overflow.
        """
        check_is_fitted(self)
        X = read_rows(self, X, self.stack_.dtype)
        codes: Array = self._forward(self.stack_, X, **self._how())
        return codes

    def inverse_transform(self, X: Any) -> Array:
        """Return what the decoders make of encodings, from the last layer to the first.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_units)
            Encodings, as `transform` returns them.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Reconstructed features.

        Raises
        ------
        DataError
            If there is not one column for each unit of the last layer, `X` holds text,
            times or masked entries, or encodings are so large that the reconstruction
            overflows.
        ValueError
            If scikit-learn's checks do not accept `X`.
        """
        check_is_fitted(self)
        # One that knows nothing of features: the columns are units.
        new = DenoisingAutoencoder()
        X = read_features(new, X, dtype=self.stack_.dtype, reset=True)
        n_units = self.stack_.n_outputs
        if X.shape[1] != n_units:
            raise DataError(
                f"X has shape {X.shape}, expected (n_samples, {n_units}), one "
                "column for each unit of the last layer. Give what transform returned."
            )
        rows = self._decode_down_to(1, X.toarray() if sp.issparse(X) else X)
        _check_reconstruction(rows, X, "encodings", "Give what transform returned.")
        return rows

    def reconstruct(self, X: Any) -> Array:
        """Return rows as the auto-encoder reconstructs them; no noise is added.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Reconstructed features, always dense.

        Raises
        ------
        DataError
            If inputs are so large that encodings or reconstruction overflow.
        """
        check_is_fitted(self)
        X = read_rows(self, X, self.stack_.dtype)
        codes = self._forward(self.stack_, X, **self._how())
        rows = self._decode_down_to(1, codes)
        _check_reconstruction(rows, X, "inputs", _SCALE)
        return rows

    def score_samples(self, X: Any) -> Array:
        """Return minus the reconstruction error of each row; no noise is added.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features, from 0 to 1 if the first decoder is "sigmoid".

        Returns
        -------
        ndarray of float64 of shape (n_samples,)
            Minus what the reconstruction by `reconstruct` costs, summed over features.
            The lower it is, the less a row is like those of `fit`. Where a cost
            overflows float32, it is computed in float64.

        Raises
        ------
        DataError
            If inputs are so large that the encodings, or costs in float64, overflow, or
            `X` does not suit the decoder.
        """
        check_is_fitted(self)
        X = read_rows(self, X, self.stack_.dtype)
        first = self._layers[0].plan
        if first.decoder.accepts[1] == 1.0:  # cross-entropy rewards what is outside
            self._check_targets(first, X)
        objective = Reconstruction(first.decoder)
        scores = np.empty(X.shape[0])
        size = max(1, _PIECE // max(X.shape[1], *self.stack_.sizes))
        for start in range(0, X.shape[0], size):
            rows = X[start : start + size]
            codes = self._forward(self.stack_, rows, **self._how())
            costs = self._costs(objective, codes, rows)
            lost = np.flatnonzero(~np.isfinite(costs))
            if lost.size:
                wide = codes[lost].astype(np.float64)
                costs[lost] = self._costs(objective, wide, rows[lost])
            scores[start : start + size] = -costs
        _check_reconstruction(scores, X, "inputs", _SCALE)
        return scores

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return minus the mean reconstruction error.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.
        y : object, optional
            Not used.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        float
            Weighted mean of `score_samples`.

        Raises
        ------
        DataError
            If weights do not fit.
        """
        scores = self.score_samples(X)
        weights = read_weights(sample_weight, len(scores), "sample_weight")
        return float(np.average(scores, weights=weights))

    def _costs(self, objective: Reconstruction, codes: Array, rows: Matrix) -> Array:
        """Return what rows cost, computed in the dtype of their encodings."""
        lowest = self._decode_down_to(2, codes)
        return objective.losses(self._decode(lowest, 1), rows)

    def _decode_down_to(self, lowest: int, codes: Array) -> Array:
        """Return what the decoders from the last layer to a lower one put out."""
        for number in range(len(self._layers), lowest - 1, -1):
            plan = self._layers[number - 1].plan
            codes = plan.reconstruct(self._decode(codes, number))
        return codes

    def _decode(self, H: Array, number: int) -> Array:
        """Return outputs of a layer's decoder before its link."""
        layer = self._layers[number - 1].stack.layers[1]
        with np.errstate(over="ignore", invalid="ignore"):  # those who call look at it
            return np.asarray(H @ layer.W + layer.b)

    def _how(self) -> dict[str, Any]:
        check_parameter(self, "engine", DENOISING)
        check_parameter(self, "n_threads", DENOISING)
        return {"engine": self.engine, "n_threads": count_threads(int(self.n_threads))}

    def _forward_pass(self) -> Forward:
        one, how = ForwardPass(), self._how()
        return lambda stack, X: one(stack, X, **how)

    @property
    def _n_features_out(self) -> int:
        return self.stack_.sizes[-1]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "stack_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _seed_of(number: int, seed: int) -> int:
    """Return the seed of a layer; the file of the first one tells that of all."""
    return seed if number == 1 else int(stream_key(seed, f"layer {number}", 0))


def _advice_on_scale(decoder: Decoder) -> str:
    scale = getattr(decoder, "scale", None)
    if scale is None:
        return ""
    return (
        f" The decoder {str(decoder)!r} divides errors by its scale: give it a larger "
        f"one, for example '{decoder.name}({max(1.0, 100 * scale):g})'."
    )


_PIECE = 2**21  # numbers of the widest layer that are in memory at a time
_SCALE = "Scale the inputs as those that the auto-encoder was trained on."


def _check_reconstruction(results: Array, X: Matrix, kind: str, remedy: str) -> None:
    """Refuse what overflows, naming the first such row."""
    finite = np.isfinite(results)
    if finite.all():
        return
    row = int(np.argwhere(~finite)[0, 0])
    raise DataError(
        f"row {row} of X, counted from 0, has {kind} of up to "
        f"{abs(X[[row]]).max():.3g} in size, for which the reconstruction or its cost "
        f"overflows {results.dtype}, expected a finite one. {remedy}"
    )
