"""The order of the GPU check: each run with its planned time and its limit, the essential ones first.

The limits of the whole check decide how far it comes: a run that does not fit in the time left is left out, and the
next one that fits is made. Destructive cheats, which may leave a GPU unusable, are last.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hpc_board.model.task import CaseValue, Language, Mode, Task

ROOT = Path(__file__).resolve().parents[2]
TASKS, EXAMPLES, GPU_TESTS = ROOT / "tasks", ROOT / "examples", ROOT / "tests" / "gpu"
SUBMISSIONS, CHEATS = GPU_TESTS / "submissions", GPU_TESTS / "cheats"
MATMUL, VECTORADD = TASKS / "matmul", TASKS / "vectoradd"

QUICK: Mapping[str, float] = {
    "workers": 1,
    "warmup_calls": 2,
    "timed_calls_min": 12,
    "timed_calls_max": 16,
    "case_seconds": 3,
    "measure_seconds": 0,
    "baseline_seconds": 0.5,
    "load_seconds": 30,
    "first_call_seconds": 30,
    "call_seconds": 5,
    "judge_seconds": 20,
}
"""Limits of a run that shall answer in seconds: one worker, about twelve calls."""

SHORT: Mapping[str, float] = {**QUICK, "load_seconds": 10, "first_call_seconds": 3, "call_seconds": 3}
"""Limits of a run that a destructive cheat ends."""

COMPILING: Mapping[str, float] = {**QUICK, "load_seconds": 60}


@dataclass(frozen=True)
class Entry:
    """A run of the check.

    `seconds` is its planned time, `limit` the time at which it is killed. `case` replaces the task's benchmarks.
    `needs` names requirements of the machine (`MISSING` in check.py); `honest` is the kernel whose time a cheat may not
    undercut; `without` is a program that the run must not find.
    """

    stage: str
    kind: str
    name: str
    language: str = "py"
    seconds: float = 9
    limit: float = 30
    task: str = ""
    file: Path | None = None
    mode: Mode = Mode.BENCHMARK
    case: Mapping[str, CaseValue] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=lambda: QUICK)
    needs: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    honest: str = ""
    without: str = ""
    sandboxed: bool = False


SUM: Mapping[str, CaseValue] = {"size": 2**23, "seed": 31232}
COPY: Mapping[str, CaseValue] = {"size": 2**24, "seed": 54352}
CASE_OF = {"vectoradd_py": SUM, "identity_py": COPY}
"""The one benchmark case of a cheat, long enough that a tenth of its time is more than the windows scatter."""

CLOCK_CASES: Mapping[str, Mapping[str, CaseValue]] = {
    "copy of 64 KiB": {"kernel": "copy", "size": 2**16, "seed": 1},
    "copy of 1 MiB": {"kernel": "copy", "size": 2**20, "seed": 1},
    "copy of 4 MiB": {"kernel": "copy", "size": 2**22, "seed": 1},
    "copy of 16 MiB": {"kernel": "copy", "size": 2**24, "seed": 1},
    "copy of 64 MiB": {"kernel": "copy", "size": 2**26, "seed": 1},
    "sum of 12 MiB and 12 MiB": {"kernel": "sum", "size": 12 * 2**20, "seed": 1},
    "eight kernels of 1 MiB": {"kernel": "eight_kernels", "size": 2**20, "seed": 1},
    "product of 2048 x 2048 float32": {"kernel": "product_fp32", "size": 2048, "seed": 1},
    "product of 4096 x 4096 bfloat16": {"kernel": "product_bf16", "size": 4096, "seed": 1},
    "10 ms of FMAs": {"kernel": "fma", "size": 2**20, "seed": 1},
}
"""Kernels that other clocks time as well: the cases of one task, so that one run has all."""

HIDING = ("copy_engine_after_the_sign", "work_before_the_sign", "done_too_early", "persisting_l2", "side_stream")
"""Cheats that work outside of their time; `second_gpu` too, on a machine with two GPUs."""

DESTRUCTIVE = ("sticky_error", "memory_hog", "spinning_kernel")


def order(tasks: Mapping[str, Task]) -> Iterator[Entry]:
    """Yield all runs in their order; `tasks` are the bundled ones."""
    yield Entry("probe", "probe", "probe", "", 35, 45)
    yield from clocks("clock")
    yield from hidden()
    yield from clocks("repeat")
    yield Entry("wrong", "describe", "versions", "", 6, 30)
    for path in sorted(CHEATS.glob("*.py")):
        if path.stem not in (*HIDING, *DESTRUCTIVE, "second_gpu"):
            yield cheat("wrong", path.stem, seconds=7)
    yield from languages()
    faster = EXAMPLES / "vectoradd_py" / "faster.py"
    usual = Entry("sandbox", "kernel", "bubblewrap", task="vectoradd_py", file=faster, case=SUM)
    yield replace(usual, needs=("bwrap",), sandboxed=True, seconds=12)
    profile = replace(usual, stage="profile", mode=Mode.PROFILE, seconds=15, limit=45)
    yield replace(profile, name="profile by ncu", needs=("ncu",))
    yield replace(profile, name="profile by torch.profiler", without="ncu")
    sanitize = replace(usual, stage="profile", name="sanitize", mode=Mode.SANITIZE, seconds=40, limit=90)
    yield replace(sanitize, needs=("compute-sanitizer",))
    ranked = Entry("ranked", "kernel", "vectoradd_py", seconds=30, limit=75, mode=Mode.RANKED, limits={})
    for _ in range(3):
        yield replace(ranked, task="vectoradd_py", file=faster)
    yield from whole_tasks(tasks, ranked)
    for name in DESTRUCTIVE:
        yield cheat("destructive", name, seconds=10, limit=20, limits=SHORT)


def clocks(stage: str) -> Iterator[Entry]:
    """Yield the kernels of the clock in one run of the judge, then by other clocks."""
    yield Entry(stage, "clock", "kernels", "py", 25, 60)
    yield Entry(stage, "compare", "kernels", "py", 22, 45)


def hidden() -> Iterator[Entry]:
    """Yield honest kernels, and the cheats that hide time, which must not be faster."""
    yield honest("honest vectoradd", "vectoradd_py", EXAMPLES / "vectoradd_py" / "faster.py")
    yield honest("honest identity", "identity_py", EXAMPLES / "identity_py" / "faster.py")
    yield honest("honest workspace", "vectoradd_py", SUBMISSIONS / "vectoradd_workspace.py")
    for name in (*HIDING, "second_gpu"):
        yield cheat("hidden", name)


def honest(name: str, task: str, file: Path) -> Entry:
    """Return the run of an honest kernel on the one case of the cheats."""
    return Entry("hidden", "kernel", name, task=task, file=file, case=CASE_OF[task])


def cheat(stage: str, name: str, **changes: Any) -> Entry:
    """Return the run of a cheat; the bundle reads its task and its requirements from its first lines."""
    return Entry(stage, "cheat", name, file=CHEATS / f"{name}.py", **changes)


def languages() -> Iterator[Entry]:
    """Yield the same sum or product in each language and by each library, mostly by the templates of the tasks."""
    entry = Entry("languages", "kernel", "vectoradd_py", task="vectoradd_py", case=SUM, seconds=12)
    case = {"m": 640, "k": 768, "n": 512, "seed": 93246}
    compiled = replace(
        entry, language="cu", task="matmul", case=case, needs=("nvcc",), seconds=16, limit=60, limits=COMPILING
    )
    template = replace(entry, task="vectoradd", seconds=16)
    own = {
        "Triton with autotune": replace(
            entry, file=SUBMISSIONS / "vectoradd_autotune.py", needs=("triton",), seconds=16
        ),
        "CUDA": replace(compiled, file=EXAMPLES / "matmul" / "plain.cu"),
        "CUDA with cuBLAS": replace(compiled, file=MATMUL / "template_cublas.cu", flags=("-lcublas",)),
        "CUDA with CUTLASS": replace(
            compiled, file=MATMUL / "template_cutlass.cu", needs=("nvcc", "cutlass headers"), seconds=40, limit=90
        ),
        "CuPy": replace(template, file=VECTORADD / "template_cupy.py", needs=("cupy",)),
        "JAX": replace(template, file=VECTORADD / "template_jax.py", needs=("jax",), seconds=20),
        "torch.compile": replace(
            template, file=VECTORADD / "template_torch_compile.py", needs=("triton",), seconds=25, limit=60
        ),
        "an own CUDA graph": replace(entry, file=SUBMISSIONS / "vectoradd_graph.py"),
        "a call with .item()": replace(entry, file=SUBMISSIONS / "vectoradd_item.py"),
        "load_inline": replace(
            template,
            file=VECTORADD / "template_load_inline.py",
            needs=("nvcc",),
            seconds=50,
            limit=90,
            limits=COMPILING,
        ),
        "Gluon": replace(template, file=VECTORADD / "template_gluon.py", needs=("triton",)),
        "Helion": replace(template, file=VECTORADD / "template_helion.py", needs=("helion",), seconds=25, limit=60),
        "CuTe DSL": replace(template, file=VECTORADD / "template_cutedsl.py", needs=("cutlass",)),
        "TileLang": replace(template, file=VECTORADD / "template_tilelang.py", needs=("tilelang",)),
        "cuTile": replace(template, file=VECTORADD / "template_cutile.py", needs=("cuda.tile",)),
        "Numba": replace(template, file=VECTORADD / "template_numba.py", needs=("numba",)),
    }
    for name, each in own.items():
        yield replace(each, name=name)


def whole_tasks(tasks: Mapping[str, Task], ranked: Entry) -> Iterator[Entry]:
    """Yield a ranked run of each bundled task for GPUs in each language in which there is a submission."""
    needed: dict[str, tuple[str, ...]] = {"py": (), "triton": ("triton",), "cu": ("nvcc",)}
    for task in tasks.values():
        for language, needs in needed.items():
            file = submission_for(task, language)
            if file is not None:
                named = replace(ranked, stage="tasks", name=task.name, language=language)
                yield replace(named, task=task.name, file=file, needs=needs)


def submission_for(task: Task, language: str) -> Path | None:
    """Return the file to submit: an example, else a template of the task; None where there is none."""
    stem, folder = task.name.removesuffix("_py"), TASKS / task.name
    candidates = {
        "py": [EXAMPLES / task.name / "faster.py", folder / "template.py"],
        "triton": [SUBMISSIONS / f"{stem}_triton.py", folder / "template_triton.py"],
        "cu": [EXAMPLES / task.name / "plain.cu", folder / "template.cu"],
    }[language]
    accepted = Language.CU if language == "cu" else Language.PY
    return next((path for path in candidates if path.exists()), None) if accepted in task.accepted else None
