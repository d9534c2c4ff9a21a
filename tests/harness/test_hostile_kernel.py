"""Attacks of a submission beside computing: it gets the verdict that it deserves, and nothing outside changes."""

import mmap
import os
from pathlib import Path

import pytest

from hpc_board.harness.processes.memory import mapped_at
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Mode
from tests.harness.evaluations import REFERENCE, RIGHT, a_task, evaluate
from tests.harness.test_verdicts import kernel

FULL = "S4"


def confined(result: Result) -> None:
    """Skip where this kernel cannot confine a worker as these tests want."""
    if result.provenance["isolation"] != FULL:
        pytest.skip(f"this kernel confines workers at {result.provenance['isolation']!r} only")


def test_an_output_of_the_form_that_an_earlier_call_had_is_still_the_wrong_form(tmp_path: Path) -> None:
    reference = REFERENCE.replace("for _ in range(size)", "for _ in range(size + seed % 50)")
    shortest = "least = 10**9\n" + RIGHT.replace(
        "    return", "    global least\n    least = min(least, len(data))\n    data = data[:least]\n    return"
    )
    result = evaluate(tmp_path, shortest, a_task(reference), mode=Mode.RANKED).result
    assert result.verdict is Verdict.WRONG_SHAPE


def test_memory_that_others_share_and_terminals_cannot_be_written(tmp_path: Path) -> None:
    shared = Path("/dev/shm") / f"hpc-board-test-{os.getpid()}"
    shared.write_text("untouched")
    master, terminal = os.openpty()
    try:
        attack = (
            f"for path in ({str(shared)!r}, {os.ttyname(terminal)!r}):\n"
            "    try:\n        open(path, 'w').write('taken')\n    except OSError as error:\n        print(error)"
        )
        found = evaluate(tmp_path, kernel(attack))
        confined(found.result)
        assert shared.read_text() == "untouched"
        assert found.result.stdout.text.count("Permission denied") == 6
    finally:
        shared.unlink()
        os.close(master)
        os.close(terminal)


@pytest.mark.parametrize(
    "mess",
    [
        "os.mkdir('closed'); os.mkdir('closed/in'); os.chmod('closed', 0)",
        "for _ in range(3000):\n    os.mkdir('d'); os.chdir('d')",
    ],
    ids=["closed", "deep"],
)
def test_the_scratch_folder_is_removed_whatever_is_in_it(tmp_path: Path, mess: str) -> None:
    source = f"import os\nHOME = os.environ['HOME']\n{mess}\nprint(HOME)\n" + RIGHT
    found = evaluate(tmp_path, source)
    assert found.result.verdict is Verdict.PASS, found.result.message
    assert not Path(found.result.stdout.text.split()[0]).parent.exists()
    assert found.output == ""


@pytest.mark.parametrize(
    "forged",
    [
        "fd = os.memfd_create('a\\rb'); os.ftruncate(fd, 4096); m = mmap.mmap(fd, 4096)",
        "ctypes.CDLL(None).prctl(15, b'x\\rSeccomp:')",
        "ctypes.CDLL(None).prctl(15, b'x\\rVmHWM: 9999')",
    ],
)
def test_a_name_with_a_carriage_return_forges_no_line_of_the_kernel(tmp_path: Path, forged: str) -> None:
    source = f"import ctypes, mmap, os\n{forged}\ndef custom_kernel(data):\n    return [0.0 for x in data]\n"
    result = evaluate(tmp_path, source, mode=Mode.BENCHMARK).result
    assert result.verdict is Verdict.WRONG_VALUE, result.message


def test_the_name_of_a_file_adds_no_mapping() -> None:
    arena = os.memfd_create("arena")
    found = os.fstat(arena)
    name = f"x\r1000-2000 r-- 0 {os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x} {found.st_ino} "
    forged = os.memfd_create(name)
    try:
        for descriptor in (arena, forged):
            os.ftruncate(descriptor, 4096)
        with mmap.mmap(arena, 4096), mmap.mmap(forged, 4096):
            (mapped,) = mapped_at(os.getpid(), [arena])
        assert mapped[1] - mapped[0] == 4096
    finally:
        os.close(arena)
        os.close(forged)
