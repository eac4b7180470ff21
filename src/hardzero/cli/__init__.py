"""The command line: parse arguments, call the library, print.

Each command is a module with two functions, ``configure(parser)`` and
``run(arguments)``. Modules of commands import nothing heavy before they run, so that
``hardzero --help`` answers at once.

Exit codes: 0 done, 1 an error that the message explains, 2 wrong arguments (those that
only the library can judge too), 130 Ctrl-C.
"""

import argparse
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType

import hardzero
from hardzero.cli import (
    compare,
    diagnose,
    equal,
    fit,
    info,
    maximum,
    minimise,
    predict,
    regions,
    verify,
)
from hardzero.cli.output import discard_output, prepare_streams
from hardzero.errors import HardzeroError, ParameterError

__all__ = ["main"]

_COMMANDS = {
    "fit": fit,
    "predict": predict,
    "compare": compare,
    "info": info,
    "diagnose": diagnose,
    "regions": regions,
    "equal": equal,
    "minimise": minimise,
    "maximum": maximum,
    "verify": verify,
}
# What a user can cause; anything else is a bug and keeps its traceback.
_EXPLAINED = (HardzeroError, OSError, ValueError, MemoryError, OverflowError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str or None, default=None
        Arguments without the name of the program; None takes those of the process.

    Returns
    -------
    int
        Exit code.
    """
    prepare_streams()
    arguments, unknown = _parser().parse_known_args(argv)
    if unknown:
        arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning  # type: ignore[assignment]
        try:
            code = int(arguments.run(arguments))
            sys.stdout.flush()
            return code
        except KeyboardInterrupt:
            _say("interrupted")
            return 130
        except BrokenPipeError:  # the reader of our output has gone, as in "| head"
            discard_output()
            return 1
        except _EXPLAINED as error:
            if arguments.debug:
                raise
            _say(f"error: {' '.join(str(error).split()) or type(error).__name__}")
            return 2 if isinstance(error, ParameterError) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hardzero",
        description="Deep rectifier networks whose hidden units output exact zeros.",
        epilog="Exit codes: 0 done, 1 error, 2 wrong arguments, 130 Ctrl-C.",
    )
    parser.add_argument(
        "--version", action="version", version=f"hardzero {hardzero.__version__}"
    )
    _add_debug(parser, default=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, module in _COMMANDS.items():
        _add_command(commands, name, module)
    return parser


def _add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    module: ModuleType,
) -> None:
    summary = (module.__doc__ or "").splitlines()[0]
    parser = commands.add_parser(name, help=summary, description=summary)
    _add_debug(parser, default=argparse.SUPPRESS)
    module.configure(parser)
    parser.set_defaults(run=module.run, parser=parser)


def _add_debug(parser: argparse.ArgumentParser, default: object) -> None:
    """Accept --debug before and after the name of the command."""
    parser.add_argument(
        "--debug",
        action="store_true",
        default=default,
        help="show where an error came from",
    )


def _show_warning(message: Warning | str, *_: object) -> None:
    _say(f"warning: {' '.join(str(message).split())}")


def _say(text: str) -> None:
    sys.stderr.write(f"hardzero: {text}\n")
