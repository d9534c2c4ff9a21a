"""The columns and cells of a list of runs, from the table of columns of runs."""

from rich.text import Text

from hpc_board.domain.run_order import RunOrder, SortColumn
from hpc_board.report.run_columns import Emphasis, Line, RunList, all_listed, listed_columns
from hpc_board.tui.formatting import state
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.widgets.grid import Column, Sorting


def columns(in_list: RunList, *, sorts: bool = False) -> tuple[Column, ...]:
    """Return the columns of a list; those of an order sort it if it `sorts`."""
    return tuple(
        Column(
            column.key,
            listed.title or column.title,
            width.cells,
            column.right,
            width.grows,
            width.from_width,
            width.most,
            sorts=sorts and column.key in set(SortColumn),
            falls=column.key == SortColumn.RUN,
        )
        for column, listed, width in listed_columns(in_list)
    )


def run_order(sorting: Sorting) -> RunOrder:
    """Return the order of runs that a table shows."""
    by = SortColumn(sorting.key)
    return RunOrder(by, sorting.descending is not (by is SortColumn.RUN))


def cells(line: Line) -> dict[str, Text]:
    """Return the cells of a run by column, for all lists, whose columns may change."""
    return {
        column.key: toned((listed.text or column.text)(line), _tone(line, listed.emphasis))
        for column, listed in all_listed()
    }


def _tone(line: Line, emphasis: Emphasis) -> Tone:
    is_removed = line.run.remarks.removal is not None
    match emphasis:
        case Emphasis.PLAIN:
            return Tone.PLAIN
        case Emphasis.QUIET:
            return Tone.MUTED
        case Emphasis.STATE:
            return state(line.run)[1]
        case Emphasis.READER:
            return Tone.OWN if line.run.user == line.reader else Tone.PLAIN
        case Emphasis.REMOVABLE:
            return Tone.MUTED if is_removed else Tone.PLAIN
        case Emphasis.REMOVED:
            return Tone.BAD if is_removed else Tone.MUTED
