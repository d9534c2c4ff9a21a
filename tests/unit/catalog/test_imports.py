"""Tasks from the formats of other benchmarks: each problem becomes a folder like any other, and nothing is executed."""

import ast
import json
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hpc_board.catalog.imports import flashinfer
from hpc_board.catalog.imports.constants import Constants
from hpc_board.catalog.imports.licences import licence_of
from hpc_board.catalog.sources import packed, read, read_imports, tasks_without_faults
from hpc_board.cli.main import cli
from hpc_board.domain.imported import Basis, Imported
from hpc_board.domain.user_board import PackedSource
from hpc_board.errors import DocumentError, InputError
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode, Task
from tests.harness.evaluations import evaluate

PAIR = '''\
"""Scale the rows of a matrix to a sum."""
import torch

cases = [{"rows": 5, "columns": 130}, {"rows": 3, "columns": 67}]


def inputs(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(rows, columns, generator=generator) + 0.1, 2.0


def reference(x, total):
    return total * x / x.sum(dim=1, keepdim=True)
'''
PAIR_RIGHT = "def reference(x, total):\n    return total * x / x.cumsum(dim=1)[:, -1:]\n"
PAIR_WRONG = PAIR_RIGHT.replace("total * x", "total * x.half().float()")

PROBLEM = '''\
import torch
import torch.nn as nn


class Model(nn.Module):
    """Apply a layer, add a bias and count the calls."""

    def __init__(self, width, shape):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.bias = nn.Parameter(torch.randn(shape))
        self.register_buffer("scale", torch.rand(1))
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x):
        return self.norm(torch.relu(self.layer(x)) * self.scale + self.bias)


batch = 2 * 8
width = height = 48
shape = (width,)


def get_inputs():
    return [torch.rand(batch, width)]


def get_init_inputs():
    return [width, shape]
'''
NEW_RIGHT = """\
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width, shape):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros(shape))
        self.register_buffer("scale", torch.zeros(1))
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x):
        rows = [self.layer.bias + (x * row).sum(dim=1, keepdim=True)[:, 0, None] for row in self.layer.weight[:0]]
        assert not rows and not self.training and not torch.is_grad_enabled()
        y = (x[:, None, :] * self.layer.weight).sum(dim=2) + self.layer.bias
        return self.norm(y.clamp(min=0) * self.scale + self.bias)
"""
NEW_WRONG = NEW_RIGHT.replace("x[:, None, :]", "x.half().float()[:, None, :]")

DEFINITION: dict[str, Any] = {
    "name": "scaled_rows_k40",
    "op_type": "norm",
    "description": "Scale each row, and return the largest element of each.",
    "axes": {
        "M": {"type": "var"},
        "K": {"type": "const", "value": 40},
        "MK": {"type": "expr", "expression": "M * K"},
    },
    "inputs": {
        "x": {"shape": ["M", "K"], "dtype": "float16"},
        "weight": {"shape": ["K"], "dtype": "float32"},
        "factor": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["MK"], "dtype": "float16"}, "largest": {"shape": ["M"], "dtype": "float32"}},
    "reference": (
        "import torch\n\ndef run(x, weight, factor):\n    y = x.float() * weight * factor\n"
        "    return y.reshape(-1).half(), y.amax(dim=1)\n"
    ),
}
RETURNS = DEFINITION["reference"].replace("y = x.float() * weight * factor", "y = (factor * weight) * x.float()")
WRITES = """\
def run(x, weight, factor, y, largest):
    y.copy_((x.float() * weight * factor).reshape(-1))
    largest.copy_((x.float() * weight * factor).amax(dim=1))
"""
STORED = {"type": "safetensors", "path": "blob/weight.safetensors", "tensor_key": "w"}


def workload(rows: int, **inputs: Any) -> dict[str, Any]:
    named = {"x": {"type": "random"}, "weight": STORED, "factor": {"type": "scalar", "value": 1.5}} | inputs
    return {"uuid": f"w{rows}", "axes": {"M": rows}, "inputs": named}


def write_tensor(path: Path, values: list[float]) -> None:
    entry = {"dtype": "F32", "shape": [len(values)], "data_offsets": [0, 4 * len(values)]}
    head = json.dumps({"__metadata__": {}, "w": entry}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(head).to_bytes(8, "little") + head + struct.pack(f"<{len(values)}f", *values))


