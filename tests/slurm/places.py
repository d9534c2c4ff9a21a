"""The places of the tests' Slurm, and its commands: this host's own release, and the one in the folder of chroot.py."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NoReturn

import pytest

from hpc_board.model.gpu import Cluster
from hpc_board.schedulers.slurm import ClusterOptions
from hpc_board.schedulers.slurm.client import TIMEOUT_SECONDS, SlurmScheduler
from hpc_board.schedulers.slurm.pyslurm_client import PyslurmScheduler
from hpc_board.transport import Host
from hpc_board.transport.this_host import ThisHost
from tests.conftest import short_folder
from tests.slurm import chroot
from tests.slurm.lab import SlurmLab
from tests.values import replace

PLACES: Sequence[str] = ("host", "chroot", "chroot-pyslurm")
"""The parameters of a lab's fixture: with `pyslurm` the tests ask it through that, otherwise by the commands."""

ChrootLab = Callable[..., SlurmLab]


def skip_without_chroot() -> None:
    if hindrance := chroot.hindrance():
        pytest.skip(hindrance)


@contextmanager
def chroot_labs() -> Iterator[ChrootLab]:
    """Yield a function that gives a lab in the folder for arguments of SlurmLab, one lab for equal arguments."""
    with ExitStack() as stack:
        labs: dict[str, SlurmLab] = {}

        def lab(**arguments: object) -> SlurmLab:
            skip_without_chroot()
            key = repr(arguments)
            if key not in labs:
                folder = stack.enter_context(short_folder())
                labs[key] = stack.enter_context(SlurmLab(folder / "lab", root=chroot.folder(), **arguments))  # type: ignore[arg-type]
            return labs[key]

        yield lab


def scheduler_of(
    lab: SlurmLab, cluster: Cluster, host: Host | None = None, *, timeout_seconds: float = TIMEOUT_SECONDS
) -> SlurmScheduler:
    """The client for which the lab's tests are."""
    host = host or ThisHost(lab.environment)
    if lab.client == "cli":
        return SlurmScheduler(cluster, host, timeout_seconds=timeout_seconds)
    asked = replace(cluster, scheduler_options=ClusterOptions("pyslurm", lab.pyslurm_python))
    return PyslurmScheduler(asked, host, warn=_unexpected, timeout_seconds=timeout_seconds)


def source_of(lab: SlurmLab) -> str:
    """Return the name of the program that listed the queue, as the evidence has it."""
    return "squeue" if lab.client == "cli" else "pyslurm"


def _unexpected(warning: str) -> NoReturn:
    raise AssertionError(warning)


def lab_at(request: pytest.FixtureRequest, name: str, chroot_lab: ChrootLab, **arguments: object) -> SlurmLab:
    """The lab of this host that all tests share, or one in the folder with another Slurm."""
    if request.param == "host":
        shared: SlurmLab = request.getfixturevalue(name)
        return shared
    return chroot_lab(**arguments).asked_through("pyslurm" if request.param.endswith("pyslurm") else "cli")
