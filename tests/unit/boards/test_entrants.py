"""Entrants of an account, tags and parents of submissions."""

import csv
import getpass
from typing import Any

import pytest

from hpc_board import Board as Scripting
from hpc_board.board import Board
from hpc_board.domain.clock import utc_now
from hpc_board.domain.draft import SubmissionRequest
from hpc_board.domain.moderation import Rerun
from hpc_board.domain.origin import Origin, author_of, author_text, default_origin, entrant_of, tag_words, tags_of
from hpc_board.domain.run import RunState
from hpc_board.errors import BoardError, InputError, Refused
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from tests.scripted import Scripted
from tests.unit.recorded import Recorded, call, read, result_of, timed_case
from tests.values import replace, requested

ME = getpass.getuser()

pytestmark = pytest.mark.usefixtures("scheduler")


def request(board: Recorded, *tags: str, entrant: str = "", parent: int | None = None) -> SubmissionRequest:
    return replace(requested(board.kernel, gpus=["CPU"]), origin=Origin(entrant, tags_of(tags), parent))


# Names and tags


def test_an_entrant_is_shown_behind_its_user() -> None:
    assert (author_text("ada", "agent-b"), author_text("ada", "")) == ("ada/agent-b", "ada")
    assert (author_of("ada/agent-b"), author_of("ada")) == (("ada", "agent-b"), ("ada", None))
    assert [entrant_of(words, "ada") for words in ("agent-b", "ada/agent-b")] == ["agent-b", "agent-b"]
    assert default_origin({"HPC_BOARD_AS": "agent-b"}) == Origin("agent-b")


def test_a_name_cannot_be_that_of_an_entrant_of_another_account() -> None:
    for words in ("bob/agent-b", "/agent-b", "ada/bob/agent-b"):
        with pytest.raises(Refused, match=f'the entrant "{words}" is not one of ada'):
            entrant_of(words, "ada")


@pytest.mark.parametrize("words", ["", " ", "a b", "-a", "a" * 65, "ada/", "a\x1b[2J", "ägent"])
def test_a_name_that_is_none_is_refused(words: str) -> None:
    with pytest.raises(InputError, match="invalid entrant"):
        entrant_of(words, "ada")