def trace_set(folder: Path, *workloads: Mapping[str, Any], **changes: Any) -> Path:
    definition = DEFINITION | changes
    for name in ("definitions/norm", "workloads/norm"):
        (folder / name).mkdir(parents=True)
    (folder / "definitions/norm/rows.json").write_text(json.dumps(definition))
    lines = [json.dumps({"definition": definition["name"], "workload": each, "solution": None}) for each in workloads]
    (folder / f"workloads/norm/{definition['name']}.jsonl").write_text("\n".join(lines))
    write_tensor(folder / "blob/weight.safetensors", [1 + 0.1 * number for number in range(40)])
    return folder


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def source_of(format_name: str, folder: Path) -> Path:
    match format_name:
        case "pair":
            return written(folder / "rows.py", PAIR)
        case "kernelbench":
            return written(folder / "7_layer.py", PROBLEM)
    return trace_set(folder / "set", workload(5), workload(4))


def task_of(source: Path, format_name: str | None = None) -> Task:
    (task,) = tasks_without_faults(source, format_name)
    return task


def imported(source: Path) -> Imported:
    (found,) = read_imports(source)
    assert isinstance(found, Imported)
    return found


def fault(source: Path, format_name: str | None = None) -> str:
    with pytest.raises(DocumentError) as caught:
        tasks_without_faults(source, format_name)
    assert caught.value.hint
    assert caught.value.message.isprintable() or "\n" in caught.value.message
    assert "\x1b" not in caught.value.message
    return "; ".join(map(str, caught.value.faults))


@pytest.mark.slow
def test_a_model_is_made_once_before_its_timed_calls(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    told = NEW_RIGHT.replace("        super().__init__()\n", "        super().__init__()\n        print('made')\n")
    told = told.replace("    def forward(self, x):\n", "    def forward(self, x):\n        print('called')\n")
    done = evaluate(tmp_path, told, task_of(source_of("kernelbench", tmp_path)), Mode.BENCHMARK).result
    assert done.verdict is Verdict.PASS, done.message
    assert done.stdout.text.count("called") > 3 * done.stdout.text.count("made")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format_name", "right", "wrong"),
    [
        ("pair", [PAIR_RIGHT], PAIR_WRONG),
        ("kernelbench", [NEW_RIGHT], NEW_WRONG),
        ("flashinfer", [RETURNS, WRITES], WRITES.replace("* weight * factor)", "* weight * 1.7)")),
    ],
)
def test_the_solutions_of_a_format_are_judged_as_they_are(
    tmp_path: Path, format_name: str, right: list[str], wrong: str
) -> None:
    pytest.importorskip("torch")
    task = task_of(source_of(format_name, tmp_path))
    for number, text in enumerate(right):
        judged = evaluate(tmp_path / f"right{number}", text, task, Mode.TEST).result
        assert judged.verdict is Verdict.PASS, judged.message
    judged = evaluate(tmp_path / "wrong", wrong, task, Mode.TEST).result
    assert judged.verdict is Verdict.WRONG_VALUE, judged.message


TOLERANCES = """
import numpy, torch
from reference import check_implementation, generate_input
(x,) = generate_input(rows=4, columns=65536, seed=1)
one_by_one = numpy.cumsum(x.numpy(), axis=-1, dtype=numpy.float32)
squares = numpy.cumsum(numpy.square(x.numpy().ravel()), dtype=numpy.float32)
honest = {"norm": x / float(numpy.sqrt(squares[-1])), "cumsum": torch.from_numpy(one_by_one)}
rounded = x.half().float()
coarse = {"norm": rounded / rounded.norm(), "cumsum": rounded.cumsum(-1)}
print([check_implementation((x,), each["NAME"])[0] for each in (honest, coarse)])
"""


@pytest.mark.torch
@pytest.mark.parametrize(("name", "body"), [("norm", "x / torch.norm(x)"), ("cumsum", "torch.cumsum(x, dim=-1)")])
def test_sums_one_by_one_pass_and_float16_does_not_where_the_reference_itself_is_coarse_or_its_terms_differ(
    tmp_path: Path, name: str, body: str
) -> None:
    text = "import torch\ncases = [{'rows': 4, 'columns': 65536}]\ndef inputs(rows, columns, seed):\n"
    text += "    return torch.rand(rows, columns, generator=torch.Generator().manual_seed(seed))\n"
    files = imported(written(tmp_path / "rows.py", f"{text}def reference(x):\n    return {body}\n")).files
    for file, content in files.items():
        written(tmp_path / file, content)
    code = TOLERANCES.replace("NAME", name)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "[True, False]\n", done.stdout + done.stderr


