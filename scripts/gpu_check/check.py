"""Check the judge on a machine with a GPU: a probe of the GPU, other clocks, cheats that only a GPU allows, languages.

Needs a GPU, its driver, and this Python (3.10 or newer) with PyTorch; other programs and libraries where they are
there. Nothing is installed or downloaded. The essential runs come first, and all of it ends within `--seconds`; each
result is on the page and in the raw data as soon as it is known, so that a check that is killed leaves its results.
Exit status: 0 all as expected and each kernel of the clock within 1 % or 1 us, 1 otherwise or with an essential run
missing, 2 wrong arguments or Python, 3 no GPU (then nothing is written).
"""

import argparse
import json
import os
import platform
import re
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if sys.version_info < (3, 10):  # noqa: UP036 - the node's own Python, which the project does not choose
    sys.stderr.write("gpu-check: needs Python 3.10 or newer; name one with: make PYTHON=/path/to/python gpu-check\n")
    sys.exit(2)

import children
import table

START = time.monotonic()
NO_GPU = 3
_LAST_SECONDS = 2.0
"""Time of the budget that no run gets: for the last page."""

_RESERVED = ("ranked", "destructive")
"""The stages that come also where the languages and the tasks before them take longer than planned."""

_FACTS_SECONDS = 90
_DESCRIPTION_SECONDS = 10
_RAW_BYTES_MAX = 15 * 2**20
_WINDOWS_MAX = 2**16
"""Characters of a run's windows in the raw data."""

_TEXT_MAX = 4000
_TIMES = ("time_ns", "low_ns", "high_ns", "reference_ns", "kernel_clock_ns", "bound_ns", "slack_ns")
_CUDA_HOME = Path("/usr/local/cuda")
_CUTLASS_HOMES = ("/usr/local/cutlass", "/opt/cutlass", "/usr")
PROGRAMS = ("nvcc", "ncu", "compute-sanitizer", "bwrap", "nvidia-smi")
MISSING = {
    "triton": "this Python has no Triton",
    "cupy": "this Python has no CuPy",
    "jax": "this Python has no JAX",
    "helion": "this Python has no Helion",
    "cutlass": "this Python has no CuTe DSL",
    "tilelang": "this Python has no TileLang",
    "cuda.tile": "this Python has no cuTile",
    "numba": "this Python has no Numba",
    "nvcc": f"there is no nvcc in PATH, CUDA_HOME or {_CUDA_HOME}",
    "ncu": "there is no ncu in PATH or beside nvcc",
    "compute-sanitizer": "there is no compute-sanitizer in PATH or beside nvcc",
    "bwrap": "there is no bwrap in PATH",
    "cutlass headers": f"there is no include/cutlass in CUTLASS_PATH, {', '.join(_CUTLASS_HOMES)}",
    "two GPUs": "this machine has one GPU",
}
_DESCRIPTIONS = (
    ("nvidia-smi", "topo", "-m"),
    ("nvcc", "--version"),
    ("ncu", "--version"),
    ("uname", "-a"),
    ("lscpu",),
    (sys.executable, "-I", "-m", "pip", "list"),
)
Row = dict[str, Any]


def main(argv: Sequence[str]) -> int:
    """Run the requested checks."""
    parser = argparse.ArgumentParser(prog="gpu-check.pyz", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/measurements"), help="the folder of the page")
    parser.add_argument("--name", help="the page is gpu-NAME.md; by default the GPU's own name and the date")
    parser.add_argument("--seconds", type=float, default=540, help="the time for all of it (default: 540)")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="WORD",
        help="runs whose name has this word, in the order of the words",
    )
    parser.add_argument("--list", action="store_true", help="list the runs, and run nothing")
    options = parser.parse_args(argv)
    if options.name is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}", options.name):
        parser.error("--name takes letters, digits, '.', '_' and '-'")
    archive = Path(sys.argv[0]).resolve()
    if not zipfile.is_zipfile(archive):
        parser.error("run the file that `make gpu-check-bundle` makes: python3 gpu-check.pyz")
    with zipfile.ZipFile(archive) as bundle:
        entries = wanted(json.loads(bundle.read("entries.json")), options.only)
        if options.list:
            for entry in entries:
                print(f"{full_name(entry)}: {entry['stage']}, {entry['seconds']:g} s, {', '.join(entry['expected'])}")
            return 0
        children.adopt()
        with tempfile.TemporaryDirectory(prefix="gpu-check-", ignore_cleanup_errors=True) as scratch:
            bundle.extractall(scratch)
            check = Check(Path(scratch), START + options.seconds - _LAST_SECONDS, options.out, options.name)
            return check.run(entries)


