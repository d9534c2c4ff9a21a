"""Tests of the app in use: each drives it through its keys and reads its screen."""

import pwd
import re
import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from textual.app import ComposeResult
from textual.geometry import Region
from textual.widget import Widget
from textual.widgets import Button, Input

from hpc_board.domain.run import Run, RunState
from hpc_board.errors import BoardError, InputError, Refused, SchedulerError, StorageError
from hpc_board.model.gpu import GpuStatus
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.tui import targets
from hpc_board.tui.app import BoardApp, Followed
from hpc_board.tui.messages import Answer, Open, RunsState
from hpc_board.tui.screens import submit
from hpc_board.tui.screens.base import BoardScreen
from hpc_board.tui.screens.dialogs import Confirm, SourceTree
from hpc_board.tui.screens.report import ReportScreen
from hpc_board.tui.screens.runs import RunsScreen
from hpc_board.tui.screens.submit import SubmitScreen
from hpc_board.tui.screens.tasks import TasksScreen
from hpc_board.tui.screens.watch import WatchScreen
from hpc_board.tui.widgets.bars import ErrorBox, KeyLine
from hpc_board.tui.widgets.form import PathInput
from hpc_board.tui.widgets.grid import Grid
from tests.tui.driving import app_on, footer_keys, go_to, press, settled, text_of, toasts, until
from tests.tui.fake_board import NOW, RUNS, TASKS, FakeBoard, run
from tests.values import replace

HOSTILE = "[bold red]loud[/] [@click=app.quit]click[/] \x1b]0;title\x07\x1b[31mred \x9b2J \u202eright"


async def test_a_file_is_submitted_with_what_its_header_says(kernel: Path) -> None:
    board = FakeBoard()
    async with app_on(board, kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert [line[10:18] for line in text_of(pilot.app).splitlines() if "[x]" in line] == ["[x] H100", "[x] A100"]
        await press(pilot, "ctrl+s")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen))
        await settled(pilot)
        assert [gpu.name for gpu in board.sent[0].gpus] == ["H100", "A100"]
        assert (board.sent[0].task.name, board.sent[0].mode) == ("vectoradd", Mode.TEST)
        assert pilot.app.screen.query_one(Grid).current == "42"


async def test_mode_gpus_and_note_are_chosen_with_the_keyboard(kernel: Path) -> None:
    kernel.write_text("#!POPCORN leaderboard vectoradd\n")
    board = FakeBoard()
    async with app_on(board, kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert "Choose at least one GPU." in text_of(pilot.app)
        await go_to(pilot, "#mode")
        await press(pilot, *"ra", "tab", *"fast", "tab", "down", "space")
        assert "Ready: vectoradd on A100, mode ranked: one job." in text_of(pilot.app)
        await press(pilot, "ctrl+s")
        await until(pilot, lambda: bool(board.sent))
        draft = board.sent[0]
        assert ([gpu.name for gpu in draft.gpus], draft.mode, draft.note) == (["A100"], Mode.RANKED, "fast")


async def test_one_run_is_followed_on_its_report_and_the_list_is_behind_it(kernel: Path) -> None:
    kernel.write_text("#!POPCORN leaderboard vectoradd\n#!POPCORN gpus A100\n")
    async with app_on(FakeBoard(), kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "ctrl+s")
        await until(pilot, lambda: isinstance(pilot.app.screen, ReportScreen))
        await until(pilot, lambda: "vectoradd on A100, test: queued" in text_of(pilot.app))
        assert [type(screen) for screen in pilot.app.screen_stack[1:]] == [TasksScreen, RunsScreen, ReportScreen]
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, RunsScreen)
        assert pilot.app.screen.query_one(Grid).current == "42"


async def test_a_file_that_cannot_be_read_is_all_that_the_form_says() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "down", "s")
        assert "Choose a file." in text_of(pilot.app)
        await press(pilot, *"missing.py")
        lines, field = text_of(pilot.app).splitlines(), pilot.app.screen.query_one(PathInput)
        (place,) = (number for number, line in enumerate(lines) if "missing.py" in line)
        assert lines[place + 1].strip() == "No such file. Check the path."
        assert "File: no such file." in text_of(pilot.app)
        assert not pilot.app.screen.query_one(ErrorBox).display
        assert field.has_class("-faulty")
        assert "Choose a" not in text_of(pilot.app)
        await press(pilot, *["backspace"] * len("missing.py"))
        assert "no such file" not in text_of(pilot.app)
        assert not field.has_class("-faulty")
        assert "Choose a file." in text_of(pilot.app)


async def test_the_fault_of_a_file_is_told_where_notes_have_no_room() -> None:
    async with app_on(FakeBoard()).run_test(size=(60, 16)) as pilot:
        await settled(pilot)
        await press(pilot, "s", *"missing.py")
        assert "File: no such file." in text_of(pilot.app)


