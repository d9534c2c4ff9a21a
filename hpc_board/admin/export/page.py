"""The standings as one page for a browser: one file that asks for nothing, with everything from outside escaped."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import IO

from hpc_board import __version__
from hpc_board.admin.export.chart import chart, records
from hpc_board.admin.export.json_file import moment
from hpc_board.boards.pages import page
from hpc_board.domain.run import Run
from hpc_board.domain.standing import Mark, MarkKind, Page, Rows, Standing
from hpc_board.model.score import duration_text, wide_interval_text
from hpc_board.model.task import ISOLATED, Ranking, Task
from hpc_board.model.text import one_line
from hpc_board.report.formatting import count_text
from hpc_board.report.standings import OVERLAPS_MEANING, rank_text, speedup_text
from hpc_board.report.tables import first_sentence
from hpc_board.store import Store
from hpc_board.store.export import Best, RankedBoard

ROWS_MAX = 100
"""How many places of a board the page shows."""

_SAID_MAX = 500
"""How much of a note the page shows."""

_HERE = Path(__file__).parent

_CODE = re.compile("`([^`]+)`")
"""What descriptions, which are Markdown, have as code."""

_RANKED_BY = {
    Ranking.LAST: "Ranked by the last benchmark.",
    Ranking.MEAN: "Ranked by the mean of the benchmarks.",
    Ranking.GEOM: "Ranked by the geometric mean of the benchmarks.",
}

_HEAD = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>Leaderboards</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<header>
<h1>Leaderboards</h1>
<p class="quiet">{counts}, as of <time datetime="{at}">{at_text}</time></p>
</header>
"""

_TABLE_HEAD = (
    '<thead><tr><th scope="col" class="number">Rank</th><th scope="col" class="user">User</th>'
    '<th scope="col" class="number">Time</th><th scope="col" class="number ratio">&times; best</th>'
    '<th scope="col" class="when" data-kind="number">Submitted</th><th scope="col" class="number run">Run</th>'
    "</tr></thead>"
)


@dataclass(frozen=True)
class _Section:
    """A task on the page with its boards; `task` is None of one that has left the settings."""

    name: str
    task: Task | None
    boards: Sequence[RankedBoard]


def write(sink: IO[bytes], store: Store, tasks: Mapping[str, Task], ranked: Sequence[RankedBoard], at: datetime) -> int:
    """Write the page of the `ranked` boards, and return how many are on it: those of the tasks' present versions.

    Raises:
        StorageError: the database cannot be read.
    """
    sections = _sections(ranked, tasks)
    boards = sum(len(section.boards) for section in sections)
    sink.write(_beginning(sections, boards, at).encode())
    for number, section in enumerate(sections, start=1):
        for part in _section_parts(number, section, store, at):
            sink.write(part.encode())
    sink.write(_end(bool(sections)).encode())
    return boards


def _sections(keys: Sequence[RankedBoard], tasks: Mapping[str, Task]) -> list[_Section]:
    """The boards by their task: of its present version, or of the newest one where it has left the settings."""
    sections = []
    for name, of_task in groupby(keys, key=lambda key: key.task):
        boards = list(of_task)
        task = tasks.get(name)
        version = boards[-1].task_version if task is None else task.version
        sections.append(_Section(name, task, [board for board in boards if board.task_version == version]))
    return sections


def _beginning(sections: Sequence[_Section], boards: int, at: datetime) -> str:
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    counts = f"{count_text(len(sections), 'task')}, {count_text(boards, 'board')}"
    head = _HEAD.format(
        policy=escape(policy),
        style=style,
        counts=counts,
        at=moment(at),
        at_text=f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
    )
    if len(sections) < 2:
        return f"{head}<main>\n"
    links = "".join(
        f'<li><a href="#task-{number}">{_text(section.name)}</a></li>' for number, section in enumerate(sections, 1)
    )
    return f'{head}<nav aria-label="Tasks"><ul>{links}</ul></nav>\n<main>\n'


def _end(somebody: bool) -> str:
    nobody = "" if somebody else "<p>Nobody is on a board yet.</p>\n"
    return (
        f"{nobody}</main>\n<footer>Each user's best passing ranked run; a smaller time is better. Dates are UTC. "
        f"Written by hpc-board {escape(__version__)}.</footer>\n"
        f"<script>{_asset('page.js')}</script>\n</body>\n</html>\n"
    )


def _section_parts(number: int, section: _Section, store: Store, at: datetime) -> Iterator[str]:
    yield f'<section class="task" aria-labelledby="task-{number}">\n<h2 id="task-{number}">{_text(section.name)}</h2>\n'
    for line in _about(section.task, at):
        yield f'<p class="quiet">{line}</p>\n'
    if not section.boards:
        yield "<p>Nobody is on its board yet since the task has changed.</p>\n"
    for key in section.boards:
        shown = section.task or store.task(key.task, key.task_version)
        found = page(store, shown, shown, key.gpu, "", rows=Rows.USERS, limit=ROWS_MAX, offset=0)
        if found.rows:
            said = store.runs_numbered([row.run for row in found.rows])
            yield _board(shown, found, said, store.bests_by_day(key.task, key.task_version, key.gpu), at)
    yield "</section>\n"


