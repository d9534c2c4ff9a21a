"""The settings: where the board lies, which tasks it has, and how jobs get each of its GPUs."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hpc_board import bundled
from hpc_board.domain.gpu_names import gpu_model_name
from hpc_board.domain.roles import SOMEBODY, SOMEBODY_WORDS, Roles
from hpc_board.errors import InputError
from hpc_board.model.gpu import (
    Cluster,
    ContainerRuntime,
    Device,
    Gpu,
    JobContainer,
    Login,
    Request,
    RequestStyle,
    Sandbox,
    SandboxRuntime,
)
from hpc_board.model.names import NAME, NAME_WORDS, suggestion
from hpc_board.schedulers import EMBEDDED, kind, kind_of
from hpc_board.schedulers.slurm.sbatch import extra_faults
from hpc_board.transport.home import home
from hpc_board.yaml_document import Document, Place

FILE_NAME = "hpc-board.yaml"
BUNDLED = "bundled"
"""The word in `tasks` that stands for the tasks that ship with hpc-board."""

_SYSTEM_FILE = Path("/etc/hpc-board/config.yaml")
_TIME_WORDS = 'a time up to a year as "MM", "MM:SS", "HH:MM:SS", "D-HH", "D-HH:MM" or "D-HH:MM:SS"'

Name = Annotated[str, Meta(pattern=rf"\A{NAME}\Z", description=NAME_WORDS)]
Line = Annotated[str, Meta(pattern=r"\A[^\x00-\x1f\x7f-\x9f]+\Z", max_length=4096, description="one line of text")]
EnvName = Annotated[
    str,
    Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z", description="the name of an environment variable"),
]
EnvValue = Annotated[str, Meta(pattern=r"\A[^\x00-\x1f\x7f-\x9f]*\Z", max_length=4096, description="one line of text")]
SlurmWord = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z0-9_(\[][A-Za-z0-9_.+,@:=/&|*!%~()\[\]-]{0,254}\Z",
        description="a value for sbatch: letters, digits and _ . + , @ : = / & | * ! % ~ ( ) [ ] -, no spaces",
    ),
]
Module = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.+/@:=~-]{0,254}\Z",
        description="the name of an environment module",
    ),
]
Mount = Annotated[
    str,
    Meta(
        pattern=r"\A/[^\x00-\x1f\x7f-\x9f\s:,\\]{0,4094}\Z",
        description="the full path of a folder, without spaces, colons, commas and backslashes",
    ),
]
Memory = Annotated[str, Meta(pattern=r"\A[0-9]{1,12}[KMGTkmgt]?\Z", description='an amount of memory such as "16G"')]
Count = Annotated[int, Meta(ge=1, le=65_536, description="a whole number from 1")]
Port = Annotated[int, Meta(ge=1, le=65_535, description="a port number")]
SshWord = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z0-9_\[:][A-Za-z0-9_.@:,%\[\]+-]{0,254}\Z",
        description="a name without spaces, such as login2.site.org or alice",
    ),
]
Somebody = Annotated[str, Meta(pattern=rf"\A{SOMEBODY}\Z", description=SOMEBODY_WORDS)]
Seconds = Annotated[float, Meta(gt=0, le=3600, description="a number of seconds, above 0 and at most 3600")]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A mapping of the settings file, in which every key is known."""


class SshSection(Section, frozen=True):
    """`ssh:` of a cluster: a login node on which the scheduler's commands run."""

    host: SshWord
    """The login node: its name or address, or a `Host` of `~/.ssh/config`."""
    user: SshWord | None = None
    """The account there; else as `ssh` has it."""
    port: Port | None = None
    """The port of its SSH server; else as `ssh` has it."""
    key: Line | None = None
    """A file with a private key, the only one to be offered; else those of the agent and of `~/.ssh`."""
    proxy_jump: SshWord | None = None
    """Hosts to go through, as `ssh -J` has them: `[user@]host[:port]`, several joined by commas."""
    proxy_command: Line | None = None
    """A command that connects its standard input and output to the login node, as `ssh -o ProxyCommand` has it."""


