"""The settings: where the board lies, which tasks it has, and how jobs get each of its GPUs."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from hpc_board import bundled
from hpc_board.accounts import own_folder
from hpc_board.domain.job_options import OPTION_NAMES, OptionRules, time_limit_seconds
from hpc_board.domain.notify import NOTICE_KINDS, NoticeKind, Notify
from hpc_board.domain.roles import ACCOUNT_PATTERN, ACCOUNT_PATTERN_WORDS, Roles
from hpc_board.domain.runner_rules import LEAST_HOLD_MINUTES, RunnerRules
from hpc_board.domain.service_address import SshAddress, service_address
from hpc_board.model.gpu import (
    Cluster,
    ContainerRuntime,
    Device,
    Gpu,
    JobContainer,
    Login,
    Sandbox,
    SandboxRuntime,
)
from hpc_board.model.names import suggestion
from hpc_board.model.text import one_line
from hpc_board.schedulers import EMBEDDED, KINDS, kind, kind_of
from hpc_board.schedulers.sections import (
    ContainerSection,
    GpuSection,
    RemoteClusterSection,
    SandboxSection,
)
from hpc_board.settings_file import Found, found, straight, text_of
from hpc_board.yaml_sections import Line, Name, Part, Place, Section

if TYPE_CHECKING:
    from hpc_board.yaml_document import Document

BUNDLED = "bundled"
"""The word in `tasks` for the bundled tasks."""

SERVED_OPTIONS = ("time",)
"""The options that participants may set by default where the jobs run under another account than theirs."""

UserName = Annotated[
    str, Meta(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.@\\+-]{0,254}\$?\Z", description="the name of a Unix user")
]
_ADDRESS_WORDS = "an address of this machine with a port, such as 127.0.0.1:8080 or [::1]:8080"
Address = Annotated[
    str,
    Meta(
        pattern=r"\A(?:\[[0-9A-Fa-f:.]{2,45}\]|[0-9]{1,3}(?:\.[0-9]{1,3}){3}|localhost):[1-9][0-9]{0,4}\Z",
        description=_ADDRESS_WORDS,
    ),
]
HostName = Annotated[
    str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9.-]{0,252}\Z", description="a host's name such as boards.site.org")
]
AccountName = Annotated[str, Meta(pattern=rf"\A{ACCOUNT_PATTERN}\Z", description=ACCOUNT_PATTERN_WORDS)]


OptionName = Literal[
    "account", "qos", "reservation", "constraint", "time", "exclude", "nodelist", "retries", "max-running", "sbatch"
]


class DefaultsSection(Section, frozen=True):
    """`defaults:`: the defaults for every GPU."""

    sandbox: SandboxSection | None = None
    """The container around the processes that run a submission."""


class RolesSection(Section, frozen=True):
    """`roles:`: the rights on the board. The owner of the board's folder is always an admin."""

    admins: list[AccountName] = msgspec.field(default_factory=list)
    """Users who may do everything: rules of play, backups, others' submissions."""
    creators: list[AccountName] = msgspec.field(default_factory=list)
    """Users who may create boards, and have all rights on their own."""
    participants: list[AccountName] = msgspec.field(default_factory=list)
    """Users who may submit: all with access to the board if this is empty."""


class ServeSection(Section, frozen=True):
    """`serve:`: the service of the board, for `hpc-board serve`."""

    socket: Line | None = None
    """The Unix socket for clients; only the service's account may write its folder."""
    runs_per_user: Annotated[int, Meta(ge=1, le=100_000, description="a number of runs from 1 to 100000")] | None = None
    """The user's runs, reruns by admins too, that schedulers have at one time; the others wait with the service."""
    web: Address | None = None
    """The TCP address of the live page, for a reverse proxy: all who reach it see the open boards."""
    web_host: HostName | None = None
    """The name under which a reverse proxy serves the live page; localhost and IP addresses need none."""
    metrics: bool = False
    """Serve `/metrics` at the address `web` too, and not only at the Unix socket."""


class SubmitSection(Section, frozen=True):
    """`submit:`: the options that participants may set for the jobs of a submission."""

    options: list[OptionName] | None = None
    """The options of `submit`, by their names: all by default, and only `time` with `serve` or `jobs.account`."""


