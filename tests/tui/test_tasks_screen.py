"""The tasks as a user finds, reads and begins them: every test drives the app through its keys and reads its screen."""

import hashlib
import os
from contextlib import nullcontext
from pathlib import Path

import pytest
from textual import events
from textual.widgets import Input, Static

from hpc_board.domain.run import RunState
from hpc_board.errors import StorageError
from hpc_board.model.gpu import Gpu
from hpc_board.model.result import Verdict
from hpc_board.model.task import Language, Mode
from hpc_board.tui import editor, targets
from hpc_board.tui.app import BoardApp
from hpc_board.tui.local_files import remember_sent
from hpc_board.tui.preferences import Memory
from hpc_board.tui.screens.base import BoardScreen
from hpc_board.tui.screens.dialogs import AskLines, Confirm
from hpc_board.tui.screens.submit import SubmitScreen
from hpc_board.tui.screens.tasks import TasksScreen
from hpc_board.tui.screens.watch import WatchScreen
from hpc_board.tui.widgets.filter_line import FilterLine
from hpc_board.tui.widgets.form import PathInput
from hpc_board.tui.widgets.grid import Grid
from tests.tui.driving import app_on, press, settled, text_of, until
from tests.tui.fake_board import A100, ADDRESS, H100, NOW, TASKS, FakeBoard, run, task
from tests.values import replace

TEMPLATE = "import torch\n\n\ndef custom_kernel(data):\n    return data\n"
REFERENCE = "def ref_kernel(data):\n    return data  # [bold]right[/bold]\n"


def board_with_code() -> FakeBoard:
    files = tuple(replace(file, text=REFERENCE) if file.name == "reference.py" else file for file in TASKS[-1].files)
    vectoradd = replace(TASKS[-1], templates={"Python": TEMPLATE}, files=files)
    return FakeBoard(tasks=(*TASKS[:-1], vectoradd))


def rows(text: str) -> list[str]:
    known = {task.name for task in TASKS}
    return [line.split()[0] for line in text.splitlines() if line.split() and line.split()[0] in known]


async def test_words_narrow_the_list_as_they_are_typed_and_escape_shows_all_again() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "slash", *"a100")
        assert rows(text_of(pilot.app)) == ["grayscale", "prefixsum", "vectoradd"]
        await press(pilot, *" vec")
        assert rows(text_of(pilot.app)) == ["vectoradd"]
        assert "Tasks 1 of 6 · filter: a100 vec" in text_of(pilot.app)
        await press(pilot, *"zz")
        assert "No row matches “a100 veczz”." in text_of(pilot.app)
        assert "Esc to clear it." in text_of(pilot.app)
        await press(pilot, "escape")
        assert "filter" not in text_of(pilot.app)
        assert len(rows(text_of(pilot.app))) == len(TASKS)
        assert not pilot.app.screen.query_one(FilterLine).display


async def test_t_leads_back_to_all_tasks() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "slash", *"vec", "enter", "r", "T")
        assert isinstance(pilot.app.screen, TasksScreen)
        assert (len(rows(text_of(pilot.app))), "filter" in text_of(pilot.app)) == (len(TASKS), False)
        assert pilot.app.screen.pane.grid.current == "vectoradd"


async def test_the_search_names_its_keys_and_a_list_without_a_match_has_the_whole_screen() -> None:
    async with app_on(FakeBoard()).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "slash")
        assert text_of(pilot.app).splitlines()[-1].startswith(" Enter Keep  Esc Clear")
        await press(pilot, *"zz")
        screen = pilot.app.screen
        assert isinstance(screen, TasksScreen)
        assert (screen.about.display, screen.query_one("#list").size.width) == (False, 120)
        await press(pilot, "escape")
        assert (screen.about.display, screen.query_one("#list").size.width < 80) == (True, True)


async def test_a_search_leaves_the_cursor_on_the_task_whose_name_was_typed() -> None:
    named = [
        replace(TASKS[0], name=name, description=words)
        for name, words in (
            ("gelu", "Beside softsign."),
            ("softsign_py", ""),
            ("softsign", ""),
            ("tanh", "No softsign."),
        )
    ]
    async with app_on(FakeBoard(tasks=named)).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        for first in ("home", "end"):
            await press(pilot, first)
            await pilot.press("slash", *"softsign", "enter")
            await settled(pilot)
            assert pilot.app.screen.query_one(Grid).current == "softsign"
            await press(pilot, "escape")
            assert "gelu" in text_of(pilot.app)
            assert pilot.app.screen.query_one(Grid).current == "softsign"


