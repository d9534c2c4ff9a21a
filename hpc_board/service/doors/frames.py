"""Frames that are encrypted and authenticated: no byte can be read, changed, repeated, reordered or cut unnoticed.

A frame is its length and a text under ChaCha20-Poly1305 (RFC 8439). Each direction has a key of its own, and the number
of the frame is the nonce. The last frame says that it is the last.
"""

import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hpc_board.service.doors import Forged

KEY_BYTES = 32
"""The length of a key."""

TEXT_BYTES_MAX = 64 * 1024
"""The maximum length of a frame's text."""

_HEADER = struct.Struct(">I")
_TAG_BYTES = 16
_MORE, _LAST = b"\0", b"\1"


def keys(shared: bytes, salt: bytes, purpose: bytes) -> tuple[bytes, bytes]:
    """Return the keys of both directions, to the service and to the client, that follow from a shared secret."""
    derived = HKDF(SHA256(), 2 * KEY_BYTES, salt, purpose).derive(shared)
    return derived[:KEY_BYTES], derived[KEY_BYTES:]


class Sealing:
    """The sending end of a direction."""

    def __init__(self, key: bytes) -> None:
        self._cipher = ChaCha20Poly1305(key)
        self._number = 0

    def sealed(self, data: bytes) -> bytes:
        """Return the frames for `data`."""
        view = memoryview(data)
        starts = range(0, len(data), TEXT_BYTES_MAX)
        return b"".join(self._frame(_MORE + view[start : start + TEXT_BYTES_MAX]) for start in starts)

    def end(self) -> bytes:
        """Return the last frame, which has no data."""
        return self._frame(_LAST)

    def _frame(self, text: bytes) -> bytes:
        header = _HEADER.pack(len(text) + _TAG_BYTES)
        frame = header + self._cipher.encrypt(_nonce(self._number), text, header)
        self._number += 1
        return frame


class Opening:
    """The receiving end of a direction; `ended` says that the last frame has come, `begun` that the first one has."""

    def __init__(self, key: bytes) -> None:
        self._cipher = ChaCha20Poly1305(key)
        self._number = 0
        self._pending = bytearray()
        self.ended = False

    @property
    def begun(self) -> bool:
        """Return whether the other end has shown that it has the key."""
        return self._number > 0

    def opened(self, data: bytes) -> bytes:
        """Take received bytes, and return the data of all frames that they complete.

        Raises:
            Forged: they are not the next bytes of the other end.
        """
        self.take(data)
        return b"".join(iter(self.next, None))

    def take(self, data: bytes) -> None:
        """Take received bytes, for `next`."""
        self._pending += data

    def next(self) -> bytes | None:
        """Return the data of the next frame, or None if it is not there whole; only the last frame has none.

        Raises:
            Forged: the other end has not sent it next.
        """
        if self.ended and self._pending:
            raise Forged("bytes follow the last frame")
        if len(self._pending) < _HEADER.size:
            return None
        header = bytes(self._pending[: _HEADER.size])
        (size,) = _HEADER.unpack(header)
        if not _TAG_BYTES < size <= 1 + TEXT_BYTES_MAX + _TAG_BYTES:
            raise Forged("a frame has a length that no frame has")
        end = _HEADER.size + size
        if len(self._pending) < end:
            return None
        text = self._text(header, bytes(self._pending[_HEADER.size : end]))
        del self._pending[:end]
        return text

    def _text(self, header: bytes, sealed: bytes) -> bytes:
        try:
            text = self._cipher.decrypt(_nonce(self._number), sealed, header)
        except InvalidTag as error:
            raise Forged("a frame is not the next one that was sent") from error
        self._number += 1
        self.ended = text[:1] == _LAST
        # It would cost work, and no limit of bytes would count it.
        if len(text) == 1 and not self.ended:
            raise Forged("a frame that is not the last has no data")
        return text[1:]


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")
