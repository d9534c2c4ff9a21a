"""Programs that play Apptainer, Enroot and Slurm's pyxis: they take these programs' options and run the command.

They run it under this machine's system as its image, without what lies in /tmp, in namespaces as the real ones make
them: so it shows whether the folders that are asked for are those that a job needs, not what an image has.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpc_board.model.gpu import ContainerRuntime
from tests import namespaces

_COMMON = f"""\
#!{sys.executable}
import json, os, sys
args = sys.argv[1:]

def run(mounts, command, environ, prefix=()):
    words = [*prefix, {sys.executable!r}, {namespaces.__file__!r}, json.dumps(mounts), *command]
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


def _hindrance() -> str:
    command = [sys.executable, str(namespaces.__file__), "[]", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"no container can be made here: {done.stderr.strip().splitlines()[-1]}"


hindrance = _hindrance()
needs_containers = pytest.mark.skipif(bool(hindrance), reason=hindrance)
