"""The Markdown page of a GPU check, from its rows; Python 3.10 and the standard library alone."""

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def page(facts: Mapping[str, str], rows: Sequence[Row], comparisons: Sequence[Row], device: Mapping[str, str]) -> str:
    """The whole page: the machine, each run with its verdict, our times beside others', and the basis of the clock."""
    told = "; ".join(f"{name} {value}" for name, value in facts.items())
    kernels = [row for row in rows if row["kind"] == "kernel"]
    cheats = [row for row in rows if row["kind"] == "cheat"]
    clocks = {row["name"]: row for row in rows if row["kind"] == "clock"}
    ours = {name: row.get("median_ns") for name, row in clocks.items()}
    sections = [
        f"# The judge on {facts.get('GPU', 'a GPU')}\n",
        f"`make gpu-check` measures it. {told}.\n",
        "## Tasks\n",
        table(
            (
                "task",
                "language",
                "verdict",
                "time of the last benchmark, us",
                "its interval",
                "reference, us",
                "clock",
                "isolation",
                "run, s",
            ),
            [kernel_cells(row) for row in kernels],
        ),
        "## Cheats\n",
        table(("cheat", "expected", "verdict", "as expected", "time, us", "run, s"), map_cells(cheats)),
        "## The same kernels by other clocks\n",
        table(
            ("kernel", "clock", "time, us", "the judge's, us", "the judge's / this"),
            [comparison_cells(row, ours.get(row["kernel"])) for row in comparisons],
        ),
        "## Premises of the clock\n",
        table(("of the GPU and its host", "measured"), [list(item) for item in device.items()]),
    ]
    return "\n".join(sections)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(map(plain, row)) + " |" for row in rows), ""])


def plain(cell: str) -> str:
    """Return a text that cannot end its cell."""
    return "".join(each if each.isprintable() else " " for each in cell).replace("|", "/")[:300]


def kernel_cells(row: Row) -> list[str]:
    """One task in one language."""
    if row.get("left_out"):
        return [row["name"], row["language"], f"left out: {row['left_out']}", "", "", "", "", "", ""]
    verdict = row["verdict"] if as_expected(row) else f"**{row['verdict']}**: {row['message']}"
    times = [microseconds(row.get(name)) for name in ("median_ns", "low_ns", "high_ns", "baseline_ns")]
    interval = f"{times[1]} to {times[2]}" if times[1] else ""
    wall = f"{row['wall_s']:.1f}"
    clock, isolation = row.get("clock", "").partition(":")[0], row.get("isolation", "")
    return [row["name"], row["language"], verdict, times[0], interval, times[3], clock, isolation, wall]


def map_cells(rows: Sequence[Row]) -> list[list[str]]:
    """One cheat in each row."""
    cells: list[list[str]] = []
    for row in rows:
        expected = " or ".join(row["expected"])
        if row.get("left_out"):
            cells.append([row["name"], expected, f"left out: {row['left_out']}", "", "", ""])
            continue
        good = "yes" if as_expected(row) else f"**no**: {row['message']}"
        median = microseconds(row.get("median_ns"))
        cells.append([row["name"], expected, row["verdict"], good, median, f"{row['wall_s']:.1f}"])
    return cells


def comparison_cells(row: Row, ours_ns: Any) -> list[str]:
    """One kernel by one clock, beside the judge's time of the same kernel."""
    if row.get("left_out"):
        return [row["kernel"], row["clock"], f"left out: {row['left_out']}", "", ""]
    share = "" if ours_ns is None else f"{ours_ns / row['median_ns']:.3f}"
    return [row["kernel"], row["clock"], microseconds(row["median_ns"]), microseconds(ours_ns), share]


def microseconds(nanoseconds: Any) -> str:
    """A time in words; empty where there is none."""
    return "" if nanoseconds is None else f"{nanoseconds / 1e3:.2f}"


def as_expected(row: Row) -> bool:
    """Return whether a run ended as expected; omitted runs did not fail.

    A run that passes is timed by the judge's clock, and a cheat has nine tenths of the honest time at least.
    """
    if row.get("left_out"):
        return True
    if row["verdict"] != "pass" or "pass" not in row["expected"]:
        return row["verdict"] in row["expected"]
    honest_ns = row.get("honest_ns")
    gains = honest_ns is not None and (row.get("median_ns") or 0.0) < 0.9 * honest_ns
    return not row.get("clock", "").startswith("worker") and not gains


def unexpected(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The runs that ended otherwise than they had to."""
    return [dict(row) for row in rows if not as_expected(row)]
