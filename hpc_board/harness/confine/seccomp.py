"""A system-call filter for the worker: it closes the ways to act on the outside that Landlock leaves open.

Landlock guards the contents of files. It does not guard their modes, times and attributes, other processes of the same
user, sockets, or objects that outlive a process. This filter refuses those by call number and by plain arguments, the
only input of a filter. Every descendant inherits it, no process can remove it, and root is bound by it as well.

Honest build tools change modes and times of files all the time and stop on an error, so those calls return success and
have no effect. The rest fails with an ordinary error.
"""

import ctypes
import errno
import platform
import struct
from collections.abc import Sequence
from typing import NamedTuple

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER = 1
_EVERY_THREAD = 1 << 0
# Without this flag older kernels switch off speculation, which would slow down the very kernels that are timed.
_KEEP_SPECULATION = 1 << 2

# From linux/audit.h.
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# Return values, from linux/seccomp.h. The low 16 bits of _FAIL are the error; error 0 is a success without effect.
_ALLOW, _FAIL, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_PRETEND = _FAIL
_EPERM, _EACCES, _ENOSYS = _FAIL | errno.EPERM, _FAIL | errno.EACCES, _FAIL | errno.ENOSYS

# Operations of classic BPF, from linux/bpf_common.h, and offsets in struct seccomp_data.
_LOAD, _AND, _JUMP, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16

# A call newer than this list fails like one that the kernel lacks. Numbers of the x32 interface, an alternative way to
# each call, carry bit 30 and are refused by the same comparison.
_FIRST_UNREVIEWED = 470

_WHOLE = 0xFFFFFFFF
_NEW_NAMESPACES = 0x7E020000
_UNIX_SOCKET, _SOCKET_KIND, _STREAM, _SEQUENCED = 1, 0xF, 1, 5


class _Check(NamedTuple):
    """Condition that the low half of an argument, masked, is one of `values`, or with `among` false none of them.

    The kernel takes every argument checked here as 32 bits, so the unchecked half has no meaning.
    """

    argument: int
    values: tuple[int, ...]
    mask: int = _WHOLE
    among: bool = True


class _Rule(NamedTuple):
    """A system call, its number on each machine, and its answer unless it has checks and all of them hold."""

    name: str
    x86_64: int | None
    aarch64: int | None
    answer: int
    checks: tuple[_Check, ...] = ()


_OWN = (_Check(0, (0,)),)
_OWN_PRIORITY = (_Check(0, (0,)), _Check(1, (0,)))
_OWN_IO_PRIORITY = (_Check(0, (1,)), _Check(1, (0,)))
_QUERY = (_Check(0, (_WHOLE,)),)
_NO_NAMESPACE = (_Check(0, (0,), _NEW_NAMESPACES),)
# A datagram socket could send to any address, even one from socketpair.
_CONNECTED_UNIX = (_Check(0, (_UNIX_SOCKET,)), _Check(1, (_STREAM, _SEQUENCED), _SOCKET_KIND))
# PR_SET_DUMPABLE: if /proc hides processes that are not dumpable, the supervisor could not see whether one runs.
_NOT_HIDDEN = (_Check(0, (4,), among=False),)
# S_IFMT of a new node's mode: a file, a pipe or a socket, and no device.
_NO_DEVICE = (0, 0o100000, 0o010000, 0o140000)
_NODE_KIND = 0o170000
# FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_ENABLE_VERITY: they change a file that is only open for reading.
_NO_FILE_FLAGS = (_Check(1, (0x40086602, 0x401C5820, 0x40806685), among=False),)

# F_SETLEASE, F_NOTIFY: a lease on a file that is open for reading delays all who open it for writing or at all.
_NO_LEASE = (_Check(1, (1024, 1026), among=False),)

