"""Compilation of a task's own eval and the submission to one program, under the same watch as any compiler."""

import hashlib
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpc_board.harness.build.builder import BuildFailed, built_file, compiler_log, compiler_room, renamed, renamed_in
from hpc_board.harness.build.toolchain import ToolchainMissing, include_folders, program_command, toolchain
from hpc_board.harness.job_spec import JobSpec
from hpc_board.harness.launcher import Processes
from hpc_board.model.result import Log, Verdict
from hpc_board.model.task import Language
from hpc_board.model.text import one_line

PROGRAM = "eval.out"


def built_program(
    job: JobSpec, folder: Path, processes: Processes, texts: Mapping[str, bytes]
) -> tuple[bytes, Log, dict[str, Any]]:
    """Return the program compiled from the task's files `texts`, the compiler's output, and facts for the result.

    Nothing of the submission runs meanwhile, and no file except the program is left.

    Raises:
        BuildFailed: the program cannot be built, for the reason in the verdict.
    """
    home = Path(tempfile.mkdtemp(prefix="build-", dir=processes.scratch))
    for name, text in texts.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(text)
    for each in job.eval.include_dirs:
        if not (home / each).is_dir():
            raise BuildFailed(Verdict.TASK_ERROR, f"the task's include_dirs name {each}, and there is no such folder")
    includes = include_folders(job.language, os.environ)
    outside = [each for each in job.eval.include_dirs if each.startswith("/")]
    room = compiler_room(job, folder, home, [*includes, *outside], os.environ, processes.container)
    try:
        tools = toolchain(job.language, job.arch, os.environ, room.inside)
    except ToolchainMissing as error:
        raise BuildFailed(error.verdict, error.message) from None
    facts: dict[str, Any] = {"compiler": one_line(tools.version), "arch": tools.arch, "compiles": 1}
    command_line = program_command(tools, job.eval, includes, PROGRAM)
    start = time.monotonic()
    try:
        log = compiler_log(job, processes.harness, room, command_line, facts, processes.pids())
        program = built_file(home / PROGRAM)
    except BuildFailed as error:
        error.facts.update(facts)
        error.log, error.message = renamed_in(error.log, job), renamed(error.message, job)
        raise
    facts["compile_seconds"] = round(time.monotonic() - start, 3)
    facts["program_sha256"] = hashlib.sha256(program).hexdigest()
    if job.device == "cpu" and job.language is not Language.CPP:
        message = f"the submission compiles for {tools.arch}, but jobs for {job.gpu} run on a CPU here"
        failed = BuildFailed(Verdict.DEVICE_ERROR, message, renamed_in(log, job))
        failed.facts.update(facts)
        raise failed
    return program, renamed_in(log, job), facts
