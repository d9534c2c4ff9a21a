"""The part of a long board that somebody has seen so far, and the lines that it is shown in."""

from collections.abc import Iterator
from dataclasses import dataclass

from hpc_board.domain.standing import Mark, Page, Standing


@dataclass(frozen=True)
class BoardRows:
    """Rows of a board without a gap from the place `start` on, of `total`; the first place is 0."""

    start: int = 0
    rows: tuple[Standing, ...] = ()
    total: int = 0

    @property
    def end(self) -> int:
        """The place behind the last row."""
        return self.start + len(self.rows)

    @property
    def is_whole(self) -> bool:
        """Whether there is nothing behind the last row."""
        return self.end >= self.total

    def with_page(self, page: Page) -> "BoardRows":
        """These rows with those of `page` in the place of what it covers.

        Where the board has changed so that they do not fit together any more, only the page is known.
        """
        end = page.offset + len(page.rows)
        alone = BoardRows(page.offset if page.rows else 0, page.rows, page.total)
        if page.total != self.total or not page.rows or page.offset > self.end or end < self.start:
            return alone
        before = self.rows[: max(0, page.offset - self.start)]
        after = self.rows[max(0, end - self.start) :]
        if before and page.offset < self.end and self.rows[page.offset - self.start].run != page.rows[0].run:
            return alone
        if after and end > self.start and self.rows[end - 1 - self.start].run != page.rows[-1].run:
            after = ()
        joined = (*before, *page.rows, *after)
        if len({row.run for row in joined}) < len(joined):
            return alone
        return BoardRows(min(self.start, page.offset), joined, page.total)


def lines(rows: BoardRows, marks: tuple[Mark, ...]) -> Iterator[tuple[int, Standing | Mark]]:
    """The rows with their places, and the marks between them where they belong by their times.

    A mark has the place of the row behind it. One that belongs to a part of the board that is not there is left out.
    """
    left = [mark for mark in marks if not rows.start or (rows.rows and mark.score_s >= rows.rows[0].score_s)]
    for place, row in enumerate(rows.rows, start=rows.start):
        while left and left[0].score_s < row.score_s:
            yield place, left.pop(0)
        yield place, row
    if rows.is_whole:
        for mark in left:
            yield rows.end, mark
