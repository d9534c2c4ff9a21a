"""The bounds of runners, as the settings have them."""

import msgspec

from hpc_board.domain.clock import span_option
from hpc_board.errors import InputError

HOLD_SECONDS = 1800
"""The time for which a GPU is held by default, if the settings permit as much."""

LEAST_HOLD_MINUTES = 5
"""The least time for which a GPU is held: a runner takes no runs in its last minutes."""


class HoldTimes(msgspec.Struct, frozen=True):
    """The times after which a runner ends: all in all, and without a run."""

    seconds: int
    idle_seconds: int


class RunnerRules(msgspec.Struct, frozen=True):
    """The bounds of the settings: a user's runners at one time, their time, and their time without a run.

    `auto` is the number of runners that the board itself starts at most for a GPU while runs wait.
    """

    per_user: int = 1
    minutes: int = 60
    idle_minutes: int = 5
    auto: int = 0

    def times(self, seconds: int | None, idle_seconds: int | None) -> HoldTimes:
        """Return the times of a runner: those given, or by default HOLD_SECONDS and the longest time without a run.

        Raises:
            InputError: one is out of its bounds.
        """
        chosen = min(HOLD_SECONDS, 60 * self.minutes) if seconds is None else seconds
        idle = min(60 * self.idle_minutes, chosen) if idle_seconds is None else idle_seconds
        for given, least, key, words in (
            (chosen, 60 * LEAST_HOLD_MINUTES, "minutes", ""),
            (idle, 1, "idle_minutes", " without a run"),
        ):
            minutes = getattr(self, key)
            if not least <= given <= 60 * minutes:
                told, low, high = (span_option(each) for each in (given, least, 60 * minutes))
                raise InputError(
                    f"a GPU cannot be held for {told}{words}: choose {low} to {high}.",
                    hint=f"`runners.{key}` in the board's settings is {minutes}.",
                )
        return HoldTimes(chosen, idle)
