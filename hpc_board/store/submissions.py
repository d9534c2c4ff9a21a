"""Submissions: files that users sent for a version of a task."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from functools import partial

import msgspec

from hpc_board.domain.budget import Budget, BudgetLeft
from hpc_board.domain.code_tokens import tokens_sha256
from hpc_board.domain.draft import Draft
from hpc_board.domain.job_options import NO_OPTIONS, JobOptions
from hpc_board.domain.moderation import RERUN, SUBMISSION, Category, Decision, GpuDemand, GpuJobs, Rerun, Sender
from hpc_board.domain.origin import ENTRANTS_MAX, NO_ORIGIN, Origin, common_entrant
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Run, RunState, Status
from hpc_board.domain.submission import Submission, unknown_submission
from hpc_board.errors import InputError
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode, Task, language_of
from hpc_board.model.text import one_line
from hpc_board.store import boards, decisions
from hpc_board.store.database import DatabaseFile
from hpc_board.store.ranking import ON_BOARD, RANKED_AS
from hpc_board.store.row_values import UndecodableError, decoded, decoded_json, plain_text, time_text
from hpc_board.store.rows import decision_row, event_row, options_text, row_id, run_value
from hpc_board.store.runs import stored_run
from hpc_board.store.sqlite import Database, Row
from hpc_board.store.task_rows import task_definition, task_value

# A remark names the submission that a rerun repeats. The plus keeps SQLite from the index of versions, which would read
# the submissions of all users.
_SENT = """
SELECT runs.submission, runs.gpu, results.verdict,
       EXISTS (SELECT 1 FROM in_flight WHERE in_flight.run = runs.id) AS going,
       EXISTS (SELECT 1 FROM remarks
                WHERE remarks.submission = submissions.id AND action = 'rerun' AND text = :original) AS rerun
  FROM submissions
 CROSS JOIN runs ON runs.submission = submissions.id
  LEFT JOIN results ON results.run = runs.id
 WHERE submissions.user = :user AND submissions.task = :task AND +submissions.task_version = :version
   AND submissions.code_sha256 = :sha256 AND submissions.mode = 'ranked' AND submissions.milestone = ''
   AND runs.gpu IN (SELECT value FROM json_each(:gpus))
"""

_RERUNS_IN_FLIGHT = """
SELECT remarks.text AS original, runs.gpu
  FROM in_flight
 CROSS JOIN runs ON runs.id = in_flight.run
 CROSS JOIN submissions ON submissions.id = runs.submission
 CROSS JOIN remarks ON remarks.submission = submissions.id AND remarks.action = 'rerun'
 WHERE submissions.task = :task AND submissions.task_version = :version
"""

# A run that ended without a verdict on its kernel, or is to be cancelled, is no substitute for a new one.
_IDENTICAL = """
SELECT MAX(runs.id)
  FROM submissions
 CROSS JOIN runs ON runs.submission = submissions.id
  LEFT JOIN results ON results.run = runs.id
 WHERE submissions.user = :user AND submissions.task = :task AND submissions.code_sha256 = :sha256
   AND +submissions.task_version = :version AND submissions.mode = :mode AND submissions.milestone = ''
   AND runs.gpu = :gpu AND runs.options = :options AND submissions.entrant = :entrant
   AND NOT EXISTS (SELECT 1 FROM removed WHERE removed.submission = submissions.id)
   AND CASE WHEN EXISTS (SELECT 1 FROM in_flight WHERE in_flight.run = runs.id)
       THEN (SELECT NOT cancel_requested FROM events WHERE events.run = runs.id ORDER BY id DESC LIMIT 1)
       ELSE results.verdict IN (SELECT value FROM json_each(:verdicts)) END
