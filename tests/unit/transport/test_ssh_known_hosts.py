"""known_hosts files, as OpenSSH reads them."""

import base64
import shutil
import subprocess
from pathlib import Path

import pytest

from hpc_board.transport.known_hosts import KnownHosts, fingerprint, name_of

KEY, OTHER = (base64.b64encode(word).decode() for word in (b"a key", b"another key"))


def known(folder: Path, *lines: str) -> KnownHosts:
    path = folder / "known_hosts"
    path.write_text("\n".join(lines) + "\n")
    return KnownHosts.read([folder / "none", path])


@pytest.mark.parametrize(
    ("hosts", "host", "fits"),
    [
        ("login2", "login2", True),
        ("login2", "login22", False),
        ("login2,10.1.2.3", "10.1.2.3", True),
        ("Login2.Site.ORG", "login2.site.org", True),
        ("login?.site.org", "login2.site.org", True),
        ("*.site.org", "login2.site.org", True),
        ("*.site.org,!login2.site.org", "login2.site.org", False),
        ("!login3.site.org,*.site.org", "login2.site.org", True),
        ("[login2]:2222", "[login2]:2222", True),
        ("[login2]:2222", "login2", False),
        ("login2", "[login2]:2222", False),
        ("login.", "loginx", False),
        ("|1|bad", "login2", False),
        ("|1|a|b|c", "login2", False),
    ],
)
def test_a_line_is_for_the_hosts_that_fit_its_patterns(tmp_path: Path, hosts: str, host: str, fits: bool) -> None:
    found = known(tmp_path, f"{hosts} ssh-ed25519 {KEY} a comment")
    assert found.knows(host, b"a key") is fits
    assert found.key_types(host) == (["ssh-ed25519"] if fits else [])


def test_what_is_no_line_for_a_host_s_key_holds_nothing(tmp_path: Path) -> None:
    lines = ["", "# login2 ssh-ed25519 x", "login2 ssh-ed25519", "login2 ssh-ed25519 %%%", "login2"]
    found = known(tmp_path, *lines, f"@cert-authority login2 ssh-ed25519 {KEY}", f"@else login2 ssh-ed25519 {KEY}")
    assert (found.lines, found.knows("login2", b"a key")) == ((), False)


def test_names_that_openssh_has_hashed_are_found(tmp_path: Path) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("OpenSSH is not installed: no ssh-keygen")
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    kind, blob, _ = Path(f"{key}.pub").read_text().split()
    path = tmp_path / "known_hosts"
    path.write_text(f"[login2]:2222 {kind} {blob}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(path)], check=True, stderr=subprocess.DEVNULL)
    assert "login2" not in path.read_text()
    found = KnownHosts.read([path])
    assert found.knows("[login2]:2222", base64.b64decode(blob))
    assert not found.knows("login2", base64.b64decode(blob))
    shown = subprocess.run(["ssh-keygen", "-l", "-f", f"{key}.pub"], capture_output=True, text=True, check=True)
    assert fingerprint(base64.b64decode(blob)) == shown.stdout.split()[1]


def test_another_key_of_the_same_type_is_a_contradiction_with_its_line(tmp_path: Path) -> None:
    found = known(tmp_path, "# first", f"login2 ssh-rsa {OTHER}", f"login2 ssh-ed25519 {OTHER}")
    assert found.contradicts("login2", "ssh-ed25519", b"a key") == f"line 3 of {tmp_path / 'known_hosts'}"
    assert found.contradicts("login2", "ecdsa-sha2-nistp256", b"a key") == ""
    assert found.contradicts("login3", "ssh-ed25519", b"a key") == ""


def test_a_revoked_key_is_not_known_even_where_another_line_has_it(tmp_path: Path) -> None:
    found = known(tmp_path, f"login2 ssh-ed25519 {KEY}", f"@revoked * ssh-ed25519 {KEY}")
    assert not found.knows("login2", b"a key")
    assert found.contradicts("login2", "ssh-ed25519", b"a key").startswith("line 2 ")


def test_a_host_is_named_with_a_port_that_is_not_the_usual_one() -> None:
    assert (name_of("Login2", 22), name_of("login2", 2222)) == ("login2", "[login2]:2222")
