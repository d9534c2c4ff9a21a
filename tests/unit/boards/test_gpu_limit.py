"""The limit on the GPU time of each user: its rule, who it holds for, and the commands that set and show it."""

import getpass
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hpc_board import settings
from hpc_board.board import Board
from hpc_board.cli.main import cli
from hpc_board.domain.budget import Budget
from hpc_board.domain.moderation import GpuDemand, GpuJobs, GpuLimit, GpuUse, Period, Rerun, gpu_limit_refusal
from hpc_board.domain.origin import Origin
from hpc_board.domain.run import Run, RunState, Status
from hpc_board.domain.runner import Runner
from hpc_board.errors import InputError, Refused
from hpc_board.model.task import Mode
from hpc_board.runs.reconciler import Reconciler
from hpc_board.store import Store
from hpc_board.store.listing import RunQuery
from hpc_board.store.row_values import UndecodableError, decoded_json
from hpc_board.store.runners import NewRunner, RunnerGateway
from hpc_board.store.submissions import NewRun, NewSubmission
from tests.unit.recorded import KERNEL, Recorded, once_drafted, recorded
from tests.values import replace, requested

ADMIN = getpass.getuser()
NOW = datetime(2030, 1, 2, 12, tzinfo=UTC)
LIMIT = GpuLimit(3600)
GPUS = """\
gpus:
  CPU: {cluster: here}
  H100: {cluster: here, time: "00:20:00"}
  A100: {cluster: here, time: "00:20:00"}
"""
REFUSED = "error: Refused: GPU-time limit exceeded: you have used "


@pytest.fixture
def place(tmp_path: Path) -> Recorded:
    """A board with two GPUs whose jobs have a time limit of 1,200 seconds."""
    place = recorded(tmp_path)
    before, _, _ = place.settings.read_text().partition("gpus:\n")
    place.settings.write_text(before + GPUS)
    place.kernel.write_text(KERNEL.replace("#!POPCORN gpu CPU\n", ""))
    (place.folder / "board").mkdir()
    return place


def board_of(place: Recorded, user: str = ADMIN) -> Board:
    return Board(settings.load(place.settings, {}), user=user)


def store_of(place: Recorded) -> Store:
    return Store(place.folder / "board" / "board.db")


def call(place: Recorded, user: str, *argv: str | Path) -> Result:
    """A command of `user`, in this process."""
    return CliRunner().invoke(cli, [str(word) for word in argv], obj=lambda: board_of(place, user))


