"""A worker and the processes that its user may have."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

BOMB = f"""
import json, os, resource, sys, threading, time
sys.path.insert(0, {str(ROOT)!r})
from hpc_board.harness.confine.sandbox import limit_resources
resource.setrlimit(resource.RLIMIT_NPROC, (60, 60))
spared, nobody, says = *map(int, sys.argv[1:]), os.pipe()
os.setresuid(nobody, nobody, nobody)
bomb = os.fork()
if bomb == 0:
    os.setpgid(0, 0)
    limit_resources(2**20, spared)
    count = 0
    try:
        while count < 100:
            if os.fork() == 0:
                time.sleep(100)
                os._exit(0)
            count += 1
    except BlockingIOError:
        pass
    os.write(says[1], bytes([count]))
    time.sleep(100)
count = os.read(says[0], 1)[0]
begun = 0
try:
    for _ in range(10):
        threading.Thread(target=time.sleep, args=(0.1,)).start()
        begun += 1
except RuntimeError:
    pass
os.killpg(bomb, 9)
print(json.dumps([count, begun]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root, who alone may become a user without processes")
@pytest.mark.parametrize(("spared", "forked", "begun"), [(20, 38, 10), (50, 28, 10), (0, 58, 0)])
def test_a_bomb_leaves_others_the_processes_that_it_is_told_to_spare(spared: int, forked: int, begun: int) -> None:
    # A user for each: the processes of the one before may take a while to go.
    command = [sys.executable, "-c", BOMB, str(spared), str(4_242_000 + spared)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == [forked, begun]


def test_whoever_is_limited_is_the_first_to_be_killed_where_memory_runs_out() -> None:
    code = (
        f"import os, sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from hpc_board.harness.confine.sandbox import limit_resources\n"
        "print(open('/proc/self/oom_score_adj').read().strip(), flush=True)\n"
        "limit_resources(2**20)\n"
        "if os.fork() == 0:\n"
        "    print(open('/proc/self/oom_score_adj').read().strip(), flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    before, after = map(int, done.stdout.split())
    assert before < 1000
    assert after == 1000
