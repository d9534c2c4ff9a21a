"""Plots: one model, drawn in text and as SVG."""

import math
import os
import re
from collections.abc import Sequence
from datetime import UTC, timedelta
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from hpc_board.domain.reference import Reference
from hpc_board.domain.score_interval import Interval
from hpc_board.domain.standing import Page, Record, Standing
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Log, Paragraph, Table, Tone
from hpc_board.report.formatting import score_text
from hpc_board.report.histories import history_plot, history_report, records_plot, records_span
from hpc_board.report.plain import plain
from hpc_board.report.plots import FILLED, HOLLOW, Axis, Kind, Plot, Series, text_plot
from hpc_board.web.plots import svg
from tests.unit.recorded import AT
from tests.values import replace

EVEN = Axis(0.0, 1.0, ((0.0, "0"), (1.0, "1")))
HOSTILE = '"><script>alert(1)</script>\x1b[31m'


def plot_of(*series: Series) -> Plot:
    return Plot("title", EVEN, EVEN, series, "words")


def cells(drawn: Log) -> list[str]:
    """The rows of a plot of 10 columns, without its axes."""
    return [line[10:].ljust(10) for line in drawn.text.splitlines()[:-2]]


def run(number: int, score_s: float, factor: float | None = None) -> Standing:
    at = AT + timedelta(hours=number)
    interval = Interval(score_s / factor, score_s * factor) if factor else None
    return Standing(
        1, "ada", score_s, number, number, at, "kernel.py", "self-run", "ada", interval=interval, entry=number
    )


def page_of(runs: Sequence[Standing], reference_s: float | None = None) -> Page:
    """The page of a user's runs, with the time of the reference."""
    reference = Reference(reference_s, 3) if reference_s else None
    return Page("H100", "v", tuple(runs), len(runs), reference=reference)


def record(hours: float, score_s: float, user: str = "bob") -> Record:
    return Record(AT + timedelta(hours=hours), user, score_s, 1)


def test_a_line_rises_from_corner_to_corner_without_gaps() -> None:
    rows = cells(text_plot(plot_of(Series(Kind.LINE, ((0.0, 0.0), (1.0, 1.0)))), 20, 5))
    ends = [(min(at), max(at)) for row in rows[::-1] if (at := [i for i, sign in enumerate(row) if sign != " "])]
    assert (ends[0][0], ends[-1][1], len(ends)) == (0, 9, 5)
    assert all(upper[0] - lower[1] <= 1 for lower, upper in pairwise(ends))


@pytest.mark.parametrize("height", [5, 6, 7, 8])
def test_the_text_of_a_tick_is_beside_its_line(height: int) -> None:
    for value in (0.0, 0.5, 1.0):
        series = Series(Kind.LINE, ((0.0, value), (1.0, value))), Series(Kind.POINTS, ((0.5, value),), sign="●")
        plot = Plot("", EVEN, Axis(0.0, 1.0, ((value, "here"),)), series)
        (row,) = [line for line in text_plot(plot, 20, height).text.splitlines() if "here" in line]
        assert row.count("●") == 1


def test_steps_keep_their_height_until_the_next_point() -> None:
    rows = cells(text_plot(plot_of(Series(Kind.STEPS, ((0.0, 1.0), (0.5, 0.0), (1.0, 0.0)))), 20, 4))
    assert rows[0].startswith("⠉⠉⠉⠉")
    assert rows[-1].endswith("⣀⣀⣀⣀")
    assert all(row.count(" ") == 9 for row in rows[1:-1])


def test_a_line_with_a_sign_in_the_legend_is_drawn_as_one() -> None:
    steps = Series(Kind.STEPS, ((0.0, 1.0), (0.5, 0.0), (1.0, 0.0)), name="best", sign="●")
    drawn = text_plot(plot_of(steps, Series(Kind.POINTS, ((0.5, 0.0),), sign="●")), 20, 4)
    assert drawn.title == "title: ● best"
    assert [row.strip() for row in cells(drawn)] == ["⠉⠉⠉⠉⠉⡆", "⡇", "⡇", "●⣀⣀⣀⣀"]


