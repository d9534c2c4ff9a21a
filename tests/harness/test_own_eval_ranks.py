"""Evals that start several ranks: what they are told, and that ranks meet on this node."""

from pathlib import Path

import pytest

from hpc_board.harness.own_eval.evaluation import _for_ranks
from hpc_board.model.eval_program import eval_program
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from tests.harness.evaluations import evaluate
from tests.harness.own_evals import RIGHT_RANKS, judged, ranks_task, scripted
from tests.harness.test_container import BUBBLEWRAP, needs_bwrap

TALKS = """
import socket
server = socket.create_server(("127.0.0.1", int(os.environ["MASTER_PORT"])))
client = socket.create_connection(server.getsockname())
server.accept()[0].sendall(b"test.0.status: pass\\ncheck: pass\\n")
os.write(int(os.environ["POPCORN_FD"]), client.recv(100))
"""


@pytest.mark.torch
def test_ranks_meet_on_the_node_and_answer_together(tmp_path: Path) -> None:
    result = judged(tmp_path / "right", RIGHT_RANKS, ranks_task()).result
    assert (result.verdict, result.message) == (Verdict.PASS, ""), result.stderr.text
    alone = RIGHT_RANKS.replace("    dist.all_reduce(total)\n", "")
    assert judged(tmp_path / "alone", alone, ranks_task()).result.verdict is Verdict.WRONG_VALUE


def test_sockets_are_open_to_an_eval_of_ranks_and_the_level_says_so(tmp_path: Path) -> None:
    several = {"multi_gpu": True, "tests": ({"world_size": 2, "size": 3},), "benchmarks": ()}
    task = ranks_task(files=(scripted(TALKS).files[0], *ranks_task().files[1:]), **several)
    result = judged(tmp_path / "ranks", "", task).result
    assert (result.verdict, result.message) == (Verdict.PASS, "")
    assert result.provenance["isolation"] == "S1"
    closed = judged(tmp_path / "one", "", scripted(f"os.environ['MASTER_PORT'] = '0'\n{TALKS}")).result
    assert closed.verdict is Verdict.EXCEPTION
    assert "Permission denied" in closed.message


@needs_bwrap
def test_in_a_container_ranks_have_a_network_of_their_own(tmp_path: Path) -> None:
    task = ranks_task(files=(scripted(TALKS).files[0], *ranks_task().files[1:]))
    result = evaluate(tmp_path, "", task, Mode.TEST, sandbox=BUBBLEWRAP).result
    assert (result.verdict, result.message) == (Verdict.PASS, "")
    assert result.provenance["isolation"] != "S1"


def test_each_start_has_a_free_port() -> None:
    told = _for_ranks(4)
    assert (told["POPCORN_GPUS"], told["WORLD_SIZE"], told["MASTER_ADDR"]) == ("4", "4", "127.0.0.1")
    assert 1024 <= int(told["MASTER_PORT"]) < 65536


@pytest.mark.parametrize("size", [0, 65, "two", True])
def test_a_number_of_ranks_that_no_node_has_is_a_fault(size: object) -> None:
    task = ranks_task(tests=({"world_size": size},))
    assert eval_program(task)[1] == [("tests", "have an invalid world_size: expected a whole number from 1 to 64")]


def test_the_world_is_that_of_the_largest_case() -> None:
    task = ranks_task(tests=({"world_size": 2}, {"world_size": 8}), benchmarks=({"world_size": 4},))
    assert task.world_size == 8
