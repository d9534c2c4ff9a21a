"""The columns and cells of the lists of standings."""

from collections.abc import Iterable
from enum import StrEnum

from rich.cells import cell_len
from rich.text import Text

from hpc_board.domain.run import Run
from hpc_board.domain.standing import Mark, Standing
from hpc_board.model.task import ISOLATED
from hpc_board.model.text import one_line
from hpc_board.report.formatting import score_text
from hpc_board.report.standings import Line
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.widgets.grid import Column


class Layout(StrEnum):
    """A layout of the list: wide or narrow, with or without intervals."""

    WIDE = "wide"
    NARROW = "narrow"
    WIDE_WITH_INTERVALS = "wide with intervals"
    NARROW_WITH_INTERVALS = "narrow with intervals"


_RANK = Column("rank", "Rank", 5, right=True)
_USER = Column("user", "User", 10, grows=True, most=26)
_SCORE = Column("score", "Score", 8, right=True)
_SPEEDUP = Column("speedup", "Speedup", 7, right=True)
_INTERVAL = Column("interval", "Interval", 18)
_AGE = Column("age", "Age", 6, right=True)
_BRIEF_TRUST = Column("brief trust", "Trust", 8)

_COLUMNS = {
    Layout.WIDE: (
        _RANK,
        _USER,
        _SCORE,
        _SPEEDUP,
        Column("file", "File", 12, from_width=70, most=32),
        _AGE,
        Column("submitted", "Submitted", 16, from_width=108),
        Column("run", "Run", 6, right=True, from_width=86),
        Column("trust", "Trust", 8, most=18),
    ),
    Layout.NARROW: (
        _RANK,
        _USER,
        _SCORE,
        _SPEEDUP,
        Column("file", "File", 9, grows=True, from_width=62),
        Column("age", "Age", 6, right=True, from_width=50),
        _BRIEF_TRUST,
    ),
    Layout.WIDE_WITH_INTERVALS: (
        _RANK,
        _USER,
        _SCORE,
        _INTERVAL,
        _SPEEDUP,
        Column("file", "File", 12, from_width=96, most=32),
        _AGE,
        Column("submitted", "Submitted", 16, from_width=120),
        Column("run", "Run", 6, right=True, from_width=104),
        _BRIEF_TRUST,
    ),
    Layout.NARROW_WITH_INTERVALS: (
        _RANK,
        _USER,
        _SCORE,
        _INTERVAL,
        Column("age", "Age", 6, right=True, from_width=62),
        _BRIEF_TRUST,
    ),
}


def columns(layout: Layout, lines: Iterable[Line] | None = None) -> tuple[Column, ...]:
    """Return the columns of a layout, without intervals and speedups where none of the given lines has one."""
    found = _COLUMNS[layout]
    if lines is not None:
        lines = list(lines)
        empty = {name for name in ("interval", "speedup") if not any(getattr(line, name) for line in lines)}
        found = tuple(column for column in found if column.key not in empty)
    return found


def cells(line: Line) -> dict[str, Text]:
    """Return the cells of a line by column, for all layouts."""
    row = line.row
    match row:
        case Run():
            tone = warning = caution = Tone.BAD
        case Mark():
            tone, warning, caution = Tone.GOOD, Tone.WAITING, Tone.MUTED
        case Standing(emulated=emulated):
            tone = Tone.OWN if line.is_own else Tone.PLAIN
            warning = caution = Tone.WAITING if emulated else Tone.MUTED
    return {
        "rank": toned(line.rank, tone),
        "user": toned(line.user("counts"), tone),
        "score": toned(score_text(row.score_s), tone),
        "interval": toned(line.interval, Tone.MUTED if isinstance(row, Standing) else Tone.PLAIN),
        "speedup": toned(line.speedup, tone),
        "file": toned(row.file_name, Tone.MUTED),
        "age": toned(line.age, Tone.MUTED),
        "submitted": toned(line.date, Tone.MUTED),
        "run": toned(line.run, Tone.MUTED),
        "trust": toned(line.trust("own eval"), caution),
        "brief trust": toned(_brief_trust(row), warning),
    }


def name_cells(line: Line) -> int:
    """Return the width of a line's name."""
    return cell_len(line.user("counts"))


def _brief_trust(row: Standing | Mark | Run) -> str:
    match row:
        case Run():
            return "removed"
        case Standing() | Mark() if row.emulated:
            return "emulated"
        case Standing(harness=harness, trust=trust):
            return one_line(trust) if harness == ISOLATED else "own eval"
    return ""
