"""`hpc-board mcp` as an agent meets it: a process that answers the official SDK's client."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hpc_board.runs.job_folder import SCRIPT
from tests.agents import agent, check_tuned, tuned, write_quick_task
from tests.conftest import skip_without
from tests.e2e.boards import HANGING, RIGHT, BoardFiles, board_files
from tests.waiting import awaited

pytestmark = pytest.mark.slow

BEGIN: Mapping[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.fixture
def board(tmp_path: Path) -> BoardFiles:
    return board_files(tmp_path, slurm=False)


def environ(board: BoardFiles) -> dict[str, str]:
    return {**os.environ, **board.environ}


def asked(board: BoardFiles, *calls: tuple[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The answers of a server to calls."""

    async def session() -> list[tuple[str, str]]:
        async with agent(environ(board), "--config", str(board.settings)) as client:
            return [await client.call(tool, **arguments) for tool, arguments in calls]

    return asyncio.run(session())


def test_an_agent_tunes_a_bundled_kernel_in_ten_steps_within_25_calls_and_6000_tokens(board: BoardFiles) -> None:
    skip_without("numpy")
    write_quick_task(board.folder / "tasks")
    before = {*board.folder.iterdir()}
    client, runs = tuned(environ(board), "--config", str(board.settings), gpu="CPU")
    check_tuned(client, runs)
    # The board and the state of the local scheduler are all that it wrote.
    assert {path.name for path in {*board.folder.iterdir()} - before} <= {"board", "state"}


def test_a_run_is_waited_for_cancelled_and_listed_by_an_agent(board: BoardFiles) -> None:
    submitted, waited, cancelled, listed = asked(
        board,
        ("submit", {"task": "double", "code": HANGING, "wait_seconds": 0, "note": "sleeps", "key": "one"}),
        ("submit", {"task": "double", "code": HANGING, "wait_seconds": 0, "note": "sleeps", "key": "one"}),
        ("cancel", {"runs": [1]}),
        ("history", {"note": "sleeps"}),
    )
    assert submitted[1] == waited[1] == "wait runs=[1]"
    assert json.loads(cancelled[0])[0]["id"] == 1
    assert [run["id"] for run in json.loads(listed[0])] == [1]


def test_an_unknown_argument_is_an_error_in_words_to_the_client_of_the_sdk(board: BoardFiles) -> None:
    ((text, then),) = asked(board, ("submit", {"task": "double", "cod": RIGHT}))
    assert text == 'error: input: submit has no argument "cod". Did you mean "code"?'
    assert then.startswith("Arguments of submit: task, code")


def server(board: BoardFiles) -> "subprocess.Popen[str]":
    """A server that has answered the first question of a client."""
    process = subprocess.Popen(
        board.command("mcp"),
        env=environ(board),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    tell(process, BEGIN)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "hpc-board"
    tell(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    return process


def tell(process: "subprocess.Popen[str]", message: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{json.dumps(message)}\n")
    process.stdin.flush()


def waiting(board: BoardFiles) -> "subprocess.Popen[str]":
    """A server that waits for a run."""
    process = server(board)
    arguments = {"task": "double", "code": HANGING, "wait_seconds": 100}
    tell(
        process,
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "submit", "arguments": arguments}},
    )
    # A list of runs would send the run itself, with the harness of this process in place of the server's.
    awaited(lambda: any(board.folder.rglob(SCRIPT)))
    return process


def test_the_end_of_the_input_ends_a_server_that_waits_for_a_run(board: BoardFiles) -> None:
    process = waiting(board)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())
    (run,) = board.json("runs")
    assert not run["verdict"]
    board.run("cancel", str(run["id"]))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_server_that_waits_for_a_run(board: BoardFiles, number: signal.Signals) -> None:
    process = waiting(board)
    process.send_signal(number)
    assert process.wait(60) == -number
    assert process.stdout is not None
    assert process.stdout.read() == ""
    process.communicate()
    board.run("cancel", "1")


def test_a_line_that_is_no_message_leaves_the_server_to_answer_the_next_one(board: BoardFiles) -> None:
    process = server(board)
    assert process.stdin is not None
    process.stdin.write("no message\n{}\n[1\n")
    process.stdin.write('{"ud":"\\\\ud800 \\ud83d\\ude00"}\n{"\\ud800":' + "[" * 9_999 + "\n")
    tell(process, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "tasks", "arguments": {}}})
    out, _ = process.communicate(timeout=60)
    answers = [json.loads(line) for line in out.splitlines()]
    assert [each["id"] for each in answers if each.get("id") is not None] == [2]


@pytest.mark.parametrize("text", [r"\ud800", r"\udc00\ud800", "\udcff"], ids=["half", "reversed", "byte"])
def test_half_of_a_surrogate_pair_is_an_error_in_words(board: BoardFiles, text: str) -> None:
    process = server(board)
    assert process.stdin is not None
    call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "submit", "arguments": {"code": "#"}}}
    line = json.dumps(call).replace("#", f"# {text}")
    os.write(process.stdin.fileno(), f"{line}\n".encode(errors="surrogateescape"))
    assert process.stdout is not None
    answer = json.loads(process.stdout.readline())["result"]
    process.communicate(timeout=60)
    assert (answer["isError"], answer["content"][0]["text"]) == (True, "input: code is not valid UTF-8.")


def test_without_the_sdk_the_command_says_how_to_install_it(board: BoardFiles) -> None:
    program = "import sys; sys.modules['mcp'] = None; from hpc_board.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *board.words("mcp")],
        env=environ(board),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'hpc-board[mcp]'" in done.stderr