"""

_ENTRANTS = "SELECT DISTINCT entrant FROM submissions WHERE user = ? AND entrant <> '' ORDER BY entrant"

_ON_KERNEL = json.dumps([verdict for verdict in Verdict if verdict is Verdict.PASS or verdict.blames_kernel])

_NEWEST_FILES = f"""
SELECT run_details.*, codes.code
  FROM (SELECT MIN(id) AS id, ROW_NUMBER() OVER (PARTITION BY user ORDER BY MIN(id) DESC) AS place
          FROM submissions
         WHERE task = :task AND tokens_sha256 IS NOT NULL AND milestone = ''
         GROUP BY user, tokens_sha256) AS files
  JOIN submissions ON submissions.id = files.id
  JOIN run_details ON run_details.id = (SELECT MIN(id) FROM runs WHERE submission = files.id)
  JOIN codes ON codes.sha256 = submissions.code_sha256
 WHERE files.place <= :of_user
    OR EXISTS (SELECT 1
                 FROM bests
                 JOIN runs ON runs.id = bests.run
                 JOIN submissions AS best ON best.id = runs.submission
                WHERE bests.user = {RANKED_AS.format("submissions.user", "submissions.task")} AND bests.task = :task
                  AND best.tokens_sha256 = submissions.tokens_sha256)
 ORDER BY submissions.id
"""  # noqa: S608 - our names

_RANKED_RUN = f"SELECT emulated FROM runs WHERE id = (SELECT run FROM bests WHERE {ON_BOARD} LIMIT 1)"  # noqa: S608


class NewRun(msgspec.Struct, frozen=True):
    """A run to store; `script` is its batch script as JSON, and the other fields are those of `Run`."""

    gpu: str
    cluster: str
    partition: str
    token: str
    nonce: str
    trust: str
    emulated: bool
    harness_sha256: str
    account: str = ""
    options: JobOptions = NO_OPTIONS
    script: str = ""
    fresh: bool = False

    def gpus(self, task: Task) -> int:
        """Return the number of GPUs that the run has; 0 on a CPU."""
        return 0 if self.emulated or self.gpu.upper() == "CPU" else task.world_size


class _TimeLimit(msgspec.Struct, frozen=True):
    """The time limit in a batch script as JSON."""

    time_limit_seconds: int


class JobParts(msgspec.Struct, frozen=True):
    """The stored parts of a run's job; `script` is its batch script as JSON."""

    task: Task
    code: bytes
    script: str
    in_closed_board: bool


class NewSubmission(msgspec.Struct, frozen=True):
    """A submission to store, with its runs.

    `milestone` is its author's name for it beside the ranks, `rerun` the submission that it repeats, and
    `unless_ranked` excludes a file that has passed already.
    """

    task: Task
    user: str
    file_name: str
    code: bytes
    mode: Mode
    note: str
    at: datetime
    runs: Sequence[NewRun]
    milestone: str = ""
    rerun: Rerun | None = None
    unless_ranked: bool = False
    origin: Origin = NO_ORIGIN


class SubmissionKey(msgspec.Struct, frozen=True):
    """The key that `user` gave to the submissions of one call; `request_sha256` is a hash of their contents."""

    user: str
    key: str
    request_sha256: str


class AlreadyStored(Exception):
    """Submissions with the same key, or a run of an identical file, are stored."""


