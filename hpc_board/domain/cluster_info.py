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
    preempted: bool = False

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
