"""The log of a service: one JSON object a line."""

import json
import math
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

_REFUSED_SECONDS = 1.0
_REFUSED_MAX = 1_000


class ServiceLog:
    """A log of one JSON object a line, to stderr by default; equal refusals are a line a second, with their number."""

    def __init__(self, write: Callable[[str], object] = sys.stderr.write) -> None:
        self._write = write
        self._refused: dict[str, tuple[float, int]] = {}

    def __call__(self, event: str, **details: object) -> None:
        """Write an event with its time and details."""
        if event == "refused":
            key, now = json.dumps(details, default=str, sort_keys=True), time.monotonic()
            at, untold = self._refused.get(key, (-math.inf, 0))
            if now - at < _REFUSED_SECONDS:
                self._refused[key] = at, untold + 1
                return
            if len(self._refused) >= _REFUSED_MAX:
                self._refused.clear()
            self._refused[key] = now, 0
            details |= {"times": untold + 1} if untold else {}
        line = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **details}
        with suppress(OSError, ValueError):
            self._write(f"{json.dumps(line, default=str)}\n")
