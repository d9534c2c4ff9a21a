"""The phases of an evaluation: tests, and the failures of the task's own reference.

Every mode makes the same calls; only their number and their seeds differ. A worker can tell the timed ones, and gains
nothing by it: every output is checked.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from hpc_board.harness.measure.bench import Bench
from hpc_board.harness.measure.worker_handle import Worker
from hpc_board.harness.processes.calls import CallFailed, public_seed, secret_seed
from hpc_board.model.result import Case, Verdict, secretly_failed

_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+(\w+)|import[ \t]+([^#;\n]+))", re.MULTILINE)
_INTERPRETED = sys.stdlib_module_names - {"ctypes", "importlib", "subprocess"} | {"numpy", "task", "torch"}
_COMPILES = re.compile(r"__import__|compile|cpp_extension|jit|inductor|\bexec\b|system|popen|spawn")


def compiles_in_calls(source: str) -> bool:
    """Return whether a call of a Python submission may compile code: if it uses more than PyTorch, NumPy and Python.

    One that hides its compiler gets shorter limits in mode test, and nothing else.
    """
    imported = {
        re.split(r"[.\s]", name.strip())[0]
        for package, names in _IMPORT.findall(source)
        for name in (package or names).split(",")
    }
    return not imported <= _INTERPRETED or _COMPILES.search(source) is not None


class Say(Protocol):
    """Callback for progress: a phase, the number of a case from 1, the number of cases, a message, and more facts."""

    def __call__(self, phase: str, case: int | None, of: int | None, message: str, **more: object) -> None:
        """Begin a step."""


def tested(bench: Bench, worker: Worker, say: Say, *, secret: bool, ranked: bool) -> Iterator[Case]:
    """Yield the verdict of each case, called with the task's own seed and, if `secret`, again with a secret one.

    The message of a case that passes only with the first seed says so, and the consequence for a `ranked` run. A case
    that ends the worker is the last one.
    """
    phase = bench.phase
    for index in phase.indices:
        case = phase.cases[index]
        say(phase.name, index + 1, len(phase.cases), phase.text(index))
        message, verdict, lost, details, of_tolerance = "", Verdict.PASS, False, None, None
        try:
            called = bench.call(worker, index, [public_seed(case)])
            message, of_tolerance = called.message, called.of_tolerance
            if secret:
                _call_secretly(bench, worker, index, ranked=ranked)
        except CallFailed as error:
            verdict, message, lost, details = error.verdict, error.message, error.worker_lost, error.mismatch
            of_tolerance = None
        yield Case(phase.name, index, phase.text(index), verdict, message, mismatch=details, of_tolerance=of_tolerance)
        if lost or verdict is Verdict.TASK_ERROR:
            break


def _call_secretly(bench: Bench, worker: Worker, index: int, *, ranked: bool) -> None:
    try:
        bench.call(worker, index, [secret_seed()])
    except CallFailed as error:
        if error.verdict.blames_kernel:
            error.message = secretly_failed(error.message, ranked=ranked)
        raise


@contextmanager
def of_the_task() -> Iterator[None]:
    """Blame every failure within this block on the reference, and so on the task; not one of node or device."""
    try:
        yield
    except CallFailed as error:
        if error.verdict in (Verdict.INFRA_ERROR, Verdict.DEVICE_ERROR):
            raise
        message = f"the reference itself does not pass: {error.verdict}: {error.message}"
        raise CallFailed(Verdict.TASK_ERROR, message, worker_lost=True) from error
