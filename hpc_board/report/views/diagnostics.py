"""The JSON of diagnostics: of an installation, of the GPUs of the settings, and of a task."""

from typing import Any, ClassVar

from hpc_board.domain.node_checks import NodeCheck
from hpc_board.report.views import Lines, View, view_of


class DiagnosticView(View, frozen=True):
    """A diagnostic of an installation, a GPU or a task."""

    ATTRIBUTES: ClassVar = {"level": "severity", "advice": "hint"}
    level: str
    """`ok`, `warning` or `error`"""
    subject: str
    """the part that was checked; of a task, the name of the finding"""
    message: Lines
    """its state"""
    advice: Lines
    """the remedy"""


class GpuCheckView(View, frozen=True):
    """A checked GPU of the settings."""

    ATTRIBUTES: ClassVar = {
        "gpu": "gpu.name",
        "cluster": "gpu.cluster.name",
        "lines": "diagnostics",
        "node": "inspection",
    }
    gpu: str
    cluster: str
    proven: bool
    """true without errors"""
    lines: list[DiagnosticView]
    """its diagnostics"""
    node: dict[str, Any] | None
    """the report of the probe job on its node"""


class SpeedView(View, frozen=True):
    """A measured rate of a node."""

    name: str
    """`matmul`, `copy` or `sha256`"""
    unit: str
    """its unit"""
    rate: float
    """the median of the samples"""
    spread: float
    """the spread of the samples as a share of it"""
    of_median: float
    """the rate as a share of the median of the GPU's nodes"""


class NodeCheckView(View, frozen=True):
    """A checked node of a GPU of the settings."""

    ATTRIBUTES: ClassVar = {"result": "verdict", "lines": "diagnostics", "report": "probe"}
    gpu: str
    cluster: str
    node: str | None
    """the name of the node; `null` for a GPU whose options the scheduler refuses"""
    state: str
    """the node's state in the scheduler's words"""
    result: str
    """`ok`, `slow`, `wrong` for a GPU of another model, `broken`, `busy` or `down`; the last two without a report"""
    reason: str
    """the reason if it is not `ok`"""
    device: str | None
    """the driver's name of the node's GPU"""
    speeds: list[SpeedView]
    """the rates of the benchmark"""
    lines: list[DiagnosticView]
    """the diagnostics of the probe job"""
    report: dict[str, Any] | None
    """the report of the probe job"""

    @classmethod
    def of(cls, check: NodeCheck) -> "NodeCheckView":
        speeds = [view_of(SpeedView, each, of_median=check.of_median[each.name]) for each in check.speeds]
        return view_of(cls, check, speeds=speeds)
