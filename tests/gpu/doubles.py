"""A GPU check without a GPU: its bundle with doubles of the GPU, of the other clocks, and of the harness's runs."""

import io
import json
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpc_board.harness.bundle import harness_bytes

CHECK = Path(__file__).parents[2] / "scripts" / "gpu_check"

_FACTS = """
import json, runpy, sys
if sys.argv[1] == "facts":
    modules = {"triton": "3.6.0", "cupy": "", "jax": "", "cutlass": "4.2"}
    print(json.dumps({"torch": "2.11", "gpu": "NVIDIA X", "why": "", "gpus": 1, "modules": modules, "runtime": "13.0"}))
else:
    sys.argv[0] = __file__.replace("probe.py", "whole_probe.py")
    runpy.run_path(sys.argv[0], run_name="__main__")
"""

_GPU = '''
import os, time

class Gpu:
    """Memory is a number, and the times are those that the steps expect; a step can hang, and another one die."""

    shared = 0

    def attributes(self):
        time.sleep(60)

    def allocate(self, kind, size):
        if kind == "async":
            raise RuntimeError("cuIpcGetMemHandle fails with error 1 of the CUDA driver")
        self.shared = 77
        return ["00", 0]

    def open_and_fill(self, place, value):
        pass

    def first_byte(self):
        return self.shared

    def create(self, size):
        self.shared = 55
        return {"descriptor": os.memfd_create("memory"), "size": size}

    def import_and_fill(self, descriptor, size, value):
        assert os.readlink(f"/proc/self/fd/{descriptor}").startswith("/memfd:memory")

    def signals(self):
        return ["00", 0]

    def open_signals(self, place):
        pass

    def arm(self, number, made):
        pass

    def window(self, number):
        return 12.7

    def idle(self):
        pass

    def arm_stream(self, number, kind, size):
        os._exit(1)

    def copies(self, size):
        return {"warm": [1.0] * 20, "cold": [2.0] * 20}

    def fmas(self, count):
        return [10_000.0] * count

    def busy(self, seconds):
        pass

    def products(self, seconds):
        pass
'''

_COMPARE = """
import json, sys
for name in json.load(open(sys.argv[2])):
    for clock in ("triton.testing.do_bench", "CUDA graph, flush subtracted", "CUDA graph, hot"):
        print(json.dumps({"name": name, "clock": clock, "time_ns": 20_000.0}), flush=True)
    print(json.dumps({"name": name, "clock": "ncu", "left_out": "FileNotFoundError"}), flush=True)
print(json.dumps({"premise": "writing it once", "value": "83.17 us"}))
"""

_HARNESS = """
import json, os, signal, sys, time
from pathlib import Path

RUNS = json.loads({runs!r})
if sys.argv[1] == "supervise":
    job = json.loads(Path(sys.argv[2]).read_text())
    how = RUNS.get(job["shown_as"], "pass")
    if how == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        first = os.getpid()
        if os.fork() == 0:
            os.setsid()
        Path({pids!r}).open("a").write(f"{{os.getpid()}}\\n")
        # The processes of the harness die with their parents, too.
        while os.getpid() == first or os.getppid() == first:
            time.sleep(0.1)
        sys.exit()
    if how == "die":
        print("dying")
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "odd":
        (Path(sys.argv[2]).parent / "result.json").write_text("{{}}")
        sys.exit()
    if how != "judge":
        cases = []
        for case in job["task"]["benchmarks"]:
            time_ns = 40_000.0 if how.endswith(", slow FMAs") and "fma" in json.dumps(case) else 20_500.0
            timing = {{"time_ns": time_ns, "low_ns": 20_000.0, "high_ns": 21_000.0, "reference_ns": None}}
            timing.update(kernel_clock_ns=20_000.0, bound_ns=time_ns, slack_ns=600.0)
            cases.append({{"phase": "benchmark", "timing": timing}})
        result = {{"verdict": how.partition(", ")[0], "message": "", "cases": cases, "score_s": 2e-5}}
        result["stdout"] = {{"text": "x" * 10**6}}
        result["provenance"] = {{"clock": "audited", "clock_drift_ns": -30.0, "isolation": "S4"}}
        windows = [json.dumps({{"made": "call", "window_ns": 21_100.0 + at}}) + "\\n" for at in range(2000)]
        (Path(sys.argv[2]).parent / "windows.jsonl").write_text("".join(windows))
        (Path(sys.argv[2]).parent / "result.json").write_text(json.dumps(result))
        time.sleep(1000 if how.endswith(", late") else 0)
        sys.exit()
from hpc_board.harness.main import main
sys.exit(main(sys.argv))
"""


def modules() -> Any:
    """The script that makes the bundle, which finds the others beside it."""
    if str(CHECK) not in sys.path:
        sys.path.insert(0, str(CHECK))
    import bundle

    return bundle


def harness_for(runs: Mapping[str, str], pids: Path, harness: bytes = b"") -> bytes:
    """A harness whose runs end as `runs` says for their files: with a verdict, or by a word.

    With ", late" behind its verdict a run does not end, and with ", slow FMAs" that kernel of the clock takes twice the
    time of the other clocks. Others `hang`, `die`, have a result of an `odd` form, or are
    `judge`d.
    """
    main = _HARNESS.format(runs=json.dumps(runs), pids=str(pids))
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(harness or harness_bytes())) as whole, zipfile.ZipFile(buffer, "w") as archive:
        # The byte code of the module that is replaced would be run in its place.
        for name in set(whole.namelist()) - {"__main__.pyc"}:
            archive.writestr(zipfile.ZipInfo(name), main if name == "__main__.py" else whole.read(name))
    return buffer.getvalue()


def checking(target: Path, harness: bytes, changes: Mapping[str, Mapping[str, Any]], faster: float = 10) -> Path:
    """A bundle for a machine without a GPU, whose runs have a part of their time; `changes` are by their names."""
    modules().write(target, harness)
    with zipfile.ZipFile(target) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    entries = json.loads(members["entries.json"])
    for entry in entries:
        entry["seconds"], entry["limit"] = entry["seconds"] / faster, entry["limit"] / faster
        if entry["kind"] == "probe":
            entry["limit"] = 30
        entry.update(changes.get(entry["name"], {}))
    members |= {
        "entries.json": json.dumps(entries).encode(),
        "whole_probe.py": members["probe.py"],
        "probe.py": _FACTS.encode(),
        "probe_gpu.py": _GPU.encode(),
        "compare.py": _COMPARE.encode(),
    }
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target
