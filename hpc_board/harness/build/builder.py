"""Compilation of a submission: a process that confines itself and becomes the compiler, watched by the supervisor.

The compiler reads a participant's source, so it gets as few rights as the worker: one folder to write, the system and
the toolchain to read, no network, no GPU, and limits of time, memory and files. Nothing of the submission runs.
"""

import hashlib
import json
import os
import re
import resource
import selectors
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hpc_board.harness.build.toolchain import (
    HEADER,
    LIBRARY,
    PASSED_TO_COMPILERS,
    Inside,
    Toolchain,
    ToolchainMissing,
    broken,
    cache_key,
    command,
    compiler_variables,
    header_text,
    toolchain,
)
from hpc_board.harness.confine import sandbox
from hpc_board.harness.confine.container import Container
from hpc_board.harness.confine.seccomp import deny_outside_effects
from hpc_board.harness.files import DRAFT, open_regular, whole_file
from hpc_board.harness.job_spec import JobSpec
from hpc_board.harness.processes.child import READ_BYTES, signal_told
from hpc_board.harness.processes.output import Printed
from hpc_board.harness.processes.tree import REAP_SECONDS, kill_orphans, stat_fields
from hpc_board.model.result import Log, Verdict
from hpc_board.model.task import ENTRY, Language, Mode
from hpc_board.model.text import one_line

_FILE_BYTES_MAX = 2**30
_POLL_SECONDS = 0.25
_NOT_STARTED = 113
_PAGE_BYTES = resource.getpagesize()
_KILLED = r"Killed signal terminated program|died due to signal 9|virtual memory exhausted"
_FIRST_ERROR = r"\berror\b|: undefined reference to |^nvcc fatal"
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "ROCM_PATH", *PASSED_TO_COMPILERS)
_NO_ENTRY = (
    f"the library exports no function {ENTRY}: include {HEADER} and define `int {ENTRY}(...)` exactly as it is "
    f'declared there; without the header the definition needs `extern "C"` and default visibility'
)


CACHE_BYTES_MAX = 2**30
ENTRY_BYTES_MAX = 2**28
_SUFFIX = ".build"
_OTHERS_WRITE = 0o022


_ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_ELF64_LITTLE = b"\x7fELF\x02\x01"
_DYNAMIC_SYMBOLS = 11
_SECTIONS_MAX, _SYMBOLS_MAX = 10_000, 1_000_000


def exported(library: bytes) -> set[str]:
    """Return the names that a 64-bit little-endian ELF library exports; none if the file is no such library."""
    try:
        return _exported(library)
    except (IndexError, ValueError, struct.error):
        return set()


