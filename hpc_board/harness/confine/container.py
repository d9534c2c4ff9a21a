"""The container around the processes that run a submission, where the settings ask for one: bubblewrap or Apptainer.

What a worker gives up by itself (sandbox.py) stays as it is; the container lies outside of that. In it there are no
other processes, no network and no files but those that are named here, so that what Landlock or the system-call filter
of an older kernel would let through meets nothing. When its first process ends, the kernel ends all that is in it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hpc_board.harness.confine import sandbox
from hpc_board.harness.confine.scratch import scrubbed
from hpc_board.model.gpu import Device, Sandbox, SandboxRuntime
from hpc_board.model.text import one_line

_CHECK_SECONDS = 60
_LINKS_MAX = 40
_PYTHON_MIN = (3, 10)
_CHECK = "import sys; open('ready', 'w').close(); print(sys.version_info[0], sys.version_info[1])"
_OF_THE_NODE = ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "ROCM_PATH")
"""Variables that name folders of the node, where an image has its own."""

_GPU_OPTIONS = {Device.CUDA: "--nv", Device.HIP: "--rocm"}
# On Debian and its like, compilers in /usr are links that lead through there.
_LINKS_OF_TOOLS = "/etc/alternatives"


class ContainerUnavailable(Exception):
    """The container that the settings ask for cannot be had on this node; the message says why, and who asked."""


class Container(Protocol):
    """A way to run a process in a container of its own."""

    @property
    def python(self) -> str:
        """The interpreter in it."""

    @property
    def description(self) -> str:
        """What a result says of it."""

    @property
    def identity(self) -> str:
        """Text that differs wherever compilers in it could be others than on the node itself."""

    def command(
        self,
        home: Path,
        readable: Iterable[str],
        writable: Iterable[Path] = (),
        device: str = "",
        files: Iterable[Path] = (),
    ) -> list[str]:
        """What stands before the command that is to run in the folder `home`.

        It may write `home` and the folders `writable`, and read those of `files`, and the `readable` ones as far as
        they are the node's; GPUs of the kind `device` can be used.
        """

    def kept(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What of `environ` applies inside."""

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment of that whole command, so that what runs inside has what is kept of `environ`."""

    def readable(self, folders: Sequence[str]) -> list[str]:
        """What a process inside may be allowed to read, where on the node itself it would be `folders`."""


def container(wanted: Sandbox, harness: Path, environ: Mapping[str, str], scratch: Path) -> Container:
    """The container that the settings ask for, tried out once in a folder below `scratch`.

    Raises:
        ContainerUnavailable: the node lacks the program or the image, or does not let it make namespaces.
    """
    name = {SandboxRuntime.BUBBLEWRAP: "bwrap", SandboxRuntime.APPTAINER: "apptainer"}[wanted.runtime]
    program = shutil.which(name, path=environ.get("PATH"))
    if program is None:
        message = f"{_asked(wanted)}, and this node has no {name} in PATH; install it there, or let `modules` bring it"
        raise ContainerUnavailable(message)
    if wanted.image and not Path(wanted.image).exists():
        raise ContainerUnavailable(f"{_asked(wanted)}, and this node has no image {wanted.image}")
    version = _version(program)
    made: Container
    if wanted.runtime is SandboxRuntime.APPTAINER:
        made = Apptainer(program, version, harness, wanted.image)
    else:
        made = Bubblewrap(program, version, harness)
    home = Path(tempfile.mkdtemp(prefix="container-", dir=scratch))
    try:
        _try_out(made, wanted, home, environ)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return made


@dataclass(frozen=True)
class Bubblewrap:
    """bubblewrap: the node's own system, without whatever is not named."""

    program: str
    description: str
    harness: Path
    python: str = sys.executable
    identity: str = ""

    def command(
        self,
        home: Path,
        readable: Iterable[str],
        writable: Iterable[Path] = (),
        device: str = "",
        files: Iterable[Path] = (),
    ) -> list[str]:
        """See Container."""
        found = [self.program, "--unshare-all", "--die-with-parent", "--tmpfs", "/tmp"]  # noqa: S108 - in the container
        named = [path for path in readable if path != "/proc"]
        for path in _outermost(through_links([*named, _LINKS_OF_TOOLS, str(self.harness)])):
            found += ["--ro-bind-try", path, path]
        found += ["--proc", "/proc", "--dev", "/dev"]
        for path in _outermost(sandbox.gpu_devices()) if device in _GPU_OPTIONS else ():
            found += ["--dev-bind-try", path, path]
        for folder in (home, *writable):
            found += ["--bind", str(folder), str(folder)]
        for folder in files:
            found += ["--ro-bind", str(folder), str(folder)]
        return [*found, "--remount-ro", "/", "--chdir", str(home), "--"]

    def kept(self, environ: Mapping[str, str]) -> dict[str, str]:
        """See Container."""
        return dict(environ)

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """See Container."""
        return dict(environ)

    def readable(self, folders: Sequence[str]) -> list[str]:
        """See Container."""
        return list(folders)