def test_tags_are_sorted_by_key() -> None:
    tags = tags_of(["step=3", "model = small 2", "url=https://a?b=c"])
    assert tags == (("model", "small 2"), ("step", "3"), ("url", "https://a?b=c"))
    assert tags_of(tag_words(tags)) == tags


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model"], 'invalid tag "model"'),
        (["model="], 'invalid tag "model="'),
        (["=small"], 'invalid tag "=small"'),
        (["a b=small"], "invalid tag"),
        (["model=" + "x" * 101], "invalid tag"),
        (["model=\x1b[2J"], "invalid tag"),
        (["a=1", "a=2"], 'the tag "a" is given twice'),
        ([f"t{number}=1" for number in range(21)], r"too many tags: 21 \(limit 20\)"),
    ],
)
def test_tags_are_bounded(words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tags_of(words)


# Submissions


def test_a_submission_keeps_its_entrant_its_tags_and_its_parent(board: Recorded) -> None:
    submit = board.board.submissions.submit
    (first,) = submit([request(board)])
    (second,) = submit([request(board, "model=small", "step=2", entrant=f"{ME}/agent-b", parent=1)])
    submit([request(board, "model=large", entrant="agent-c", parent=1)])
    assert second.origin == Origin("agent-b", (("model", "small"), ("step", "2")), 1)
    assert (first.author, second.author) == (ME, f"{ME}/agent-b")
    assert board.board.runs.whole(1).children == (2, 3)
    run = read(board, "run", "2")
    assert (run["entrant"], run["tags"], run["parent"]) == ("agent-b", {"model": "small", "step": "2"}, 1)
    assert (run["children"], read(board, "run", "1")["children"]) == ([], [2, 3])
    text = call(board, "run", "2").stdout
    for line in (f"entrant    {ME}/agent-b", "tags       model=small, step=2", "parent     submission 1"):
        assert f"\n{line}\n" in text
    assert "\nchildren   submissions 2, 3\n" in call(board, "run", "1").stdout


def test_runs_are_found_by_entrant_and_tags(board: Recorded) -> None:
    board.board.submissions.submit(
        [
            request(board, "model=small", "step=1", entrant="agent-a"),
            request(board, "model=small", "step=2", entrant="agent-b"),
            request(board, "model=large", "step=2"),
        ]
    )
    board.add(user="bob", origin=Origin("agent-a"))

    def found(*argv: str) -> list[int]:
        return [run["id"] for run in read(board, "runs", *argv)]

    assert found("--as", "agent-a") == [1]
    assert found("--tag", "step=2") == [3, 2]
    assert found("--tag", "step=2", "--tag", "model=small") == [2]
    assert found("--tag", "step=2", "--as", "agent-a") == []
    assert found("--user", f"{ME}/agent-b") == [2]
    assert found("--user", "bob/agent-a") == [4]
    assert found("--all", "--as", "agent-a") == [4, 1]
    assert board.board.submissions.entrants() == ("agent-a", "agent-b")
    assert board.board.submissions.entrants("bob") == ("agent-a",)
    assert "  agent-b  " in call(board, "runs").stdout
    assert f"  {ME}/agent-b  " in call(board, "runs", "--all").stdout
    assert call(board, "runs", "--as", "agent-z").stdout == "No matching runs.\n"
    assert [run.get("entrant") for run in read(board, "runs", "--json=brief")] == [None, "agent-b", "agent-a"]


def test_the_header_names_an_entrant_and_tags_which_the_command_precedes(board: Recorded) -> None:
    head = "#!HPCBOARD as agent-h\n#!HPCBOARD tag model=small step=1\n#!HPCBOARD tag seed=4\n"
    board.kernel.write_text(head + board.kernel.read_text())
    submit = board.board.submissions.submit
    (by_header,), (by_both,) = submit([request(board)]), submit([request(board, "step=2", entrant="agent-b")])
    assert by_header.origin == Origin("agent-h", (("model", "small"), ("seed", "4"), ("step", "1")))
    assert by_both.origin == Origin("agent-b", (("model", "small"), ("seed", "4"), ("step", "2")))
    board.kernel.write_text("#!HPCBOARD tag model\n" + board.kernel.read_text())
    with pytest.raises(InputError, match=r'kernel\.py: invalid tag "model"'):
        submit([request(board)])


def test_the_environment_names_an_entrant(board: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPC_BOARD_AS", "agent-e")
    read(board, "submit", board.kernel, "--gpu", "CPU")
    read(board, "submit", board.kernel, "--gpu", "CPU", "--as", "agent-b", "--tag", "step=1", "--parent", "1")
    assert [run.origin for run in board.board.runs.list()] == [
        Origin("agent-b", (("step", "1"),), 1),
        Origin("agent-e"),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"entrant": "bob/agent-b"}, f'the entrant "bob/agent-b" is not one of {ME}'),
        ({"entrant": "a b"}, 'invalid entrant "a b"'),
        ({"parent": 7}, "there is no submission 7"),
        ({"parent": 1}, f"the owner is bob, not {ME}"),
    ],
)
def test_a_faulty_origin_stores_nothing(
    board: Recorded, scheduler: Scripted, change: dict[str, Any], message: str
) -> None:
    board.add(user="bob")
    with pytest.raises(BoardError, match=message):
        board.board.submissions.submit([request(board, **change)])
    assert (scheduler.submitted, len(board.board.runs.list())) == ([], 0)


