"""The terminal app: screens, updates of the runs in flight, and a tick per second for the screen in front."""

import asyncio
import importlib
import os
import pkgutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import partial, partialmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec.structs import replace
from textual import events, on, work
from textual.app import App, SuspendNotSupported
from textual.binding import ActiveBinding, Binding, BindingType
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.filter import LineFilter
from textual.reactive import var
from textual.screen import Screen
from textual.theme import BUILTIN_THEMES, Theme
from textual.widgets import Input, OptionList, Static
from textual.worker import get_current_worker

from hpc_board.domain.roles import Role
from hpc_board.errors import BoardError, InputError, SchedulerError
from hpc_board.tui import keys, preferences, targets, themes
from hpc_board.tui.actions import Actions, PaletteLine, found_on
from hpc_board.tui.messages import (
    Answer,
    BackgroundFound,
    Chosen,
    Heard,
    Open,
    RunnerChanged,
    RunsState,
    SideChosen,
    Tick,
)
from hpc_board.tui.palette import Tone
from hpc_board.tui.preferences import Memory, Notify, Preferences
from hpc_board.tui.screens.frame import LEAST, OpeningScreen, TooSmallScreen
from hpc_board.tui.terminal import (
    TerminalDriver,
    abandon_questions,
    clipboard_sequence,
    has_colours,
    notification_sequence,
)
from hpc_board.tui.type_ahead import TypeAhead
from hpc_board.tui.verbs import VERBS, binding, position

if TYPE_CHECKING:
    from hpc_board.board import Board
    from hpc_board.domain.change import Change
    from hpc_board.domain.feed import FeedEntry
    from hpc_board.domain.run import Run
    from hpc_board.domain.runner import Runner
    from hpc_board.domain.runner_rules import RunnerRules
    from hpc_board.tui.choice import Choice
    from hpc_board.tui.screens.base import BoardScreen, Clock


class Sheet(Stylesheet):
    """A style sheet that parses each source once for each theme.

    Textual's own parses all sources again for the app itself, for its first widget and for each screen with a source of
    its own.
    """

    def reparse(self) -> None:
        """Parse the sources that are new; `set_variables` has dropped those with the variables of another theme."""
        # `parse` replaces the rules at its end, so a fault in a source leaves the former rules.
        self.parse()


Opener = Callable[[], "Board"]
"""A function that opens the board, called in a thread."""

NOTIFIED_MAX = 5
"""The most runs ending at once that have a notification each."""

NAMED_MAX = 20
"""The most runs that the message at exit names."""

_QUITS = ("quit", "quit_by_letter")
"""The actions that quit the app at once."""

_HANGUP_SECONDS = 3.0
"""The time-out for the app's exit after the loss of its terminal."""

_RECENT_MAX = 5
"""The most lines of the palette that precede the others as they were used before."""

PLACES: Mapping[str, targets.Target] = {
    "tasks": targets.Tasks(),
    "submit": targets.Submit(),
    "runs": targets.Runs(),
    "feed": targets.Feed(),
    "cluster": targets.Cluster(),
}
"""The targets that a key opens from every screen, by their verbs."""


def run(open_board: "Opener", file: Path | None = None, environ: Mapping[str, str] = os.environ) -> None:
    """Run the app on a board until the user quits; open the submit form if a file is given.

    Raises:
        BoardError: the board cannot be opened.
        InputError: the terminal cannot show the app.
        SystemExit: the app crashed, or lost its terminal.
    """
    kind = environ.get("TERM", "dumb")
    if kind in ("", "dumb", "unknown"):
        raise InputError(
            "this terminal cannot show the app: TERM is dumb or not set.",
            hint="Use `hpc-board list`, `submit`, `runs` and `show`; `hpc-board --help` lists all commands.",
        )
    if not has_colours(kind):
        os.environ["NO_COLOR"] = "1"
    memory = Memory(preferences.state_file(environ))
    app = BoardApp(open_board, file, memory=memory, user_preferences=load_preferences(environ))
    before = threading.enumerate()
    with closing(asyncio.new_event_loop()) as loop:
        app.run(loop=loop)
    abandon_questions(app.return_code or 0, before)
    if app.failure is not None:
        raise app.failure
    if app.return_code:
        raise SystemExit(app.return_code)


def load_preferences(environ: Mapping[str, str]) -> Preferences:
    """Return the user's preferences for the app and the faults of their files; a faulty file is left out."""
    file = preferences.settings_file(environ)
    folder = file.parent / preferences.THEMES_NAME
    names = (themes.DARK.name, themes.LIGHT.name, *BUILTIN_THEMES)
    own: list[Theme] = []
    faults: list[BoardError] = []
    # Most users have no such files, and YAML takes a while to load.
    if os.path.lexists(folder):
        from hpc_board.tui import theme_files

        own, faults = theme_files.load(folder, names)
    found = Preferences()
    if os.path.lexists(file):
        from hpc_board.tui import app_file

        try:
            found = app_file.load(file, (*names, *(theme.name for theme in own)), keyed)
        except BoardError as error:
            faults.insert(0, error)
    fault = next(iter(faults), None)
    if len(faults) > 1:
        fault = InputError("\n".join(f"{each.message}\n{each.hint}" for each in faults), hint="")
    return replace(found, themes=tuple(own), fault=fault)


