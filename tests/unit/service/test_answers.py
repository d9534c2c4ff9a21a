"""The answers to questions: each on the board as its user sees it, within bounds, and never a fault of the service."""

import base64
import dataclasses
import io
import json
import os
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hpc_board.board import Board
from hpc_board.board import submissions as submissions_module
from hpc_board.board.administration import Administration
from hpc_board.board.runs import Runs
from hpc_board.board.submissions import REQUESTS_MAX
from hpc_board.domain.board_options import RequestedOptions
from hpc_board.domain.roles import Role
from hpc_board.domain.run import RunState
from hpc_board.errors import Refused
from hpc_board.model.job_environment import log_name
from hpc_board.model.kernels import Kernel
from hpc_board.model.loops import Loop, Remark
from hpc_board.model.result import Log, Verdict
from hpc_board.model.sanitizer import SanitizerFinding
from hpc_board.service import answers as service_answers
from hpc_board.service import routes, wire
from hpc_board.service.answers import ROWS_MAX
from tests.service import serving
from tests.unit.recorded import (
    KERNEL,
    SETTINGS,
    TASK,
    Recorded,
    result_of,
    status_of,
    timed_case,
)
from tests.unit.service.clients import OWNER, ROOT, acting_as, asking, raw, refusal
from tests.values import created, requested


@ROOT
def test_the_user_is_the_account_that_the_kernel_names_and_has_its_role(door: Path) -> None:
    roles = {"games": Role.ADMIN, "bin": Role.CREATOR, "daemon": Role.PARTICIPANT, "sys": Role.NONE}
    for name, role in roles.items():
        with asking(door, name) as board:
            assert (board.user, board.role) == (name, role)


@ROOT
@pytest.mark.parametrize("route", routes.ROUTES)
def test_a_role_below_the_routes_least_one_is_refused_before_anything_runs(door: Path, route: str) -> None:
    below = {Role.ADMIN: "bin", Role.CREATOR: "daemon", Role.PARTICIPANT: "sys"}
    least = routes.ROUTES[route].role
    if least is Role.NONE:
        return
    with acting_as(below[least]), raw(door) as client:
        # The arguments do not even fit: the role comes first.
        answer = client.greeted().ask(route, nonsense=1)
    assert answer["error"]["kind"] == "Refused"
    own = "sys has no role" if least is Role.PARTICIPANT else f"{below[least]}'s is "
    assert f"this requires the role {least}, but {own}" in answer["error"]["message"]
    assert route not in answer["error"]["message"]


@ROOT
def test_the_runs_code_and_results_of_another_are_out_of_reach(board: Recorded, door: Path) -> None:
    run = board.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3, user="daemon")
    waiting = board.add(status_of(RunState.QUEUED), user="daemon")
    with asking(door, "nobody") as other:
        assert isinstance(refusal(lambda: other.submissions.code(run.id)), Refused)
        assert isinstance(other.runs.cancel_each([waiting.id])[0].error, Refused)
        assert isinstance(refusal(lambda: other.submissions.note(run.submission, "mine")), Refused)
        assert isinstance(refusal(lambda: other.submissions.again(run.id)), Refused)
    with asking(door, "sys") as stranger:
        for question in (stranger.runs.get, stranger.runs.whole, stranger.runs.log):
            assert isinstance(refusal(partial(question, run.id)), Refused)
    with asking(door, "daemon") as own:
        assert own.submissions.code(run.id) == ("kernel.py", KERNEL.encode())


@ROOT
@pytest.mark.parametrize(("admins", "name"), [("[]", OWNER), ('["@staff", games, bin]', "games")])
def test_a_user_without_a_role_is_told_whom_to_ask_for_it(
    board: Recorded, folder: Path, admins: str, name: str
) -> None:
    board.settings.write_text(SETTINGS + f'roles: {{admins: {admins}, participants: ["@hpc-board-absent"]}}\n')
    path, kernel = folder / "board.sock", folder / "kernel.py"
    kernel.write_text(KERNEL)
    with serving(board.board.settings, path), asking(path, "daemon") as other:
        error = refusal(lambda: other.submissions.preview([requested(kernel)]))
    assert error.message == "you may not use this board: this requires the role participant, but daemon has no role."
    assert error.hint == f"Ask the service's admin, {name}, for the role participant."