@pytest.mark.parametrize("screen", ["tasks", "runs"])
async def test_words_that_are_typed_at_once_with_the_key_before_them_are_searched_for(screen: str) -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        if screen == "runs":
            await press(pilot, "r")
        for key, character in (("slash", "/"), *((letter, letter) for letter in "prefix"), ("enter", None)):
            pilot.app.post_message(events.Key(key, character))
        await until(pilot, lambda: pilot.app.screen.query_one(Grid).row_count <= 1)
        await settled(pilot)
        assert isinstance(pilot.app.screen.focused, Grid)
        assert pilot.app.screen.query_one(Grid).current == ("prefixsum" if screen == "tasks" else None)


async def test_enter_opens_the_task_and_escape_goes_back_to_the_list() -> None:
    async with app_on(board_with_code()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert "Open" in text_of(pilot.app).splitlines()[-1]
        await press(pilot, "end", "enter")
        text = text_of(pilot.app)
        assert isinstance(pilot.app.screen, TasksScreen)
        assert "Tasks / vectoradd" in text
        assert not pilot.app.screen.query_one("#list").display
        assert pilot.app.screen.focused is pilot.app.screen.query_one("#about")
        await press(pilot, "2")
        assert pilot.app.screen.focused is pilot.app.screen.query_one("#reference-lines")
        assert "def ref_kernel" in text_of(pilot.app)
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen.focused, Grid)
        assert len(rows(text_of(pilot.app))) == len(TASKS)
        assert "Tasks / vectoradd" not in text_of(pilot.app)


@pytest.mark.parametrize("key", ["o", "O"])
async def test_the_list_behind_an_open_task_keeps_its_order_and_its_selection(key: str) -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "enter", key)
        lines = text_of(pilot.app).splitlines()
        assert "Tasks / vectoradd" in lines[0]
        assert "vectoradd" in lines[1]
        await press(pilot, "escape", key)
        assert "Tasks / " not in text_of(pilot.app).splitlines()[0]


async def test_an_open_task_that_leaves_the_board_gives_way_to_the_list() -> None:
    board = FakeBoard()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "enter")
        screen = pilot.app.screen
        assert isinstance(screen, TasksScreen)
        screen._show_tasks((replace(board.tasks.catalog(), tasks=()), {}))
        await settled(pilot)
        assert "Tasks / " not in text_of(pilot.app).splitlines()[0]
        assert screen.query_one("#list").display


async def test_an_open_task_stays_beside_the_list_on_a_wide_terminal() -> None:
    async with app_on(FakeBoard()).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "enter")
        assert rows(text_of(pilot.app))[: len(TASKS)] == [task.name for task in TASKS]
        assert pilot.app.screen.focused is pilot.app.screen.query_one("#about")
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen.focused, Grid)


async def test_the_filter_leads_from_an_open_task_to_the_list() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "enter", "slash")
        assert pilot.app.screen.query_one("#list").display
        assert isinstance(pilot.app.screen.focused, Input)


async def test_the_selection_is_there_after_a_restart_and_a_filter_is_not(tmp_path: Path) -> None:
    file = tmp_path / "app.json"
    for expected in (None, "prefixsum"):
        app = BoardApp(FakeBoard, now=lambda: NOW, tick_seconds=3600, follow_seconds=3600, memory=Memory(file))
        async with app.run_test(size=(80, 24)) as pilot:
            await settled(pilot)
            if expected is None:
                await press(pilot, "slash", *"h100", "enter", "down", "down")
            else:
                assert rows(text_of(app)) == [task.name for task in TASKS]
                assert app.screen.query_one(Grid).current == expected


async def test_boards_without_the_user_show_their_number_of_users() -> None:
    board = FakeBoard()
    board.user = "eve"
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end")
        lines = [" ".join(line.split()) for line in text_of(pilot.app).splitlines()]
        assert "H100 4 users, best 11.0 µs by bob" in lines
        assert "A100 1 user, best 21.4 µs by carol" in lines


async def test_boards_without_results_share_a_line_and_the_list_has_more_rows() -> None:
    tasks = [task(f"task{number:02}") for number in range(15)]
    async with app_on(FakeBoard(tasks=tasks)).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        shown = text_of(pilot.app)
        assert "no results on 3 GPUs" in shown
        assert "task09" in shown
        await pilot.resize_terminal(80, 40)
        await settled(pilot)
        assert "task14" in text_of(pilot.app)
        await press(pilot, "/", *"task03")
        assert "Implement task03." in text_of(pilot.app)