@pytest.mark.parametrize("format_name", ["pair", "kernelbench"])
def test_a_description_begins_with_the_problem_and_states_check_and_score(tmp_path: Path, format_name: str) -> None:
    lines = task_of(source_of(format_name, tmp_path)).description.splitlines()
    assert lines[0] in ("Scale the rows of a matrix to a sum.", "Apply a layer, add a bias and count the calls.")
    assert [line.partition(":")[0] for line in lines[-2:]] == ["Checked", "Ranked by"]
    assert max(map(len, lines)) <= 100
    bare = written(tmp_path / "bare_rows.py", PAIR.partition("\n")[2])
    assert task_of(bare).description.startswith("bare rows\n\nWrite `reference(...)`")


def test_a_task_has_its_source_verbatim_and_its_sizes_as_cases(tmp_path: Path) -> None:
    task = task_of(source_of("kernelbench", tmp_path))
    assert (task.name, task.text("reference_source.py")) == ("7_layer", PROBLEM)
    sizes = {"batch": 16, "width": 48, "height": 48, "shape": (48,)}
    assert task.tests == ({**sizes, "seed": 4242}, {**sizes, "seed": 5236})
    assert task_of(source_of("pair", tmp_path)).benchmarks[1] == {"rows": 3, "columns": 67, "seed": 31232}
    task = task_of(source_of("flashinfer", tmp_path))
    assert task.tests[0] == {"M": 5, "weight": "reference_tensor_0.txt", "factor": 1.5, "seed": 4242}
    assert "`y`: float16 [MK]" in task.description
    small = trace_set(tmp_path / "small", workload(5, factor={"type": "scalar", "value": 1e-6}))
    assert task_of(small).tests[0]["factor"] == 1e-6


def test_solutions_of_a_trace_set_in_python_become_files_to_submit(tmp_path: Path) -> None:
    source = trace_set(tmp_path / "set", workload(5))
    (source / "solutions/ada").mkdir(parents=True)

    def solution(name: str, language: str, *files: str, **changes: Any) -> None:
        text = RETURNS.replace("def run", "def scaled")
        content = {
            "name": name,
            "definition": DEFINITION["name"],
            "author": "ada",
            "spec": {"language": language, "entry_point": f"{files[0]}::scaled", "destination_passing_style": False},
            "sources": [{"path": file, "content": text} for file in files],
        }
        (source / f"solutions/ada/{name}.json").write_text(json.dumps(content | changes))

    solution("plain", "python", "main.py")
    solution("tiles", "triton", "main.py", "tiles.py")
    solution("bound", "cuda", "kernel.cu")
    solution("other", "python", "main.py", definition=f"{DEFINITION['name']}_more")
    solution("broken", "python", "main.py", spec=DEFINITION["name"])

    task = imported(source)

    assert [name for name in task.files if name.startswith("solution")] == ["solution_plain.py"]
    text = task.files["solution_plain.py"]
    assert text.startswith("#!POPCORN leaderboard scaled_rows_k40\n")
    assert text.endswith("\n\n\ndestination_passing_style = False\nrun = scaled\n")
    told = {part.name: (part.basis, part.became) for part in task.parts if part.name.startswith("solution ")}
    assert told == {
        "solution bound": (Basis.MISSING, "is in cuda, whose binding to Python is not built here"),
        "solution plain": (Basis.TAKEN, "solution_plain.py, to submit (python)"),
        "solution tiles": (Basis.MISSING, "has 2 files: a submission is one"),
    }


def test_a_solution_without_a_file_of_its_own_and_unread_ones_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flashinfer, "_FOLDERS_MAX", 3)
    source = trace_set(tmp_path / "set", workload(5))
    (source / "solutions").mkdir()
    spec = {"language": "python", "entry_point": "main.py::run", "destination_passing_style": False}
    sources = [{"path": "main.py", "content": RETURNS}]
    for file, name in (("1", "a/b"), ("2", "a_b"), ("4", "never read")):
        content = {"name": name, "definition": DEFINITION["name"], "author": "", "spec": spec, "sources": sources}
        (source / f"solutions/{file}.json").write_text(json.dumps(content))
    (source / "solutions/3.json").write_text(f'{{"definition": "{DEFINITION["name"]}"')

    found = [(part.name, part.basis, part.became) for part in imported(source).parts][-4:]

    assert found == [
        ("solution a/b", Basis.TAKEN, "solution_a_b.py, to submit (python)"),
        ("solution a_b", Basis.MISSING, "solution_a_b.py is the file of another one"),
        ("solutions", Basis.MISSING, "files that cannot be read: 1"),
        ("solutions", Basis.MISSING, "files after the first 3 are not read"),
    ]


