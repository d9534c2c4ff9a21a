"""The loop edit, test, read, edit: `e` opens the user's editor on each screen with a file, and `s` sends it."""

import hashlib
import os
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from hpc_board.domain.run import RunState
from hpc_board.errors import InputError, Refused
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.tui import editor, local_files
from hpc_board.tui.app import BoardApp
from hpc_board.tui.local_files import remember_sent
from hpc_board.tui.preferences import Memory
from hpc_board.tui.screens.runs import RunsScreen
from hpc_board.tui.widgets.form import PathInput
from tests.tmux import Tmux, shown_in
from tests.tui.driving import app_on, press, settled, text_of
from tests.tui.fake_board import ADDRESS, NOW, TASKS, FakeBoard, run
from tests.values import replace

ROOT = Path(__file__).parents[2]

_EDITOR = """#!/bin/sh
echo "edits $1"
trap 'echo "interrupted"' INT
read line || read line
echo "# $line" >> "$1"
exit ${STATUS:-0}
"""

_APP = """
from tests.tui.fake_board import TASKS, FakeBoard
from tests.values import replace
from hpc_board.tui.app import BoardApp

class Holding(FakeBoard):
    def code(self, run):
        return "kernel.py", b"import torch\\n"

board = Holding(tasks=[replace(TASKS[-1], templates={'Python': 'import torch\\n'})])
app = BoardApp(lambda: board)
app.run()
print("sent", [draft.source.data.decode().splitlines()[-1] for draft in board.sent], "code", app.return_code)
import time; time.sleep(60)
"""


def start(tmux: Tmux, folder: Path, *, status: int = 0, editor_name: str = "") -> Path:
    """Start the app in a terminal in an empty folder, with an editor of this exit status."""
    work, script = folder / "work", folder / "editor"
    work.mkdir()
    script.write_text(_EDITOR)
    script.chmod(0o755)
    environ = [f"PYTHONPATH={ROOT}", f"VISUAL={editor_name or script}", f"STATUS={status}"]
    command = ["env", *environ, sys.executable, "-c", _APP]
    tmux("new-session", "-d", "-s", "app", "-x", "80", "-y", "24", "-c", str(work), *command)
    return work


def shown(tmux: Tmux, words: str) -> str:
    return shown_in(tmux, "app", lambda text: words in text)


def type_(tmux: Tmux, *keys: str) -> None:
    tmux("send-keys", "-t", "app", *keys)


def test_a_starter_is_written_edited_and_sent_with_three_keys(tmp_path: Path, tmux: Tmux) -> None:
    work = start(tmux, tmp_path)
    shown(tmux, "#1")
    type_(tmux, "End", "e")
    shown(tmux, "edits")
    # The editor has the terminal: Ctrl+C is its own.
    type_(tmux, "C-c")
    shown(tmux, "interrupted")
    type_(tmux, "changed", "Enter")
    shown(tmux, "Choose at least one GPU")
    assert (work / "vectoradd.py").read_text().endswith("# changed\n")
    type_(tmux, "*")
    shown(tmux, "Ready: vectoradd")
    type_(tmux, "s")
    shown(tmux, "Runs")
    type_(tmux, "C-q")
    assert "# changed" in shown(tmux, "sent [")


@pytest.mark.parametrize("opening", [(), ("Enter",)], ids=["list", "report"])
def test_the_file_of_a_run_is_edited_under_a_new_name_and_sent(
    tmp_path: Path, tmux: Tmux, opening: tuple[str, ...]
) -> None:
    work = start(tmux, tmp_path)
    (work / "kernel.py").write_text("import numpy\n")
    shown(tmux, "#1")
    type_(tmux, "r")
    shown(tmux, "pass")
    type_(tmux, "Home")
    for key in opening:
        type_(tmux, key)
        shown(tmux, "Evidence")
    type_(tmux, "e")
    shown(tmux, "edits")
    type_(tmux, "again", "Enter")
    shown(tmux, "Ready: ")
    type_(tmux, "s")
    shown(tmux, "Queued.")
    type_(tmux, "C-q")
    assert "# again" in shown(tmux, "sent [")
    assert (work / "kernel.py").read_text() == "import numpy\n"
    (copy,) = work.glob("kernel-run*.py")
    assert copy.read_text() == "import torch\n# again\n"