async def test_the_ranks_below_the_list_are_read_again_with_it() -> None:
    board = FakeBoard()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        asked = board.calls.count("pages")
        await press(pilot, "f5")
        assert board.calls.count("pages") == asked + 1


async def test_a_board_that_cannot_tell_the_own_places_says_so_and_shows_the_tasks() -> None:
    board = FakeBoard(failures={"places": StorageError("board.db: the disk is full")})
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert "the disk is full" in text_of(pilot.app)
        assert "vectoradd" in text_of(pilot.app)


async def test_the_selected_task_stays_in_sight_on_a_smaller_terminal() -> None:
    tasks = [replace(TASKS[0], name=f"task{number:02}") for number in range(45)]
    async with app_on(FakeBoard(tasks=tasks)).run_test(size=(200, 60)) as pilot:
        await settled(pilot)
        await press(pilot, "G")
        await pilot.resize_terminal(80, 24)
        await settled(pilot)
        assert "  task44  " in text_of(pilot.app)


async def test_reference_and_starter_are_read_as_text() -> None:
    async with app_on(board_with_code()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "right_square_bracket")
        assert "return data  # [bold]right[/bold]" in text_of(pilot.app)
        await press(pilot, "right_square_bracket")
        assert "def custom_kernel(data):" in text_of(pilot.app)
        assert "Template for vectoradd. The task:" not in text_of(pilot.app), "its header is above"
        await press(pilot, *["left_square_bracket"] * 2)
        assert "Vector addition" in text_of(pilot.app)


async def test_a_task_with_one_benchmark_has_no_plural() -> None:
    vectoradd = replace(TASKS[-1], benchmarks=TASKS[-1].benchmarks[:1])
    async with app_on(FakeBoard(tasks=(*TASKS[:-1], vectoradd))).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end")
        assert "4 tests, 1 benchmark, ranked by" in text_of(pilot.app)


async def test_a_reference_that_a_service_keeps_is_said_to_be_there() -> None:
    files = tuple(replace(file, text=None if file.text is None else "") for file in TASKS[-1].files)
    kept = replace(TASKS[-1], files=files, published_version="a" * 64)
    async with app_on(FakeBoard(tasks=(*TASKS[:-1], kept))).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "right_square_bracket")
        assert "The service does not publish the reference." in text_of(pilot.app)


async def test_a_task_without_a_starter_offers_none() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "W")
        assert isinstance(pilot.app.screen, TasksScreen)
        await press(pilot, "3")
        assert "This task has no starter" in text_of(pilot.app)


def save(file: Path, *_: object) -> None:
    """Save the file in the place of an editor, without a change."""
    os.utime(file, ns=(0, 0))


async def test_a_starter_that_the_editor_does_not_save_is_removed_and_opens_no_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VISUAL", "true")
    monkeypatch.setattr(editor, "edit", lambda *_: None)
    monkeypatch.setattr(BoardApp, "suspend", nullcontext)
    async with app_on(board_with_code()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "e")
        assert isinstance(pilot.app.screen, TasksScreen)
        (told,) = pilot.app._notifications
        assert told.message.startswith("vectoradd.py was not changed, and is removed.")
        assert not (tmp_path / "vectoradd.py").exists()


async def test_a_starter_that_is_written_to_be_edited_is_named_by_the_form_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VISUAL", "true")
    monkeypatch.setattr(editor, "edit", save)
    monkeypatch.setattr(BoardApp, "suspend", nullcontext)
    async with app_on(board_with_code()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "e")
        assert isinstance(pilot.app.screen, SubmitScreen)
        assert pilot.app.screen.query_one(PathInput).value == "vectoradd.py"
        assert not pilot.app._notifications


@pytest.mark.parametrize(("key", "screen"), [("s", SubmitScreen), ("e", SubmitScreen), ("w", WatchScreen)])
async def test_the_keys_of_a_task_take_the_file_of_its_latest_run_before_the_starter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, screen: type[BoardScreen]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VISUAL", "true")
    monkeypatch.setattr(editor, "edit", lambda *_: None)
    monkeypatch.setattr(BoardApp, "suspend", nullcontext)
    board = board_with_code()
    latest = run(7, RunState.FINISHED, gpu="A100", mode=Mode.BENCHMARK, verdict=Verdict.WRONG_VALUE)
    name, code = board.code(latest.id)
    Path(name).write_bytes(code)
    board.known_runs = [replace(latest, file_name=name, code_sha256=hashlib.sha256(code).hexdigest())]
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", key)
        assert isinstance(pilot.app.screen, screen)
        assert name in text_of(pilot.app)
        assert "vectoradd on A100, mode benchmark" in text_of(pilot.app)
        assert not Path("vectoradd.py").exists()


