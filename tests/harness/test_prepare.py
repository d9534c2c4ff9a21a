"""Fixed inputs of a task, which a submission may prepare before its calls: once in a process and case, and checked."""

from pathlib import Path

import pytest

from hpc_board.model.result import Verdict
from hpc_board.model.task import Language, Mode
from tests.harness.compiling import kernel, needs_gcc
from tests.harness.evaluations import ARRAYS as NUMPY
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
    ("body", "seconds", "verdict", "words"),
    [
        ("raise ValueError('no plan')", 9, Verdict.EXCEPTION, "ValueError: no plan"),
        ("import time; time.sleep(99)", 0.5, Verdict.TIMEOUT, "prepare did not return within 0.5 s"),
        ("return bytearray(b'x') * 2**26", 9, Verdict.OUT_OF_MEMORY, "more than the 1048576 of prepare_bytes"),
        ("import os; os.abort()", 9, Verdict.CRASH, "SIGABRT"),
    ],
)
def test_prepare_that_fails_or_exceeds_a_limit_has_a_verdict(
    tmp_path: Path, body: str, seconds: float, verdict: Verdict, words: str
) -> None:
    submission = PREPARED.replace("return weight, [number]", body)

    done = judged(tmp_path, submission, Mode.TEST, prepare_seconds=seconds, prepare_bytes=2**20)

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
    "inputs of an earlier call": """
SEEN = []
def prepare(weight, number):
    SEEN.clear()
    return weight, number
def custom_kernel(data, state):
    (values,), (weight, number) = data, state
    SEEN.append(values)
    return [weight * x for x in SEEN[0]] + [number]
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


NAMED = "import collections\nParts = collections.namedtuple('Parts', 'x w n')\n"
OF_PARTS = """
class Parts(tuple):
    def __new__(cls, x, w, n):
        return super().__new__(cls, [x, w, n])
"""
LIST_OF_PARTS = """
class Parts(list):
    def __init__(self, x, w, n):
        super().__init__([x, w, n])
"""


@pytest.mark.parametrize(
    ("kind", "check"),
    [(NAMED, "data.w"), (OF_PARTS, "data[1]"), (LIST_OF_PARTS, "data[1]")],
    ids=["named", "tuple", "list"],
)
@pytest.mark.parametrize("submission", [PLAIN, PREPARED], ids=["plain", "prepared"])
def test_inputs_may_be_a_named_tuple_or_of_another_class(
    tmp_path: Path, submission: str, kind: str, check: str
) -> None:
    made = SCALED.replace("return [rng", "return Parts([rng").replace("rng.randrange(10**9)", "rng.randrange(10**9))")
    made = kind + made.replace("return output == ", f"assert {check}\n    return output == ")

    done = evaluate(tmp_path, submission, a_task(made, prepare=(1, 2), limits=QUICK), Mode.TEST)

    assert done.result.verdict is Verdict.PASS, done.result.message


def test_a_worker_that_claims_to_prepare_inputs_of_a_task_without_fixed_ones_gains_nothing(tmp_path: Path) -> None:
    claims = """
import sys
step = sys._getframe()
while "worker" not in step.f_locals:
    step = step.f_back
step.f_locals["worker"].prepare = print
def custom_kernel(data):
    return 2 * data
"""

    done = evaluate(tmp_path, claims, a_task(NUMPY), Mode.TEST)

    assert done.result.verdict is Verdict.PASS, done.result.message


def test_inputs_without_the_named_parts_are_an_error_of_the_task(tmp_path: Path) -> None:
    done = evaluate(tmp_path, PREPARED, a_task(SCALED, prepare=(1, 7)), Mode.TEST)

    assert done.result.verdict is Verdict.TASK_ERROR
    assert "hpc_board.prepare names 7, but the inputs have the parts [0, 1, 2]" in done.result.message


ARRAYS = """
import numpy as np

def generate_input(size, seed):
    generator = np.random.default_rng(seed)
    return {
        "x": generator.random(size),
        "weights": generator.random(3),
        "scale": float(generator.random()),
        "number": int(generator.integers(10**9)),
        "count": size,
    }

