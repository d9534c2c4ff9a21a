"""A scheduler is a package and a line of the registry: a third one, in `tests/at_once`, with nothing else changed."""

import ast
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from hpc_board import schedulers, settings
from hpc_board.admin.detect import detected_settings
from hpc_board.board import Board
from hpc_board.cli.main import cli
from hpc_board.domain.diagnostic import Severity
from hpc_board.domain.run import RunState
from hpc_board.errors import DocumentError, InputError
from hpc_board.model.gpu import Device
from hpc_board.model.result import Verdict
from hpc_board.transport.this_host import ThisHost
from tests.at_once import Lane
from tests.e2e.boards import HANGING, RIGHT, WRONG, BoardFiles, board_files
from tests.unit.recorded import REPOSITORY
from tests.values import replace, requested

Keys = Mapping[str, object]

CLUSTER: Keys = {"scheduler": "at-once", "shell": "bash"}
GPU: Keys = {"cluster": "box", "lane": "slow", "device": "cpu", "python": sys.executable, "env": {"GREETING": "hello"}}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(schedulers.KINDS, "at-once", "tests.at_once.kind:AT_ONCE")


@pytest.fixture
def files(tmp_path: Path) -> BoardFiles:
    found = board_files(tmp_path, slurm=False)
    describe(found, CLUSTER, GPU)
    return found


def describe(files: BoardFiles, cluster: Keys, gpu: Keys) -> None:
    document = yaml.safe_load(files.settings.read_text())
    files.settings.write_text(
        yaml.safe_dump({**document, "clusters": {"box": dict(cluster)}, "gpus": {"X86": dict(gpu)}})
    )


def opened(files: BoardFiles) -> Board:
    return Board(settings.load(files.settings, os.environ))


def test_its_jobs_run_and_their_results_are_ranked(files: BoardFiles) -> None:
    board = opened(files)
    (gpu,) = board.settings.gpus
    assert (gpu.partition, gpu.scheduler_options, gpu.cluster.poll_seconds) == ("slow", Lane("slow"), 0.1)
    drafts = [requested(files.kernel(text, f"{name}.py"), mode="ranked") for name, text in (("r", RIGHT), ("w", WRONG))]
    runs = board.submissions.submit(drafts)
    assert [run.state for run in runs] == [RunState.QUEUED] * 2
    while not board.runs.advance():
        pass
    right, wrong = (board.runs.get(run.id) for run in runs)
    assert [(run.state, run.verdict) for run in (right, wrong)] == [
        (RunState.FINISHED, Verdict.PASS),
        (RunState.FINISHED, Verdict.WRONG_VALUE),
    ]
    assert (right.status.job_id, right.status.node, right.partition) == ("job0", "here", "slow")
    assert [standing.run for standing in board.standings.pages("double", ["X86"])[0].rows] == [right.id]
    shown = CliRunner().invoke(cli, ["--config", str(files.settings), "show", "double"])
    assert (shown.exit_code, "r.py" in shown.stdout) == (0, True), shown.output


def test_a_job_that_leaves_no_result_ends_by_its_word_and_its_last_line(files: BoardFiles) -> None:
    describe(files, CLUSTER, {**GPU, "modules": ["cuda"]})
    board = opened(files)
    (run,) = board.submissions.submit([requested(files.kernel(), mode="test")])
    while not (ended := board.runs.get(run.id)).state.ended:
        board.runs.advance()
    assert ended.state is RunState.ERROR
    assert ended.status.source.startswith("at once: over; no result file after 0 s")
    # A machine with Lmod has the command, and no such module.
    last = r'its output ends with "(?:hpc-board: this node has no `module` command|module load failed: cuda)'
    assert re.search(last, ended.status.source)
    assert board.runs.log(run.id).endswith(("nor a login shell defines it\n", "module load failed: cuda\n"))