def full_name(entry: Row) -> str:
    """Return the words by which `--only` finds a run."""
    return f"{entry['kind']} {entry['name']} {entry['language']}".strip()


def wanted(entries: Sequence[Row], words: Sequence[str]) -> list[Row]:
    """Return the selected runs in the order of the words, each once; without words all."""
    if not words:
        return list(entries)
    found = {id(entry): entry for word in words for entry in entries if word in full_name(entry)}
    return list(found.values())


class Records:
    """The page and the raw data of a check, complete after each row.

    The raw data are `gpu-NAME/rows.jsonl`, a line for each row with the whole result of a run and its
    windows, and `gpu-NAME/environment.txt`.
    """

    def __init__(self, out: Path, name: str, facts: dict[str, str]) -> None:
        self.page = out / f"gpu-{name}.md"
        self.facts = facts
        self.rows: list[Row] = []
        self._raw = out / f"gpu-{name}"
        self._raw.mkdir(parents=True, exist_ok=True)
        for old in self._raw.glob("*"):
            old.unlink()

    def add(self, row: Row, raw: "Row | None" = None) -> None:
        """Append a row, with the values of `raw` only to the raw data."""
        row["at_s"] = round(time.monotonic() - START, 1)
        self.rows.append(row)
        line = json.dumps({**row, **(raw or {})})
        with (self._raw / "rows.jsonl").open("ab") as file:
            file.write((line if file.tell() + len(line) < _RAW_BYTES_MAX else json.dumps(row)).encode() + b"\n")
        self.write()

    def describe(self, title: str, text: str) -> None:
        """Append a part of the description of the machine."""
        with (self._raw / "environment.txt").open("a", encoding="utf-8") as file:
            file.write(f"== {title}\n{text[: 2**20]}\n")

    def write(self) -> None:
        """Write the page as a whole, or leave the former one."""
        new = self.page.with_name(self.page.name + ".new")
        new.write_text(table.page(self.facts, self.rows), encoding="utf-8")
        new.replace(self.page)