class JobsSection(Section, frozen=True):
    """`jobs:`: an account of its own for the jobs, which holds nothing else; sudo rules let this one act as it."""

    account: UserName | None = None
    """The account that sends and runs the jobs of the clusters without `ssh`."""
    folder: Line | None = None
    """The folder of its jobs, by its full path, which a group shares with this account; compute nodes see it there."""


class RunnersSection(Section, frozen=True):
    """`runners:`: jobs that hold a GPU and judge runs one after another, for `hpc-board hold`."""

    per_user: Annotated[int, Meta(ge=0, le=100, description="a number of runners from 0 to 100")] = 1
    """The runners of a user at one time; 0 turns `hold` off."""
    minutes: Annotated[
        int, Meta(ge=LEAST_HOLD_MINUTES, le=10_080, description=f"minutes from {LEAST_HOLD_MINUTES} to 10080")
    ] = 60
    """The longest time for which a runner holds its GPU, which is its job's time limit."""
    idle_minutes: Annotated[int, Meta(ge=1, le=10_080, description="minutes from 1 to 10080")] = 5
    """The longest time for which a runner waits for its next run."""
    auto: Annotated[int, Meta(ge=0, le=100, description="a number of runners from 0 to 100")] = 0
    """The runners that the board itself starts at most for a GPU while three runs or more wait for it."""


class NotifySection(Section, frozen=True):
    """`notify:`: a command that is notified of events, run by the service, or without one by `hpc-board poll`."""

    command: list[Line]
    """The program, by its name in PATH or its full path, and its arguments; `{text}` in one is the event's line."""
    on: list[NoticeKind] = msgspec.field(default_factory=lambda: list(NOTICE_KINDS))
    """The events: changes of first places, deadlines of boards, new findings of `admin doctor`; all by default."""


class SettingsFile(Section, frozen=True):
    """The whole settings file."""

    service: Line | None = None
    """The service that has the board, tasks, GPUs and roles, without another key beside it: a socket, or an address."""
    serve: ServeSection = ServeSection()
    """The service of the board, for `hpc-board serve`."""
    jobs: JobsSection = JobsSection()
    """An account of its own for the jobs."""
    submit: SubmitSection = SubmitSection()
    """The options that participants may set for the jobs of a submission."""
    board: Line | None = None
    """The board's folder: `hpc-board` in the user's data folder by default."""
    prune_days: Annotated[int, Meta(ge=1, le=36_500, description="a number of days from 1 to 36500")] | None = None
    """The age in days at which the job folders of ended runs are removed; kept by default."""
    tasks: list[Line] | None = None
    """Task folders, and folders of task folders; the word `bundled`, the default, means the bundled tasks."""
    clusters: dict[Name, Part] = msgspec.field(default_factory=dict)
    """Schedulers by the names that `gpus` uses."""
    gpus: dict[Name, Part] = msgspec.field(default_factory=dict)
    """GPUs by the names that boards use; without clusters and GPUs, those of this machine."""
    defaults: DefaultsSection = DefaultsSection()
    """The defaults for every GPU."""
    roles: RolesSection = RolesSection()
    """The rights on the board."""
    runners: RunnersSection = RunnersSection()
    """The bounds of jobs that hold a GPU for several runs."""
    notify: NotifySection | None = None
    """A command that is notified of events."""


class _AnyGpu(msgspec.Struct):
    """The key of a GPU that decides on the others."""

    cluster: Name