def ref_kernel(data):
    return data["x"] * data["weights"].sum() * data["scale"] + data["number"]

def check_implementation(data, output):
    return bool(np.allclose(output, ref_kernel(data), rtol=1e-12, atol=0)), "the answer is wrong"
"""

IN_CPP = kernel(
    """
    const State &state = *static_cast<State *>(ctx->state);
    if (n_in != 1 || n_params != 1 || params[0] != in[0].shape[0] || ctx->n_reals != 0) return 1;
    for (int64_t i = 0; i < params[0]; ++i)
        ((double *)out[0].data)[i] =
            ((double *)in[0].data)[i] * (state.weights[0] + state.rest) * state.scale + state.number;
    return 0;
    """,
    """
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
struct State { const double *weights; double rest, scale; int64_t number; };
int hpc_prepare(const hpc_tensor *fixed, int n_fixed, const int64_t *params, int n_params, const hpc_context *ctx,
                void **state) {
    if (n_fixed != 1 || fixed[0].shape[0] != 3 || n_params != 1 || ctx->n_reals != 1 || ctx->state) return 7;
    const double *weights = (const double *)fixed[0].data;
    std::printf("%s of %d, %ld\\n", *state ? "next" : "first", getpid(), (long)params[0]);
    delete static_cast<State *>(*state);
    *state = new State{weights, weights[1] + weights[2], ctx->reals[0], params[0]};
    return 0;
}
""",
)


def in_cpp(folder: Path, submission: str, mode: Mode = Mode.TEST, **limits: float) -> Evaluation:
    limits = {**QUICK, **limits}
    task = a_task(ARRAYS, prepare=("weights", "scale", "number"), languages=(Language.CPP,), limits=limits)
    return evaluate(folder, submission, task, mode, file_name="k.cpp")


@needs_gcc
def test_a_compiled_submission_prepares_fixed_inputs_of_each_kind_and_keeps_its_state(tmp_path: Path) -> None:
    done = in_cpp(tmp_path, IN_CPP, Mode.RANKED)

    assert done.result.verdict is Verdict.PASS, done.result.message
    prepared = done.result.stdout.text.splitlines()
    processes = {line.split()[2] for line in prepared}
    assert (len(processes), len(prepared)) == (4, 2 * 3 + 2 * 3)
    assert sum(line.startswith("first") for line in prepared) == 4
    assert len({line.split()[3] for line in prepared}) == len(prepared)
    assert 0 < done.result.provenance["prepare_seconds"] <= 60


@needs_gcc
@pytest.mark.parametrize(
    ("line", "verdict", "words"),
    [
        ("return 7;", Verdict.EXCEPTION, "hpc_prepare returned 7"),
        ("std::abort();", Verdict.CRASH, "SIGABRT"),
        ("sleep(9);", Verdict.TIMEOUT, "prepare did not return within 0.5 s"),
        ("*state = new State{weights, 0.5, 0.5, 5}; return 0;", Verdict.WRONG_VALUE, "the answer is wrong"),
    ],
)
def test_a_compiled_prepare_that_fails_has_a_verdict(tmp_path: Path, line: str, verdict: Verdict, words: str) -> None:
    submission = IN_CPP.replace("delete static_cast<State *>(*state);", line)

    done = in_cpp(tmp_path, submission, prepare_seconds=0.5)

    assert done.result.verdict is verdict, done.result.message
    assert words in done.result.message + done.result.cases[0].message


@needs_gcc
def test_fixed_text_is_an_error_of_a_task_for_compiled_submissions(tmp_path: Path) -> None:
    task = a_task(
        ARRAYS.replace('"scale": float(generator.random())', '"scale": "large"').replace('* data["scale"]', ""),
        prepare=("weights", "scale", "number"),
        languages=(Language.CPP,),
        limits=QUICK,
    )

    done = evaluate(tmp_path, IN_CPP, task, Mode.TEST, file_name="k.cpp")

    assert done.result.verdict is Verdict.TASK_ERROR
    assert "hpc_board.prepare[1] is a str, which compiled submissions cannot be given" in done.result.message
