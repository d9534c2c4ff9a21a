"""Explanations of verdicts and of runs without a result."""

import re
from collections.abc import Mapping

import msgspec

from hpc_board.domain.run import RunState
from hpc_board.model.device_faults import DEVICE_FAULTS, device_fault
from hpc_board.model.result import LIBRARY_LACKING, LIBRARY_MISSING, SCRATCH_UNWRITABLE, USES_ONE, Verdict
from hpc_board.model.sanitizer import CPU_TOOL, CUDA_TOOLS
from hpc_board.model.task import Mode


class Meaning(msgspec.Struct, frozen=True):
    """An explanation: one sentence on the event, one on the next step."""

    what: str
    next: str


BELOW = dict.fromkeys(("message", "build", "log", "profile", "evidence"), "below")
"""The words for the places of a run's output in a report."""

PAGES = {
    "message": "on the page Overview (key 1)",
    "log": "on the page Log (key 3)",
    "build": "on the page Build (key 4)",
    "profile": "on the page Profile (key 5)",
    "evidence": "on the page Evidence (key 6)",
}
"""The words for the places of a run's output in the app."""


def verdict_meaning(
    verdict: Verdict,
    message: str = "",
    *,
    on_cpu: bool = False,
    below: str | None = None,
    stored: bool = True,
    mode: Mode | None = None,
    uneven: bool = False,
    places: Mapping[str, str] = BELOW,
) -> Meaning:
    """Explain a verdict.

    `message` is that of the result; `on_cpu` says that the board's jobs run on a CPU; `below` is the text that the
    report shows further down, None for the usual; a run that is not `stored` is a trial of the task's author. `mode` is
    the run's; `uneven` says that cases failed only at sizes that are no multiple of a block; `places` has the words for
    the places of the run's output.
    """
    meaning = _verdict_meaning(verdict, message, on_cpu=on_cpu, below=below, stored=stored)
    advice = ""
    if verdict is Verdict.WRONG_VALUE and uneven and not _ALL_WRONG.search(message):
        advice = "; sizes that are no multiple of a block are the usual cause"
    elif verdict is Verdict.COMPILE_ERROR and mode is not Mode.TEST:
        advice = "; try `--mode test` before `ranked`"
    return Meaning(meaning.what, meaning.next.format(**places, advice=advice))


def _verdict_meaning(verdict: Verdict, message: str, *, on_cpu: bool, below: str | None, stored: bool) -> Meaning:
    if verdict is Verdict.TASK_ERROR and not stored:
        return _TASK_OF_AUTHOR
    if on_cpu and verdict is Verdict.DEVICE_ERROR and _NO_ARCH not in message:
        return _COMPILED_FOR_GPU
    if on_cpu and verdict in (Verdict.EXCEPTION, Verdict.LOAD_ERROR) and device_fault(message):
        return _NO_GPU_HERE
    if verdict is Verdict.CRASH and _FOUND.match(message):
        return _FAULTY_ACCESSES
    for told, words, meaning in _BY_MESSAGE:
        if verdict is told and words in message:
            return meaning
    if below is not None and verdict in _BARE and _BARE[verdict][0] not in below:
        return _BARE[verdict][1]
    return _VERDICTS[verdict]


def state_meaning(state: RunState, places: Mapping[str, str] = BELOW) -> Meaning:
    """Explain the end of a run without a result; `places` has the words for the places of its output.

    Raises:
        KeyError: the state is not an end, or is `finished`, which the verdict explains.
    """
    meaning = _ENDS[state]
    return Meaning(meaning.what, meaning.next.format(**places))


_NO_ARCH = "nothing says what to compile for"

_TASK_OF_AUTHOR = Meaning(
    "The task's files failed; the submission was not judged.",
    "Correct the cause in the message; `hpc-board task check` tests every case of the task.",
)

_BARE = {
    Verdict.COMPILE_ERROR: (
        "error",
        Meaning(
            "The submission did not compile.",
            "Correct the cause in the message above.",
        ),
    ),
    Verdict.LOAD_ERROR: (
        "Traceback",
        Meaning(
            "The submission failed to load, or lacks the function that the task calls.",
            "Correct the cause in the message above; compare imports and function name with `hpc-board template TASK`.",
        ),
    ),
    Verdict.EXCEPTION: (
        "Traceback",
        Meaning(
            "The submission reported an error.",
            "Read the message above; reproduce the failed case locally.",
        ),
    ),
}
"""The word that the usual explanation of a verdict refers to, and the explanation if the report lacks it."""