@dataclass(frozen=True)
class Apptainer:
    """Apptainer: the system of an image, with Python and whatever else submissions need in it."""

    program: str
    version: str
    harness: Path
    image: str
    python: str = "python3"

    @property
    def description(self) -> str:
        """See Container."""
        return f"{self.version}, {self.image}"

    @property
    def identity(self) -> str:
        """See Container."""
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
        """See Container."""
        found = [self.program, "--silent", "exec", "--containall", "--no-eval", "--net", "--network", "none"]
        found += [_GPU_OPTIONS[Device(device)]] if device in _GPU_OPTIONS else []
        # With --no-home, --home names the folder alone; it is there because it is bound.
        found += ["--no-home", "--home", str(home), "--pwd", str(home)]
        for folder in (home, *writable):
            found += ["--bind", f"{folder}:{folder}"]
        for folder in files:
            found += ["--bind", f"{folder}:{folder}:ro"]
        return [*found, "--bind", f"{self.harness}:{self.harness}:ro", self.image]

    def kept(self, environ: Mapping[str, str]) -> dict[str, str]:
        """See Container."""
        return {name: value for name, value in environ.items() if name not in _OF_THE_NODE}

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """See Container."""
        own = {name: environ[name] for name in ("PATH", "HOME") if name in environ}
        # The home is told by an option; Apptainer warns of a variable.
        inside = {f"APPTAINERENV_{name}": value for name, value in self.kept(environ).items() if name != "HOME"}
        return {**own, **inside}

    def readable(self, folders: Sequence[str]) -> list[str]:  # noqa: ARG002 - those are the node's
        """See Container."""
        return ["/"]


def through_links(paths: Iterable[str]) -> list[str]:
    """The `paths`, and for each whose way leads over links also where every one of these leads to.

    In a container the target of a link is there only if it is named.
    """
    found: dict[str, None] = {}
    for path in paths:
        # Two slashes at the beginning would be kept.
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
    """The `paths` that do not lie below another one of them."""
    kept: list[str] = []
    for path in sorted(paths, key=lambda each: (len(Path(each).parts), each)):
        if path != "/" and not any(path == each or path.startswith(f"{each}/") for each in kept):
            kept.append(path)
    return kept


def _try_out(made: Container, wanted: Sandbox, home: Path, environ: Mapping[str, str]) -> None:
    """Run the container's Python once in `home`."""
    unusable = next((each for each in ":,\\" if wanted.image and each in f"{home}{wanted.image}"), None)
    if unusable:
        message = f'{_asked(wanted)}, which cannot take paths with "{unusable}": {home}, {wanted.image}'
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
            ended = f"ended with status {done.returncode}"
        except subprocess.TimeoutExpired:
            ended = f"nothing within {_CHECK_SECONDS} s"
        except OSError as error:
            ended = str(error)
        output.seek(0)
        said = output.read(4000).decode("utf-8", "replace")
    if not (home / "ready").exists():
        what = one_line(said, 500) or "it said nothing"
        message = f"{_asked(wanted)}, and it does not start on this node ({ended}): {what}"
        raise ContainerUnavailable(f"{message}. It needs Python in the container, and unprivileged user namespaces")
    numbers = said.split()[-2:]
    if not all(each.isdigit() for each in numbers) or tuple(map(int, numbers)) < _PYTHON_MIN:
        message = f"{_asked(wanted)}, and its Python is {'.'.join(numbers)}; the harness takes 3.10 or newer"
        raise ContainerUnavailable(message)


def _asked(wanted: Sandbox) -> str:
    return f"the settings ask for {wanted.runtime} ({wanted.setting})"


def _version(program: str) -> str:
    """What the program says of its version, its name where it says nothing."""
    try:
        done = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_CHECK_SECONDS,
            check=False,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError):
        return Path(program).name
    return one_line(done.stdout, 100) or Path(program).name
