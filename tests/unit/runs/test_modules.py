"""The start of a batch script whose entry has modules, on nodes that define `module` in different places."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.runs.job_folder import probe_script

_MODULE = 'module() { echo "module $*"; }\n'
_RESET = "PATH=/usr/bin:/bin\n"


def started(
    folder: Path, profile: str, *, environ: Mapping[str, str] | None = None, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """The script up to its judge, where /etc/profile has this text, and the host's own modules are hidden."""
    gpu = Gpu("CPU", Cluster("main", "slurm"), Device.CPU, "cpu", modules=("cuda/12",), env=env or {})
    script = folder / "job.sh"
    start, _, _ = probe_script(gpu).text.partition("\nset -u\n")
    script.write_text(f'{start}\necho "$HPC_BOARD_MODULES in $PWD with $PATH"\n')
    script.chmod(0o755)
    own = folder / "profile"
    own.write_text(profile)
    hide = "for own in /etc/profile.d /usr/share/lmod; do [ ! -d $own ] || mount -t tmpfs none $own || exit; done"
    mounts = f'mount --bind {own} /etc/profile && {hide}; exec "$@"'
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    return subprocess.run(
        [*unshare, "bash", "-c", mounts, "bash", str(script)],
        cwd=folder,
        env={"PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": str(folder), **(environ or {})},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tried = subprocess.run(["unshare", "--mount", "--map-root-user", "true"], check=False, capture_output=True)
    if tried.returncode != 0:
        pytest.skip("no right to create mount namespaces")
    return tmp_path


def check(done: "subprocess.CompletedProcess[str]", folder: Path, source: object) -> None:
    assert done.returncode == 0, done.stderr
    purge, load, told = done.stdout.splitlines()[-3:]
    assert (purge, load) == ("module purge", "module load cuda/12")
    assert told.startswith(f"{source} in {folder} with {folder}/bin:")


def test_a_profile_that_sets_path_anew_defines_it(folder: Path) -> None:
    check(started(folder, _RESET + _MODULE), folder, "/etc/profile")


def test_the_file_of_bash_env_defines_it(folder: Path) -> None:
    file = folder / "modules of the site.sh"
    file.write_text(_MODULE)
    check(started(folder, f"export BASH_ENV='{file}'\n"), folder, file)
    # An explicit one comes before a profile, which may end its shell.
    check(started(folder, _MODULE + "exit 3\n", env={"BASH_ENV": str(file)}), folder, file)


def test_a_login_shell_defines_it_and_starts_the_script_again(folder: Path) -> None:
    check(started(folder, f"{_RESET}shopt -q login_shell || return\n{_MODULE}"), folder, "a login shell")
    (folder / ".bash_profile").write_text(f"{_MODULE}cd /\n")
    check(started(folder, "echo Welcome\n"), folder, "a login shell")


def test_an_exported_function_is_there_without_a_profile(folder: Path) -> None:
    environ = {"BASH_FUNC_module%%": '() { echo "module $*"; }'}
    check(started(folder, "exit 3\n", environ=environ), folder, "the shell of the job")


def test_a_node_without_modules_says_so(folder: Path) -> None:
    done = started(folder, "exit 3\n")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "hpc-board: this node has no `module` command: neither BASH_ENV, /etc/profile nor a login shell defines it\n"
    )
