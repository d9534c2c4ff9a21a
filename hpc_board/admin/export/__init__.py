"""Exports of a board: tables of its runs as CSV, JSON or Parquet, and its standings as a web page."""

import csv
import dataclasses
import hashlib
import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from io import TextIOWrapper
from itertools import chain, groupby
from typing import IO, Any

import msgspec
from msgspec.structs import replace

from hpc_board import __version__
from hpc_board.admin.export.columns import (
    COLUMNS,
    CodeColumns,
    Kind,
    OutputColumns,
    Row,
    Value,
    anonymous,
    case_cells,
    kinds_of,
    overall_cells,
    run_cells,
    sample_cells,
    task_cells,
)
from hpc_board.admin.export.traces import definition_of, traces
from hpc_board.boards.pages import page, with_terms
from hpc_board.domain.board_options import BoardOptions
from hpc_board.domain.export import FORMATS, HTML, JSON, JSONL, OVERALL, PARQUET, RUNS, SAMPLES, TABLES, TASKS, TRACES
from hpc_board.domain.grading import Overall
from hpc_board.domain.imported import Definition
from hpc_board.domain.reference import Reference, speedup_keys
from hpc_board.domain.standing import Page, Record, Rows, Standing
from hpc_board.errors import InputError
from hpc_board.model.result import Case
from hpc_board.model.task import Task
from hpc_board.model.text import one_line
from hpc_board.report.formatting import count_text
from hpc_board.report.views import view_of
from hpc_board.report.views.grading import OverallView
from hpc_board.store import Store
from hpc_board.store.export import RankedBoard, RunSelection
from hpc_board.web.rendering import asset, template
from hpc_board.web.standings import ROWS_MAX, TREND_MAX, BoardTable, OverallTable, Section, board_table, trend

_JSON_FORMAT = "hpc-board export 1"

_MARK = "'"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # noqa: RUF001 spreadsheets take the wide ones too
"""The first characters of cells that spreadsheets compute, and may send elsewhere."""

_PARQUET_ROWS = 5_000
_PARQUET_CHARACTERS = 8_000_000
"""The bounds of the rows that are in memory at once."""


_TRENDS_MAX = 10
"""The most users of a leaderboard whose scores are plotted."""

_PIECES = 500
"""The number of pieces of the page in one write."""


class _PageTask(msgspec.Struct, frozen=True):
    """A task on the page with its boards; `head` is None of one that has left the settings."""

    name: str
    head: Section | None
    boards: Iterable[BoardTable]


class Written(msgspec.Struct, frozen=True):
    """The result of an export: the numbers of rows of its table and of leaderboards with ranked users.

    `closed` is the number of closed boards with ranked users that a public page lacks.
    """

    rows: int
    boards: int
    closed: int = 0


