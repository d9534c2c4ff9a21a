"""The system-call filter, in real processes: what it refuses has no effect, and honest programs don't notice it."""

import errno
import json
import os
import platform
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpc_board.harness.confine import seccomp

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="the filter knows x86_64 and aarch64"
)

ROOT = Path(__file__).parents[2]
NOBODY = 65534
SECONDS = 120
MACHINE = platform.machine()
NUMBERS = {rule.name: rule.x86_64 if MACHINE == "x86_64" else rule.aarch64 for rule in seccomp._RULES}

# The modules are imported while the interpreter can be read for certain. `call` makes a system call past the C library
# and says which error it ended with, 0 for none.
START = """
import ctypes, fcntl, json, mmap, os, resource, shutil, signal, socket, subprocess, sys, tempfile, threading
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from hpc_board.harness.confine.seccomp import deny_outside_effects

libc = ctypes.CDLL(None, use_errno=True)
user, filtered, given, NUMBERS = json.loads(sys.argv[2])
if user != os.getuid():
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    libc.prctl(4, 1, 0, 0, 0)
libc.prctl(38, 1, 0, 0, 0)
if filtered and not deny_outside_effects():
    sys.exit("the filter is not in force")

def call(number, *arguments):
    number = NUMBERS[number] if isinstance(number, str) else number
    words = [ctypes.c_char_p(word) if isinstance(word, bytes) else ctypes.c_long(word) for word in arguments]
    ctypes.set_errno(0)
    return ctypes.get_errno() if libc.syscall(ctypes.c_long(number), *words) < 0 else 0

def outcome(action):
    try:
        action()
    except OSError as error:
        return error.errno
    return 0

def tell(**found):
    print(json.dumps(found))

"""


def users() -> list[int]:
    """The users to test as: root is another case than an ordinary user, where the tests may choose."""
    return [0, NOBODY] if os.getuid() == 0 else [os.getuid()]


every_user = pytest.mark.parametrize("user", users())


def process(body: str, *, user: int, given: Any = None, filtered: bool = True) -> "subprocess.CompletedProcess[str]":
    """Run `body` in a new Python as `user`, behind the filter or not."""
    words = json.dumps([user, filtered, given, NUMBERS])
    command = [sys.executable, "-c", START + textwrap.dedent(body), str(ROOT), words]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


def told(body: str, *, user: int, given: Any = None, filtered: bool = True) -> Any:
    """Return the answer of `body`."""
    ended = process(body, user=user, given=given, filtered=filtered)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can reach, which is not true of tmp_path, and that belongs to the ordinary user."""
    path = Path(tempfile.mkdtemp(prefix="seccomp-"))
    os.chown(path, users()[-1], -1)
    yield path
    shutil.rmtree(path)


def owned_file(folder: Path, user: int) -> Path:
    path = folder / "file"
    path.write_text("content")
    path.chmod(0o640)
    os.chown(path, user, -1)
    os.utime(path, (1000, 1000))
    return path


@pytest.fixture
def victim(request: pytest.FixtureRequest) -> Iterator[int]:
    """The id of another process of the same user."""
    user = request.getfixturevalue("user")
    # Only as root can the user be another than one's own.
    identity = {"user": user, "group": user, "extra_groups": []} if user != os.getuid() else {}
    with subprocess.Popen(["sleep", "600"], **identity) as sleeper:
        yield sleeper.pid
        sleeper.kill()


def state(path: Path) -> tuple[int, float, int, int]:
    found = path.stat()
    return (found.st_mode, found.st_mtime, found.st_gid, found.st_size)


MODES_AND_TIMES = """
at_folder = -100
path = given.encode()
opened = os.open(given, os.O_RDONLY)
times = (1).to_bytes(8, "little") * 4
calls = {
    "chmod": (path, 0o777),
    "fchmod": (opened, 0o777),
    "fchmodat": (at_folder, path, 0o777),
    "fchmodat2": (at_folder, path, 0o777, 0),
    "utime": (path, times),
    "utimes": (path, times),
    "futimesat": (at_folder, path, times),
    "utimensat": (at_folder, path, times, 0),
}
found = {}
for name in calls:
    before = os.stat(given)
    error = None if NUMBERS[name] is None else call(name, *calls[name])
    after = os.stat(given)
    found[name] = error, (before.st_mode, before.st_mtime) != (after.st_mode, after.st_mtime)
    if not filtered:
        os.chmod(given, 0o640)
        os.utime(given, (1000, 1000))
