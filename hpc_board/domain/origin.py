"""The origin of submissions: an entrant of the user's account, such as an agent, with tags and a parent."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from hpc_board.errors import InputError, Refused
from hpc_board.model.names import NAME, NAME_WORDS
from hpc_board.model.text import one_line

ENTRANTS_MAX = 100
"""The maximum number of entrants of an account: each may have a row of standings."""

TAGS_MAX = 20
TAG_CHARACTERS_MAX = 100

ENTRANT_VARIABLE = "HPC_BOARD_AS"
"""The environment variable with the default entrant of a user's submissions."""


class By(StrEnum):
    """The unit of statistics and ranks: an account, or each of its entrants."""

    ACCOUNT = "account"
    ENTRANT = "entrant"

    @property
    def noun(self) -> str:
        """Return its name in a sentence about users."""
        return "user" if self is By.ACCOUNT else "entrant"


Tags = tuple[tuple[str, str], ...]
"""Tags by key, each with its value."""


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """The entrant of a user's account who made a submission, its tags, and the submission that it continues.

    The entrant is empty for a submission of the account itself.
    """

    entrant: str = ""
    tags: Tags = ()
    parent: int | None = None


NO_ORIGIN = Origin()


def default_origin(environ: Mapping[str, str]) -> Origin:
    """Return the origin of submissions for which the user names none."""
    return Origin(environ.get(ENTRANT_VARIABLE, ""))


def common_entrant(origins: Iterable[Origin]) -> str:
    """Return the entrant of all these origins; empty for the account if they have several."""
    found = {each.entrant for each in origins}
    return found.pop() if len(found) == 1 else ""


def author_text(user: str, entrant: str) -> str:
    """Return the name under which a submission is shown: "ada", or "ada/agent-b"."""
    return f"{user}/{entrant}" if entrant else user


def author_of(words: str) -> tuple[str, str | None]:
    """Return the user and the entrant in a text of `author_text`; the entrant is None without one."""
    user, slash, entrant = words.partition("/")
    return user, entrant if slash else None


def entrant_of(words: str, user: str) -> str:
    """Return the name of the user's entrant in `words`, "agent-b" or "ada/agent-b".

    Raises:
        InputError: it is no name.
        Refused: it is an entrant of another user.
    """
    owner, slash, name = words.rpartition("/")
    if slash and owner != user:
        raise Refused(
            f'the entrant "{one_line(words, 80)}" is not one of {user}.', hint=f"Use a name without {one_line(owner)}/."
        )
    if not re.fullmatch(NAME, name):
        raise InputError(f'invalid entrant "{one_line(words, 80)}".', hint=f"Use {NAME_WORDS}.")
    return name


def tags_of(words: Iterable[str]) -> Tags:
    """Return the tags in words such as "model=small", by key.

    Raises:
        InputError: a word is no tag, a key is given twice, or there are too many.
    """
    found: dict[str, str] = {}
    for word in words:
        key, sign, value = (part.strip() for part in word.partition("="))
        is_value = 0 < len(value) <= TAG_CHARACTERS_MAX and value.isprintable()
        if not (sign and re.fullmatch(NAME, key) and is_value):
            raise InputError(
                f'invalid tag "{one_line(word, 80)}".',
                hint=f"Use KEY=VALUE: KEY is {NAME_WORDS}, VALUE has at most {TAG_CHARACTERS_MAX} characters.",
            )
        if key in found:
            raise InputError(f'the tag "{key}" is given twice.', hint="Give each key one value.")
        found[key] = value
    if len(found) > TAGS_MAX:
        raise InputError(f"too many tags: {len(found)} (limit {TAGS_MAX}).", hint="Omit some.")
    return tuple(sorted(found.items()))


def tag_words(tags: Tags) -> list[str]:
    """Return tags as words of `tags_of`."""
    return [f"{key}={value}" for key, value in tags]