async def test_an_error_with_more_lines_than_fit_is_scrolled_by_keys() -> None:
    words = "\n".join(f"fault {number}" for number in range(30))
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, TasksScreen)
        screen.fail("preferences", InputError("short"))
        await settled(pilot)
        assert screen.error_box not in screen.focus_chain
        screen.fail("preferences", InputError(words, hint="Mend it."))
        await settled(pilot)
        assert "fault 29" not in text_of(pilot.app)
        while not screen.error_box.has_focus:
            await press(pilot, "tab")
        await press(pilot, "end")
        await until(pilot, lambda: "Mend it." in text_of(pilot.app))
        screen.forget_failure("preferences")
        await settled(pilot)
        assert screen.focused is not None
        assert screen.focused is not screen.error_box


@pytest.mark.parametrize(
    ("path", "key"),
    [("qy", "tab"), ("../mk/pri", "ctrl+s"), ("../mk/pri/", "ctrl+s"), ("~/no-such-folder/x.txt", "tab")],
)
async def test_any_wrong_path_is_told_once_it_is_typed(path: str, key: str) -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "s", *path)
        # A file may follow the name of a folder.
        told = "Choose a file." if path.endswith("/") else "No such file."
        assert told in text_of(pilot.app)
        await press(pilot, key)
        assert "No such file. Check the path" in text_of(pilot.app)
        assert "Choose a file." not in text_of(pilot.app)
        await press(pilot, "ctrl+s")
        assert "No such file. Check the path" in text_of(pilot.app)
        pilot.app.screen.query_one(PathInput).focus()
        await press(pilot, "slash")
        assert "Choose a file." in text_of(pilot.app)


