"""`show`, `history`, `feed` and `compare`: standings, scores over time, and two files."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from hpc_board.board import Board
from hpc_board.cli.options import (
    NUMBER,
    ROWS_MAX,
    Number,
    Open,
    by_option,
    command,
    force_option,
    gpu_names,
    gpus_option,
    limit_option,
    other_run_numbers,
    plot_option,
    run_numbers,
    task_names,
    user_names,
)
from hpc_board.cli.output import (
    listed_rows,
    listed_runs,
    print_blocks,
    print_diff,
    print_json,
    refresh,
    remark,
    row_limit,
    table_time,
    warning,
    write_plot,
)
from hpc_board.domain.gpus import none_allowed
from hpc_board.domain.origin import By, author_of
from hpc_board.domain.standing import Page, Rows
from hpc_board.errors import InputError, NoTimes
from hpc_board.model.names import listed
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Block
from hpc_board.report.standings import board_report, leaders_report, rank_report, user_report, versions_table

if TYPE_CHECKING:
    from hpc_board.domain.feed import FeedEntry

_ROWS = 20
_HISTORY_MAX = 10_000

_name = click.argument("name", metavar="TASK", shell_complete=task_names)
_name_if_any = click.argument("name", metavar="[TASK]", shell_complete=task_names, required=False)
_gpus = gpus_option("Only this GPU; comma-separated or repeated. Default: all GPUs of the task.")
_top = limit_option("rows", _ROWS, "--top")
_from = click.option(
    "--from",
    "place",
    type=Number(ROWS_MAX),
    metavar="K",
    default=1,
    help="First rank to show.",
)
_version = click.option(
    "--task-version",
    "version",
    metavar="VERSION",
    help="Standings of this task version, or of the `previous` one; `show --versions` lists them.",
)


@command(
    "hpc-board show",
    "hpc-board show vectoradd_py",
    "hpc-board show vectoradd_py --gpu H100,A100 --json",
    "hpc-board show vectoradd_py --gpu H100 --top 20 --from 21",
    "hpc-board show vectoradd_py --gpu H100 --rank 3",
    "hpc-board show vectoradd_py --own",
    "hpc-board show vectoradd_py --task-version previous",
    "hpc-board show vectoradd_py --by entrant",
    "hpc-board show --user ada --by entrant",
    "hpc-board show --competition practice",
    sections={
        "Rows": ("gpus", "top", "place", "own", "all_runs", "by", "rank"),
        "Other standings": ("version", "user", "competition", "versions"),
    },
)
@_name_if_any
@_gpus
@_top
@_from
@click.option("--own", is_flag=True, help="Only your own passing ranked runs, ranked among themselves.")
@click.option("--all-runs", is_flag=True, help="All passing ranked runs, not only each user's best.")
@by_option("One row for each account, or for each of its entrants.")
@click.option("--rank", type=Number(ROWS_MAX), metavar="K", help="Show details of the entries with this rank.")
@_version
@click.option(
    "--user", metavar="USER", help="A user's ranks on all boards, and newest runs.", shell_complete=user_names
)
@click.option("--competition", metavar="NAME", help="The overall standings of a competition, by the name of its file.")
@click.option("--versions", is_flag=True, help="List the task's versions with dates and numbers of entries.")
def show(
    open_: Open,
    *,
    name: str | None,
    gpus: tuple[str, ...],
    top: int | None,
    place: int,
    own: bool,
    all_runs: bool,
    by: str,
    rank: int | None,
    version: str | None,
    user: str | None,
    competition: str | None,
    versions: bool,
    as_json: bool,
) -> None:
    """Show the standings of a task on each GPU.

    A row is an account's best passing ranked run, or with --by entrant that of each of its entrants. Your own row is
    always shown. Rows without a rank are the task's reference and milestones. Without TASK, it lists the boards
    with their leaders.

    With --own, late runs and those removed by an admin follow, with the reason.
    """
    by_entrant, of_rows = by == By.ENTRANT, own or all_runs or top is not None or place > 1
    of_page = of_rows or by_entrant
    if own + all_runs + by_entrant > 1:
        raise click.UsageError("--own, --all-runs and --by entrant are mutually exclusive.")
    if rank is not None and of_page:
        raise click.UsageError("--rank cannot be combined with --top, --from, --own, --by or --all-runs.")
    if versions and (rank is not None or of_page or gpus or version):
        raise click.UsageError("--versions cannot be combined with other options.")
    if user is not None or competition is not None:
        others = of_rows if competition is None else own or all_runs or place > 1 or by == "entrant" or user
        if name or gpus or rank is not None or version or versions or others:
            if user is not None and name:
                words = f"`hpc-board history {name} --user {user}` shows a user's runs on a leaderboard"
                raise click.UsageError(f"--user cannot be combined with TASK; {words}.")
            raise click.UsageError("--user can only be combined with --by, and --competition with --top.")
        _print_named(open_(), user or "", By(by), competition, row_limit(top, _ROWS, as_json=as_json), as_json=as_json)
        return
    if name is None:
        if versions or rank is not None or of_page or version:
            raise click.UsageError("Missing argument 'TASK'.")
        _print_leaders(open_(), listed(gpus), as_json=as_json)
        return
    board = open_()
    if versions:
        _print_versions(board, name, as_json=as_json)
        return
    chosen = _gpu_names_of(board, name, gpus)
    if rank is not None:
        _print_rank(board, name, chosen, rank, version, as_json=as_json)
        return
    rows = Rows.OWN if own else Rows.RUNS if all_runs else Rows.ENTRANTS if by_entrant else Rows.USERS
    limit = row_limit(top, _ROWS, as_json=as_json)
    pages = board.standings.pages(name, chosen, version=version, rows=rows, limit=limit, offset=place - 1)
    _print_pages(board, name, pages, rows, as_json=as_json)
    if version is None and not any(page.total for page in pages) and _standings_reset(board, name):
        remark(f"Standings reset. Former standings: `hpc-board show {name} --task-version previous`.")


@command(
    "hpc-board history vectoradd_py",
    "hpc-board history vectoradd_py --gpu H100 --user ada --json",
    "hpc-board history vectoradd_py --gpu H100 --plot history.svg",
)
@_name
@_gpus
@click.option(
    "--user",
    metavar="USER",
    help="Runs of this user, an entrant (USER/NAME) or a team (@GROUP); default: you.",
    shell_complete=user_names,
)
@_version
@plot_option
@force_option
def history(
    open_: Open,
    *,
    name: str,
    gpus: tuple[str, ...],
    user: str | None,
    version: str | None,
    plot: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Show your times on a board over time.

    Prints a table of all passing ranked runs in order of submission, and a plot of two runs or more. VS FASTEST is the
    change from the fastest earlier run. The plot also has the 80 % confidence interval of each score and the best time
    of the board.
    """
    from hpc_board.report.histories import history_plot, history_report

    board = open_()
    chosen = _gpu_names_of(board, name, gpus)
    whose = user or board.user
    pages = board.standings.pages(name, chosen, version=version, rows=Rows.NEWEST, limit=_HISTORY_MAX, user=whose)
    if not any(page.rows for page in pages):
        _require_known(board, whose)
    task = board.tasks.get(name).name
    records = {page.gpu: board.standings.records(name, page.gpu, version=version) for page in pages}
    if plot is not None:
        plots = [
            replace(
                history_plot(page, records[page.gpu]),
                title=f"{task} on {page.gpu}: scores of {one_line(whose)} by submission",
            )
            for page in pages
            if len(page.rows) > 1
        ]
        write_plot(plot, plots, force=force, nothing=f"{one_line(whose)} has fewer than two passing ranked runs there")
    if as_json:
        from hpc_board.report.views.standings import HistoriesView, HistoryView

        print_json(HistoriesView(task=task, user=one_line(whose), boards=list(map(HistoryView.of, pages))))
    else:
        shown = [page for page in pages if page.rows] or pages
        reports = (history_report(task, page, whose, records[page.gpu]) for page in shown)
        print_blocks(*chain.from_iterable(reports))


