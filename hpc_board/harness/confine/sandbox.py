"""Restrictions that a worker takes on before it imports a submission, by system calls that need no privilege.

Resource limits, no new privileges, a system-call filter (seccomp.py), and Landlock if the kernel has it: files outside
its own scratch folder are read-only or hidden, TCP is closed a second time (Linux 6.7), and signals reach no process
outside. Every result records the level reached; each level includes those before it:

    S0  limits, a scrubbed environment, a session of its own
    S1  no capabilities, no new privileges, death with the parent; the supervisor's memory is hidden
    S2  a system-call filter: no network, no effect on other processes
    S3  Landlock for files
    S4  Landlock for signals
"""

import ctypes
import errno
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from hpc_board.harness.confine.gpu_devices import job_gpus
from hpc_board.harness.confine.seccomp import deny_outside_effects

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_SECUREBITS = 28
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47

# linux/securebits.h: uid 0 gains no capabilities (NOROOT, NO_SETUID_FIXUP), none are passed on (KEEP_CAPS off,
# NO_CAP_AMBIENT_RAISE), and each bit is locked.
_NO_ROOT = 0xEF
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITIES_MAX = 64
_CAPABILITY_VERSION_3 = 0x20080522

_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_ADD_RULE = 445
_LANDLOCK_RESTRICT_SELF = 446

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_MAKE_DEVICES = 1 << 6 | 1 << 11
_RIGHTS_OF_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_BIND_AND_CONNECT_TCP = 3
_ABI_WITHOUT_MOVES = 1
"""The version of Linux 5.13 to 5.18, which refuses to move a file to another folder, whatever the rules."""

_TCP_ABI = 4
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 3
_SIGNAL_SCOPE_ABI = 6

# Programs, headers and libraries of the node, and their data, one folder each, by patterns: homes and boards may lie
# beside them, in /usr/local or /opt. Toolkits elsewhere are named by PATH and its like, see `readable_folders`.
_PROGRAMS = (
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/sbin",
    "/usr/bin",
    "/usr/include",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/sbin",
    "/usr/share",
    "/usr/local/bin",
    "/usr/local/include",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/local/libexec",
    "/usr/local/share",
    "/usr/local/cuda",
    "/usr/local/cuda-[0-9]*",
    "/opt/AMD",
    "/opt/amdgpu",
    "/opt/cray",
    "/opt/intel",
    "/opt/nvidia",
    "/opt/rh",
    "/opt/rocm",
    "/opt/rocm-[0-9]*",
    "/nix/store",
)
_SHARED = ("/", "/usr", "/usr/local", "/opt", "/nix")
"""Folders of many owners, of which none is read whole."""

_SYSTEM = (*_PROGRAMS, "/sys", "/run/opengl-driver")

# Of /proc every file is read, as far as the kernel permits, and only these folders are listed: no other process's.
_LISTED = ("/proc/self", "/proc/driver")

# Files of /etc that programs need to be loaded, to look up users and the time zone, and to initialize OpenSSL and
# OpenCL. No submission needs the rest, and files there that root may read are secret.
_CONFIGURATION = (
    "OpenCL",
    "alternatives",
    "crypto-policies",
    "group",
    "host.conf",
    "hosts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ld.so.preload",
    "localtime",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/tls/openssl.cnf",
    "pki/tls/openssl.d",
    "python3*",
    "ssl/openssl.cnf",
    "timezone",
)

_TOOLS = (*_PROGRAMS, "/etc/ld.so.cache", "/etc/os-release")

# Neither terminals nor memory shared with others.
_PLAIN_DEVICES = ("null", "zero", "full", "random", "urandom")