@pytest.mark.parametrize("key", ["tab", "ctrl+s"])
async def test_a_path_that_was_just_typed_is_the_one_that_counts(
    kernel: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    board = FakeBoard()
    async with app_on(board, kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await go_to(pilot, "#file")
        monkeypatch.setattr(submit, "_TYPING_SECONDS", 3600)
        await pilot.press(*["backspace"] * 9, *"qy", key)
        await settled(pilot)
        assert "No such file. Check the path" in text_of(pilot.app)
        assert not board.sent


async def test_the_form_for_another_task_has_no_folder_of_the_last_file(kernel: Path) -> None:
    async with app_on(FakeBoard(), kernel.absolute()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "escape", "s")
        assert pilot.app.screen.query_one(PathInput).value == ""
        assert "Choose a file." in text_of(pilot.app)
        await press(pilot, *str(kernel))
        assert "Ready: vectoradd on H100 and A100" in text_of(pilot.app)


async def test_the_name_at_the_end_of_a_long_path_is_seen(tmp_path: Path) -> None:
    file = tmp_path / ("folder" * 20) / "fast_kernel.py"
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        pilot.app.post_message(Open(targets.Submit(file=file)))
        await settled(pilot)
        assert "fast_kernel.py" in text_of(pilot.app)
        await press(pilot, "tab")
        await pilot.resize_terminal(60, 16)
        await settled(pilot)
        assert "fast_kernel.py" in text_of(pilot.app)


async def test_ticks_are_kept_when_the_field_of_the_file_is_left(kernel: Path) -> None:
    async with app_on(FakeBoard(), kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await go_to(pilot, "#gpus")
        await press(pilot, "space", *["shift+tab"] * 5, "tab")
        assert "Ready: vectoradd on A100, mode test: one job." in text_of(pilot.app)


async def test_tab_takes_a_completion_and_then_moves_on(kernel: Path) -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "s", *"ker")
        field = pilot.app.screen.query_one(PathInput)
        assert "kernel.py" in text_of(pilot.app)
        await press(pilot, "tab")
        assert (field.value, field.has_focus) == (str(kernel), True)
        await press(pilot, "left", "tab")
        assert (field.value, field.has_focus) == (str(kernel), False)
        assert "Ready: vectoradd on H100 and A100" in text_of(pilot.app)


@pytest.mark.parametrize("names", ["B200", "b200,GB300"])
async def test_a_header_that_names_gpus_which_are_not_there_says_so(kernel: Path, names: str) -> None:
    kernel.write_text(f"#!POPCORN leaderboard vectoradd\n#!POPCORN gpus {names}\n")
    (kernel.parent / "plain.py").write_text("import torch\n")
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "s", *"plain.py", *["tab"] * 5, "down", "space", *["shift+tab"] * 5)
        assert "Ready: vectoradd on A100" in text_of(pilot.app)
        await press(pilot, "end", *["backspace"] * 8, *str(kernel))
        assert "[x]" not in text_of(pilot.app)
        assert f"The header names {names}, not available for vectoradd." in text_of(pilot.app)
        await press(pilot, *["backspace"] * 9, *"plain.py")
        assert "Ready: vectoradd on A100" in text_of(pilot.app)
        await press(pilot, *["tab"] * 5, "space")
        assert "Choose at least one GPU." in text_of(pilot.app)


async def test_the_only_gpu_is_ticked_again_after_a_header_that_names_another(kernel: Path) -> None:
    kernel.write_text("#!POPCORN leaderboard identity\n#!POPCORN gpus H100\n")
    (kernel.parent / "plain.py").write_text("import torch\n")
    async with app_on(FakeBoard(), kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert "The header names H100, not available for identity." in text_of(pilot.app)
        await go_to(pilot, "#file")
        await press(pilot, *["backspace"] * 9, *"plain.py")
        assert "Ready: identity on L4" in text_of(pilot.app)


async def test_a_header_that_is_read_twice_before_its_gpus_are_known_is_no_choice_of_the_users(kernel: Path) -> None:
    kernel.write_text("#!POPCORN leaderboard identity\n#!POPCORN gpus H100\n")
    (kernel.parent / "plain.py").write_text("import torch\n")
    board = FakeBoard(held=["allowed_gpus"])
    async with app_on(board, kernel).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "The file's header asks for identity on H100." in text_of(pilot.app))
        pilot.app.screen.query_one(PathInput).focus()
        await pilot.press("backspace")
        await until(pilot, lambda: "header asks" not in text_of(pilot.app))
        await pilot.press("y")
        await until(pilot, lambda: "The file's header asks for identity on H100." in text_of(pilot.app))
        board.free()
        await settled(pilot)
        assert "The header names H100, not available for identity." in text_of(pilot.app)
        await go_to(pilot, "#file")
        await press(pilot, *["backspace"] * 9, *"plain.py")
        assert "Ready: identity on L4" in text_of(pilot.app)


@pytest.mark.parametrize(("words", "names"), [("l4,h100", ["H100", "L4"]), ("all", ["H100", "A100", "L4"])])
async def test_a_header_names_gpus_as_on_the_command_line(kernel: Path, words: str, names: list[str]) -> None:
    kernel.write_text(f"#!POPCORN leaderboard vectoradd\n#!POPCORN gpus {words}\n")
    async with app_on(FakeBoard(), kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        ticked = [line.split("[x] ")[1].split()[0] for line in text_of(pilot.app).splitlines() if "[x]" in line]
        assert ticked == names


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.parametrize("back", ["escape", "ctrl+g"])
async def test_the_cursor_returns_from_the_script_to_its_field(kernel: Path, size: tuple[int, int], back: str) -> None:
    async with app_on(FakeBoard(), kernel).run_test(size=size) as pilot:
        await settled(pilot)
        await go_to(pilot, "#note")
        await press(pilot, "ctrl+g")
        screen = pilot.app.screen
        assert screen.focused is screen.query_one("#script")
        if size[0] > 80 and back == "escape":
            return
        await press(pilot, back, *"note")
        assert screen.query_one("#note", Input).value == "note"


async def test_a_script_is_not_shown_beside_a_form_that_it_does_not_belong_to(kernel: Path) -> None:
    async with app_on(FakeBoard(), kernel).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert "#SBATCH --partition=gpu-h100" in text_of(pilot.app)
        await go_to(pilot, "#gpus")
        await press(pilot, "asterisk", "asterisk")
        assert "Choose at least one GPU." in text_of(pilot.app)
        assert "#SBATCH" not in text_of(pilot.app)
        await press(pilot, "space")
        assert "#SBATCH --partition=gpu-h100" in text_of(pilot.app)
        await press(pilot, *["shift+tab"] * 5, "backspace")
        assert "#SBATCH" not in text_of(pilot.app)
        await press(pilot, *"y")
        assert "#SBATCH" in text_of(pilot.app)
        await press(pilot, *["left"] * 3, "x")
        assert "no such file" in text_of(pilot.app)
        assert "#SBATCH" not in text_of(pilot.app)


@pytest.mark.parametrize("has_variable", [True, False])
async def test_a_file_is_picked_although_the_present_folder_is_gone(
    tmp_path: Path, kernel: Path, *, has_variable: bool
) -> None:
    home = kernel.absolute().parent
    gone = tmp_path / "gone"
    gone.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("HOME")
        patch.setattr(pwd, "getpwuid", lambda _: pwd.struct_passwd(("ada", "x", 1, 1, "", str(home), "/bin/sh")))
        if has_variable:
            patch.setenv("HOME", str(home))
        patch.chdir(gone)
        gone.rmdir()
        async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
            await settled(pilot)
            await press(pilot, "s", "ctrl+o")
            await until(pilot, lambda: "kernel.py" in text_of(pilot.app))


async def test_the_tree_says_that_there_is_no_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "s", "ctrl+o", "tilde")
        assert any("this account has no home folder" in toast for toast in toasts(pilot.app))
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, SubmitScreen)


