"""The app towards terminals, other programs, faults of the board, and a user's preferences."""

import base64
import ctypes
import os
import re
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from textual import events
from textual.color import Color
from textual.command import CommandPalette
from textual.containers import VerticalScroll
from textual.theme import BUILTIN_THEMES, Theme
from textual.widgets import Input, OptionList

from hpc_board.board import Board
from hpc_board.domain.run import RunState
from hpc_board.errors import InputError, SchedulerError
from hpc_board.store import Store
from hpc_board.tui import app as app_module
from hpc_board.tui import keys, targets, themes
from hpc_board.tui.app import BoardApp, keyed, load_preferences
from hpc_board.tui.messages import BackgroundFound, Open
from hpc_board.tui.palette import Tone
from hpc_board.tui.preferences import Memory, Notify, Preferences
from hpc_board.tui.screens.frame import TooSmallScreen
from hpc_board.tui.screens.report import ReportScreen
from hpc_board.tui.screens.runs import RunsScreen
from hpc_board.tui.screens.submit import SubmitScreen
from hpc_board.tui.screens.tasks import TasksScreen
from hpc_board.tui.terminal import clipboard_sequence, notification_sequence
from hpc_board.tui.widgets.bars import ErrorBox
from tests.e2e.boards import HANGING, RIGHT, BoardFiles, board_files
from tests.tmux import Tmux, shown_in
from tests.tui.driving import app_on, opened, press, settled, text_of, until
from tests.tui.fake_board import ADDRESS, NOW, RUNS, FakeBoard
from tests.tui.test_terminal import on_a_terminal
from tests.values import replace, requested

ROOT = Path(__file__).parents[2]


def app_with(board: Board, **options: object) -> BoardApp:
    """The app with the preferences and the memory of a user, whose clock stands still."""
    return BoardApp(lambda: board, now=lambda: NOW, tick_seconds=3600, follow_seconds=3600, **options)  # type: ignore[arg-type]


# Finding things


async def test_every_action_of_the_screen_and_of_the_app_is_in_the_palette() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 70)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "ctrl+p")
        assert isinstance(pilot.app.screen, CommandPalette)
        shown = text_of(pilot.app)
        # A run in flight can be cancelled, an ended one marked.
        await press(pilot, "escape", "down", "down", "ctrl+p")
        shown += text_of(pilot.app)
        for binding in RunsScreen.BINDINGS:
            assert binding.tooltip in shown or not binding.tooltip, binding  # type: ignore[union-attr]
        for words in ("Feed", "Theme", "Help", "Quit"):
            assert words in shown


@pytest.mark.parametrize(
    ("keys", "here"),
    [
        ((), set()),
        (("r",), {"Runs"}),
        (("r", "down", "enter"), set()),
        (("end", "b"), set()),
        (("f",), {"Feed"}),
    ],
    ids=["tasks", "runs", "run", "board", "feed"],
)
async def test_no_action_is_in_the_palette_twice_and_no_screen_leads_to_itself(
    keys: tuple[str, ...], here: set[str]
) -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 70)) as pilot:
        await settled(pilot)
        await press(pilot, *keys, "ctrl+p")
        lines = pilot.app.screen.query_one(OptionList)
        await until(pilot, lambda: lines.option_count > 0)
        await settled(pilot)
        names = [option.hit.text for option in lines.options]  # type: ignore[attr-defined]
        assert len(names) == len(set(names))
        assert {"Submit", "Runs", "Feed"} - set(names) == here


async def test_the_palette_keeps_its_column_beside_long_names() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "ctrl+p", "d")
        words = ("Show recent changes to the standings", "Theme, dark")
        await until(pilot, lambda: all(each in text_of(pilot.app) for each in words))
        lines = text_of(pilot.app).splitlines()
        assert len({line.index(each) for line in lines for each in words if each in line}) == 1