class Export(msgspec.Struct, frozen=True):
    """A requested export: its table and its format.

    `tasks` are the existing ones, by their names; those that are `kept_back` are not on a public page, and the readers
    of the others have the restrictions that the `terms` of their leaderboards set. The table of tasks has `references`
    for admins alone. `competitions` has the overall standings in the export.
    """

    store: Store
    tasks: Mapping[str, Task]
    form: str
    chosen: RunSelection
    at: datetime
    what: str = RUNS
    with_code: bool = False
    with_output: bool = False
    is_anonymous: bool = False
    references: bool = False
    kept_back: frozenset[str] = frozenset()
    terms: Mapping[str, BoardOptions] = msgspec.field(default_factory=dict)
    competitions: Sequence[Overall] = ()

    def check(self) -> None:
        """Check that this export can be written.

        Raises:
            InputError: the form is unknown, cannot hold the selection, or needs a library that is not installed.
        """
        if self.form not in FORMATS:
            raise InputError(f"unknown format {self.form!r}", hint=f"Formats: {', '.join(FORMATS)}.")
        if self.what not in TABLES:
            raise InputError(f"unknown table {self.what!r}", hint=f"Tables: {', '.join(TABLES)}.")
        more = self.with_code or self.with_output
        whole = RunSelection(self.chosen.tasks, self.chosen.gpus)
        if self.form == HTML and (more or self.is_anonymous or self.what != RUNS or self.chosen != whole):
            raise InputError(
                "the format html has the standings of all users, and supports only --task and --gpu",
                hint="Omit the other options, or use the format csv, jsonl or parquet.",
            )
        if self.what == OVERALL and self.chosen != RunSelection(user=self.chosen.user):
            raise InputError(
                "the table overall has whole competitions, without --task, --gpu, --since and --ended-only",
                hint="Omit these options, and select rows by their column `competition`.",
            )
        if self.form == JSON and (self.is_anonymous or self.what != RUNS or self.chosen.user is not None):
            raise InputError(
                "the format json has all runs and the standings of all users",
                hint="Use the format csv, jsonl or parquet for anonymous exports, your own runs and other tables.",
            )
        if self.form == TRACES and (more or self.what != RUNS):
            raise InputError(
                "the format traces has an object for each case of a task that was imported from FlashInfer Trace",
                hint="Omit --what, --with-code and --with-output.",
            )
        if more and self.what != RUNS:
            raise InputError("--with-code and --with-output add columns to the table of runs", hint="Omit --what.")
        if self.form == PARQUET and find_spec("pyarrow") is None:
            raise InputError(
                "the format parquet requires pyarrow, which is not installed",
                hint="Install it where hpc-board is (pip install 'hpc-board[parquet]'), or use --format csv or json.",
            )

    def write(self, sink: IO[bytes]) -> Written:
        """Write everything to `sink`, in the order of the runs' numbers, with memory for some of them at a time.

        Raises:
            InputError: as `check` says.
            StorageError: the database cannot be read.
        """
        self.check()
        if self.form == HTML:
            return self._write_page(sink)
        if self.form == JSON:
            return self._write_json(sink)
        if self.form == TRACES:
            return Written(_write_lines(sink, self._traces(), end="\n"), 0)
        if self.form == JSONL:
            rows = ({name: _json_value(value) for name, value in row.items()} for row in self._rows())
            return Written(_write_lines(sink, rows, end="\n"), 0)
        write = self._write_parquet if self.form == PARQUET else self._write_csv
        return Written(write(sink), 0)

    @property
    def _columns(self) -> dict[str, Kind]:
        more = [CodeColumns] * self.with_code + [OutputColumns] * self.with_output
        return kinds_of(COLUMNS[self.what], *more)

    def _rows(self) -> Iterator[dict[str, Value]]:
        columns = self._columns
        for row in self._cells():
            yield {name: row.get(name) for name in columns}

    def _cells(self) -> Iterator[dict[str, Value]]:
        """Yield the cells of each row; those of columns that it has not are empty."""
        store = self.store.export
        if self.what == TASKS:
            for added_at, task in store.tasks(self.chosen):
                yield task_cells(task, added_at, whole=self.references)
            return
        if self.what == SAMPLES:
            for row in store.samples(self.chosen):
                yield from sample_cells(row)
            return
        names = store.pseudonyms() if self.is_anonymous else None
        if self.what == OVERALL:
            for overall in self.competitions:
                for each in overall.rows:
                    if self.chosen.user is None or each.user in overall.own:
                        name = each.user if names is None else names(each.user)
                        yield {**overall_cells(overall, each), "user": name}
            return
        for user, file_name, cells in self._of_users():
            yield cells if names is None else anonymous(cells, user, names(user), file_name)

    def _traces(self) -> Iterator[dict[str, Any]]:
        """Yield the traces of all runs with a verdict, of tasks with a definition."""
        store, known = self.store.export, dict[tuple[str, str], tuple[Task, Definition | None]]()
        names = store.pseudonyms() if self.is_anonymous else None
        judged = store.cases(self.chosen)
        following = next(judged, None)
        for row in store.runs(self.chosen, with_output=True):
            if following is None or following["run"] != row["run"]:
                continue
            key = row["task"], row["task_version"]
            if key not in known:
                task = self.store.submissions.task(*key)
                known = {key: (task, definition_of(task))}
            task, definition = known[key]
            if definition is not None:
                yield from traces(task, definition, row, self._cases(following, names))
            following = next(judged, None)

    def _cases(self, row: Row, names: Callable[[str], str] | None) -> Iterator[Case]:
        """Yield the cases of a run, whose messages are anonymous if there are `names` for users."""
        for case in row["cases"]:
            cells: dict[str, Value] = {"message": case.message}
            if names is not None:
                cells = anonymous(cells, row["user"], names(row["user"]), row["file_name"])
            yield dataclasses.replace(case, message=str(cells["message"]))

    def _of_users(self) -> Iterator[tuple[str, str, dict[str, Value]]]:
        """Yield the cells of each run, or of its cases, with its user and the name of its file."""
        store = self.store.export
        if self.what == RUNS:
            for row in store.runs(self.chosen, with_code=self.with_code, with_output=self.with_output):
                yield row["user"], row["file_name"], run_cells(row)
            return
        for row in store.cases(self.chosen):
            for case in row["cases"]:
                yield row["user"], row["file_name"], case_cells(row["run"], case)

    def _write_page(self, sink: IO[bytes]) -> Written:
        """Write the boards of present versions as one file for a browser: no external resource, all data escaped."""
        ranked = self.store.export.ranked_boards(self.chosen)
        lacking = len({board.task for board in ranked if board.task in self.kept_back})
        chosen = _present([board for board in ranked if board.task not in self.kept_back], self.tasks)
        count, style = sum(map(len, chosen.values())), asset("page.css")
        drawn = template("frozen.html").stream(
            policy=f"default-src 'none'; style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'",
            style=style,
            counts=f"{count_text(len(chosen), 'task')}, {count_text(count, 'board')}",
            at=self.at,
            names=[one_line(name) for name in chosen],
            competitions=[OverallTable.of(replace(each, rows=each.rows[:ROWS_MAX])) for each in self.competitions],
            # Each task is read while it is written, so that memory holds one board at a time.
            tasks=(self._page_task(name, boards) for name, boards in chosen.items()),
            version=__version__,
        )
        drawn.enable_buffering(_PIECES)
        drawn.dump(sink, encoding="utf-8")
        return Written(0, count, lacking)

    def _page_task(self, name: str, boards: Sequence[RankedBoard]) -> _PageTask:
        task = self.tasks.get(name)
        return _PageTask(one_line(name), None if task is None else Section.of(task), self._page_boards(task, boards))

    def _page_boards(self, task: Task | None, boards: Sequence[RankedBoard]) -> Iterator[BoardTable]:
        for board in boards:
            shown = task or self.store.submissions.task(board.task, board.task_version)
            found = page(self.store, shown, shown, board.gpu, "", rows=Rows.USERS, limit=ROWS_MAX, offset=0)
            if board.task in self.terms:
                found = with_terms(found, self.terms[board.task], self.at)
            if found.rows:
                said = self.store.runs.numbered([row.run for row in found.rows])
                records = self.store.standings.records(board.task, board.task_version, board.gpu)
                trends = [*self._trends(shown, found, records)]
                yield replace(board_table(shown, found, records, self.at, said), trends=trends)

    def _trends(self, task: Task, found: Page, records: Sequence[Record]) -> Iterator[tuple[str, str]]:
        """Yield the first users of a leaderboard with the plots of their scores."""
        for row in found.rows[:_TRENDS_MAX]:
            own = page(self.store, task, task, found.gpu, row.user, rows=Rows.NEWEST, limit=TREND_MAX, offset=0)
            if drawn := trend(own, records):
                yield one_line(row.user), drawn

    def _write_csv(self, sink: IO[bytes]) -> int:
        return write_csv(sink, chain([tuple(self._columns)], (tuple(row.values()) for row in self._rows())))

    def _write_json(self, sink: IO[bytes]) -> Written:
        """Write one object, with a line for each board and each run."""
        head = {
            "format": _JSON_FORMAT,
            "exported_at": _moment(self.at),
            "tasks": list(self.chosen.tasks),
            "gpus": list(self.chosen.gpus),
            "since": _json_value(self.chosen.since),
        }
        sink.write(_json(head).removesuffix("}").encode() + b',\n"boards": [')
        boards = _write_lines(sink, map(self._board, self.store.export.ranked_boards(self.chosen)))
        sink.write(b'],\n"competitions": [')
        _write_lines(sink, (msgspec.to_builtins(view_of(OverallView, each)) for each in self.competitions))
        sink.write(b'],\n"runs": [')
        rows = ({name: _json_value(value) for name, value in row.items()} for row in self._rows())
        runs = _write_lines(sink, rows)
        sink.write(b"]}\n")
        return Written(runs, boards)

    def _board(self, board: RankedBoard) -> dict[str, Any]:
        key = board.task, board.task_version, board.gpu
        reference = self.store.standings.reference(*key)
        return {
            "task": one_line(board.task),
            "task_version": board.task_version,
            "gpu": one_line(board.gpu),
            "reference": reference and msgspec.structs.asdict(reference),
            "rows": [_standing(row, reference) for row in self.store.standings.list(*key)],
        }

    def _write_parquet(self, sink: IO[bytes]) -> int:
        import pyarrow as pa
        from pyarrow import parquet

        types = {
            **dict.fromkeys((Kind.TEXT, Kind.LINES, Kind.JSON), pa.string()),
            Kind.INTEGER: pa.int64(),
            Kind.NUMBER: pa.float64(),
            Kind.TEXTS: pa.list_(pa.string()),
            Kind.BOOLEAN: pa.bool_(),
            Kind.MOMENT: pa.timestamp("us", tz="UTC"),
        }
        count = 0
        schema = pa.schema([(name, types[kind]) for name, kind in self._columns.items()])
        with parquet.ParquetWriter(sink, schema) as writer:
            for batch in _batches(self._rows()):
                writer.write_table(pa.Table.from_pylist(batch, schema=schema))
                count += len(batch)
        return count


