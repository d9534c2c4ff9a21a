"""The JSON of notices: the input of the command that is notified of events."""

from hpc_board.domain.notify import NoticeKind
from hpc_board.report.views import Moment, View
from hpc_board.report.views.diagnostics import DiagnosticView
from hpc_board.report.views.standings import FeedView


class NoticeView(View, frozen=True):
    """An event; the keys of the other events are `null`."""

    event: NoticeKind
    """`records`, `deadlines` or `doctor`"""
    text: str
    """the event in one line"""
    at: Moment
    """the time of the notice"""
    board: str | None = None
    """the name of the board"""
    closed: bool | None = None
    """true if only members see the board"""
    change: FeedView | None = None
    """the change of first place"""
    deadline: Moment | None = None
    """the deadline of the board"""
    diagnostic: DiagnosticView | None = None
    """the finding of `admin doctor`"""
