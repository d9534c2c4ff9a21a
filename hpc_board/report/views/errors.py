"""The JSON of a command that fails."""

from hpc_board.report.views import Lines, View


class ErrorView(View, frozen=True):
    """An error of a command."""

    kind: str
    """`usage`: wrong words; `input`: a bad file, name or setting; `storage`: the board's folder; `scheduler`: no
    answer; `rejected`: by the scheduler; `timeout`: of a wait; `refused`: by the rules of the board; `failure`: any
    other"""
    message: Lines
    """the error"""
    hint: Lines
    """the remedy; empty if there is none"""
    exit_code: int
    """the [exit code](scripts.md#exit-codes) of the command"""


class FailureView(View, frozen=True):
    """The object of a command that fails before it has printed its own."""

    error: ErrorView
    """the error"""
