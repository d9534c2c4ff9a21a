"""A rehearsal of jobs on a Slurm cluster: the limits of its partitions, and sbatch's answer to the options."""

from collections.abc import Callable, Iterator, Sequence

from hpc_board.domain.cluster_info import ClusterInfo, Partition
from hpc_board.domain.diagnostic import Diagnostic, Severity
from hpc_board.domain.usage import CPU_MEMORY_MIB, CPUS, MEMORY_MIB
from hpc_board.errors import BoardError, SchedulerError
from hpc_board.model.gpu import Device, Gpu
from hpc_board.model.text import one_line
from hpc_board.schedulers import Job, Rehearsal, Rehearsed
from hpc_board.schedulers.slurm import RequestStyle, gpu_options
from hpc_board.schedulers.slurm.sbatch import mebibytes, time_limit

_SHARES = ("--mem-per-", "--cpus-per-gpu", "--gpus-per-", "--threads-per-core", "--hint")
"""Options of a site that change the CPUs or the memory of a job."""


def rehearse(
    rehearsals: Sequence[Rehearsal], describe: Callable[[], ClusterInfo], test: Callable[[Job], str]
) -> list[Rehearsed]:
    """Return findings on each job from the cluster's description, read once, and from a `test` of the job."""
    if not rehearsals:
        return []
    try:
        cluster = describe()
    except SchedulerError as error:
        return [_refusal("cluster", error)] * len(rehearsals)
    return [_rehearse(rehearsal, cluster, test) for rehearsal in rehearsals]


def _rehearse(rehearsal: Rehearsal, cluster: ClusterInfo, test: Callable[[Job], str]) -> Rehearsed:
    found: list[Diagnostic] = []
    names = rehearsal.job.gpu.partition.split(",")
    for name in names:
        found += _of_partition(rehearsal, cluster, name) or ([] if found else [_fitting(cluster, name)])
    for partition in filter(None, map(cluster.partition, names)):
        found += _share(rehearsal.job.gpu, partition, cluster)
    try:
        told = test(rehearsal.job) or "accepts the options of a job"
    except BoardError as error:
        refused = _refusal("sbatch", error)
        return Rehearsed((*found, *refused.diagnostics), refused=True)
    return Rehearsed((*found, Diagnostic(Severity.OK, "sbatch", told)))


def _refusal(subject: str, error: BoardError) -> Rehearsed:
    return Rehearsed((Diagnostic(Severity.ERROR, subject, error.message, error.hint),), refused=True)


def _of_partition(rehearsal: Rehearsal, cluster: ClusterInfo, name: str) -> list[Diagnostic]:
    partition = cluster.partition(name)
    if partition is not None:
        return [Diagnostic(severity, "partition", *words) for severity, *words in _obstacles(rehearsal, partition)]
    known = ", ".join(one_line(each.name, 64) for each in cluster.partitions[:20]) or "none"
    message = f"partition {name} does not exist or is hidden; partitions: {known}"
    hint = f"Correct gpus.{rehearsal.job.gpu.name}.partition in the settings."
    return [Diagnostic(Severity.ERROR, "partition", message, hint)]


def _obstacles(rehearsal: Rehearsal, partition: Partition) -> Iterator[tuple[Severity, str, str]]:
    """Yield the partition's limits that would block the job, each with the remedy."""
    gpu, name = rehearsal.job.gpu, partition.name
    if not partition.up:
        yield Severity.WARNING, f"{name} is currently not up", "Jobs wait until it is."
    allowed, longest = partition.max_time_seconds, rehearsal.job.time_limit_seconds
    if allowed is not None and longest > allowed:
        message = f"{name} allows {time_limit(allowed)}, and {rehearsal.whose} has the time limit {time_limit(longest)}"
        hint = f'Set gpus.{gpu.name}.time to "{time_limit(allowed)}" at most, or use another partition.'
        yield Severity.ERROR, message, hint
    if partition.reservation_only and not rehearsal.job.options.get("reservation"):
        hint = f"Set gpus.{gpu.name}.reservation; `scontrol show reservation` lists them."
        yield Severity.ERROR, f"{name} accepts only jobs with a reservation, but the entry names none", hint
    yield from _account(gpu, partition)
    if partition.preempted:
        yield Severity.WARNING, f"jobs in {name} may be preempted", "Prefer a partition without preemption."


def _share(gpu: Gpu, partition: Partition, cluster: ClusterInfo) -> Iterator[Diagnostic]:
    """Compare the CPUs and the memory of a job with the needs of the bundled tasks' ranked runs."""
    asked = gpu_options(gpu)
    if any(extra.startswith(_SHARES) for extra in asked.sbatch):
        return
    gpus = 0 if asked.request.style in (RequestStyle.NONE, RequestStyle.CONSTRAINT) else 1
    whole = asked.exclusive or cluster.configuration.get("SelectType") == "select/linear"
    nodes = [node.cpus for node in cluster.nodes if partition.name in node.partitions]
    cpus = min(nodes, default=1) if whole else partition.share.cpus(asked.cpus_per_task, gpus)
    if cpus < CPUS <= min(nodes, default=1):
        message = f"a job has {cpus} CPU in {partition.name}: the judge and the kernel's process share it"
        yield Diagnostic(Severity.WARNING, "cpus", message, f"Set gpus.{gpu.name}.cpus_per_task to {CPUS} or more.")
    wanted = CPU_MEMORY_MIB if gpu.device is Device.CPU else MEMORY_MIB
    memory = mebibytes(asked.memory) if asked.memory else partition.share.memory(cpus, gpus)
    if memory is None or memory >= wanted:
        return
    own = f"gpus.{gpu.name}.memory" if asked.memory else f"the default of {partition.name}"
    message = f"a job has {memory:,} MiB ({own}), but ranked runs of the bundled tasks may need {wanted:,} MiB"
    most = partition.share.memory_max(cpus)
    if most is not None and most < wanted:
        hint = f"{partition.name} allows {most:,} MiB for {cpus} CPUs: use another partition, or request more CPUs."
    else:
        hint = f"Set gpus.{gpu.name}.memory to {wanted}M or more: Slurm kills runs that exceed their memory."
    yield Diagnostic(Severity.WARNING, "memory", message, hint)


def _account(gpu: Gpu, partition: Partition) -> Iterator[tuple[Severity, str, str]]:
    own = gpu_options(gpu).account
    if partition.accounts and own not in partition.accounts.split(","):
        accounts = one_line(partition.accounts)
        message = f"{partition.name} is restricted to the accounts {accounts}, but the entry names {own or 'none'}"
        yield Severity.WARNING, message, f"Set gpus.{gpu.name}.account, unless one of these is your default."


def _fitting(cluster: ClusterInfo, name: str) -> Diagnostic:
    partition = cluster.partition(name)
    allowed = None if partition is None else partition.max_time_seconds
    limit = "jobs of any length" if allowed is None else f"jobs of up to {time_limit(allowed)}"
    return Diagnostic(Severity.OK, "partition", f"{name} exists and accepts {limit}")
