"""The commands of hpc-board for any user, in this process or behind a service, and the record of runs in its store."""

import io
import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import click
import pytest

from hpc_board.board import Board
from hpc_board.cli import output
from hpc_board.cli.main import cli, loaded
from hpc_board.domain.moderation import Rerun
from hpc_board.domain.result_json import decode_result
from hpc_board.domain.run import Run, RunState, Status
from hpc_board.domain.score_interval import Interval
from hpc_board.model.score import reference_score_s
from hpc_board.model.task import Mode, Task
from hpc_board.runs.reconciler import Reconciler
from hpc_board.service import server
from hpc_board.store import Store
from hpc_board.store.database import DatabaseFile
from hpc_board.store.runs import RunGateway
from hpc_board.store.submissions import NewRun, NewSubmission
from tests.golden.tasks import KERNEL
from tests.service import Services
from tests.values import replace

AGES_FROM = datetime(2024, 3, 20, 12, tzinfo=UTC)
"""The time from which tables count ages."""

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class SentRun:
    """A run on one GPU: its states after `created`, and its result in the form of result.json.

    Only a ranked pass has a `score_s`. The result is partial where the last state is not `finished`.
    """

    gpu: str
    cluster: str
    partition: str
    token: str
    events: Sequence[Status] = ()
    result: Mapping[str, Any] | None = None
    score_s: float | None = None
    interval: tuple[float, float] | None = None
    emulated: bool = False


@dataclass(frozen=True)
class Sent:
    """A submission of `user`; `name` is that of its first run. `account` owns its jobs, and is empty for the user."""

    user: str
    task: str
    mode: str
    runs: Sequence[SentRun]
    name: str = ""
    file_name: str = "kernel.py"
    code: str = KERNEL
    note: str = ""
    account: str = ""
    milestone: str = ""
    rerun_of: int | None = None
    at: datetime = AGES_FROM


@dataclass(frozen=True)
class Done:
    """The output of a command and its exit code."""

    exit_code: int
    stdout: str
    stderr: str


