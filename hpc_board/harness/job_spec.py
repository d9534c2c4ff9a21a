"""The content of `job.json`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from hpc_board.harness.processes.calls import Rules
from hpc_board.model.eval_program import EvalProgram
from hpc_board.model.gpu import Sandbox, SandboxRuntime
from hpc_board.model.job_environment import JobEnvironment, RequestEnvironment
from hpc_board.model.limits import NORMAL, Limits
from hpc_board.model.sanitizer import SLOWDOWN
from hpc_board.model.score import OwnBest
from hpc_board.model.task import ISOLATED, CaseValue, Language, MeansRule, Mode, Ranking, case_of


@dataclass(frozen=True)
class JobSpec:
    """Submission, task and settings of an evaluation; the login side writes it and it holds no secret.

    `choices` are the options of its mode, such as the set of counters of a profile; `own_best` is the run that ends
    this one as soon as it is slower. `whole_node`: the job has all GPUs of its node. `environment` lists the variables
    passed on to the processes of a submission, `job_environment` those by which the scheduler describes the job, and
    `request_environment` those of the amounts for which it has asked. `data` are folders that the task's functions may
    read, in addition to those of a submission. If the `harness` is the task's own, `eval` is its program,
    `file_sha256` has the hashes of the task's files, `seed` is KernelBot's public one, and `world_size` the largest
    number of ranks of a case. `shows_hidden`: the task's author tries a submission, and sees hidden cases as any other.
    `means` is the task's rule on kernels and libraries.
    """

    run: int
    nonce: str
    mode: Mode
    gpu: str
    device: str
    emulated: bool
    submission: str
    shown_as: str
    rules: Rules
    minimum_isolation: str
    minimum_clock: str
    files: tuple[str, ...]
    tests: tuple[Mapping[str, CaseValue], ...]
    benchmarks: tuple[Mapping[str, CaseValue], ...]
    ranking_by: Ranking
    phase_seconds: Mapping[str, float]
    limits: Limits
    environment: tuple[str, ...]
    sha256: Mapping[str, str]
    language: Language = Language.PY
    adapter: str = ""
    flags: tuple[str, ...] = ()
    arch: str = ""
    std: str = ""
    include: tuple[str, ...] = ()
    build_cache: str = ""
    user: str = ""
    allow_root: bool = False
    whole_node: bool = False
    data: tuple[str, ...] = ()
    sandbox: Sandbox | None = None
    container: str = ""
    harness: str = ISOLATED
    eval: EvalProgram = field(default_factory=EvalProgram)
    file_sha256: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None
    world_size: int = 1
    choices: Mapping[str, str] = field(default_factory=dict)
    own_best: OwnBest | None = None
    hidden_tests: tuple[Mapping[str, CaseValue], ...] = ()
    hidden_benchmarks: tuple[Mapping[str, CaseValue], ...] = ()
    shows_hidden: bool = False
    means: MeansRule = field(default_factory=MeansRule)
    job_environment: JobEnvironment = field(default_factory=JobEnvironment)
    request_environment: RequestEnvironment = field(default_factory=RequestEnvironment)

    @property
    def only(self) -> int | None:
        """Return the index of the only case of a test or a benchmark that is judged; None for all."""
        asked = self.choices.get("case") if self.mode in (Mode.TEST, Mode.BENCHMARK) else None
        return None if asked is None else int(asked) - 1


def facts(path: Path) -> JobSpec:
    """Read the job's specification from the file at `path`.

    Raises:
        ValueError: the file was not written by hpc-board, or by a version too new for this harness.
    """
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if value.get("format") != 1:
        raise ValueError(f"{path} has the format {value.get('format')!r}, but this harness reads 1")
    task, mode = value["task"], Mode(value["mode"])
    limits = Limits.of_task(task["limits"], value["device"])
    job_environment = JobEnvironment.of(value.get("job_environment", {}))
    given = {name: tuple(each) if isinstance(each, list) else each for name, each in {**task, **value}.items()}
    return JobSpec(
        **{
            **{each.name: given[each.name] for each in fields(JobSpec) if each.name in given},
            "mode": mode,
            "shown_as": value.get("shown_as") or task["submission"],
            "rules": Rules(
                const_inputs=task["const_inputs"],
                fresh_output=task["fresh_output"],
                prepare=tuple(task.get("prepare", ())),
            ),
            "means": MeansRule(**{verb: tuple(names) for verb, names in task.get("means", {}).items()}),
            "minimum_isolation": value.get("minimum_isolation", ""),
            "minimum_clock": value.get("minimum_clock", ""),
            "tests": tuple(case_of(case) for case in task["tests"]),
            "benchmarks": tuple(case_of(case) for case in task["benchmarks"]),
            "hidden_tests": tuple(case_of(case) for case in task.get("hidden_tests", ())),
            "hidden_benchmarks": tuple(case_of(case) for case in task.get("hidden_benchmarks", ())),
            "ranking_by": Ranking(task["ranking_by"]),
            "phase_seconds": task["timeouts"],
            "own_best": _own_best(value.get("own_best")),
            "limits": _limits(limits, mode, value.get("choices", {})),
            "environment": (*value["environment"], *job_environment.passed_on),
            "language": Language(task.get("language", Language.PY)),
            "sandbox": _sandbox(value.get("sandbox")),
            "container": value.get("container") or "",
            "eval": _eval(task.get("eval", {})),
            "job_environment": job_environment,
            "request_environment": RequestEnvironment.of(value.get("request_environment", {})),
        }
    )


def _limits(limits: Limits, mode: Mode, choices: Mapping[str, str]) -> Limits:
    """Return a task's limits as a mode and its choices change them; those of a ranked run stay as they are."""
    if mode is Mode.SANITIZE:
        return limits.slowed(SLOWDOWN)
    return limits.with_effort(choices.get("effort", NORMAL)) if mode is Mode.BENCHMARK else limits


def asks_for(what: str, path: Path) -> bool:
    """Return whether the job file at `path` requests a node probe ("inspect") or a runner ("queue"), not one run."""
    try:
        return what in json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False


def _sandbox(value: dict[str, str] | None) -> Sandbox | None:
    return None if value is None else Sandbox(SandboxRuntime(value["runtime"]), value["image"], value["setting"])


def _own_best(value: dict[str, Any] | None) -> OwnBest | None:
    return None if value is None else OwnBest(**{**value, "references_ns": tuple(value["references_ns"])})


def _eval(value: dict[str, Any]) -> EvalProgram:
    fields: dict[str, Any] = {key: tuple(each) if isinstance(each, list) else each for key, each in value.items()}
    return EvalProgram(**fields)