class ClusterSection(Section, frozen=True):
    """One of `clusters:`."""

    scheduler: Literal["slurm", "local"]
    """What runs the jobs: Slurm, or this host by itself."""
    client: Literal["cli", "pyslurm"] = "cli"
    """How Slurm is asked: by its commands, or about its queue through pyslurm and by the commands otherwise."""
    pyslurm_python: Line | None = None
    """The Python that has pyslurm, for `client: pyslurm`: by default the one that runs hpc-board."""
    poll_seconds: Seconds | None = None
    """Shortest time between two questions to the scheduler: 15 for Slurm (at least 1), 0.5 for `local`."""
    ssh: SshSection | None = None
    """The login node, where hpc-board does not run on one of this cluster's."""
    board_folder: Line | None = None
    """With `ssh`: the folder for jobs, by its full path on the cluster."""
    allow_root: bool | None = None
    """Whether jobs may judge as root, and run submissions so: by default on a `local` cluster alone."""


class RequestSection(Section, frozen=True):
    """`request:` of a GPU: how the site wants it to be asked for."""

    style: RequestStyle
    """The option of sbatch to ask with, or none where the partition alone decides."""
    value: SlurmWord | None = None
    """What to ask for, such as "gpu:h100:1"."""


class ContainerSection(Section, frozen=True):
    """`container:` of a GPU: the image in which its jobs are judged."""

    runtime: ContainerRuntime
    """What starts the image: Apptainer, Slurm's plugin pyxis, or Enroot without the plugin."""
    image: Line
    """A file, for Apptainer also a folder; for pyxis and Enroot whatever they take, such as the name of a container."""
    mounts: list[Mount] = []
    """Folders of the node that are seen in the container too, read-only, under the same paths."""


class SandboxSection(Section, frozen=True):
    """`sandbox:` of a GPU, or of all: the container around the processes that run a submission."""

    runtime: Literal["bubblewrap", "apptainer", "none"]
    """What makes the container; `none` for a GPU that is to have none although `defaults` says otherwise."""
    image: Line | None = None
    """The image for Apptainer, with Python 3.10 or newer, what tasks import, and compilers in it."""


class GpuSection(Section, frozen=True):
    """One of `gpus:`."""

    cluster: Name
    """The cluster that has the GPU."""
    partition: SlurmWord | None = None
    """The Slurm partition; several may be separated by commas."""
    request: RequestSection | None = None
    """How a job asks for the GPU."""
    arch: SlurmWord | None = None
    """The architecture to compile for, such as sm_90a."""
    device: Device | None = None
    """The kind of processor: cuda unless the GPU is called CPU. `cpu` marks results of other names as emulated."""
    time: Line | None = None
    """The job's time limit in one of Slurm's formats; without it the task's own limits decide."""
    account: SlurmWord | None = None
    """The account to charge."""
    qos: SlurmWord | None = None
    """The quality of service."""
    constraint: SlurmWord | None = None
    """Features that the node must have."""
    reservation: SlurmWord | None = None
    """The reservation to run in."""
    nodelist: SlurmWord | None = None
    """Nodes to use."""
    exclude: SlurmWord | None = None
    """Nodes to avoid."""
    cpus_per_task: Count | None = None
    """CPU cores of the job."""
    memory: Memory | None = None
    """Memory of the job."""
    exclusive: bool = False
    """Whether the job gets its node for itself."""
    gpu_freq: SlurmWord | None = None
    """The clock to ask for, such as "high"."""
    modules: list[Module] = []
    """Environment modules to load."""
    container: ContainerSection | None = None
    """The container in which the judge runs, and all that it starts."""
    python: Line | None = None
    """Python on the node or in the container: python3 by default, on a local cluster the one that runs hpc-board."""
    env: dict[EnvName, EnvValue] = {}
    """Environment variables of the job."""
    sbatch: list[Line] = []
    """Further options of sbatch; those that hpc-board itself sets are refused."""
    template: Line | None = None
    """A batch script template to use in place of the one that ships."""
    minimum_isolation: Literal["S0", "S1", "S2", "S3", "S4"] | None = None
    """The least isolation at which a ranked run counts; a node that reaches less ends it as infra_error."""
    sandbox: SandboxSection | None = None
    """The container around the processes that run a submission; a node that cannot make it ends runs as infra_error."""


class DefaultsSection(Section, frozen=True):
    """`defaults:`: what holds for every GPU that does not say otherwise."""

    sandbox: SandboxSection | None = None
    """The container around the processes that run a submission."""


