"""The progress file: what an evaluation is at, for whoever watches, and for the result where its supervisor is gone."""

import errno
import json
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

PROGRESS = "progress.jsonl"


def now_text() -> str:
    """The time of day, as it stands in files."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class Step:
    """What an evaluation is at: a phase and, in most of them, one `case` (from 1) `of` so many."""

    phase: str
    case: int | None
    of: int | None
    message: str

    def words(self) -> str:
        """When something happened that happened in this step."""
        return f"while {self.phase} case {self.case} of {self.of} ran ({self.message})"


class Progress:
    """The steps of one evaluation, of which the latest is remembered."""

    def __init__(self, folder: Path) -> None:
        self.step: Step | None = None
        self._path = folder / PROGRESS
        self._began = self._step_began = time.monotonic()

    def say(self, phase: str, case: int | None, of: int | None, message: str, **more: object) -> None:
        """Begin a step, and write a line that says so."""
        self.step, self._step_began = Step(phase, case, of, message), time.monotonic()
        line = {"at": now_text(), "phase": phase, "case": case, "of": of, "message": message, **more}
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            # Whoever has filled the disk is told of by the result, for which room is made.
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise

    def where(self) -> str:
        """How long the evaluation has taken until now, and the step that it is in."""
        now = time.monotonic()
        text = f"after {now - self._began:.1f} s"
        if self.step is None:
            return text
        if self.step.case is None:
            return f"{text}, at {self.step.phase}: {self.step.message}"
        return f"{text}, {self.step.words()} for {now - self._step_began:.1f} s"


@dataclass(frozen=True)
class Past:
    """What the progress file says of a supervisor that is gone: the last case that was begun, and its beginnings.

    `isolation` is the level that the submission ran at, "" where it did not run.
    """

    last: Step | None = None
    oom_kills: int = 0
    scratch: Path | None = None
    isolation: str = ""


def past(folder: Path) -> Past:
    """What is known of the supervisor of this job folder, which is as little as nothing."""
    known = Past()
    with suppress(OSError, ValueError, KeyError, IndexError, TypeError):
        lines = [json.loads(line) for line in (folder / PROGRESS).read_text(encoding="utf-8").splitlines()]
        scratch = Path(lines[0]["scratch"]) if "scratch" in lines[0] else None
        known = Past(None, int(lines[0]["oom_kills"]), scratch)
        known = Past(_case_of(lines[-1]), known.oom_kills, known.scratch, str(lines[-1].get("isolation", "")))
    return known


def _case_of(line: Any) -> Step | None:
    if line["phase"] in ("test", "benchmark") and isinstance(line["case"], int):
        return Step(line["phase"], line["case"], line["of"], line["message"])
    return None
