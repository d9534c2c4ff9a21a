"""`submit`: submission of files."""

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

import click

from hpc_board.board import Board
from hpc_board.board.held import live_runners
from hpc_board.cli.exits import DONE, NO_VERDICT, exit_code_of
from hpc_board.cli.follow import follow, report_unsent, watch_hint
from hpc_board.cli.global_options import PATH
from hpc_board.cli.options import (
    LENGTH,
    SUBMISSION_NUMBER,
    Open,
    command,
    entrant_option,
    gpus_option,
    mode_option,
    ncu_sets,
    sbatch_options,
    submission_numbers,
    tags_option,
    task_names,
    timeout_option,
)
from hpc_board.cli.output import (
    now,
    print_blocks,
    print_json,
    print_previews,
    refresh,
    remark,
    wait_as_json,
    whole_run,
)
from hpc_board.cli.runs import summary
from hpc_board.domain.budget import BUDGET_VARIABLE, Budget, budget_of, left_text
from hpc_board.domain.draft import Preview, Source, SubmissionRequest
from hpc_board.domain.job_options import JobOptions, check, of_values
from hpc_board.domain.origin import ENTRANT_VARIABLE, Origin, author_text, common_entrant, tags_of
from hpc_board.domain.run import Run
from hpc_board.domain.runner import Runner
from hpc_board.domain.submission import SOURCE_BYTES_MAX
from hpc_board.errors import BoardError, InputError, WaitExpired
from hpc_board.files import decoded, shown_path
from hpc_board.model.text import one_line
from hpc_board.report.run_table import runs_table
from hpc_board.report.views import view_of
from hpc_board.report.views.runs import BudgetView, SubmissionView
from hpc_board.runs.drafts import read_source
from hpc_board.tui.local_files import remember_submission

_STDIN = Path("-")
_PIPED_NAME = "submission.py"


