"""The roofline of a run."""

import pytest

from hpc_board.domain.comparison import LeaderRun
from hpc_board.errors import Refused
from hpc_board.model.peaks import Peak, Work
from hpc_board.model.result import Case, Result
from hpc_board.report.plain import plain
from hpc_board.report.plots import text_plot
from hpc_board.report.rooflines import BEST, OWN, REFERENCE, Measured, measured, roofline_plot, roofline_report
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
                    time_ns=own_ns[case.index] * (0.75 if run == 34 else 1),
                    reference_ns=reference_ns[case.index],
                ),
            )
            if case.timing
            else case
            for case in told.cases
        ]
        return replace(told, cases=tuple(cases), provenance={**told.provenance, "gpu_name": DEVICE})


def case(operations: float, *, memory_bytes: float = 1e9, number: int = 1, **times_ns: float) -> Measured:
    signs = {"own": OWN, "best": BEST, "reference": REFERENCE}
    work = Work(memory_bytes, operations)
    return Measured(number, f"size: {number}", work, {signs[name]: time for name, time in times_ns.items()})


def lines(cases: list[Measured], width: int = 60, height: int = 8) -> list[str]:
    """The lines of the plot."""
    plot = roofline_plot(cases, PEAK, None)
    assert plot is not None
    return text_plot(plot, width, height).text.splitlines()


def test_points_at_the_peak_lie_on_the_roof_and_slower_ones_below_it() -> None:
    top = lines([case(1e9, own=1e6)])
    beside = next(line for line in top if OWN in line)
    column = beside.index(OWN)
    assert {beside[column - 1], beside[column + 1]} & set("⣀⡠⠤⠔⠒⠊⠉⢀")
    low = lines([case(1e9, own=1e6), case(1e9, own=1e8, number=2)])
    first, second = (index for index, line in enumerate(low) if OWN in line)
    assert second > first + 1


def test_the_roof_is_flat_from_the_ridge_on_and_both_ceilings_have_their_rates() -> None:
    plot = lines([case(1e9, own=2e6), case(1e12, own=2e7, number=2)])
    ridge = plot[-1].index("100") + 1
    (level,) = (line[ridge + 2 :] for line in plot if "⠒" * 9 in line)
    # The line from the point to the roof begins at one cell of it.
    assert level.count("⠒") == len(level) - 1
    assert "100 Top/s of arithmetic" in "\n".join(plot)
    assert "1 TB/s of memory" in "\n".join(plot)
    assert plot[-1].split() == ["1", "10", "100", "1,000", "op/byte"]


def test_a_dotted_line_leads_from_a_point_of_the_run_to_the_roof() -> None:
    plot = lines([case(1e13, own=1e9)], height=12)
    point = next(row for row, line in enumerate(plot) if OWN in line)
    column = plot[point].index(OWN)
    assert {line[column] for line in plot[3:point]} == {"⡂"}


@pytest.mark.parametrize(("width", "height"), [(30, 5), (57, 7), (77, 12), (100, 18)])
def test_a_plot_fits_its_size(width: int, height: int) -> None:
    plot = lines([case(1e9, own=2e6, reference=1e9), case(1e14, own=1e9, number=2)], width, height)
    assert max(map(len, plot)) <= width
    assert len(plot) == height + 2


def test_a_case_without_operations_has_no_point() -> None:
    assert roofline_plot([case(0.0, own=2e6)], PEAK, None) is None
    told = Roofed().result(39)
    assert told is not None
    moving = [replace(each, work=Work(1e9, 0.0)) if each.work else each for each in told.cases]
    found = plain(roofline_report(replace(told, cases=tuple(moving)), None, 80, 30))
    assert "The task states only bytes or only operations" in found


@pytest.mark.parametrize(
    ("memory_bytes", "operations", "time_ns"),
    [(0.0, 1e9, 1.0), (1e30, 1e-300, 1.0), (5e-324, 1e30, 5e-324), (1e30, 1e30, 1e300)],
)
def test_absurd_work_and_times_have_no_point(memory_bytes: float, operations: float, time_ns: float) -> None:
    assert roofline_plot([case(operations, memory_bytes=memory_bytes, own=time_ns)], PEAK, None) is None
    usual = case(1e6, memory_bytes=1e6, own=1e3)
    absurd = case(1e299, memory_bytes=1e-9, number=2, own=1.0)
    assert lines([usual]) == lines([usual, absurd])


def test_only_the_same_cases_of_the_best_run_are_compared() -> None:
    told = Roofed().result(39)
    assert told is not None
    best = LeaderRun(34, "bob", told.cases)
    other = LeaderRun(34, "bob", tuple(replace(each, spec="another") for each in told.cases))
    assert [set(each.times_ns) for each in measured(told, best)] == [{OWN, BEST, REFERENCE}] * 3
    assert [set(each.times_ns) for each in measured(told, other)] == [{OWN, REFERENCE}] * 3
    failed = [replace(each, work=None) for each in told.cases]
    assert measured(replace(told, cases=tuple[Case, ...](failed)), best) == ()


async def test_a_best_run_that_may_not_be_read_is_left_out() -> None:
    class Closed(Roofed):
        def cases(self, run: int) -> tuple[Case, ...]:
            raise Refused(f"run {run} is bob's")

    async with app_on(Closed()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "enter", "8")
        assert "● this run   ○ the reference" in text_of(pilot.app)