async def test_an_action_is_done_from_the_palette_by_its_name() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "ctrl+p", *"all users")
        await until(pilot, lambda: "Switch between" in text_of(pilot.app))
        await press(pilot, "down", "enter")
        await until(pilot, lambda: "Runs / all users" in text_of(pilot.app))
        assert isinstance(pilot.app.screen, RunsScreen)


async def test_a_theme_is_found_among_the_actions_by_its_name_alone() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "ctrl+p")
        assert "gruvbox" not in text_of(pilot.app)
        await press(pilot, *"gruvbox")
        await until(pilot, lambda: "Theme, dark" in text_of(pilot.app))
        await press(pilot, "down", "enter")
        await until(pilot, lambda: pilot.app.theme == "gruvbox")


async def test_a_theme_is_chosen_in_the_palette_and_remembered(tmp_path: Path) -> None:
    file = tmp_path / "app.json"
    async with app_with(FakeBoard(), memory=Memory(file)).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "ctrl+p", *"theme")
        await until(pilot, lambda: "now hpc-board" in text_of(pilot.app))
        await press(pilot, "enter")
        await until(pilot, lambda: "Choose a theme" in text_of(pilot.app))
        # The app shows the theme under the cursor, until the palette is closed without a choice.
        await press(pilot, "down")
        await until(pilot, lambda: pilot.app.theme == themes.LIGHT.name)
        # The palette has its colours, and the app beside it is not dimmed.
        surface = Color.parse(themes.LIGHT.surface or "")
        await until(pilot, lambda: pilot.app.screen.query_one(OptionList).styles.background == surface)
        assert pilot.app.screen.styles.background.a == 0
        await press(pilot, *"ansi")
        await until(pilot, lambda: "ansi-light" in text_of(pilot.app) and "nord" not in text_of(pilot.app))
        await press(pilot, "down")
        await until(pilot, lambda: pilot.app.theme.startswith("ansi-"))
        await press(pilot, "escape")
        assert pilot.app.theme == themes.DARK.name
        # An action that was used is the first one from then on.
        await press(pilot, "ctrl+p", "enter")
        await until(pilot, lambda: "Choose a theme" in text_of(pilot.app))
        await press(pilot, *"board-light")
        await until(pilot, lambda: "hpc-board-light" in text_of(pilot.app))
        await press(pilot, "down", "enter")
        await until(pilot, lambda: pilot.app.theme == themes.LIGHT.name)
        await settled(pilot)
    assert app_with(FakeBoard(), memory=Memory(file)).theme == themes.LIGHT.name
    # A theme that is written into the settings afterwards counts.
    later = app_with(FakeBoard(), memory=Memory(file), user_preferences=Preferences(theme="nord"))
    assert later.theme == "nord"


async def test_a_theme_that_the_user_chose_wins_over_the_background() -> None:
    for chosen, theme in (("", themes.LIGHT.name), ("nord", "nord"), (themes.DARK.name, themes.DARK.name)):
        app = app_with(FakeBoard(), user_preferences=Preferences(theme=chosen))
        async with app.run_test(size=(80, 24)) as pilot:
            await settled(pilot)
            app.post_message(BackgroundFound(is_light=True))
            await settled(pilot)
            assert app.theme == theme


async def test_every_theme_shows_every_screen() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "enter")
        for name in (themes.DARK.name, themes.LIGHT.name, *BUILTIN_THEMES):
            pilot.app.theme = name
            await pilot.pause()
            assert "Passed: 3 tests" in text_of(pilot.app), name


def contrast(one: Color, other: Color) -> float:
    """The ratio that WCAG 2 defines, from 1 to 21."""

    def luminance(colour: Color) -> float:
        parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [themes.DARK, themes.LIGHT], ids=lambda theme: theme.name)
@pytest.mark.parametrize("tone", [tone for tone in Tone if "$" in tone.value], ids=lambda tone: tone.name)
def test_words_of_every_tone_stand_out_from_their_ground(theme: Theme, tone: Tone) -> None:
    word = Color.parse(themes.tone_variables(theme)[tone.value.rpartition("$")[2]])
    for ground in (theme.background, theme.surface, theme.panel):
        assert ground is not None
        assert contrast(word, Color.parse(ground)) >= 4.5


