"""Options of sbatch as pure text: which ones a GPU needs, and how they are written in a script and in a command."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from hpc_board.domain.job_options import joined_constraints
from hpc_board.errors import InputError
from hpc_board.model.gpu import Device, Gpu
from hpc_board.schedulers.slurm import GpuOptions, RequestStyle, gpu_options, with_options

_UNITS = {"K": 1 / 1024, "M": 1, "": 1, "G": 1024, "T": 1024**2}
MANAGED: frozenset[str] = frozenset(
    {
        # options with keys of their own in the settings
        "partition",
        "gres",
        "gpus",
        "gpus-per-node",
        "gpus-per-task",
        "account",
        "qos",
        "constraint",
        "reservation",
        "nodelist",
        "exclude",
        "cpus-per-task",
        "mem",
        "exclusive",
        "gpu-freq",
        "time",
        "container",
        "container-image",
        "container-mounts",
        "container-name",
        "container-workdir",
        # one node, one task, one job for each id, one attempt for each job
        "nodes",
        "nodefile",
        "ntasks",
        "ntasks-per-node",
        "array",
        "requeue",
        "no-requeue",
        # how a job is found again and where its output goes
        "job-name",
        "chdir",
        "output",
        "error",
        "input",
        "open-mode",
        "clusters",
        "parsable",
        "quiet",
        # options that change the environment, or have sbatch do something else than submit and return
        "export",
        "export-file",
        "get-user-env",
        "wrap",
        "wait",
        "test-only",
        "help",
        "usage",
        "version",
        "uid",
        "gid",
    }
)
"""The long names of the sbatch options that hpc-board sets itself or depends on."""

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_COUNTED = re.compile(r"(?P<kind>[A-Za-z][\w.-]*(:[A-Za-z][\w.-]*)?)?(^|:)?(?P<count>\d+)?", re.ASCII)
_EXTRA = re.compile(r"--([a-z][a-z0-9-]*)(?:=(.*))?", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+=&()-]*")


def directive(name: str, value: str = "") -> str:
    r"""Return the line of a batch script that sets an option; a flag has no value.

    sbatch reads the rest of the line in its own way: both kinds of quotes group, a backslash takes the next character
    as it is even within quotes, and an unquoted # begins a comment.

    Raises:
        InputError: the name is none, or the value has control characters.
    """
    text = argument(name, value)
    if _PLAIN.fullmatch(value):
        return f"#SBATCH {text}"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'#SBATCH --{name}="{escaped}"'


def argument(name: str, value: str = "") -> str:
    """Return the argument of an sbatch command that sets an option; a flag has no value.

    Raises:
        InputError: the name is none, or the value has control characters.
    """
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is not the long name of an sbatch option")
    if not value.isprintable():
        raise InputError(
            f"the sbatch option --{name} has a line break or another control character in its value {value!r}",
            hint="Remove the character from the settings or from the path that the value comes from.",
        )
    return f"--{name}={value}" if value else f"--{name}"


def step(asked: GpuOptions) -> str:
    """Return the start of the shell command that runs its other words as one step of the job.

    Slurm sets the clocks of a GPU only for steps. An srun within a job does not take the job's --cpus-per-task.
    """
    words = 'srun --nodes=1 --ntasks=1 ${SLURM_CPUS_PER_TASK:+"--cpus-per-task=$SLURM_CPUS_PER_TASK"} --cpu-bind=none'
    return f"{words} {shlex.quote(argument('gpu-freq', asked.gpu_freq))}" if asked.gpu_freq else words


def options_for(gpu: Gpu, time_limit_seconds: int) -> dict[str, str]:
    """Return the sbatch options, by their long names, of a job on one `gpu`; a flag's value is empty.

    The settings' extra options come last.
    """
    asked = gpu_options(gpu)
    request = asked.request
    constraints = [asked.constraint, asked.more_constraint]
    options = {"partition": gpu.partition, "nodes": "1", "ntasks": "1"}
    if request.style is RequestStyle.CONSTRAINT:
        constraints = [request.value, *constraints]
    elif request.style is not RequestStyle.NONE:
        options[str(request.style)] = request.value
    options |= {
        "account": asked.account,
        "qos": asked.qos,
        "constraint": joined_constraints(constraints),
        "reservation": asked.reservation,
        "nodelist": asked.nodelist,
        "exclude": asked.exclude,
        "cpus-per-task": str(asked.cpus_per_task or ""),
        "mem": asked.memory,
        "gpu-freq": asked.gpu_freq,
        "time": time_limit(time_limit_seconds),
    }
    options = {name: value for name, value in options.items() if value}
    if asked.exclusive:
        options["exclusive"] = ""
    extras = dict(extra.removeprefix("--").partition("=")[::2] for extra in asked.sbatch)
    # Slurm requeues without a limit: hpc-board counts it among the retries.
    options["requeue" if "requeue" in extras and gpu.retries else "no-requeue"] = ""
    return options | {name: value for name, value in extras.items() if name != "requeue"}


def ranges(indexes: Iterable[int]) -> str:
    """Format indexes of an array's tasks for sbatch, in order and each once: "0-3,7"."""
    found: list[list[int]] = []
    for index in sorted(set(indexes)):
        if found and index == found[-1][1] + 1:
            found[-1][1] = index
        else:
            found.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def with_gpus(gpu: Gpu, count: int) -> Gpu:
    """Return the options with a request for `count` GPUs of a node, in place of the settings' number.

    The request is unchanged for 1, and for ranks on a CPU without a request.

    Raises:
        InputError: the request has no place for a number.
    """
    if count == 1:
        return gpu
    request = gpu_options(gpu).request
    style, value = request.style, request.value
    match = _COUNTED.fullmatch(value)
    if style is RequestStyle.NONE and gpu.device is Device.CPU:
        return gpu
    if style in (RequestStyle.NONE, RequestStyle.CONSTRAINT) or match is None:
        raise InputError(
            f"the task needs {count} GPUs, and gpus.{gpu.name}.request ({style} {value}) cannot request a number of "
            "GPUs.",
            hint='Use a request such as {style: gres, value: "gpu:h100:1"} in the settings.',
        )
    kind = match["kind"] or ""
    return with_options(gpu, request=replace(request, value=f"{kind}:{count}" if kind else str(count)))