class Settings(msgspec.Struct, frozen=True):
    """The settings, with every default filled in; `file` is None for the embedded default.

    `devices` is the folder in which the user's boards reserve this machine's devices. `service` is the socket or the
    address of the service that has the board; None if this process opens the board itself. `socket` is the one on which
    `serve` listens, `runs_per_user` its limit of a user's runs in flight, `web` the TCP address of its page, `web_host`
    a name of the page, and `web_metrics` whether `web` has the metrics. `submit_options` are the job options that
    participants may set, None for the default. `gpus_given` says that the file has GPUs; else they are this machine's.
    `prune_days` is the age at which the job folders of ended runs are removed, `runners` has the bounds of runners, and
    `notify` the command that is notified of events.
    """

    board: Path
    devices: Path
    tasks: tuple[Path, ...]
    gpus: tuple[Gpu, ...]
    clusters: tuple[Cluster, ...]
    file: Path | None = None
    roles: Roles = msgspec.field(default_factory=Roles)
    service: Path | SshAddress | None = None
    socket: Path | None = None
    runs_per_user: int | None = None
    web: str | None = None
    web_host: str | None = None
    web_metrics: bool = False
    submit_options: tuple[str, ...] | None = None
    gpus_given: bool = True
    prune_days: int | None = None
    runners: RunnerRules = RunnerRules()
    notify: Notify | None = None

    def option_rules(self, *, served: bool) -> OptionRules:
        """Return the rules for the job options of submissions, whose jobs are the service's on a `served` board."""
        if self.submit_options is not None:
            return OptionRules(self.submit_options)
        shared = served or any(cluster.account for cluster in self.clusters)
        return OptionRules(SERVED_OPTIONS if shared else OPTION_NAMES, "submit.options (its default)")


def open_settings(explicit: Path | None, environ: Mapping[str, str]) -> Settings:
    """Read the settings of this process: those of `explicit`, or of the file that `found` chooses.

    Raises:
        InputError: the settings file is missing or has faults.
    """
    return load(found(explicit, environ), environ)


def load(source: Path | Found | None, environ: Mapping[str, str]) -> Settings:
    """Read the settings in a file, or the embedded default: this machine's GPUs, and the tasks that ship.

    Relative paths in the file start from its folder.

    Raises:
        InputError: the file cannot be read, or was found where it is and another account may change it.
        DocumentError: it has faults; all of them are listed.
    """
    board = own_folder(environ, "XDG_DATA_HOME", ".local/share")
    devices = own_folder(environ, "XDG_STATE_HOME", ".local/state") / "devices"
    if source is None:
        here = _this_machine()
        return Settings(board, devices, (bundled.folder("tasks"),), _machine_gpus(here), (here,), gpus_given=False)
    from hpc_board.yaml_document import Document

    text = text_of(source)
    file = source.path if isinstance(source, Found) else source
    document = Document.parse(text, file, hint="Correct these lines of the settings file.")
    section = document.value(SettingsFile)
    if section.service is not None:
        address = _service(document, file.absolute().parent, section.service)
        return Settings(board, devices, (), (), (), file.absolute(), service=address)
    return _of_board(document, section, file.absolute(), board, devices)


def _of_board(document: "Document", section: SettingsFile, file: Path, board: Path, devices: Path) -> Settings:
    """Return the settings of a board; `board` is its folder if `section` names none.

    Raises:
        DocumentError: the document has faults.
    """
    base = file.parent
    if section.board is not None:
        board = _inside(document, ("board",), base, section.board)
    tasks = _task_folders(document, section, base)
    _check_jobs(document, section.jobs)
    gpus_given = document.has(("gpus",)) or document.has(("clusters",))
    read = _clusters_and_gpus if gpus_given else _this_machine_and_its_gpus
    clusters, gpus = read(document, section, base)
    _check_web(document, section.serve)
    notify = None if section.notify is None else Notify(tuple(section.notify.command), tuple(section.notify.on))
    if notify is not None and not notify.command:
        document.fault(("notify", "command"), "is empty; give a program and its arguments, [/srv/tell.sh]")
    document.check()
    roles = Roles(
        *(tuple(names) for names in (section.roles.admins, section.roles.creators, section.roles.participants))
    )
    given = section.serve.socket
    return Settings(
        board,
        devices,
        tasks,
        gpus,
        clusters,
        file,
        roles,
        socket=None if given is None else _inside(document, ("serve", "socket"), base, given),
        runs_per_user=section.serve.runs_per_user,
        web=section.serve.web,
        web_host=section.serve.web_host,
        web_metrics=section.serve.metrics,
        submit_options=None if section.submit.options is None else tuple(section.submit.options),
        gpus_given=gpus_given,
        prune_days=section.prune_days,
        runners=RunnerRules(**{name: getattr(section.runners, name) for name in RunnerRules.__struct_fields__}),
        notify=notify,
    )


