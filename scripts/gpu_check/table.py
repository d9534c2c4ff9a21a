"""The Markdown page of a GPU check, from its rows; Python 3.10 and only the standard library."""

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

WITHIN_SHARE, WITHIN_NS = 0.01, 1000.0
ESSENTIAL = ("probe", "clock", "hidden")
"""The stages whose runs decide about the exit status also where the time was too short for them."""

NO_TIME = "no time"
WORKER = "worker"
"""The clock of a run whose times are the claims of the kernel's process; the others are `audited` and `judge`."""

REFERENCES = ("triton.testing.do_bench", "CUDA graph, flush subtracted", "ncu")
"""The clocks with cold caches, beside which the judge's time has to lie."""
PARTS = ("kernel_clock_ns", "bound_ns", "slack_ns")
"""The claim, the least time of the windows and the slack: an audited time is the larger one of the first two."""

_RULE = """\
The judge's time of each run beside the time of the same kernel by other clocks. A kernel counts as measured right if
each of these times lies between the least and the greatest of do_bench, the graph and ncu, or 1 % or 1 us beside them.
An audited time is the larger one of the claim, which the kernel's process measures, and the least time that the judge's
windows allow: the window less its overhead and its slack.
"""


def page(facts: Mapping[str, str], rows: Sequence[Row]) -> str:
    """Return the whole page: the machine, the answer of the clock, each run, and the measurements of the probe."""
    told = "; ".join(f"{name} {value}" for name, value in facts.items())
    kernels = [row for row in rows if row["kind"] in ("kernel", "clock")]
    parts = ("claim, us", "least, us", "slack, us")
    run_heads = ("kernel", "stage", "language", "verdict", "time, us", "its interval", *parts, "reference, us", "clock")
    sections = [
        f"# The judge on {facts.get('GPU', 'a GPU')}\n",
        f"`make gpu-check` measures it. {told}.\n",
        *(f"- {line}" for line in answers(rows)),
        "\n## The clock\n",
        _RULE,
        table(
            ("kernel", "the judge's, us", *parts, "do_bench", "graph", "ncu", "graph, hot", "right"),
            agreement_cells(rows),
        ),
        "## Runs\n",
        table((*run_heads, "drift, us", "isolation", "run, s"), [kernel_cells(row) for row in kernels]),
        "## Cheats\n",
        table(
            ("cheat", "expected", "verdict", "as expected", "time, us", "honest, us", "run, s"),
            [cheat_cells(row) for row in rows if row["kind"] == "cheat"],
        ),
        "## Premises of the clock\n",
        table(
            ("of the GPU and its host", "measured"),
            [[name, ", ".join(values)] for name, values in premises(rows).items()],
        ),
        "## Probe\n",
        table(("step", "answer", "s"), [probe_cells(row) for row in rows if row["kind"] == "probe" and "step" in row]),
    ]
    return "\n".join(sections)


def premises(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return the values of each premise of the clock, in all measurements."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if "premise" in row:
            found.setdefault(row["premise"], []).append(row["value"])
    return found


def answers(rows: Sequence[Row]) -> list[str]:
    """Return the sentences that a reader looks for first."""
    found = agreements(rows)
    right = sum(each["right"] for each in found)
    lines = [f"Clock: {right} of {len(found)} kernels within 1 % or 1 us of the other clocks."]
    bad, left_out = unexpected(rows), [row for row in rows if row.get("left_out")]
    lines.append(f"Runs: {len(made(rows)) - len(bad)} of {len(made(rows))} as expected.")
    lines += [f"Not as expected: {of(row)}: {why(row)}" for row in bad]
    untimed = [of(row) for row in left_out if row["left_out"].startswith(NO_TIME)]
    lines += [f"No time was left for {len(untimed)} runs: {', '.join(untimed)}."] if untimed else []
    lines += [f"{len(missing(rows))} of these are essential: give the check more `--seconds`."] if missing(rows) else []
    spread = rank_spread(rows)
    return [plain(line, 4000) for line in (*lines, *([spread] if spread else []))]


def made(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of runs that were made: each has a verdict."""
    return [row for row in rows if "verdict" in row]


def of(row: Row) -> str:
    """Return the name of a row's run."""
    return f"{row['kind']} {row['name']}" + (f" ({row['language']})" if row["language"] else "")


def agreements(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return each kernel of the clock with its times by all clocks, and whether the judge's are right."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["kind"] == "clock":
            for case in row.get("cases", ()):
                times = found.setdefault(case["name"], {"name": case["name"], "judge": [], "parts": [], "others": {}})
                times["judge"].append(case.get("time_ns"))
                times["parts"].append([case.get(name) for name in PARTS])
    for row in rows:
        if row["kind"] == "compare" and row["name"] in found and row.get("time_ns") is not None:
            found[row["name"]]["others"].setdefault(row["clock"], []).append(row["time_ns"])
    for each in found.values():
        others = [time for clock in REFERENCES for time in each["others"].get(clock, ())]
        each["right"] = bool(others) and all(near(time, min(others), max(others)) for time in each["judge"])
    return list(found.values())


def near(time_ns: "float | None", least_ns: float, most_ns: float) -> bool:
    """Return whether a time lies between two others, or beside them by 1 % or 1 us at most."""
    if time_ns is None:
        return False
    low, high = (max(WITHIN_NS, WITHIN_SHARE * each) for each in (least_ns, most_ns))
    return least_ns - low <= time_ns <= most_ns + high


def rank_spread(rows: Sequence[Row]) -> str:
    """Return a sentence about the scores of one file in several ranked runs; "" for fewer than two."""
    scores = [row["score_s"] for row in rows if row.get("stage") == "ranked" and row.get("score_s")]
    if len(scores) < 2:
        return ""
    spread = (max(scores) - min(scores)) / min(scores)
    listed = ", ".join(microseconds(1e9 * score) for score in scores)
    return f"Rank: one file in {len(scores)} ranked runs has the scores {listed} us, {100 * spread:.2f} % apart."


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(map(plain, row)) + " |" for row in rows), ""])