_TOOLCHAINS = ("CUDA_HOME", "ROCM_PATH")
_PARTS_OF_PREFIX = ("bin", "include", "lib", "lib64", "libexec")

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> None:
    """End this process when its parent ends, also if it has ended already."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def guard_supervisor() -> None:
    """Hide this process's memory and files from its children, and adopt every orphan among its descendants.

    Raise its limit of open files to the maximum. The kernel counts the descriptors in flight between all processes of a
    user, and refuses to send from a process whose limit of open files is below that count: a worker has a lower limit
    and so cannot put so many in flight that this process or the judge can no longer send.
    """
    hide_memory()
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def hide_memory() -> None:
    """Hide this process's memory, environment and descriptors from other processes of the same user."""
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def show_memory() -> None:
    """Undo the hiding that a forked process inherited from its parent: it needs its own /proc/self."""
    _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def limit_resources(file_bytes: int, spared_processes: int = 0) -> None:
    """Bound the resources of this process and its children: no core dumps, files of `file_bytes`, few open files.

    The limit of open files is 1,024, or half of the supervisor's if that is less, see `guard_supervisor`. Of the
    processes and threads that the user may have, `spared_processes` are left to others, half of them at most: the
    kernel counts those of the user, and holds each process to a limit of its own. Root has no such limit. If memory
    runs out, the kernel kills this process and its children first.
    """
    _die_first_of_memory()
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = 1024 if most_files == resource.RLIM_INFINITY else min(1024, most_files // 2)
    limit_files(file_bytes)
    _lower_limit(resource.RLIMIT_NOFILE, files)
    processes, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if processes != resource.RLIM_INFINITY:
        processes -= min(spared_processes, processes // 2)
        resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))


def limit_files(file_bytes: int) -> None:
    """Bound the files of this process and its children: no core dumps, at most `file_bytes` each."""
    _lower_limit(resource.RLIMIT_CORE, 0)
    _lower_limit(resource.RLIMIT_FSIZE, file_bytes)


def _lower_limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (bound, bound))


def _die_first_of_memory() -> None:
    with suppress(OSError):
        # The maximum. A process that may write this file could undo it: Landlock keeps submissions from it, but for its
        # twin in the folder of threads on a node with a GPU.
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def confine(readable: Iterable[str], writable: Sequence[str], *, scoped: bool = True, network: bool = False) -> int:
    """Confine this process for good, and return the version of Landlock in force, 0 for none.

    It is also 0 if the process has several threads: Landlock would restrict only the calling one. `readable` are
    folders besides the system's own, `writable` the scratch folder. A process that is not `scoped` may send signals and
    connect to abstract sockets outside, and use TCP, as a process under a profiler must; with `network` it may use only
    TCP.
    """
    gpus = gpu_devices()
    devices = [*_devices(_PLAIN_DEVICES), *gpus]
    abi = _confine(
        seen_by_workers(readable),
        writable,
        devices,
        scoped=scoped,
        network=network,
        sees_processes=True,
        names_threads=bool(gpus),
    )
    if abi == _ABI_WITHOUT_MOVES:
        os.rename, os.replace = _copying(os.rename), _copying(os.replace)
    return abi


def _copying(move: Callable[..., None]) -> Callable[..., None]:
    """Return `move`, which copies a file that it may not move to another folder: Triton's cache moves its files so."""

    def moved(source: Any, target: Any, **folders: Any) -> None:
        try:
            move(source, target, **folders)
        except OSError as error:
            if error.errno != errno.EXDEV or folders or not os.path.isfile(source):  # noqa: PTH113 - a path of any kind
                raise
            # Not shutil, which may be unreadable by now.
            copy = Path(f"{os.fsdecode(target)}.{os.getpid()}.copy")
            copy.write_bytes(Path(os.fsdecode(source)).read_bytes())
            move(copy, target)
            os.unlink(source)  # noqa: PTH108 - a path of any kind

    return moved


def confine_task(readable: Iterable[str], folder: str, file_bytes: int) -> str:
    """Confine this process, which will import a task, like a worker, and return the isolation level.

    It reads the folders `readable` besides the system's own, and writes only `folder`. Two restrictions of a worker do
    not apply: the kernel does not kill this process first if memory runs out, and it may open as many files as the
    supervisor, since otherwise a worker that sends descriptors without end could keep it from sending any.
    """
    limit_files(file_bytes)
    landlock = confine(readable, [folder])
    return level_of(landlock, filtered=deny_outside_effects())


