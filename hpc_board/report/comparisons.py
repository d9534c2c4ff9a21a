"""A comparison of the files of two runs."""

import math
from collections.abc import Iterator, Sequence

from hpc_board.domain.comparison import Comparison, Difference, kernel_pairs
from hpc_board.domain.run import Run
from hpc_board.domain.time_change import FEW_SAMPLES, ratio_text
from hpc_board.model.result import BUSY_PROCESSORS, Result
from hpc_board.model.score import duration_text, figures
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Block, Column, Heading, Paragraph, Tone, table
from hpc_board.report.kernels import kernel_table
from hpc_board.report.plain import bar
from hpc_board.report.plots import Axis, Kind, Plot, Series
from hpc_board.report.run_words import short_specs, verdict_text

_REFERENCE_DIFFERS = 0.05
_NAME_MAX = 20
_BAR = 20
"""The width of the bar of two times."""

_DIFF_TONES = {"+": Tone.GOOD, "-": Tone.BAD, "@": Tone.QUIET}


def comparison_report(runs: Sequence[Run], results: Sequence[Result], comparison: Comparison) -> tuple[Block, ...]:
    """Return the comparison of the second run with the first: score, cases, and caveats."""
    one = runs[0]
    specs = short_specs(case.spec for case in comparison.cases)
    rows = [(spec, case.difference) for spec, case in zip(specs.texts, comparison.cases, strict=True)]
    if comparison.score is not None and len(rows) > 1:
        rows.insert(0, ("score", comparison.score))
    files = _file_names(runs)
    titles = files[0], f"→ {files[1]}"
    differences = table(
        rows,
        (Column("CASE", flexible=True, least=24), lambda row: row[0]),
        (Column(titles[0], right=True, stays=True), lambda row: duration_text(row[1].one_ns)),
        (Column(titles[1], right=True, stays=True), lambda row: duration_text(row[1].other_ns)),
        (Column("CHANGE", flexible=True, least=14, toned=True, wraps=True), lambda row: row[1].text),
        (Column("TIMES: ░ CHANGE", leaves=1, toned=True), lambda row: _bar(row[1])),
        empty="No common benchmark case.",
        tones=tuple(_change_tone(each) for _, each in rows),
    )
    cases = f" (case: {specs.names})" if specs.names else ""
    names = [f"run {each.id} ({one_line(f'{each.file_name} by {each.user}'.lstrip())})" for each in runs]
    pairs = kernel_pairs((results[0], results[1]))
    return (
        Heading(f"{one.task} on {one.gpu}{cases}: {names[0]} vs. {names[1]}"),
        *([] if pairs and not rows else [differences]),
        *caveats(runs, results, comparison),
        *kernel_table(pairs, titles),
        *_confidence(comparison),
    )


def _change_tone(difference: Difference) -> Tone:
    if not difference.shown:
        return Tone.PLAIN
    return Tone.GOOD if difference.speedup > 1 else Tone.BAD


def _file_names(runs: Sequence[Run]) -> tuple[str, str]:
    """Return the names of the files of two runs, or of the runs if those are equal or that of an anonymous user."""
    one, other = (f"run {run.id}" for run in runs)
    files = [one_line(run.file_name, _NAME_MAX) for run in runs]
    return (files[0] or one, files[1] or other) if files[0] != files[1] else (one, other)


def _bar(difference: Difference) -> str:
    """Return the shorter one of both times as a bar, and in another shade how much the other one is longer."""
    shorter_ns, longer_ns = sorted((difference.one_ns, difference.other_ns))
    return f"{bar(shorter_ns / longer_ns, _BAR):░<{_BAR}}"


