"""Stand-in for Slurm's commands: shell scripts on PATH with two nodes, h100-1 and a100-1, and a queue in a file.

A job waits in the queue for ever. After `answering` it has ended as soon as `sbatch` returns: its folder holds the
result of a right submission, with the same times for every job.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_COMMANDS = ("sbatch", "squeue", "scancel", "sinfo", "sacct", "scontrol")

_PROGRAM = """\
#!/bin/sh
here=${0%/*}
case "${0##*/} $*" in
    *--version) echo "slurm 23.11.4" ;;
    "squeue "*--format=%P*) printf 'PARTITION|\\na100|\\nh100|\\nh100|\\n' ;;
    "squeue "*--format=%i*) ;;
    "squeue "*--jobs=*) echo "JOBID|NAME|" ;;
    "squeue "*) echo "JOBID|NAME|"; cat "$here/queue" ;;
    "sinfo "*Features*) cat "$here/site" ;;
    "sinfo "*) echo "NODELIST|PARTITION|"; cat "$here/nodes" ;;
    "scontrol show config") cat "$here/config" ;;
    "scontrol show partition"*) cat "$here/partitions" ;;
    "sacct "*) echo "Slurm accounting storage is disabled" >&2; exit 1 ;;
    "scancel "*) ;;
    "sbatch --test-only "*) echo "sbatch: Job 1 to start at 2024-03-01T12:00:00 on h100-1" >&2 ;;
    "sbatch "*)
        number=$(($(cat "$here/next") + 1))
        echo "$number" >"$here/next"
        tasks=
        for word; do
            case "$word" in
                --job-name=*) name=${word#*=} ;;
                --chdir=*) folder=${word#*=} ;;
                --array=*) tasks=${word#*=} ;;
            esac
        done
        state=PENDING
        [ ! -e "$here/answer.py" ] || state=COMPLETED
        echo "$number${tasks:+_[$tasks]}|$name|$state|1709294400|N/A||0|Resources|$folder|" >>"$here/queue"
        echo "$folder" >>"$here/sent"
        [ ! -e "$here/answer.py" ] || "PYTHON" -I -S "$here/answer.py" "$folder" "$number" || exit
        echo "$number"
        ;;
esac
"""

_ANSWER = """\
import json
import sys
from datetime import datetime, timezone
from pathlib import Path

folder, job = Path(sys.argv[1]), sys.argv[2]
told = json.loads((folder / "job.json").read_text())
if "inspect" in told:
    answer = {
        "nonce": told["inspect"]["nonce"],
        "job_id": job,
        "node": "h100-1",
        "python": "3.12.3",
        "executable": "/usr/bin/python3",
        "isolation": "S4",
        "gpus": [{
            "name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-1", "driver": "550.54", "mig": "Disabled", "memory": "81559",
            "clock_sm": "345", "clock_sm_max": "1980", "clock_memory": "2619",
        }],
        "visible": "0",
        "torch": {"version": "2.6.0", "runtime": "12.4", "devices": ["NVIDIA H100 80GB HBM3"], "error": ""},
        "compilers": {"nvcc": "12.4", "g++": "13.2.0"},
        "sandbox": "",
        "sandbox_error": "",
        "scratch": "/tmp",
        "scratch_free_bytes": 2**36,
        "greeted_at": 0.0,
        "answered_at": 0.0,
    }
else:
    task, mode, now = told["task"], told["mode"], datetime.now(timezone.utc).isoformat()
    phases = {"test": ["tests"], "ranked": ["tests", "benchmarks"]}.get(mode, ["benchmarks"])
    cases = []
    for phase in phases:
        for index, case in enumerate(task[phase]):
            spec = "; ".join(f"{key}: {value}" for key, value in case.items())
            mean = 2000.0 + index
            timing = {
                "samples": 3, "mean_ns": mean, "time_ns": mean, "std_ns": 10.0, "err_ns": 5.0, "best_ns": 1990.0,
                "worst_ns": 2010.0, "samples_ns": [], "worker_samples": [], "reference_ns": None, "throttled": False,
            }
            timed = phase == "benchmarks" and mode != "profile"
            cases.append({
                "phase": phase[:-1], "index": index, "spec": spec, "verdict": "pass", "message": "",
                "timing": timing if timed else None, "work": None,
            })
    log = {"head": "", "tail": "", "omitted_bytes": 0}
    answer = {
        "run": told["run"], "nonce": told["nonce"], "mode": mode, "verdict": "pass", "message": "", "cases": cases,
        "score_s": None, "job_id": job, "restart_count": 0, "started_at": now, "ended_at": now,
        "stdout": {**log, "head": "hello from the kernel\\n"}, "stderr": log, "build": log,
        "profile": {**log, "head": "the profile" if mode == "profile" else ""},
        "provenance": {
            **{f"{name}_sha256": sha256 for name, sha256 in told["sha256"].items()},
            "harness": task["harness"], "host": "h100-1", "node": "h100-1", "isolation": "S4",
        },
    }
whole = folder / ".result.json"
whole.write_text(json.dumps(answer))
whole.rename(folder / "result.json")
"""

_NODES = """\
a100-1|a100|up|idle|0/8/0/8|gpu:a100:4|gpu:a100:0(IDX:N/A)|
h100-1|h100*|up|mixed|2/6/0/8|gpu:h100:4|gpu:h100:3(IDX:0-2)|
"""

_SITE = """\
a100-1|a100|up|idle|8|1-00:00:00|gpu:a100:4|(null)|
h100-1|h100*|up|mixed|8|4:00:00|gpu:h100:4|ib|
"""

_CONFIG = """\
AccountingStorageType   = accounting_storage/none
MaxArraySize            = 1001
MinJobAge               = 300 sec
SLURM_VERSION           = 23.11.4
"""

_PARTITIONS = """\
PartitionName=a100 AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=NO MaxTime=1-00:00:00 State=UP
PartitionName=h100 AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=YES MaxTime=04:00:00 State=UP
"""


@dataclass(frozen=True)
class Slurm:
    """The folder of the commands, to be put on PATH."""

    folder: Path

    def install(self, queue: Sequence[str] = ()) -> None:
        """Write the commands, and these lines of the queue; `sbatch` counts from 901."""
        self.folder.mkdir()
        for name in _COMMANDS:
            (self.folder / name).write_text(_PROGRAM.replace("PYTHON", sys.executable), encoding="utf-8")
            (self.folder / name).chmod(0o755)
        texts = {"nodes": _NODES, "site": _SITE, "config": _CONFIG, "partitions": _PARTITIONS, "next": "900\n"}
        for name, text in {**texts, "queue": "".join(f"{line}\n" for line in queue)}.items():
            (self.folder / name).write_text(text, encoding="utf-8")

    @property
    def sent(self) -> list[Path]:
        """Return the folders of the jobs that were sent, in their order."""
        return [Path(line) for line in (self.folder / "sent").read_text(encoding="utf-8").splitlines()]

    def answering(self) -> None:
        """Judge every job as soon as it is sent, from now on."""
        (self.folder / "answer.py").write_text(_ANSWER, encoding="utf-8")
