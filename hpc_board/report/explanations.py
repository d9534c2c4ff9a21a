"""Explanations of verdicts and of runs without a result."""

import re
from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from hpc_board.domain.run import RunState
from hpc_board.model.device_faults import DEVICE_FAULTS, device_fault
from hpc_board.model.mismatch import Cause
from hpc_board.model.result import (
    LIBRARY_LACKING,
    LIBRARY_MISSING,
    NEEDS_GPU,
    SCRATCH_UNWRITABLE,
    UNCAUGHT,
    USES_ONE,
    Case,
    Verdict,
)
from hpc_board.model.sanitizer import CPU_TOOL, CUDA_TOOLS
from hpc_board.model.task import HIDDEN, Language, language_of


class Meaning(msgspec.Struct, frozen=True):
    """An explanation: one sentence on the event, one on the next step."""

    what: str
    next: str


def verdict_meaning(
    verdict: Verdict,
    message: str = "",
    *,
    task: str = "TASK",
    on_cpu: bool = False,
    stored: bool = True,
    failed: Case | None = None,
    file_name: str = "",
) -> Meaning:
    """Explain a verdict.

    `message` is that of the result; `task` is the name in commands; `on_cpu` says that the board's jobs run on a CPU; a
    run that is not `stored` is a trial of the task's author; `failed` is its first failed case, and `file_name` that
    of the submission.
    """
    if failed is not None and failed.mismatch is not None and failed.mismatch.cause is not None:
        return _CAUSES[failed.mismatch.cause]
    if failed is not None and verdict is Verdict.WRONG_VALUE and failed.spec.startswith(HIDDEN):
        return _WRONG_IN_HIDDEN
    meaning = _verdict_meaning(verdict, message, on_cpu=on_cpu, stored=stored)
    if meaning is _VERDICTS[Verdict.CRASH] and on_cpu and language_of(file_name) is Language.CPP:
        return _SANITIZABLE
    return replace(meaning, next=re.sub(r"(hpc-board (?:template|task)) TASK", rf"\1 {task}", meaning.next))


def _verdict_meaning(verdict: Verdict, message: str, *, on_cpu: bool, stored: bool) -> Meaning:
    if verdict is Verdict.TASK_ERROR and not stored:
        return _TASK_OF_AUTHOR
    if on_cpu and verdict is Verdict.DEVICE_ERROR and _NO_ARCH not in message:
        return _COMPILED_FOR_GPU
    if on_cpu and verdict in (Verdict.EXCEPTION, Verdict.LOAD_ERROR) and device_fault(message):
        return _NO_GPU_HERE
    if verdict is Verdict.CRASH and _FOUND.match(message):
        return _FAULTY_ACCESSES
    for words, meaning in _BY_MESSAGE.get(verdict, {}).items():
        if words in message:
            return meaning
    return _VERDICTS[verdict]


def failed_case(cases: Iterable[Case]) -> Case | None:
    """Return the first case that failed, if any."""
    return next((case for case in cases if case.verdict is not Verdict.PASS), None)


def state_meaning(state: RunState) -> Meaning:
    """Explain the end of a run without a result.

    Raises:
        KeyError: the state is not an end, or is `finished`, which the verdict explains.
    """
    return _ENDS[state]


_NO_ARCH = "the target architecture is unknown"

_TASK_OF_AUTHOR = Meaning(
    "The task's files failed; the submission was not evaluated.",
    "Correct the cause in the message; `hpc-board task check` tests every case of the task.",
)

_WRONG_IN_HIDDEN = Meaning(
    "The output of a hidden case differs from the reference by more than the task accepts.",
    "Only those who manage the board have its inputs: test your own sizes and values, such as sizes that are not a "
    "multiple of the block size.",
)

_NO_GPU_HERE = Meaning(
    "The submission uses a GPU, but this board's jobs run on a CPU.",
    "Use the device of the inputs, or submit to a board with GPUs: `hpc-board gpus` lists them.",
)

_COMPILED_FOR_GPU = Meaning(
    "The submission is built for a GPU, but this board's jobs run on a CPU.",
    "Submit to a board with GPUs: `hpc-board gpus` lists them. C++ and Python run here too.",
)

_NO_COMPILER = Meaning(
    "No compiler for this language on the node; your kernel was not evaluated.",
    "Ask the admin to add one with `modules` or `env` of this GPU in the settings, then rerun.",
)

_CAUSES = {
    Cause.NEVER_WRITTEN: Meaning(
        "Some elements of the output were never written.",
        "Check the bounds of loops and the number of threads or blocks, above all for the rest behind the last whole "
        "block.",
    ),
    Cause.UNINITIALIZED_READ: Meaning(
        "Some elements of the output were computed from memory that was read before it was written.",
        "Set accumulators, outputs and scratch memory before you add to them: new memory is not zero.",
    ),
    Cause.OVERFLOW: Meaning(
        "A number exceeded the range of its type.",
        "Compute sums and products in a wider type, and convert only the result.",
    ),
}

