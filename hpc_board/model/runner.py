"""The folder of a runner: the queue between the clients, which add and withdraw runs, and the runner on its node.

A run in the queue is one file. The runner takes it by renaming it, and a client withdraws it by renaming it: the rename
that succeeds has the run, on any file system, without a lock. The runner withdraws a run that needs more than its time.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from hpc_board.model.files import whole_file
from hpc_board.model.value import Value

FACTS = "job.json"
"""The file with the facts about a run, in its job folder, or about a runner, in that one's."""

QUEUE, TAKEN, DONE, WITHDRAWN = "queue", "taken", "done", "withdrawn"
"""The folders of entries: waiting ones, those that the runner took, ended, and withdrawn, by a client or the runner."""

STATE = "state.json"
"""The runner's own description in QUEUE."""

RELEASE = "release"
"""The file in QUEUE that tells the runner to take no more runs."""

STOP = ".stop"
"""The end of the name of a file in QUEUE that tells the runner to end the run with the rest of the name."""

PLACE = "HPC_BOARD_RUNNER"
"""The variable that tells a supervisor its place at a runner, see `place_facts`."""

_NAME = re.compile(r"\d{8}\.[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")

ValueT = TypeVar("ValueT", bound=Value)


class Entry(Value):
    """A run in the queue: its job folder, from the runner's on, and its id as a job.

    The runner judges the run if `least_seconds` are left, and ends it after `seconds`, or with its own time. `modules`
    are the slow ones that task and submission import.
    """

    job: str
    job_id: str
    seconds: int
    least_seconds: int
    modules: list[str]


class End(Value):
    """The end of a run at a runner.

    `state` is "ended", "cancelled", "timeout", "time_over" if the time of the runner was over before the run's own,
    "runner_ended" if the runner's job was told to end, or "node_fail".
    """

    state: str
    reason: str


class State(Value):
    """A runner as it described itself `at` that time of its own clock, in ISO 8601, after its start at `started_at`.

    `place` is the number of runs that it has taken. A runner that has `retired`, for that reason, takes no more.
    """

    started_at: str
    at: str
    place: int
    retired: str


def entry_name(number: int, job: str) -> str:
    """Return the file name of an entry, the `number`-th of its runner, for the job folder `job`."""
    return f"{number:08d}.{job}"


def number_of(name: str) -> int:
    """Return the number in the file name of an entry."""
    return int(name.partition(".")[0])


def is_entry(name: str) -> bool:
    """Return whether a file in a folder of entries can be one."""
    return _NAME.fullmatch(name) is not None and not name.endswith(STOP)


def place_facts(environ: Mapping[str, str]) -> dict[str, str | int]:
    """Return the provenance of a run at a runner: the runner's folder, the run's place, a hash of all runs before."""
    runner, place, before = environ.get(PLACE, ",,").split(",")
    return {"runner": runner, "runner_place": int(place), "runner_before_sha256": before} if runner else {}


def encoded(value: Value) -> bytes:
    """Return the contents of the file of an entry, an end or a state."""
    return json.dumps({name: getattr(value, name) for name in value.__match_args__}).encode()


def decoded(data: bytes, kind: type[ValueT]) -> ValueT:
    """Return the entry, end or state in the contents of a file.

    Raises:
        ValueError: they are not those of a value of this `kind`.
    """
    try:
        value: dict[str, Any] = json.loads(data)
        fields = {name: value[name] for name in kind.__match_args__}
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"not the file of a runner: {error}") from error
    for name, types in kind.__annotations__.items():
        found = fields[name]
        is_list = types == list[str]
        if type(found) is not (list if is_list else types) or (
            is_list and any(type(each) is not str for each in found)
        ):
            raise ValueError(f"not the file of a runner: {name}")
    return kind(**fields)


def record_end(folder: Path, name: str, end: End, taken: str = TAKEN) -> None:
    """Store the end of a run in a runner's folder, and take it from those `taken`."""
    with whole_file(folder / DONE / name, mode=0o640) as file:
        file.write(encoded(end))
    (folder / taken / name).unlink(missing_ok=True)
    (folder / QUEUE / f"{name}{STOP}").unlink(missing_ok=True)


def modules_in(texts: Iterable[str], device: str) -> list[str]:
    """Return the slow modules that the Python files with these `texts` seem to import."""
    text = "\n".join(texts)
    wanted = [] if device == "cpu" else ["torch"]
    for name in ("numpy", "torch"):
        if name not in wanted and re.search(rf"^[ \t]*(?:import|from)[ \t]+{name}\b", text, re.MULTILINE):
            wanted.append(name)
    return wanted
