"""`create`, `update`, `delete`, `admin sync` and `admin milestones`: leaderboards made by users, and milestones."""

from pathlib import Path
from typing import TypedDict, Unpack

import click

from hpc_board.board import Board
from hpc_board.cli.exits import DONE, NO_VERDICT
from hpc_board.cli.follow import report_unsent
from hpc_board.cli.options import (
    PATH_OR_NAME,
    Open,
    command,
    created_names,
    format_option,
    gpus_option,
    task_names,
)
from hpc_board.cli.output import confirm, listed_runs, print_blocks, print_found, print_json, remark, require_terminal
from hpc_board.domain.board_options import RequestedOptions
from hpc_board.domain.user_board import BoardRequest, PackedSource, Plan, SyncRequest
from hpc_board.errors import InputError, Refused
from hpc_board.files import is_folder
from hpc_board.model.names import listed
from hpc_board.model.text import one_line
from hpc_board.report.boards import changes_table, plan_report, synced_table
from hpc_board.report.run_table import runs_table
from hpc_board.report.views import views_of
from hpc_board.report.views.leaderboards import BoardChangeView, DeletionView, PlanView, SyncedView

REFUSED = Refused.exit_code
BAD_FILE = InputError.exit_code

_DEADLINE = 'Deadline: "2030-12-31", "2030-12-31 18:00", "+30d", "+90m" or "none"; UTC unless it has a time zone.'

_deadline = click.option("--deadline", metavar="D", help=_DEADLINE)
_gpus = gpus_option('GPUs of the board, comma-separated or repeated; "all" for every GPU in the settings.')
_members = click.option(
    "--member", "members", metavar="WHO", multiple=True, help="Member of the closed board: a user or a @group."
)
_maintainers = click.option(
    "--maintainer", "maintainers", metavar="WHO", multiple=True, help="User or @group with the rights of the creator."
)
_late = click.option(
    "--late",
    metavar="D",
    help='Accept late submissions without a rank: until "+2d" after the deadline, "any" or "none".',
)
_freeze = click.option(
    "--freeze",
    metavar="D",
    help='From then on users do not see others\' new submissions: "-24h" before the deadline, a time, or "none".',
)
_teams = click.option(
    "--team", "teams", metavar="@GROUP", multiple=True, help="Group whose members have one rank together, as a team."
)
_reason = click.option("--reason", metavar="TEXT", default="", help="Reason, recorded in the board's history.")
_yes = click.option("--yes", is_flag=True, help="Skip the confirmation.")
_dry_run = click.option("--dry-run", is_flag=True, help="Show the changes without storing them.")


class _Terms(TypedDict, total=False):
    """The options of `create` and `update` that are requested terms as they are given."""

    deadline: str | None
    members: tuple[str, ...]
    no_members: tuple[str, ...]
    show_code: bool | None
    maintainers: tuple[str, ...]
    no_maintainers: tuple[str, ...]
    extend: tuple[str, ...]
    late: str | None
    freeze: str | None
    anonymous: bool | None
    teams: tuple[str, ...]
    no_teams: tuple[str, ...]


@command(
    "hpc-board create softmax ./softmax_task --deadline 2030-12-31 --gpu H100",
    "hpc-board create softmax_course softmax_py --closed --member @students",
    "hpc-board create problems/beginner.yaml --yes",
    sections={
        "Submissions": ("deadline", "late", "gpus"),
        "Users": ("closed", "members", "maintainers", "teams"),
        "Standings": ("freeze", "anonymous", "show_code"),
    },
)
@click.argument("words", metavar="[NAME] SOURCE", nargs=-1, type=PATH_OR_NAME, shell_complete=task_names)
@_deadline
@_gpus
@click.option("--closed", is_flag=True, default=None, help="Visible to members, you and admins only.")
@_members
@_maintainers
@click.option("--show-code", is_flag=True, default=None, help="Publish submitted files after the deadline.")
@format_option
@_late
@_freeze
@click.option("--anonymous", is_flag=True, default=None, help="Show other users under pseudonyms.")
@_teams
@_reason
@_yes
@_dry_run
def create(
    open_: Open,
    *,
    words: tuple[str, ...],
    gpus: tuple[str, ...],
    closed: bool | None,
    format_name: str | None,
    reason: str,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    **terms: Unpack[_Terms],
) -> None:
    """Create a board from a task.

    SOURCE is a task folder, a zip, a reference file, a competition with its
    folder of problems, or the name of an existing task. Without NAME, each
    task of SOURCE becomes a board of the same name. Deadline and GPUs default
    to the task's. Requires the creator role.
    """
    if len(words) not in (1, 2):
        raise click.UsageError("expected NAME and SOURCE, or only SOURCE.")
    board = open_()
    options = RequestedOptions(gpus=gpus or None, closed=closed, **terms)
    name = words[0] if len(words) == 2 else None
    request = BoardRequest(_source(board, words[-1], format_name, name), name, options)
    plans = board.leaderboards.plan(request)
    if len(plans) > 1 and not (yes or dry_run):
        confirm(f"Create {len(plans)} boards: {', '.join(plan.name for plan in plans)}?")
    if not dry_run:
        board.leaderboards.carry_out(request, {plan.name: plan.after_change for plan in plans}, reason=reason)
    _print_plans(plans, as_json=as_json, stored=not dry_run)
    if not dry_run:
        remark(f"Created: {', '.join(plan.name for plan in plans)}.")
        # A client of a service does not have the texts of a task's files, except in its own folder.
        checked = words[-1] if board.served else plans[0].name
        if not board.served or Path(checked).exists():
            remark(f"`hpc-board task check {checked}` tests the task's judge with correct and bogus answers.")


