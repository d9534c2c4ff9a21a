"""The extensions that a Python submission compiles: kept for runs that rank nothing, of one user and one file."""

import json
import os
from pathlib import Path

import pytest

from hpc_board.harness.build.extensions import FOLDER
from hpc_board.harness.confine.sandbox import landlock_abi
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Mode
from hpc_board.runs import job_folder
from tests.harness.evaluations import ARRAYS, QUICK, RIGHT, a_task, judged_in, make_job_folder

pytestmark = pytest.mark.skipif(landlock_abi() < 1, reason="needs Landlock")

NOTES = (
    """
import os
folder = os.environ["TORCH_EXTENSIONS_DIR"]  # as load_inline does
os.makedirs(folder, exist_ok=True)
print("found", sorted(os.listdir(folder)))
with open(os.path.join(folder, "kernel.so"), "w") as file:
    file.write("tampered")
os.makedirs(os.path.join(folder, "name"), exist_ok=True)
open(os.path.join(folder, "name", "lock"), "w").close()
os.path.lexists(os.path.join(folder, "link")) or os.symlink("/etc/passwd", os.path.join(folder, "link"))
"""
    + RIGHT
)


def judged(board: Path, number: int, source: str = NOTES, mode: Mode = Mode.TEST, user: str = "ada") -> Result:
    folder = make_job_folder(board, source, a_task(), mode, number=number)
    facts = folder / job_folder.FACTS
    facts.write_text(json.dumps({**json.loads(facts.read_text()), "user": user}))
    result = judged_in(folder)
    assert result.verdict is Verdict.PASS, result.message
    return result


def test_the_next_run_of_a_file_finds_what_the_last_one_has_compiled_without_its_lock(tmp_path: Path) -> None:
    assert judged(tmp_path, 1).stdout.text == "found []\n"
    assert judged(tmp_path, 2, mode=Mode.BENCHMARK).stdout.text == "found ['kernel.so', 'name']\n"
    (kept,) = (each for each in (tmp_path / "cache" / FOLDER).iterdir() if each.is_dir())
    assert [path.name for path in kept.rglob("*") if path.is_symlink()] == []


def test_a_ranked_run_another_user_and_another_file_find_nothing(tmp_path: Path) -> None:
    judged(tmp_path, 1)
    outputs = [
        judged(tmp_path, 2, mode=Mode.RANKED).stdout.text.splitlines()[0],
        judged(tmp_path, 3, user="bob").stdout.text.strip(),
        judged(tmp_path, 4, source=f"{NOTES}# changed\n").stdout.text.strip(),
    ]
    assert outputs == ["found []"] * 3


def test_a_run_cannot_reach_the_extensions_of_others(tmp_path: Path) -> None:
    judged(tmp_path, 1)
    spies = f"""
import os  # load_inline
def tried(path):
    try:
        return os.listdir(path)
    except OSError as error:
        return type(error).__name__
print(tried({str(tmp_path / "cache" / FOLDER)!r}), tried(os.path.dirname(os.environ["TORCH_EXTENSIONS_DIR"])))
{RIGHT}"""
    for number, mode in enumerate((Mode.TEST, Mode.RANKED), 2):
        assert "PermissionError" in judged(tmp_path, number, spies, mode, "eve").stdout.text.split()[0]


def test_what_a_killed_run_has_left_is_removed_by_the_next_one_of_anybody(tmp_path: Path) -> None:
    root = tmp_path / "cache" / FOLDER
    (root / "killed" / "shut").mkdir(parents=True)
    (root / "killed" / "shut").chmod(0)
    (root / "ended").mkdir()
    (root / "killed.lock").write_bytes(b"held")
    for name in ("ended", "gone"):
        (root / f"{name}.lock").touch()
    judged(tmp_path, 1)
    assert [(root / name).exists() for name in ("killed", "ended")] == [False, True]
    locks = {path.stem: path.stat().st_size for path in root.glob("*.lock")}
    assert locks == {path.name: 0 for path in root.iterdir() if path.is_dir()}


LOAD_INLINE = """
import torch
from torch.utils.cpp_extension import load_inline

module = load_inline("doubled", "double doubled(double x) { return 2 * x; }", functions=["doubled"], verbose=True)

def custom_kernel(data):
    return data * (module.doubled(1.0))
"""


@pytest.mark.slow
@pytest.mark.torch
def test_load_inline_of_an_unchanged_file_is_built_once(tmp_path: Path) -> None:
    pytest.importorskip("torch.utils.cpp_extension")
    task = a_task(ARRAYS, limits={**QUICK, "load_seconds": 240})
    outputs = [
        judged_in(make_job_folder(tmp_path, LOAD_INLINE, task, Mode.TEST, number=number), HOME=os.environ["HOME"])
        for number in (1, 2)
    ]
    assert [each.verdict for each in outputs] == [Verdict.PASS] * 2, outputs[0].message
    assert ["ninja: no work to do." in each.stdout.text for each in outputs] == [False, True]
