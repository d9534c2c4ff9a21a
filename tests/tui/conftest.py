"""The same clock, colours and folder for every test of the app, and no wait that is there only for people."""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from textual import _wait
from textual.css import stylesheet
from textual.css.model import RuleSet
from textual.css.parse import parse
from textual.css.tokenize import tokenize_values
from textual.css.tokenizer import Token
from textual.screen import Screen

from hpc_board.board import Board
from hpc_board.service import server
from hpc_board.service.client import RemoteBoard
from hpc_board.settings import Settings
from hpc_board.tui.screens import submit
from hpc_board.tui.widgets import list_pane
from tests.service import serving
from tests.tmux import Tmux, tmux_server
from tests.tui.driving import Door

_parse: Callable[..., Iterable[RuleSet]] = parse
_tokens: dict[tuple[tuple[str, str], ...], dict[str, list[Token]]] = {}
_rules: dict[tuple[Any, ...], tuple[RuleSet, ...]] = {}
_paint: Callable[[Screen[Any]], None] = Screen._compositor_refresh


def _tokens_once(values: dict[str, str]) -> dict[str, list[Token]]:
    """Split the variables of a theme once for all apps of this process."""
    key = tuple(values.items())
    if key not in _tokens:
        _tokens[key] = tokenize_values(values)
    return _tokens[key]


def _parsed_once(scope: str, css: str, read_from: Any, *, variable_tokens: Any, **more: Any) -> Iterable[RuleSet]:
    """Parse a source of style rules once for all apps of this process.

    Textual parses it for each app and each of its screens, in a fifth of the processor time of a short test.
    """
    key = (scope, css, read_from, id(variable_tokens), *more.items())
    if key not in _rules:
        _rules[key] = tuple(_parse(scope, css, read_from, variable_tokens=variable_tokens, **more))
    return _rules[key]


def _paint_when_read(screen: Screen[Any]) -> None:
    """Leave out the painting of a change: a test that reads the screen, or takes a picture, renders all of it.

    Textual renders each change for an app without a terminal, too, in a quarter of a test's processor time, and prints
    none.
    """
    if screen is screen.app.screen:
        screen._compositor._dirty_regions.clear()
        screen._dirty_widgets.clear()
    else:
        _paint(screen)


@pytest.fixture
def every_paint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the app paint each change, as on a terminal."""
    monkeypatch.setattr(Screen, "_compositor_refresh", _paint)


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(submit, "_TYPING_SECONDS", 0.02)
    monkeypatch.setattr(list_pane, "_REST_SECONDS", 0.001)
    # After every key the pilot sleeps for as long as it takes to see an idle processor; `settled` looks at the app.
    monkeypatch.setattr(_wait, "SLEEP_GRANULARITY", 0.002)
    monkeypatch.setattr(_wait, "SLEEP_IDLE", 0.0005)
    monkeypatch.setattr(stylesheet, "tokenize_values", _tokens_once)
    monkeypatch.setattr(stylesheet, "parse", _parsed_once)
    monkeypatch.setattr(Screen, "_compositor_refresh", _paint_when_read)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(params=["files", "service"])
def door(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    """The way to a board of real files: by them, or through a service, to which the account has the user's name."""
    if request.param == "service" and (mark := request.node.get_closest_marker("files_alone")):
        pytest.skip(mark.args[0])
    with ExitStack() as stack:

        def opened(settings: Settings, user: str | None = None) -> Board:
            if request.param == "files":
                return Board(settings, user=user)
            if user is not None:
                monkeypatch.setattr(server, "peer_name", lambda _: user)
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hb-"))) / "board.sock"
            stack.enter_context(serving(settings, path))
            board = RemoteBoard(path)
            stack.enter_context(board.session())
            return board

        yield opened


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """A submission whose header names a task and two GPUs, by a path below the present folder."""
    (tmp_path / "kernel.py").write_text("#!POPCORN leaderboard vectoradd\n#!POPCORN gpus h100 A100\nimport torch\n")
    return Path("kernel.py")


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    with tmux_server(tmp_path) as server:
        yield server
