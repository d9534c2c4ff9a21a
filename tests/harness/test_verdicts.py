"""Each way in which a submission may end, by the real harness in real processes."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from hpc_board.harness.confine import sandbox
from hpc_board.harness.device.faults import LIBRARIES, needs_gpu
from hpc_board.model.gpu import Device
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode, Timeouts
from hpc_board.runs import job_folder
from tests.conftest import skip_without
from tests.harness.evaluations import QUICK, REFERENCE, RIGHT, a_task, evaluate, judged_in, make_job_folder


def kernel(body: str, *, imports: str = "import os, sys, time") -> str:
    """A submission whose function runs `body` and then answers rightly."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"{imports}\ndef custom_kernel(data):\n{lines}\n    return [2 * x for x in data]\n"


@pytest.mark.parametrize(
    ("submission", "verdict", "words"),
    [
        (RIGHT, Verdict.PASS, ""),
        (kernel("return [0.0 for x in data]"), Verdict.WRONG_VALUE, "at 0: 0.0 instead of"),
        (kernel("return [float('nan')] * len(data)"), Verdict.WRONG_NONFINITE, "nan instead of"),
        (kernel("return data[1:]"), Verdict.WRONG_SHAPE, "has 2 parts, expected 3"),
        (kernel("return {str(i): x for i, x in enumerate(data)}"), Verdict.WRONG_DTYPE, "is a dict, expected a list"),
        (kernel("return [1] * len(data)"), Verdict.WRONG_DTYPE, "is an int, expected a float"),
        (kernel("return object()"), Verdict.WRONG_DTYPE, "cannot be read"),
        (kernel("return (x for x in data)"), Verdict.WRONG_DTYPE, "cannot be read"),
        (kernel("for _ in range(40): data = [data]\nreturn data"), Verdict.WRONG_DTYPE, "nested or branched too far"),
        (kernel("1 / 0"), Verdict.EXCEPTION, "ZeroDivisionError"),
        (
            kernel("raise type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})"),
            Verdict.EXCEPTION,
            "Mute: (its message cannot be read",
        ),
        (kernel("sys.exit(0)"), Verdict.EXCEPTION, "SystemExit"),
        (kernel("raise MemoryError"), Verdict.OUT_OF_MEMORY, "MemoryError"),
        (kernel("os.kill(os.getpid(), 11)"), Verdict.CRASH, "SIGSEGV"),
        (kernel("os.abort()"), Verdict.CRASH, "SIGABRT"),
        (kernel("os._exit(0)"), Verdict.CRASH, "exited with status 0"),
        (kernel("time.sleep(60)"), Verdict.TIMEOUT, "did not return within"),
        (kernel("print('x' * 100 * 2**20)"), Verdict.OUTPUT_LIMIT, "exceeded its output limit"),
        ("def kernel(data): ...", Verdict.LOAD_ERROR, "defines no function called custom_kernel"),
        ("import there_is_none", Verdict.LOAD_ERROR, "there_is_none"),
        ("def custom_kernel(data:", Verdict.LOAD_ERROR, "SyntaxError"),
        ("import reference\n" + RIGHT, Verdict.LOAD_ERROR, "No module named 'reference'"),
        ("import os; os._exit(0)", Verdict.CRASH, "exited with status 0"),
    ],
    ids=lambda value: value.value if isinstance(value, Verdict) else "",
)
def test_a_submission_ends_with_the_verdict_that_says_what_it_did(
    tmp_path: Path, submission: str, verdict: Verdict, words: str
) -> None:
    found = evaluate(tmp_path, submission)
    assert found.result.verdict is verdict, found.result.message
    assert words in found.result.message
    assert found.result.provenance["isolation"] in sandbox.LEVELS
    assert found.status == 0
    assert found.output == ""


@pytest.mark.parametrize("submission", ["import {}\n" + RIGHT, kernel("import {}")], ids=["load", "call"])
def test_a_library_that_the_node_lacks_is_not_the_submission_s_fault(tmp_path: Path, submission: str) -> None:
    module = next((name for name in LIBRARIES if find_spec(name.partition(".")[0]) is None), None)
    if module is None:
        pytest.skip("this Python has all libraries for kernels")
    result = evaluate(tmp_path, submission.replace("{}", module)).result
    assert result.verdict is Verdict.INFRA_ERROR, result.message
    assert f"has no {LIBRARIES[module].title}, which the submission imports ({module})" in result.message
    assert ("installs it" in result.message) is not needs_gpu(module)