def comparison_plot(runs: Sequence[Run], comparison: Comparison) -> Plot | None:
    """Return bars of both times in each case, relative to the first run; None without a common case.

    The interval is that of the ratio.
    """
    cases, pair = comparison.cases, [each.id for each in runs]
    if not cases:
        return None
    specs = short_specs(case.spec for case in cases).texts
    differences = [case.difference for case in cases]
    ratios = [each.other_ns / each.one_ns for each in differences]
    spreads = [each.spread or 1.0 for each in differences]
    high = max(1.0, *ratios)
    step = 10 ** math.floor(math.log10(high)) / 2
    ticks = tuple((step * index, f"{figures(step * index, 2)}x") for index in range(math.floor(high / step) + 1))
    one_bars = Series(
        Kind.BARS,
        tuple((index + 0.3, 1.0) for index in range(len(cases))),
        Tone.QUIET,
        f"run {pair[0]}",
        texts=tuple(f"{spec}: {duration_text(each.one_ns)}" for spec, each in zip(specs, differences, strict=True)),
    )
    other_bars = Series(
        Kind.BARS,
        tuple((index + 0.7, ratio) for index, ratio in enumerate(ratios)),
        Tone.GOOD,
        f"run {pair[1]}",
        bounds=tuple((ratio / spread, ratio * spread) for ratio, spread in zip(ratios, spreads, strict=True)),
        texts=tuple(
            f"{spec}: {duration_text(each.other_ns)}, {each.text}"
            for spec, each in zip(specs, differences, strict=True)
        ),
    )
    return Plot(
        f"{one_line(runs[0].task)} on {one_line(runs[0].gpu)}: time of each case, relative to run {pair[0]}",
        Axis(0.0, len(cases), tuple((index + 0.5, spec) for index, spec in enumerate(specs))),
        Axis(0.0, 1.2 * high, ticks),
        (other_bars, one_bars),
        f"Run {pair[1]}, relative to run {pair[0]}: "
        + "; ".join(f"{spec}: {each.text}" for spec, each in zip(specs, differences, strict=True)),
    )


def diff_tone(line: str) -> Tone:
    """Return the tone of a line of a unified diff."""
    return _DIFF_TONES.get(line[:1], Tone.PLAIN)


def _confidence(comparison: Comparison) -> Iterator[Paragraph]:
    """Explain the confidence intervals of the table, if any."""
    texts = [each.text for each in (*(case.difference for case in comparison.cases), comparison.score) if each]
    has_range = any(" to " in text for text in texts)
    if any("±" in text for text in texts):
        whole = ", a range is all of it" if has_range else ""
        interval = f"± is half of the 95 % confidence interval of a change{whole}"
    elif has_range:
        interval = "A range is the 95 % confidence interval of a change"
    else:
        if any(FEW_SAMPLES in text for text in texts):
            yield Paragraph("Uncertain: a change of fewer than three timed calls has no known error.", Tone.QUIET)
        return
    repeated = all(case.difference.repeated for case in comparison.cases)
    within = "of both runs" if repeated else "within one process, of which mode ranked has several,"
    yield Paragraph(
        f"{interval}, from the scatter {within} and the usual difference of two runs of one file.", Tone.QUIET
    )


def _busy_processors(result: Result) -> float:
    return max((case.timing.busy_processors for case in result.cases if case.timing), default=0.0)


def caveats(runs: Sequence[Run], results: Sequence[Result], comparison: Comparison) -> Iterator[Paragraph]:
    """Yield the reasons to doubt the difference of two runs: failures, throttling, other load and other conditions."""
    for run, result in zip(runs, results, strict=True):
        if run.verdict != "pass":
            yield Paragraph(f"Run {run.id} did not pass: {verdict_text(result.verdict)}.", Tone.BAD)
        throttled = sum(bool(case.timing and case.timing.throttled) for case in result.cases)
        if throttled:
            words = f"Throttled GPU: its clocks were lower in {throttled} cases of run {run.id}."
            yield Paragraph(words, Tone.UNSURE)
    loads = zip(map(_busy_processors, results), runs, strict=True)
    if busy := [(f"{used:.1f}", str(run.id)) for used, run in loads if used >= BUSY_PROCESSORS]:
        used, numbers = map(" and ".join, zip(*busy, strict=True))
        of_runs, their = ("runs", "their") if len(busy) > 1 else ("run", "its")
        words = f"Busy machine: other work used {used} processors in {of_runs} {numbers}; {their} times are"
        yield Paragraph(f"{words} less certain.", Tone.UNSURE)
    if comparison.reference is not None and abs(comparison.reference - 1) > _REFERENCE_DIFFERS:
        factor = max(comparison.reference, 1 / comparison.reference)
        slower = runs[1 if comparison.reference > 1 else 0]
        nodes = {run.status.node for run in runs}
        what = "Machines differ" if len(nodes) == 2 and all(nodes) else "Conditions differed"
        yield Paragraph(
            f"{what}: the task's reference took {ratio_text(factor)} as long in run {slower.id}; "
            f"a change of up to that size may not come from the code.",
            Tone.UNSURE,
        )
    if any(run.emulated for run in runs):
        yield Paragraph(f"Emulated: the times do not apply to {runs[0].gpu}.", Tone.UNSURE)
