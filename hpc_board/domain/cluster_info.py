"""A Slurm cluster as it describes itself: its partitions, nodes and ways of working."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ClusterNode:
    """A node with the partitions that it is in, its generic resources as Slurm writes them, and its features."""

    name: str
    partitions: tuple[str, ...]
    state: str
    cpus: int
    gres: str
    features: tuple[str, ...]

    @property
    def up(self) -> bool:
        """Whether jobs run there, or will when it has finished what it does."""
        return not any(word in self.state for word in ("down", "drain", "fail", "maint", "unknown", "inval", "*"))


@dataclass(frozen=True)
class Partition:
    """A partition; `max_time_seconds` is None where there is no limit or none is known.

    Of `accounts`, `groups` and `qos`, the one who may use it, "" stands for all.
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
    preempted: bool = False

    @property
    def open_to_all(self) -> bool:
        """Whether every user may send jobs there."""
        return not (self.accounts or self.groups or self.qos or self.root_only or self.reservation_only)


@dataclass(frozen=True)
class ClusterInfo:
    """A cluster: `configuration` is what its controller says of itself, `unknown` what could not be asked."""

    partitions: tuple[Partition, ...]
    nodes: tuple[ClusterNode, ...]
    configuration: Mapping[str, str]
    unknown: tuple[str, ...] = ()

    @property
    def cluster(self) -> str:
        """The cluster's own name, "" if unknown."""
        return self.configuration.get("ClusterName", "")

    @property
    def version(self) -> str:
        """Slurm's release, "" if unknown."""
        return self.configuration.get("SLURM_VERSION", "")

    @property
    def accounts_enforced(self) -> bool:
        """Whether a job needs an account that its user belongs to."""
        words = self.configuration.get("AccountingStorageEnforce", "none").lower().split(",")
        return not {"associations", "limits", "qos", "safe", "all"}.isdisjoint(words)

    def partition(self, name: str) -> Partition | None:
        """The partition of this name."""
        return next((each for each in self.partitions if each.name == name), None)
