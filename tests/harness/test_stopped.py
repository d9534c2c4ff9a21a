"""What is stopped while the reference is timed, and that it goes on afterwards."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

STOPPER = """
import json, subprocess, sys, time
from pathlib import Path
from hpc_board.harness.process_tree import children_of, stopped_but

PARENT = "import subprocess, sys; print(subprocess.Popen(['sleep', '100']).pid, flush=True); sys.stdin.read()"

def family():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return parent, [parent.pid, int(parent.stdout.readline())]

def stopped(pids):
    return [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T" for pid in pids]

def awaited(pids, wanted):
    while stopped(pids) != wanted:
        time.sleep(0.01)
    return stopped(pids)

(one, kept), (other, rest) = family(), family()
with stopped_but([one.pid]):
    during = awaited(rest, [True, True]), stopped(kept)
after = awaited(rest, [False, False]), stopped(kept)
print(json.dumps([during, after]))
for parent, pids in ((one, kept), (other, rest)):
    subprocess.run(["kill", str(pids[1])])
    parent.communicate()
"""


def test_everything_is_stopped_but_what_is_to_be_kept_and_what_that_has_started() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPPER], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    during, after = json.loads(done.stdout)
    assert during == [[True, True], [False, False]]
    assert after == [[False, False], [False, False]]
