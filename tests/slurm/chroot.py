"""A folder with a whole Debian in it, whose Slurm is newer than the host's, with pyslurm, and with Apptainer.

    make slurm-chroot          # or: sudo .venv/bin/python -m tests.slurm.chroot

It takes four minutes, 1.5 GB, root and mmdebstrap; packages come from where this host's apt and pip get theirs. The
folder is `$HPC_BOARD_CHROOT`, else one in the user's cache; remove it to have it made anew.
"""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SUITE = "forky"
"""The Debian release: the one after 13, whose Slurm was 26.05.5 when the tests were written."""

PYSLURM = "25.11.2"

IMAGE = "/opt/judge.sif"
"""The image of Apptainer within the folder."""

IMAGE_SUITE, APPTAINER_SUITE = "trixie", "sid"
"""The Debian releases of the image, and of Apptainer."""

PYTHON = "/opt/pyslurm/bin/python"
"""The Python within the folder that can import pyslurm."""

PACKAGES = (
    "ca-certificates",
    "slurm-wlm",
    "slurm-wlm-basic-plugins",
    "slurm-wlm-mysql-plugin",
    "slurmdbd",
    "mariadb-server",
    "munge",
    "libslurm-dev",
    "python3",
    "python3-dev",
    "python3-pip",
    "python3-venv",
    "python3-setuptools",
    "python3-wheel",
    "python3-packaging",
    "cython3",
    "gcc",
)

# Its pyslurm insists on the Slurm of its own release. SchedMD's header can be told to offer the older names too, and
# two more were renamed since; so the unchanged source compiles against a newer Slurm.
_COMPATIBLE = """\
#define SLURM_BACKWARD_COMPAT
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#define ESLURM_ERROR_ON_DESC_TO_RECORD_COPY 2024
#define slurm_free_ctl_conf slurm_free_conf
"""

# Root of a container often lacks a capability that Apptainer wants of root; in a namespace of users it needs none.
_APPTAINER = """\
#!/bin/sh
export APPTAINER_USERNS=1
exec /usr/bin/apptainer "$@"
"""

_ADD_APPTAINER = f"""\
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends apptainer squashfuse >/dev/null
apptainer build --force {IMAGE} /opt/judge
"""

_BUILD = f"""\
set -e
mkdir -p /build/include
cp -a /usr/include/slurm /build/include/
sed -i -E 's/(SLURM_VERSION_NUMBER) 0x[0-9a-f]+/\\1 0x190b02/' /build/include/slurm/slurm_version.h
python3 -m venv --system-site-packages /opt/pyslurm
export CFLAGS="-include /build/compatible.h -fpermissive -Wno-error -Wno-implicit-function-declaration \\
 -Wno-int-conversion -Wno-incompatible-pointer-types"
export SLURM_INCLUDE_DIR=/build/include SLURM_LIB_DIR=/usr/lib/$(gcc -dumpmachine) PYSLURM_BUILD_JOBS=$(nproc)
/opt/pyslurm/bin/pip install --no-cache-dir --no-build-isolation --no-deps pyslurm=={PYSLURM}
"""


def folder() -> Path:
    """Return the path of the folder, which need not exist."""
    named = os.environ.get("HPC_BOARD_CHROOT")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else cache / "hpc-board" / "chroots" / f"{SUITE}-pyslurm-{PYSLURM}"


def hindrance() -> str:
    """Return the reason why Slurm cannot run from the folder here; "" if it can."""
    if not (folder() / PYTHON.lstrip("/")).is_symlink():
        return "there is no folder with a newer Slurm and pyslurm: `make slurm-chroot` makes one, as root"
    if os.geteuid() != 0:
        return "only root can run the Slurm of the folder that `make slurm-chroot` makes"
    absent = [name for name in ("unshare", "nsenter", "mount") if shutil.which(name) is None]
    return f"there is no {', '.join(absent)} here" if absent else ""


ENTER = """cd "$0"; pivot_root . mnt; exec chroot . sh -ec 'umount -l /mnt; exec "$@"' sh "$@\""""
"""The shell's words that, after `mounts`, run "$@" with "$0" as root; Apptainer refuses a root that is no mount."""


def mounts(root: Path, shared: list[Path]) -> str:
    """The shell's words that make `root` usable in a mount namespace of one's own; `shared` keep their paths there."""
    commands = [["mount", "--bind", str(root), str(root)], ["mount", "-t", "proc", "proc", f"{root}/proc"]]
    commands.append(["mount", "--rbind", "/dev", f"{root}/dev"])
    for path in shared:
        commands += [["mkdir", "-p", f"{root}{path}"], ["mount", "--bind", str(path), f"{root}{path}"]]
    return " && ".join(map(shlex.join, commands))


