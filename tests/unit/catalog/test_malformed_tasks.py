"""Malformed task folders: each fault is told with its place, all of them at once, and nothing is left behind."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hpc_board.cli.main import cli

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


FAULTS: Mapping[str, tuple[str, str]] = {
    "no files": (
        "lang: py\ndescription: x\n",
        "files: is missing; expected a list",
    ),
    "files of a wrong type": (
        changed(DOCUMENT.partition("lang")[0], "files: reference.py\n"),
        'line 1: files: expected a list, found "reference.py"',
    ),
    "a file without a source": (
        with_file("{name: task.py}"),
        "line 4: files[2].source: is missing; expected text",
    ),
    "a file with an unknown key": (
        with_file("{name: task.py, source: reference.py, mode: r}"),
        "line 4: files[2].mode: is not a known key.",
    ),
    "a missing file": (
        with_file("{name: task.py, source: task.py}"),
        "line 4: files[2].source: ",
    ),
    "a source outside": (
        with_file("{name: task.py, source: ../../outside.py}"),
        'line 4: files[2].source: "../../outside.py" is outside of',
    ),
    "an absolute source": (
        with_file("{name: task.py, source: /etc/passwd}"),
        'line 4: files[2].source: "/etc/passwd" is outside of',
    ),
    "a link that leads outside": (
        with_file("{name: task.py, source: link.py}"),
        'line 4: files[2].source: "link.py" is outside of',
    ),
    "a pipe as a source": (
        with_file("{name: task.py, source: pipe}"),
        "pipe is not a regular file",
    ),
    "a binary source": (
        with_file("{name: task.py, source: binary.py}"),
        "is it a binary file?",
    ),
    "a name outside": (
        with_file("{name: ../task.py, source: reference.py}"),
        'line 4: files[2].name: expected a relative path without "..", found "../task.py"',
    ),
    "a name that is taken": (
        with_file("{name: reference.py, source: reference.py}"),
        'line 4: files[2].name: duplicate file name "reference.py"',
    ),
    "two submissions": (
        with_file('{name: other.py, source: "@SUBMISSION@"}'),
        "line 1: files: expected one file with the source @SUBMISSION@, found 2",
    ),
    "no submission": (
        changed('"@SUBMISSION@"', "reference.py"),
        "line 1: files: expected one file with the source @SUBMISSION@, found 0",
    ),
    "an unknown main": (
        with_line("config: {main: evaluate.py}"),
        'line 10: config.main: "evaluate.py" is not in `files`.',
    ),
    "a misspelt main": (
        with_line("config: {main: referense.py}"),
        'line 10: config.main: "referense.py" is not in `files`. Did you mean "reference.py"?',
    ),
    "an unknown source to compile": (
        with_line("config: {sources: [submission.py, eval.cu]}").replace("lang: py", "lang: cu"),
        'line 10: config.sources[1]: "eval.cu" is not in `files`.',
    ),
    "no language": (
        changed("lang: py\n", ""),
        "lang: is missing; expected one of py, cu",
    ),
    "an unknown language": (
        changed("lang: py", "lang: python"),
        'line 4: lang: expected one of py, cu, found "python".',
    ),
    "no description": (
        changed("description: Double every number.\n", ""),
        "description: is missing; expected text",
    ),
    "a case without a seed": (
        with_test("{size: 3}"),
        "line 7: tests[0]: lacks seed, which generate_input requires",
    ),
    "a benchmark without a size": (
        changed("{size: 50, seed: 2}", "{seed: 2}"),
        "line 9: benchmarks[0]: lacks size, which generate_input requires",
    ),
    "an argument that the generator does not take": (
        with_test("{size: 3, seed: 1, sizes: 4}"),
        "line 7: tests[0].sizes: is not an argument of generate_input, which takes size, seed. Did you mean",
    ),
    "a seed that is no number": (
        with_test("{size: 3, seed: one}"),
        "line 7: tests[0].seed: expected a whole number, from which other seeds are derived",
    ),
    "a case that is no mapping": (
        with_test("[3, 1]"),
        "line 7: tests[0]: expected a mapping, found a list",
    ),
    "a value that is nothing": (
        with_test("{size: , seed: 1}"),
        "line 7: tests[0].size: expected a number, true or false, text, or a list of these",
    ),
    "a number that is none": (
        with_test("{size: .nan, seed: 1}"),
        "line 7: tests[0].size: expected a finite number",
    ),
    "a number of too many bits": (
        with_test("{size: 18446744073709551616, seed: 1}"),
        "line 7: tests[0].size: expected a whole number of at most 64 bits",
    ),
    "an argument that is no name": (
        with_test("{size: 3, seed: 1, a-b: 2}"),
        "line 7: tests[0].a-b: expected the name of an argument of generate_input",
    ),
    "a key given twice": (
        with_line("lang: py"),
        "line 10: lang: is given twice",
    ),
    "an argument given twice": (
        with_test("{size: 3, size: 4, seed: 1}"),
        "line 7: tests[0].size: is given twice",
    ),
    "a name that is none": (
        with_line("name: double every number"),
        "line 10: name: expected a name of letters, digits",
    ),
    "a time limit of no time": (
        with_line("test_timeout: 0"),
        "line 10: test_timeout: expected a whole number of seconds from 1 to 86400",
    ),
    "an unknown ranking": (
        with_line("ranking_by: best"),
        "line 10: ranking_by: expected one of last, mean, geom",
    ),
    "several GPUs without a world size": (
        with_line("multi_gpu: true"),
        "line 7: tests[0]: has no world_size, which a multi_gpu task needs",
    ),
    "a template that is not there": (
        with_line("templates: {Python: template.py}"),
        "line 10: templates.Python: ",
    ),
    "a template in no language": (
        with_line("templates: {Fortran: reference.py}"),
        "line 10: templates.Fortran: expected one of Python, torch.compile",
    ),
    "an unknown key of ours": (
        with_line("hpc_board: {harnes: task}"),
        'line 10: hpc_board.harnes: is not a known key. Did you mean "harness"?',
    ),
    "a deadline that is no date": (
        with_line("hpc_board: {deadline: soon}"),
        "line 10: hpc_board.deadline: expected an ISO date or time",
    ),
    "a limit out of bounds": (
        with_line("hpc_board: {limits: {call_seconds: 1000000}}"),
        "line 10: hpc_board.limits.call_seconds: ",
    ),
    "a compiler flag that is not allowed": (
        with_line('hpc_board: {flags: ["-fplugin=evil.so"]}'),
        "line 10: hpc_board.flags[0]: ",
    ),
    "a judge without a reference": (
        changed("name: reference.py", "name: other.py") + "hpc_board: {harness: isolated}\n",
        "line 10: hpc_board.harness: isolated needs a file named reference.py",
    ),
    "a tab": (
        changed("tests:\n  -", "tests:\n\t-"),
        "line 7: the document: found character '\\t' that cannot start any token",
    ),
    "aliases that multiply": (
        with_test(f"{{size: 3, seed: 1, {ALIASES}}}"),
        "the document: contains more than 100000 values, counting aliases",
    ),
    "an alias of itself": (
        with_line("config: &a {main: *a}"),
        "line 10: config.main.main: expected text, found a mapping",
    ),
    "a tag that makes an object": (
        changed("Double every number.", "!!python/object/apply:os.system [id]"),
        "line 5: description: expected text, found a list",
    ),
    "a tag that names an object": (
        changed("Double every number.", "!!python/name:os.system x"),
        "line 5: description: has the tag tag:yaml.org,2002:python/name:os.system, which is not supported",
    ),
    "nesting without end": (
        with_test(f"{{size: {'[' * 99}{']' * 99}, seed: 1}}"),
        "line 7: the document: nested more than 32 levels deep",
    ),
    "an open bracket": (
        with_line("gpus: [H100"),
        "the document: ",
    ),
    "two documents": (
        with_line("---\nlang: py"),
        "line 10: the document: but found another document",
    ),
    "a control character": (
        changed("Double every number.", '"\\e]0;owned"'),
        "line 5: description: contains a control character",
    ),
    "very many files": (
        changed("lang: py", "".join(f"  - {{name: f{n}, source: reference.py}}\n" for n in range(1000)) + "lang: py"),
        "line 1: files: expected at most 1,000 files, found 1,002",
    ),
    "very many cases without a seed": (
        changed("  - {size: 3, seed: 1}\n", "  - {size: 3}\n" * 2_000),
        "the document: 1900 more faults are not shown",
    ),
    "a list for a document": ("- a\n- b\n", "the document: expected a mapping, found a list"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "outside.py").write_text("SECRET = 1\n")
    folder = tmp_path / "tasks" / "double"
    folder.mkdir(parents=True)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "link.py").symlink_to(tmp_path / "outside.py")
    (folder / "binary.py").write_bytes(b"\0")
    os.mkfifo(folder / "pipe")
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


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.slow
def test_a_malformed_task_is_refused_with_its_fault_and_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    document, message = FAULTS[fault]
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
config: {main: eval.py}
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
        "line 7, config.main",
        "line 9, tests[0]",
        "line 10, tests[1].sizes",
        "line 10, tests[1]",
        "line 11, tests[2].size",
        "line 12, ranking_by",
        "line 13, hpc_board.limits.call_second",
        "line 13, hpc_board.deadline",
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
