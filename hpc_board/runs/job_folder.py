"""Job folders and batch scripts.

The script depends only on the task, the GPU and the mode, and finds all other files in its working directory. It is
rendered once and stored with its run: the previewed script is, byte for byte, the one that is sent.
"""

import hashlib
import itertools
import json
import os
import re
import shlex
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from hpc_board import bundled
from hpc_board.domain.run import Run
from hpc_board.domain.runner import Runner
from hpc_board.domain.task_rules import is_plain_name
from hpc_board.errors import InputError, SchedulerError, StorageError
from hpc_board.model.eval_program import eval_program
from hpc_board.model.gpu import Gpu
from hpc_board.model.limits import Limits
from hpc_board.model.runner import QUEUE, STATE, WITHDRAWN, modules_in
from hpc_board.model.sanitizer import CUDA_TOOLS, SLOWDOWN
from hpc_board.model.score import OwnBest
from hpc_board.model.task import OWN, Mode, Task, language_of
from hpc_board.model.text import one_line
from hpc_board.schedulers import kind_of
from hpc_board.transport import Files
from hpc_board.transport.local_files import LocalFiles

if TYPE_CHECKING:
    import jinja2

SCRIPT = "job.sh"
HARNESS = "harness.py"
"""The file in a job folder that starts the harness; the harness itself lies in `harness_file`."""

FACTS = "job.json"
RESULT = "result.json"
PROGRESS = "progress.jsonl"
CACHE = "cache"
"""The folder beside `runs` in which jobs keep files for later ones."""

BUILD_CACHE = f"../../{CACHE}/build"
"""The folder of compiled submissions, relative to a job folder."""

HARNESS_UNUSED_SECONDS = 30 * 86_400.0
"""The age at which a harness without unfinished runs on this board is removed; other boards may share the folder."""

PROBE_SECONDS = 600
"""The time limit of a probe job, see `probe_script`."""

_CONTAINED = '"${container[@]}" '
"""The prefix of each command in a batch script that runs in the job's container."""

_MARGIN_SECONDS = 60
"""The part of a job's time limit beyond its measurements: starting Python, probing the node, ending processes."""

_BETWEEN_SECONDS = 15
"""The time between two starts of a task's own eval: copying its files, ending its leftover processes."""

_HARNESS_FILE = re.compile(r"\.?([0-9a-f]{64})\.pyz(?:\.[0-9a-f]+)?")
"""The name of a harness file, or of a temporary file that a killed client has left."""

_SHEBANG = re.compile(r"#![ \t]*(\S+)(?:[ \t]+(\S.*?))?[ \t]*")
_OPTION = re.compile(r"#[A-Z]+\s")
"""A line that sbatch or a plugin parses: #SBATCH, and the directives of other schedulers and of burst buffers."""

_OWN_COMMENT = re.compile(r"^#SBATCH\s+--comment\b", re.MULTILINE)


class Script(msgspec.Struct, frozen=True):
    """A batch script and the options in its directives."""

    text: str
    options: dict[str, str]
    time_limit_seconds: int


class ArrayScript(msgspec.Struct, frozen=True):
    """The script of a job array; runs with equal array scripts may share one array."""

    text: str
    options: tuple[tuple[str, str], ...]