def test_every_source_of_tasks_takes_a_format(tmp_path: Path) -> None:
    source = source_of("pair", tmp_path)
    again = packed(str(source), "pair")
    assert isinstance(again, PackedSource)
    assert (again.file_name, again.format) == ("rows.py", "pair")
    both = written(tmp_path / "both.py", PAIR + PROBLEM)
    assert "tolerance" in [part.name for part in imported(both).parts]
    assert task_of(both).tests != task_of(both, "pair").tests
    zipped = packed(str(trace_set(tmp_path / "set", workload(5))))
    assert isinstance(zipped, PackedSource)
    (tmp_path / zipped.file_name).write_bytes(zipped.data)
    assert task_of(tmp_path / zipped.file_name).name == "scaled_rows_k40"
    with pytest.raises(InputError, match='Did you mean "pair"'):
        read(source, format_name="pairs")
    with pytest.raises(InputError, match="contains no problem in the format kernelbench"):
        read(tmp_path / "set", format_name="kernelbench")


def test_an_import_writes_folders_and_explains_each_part(tmp_path: Path) -> None:
    level = tmp_path / "level1"
    level.mkdir()
    written(level / "2_other.py", PROBLEM)
    source_of("kernelbench", level)
    written(level / "helper.py", "x = 1\n")
    written(tmp_path / "LICENCE", "\nApache License\n   Version 2.0, January 2004\n")
    run = CliRunner().invoke
    done = run(cli, ["task", "import", str(level), "--explain", "--size-max", "8"])
    assert done.exit_code == 0, done.output
    assert f"licence of the source  Apache-2.0 ({tmp_path}/LICENCE)" in done.stdout
    assert "batch 16 -> 8; width 48 -> 8; height 48 -> 8; shape [48] -> [8]" in done.stdout
    assert not (tmp_path / "out").exists()
    done = run(cli, ["task", "import", str(level), "-o", str(tmp_path / "out"), "--json"])
    found = json.loads(done.stdout)
    assert [each["task"] for each in found] == ["2_other", "7_layer"]
    assert {part["basis"] for part in found[0]["parts"]} == {Basis.TAKEN, Basis.GUESSED}
    assert task_of(Path(found[1]["folder"])) == task_of(level / "7_layer.py")
    done = run(cli, ["task", "import", str(level), "-o", str(tmp_path / "out")])
    assert (done.exit_code, "already exists" in done.stderr) == (2, True)


def test_an_import_of_which_a_part_cannot_be_read_writes_the_others_and_ends_with_2(tmp_path: Path) -> None:
    definitions = trace_set(tmp_path / "both", workload(5)) / "definitions/norm"
    written(definitions / "other.json", json.dumps(DEFINITION | {"name": "other", "outputs": {}}))
    done = CliRunner().invoke(cli, ["task", "import", str(tmp_path / "both"), "-o", str(tmp_path / "out")])
    assert (done.exit_code, done.stderr.count("Skipped: "), done.stderr.count("Task written")) == (2, 1, 1)
    assert len(list((tmp_path / "out").iterdir())) == 1
    level = tmp_path / "level1"
    level.mkdir()
    for name, text in (
        ("right", PROBLEM),
        ("cut", PROBLEM + "def f(:\n"),
        ("part", PROBLEM.replace("get_init_inputs", "f")),
    ):
        written(level / f"{name}.py", text)
    done = CliRunner().invoke(cli, ["task", "import", str(level), "-o", str(tmp_path / "level")])
    assert (done.exit_code, done.stderr.count("Skipped: "), done.stderr.count("Task written")) == (2, 2, 1)
    assert "cut.py" in done.stderr
    assert "get_init_inputs: is not defined" in done.stderr


