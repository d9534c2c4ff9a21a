"""OpenSSH's known_hosts files, read-only: the accepted keys of a host."""

import base64
import binascii
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from hpc_board.transport.ssh_config import asked


class KnownKey(msgspec.Struct, frozen=True):
    """A line of a known_hosts file with a key of the host."""

    place: str
    key_type: str
    key: bytes
    revoked: bool


def known_keys(files: Sequence[Path], names: Sequence[str]) -> list[KnownKey]:
    """Return the keys in `files` of the first of a host's `names` that has a valid one, without those of authorities.

    `ssh-keygen` finds them; without it the library does, which knows neither patterns nor revoked keys.

    Raises:
        SchedulerError: ssh-keygen does not answer.
    """
    find = _found if shutil.which("ssh-keygen") else _found_without_openssh
    found = ([key for file in files if os.access(file, os.R_OK) for key in find(file, name)] for name in names)
    return next((keys for keys in found if not all(key.revoked for key in keys)), [])


def fingerprint(key: bytes) -> str:
    """Return the fingerprint of a public key as OpenSSH shows it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def _found(file: Path, name: str) -> Iterator[KnownKey]:
    number = ""
    for line in asked(["ssh-keygen", "-F", name, "-f", str(file)]).stdout.splitlines():
        words = line.split()
        if line.startswith("# Host "):
            number = line.rpartition(": line ")[2].split()[0]
            continue
        marker = words.pop(0) if line.startswith("@") else ""
        try:
            key = base64.b64decode(words[2], validate=True)
        except (IndexError, binascii.Error):
            continue
        if marker in ("", "@revoked"):
            yield KnownKey(f"line {number} of {file}", words[1], key, bool(marker))


def _found_without_openssh(file: Path, name: str) -> Iterator[KnownKey]:
    import paramiko

    keys = paramiko.HostKeys()
    try:
        keys.load(str(file))
    except (OSError, ValueError, paramiko.hostkeys.InvalidHostKey):
        return
    for key_type, key in (keys.lookup(name) or {}).items():
        yield KnownKey(str(file), key_type, key.asbytes(), False)
