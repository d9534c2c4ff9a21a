"""The pages of a service at their sockets: who may read, what never appears, and readers that keep to no rule."""

import http.client
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from hpc_board.accounts import GROUPS_SECONDS, Groups
from hpc_board.board import Board, moderation
from hpc_board.board.context import Installation, PublicContext
from hpc_board.domain.board_options import RequestedOptions
from hpc_board.domain.clock import utc_now
from hpc_board.domain.run import Run, RunState
from hpc_board.errors import InputError, StorageError
from hpc_board.model.result import Log, Verdict
from hpc_board.model.task import Mode
from hpc_board.runs.job_polling import Poll
from hpc_board.runs.reconciler import Pass
from hpc_board.service.counts import Counts
from hpc_board.service.page import pages, web_server
from hpc_board.service.page.metrics import metrics_text
from hpc_board.service.server import Service
from hpc_board.store import Store
from hpc_board.store.additions import AdditionGateway, Marks
from hpc_board.store.submissions import NewRun, NewSubmission
from tests.service import serving
from tests.slurm.lab import free_ports
from tests.unit.recorded import AT, SETTINGS, Recorded, call, read, recorded, result_of, status_of, timed_case
from tests.unit.service.clients import OWNER, ROOT, acting_as, asking
from tests.unit.service.clients import raw as of_wire
from tests.values import created, replace
from tests.waiting import awaited

SECRETS = ("SECRET_CODE", "SECRET_LOG", "SECRET_ERRORS", "SECRET_BUILD", "SECRET_NOTE", "SECRET_MESSAGE", "SECRET_CASE")
HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</table><style>*{display:none}</style>")


class Answer(msgspec.Struct):
    """A response: its status, its headers and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def connected(door: Path | int) -> socket.socket:
    if isinstance(door, int):
        return socket.create_connection(("127.0.0.1", door), timeout=30)
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    found.settimeout(30)
    # A moment of many connections fills the queue of those that are not accepted yet.
    awaited(lambda: not found.connect_ex(str(door)))
    return found


class UnixConnection(http.client.HTTPConnection):
    """http.client on a Unix socket."""

    def __init__(self, door: Path) -> None:
        super().__init__("localhost", timeout=30)
        self.door = door

    def connect(self) -> None:
        self.sock = connected(self.door)


def connection(door: Path | int) -> http.client.HTTPConnection:
    """A connection to a Unix socket, or to a port of this machine."""
    if isinstance(door, Path):
        return UnixConnection(door)
    return http.client.HTTPConnection("127.0.0.1", door, timeout=30)


def ask(door: Path | int, target: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
    """The answer at a Unix socket, or at a port of this machine."""
    client = connection(door)
    with closing(client):
        client.putrequest(method, target, skip_accept_encoding=True)
        for name, value in (headers or {}).items():
            client.putheader(name, value)
        client.endheaders()
        found = client.getresponse()
        return Answer(found.status, dict(found.getheaders()), found.read())


def raw(door: Path | int, data: bytes) -> bytes:
    """All that the service answers to these bytes, until it closes the connection."""
    with closing(connected(door)) as client:
        with suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(data)
        answer = b""
        with suppress(ConnectionResetError):
            while piece := client.recv(65536):
                answer += piece
        return answer


def status(answer: bytes) -> int:
    """The status of the only response in `answer`."""
    (found,) = re.findall(rb"^HTTP/1\.[01] (\d{3}) ", answer, re.MULTILINE)
    return int(found)


def passed(board: Recorded, user: str, score_s: float, **more: Any) -> Run:
    return board.add(result=result_of(Verdict.PASS, timed_case()), score_s=score_s, user=user, **more)


def closed(board: Recorded, *members: str, name: str = "vectoradd_py") -> None:
    """Close a board for all but these members; by default that of the recorded runs."""
    files = Board(board.board.settings, user=OWNER)
    created(files, name, None, RequestedOptions(closed=True, members=members))


@pytest.fixture
def board(tmp_path: Path) -> Recorded:
    made = recorded(tmp_path)
    made.settings.write_text(SETTINGS + "roles: {admins: [games], creators: [bin], participants: [daemon, nobody]}\n")
    return made


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def service(board: Recorded, folder: Path, port: int, lines: list[str]) -> Iterator[Service]:
    """A service with its pages on both sockets."""
    with opened(board, folder, port, lines=lines) as found:
        yield found


@pytest.fixture
def door(service: Service, folder: Path) -> Path:
    """The pages' Unix socket."""
    assert service.path == folder / "board.sock"
    return folder / "board.http"