@command(
    "hpc-board update softmax --deadline 2031-01-07 --reason 'a week more'",
    "hpc-board update softmax ./softmax_task --dry-run",
    "hpc-board update softmax --closed --member ada,@students",
    "hpc-board update softmax --extend ada:+2d --reason 'was ill'",
    "hpc-board update softmax --freeze -24h",
    "hpc-board update softmax --history",
    sections={
        "Submissions": ("deadline", "late", "extend", "gpus"),
        "Users": ("open_to_all", "members", "no_members", "maintainers", "no_maintainers", "teams", "no_teams"),
        "Standings": ("freeze", "anonymous", "show_code", "force"),
    },
)
@click.argument("name", shell_complete=created_names)
@click.argument("source", required=False, type=PATH_OR_NAME, shell_complete=task_names)
@_deadline
@_gpus
@click.option("--open/--closed", "open_to_all", default=None, help="Visible to all users, or to members only.")
@_members
@click.option("--no-member", "no_members", metavar="WHO", multiple=True, help="Remove a member: a user or a @group.")
@_maintainers
@click.option("--no-maintainer", "no_maintainers", metavar="WHO", multiple=True, help="Remove a maintainer.")
@click.option("--show-code/--hide-code", default=None, help="Publish submitted files after the deadline, or never.")
@_late
@click.option(
    "--extend",
    metavar="WHO:D",
    multiple=True,
    help='Later deadline of a user or @group: "ada:+2d" from the deadline, "ada:2030-12-31", "ada:none".',
)
@format_option
@_freeze
@click.option("--anonymous/--named", default=None, help="Show other users under pseudonyms, or by their names.")
@_teams
@click.option("--no-team", "no_teams", metavar="@GROUP", multiple=True, help="Remove a team.")
@click.option("--force", is_flag=True, help="Reset the standings even if users have ranks.")
@click.option("--history", is_flag=True, help="Only show the history of the board.")
@_reason
@_dry_run
def update(
    open_: Open,
    *,
    name: str,
    source: str | None,
    gpus: tuple[str, ...],
    open_to_all: bool | None,
    format_name: str | None,
    force: bool,
    history: bool,
    reason: str,
    dry_run: bool,
    as_json: bool,
    **terms: Unpack[_Terms],
) -> None:
    """Change a board's task or options.

    SOURCE, as for `create`, replaces the task; the board keeps its deadline and GPUs. A change to the files, cases
    or rules starts a new version with its own standings, and needs --force if users have ranks. The old standings
    remain readable. Only the board's creator, its maintainers and admins may update it; all users who can see the
    board can see its history.
    """
    if format_name is not None and source is None:
        raise click.UsageError("--format requires SOURCE.")
    board = open_()
    closed = None if open_to_all is None else not open_to_all
    options = RequestedOptions(gpus=gpus or None, closed=closed, **terms)
    if history:
        if source is not None or options != RequestedOptions() or force or dry_run or reason:
            raise click.UsageError("--history cannot be combined with other options.")
        changes = board.leaderboards.history(name)
        print_found(views_of(BoardChangeView, changes), changes_table(changes), as_json=as_json)
        return
    new_source = None if source is None else _source(board, source, format_name, name)
    request = BoardRequest(new_source, name, options, update=True)
    (plan,) = board.leaderboards.plan(request)
    if plan.needs_force and not (force or dry_run or as_json):
        print_blocks(*plan_report(plan))
    if not dry_run:
        (plan,) = board.leaderboards.carry_out(request, {name: plan.after_change}, force=force, reason=reason)
    _print_plans([plan], as_json=as_json, stored=not dry_run and bool(plan.differences), of_source=source is not None)


@command("hpc-board delete softmax", "hpc-board delete softmax --yes --reason 'course is over'")
@click.argument("name", shell_complete=created_names)
@_reason
@_yes
def delete(open_: Open, name: str, reason: str, yes: bool, as_json: bool) -> None:
    """Delete a board and save its standings to a file.

    Asks for the board's name on the terminal; without one, --yes is required.
    Runs in flight continue, and all results stay in the database. Only the
    board's creator, its maintainers and admins may delete it.
    """
    board = open_()
    plan = board.leaderboards.plan_deletion(name)
    if not yes:
        users = sum(each.users for each in plan.left)
        _confirm_by_name(plan.name, f"{plan.name} has {users} entries in its standings. " if users else "")
    file = board.leaderboards.delete(name, reason=reason)
    if as_json:
        print_json(DeletionView(name=plan.name, action=str(plan.action), kept=str(file)))
    remark(f"Board {plan.name} deleted; its standings and options are saved in {file}.")
    if any(task.name == plan.name for task in board.tasks.catalog().tasks):
        remark(f"The task {plan.name} of the settings is listed again.")