def confine_compiler(readable: Iterable[str], folder: str) -> int:
    """Confine this process, which will become a compiler, for good, and return the version of Landlock in force.

    The source may include any file by name, so a compiler reads less than a worker: of `/etc` only the files for
    loading a program, nothing of `/proc` and `/sys`, no GPU. It writes only `folder`.
    """
    return _confine(seen_by_compilers(readable), [folder], _devices(_PLAIN_DEVICES), scoped=True)


def seen_by_workers(readable: Iterable[str]) -> list[str]:
    """Return all that a worker may read: the system's own folders, and the folders `readable`."""
    return [*_found("/", _SYSTEM), *_found("/etc", _CONFIGURATION), *readable]


def seen_by_compilers(readable: Iterable[str]) -> list[str]:
    """Return all that a compiler may read: the system's programs, headers and libraries, and the folders `readable`."""
    return [*_found("/", _TOOLS), *readable]


def read_by_submissions(folder: Path) -> str:
    """Return the folder of the system's own, read by every submission, that holds `folder`; "" if none does."""
    real = Path(os.path.realpath(folder))
    found = {os.path.realpath(path) for path in seen_by_workers(())}
    above = (str(each) for each in (*reversed(real.parents), real))
    return next((each for each in above if each in found or any(fnmatch(each, name) for name in _SYSTEM)), "")


def gpu_devices() -> list[str]:
    """Return the device files of this job's GPUs."""
    return [file for device in ("cuda", "hip") for file in job_gpus(device, os.environ).files]


def _confine(
    readable: Iterable[str],
    writable: Iterable[str],
    devices: Iterable[str],
    *,
    scoped: bool,
    network: bool = False,
    sees_processes: bool = False,
    names_threads: bool = False,
) -> int:
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _give_up_capabilities()
    abi = landlock_abi()
    if abi < 1:
        return 0
    handled = _RIGHTS_OF_ABI.get(abi, (1 << 16) - 1)
    scopes = _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if scoped and abi >= _SIGNAL_SCOPE_ABI else 0
    tcp = _BIND_AND_CONNECT_TCP if scoped and not network and abi >= _TCP_ABI else 0
    attributes = struct.pack("=QQQ", handled, tcp, scopes)[: 8 if abi < 4 else 16 if abi < 6 else 24]
    ruleset = _libc.syscall(_LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return 0
    try:
        for path in readable:
            _allow(ruleset, path, handled & _READ)
        for path in writable:
            _allow(ruleset, path, handled & ~_MAKE_DEVICES)
        for path in devices:
            _allow(ruleset, path, handled & (_READ | _WRITE_FILE | _IOCTL_DEV))
        if sees_processes:
            _allow(ruleset, "/proc", handled & _READ_FILE)
            for path in _LISTED:
                _pin(path)
                _allow(ruleset, path, handled & _READ)
        if names_threads:
            # CUDA does not start (error 304) in a process that cannot write the names of its threads there.
            _pin("/proc/self/task")
            _allow(ruleset, "/proc/self/task", handled & (_READ | _WRITE_FILE | _TRUNCATE))
        alone = _has_one_thread()
        return 0 if _libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0) != 0 or not alone else abi
    finally:
        os.close(ruleset)


def _pin(path: str) -> None:
    """Keep a folder of /proc open in this process and those it becomes.

    A rule holds for the kernel's object of a folder, and /proc makes another one after memory ran short.
    """
    with suppress(OSError):
        os.set_inheritable(os.open(path, os.O_PATH), True)


def _give_up_capabilities() -> None:
    """Drop root's capabilities for good if this process is root: neither it nor its children regain them."""
    for capability in range(_CAPABILITIES_MAX):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    _libc.prctl(_PR_SET_SECUREBITS, _NO_ROOT, 0, 0, 0)
    # Last: the calls above need a capability themselves. Two sets of 32 bits, each effective, permitted and
    # inheritable.
    _libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), bytes(24))


def _has_one_thread() -> bool:
    try:
        return len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - only names
    except OSError:
        return False


_TRIAL_FILE_BYTES = 64 * 2**20

LEVELS = ("S0", "S1", "S2", "S3", "S4")
_MEANS = {
    "S1": "no new privileges and no capabilities (prctl)",
    "S2": "a system-call filter (seccomp)",
    "S3": "Landlock for files (Linux 5.13 or newer with Landlock among its active security modules)",
    "S4": "Landlock for signals (Linux 6.12 or newer)",
}


