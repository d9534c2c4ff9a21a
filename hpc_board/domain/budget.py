"""Budgets: the runs and the GPU-seconds that a client lets an entrant or an account spend within a period."""

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec

from hpc_board.domain.moderation import GPU_SECONDS_MAX, LIMIT_MAX, GpuLimit, Period
from hpc_board.errors import InputError
from hpc_board.model.text import one_line

BUDGET_VARIABLE = "HPC_BOARD_BUDGET"
"""The environment variable with the budget of a user's submissions."""


class Budget(msgspec.Struct, frozen=True):
    """The most runs and GPU-seconds within a period, which ends now; None for no limit."""

    runs: Annotated[int, msgspec.Meta(ge=0, le=LIMIT_MAX)] | None = None
    gpu_seconds: Annotated[int, msgspec.Meta(ge=0, le=GPU_SECONDS_MAX)] | None = None
    per: Period = Period.DAY

    @property
    def gpu_limit(self) -> GpuLimit:
        """Return its limit on GPU time."""
        return GpuLimit(self.gpu_seconds, self.per)

    @property
    def text(self) -> str:
        """Return the budget as words of `budget_of`."""
        runs = "" if self.runs is None else str(self.runs)
        seconds = "" if self.gpu_seconds is None else f"{self.gpu_seconds}s"
        return f"{','.join(filter(None, (runs, seconds)))}/{self.per}"


class BudgetLeft(msgspec.Struct, frozen=True):
    """The runs and the GPU-seconds that a budget has left; None without a limit.

    Runs in flight count with their time limits.
    """

    runs: int | None
    gpu_seconds: float | None


def budget_of(words: str) -> Budget:
    """Return the budget in words: "50/day" runs, "3600s/week" GPU-seconds, or "50,3600s/day" for both.

    Raises:
        InputError: it is none, or out of range.
    """
    pattern = rf"(?:(\d{{1,9}})(?:,(?=\d+s)|(?=/|$)))?(?:(\d{{1,9}})s)?(?:/({'|'.join(Period)}))?"
    found = re.fullmatch(pattern, words.strip().lower(), re.ASCII)
    runs, seconds, per = found.groups() if found else (None, None, None)
    if (runs is None and seconds is None) or int(runs or 0) > LIMIT_MAX:
        raise InputError(
            f'invalid budget "{one_line(words, 80)}".',
            hint=f"Use 50/day for runs (at most {LIMIT_MAX:,}), 3600s/day for GPU-seconds, or 50,3600s/day for both; "
            f"periods are {', '.join(Period)}.",
        )
    return Budget(None if runs is None else int(runs), None if seconds is None else int(seconds), Period(per or "day"))


def default_budget(environ: Mapping[str, str]) -> Budget | None:
    """Return the budget of submissions for which the user names none; None for no budget.

    Raises:
        InputError: it is none, or out of range.
    """
    words = environ.get(BUDGET_VARIABLE, "")
    return budget_of(words) if words else None


def left_text(budget: Budget, left: BudgetLeft, author: str = "") -> str:
    """Return the rest of a budget in words: "ada/agent-b: 37 of 50 runs left per day"; without an author, the rest."""
    parts = []
    if left.runs is not None:
        parts.append(f"{left.runs:,} of {budget.runs:,} runs")
    if left.gpu_seconds is not None:
        parts.append(f"{left.gpu_seconds:,.0f} of {budget.gpu_seconds:,} GPU-seconds")
    whose = f"{one_line(author)}: " if author else ""
    return f"{whose}{' and '.join(parts)} left {budget.per.per}"
