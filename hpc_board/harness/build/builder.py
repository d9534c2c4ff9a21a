"""Compilation of a submission by a confined program, watched by the supervisor.

The compiler reads a participant's source, so it gets as few rights as the worker: one folder to write, the system and
the toolchain to read, no network, no GPU, and limits of time, memory and files. Nothing of the submission runs.
"""

import hashlib
import json
import os
import re
import resource
import signal
import struct
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from hpc_board.harness.build.toolchain import (
    CRASH,
    HEADER,
    PASSED_TO_COMPILERS,
    BuildFailed,
    Inside,
    Toolchain,
    broken,
    cache_key,
    command,
    compiler_variables,
    own_source,
    toolchain,
)
from hpc_board.harness.confine import sandbox
from hpc_board.harness.files import write_files
from hpc_board.harness.job_spec import JobSpec
from hpc_board.harness.launcher import Processes
from hpc_board.harness.processes.child import DeadlinePassed, PrintedTooMuch
from hpc_board.harness.processes.crashes import native_frames
from hpc_board.harness.processes.output import Printed
from hpc_board.harness.processes.program import NOT_STARTED, Program, Room
from hpc_board.harness.processes.tree import kill_orphans, stat_fields
from hpc_board.model.files import open_regular, whole_file
from hpc_board.model.kernels import LIBRARY
from hpc_board.model.result import Log, Verdict
from hpc_board.model.task import ENTRY, Language, Mode
from hpc_board.model.text import one_line

_MEMORY_SECONDS = 0.1
_ADDR2LINE = "addr2line"
_FILE_BYTES_MAX = 2**27
"""Size limit of each file that a compiler writes."""

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
    """Return the names that a 64-bit little-endian ELF library exports; none if the file is not such a library."""
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