async def test_a_change_of_theme_recolours_what_is_shown_already() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r")
        pilot.app.theme = themes.LIGHT.name
        await settled(pilot)
        drawn = pilot.app.export_screenshot()
        for colour in (themes.DARK.primary, themes.DARK.warning, themes.DARK.error, themes.DARK.variables["muted"]):
            assert str(colour).lower() not in drawn.lower()
        assert str(themes.LIGHT.error).lower() in drawn.lower()


# The way out


async def test_the_second_of_two_interrupts_quits_and_the_first_says_so() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "ctrl+c")
        assert [each.message for each in pilot.app._notifications] == ["Press ^c again to quit; runs continue."]
        await press(pilot, "down")
        await press(pilot, "ctrl+c")
        assert not pilot.app._exit
        await pilot.press("ctrl+c")
        await until(pilot, lambda: pilot.app._exit)


# Keys of one's own


def written_preferences(folder: Path, text: str) -> Preferences:
    file = folder / "hpc-board" / "app.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return load_preferences({"XDG_CONFIG_HOME": str(folder)})


async def test_a_key_of_ones_own_takes_the_place_of_ours(tmp_path: Path) -> None:
    wanted = written_preferences(tmp_path, "keys:\n  app.runs: 'z,f9'\n  app.quit: f10\n")
    assert wanted.fault is None
    async with app_with(FakeBoard(), user_preferences=wanted).run_test(size=(120, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "q")
        assert not pilot.app._exit
        assert "Tasks" in text_of(pilot.app).splitlines()[0]
        assert " z Runs " in text_of(pilot.app).splitlines()[-1]
        await press(pilot, "z")
        assert "Runs / your runs" in text_of(pilot.app)
        await press(pilot, "escape", "f9")
        assert "Runs / your runs" in text_of(pilot.app)
        await press(pilot, "escape", "ctrl+p")
        await until(pilot, lambda: re.search(r" Runs +z ", text_of(pilot.app)) is not None)
        await press(pilot, "escape")
        await pilot.press("f10")
        assert pilot.app._exit


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("keys: {app.runs: s}", '"s" is already the key of '),
        ("keys: {app.runs: q}", '"q" is already the key of app.quit'),
        ("keys: {submit.send: x}", '"x" could then not be typed in text fields'),
        ("keys: {app.run: x}", 'Did you mean "app.runs"'),
        ("theme: hpc-bord", 'Did you mean "hpc-board"'),
    ],
)
async def test_a_fault_of_the_settings_is_one_box_and_the_defaults_hold(tmp_path: Path, text: str, words: str) -> None:
    wanted = written_preferences(tmp_path, text)
    async with app_with(FakeBoard(), user_preferences=wanted).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        shown = " ".join(text_of(pilot.app).split())
        assert words in shown
        assert "The app uses its defaults" in shown
        await press(pilot, "escape")
        assert not pilot.app.screen.query_one(ErrorBox).display
        await press(pilot, "r")
        assert isinstance(pilot.app.screen, RunsScreen)


async def test_a_fault_of_the_settings_is_told_before_the_form_for_a_file_too(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text("#!POPCORN leaderboard vectoradd_py\n")
    app = app_with(FakeBoard(), file=file, user_preferences=written_preferences(tmp_path, "theme: hpc-bord"))
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert isinstance(app.screen, SubmitScreen)
        assert any('Did you mean "hpc-board"' in each.message for each in app._notifications)


def test_two_actions_may_swap_their_keys(tmp_path: Path) -> None:
    assert written_preferences(tmp_path, "keys: {runs.select: c, run.cancel: space}").fault is None


def test_every_key_of_ours_has_a_name_and_no_two_on_a_screen_are_the_same() -> None:
    places = keyed()
    assert keys.clashes(dict.fromkeys(keys.actions(places), ""), places) == {}
    for name in (
        "tasks.submit",
        "run.cancel",
        "submit.send",
        "report.back",
        "app.commands",
        "list.open",
    ):
        assert name in keys.actions(places) or name == "report.back"


# Terminals


async def test_a_screen_that_opens_while_the_terminal_is_too_small_hides_no_words_below_it() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.resize_terminal(50, 12)
        await until(pilot, lambda: isinstance(pilot.app.screen, TooSmallScreen))
        pilot.app.post_message(Open(targets.Sent((40,))))
        await until(pilot, lambda: any(isinstance(screen, ReportScreen) for screen in pilot.app.screen_stack))
        await until(pilot, lambda: isinstance(pilot.app.screen, TooSmallScreen))
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: isinstance(pilot.app.screen, ReportScreen))
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, RunsScreen)


