"""Destination and login options: the settings' `ssh:` first, then the user's and the system's SSH files."""

import glob
import itertools
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from hpc_board.accounts import home as home_of
from hpc_board.accounts import login_name, private_group
from hpc_board.errors import InputError, SchedulerError
from hpc_board.files import open_followed, read_text, shown_path
from hpc_board.model.gpu import Login
from hpc_board.model.text import one_line
from hpc_board.transport.known_hosts import fits

CONNECT_SECONDS = 15.0
"""The time-out of one step of the login, unless ConnectTimeout sets another one."""

_FILE_BYTES_MAX = 1_000_000
_INCLUDES_MAX = 16
_INCLUDED_FILES_MAX = 1_000
"""The number of files that a configuration may include, counting each as often as it is included."""

_KEYWORD = re.compile(r"\s*(host|match|include)(?:\s*=\s*|\s+)(.*)", re.IGNORECASE)
_JUMP = re.compile(r"(?:ssh://)?(?:([^@\s]+)@)?(\[[^\]\s]+\]|[^:\s]+)(?::([0-9]{1,5}))?/?")
_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")


class _Block(msgspec.Struct, frozen=True):
    """The scope of the lines below a `Host` or a `Match`."""

    keyword: str
    words: tuple[str, ...]

    @property
    def line(self) -> str:
        return f"{self.keyword} {shlex.join(self.words)}"

    def may_count(self, host: str) -> bool:
        """Return False if the block is not for `host`; only the library can evaluate a Match."""
        if self.keyword == "match":
            return True
        excluded = any(fits(word[1:], host) for word in self.words if word.startswith("!"))
        return not excluded and any(fits(word, host) for word in self.words)


_EVERYWHERE = _Block("host", ("*",))


