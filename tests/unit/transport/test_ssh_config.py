"""The host of a login: the settings first, then the SSH configuration."""

import shutil
import subprocess
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
    "name", ["x" * 4000, "/" + "y/" * 2000, "a\x07b", "**/[", "nothing/**/*", "/"], ids=lambda name: repr(name[:12])
)
def test_an_include_that_leads_to_no_file_includes_nothing(home: Path, name: str) -> None:
    (home / ".ssh" / "config").write_text(f"Include {name}\nHost far\n  User ann\n")
    assert resolved(home, Login("far")).user == "ann"


def test_a_file_that_includes_itself_often_is_told(home: Path) -> None:
    (home / ".ssh" / "config").write_text("Include config\n" * 4 + "User ann\n")
    with pytest.raises(SchedulerError, match="Include names more than 1000 files"):
        resolved(home, Login("far"))


INCLUDED = """\
  User at-the-top
Host far
  Port 2201
Host other
  Port 2202
Match user bob
  HostKeyAlias for-bob
Match all
  IdentityFile /keys/all
"""


@pytest.mark.parametrize("host", ["far", "other", "third"])
@pytest.mark.parametrize("user", ["", "bob"])
@pytest.mark.parametrize(
    "config",
    [
        "Include INCLUDED\nPort 77\nIdentityFile /keys/outer\n",
        "Host far\n  Include INCLUDED\n  IdentityFile /keys/far\nHost *\n  Port 99\n",
        "Host far\nInclude INCLUDED\nIdentityFile /keys/far\n",
        "Host none\n  Include INCLUDED\n  IdentityFile /keys/none\nHost *\n  HostKeyAlias everywhere\n",
        "Host f?r !far\n  Include INCLUDED\nHost=other third # both\n  Include INCLUDED\n  Port 88\n",
        "Match user bob\n  Include INCLUDED\n  IdentityFile /keys/bob\nHost *\n  Port 99\n",
        "Match originalhost far,third\n  Include INCLUDED\n  Port 66\nMatch all\n  Include INCLUDED\n  Port 55\n",
        "Include OUTER\nPort 44\nHost third\n  Include OUTER\n  HostKeyAlias third\n",
        "Host FAR\n  Port 33\n",
    ],
)
def test_what_is_included_counts_as_for_openssh(home: Path, config: str, host: str, user: str) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("OpenSSH is not installed: no ssh")
    places = {name: home / name.lower() for name in ("INCLUDED", "OUTER")}
    places["INCLUDED"].write_text(INCLUDED)
    places["OUTER"].write_text(f"Host far third\n  Include {places['INCLUDED']}\nHost other\n  User anna\n")
    for name, path in places.items():
        config = config.replace(name, str(path))
    path = home / ".ssh" / "config"
    path.write_text(config)
    found = resolved(home, Login(host, user))
    shown = subprocess.run(
        ["ssh", "-G", "-F", str(path), *(["-l", user] if user else []), host],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    told = [line.split(maxsplit=1) for line in shown.splitlines()]
    values = {key: [value for other, value in told if other == key] for key, _ in told}
    keys = [key for key in values.get("identityfile", []) if key.startswith("/keys/")]
    ours = [str(path) for path in found.keys if str(path).startswith("/keys/")]
    assert (ours, [found.user], [str(found.port)]) == (keys, values["user"], values["port"])
    assert found.alias == values.get("hostkeyalias", [""])[0]


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
