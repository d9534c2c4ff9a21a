"""The catalog: KernelBot's task folders are read unchanged, and a broken one does not hide the others."""

import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hpc_board import bundled
from hpc_board.catalog import contract
from hpc_board.catalog.folders import HINT, read_task
from hpc_board.catalog.known_tasks import TaskCache, task_called, tasks
from hpc_board.domain.catalog import Catalog
from hpc_board.errors import DocumentError, InputError
from hpc_board.model.build_flags import flags_for
from hpc_board.model.task import Language, MeansRule, Ranking, Task, TaskFile, Timeouts
from hpc_board.store.row_values import UndecodableError
from hpc_board.store.task_rows import task_definition, task_value
from tests.conftest import short_folder
from tests.unit.users import NEEDS_ROOT, another_user
from tests.values import replace

MINIMAL = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
description: Add.
"""

REFERENCE = "# reference.py\ngenerate_input = check_implementation = None\n"

KERNELBOT = """\
# name: vectoradd-cuda
files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "task.py", "source": "task.py"}
  - {"name": "utils.py", "source": "../utils.py"}
  - {"name": "reference.py", "source": "reference.py"}
  - {"name": "eval.py", "source": "../eval.py"}

lang: "py"

description: |
  Implement a float16 vector addition kernel.

config:
  main: "eval.py"

templates:
  Python: "template.py"
  CUDA: "template.cu"

test_timeout: 90
benchmark_timeout: 100
ranked_timeout: 420

tests:
  - {"size": 127, "seed": 4242}
  - {"bs": 1, "nomask": True, "distribution": "cauchy", "cond": 0.5, "m": [1, [2, 3]]}

benchmarks:
  - {"size": 1024, "seed": 54352}

ranking_by: "geom"
seed: 7
multi_gpu: false
libraries: ["cublas"]
gpus: [B200, H100]
milestones:
  - {"name": "pytorch", "source": "pytorch.py"}
