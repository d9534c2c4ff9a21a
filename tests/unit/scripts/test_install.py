"""The installation of the checkout by `make`: which build of PyTorch pip is asked for."""

import subprocess
from pathlib import Path

import pytest

from tests.unit.recorded import REPOSITORY

pytestmark = pytest.mark.skipif(
    Path("/proc/driver/nvidia/version").exists(), reason="this machine has an NVIDIA driver"
)

PIP = """\
#!/bin/sh
case "$1" in
index) echo "Available versions: 9.9.1, $OFFERED, 9.9.0" ;;
*) echo "pip $*" ;;
esac
"""


def installed(checkout: Path, *words: str, offered: str) -> list[str]:
    """Return the lines that the script prints, and pip's own command as the last one."""
    script = ["bash", str(checkout / "scripts/install.sh"), *words]
    environ = {"OFFERED": offered, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(script, env=environ, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose .venv has no PyTorch, and a pip that installs nothing."""
    for name in ("scripts", ".venv/bin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "scripts/install.sh").write_bytes((REPOSITORY / "scripts/install.sh").read_bytes())
    (tmp_path / "constraints.txt").write_text("numpy==1.0\ntorch==9.9.0\n")
    for name, text in (("pip", PIP), ("python", "#!/bin/sh\nexit 1\n")):
        (tmp_path / ".venv/bin" / name).write_text(text)
        (tmp_path / ".venv/bin" / name).chmod(0o755)
    return tmp_path


def test_without_a_driver_the_build_for_the_cpu_is_installed_if_an_index_has_it(checkout: Path) -> None:
    *told, pip = installed(checkout, "dev,torch", "https://index.example", offered="9.9.0+cu130, 9.9.0+cpu")
    assert pip.split()[-3:] == ["-e", ".[dev,torch]", "torch==9.9.0+cpu"]
    assert "--extra-index-url https://index.example -c constraints.txt" in pip
    assert len(told) == 1


def test_without_that_build_the_way_to_a_smaller_download_is_shown(checkout: Path) -> None:
    *told, pip = installed(checkout, "torch", offered="9.9.0+cu130")
    assert pip.split()[-2:] == ["-e", ".[torch]"]
    assert "TORCH_INDEX=URL" in told[1]
    assert "LIBRARIES=numpy" in told[1]


def test_an_installation_without_pytorch_asks_no_index_for_it(checkout: Path) -> None:
    (pip,) = installed(checkout, "numpy", offered="9.9.0+cpu")
    assert pip.split()[-2:] == ["-e", ".[numpy]"]
