"""Train a network on a table and save it.

The table is scaled first, because networks train badly on columns of very different
sizes; the scaling then becomes part of the first layer, so that the saved model takes
the table as it is.
"""

import argparse
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import hardzero
from hardzero.cli.options import (
    add_seed,
    add_threads,
    output_path,
    positive,
    refuse_to_overwrite,
    sizes,
)
from hardzero.cli.output import report
from hardzero.errors import DataError, ParameterError
from hardzero.threads import count_threads

if TYPE_CHECKING:
    from hardzero.cli.task import Task

# Options with the names and the defaults of the estimators' parameters.
_PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    "hidden_sizes": {"type": sizes, "metavar": "N,N", "help": "units of hidden layers"},
    "activation": {"metavar": "NAME", "help": "rectifier, tanh, softplus, ..."},
    "sign_flip": {"action": "store_true", "help": "half of the units put out -f(x)"},
    "loss": {"metavar": "NAME", "help": "of regression: squared, huber(1), ..."},
    "class_weight": {
        "choices": ("balanced",),
        "help": "all classes count the same, however many rows they have",
    },
    "dropout": {"type": float, "metavar": "P", "help": "of units, from 0 to below 1"},
    "input_dropout": {"type": float, "metavar": "P", "help": "of features"},
    "batch_norm": {"action": "store_true", "help": "normalise over mini-batches"},
    "l1_activation": {"type": float, "metavar": "C", "help": "more of it: more zeros"},
    "l1": {"type": float, "metavar": "C", "help": "penalty that makes weights zero"},
    "l2": {"type": float, "metavar": "C", "help": "penalty on the weights"},
    "solver": {"choices": ("adam", "sgd"), "help": "update rule"},
    "learning_rate": {"type": float, "metavar": "C", "help": "step size"},
    "learning_rate_schedule": {
        "metavar": "NAME",
        "help": "of the step size: constant, step(10, 0.5), cosine, warmup(5)+cosine",
    },
    "momentum": {"type": float, "metavar": "C", "help": "of sgd, from 0 to below 1"},
    "batch_size": {"type": positive, "metavar": "N", "help": "rows in a mini-batch"},
    "max_epochs": {"type": positive, "metavar": "N", "help": "passes over the table"},
    "early_stopping": {"action": "store_true", "help": "hold rows out, stop in time"},
    "patience": {"type": positive, "metavar": "N", "help": "epochs without progress"},
    "checkpoint": {
        "type": output_path,
        "metavar": "PATH",
        "help": "file that training writes after each epoch, and goes on from if it is "
        "there; delete it to start anew",
    },
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hardzero fit``.

    Parameters
    ----------
    parser : ArgumentParser
        Of this command.
    """
    parser.add_argument(
        "table",
        type=Path,
        metavar="TABLE",
        help=".csv, .tsv (first line: names), .parquet, .npz (arrays X and y), or "
        ".svmlight",
    )
    parser.add_argument(
        "--target",
        metavar="COLUMN",
        help="column with the labels; an npz file's array of labels (default: y)",
    )
    parser.add_argument(
        "--weights",
        metavar="COLUMN",
        help="column with the weights of the rows, which is no feature then",
    )
    parser.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="COLUMN",
        help="column that is no feature; may be given several times",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=output_path,
        required=True,
        metavar="MODEL",
        help="file for the model (safetensors)",
    )
    parser.add_argument(
        "--scale",
        choices=("auto", "standard", "maxabs", "none"),
        default="auto",
        help="standard: mean 0 (not of svmlight tables, whose zeros stay zeros) and "
        "deviation 1; maxabs: largest size 1, zeros stay zeros; auto (default): maxabs "
        "for svmlight and if more than half of the table is zero, else standard",
    )
    parser.add_argument(
        "--task",
        choices=("auto", "classification", "regression", "rating"),
        default="auto",
        help="rating: classes are numbers, and their expected value is predicted; "
        "auto (default): regression if the labels are numbers with more than 100 "
        "different values or, if some are fractions, with more than 20 or more than "
        "half as many as rows; else classification",
    )
    add_seed(parser)
    add_threads(parser)
    group = parser.add_argument_group(
        "network and training",
        "Some of the parameters of hardzero.RectifierClassifier and its relatives, "
        "with their defaults.",
    )
    for name, options in _PARAMETERS.items():
        group.add_argument(_flag(name), dest=name, default=argparse.SUPPRESS, **options)


def _flag(name: str) -> str:
    """Return the option for a parameter."""
    short = "schedule" if name == "learning_rate_schedule" else name
    return f"--{short.replace('_', '-')}"


def run(arguments: argparse.Namespace) -> int:
    """Fit, save, and say how it went.

    Parameters
    ----------
    arguments : Namespace
        As parsed.

    Returns
    -------
    int
        Exit code: 0, or 130 if Ctrl-C ended training early; the model is saved in
        both cases.
    """
    from hardzero.cli.scaling import Scaling, ignore_empty_columns
    from hardzero.cli.task import choose_task, describe_quality
    from hardzero.datasets import read_table
    from hardzero.serving import StackModel, save

    checkpoint = getattr(arguments, "checkpoint", None)
    checkpoints = () if checkpoint is None else (checkpoint,)
    refuse_to_overwrite(arguments.output, arguments.table, *checkpoints)
    table = read_table(
        arguments.table,
        target=arguments.target,
        weights=arguments.weights,
        drop=arguments.drop,
    )
    assert table.y is not None  # labels were wanted
    task = choose_task(arguments.table, table.y, arguments.task, table.lines)
    scaling = Scaling.measure(table.X, arguments.scale, table.feature_names)
    estimator = _make_estimator(arguments, task)
    X = scaling.apply(table.X)
    _train(estimator, X, task.y, table.weights)
    stack = scaling.fold_into(ignore_empty_columns(estimator.stack_, X))
    model = replace(
        StackModel.of(estimator), stack=stack, feature_names=table.feature_names
    )
    save(model, arguments.output)
    is_interrupted = estimator.history_.stopped == "interrupted"
    report(
        f"Task         {task.name}{task.reason and ': '}{task.reason}\n"
        + _describe(estimator, table.X, scaling.kind)
        + describe_quality(
            task,
            estimator.predict(X),
            table.weights,
            has_held_out=estimator.early_stopping,
        )
        + (_describe_interrupt(estimator) if is_interrupted else "")
        + f"Saved to {arguments.output}\n"
    )
    return 130 if is_interrupted else 0


def _make_estimator(arguments: argparse.Namespace, task: "Task") -> Any:
    from hardzero.cli.task import ESTIMATORS

    kind = getattr(hardzero, ESTIMATORS[task.name])
    given = {n: v for n, v in vars(arguments).items() if n in _PARAMETERS}
    odd = sorted(given.keys() - kind().get_params().keys())
    if odd:
        raise ParameterError(
            f"{_flag(odd[0])} was given, but the task is {task.name}, which has no "
            "such option. Leave it out, or choose another --task."
        )
    return kind(
        **given,
        n_threads=count_threads(arguments.threads),
        random_state=arguments.seed,
        verbose=sys.stderr.isatty(),
    )


def _train(estimator: Any, X: Any, y: Any, weights: Any) -> None:
    """Fit, with messages that speak of options in place of arguments."""
    with warnings.catch_warnings():
        # The report says it, and what to do on the command line.
        warnings.filterwarnings("ignore", "training was interrupted")
        try:
            estimator.fit(X, y, weights)
        except DataError as error:
            text = str(error).replace(*_ABOUT_HELD_OUT_ROWS)
            text = text.replace("early_stopping=True", "--early-stopping")
            raise DataError(text) from error


_ABOUT_HELD_OUT_ROWS: Final = (
    "Give more rows, X_val and y_val, or early_stopping=False.",
    "Give more rows, or leave --early-stopping out.",
)


def _describe(estimator: Any, X: Any, scaling: str) -> str:
    stack, history = estimator.stack_, estimator.history_
    best = history.best_epoch - 1
    classes = getattr(estimator, "classes_", None)
    lines = [
        f"Table        {X.shape[0]:,} rows, {stack.n_inputs:,} features"
        f"{'' if classes is None else f', {len(classes)} classes'}; scaling {scaling}",
        *_describe_indices(X),
        f"Network      {' -> '.join(map(str, stack.sizes))}, "
        f"{stack.n_parameters:,} parameters",
        f"Training     {history.n_epochs} epochs in {sum(history.seconds):.1f} s "
        f"({history.stopped}), loss {history.loss[best]:.4g}",
        *_describe_validation(history, best),
        f"Exact zeros  {_join(f'{share:.1%}' for share in history.sparsity[best])}",
        f"Dead units   {_join(map(str, history.dead_units[best]))}",
    ]
    return "\n".join(lines) + "\n"


def _describe_indices(X: Any) -> list[str]:
    """Say from where a sparse table counts, because column 0 may be empty by that."""
    if not hasattr(X, "indices") or not X.nnz:
        return []
    if (X.indices == 0).any():
        return ["Indices      from 0"]
    return [
        f"Indices      from {X.indices.min()}; an index is the number of its column, "
        "so that column 0 is empty"
    ]


def _describe_validation(history: Any, best: int) -> list[str]:
    where = f"on the rows held out, in epoch {best + 1}"
    if history.validation_error:
        return [f"Validation   error {history.validation_error[best]:.2%} {where}"]
    if history.validation_loss:
        return [f"Validation   loss {history.validation_loss[best]:.4g} {where}"]
    return []


def _describe_interrupt(estimator: Any) -> str:
    checkpoint = estimator.checkpoint
    on = "trains from the start" if checkpoint is None else f"goes on from {checkpoint}"
    return (
        f"Interrupted  the weights of epoch {estimator.best_epoch_} are saved; the "
        f"same command {on}\n"
    )


def _join(values: Any) -> str:
    return " / ".join(values) or "no hidden layer"