def test_lines_differ_without_colours_and_intervals_are_below_them() -> None:
    flat = ((0.0, 0.5), (1.0, 0.5))
    solid, dotted = (
        cells(text_plot(plot_of(Series(Kind.LINE, flat, is_dotted=is_dotted)), 20, 3))[1] for is_dotted in (False, True)
    )
    assert len(set(solid)) == len(set(dotted)) == 1
    assert ord(dotted[0]).bit_count() < ord(solid[0]).bit_count()
    intervals = Series(Kind.INTERVALS, flat, Tone.QUIET, "interval", bounds=((0.0, 1.0), (0.4, 0.6)))
    drawn = text_plot(plot_of(intervals, Series(Kind.LINE, flat, Tone.GOOD)), 20, 5)
    rows = cells(drawn)
    assert [row[0] for row in (rows[0], rows[1], rows[3], rows[4])] == 4 * ["⡇"]
    assert {row[1:] for row in (rows[0], rows[1], rows[3], rows[4])} == {9 * " "}
    assert rows[2] == f"⡗{8 * '⠒'}⡗"
    (good,) = [drawn.text[begin:end] for begin, end, tone in drawn.tones if tone is Tone.GOOD]
    assert good == rows[2]


@pytest.mark.parametrize(("term", "encoding"), [("linux", "utf-8"), ("xterm", "latin-1")])
def test_a_terminal_without_braille_has_points(monkeypatch: pytest.MonkeyPatch, term: str, encoding: str) -> None:
    flat = ((0.0, 0.5), (1.0, 0.5))
    intervals = Series(Kind.INTERVALS, flat, name="interval", bounds=((0.0, 1.0), (0.0, 1.0)))
    plot = plot_of(intervals, Series(Kind.LINE, flat, name="line"), Series(Kind.POINTS, flat, name="runs", sign="○"))
    assert text_plot(plot, 20, 3).title == "title: ○ runs   ⠒⠒ line   ⡇ interval"
    monkeypatch.setenv("TERM", term)
    with Path(os.devnull).open("w", encoding=encoding) as stream:
        monkeypatch.setattr("sys.__stdout__", stream)
        drawn = text_plot(plot, 20, 3)
    assert cells(drawn) == [10 * " ", "○········○", 10 * " "]
    assert drawn.title == "title: ○ runs   · line"


def test_the_tones_of_a_plot_are_painted_in_their_places() -> None:
    drawn = text_plot(plot_of(Series(Kind.POINTS, ((0.5, 0.0),), Tone.GOOD, sign="●")), 20, 3)
    painted = plain([drawn], paint=lambda text, tone: f"<{tone}>{text}</>")
    assert "<good>●</>" in painted
    assert re.sub("<[^>]*>", "", painted) == plain([drawn])


