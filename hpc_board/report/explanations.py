"""What verdicts and ends of runs mean, in plain sentences."""

from dataclasses import dataclass

from hpc_board.domain.run import RunState
from hpc_board.model.result import LIBRARY_MISSING, Verdict


@dataclass(frozen=True)
class Meaning:
    """One sentence on what happened, and one on what to do next."""

    what: str
    next: str


def verdict_meaning(
    verdict: Verdict, message: str = "", *, on_cpu: bool = False, below: str | None = None, stored: bool = True
) -> Meaning:
    """What this verdict says of a run whose result has this message, `on_cpu` where its board's jobs run on one.

    `below` is what the report shows further down of messages and the compiler's output, None where it has what is
    usual; a run that is not `stored` was tried by the task's author.
    """
    if verdict is Verdict.TASK_ERROR and not stored:
        return _TASK_OF_AUTHOR
    if below is not None and verdict in _BARE and _BARE[verdict][0] not in below:
        return _BARE[verdict][1]
    if on_cpu and verdict is Verdict.DEVICE_ERROR and _NO_ARCH not in message:
        return _COMPILED_FOR_GPU if "compile" in message else _NO_GPU_HERE
    for told, words, meaning in _BY_MESSAGE:
        if verdict is told and words in message:
            return meaning
    return _VERDICTS[verdict]


def state_meaning(state: RunState) -> Meaning:
    """What it means that a run ended in this state, without a result.

    Raises:
        KeyError: the state is not an end, or is `finished`, which the verdict explains.
    """
    return _ENDS[state]


_NO_ARCH = "nothing says what to compile for"

_TASK_OF_AUTHOR = Meaning(
    "The task's own files failed, so that the submission was not judged.",
    "Correct what the message names; `hpc-board task check` looks at every case of the task.",
)

_BARE = {
    Verdict.COMPILE_ERROR: (
        "error",
        Meaning(
            "The submission did not compile to what the task calls.",
            "Correct what the message above names; `hpc-board template TASK --language NAME` has the function as it is"
            " called.",
        ),
    ),
    Verdict.LOAD_ERROR: (
        "Traceback",
        Meaning(
            "The submission could not be loaded, or lacks the function that the task asks for.",
            "Correct what the message above names; compare imports and function name with `hpc-board template TASK`.",
        ),
    ),
    Verdict.EXCEPTION: (
        "Traceback",
        Meaning(
            "The submission reported an error of its own.",
            "The message above has what it said; repeat the failed case at home.",
        ),
    ),
}
"""What a verdict says where the report has no text in which a word such as "Traceback" stands."""

_NO_GPU_HERE = Meaning(
    "The submission asked for a GPU, and the jobs of this board run on a CPU.",
    "Keep to the device of the inputs, or send it to a board with GPUs of its own: `hpc-board gpus` says which have.",
)

_COMPILED_FOR_GPU = Meaning(
    "The submission is made for a GPU, and the jobs of this board run on a CPU.",
    "Send it to a board with GPUs of its own: `hpc-board gpus` says which have. C++ and Python run here as well.",
)

_NO_COMPILER = Meaning(
    "The node has no compiler for this language; your kernel was not judged.",
    "Ask whoever keeps the settings to bring one with `modules` or `env` of this GPU, and submit again then.",
)

_BY_MESSAGE = (
    (Verdict.INFRA_ERROR, "cannot be compiled", _NO_COMPILER),
    (Verdict.INFRA_ERROR, "needs a host compiler", _NO_COMPILER),
    (
        Verdict.CRASH,
        "the supervisor was killed by signal",
        Meaning(
            "The process that supervises the kernel was killed while a case ran.",
            "Submit again; if it repeats, the kernel kills its parent or the node runs out of memory: ask the admin.",
        ),
    ),
    (
        Verdict.INFRA_ERROR,
        LIBRARY_MISSING,
        Meaning(
            "The Python of these jobs lacks a library that the task needs; your kernel was not judged.",
            "Show the message to whoever keeps the settings, and submit again when it is mended.",
        ),
    ),
    (
        Verdict.DEVICE_ERROR,
        _NO_ARCH,
        Meaning(
            "Nobody knows for which GPU to compile; your kernel was not judged.",
            "Ask whoever keeps the settings for the `arch` of this GPU; with it, compilers need no GPU to ask.",
        ),
    ),
    (
        Verdict.DEVICE_ERROR,
        "is a build without GPU support",
        Meaning(
            "PyTorch is there, but in a build that can use no GPU; your kernel was not judged.",
            "Ask whoever keeps the settings for a `python` there whose PyTorch is built for this GPU.",
        ),
    ),
    (
        Verdict.DEVICE_ERROR,
        "device can be used on this node",
        Meaning(
            "The job has no GPU that PyTorch can use; your kernel was not judged.",
            "Submit again; if it comes back, show the message to the admin: the node may be broken, or the settings "
            "ask for no GPU in `request`.",
        ),
    ),
)