class SubmissionGateway:
    """The submissions of a board, with their files and the versions of the tasks for which they were sent."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file

    def add(self, new: NewSubmission, *, sender: Sender | None) -> tuple[Submission, tuple[Run, ...]]:
        """Store a submission as `add_all` does."""
        return self.add_all([new], sender=sender)[0]

    def add_all(
        self,
        new: Sequence[NewSubmission],
        *,
        sender: Sender | None,
        deleted: Collection[str] = (),
        key: SubmissionKey | None = None,
        if_new: bool = False,
        clock: Callable[[], datetime] | None = None,
        budget: Budget | None = None,
    ) -> tuple[tuple[Submission, tuple[Run, ...]], ...]:
        """Store submissions, each with its file, its version of the task and its runs in flight; all or none.

        Reruns and milestones have no `sender`: the rules of the board do not bind them, and they change no team.
        `deleted` are the boards that were deleted before the submissions were drafted, for tasks of the settings. By a
        `clock` their time is that of the storage, once no other process writes.

        Raises:
            InputError: one is a rerun that another admin has sent since its author looked, or has a GPU that is
                emulated, unlike the runs of its standings.
            Refused: the rules of the board do not allow the `sender` all of them at this moment; or the `budget` has no
                room for them.
            AlreadyStored: submissions with this `key` are stored, or, with `if_new`, a run of an identical file.
        """
        # Other submissions wait for the lock, so the files are split into tokens before.
        hashes = [_tokens_sha256(each) for each in new]
        with self._file.writing() as db:
            if clock is not None:
                at = clock()
                new = [msgspec.structs.replace(each, at=at) for each in new]
            if key is not None and _key_row(db, key) is not None:
                raise AlreadyStored
            if if_new and any(repeated is not None for each in new for repeated in _repeated(db, each)):
                raise AlreadyStored
            _check(db, new, sender, deleted)
            if budget is not None:
                _check_budget(db, new, budget)
            for each in new:
                if each.rerun is not None:
                    _check_not_sent(db, each, each.rerun)
            added = tuple(_add(db, each, tokens, sender) for each, tokens in zip(new, hashes, strict=True))
            if key is not None:
                span = {"first": added[0][0].id, "last": added[-1][0].id}
                db.insert("keys", {**msgspec.structs.asdict(key), **span})
            return added

    def keyed(self, key: SubmissionKey) -> tuple[Run, ...]:
        """Return the runs of the submissions with this key, in the order of their storage; none without such a key.

        Raises:
            InputError: the submissions have other contents.
        """
        with self._file.reading() as db:
            row = _key_row(db, key)
            if row is None:
                return ()
            if row["request_sha256"] != key.request_sha256:
                raise InputError(
                    f'the key "{one_line(key.key)}" belongs to submission {row["first"]}, which has other contents.',
                    hint="Use a new key for each submission; a repeated one has the same files and options.",
                )
            return tuple(map(run_value, db.rows("run_details", "submission BETWEEN :first AND :last", row, order="id")))

    def identical(self, user: str, draft: Draft) -> dict[str, Run]:
        """Return the newest run of a file that is identical to a draft, by the name of its GPU.

        It has the same user, task, mode and options, and a verdict on its kernel unless it is in flight.
        """
        with self._file.reading() as db:
            sha256 = hashlib.sha256(draft.source.data).hexdigest()
            same = partial(_identical, db, user, draft.task, sha256, draft.mode)
            found = {gpu.name: same(gpu.name, draft.options, draft.origin.entrant) for gpu in draft.gpus}
            return {gpu: stored_run(db, number) for gpu, number in found.items() if number is not None}

    def check(self, new: Sequence[NewSubmission], *, sender: Sender, deleted: Collection[str] = ()) -> None:
        """Check submissions as `add_all` does, and store nothing."""
        with self._file.reading() as db:
            _check(db, new, sender, deleted)

    def get(self, number: int) -> Submission:
        """Return the submission with this number.

        Raises:
            InputError: no such submission exists.
        """
        with self._file.reading() as db:
            return stored_submission(db, number)

    def newest_files(self, task: str, of_user: int) -> Iterator[tuple[Run, bytes]]:
        """Yield different files that each user sent for a task in mode ranked: the newest `of_user` and the best.

        Each is named by the first run of its first submission.
        """
        with self._file.reading() as db:
            for row in db.query(_NEWEST_FILES, {"task": task, "of_user": of_user}):
                yield run_value(row), row["code"]

    def budget_left(self, budget: Budget, user: str, entrant: str, now: datetime) -> BudgetLeft:
        """Return the rest of a budget of a user, or of one of its entrants, at the time `now`."""
        with self._file.reading() as db:
            return decisions.budget_left(db, budget, user, entrant, now)

    def entrants(self, user: str) -> tuple[str, ...]:
        """Return the entrants of a user, by name."""
        with self._file.reading() as db:
            return tuple(_entrants(db, user))

    def task(self, name: str, version: str) -> Task:
        """Return a task as it was at `version`.

        Raises:
            InputError: the version has neither submissions nor a board.
        """
        with self._file.reading() as db:
            return _task(db, name, version)

    def job_parts(self, run: Run) -> JobParts:
        """Return the parts of a run's job, read in one transaction.

        Raises:
            InputError: one of them is damaged; other runs are not affected.
        """
        with self._file.reading() as db:
            row = db.row("scripts", "sha256 = (SELECT script_sha256 FROM runs WHERE id = ?)", [run.id])
            try:
                # A row of a restored database may have the checksum of another script.
                if row is None or hashlib.sha256(row["script"].encode()).hexdigest() != row["sha256"]:
                    raise UndecodableError(f"the batch script of run {run.id}")
                task, code = _task(db, run.task, run.task_version), _code(db, run.code_sha256)
            except UndecodableError as error:
                raise InputError(f"{error} in the database is damaged; rerun the submission") from error
            return JobParts(task, code, row["script"], boards.is_closed(db, run.task))

    def scripts(self, runs: Collection[int]) -> dict[int, str]:
        """Return the batch scripts of these runs as JSON, by the runs' numbers."""
        statement = (
            "SELECT runs.id AS run, scripts.script FROM runs JOIN scripts ON scripts.sha256 = runs.script_sha256 "
            "WHERE runs.id IN (SELECT value FROM json_each(?))"
        )
        with self._file.reading() as db:
            return {row["run"]: row["script"] for row in db.query(statement, [json.dumps([*runs])])}

    def knows_task(self, name: str) -> bool:
        """Return whether a task of this name has submissions or a board, without making a database."""
        if not self._file.is_there():
            return False
        with self._file.reading() as db:
            return db.count("tasks", "name = ?", [name]) > 0

    def code(self, sha256: str) -> bytes:
        """Return the submitted file with this sha256."""
        with self._file.reading() as db:
            return _code(db, sha256)

    def reruns_in_flight(self, task: str, version: str) -> frozenset[tuple[int, str]]:
        """Return the submissions whose rerun at this version is in flight, each with the GPU of that rerun."""
        with self._file.reading() as db:
            rows = db.query(_RERUNS_IN_FLIGHT, {"task": task, "version": version})
            return frozenset((int(row["original"]), row["gpu"]) for row in rows if str(row["original"]).isdecimal())


