"""A board that ada looks after: its boards, people, ranked runs and log, and what she decides about them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

from hpc_board.board.admin_views import AdminViews
from hpc_board.board.moderation import Moderation
from hpc_board.domain.admin_views import BoardState, LimitUse, PersonState
from hpc_board.domain.board_options import BoardOptions, Visibility
from hpc_board.domain.moderation import (
    BAN,
    BOARD,
    LIMIT,
    REMOVE,
    START,
    STOP,
    SUBMISSION,
    USER,
    Decision,
    Limits,
    Period,
    Remark,
    Remarks,
    Removal,
)
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Run, RunState
from hpc_board.errors import BoardError
from hpc_board.model.result import Verdict
from tests.tui.fake_board import NOW, RUNS, FakeBoard, run
from tests.values import replace

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)

BOARDS = (
    BoardState("conv2d", ("H100",), NOW - timedelta(hours=20)),
    BoardState("grayscale", ("H100", "A100"), NOW + timedelta(hours=7), BoardOptions("carol"), submissions=31, users=9),
    BoardState("identity", ("L4",), None),
    BoardState(
        "matmul",
        (),
        NOW + 12 * DAY,
        BoardOptions("carol", visibility=Visibility.CLOSED, teams=("@red", "@blue"), late_seconds=3600),
        (Limits(5, 60), Limits(20, None, Period.DAY)),
        4,
        2,
    ),
    BoardState("prefixsum", ("H100", "A100", "L4"), NOW + 40 * DAY, limits=(Limits(0, None),)),
    BoardState(
        "vectoradd",
        ("H100", "A100", "L4"),
        NOW + 9.5 * DAY,
        BoardOptions("ada"),
        limits=(Limits(2, None), Limits(9, user="bob")),
    ),
)

PEOPLE = (
    PersonState("ada", Role.ADMIN, None, NOW - MINUTE, 3, 4),
    PersonState("bob", Role.PARTICIPANT, None, NOW - 70 * 60 * MINUTE),
    PersonState("carol", Role.CREATOR, None, NOW - 9 * MINUTE, 2, 2, (LimitUse("matmul other", 2, 60),)),
    PersonState(
        "dmitri-with-a-long-name",
        Role.PARTICIPANT,
        None,
        NOW - 20 * MINUTE,
        2,
        6,
        (LimitUse("vectoradd ranked", 2, 2),),
    ),
    PersonState(
        "eve",
        Role.PARTICIPANT,
        Decision(BAN, USER, "eve", "ada", NOW - DAY, "floods the queue", (NOW + 2 * DAY).isoformat()),
        NOW - DAY,
    ),
    PersonState(
        "mallory",
        Role.NONE,
        Decision(BAN, USER, "mallory", "zoe", NOW - 40 * DAY, "returns what an earlier call computed, again and again"),
        NOW - 41 * DAY,
    ),
)

REMOVED = Remarks(
    notes=(Remark("bank conflicts are gone", "eve", NOW - DAY),),
    removal=Removal("ada", NOW - DAY, "returns what an earlier call computed"),
)

LOG = (
    Decision(REMOVE, SUBMISSION, "15", "ada", NOW - DAY, "returns what an earlier call computed", number=14),
    Decision(BAN, USER, "eve", "ada", NOW - DAY, "floods the queue", (NOW + 2 * DAY).isoformat(), number=12),
    Decision(LIMIT, BOARD, "vectoradd", "ada", NOW - 2 * DAY, detail='{"ranked":2}', number=10),
    Decision("update", BOARD, "matmul", "carol", NOW - 3 * DAY, "a week more", number=7),
    Decision(START, "", "", "zoe", NOW - 4 * DAY, number=8),
    Decision(STOP, "", "", "zoe", NOW - 5 * DAY, "the cluster is down until Monday", number=6),
)


def ranked_runs() -> list[Run]:
    removed = run(31, RunState.FINISHED, ago_minutes=60 * 25, user="eve", verdict=Verdict.PASS, score_s=9e-6)
    return [*RUNS, replace(removed, remarks=REMOVED, note="float4")]


class _Oversight:
    """Shows what its board knows, as `Oversight` does."""

    def __init__(self, board: "AdminBoard") -> None:
        self._board = board

    def stop(self) -> Decision | None:
        self._board._enter("stopped")
        return self._board.stopped

    def boards(self) -> tuple[BoardState, ...]:
        self._board._enter("boards")
        board = self._board
        return tuple(each for each in board.states if board.role is Role.ADMIN or each.creator == board.user)

    def people(self, *, limit: int, part: str) -> tuple[PersonState, ...]:
        self._board._enter("people")
        return tuple(each for each in self._board.persons if part.lower() in each.name.lower())[:limit]


class _Moderation:
    """Decides about what its board knows, as far as tests hold a decision back or let it fail."""

    def __init__(self, board: "AdminBoard") -> None:
        self._board = board

    def stop(self, reason: str = "") -> bool:
        self._board._enter(STOP)
        self._board.stopped = Decision(STOP, "", "", self._board.user, NOW, reason)
        return True

    def ban(self, user: str, reason: str, until: str = "") -> bool:  # noqa: ARG002
        self._board._enter(BAN)
        return True

    def decisions(self, *, limit: int) -> tuple[Decision, ...]:
        return tuple(self._board.decided[:limit])


class AdminBoard(FakeBoard):
    """A board of which the user is an admin, or what `role` says."""

    def __init__(
        self,
        *,
        role: Role = Role.ADMIN,
        states: Sequence[BoardState] = BOARDS,
        persons: Sequence[PersonState] = PEOPLE,
        decided: Sequence[Decision] = LOG,
        runs: Sequence[Run] | None = None,
        failures: dict[str, BoardError] | None = None,
        held: Sequence[str] = (),
    ) -> None:
        super().__init__(runs=ranked_runs() if runs is None else runs, failures=failures, held=held)
        self.role = role
        self.states = list(states)
        self.persons = list(persons)
        self.decided = list(decided)
        self.stopped: Decision | None = None
        self.moderation = cast("Moderation", _Moderation(self))
        self.admin_views = cast("AdminViews", _Oversight(self))

    def change_state(self, name: str, **changes: Any) -> None:
        """Let a board be different from now on."""
        self.states = [replace(each, **changes) if each.name == name else each for each in self.states]