async def test_a_terminal_that_is_too_small_gets_words_until_it_grows() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down")
        await pilot.resize_terminal(59, 16)
        await until(pilot, lambda: isinstance(pilot.app.screen, TooSmallScreen))
        assert "hpc-board needs 60x16; this terminal has 59x16." in " ".join(text_of(pilot.app).split())
        await press(pilot, "c", "escape", "escape", "s", "ctrl+p")
        await pilot.resize_terminal(20, 3)
        await until(pilot, lambda: "20x3" in text_of(pilot.app))
        await pilot.resize_terminal(60, 16)
        await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen))
        await settled(pilot)
        assert pilot.app.screen.query_one("#runs").current == "40"  # type: ignore[attr-defined]


@pytest.mark.parametrize("term", ["dumb", "", "unknown"])
def test_a_terminal_that_only_prints_lines_is_told_what_to_use_instead(term: str) -> None:
    with pytest.raises(InputError, match="cannot show the app") as caught:
        app_module.run(FakeBoard, environ={"TERM": term})
    assert "hpc-board runs" in caught.value.hint or "`runs`" in caught.value.hint


@pytest.mark.parametrize(("value", "without"), [("1", True), ("", False)])
async def test_no_color_counts_where_it_is_not_empty(
    monkeypatch: pytest.MonkeyPatch, value: str, without: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", value)
    assert app_on(FakeBoard()).no_color is without


async def test_without_colours_fields_and_the_open_tab_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:

        def has(text: str, attribute: str) -> bool:
            strips = pilot.app.screen._compositor.render_strips(pilot.app.size)
            (style,) = [each.style for strip in strips for each in strip if each.text.strip() == text]
            return bool(style and getattr(style, attribute))

        await settled(pilot)
        await press(pilot, "end", "s", "tab")
        assert has(".py file", "underline")
        assert has("optional", "underline")
        await press(pilot, "escape", "b")
        assert has("H100", "bold")
        assert not has("A100", "bold")


async def test_without_colours_clicks_reach_lists_palette_and_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: Path
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    (tmp_path / "other.py").write_text("import torch\n")
    async with app_on(FakeBoard(), kernel).run_test(size=(80, 24)) as pilot:

        async def click(words: str) -> None:
            strips = pilot.app.screen._compositor.render_strips(pilot.app.size)
            lines = [strip.text for strip in strips]
            (y,) = [number for number, line in enumerate(lines) if words in line]
            await pilot.click(offset=(lines[y].index(words), y))
            await settled(pilot)

        await settled(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, SubmitScreen)
        screen.task_select.focus()
        await press(pilot, "enter")
        await click("grayscale")
        assert screen.task_select.value == "grayscale"
        await press(pilot, "ctrl+p", *"browse")
        await until(pilot, lambda: "Pick the file from a tree" in text_of(pilot.app))
        await click("Pick the file from a tree")
        await until(pilot, lambda: "other.py" in text_of(pilot.app))
        await click("other.py")
        assert screen.path_input.path == tmp_path / "other.py"
        assert pilot.app.screen is screen


async def test_pasted_lines_in_a_field_stay_there_and_press_nothing() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "slash")
        pilot.app.post_message(events.Paste("vec\nq\x11\x1bs"))
        await settled(pilot)
        assert isinstance(pilot.app.screen, TasksScreen)
        assert pilot.app.screen.query_one("FilterLine Input", Input).value.startswith("vec")
        assert not pilot.app._exit