def level_of(landlock: int, *, filtered: bool) -> str:
    """Return the level of a worker with a version of Landlock, 0 for none, and with the system-call filter or not."""
    if not filtered:
        return "S1"
    if landlock < 1:
        return "S2"
    return "S4" if landlock >= _SIGNAL_SCOPE_ABI else "S3"


def level_here() -> str:
    """Return the isolation level of a worker here, tried in a process that ends afterwards; "" if the trial fails."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            limit_resources(_TRIAL_FILE_BYTES)
            landlock = confine([], [])
            os.write(writer, level_of(landlock, filtered=deny_outside_effects()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        level = pipe.read(8).decode()
    os.waitpid(pid, 0)
    return level if level in LEVELS else ""


def reaches(level: str, wanted: str) -> bool:
    """Return whether an isolation level is at least `wanted`; "" requires none."""
    return not wanted or (level in LEVELS and LEVELS.index(level) >= LEVELS.index(wanted))


def lacking(level: str, wanted: str) -> str:
    """Return the features that a node at `level` lacks for the level `wanted`, as text."""
    have = LEVELS.index(level) if level in LEVELS else 0
    return "it lacks " + " and ".join(_MEANS[each] for each in LEVELS[have + 1 : LEVELS.index(wanted) + 1])


def _devices(patterns: Iterable[str]) -> list[str]:
    return _found("/dev", patterns)


def _found(folder: str, patterns: Iterable[str]) -> list[str]:
    return [str(path) for pattern in patterns for path in sorted(Path(folder).glob(pattern.lstrip("/")))]


def landlock_abi() -> int:
    """Return the kernel's version of Landlock; 0 or less if it has none."""
    if platform.machine() not in ("x86_64", "aarch64"):
        return 0
    return int(_libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, 1))


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not Path(path).is_dir():
            rights &= _FILE_RIGHTS
        rule = struct.pack("=Qi", rights, descriptor)
        _libc.syscall(_LANDLOCK_ADD_RULE, ruleset, 1, rule, 0)
    finally:
        os.close(descriptor)


def readable_folders(environ: Mapping[str, str], extra: Iterable[str], hidden: Iterable[str]) -> list[str]:
    """Return the folders besides the system's own that a worker must read.

    These are this Python's, the loader's, the site's toolchain and `extra`. None of them is `hidden`, one of those that
    many share, or an ancestor of one; of an installation whose folder is, its usual subfolders are included.
    """
    kept = [Path(os.path.realpath(path)) for path in (*_SHARED, *hidden)]

    def allowed(path: str) -> bool:
        real = Path(os.path.realpath(path))
        return path.startswith("/") and not any(real == each or real in each.parents for each in kept)

    searched = [each for name in ("LD_LIBRARY_PATH", "PATH") for each in _search_path(environ, name)]
    found = [*sys.path, *searched, *_of_loader(), *extra]
    for prefix in _prefixes(environ):
        found += [prefix] if allowed(prefix) else [f"{prefix}/{part}" for part in _PARTS_OF_PREFIX]
    return list(filter(allowed, dict.fromkeys(found)))


def _prefixes(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the folders of whole installations: a compiler's headers and libraries lie beside its `bin`."""
    yield from (sys.prefix, sys.base_prefix, sys.exec_prefix)
    yield from (environ[name] for name in _TOOLCHAINS if name in environ)
    for path in map(Path, _search_path(environ, "PATH")):
        if path.name == "bin":
            yield str(path.parent)


def _of_loader() -> Iterator[str]:
    """Yield the folders of libraries that the loader's configuration names."""
    for file in _found("/etc", ("ld.so.conf", "ld.so.conf.d/*.conf")):
        with suppress(OSError):
            for line in Path(file).read_text(encoding="utf-8", errors="surrogateescape").splitlines():
                yield from line.partition("#")[0].split()


def _search_path(environ: Mapping[str, str], name: str) -> list[str]:
    return [path for path in environ.get(name, "").split(":") if path]