@command(
    "hpc-board submit kernel.py",
    "hpc-board submit kernel.py --task vectoradd_py --gpu H100,A100 --wait",
    "hpc-board submit kernel.py --mode ranked --gpu all --wait --timeout 600",
    "hpc-board submit kernel.py --gpu H100 --dry-run",
    "hpc-board submit kernel.py --gpu H100 --hold 30m --wait",
    "hpc-board submit tile16.py tile32.py tile64.py --gpu H100 --wait",
    "hpc-board submit - --name kernel.cu < kernel.cu",
    "hpc-board submit kernel.py --as agent-b --budget 50,3600s/day",
    "hpc-board submit kernel.py --as agent-b --tag model=small --tag step=3 --parent 12",
    sections={
        "Task and mode": ("task", "gpus", "mode"),
        "Options of one mode": ("case", "effort", "stop_if_slower", "kernel", "set", "tool"),
        "Submission": ("note", "name", "entrant", "budget", "tags", "parent", "key", "if_new"),
        "Job": (
            "account",
            "qos",
            "reservation",
            "constraint",
            "time",
            "exclude",
            "nodelist",
            "retries",
            "array",
            "max_running",
            "extras",
            "hold",
            "fresh",
        ),
    },
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=PATH)
@click.option(
    "-t",
    "--task",
    "--leaderboard",
    "task",
    metavar="TASK",
    help="Task; default: from the file's header.",
    shell_complete=task_names,
)
@gpus_option("GPU or `all`; comma-separated or repeated. Default: from the file's header.")
@mode_option()
@click.option("--kernel", metavar="REGEX", help="In mode profile: the kernels that ncu profiles; default: all.")
@click.option("--case", metavar="N", help="In modes test, benchmark and profile: the only case, from 1; default: all.")
@click.option(
    "--effort",
    metavar="WIDTH",
    help="In mode benchmark: quick, normal or a percentage, the width of the interval at which a case is done.",
)
@click.option(
    "--stop-if-slower",
    is_flag=True,
    flag_value="yes",
    default=None,
    help="In mode benchmark: stop as soon as the score is slower than that of your best run, by the rule of `compare`.",
)
@click.option(
    "--set",
    metavar="NAME",
    help="In mode profile: the counters of ncu: basic, detailed, full (the default) or roofline.",
    shell_complete=ncu_sets,
)
@click.option(
    "--tool",
    metavar="NAME",
    help="In mode sanitize: memcheck, racecheck, initcheck, synccheck, on CPUs asan; comma-separated; default: all.",
)
@click.option("--note", default="", help="Note, stored with the submission.")
@entrant_option(
    "Entrant of your account, such as an agent; default: from $HPC_BOARD_AS, else the header.", envvar=ENTRANT_VARIABLE
)
@click.option(
    "--budget",
    metavar="BUDGET",
    envvar=BUDGET_VARIABLE,
    help="Refuse runs beyond it: 50/day, 3600s/day of GPU time or 50,3600s/day; default: from $HPC_BOARD_BUDGET.",
)
@tags_option("Tag, stored with the submission; may be repeated.")
@click.option(
    "--parent",
    metavar="SUBMISSION",
    type=SUBMISSION_NUMBER,
    help="Your submission that this one continues.",
    shell_complete=submission_numbers,
)
@click.option(
    "--key",
    metavar="NAME",
    default="",
    help="Name of this submission; the same command with the same name sends nothing again.",
)
@click.option("--if-new", is_flag=True, help="Reuse your runs of identical files instead of sending them again.")
@click.option("--account", metavar="NAME", help="Account to charge for the jobs.")
@click.option("--qos", metavar="NAME", help="Quality of service of the jobs.")
@click.option("--reservation", metavar="NAME", help="Reservation to run in.")
@click.option("--constraint", metavar="FEATURES", help="Features that the node must have, in addition to the board's.")
@click.option("--time", metavar="TIME", help="Time limit of each job, such as 00:10:00; at most the board's.")
@click.option("--exclude", metavar="NODES", help="Nodes to exclude, in addition to the board's.")
@click.option("--nodelist", metavar="NODES", help="Node to use.")
@click.option("--retries", metavar="N", help="Retry a run up to N times after a cluster failure.")
@click.option(
    "--max-running", metavar="N", help="Send identical jobs as a job array, at most N of them running at a time."
)
@click.option(
    "--sbatch",
    "extras",
    metavar="OPTION",
    multiple=True,
    help="Additional sbatch option, such as --sbatch=--comment=night; may be repeated.",
    shell_complete=sbatch_options,
)
@click.option(
    "--name", metavar="FILE", help="File name of a submission from standard input (`-`); default: submission.py."
)
@click.option(
    "--array/--no-array",
    default=None,
    help="Send identical jobs as one Slurm job array; default: for three or more jobs.",
)
@click.option(
    "--hold",
    metavar="TIME",
    type=LENGTH,
    help="Hold the GPU for TIME, such as 30m, unless you hold it already, and send the runs to it.",
)
@click.option("--fresh", is_flag=True, help="Send each run as a separate job, also while you hold its GPU.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the batch scripts without storing or sending anything. They run only in their job folders.",
)
@click.option("-w", "--wait", is_flag=True, help="Wait for the runs to end and print their reports.")
@timeout_option("Timeout of --wait in seconds; the runs continue.")
def submit(
    open_: Open,
    /,
    *,
    files: tuple[Path, ...],
    task: str | None,
    gpus: tuple[str, ...],
    mode: str | None,
    note: str,
    entrant: str | None,
    budget: str | None,
    tags: tuple[str, ...],
    parent: int | None,
    key: str,
    if_new: bool,
    extras: tuple[str, ...],
    name: str | None,
    array: bool | None,
    hold: int | None,
    fresh: bool,
    dry_run: bool,
    wait: bool,
    timeout_seconds: float | None,
    as_json: bool,
    **job_options: str | None,
) -> None:
    """Submit a file for evaluation on one or more GPUs.

    The header of FILE may name task, GPUs and options, such as `#!POPCORN leaderboard TASK`, `#!POPCORN gpus A B` and
    `#!HPCBOARD qos NAME`; options of the command take precedence. Each file is a separate submission; if one is
    invalid, none is sent. The file `-` is standard input.

    If the scheduler does not answer, the runs are sent later; do not submit them again. The exit code is 0 once all
    runs are stored; with --wait 0 if all passed, 1 if a kernel did not pass, 3 if the scheduler or a job failed, 4 on
    timeout. Runs that the scheduler rejects have the exit code 2, or 3 if it rejects only some.
    """
    if timeout_seconds is not None and not wait:
        raise click.UsageError("--timeout requires --wait.")
    if dry_run and wait:
        raise click.UsageError("--dry-run and --wait are mutually exclusive.")
    if hold is not None and fresh:
        raise click.UsageError("--hold and --fresh are mutually exclusive.")
    _check_none_twice(files)
    piped = _is_piped(files, name)

    options = _options(job_options, extras)
    board = open_()
    sources = [_piped(name or _PIPED_NAME)] if piped else [read_source(file) for file in files]
    origin = Origin(entrant or "", tags_of(tags), parent)
    allowed = budget_of(budget) if budget else None
    requests = [SubmissionRequest(source, task, gpus, mode, note, options, origin) for source in sources]
    if dry_run:
        previews = board.submissions.preview(requests, array=array)
        if hold is not None:
            previews.insert(0, board.runners.preview(_only_gpu(previews), hold))
        print_previews(previews, as_json=as_json)
        return
    held = None if hold is None else _hold(board, _only_gpu(board.submissions.preview(requests, array=array)), hold)
    found = board.submissions.submit(requests, array=array, fresh=fresh, key=key, if_new=if_new, budget=allowed)
    # Two identical files may have reused one run.
    runs = list({run.id: run for run in found}.values())
    if not piped:
        sent = ((file, each.data) for file, each in zip(files, sources, strict=True))
        remember_submission(os.environ, board.address, *sent)
    try:
        _report_elsewhere(board, [run for run in runs if not run.reused], held)
    except BoardError as error:
        # The runs are stored: an error would have scripts submit them again.
        remark(f"The state of your held GPU is not known: {error.message}")
    _report_earlier(runs)
    left = None if allowed is None else _budget(board, allowed, runs)
    if wait:
        raise click.exceptions.Exit(_wait(board, runs, timeout_seconds, left, as_json=as_json))
    _print_accepted(board, runs, [run.id for run in runs if run.reused], left, as_json=as_json)
    report_unsent(runs, served=board.served)
    raise click.exceptions.Exit(NO_VERDICT if any(run.state == "error" for run in runs) else DONE)