def test_the_clipboard_is_reached_through_tmux_and_screen() -> None:
    data = base64.b64encode("käse".encode()).decode()
    assert clipboard_sequence("käse", {}) == ""
    assert clipboard_sequence("käse", {"TMUX": "x"}) == f"\x1bPtmux;\x1b\x1b]52;c;{data}\a\x1b\\"
    assert clipboard_sequence("käse", {"STY": "x"}) == f"\x1bP\x1b]52;c;{data}\a\x1b\\"
    long = clipboard_sequence("x" * 3000, {"STY": "x"})
    assert long.count("\x1bP") == 6
    assert (
        base64.b64decode("".join(long.split("\x1b\\")).replace("\x1bP", "").split(";c;")[1].strip("\a")) == b"x" * 3000
    )
    assert clipboard_sequence("x" * 100_000, {"TMUX": "x"}) == ""


def test_a_notification_cannot_carry_a_sequence_of_somebody_elses() -> None:
    assert notification_sequence("Run 1: \x1b]52;c;eA==\x07 a\nb", {}).count("\x1b") == 1


@pytest.mark.parametrize(
    ("wish", "written"),
    [(Notify.NONE, ""), (Notify.BELL, "\a"), (Notify.OSC9, "\x1b]9;Run 40: vectoradd on H100: pass")],
)
async def test_the_end_of_a_run_rings_or_tells_the_terminal_where_that_is_wished(
    monkeypatch: pytest.MonkeyPatch, wish: Notify, written: str
) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.delenv("STY", raising=False)
    board = FakeBoard()
    app = BoardApp(
        lambda: board,
        now=lambda: NOW,
        tick_seconds=0.05,
        follow_seconds=0.05,
        user_preferences=Preferences(notify=wish),
    )
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "2 in flight" in text_of(app))
        told: list[str] = []
        monkeypatch.setattr(app, "terminal", SimpleNamespace(write=told.append))
        board.replace_run(replace(RUNS[2], id=40))
        await until(pilot, lambda: any("Run 40" in (toast.title or "") for toast in app._notifications))
        assert "".join(told).startswith(written)
        assert bool(told) is bool(written)


async def test_a_page_is_turned_in_one_frame() -> None:
    async with app_with(FakeBoard()).run_test(size=(80, 16)) as pilot:
        await opened(pilot)
        await press(pilot, "f1")
        box = next(box for box in pilot.app.screen.query(VerticalScroll) if box.max_scroll_y > 0)
        box.scroll_page_down()
        await until(pilot, lambda: box.scroll_y > 0)
        assert box.scroll_y == box.scroll_target_y


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_signal_leaves_the_terminal_as_it_was(tmp_path: Path, number: signal.Signals) -> None:
    # Under `nohup` every process of the tests ignores SIGHUP, which the app respects.
    program = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL);"
        "from pathlib import Path; from tests.tui.fake_board import FakeBoard; from hpc_board.tui.app import BoardApp;"
        "from hpc_board.tui.preferences import Memory;"
        f"app = BoardApp(FakeBoard, memory=Memory(Path({str(tmp_path / 'app.json')!r})));"
        "app.run(); raise SystemExit(app.return_code)"
    )
    with on_a_terminal(program) as terminal:
        terminal.until(b"vectoradd")
        terminal.type(b"o")
        terminal.until("Lang▲".encode())
        os.kill(terminal.process.pid, number)
        assert terminal.end() == 128 + number
        assert b"\x1b[?1049l" in terminal.shown
        assert b"\x1b[?25h" in terminal.shown
    assert Memory(tmp_path / "app.json").get("tasks", f"selected on {ADDRESS}", "")


