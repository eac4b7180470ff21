"""Train a network on a table and save it.

The table is scaled first, because networks train badly on columns of very different
sizes; the scaling then becomes part of the first layer, so that the saved model takes
the table as it is.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from hardzero.threads import count_threads

if TYPE_CHECKING:
    from hardzero.cli.task import Task

# Options with the names and the defaults of the estimators' parameters.
_PARAMETERS = (
    "hidden_sizes",
    "activation",
    "sign_flip",
    "l1_activation",
    "l2",
    "solver",
    "learning_rate",
    "momentum",
    "batch_size",
    "max_epochs",
    "early_stopping",
    "patience",
)


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
        "auto (default): regression if the labels are numbers with many different "
        "values, else classification",
    )
    add_seed(parser)
    add_threads(parser)
    _add_parameters(
        parser.add_argument_group(
            "network and training",
            "The parameters of hardzero.RectifierClassifier and its relatives, with "
            "their defaults.",
        )
    )


def _add_parameters(group: "argparse._ArgumentGroup") -> None:
    def add(name: str, **options: Any) -> None:
        group.add_argument(name, default=argparse.SUPPRESS, **options)

    add("--hidden-sizes", type=sizes, metavar="N,N", help="units of each hidden layer")
    add("--activation", metavar="NAME", help="rectifier, tanh, softplus, ...")
    add("--sign-flip", action="store_true", help="half of the units put out -f(x)")
    add("--l1-activation", type=float, metavar="C", help="more of it: more zeros")
    add("--l2", type=float, metavar="C", help="penalty on the weights")
    add("--solver", choices=("adam", "sgd"), help="update rule")
    add("--learning-rate", type=float, metavar="C", help="step size")
    add("--momentum", type=float, metavar="C", help="of sgd, from 0 to below 1")
    add("--batch-size", type=positive, metavar="N", help="rows in a mini-batch")
    add("--max-epochs", type=positive, metavar="N", help="passes over the table")
    add("--early-stopping", action="store_true", help="hold rows out, stop in time")
    add("--patience", type=positive, metavar="N", help="epochs that may be no better")


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
    from hardzero.cli.task import ESTIMATORS, choose_task, describe_quality
    from hardzero.datasets import read_table
    from hardzero.serving import StackModel, save

    refuse_to_overwrite(arguments.output, arguments.table)
    table = read_table(arguments.table, target=arguments.target)
    assert table.y is not None  # labels were wanted
    task = choose_task(arguments.table, table.y, arguments.task)
    scaling = Scaling.measure(table.X, arguments.scale, table.feature_names)
    given = vars(arguments)
    estimator = getattr(hardzero, ESTIMATORS[task.name])(
        **{name: given[name] for name in _PARAMETERS if name in given},
        n_threads=count_threads(arguments.threads),
        random_state=arguments.seed,
        verbose=sys.stderr.isatty(),
    )
    X = scaling.apply(table.X)
    estimator.fit(X, task.y)
    stack = scaling.fold_into(ignore_empty_columns(estimator.stack_, X))
    model = replace(
        StackModel.of(estimator), stack=stack, feature_names=table.feature_names
    )
    save(model, arguments.output)
    report(
        _describe_task(task)
        + _describe(estimator, table.X, scaling.kind)
        + describe_quality(task, estimator.predict(X))
        + f"Saved to {arguments.output}\n"
    )
    return 130 if estimator.history_.stopped == "interrupted" else 0


def _describe_task(task: "Task") -> str:
    if not task.reason:
        return f"Task         {task.name}\n"
    return (
        f"Task         {task.name}: {task.reason}; to name classes by them, give "
        "--task classification\n"
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
    if history.validation_error:
        error = history.validation_error[best]
        return [f"Validation   error {error:.2%} in epoch {best + 1}"]
    if history.validation_loss:
        loss = history.validation_loss[best]
        return [f"Validation   loss {loss:.4g} in epoch {best + 1}"]
    return []


def _join(values: Any) -> str:
    return " / ".join(values) or "no hidden layer"