def _clusters_and_gpus(
    document: "Document", section: SettingsFile, base: Path
) -> tuple[tuple[Cluster, ...], tuple[Gpu, ...]]:
    found = (_cluster(document, name, part, base, section.jobs) for name, part in section.clusters.items())
    clusters = {cluster.name: cluster for cluster in found if cluster is not None}
    sandbox = _sandbox(document, ("defaults", "sandbox"), section.defaults.sandbox, base)
    written = tuple(section.clusters)
    gpus = [_gpu(document, name, part, clusters, written, base, sandbox) for name, part in section.gpus.items()]
    _check_gpu_names(document, tuple(section.gpus))
    if not gpus and not document.faults:
        document.fault(("gpus",), "no GPU is defined; a board needs at least one")
    return tuple(clusters.values()), tuple(gpu for gpu in gpus if gpu is not None)


def _this_machine_and_its_gpus(
    document: "Document", section: SettingsFile, base: Path
) -> tuple[tuple[Cluster, ...], tuple[Gpu, ...]]:
    sandbox = _sandbox(document, ("defaults", "sandbox"), section.defaults.sandbox, base)
    if section.jobs.account is not None:
        document.fault(("jobs", "account"), "requires `clusters`; jobs on this machine run under this account")
    here = _this_machine()
    return (here,), _machine_gpus(here, sandbox)


def _service(document: "Document", base: Path, address: str) -> Path | SshAddress:
    for key in SettingsFile.__struct_fields__:
        if key != "service" and document.has((key,)):
            document.fault((key,), "conflicts with `service`, which has its own")
    place: Path | SshAddress = base
    try:
        place = service_address(address) if "://" in address else _inside(document, ("service",), base, address)
    except ValueError as error:
        document.fault(("service",), f'{error}, found "{one_line(address)}"')
    document.check()
    return place


def _check_web(document: "Document", section: ServeSection) -> None:
    if section.web is None:
        if section.metrics:
            document.fault(("serve", "metrics"), "requires `web`, the address for it")
        return
    from ipaddress import ip_address

    host, _, port = section.web.rpartition(":")
    try:
        is_address = host == "localhost" or ip_address(host.strip("[]")).version == (6 if host[0] == "[" else 4)
    except ValueError:
        is_address = False
    if not is_address or int(port) > 65_535:
        document.fault(("serve", "web"), f'expected {_ADDRESS_WORDS}, found "{section.web}"')


def machine_gpu_names(driver: Path = Path("/proc/driver/nvidia/gpus")) -> tuple[str, ...]:
    """Return the names of the NVIDIA GPUs that the driver of this machine reports, each once, in the driver's order."""
    texts = [information.read_text(errors="replace") for information in sorted(driver.glob("*/information"))]
    if not texts:
        return ()
    from hpc_board.domain.gpu_names import gpu_model_name

    matches = (re.search(r"^Model:\s*(.+)$", text, re.MULTILINE) for text in texts)
    return tuple(dict.fromkeys(gpu_model_name(match[1].strip()) for match in matches if match))


def _this_machine() -> Cluster:
    return Cluster(EMBEDDED, EMBEDDED, poll_seconds=kind(EMBEDDED).poll_seconds)


def _machine_gpus(cluster: Cluster, sandbox: Sandbox | None = None) -> tuple[Gpu, ...]:
    devices = [*((name, Device.CUDA) for name in machine_gpu_names()), ("CPU", Device.CPU)]
    return tuple(Gpu(name, cluster, device, python=sys.executable, sandbox=sandbox) for name, device in devices)


def _inside(document: "Document", place: Place, base: Path, path: str) -> Path:
    try:
        return straight(base / Path(path).expanduser())
    except RuntimeError:
        document.fault(place, f'unknown home folder in "{path}"')
        return base / path


def _check_path(document: "Document", place: Place, path: Path, test: Callable[[Path], bool], kind: str) -> None:
    try:
        if not test(path):
            document.fault(place, f"{path} is not a {kind}")
    except OSError as error:
        document.fault(place, f"{path} cannot be reached: {error.strerror}")