_VERDICTS = {
    Verdict.PASS: Meaning(
        "Every case passed.",
        "Send it in mode `ranked` to enter it on the board, or make it faster.",
    ),
    Verdict.WRONG_SHAPE: Meaning(
        "The kernel ran, but its output has another shape than the reference's, and the task does not take it.",
        "Return a tensor of exactly the shape that the task's description states, for every size.",
    ),
    Verdict.WRONG_DTYPE: Meaning(
        "The kernel ran, but its output has another element type than the reference's, and the task does not take it.",
        "Convert the output to the type that the task's description states before you return it.",
    ),
    Verdict.WRONG_VALUE: Meaning(
        "The kernel ran, but its output differs from the reference by more than the task allows.",
        "Repeat the failed case at home; sizes that are no multiple of a block are the usual cause.",
    ),
    Verdict.WRONG_NONFINITE: Meaning(
        "The output is wrong, and it holds NaN or infinity.",
        "Look for memory that is never written, a division by zero, or an exponent that overflows.",
    ),
    Verdict.WRONG_ALIASED: Meaning(
        "The output lies in the memory of an input, although the task wants memory of its own.",
        "Allocate a new output in every call.",
    ),
    Verdict.MUTATED_INPUT: Meaning(
        "The kernel changed an input that it may only read.",
        "Work on a copy, and check the kernel's writes for indices that run out of the output.",
    ),
    Verdict.COMPILE_ERROR: Meaning(
        "The submission did not compile.",
        "Mend the first error in the compiler's output below, and try `--mode test` before `ranked`.",
    ),
    Verdict.COMPILE_TIMEOUT: Meaning(
        "Compiling took longer than allowed, and was stopped.",
        "Instantiate fewer templates, build for one architecture alone, and include fewer headers.",
    ),
    Verdict.LOAD_ERROR: Meaning(
        "The submission could not be imported or loaded, or lacks the function that the task asks for.",
        "Read the error below; compare imports and function name with `hpc-board template TASK`.",
    ),
    Verdict.EXCEPTION: Meaning(
        "The submission raised an exception.",
        "The traceback below names the line; repeat the failed case at home.",
    ),
    Verdict.CRASH: Meaning(
        "The process that ran the submission died, by a signal or by an exit of its own.",
        "Look for accesses out of bounds in host code, and remove calls of exit() and abort().",
    ),
    Verdict.DEVICE_ERROR: Meaning(
        "The device reported an error which does not prove the kernel wrong: it may be the node's fault.",
        "Submit again; if it comes back on another node, look for illegal memory accesses in the kernel.",
    ),
    Verdict.OUT_OF_MEMORY: Meaning(
        "The submission asked for more memory than the device or the job has.",
        "Free or reuse buffers between calls, and don't keep tensors in global variables.",
    ),
    Verdict.TIMEOUT: Meaning(
        "Importing the submission, a call or a whole phase took longer than the task allows, and was stopped.",
        "Look for a loop that never ends or a missing barrier; `hpc-board task TASK` lists the limits of all three.",
    ),
    Verdict.OUTPUT_LIMIT: Meaning(
        "The submission printed or wrote more than allowed.",
        "Remove printing from the kernel and from the code around it, and write no large files.",
    ),
    Verdict.PROTOCOL_VIOLATION: Meaning(
        "The process that ran the submission answered something that the harness did not ask for.",
        "Leave inherited files, pipes and the harness's modules alone; only return the output.",
    ),
    Verdict.LATE_WRITE: Meaning(
        "The output changed after the kernel had said that it was done.",
        "Finish all work, on every stream and thread, before you return.",
    ),
    Verdict.TIMING_INCONSISTENT: Meaning(
        "The times that the kernel's process reported do not fit the time that really went by.",
        "Do all work within the timed call, and leave clocks, events and synchronisation functions alone.",
    ),
    Verdict.BELOW_FLOOR: Meaning(
        "The time is below what any right call can take on this device.",
        "Make sure that every call computes its output anew, instead of returning one that it kept.",
    ),
    Verdict.UNSTABLE: Meaning(
        "The outputs are right, but the machine changed its speed or was busy with other things while they were timed.",
        "Submit again; if it comes back on a quiet node, ask the admin about its clocks, cooling and power limits.",
    ),
    Verdict.TASK_ERROR: Meaning(
        "The task's own files failed; your kernel was not judged.",
        "Tell the task's author, with the message; `hpc-board run ID` shows it again.",
    ),
    Verdict.INFRA_ERROR: Meaning(
        "The node or the harness failed; your kernel was not judged.",
        "Submit again; if it comes back, show the message to the admin.",
    ),
}

_ENDS = {
    RunState.CANCELLED: Meaning(
        "The run was cancelled before it had a result.",
        "Submit the file again when you want it evaluated.",
    ),
    RunState.TIMEOUT: Meaning(
        "The scheduler ended the job at its time limit, and there is no result.",
        "Look for a call that never returns; if the node was slow, submit again, and tell the admin if it repeats.",
    ),
    RunState.OUT_OF_MEMORY: Meaning(
        "The job took more memory of the node than it was given, and was killed without a result.",
        "Use less host memory, or ask the admin to raise `memory` for this GPU in the settings.",
    ),
    RunState.NODE_FAIL: Meaning(
        "The node failed while the job was on it.",
        "Submit again; the failure says nothing about your kernel.",
    ),
    RunState.PREEMPTED: Meaning(
        "Another job took the node, and this one was ended.",
        "Submit again, perhaps at a quieter time.",
    ),
    RunState.LOST: Meaning(
        "The scheduler no longer knows the job, and no result has appeared.",
        "Submit again; if it repeats, show the evidence below to the admin.",
    ),
    RunState.ERROR: Meaning(
        "The machinery failed, not your kernel: the job could not be sent, or left no result that can be accepted.",
        "Read the reason and the job's output below, then submit again; if it repeats, show them to the admin.",
    ),
}
