"""The watch of a file, which is submitted on every save."""

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import ClassVar

import msgspec
from rich.text import Text
from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import Static

from hpc_board.board import Board
from hpc_board.board.code_diff import LINES_MAX, code_diff
from hpc_board.domain.budget import default_budget
from hpc_board.domain.draft import Source, SubmissionRequest
from hpc_board.domain.job_options import parsed
from hpc_board.domain.origin import default_origin
from hpc_board.domain.run import Cancellation, Progress, Run, RunState
from hpc_board.domain.score_interval import overlaps
from hpc_board.domain.standing import Page, Standing
from hpc_board.domain.time_change import WITHIN_NOISE, change_text
from hpc_board.files import decoded, shown_path
from hpc_board.model.task import Mode
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Paragraph
from hpc_board.report.blocks import Tone as ReportTone
from hpc_board.report.formatting import span_text
from hpc_board.tui import targets
from hpc_board.tui.formatting import listing, speed_text
from hpc_board.tui.local_files import is_elsewhere, remember_sent, saved_state
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.run_cells import BAR_CELLS, TIMED, WATCHED, Line, cells
from hpc_board.tui.screens.base import HOLD_KEY, THE_FILE, THE_SCHEDULER, BoardScreen, Clock
from hpc_board.tui.screens.run_keys import NamedRun, RunScreen
from hpc_board.tui.verbs import binding
from hpc_board.tui.widgets.blocks import Blocks, show_text
from hpc_board.tui.widgets.list_pane import Kind, ListPane
from hpc_board.tui.widgets.progress_line import ProgressLine, RunRead, UsualTimes, read_run
from hpc_board.tui.widgets.text_pane import SourceText, SourceView, source_of


class Saves(msgspec.Struct, frozen=True):
    """The state of a watched file: its contents at the last look, and those handled last.

    `found_ns` is the time of the last change before the watch, until the first save.
    """

    file: Path
    seen: bytes | None = None
    done: bytes | None = None
    found_ns: int | None = None

    @classmethod
    def since_now(cls, file: Path) -> "Saves":
        """Start watching a file whose current contents count as handled until they are saved again."""
        found_ns, now = saved_state(file)
        return cls(file, now, now, found_ns)

    def look(self) -> "tuple[Saves, bool]":
        """Read the file, and return the new state and whether there is a complete save to handle.

        A file that changed since the last look may still be incomplete, so it counts at the next look only.
        """
        changed_ns, now = saved_state(self.file)
        found_ns = self.found_ns if self.found_ns == changed_ns else None
        done = self.done if self.found_ns == found_ns else None
        return Saves(self.file, now, done, found_ns), bool(now) and now == self.seen and now != done

    def handled(self) -> "Saves":
        """Return the state with the current contents as handled."""
        return Saves(self.file, self.seen, self.seen or self.done)


LOOK_SECONDS = 0.5
"""The interval at which the watch reads the file."""

SEND_SECONDS_MIN = 5.0
"""The least interval between two submissions of a watch."""

_SHOWN_MAX = 50

MODES = (Mode.TEST, Mode.BENCHMARK, Mode.RANKED)
"""The modes of a watch, in the order in which the key turns them."""

_FIRST_WORDS = (
    "No submissions yet. Save the file in your editor: each save is submitted, and its report appears here. Or press e "
    "to edit it here, which submits it when the editor closes. M changes the mode. The watch ends when you leave this "
    "screen."
)


_Read = tuple[tuple[Run, ...], dict[int, Progress], RunRead]
"""The runs of a watched file, the current steps of those in flight, and all of the newest."""


