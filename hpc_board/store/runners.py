"""Runners: the jobs that hold a GPU, with their states as events."""

import hashlib
import json
from collections.abc import Collection
from datetime import datetime

import msgspec
from msgspec.structs import replace

from hpc_board.domain.moderation import GpuDemand, GpuJobs
from hpc_board.domain.run import RunState, Status
from hpc_board.domain.runner import Runner
from hpc_board.errors import InputError, Refused
from hpc_board.store import usage
from hpc_board.store.database import DatabaseFile
from hpc_board.store.row_values import decoded, plain_text, time_text
from hpc_board.store.rows import row_id, status_row, status_value
from hpc_board.store.sqlite import Database, Row

_LIVE = "id IN (SELECT runner FROM live_runners)"

_WANTED_ENDS = (RunState.CANCELLED, RunState.FINISHED)

_LEFT = """
token IN (SELECT value FROM json_each(:tokens)) AND at < :before AND id NOT IN (
    SELECT events.runner FROM in_flight
      JOIN events ON events.id = (SELECT MAX(newest.id) FROM events AS newest WHERE newest.run = in_flight.run)
     WHERE events.runner IS NOT NULL
)
"""


class NewRunner(msgspec.Struct, frozen=True):
    """A runner to store.

    `script` is its batch script as JSON, `gpus` the number of GPUs that it holds, 0 on a CPU, and the other fields are
    those of `Runner`.
    """

    user: str
    account: str
    gpu: str
    cluster: str
    partition: str
    token: str
    request: str
    seconds: int
    idle_seconds: int
    gpus: int
    harness_sha256: str
    script: str
    at: datetime


