"""The orders of a list of runs: by a column, and the position of a run in such an order."""

from enum import StrEnum

import msgspec

from hpc_board.domain.run import Run, RunState
from hpc_board.model.result import Verdict


class SortColumn(StrEnum):
    """A column by which runs are sorted."""

    RUN = "run"
    USER = "user"
    TASK = "task"
    GPU = "gpu"
    STATE = "state"
    SCORE = "score"


_GOING = tuple(state.value for state in RunState if not state.ended)
_VERDICTS = tuple(verdict.value for verdict in Verdict)
_STOPPED = tuple(state.value for state in RunState if state.ended and state is not RunState.FINISHED)

OUTCOMES: tuple[str, ...] = tuple(dict.fromkeys((*_GOING, *_VERDICTS, *_STOPPED)))
"""The verdicts and other states in the order of a list by state: runs in flight, passed, failed, stopped."""

Value = str | int | float | None
"""The value of a run in the column of an order; None sorts last in both directions."""


class RunPosition(msgspec.Struct, frozen=True):
    """A position in an order: that of the run with this number and value, which need not be in the list."""

    run: int
    value: Value = None


class RunOrder(msgspec.Struct, frozen=True):
    """The order of a list of runs by a column: ascending, or `reverse`.

    Runs with equal values have the newest first, and so has the order by number unless `reverse`.
    """

    by: SortColumn = SortColumn.RUN
    reverse: bool = False

    @property
    def descending(self) -> bool:
        """Return whether keys of this order descend."""
        return self.reverse is not (self.by is SortColumn.RUN)

    def value(self, run: Run) -> Value:
        """Return the value of a run in the column; None for the number, which each position has."""
        match self.by:
            case SortColumn.RUN:
                return None
            case SortColumn.USER:
                return run.user
            case SortColumn.TASK:
                return run.task
            case SortColumn.GPU:
                return run.gpu
            case SortColumn.STATE:
                return OUTCOMES.index(run.verdict.value if run.verdict else run.state.value)
            case SortColumn.SCORE:
                return run.score_s

    def position(self, run: Run) -> RunPosition:
        """Return the position of a run."""
        return RunPosition(run.id, self.value(run))

    def key(self, run: Run) -> tuple[bool, Value, int]:
        """Return the key of a run in this order, whose keys are `descending` or ascend."""
        value = self.value(run)
        has_value = value is not None
        # Runs without a value are last, and of equal runs the newest is first.
        number = run.id if self.descending or self.by is SortColumn.RUN else -run.id
        return has_value is self.descending, value if has_value else 0, number


NEWEST_FIRST = RunOrder()