def plain(cell: str, most: int = 300) -> str:
    """Return a text that cannot end its cell."""
    return "".join(each if each.isprintable() else " " for each in cell).replace("|", "/")[:most]


def agreement_cells(rows: Sequence[Row]) -> list[list[str]]:
    """Return a line for each kernel of the clock; the times of several runs lie side by side."""
    cells: list[list[str]] = []
    for each in agreements(rows):
        clocks = [*REFERENCES, "CUDA graph, hot"]
        times = [", ".join(map(microseconds, each["others"].get(clock, ()))) for clock in clocks]
        judged = [", ".join(map(microseconds, found)) for found in (each["judge"], *zip(*each["parts"], strict=True))]
        cells.append([each["name"], *judged, *times, "yes" if each["right"] else "**no**"])
    return cells


def kernel_cells(row: Row) -> list[str]:
    """Return the line of a kernel's run."""
    named = [row["name"], row["stage"], row["language"]]
    if row.get("left_out"):
        return [*named, f"left out: {row['left_out']}", *[""] * 10]
    verdict = row["verdict"] if as_expected(row) else f"**no**: {why(row)}"
    names = ("time_ns", "low_ns", "high_ns", *PARTS, "reference_ns", "clock_drift_ns")
    time, low, high, *more, drift = [microseconds(row.get(name)) for name in names]
    clock = ": ".join(filter(None, (row.get("clock"), row.get("clock_reason"))))
    isolation, seconds = row.get("isolation", ""), f"{row['wall_s']:.1f}"
    return [*named, verdict, time, f"{low} to {high}" if low else "", *more, clock, drift, isolation, seconds]


def cheat_cells(row: Row) -> list[str]:
    """Return the line of a cheat's run."""
    named = [row["name"], " or ".join(row["expected"])]
    if row.get("left_out"):
        return [*named, f"left out: {row['left_out']}", "", "", "", ""]
    good = "yes" if as_expected(row) else f"**no**: {why(row)}"
    times = [microseconds(row.get(name)) for name in ("time_ns", "honest_ns")]
    return [*named, row["verdict"], good, *times, f"{row['wall_s']:.1f}"]


def probe_cells(row: Row) -> list[str]:
    """Return the line of a step of the probe."""
    return [row["step"], str(row.get("answer", "")), f"{row.get('took_s', 0):.1f}"]


def microseconds(nanoseconds: Any) -> str:
    """Return a time in words; empty where there is none."""
    return "" if nanoseconds is None else f"{nanoseconds / 1e3:.2f}"


def as_expected(row: Row) -> bool:
    """Return whether a run ended as expected; omitted runs did not fail.

    A run that passes is not timed only by the worker's clock, and a cheat has nine tenths of the honest time at least.
    """
    if row.get("left_out"):
        return True
    if row["verdict"] != "pass" or "pass" not in row["expected"]:
        return row["verdict"] in row["expected"]
    honest_ns = row.get("honest_ns")
    gains = honest_ns is not None and (row.get("time_ns") or 0.0) < 0.9 * honest_ns
    return row.get("clock") != WORKER and not gains


def why(row: Row) -> str:
    """Return the reason for which a run did not end as expected."""
    if row["verdict"] != "pass" or "pass" not in row["expected"]:
        return f"{row['verdict']}: {row['message'][:300]}"
    if row.get("clock") == WORKER:
        return f"timed only by the worker's clock: {row['clock_reason']}"
    return f"{microseconds(row.get('time_ns'))} us, and the honest kernel {microseconds(row['honest_ns'])} us"


def unexpected(rows: Sequence[Row]) -> list[Row]:
    """Return the runs that ended otherwise than they had to."""
    return [row for row in made(rows) if not as_expected(row)]


def missing(rows: Sequence[Row]) -> list[Row]:
    """Return the essential runs for which there was no time."""
    return [row for row in rows if row.get("stage") in ESSENTIAL and row.get("left_out", "").startswith(NO_TIME)]


def good(rows: Sequence[Row]) -> bool:
    """Return whether all is as expected, the clock is right for each kernel, and no essential run is missing."""
    return all(each["right"] for each in agreements(rows)) and not unexpected(rows) and not missing(rows)