def _exported(library: bytes) -> set[str]:
    header = _ELF_HEADER.unpack_from(library)
    if not header[0].startswith(_ELF64_LITTLE):
        return set()
    offset, count = header[6], min(header[12], _SECTIONS_MAX)
    sections = [_SECTION.unpack_from(library, offset + _SECTION.size * index) for index in range(count)]
    names: set[str] = set()
    for section in sections:
        if section[1] != _DYNAMIC_SYMBOLS:
            continue
        strings = sections[section[6]][4]
        for index in range(min(section[5] // _SYMBOL.size, _SYMBOLS_MAX)):
            name, _, other, defined_in, _, _ = _SYMBOL.unpack_from(library, section[4] + index * _SYMBOL.size)
            visible = other & 3 in (0, 3)
            if defined_in and visible:
                names.add(library[strings + name : library.index(b"\0", strings + name)].decode("ascii", "replace"))
    return names


@dataclass(frozen=True)
class CachedLibrary:
    """A library, and the compiler's output when it was built."""

    library: bytes
    log: Log


class BuildCache:
    """A folder of compiled submissions; a failure of the file system costs a compilation, never a result.

    The supervisor alone writes it, and verifies an entry on every read. An entry is one file, named by the sha256 of
    everything that the library depends on: a line of JSON with the name, the sha256 of the library and the compiler's
    output, then the library. It is written whole under another name and renamed. An entry that belongs to another user,
    that others may write, or whose hashes differ counts as absent.
    """

    def __init__(self, folder: Path, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._folder = folder
        self._bytes_max = bytes_max

    def get(self, key: str) -> CachedLibrary | None:
        """Return the cached library under `key`."""
        path = self._folder / f"{key}{_SUFFIX}"
        try:
            if not _ours(self._folder.lstat()):
                return None
            data = _read(path)
            kept = _kept(key, data) if data is not None else None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if kept is not None:
            with suppress(OSError):
                os.utime(path)
        return kept

    def put(self, key: str, kept: CachedLibrary) -> None:
        """Store a library under `key`, and remove the least recently used entries."""
        facts = {"key": key, "sha256": hashlib.sha256(kept.library).hexdigest(), "log": asdict(kept.log)}
        data = json.dumps(facts).encode() + b"\n" + kept.library
        if len(data) > min(ENTRY_BYTES_MAX, self._bytes_max):
            return
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _ours(self._folder.lstat()):
                return
            self._write(key, data)
            self._prune()

    def _write(self, key: str, data: bytes) -> None:
        with whole_file(self._folder / f"{key}{_SUFFIX}", 0o444) as file:
            file.write(data)

    def _prune(self) -> None:
        """Remove entries, the least recently used first, until the rest fits; drafts of dead writers count as well."""
        found: list[tuple[float, int, Path]] = []
        for path in self._folder.iterdir():
            if path.suffix == _SUFFIX or path.name.startswith(DRAFT):
                with suppress(FileNotFoundError):
                    status = path.lstat()
                    found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._bytes_max:
                return
            path.unlink(missing_ok=True)
            total -= size


def _read(path: Path) -> bytes | None:
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
        if not _ours(status) or status.st_size > ENTRY_BYTES_MAX:
            return None
        return file.read(ENTRY_BYTES_MAX)


def _ours(status: os.stat_result) -> bool:
    """Return whether no other user can have written the file."""
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE


def _kept(key: str, data: bytes) -> CachedLibrary | None:
    line, _, library = data.partition(b"\n")
    facts = json.loads(line)
    if facts["key"] != key or facts["sha256"] != hashlib.sha256(library).hexdigest():
        return None
    log = facts["log"]
    return CachedLibrary(library, Log(str(log["head"]), str(log["tail"]), int(log["omitted_bytes"])))


class BuildFailed(Exception):
    """A submission could not be compiled; `log` is the compiler's output, `facts` the known facts of the attempt."""

    def __init__(self, verdict: Verdict, message: str, log: Log | None = None) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = message
        self.log = log or Log()
        self.facts: dict[str, Any] = {}


@dataclass(frozen=True)
class Built:
    """A library, the compiler's output, and facts for the result."""

    library: Path
    log: Log
    facts: Mapping[str, Any]


def become_compiler(parent: int) -> None:
    """Read the order from standard input, drop all other privileges, and compile; this is the role `build`.

    The process ends with its `parent`, or for 0 with any parent: a container's first process has another id inside.
    """
    sandbox.die_with_parent(parent or os.getppid())
    order = json.loads(sys.stdin.buffer.read())
    try:
        for kind, value in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_FSIZE, _FILE_BYTES_MAX),
            (resource.RLIMIT_CPU, int(order["cpu_seconds"])),
        ):
            _, hard = resource.getrlimit(kind)
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (bound, bound))
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        if order["output"]:
            os.dup2(os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), 1)
        landlock = sandbox.confine_compiler(order["readable"], order["folder"])
        level = sandbox.level_of(landlock, filtered=deny_outside_effects())
        # The command of a container may close inherited descriptors.
        with suppress(OSError):
            os.write(order["told"], level.encode())
            os.close(order["told"])
        os.execve(order["command"][0], order["command"], dict(os.environ))  # noqa: S606 - its own list of arguments
    except OSError as error:
        sys.stderr.write(f"the compiler cannot be started: {error}\n")
        sys.stderr.flush()
        os._exit(_NOT_STARTED)


