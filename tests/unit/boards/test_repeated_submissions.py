"""Submissions that are repeated: with a key, and of a file that has a run already."""

from typing import Any

import pytest

from hpc_board.board import Board
from hpc_board.domain.draft import SubmissionRequest
from hpc_board.domain.job_options import JobOptions
from hpc_board.domain.run import Run, RunState
from hpc_board.errors import InputError
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.store.submissions import SubmissionKey
from tests.scripted import Scripted
from tests.unit.recorded import Recorded, call, once_drafted, read, result_of, timed_case
from tests.values import replace, requested

pytestmark = pytest.mark.usefixtures("scheduler")


@pytest.fixture
def scheduler(board: Recorded, scheduler: Scripted) -> Scripted:
    """The only scheduler of the board, for a file that names no GPU."""
    board.kernel.write_text(board.kernel.read_text().replace("#!POPCORN gpu CPU\n", ""))
    return scheduler


def sent(board: Recorded, *requests: SubmissionRequest, **options: Any) -> list[Run]:
    return board.board.submissions.submit(requests or [requested(board.kernel, gpus=["CPU"])], **options)


def ended(board: Recorded, run: Run, verdict: Verdict) -> None:
    """Store a result of a run."""
    status = replace(run.status, state=RunState.FINISHED)
    result = replace(result_of(verdict, timed_case()), run=run.id)
    assert board.board.context.store.runs.finish(run.id, status, result, None)


def numbers(runs: list[Run]) -> list[tuple[int, bool]]:
    return [(run.id, run.reused) for run in runs]


# With a key


def test_a_repeated_key_returns_the_same_runs_and_sends_nothing(board: Recorded, scheduler: Scripted) -> None:
    other = board.folder / "other.py"
    other.write_text(board.kernel.read_text().replace("+", "-"))
    both = [requested(board.kernel, gpus=["all"]), requested(other, gpus=["H100"])]
    assert numbers(sent(board, *both, key="step-1")) == [(1, False), (2, False), (3, False)]
    assert numbers(sent(board, *both, key="step-1")) == [(1, True), (2, True), (3, True)]
    assert len(scheduler.submitted) == 3
    assert numbers(sent(board, *both, key="step-2")) == [(4, False), (5, False), (6, False)]
    assert [run.id for run in board.board.runs.list(key="step-1")] == [3, 2, 1]
    assert [run["id"] for run in read(board, "runs", "--key", "step-2", "--gpu", "CPU")] == [4]
    assert call(board, "runs", "--key", "step-3").stdout == "No matching runs.\n"


@pytest.mark.parametrize("change", [{"gpus": ()}, {"gpus": ("cpu",)}, {"task": "vectoradd_py"}, {"mode": "Test"}])
def test_a_key_has_the_same_contents_however_they_are_told(board: Recorded, change: dict[str, Any]) -> None:
    board.kernel.write_text(f"#!POPCORN gpu CPU\n{board.kernel.read_text()}")
    request = requested(board.kernel, gpus=["CPU"])
    assert numbers(sent(board, request, key="step-1")) == [(1, False)]
    assert numbers(sent(board, replace(request, **change), key="step-1")) == [(1, True)]


@pytest.mark.parametrize(
    "change", [{"mode": "benchmark"}, {"note": "another"}, {"gpus": ("H100",)}, {"options": JobOptions(retries="1")}]
)
def test_a_key_with_other_contents_is_refused(board: Recorded, scheduler: Scripted, change: dict[str, Any]) -> None:
    request = requested(board.kernel, gpus=["CPU"])
    sent(board, request, key="step-1")
    for others in ([replace(request, **change)], [request, request]):
        with pytest.raises(InputError, match='key "step-1" belongs to submission 1, which has other contents'):
            sent(board, *others, key="step-1")
    assert len(scheduler.submitted) == 1


def test_a_key_belongs_to_its_user(board: Recorded) -> None:
    sent(board, key="step-1")
    keyed = board.board.context.store.submissions.keyed
    assert keyed(SubmissionKey("another", "step-1", "0" * 64)) == ()


@pytest.mark.parametrize("key", ["-a", "a b", "a\x1b[31m", "a" * 65, "é", "a/b"])
def test_an_invalid_key_is_refused(board: Recorded, scheduler: Scripted, key: str) -> None:
    done = call(board, "submit", board.kernel, "--gpu", "CPU", f"--key={key}")
    assert (done.exit_code, "invalid key" in done.stderr, "\x1b[31m" in done.stderr) == (2, True, False)
    assert scheduler.submitted == []


def test_a_key_and_if_new_exclude_each_other(board: Recorded) -> None:
    with pytest.raises(InputError, match="either a key or `if-new`"):
        sent(board, key="a", if_new=True)


def test_a_repeated_key_is_answered_before_the_checks(board: Recorded) -> None:
    sent(board, key="a")
    board.settings.write_text(board.settings.read_text().replace("- bundled\n", ""))
    with pytest.raises(InputError, match="vectoradd_py"):
        sent(board, key="b")
    assert numbers(sent(board, key="a")) == [(1, True)]


def test_of_two_submissions_with_a_key_at_the_same_time_one_is_stored(board: Recorded, scheduler: Scripted) -> None:
    later = board.board
    once_drafted(later, lambda: sent(board, key="a"))
    runs = later.submissions.submit([requested(board.kernel, gpus=["CPU"])], key="a")
    assert numbers(runs) == [(1, True)]
    assert len(scheduler.submitted) == 1


