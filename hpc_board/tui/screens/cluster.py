"""The state of the GPUs: free devices, waiting jobs, and the user's own runs."""

from datetime import datetime, timedelta
from typing import ClassVar

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text
from textual import getters
from textual.app import ComposeResult
from textual.binding import BindingType

from hpc_board.board import Board
from hpc_board.domain.run import Run, RunState
from hpc_board.domain.runner import Runner
from hpc_board.model.gpu import Availability, Gpu, GpuStatus
from hpc_board.report.formatting import count_text, span_text
from hpc_board.report.run_words import times, why
from hpc_board.report.runners import place_text, reason_text
from hpc_board.report.tasks import known_count
from hpc_board.schedulers import kind_of
from hpc_board.tui import targets
from hpc_board.tui.formatting import holding, state
from hpc_board.tui.messages import Open
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.run_cells import IN_FLIGHT, Line, cells
from hpc_board.tui.screens.base import HOLD_KEY, THE_SCHEDULER, BoardScreen, Clock
from hpc_board.tui.screens.run_keys import ON_A_RUN, NamedRun, RunScreen
from hpc_board.tui.verbs import binding
from hpc_board.tui.widgets.blocks import facts
from hpc_board.tui.widgets.grid import Column
from hpc_board.tui.widgets.list_pane import Kind, ListPane

_PAUSE = timedelta(seconds=2)
"""The least interval of queries to the board, which limits queries to the schedulers itself."""

_DETAILS_LINES = 20
"""The least lines of that list beside its details on a wide screen; the runs in flight have the rest."""

_OWN_MAX = 6
_RUNNERS_MAX = 6
_BAR_CELLS = 8

_COLUMNS = (
    Column("gpu", "GPU", 4, most=16),
    Column("cluster", "Cluster", 7, from_width=96, most=16),
    Column("partition", "Partition", 9, from_width=66, most=16),
    Column("bar", "", 8, from_width=78),
    Column("free", "Free", 7, right=True),
    Column("queued", "Queued", 6, right=True),
    Column("own", "Yours", 9, most=28),
    Column("state", "State", 12, grows=True),
    Column("asked", "Age", 6, right=True, from_width=70),
)


class _Known(msgspec.Struct, frozen=True):
    """The last known state of a GPU, and its time."""

    available: Availability
    at: datetime


class _Answer(msgspec.Struct, frozen=True):
    """The state of the GPUs, the runs in flight that the user may see, and the live runners of all users."""

    statuses: tuple[GpuStatus, ...] = ()
    runs: tuple[Run, ...] = ()
    runners: tuple[Runner, ...] = ()