def test_a_library_for_gpus_alone_is_not_advised_on_a_cpu(tmp_path: Path) -> None:
    if find_spec("triton") is not None:
        pytest.skip("this Python has Triton")
    result = evaluate(tmp_path, "import triton\n" + RIGHT).result
    assert result.verdict is Verdict.INFRA_ERROR, result.message
    assert "its kernels run only on GPUs, but this job runs on a CPU" in result.message
    assert "pip install" not in result.message


@pytest.mark.parametrize(
    ("submission", "verdict"),
    [
        ("import sys; sys.modules['numpy'] = None; import numpy\n" + RIGHT, Verdict.LOAD_ERROR),
        (kernel("raise ModuleNotFoundError('no numpy', name='numpy')"), Verdict.EXCEPTION),
    ],
    ids=["hidden", "raised"],
)
def test_a_submission_cannot_say_that_the_node_lacks_an_installed_library(
    tmp_path: Path, submission: str, verdict: Verdict
) -> None:
    skip_without("numpy")
    result = evaluate(tmp_path, submission).result
    assert result.verdict is verdict, result.message
    assert "ModuleNotFoundError" in result.message


@pytest.mark.parametrize(
    "call",
    [
        "import multiprocessing; multiprocessing.get_context('fork').Pool(1)",
        "import multiprocessing; multiprocessing.Lock()",
        "from concurrent.futures import ProcessPoolExecutor; ProcessPoolExecutor(1).submit(len, '')",
        "from multiprocessing.shared_memory import SharedMemory; SharedMemory(create=True, size=1)",
        pytest.param("import torch; torch.zeros(1).share_memory_()", marks=pytest.mark.torch),
    ],
    ids=["pool", "lock", "executor", "memory", "tensor"],
)
def test_shared_memory_that_is_refused_is_explained(tmp_path: Path, call: str) -> None:
    result = evaluate(tmp_path, kernel(call)).result
    assert result.verdict is Verdict.EXCEPTION, result.message
    first, *_ = result.message.splitlines()
    assert first.endswith(
        "(locks and pools of multiprocessing need /dev/shm, which is closed to submissions: use threads)"
    )


@pytest.mark.parametrize(
    "call",
    [
        "raise PermissionError('no')",
        "raise RuntimeError('shared memory object')",
        "raise type('Mute', (RuntimeError,), {'__str__': lambda self: 1 / 0})",
        "exec('raise PermissionError', {'__name__': type('Mute', (), {'__repr__': lambda self: 1 / 0})()})",
    ],
    ids=["permission", "runtime", "without message", "without name"],
)
def test_another_error_is_not_explained_by_shared_memory(tmp_path: Path, call: str) -> None:
    result = evaluate(tmp_path, kernel(call)).result
    assert result.verdict is Verdict.EXCEPTION, result.message
    assert "/dev/shm" not in result.message


def test_a_wrong_case_does_not_hide_the_later_ones(tmp_path: Path) -> None:
    found = evaluate(tmp_path, kernel("if len(data) == 3: return [0.0] * 3"))
    verdicts = [case.verdict for case in found.result.cases]
    assert verdicts == [Verdict.WRONG_VALUE, Verdict.PASS, Verdict.PASS]


@pytest.mark.quiet
def test_cases_that_together_take_longer_than_their_mode_may_are_a_timeout_that_says_so(tmp_path: Path) -> None:
    task = a_task(timeouts=Timeouts(1, 60, 60))
    result = evaluate(tmp_path, kernel("time.sleep(0.7)"), task).result
    assert result.verdict is Verdict.TIMEOUT
    assert [case.verdict for case in result.cases] in ([Verdict.PASS, Verdict.TIMEOUT], [Verdict.TIMEOUT])


HANGS = kernel("while True: time.sleep(0.1)")
SHORT = {**QUICK, "test_call_seconds": 0.5}


def test_a_call_of_mode_test_that_hangs_has_the_limit_that_follows_the_reference(tmp_path: Path) -> None:
    result = evaluate(tmp_path, HANGS, a_task(limits=SHORT)).result
    assert result.verdict is Verdict.TIMEOUT
    assert result.cases[0].message == (
        "the first call did not return within 0.5 s, the limit in mode test: 100 times the reference's time, at least "
        "0.5 s; other modes allow 3 s"
    )