class BuildCache:
    """A folder of compiled submissions; a failure of the file system costs a compilation, never a result.

    Only the supervisor writes it, and verifies an entry on every read. An entry is one file, named by the sha256 of
    everything that the library depends on: a line of JSON with the name, the sha256 of the library and the compiler's
    output, then the library. It is written whole under another name and renamed. An entry that belongs to another user,
    that others may write, or whose hashes differ counts as absent.
    """

    def __init__(self, folder: Path, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._folder = folder
        self._bytes_max = bytes_max

    def get(self, key: str) -> tuple[bytes, Log] | None:
        """Return the cached library under `key`, and the compiler's output when it was built."""
        path = self._folder / f"{key}{_SUFFIX}"
        try:
            with open_regular(path) as file:
                if not (_ours(self._folder.lstat()) and _ours(os.fstat(file.fileno()))):
                    return None
                line, _, library = file.read(ENTRY_BYTES_MAX).partition(b"\n")
            facts = json.loads(line)
            if facts["key"] != key or facts["sha256"] != hashlib.sha256(library).hexdigest():
                return None
            kept = library, Log(**facts["log"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        with suppress(OSError):
            os.utime(path)
        return kept

    def put(self, key: str, library: bytes, log: Log) -> None:
        """Store a library under `key`, and remove the least recently used entries."""
        facts = {"key": key, "sha256": hashlib.sha256(library).hexdigest(), "log": asdict(log)}
        data = json.dumps(facts).encode() + b"\n" + library
        if len(data) > min(ENTRY_BYTES_MAX, self._bytes_max):
            return
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _ours(self._folder.lstat()):
                return
            with whole_file(self._folder / f"{key}{_SUFFIX}", mode=0o444) as file:
                file.write(data)
            self._prune()

    def _prune(self) -> None:
        """Remove entries, the least recently used first, until the rest fits; drafts of dead writers count as well."""
        found: list[tuple[float, int, Path]] = []
        for path in self._folder.iterdir():
            if path.suffix == _SUFFIX or path.name.startswith("."):
                with suppress(FileNotFoundError):
                    status = path.lstat()
                    found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._bytes_max:
                return
            path.unlink(missing_ok=True)
            total -= size


def _ours(status: os.stat_result) -> bool:
    """Return whether no other user can have written the file."""
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE


@dataclass(frozen=True)
class Built:
    """A library, the compiler's output, facts for the result, and the frames at places in the library."""

    library: Path
    log: Log
    facts: Mapping[str, Any]
    frames: Callable[[Sequence[int]], Sequence[str]]


def build(job: JobSpec, folder: Path, processes: Processes) -> Built:
    """Return the library of a job's submission: a cached one, or one compiled now.

    All other children of this process end with the compilation, except `processes`.

    Raises:
        BuildFailed: the library cannot be built, for the reason in the verdict.
    """
    home = Path(tempfile.mkdtemp(prefix="build-", dir=processes.scratch))
    room = compiler_room(job, folder, home, (), processes)
    tools = job_toolchain(job, room, processes)
    source = (folder / "submission" / job.submission).read_bytes()
    command_line = command(tools, job.flags, job.submission, sanitized=job.mode is Mode.SANITIZE)
    key = cache_key(tools, command_line, source, _environment(job))
    facts: dict[str, Any] = {"compiler": one_line(tools.version), "arch": tools.arch, "compiles": 0}
    cache = _cache(job, folder)
    kept = cache.get(key) if cache is not None else None
    if kept is None:
        own = {name: own_source(name).encode() for name in (HEADER, CRASH)}
        write_files(home, {job.submission: source, **own})
        kept = compiled(job, room, processes, command_line, LIBRARY, facts)
        if cache is not None:
            cache.put(key, *kept)
    data, log = kept
    library = home / LIBRARY
    library.write_bytes(data)
    facts["library_sha256"] = hashlib.sha256(data).hexdigest()
    log = renamed_in(log, job)
    check_device(job, tools.arch, log, facts)
    return Built(library, log, facts, partial(_frames, job, room, processes))


def _frames(job: JobSpec, room: Room, processes: Processes, offsets: Sequence[int]) -> Sequence[str]:
    """Return the frames at places in a job's library, of its own source alone; none on a node without addr2line.

    The library's debug information may be the submission's, so the program is confined like the compiler.
    """
    if not offsets:
        return ()
    command_line = [_ADDR2LINE, "-f", "-C", "-i", "-e", LIBRARY, *map(hex, offsets)]
    try:
        log = compiler_log(job, room, processes, command_line, {})
    except BuildFailed:
        return ()
    return native_frames(log.text, job.submission, job.shown_as)


def compiled(
    job: JobSpec, room: Room, processes: Processes, command_line: list[str], name: str, facts: dict[str, Any]
) -> tuple[bytes, Log]:
    """Return the file `name` that a command makes, and the compiler's output; add to the `facts`.

    Raises:
        BuildFailed: it makes none, or a library without the entry point; it has the `facts`, and the participant's own
            name for the file.
    """
    facts["compiles"], start = 1, time.monotonic()
    try:
        log = compiler_log(job, room, processes, command_line, facts)
        data = _built_file(room.home / name)
        if name == LIBRARY and ENTRY not in exported(data):
            raise BuildFailed(Verdict.COMPILE_ERROR, _NO_ENTRY, log)
    except BuildFailed as error:
        error.facts.update(facts)
        error.log, error.message = renamed_in(error.log, job), _renamed(error.message, job)
        raise
    facts["compile_seconds"] = round(time.monotonic() - start, 3)
    return data, log


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


def compiler_room(job: JobSpec, folder: Path, home: Path, headers: Sequence[str], processes: Processes) -> Room:
    """Return the surroundings of a job's compiler in the folder `home`.

    It reads the header folders of the settings, and the task's own `headers`.
    """
    hidden = (str(folder), str(Path.home()))
    searched = [path for name in PASSED_TO_COMPILERS for path in os.environ.get(name, "").split(":") if path]
    extra = [*job.include, *headers, *searched]
    readable = sandbox.readable_folders(os.environ, extra, hidden)
    temporary, container = Path(tempfile.mkdtemp(prefix="tmp-", dir=home)), processes.container
    environ = {**_environment(job), "HOME": str(home), "TMPDIR": str(temporary)}
    return Room(
        home,
        home,
        container.readable(readable),
        container.environment(environ),
        container.command(home, sandbox.seen_by_compilers(readable)),
        container.python,
        _FILE_BYTES_MAX,
        compiles=True,
    )


def job_toolchain(job: JobSpec, room: Room, processes: Processes) -> Toolchain:
    """Return the compiler of a job.

    Raises:
        BuildFailed: the node lacks a part of it.
    """
    container = processes.container
    inside = Inside(room.prefix, room.environment, container.kept(_environment(job)), container.identity)
    return toolchain(job.language, job.arch, os.environ, inside, std=job.std, include=job.include)


def compiler_log(
    job: JobSpec,
    room: Room,
    processes: Processes,
    command_line: list[str],
    facts: dict[str, Any],
    output: Path | None = None,
) -> Log:
    """Run the compiler and return its output; record its isolation level in `facts`.

    The standard output of a command that lists code goes into the new file `output`. All other children of this process
    end with the command, except `processes`.

    Raises:
        BuildFailed: the compiler fails, takes too long, or exceeds a limit.
    """
    limits, printed, stopped, status = job.limits, Printed(), None, 0
    with output.open("xb") if output else nullcontext() as stdout:
        program = Program(command_line, processes.harness, room, [printed], stdout=stdout)
    looked_at = 0.0

    def check_memory() -> None:
        # Each piece of output is an occasion, and a look reads /proc of all processes.
        nonlocal looked_at
        if program.seconds >= looked_at + _MEMORY_SECONDS:
            looked_at = program.seconds
            _check_memory(program, limits.build_bytes)

    try:
        status = program.wait(limits.build_seconds, limits.printed_bytes, check_memory)
    except DeadlinePassed:
        message = f"the compilation did not finish within {limits.build_seconds:g} s, and was stopped"
        stopped = BuildFailed(Verdict.COMPILE_TIMEOUT, message)
    except PrintedTooMuch:
        message = f"the compiler printed more than {limits.printed_bytes} bytes"
        stopped = BuildFailed(Verdict.COMPILE_ERROR, message)
    except BuildFailed as error:
        stopped = error
    finally:
        program.end()
        level, not_started = program.told()
        facts["compiler_isolation"] = level
        kill_orphans(processes.pids())
    log = _without(printed.log(), f"{room.home}/")
    # The command of a container may close the pipe that tells the level.
    if status == NOT_STARTED or not (level or room.prefix):
        reason = not_started or (stopped.message if stopped is not None else f"its process exited with status {status}")
        raise BuildFailed(Verdict.INFRA_ERROR, f"the compiler cannot be started: {reason}", log)
    if stopped is not None:
        stopped.log = log
        raise stopped
    if status != 0:
        raise _failure(Path(command_line[0]).name, status, log)
    return log


def _check_memory(program: Program, limit_bytes: int) -> None:
    if session_bytes(program.pid) > limit_bytes:
        message = f"the compilation exceeded the memory limit of {limit_bytes / 2**30:g} GiB, and was stopped"
        raise BuildFailed(Verdict.COMPILE_ERROR, message)


def _environment(job: JobSpec) -> dict[str, str]:
    """Return the compiler's environment: an allow-list of the job's variables, and those that the settings define."""
    passed_on = {name: os.environ[name] for name in (*_PASSED_ON, *job.environment) if name in os.environ}
    return {"LC_ALL": "C.UTF-8", **passed_on, **compiler_variables(job.language)}


def _failure(compiler: str, status: int, log: Log) -> BuildFailed:
    """Return the failure for a compiler that ended with `status`."""
    text = log.text
    if broken(text):
        return BuildFailed(Verdict.INFRA_ERROR, f"{compiler} cannot be used: {one_line(text, 500)}", log)
    if status == -signal.SIGKILL or re.search(_KILLED, text):
        message = f"{compiler} was killed, most likely because the node ran out of memory"
        return BuildFailed(Verdict.COMPILE_ERROR, message, log)
    first = next((line for line in text.splitlines() if re.search(_FIRST_ERROR, line, re.IGNORECASE)), "")
    how = f"was killed by signal {-status}" if status < 0 else f"exited with status {status}"
    return BuildFailed(Verdict.COMPILE_ERROR, f"{compiler} {how}" + (f": {one_line(first, 500)}" if first else ""), log)


def _built_file(path: Path) -> bytes:
    """Return the library or the program that a compiler wrote."""
    try:
        file = open_regular(path)
    except OSError as error:
        raise BuildFailed(
            Verdict.COMPILE_ERROR, f"the compiler wrote no {path.name}: {error.strerror or error}"
        ) from None
    with file:
        return file.read()


def _without(log: Log, prefix: str) -> Log:
    return replace(log, head=log.head.replace(prefix, ""), tail=log.tail.replace(prefix, ""))


def renamed_in(log: Log, job: JobSpec) -> Log:
    """Return the compiler's output, with the participant's own name for the file."""
    return replace(log, head=_renamed(log.head, job), tail=_renamed(log.tail, job))


def _renamed(text: str, job: JobSpec) -> str:
    """Return a compiler's message with the participant's own name for the file; only the harness uses another one."""
    return re.sub(rf"(?<![\w./-]){re.escape(job.submission)}(?![\w./-])", lambda _: job.shown_as, text)


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