def time_limit_seconds(task: Task, gpu: Gpu, mode: Mode) -> int:
    """Return the job's time limit in whole minutes: the settings' own, else the longest time of the harness.

    A phase counts its time for the kernel and again, with one more answer, for the judge; where times are measured,
    also for the reference. The load times of the judge and of each worker are added, and a compiler's: a submission in
    Python may compile an extension when it is loaded first. In mode sanitize it is at most that of a ranked run, and
    bounds the time of the tools.
    """
    if gpu.time_limit_seconds is not None:
        return gpu.time_limit_seconds
    timeouts, limits = task.timeouts, Limits.of_task(task.limits, gpu.device)
    if task.harness == OWN:
        return _minutes(_own_eval_seconds(task, mode, limits))
    tests = (2 * timeouts.test_seconds + limits.judge_seconds, 1)
    timed = {Mode.RANKED: timeouts.ranked_seconds}.get(mode, timeouts.benchmark_seconds)
    # More workers share `measure_seconds`, but for the last one.
    workers = limits.workers + 1 if mode is Mode.RANKED else 1
    benchmarks = (3 * timed + limits.judge_seconds, workers + 1)
    profiles = (4 * timed + 2 * limits.judge_seconds, 2)
    # The tools share the time of the kernel; the judge needs its own for each.
    tools = len(CUDA_TOOLS)
    sanitized = (SLOWDOWN + tools) * timeouts.test_seconds + tools * limits.judge_seconds, SLOWDOWN * tools
    phases = {
        Mode.TEST: (tests,),
        Mode.BENCHMARK: (benchmarks,),
        Mode.PROFILE: (profiles,),
        Mode.SANITIZE: (sanitized,),
        Mode.RANKED: (tests, benchmarks)
        + (tests,) * bool(task.hidden_tests)
        + (benchmarks,) * bool(task.hidden_benchmarks),
    }[mode]
    seconds = sum(phase for phase, _ in phases) + _MARGIN_SECONDS
    seconds += limits.load_seconds * (1 + sum(loads for _, loads in phases))
    seconds += limits.build_seconds
    if mode is Mode.SANITIZE:
        # A partition that takes a task's ranked runs takes these too.
        return min(_minutes(seconds), time_limit_seconds(task, gpu, Mode.RANKED))
    return _minutes(seconds)


def _sanitize_seconds(task: Task, gpu: Gpu) -> float:
    """Return the time that the job's limit leaves to all tools of mode sanitize."""
    limits, whole = Limits.of_task(task.limits, gpu.device), time_limit_seconds(task, gpu, Mode.SANITIZE)
    other = limits.build_seconds + limits.load_seconds + limits.judge_seconds + _MARGIN_SECONDS
    return max(whole - other, whole / 2)


def _own_eval_seconds(task: Task, mode: Mode, limits: Limits) -> float:
    """Return the longest time of the task's own eval with its preparation; each of KernelBot's modes has a time-out."""
    timeouts = task.timeouts
    phases = {
        Mode.TEST: [timeouts.test_seconds],
        Mode.BENCHMARK: [timeouts.benchmark_seconds],
        Mode.PROFILE: [timeouts.benchmark_seconds] * len(task.benchmarks),
        Mode.SANITIZE: [],
        Mode.RANKED: [timeouts.test_seconds, timeouts.benchmark_seconds, timeouts.ranked_seconds] * 2,
    }[mode]
    return sum(phases) + (len(phases) + 1) * _BETWEEN_SECONDS + limits.build_seconds + _MARGIN_SECONDS


