"""The rights of users: the settings' roles, Unix groups and the owner of the board's folder."""

import grp
import os
import pwd
from pathlib import Path

import pytest

from hpc_board import settings as config
from hpc_board.accounts import Groups
from hpc_board.board import Board
from hpc_board.domain.roles import Role, Roles
from hpc_board.errors import DocumentError, Refused
from tests.values import requested

ROLES = Roles(admins=("ada", "@ops"), creators=("@staff",), participants=("@students", "eve"))


@pytest.mark.parametrize(
    ("user", "groups", "role"),
    [
        ("ada", (), Role.ADMIN),
        ("bob", ("ops", "staff"), Role.ADMIN),
        ("bob", ("staff", "students"), Role.CREATOR),
        ("bob", ("students",), Role.PARTICIPANT),
        ("eve", (), Role.PARTICIPANT),
        ("bob", (), Role.NONE),
    ],
)
def test_the_highest_role_counts(user: str, groups: tuple[str, ...], role: Role) -> None:
    assert ROLES.role(user, groups, owner=False) is role


def test_the_owner_is_an_admin_whatever_the_lists_say() -> None:
    assert ROLES.role("bob", (), owner=True) is Role.ADMIN


def test_everybody_participates_where_nobody_is_named() -> None:
    assert Roles(admins=("ada",)).role("bob", (), owner=False) is Role.PARTICIPANT


def test_each_role_may_do_what_those_below_it_may() -> None:
    assert Role.ADMIN.may_act_as(Role.CREATOR)
    assert Role.CREATOR.may_act_as(Role.PARTICIPANT)
    assert Role.CREATOR.may_act_as(Role.CREATOR)
    assert not Role.PARTICIPANT.may_act_as(Role.CREATOR)
    assert not Role.NONE.may_act_as(Role.PARTICIPANT)


def _settings(folder: Path, roles: str) -> config.Settings:
    file = folder / "hpc-board.yaml"
    file.write_text(
        f"board: {folder}/board\nclusters: {{here: {{scheduler: local}}}}\ngpus: {{CPU: {{cluster: here}}}}\n{roles}"
    )
    return config.load(file, {})


def test_a_group_of_the_machine_gives_its_members_a_role(tmp_path: Path) -> None:
    me = pwd.getpwuid(os.geteuid())
    group = grp.getgrgid(me.pw_gid).gr_name
    settings = _settings(tmp_path, f'roles: {{creators: ["@{group}"], participants: [nobody]}}')
    (tmp_path / "board").mkdir()
    assert Board(settings).role is Role.ADMIN
    if os.geteuid() == 0:
        os.chown(tmp_path / "board", 12345, -1)
        assert Board(settings).context.role_of(me.pw_name) is Role.CREATOR
        os.chown(tmp_path / "board", 0, -1)
    stranger = Board(settings, user="hpc-board-nobody-has-this-name")
    assert stranger.role is Role.NONE
    with pytest.raises(Refused, match=r"you may not create boards: this requires the role creator, but .* has no role"):
        stranger.context.require(Role.CREATOR, "create boards")


def test_the_groups_of_somebody_are_asked_for_once_a_minute() -> None:
    asked: list[str] = []
    now = 0.0

    def ask(user: str) -> frozenset[str]:
        asked.append(user)
        return frozenset({f"{user}-{len(asked)}"})

    groups = Groups(ask, lambda: now)
    assert [groups.of("ada"), groups.of("bob"), groups.of("ada")] == [{"ada-1"}, {"bob-2"}, {"ada-1"}]
    now = 59.0
    assert groups.of("ada") == {"ada-1"}
    now = 60.0
    assert groups.of("ada") == {"ada-3"}
    assert asked == ["ada", "bob", "ada"]


def test_few_of_those_whose_groups_were_asked_for_are_remembered() -> None:
    asked: list[str] = []

    def ask(user: str) -> frozenset[str]:
        asked.append(user)
        return frozenset()

    groups = Groups(ask, lambda: 0.0)
    for number in range(5_000):
        groups.of(f"user{number}")
    groups.of("user4999")
    groups.of("user0")
    assert len(asked) == 5_001
    assert asked[-1] == "user0"


@pytest.mark.parametrize(("roles", "asks"), [("creators: [ada]", 0), ("creators: [ada, '@staff']", 2)])
def test_groups_are_asked_for_only_where_the_roles_name_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roles: str, asks: int
) -> None:
    found = []
    real = os.getgrouplist

    def getgrouplist(user: str, group: int) -> list[int]:
        found.append(user)
        return real(user, group)

    monkeypatch.setattr(os, "getgrouplist", getgrouplist)
    board = Board(_settings(tmp_path, f"roles: {{{roles}, participants: [daemon, nobody]}}"))
    assert board.role is Role.ADMIN
    found.clear()
    for _ in range(3):
        people = board.admin_views.people()
    assert [person.name for person in people if person.role is Role.PARTICIPANT] == ["daemon", "nobody"]
    assert len(found) == asks


def test_somebody_who_is_no_participant_neither_sees_nor_submits(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("#!POPCORN leaderboard vectoradd_py\n")
    settings = _settings(tmp_path, "roles: {participants: [nobody]}")
    (tmp_path / "board").mkdir()
    board = Board(settings)
    requests = [requested(tmp_path / "kernel.py", gpus=["CPU"])]
    (run,) = board.submissions.submit(requests)
    board.runs.cancel_each([run.id])
    stranger = Board(settings, user="hpc-board-nobody-has-this-name")
    submits = r"you may not submit to this board: this requires the role participant"
    with pytest.raises(Refused, match=submits):
        stranger.submissions.preview(requests)
    with pytest.raises(Refused, match=submits):
        stranger.submissions.submit(requests)
    assert len(board.runs.list(everyone=True)) == 1
    sees = r"you may not see "
    for look in (
        stranger.tasks.catalog,
        lambda: stranger.tasks.get("vectoradd_py"),
        lambda: stranger.standings.pages("vectoradd_py", ["CPU"]),
        lambda: stranger.runs.list(everyone=True),
        lambda: stranger.runs.list(user=board.user),
        lambda: stranger.runs.get(run.id),
        lambda: stranger.submissions.compare(1, 1),
    ):
        with pytest.raises(Refused, match=sees):
            look()
    assert stranger.runs.list() == ()
    assert stranger.runs.in_flight() == ()


def test_a_name_that_nobody_can_have_is_a_fault_of_the_settings(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"roles\.admins\[0\].*the name of a Unix user, or of a group with @"):
        _settings(tmp_path, 'roles: {admins: ["two words"]}')
