"""The text of a profiler as blocks: its tables, which fit any width, and the lines between them."""

import re
from collections.abc import Iterator, Sequence

from hpc_board.model.kernels import LIBRARY, PERF_ROW
from hpc_board.model.score import duration_text
from hpc_board.report.blocks import Block, Column, Heading, Log, Paragraph, Table, Tone
from hpc_board.report.formatting import count_text
from hpc_board.report.tones import profile_tones

_CASE = re.compile(r"case \d+: (?:.+: (?P<steps>the call ))?")
"""The first line of a case, and its line of the judge's steps around a call."""

_RULE = re.compile(r" *-+(?:  +-+)+ *")
"""The line below the head of a table by PyTorch or Nsight Systems; that of Nsight Compute, with single spaces, fits."""

_TOTAL = re.compile(r"Self \w+ time total: ")
_TIME = re.compile(r"(?P<number>\d+\.\d+)(?P<unit>%|ns|us|ms|s)")
_NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
"""A share or a time as PyTorch writes it, "99.47%" or "291.904us", and the nanoseconds of its units."""

_SAMPLES = re.compile(r"  (\d+) samples")
_KEPT = ("Self CPU", "Self CUDA", "# of Calls", "Time (%)", "Total Time (ns)", "Instances")
"""The columns that a table has at any width."""

_NAMES = ("Name", "Operation")
_NAME_MIN = 24
_FOLDED_BELOW_PERCENT = 2.0
_FOLDED_BELOW_SAMPLES = 1.5


def profile_blocks(text: str) -> Iterator[Block]:
    """Yield the cases of a profile as headings, the tables in it, and the other lines as they are."""
    lines, others, samples, at = text.rstrip("\n").split("\n"), list[str](), 0, 0
    while at < len(lines):
        line, end = lines[at], at + 1
        found: Block | None = None
        if case := _CASE.match(line):
            found = Paragraph(line, Tone.QUIET) if case["steps"] else Heading(line)
        elif _perf_row(line):
            while end < len(lines) and _perf_row(lines[end]):
                end += 1
            found = _functions(lines[at:end], others.pop().strip() if others else "", samples)
        elif _RULE.fullmatch(line):
            has_head = lines[at + 2 : at + 3] == [line]
            begin = at + 3 if has_head else at + 1
            end = next((index for index in range(begin, len(lines)) if not lines[index].strip(" -")), len(lines))
            head = lines[at + 1] if has_head else others.pop() if others else ""
            found = _table(line, head, lines[begin:end])
            end += lines[end : end + 1] == [line]
        if found is None:
            others.append(line)
            samples = int(told[1]) if (told := _SAMPLES.fullmatch(line)) else samples
        else:
            yield from _log(others)
            others = []
            yield found
        at = end
    yield from _log(others)


def _perf_row(line: str) -> re.Match[str] | None:
    # The widest percentage begins its line.
    return PERF_ROW.match(f" {line}")


def _log(lines: Sequence[str]) -> Iterator[Log]:
    told = (_TIME.sub(_in_our_units, line) if _TOTAL.match(line) else line for line in lines)
    if text := "\n".join(told).strip("\n"):
        yield Log("", text, profile_tones(text))


def _functions(rows: Sequence[str], title: str, samples: int) -> Table:
    """Return the rows of perf; functions outside the submission with few samples are one row, with their sum."""
    title = f"{title[:1].upper()}{title[1:]}"
    shown, small, tones = list[tuple[str, ...]](), list[float](), list[Tone]()
    least = max(_FOLDED_BELOW_PERCENT, 100 * _FOLDED_BELOW_SAMPLES / samples if samples else 0)
    for share, library, function in (row.groups() for row in map(_perf_row, rows) if row is not None):
        if library != LIBRARY and float(share) < least:
            small.append(float(share))
        else:
            shown.append((f"{float(share):.1f} %", function, library))
            tones.append(Tone.STRONG if library == LIBRARY else Tone.PLAIN)
    if small:
        shown.append((f"{sum(small):.1f} %", f"{count_text(len(small), 'more function')} below {least:.0f} %", ""))
        tones.append(Tone.QUIET)
    columns = (
        Column("Share", right=True),
        Column("Function", flexible=True, middle=True, least=_NAME_MIN, toned=True),
        Column("Library", flexible=True, least=_NAME_MIN // 2, toned=True),
    )
    return Table(columns, tuple(shown), tones=tuple(tones), title=title)


def _in_our_units(found: re.Match[str]) -> str:
    """Return a share or a time of PyTorch as all reports write it: "99.5 %", "292 µs"."""
    number, unit = float(found["number"]), found["unit"]
    return f"{number:.1f} %" if unit == "%" else duration_text(number * _NANOSECONDS[unit])


def _table(rule: str, head: str, rows: Sequence[str]) -> Table:
    """Return a table whose columns are those of its rule; the last one may be wider."""
    spans = [found.span() for found in re.finditer("-+", rule)]
    spans[-1] = spans[-1][0], max(map(len, (head, rule, *rows)))
    titles, *cells = (tuple(line[begin:end].strip() for begin, end in spans) for line in (head, *rows))
    cells = [tuple(_in_our_units(found) if (found := _TIME.fullmatch(cell)) else cell for cell in row) for row in cells]
    columns = tuple(
        Column(title, flexible=True, middle=True, least=_NAME_MIN)
        if title in _NAMES
        else Column(title, right=True, stays=title in _KEPT, leaves=0 if title in _KEPT else len(spans) - index)
        for index, title in enumerate(titles)
    )
    return Table(columns, tuple(cells))