def test_an_import_of_two_problems_with_one_name_writes_the_first_and_names_both(tmp_path: Path) -> None:
    definitions = trace_set(tmp_path / "set", workload(5)) / "definitions/norm"
    written(definitions / "same.json", (definitions / "rows.json").read_text())
    done = CliRunner().invoke(cli, ["task", "import", str(tmp_path / "set"), "-o", str(tmp_path / "out")])
    assert (done.exit_code, done.stderr.count("Task written")) == (2, 1)
    assert f"Skipped: {definitions}/same.json:\n  name: scaled_rows_k40 is also that of" in done.stderr
    assert "that of definitions/norm/rows.json\n" in done.stderr


def test_an_import_warns_of_each_workload_that_it_leaves_out(tmp_path: Path) -> None:
    source = trace_set(tmp_path / "set", workload(5), workload(6) | {"axes": {"MM": 6}})
    (lines,) = source.rglob("*.jsonl")
    lines.write_text(lines.read_text() + '\n{"axes": {"M"\n')
    done = CliRunner().invoke(cli, ["task", "import", str(source), "-o", str(tmp_path / "out")])
    assert done.exit_code == 0
    assert "workload 2 is left out: the axis M has no value" in done.stderr
    assert f"{lines.name}: line 3: " in done.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cases = [{'n': 3}, {'n': 1 << 4}]", [3, 16]),
        ("sizes = [{'n': n * 128} for n in range(2, 5)]", [256, 384, 512]),
        ("@mark(testing.Benchmark(x_names=['n'], x_vals=[2**i for i in range(3, 6)]))\ndef f(): ...", [8, 16, 32]),
        ("B = Benchmark(x_names=['n', 'm'], x_vals=[7], args={})", [7]),
        ("c = op_bench.config_list(attr_names=['n'], attrs=[[5], [9]], tags=['short'])", [5, 9]),
        ("c = op_bench.cross_product_configs(n=[1, 2], m=[3], tags=['long'])", [1, 2]),
    ],
)
def test_sizes_that_are_data_become_cases(tmp_path: Path, text: str, expected: list[int]) -> None:
    functions = "def inputs(n, m=1):\n    return (n,)\n\ndef ref(x):\n    return x\n"
    task = task_of(written(tmp_path / "p.py", f"{text}\n\n{functions}"))
    assert [case["n"] for case in task.benchmarks] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def reference(x): ...", "inputs: is not defined: it returns the arguments of a call"),
        (
            "def ref(x): ...\ndef inputs(n): ...",
            'cases: inputs requires n: state a list of dicts, such as [{"n": 1024}]',
        ),
        (
            "sizes = [1000, 65537]\ndef ref(x): ...\ndef inputs(n): ...",
            "sizes: inputs requires n: state a list of dicts",
        ),
        ("cases = [{'m': 1}]\ndef ref(x): ...\ndef inputs(n=2): ...", "cases.0: has m, which inputs does not take"),
        ("cases = [{'n': 10**18 * 9}]\ndef ref(x): ...\ndef inputs(n): ...", ""),
        ("def f(:", "line 1: the document: invalid Python: invalid syntax (<unknown>, line 1)"),
        ("x = " + "-" * 60_000 + "1", "the document: invalid Python"),
    ],
    ids=["no inputs", "no cases", "sizes without names", "unknown argument", "largest number", "no Python", "too deep"],
)
def test_a_pair_that_is_not_whole_says_what_it_lacks(tmp_path: Path, text: str, expected: str) -> None:
    path = written(tmp_path / "p.py", text)
    if expected:
        assert expected in fault(path, "pair")
    else:
        assert task_of(path, "pair").tests[0]["n"] == 9 * 10**18


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PAIR.replace("def inputs", "def input"), "inputs: is not defined"),
        (PAIR.replace("def reference", "def referense"), "reference: is not defined"),
        (PROBLEM.replace("class Model", "class Modl"), "Model: is not defined"),
        (PAIR.replace("seed):", "seed:"), "line 7: the document: invalid Python"),
    ],
)
def test_a_file_with_parts_of_a_problem_says_without_a_format_what_it_lacks(
    tmp_path: Path, text: str, expected: str
) -> None:
    (found,) = read_imports(written(tmp_path / "p.py", text))
    assert isinstance(found, DocumentError)
    assert expected in found.message
    assert read(tmp_path / "p.py").faults[0].message == found.message
    with pytest.raises(InputError, match="contains no problem in a known format"):
        read_imports(written(tmp_path / "other.py", "def f(): ..."))
    (tmp_path / "e.py").mkdir()
    with pytest.raises(InputError, match="contains no problem in a known format"):
        read_imports(tmp_path / "e.py")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"reference": 7}, "Expected `str`, got `int` - at `$.reference`"),
        ({"reference": "def run(:"}, "invalid Python"),
        ({"reference": "x = 1"}, "does not define run"),
        ({"inputs": {"x\x1b[31m": {"shape": None, "dtype": "int32"}}}, "is not the name of an argument"),
        ({"inputs": {"M": {"shape": None, "dtype": "int32"}}}, "is the name of an output or an axis, too"),
        ({"outputs": {"y": {"shape": ["Q"], "dtype": "float32"}}}, "y: unknown axis Q"),
        ({"outputs": {"y": {"shape": ["M"], "dtype": "float4_e2m1"}}}, 'the type "float4_e2m1" is not supported'),
        ({"outputs": {}}, "outputs: has no tensor"),
        ({"op_type": "sampling"}, "the frequencies of many answers"),
        ({"custom_inputs_entrypoint": "a.b()"}, "is not the name of a function"),
        ({"axes": {"K": {"type": "const", "value": 2**31}}}, "$.axes[...].value"),
    ],
)
def test_a_definition_that_cannot_be_judged_says_why(tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    assert expected in fault(trace_set(tmp_path / "set", workload(5), **changes), "flashinfer")


def test_workloads_of_another_definition_and_without_a_scalar_are_left_out(tmp_path: Path) -> None:
    lacking = workload(7)
    del lacking["inputs"]["factor"]
    source = trace_set(tmp_path / "set", workload(5), lacking)
    (lines,) = source.rglob("*.jsonl")
    good, other = lines.read_text(), json.dumps({"definition": "rows\x1b[1m_k8", "workload": workload(6)})
    wrong = json.dumps({"workload": workload(6, x={"type": "scalr"})})
    lines.write_text(f"{good}\n{other}\n{wrong}")
    found = imported(source)
    assert found.files["task.yml"].count('"M"') == 2
    told = [part.became for part in found.parts]
    assert "workload 2 is left out: it has no value of the scalar factor" in told
    assert "line 3: it is a workload of rows_k8, not of scaled_rows_k40" in told
    lines.write_text(f"{other}\n{wrong}")
    assert fault(source).startswith(
        "scaled_rows_k40.jsonl: line 1: it is a workload of rows_k8, not of scaled_rows_k40; "
        "scaled_rows_k40.jsonl: line 2: Invalid enum value 'scalr'"
    )


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"weight": STORED | {"path": "../secret.safetensors"}}, "is outside of"),
        ({"weight": STORED | {"path": "/etc/passwd"}}, "is outside of"),
        ({"weight": STORED | {"path": "link.safetensors"}}, "is outside of"),
        ({"weight": STORED | {"path": "nul\0"}}, "cannot be read"),
        ({"weight": STORED | {"path": "missing"}}, "no such file"),
        ({"weight": STORED | {"tensor_key": "\x1b]0;v"}}, "has no readable tensor"),
        ({"x": STORED}, "is not float16 of the shape [5, 40]"),
        ({"weight": STORED | {"path": "noise"}}, "has no readable tensor"),
        ({"weight": {"type": "custom"}}, "names no custom_inputs_entrypoint"),
    ],
)
def test_a_workload_with_inputs_from_elsewhere_is_left_out(
    tmp_path: Path, inputs: dict[str, Any], expected: str
) -> None:
    write_tensor(tmp_path / "secret.safetensors", [1.0] * 40)
    folder = trace_set(tmp_path / "set", workload(5, **inputs))
    (folder / "link.safetensors").symlink_to(tmp_path / "secret.safetensors")
    (folder / "noise").write_bytes((9).to_bytes(8, "little") + b'{"w": [[')
    assert expected in fault(folder)
    both = imported(trace_set(tmp_path / "both", workload(5), {**workload(6), "axes": {}}))
    assert "workload 2 is left out: the axis M has no value" in str([part.became for part in both.parts])


