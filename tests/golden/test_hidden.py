"""Hidden cases of tasks, looked for in each command's output, answers, logs, notices, pages, tools and screens."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hpc_board.agents.tools import called
from hpc_board.board import Board
from hpc_board.domain.export import TABLES
from hpc_board.service import answers
from tests.golden import board as golden_board_module
from tests.golden import test_exports, test_json, test_text
from tests.golden.board import BEGAN, GoldenBoard, golden_board
from tests.golden.internals import Sent, Served
from tests.golden.tasks import lay_out
from tests.tui.driving import app_on, press, settled, text_of
from tests.unit.service.test_page import ask
from tests.values import replace

pytestmark = pytest.mark.slow

_CASES = "hidden_tests: [{size: 1877, seed: 88011}], hidden_benchmarks: [{size: 1879, seed: 88012}]"
_NUMBERS = re.compile(r"(?<![\w.])(187[79]|8801[12])(?![\w.])")


def _with_hidden_cases(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a task, and give it hidden cases if hpc-board judges it; "narrow" is copied by a creator."""
    document = files.get("task.yml", "") if folder.name != "narrow" else ""
    if "hpc_board:\n" in document:
        document = document.replace("hpc_board:\n", f"hpc_board:\n  {_CASES.replace('], ', ']' + chr(10) + '  ')}\n")
    elif document and "hpc_board:" not in document:
        document += f"hpc_board: {{{_CASES}}}\n"
    lay_out(folder, {**files, "task.yml": document} if document else files)


@pytest.fixture(scope="module")
def hiding_board(tmp_path_factory: pytest.TempPathFactory) -> GoldenBoard:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(golden_board_module, "lay_out", _with_hidden_cases)
        return golden_board(tmp_path_factory.mktemp("hidden") / "made")


def every_command(*, served: bool) -> Iterator[tuple[str, str, str, int | None]]:
    """Yield the user, the words, the settings and the width of each command of the golden files."""
    for case in test_json.CASES:
        if not case.answering and not (served and case.files_alone):
            yield from ((case.user, argv, case.settings, None) for argv in case.before)
            yield case.user, f"{case.argv} {case.form}", case.settings, None
    for text in test_text.CASES:
        if not (served and text.files_alone):
            yield from ((text.user, argv, text.settings, text.width) for argv in text.argvs)
    for export in (*test_exports.CASES.values(), "traces", *(f"jsonl --with-output --what {each}" for each in TABLES)):
        yield "dean", f"admin export --format {export}", "hpc-board.yaml", None
    for language in ("py", "cu"):
        yield "ada", f"template scan --language {language}", "hpc-board.yaml", None


def _leaks(texts: Iterable[str]) -> list[str]:
    """Return the numbers of hidden cases in texts, with the words around each."""
    return [text[max(0, it.start() - 80) : it.end() + 20] for text in texts for it in _NUMBERS.finditer(text)]


def answer_texts(patch: pytest.MonkeyPatch) -> list[str]:
    """Return the list that takes the text of each answer of a service in this process."""
    sent: list[str] = []

    def answer_text(value: object) -> bytes:
        text = answer(value)
        sent.append(text.decode())
        return text

    answer = answers._answer_text
    patch.setattr(answers, "_answer_text", answer_text)
    return sent


async def _screens(board: Board) -> list[str]:
    """Return the texts of the app's screens about tasks, runs, standings and a submission."""
    texts, app = [], app_on(board)
    async with app.run_test(size=(200, 60)) as pilot:
        await settled(pilot)
        for keys in ("", "enter", "b", "enter", "2", "3", "escape s", "escape f", "A", "3", "4"):
            await press(pilot, *keys.split())
            texts.append(text_of(app))
    return texts


def test_no_notice_tells_a_hidden_case(hiding_board: GoldenBoard, tmp_path: Path) -> None:
    board = hiding_board.copy(tmp_path / "board")
    settings, told = board.folder / "hpc-board.yaml", tmp_path / "told"
    settings.write_text(f"{settings.read_text()}notify: {{command: [sh, -c, 'cat >> {told}'], on: [records]}}\n")
    record = golden_board_module._moved(golden_board_module._scanned("H100", (9_000,) * 3), BEGAN, "hb-record")
    assert board.run("dean", "poll").exit_code == 0
    board.commands.record("dean", [Sent("cyd", "scan", "ranked", [record], code="# record\n", at=BEGAN)])
    assert board.run("dean", "poll").exit_code == 0

    assert "cyd took first place on scan, H100" in told.read_text()
    assert _leaks([told.read_text()]) == []


async def test_no_page_no_tool_and_no_screen_tells_even_an_admin_a_hidden_case(
    hiding_board: GoldenBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = answer_texts(monkeypatch)
    board = hiding_board.copy(tmp_path / "board")
    service = Served(board.folder, monkeypatch, advancing=False)
    try:
        reached = service.board("hpc-board.yaml", "dean")
        pages = ["", "feed", "metrics", *(f"boards/{task.name}" for task in reached.tasks.catalog().tasks)]
        runs = [number for name, number in board.runs.items() if not name.startswith("submission")]
        pages += [f"runs/{number}" for number in runs[::5]]
        told = [ask(Path(str(reached.address)).with_suffix(".http"), f"/{path}") for path in pages]
        texts = [page.text for page in told if page.status == 200]
        assert len(texts) > 15
        run, best = board.runs["best"], board.runs["first"]
        calls: list[tuple[str, dict[str, Any]]] = [("task", {"name": "scan"}), ("tasks", {}), ("report", {"run": run})]
        calls += [("standings", {"task": "scan", "gpu": "H100"}), ("compare", {"run": run, "other": best})]
        calls += [
            ("history", {"task": "scan"}),
            ("profile", {"run": board.runs["profiled"]}),
            ("wait", {"runs": [run]}),
        ]
        texts += [called(reached, tool, arguments).text for tool, arguments in calls]
        screens = await _screens(reached)
        assert any("Hidden cases" in text for text in screens)
    finally:
        service.close()
    assert '"event"' in service.log()
    assert _leaks([*texts, *screens, *sent, service.log()]) == []


@pytest.mark.parametrize("served", [False, True], ids=["files", "service"])
def test_no_command_and_no_answer_of_a_service_tells_a_hidden_case(
    hiding_board: GoldenBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: bool
) -> None:
    sent = answer_texts(monkeypatch)
    board = hiding_board.copy(tmp_path / "board")
    service = Served(board.folder, monkeypatch, advancing=False) if served else None
    told = {}
    try:
        for user, argv, settings, width in every_command(served=served):
            opened = replace(board, settings=settings, served=service)
            done = opened.run(user, *argv.split(), width=width)
            told[argv] = done.stdout + done.stderr
    finally:
        if service is not None:
            service.close()

    assert re.search("hidden cases +1 test and 1 benchmark, in ranked runs", told["task scan"])
    # The author checks a folder of their own, as far as a busy machine comes in the time of a check.
    own = "task check drafts/course --json"
    assert _leaks(text for argv, text in told.items() if argv != own) == []
    assert bool(sent) == served
    assert _leaks(sent) == []
