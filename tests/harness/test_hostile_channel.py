"""Attacks of a submission on the channel that its worker shares with the supervisor."""

from pathlib import Path

import pytest

from hpc_board.harness.wire.channel import ChannelFull, pair
from hpc_board.model.result import Verdict
from tests.harness.evaluations import RIGHT, a_task, evaluate

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
