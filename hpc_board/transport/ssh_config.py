"""Destination and login options of a host: OpenSSH's own answer to `ssh -G`, with the settings as its options."""

import os
import pwd
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from hpc_board.accounts import home as home_of
from hpc_board.accounts import login_name
from hpc_board.errors import SchedulerError
from hpc_board.model.gpu import Login
from hpc_board.model.text import one_line

CONNECT_SECONDS = 15.0
"""The time-out of one step of the login, unless ConnectTimeout sets another one."""

_ANSWER_SECONDS = 60.0
_JUMP = re.compile(r"(?:(.+)@)?(?:\[(.+)\]|([^:]+))(?::([0-9]+))?")
_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")


class Destination(msgspec.Struct, frozen=True):
    """A host to log in to, with all that is known about the way.

    `given` is the host as the settings name it; `names` are its names in known_hosts files, of which the first that is
    known counts. `keys_only` says that no other keys than `keys` are offered, not even of an agent; `agent` is the
    socket of the agent, and `master` that of a master that may run, "" for none. `proxy` is the command whose input and
    output lead to the host, empty without one.
    """

    given: str
    host: str
    port: int
    user: str
    names: tuple[str, ...]
    keys: tuple[Path, ...]
    certificates: tuple[Path, ...]
    keys_only: bool
    agent: str
    known_hosts: tuple[Path, ...]
    proxy: tuple[str, ...]
    master: str
    connect_seconds: float

    @property
    def name(self) -> str:
        """Return the destination for a reader."""
        return one_line(f"{self.user}@{self.given}", 120)

    @property
    def command(self) -> str:
        """Return the command of OpenSSH that logs in to the same account."""
        port = [] if self.port == 22 else ["-p", str(self.port)]
        return one_line(shlex.join(["ssh", *port, f"{self.user}@{self.given}"]), 200)


def destination(login: Login, environ: Mapping[str, str] = os.environ) -> Destination:
    """Return the destination of `login`, with the options that `ssh` has if it gets those of the settings.

    Without the program `ssh` no SSH configuration is read.

    Raises:
        SchedulerError: the SSH configuration has errors, or a jump host is named and there is no `ssh`.
    """
    command = _command(login)
    options = _options(command) if shutil.which("ssh") else _options_without_ssh(login, environ)

    def option(name: str) -> str:
        value = options.get(name, [""])[0]
        return "" if value == "none" else value

    host, port, user = option("hostname"), int(option("port")), option("user")
    alias, own_name = option("hostkeyalias"), f"[{host}]:{port}"
    # Like OpenSSH: a key that is known for the usual port is known for another one that has no key of its own.
    names = [alias] if alias else [host] if port == 22 else [own_name, host]
    return Destination(
        given=login.host,
        host=host,
        port=port,
        user=user,
        names=tuple(name.lower() for name in names),
        keys=(Path(login.key),) if login.key else _paths(options.get("identityfile", []), command),
        certificates=_paths(options.get("certificatefile", []), command),
        keys_only=bool(login.key) or option("identitiesonly") == "yes",
        agent=_agent(options.get("identityagent", ["SSH_AUTH_SOCK"])[0], environ, command),
        known_hosts=_paths(
            re.split(r" (?=[/~])", f"{option('userknownhostsfile')} {option('globalknownhostsfile')}"), command
        ),
        proxy=_proxy(option("proxyjump"), option("proxycommand"), login, host, port, user),
        master=option("controlpath"),
        connect_seconds=min(float(option("connecttimeout") or CONNECT_SECONDS), 300.0),
    )


