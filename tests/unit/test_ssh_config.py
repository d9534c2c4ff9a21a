"""Where a login leads: the settings first, then the SSH configuration."""

from pathlib import Path

import pytest

from hpc_board.errors import SchedulerError
from hpc_board.model.gpu import Login
from hpc_board.transport.ssh_config import CONNECT_SECONDS, Destination, destination

CONFIG = """\
Include more/*.conf
Host far
  HostName login2.far.org
  User alice
  Port 2222
  IdentityFile ~/.ssh/far_key
  IdentitiesOnly yes
  HostKeyAlias far-login
  ConnectTimeout 5
  ProxyJump bob@gate:23,inner
Host direct
  ProxyCommand relay %h %p %r
  ProxyJump later
Host *
  User everybody
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(CONFIG)
    return tmp_path


def resolved(home: Path, login: Login, **variables: str) -> Destination:
    return destination(login, {"HOME": str(home), **variables})


def test_a_host_of_the_configuration_has_what_stands_there(home: Path) -> None:
    found = resolved(home, Login("far"))
    assert (found.host, found.port, found.user, found.alias) == ("login2.far.org", 2222, "alice", "far-login")
    assert (found.keys, found.keys_only, found.connect_seconds) == ((home / ".ssh" / "far_key",), True, 5)
    assert found.jump == Login("inner", proxy_jump="bob@gate:23")
    assert found.command == "ssh -p 2222 alice@far"
    assert found.known_hosts[0] == home / ".ssh" / "known_hosts"


def test_a_jump_host_is_reached_over_those_before_it(home: Path) -> None:
    inner = resolved(home, Login("inner", proxy_jump="bob@gate:23"))
    assert inner.jump == Login("gate", "bob", 23)
    gate = resolved(home, Login("gate", "bob", 23))
    assert (gate.user, gate.port, gate.jump) == ("bob", 23, None)


def test_the_settings_overrule_the_configuration(home: Path) -> None:
    found = resolved(home, Login("far", "carol", 24, "/keys/mine", "other"))
    assert (found.user, found.port, found.keys, found.keys_only) == ("carol", 24, (Path("/keys/mine"),), True)
    assert found.jump == Login("other")
    by_command = resolved(home, Login("far", proxy_command="nc %h %p"))
    assert (by_command.jump, by_command.proxy_command) == (None, "nc login2.far.org 2222")


def test_of_two_ways_the_first_counts(home: Path) -> None:
    found = resolved(home, Login("direct", "dora"))
    assert (found.jump, found.proxy_command) == (None, "relay direct 22 dora")
    assert resolved(home, Login("far", proxy_jump="none")).jump is None


def test_without_a_configuration_the_usual_holds(home: Path) -> None:
    (home / ".ssh" / "config").unlink()
    found = resolved(home, Login("login2", "alice"))
    assert (found.host, found.port, found.user, found.alias, found.jump) == ("login2", 22, "alice", "", None)
    assert [key.name for key in found.keys] == ["id_ed25519", "id_ecdsa", "id_rsa"]
    assert (found.keys_only, found.proxy_command, found.connect_seconds) == (False, "", CONNECT_SECONDS)
    assert found.command == "ssh alice@login2"


def test_included_files_stand_in_the_place_of_the_line(home: Path) -> None:
    (home / ".ssh" / "more").mkdir()
    (home / ".ssh" / "more" / "a.conf").write_text("Host far\n  User ann\nInclude config\n")
    assert resolved(home, Login("far")).user == "ann"


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
    ("line", "words"),
    [
        ("Port many", "has the port 'many' for a"),
        ("ProxyJump x:y:z", "leads over 'x:y:z', which names no host"),
        ("Include ~nobody-of-this-name/x", "cannot be understood"),
        ("nonsense", "cannot be understood"),
        ('Include "', "cannot be understood"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_told(home: Path, line: str, words: str) -> None:
    (home / ".ssh" / "config").write_text(f"{line}\n")
    with pytest.raises(SchedulerError, match=words) as told:
        resolved(home, Login("a"))
    assert told.value.hint
