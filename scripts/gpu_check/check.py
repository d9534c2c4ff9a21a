"""Check the judge on a machine with a GPU: the bundled tasks, cheats that only a GPU allows, and other clocks.

Needs a GPU, its driver, and this Python (3.10 or newer) with PyTorch; Triton and nvcc where they are there. Nothing is
installed or downloaded. The page is written anew after every run, so a job that ends early leaves its results.
Exit status: 0 all as expected, 1 something was not, 2 wrong arguments or Python, 3 no GPU (then nothing is written).
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
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

import table

NO_GPU = 3
_RUN_SECONDS = 900
_PROBE_SECONDS = 300
_CUDA_HOME = Path("/usr/local/cuda")
_PROBE = """
import json, torch
facts = {"torch": torch.__version__, "gpu": None, "why": "", "triton": None}
try:
    import triton
    facts["triton"] = triton.__version__
except Exception:
    pass
try:
    if torch.cuda.is_available():
        torch.ones(1, device="cuda").sum().item()
        facts["gpu"] = torch.cuda.get_device_name(0)
        facts["runtime"] = torch.version.cuda or torch.version.hip
    else:
        facts["why"] = "PyTorch finds no GPU" + ("" if torch.version.cuda or torch.version.hip else " (a CPU build)")
except Exception as error:
    facts["why"] = f"PyTorch cannot use the GPU: {error}"
print(json.dumps(facts))
"""


def main(argv: Sequence[str]) -> int:
    """Run the requested checks."""
    parser = argparse.ArgumentParser(prog="gpu-check.pyz", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/measurements"), help="the folder of the page")
    parser.add_argument("--name", help="the page is gpu-NAME.md; by default the GPU's own name")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="WORD",
        help="runs whose name has this word, in the order of the words",
    )
    parser.add_argument("--list", action="store_true", help="list the runs, and run nothing")
    options = parser.parse_args(argv)
    if options.name is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,40}", options.name):
        parser.error("--name takes letters, digits, '.', '_' and '-'")
    archive = Path(sys.argv[0]).resolve()
    if not zipfile.is_zipfile(archive):
        parser.error("run the file that `make gpu-check-bundle` makes: python3 gpu-check.pyz")
    with zipfile.ZipFile(archive) as bundle:
        entries = wanted(json.loads(bundle.read("entries.json")), options.only)
        if options.list:
            for entry in entries:
                print(f"{entry['kind']} {entry['name']} {entry['language']}: {', '.join(entry['expected'])}")
            return 0
        found = probe()
        if not found.get("gpu"):
            print(f"gpu-check: no GPU here, so nothing was checked or written: {found['why']}", file=sys.stderr)
            return NO_GPU
        found["nvcc"] = nvcc(os.environ, _CUDA_HOME)
        return checked(bundle, entries, found, options.out, options.name)


def wanted(entries: Sequence[dict[str, Any]], words: Sequence[str]) -> list[dict[str, Any]]:
    """Return the selected runs in the order of the words, each once; without words all."""
    if not words:
        return list(entries)
    named = {f"{entry['kind']} {entry['name']} {entry['language']}": entry for entry in entries}
    found = {name: entry for word in words for name, entry in named.items() if word in name}
    return list(found.values())


def probe() -> dict[str, Any]:
    """Return this Python's facts, from a process of its own, so that this one never holds the GPU.

    It is started as the harness is (`-I`), which sees neither PYTHONPATH nor the packages of a user.
    """
    said, why = said_by([sys.executable, "-I", "-c", _PROBE], _PROBE_SECONDS)
    if said is None:
        return {"gpu": None, "why": f"PyTorch cannot be imported by {sys.executable} -I: {why}"}
    facts: dict[str, Any] = said
    return facts


def said_by(command: Sequence[str], seconds: float) -> tuple[Any, str]:
    """The JSON in the last line that a program prints; None, and why, where there is none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
        return json.loads(done.stdout.splitlines()[-1]), ""
    except subprocess.TimeoutExpired:
        return None, f"it did not end within {seconds:g} s"
    except (ValueError, IndexError):
        return None, (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]


def nvcc(environ: Mapping[str, str], usual: Path) -> str:
    """The folder of the CUDA toolkit in which the harness finds nvcc; empty where there is none."""
    homes = [environ.get("CUDA_HOME", ""), str(usual)]
    found = shutil.which("nvcc", path=":".join([environ.get("PATH", ""), *(f"{home}/bin" for home in homes if home)]))
    return str(Path(found).parents[1]) if found else ""