def test_an_account_has_a_bounded_number_of_entrants(
    board: Recorded, scheduler: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpc_board.store.submissions.ENTRANTS_MAX", 2)
    board.add(user="bob", origin=Origin("agent-z"))
    submit = board.board.submissions.submit
    submit([request(board, entrant=entrant) for entrant in ("a", "b", "a", "")])
    with pytest.raises(InputError, match=f"{ME} has 2 entrants, and c would be more than 2"):
        submit([request(board, entrant="b"), request(board, entrant="c")])
    assert len(scheduler.submitted) == 4
    assert len(submit([request(board, entrant="b")])) == 1


def test_an_identical_file_of_another_entrant_is_a_new_one(board: Recorded, scheduler: Scripted) -> None:
    submit = board.board.submissions.submit
    for entrant, number, reused in (("a", 1, False), ("b", 2, False), ("a", 1, True), ("", 3, False)):
        (run,) = submit([request(board, entrant=entrant)], if_new=True)
        assert (run.id, run.reused, run.repeats) == (number, reused, None)
    assert len(scheduler.submitted) == 3


def test_a_rerun_keeps_the_entrant(board: Recorded) -> None:
    passed = replace(result_of(Verdict.PASS, timed_case()))
    board.add(result=passed, score_s=1e-3, user="bob", origin=Origin("agent-z", (("a", "1"),)))
    (run,) = board.board.submissions.rerun("vectoradd_py", [1], submissions=[1])
    rerun = run.remarks.rerun
    assert isinstance(rerun, Rerun)
    assert (run.author, run.origin, rerun.of_submission) == ("bob/agent-z", Origin("agent-z"), 1)
    assert run.state is not RunState.ERROR


# Standings


def three_accounts(board: Recorded) -> None:
    """Store ranked runs: two agents of bob, one also ahead of this user, who has an agent and runs without one."""
    for user, entrant, score_ms in (
        ("bob", "agent-z", 5.0),
        ("bob", "agent-y", 2.0),
        (ME, "agent-a", 3.0),
        (ME, "", 4.0),
        (ME, "agent-a", 6.0),
        ("cyd", "", 3.0),
    ):
        result = result_of(Verdict.PASS, timed_case())
        board.add(result=result, score_s=score_ms / 1e3, user=user, origin=Origin(entrant))


def rows(board: Recorded, *argv: str) -> list[tuple[int, str]]:
    (page,) = read(board, "show", "vectoradd_py", "--gpu", "CPU", *argv)["boards"]
    return [(row["rank"], author_text(row["user"], row["entrant"] or "")) for row in page["rows"]]


def test_standings_rank_accounts_or_their_entrants(board: Recorded) -> None:
    three_accounts(board)
    assert rows(board) == [(1, "bob/agent-y"), (2, f"{ME}/agent-a"), (2, "cyd")]
    assert rows(board, "--by", "entrant") == [
        (1, "bob/agent-y"),
        (2, f"{ME}/agent-a"),
        (2, "cyd"),
        (4, ME),
        (5, "bob/agent-z"),
    ]
    assert rows(board, "--by", "entrant", "--from", "3", "--top", "2") == [(2, "cyd"), (4, ME)]
    (page,) = read(board, "show", "vectoradd_py", "--gpu", "CPU", "--by", "entrant", "--top", "1")["boards"]
    assert (page["total"], page["own"]["entrant"], page["own"]["rank"]) == (5, "agent-a", 2)
    text = call(board, "show", "vectoradd_py", "--gpu", "CPU", "--by", "entrant").stdout
    assert f"  {ME}/agent-a (you)  " in text
    assert f"  {ME} (you)  " in text
    assert "bob/" not in call(board, "show", "vectoradd_py", "--gpu", "CPU").stdout
    done = call(board, "show", "vectoradd_py", "--by", "entrant", "--all-runs")
    assert (done.exit_code, "mutually exclusive" in done.stderr) == (2, True)


def test_a_history_and_the_feed_are_those_of_an_account_or_of_an_entrant(board: Recorded) -> None:
    three_accounts(board)

    def runs(*argv: str) -> list[int]:
        (page,) = read(board, "history", "vectoradd_py", "--gpu", "CPU", *argv)["boards"]
        return [row["run"] for row in page["runs"]]

    assert (runs(), runs("--user", f"{ME}/agent-a"), runs("--user", f"{ME}/")) == ([3, 4, 5], [3, 5], [4])
    assert runs("--user", "bob/agent-a") == []
    feed = read(board, "feed", "--user", "bob/agent-y")
    assert [(entry["user"], entry["entrant"], entry["run"]) for entry in feed] == [("bob", "agent-y", 2)]
    assert len(read(board, "feed", "--user", "bob")) == 2
    assert "bob/agent-y set a personal best, rank 1, on vectoradd_py" in call(board, "feed").stdout


def test_the_rank_of_an_entrant_leaves_out_its_removed_runs(board: Recorded) -> None:
    three_accounts(board)
    board.board.moderation.remove([3], "cached")
    assert rows(board, "--by", "entrant")[2:] == [(3, ME), (4, "bob/agent-z"), (5, f"{ME}/agent-a")]


def test_the_page_of_a_user_is_that_of_the_account_of_its_entrants_or_of_one(board: Recorded) -> None:
    three_accounts(board)

    def ranks(*argv: str) -> list[tuple[int, int, str | None]]:
        page = read(board, "show", *argv)
        return [(row["rank"], row["users"], row["entrant"]) for row in page["ranks"]]

    assert ranks("--user", "bob") == [(1, 3, "agent-y")]
    assert ranks("--user", "bob", "--by", "entrant") == [(1, 5, "agent-y"), (5, 5, "agent-z")]
    assert ranks("--user", "bob/agent-z") == [(5, 5, "agent-z")]
    assert [run["id"] for run in read(board, "show", "--user", "bob/agent-z")["runs"]] == [1]
    text = call(board, "show", "--user", "bob", "--by", "entrant").stdout
    assert "  ENTRANT  " in text
    assert "  ENTRANTS  " in text
    assert "bob/" in call(board, "show", "vectoradd_py", "--by", "entrant").stdout
    python = Scripting(board.settings)
    told = [(row.entrant, row.rank) for row in python.ranks("bob", by="entrant")]
    assert (told, [row.rank for row in python.ranks("bob")]) == ([("agent-y", 1), ("agent-z", 5)], [1])
    with pytest.raises(InputError, match='unknown kind of rows "agent"'):
        python.ranks("bob", by="agent")


def test_statistics_count_accounts_or_entrants(board: Recorded) -> None:
    three_accounts(board)

    def counts(*argv: str) -> dict[str, int]:
        return {row["user"]: row["runs"] for row in read(board, "admin", "stats", *argv)["top_users"]}

    assert counts() == {"bob": 2, ME: 3, "cyd": 1}
    assert counts("--by", "entrant") == {"bob/agent-y": 1, "bob/agent-z": 1, f"{ME}/agent-a": 2, ME: 1, "cyd": 1}
    assert f"\n{ME}/agent-a  " in call(board, "admin", "stats", "--by", "entrant").stdout


def test_a_limit_of_an_entrant_holds_beside_those_of_its_account(board: Recorded) -> None:
    for entrant in ("agent-a", "agent-b"):
        board.add(user="bob", origin=Origin(entrant), mode=Mode.TEST, at=utc_now())
    bob = Board(board.board.settings, user="bob")

    def preview(*entrants: str) -> None:
        bob.submissions.preview([request(board, entrant=entrant) for entrant in entrants])

    limit = ("admin", "limit", "vectoradd_py", "--other", "2", "--user")
    assert "vectoradd_py" in call(board, *limit, "bob/agent-b").stderr
    preview("agent-a", "agent-b", "agent-a", "agent-c", "")
    with pytest.raises(Refused, match=r"bob/agent-b has sent 1 of at most 2 .* within an hour, and these are 2"):
        preview("agent-a", "agent-b", "agent-b")
    with pytest.raises(Refused, match=r"but its limit is 2 per hour for bob/agent-b\. Send fewer"):
        preview(*["agent-b"] * 3)
    call(board, *limit, "bob")
    with pytest.raises(Refused, match="you have sent 2 of at most 2"):
        preview("agent-c")
    assert [row["user"] for row in read(board, "admin", "limits")] == ["bob", "bob/agent-b"]
    refused = [call(board, *limit, words) for words in ("bob/a b", "nobody-here/agent-b")]
    assert [each.exit_code for each in refused] == [2, 2]


def test_an_export_has_the_origin(board: Recorded) -> None:
    board.add(user="bob", origin=Origin("agent-z"))
    board.add(user="bob", origin=Origin("agent-y", tags_of(["model=small", "step=2"]), 1))
    path = board.folder / "runs.csv"
    assert call(board, "admin", "export", "--format", "csv", "-o", path).exit_code == 0
    with path.open() as file:
        lines = [*csv.DictReader(file)]
    assert [(line["entrant"], line["parent"]) for line in lines] == [("agent-z", ""), ("agent-y", "1")]
    assert "model=small" in lines[1]["tags"]