@pytest.mark.parametrize("key", ["s", "e", "w"])
@pytest.mark.parametrize(
    ("here", "is_taken"),
    [
        ("sent", True),
        ("sent, and edited since", True),
        ("new", True),
        ("#!POPCORN leaderboard conv2d\n", False),
        ("", False),
    ],
    ids=["sent", "edited", "new", "other_task", "none"],
)
async def test_the_keys_of_a_task_take_the_file_of_this_folder_before_that_of_a_later_run_in_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, here: str, is_taken: bool
) -> None:
    this, other = (tmp_path / name / "kernel.py" for name in ("this", "other"))
    monkeypatch.setattr(FakeBoard, "code", lambda _, number: ("kernel.py", {7: b"sent", 8: b"sent there"}[number]))
    memory, board = Memory(), board_with_code()
    board.known_runs = []
    for number, (file, text) in enumerate([(this, "sent"), (other, "sent there")], 7):
        file.parent.mkdir()
        file.write_text(text)
        passed = run(number, RunState.FINISHED, mode=Mode.TEST, verdict=Verdict.WRONG_VALUE)
        sent = replace(passed, file_name="kernel.py", code_sha256=hashlib.sha256(text.encode()).hexdigest())
        board.known_runs.insert(0, sent)
        if file is other or here.startswith("sent"):
            remember_sent(memory, ADDRESS, (file, text.encode()))
    if here:
        this.write_text(here)
    else:
        this.unlink()
    edited: list[Path] = []
    monkeypatch.chdir(this.parent)
    monkeypatch.setenv("VISUAL", "true")
    monkeypatch.setattr(editor, "edit", lambda file, *_: edited.append(file))
    monkeypatch.setattr(BoardApp, "suspend", nullcontext)
    app = BoardApp(lambda: board, now=lambda: NOW, tick_seconds=3600, memory=memory)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "end", key)
        taken = Path("kernel.py") if is_taken else other
        if key == "w":
            assert isinstance(app.screen, WatchScreen)
            assert app.screen.target == targets.Watch(taken, "vectoradd", ("H100",), mode=Mode.TEST)
        else:
            assert app.screen.query_one(PathInput).path == taken
        assert edited == [taken] * (key == "e")
        note = app.screen.query_one("#watched" if key == "w" else "#file-note", Static).visual
        assert ("n another folder" in str(note)) is not is_taken


@pytest.mark.parametrize(("gpus", "screen"), [((H100,), WatchScreen), ((H100, A100), SubmitScreen)])
async def test_the_starter_of_a_task_is_watched_on_the_only_gpu_or_after_a_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: tuple[Gpu, ...], screen: type[BoardScreen]
) -> None:
    monkeypatch.chdir(tmp_path)
    board = board_with_code()
    board.known_gpus = gpus
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "home", "w")
        assert isinstance(pilot.app.screen, TasksScreen), "a task without a starter"
        await press(pilot, "end", "w")
        assert isinstance(pilot.app.screen, screen)
        assert (tmp_path / "vectoradd.py").read_text().endswith(TEMPLATE)
        assert "Starter written to vectoradd.py." in [told.message for told in pilot.app._notifications]
        if screen is SubmitScreen:
            await press(pilot, "space", "w")
        assert "vectoradd.py → vectoradd on H100, mode test" in text_of(pilot.app)


@pytest.mark.parametrize(("marked", "has_rank"), [("identity", False), ("vectoradd", True)])
async def test_a_user_without_a_rank_on_it_begins_with_the_marked_task(
    tmp_path: Path, marked: str, has_rank: bool
) -> None:
    tasks = [replace(each, start_here=each.name == marked) for each in TASKS]
    board = FakeBoard(tasks=tasks)
    for first in (not has_rank, False):
        memory = Memory(tmp_path / "app.json")
        app = BoardApp(lambda: board, now=lambda: NOW, tick_seconds=3600, memory=memory)
        async with app.run_test(size=(80, 24)) as pilot:
            await settled(pilot)
            assert (f"{marked} · start here" in text_of(app)) is not has_rank
            assert rows(text_of(app))[0] == ("conv2d" if has_rank else "identity")
            assert app.screen.query_one(Grid).current == ("identity" if first else "conv2d")
            # By language, it is the first of its own.
            await press(pilot, "home", *([] if has_rank else ["down"]), "o")
            assert rows(text_of(app))[:2] == ["matmul", "conv2d" if has_rank else "identity"]
    board.address = Path("/boards/other")
    app = BoardApp(lambda: board, now=lambda: NOW, tick_seconds=3600, memory=Memory(tmp_path / "app.json"))
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert app.screen.query_one(Grid).current == ("conv2d" if has_rank else "identity")