async def test_an_answer_about_a_form_that_has_changed_since_is_dropped(kernel: Path) -> None:
    kernel.write_text("#!POPCORN leaderboard identity\n")
    board = FakeBoard(failures={"draft": SchedulerError("too late")}, held=("draft",))
    async with app_on(board, kernel).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "[x] L4" in text_of(pilot.app) and "draft" in board.calls)
        pilot.app.screen.query_one("#gpus").focus()
        await pilot.press("space")
        board.free()
        await settled(pilot)
        assert "Choose at least one GPU." in text_of(pilot.app)
        assert "too late" not in text_of(pilot.app)


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)])
async def test_every_field_of_the_form_can_be_seen_when_it_has_the_focus(kernel: Path, size: tuple[int, int]) -> None:
    board = FakeBoard(failures={"submit": SchedulerError("sbatch: invalid partition", hint="Mend the settings.")})
    async with app_on(board, kernel).run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "ctrl+s")
        await go_to(pilot, "#file")
        screen = pilot.app.screen
        form = screen.query_one("#form")
        seen = []
        while "send" not in seen:
            focused = screen.focused
            assert focused is not None
            assert form.region.contains_region(focused.region), focused.id
            seen.append(focused.id)
            await press(pilot, "tab")
        assert seen == ["file", "browse", "task", "mode", "note", "gpus", "options", "send"]


@pytest.mark.parametrize("keys", [(), ("r",), ("r", "enter"), ("b",), ("s",)], ids=str)
async def test_the_keys_that_do_not_fit_are_left_out_whole_and_help_stays(keys: tuple[str, ...]) -> None:
    async with app_on(FakeBoard()).run_test(size=(60, 16)) as pilot:
        await settled(pilot)
        await press(pilot, *keys)
        for width in (60, 70, 80):
            await pilot.resize_terminal(width, 16)
            await settled(pilot)
            assert max(key.region.right for key in footer_keys(pilot.app)) <= width
            assert "F1 Help" in text_of(pilot.app).splitlines()[-1]


@pytest.mark.parametrize("keys", [("r",), ("b",)], ids=str)
async def test_a_key_that_an_empty_screen_names_is_in_the_last_line(keys: tuple[str, ...]) -> None:
    async with app_on(FakeBoard(runs=[])).run_test(size=(60, 16)) as pilot:
        await settled(pilot)
        await press(pilot, *keys)
        assert "Press s to submit" in " ".join(text_of(pilot.app).split())
        assert " s Submit " in text_of(pilot.app).splitlines()[-1]


async def test_the_keys_come_back_with_the_room_for_them() -> None:
    async with app_on(FakeBoard()).run_test(size=(60, 16)) as pilot:
        await settled(pilot)
        await press(pilot, "r")
        assert "c Cancel" not in text_of(pilot.app)
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "c Cancel" in text_of(pilot.app))


async def test_the_line_of_keys_is_made_once_for_changes_before_a_refresh(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    compose = KeyLine.compose

    def counted(line: KeyLine) -> ComposeResult:
        nonlocal made
        made += 1
        return compose(line)

    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        monkeypatch.setattr(KeyLine, "compose", counted)
        screen = pilot.app.screen
        monkeypatch.setattr(type(screen), "key_labels", {"submit": "Send"})
        for _ in range(3):
            screen.bindings_updated_signal.publish(screen)
        await until(pilot, lambda: " s Send " in text_of(pilot.app).splitlines()[-1])
        assert made == 1


async def test_a_key_is_pressed_with_the_mouse() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.click(KeyLine, offset=(text_of(pilot.app).splitlines()[-1].index("Submit"), 0))
        await settled(pilot)
        assert isinstance(pilot.app.screen, SubmitScreen)


async def test_a_letter_jumps_to_the_next_entry_that_begins_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kernels"
    (folder / "builds").mkdir(parents=True)
    for name in ("alpha.cu", "beta.py", "Bravo.py", "kernel.py"):
        (folder / name).touch()
    monkeypatch.chdir(folder)
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "s", "ctrl+o")
        await until(pilot, lambda: "kernel.py" in text_of(pilot.app))
        tree = pilot.app.screen.query_one(SourceTree)

        def current() -> str:
            assert tree.cursor_node is not None
            return str(tree.cursor_node.label)

        names = []
        for key in "bbbbkzq":
            await press(pilot, key)
            names.append(current())
        assert names == ["beta.py", "Bravo.py", "builds", "beta.py", "kernel.py", "kernel.py", "kernel.py"]
        await press(pilot, "up", "a", "backspace")
        await until(pilot, lambda: "▸ kernels" in text_of(pilot.app))
        await press(pilot, *"k", "escape")
        assert isinstance(pilot.app.screen, SubmitScreen)


