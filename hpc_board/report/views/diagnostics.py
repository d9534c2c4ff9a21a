"""The JSON of diagnostics: of an installation, of the GPUs of the settings, and of a task."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hpc_board.domain.diagnostic import Diagnostic
from hpc_board.domain.node_checks import NodeCheck
from hpc_board.model.gpu import Gpu
from hpc_board.model.node_probe import NodeProbe
from hpc_board.model.text import one_line, printable
from hpc_board.report.views import FACT_CHARACTERS_MAX, MESSAGE_CHARACTERS_MAX, View, safe, view_of


class DiagnosticView(View, frozen=True):
    """A diagnostic of an installation, a GPU or a task."""

    level: str
    """`ok`, `warning` or `error`"""
    subject: str
    """the part that was checked; of a task, the name of the finding"""
    message: str
    """its state"""
    advice: str
    """the remedy"""

    @classmethod
    def of(cls, diagnostic: Diagnostic) -> "DiagnosticView":
        return cls(
            level=str(diagnostic.severity),
            subject=diagnostic.subject,
            message=printable(diagnostic.message, MESSAGE_CHARACTERS_MAX),
            advice=printable(diagnostic.hint, MESSAGE_CHARACTERS_MAX),
        )


class GpuCheckView(View, frozen=True):
    """A checked GPU of the settings."""

    gpu: str
    cluster: str
    proven: bool
    """true without errors"""
    lines: list[DiagnosticView]
    """its diagnostics"""
    node: dict[str, Any] | None
    """the report of the probe job on its node"""

    @classmethod
    def of(
        cls, gpu: Gpu, diagnostics: Sequence[Diagnostic], inspection: NodeProbe | None, *, proven: bool
    ) -> "GpuCheckView":
        """Return the object of a GPU, with the report of its probe job if it left one."""
        return cls(
            gpu=gpu.name,
            cluster=gpu.cluster.name,
            proven=proven,
            lines=[DiagnosticView.of(each) for each in diagnostics],
            node=None if inspection is None else safe(asdict(inspection)),
        )


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
        return view_of(
            cls,
            check,
            node=one_line(check.node) or None,
            result=str(check.verdict),
            reason=one_line(check.reason, FACT_CHARACTERS_MAX),
            device=one_line(check.device) or None,
            speeds=[view_of(SpeedView, each, of_median=check.of_median[each.name]) for each in check.speeds],
            lines=[DiagnosticView.of(each) for each in check.diagnostics],
            report=None if check.probe is None else safe(asdict(check.probe)),
        )