_SANITIZABLE = Meaning(
    "The submission's process exited or was killed by a signal.",
    "Submit with `--mode sanitize`: AddressSanitizer names the faulty access, its line and the memory beside it.",
)

_FOUND = re.compile(rf"(?:{'|'.join((*CUDA_TOOLS, CPU_TOOL))}) found: ")
_FAULTY_ACCESSES = Meaning(
    "A tool of mode sanitize found faulty accesses.",
    "Correct the first one; the output of the tools shows its location.",
)

_BY_MESSAGE: Mapping[Verdict, Mapping[str, Meaning]] = {
    Verdict.COMPILE_ERROR: {
        "exports no function": Meaning(
            "The submission lacks the function that the task calls.",
            "Add it; `hpc-board template TASK --language NAME` shows the signature.",
        ),
    },
    Verdict.LOAD_ERROR: {
        "ModuleNotFoundError: No module named": Meaning(
            "A module that the submission imports is not installed for the judge's Python.",
            "Do without it, or ask the admin to install it there.",
        ),
        "defines no function called": Meaning(
            "The submission lacks the function that the task calls.",
            "Add or rename it; `hpc-board template TASK` shows the signature.",
        ),
    },
    Verdict.PROTOCOL_VIOLATION: dict.fromkeys(
        ("the task forbids ", "the task requires "),
        Meaning(
            "The submission breaks the task's rule on the kernels and libraries that it may use.",
            "Compute the answer by other means; `hpc-board task TASK` shows the rule.",
        ),
    ),
    Verdict.INFRA_ERROR: {
        "cannot be used: ": Meaning(
            "The node's compiler does not accept the settings of this GPU; your kernel was not evaluated.",
            "Ask the admin to correct `arch` or `std` of this GPU, or to load a newer compiler with its `modules`.",
        ),
        "cannot be compiled": _NO_COMPILER,
        "needs a host compiler": _NO_COMPILER,
        NEEDS_GPU: Meaning(
            "The task needs a GPU, and the job ran on a CPU; your kernel was not evaluated.",
            "Submit to a GPU; the task's author can exclude CPUs by `gpus` in its task.yml.",
        ),
        LIBRARY_MISSING: Meaning(
            "The jobs' Python lacks a library that the task needs; your kernel was not evaluated.",
            "Install it as the message says, or report the message to the admin; then rerun. The bundled tasks heat "
            "and spmv need only NumPy.",
        ),
        LIBRARY_LACKING: Meaning(
            "This GPU's Python lacks a library that the submission imports; your kernel was not evaluated.",
            "Choose another GPU or library, or report the message to the admin: `hpc-board admin check` lists the "
            "languages of each GPU.",
        ),
        SCRATCH_UNWRITABLE: Meaning(
            "The node's disk for scratch files is full or not writable; your kernel was not evaluated.",
            "Ask the admin to free space there, or to set TMPDIR to another folder in this GPU's `env`; then rerun.",
        ),
        USES_ONE: Meaning(
            "The job sees more GPUs than the task uses; your kernel was not evaluated.",
            "Report the message to the admin: the job must see only the GPUs it requested.",
        ),
    },
    Verdict.CRASH: {
        "an illegal memory access": Meaning(
            "A kernel accessed memory of the GPU out of bounds.",
            "Submit with `--mode sanitize`: memcheck names the kernel and, with line information, the line.",
        ),
        "the supervisor was killed by signal": Meaning(
            "The process that supervises the kernel was killed while a case ran.",
            "Rerun it; if it recurs, the kernel kills its parent or the node runs out of memory: ask the admin.",
        ),
        # The exception may quote an error with a meaning of its own.
        UNCAUGHT: Meaning(
            "The submission threw an exception that nothing caught.",
            "Fix the error in the message; reproduce the failed case locally.",
        ),
    },
    Verdict.DEVICE_ERROR: {
        _NO_ARCH: Meaning(
            "Unknown target architecture; your kernel was not evaluated.",
            "Ask the admin to set `arch` of this GPU in the settings.",
        ),
        "was built without GPU support": Meaning(
            "This PyTorch build does not support the GPU; your kernel was not evaluated.",
            "Ask the admin to set `python` in the settings to one whose PyTorch supports this GPU.",
        ),
        **{
            each.words: Meaning(f"{each.words[0].upper()}{each.words[1:]}; your kernel is not the cause.", each.remedy)
            for each in DEVICE_FAULTS
        },
        "device can be used on this node": Meaning(
            "PyTorch found no usable GPU in the job; your kernel was not evaluated.",
            "Rerun it; if it recurs, report the message to the admin: the node is broken, or `request` in the "
            "settings does not request a GPU.",
        ),
    },
}
"""The explanations of verdicts by words of the message."""

