"""The part of a long ordered list that somebody has seen so far."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Span(Generic[T]):
    """What is to be read: at most `limit` items behind `after`, or from the first one on where that is None."""

    after: T | None
    limit: int


@dataclass(frozen=True)
class Part(Generic[T]):
    """What was read for a span."""

    span: Span[T]
    items: tuple[T, ...]

    @property
    def is_last(self) -> bool:
        """Whether nothing comes behind these items."""
        return len(self.items) < self.span.limit


@dataclass(frozen=True)
class Listing(Generic[T]):
    """Items without a gap from the first on; `is_whole` says that nothing comes behind them.

    `order` gives what they are sorted by, the first one having the least; no two are the same in it.
    """

    order: Callable[[T], Any]
    items: tuple[T, ...] = ()
    is_whole: bool = False

    def spans(self, first: int, rows: int) -> list[Span[T]]:
        """What to read where `rows` are in sight from the place `first` on: those and as many below them.

        Of the first items a few are read too where they are not in sight.
        """
        first = min(first, len(self.items) - 1)
        if first <= 0:
            return [Span(None, 2 * rows)]
        return [Span(None, rows), Span(self.items[first - 1], 2 * rows)]

    def reaches(self, place: int) -> bool:
        """Whether all items before this place are here, as far as there are any."""
        return self.is_whole or len(self.items) >= place

    def with_part(self, part: Part[T]) -> "Listing[T]":
        """These items with those of `part` in the place of what it covers.

        Later items are forgotten where nobody knows what lies between them and a part of the first ones; a part behind
        an item that is forgotten is left out for the same reason.
        """
        after, order = part.span.after, self.order
        if after is not None and all(order(item) != order(after) for item in self.items):
            return self
        before = () if after is None else tuple(item for item in self.items if order(item) <= order(after))
        if part.is_last:
            return replace(self, items=(*before, *part.items), is_whole=True)
        last = order(part.items[-1])
        touches = after is not None or any(order(item) <= last for item in self.items)
        later = tuple(item for item in self.items if order(item) > last) if touches else ()
        is_whole = self.is_whole and touches and bool(later)
        return replace(self, items=(*before, *part.items, *later), is_whole=is_whole)
