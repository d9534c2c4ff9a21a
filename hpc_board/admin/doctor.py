"""Diagnostics of an installation: the settings, the board's folder, the tasks, the schedulers, the entries' Pythons."""

import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from hpc_board.accounts import unknown_accounts, user_name
from hpc_board.domain.catalog import Catalog
from hpc_board.domain.diagnostic import Diagnostic, Rule, Severity, applied, diagnostic
from hpc_board.domain.run import Run
from hpc_board.errors import BoardError
from hpc_board.files import lock_descriptor
from hpc_board.harness.confine.sandbox import read_by_submissions
from hpc_board.harness.node import is_root
from hpc_board.model.files import open_regular
from hpc_board.model.gpu import Cluster, Gpu
from hpc_board.model.text import one_line
from hpc_board.report.formatting import count_text
from hpc_board.runs import job_folder
from hpc_board.schedulers import kind_of
from hpc_board.settings import Settings
from hpc_board.store.database import LOCAL_FILE_SYSTEMS, MOUNTS, journal_mode, mounted
from hpc_board.store.folder import DATABASE, ELSEWHERE, check_own
from hpc_board.transport import Host
from hpc_board.transport.attempt import attempt
from hpc_board.transport.sudo import FOLDER_MODE, rules

LOCKS = "advance*.lock"
CHECKS = "checks"

_SPACE_BYTES = 2**30
_LITTLE_SPACE_BYTES = 50 * 2**20
_FILES = 1000
_LOCK_SECONDS = 2.0
_PYTHON = (3, 10)
_PYTHON_QUESTION = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
_LOCAL_LOCKS = re.compile(r"(?:^|,)(?:local_lock=(?!none)\w+|nolock|localflock|noflock)(?:,|$)")


class Installation(msgspec.Struct, frozen=True):
    """An installation: its settings and their origin, its tasks, access to its runs, and the host to query.

    `origin` is "" if the settings file is at one of the default paths. `in_flight` reads the runs that have not ended
    from an existing database, `count_boards` the number of boards that users made. `hosts` has the hosts of the
    clusters that are used over SSH or in another account, by the clusters' names. `say` is called before each question
    that may take long.
    """

    settings: Settings
    origin: str
    tasks: Catalog
    in_flight: Callable[[], Sequence[Run]]
    host: Host
    mounts: Path = MOUNTS
    hosts: Mapping[str, Host] = msgspec.field(default_factory=dict)
    count_boards: Callable[[], int] = int
    say: Callable[[str], object] = lambda _: None

    def on(self, cluster: Cluster) -> Host:
        """Return the host on which a cluster's commands run."""
        return self.hosts.get(cluster.name, self.host)


def diagnose(installation: Installation) -> Iterator[Diagnostic]:
    """Yield one diagnostic for each check, in the order in which they depend on each other."""
    yield from applied(_RULES, installation)


# The settings


def _settings(installation: Installation) -> Iterator[Diagnostic]:
    settings = installation.settings
    if settings.file is None:
        yield Diagnostic(
            Severity.OK, "settings", "none found; using the built-in ones: this machine and the included tasks"
        )
        return
    origin = installation.origin or _origin(settings.file)
    yield Diagnostic(
        Severity.OK,
        "settings",
        f"{settings.file} ({origin}); {len(settings.gpus)} GPU {'entry' if len(settings.gpus) == 1 else 'entries'}",
    )
    with suppress(OSError):
        mode = settings.file.stat().st_mode
        if mode & 0o022:
            yield Diagnostic(
                Severity.WARNING,
                "settings",
                f"{settings.file} is writable by others, and its settings decide what runs under your account",
                f"chmod go-w {settings.file}",
            )


def _roles(installation: Installation) -> Iterator[Diagnostic]:
    yield from diagnose_roles(installation.settings)


