"""Remarks: notes and tags that people put on their submissions after these were sent."""

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING

from hpc_board.domain.moderation import NOTE, NOTES_MAX, TAG, TAGS_MAX, UNTAG
from hpc_board.errors import InputError
from hpc_board.store.rows import plain_text, time_text

if TYPE_CHECKING:
    from sqlite_utils import Database


def add_note(db: "Database", submission: int, text: str, by_user: str, at: datetime) -> None:
    """Append a note.

    Raises:
        InputError: the submission has as many as it may have.
    """
    if db.table("remarks").count_where("submission = ? AND action = ?", [submission, NOTE]) >= NOTES_MAX:
        raise InputError(
            f"submission {submission} has {NOTES_MAX} notes, and may not have more.",
            hint="Notes are never changed; put it on another submission.",
        )
    _append(db, submission, NOTE, text, by_user, at)


def tags(db: "Database", submission: int) -> tuple[str, ...]:
    """The tags of a submission, in the order in which it got them."""
    found: dict[str, None] = {}
    wanted = "submission = ? AND action IN (?, ?)"
    for row in db.table("remarks").rows_where(wanted, [submission, TAG, UNTAG], order_by="id"):
        if row["action"] == TAG:
            found[row["text"]] = None
        else:
            found.pop(row["text"], None)
    return tuple(found)


def change_tags(
    db: "Database", submission: int, add: Collection[str], remove: Collection[str], by_user: str, at: datetime
) -> tuple[str, ...]:
    """Give a submission tags and take others from it; those that it has then. What changes nothing is not stored.

    Raises:
        InputError: these are too many, or it has not one that is to be taken from it.
    """
    present = tags(db, submission)
    strangers = [tag for tag in remove if tag not in present]
    if strangers:
        raise InputError(
            f"submission {submission} has no tag {', '.join(strangers)}.",
            hint=f"It has {', '.join(present)}." if present else "It has none.",
        )
    kept = [tag for tag in present if tag not in remove]
    new = [tag for tag in dict.fromkeys(add) if tag not in kept]
    if len(kept) + len(new) > TAGS_MAX:
        raise InputError(
            f"submission {submission} would have {len(kept) + len(new)} tags, more than {TAGS_MAX}.",
            hint="Take some from it with --remove first.",
        )
    for action, words in ((UNTAG, remove), (TAG, new)):
        for word in words:
            _append(db, submission, action, word, by_user, at)
    return (*kept, *new)


def _append(db: "Database", submission: int, action: str, text: str, by_user: str, at: datetime) -> None:
    row = {"submission": submission, "action": action, "text": plain_text(text), "by_user": plain_text(by_user)}
    db.table("remarks").insert({**row, "at": time_text(at)})
