"""The screens of the app's targets; a screen's module is imported when the screen is first opened."""

from typing import TYPE_CHECKING

from textual.dom import DOMNode

from hpc_board.domain.roles import Role
from hpc_board.tui import targets

if TYPE_CHECKING:
    from hpc_board.board import Board
    from hpc_board.tui.choice import Choice
    from hpc_board.tui.screens.base import BoardScreen, Clock


def screen_of(target: targets.Target, board: "Board", now: "Clock", choice: "Choice", role: Role) -> "BoardScreen":
    """Return a new screen for the target; its module is imported when it is first opened."""
    match target:
        case targets.Tasks():
            from hpc_board.tui.screens.tasks import TasksScreen

            return TasksScreen(board, now)
        case targets.Submit(edited=edited, of_run=of_run):
            from hpc_board.tui.screens.submit import SubmitScreen

            return SubmitScreen(board, now, choice, edited=edited, of_run=of_run)
        case targets.Watch(file, task, gpus, options):
            from hpc_board.tui.screens.watch import Watched, WatchScreen

            return WatchScreen(board, now, Watched(file, task, gpus, options))
        case targets.Runs(gpu, everyone, first):
            from hpc_board.tui.screens.runs import RunsScreen

            return RunsScreen(board, now, first, gpu=gpu, everyone=everyone)
        case targets.Report(run):
            from hpc_board.tui.screens.report import ReportScreen

            return ReportScreen(board, now, run)
        case targets.Cluster():
            from hpc_board.tui.screens.cluster import ClusterScreen

            return ClusterScreen(board, now)
        case targets.Standings(task, gpu):
            from hpc_board.tui.screens.standings import StandingsScreen

            return StandingsScreen(board, now, task, gpu)
        case targets.Code(submission, of_task):
            from hpc_board.tui.screens.code import CodeScreen

            return CodeScreen(board, now, submission, of_task)
        case targets.Compare(first, second):
            from hpc_board.tui.screens.compare import CompareScreen

            return CompareScreen(board, now, first, second)
        case targets.Trend(task, gpu, user):
            from hpc_board.tui.screens.trend import TrendScreen

            return TrendScreen(board, now, task, gpu, user)
        case targets.Feed(of_task):
            from hpc_board.tui.screens.feed import FeedScreen

            return FeedScreen(board, now, of_task)
        case targets.Admin():
            from hpc_board.tui.screens.admin import AdminScreen

            return AdminScreen(board, now, role)
    raise ValueError(f"no screen for {target}")


def keyed_screens() -> tuple[type[DOMNode], ...]:
    """Return the screens and lists with keys that preferences can change."""
    from hpc_board.tui.screens.admin import AdminScreen
    from hpc_board.tui.screens.code import CodeScreen
    from hpc_board.tui.screens.compare import CompareScreen
    from hpc_board.tui.screens.feed import FeedScreen
    from hpc_board.tui.screens.report import ReportScreen
    from hpc_board.tui.screens.runs import RunsScreen
    from hpc_board.tui.screens.standings import StandingsScreen
    from hpc_board.tui.screens.submit import SubmitScreen
    from hpc_board.tui.screens.tasks import TasksScreen
    from hpc_board.tui.widgets.grid import Grid

    return (
        AdminScreen,
        TasksScreen,
        SubmitScreen,
        RunsScreen,
        ReportScreen,
        StandingsScreen,
        CompareScreen,
        FeedScreen,
        CodeScreen,
        Grid,
    )
