"""Malformed task folders: each fault is told with its place, all of them at once, and nothing is left behind."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hpc_board.catalog.folders import read_task
from hpc_board.cli.main import cli
from hpc_board.errors import DocumentError

DOCUMENT = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
description: Double every number.
tests:
  - {size: 3, seed: 1}
benchmarks:
  - {size: 50, seed: 2}
"""

REFERENCE = """\
def generate_input(size, seed):
    return [float(seed + index) for index in range(size)]


def ref_kernel(data):
    return [2 * each for each in data]


def check_implementation(data, output):
    return output == ref_kernel(data)
"""

ALIASES = ", ".join(
    [
        "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]",
        *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)),
    ]
)


def changed(before: str, after: str) -> str:
    """The document with one passage replaced by another."""
    assert before in DOCUMENT
    return DOCUMENT.replace(before, after)


def with_line(line: str) -> str:
    """The document with one more line, its tenth."""
    return f"{DOCUMENT}{line}\n"


def with_file(entry: str) -> str:
    """The document with one more file, in its fourth line."""
    return changed("lang: py", f"  - {entry}\nlang: py")


def with_test(case: str) -> str:
    """The document with another test case, in its seventh line."""
    return changed("{size: 3, seed: 1}", case)


FAULTS = [
    ("lang: py\ndescription: x\n", "files: is missing; expected a list"),
    (
        changed(DOCUMENT.partition("lang")[0], "files: reference.py\n"),
        'line 1: files: expected a list, found "reference.py"',
    ),
    (with_file("{name: task.py}"), "line 4: files[2].source: is missing; expected text"),
    (with_file("{name: task.py, source: reference.py, mode: r}"), "line 4: files[2].mode: is not a known key."),
    (
        with_line("config: {main: referense.py}\nhpc_board: {harness: task}"),
        'line 10: config.main: "referense.py" is not in `files`. Did you mean "reference.py"?',
    ),
    (
        with_line("config: {main: referense.py}"),
        'line 10: config.main: "referense.py" is not in `files`. Did you mean "reference.py"?',
    ),
    (
        with_line("hpc_board: {adapter: referense.py}"),
        'line 10: hpc_board.adapter: "referense.py" is not in `files`. Did you mean "reference.py"?',
    ),
    (
        with_line("hpc_board: {adapter: reference.py}"),
        "line 10: hpc_board.adapter: expected a Python file at the top whose name does not begin with",
    ),
    (changed("lang: py\n", ""), "lang: is missing; expected one of py, cu"),
    (changed("description: Double every number.\n", ""), "description: is missing; expected text"),
    (with_test("{size: 3}"), "line 7: tests[0]: lacks seed, which generate_input requires"),
    (changed("{size: 50, seed: 2}", "{seed: 2}"), "line 9: benchmarks[0]: lacks size, which generate_input requires"),
    (
        with_test("{size: 3, seed: 1, sizes: 4}"),
        "line 7: tests[0].sizes: is not an argument of generate_input, which takes size, seed. Did you mean",
    ),
    (
        with_test("{size: 3, seed: one}"),
        "line 7: tests[0].seed: expected a whole number, from which other seeds are derived",
    ),
    (with_test("[3, 1]"), "line 7: tests[0]: expected a mapping, found a list"),
    (changed("tests:\n  -", "tests:\n\t-"), "line 7: the document: found character '\\t' that cannot start any token"),
    (with_test(f"{{size: 3, seed: 1, {ALIASES}}}"), "the document: contains more than 100000 values, counting aliases"),
    (with_line("config: &a {main: *a}"), "line 10: config.main.main: expected text, found a mapping"),
    (
        changed("Double every number.", "!!python/object/apply:os.system [id]"),
        "line 5: description: expected text, found a list",
    ),
    (
        changed("Double every number.", "!!python/name:os.system x"),
        "line 5: description: has the tag tag:yaml.org,2002:python/name:os.system, which is not supported",
    ),
    (with_test(f"{{size: {'[' * 99}{']' * 99}, seed: 1}}"), "line 7: the document: nested more than 32 levels deep"),
    (with_line("gpus: [H100"), "the document: "),
    (with_line("---\nlang: py"), "line 10: the document: but found another document"),
    (
        changed("lang: py", "".join(f"  - {{name: f{n}, source: reference.py}}\n" for n in range(1000)) + "lang: py"),
        "line 1: files: expected at most 1,000 files, found 1,002",
    ),
    (changed("  - {size: 3, seed: 1}\n", "  - {size: 3}\n" * 2_000), "the document: 1900 more faults are not shown"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "outside.py").write_text("SECRET = 1\n")
    folder = tmp_path / "tasks" / "double"
    folder.mkdir(parents=True)
    (folder / "reference.py").write_text(REFERENCE)
    return folder


def check(folder: Path, document: str) -> Result:
    (folder / "task.yml").write_text(document)
    return CliRunner().invoke(cli, ["task", "check", str(folder)])


def entries(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}


def test_the_folder_without_a_fault_is_sound(folder: Path) -> None:
    done = check(folder, DOCUMENT)
    assert done.exit_code == 0, done.output
    assert "No errors" in done.stdout


@pytest.mark.parametrize(("document", "message"), FAULTS)
def test_a_malformed_task_is_refused_with_its_fault(folder: Path, document: str, message: str) -> None:
    (folder / "task.yml").write_text(document)
    with pytest.raises(DocumentError) as caught:
        read_task(folder)
    assert message in caught.value.message
    assert caught.value.hint


def test_a_check_of_a_malformed_task_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, message = FAULTS[0]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    (folder / "task.yml").touch()
    before = entries(tmp_path)
    done = check(folder, document)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.output
    assert "hint: " in done.stderr
    assert done.stdout == ""
    assert entries(tmp_path) == before


def test_a_task_with_many_faults_has_all_of_them_told_at_once(folder: Path) -> None:
    document = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
  - {name: task.py, source: ../../outside.py}
  - {name: utils.py, source: missing.py}
lang: pyton
tests:
  - {size: 3}
  - {sizes: 3, seed: 1}
  - {size: .inf, seed: 1}
ranking_by: best
hpc_board: {deadline: soon, limits: {call_second: 1}}
"""
    done = check(folder, document)
    assert done.exit_code == 2
    lines = [line.strip().partition(": ") for line in done.stderr.splitlines() if line.startswith("  ")]
    places = [f"{head}, {rest.partition(':')[0]}" if head.startswith("line") else head for head, _, rest in lines]
    assert places == [
        "description",
        "line 4, files[2].source",
        "line 5, files[3].source",
        "line 6, lang",
        "line 8, tests[0]",
        "line 9, tests[1].sizes",
        "line 9, tests[1]",
        "line 10, tests[2].size",
        "line 11, ranking_by",
        "line 12, hpc_board.limits.call_second",
        "line 12, hpc_board.deadline",
    ]


@pytest.mark.slow
def test_arguments_are_only_judged_where_the_text_of_the_reference_tells_them(folder: Path) -> None:
    document = with_test("{sizes: 3}").replace("{size: 50, seed: 2}", "{sizes: 5}")
    for reference in (
        "import functools\n\n@functools.cache\n" + REFERENCE,
        REFERENCE.replace("def generate_input(size, seed)", "def generate_input(**case)").replace("size", "3"),
        REFERENCE.replace("def generate_input", "generate_input = make\ndef generate_input"),
        "def generate_input(:",
    ):
        (folder / "reference.py").write_text(reference)
        assert "generate_input needs" not in check(folder, document).output
