"""Windows of a GPU as far as a machine without one can tell: the order of the steps, and workers that break it."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hpc_board.harness.measure.gpu_worker import GpuWorker
from hpc_board.harness.measure.window_benchmarks import _Measured
from hpc_board.harness.node_probe import trial
from hpc_board.harness.processes.calls import TimeBudget
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.limits import Limits
from hpc_board.model.result import Case, Result, Verdict
from hpc_board.model.task import Mode
from hpc_board.runs.job_folder import probe_facts
from tests.harness.evaluations import QUICK, a_task, evaluate, progress
from tests.harness.harness_file import Edit
from tests.harness.simulated_gpu import simulating
from tests.harness.test_honest_forms import FORMS, submission_of, task_of

REFERENCE = """
import torch

def generate_input(size, seed):
    return torch.rand(size, generator=torch.Generator().manual_seed(seed)), size

def ref_kernel(data):
    return data[0] * 2

def check_implementation(data, output):
    return "" if torch.equal(output, data[0] * 2) else f"wrong: {output} instead of {data[0] * 2}"
"""
ZEROS = REFERENCE.replace("torch.rand(size, generator=torch.Generator().manual_seed(seed))", "torch.zeros(size)")
RIGHT = """
import gc
import sys

import torch

OVERHEAD_IS_KNOWN = any(type(each).__name__ == "GpuQueue" for each in gc.get_objects())

def sent_by_judge():
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "_enqueue":
        frame = frame.f_back
    return frame and frame.f_locals["frame"]

def in_window():
    return sent_by_judge() is not None

def queue():
    return next(each for each in gc.get_objects() if type(each).__name__ == "GpuQueue")

def custom_kernel(data):
    return data[0] + data[0]
"""


def judged(
    folder: Path,
    harness: bytes,
    kernel: str = "",
    reference: str = REFERENCE,
    mode: Mode = Mode.BENCHMARK,
    *,
    const_inputs: bool = False,
    before: str = "",
) -> Result:
    """The result of a kernel, the right one where `kernel` adds no lines to its function, on a simulated GPU."""
    source = before + RIGHT.replace("    return data[0] + data[0]", f"{kernel}    return data[0] + data[0]")
    task = a_task(reference, const_inputs=const_inputs, benchmarks=({"size": 1000, "seed": 5},), limits=QUICK)
    return evaluate(folder, source, task, mode, Device.CUDA, harness=harness).result


WEIGHED = (
    REFERENCE.replace("return torch.rand", "weight = torch.rand(size) + 1\n    return torch.rand")
    .replace("(seed)), size", "(seed)), weight")
    .replace("data[0] * 2", "data[0] * data[1]")
)
PREPARED = """
def prepare(weight):
    return [weight]

def custom_kernel(data, state):
    return data[0] * state[0]
