"""The bounds of runners, as the settings have them."""

import msgspec


class RunnerRules(msgspec.Struct, frozen=True):
    """The bounds of the settings: a user's runners at one time, their time, and their time without a run.

    `auto` is the number of runners that the board itself starts at most for a GPU while runs wait.
    """

    per_user: int = 1
    minutes: int = 60
    idle_minutes: int = 5
    auto: int = 0
