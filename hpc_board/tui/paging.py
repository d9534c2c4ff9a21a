"""Paging of all lists: pages are read by index and joined to the window of known items."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

T = TypeVar("T")

_WALK = 500
"""The page size for reading to the end of a list of unknown length."""


class Span(msgspec.Struct, frozen=True):
    """A page to read, of at most `limit` items: those from the index `offset` on, or the last ones (`at_end`)."""

    limit: int = 0
    offset: int = 0
    at_end: bool = False


class Part(msgspec.Struct, Generic[T], frozen=True):
    """The page read: the items from the index `offset` on.

    `below` tells whether the list has further items there. `total` is its length, if known; `about` is an additional
    value read with the page.
    """

    offset: int
    items: tuple[T, ...]
    below: bool = False
    total: int | None = None
    about: Any = None


Page = Callable[[Span], Part[T]]
"""A function that reads a page of a list, called in a thread."""


def paged(read: Callable[[int, int], Sequence[T]], count: Callable[[], int] | None = None) -> Page[T]:
    """Return the page function of a list of which `read` returns the items of an offset and a limit.

    `count` returns its length, for its end; without it, all of the list is read to show that.
    """

    def page(span: Span) -> Part[T]:
        if not span.at_end:
            items = tuple(read(span.offset, span.limit))
            return Part(span.offset, items, below=len(items) >= span.limit)
        if count is not None:
            offset = max(0, count() - span.limit)
            return Part(offset, tuple(read(offset, span.limit)))
        known: list[T] = []
        while len(more := read(len(known), _WALK)) == _WALK:
            known += more
        return Part(0, (*known, *more))

    return page


def whole(items: Sequence[T]) -> Part[T]:
    """Return the part that is a whole list."""
    return Part(0, tuple(items), total=len(items))


class Window(msgspec.Struct, Generic[T], frozen=True):
    """The known, contiguous items of a list, each with its own `key`; the first one has the index `offset` in the list.

    `begin` is the first page to read of an empty window. `below` tells whether the list has further items there;
    `total` is its length, if known.
    """

    key: Callable[[T], Hashable]
    begin: Span = msgspec.field(default_factory=Span)
    offset: int = 0
    items: tuple[T, ...] = ()
    below: bool = True
    total: int | None = None

    def span(self, first: int, rows: int) -> Span:
        """Return the page to read if `rows` items from index `first` on are in sight: these, and as many below.

        Near the top, it begins as many items above: with those that are unknown, or with the first item, before which
        new ones appear.
        """
        if not self.items:
            return replace(self.begin, limit=max(self.begin.limit, 2 * rows))
        first = min(first, len(self.items) - 1)
        place = self.offset + first
        offset = place if first >= rows else max(0, place - rows)
        return Span(place + 2 * rows - offset, offset)

    def lacks(self, first: int, rows: int) -> bool:
        """Return whether unknown items are close to those in sight, as are those of a window without a page."""
        lacks_below = self.below and len(self.items) - first < 2 * rows
        lacks_above = self.offset > 0 and first < max(1, rows // 2)
        return lacks_below or lacks_above

    def with_part(self, part: Part[T]) -> "Window[T]":
        """Return this window with the items that `part` covers replaced by those of `part`.

        The known items before and after it stay only if its first or last item is where it was: others may have come
        or gone between them.
        """
        key, known, keys = self.key, self.items, [*map(self.key, part.items)]
        first, behind = part.offset - self.offset, part.offset - self.offset + len(keys)
        head = known[:first] if keys and 0 < first < len(known) and key(known[first]) == keys[0] else ()
        tail = known[behind:] if part.below and 0 < behind <= len(known) and key(known[behind - 1]) == keys[-1] else ()
        # An item that has moved since is where the part has it.
        if not set(keys).isdisjoint(map(key, (*head, *tail))):
            head = tail = ()
        items = (*head, *part.items, *tail)
        return replace(
            self,
            begin=Span(),
            offset=part.offset - len(head) if items else 0,
            items=items,
            below=self.below if tail else part.below,
            total=self.total if part.total is None else part.total,
        )
