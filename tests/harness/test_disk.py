"""The blame for a full disk: the submission's if its files account for it, else the node's."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpc_board.domain.result_json import decode_result
from hpc_board.harness.confine import scratch
from hpc_board.harness.confine.scratch import Disk, remove
from hpc_board.model.result import SCRATCH_UNWRITABLE, Result, Verdict
from hpc_board.model.task import Mode
from hpc_board.runs import job_folder
from tests.harness.evaluations import a_task, evaluate, make_job_folder, result_in

MIB = 2**20
_ROOT = str(Path(__file__).parents[2])

ON_FULL_DISK = """
import os, pathlib, sys
sys.path.insert(0, sys.argv[1])
from tests import namespaces
small = pathlib.Path(sys.argv[2])
namespaces.enter()
namespaces.make_small(small, 4 * 2**20)
(small / "of another user").write_bytes(bytes(3 * 2**20 + 2**19))
os.execvp(sys.argv[3], sys.argv[3:])
"""
"""Runs a command where a folder has half a MiB left, which others have filled."""

WRITES_RESULT = """
import pathlib, sys, threading
from hpc_board.harness.result_file import write_result
from hpc_board.model.result import Result, Verdict

small = pathlib.Path(sys.argv[1])
with (small / "of another user").open("ab", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError:
        pass
threading.Timer(0.5, (small / "of another user").unlink).start()
write_result(Result(1, "n", "test", Verdict.PASS, "", ()), small)
print((small / "result.json").read_text())
"""
"""Fills the disk of ON_FULL_DISK, and writes a result there while another user makes space."""

WRITES_CACHE = """
import os, pathlib

def custom_kernel(data):
    cache = pathlib.Path(os.environ["CUPY_CACHE_DIR"])
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "kernel").write_bytes(bytes(2**20))
    return [2 * x for x in data]
"""


PRINTS_CACHES = """
import json, os
NAMES = NAMES_OF_CACHES
def custom_kernel(data):
    print(json.dumps([os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"], *(os.environ[name] for name in ("HOME", *NAMES))]))
    return [2 * x for x in data]
"""


def test_each_compiler_of_kernels_has_a_cache_in_the_worker_s_folder(tmp_path: Path) -> None:
    names = ["TRITON_CACHE_DIR", "CUPY_CACHE_DIR", "NUMBA_CACHE_DIR", "HELION_CACHE_DIR", "TILELANG_CACHE_DIR"]
    names += ["CUTE_DSL_CACHE_DIR", "CUDA_TILE_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR", "CUDA_CACHE_PATH"]
    result = evaluate(tmp_path, PRINTS_CACHES.replace("NAMES_OF_CACHES", repr(names))).result
    preallocates, home, *folders = json.loads(result.stdout.text.splitlines()[0])
    assert preallocates == "false"
    assert folders == [f"{home}/cache/{name.lower()}" for name in names]


def on_full_disk(folder: Path, source: str) -> Result:
    """The result of a submission whose scratch folder lies on a disk that others have filled."""
    small = folder / "small"
    small.mkdir()
    job = make_job_folder(folder, source, a_task(), Mode.TEST)
    done = subprocess.run(
        [sys.executable, "-c", ON_FULL_DISK, _ROOT, small, "bash", job_folder.SCRIPT],
        cwd=job,
        env={"PATH": os.environ["PATH"], "SLURM_JOB_ID": "42", "TMPDIR": str(small), "PYTHONPATH": _ROOT},
        capture_output=True,
        text=True,
        check=False,
    )
    if "Operation not permitted" in done.stderr:
        pytest.skip("no mount namespace can be made here")
    return result_in(job)


def test_a_cache_that_cannot_be_written_blames_the_node(tmp_path: Path) -> None:
    result = on_full_disk(tmp_path, WRITES_CACHE)
    assert result.verdict is Verdict.INFRA_ERROR
    assert result.message.startswith(f"{SCRATCH_UNWRITABLE} ({tmp_path / 'small'}: No space left on device); then ")
    assert "OSError" in result.message


def test_a_full_disk_excuses_no_wrong_answer(tmp_path: Path) -> None:
    result = on_full_disk(tmp_path, "def custom_kernel(data):\n    return data\n")
    assert result.verdict is Verdict.WRONG_VALUE


def test_a_result_waits_for_space_on_a_full_disk(tmp_path: Path) -> None:
    small, result = tmp_path / "small", Result(1, "n", "test", Verdict.PASS, "", ())
    small.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", ON_FULL_DISK, _ROOT, small, sys.executable, "-c", WRITES_RESULT, small],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": _ROOT},
        capture_output=True,
        text=True,
        check=False,
    )
    if "Operation not permitted" in done.stderr:
        pytest.skip("no mount namespace can be made here")
    assert done.returncode == 0, done.stderr
    assert decode_result(done.stdout.encode()) == result


@pytest.mark.parametrize(
    ("at_first", "now", "held", "words"),
    [
        ((500 * MIB, 9999), (0, 9999), (400 * MIB, 3), "400 MiB are in its folder, 500 MiB were free before"),
        ((500 * MIB, 9999), (0, 9999), (200 * MIB, 3), ""),
        ((500 * MIB, 9999), (9 * MIB, 9999), (400 * MIB, 3), ""),
        ((9 * MIB, 9999), (0, 9999), (9 * MIB, 3), ""),
        (
            (500 * MIB, 20_000),
            (400 * MIB, 0),
            (9 * MIB, 19_000),
            "19000 files are in its folder, 20000 could be created",
        ),
        ((500 * MIB, 50), (400 * MIB, 0), (9 * MIB, 50), ""),
    ],
    ids=["filled", "others filled it", "there is room", "it was full before", "files", "few files before"],
)
def test_a_full_disk_is_the_submission_s_doing_where_its_files_account_for_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at_first: tuple[int, int],
    now: tuple[int, int],
    held: tuple[int, int],
    words: str,
) -> None:
    free: list[Any] = [at_first, now]
    monkeypatch.setattr(scratch, "_free", lambda _: free.pop(0))
    monkeypatch.setattr(scratch, "_held", lambda _: held)
    found = Disk(tmp_path).filled()
    assert words in found
    assert bool(found) is bool(words)


def test_what_lies_in_a_folder_is_counted_however_deep_and_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"1" * MIB)
    (tmp_path / "a" / "away").symlink_to("/usr")
    for depth in range(1500):
        tmp_path.joinpath(*["d"] * (depth + 1)).mkdir()
    held_bytes, held_files = scratch._held(tmp_path)
    remove(tmp_path / "d")
    assert held_files == 4 + 1500
    assert MIB <= held_bytes < 10 * MIB