# Within a transaction


def _task(db: Database, name: str, version: str) -> Task:
    if row := db.row("tasks", "name = ? AND version = ?", [name, version]):
        return task_value(row)
    raise InputError(f"there is no task {name} at version {version[:12]}", hint="`hpc-board list` shows the tasks.")


def _code(db: Database, sha256: str) -> bytes:
    row = db.row("codes", "sha256 = ?", [sha256])
    code: bytes = b"" if row is None else row["code"]
    if hashlib.sha256(code).hexdigest() != sha256:
        raise UndecodableError(f"the file with the sha256 {sha256}")
    return code


def stored_submission(db: Database, number: int) -> Submission:
    """Return a submission as `SubmissionGateway.get` does."""
    row = db.row("submissions", "id = ?", [row_id(number)])
    if row is None:
        raise unknown_submission(number)
    return decoded(Submission, row)


def _key_row(db: Database, key: SubmissionKey) -> Row | None:
    return db.row("keys", "user = ? AND key = ?", [plain_text(key.user), key.key])


def _identical(
    db: Database, user: str, task: Task, sha256: str, mode: Mode, gpu: str, options: JobOptions, entrant: str
) -> int | None:
    """Return the number of the newest run that `SubmissionGateway.identical` describes."""
    given = {
        "user": plain_text(user),
        "task": task.name,
        "version": task.version,
        "sha256": sha256,
        "mode": mode.value,
        "gpu": gpu,
        "options": options_text(options),
        "entrant": entrant,
        "verdicts": _ON_KERNEL,
    }
    number: int | None = db.value(_IDENTICAL, given)
    return number


def _repeated(db: Database, new: NewSubmission) -> list[int | None]:
    """Return the number of the newest run of an identical file for each run of a submission to store."""
    same = partial(_identical, db, new.user, new.task, hashlib.sha256(new.code).hexdigest(), new.mode)
    return [same(run.gpu, run.options, new.origin.entrant) for run in new.runs]


