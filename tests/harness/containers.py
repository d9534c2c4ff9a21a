"""Programs that play Apptainer, Enroot and Slurm's pyxis: they take these programs' options and run the command.

They run it under this machine's system as its image, without what lies in /tmp, in namespaces as the real ones make
them: so it shows whether the folders that are asked for are those that a job needs, not what an image has.
"""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hpc_board.model.gpu import ContainerRuntime

_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
_KEPT_FLAGS = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC

_COMMON = f"""\
#!{sys.executable}
import json, os, sys
args = sys.argv[1:]

def run(mounts, command, environ, prefix=()):
    words = [*prefix, {sys.executable!r}, {__file__!r}, json.dumps(mounts), *command]
    os.execvpe(words[0], words, environ)

def options(flags, values):
    found = []
    while args and args[0].startswith("--"):
        name, equals, value = args.pop(0).partition("=")
        if name == "--":
            break
        assert name in (values if equals else {{*flags, *values}}), name
        found.append((name, value if equals or name in flags else args.pop(0)))
    return found

image_variables = {{"GREETING": "of the image"}}
"""

_APPTAINER = """
assert args.pop(0) == "--silent" and args.pop(0) == "exec"
found = options(("--no-eval", "--no-home", "--nv", "--rocm"), ("--pwd", "--bind"))
assert {"--no-eval", "--no-home"} <= {name for name, _ in found}
image, *command = args
assert os.path.exists(image)
prefix = "APPTAINERENV_"
told = {name[len(prefix):]: value for name, value in os.environ.items() if name.startswith(prefix)}
os.chdir("/")
pwd = dict(found)["--pwd"]
run([value.split(":") for name, value in found if name == "--bind"],
    ["env", "--chdir", pwd, *command], {**os.environ, **image_variables, **told})
"""

_ENROOT = """
assert args.pop(0) == "start"
found = options((), ("--mount", "--env"))
image, *command = args
assert image == "kernels", image
mounts = []
for value in (value for name, value in found if name == "--mount"):
    source, target, kind, flags = value.split(":")
    assert kind == "none" and flags.split(",")[:2] == ["x-create=dir", "bind"]
    mounts.append((source, target, *flags.split(",")))
told = {value: os.environ[value] for name, value in found if name == "--env"}
os.chdir("/")
run(mounts, command, {"PATH": os.environ["PATH"], **image_variables, **told})
"""

_SRUN = """
if args == ["--help"]:
    print("      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH")
    sys.exit()
found = options(
    ("--no-container-mount-home", "--no-container-remap-root", "--no-container-entrypoint"),
    ("--nodes", "--ntasks", "--cpus-per-task", "--cpu-bind", "--container-image", "--container-workdir",
     "--container-mounts", "--container-env"),
)
values = dict(found)
assert values["--container-image"] == "kernels"
own = [f"{name}={value}" for name, value in found if "container" not in name]
kept = {name: os.environ[name] for name in values.get("--container-env", "").split(",") if name}
run([each.split(":") for each in values["--container-mounts"].split(",")],
    ["env", "--chdir", values["--container-workdir"], *args],
    {**os.environ, **image_variables, **kept}, [REAL_SRUN, *own])
"""

_PLAYED = {
    ContainerRuntime.APPTAINER: ("apptainer", _APPTAINER),
    ContainerRuntime.ENROOT: ("enroot", _ENROOT),
    ContainerRuntime.PYXIS: ("srun", f"REAL_SRUN = {shutil.which('srun')!r}\n{_SRUN}"),
}


def play(runtime: ContainerRuntime, folder: Path) -> Path:
    """A folder for PATH with a program that plays `runtime`."""
    folder.mkdir(exist_ok=True)
    name, text = _PLAYED[runtime]
    program = folder / name
    program.write_text(f"{_COMMON}\n{text}")
    program.chmod(0o755)
    return folder


def contain(mounts: Sequence[Sequence[str]], command: list[str]) -> None:
    """Become `command` where /tmp has nothing but `mounts`, each a source, a target and flags, and this Python."""
    uid, gid = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)

    def checked(status: int) -> None:
        if status != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def mount(source: str, target: str, kind: str, flags: int) -> None:
        checked(libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None))

    checked(libc.unshare(_CLONE_NEWNS | (_CLONE_NEWUSER if uid else 0)))
    if uid:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    mount("none", "/", "", _MS_REC | _MS_PRIVATE)
    # Opened in the new namespace, before what is in /tmp is hidden.
    folders = [
        (os.open(source, os.O_PATH), target, flags)
        for source, target, *flags in (*mounts, [sys.prefix, sys.prefix, "ro"])
    ]
    mount("none", "/tmp", "tmpfs", 0)
    for descriptor, target, flags in folders:
        Path(target).mkdir(parents=True, exist_ok=True)
        mount(f"/proc/self/fd/{descriptor}", target, "", _MS_BIND | _MS_REC)
        if "ro" in flags:
            kept = os.statvfs(target).f_flag & _KEPT_FLAGS
            mount("none", target, "", _MS_REMOUNT | _MS_BIND | _MS_RDONLY | kept)
        os.close(descriptor)
    os.execvp(command[0], command)  # noqa: S606 - its own list of arguments


def _hindrance() -> str:
    command = [sys.executable, __file__, "[]", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"no container can be made here: {done.stderr.strip().splitlines()[-1]}"


if __name__ == "__main__":
    contain(json.loads(sys.argv[1]), sys.argv[2:])
else:
    hindrance = _hindrance()
    needs_containers = pytest.mark.skipif(bool(hindrance), reason=hindrance)
