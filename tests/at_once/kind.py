"""The third scheduler as the rest of hpc-board knows it."""

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType

from hpc_board.model.gpu import Cluster, Gpu
from hpc_board.model.job_environment import JobEnvironment
from hpc_board.schedulers import Scheduler, SchedulerKind, Surroundings
from hpc_board.schedulers.sections import ClusterSection, GpuSection
from hpc_board.yaml_document import Document
from hpc_board.yaml_sections import Line, Name, Place
from tests.at_once import Lane
from tests.values import replace


class AtOnceClusterSection(ClusterSection, frozen=True, kw_only=True):
    """A cluster that knows which shell runs its scripts."""

    shell: Line = "bash"


class AtOnceGpuSection(GpuSection, frozen=True, kw_only=True):
    """A GPU that is in a lane."""

    lane: Name


class AtOnceKind(SchedulerKind[AtOnceClusterSection, AtOnceGpuSection]):
    """Everything that hpc-board needs to know of the third scheduler."""

    name = "at-once"
    title = "At Once"
    cluster_section = AtOnceClusterSection
    gpu_section = AtOnceGpuSection
    poll_seconds = 0.1
    poll_seconds_min = 0.05
    allow_root = True
    on_this_machine = True
    result_grace = timedelta(0)
    job_environment = JobEnvironment(prefix="AT_ONCE", job_id="AT_ONCE_JOB", node="AT_ONCE_NODE")
    exports = MappingProxyType({"AT_ONCE_QUIET": "yes please"})

    def read_cluster(
        self, document: Document, place: Place, section: AtOnceClusterSection, cluster: Cluster
    ) -> Cluster:
        if "/" in section.shell:
            document.fault((*place, "shell"), "is a name, not a path")
        return replace(cluster, scheduler_options=section.shell)

    def read_gpu(self, document: Document, place: Place, section: AtOnceGpuSection, gpu: Gpu) -> Gpu:
        if section.lane == "fast" and section.container is not None:
            document.fault((*place, "lane"), "has no containers")
        return replace(gpu, partition=section.lane, scheduler_options=Lane(section.lane))

    def options(self, gpu: Gpu, time_limit_seconds: int) -> dict[str, str]:
        assert isinstance(gpu.scheduler_options, Lane)
        return {"lane": gpu.scheduler_options.name, "seconds": str(time_limit_seconds)}

    def directives(self, options: Mapping[str, str]) -> list[str]:
        return [f"#ATONCE {name}={value}" for name, value in options.items()]

    def connect(self, cluster: Cluster, surroundings: Surroundings) -> Scheduler:
        from tests.at_once.client import AtOnceScheduler

        return AtOnceScheduler(str(cluster.scheduler_options), surroundings.folder())


AT_ONCE = AtOnceKind()