"""


@pytest.mark.torch
@pytest.mark.parametrize("mode", [Mode.TEST, Mode.BENCHMARK])
def test_a_call_in_a_window_has_the_state_of_its_fixed_inputs(tmp_path: Path, simulated: str, mode: Mode) -> None:
    task = a_task(WEIGHED, prepare=(1,), benchmarks=({"size": 1000, "seed": 5},), limits=QUICK)
    result = evaluate(tmp_path, PREPARED, task, mode, Device.CUDA, harness=simulating(simulated)).result
    assert result.verdict is Verdict.PASS, result.message
    assert result.provenance["prepare_seconds"] > 0
    wrong = evaluate(
        tmp_path / "wrong",
        PREPARED.replace("[weight]", "[1.5]"),
        task,
        mode,
        Device.CUDA,
        harness=simulating(simulated),
    )
    assert wrong.result.verdict is Verdict.WRONG_VALUE


def timed(result: Result) -> Case:
    assert (result.verdict, result.message) == (Verdict.PASS, "")
    (case,) = [case for case in result.cases if case.phase == "benchmark"]
    return case


@pytest.mark.quiet
@pytest.mark.torch
def test_a_call_that_waits_for_the_gpu_is_made_by_the_host_and_says_so(tmp_path: Path, simulated: str) -> None:
    result = judged(tmp_path, simulating(simulated), mode=Mode.RANKED)
    case = timed(result)
    assert result.provenance["clock"] == "judge"
    assert case.timing is not None
    assert len(case.timing.worker_samples) == 3
    assert case.timing.kernel_clock_ns is None
    assert case.message.startswith("the call synchronizes with the GPU itself")
    steps = [line for line in progress(tmp_path / "runs" / "7") if line["phase"] == "benchmark"]
    assert ["timed" in line for line in steps] == [False, *[True] * (len(steps) - 1)]
    assert all(line["timed"]["time_ns"] > 0 for line in steps[1:])


@pytest.mark.torch
def test_a_call_that_is_queued_is_timed_while_its_process_is_stopped(tmp_path: Path, simulated: str) -> None:
    result = judged(tmp_path, simulating(simulated, waiting=False), reference=ZEROS)
    case = timed(result)
    assert result.provenance["clock"] == "audited"
    assert isinstance(result.provenance["clock_drift_ns"], float)
    assert case.timing is not None
    assert case.timing.reference_ns is not None
    assert case.timing.kernel_clock_ns is not None
    assert case.timing.time_ns == max(case.timing.kernel_clock_ns, case.timing.bound_ns or 0.0)
    (log,) = tmp_path.glob("**/windows.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    # The reference is called up to 5 times more if the scatter of its times is wide.
    assert 0 <= Counter(line["made"] for line in lines)["call"] - (6 + 3 + 8) <= 5, (
        "the reference's, trials and an audit"
    )
    assert all(line["window_ns"] > 0 and line["copied_ns"] >= 0 and not line["by_host"] for line in lines)
    assert {line["verdict"] for line in lines} == {"pass"}
    assert len({line["process"] for line in lines}) == 2


LATER = """
import os

