"""The objects of JSON."""

from hpc_board.domain.moderation import Decision
from hpc_board.report.views import view_of
from hpc_board.report.views.moderation import DecisionView
from tests.unit.recorded import AT


def test_view_of_takes_the_attributes_safe_to_print() -> None:
    decision = Decision("ban", "user", "\x1b[31meve\n", "root", AT, reason="x" * 600)
    view = view_of(DecisionView, decision, by="dean")
    assert (view.by, view.subject, view.at) == ("dean", "eve", "2026-05-01T12:00:00Z")
    assert len(view.reason) == 500
