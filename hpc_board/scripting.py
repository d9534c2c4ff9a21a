"""The Python interface: submissions, runs and standings for scripts and notebooks.

`from hpc_board import Board` leads here. docs/maintenance.md has the promises of this module's names; all other modules
of the package are internal.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from hpc_board.errors import InputError, SchedulerError, StorageError, WaitExpired

if TYPE_CHECKING:
    from hpc_board.board import Board as Facade
    from hpc_board.domain.comparison import Compared
    from hpc_board.domain.origin import By, Tags
    from hpc_board.domain.reference import Speedup
    from hpc_board.domain.run import WholeRun
    from hpc_board.domain.standing import Standing as Row
    from hpc_board.model.result import Case as JudgedCase

__all__ = ["Advice", "Board", "Case", "Comparison", "Run", "Runner", "Runs", "Standing", "Standings", "Task"]

T = TypeVar("T", bound=msgspec.Struct)


class Case(msgspec.Struct, frozen=True):
    """A case of a run: a test, or a benchmark with its times in seconds.

    `spec` has the arguments of the case, "size: 1024; seed: 3". `low_s` and `high_s` are the bounds of the 80 %
    confidence interval of `time_s`, and likewise those of `reference_s` and `speedup`; None where they are unknown.
    `noisy` says that the run has advice on these times. `of_tolerance` is the largest ratio of an error to the
    tolerance of the task's check, `cause` the cause of wrong values that they prove; docs/results.md has both. `wrong`
    is the number of wrong elements, None where it is unknown, and `pattern` tells their places, "the last 7 columns".
    """

    phase: str
    spec: str
    verdict: str
    message: str = ""
    time_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    reference_s: float | None = None
    speedup: float | None = None
    of_tolerance: float | None = None
    cause: str | None = None
    reference_low_s: float | None = None
    reference_high_s: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    noisy: bool = False
    wrong: int | None = None
    pattern: str = ""


class Advice(msgspec.Struct, frozen=True):
    """A remark on the times of a run, with a remedy, as its report has it."""

    kind: str
    text: str


class Run(msgspec.Struct, frozen=True):
    """A submission on one GPU, as of one moment.

    `verdict` is None until the run is finished, and `score_s` unless it passed in mode `benchmark` or `ranked`.
    docs/results.md has the states and verdicts. `speedup` is that of the score over the reference of the board,
    with its 80 % interval; None without a ranked run that timed the reference. `runner` is the number of the runner
    that judges it, None for a job of its own. `repeats` is the number of the newest earlier run of an identical file;
    `reused` is true in the answer to a submission that sent no new run. `entrant` is empty for the account itself.
    `team` is the one that has the `rank`, as "@group", and empty if the user has it.
    `started_at` is the time at which the board noticed the start, and `ended_at` the end by the clock of the node.
    `build`, `stdout`, `stderr` and `profile` are empty if you may not read them.
    """

    id: int
    submission: int
    file_name: str
    task: str
    gpu: str
    mode: str
    state: str
    ended: bool
    verdict: str | None
    message: str
    note: str
    submitted_at: datetime
    score_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    rank: int | None = None
    team: str = ""
    job_id: str = ""
    node: str = ""
    runner: int | None = None
    repeats: int | None = None
    reused: bool = False
    entrant: str = ""
    tags: Mapping[str, str] = {}
    parent: int | None = None
    cases: tuple[Case, ...] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    advice: tuple[Advice, ...] = ()
    build: str = ""
    stdout: str = ""
    stderr: str = ""
    profile: str = ""
    means: str = ""
    provenance: Mapping[str, Any] = {}
    usage: Mapping[str, Any] = {}

    @property
    def passed(self) -> bool:
        """Return whether the kernel passed."""
        return self.verdict == "pass"


class Comparison(msgspec.Struct, frozen=True):
    """The difference of the scores of two submissions on one GPU, as `hpc-board compare` shows it.

    `run` and `other` are the numbers of the runs, the older first. `speedup` is the ratio of their times, with its 95 %
    confidence interval, and `shown` says that the measurements show a difference; None without times of the same cases.
    `caveats` are the reasons to doubt it, such as other conditions.
    """

    gpu: str
    run: int
    other: int
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    shown: bool
    text: str
    caveats: tuple[str, ...] = ()


class Task(msgspec.Struct, frozen=True):
    """A task: its text, its cases, and the files that participants may read, the reference among them, by name.

    Of the hidden cases, which only ranked runs judge, it has the numbers.
    """

    name: str
    description: str
    languages: tuple[str, ...]
    gpus: tuple[str, ...]
    deadline: datetime | None
    tests: tuple[str, ...]
    benchmarks: tuple[str, ...]
    files: Mapping[str, str]
    hidden_tests: int = 0
    hidden_benchmarks: int = 0


class Runner(msgspec.Struct, frozen=True):
    """A job that holds a GPU, as of one moment; docs/hold.md has its times."""

    id: int
    gpu: str
    state: str
    seconds: int
    idle_seconds: int
    job_id: str = ""
    node: str = ""
    started_at: datetime | None = None
    ends_at: datetime | None = None


class Standing(msgspec.Struct, frozen=True):
    """A row of standings; `speedup` is that over the reference of the board, with its 80 % interval.

    `score_s` is the median of the `runs` runs of the same code, and `run` the one that has it.
    """

    task: str
    gpu: str
    rank: int
    user: str
    score_s: float
    low_s: float | None
    high_s: float | None
    speedup: float | None
    submission: int
    run: int
    file_name: str
    submitted_at: datetime
    trust: str
    entrant: str = ""
    runs: int = 1
    members: tuple[str, ...] = ()
    speedup_low: float | None = None
    speedup_high: float | None = None


_LOGS = ("build", "stdout", "stderr", "profile")
_NOT_IN_ROWS = {"cases", "advice", "provenance", "usage", *_LOGS}


class _Table(tuple[T, ...]):
    """A tuple of values that is a table, too."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary for each value, without its cases, advice, texts and facts."""
        return [
            {key: cell for key, cell in msgspec.structs.asdict(each).items() if key not in _NOT_IN_ROWS}
            for each in self
        ]

    def to_pandas(self) -> Any:
        """Return the rows as a DataFrame of pandas.

        Raises:
            InputError: pandas is not installed.
        """
        return self._frame("pandas")

    def to_polars(self) -> Any:
        """Return the rows as a DataFrame of polars.

        Raises:
            InputError: polars is not installed.
        """
        return self._frame("polars", infer_schema_length=None)

    def _frame(self, name: str, **options: Any) -> Any:
        from importlib import import_module

        try:
            library = import_module(name)
        except ImportError:
            hint = f"Install it where hpc-board is: pip install {name}"
            raise InputError(f"{name} is not installed", hint=hint) from None
        return library.DataFrame(self.rows(), **options)


