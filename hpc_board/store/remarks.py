"""Notes that users put on their submissions after these were sent."""

from datetime import datetime
from typing import TYPE_CHECKING

from hpc_board.domain.moderation import NOTE, NOTES_MAX
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
    row = {"submission": submission, "action": NOTE, "text": plain_text(text), "by_user": plain_text(by_user)}
    db.table("remarks").insert({**row, "at": time_text(at)})