@pytest.mark.parametrize(("width", "height"), [(20, 3), (60, 11), (196, 30)])
@pytest.mark.parametrize("scores", [[1e-3, 1e-3], [5.0, 1e-9, 3.0], [0.9**index for index in range(300)]])
def test_a_history_fits_any_size(width: int, height: int, scores: list[float]) -> None:
    runs = [run(number, score_s, None if number == 1 else 1.2) for number, score_s in enumerate(scores)]
    drawn = text_plot(history_plot(page_of(runs), [record(-1, max(scores))]), width, height)
    lines = drawn.text.splitlines()
    assert len(lines) == height + 2
    assert max(map(len, lines)) <= max(width, 33)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (1e-6, 2e-3, ["1.00 µs", "10.0 µs", "100 µs", "1.00 ms"]),
        (1.39e-6, 15.5e-6, ["2.00 µs", "5.00 µs", "10.0 µs"]),
        (27e-6, 127e-6, ["30.0 µs", "50.0 µs", "70.0 µs", "100 µs"]),
        (4.1e-3, 4.6e-3, ["4.00 ms", "4.20 ms", "4.40 ms", "4.60 ms"]),
        (10.012e-6, 10.022e-6, ["9.50 µs", "10.0 µs", "10.5 µs"]),
        (3e-3, 3e-3, ["3.00 ms"]),
        (1e-3, 1e-3 + 2 * math.nextafter(1e-6, 0), ["950 µs", "1.00 ms", "1.05 ms"]),
    ],
)
def test_a_logarithmic_scale_has_round_values(low: float, high: float, ticks: list[str]) -> None:
    axis = Axis.rounded(low, high, score_text)
    assert [text for _, text in axis.ticks] == ticks
    assert axis.share(low) + axis.share(high) == pytest.approx(1)
    assert low == high or axis.high / axis.low == pytest.approx(max(1.2, high / low))
    plot = Plot("", EVEN, axis, ())
    assert ("log scale└" in text_plot(plot, 30, 11).text, ">log scale</text>" in svg(plot)) == (True, True)
    linear = replace(plot, up=EVEN)
    assert "log scale" not in text_plot(linear, 30, 11).text + svg(linear)


@pytest.mark.parametrize(
    ("count", "numbers"), [(2, ["run", "1", "2"]), (13, ["run", "1", "4", "7", "10", "13"])], ids=["all", "some"]
)
def test_a_history_has_the_numbers_of_runs_below_their_points(count: int, numbers: list[str]) -> None:
    runs = [replace(run(index, 1e-3), run=index + 1) for index in range(count)]
    assert text_plot(history_plot(page_of(runs), []), 60, 5).text.splitlines()[-1].split() == numbers


def test_a_history_has_a_step_at_each_record_and_the_whole_of_each_known_interval() -> None:
    runs = [run(0, 4e-3), run(1, 3e-3, 1.1), run(2, 3.5e-3), run(3, 2e-3, 1.3), run(4, 1e-3, 1.2)]
    plot = history_plot(page_of(runs), [record(0.5, 2.5e-3), record(2, 1.5e-3), record(4, 1e-3, "ada")])
    (intervals,) = [each for each in plot.series if each.kind is Kind.INTERVALS]
    assert [x for x, _ in intervals.points] == [1.0, 3.0, 4.0]
    assert intervals.bounds[0] == pytest.approx((3e-3 / 1.1, 3e-3 * 1.1))
    assert plot.up.low == pytest.approx(1e-3 / 1.2)
    (lead,) = [each for each in plot.series if each.name == "leader"]
    assert lead.points == ((0.5, 2.5e-3), (2.0, 1.5e-3), (4.0, 1e-3))
    title = text_plot(plot, 80, 10).title
    assert title == "Score: ● fastest yet   ○ slower   ⠒⠒ user   ⠂⠂ leader   ⡇ 80 % interval"
    assert len(title) <= 74, "it is the title of a panel of 80 columns"


def test_the_line_of_a_user_has_the_median_of_all_runs_of_the_same_code() -> None:
    runs = [run(0, 4e-3), run(1, 2e-3), run(2, 3e-3), replace(run(3, 3e-3), entry=1)]
    plot = history_plot(page_of(runs), [record(0, 4e-3), record(1, 2.5e-3)])
    (lead, own) = [each for each in plot.series if each.kind is Kind.STEPS]
    assert own.points == lead.points == ((0.0, 4e-3), (1.0, 2.5e-3), (3.0, 2.5e-3))


def test_the_reference_takes_the_place_of_a_leader_who_has_always_been_the_user() -> None:
    page = page_of([run(0, 4e-3), run(1, 3e-3)], reference_s=9e-3)
    for leader, name in (("ada", "reference"), ("bob", "leader")):
        plot = history_plot(page, [record(0, 4e-3, leader), record(1, 3e-3, "ada")])
        assert [each.name for each in plot.series if each.is_dotted] == [name]
    assert history_plot(page, []).up.high == pytest.approx(9e-3)