"""


def folder_with(parent: Path, text: str = MINIMAL, *, name: str = "add_py", files: tuple[str, ...] = ()) -> Path:
    folder = parent / name
    folder.mkdir()
    (folder / "task.yml").write_text(text)
    for file in ("reference.py", *files):
        (folder / file).write_text(REFERENCE if file == "reference.py" else f"# {file}\n")
    return folder


def faults(folder: Path) -> list[str]:
    with pytest.raises(DocumentError) as caught:
        read_task(folder)
    assert caught.value.exit_code == 2
    assert caught.value.hint == HINT
    return [str(fault) for fault in caught.value.faults]


def test_a_reference_of_one_deep_expression_is_not_parsed_for_its_signature(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = "def generate_input(size): ...\n"
    assert contract.signature(plain, "generate_input") is not None
    monkeypatch.setattr(contract, "parsed", lambda _: pytest.fail("it is parsed"))
    assert contract.signature(f"{plain}{'1<' * 300_000}1\n", "generate_input") is None


@pytest.mark.parametrize(
    ("reference", "added", "harness"),
    [
        ("def generate_inputs(): ...\n", "config: {main: judge.py}\n", "task"),
        ("def generate_input(): ...\n", "config: {main: judge.py}\n", "task"),
        ("def generate_input(): ...\ndef check_implementation(): ...\n", "config: {main: judge.py}\n", "isolated"),
        ("from utils import *\n", "config: {main: judge.py}\n", "isolated"),
        ("generate_input, check_implementation = make()\n", "", "isolated"),
        ("for check_implementation in (1,):\n    import x as generate_input\n", "", "isolated"),
        ("def generate_input(:\n", "config: {main: judge.py}\n", "isolated"),
    ],
)
def test_the_functions_of_a_reference_choose_the_harness(
    tmp_path: Path, reference: str, added: str, harness: str
) -> None:
    text = MINIMAL.replace("lang:", "  - {name: judge.py, source: judge.py}\nlang:", 1)
    folder = folder_with(tmp_path, text + added, files=("judge.py",))
    (folder / "reference.py").write_text(reference)
    assert read_task(folder).harness == harness


@pytest.mark.parametrize(
    ("reference", "added", "lacks"),
    [
        ("X = 1\n", "", "generate_input and check_implementation"),
        ("def f():\n    generate_input = 1\n", "", "generate_input and check_implementation"),
        (
            "import check_implementation\n",
            "hpc_board: {harness: isolated}\nconfig: {main: reference.py}\n",
            "generate_input",
        ),
    ],
)
def test_a_reference_without_the_functions_and_without_an_eval_is_a_fault(
    tmp_path: Path, reference: str, added: str, lacks: str
) -> None:
    folder = folder_with(tmp_path, MINIMAL + added)
    (folder / "reference.py").write_text(reference)
    message = f"files: reference.py does not define {lacks}, which the isolated judge calls"
    assert faults(folder) == [f"line 1: {message}"]


@pytest.mark.parametrize("error", [RecursionError, MemoryError])
def test_a_reference_that_python_cannot_parse_has_no_signature(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def fails(_: str) -> None:
        raise error

    monkeypatch.setattr(contract, "parsed", fails)
    assert contract.signature(f"# {error}\ndef generate_input(size): ...\n", "generate_input") is None


def test_a_task_of_kernelbot_is_accepted_unchanged(tmp_path: Path) -> None:
    for shared in ("utils.py", "eval.py"):
        (tmp_path / shared).write_text(f"# {shared}\n")
    folder = folder_with(tmp_path, KERNELBOT, files=("task.py", "template.py", "template.cu"))
    task = read_task(folder)
    assert task.name == "add_py"
    assert task.language is Language.PY
    assert task.description == "Implement a float16 vector addition kernel.\n"
    assert task.files == (
        TaskFile("submission.py", None),
        TaskFile("task.py", "# task.py\n"),
        TaskFile("utils.py", "# utils.py\n"),
        TaskFile("reference.py", REFERENCE),
        TaskFile("eval.py", "# eval.py\n"),
    )
    assert task.tests == (
        {"size": 127, "seed": 4242},
        {"bs": 1, "nomask": True, "distribution": "cauchy", "cond": 0.5, "m": (1, (2, 3))},
    )
    assert task.benchmarks == ({"size": 1024, "seed": 54352},)
    assert task.templates == {"Python": "# template.py\n", "CUDA": "# template.cu\n"}
    assert task.config == {"main": "eval.py"}
    assert task.timeouts == Timeouts(90, 100, 420)
    assert task.ranking_by is Ranking.GEOM
    assert task.seed == 7
    assert task.libraries == ("cublas",)
    assert task.gpus == ("B200", "H100")
    assert task.harness == "isolated"
    assert task.warnings == ("line 37: unknown key milestones is ignored.",)


def test_a_cuda_task_of_kernelbot_is_accepted_unchanged(tmp_path: Path) -> None:
    text = """\
files:
  - {"name": "eval.cu", "source": "eval.cu"}
  - {"name": "submission.cu", "source": "@SUBMISSION@"}
lang: "cu"
description: A simple test task
config:
  sources: ["eval.cu", "submission.cu"]
  include_dirs: []
  defines: {N: 5}
  compile_flags: ["-O3"]