class Runs(_Table[Run]):
    """Runs, in the order of their submission."""

    @property
    def best(self) -> Run | None:
        """Return the run with the least score; None if no run has one."""
        scored = [run for run in self if run.score_s is not None]
        return min(scored, key=lambda run: run.score_s or 0.0, default=None)


class Standings(_Table[Standing]):
    """Rows of standings, best first, one GPU after the other."""


OneOrMore = Run | int | Iterable[Run | int]


class Board:
    """A board: that of the settings which the command line uses, or of the settings file `config`.

    Every method raises a BoardError for problems that a user can solve, with `message`, `hint` and `exit_code`. A board
    may be used by several threads. A run is given as a `Run` or by its number, and several as one or a list of these.
    Each call opens the database or the connection to the service anew; `with Board() as board:` keeps it open until the
    end of the block.
    """

    def __init__(self, config: str | os.PathLike[str] | None = None) -> None:
        from hpc_board.opening import open_board

        self._board: Facade = open_board(None if config is None else Path(config), os.environ)

        self._kept: AbstractContextManager[None] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(user={self._board.user!r})"

    def __enter__(self) -> Self:
        self._kept = self._board.session()
        self._kept.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.__exit__(None, None, None)

    def _session(self) -> AbstractContextManager[None]:
        return nullcontext() if self._kept is not None else self._board.session()

    @property
    def tasks(self) -> tuple[str, ...]:
        """Return the names of the tasks."""
        with self._session():
            return tuple(task.name for task in self._board.tasks.catalog().tasks)

    @property
    def gpus(self) -> tuple[str, ...]:
        """Return the names of the GPUs."""
        with self._session():
            return tuple(gpu.name for gpu in self._board.gpus.all())

    def task(self, name: str) -> Task:
        """Return a task.

        Raises:
            InputError: there is no such task.
        """
        from hpc_board.model.task import case_text

        with self._session():
            found = self._board.tasks.get(name)
            return _of(
                Task,
                found,
                languages=tuple(str(each) for each in found.languages or (found.language,)),
                gpus=tuple(gpu.name for gpu in self._board.gpus.allowed(found)),
                tests=tuple(map(case_text, found.tests)),
                benchmarks=tuple(map(case_text, found.benchmarks)),
                hidden_tests=len(found.hidden_tests),
                hidden_benchmarks=len(found.hidden_benchmarks),
                files={each.name: each.text for each in found.files if each.text is not None},
            )

    def template(self, task: str, language: str | None = None) -> str:
        """Return the template of submissions for a task, by default in the task's language.

        Raises:
            InputError: there is no such task, or no template for this language.
        """
        from hpc_board.catalog.template import starter

        with self._session():
            found = self._board.tasks.get(task)
            return starter(found, language, self._board.gpus.allowed(found))

    def submit(
        self,
        files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping[str, str],
        *,
        task: str | None = None,
        gpus: str | Sequence[str] = (),
        mode: str = "test",
        note: str = "",
        array: bool | None = None,
        fresh: bool = False,
        key: str = "",
        if_new: bool = False,
        entrant: str | None = None,
        tags: Mapping[str, str] | None = None,
        parent: int | Run | None = None,
        budget: str | None = None,
        sbatch: Sequence[str] = (),
        **job_options: str | int,
    ) -> Runs:
        """Submit files, or texts by their file names, and return their runs: one for each file and GPU.

        Task and GPUs that are not given come from each file's header. From three equal jobs on, they are sent as one
        job array; `array` decides otherwise. `fresh` runs go to no GPU that you hold. A repeated call with the same
        `key` sends nothing and returns the same runs; `if_new` returns your runs of identical files, not new ones.
        `entrant` names an entrant of your account, by default that of the environment variable HPC_BOARD_AS, and
        `parent` the submission, or the run of one, that this one continues. A `budget` such as "50/day" is that of the
        command, by default that of the environment variable HPC_BOARD_BUDGET.
        `sbatch` and `job_options` are the options of `hpc-board submit` for jobs, such as `qos="night"`, `retries=2`
        and `stop_if_slower=True`.

        Raises:
            InputError: a file, the task, a GPU, the mode or the key is invalid, or the key belongs to other files;
                nothing is sent.
            Refused: the board takes no such submission; nothing is sent.
            SchedulerRefused: the scheduler refused every job.
        """
        from hpc_board.domain.budget import budget_of, default_budget
        from hpc_board.domain.draft import Source, SubmissionRequest
        from hpc_board.domain.job_options import JobOptions, check
        from hpc_board.domain.origin import Origin, default_origin
        from hpc_board.files import decoded
        from hpc_board.runs.drafts import read_source
        from hpc_board.tui.local_files import remember_submission

        try:
            plain = {name: "yes" if value is True else str(value) for name, value in job_options.items()}
            options = JobOptions(**plain, sbatch=tuple(sbatch))
        except TypeError:
            unknown = ", ".join(sorted(set(job_options) - set(JobOptions.__struct_fields__)))
            raise InputError(
                f"unknown job option: {unknown}", hint=f"Job options: {', '.join(JobOptions.__struct_fields__)}."
            ) from None
        check(options, "the call")
        names = (gpus,) if isinstance(gpus, str) else tuple(gpus)
        paths: list[Path] = []
        if isinstance(files, Mapping):
            given = ((name, text.encode(errors="surrogatepass")) for name, text in files.items())
            sources = [Source(name, decoded(data, repr(name))) for name, data in given]
        else:
            paths = [Path(path) for path in ([files] if isinstance(files, str | os.PathLike) else files)]
            sources = [read_source(path) for path in paths]
        origin = Origin(
            default_origin(os.environ).entrant if entrant is None else entrant,
            _tags(tags),
            parent.submission if isinstance(parent, Run) else parent,
        )
        requests = [SubmissionRequest(source, task, names, mode, note, options, origin) for source in sources]
        with self._session():
            runs = self._board.submissions.submit(
                requests,
                array=array,
                fresh=fresh,
                key=key,
                if_new=if_new,
                budget=default_budget(os.environ) if budget is None else budget_of(budget),
            )
            if paths:
                sent = zip(paths, (source.data for source in sources), strict=True)
                remember_submission(os.environ, self._board.address, *sent)
            found = self._runs_numbered([run.id for run in runs])
            marks = zip(found, runs, strict=True)
            return Runs(msgspec.structs.replace(each, reused=run.reused) for each, run in marks)

    @contextmanager
    def hold(
        self,
        gpu: str,
        *,
        seconds: int | None = None,
        idle_seconds: int | None = None,
        wait: bool = False,
        timeout_seconds: float | None = None,
    ) -> Iterator[Runner]:
        """Hold a GPU for the runs of a block, and release it at the end; the arguments are those of `hpc-board hold`.

        `wait` begins the block once the job has the GPU, for which it waits at most `timeout_seconds`, by default for
        ever. A GPU that you hold already is not held a second time, and stays held at the end.

        Raises:
            InputError: there is no such GPU, or the settings permit no such time.
            Refused: you may hold no GPU, or no further one.
            SchedulerRefused: the scheduler refused the job.
            SchedulerError: the job ended while the call waited for it.
            WaitExpired: the job had no GPU in time; a new one is released.
            BoardError: the board cannot be written, or the release failed; message or hint has the runner's number.
        """
        from hpc_board.board.held import granted

        with self._session():
            runner = self._board.runners.hold(gpu, seconds=seconds, idle_seconds=idle_seconds, unless_held=True)
        is_new = not runner.reused
        try:
            if wait:
                runner = granted(self._board, runner, timeout_seconds)
                if runner.state.ended:
                    raise SchedulerError(f"runner {runner.id} has ended: {runner.why}")
            yield _of(Runner, runner, state=str(runner.state), job_id=runner.status.job_id, node=runner.status.node)
        finally:
            if is_new:
                self._release(runner.id)

    def _release(self, runner: int) -> None:
        with self._session():
            try:
                self._board.runners.release(runner)
            except InputError as error:
                # It may have ended by itself.
                if isinstance(error, StorageError) or not self._board.runners.get(runner).state.ended:
                    raise

    def wait(self, runs: OneOrMore, *, timeout_seconds: float | None = None) -> Runs:
        """Wait until the runs have ended, and return them as they are then.

        Raises:
            WaitExpired: `timeout_seconds` have passed; the runs go on. Its attribute `runs` has them as they are.
        """
        numbers = _numbers(runs)
        with self._session():
            try:
                if numbers:
                    for _ in self._board.runs.wait(numbers, timeout_seconds=timeout_seconds):
                        pass
            except WaitExpired as error:
                error.runs = self._runs_numbered(numbers)
                raise
            return self._runs_numbered(numbers)

    def as_completed(self, runs: OneOrMore, *, timeout_seconds: float | None = None) -> Iterator[Run]:
        """Yield each of the runs when it has ended.

        Raises:
            WaitExpired: `timeout_seconds` have passed; the runs go on. Its attribute `runs` has them as they are.
        """
        numbers = [*dict.fromkeys(_numbers(runs))]
        if not numbers:
            return
        left = set(numbers)
        try:
            # No session is kept between two runs: the block of the loop may take long.
            for found in self._board.runs.wait(numbers, timeout_seconds=timeout_seconds):
                for ended in [run.id for run in found if run.state.ended and run.id in left]:
                    left.discard(ended)
                    yield self.run(ended)
        except WaitExpired as error:
            with self._session():
                error.runs = self._runs_numbered(numbers)
            raise

    def runs(
        self,
        *,
        key: str = "",
        note: str = "",
        tags: Mapping[str, str] | None = None,
        entrant: str | None = None,
        task: str | None = None,
        gpu: str | None = None,
        mode: str | None = None,
        limit: int | None = None,
    ) -> Runs:
        """Return your runs, or the newest `limit` ones: of a key, with `note` in a note, of a task, a GPU and a mode.

        The submission has all of the `tags`; `entrant` is that of the runs, "" for your account itself.

        Raises:
            InputError: there is no such task, GPU or mode, or the limit is negative.
        """
        from hpc_board.board.parts import in_parts
        from hpc_board.runs.drafts import mode_called

        if limit is not None and limit < 0:
            raise InputError(f"{limit} is not a number of runs", hint="Use 0 or more; None returns all.")
        kind = None if mode is None else mode_called(mode)
        with self._session():
            name = None if task is None else self._board.tasks.get(task).name
            on = None if gpu is None else self._board.gpus.get(gpu).name
            read = partial(
                self._board.runs.list,
                key=key,
                note=note,
                tags=_tags(tags),
                entrant=entrant,
                task=name,
                gpu=on,
                mode=kind,
            )
            found = in_parts(lambda size, before: read(limit=size, before=before[-1].id if before else None), limit)
            return self._runs_numbered(run.id for run in reversed(found))

    def run(self, number: int, *, hidden: bool = False) -> Run:
        """Return the run with this number; with `hidden`, the texts of hidden cases have their arguments.

        Raises:
            InputError: the user sees no such run.
            Refused: hidden cases are requested, and the user does not manage the board.
        """
        with self._session():
            return _run(self._board.runs.whole(number, hidden=hidden))

    def files(self, run: Run | int, folder: str | os.PathLike[str] = ".") -> tuple[Path, ...]:
        """Write the run's files into the folder `run-ID` in `folder`, and return their paths.

        Raises:
            InputError: that folder is in use for something else or cannot be written, or the job folder is gone.
            Refused: the run is another user's.
        """
        from hpc_board.board.run_files import fetch_run_files

        with self._session():
            return tuple(each.path for each in fetch_run_files(self._board.runs, _number(run), Path(folder)).files)

    def inputs(self, run: Run | int, case: int, path: str | os.PathLike[str]) -> Path:
        """Write the inputs of the run's test `case`, from 1, to the new file `path`, and return that.

        The task's generator makes them on this machine from the public seed; docs/results.md has the format.

        Raises:
            InputError: there is no such test, or the task has changed, is not published or judges by itself, or the
                file exists.
            Refused: the inputs are secret.
            BoardError: the generator does not run here, for lack of a library or of the device.
        """
        from hpc_board.board.case_inputs import write_case_inputs

        with self._session():
            write_case_inputs(self._board, _number(run), case, Path(path))
        return Path(path)

    def cancel(self, runs: OneOrMore) -> Runs:
        """Request the cancellation of the runs, with one question to each scheduler, and return them.

        Raises:
            BoardError: the first error, once every run was tried.
        """
        numbers = _numbers(runs)
        with self._session():
            for answer in self._board.runs.cancel_each(numbers):
                if answer.error is not None:
                    raise answer.error
            return self._runs_numbered(numbers)

    def code(self, run: Run | int) -> str:
        """Return the file of a run.

        Raises:
            Refused: it belongs to another user.
        """
        with self._session():
            return self._board.submissions.code(_number(run))[1].decode(errors="replace")

    def compare(self, one: Run | int, other: Run | int, gpus: str | Sequence[str] = ()) -> tuple[Comparison, ...]:
        """Compare the files of two runs on each GPU given, by default on that of both, or on each with times of both.

        Raises:
            InputError: they cannot be compared, for the reason in the message.
        """
        names = (gpus,) if isinstance(gpus, str) else tuple(gpus)
        with self._session():
            found = self._board.submissions.compare(_number(one), _number(other), names)
            return tuple(map(_comparison, found))

    def diff(self, one: Run | int, other: Run | int) -> str | None:
        """Return the unified diff of the files of two runs, the older first; None if you may not read both."""
        from hpc_board.board.code_diff import code_diff

        with self._session():
            return code_diff(self._board.submissions, _number(one), _number(other)).text

    def experiment(
        self,
        one: str,
        other: str,
        *,
        tags: Mapping[str, str] | None = None,
        task: str | None = None,
        gpus: str | Sequence[str] = (),
    ) -> dict[str, Any]:
        """Return the comparison of two entrants, or of two tags, by all their runs: `hpc-board experiment --json`.

        Raises:
            InputError: a side has no such runs, or both have no board in common.
        """
        from hpc_board.board.experiments import experiment
        from hpc_board.report.views.experiments import ExperimentView

        names = (gpus,) if isinstance(gpus, str) else tuple(gpus)
        with self._session():
            found = experiment(self._board, one, other, tags=_tags(tags), task=task, gpus=names)
        return dict(msgspec.to_builtins(ExperimentView.of(found)))

    def standings(self, task: str, gpus: str | Sequence[str] = (), *, by: str = "account") -> Standings:
        """Return the standings of a task, on the GPUs given or on all, by "account" or by "entrant".

        Raises:
            InputError: there is no such task or GPU, or `by` is another word.
        """
        from hpc_board.domain.origin import By
        from hpc_board.domain.standing import Rows

        rows = Rows.USERS if _by(by) is By.ACCOUNT else Rows.ENTRANTS
        names = (gpus,) if isinstance(gpus, str) else tuple(gpus)
        with self._session():
            names = names or tuple(gpu.name for gpu in self._board.gpus.allowed(self._board.tasks.get(task)))
            return Standings(
                _standing(row, task=task, gpu=page.gpu, speedup=page.speedup(row))
                for page in self._board.standings.pages(task, names, rows=rows)
                for row in page.rows
            )

    def overall(self, competition: str) -> dict[str, Any]:
        """Return the overall standings of a competition: the object of `show --competition NAME --json`.

        Raises:
            InputError: there is no such competition.
        """
        from hpc_board.report.views import view_of
        from hpc_board.report.views.grading import OverallView

        with self._session():
            return dict(msgspec.to_builtins(view_of(OverallView, self._board.standings.overall(competition))))

    def grades(
        self,
        members: Sequence[str] = (),
        *,
        tasks: Sequence[str] = (),
        gpus: str | Sequence[str] = (),
        points: str = "",
    ) -> dict[str, Any]:
        """Return the results of each of `members`, users and groups with a `@`, on tasks, and their points by a rule.

        It is the object of `admin grades --json`; without members or tasks it has those of the boards that you manage.

        Raises:
            InputError: a member, a task, a GPU or the rule is invalid.
            Refused: you do not manage one of the tasks.
        """
        from hpc_board.report.views import view_of
        from hpc_board.report.views.grading import GradesView

        names = (gpus,) if isinstance(gpus, str) else tuple(gpus)
        with self._session():
            found = self._board.standings.grades(members, tasks=tasks, gpus=names, points=points)
        return dict(msgspec.to_builtins(view_of(GradesView, found)))

    def copies(self, tasks: Sequence[str] = (), *, share: float | None = None) -> list[dict[str, Any]]:
        """Return similar ranked files of different users, by default on the boards that you manage: a hint.

        These are the objects of `admin copies --json`. At least `share` of one file is in the other, 0.6 by default.

        Raises:
            InputError: a task or the share is invalid.
            Refused: you do not manage one of the tasks.
        """
        from hpc_board.report.views import views_of
        from hpc_board.report.views.moderation import NearCopyView

        with self._session():
            found = self._board.submissions.near_copies(tasks, share)
        return list(msgspec.to_builtins(views_of(NearCopyView, found)))

    def ranks(self, user: str | None = None, *, by: str = "account") -> Standings:
        """Return the rows of a user, by default yours, on the leaderboards of all tasks and GPUs.

        With `by` "entrant" these are rows of each entrant, ranked among entrants.

        Raises:
            InputError: there is no such user, or `by` is another word.
        """
        with self._session():
            page = self._board.standings.of_user(self._board.user if user is None else user, _by(by))
            return Standings(
                _standing(rank.row, task=rank.task, gpu=rank.gpu, speedup=rank.speedup) for rank in page.ranks
            )

    def _runs_numbered(self, numbers: Iterable[int]) -> Runs:
        return Runs(_run(self._board.runs.whole(number)) for number in numbers)