def test_a_problem_below_a_folder_called_definitions_has_its_own_files(tmp_path: Path) -> None:
    source = trace_set(tmp_path / "definitions/set", workload(5))
    (source / "definitions/norm/rows.json").rename(source / "definition.json")
    written(source / "workload.jsonl", json.dumps(workload(5)))
    assert "reference_tensor_0.txt" in imported(source).files


def test_links_out_of_a_trace_set_are_not_followed(tmp_path: Path) -> None:
    other = trace_set(tmp_path / "other", workload(5))
    spec = {"language": "python", "entry_point": "a.py::run"}
    sources = [{"path": "a.py", "content": "def run(x): pass"}]
    solution = {"name": "secret", "definition": DEFINITION["name"], "spec": spec, "sources": sources}
    source = trace_set(tmp_path / "set", workload(5))
    (source / "solutions").mkdir()
    (source / "solutions/own.json").write_text(json.dumps(solution | {"name": "own"}))
    (source / "solutions/link.json").symlink_to(written(tmp_path / "secret.json", json.dumps(solution)))
    (source / "definitions/norm/link.json").symlink_to(other / "definitions/norm/rows.json")
    assert [file for file in imported(source).files if "solution" in file] == ["solution_own.py"]


def test_json_without_bounds_is_refused(tmp_path: Path) -> None:
    deep = written(tmp_path / "deep.json", '{"name": ' + "[" * 400_000)
    assert "does not" not in fault(deep, "flashinfer")
    huge = written(tmp_path / "huge.json", " " * 1_000_001)
    assert "is too large" in fault(huge, "flashinfer")
    with pytest.raises(InputError, match="contains no problem in a known format"):
        read(written(tmp_path / "other.json", '{"name": "x"}'))