def build(
    job: JobSpec,
    folder: Path,
    harness: Path,
    scratch: Path,
    environ: Mapping[str, str],
    keep: Sequence[int] = (),
    *,
    container: Container | None = None,
) -> Built:
    """Return the library of a job's submission: a cached one, or one compiled now, in the `container` if there is one.

    All other children of this process end with the compilation, except those with the ids `keep`.

    Raises:
        BuildFailed: the library cannot be built, for the reason in the verdict.
    """
    home = Path(tempfile.mkdtemp(prefix="build-", dir=scratch))
    room = compiler_room(job, folder, home, (), environ, container)
    tools = job_toolchain(job, room, environ)
    source = (folder / "submission" / job.submission).read_bytes()
    command_line = command(tools, job.flags, job.submission, sanitized=job.mode is Mode.SANITIZE)
    key = cache_key(tools, command_line, source, _environment(job, environ))
    facts: dict[str, Any] = {"compiler": one_line(tools.version), "arch": tools.arch, "compiles": 0}
    cache = _cache(job, folder)
    kept = cache.get(key) if cache is not None else None
    if kept is None:
        (home / job.submission).parent.mkdir(parents=True, exist_ok=True)
        (home / job.submission).write_bytes(source)
        (home / HEADER).write_text(header_text(), encoding="utf-8")
        facts["compiles"] = 1
        start = time.monotonic()
        with facts_added(job, facts):
            kept = _compiled(job, harness, room, command_line, facts, keep)
        facts["compile_seconds"] = round(time.monotonic() - start, 3)
        if cache is not None:
            cache.put(key, kept)
    library = home / LIBRARY
    library.write_bytes(kept.library)
    facts["library_sha256"] = hashlib.sha256(kept.library).hexdigest()
    log = renamed_in(kept.log, job)
    check_device(job, tools.arch, log, facts)
    return Built(library, log, facts)


@contextmanager
def facts_added(job: JobSpec, facts: Mapping[str, Any]) -> Iterator[None]:
    """Add `facts` to a failure within this block, and the participant's own name for the file."""
    try:
        yield
    except BuildFailed as error:
        error.facts.update(facts)
        error.log, error.message = renamed_in(error.log, job), _renamed(error.message, job)
        raise


def check_device(job: JobSpec, arch: str, log: Log, facts: Mapping[str, Any]) -> None:
    """Check that the job's device can run the compiled code: one for a GPU is compiled on a CPU board, and not run.

    Raises:
        BuildFailed: it cannot.
    """
    if job.device == "cpu" and job.language is not Language.CPP:
        message = f"the submission compiles for {arch}, but jobs for {job.gpu} run on a CPU here"
        failed = BuildFailed(Verdict.DEVICE_ERROR, message, log)
        failed.facts.update(facts)
        raise failed


def _cache(job: JobSpec, folder: Path) -> BuildCache | None:
    """Return the cache of libraries; None if workers could write to it because the kernel has no Landlock."""
    if not job.build_cache or sandbox.landlock_abi() < 1:
        return None
    return BuildCache((folder / job.build_cache).resolve())