def _minutes(seconds: float) -> int:
    """Round seconds up to whole minutes."""
    return -(-int(seconds) // 60) * 60


def script(task: Task, gpu: Gpu, mode: Mode) -> Script:
    """Return the batch script that evaluates submissions for `task` on `gpu` in `mode`.

    Raises:
        InputError: the settings' own template cannot be read or rendered, or their request cannot express the number of
            GPUs that the task needs.
    """
    gpu = kind_of(gpu.cluster).with_gpus(gpu, task.world_size)
    return _rendered(gpu, time_limit_seconds(task, gpu, mode), task.name, str(mode))


def probe_script(gpu: Gpu) -> Script:
    """Return the batch script that probes a node of `gpu`; apart from its command it equals a run's script.

    Raises:
        InputError: the settings' own template cannot be read or rendered.
    """
    return _rendered(gpu, min(gpu.time_limit_seconds or PROBE_SECONDS, PROBE_SECONDS), "no task", "probe")


def runner_script(gpu: Gpu, seconds: int) -> Script:
    """Return the batch script of a runner on `gpu`; in a container it sees the job folders beside its own.

    Its scheduler does not put it back into the queue: the run in hand has its own retries, and those behind go on.

    Raises:
        InputError: the settings' own template cannot be read or rendered.
    """
    return _rendered(replace(gpu, retries=0), seconds, "any task", "runner", runner=True)


def request(script: Script, gpu: Gpu) -> str:
    """Return a hash of the parts that the jobs of runs have in common if one runner may judge the runs.

    These are the commands of the batch script, the options but for the time limit, and the facts of the GPU's entry.
    """
    kind = kind_of(gpu.cluster)
    stated = set(kind.directives(script.options))
    # Comments name the task and the mode.
    commands = [line for line in script.text.splitlines() if line not in stated and not line.startswith("# ")]
    options = {name: value for name, value in script.options.items() if name != "time"}
    shared = {"commands": commands, "options": options, "facts": _entry_facts(gpu)}
    return hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()


def runner_request(gpu: Gpu) -> str:
    """Return the `request` of the runs that a runner on `gpu` may judge; its own script binds other folders.

    Raises:
        InputError: the settings' own template cannot be read or rendered.
    """
    return request(_rendered(gpu, PROBE_SECONDS, "any task", "runner"), gpu)


def array_script(script: Script, gpu: Gpu) -> ArrayScript | None:
    """Return the array script that runs `script` as one member; None if `script` names no interpreter.

    The array's script repeats the directives of `script`, since sbatch reads only its own.
    """
    lines = script.text.splitlines()
    shebang = _SHEBANG.fullmatch(lines[0]) if lines else None
    if shebang is None:
        return None
    header = itertools.takewhile(lambda line: not line.strip() or line.lstrip().startswith("#"), lines[1:])
    text = _compiled(_template(bundled.folder("job_templates") / "array.sh.j2")).render(
        directives=[line for line in header if _OPTION.match(line)],
        gpu=gpu.name,
        index=kind_of(gpu.cluster).job_environment.array_index,
        interpreter=shlex.join(filter(None, shebang.groups())),
        script=SCRIPT,
    )
    return ArrayScript(text, tuple(script.options.items()))


@lru_cache(maxsize=32)
def _compiled(text: str) -> "jinja2.Template":
    """Return the compiled template, cached: compilation takes longer than rendering."""
    import jinja2

    environment = jinja2.Environment(  # noqa: S701 - a shell script, quoted by the filter below
        loader=jinja2.FileSystemLoader(bundled.folder("job_templates")),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["quote"] = shlex.quote
    return environment.from_string(text)


def _template(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: the batch script template cannot be read: {error}") from error


def _rendered(gpu: Gpu, seconds: int, task: str, mode: str, *, runner: bool = False) -> Script:
    import jinja2

    scheduler = kind_of(gpu.cluster)
    options, step = scheduler.options(gpu, seconds), scheduler.step(gpu)
    path = Path(gpu.template) if gpu.template else bundled.folder("job_templates") / "job.sh.j2"
    template = _template(path)
    try:
        text = _compiled(template).render(
            directives=scheduler.directives(options),
            exports=scheduler.exports,
            prefix=scheduler.job_environment.prefix,
            task=task,
            gpu=gpu.name,
            mode=mode,
            modules=gpu.modules,
            environment=dict(gpu.env),
            device=str(gpu.device),
            container=gpu.container,
            step=step,
            python=gpu.python,
            harness=HARNESS,
            facts=FACTS,
            result=RESULT,
            runner=f"{QUEUE}/{STATE}" if runner else "",
        )
    except (
        jinja2.TemplateError,
        SyntaxError,
        TypeError,
        ValueError,
        LookupError,
        ArithmeticError,
        AttributeError,
        RecursionError,
        MemoryError,
    ) as error:
        raise InputError(
            f"{path}: the batch script template cannot be rendered: {str(error) or type(error).__name__}",
            hint=f"Correct gpus.{gpu.name}.template in the settings, or remove it to use the included one.",
        ) from error
    _check_rendered(text, gpu, step, path)
    return Script(text, options, seconds)


def _check_rendered(text: str, gpu: Gpu, step: str, path: Path) -> None:
    """Require that a batch script starts the judge as the settings want; `path` is that of its template.

    Raises:
        InputError: the site's own template ignores a setting.
    """
    if gpu.container is not None and _CONTAINED not in text:
        raise InputError(
            f"{path}: the batch script template does not start the container that {gpu.container.setting} requires",
            hint="See the settings page for the required lines; or remove one of the two from the settings.",
        )
    if step and step not in text:
        raise InputError(
            f"{path}: the batch script template does not start the judge by `srun`, as gpus.{gpu.name} requires",
            hint="See the settings page for the required lines; or remove `gpu_freq` and `srun` from the settings.",
        )


def facts(run: Run, task: Task, gpu: Gpu, *, code: bytes, own_best: OwnBest | None = None) -> dict[str, Any]:
    """Return the contents of `job.json`, which must hold nothing secret from the participant.

    `own_best` is the user's run that ends this one as soon as it is slower.
    """
    return {
        # From the first release on: a new number if an earlier harness, which a waiting run uses, would misread it.
        "format": 1,
        "run": run.id,
        "nonce": run.nonce,
        "mode": str(run.mode),
        **_entry_facts(gpu),
        # A submission that runs under another account than its author's could reach that account's files in any mode.
        "minimum_isolation": gpu.minimum_isolation if run.mode is Mode.RANKED or run.trust == "verified" else "",
        "minimum_clock": gpu.minimum_clock if run.mode is Mode.RANKED else "",
        # A task may read the node's folders that the settings mount in the container: data for its inputs.
        "data": [] if gpu.container is None else list(gpu.container.mounts),
        "shown_as": run.file_name,
        "request_environment": asdict(kind_of(gpu.cluster).request_environment),
        "choices": run.options.choices,
        "own_best": own_best and asdict(own_best),
        # A library from one image may not run in another, and nothing in an image identifies it.
        "build_cache": BUILD_CACHE if gpu.container is None else "",
        "user": run.user,
        **({} if run.stored else {"shows_hidden": True}),
        "task": _task_facts(run, task, gpu),
        "sha256": {
            "harness": run.harness_sha256,
            "task": task.version,
            "submission": hashlib.sha256(code).hexdigest(),
        },
    }


def _entry_facts(gpu: Gpu) -> dict[str, Any]:
    """Return the facts of the GPU's entry for runs and probe jobs."""
    kind = kind_of(gpu.cluster)
    return {
        "gpu": gpu.name,
        "device": str(gpu.device),
        "arch": gpu.arch,
        "std": gpu.std,
        "include": list(gpu.include),
        "emulated": gpu.emulated,
        "environment": sorted(gpu.env),
        "allow_root": kind.judges_as_root(gpu.cluster),
        "whole_node": kind.takes_whole_nodes(gpu),
        "container": None if gpu.container is None else f"{gpu.container.runtime}, {gpu.container.image}",
        "job_environment": asdict(kind.job_environment),
        "sandbox": None if gpu.sandbox is None else asdict(gpu.sandbox),
    }


def _task_facts(run: Run, task: Task, gpu: Gpu) -> dict[str, Any]:
    return {
        "name": task.name,
        "version": task.version,
        "language": str(language_of(run.file_name) or task.language),
        "flags": list(task.flags),
        "submission": task.name_on_node(run.file_name),
        "files": [file.name for file in task.files if file.text is not None],
        "tests": [dict(case) for case in task.tests],
        "benchmarks": [dict(case) for case in task.benchmarks],
        **(_hidden_cases(task) if run.mode is Mode.RANKED or not run.stored else {}),
        **({"prepare": list(task.prepare)} if task.prepare else {}),
        **({"means": asdict(task.means)} if task.means.words() else {}),
        "ranking_by": str(task.ranking_by),
        "timeouts": {
            "test": task.timeouts.test_seconds,
            "benchmark": task.timeouts.benchmark_seconds,
            "ranked": task.timeouts.ranked_seconds,
            **({"sanitize": _sanitize_seconds(task, gpu)} if run.mode is Mode.SANITIZE else {}),
        },
        "limits": dict(task.limits),
        "const_inputs": task.const_inputs,
        "fresh_output": task.fresh_output,
        **({"adapter": task.adapter} if task.adapter else {}),
        "harness": task.harness,
        **(_own_eval(run, task) if task.harness == OWN else {}),
    }


def _hidden_cases(task: Task) -> dict[str, Any]:
    hidden = {"hidden_tests": task.hidden_tests, "hidden_benchmarks": task.hidden_benchmarks}
    return {key: [dict(case) for case in cases] for key, cases in hidden.items() if cases}


def _own_eval(run: Run, task: Task) -> dict[str, Any]:
    """Return the harness's input for the task's own eval: the program, its files and the public seed."""
    program, faults = eval_program(task)
    if faults:
        key, message = faults[0]
        raise InputError(f"{task.name}: task.yml, {key} {message}", hint="`hpc-board task check` lists every fault.")
    named = {task.submission_name: task.name_on_node(run.file_name)}
    sources = [named.get(name, name) for name in program.sources]
    texts = {file.name: file.text for file in task.files if file.text is not None}
    return {
        "eval": {**asdict(program), "sources": sources},
        "file_sha256": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()},
        "seed": task.seed,
        "world_size": task.world_size,
    }


def probe_facts(
    gpu: Gpu,
    nonce: str,
    answer_seconds: float,
    harness_sha256: str,
    *,
    benchmark: bool = False,
    starters: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the contents of `job.json` for a probe job, which waits `answer_seconds` for a response.

    It tries the languages of `starters`.
    """
    return {
        "format": 1,
        "inspect": {
            "nonce": nonce,
            "answer_seconds": answer_seconds,
            "benchmark": benchmark,
            "starters": dict(starters),
        },
        **_entry_facts(gpu),
        "sha256": {"harness": harness_sha256},
    }


def _runner_facts(runner: Runner, gpu: Gpu) -> dict[str, Any]:
    """Return the contents of `job.json` for a runner."""
    seconds = {"idle_seconds": runner.idle_seconds, "time_limit_seconds": runner.seconds}
    return {
        "format": 1,
        "queue": {**seconds, "modules": modules_in((), str(gpu.device))},
        **_entry_facts(gpu),
        "sha256": {"harness": runner.harness_sha256},
    }


def comment(script: Script, job: str, *tasks: str) -> str:
    """Return the comment of a job in the scheduler's lists: "hpc-board run 17, vectoradd_py" for the job "run 17".

    It is empty if the site's own template sets a comment, which one on the command line would replace. All accounts of
    the cluster may read these lists, so `tasks` are only the names of open boards.
    """
    if "comment" not in script.options and _OWN_COMMENT.search(script.text):
        return ""
    return f"hpc-board {job}, {' '.join(tasks)}" if tasks else f"hpc-board {job}"


def starter() -> bytes:
    """Return the file HARNESS, the same in every job folder.

    Raises:
        InputError: it cannot be read.
    """
    return _template(bundled.folder("job_templates") / HARNESS).encode()


def harness_file(job: Path, sha256: str) -> Path:
    """Return where the job in the folder `job` looks for its harness, `../../harness` as the system follows that.

    Raises:
        InputError: the checksum contains a path to another folder.
    """
    _check_plain(f"{sha256}.pyz")
    return job.parent / ".." / "harness" / f"{sha256}.pyz"


def folder(board: Path, run: int | str) -> Path:
    """Return the folder of a run's job, or of an array.

    Raises:
        InputError: the name contains a path to another folder.
    """
    _check_plain(str(run))
    return board / "runs" / str(run)


def _check_plain(name: str) -> None:
    """Check that a name from the database stays in its folder, in spite of any row.

    Raises:
        InputError: it does not.
    """
    if not is_plain_name(name):
        raise InputError(
            f'invalid name of a job folder or of a file in one: "{one_line(name, 80)}"',
            hint="The database is damaged: `hpc-board admin doctor` checks it.",
        )


class Folders(msgspec.Struct, frozen=True):
    """The job folders of a board on one cluster: below `board`, on the machine that `files` accesses.

    `setting` is the settings key of the folder. Two boards may share one that is not the board's own, so that a run's
    number alone does not identify its job folder there.
    """

    board: Path
    files: Files = msgspec.field(default_factory=LocalFiles)
    setting: str = "board"

    @property
    def elsewhere(self) -> bool:
        """Return whether the files are on another machine, or another account's."""
        return self.setting != "board"

    def of(self, run: Run) -> Path:
        """Return the folder of a run's job, named by the run's number; in an array by the token with its index.

        A retry has a folder of its own: the job before may still write into its one.
        """
        if run.array:
            return folder(self.board, run.token)
        return folder(self.board, f"{run.id}-{run.token}" if self.elsewhere or run.retry else run.id)

    def check_writable(self) -> None:
        """Require that files can be written to the folder, by writing one.

        Raises:
            StorageError: the folder cannot be written.
            SchedulerError: the machine of the folder cannot be reached, or offers no access to files.
        """
        path, data = self.board / ".writable", b"\n" * 4096  # a full disk takes empty files
        try:
            try:
                self.files.write(path, data)
            except FileNotFoundError:
                self.files.ensure(path, data)
        except OSError as error:
            if isinstance(error.__cause__, SchedulerError):
                raise error.__cause__ from None
            raise self._not_written(path, "file", error) from error

    def ensure_harness(self, data: bytes) -> bool:
        """Write the harness, named by its sha256, where the jobs of all runs find it, unless it is there already.

        Returns:
            True on the first use of this harness within a day.

        Raises:
            StorageError: the board's folder cannot be written.
            SchedulerError: the machine of the folder cannot be reached.
        """
        path = self._harness_file(hashlib.sha256(data).hexdigest())
        try:
            return self.files.ensure(path, data)
        except OSError as error:
            raise self._not_written(path, "harness", error) from error

    def has_harness(self, sha256: str) -> bool:
        """Return whether the harness with this sha256 exists.

        Raises:
            StorageError: the folder cannot be read at the moment.
        """
        path = self._harness_file(sha256)
        try:
            return any(entry.name == path.name for entry in self.files.entries(path.parent))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StorageError(
                f"{os.path.normpath(path)}: the harness cannot be checked: {error.strerror or error}",
                hint="The run is sent once the folder can be read again.",
            ) from error

    def remove_unused_harnesses(self, needed: Collection[str], *, dry_run: bool = False) -> Sequence[int]:
        """Remove harnesses that are not `needed` and were not used for HARNESS_UNUSED_SECONDS; ignore failures.

        Returns:
            The size of each, also in a `dry_run`, which removes none.
        """
        harnesses, oldest, sizes = self._harness_file("").parent, time.time() - HARNESS_UNUSED_SECONDS, []
        with suppress(OSError):
            for entry in self.files.entries(harnesses):
                match = _HARNESS_FILE.fullmatch(entry.name)
                unneeded = match is not None and (entry.name.startswith(".") or match[1] not in needed)
                if unneeded and entry.size is not None and entry.modified_at < oldest:
                    with suppress(FileNotFoundError):
                        if not dry_run:
                            self.files.remove(harnesses / entry.name)
                        sizes.append(entry.size)
        return sizes

    def _harness_file(self, sha256: str) -> Path:
        return harness_file(folder(self.board, "any"), sha256)

    def write(
        self, run: Run, task: Task, gpu: Gpu, *, script: str, code: bytes, own_best: OwnBest | None = None
    ) -> Path:
        """Write the job folder of `run` atomically and return it; an existing one is kept.

        `own_best` is that of `facts`. The folder does not hold the harness: the job loads the run's `harness_sha256`
        from where `ensure_harness` wrote it.

        Raises:
            StorageError: the board's folder cannot be written.
            SchedulerError: the machine of the folder cannot be reached.
        """
        target = self.of(run)
        contents: dict[str, bytes] = {
            SCRIPT: script.encode(),
            FACTS: json.dumps(facts(run, task, gpu, code=code, own_best=own_best), indent=1).encode(),
            HARNESS: starter(),
            f"submission/{task.name_on_node(run.file_name)}": code,
        }
        contents |= {f"task/{file.name}": file.text.encode() for file in task.files if file.text is not None}
        return self._written(target, contents)

    def of_runner(self, runner: Runner) -> Path:
        """Return the folder of a runner."""
        return folder(self.board, runner.token)

    def write_runner(self, runner: Runner, gpu: Gpu, script: str) -> Path:
        """Write the folder of a runner, with an empty queue, as `write` does."""
        contents = {
            SCRIPT: script.encode(),
            FACTS: json.dumps(_runner_facts(runner, gpu), indent=1).encode(),
            HARNESS: starter(),
            **{f"{part}/.folder": b"" for part in (QUEUE, WITHDRAWN)},
        }
        return self._written(self.of_runner(runner), contents)

    def write_array(self, name: str, script: ArrayScript) -> Path:
        """Write the folder of a job array, which holds only its script, as `write` does."""
        return self._written(folder(self.board, name), {SCRIPT: script.text.encode()})

    def _written(self, target: Path, contents: Mapping[str, bytes]) -> Path:
        try:
            self.files.write_folder(target, contents)
        except OSError as error:
            raise self._not_written(target, "job folder", error) from error
        return target

    def _not_written(self, path: Path, name: str, error: OSError) -> StorageError:
        return StorageError(
            f"{os.path.normpath(path)}: the {name} cannot be written: {error.strerror or error}",
            hint=f"Free some space, or set `{self.setting}` in the settings to a folder that you can write to.",
        )

    # The errors of the following are those of `files`; a name with a path to another folder is an InputError.

    def folder_names(self) -> Sequence[str]:
        """Return the names of the job folders, those of other boards in the same place among them."""
        return [entry.name for entry in self.files.entries(self.board / "runs", most=None) if entry.is_folder]

    def bytes_of(self, name: str) -> int:
        """Return the size of all files of a job folder."""
        return self.files.bytes_in(folder(self.board, name))

    def remove(self, name: str) -> None:
        """Remove a job folder, also one that is gone."""
        self.files.remove_folder(folder(self.board, name), alone=True)

    def sizes(self, run: Run, below: str = "") -> Mapping[str, int]:
        """Return the sizes of the regular files in the run's job folder, or in its folder `below`, by their names."""
        entries = self.files.entries(self.of(run) / below)
        return {entry.name: entry.size for entry in entries if entry.size is not None}

    def read_part(self, run: Run, below: str, name: str, start: int, limit: int) -> bytes:
        """Return at most `limit` bytes of a file there from `start` on."""
        _check_plain(name)
        return self.files.read(self.of(run) / below / name, limit, start=start)[:limit]

    def read(self, run: Run, name: str, limit: int, *, end: bool = False) -> bytes:
        """Return the file `name` of the run's job folder, as `Files.read` does."""
        _check_plain(name)
        return self.files.read(self.of(run) / name, limit, end=end)