def asked(argv: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run a program of OpenSSH for its answer.

    Raises:
        SchedulerError: it cannot be started, or does not answer.
    """
    try:
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise SchedulerError(
            f"`{one_line(shlex.join(argv), 200)}` does not answer: {one_line(str(error), 200)}",
            hint="A program in `Match exec` of ~/.ssh/config, or this machine's name service, may be hanging.",
        ) from error


def _command(login: Login) -> list[str]:
    """Return the `ssh` command that prints the options for `login`, but for the host."""
    command = ["ssh", "-T", "-G"]
    if login.user:
        command += ["-l", login.user]
    if login.port:
        command += ["-p", str(login.port)]
    if login.proxy_command:
        command += ["-o", f"ProxyCommand={login.proxy_command}"]
    elif login.proxy_jump:
        command += ["-o", f"ProxyJump={login.proxy_jump}"]
    return [*command, "--", login.host]


def _options(command: Sequence[str]) -> dict[str, list[str]]:
    """Return OpenSSH's options for a host, by their names in small letters."""
    done = asked(command)
    if done.returncode != 0:
        raise SchedulerError(
            f"`ssh` rejects the host or the SSH configuration: {one_line(done.stderr, 300)}",
            hint=f"Correct ~/.ssh/config or `ssh` in the settings until `{one_line(shlex.join(command), 200)}` works.",
        )
    options: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        name, _, value = line.partition(" ")
        options.setdefault(name, []).append(value)
    return options


def _options_without_ssh(login: Login, environ: Mapping[str, str]) -> dict[str, list[str]]:
    if login.proxy_jump not in ("", "none"):
        raise SchedulerError(
            f"the jump host {one_line(login.proxy_jump, 100)} needs the program `ssh`, which is not in PATH",
            hint="Install OpenSSH's client on this machine.",
        )
    folder = home_of(environ) / ".ssh"
    return {
        "hostname": [login.host],
        "port": [str(login.port or 22)],
        "user": [login.user or login_name()],
        "identityfile": [str(folder / name) for name in _DEFAULT_KEYS],
        "userknownhostsfile": [str(folder / "known_hosts")],
        "globalknownhostsfile": ["/etc/ssh/ssh_known_hosts"],
        "proxycommand": [login.proxy_command],
    }


def _paths(names: Sequence[str], command: Sequence[str]) -> tuple[Path, ...]:
    """Return the paths that `ssh -G` prints, some of them as they were written: with a tilde, tokens and variables."""
    return tuple(_path(name.strip(), command) for name in names if name.strip() not in ("", "none"))


def _path(name: str, command: Sequence[str]) -> Path:
    if "%" in name or "$" in name:
        quoted = re.sub(r'(["\\])', r"\\\1", name)
        # OpenSSH expands the same tokens in a ControlPath, and prints that expanded.
        name = _options([*command[:-2], "-o", f'ControlPath="{quoted}"', *command[-2:]])["controlpath"][0]
    # Not $HOME, which OpenSSH ignores.
    return Path(re.sub(r"^~(?=/)", lambda _: pwd.getpwuid(os.geteuid()).pw_dir, name)).expanduser()


def _agent(name: str, environ: Mapping[str, str], command: Sequence[str]) -> str:
    if name == "SSH_AUTH_SOCK" or name.startswith("$"):
        return environ.get(name.removeprefix("$"), "")
    return "" if name == "none" else str(_path(name, command))


def _proxy(jump: str, command: str, login: Login, host: str, port: int, user: str) -> tuple[str, ...]:
    """Return the command that leads to the host: OpenSSH itself over jump hosts, or a ProxyCommand, which is for sh."""
    if jump:
        earlier, _, last = jump.rpartition(",")
        found = _JUMP.fullmatch(last)
        if found is None:
            raise AssertionError(f"OpenSSH printed the invalid jump host {last!r}")
        values = {"-J": earlier, "-l": found[1], "-p": found[4], "-W": f"[{host}]:{port}"}
        strict = ("-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes")
        over = (word for option, value in values.items() if value for word in (option, value))
        return ("ssh", *strict, *over, "--", found[2] or found[3])
    if not command:
        return ()
    tokens = {"%%": "%", "%h": host, "%n": login.host, "%p": str(port), "%r": user}
    return ("/bin/sh", "-c", "exec " + re.sub("%[%hnpr]", lambda token: tokens[token[0]], command))