@dataclass(frozen=True)
class CompilerRoom:
    """Surroundings of a compiler: its writable folder, its readable folders, its environment, its container if any."""

    home: Path
    readable: list[str]
    environ: dict[str, str]
    container: Container | None

    @property
    def prefix(self) -> list[str]:
        """Return the command prefix that runs a command there."""
        if self.container is None:
            return []
        return self.container.command(self.home, sandbox.seen_by_compilers(self.readable))

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of such a command."""
        return self.environ if self.container is None else self.container.environment(self.environ)

    @property
    def inside(self) -> Inside | None:
        """Return the container in which to look for a compiler."""
        if self.container is None:
            return None
        return Inside(self.prefix, self.environment, self.container.kept(self.environ), self.container.identity)


def compiler_room(
    job: JobSpec,
    folder: Path,
    home: Path,
    headers: Sequence[str],
    environ: Mapping[str, str],
    container: Container | None,
) -> CompilerRoom:
    """Return the surroundings of a job's compiler in the folder `home`.

    It reads the header folders of the settings, and the task's own `headers`.
    """
    hidden = (str(folder), str(Path.home()))
    extra = [*job.readable, *job.include, *headers, *_search_paths(environ)]
    readable = sandbox.readable_folders(environ, extra, hidden)
    temporary = Path(tempfile.mkdtemp(prefix="tmp-", dir=home))
    private = {"HOME": str(home), "TMPDIR": str(temporary)}
    return CompilerRoom(home, readable, {**_environment(job, environ), **private}, container)


def job_toolchain(job: JobSpec, room: CompilerRoom, environ: Mapping[str, str]) -> Toolchain:
    """Return the compiler of a job.

    Raises:
        BuildFailed: the node lacks a part of it.
    """
    try:
        return toolchain(job.language, job.arch, environ, room.inside, std=job.std, include=job.include)
    except ToolchainMissing as error:
        raise BuildFailed(error.verdict, error.message) from None


def _compiled(
    job: JobSpec, harness: Path, room: CompilerRoom, command_line: list[str], facts: dict[str, Any], keep: Sequence[int]
) -> CachedLibrary:
    log = compiler_log(job, harness, room, command_line, facts, keep)
    library = built_file(room.home / LIBRARY)
    if ENTRY not in exported(library):
        raise BuildFailed(Verdict.COMPILE_ERROR, _NO_ENTRY, log)
    return CachedLibrary(library, log)


def compiler_log(
    job: JobSpec,
    harness: Path,
    room: CompilerRoom,
    command_line: list[str],
    facts: dict[str, Any],
    keep: Sequence[int],
    *,
    output: str = "",
) -> Log:
    """Run the compiler and return its output; record its isolation level in `facts`.

    A command that lists code writes its standard output into the file `output` of its folder. All other children of
    this process end with it, except those with the ids `keep`.

    Raises:
        BuildFailed: the compiler fails, takes too long, or exceeds a limit.
    """
    limits, home = job.limits, room.home
    order = {
        "command": command_line,
        "folder": str(home),
        "readable": room.readable if room.container is None else room.container.readable(room.readable),
        "cpu_seconds": limits.build_seconds * (os.cpu_count() or 1) + 1,
        "output": output,
    }
    watch = _Watch(harness, room, order, keep)
    try:
        end = watch.end(limits.build_seconds, limits.build_bytes, limits.printed_bytes)
    finally:
        watch.close()
        facts["compiler_isolation"] = watch.level
    log = _without(watch.printed.log(), f"{home}/")
    if isinstance(end, BuildFailed):
        raise BuildFailed(end.verdict, end.message, log)
    if end != 0:
        raise _failure(Path(command_line[0]).name, end, log)
    return log


def _search_paths(environ: Mapping[str, str]) -> list[str]:
    return [path for name in PASSED_TO_COMPILERS for path in environ.get(name, "").split(":") if path]


def _environment(job: JobSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the compiler's environment: an allow-list of the job's variables, and those that the settings define."""
    passed_on = {name: environ[name] for name in (*_PASSED_ON, *job.environment) if name in environ}
    return {"LC_ALL": "C.UTF-8", **passed_on, **compiler_variables(job.language)}


def _failure(compiler: str, status: int, log: Log) -> BuildFailed:
    """Return the failure for a compiler that ended with `status`."""
    text = log.text
    if status == _NOT_STARTED:
        return BuildFailed(Verdict.INFRA_ERROR, one_line(text, 500), log)
    if broken(text):
        return BuildFailed(Verdict.INFRA_ERROR, f"{compiler} cannot be used: {one_line(text, 500)}", log)
    if status == -signal.SIGKILL or re.search(_KILLED, text):
        message = f"{compiler} was killed, most likely because the node has no memory left for it"
        return BuildFailed(Verdict.COMPILE_ERROR, message, log)
    first = next((line for line in text.splitlines() if re.search(_FIRST_ERROR, line, re.IGNORECASE)), "")
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    return BuildFailed(Verdict.COMPILE_ERROR, f"{compiler} {how}" + (f": {one_line(first, 500)}" if first else ""), log)


def built_file(path: Path) -> bytes:
    """Return the library or the program that a compiler wrote.

    Raises:
        BuildFailed: the file is missing or unusable.
    """
    try:
        file = open_regular(path)
    except OSError as error:
        raise BuildFailed(Verdict.COMPILE_ERROR, f"the compiler wrote no {path.name}: {error.strerror}") from None
    with file:
        size = os.fstat(file.fileno()).st_size
        if size > ENTRY_BYTES_MAX // 2:
            message = f"{path.name} has {size} bytes, more than {ENTRY_BYTES_MAX // 2}"
            raise BuildFailed(Verdict.COMPILE_ERROR, message)
        return file.read()


