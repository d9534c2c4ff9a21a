"""The bounds of the pages' readers."""

import msgspec


class PageBounds(msgspec.Struct, frozen=True):
    """The bounds of readers.

    - `request_seconds` is the time for a whole request, from the connection or from the last answer on.
    - `write_seconds` is the time for a piece of a stream to leave.
    - `beat_seconds` is the longest silence of a stream, and `stream_seconds` its life; browsers connect again.
    - `connections` may be open, and `viewers` of them be streams; half of each, those of TCP peers together.
    - `per_user` and `per_address` may be open of one peer.
    """

    request_seconds: float = 15.0
    write_seconds: float = 30.0
    beat_seconds: float = 15.0
    stream_seconds: float = 600.0
    connections: int = 1_000
    viewers: int = 500
    per_user: int = 64
    per_address: int = 256