class Followed(msgspec.Struct, frozen=True):
    """The state of the runs in flight after an update.

    `ended` are the runs that ended in it, with their ranks, and `released` the user's runners that did. `entries` are
    the newest of the feed.
    """

    runs_state: RunsState
    ended: "tuple[tuple[Run, int | None], ...]" = ()
    released: "tuple[Runner, ...]" = ()
    entries: "tuple[FeedEntry, ...]" = ()


def followed(board: "Board", before: RunsState) -> Followed:
    """Update the runs in flight and return their new state; on an error, the state `before` with the error."""
    from hpc_board.board.held import live_runners

    failure = None
    try:
        board.runs.advance(before.in_flight)
    except BoardError as error:
        failure = error
    try:
        runs = board.runs.followed(before.in_flight)
        in_flight = [run for run in runs if not run.state.ended]
        over = [run for run in runs if run.state.ended]
        # Only a notification of a single run shows its rank, and only a rank among several users is an achievement.
        placings = [board.standings.placing(run) if len(over) <= NOTIFIED_MAX else None for run in over]
        ranks = [each.rank if each is not None and each.users > 1 else None for each in placings]
        ended = list(zip(over, ranks, strict=True))
        clusters = {run.cluster for run in in_flight}
        asked = [at for cluster in clusters if (at := board.runs.asked_at(cluster))]
        silent = [at for cluster in clusters if (at := board.runs.silent_since(cluster))]
        runners = tuple(live_runners(board))
        gone = {runner.id for runner in before.runners} - {runner.id for runner in runners}
        released = [runner for runner in board.runners.recent() if runner.id in gone] if gone else []
    except BoardError as error:
        return Followed(replace(before, failure=error))
    # During the back-off of a silent scheduler its last failure holds.
    if failure is None and silent and isinstance(before.failure, SchedulerError):
        failure = before.failure
    ids = tuple(run.id for run in in_flight)
    runs_state = RunsState(ids, min(asked, default=None), failure, min(silent, default=None), runners)
    return Followed(runs_state, tuple(ended), tuple(released))