def test_who_leaves_while_a_question_hangs_has_the_shell_back_and_is_told_what_goes_on(tmp_path: Path) -> None:
    environ = {"TERM": "xterm-256color", "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    kernel = tmp_path / "kernel.py"
    kernel.write_text("import torch\n")
    program = (
        "from pathlib import Path; from tests.tui.fake_board import FakeBoard; from hpc_board.tui import app;"
        f"app.run(lambda: FakeBoard(held=['gpus']), Path({str(kernel)!r}), {environ!r}); print('to its end')"
    )
    with on_a_terminal(program) as terminal:
        terminal.until(b"Mode")
        terminal.until(b"in flight")
        begun = time.monotonic()
        terminal.type(b"\x11")
        assert terminal.process.wait(60) == 0
        # The question is answered after 30 s.
        assert time.monotonic() - begun < 25
        terminal.until(b"continue. `hpc-board runs` lists your runs.")
        assert b"to its end" not in terminal.shown


def test_an_app_whose_terminal_has_gone_ends_although_it_ignores_the_signal() -> None:
    program = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN);"
        "from tests.tui.fake_board import FakeBoard; from hpc_board.tui.app import BoardApp;"
        "app = BoardApp(FakeBoard); app.run(); raise SystemExit(app.return_code)"
    )
    with on_a_terminal(program) as terminal:
        terminal.until(b"vectoradd")
        terminal.hang_up()
        assert terminal.process.wait(30) != 0


# tmux


def app_in_tmux(tmux: Tmux, files: BoardFiles, *words: str, size: tuple[int, int] = (80, 24)) -> None:
    """Start the app in a session, as the command line starts it."""
    names = {"XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config"}
    environ = [f"{name}={files.folder / folder}" for name, folder in names.items()]
    command = ["env", f"PYTHONPATH={ROOT}", *environ, *files.command(*words)]
    tmux("new-session", "-d", "-s", "app", "-x", str(size[0]), "-y", str(size[1]), "-c", str(files.folder), *command)


def shown_in_tmux(tmux: Tmux, words: str) -> str:
    """Return the text of the terminal once it has these words."""
    return shown_in(tmux, "app", lambda shown: words in shown)


@pytest.mark.parametrize("end", ["kill-pane", "kill-session"])
def test_a_closed_terminal_loses_no_run(tmp_path: Path, tmux: Tmux, end: str) -> None:
    files = board_files(tmp_path / "site", slurm=False)
    files.kernel(HANGING.replace("sleep(120)", "sleep(3)"))
    app_in_tmux(tmux, files, "kernel.py")
    shown_in_tmux(tmux, "Ready: double on CPU")
    tmux("send-keys", "-t", "app", "C-s")
    shown_in_tmux(tmux, "running")
    (pid,) = tmux("list-panes", "-t", "app", "-F", "#{pane_pid}").split()
    tmux(end, "-t", "app")
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < deadline, "the app goes on without a terminal"
        time.sleep(0.1)
    board = Board.open(files.settings)
    (run,) = list(board.runs.wait([board.runs.list()[0].id], timeout_seconds=120))[-1]
    assert (run.state, str(run.verdict)) == (RunState.FINISHED, "pass")


@pytest.mark.parametrize("term", ["screen", "screen-256color", "tmux-256color", "xterm", "linux"])
def test_the_app_comes_up_with_few_colours_and_many(tmp_path: Path, tmux: Tmux, term: str) -> None:
    files = board_files(tmp_path / "site", slurm=False)
    tmux("new-session", "-d", "-s", "first")
    tmux("set-option", "-g", "default-terminal", term)
    app_in_tmux(tmux, files)
    shown_in_tmux(tmux, "identity_py")
    tmux("send-keys", "-t", "app", "r")
    shown_in_tmux(tmux, "You have no runs yet.")
    tmux("send-keys", "-t", "app", "q")


