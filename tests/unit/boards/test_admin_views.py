"""Views of admins: the state of boards, and users with the rules that hold for them."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hpc_board import settings
from hpc_board.board import Board
from hpc_board.domain.board_options import RequestedOptions, Visibility
from hpc_board.domain.moderation import BAN, USER, Decision, Limits, Period, Rerun
from hpc_board.domain.roles import Role
from hpc_board.errors import Refused
from hpc_board.model.task import Mode
from hpc_board.store import Store
from hpc_board.store.submissions import NewRun, NewSubmission
from tests.unit.recorded import Recorded, recorded
from tests.values import created

NOW = datetime(2030, 1, 2, 12, tzinfo=UTC)
ROLES = "roles: {admins: [zoe], creators: [carl, '@nobody-is-in-this'], participants: ['@everybody', ada, bob, eve]}\n"


@pytest.fixture
def place(tmp_path: Path) -> Recorded:
    place = recorded(tmp_path)
    place.settings.write_text(place.settings.read_text() + ROLES)
    return place


def board_of(place: Recorded, user: str | None = None) -> Board:
    return Board(settings.load(place.settings, {}), user=user)


def store_of(place: Recorded) -> Store:
    return Store(place.folder / "board" / "board.db")


def sent(
    place: Recorded,
    user: str,
    *,
    minutes_ago: float = 1,
    task: str = "vectoradd_py",
    mode: Mode = Mode.RANKED,
    gpus: int = 1,
    milestone: str = "",
    rerun: Rerun | None = None,
) -> None:
    at = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    token = f"hb-{time.time_ns()}"
    runs = [NewRun(f"G{n}", "here", "", f"{token}-{n}", "n", "self-run", False, "s") for n in range(gpus)]
    found = board_of(place).tasks.get(task)
    new = NewSubmission(found, user, "k.py", b"x", mode, "", at, runs, milestone, rerun)
    store_of(place).submissions.add_all([new], sender=None)


def test_there_is_every_board_with_what_holds_and_what_was_sent_within_the_hour(place: Recorded) -> None:
    admin = board_of(place)
    created(admin, "vectoradd_py", "secret", RequestedOptions(closed=True, deadline="+3d"))
    admin.moderation.limit("vectoradd_py", [Limits(5, 60)])
    for user, minutes in (("ada", 5), ("ada", 20), ("bob", 59), ("bob", 61)):
        sent(place, user, minutes_ago=minutes)
    states = {state.name: state for state in admin.admin_views.boards()}
    assert list(states) == [task.name for task in admin.tasks.catalog().tasks]
    open_, secret = states["vectoradd_py"], states["secret"]
    assert (open_.submissions, open_.users, open_.limits, open_.terms) == (3, 2, (Limits(5, 60),), None)
    assert (secret.visibility, secret.submissions) == (Visibility.CLOSED, 0)
    assert secret.creator == admin.user
    assert secret.deadline is not None
    assert admin.admin_views.stop() is None
    admin.moderation.stop("down")
    stop = admin.admin_views.stop()
    assert stop is not None
    assert stop.reason == "down"


def test_a_creator_looks_after_their_own_boards_and_nobody_else_after_any(place: Recorded) -> None:
    admin, carl = board_of(place), board_of(place, "carl")
    created(admin, "vectoradd_py", "another")
    created(carl, "vectoradd_py", "mine", RequestedOptions(closed=True))
    assert [state.name for state in carl.admin_views.boards()] == ["mine"]
    with pytest.raises(Refused, match="this requires the role admin, but carl's is creator"):
        carl.admin_views.people()
    with pytest.raises(Refused, match="this requires the role creator, but ada's is participant"):
        board_of(place, "ada").admin_views.boards()


def test_people_are_those_who_sent_something_were_decided_about_or_are_named(place: Recorded) -> None:
    admin = board_of(place)
    sent(place, "mia")
    store_of(place).moderation.switch(Decision(BAN, USER, "kim", "zoe", NOW, "x"))
    people = admin.admin_views.people()
    assert [person.name for person in people] == ["ada", "bob", "carl", "eve", "kim", "mia", "zoe"]
    roles = {person.name: person.role for person in people}
    assert (roles["ada"], roles["carl"], roles["mia"], roles["zoe"]) == (
        Role.PARTICIPANT,
        Role.CREATOR,
        Role.NONE,
        Role.ADMIN,
    )
    assert [person.name for person in people if person.ban] == ["kim"]


def test_people_are_searched_by_name(place: Recorded) -> None:
    for number in range(5):
        sent(place, f"user2{number}")
        sent(place, f"user2{number}", minutes_ago=2)
    admin = board_of(place)
    assert len(admin.admin_views.people()) == 10
    assert [person.name for person in admin.admin_views.people(part="R2", limit=3)] == ["user20", "user21", "user22"]
    assert admin.admin_views.people(part="%") == ()


def test_a_person_has_what_they_did_within_the_hour_and_the_limits_that_it_counts_against(place: Recorded) -> None:
    admin = board_of(place)
    admin.moderation.limit("vectoradd_py", [Limits(2, None), Limits(4, None, Period.DAY)])
    admin.moderation.limit("matmul_py", [Limits(None, 9)])
    sent(place, "ada", gpus=3)
    sent(place, "ada", minutes_ago=2)
    sent(place, "ada", minutes_ago=3, mode=Mode.TEST)
    sent(place, "ada", minutes_ago=4, task="matmul_py", mode=Mode.TEST)
    sent(place, "ada", minutes_ago=90)
    sent(place, "bob", milestone="fast")
    sent(place, "bob", minutes_ago=2, rerun=Rerun(1, "zoe", NOW))
    sent(place, "zoe")
    people = {person.name: person for person in admin.admin_views.people()}
    ada, bob, eve, zoe = (people[name] for name in ("ada", "bob", "eve", "zoe"))
    assert (ada.submissions, ada.runs) == (4, 6)
    assert [(use.name, use.used, use.limit, use.holds) for use in ada.uses] == [
        ("matmul_py other per hour", 1, 9, False),
        ("vectoradd_py ranked per hour", 2, 2, True),
        ("vectoradd_py ranked per day", 3, 4, False),
    ]
    assert (bob.submissions, bob.uses) == (2, ())
    assert (eve.submissions, eve.newest_at) == (0, None)
    assert ada.newest_at is not None
    assert (zoe.submissions, zoe.uses) == (1, ())


def test_a_name_that_no_account_can_have_is_nobody(place: Recorded) -> None:
    sent(place, "a\0b")
    assert ("a\0b", Role.NONE) in {(person.name, person.role) for person in board_of(place).admin_views.people()}