_VERDICTS = {
    Verdict.PASS: Meaning(
        "Every case passed.",
        "Submit in mode `ranked` to enter the standings, or make it faster.",
    ),
    Verdict.WRONG_SHAPE: Meaning(
        "The output's shape differs from the reference's.",
        "Return the shape given in the task's description, for every size.",
    ),
    Verdict.WRONG_DTYPE: Meaning(
        "The output's element type differs from the reference's.",
        "Return the type given in the task's description.",
    ),
    Verdict.WRONG_VALUE: Meaning(
        "The output differs from the reference by more than the task accepts.",
        "Reproduce the failed case locally; if only sizes that are not a multiple of the block size fail, check the "
        "bounds.",
    ),
    Verdict.WRONG_NONFINITE: Meaning(
        "The output is wrong and contains NaN or infinity.",
        "Look for uninitialized memory, a division by zero, or an overflow.",
    ),
    Verdict.WRONG_ALIASED: Meaning(
        "The output shares memory with an input; the task requires new memory.",
        "Allocate a new output in every call.",
    ),
    Verdict.MUTATED_INPUT: Meaning(
        "The kernel modified a read-only input.",
        "Work on a copy, and check for writes outside the output.",
    ),
    Verdict.COMPILE_ERROR: Meaning(
        "The submission did not compile.",
        "Fix the first error in the message or in the compiler output.",
    ),
    Verdict.COMPILE_TIMEOUT: Meaning(
        "Compilation exceeded its time limit.",
        "Instantiate fewer templates, build for only one architecture, and include fewer headers.",
    ),
    Verdict.LOAD_ERROR: Meaning(
        "The submission failed to load.",
        "Fix the error in the message; `hpc-board template TASK` has the imports and the signature.",
    ),
    Verdict.EXCEPTION: Meaning(
        "The submission raised an exception or reported an error.",
        "Fix the error in the message; reproduce the failed case locally.",
    ),
    Verdict.CRASH: Meaning(
        "The submission's process exited or was killed by a signal.",
        "Look for out-of-bounds accesses in host code, and remove calls of exit() and abort().",
    ),
    Verdict.DEVICE_ERROR: Meaning(
        "The GPU failed, or the node has no usable GPU; your kernel was not evaluated.",
        "Rerun it; if it recurs, report the message to the admin.",
    ),
    Verdict.OUT_OF_MEMORY: Meaning(
        "The submission exceeded the memory of the device or the job.",
        "Free or reuse buffers between calls; keep no tensors in global variables.",
    ),
    Verdict.TIMEOUT: Meaning(
        "Loading, a call or a phase exceeded its time limit.",
        "Look for an endless loop or a missing barrier; `hpc-board task TASK` lists the limits.",
    ),
    Verdict.OUTPUT_LIMIT: Meaning(
        "The submission exceeded the output limit.",
        "Remove prints from kernel and host code, and write no large files.",
    ),
    Verdict.PROTOCOL_VIOLATION: Meaning(
        "The submission's process sent an unexpected reply to the harness.",
        "Do not tamper with inherited files, pipes or the harness's modules; only return the output.",
    ),
    Verdict.LATE_WRITE: Meaning(
        "The output changed after the kernel had returned.",
        "Finish all work on every stream and thread before returning.",
    ),
    Verdict.TIMING_INCONSISTENT: Meaning(
        "The reported times contradict the wall-clock time.",
        "Do all work within the timed call; do not tamper with clocks, events or synchronization functions.",
    ),
    Verdict.BELOW_FLOOR: Meaning(
        "The time is below the physical minimum of this device.",
        "Compute the output in every call; do not return a cached one.",
    ),
    Verdict.UNSTABLE: Meaning(
        "The outputs are correct, but the machine was too busy to verify the times.",
        "Rerun it when the node is idle; if it recurs, ask the admin what else runs on it.",
    ),
    Verdict.TASK_ERROR: Meaning(
        "The task's files failed; your kernel was not evaluated.",
        "Send the message to the task's author; `hpc-board run ID` shows it again.",
    ),
    Verdict.INFRA_ERROR: Meaning(
        "The node or the harness failed; your kernel was not evaluated.",
        "Rerun it; if it recurs, report the message to the admin.",
    ),
}

_ENDS = {
    RunState.CANCELLED: Meaning(
        "The run was cancelled before it had a result.",
        "Rerun it if you need a result.",
    ),
    RunState.TIMEOUT: Meaning(
        "The scheduler ended the job at its time limit.",
        "Look for a call that never returns; on a slow node, rerun it, and tell the admin if it recurs.",
    ),
    RunState.OUT_OF_MEMORY: Meaning(
        "The job exceeded its host memory and was killed.",
        "Use less host memory, or ask the admin to raise `memory` for this GPU in the settings.",
    ),
    RunState.NODE_FAIL: Meaning(
        "The node failed during the job, or could not start it.",
        "Rerun it; the kernel is not the cause.",
    ),
    RunState.PREEMPTED: Meaning(
        "Another job preempted this one.",
        "Rerun it, preferably at a quieter time.",
    ),
    RunState.LOST: Meaning(
        "The scheduler no longer knows the job, and no result arrived.",
        "Rerun it; if it recurs, show the evidence to the admin.",
    ),
    RunState.ERROR: Meaning(
        "hpc-board or the cluster failed, not your kernel: the job was not sent, or left no valid result.",
        "Read the reason and the job output, then rerun; if it recurs, show both to the admin.",
    ),
}
