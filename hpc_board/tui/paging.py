"""The paging of every list: pages are asked for by key, and joined to the window that is known so far."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

T = TypeVar("T")

_WALK = 500
"""The page size of a walk to the end of a list that can be read from its first item on only."""


class Span(msgspec.Struct, frozen=True):
    """A page to read, of at most `limit` items.

    It holds the items behind the key `after`, the last ones before the key `before`, the last ones of the list
    (`at_end`), or else the first ones.
    """

    limit: int = 0
    after: Any = None
    before: Any = None
    at_end: bool = False


class Part(msgspec.Struct, Generic[T], frozen=True):
    """The page that was read for a span.

    `above` and `below` tell whether the list goes on there, `total` is its length where that is known, `about` any
    further value that was read with the page.
    """

    span: Span
    items: tuple[T, ...]
    above: bool
    below: bool
    total: int | None = None
    about: Any = None


Page = Callable[[Span], Part[T]]
"""Reads one page of a list; called in a thread."""


def part_of(span: Span, items: Sequence[T], *, total: int | None = None, about: Any = None) -> Part[T]:
    """Return the part that `items` are, of a list that goes on wherever a page was full."""
    full = len(items) >= span.limit
    backwards = span.at_end or span.before is not None
    above = full if backwards else span.after is not None
    below = span.before is not None or (full and not span.at_end)
    return Part(span, tuple(items), above, below, total, about)


def forward(read: Callable[[Any, int], Sequence[T]], key: Callable[[T], Any]) -> Page[T]:
    """Return the page function of a list that can be read from its first item on only.

    `read` returns the items behind a key, or the first ones for None; `key` is the key of an item. The end of such a
    list is reached by reading all of it.
    """

    def page(span: Span) -> Part[T]:
        if not span.at_end:
            return part_of(span, read(span.after, span.limit))
        items: list[T] = []
        while True:
            more = read(key(items[-1]) if items else None, _WALK)
            items += more
            if len(more) < _WALK:
                return Part(span, tuple(items), above=False, below=False)

    return page


def whole(items: Sequence[T]) -> Part[T]:
    """Return a list that is read in one go."""
    return Part(Span(len(items) + 1), tuple(items), above=False, below=False, total=len(items))


class Order(msgspec.Struct, Generic[T], frozen=True):
    """The order of a list: by `key`, the least first, or the greatest if `descending`; no two keys are equal.

    Keys that are places in the list, counted from 0, shift as items come and go: `identity` tells the items apart then.
    """

    key: Callable[[T], Any]
    descending: bool = False
    identity: Callable[[T], Hashable] | None = None

    def behind(self, key: Any, other: Any) -> bool:
        """Return whether `key` comes later in the list than `other`."""
        return bool(key < other if self.descending else key > other)


class Window(msgspec.Struct, Generic[T], frozen=True):
    """The items of a list that are known, without a gap; `begin` is the first page of an empty window.

    `above` and `below` tell whether the list goes on there, `total` is its length where that is known.
    """

    order: Order[T]
    begin: Span = msgspec.field(default_factory=Span)
    items: tuple[T, ...] = ()
    above: bool = False
    below: bool = True
    total: int | None = None

    def spans(self, first: int, rows: int) -> list[Span]:
        """Return the pages to read where `rows` items are in sight from the one with index `first` on.

        They are the items in sight and as many below them. With them go the items above them that are about to come
        into sight, or the first ones of a list that new items come in at the top of.
        """
        if not self.items:
            return [replace(self.begin, limit=max(self.begin.limit, 2 * rows))]
        first = min(first, len(self.items) - 1)
        spans = []
        if self.above and first < rows:
            spans.append(Span(rows, before=self.order.key(self.items[0])))
        elif first > 0 and not self.above and self.order.identity is None:
            spans.append(Span(rows))
        if first > 0:
            spans.append(Span(2 * rows, after=self.order.key(self.items[first - 1])))
        elif not self.above:
            spans.append(Span(2 * rows))
        return spans

    def place_of(self, index: int) -> int | None:
        """Return the place in the list, from 0 on, of the item with this index; None where it is unknown."""
        if not self.above:
            return index
        return int(self.order.key(self.items[index])) if self.order.identity is not None else None

    def lacks(self, first: int, rows: int) -> bool:
        """Return whether unknown items are about to come into sight."""
        lacks_below = self.below and len(self.items) - first < 2 * rows
        lacks_above = self.above and first < max(1, rows // 2)
        return bool(self.items) and (lacks_below or lacks_above)

    def with_part(self, part: Part[T]) -> "Window[T]":
        """Return this window with the items of `part` in the place of those that it covers.

        Items are forgotten where an unknown number of others may lie between them and the part.
        """
        return self._by_key(part) if self.order.identity is None else self._by_place(part, self.order.identity)

    def _by_key(self, part: Part[T]) -> "Window[T]":
        key, after = self.order.key, part.span.after
        if after is not None and not self._covers(after):
            return self
        head = () if after is None else tuple(item for item in self.items if not self.order.behind(key(item), after))
        tail: tuple[T, ...] = ()
        if part.below:
            last = key(part.items[-1]) if part.items else None
            tail = tuple(item for item in self.items if last is None or self.order.behind(key(item), last))
            anchored = after is not None or part.span.before is not None
            # A first page that holds no known item may be followed by any number of unknown ones.
            if not anchored and len(tail) == len(self.items):
                tail = ()
        return self._joined(head, part, tail)

    def _by_place(self, part: Part[T], identity: Callable[[T], Hashable]) -> "Window[T]":
        key, known = self.order.key, self.items
        if not known or not part.items or part.total != self.total:
            return self._joined((), part, ())
        start, first = key(known[0]), key(part.items[0])
        end, stop = start + len(known), first + len(part.items)
        if first > end or stop < start:
            return self._joined((), part, ())
        head, tail = known[: max(0, first - start)], known[max(0, stop - start) :]
        if head and first < end and identity(known[first - start]) != identity(part.items[0]):
            head, tail = (), ()
        if tail and stop > start and identity(known[stop - 1 - start]) != identity(part.items[-1]):
            tail = ()
        joined = (*head, *part.items, *tail)
        if len(set(map(identity, joined))) < len(joined):
            head, tail = (), ()
        return self._joined(head, part, tail)

    def _joined(self, head: tuple[T, ...], part: Part[T], tail: tuple[T, ...]) -> "Window[T]":
        return replace(
            self,
            begin=Span(),
            items=(*head, *part.items, *tail),
            above=self.above if head else part.above,
            below=self.below if tail else part.below,
            total=self.total if part.total is None else part.total,
        )

    def _covers(self, key: Any) -> bool:
        if not self.items:
            return False
        first, last = self.order.key(self.items[0]), self.order.key(self.items[-1])
        return not self.order.behind(first, key) and not self.order.behind(key, last)