class RolesSection(Section, frozen=True):
    """`roles:`: who may do what on the board. The owner of the board's folder is always an admin."""

    admins: list[Somebody] = []
    """Who may do everything: rules of play, backups, others' submissions."""
    creators: list[Somebody] = []
    """Who may create boards, and change and delete their own."""
    participants: list[Somebody] = []
    """Who may submit: everybody who reaches the board if this is empty."""


class SettingsFile(Section, frozen=True):
    """The whole settings file."""

    board: Line | None = None
    """The board's folder: `hpc-board` in the user's data folder by default."""
    tasks: list[Line] | None = None
    """Task folders, and folders of task folders; the word `bundled` stands for those that ship, the default."""
    clusters: dict[Name, ClusterSection] = {}
    """Schedulers by the names that `gpus` uses."""
    gpus: dict[Name, GpuSection] = {}
    """GPUs by the names that boards use; where there are neither clusters nor GPUs: those of this machine."""
    defaults: DefaultsSection = DefaultsSection()
    """What holds for every GPU that does not say otherwise."""
    roles: RolesSection = RolesSection()
    """Who may do what on the board."""


_SLURM_ONLY = (
    "partition",
    "request",
    "account",
    "qos",
    "constraint",
    "reservation",
    "nodelist",
    "exclude",
    "cpus_per_task",
    "memory",
    "exclusive",
    "gpu_freq",
    "sbatch",
)


@dataclass(frozen=True)
class Settings:
    """What the settings file says, with every default filled in; `file` is None for the embedded default.

    `devices` is where the user's boards agree on whose job has a device of a machine.
    """

    board: Path
    devices: Path
    tasks: tuple[Path, ...]
    gpus: tuple[Gpu, ...]
    clusters: tuple[Cluster, ...]
    file: Path | None = None
    roles: Roles = field(default_factory=Roles)


def find(explicit: Path | None, environ: Mapping[str, str], cwd: Path) -> Path | None:
    """The settings file to use, None where there is none.

    The first of: `explicit`, $HPC_BOARD_CONFIG, hpc-board.yaml in `cwd`, hpc-board/config.yaml in the user's
    configuration folder, /etc/hpc-board/config.yaml. The one in `cwd` must belong to the user or to root, since
    settings decide what runs in the user's name.

    Raises:
        InputError: a file that is named outright does not exist, or the one in `cwd` belongs to somebody else.
    """
    variable = environ.get("HPC_BOARD_CONFIG")
    for path, origin in ((explicit, "--config"), (Path(variable) if variable else None, "$HPC_BOARD_CONFIG")):
        if path is None:
            continue
        if not _is_there(path):
            raise InputError(
                f"{path}: there is no such settings file; {origin} names it.",
                hint=f"Correct {origin}, or leave it out to use the default settings.",
            )
        return path
    local = cwd / FILE_NAME
    if _is_there(local):
        if {local.lstat().st_uid, local.stat().st_uid} - {0, os.getuid()}:
            raise InputError(
                f"{local} belongs neither to you nor to root, and its settings would run commands in your name.",
                hint=f"If you trust it, name it yourself: --config {FILE_NAME}",
            )
        return local
    with suppress(InputError):  # without a home folder, there are none of the user's own
        own = _xdg(environ, "XDG_CONFIG_HOME", ".config") / "hpc-board/config.yaml"
        if _is_there(own):
            return own
    return _SYSTEM_FILE if _is_there(_SYSTEM_FILE) else None