def _batches(rows: Iterable[dict[str, Value]]) -> Iterator[list[dict[str, Value]]]:
    """Yield rows in lists whose number and texts are bounded."""
    batch: list[dict[str, Value]] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += sum(len(value) for value in row.values() if isinstance(value, str))
        if len(batch) == _PARQUET_ROWS or size > _PARQUET_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _present(ranked: Sequence[RankedBoard], tasks: Mapping[str, Task]) -> dict[str, list[RankedBoard]]:
    """Return the boards by task: of its present version, or of the newest one if the task has left the settings."""
    chosen = {}
    for name, of_task in groupby(ranked, key=lambda key: key.task):
        boards = list(of_task)
        task = tasks.get(name)
        version = boards[-1].task_version if task is None else task.version
        chosen[name] = [board for board in boards if board.task_version == version]
    return chosen


def _hash(text: str) -> str:
    """Return the name of an inline style in the page's content security policy."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def write_csv(sink: IO[bytes], lines: Iterable[Sequence[Value]]) -> int:
    """Write lines in UTF-8, that of the names first, and return the number of the others.

    No cell is one that a spreadsheet would take for a formula.
    """
    text, count = TextIOWrapper(sink, encoding="utf-8", newline=""), -1
    try:
        writer = csv.writer(text, lineterminator="\n")
        for line in lines:
            writer.writerow(map(_csv_cell, line))
            count += 1
        text.flush()
    finally:
        text.detach()
    return count


def _csv_cell(value: Value) -> str | int | float:
    """Format a cell: a text that starts as a formula, or with an apostrophe, gets an apostrophe before it.

    To recover the text, remove one apostrophe from its beginning.
    """
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case datetime():
            return _moment(value)
        case tuple():
            return _csv_cell(json.dumps(value, ensure_ascii=False) if value else "")
        case str():
            # A reader of CSV may end at a null.
            text = value.replace("\0", "\N{REPLACEMENT CHARACTER}")
            # Some spreadsheets drop blanks and invisible characters such as U+FEFF before they look at a cell.
            first = next((each for each in text if each.isprintable() and not each.isspace()), "")
            risky = text.startswith((*_FORMULA, _MARK)) or first in _FORMULA
            return _MARK + text if risky else text
    return value


def _standing(row: Standing, reference: Reference | None) -> dict[str, Any]:
    return {
        "rank": row.rank,
        "user": one_line(row.user),
        "score_s": row.score_s,
        "submission": row.submission,
        "run": row.run,
        "submitted_at": _moment(row.submitted_at),
        "file_name": one_line(row.file_name),
        "trust": one_line(row.trust),
        "emulated": row.emulated,
        "score_low_s": row.interval and row.interval.low_s,
        "score_high_s": row.interval and row.interval.high_s,
        "overlaps_above": row.overlaps_above,
        "runs": row.runs,
        "members": row.members,
        **speedup_keys(None if reference is None else reference.speedup(row.score_s, row.interval)),
    }


def _write_lines(sink: IO[bytes], values: Iterable[Any], *, end: str = "") -> int:
    """Write each value on a line, with `end` behind it, or as the items of a list."""
    count = 0
    for count, value in enumerate(values, start=1):
        before = "" if end else ",\n" if count > 1 else "\n"
        sink.write(f"{before}{_json(value)}{end}".encode())
    return count


def _json(value: Any) -> str:
    # In ASCII, which no terminal and no locale can trip over.
    return json.dumps(value, allow_nan=False)


def _json_value(value: Value) -> Any:
    return _moment(value) if isinstance(value, datetime) else value


def _moment(at: datetime) -> str:
    """Format a time in ISO 8601, UTC, to the microsecond."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
