"""`runs`, `run`, `watch`, `cancel`, `code` and `poll`: runs and submitted files."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TypedDict, Unpack

import click

from hpc_board.board import Board
from hpc_board.cli.exits import NO_VERDICT, exit_code_of, print_error
from hpc_board.cli.global_options import PATH
from hpc_board.cli.options import (
    NUMBER,
    Number,
    Open,
    command,
    entrant_option,
    force_option,
    going_run_numbers,
    gpu_names,
    limit_option,
    mode_option,
    outcome_called,
    outcome_names,
    python_option,
    run_numbers,
    tags_option,
    task_names,
    timeout_option,
)
from hpc_board.cli.output import (
    listed_rows,
    listed_runs,
    output_width,
    print_blocks,
    print_file,
    print_json,
    refresh,
    remark,
    table_time,
    wait_as_json,
    whole_run,
)
from hpc_board.domain.origin import tags_of
from hpc_board.domain.run import Run, RunState, WholeRun
from hpc_board.domain.run_files import RunFile
from hpc_board.domain.run_order import RunOrder, SortColumn
from hpc_board.errors import BoardError
from hpc_board.files import write_file
from hpc_board.model.result import Verdict
from hpc_board.model.text import printable
from hpc_board.report.blocks import Block, Paragraph, Tone
from hpc_board.report.formatting import bytes_text, count_text
from hpc_board.report.run_table import NO_RUNS, runs_table

_WIDE = 100
"""The least width in columns of a list of runs with the numbers of their submissions and jobs."""

_TELLING_BYTES = 16 * 2**20
"""The part of a large file after whose arrival a remark tells the progress."""


class _Filter(TypedDict):
    """The options of `runs` that select runs as they are given."""

    user: str | None
    task: str | None
    entrant: str | None
    note: str
    key: str
    job: str | None


@command(
    "hpc-board runs",
    "hpc-board runs --note 'bank conflicts'",
    "hpc-board runs --as agent-b --tag model=small",
    "hpc-board runs --gpu H100 --mode ranked --state pass",
    "hpc-board runs --user eve --task vectoradd_py",
    "hpc-board runs --all --job 184467",
    "hpc-board runs --task vectoradd_py --sort score",
    "hpc-board runs --all --task vectoradd_py --limit 10 --json",
    sections={
        "Filter": ("everyone", "user", "entrant", "task", "gpu", "mode", "state", "note", "key", "tags", "job"),
        "Order": ("sort", "reverse", "limit"),
    },
)
@click.option("--all", "everyone", is_flag=True, help="Runs of all users.")
@click.option("--user", metavar="USER", help="Runs of this user, an entrant (USER/NAME) or a team (@GROUP).")
@click.option("-t", "--task", metavar="TASK", help="Only runs of this task.", shell_complete=task_names)
@click.option("-g", "--gpu", metavar="GPU", help="Only runs on this GPU.", shell_complete=gpu_names)
@mode_option("Only test, benchmark, profile, sanitize or ranked runs.")
@click.option(
    "--state",
    metavar="WORD",
    help="Only in this state, or with this verdict: queued, pass, crash.",
    shell_complete=outcome_names,
)
@click.option("--note", metavar="TEXT", default="", help="Only with TEXT in a note, case-insensitive.")
@click.option("--key", metavar="NAME", default="", help="Only of the submissions with this key.")
@entrant_option("Only of this entrant.")
@tags_option("Only of submissions with this tag; may be repeated.")
@click.option("-j", "--job", metavar="ID", help="Only the run of this Slurm job, or the runs of this array or runner.")
@click.option(
    "--sort",
    metavar="COLUMN",
    type=click.Choice(list(map(str, SortColumn)), case_sensitive=False),
    default="run",
    show_default=True,
    help="Order: run (newest first), user, task, gpu, state or score.",
)
@click.option("--reverse", is_flag=True, help="Reverse the order of --sort.")
@limit_option("runs", 50)
def runs(
    open_: Open,
    *,
    everyone: bool,
    gpu: str | None,
    mode: str | None,
    state: str | None,
    tags: tuple[str, ...],
    sort: str,
    reverse: bool,
    limit: int | None,
    as_json: bool,
    **chosen: Unpack[_Filter],
) -> None:
    """List your runs, the newest first.

    With --sort, the newest of equal runs comes first, and runs without a score come last. States are sorted as in
    flight, passed, failed, stopped.

    AGE is the time since submission; without a terminal, SUBMITTED shows the date instead. REMARKS has notes and
    admin actions. On a wide terminal, JOB is the scheduler's job ID.
    """
    kind, outcome = None, None if state is None else outcome_called(state)
    if mode is not None:
        from hpc_board.runs.drafts import mode_called

        kind = mode_called(mode)
    order = RunOrder(SortColumn(sort), reverse)
    board = open_()
    refresh(board)
    read = partial(
        board.runs.list,
        **chosen,
        everyone=everyone,
        tags=tags_of(tags),
        mode=kind,
        state=outcome if isinstance(outcome, RunState) else None,
        verdict=outcome if isinstance(outcome, Verdict) else None,
        order=order,
    )

    def rows_on(gpu: str | None) -> list[Run]:
        def behind(size: int, before: list[Run]) -> tuple[Run, ...]:
            return read(gpu=gpu, limit=size, behind=order.position(before[-1]) if before else None)

        return listed_rows(behind, limit, 50, as_json=as_json)

    found = rows_on(gpu)
    if gpu is not None and not found:
        found = rows_on(board.gpus.get(gpu).name)  # looked up last: a GPU that left the settings may have runs
    if chosen["task"] is not None and not found:
        board.tasks.get(chosen["task"])  # raises for an unknown name; a task that left the settings may have runs
    if as_json:
        print_json(listed_runs(board, found))
        return
    width = output_width()
    is_filtered = any((gpu, kind, outcome, tags, *chosen.values()))
    numbers, empty = width is None or width >= _WIDE, "No matching runs." if is_filtered else NO_RUNS
    print_blocks(runs_table(found, users=everyone, numbers=numbers, now=table_time(), empty=empty))


@command(
    "hpc-board run 12",
    "hpc-board run 12 --log",
    "hpc-board run 12 --files",
    "hpc-board run 12 --files ~/profiles",
    "hpc-board run 12 --json --samples",
    "hpc-board run 12 --case 3 --inputs case3.safetensors",
)
@click.argument("id_", metavar="ID", type=NUMBER, shell_complete=run_numbers)
@click.option("--log", "only_log", is_flag=True, help="Print only the output of the job and the kernel.")
@click.option(
    "--files",
    "files_to",
    metavar="[DIR]",
    is_flag=False,
    flag_value=Path(),
    type=PATH,
    help="Write the run's files to DIR/run-ID; DIR defaults to the current folder.",
)
@click.option("--samples", is_flag=True, help="With --json: the time of every call.")
@click.option("--hidden", is_flag=True, help="Show the arguments of hidden cases, for those who manage the board.")
@click.option("--case", type=Number(10_000), metavar="N", help="With --inputs: the test case, from 1.")
@click.option("--inputs", metavar="FILE", type=PATH, help="Write the inputs of test case N to the new FILE.")
@python_option
def run(
    open_: Open,
    *,
    id_: int,
    only_log: bool,
    files_to: Path | None,
    samples: bool,
    hidden: bool,
    case: int | None,
    inputs: Path | None,
    python: str | None,
    as_json: bool,
) -> None:
    """Show one run: verdict, cases, times, machine, output.

    --files copies the run's files from its job folder to this machine: the output of the job and the compiler and, in
    mode profile, the profilers' reports, PTX and SASS. Their paths are printed.

    --inputs has the task's generator make the inputs of a test case on this machine, from the public seed; see the
    manual on results for the format, safetensors.
    """
    if (case is None) != (inputs is None) or (python and inputs is None):
        raise click.UsageError("--case requires --inputs FILE, --inputs requires --case N, and --python requires both.")
    if inputs is not None and (only_log or samples or files_to is not None or as_json):
        raise click.UsageError("--inputs cannot be combined with --json, --files, --log or --samples.")
    if files_to is not None and (only_log or samples):
        raise click.UsageError("--files cannot be combined with --log or --samples.")
    if hidden and (only_log or inputs is not None or files_to is not None):
        raise click.UsageError("--hidden cannot be combined with --files, --inputs or --log.")
    if samples and not as_json:
        raise click.UsageError("--samples requires --json.")
    if only_log and as_json:
        raise click.UsageError("--log prints plain text; omit --json.")
    board = open_()
    refresh(board)
    if inputs is not None and case is not None:
        from hpc_board.board.case_inputs import write_case_inputs

        write_case_inputs(board, id_, case, inputs, python=python or sys.executable)
        remark(f"Inputs of test {case} written to {inputs}.")
    elif files_to is not None:
        _bring_files(board, id_, files_to, as_json=as_json)
    elif only_log:
        _print_logs(board, board.runs.get(id_))
    elif as_json:
        print_json(whole_run(board, id_, samples=samples, hidden=hidden))
    else:
        print_blocks(*report(board, board.runs.whole(id_, hidden=hidden)))


def _bring_files(board: Board, id_: int, parent: Path, *, as_json: bool) -> None:
    """Write the files of a run below `parent`, and print their paths."""
    from hpc_board.board.run_files import fetch_run_files

    def say(file: RunFile, done: int) -> None:
        if done < file.bytes and done % _TELLING_BYTES == 0:
            remark(f"{file.name}: {bytes_text(done)} of {bytes_text(file.bytes)}")

    found = fetch_run_files(board.runs, id_, parent, say)
    for left in found.left_out:
        remark(f"Skipped {left.name} ({bytes_text(left.bytes)}): {left.reason}.")
    if as_json:
        from hpc_board.report.views import view_of
        from hpc_board.report.views.runs import RunFilesView

        print_json(view_of(RunFilesView, found, run=id_))
        return
    for each in found.files:
        click.echo(printable(str(each.path)))
    total = sum(each.bytes for each in found.files)
    remark(f"{count_text(len(found.files), 'file')} of run {id_}, {bytes_text(total)}.")


def _print_logs(board: Board, run: Run) -> None:
    """Print the logs of job and kernel under titles; the title of a single log goes to stderr."""
    from hpc_board.report.logs import nothing_printed, run_logs

    logs = run_logs(board.runs.whole(run.id).result, board.runs.log(run.id))
    if len(logs) > 1:
        print_blocks(*logs)
    elif logs:
        remark(f"--- {logs[0].title} ---")
        click.echo(logs[0].text, nl=False)
    else:
        may_read = run.user == board.user or board.leaderboards.manages(run.task)
        remark(nothing_printed(run, may_read=may_read))


@command("hpc-board watch 12", "hpc-board watch 12 13 14", "hpc-board watch 12 13 --timeout 600 --json=lines")
@click.argument("ids", metavar="ID...", nargs=-1, required=True, type=NUMBER, shell_complete=going_run_numbers)
@timeout_option("Maximum time to wait, in seconds; the runs continue.")
def watch(open_: Open, ids: tuple[int, ...], timeout_seconds: float | None, as_json: bool) -> None:
    """Wait for runs to end and print their reports.

    The exit code is that of `submit --wait`: 0 passed, 1 not passed, 3 no verdict, 4 timeout.
    """
    from hpc_board.cli.follow import follow

    board, ids = open_(), tuple(dict.fromkeys(ids))
    if as_json:

        def print_runs(runs: Sequence[Run]) -> None:
            views = [whole_run(board, run.id) for run in runs]
            print_json(views if ids[1:] else views[0])

        found = wait_as_json(board, ids, timeout_seconds, print_runs)
    else:
        found = follow(board, ids, timeout_seconds)
        print_blocks(*(block for run in found for block in summary(board, run)))
    raise click.exceptions.Exit(exit_code_of(found))


@command("hpc-board cancel 12", "hpc-board cancel 12 13 14")
@click.argument("ids", metavar="ID...", nargs=-1, required=True, type=NUMBER, shell_complete=going_run_numbers)
def cancel(open_: Open, ids: tuple[int, ...], as_json: bool) -> None:
    """Cancel your runs.

    Runs that have already ended are not changed.
    """
    from hpc_board.report.run_words import ended_before_text

    board = open_()
    failures: dict[int, BoardError] = {}
    cancelled: list[Run] = []
    for id_, answer in zip(ids, board.runs.cancel_each(ids), strict=True):
        if answer.error is not None:
            failures[id_] = answer.error
        if answer.run is None:
            continue
        cancelled.append(answer.run)
        if as_json:
            continue
        if answer.ended_before:
            click.echo(ended_before_text(answer.run))
            continue
        words = ": cancel requested; the service cancels its job." if board.served else ": cancel requested."
        if answer.run.state.ended:
            words = " cancelled."
        click.echo(f"Run {id_}{words}")
    errors = list({error.message: error for error in failures.values()}.values())
    for error in errors if cancelled else errors[1:]:
        print_error(error)
    if len(failures) > 1:
        remark(f"Not cancelled: {', '.join(map(str, failures))}.")
    if errors and not cancelled:
        raise errors[0]
    if as_json:
        print_json(listed_runs(board, cancelled))
    if errors:
        raise click.exceptions.Exit(errors[0].exit_code)


@command("hpc-board code 12", "hpc-board code 12 -o kernel.py")
@click.argument("id_", metavar="ID", type=NUMBER, shell_complete=run_numbers)
@click.option("-o", "--output", metavar="FILE", type=PATH, help="Write to FILE instead of stdout.")
@force_option
def code(open_: Open, *, id_: int, output: Path | None, force: bool, as_json: bool) -> None:
    """Print the file of a run.

    Admins may read all files, other users their own and those that a board
    publishes after its deadline (`create --show-code`).
    """
    if as_json and output is not None:
        raise click.UsageError("--json and --output are mutually exclusive.")
    file_name, data = open_().submissions.code(id_)
    if as_json:
        from hpc_board.report.views.runs import CodeView

        print_json(CodeView(run=id_, file_name=file_name, text=data.decode()))
        return
    if output is None:
        print_file(data.decode())
        return
    write_file(output, data, force=force)
    remark(f"{file_name} of run {id_} written to {output}.")


@command(
    "hpc-board poll",
    "*/5 * * * * ~/venvs/hpc-board/bin/hpc-board --config ~/hpc-board.yaml poll",
)
def poll(open_: Open, as_json: bool) -> None:
    """Update all runs in flight once and print the changes.

    Nothing is printed if nothing changed. An open app or a waiting `submit` updates runs too; `poll` is for cron, which
    needs absolute paths, as in the second example. It also runs the command of `notify` in the settings.

    The exit code is 3 if a scheduler did not answer or a job could not be sent; the other runs are updated.
    """
    from hpc_board.report.run_words import outcome

    board = open_()
    before = board.runs.in_flight()
    failure: BoardError | None = None
    for act in (board.runs.advance, partial(_send_notices, board)):
        try:
            act()
        except BoardError as error:
            failure = failure or error
    pairs = [(old, board.runs.get(old.id)) for old in before]
    changed = [(old, new) for old, new in pairs if new.state is not old.state]
    if as_json:
        print_json(listed_runs(board, [new for _, new in changed]))
    else:
        for old, new in changed:
            click.echo(printable(f"run {new.id} on {new.gpu}: {outcome(old)} -> {outcome(new)}"))
    if failure is not None:
        print_error(failure)
        raise click.exceptions.Exit(NO_VERDICT)


def _send_notices(board: Board) -> None:
    if not board.served and board.settings.notify:
        from hpc_board.board.notices import Notices

        Notices(lambda: board, remark).send()


def summary(board: Board, run: Run) -> tuple[Block, ...]:
    """Return the summary of an ended run as blocks."""
    from hpc_board.board.standings import leader_of
    from hpc_board.report.runs import run_summary

    whole = board.runs.whole(run.id)
    log, best = board.runs.log(run.id), leader_of(board, whole.run, whole.result, whole.placing)
    found = run_summary(whole.run, whole.result, whole.history, whole.placing, log=log, reader=board.user, best=best)
    return (*found, Paragraph(f"Details: `hpc-board run {run.id}`.", Tone.QUIET))


def report(board: Board, whole: WholeRun) -> tuple[Block, ...]:
    """Return the full report of a run as blocks."""
    from hpc_board.board.standings import leader_of
    from hpc_board.report.runs import outcome_line, run_report

    run, result, placing, reader = whole.run, whole.result, whole.placing, board.user
    progress, log, best = board.runs.progress(run.id), board.runs.log(run.id), leader_of(board, run, result, placing)
    blocks = run_report(
        run, result, whole.history, progress, placing, log=log, reader=reader, best=best, children=whole.children
    )
    # A long report scrolls its first line, the outcome, off the screen: repeat it at the end.
    return (*blocks, outcome_line(run, result, placing, reader=reader)) if run.state.ended else blocks
