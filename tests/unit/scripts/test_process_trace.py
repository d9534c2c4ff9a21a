"""Counting processes and opens: exact for whatever is short, nested or threaded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.scripts.loading import script

trace = script("process_trace")
PROGRAM = """
import os, subprocess, sys, threading
for _ in range(20):
    if os.fork() == 0:
        os._exit(0)
    os.wait()
thread = threading.Thread(target=print)
thread.start()
thread.join()
subprocess.run([sys.executable, "-c", "import os; os.execv('/bin/true', ['g++'])"])
sys.exit(3)
"""


@pytest.fixture
def counted(tmp_path: Path) -> object:
    with subprocess.Popen(["sleep", "600"]) as another_child:
        try:
            return trace.traced(
                [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=dict(os.environ), output=tmp_path / "out"
            )
        except trace.CannotTrace as error:
            pytest.skip(str(error))
        finally:
            assert another_child.poll() is None
            another_child.kill()


def test_every_process_program_and_thread_is_counted_once(counted: object) -> None:
    assert counted.processes == 1 + 20 + 1  # type: ignore[attr-defined]
    assert counted.threads == 1  # type: ignore[attr-defined]
    assert counted.started("python") == 2  # type: ignore[attr-defined]
    assert counted.started("g++") == 1  # type: ignore[attr-defined]
    assert counted.status == 3  # type: ignore[attr-defined]


def test_the_peak_of_each_process_is_known_at_its_end(counted: object) -> None:
    peaks = counted.peak_kb  # type: ignore[attr-defined]
    assert len(peaks) == 22
    assert max(kb for _, kb in peaks) > 1000


def test_each_opening_of_a_file_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    with trace.counted_opens(path) as found:
        for _ in range(50):
            subprocess.run(["cat", path], check=True, stdout=subprocess.DEVNULL)
        path.stat()
    assert found == [50]
