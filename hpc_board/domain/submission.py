"""Submissions: one file by one user for one task, and the directives in the file's header."""

import re
from collections.abc import Sequence
from datetime import datetime

import msgspec

from hpc_board.domain.job_options import NO_OPTIONS, OPTION_NAMES, VALUE_NAMES, JobOptions, fault, of_values
from hpc_board.domain.origin import NO_ORIGIN, Origin, tags_of
from hpc_board.errors import InputError
from hpc_board.model.task import Language, Mode

SOURCE_BYTES_MAX = 1_000_000
HEADER_LINES_MAX = 10_000
NOTE_CHARACTERS_MAX = 500
EXTENSIONS = tuple(ending for language in Language for ending in language.extensions)
MARKERS = ("!POPCORN", "!HPCBOARD")


class Submission(msgspec.Struct, frozen=True):
    """One file by one user for one task, as it was sent; `milestone` is its name where an author shows it so."""

    id: int
    task: str
    task_version: str
    user: str
    file_name: str
    code_sha256: str
    mode: Mode
    submitted_at: datetime
    note: str = ""
    milestone: str = ""
    entrant: str = ""


def unknown_submission(number: int) -> InputError:
    """Return the error for a submission that does not exist, or is hidden from the user."""
    hint = "`hpc-board runs` lists your runs, `hpc-board run ID` shows the submission of one."
    return InputError(f"there is no submission {number}", hint=hint)


class Directives(msgspec.Struct, frozen=True):
    """The directives in the leading comment lines of a submission; an entrant is as it was written."""

    leaderboard: str | None = None
    gpus: tuple[str, ...] = ()
    options: JobOptions = NO_OPTIONS
    origin: Origin = NO_ORIGIN


class DirectiveError(ValueError):
    """A header line that starts like a directive and is not one."""


def directives(source: str) -> Directives:
    """Parse the `#!POPCORN` and `#!HPCBOARD` directives in the leading comment lines of `source`.

    The first line that starts with neither `#` nor `//` ends the header, as in KernelBot.

    Raises:
        DirectiveError: a directive is unknown, lacks its argument, or is given twice; or the header has no end.
    """
    found: dict[str, tuple[str, ...]] = {}
    extras: list[str] = []
    tags: list[str] = []
    for number, line in enumerate(source.splitlines(), start=1):
        match = re.match(r"(?:#|//)(.*)", line)
        if match is None:
            break
        if number > HEADER_LINES_MAX:
            raise DirectiveError(f"too many comment lines before the code (limit {HEADER_LINES_MAX:,})")
        words = match[1].split()
        if not words or words[0] not in MARKERS or match[1][0].isspace():
            continue
        place = f"line {number}: {line.strip()[:200]}"
        keyword, values = _directive(words, place)
        if keyword == "sbatch":
            extras.append(values[0])
            continue
        if keyword == "tag":
            tags += values
            continue
        several = keyword != "gpus" and len(values) > 1
        if keyword in found or several:
            raise DirectiveError(f"found multiple values for {words[0]} directive {words[1].lower()} ({place})")
        found[keyword] = values
    options = of_values({name: found[name][0] for name in VALUE_NAMES if name in found}, extras)
    try:
        origin = Origin(found.get("as", ("",))[0], tags_of(tags))
    except InputError as error:
        raise DirectiveError(error.message.rstrip(".")) from error
    return Directives(found.get("leaderboard", (None,))[0], found.get("gpus", ()), options, origin)


def _directive(words: Sequence[str], place: str) -> tuple[str, tuple[str, ...]]:
    """Return the keyword and the values of a directive; those of `gpu` as of `gpus`.

    Raises:
        DirectiveError: it is unknown or lacks its argument, or an option has an invalid value.
    """
    if len(words) == 1:
        raise DirectiveError(f"{words[0]} directive missing its keyword ({place})")
    keyword, values = words[1].lower(), tuple(words[2:])
    if keyword not in ("leaderboard", "gpu", "gpus", "as", "tag", *OPTION_NAMES):
        raise DirectiveError(f"invalid {words[0]} directive: {words[1]} ({place})")
    if not values:
        raise DirectiveError(f"{words[0]} directive missing argument ({place})")
    if keyword in OPTION_NAMES:
        value = " ".join(values)
        if wrong := fault(keyword, value):
            raise DirectiveError(f"{wrong} ({place})")
        return keyword, (value,)
    return "gpus" if keyword == "gpu" else keyword, values
