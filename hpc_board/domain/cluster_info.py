"""A Slurm cluster as it describes itself: its partitions, nodes and ways of working."""

from collections.abc import Mapping

import msgspec


class ClusterNode(msgspec.Struct, frozen=True):
    """A node with the partitions that it is in, its generic resources as Slurm writes them, and its features."""

    name: str
    partitions: tuple[str, ...]
    state: str
    cpus: int
    gres: str
    features: tuple[str, ...]

    @property
    def up(self) -> bool:
        """Return whether jobs run on the node, or will once its current ones end."""
        return not any(word in self.state for word in ("down", "drain", "fail", "maint", "unknown", "inval", "*"))


class Share(msgspec.Struct, frozen=True):
    """CPUs and memory of jobs that ask for none, and the most memory of a job, in MiB; None without a value."""

    cpus_per_gpu: int | None = None
    memory_per_gpu: int | None = None
    memory_per_cpu: int | None = None
    memory_per_node: int | None = None
    memory_per_cpu_max: int | None = None
    memory_per_node_max: int | None = None

    def cpus(self, asked: int | None, gpus: int) -> int:
        """Return the CPUs of a job that asks for so many, or for none, and for so many GPUs."""
        return max(asked or 1, (self.cpus_per_gpu or 0) * gpus)

    def memory(self, cpus: int, gpus: int) -> int | None:
        """Return the memory of a job that asks for none; None if it has that of its node."""
        if self.memory_per_gpu and gpus:
            return self.memory_per_gpu * gpus
        if self.memory_per_cpu:
            return self.memory_per_cpu * cpus
        return self.memory_per_node

    def memory_max(self, cpus: int) -> int | None:
        """Return the most memory that a job with these CPUs may ask for; None without a limit."""
        per_cpu = self.memory_per_cpu_max * cpus if self.memory_per_cpu_max else None
        return min(filter(None, (per_cpu, self.memory_per_node_max)), default=None)

    def over(self, cluster: "Share") -> "Share":
        """Return the values of a partition over those of its cluster: one value of a group replaces its group."""
        default = self if self.memory_per_cpu or self.memory_per_node else cluster
        largest = self if self.memory_per_cpu_max or self.memory_per_node_max else cluster
        return Share(
            self.cpus_per_gpu or cluster.cpus_per_gpu,
            self.memory_per_gpu or cluster.memory_per_gpu,
            default.memory_per_cpu,
            default.memory_per_node,
            largest.memory_per_cpu_max,
            largest.memory_per_node_max,
        )


class Partition(msgspec.Struct, frozen=True):
    """A partition; `max_time_seconds` is None if it is unlimited or unknown.

    `accounts`, `groups` and `qos` restrict its users; "" means all.
    """

    name: str
    default: bool = False
    up: bool = True
    max_time_seconds: int | None = None
    accounts: str = ""
    groups: str = ""
    qos: str = ""
    root_only: bool = False
    reservation_only: bool = False
    reservations: tuple[str, ...] = ()
    preempted: bool = False
    share: Share = Share()

    @property
    def open_to_all(self) -> bool:
        """Return whether every user may submit jobs to the partition."""
        return not (self.accounts or self.groups or self.qos or self.root_only or self.reservation_only)


class ClusterInfo(msgspec.Struct, frozen=True):
    """A cluster: the controller's `configuration`, and in `unknown` the queries that failed."""

    partitions: tuple[Partition, ...]
    nodes: tuple[ClusterNode, ...]
    configuration: Mapping[str, str]
    unknown: tuple[str, ...] = ()

    @property
    def cluster(self) -> str:
        """Return the cluster's own name, "" if unknown."""
        return self.configuration.get("ClusterName", "")

    @property
    def version(self) -> str:
        """Return Slurm's release, "" if unknown."""
        return self.configuration.get("SLURM_VERSION", "")

    @property
    def accounts_enforced(self) -> bool:
        """Return whether a job needs an account that its user belongs to."""
        words = self.configuration.get("AccountingStorageEnforce", "none").lower().split(",")
        return not {"associations", "limits", "qos", "safe", "all"}.isdisjoint(words)

    def partition(self, name: str) -> Partition | None:
        """Return the partition of this name."""
        return next((each for each in self.partitions if each.name == name), None)
