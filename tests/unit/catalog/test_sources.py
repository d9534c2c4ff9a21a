"""Task sources: folders, zips, single references and competitions become tasks, and nothing of them stays on disk."""

import ast
import json
import os
import re
import shutil
import stat
import struct
import subprocess
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hpc_board.catalog import archive
from hpc_board.catalog.contract import defined
from hpc_board.catalog.sources import read, tasks_without_faults
from hpc_board.cli.main import cli
from hpc_board.errors import DocumentError, InputError
from hpc_board.model.result import Verdict
from hpc_board.model.task import Language, Mode, Task
from hpc_board.task_check.lint import Bounds, check
from tests.harness.evaluations import evaluate
from tests.unit.catalog.test_malformed_tasks import DOCUMENT, REFERENCE
from tests.unit.recorded import REPOSITORY

SUBMISSION = "def custom_kernel(data):\n    return [2 * each for each in data]\n"

WHOLE = '''\
"""Double every number."""
import random


def generate_input():
    return [random.randrange(1, 100) for _ in range(50)]


def ref_kernel(data):
    return [2 * each for each in data]


def check_implementation(user_output, reference_output):
    return user_output == reference_output
'''

WHOLE_IN_CPP = """\
#include <cstdlib>
#include <vector>

using numbers = std::vector<float>;

static numbers generate_input() {
    numbers data(1000);
    for (float &each : data) {
        each = static_cast<float>(std::rand() % 1000);
    }
    return data;
}

static numbers reference(numbers data) {
    for (float &each : data) {
        each *= 2;
    }
    return data;
}

static bool check_implementation(const numbers &output, const numbers &expected) { return output == expected; }
"""

RIGHT_IN_CPP = "static numbers submission(numbers data) { for (float &each : data) each += each; return data; }\n"
WRONG_IN_CPP = "static numbers submission(numbers data) { return data; }\n"


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files; it has to be empty at the end of a test."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def folder_of(parent: Path, name: str = "double", document: str = DOCUMENT, reference: str = REFERENCE) -> Path:
    folder = parent / name
    folder.mkdir(parents=True)
    (folder / "task.yml").write_text(document)
    (folder / "reference.py").write_text(reference)
    return folder