# Numbers for x86_64 are those of arch/x86/entry/syscalls/syscall_64.tbl, for aarch64 those of asm-generic/unistd.h;
# from 424 on they are the same.
_RULES = (
    # Modes and times of files.
    _Rule("chmod", 90, None, _PRETEND),
    _Rule("fchmod", 91, 52, _PRETEND),
    _Rule("fchmodat", 268, 53, _PRETEND),
    _Rule("fchmodat2", 452, 452, _PRETEND),
    _Rule("utime", 132, None, _PRETEND),
    _Rule("utimes", 235, None, _PRETEND),
    _Rule("futimesat", 261, None, _PRETEND),
    _Rule("utimensat", 280, 88, _PRETEND),
    # Owners, attributes, flags. Landlock covers truncation from Linux 6.2 on only.
    _Rule("chown", 92, None, _EPERM),
    _Rule("fchown", 93, 55, _EPERM),
    _Rule("lchown", 94, None, _EPERM),
    _Rule("fchownat", 260, 54, _EPERM),
    _Rule("setxattr", 188, 5, _EPERM),
    _Rule("lsetxattr", 189, 6, _EPERM),
    _Rule("fsetxattr", 190, 7, _EPERM),
    _Rule("setxattrat", 463, 463, _EPERM),
    _Rule("removexattr", 197, 14, _EPERM),
    _Rule("lremovexattr", 198, 15, _EPERM),
    _Rule("fremovexattr", 199, 16, _EPERM),
    _Rule("removexattrat", 466, 466, _EPERM),
    _Rule("file_setattr", 469, 469, _EPERM),
    _Rule("ioctl", 16, 29, _EPERM, _NO_FILE_FLAGS),
    _Rule("truncate", 76, 45, _EPERM),
    _Rule("fcntl", 72, 25, _EPERM, _NO_LEASE),
    # Devices, which reach parts of the node that no file permission guards.
    _Rule("mknod", 133, None, _EPERM, (_Check(1, _NO_DEVICE, _NODE_KIND),)),
    _Rule("mknodat", 259, 33, _EPERM, (_Check(2, _NO_DEVICE, _NODE_KIND),)),
    # Limits, priorities and processor affinities of other processes. With OMP_PROC_BIND, GCC's OpenMP binds its threads
    # by their ids, and ends the process on an error. A filter cannot tell the id of a later thread from that of another
    # process, so the call succeeds without effect, but for the harness's processes, which are known (`others`).
    _Rule("sched_setaffinity", 203, 122, _PRETEND, _OWN),
    _Rule("prlimit64", 302, 261, _EPERM, _OWN),
    _Rule("sched_setparam", 142, 118, _EPERM, _OWN),
    _Rule("sched_setscheduler", 144, 119, _EPERM, _OWN),
    _Rule("sched_setattr", 314, 274, _EPERM, _OWN),
    _Rule("setpriority", 141, 140, _EPERM, _OWN_PRIORITY),
    _Rule("ioprio_set", 251, 30, _EPERM, _OWN_IO_PRIORITY),
    _Rule("migrate_pages", 256, 238, _EPERM, _OWN),
    _Rule("move_pages", 279, 239, _EPERM, _OWN),
    # Memory and descriptors of other processes.
    _Rule("ptrace", 101, 117, _EPERM),
    _Rule("process_vm_readv", 310, 270, _EPERM),
    _Rule("process_vm_writev", 311, 271, _EPERM),
    _Rule("process_madvise", 440, 440, _EPERM),
    _Rule("pidfd_getfd", 438, 438, _EPERM),
    _Rule("kcmp", 312, 272, _EPERM),
    # A process that is hidden from the supervisor.
    _Rule("prctl", 157, 167, _EPERM, _NOT_HIDDEN),
    # Sockets to the network, and to daemons of the same user that would run a command outside.
    _Rule("socket", 41, 198, _EACCES, _CONNECTED_UNIX),
    _Rule("socketpair", 53, 199, _EACCES, _CONNECTED_UNIX),
    _Rule("connect", 42, 203, _EACCES),
    # Objects that outlive the process, or that all processes of the user share.
    _Rule("add_key", 248, 217, _EPERM),
    _Rule("request_key", 249, 218, _EPERM),
    _Rule("keyctl", 250, 219, _EPERM),
    _Rule("shmget", 29, 194, _EPERM),
    _Rule("shmat", 30, 196, _EPERM),
    _Rule("shmctl", 31, 195, _EPERM),
    _Rule("semget", 64, 190, _EPERM),
    _Rule("semop", 65, 193, _EPERM),
    _Rule("semtimedop", 220, 192, _EPERM),
    _Rule("semctl", 66, 191, _EPERM),
    _Rule("msgget", 68, 186, _EPERM),
    _Rule("msgsnd", 69, 189, _EPERM),
    _Rule("msgrcv", 70, 188, _EPERM),
    _Rule("msgctl", 71, 187, _EPERM),
    _Rule("mq_open", 240, 180, _EPERM),
    _Rule("mq_unlink", 241, 181, _EPERM),
    # Ways around the other rules, and large parts of the kernel that no submission needs.
    _Rule("io_uring_setup", 425, 425, _EPERM),
    _Rule("io_uring_enter", 426, 426, _EPERM),
    _Rule("io_uring_register", 427, 427, _EPERM),
    _Rule("io_setup", 206, 0, _EPERM),
    _Rule("io_submit", 209, 2, _EPERM),
    _Rule("userfaultfd", 323, 282, _EPERM),
    _Rule("perf_event_open", 298, 241, _EPERM),
    _Rule("bpf", 321, 280, _EPERM),
    _Rule("fanotify_init", 300, 262, _EPERM),
    _Rule("personality", 135, 92, _EPERM, _QUERY),
    # Namespaces and mounts. The flags of clone3 lie in memory, which a filter cannot read; a C library that finds the
    # call missing uses clone.
    _Rule("unshare", 272, 97, _EPERM),
    _Rule("setns", 308, 268, _EPERM),
    _Rule("clone", 56, 220, _EPERM, _NO_NAMESPACE),
    _Rule("clone3", 435, 435, _ENOSYS),
    _Rule("mount", 165, 40, _EPERM),
    _Rule("umount2", 166, 39, _EPERM),
    _Rule("pivot_root", 155, 41, _EPERM),
    _Rule("chroot", 161, 51, _EPERM),
    _Rule("open_tree", 428, 428, _EPERM),
    _Rule("move_mount", 429, 429, _EPERM),
    _Rule("fsopen", 430, 430, _EPERM),
    _Rule("fsconfig", 431, 431, _EPERM),
    _Rule("fsmount", 432, 432, _EPERM),
    _Rule("fspick", 433, 433, _EPERM),
    _Rule("mount_setattr", 442, 442, _EPERM),
    _Rule("open_tree_attr", 467, 467, _EPERM),
    # The machine, for a worker that runs as root.
    _Rule("kexec_load", 246, 104, _EPERM),
    _Rule("kexec_file_load", 320, 294, _EPERM),
    _Rule("init_module", 175, 105, _EPERM),
    _Rule("finit_module", 313, 273, _EPERM),
    _Rule("delete_module", 176, 106, _EPERM),
    _Rule("reboot", 169, 142, _EPERM),
    _Rule("swapon", 167, 224, _EPERM),
    _Rule("swapoff", 168, 225, _EPERM),
    _Rule("quotactl", 179, 60, _EPERM),
    _Rule("quotactl_fd", 443, 443, _EPERM),
    _Rule("acct", 163, 89, _EPERM),
    _Rule("sethostname", 170, 161, _EPERM),
    _Rule("setdomainname", 171, 162, _EPERM),
    _Rule("settimeofday", 164, 170, _EPERM),
    _Rule("clock_settime", 227, 112, _EPERM),
    _Rule("adjtimex", 159, 171, _EPERM),
    _Rule("clock_adjtime", 305, 266, _EPERM),
)