def main() -> int:
    """Make the folder if it is not there."""
    root = folder()
    if root.exists() and (root / IMAGE.lstrip("/")).exists():
        sys.stdout.write(f"{root} is there\n")
        return 0
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        sys.stderr.write("This takes root and mmdebstrap (`apt-get install mmdebstrap`).\n")
        return 2
    if not root.exists():
        _make(root)
    _add_apptainer(root)
    sys.stdout.write(f"made {root}\n")
    return 0


def _make(root: Path) -> None:
    """Make the folder with the newer Slurm and pyslurm."""
    unfinished = root.with_name(f"{root.name}.unfinished")
    if unfinished.exists():
        shutil.rmtree(unfinished)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    options = [f"--aptopt={line}" for line in _apt_options()]
    subprocess.run(
        ["mmdebstrap", "--variant=minbase", *options, f"--include={','.join(PACKAGES)}", SUITE, unfinished, *_mirror()],
        check=True,
    )
    _build_pyslurm(unfinished)
    unfinished.rename(root)


def _add_apptainer(root: Path) -> None:
    """Add Apptainer, which the suite itself lacks, and an image with a Python."""
    tree = root / "opt" / "judge"
    if not tree.exists():
        options = [f"--aptopt={line}" for line in _apt_options()]
        subprocess.run(
            ["mmdebstrap", "--variant=minbase", *options, "--include=python3", IMAGE_SUITE, tree, *_mirror()],
            check=True,
        )
    (mirror,) = _mirror() or ["http://deb.debian.org/debian"]
    (root / "etc/apt/sources.list.d/apptainer.list").write_text(f"deb {mirror} {APPTAINER_SUITE} main\n")
    pin = f"Package: *\nPin: release n={APPTAINER_SUITE}\nPin-Priority: 100\n"
    (root / "etc/apt/preferences.d/apptainer").write_text(pin)
    program = root / "usr/local/bin/apptainer"
    program.write_text(_APPTAINER)
    program.chmod(0o755)
    subprocess.run(
        ["unshare", "--mount", "sh", "-ec", f"{mounts(root, [])}; {ENTER}", str(root), "sh", "-ec", _ADD_APPTAINER],
        check=True,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"},
    )


def _build_pyslurm(root: Path) -> None:
    (root / "build").mkdir()
    (root / "build" / "compatible.h").write_text(_COMPATIBLE)
    shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
    subprocess.run(
        ["unshare", "--mount", "sh", "-ec", f'{mounts(root, [])}; exec chroot "$0" sh -c "$1"', str(root), _BUILD],
        check=True,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"} | _pip_variables(root),
    )


def _apt_options() -> Iterator[str]:
    """Yield the options of this host's apt for its mirror: proxies, and its strictness about dates."""
    answer = subprocess.run(["apt-config", "dump"], check=True, capture_output=True, text=True).stdout
    yield from re.findall(r'^Acquire::(?:https?|Check)\S* "[^"]+";$', answer, re.MULTILINE)


def _mirror() -> list[str]:
    """The Debian mirror of this host, if it has one; none leaves the choice to mmdebstrap."""
    command = ["apt-get", "indextargets", "--format", "$(LABEL)|$(REPO_URI)", "Created-By: Packages"]
    answer = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    return re.findall(r"^Debian\|(\S+)$", answer, re.MULTILINE)[:1]


def _pip_variables(root: Path) -> dict[str, str]:
    """Return the variables of this host's pip for its index; files of this host are copied or left out."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    answer = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    found = {
        name.upper().replace("-", "_"): str(ast.literal_eval(value))
        for name, value in re.findall(r"^[\w:]+\.([a-z-]+)=(.+)$", answer, re.MULTILINE)
    }
    kept = {f"PIP_{name}": found[name] for name in ("INDEX_URL", "PROXY", "TRUSTED_HOST", "CERT") if name in found}
    if "PIP_CERT" in kept:
        shutil.copy(kept["PIP_CERT"], root / "build" / "ca.crt")
        kept["PIP_CERT"] = "/build/ca.crt"
    return kept | {name: value for name, value in os.environ.items() if name.lower() in ("http_proxy", "https_proxy")}


if __name__ == "__main__":
    raise SystemExit(main())
