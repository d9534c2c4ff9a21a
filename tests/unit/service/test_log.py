"""The log of a service: what a client causes in it has a bound."""

import json

from hpc_board.service.log import ServiceLog


def test_refusals_without_end_are_few_lines_a_second_for_each_peer() -> None:
    lines: list[str] = []
    log = ServiceLog(lines.append)
    for number in range(3000):
        log("refused", uid=7, reason=f"invalid Request: unknown field `x{number}`")
    log("refused", uid=8, reason="the owner is ada, not bob.")
    assert [json.loads(line)["uid"] for line in lines] == [*[7] * 10, 8]
    log._peers = {peer: (begun - 2, told, untold) for peer, (begun, told, untold) in log._peers.items()}
    log("refused", uid=7, reason="the owner is ada, not bob.")
    assert json.loads(lines[-1])["suppressed"] == 2990