def _require_known(board: Board, user: str) -> None:
    """Require that a user, or the account of an entrant, has a rank or a run.

    Raises:
        InputError: neither is visible; the hint offers the nearest name.
    """
    board.standings.of_user(author_of(user)[0])


def _print_pages(board: Board, name: str, pages: Sequence[Page], rows: Rows, *, as_json: bool) -> None:
    task = board.tasks.get(name).name
    uncounted = {
        page.gpu: board.standings.uncounted(task, page.gpu, page.version) if rows is Rows.OWN else () for page in pages
    }
    if as_json:
        from hpc_board.report.views import views_of
        from hpc_board.report.views.runs import LateRunView, RemovedRunView
        from hpc_board.report.views.standings import OwnPageView, OwnStandingsView, PageView, StandingsView

        if rows is Rows.OWN:
            own = []
            for page in pages:
                removed, late = (
                    [run for run in uncounted[page.gpu] if (run.remarks.removal is None) is is_late]
                    for is_late in (False, True)
                )
                views = {"removed": views_of(RemovedRunView, removed), "late": views_of(LateRunView, late)}
                own.append(OwnPageView.of(page, **views))
            print_json(OwnStandingsView(task=task, boards=own))
        else:
            print_json(StandingsView(task=task, boards=[PageView.of(page) for page in pages]))
        return
    blocks: list[Block] = []
    for page in pages:
        end = page.offset + len(page.rows)
        more = [f"Next: `--from {end + 1}`."] if end < page.total else []
        if rows in (Rows.USERS, Rows.ENTRANTS):
            more.append("All: `--top all`.")
        blocks += board_report(
            task,
            page,
            board.user,
            own_runs=rows is Rows.OWN,
            entrants=rows is not Rows.USERS,
            more=" ".join(more),
            now=table_time(),
        )
        if uncounted[page.gpu]:
            from hpc_board.report.moderation import uncounted_blocks

            blocks += uncounted_blocks(uncounted[page.gpu])
    print_blocks(*blocks)