class Destination(msgspec.Struct, frozen=True):
    """A host to log in to, with all that is known about the way.

    `given` is the host as the settings name it; `alias` is the name that known_hosts files have in place of host and
    port, "" without one. `keys_only` says that no other keys than `keys` are offered, not even of an agent; `agent` is
    the socket of the agent, "" for none. At most one of `jump` and `proxy_command` is there.
    """

    given: str
    host: str
    port: int
    user: str
    alias: str
    keys: tuple[Path, ...]
    keys_only: bool
    agent: str
    known_hosts: tuple[Path, ...]
    jump: Login | None
    proxy_command: str
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
    """Return the destination of `login` by the settings and, for missing options, the SSH configuration files.

    Raises:
        SchedulerError: a configuration file cannot be understood.
    """
    home = home_of(environ)
    files = (home / ".ssh" / "config", Path("/etc/ssh/ssh_config"))
    options = _options(login, files)
    proxies = [key for key in options if key in ("proxyjump", "proxycommand")]
    first = proxies[0] if proxies else ""
    proxy = options.get(first) or "none"
    known = [
        *_paths(options.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2"), home),
        *_paths(options.get("globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"), home),
    ]
    named = [login.key] if login.key else options.get("identityfile", [])
    keys = [path for name in named for path in _paths(shlex.quote(name), home)]
    return Destination(
        given=login.host,
        host=options["hostname"],
        port=_port(options.get("port", "22"), login),
        user=options.get("user") or login_name(),
        alias=options.get("hostkeyalias", "").lower(),
        keys=tuple(keys or (home / ".ssh" / name for name in _DEFAULT_KEYS)),
        keys_only=bool(login.key) or options.get("identitiesonly", "").lower() == "yes",
        agent=_agent(options.get("identityagent", "SSH_AUTH_SOCK"), environ, home),
        known_hosts=tuple(known),
        jump=_jump(proxy, login) if first == "proxyjump" else None,
        proxy_command="" if first != "proxycommand" or proxy == "none" else proxy,
        connect_seconds=_seconds(options.get("connecttimeout", "")),
    )


def _options(login: Login, files: tuple[Path, ...]) -> dict[str, Any]:
    """Return the SSH configuration's options for `login`; the settings precede it, as options of a command would."""
    import paramiko

    own = {
        "User": login.user,
        "Port": login.port or "",
        "ProxyJump": login.proxy_jump,
        "ProxyCommand": login.proxy_command,
    }
    config = paramiko.SSHConfig()
    place = "the settings"
    left = itertools.repeat(None, _INCLUDED_FILES_MAX)
    try:
        config.parse([f"{key} {value}" for key, value in own.items() if value])
        for file in files:
            place = str(file)
            open_ = _open_own if file == files[0] else open_followed
            config.parse(_lines(file, file.parent, login.host, left, open_=open_))
        place = " or ".join(map(str, files))
        return dict(config.lookup(login.host))
    except (paramiko.SSHException, ImportError, LookupError, ValueError, RuntimeError, OSError) as error:
        raise SchedulerError(
            f"{place} cannot be understood: {one_line(str(error) or type(error).__name__, 200)}",
            hint="Correct it, or name host, user, port and key under `ssh` in the settings and remove what is unusual.",
        ) from error


def _lines(
    file: Path,
    base: Path,
    host: str,
    left: Iterator[None],
    outer: _Block = _EVERYWHERE,
    depth: int = 0,
    *,
    open_: Callable[[Path], BinaryIO],
) -> Iterator[str]:
    """Return the lines of an SSH configuration file, with included files in the place of their Include.

    A file that is included in a block has the scope of that block, and the blocks that it begins end with it. `left`
    has an element for each further file that may be included: a file that includes itself twice would be read 2^16
    times.

    Raises:
        ValueError: more files are included.
        RuntimeError: `open_` refuses a file.
    """
    try:
        text = read_text(file, _FILE_BYTES_MAX, open_)
    except InputError:
        return
    block: _Block | None = outer
    for line in text.splitlines():
        match = _KEYWORD.fullmatch(line)
        keyword, words = (match[1].lower(), tuple(shlex.split(match[2], comments=True))) if match else ("", ())
        if keyword in ("host", "match"):
            block = _within(outer, _Block(keyword, words), host)
            if block is not None:
                yield block.line
        elif block is None:
            continue
        elif keyword != "include":
            yield line
        elif depth < _INCLUDES_MAX and block.may_count(host):
            for found in _included(words, base):
                if next(left, ...) is not None:
                    raise ValueError(f"Include names more than {_INCLUDED_FILES_MAX} files")
                yield from _lines(found, base, host, left, block, depth + 1, open_=open_)
            yield block.line


def _open_own(file: Path) -> BinaryIO:
    """Open a file of the user's SSH configuration, which may name commands, by OpenSSH's rule for it.

    Raises:
        OSError: it cannot be opened.
        RuntimeError: another account than the user and root may write it.
    """
    opened, user = open_followed(file), os.geteuid()
    status = os.fstat(opened.fileno())
    by_group = status.st_mode & stat.S_IWGRP and status.st_gid != private_group(user)
    if status.st_uid in (0, user) and not status.st_mode & stat.S_IWOTH and not by_group:
        return opened
    opened.close()
    raise RuntimeError(f"other accounts may write {shown_path(file)} (try: chmod go-w)")


def _within(outer: _Block, inner: _Block, host: str) -> _Block | None:
    """Return the block for the scope of both, `outer` being one that may apply; None if they exclude each other."""
    if outer.keyword == "host" or outer.words == ("all",):
        return inner
    if inner.keyword == "host":
        return outer if inner.may_count(host) else None
    return outer if inner.words == ("all",) else _Block("match", outer.words + inner.words)


def _included(patterns: Sequence[str], base: Path) -> Iterator[Path]:
    for pattern in patterns:
        path = Path(pattern).expanduser()
        path = path if path.is_absolute() else base / path
        # As OpenSSH does, it takes ** for * and a path that is too long for one that leads to no file.
        yield from map(Path, sorted(glob.glob(str(path))))


def _paths(text: str, home: Path) -> list[Path]:
    try:
        words = shlex.split(text)
    except ValueError:
        words = [text]
    return [
        home / word.removeprefix("~/") if word.startswith("~/") else Path(word)
        for word in words
        if word.lower() != "none"
    ]


def _port(text: str, login: Login) -> int:
    if re.fullmatch(r"[0-9]{1,5}", text) and 0 < int(text) < 65_536:
        return int(text)
    raise SchedulerError(
        f"the SSH configuration has the port {one_line(text, 40)!r} for {one_line(login.host, 100)}",
        hint="Correct `Port` in ~/.ssh/config, or give `port` under `ssh` in the settings.",
    )


def _seconds(text: str) -> float:
    return min(float(text), 300.0) if re.fullmatch(r"[0-9]{1,4}", text) and int(text) else CONNECT_SECONDS


def _agent(text: str, environ: Mapping[str, str], home: Path) -> str:
    if text.lower() == "none":
        return ""
    variable = "SSH_AUTH_SOCK" if text == "SSH_AUTH_SOCK" else text.removeprefix("$") if text.startswith("$") else ""
    if variable:
        return environ.get(variable.strip("{}"), "")
    return str(home / text.removeprefix("~/")) if text.startswith("~/") else text


def _jump(text: str, login: Login) -> Login | None:
    """Return the last host of a ProxyJump, which is reached over those before it; None for "none"."""
    if text.lower() == "none":
        return None
    *earlier, last = text.split(",")
    match = _JUMP.fullmatch(last.strip())
    if match is None:
        raise SchedulerError(
            f"the way to {one_line(login.host, 100)} leads over {one_line(last, 100)!r}, which names no host",
            hint="A jump host is written [user@]host[:port]; correct `proxy_jump` or ProxyJump.",
        )
    user, host, port = match.groups()
    return Login(host.strip("[]"), user or "", int(port) if port else None, proxy_jump=",".join(earlier))
