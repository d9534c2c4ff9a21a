"""Measure the start of `hpc-board`: imported modules and wall time, beside a bare Python.

The commands take turns, so that a slow moment of the machine hits all of them. The exit code is 1 if a command loads
a library that it does not need.
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
AT_THE_END = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
RUN = "from hpc_board.__main__ import main; main()"
TAB = (
    "import os; os.environ |= {'_HPC_BOARD_COMPLETE': 'bash_complete',"
    " 'COMP_WORDS': 'hpc-board submit --task vec', 'COMP_CWORD': '3'}; " + RUN
)
KERNEL = "#!POPCORN leaderboard vectoradd_py\n"
SLURM = """\
clusters:
  main: {scheduler: slurm}
gpus:
  A100: {cluster: main, partition: gpu, request: {style: gres, value: "gpu:a100:1"}}
"""
HEAVY = ("textual", "torch", "paramiko", "numpy", "pandas", "rich", "sqlite_utils")
CLICK_ALONE = (*HEAVY, "jinja2", "yaml", "msgspec", "sqlite3", "hpc_board.board")
READING = (
    *HEAVY,
    "jinja2",
    "statistics",
    "hpc_board.harness",
    "hpc_board.model.limits",
    "hpc_board.runs.job_folder",
    "hpc_board.runs.reconciler",
    "hpc_board.schedulers.slurm.client",
    "hpc_board.schedulers.local.client",
)
UNNEEDED = {
    "--version": CLICK_ALONE,
    "--help": CLICK_ALONE,
    "list": READING,
    "runs": READING,
    "show": READING,
    "list, Slurm": READING,
    "runs, Slurm": READING,
    "show, Slurm": READING,
    "Tab after --task": READING,
    "submit --dry-run": HEAVY,
}
GOALS = {"list": 10.0, "runs": 10.0, "show": 10.0, "Tab after --task": 10.0}
GOALS |= {f"{name}, Slurm": GOALS[name] for name in ("list", "runs", "show")}
"""The goals for commands, in times of a bare Python; printed beside the measured value, and never a failure."""


def main() -> int:
    """Print the table, and return 1 after an unneeded import."""
    with tempfile.TemporaryDirectory() as folder:
        kernel = Path(folder) / "kernel.py"
        kernel.write_text(KERNEL, encoding="utf-8")
        settings = Path(folder) / "slurm.yaml"
        settings.write_text(SLURM, encoding="utf-8")
        environ = {**os.environ, "XDG_DATA_HOME": folder, "XDG_CONFIG_HOME": folder, "XDG_CACHE_HOME": folder}
        environ.pop("HPC_BOARD_CONFIG", None)
        # An installed program has its byte code; a checkout must not be compiled in each round.
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        environ["PYTHONPYCACHEPREFIX"] = f"{folder}/bytecode"
        commands = {
            "python -c pass": EMPTY,
            "--version": (*BOARD, "--version"),
            "--help": (*BOARD, "--help"),
            "list": (*BOARD, "list"),
            "runs": (*BOARD, "runs"),
            "show": (*BOARD, "show", "vectoradd_py"),
            "list, Slurm": (*BOARD, "--config", str(settings), "list"),
            "runs, Slurm": (*BOARD, "--config", str(settings), "runs"),
            "show, Slurm": (*BOARD, "--config", str(settings), "show", "vectoradd_py"),
            "Tab after --task": ("-c", TAB),
            "submit --dry-run": (*BOARD, "submit", str(kernel), "--gpu", "all", "--dry-run"),
        }
        for argv in commands.values():
            wall_seconds(argv, environ)
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, argv in commands.items():
                seconds[name].append(wall_seconds(argv, environ))
        loaded = {name: modules(argv, environ) for name, argv in commands.items()}
    empty = {word: each(seconds["python -c pass"]) for word, each in (("least", min), ("median", statistics.median))}
    print(
        f"{'command':<18} {'modules':>8} {'least ms':>9} {'x empty':>8} {'median ms':>10} {'x empty':>8} {'goal':>5}"
        "  unneeded modules"
    )
    unneeded = {name: sorted(loaded[name].intersection(UNNEEDED.get(name, ()))) for name in commands}
    for name, times in seconds.items():
        least, median = min(times), statistics.median(times)
        words = ", ".join(unneeded[name]) or "none"
        print(
            f"{name:<18} {len(loaded[name]):>8} {least * 1e3:>9.1f} {least / empty['least']:>8.2f}"
            f" {median * 1e3:>10.1f} {median / empty['median']:>8.2f} {GOALS.get(name, ''):>5}  {words}"
        )
    return int(any(unneeded.values()))


def wall_seconds(argv: tuple[str, ...], environ: dict[str, str]) -> float:
    """Return Python's time for `argv`."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *argv], env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
    return time.perf_counter() - start


def modules(argv: tuple[str, ...], environ: dict[str, str]) -> set[str]:
    """Return the modules that Python has loaded at the end of `argv`."""
    program = argv[1] if argv[0] == "-c" else RUN
    done = subprocess.run(
        [sys.executable, "-c", AT_THE_END + program, *argv[2:]],
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
        text=True,
    )
    return set(done.stderr.splitlines()[-1].split())


if __name__ == "__main__":
    sys.exit(main())
