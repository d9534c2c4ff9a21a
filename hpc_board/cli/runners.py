"""`hold` and `release`: runners, the jobs that hold a GPU for the user's runs."""

from collections.abc import Sequence

import click

from hpc_board.board import Board
from hpc_board.board.held import granted, live_runners, stays_text
from hpc_board.cli.exits import NO_VERDICT, print_error
from hpc_board.cli.options import LENGTH, Open, command, gpu_names, held_names, timeout_option
from hpc_board.cli.output import now, print_found, print_json, print_previews, refresh, remark
from hpc_board.domain.runner import Runner
from hpc_board.domain.runner_rules import LEAST_HOLD_MINUTES
from hpc_board.errors import BoardError, InputError
from hpc_board.model.text import one_line, printable
from hpc_board.report.runners import held_facts, released_text, runner_text, unqueued_text
from hpc_board.report.views.runs import RunnerView


@command(
    "hpc-board hold H100",
    "hpc-board hold H100 --for 1h --idle 2m",
    "hpc-board hold H100 --wait --timeout 600",
    "hpc-board hold H100 --dry-run",
)
@click.argument("gpu", shell_complete=gpu_names)
@click.option(
    "--for",
    "seconds",
    metavar="TIME",
    type=LENGTH,
    help=f"The longest time, from {LEAST_HOLD_MINUTES}m, such as 30m or 1h30m; default: 30m, or the settings' bound if "
    "it is less.",
)
@click.option(
    "--idle",
    "idle_seconds",
    metavar="TIME",
    type=LENGTH,
    help="The longest time without a run; default: that of the settings.",
)
@click.option("--dry-run", is_flag=True, help="Print the batch script without storing or sending anything.")
@click.option(
    "-w",
    "--wait",
    is_flag=True,
    help="Wait until the job, which may be that of an earlier call, has the GPU.",
)
@timeout_option("Timeout of --wait in seconds; the job keeps its place in the queue.")
def hold(
    open_: Open,
    *,
    gpu: str,
    seconds: int | None,
    idle_seconds: int | None,
    dry_run: bool,
    wait: bool,
    timeout_seconds: float | None,
    as_json: bool,
) -> None:
    """Hold a GPU for your runs.

    One job, a runner, holds the GPU and evaluates the runs that you submit on it meanwhile, one after another: they
    start at once. It ends after TIME, after some minutes without a run, or with `release`. A held GPU is taken from
    others, and accounted to you, also while it is idle. The board's settings bound the times and the number of runners.

    Runs with other job options than the GPU's own or with `submit --fresh` get jobs of their own, and so do runs when
    too little time is left.

    The exit code is 0 once the job is in the queue, or stored to be sent later if the scheduler does not answer; with
    --wait once it has the GPU, 3 if it ended before, 4 on timeout.
    """
    if timeout_seconds is not None and not wait:
        raise click.UsageError("--timeout requires --wait.")
    if dry_run and wait:
        raise click.UsageError("--dry-run and --wait are mutually exclusive.")
    board = open_()
    if dry_run:
        print_previews([board.runners.preview(gpu, seconds, idle_seconds)], as_json=as_json)
        return
    refresh(board)
    if wait:
        runner = _granted(board, gpu, seconds, idle_seconds, timeout_seconds)
    else:
        runner = board.runners.hold(gpu, seconds, idle_seconds)
    print_found(RunnerView.of(runner, now()), held_facts(runner, now()), as_json=as_json)
    if runner.state.ended:
        raise click.exceptions.Exit(NO_VERDICT)
    name = one_line(runner.gpu)
    if runner.state.unsent:
        remark(unqueued_text(runner, served=board.served))
    meanwhile = "go there" if runner.started_at else "wait with it"
    if not runner.takes_runs:
        meanwhile = "get jobs of their own until it is queued" if runner.state.unsent else "get jobs of their own"
    remark(f"Your runs on {name} {meanwhile}: `hpc-board submit FILE --gpu {name}`.")
    remark(f"`hpc-board release {runner.id}` ends it, `hpc-board status` shows it.")


def _granted(
    board: Board, gpu: str, seconds: int | None, idle_seconds: int | None, timeout_seconds: float | None
) -> Runner:
    """Return the user's runner on a GPU, or a new one, once it has the GPU or has ended.

    An interrupt ends the wait, not the runner.

    Raises:
        WaitExpired: `timeout_seconds` are over.
    """
    runner = board.runners.hold(gpu, seconds, idle_seconds, unless_held=True)
    if runner.reused:
        remark(f"You have runner {runner.id} already: {runner_text(runner, now())}.")
    try:
        return granted(board, runner, timeout_seconds, lambda problem: remark(f"Still waiting: {problem}"))
    except KeyboardInterrupt:
        remark(f"Stopped waiting. Runner {runner.id} {stays_text(board.runners.get(runner.id))}")
        raise


@command("hpc-board release", "hpc-board release 3", "hpc-board release H100")
@click.argument("names", metavar="[RUNNER|GPU]...", nargs=-1, shell_complete=held_names)
def release(open_: Open, names: tuple[str, ...], as_json: bool) -> None:
    """Release GPUs that you hold.

    Without a name, releases your only GPU. Its runner finishes the current run; the runs that wait behind it get jobs
    of their own. An admin may end the runner of any user by its number.
    """
    board = open_()
    refresh(board)
    failures: list[BoardError] = []
    released: list[Runner] = []
    for number in _numbers(live_runners(board), names):
        try:
            released.append(board.runners.release(number))
        except BoardError as error:
            failures.append(error)
            continue
        if not as_json:
            click.echo(printable(released_text(released[-1], now())))
    for failure in failures if released else failures[1:]:
        print_error(failure)
    if failures and not released:
        raise failures[0]
    if as_json:
        print_json([RunnerView.of(runner, now()) for runner in released])
    if failures:
        raise click.exceptions.Exit(failures[0].exit_code)


def _numbers(live: Sequence[Runner], names: Sequence[str]) -> list[int]:
    """Return the numbers of the runners that `names` name, or that of the user's only one.

    Raises:
        InputError: a name is none, or there is no only one.
    """
    if names:
        return list(dict.fromkeys(number for name in names for number in _named(live, name)))
    staying = [runner for runner in live if not runner.is_ending]
    if len(staying) == 1 or len(live) == 1:
        return [(staying or live)[0].id]
    if not live:
        raise InputError("you hold no GPU.", hint="`hpc-board hold GPU` holds one.")
    listed = ", ".join(f"{runner.id} ({one_line(runner.gpu)})" for runner in reversed(live))
    raise InputError(f"you have several runners: {listed}.", hint="Name one of them: hpc-board release RUNNER")


def _named(live: Sequence[Runner], name: str) -> list[int]:
    """Return the numbers of the runners with a number, or of the user's on a GPU, which may be called by digits."""
    is_number = name.isascii() and name.isdecimal() and len(name) < 19
    if is_number and any(runner.id == int(name) for runner in live):
        return [int(name)]
    on_gpu = [runner.id for runner in live if runner.gpu.casefold() == name.casefold()]
    if on_gpu or is_number:
        return on_gpu or [int(name)]
    raise InputError(f'you hold no GPU "{one_line(name, 80)}".', hint="`hpc-board status` shows your runners.")