def test_a_file_in_the_place_of_a_command_is_in_the_form(tmp_path: Path, tmux: Tmux) -> None:
    files = board_files(tmp_path / "site", slurm=False)
    files.kernel(RIGHT, "my kernel.py")
    app_in_tmux(tmux, files, "my kernel.py")
    assert "my kernel.py" in shown_in_tmux(tmux, "Ready: double on CPU, mode test: one job.")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("kernel.py",), "the app needs a terminal. To submit without one: hpc-board submit kernel.py"),
        (("kernel.py", "--gpu", "CPU"), "To submit it directly: hpc-board submit kernel.py --gpu CPU"),
        (("folder",), "No such command 'folder'."),
    ],
)
def test_a_word_that_is_neither_command_nor_file_is_no_command(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    files = board_files(tmp_path / "site", slurm=False)
    files.kernel()
    (files.folder / "folder").mkdir()
    done = subprocess.run(
        files.command(*words),
        cwd=files.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert said in done.stderr


# Faults of the board


def real_board(folder: Path) -> Board:
    """A board with one run, whose database is not waited for."""
    files = board_files(folder / "site", slurm=False)
    board = Board.open(files.settings)
    board.submissions.submit([requested(files.kernel(), mode="test")])
    board.context.installation.__dict__["store"] = Store(board.context.store.file.path, busy_timeout_seconds=0.2)
    return board


async def test_a_locked_database_leaves_the_last_known_state_with_its_age(tmp_path: Path) -> None:
    board = real_board(tmp_path)
    app = BoardApp(lambda: board, tick_seconds=0.1, follow_seconds=0.1)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "Runs / your runs" in text_of(app) and "double" in text_of(app))
        with closing(sqlite3.connect(board.settings.board / "board.db", isolation_level=None)) as other:
            other.execute("PRAGMA locking_mode = EXCLUSIVE")
            other.execute("BEGIN EXCLUSIVE")
            await until(pilot, lambda: "last known state" in text_of(app))
            assert "double" in text_of(app)
            other.execute("ROLLBACK")
        await until(pilot, lambda: not app.screen.query_one(ErrorBox).display)


def exchange(one: Path, other: Path) -> None:
    """Exchange two paths at once: between two renames, the app may make the folder that it misses."""
    at_present_folder, both = -100, 2
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(at_present_folder, os.fsencode(one), at_present_folder, os.fsencode(other), both):
        raise OSError(ctypes.get_errno(), "renameat2", str(one))


async def test_a_vanished_database_is_one_box_and_comes_back(tmp_path: Path) -> None:
    board = real_board(tmp_path)
    list(board.runs.wait([1], timeout_seconds=60))
    app = BoardApp(lambda: board, tick_seconds=0.1, follow_seconds=0.1)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("r")
        # The list of the tasks has the word, too.
        await until(pilot, lambda: isinstance(app.screen, RunsScreen) and "double" in text_of(app))
        folder = board.settings.board
        file = folder.with_name("in-the-way")
        file.write_text("a file in the way")
        exchange(folder, file)
        await until(pilot, lambda: app.screen.query_one(ErrorBox).display and "last known" in text_of(app))
        assert "double" in text_of(app)
        exchange(folder, file)
        await until(pilot, lambda: not app.screen.query_one(ErrorBox).display)


async def test_what_a_silent_scheduler_failed_with_stays_until_it_answers_somebody() -> None:
    silence = SchedulerError("squeue did not answer within 60 s", hint="Slurm is busy or down.")
    board = FakeBoard(failures={"advance": silence})
    cluster = next(run.cluster for run in RUNS if run.id == 40)
    board.silent[cluster] = NOW - timedelta(minutes=7)
    app = BoardApp(lambda: board, now=lambda: NOW, tick_seconds=0.05, follow_seconds=0.05)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "state 7 min old" in text_of(app))
        assert "updated 7 min ago" in text_of(app).splitlines()[0]
        # It is left alone for a while, in which carrying the runs on fails at nothing.
        del board.failures["advance"]
        asked = board.calls.count("advance")
        await until(pilot, lambda: board.calls.count("advance") > asked + 3)
        assert "squeue did not" in text_of(app)
        board.silent.clear()
        await until(pilot, lambda: not app.screen.query_one(ErrorBox).display)