def load(file: Path | None, environ: Mapping[str, str]) -> Settings:
    """The settings in `file`, or the embedded default: this machine's GPUs, and the tasks that ship.

    Relative paths in the file start from its folder.

    Raises:
        InputError: the file cannot be read.
        DocumentError: it has faults; all of them are listed.
    """
    board = _xdg(environ, "XDG_DATA_HOME", ".local/share") / "hpc-board"
    devices = _xdg(environ, "XDG_STATE_HOME", ".local/state") / "hpc-board/devices"
    here = Cluster(EMBEDDED, EMBEDDED, poll_seconds=kind(EMBEDDED).poll_seconds)
    if file is None:
        return Settings(board, devices, (bundled.folder("tasks"),), _machine_gpus(here), (here,))
    document = Document.read(file, hint="Correct these lines of the settings file.")
    section = document.value(SettingsFile)
    base = file.absolute().parent
    if section.board is not None:
        board = _inside(document, ("board",), base, section.board)
    tasks = _task_folders(document, section, base)
    clusters = {name: _cluster(document, name, item, base) for name, item in section.clusters.items()}
    sandbox = _sandbox(document, ("defaults", "sandbox"), section.defaults.sandbox, base)
    gpus = tuple(_gpu(document, name, item, clusters, base, sandbox) for name, item in section.gpus.items())
    _check_gpu_names(document, tuple(section.gpus))
    if not document.has(("gpus",)) and not document.has(("clusters",)):
        clusters, gpus = {here.name: here}, _machine_gpus(here, sandbox)
    elif not section.gpus and not document.faults:
        document.fault(("gpus",), "no GPU is given; a board needs at least one")
    document.check()
    roles = Roles(
        *(tuple(names) for names in (section.roles.admins, section.roles.creators, section.roles.participants))
    )
    return Settings(board, devices, tasks, gpus, tuple(clusters.values()), file.absolute(), roles)


def time_limit_seconds(text: str) -> int:
    """Slurm's "MM", "MM:SS", "HH:MM:SS", "D-HH", "D-HH:MM" or "D-HH:MM:SS" in seconds.

    Raises:
        ValueError: `text` is none of these, or no time at all.
    """
    match = re.fullmatch(r"(?:(\d{1,4})-)?(\d{1,6})(?::(\d{1,6}))?(?::(\d{1,6}))?", text, re.ASCII)
    if match is None:
        raise ValueError(f'expected {_TIME_WORDS}, found "{text}"')
    days, first, second, third = (None if group is None else int(group) for group in match.groups())
    if days is None and third is None:
        hours, minutes, seconds = 0, first, second
    else:
        hours, minutes, seconds = first or 0, second, third
    total = (days or 0) * 86_400 + hours * 3600 + (minutes or 0) * 60 + (seconds or 0)
    if not 0 < total <= 366 * 86_400:
        raise ValueError(f'expected {_TIME_WORDS}, found "{text}"')
    return total


def machine_gpu_names(driver: Path = Path("/proc/driver/nvidia/gpus")) -> tuple[str, ...]:
    """The names of the NVIDIA GPUs that the driver of this machine reports, each once, in the driver's order."""
    names: dict[str, None] = {}
    for information in sorted(driver.glob("*/information")):
        match = re.search(r"^Model:\s*(.+)$", information.read_text(errors="replace"), re.MULTILINE)
        if match:
            names[gpu_model_name(match[1].strip())] = None
    return tuple(names)


def _machine_gpus(cluster: Cluster, sandbox: Sandbox | None = None) -> tuple[Gpu, ...]:
    devices = [*((name, Device.CUDA) for name in machine_gpu_names()), ("CPU", Device.CPU)]
    return tuple(Gpu(name, cluster, device, python=sys.executable, sandbox=sandbox) for name, device in devices)


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except OSError:
        return False
    return True


def _xdg(environ: Mapping[str, str], variable: str, default: str) -> Path:
    given = Path(environ.get(variable, ""))
    if given.is_absolute():
        return given
    return home(environ) / default


def _inside(document: Document, place: Place, base: Path, path: str) -> Path:
    try:
        return _straight(base / Path(path).expanduser())
    except RuntimeError:
        document.fault(place, f'there is no home folder for "{path}"')
        return base / path


def _straight(path: Path) -> Path:
    """The same path without "..", as far as no link on the way leads elsewhere."""
    straight = Path(os.path.normpath(path))
    return straight if os.path.realpath(straight) == os.path.realpath(path) else path


def _check_path(document: Document, place: Place, path: Path, test: Callable[[Path], bool], kind: str) -> None:
    try:
        if not test(path):
            document.fault(place, f"{path} is not a {kind}")
    except OSError as error:
        document.fault(place, f"{path} cannot be reached: {error.strerror}")


def _task_folders(document: Document, section: SettingsFile, base: Path) -> tuple[Path, ...]:
    folders = []
    for index, entry in enumerate(section.tasks if section.tasks is not None else [BUNDLED]):
        folder = bundled.folder("tasks") if entry == BUNDLED else _inside(document, ("tasks", index), base, entry)
        _check_path(document, ("tasks", index), folder, Path.is_dir, "folder")
        folders.append(folder)
    return tuple(folders)