def diagnose_roles(settings: Settings) -> Iterator[Diagnostic]:
    """Report users and groups in `roles` that this machine does not know: a misspelt name has no effect."""
    roles = settings.roles
    for key, names in (("admins", roles.admins), ("creators", roles.creators), ("participants", roles.participants)):
        unknown = unknown_accounts(names)
        if unknown:
            message = f"roles.{key}: unknown on this machine: {one_line(', '.join(unknown), 500)}"
            hint = "Correct the names; a group begins with @. An unknown name has no role."
            yield Diagnostic(Severity.WARNING, "roles", message, hint)


def _notify(installation: Installation) -> Iterator[Diagnostic]:
    notify = installation.settings.notify
    if notify is not None:
        program = notify.command[0]
        good = f"{program} is notified of events" if shutil.which(program) else None
        hint = "Correct `notify.command` in the settings: the full path of a program that this account may run."
        yield diagnostic(Severity.ERROR, "notify", f"{program} cannot be run", hint, good=good)


def _origin(file: Path) -> str:
    """Return the place of a settings file that was found by default."""
    with suppress(OSError):
        if file.parent == Path.cwd():
            return "in the current folder"
    return "the system's" if file.is_relative_to("/etc") else "yours"


# The board's folder


def _folder(installation: Installation) -> Iterator[Diagnostic]:
    board = installation.settings.board
    there = next(path for path in (board, *board.parents) if path.is_dir())
    hint = "Set `board` in the settings to a folder that you can write to."
    if there != board and board.exists():
        yield Diagnostic(Severity.ERROR, "board", f"{board} is not a folder", hint)
        return
    yield from _read_by_submissions(board)
    try:
        check_own(board)
    except BoardError as error:
        yield Diagnostic(Severity.ERROR, "board", error.message, error.hint)
        return
    try:
        yield from _check_writing(there, board)
    except OSError as error:
        yield Diagnostic(Severity.ERROR, "board", f"{there} cannot be written: {error.strerror or error}", hint)
    yield from _file_system(installation, there)
    yield from _room(there)
    if there == board:
        yield from _left_over(board)
        yield from _database(installation)


def _read_by_submissions(board: Path) -> Iterator[Diagnostic]:
    for what, folder, hint in (
        ("the board", board, ELSEWHERE),
        ("the home folder", Path.home(), "Use an account with a different home folder, e.g. in /home."),
    ):
        seen = read_by_submissions(folder)
        if seen:
            message = f"{what} {folder} is in {seen}, which submissions can read: every run will end as infra_error"
            yield Diagnostic(Severity.ERROR, "board", message, hint)


def _check_writing(there: Path, board: Path) -> Iterator[Diagnostic]:
    """Check that files can be created in the folder, and locks held on them."""
    with tempfile.NamedTemporaryFile(prefix=".doctor.", dir=there) as file:
        os.fsync(file.fileno())
        made = (
            f"{board} can be written"
            if there == board
            else f"{board} does not exist yet, and can be created in {there}"
        )
        yield Diagnostic(Severity.OK, "board", made)
        why = _lock_fault(file.fileno(), Path(file.name))
        hint = "On Lustre, mount with the option `flock`; on NFS, start the lock service. Or use another folder."
        good = None if why else "flock and POSIX locks work"
        yield diagnostic(Severity.ERROR, "locks", f"{why}: two programs could update the same runs", hint, good=good)


