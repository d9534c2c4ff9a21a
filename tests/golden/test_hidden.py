"""Hidden cases of tasks, looked for in the output of every command and in every answer of a service."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from hpc_board.service import answers
from tests.golden import board as golden_board_module
from tests.golden import test_exports, test_json, test_text
from tests.golden.board import GoldenBoard, golden_board
from tests.golden.internals import Served
from tests.golden.tasks import lay_out
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


def _commands(*, served: bool) -> Iterator[tuple[str, str, str, int | None]]:
    """Yield the user, the words, the settings and the width of each command of the golden files."""
    for case in test_json.CASES:
        if not case.answering and not (served and case.files_alone):
            yield from ((case.user, argv, case.settings, None) for argv in case.before)
            yield case.user, f"{case.argv} {case.form}", case.settings, None
    for text in test_text.CASES:
        if not (served and text.files_alone):
            yield from ((text.user, argv, text.settings, text.width) for argv in text.argvs)
    for export in test_exports.CASES.values():
        yield "dean", f"admin export --format {export}", "hpc-board.yaml", None


@pytest.mark.parametrize("served", [False, True], ids=["files", "service"])
def test_no_command_and_no_answer_of_a_service_tells_a_hidden_case(
    hiding_board: GoldenBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: bool
) -> None:
    sent: list[str] = []

    def answer_text(value: object) -> bytes:
        text = answer(value)
        sent.append(text.decode())
        return text

    answer = answers._answer_text
    monkeypatch.setattr(answers, "_answer_text", answer_text)
    board = hiding_board.copy(tmp_path / "board")
    service = Served(board.folder, monkeypatch, advancing=False) if served else None
    told = {}
    try:
        for user, argv, settings, width in _commands(served=served):
            opened = replace(board, settings=settings, served=service)
            done = opened.run(user, *argv.split(), width=width)
            told[argv] = done.stdout + done.stderr
    finally:
        if service is not None:
            service.close()

    assert re.search("hidden cases +1 test and 1 benchmark, in ranked runs", told["task scan"])
    # The author checks a folder of their own.
    assert [argv for argv, text in told.items() if _NUMBERS.search(text)] == ["task check drafts/course --json"]
    assert bool(sent) == served
    assert not [text[:200] for text in sent if _NUMBERS.search(text)]
