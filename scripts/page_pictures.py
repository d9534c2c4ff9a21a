"""Draw the pictures of the live pages for the manual: a service of an example board, seen in headless Chromium."""

import os
import random
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from hpc_board.domain.run import RunState
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.store import Store
from hpc_board.store.submissions import NewRun, NewSubmission
from tests.e2e.browser import Page, browsing
from tests.service import serving
from tests.slurm.lab import free_ports
from tests.unit.recorded import KERNEL, Recorded, recorded, result_of, row_case, status_of
from tests.values import replace

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
USERS = ("ada", "bob", "cyd", "dan", "eve", "fay", "gus", "hal", "ivy")
BEGIN = datetime(2026, 5, 1, 9, 0, tzinfo=UTC)
REFERENCE_NS = 4.2e6


def filled(board: Recorded) -> None:
    """Record a season of runs, the same ones each time."""
    numbers = random.Random(8)  # noqa: S311 - pictures that stay the same
    board.board.settings.board.mkdir(exist_ok=True)
    store = Store(board.board.settings.board / "board.db")
    for name in ("vectoradd_py", "softmax_py"):
        task = board.board.tasks.get(name)
        best_s = 4e-3
        for number in range(30):
            best_s *= numbers.uniform(0.8, 1.12)
            at = BEGIN + timedelta(days=6 * number, minutes=37 * number)
            run = NewRun(
                numbers.choice(("CPU", "H100")), "here", "", os.urandom(8).hex(), "nonce", "verified", False, ""
            )
            _, (added,) = store.submissions.add(
                NewSubmission(
                    task=task,
                    user=numbers.choice(USERS),
                    file_name=numbers.choice(("kernel.py", "tiled.py", "fused.py", "v2.py")),
                    code=KERNEL.encode(),
                    mode=Mode.RANKED,
                    note="",
                    at=at,
                    runs=[run],
                ),
                sender=None,
            )
            case = row_case(
                low_ns=0.99e9 * best_s, time_ns=1e9 * best_s, high_ns=1.02e9 * best_s, reference_ns=REFERENCE_NS
            )
            result = replace(result_of(Verdict.PASS, case), run=added.id)
            store.runs.finish(
                added.id, status_of(RunState.FINISHED), result, best_s, at, reference_s=REFERENCE_NS / 1e9
            )


def draw(page: Page, address: str, picture: str, *, width: int, dark: bool) -> None:
    """Write a picture of the page at `address`."""
    page.open(address, width=width, dark=dark)
    while page.value("document.getElementById('status').textContent") != "Live":
        pass
    page.picture(PICTURES / picture)
    print(PICTURES / picture)


def main() -> None:
    """Draw the board's page, and the list of boards on a phone."""
    with tempfile.TemporaryDirectory(prefix="hb-") as name:
        folder = Path(name)
        (folder / "board").mkdir()
        board = recorded(folder / "board")
        filled(board)
        port = free_ports(1)[0]
        settings = msgspec.structs.replace(board.board.settings, web=f"127.0.0.1:{port}")
        with serving(settings, folder / "board.sock"), browsing(folder / "profile") as page:
            draw(page, f"http://127.0.0.1:{port}/boards/vectoradd_py", "page-board.png", width=1200, dark=False)
            draw(page, f"http://127.0.0.1:{port}/", "page-phone.png", width=390, dark=True)


if __name__ == "__main__":
    main()