FORMER = sum(os.path.exists(f"/dev/shm/NAME.import{number}") for number in range(9))
open(f"/dev/shm/NAME.import{FORMER}", "x").close()
IS_LAST = FORMER == 3
"""
"""For the last process of a ranked run, behind that of the tests and two others."""


@pytest.mark.torch
def test_calls_that_wait_in_the_last_process_alone_are_timed_as_those_of_the_first(
    tmp_path: Path, simulated: str
) -> None:
    edits = (Edit("measure/gpu_worker.py", "_QUEUE_SECONDS = 5", "_QUEUE_SECONDS = 0.2"),)
    harness = simulating(simulated, waiting=False, edits=edits)
    kernel = "    if in_window() and IS_LAST:\n        __import__('time').sleep(0.4)\n"
    result = judged(tmp_path, harness, kernel, ZEROS, Mode.RANKED, before=LATER.replace("NAME", simulated))
    timing = timed(result).timing
    assert timing is not None
    assert (result.provenance["clock"], len(timing.worker_samples)) == ("audited", 3)
    assert timing.kernel_clock_ns is not None
    (log,) = tmp_path.glob("**/windows.jsonl")
    assert any(json.loads(line)["by_host"] for line in log.read_text().splitlines())


@pytest.mark.torch
def test_the_overhead_is_measured_before_the_submission_is_imported(tmp_path: Path, simulated: str) -> None:
    kernel = "    if in_window() and not OVERHEAD_IS_KNOWN:\n        return data[0]\n"
    timed(judged(tmp_path, simulating(simulated), kernel))


@pytest.mark.torch
@pytest.mark.parametrize(
    ("kernel", "verdict", "message"),
    [
        ("    if in_window():\n        return data[0] + 1\n", Verdict.WRONG_VALUE, "wrong: "),
        (
            "    if in_window():\n        data[0].zero_()\n        return data[0]\n",
            Verdict.MUTATED_INPUT,
            "the call modified its inputs",
        ),
        (
            "    if in_window():\n        queue()._response.zero_()\n",
            Verdict.TIMING_INCONSISTENT,
            "its GPU did not meet the judge's challenge within the call",
        ),
        (
            "    if in_window():\n        queue().place = lambda part: (0, 2**40, 4000)\n",
            Verdict.PROTOCOL_VIOLATION,
            "its GPU memory is not where it claims: 4000 bytes at 1099511627776 of an allocation of",
        ),
        (
            "    if in_window():\n        queue().place = lambda part: (9, 0, 4000)\n",
            Verdict.PROTOCOL_VIOLATION,
            "it sent a frame with unexpected content",
        ),
        (
            "    if in_window():\n        queue().handles[:], queue().place = [b'0' * 64], lambda part: (0, 0, 4000)\n",
            Verdict.PROTOCOL_VIOLATION,
            "its GPU memory is not where it claims: not opened",
        ),
        (
            "    if in_window():\n        import time\n        time.sleep(60)\n",
            Verdict.TIMEOUT,
            "a benchmark call did not return within 3 s",
        ),
        (
            "    if in_window():\n        return [data[0]] * 401\n",
            Verdict.WRONG_DTYPE,
            "the output is a list, expected a tensor",
        ),
        (
            "    if in_window():\n        inputs = queue().inputs()\n        queue().place = lambda part: inputs[0]\n",
            Verdict.PROTOCOL_VIOLATION,
            "its output is in the memory of an input",
        ),
        (
            "    if in_window():\n        queue().place = lambda part: (0, 0, 3996)\n",
            Verdict.PROTOCOL_VIOLATION,
            "the parts of its output differ from those of the reference's answer",
        ),
        (
            "    if in_window():\n        queue().place = lambda part: (0, 0, 0)\n",
            Verdict.PROTOCOL_VIOLATION,
            "it sent a frame with unexpected content",
        ),
        (
            "    if in_window():\n        sent_by_judge()['call'] = 1\n",
            Verdict.PROTOCOL_VIOLATION,
            "it queued another call",
        ),
        ("    if in_window():\n        raise ValueError('no')\n", Verdict.EXCEPTION, "ValueError: no"),
        ("    if in_window():\n        return None\n", Verdict.WRONG_DTYPE, "custom_kernel returned None"),
        ("    if in_window():\n        import os\n        os._exit(3)\n", Verdict.CRASH, "it exited with status 3"),
    ],
)
def test_a_call_that_breaks_its_window_fails(
    tmp_path: Path, simulated: str, kernel: str, verdict: Verdict, message: str
) -> None:
    result = judged(tmp_path, simulating(simulated), kernel, const_inputs=True)
    assert result.verdict is verdict
    assert message in result.message
    assert result.provenance["clock"] in ("audited", "judge")


@pytest.mark.torch
def test_a_call_that_the_gpu_never_ends_is_late_also_with_its_process_running(tmp_path: Path, simulated: str) -> None:
    kernel = "    if in_window():\n        queue().end = lambda number: None\n"
    result = judged(tmp_path, simulating(simulated, waiting=False), kernel, ZEROS)
    assert (result.verdict, result.message.partition(": ")[2]) == (
        Verdict.TIMEOUT,
        "1000; seed: 5): the GPU has not finished the call although its process says so",
    )


@pytest.mark.torch
def test_right_answers_in_windows_are_made_to_have_the_form(tmp_path: Path, simulated: str) -> None:
    names = ("views with gaps", "expanded", "negative", "no elements", "twice the same", "a subclass", "its input")
    references, answers = zip(*(FORMS[name] for name in names), strict=True)
    source, task = submission_of(*answers), task_of(*references)
    result = evaluate(tmp_path, source, task, Mode.BENCHMARK, Device.CUDA, harness=simulating(simulated)).result
    assert (result.verdict, result.provenance["clock"]) == (Verdict.PASS, "judge"), result.message


NO_HANDLES = Edit("device/gpu_queue.py", "handle, offset = self._driver.exported(address)", "raise NotShared('alone')")


NOT_OPENED = Edit("device/gpu_window.py", "= self._driver.opened(handle)", "= _closed()")
"""In another namespace of processes a worker's handle exists, and the judge cannot open it."""
CLOSED = Edit("device/gpu_window.py", "_entropy = ", "def _closed():\n    raise NotShared('closed')\n\n\n_entropy = ")