def _lock_fault(descriptor: int, path: Path) -> str:
    """Return why locks on this file do not work; "" if they do."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return f"POSIX locks do not work ({error.strerror})"
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_UN)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with path.open("rb+") as other:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return ""
    except OSError as error:
        return f"flock does not work ({error.strerror})"
    return "flock grants the same lock twice"


def _file_system(installation: Installation, there: Path) -> Iterator[Diagnostic]:
    try:
        table = installation.mounts.read_text(errors="surrogateescape")
    except OSError:
        table = ""
    mount = mounted(table, there.resolve())
    kind, local = one_line(mount.kind, 40), mount.kind in LOCAL_FILE_SYSTEMS
    journal = journal_mode(there, installation.mounts)
    whose = "local to this machine" if local else "possibly shared between machines"
    yield Diagnostic(Severity.OK, "file system", f"{kind or 'unknown'}, {whose}; SQLite's journal is {journal}")
    if mount.kind in ("tmpfs", "ramfs"):
        hint = "Set `board` in the settings to a folder on a disk."
        yield Diagnostic(Severity.WARNING, "file system", f"{kind} is lost when the machine reboots", hint)
    # Over SSH, and of another account, the jobs' folders lie below `board_folder`.
    jobs_here = [
        each for each in installation.settings.clusters if not kind_of(each).on_this_machine and not each.board_folder
    ]
    if local and jobs_here:
        yield Diagnostic(
            Severity.WARNING,
            "file system",
            f"compute nodes must see {there} under the same path, and {kind} is rarely shared",
            "Set `board` to a shared folder, unless this one is exported; `hpc-board admin check` verifies it.",
        )
    options = _LOCAL_LOCKS.search(mount.options)
    if not local and options:
        yield Diagnostic(
            Severity.WARNING,
            "locks",
            f"mounted with {options[0].strip(',')}: locks hold only within this machine",
            "Use the board from one login node only, or mount it without this option.",
        )


def _room(there: Path) -> Iterator[Diagnostic]:
    facts = os.statvfs(there)
    free = facts.f_bavail * facts.f_frsize
    words = f"{free / 2**30:.1f} GiB free" if free >= _SPACE_BYTES else f"{free // 2**20} MiB free"
    hint = "A job folder takes about 60 KB, a running one 260 KB: free some space, or set `board` to another folder."
    few = facts.f_files > 0 and facts.f_favail < _FILES
    if few:
        yield Diagnostic(Severity.WARNING, "space", f"{facts.f_favail} more files can be created in {there}", hint)
    bad = Severity.ERROR if free < _LITTLE_SPACE_BYTES else Severity.WARNING
    enough = free >= _SPACE_BYTES
    yield diagnostic(bad, "space", words, hint, good=f"{words} (quotas are not checked)" if enough else None)


def _left_over(board: Path) -> Iterator[Diagnostic]:
    checks = [path.name for path in _entries_of(board / CHECKS)]
    if checks:
        yield Diagnostic(
            Severity.WARNING,
            "left over",
            f"{board / CHECKS} has the folders of {len(checks)} checks that were killed or are still running",
            "Remove it while no `hpc-board admin check` is running.",
        )
    drafts = [path for path in _entries_of(board / "runs") if _is_abandoned(path)]
    if drafts:
        yield Diagnostic(
            Severity.WARNING,
            "left over",
            f"{len(drafts)} unfinished job folders, such as {one_line(str(drafts[0]))}",
            "They can be removed.",
        )
    yield from _check_held_locks(board)


def _entries_of(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _is_abandoned(path: Path) -> bool:
    """Return whether it is an unfinished job folder that is unchanged for an hour."""
    with suppress(OSError):
        return path.name.startswith(".") and time.time() - path.lstat().st_mtime > 3600
    return False


def _check_held_locks(board: Path) -> Iterator[Diagnostic]:
    """Check whether programs hold locks for longer than a pass over the runs takes."""
    paths = [path for path in _entries_of(board) if path.match(LOCKS)]
    held = [line for line in map(_lock, paths) if line is not None]
    yield from held or [Diagnostic(Severity.OK, "lock", "no lock is held")]


def _lock(path: Path) -> Diagnostic | None:
    try:
        with open_regular(path) as file:
            if lock_descriptor(file.fileno(), wait_seconds=_LOCK_SECONDS, shared=True):
                return None
            holder = lock_holder(os.fstat(file.fileno()))
    except FileNotFoundError:
        return None
    except OSError as error:
        return Diagnostic(
            Severity.WARNING,
            "lock",
            f"{path} cannot be checked: {error.strerror or error}",
            "Check its owner and permissions.",
        )
    who = f"process {holder} of this machine" if holder else "a program on another machine"
    message = f"{path.name} is held by {who}, for at least {_LOCK_SECONDS:g} s"
    return Diagnostic(
        Severity.WARNING, "lock", message, "It is updating runs, or hangs; stop it if this lasts for minutes."
    )


def lock_holder(file: os.stat_result) -> str:
    """Return the process that holds a lock on the file, as the kernel lists it; "" if none of this machine does."""
    place = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    with suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if place in fields and "WRITE" in fields:
                return fields[fields.index("WRITE") + 1]
    return ""


def _database(installation: Installation) -> Iterator[Diagnostic]:
    path = installation.settings.board / DATABASE
    try:
        status = path.stat()
    except FileNotFoundError:
        yield Diagnostic(Severity.OK, "database", "will be created at first use")
        return
    except OSError as error:
        yield Diagnostic(
            Severity.ERROR,
            "database",
            f"{path} cannot be checked: {error.strerror}",
            "Check its owner and permissions.",
        )
        return
    try:
        count = len(installation.in_flight())
    except BoardError as error:
        yield Diagnostic(Severity.ERROR, "database", error.message, error.hint)
        return
    size = status.st_size / 2**20
    yield Diagnostic(Severity.OK, "database", f"{size:.1f} MiB; {count} {'run' if count == 1 else 'runs'} in flight")


# Tasks


def _tasks(installation: Installation) -> Iterator[Diagnostic]:
    catalog = installation.tasks
    for fault in catalog.faults:
        yield Diagnostic(
            Severity.ERROR, "tasks", str(fault), "Correct it, or remove the folder: it is skipped until then."
        )
    for task in catalog.tasks:
        if task.warnings:
            hint = f"hpc-board task check {one_line(task.name)}"
            yield Diagnostic(
                Severity.WARNING, "tasks", f"{one_line(task.name)}: {one_line(task.warnings[0], 500)}", hint
            )
    hint = "Create one with `hpc-board create`, or list folders of tasks, or `bundled`, in `tasks` of the settings."
    good = f"{len(catalog.tasks)} readable" if catalog.tasks else None
    if good is None:
        with suppress(BoardError):  # the check of the database has told it
            if boards := installation.count_boards():
                good = f"none in the settings' folders; users created {count_text(boards, 'board')}"
    yield diagnostic(Severity.WARNING, "tasks", "the board has none", hint, good=good)


# The schedulers and the entries


def _jobs_of_root(installation: Installation) -> Iterator[Diagnostic]:
    for cluster in installation.settings.clusters:
        yield from diagnose_root(cluster)


def diagnose_root(cluster: Cluster) -> Iterator[Diagnostic]:
    """Report a cluster on which this account is root, and the judge refuses the jobs of root."""
    if is_root() and not cluster.account and cluster.ssh is None and not kind_of(cluster).judges_as_root(cluster):
        message = f"jobs on {cluster.name} run as root, which the judge refuses: every run will end as infra_error"
        hint = f"Use hpc-board under an ordinary account, or set clusters.{cluster.name}.allow_root to true."
        yield Diagnostic(Severity.ERROR, "root", message, hint)


def _account_of_jobs(installation: Installation) -> Iterator[Diagnostic]:
    """Report the rules by which this account acts as the one of the jobs, and that one's rights."""
    cluster = next((each for each in installation.settings.clusters if each.account), None)
    if cluster is None:
        return
    host, account = installation.on(cluster), one_line(cluster.account)
    folder, board = cluster.board_folder, installation.settings.board
    asked = attempt(host, ["id", "-un"])
    own = user_name(os.geteuid())
    hint = f"Ask root to add these rules to a file in /etc/sudoers.d: {one_line(rules(own, account), 300)}"
    good = f"sudo runs commands as {account}" if asked.succeeded else None
    yield diagnostic(Severity.ERROR, "jobs", f"as {account}: {asked.failure}", hint, good=good)
    if not asked.succeeded:
        return
    shared = _is_shared(Path(folder)) and attempt(host, ["test", "-r", folder, "-a", "-x", folder]).succeeded
    hint = (
        f"As root: usermod -aG GROUP {own}, for a group of these two accounts, such as that of {account}; install -d "
        f"-o {own} -g GROUP -m {FOLDER_MODE:o} {folder}. Then restart the service."
    )
    good = f"{own} shares {folder} with {account}" if shared else None
    message = f"{folder} must be owned by {own} and readable by a group of {own} and {account}"
    yield diagnostic(Severity.ERROR, "jobs", message, hint, good=good)
    for path in (board, installation.settings.file):
        if path is not None and attempt(host, ["test", "-w", str(path)]).succeeded:
            message = f"{account} can write {path}, and jobs could change it"
            yield Diagnostic(Severity.ERROR, "jobs", message, f"chmod go-w {path}")
    if attempt(host, ["test", "-x", str(board)]).succeeded:
        yield Diagnostic(Severity.ERROR, "jobs", f"{account} can enter {board}, and so can jobs", f"chmod 700 {board}")


