"""The part of a long list of runs that somebody has seen so far."""

from dataclasses import dataclass

from hpc_board.model.run import Run


@dataclass(frozen=True)
class Page:
    """At most `limit` runs, newest first: the newest of those older than `before`, or of all where that is None."""

    before: int | None
    limit: int
    runs: tuple[Run, ...]

    @property
    def is_last(self) -> bool:
        """Whether there are no older runs."""
        return len(self.runs) < self.limit


@dataclass(frozen=True)
class RunPages:
    """Runs without a gap from the newest on, newest first; `is_whole` says that there are no older ones."""

    runs: tuple[Run, ...] = ()
    is_whole: bool = False

    def with_page(self, page: Page) -> "RunPages":
        """These runs with those of `page` in the place of what it covers.

        Older runs are forgotten where nobody knows what lies between them and a page of the newest; a page of runs
        older than one that is forgotten is left out for the same reason.
        """
        if page.before is not None and all(run.id != page.before for run in self.runs):
            return self
        oldest = 0 if page.is_last else page.runs[-1].id
        newer = tuple(run for run in self.runs if page.before is not None and run.id >= page.before)
        older = tuple(run for run in self.runs if run.id < oldest)
        touches = page.before is not None or any(run.id >= oldest for run in self.runs)
        if not touches:
            older = ()
        return RunPages((*newer, *page.runs, *older), page.is_last or (self.is_whole and touches and bool(older)))
