"""The kind of the local scheduler."""

from collections.abc import Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from hpc_board.model.gpu import Cluster, Device
from hpc_board.model.job_environment import JobEnvironment
from hpc_board.schedulers import Scheduler, SchedulerKind, Surroundings
from hpc_board.schedulers.sections import ClusterSection, GpuSection

if TYPE_CHECKING:
    from hpc_board.schedulers.settings_text import Detected
    from hpc_board.transport import Host


class LocalKind(SchedulerKind[ClusterSection, GpuSection]):
    """The embedded scheduler of this machine: a queue on disk, whose jobs' files are visible at once.

    Jobs find Slurm's variables, so that a script of a user's own runs on both.
    """

    name = "local"
    title = "the local scheduler"
    cluster_section = ClusterSection
    gpu_section = GpuSection
    poll_seconds = 0.5
    job_environment = JobEnvironment(prefix="SLURM", job_id="SLURM_JOB_ID", passed_on=("SLURM_JOB_NAME",))
    exports = MappingProxyType({"SLURM_EXPORT_ENV": "ALL"})
    allow_root = True
    on_this_machine = True
    shared = False
    result_grace = timedelta(seconds=3)

    def connect(self, cluster: Cluster, surroundings: Surroundings) -> Scheduler:
        from hpc_board.schedulers.local.client import LocalScheduler

        return LocalScheduler(cluster, surroundings.folder(), devices=surroundings.devices)

    def detect(
        self,
        host: "Host",
        *,
        cluster: str | None = None,
        board: str | None = None,
        gpus: Sequence[tuple[str, Device]] = (),
    ) -> "Detected":
        del host, cluster
        from hpc_board.schedulers.settings_text import Detected, comment, quoted, scalar

        entries = [
            f"  {scalar(name)}: {{cluster: here{'' if name == 'CPU' else f', device: {device}'}}}"
            for name, device in gpus
        ]
        lines = [
            *comment("hpc-board settings for this machine only, without Slurm.", ""),
            "",
            f"board: {quoted(board or '')}",
            "",
            "clusters:",
            "  here: {scheduler: local}    # one job at a time on each device",
            "",
            "gpus:",
            *entries,
        ]
        return Detected("\n".join(lines) + "\n", tuple(name for name, _ in gpus))


LOCAL = LocalKind()