@pytest.mark.torch
@pytest.mark.parametrize("waiting", [True, False])
@pytest.mark.parametrize("edits", [(NO_HANDLES,), (NOT_OPENED, CLOSED)], ids=["no-handles", "not-opened"])
def test_memory_that_cannot_be_shared_is_the_judges(
    tmp_path: Path, simulated: str, waiting: bool, edits: tuple[Edit, ...]
) -> None:
    reference = REFERENCE if waiting else ZEROS
    result = judged(tmp_path, simulating(simulated, waiting=waiting, edits=edits), reference=reference)
    assert timed(result).timing is not None
    assert result.provenance["clock"] == ("judge" if waiting else "audited")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("kernel", "verdict"),
    [
        ("        return data[0] + 1\n", Verdict.WRONG_VALUE),
        ("        queue().place = lambda part: (0, 2**40, 4000)\n", Verdict.PROTOCOL_VIOLATION),
    ],
)
def test_a_call_in_memory_of_the_judge_is_checked_as_any(
    tmp_path: Path, simulated: str, kernel: str, verdict: Verdict
) -> None:
    result = judged(tmp_path, simulating(simulated, edits=(NO_HANDLES,)), f"    if in_window():\n{kernel}")
    assert result.verdict is verdict, result.message


@pytest.mark.torch
@pytest.mark.parametrize(("minimum", "verdict"), [("worker", Verdict.PASS), ("judge", Verdict.INFRA_ERROR)])
def test_windows_that_copy_large_outputs_bound_no_time(
    tmp_path: Path, simulated: str, minimum: str, verdict: Verdict
) -> None:
    demanded = Edit("job_spec.py", 'value.get("minimum_clock", "")', repr(minimum))
    harness = simulating(simulated, waiting=False, output_share_max=-1.0, edits=(NO_HANDLES, demanded))
    result = judged(tmp_path, harness, reference=ZEROS, mode=Mode.RANKED)
    reason = "outputs are copied within the judge's windows"
    assert (result.verdict, result.provenance["clock"]) == (verdict, "worker")
    assert reason in result.provenance["clock_reason"]
    assert (reason in result.message) == (minimum == "judge")


def test_the_shortest_overhead_of_a_run_counts_for_all_workers() -> None:
    measured = _Measured(claims=[[1.0], [1.0]], windows=[[90_000.0], [87_000.0]])
    measured.overheads_ns, measured.subtracted_ns = [250_000.0, 250_000.0, 253_000.0], [250_000.0, 253_000.0]
    found = measured.timing(0.0)
    assert found is not None
    assert (found.slack_ns, found.time_ns) == (3000.0, 87_000.0)


class Silent:
    """A worker's process that takes a call and answers nothing."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def send(self, frame: dict[str, Any], _fds: Sequence[int] = ()) -> None:
        self.sent.append(frame["type"])


def test_a_call_that_is_known_to_wait_for_the_gpu_is_not_waited_for() -> None:
    child: Any = Silent()
    worker = GpuWorker(child, Limits(), TimeBudget(10), device="cuda")
    assert worker.queue(challenged=True, by_host=True) is None
    assert child.sent == ["queue"]


LYING = """    device = next(each for each in gc.get_objects() if type(each).__name__ == "CudaDevice")
    if "honest" not in globals():
        globals()["honest"] = device.timed
        device.timed = lambda call, shown, cold: (honest(call, shown, cold=cold)[0], 1.0)