def test_its_script_has_its_directives_and_its_exports(files: BoardFiles) -> None:
    board = opened(files)
    (preview,) = board.submissions.preview([requested(files.kernel(HANGING), mode="test")])
    lines = preview.script.splitlines()
    assert lines[:3] == ["#!/bin/bash", "#ATONCE lane=slow", "#ATONCE seconds=720"]
    assert "export AT_ONCE_QUIET='yes please'" in lines
    assert not any("SLURM" in line or "SBATCH" in line for line in lines)
    assert preview.command == ("bash", str(files.folder / "board/runs/RUN/job.sh"))


@pytest.mark.parametrize(
    ("cluster", "gpu", "words"),
    [
        ({**CLUSTER, "shell": "/bin/sh"}, GPU, "clusters.box.shell: is a name, not a path"),
        ({**CLUSTER, "poll_seconds": 0.01}, GPU, "box.poll_seconds: expected at least 0.05 seconds for At Once"),
        ({**CLUSTER, "client": "cli"}, GPU, "clusters.box.client: is not a known key"),
        ({"scheduler": "local"}, GPU, "gpus.X86.lane: is not a known key"),
        (CLUSTER, {"cluster": "box"}, "gpus.X86.lane: is missing"),
        (
            CLUSTER,
            {**GPU, "lane": "fast", "container": {"runtime": "enroot", "image": "a"}},
            "gpus.X86.lane: has no containers",
        ),
        (
            CLUSTER,
            {**GPU, "container": {"runtime": "pyxis", "image": "a"}},
            "gpus.X86.container.runtime: pyxis is not available on cluster box, which has apptainer, enroot",
        ),
    ],
)
def test_its_settings_are_read_as_strictly_as_all_others(
    files: BoardFiles, cluster: Keys, gpu: Keys, words: str
) -> None:
    describe(files, cluster, gpu)
    with pytest.raises(DocumentError) as caught:
        settings.load(files.settings, {})
    (fault,) = caught.value.faults
    assert words in str(fault)


def test_it_takes_one_gpu_and_no_arrays(files: BoardFiles) -> None:
    board = opened(files)
    (gpu,) = board.settings.gpus
    assert schedulers.kind_of(gpu.cluster).with_gpus(gpu, 2) is gpu
    with pytest.raises(InputError, match=r"the scheduler of GPU \(at-once\) gives each job only one"):
        schedulers.kind_of(gpu.cluster).with_gpus(replace(gpu, name="GPU", device=Device.CUDA), 2)
    previews = board.submissions.preview([requested(files.kernel()) for _ in range(4)], array=True)
    assert [preview.array for preview in previews] == [""] * 4


def test_admin_commands_do_with_the_little_that_it_tells(files: BoardFiles) -> None:
    board = opened(files)
    assert all(found.severity is not Severity.ERROR for found in board.admin.diagnose(""))
    (checked,) = board.admin.check_gpus(send=False)
    assert checked.proven, checked.diagnostics
    assert [found.free for found in (status.availability for status in board.gpus.statuses())] == [1]
    found = detected_settings(ThisHost({"PATH": "/nowhere"}), board="/b", gpus=[("CPU", Device.CPU)])
    assert (found.gpus, [each.subject for each in found.diagnostics]) == (("CPU",), ["scheduler"])


def names_in(source: str) -> Iterator[str]:
    """The names of schedulers that are strings of a module by themselves."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and node.value in schedulers.KINDS:
            yield str(node.value)


def test_no_file_but_the_registry_and_its_own_package_names_a_scheduler() -> None:
    package = REPOSITORY / "hpc_board"
    registry = package / "schedulers" / "__init__.py"
    own = [package / "schedulers" / name for name in schedulers.KINDS]
    files = [file for file in package.rglob("*.py") if file != registry and not set(file.parents).intersection(own)]
    assert len(files) > 100
    assert {str(file.relative_to(package)): found for file in files if (found := [*names_in(file.read_text())])} == {}


def test_the_names_of_schedulers_are_found_where_they_are_compared() -> None:
    assert [*names_in('if cluster.scheduler == "slurm" or scheduler in ("local", "lsf"): pass')] == ["slurm", "local"]