@ROOT
def test_a_board_that_is_closed_to_a_user_does_not_exist_for_them(board: Recorded, door: Path) -> None:
    files = Board(board.board.settings, user="games")
    created(files, "vectoradd_py", None, RequestedOptions(closed=True, members=("daemon",)))
    run = board.add(status_of(RunState.QUEUED), user="daemon")
    with asking(door, "daemon") as member:
        assert member.tasks.get("vectoradd_py").name == "vectoradd_py"
    with asking(door, "nobody") as other:
        assert "unknown task" in refusal(lambda: other.tasks.get("vectoradd_py")).message
        assert "there is no run" in refusal(lambda: other.runs.get(run.id)).message
        assert "there is no run" in refusal(lambda: list(other.runs.wait([run.id]))).message
        for question in (
            other.submissions.get,
            other.submissions.code,
            other.runs.get,
            other.runs.log,
            partial(other.submissions.note, text="mine"),
            partial(other.submissions.compare, other=98),
        ):
            hidden, missing = (refusal(partial(question, number)) for number in (run.id, 98))
            told = f"{hidden.message} {hidden.hint}".replace(f" {run.id}", " 98")
            assert told == f"{missing.message} {missing.hint}"


@ROOT
def test_the_output_of_a_run_is_its_owners_and_the_admins(board: Recorded, door: Path) -> None:
    output = Log("a line of the kernel")
    result = dataclasses.replace(
        result_of(Verdict.PASS, timed_case()),
        stdout=output,
        stderr=output,
        build=output,
        profile=output,
        kernels=(Kernel(0, output.text),),
        findings=(SanitizerFinding("memcheck", output.text),),
        loops=(Loop(3, output.text, 9, 4, 0, 2, 1, 256),),
        remarks=(Remark(3, True, output.text),),
    )
    run = board.add(result=result, score_s=1e-3, user="daemon")
    other = board.add(result=result, score_s=1e-3, user="daemon")
    clusters = board.board.context.clusters
    log = clusters.folders_on(run.cluster).of(run) / log_name(run.status.job_id)
    log.parent.mkdir(parents=True)
    log.write_text(output.text)
    for name, shown in (("daemon", True), ("games", True), ("nobody", False)):
        with acting_as(name), raw(door) as client:
            client.greeted()
            submissions = {"one": run.submission, "other": other.submission}
            for route, given in (
                *((route, {"run": run.id}) for route in ("runs.whole", "runs.log")),
                ("submissions.compare", submissions),
            ):
                answer = client.ask(route, **given)
                assert "value" in answer
                assert (output.text in json.dumps(answer)) == shown, (name, route)


@ROOT
def test_a_made_up_run_shows_no_ranks_of_a_board_that_is_closed_to_the_user(board: Recorded, door: Path) -> None:
    files = Board(board.board.settings, user="games")
    created(files, "vectoradd_py", None, RequestedOptions(closed=True, members=("daemon",)))
    run = board.add(status_of(RunState.QUEUED), user="daemon")
    forged = msgspec.json.decode(wire.encoded(msgspec.structs.replace(run, user="nobody")))
    with acting_as("nobody"), raw(door) as client:
        client.greeted()
        assert "there is no run" in client.ask("standings.placing", run=forged)["error"]["message"]


@ROOT
def test_files_of_the_whole_board_are_for_admins(door: Path) -> None:
    with asking(door, "bin") as creator:
        assert isinstance(refusal(lambda: creator.admin.export("json").write(io.BytesIO())), Refused)
        creator.admin_views.boards()  # the connection goes on
    with asking(door, "games") as admin:
        admin.admin.export("json").write(io.BytesIO())