class ClusterScreen(RunScreen):
    """All GPUs of the settings; those of a silent cluster show their last known state with its age."""

    BINDINGS: ClassVar[list[BindingType]] = [
        binding("refresh", "Query the schedulers, at most every poll_seconds", action="ask_again"),
        binding("scope", "Show all users' runs on the selected GPU"),
        HOLD_KEY,
        binding("filter", "Filter the list with the focus as you type"),
        binding("panel"),
    ]
    DETAILS_PLACE: ClassVar[str] = ""
    HELP: ClassVar[str] = (
        "Free and queued count the jobs of all users. All clients of the board together query a scheduler at most "
        "every `poll_seconds` of the settings. Enter shows the runs on a GPU. From 120 columns on, the runs in flight "
        "are below, with the reasons of their waits; Tab moves there, where the keys of a run act. A runner is a job "
        "that holds a GPU for one user, whose runs it evaluates one after another."
    )

    pane: getters.query_one[ListPane[GpuStatus]] = getters.query_one("#gpu-list", ListPane)
    in_flight: getters.query_one[ListPane[Run]] = getters.query_one("#flying-list", ListPane)

    def __init__(self, board: Board, now: Clock, target: targets.Cluster) -> None:
        super().__init__(board, now, target)
        self._state = _Answer()
        self._known: dict[str, _Known] = {}

    def compose_body(self) -> ComposeResult:
        kind = Kind(
            _COLUMNS,
            key=lambda status: status.gpu.name,
            target=lambda status: targets.Runs(status.gpu.name),
            cells=self._cells,
            details=self._details,
            scrolls=True,
            filter_words="words of GPU, partition or cluster: h100",
            searched=lambda status: f"{status.gpu.name} {status.gpu.partition} {status.gpu.cluster.name}",
            nothing=lambda: "No GPUs yet.\nList them under `gpus` in the settings.",
            title="Cluster",
            heading=lambda status: status.gpu.name,
        )
        in_flight: Kind[Run] = Kind(
            IN_FLIGHT,
            key=lambda run: str(run.id),
            target=lambda run: targets.Report(run.id),
            cells=lambda run: cells(Line(run), self.now(), self.board.user),
            filter_words="words of task, GPU, user or file: h100 ada",
            searched=lambda run: f"{run.id} {run.task} {run.gpu} {run.user} {run.mode} {run.file_name}",
            nothing=lambda: "No runs in flight.",
            run=lambda run: run.id,
            title="In flight",
        )
        yield ListPane(kind, id="gpu-list", grid_id="gpus")
        yield ListPane(in_flight, id="flying-list", grid_id="flying").data_bind(BoardScreen.marked)

    def begin(self) -> None:
        self.show_place("Cluster")
        self.pane.grid.focus()

    def look_again(self) -> None:
        if (at := self.answered_at("cluster")) is None or self.now() - at >= _PAUSE:
            self.action_ask_again()
        self._show()

    def show_ages(self) -> None:
        """Update as on a board without a service, which does not tell when the GPUs of a cluster change."""
        self.look_again()

    def action_ask_again(self) -> None:
        def question() -> _Answer:
            gpus, runs, runners = self.board.gpus, self.board.runs, self.board.runners
            return _Answer(tuple(gpus.statuses()), tuple(runs.in_flight()), runners.live())

        self.ask("cluster", question, self._take, failed=self.pane.fail, patient=True, whom=THE_SCHEDULER)

    def action_scope(self) -> None:
        if (status := self.pane.selected) is not None:
            self.post_message(Open(targets.Runs(status.gpu.name, everyone=True)))

    @property
    def run_in_hand(self) -> Run | NamedRun | None:
        """Return the selected run in flight, if that list has the focus."""
        return self.in_flight.selected if self.is_mounted and self.focused is self.in_flight.grid else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide the keys of a run beside the list of GPUs."""
        if action in (*ON_A_RUN, "user") and self.run_in_hand is None:
            return False
        if action == "focus_next":
            return self.has_class("-wide") and not self.has_class("-short")
        return super().check_action(action, parameters)

    @property
    def gpu_in_hand(self) -> str | None:
        status = self.pane.selected if self.is_mounted else None
        return super().gpu_in_hand or (None if status is None else status.gpu.name)

    def _take(self, answer: _Answer) -> None:
        self._state = answer
        self.in_flight.show_all(answer.runs)
        for status in answer.statuses:
            if not status.problem or status.availability.total is not None:
                self._known[status.gpu.name] = _Known(status.availability, status.asked_at or self.now())
        self._show()

    def _show(self) -> None:
        if self.answered_at("cluster") is not None:
            self.pane.show_all(self._state.statuses)
            self.pane.set_height(_DETAILS_LINES if self.has_class("-wide") else None)

    def _runs_on(self, gpu: Gpu) -> list[Run]:
        return [run for run in self._state.runs if run.user == self.board.user and run.gpu == gpu.name]

    def _runners_on(self, gpu: Gpu) -> list[Runner]:
        return [runner for runner in self._state.runners if runner.gpu == gpu.name]

    def _cells(self, status: GpuStatus) -> dict[str, Text]:
        known = self._known.get(status.gpu.name)
        counts = known.available if known else Availability(status.gpu.name)
        stale = bool(status.problem)
        tone = Tone.MUTED if stale else Tone.PLAIN
        return {
            "gpu": toned(status.gpu.name, Tone.STRONG),
            "cluster": toned(status.gpu.cluster.name, Tone.MUTED),
            "partition": toned(status.gpu.partition or status.gpu.cluster.name, Tone.MUTED),
            "bar": _bar(counts, stale=stale),
            "free": toned(f"{known_count(counts.free)}/{known_count(counts.total)}", tone),
            "queued": toned(known_count(counts.queued), Tone.WAITING if counts.queued and not stale else tone),
            "own": self._own_words(status.gpu),
            "state": _state_words(status),
            "asked": toned(span_text(self.now() - known.at) if known else "", Tone.WAITING if stale else Tone.MUTED),
        }

    def _details(self, status: GpuStatus) -> RenderableType:
        gpu, known = status.gpu, self._known.get(status.gpu.name)
        parts: list[RenderableType] = []
        if status.problem:
            parts.append(toned(status.problem, Tone.BAD, 1000))
            last = f"The data above is {span_text(self.now() - known.at)} old." if known else "No data yet."
            parts.append(toned(f"{last} Retrying automatically; your runs continue.", Tone.MUTED, 300))
        if status.warning:
            parts.append(toned(status.warning, Tone.WAITING, 1000))
        host = f"over SSH by {gpu.cluster.ssh.host}" if gpu.cluster.ssh else ""
        place = filter(None, (gpu.cluster.name, gpu.cluster.scheduler, host, gpu.partition))
        # In the words of the scheduler's options.
        requests = " · ".join(kind_of(gpu.cluster).asks_for(gpu)) or "defaults"
        device = str(gpu.device), gpu.arch, "emulated: the times are not those of the GPU" if gpu.emulated else ""
        about = ("Cluster", " · ".join(place)), ("Requests", requests), ("Device", " · ".join(filter(None, device)))
        parts.append(facts(about))
        runners = self._runners_on(gpu)
        parts += [self._runner_line(runner) for runner in runners[:_RUNNERS_MAX]]
        if len(runners) > _RUNNERS_MAX:
            parts.append(toned(f"{len(runners) - _RUNNERS_MAX} more runners hold it or wait for it", Tone.MUTED))
        own = self._runs_on(gpu)
        parts += [self._run_line(run) for run in own[:_OWN_MAX]]
        if len(own) > _OWN_MAX:
            parts.append(toned(f"{len(own) - _OWN_MAX} more of your runs: Enter shows them", Tone.MUTED))
        return Group(*parts)

    def _own_words(self, gpu: Gpu) -> Text:
        own = self._runs_on(gpu)
        running = sum(run.state is RunState.RUNNING for run in own)
        waiting = len(own) - running
        held = any(runner.user == self.board.user and runner.started_at is not None for runner in self._runners_on(gpu))
        words = [
            "held" if held else "",
            f"{running} running" if running else "",
            f"{waiting} pending" if waiting else "",
        ]
        return toned(", ".join(filter(None, words)), Tone.OWN)

    def _runner_line(self, runner: Runner) -> Text:
        word, tone = holding(runner)
        user = toned(runner.user or "the board", Tone.OWN if runner.user == self.board.user else Tone.PLAIN, 32)
        line = Text.assemble(("Runner ", Tone.MUTED.value), f"{runner.id} ", user, " ", (word, tone.value))
        span, runs = span_text(timedelta(seconds=runner.seconds)), ""
        if runner.started_at is not None and runner.ends_at is not None:
            span = f"since {self._clock(runner.started_at)} until {self._clock(runner.ends_at)}"
            runs = count_text(runner.runs, "run")
        words = " · ".join(filter(None, (span, runs, place_text(runner), reason_text(runner))))
        return line.append(f" · {words}", Tone.MUTED.value)

    def _clock(self, at: datetime) -> str:
        """Return a time of day, after its date unless it is close: "11:36", "05-18 09:00"."""
        form = "%H:%M" if abs(at - self.now()) < timedelta(hours=12) else "%m-%d %H:%M"
        return at.astimezone().strftime(form)

    def _run_line(self, run: Run) -> Text:
        word, tone = state(run)
        line = Text.assemble(("Run ", Tone.MUTED.value), f"{run.id} ", (word, tone.value), " ")
        words = " · ".join(filter(None, (run.task, str(run.mode), times(run, None, self.now()), why(run))))
        return line.append_text(toned(words, Tone.MUTED, 300))


def _bar(counts: Availability, *, stale: bool) -> Text:
    """Return the share of free devices as a bar, empty if unknown."""
    if counts.free is None or not counts.total:
        return Text("")
    free = round(_BAR_CELLS * min(1.0, counts.free / counts.total))
    if counts.free and not free:
        free = 1
    tone = Tone.MUTED if stale else Tone.GOOD
    return Text.assemble(("█" * free, tone.value), ("░" * (_BAR_CELLS - free), Tone.MUTED.value))


def _state_words(status: GpuStatus) -> Text:
    if status.problem:
        return toned("no answer", Tone.BAD)
    words = [status.availability.state, "emulated" if status.gpu.emulated else "", "python?" if status.warning else ""]
    text = ", ".join(filter(None, words)) or "up"
    return toned(text, Tone.GOOD if text == "up" else Tone.WAITING)