async def test_a_refused_submission_says_why_and_keeps_the_form_until_that_changes(kernel: Path) -> None:
    board = FakeBoard(failures={"submit": SchedulerError("sbatch: invalid partition", hint="Mend the settings.")})
    async with app_on(board, kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "ctrl+s")
        text = text_of(pilot.app)
        assert "The scheduler failed" in text
        assert "sbatch: invalid partition" in text
        assert "Mend the settings." in text
        assert isinstance(pilot.app.screen, SubmitScreen)
        assert not {"Sending", "Ready"} & set(text.split())
        assert not pilot.app.screen.query_one("#send", Button).disabled
        await go_to(pilot, "#note")
        await press(pilot, "x")
        assert "invalid partition" not in text_of(pilot.app)
        assert "Ready: vectoradd on H100 and A100" in text_of(pilot.app)


async def test_a_refusal_leaves_the_state_of_the_screen_as_new_as_it_was(kernel: Path) -> None:
    board = FakeBoard()
    async with app_on(board, kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        board.failures["draft"] = Refused("--time 30 is longer than 0:20:00.", hint="Give a shorter time.")
        await go_to(pilot, "#note")
        await press(pilot, "x")
        text = text_of(pilot.app)
        assert "--time 30 is longer than 0:20:00." in text
        assert "last known state" not in text


async def test_selection_and_place_survive_a_new_run_on_top() -> None:
    board = FakeBoard(runs=[run(id_, RunState.QUEUED) for id_ in range(100, 0, -1)])
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", *["down"] * 33, *["up"] * 3)
        grid = pilot.app.screen.query_one(Grid)
        line = grid.cursor_row - grid.scroll_offset.y
        assert (grid.current, grid.scroll_offset.y > 0) == ("70", True)
        board.known_runs.insert(0, run(101, RunState.QUEUED))
        screen = pilot.app.screen
        assert isinstance(screen, RunsScreen)
        screen.look_again()
        await settled(pilot)
        assert grid.current == "70"
        assert text_of(pilot.app).splitlines()[grid.region.y + 1 + line + 1].split()[0] == "70"
        assert grid.cursor_row - grid.scroll_offset.y == line


async def test_the_table_updates_itself_and_tells_the_end_of_a_run() -> None:
    board = FakeBoard()
    async with app_on(board, tick_seconds=0.05).run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "running" in text_of(pilot.app) and "2 in flight" in text_of(pilot.app))
        running = board.run(40)
        ended = replace(running.status, state=RunState.FINISHED)
        first, second, *_ = board.boards["H100"]
        board.boards["H100"] = (replace(first, run=40, user="ada"), replace(second, user="bob"))
        board.replace_run(replace(running, status=ended, verdict=Verdict.PASS, score_s=9.5e-6))
        await until(
            pilot, lambda: any("Run 40: vectoradd on H100: pass, 9.50 µs, first place" in t for t in toasts(pilot.app))
        )
        await until(pilot, lambda: "running" not in text_of(pilot.app) and "9.50 µs" in text_of(pilot.app))


async def test_the_end_of_a_watched_run_is_told_by_the_watch_alone(tmp_path: Path) -> None:
    file = tmp_path / "submission.py"
    file.write_text("x = 1\n")
    board = FakeBoard()
    async with app_on(board, tick_seconds=0.05).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "2 in flight" in text_of(pilot.app))
        pilot.app.post_message(Open(targets.Watch(file, "vectoradd", ("H100",))))
        await until(pilot, lambda: isinstance(pilot.app.screen, WatchScreen))
        board.replace_run(replace(RUNS[2], id=40))
        board.replace_run(replace(RUNS[2], id=41, task="matmul"))
        await until(pilot, lambda: any("Run 41" in toast for toast in toasts(pilot.app)))
        assert not any("Run 40" in toast for toast in toasts(pilot.app))


async def test_every_run_in_flight_is_followed_and_many_that_end_at_once_are_told_in_one_line() -> None:
    flying = [run(id_, RunState.RUNNING) for id_ in range(300, 0, -1)]
    board = FakeBoard(runs=flying)
    async with app_on(board, tick_seconds=0.05).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "300 in flight" in text_of(pilot.app))
        oldest = board.run(1)
        ended = replace(oldest.status, state=RunState.FINISHED)
        board.replace_run(replace(oldest, status=ended, verdict=Verdict.PASS, score_s=9.5e-6))
        await until(pilot, lambda: any("Run 1: vectoradd on H100: pass" in told for told in toasts(pilot.app)))
        board.known_runs = [
            replace(each, status=ended, verdict=Verdict.PASS if each.id > 20 else Verdict.CRASH)
            for each in board.known_runs
        ]
        await until(pilot, lambda: "299 runs have ended: 280 pass, 19 crashed" in toasts(pilot.app))
        assert len(toasts(pilot.app)) == 2


async def test_a_warning_from_another_thread_is_shown_and_is_no_markup() -> None:
    board = FakeBoard()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        thread = threading.Thread(target=board.warn, args=["Cluster main is asked by [bold]commands[/]."])
        thread.start()
        await until(pilot, lambda: "Warning: Cluster main is asked by [bold]commands[/]." in toasts(pilot.app))
        thread.join()


