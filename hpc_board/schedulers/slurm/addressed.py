"""The address of a Slurm cluster in its commands, where a machine has commands for several."""

from collections.abc import Mapping, Sequence

from hpc_board.schedulers.slurm import ClusterOptions
from hpc_board.transport import Completed, Host


class AddressedHost:
    """A host whose commands are Slurm's, each with the address of one cluster."""

    def __init__(self, host: Host, options: ClusterOptions) -> None:
        self._host = host
        self._clusters = [f"--clusters={options.slurm_cluster}"] if options.slurm_cluster else []
        self._variables = {"SLURM_CONF": options.slurm_conf} if options.slurm_conf else {}

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_seconds: float,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str = "",
        until: Sequence[str] = (),
    ) -> Completed:
        return self._host.run(
            [argv[0], *self._clusters, *argv[1:]],
            timeout_seconds=timeout_seconds,
            env={**(env or {}), **self._variables},
            cwd=cwd,
            stdin=stdin,
            until=until,
        )

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command with its address, for a user who runs it."""
        variables = ["env", *(f"{name}={value}" for name, value in self._variables.items())] if self._variables else []
        return [*variables, argv[0], *self._clusters, *argv[1:]]
