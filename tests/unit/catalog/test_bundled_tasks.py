"""The templates and examples of the bundled tasks are what they say.

`tests/harness/test_linter.py` gives the checks of these tasks wrong answers.
"""

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TypedDict

import pytest
import yaml

from hpc_board.catalog.folders import read_task
from hpc_board.domain.submission import directives
from hpc_board.harness.build.builder import exported
from hpc_board.harness.build.toolchain import HEADER, command, header_text, toolchain
from hpc_board.model.kernels import LIBRARY
from hpc_board.model.task import Language, Template

REPOSITORY = Path(__file__).parents[3]
TASKS = REPOSITORY / "tasks"
EXAMPLES = REPOSITORY / "examples"
PROBE = Path(__file__).with_name("bundled_task_probe.py")
IN_PYTHON = (
    "identity_py",
    "vectoradd_py",
    "softmax_py",
    "matmul_py",
    "prefixsum_py",
    "histogram_py",
    "sort_py",
    "grayscale_py",
    "conv2d_py",
    "attention_py",
)
IN_NUMPY = ("heat", "spmv")
IN_SEVERAL = ("vectoradd", "matmul", "reduction")
NAMES = (*IN_PYTHON, *IN_NUMPY, *IN_SEVERAL)
KINDS = ("plain", "faster", "wrong")
CUDA_ARCHES = ("sm_80", "sm_90a", "sm_100")
SECRET_SEED = 2**62 + 11

every_task = pytest.mark.parametrize("name", NAMES)
every_task_in_python = pytest.mark.parametrize("name", [*IN_PYTHON, *IN_NUMPY])
every_task_in_numpy = pytest.mark.parametrize("name", IN_NUMPY)
every_task_in_several = pytest.mark.parametrize("name", IN_SEVERAL)


def test_one_task_is_marked_for_newcomers() -> None:
    assert [name for name in NAMES if read_task(TASKS / name).start_here] == ["identity_py"]


class Line(TypedDict):
    """The answer of a task's check."""

    case: dict[str, int]
    submission: str
    passed: bool
    message: str


def document(name: str) -> dict[str, object]:
    content = yaml.safe_load((TASKS / name / "task.yml").read_text())
    assert isinstance(content, dict)
    return content


def staged(name: str, folder: Path) -> None:
    """Put the task's own files into `folder`, under their names on the node."""
    files = document(name)["files"]
    assert isinstance(files, list)
    for file in files:
        if file["source"] != "@SUBMISSION@":
            shutil.copyfile(TASKS / name / file["source"], folder / file["name"])


def cases(name: str) -> list[dict[str, int]]:
    """Every test as it is written and with a secret seed, and every benchmark."""
    content = document(name)
    tests, benchmarks = content["tests"], content["benchmarks"]
    assert isinstance(tests, list)
    assert isinstance(benchmarks, list)
    return [*tests, *({**case, "seed": SECRET_SEED} for case in tests), *benchmarks]


