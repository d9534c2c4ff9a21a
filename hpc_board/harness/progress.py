"""The progress file: the current step of an evaluation, for the login side, and for the result of a dead supervisor."""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

PROGRESS = "progress.jsonl"
WINDOWS = "windows.jsonl"
"""The windows of a run on a GPU, a line each: raw material of the times in its result."""


def now_text() -> str:
    """Return the time of day in the format of the files."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def append_line(path: Path, value: Mapping[str, object]) -> None:
    """Append a line of JSON to a file.

    A line that cannot be written must not cost the result, which reports a full disk, and has space made for it.
    """
    with suppress(OSError), path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(value) + "\n")


@dataclass(frozen=True)
class Step:
    """The current step of an evaluation: a phase and, in most phases, one `case` (from 1) of `of`."""

    phase: str
    case: int | None
    of: int | None
    message: str

    def words(self) -> str:
        """Return text that dates an event by this step."""
        return f"while {self.phase} case {self.case} of {self.of} ran ({self.message})"


class Progress:
    """The steps of one evaluation; the latest is kept."""

    def __init__(self, folder: Path) -> None:
        self.step: Step | None = None
        self._path = folder / PROGRESS
        self._began = self._step_began = time.monotonic()

    def say(self, phase: str, case: int | None, of: int | None, message: str, **more: object) -> None:
        """Begin a step, and write its line."""
        self.step, self._step_began = Step(phase, case, of, message), time.monotonic()
        append_line(self._path, {"at": now_text(), "phase": phase, "case": case, "of": of, "message": message, **more})

    def where(self) -> str:
        """Return the evaluation's time so far, and its current step."""
        now = time.monotonic()
        text = f"after {now - self._began:.1f} s"
        if self.step is None:
            return text
        if self.step.case is None:
            return f"{text}, at {self.step.phase}: {self.step.message}"
        return f"{text}, {self.step.words()} for {now - self._step_began:.1f} s"


@dataclass(frozen=True)
class Past:
    """The progress file's record of a dead supervisor: the last case that began, and facts from its start.

    `isolation` is the level of the submission, "" if it did not run.
    """

    last: Step | None = None
    oom_kills: int = 0
    scratch: Path | None = None
    isolation: str = ""


def past(folder: Path) -> Past:
    """Return the record of this job folder's supervisor, even if it is empty."""
    with suppress(OSError, ValueError, KeyError, IndexError, TypeError):
        lines = [json.loads(line) for line in (folder / PROGRESS).read_text(encoding="utf-8").splitlines()]
        # A job that was suspended may have been evaluated again.
        start = [line for line in lines if line["phase"] == "start"][-1]
        scratch = Path(start["scratch"]) if "scratch" in start else None
        return Past(_case_of(lines[-1]), int(start["oom_kills"]), scratch, str(lines[-1].get("isolation", "")))
    return Past()


def _case_of(line: Any) -> Step | None:
    if line["phase"] in ("test", "benchmark") and isinstance(line["case"], int):
        return Step(line["phase"], line["case"], line["of"], line["message"])
    return None