class Served:
    """The services of a board, one for each of its settings files, which take each client for the user it claims."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, *, advancing: bool) -> None:
        self._folder = folder
        self._patch = patch
        self._services: dict[str, Services] = {}
        if not advancing:
            patch.setattr(Reconciler, "run_pass", lambda *_: None)
        # A user's runs in flight are many here.
        for settings in folder.glob("*.yaml"):
            settings.write_text(f"{settings.read_text()}serve: {{runs_per_user: 1000}}\n")

    def board(self, settings: str, user: str) -> Board:
        """Return the board as `user` reaches it."""
        if settings not in self._services:
            self._services[settings] = Services(self._folder / settings)
        self._patch.setattr(server, "peer_name", lambda _: user)
        return self._services[settings].board()

    def log(self) -> str:
        """Return the lines of the logs of the services."""
        return "".join(line for each in self._services.values() for line in each.lines)

    def close(self) -> None:
        """End the services."""
        for each in self._services.values():
            each.close()


@dataclass(frozen=True)
class CommandLine:
    """The commands of hpc-board, run in this process, in a folder with settings, for any user."""

    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    settings: str = "hpc-board.yaml"
    served: Served | None = None

    def run(self, user: str, *argv: str, width: int | None = None) -> Done:
        """Run a command for `user` on a terminal of `width` columns without colours, or into a pipe."""
        stdout, stderr, code = _Stream(terminal=width is not None), _Stream(terminal=False), 0
        with self._inside(width), redirect_stdout(stdout), redirect_stderr(stderr):
            try:
                cli.main(list(argv), prog_name="hpc-board", obj=lambda: self._board(user), terminal_width=80)
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(bool(end.code))
        return Done(code, stdout.text, stderr.text)

    def record(self, user: str, sent: Sequence[Sent]) -> list[list[int]]:
        """Store submissions with the whole life of their runs, and return the numbers of the runs of each.

        `user` has to see all of their tasks.
        """
        with self._inside(None):
            board = self._board(user)
            tasks = {task.name: task for task in board.tasks.catalog().tasks}
            store = Store(board.settings.board / "board.db")
            added = store.submissions.add_all([_new(each, tasks[each.task]) for each in sent], sender=None)
            numbers = [[run.id for run in runs] for _, runs in added]
            told = [run for each in sent for run in each.runs]
            _carry_on(store, dict(zip(chain.from_iterable(numbers), told, strict=True)))
        return numbers

    def job_folder(self, run: int) -> Path:
        """Return the folder of a run's job."""
        return self.folder / "board" / "runs" / str(run)

    def _board(self, user: str) -> Board:
        """Return the board as `user` has it, which advances no runs of others: these are the same in every test."""
        if self.served is not None:
            return self.served.board(self.settings, user)
        board = Board(Board.open(self.folder / self.settings, os.environ).settings, user=user)
        installation = board.context.installation
        store = Store(board.settings.board / "board.db")
        store.runs = _RunsOf(user, store.file)
        vars(installation)["reconciler"] = replace(installation.reconciler, store=store)
        return board

    @contextmanager
    def _inside(self, width: int | None) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("HPC_BOARD_CONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "COLUMNS", "LINES"):
                patch.delenv(name, raising=False)
            patch.setenv("HOME", str(self.folder))
            patch.setenv("NO_COLOR", "1")
            patch.setattr(output, "now", lambda: AGES_FROM)
            for name, value in self.environ.items():
                patch.setenv(name, value)
            if width is not None:
                patch.setenv("COLUMNS", str(width))
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
            patch.chdir(self.folder)
            yield


class _RunsOf(RunGateway):
    """The runs that an account sends are in flight, and no others."""

    def __init__(self, account: str, file: DatabaseFile) -> None:
        super().__init__(file)
        self._account = account

    def in_flight(self, among: Collection[int] | None = None, **options: Any) -> tuple[Run, ...]:
        """Return the runs in flight that the account sends."""
        found = super().in_flight(among, **options)
        return tuple(run for run in found if (run.account or run.user) == self._account)


class _Stream(io.TextIOWrapper):
    """A standard stream that keeps its text."""

    def __init__(self, *, terminal: bool) -> None:
        self._bytes = io.BytesIO()
        super().__init__(self._bytes, encoding="utf-8", newline="", write_through=True)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    @property
    def text(self) -> str:
        return self._bytes.getvalue().decode()


def _new(sent: Sent, task: Task) -> NewSubmission:
    return NewSubmission(
        task=task,
        user=sent.user,
        file_name=sent.file_name,
        code=sent.code.encode(),
        mode=Mode(sent.mode),
        note=sent.note,
        at=sent.at,
        runs=[
            NewRun(
                gpu=run.gpu,
                cluster=run.cluster,
                partition=run.partition,
                token=run.token,
                nonce=f"nonce-{run.token}",
                trust="verified" if sent.account else "self-run",
                emulated=run.emulated,
                harness_sha256="ab" * 32,
                account=sent.account,
            )
            for run in sent.runs
        ],
        milestone=sent.milestone,
        rerun=None if sent.rerun_of is None else Rerun(sent.rerun_of, sent.account, sent.at),
    )


def _carry_on(store: Store, runs: Mapping[int, SentRun]) -> None:
    """Store the events and results of runs, in few transactions."""
    for step in range(max(len(told.events) for told in runs.values())):
        moved = {run: told.events[step] for run, told in runs.items() if step < len(told.events)}
        ends = {run for run in moved if runs[run].result is not None and step == len(runs[run].events) - 1}
        store.runs.record_each({run: status for run, status in moved.items() if run not in ends})
        for run in sorted(ends):
            _end(store, run, moved[run], runs[run])


def _end(store: Store, run: int, status: Status, told: SentRun) -> None:
    result = decode_result(json.dumps({**(told.result or {}), "run": run}).encode())
    if status.state is not RunState.FINISHED:
        assert store.runs.stop(run, status, result)
        return
    interval = None if told.interval is None else Interval(*told.interval)
    ended_at = datetime.fromisoformat(result.ended_at)
    stored = store.runs.get(run)
    task = store.submissions.task(stored.task, stored.task_version)
    reference_s = None if told.score_s is None else reference_score_s(result.cases, task.ranking_by)
    assert store.runs.finish(run, status, result, told.score_s, ended_at, interval=interval, reference_s=reference_s)


def commands() -> dict[tuple[str, ...], click.Command]:
    """Return every command and group of commands by the words that name it."""
    found: dict[tuple[str, ...], click.Command] = {}

    def walk(words: tuple[str, ...], command: click.Command, parent: click.Context | None) -> None:
        found[words] = command
        if isinstance(command, click.Group):
            context = click.Context(command, info_name=words[-1] if words else None, parent=parent)
            for name in command.list_commands(context):
                each = command.get_command(context, name)
                assert each is not None
                walk((*words, name), loaded(each), context)

    walk((), cli, None)
    return found
