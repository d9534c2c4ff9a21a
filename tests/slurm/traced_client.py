"""Run a command of hpc-board in this process, and write what it entered as JSON to the file named first."""

import json
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = Path(__file__).resolve().parents[2] / "hpc_board"
_OPTIMIZED = 0x1
"""The flag of functions, which the bodies of modules and classes do not have."""


def main() -> None:
    """Count the calls of functions of the package, comprehensions and lambdas not included."""
    report, *words = sys.argv[1:]
    calls: Counter[tuple[str, str]] = Counter()
    # Kept, so that none has the identity of an earlier one: a generator's frame is entered several times.
    transactions: dict[int, FrameType] = {}
    prefix = f"{PACKAGE}/"

    def count(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_flags & _OPTIMIZED or not code.co_filename.startswith(prefix):
            return
        if "<" in code.co_name:
            return
        calls[code.co_filename.removeprefix(prefix), code.co_qualname] += 1
        if code.co_qualname == "_transaction" and code.co_filename.endswith("store/database.py"):
            transactions[id(frame)] = frame

    from hpc_board.__main__ import main as client

    sys.argv = ["hpc-board", *words]
    sys.setprofile(count)
    try:
        client()
    finally:
        sys.setprofile(None)
        found = {
            "modules": len({module for module, _ in calls}),
            "functions": len(calls),
            "calls": calls.total(),
            "transactions": len(transactions),
            "renderings": calls["runs/job_folder.py", "_rendered"],
            "commands": calls["transport/this_host.py", "ThisHost.run"],
        }
        Path(report).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
