"""Pauses between tries: of questions, scans, connections and helpers."""

from typing import Annotated

import msgspec

Moment = Annotated[float, msgspec.Meta(ge=0, le=4_102_444_800)]
"""A time in seconds of any clock; since 1970 in a file, where one after the year 2100 is damage."""


class Pause(msgspec.Struct, frozen=True):
    """A pause of `seconds` after a try at the time `at`; without values, there was no try."""

    at: Moment = 0.0
    seconds: float = 0.0

    def is_over(self, now: float) -> bool:
        """Return whether the pause is over; a clock that was set back does not prolong it."""
        return not 0 <= now - self.at < self.seconds

    def longer(self, now: float, shortest: float, longest: float) -> "Pause":
        """Return the pause after another try in vain: twice as long as this one, within the bounds."""
        return Pause(now, min(max(2 * self.seconds, shortest), longest))