"""


@pytest.mark.torch
def test_a_false_claim_gains_the_slack_of_the_windows_alone(tmp_path: Path, simulated: str) -> None:
    # A simulated window contains nothing of the call.
    longer = Edit("measure/window_benchmarks.py", "return call.window_ns", "return 1e9 + call.window_ns")
    case = timed(judged(tmp_path, simulating(simulated, waiting=False, edits=(longer,)), LYING, ZEROS))
    assert case.timing is not None
    assert case.timing.kernel_clock_ns == 1
    assert (case.timing.slack_ns or 0) >= 0.02 * 0.9e9
    assert case.timing.time_ns == case.timing.bound_ns
    assert 0.9e9 < case.timing.time_ns < 1.1e9
    assert case.message.startswith("the kernel's own clock shows 1.00 ns; the judge's lower bound is ")
    assert case.message.endswith(" of slack already deducted)")


@pytest.mark.torch
def test_windows_that_differ_without_a_call_bound_no_time(tmp_path: Path, simulated: str) -> None:
    # No difference is small beside the time of the call.
    none = Edit("measure/window_benchmarks.py", "self._limits.interval * found.time_ns if found else 0.0", "0.0")
    harness = simulating(simulated, waiting=False, scatter_ns_max=0, edits=(none,))
    result = judged(tmp_path, harness, reference=ZEROS)
    assert result.verdict is Verdict.UNSTABLE
    assert "the judge's overhead varied by" in result.message
    assert "during this run; another process may be using the GPU" in result.message


NO_FORM = REFERENCE.replace("2\n\n", "2, 1\n\n").replace("equal(output,", "equal(output[0],")
UNSHARED = Edit(
    "worker/worker.py", "        queue = self._gpu()\n        queue.clear()", "        raise NotShared('it has none')"
)


def unallocated(error: str) -> tuple[Edit, ...]:
    """The judge has no memory of the GPU for a worker that cannot share its own, and says so by an error."""
    fails = (
        "from hpc_board.harness.device.gpu_driver import NotShared, OutOfMemoryError\n\n\n"
        f"def _unallocated():\n    raise {error}\n\n\n_entropy = "
    )
    allocates = Edit("device/gpu_window.py", "self._driver.allocated(size)", "_unallocated()")
    return NO_HANDLES, allocates, Edit("device/gpu_window.py", "_entropy = ", fails)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("reference", "kernel", "change", "reason"),
    [
        (NO_FORM, "    return data[0] * 2, 1\n", {}, "the reference's output has no fixed form"),
        (
            REFERENCE.replace("(seed)), size", "(seed)), list(range(100))"),
            "",
            {},
            "the inputs are not all in tensors",
        ),
        (REFERENCE, "", {"change_ns_min": 1e12}, "less than a change between processes: is MPS in use?"),
        (REFERENCE, "", {"edits": (UNSHARED,)}, "memory of the GPU cannot be shared: it has none"),
        (
            REFERENCE,
            "",
            {"edits": unallocated("NotShared('no fd')")},
            "memory of the GPU cannot be shared: alone; memory of the GPU cannot be shared: no fd",
        ),
    ],
    ids=["answer", "inputs", "several at once", "not shared", "neither kind"],
)
def test_a_gpu_without_windows_is_timed_by_its_worker_and_says_so(
    tmp_path: Path, simulated: str, reference: str, kernel: str, change: dict[str, Any], reason: str
) -> None:
    result = judged(tmp_path, simulating(simulated, **change), kernel, reference)
    assert timed(result).timing is not None
    assert result.provenance["clock"] == "worker"
    assert reason in str(result.provenance["clock_reason"])


LOST = "def _lost():\n    raise RuntimeError('CUDA error: GPU is lost')\n\n\n_entropy = "
FAILS = (
    Edit("device/gpu_window.py", "_entropy = ", LOST),
    Edit("device/gpu_window.py", "= self._driver.opened(handle)", "= _lost()"),
)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("edits", "verdict", "message"),
    [
        (
            unallocated("OutOfMemoryError('full')"),
            Verdict.OUT_OF_MEMORY,
            "the memory of a call cannot be allocated, out of memory: OutOfMemoryError",
        ),
        (FAILS, Verdict.DEVICE_ERROR, "the call cannot be timed: RuntimeError: CUDA error: GPU is lost"),
    ],
)
def test_a_gpu_that_fails_the_judge_in_a_window_says_so(
    tmp_path: Path, simulated: str, edits: tuple[Edit, ...], verdict: Verdict, message: str
) -> None:
    result = judged(tmp_path, simulating(simulated, edits=edits))
    assert result.verdict is verdict, result.message
    assert message in result.message


@pytest.mark.torch
def test_a_board_can_refuse_ranked_runs_without_the_judges_clock(tmp_path: Path, simulated: str) -> None:
    demanded = Edit("job_spec.py", 'value.get("minimum_clock", "")', "'judge'")
    result = judged(tmp_path, simulating(simulated, edits=(UNSHARED, demanded)), mode=Mode.RANKED)
    assert (result.verdict, result.provenance["clock"]) == (Verdict.INFRA_ERROR, "worker")
    assert "memory of the GPU cannot be shared: it has none. To rank times of the kernel's own process, set" in (
        result.message
    )


@pytest.mark.torch
def test_python_on_an_amd_gpu_is_timed_by_its_worker_and_says_so(tmp_path: Path, simulated: str) -> None:
    task = a_task(REFERENCE, benchmarks=({"size": 1000, "seed": 5},), limits=QUICK)
    harness = simulating(simulated)
    result = evaluate(tmp_path, RIGHT, task, Mode.BENCHMARK, Device.HIP, harness=harness).result
    assert timed(result).timing is not None
    assert result.provenance["clock"] == "worker"
    assert result.provenance["clock_reason"] == "the judge has no windows on GPUs with the device hip"


COPIES = Edit(
    "device/device.py",
    "        kept, kind = self.kept, type(value)\n        if kind in (kept.tensor_type",
    "        kept, kind = self.kept, type(value)\n        if kind.__name__ == 'Tensor':\n"
    "            return value.clone()\n        if kind in (kept.tensor_type",
)
"""Has the simulated GPU copy outputs behind a call, as a real one does."""


@pytest.mark.torch
def test_a_kernel_with_one_output_buffer_passes_by_a_workers_clock(tmp_path: Path, simulated: str) -> None:
    task = a_task(REFERENCE, benchmarks=({"size": 1000, "seed": 5},), limits={**QUICK, "burst_calls": 5})
    kernel = (
        "import torch\nkept = torch.empty(1000)\n\n"
        "def custom_kernel(data):\n    return torch.mul(data[0], 2, out=kept)\n"
    )
    result = evaluate(
        tmp_path, kernel, task, Mode.BENCHMARK, Device.HIP, harness=simulating(simulated, edits=(COPIES,))
    ).result
    assert timed(result).timing is not None


@pytest.mark.torch
@pytest.mark.parametrize(("answer", "verdict"), [("data[0]", Verdict.WRONG_ALIASED), ("data[0] + 0", Verdict.PASS)])
def test_an_answer_in_an_input_is_refused_by_a_workers_clock_too(
    tmp_path: Path, simulated: str, answer: str, verdict: Verdict
) -> None:
    task = a_task(REFERENCE.replace("data[0] * 2", "data[0]"), fresh_output=True, limits=QUICK)
    kernel = f"def custom_kernel(data):\n    return {answer}\n"
    result = evaluate(
        tmp_path, kernel, task, Mode.TEST, Device.HIP, harness=simulating(simulated, edits=(COPIES,))
    ).result
    assert result.verdict is verdict, result.message


@pytest.mark.torch
@pytest.mark.parametrize(
    ("edits", "verdict", "clock", "reason"),
    [
        ((), "pass", "judge", "the calls of benchmark case 1 synchronize with the GPU themselves"),
        ((UNSHARED,), "pass", "worker", "memory of the GPU cannot be shared: it has none"),
    ],
)
def test_a_probe_job_tries_the_clock_of_its_gpu(
    tmp_path: Path, simulated: str, edits: tuple[Edit, ...], verdict: str, clock: str, reason: str
) -> None:
    harness = tmp_path / "harness.pyz"
    harness.write_bytes(simulating(simulated, edits=edits))
    gpu = Gpu("H100", Cluster("here", "local"), Device.CUDA)
    job = {**probe_facts(gpu, "n", 1.0, ""), "allow_root": True}
    found = trial(job, harness, tmp_path / "trial")
    # By the worker's clock, calls on a busy machine cannot be checked.
    assert found.verdict in (verdict, "unstable" if clock == "worker" else verdict), found
    assert (found.clock, found.reason) == (clock, reason), found


def test_a_trial_without_a_result_says_so(tmp_path: Path) -> None:
    harness = tmp_path / "harness.pyz"
    harness.write_bytes(b"no program")
    job = probe_facts(Gpu("H100", Cluster("here", "local"), Device.CUDA), "n", 1.0, "")
    found = trial(job, harness, tmp_path / "trial")
    assert (found.verdict, found.message.startswith("it left no result")) == ("infra_error", True)
