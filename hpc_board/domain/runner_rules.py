"""The bounds of runners, as the settings have them."""

from typing import Annotated

import msgspec

MINUTES_MAX = 7 * 24 * 60


class RunnerRules(msgspec.Struct, frozen=True):
    """The bounds of the settings: a user's runners at one time, their time, and their time without a run.

    `auto` is the number of runners that the board itself starts at most for a GPU while runs wait.
    """

    per_user: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    minutes: Annotated[int, msgspec.Meta(ge=1, le=MINUTES_MAX)] = 60
    idle_minutes: Annotated[int, msgspec.Meta(ge=1, le=MINUTES_MAX)] = 5
    auto: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
