"""Next steps for a run that did not pass: explanation, failed case, and commands to reproduce it."""

import shlex
from pathlib import PurePath

import msgspec

from hpc_board.domain.run import Run, RunState
from hpc_board.model.gpu import Device
from hpc_board.model.result import Case, Result, Verdict
from hpc_board.model.task import HIDDEN, Mode
from hpc_board.model.text import one_line
from hpc_board.report.explanations import Meaning, failed_case, state_meaning, verdict_meaning
from hpc_board.report.formatting import telling_line
from hpc_board.report.run_words import canceller, outcome
from hpc_board.report.runs import raised_at


class NextSteps(msgspec.Struct, frozen=True):
    """The outcome in a word, its explanation, the failed case ("" without one), and commands to reproduce it."""

    outcome: str
    meaning: Meaning
    case: str
    message: str
    commands: tuple[str, ...]


def next_steps(run: Run, result: Result | None, device: Device) -> NextSteps | None:
    """Return the next steps for `run` on this device; None if it passed, was cancelled or has not ended."""
    if not run.state.ended or run.verdict is Verdict.PASS or canceller(run):
        return None
    failed = failed_case(result.cases) if result else None
    message = failed.message if failed and failed.message else run.message or run.status.reason
    return NextSteps(
        outcome=outcome(run),
        meaning=_meaning(run, failed, device),
        case=f"{failed.phase} case {failed.index + 1}: {one_line(failed.spec)}" if failed else "",
        message=(raised_at(run, result) if result else "") + telling_line(message, 300),
        commands=_commands(run, failed, device),
    )


def _meaning(run: Run, failed: Case | None, device: Device) -> Meaning:
    if run.state is not RunState.FINISHED:
        return state_meaning(run.state)
    verdict = run.verdict or Verdict.INFRA_ERROR
    return verdict_meaning(
        verdict,
        run.message,
        task=run.task,
        on_cpu=device is Device.CPU,
        failed=failed,
        file_name=run.file_name,
    )


def _commands(run: Run, failed: Case | None, device: Device) -> tuple[str, ...]:
    """Return the commands that judge the same file on the user's machine, which has no hidden cases."""
    mode = run.mode if failed is not None and failed.phase != "test" else Mode.TEST
    # Another name than the file's own, which is likely to be there.
    file = f"run{run.id}{PurePath(one_line(run.file_name)).suffix}"
    judge = ["hpc-board", "task", "test", run.task, "--submission", file, "--mode", str(mode)]
    if device is not Device.CPU:
        judge += ["--device", str(device)]
    fetch = f"hpc-board code {run.id} -o {shlex.quote(file)}"
    return (fetch,) if failed is not None and failed.spec.startswith(HIDDEN) else (fetch, shlex.join(judge))
