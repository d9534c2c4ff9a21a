"""Paging of all lists: pages are read by key and joined to the window of known items."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

T = TypeVar("T")

_WALK = 500
"""The page size for reading to the end of a list that can only be read forwards."""


class Span(msgspec.Struct, frozen=True):
    """A page to read, of at most `limit` items.

    Its items are the first ones after the key `after`, the last ones before the key `before`, the last ones of the
    list (`at_end`), or else the first ones of the list.
    """

    limit: int = 0
    after: Any = None
    before: Any = None
    at_end: bool = False


class Part(msgspec.Struct, Generic[T], frozen=True):
    """The page read for a span.

    `above` and `below` tell whether the list has further items there. `total` is its length, if known; `about` is an
    additional value read with the page.
    """

    span: Span
    items: tuple[T, ...]
    above: bool
    below: bool
    total: int | None = None
    about: Any = None


Page = Callable[[Span], Part[T]]
"""A function that reads a page of a list, called in a thread."""


def part_of(span: Span, items: Sequence[T], *, total: int | None = None, about: Any = None) -> Part[T]:
    """Return the part with `items`; a full page means that the list goes on."""
    full = len(items) >= span.limit
    backwards = span.at_end or span.before is not None
    above = full if backwards else span.after is not None
    below = span.before is not None or (full and not span.at_end)
    return Part(span, tuple(items), above, below, total, about)


def forward(read: Callable[[Any, int], Sequence[T]], key: Callable[[T], Any]) -> Page[T]:
    """Return the page function of a list that can only be read forwards.

    `read` returns the items after a key, or the first ones for None; `key` returns the key of an item. To show the end
    of such a list, all of it is read.
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


def both_ways(read: Callable[..., Sequence[T]], key: Callable[[T], Any], *, walked_max: int = 10 * _WALK) -> Page[T]:
    """Return the page function of a list that can be read from either end.

    `read(limit, behind=, ahead=, from_end=)` returns the items behind a key, or the last ones ahead of one or of the
    list. A list of at most `walked_max` items is read as a whole to show its end, since its length is known then.
    """

    def page(span: Span) -> Part[T]:
        if span.before is not None:
            return part_of(span, read(span.limit, ahead=span.before))
        if not span.at_end:
            return part_of(span, read(span.limit, behind=span.after))
        items: list[T] = []
        while len(items) < walked_max:
            more = read(_WALK, behind=key(items[-1]) if items else None)
            items += more
            if len(more) < _WALK:
                return Part(span, tuple(items), above=False, below=False)
        return part_of(span, read(span.limit, from_end=True))

    return page


def whole(items: Sequence[T]) -> Part[T]:
    """Return the part that is a whole list."""
    return Part(Span(len(items) + 1), tuple(items), above=False, below=False, total=len(items))


class Order(msgspec.Struct, Generic[T], frozen=True):
    """The order of a list: by unique `key`, ascending unless `descending`.

    `identity` identifies the items of an order whose keys change: an item may then move in the list. With `by_place`
    the keys are indices from 0, which shift as items come and go.
    """

    key: Callable[[T], Any]
    descending: bool = False
    identity: Callable[[T], Hashable] | None = None
    by_place: bool = False

    def behind(self, key: Any, other: Any) -> bool:
        """Return whether `key` is after `other` in the list."""
        return bool(key < other if self.descending else key > other)


class Window(msgspec.Struct, Generic[T], frozen=True):
    """The known, contiguous items of a list; `begin` is the first page to read of an empty window.

    `above` and `below` tell whether the list has further items there; `total` is its length, if known.
    """

    order: Order[T]
    begin: Span = msgspec.field(default_factory=Span)
    items: tuple[T, ...] = ()
    above: bool = False
    below: bool = True
    total: int | None = None

    def spans(self, first: int, rows: int) -> list[Span]:
        """Return the pages to read if `rows` items from index `first` on are in sight.

        They cover the items in sight and as many below. They also cover the unknown items just above, or else the top
        of the list, where new items appear.
        """
        if not self.items:
            return [replace(self.begin, limit=max(self.begin.limit, 2 * rows))]
        first = min(first, len(self.items) - 1)
        spans = []
        if self.above and first < rows:
            spans.append(Span(rows, before=self.order.key(self.items[0])))
        elif first > 0 and not self.above and not self.order.by_place:
            spans.append(Span(rows))
        if first > 0:
            spans.append(Span(2 * rows, after=self.order.key(self.items[first - 1])))
        elif not self.above:
            spans.append(Span(2 * rows))
        return spans

    def place_of(self, index: int) -> int | None:
        """Return the position in the list, from 0, of the item with this index; None if unknown."""
        if not self.above:
            return index
        return int(self.order.key(self.items[index])) if self.order.by_place else None

    def lacks(self, first: int, rows: int) -> bool:
        """Return whether unknown items are close to those in sight."""
        lacks_below = self.below and len(self.items) - first < 2 * rows
        lacks_above = self.above and first < max(1, rows // 2)
        return bool(self.items) and (lacks_below or lacks_above)

    def with_part(self, part: Part[T]) -> "Window[T]":
        """Return this window with the items that `part` covers replaced by those of `part`.

        Known items are dropped if there may be unknown ones between them and the part.
        """
        if self.order.by_place and self.order.identity is not None:
            return self._by_place(part, self.order.identity)
        return self._by_key(part)

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
            # Unknown items may follow a first page without any known item.
            if not anchored and len(tail) == len(self.items):
                tail = ()
        if (identity := self.order.identity) is not None:
            # An item whose key has changed since is where the part has it.
            moved = set(map(identity, part.items))
            head, tail = (tuple(item for item in items if identity(item) not in moved) for items in (head, tail))
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
