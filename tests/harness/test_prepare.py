"""Fixed inputs of a task, which a submission may prepare before its calls: once in a process and case, and checked."""

from pathlib import Path

import pytest

from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from tests.harness.evaluations import QUICK, Evaluation, a_task, evaluate

SCALED = """
import random

def generate_input(size, seed):
    rng = random.Random(seed)
    return [rng.uniform(1, 2) for _ in range(size)], rng.uniform(1, 2), rng.randrange(10**9)

def ref_kernel(data):
    values, weight, number = data
    return [weight * x for x in values] + [number]

def check_implementation(data, output):
    return output == ref_kernel(data), "the answer is wrong"
"""
"""A task whose inputs are values, and a weight and a number that are fixed."""

TASK = a_task(SCALED, prepare=(1, 2))

PLAIN = """
def custom_kernel(data):
    values, weight, number = data
    return [weight * x for x in values] + [number]
"""

PREPARED = """
import os
print("process", os.getpid())
def prepare(weight, number):
    print("prepare", weight, number)
    return weight, [number]
def custom_kernel(data, state):
    (values,), (weight, numbers) = data, state
    return [weight * x for x in values] + numbers
"""


def judged(folder: Path, submission: str, mode: Mode = Mode.RANKED, **limits: float) -> Evaluation:
    return evaluate(folder, submission, a_task(SCALED, prepare=(1, 2), limits={**QUICK, **limits}), mode)


@pytest.mark.parametrize("mode", [Mode.TEST, Mode.RANKED])
def test_a_submission_without_prepare_gets_all_inputs_in_each_call(tmp_path: Path, mode: Mode) -> None:
    done = judged(tmp_path, PLAIN, mode)

    assert done.result.verdict is Verdict.PASS, done.result.message
    assert "prepare_seconds" not in done.result.provenance


def test_prepare_gets_fresh_fixed_inputs_once_in_each_process_and_case(tmp_path: Path) -> None:
    done = judged(tmp_path, PREPARED)

    assert done.result.verdict is Verdict.PASS, done.result.message
    lines = done.result.stdout.text.splitlines()
    prepared = [line for line in lines if line.startswith("prepare")]
    processes = len([line for line in lines if line.startswith("process")])
    # Two of each test: the public inputs and secret ones; one of each benchmark in each further process.
    assert (processes, len(prepared)) == (4, 2 * 3 + 2 * 3)
    assert len(set(prepared)) == len(prepared)
    facts = done.result.provenance
    assert 0 < facts["prepare_seconds"] <= facts["prepare_seconds_max"] == 60
    assert facts["prepare_bytes"] <= facts["prepare_bytes_max"] == 8 * 2**30


@pytest.mark.parametrize(
    ("body", "verdict", "words"),
    [
        ("raise ValueError('no plan')", Verdict.EXCEPTION, "ValueError: no plan"),
        ("import time; time.sleep(9)", Verdict.TIMEOUT, "prepare did not return within 0.5 s"),
        ("return bytearray(b'x') * 2**26", Verdict.OUT_OF_MEMORY, "more than the 1048576 of prepare_bytes"),
        ("import os; os.abort()", Verdict.CRASH, "SIGABRT"),
    ],
)
def test_prepare_that_fails_or_exceeds_a_limit_has_a_verdict(
    tmp_path: Path, body: str, verdict: Verdict, words: str
) -> None:
    submission = PREPARED.replace("return weight, [number]", body)

    done = judged(tmp_path, submission, Mode.TEST, prepare_seconds=0.5, prepare_bytes=2**20)

    assert done.result.verdict is verdict, done.result.message
    assert words in done.result.message + done.result.cases[0].message


CHEATS = {
    "an answer made of the fixed inputs alone": PREPARED.replace("(values,), (weight", "values, (weight").replace(
        "[weight * x for x in values]", "[weight * 1.5] * len(values[0])"
    ),
    "the answer of an earlier call": """
ANSWERS = {}
def prepare(weight, number):
    return weight, number
def custom_kernel(data, state):
    (values,), (weight, number) = data, state
    return ANSWERS.setdefault((weight, len(values)), [weight * x for x in values] + [number])
""",
    "fixed inputs of an earlier process": """
import pathlib
NOTE = pathlib.Path("note")
def prepare(weight, number):
    if not NOTE.exists():
        NOTE.write_text(f"{weight!r} {number}")
    known, other = NOTE.read_text().split()
    return float(known), int(other)
def custom_kernel(data, state):
    (values,), (weight, number) = data, state
    return [weight * x for x in values] + [number]
""",
    "the state that a call has changed": """
def prepare(weight, number):
    return [weight, number]
def custom_kernel(data, state):
    (values,), (weight, number) = data, state
    state[0] += 1
    return [weight * x for x in values] + [number]
""",
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_nothing_that_prepare_or_a_call_remembers_replaces_the_next_call(tmp_path: Path, cheat: str) -> None:
    done = judged(tmp_path, CHEATS[cheat])

    assert done.result.verdict is Verdict.WRONG_VALUE, done.result.message


def test_inputs_without_the_named_parts_are_an_error_of_the_task(tmp_path: Path) -> None:
    done = evaluate(tmp_path, PREPARED, a_task(SCALED, prepare=(1, 7)), Mode.TEST)

    assert done.result.verdict is Verdict.TASK_ERROR
    assert "hpc_board.prepare names 7, but the inputs have the parts [0, 1, 2]" in done.result.message