@ROOT
def test_a_user_exports_own_runs_through_the_service_and_no_reference(board: Recorded, door: Path) -> None:
    for user in ("nobody", "games"):
        board.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3, user=user)
    for name, runs, has_reference in (("nobody", [1], False), ("games", [2], True), ("daemon", [], None)):
        with asking(door, name) as asker:
            sink, tasks = io.BytesIO(), io.BytesIO()
            asker.admin.export("jsonl", own=True, with_output=True).write(sink)
            asker.admin.export("jsonl", own=True, what="tasks").write(tasks)
        assert [json.loads(line)["run"] for line in sink.getvalue().splitlines()] == runs
        references = [json.loads(line)["reference"] is not None for line in tasks.getvalue().splitlines()]
        assert references == ([] if has_reference is None else [has_reference])


@pytest.mark.parametrize(("route", "args"), [("admin.export", {"form": "csv"}), ("runs.get_each", {"runs": [99]})])
def test_a_fault_in_an_answer_is_told_and_logged(
    board: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch, route: str, args: dict[str, Any]
) -> None:
    def faulty(*_: object, **__: object) -> None:
        raise ValueError("a fault")

    board.add(status_of(RunState.QUEUED))
    monkeypatch.setattr(Administration, "export", faulty)
    monkeypatch.setattr(Runs, "get", faulty)
    path, log = folder / "board.sock", list[str]()
    with serving(board.board.settings, path, lines=log, has_fault=True), raw(path) as client:
        assert "internal error of the service" in client.greeted().ask(route, **args)["error"]["message"]
    (fault,) = [line for line in map(json.loads, log) if line["event"] == "fault"]
    assert (fault["uid"], fault["route"]) == (os.geteuid(), route)
    assert "ValueError: a fault" in fault["traceback"]


@ROOT
@pytest.mark.parametrize("name", ["../x.zip", "/etc/x.zip", "a/b.zip", "", "x" * 300 + ".zip", "x\n.zip"])
def test_a_packed_source_has_a_plain_name(door: Path, name: str) -> None:
    with acting_as("bin"), raw(door) as client:
        packed = {"file_name": name, "data": ""}
        answer = client.greeted().ask("leaderboards.plan", request={"source": packed})
    assert "invalid file name" in answer["error"]["message"]


