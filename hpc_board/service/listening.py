"""The changes of a served board at its client: one long answer, asked for again after a lost service."""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from hpc_board.domain.change import Change
from hpc_board.errors import BoardError
from hpc_board.service import routes

if TYPE_CHECKING:
    from hpc_board.service.client import Connection

_LOOK_SECONDS = 0.25
"""The interval at which a listener looks if it is still wanted."""

_PAUSES_SECONDS = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0)
"""The pauses before the tries to reach a lost service again; the last one repeats."""


def listen(connection: "Connection", wanted: Callable[[], bool]) -> Iterator[Change | BoardError]:
    """Yield the changes of the board while `wanted`, and the error of each loss of the service, once.

    The first change after a loss stands for all that came meanwhile.
    """
    tries = 0
    while wanted():
        try:
            for change in _changes(connection, wanted):
                tries = 0
                yield change
        except BoardError as error:
            if not tries:
                yield error
            _rest(_PAUSES_SECONDS[min(tries, len(_PAUSES_SECONDS) - 1)], wanted)
            tries += 1


def _changes(connection: "Connection", wanted: Callable[[], bool]) -> Iterator[Change]:
    with connection.stream(routes.CHANGES, {}, Change) as following:
        while wanted():
            try:
                yield following(_LOOK_SECONDS)
            except TimeoutError:
                continue


def _rest(seconds: float, wanted: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while wanted() and (left := end - time.monotonic()) > 0:
        time.sleep(min(_LOOK_SECONDS, left))
