"""Attacks of a submission beside computing, on the node and on its channel: each gets the verdict that it deserves."""

import mmap
import os
from pathlib import Path
from typing import Any

import pytest

from hpc_board.harness.processes.memory import mapped_at
from hpc_board.harness.wire.channel import ChannelFull, ProtocolViolation, pair
from hpc_board.harness.wire.replies import Done, Failure, answer_of
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Mode
from tests.harness.evaluations import REFERENCE, RIGHT, a_task, evaluate
from tests.harness.test_verdicts import kernel

FULL = "S4"


def confined(result: Result) -> None:
    """Skip where this kernel cannot confine a worker as these tests want."""
    if result.provenance["isolation"] != FULL:
        pytest.skip(f"this kernel confines workers at {result.provenance['isolation']!r} only")


def test_an_output_of_the_form_that_an_earlier_call_had_is_still_the_wrong_form(tmp_path: Path) -> None:
    reference = REFERENCE.replace("for _ in range(size)", "for _ in range(size + seed % 50)")
    shortest = "least = 10**9\n" + RIGHT.replace(
        "    return", "    global least\n    least = min(least, len(data))\n    data = data[:least]\n    return"
    )
    result = evaluate(tmp_path, shortest, a_task(reference), mode=Mode.RANKED).result
    assert result.verdict is Verdict.WRONG_SHAPE


def test_memory_that_others_share_and_terminals_cannot_be_written(tmp_path: Path) -> None:
    shared = Path("/dev/shm") / f"hpc-board-test-{os.getpid()}"
    shared.write_text("untouched")
    master, terminal = os.openpty()
    try:
        attack = (
            f"for path in ({str(shared)!r}, {os.ttyname(terminal)!r}):\n"
            "    try:\n        open(path, 'w').write('taken')\n    except OSError as error:\n        print(error)"
        )
        found = evaluate(tmp_path, kernel(attack))
        confined(found.result)
        assert shared.read_text() == "untouched"
        assert found.result.stdout.text.count("Permission denied") == 6
    finally:
        shared.unlink()
        os.close(master)
        os.close(terminal)


@pytest.mark.parametrize(
    "mess",
    [
        "os.mkdir('closed'); os.mkdir('closed/in'); os.chmod('closed', 0)",
        "for _ in range(3000):\n    os.mkdir('d'); os.chdir('d')",
    ],
    ids=["closed", "deep"],
)
def test_the_scratch_folder_is_removed_whatever_is_in_it(tmp_path: Path, mess: str) -> None:
    source = f"import os\nHOME = os.environ['HOME']\n{mess}\nprint(HOME)\n" + RIGHT
    found = evaluate(tmp_path, source)
    assert found.result.verdict is Verdict.PASS, found.result.message
    assert not Path(found.result.stdout.text.split()[0]).parent.exists()
    assert found.output == ""


@pytest.mark.parametrize(
    "forged",
    [
        "fd = os.memfd_create('a\\rb'); os.ftruncate(fd, 4096); m = mmap.mmap(fd, 4096)",
        "ctypes.CDLL(None).prctl(15, b'x\\rSeccomp:')",
        "ctypes.CDLL(None).prctl(15, b'x\\rVmHWM: 9999')",
    ],
)
def test_a_name_with_a_carriage_return_forges_no_line_of_the_kernel(tmp_path: Path, forged: str) -> None:
    source = f"import ctypes, mmap, os\n{forged}\ndef custom_kernel(data):\n    return [0.0 for x in data]\n"
    result = evaluate(tmp_path, source, mode=Mode.BENCHMARK).result
    assert result.verdict is Verdict.WRONG_VALUE, result.message


def test_the_name_of_a_file_adds_no_mapping() -> None:
    arena = os.memfd_create("arena")
    found = os.fstat(arena)
    name = f"x\r1000-2000 r-- 0 {os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x} {found.st_ino} "
    forged = os.memfd_create(name)
    try:
        for descriptor in (arena, forged):
            os.ftruncate(descriptor, 4096)
        with mmap.mmap(arena, 4096), mmap.mmap(forged, 4096):
            (mapped,) = mapped_at(os.getpid(), [arena])
        assert mapped[1] - mapped[0] == 4096
    finally:
        os.close(arena)
        os.close(forged)


CHANNEL = """
import array, json, os, socket, stat, sys, time

def channel_of_this_process():
    for name in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                return socket.socket(fileno=int(name))
        except OSError:
            continue

channel = channel_of_this_process()

def send(frame):
    channel.send(frame if isinstance(frame, bytes) else json.dumps(frame).encode())

"""


