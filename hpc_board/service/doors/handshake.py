"""The handshake over TCP, by which munge tells the service who asks, and both ends get a key that no other has.

The service sends a line with a nonce. The client answers with a credential that the service's uid alone can decode, and
that holds this nonce and a new key. The service says that it accepts, and all that follows is in `frames`.
"""

import base64
import secrets
from typing import Annotated

import msgspec

from hpc_board.service.doors import frames

PROTOCOL = 1
"""The number of this handshake."""

GREETING_BYTES_MAX = 256
"""The maximum length of the service's first line."""

CREDENTIAL_BYTES_MAX = 4096
"""The maximum length of the client's line; a credential with a payload of this protocol has some 400 bytes."""

CREDENTIAL_BYTES_MIN = 256
"""The minimum length of the client's line; a shorter one has no room for a payload of this protocol."""

ACCEPTED = b"accepted"
REFUSED = b"refused "

UNFIT = "unfit"
"""The reason for a credential that belongs to another connection, or was made for something else."""

UNAVAILABLE = "unavailable"
"""The reason when the service's own munge does not answer."""

BUSY = "busy"
"""The reason when too many clients are here whose account is not known yet; the next try may succeed."""

_GREETING = b"hpc-board munge "
_BEFORE, _BEHIND = b"MUNGE:", b":"


class Payload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The payload of a credential: it is for the connection with this nonce, and `key` is the secret of its frames."""

    protocol: int
    nonce: str
    key: Annotated[bytes, msgspec.Meta(min_length=frames.KEY_BYTES, max_length=frames.KEY_BYTES)]


def new_nonce() -> str:
    """Return a nonce that was never used."""
    return secrets.token_hex(32)


def greeting(nonce: str) -> bytes:
    """Return the service's first line."""
    return _GREETING + f"{PROTOCOL} {nonce}\n".encode()


def parsed_greeting(line: bytes) -> tuple[int, str]:
    """Return the protocol and the nonce of a service's first line.

    Raises:
        ValueError: it is no such line.
    """
    if not line.startswith(_GREETING):
        raise ValueError("no greeting")
    protocol, nonce = line.removeprefix(_GREETING).decode("ascii").split(" ", 1)
    return int(protocol), nonce


def is_credential(line: bytes) -> bool:
    """Return whether a client's line has the form and the length of a credential, which costs no call of munge."""
    if not CREDENTIAL_BYTES_MIN <= len(line) <= CREDENTIAL_BYTES_MAX:
        return False
    if not line.startswith(_BEFORE) or not line.endswith(_BEHIND):
        return False
    try:
        base64.b64decode(line.removeprefix(_BEFORE).removesuffix(_BEHIND), validate=True)
    except ValueError:
        return False
    return True


def new_payload(nonce: str) -> Payload:
    """Return the payload of a credential for the connection with this nonce."""
    return Payload(PROTOCOL, nonce, secrets.token_bytes(frames.KEY_BYTES))


def frame_keys(payload: Payload) -> tuple[bytes, bytes]:
    """Return the keys of the frames to the service and to the client."""
    return frames.keys(payload.key, payload.nonce.encode(), f"hpc-board munge {PROTOCOL}".encode())
