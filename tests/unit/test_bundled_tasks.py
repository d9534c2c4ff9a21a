"""The bundled tasks accept every right answer and no wrong one, and their examples are what they say."""

import json
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypedDict

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
TASKS = REPOSITORY / "tasks"
EXAMPLES = REPOSITORY / "examples"
PROBE = Path(__file__).with_name("bundled_task_probe.py")
NAMES = ("identity_py", "vectoradd_py", "softmax_py", "matmul_py")
SECRET_SEEDS = (7_919_000_001, 2**62 + 11)

every_task = pytest.mark.parametrize("name", NAMES)


class Line(TypedDict):
    """What a task's check said to one answer."""

    case: dict[str, int]
    kind: str
    answer: str
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
    """Every test as it is written and with secret seeds, and every benchmark."""
    content = document(name)
    tests, benchmarks = content["tests"], content["benchmarks"]
    assert isinstance(tests, list)
    assert isinstance(benchmarks, list)
    return [*tests, *({**case, "seed": seed} for seed in SECRET_SEEDS for case in tests), *benchmarks]


@cache
def lines(name: str) -> tuple[Line, ...]:
    """All that the task's check says to the probe's answers, to the template and to the examples."""
    submissions = [
        TASKS / name / "template.py",
        *(EXAMPLES / name / f"{kind}.py" for kind in ("plain", "faster", "wrong")),
    ]
    with TemporaryDirectory() as folder:
        staged(name, Path(folder))
        command = [sys.executable, "-B", str(PROBE), name, folder, json.dumps(cases(name)), *map(str, submissions)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return tuple(json.loads(done.stdout))


@every_task
@pytest.mark.torch
def test_right_answers_pass(name: str) -> None:
    right = [line for line in lines(name) if line["kind"] == "right"]
    assert len(right) >= len(cases(name))
    assert [line for line in right if not line["passed"] or line["message"]] == []


@every_task
@pytest.mark.torch
def test_wrong_answers_fail_on_every_case_and_say_why_in_few_words(name: str) -> None:
    wrong = [line for line in lines(name) if line["kind"] == "wrong"]
    assert len(wrong) >= 15 * len(cases(name))
    assert [line for line in wrong if line["passed"] or not 0 < len(line["message"]) < 300] == []


@every_task
@pytest.mark.torch
def test_a_refusal_names_the_first_wrong_element_and_counts_them(name: str) -> None:
    messages = [line["message"] for line in lines(name) if line["answer"] == "one nan"]
    pattern = r"wrong value at \[\d+(, \d+)*\]: expected -?\d\S*, got nan; 1 of \d+ elements are wrong"
    assert [message for message in messages if not re.fullmatch(pattern, message)] == []
    assert len(messages) == len(cases(name))


@every_task
@pytest.mark.torch
def test_the_template_and_the_honest_examples_pass_everything(name: str) -> None:
    honest = [line for line in lines(name) if line["answer"] in {"template", "plain", "faster"}]
    assert len(honest) == 3 * len(cases(name))
    assert [line for line in honest if not line["passed"]] == []


@every_task
@pytest.mark.torch
def test_the_wrong_example_fails_by_a_wrong_value(name: str) -> None:
    failures = [line["message"] for line in lines(name) if line["answer"] == "wrong" and not line["passed"]]
    assert failures
    assert all(message.startswith("wrong value at ") for message in failures)


@every_task
def test_a_submission_says_which_leaderboard_it_is_for(name: str) -> None:
    header = f"#!POPCORN leaderboard {name}\n"
    files = [TASKS / name / "template.py", *sorted((EXAMPLES / name).glob("*.py"))]
    assert [file.stem for file in files] == ["template", "faster", "plain", "wrong"]
    assert [file for file in files if not file.read_text().startswith(header)] == []


@every_task
def test_no_file_names_a_device(name: str) -> None:
    files = [TASKS / "utils.py", *(TASKS / name).glob("*.py"), *(EXAMPLES / name).glob("*.py")]
    assert [file for file in files if re.search(r"""["'](cuda|cpu)\b""", file.read_text())] == []


def test_every_bundled_task_is_tested() -> None:
    assert {path.parent.name for path in TASKS.glob("*/task.yml")} == set(NAMES)