def _check(db: Database, new: Sequence[NewSubmission], sender: Sender | None, deleted: Collection[str]) -> None:
    if sender is not None and sender.is_bound:
        _check_rules(db, new, sender, deleted)
    for each in new:
        _check_emulation(db, each)
    for user in dict.fromkeys(each.user for each in new if each.origin.entrant):
        _check_entrants(db, user, {each.origin.entrant for each in new if each.user == user} - {""})


def _check_rules(db: Database, new: Sequence[NewSubmission], sender: Sender, deleted: Collection[str]) -> None:
    """Check that the rules allow all of these submissions; an admin has limits alone.

    Raises:
        Refused: the board takes none, none of these users', or not so many or so long ones; or a task's own was deleted
            or is over.
    """
    senders = {each.user: each.at for each in new}
    for user, at in senders.items():
        decisions.check_open(db, user, at, admin=sender.role is Role.ADMIN)
    alike: dict[tuple[str, str, Category], list[NewSubmission]] = {}
    for each in new:
        alike.setdefault((each.user, each.task.name, Category.of(each.mode)), []).append(each)
    for (user, task, _), members in alike.items():
        entrants = [each.origin.entrant for each in members]
        decisions.check_limits(db, user, sender, task, members[0].mode, entrants, members[0].at)
    for user, at in senders.items():
        runs = tuple(jobs for each in new if each.user == user for jobs in _gpu_jobs(each))
        decisions.check_gpu_time(db, user, GpuDemand(runs), at)
    for each in new if sender.role is not Role.ADMIN else ():
        boards.check_takes(db, each.task, each.user, sender, each.at, deleted)


def _check_budget(db: Database, new: Sequence[NewSubmission], budget: Budget) -> None:
    """Check that a budget has room for submissions of a user: that of their entrant, or of the account if several.

    Raises:
        Refused: it has none.
    """
    demand = GpuDemand(tuple(jobs for each in new for jobs in _gpu_jobs(each)))
    runs, entrant = sum(len(each.runs) for each in new), common_entrant(each.origin for each in new)
    decisions.check_budget(db, budget, new[0].user, entrant, runs, demand, new[0].at)


def _check_entrants(db: Database, user: str, entrants: Collection[str]) -> None:
    """Check that a user's account has room for these entrants.

    Raises:
        InputError: it would have too many.
    """
    known = _entrants(db, user)
    added = set(entrants) - set(known)
    if added and len(known) + len(added) > ENTRANTS_MAX:
        raise InputError(
            f"{user} has {len(known)} entrants, and {', '.join(sorted(added))} would be more than {ENTRANTS_MAX}.",
            hint="Use one of the entrants, and `--tag` to tell its submissions apart.",
        )


def _entrants(db: Database, user: str) -> list[str]:
    return [row["entrant"] for row in db.query(_ENTRANTS, [plain_text(user)])]


def _gpu_jobs(new: NewSubmission) -> Iterator[GpuJobs]:
    """Yield each run on a GPU with the GPU-seconds that its time limit allows."""
    for run in new.runs:
        if gpus := run.gpus(new.task):
            limit_s = decoded_json(_TimeLimit, run.script).time_limit_seconds if run.script else 0
            yield GpuJobs("" if run.fresh or gpus > 1 else run.gpu, 1, gpus * limit_s)


def _check_emulation(db: Database, new: NewSubmission) -> None:
    """Check that no ranked run of an emulated GPU comes beside those of the GPU itself.

    Raises:
        InputError: the standings of this name have runs of the other kind.
    """
    for run in new.runs if new.mode is Mode.RANKED else ():
        board = {"task": new.task.name, "task_version": new.task.version, "gpu": run.gpu}
        ranked = next(db.query(_RANKED_RUN, board), None)
        if ranked is not None and bool(ranked["emulated"]) is not run.emulated:
            there, here = ("emulated runs", "not emulated") if ranked["emulated"] else ("real runs", "emulated")
            raise InputError(
                f"{run.gpu} is {here} here, but its standings for {new.task.name} contain {there}.",
                hint="Choose another mode, or ask the admin to rename the entry.",
            )


def _tokens_sha256(new: NewSubmission) -> str | None:
    language = language_of(new.file_name) or new.task.language
    return tokens_sha256(new.code, language) if new.mode is Mode.RANKED else None