_SOCKETS = ("socket", "socketpair", "connect")

_libc = ctypes.CDLL(None, use_errno=True)


def deny_outside_effects(*, network: bool = False, others: Sequence[int] = ()) -> bool:
    """Filter the system calls of this process and its descendants for good; return whether the filter is in force.

    With `network`, sockets stay allowed. `others` are processes whose affinity is refused with an error. The process
    must have given up new privileges. Return False on machines other than x86_64 and aarch64, and on kernels without
    seccomp filters.
    """
    machine = platform.machine()
    if machine not in _ARCHITECTURE or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    program = _program(machine, _SOCKETS if network else (), others)
    code = ctypes.create_string_buffer(b"".join(program))
    header = struct.pack("@HP", len(program), ctypes.addressof(code))
    flags = _EVERY_THREAD | _KEEP_SPECULATION
    return int(_libc.syscall(_SECCOMP[machine], _SET_MODE_FILTER, flags, header)) == 0


def _program(machine: str, allowed: Sequence[str] = (), others: Sequence[int] = ()) -> list[bytes]:
    """Return the filter as a list of instructions; a call without a rule, or in `allowed`, is allowed."""
    program = [
        _instruction(_LOAD, _ARCHITECTURE_AT),
        _instruction(_IF_EQUAL, _ARCHITECTURE[machine], then=1),
        _instruction(_RETURN, _KILL_PROCESS),
        _instruction(_LOAD, _NUMBER_AT),
        _instruction(_IF_AT_LEAST, _FIRST_UNREVIEWED, otherwise=1),
        _instruction(_RETURN, _ENOSYS),
    ]
    for rule in _RULES:
        number = rule.x86_64 if machine == "x86_64" else rule.aarch64
        if number is not None and rule.name not in allowed:
            body = _body(rule.answer, rule.checks)
            if others and rule.name == "sched_setaffinity":
                body = [*_body(_EPERM, (_Check(0, tuple(others), among=False),))[:-1], *body]
            program += [_instruction(_IF_EQUAL, number, otherwise=len(body)), *body]
    return [*program, _instruction(_RETURN, _ALLOW)]


def _body(answer: int, checks: Sequence[_Check]) -> list[bytes]:
    body: list[bytes] = []
    for check in checks:
        body += [
            _instruction(_LOAD, _ARGUMENTS_AT + 8 * check.argument),
            _instruction(_AND, check.mask),
            *_comparisons(check),
            _instruction(_RETURN, answer),
        ]
    return [*body, _instruction(_RETURN, _ALLOW if checks else answer)]


def _comparisons(check: _Check) -> list[bytes]:
    """Return comparisons that skip the next instruction if the check holds, and otherwise fall through to it."""
    count = len(check.values)
    found = [_instruction(_IF_EQUAL, value, then=count - index) for index, value in enumerate(check.values)]
    return found if check.among else [*found, _instruction(_JUMP, 1)]


def _instruction(operation: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """Return one instruction; a comparison skips `then` or `otherwise` instructions."""
    return struct.pack("=HBBI", operation, then, otherwise, value)
