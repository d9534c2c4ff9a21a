"""The steps that are left after the set-up of a service: commands ready to paste."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hpc_board.accounts import user_name

PARTICIPANTS = "participants.yaml"
"""The name of the settings file for participants, in the service's folder."""

SYSTEM_UNIT = "systemd/system/hpc-board.service"
USER_UNIT = "systemd/user/hpc-board.service"


class Step(msgspec.Struct, frozen=True):
    """A step that is left to do, as lines to paste."""

    what: str
    lines: tuple[str, ...]


def access(socket: Path) -> Iterator[Step]:
    """Yield the step that lets other accounts reach the socket, if a folder above it is closed to them."""
    closed = [str(each) for each in reversed(socket.parents) if not each.stat().st_mode & 0o001]
    if closed:
        yield Step(
            "Let other accounts pass to the socket, or give another place with --socket:",
            tuple(shlex.join(["chmod", "o+x", each]) for each in closed),
        )


def root_steps(folder: Path, client: str) -> Iterator[Step]:
    """Yield the steps of root, who has set up the service for this account; `client` is a command of the service."""
    account = user_name(os.geteuid())
    home = Path(os.environ.get("HOME", "/"))
    own = "" if os.geteuid() == 0 else f"runuser -u {shlex.quote(account)} -- env {shlex.quote(f'HOME={home}')} "
    yield Step("Read the comments in the settings, then test the GPUs by short jobs:", (f"{own}{client} admin check",))
    yield from _under_system(folder)
    yield Step("Examine the service:", (f"{own}{client} admin doctor",))
    yield _for_all(folder)


def own_steps(board: Path, folder: Path, client: str, serve: str) -> Iterator[Step]:
    """Yield the steps of the service's account; `client` is a command of its own, and `serve` the service's."""
    yield Step("Read the comments in the settings, then test the GPUs by short jobs:", (f"{client} admin check",))
    yield Step(
        "Start the service under systemd, by this account:",
        (
            shlex.join(["install", "-D", "-m", "644", str(folder / USER_UNIT)])
            + " ~/.config/systemd/user/hpc-board.service",
            "systemctl --user daemon-reload",
            "systemctl --user enable --now hpc-board",
            "loginctl enable-linger",
        ),
    )
    yield from _under_system(folder, "Or have root start it under systemd:")
    yield Step("Or start it in tmux:", (shlex.join(["tmux", "new-session", "-d", "-s", "hpc-board", serve]),))
    log = shlex.quote(f"--output={board / 'serve.log'}")
    yield Step(
        "Or, where participants log in to the node, add these lines with `scrontab -e`:",
        (f"#SCRON --job-name=hpc-board --open-mode=append {log}", f"*/5 * * * * {serve}"),
    )
    yield Step("Examine the service:", (f"{client} admin doctor",))
    participants = shlex.quote(str(folder / PARTICIPANTS))
    yield Step("Tell each participant:", (f"install -D -m 644 {participants} ~/.config/hpc-board/config.yaml",))
    yield _for_all(folder, "Or have root tell all accounts of this machine:")


def closing(former: Path) -> Iterator[Step]:
    """Yield the step that keeps clients of an older version from the folder of a board that has moved."""
    if former.is_dir():
        yield Step("As the owner of the former board, close it:", (shlex.join(["chmod", "700", str(former)]),))


def _under_system(folder: Path, what: str = "Start the service under systemd:") -> Iterator[Step]:
    yield Step(
        what,
        (
            shlex.join(["install", "-m", "644", str(folder / SYSTEM_UNIT), "/etc/systemd/system/hpc-board.service"]),
            "systemctl daemon-reload",
            "systemctl enable --now hpc-board",
        ),
    )


def _for_all(folder: Path, what: str = "Tell all accounts of this machine:") -> Step:
    target = "/etc/hpc-board/config.yaml"
    return Step(what, (shlex.join(["install", "-D", "-m", "644", str(folder / PARTICIPANTS), target]),))
