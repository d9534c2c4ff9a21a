"""Judges submissions by the checks of tasks and writes, as JSON, the verdict on each case.

A program of its own: a line of standard input, [FOLDER, CASES, SUBMISSIONS, FIXED] as JSON, is a task. FOLDER holds the
task's files under their names on the node, and gets `lines.json`; FIXED are the places of inputs to prepare. Tasks have
modules of the same names, so each task gets a fork of this process: PyTorch is imported once for all of them. A line of
standard output is the exit status of a fork. A submission in C++ is compiled by the harness's own command.
"""

import copy
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from types import ModuleType
from typing import Any

import torch

from hpc_board.harness.build import toolchain
from hpc_board.harness.judge.fixed_inputs import parts_at, without_parts
from hpc_board.harness.wire import payload
from hpc_board.harness.worker import compiled
from hpc_board.model.kernels import LIBRARY
from hpc_board.model.task import Language


def module(path: Path) -> ModuleType:
    """The file at `path` as a module that is not entered in `sys.modules`."""
    spec = importlib.util.spec_from_file_location(f"probe_{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def kernel(path: Path, fixed: list[str | int]) -> Callable[[Any, Any], Any]:
    """The function of a submission, of data and of the right answer, whose form the outputs of a compiled one have."""
    if path.suffix == ".py":
        loaded = module(path)
        function: Callable[..., Any] = loaded.custom_kernel
        if not hasattr(loaded, "prepare"):
            return lambda data, _: function(data)
        return lambda data, _: function(without_parts(data, fixed), loaded.prepare(*parts_at(data, fixed)))
    folder = Path(mkdtemp())
    for own in (toolchain.HEADER, toolchain.CRASH):
        (folder / own).write_text(toolchain.own_source(own))
    (folder / path.name).write_bytes(path.read_bytes())
    tools = toolchain.toolchain(Language.CPP, "", os.environ)
    subprocess.run(toolchain.command(tools, (), path.name), cwd=folder, check=True)
    library = compiled.open_kernel(folder / LIBRARY)

    def call(data: Any, right: Any) -> Any:
        memory = os.memfd_create("form")
        form = payload.write(right, memory, right.nbytes + 2**20)
        os.close(memory)
        output = payload.empty(form)
        if library.prepares:
            library.keep_state(-1, *parts_at(data, fixed))
            data = without_parts(data, fixed)
        library.prepared(data, output)()
        return output

    return call


def probe(folder: Path, cases: list[dict[str, int]], submissions: list[str], fixed: list[str | int]) -> None:
    """Write the check's verdict on each submission and case into the folder."""
    torch.set_default_device("cpu")
    sys.path.insert(0, str(folder))
    reference = module(folder / "reference.py")
    kernels = {Path(path).name: kernel(Path(path), fixed) for path in submissions}
    lines = []
    for case in cases:
        data = reference.generate_input(**case)
        for name, custom_kernel in kernels.items():
            output = custom_kernel(copy.deepcopy(data), reference.ref_kernel(data))
            passed, message = reference.check_implementation(data, output)
            lines.append({"case": case, "submission": name, "passed": passed, "message": message})
    (folder / "lines.json").write_text(json.dumps(lines))


def main() -> None:
    """Probe each task in a fork, one after the other, until standard input ends."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            folder, *request = json.loads(line)
            probe(Path(folder), *request)
            return
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
