"""Measure what starting `hpc-board` costs: modules imported and wall time, against a Python that does nothing.

The commands take turns, so that a slow moment of the machine hits all of them. The exit code is 1 if a command loads
a library that it has no use for.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 15

EMPTY = ("-c", "pass")
BOARD = ("-m", "hpc_board")
KERNEL = "#!POPCORN leaderboard vectoradd_py\n"
HEAVY = ("textual", "torch", "paramiko", "numpy", "pandas")
UNNEEDED = {
    "--help": (*HEAVY, "jinja2", "yaml", "msgspec", "sqlite3", "sqlite_utils"),
    "list": (*HEAVY, "jinja2", "sqlite_utils"),
    "submit --dry-run": (*HEAVY, "sqlite_utils"),
    "runs": (*HEAVY, "jinja2"),
}


def main() -> int:
    """Print the table, and return 1 if a module is loaded that should not be."""
    with tempfile.TemporaryDirectory() as folder:
        kernel = Path(folder) / "kernel.py"
        kernel.write_text(KERNEL, encoding="utf-8")
        environ = {**os.environ, "XDG_DATA_HOME": folder, "XDG_CONFIG_HOME": folder}
        environ.pop("HPC_BOARD_CONFIG", None)
        commands = {
            "python -c pass": EMPTY,
            "--help": (*BOARD, "--help"),
            "list": (*BOARD, "list"),
            "submit --dry-run": (*BOARD, "submit", str(kernel), "--gpu", "all", "--dry-run"),
            "runs": (*BOARD, "runs"),
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, argv in commands.items():
                seconds[name].append(wall_seconds(argv, environ))
        loaded = {name: modules(argv, environ) for name, argv in commands.items()}
    empty = statistics.median(seconds["python -c pass"])
    print(f"{'command':<18} {'modules':>8} {'median ms':>10} {'x empty':>8}  unneeded modules")
    unneeded = {name: sorted(loaded[name].intersection(UNNEEDED.get(name, ()))) for name in commands}
    for name, times in seconds.items():
        median = statistics.median(times)
        words = ", ".join(unneeded[name]) or "none"
        print(f"{name:<18} {len(loaded[name]):>8} {median * 1e3:>10.1f} {median / empty:>8.2f}  {words}")
    return int(any(unneeded.values()))


def wall_seconds(argv: tuple[str, ...], environ: dict[str, str]) -> float:
    """How long Python takes for `argv`."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *argv], env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
    return time.perf_counter() - start


def modules(argv: tuple[str, ...], environ: dict[str, str]) -> set[str]:
    """Every module that Python imports for `argv`."""
    command = [sys.executable, "-X", "importtime", *argv]
    told = subprocess.run(
        command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, text=True
    )
    names = {line.rpartition("|")[2].strip() for line in told.stderr.splitlines() if line.startswith("import time:")}
    # Of a package that `importlib.import_module` loads, only what is in it is told.
    return names | {name.partition(".")[0] for name in names}


if __name__ == "__main__":
    sys.exit(main())