templates: {}
"""
    task = read_task(folder_with(tmp_path, text, files=("eval.cu",)))
    assert task.language is Language.CU
    assert task.harness == "task"
    assert task.submission_name == "submission.cu"
    assert task.config == {
        "sources": ["eval.cu", "submission.cu"],
        "include_dirs": [],
        "defines": {"N": "5"},
        "compile_flags": ["-O3"],
    }
    assert len(task.version) == 64


def test_the_bundled_tasks_have_no_faults_and_no_warnings() -> None:
    catalog = tasks([bundled.folder("tasks")])
    assert catalog.faults == ()
    assert "vectoradd_py" in [task.name for task in catalog.tasks]
    assert all(task.harness == "isolated" and not task.warnings for task in catalog.tasks)


@pytest.mark.parametrize(
    ("deadline", "moment"),
    [
        ("2030-12-31", datetime(2030, 12, 31, tzinfo=UTC)),
        ("'2030-12-31T18:00+01:00'", datetime(2030, 12, 31, 17, tzinfo=UTC)),
        ("2030-12-31 18:00:00", datetime(2030, 12, 31, 18, tzinfo=UTC)),
        ("2030-11-29 6:59", datetime(2030, 11, 29, 6, 59, tzinfo=UTC)),
        ("2030-1-5 6:09:01.5+01:00", datetime(2030, 1, 5, 5, 9, 2, tzinfo=UTC)),
        ("2030-W01-1", datetime(2029, 12, 31, tzinfo=UTC)),
        ("''", None),
    ],
)
def test_a_deadline_becomes_a_moment_in_utc(tmp_path: Path, deadline: str, moment: datetime | None) -> None:
    text = f"{MINIMAL}hpc_board: {{deadline: {deadline}, limits: {{call_seconds: 5}}}}"
    task = read_task(folder_with(tmp_path, text))
    assert task.deadline == moment
    assert task.limits == {"call_seconds": 5.0}


@pytest.mark.parametrize(
    ("added", "fault"),
    [
        ("hpc_board: {harnes: task}", 'hpc_board.harnes: is not a known key. Did you mean "harness"?'),
        ("hpc_board: {harness: judge}", "hpc_board.harness: expected one of isolated, task"),
        (
            "hpc_board: {means: {require: tritn}}",
            'hpc_board.means.require: unknown means "tritn". Did you mean "triton"? Known',
        ),
        (
            "hpc_board: {means: {forbid: [cuda, x]}}",
            'hpc_board.means.forbid[1]: unknown means "x". Known: cudnn, cublas',
        ),
        ("hpc_board: {means: {require: mkl, forbid: [mkl]}}", 'hpc_board.means.forbid[0]: "mkl" is required, too'),
        ("hpc_board: {deadline: tomorrow}", "hpc_board.deadline: expected an ISO date or time"),
        ("hpc_board: {deadline: 0001-01-01T00:00+14:00}", "hpc_board.deadline: expected an ISO date"),
        ("hpc_board: {deadline: '9999-12-31'}", "hpc_board.deadline: expected an ISO date"),
        ("hpc_board: {limits: {call_second: 5}}", "hpc_board.limits.call_second: "),
        ("hpc_board: {limits: {call_seconds: .nan}}", "hpc_board.limits.call_seconds: "),
        ("ranking_by: best", "ranking_by: expected one of last, mean, geom"),
        ("test_timeout: 0", "test_timeout: expected a whole number of seconds from 1 to 86400"),
        ("ranked_timeout: 86401", "ranked_timeout: expected a whole number of seconds"),
        ("templates: {Pyton: a.py}", "templates.Pyton: expected one of Python, torch.compile"),
        ("templates: {Python: missing.py}", "templates.Python: "),
        ("gpus: [-x]", "gpus[0]: expected a name"),
        ("name: 'a b'", "name: expected a name"),
        ("config: {since: 2025-01-01, deep: {a: {b: c}}}", "config.deep.a: expected text, found a mapping"),
        ("tests: [{size: null}]", "tests[0].size: expected a number, true or false, text, or a list of these"),
        ("tests: [{size: {a: 1}}]", "tests[0].size: expected a number"),
        ("tests: [{size: [[[[[1]]]]]}]", "tests[0].size: expected a number"),
        ("tests: [{size: .inf}]", "tests[0].size: expected a finite number"),
        ("tests: [{size: 0xFFFFFFFFFFFFFFFF}]", "tests[0].size: expected a whole number of at most 64 bits"),
        ('tests: [{size: "a\\nb"}]', "tests[0].size: expected text on one line"),
        (f"tests: [{{size: {'a' * 1001}}}]", "tests[0].size: expected at most 1,000 bytes"),
        (f"tests: [{{size: [{'1000, ' * 200}1]}}]", "tests[0].size: expected at most 1,000 bytes"),
        (f"tests: [{{{', '.join(f'a{n}: 1' for n in range(33))}}}]", "tests[0]: has 33 arguments (limit 32)"),
        ("benchmarks: [{a-b: 1}]", "benchmarks[0].a-b: expected the name of an argument of generate_input"),
        ("hpc_board: {hidden_tests: [{size: .inf}]}", "hpc_board.hidden_tests[0].size: expected a finite number"),
        ("multi_gpu: true\ntests: [{size: 1}]", "tests[0]: has no world_size, which a multi_gpu task needs"),
    ],
)
def test_a_value_that_a_task_cannot_have_is_named(tmp_path: Path, added: str, fault: str) -> None:
    (found,) = faults(folder_with(tmp_path, f"{MINIMAL}{added}\n"))
    assert found.split(": ", 1)[1].startswith(fault)
    assert found.startswith(f"line {5 + len(added.splitlines())}: ")


def test_every_fault_of_a_task_is_reported_at_once(tmp_path: Path) -> None:
    text = MINIMAL.replace("lang: py", "lang: pyy") + "seed: x\n"
    assert faults(folder_with(tmp_path, text)) == [
        'line 4: lang: expected one of py, cu, found "pyy". Did you mean "py"?',
        'line 6: seed: expected a whole number, found "x".',
    ]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("missing.py", "missing.py: no such file"),
        ("../../outside.py", '"../../outside.py" is outside'),
        ("/etc/passwd", '"/etc/passwd" is outside'),
        ("../..", '"../.." is outside'),
        ("link.py", '"link.py" is outside'),
        ("link/outside.py", '"link/outside.py" is outside'),
        ("pipe", "pipe is not a regular file"),
        (".", "is a folder, not a file"),
        ("loop", "loop"),
        ("large.py", "is too large (limit 1,000,000 bytes)"),
        ("binary.py", "is it a binary file?"),
        ("latin.py", "is it UTF-8?"),
        ('"a\\0b"', "contains a control character"),
    ],
)
def test_a_source_that_may_not_or_cannot_be_read_is_a_fault(tmp_path: Path, source: str, fault: str) -> None:
    (tmp_path / "outside.py").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    text = f"{MINIMAL}templates: {{Python: {source}}}\n"
    folder = folder_with(root, text)
    (folder / "link.py").symlink_to(tmp_path / "outside.py")
    (folder / "link").symlink_to(tmp_path)
    (folder / "loop").symlink_to("loop")
    (folder / "large.py").write_text("#" * 1_000_001)
    (folder / "binary.py").write_bytes(b"\0")
    (folder / "latin.py").write_bytes(b"\xff")
    os.mkfifo(folder / "pipe")
    (found,) = faults(folder)
    assert found.startswith("line 6: templates.Python: ")
    assert fault in found


def test_a_linked_task_folder_does_not_open_the_folders_around_its_target(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "root").mkdir()
    (tmp_path / "root/add_py").symlink_to(folder_with(tmp_path / "elsewhere"))
    catalog = tasks([tmp_path / "root"])
    assert catalog.tasks == ()
    assert "is outside" in str(catalog.faults[0])


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        (["../a.py"], 'expected a relative path without "..", found "../a.py"'),
        (["/a.py"], "expected a relative path"),
        (["."], "expected a relative path"),
        (["a\\\\b.py"], "expected a relative path"),
        (["x" * 256], "expected a relative path"),
        (["a.py", "./a.py"], 'duplicate file name "./a.py"'),
        (["a", "a/b.py"], 'duplicate file name "a/b.py"'),
        (["a/b.py", "a"], 'duplicate file name "a"'),
    ],
)
def test_a_file_name_that_leaves_its_folder_or_is_taken_is_refused(
    tmp_path: Path, names: list[str], fault: str
) -> None:
    entries = "".join(f'  - {{name: "{name}", source: reference.py}}\n' for name in names)
    (found,) = faults(folder_with(tmp_path, MINIMAL.replace("lang:", f"{entries}lang:")))
    assert found.startswith(f"line {3 + len(names)}: files[{1 + len(names)}].name: {fault}")


@pytest.mark.parametrize("count", [0, 2])
def test_a_task_has_exactly_one_submission(tmp_path: Path, count: int) -> None:
    entries = "".join(f'  - {{name: s{index}.py, source: "@SUBMISSION@"}}\n' for index in range(count))
    text = f"files:\n{entries}  - {{name: reference.py, source: reference.py}}\nlang: py\ndescription: x\n"
    assert faults(folder_with(tmp_path, text)) == [
        f"line 1: files: expected one file with the source @SUBMISSION@, found {count}"
    ]


def test_the_files_of_a_task_have_a_common_limit(tmp_path: Path) -> None:
    entries = "".join(f"  - {{name: f{index}.py, source: large.py}}\n" for index in range(9))
    folder = folder_with(tmp_path, MINIMAL.replace("lang:", f"{entries}lang:"))
    (folder / "large.py").write_text("#" * 1_000_000)
    assert faults(folder) == ["line 11: files[9].source: the files of the task exceed the limit of 8,000,000 bytes"]


def test_a_rule_on_means_is_a_name_or_several_and_makes_another_version(tmp_path: Path) -> None:
    text = f"{MINIMAL}hpc_board: {{means: {{require: triton, forbid: [cublas, cudnn]}}}}\n"
    task = read_task(folder_with(tmp_path, text))
    plain = read_task(folder_with(tmp_path, MINIMAL, name="plain"))

    assert task.means == MeansRule(("triton",), ("cublas", "cudnn"))
    assert replace(task, name=plain.name, means=MeansRule()).version == plain.version != task.version
    stored = {"name": task.name, "version": task.version, "definition": task_definition(task)}
    assert task_value(stored) == task
    with pytest.raises(UndecodableError, match='the means "x" is unknown'):
        task_value({**stored, "definition": task_definition(task).replace('"cudnn"', '"x"')})


HIDING = "hpc_board: {hidden_tests: [{size: 1}], means: {forbid: mkl}}\n"


def test_the_judge_needs_a_reference_in_python(tmp_path: Path) -> None:
    text = MINIMAL.replace("name: reference.py", "name: other.py")
    assert read_task(folder_with(tmp_path, text + "config: {main: other.py}\n")).harness == "task"
    hidden = faults(folder_with(tmp_path, f"{text}config: {{main: other.py}}\n{HIDING}", name="hidden"))
    assert hidden == [
        f"line 7: hpc_board.{key}: needs the isolated judge, not an eval of the task's own"
        for key in ("hidden_tests", "means")
    ]
    text += "hpc_board: {harness: isolated}\n"
    assert faults(folder_with(tmp_path, text, name="other")) == [
        "line 6: hpc_board.harness: isolated needs a file named reference.py"
    ]


def test_a_folder_whose_name_is_no_task_name_needs_the_key_name(tmp_path: Path) -> None:
    (found,) = faults(folder_with(tmp_path, name="my task"))
    assert found.startswith('name: is missing, and the folder\'s name "my task" is not a name of letters')
    assert read_task(folder_with(tmp_path, MINIMAL + "name: mine\n", name="a task")).name == "mine"


def test_tasks_come_from_task_folders_and_from_folders_of_them(tmp_path: Path) -> None:
    many, single = tmp_path / "many", tmp_path / "single"
    for parent in (many, single):
        parent.mkdir()
    folder_with(many, name="b")
    folder_with(many, name="a")
    (many / "utils.py").touch()
    (many / "empty").mkdir()
    catalog = tasks([many, folder_with(single, name="c"), many / "a"])
    assert [task.name for task in catalog.tasks] == ["a", "b", "c"]
    assert catalog.faults == ()


def test_a_broken_task_does_not_hide_the_others(tmp_path: Path) -> None:
    folder_with(tmp_path, name="good")
    folder_with(tmp_path, MINIMAL + "seed: x\n", name="broken")
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary/task.yml").write_bytes(b"\0")
    catalog = tasks([tmp_path, tmp_path / "missing"])
    assert [task.name for task in catalog.tasks] == ["good"]
    assert [Path(error.file).parent.name for error in catalog.faults] == ["binary", "broken", tmp_path.name]
    with pytest.raises(DocumentError, match="line 6: seed"):
        catalog.task("broken")
    with pytest.raises(DocumentError, match="is it a binary file"):
        catalog.task("binary")


@pytest.mark.root
@NEEDS_ROOT
def test_a_folder_that_one_may_not_enter_does_not_hide_the_others() -> None:
    with short_folder() as folder:
        folder_with(folder, name="good")
        folder_with(folder, name="closed").chmod(0o700)
        with another_user():
            catalog = tasks([folder])
        assert [task.name for task in catalog.tasks] == ["good"]
        with pytest.raises(DocumentError, match=r"closed/task\.yml:\n.*cannot be read: Permission denied"):
            catalog.task("closed")


def test_of_two_tasks_with_one_name_the_first_counts(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for parent in (first, second):
        parent.mkdir()
        folder_with(parent, f"{MINIMAL}seed: {len(parent.name)}\n")
    catalog = tasks([first, second])
    assert [task.seed for task in catalog.tasks] == [5]
    (error,) = catalog.faults
    assert f'the name "add_py" is already used by {first}/add_py' in error.message
    assert error.file == f"{second}/add_py/task.yml"


def test_an_unknown_task_is_answered_with_the_nearest_name(tmp_path: Path) -> None:
    folder_with(tmp_path, name="vectoradd_py")
    folder_with(tmp_path, name="sort_py")
    with pytest.raises(InputError) as caught:
        tasks([tmp_path]).task("vectorad")
    assert caught.value.message == 'unknown task "vectorad". Did you mean "vectoradd_py"?'
    assert caught.value.hint == "`hpc-board list` lists the tasks."
    with pytest.raises(InputError) as caught:
        Catalog(()).task("x\x1b[31m\n")
    assert caught.value.message == 'unknown task "x".'
    assert caught.value.hint == "Tasks: none."


def test_a_task_may_take_several_languages_and_choose_flags(tmp_path: Path) -> None:
    own = 'hpc_board: {languages: [py, cpp, cu], flags: ["-std=c++20", "-D N=4", "-lcublas", "-maxrregcount=64"]}\n'
    task = read_task(folder_with(tmp_path, MINIMAL + own))
    assert task.language is Language.PY
    assert task.accepted == (Language.PY, Language.CPP, Language.CU)
    assert task.flags == ("-std=c++20", "-D N=4", "-lcublas", "-maxrregcount=64")
    assert flags_for(Language.CPP, task.flags) == ("-std=c++20", "-DN=4")
    assert flags_for(Language.CU, task.flags) == ("-std=c++20", "-DN=4", "-lcublas", "-maxrregcount=64")


def test_languages_do_not_begin_new_standings_and_flags_do(tmp_path: Path) -> None:
    plain = read_task(folder_with(tmp_path, name="a"))
    several = read_task(folder_with(tmp_path, MINIMAL + "hpc_board: {languages: [py, cpp]}\n", name="b"))
    flags = read_task(folder_with(tmp_path, MINIMAL + "hpc_board: {flags: [-ffast-math]}\n", name="c"))
    assert plain.version == several.version
    assert plain.version != flags.version
    assert task_value({"name": several.name, "definition": task_definition(several)}).accepted == several.accepted
    assert task_value({"name": flags.name, "definition": task_definition(flags)}).flags == ("-ffast-math",)


def test_hidden_cases_begin_new_standings_and_a_stored_task_has_them(tmp_path: Path) -> None:
    own = "hpc_board: {hidden_tests: [{size: 5, seed: 9}], hidden_benchmarks: [{size: [1, 2]}]}\n"
    plain, hiding = (
        read_task(folder_with(tmp_path, name="a")),
        read_task(folder_with(tmp_path, MINIMAL + own, name="b")),
    )
    assert (hiding.hidden_tests, hiding.hidden_benchmarks) == (({"size": 5, "seed": 9},), ({"size": (1, 2)},))
    assert plain.version != hiding.version
    assert task_value({"name": "b", "definition": task_definition(hiding)}) == hiding
    former = {key: value for key, value in json.loads(task_definition(plain)).items() if "hidden" not in key}
    assert task_value({"name": "a", "definition": json.dumps(former)}) == plain
    assert hiding.case_texts("test", ranked=True) == ["hidden case 1"]
    assert hiding.case_texts("test", ranked=False) == []


@pytest.mark.parametrize(
    "flag",
    [
        "-Wl,-rpath,/tmp",
        "-lcublas -fplugin=x.so",
        "-I/home/ada",
        "-D X=$(id)",
        "-maxrregcount=9",
        "@file",
        "-std=gnu++17",
    ],
)
def test_a_flag_that_a_task_may_not_choose_is_a_fault_with_its_place(tmp_path: Path, flag: str) -> None:
    text = MINIMAL + f'hpc_board:\n  flags:\n    - "-ffast-math"\n    - "{flag}"\n'
    (fault,) = faults(folder_with(tmp_path, text))
    line = len(text.splitlines())
    assert fault.startswith(f'line {line}: hpc_board.flags[1]: "{flag}" is not an allowed flag.')
    assert "--use_fast_math, -ffast-math, -lcublas" in fault


def test_a_language_that_is_none_or_given_twice_is_a_fault(tmp_path: Path) -> None:
    found = faults(folder_with(tmp_path, MINIMAL + "hpc_board: {languages: [cpp, cpp]}\n", name="a"))
    assert [fault.partition(": ")[2] for fault in found] == ["hpc_board.languages[1]: cpp is given twice"]
    found = faults(folder_with(tmp_path, MINIMAL + "hpc_board: {languages: [rust]}\n", name="b"))
    assert "hpc_board.languages[0]: expected one of py, cpp, cu, hip" in found[0]


OWN = MINIMAL + "hpc_board: {harness: task}\n"


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ("config: {main: evil.py}", 'config.main: "evil.py" is not in `files`.'),
        ("config: {main: submission.py}", "config.main: is the submission, which cannot judge itself"),
        ("config: {main: reference.py, sources: [a.cu]}", "config.sources: is not known."),
        ("config: {main: reference.py}\nlibraries: ['cublas; rm']", "libraries: invalid library name 'cublas; rm'"),
    ],
)
def test_a_program_in_python_that_cannot_be_started_is_a_fault(tmp_path: Path, config: str, fault: str) -> None:
    (found,) = faults(folder_with(tmp_path, f"{OWN}{config}\n"))
    assert found.split(": ", 1)[1].startswith(fault)


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ("{}", "config.sources: is missing: list the files to compile"),
        ("{sources: [submission.py]}", "config.sources: contains the submission only; add the program that judges it"),
        ("{sources: [nothing.cu]}", 'config.sources: "nothing.cu" is not in `files`.'),
        ("{sources: reference.py}", "config.sources: expected a list of at most 100, each the name of a file"),
        ("{sources: [reference.py], main: eval.py}", "config.main: is not known."),
        ("{sources: [reference.py], source: [a]}", 'config.source: is not known. Did you mean "sources"?'),
        ("{sources: [reference.py], compile_flags: ['/O2']}", "config.compile_flags: expected an option that begins"),
        (
            "{sources: [reference.py], include_dirs: ['../..']}",
            "config.include_dirs: '../..' is outside the task's folder",
        ),
        ("{sources: [reference.py], defines: {'A B': '1'}}", "config.defines: invalid macro 'A B'"),
        ("{sources: [reference.py], defines: [A]}", "config.defines: expected at most 100 names with values"),
    ],
)
def test_a_program_that_cannot_be_compiled_is_a_fault(tmp_path: Path, config: str, fault: str) -> None:
    (found,) = faults(folder_with(tmp_path, f"{OWN.replace('lang: py', 'lang: cu')}config: {config}\n"))
    assert found.split(": ", 1)[1].startswith(fault)


def test_what_affects_an_eval_of_its_own_makes_another_version(tmp_path: Path) -> None:
    task = read_task(folder_with(tmp_path, f"{OWN}config: {{main: reference.py}}\n"))
    for changes in ({"seed": 3}, {"libraries": ("cublas",)}, {"multi_gpu": True}):
        assert replace(task, **changes).version != task.version
        judged = replace(task, harness="isolated")
        assert replace(judged, **changes).version == judged.version


@pytest.mark.parametrize(
    ("added", "harness"),
    [
        ("", "isolated"),
        ("multi_gpu: true\n", "isolated"),
        ("multi_gpu: true\nconfig: {main: reference.py}\n", "task"),
        ("multi_gpu: true\nconfig: {main: reference.py}\nhpc_board: {harness: isolated}\n", "isolated"),
        ("config: {main: reference.py}\n", "isolated"),
    ],
)
def test_a_task_for_several_gpus_is_judged_by_the_eval_that_it_brings(tmp_path: Path, added: str, harness: str) -> None:
    assert read_task(folder_with(tmp_path, MINIMAL + added)).harness == harness


SHARED = MINIMAL.replace("lang: py", "  - {name: utils.py, source: ../utils.py}\nlang: py") + "seed: 1\n"


def in_place(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def by_rename(file: Path, old: str, new: str) -> None:
    other = file.with_name("other")
    other.write_text(file.read_text().replace(old, new))
    other.replace(file)


def link_out(file: Path) -> None:
    file.unlink()
    file.symlink_to("/etc/passwd")


def test_a_task_whose_files_are_as_they_were_is_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "utils.py").write_text("1")
    folder_with(tmp_path, SHARED, name="a")
    folder_with(tmp_path, name="b")
    known = TaskCache()
    first, second = tasks([tmp_path], known), tasks([tmp_path], known)
    assert first == second
    assert all(one is other for one, other in zip(first.tasks, second.tasks, strict=True))
    in_place(tmp_path / "a/task.yml", "seed: 1", "seed: 2")
    third = tasks([tmp_path], known)
    assert (third.task("a").seed, third.task("b") is first.task("b")) == (2, True)


def test_a_task_that_two_threads_ask_for_at_once_is_parsed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_with(tmp_path)
    known, waiting, parsed = TaskCache(), threading.Barrier(2), []

    def parse(folder: Path, root: Path | None, texts: dict[Path, str]) -> Task:
        parsed.append(folder)
        time.sleep(0.1)
        return read_task(folder, root, texts)

    monkeypatch.setattr("hpc_board.catalog.folders.task_or_fault", parse)

    def asked() -> Task | DocumentError:
        waiting.wait(10)
        return known.task_or_fault(folder)

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.submit(asked), threads.submit(asked)
    assert first.result() is second.result()
    assert len(parsed) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: in_place(folder / "task.yml", "seed: 1", "seed: 2"),
        lambda folder: in_place(folder / "reference.py", "reference", "different"),
        lambda folder: in_place(folder / "../utils.py", "1", "2"),
        lambda folder: by_rename(folder / "task.yml", "seed: 1", "seed: 2"),
        lambda folder: by_rename(folder / "linked.py", "1", "2"),
        lambda folder: (folder / "reference.py").unlink(),
        lambda folder: link_out(folder.parent / "utils.py"),
    ],
)
def test_whatever_changes_in_a_task_s_files_is_seen(tmp_path: Path, change: Callable[[Path], object]) -> None:
    (tmp_path / "utils.py").write_text("1")
    folder = folder_with(tmp_path, SHARED.replace("lang: py", "  - {name: l.py, source: linked.py}\nlang: py"))
    (folder / "target.py").write_text("1")
    (folder / "linked.py").symlink_to("target.py")
    known = TaskCache()
    before = tasks([tmp_path], known)
    assert before.faults == ()
    change(folder)
    after = str(tasks([tmp_path], known))
    assert after == str(tasks([tmp_path]))
    assert after != str(before)


def test_a_task_that_is_called_like_its_folder_follows_the_link_that_the_folder_is(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    folder = folder_with(tmp_path / "real", name="one")
    link = tmp_path / "link"
    link.symlink_to(folder)
    known = TaskCache()
    assert [task.name for task in tasks([link], known).tasks] == ["one"]
    link.unlink()
    link.symlink_to(folder.rename(folder.with_name("two")))
    folder.symlink_to("two")
    assert [task.name for task in tasks([link], known).tasks] == ["two"]


def no_descriptors(path: Path, *_: object) -> str:
    raise InputError(f"{path} cannot be read: too many open files.")


def test_a_folder_with_faults_is_read_until_it_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_with(tmp_path)
    known = TaskCache()
    (folder / "reference.py").rename(folder / "away.py")
    assert [len(tasks([tmp_path], known).faults) for _ in range(2)] == [1, 1]
    (folder / "away.py").rename(folder / "reference.py")
    with monkeypatch.context() as patched:
        patched.setattr("hpc_board.catalog.folders.read_text", no_descriptors)
        assert "too many open files" in tasks([tmp_path], known).faults[0].message
    assert [task.name for task in tasks([tmp_path], known).tasks] == ["add_py"]


def test_a_folder_that_is_gone_is_forgotten_and_one_task_is_read_alone(tmp_path: Path) -> None:
    first = folder_with(tmp_path, name="a")
    folder_with(tmp_path, name="b")
    known = TaskCache()
    b = task_called("b", [tmp_path], known)
    assert tasks([tmp_path], known).task("b") is b
    shutil.rmtree(first)
    assert [task is b for task in tasks([tmp_path], known).tasks] == [True]
    assert [folder for folder, _ in known._remembered] == [tmp_path / "b"]
