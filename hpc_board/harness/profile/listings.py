"""PTX and SASS of a submission's kernels on an NVIDIA GPU, kept beside the reports of profilers.

They come from the library of a compiled submission, and from the code that Triton has left in a worker's cache. A
library and a cubin are of the submission, so `cuobjdump` reads them confined as a compiler is.
"""

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hpc_board.harness.build.builder import compiler_log, compiler_room
from hpc_board.harness.build.toolchain import BuildFailed
from hpc_board.harness.confine.scratch import private_folders
from hpc_board.harness.files import keep
from hpc_board.harness.job_spec import JobSpec
from hpc_board.harness.launcher import Processes
from hpc_board.model.text import one_line

TOOL = "cuobjdump"

_KERNELS_MAX = 20
_ENTRIES_MAX = 50_000
_SECONDS = 30.0
_BYTES_MAX = 64 * 2**20
_ROOM_BYTES = 128 * 2**20
_NAME_MAX = 60
_LISTED = "listing"


class Listings:
    """The listings of one submission, within bounds of their number, size and time."""

    def __init__(self, job: JobSpec, folder: Path, processes: Processes, target: Path, deadline: float) -> None:
        self._job = job
        self._folder = folder
        self._processes = processes
        self._target = target
        self._deadline = deadline
        self._room_bytes = _ROOM_BYTES
        self._kept: list[str] = []
        self._fault = ""

    def of_kernels(self, library: Path | None, home: Path) -> str:
        """Keep the PTX and the SASS of a library, or of the newest kernels in the cache of a worker's `home`.

        Return a note about them.
        """
        found = [] if library is not None else sorted(_cubins(home), reverse=True)
        tool = self._tool() if library is not None or found else ""
        if library is not None and tool:
            self._list(tool, "-ptx", library, "submission.ptx")
            self._list(tool, "-sass", library, "submission.sass")
        for number, (_, cubin) in enumerate(found[:_KERNELS_MAX], 1):
            name = f"triton-{number}-{re.sub(r'[^A-Za-z0-9_]', '_', cubin.stem)[:_NAME_MAX]}"
            self._keep(cubin.with_suffix(".ptx"), f"{name}.ptx")
            if tool:
                self._list(tool, "-sass", cubin, f"{name}.sass")
        kept = f"PTX and SASS: kept {', '.join(self._kept)}" if self._kept else ""
        more = len(found) - _KERNELS_MAX
        left_out = f"{more} older kernels are omitted" if more > 0 else ""
        return "; ".join(filter(None, (kept, left_out, self._fault)))

    def _tool(self) -> str:
        tool = shutil.which(TOOL)
        if tool is None:
            self._fault = f"{TOOL}, of the CUDA toolkit, is not on this node's PATH"
        return tool or ""

    def _list(self, tool: str, what: str, source: Path, name: str) -> None:
        """Have the tool list the code in a file, unless the time is over."""
        seconds = min(_SECONDS, self._deadline - time.monotonic())
        if seconds <= 0:
            self._fault = self._fault or "the time limit for profiling was reached"
            return
        home = Path(tempfile.mkdtemp(prefix="listing-", dir=self._processes.scratch))
        try:
            if not keep(source, home / "code", _BYTES_MAX):
                return
            limits = replace(self._job.limits, build_seconds=seconds)
            room = compiler_room(self._job, self._folder, home, (), self._processes)
            command, job = [tool, what, "code"], replace(self._job, limits=limits)
            compiler_log(job, room, self._processes, command, {}, home / _LISTED)
            self._keep(home / _LISTED, name)
        except BuildFailed as error:
            self._fault = self._fault or one_line(error.message, 300)
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def _keep(self, source: Path, name: str) -> None:
        self._target.mkdir(exist_ok=True)
        if size := keep(source, self._target / name, self._room_bytes):
            self._room_bytes -= size
            self._kept.append(name)


def _cubins(home: Path) -> Iterator[tuple[float, Path]]:
    """Yield the time and the path of each cubin in Triton's cache, which a submission writes; no link is followed."""
    cache, entries = Path(private_folders(home)["TRITON_CACHE_DIR"]), 0
    if any(path.is_symlink() for path in (cache, *cache.parents) if home in path.parents):
        return
    for folder, _, names in os.walk(cache):
        entries += len(names) + 1
        if entries > _ENTRIES_MAX:
            return
        for name in names:
            if name.endswith(".cubin"):
                with suppress(OSError):
                    path = Path(folder, name)
                    yield path.lstat().st_mtime, path