def packed(path: Path, *entries: tuple[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in entries:
            file.writestr(name, data)
    return path


def faults(source: Path) -> list[str]:
    with pytest.raises(DocumentError) as caught:
        tasks_without_faults(source)
    assert caught.value.exit_code == 2
    assert caught.value.hint
    return [str(fault) for fault in caught.value.faults]


# Folders


def test_a_task_is_read_by_its_folder_and_by_its_task_file(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (task,) = tasks_without_faults(folder)
    assert task.name == "double"
    assert tasks_without_faults(folder / "task.yml") == (task,)


def test_a_folder_of_tasks_is_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "shared.py").write_text(REFERENCE)
    document = DOCUMENT.replace("source: reference.py", "source: ../shared.py")
    for name in ("b", "a"):
        folder_of(tmp_path, name, document)
    (tmp_path / "c").mkdir()
    assert [task.name for task in tasks_without_faults(tmp_path)] == ["a", "b"]


def test_one_broken_task_of_several_does_not_hide_the_others_nor_its_faults(tmp_path: Path) -> None:
    folder_of(tmp_path, "good")
    folder_of(tmp_path, "bad", DOCUMENT + "seed: x\n")
    folder_of(tmp_path, "worse", DOCUMENT.replace("lang: py", "lang: pyy"))
    found = read(tmp_path)
    assert [task.name for task in found.tasks] == ["good"]
    assert [Path(error.file).parent.name for error in found.faults] == ["bad", "worse"]
    with pytest.raises(InputError) as caught:
        tasks_without_faults(tmp_path)
    assert "line 10: seed" in caught.value.message
    assert "line 4: lang" in caught.value.message


def test_two_tasks_of_one_name_are_a_fault(tmp_path: Path) -> None:
    for name in ("a", "b"):
        folder_of(tmp_path, name, DOCUMENT + "name: same\n")
    found = read(tmp_path)
    assert [task.name for task in found.tasks] == ["same"]
    assert "is used by two tasks" in found.faults[0].message


def test_folders_in_folders_are_not_followed_without_end(tmp_path: Path) -> None:
    folder_of(tmp_path / "deep/1/2/3/4/5/6")
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop/inner").symlink_to(tmp_path / "loop")
    for name in ("deep", "loop"):
        with pytest.raises(InputError, match="contains no task"):
            read(tmp_path / name)


@pytest.mark.parametrize("kind", ["folder", "competition", "competitions"])
def test_a_source_of_very_many_tasks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr("hpc_board.catalog.competition.TASKS_MAX", 2)
    if kind == "folder":
        for index in range(3):
            folder_of(tmp_path, f"task{index}")
        with pytest.raises(InputError, match="contains more than 2 tasks"):
            read(tmp_path)
        return
    path = competition(tmp_path, COMPETITION + "  - {directory: set/other, name: third}\n")
    if kind == "competition":
        assert "problems: expected at most 2 problems, found 3" in read(path).faults[0].message
        return
    path.write_text(COMPETITION)
    (tmp_path / "more.yaml").write_text(COMPETITION.replace("_v2", "_v3"))
    with pytest.raises(InputError, match="contains more than 2 tasks"):
        read(tmp_path)


def test_a_path_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    for source in ("x" * 300, f"./{'x' * 300}", f"./{'x' * 300}.zip", f"{tmp_path}/{'x/' * 3000}"):
        done = CliRunner().invoke(cli, ["task", "check", source])
        assert done.exit_code == 2, done.output
        assert done.stderr.startswith("error: ")
    path = competition(tmp_path, COMPETITION.replace("set/other", "x" * 300))
    assert "has no task.yml in it" in faults(path)[0]


def test_a_machine_without_room_for_temporary_files_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    for source in (packed(tmp_path / "double.zip", ("task.yml", DOCUMENT)), folder_of(tmp_path)):
        done = CliRunner().invoke(cli, ["task", "check", str(source)])
        assert done.exit_code == 3
        assert "temporary files cannot be written: No such file or directory" in done.stderr
        assert "TMPDIR" in done.stderr


# Zips


def test_a_zip_of_a_task_is_called_as_its_folder_or_as_itself(tmp_path: Path, scratch: Path) -> None:
    files = (("task.yml", DOCUMENT), ("reference.py", REFERENCE))
    (task,) = tasks_without_faults(packed(tmp_path / "twice.zip", *files))
    (inner,) = tasks_without_faults(packed(tmp_path / "other.zip", *((f"double/{name}", text) for name, text in files)))
    assert (task.name, inner.name) == ("twice", "double")
    assert task.version == inner.version == tasks_without_faults(folder_of(tmp_path))[0].version
    assert list(scratch.iterdir()) == []


def test_a_zip_may_share_files_between_tasks_and_bring_what_its_packer_left(tmp_path: Path, scratch: Path) -> None:
    document = DOCUMENT.replace("source: reference.py", "source: ../reference.py")
    path = packed(
        tmp_path / "set.zip",
        ("set/", ""),
        ("set/a/task.yml", document),
        ("set/b/task.yml", document),
        ("set/reference.py", REFERENCE),
        ("__MACOSX/set/._reference.py", b"\0"),
        (".hidden/x", "x"),
    )
    assert [task.name for task in tasks_without_faults(path)] == ["a", "b"]
    assert list(scratch.iterdir()) == []


def test_the_faults_of_a_task_in_a_zip_name_the_zip(tmp_path: Path, scratch: Path) -> None:
    document = DOCUMENT.replace("source: reference.py", "source: ../../../outside.py")
    path = packed(tmp_path / "set.zip", ("double/task.yml", document + "templates: {Python: missing.py}\n"))
    found = faults(path)
    assert found[0].startswith(f'line 3: files[1].source: "../../../outside.py" is outside {path}')
    assert found[1].startswith(f"line 10: templates.Python: {path}/double/missing.py: no such file")
    assert str(scratch) not in "".join(found)
    assert list(scratch.iterdir()) == []


def entry(name: str, *, mode: int = stat.S_IFREG | 0o644) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def written(path: Path, *entries: tuple[zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for info, data in entries:
            file.writestr(info, data)
    return path


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("names", "fault"),
    [
        (["../outside.py"], '"../outside.py", which is not a path within its folder'),
        (["a/../../outside.py"], "which is not a path within its folder"),
        (["/outside.py"], "which is not a path within its folder"),
        ([".."], "which is not a path within its folder"),
        ([""], '"", which is not a path within its folder'),
        (["a\x1b[31mb/.."], '"ab/..", which is not a path'),
        (["x" * 256], "which is not a path within its folder"),
        (["d/" * 40 + "x"], "contains more than 32 levels of nested folders"),
        (["a", "a"], '"a" and another file of that name'),
        (["a", "./a"], "and another file of that name"),
        (["a/b", "a"], '"a" and another file of that name'),
        (["a", "a/b"], '"a/b" and another file of that name'),
        (["a", "a/"], '"a/" and another file of that name'),
        ([f"{number}/" + "d/" * 30 for number in range(400)], "contains more than 10,000 files and folders"),
    ],
)
def test_an_entry_of_a_zip_without_a_place_of_its_own_is_refused(
    tmp_path: Path, scratch: Path, names: list[str], fault: str
) -> None:
    with pytest.raises(InputError) as refused:
        read(written(tmp_path / "set.zip", *((entry(name), b"") for name in names)))
    assert fault in refused.value.message
    assert refused.value.message.isprintable()
    assert list(scratch.iterdir()) == []


def test_a_link_of_a_zip_becomes_a_file(tmp_path: Path) -> None:
    target = tmp_path / "unpacked"
    target.mkdir()
    archive.unpack(written(tmp_path / "set.zip", (entry("link", mode=stat.S_IFLNK | 0o777), b"/etc/passwd")), target)
    assert not (target / "link").is_symlink()
    assert (target / "link").read_text() == "/etc/passwd"


def test_a_zip_is_refused_by_its_size_and_the_number_of_its_files(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = packed(tmp_path / "noise.zip", *((f"{index}", os.urandom(1000)) for index in range(50)))
    monkeypatch.setattr(archive, "UNPACKED_BYTES_MAX", 40_000)
    with pytest.raises(InputError, match=r"is too large: 50,000 bytes unpacked \(limit 40,000\)"):
        read(noise)
    monkeypatch.setattr(archive, "ENTRIES_MAX", 49)
    with pytest.raises(InputError, match="contains more than 49 files"):
        read(noise)
    monkeypatch.setattr(archive, "ARCHIVE_BYTES_MAX", 40_000)
    with pytest.raises(InputError, match=r"is too large \(limit 40,000 bytes\)"):
        read(noise)
    assert list(scratch.iterdir()) == []


def test_a_file_that_is_larger_than_its_entry_says_is_damaged(tmp_path: Path, scratch: Path) -> None:
    data = bytearray(packed(tmp_path / "lying.zip", ("task.yml", b"0" * 5_000_000)).read_bytes())
    for mark, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", data, data.index(mark) + offset, 100)
    (tmp_path / "lying.zip").write_bytes(data)
    with pytest.raises(InputError, match="is damaged"):
        read(tmp_path / "lying.zip")
    assert list(scratch.iterdir()) == []


def test_what_is_encrypted_or_compressed_in_another_way_is_refused(tmp_path: Path, scratch: Path) -> None:
    data = bytearray(packed(tmp_path / "secret.zip", ("task.yml", "x")).read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1
    (tmp_path / "secret.zip").write_bytes(data)
    with pytest.raises(InputError, match="is encrypted"):
        read(tmp_path / "secret.zip")
    with zipfile.ZipFile(tmp_path / "lzma.zip", "w", zipfile.ZIP_LZMA) as file:
        file.writestr("task.yml", "x")
    with pytest.raises(InputError, match="uses a compression method other than deflate"):
        read(tmp_path / "lzma.zip")
    assert list(scratch.iterdir()) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@example(changes=[(1424, 0)], cut=0)
@given(changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4), cut=st.integers(0, 400))
def test_whatever_bytes_a_zip_has_it_is_a_task_or_an_input_error(
    tmp_path: Path, scratch: Path, changes: list[tuple[int, int]], cut: int
) -> None:
    path = packed(tmp_path / "double.zip", ("task.yml", DOCUMENT), ("reference.py", REFERENCE))
    data = bytearray(path.read_bytes())
    for place, byte in changes:
        data[place % len(data)] = byte
    path.write_bytes(data[: max(0, len(data) - cut)] if cut < 30 else data)
    try:
        read(path)
    except InputError as error:
        assert error.hint  # noqa: PT017
    assert list(scratch.iterdir()) == []


# The generations of the contract


def whole(folder: Path, text: str = WHOLE, name: str = "twice.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def judged(task: Task, folder: Path, text: str = SUBMISSION) -> Verdict:
    return evaluate(folder, text, task, Mode.TEST).result.verdict


@pytest.mark.parametrize(
    "reference",
    [
        WHOLE,
        WHOLE.replace(
            "return user_output == reference_output", "assert user_output == reference_output\n    return True"
        ),
        WHOLE.replace("(user_output, reference_output)", "(data, output)").replace(
            "user_output == reference_output", "(output == ref_kernel(data), 'wrong')"
        ),
    ],
    ids=["two answers", "assertions", "today's order"],
)
@pytest.mark.slow
def test_a_single_reference_is_judged_and_its_submission_is_called_train(
    tmp_path: Path, scratch: Path, reference: str
) -> None:
    (task,) = tasks_without_faults(whole(tmp_path, reference))
    assert (task.name, task.submission_name, task.harness) == ("twice", "train.py", "isolated")
    assert task.description == "Double every number."
    assert list(scratch.iterdir()) == []
    assert check(task, Bounds()).passed
    assert judged(task, tmp_path / "right") is Verdict.PASS
    assert judged(task, tmp_path / "wrong", SUBMISSION.replace("2 *", "3 *")) is Verdict.WRONG_VALUE


@pytest.mark.parametrize(
    ("answer", "folder"),
    [
        ("'' if output == ref_kernel(data) else 'wrong'", "text"),
        ("(output == ref_kernel(data), 'wrong')", "pair"),
        ("output == ref_kernel(data)", "bool"),
    ],
)
@pytest.mark.slow
def test_each_form_of_the_check_in_a_folder_is_judged(tmp_path: Path, answer: str, folder: str) -> None:
    reference = REFERENCE.replace("output == ref_kernel(data)", answer)
    (task,) = tasks_without_faults(folder_of(tmp_path, folder, reference=reference))
    assert check(task, Bounds()).passed
    assert judged(task, tmp_path / "right") is Verdict.PASS
    assert judged(task, tmp_path / "wrong", SUBMISSION.replace("2 *", "3 *")) is Verdict.WRONG_VALUE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (REFERENCE, ["generate_input: needs size, seed, but a single file has no cases to provide them"]),
        (SUBMISSION, [f"{name}: is not defined" for name in ("generate_input", "ref_kernel", "check_implementation")]),
        ("def f(:\n", ["line 1: the document: invalid Python: invalid syntax (<unknown>, line 1)"]),
        ("x = '\\ud800'\ndef f(:\n", ["line 2: the document: invalid Python: invalid syntax (<unknown>, line 2)"]),
    ],
)
def test_a_single_file_that_is_no_whole_task_says_what_it_lacks(
    tmp_path: Path, scratch: Path, text: str, expected: list[str]
) -> None:
    assert faults(whole(tmp_path, text)) == expected
    assert list(scratch.iterdir()) == []


def test_a_description_with_anything_in_it_becomes_one(tmp_path: Path) -> None:
    odd = '"""Odd: [x] {y} \\"z\\" \U0001f600 \x1b[31m \x7f\n\n  - &a *b !!c # d\n"""\n'
    (task,) = tasks_without_faults(whole(tmp_path, odd + WHOLE))
    assert task.description.startswith('Odd: [x] {y} "z" \U0001f600')
    assert task.description.endswith("- &a *b !!c # d")


def test_a_single_file_is_named_as_a_task_can_be(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the task gets the name of the file"):
        read(whole(tmp_path, name="my task.py"))


@pytest.mark.parametrize(
    ("name", "language", "submission"),
    [
        ("twice.cu", Language.CU, "train.cuh"),
        ("twice.cuh", Language.CU, "train.cuh"),
        ("twice.cpp", Language.CPP, "train.cpp"),
    ],
)
def test_a_single_reference_that_is_compiled_brings_an_eval(
    tmp_path: Path, scratch: Path, name: str, language: Language, submission: str
) -> None:
    (task,) = tasks_without_faults(whole(tmp_path, WHOLE_IN_CPP, name))
    assert (task.name, task.harness, task.accepted) == ("twice", "task", (language,))
    assert task.name_on_node(f"kernel{language.extensions[0]}") == submission
    (program,) = task.config["sources"]
    assert f'#include "{submission}"' in (task.text(program) or "")
    assert list(scratch.iterdir()) == []


def compiled(task: Task, folder: Path, submission: str, compiler: str) -> Path:
    folder.mkdir()
    for file in task.files:
        (folder / file.name).write_text(submission if file.text is None else file.text)
    (program,) = task.config["sources"]
    warnings = ["-Wall", "-Wextra", "-Werror"] if compiler == "g++" else []
    subprocess.run([compiler, "-std=c++17", *warnings, program, "-o", "eval"], cwd=folder, check=True, timeout=200)
    return folder / "eval"


def told(program: Path, mode: str) -> tuple[int, dict[str, str]]:
    """The exit status of an eval, and what it says to its descriptor."""
    (program.parent / "cases").write_text("\n")
    read_end, write_end = os.pipe()
    done = subprocess.run(
        [program, mode, "cases"],
        cwd=program.parent,
        env={"POPCORN_FD": str(write_end)},
        pass_fds=[write_end],
        check=False,
        timeout=60,
    )
    os.close(write_end)
    with os.fdopen(read_end) as file:
        lines = [line.rstrip("\n").partition(": ") for line in file]
    return done.returncode, {key: value for key, _, value in lines}


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_the_eval_of_a_single_reference_speaks_kernelbots_protocol(tmp_path: Path) -> None:
    (task,) = tasks_without_faults(whole(tmp_path, WHOLE_IN_CPP, "twice.cpp"))
    right = compiled(task, tmp_path / "right", RIGHT_IN_CPP, "g++")
    wrong = compiled(task, tmp_path / "wrong", WRONG_IN_CPP, "g++")
    assert told(right, "test") == (
        0,
        {"test-count": "1", "test.0.spec": "", "test.0.status": "pass", "check": "pass"},
    )
    for mode in ("benchmark", "leaderboard"):
        status, lines = told(right, mode)
        assert (status, lines["check"], lines["benchmark-count"]) == (0, "pass", "1")
        keys = ("runs", "mean", "std", "err", "best", "worst")
        runs, mean, std, err, best, worst = (float(lines[f"benchmark.0.{key}"]) for key in keys)
        assert 10 <= runs <= 100
        assert 0 < best <= mean <= worst
        assert err <= std
        status, lines = told(wrong, mode)
        assert (status, lines["check"], lines["benchmark.0.status"]) == (112, "fail", "fail")
    status, lines = told(wrong, "test")
    assert (status, lines["check"], lines["test.0.status"]) == (112, "fail", "fail")
    assert told(right, "profile") == (2, {})


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
def test_the_eval_of_a_single_cuda_reference_compiles(tmp_path: Path) -> None:
    (task,) = tasks_without_faults(whole(tmp_path, WHOLE_IN_CPP, "twice.cu"))
    assert compiled(task, tmp_path / "right", RIGHT_IN_CPP, "nvcc").is_file()


# Competitions

COMPETITION = """\
name: Doubling
deadline: ""
description: Twice as much.
problems:
  - {directory: set/double, name: double_v2, deadline: "2100-12-31", gpus: [H100, CPU]}
  - {directory: set/other, name: other_v2}
"""


def competition(folder: Path, text: str = COMPETITION) -> Path:
    (folder / "set").mkdir(parents=True)
    (folder / "set/shared.py").write_text(REFERENCE)
    shared = DOCUMENT.replace("source: reference.py", "source: ../shared.py") + "gpus: [A100]\n"
    folder_of(folder / "set", "double")
    folder_of(folder / "set", "other", shared)
    path = folder / "doubling.yaml"
    path.write_text(text)
    return path


def test_a_competition_gives_its_problems_names_deadlines_and_gpus(tmp_path: Path) -> None:
    double, other = tasks_without_faults(competition(tmp_path))
    assert (double.name, double.gpus) == ("double_v2", ("H100", "CPU"))
    assert double.deadline == datetime(2100, 12, 31, tzinfo=UTC)
    assert (other.name, other.gpus, other.deadline) == ("other_v2", ("A100",), None)


def test_the_competition_on_the_page_can_be_read(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs/tasks.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n(name: Doubling\n.*?)```", page, re.DOTALL)
    for name in ("double_py", "sort_py"):
        folder_of(tmp_path, name)
    (tmp_path / "shown.yaml").write_text(text)
    assert [(task.name, task.deadline) for task in tasks_without_faults(tmp_path / "shown.yaml")] == [
        ("double", datetime(2030, 12, 31, tzinfo=UTC)),
        ("sort", datetime(2031, 1, 31, 18, tzinfo=UTC)),
    ]


def test_the_deadline_of_a_competition_is_that_of_problems_without_one(tmp_path: Path) -> None:
    text = COMPETITION.replace('deadline: ""', 'deadline: "2099-01-01 18:00"')
    double, other = tasks_without_faults(competition(tmp_path, text))
    assert (double.deadline, other.deadline) == (
        datetime(2100, 12, 31, tzinfo=UTC),
        datetime(2099, 1, 1, 18, tzinfo=UTC),
    )


def zipped(folder: Path, path: Path) -> Path:
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return packed(path, *((str(file.relative_to(folder.parent)), file.read_bytes()) for file in files))


def test_a_competition_is_found_in_a_checkout_and_in_an_archive_of_it(tmp_path: Path, scratch: Path) -> None:
    checkout = tmp_path / "kernels-main"
    competition(checkout / "problems")
    (checkout / "docs").mkdir()
    (checkout / "mkdocs.yml").write_text("site_name: x\n")
    for source in (checkout, checkout / "problems", zipped(checkout, tmp_path / "main.zip")):
        assert [task.name for task in tasks_without_faults(source)] == ["double_v2", "other_v2"]
    assert list(scratch.iterdir()) == []


def test_a_single_problem_may_share_files_with_others_of_its_competition(tmp_path: Path) -> None:
    path = competition(tmp_path / "problems")
    folder = path.parent / "set" / "other"
    path.parent.joinpath("pool").mkdir()
    path.parent.joinpath("pool", "shared.py").write_text(REFERENCE)
    task = folder / "task.yml"
    task.write_text(task.read_text().replace("../shared.py", "../../pool/shared.py"))
    for source in (folder, task, folder.parent):
        assert {file.text for file in tasks_without_faults(source)[-1].files if file.name == "reference.py"} == {
            REFERENCE
        }
    # A competition need not name all of its folders.
    path.write_text(COMPETITION.replace("  - {directory: set/other, name: other_v2}\n", ""))
    assert tasks_without_faults(folder)[0].name == "other"
    # Files beyond its folder stay out of reach, and a competition that names other folders has no say.
    task.write_text(task.read_text().replace("../../pool/shared.py", "../../../secret.py"))
    (tmp_path / "secret.py").write_text(REFERENCE)
    for text in (
        "problems:\n  - {directory: elsewhere, name: x}\n",
        "problems: [\n",
        "problems:\n  - {directory: ['a'], name: x}\n",
    ):
        (tmp_path / "other.yaml").write_text(text)
        with pytest.raises(InputError, match=r"secret\.py\" is outside"):
            tasks_without_faults(folder)


def test_every_fault_of_a_competition_is_told_beside_those_of_its_tasks(tmp_path: Path) -> None:
    text = """\
problems:
  - {directory: set/double, name: double}
  - {directory: set/double, name: double}
  - {directory: ../outside, name: outside}
  - {directory: set/nowhere, name: nowhere}
  - {directory: set/other, name: other, deadline: soon}
"""
    path = competition(tmp_path / "problems", text)
    folder_of(tmp_path, "outside")
    (tmp_path / "problems/set/other/task.yml").write_text(DOCUMENT + "seed: x\n")
    found = read(path)
    assert [task.name for task in found.tasks] == ["double"]
    own, others = found.faults
    assert [fault.path for fault in own.faults] == [
        "problems[1].name",
        "problems[2].directory",
        "problems[3].directory",
        "problems[4].deadline",
    ]
    assert [fault.line for fault in own.faults] == [3, 4, 5, 6]
    assert f'"../outside" is outside {tmp_path}/problems' in own.faults[1].message
    assert others.faults[0].path == "seed"


def test_a_competition_that_is_no_yaml_does_not_hide_another(tmp_path: Path) -> None:
    competition(tmp_path)
    (tmp_path / "broken.yaml").write_text("problems: [\n")
    found = read(tmp_path)
    assert [task.name for task in found.tasks] == ["double_v2", "other_v2"]
    assert [Path(error.file).name for error in found.faults] == ["broken.yaml"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: x\n", "problems: is missing; expected a list"),
        ("problems: [{name: x}]\n", "line 1: problems[0].directory: is missing; expected text"),
        ("problems: [{directory: x}]\n", "line 1: problems[0].name: is missing; expected a name of letters"),
        ("problems: [{directory: x, name: 'a b'}]\n", "line 1: problems[0].name: expected a name of letters"),
        ("problems: 3\n", "line 1: problems: expected a list"),
        ("problems: [{directory: set/double, name: x, gpus: H100}]\n", "line 1: problems[0].gpus: expected a list"),
        ("problems: [\n", "line 2: the document: "),
    ],
)
def test_what_a_competition_cannot_have_is_named(tmp_path: Path, text: str, expected: str) -> None:
    (found,) = faults(competition(tmp_path, text))
    assert found.startswith(expected)


def test_a_check_of_a_competition_checks_all_of_its_tasks(tmp_path: Path) -> None:
    path = competition(tmp_path)
    done = CliRunner().invoke(cli, ["task", "check", str(path), "--json"])
    assert done.exit_code == 0, done.output
    assert [each["task"] for each in json.loads(done.stdout)] == ["double_v2", "other_v2"]
    shared = tmp_path / "set/shared.py"
    shared.write_text(shared.read_text().replace("output == ref_kernel(data)", "True"))
    done = CliRunner().invoke(cli, ["task", "check", str(path)])
    assert done.exit_code == 1
    assert "Task double_v2" in done.stdout
    assert "error    accepts_zeros" in done.stdout


def test_a_reference_with_more_branches_than_python_recurses_has_its_names_read() -> None:
    branches = "".join(f"elif x == {number}:\n    def name{number}(): ...\n" for number in range(1, 1200))
    tree = ast.parse(f"if x == 0:\n    def name0(): ...\n{branches}")
    assert defined(tree) == {f"name{number}" for number in range(1200)}