def test_the_steps_of_a_best_time_have_a_third_of_the_width_beside_the_reference() -> None:
    records = [record(0, 2e-3), record(1, 1e-3)]
    plot = records_plot(records, records_span([records], AT + timedelta(days=300)), UTC, Reference(4e-3, 3))
    assert plot.across.share(records[1].at.timestamp()) == pytest.approx(1 / 3)
    assert text_plot(plot, 60, 5).title == "Best time 2.00 ms → 1.00 ms: ⠂⠂ reference"
    assert plot.up.high == pytest.approx(4e-3)
    other = [record(-1, 9e-3)]
    assert records_span([records, other], AT + timedelta(hours=2)) == (other[0].at, AT + timedelta(hours=2))
    soon = records_plot(records, records_span([records], AT + timedelta(hours=1.5)), UTC)
    assert soon.across.share(records[1].at.timestamp()) == pytest.approx(2 / 3)


def test_records_before_and_after_the_runs_of_a_history_are_at_its_ends() -> None:
    records = [record(hours, score_s) for hours, score_s in ((-9, 9e-3), (-1, 8e-3), (1, 4e-3), (3, 2e-3), (5, 1e-3))]
    plot = history_plot(page_of([run(0, 8e-3), run(1, 4e-3)]), records)
    (lead,) = [each for each in plot.series if each.name == "leader"]
    assert lead.points == ((0.0, 8e-3), (1.0, 4e-3), (1.5, 2e-3), (2.0, 1e-3))
    (own,) = [each for each in plot.series if each.name == "user"]
    assert own.points[-1] == (2.0, 4e-3)
    assert plot.across.high > 2


def test_the_history_of_one_run_is_its_score_in_words() -> None:
    told = (
        (run(0, 3e-3), "One run: 3.00 ms"),
        (run(0, 3e-3, 1.1), "One run: 3.00 ms (80 % interval: 2.73 to 3.30 ms)"),
    )
    for alone, words in told:
        _, score, table = history_report("softmax", Page("H100", "v", (alone,), 1), "ada")
        assert (score, isinstance(table, Table)) == (Paragraph(words), True)


def test_points_and_intervals_of_a_history_are_beside_the_upright_axis_in_text_and_as_svg() -> None:
    plot = history_plot(page_of([run(0, 2e-3, 1.2), run(1, 1e-3, 1.2)]), [])
    lines = text_plot(plot, 78, 11).text.splitlines()[:-2]
    assert {line[9:12] for line in lines} == {"│  "}
    assert {line[12:13] for line in lines} <= {"⡇", "●", "⠁", " "}
    (first, *_) = re.findall(r'class="intervals quiet" d="M([\d.]+) ', svg(plot).split('class="steps')[1])
    assert float(first) - 76 > 4


def test_a_filled_point_is_a_full_circle_in_text_and_as_svg() -> None:
    drawn = [Series(Kind.POINTS, ((0.5, 0.5),), sign=sign, texts=("",)) for sign in (HOLLOW, FILLED)]
    texts = ["".join(cells(text_plot(plot_of(each), 20, 3))).strip() for each in drawn]
    assert texts == ["○", "●"]
    assert [' filled"' in svg(plot_of(each)) for each in drawn] == [False, True]


def test_the_legend_of_a_plot_as_svg_stays_within_its_width() -> None:
    series = [Series(Kind.LINE, ((0.0, 0.5),), name=name * 12) for name in "abcd"]
    legend = re.findall(r'<text x="([\d.]+)" y="(\d+)">(\w+)</text>', svg(plot_of(*series), width=300))
    assert [(float(x), int(y)) for x, y, _ in legend] == [(94, 20), (206, 20), (94, 40), (206, 40)]


