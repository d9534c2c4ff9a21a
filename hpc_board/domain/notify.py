"""The command of the settings that is notified of events."""

from typing import Literal, get_args

import msgspec

NoticeKind = Literal["records", "deadlines", "doctor"]

NOTICE_KINDS: tuple[NoticeKind, ...] = get_args(NoticeKind)


class Notify(msgspec.Struct, frozen=True):
    """A command with its arguments, and the kinds of events of which it is notified."""

    command: tuple[str, ...]
    on: tuple[NoticeKind, ...]