def _about(task: Task | None, at: datetime) -> Iterator[str]:
    """Paragraphs of HTML below the task's name."""
    if task is None:
        yield "This task takes no more submissions."
        return
    description = one_line(first_sentence(task.description), 500)
    if description:
        yield _CODE.sub(r"<code>\1</code>", escape(description))
    yield _RANKED_BY[task.ranking_by]
    if task.deadline is not None:
        over = " (over)" if task.deadline <= at else ""
        yield f"Deadline: {task.deadline.astimezone(UTC):%Y-%m-%d %H:%M} UTC{over}"


def _board(task: Task, found: Page, said: Mapping[int, Run], days: Sequence[Best], at: datetime) -> str:
    drawn = chart(records(days), at.astimezone(UTC).date())
    figure = f"<figure><figcaption>Best time by day</figcaption>{drawn}</figure>\n" if drawn else ""
    more = found.total - len(found.rows)
    after = f'<p class="quiet">and {count_text(more, "more user")}</p>' if more > 0 else ""
    if any(row.overlaps_above for row in found.rows):
        after += f'<p class="quiet">{OVERLAPS_MEANING}</p>'
    caption = f"<caption>{_text(task.name)} on {_text(found.gpu)}, by rank</caption>"
    return (
        f'<article class="board">\n'
        f'<div class="title"><h3>{_text(found.gpu)}</h3><p class="quiet">{_facts(task, found)}</p></div>\n{figure}'
        f"<div><table>{caption}{_TABLE_HEAD}<tbody>\n{''.join(_lines(found, said))}</tbody></table>{after}</div>\n"
        "</article>\n"
    )


def _facts(task: Task, found: Page) -> str:
    """What is said of a board beside its name."""
    best_s = found.rows[0].score_s
    speedup = found.speedup(best_s)
    return ", ".join(
        filter(
            None,
            (
                count_text(found.total, "user"),
                f"best {duration_text(best_s * 1e9)}",
                f"{speedup_text(speedup)} as fast as the reference" if speedup else "",
                "" if task.harness == ISOLATED else "judged by the task's own harness",
            ),
        )
    )


def _lines(found: Page, said: Mapping[int, Run] = MappingProxyType({})) -> Iterator[str]:
    """The rows of a board, with what stands beside the ranks where it belongs by its time.

    `said` are the runs in the rows, which have what was remarked on them.
    """
    best_s = found.rows[0].score_s
    marks = list(found.marks)
    for index, row in enumerate(found.rows):
        while marks and marks[0].score_s < row.score_s:
            yield _mark(marks.pop(0), index, best_s)
        yield _row(row, said.get(row.run), best_s)
    if len(found.rows) == found.total:
        for mark in marks:
            yield _mark(mark, found.total, best_s)


def _row(row: Standing, run: Run | None, best_s: float) -> str:
    again = run.remarks.rerun if run else None
    notes = (
        "verified" if row.trust == "verified" else "",
        "emulated" if row.emulated else "",
        f"sent again by {one_line(again.by_user)}" if again else "",
    )
    kind = ' class="first"' if row.rank == 1 else ""
    rank = f'<td class="number" data-value="{row.rank}">{rank_text(row)}</td>'
    return f"<tr{kind}>{rank}{_cells(row, row.user, notes, best_s, _said(run))}</tr>\n"


def _mark(mark: Mark, before: int, best_s: float) -> str:
    """A row without a rank, which follows as many others in the order of the ranks as stand `before` it."""
    notes = ("" if mark.kind is MarkKind.REFERENCE else str(mark.kind), "emulated" if mark.emulated else "")
    rank = f'<td class="number" data-value="{before}.5"></td>'
    return f'<tr class="beside">{rank}{_cells(mark, mark.name, notes, best_s)}</tr>\n'


def _said(run: Run | None) -> str:
    """Join everything that the user of a run remarked on it."""
    if run is None:
        return ""
    words = [run.note, *(note.text for note in run.remarks.notes)]
    return "; ".join(filter(None, (one_line(each, _SAID_MAX) for each in words)))


def _cells(row: Standing | Mark, name: str, notes: Sequence[str], best_s: float, said: str = "") -> str:
    """All cells of a row but that of its rank."""
    at = row.submitted_at.astimezone(UTC)
    noted = "".join(f' <span class="note">{escape(text)}</span>' for text in notes if text)
    file = f'<span class="file">{_text(row.file_name)}</span>' if row.file_name else ""
    file += f'<span class="file">{escape(said)}</span>' if said else ""
    ratio = row.score_s / best_s
    told = "" if isinstance(row, Mark) else wide_interval_text(row.score_s, row.interval)
    interval = f'<span class="interval">{told}</span>' if told else ""
    return (
        f'<td class="user" data-value="{_text(name)}">{_text(name)}{noted}{file}</td>'
        f'<td class="number time" data-value="{row.score_s!r}">{duration_text(row.score_s * 1e9)}{interval}</td>'
        f'<td class="number ratio" data-value="{ratio!r}">{ratio:.2f}</td>'
        f'<td class="when" data-value="{at.timestamp()!r}"><time datetime="{moment(at)}">{at:%Y-%m-%d}'
        f'<span class="clock"> {at:%H:%M}</span></time></td>'
        f'<td class="number run" data-value="{row.run}">{row.run}</td>'
    )


def _text(text: str) -> str:
    """A text from outside as HTML, for between tags and for within quotes."""
    return escape(one_line(text))


def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """What the page's policy calls a style or a script that it contains."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