def _without(log: Log, prefix: str) -> Log:
    return replace(log, head=log.head.replace(prefix, ""), tail=log.tail.replace(prefix, ""))


def renamed_in(log: Log, job: JobSpec) -> Log:
    """Return the compiler's output, with the participant's own name for the file."""
    return replace(log, head=_renamed(log.head, job), tail=_renamed(log.tail, job))


def _renamed(text: str, job: JobSpec) -> str:
    """Return a compiler's message with the participant's own name for the file; only the harness uses another one."""
    return re.sub(rf"(?<![\w./-]){re.escape(job.submission)}(?![\w./-])", lambda _: job.shown_as, text)


class _Watch:
    """A running compiler, and the processes that it starts."""

    def __init__(self, harness: Path, room: CompilerRoom, order: Mapping[str, Any], keep: Sequence[int]) -> None:
        self.printed = Printed()
        self._keep = keep
        self.level = ""
        self._level_from, told = os.pipe()
        self._contained = room.container is not None
        python, parent = (sys.executable, os.getpid()) if room.container is None else (room.container.python, 0)
        self._process = subprocess.Popen(
            [*room.prefix, python, "-I", "-B", "-u", str(harness), "build", str(parent)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=room.environment,
            cwd=room.home,
            pass_fds=(told,),
            start_new_session=True,
        )
        os.close(told)
        with suppress(BrokenPipeError):
            self._input.write(json.dumps({**order, "told": told}).encode())
            self._input.close()
        for descriptor in (self._output.fileno(), self._level_from):
            os.set_blocking(descriptor, False)

    @property
    def _input(self) -> Any:
        return self._process.stdin

    @property
    def _output(self) -> Any:
        return self._process.stdout

    def end(self, seconds: float, memory_bytes: int, printed_bytes: int) -> "int | BuildFailed":
        """Return the status with which the compiler ends, or the failure for which it was stopped."""
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            next_look = 0.0
            while True:
                if selector.select(_POLL_SECONDS) and not self._drain():
                    selector.unregister(self._output)
                    return self._status(deadline, seconds)
                status = self._process.poll()
                if status is not None:
                    return self._compiler_status(status)
                now = time.monotonic()
                if now >= deadline:
                    return _too_slow(seconds)
                if self.printed.total_bytes > printed_bytes:
                    return BuildFailed(Verdict.COMPILE_ERROR, f"the compiler printed more than {printed_bytes} bytes")
                if now >= next_look:
                    next_look = now + _POLL_SECONDS
                    if session_bytes(self._process.pid) > memory_bytes:
                        message = f"compiling takes more memory than the limit of {memory_bytes / 2**30:g} GiB"
                        return BuildFailed(Verdict.COMPILE_ERROR, f"{message}, and was stopped")

    def _status(self, deadline: float, seconds: float) -> "int | BuildFailed":
        """Return the status of a compiler that has closed its output."""
        try:
            return self._compiler_status(self._process.wait(max(0.0, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            return _too_slow(seconds)

    def _compiler_status(self, status: int) -> int:
        """Return the compiler's status, derived from its container's if it has one."""
        return signal_told(status) if self._contained else status

    def _drain(self) -> bool:
        """Read pending output; return False at its end."""
        try:
            data = os.read(self._output.fileno(), READ_BYTES)
        except BlockingIOError:
            return True
        self.printed.add(data)
        return bool(data)

    def close(self) -> None:
        """Kill the remaining processes, and read the rest of their output."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(REAP_SECONDS)
        for _ in range(64):
            if not self._drain():
                break
        self._output.close()
        with suppress(BlockingIOError):
            self.level = os.read(self._level_from, READ_BYTES).decode(errors="replace")
        os.close(self._level_from)
        kill_orphans(self._keep)


def _too_slow(seconds: float) -> BuildFailed:
    return BuildFailed(Verdict.COMPILE_TIMEOUT, f"compiling did not end within {seconds:g} s, and was stopped")


def session_bytes(leader: int) -> int:
    """Return the resident memory of all processes in the session that `leader` began."""
    total = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                fields = stat_fields(int(entry.name))
                if int(fields[3]) == leader:
                    total += int(fields[21]) * _PAGE_BYTES
    return total