class WatchScreen(RunScreen):
    """The watch of a file while this screen is in front; each save is submitted, and cancels the runs of older ones.

    Leaving the screen ends the watch; its runs go on.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        binding("pause"),
        binding("edit", "Edit the file; the watch continues afterwards"),
        binding("mode"),
        HOLD_KEY,
        binding("submit", "Open the form with the file, for another mode or other options"),
        Binding("escape", "back", "Stop", tooltip="Stop watching; its runs continue", id="screen.back"),
    ]
    FIRST_KEYS: ClassVar[tuple[str, ...]] = ("edit", "mode", "pause")
    SHOWS_OUTPUT: ClassVar[bool] = True
    WITHOUT: ClassVar[frozenset[str]] = frozenset({"watch"})
    HELP: ClassVar[str] = (
        "Every save of the file is submitted, at most once every five seconds, and without a change only the first; of "
        "several saves in between, the last one is submitted. A newer save cancels the runs of older saves that have "
        "not ended. M turns between the modes "
        "test, benchmark and ranked; in the latter two, the table has the time of each save, its change from the "
        "previous save and from your best, on the board or an earlier save, and its speed relative to the best. From "
        "160 columns on, the changes of the selected save are beside it. The watch ends when you leave this screen, "
        "and pauses while another screen or your editor covers it. Enter opens a run."
    )

    pane: getters.query_one[ListPane[Run]] = getters.query_one(ListPane)
    blocks = getters.query_one("#newest", Blocks)
    standing = getters.query_one("#standing", Static)
    change = getters.query_one("#change", SourceView)
    progress_line = getters.query_one(ProgressLine)

    def __init__(self, board: Board, now: Clock, target: targets.Watch) -> None:
        super().__init__(board, now, target)
        self._watched = target
        self._mode = target.mode if target.mode in MODES else Mode.TEST
        self._saves = Saves(target.file)
        self._paused = False
        self._is_new = False
        self._sent_at: datetime | None = None
        self._saved_at: dict[int, datetime] = {}
        self._of_saves: set[int] = set()
        """The runs that a save has submitted, as opposed to the user's key."""
        self._stale: set[int] = set()
        """Those whose end was requested after a newer save."""
        self._compared: tuple[int, ...] = ()
        """The submissions whose files the panel of the change compares."""
        self._runs: tuple[Run, ...] = ()
        self._steps: dict[int, Progress] = {}
        self._usual_times: UsualTimes = {}
        self._ranked: Mapping[str, Standing] = {}
        """The user's best on the board of each GPU before the watch."""

    def compose_body(self) -> ComposeResult:
        yield Static(id="watched", markup=False)
        yield Static(id="standing", markup=False)
        yield ProgressLine(id="progress-line")
        with Container(id="panes"):
            kind = Kind(
                WATCHED,
                key=lambda run: str(run.id),
                target=lambda run: targets.Report(run.id),
                cells=self._cells,
                run=lambda run: run.id,
                title="Runs",
            )
            yield ListPane(kind, id="sent-list", grid_id="sent").data_bind(BoardScreen.marked)
            yield SourceView("Change", view="change-lines", id="change")
            yield Blocks("Newest run", id="newest")

    def begin(self) -> None:
        self.show_place("Watch")
        self.pane.grid.focus()
        self._show_watched()
        self.blocks.show([Paragraph(_FIRST_WORDS, ReportTone.QUIET)])
        self._show_standing()
        watched = self._watched
        self.ask("best", partial(self.board.standings.pages, watched.task, watched.gpus, limit=1), self._take_ranked)
        self.set_interval(LOOK_SECONDS, self._look)
        self._look()

    def _take_ranked(self, pages: Sequence[Page]) -> None:
        self._ranked = {page.gpu: page.own for page in pages if page.own is not None}
        self._show_runs()

    def fit_body(self) -> None:
        self._read_change()

    def look_again(self) -> None:
        if not all(run.state.ended for run in self._runs):
            self._read()
        self._show_standing()

    def show_ages(self) -> None:
        super().show_ages()
        self._show_standing()

    @property
    def key_labels(self) -> Mapping[str, str]:
        return {**super().key_labels, "pause": "Resume" if self._paused else "Pause"}

    @property
    def gpu_in_hand(self) -> str | None:
        return super().gpu_in_hand or self._watched.gpus[0]

    @property
    def run_in_hand(self) -> Run | NamedRun | None:
        return self.pane.selected if self.is_mounted else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let the watched file be edited before it has a run."""
        return action == "edit" or super().check_action(action, parameters)

    @property
    def may_close(self) -> bool:
        """Return False: the watch ends with its screen."""
        return False

    def action_pause(self) -> None:
        self._paused = not self._paused
        self.refresh_bindings()
        self._show_standing()

    def action_mode(self) -> None:
        self._mode = MODES[(MODES.index(self._mode) + 1) % len(MODES)]
        self._show_watched()
        self._show_runs()
        if self._mode is Mode.RANKED:
            self.notify("From now on, each save is a ranked run.", severity="warning")

    def action_submit(self) -> None:
        watched, run = self._watched, self.pane.selected
        mode = None if run is None else self._next_mode(run)
        self.lead_to(targets.Submit(watched.task, watched.gpus, mode, watched.file))

    def follow_sent(self, runs: Sequence[Run]) -> None:
        self._take_sent(self.now(), runs)

    def action_edit(self) -> None:
        self.lead_to(targets.Edit(self._watched.file, watched=True))

    def _look(self) -> None:
        """Read the file, unless another screen is in front."""
        if not self.is_active or self.is_open("send"):
            return
        saves, began = self._saves, self.answered_at("look")

        def question() -> tuple[Saves, bool]:
            return saves.look() if began else (Saves.since_now(saves.file), False)

        self.ask("look", question, self._take_look, patient=True, whom=THE_FILE)

    def _take_look(self, looked: tuple[Saves, bool]) -> None:
        self._saves, self._is_new = looked
        if not self._runs and self._saves.seen and self.has_class("-huge"):
            name = self._watched.file.name
            self.change.show_source(SourceText(self._saves.seen.decode(errors="replace"), name, name))
        if self._is_new and self.is_active and not self._paused:
            self._cancel_stale()
            if not self._pending_reason:
                self._send()
        self._show_standing()

    def _cancel_stale(self) -> None:
        """Request the end of the runs of older saves, once for each."""
        stale = [run.id for run in self._runs if not run.state.ended and run.id in self._of_saves - self._stale]
        if stale:
            self._stale |= {*stale}
            self.ask("stale", partial(self._cancelled, stale), self._take_cancelled, whom=THE_SCHEDULER)

    def _take_cancelled(self, _: Sequence[Cancellation]) -> None:
        if self._runs[0].id in self._stale:
            # Their contents count as new, if they are saved again before newer ones are submitted.
            self.withdraw("look")
            self._saves = Saves(self._saves.file, self._saves.seen)
        self.look_again()

    @property
    def _pending_reason(self) -> str:
        """Return the reason to delay a submission, empty if there is none."""
        if self._paused:
            return "paused: P resumes"
        going = sorted(run.id for run in self._runs if not run.state.ended)
        if going:
            is_cancelled = not self.has_failed("stale") and {*going} <= self._stale
            numbers = f"run{'s' if len(going) > 1 else ''} {listing(tuple(map(str, going)))}"
            return f"cancelling {numbers} of the older file" if is_cancelled else f"waiting for {numbers}"
        if self._sent_at is not None and self.now() - self._sent_at < timedelta(seconds=SEND_SECONDS_MIN):
            return "waiting a few seconds after the last submission"
        return ""

    def _send(self) -> None:
        watched, mode, now, seen = self._watched, self._mode, self.now(), self._saves.seen or b""
        # A failed submission is handled too: the same contents would fail again.
        self._saves = self._saves.handled()
        self._is_new, self._sent_at = False, now

        def question() -> Sequence[Run]:
            # Not the file as it is now: a save meanwhile is a submission of its own.
            source = Source(watched.file.name, decoded(seen, shown_path(watched.file)))
            request = SubmissionRequest(
                source,
                watched.task,
                watched.gpus,
                str(mode),
                options=parsed(watched.options),
                origin=default_origin(os.environ),
            )
            runs = self.board.submissions.submit([request], budget=default_budget(os.environ))
            remember_sent(self.memory, self.board.address, (watched.file, seen))
            return runs

        def take(runs: Sequence[Run]) -> None:
            self._of_saves |= {run.id for run in runs}
            self._take_sent(now, runs)

        self.ask("send", question, take, whom=THE_SCHEDULER)

    def _take_sent(self, at: datetime, runs: Sequence[Run]) -> None:
        self._saved_at |= {run.id: at for run in runs}
        self._runs = (*reversed(runs), *self._runs)[:_SHOWN_MAX]
        self._show_runs(select=str(self._runs[0].id))
        self._read()

    def _read(self) -> None:
        numbers = [run.id for run in self._runs]

        def question() -> _Read:
            runs = tuple(self.board.runs.get(number) for number in numbers)
            going = [run.id for run in runs if not run.state.ended]
            steps = {number: progress[-1] for number in going if (progress := self.board.runs.progress(number))}
            return runs, steps, read_run(self.board, numbers[0], self._usual_times)

        self.ask("runs", question, self._show_read, patient=True)

    def _show_read(self, answer: _Read) -> None:
        runs, self._steps, newest = answer
        read = {run.id: run for run in runs}
        self._runs = tuple(read.get(run.id, run) for run in self._runs)
        self.blocks.show(newest.outcome(self.board.user))
        self.progress_line.show(newest, self.now())
        self._show_runs()
        self._show_standing()

    @on(ListPane.Selected)
    def _read_change(self) -> None:
        """Read the change of the selected save, where a wide screen has room for it."""
        run = self.pane.selected
        if run is None or not self.has_class("-huge"):
            return
        earlier = [each.id for each in self._runs if each.submission < run.submission]
        compared = (*([max(earlier)] if earlier else []), run.id)
        if compared != self._compared:
            self._compared = compared
            self.ask("change", partial(self._change, run, *compared[:-1]), self.change.show_source)

    def _change(self, run: Run, *earlier: int) -> SourceText:
        """Return the diff to the file of an earlier save, or the first file."""
        if not earlier:
            return source_of(self.board, run.id)
        found = code_diff(self.board.submissions, earlier[0], run.id, LINES_MAX)
        name = "change.diff" if found.text else ""
        return SourceText(found.text or found.remark, name, f"Run {run.id}: changes since the previous save")

    def _show_watched(self) -> None:
        watched = self._watched
        folder, is_far = one_line(str(watched.file.parent)), is_elsewhere(watched.file)
        place = "" if folder == "." else f"  in another folder, {folder}" if is_far else f"  in {folder}"
        self.query_one("#watched", Static).update(
            Text.assemble(
                toned(watched.file.name, Tone.STRONG),
                f" → {one_line(f'{watched.task} on {listing(watched.gpus)}, mode {self._mode}')}",
                (place, (Tone.WAITING if is_far else Tone.MUTED).value),
            )
        )

    def _show_runs(self, *, select: str | None = None) -> None:
        is_timed = any(mode is not Mode.TEST for mode in (self._mode, *(run.mode for run in self._runs)))
        self.pane.grid.set_columns(TIMED if is_timed else WATCHED)
        self.pane.show_all(self._runs, select=select)

    def _cells(self, run: Run) -> dict[str, Text]:
        ranked = [own] if (own := self._ranked.get(run.gpu)) is not None else []
        measured = [each for each in self._runs if each.gpu == run.gpu and each.score_s]
        earlier = [each for each in measured if each.id < run.id]
        before: list[Run | Standing] = [*earlier, *ranked]
        best = min(before, key=lambda each: each.score_s or 0, default=None)
        fastest_s = min((each.score_s or 0 for each in [*measured, *before]), default=0)
        found = {
            "saved": toned(self._clock(run), Tone.MUTED),
            **cells(Line(run, step=self._steps.get(run.id)), self.now()),
            "previous": _change(next(iter(earlier), None), run),
            "best": _change(best, run),
            "bar": toned(speed_text(fastest_s / run.score_s, BAR_CELLS) if run.score_s else "", Tone.MUTED),
        }
        newer = [each for each in self._runs if each.submission > run.submission]
        if newer and run.id in self._stale and run.state is RunState.CANCELLED:
            found["why"] = toned(f"for the save of {self._clock(newer[-1])}", Tone.MUTED)
        return found

    def _clock(self, run: Run) -> str:
        return self._saved_at[run.id].astimezone().strftime("%H:%M:%S")

    def _show_standing(self) -> None:
        if self._paused:
            words = toned("paused: P resumes", Tone.WAITING)
        elif self.is_open("send"):
            words = toned("saved: submitting …", Tone.ACCENT)
        elif self._is_new:
            words = toned(f"saved: {self._pending_reason}", Tone.WAITING)
        elif self.answered_at("look") and self._saves.seen is None:
            words = toned("the file does not exist; waiting for it", Tone.WAITING)
        else:
            words = toned("watching: save the file to submit it", Tone.GOOD)
        if self._sent_at is not None and not self._runs:
            words.append(" · ").append_text(toned(f"tried {span_text(self.now() - self._sent_at)} ago", Tone.MUTED))
        show_text(self.standing, words)

    def settle(self, subject: str) -> None:
        if subject == "send":
            self._show_standing()


def _change(before: Run | Standing | None, run: Run) -> Text:
    """Return the change of the score from an earlier run; empty without two scores."""
    if before is None or not before.score_s or not run.score_s:
        return toned("")
    better, worse = sorted((before, run), key=lambda each: each.score_s or 0)
    if better.interval and worse.interval and overlaps(worse.interval.low_s, better.interval.high_s):
        return toned(WITHIN_NOISE, Tone.MUTED)
    tone = Tone.PLAIN if run.score_s == before.score_s else Tone.GOOD if better is run else Tone.BAD
    return toned(change_text(before.score_s, run.score_s), tone)