def _number(run: Run | int) -> int:
    return run.id if isinstance(run, Run) else run


def _numbers(runs: OneOrMore) -> list[int]:
    return [_number(run) for run in ([runs] if isinstance(runs, Run | int) else runs)]


def _by(word: str) -> "By":
    from hpc_board.domain.origin import By

    if word not in list(By):
        raise InputError(f'unknown kind of rows "{word}"', hint=f"Use one of: {', '.join(By)}.")
    return By(word)


def _tags(tags: Mapping[str, str] | None) -> "Tags":
    from hpc_board.domain.origin import tags_of

    return tags_of(f"{key}={value}" for key, value in (tags or {}).items())


def _comparison(found: "Compared") -> Comparison:
    from hpc_board.report.comparisons import caveats

    (one, other), score = found.runs, found.comparison.score
    doubts = tuple(each.text for each in caveats(found.runs, found.results, found.comparison))
    if score is None:
        return Comparison(found.gpu, one.id, other.id, None, None, None, shown=False, text="", caveats=doubts)
    return _of(
        Comparison,
        score,
        gpu=found.gpu,
        run=one.id,
        other=other.id,
        speedup_low=score.low,
        speedup_high=score.high,
        caveats=doubts,
    )


def _of(type_: type[T], value: object, **others: Any) -> T:
    """Return `others` and the attributes of a value that have the names of the other fields."""
    names = (name for name in type_.__struct_fields__ if name not in others)
    return type_(**{name: getattr(value, name) for name in names}, **others)