def _add(
    db: Database, new: NewSubmission, tokens: str | None, sender: Sender | None
) -> tuple[Submission, tuple[Run, ...]]:
    sha256 = hashlib.sha256(new.code).hexdigest()
    version = new.task.version
    moment = time_text(new.at)
    db.insert("codes", {"sha256": sha256, "code": new.code}, ignore=True)
    definition = {"definition": task_definition(new.task), "added_at": moment}
    db.insert("tasks", {"name": new.task.name, "version": version, **definition}, ignore=True)
    repeated = _repeated(db, new)
    number = db.insert(
        "submissions",
        {
            "task": new.task.name,
            "task_version": version,
            "user": plain_text(new.user),
            "file_name": plain_text(new.file_name),
            "code_sha256": sha256,
            "mode": new.mode.value,
            "note": plain_text(new.note),
            "submitted_at": moment,
            "milestone": plain_text(new.milestone),
            "entrant": new.origin.entrant,
            "parent": new.origin.parent,
            "tokens_sha256": tokens,
        },
    )
    if new.origin.tags:
        db.insert("tags", *({"submission": number, "key": key, "value": value} for key, value in new.origin.tags))
    if new.rerun is not None:
        _mark_rerun(db, number, new.rerun)
    elif not new.milestone:
        boards.apply_terms(db, number, new.task.name, new.user, sender, new.at)
    runs = zip(new.runs, repeated, strict=True)
    added = [_add_run(db, number, run, run.gpus(new.task), repeats, new.at) for run, repeats in runs]
    return stored_submission(db, number), tuple(stored_run(db, run) for run in added)


def _check_not_sent(db: Database, new: NewSubmission, rerun: Rerun) -> None:
    """Check that no run of a rerun is in flight, and that its file has not passed if `unless_ranked`."""
    original, sha256 = str(rerun.of_submission), hashlib.sha256(new.code).hexdigest()
    given = {"task": new.task.name, "version": new.task.version, "user": plain_text(new.user), "sha256": sha256}
    gpus = json.dumps([run.gpu for run in new.runs])
    for row in db.query(_SENT, {**given, "gpus": gpus, "original": original}):
        passed = row["verdict"] == Verdict.PASS.value
        if (row["going"] and row["rerun"]) or (new.unless_ranked and (row["going"] or passed)):
            raise InputError(
                f"submission {original} was sent to {one_line(str(row['gpu']))} just now by another command "
                f"(submission {row['submission']}).",
                hint="Nothing was sent; try again for what is left, which --dry-run shows.",
            )


def _mark_rerun(db: Database, number: int, rerun: Rerun) -> None:
    original = str(rerun.of_submission)
    said = {"submission": number, "action": RERUN, "text": original, "by_user": plain_text(rerun.by_user)}
    db.insert("remarks", {**said, "at": time_text(rerun.at)})
    if late := db.row("late", "submission = ?", [rerun.of_submission]):
        db.insert("late", {"submission": number, "due_at": late["due_at"]})
    decision = Decision(RERUN, SUBMISSION, original, rerun.by_user, rerun.at, detail=str(number))
    db.insert("decisions", decision_row(decision))


def _add_run(db: Database, submission: int, new: NewRun, gpus: int, repeats: int | None, at: datetime) -> int:
    script_sha256 = hashlib.sha256(new.script.encode()).hexdigest() if new.script else None
    if script_sha256 is not None:
        db.insert("scripts", {"sha256": script_sha256, "script": new.script}, ignore=True)
    run = db.insert(
        "runs",
        {
            "submission": submission,
            "gpu": new.gpu,
            "cluster": new.cluster,
            "partition": new.partition,
            "token": new.token,
            "nonce": new.nonce,
            "trust": new.trust,
            "emulated": new.emulated,
            "harness_sha256": new.harness_sha256,
            "account": plain_text(new.account),
            "options": options_text(new.options),
            "script_sha256": script_sha256,
            "fresh": new.fresh,
            "gpus": gpus,
            "repeats": repeats,
        },
    )
    db.insert("events", event_row(run, Status(RunState.CREATED, at)))
    db.insert("in_flight", {"run": run})
    return run
