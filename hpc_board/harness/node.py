"""Facts about the node that a result carries: what ran where."""

import os
import platform
import socket
import subprocess
from pathlib import Path
from typing import Any, Dict

_GPU_QUERY = "name,uuid,driver_version,clocks.sm,clocks.mem,mig.mode.current,compute_mode"


def node_facts(device: str) -> Dict[str, Any]:
    """Host, processor, kernel, the job as Slurm names it, and the first GPU as nvidia-smi describes it."""
    facts: Dict[str, Any] = {
        "host": socket.gethostname().split(".")[0],
        "cpu": _cpu_name(),
        "cpus": len(os.sched_getaffinity(0)),
        "platform": platform.platform(),
        "partition": os.environ.get("SLURM_JOB_PARTITION", ""),
        "node": os.environ.get("SLURMD_NODENAME", ""),
    }
    return {**facts, **_gpu_facts()} if device == "cuda" else facts


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _gpu_facts() -> Dict[str, Any]:
    command = ["nvidia-smi", f"--query-gpu={_GPU_QUERY}", "--format=csv,noheader,nounits", "--id=0"]
    try:
        answer = subprocess.run(command, capture_output=True, timeout=20, check=True, text=True, errors="replace")
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [value.strip() for value in answer.stdout.splitlines()[0].split(",")] if answer.stdout else []
    return {f"gpu_{name.replace('.', '_')}": value for name, value in zip(_GPU_QUERY.split(","), values, strict=False)}
