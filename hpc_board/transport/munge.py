"""Credentials of munge, the service by which Slurm's machines tell each other the uid of a process.

munge(1) and unmunge(1) are called as programs: they are wherever munge is.
"""

from enum import StrEnum

import msgspec

from hpc_board.errors import SchedulerError
from hpc_board.transport import CommandMissing, CommandTimeout
from hpc_board.transport.this_host import ThisHost

SECONDS = 8.0
"""The time-out of munge and of unmunge."""

TTL_SECONDS = 60
"""The lifetime of a credential, which the clocks of two machines may differ by."""

# Exit statuses of unmunge, from munge_enum(3).
_SOCKET, _EXPIRED, _REWOUND, _REPLAYED, _UNAUTHORIZED = 6, 15, 16, 17, 18
_UNREADABLE = range(8, 15)


class Trouble(StrEnum):
    """The reason why munge gave no answer, or refused a credential."""

    MISSING = "missing"
    DEAD = "dead"
    INVALID = "invalid"
    EXPIRED = "expired"
    REWOUND = "rewound"
    REPLAYED = "replayed"
    UNAUTHORIZED = "unauthorized"


_TROUBLES = {
    _SOCKET: Trouble.DEAD,
    _EXPIRED: Trouble.EXPIRED,
    _REWOUND: Trouble.REWOUND,
    _REPLAYED: Trouble.REPLAYED,
    _UNAUTHORIZED: Trouble.UNAUTHORIZED,
    **dict.fromkeys(_UNREADABLE, Trouble.INVALID),
}


class MungeFailed(Exception):
    """munge gave no answer, or refused a credential."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.value)
        self.trouble = trouble


class Decoded(msgspec.Struct, frozen=True):
    """A valid credential: the uid that encoded it, the only uid that may decode it (None for all), and its payload."""

    uid: int
    reader: int | None
    payload: str


def encode(payload: str, reader: int, socket: str = "") -> str:
    """Return a credential of this process's uid for the uid `reader` alone; `socket` is munged's, "" for its default.

    Raises:
        MungeFailed: munge is not there, or does not answer.
    """
    # The payload is secret. A cipher is munge's default, but not in every build of it.
    options = ["--cipher=aes128", "--mac=sha256", "--zip=none", f"--ttl={TTL_SECONDS}", f"--restrict-uid={reader}"]
    status, output = _run(["munge", *options, *_at(socket)], payload)
    if status != 0:
        raise MungeFailed(_TROUBLES.get(status, Trouble.DEAD))
    return output.strip()


def decode(credential: str, socket: str = "") -> Decoded:
    """Return the contents of a credential, once: munged refuses a second time on the same machine.

    Raises:
        MungeFailed: munge is not there, does not answer, or refuses the credential.
    """
    keys = "--keys=STATUS,UID,UID_RESTRICTION"
    status, output = _run(["unmunge", "--numeric", keys, *_at(socket)], credential)
    # An expired or replayed credential is printed like a valid one.
    if status != 0:
        raise MungeFailed(_TROUBLES.get(status, Trouble.INVALID))
    head, _, payload = output.partition("\n\n")
    values = {name: value.strip() for name, _, value in (line.partition(":") for line in head.splitlines())}
    try:
        if int(values["STATUS"]) != 0:
            raise MungeFailed(Trouble.INVALID)
        restriction = values.get("UID_RESTRICTION")
        return Decoded(int(values["UID"]), None if restriction is None else int(restriction), payload)
    except (KeyError, ValueError) as error:
        raise MungeFailed(Trouble.INVALID) from error


def _at(socket: str) -> list[str]:
    return [f"--socket={socket}"] if socket else []


def _run(argv: list[str], text: str) -> tuple[int, str]:
    try:
        done = ThisHost().run(argv, timeout_seconds=SECONDS, stdin=text)
    except CommandMissing as error:
        raise MungeFailed(Trouble.MISSING) from error
    except (CommandTimeout, SchedulerError) as error:
        raise MungeFailed(Trouble.DEAD) from error
    return done.returncode, done.stdout
