"""known_hosts files, as `ssh-keygen` reads them."""

import base64
import shutil
import subprocess
from pathlib import Path

import pytest

from hpc_board.transport.known_hosts import KnownKey, fingerprint, known_keys
from tests.slurm.sshd import new_key


@pytest.fixture
def key(tmp_path: Path) -> str:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("OpenSSH is not installed: no ssh-keygen")
    return " ".join(Path(f"{new_key(tmp_path / 'key')}.pub").read_text().split()[:2])


def known(folder: Path, name: str, *lines: str) -> list[KnownKey]:
    path = folder / "known_hosts"
    path.write_text("\n".join(lines) + "\n")
    return known_keys([folder / "none", path], [name, "fallback"])


@pytest.mark.parametrize("program", ["ssh-keygen", "none"])
def test_a_key_of_the_host_is_found_with_its_line(
    tmp_path: Path, key: str, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if program == "none":
        monkeypatch.setenv("PATH", "/nowhere")
    lines = ("# a comment", f"login1 {key}", "login2 nonsense", f"login2,10.1.2.3 {key} a comment", f"fallback {key}")
    (found,) = known(tmp_path, "10.1.2.3", *lines)
    assert (found.key_type, found.key, found.revoked) == ("ssh-ed25519", base64.b64decode(key.split()[1]), False)
    assert found.place == ("line 4 of " if program == "ssh-keygen" else "") + str(tmp_path / "known_hosts")
    (other,) = known(tmp_path, "login3", *lines)
    assert other.key == found.key


def test_patterns_hashes_and_revoked_keys_count_and_authorities_do_not(tmp_path: Path, key: str) -> None:
    lines = (f"*.site.org,!b.site.org {key}", f"@revoked * {key}", f"@cert-authority * {key}")
    assert [found.revoked for found in known(tmp_path, "a.site.org", *lines)] == [False, True]
    assert known(tmp_path, "b.site.org", *lines) == []
    path = tmp_path / "known_hosts"
    path.write_text(f"[login2]:2222 {key}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(path)], check=True, stderr=subprocess.DEVNULL)
    assert "login2" not in path.read_text()
    (found,) = known_keys([path], ["[login2]:2222"])
    shown = subprocess.run(
        ["ssh-keygen", "-l", "-f", f"{tmp_path}/key.pub"], capture_output=True, text=True, check=True
    )
    assert fingerprint(found.key) == shown.stdout.split()[1]