def _run(found: "WholeRun") -> Run:
    from hpc_board.domain.reference import speedup_keys
    from hpc_board.domain.run import RunState
    from hpc_board.domain.usage import usage_of
    from hpc_board.model.means import means_text
    from hpc_board.report.times import result_advice

    run, result = found.run, found.result
    usage = usage_of(result) if result else None
    started = [status.at for status in found.history if status.state is RunState.RUNNING]
    return _of(
        Run,
        run,
        mode=str(run.mode),
        state=str(run.state),
        ended=run.state.ended,
        verdict=str(run.verdict) if run.verdict else None,
        message=run.explanation,
        submitted_at=run.created_at,
        low_s=run.interval and run.interval.low_s,
        high_s=run.interval and run.interval.high_s,
        **speedup_keys(run.speedup),
        rank=found.placing and found.placing.rank,
        team=found.placing.team if found.placing else "",
        job_id=run.status.job_id,
        node=run.status.node,
        runner=run.status.runner,
        entrant=run.origin.entrant,
        tags=dict(run.origin.tags),
        parent=run.origin.parent,
        cases=tuple(map(_case, result.cases)) if result else (),
        started_at=started[-1] if started else None,
        advice=tuple(Advice(each.kind, each.text) for each in result_advice(result)) if result else (),
        means=means_text(result.means) if result else "",
        provenance=dict(result.provenance) if result else {},
        usage=msgspec.structs.asdict(usage) if usage else {},
        **{name: getattr(result, name).text if result else "" for name in _LOGS},
    )


