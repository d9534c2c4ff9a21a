"""PTX and SASS of a profiled submission: by a script in the place of cuobjdump, and by the real one.

The harness file of these tests makes listings on a CPU, too. No kernel ran on a GPU.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpc_board.harness.build import toolchain
from hpc_board.harness.confine import sandbox
from hpc_board.model.kernels import LIBRARY
from hpc_board.model.profile_files import is_profile_file
from hpc_board.model.result import Verdict
from hpc_board.model.task import Language, Mode
from tests.conftest import skip_without
from tests.harness.compiling import REFERENCE, kernel, needs_gcc, needs_nvcc
from tests.harness.evaluations import Evaluation, a_task, evaluate, make_job_folder
from tests.harness.harness_file import Edit, edited

ON_CPU = Edit(
    "supervisor.py", 'if job.device == "cuda":\n            profile.note', "if True:\n            profile.note"
)


TOOL = """#!/bin/bash
# The real one prints the listing of a file, too.
echo "listing $1 of $(basename "$2") with $(stat -c %s "$2") bytes"
cat "$2" | tr -dc '[:print:]' | head -c 100
for path in {secrets}; do cat "$path" && echo read; done 2>/dev/null
exit {status}
"""

WRITES_CACHE = """
import os
from pathlib import Path

folder = Path(os.environ["TRITON_CACHE_DIR"])
if not folder.exists():
    for number in range({count}):
        (folder / f"hash{{number}}").mkdir(parents=True)
        (folder / f"hash{{number}}" / "add kernel.cubin").write_bytes(b"cubin of it")
        (folder / f"hash{{number}}" / "add kernel.ptx").write_text("ptx of it")
    {more}

def custom_kernel(data):
    return [2 * x for x in data]
"""


def tools(folder: Path, *, status: int = 0, secrets: str = "") -> Path:
    """A folder with a script in the place of cuobjdump."""
    folder.mkdir()
    tool = folder / "cuobjdump"
    tool.write_text(TOOL.format(status=status, secrets=secrets or "/nonexistent"))
    tool.chmod(0o755)
    return folder


def profiled(where: Path, source: str, path: Path, *, compiled: bool = False) -> Evaluation:
    """The profile of a submission, with a folder in front of the job's PATH."""
    environ = {"PATH": f"{path}:/usr/bin:/bin"}
    task = a_task()
    if compiled:
        cases = ({"size": 10, "seed": 1},)
        languages = (Language.PY, Language.CPP)
        task = a_task(REFERENCE, language=Language.CPP, languages=languages, tests=cases, benchmarks=cases)
    name = "k.cpp" if compiled else "k.py"
    found = evaluate(where, source, task, Mode.PROFILE, environ=environ, harness=edited((ON_CPU,)), file_name=name)
    assert found.result.verdict is Verdict.PASS, found.result.message
    return found


def kept(found: Evaluation) -> dict[str, str]:
    """The listings in the job folder."""
    files = [path for path in (found.folder / "profile").glob("*") if path.suffix in (".ptx", ".sass")]
    assert all(is_profile_file(path.name) for path in files)
    return {path.name: path.read_text() for path in files}


@needs_gcc
def test_the_library_of_a_compiled_submission_is_listed(tmp_path: Path) -> None:
    skip_without("numpy")
    found = profiled(tmp_path / "job", kernel(), tools(tmp_path / "bin"), compiled=True)
    listings = kept(found)
    assert set(listings) == {"submission.ptx", "submission.sass"}
    assert listings["submission.sass"].startswith("listing -sass of code with ")
    assert "PTX and SASS: kept submission.ptx, submission.sass" in found.result.profile.text


def test_the_kernels_in_triton_s_cache_are_listed(tmp_path: Path) -> None:
    found = profiled(tmp_path / "job", WRITES_CACHE.format(count=2, more="pass"), tools(tmp_path / "bin"))
    assert kept(found) == {
        f"triton-{number}-add_kernel.{kind}": text
        for number in (1, 2)
        for kind, text in (("ptx", "ptx of it"), ("sass", "listing -sass of code with 11 bytes\ncubin of it"))
    }


def test_of_many_kernels_twenty_are_listed(tmp_path: Path) -> None:
    found = profiled(tmp_path / "job", WRITES_CACHE.format(count=22, more="pass"), tools(tmp_path / "bin"))
    assert len(kept(found)) == 40
    assert "2 older kernels are omitted" in found.result.profile.text


