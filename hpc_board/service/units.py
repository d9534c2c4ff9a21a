"""The systemd units of a service, one for an account's own manager and one for the system's, and messages to these."""

import os
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

WATCHDOG_SECONDS = 600
"""Above the length of a pass over the runs of a cluster, which takes up to 420 s where files and scheduler hang.

The service reports after each.
"""

_STOP_SECONDS = 90
"""Above the time in which the service ends its last answers."""

_PATH = "/usr/local/bin:/usr/bin:/bin"

_UNIT = ("[Unit]", "Description=hpc-board")


def environment() -> dict[str, str]:
    """Return the variables of a unit, by which the service finds a scheduler's commands as they were found here."""
    found = shutil.which("sbatch")
    there = Path(found).parent if found else None
    path = _PATH if there is None or str(there) in _PATH.split(":") else f"{there}:{_PATH}"
    return {"PATH": path, **{name: os.environ[name] for name in ("SLURM_CONF",) if name in os.environ}}


def user_unit(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return a unit for the manager of the service's account, which starts `command` with `environ`."""
    return _unit_text(*_UNIT, *_service(command, environ), "", "[Install]", "WantedBy=default.target")


def system_unit(board: Path, command: Sequence[str], environ: Mapping[str, str], account: str) -> str:
    """Return a unit for the system's manager, which starts `command` with `environ` under `account`.

    Its hardening permits the commands of schedulers, and jobs of the scheduler `local`, which belong to the unit:
    they need devices, namespaces and an own /proc, and the board may lie in a home folder.
    """
    return _unit_text(
        *_UNIT,
        "After=network-online.target remote-fs.target munge.service",
        "Wants=network-online.target",
        f"RequiresMountsFor={_quoted(str(board))}",
        *_service(command, environ),
        f"User={account}",
        "ProtectSystem=full",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    )


def notify(state: str) -> None:
    """Send `state`, such as READY=1, to the manager by sd_notify(3); without a manager, nothing happens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return
    # A name that begins with @ is in the abstract namespace, whose first byte is null.
    place = f"\0{address[1:]}" if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
        manager.sendto(state.encode(), place)


def _quoted(word: str, *, variables: bool = False) -> str:
    """Return `word` as one word of a unit's line; in a command line, systemd also expands `variables`."""
    word = word.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{word.replace("$", "$$") if variables else word}"'


def _service(command: Sequence[str], environ: Mapping[str, str]) -> Iterator[str]:
    program, *words = command
    yield from ("", "[Service]", "Type=notify")
    yield f"ExecStart={' '.join([_quoted(program), *(_quoted(word, variables=True) for word in words)])}"
    yield "ExecReload=/bin/kill -HUP $MAINPID"
    for name, value in environ.items():
        yield f"Environment={_quoted(f'{name}={value}')}"
    yield f"WatchdogSec={WATCHDOG_SECONDS}"
    yield f"TimeoutStopSec={_STOP_SECONDS}"
    yield from ("Restart=on-failure", "RestartSec=10")
    yield from ("# Jobs of the scheduler `local` survive a restart of the service.", "KillMode=process")
    yield "UMask=0077"
    yield from ("# Remove this line if `jobs.account` is set: the service sends jobs by sudo.", "NoNewPrivileges=yes")


def _unit_text(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)