async def test_a_run_is_cancelled_only_after_a_yes() -> None:
    board = FakeBoard()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "c")
        assert isinstance(pilot.app.screen, Confirm)
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, RunsScreen)
        assert board.run(41).state is RunState.QUEUED
        await press(pilot, "c", "enter")
        assert board.run(41).state is RunState.CANCELLED
        assert "cancelled" in text_of(pilot.app)


async def test_a_run_that_has_ended_cannot_be_cancelled() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r")

        def can_cancel() -> bool:
            keys = pilot.app.screen.active_bindings
            return (
                "c" in keys
                and keys["c"].enabled
                and not any(key.has_class("-disabled") for key in footer_keys(pilot.app))
            )

        assert can_cancel()
        await press(pilot, "end", "c")
        assert not isinstance(pilot.app.screen, Confirm)
        assert not can_cancel()
        assert "c Cancel" not in text_of(pilot.app)
        await press(pilot, "home")
        assert can_cancel()
        await press(pilot, "end", "enter", "c")
        assert isinstance(pilot.app.screen, ReportScreen)
        assert "c Cancel" not in text_of(pilot.app)


async def test_a_late_answer_to_an_earlier_question_is_not_shown() -> None:
    own_asked, own_may_come, own_came = threading.Event(), threading.Event(), threading.Event()

    class SlowForOwnRuns(FakeBoard):
        """Keeps back what the screen asks first."""

        def list_runs(self, *, everyone: bool = False, **others: Any) -> tuple[Run, ...]:
            if not everyone:
                own_asked.set()
                own_may_come.wait(30)
                own_came.set()
            return super().list_runs(everyone=everyone, **others)

    async with app_on(SlowForOwnRuns()).run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until(pilot, own_asked.is_set)
        await pilot.press("a")
        await until(pilot, lambda: "carol" in text_of(pilot.app))
        own_may_come.set()
        await until(pilot, own_came.is_set)
        await settled(pilot)
        assert "carol" in text_of(pilot.app)


async def test_log_and_progress_come_in_while_a_run_goes_on() -> None:
    board = FakeBoard()
    async with app_on(board, tick_seconds=0.05).run_test(size=(120, 40)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "running" in text_of(pilot.app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: "benchmark 2 of 3" in text_of(pilot.app) and "c Cancel" in text_of(pilot.app))
        board.logs[40] += "one more line\n"
        await until(pilot, lambda: "one more line" in text_of(pilot.app))
        board.replace_run(replace(RUNS[2], id=40))
        await until(pilot, lambda: "Passed: 3 tests and 3 benchmarks" in text_of(pilot.app))
        await until(pilot, lambda: "c Cancel" not in text_of(pilot.app))


async def test_a_run_that_ends_while_the_app_closes_is_no_news() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        app = pilot.app
        await settled(pilot)
    assert not app.screen_stack
    await app._on_message(Answer("follow", value=Followed(RunsState(), ((RUNS[2], 1),))))
    assert app._exception is None


async def test_output_takes_the_place_of_the_words_that_there_is_none() -> None:
    board = FakeBoard(runs=[run(50, RunState.RUNNING)])
    async with app_on(board, tick_seconds=0.05).run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "running" in text_of(pilot.app))
        await pilot.press("enter", "3")
        await until(pilot, lambda: "Run 50 has no output" in text_of(pilot.app))
        board.logs[50] = "loading modules\n"
        await until(pilot, lambda: "loading modules" in text_of(pilot.app))
        assert "no output" not in text_of(pilot.app)


@pytest.mark.parametrize(("size", "keys"), [((80, 24), ("3",)), ((120, 40), ())])
async def test_a_long_log_of_a_run_that_has_ended_is_read_from_its_top(
    size: tuple[int, int], keys: tuple[str, ...]
) -> None:
    board = FakeBoard()
    board.logs[39] = "".join(f"line {number}\n" for number in range(100))
    async with app_on(board).run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "enter", *keys)
        assert "line 0" in text_of(pilot.app)


async def test_a_list_counts_the_age_of_a_run_from_its_submission_and_a_report_from_the_end_of_its_job() -> None:
    ended = replace(RUNS[2], status=replace(RUNS[2].status, at=NOW))
    async with app_on(FakeBoard(runs=[ended])).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r")
        row = next(line for line in text_of(pilot.app).splitlines() if line.split()[:1] == ["39"])
        assert row.endswith("12 min")
        assert "pass 11 min ago" in text_of(pilot.app)
        await press(pilot, "enter")
        assert "pass 12.3 µs 11 min ago" in text_of(pilot.app)


