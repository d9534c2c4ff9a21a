"""Frames of a worker or judge that hold something else than an answer."""

from typing import Any

import pytest

from hpc_board.harness.answers import Done, Failure, answer_of
from hpc_board.harness.channel import ProtocolViolation
from hpc_board.model.result import Verdict


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "run"},
        {"type": "loaded"},
        {"type": "loaded", "isolation": []},
        {"type": "done", "call": 1},
        {"type": "done", "call": True, "elapsed_ns": 1},
        {"type": "done", "call": 1, "elapsed_ns": True},
        {"type": "done", "call": 1, "elapsed_ns": "1"},
        {"type": "done", "call": 1, "elapsed_ns": 10**400},
        {"type": "done", "call": 1, "elapsed_ns": float("nan")},
        {"type": "done", "call": 1, "elapsed_ns": float("inf")},
        {"type": "raised", "verdict": [], "message": ""},
        {"type": "raised", "verdict": "excellent", "message": ""},
        {"type": "raised", "verdict": "exception", "message": 1},
        {"type": "ready", "facts": 1},
        {"type": "ready", "facts": {"torch": []}},
        {"type": "ready", "facts": {str(number): number for number in range(101)}},
    ],
)
def test_a_frame_with_the_wrong_things_in_it_is_a_violation(frame: dict[str, Any]) -> None:
    with pytest.raises(ProtocolViolation):
        answer_of(frame)


def test_an_answer_is_read_with_its_text_made_safe() -> None:
    assert answer_of({"type": "done", "call": 7, "elapsed_ns": 5}) == Done(7, 5.0)
    failure = answer_of({"type": "raised", "verdict": "exception", "message": "\x1b[31mred\ud800" + "x" * 10**6})
    assert isinstance(failure, Failure)
    assert failure.verdict is Verdict.EXCEPTION
    assert failure.message.startswith("red·x")
    assert len(failure.message) == 16_000
