"""Description of a Slurm cluster: the queries, and the pure parsing of the answers."""

import re
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from hpc_board.domain.cluster_info import ClusterInfo, ClusterNode, Partition, Share
from hpc_board.errors import NotAvailable, SchedulerError
from hpc_board.schedulers.slurm.outputs import table
from hpc_board.schedulers.slurm.refusals import query_failed
from hpc_board.transport import CommandMissing, CommandTimeout, Host

SITE_FORMAT: Final = "NodeList:|,Partition:|,Available:|,StateLong:|,CPUs:|,Time:|,Gres:|,Features:|"
NODES: Final = ("sinfo", "--noheader", "--Node", f"--Format={SITE_FORMAT}")
PARTITIONS: Final = ("scontrol", "show", "partition", "--oneliner")
CONFIGURATION: Final = ("scontrol", "show", "config")
RESERVATIONS: Final = ("scontrol", "show", "reservation", "--oneliner")

_NODES_MAX = 50_000
_SETTING = re.compile(r"^([A-Za-z_]{1,60}) *= (.{0,1000}?) *$", re.MULTILINE)
_FIELD = re.compile(r"(?:^| )([A-Za-z]{1,40})=(\S{0,4000})")
_TIME = re.compile(r"(?:([0-9]{1,4})-)?([0-9]{1,6})(?::([0-9]{1,2}))?(?::([0-9]{1,2}))?")


def site(host: Host, timeout_seconds: float = 60.0, cluster: str = "NAME") -> ClusterInfo:
    """Return the cluster whose commands `host` has, as far as this account may see it; the settings call it `cluster`.

    Values that only `scontrol` has may be missing; `ClusterInfo.unknown` names the failed queries.

    Raises:
        NotAvailable: sinfo is missing, or has no configuration.
        SchedulerError: sinfo failed, or printed something else.
    """
    answers: dict[tuple[str, ...], str] = {}
    unknown = []
    for argv in (NODES, PARTITIONS, CONFIGURATION):
        try:
            answers[argv] = _answer(host, argv, timeout_seconds, cluster)
        except SchedulerError as error:
            if argv is NODES:
                raise
            unknown.append(error.message)
    nodes, partitions = cluster_nodes(answers[NODES])
    described = partition_facts(answers.get(PARTITIONS, ""))
    if any(each.reservation_only for each in described.values()):
        try:
            told = _answer(host, RESERVATIONS, timeout_seconds, cluster)
            described = {name: replace(each, reservations=reservations(told, name)) for name, each in described.items()}
        except SchedulerError as error:
            unknown.append(error.message)
    settings = configuration(answers.get(CONFIGURATION, ""))
    of_all = share(settings)
    known = {name: _joined(found, described.get(name)) for name, found in partitions.items()}
    return ClusterInfo(
        tuple(replace(known[name], share=known[name].share.over(of_all)) for name in sorted(known)),
        nodes,
        settings,
        tuple(unknown),
    )


def cluster_nodes(stdout: str) -> tuple[tuple[ClusterNode, ...], dict[str, Partition]]:
    """Parse the nodes and partitions of `sinfo --Node --Format=SITE_FORMAT`, the nodes by their names.

    Raises:
        SchedulerError: it printed something else.
    """
    nodes: dict[str, ClusterNode] = {}
    partitions: dict[str, Partition] = {}
    for node, partition, available, state, cpus, time, gres, features, _ in table("sinfo", stdout, 9)[:_NODES_MAX]:
        name = partition.removesuffix("*")
        partitions[name] = Partition(
            name, default=partition.endswith("*"), up=available == "up", max_time_seconds=seconds(time)
        )
        known = nodes.get(node)
        if known is None:
            words = () if features in ("(null)", "N/A") else tuple(filter(None, features.split(",")))
            count = int(cpus) if re.fullmatch("[0-9]{1,6}", cpus) else 0
            nodes[node] = ClusterNode(node, (name,), state.lower(), count, gres, words)
        elif name not in known.partitions:
            nodes[node] = replace(known, partitions=tuple(sorted((*known.partitions, name))))
    return tuple(nodes[name] for name in sorted(nodes)), partitions


