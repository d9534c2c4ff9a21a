"""Read every task of a checkout of GPU MODE's reference-kernels, or of KernelBot's examples, and print a table of them.

    python scripts/corpus.py CHECKOUT [--judge]

A row is a task folder: its competitions, the faults of reading it with them and by itself, its harness and languages,
and with --judge the findings of `hpc-board task check` on this machine's processor. The judge confines the tasks' code.
The exit code is 1 if a folder cannot be read.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hpc_board.catalog import competition, sources
from hpc_board.catalog.known_tasks import TASK_FILE
from hpc_board.errors import BoardError
from hpc_board.model.task import Task
from hpc_board.task_check.lint import Bounds, check

CASES_MAX, SECONDS = 4, 120
HEADS = ("folder", "competitions", "with them", "by itself", "harness", "languages", "findings")


def main() -> int:
    """Print the table, and return 1 if a folder cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--judge", action="store_true", help="run the judge of each task, too (minutes)")
    options = parser.parse_args()
    checkout = options.checkout.resolve()
    named = named_in_competitions(checkout)
    folders = sorted(file.parent for file in checkout.rglob(TASK_FILE))
    sys.stdout.write(f"Commit {commit(checkout)}: {len(folders)} task folders.\n\n")
    sys.stdout.write(f"| {' | '.join(HEADS)} |\n{'|---' * len(HEADS)}|\n")
    unread = 0
    for folder in folders:
        cells = row(folder, named.get(folder, {}), judge=options.judge)
        unread += "no" in {cell.partition(":")[0] for cell in cells[1:3]}
        cells = [str(folder.relative_to(checkout)), *cells]
        sys.stdout.write(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n")
        sys.stdout.flush()
    return 1 if unread else 0


def named_in_competitions(checkout: Path) -> Mapping[Path, Mapping[str, str]]:
    """Return for each task folder the competitions that name it, each with the fault of the folder there, or none."""
    found: dict[Path, dict[str, str]] = {}
    for file in sorted(each for each in checkout.rglob("*") if each.suffix in competition.ENDINGS and each.is_file()):
        if file.name == TASK_FILE or not competition.is_competition(file):
            continue
        faults = {Path(error.file).parent: error.message for error in competition.read(file).faults}
        for each in competition.directories(file):
            folder = (file.parent / each).resolve()
            found.setdefault(folder, {})[file.stem] = faults.get(folder, "")
    return found


def row(folder: Path, competitions: Mapping[str, str], *, judge: bool) -> Sequence[str]:
    """Return the cells of a task folder after its name."""
    faults = [fault for fault in competitions.values() if fault]
    with_them = f"no: {flat(faults[0])}" if faults else "yes" if competitions else "-"
    try:
        (task,) = sources.sound_tasks(folder)
    except BoardError as error:
        return ", ".join(competitions) or "-", with_them, f"no: {flat(error.message)}", "", "", ""
    languages = " ".join(map(str, task.accepted))
    findings = ", ".join(found(task)) or "none" if judge else ""
    return ", ".join(competitions) or "-", with_them, "yes", task.harness, languages, findings


def found(task: Task) -> Iterator[str]:
    """Yield the findings of a task's check, or the reason why this machine has none."""
    try:
        checked = check(task, Bounds(cases_max=CASES_MAX, seconds=SECONDS))
    except BoardError as error:
        yield f"not checked: {flat(error.message)}"
        return
    yield from (f"{each.severity}: {each.subject}" for each in checked.findings)


def flat(text: str) -> str:
    """Return the first 200 characters of a message on one line."""
    return " ".join(text.split())[:200]


def commit(checkout: Path) -> str:
    """Return the commit of a checkout; "unknown" for a folder without git."""
    asked = ["git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
