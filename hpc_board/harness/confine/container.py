"""The container around the processes that run a submission, if the settings ask for one: bubblewrap or Apptainer.

A worker's own restrictions (sandbox.py) stay in force; the container is a layer around them. It contains no other
processes, no network and no files except those named here, so that anything that Landlock or the system-call filter of
an older kernel would let through finds no target. When its first process ends, the kernel ends all its processes.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hpc_board.harness.confine import sandbox
from hpc_board.harness.confine.scratch import scrubbed
from hpc_board.harness.processes.output import output_of
from hpc_board.model.gpu import Device, Sandbox, SandboxRuntime
from hpc_board.model.text import one_line

_CHECK_SECONDS = 60
_LINKS_MAX = 40
_PYTHON_MIN = (3, 10)
_CHECK = "import sys; open('ready', 'w').close(); print(sys.version_info[0], sys.version_info[1])"
_OF_THE_NODE = ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "ROCM_PATH")
"""Variables that name folders of the node; an image has its own folders."""

_GPU_OPTIONS = {Device.CUDA: "--nv", Device.HIP: "--rocm"}
# On Debian and its derivatives, compilers in /usr are symbolic links through this folder.
_LINKS_OF_TOOLS = "/etc/alternatives"


class ContainerUnavailable(Exception):
    """The requested container is unavailable on this node; the message names the reason and the setting."""


@dataclass(frozen=True)
class Container:
    """The surroundings of the processes that run a submission: the node itself, or a container by a subclass.

    A container is made by a `program`, and has a `description` for results. `python` is the interpreter inside.
    """

    program: str = ""
    description: str = ""
    harness: Path = Path()
    image: str = ""
    contained: ClassVar[bool] = False
    python: ClassVar[str] = sys.executable

    @property
    def identity(self) -> str:
        """Return text that differs whenever compilers inside may differ from those on the node itself."""
        return ""

    def command(
        self,
        home: Path,
        readable: Iterable[str],
        writable: Iterable[Path] = (),
        device: str = "",
        files: Iterable[Path] = (),
    ) -> list[str]:
        """Return the command prefix that runs a command in the folder `home` inside.

        The command may write `home` and the folders `writable`, and read those of `files`, and the `readable` ones that
        belong to the node; it can use GPUs of the kind `device`.
        """
        del home, readable, writable, device, files
        return []

    def kept(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of `environ` that apply inside."""
        return dict(environ)

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the whole command, such that the kept variables of `environ` are set inside."""
        return dict(environ)

    def readable(self, folders: Sequence[str]) -> list[str]:
        """Return the folders that a process inside may read in place of `folders` of the node."""
        return list(folders)


def container(wanted: Sandbox, harness: Path, environ: Mapping[str, str], scratch: Path) -> Container:
    """Return the container that the settings ask for, tried out once in a folder below `scratch`.

    Raises:
        ContainerUnavailable: the node lacks the program or the image, or forbids creating namespaces.
    """
    name = {SandboxRuntime.BUBBLEWRAP: "bwrap", SandboxRuntime.APPTAINER: "apptainer"}[wanted.runtime]
    program = shutil.which(name, path=environ.get("PATH"))
    if program is None:
        message = (
            f"{_settings_ask(wanted)}, but this node has no {name} in PATH; install it there, or load it with `modules`"
        )
        raise ContainerUnavailable(message)
    if wanted.image and not Path(wanted.image).exists():
        raise ContainerUnavailable(f"{_settings_ask(wanted)}, but this node has no image {wanted.image}")
    version = _version(program)
    made = (
        Apptainer(program, f"{version}, {wanted.image}", harness, wanted.image)
        if wanted.runtime is SandboxRuntime.APPTAINER
        else Bubblewrap(program, version, harness)
    )
    home = Path(tempfile.mkdtemp(prefix="container-", dir=scratch))
    try:
        _try_out(made, wanted, home, environ)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return made


class Bubblewrap(Container):
    """bubblewrap: the node's own system, reduced to the named folders."""

    contained = True

    def command(
        self,
        home: Path,
        readable: Iterable[str],
        writable: Iterable[Path] = (),
        device: str = "",
        files: Iterable[Path] = (),
    ) -> list[str]:
        found = [self.program, "--unshare-all", "--die-with-parent", "--tmpfs", "/tmp"]  # noqa: S108 - in the container
        for path in _outermost(through_links([*readable, _LINKS_OF_TOOLS, str(self.harness)])):
            found += ["--ro-bind-try", path, path]
        found += ["--proc", "/proc", "--dev", "/dev"]
        for path in _outermost(sandbox.gpu_devices()) if device in _GPU_OPTIONS else ():
            found += ["--dev-bind-try", path, path]
        for folder in (home, *writable):
            found += ["--bind", str(folder), str(folder)]
        for folder in files:
            found += ["--ro-bind", str(folder), str(folder)]
        return [*found, "--remount-ro", "/", "--chdir", str(home), "--"]