class BoardApp(App[None]):
    """The app for one board, which it opens after the first paint.

    `now` is its clock, `memory` its stored state, `user_preferences` are the user's preferences. The screen in front
    reads the board again every `tick_seconds`; `follow_seconds` are between two updates of the runs in flight.
    """

    runs_state: var[RunsState] = var(RunsState())
    """The user's runs in flight, the time at which their schedulers answered, and the user's runners."""
    runner_rules: "var[RunnerRules | None]" = var(None)
    """The board's bounds of runners, once they are known."""
    marked: var[int | None] = var(None)
    """The run that is marked for a comparison."""
    asking_since: var[datetime | None] = var(None)
    """The start of a query to the schedulers that has no answer yet."""

    _board: "Board"
    _choice: "Choice"

    TITLE = "hpc-board"
    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = keys.named(
        [
            binding("admin"),
            *(binding(name, show=False) for name in ("submit", "tasks", "runs", "feed", "cluster")),
            Binding("ctrl+q", "quit", "Quit", tooltip="Quit; ^q in fields and filled forms; runs continue"),
            Binding("q", "quit_by_letter", show=False, id="app.quit"),
            Binding("ctrl+z", "suspend_process", "Suspend", show=False, tooltip="Suspend; `fg` in the shell returns"),
            Binding("ctrl+p", "commands", "Actions", tooltip="Find an action by its name"),
            Binding("f1", "help", "Help", tooltip="Show the keys of this screen"),
            Binding("question_mark", "help", show=False),
        ],
        "app",
    )

    def __init__(
        self,
        open_board: "Opener",
        file: Path | None = None,
        *,
        now: "Clock" = lambda: datetime.now(UTC),
        tick_seconds: float = 1.0,
        follow_seconds: float = 2.0,
        memory: Memory | None = None,
        user_preferences: Preferences | None = None,
    ) -> None:
        # Textual obeys an empty NO_COLOR, which means nothing (https://no-color.org).
        if os.environ.get("NO_COLOR") == "":
            del os.environ["NO_COLOR"]
        self._themes: dict[str, Theme] = {}
        """The themes that have been used, readable; Textual asks for the current one at each widget's style."""
        super().__init__(driver_class=TerminalDriver)
        # Each of its frames takes a slow line as long as the last one alone.
        self.animation_level = "none"
        self.stylesheet = Sheet(variables=self.get_css_variables())
        self.failure: BoardError | None = None
        """The error that kept the board from opening."""
        self.terminal: TerminalDriver | None = None
        """The driver of the terminal, which sets it; None for an app without one."""
        self._open_board = open_board
        self._now = now
        self._tick_seconds = tick_seconds
        self._follow_seconds = follow_seconds
        self._file = file
        self._type_ahead = TypeAhead(self, super().on_event)
        self._follows_again = False
        self._memory = memory or Memory()
        self._preferences = user_preferences or Preferences()
        self._memory_failed = False
        self._told_entry: int | None = None
        """The newest entry of the feed at the last update; None before the first one."""
        self._quits_next = False
        """True after a first Ctrl+C, until another key."""
        self._side: SideChosen | None = None
        self._shown_until: dict[str, float] = {}
        """The monotonic time at which each message shown disappears."""
        self._drafts: dict[str, Choice] = {}
        """The last contents of the form by task."""
        self._role = Role.NONE
        themes.register(self, self._preferences.themes)
        self.theme = themes.COLOURLESS.name if self.no_color else self._chosen_theme() or themes.DARK.name
        themes.apply(self)
        self.set_keymap(dict(self._preferences.keys))

    def get_theme(self, theme_name: str) -> Theme | None:
        if theme_name not in self._themes and (theme := super().get_theme(theme_name)) is not None:
            self._themes[theme_name] = themes.readable(theme)
        return self._themes.get(theme_name)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.tone_variables(self.current_theme)

    def get_line_filters(self) -> Sequence[LineFilter]:
        # Textual's own makes greys of colours.
        return [themes.Colourless()] if self.no_color else super().get_line_filters()

    def get_default_screen(self) -> Screen[None]:
        return OpeningScreen()

    def on_mount(self) -> None:
        self.theme_changed_signal.subscribe(self, lambda _: self._redraw())
        self._handle_signals()
        self.theme = self._fitting(self.theme)

    def on_ready(self) -> None:
        self._find_board()

    @work(thread=True, group="board")
    def _find_board(self) -> None:
        try:
            board = self._open_board()
            # A service is connected to here: it may be absent, or slow.
            _ = board.user
        except BoardError as error:
            self.post_message(Answer("board", failure=error))
            return
        # Imported in this thread, so that the app stays responsive.
        importlib.import_module("hpc_board.tui.screens.tasks")
        self.post_message(Answer("board", value=board))

    def _begin(self, board: "Board") -> None:
        from hpc_board.tui.choice import Choice

        self._board, self._choice = board, Choice()
        board.warn = self._notify_warning
        tasks = self._open(targets.Tasks())
        if self._preferences.fault is not None:
            tasks.call_after_refresh(tasks.fail, "preferences", self._preferences.fault)
        if self._file is not None:
            self._choice = Choice(folder=self._file.parent, file=self._file)
            self._open(targets.Submit(choice=self._choice))
            # The form hides the screen that shows the fault.
            if self._preferences.fault is not None:
                self._notify_warning(f"{self._preferences.fault.message} {self._preferences.fault.hint}")
        self._read_role()
        if board.served:
            self._listen()
        else:
            self._follow()
        self.set_interval(self._tick_seconds, self._post_tick)
        self.set_interval(5.0, self._keep_memory)
        self._type_ahead.begin()

    def on_resize(self, event: events.Resize) -> None:
        self._fit(event.size.width, event.size.height)

    def on_answered(self) -> None:
        self._type_ahead.wake()

    def on_unmount(self) -> None:
        # An unwritable state file must not block the exit.
        with suppress(BoardError):
            self._memory.flush()

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key) and not event.is_forwarded:
            if event.key != "ctrl+c":
                self._quits_next = False
            if not self._leaves(event):
                await self._type_ahead.add(event)
                return
        elif isinstance(event, events.Paste) and not event.is_forwarded:
            await self._type_ahead.add(event)
            return
        await super().on_event(event)

    def action_help_quit(self) -> None:
        """Quit at the second of two presses of Ctrl+C; the first one says so."""
        if self._quits_next:
            self.call_later(self.action_quit)
        else:
            self._quits_next = True
            self.notify("Press ^c again to quit; runs continue.")

    def _leaves(self, key: events.Key) -> bool:
        """Return whether a key quits the app at once; a letter behind others may be for a field."""
        quits = key.key == "ctrl+c"
        # The bindings in force are many, and most keys are none of these.
        if not {key.key, key.character}.isdisjoint(self._quit_keys):
            active = self.screen.active_bindings.get(key.key)
            quits = active is not None and active.binding.action in _QUITS
        return quits and not (key.is_printable and (self._type_ahead or self._type_ahead.has_begun))

    def copy_to_clipboard(self, text: str) -> None:
        super().copy_to_clipboard(text)
        self._write_through(clipboard_sequence(text, os.environ))

    def get_key_display(self, binding: Binding) -> str:
        name = keys.displayed(super().get_key_display(binding))
        if binding.action == "quit":
            is_typed = self._has_draft or isinstance(self.focused, Input)
            return "^q" if is_typed else keys.displayed(self._quit_keys[0])
        if binding.id != "app.help" or isinstance(self.focused, Input):
            return name
        return f"?/{name}"

    @property
    def _quit_keys(self) -> Sequence[str]:
        return self._preferences.keys.get("app.quit", "q,ctrl+q").split(",")

    def action_help(self) -> None:
        from hpc_board.tui.screens.dialogs import HelpKey, HelpScreen, KeyGroup

        if (screen := self._front) is None:
            return
        lines = []
        for active in _explained(screen):
            binding, group = active.binding, KeyGroup.ACTIONS
            if binding.id == "screen.back" or (active.node is self and binding.action not in PLACES):
                group = KeyGroup.APP
            elif keys.opens_place(binding.action):
                group = KeyGroup.PLACES
            lines.append(HelpKey(self.get_key_display(binding), binding.tooltip, binding.id or "", group))
        self.push_screen(HelpScreen(screen.NAME, screen.HELP, lines))

    def action_commands(self) -> None:
        if (screen := self._front) is None:
            return
        found: dict[str, PaletteLine] = {}
        names = dict(screen.key_labels)
        names["hold"] = f"{names['hold']} {screen.gpu_in_hand}"
        for active in _explained(screen):
            binding = active.binding
            # Bindings without an id move cursors.
            if not (binding.id and active.enabled) or binding.action == "commands":
                continue
            act = partial(self.run_action, binding.action, active.node)
            key = self.get_key_display(binding)
            name = names.get(binding.action, binding.description)
            found.setdefault(name, PaletteLine(name, binding.tooltip, key, act))
        for runner in self.runs_state.runners:
            name, release = f"Release {runner.gpu}", partial(screen.offer_release, runner)
            found.setdefault(name, PaletteLine(name, "Release the GPU that you hold", "", release))
        if not self.no_color:
            words = f"Choose the colours; now {self.theme}"
            found["Theme"] = PaletteLine("Theme", words, "", self.action_themes)
        lines = [*found.values()]
        recent = self._memory.get("palette", "recent", ())
        # Sorting keeps the order of all others.
        lines.sort(key=lambda line: recent.index(line.name) if line.name in recent else len(recent))
        # A theme is found by its name, too, and an action without effect here with the reason.
        found_only = [replace(line, words=f"Theme, {line.words}", listed=False) for line in self._theme_lines()]
        here = {active.binding.description for active in screen.active_bindings.values() if active.enabled}
        for name, verb in VERBS.items():
            if verb.word not in here:
                reason = screen.lacks(name)
                tell = partial(self.notify, reason)
                found_only.append(
                    PaletteLine(verb.word, reason, keys.displayed(verb.display or verb.key), tell, listed=False)
                )
        find = partial(found_on, self._board, self._go_to)
        words = "Find an action, a task, a run by its number or a user …"
        listed = [replace(line, act=partial(self._act, line)) for line in lines]
        palette = Actions([*listed, *found_only], words, find=find)
        self._watch_opening(palette)
        self.push_screen(palette)

    def _go_to(self, target: targets.Target) -> None:
        self.post_message(Open(target))

    def action_themes(self) -> None:
        before = self.theme

        def show(name: str | None) -> None:
            self.theme = before if name is None else name

        self.push_screen(Actions(self._theme_lines(), "Choose a theme …", show=show))

    def _theme_lines(self) -> list[PaletteLine]:
        """Return a line for each theme; none without colours."""
        if self.no_color:
            return []
        # The one in use is first, since the list of themes shows the one under the cursor.
        names = dict.fromkeys([self.theme, themes.DARK.name, themes.LIGHT.name, *sorted(self.available_themes)])
        grounds = {name: "dark" if self.available_themes[name].dark else "light" for name in names}
        grounds[self.theme] = f"in use; {grounds[self.theme]}"
        return [PaletteLine(name, words, "", partial(self._choose_theme, name)) for name, words in grounds.items()]

    def _act(self, line: PaletteLine) -> object:
        """Act as a line of the palette, which goes to the top of the next one."""
        recent = dict.fromkeys((line.name, *self._memory.get("palette", "recent", ())))
        self._memory.set("palette", "recent", tuple(recent)[:_RECENT_MAX])
        return line.act()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "admin":
            return self._role.may_act_as(Role.CREATOR) and not isinstance(self._place, targets.Admin)
        if action in PLACES:
            return self._front is None or not self._front.shows(PLACES[action])
        return super().check_action(action, parameters)

    @property
    def has_participants(self) -> bool:
        """Return whether others than the user may submit to the board; on a personal one, few need the Admin screen."""
        return self._board.served

    action_submit = partialmethod(_go_to, PLACES["submit"])
    action_tasks = partialmethod(_go_to, PLACES["tasks"])
    action_runs = partialmethod(_go_to, PLACES["runs"])
    action_feed = partialmethod(_go_to, PLACES["feed"])
    action_cluster = partialmethod(_go_to, PLACES["cluster"])

    def action_back_to(self, place: int) -> None:
        """Close the screens above the one with this part of the path."""
        if self._front is not None and not self._front.awaits_outcome():
            self._keep_drafts()
            while len(getattr(self.screen, "way", ())) > place:
                self.pop_screen()

    def action_admin(self) -> None:
        self.post_message(Open(targets.Admin(self._role)))

    async def action_quit(self) -> None:
        from hpc_board.tui.formatting import held_text

        runs, lines = self.runs_state.in_flight, []
        if runs:
            names = ", ".join(map(str, runs))
            what = f"Run {names} continues." if len(runs) == 1 else f"Runs {names} continue."
            if len(runs) > NAMED_MAX:
                what = f"{len(runs)} runs continue."
            lines.append(f"{what} `hpc-board runs` lists your runs.")
        stays, now = "{}. `hpc-board release {}` releases it.", self._now()
        lines += [stays.format(held_text(runner, now), runner.id) for runner in self.runs_state.runners]
        message = "\n".join(lines) or None
        # A screen that opens has its widgets then; Textual's own ones fail in an app that closes before.
        self.screen.call_after_refresh(self.exit, message=message)

    async def action_quit_by_letter(self) -> None:
        if self._has_draft:
            self.notify("^q quits and discards the contents of the form.")
        else:
            await self.action_quit()

    def hang_up(self, code: int) -> None:
        """Quit after the loss of the terminal or a signal; any thread may call this."""
        # A write to a lost terminal can block the app for ever.
        guard = threading.Timer(_HANGUP_SECONDS, os._exit, (code,))
        guard.daemon = True
        guard.start()
        with suppress(BoardError):
            self._memory.flush()
        self.call_later(self.exit, return_code=code)

    def _choose_theme(self, name: str) -> None:
        self.theme = name
        self._memory.set("app", "theme", name)
        # A later change of the settings overrides this choice.
        self._memory.set("app", "theme-before", self._preferences.theme)

    def _chosen_theme(self) -> str:
        """Return the theme chosen last, or that of the settings if they changed since; empty if there is none."""
        wanted = self._preferences.theme
        if self._memory.get("app", "theme-before", "") == wanted:
            wanted = self._memory.get("app", "theme", "") or wanted
        return wanted if wanted in self.available_themes else ""

    @property
    def follows_background(self) -> bool:
        """Return whether the theme is that of the terminal's background, as the user has chosen none."""
        return not self._chosen_theme()

    def _fitting(self, theme: str) -> str:
        """Return the theme that shows `theme` in the terminal's colours."""
        if self.no_color:
            return themes.COLOURLESS.name
        has_sixteen = not self.is_headless and self.console.color_system == "standard"
        return themes.SIXTEEN.get(theme, theme) if has_sixteen else theme

    @on(BackgroundFound)
    def _follow_background(self, event: BackgroundFound) -> None:
        if self.follows_background:
            self.theme = self._fitting((themes.LIGHT if event.is_light else themes.DARK).name)

    def _redraw(self) -> None:
        """Redraw the parts that Rich drew in the colours of the former theme."""
        from hpc_board.tui.widgets.grid import Grid
        from hpc_board.tui.widgets.text_pane import SourceView

        themes.apply(self)
        # Textual leaves out its palette.
        self.stylesheet.update(self.screen)
        for screen in self.screen_stack:
            for static in screen.query(Static):
                static.update(static.content)
            for view in screen.query(SourceView):
                view.redraw()
            for grid in screen.query(Grid):
                grid.notify_style_update()
            for options in screen.query(OptionList):
                if options.option_count:
                    # Textual keeps drawn options until one of them changes.
                    options.replace_option_prompt_at_index(0, options.get_option_at_index(0).prompt)

    def _fit(self, width: int, height: int) -> None:
        too_small = width < LEAST[0] or height < LEAST[1]
        if too_small and not isinstance(self.screen, TooSmallScreen):
            self.push_screen(TooSmallScreen())
        elif not too_small and isinstance(self.screen, TooSmallScreen):
            self.pop_screen()

    @work(thread=True, exclusive=True, group="memory")
    def _keep_memory(self) -> None:
        try:
            self._memory.flush()
        except BoardError as error:
            if not self._memory_failed:
                self._memory_failed = True
                self._notify_warning(f"{error.message} {error.hint}")

    def _handle_signals(self) -> None:
        """Quit in order at the end of the session (SIGHUP) and on SIGTERM."""
        if self.is_headless:
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGHUP, signal.SIGTERM):
            # Keep signals ignored that `nohup` ignores.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self.hang_up, 128 + number)

    def _write_through(self, sequence: str) -> None:
        if sequence and self.terminal is not None:
            self.terminal.write(sequence)

    @on(Open)
    def _go(self, event: Open) -> None:
        from hpc_board.tui.widgets.list_pane import ListPane

        match event.target:
            case targets.Submit() as target:
                self._open_submit(target)
            case targets.Edit() as target:
                self._edit(target)
            case targets.Tasks(first):
                pane = self._close_to_tasks().query_one(ListPane)
                if first or pane.is_filtered:
                    pane.select(first or pane.grid.current)
            case targets.Sent(runs):
                self._close_to_tasks()
                self._open(targets.Runs(first=runs[0]))
                if len(runs) == 1:
                    self._open(targets.Report(runs[0]))
            case target if not self._return_to(target):
                self._open(target)

    def _return_to(self, target: targets.Target) -> bool:
        """Close the screens above the one of `target`, and return True; False if it is not open, or must stay below."""
        from hpc_board.tui.screens.base import BoardScreen

        for above, screen in enumerate(reversed(self.screen_stack)):
            if not isinstance(screen, BoardScreen):
                return False
            if screen.shows(target):
                self._keep_drafts()
                for _ in range(above):
                    self.pop_screen()
                screen.turn_to(target)
                return True
            if not screen.may_close:
                return False
        return False

    def _close_to_tasks(self) -> Screen[Any]:
        """Close all screens above the tasks, keep the contents of open forms, and return the screen of the tasks."""
        self._keep_drafts()
        while self._place != targets.Tasks():
            self.pop_screen()
        return self.screen

    def _open_submit(self, target: targets.Submit) -> None:
        from hpc_board.tui.choice import Choice

        self._keep_drafts()
        above = self._place
        # A second form replaces the first one, whose contents are a draft now; a run stays below its form.
        if self._return_to(target) and isinstance(above, targets.Report):
            self.pop_screen()
            self._open(above)
        choice = self._choice
        if target.of_run:
            choice = Choice(folder=choice.folder, task=target.task)
        elif target.task is not None and target.task != choice.task:
            if choice.task is None and choice.is_begun:
                choice = replace(choice, task=target.task)
            else:
                choice = self._drafts.get(target.task, Choice(folder=choice.folder, task=target.task))
        if target.latest and choice.is_begun:
            target = targets.Submit(target.task, mode=target.mode if choice.is_sent else None)
        if target.file is not None:
            choice = replace(choice, file=target.file, folder=target.file.parent)
        choice = replace(choice, gpus=target.gpus or choice.gpus, mode=target.mode or choice.mode, is_sent=False)
        if not target.of_run:
            self._choice = choice
        self._open(replace(target, choice=choice))

    def _edit(self, target: targets.Edit) -> None:
        """Run the user's editor in the place of the app, then open the form with the file, unless it is watched."""
        from hpc_board.tui import editor
        from hpc_board.tui.local_files import saved_state

        # Typed for the editor, these would be letters of commands in the form.
        self._type_ahead.drop()
        fault: InputError | None = None
        before = saved_state(target.file) if target.is_new else None
        try:
            with self.suspend():
                try:
                    editor.edit(target.file, os.environ, target.line)
                except InputError as error:
                    fault = error
        except SuspendNotSupported:
            fault = InputError("this terminal cannot show an editor.", hint=f"Edit {target.file} elsewhere.")
        is_unsaved = before is not None and saved_state(target.file) == before
        if is_unsaved:
            target.file.unlink()
        removed = f"{target.file} was not changed, and is removed."
        if fault is not None:
            self._notify_warning(f"{fault.message} {removed if is_unsaved else fault.hint}")
        elif is_unsaved:
            self._notify_warning(f"{removed} An editor that returns at once needs an option, as in `code --wait`.")
        elif not target.watched:
            self._open_submit(targets.Submit(target.task, target.gpus, target.mode, target.file))

    @on(SideChosen)
    def _compare(self, event: SideChosen) -> None:
        """Mark the first of two runs; open the comparison at the second."""
        first, self._side = self._side, None
        if first is None or first.task != event.task:
            self._side = event
            place = "" if first is None else f" in place of run {first.run}, which is for {first.task}"
            self.notify(f"Run {event.run} is marked{place}. Mark another one to compare them.")
        elif first.run == event.run:
            self.notify(f"Run {first.run} is no longer marked.")
        else:
            self.clear_notifications()
            self._open(targets.Compare(first.run, event.run))
        self.marked = None if self._side is None else self._side.run

    @on(Chosen)
    def _remember(self, event: Chosen) -> None:
        self._choice = event.choice
        if event.choice.task is not None:
            self._drafts[event.choice.task] = event.choice

    def _keep_drafts(self) -> None:
        """Remember the contents of the open forms, those of the uppermost one last."""
        for screen in self.screen_stack:
            take = getattr(screen, "take_draft", None)
            if take is not None and (draft := take()) is not None:
                self._remember(Chosen(draft))

    @property
    def _has_draft(self) -> bool:
        """Return whether an open form has contents, such as one below other screens."""
        return any(getattr(screen, "has_draft", False) for screen in self.screen_stack)

    @property
    def _front(self) -> "BoardScreen | None":
        """The screen in front; None for a dialog."""
        screen: Any = self.screen if self.screen_stack else None
        return screen if hasattr(screen, "target") else None

    @property
    def _place(self) -> targets.Target | None:
        """The target whose screen is in front; None for a dialog."""
        return None if self._front is None else self._front.target

    def _open(self, target: targets.Target) -> "BoardScreen":
        screen = screen_of(target, self._board, self._now)
        screen.memory = self._memory
        if isinstance(self.screen, TooSmallScreen):
            self.pop_screen()
        # A run opened from another one replaces it, as do a second form, board or user.
        front = self._front
        if front is not None and type(target) is type(front.target) and front.may_close:
            self.pop_screen()
        screen.way = getattr(self.screen, "place", ())
        screen.data_bind(BoardApp.runs_state, BoardApp.runner_rules, BoardApp.marked, BoardApp.asking_since)
        self._watch_opening(screen)
        self.push_screen(screen)
        self._fit(*self.size)
        return screen

    def _watch_opening(self, screen: Screen[Any]) -> None:
        """Give the keys that wait for the screen that `screen` opens, once it has."""

        def end(is_opening: bool) -> None:
            if not is_opening:
                self._type_ahead.end_opening(screen)

        self.watch(screen, "is_opening", end, init=False)

    def _post_tick(self) -> None:
        # At exit, the app's screens are removed before its timers.
        if self.screen_stack:
            self.screen.post_message(Tick())

    @work(thread=True, exclusive=True, group="role")
    def _read_role(self) -> None:
        """Look up the bounds of runners and the user's role in a thread: user and group databases can be remote."""
        # The screen in front shows the same error.
        with suppress(BoardError):
            self.post_message(Answer("rules", value=self._board.runners.rules()))
        with suppress(BoardError):
            self.post_message(Answer("role", value=self._board.role))

    @on(Answer)
    def _take_answer(self, event: Answer) -> None:
        value = event.value
        match event.subject:
            case "board" if event.failure is not None:
                self.failure = event.failure
                self.exit()
            case "board":
                self._begin(value)
            case "role":
                self._role = value
                if self.screen_stack:
                    self.screen.refresh_bindings()
            case "rules":
                self.runner_rules = value
            case "follow":
                self._take_followed(value)
            case "change":
                self._take_change(value)

    @work(thread=True, group="changes")
    def _listen(self) -> None:
        """Pass on the changes that a service tells, until the app ends."""
        worker = get_current_worker()
        for change in self._board.changes(lambda: not worker.is_cancelled):
            self.post_message(Answer("change", value=change))

    def _take_change(self, change: "Change | BoardError") -> None:
        if not self.screen_stack:
            return
        if isinstance(change, BoardError):
            self.runs_state = replace(self.runs_state, failure=change)
            return
        for screen in self.screen_stack:
            screen.post_message(Heard(change))
        if change.runs or change.runners or change.anew or (change.entry and self._preferences.records):
            self._follow_soon()

    def _follow_soon(self) -> None:
        """Update the runs in flight, once more if an update is under way: it may have read them before the change."""
        self._follows_again = self.asking_since is not None
        if not self._follows_again:
            self._follow()

    def _follow(self) -> None:
        """Start an update of the runs in flight; on a personal board, its answer schedules the next one."""
        self.asking_since = self._now()
        self._update_runs()

    @work(thread=True, exclusive=True, group="follow")
    def _update_runs(self) -> None:
        found = followed(self._board, self.runs_state)
        # The screens tell of a feed that cannot be read.
        with suppress(BoardError):
            if self._preferences.records:
                found = replace(found, entries=self._board.standings.feed(limit=NOTIFIED_MAX))
        self.post_message(Answer("follow", value=found))

    def _take_followed(self, event: Followed) -> None:
        # An answer can arrive after the app has closed its screens.
        if not self.screen_stack:
            return
        for runner in event.released:
            # The end of the others has been told.
            if any(runner.id == known.id for known in self.runs_state.runners):
                self._notify_release(runner)
        self.runs_state, self.asking_since = event.runs_state, None
        if len(event.ended) > NOTIFIED_MAX:
            self._notify_ends([run for run, _ in event.ended])
        else:
            for ended, rank in event.ended:
                if self._place != targets.Report(ended.id):
                    self._notify_end(ended, rank)
        self._tell_records(event.entries)
        self._post_tick()
        if not self._board.served:
            self.set_timer(self._follow_seconds, self._follow)
        elif self._follows_again:
            self._follow_soon()
        elif event.runs_state.failure is not None:
            self.set_timer(self._follow_seconds, self._follow_soon)

    @on(RunnerChanged)
    def _take_runner(self, event: RunnerChanged) -> None:
        runners = [runner for runner in self.runs_state.runners if runner.id != event.runner.id]
        if event.runner.state.ended:
            self._notify_release(event.runner)
        else:
            runners.append(event.runner)
        self.runs_state = replace(self.runs_state, runners=tuple(runners))
        # An update under way may have read the runners before the change.
        if self._board.served:
            self._follow_soon()

    def notify(self, message: str, **options: Any) -> None:
        """Show a message as it is, since names and errors in it may have brackets, unless it is still shown."""
        now = time.monotonic()
        self._shown_until = {each: end for each, end in self._shown_until.items() if end > now}
        if message not in self._shown_until:
            self._shown_until[message] = now + options.get("timeout", self.NOTIFICATION_TIMEOUT)
            super().notify(message, **{**options, "markup": False})

    def clear_notifications(self) -> None:
        self._shown_until.clear()
        super().clear_notifications()

    def _tell(self, words: str, title: str, *, good: bool) -> None:
        self.notify(words, title=title, severity="information" if good else "warning")

    def _notify_warning(self, text: str) -> None:
        self.notify(text, title="Warning", severity="warning", timeout=20.0)

    def _is_shown(self, run: "Run", rank: int | None) -> bool:
        """Return whether the screen in front shows the end of the run: the watch of its file, or the list of runs.

        A list does not show a first place.
        """
        match self._place:
            case targets.Watch() as place:
                return (run.task, run.file_name) == (place.task, place.file.name)
            case targets.Runs():
                return rank != 1
        return False

    def _notify_end(self, run: "Run", rank: int | None) -> None:
        from hpc_board.report.formatting import score_text
        from hpc_board.tui.formatting import state

        word, tone = state(run)
        place = f"rank {rank}" if rank and rank > 1 else "first place" if rank else ""
        words = ", ".join(filter(None, (f"{run.task} on {run.gpu}: {word}", score_text(run.score_s), place)))
        if not self._is_shown(run, rank):
            self._tell(words, f"Run {run.id}", good=tone is Tone.GOOD)
        self._ring(f"Run {run.id}: {words}")

    def _tell_records(self, entries: "Sequence[FeedEntry]") -> None:
        """Show the records of other users among the entries since the last call; the first one only notes them."""
        from hpc_board.report.feeds import record_text

        told, self._told_entry = self._told_entry, max((entry.id for entry in entries), default=self._told_entry)
        for entry in reversed(entries):
            if told is not None and entry.id > told and entry.beats_record and not entry.is_own:
                title, words = record_text(entry)
                words += ". You had first place." if entry.beats_own else ""
                self._tell(words, title, good=not entry.beats_own)

    def _notify_release(self, runner: "Runner") -> None:
        from hpc_board.domain.run import RunState
        from hpc_board.report.runners import runner_text

        is_good = runner.state in (RunState.FINISHED, RunState.CANCELLED)
        self._tell(runner_text(runner, self._now()), f"{runner.gpu} released", good=is_good)

    def _notify_ends(self, runs: "list[Run]") -> None:
        """Show one notification for many ended runs."""
        from hpc_board.tui.formatting import state

        words = Counter(state(run)[0] for run in runs)
        counts = ", ".join(f"{count} {word}" for word, count in words.most_common())
        passed = all(state(run)[1] is Tone.GOOD for run in runs)
        self._tell(counts, f"{len(runs)} runs have ended", good=passed)
        self._ring(f"{len(runs)} runs have ended: {counts}")

    def _ring(self, text: str) -> None:
        """Notify the user through the terminal, as their preferences say."""
        if self._preferences.notify is Notify.BELL:
            self._write_through("\a")
        elif self._preferences.notify is Notify.OSC9:
            self._write_through(notification_sequence(text, os.environ))


def _explained(screen: Screen[Any]) -> list[ActiveBinding]:
    """Return the bindings in force that have a meaning, in the order of the last line."""
    active = (active for active in screen.active_bindings.values() if active.binding.tooltip)
    return sorted(active, key=lambda active: position(active.binding))


def keyed() -> tuple[type[DOMNode], ...]:
    """Return the classes with keys that preferences can change."""
    from hpc_board.tui import screens
    from hpc_board.tui.screens.base import BoardScreen
    from hpc_board.tui.screens.run_keys import RunScreen
    from hpc_board.tui.widgets.grid import Grid

    for module in pkgutil.iter_modules(screens.__path__, f"{screens.__name__}."):
        importlib.import_module(module.name)
    return (BoardApp, *BoardScreen.__subclasses__(), *RunScreen.__subclasses__(), Grid)


def screen_of(target: targets.Target, board: "Board", now: "Clock") -> "BoardScreen":
    """Return a new screen for the target `Name`: `NameScreen` of the module `name`, imported when first opened."""
    name = type(target).__name__
    module = importlib.import_module(f"hpc_board.tui.screens.{name.lower()}")
    screen: BoardScreen = getattr(module, f"{name}Screen")(board, now, target)
    return screen