def test_a_slow_reference_gives_a_call_of_mode_test_more_time(tmp_path: Path) -> None:
    slow = REFERENCE.replace("    return [2 *", "    import time\n    time.sleep(0.02)\n    return [2 *")
    passes = kernel("if len(data) == 3: time.sleep(1)")
    assert evaluate(tmp_path, passes, a_task(slow, limits=SHORT)).result.verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("source", "mode"),
    [(HANGS, Mode.RANKED), (f"try:\n    import numba\nexcept ImportError:\n    pass\n{HANGS}", Mode.TEST)],
    ids=["in a ranked run", "that may compile"],
)
def test_other_calls_that_hang_have_the_task_s_own_limit(tmp_path: Path, source: str, mode: Mode) -> None:
    result = evaluate(tmp_path, source, a_task(limits={**SHORT, "first_call_seconds": 1}), mode).result
    assert result.cases[0].message == "the first call did not return within 1 s"


def test_an_exception_shows_the_submission_s_own_lines_only(tmp_path: Path) -> None:
    found = evaluate(tmp_path, kernel("1 / 0"))
    message = found.result.cases[0].message
    assert 'File "k.py", line 3, in custom_kernel' in message
    assert "worker.py" not in message


def test_a_ranked_run_tests_times_and_scores(tmp_path: Path) -> None:
    result = evaluate(tmp_path, RIGHT, mode=Mode.RANKED).result
    assert result.verdict is Verdict.PASS
    assert [case.phase for case in result.cases] == ["test"] * 3 + ["benchmark"] * 2
    timings = [case.timing for case in result.cases if case.timing]
    assert all(3 <= timing.samples == len(timing.samples_ns) for timing in timings)
    assert result.score_s == pytest.approx((timings[0].time_ns * timings[1].time_ns) ** 0.5 / 1e9)
    assert (result.run, result.nonce, result.job_id) == (7, "a nonce", "42")


def test_a_ranked_run_uses_other_values_than_the_public_seeds_give(tmp_path: Path) -> None:
    answers_to_public_cases = (
        REFERENCE.replace("def check", "def _check")
        + "\nknown = {tuple(generate_input(**case)): True for case in "
        + "({'size': 3, 'seed': 1}, {'size': 10, 'seed': 2}, {'size': 1, 'seed': 3})}\n"
        + "def custom_kernel(data):\n    return ref_kernel(data) if tuple(data) in known else [0.0] * len(data)\n"
    )
    assert evaluate(tmp_path / "test", answers_to_public_cases).result.verdict is Verdict.PASS
    ranked = evaluate(tmp_path / "ranked", answers_to_public_cases, mode=Mode.RANKED).result
    assert ranked.verdict is Verdict.WRONG_VALUE
    said = "passed with the public seed, failed with a secret one; the run is not ranked: "
    assert said in ranked.message
    assert next(case for case in ranked.cases if case.verdict is not Verdict.PASS).message.startswith(said)


def test_what_a_submission_prints_is_kept_at_both_ends_without_escape_sequences(tmp_path: Path) -> None:
    result = evaluate(tmp_path, kernel("print('\\x1b[31mred' + '.' * 200_000 + 'end')")).result
    assert result.stdout.head.startswith("red...")
    assert "\x1b" not in result.stdout.text
    assert result.stdout.tail.rstrip().endswith("end")
    assert result.stdout.omitted_bytes > 100_000


def test_a_gpu_that_the_node_does_not_have_is_a_device_error_that_says_what_is_missing(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    result = evaluate(tmp_path, RIGHT, device=Device.CUDA).result
    if result.verdict is Verdict.PASS:
        pytest.skip("this node has a GPU")
    assert result.verdict is Verdict.DEVICE_ERROR
    assert "no cuda device can be used on this node" in result.message
    assert "device files: none" in result.message


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("1 / 0", "reference.py cannot be imported: ZeroDivisionError"),
        (
            REFERENCE.replace("rng.uniform(1, 2)", "rng.nothing()"),
            "the task cannot generate the inputs: generate_input",
        ),
        (
            REFERENCE.replace("2 * x", "2 * y"),
            "the task's reference fails on the task's own inputs: ref_kernel fails: NameError",
        ),
        (REFERENCE.replace("return True", "return 1 / 0"), "the task cannot check the output"),
        (REFERENCE.replace('return True, ""', "return None"), "check_implementation returned a NoneType"),
        (REFERENCE.replace("return [rng", "return object() or [rng"), "it is a builtins.object"),
        ("import os; os._exit(3)", "the judge could not start"),
        (REFERENCE.replace("return True", "import os; os._exit(3)"), "the judge is gone: it exited with status 3"),
        (f"import helper_of_the_task\n{REFERENCE}", "No module named 'helper_of_the_task'"),
        (f"{REFERENCE}\ndef minimal_work(size, seed):\n    return 1 / 0\n", "minimal_work fails: ZeroDivisionError"),
    ],
    ids=["import", "generate", "reference", "check", "answer", "value", "exit", "exit later", "helper", "work"],
)
def test_a_broken_task_is_never_blamed_on_the_submission(tmp_path: Path, reference: str, words: str) -> None:
    result = evaluate(tmp_path, RIGHT, a_task(reference)).result
    assert result.verdict is Verdict.TASK_ERROR
    assert words in result.message