def test_a_tolerance_of_the_workloads_replaces_the_default(tmp_path: Path) -> None:
    stated = {"max_atol": 1e-3, "max_rtol": 1e-4, "required_matched_ratio": 0.99}
    (tmp_path / "definition.json").write_text(json.dumps(DEFINITION))
    line = json.dumps(workload(5) | {"tolerance": stated})
    (tmp_path / "workload.jsonl").write_text(line + "\nnot json\n")
    write_tensor(tmp_path / "blob/weight.safetensors", [1.0] * 40)
    found = imported(tmp_path)
    tolerance = json.loads(found.files["import.json"])
    assert tolerance == {"atol": 1e-3, "rtol": 1e-4, "required_matched_ratio": 0.99, "added": True}
    assert next(part.became for part in found.parts if part.basis is Basis.MISSING).startswith("line 2: ")


def test_constants_are_bounded_and_nothing_is_called() -> None:
    lines = [
        "a = 9 ** 9 ** 9",
        "b = 1 << 10 ** 9",
        "c = list(range(10 ** 9))",
        "d = open('/tmp/never', 'w')",
        "e = " + "(" * 90 + "1" + ",)" * 90,
        "f = [0] * 10 ** 9",
        "g = 1 / 0",
        "h = i = 3",
        "j = h * 2 + -1",
        "k = undefined",
        "l = {'x': (1, 2), 3: None}",
        "m = {**l}",
        "n = [[[i for i in range(10000)] for j in range(10000)] for k in range(10000)]",
    ]
    found = Constants(ast.parse("\n".join(lines))).values
    assert found == {"h": 3, "i": 3, "j": 5, "l": {"x": (1, 2), 3: None}}
    doubled = ["a0 = [1, 2]", *(f"a{number} = [a{number - 1}, a{number - 1}]" for number in range(1, 45))]
    assert len(Constants(ast.parse("\n".join(doubled))).values) < 20


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("LICENSE", "MIT License\n\nPermission is hereby granted, free of charge, to any person", "MIT ("),
        ("COPYING.txt", "Our own \x1b[31mterms\nand more", "Our own terms ("),
        ("licence.md", "SPDX-License-Identifier: BSD-3-Clause OR MIT", "BSD-3-Clause OR MIT ("),
        ("README", "MIT License", ""),
    ],
)
def test_the_licence_is_that_of_a_file_above(tmp_path: Path, name: str, text: str, expected: str) -> None:
    written(tmp_path / name, text)
    (tmp_path / "a/b").mkdir(parents=True)
    found = licence_of(written(tmp_path / "a/b/p.py", PAIR))
    assert found.startswith(expected) if expected else not found
    own = written(tmp_path / "a/q.py", "# SPDX-License-Identifier: Apache-2.0\n")
    assert licence_of(own) == "Apache-2.0 (SPDX line)"