@command(
    "hpc-board admin sync ./competition --problem-set beginner --dry-run",
    "hpc-board admin sync problems/beginner.yaml --deadline +30d",
    "hpc-board admin sync competition.zip --force --json",
)
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--problem-set", metavar="S", help="Competition S.yaml, if SOURCE has several.")
@_deadline
@click.option("--force", is_flag=True, help="Reset standings even if users have ranks.")
@_reason
@_dry_run
def sync(
    open_: Open,
    *,
    source: Path,
    problem_set: str | None,
    deadline: str | None,
    force: bool,
    reason: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Synchronize the boards with a competition.

    SOURCE is a folder with competitions (such as a clone of a repository),
    one competition (YAML), or a zip of these. Its tasks become boards: new
    ones are created, existing ones updated with files, GPUs and deadlines;
    --deadline replaces the deadlines of all of them.
    Options that the competition omits and other boards do not change. The
    exit code is 2 if tasks cannot be read, else 5 if tasks were skipped; all
    other tasks are synchronized.
    """
    from hpc_board.catalog.sources import packed_competition

    board = open_()
    sent, name = packed_competition(source, problem_set) if board.served else (str(source), problem_set)
    request = SyncRequest(sent, name, RequestedOptions(deadline), force)
    done = board.leaderboards.plan_sync(request)
    if not dry_run:
        changes = {each.plan.name: each.plan.after_change for each in done if each.plan and each.stored}
        board.leaderboards.carry_out(request, changes, force=force, reason=reason)
    views = list(map(SyncedView.of, done))
    print_found(views, synced_table([(each.name, each.result, each.reason) for each in done]), as_json=as_json)
    if dry_run:
        remark("Nothing was stored.")
    results = {each.result for each in done}
    if "error" in results:
        raise click.exceptions.Exit(BAD_FILE)
    if "skipped" in results:
        raise click.exceptions.Exit(REFUSED)


@command("hpc-board admin milestones vectoradd_py", "hpc-board admin milestones vectoradd_py --gpu H100")
@click.argument("name", metavar="TASK", shell_complete=task_names)
@gpus_option("Only this GPU; comma-separated or repeated. Default: all GPUs of the task.")
def milestones(open_: Open, name: str, gpus: tuple[str, ...], as_json: bool) -> None:
    """Run the milestones of a task.

    The board shows the newest passing run of each milestone without a rank. Requires the creator role.

    The exit codes are those of `submit` without --wait.
    """
    board = open_()
    names = listed(gpus)
    runs = board.submissions.submit_milestones(name, names)
    if as_json:
        print_json(listed_runs(board, runs))
    else:
        print_blocks(runs_table(runs))
    report_unsent(runs, served=board.served)
    raise click.exceptions.Exit(NO_VERDICT if any(run.state == "error" for run in runs) else DONE)


def _source(board: Board, words: str, format_name: str | None, name: str | None) -> PackedSource | str:
    """Return the source of tasks that `words` name; a service gets its contents, as it does not read paths.

    Raises:
        InputError: for a board with another `name`, it is both a task and a folder.
    """
    from hpc_board.catalog.sources import packed

    is_bare = name not in (None, words) and "/" not in words and is_folder(Path(words))
    if is_bare and any(task.name == words for task in board.tasks.catalog().tasks):
        raise InputError(
            f"{one_line(words)} is a task and a folder here.",
            hint=f"./{one_line(words)} is the folder; for the task, run the command in another folder.",
        )
    return packed(words, format_name) if board.served or format_name else words


def _print_plans(plans: tuple[Plan, ...] | list[Plan], *, as_json: bool, stored: bool, of_source: bool = True) -> None:
    views = [PlanView.of(plan, stored=stored) for plan in plans]
    print_found(views, *(block for plan in plans for block in plan_report(plan)), as_json=as_json)
    for plan in plans:
        if plan.unfit_gpus:
            remark(f"{plan.name}: {plan.unfit_gpus}")
        if plan.shadows:
            remark(f"{plan.name}: the board replaces the task of this name in the settings.")
        if plan.shows_names:
            remark(
                f"{plan.name}: the deleted board was anonymous; without --anonymous, users will see each other's names."
            )
        if plan.task is not None and of_source:
            for warning in plan.task.warnings:
                remark(f"{plan.name}: task.yml, {warning}")
    if not stored:
        remark("Nothing was stored.")


def _confirm_by_name(name: str, what: str) -> None:
    """Ask for the board's name on the terminal.

    Raises:
        click.UsageError: stdin is not a terminal.
        click.Abort: the answer is another name.
    """
    require_terminal()
    if click.prompt(f"{what}Type the name of the board to delete it", err=True, default="", show_default=False) != name:
        click.echo("Wrong name; nothing was deleted.", err=True)
        raise click.Abort