def _task_folders(document: "Document", section: SettingsFile, base: Path) -> tuple[Path, ...]:
    folders = []
    for index, entry in enumerate(section.tasks if section.tasks is not None else [BUNDLED]):
        folder = bundled.folder("tasks") if entry == BUNDLED else _inside(document, ("tasks", index), base, entry)
        _check_path(document, ("tasks", index), folder, Path.is_dir, "folder")
        folders.append(folder)
    return tuple(folders)


def _cluster(document: "Document", name: str, part: Part, base: Path, jobs: JobsSection) -> Cluster | None:
    """Return a cluster of the settings; None where its scheduler is unknown.

    Its jobs have the account of `jobs`; over SSH, the login says which account they have.
    """
    place = ("clusters", name)
    scheduler = document.peek(part, "scheduler")
    if scheduler not in KINDS:
        document.part(part, msgspec.defstruct("AnyCluster", [("scheduler", Literal[*KINDS])]))
        return None
    known = kind(scheduler)
    section = document.part(part, known.cluster_section)
    if section is None:
        return None
    if section.poll_seconds is not None and section.poll_seconds < known.poll_seconds_min:
        least = f"{known.poll_seconds_min:g} second{'s' * (known.poll_seconds_min != 1)}"
        document.fault((*place, "poll_seconds"), f"expected at least {least} for {known.title}")
    remote = section if isinstance(section, RemoteClusterSection) else None
    if jobs.account is not None and remote is None:
        document.fault(("jobs", "account"), f"requires Slurm; cluster {name} runs its jobs under this account")
    others = "" if remote is None or remote.ssh is not None else jobs.account or ""
    cluster = Cluster(
        name,
        scheduler,
        section.poll_seconds or known.poll_seconds,
        None if remote is None else _login(document, place, remote, base),
        others,
        (others and jobs.folder) or ("" if remote is None else _board_folder(document, place, remote)),
        section.allow_root,
    )
    return known.read_cluster(document, place, section, cluster)


def _check_jobs(document: "Document", section: JobsSection) -> None:
    if section.account is None and section.folder is not None:
        document.fault(("jobs", "folder"), "requires `account`; without it, `board` is the folder for jobs")
    elif section.account is not None and section.folder is None:
        document.fault(("jobs", "folder"), f"is missing; jobs of {section.account} need their own folder")
    elif section.folder:
        _check_far_path(document, ("jobs", "folder"), section.folder)


def _login(document: "Document", place: Place, section: RemoteClusterSection, base: Path) -> Login | None:
    ssh = section.ssh
    if ssh is None:
        return None
    if ssh.proxy_jump is not None and ssh.proxy_command is not None:
        document.fault((*place, "ssh", "proxy_command"), "conflicts with `proxy_jump`; use one of them")
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


def _board_folder(document: "Document", place: Place, section: RemoteClusterSection) -> str:
    folder = section.board_folder or ""
    if not document.has((*place, "ssh")):
        if document.has((*place, "board_folder")):
            document.fault((*place, "board_folder"), "requires `ssh`; without it, `board` is the folder for jobs")
    elif not document.has((*place, "board_folder")):
        document.fault((*place, "board_folder"), "is missing; with `ssh`, it is the cluster's folder for jobs")
    elif folder:
        _check_far_path(document, (*place, "board_folder"), folder)
    return folder


def _check_far_path(document: "Document", place: Place, folder: str) -> None:
    """Require the full path of a folder that this account may be unable to see."""
    if not folder.startswith("/") or ".." in Path(folder).parts or Path(folder) == Path("/"):
        document.fault(place, f'expected a full path such as /scratch/alice/board, found "{folder}"')


