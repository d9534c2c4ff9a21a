"""Frames of a worker or judge that hold something else than an answer."""

from typing import Any

import pytest

from hpc_board.harness.wire.channel import ProtocolViolation
from hpc_board.harness.wire.replies import Done, Failure, answer_of
from hpc_board.model.result import Verdict

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