def _is_shared(folder: Path) -> bool:
    """Return whether a folder is this account's, and shared with one of its groups as jobs of another account need."""
    try:
        status = folder.stat()
    except OSError:
        return False
    is_mine = status.st_uid == os.geteuid() and status.st_gid in {os.getegid(), *os.getgroups()}
    return is_mine and stat.S_IMODE(status.st_mode) == FOLDER_MODE


def _schedulers(installation: Installation) -> Iterator[Diagnostic]:
    for cluster in installation.settings.clusters:
        kind = kind_of(cluster)
        if not kind.on_this_machine:
            installation.say(f"Cluster {cluster.name}: querying {kind.title}")
        yield from kind.diagnose(cluster, installation.on(cluster))


def _entries(installation: Installation) -> Iterator[Diagnostic]:
    for gpu in installation.settings.gpus:
        yield from _entry(gpu, installation.on(gpu.cluster))


def _entry(gpu: Gpu, host: Host) -> Iterator[Diagnostic]:
    subject = f"gpu {gpu.name}"
    try:
        text = job_folder.probe_script(gpu).text
    except BoardError as error:
        yield Diagnostic(Severity.ERROR, subject, error.message, error.hint)
    else:
        if gpu.template is not None:
            missing = [role for role in ("supervise", "account") if f" {job_folder.HARNESS} {role} " not in text]
            message = f"its template does not run `{' and '.join(missing)}`"
            hint = "Start from a copy of the included one; the page on settings lists what a template must run."
            yield diagnostic(
                Severity.ERROR, subject, message, hint, good=None if missing else "its template is rendered"
            )
    yield _python(subject, gpu, host)


