"""Commands about held GPUs on a scripted scheduler: its answers, the states that they leave, and the words on them."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from click.testing import Result as Done
from msgspec.structs import replace

from hpc_board.board import Board, context
from hpc_board.board import runners as facade
from hpc_board.board.context import Context
from hpc_board.board.held import live_runners
from hpc_board.domain.draft import Source, SubmissionRequest
from hpc_board.domain.run import NEVER_STARTS, JobState, JobStatus, RunState, Status
from hpc_board.domain.runner import Runner
from hpc_board.domain.runner_rules import LEAST_HOLD_MINUTES, HoldTimes
from hpc_board.errors import InputError, Refused, SchedulerError, SchedulerRefused, StorageError
from hpc_board.files import LOCK_SECONDS
from hpc_board.model.runner import QUEUE, STATE, State, encoded
from hpc_board.runs.reconciler import ClusterLocks
from hpc_board.runs.runners import new_runner
from hpc_board.schedulers import Job
from hpc_board.scripting import Board as Script
from hpc_board.tui.local_files import sent_as
from hpc_board.tui.preferences import Memory, state_file
from tests.scripted import Scripted
from tests.unit.recorded import KERNEL, Recorded, call, read

SILENT = SchedulerError("sbatch: error: Socket timed out")
RUNNING = JobStatus(JobState.RUNNING, node="n1", source="squeue: RUNNING")


def one_of(
    board: Board,
    user: str,
    state: RunState = RunState.CREATED,
    gpu: str = "H100",
    harness: str = "0" * 64,
    **status: object,
) -> Runner:
    """Store a runner of `user`, by default of another version."""
    account = board.context.installation.account
    new = new_runner(board.context.gpu(gpu), user, account, HoldTimes(1800, 300), harness)
    added = board.context.store.runners.add(new)
    values = {"job_id": "", "runner": added.id, **status}
    board.context.store.runners.record(added.id, Status(state, datetime.now(UTC), **values))  # type: ignore[arg-type]
    return board.context.store.runners.get(added.id)


def newest(board: Recorded) -> Runner:
    return board.board.runners.recent(1)[0]


@contextmanager
def locked(board: Recorded, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep the lock of the cluster, as another process that is at work."""
    monkeypatch.setattr(context, "LOCK_SECONDS", 0)
    monkeypatch.setattr(context, "_SERVED_LOCK_SECONDS", 0)
    assert board.door.runners.live() == ()
    own = board.board.context
    with ClusterLocks(own.settings.board, own.store).of("here", wait_seconds=LOCK_SECONDS) as mine:
        assert mine
        yield


def retire(job: Job) -> None:
    """Have a runner take no run before a pass knows it."""
    if job.comment.startswith("hpc-board runner"):
        state = State("2026-01-01T00:00:00+00:00", "2026-01-01T00:00:01+00:00", 1, "its queue is full")
        (job.folder / QUEUE / STATE).write_bytes(encoded(state))


def submitted(board: Recorded, *words: str) -> Done:
    done = call(board, "submit", board.kernel, "--gpu", "CPU", *words)
    assert done.exit_code == 0, done.output
    return done


# Hold


def test_a_fault_of_the_runner_of_another_user_is_no_fault_of_ones_own(board: Recorded, scheduler: Scripted) -> None:
    other = one_of(board.board, "bob", RunState.SUBMITTING)
    scheduler.find_error = SILENT
    assert read(board, "hold", "CPU")["state"] in ("queued", "created")
    done = call(board, "release", "2")
    assert (done.exit_code, done.stdout.startswith("Runner 2: release requested")) == (0, True), done.output
    assert "error" not in done.stderr.replace(SILENT.message, "")
    assert board.board.context.store.runners.get(other.id).state is RunState.SUBMITTING


def test_a_refused_runner_is_an_error_that_says_that_nothing_is_held(board: Recorded, scheduler: Scripted) -> None:
    scheduler.submit_error = SchedulerRefused("sbatch: invalid partition", hint="Ask the admin.")
    done = call(board, "hold", "CPU")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "sbatch: invalid partition" in done.stderr
    assert "Ask the admin.\nNo CPU is held." in done.stderr
    assert board.door.runners.live() == ()


