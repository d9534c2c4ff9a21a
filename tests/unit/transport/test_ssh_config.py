"""The host of a login: what OpenSSH makes of it, with the settings as options of its command."""

import os
import pwd
import shutil
from pathlib import Path

import pytest

from hpc_board.errors import SchedulerError
from hpc_board.model.gpu import Login
from hpc_board.transport import ssh_config
from hpc_board.transport.ssh_config import CONNECT_SECONDS, Destination, destination
from tests.slurm.sshd import write_ssh_files

CONFIG = """\
Host far
  HostName login2.far.org # the login node
  User alice
  Port 2222
  IdentityFile "/keys/%u-%h" # mine
  CertificateFile "${KEYS}/of the day-cert.pub"
  IdentitiesOnly yes
  HostKeyAlias Far-Login
  ConnectTimeout 5
  UserKnownHostsFile /known/%h "/of mine/known"
  ProxyJump bob@gate:23,[::1]
Host direct
  ProxyCommand relay %h %p %r %n %%
  ProxyJump later
Match exec "test %n = by-command"
  HostName 10.1.2.3
Match host 10.1.2.3 exec false
  User nobody
Match final host login2.far.org
  IdentityAgent /run/agent-%h
Match final all
  GSSAPIAuthentication yes
Host *
  User everybody
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if shutil.which("ssh") is None:
        pytest.skip("OpenSSH is not installed: no ssh")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KEYS", "/keys")
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(CONFIG)
    write_ssh_files(tmp_path / ".ssh")
    return tmp_path


def resolved(home: Path, login: Login, **variables: str) -> Destination:
    return destination(login, {"HOME": str(home), **variables})


def test_a_host_has_the_options_of_the_configuration(home: Path) -> None:
    found = resolved(home, Login("far"))
    assert (found.host, found.port, found.user) == ("login2.far.org", 2222, "alice")
    account = pwd.getpwuid(os.geteuid()).pw_name
    assert (found.keys[0], found.keys_only) == (Path(f"/keys/{account}-login2.far.org"), True)
    assert found.certificates == (Path("/keys/of the day-cert.pub"),)
    assert (found.names, found.connect_seconds) == (("far-login",), 5)
    assert found.agent == "/run/agent-login2.far.org"
    assert found.known_hosts[:2] == (Path("/known/login2.far.org"), Path("/of mine/known"))
    assert found.command == "ssh -p 2222 alice@far"


def test_openssh_makes_the_way_over_jump_hosts(home: Path) -> None:
    proxy = resolved(home, Login("far")).proxy
    assert (proxy[0], proxy[-6:]) == ("ssh", ("-J", "bob@gate:23", "-W", "[login2.far.org]:2222", "--", "::1"))
    by_settings = resolved(home, Login("far", proxy_jump="bob@gate:24")).proxy
    assert by_settings[-8:] == ("-l", "bob", "-p", "24", "-W", "[login2.far.org]:2222", "--", "gate")
    assert resolved(home, Login("far", proxy_jump="none")).proxy == ()


def test_the_settings_precede_the_configuration(home: Path) -> None:
    found = resolved(home, Login("far", "carol", 24, "/keys/mine"))
    assert (found.user, found.port, found.keys, found.keys_only) == ("carol", 24, (Path("/keys/mine"),), True)
    by_command = resolved(home, Login("far", proxy_command="nc %h %p"))
    assert by_command.proxy == ("/bin/sh", "-c", "exec nc login2.far.org 2222")


def test_of_two_ways_the_first_counts(home: Path) -> None:
    assert resolved(home, Login("direct", "dora")).proxy[-1] == "exec relay direct 22 dora direct %"


def test_a_match_counts_as_for_openssh(home: Path) -> None:
    found = resolved(home, Login("by-command"))
    assert (found.host, found.user, found.names) == ("10.1.2.3", "everybody", ("10.1.2.3",))


def test_a_key_of_the_usual_port_counts_where_another_port_has_none(home: Path) -> None:
    assert resolved(home, Login("Login3", port=2222)).names == ("[login3]:2222", "login3")


def test_a_configuration_that_hangs_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_config, "_ANSWER_SECONDS", 0.3)
    (home / ".ssh" / "config").write_text('Match exec "sleep 20"\n')
    with pytest.raises(SchedulerError, match=r"`ssh -T -G -- far` does not answer: .* timed out"):
        resolved(home, Login("far"))


def test_without_ssh_the_settings_alone_count(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    found = resolved(home, Login("far", "alice"))
    assert (found.host, found.port, found.user, found.names, found.proxy) == ("far", 22, "alice", ("far",), ())
    assert [key.name for key in found.keys] == ["id_ed25519", "id_ecdsa", "id_rsa"]
    assert found.known_hosts[0] == home / ".ssh" / "known_hosts"
    assert (found.keys_only, found.connect_seconds, found.command) == (False, CONNECT_SECONDS, "ssh alice@far")
    with pytest.raises(SchedulerError, match="the jump host gate needs the program `ssh`"):
        resolved(home, Login("far", proxy_jump="gate"))


@pytest.mark.parametrize(
    ("agent", "variables", "socket"),
    [
        ("", {"SSH_AUTH_SOCK": "/run/agent"}, "/run/agent"),
        ("", {}, ""),
        ("IdentityAgent none", {"SSH_AUTH_SOCK": "/run/agent"}, ""),
        ("IdentityAgent /run/other", {"SSH_AUTH_SOCK": "/run/agent"}, "/run/other"),
        ("IdentityAgent $MINE", {"MINE": "/run/mine"}, "/run/mine"),
    ],
)
def test_the_agent_is_the_one_that_the_configuration_names(
    home: Path, agent: str, variables: dict[str, str], socket: str
) -> None:
    (home / ".ssh" / "config").write_text(f"{agent}\n")
    assert resolved(home, Login("a"), **variables).agent == socket


@pytest.mark.parametrize(
    ("line", "host", "words"),
    [
        ("Port many", "a", "Bad port 'many'"),
        ("ProxyJump x:y:z", "a", 'Invalid ProxyJump "x:y:z"'),
        ("Match unknown-criterion", "a", "Bad Match condition"),
        ("", "-oProxyCommand=touch here", "hostname contains invalid characters"),
    ],
)
def test_what_openssh_refuses_is_an_error_with_its_words(home: Path, line: str, host: str, words: str) -> None:
    (home / ".ssh" / "config").write_text(f"{line}\n")
    with pytest.raises(SchedulerError, match=words) as told:
        resolved(home, Login(host))
    assert "ssh -T -G" in told.value.hint
