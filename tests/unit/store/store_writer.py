"""A process that writes into a store, until it is killed or is done: python -m tests.unit.store.store_writer ...

`DATABASE MOUNTS write` writes until it is killed, `DATABASE MOUNTS NUMBER` adds that many submissions. It prints 0 when
it begins, and a submission's id once all of it is stored. Many of these start, so they import only the store.
"""

import secrets
import sys
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from hpc_board.domain.run import Run, RunState, Status
from hpc_board.model.result import Case, Result, Timing, Verdict
from hpc_board.model.task import Language, Mode, Task, TaskFile
from hpc_board.store import Store
from hpc_board.store.submissions import NewRun, NewSubmission

TIMING = Timing(50, 2.0, 2.0, 1.0, 0.5, 1.0, 3.0, (2.0,) * 50)
TASK = Task("vector_add", Language.PY, "Add two vectors.", (TaskFile("submission.py", None),))


def now() -> datetime:
    return datetime.now(UTC)


def add(store: Store) -> tuple[Run, ...]:
    return store.submissions.add(
        NewSubmission(
            task=TASK,
            user=secrets.choice(["ada", "bob"]),
            file_name="kernel.py",
            code=secrets.token_bytes(2000),
            mode=Mode.RANKED,
            note="",
            at=now(),
            runs=[NewRun(gpu, "main", "gpu", secrets.token_hex(8), "nonce", "self-run", False, "") for gpu in "ABC"],
        ),
        sender=None,
    )[1]


def say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def write_for_ever(store: Store) -> None:
    for score_s in count(1):
        finished, lost, _ = runs = add(store)
        for run in runs:
            store.runs.record(run.id, Status(RunState.QUEUED, now(), job_id="104"))
        cases = tuple(Case("benchmark", index, "size: 1", Verdict.PASS, "", TIMING) for index in range(20))
        result = Result(finished.id, "nonce", "ranked", Verdict.PASS, "", cases)
        store.runs.finish(finished.id, Status(RunState.FINISHED, now()), result, score_s)
        store.runs.record(lost.id, Status(RunState.LOST, now()))
        say(finished.submission)


if __name__ == "__main__":
    target = Store(Path(sys.argv[1]), mounts=Path(sys.argv[2]))
    say(0)
    if sys.argv[3] == "write":
        write_for_ever(target)
    for _ in range(int(sys.argv[3])):
        say(add(target)[0].submission)