def _cluster(document: Document, name: str, section: ClusterSection, base: Path) -> Cluster:
    place = ("clusters", name)
    slurm = section.scheduler == "slurm"
    if section.client == "pyslurm" and not slurm:
        document.fault((*place, "client"), "pyslurm is for Slurm")
    if section.client == "pyslurm" and section.ssh is not None:
        document.fault((*place, "client"), "pyslurm asks from this host alone; use cli where commands run over ssh")
    if section.pyslurm_python is not None and section.client != "pyslurm":
        document.fault((*place, "pyslurm_python"), "is given although client is not pyslurm")
    if slurm and section.poll_seconds is not None and section.poll_seconds < 1:
        document.fault((*place, "poll_seconds"), "expected at least 1 second for Slurm")
    return Cluster(
        name,
        section.scheduler,
        section.client,
        section.poll_seconds or kind(section.scheduler).poll_seconds,
        _login(document, place, section, base),
        _board_folder(document, place, section),
        section.pyslurm_python or "",
        section.allow_root,
    )


def _login(document: Document, place: Place, section: ClusterSection, base: Path) -> Login | None:
    ssh = section.ssh
    if ssh is None:
        return None
    if section.scheduler != "slurm":
        document.fault((*place, "ssh"), f"is for Slurm; cluster {place[-1]} has the scheduler local")
    if ssh.proxy_jump is not None and ssh.proxy_command is not None:
        document.fault((*place, "ssh", "proxy_command"), "is given beside proxy_jump; there is one way to a host")
    key = None if ssh.key is None else _inside(document, (*place, "ssh", "key"), base, ssh.key)
    if key is not None:
        _check_path(document, (*place, "ssh", "key"), key, Path.is_file, "file")
    return Login(
        ssh.host,
        ssh.user or "",
        ssh.port,
        "" if key is None else str(key),
        ssh.proxy_jump or "",
        ssh.proxy_command or "",
    )


def _board_folder(document: Document, place: Place, section: ClusterSection) -> str:
    folder = section.board_folder or ""
    if not document.has((*place, "ssh")):
        if document.has((*place, "board_folder")):
            document.fault((*place, "board_folder"), "is given without ssh; `board` is the folder for jobs then")
    elif not document.has((*place, "board_folder")):
        document.fault((*place, "board_folder"), "is missing; with ssh, a folder of the cluster has to take the jobs")
    elif folder and (not folder.startswith("/") or ".." in Path(folder).parts or Path(folder) == Path("/")):
        document.fault((*place, "board_folder"), f'expected a full path such as /scratch/alice/board, found "{folder}"')
    return folder


def _gpu(
    document: Document,
    name: str,
    section: GpuSection,
    clusters: Mapping[str, Cluster],
    base: Path,
    sandbox: Sandbox | None,
) -> Gpu:
    place = ("gpus", name)
    if not document.has(("clusters", section.cluster)):
        near = suggestion(section.cluster, clusters)
        known = ", ".join(clusters) or "none"
        document.fault((*place, "cluster"), f'there is no cluster "{section.cluster}".{near} Clusters: {known}')
    cluster = clusters.get(section.cluster, Cluster(section.cluster, EMBEDDED))
    if section.cluster in clusters:
        _check_scheduler_keys(document, place, section, cluster)
    image = section.sandbox.image if section.sandbox is not None else None
    if cluster.ssh is not None and image is not None and not image.startswith("/"):
        document.fault((*place, "sandbox", "image"), f"expected a full path, as cluster {cluster.name} sees it")
    container = _container(document, (*place, "container"), section.container, cluster, base)
    confined = sandbox if section.sandbox is None else _sandbox(document, (*place, "sandbox"), section.sandbox, base)
    if container is not None and confined is not None and confined.runtime is SandboxRuntime.APPTAINER:
        document.fault(
            (*place, "container"), f"cannot go with {confined.setting}: there is no Apptainer within a container"
        )
    here = kind_of(cluster).on_this_machine and container is None
    template = None if section.template is None else _inside(document, (*place, "template"), base, section.template)
    if template is not None:
        _check_path(document, (*place, "template"), template, Path.is_file, "file")
    return Gpu(
        name=name,
        cluster=cluster,
        device=section.device or (Device.CPU if name.upper() == "CPU" else Device.CUDA),
        partition=section.partition or "",
        request=_request(document, (*place, "request"), section.request),
        arch=section.arch or "",
        time_limit_seconds=_time_limit(document, (*place, "time"), section.time),
        account=section.account or "",
        qos=section.qos or "",
        constraint=section.constraint or "",
        reservation=section.reservation or "",
        nodelist=section.nodelist or "",
        exclude=section.exclude or "",
        cpus_per_task=section.cpus_per_task,
        memory=section.memory or "",
        exclusive=section.exclusive,
        gpu_freq=section.gpu_freq or "",
        modules=tuple(section.modules),
        container=container,
        python=section.python or (sys.executable if here else "python3"),
        env=dict(section.env),
        sbatch=tuple(section.sbatch),
        template=None if template is None else str(template),
        minimum_isolation=section.minimum_isolation or "",
        sandbox=confined,
    )