def _gpu(
    document: "Document",
    name: str,
    part: Part,
    clusters: Mapping[str, Cluster],
    written: Sequence[str],
    base: Path,
    sandbox: Sandbox | None,
) -> Gpu | None:
    """Return a GPU, None if it has faults; `written` are the names of all clusters, also of those with faults."""
    place = ("gpus", name)
    cluster = clusters.get(document.peek(part, "cluster") or "")
    if cluster is None:
        named = document.part(part, _AnyGpu)
        if named is not None and named.cluster not in written:
            near = suggestion(named.cluster, written)
            known = ", ".join(written) or "none"
            document.fault((*place, "cluster"), f'unknown cluster "{named.cluster}".{near} Clusters: {known}')
        return None
    scheduler = kind_of(cluster)
    section: GpuSection | None = document.part(part, scheduler.gpu_section)
    if section is None:
        return None
    if section.container is not None and section.container.runtime not in scheduler.container_runtimes:
        runtimes = ", ".join(sorted(scheduler.container_runtimes))
        words = f"{section.container.runtime} is not available on cluster {cluster.name}, which has {runtimes}"
        document.fault((*place, "container", "runtime"), words)
    image = section.sandbox.image if section.sandbox is not None else None
    if cluster.ssh is not None and image is not None and not image.startswith("/"):
        document.fault((*place, "sandbox", "image"), f"expected a full path, as cluster {cluster.name} sees it")
    container = _container(document, (*place, "container"), section.container, cluster, base)
    confined = sandbox if section.sandbox is None else _sandbox(document, (*place, "sandbox"), section.sandbox, base)
    if container is not None and confined is not None and confined.runtime is SandboxRuntime.APPTAINER:
        document.fault(
            (*place, "container"), f"conflicts with {confined.setting}: Apptainer does not run inside a container"
        )
    here = scheduler.on_this_machine and container is None
    template = None if section.template is None else _inside(document, (*place, "template"), base, section.template)
    if template is not None:
        _check_path(document, (*place, "template"), template, Path.is_file, "file")
    gpu = Gpu(
        name=name,
        cluster=cluster,
        device=section.device or (Device.CPU if name.upper() == "CPU" else Device.CUDA),
        arch=section.arch or "",
        std=section.std or "",
        include=tuple(section.include),
        time_limit_seconds=_time_limit(document, (*place, "time"), section.time),
        retries=section.retries,
        modules=tuple(section.modules),
        container=container,
        python=section.python or (sys.executable if here else "python3"),
        env=dict(section.env),
        template=None if template is None else str(template),
        minimum_isolation=section.minimum_isolation or "",
        minimum_clock=section.minimum_clock or "",
        sandbox=confined,
    )
    return scheduler.read_gpu(document, place, section, gpu)


def _check_gpu_names(document: "Document", names: Sequence[str]) -> None:
    folded: dict[str, str] = {}
    for name in names:
        if name.casefold() == "all":
            document.fault(("gpus", name), 'is reserved: "all" means every GPU')
        first = folded.setdefault(name.casefold(), name)
        if first != name:
            document.fault(("gpus", name), f"differs from {first} only in case")


def _sandbox(document: "Document", place: Place, section: SandboxSection | None, base: Path) -> Sandbox | None:
    if section is None:
        return None
    if section.runtime == "apptainer" and section.image is None:
        document.fault((*place, "image"), "is missing; apptainer needs the path of one, such as /shared/kernels.sif")
    if section.runtime != "apptainer" and section.image is not None:
        document.fault((*place, "image"), f"conflicts with {section.runtime}, which does not use an image")
    if section.runtime == "none":
        return None
    image = "" if section.image is None else str(_inside(document, (*place, "image"), base, section.image))
    return Sandbox(SandboxRuntime(section.runtime), image, ".".join(map(str, place)))


def _container(
    document: "Document", place: Place, section: ContainerSection | None, cluster: Cluster, base: Path
) -> JobContainer | None:
    if section is None:
        return None
    image = section.image
    if image.startswith("-"):
        document.fault((*place, "image"), f'"{image}" would be read as an option')
    if section.runtime is ContainerRuntime.APPTAINER:
        if cluster.ssh is not None and not image.startswith("/"):
            document.fault((*place, "image"), f"expected a full path, as cluster {cluster.name} sees it")
        image = str(_inside(document, (*place, "image"), base, image))
    return JobContainer(section.runtime, image, tuple(section.mounts), ".".join(map(str, place)))


def _time_limit(document: "Document", place: Place, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return time_limit_seconds(text)
    except ValueError as error:
        document.fault(place, str(error))
        return None
