"""OpenSSH's known_hosts files, read-only: the accepted keys of each host."""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hpc_board.errors import InputError
from hpc_board.files import read_text

_FILE_BYTES_MAX = 8 * 1024 * 1024
_REVOKED = "@revoked"


class _Line(msgspec.Struct, frozen=True):
    place: str
    hosts: str
    key_type: str
    key: bytes
    revoked: bool


class KnownHosts(msgspec.Struct, frozen=True):
    """The lines of some known_hosts files that name keys, without those of certificate authorities."""

    files: tuple[Path, ...]
    lines: tuple[_Line, ...]

    @classmethod
    def read(cls, files: Sequence[Path]) -> "KnownHosts":
        """Read the keys of `files`; missing files and unreadable lines hold none."""
        lines: list[_Line] = []
        for file in files:
            try:
                text = read_text(file, _FILE_BYTES_MAX)
            except InputError:
                continue
            found = (_line(f"line {number} of {file}", line) for number, line in enumerate(text.splitlines(), 1))
            lines += [line for line in found if line is not None]
        return cls(tuple(files), tuple(lines))

    def key_types(self, host: str) -> list[str]:
        """Return the types of the known keys of `host`, in the order in which a login asks for them."""
        return list(dict.fromkeys(line.key_type for line in self._of(host) if not line.revoked))

    def knows(self, host: str, key: bytes) -> bool:
        """Return whether the files have exactly this key for `host`, and it is not revoked."""
        same = [line for line in self._of(host) if hmac.compare_digest(line.key, key)]
        return bool(same) and not any(line.revoked for line in same)

    def contradicts(self, host: str, key_type: str, key: bytes) -> str:
        """Return the place of a line that contradicts this key: another of its type, or revoked; "" if none."""
        for line in self._of(host):
            if line.revoked == (line.key == key) and line.key_type == key_type:
                return line.place
        return ""

    def _of(self, host: str) -> list[_Line]:
        return [line for line in self.lines if _matches(line.hosts, host)]


def name_of(host: str, port: int) -> str:
    """Return the name in known_hosts files of the host that listens on `port`."""
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"


def fingerprint(key: bytes) -> str:
    """Return the fingerprint of a public key as OpenSSH shows it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def fits(pattern: str, host: str) -> bool:
    """Return whether `host` fits a pattern in which * and ? alone are special; brackets belong to names with ports."""
    expression = "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in pattern)
    return re.fullmatch(expression, host) is not None


def _line(place: str, text: str) -> _Line | None:
    words = text.split()
    marker = words.pop(0) if words and words[0].startswith("@") else ""
    if len(words) < 3 or words[0].startswith("#") or marker not in ("", _REVOKED):
        return None
    try:
        key = base64.b64decode(words[2], validate=True)
    except (binascii.Error, ValueError):
        return None
    return _Line(place, words[0], words[1], key, marker == _REVOKED)


def _matches(hosts: str, host: str) -> bool:
    if hosts.startswith("|1|"):
        return _is_hash_of(hosts, host)
    patterns = [pattern.lower() for pattern in hosts.split(",")]
    excluded = any(fits(pattern[1:], host) for pattern in patterns if pattern.startswith("!"))
    return not excluded and any(fits(pattern, host) for pattern in patterns)


def _is_hash_of(hashed: str, host: str) -> bool:
    """Return whether "|1|salt|hash" is the hash of `host`."""
    try:
        salt, digest = (base64.b64decode(part) for part in hashed[3:].split("|"))
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(digest, hmac.new(salt, host.encode(), "sha1").digest())