Lines = Callable[[str], Sequence[Line]]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lines]:
    """All that a task's check says to the template and to the examples, by the task's name."""
    # Several threads wait for each other for most of the time where other processes want the same cores.
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    # The kernel zeroes the memory of each large tensor anew, unless malloc keeps it.
    environ |= {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
    command = [sys.executable, "-B", str(PROBE)]
    errors = tmp_path_factory.mktemp("probe") / "errors"
    with (
        errors.open("wb") as error_output,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=error_output, text=True, env=environ
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        requests, statuses = process.stdin, process.stdout

        @cache
        def said(name: str) -> Sequence[Line]:
            folder = tmp_path_factory.mktemp(name)
            staged(name, folder)
            files = list(map(str, submissions(name)))
            fixed = read_task(TASKS / name).prepare
            requests.write(json.dumps([str(folder), cases(name), files, fixed]) + "\n")
            requests.flush()
            assert statuses.readline() == "0\n", errors.read_text()
            found: list[Line] = json.loads((folder / "lines.json").read_text())
            return found

        yield said


def submissions(name: str) -> list[Path]:
    """The template, the examples and the milestones of a task, those in C++ where they can be compiled."""
    ending = "cpp" if name in IN_SEVERAL else "py"
    files = [TASKS / name / "template.py", *(EXAMPLES / name / f"{kind}.{ending}" for kind in KINDS)]
    files += (TASKS / name).glob("milestone.py")
    if name in IN_SEVERAL:
        return [*files, TASKS / name / "template.cpp"] if shutil.which("g++") is not None else files[:1]
    if name in IN_NUMPY and shutil.which("g++") is not None:
        return [*files, EXAMPLES / name / "faster.cpp", *(TASKS / name).glob("*.cpp")]
    return files


def honest_submissions(name: str) -> int:
    """The number of submissions of a task that are right."""
    return len(submissions(name)) - any(path.stem == "wrong" for path in submissions(name))


@every_task
@pytest.mark.torch
def test_the_template_and_the_honest_examples_pass_everything(name: str, lines: Lines) -> None:
    honest = [line for line in lines(name) if not line["submission"].startswith("wrong")]
    assert len(honest) == honest_submissions(name) * len(cases(name))
    assert [line for line in honest if not line["passed"]] == []


@every_task
@pytest.mark.torch
def test_the_wrong_example_fails_by_a_wrong_value(name: str, lines: Lines) -> None:
    if name in IN_SEVERAL and shutil.which("g++") is None:
        pytest.skip("no g++")
    failures = [
        line["message"] for line in lines(name) if line["submission"].startswith("wrong") and not line["passed"]
    ]
    assert failures
    assert all(message.startswith("wrong value at ") for message in failures)


@every_task_in_python
def test_a_submission_says_which_leaderboard_it_is_for(name: str) -> None:
    header = f"#!POPCORN leaderboard {name}\n"
    files = [TASKS / name / "template.py", *sorted((EXAMPLES / name).glob("*.py"))]
    assert [file.stem for file in files] == ["template", "faster", "plain", "wrong"]
    assert [file for file in files if not file.read_text().startswith(header)] == []


@every_task
def test_no_file_names_a_device(name: str) -> None:
    files = [TASKS / "utils.py", *(TASKS / name).glob("*.py"), *(EXAMPLES / name).glob("*.py")]
    assert [file for file in files if re.search(r"""["'](cuda|cpu)\b""", file.read_text())] == []


@every_task_in_numpy
def test_tasks_on_numpy_need_no_pytorch_and_a_cpu(name: str) -> None:
    task = read_task(TASKS / name)
    assert (list(task.templates), task.gpus) == (["Python", "C++"], ("CPU",))
    assert [str(language) for language in task.accepted] == ["py", "cpp"]
    texts = [*(file.text or "" for file in task.files), *task.templates.values()]
    texts += [file.read_text() for file in (EXAMPLES / name).iterdir()]
    assert [text for text in texts if re.search(r"^\s*(import|from) torch", text, re.MULTILINE)] == []
    compiled = [task.templates["C++"], (EXAMPLES / name / "faster.cpp").read_text()]
    assert [text[:80] for text in compiled if directives(text).leaderboard != name] == []


@every_task_in_several
def test_templates_and_examples_of_every_language_say_which_leaderboard_they_are_for(name: str) -> None:
    task = read_task(TASKS / name)
    assert set(task.templates) >= {"Python", "Triton", "C++", "CUDA", "HIP"}
    assert [str(language) for language in task.accepted] == ["py", "cpp", "cu", "hip"]
    examples = {file.name: file.read_text() for file in (EXAMPLES / name).iterdir()}
    assert set(examples) == {"plain.cpp", "faster.cpp", "wrong.cpp", "plain.cu"}
    texts = [*task.templates.values(), *examples.values()]
    assert [text[:80] for text in texts if directives(text).leaderboard != name] == []
    for template, code in task.templates.items():
        if Template(template).language is Language.PY:
            ast.parse(code)


def test_each_language_library_and_dsl_has_a_template_in_a_bundled_task() -> None:
    found = {template for name in IN_SEVERAL for template in read_task(TASKS / name).templates}
    assert found == {str(template) for template in Template}


JUDGE = """
import torch, reference, submission
for case in {cases}:
    data = reference.generate_input(**case)
    passed, message = reference.check_implementation(data, torch.as_tensor(submission.custom_kernel(data)))
    assert passed, message
"""


def in_python(folder: Path, name: str, template: str, code: str, **environ: str) -> None:
    """Run Python code beside a template of a task, under the names that the judge gives the files."""
    task = read_task(TASKS / name)
    for file in task.files:
        (folder / file.name).write_text(file.text or task.templates[template])
    environ = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder), **environ}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environ, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "template", "library", "environ"),
    [
        ("vectoradd", "torch.compile", "torch", {}),
        ("vectoradd", "Triton", "triton", {"TRITON_INTERPRET": "1"}),
        ("matmul", "Triton", "triton", {"TRITON_INTERPRET": "1"}),
        ("vectoradd", "Helion", "helion", {"HELION_INTERPRET": "1"}),
        ("vectoradd", "JAX", "jax", {"JAX_PLATFORMS": "cpu"}),
    ],
)
def test_templates_of_dsls_that_run_on_a_cpu_pass_there(
    tmp_path: Path, name: str, template: str, library: str, environ: dict[str, str]
) -> None:
    require(library)
    cases = [dict(case) for case in read_task(TASKS / name).tests[:3]]
    in_python(tmp_path, name, template, JUDGE.format(cases=cases), **environ)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(
    ("template", "library"),
    [
        ("Gluon", "triton"),
        ("CuteDSL", "cutlass"),
        ("TileLang", "tilelang"),
        ("cuTile", "cuda.tile"),
        ("Numba", "numba_cuda"),
        ("CuPy", "cupy"),
    ],
)
def test_templates_of_dsls_that_need_a_gpu_are_imported_without_one(
    tmp_path: Path, template: str, library: str
) -> None:
    require(library)
    in_python(tmp_path, "vectoradd", template, "import submission")


