"""The roofs of a device and the benchmarks of a run below them, as drawn and as said in words."""

import pytest
from rich.console import Group
from rich.text import Text

from hpc_board.domain.comparison import LeaderRun
from hpc_board.errors import Refused
from hpc_board.model.peaks import Peak, Work
from hpc_board.model.result import Case, Result
from hpc_board.tui.widgets.roofline import BEST, OWN, REFERENCE, Measured, measured, roofline, roofline_lines, words
from tests.tui.driving import app_on, press, settled, text_of
from tests.tui.fake_board import FakeBoard
from tests.values import replace

DEVICE = "NVIDIA H100 80GB HBM3"
PEAK = Peak(1e12, 100e12)


class Roofed(FakeBoard):
    """The runs that passed have worked on a known device for a task that states the least work."""

    def result(self, run: int) -> Result | None:
        told = super().result(run)
        if told is None:
            return None
        # As of products of matrices with 512, 2048 and 8192 rows: the small one moves more than it computes.
        own_ns, reference_ns = (2.1e3, 1.5e4, 9e5), (3.9e3, 2.4e4, 1.3e6)
        cases = [
            replace(
                case,
                work=Work(6 * 512**2 * 16**case.index, 2 * 512**3 * 64**case.index),
                timing=replace(
                    case.timing,
                    median_ns=own_ns[case.index] * (0.75 if run == 34 else 1),
                    baseline_ns=reference_ns[case.index],
                ),
            )
            if case.timing
            else case
            for case in told.cases
        ]
        return replace(told, cases=tuple(cases), provenance={**told.provenance, "gpu_name": DEVICE})


def case(operations: float, *, memory_bytes: float = 1e9, number: int = 1, **times_ns: float) -> Measured:
    return Measured(number, f"size: {number}", Work(memory_bytes, operations), times_ns)


def plain(lines: list[Text]) -> list[str]:
    return [line.plain for line in lines]


def test_a_point_at_its_peak_lies_on_the_roof_and_one_that_is_slower_below_it() -> None:
    at_peak, slower = case(1e9, o=1e6), case(1e9, o=1e8)
    top = plain(roofline_lines([at_peak], PEAK, 60, 8))
    low = plain(roofline_lines([at_peak, replace(slower, number=2)], PEAK, 60, 8))
    column = next(line.index("o", 10) for line in top if "o" in line[10:])
    beside = next(line for line in top if "o" in line[10:])
    assert {beside[column - 1], beside[column + 1]} & set("⣀⡠⠤⠔⠒⠊⠉")
    rows = [index for index, line in enumerate(low) if "o" in line.partition("│")[2]]
    assert len(rows) == 2
    assert rows[1] > rows[0] + 1


def test_the_roof_is_flat_where_arithmetic_is_the_limit_and_the_axis_says_from_where() -> None:
    lines = plain(roofline_lines([case(1e9, o=2e6), case(1e12, o=2e7, number=2)], PEAK, 60, 8))
    corner = lines[-2].index("┴")
    assert set(lines[0][corner + 2 :]) <= {"⠉", " ", "o"}
    assert lines[-1].strip().startswith("0.5")
    assert lines[-1][corner - 1 : corner + 2] == "100"


@pytest.mark.parametrize(("width", "height"), [(30, 5), (57, 7), (77, 12), (100, 18)])
def test_no_line_is_wider_than_the_room(width: int, height: int) -> None:
    lines = plain(roofline_lines([case(1e9, o=2e6, r=1e9), case(1e14, o=1e9, number=2)], PEAK, width, height))
    assert max(map(len, lines)) <= width
    assert len(lines) == height + 2


def test_the_words_say_which_roof_counts_and_how_near_everybody_comes() -> None:
    cases = [
        case(1e9, o=2e6, b=1.25e6, r=4e6),
        case(1e9, number=2, o=4e6, b=1.25e6, r=4e6),
        case(1e12, number=3, o=2e7),
    ]
    said = plain([*words(cases, PEAK, LeaderRun(34, "bob"))])
    assert said == [
        "o this run   b the best: bob, run 34   r the reference   ",
        "Cases 1 and 2 are memory bound: of 1 TB/s, this run 25 to 50 %, the best 80 %, the reference 25 %.",
        "Case 3 is arithmetic bound: of 100 Top/s, this run 50 %.",
    ]


def test_a_case_without_operations_is_told_in_words_alone() -> None:
    assert roofline_lines([case(0.0, o=2e6)], PEAK, 60, 8) == []
    group = roofline([case(0.0, o=2e6)], PEAK, None, DEVICE, 60, 20)
    assert isinstance(group, Group)
    assert "Case 1 is memory bound: of 1 TB/s, this run 50 %." in "\n".join(map(str, group.renderables))


@pytest.mark.parametrize(
    ("memory_bytes", "operations", "time_ns"),
    [(0.0, 1e9, 1.0), (1e30, 1e-300, 1.0), (5e-324, 1e30, 5e-324), (1e30, 1e30, 1e300), (1.0, 1e30, 1e-9)],
)
def test_odd_work_and_times_make_no_drawing_fail(memory_bytes: float, operations: float, time_ns: float) -> None:
    group = roofline([case(operations, memory_bytes=memory_bytes, o=time_ns)], PEAK, None, "x\x1b[31m", 60, 20)
    assert isinstance(group, Group)
    assert "\x1b" not in "".join(map(str, group.renderables))


def test_what_no_device_can_do_makes_no_drawing_of_others_fail() -> None:
    cases = [case(1e6, memory_bytes=1e6, o=1e3), case(1e299, memory_bytes=1e-9, number=2, o=1.0)]
    alone, beside = (plain(roofline_lines(some, PEAK, 60, 8)) for some in (cases[:1], cases))
    assert alone == beside


def test_only_the_same_cases_of_the_best_run_are_compared() -> None:
    told = Roofed().result(39)
    assert told is not None
    best = LeaderRun(34, "bob", told.cases)
    other = LeaderRun(34, "bob", tuple(replace(each, spec="another") for each in told.cases))
    assert [set(each.times_ns) for each in measured(told, best)] == [{OWN, BEST, REFERENCE}] * 3
    assert [set(each.times_ns) for each in measured(told, other)] == [{OWN, REFERENCE}] * 3
    failed = [replace(each, work=None) for each in told.cases]
    assert measured(replace(told, cases=tuple[Case, ...](failed)), best) == ()


async def test_a_run_has_a_page_with_the_roofs_beside_the_best_of_its_board() -> None:
    async with app_on(Roofed()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "enter", "7")
        shown = text_of(pilot.app)
        assert "3.35 TB/s of memory, 1.98 Pop/s of arithmetic" in shown
        assert "o this run   b the best: bob, run 34   r the reference" in shown
        assert "memory bound: of 3.35 TB/s, this run" in shown
        assert "3 arithmetic" in shown


async def test_a_best_run_that_may_not_be_read_is_left_out() -> None:
    class Closed(Roofed):
        def cases(self, run: int) -> tuple[Case, ...]:
            raise Refused(f"run {run} is bob's")

    async with app_on(Closed()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "enter", "7")
        assert "o this run   r the reference" in text_of(pilot.app)


async def test_a_run_without_a_known_roof_says_why() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "enter", "7")
        assert "defines no minimal_work" in text_of(pilot.app)
        await press(pilot, "escape", "escape", "home", "enter", "7")
        assert "No times yet; they come with the result." in text_of(pilot.app)