class RunnerGateway:
    """The runners of a board.

    A method that takes the number of a runner raises InputError if no runner has it.
    """

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file

    def add(
        self, new: NewRunner, *, most: int | None = None, by_rules: bool = False, unless_held: bool = False
    ) -> Runner:
        """Store a runner whose job is not sent yet, or return the `reused` one that holds the GPU `unless_held`.

        Raises:
            Refused: its user has at least `most` runners, besides those that are to end; or, `by_rules`, their GPU time
                leaves no room.
        """
        with self._file.writing() as db:
            live = [_value(row) for row in db.rows("runner_details", f"{_LIVE} AND user = ?", [new.user], order="id")]
            held = [runner for runner in live if not runner.is_ending]
            same = [runner for runner in held if runner.gpu == new.gpu]
            if unless_held and same:
                return replace(max(same, key=lambda runner: (runner.takes_runs, runner.id)), reused=True)
            if most is not None and len(held) >= most:
                one = held[0]
                raise Refused(
                    f"you hold {one.gpu} already (runner {one.id}), and the limit of this board is {most} at a time.",
                    hint=f"`hpc-board release {one.id}` ends it.",
                )
            if by_rules:
                _check_gpu_time(db, new)
            sha256 = hashlib.sha256(new.script.encode()).hexdigest()
            db.insert("scripts", {"sha256": sha256, "script": new.script}, ignore=True)
            fields = msgspec.structs.asdict(new)
            fields = {name: value for name, value in fields.items() if name not in ("script", "at")}
            at = time_text(new.at)
            row = {**fields, "user": plain_text(new.user), "script_sha256": sha256, "created_at": at}
            number = db.insert("runners", row)
            db.insert("runner_events", status_row(Status(RunState.CREATED, new.at, runner=number)))
            db.insert("live_runners", {"runner": number})
            return _stored(db, number)

    def check(self, new: NewRunner) -> None:
        """Check the GPU time of a runner's user as `add` does by the rules, and store nothing."""
        with self._file.reading() as db:
            _check_gpu_time(db, new)

    def record(self, number: int, status: Status) -> bool:
        """Append a status, unless it is the newest one. Return False, without a change, if the runner has ended."""
        with self._file.writing() as db:
            found = _stored(db, number)
            newest = found.status
            if newest.state.ended:
                return False
            if newest.cancel_requested and (not status.state.ended or status.state in _WANTED_ENDS):
                # Another process may have requested the end since this one last looked. The request explains it, and
                # not the words of the scheduler or the runner on how it was carried out.
                status = replace(status, reason=newest.reason, cancel_requested=True)
            if (status := replace(status, runner=number)) != newest:
                db.insert("runner_events", status_row(status))
            if status.state.ended:
                db.delete("live_runners", "runner = ?", [number])
                # If no client has looked for hours, the end was long before it was seen.
                usage.enter_runner(db, number, min(status.at, found.ends_at or status.at))
            return True

    def request_end(self, number: int, reason: str) -> Runner:
        """Append the newest status of a runner once more, with the request to end it, and return the runner."""
        with self._file.writing() as db:
            found = _stored(db, number)
            if not found.state.ended:
                wish = replace(found.status, reason=plain_text(reason), cancel_requested=True)
                db.insert("runner_events", status_row(wish))
            return _stored(db, number)

    def get(self, number: int) -> Runner:
        """Return a runner as it is now."""
        with self._file.reading() as db:
            return _stored(db, number)

    def script(self, number: int) -> str:
        """Return the batch script of a runner as JSON."""
        with self._file.reading() as db:
            row = db.row("scripts", "sha256 = (SELECT script_sha256 FROM runners WHERE id = ?)", [row_id(number)])
            return "" if row is None else str(row["script"])

    def live(self, cluster: str | None = None) -> tuple[Runner, ...]:
        """Return the runners that have not ended, all or those of a cluster, oldest first."""
        where = f"{_LIVE} AND (:cluster IS NULL OR cluster = :cluster)"
        with self._file.reading() as db:
            return tuple(map(_value, db.rows("runner_details", where, {"cluster": cluster}, order="id")))

    def numbered(self, numbers: Collection[int]) -> dict[int, Runner]:
        """Return these runners by their numbers, without the numbers that no runner has."""
        where = "id IN (SELECT value FROM json_each(?))"
        with self._file.reading() as db:
            rows = db.rows("runner_details", where, [json.dumps([*numbers])])
            return {runner.id: runner for runner in map(_value, rows)}

    def newest(self, limit: int, user: str | None = None) -> tuple[Runner, ...]:
        """Return the newest runners, ended or not, of all users or of `user`, newest first."""
        given = {"user": user}
        with self._file.reading() as db:
            rows = db.rows("runner_details", ":user IS NULL OR user = :user", given, order="id DESC", limit=limit)
            return tuple(map(_value, rows))

    def former(self, runs: Collection[int]) -> frozenset[tuple[int, int]]:
        """Return these runs, each with every runner in whose queue it has been."""
        statement = (
            "SELECT DISTINCT run, runner FROM events WHERE run IN (SELECT value FROM json_each(:runs)) "
            "AND runner IS NOT NULL AND state = :queued"
        )
        given = {"runs": json.dumps([*runs]), "queued": RunState.QUEUED.value}
        with self._file.reading() as db:
            return frozenset((row["run"], row["runner"]) for row in db.query(statement, given))

    def ended(self, tokens: Collection[str], before: datetime) -> frozenset[str]:
        """Return those of `tokens` that are of runners which ended `before` that time, and have no run any more."""
        given = {"tokens": json.dumps([*tokens]), "before": time_text(before)}
        with self._file.reading() as db:
            found = map(_value, db.rows("runner_details", _LEFT, given))
            return frozenset(runner.token for runner in found if runner.state.ended)


def _check_gpu_time(db: Database, new: NewRunner) -> None:
    from hpc_board.store import decisions

    held = (GpuJobs(new.gpu, 1, new.gpus * new.seconds),) if new.gpus else ()
    decisions.check_gpu_time(db, new.user, GpuDemand(held=held), new.at)


def unknown_runner(number: int) -> InputError:
    """Return the error for a runner that does not exist."""
    return InputError(f"there is no runner {number}", hint="`hpc-board status` shows your runners.")


def _stored(db: Database, number: int) -> Runner:
    row = db.row("runner_details", "id = ?", [row_id(number)])
    if row is None:
        raise unknown_runner(number)
    return _value(row)


def _value(row: Row) -> Runner:
    return decoded(Runner, {**row, "status": status_value(row)})
