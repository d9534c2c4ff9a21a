"""The trial of a probe job: the judging of a small kernel, which shows the clock that the GPU's times will have.

It has a run's confinement and container, so it tries all that a benchmark needs: two processes with contexts of the
GPU, memory that they share, and queues that wait for a flag in it.
"""

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpc_board.harness.processes.output import output_of
from hpc_board.harness.result_file import RESULT
from hpc_board.model.node_probe import Trial
from hpc_board.model.result import Result, ResultError

_SECONDS = 180
_MESSAGE_MAX = 1000
_OF_PROBE = ("format", "gpu", "device", "environment", "allow_root", "whole_node", "container", "sandbox")
_CASE = {"size": 2**20, "seed": 1}
_LIMITS = {"warmup_calls": 1, "timed_calls_min": 5, "timed_calls_max": 20, "case_seconds": 2}
_SUBMISSION = """
def custom_kernel(data):
    return data + 1
"""
_REFERENCE = """
import torch


def generate_input(size, seed):
    generator = torch.Generator(device=torch.get_default_device()).manual_seed(seed)
    return torch.rand(size, generator=generator)


def ref_kernel(data):
    return data + 1


def check_implementation(data, output):
    return torch.equal(output, data + 1)
"""


def trial(job: Mapping[str, Any], harness: Path, folder: Path) -> Trial:
    """Judge the kernel in this new folder, by the device and the container of a probe's job file."""
    for name, text in (("submission/submission.py", _SUBMISSION), ("task/reference.py", _REFERENCE)):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text, encoding="utf-8")
    facts = {
        **{key: job[key] for key in _OF_PROBE},
        "run": 0,
        "nonce": "",
        "mode": "benchmark",
        "emulated": False,
        "task": {
            "submission": "submission.py",
            "files": ["reference.py"],
            "tests": [],
            "benchmarks": [_CASE],
            "ranking_by": "last",
            "timeouts": dict.fromkeys(("test", "benchmark", "ranked"), _SECONDS),
            "limits": _LIMITS,
            "const_inputs": False,
            "fresh_output": False,
        },
        "sha256": {
            "harness": hashlib.sha256(harness.read_bytes()).hexdigest(),
            "task": "",
            "submission": hashlib.sha256(_SUBMISSION.encode()).hexdigest(),
        },
    }
    (folder / "job.json").write_text(json.dumps(facts), encoding="utf-8")
    output_of([sys.executable, "-I", "-B", str(harness.resolve()), "supervise", str(folder / "job.json")], _SECONDS)
    try:
        result = Result.from_json((folder / RESULT).read_bytes())
    except (OSError, ResultError) as error:
        return Trial("infra_error", f"it left no result within {_SECONDS} s: {error}")
    clock, reason = (str(result.provenance.get(name, "")) for name in ("clock", "clock_reason"))
    return Trial(str(result.verdict), result.message[:_MESSAGE_MAX], clock, reason[:_MESSAGE_MAX])
