"""When a file has been saved: seen by looking at it again and again, without help from the system."""

import hashlib
import os
from pathlib import Path

import msgspec

from hpc_board.domain.submission import SOURCE_BYTES_MAX
from hpc_board.files import open_regular


class Version(msgspec.Struct, frozen=True):
    """The contents of a file at one moment, as far as they can be told apart."""

    modified_ns: int
    size: int
    sha256: str


def version(file: Path, before: Version | None = None) -> Version | None:
    """The present version of `file`; None where it cannot be read, is no regular file, or is too large to be sent.

    It is read only where its time or its size is not that of the version `before`.
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
    """What is known of a watched file: its version at the last look, and the contents that were dealt with."""

    file: Path
    seen: Version | None = None
    done: str | None = None

    @classmethod
    def since_now(cls, file: Path) -> "Saves":
        """Wait for the next save: what the file holds now counts as dealt with."""
        now = version(file)
        return cls(file, now, now.sha256 if now else None)

    def look(self) -> "tuple[Saves, bool]":
        """The file looked at anew, and whether it holds something new that has come to rest.

        A file that changed since the last look may still be being written, so it is new at the next look only.
        """
        now = version(self.file, self.seen)
        rests = now is not None and now == self.seen and now.size > 0
        return Saves(self.file, now, self.done), rests and now is not None and now.sha256 != self.done

    def dealt_with(self) -> "Saves":
        """What the file holds has been sent, or cannot be."""
        return Saves(self.file, self.seen, self.seen.sha256 if self.seen else self.done)
