"""Slurm as the rest of hpc-board knows it."""

from collections.abc import Mapping

from hpc_board.model.gpu import Cluster, ContainerRuntime, Gpu
from hpc_board.schedulers import Scheduler, SchedulerKind, Surroundings


class SlurmKind(SchedulerKind):
    """Slurm, asked by its commands on this machine or a login node, or about its queue through pyslurm."""

    name = "slurm"
    title = "Slurm"
    container_runtimes = SchedulerKind.container_runtimes | {ContainerRuntime.PYXIS}

    def connect(self, cluster: Cluster, surroundings: Surroundings) -> Scheduler:
        """Return the client that the settings ask for."""
        if cluster.client == "pyslurm":
            from hpc_board.schedulers.slurm.pyslurm_client import PyslurmScheduler
            from hpc_board.transport.this_host import ThisHost

            return PyslurmScheduler(cluster, ThisHost(), warn=surroundings.warn)
        from hpc_board.schedulers.slurm.client import SlurmScheduler

        return SlurmScheduler(cluster, surroundings.host())

    def log_name(self, job_id: str) -> str:
        """Return the name that sbatch itself gives the output of a job."""
        from hpc_board.schedulers.slurm.sbatch import log_name

        return log_name(job_id)

    def options(self, gpu: Gpu, time_limit_seconds: int) -> dict[str, str]:
        """Return the options of sbatch by their long names; a flag's value is empty."""
        from hpc_board.schedulers.slurm.sbatch import options_for

        return options_for(gpu, time_limit_seconds)

    def directives(self, options: Mapping[str, str]) -> list[str]:
        """Return a line with #SBATCH for each option."""
        from hpc_board.schedulers.slurm.sbatch import directive

        return [directive(name, value) for name, value in options.items()]

    def with_gpus(self, gpu: Gpu, count: int) -> Gpu:
        """Return `gpu` with the number in its request replaced.

        Raises:
            InputError: the request has no place for a number.
        """
        if count == 1:
            return gpu
        from hpc_board.schedulers.slurm.sbatch import with_gpus

        return with_gpus(gpu, count)


SLURM = SlurmKind()