def _budget(board: Board, budget: Budget, runs: Sequence[Run]) -> BudgetView:
    """Report the rest of a budget after the submission of these runs, and return its object."""
    entrant = common_entrant(run.origin for run in runs)
    left = board.submissions.budget_left(budget, entrant)
    remark(f"Budget of {left_text(budget, left, author_text(board.user, entrant))}.")
    return view_of(BudgetView, left, per=str(budget.per))


def _only_gpu(previews: Sequence[Preview]) -> str:
    """Return the name of the GPU of all runs that are previewed.

    Raises:
        UsageError: there are several.
    """
    names = dict.fromkeys(preview.gpu.name for preview in previews)
    if len(names) > 1:
        raise click.UsageError(f"--hold requires runs on one GPU; these are on {', '.join(names)}.")
    return next(iter(names))


def _hold(board: Board, gpu: str, seconds: int) -> Runner | None:
    """Hold a GPU, unless the user has a runner on it already; return the new runner, if any."""
    from hpc_board.report.runners import runner_text

    refresh(board)
    runner = board.runners.hold(gpu, seconds, unless_held=True)
    if not runner.reused or not runner.takes_runs:
        remark(f"Runner {runner.id}: {runner_text(runner, now())}.")
    if not runner.takes_runs:
        remark(f"Until it takes runs, yours have jobs of their own. `hpc-board release {runner.id}` ends it.")
    return None if runner.reused else runner


def _report_elsewhere(board: Board, runs: Sequence[Run], held: Runner | None) -> None:
    """Report the runs that do not go to the user's runner on their GPU; release `held` if none of them went there."""
    apart = [run for run in runs if not (run.status.runner or run.state.unsent)]
    live = {runner.gpu: runner for runner in live_runners(board) if runner.takes_runs} if apart else {}
    numbers: dict[tuple[int, str], list[str]] = {}
    for run in apart:
        if run.gpu in live and not run.state.ended:
            runner = live[run.gpu]
            numbers.setdefault((runner.id, f"on {one_line(run.gpu)}: {_cause(run, runner)}"), []).append(str(run.id))
    is_live = held is not None and held.id in [each.id for each in live.values()]
    is_for_nothing = held is not None and len(apart) == len(runs) and (is_live or not runs)
    for (number, words), members in numbers.items():
        has = (
            f"Runs {', '.join(members)} have jobs of their own" if members[1:] else f"Run {members[0]} has its own job"
        )
        frees = "" if is_for_nothing else f" `hpc-board release {number}` frees that GPU."
        remark(f"{has} {words}.{frees}")
    if held is not None and is_for_nothing:
        _release(board, held)


def _report_earlier(runs: Sequence[Run]) -> None:
    """Report the runs that were stored before, and the new ones of identical files."""
    if reused := [str(run.id) for run in runs if run.reused]:
        remark(f"Submitted before: run {', '.join(reused)}.")
    if repeated := [f"run {run.id} as run {run.repeats}" for run in runs if run.repeats and not run.reused]:
        remark(f"Identical files: {', '.join(repeated)}. `--if-new` reuses results.")


