"""The steps that are left after the set-up of a service: commands ready to paste."""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hpc_board.accounts import user_name

PARTICIPANTS = "participants.yaml"
"""The name of the settings file for participants, in the service's folder."""

SYSTEM_UNITS = "/etc/systemd/system"
"""The folder of the units that root installs for the system's manager."""

_FOR_ALL = "/etc/hpc-board/config.yaml"
_READ = "Fill in the commented-out keys (#) in the settings. Then test the GPUs with short jobs:"


class Step(msgspec.Struct, frozen=True):
    """A step that is left to do, as lines to paste; one of several ways to the same end if it is an `alternative`."""

    what: str
    lines: tuple[str, ...]
    alternative: bool = False


def numbers(steps: Sequence[Step]) -> list[str]:
    """Return the numbers of steps; alternatives that follow each other share one, with a letter each: "2a", "2b"."""
    found: list[str] = []
    number = letter = 0
    for step in steps:
        follows = step.alternative and letter > 0
        number, letter = (number, letter + 1) if follows else (number + 1, int(step.alternative))
        found.append(f"{number}{chr(ord('a') + letter - 1) if letter else ''}")
    return found


def service_name(board: Path) -> str:
    """Return the name of a board's service for units, tmux and Slurm: that of its folder behind "hpc-board".

    A folder that is called `board` has that of the folder above it. An account may serve several boards.
    """
    name = board.parent.name if board.name == "board" else board.name
    plain = re.sub("[^A-Za-z0-9_-]+", "-", name.removeprefix("hpc-board")).strip("-")[:60]
    return f"hpc-board-{plain}" if plain else "hpc-board"


def service_folder(board: Path) -> Path:
    """Return the folder that a service has beside its board, unless other places are given."""
    return board.with_name(f"{board.name}-service")


def user_unit_file(board: Path) -> str:
    """Return the place of the unit for the account's manager, in the service's folder."""
    return f"systemd/user/{service_name(board)}.service"


class ForRoot(msgspec.Struct, frozen=True):
    """The texts of files that root may install, a unit and the settings of participants, and the service's name.

    Its steps carry the texts themselves. Another account may exchange a file of its own, or put a link in its place, at
    any time before root copies it.
    """

    name: str
    unit: str
    participants: str


def access(socket: Path, *, by_root: bool) -> Iterator[Step]:
    """Yield the step that lets other accounts reach the socket, if a folder above it is closed to them."""
    folders = [*reversed(socket.parents)]
    # The account may put a link in the place of its folder, and of a file in it.
    of_root = [all(above.stat().st_uid == 0 for above in (each, *each.parents)) for each in folders]
    closed = [
        ("" if not by_root or root else _as_account()) + shlex.join(["chmod", "o+x", str(each)])
        for each, root in zip(folders, of_root, strict=True)
        if not each.stat().st_mode & 0o001
    ]
    if closed:
        yield Step("Let other accounts reach the socket, or choose another path with --socket:", tuple(closed))


def root_steps(client: str, texts: ForRoot) -> Iterator[Step]:
    """Yield the steps of root, who has set up the service for this account; `client` is a command of the service."""
    own = _as_account()
    yield Step(_READ, (f"{own}{client} admin check",))
    yield _under_system(texts)
    yield Step("Check the service:", (f"{own}{client} admin doctor",))
    yield _for_all(texts)


def own_steps(board: Path, socket: Path, folder: Path, client: str, serve: str, texts: ForRoot) -> Iterator[Step]:
    """Yield the steps of the service's account; `client` is a command of its own, and `serve` the service's."""
    yield Step(_READ, (f"{client} admin check",))
    name = texts.name
    yield Step(
        "Start the service, in one of these ways. By systemd, without root:",
        (
            shlex.join(["install", "-D", "-m", "644", str(folder / user_unit_file(board))])
            + f" ~/.config/systemd/user/{name}.service",
            "systemctl --user daemon-reload",
            f"systemctl --user enable --now {name}",
            "loginctl enable-linger",
        ),
        alternative=True,
    )
    yield replace(_under_system(texts, "Or by systemd, as root:"), alternative=True)
    file = shlex.quote(str(board / "serve.log"))
    start = shlex.join(["tmux", "new-session", "-d", "-s", name, f"{serve} 2>>{file}"])
    yield Step(
        "Or in tmux; the second line shows the end of its log:",
        (start, f"sleep 2; tail -n 20 {file}"),
        alternative=True,
    )
    log = shlex.quote(f"--output={board / 'serve.log'}")
    yield Step(
        "Or by Slurm, on a node that participants log in to: add these lines with `scrontab -e`:",
        (f"#SCRON --job-name={name} --open-mode=append {log}", f"*/5 * * * * {serve}"),
        alternative=True,
    )
    yield Step("Check the service:", (f"{client} admin doctor",))
    variable = f"export HPC_BOARD_SERVICE={shlex.quote(str(socket))}"
    yield Step(
        "Point participants and your own shell to the service, in one of these ways. Either add this line to each "
        "~/.bashrc:",
        (variable,),
        alternative=True,
    )
    yield replace(_for_all(texts, "Or, as root, write settings for all accounts of this machine:"), alternative=True)
    own = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "hpc-board" / "config.yaml"
    if not own.exists():
        install = ["install", "-D", "-m", "644", str(folder / PARTICIPANTS), str(own)]
        yield Step("Make this account's own commands use the service:", (shlex.join(install),))


def closing(former: Path) -> Iterator[Step]:
    """Yield the step that keeps clients of an older version from the folder of a board that has moved."""
    if former.is_dir():
        owner = user_name(former.stat().st_uid)
        yield Step(f"Close the former board, as its owner {owner}:", (shlex.join(["chmod", "700", str(former)]),))


def _as_account() -> str:
    """Return the words before a command by which root runs it as this account; none if this is root."""
    if os.geteuid() == 0:
        return ""
    home = shlex.quote(f"HOME={os.environ.get('HOME', '/')}")
    # A program of the account could type commands into a terminal that it shares with root.
    return f"runuser --pty -u {shlex.quote(user_name(os.geteuid()))} -- env {home} "


def _under_system(texts: ForRoot, what: str = "Start the service under systemd:") -> Step:
    return Step(
        what,
        (
            *_installed(f"{SYSTEM_UNITS}/{texts.name}.service", texts.unit, "HPC_BOARD_UNIT"),
            "systemctl daemon-reload",
            f"systemctl enable --now {texts.name}",
        ),
    )


def _for_all(texts: ForRoot, what: str = "Point all accounts of this machine to the service:") -> Step:
    return Step(what, tuple(_installed(_FOR_ALL, texts.participants, "HPC_BOARD_SETTINGS")))


def _installed(path: str, text: str, end: str) -> Iterator[str]:
    """Yield the lines of a shell that install `text` as the file `path`; `end` begins the name of its end."""
    while end in text:
        end += "_"
    yield f"install -D -m 644 /dev/stdin {path} <<'{end}'"
    yield from text.splitlines()
    yield end