@pytest.mark.parametrize(
    ("attack", "told"),
    [
        ("send(b'{')", "it sent a frame that is not JSON"),
        ("send(b'[' * 60000)", "it sent a frame that is not JSON"),
        ("send(b'[]')", "it sent a frame without a type"),
        ("send(b'x' * 70000)", "it sent a frame that is too large, or descriptors"),
        ("socket.send_fds(channel, [b'{}'], [0, 1, 2])", "it sent a frame that is too large, or descriptors"),
        (
            "send({'type': 'checked', 'verdict': 'pass', 'message': ''})",
            "it sent a frame of the type 'checked'",
        ),
        (
            "send({'type': 'raised', 'verdict': 'device_error', 'message': 'CUDA error: GPU is lost'})",
            "it reported an unknown failure",
        ),
    ],
)
def test_a_forged_frame_is_a_violation_and_never_a_pass(tmp_path: Path, attack: str, told: str) -> None:
    source = CHANNEL + RIGHT.replace("    return", f"    {attack}\n    return")
    result = evaluate(tmp_path, source).result
    assert result.cases[0].verdict is result.verdict is Verdict.PROTOCOL_VIOLATION, result.message
    assert told in result.message


@pytest.mark.timeout(20)
@pytest.mark.parametrize("fds", [[], [0]], ids=["a frame", "a frame with a descriptor"])
def test_nothing_waits_for_an_end_that_does_not_read(fds: list[int]) -> None:
    channel, theirs = pair()

    def send_forever() -> None:
        while True:
            channel.send({"type": "run"}, fds)

    with theirs, pytest.raises(ChannelFull):
        send_forever()
    channel.close()


def test_a_worker_that_floods_the_channel_and_never_reads_ends_the_run(tmp_path: Path) -> None:
    flood = (
        "    if not flooded:\n        flooded.append(1)\n        channel.setblocking(False)\n        try:\n"
        "            while True: send({'type': 'raised', 'verdict': 'exception', 'message': 'x'})\n"
        "        except BlockingIOError:\n            time.sleep(60)\n"
    )
    source = CHANNEL + "flooded = []\n" + RIGHT.replace("    return", f"{flood}    return")
    task = a_task(tests=tuple({"size": 3, "seed": seed} for seed in range(330)))
    result = evaluate(tmp_path, source, task).result
    assert result.verdict in (Verdict.EXCEPTION, Verdict.PROTOCOL_VIOLATION)


DONE = {"type": "done", "call": 7, "elapsed_ns": 5, "outputs": [], "blocks": []}


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "run"},
        {"type": "confined"},
        {"type": "confined", "isolation": [], "lacking": {}},
        {"type": "confined", "isolation": "S3", "lacking": 1},
        {"type": "confined", "isolation": "S3", "lacking": {"jax": 1}},
        {"type": "done", "call": 1, "blocks": []},
        {"type": "done", "call": 1, "elapsed_ns": 1},
        {**DONE, "call": True},
        {**DONE, "elapsed_ns": True},
        {**DONE, "elapsed_ns": "1"},
        {**DONE, "elapsed_ns": 10**400},
        {**DONE, "elapsed_ns": float("nan")},
        {**DONE, "elapsed_ns": float("inf")},
        {**DONE, "outputs": 1},
        {**DONE, "outputs": [[0]]},
        {**DONE, "outputs": [[0, -1]]},
        {**DONE, "blocks": None},
        {**DONE, "blocks": [1.5]},
        {**DONE, "blocks": [-1]},
        {**DONE, "blocks": [2**63]},
        {**DONE, "blocks": [True]},
        {**DONE, "blocks": [0] * 3001},
        {"type": "raised", "verdict": [], "message": ""},
        {"type": "raised", "verdict": "excellent", "message": ""},
        {"type": "raised", "verdict": "exception", "message": 1},
        {"type": "raised", "verdict": "load_error", "message": "", "module": ["jax"]},
        {"type": "ready", "facts": 1},
        {"type": "ready", "facts": {"torch": []}},
        {"type": "ready", "facts": {str(number): number for number in range(101)}},
    ],
)
def test_a_frame_with_the_wrong_things_in_it_is_a_violation(frame: dict[str, Any]) -> None:
    with pytest.raises(ProtocolViolation):
        answer_of(frame)


def test_an_answer_is_read_with_its_text_made_safe() -> None:
    told = {"outputs": [[0, 64]], "blocks": [8, 9]}
    assert answer_of({**DONE, **told}) == Done(7, 5.0, ((0, 64),), (8, 9))
    failure = answer_of({"type": "raised", "verdict": "exception", "message": "\x1b[31mred\ud800" + "x" * 10**6})
    assert isinstance(failure, Failure)
    assert failure.verdict is Verdict.EXCEPTION
    assert failure.message.startswith("red·x")
    assert len(failure.message) == 16_000