@pytest.mark.parametrize(
    ("status", "name", "word"), [(3, "", "exited"), (0, "/no/such/editor", "start:")], ids=["fails", "missing"]
)
def test_an_editor_that_fails_or_is_missing_is_told(
    tmp_path: Path, tmux: Tmux, status: int, name: str, word: str
) -> None:
    work = start(tmux, tmp_path, status=status, editor_name=name)
    shown(tmux, "#1")
    type_(tmux, "End", "e")
    if not name:
        shown(tmux, "edits")
        type_(tmux, "Enter")
    assert word in shown(tmux, "Warning")
    assert (work / "vectoradd.py").exists() is not bool(name), "without an editor, no starter is written"
    type_(tmux, "C-q")
    shown(tmux, "sent []")


def test_a_starter_never_replaces_a_file(tmp_path: Path) -> None:
    path = tmp_path / "vectoradd.py"
    one, two = (replace(TASKS[-1], templates={"Python": f"import {name}\n"}) for name in ("one", "two"))
    assert local_files.of_task(path, one) == (path, True)
    assert local_files.of_task(path, two) == (path, False)
    assert path.read_text().endswith("import one\n")
    with pytest.raises(InputError, match="is not a file"):
        local_files.of_task(tmp_path, two)


def test_an_unchanged_original_is_edited_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    original = tmp_path / "folder" / "kernel.py"
    original.parent.mkdir()
    original.write_bytes(b"code")

    def found(*sent: Path) -> tuple[Path, bool]:
        return local_files.of_run(7, "kernel.py", b"code", sent)

    assert found(original) == (original, False)
    copy = Path("kernel-run7.py")
    assert found() == (copy, True)
    assert found(original) == (copy, False)
    copy.write_bytes(b"edited")
    assert found(original, copy.absolute()) == (copy, False)
    assert found(tmp_path / "kernel-run8.py", original) == (original, False)
    assert found() == (Path("kernel-run7-2.py"), True)
    Path("here.py").write_text("code")
    assert local_files.of_run(8, "here.py", b"code", [Path("here.py").absolute()]) == (Path("here.py"), False)
    assert copy.read_bytes() == b"edited"


@pytest.mark.parametrize("text", ["sent", "edited since"])
async def test_the_file_of_a_run_is_that_of_its_board_and_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    memory, two = Memory(), Path("/boards/two")
    files = {name: tmp_path / name / "kernel.py" for name in ("first", "later", "of_two", "latest_of_two")}
    for file in files.values():
        file.parent.mkdir()
        file.write_text("sent")
    for board, name in ((ADDRESS, "first"), (two, "of_two"), (ADDRESS, "later"), (two, "latest_of_two")):
        remember_sent(memory, board, (files[name], b"sent"))
        files[name].write_text(text)
    digest = hashlib.sha256(b"sent").hexdigest()
    sent = replace(run(7, RunState.FINISHED, verdict=Verdict.PASS), file_name="kernel.py", code_sha256=digest)

    async def file_from(folder: Path, address: Path) -> str:
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        board = FakeBoard(runs=[sent])
        board.address = address
        app = BoardApp(lambda: board, now=lambda: NOW, tick_seconds=3600, memory=memory)
        async with app.run_test(size=(80, 24)) as pilot:
            await settled(pilot)
            await press(pilot, "r", "s")
            return app.screen.query_one(PathInput).value

    for folder, board in (("first", ADDRESS), ("later", ADDRESS), ("of_two", two)):
        assert await file_from(tmp_path / folder, board) == "kernel.py"
    assert await file_from(tmp_path / "elsewhere", ADDRESS) == str(files["later"])
    assert await file_from(tmp_path / "elsewhere", two) == str(files["latest_of_two"])
    assert await file_from(tmp_path / "elsewhere", Path("/boards/three")) == ""


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [("vim", "25", "+25 {}"), ("code", "25", "-g {}:25"), ("other", "25", "{}"), ("vim", "", "{}")],
)
def test_a_known_editor_begins_at_the_line(tmp_path: Path, name: str, line: str, expected: str) -> None:
    program, file = tmp_path / name, tmp_path / "k.cpp"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\n')
    program.chmod(0o755)
    editor.edit(file, {"VISUAL": str(program)}, line)
    assert (tmp_path / "arguments").read_text() == f"{expected.format(file)}\n"