def test_the_values_below_a_plot_as_svg_stay_within_its_axis() -> None:
    ticks = ((0.0, "first"), (0.02, "run 20776"), (0.5, "middle"), (0.99, "run 29907"), (1.0, "last"))
    drawn = svg(replace(plot_of(Series(Kind.LINE, ((0.0, 0.5),))), across=Axis(0, 1, ticks)))
    texts = re.findall(r'<text x="([\d.]+)" y="164" text-anchor="middle">([^<]+)', drawn)
    assert [text for _, text in texts] == ["first", "middle", "run 29907"]
    edges = [(float(x) - 3.25 * len(text), float(x) + 3.25 * len(text)) for x, text in texts]
    assert (edges[0][0], edges[-1][1]) == pytest.approx((76, 388), abs=0.2)


@pytest.mark.parametrize(
    ("hours", "ends"), [(3, "2026-05-01 12:00 15:00"), (30, "2026-05-01 2026-05-02")], ids=["one day", "two days"]
)
def test_the_axis_of_one_day_has_the_times_of_day(hours: int, ends: str) -> None:
    records = [record(0, 2e-3)]
    plot = records_plot(records, records_span([records], AT + timedelta(hours=hours)), UTC)
    assert " ".join(text_plot(plot, 60, 5).text.splitlines()[-1].split()) == ends


def test_a_plot_as_svg_says_in_words_what_it_draws_and_escapes_all_names() -> None:
    runs = [replace(run(number, score_s, 1.1), user=HOSTILE) for number, score_s in enumerate((3e-3, 2e-3, 4e-3))]
    alone = svg(
        replace(history_plot(page_of(runs), [record(0, 1e-3)]), title=one_line(HOSTILE)), 760, 320, is_alone=True
    )
    records = [record(0, 2e-3, HOSTILE), record(48, 1e-3, HOSTILE)]
    within = svg(records_plot(records, (AT, AT + timedelta(days=3))))
    for drawn in (alone, within):
        assert "<script" not in drawn
        assert "\x1b" not in drawn
        root = ET.fromstring(drawn)  # noqa: S314 - our own
        assert root.get("role") == "img"
        assert root.get("aria-label")
    assert "fastest 2.00 ms of 3 runs" in alone
    assert "prefers-color-scheme: dark" in alone
    assert "<style" not in within, "a page's policy admits no style of its parts"
    kinds = {element.get("class", " ").split(" ")[0] for element in ET.fromstring(alone).iter()} - {""}  # noqa: S314
    assert {"intervals", "steps", "points"} <= kinds


def test_bars_have_their_heights_and_intervals() -> None:
    first, second = (
        Series(Kind.BARS, ((at, share),), name=str(at), texts=("told",), bounds=bounds)
        for at, share, bounds in ((0.3, 1.0, ()), (0.7, 0.5, ((0.25, 2.0),)))
    )
    drawn = svg(plot_of(first, second), 500, 200)
    heights = [float(high) for high in re.findall(r'<rect class="bars plain" [^>]*height="([\d.]+)"><title>', drawn)]
    assert heights[0] == pytest.approx(2 * heights[1])
    (interval,) = re.findall(r'class="interval" d="M[\d.]+ ([\d.]+)V([\d.]+)', drawn)
    low, high = map(float, interval)
    assert low - high == pytest.approx(0.75 * heights[0], abs=0.2), "an interval ends with the axes"
    assert 'class="interval"' not in svg(plot_of(first, replace(second, bounds=((0.5, 0.5),))))


def test_the_legend_of_a_picture_has_points_as_circles_and_bars_as_rectangles() -> None:
    places = ((0.0, 0.5), (1.0, 0.5))
    points = Series(Kind.POINTS, places, name="slower", sign="○", texts=("a", "b"))
    drawn = svg(plot_of(points, Series(Kind.BARS, places, name="run 1", texts=("c", "d"))))
    assert drawn.count("<circle") == 3
    assert drawn.count("<rect") == 3