def _print_leaders(board: Board, gpus: Sequence[str], *, as_json: bool) -> None:
    """Print the first row of each board, and that of the user."""
    chosen = {board.gpus.get(each).name for each in gpus}
    refresh(board)
    found = []
    for task in board.tasks.catalog().tasks:
        names = [gpu.name for gpu in board.gpus.allowed(task) if not chosen or gpu.name in chosen]
        found.append((task.name, board.standings.pages(task.name, names, limit=1)))
    if as_json:
        from hpc_board.report.views.standings import PageView, StandingsView

        print_json([StandingsView(task=task, boards=[PageView.of(page) for page in pages]) for task, pages in found])
    else:
        print_blocks(*leaders_report(found, board.user))


def _print_named(board: Board, user: str, by: By, competition: str | None, limit: int | None, *, as_json: bool) -> None:
    if competition is None:
        _print_user(board, user, by, as_json=as_json)
    else:
        _print_overall(board, competition, limit, as_json=as_json)


def _print_overall(board: Board, competition: str, limit: int | None, *, as_json: bool) -> None:
    refresh(board)
    found = board.standings.overall(competition, limit=limit)
    if as_json:
        from hpc_board.report.views import view_of
        from hpc_board.report.views.grading import OverallView

        print_json(view_of(OverallView, found))
    else:
        from hpc_board.report.grading import overall_report

        print_blocks(*overall_report(found))


def _print_user(board: Board, user: str, by: By, *, as_json: bool) -> None:
    refresh(board)
    page = board.standings.of_user(user, by)
    if as_json:
        from hpc_board.report.views.standings import UserPageView

        print_json(UserPageView.of(page, listed_runs(board, page.runs)))
    else:
        print_blocks(*user_report(page, table_time()))


def _standings_reset(board: Board, name: str) -> bool:
    """Return whether only former versions of the task have ranked users."""
    present = board.tasks.get(name).version
    ranked = {each.version for each in board.standings.versions(name) if each.entries}
    return bool(ranked) and present not in ranked


def _print_rank(board: Board, name: str, gpus: Sequence[str], rank: int, version: str | None, *, as_json: bool) -> None:
    task = board.tasks.get(name).name
    pages = board.standings.pages(name, gpus, version=version, limit=1)
    held = [(page, board.standings.at_rank(name, page.gpu, rank, version=version)) for page in pages]
    if not any(entries for _, entries in held):
        counts = ", ".join(f"{page.gpu} has {page.total}" for page in pages)
        raise InputError(
            f"no entry with rank {rank} on {task}", hint=f"Users on each board: {counts}. Ties leave gaps."
        )
    if as_json:
        from hpc_board.report.views.standings import RanksView, RankView

        print_json(RanksView(task=task, rank=rank, boards=[RankView.of(page, rows) for page, rows in held]))
    else:
        print_blocks(*chain.from_iterable(rank_report(task, page, rows) for page, rows in held if rows))


