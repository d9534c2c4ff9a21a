"""The adversarial suite at one runner: each submission ends as in a job of its own, and harms no run behind it."""

import secrets
import shutil
import socket
from pathlib import Path

import pytest

from hpc_board.harness.confine.sandbox import reaches
from hpc_board.model.result import Verdict
from tests.conftest import skip_without
from tests.harness.adversarial.attack import level, without_capabilities
from tests.harness.adversarial.suite import SUITE, Cheat
from tests.harness.adversarial.tasks import TASKS
from tests.harness.evaluations import result_in
from tests.harness.runners import RunnerFolder

pytestmark = pytest.mark.slow


def test_an_honest_run_after_each_cheat_passes_at_the_same_runner(tmp_path: Path) -> None:
    skip_without("numpy")
    skip_without("torch")
    runner, canary, secret = RunnerFolder(tmp_path), tmp_path / "canary", secrets.token_hex(16)
    runs: list[tuple[Cheat, Path, Path]] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        for cheat in filter(_can_run, SUITE):
            source = cheat.source.replace("@canary@", str(canary)).replace("@secret@", secret)
            source = source.replace("@port@", str(server.getsockname()[1]))
            job = runner.add(source, TASKS[cheat.task], cheat.mode, file_name=f"k{cheat.path.suffix}")
            runs.append((cheat, job, runner.add()))
        with runner.running(without_capabilities(), HPC_BOARD_TOKEN=secret) as shell:
            shell.wait(timeout=600)
    found = {cheat.id: result_in(job) for cheat, job, _ in runs}
    assert {cheat.id for cheat, _, _ in runs if found[cheat.id].verdict not in cheat.verdicts} == set()
    assert {name for name, result in found.items() if "REACHED" in f"{result.stdout.text}{result.stderr.text}"} == set()
    honest = {cheat.id: result_in(job) for cheat, _, job in runs}
    assert {name for name, result in honest.items() if result.verdict is not Verdict.PASS} == set()
    assert {result.provenance["runner_place"] for result in honest.values()} == {*range(2, 2 * len(runs) + 1, 2)}
    assert not canary.exists()


def _can_run(cheat: Cheat) -> bool:
    """Return whether a cheat can end with its verdict beside other tests, on this node, without a disk of its own."""
    if cheat.needs_quiet or cheat.scratch_bytes or cheat.neighbours or not reaches(level(), cheat.isolation):
        return False
    return cheat.path.suffix != ".cpp" or shutil.which("g++") is not None