@pytest.mark.parametrize("size", [(80, 24), (60, 16)])
async def test_an_empty_form_offers_the_starter_and_its_key_edits_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VISUAL", "true")
    monkeypatch.setattr(BoardApp, "suspend", nullcontext)
    monkeypatch.setattr(editor, "edit", save)
    async with app_on(board_with_code()).run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "s")
        assert "F4 edits" not in text_of(pilot.app), "the task has no starter"
        await press(pilot, "escape", "end", "s")
        assert "F4 edits the starter, vectoradd.py." in text_of(pilot.app)
        await press(pilot, "k")
        assert "F4 edits" not in text_of(pilot.app)
        await press(pilot, "backspace", "f4")
        assert pilot.app.screen.query_one(PathInput).value == "vectoradd.py"
        assert (tmp_path / "vectoradd.py").exists()


async def test_a_new_name_in_the_form_offers_the_starter_in_its_language_and_the_key_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VISUAL", "true")
    monkeypatch.setattr(BoardApp, "suspend", nullcontext)
    monkeypatch.setattr(editor, "edit", save)
    vectoradd = replace(TASKS[-1], templates={"Python": TEMPLATE, "C++": "third"}, languages=(Language.CPP,))
    async with app_on(FakeBoard(tasks=(*TASKS[:-1], vectoradd))).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "s")
        assert ".cpp file" in text_of(pilot.app)
        assert ".py" not in text_of(pilot.app).partition("F4 edits")[0]
        for name in ("no/k.cpp", "k.hip"):
            await press(pilot, "ctrl+u", *name, "f4")
            assert "No such file. Check the path." in text_of(pilot.app)
        await press(pilot, "ctrl+u", *"spmv.cpp")
        assert "No such file. F4 writes the C++ starter to spmv.cpp." in text_of(pilot.app)
        await press(pilot, "f4")
        assert pilot.app.screen.query_one(PathInput).value == "spmv.cpp"
        assert (tmp_path / "spmv.cpp").read_text().endswith("third")


async def test_the_starter_is_written_and_never_over_a_file_without_a_question(tmp_path: Path) -> None:
    async with app_on(board_with_code()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "W")
        assert isinstance(pilot.app.screen, AskLines)
        await press(pilot, "enter")
        file = tmp_path / "vectoradd.py"
        text = file.read_text()
        assert (text.startswith("#!POPCORN leaderboard vectoradd\n"), text.endswith(TEMPLATE)) == (True, True)
        assert [toast.message for toast in pilot.app._notifications] == ["Starter written to vectoradd.py."]
        file.write_text("my work")
        await press(pilot, "W", "enter")
        assert isinstance(pilot.app.screen, Confirm)
        assert file.read_text() == "my work"
        await press(pilot, "escape", "escape")
        assert isinstance(pilot.app.screen, TasksScreen)
        assert file.read_text() == "my work"
        await press(pilot, "W", "enter", "right", "enter")
        assert "custom_kernel" in file.read_text()


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("no/such/x.py", "such file"),
        ("", "File is required"),
        ("../", "is a folder"),
        ("no/", "no/ is a folder: enter the name"),
        ("k.cu", "task vectoradd has no template for k.cu. It has: Python"),
    ],
)
async def test_a_path_that_cannot_be_written_says_why(tmp_path: Path, typed: str, words: str) -> None:
    async with app_on(board_with_code()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "W", "ctrl+u", *typed, "enter")
        shown = " ".join(text_of(pilot.app).split())
        assert words in shown
        assert not list(tmp_path.glob("*.py"))