def _cause(run: Run, runner: Runner) -> str:
    """Return the cause for which a runner did not take a run, or the possible ones."""
    from hpc_board.report.runners import left_text

    if run.fresh:
        return f"`--fresh` demands it, while runner {runner.id} holds a GPU for you"
    if run.harness_sha256 != runner.harness_sha256:
        return f"runner {runner.id} is of another version of hpc-board"
    differs = f"the job options or the settings differ from those of runner {runner.id}"
    if not runner.has_time(now()):
        return f"{differs}, or the {left_text(runner, now())} that it has left are too little"
    return f"{differs}, or it could take no further run"


def _release(board: Board, held: Runner) -> None:
    """Release a runner that no run went to; report a failure as a remark."""
    from hpc_board.report.runners import runner_text

    try:
        text = runner_text(board.runners.release(held.id), now())
    except BoardError as error:
        text = f"{error.message.rstrip('.')}. `hpc-board release {held.id}` ends it"
    remark(f"No run went to runner {held.id}, so it is released: {text}.")


def _options(plain: Mapping[str, str | None], extras: Sequence[str]) -> JobOptions:
    """Return the job options of the command."""
    for name, value in (*plain.items(), *(("sbatch", extra) for extra in extras)):
        if value == "":
            raise click.UsageError(f"--{name.replace('_', '-')} needs a value.")
    command = of_values({name: value for name, value in plain.items() if value}, extras)
    check(command, "the command")
    return command


def _check_none_twice(files: tuple[Path, ...]) -> None:
    """Raise a UsageError for a file that is given twice."""
    real = list(map(os.path.realpath, files))
    for index, file in enumerate(files):
        if real[index] in real[:index]:
            raise click.UsageError(f"{shown_path(file)} is given twice.")


def _is_piped(files: tuple[Path, ...], name: str | None) -> bool:
    """Return whether the submission is standard input, whose file has `name`.

    Raises:
        UsageError: it is beside other files, or `name` is given for them.
    """
    piped = _STDIN in files
    if piped and len(files) > 1:
        raise click.UsageError("`-` (standard input) cannot be combined with other files.")
    if name is not None and not piped:
        raise click.UsageError("--name requires `-` (standard input) as the file.")
    return piped


def _piped(name: str) -> Source:
    """Read the submission in standard input, as the file `name`."""
    data = sys.stdin.buffer.read(SOURCE_BYTES_MAX + 1)
    if len(data) > SOURCE_BYTES_MAX:
        raise InputError(f"standard input is too large; the limit of a submission is {SOURCE_BYTES_MAX:,} bytes.")
    if not data.strip():
        raise InputError("standard input is empty.", hint="Redirect a file to it: hpc-board submit - < kernel.py")
    return Source(name, decoded(data, "standard input"))


def _wait(
    board: Board, sent: Sequence[Run], timeout_seconds: float | None, left: BudgetView | None, *, as_json: bool
) -> int:
    ids = [run.id for run in sent]
    reused = [run.id for run in sent if run.reused]
    print_accepted = partial(_print_accepted, board, reused=reused, left=left, as_json=as_json)
    if as_json:
        return exit_code_of(wait_as_json(board, ids, timeout_seconds, print_accepted))
    try:
        runs = follow(board, ids, timeout_seconds)
    except WaitExpired:
        print_accepted(board.runs.get_each(ids))
        raise
    print_blocks(*(block for run in runs for block in summary(board, run)))
    return exit_code_of(runs)


def _print_accepted(
    board: Board, runs: Sequence[Run], reused: Collection[int], left: BudgetView | None, *, as_json: bool
) -> None:
    if as_json:
        submissions: dict[int, list[Run]] = {}
        for run in runs:
            submissions.setdefault(run.submission, []).append(run)
        objects = [
            view_of(
                SubmissionView,
                members[0],
                reused=all(run.id in reused for run in members),
                runs=[whole_run(board, run.id) for run in members],
                budget=left,
            )
            for members in submissions.values()
        ]
        print_json(objects if len(objects) > 1 else objects[0])
    else:
        print_blocks(runs_table(runs))
    hints: list[str] = []
    for run in runs:
        if run.state == "error":
            remark(f"Run {run.id} on {run.gpu} rejected: {run.status.reason}")
            if run.status.source not in ("", *hints):
                hints.append(run.status.source)
                remark(f"Hint: {run.status.source}")
    going = [run.id for run in runs if not run.state.ended and not run.state.unsent]
    if going and not as_json:
        remark(watch_hint(going))