def read(place: Recorded, user: str, *argv: str | Path) -> Any:
    done = call(place, user, *argv, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def tried(place: Recorded, user: str, *argv: str | Path, gpu: str = "H100") -> Result:
    """The preview of a submission, which has the checks of the submission itself."""
    return call(place, user, "submit", place.kernel, "--gpu", gpu, "--dry-run", *argv)


def wait_of(refused: Result) -> int:
    """Return the seconds until there is room, as a refusal tells them."""
    (told,) = re.findall(r"\((\d+) s\)", refused.stderr)
    return int(told)


def sent(place: Recorded, user: str, *, gpu: str = "H100", runs: int = 1, **more: Any) -> tuple[Run, ...]:
    """Store a submission whose runs no client advances."""
    task = board_of(place).tasks.get("vectoradd_py")
    script = json.dumps({"text": "", "options": {}, "time_limit_seconds": 1200})
    number = len(store_of(place).runs.list())
    new = [
        NewRun(gpu, "here", "", f"hb-{number + each}", "n", "self-run", gpu == "EMULATED", "", script=script)
        for each in range(runs)
    ]
    at = datetime.now(UTC) - timedelta(days=3)
    ((_, stored),) = store_of(place).submissions.add_all(
        [NewSubmission(task, user, "k.py", b"x", Mode.RANKED, "", at, new, **more)], sender=None
    )
    return stored


def ran(place: Recorded, user: str, seconds: float, *, hours_ago: float = 0, **more: Any) -> None:
    """Store a run that took so many seconds and ended so long ago."""
    (run,) = sent(place, user, **more)
    ended = datetime.now(UTC) - timedelta(hours=hours_ago)
    for state, at in ((RunState.RUNNING, ended - timedelta(seconds=seconds)), (RunState.CANCELLED, ended)):
        store_of(place).runs.record(run.id, Status(state, at))


# The rule


def runs(*limits_s: float, gpu: str = "H100") -> tuple[GpuJobs, ...]:
    return tuple(GpuJobs(gpu, 1, limit_s) for limit_s in limits_s)


def refusal(use: GpuUse, *new_s: float, limit: GpuLimit = LIMIT) -> str:
    return gpu_limit_refusal(limit, use, GpuDemand(runs(*new_s)), NOW)


def test_one_run_below_the_limit_may_always_go() -> None:
    assert refusal(GpuUse(3599.9), 86_400) == ""
    assert refusal(GpuUse(0), 1200, limit=GpuLimit(1)) == ""


def test_several_runs_at_a_time_need_room_for_their_time_limits() -> None:
    assert refusal(GpuUse(0), 1200, 1200, 1200) == ""
    assert refusal(GpuUse(1, None), 1200, 1200, 1200) == (
        "GPU-time limit exceeded: you have used 1 of 3,600 GPU-seconds within a day on all boards, and these 3 runs "
        "may take up to 3,600. Send fewer at a time."
    )
    assert refusal(GpuUse(1200, None, GpuDemand(runs(1200))), 1200) == ""
    assert refusal(GpuUse(1200.5, None, GpuDemand(runs(1200))), 1200) == (
        "GPU-time limit exceeded: you have used 1,200 of 3,600 GPU-seconds within a day on all boards, your run in "
        "flight may take up to 1,200, and this run may take up to 1,200. Try again when your runs in flight have ended."
    )
    assert "your 2 runs in flight may take up to 2,400, and these 2 runs may" in refusal(
        GpuUse(0, None, GpuDemand(runs(1200, 1200))), 9, 1200
    )


def test_refusal_at_the_limit_has_the_time_at_which_there_is_room() -> None:
    full = GpuUse(3600.7, NOW + timedelta(minutes=12, seconds=5))
    assert refusal(full, 1200) == (
        "GPU-time limit exceeded: you have used 3,600 of 3,600 GPU-seconds within a day on all boards. "
        "Try again in 12 min 5 s (725 s)."
    )
    going = GpuUse(4000, NOW + timedelta(hours=23), GpuDemand(runs(1200, 1200), runs(1800)))
    assert refusal(going, 1200, limit=GpuLimit(3600, Period.HOUR)).endswith(
        "within an hour on all boards. Try again in 23 h (82800 s), or later because of your 2 runs in flight and held "
        "GPU."
    )


def test_hold_below_the_limit_may_always_go_and_needs_room_beside_others() -> None:
    hold = GpuDemand(held=runs(1800))
    assert gpu_limit_refusal(GpuLimit(60), GpuUse(59), hold, NOW) == ""
    assert gpu_limit_refusal(LIMIT, GpuUse(600, None, GpuDemand(runs(1200, gpu="A100"))), hold, NOW) == ""
    going = GpuDemand(runs(1200, gpu="A100"), runs(1800, gpu="A100"))
    assert gpu_limit_refusal(LIMIT, GpuUse(1, None, going), hold, NOW) == (
        "GPU-time limit exceeded: you have used 1 of 3,600 GPU-seconds within a day on all boards, your run in flight "
        "and held GPU may take up to 1,800, and this hold may take up to 1,800. "
        "Try again when your runs in flight have ended or your GPU is released."
    )


def test_runs_on_a_held_gpu_need_only_the_room_that_exceeds_its_time() -> None:
    held = GpuUse(1800, None, GpuDemand(held=runs(1800)))
    assert refusal(held, 1200) == refusal(held, 600, 600, 600) == ""
    assert refusal(held, 600, 600, 601) == (
        "GPU-time limit exceeded: you have used 1,800 of 3,600 GPU-seconds within a day on all boards, your held GPU "
        "may take up to 1,800, and these 3 runs may take up to 1 more. Try again when your GPU is released."
    )
    # Those that go to no held GPU, or not to this one.
    for gpu in ("", "A100"):
        elsewhere = GpuDemand(runs(1, gpu=gpu))
        assert "may take up to 1. " in gpu_limit_refusal(LIMIT, held, elsewhere, NOW)


def test_one_run_goes_to_a_held_gpu_also_if_the_limit_is_short() -> None:
    small, held = GpuLimit(60), GpuDemand(held=runs(300))
    assert refusal(GpuUse(59, None, held), 1200, limit=small) == ""
    assert refusal(GpuUse(59, None, held), 100, 100, limit=small) != ""
    assert refusal(GpuUse(59, None, GpuDemand(runs(100), held.held)), 100, limit=small) != ""
    assert refusal(GpuUse(59, None, GpuDemand(held=runs(300, gpu="A100"))), 100, limit=small) != ""
    assert refusal(GpuUse(60, NOW, held), 100, limit=small) != ""


def test_limit_of_none_closes_all_boards_for_gpus() -> None:
    closed = GpuLimit(0, Period.WEEK)
    assert refusal(GpuUse(0), 1200, limit=closed) == (
        "all boards are closed for runs on GPUs: the limit is 0 GPU-seconds per week."
    )


@pytest.mark.parametrize("text", ["[]", "3", '{"gpu_seconds": -1}', '{"gpu_seconds": 1.5}', '{"per": "year"}', "{"])
def test_limit_that_no_admin_wrote_is_not_read(text: str) -> None:
    with pytest.raises(UndecodableError, match=r"Expected|truncated|Invalid"):
        decoded_json(GpuLimit, text)


# On a board


def test_user_without_gpu_time_left_is_refused_with_the_time_of_the_next_room(place: Recorded) -> None:
    ran(place, "bob", 600, hours_ago=23.5)
    ran(place, "bob", 1000, hours_ago=10)
    ran(place, "bob", 900, hours_ago=5)
    ran(place, "bob", 5000, hours_ago=25)
    call(place, ADMIN, "admin", "limit", "--gpu-seconds", "2501")
    assert tried(place, "bob").exit_code == 0
    call(place, ADMIN, "admin", "limit", "--gpu-seconds", "2500")
    refused = tried(place, "bob")
    assert refused.exit_code == 5
    assert f"{REFUSED}2,500 of 2,500 GPU-seconds within a day on all boards. Try again in " in refused.stderr
    assert 0 < wait_of(refused) <= timedelta(minutes=30).total_seconds()
    # The run of ten hours ago has to leave the day, too.
    call(place, ADMIN, "admin", "limit", "--gpu-seconds", "1900")
    assert timedelta(minutes=30).total_seconds() < wait_of(tried(place, "bob")) <= timedelta(hours=14).total_seconds()
    assert tried(place, "eve").exit_code == 0
    assert tried(place, "bob", gpu="CPU").exit_code == 0
    assert tried(place, ADMIN).exit_code == 0


@pytest.mark.parametrize(("per", "is_refused"), [("hour", False), ("day", True), ("all", True)])
def test_period_is_an_hour_a_day_or_all_time(place: Recorded, per: str, *, is_refused: bool) -> None:
    ran(place, "bob", 600, hours_ago=2)
    call(place, ADMIN, "admin", "limit", "--gpu-seconds", "600", "--per", per)
    refused = tried(place, "bob")
    assert (refused.exit_code == 5) is is_refused
    assert ("in all on all boards. This limit does not reset" in refused.stderr) is (per == "all")


def test_thousand_runs_at_once_do_not_pass_the_limit(place: Recorded) -> None:
    call(place, ADMIN, "admin", "limit", "--gpu-seconds", "3600")
    files = [place.folder / f"kernel{number}.py" for number in range(4)]
    for file in files:
        file.write_text(place.kernel.read_text())
    words = ("--gpu", "H100", "--dry-run")
    assert call(place, "bob", "submit", *files[:3], *words).exit_code == 0
    refused = call(place, "bob", "submit", *files, *words)
    assert (refused.exit_code, refused.stderr.split(", and ")[0]) == (
        5,
        f"{REFUSED}0 of 3,600 GPU-seconds within a day on all boards",
    )
    assert "these 4 runs may take up to 4,800. Send fewer at a time." in refused.stderr
    assert call(place, "bob", "submit", *files, *words, "--time", "00:15:00").exit_code == 0
    sent(place, "bob", runs=3)
    assert "your 3 runs in flight may take up to 3,600, and this run" in tried(place, "bob").stderr


def test_run_below_a_limit_that_is_shorter_than_its_time_limit_goes_alone(place: Recorded) -> None:
    call(place, ADMIN, "admin", "limit", "--gpu-seconds", "60")
    assert tried(place, "bob").exit_code == 0
    sent(place, "bob")
    assert tried(place, "bob").exit_code == 5


def test_each_gpu_of_a_submission_is_a_run_and_a_cpu_is_none(place: Recorded) -> None:
    call(place, ADMIN, "admin", "limit", "--gpu-seconds", "1200")
    assert tried(place, "bob", gpu="H100,CPU").exit_code == 0
    assert "these 2 runs may take up to 2,400." in tried(place, "bob", gpu="H100,A100").stderr
    sent(place, "bob", gpu="CPU", runs=5)
    sent(place, "bob", gpu="EMULATED", runs=5)
    assert tried(place, "bob").exit_code == 0


def test_runs_that_an_admin_sent_again_and_milestones_do_not_count(place: Recorded) -> None:
    call(place, ADMIN, "admin", "limit", "--gpu-seconds", "600")
    for own in ({"rerun": Rerun(1, ADMIN, NOW)}, {"milestone": "fast"}):
        ran(place, "bob", 600, **own)
        sent(place, "bob", **own)
    assert tried(place, "bob").exit_code == 0


def test_limit_that_was_reached_after_the_draft_refuses_the_submission(place: Recorded) -> None:
    call(place, ADMIN, "admin", "limit", "--gpu-seconds", "600")
    bob = board_of(place, "bob")
    once_drafted(bob, lambda: ran(place, "bob", 600))
    with pytest.raises(Refused, match="you have used 600 of 600 GPU-seconds"):
        bob.submissions.submit([requested(place.kernel, gpus=["H100"])])
    assert len(store_of(place).runs.list(RunQuery(user="bob"))) == 1


# Held GPUs


def holds(place: Recorded, user: str, gpu: str = "H100", seconds: int = 1800) -> Runner:
    """Store a runner of `user` that no client advances, and that has its GPU."""
    at = datetime.now(UTC) - timedelta(minutes=5)
    token = f"hb-r{len(store_of(place).runners.newest(99))}"
    new = NewRunner(user, "", gpu, "here", "", token, "a" * 64, seconds, 300, 1, "b" * 64, "{}", at)
    runner = store_of(place).runners.add(new)
    store_of(place).runners.record(runner.id, Status(RunState.RUNNING, at, job_id="7", runner=runner.id))
    return store_of(place).runners.get(runner.id)


def hold(place: Recorded, user: str, *argv: str, gpu: str = "H100") -> Result:
    return call(place, user, "hold", gpu, *argv)


@pytest.fixture
def on_gpus(place: Recorded, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """A board whose GPUs are no emulated ones, and to which no client sends jobs."""
    text = place.settings.read_text().replace("{cluster: here, time", "{cluster: here, device: cuda, time")
    place.settings.write_text(text)
    monkeypatch.setattr(Reconciler, "advance_runners", lambda *_: [])
    monkeypatch.setattr(Reconciler, "__call__", lambda *_: True)
    return place


def test_hold_is_refused_like_a_submission_and_its_preview_is_too(on_gpus: Recorded) -> None:
    ran(on_gpus, "bob", 1200, hours_ago=2)
    call(on_gpus, ADMIN, "admin", "limit", "--gpu-seconds", "1200")
    for words in ((), ("--dry-run",)):
        refused = hold(on_gpus, "bob", *words)
        assert refused.exit_code == 5
        assert f"{REFUSED}1,200 of 1,200 GPU-seconds within a day on all boards. Try again in 2" in refused.stderr
        assert "A held GPU counts with its longest time until it has ended; `--for` shortens it." in refused.stderr
    assert store_of(on_gpus).runners.live() == ()
    call(on_gpus, ADMIN, "admin", "limit", "--gpu-seconds", "1201")
    assert hold(on_gpus, "bob", "--dry-run").exit_code == 0
    sent(on_gpus, "bob")
    for words in (("--dry-run",), ()):
        assert (
            "your run in flight may take up to 1,200, and this hold may take up to 600 more. "
            in hold(on_gpus, "bob", *words).stderr
        )
    call(on_gpus, ADMIN, "admin", "limit", "--gpu-seconds", "2700")
    assert hold(on_gpus, "bob", "--for", "26m").exit_code == 5
    assert hold(on_gpus, "bob", "--for", "25m").exit_code == 0


def test_limit_binds_the_admin_of_a_personal_board_who_holds_a_gpu(on_gpus: Recorded) -> None:
    call(on_gpus, ADMIN, "admin", "limit", "--gpu-seconds", "0")
    assert hold(on_gpus, ADMIN).exit_code == 5
    call(on_gpus, ADMIN, "admin", "limit", "--gpu-seconds", "none")
    assert hold(on_gpus, ADMIN).exit_code == 0


def test_held_cpu_needs_no_gpu_time(on_gpus: Recorded) -> None:
    call(on_gpus, ADMIN, "admin", "limit", "--gpu-seconds", "0")
    assert hold(on_gpus, "bob", "--dry-run").exit_code == 5
    assert hold(on_gpus, "bob", gpu="CPU").exit_code == 0
    assert [(runner.gpu, runner.user) for runner in store_of(on_gpus).runners.live()] == [("CPU", "bob")]


def test_limit_that_is_reached_before_a_hold_is_stored_refuses_it(
    on_gpus: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(on_gpus, ADMIN, "admin", "limit", "--gpu-seconds", "600")
    ran(on_gpus, "bob", 599)
    add = RunnerGateway.add

    def late(*words: Any, **names: Any) -> Runner:
        ran(on_gpus, "bob", 1)
        return add(*words, **names)

    monkeypatch.setattr(RunnerGateway, "add", late)
    assert "you have used 600 of 600 GPU-seconds" in hold(on_gpus, "bob").stderr
    assert store_of(on_gpus).runners.live() == ()


def test_holder_sends_runs_to_a_held_gpu_within_its_time(place: Recorded) -> None:
    holds(place, "bob", seconds=2400)
    call(place, ADMIN, "admin", "limit", "--gpu-seconds", "2400")
    files = [place.folder / f"kernel{number}.py" for number in range(3)]
    for file in files:
        file.write_text(place.kernel.read_text())
    assert call(place, "bob", "submit", *files[:2], "--gpu", "H100", "--dry-run").exit_code == 0
    assert "may take up to 1,200 more." in call(place, "bob", "submit", *files, "--gpu", "H100", "--dry-run").stderr
    assert tried(place, "bob", gpu="A100").exit_code == 5
    with pytest.raises(Refused, match="your held GPU may take up to 2,400, and this run may take up to 1,200"):
        board_of(place, "bob").submissions.submit([requested(place.kernel, gpus=["H100"])], fresh=True)
    sent(place, "bob", runs=2)
    assert tried(place, "bob").exit_code == 5


def test_runs_that_come_back_from_a_runner_count_with_their_time_limits(place: Recorded) -> None:
    runner = holds(place, "bob")
    call(place, ADMIN, "admin", "limit", "--gpu-seconds", "2400")
    sent(place, "bob")
    assert tried(place, "bob").exit_code == 0
    end = Status(RunState.FINISHED, datetime.now(UTC), runner=runner.id)
    store_of(place).runners.record(runner.id, end)
    refused = tried(place, "bob")
    assert re.search(r"used 30\d of 2,400 .*, your run in flight may take up to 1,200, and this run", refused.stderr)


def test_list_of_users_has_the_time_of_held_gpus(place: Recorded) -> None:
    sent(place, "bob", gpu="CPU")
    runner = holds(place, "bob")
    call(place, ADMIN, "admin", "limit", "--gpu-seconds", "300")
    store_of(place).runners.record(runner.id, Status(RunState.FINISHED, datetime.now(UTC), runner=runner.id))
    (bob,) = (each for each in board_of(place).admin_views.people() if each.name == "bob")
    assert [(use.name, use.limit, use.holds) for use in bob.uses] == [("GPU-seconds", 300, True)]


# Its commands


def test_limit_is_set_listed_and_removed(place: Recorded) -> None:
    assert call(place, ADMIN, "admin", "limits").stdout == "No limits.\n"
    assert read(place, ADMIN, "admin", "limit", "--gpu-seconds", "3600") == {
        "board": None,
        "ranked": None,
        "other": None,
        "gpu_seconds": 3600,
        "per": "day",
        "user": None,
        "role": None,
    }
    call(place, ADMIN, "admin", "limit", "vectoradd_py", "--ranked", "5")
    whole, board = read(place, "bob", "admin", "limits")
    assert (whole["board"], whole["gpu_seconds"], whole["per"], whole["by"]) == (None, 3600, "day", ADMIN)
    assert (board["board"], board["ranked"], board["gpu_seconds"]) == ("vectoradd_py", 5, None)
    shown = [line.split() for line in call(place, "bob", "admin", "limits").stdout.splitlines()]
    assert shown[1][:4] == ["all", "boards", "all", "users"]
    assert "3,600 per day" in call(place, "bob", "admin", "limits").stdout
    said = call(place, ADMIN, "admin", "limit", "--gpu-seconds", "100", "--per", "hour").stderr
    assert said == "All boards: 100 GPU-seconds per user and hour.\n"
    said = call(place, ADMIN, "admin", "limit", "--gpu-seconds", "none").stderr
    assert said == "All boards: no limit on GPU time.\n"
    assert [each["board"] for each in read(place, ADMIN, "admin", "limits")] == ["vectoradd_py"]
    ran(place, "bob", 10_000)
    assert tried(place, "bob").exit_code == 0


def test_each_limit_is_in_the_log(place: Recorded) -> None:
    call(place, ADMIN, "admin", "limit", "--gpu-seconds", "3600")
    call(place, ADMIN, "admin", "limit", "--gpu-seconds", "none")
    removed, set_ = (line for line in call(place, ADMIN, "admin", "log").stdout.splitlines() if " limit " in line)
    assert "all boards" in set_
    assert "3,600 GPU-seconds" in set_
    assert "no limit on GPU" in removed


def test_page_of_a_task_has_the_limit(place: Recorded) -> None:
    assert read(place, "bob", "task", "vectoradd_py")["gpu_limit"] is None
    call(place, ADMIN, "admin", "limit", "--gpu-seconds", "3600", "--per", "week")
    assert read(place, "bob", "task", "vectoradd_py")["gpu_limit"] == {"gpu_seconds": 3600, "per": "week"}
    shown = call(place, "bob", "task", "vectoradd_py").stdout
    assert "GPU time  3,600 GPU-seconds per user and week, on all boards" in shown


@pytest.mark.parametrize(
    "words",
    [
        ("--gpu-seconds", "-2"),
        ("--gpu-seconds", "1.5"),
        ("--gpu-seconds", "1000000001"),
        ("--gpu-seconds", "5", "--per", "year"),
        ("vectoradd_py", "--gpu-seconds", "5"),
        ("--gpu-seconds", "5", "--ranked", "3"),
        ("--gpu-seconds", "5", "--none"),
        ("--gpu-seconds", "5", "--user", "bob"),
        ("--ranked", "3"),
        (),
    ],
)
def test_limit_that_cannot_be_is_a_usage_error(place: Recorded, words: Sequence[str]) -> None:
    assert call(place, ADMIN, "admin", "limit", *words).exit_code == 2
    assert read(place, ADMIN, "admin", "limits") == []


def test_only_an_admin_sets_the_limit_within_its_bounds(place: Recorded) -> None:
    with pytest.raises(Refused, match="this requires the role admin, but bob's is participant"):
        board_of(place, "bob").moderation.limit_gpu_time(5)
    with pytest.raises(InputError, match=r"invalid limit 1000000001\."):
        board_of(place).moderation.limit_gpu_time(1_000_000_001)


def test_list_of_users_has_their_share_of_the_limit(place: Recorded) -> None:
    ran(place, "ada", 599.9)
    ran(place, "bob", 600)
    ran(place, "eve", 600, hours_ago=25)
    ran(place, ADMIN, 600)

    def uses() -> dict[str, list[tuple[str, int, int, bool]]]:
        found = board_of(place).admin_views.people()
        return {each.name: [(use.name, use.used, use.limit, use.holds) for use in each.uses] for each in found}

    assert not any(uses().values())
    call(place, ADMIN, "admin", "limit", "--gpu-seconds", "600")
    assert uses() == {
        "ada": [("GPU-seconds", 599, 600, False)],
        "bob": [("GPU-seconds", 600, 600, True)],
        "eve": [],
        ADMIN: [],
    }


# Budgets of clients


def test_a_budget_of_gpu_seconds_counts_ended_runs_and_the_time_limits_of_others(place: Recorded) -> None:
    ran(place, "bob", 600, origin=Origin("agent-b"))
    (run,) = sent(place, "bob", origin=Origin("agent-b"))
    submissions, now, budget = store_of(place).submissions, datetime.now(UTC), Budget(None, 3600)
    found = [submissions.budget_left(budget, "bob", entrant, now).gpu_seconds for entrant in ("agent-b", "", "agent-a")]
    assert found == [pytest.approx(1800, abs=1), pytest.approx(1800, abs=1), 3600]
    new = NewSubmission(
        board_of(place).tasks.get("vectoradd_py"),
        "bob",
        "k.py",
        b"x",
        Mode.RANKED,
        "",
        now,
        [NewRun("H100", "here", "", "hb-new", "n", "self-run", False, "", script='{"time_limit_seconds": 1200}')],
        origin=Origin("agent-b"),
    )
    with pytest.raises(Refused, match="you have used 600 of 1,000 GPU-seconds within a day") as refused:
        submissions.add_all([new], sender=None, budget=Budget(None, 1000))
    assert refused.value.hint == "Nothing was sent. The budget of this command is 1000s/day."
    submissions.add_all([replace(new, origin=Origin("agent-a"))], sender=None, budget=Budget(None, 1000))
    assert run.id == 2
