"""Paging of all lists: pages are read by key and joined to the window of known items."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

T = TypeVar("T")

_WALK = 500
"""The page size for reading to the end of a list."""

_WALKED_MAX = 5000
"""The length of a list that is read as a whole to show its end, if its last items can be read alone."""


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


def part_of(span: Span, items: Sequence[T]) -> Part[T]:
    """Return the part with `items`; a full page means that the list goes on."""
    full = len(items) >= span.limit
    backwards = span.at_end or span.before is not None
    above = full if backwards else span.after is not None
    below = span.before is not None or (full and not span.at_end)
    return Part(span, tuple(items), above, below)


def paged(read: Callable[[Span], Sequence[T]], key: Callable[[T], Any], *, backwards: bool = False) -> Page[T]:
    """Return the page function of a list whose items `read` returns; `key` returns the key of an item.

    To show the end of the list, all of it is read, since its length is known then. A long list that can also be read
    `backwards` is read from its end instead.
    """

    def page(span: Span) -> Part[T]:
        if not span.at_end:
            return part_of(span, read(span))
        items: list[T] = []
        while not backwards or len(items) < _WALKED_MAX:
            more = read(Span(_WALK, after=key(items[-1]) if items else None))
            items += more
            if len(more) < _WALK:
                return Part(span, tuple(items), above=False, below=False)
        return part_of(span, read(span))

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

    def span(self, first: int, rows: int) -> Span:
        """Return the page to read if `rows` items from index `first` on are in sight: these, and as many below.

        Near the top, it has the items above instead, as far as they are unknown, or else begins with the first item,
        before which new ones appear.
        """
        if not self.items:
            return replace(self.begin, limit=max(self.begin.limit, 2 * rows))
        first = min(first, len(self.items) - 1)
        if first >= rows:
            return Span(2 * rows, after=self.order.key(self.items[first - 1]))
        if self.above:
            return Span(2 * rows, before=self.order.key(self.items[min(first + rows, len(self.items) - 1)]))
        return Span(first + 2 * rows)

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
        order, span, known = self.order, part.span, self.items
        if span.after is not None and known and not self._covers(span.after):
            return self
        head = [item for item in known if span.after is not None and not order.behind(order.key(item), span.after)]
        tail: list[T] = []
        if span.before is not None:
            tail = [item for item in known if not order.behind(span.before, order.key(item))]
        elif part.below and part.items:
            tail = [item for item in known if order.behind(order.key(item), order.key(part.items[-1]))]
            # Unknown items may follow a first page without any known item.
            if span.after is None and len(tail) == len(known):
                tail = []
        # An item whose key has changed since is where the part has it.
        identity = order.identity or order.key
        moved = set(map(identity, part.items))
        head, tail = ([item for item in items if identity(item) not in moved] for items in (head, tail))
        items = (*head, *part.items, *tail)
        if order.by_place and items and (part.total != self.total or not self._follow_one_another(items)):
            head, items, tail = [], part.items, []
        return replace(
            self,
            begin=Span(),
            items=items,
            above=self.above if head else part.above,
            below=self.below if tail else part.below,
            total=self.total if part.total is None else part.total,
        )

    def _covers(self, key: Any) -> bool:
        first, last = self.order.key(self.items[0]), self.order.key(self.items[-1])
        return not self.order.behind(first, key) and not self.order.behind(key, last)

    def _follow_one_another(self, items: Sequence[T]) -> bool:
        """Return whether items by place have no gap between them."""
        return bool(self.order.key(items[-1]) - self.order.key(items[0]) == len(items) - 1)