def require(library: str) -> None:
    """Skip the test without PyTorch or the library; neither is imported into this process."""
    for name in ("torch", library):
        try:
            found = importlib.util.find_spec(name) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            pytest.skip(f"needs the Python package {name}")


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@every_task_in_several
@pytest.mark.slow
def test_templates_and_examples_in_cuda_compile(name: str, tmp_path: Path) -> None:
    first, *others = CUDA_ARCHES
    tools = toolchain(Language.CU, first, os.environ)
    # One command for all, since most of its time goes into the part for the host.
    also = [f"--generate-code=arch={arch.replace('sm', 'compute')},code={arch}" for arch in others]
    (tmp_path / HEADER).write_text(header_text())
    for number, source in enumerate((TASKS / name / "template.cu", EXAMPLES / name / "plain.cu")):
        (tmp_path / f"{number}.cu").write_bytes(source.read_bytes())
        line = [*command(tools, (), f"{number}.cu", library=f"{number}.so"), *also]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr
        told = done.stdout + done.stderr
        assert [arch for arch in CUDA_ARCHES if f"for '{arch}'" not in told] == []
        assert set(re.findall(r"(\d+) bytes spill stores", told)) == {"0"}
        assert "custom_kernel" in exported((tmp_path / f"{number}.so").read_bytes())


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.slow
def test_the_template_for_cublas_is_linked_with_that_of_the_toolkit(tmp_path: Path) -> None:
    tools = toolchain(Language.CU, CUDA_ARCHES[0], os.environ)
    if "-lcublas" not in tools.libraries:
        pytest.skip("the CUDA toolkit has no cuBLAS")
    (tmp_path / HEADER).write_text(header_text())
    (tmp_path / "k.cu").write_bytes((TASKS / "matmul" / "template_cublas.cu").read_bytes())
    done = subprocess.run(command(tools, (), "k.cu"), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    library = (tmp_path / LIBRARY).read_bytes()
    assert "custom_kernel" in exported(library)
    assert b"libcublas.so" in library
    assert b"libcublasLt.so" not in library


def test_the_manual_lists_every_bundled_task() -> None:
    section = (REPOSITORY / "docs" / "tasks.md").read_text().partition("## Tasks that ship")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    assert sorted(name for cell in cells for name in re.findall(r"`(\w+)`", cell)) == sorted(NAMES)


def test_every_bundled_task_is_tested() -> None:
    assert {path.parent.name for path in TASKS.glob("*/task.yml")} == set(NAMES)