_NO_GPU_HERE = Meaning(
    "The submission uses a GPU, but this board's jobs run on a CPU.",
    "Use the device of the inputs, or submit to a board with GPUs: `hpc-board gpus` lists them.",
)

_COMPILED_FOR_GPU = Meaning(
    "The submission is built for a GPU, but this board's jobs run on a CPU.",
    "Submit to a board with GPUs: `hpc-board gpus` lists them. C++ and Python run here too.",
)

_ALL_WRONG = re.compile(r"\b(\d+) of \1 [a-z]+ (?:are|differ)\b")
"""The end of a check's message if every element is wrong."""

_NO_COMPILER = Meaning(
    "No compiler for this language on the node; your kernel was not judged.",
    "Ask the admin to add one with `modules` or `env` of this GPU in the settings, then resubmit.",
)

_FOUND = re.compile(rf"(?:{'|'.join((*CUDA_TOOLS, CPU_TOOL))}) found: ")
_FAULTY_ACCESSES = Meaning(
    "A tool of mode sanitize found faulty accesses.",
    "Correct the first one at its place; the output of the tools is {profile}.",
)

_BY_MESSAGE = (
    (
        Verdict.COMPILE_ERROR,
        "exports no function",
        Meaning(
            "The submission lacks the function that the task calls.",
            "Correct the cause in the message above; `hpc-board template TASK --language NAME` shows the signature.",
        ),
    ),
    (
        Verdict.INFRA_ERROR,
        "cannot be used: ",
        Meaning(
            "The node's compiler does not accept the settings of this GPU; your kernel was not judged.",
            "Ask the admin to correct `arch` or `std` of this GPU, or to bring a newer compiler with its `modules`.",
        ),
    ),
    (Verdict.INFRA_ERROR, "cannot be compiled", _NO_COMPILER),
    (Verdict.INFRA_ERROR, "needs a host compiler", _NO_COMPILER),
    (
        Verdict.CRASH,
        "an illegal memory access",
        Meaning(
            "A kernel accessed memory of the GPU out of bounds.",
            "Submit with `--mode sanitize`: memcheck names the kernel and, with line information, the line.",
        ),
    ),
    (
        Verdict.CRASH,
        "the supervisor was killed by signal",
        Meaning(
            "The process that supervises the kernel was killed while a case ran.",
            "Resubmit; if it repeats, the kernel kills its parent or the node runs out of memory: ask the admin.",
        ),
    ),
    (
        Verdict.INFRA_ERROR,
        LIBRARY_MISSING,
        Meaning(
            "The jobs' Python lacks a library that the task needs; your kernel was not judged.",
            "Install it as the message says, or show the message to the admin; then resubmit. The bundled tasks heat "
            "and spmv need NumPy alone.",
        ),
    ),
    (
        Verdict.INFRA_ERROR,
        LIBRARY_LACKING,
        Meaning(
            "This GPU's Python lacks a library that the submission imports; your kernel was not judged.",
            "Choose another GPU or library, or show the message to the admin: `hpc-board admin check` lists the "
            "languages of each GPU.",
        ),
    ),
    (
        Verdict.INFRA_ERROR,
        SCRATCH_UNWRITABLE,
        Meaning(
            "The node's disk for scratch files is full or cannot be written; your kernel was not judged.",
            "Ask the admin to free space there, or to name another folder as TMPDIR in this GPU's `env`, and resubmit.",
        ),
    ),
    (
        Verdict.INFRA_ERROR,
        USES_ONE,
        Meaning(
            "The job sees more GPUs than the task uses; your kernel was not judged.",
            "Show the message to the admin: the job has to see the GPUs alone that it requested.",
        ),
    ),
    (
        Verdict.DEVICE_ERROR,
        _NO_ARCH,
        Meaning(
            "Unknown target architecture; your kernel was not judged.",
            "Ask the admin to set `arch` of this GPU in the settings.",
        ),
    ),
    (
        Verdict.DEVICE_ERROR,
        "is a build without GPU support",
        Meaning(
            "PyTorch is a build without support for this GPU; your kernel was not judged.",
            "Ask the admin to set `python` in the settings to one whose PyTorch supports this GPU.",
        ),
    ),
    *(
        (
            Verdict.DEVICE_ERROR,
            each.words,
            Meaning(f"{each.words[0].upper()}{each.words[1:]}; your kernel is not to blame.", each.remedy),
        )
        for each in DEVICE_FAULTS
    ),
    (
        Verdict.DEVICE_ERROR,
        "device can be used on this node",
        Meaning(
            "PyTorch found no usable GPU in the job; your kernel was not judged.",
            "Resubmit; if it repeats, show the message to the admin: the node is broken, or `request` in the settings "
            "lacks a GPU.",
        ),
    ),
)

