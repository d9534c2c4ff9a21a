"""A board that ada looks after: its boards, people, ranked runs and log, and what she decides about them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, cast

from hpc_board.board.admin_views import AdminViews
from hpc_board.board.moderation import Moderation
from hpc_board.domain.admin_views import BoardState, LimitUse, PersonState
from hpc_board.domain.board_options import (
    BoardOptions,
    Visibility,
    deadline_of,
    moment_words,
)
from hpc_board.domain.draft import RerunCandidate, Source
from hpc_board.domain.moderation import (
    BAN,
    BOARD,
    LIMIT,
    READMIT,
    REMOVE,
    START,
    STOP,
    SUBMISSION,
    UNBAN,
    USER,
    Category,
    Decision,
    Limits,
    Remark,
    Remarks,
    Removal,
)
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Run, RunState
from hpc_board.domain.submission import Submission
from hpc_board.domain.user_board import Action, BoardRequest, Difference, Plan
from hpc_board.errors import BoardError
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from tests.tui.fake_board import A100, H100, NOW, RUNS, FakeBoard, run
from tests.values import replace

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)

BOARDS = (
    BoardState("conv2d", ("H100",), NOW - timedelta(hours=20)),
    BoardState("grayscale", ("H100", "A100"), NOW + timedelta(hours=7), "carol", submissions=31, users=9),
    BoardState("identity", ("L4",), None),
    BoardState("matmul", (), NOW + 12 * DAY, "carol", Visibility.CLOSED, Limits(5, 60), 4, 2),
    BoardState("prefixsum", ("H100", "A100", "L4"), NOW + 40 * DAY, limits=Limits(0, None)),
    BoardState("vectoradd", ("H100", "A100", "L4"), NOW + 9.5 * DAY, "ada", limits=Limits(2, None)),
)

PEOPLE = (
    PersonState("ada", Role.ADMIN, None, NOW - MINUTE, 3, 4),
    PersonState("bob", Role.PARTICIPANT, None, NOW - 70 * 60 * MINUTE),
    PersonState("carol", Role.CREATOR, None, NOW - 9 * MINUTE, 2, 2, (LimitUse("matmul", Category.OTHER, 2, 60),)),
    PersonState(
        "dmitri-with-a-long-name",
        Role.PARTICIPANT,
        None,
        NOW - 20 * MINUTE,
        2,
        6,
        (LimitUse("vectoradd", Category.RANKED, 2, 2),),
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
    Decision(LIMIT, BOARD, "vectoradd", "ada", NOW - 2 * DAY, detail=Limits(2, None).to_json(), number=10),
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
    """Decides about what its board knows, as `Moderation` does."""

    def __init__(self, board: "AdminBoard") -> None:
        self._board = board

    def _decided(self, action: str, kind: str, subject: str, reason: str, detail: str = "") -> Decision:
        self._board._enter(action)
        number = max((each.number for each in self._board.decided), default=0) + 2
        decision = Decision(action, kind, subject, self._board.user, NOW, reason, detail, number)
        self._board.decided.insert(0, decision)
        return decision

    def stop(self, reason: str = "") -> bool:
        self._board.stopped = self._decided(STOP, "", "", reason)
        return True

    def start(self, reason: str = "") -> bool:
        self._decided(START, "", "", reason)
        self._board.stopped = None
        return True

    def ban(self, user: str, reason: str, until: str = "") -> bool:
        end = (NOW + 2 * DAY).isoformat() if until else ""
        self._board.change_person(user, self._decided(BAN, USER, user, reason, end))
        return True

    def unban(self, user: str, reason: str = "") -> bool:
        self._decided(UNBAN, USER, user, reason)
        self._board.change_person(user, None)
        return True

    def limit(self, board: str, limits: Limits, kept: Collection[Category] = ()) -> Limits:
        assert not kept
        self._decided(LIMIT, BOARD, board, "", limits.to_json())
        self._board.change_state(board, limits=limits)
        return limits

    def remove(self, numbers: Collection[int], reason: str) -> None:
        for number in numbers:
            decision = self._decided(REMOVE, SUBMISSION, str(number), reason)
            self._board.change_remarks(number, removal=Removal(decision.by_user, NOW, reason))

    def readmit(self, numbers: Collection[int], reason: str = "") -> None:
        for number in numbers:
            self._decided(READMIT, SUBMISSION, str(number), reason)
            self._board.change_remarks(number, removal=None)

    def decisions(self, *, limit: int) -> tuple[Decision, ...]:
        self._board._enter("decisions")
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
        self.plan: list[RerunCandidate] = []
        self.done: list[tuple[str, object]] = []
        self.moderation = cast("Moderation", _Moderation(self))
        self.admin_views = cast("AdminViews", _Oversight(self))

    def change_person(self, name: str, ban: Decision | None) -> None:
        """Let this ban, or none, hold for a user."""
        self.persons = [replace(each, ban=ban) if each.name == name else each for each in self.persons]

    def change_state(self, name: str, **changes: Any) -> None:
        """Let a board be different from now on."""
        self.states = [replace(each, **changes) if each.name == name else each for each in self.states]

    def change_remarks(self, submission: int, **changes: Any) -> None:
        """Let something else be remarked on a submission."""
        self.known_runs = [
            replace(each, remarks=replace(each.remarks, **changes)) if each.submission == submission else each
            for each in self.known_runs
        ]

    def plan_board(self, request: BoardRequest) -> tuple[Plan, ...]:
        self._enter("plan")
        (state,) = [each for each in self.states if each.name == request.name]
        options = request.options
        terms = BoardOptions(state.creator, state.deadline, state.gpus, state.visibility)
        if options.deadline is not None:
            new = replace(terms, deadline=deadline_of(options.deadline, NOW))
            found = Difference("deadline", moment_words(terms.deadline), moment_words(new.deadline))
        else:
            new = replace(terms, visibility=Visibility.CLOSED if options.closed else Visibility.PUBLIC)
            found = Difference("visibility", str(terms.visibility), str(new.visibility))
        return (Plan(state.name, Action.UPDATE, new, differences=(found,)),)

    def carry_out(
        self,
        request: BoardRequest,
        changes: Mapping[str, int],  # noqa: ARG002
        *,
        force: bool = False,  # noqa: ARG002
        reason: str = "",
    ) -> tuple[Plan, ...]:
        self._enter("carry_out")
        (plan,) = self.plan_board(request)
        self.done.append((plan.name, reason))
        self.change_state(plan.name, deadline=plan.options.deadline, visibility=plan.options.visibility)
        return (plan,)

    def rerun_plan(
        self,
        task: str,
        *,
        top: int = 100,
        gpus: Sequence[str] = (),
        submissions: Sequence[int] = (),  # noqa: ARG002
    ) -> list[RerunCandidate]:
        self._enter("rerun_plan")
        self.done.append((task, (top, tuple(gpus))))
        return self.plan

    def rerun(
        self,
        task: str,  # noqa: ARG002
        chosen: Sequence[int],
        *,
        top: int = 100,  # noqa: ARG002
        gpus: Sequence[str] = (),  # noqa: ARG002
        submissions: Sequence[int] = (),  # noqa: ARG002
    ) -> list[Run]:
        self._enter("rerun")
        sent = [each for each in self.plan if each.submission.id in chosen]
        return [run(50 + place, RunState.QUEUED, user=each.submission.user) for place, each in enumerate(sent)]

    def code(self, submission: int) -> tuple[str, bytes]:
        self._enter("code")
        return f"{submission}.py", b"import torch\n"

    def note(self, submission: int, text: str) -> None:
        self._enter("note")
        self.change_remarks(submission, notes=(Remark(text, self.user, NOW),))


def again(number: int, user: str, why: str = "") -> RerunCandidate:
    """A submission that is to be sent again on two GPUs, or `why` not."""
    found = Submission(number, "vectoradd", "v0", user, f"{user}.py", "0" * 64, Mode.RANKED, NOW - DAY)
    return RerunCandidate(found, None if why else Source(f"{user}.py", "import torch\n"), (H100, A100), why)