class Apptainer(Container):
    """Apptainer: the system of an image, with Python and all other requirements of submissions inside."""

    contained = True
    python = "python3"

    @property
    def identity(self) -> str:
        status = Path(self.image).stat()
        return f"{self.image} {status.st_size} {status.st_mtime_ns}"

    def command(
        self,
        home: Path,
        readable: Iterable[str],  # noqa: ARG002 - the node's own system stays outside
        writable: Iterable[Path] = (),
        device: str = "",
        files: Iterable[Path] = (),
    ) -> list[str]:
        found = [self.program, "--silent", "exec", "--containall", "--no-eval", "--net", "--network", "none"]
        found += [_GPU_OPTIONS[Device(device)]] if device in _GPU_OPTIONS else []
        # With --no-home, --home sets only the path; the folder exists inside because it is bound.
        found += ["--no-home", "--home", str(home), "--pwd", str(home)]
        for folder in (home, *writable):
            found += ["--bind", f"{folder}:{folder}"]
        for folder in files:
            found += ["--bind", f"{folder}:{folder}:ro"]
        return [*found, "--bind", f"{self.harness}:{self.harness}:ro", self.image]

    def kept(self, environ: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in environ.items() if name not in _OF_THE_NODE}

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        own = {name: environ[name] for name in ("PATH", "HOME") if name in environ}
        # The home is set by an option; Apptainer warns about a variable.
        inside = {f"APPTAINERENV_{name}": value for name, value in self.kept(environ).items() if name != "HOME"}
        return {**own, **inside}

    def readable(self, folders: Sequence[str]) -> list[str]:  # noqa: ARG002 - those are the node's
        return ["/"]


def through_links(paths: Iterable[str]) -> list[str]:
    """Return the `paths`, and every target along the symbolic links of each.

    In a container the target of a link exists only if it is named.
    """
    found: dict[str, None] = {}
    for path in paths:
        # normpath would keep two leading slashes.
        following: str | None = os.path.normpath(f"/{path.lstrip('/')}")
        for _ in range(_LINKS_MAX):
            if following is None:
                break
            found[following] = None
            following = _over_first_link(Path(following))
    return list(found)


def _over_first_link(path: Path) -> str | None:
    for part in (*reversed(path.parents), path):
        if part.is_symlink():
            return os.path.normpath(part.parent / part.readlink() / path.relative_to(part))
    return None


def _outermost(paths: Iterable[str]) -> list[str]:
    """Return the `paths` that do not lie below another one of them."""
    kept: list[str] = []
    for path in sorted(paths, key=lambda each: (len(Path(each).parts), each)):
        if path != "/" and not any(path == each or path.startswith(f"{each}/") for each in kept):
            kept.append(path)
    return kept


def _try_out(made: Container, wanted: Sandbox, home: Path, environ: Mapping[str, str]) -> None:
    unusable = next((each for each in ":,\\" if wanted.image and each in f"{home}{wanted.image}"), None)
    if unusable:
        message = f'{_settings_ask(wanted)}, which cannot take paths with "{unusable}": {home}, {wanted.image}'
        raise ContainerUnavailable(message)
    folders = sandbox.seen_by_workers(sandbox.readable_folders(environ, (), (str(Path.home()),)))
    with tempfile.TemporaryFile() as output:
        try:
            done = subprocess.run(
                [*made.command(home, folders), made.python, "-I", "-S", "-c", _CHECK],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=made.environment(scrubbed(environ, home, ())),
                cwd=home,
                timeout=_CHECK_SECONDS,
                check=False,
            )
            ended = f"exited with status {done.returncode}"
        except subprocess.TimeoutExpired:
            ended = f"no answer within {_CHECK_SECONDS} s"
        except OSError as error:
            ended = str(error)
        output.seek(0)
        said = output.read(4000).decode("utf-8", "replace")
    if not (home / "ready").exists():
        reason = one_line(said, 500) or "it printed nothing"
        message = f"{_settings_ask(wanted)}, but it does not start on this node ({ended}): {reason}"
        raise ContainerUnavailable(f"{message}. It needs Python in the container, and unprivileged user namespaces")
    numbers = said.split()[-2:]
    if not all(each.isdigit() for each in numbers) or tuple(map(int, numbers)) < _PYTHON_MIN:
        message = f"{_settings_ask(wanted)}, but its Python is {'.'.join(numbers)}; the harness requires 3.10 or newer"
        raise ContainerUnavailable(message)


def _settings_ask(wanted: Sandbox) -> str:
    return f"the settings ask for {wanted.runtime} ({wanted.setting})"


def _version(program: str) -> str:
    return one_line(output_of([program, "--version"], _CHECK_SECONDS), 100) or Path(program).name