_VERDICTS = {
    Verdict.PASS: Meaning(
        "Every case passed.",
        "Submit in mode `ranked` to enter the standings, or make it faster.",
    ),
    Verdict.WRONG_SHAPE: Meaning(
        "The output's shape differs from the reference's.",
        "Return the shape in the task's description, for every size.",
    ),
    Verdict.WRONG_DTYPE: Meaning(
        "The output's element type differs from the reference's.",
        "Return the type in the task's description.",
    ),
    Verdict.WRONG_VALUE: Meaning(
        "The output differs from the reference by more than the tolerance.",
        "Reproduce the failed case locally{advice}.",
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
        "Fix the first error in the compiler output {build}{advice}.",
    ),
    Verdict.COMPILE_TIMEOUT: Meaning(
        "Compilation exceeded its time limit.",
        "Instantiate fewer templates, build for one architecture alone, and include fewer headers.",
    ),
    Verdict.LOAD_ERROR: Meaning(
        "The submission failed to load, or lacks the function that the task calls.",
        "Read the error {message}; compare imports and function name with `hpc-board template TASK`.",
    ),
    Verdict.EXCEPTION: Meaning(
        "The submission raised an exception.",
        "The traceback {message} names the line; reproduce the failed case locally.",
    ),
    Verdict.CRASH: Meaning(
        "The submission's process died, by a signal or an exit.",
        "Look for out-of-bounds accesses in host code, and remove calls of exit() and abort().",
    ),
    Verdict.DEVICE_ERROR: Meaning(
        "The GPU failed, or the node has none that can be used; your kernel was not judged.",
        "Resubmit; if it repeats, show the message to the admin.",
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
        "Do not touch inherited files, pipes or the harness's modules; only return the output.",
    ),
    Verdict.LATE_WRITE: Meaning(
        "The output changed after the kernel had returned.",
        "Finish all work on every stream and thread before the return.",
    ),
    Verdict.TIMING_INCONSISTENT: Meaning(
        "The reported times contradict the wall time.",
        "Do all work within the timed call; do not touch clocks, events and synchronization functions.",
    ),
    Verdict.BELOW_FLOOR: Meaning(
        "The time is below the physical minimum of this device.",
        "Compute the output in every call; return no cached one.",
    ),
    Verdict.UNSTABLE: Meaning(
        "The outputs are correct, but the machine was too busy for its times to be checked.",
        "Resubmit when the node is idle; if it repeats, ask the admin for other work on it.",
    ),
    Verdict.TASK_ERROR: Meaning(
        "The task's files failed; your kernel was not judged.",
        "Send the message to the task's author; `hpc-board run ID` shows it again.",
    ),
    Verdict.INFRA_ERROR: Meaning(
        "The node or the harness failed; your kernel was not judged.",
        "Resubmit; if it repeats, show the message to the admin.",
    ),
}

_ENDS = {
    RunState.CANCELLED: Meaning(
        "The run was cancelled before its result.",
        "Resubmit the file when you need a result.",
    ),
    RunState.TIMEOUT: Meaning(
        "The scheduler ended the job at its time limit.",
        "Look for a call that never returns; on a slow node, resubmit, and tell the admin if it repeats.",
    ),
    RunState.OUT_OF_MEMORY: Meaning(
        "The job exceeded its host memory and was killed.",
        "Use less host memory, or ask the admin to raise `memory` for this GPU in the settings.",
    ),
    RunState.NODE_FAIL: Meaning(
        "The node failed during the job, or could not start it.",
        "Resubmit; the kernel is not the cause.",
    ),
    RunState.PREEMPTED: Meaning(
        "Another job preempted this one.",
        "Resubmit, preferably at a quieter time.",
    ),
    RunState.LOST: Meaning(
        "The scheduler no longer knows the job, and no result arrived.",
        "Resubmit; if it repeats, show the evidence {evidence} to the admin.",
    ),
    RunState.ERROR: Meaning(
        "hpc-board or the cluster failed, not your kernel: the job was not sent, or left no valid result.",
        "Read the reason and the job output {log}, then resubmit; if it repeats, show both to the admin.",
    ),
}