def test_a_repeated_key_sends_the_run_that_a_killed_client_left(board: Recorded, scheduler: Scripted) -> None:
    killed: Board = board.board
    killed.context.installation.__dict__["launch"] = lambda _: []
    (run,) = killed.submissions.submit([requested(board.kernel, gpus=["CPU"])], key="a")
    assert (run.state, scheduler.submitted) == (RunState.CREATED, [])
    for _ in range(2):
        (again,) = sent(board, key="a")
        assert (again.id, again.state, again.reused) == (run.id, RunState.QUEUED, True)
    assert len(scheduler.submitted) == 1


# Of identical files


def test_an_identical_file_is_sent_and_names_the_earlier_run(board: Recorded, scheduler: Scripted) -> None:
    for expected in (None, 1, 2):
        (run,) = sent(board)
        assert (run.repeats, run.reused) == (expected, False)
    assert len(scheduler.submitted) == 3
    done = call(board, "submit", board.kernel, "--gpu", "all")
    assert "Identical files: run 4 as run 3. `--if-new` reuses results." in done.stderr
    assert read(board, "run", "4")["repeats"] == 3


def test_of_two_submissions_of_a_file_at_the_same_time_if_new_stores_one(board: Recorded, scheduler: Scripted) -> None:
    later = board.board
    once_drafted(later, lambda: sent(board, if_new=True))
    runs = later.submissions.submit([requested(board.kernel, gpus=["all"])], if_new=True)
    assert numbers(runs) == [(1, True), (2, False)]
    assert len(scheduler.submitted) == 2


def test_of_two_identical_files_if_new_sends_one(board: Recorded, scheduler: Scripted) -> None:
    (board.folder / "copy.py").write_text(board.kernel.read_text())
    both = [requested(board.folder / "copy.py", gpus=["CPU"]), requested(board.kernel, gpus=["all"])]
    assert numbers(sent(board, *both, if_new=True)) == [(1, False), (1, False), (2, False)]
    done = call(board, "submit", board.kernel, board.folder / "copy.py", "--gpu", "CPU", "--mode", "ranked", "--if-new")
    assert (done.exit_code, done.stdout.count("ranked")) == (0, 1), done.output
    assert [run.repeats for run in sent(board, *both)] == [1, 4, 2]
    assert len(scheduler.submitted) == 6


@pytest.mark.parametrize("verdict", [None, Verdict.PASS, Verdict.WRONG_VALUE])
def test_if_new_reuses_a_run_in_flight_or_with_a_verdict(
    board: Recorded, scheduler: Scripted, verdict: Verdict | None
) -> None:
    (run,) = sent(board)
    if verdict is not None:
        ended(board, run, verdict)
    assert numbers(sent(board, if_new=True)) == [(1, True)]
    both = requested(board.kernel, gpus=["all"])
    assert numbers(sent(board, both, if_new=True)) == [(1, True), (2, False)]
    assert len(scheduler.submitted) == 2
    for each in ({"mode": "benchmark"}, {"options": JobOptions(retries="1")}):
        (new,) = sent(board, replace(requested(board.kernel, gpus=["CPU"]), **each), if_new=True)
        assert not new.reused
    board.kernel.write_text(f"{board.kernel.read_text()}\n")
    assert numbers(sent(board, if_new=True)) == [(5, False)]


@pytest.mark.parametrize("fate", ["cancelled", "to be cancelled", "infra_error", "removed"])
def test_if_new_sends_a_file_whose_run_says_nothing_of_it(board: Recorded, fate: str) -> None:
    (run,) = sent(board, requested(board.kernel, gpus=["CPU"], mode="ranked"))
    store = board.board.context.store
    if fate == "cancelled":
        store.runs.move(run, RunState.CANCELLED)
    elif fate == "to be cancelled":
        store.runs.request_end([run.id], "by its user")
    elif fate == "infra_error":
        ended(board, run, Verdict.INFRA_ERROR)
    else:
        ended(board, run, Verdict.PASS)
        board.board.moderation.remove([run.submission], "copied")
    (again,) = sent(board, requested(board.kernel, gpus=["CPU"], mode="ranked"), if_new=True)
    assert (again.id, again.repeats, again.reused) == (2, None, False)


def test_a_reused_run_is_marked_in_text_and_json(board: Recorded) -> None:
    ended(board, sent(board)[0], Verdict.PASS)
    words = ("submit", board.kernel, "--gpu", "CPU", "--if-new")
    done = call(board, *words, "--wait")
    assert (done.exit_code, "Submitted before: run 1." in done.stderr) == (0, True), done.output
    for more in ((), ("--wait",)):
        printed = read(board, *words, *more)
        assert (printed["reused"], [run["id"] for run in printed["runs"]]) == (True, [1])
    assert read(board, "submit", board.kernel, "--gpu", "H100", "--if-new")["reused"] is False


def test_a_gpu_is_not_held_for_runs_that_are_reused(board: Recorded) -> None:
    ended(board, sent(board)[0], Verdict.PASS)
    done = call(board, "submit", board.kernel, "--gpu", "CPU", "--if-new", "--hold", "10m")
    assert (done.exit_code, "No run went to runner 1, so it is released" in done.stderr) == (0, True), done.output


def test_the_runs_of_others_and_milestones_are_not_identical(board: Recorded) -> None:
    code = board.kernel.read_bytes()
    board.add(result=result_of(Verdict.PASS, timed_case()), user="another", mode=Mode.TEST, code=code)
    assert numbers(sent(board, if_new=True)) == [(2, False)]