def time_limit(seconds: int) -> str:
    """Format a time limit for sbatch unambiguously: HH:MM:SS, with the days before it ("1-02:00:00") if any."""
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    clock = f"{hour:02}:{minute:02}:{second:02}"
    return f"{days}-{clock}" if days else clock


def extra_faults(sbatch: Sequence[str], *, retries: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the faults of the settings' extra options, in words for the admin, each with the index of its option.

    `--requeue` needs `retries`, which count each time that Slurm puts a job back.
    """
    seen = set()
    for index, extra in enumerate(sbatch):
        match = _EXTRA.fullmatch(extra)
        if match is None:
            yield index, f"{extra!r} is not a long option, such as --comment=kernels or --contiguous"
            continue
        name, value = match.groups()
        managed = "" if extra == "--requeue" and retries else _managed(name)
        if extra == "--requeue" and managed:
            yield index, "--requeue requires `retries` for this GPU, which limits how often Slurm requeues a job"
        elif managed:
            meant = "" if managed == name else f" (short for --{managed})"
            yield index, f"--{name}{meant} is set by hpc-board: use the corresponding setting, if there is one"
        if value == "":
            yield index, f"--{name}= has no value; write only --{name} if it is a flag"
        if not extra.isprintable():
            yield index, f"--{name} has a line break or another control character in its value"
        if name in seen:
            yield index, f"--{name} is given twice"
        seen.add(name)


def _managed(name: str) -> str:
    """Return the managed option that `name` means; sbatch takes any beginning of a name for the whole."""
    if name in MANAGED:
        return name
    return next((managed for managed in sorted(MANAGED) if managed.startswith(name)), "")


def mebibytes(memory: str) -> int | None:
    """Return the MiB of a value of sbatch's --mem; None for 0, which is all memory of the node."""
    unit = memory[-1].upper() if memory[-1:].isalpha() else ""
    return int(int(memory.removesuffix(memory[-1]) if unit else memory) * _UNITS[unit]) or None
