"""Measure one thing in a process of its own and bring the numbers back.

A script calls `measure`, which starts the same script again with ``--alone SPEC`` in a
clean environment; there `answer` does the work and prints the result as a line of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import machine
from host import die_with_parent, private_output, reason

FLAG = "--alone"


def measure(script: str, spec: dict[str, Any], n_threads: int) -> dict[str, Any]:
    """Run `script` in a new process on `spec`.

    Parameters
    ----------
    script : str
        File that calls `answer` when its first argument is `FLAG`.
    spec : dict
        What to measure.
    n_threads : int
        Threads that all libraries are told to use.

    Returns
    -------
    dict
        What the function under `answer` returned, or ``absent`` with the reason.

    Raises
    ------
    KeyboardInterrupt
        If the process was interrupted, so that nothing half done is kept.
    """
    done = subprocess.run(
        [sys.executable, script, FLAG, json.dumps(spec)],
        env=machine.environment(n_threads),
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        return {"absent": f"its process ended with code {done.returncode}"}
    result: dict[str, Any] = json.loads(done.stdout)
    if result.get("interrupted"):
        raise KeyboardInterrupt
    return result


def answer(work: Callable[[dict[str, Any]], dict[str, Any]]) -> bool:
    """Do the work if this process was started by `measure`, and tell whether it was."""
    if sys.argv[1:2] != [FLAG]:
        return False
    die_with_parent()
    with private_output() as pipe:
        try:
            result = work(json.loads(sys.argv[2])) | {"absent": None}
        except KeyboardInterrupt:
            result = {"interrupted": True}
        except Exception as error:  # noqa: BLE001 - the script goes on with the others
            result = {"absent": reason(error)}
        json.dump(result, pipe)
    return True
