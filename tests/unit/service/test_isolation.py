"""The isolation that a served board demands, and GPUs whose runs fall short of it."""

import dataclasses
import json
from pathlib import Path

from hpc_board.domain.run import RunState
from hpc_board.model.result import Verdict
from hpc_board.service.server import demanding
from hpc_board.settings import load
from tests.service import serving
from tests.unit.recorded import (
    Recorded,
    result_of,
    status_of,
)


def test_a_served_board_demands_isolation_unless_a_gpu_names_its_own_level(board: Recorded) -> None:
    text = board.settings.read_text().replace("device: cpu}", "device: cpu, minimum_isolation: S1}")
    board.settings.write_text(text)
    found = {gpu.name: gpu.minimum_isolation for gpu in demanding(board.board.settings).gpus}
    assert found == {"CPU": "S3", "H100": "S1"}


def test_a_served_board_demands_the_judges_clock_of_cuda_gpus_unless_they_name_another(board: Recorded) -> None:
    text = board.settings.read_text().replace("device: cpu}", "device: cuda}")
    for settings, clock in ((text, "judge"), (text.replace("cuda}", "cuda, minimum_clock: worker}"), "worker")):
        board.settings.write_text(settings)
        found = {gpu.name: gpu.minimum_clock for gpu in demanding(load(board.settings, {})).gpus}
        assert found == {"CPU": "", "H100": clock}


def test_a_gpu_whose_newest_runs_fell_short_of_the_level_is_named_at_the_start(board: Recorded, folder: Path) -> None:
    def told() -> list[tuple[str | None, ...]]:
        lines: list[str] = []
        with serving(board.board.settings, folder / "board.sock", lines=lines):
            pass
        found = [each for each in map(json.loads, lines) if each["event"].startswith("isolation")]
        return [(each["event"], each["gpu"], each.get("reached"), each.get("effect")) for each in found]

    assert told() == [("isolation not recorded yet", gpu, None, None) for gpu in ("CPU", "H100")]
    for gpu, level in (("CPU", "S2"), ("CPU", "S4"), ("H100", "S3"), ("H100", "S2")):
        found = dataclasses.replace(result_of(Verdict.INFRA_ERROR), provenance={"isolation": level})
        board.add(gpu=gpu, user="mae", result=found)
    # A run without a result tells nothing.
    board.add(status_of(RunState.CREATED), gpu="H100")
    assert told() == [("isolation", "H100", "S2", "runs there end as infra_error")]
