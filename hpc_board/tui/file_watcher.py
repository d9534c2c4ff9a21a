"""Detection of saves of a file, by polling."""

import hashlib
import os
from pathlib import Path

import msgspec

from hpc_board.domain.submission import SOURCE_BYTES_MAX
from hpc_board.files import open_regular


class Version(msgspec.Struct, frozen=True):
    """The fingerprint of a file's contents at one moment."""

    modified_ns: int
    size: int
    sha256: str


def version(file: Path, before: Version | None = None) -> Version | None:
    """Return the current version of `file`; None if it is unreadable, not a regular file, or too large to submit.

    The file is read only if its time or size differs from that of `before`.
    """
    try:
        with open_regular(file, follow=True) as opened:
            found = os.fstat(opened.fileno())
            if found.st_size > SOURCE_BYTES_MAX:
                return None
            if before is not None and (found.st_mtime_ns, found.st_size) == (before.modified_ns, before.size):
                return before
            data = opened.read(SOURCE_BYTES_MAX + 1)
    except (OSError, ValueError):
        return None
    return Version(found.st_mtime_ns, len(data), hashlib.sha256(data).hexdigest())


class Saves(msgspec.Struct, frozen=True):
    """The state of a watched file: its version at the last look, and the hash of the contents handled last."""

    file: Path
    seen: Version | None = None
    done: str | None = None

    @classmethod
    def since_now(cls, file: Path) -> "Saves":
        """Start watching a file whose current contents count as handled."""
        now = version(file)
        return cls(file, now, now.sha256 if now else None)

    def look(self) -> "tuple[Saves, bool]":
        """Read the file's version, and return the new state and whether there is a complete save to handle.

        A file that changed since the last look may still be incomplete, so it counts at the next look only.
        """
        now = version(self.file, self.seen)
        rests = now is not None and now == self.seen and now.size > 0
        return Saves(self.file, now, self.done), rests and now is not None and now.sha256 != self.done

    def handled(self) -> "Saves":
        """Return the state with the current contents as handled."""
        return Saves(self.file, self.seen, self.seen.sha256 if self.seen else self.done)