tell(**found)
"""


@every_user
def test_a_change_of_mode_or_time_succeeds_and_changes_nothing(folder: Path, user: int) -> None:
    file = owned_file(folder, user)
    before = state(file)
    filtered, free = (told(MODES_AND_TIMES, user=user, given=str(file), filtered=each) for each in (True, False))
    there = [name for name, (error, _) in filtered.items() if error is not None]
    assert {name: filtered[name] for name in there} == {name: [0, False] for name in there}
    assert state(file) == before
    free.pop("fchmodat2")  # Linux 6.6
    assert [name for name, found in free.items() if found != [0, True] and name in there] == []


@every_user
def test_owner_flags_and_length_of_a_file_stay_as_they_are(folder: Path, user: int) -> None:
    body = """
    opened = os.open(given, os.O_RDONLY)
    tell(
        chown=outcome(lambda: os.chown(given, -1, os.getgid())),
        lchown=outcome(lambda: os.lchown(given, -1, os.getgid())),
        fchown=outcome(lambda: os.fchown(opened, -1, os.getgid())),
        flags=outcome(lambda: fcntl.ioctl(opened, 0x40086602, (0x80).to_bytes(8, "little"))),
        truncate=outcome(lambda: os.truncate(given, 0)),
    )
    """
    file = owned_file(folder, user)
    os.chown(file, user, os.getgid())
    before = state(file)
    assert set(told(body, user=user, given=str(file)).values()) == {1}
    assert state(file) == before
    unfiltered = told(body, user=user, given=str(file), filtered=False)
    # Not every file system has flags.
    assert unfiltered.pop("flags") in (0, errno.ENOTTY, errno.EOPNOTSUPP)
    assert set(unfiltered.values()) == {0}
    assert state(file) != before


OTHERS = """
small = resource.RLIMIT_NOFILE
one_processor = {min(os.sched_getaffinity(0))}
tell(
    limit=outcome(lambda: resource.prlimit(given, small, (9, 9))),
    place=outcome(lambda: os.sched_setaffinity(given, one_processor)),
    policy=outcome(lambda: os.sched_setscheduler(given, os.SCHED_BATCH, os.sched_param(0))),
    parameter=outcome(lambda: os.sched_setparam(given, os.sched_param(0))),
    nice=outcome(lambda: os.setpriority(os.PRIO_PROCESS, given, 19)),
    io=call("ioprio_set", 1, given, (3 << 13)),
    trace=call("ptrace", 0x4206, given, 0, 0),
)
"""


def standing(pid: int) -> tuple[Any, ...]:
    limits = Path(f"/proc/{pid}/limits").read_text(encoding="ascii")
    return (limits, os.sched_getaffinity(pid), os.sched_getscheduler(pid), os.getpriority(os.PRIO_PROCESS, pid))


@every_user
def test_another_process_keeps_its_limits_place_and_priority(user: int, victim: int) -> None:
    before = standing(victim)
    found = told(OTHERS, user=user, given=victim)
    assert found.pop("place") == 0
    assert set(found.values()) == {1}
    assert standing(victim) == before
    found = told(OTHERS, user=user, given=victim, filtered=False)
    assert set(found.values()) == {0}
    assert standing(victim)[0] != before[0]


@every_user
def test_only_connected_local_sockets_exist(user: int) -> None:
    body = """
    families = {name: getattr(socket, name) for name in ("AF_INET", "AF_INET6", "AF_NETLINK", "AF_VSOCK", "AF_PACKET")}
    kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW)
    close_on_exec = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
    first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    first.send(b"hello")
    tell(
        outside=[outcome(lambda: socket.socket(family, kind)) for family in families.values() for kind in kinds],
        hidden=call("socket", (1 << 32) | socket.AF_INET, socket.SOCK_DGRAM, 0),
        datagram=outcome(lambda: socket.socket(socket.AF_UNIX, close_on_exec)),
        pair=outcome(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)),
        stream=outcome(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)),
        heard=second.recv(16).decode(),
    )
    """
    found = told(body, user=user)
    assert set(found.pop("outside")) == {13}
    assert found == {"hidden": 13, "datagram": 13, "pair": 13, "stream": 0, "heard": "hello"}


@every_user
def test_a_daemon_that_listens_on_a_local_socket_is_not_reached(folder: Path, user: int) -> None:
    body = """
    tell(error=outcome(lambda: socket.socket(socket.AF_UNIX).connect(given)))
    """
    address = str(folder / "daemon")
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(address)
        Path(address).chmod(0o777)
        daemon.listen()
        daemon.setblocking(False)
        assert told(body, user=user, given=address) == {"error": 13}
        with pytest.raises(BlockingIOError):
            daemon.accept()
        assert told(body, user=user, given=address, filtered=False) == {"error": 0}
        daemon.accept()[0].close()


# fmt: off
REFUSED_OUTRIGHT = (
    "chown", "fchown", "lchown", "fchownat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat",
    "removexattr", "lremovexattr", "fremovexattr", "removexattrat", "file_setattr", "truncate", "ptrace",
    "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp", "add_key",
    "request_key", "keyctl", "shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl",
    "msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink", "io_uring_setup", "io_uring_enter",
    "io_uring_register", "userfaultfd", "perf_event_open", "bpf", "fanotify_init", "unshare", "setns",
    "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig",
    "fsmount", "fspick", "mount_setattr", "open_tree_attr", "kexec_load", "kexec_file_load",
    "init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff", "quotactl",
    "quotactl_fd", "acct", "sethostname", "setdomainname", "settimeofday", "clock_settime", "adjtimex",
    "clock_adjtime",
)
# fmt: on


@every_user
def test_every_call_that_has_no_honest_use_is_refused_before_the_kernel_looks_at_it(user: int) -> None:
    # Invalid arguments: a call that got through would fail with another error, and do no harm as root.
    body = "tell(**{name: call(name, -1, -1, -1, -1, -1, -1) for name in given})"
    names = [name for name in REFUSED_OUTRIGHT if NUMBERS[name] is not None]
    assert told(body, user=user, given=names) == dict.fromkeys(names, 1)


@pytest.mark.skipif(MACHINE != "x86_64", reason="the interface of 32-bit x86")
def test_a_call_by_the_32_bit_interface_ends_the_process() -> None:
    # mov eax, 20 (getpid); int 0x80; ret
    body = r"""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
    os._exit(0)
    """
    assert process(body, user=os.getuid()).returncode == -signal.SIGSYS


@every_user
def test_children_and_other_programs_inherit_the_filter_and_cannot_remove_it(folder: Path, user: int) -> None:
    body = """
    allow_all = (0x06).to_bytes(4, "little") + (0x7FFF0000).to_bytes(4, "little")
    code = ctypes.create_string_buffer(allow_all)
    header = (1).to_bytes(8, "little") + ctypes.addressof(code).to_bytes(8, "little")
    tell(
        disabled=libc.prctl(22, 0, 0, 0, 0),
        covered=libc.prctl(22, 2, header, 0, 0),
        privileges=libc.prctl(38, 0, 0, 0, 0),
        shell=subprocess.run(["/bin/chmod", "777", given]).returncode,
        chown=subprocess.run(["/bin/chgrp", str(os.getgid()), given], stderr=subprocess.DEVNULL).returncode,
        unshare=subprocess.run(["unshare", "-U", "true"], stderr=subprocess.DEVNULL).returncode,
        mode=[line.split()[1] for line in open("/proc/self/status") if line.startswith("Seccomp:")],
    )
    """
    file = owned_file(folder, user)
    os.chown(file, -1, os.getgid())
    before = state(file)
    found = told(body, user=user, given=str(file))
    assert found == {
        "disabled": -1,
        "covered": 0,
        "privileges": -1,
        "shell": 0,
        "chown": 1,
        "unshare": 1,
        "mode": ["2"],
    }
    assert state(file) == before


@every_user
def test_threads_that_run_already_are_filtered_too(folder: Path, user: int) -> None:
    body = """
    ready, go, found = threading.Event(), threading.Event(), []
    def wait():
        ready.set()
        go.wait()
        found.append(outcome(lambda: os.chown(given, -1, os.getgid())))
    thread = threading.Thread(target=wait)
    thread.start()
    ready.wait()
    in_force = deny_outside_effects()
    go.set()
    thread.join()
    tell(in_force=in_force, error=found[0])
    """
    file = owned_file(folder, user)
    found = told(body, user=user, given=str(file), filtered=False)
    assert found == {"in_force": True, "error": 1}


@pytest.mark.skipif(os.getuid() != 0, reason="root may install a filter with all its privileges")
def test_a_process_that_kept_its_privileges_is_told_that_there_is_no_filter() -> None:
    body = f"""
    import os, sys
    sys.path.insert(0, {str(ROOT)!r})
    from hpc_board.harness.confine.seccomp import deny_outside_effects
    os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
    print(deny_outside_effects())
    """
    command = [sys.executable, "-c", textwrap.dedent(body)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    assert ended.stdout == "False\n"


@every_user
def test_a_process_may_still_care_for_itself(folder: Path, user: int) -> None:
    body = """
    caught = []
    signal.signal(signal.SIGUSR1, lambda *_: caught.append("signal"))
    os.kill(os.getpid(), signal.SIGUSR1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.nice(1)
    memory = os.memfd_create("values")
    os.ftruncate(memory, 4096)
    mmap.mmap(memory, 4096)[:5] = b"bytes"
    with tempfile.TemporaryDirectory(dir=given) as scratch:
        source = Path(scratch, "source")
        source.write_text("text")
        shutil.copy2(source, Path(scratch, "copy"))
        shutil.copytree(scratch, Path(given, "tree"))
        source.touch()
    child = subprocess.Popen(["sleep", "600"])
    child.terminate()
    reading, writing = os.pipe()
    os.write(writing, b"1234")
    waiting = fcntl.ioctl(reading, 0x541B, bytes(4))  # FIONREAD
    tell(
        waiting=int.from_bytes(waiting, "little"),
        caught=caught,
        files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        processors=len(os.sched_getaffinity(0)),
        memory=os.pread(memory, 5, 0).decode(),
        copied=Path(given, "tree", "copy").read_text(),
        child=child.wait(),
    )
    """
    (folder / "mine").mkdir()
    os.chown(folder / "mine", user, -1)
    assert told(body, user=user, given=str(folder / "mine")) == {
        "waiting": 4,
        "caught": ["signal"],
        "files": 64,
        "processors": 1,
        "memory": "bytes",
        "copied": "text",
        "child": -signal.SIGTERM,
    }


# linux/audit.h; 0x40000003 is 32-bit x86, 0x40000028 32-bit ARM.
ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def answer(machine: str, number: int, *arguments: int, architecture: int = 0, others: tuple[int, ...] = ()) -> int:
    """Return the answer of the filter for `machine`: the instructions are run here, also those of another machine."""
    words = [number, architecture or ARCHITECTURE[machine], 0, 0]
    for argument in (*arguments, *[0] * (6 - len(arguments))):
        words += [argument & 0xFFFFFFFF, argument >> 32]
    program = seccomp._program(machine, others=others)
    accumulator = position = 0
    while True:
        operation, then, otherwise, value = struct.unpack("=HBBI", program[position])
        position += 1
        if operation == 0x20:
            accumulator = words[value // 4]
        elif operation == 0x54:
            accumulator &= value
        elif operation == 0x05:
            position += value
        elif operation == 0x15:
            position += then if accumulator == value else otherwise
        elif operation == 0x35:
            position += then if accumulator >= value else otherwise
        else:
            assert operation == 0x06
            return int(value)


ALLOWED, SUCCESS, PERMISSION, ACCESS, MISSING, KILLED = 0x7FFF0000, 0x50000, 0x50001, 0x5000D, 0x50026, 0x80000000


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_of_each_machine_answers_as_its_table_says(machine: str) -> None:
    number = {rule.name: getattr(rule, machine) for rule in seccomp._RULES}
    for name, given, expected in (
        ("fchmod", (3, 0o777), SUCCESS),
        ("utimensat", (), SUCCESS),
        ("fchownat", (), PERMISSION),
        ("prlimit64", (0,), ALLOWED),
        ("prlimit64", (1 << 32,), ALLOWED),
        ("prlimit64", (77,), PERMISSION),
        ("sched_setaffinity", (77,), SUCCESS),
        ("sched_setattr", (0,), ALLOWED),
        ("sched_setattr", (77,), PERMISSION),
        ("move_pages", (77,), PERMISSION),
        ("migrate_pages", (77,), PERMISSION),
        ("setpriority", (0, 0), ALLOWED),
        ("setpriority", (1, 0), PERMISSION),
        ("setpriority", (2, 0), PERMISSION),
        ("setpriority", ((1 << 32) | 1, 0), PERMISSION),
        ("fcntl", (3, 3), ALLOWED),
        ("fcntl", (3, 1024), PERMISSION),
        ("fcntl", (3, 1026), PERMISSION),
        ("ioprio_set", (1, 0), ALLOWED),
        ("ioprio_set", (3, 0), PERMISSION),
        ("ioprio_set", (1, 77), PERMISSION),
        ("socket", (1, 1 | 0o2000000), ALLOWED),
        ("socket", (1, 5), ALLOWED),
        ("socket", (1, 2), ACCESS),
        ("socket", (2, 1), ACCESS),
        ("ioctl", (0, 0x5401), ALLOWED),
        ("ioctl", (0, 0x40086602), PERMISSION),
        ("ioctl", (0, 0x401C5820), PERMISSION),
        ("ioctl", (0, 0x40806685), PERMISSION),
        ("clone", (0x3D0F00,), ALLOWED),
        ("clone", (0x10000011,), PERMISSION),
        ("clone", (0x20011,), PERMISSION),
        ("clone3", (), MISSING),
        ("personality", (0xFFFFFFFF,), ALLOWED),
        ("personality", (0,), PERMISSION),
        ("mknodat", (-100, 0, 0o600), ALLOWED),
        ("mknodat", (-100, 0, 0o100600), ALLOWED),
        ("mknodat", (-100, 0, 0o010600), ALLOWED),
        ("mknodat", (-100, 0, 0o140600), ALLOWED),
        ("mknodat", (-100, 0, 0o020600), PERMISSION),
        ("mknodat", (-100, 0, 0o060600), PERMISSION),
        ("prctl", (4, 0), PERMISSION),
        ("prctl", (3,), ALLOWED),
        ("prctl", (15,), ALLOWED),
    ):
        assert answer(machine, number[name], *given) == expected, (name, given)
    affinity = number["sched_setaffinity"]
    found = {pid: answer(machine, affinity, pid, others=(70, 71)) for pid in (0, 69, 70, 71, 72)}
    assert found == {0: ALLOWED, 69: SUCCESS, 70: PERMISSION, 71: PERMISSION, 72: SUCCESS}
    assert answer(machine, number["fchmod"], 70, others=(70, 71)) == SUCCESS
    assert answer(machine, 470) == answer(machine, 0xFFFFFFFF) == MISSING
    assert answer(machine, 468) == ALLOWED


def test_the_other_interfaces_of_a_machine_are_closed() -> None:
    x32 = 0x40000000
    assert answer("x86_64", x32 | 1) == MISSING
    assert answer("x86_64", 1, architecture=0x40000003) == KILLED
    assert answer("aarch64", 1, architecture=0x40000028) == KILLED


HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_numbers_are_those_of_the_kernel_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("no kernel headers here")
    text = HEADERS[machine].read_text(encoding="ascii")
    numbers = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\b", text)}
    newest = max(number for name, number in numbers.items() if name != "syscalls")
    listed = {rule.name: rule.x86_64 if machine == "x86_64" else rule.aarch64 for rule in seccomp._RULES}
    for name, number in listed.items():
        if number is None or number <= newest:
            assert number == numbers.get(name), name


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_call_is_listed_twice(machine: str) -> None:
    found = [number for rule in seccomp._RULES if (number := getattr(rule, machine)) is not None]
    assert len(found) == len(set(found))
