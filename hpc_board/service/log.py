"""The log of a service: one JSON object a line, in which no client has room for lines without end."""

import json
import math
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

_REFUSED_SECONDS = 1.0
_REFUSED_MAX = 1_000
_REFUSED_OF_PEER = 10


class ServiceLog:
    """A log to stderr by default. Equal refusals are a line a second, with their number.

    A peer, which may word a refusal differently each time, has a few lines a second together.
    """

    def __init__(self, write: Callable[[str], object] = sys.stderr.write) -> None:
        self._write = write
        self._refused: dict[str, tuple[float, int]] = {}
        self._peers: dict[object, tuple[float, int, int]] = {}
        self._lock = threading.Lock()

    def __call__(self, event: str, **details: object) -> None:
        """Write an event with its time and details."""
        if event == "refused":
            with self._lock:
                more = self._more(details)
            if more is None:
                return
            details |= more
        line = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **details}
        with suppress(OSError, ValueError):
            self._write(f"{json.dumps(line, default=str)}\n")

    def _more(self, details: dict[str, object]) -> dict[str, object] | None:
        """Return the numbers of untold refusals before this one; None if this one is untold, too."""
        key, now = json.dumps(details, default=str, sort_keys=True), time.monotonic()
        at, untold = self._refused.get(key, (-math.inf, 0))
        if now - at < _REFUSED_SECONDS:
            self._refused[key] = at, untold + 1
            return None
        peer = details.get("uid", details.get("address"))
        begun, told, others = self._peers.get(peer, (-math.inf, 0, 0))
        if now - begun >= _REFUSED_SECONDS:
            begun, told = now, 0
        if told >= _REFUSED_OF_PEER:
            self._peers[peer] = begun, told, others + 1
            return None
        for kept in (self._refused, self._peers):
            if len(kept) >= _REFUSED_MAX:
                kept.clear()
        self._peers[peer] = begun, told + 1, 0
        self._refused[key] = now, 0
        return {**({"times": untold + 1} if untold else {}), **({"others_untold": others} if others else {})}
