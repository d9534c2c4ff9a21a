"""The systemd units of a service: read by systemd itself, with any path."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hpc_board.service.units import system_unit, user_unit

STRANGE = "a b%h$HOME\"\\x'q\\"


def verified(unit: Path, *options: str) -> str:
    """Return the complaints of systemd about a unit file."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("there is no systemd-analyze here")
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(unit.parent)}
    done = subprocess.run(
        [program, *options, "verify", str(unit)], capture_output=True, text=True, check=False, env=environ
    )
    return f"{done.returncode} {done.stderr}".strip()


@pytest.mark.parametrize("name", ["plain", STRANGE])
def test_systemd_reads_both_units_and_finds_no_fault(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    command, environ = ["/bin/true", "--config", str(folder / "s.yaml"), "serve"], {"PATH": f"{folder}:/usr/bin"}
    file = tmp_path / "hpc-board.service"
    file.write_text(user_unit(command, environ))
    assert verified(file, "--user") == "0"
    file.write_text(system_unit(folder, command, environ, "daemon"))
    assert verified(file) == "0"


def test_systemd_tells_a_fault_of_a_unit(tmp_path: Path) -> None:
    file = tmp_path / "hpc-board.service"
    file.write_text(user_unit(["/no/such/program"], {}).replace("WatchdogSec", "WatchdogSeconds"))
    told = verified(file, "--user")
    assert "Unknown key" in told
    assert "/no/such/program is not executable" in told


def test_a_unit_keeps_what_systemd_expands_as_it_is() -> None:
    text = user_unit(["/x", "%h $HOME"], {"A": "%h $HOME"})
    assert 'ExecStart="/x" "%%h $$HOME"\n' in text
    assert 'Environment="A=%%h $HOME"\n' in text