@pytest.mark.parametrize(("module", "library"), [("torch", "PyTorch"), ("numpy", "NumPy")])
@pytest.mark.parametrize("place", ["import random", "def generate_input(size, seed):"])
def test_a_library_that_the_job_s_python_lacks_is_not_the_task_s_fault(
    tmp_path: Path, module: str, library: str, place: str
) -> None:
    lacking = f"import sys; sys.modules['{module}'] = None; import {module}"
    indent = "    " if place.endswith(":") else ""
    reference = REFERENCE.replace(place, f"{place}\n{indent}{lacking}", 1)
    result = evaluate(tmp_path, RIGHT, a_task(reference)).result
    assert result.verdict is Verdict.INFRA_ERROR, result.message
    assert f"the Python {sys.executable} has no {library}, which the task needs" in result.message
    assert f"`{sys.executable} -m pip install {module}`" in result.message
    assert "as gpus.CPU.python in the settings" in result.message
    assert len(result.cases) <= 1


def test_an_output_whose_form_depends_on_the_values_is_compared_with_the_right_form(tmp_path: Path) -> None:
    reference = REFERENCE.replace("for _ in range(size)", "for _ in range(size + seed % 7)")
    assert evaluate(tmp_path, RIGHT, a_task(reference), mode=Mode.RANKED).result.verdict is Verdict.PASS


@pytest.mark.parametrize("answer", ["True", "''", "(True, 'close')"])
def test_the_three_forms_of_a_check_s_answer_count(tmp_path: Path, answer: str) -> None:
    reference = REFERENCE.replace('return True, ""', f"return {answer}")
    assert evaluate(tmp_path, RIGHT, a_task(reference)).result.verdict is Verdict.PASS


def test_a_job_folder_whose_submission_was_exchanged_is_not_evaluated(tmp_path: Path) -> None:
    folder = make_job_folder(tmp_path, RIGHT, a_task(), Mode.TEST)
    (folder / "submission/submission.py").write_text(RIGHT + "# another\n")
    result = judged_in(folder)
    assert result.verdict is Verdict.INFRA_ERROR
    assert "not the file that was sent" in result.message


def test_the_harness_runs_under_the_oldest_python_that_sites_have(tmp_path: Path) -> None:
    candidates = ["python3.10", *map(str, Path.home().glob(".pyenv/versions/3.10.*/bin/python3.10"))]
    python = next((path for path in candidates if _version(path)), None)
    if python is None:
        pytest.skip("no Python 3.10 on this machine")
    folder = make_job_folder(tmp_path, RIGHT, a_task(), Mode.RANKED)
    script = (folder / job_folder.SCRIPT).read_text().replace(sys.executable, python)
    (folder / job_folder.SCRIPT).write_text(script)
    result = judged_in(folder)
    assert result.verdict is Verdict.PASS, result.message
    assert result.provenance["python"].startswith("3.10.")


def _version(python: str) -> str:
    try:
        done = subprocess.run([python, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


@pytest.mark.slow
def test_the_first_load_may_compile_for_as_long_as_a_compiler_and_finds_the_programs_of_its_python(
    tmp_path: Path,
) -> None:
    source = f"""
import os, sys, time
assert os.environ["PATH"].split(":")[-1] == os.path.dirname(sys.executable)
built = os.path.join(os.environ["TORCH_EXTENSIONS_DIR"], "built")
if not os.path.exists(built):
    time.sleep(5)
    os.makedirs(built)
{RIGHT}"""
    task = a_task(limits={**QUICK, "load_seconds": 4, "build_seconds": 60})
    passed = evaluate(tmp_path / "a", source, task, Mode.RANKED).result
    assert passed.verdict is Verdict.PASS, passed.message
    late = evaluate(tmp_path / "b", source.replace("os.makedirs(built)", ""), task, Mode.RANKED).result
    assert late.verdict is Verdict.TIMEOUT
    assert "importing the submission did not return within 4 s" in late.message