@ROOT
@pytest.mark.parametrize(
    "name", [".", "..", "tasks", "hidden.py", "course.yaml", "/etc/passwd.py", "../../etc", "./hpc-board.yaml"]
)
def test_a_creators_name_of_a_task_is_no_path_in_the_services_folder(
    board: Recorded, door: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(board.folder)
    (board.folder / "hidden.py").write_text((board.folder / "tasks" / "narrow" / "reference.py").read_text())
    (board.folder / "course.yaml").write_text("name: x\nproblems: [{name: y, directory: tasks/narrow}]\n")
    with acting_as("bin"), raw(door) as client:
        answer = client.greeted().ask("leaderboards.plan", request={"source": name})
    assert "unknown task" in answer["error"]["message"]


@ROOT
@pytest.mark.parametrize("name", ["task.yml", "course.yaml"])
def test_a_lone_task_file_or_competition_is_not_read(door: Path, name: str) -> None:
    packed = {"file_name": name, "data": base64.b64encode(TASK.encode()).decode()}
    with acting_as("bin"), raw(door) as client:
        answer = client.greeted().ask("leaderboards.plan", request={"source": packed})
    assert answer["error"]["message"] == f"{name} is not a folder, a zip or a reference file."


@ROOT
def test_a_user_who_floods_is_refused_and_others_are_not(
    board: Recorded, door: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submissions_module, "UNFINISHED_MAX", 2)
    for _ in range(2):
        board.add(status_of(RunState.QUEUED), user="daemon")
    source = {"file_name": "k.py", "text": KERNEL}
    request = {"source": source, "task": "vectoradd_py", "gpus": ["CPU"], "mode": "test"}
    outcomes = {}
    for user in ("daemon", "bin"):
        with acting_as(user), raw(door) as client:
            outcomes[user] = client.greeted().ask("submissions.submit", requests=[request])
    assert outcomes["daemon"]["error"]["kind"] == "Refused"
    assert "too many unfinished runs: 2" in outcomes["daemon"]["error"]["message"]
    assert len(outcomes["bin"]["value"]) == 1


def test_a_question_has_a_bounded_number_of_sources_and_of_bytes_in_its_answer(
    door: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = {"source": {"file_name": "kernel.py", "text": KERNEL}, "task": "vectoradd_py", "gpus": ["CPU"]}
    with raw(door) as client:
        many = client.greeted().ask("submissions.preview", requests=[request] * (REQUESTS_MAX + 1))
        assert "limit 1,000" in many["error"]["message"]
        monkeypatch.setattr(service_answers, "ANSWER_BYTES_MAX", 1000)
        large = client.ask("submissions.preview", requests=[request] * 5)
        assert "the answer exceeds the limit of 1,000 bytes" in large["error"]["message"]


@pytest.mark.parametrize("question", ["started", "cancel_each", "followed"])
def test_a_question_has_a_bounded_number_of_runs(door: Path, question: str) -> None:
    with asking(door) as board:
        ask: Callable[..., object] = getattr(board.runs, question)
        ask(list(range(10, 30)))
        assert f"limit {ROWS_MAX:,}" in refusal(lambda: ask(list(range(10, 11 + ROWS_MAX)))).message


OUT_OF_UTC = datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize("moment", [OUT_OF_UTC, OUT_OF_UTC.replace(tzinfo=None)])
def test_a_time_that_is_none_in_utc_is_refused_at_every_route_that_takes_one(door: Path, moment: datetime) -> None:
    with asking(door) as board:
        for question in (
            partial(board.admin.prune, moment),
            partial(board.admin.statistics, since=moment),
            lambda: board.admin.export("csv", since=moment).write(io.BytesIO()),
        ):
            assert moment.isoformat() in refusal(question).message


@ROOT
def test_a_creator_names_members_within_bounds(door: Path) -> None:
    options = {"closed": True, "members": ["x"] * (ROWS_MAX + 1)}
    with acting_as("bin"), raw(door) as client:
        request = {"type": "BoardRequest", "source": "vectoradd_py", "name": "copy", "options": options}
        answer = client.greeted().ask("leaderboards.carry_out", request=request, changes={"copy": 0})
    assert answer["error"]["message"].startswith("too many members in a request: 10,001")


@ROOT
def test_a_cluster_that_is_not_in_the_settings_was_never_asked(door: Path) -> None:
    with asking(door, "daemon") as board:
        assert board.runs.asked_at("../board") is None
        assert board.runs.silent_since("gone") is None


@pytest.mark.parametrize("limit", [-1, -(2**60), ROWS_MAX + 1])
@pytest.mark.parametrize("route", ["runs.list", "standings.feed", "moderation.decisions", "admin_views.people"])
def test_a_list_has_a_limit_that_sql_takes_for_one(door: Path, route: str, limit: int) -> None:
    with raw(door) as client:
        assert "too many rows requested" in client.greeted().ask(route, limit=limit)["error"]["message"]


def test_a_list_without_a_limit_has_the_services(board: Recorded, door: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for user in ("daemon", "nobody"):
        board.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3, user=user)
    monkeypatch.setattr(service_answers, "ROWS_MAX", 1)
    with raw(door) as client:
        (page,) = client.greeted().ask("standings.pages", task="vectoradd_py", gpus=["CPU"])["value"]
    assert (page["total"], len(page["rows"])) == (2, 1)