async def test_the_end_of_a_run_is_not_told_over_its_own_report() -> None:
    board = FakeBoard()
    async with app_on(board, tick_seconds=0.05).run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "2 in flight" in text_of(pilot.app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: "benchmark 2 of 3" in text_of(pilot.app))
        board.replace_run(replace(RUNS[2], id=40))
        await until(pilot, lambda: "1 in flight" in text_of(pilot.app) and "Passed: 3 tests" in text_of(pilot.app))
        board.replace_run(replace(RUNS[2], id=41))
        await until(pilot, lambda: any("Run 41" in toast for toast in toasts(pilot.app)))
        assert not any("Run 40" in toast for toast in toasts(pilot.app))


async def test_leaving_a_screen_ends_its_questions() -> None:
    board = FakeBoard()
    async with app_on(board, tick_seconds=0.02).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "vectoradd" in text_of(pilot.app))
        await pilot.press("end", "b")
        await until(pilot, lambda: "dmitri" in text_of(pilot.app))
        await until(pilot, lambda: board.calls.count("pages") > 6)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, TasksScreen))
        await settled(pilot)
        asked, advanced = board.calls.count("pages"), board.calls.count("advance")
        await until(pilot, lambda: board.calls.count("advance") > advanced + 3)
        assert board.calls.count("pages") == asked


async def test_a_scheduler_that_answers_again_takes_its_error_away() -> None:
    board = FakeBoard(failures={"advance": SchedulerError("squeue did not answer")})
    async with app_on(board, tick_seconds=0.05).run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        words = {"more on Cluster: squeue did not", "updated 12 s ago", "benchmark 2/3"}
        await until(pilot, lambda: all(each in text_of(pilot.app) for each in words))
        board.failures.clear()
        await until(pilot, lambda: "squeue did not" not in text_of(pilot.app))


@pytest.mark.parametrize("keys", [("r",), ("r", "enter"), ("s",), ("b",), ("end", "b", "enter"), ("question_mark",)])
async def test_no_error_of_the_board_ends_the_app(keys: tuple[str, ...]) -> None:
    error: BoardError = StorageError("the disk is full", hint="Free some space.")
    board = FakeBoard()
    async with app_on(board, tick_seconds=0.05).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "vectoradd" in text_of(pilot.app))
        for name in ("tasks", "gpus", "runs", "standings", "pages", "feed", "advance", "submit", "cancel", "draft"):
            board.failures[name] = error
        for key in keys:
            await pilot.press(key)
        await pilot.press("escape")
        # 80 columns cut the error of the scheduler.
        await until(pilot, lambda: "the disk is fu" in text_of(pilot.app))


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)])
async def test_a_message_is_above_the_box_of_an_error(size: tuple[int, int]) -> None:
    board = FakeBoard(failures={"runs": StorageError("\n".join(["the disk is full"] * 20), hint="Free some space.")})
    async with app_on(board).run_test(size=size, notifications=True) as pilot:
        await settled(pilot)
        await press(pilot, "r", "t")
        await until(pilot, lambda: bool(pilot.app.screen.query("Toast")))
        box, toast = (pilot.app.screen.query_one(name).region for name in ("ErrorBox", "Toast"))
        assert box.height > 1
        assert toast.bottom <= box.y


@pytest.mark.usefixtures("every_paint")
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_hostile_text_is_shown_as_text(size: tuple[int, int]) -> None:
    evil = replace(
        run(41, RunState.RUNNING, reason=HOSTILE, source=HOSTILE, node=HOSTILE),
        file_name=HOSTILE,
        user=HOSTILE,
        partition=HOSTILE,
    )
    failed = run(40, RunState.FINISHED, verdict=Verdict.WRONG_VALUE, message=HOSTILE)
    board = FakeBoard(runs=(evil, failed), tasks=[replace(TASKS[-1], description=f"# {HOSTILE}\n\n{HOSTILE}")])
    board.user = HOSTILE
    board.logs[41] = HOSTILE
    board.failures["gpus"] = SchedulerError(HOSTILE, hint=HOSTILE)
    board.boards["H100"] = (replace(board.boards["H100"][0], user=HOSTILE, file_name=HOSTILE),)
    ways = [
        (),
        ("r",),
        ("r", "a"),
        ("r", "enter"),
        ("r", "enter", "3"),
        ("r", "down", "enter"),
        ("b",),
        ("s",),
        ("r", "c"),
    ]
    async with app_on(board).run_test(size=size) as pilot:
        await settled(pilot)
        for way in ways:
            await press(pilot, *way)
            text = text_of(pilot.app)
            assert "loud" in text, way
            assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text), way
            assert "[bold" in text, way
            while not isinstance(pilot.app.screen, TasksScreen):
                await press(pilot, "escape")


async def test_a_click_beside_the_last_column_opens_the_row_and_the_mouse_marks_it() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r")
        grid = pilot.app.screen.query_one(Grid)
        await pilot.hover(Grid, offset=(10, 4))
        assert grid.hover_row == 2
        for _ in range(2):
            await pilot.click(Grid, offset=(grid.size.width - 1, 4))
            await settled(pilot)
        assert isinstance(pilot.app.screen, ReportScreen)