def _check_scheduler_keys(document: Document, place: Place, section: GpuSection, cluster: Cluster) -> None:
    if cluster.scheduler == "slurm":
        if not document.has((*place, "partition")):
            document.fault((*place, "partition"), f"is missing; cluster {cluster.name} is a Slurm cluster")
        for index, message in _sbatch_faults(section.sbatch):
            document.fault((*place, "sbatch", index), message)
        return
    for key in _SLURM_ONLY:
        if document.has((*place, key)):
            document.fault((*place, key), f"is for Slurm; cluster {cluster.name} has the scheduler local")


def _sbatch_faults(sbatch: Sequence[str]) -> Iterator[tuple[int, str]]:
    """What is wrong with the extra options, each fault with the index of the option that brings it in."""
    known = 0
    for index in range(len(sbatch)):
        found = extra_faults(sbatch[: index + 1])
        yield from ((index, message) for message in found[known:])
        known = len(found)


def _check_gpu_names(document: Document, names: Sequence[str]) -> None:
    folded: dict[str, str] = {}
    for name in names:
        if name.casefold() == "all":
            document.fault(("gpus", name), 'is reserved: "all" stands for every GPU')
        first = folded.setdefault(name.casefold(), name)
        if first != name:
            document.fault(("gpus", name), f"differs from {first} in upper and lower case only")


def _request(document: Document, place: Place, section: RequestSection | None) -> Request:
    if section is None:
        return Request()
    if section.style is not RequestStyle.NONE and section.value is None:
        document.fault((*place, "value"), f'is missing; style {section.style} needs one, such as "gpu:1"')
    if section.style is RequestStyle.NONE and section.value is not None:
        document.fault((*place, "value"), "is given although style none asks for nothing")
    return Request(section.style, section.value or "")


def _sandbox(document: Document, place: Place, section: SandboxSection | None, base: Path) -> Sandbox | None:
    if section is None:
        return None
    if section.runtime == "apptainer" and section.image is None:
        document.fault((*place, "image"), "is missing; apptainer needs the path of one, such as /shared/kernels.sif")
    if section.runtime != "apptainer" and section.image is not None:
        document.fault((*place, "image"), f"is given although {section.runtime} takes no image")
    if section.runtime == "none":
        return None
    image = "" if section.image is None else str(_inside(document, (*place, "image"), base, section.image))
    return Sandbox(SandboxRuntime(section.runtime), image, ".".join(map(str, place)))


def _container(
    document: Document, place: Place, section: ContainerSection | None, cluster: Cluster, base: Path
) -> JobContainer | None:
    if section is None:
        return None
    image = section.image
    possible = kind_of(cluster).container_runtimes
    if section.runtime not in possible:
        known = ", ".join(sorted(possible))
        document.fault((*place, "runtime"), f"{section.runtime} is none of cluster {cluster.name}, which has {known}")
    if image.startswith("-"):
        document.fault((*place, "image"), f'"{image}" would be an option')
    if section.runtime is ContainerRuntime.APPTAINER:
        if cluster.ssh is not None and not image.startswith("/"):
            document.fault((*place, "image"), f"expected a full path, as cluster {cluster.name} sees it")
        image = str(_inside(document, (*place, "image"), base, image))
    return JobContainer(section.runtime, image, tuple(section.mounts), ".".join(map(str, place)))


def _time_limit(document: Document, place: Place, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return time_limit_seconds(text)
    except ValueError as error:
        document.fault(place, str(error))
        return None