_TIMES = ("time", "low", "high", "reference", "reference_low", "reference_high")


def _case(case: "JudgedCase") -> Case:
    from hpc_board.model.text import printable
    from hpc_board.report.times import is_noisy

    found: dict[str, Any] = {}
    if timing := case.timing:
        nanoseconds = {name: getattr(timing, f"{name}_ns") for name in _TIMES}
        found = {f"{name}_s": None if each is None else each / 1e9 for name, each in nanoseconds.items()}
        low, high = timing.speedup_bounds or (None, None)
        found |= {"speedup": timing.speedup, "speedup_low": low, "speedup_high": high, "noisy": is_noisy(timing)}
    wrong = case.mismatch
    return Case(
        case.phase,
        case.spec,
        str(case.verdict),
        case.message,
        of_tolerance=wrong.of_tolerance if wrong else case.of_tolerance,
        cause=str(wrong.cause) if wrong and wrong.cause else None,
        wrong=wrong.wrong if wrong else None,
        pattern=printable(wrong.pattern) if wrong else "",
        **found,
    )


def _standing(row: "Row", speedup: "Speedup | None", **others: Any) -> Standing:
    from hpc_board.domain.reference import speedup_keys

    bounds = {"low_s": row.interval and row.interval.low_s, "high_s": row.interval and row.interval.high_s}
    return _of(Standing, row, **bounds, **speedup_keys(speedup), **others)