def partition_facts(stdout: str) -> dict[str, Partition]:
    """Parse the partitions of `scontrol show partition --oneliner`, by their names; skip other lines."""
    found = {}
    for line in stdout.splitlines():
        fields = dict(_FIELD.findall(line))
        name = fields.get("PartitionName")
        if name:
            found[name] = Partition(
                name,
                default=fields.get("Default") == "YES",
                up=fields.get("State", "UP") == "UP",
                max_time_seconds=seconds(fields.get("MaxTime", "")),
                accounts=_some(fields.get("AllowAccounts", "")),
                groups=_some(fields.get("AllowGroups", "")),
                qos=_some(fields.get("AllowQos", "")),
                root_only=fields.get("RootOnly") == "YES",
                reservation_only=fields.get("ReqResv") == "YES",
                preempted=fields.get("PreemptMode", "OFF").split(",")[0] in ("CANCEL", "REQUEUE", "SUSPEND"),
                share=share(fields),
            )
    return found


def reservations(stdout: str, partition: str) -> tuple[str, ...]:
    """Parse the names of the reservations for a partition of `scontrol show reservation --oneliner`."""
    lines = (dict(_FIELD.findall(line)) for line in stdout.splitlines())
    return tuple(
        fields["ReservationName"]
        for fields in lines
        if "ReservationName" in fields and fields.get("PartitionName") in (partition, "(null)")
    )


def configuration(stdout: str) -> Mapping[str, str]:
    """Parse the settings of `scontrol show config`, by their names; "(null)" is ""."""
    return {name: "" if value == "(null)" else value for name, value in _SETTING.findall(stdout)}


def share(fields: Mapping[str, str]) -> Share:
    """Parse the defaults and limits of jobs' CPUs and memory from the fields of a partition, or of the cluster."""
    defaults = dict(each.partition("=")[::2] for each in fields.get("JobDefaults", "").split(","))
    return Share(
        cpus_per_gpu=_amount(defaults.get("DefCpuPerGPU", "")),
        memory_per_gpu=_amount(defaults.get("DefMemPerGPU", "")),
        memory_per_cpu=_amount(fields.get("DefMemPerCPU", "")),
        memory_per_node=_amount(fields.get("DefMemPerNode", "")),
        memory_per_cpu_max=_amount(fields.get("MaxMemPerCPU", "")),
        memory_per_node_max=_amount(fields.get("MaxMemPerNode", "")),
    )


def seconds(text: str) -> int | None:
    """Parse a time limit of sinfo and scontrol ("30:00", "1-12:00:00"); return None for "infinite" and the like."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    days, *rest = (None if group is None else int(group) for group in match.groups())
    numbers = [number for number in rest if number is not None]
    if days is not None:
        numbers += [0] * (3 - len(numbers))
    elif len(numbers) == 1:
        numbers = [0, *numbers, 0]
    total = (days or 0) * 86_400
    for factor, number in zip((1, 60, 3600), reversed(numbers), strict=False):
        total += factor * number
    return total or None


def _amount(text: str) -> int | None:
    """Parse a number of CPUs, or of MiB; return None for "UNLIMITED", "(null)" and 0."""
    return (int(text) or None) if re.fullmatch("[0-9]{1,12}", text) else None


def _some(text: str) -> str:
    return "" if text.upper() in ("ALL", "(NULL)", "N/A") else text


def _joined(listed: Partition, described: Partition | None) -> Partition:
    """Return a partition of sinfo's list with the values of scontrol."""
    if described is None:
        return listed
    return replace(described, max_time_seconds=described.max_time_seconds or listed.max_time_seconds)


def _answer(host: Host, argv: tuple[str, ...], timeout_seconds: float, cluster: str) -> str:
    try:
        done = host.run(argv, timeout_seconds=timeout_seconds, env={"SLURM_TIME_FORMAT": "%s"})
    except CommandMissing as error:
        raise NotAvailable(
            f"{argv[0]} cannot be run: {error}", hint="Run hpc-board on a login node with Slurm's commands on PATH."
        ) from error
    except CommandTimeout as error:
        raise SchedulerError(
            f"{argv[0]} did not answer within {timeout_seconds:g} s", hint="Slurm is busy or down; try again later."
        ) from error
    if done.truncated:
        raise SchedulerError(f"the output of {' '.join(argv[:3])} exceeds the limit", hint="Run it to see its output.")
    if done.returncode != 0 or (done.stderr and not done.stdout):
        raise query_failed(argv[0] if argv is NODES else " ".join(argv), done, cluster)
    if not done.stdout.strip():
        raise SchedulerError(
            f"{' '.join(argv[:3])} printed nothing",
            hint="A wrapper may have suppressed the output, or the site hides it from this account (PrivateData).",
        )
    return done.stdout