@pytest.mark.parametrize("words", [(), ("--wait", "--timeout", "0")])
def test_a_runner_without_an_answer_of_the_scheduler_is_stored_and_not_queued(
    board: Recorded, scheduler: Scripted, words: tuple[str, ...]
) -> None:
    scheduler.submit_error = SILENT
    done = call(board, "hold", "CPU", *words)
    if words:
        assert done.exit_code == 4
        assert "It is stored, and not queued yet: `hpc-board status` shows it" in done.stderr
        return
    assert done.exit_code == 0, done.output
    assert "Runner 1 on CPU is not queued yet: " in done.stderr
    assert "will look for its job, which may exist." in done.stderr
    assert "Your runs on CPU get jobs of their own until it is queued" in done.stderr
    assert "wait with it" not in done.stderr
    assert "`hpc-board release 1` ends it" in done.stderr


def test_a_runner_that_was_not_sent_is_told_to_be_sent_later(
    board: Recorded, scheduler: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    with locked(board, monkeypatch):
        done = call(board, "hold", "CPU")
    assert scheduler.submitted == []
    assert done.exit_code == 0, done.output
    assert json.loads(call(board, "status", "--json").stdout)["runners"][0]["id"] == 1
    sender = "the service" if board.services else "`hpc-board poll` or the app"
    assert f"Stored; {sender} will send it." in done.stderr
    assert "get jobs of their own until it is queued" in done.stderr


def test_a_runner_that_is_queued_keeps_its_place_when_the_wait_ends(board: Recorded, scheduler: Scripted) -> None:
    del scheduler
    assert "Your runs on CPU wait with it: " in call(board, "hold", "CPU").stderr
    assert call(board, "release").exit_code == 0
    done = call(board, "hold", "CPU", "--wait", "--timeout", "0")
    assert (done.exit_code, "It keeps its place in the queue: `hpc-board status`" in done.stderr) == (4, True)


def test_a_runner_that_never_starts_takes_no_runs(board: Recorded, scheduler: Scripted) -> None:
    scheduler.status = JobStatus(JobState.PENDING, reason=f"{NEVER_STARTS}BadConstraints")
    runner = board.board.runners.hold("CPU")
    board.board.context.store.runners.record(runner.id, replace(runner.status, reason=f"{NEVER_STARTS}BadConstraints"))
    done = submitted(board, "--hold", "10m")
    assert "Until it takes runs, yours have jobs of their own. `hpc-board release 1` ends it." in done.stderr
    assert len(board.board.runners.recent()) == 1


def test_a_wait_for_a_gpu_outlasts_twenty_newer_runners(
    board: Recorded, scheduler: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_seconds: float) -> None:
        if scheduler.status is not RUNNING:
            for _ in range(21):
                one_of(board.board, board.board.user, RunState.CANCELLED)
        scheduler.status = RUNNING
        turns.append(1)
        assert len(turns) < 3000
        pause(0.01)

    turns: list[int] = []
    pause = time.sleep
    monkeypatch.setattr("hpc_board.board.held.time.sleep", start)
    done = call(board, "hold", "CPU", "--wait")
    assert (done.exit_code, "state   holds the GPU" in done.stdout) == (0, True), done.output
    assert "Your runs on CPU go there" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("hold", "CPU", "--for", "4m59s"), "a GPU cannot be held for 4m59s: choose 5m to 1h."),
        (("hold", "CPU", "--for", "0m"), "a GPU cannot be held for 0s: choose 5m to 1h."),
        (("hold", "CPU", "--for", "90m"), "a GPU cannot be held for 1h30m: choose 5m to 1h."),
        (("hold", "CPU", "--idle", "0s"), "a GPU cannot be held for 0s without a run: choose 1s to 5m."),
        (("submit", "kernel.py", "--gpu", "CPU", "--hold", "1s"), "a GPU cannot be held for 1s: choose 5m to 1h."),
    ],
)
@pytest.mark.parametrize("is_held", [False, True])
def test_a_time_out_of_its_bounds_is_refused_with_both(
    board: Recorded,
    scheduler: Scripted,
    words: tuple[str, ...],
    message: str,
    is_held: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(board.folder)
    if is_held:
        board.board.runners.hold("CPU")
    done = call(board, *words)
    assert (done.exit_code, done.stdout, len(scheduler.submitted)) == (2, "", int(is_held))
    assert f"error: {message}\n" in done.stderr
    assert (
        f"hint: `runners.{'idle_minutes' if '--idle' in words else 'minutes'}` in the board's settings is"
        in done.stderr
    )


def test_settings_that_permit_no_hold_are_an_error_that_names_the_least(board: Recorded, scheduler: Scripted) -> None:
    document = yaml.safe_load(board.settings.read_text())
    board.settings.write_text(yaml.safe_dump({**document, "runners": {"minutes": LEAST_HOLD_MINUTES - 1}}))
    with pytest.raises(InputError, match="minutes from 5 to 10080"):
        board.board.runners.hold("CPU")
    assert scheduler.submitted == []


def test_a_runner_with_the_least_time_takes_runs_for_half_of_it(board: Recorded, scheduler: Scripted) -> None:
    held = board.board.runners.hold("CPU", 60 * LEAST_HOLD_MINUTES)
    submitted(board)
    assert len(scheduler.submitted) == 1
    assert [run.status.runner for run in board.board.runs.list()] == [1]
    began = replace(held, started_at=held.created_at)
    assert began.has_time(held.created_at + timedelta(seconds=150))
    assert not began.has_time(held.created_at + timedelta(seconds=151))


def test_the_wait_for_a_gpu_goes_on_with_the_runner_of_an_earlier_call(
    board: Recorded, scheduler: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("hpc_board.board.held.time.sleep", interrupt)
        done = call(board, "hold", "CPU", "--wait")
    assert "Stopped waiting. Runner 1 keeps its place in the queue: `hpc-board status` shows it" in done.stderr
    scheduler.status = RUNNING
    done = call(board, "hold", "cpu", "--for", "10m", "--wait")
    assert (done.exit_code, "state   holds the GPU" in done.stdout) == (0, True), done.output
    assert "You have runner 1 already: CPU " in done.stderr
    assert len(board.board.runners.recent()) == 1


def test_a_gpu_whose_runner_is_to_end_is_told_to_be_ending(board: Recorded, scheduler: Scripted) -> None:
    del scheduler
    one_of(board.board, board.board.user, RunState.RUNNING, job_id="7")
    one_of(board.board, "bob", RunState.RUNNING, job_id="8", cancel_requested=True)
    assert "held by you, 30 min left; held by bob, ending" in call(board, "gpus").stdout.replace("29 min", "30 min")
    (gpu,) = [each for each in json.loads(call(board, "gpus", "--json").stdout) if each["gpu"] == "H100"]
    assert [runner["ending"] for runner in gpu["runners"]] == [False, True]


def test_a_release_of_nothing_has_the_object_of_an_error(board: Recorded, scheduler: Scripted) -> None:
    del scheduler
    board.board.runners.hold("CPU")
    done = call(board, "release", "77", "78", "--json")
    assert (done.exit_code, json.loads(done.stdout)["error"]["message"]) == (2, "there is no runner 77")
    assert [done.stderr.count(f"there is no runner {number}.") for number in (77, 78)] == [1, 1]
    done = call(board, "release", "77", "1", "--json")
    assert (done.exit_code, [each["id"] for each in json.loads(done.stdout)]) == (2, [1])
    assert done.stderr.count("there is no runner 77.") == 1


def test_a_fresh_run_behind_the_own_held_gpu_is_told(board: Recorded, scheduler: Scripted) -> None:
    del scheduler
    board.board.runners.hold("CPU")
    done = submitted(board, "--fresh")
    words = "Run 1 has its own job on CPU: `--fresh` demands it, while runner 1 holds a GPU for you."
    assert f"{words} `hpc-board release 1` frees that GPU." in done.stderr


# Runners of others


def test_a_runner_is_for_its_user_and_for_admins(board: Recorded, scheduler: Scripted) -> None:
    del scheduler
    one_of(board.board, "bob")
    one_of(board.board, "")
    installation = board.board.context.installation
    plain = Board.within(Context(installation, "ada", board.board.warn))
    for number, owner in ((1, "bob"), (2, "the board")):
        assert board.board.runners.get(number).id == number
        for act in (plain.runners.get, plain.runners.release):
            with pytest.raises(Refused, match=f"runner {number} belongs to {owner}\\."):
                act(number)
    with pytest.raises(InputError, match="there is no runner 9"):
        plain.runners.get(9)


def test_a_board_without_a_database_has_no_runner(board: Recorded) -> None:
    with pytest.raises(InputError, match="there is no runner 1"):
        board.board.runners.get(1)
    assert not board.board.settings.board.exists()


def test_live_runners_come_without_those_that_have_ended(
    board: Recorded, scheduler: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    del scheduler
    user = board.board.user
    for state in (RunState.CANCELLED, RunState.QUEUED, RunState.QUEUED):
        one_of(board.board, user, state, job_id="7")
    one_of(board.board, "bob", RunState.QUEUED, job_id="8")
    door = board.door
    assert [runner.id for runner in live_runners(door)] == [3, 2]

    def refuse() -> None:
        raise Refused("you may not use this board")

    monkeypatch.setattr(door.runners, "live", refuse)
    assert [runner.id for runner in live_runners(door)] == [3, 2]


# Submit


@pytest.mark.parametrize("created", [False, True])
def test_a_submission_starts_no_second_runner_beside_one_that_is_not_queued(
    board: Recorded, scheduler: Scripted, created: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler.submit_error = SILENT
    with locked(board, monkeypatch) if created else nullcontext():
        call(board, "hold", "CPU")
        assert newest(board).state is (RunState.CREATED if created else RunState.SUBMITTING)
        done = submitted(board, "--hold", "10m")
    assert "Runner 1: CPU requested for 30 min, not queued yet" in done.stderr
    assert "Until it takes runs, yours have jobs of their own." in done.stderr
    assert len(board.board.runners.recent()) == 1


def test_a_preview_names_the_runner_that_would_judge_the_run(board: Recorded, scheduler: Scripted) -> None:
    def previewed() -> int | None:
        (preview,) = board.board.submissions.preview([SubmissionRequest(Source("kernel.py", KERNEL))])
        return preview.runner

    del scheduler
    user, same = board.board.user, context.harness_sha256()
    ending = one_of(board.board, user, RunState.QUEUED, "CPU", same, job_id="6", cancel_requested=True)
    elsewhere = one_of(board.board, user, RunState.RUNNING, "H100", same, job_id="7")
    older = one_of(board.board, user, RunState.RUNNING, "CPU", job_id="8")
    one_of(board.board, "bob", RunState.RUNNING, "CPU", same, job_id="9")
    assert previewed() is None
    store = board.board.context.store.runners
    for each in (ending, elsewhere, older):
        store.record(each.id, Status(RunState.FINISHED, datetime.now(UTC), runner=each.id))
    held = board.board.runners.hold("CPU")
    assert previewed() == held.id
    began = datetime.now(UTC) - timedelta(minutes=28)
    store.record(held.id, replace(held.status, state=RunState.RUNNING, at=began))
    assert previewed() is None


@pytest.mark.parametrize("failing", ["live", "release"])
def test_a_fault_of_runners_does_not_undo_the_submission_of_runs(
    board: Recorded, scheduler: Scripted, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    door = board.door

    def fail(*_: object) -> None:
        raise SchedulerError("the queue is away")

    def hold(gpu: str, seconds: int, **options: bool) -> Runner:
        runner = true_hold(gpu, seconds, **options)
        if failing == "live":
            monkeypatch.setattr(door.runners, "live", fail)
        return runner

    true_hold = door.runners.hold
    monkeypatch.setattr(type(board), "door", property(lambda _: door))
    monkeypatch.setattr(door.runners, "hold", hold)
    if failing == "release":
        monkeypatch.setattr(door.runners, "release", fail)
    scheduler.on_submit = retire
    done = submitted(board, "--hold", "10m", "--json")
    assert [run["id"] for run in json.loads(done.stdout)["runs"]] == [1]
    assert "the queue is away" in done.stderr
    memory, (run,) = Memory(state_file({"XDG_STATE_HOME": str(board.folder / "state")})), board.board.runs.list()
    assert sent_as(memory, door.address, run.code_sha256) == (board.kernel,)
    assert len(scheduler.submitted) == 2


def test_runs_apart_are_told_in_one_line_and_the_runner_that_took_none_is_released(
    board: Recorded, scheduler: Scripted
) -> None:
    others = []
    for name in ("one.py", "two.py"):
        (board.folder / name).write_text(KERNEL + f"# {name}\n")
        others.append(str(board.folder / name))
    scheduler.on_submit = retire
    done = submitted(board, *others, "--hold", "10m", "--no-array")
    (line,) = [line for line in done.stderr.splitlines() if "of their own" in line]
    assert line.startswith(
        "Runs 1, 2, 3 have jobs of their own on CPU: the job options or the settings differ from those of runner 1, or"
    )
    assert "frees that GPU" not in done.stderr
    assert "No run went to runner 1, so it is released: CPU " in done.stderr
    assert newest(board).is_ending
    assert len(scheduler.submitted) == 4


def test_the_cause_of_a_job_of_its_own_is_the_true_one(
    board: Recorded, scheduler: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler.on_submit = retire
    held = board.board.runners.hold("CPU", 300)
    done = submitted(board)
    assert "or it could take no further run. `hpc-board release 1` frees that GPU." in done.stderr
    assert "too little" not in done.stderr
    later = replace(held, started_at=datetime.now(UTC), seconds=100)
    monkeypatch.setattr(facade.Runners, "live", lambda _: (later,))
    assert "or the 1 min that it has left are too little" in submitted(board).stderr
    stale = replace(held, harness_sha256="0" * 64)
    monkeypatch.setattr(facade.Runners, "live", lambda _: (stale,))
    done = submitted(board)
    assert "Run 3 has its own job on CPU: runner 1 is of another version of hpc-board." in done.stderr


# Python


@pytest.fixture
def script(board: Recorded, scheduler: Scripted, monkeypatch: pytest.MonkeyPatch) -> Script:
    del scheduler
    for name, value in board.environ().items():
        monkeypatch.setenv(name, value)
    return Script(None if board.services else board.settings)


def test_a_release_that_fails_at_the_end_of_a_block_is_an_error(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StorageError("the board's database is damaged")

    with pytest.raises(StorageError), script.hold("CPU"):
        monkeypatch.setattr(script._board.runners, "release", fail)


def test_a_held_gpu_is_named_awaited_and_used_by_an_inner_block(
    script: Script, board: Recorded, scheduler: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_seconds: float) -> None:
        scheduler.status = RUNNING
        pause(0.01)

    pause = time.sleep
    monkeypatch.setattr("hpc_board.board.held.time.sleep", start)
    with script.hold("CPU") as outer:
        assert (outer.id, outer.gpu, outer.state, outer.job_id, outer.started_at) == (1, "CPU", "queued", "101", None)
        with script.hold("cpu", wait=True) as inner:
            assert (inner.id, inner.state, inner.node) == (1, "running", "n1")
            assert inner.started_at is not None
        assert not newest(board).is_ending
    assert newest(board).is_ending


def test_a_runner_that_ends_before_it_has_its_gpu_is_an_error(
    script: Script, scheduler: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(_seconds: float) -> None:
        scheduler.status = JobStatus(JobState.NODE_FAIL, reason="n1 is down")
        pause(0.01)

    pause = time.sleep
    monkeypatch.setattr("hpc_board.board.held.time.sleep", end)
    with pytest.raises(SchedulerError, match="runner 1 has ended: n1 is down"), script.hold("CPU", wait=True):
        pytest.fail("the block begins")


def test_a_runner_that_ended_by_itself_needs_no_release(script: Script, board: Recorded, scheduler: Scripted) -> None:
    with script.hold("CPU"):
        scheduler.status = JobStatus(JobState.CANCELLED)
        store = board.board.context.store.runners
        store.record(1, replace(store.get(1).status, state=RunState.CANCELLED))


def test_a_hold_that_fails_once_its_runner_is_stored_names_it(
    board: Recorded, scheduler: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = board.board
    reconciler = door.context.reconciler

    def fail(_: str) -> None:
        raise StorageError("the lock cannot be used", hint="Free some space.")

    monkeypatch.setattr(type(reconciler), "advance_runners", lambda _self, cluster: fail(cluster))
    with pytest.raises(StorageError) as caught:
        door.runners.hold("CPU")
    words = "Free some space.\nRunner 1 is stored, and may start later; `hpc-board release 1` ends it."
    assert caught.value.hint == words
    with pytest.raises(StorageError) as caught:
        door.runners.release(1)
    assert caught.value.hint.endswith("The request to end runner 1 is stored; a later pass carries it out.")
    assert door.runners.get(1).status.cancel_requested
    assert scheduler.submitted == []
