"""Judge kernels of a known time beside no, two and sixteen busy processes, and print their scores beside that time.

The kernels sleep, compute, or compute while they make themselves wait. The score of a kernel that sleeps or only
computes is a time where it has no neighbour; all others are shares of the time of the same work. The exit code is 1 if
a kernel does not pass, or if a score is less than nine tenths of that time.
"""

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from tests.harness.adversarial.tasks import TASKS
from tests.harness.evaluations import evaluate
from tests.harness.neighbours import busy

NEIGHBOURS = (0, 2, 16)
SLEEPS_MS = (0.2, 1, 5, 20, 100)
SHARE_MIN = 0.9
HONEST = "computes"

TASK = replace(TASKS["arrays"], limits={})

_WORK = """
import hashlib, os, signal, threading, time

def work():
    return hashlib.pbkdf2_hmac("sha256", b"block", b"salt", 1000)
"""

COMPUTING = {
    HONEST: """
def custom_kernel(data):
    for _ in range(10):
        work()
    return 2 * data
""",
    "computes, and yields its processor between steps": """
def custom_kernel(data):
    for _ in range(10):
        work()
        os.sched_yield()
    return 2 * data
""",
    "computes, bound to one processor": """
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
def custom_kernel(data):
    for _ in range(10):
        work()
    return 2 * data
""",
    "computes at the lowest priority": """
os.nice(19)
def custom_kernel(data):
    for _ in range(10):
        work()
    return 2 * data
""",
    "computes, and naps between steps": """
def custom_kernel(data):
    for _ in range(10):
        work()
        time.sleep(1e-6)
    return 2 * data
""",
    "computes while a child stops and continues it": """
worker = os.getpid()
if os.fork() == 0:
    while os.getppid() == worker:
        os.kill(worker, signal.SIGSTOP)
        os.kill(worker, signal.SIGCONT)
        time.sleep(1e-3)
    os._exit(0)
def custom_kernel(data):
    for _ in range(10):
        work()
    return 2 * data
""",
    "computes in a thread while the first one yields": """
asked, answered = threading.Semaphore(0), []
def compute():
    while True:
        asked.acquire()
        for _ in range(10):
            work()
        answered.append(True)
threading.Thread(target=compute, daemon=True).start()
def custom_kernel(data):
    asked.release()
    while not answered:
        os.sched_yield()
    answered.clear()
    return 2 * data
""",
}


def main() -> int:
    """Print the table, and return 1 if a kernel does not pass or has too small a share."""
    kernels = {f"sleeps {ms:g} ms": _sleeping(ms) for ms in SLEEPS_MS} | COMPUTING
    print("| kernel | " + " | ".join(f"{count} neighbours" for count in NEIGHBOURS) + " |")
    print("|" + "---|" * (len(NEIGHBOURS) + 1))
    honest_ns, faults = 0.0, 0
    for name, source in kernels.items():
        cells: list[str] = []
        for count in NEIGHBOURS:
            verdict, score_ns = judged(_WORK + source, count)
            is_true = not cells and (name == HONEST or name not in COMPUTING)
            honest_ns = score_ns if is_true else honest_ns
            share = score_ns / honest_ns if honest_ns else 0.0
            faults += verdict is not Verdict.PASS or share < SHARE_MIN
            shown = f"{score_ns / 1e6:.2f} ms" if is_true else f"{share:.2f}"
            cells.append(shown if verdict is Verdict.PASS else str(verdict))
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    return int(faults > 0)


def _sleeping(milliseconds: float) -> str:
    return f"def custom_kernel(data):\n    time.sleep({milliseconds / 1e3:g})\n    return 2 * data\n"


def judged(source: str, neighbours: int) -> tuple[Verdict, float]:
    """Return the verdict of a ranked run beside busy neighbours, and the time that counts."""
    with busy(neighbours), tempfile.TemporaryDirectory(prefix="busy-table-") as folder:
        result = evaluate(Path(folder), source, TASK, Mode.RANKED).result
    timing = result.cases[-1].timing if result.cases else None
    return result.verdict, 0.0 if timing is None else timing.median_ns


if __name__ == "__main__":
    sys.exit(main())