class Check:
    """A check on this machine, until the `deadline` of the monotonic clock."""

    def __init__(self, folder: Path, deadline: float, out: Path, name: str | None) -> None:
        self._folder = folder
        self._deadline = deadline
        self._out = out
        self._name = name
        self._found: dict[str, Any] = {}
        self._paths: dict[str, str] = {}
        self._jobs = 0

    def run(self, entries: Sequence[Row]) -> int:
        """Make the runs that fit in the time, in their order, and return the exit status."""
        self._found = self._facts()
        if not self._found.get("gpu"):
            print(f"gpu-check: no GPU here, so nothing was checked or written: {self._found['why']}", file=sys.stderr)
            return NO_GPU
        self._paths = programs(os.environ, _CUDA_HOME)
        records = self._records()
        smi = self._described(("nvidia-smi", "-q"), records)
        version = re.search(r"^Driver Version\s+: (\S+)", smi, re.MULTILINE)
        records.facts["driver"] = version[1] if version else "unknown"
        for at, entry in enumerate(entries):
            records.facts["runs"] = f"{at} of {len(entries)}, then it was ended"
            left = self._left() - reserved(entry, entries[at + 1 :])
            why = self._left_out(entry, left)
            if why:
                records.add({**without_files(entry), "left_out": why})
                continue
            seconds = min(entry["limit"], left)
            print(f"[{at + 1}/{len(entries)}] {time.monotonic() - START:.0f} s: {full_name(entry)}", flush=True)
            kinds = {"probe": self._probe, "compare": self._compare, "describe": self._describe}
            try:
                kinds.get(entry["kind"], self._judge)(entry, seconds, records)
            except Exception as error:  # noqa: BLE001 - a result of an unknown form must not end the check
                message = f"gpu-check failed: {type(error).__name__}: {error}"
                records.add({**without_files(entry), "verdict": "no result", "message": message, "wall_s": 0.0})
        records.facts["runs"] = f"{len(entries)}, in {time.monotonic() - START:.0f} s"
        records.write()
        print(f"{records.page}:", *table.answers(records.rows), sep="\n")
        return 0 if table.good(records.rows) else 1

    def _left(self) -> float:
        return self._deadline - time.monotonic()

    def _facts(self) -> Row:
        """Return this Python's facts, from a process of its own, so that this one never holds the GPU.

        It is started as the harness is (`-I`), which sees neither PYTHONPATH nor the packages of a user.
        """
        printed = self._folder / "facts"
        command: list[str | Path] = [sys.executable, "-I", self._folder / "probe.py", "facts"]
        ended = children.run(command, min(_FACTS_SECONDS, self._left()), printed)
        told = lines_of(text_of(printed))
        if told:
            return told[-1]
        why = "it did not end in time" if ended.status is None else text_of(printed)[-300:] or "it printed nothing"
        return {"gpu": None, "why": f"PyTorch cannot be imported by {sys.executable} -I: {why}"}

    def _records(self) -> Records:
        found, today = self._found, time.strftime("%Y-%m-%d", time.gmtime())
        short = re.sub(r"[^a-z0-9]+", "-", found["gpu"].lower()).strip("-")
        facts = {
            "GPU": found["gpu"],
            "driver": "unknown",
            "runtime": str(found.get("runtime")),
            "PyTorch": found["torch"],
            "Triton": found["modules"].get("triton") or "none",
            "Python": platform.python_version(),
            "date": today,
        }
        return Records(self._out, self._name or f"{short[:40]}-{today}", facts)

    def _describe(self, entry: Row, seconds: float, records: Records) -> None:
        """Write the description of the machine by its own programs."""
        start = time.monotonic()
        for command in _DESCRIPTIONS:
            if time.monotonic() - start < seconds:
                self._described(command, records)
        records.add({**without_files(entry), "took_s": round(time.monotonic() - start, 1)})

    def _described(self, command: Sequence[str], records: Records) -> str:
        """Write the output of a program to the description of the machine, and return it."""
        program = self._paths.get(command[0]) or shutil.which(command[0])
        if program is None:
            return ""
        printed = self._folder / "printed"
        children.run([program, *command[1:]], min(_DESCRIPTION_SECONDS, self._left()), printed)
        records.describe(" ".join(command), text_of(printed))
        return text_of(printed)

    def _left_out(self, entry: Row, left: float) -> str:
        """Return the reason for which a run that has some seconds is not made; "" if it is made."""
        has = {**self._found["modules"], **self._paths, "two GPUs": self._found["gpus"] > 1}
        absent = next((MISSING[need] for need in entry["needs"] if not has.get(need)), "")
        return absent or ("" if entry["seconds"] <= left else f"{table.NO_TIME}, it takes {entry['seconds']:g} s")

    def _probe(self, entry: Row, seconds: float, records: Records) -> None:
        """Make the steps of the probe, each of which prints its own line."""
        command: list[str | Path] = [self._folder / "probe.py", "steps", self._folder / "harness.pyz", str(seconds)]
        self._script(entry, command, seconds, records)

    def _compare(self, entry: Row, seconds: float, records: Records) -> None:
        """Have the kernels of the clock timed by other clocks."""
        names = ("compare.py", "kernels.py", "cases.json", "harness.pyz")
        command: list[str | Path] = [*(self._folder / name for name in names), self._paths.get("ncu") or "-"]
        self._script(entry, command, seconds, records)

    def _script(self, entry: Row, command: Sequence[str | Path], seconds: float, records: Records) -> None:
        """Run a script of the bundle; each line of JSON that it prints becomes a row at once."""
        printed = self._folder / "printed"
        row, taken = without_files(entry), 0

        def take() -> None:
            nonlocal taken
            told = lines_of(text_of(printed))
            for line in told[taken:]:
                records.add({**row, **line})
            taken = len(told)

        ended = children.run([sys.executable, "-I", *command], seconds, printed, poll=take)
        take()
        if ended.status != 0 or not taken:
            records.add({**row, **failed(ended, seconds, entry, text_of(printed))})

    def _judge(self, entry: Row, seconds: float, records: Records) -> None:
        """Have the harness judge a submission, as a batch script does."""
        # The harness keeps compiled files two folders above.
        self._jobs += 1
        job = self._folder / "jobs" / f"{self._jobs}"
        for name, text in entry["files"].items():
            path = job / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        command: list[str | Path] = [
            sys.executable,
            "-I",
            "-B",
            self._folder / "harness.pyz",
            "supervise",
            job / "job.json",
        ]
        ended = children.run(command, seconds, job / "printed", self._environment(entry))
        row = without_files(entry)
        row.update(wall_s=ended.seconds, held=ended.held)
        try:
            result = json.loads((job / "result.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            result = None
        # A run that is killed may have its result: processes that a broken driver holds keep the harness from ending.
        if result is None:
            row.update(failed(ended, seconds, entry, text_of(job / "printed")))
        else:
            row.update(outcome(result, entry))
        if entry["kind"] == "cheat":
            row["honest_ns"] = honest_ns(records.rows, entry["honest"])
        windows = lines_of(text_of(job / "windows.jsonl")[:_WINDOWS_MAX])
        records.add(row, result and {"result": shortened(result), "windows": windows})
        shutil.rmtree(job, ignore_errors=True)

    def _environment(self, entry: Row) -> dict[str, str]:
        """Return the environment of a run: with the CUDA toolkit, and without the program that it must not find."""
        environ = dict(os.environ)
        if "two GPUs" not in entry["needs"]:
            environ["CUDA_VISIBLE_DEVICES"] = environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
        folders = environ.get("PATH", os.defpath).split(":")
        if "nvcc" in self._paths:
            environ.setdefault("CUDA_HOME", str(Path(self._paths["nvcc"]).parents[1]))
        if entry["without"]:
            folders = [folder for folder in folders if not Path(folder, entry["without"]).exists()]
        elif "ncu" in self._paths:
            folders.append(str(Path(self._paths["ncu"]).parent))
        if "cutlass headers" in entry["needs"]:
            environ["CPATH"] = self._paths["cutlass headers"]
        return {**environ, "PATH": ":".join(folders)}


def reserved(entry: Row, later: Sequence[Row]) -> float:
    """Return the planned time of later runs that a run must leave to them; essential runs leave none."""
    if entry["stage"] in table.ESSENTIAL:
        return 0.0
    return sum(
        float(each["seconds"]) for each in later if each["stage"] in _RESERVED and each["stage"] != entry["stage"]
    )


def without_files(entry: Row) -> Row:
    """Return the part of an entry that its row repeats."""
    row = {key: entry[key] for key in ("stage", "kind", "name", "language", "expected")}
    return {**row, "planned_s": entry["seconds"]}


def failed(ended: children.Ended, seconds: float, entry: Row, printed: str) -> Row:
    """Return the end of a run without a result; the budget, not the run, is to blame if it got less than its limit."""
    if ended.status is not None:
        end = f"it exited with status {ended.status}: {printed[-_TEXT_MAX:].strip()}"
        return {"verdict": "no result", "message": end, "wall_s": ended.seconds}
    late = f"it was killed after {seconds:.0f} s" + (f"; {ended.held} processes remain" if ended.held else "")
    if seconds < entry["limit"]:
        return {"left_out": f"{table.NO_TIME}, {late}", "wall_s": ended.seconds}
    return {"verdict": "no result", "message": late, "wall_s": ended.seconds}


def outcome(result: Row, entry: Row) -> Row:
    """Return the parts of a result that a page shows."""
    timings = [case["timing"] or {} for case in result["cases"] if case["phase"] == "benchmark"]
    times = [{name: each.get(name) for name in _TIMES} for each in timings]
    cases = [{"name": name, **each} for name, each in zip(entry.get("cases", ()), times, strict=False)]
    return {
        **{name: result["provenance"].get(name) for name in ("clock_reason", "clock_drift_ns")},
        "clock": result["provenance"].get("clock", ""),
        "verdict": result["verdict"],
        "message": result["message"],
        "isolation": result["provenance"].get("isolation", ""),
        "score_s": result["score_s"],
        **(times[-1] if times else {}),
        **({"cases": cases} if cases else {}),
    }


def honest_ns(rows: Sequence[Row], name: str) -> "float | None":
    """Return the time of an honest kernel; None before it has one."""
    times = [row.get("time_ns") for row in rows if row["kind"] == "kernel" and row["name"] == name]
    return next((time_ns for time_ns in times if time_ns), None)


def shortened(result: Row) -> Row:
    """Return a result with the beginnings of its logs."""

    def short(value: Any) -> Any:
        return {**value, "text": value["text"][:_TEXT_MAX]} if isinstance(value, dict) and "text" in value else value

    return {name: short(value) for name, value in result.items()}


def programs(environ: Mapping[str, str], usual: Path) -> dict[str, str]:
    """Return the paths of programs and of CUTLASS's headers, of those that are there.

    The CUDA toolkit's are also looked for where the harness finds nvcc.
    """
    homes = [environ.get("CUDA_HOME", ""), str(usual)]
    path = ":".join([environ.get("PATH", ""), *(f"{home}/bin" for home in homes if home)])
    found = {name: shutil.which(name, path=path) for name in PROGRAMS}
    includes = [f"{home}/include" for home in (environ.get("CUTLASS_PATH", ""), *_CUTLASS_HOMES) if home]
    found["cutlass headers"] = next((each for each in includes if Path(each, "cutlass", "gemm").is_dir()), None)
    return {name: each for name, each in found.items() if each}


def text_of(path: Path) -> str:
    """Return the text of a file that a child has printed."""
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def lines_of(text: str) -> list[Row]:
    """Return the objects of JSON among the whole lines of a text."""
    found: list[Row] = []
    for line in text.split("\n")[:-1]:
        if line.startswith("{"):
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