async def test_the_starter_is_in_the_language_of_its_file_name(tmp_path: Path) -> None:
    vectoradd = replace(TASKS[-1], templates={"Python": TEMPLATE, "cuBLAS": "first", "CUDA": "second", "C++": "third"})
    async with app_on(FakeBoard(tasks=(*TASKS[:-1], vectoradd))).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "W")
        assert "Write the starter of vectoradd (.py or .cu or .cpp):" in text_of(pilot.app)
        for name, ending in (("k.cu", "first"), ("k.cpp", "third"), ("k.py", TEMPLATE)):
            await press(pilot, "ctrl+u", *name, "enter", "W")
            assert (tmp_path / name).read_text().endswith(ending)


async def test_the_folder_of_the_last_starter_is_offered_again(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    async with app_on(board_with_code()).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "W", "ctrl+u", *"sub/k.py", "enter", "W")
        assert str(tmp_path / "sub" / "vectoradd.py") in pilot.app.screen.query_one(Input).value


async def test_what_is_shown_is_copied() -> None:
    async with app_on(board_with_code()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "right_square_bracket", "y")
        assert pilot.app.clipboard == REFERENCE


async def test_a_key_and_a_click_on_a_head_sort_the_tasks_until_a_restart(tmp_path: Path) -> None:
    def app() -> BoardApp:
        return BoardApp(FakeBoard, now=lambda: NOW, tick_seconds=3600, memory=Memory(tmp_path / "app.json"))

    async with app().run_test(size=(100, 24)) as pilot:
        await settled(pilot)
        names = rows(text_of(pilot.app))
        assert "Task▲" in text_of(pilot.app)
        assert names == sorted(names)
        await press(pilot, "O")
        assert "Task▼" in text_of(pilot.app)
        assert rows(text_of(pilot.app)) == names[::-1]
        await press(pilot, "o")
        assert "Lang▲" in text_of(pilot.app)
        head = next(line for line in text_of(pilot.app).splitlines() if "Deadline" in line)
        await pilot.click(Grid, offset=(head.index("Deadline"), 1))
        await settled(pilot)
        assert "▲Deadline" in text_of(pilot.app)
        soonest = rows(text_of(pilot.app))
        left = [task.deadline for name in soonest for task in TASKS if task.name == name]
        known = [moment for moment in left if moment is not None]
        assert left == [*sorted(known), *[None] * (len(left) - len(known))]
        assert pilot.app.screen.query_one(Grid).current == soonest[0]
        await press(pilot, "slash", *"a100", "escape")
        assert rows(text_of(pilot.app)) == soonest
    again = app()
    async with again.run_test(size=(100, 24)) as pilot:
        await settled(pilot)
        assert "Task▲" in text_of(again)
        assert rows(text_of(again)) == names


async def test_tasks_that_were_never_read_load_no_longer() -> None:
    board = FakeBoard(failures={"tasks": StorageError("the disk is full")})
    async with app_on(board).run_test(size=(100, 24)) as pilot:
        await settled(pilot)
        assert "the disk is full" in text_of(pilot.app)
        assert "Loading" not in text_of(pilot.app)
        assert "No data yet. Retrying automatically." in text_of(pilot.app)
        board.failures.clear()
        await press(pilot, "f5")
        assert "identity" in text_of(pilot.app)
        assert "No data" not in text_of(pilot.app)


async def test_a_task_without_a_gpu_here_says_so_in_the_list_and_the_reason_below_it() -> None:
    async with app_on(FakeBoard(gpus=(H100, A100))).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        (line,) = [line for line in text_of(pilot.app).splitlines() if line.split()[:1] == ["identity"]]
        assert "none here" in line
        assert text_of(pilot.app).count("none here") == 1
        screen = pilot.app.screen
        assert isinstance(screen, TasksScreen)
        assert "has no GPU here" not in str(screen.places.content)
        await press(pilot, "down", "down")
        reason = "identity has no GPU here: it may run on L4. This board has: H100, A100."
        assert str(screen.places.content) == reason
        await press(pilot, "up")
        assert reason not in str(screen.places.content)


async def test_a_list_of_tasks_has_columns_for_deadlines_and_gpus_once_a_task_has_one() -> None:
    board = FakeBoard(tasks=(task("identity"),))
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert "Your best" in text_of(pilot.app)
        assert "Lang  Your best  Rank\n" in text_of(pilot.app)
        board.known_tasks = (task("identity"), task("grayscale", hours=7, gpus=("H100",)))
        await press(pilot, "f5")
        assert "Lang  GPUs  Your best  Rank  Deadline" in text_of(pilot.app)
        assert rows(text_of(pilot.app)) == ["grayscale", "identity"]
