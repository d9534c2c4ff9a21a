"""The log of a service: what a client causes in it has a bound."""

import json

from hpc_board.service.log import ServiceLog


def later(log: ServiceLog) -> None:
    """Let two seconds pass for the log."""
    log._refused = {key: (at - 2, untold) for key, (at, untold) in log._refused.items()}
    log._peers = {peer: (begun - 2, told, untold) for peer, (begun, told, untold) in log._peers.items()}


def test_refusals_without_end_are_a_line_a_second() -> None:
    lines: list[str] = []
    log = ServiceLog(lines.append)
    for number in range(1000):
        log("refused", uid=number % 2, reason="too many connections")
    assert len(lines) == 2
    later(log)
    log("refused", uid=0, reason="too many connections")
    assert json.loads(lines[-1])["times"] == 500


def test_refusals_that_a_peer_words_differently_each_time_are_few_lines_a_second() -> None:
    lines: list[str] = []
    log = ServiceLog(lines.append)
    for number in range(3000):
        log("refused", uid=7, reason=f"invalid Request: unknown field `x{number}`")
    log("refused", uid=8, reason="owned by ada, not by bob.")
    assert [json.loads(line)["uid"] for line in lines] == [*[7] * 10, 8]
    later(log)
    log("refused", uid=7, reason="owned by ada, not by bob.")
    assert json.loads(lines[-1])["others_untold"] == 2990
    assert len(log._refused) <= 1000
