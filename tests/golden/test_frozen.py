"""Results after a freeze and names of an anonymous board, looked for in every command, answer and page."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from hpc_board.board import Board
from hpc_board.board.context import PublicContext
from hpc_board.service.page import pages
from hpc_board.store import Store
from hpc_board.store.folder import DATABASE
from hpc_board.store.ranking import set_team
from tests.golden import board as made
from tests.golden.board import GoldenBoard
from tests.golden.internals import Sent, Served
from tests.golden.test_hidden import answer_texts, every_command
from tests.values import replace

pytestmark = pytest.mark.slow

_FREEZE = "2024-05-01"
_NAME, _RESULT = re.compile("mallory"), re.compile(r"17[.,]?317|17\.3 µs")
_NAMED = {"before": (18_118.0, datetime(2024, 4, 1, tzinfo=UTC)), "after": (17_317.0, datetime(2024, 6, 1, tzinfo=UTC))}


@pytest.fixture
def frozen_board(made_board: GoldenBoard, tmp_path_factory: pytest.TempPathFactory) -> GoldenBoard:
    """The golden board with a user of `scan` that is its best, and is better still after the freeze."""
    board = made_board.copy(tmp_path_factory.mktemp("frozen") / "made")
    sent = [
        Sent(
            *("mallory", "scan", "ranked"),
            [made._moved(made._scanned("H100", (time_ns,) * 3), at, f"hb-{name}")],
            *(name, "mallory.py", f"mallory = {name!r}\n", "by mallory"),
            at=at,
        )
        for name, (time_ns, at) in _NAMED.items()
    ]
    (before,), (after,) = board.commands.record("dean", sent)
    done = board.run("dean", "create", "scan", "scan", "--freeze", _FREEZE, "--anonymous")
    assert done.exit_code == 0, done.stderr
    with Store(board.folder / "board" / DATABASE).file.writing() as db:
        for user in ("mallory", "mallory-2"):
            set_team(db, "scan", user, "@mallory")
    return replace(board, runs={**board.runs, "before": before, "after": after})


def _every_page(board: GoldenBoard) -> Iterator[str]:
    installation = Board.open(board.folder / board.settings, {}).context.installation
    public = Board.within(PublicContext(installation, lambda _: None))
    tasks = [f"boards/{task.name}" for task in public.tasks.catalog().tasks]
    for path in ("", "feed", *tasks, *(f"runs/{number}" for number in range(1, board.runs["after"] + 1))):
        yield pages.page(public, path, datetime.now(UTC)) or ""


def test_no_command_answer_or_page_tells_others_a_result_after_the_freeze_or_a_name(
    frozen_board: GoldenBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = frozen_board
    service = Served(board.folder, monkeypatch, advancing=False)
    opened = replace(board, served=service)
    own = [
        *("show scan --top all", "show scan --all-runs --json", "show scan --rank 1", "feed --limit 100 --json"),
        *("runs --all --limit 200", "runs --all --limit 200 --json", "run {before}", "run {after}", "code {after}"),
        *("history scan --user mallory", "show --user mallory", "compare {best} {before}", "compare {best} {after}"),
    ]
    told: dict[str, str] = {}
    try:
        of_dean = opened.run("dean", "show", "scan", "--top", "all").stdout
        sent = answer_texts(monkeypatch)
        commands = [("ada", argv, board.settings, None) for argv in own]
        for user, argv, settings, width in (*commands, *every_command(served=True)):
            if user != "dean":
                done = replace(opened, settings=settings).run(user, *argv.split(), width=width)
                told[argv] = done.stdout + done.stderr
        page = opened.run("dean", "admin", "export", "--format", "html")
    finally:
        service.close()

    assert "@mallory (mallory, mallory-2)" in of_dean
    assert _RESULT.search(of_dean), of_dean
    assert "18.1 µs" in told["show scan --top all"]
    assert sent
    for words, text in (*told.items(), ("html", page.stdout), *(("page", text) for text in _every_page(board))):
        assert not _RESULT.search(text), (words, text)
        assert "mallory" in words or not _NAME.search(text), (words, text)
    answered = [text for text in sent if _RESULT.search(text) or _NAME.search(text)]
    # The services echo the name that a command gives.
    assert not [text for text in answered if "mallory" not in text or "unknown user" not in text]