def _print_versions(board: Board, name: str, *, as_json: bool) -> None:
    task = board.tasks.get(name)
    found = board.standings.versions(name)
    if as_json:
        from hpc_board.report.views.standings import VersionsView, VersionView

        print_json(VersionsView(task=task.name, versions=[VersionView.of(each, task.version) for each in found]))
    else:
        print_blocks(versions_table(found, task.version))


def _gpu_names_of(board: Board, name: str, words: Sequence[str]) -> list[str]:
    """Return the names of the given GPUs, or of all of the task's; update the runs in flight first."""
    task = board.tasks.get(name)
    names = listed(words)
    chosen = [board.gpus.get(each) for each in names] or board.gpus.allowed(task)
    if not chosen:
        raise none_allowed(task, board.gpus.all())
    refresh(board)
    return [gpu.name for gpu in chosen]


@command("hpc-board feed", "hpc-board feed vectoradd_py --gpu H100 --limit 5", "hpc-board feed --json")
@click.argument("name", metavar="[TASK]", required=False, shell_complete=task_names)
@click.option("-g", "--gpu", metavar="GPU", help="Only the boards of this GPU.", shell_complete=gpu_names)
@click.option(
    "--user", metavar="USER", help="Only changes by this user, or an entrant: USER/NAME.", shell_complete=user_names
)
@limit_option("entries", _ROWS)
@click.option("--before", type=Number(2**63 - 1), metavar="ID", help="Only entries older than this one.")
def feed(
    open_: Open,
    *,
    name: str | None,
    gpu: str | None,
    user: str | None,
    limit: int | None,
    before: int | None,
    as_json: bool,
) -> None:
    """Show recent changes to the standings.

    Newest first: records, top-three ranks, first results and personal bests, with the users they beat.
    """
    board = open_()
    refresh(board)

    def older(size: int, newer: "list[FeedEntry]") -> "Sequence[FeedEntry]":
        return board.standings.feed(task=name, gpu=gpu, user=user, before=newer[-1].id if newer else before, limit=size)

    entries = listed_rows(older, limit, _ROWS, as_json=as_json)
    if user and not entries:
        _require_known(board, user)
    if as_json:
        from hpc_board.report.views.standings import FeedView

        print_json(list(map(FeedView.of, entries)))
    else:
        from hpc_board.report.feeds import feed_lines

        print_blocks(feed_lines(entries))


@command(
    "hpc-board compare 12 15",
    "hpc-board compare 12 15 --diff",
    "hpc-board compare 12 15 --gpu H100 --json",
    "hpc-board compare 12 15 --plot cases.svg",
)
@click.argument("one", metavar="ID", type=NUMBER, shell_complete=run_numbers)
@click.argument("other", metavar="OTHER", type=NUMBER, shell_complete=other_run_numbers)
@gpus_option("Only on this GPU; may be repeated. Default: that of both runs, or all common GPUs.")
@click.option("--diff", is_flag=True, help="Also print the unified diff of the files, also if they have no times.")
@plot_option
@force_option
def compare(
    open_: Open,
    *,
    one: int,
    other: int,
    gpus: Sequence[str],
    diff: bool,
    plot: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Compare the files of two runs.

    Prints the change from the older file to the newer in each case and its
    95 % confidence interval, or "within noise" if the interval includes no
    difference. For two profiles, it prints the metrics of each kernel.
    """
    from hpc_board.board.code_diff import code_diff
    from hpc_board.report.comparisons import comparison_plot, comparison_report

    board = open_()
    refresh(board)
    code = code_diff(board.submissions, one, other) if diff else None
    try:
        found = board.submissions.compare(one, other, gpus)
    except NoTimes as error:
        if code is None or code.text is None or gpus:
            raise
        found = []
        warning(f"{error.message}. {error.hint}")
    if plot is not None:
        plots = [drawn for each in found if (drawn := comparison_plot(each.runs, each.comparison))]
        write_plot(plot, plots, force=force, nothing="the runs have no common benchmark case")
    if as_json:
        from hpc_board.report.views.standings import ComparisonsView, ComparisonView

        boards = [ComparisonView.of(each.runs, each.results, each.comparison) for each in found]
        task = board.runs.get(one).task
        print_json(ComparisonsView(task=task, boards=boards, diff=None if code is None else code.text))
    else:
        reports = (comparison_report(each.runs, each.results, each.comparison) for each in found)
        if found:
            print_blocks(*(block for report in reports for block in report))
        if code is not None and code.text:
            print_diff(code.text, after_text=bool(found))
    if code is not None and code.remark:
        remark(code.remark)
