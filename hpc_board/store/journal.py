"""The journal that SQLite may keep beside the database, by the file system below."""

import re
from pathlib import Path, PurePath

import msgspec

MOUNTS = Path("/proc/self/mountinfo")
"""The path of Linux's mount table."""

LOCAL_FILE_SYSTEMS = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "tmpfs", "xfs", "zfs"}
)
"""File systems that only one host writes to; every other one counts as shared between hosts."""


def journal_mode(folder: Path, mounts: Path = MOUNTS) -> str:
    """Return the journal mode for a database in `folder`: "wal" on a local file system, "delete" on any other.

    A write-ahead log lives in memory that all its users share, so it breaks if two hosts open the same file.
    """
    try:
        table = mounts.read_text(errors="surrogateescape")
    except OSError:
        return "delete"
    return "wal" if file_system(table, folder.resolve()) in LOCAL_FILE_SYSTEMS else "delete"


class Mount(msgspec.Struct, frozen=True):
    """The type of a file system, and how it is mounted: all options, with commas between them; "" where unknown."""

    kind: str = ""
    options: str = ""


def file_system(mountinfo: str, path: PurePath) -> str:
    """Return the type of the file system that holds the absolute `path`, "" if `mountinfo` lacks it."""
    return mounted(mountinfo, path).kind


def mounted(mountinfo: str, path: PurePath) -> Mount:
    """Return the file system that holds the absolute `path`, by `mountinfo`.

    The longest mount point above `path` counts, and of several mounts on one point the last, which hides the others.
    """
    depth, found = 0, Mount()
    for line in mountinfo.splitlines():
        mount, separator, source = line.partition(" - ")
        fields, described = mount.split(), source.split()
        if not separator or len(fields) < 6 or not described:
            continue
        point = PurePath(_unescaped(fields[4]))
        if path.is_relative_to(point) and len(point.parts) >= depth:
            depth, found = len(point.parts), Mount(described[0], ",".join([fields[5], *described[2:3]]))
    return found


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)