def _python(subject: str, gpu: Gpu, host: Host) -> Diagnostic:
    python = gpu.python
    if gpu.container is not None:
        image = one_line(gpu.container.image)
        return Diagnostic(Severity.OK, subject, f"`hpc-board admin check {gpu.name}` examines {image} on a node")
    if gpu.modules or not python.startswith("/") or gpu.cluster.ssh is not None:
        return Diagnostic(
            Severity.OK, subject, f"`hpc-board admin check {gpu.name}` shows the `{one_line(python)}` of the nodes"
        )
    if not Path(python).exists():
        message = f"{one_line(python)} is not on this machine"
        hint = f"It may be on the nodes: run `hpc-board admin check {gpu.name}`."
        return Diagnostic(Severity.WARNING, subject, message, hint)
    tried = attempt(host, [python, "-I", "-c", _PYTHON_QUESTION])
    version = one_line(tried.stdout, 40) if tried.succeeded else ""
    match = re.fullmatch(r"(\d+)\.(\d+)\.\d+", version)
    hint = f"Set gpus.{gpu.name}.python to a Python 3.10 or newer."
    if match is None:
        return Diagnostic(Severity.ERROR, subject, f"{one_line(python)} does not run here: {tried.failure}", hint)
    good = f"{one_line(python)} is Python {version} here" if (int(match[1]), int(match[2])) >= _PYTHON else None
    return diagnostic(Severity.ERROR, subject, f"{one_line(python)} is Python {version}, too old", hint, good=good)


_RULES: tuple[Rule[Installation], ...] = (
    _settings,
    _roles,
    _notify,
    _folder,
    _tasks,
    _jobs_of_root,
    _account_of_jobs,
    _schedulers,
    _entries,
)
"""The checks of an installation, in the order in which they depend on each other."""
