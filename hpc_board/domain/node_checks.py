"""Checks of each node of a GPU, and their comparison: which nodes are broken, wrong or slow."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from hpc_board.domain.diagnostic import Diagnostic, Severity
from hpc_board.model.node_probe import NodeProbe, Speed

SLOW_SHARE = 0.9
"""The share of the median rate below which a node is slow, unless its own samples spread as far."""


class NodeVerdict(StrEnum):
    """The outcome of a node's check."""

    OK = "ok"
    SLOW = "slow"
    WRONG = "wrong"
    BROKEN = "broken"
    BUSY = "busy"
    DOWN = "down"

    @property
    def is_problem(self) -> bool:
        """Return whether runs on the node fail, or would be ranked under a wrong name."""
        return self in (NodeVerdict.WRONG, NodeVerdict.BROKEN)


class NodeCheck(msgspec.Struct, frozen=True):
    """A node of a GPU of the settings: the scheduler's state of it, and the outcome of its probe job.

    Attributes:
        gpu: the name of the GPU.
        cluster: its cluster.
        node: the name of the node; empty for a GPU that cannot be checked.
        state: the node's state in the scheduler's words.
        verdict: the outcome.
        reason: why it is not ok; empty if it is.
        device: the driver's name of the GPU, empty without one.
        diagnostics: the diagnostics of the probe job; none without a job.
        probe: the report of the probe job, if it left one.
        of_median: each rate as a share of the median of the GPU's nodes, by its name.
    """

    gpu: str
    cluster: str
    node: str
    state: str
    verdict: NodeVerdict
    reason: str = ""
    device: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    probe: NodeProbe | None = None
    of_median: Mapping[str, float] = {}

    @property
    def speeds(self) -> Sequence[Speed]:
        """Return the rates that were measured."""
        return () if self.probe is None else self.probe.speeds

    @property
    def errors(self) -> Sequence[Diagnostic]:
        """Return the diagnostics that prevent runs."""
        return [each for each in self.diagnostics if each.severity is Severity.ERROR]


def compared(checks: Sequence[NodeCheck]) -> list[NodeCheck]:
    """Return the checks of one GPU's nodes with their rates compared, and nodes of another model or a low rate marked.

    A node that was ok has another model if most nodes have the same one, and it has not. The medians are those of nodes
    without a problem, as far as there are any.
    """
    models = Counter(each.device for each in checks if each.device)
    usual, count = models.most_common(1)[0] if models else ("", 0)
    usual = usual if 2 * count > models.total() else ""
    passed = [each for each in checks if each.verdict is NodeVerdict.OK and usual in ("", each.device)]
    medians = _medians(checks) | _medians(passed)
    return [_with_verdict(each, medians, usual) for each in checks]


def _medians(checks: Sequence[NodeCheck]) -> dict[tuple[str, str], float]:
    """Return the median of each rate, by its name and unit."""
    rates: dict[tuple[str, str], list[float]] = {}
    for each in checks:
        for speed in each.speeds:
            rates.setdefault((speed.name, speed.unit), []).append(speed.rate)
    return {key: statistics.median(values) for key, values in rates.items()}


def _with_verdict(check: NodeCheck, medians: Mapping[tuple[str, str], float], usual: str) -> NodeCheck:
    shares = {speed.name: speed.rate / medians[speed.name, speed.unit] for speed in check.speeds}
    check = replace(check, of_median=shares)
    if check.verdict is not NodeVerdict.OK:
        return check
    if usual and check.device != usual:
        return replace(check, verdict=NodeVerdict.WRONG, reason=f"it has {check.device}, but most nodes have {usual}")
    slow = [
        f"{speed.name} at {shares[speed.name]:.0%} of the median"
        for speed in check.speeds
        if shares[speed.name] < SLOW_SHARE and shares[speed.name] * (1 + speed.spread) < 1
    ]
    return replace(check, verdict=NodeVerdict.SLOW, reason=", ".join(slow)) if slow else check