async def test_a_click_in_a_list_that_has_scrolled_opens_the_row_under_the_mouse() -> None:
    runs = [run(number, RunState.CANCELLED) for number in range(100, 40, -1)]
    async with app_on(FakeBoard(runs=runs)).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "G")
        third = text_of(pilot.app).splitlines()[5].split()[0]
        for _ in range(2):
            await pilot.click(Grid, offset=(10, 4))
            await settled(pilot)
        assert isinstance(pilot.app.screen, ReportScreen)
        assert f"Run {third}" in text_of(pilot.app)


@pytest.mark.parametrize(("count", "words"), [(2, "Runs 2, 1 continue."), (300, "300 runs continue.")])
async def test_leaving_with_runs_in_flight_says_that_they_go_on(
    capsys: pytest.CaptureFixture[str], count: int, words: str
) -> None:
    app = app_on(FakeBoard(runs=[run(number, RunState.RUNNING) for number in range(count, 0, -1)]))
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "q")
    app._print_error_renderables()
    assert words in capsys.readouterr().err


async def test_a_beat_that_comes_while_the_app_closes_is_harmless() -> None:
    app = app_on(FakeBoard())
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
    assert not app.screen_stack
    app._post_tick()


async def test_the_form_says_what_may_be_wrong_with_a_gpu_that_is_up() -> None:
    class Warned(FakeBoard):
        def gpu_statuses(self) -> list[GpuStatus]:
            return [replace(status, warning="gpus.H100.python is no program") for status in super().gpu_statuses()]

    async with app_on(Warned()).run_test(size=(120, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "s")
        await until(pilot, lambda: "3/8 free  python?" in text_of(pilot.app))


class Hands:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.mark.parametrize(("held", "whom"), [("runs", "the board"), ("advance", "the scheduler")])
async def test_an_answer_that_takes_long_is_waited_for_in_words_and_leaves_what_is_known(held: str, whom: str) -> None:
    board, hands = FakeBoard(), Hands()
    app = BoardApp(lambda: board, now=hands, tick_seconds=3600, follow_seconds=3600)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "wrong value" in text_of(app))
        board.held[held] = threading.Event()
        board.calls.clear()
        app._post_tick()
        app._follow()
        await until(pilot, lambda: held in board.calls)
        hands.now += timedelta(seconds=1)
        app._post_tick()
        await pilot.pause()
        assert "waiting" not in text_of(app)
        hands.now += timedelta(seconds=11)
        app._post_tick()
        await until(pilot, lambda: f"waiting 12 s for {whom}" in text_of(app).splitlines()[0])
        assert "wrong value" in text_of(app)
        await pilot.resize_terminal(60, 16)
        app._post_tick()
        await until(pilot, lambda: text_of(app).splitlines()[0].rstrip().endswith("waiting 12 s"))
        board.free()
        await until(pilot, lambda: "waiting" not in text_of(app))


async def test_the_clock_of_a_run_stops_while_the_board_does_not_answer() -> None:
    board, hands = FakeBoard(), Hands()
    app = BoardApp(lambda: board, now=hands, tick_seconds=3600, follow_seconds=3600)

    def clock() -> str:
        (found,) = re.findall(r"running for \S+ \w+", text_of(app))
        return str(found)

    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "enter")
        before = clock()
        board.failures["whole"] = StorageError("the disk is full")
        for _ in range(2):
            hands.now += timedelta(minutes=10)
            app._post_tick()
            await until(pilot, lambda: "the disk is fu" in text_of(app))
            await settled(pilot)
        assert clock() == before
        board.failures.clear()
        app._post_tick()
        await until(pilot, lambda: clock() != before)


@pytest.mark.parametrize(
    "keys",
    [["home"], ["end"], ["home", "b"], ["end", "b"], ["r"], ["r", "home", "enter"], ["r", "home", "enter", "2"], ["f"]],
    ids=["first task", "last task", "empty board", "board", "runs", "run", "no cases", "feed"],
)
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_a_look_without_a_change_draws_nothing(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], keys: list[str]
) -> None:
    async with app_on(FakeBoard()).run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, *keys)
        await settled(pilot)
        screen, refresh = pilot.app.screen, Widget.refresh
        assert isinstance(screen, BoardScreen)
        # Tasks rest between two looks.
        look = screen.action_reload if isinstance(screen, TasksScreen) else screen.look_again
        look()
        await settled(pilot)
        drawn: list[Widget] = []

        def told(widget: Widget, *regions: Region, **options: bool) -> Widget:
            drawn.extend([widget] if widget in screen.walk_children() else [])
            return refresh(widget, *regions, **options)

        monkeypatch.setattr(Widget, "refresh", told)
        look()
        screen.show_ages()
        await settled(pilot)
        assert not drawn