def checked(
    bundle: zipfile.ZipFile, entries: Sequence[dict[str, Any]], found: dict[str, Any], out: Path, name: str | None
) -> int:
    """Make all runs, write the page, and name the unexpected outcomes."""
    facts = {
        "GPU": found["gpu"],
        "driver": driver(),
        "runtime": str(found.get("runtime")),
        "PyTorch": found["torch"],
        "Triton": found["triton"] or "none",
        "Python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }
    short = name or re.sub(r"[^a-z0-9]+", "-", found["gpu"].lower()).strip("-")
    target = out / f"gpu-{short}.md"
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpu-check-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        bundle.extract("harness.pyz", folder)
        bundle.extract("compare.py", folder)
        comparisons, device = compared(folder, entries)
        rows: list[dict[str, Any]] = []
        for entry in entries:
            facts["runs"] = f"{len(rows)} of {len(entries)}, then it was ended"
            target.write_text(table.page(facts, rows, comparisons, device), encoding="utf-8")
            print(f"[{len(rows) + 1}/{len(entries)}] {entry['kind']} {entry['name']} ({entry['language']})", flush=True)
            rows.append(row_of(entry, folder, found))
            honest = [row for row in rows if row["kind"] == "kernel" and row["name"] == entry.get("task")]
            if entry["kind"] == "cheat" and honest:
                rows[-1]["honest_ns"] = min((row["median_ns"] for row in honest if row.get("median_ns")), default=None)
    facts["runs"] = str(len(rows))
    target.write_text(table.page(facts, rows, comparisons, device), encoding="utf-8")
    bad = table.unexpected(rows)
    for row in bad:
        print(f"{row['kind']} {row['name']} {row['language']}: {row['verdict']}: {row['message']}", file=sys.stderr)
    print(f"{target}: {len(rows) - len(bad)} of {len(rows)} runs as expected or left out")
    return int(bool(bad) or any(row.get("failed") for row in comparisons))


def row_of(entry: dict[str, Any], folder: Path, found: dict[str, Any]) -> dict[str, Any]:
    """One run, and how it ended."""
    row = {key: value for key, value in entry.items() if key != "files"}
    if not row.get("left_out") and entry["language"] == "triton" and not found["triton"]:
        row["left_out"] = "this Python has no Triton"
    if not row.get("left_out") and entry["language"] == "cu" and not found["nvcc"]:
        row["left_out"] = f"there is no nvcc in PATH, CUDA_HOME or {_CUDA_HOME}"
    if row.get("left_out"):
        return row
    # The harness keeps compiled files two folders above.
    job = folder / "jobs" / f"{entry['kind']}-{entry['name']}-{entry['language']}"
    for name, text in entry["files"].items():
        path = job / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    environ = {**os.environ, "CUDA_HOME": found["nvcc"]} if entry["language"] == "cu" else dict(os.environ)
    return {**row, **judged(job, folder / "harness.pyz", environ)}


def judged(job: Path, harness: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the harness's result in a job folder."""
    start = time.monotonic()
    command = [sys.executable, "-I", "-B", str(harness), "supervise", str(job / "job.json")]
    # A file, since a process that a broken GPU holds would keep a pipe open for ever.
    with (job / "printed").open("w+", encoding="utf-8", errors="replace") as printed:
        try:
            subprocess.run(
                command, env=environ, stdout=printed, stderr=subprocess.STDOUT, check=False, timeout=_RUN_SECONDS
            )
            printed.seek(0)
            told = printed.read()[-1000:]
        except subprocess.TimeoutExpired:
            told = f"the harness did not end within {_RUN_SECONDS} s"
    wall_s = time.monotonic() - start
    try:
        result = json.loads((job / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {"verdict": "no result", "message": told, "wall_s": wall_s}
    timings = [case["timing"] for case in result["cases"] if case.get("timing")]
    last = timings[-1] if timings else {}
    return {
        "clock": result["provenance"].get("clock", ""),
        "verdict": result["verdict"],
        "message": result["message"],
        "wall_s": wall_s,
        "median_ns": last.get("median_ns"),
        "low_ns": last.get("low_ns"),
        "high_ns": last.get("high_ns"),
        "baseline_ns": last.get("baseline_ns"),
        "isolation": result["provenance"].get("isolation", ""),
    }


def compared(folder: Path, entries: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The times of the clock runs' kernels by other clocks, and the premises of the harness's; asked in a process."""
    for entry in entries:
        if entry["kind"] == "clock":
            path = folder / "kernels" / entry["name"] / "kernel.py"
            path.parent.mkdir(parents=True)
            path.write_text(entry["kernel"], encoding="utf-8")
    command = [sys.executable, "-I", str(folder / "compare.py"), str(folder / "harness.pyz"), str(folder / "kernels")]
    said, why = said_by(command, _RUN_SECONDS)
    if said is None:
        return [{"kernel": "all", "clock": "all", "left_out": why, "failed": True}], {}
    return said["rows"], said["device"]


def driver() -> str:
    """The version of NVIDIA's driver."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.partition("\n")[0].strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