LINKS = """folder.mkdir(parents=True)
    (folder / "linked").symlink_to("{secret}")
    (folder / "two.cubin").symlink_to("{secret}/one.cubin")
    (folder / "three.cubin").write_bytes(b"cubin")
    (folder / "three.ptx").symlink_to("{secret}/one.ptx")"""
LINK_IN_PLACE = 'folder.parent.mkdir(exist_ok=True); folder.symlink_to("{secret}")'


@pytest.mark.parametrize("links", [LINKS, LINK_IN_PLACE], ids=["in the cache", "in place of the cache"])
def test_no_link_of_a_submission_is_followed(tmp_path: Path, links: str) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    for name in ("one.ptx", "one.cubin"):
        (secret / name).write_text("secret")
    source = WRITES_CACHE.format(count=0, more=links.format(secret=secret))
    found = profiled(tmp_path / "job", source, tools(tmp_path / "bin"))
    assert "secret" not in "".join(kept(found).values())


@pytest.mark.skipif(sandbox.landlock_abi() < 1, reason="this kernel has no Landlock")
def test_the_tool_reads_neither_the_job_folder_nor_the_home_folder(tmp_path: Path) -> None:
    job = tmp_path / "job"
    (tmp_path / "private").write_text("a secret")
    secrets = f"{tmp_path}/private {job}/runs/7/job.json"
    found = profiled(job, WRITES_CACHE.format(count=1, more="pass"), tools(tmp_path / "bin", secrets=secrets))
    assert "read" not in kept(found)["triton-1-add_kernel.sass"]


def test_a_tool_that_fails_costs_the_listing_alone(tmp_path: Path) -> None:
    found = profiled(tmp_path / "job", WRITES_CACHE.format(count=1, more="pass"), tools(tmp_path / "bin", status=3))
    assert set(kept(found)) == {"triton-1-add_kernel.ptx"}
    assert "cuobjdump exited with status 3" in found.result.profile.text


def test_without_the_tool_the_profile_says_so(tmp_path: Path) -> None:
    if shutil.which("cuobjdump", path="/usr/bin:/bin"):
        pytest.skip("cuobjdump is in /usr/bin")
    found = profiled(tmp_path / "job", WRITES_CACHE.format(count=1, more="pass"), tmp_path / "none")
    assert set(kept(found)) == {"triton-1-add_kernel.ptx"}
    assert "cuobjdump, of the CUDA toolkit, is not on this node's PATH" in found.result.profile.text


REAL = """
import sys, time
from pathlib import Path
from hpc_board.harness.job_spec import facts
from hpc_board.harness.launcher import Processes
from hpc_board.harness.profile.listings import Listings

folder, scratch, target, library, harness = map(Path, sys.argv[1:])
job = facts(folder / "job.json")
listings = Listings(job, folder, Processes(job, folder, harness, scratch), target, time.monotonic() + 60)
print(listings.of_kernels(library, scratch))
"""


@needs_nvcc
@pytest.mark.skipif(not shutil.which("cuobjdump") or not shutil.which("nvdisasm"), reason="needs cuobjdump, nvdisasm")
def test_the_real_tool_lists_ptx_and_machine_code(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("__global__ void add_one(float* x) { x[threadIdx.x] += 1; }")
    (tmp_path / toolchain.HEADER).write_text(toolchain.header_text())
    tools = toolchain.toolchain(Language.CU, "sm_90", os.environ)
    subprocess.run(toolchain.command(tools, (), "k.cu"), cwd=tmp_path, check=True)
    job = make_job_folder(tmp_path / "job", "", a_task(), Mode.PROFILE)
    harness = next((tmp_path / "job" / "harness").glob("*.pyz"))
    (tmp_path / "scratch").mkdir()
    argv = [job, tmp_path / "scratch", tmp_path / "kept", tmp_path / LIBRARY, harness]
    done = subprocess.run(
        [sys.executable, "-c", REAL, *map(str, argv)], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "PTX and SASS: kept submission.ptx, submission.sass\n"
    assert ".visible .entry _Z7add_onePf" in (tmp_path / "kept" / "submission.ptx").read_text()
    assert "EXIT" in (tmp_path / "kept" / "submission.sass").read_text()
