"""The languages of kernels that a node has: a starter in each is called or compiled once, confined as submissions."""

import ast
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from hpc_board.harness.build.toolchain import (
    HEADER,
    PASSED_TO_COMPILERS,
    ToolchainMissing,
    command,
    compiler_variables,
    header_text,
    toolchain,
)
from hpc_board.harness.confine import sandbox
from hpc_board.harness.confine.scratch import scrubbed
from hpc_board.harness.confine.seccomp import deny_outside_effects
from hpc_board.harness.device.device import open_device
from hpc_board.harness.device.faults import lacking
from hpc_board.harness.wire import payload
from hpc_board.model.node_probe import TriedLanguage
from hpc_board.model.result import Verdict
from hpc_board.model.task import COMPILED, Language

CALL_SECONDS = 90.0
"""Time limit of one starter, which may compile an extension of PyTorch."""

TOTAL_SECONDS = 300.0
"""Time limit of all starters; those beyond it are not tried."""

_QUESTION = """
import sys
sys.path.insert(0, sys.argv[1])
from hpc_board.harness import languages
sys.path.remove(sys.argv[1])
getattr(languages, sys.argv[2])(*sys.argv[3:])
"""
_FILE = "submission.py"
_TASK = "input_t = output_t = tuple\n"
_SIZE = 4096
_FILE_BYTES = 2**30
_OUTPUT_BYTES = 4096


def tried(
    starters: Mapping[str, str], harness: Path, scratch: Path, readable: Sequence[str], job: Mapping[str, Any]
) -> Iterator[TriedLanguage]:
    """Yield the outcome of each of `starters`, kernels by language that add two vectors, one after the other.

    A probe `job` has the GPU's `device`, `arch`, `std` and `include`, whether it is `emulated`, and the names of
    variables in its `environment`.
    """
    deadline = time.monotonic() + TOTAL_SECONDS
    for number, (name, source) in enumerate(starters.items()):
        language = COMPILED.get(name)
        modules = _imported(source) if language is None else []
        missing = next((each for each in modules if importlib.util.find_spec(each) is None), "")
        seconds = min(CALL_SECONDS, deadline - time.monotonic())
        if missing:
            yield TriedLanguage(name, missing=missing)
        elif seconds <= 0:
            yield TriedLanguage(name, error=f"not tried: those before it took {TOTAL_SECONDS:g} s")
        else:
            home = scratch / f"language{number}"
            home.mkdir()
            file = _FILE if language is None else f"submission{language.extensions[0]}"
            (home / file).write_text(source, encoding="utf-8")
            (home / "task.py").write_text(_TASK, encoding="utf-8")
            passed_on = [*job["environment"], *(PASSED_TO_COMPILERS if language else ())]
            environment = scrubbed(os.environ, home, passed_on)
            if language is None:
                words = ["call", str(home), job["device"]]
                environment |= {"TRITON_INTERPRET": "1"} if job["emulated"] else {}
            else:
                words = ["build", str(home), language, job["arch"], job["std"], os.pathsep.join(job["include"])]
                environment |= compiler_variables(language)
            argv = [sys.executable, "-I", "-B", "-c", _QUESTION, str(harness.resolve()), *words, *readable]
            yield _tried(name, argv, home, environment, seconds)


def _imported(source: str) -> list[str]:
    """Return the packages that a starter imports from the Python's installation."""
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            found += [each.name.partition(".")[0] for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module.partition(".")[0])
    return [name for name in found if name != "task"]


def _tried(name: str, argv: Sequence[str], home: Path, environment: Mapping[str, str], seconds: float) -> TriedLanguage:
    started_at = time.monotonic()
    with (home / "output").open("w+b") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=home,
            start_new_session=True,
        )
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return TriedLanguage(name, error=f"it did not end within {seconds:.0f} s")
        took_seconds = round(time.monotonic() - started_at, 1)
        output.seek(max(0, output.tell() - _OUTPUT_BYTES))
        last = output.read().decode(errors="replace").strip().rpartition("\n")[2]
    if status < 0:
        return TriedLanguage(name, error=f"its process was ended by signal {-status}")
    try:
        answer = json.loads(last)
        return TriedLanguage(name, missing=str(answer["missing"]), error=str(answer["error"]), seconds=took_seconds)
    except (ValueError, KeyError, TypeError):
        return TriedLanguage(name, error=last or f"its process ended with status {status}")


def call(home: str, device: str, *readable: str) -> None:
    """Confine this process like a worker, call the starter in `home`, and write the outcome as a line of JSON."""
    sandbox.limit_resources(_FILE_BYTES)
    sandbox.confine(readable, [home])
    deny_outside_effects()
    missing = error = ""
    try:
        error = "" if _adds(home, device) else "its answer is wrong"
    except ModuleNotFoundError as lacked:
        missing = lacking(lacked)
        if not missing:
            raise
    _end(missing, error)


def build(home: str, language: str, arch: str, std: str, include: str, *readable: str) -> None:
    """Confine this process like a compiler, compile the starter in `home`, and write the outcome as a line of JSON."""
    folders = include.split(os.pathsep) if include else []
    try:
        tools = toolchain(Language(language), arch, os.environ, std=std, include=folders)
    except ToolchainMissing as lacked:
        known = lacked.verdict is Verdict.INFRA_ERROR
        _end(missing=lacked.message if known else "", error="" if known else lacked.message)
    (Path(home) / HEADER).write_text(header_text(), encoding="utf-8")
    sandbox.limit_files(_FILE_BYTES)
    sandbox.confine_compiler([*readable, *folders], home)
    source = f"submission{tools.language.extensions[0]}"
    done = subprocess.run(command(tools, (), source), capture_output=True, text=True, errors="replace", check=False)
    lines = f"{done.stdout}\n{done.stderr}".strip().splitlines()
    first = next((line for line in lines if "error" in line), lines[-1] if lines else "")
    _end(error=f"{Path(tools.compiler).name} ended with status {done.returncode}: {first}" if done.returncode else "")


def _end(missing: str = "", error: str = "") -> NoReturn:
    sys.stdout.write(json.dumps({"missing": missing, "error": error}) + "\n")
    sys.stdout.flush()
    # As a worker ends: at exit, threads of JAX beside PyTorch abort the process.
    os._exit(0)


def _adds(home: str, device: str) -> bool:
    """Return whether the starter adds two vectors."""
    import torch

    opened = open_device(device)
    vectors = [torch.rand(_SIZE, device="cpu") for _ in range(2)]
    sys.path.insert(0, home)
    import submission  # type: ignore[import-not-found]

    answer = payload.dense(submission.custom_kernel(tuple(opened.place(each) for each in vectors)))
    return bool(torch.equal(answer.cpu(), vectors[0] + vectors[1]))