def test_an_editor_with_an_open_quote_is_refused() -> None:
    with pytest.raises(InputError, match="invalid editor"):
        editor.command({"EDITOR": "vi 'a"})


@pytest.mark.parametrize("mode", list(Mode))
async def test_the_copy_that_belongs_to_a_run_is_edited_and_sent_again_in_its_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    class Holding(FakeBoard):
        def code(self, run: int) -> tuple[str, bytes]:
            return ("kernel.py", b"import torch\n") if run == 7 else super().code(run)

    edited: list[Path] = []

    def edit(file: Path, *_: object) -> None:
        edited.append(file)
        if saves:
            os.utime(file, ns=(0, len(edited)))
        if fails:
            raise InputError("the editor vi exited with status 1.", hint="kernel-run7.py may be unchanged.")

    saves, fails = False, True
    watched = Mode.BENCHMARK if mode in (Mode.BENCHMARK, Mode.RANKED) else Mode.TEST
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VISUAL", "true")
    monkeypatch.setattr(editor, "edit", edit)
    monkeypatch.setattr(BoardApp, "suspend", nullcontext)
    digest, copy = hashlib.sha256(b"import torch\n").hexdigest(), Path("kernel-run7.py")
    passed = run(7, RunState.FINISHED, mode=mode, verdict=Verdict.PASS)
    async with app_on(Holding(runs=[replace(passed, file_name="kernel.py", code_sha256=digest)])).run_test() as pilot:

        def field() -> str:
            return pilot.app.screen.query_one(PathInput).value

        await settled(pilot)
        await press(pilot, "r", "e")
        (told,) = pilot.app._notifications
        removed = "kernel-run7.py was not changed, and is removed."
        assert told.message == f"the editor vi exited with status 1. {removed}"
        pilot.app.clear_notifications()
        fails = False
        edited.clear()
        await press(pilot, "e")
        assert isinstance(pilot.app.screen, RunsScreen)
        assert (edited, list(tmp_path.iterdir())) == ([copy], [])
        (told,) = pilot.app._notifications
        assert told.message.startswith(removed)
        pilot.app.clear_notifications()
        saves = True
        edited.clear()
        await press(pilot, "e")
        assert not pilot.app._notifications
        assert field() == str(copy)
        shown = Mode.TEST if mode is Mode.PROFILE else mode  # no earlier run has a mode to return to
        assert f"Ready: vectoradd on H100, mode {shown}: one job." in text_of(pilot.app)
        copy.write_text("import torch  # edited\n")
        await press(pilot, "escape", "e")
        assert (field(), edited, list(tmp_path.iterdir())) == (str(copy), [copy, copy], [tmp_path / copy])
        await press(pilot, "escape", "s")
        assert field() == str(copy)
        await press(pilot, "escape", "w")
        assert f"{copy} → vectoradd on H100, mode {watched}" in text_of(pilot.app)
        copy.rename("mine.py")
        await press(pilot, "escape", "e")
        assert field() == str(copy)
        assert copy.read_text() == "import torch\n"
        copy.unlink()
        for key in "ws":
            await press(pilot, "escape", key)
            assert "kernel.py was not found: F4 edits a copy of run 7." in text_of(pilot.app)
        await press(pilot, "f4")
        assert (field(), edited[-1]) == (str(copy), copy)
        assert f"Ready: vectoradd on H100, mode {shown}: one job." in text_of(pilot.app)


async def test_a_file_that_others_may_not_see_is_not_edited() -> None:
    class Refusing(FakeBoard):
        def code(self, run: int) -> tuple[str, bytes]:
            raise Refused(f"run {run} belongs to bob.", hint="Ask them.")

    board = Refusing()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "e")
        assert "belongs to bob" in text_of(pilot.app)