@contextmanager
def opened(
    board: Recorded,
    folder: Path,
    port: int | None = None,
    lines: list[str] | None = None,
    **changes: Any,
) -> Iterator[Service]:
    web = None if port is None else f"127.0.0.1:{port}"
    changed = msgspec.structs.replace(board.board.settings, web=web, **changes)
    with serving(changed, folder / "board.sock", lines=lines) as found:
        yield found


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the pages that are made from now on."""
    made: list[str] = []
    page = pages.page

    def count(of: Board, path: str, at: datetime, only: str = "") -> str | None:
        made.append(path)
        return page(of, path, at, only)

    monkeypatch.setattr(pages, "page", count)
    return made


# Contents of the pages


def test_the_pages_draw_records_speeds_and_the_scores_of_a_user(board: Recorded, door: Path) -> None:
    passed(board, "ada", 6e-3)
    passed(board, "bob", 2e-3)
    run = passed(board, "ada", 4e-3)
    of_board = ask(door, "/boards/vectoradd_py").text
    assert 'aria-label="Best time: 6.00 ms on ' in of_board
    assert re.findall(r'<svg class="speed".*?<rect width="([\d.]+)"', of_board) == ["100.0", "50.0"]
    of_run = ask(door, f"/runs/{run.id}").text
    assert "<figcaption>Scores of ada by submission</figcaption>" in of_run
    assert "fastest 4.00 ms of 2 runs, first 6.00 ms on" in of_run
    assert "leader" in of_run
    assert 'style="' not in of_board + of_run, "the policy admits the style sheet alone"


def test_a_run_on_a_gpu_that_left_the_settings_has_a_page_without_a_plot(board: Recorded, door: Path) -> None:
    passed(board, "ada", 6e-3, gpu="former")
    run = passed(board, "ada", 4e-3, gpu="former")
    answer = ask(door, f"/runs/{run.id}")
    assert (answer.status, "Scores of ada" in answer.text) == (200, False)


def test_the_pages_show_the_standings_the_feed_and_a_run(board: Recorded, door: Path, port: int) -> None:
    slow = passed(board, "ada", 6e-3)
    passed(board, "bob", 2e-3)
    for place in (door, port):
        first = ask(place, "/")
        assert (first.status, first.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert re.search(
            r'<a href="./boards/vectoradd_py">.*<td class="user">bob</td>.*2\.00 ms', first.text, re.DOTALL
        )
        of_board = ask(place, "/boards/vectoradd_py").text
        assert re.findall(r'<td class="user">(\w+)', of_board) == ["bob", "ada"]
        assert f'<a href="../runs/{slow.id}">' in of_board
        assert "bob took first place on vectoradd_py, CPU: 2.00 ms (was ada, 6.00 ms" in ask(place, "/feed").text
        of_run = ask(place, f"/runs/{slow.id}").text
        assert "Second place on CPU: 6.00 ms." in of_run
        assert "<figure>" not in of_run
        assert '<th scope="row">benchmark 1</th>' in of_run


def test_every_response_has_strict_headers(board: Recorded, door: Path) -> None:
    passed(board, "ada", 6e-3)
    for target in ("/", "/feed", "/boards/vectoradd_py", "/runs/1", "/nothing", "/page.css", "/live.js", "/metrics"):
        answer = ask(door, target)
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Server"] == "hpc-board"
        assert answer.headers["Cache-Control"] == ("no-store" if target == "/nothing" else "no-cache")
        assert "<style" not in answer.text.partition("<body")[0]
        assert re.search(r"<script(?! src=)", answer.text) is None


def test_a_run_shows_its_state_while_it_waits_and_its_end_without_a_result(board: Recorded, door: Path) -> None:
    lost = board.add(status_of(RunState.LOST, reason="SECRET_REASON"), user="ada")
    removed = passed(board, "bob", 1e-3)
    Board(board.board.settings, user=OWNER).moderation.remove([removed.submission], reason="SECRET_REASON")
    pages_of = [ask(door, f"/runs/{run.id}").text for run in (lost, removed)]
    assert "<strong>Lost</strong>" in pages_of[0]
    assert "Removed from the standings." in pages_of[1]
    assert "SECRET" not in "".join(pages_of)


class Clock(datetime):
    """A clock that stands still at `at`."""

    at: datetime

    @classmethod
    def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
        return cls.at.astimezone(tz)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[Clock]:
    """The clock of the pages."""
    monkeypatch.setattr(pages, "datetime", Clock)
    Clock.at = datetime(2026, 5, 1, 12, 9, 40, tzinfo=UTC)
    return Clock


def on_narrow(board: Recorded) -> Run:
    """A run on the board of the task `narrow` that is lost."""
    new = NewSubmission(
        task=Board(board.board.settings, user=OWNER).tasks.get("narrow"),
        user="bin",
        file_name="kernel.py",
        code=b"",
        mode=Mode.RANKED,
        note="",
        at=AT,
        runs=[NewRun("H100", "here", "", os.urandom(8).hex(), "nonce", "self-run", False, "")],
    )
    store = Store(board.board.settings.board / "board.db")
    _, (run,) = store.submissions.add(new, sender=None)
    store.runs.record(run.id, status_of(RunState.LOST))
    return run


def activity(board: Recorded) -> None:
    """A run, a note and a removal on the board of the task `narrow`."""
    run = on_narrow(board)
    Board(board.board.settings, user="bin").submissions.note(run.submission, "a note")
    Board(board.board.settings, user=OWNER).moderation.remove([run.submission], reason="x")


@pytest.mark.parametrize("active", [False, True])
def test_the_time_of_a_page_does_not_tell_of_activity_on_a_closed_board(
    board: Recorded, door: Path, clock: type[Clock], active: bool
) -> None:
    closed(board, "bin", name="narrow")
    seen = []
    for second in (40, 50, 70, 95):
        clock.at = clock.at.replace(minute=9 + second // 60, second=second % 60)
        if active:
            activity(board)
        for target in ("/", "/feed", "/boards/vectoradd_py"):
            (told,) = re.findall("As of ([0-9:]+) UTC", ask(door, target).text)
            seen.append(told)
    assert seen == ["12:09"] * 6 + ["12:10"] * 6


def test_a_run_with_many_cases_shows_the_first_ones_and_the_number_of_the_others(board: Recorded, door: Path) -> None:
    cases = [timed_case(index, spec=f"size: {index}") for index in range(203)]
    run = board.add(result=result_of(Verdict.PASS, *cases), score_s=1e-3, user="ada")
    text = ask(door, f"/runs/{run.id}").text
    assert re.findall(r'<td class="spec">size: (\d+)', text) == [str(index) for index in range(200)]
    assert "and 3 more cases" in text
    few = passed(board, "bob", 1e-3)
    assert "more case" not in ask(door, f"/runs/{few.id}").text


def test_a_board_without_entries_shows_its_deadline(board: Recorded, door: Path, clock: type[Clock]) -> None:
    owners = Board(board.board.settings, user=OWNER)
    created(owners, "narrow", None, RequestedOptions(deadline="2100-05-06 12:30:15"))
    for at, words in ((clock.at, "Until"), (clock.at.replace(year=2101), "Ended")):
        clock.at = at
        text = ask(door, "/").text
        told = f'{words} <time datetime="2100-05-06T12:30:15Z">2100-05-06 12:30:15 UTC</time>'
        assert re.search(f'<li><a href="./boards/narrow">narrow</a> <span class="quiet">{told}</span></li>', text)
        assert text.count("<time") == 1


def test_a_page_is_made_once_until_something_changes(
    board: Recorded, door: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = counted(monkeypatch)
    passed(board, "ada", 6e-3)
    with ThreadPoolExecutor(8) as readers:
        assert {each.status for each in readers.map(lambda _: ask(door, "/"), range(16))} == {200}
    assert made == [""]
    passed(board, "bob", 2e-3)
    assert "bob" in ask(door, "/").text
    assert made == ["", ""]


@pytest.mark.parametrize("target", ["/", "/feed", "/boards/vectoradd_py", "/runs/1"])
def test_an_unchanged_page_is_not_sent_again(board: Recorded, door: Path, clock: type[Clock], target: str) -> None:
    assert clock.at.second
    passed(board, "ada", 6e-3)
    tag = ask(door, target).headers["ETag"]
    for known in (tag, f"W/{tag}", f'"x", {tag}'):
        again = ask(door, target, headers={"If-None-Match": known})
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag)
    passed(board, "bob", 1e-3)
    changed = ask(door, target, headers={"If-None-Match": tag})
    assert changed.status == 200
    assert changed.headers["ETag"] != tag


def test_a_database_that_cannot_be_read_is_told(
    board: Recorded, door: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    passed(board, "bob", 1e-3)

    def fail(_: AdditionGateway) -> Marks:
        raise StorageError("the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(AdditionGateway, "marks", fail)
        answer = ask(door, "/")
    assert (answer.status, "disk" in answer.text) == (500, False)
    assert sum('"page failed", "route": "boards"' in line and "the disk is gone" in line for line in lines) == 1
    assert "bob" in ask(door, "/").text


# Secrets that no page shows


def test_no_code_log_note_or_message_is_on_a_page(board: Recorded, door: Path) -> None:
    case = replace(timed_case(), message="SECRET_CASE")
    told = replace(
        result_of(Verdict.PASS, case, message="SECRET_MESSAGE", stdout="SECRET_LOG", stderr="SECRET_ERRORS"),
        build=Log("SECRET_BUILD"),
    )
    ranked = board.add(result=told, score_s=1e-3, user="ada", code=b"SECRET_CODE")
    failed = replace(told, verdict=Verdict.COMPILE_ERROR, cases=())
    broken = board.add(result=failed, user="ada", mode=Mode.TEST, code=b"SECRET_CODE")
    Board(board.board.settings, user="ada").submissions.note(ranked.submission, "SECRET_NOTE")
    shown = [ask(door, target).text for target in ("/", "/feed", "/boards/vectoradd_py", "/metrics")]
    shown += [ask(door, f"/runs/{run.id}").text for run in (ranked, broken)]
    assert "ailed to compile" in shown[-1]
    assert [word for word in SECRETS if any(word in text for text in shown)] == []


@ROOT
@pytest.mark.parametrize("name", [OWNER, "daemon", "nobody"])
def test_members_and_admins_see_a_closed_board_at_the_unix_socket_and_no_others_on_any_page(
    board: Recorded, door: Path, port: int, name: str
) -> None:
    run = passed(board, "ada", 1e-3)
    closed(board, "daemon")
    closed(board, "bin", name="narrow")
    own, none = ("/boards/vectoradd_py", f"/runs/{run.id}"), ("/boards/no_such_task", "/runs/9999")
    with acting_as(name):
        for place in (door, port):
            sees = place == door and name != "nobody"
            assert {ask(place, target).status for target in own} == {200 if sees else 404}
            assert len({ask(place, target).body for target in (*none, *(() if sees else own))}) == 1
            for target in ("/", "/feed"):
                assert ("vectoradd_py" in ask(place, target).text) == sees
            assert ask(place, "/boards/narrow").status == (200 if (place, name) == (door, OWNER) else 404)


@pytest.mark.usefixtures("service")
def test_a_reader_who_has_the_page_of_a_board_that_is_closed_gets_what_others_get(board: Recorded, port: int) -> None:
    passed(board, "ada", 1e-3)
    tag = ask(port, "/boards/vectoradd_py").headers["ETag"]
    closed(board)
    assert ask(port, "/boards/vectoradd_py", headers={"If-None-Match": tag}).status == 404


@pytest.mark.usefixtures("service")
def test_a_link_shows_its_board_and_no_other_until_its_end(
    board: Recorded, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = passed(board, "ada", 1e-3)
    closed(board, "daemon")
    created(Board(board.board.settings, user=OWNER), "vectoradd_py", "other", RequestedOptions(closed=True))
    others = passed(board, "bob", 1e-3, task="other")
    owners = Board(board.board.settings, user=OWNER).moderation
    names = ("projector", "second", "projector")
    links = [f"/link/{owners.link('vectoradd_py', name, '+2h')[1]}/" for name in names]
    replaced, second, link = links
    first = ask(port, link)
    assert first.headers["ETag"] == ask(port, second).headers["ETag"]
    assert ">ada<" in first.text.replace(" ", "").replace("\n", "<")
    assert ask(port, f"{link}runs/{run.id}").status == 200
    assert {ask(port, f"{link}{path}").status for path in ("", "boards/vectoradd_py", "page.css", "live.js")} == {200}
    hidden = ("feed", "metrics", "boards/other", "boards/narrow", f"runs/{others.id}", "runs/9", "boards/", link[1:])
    assert {path: ask(port, f"{link}{path}").status for path in hidden} == dict.fromkeys(hidden, 404)
    assert re.findall('href="([^"]*)"', first.text.partition("<main")[0])[-2:] == ["#main", "./"]
    wrong = ("", "0" * 32, link[6:-2], link[6:-1].upper(), f"{link[6:-1]}0")
    assert {ask(port, f"/link/{each}/").status for each in (*wrong, replaced[6:-1])} == {404}

    stored = (board.board.settings.board / "board.db").read_bytes()
    assert not [each for each in links if each[6:-1].encode() in stored]
    assert [(each.name, each.board) for each in owners.links()] == [
        ("projector", "vectoradd_py"),
        ("second", "vectoradd_py"),
    ]
    owners.unlink("vectoradd_py", "projector")
    assert (ask(port, link).status, ask(port, second).status) == (404, 200)
    monkeypatch.setattr(moderation, "utc_now", lambda: utc_now() + timedelta(hours=3))
    assert ask(port, second).status == 404


@pytest.mark.usefixtures("service")
def test_a_board_that_is_made_again_has_none_of_the_links_before(board: Recorded, port: int) -> None:
    owners = Board(board.board.settings, user=OWNER)
    for _ in range(2):
        created(owners, "vectoradd_py", "course", RequestedOptions(closed=True))
        link = f"/link/{owners.moderation.link('course', 'projector', '+2h')[1]}/"
        assert ask(port, link).status == 200
        owners.leaderboards.delete("course", reason="")
        assert (ask(port, link).status, owners.moderation.links()) == (404, ())
    created(owners, "vectoradd_py", "course", RequestedOptions(closed=True))
    assert ask(port, link).status == 404


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("course", "p", "--until", "none"), "a link ends within 366 days"),
        (("course", "p", "--until", "+367d"), "a link ends within 366 days"),
        (("course", "a b"), '"a b" is not a valid name of a link'),
        (("narrow", "p"), "narrow comes from a folder in the settings, not from `create`"),
        (("coursee", "p"), 'unknown board "coursee". Did you mean "course"?'),
    ],
)
def test_a_link_has_a_name_and_an_end_and_a_board(board: Recorded, words: Sequence[str], told: str) -> None:
    created(Board(board.board.settings, user=OWNER), "vectoradd_py", "course", RequestedOptions(closed=True))
    refused = call(board, "admin", "link", *words)
    assert (refused.exit_code, told in refused.stderr) == (2, True), refused.stderr
    made = call(board, "admin", "link", "course", "projector")
    assert re.fullmatch("link/[0-9a-f]{32}/\n", made.stdout)
    assert re.search("course +projector +2", call(board, "admin", "links").stdout)
    logged = call(board, "admin", "log", "--board", "course").stdout
    assert re.search("link +board course +projector until 2", logged)
    (entry,) = [each for each in read(board, "admin", "log") if each["action"] == "link"]
    assert re.fullmatch("projector 2[^ ]*", entry["detail"])
    unknown = call(board, "admin", "unlink", "course", "projectr")
    assert 'no link "projectr" to course. Did you mean "projector"?' in unknown.stderr


def test_hostile_texts_are_text(board: Recorded, door: Path) -> None:
    for number, user in enumerate(HOSTILE):
        file_name = user.replace("/", "\u2215")
        run = board.add(
            result=result_of(Verdict.PASS, timed_case(spec=f"size: {user}\x1b[31m")),
            score_s=1e-3 * (number + 1),
            user=user,
            file_name=file_name,
        )
        shown = ask(door, f"/runs/{run.id}").text
        assert "\x1b" not in shown
        assert user not in shown
    for target in ("/", "/feed", "/boards/vectoradd_py"):
        text = ask(door, target).text
        assert [user for user in HOSTILE if user in text] == []
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_the_hostile_description_of_a_task_is_text(board: Recorded, folder: Path) -> None:
    own = board.folder / "tasks" / "narrow" / "task.yml"
    text = '"<script>x</script> `<b>` [a](javascript:x) ![i](http://evil/)"'
    own.write_text(own.read_text().replace("A task for one GPU.", text))
    with opened(board, folder):
        shown = ask(folder / "board.http", "/boards/narrow").text
    assert "&lt;script&gt;x&lt;/script&gt; <code>&lt;b&gt;</code> [a](javascript:x)" in shown
    assert "<script>x" not in shown
    assert 'href="javascript' not in shown


# Readers


@ROOT
def test_an_account_without_the_role_gets_a_page_that_says_so(board: Recorded, door: Path, lines: list[str]) -> None:
    passed(board, "ada", 1e-3)
    with acting_as("sys"):
        for target in ("/", "/boards/vectoradd_py", "/metrics", "/runs/1"):
            answer = ask(door, target)
            assert answer.status == 403
            assert "This board is for its participants." in answer.text
            assert "ada" not in answer.text
    with acting_as("daemon"):
        assert ask(door, "/").status == 200
    assert any('"uid": 3' in line and "no participant" in line for line in lines)


@ROOT
def test_an_account_without_a_name_is_refused(door: Path, lines: list[str]) -> None:
    with acting_as(61001):
        assert ask(door, "/").status == 403
    assert any("unknown user ID 61001" in line for line in lines)


@ROOT
def test_an_account_that_loses_its_role_loses_the_pages(
    board: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enrolled, minutes = {"daemon", "nobody"}, [0]
    groups = Groups(lambda user: frozenset({"course"} if user in enrolled else ()), lambda: minutes[0] * GROUPS_SECONDS)
    text = board.settings.read_text()
    board.settings.write_text(text.replace("participants: [daemon, nobody]", "participants: ['@course']"))
    passed(board, "ada", 1e-3)
    with opened(board, folder) as service:
        monkeypatch.setattr(service._installation, "groups", groups)
        statuses = {}
        for step in range(2):
            for name in ("daemon", "nobody"):
                with acting_as(name):
                    statuses[name, step] = ask(folder / "board.http", "/feed").status
            enrolled.discard("daemon")
            minutes[0] += 1
    assert statuses == {("daemon", 0): 200, ("nobody", 0): 200, ("daemon", 1): 403, ("nobody", 1): 200}


def test_a_socket_with_the_pages_suffix_is_refused(board: Recorded, folder: Path) -> None:
    with (
        pytest.raises(InputError, match="is reserved for the socket of the page"),
        serving(board.board.settings, folder / "board.http"),
    ):
        pass


def test_an_address_that_is_taken_is_named(board: Recorded, folder: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(StorageError, match=f"127.0.0.1:{port}: the page cannot be served there"),
            opened(board, folder, port),
        ):
            pass


@pytest.mark.parametrize(("host", "warned"), [("0.0.0.0", True), ("127.0.0.1", False), ("[::1]", False)])  # noqa: S104
def test_an_address_for_other_machines_is_warned_of(
    board: Recorded, folder: Path, lines: list[str], host: str, warned: bool
) -> None:
    address = f"{host}:{free_ports(1)[0]}"
    changed = msgspec.structs.replace(board.board.settings, web=address)
    with serving(changed, folder / "board.sock", lines=lines):
        pass
    assert any("everyone who can connect sees the open boards" in line for line in lines) is warned


# Requests that do not fit


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"])
def test_a_method_that_does_not_read_is_refused(door: Path, method: str) -> None:
    answer = raw(door, f"{method} / HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert status(answer) in (405, 400)
    assert (b"\r\nAllow: GET, HEAD\r\n" in answer) is (status(answer) == 405)


@pytest.mark.parametrize("target", ["/", "/feed", "/boards/vectoradd_py", "/live.js", "/nothing", "/metrics"])
def test_a_head_has_the_headers_of_a_get_and_no_body(board: Recorded, door: Path, target: str) -> None:
    passed(board, "ada", 1e-3)
    whole, head = ask(door, target), ask(door, target, "HEAD")
    assert (head.status, head.body) == (whole.status, b"")
    assert head.headers["Content-Length"] == str(len(whole.body)) if target != "/metrics" else True


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"Content-Length: +5\r\n\r\n",
        b"Content-Length: 60\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n",
        b" folded: yes\r\n\r\n",
        b"X: a\x00b\r\n\r\n",
        b"X: a\nY: b\r\n\r\n",
    ],
)
def test_no_second_request_is_smuggled_behind_a_first(door: Path, head: bytes) -> None:
    answer = raw(
        door, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + head + b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    assert status(answer) == 400
    assert b"smuggled" not in answer


@pytest.mark.parametrize(
    "target",
    [
        *("//", "/..", "/../board.db", "/boards/../feed", "/boards/%2e%2e/feed", "/%2e%2e/%2e%2e/etc/passwd", "/./"),
        *(
            "/boards/",
            "/boards/vectoradd_py/",
            "/boards//vectoradd_py",
            "/boards/%00",
            "/boards/vectoradd_py%0a",
            "/feed/",
        ),
        *("/runs/0", "/runs/-1", "/runs/01", "/runs/1e3", "/runs/99999999999999999999", "/runs/\u0661", "/page.css/.."),
        *(
            "/web/page.css",
            "/page.py",
            "/live.js%00",
            "http://evil/",
            "*",
        ),
        *("/boards/" + "a" * 300, "/?" + "v=1" * 200, "/feed?v=<script>&x=" + "y" * 400, "/feed#x"),
    ],
)
def test_no_other_spelling_of_a_path_leads_anywhere(door: Path, target: str) -> None:
    data = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    answer = raw(door, data)
    assert status(answer) in (404, 400)
    assert b"evil" not in answer


def test_long_lines_and_many_headers_are_refused(door: Path) -> None:
    for data in (
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 10_000 + b"\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00" * 100 + b"\r\n\r\n",
    ):
        answer = raw(door, data)
        assert answer == b"" or 400 <= status(answer) < 500
    assert ask(door, "/").status == 200


def test_the_host_is_not_repeated(board: Recorded, door: Path) -> None:
    passed(board, "ada", 1e-3)
    for target in ("/", "/boards/vectoradd_py", "/nothing", "/metrics"):
        found = ask(door, target, headers={"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "evil"})
        text = raw(door, f"GET {target} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n".encode())
        assert b"evil" not in text + found.body


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    target=st.text(st.characters(codec="latin-1", exclude_characters="\r\n"), max_size=60).map(lambda text: f"/{text}")
    | st.sampled_from(["/", "/feed", "/boards/vectoradd_py", "/runs/1", "/metrics"]),
    headers=st.dictionaries(
        st.text(st.characters(codec="latin-1", exclude_characters="\r\n"), min_size=1, max_size=20),
        st.text(st.characters(codec="latin-1", exclude_characters="\r\n"), max_size=40),
        max_size=4,
    ),
)
def test_any_request_gets_one_answer_and_causes_no_fault(door: Path, target: str, headers: dict[str, str]) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    answer = raw(door, f"GET {target} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode("latin-1"))
    if answer:  # `serving` fails at a fault in the service's log
        assert status(answer) in (200, 304, 400, 404)


# Readers that do not behave


def test_a_request_that_comes_a_byte_at_a_time_is_cut_off(
    board: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_server, "REQUEST_SECONDS", 0.4)
    with opened(board, folder) as service, closing(connected(folder / "board.http")) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nX: ")

        def is_cut_off() -> bool:
            try:
                slow.sendall(b"a")
            except (BrokenPipeError, ConnectionResetError):
                return True
            return False

        awaited(is_cut_off)
        assert page_of(service).connections() == 0


def test_a_reader_that_takes_no_data_is_cut_off(board: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "WRITE_SECONDS", 0.4)
    monkeypatch.setattr(pages.Pages, "get", lambda *_: bytes(2**24))
    with opened(board, folder) as service, closing(connected(folder / "board.http")) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert slow.recv(9) == b"HTTP/1.1 "
        awaited(lambda: page_of(service).connections() == 0)
        received = 0
        with suppress(ConnectionResetError):
            while piece := slow.recv(2**20):
                received += len(piece)
    assert received < 2**24


@ROOT
def test_idle_connections_of_one_user_leave_room_for_others(
    board: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_server, "REQUEST_SECONDS", 120)
    door = folder / "board.http"
    with opened(board, folder) as service, ExitStack() as held:
        with acting_as("daemon"):
            for _ in range(2 * web_server.CONNECTIONS_OF_USER_MAX):
                held.enter_context(closing(connected(door)))
            awaited(lambda: page_of(service).connections() == web_server.CONNECTIONS_OF_USER_MAX)
            refused = raw(door, b"GET / HTTP/1.1\r\n\r\n")
        assert status(refused) == 503
        assert b"\r\nRetry-After: 5\r\n" in refused
        with acting_as("nobody"):
            assert ask(door, "/").status == 200
        held.close()
        awaited(lambda: page_of(service).connections() == 0)
        with acting_as("daemon"):
            assert ask(door, "/").status == 200


@pytest.mark.parametrize(("bound", "status_beside"), [("CONNECTIONS_OF_TCP_MAX", 200), ("CONNECTIONS_MAX", 503)])
def test_readers_over_tcp_leave_connections_to_the_unix_socket_below_the_bound_of_all(
    board: Recorded, folder: Path, port: int, monkeypatch: pytest.MonkeyPatch, bound: str, status_beside: int
) -> None:
    monkeypatch.setattr(web_server, bound, 2)
    with opened(board, folder, port) as service, ExitStack() as held:
        for _ in range(2):
            held.enter_context(closing(connected(port)))
        awaited(lambda: page_of(service).connections() == 2)
        assert status(raw(port, b"")) == 503
        assert status(raw(folder / "board.http", b"GET /feed HTTP/1.1\r\n\r\n")) == status_beside


def test_the_service_ends_while_connections_are_open(board: Recorded, folder: Path) -> None:
    with opened(board, folder) as service, closing(connected(folder / "board.http")) as idle:
        awaited(lambda: page_of(service).connections() == 1)
        service.stop()
        assert idle.recv(1) == b""


def page_of(service: Service) -> web_server.WebServer:
    assert service._page is not None
    return service._page


# Numbers


def numbers(place: Path | int) -> dict[tuple[str, str], float]:
    """The metrics by name and the values of their labels."""
    answer = ask(place, "/metrics")
    assert answer.status == 200
    return {
        (sample.name, " ".join(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_the_metrics_count_runs_passes_answers_and_refusals(board: Recorded, door: Path, folder: Path) -> None:
    board.add(status_of(RunState.QUEUED), user="ada")
    with asking(folder / "board.sock") as remote:
        remote.runs.list()
        with suppress(InputError):
            remote.runs.get(99)
        found = numbers(door)
        assert found["hpc_board_connections", ""] == 1
    with of_wire(folder / "board.sock") as client:
        client.greeted().ask("ada.<x>")
        client.ask("changes", user="ada")
    ask(door, "/nothing")
    ask(door, "/<x>")
    awaited(lambda: numbers(door)["hpc_board_passes_total", ""] >= 1)
    found = numbers(door)
    assert found["hpc_board_requests_total", "ok runs.list"] == 1
    assert found["hpc_board_requests_total", "error runs.get"] == 1
    assert found["hpc_board_requests_total", "error unknown"] == 1
    assert found["hpc_board_requests_total", "error changes"] == 1
    assert found["hpc_board_requests_total", "404 page other"] == 2
    assert found["hpc_board_requests_total", "200 page metrics"] >= 1
    assert found["hpc_board_queue_age_seconds", ""] > 0 or found["hpc_board_runs", "queued"] == 0
    assert found["hpc_board_start_time_seconds", ""] > 1.7e9
    assert {name for name, _ in found} >= {
        "hpc_board_streams",
        "hpc_board_page_connections",
        "hpc_board_refusals_total",
    }


def test_the_metrics_do_not_count_the_runs_of_closed_boards(board: Recorded) -> None:
    board.add(status_of(RunState.QUEUED), user="ada")
    installation = Installation(board.board.settings, OWNER, print)

    def text() -> bytes:
        return metrics_text(Board.within(PublicContext(installation, print)), Counts(), {})

    assert b'hpc_board_runs{state="queued"} 1\n' in text()
    closed(board, "daemon")
    assert b'hpc_board_runs{state="queued"} 0\n' in text()
    assert b"hpc_board_queue_age_seconds 0.0\n" in text()


def test_the_metrics_are_in_the_format_of_prometheus(board: Recorded) -> None:
    counts = Counts()
    for took_seconds, answered in ((0.02, True), (2.0, True), (500.0, False)):
        counts.passed(Pass(polls=(Poll('a "b"\\c\n', took_seconds, answered),)))
    counts.answered("runs.list", "ok")
    installation = Installation(board.board.settings, OWNER, print)
    gauges = {"waits": ("Clients that wait.", 3)}
    text = metrics_text(Board.within(PublicContext(installation, print)), counts, gauges).decode()
    found = {family.name: family for family in text_string_to_metric_families(text)}
    kinds = {found[f"hpc_board_{name}"].type for name in ("runs", "queue_age_seconds", "waits", "start_time_seconds")}
    assert kinds == {"gauge"}
    assert {found[f"hpc_board_{name}"].type for name in ("requests", "passes", "refusals")} == {"counter"}
    took = found["hpc_board_scheduler_seconds"]
    assert (took.type, took.documentation) == ("histogram", "Latency of scheduler queries about jobs.")
    assert {sample.labels["cluster"] for sample in took.samples} == {'a "b"\\c\n'}
    values = {sample.labels.get("le", sample.name.rpartition("_")[2]): sample.value for sample in took.samples}
    assert [values[bound] for bound in ("0.01", "0.03", "1.0", "3.0", "60.0", "+Inf")] == [0, 1, 1, 2, 2, 3]
    assert (values["count"], values["sum"]) == (3, 502.02)


def test_the_metrics_name_no_user(board: Recorded, door: Path, folder: Path) -> None:
    passed(board, "ada", 1e-3)
    board.add(status_of(RunState.QUEUED), user="ada")
    with asking(folder / "board.sock") as remote:
        remote.runs.list(user="ada")
        ask(door, "/boards/ada")
    text = ask(door, "/metrics").text
    assert "ada" not in text
    assert OWNER not in text


@ROOT
def test_metrics_are_for_admins_since_closed_boards_move_them(door: Path) -> None:
    with acting_as("nobody"):
        assert (ask(door, "/").status, ask(door, "/metrics").status) == (200, 403)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8080", 200),
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("", 200),
        ("evil.example.com:8080", 421),
        ("localhost.evil.example.com", 421),
        ("127.0.0.1.evil.example.com:8080", 421),
        ("boards.site.org", 421),
    ],
)
def test_the_page_has_no_foreign_name(door: Path, host: str, status: int) -> None:
    answer = raw(door, f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


def test_the_settings_give_the_page_a_name_of_a_proxy(board: Recorded, folder: Path, port: int) -> None:
    question = b"GET / HTTP/1.1\r\nHost: Boards.site.org\r\nConnection: close\r\n\r\n"
    with opened(board, folder, port, web_host="boards.site.org"):
        assert raw(folder / "board.http", question).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(("by_settings", "status"), [(False, 404), (True, 200)])
def test_metrics_are_on_tcp_only_if_the_settings_say_so(
    board: Recorded, folder: Path, port: int, by_settings: bool, status: int
) -> None:
    with opened(board, folder, port, web_metrics=by_settings):
        assert (ask(folder / "board.http", "/metrics").status, ask(port, "/metrics").status) == (200, status)


def test_the_mark_changes_with_all_that_readers_see(board: Recorded) -> None:
    store = Store(board.board.settings.board / "board.db")
    opened_board = Board(board.board.settings, user=OWNER)
    run = passed(board, "ada", 1e-3)
    marks = [store.additions.marks()]
    for change in (
        lambda: store.runs.record(board.add(user="bob").id, status_of(RunState.QUEUED)),
        lambda: opened_board.moderation.remove([run.submission], reason="x"),
        lambda: closed(board),
    ):
        change()
        marks.append(store.additions.marks())
    assert len(set(marks)) == len(marks)
    assert store.additions.marks() == marks[-1]


def test_the_overview_counts_runs_that_count_and_those_in_flight(board: Recorded) -> None:
    store = Store(board.board.settings.board / "board.db")
    task = board.board.tasks.get("vectoradd_py")
    passed(board, "ada", 1e-3)
    passed(board, "ada", 2e-3)
    passed(board, "bob", 2e-3, gpu="H100")
    board.add(status_of(RunState.QUEUED), user="ada")
    board.add(status_of(RunState.RUNNING), user="ada")
    assert [(each.gpu, each.runs) for each in store.standings.activity(task.name, task.version)] == [
        ("CPU", 2),
        ("H100", 1),
    ]
    found = store.runs.counts_in_flight(hidden=())
    assert found.by_state == {RunState.QUEUED: 1, RunState.RUNNING: 1}
    assert found.oldest_waiting is not None
    assert store.runs.counts_in_flight(hidden=(task.name,)).by_state == {}


def test_the_service_makes_two_sockets_and_no_more(board: Recorded, folder: Path) -> None:
    assert list(folder.iterdir()) == []
    with opened(board, folder):
        assert sorted(path.name for path in folder.iterdir()) == ["board.http", "board.sock"]
