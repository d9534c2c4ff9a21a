"""The changes of a served board at its client: one long answer, asked for again after a lost service."""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from hpc_board.domain.change import Change
from hpc_board.domain.pause import Pause
from hpc_board.errors import BoardError
from hpc_board.service import routes

if TYPE_CHECKING:
    from hpc_board.service.client import Connection

_LOOK_SECONDS = 0.25
"""The interval at which a listener looks if it is still wanted."""

_PAUSE_SECONDS = 1.0
"""The pause before the first try to reach a lost service again; each further one is longer."""

_PAUSE_SECONDS_MAX = 30.0


def listen(connection: "Connection", wanted: Callable[[], bool]) -> Iterator[Change | BoardError]:
    """Yield the changes of the board while `wanted`, and the error of each loss of the service, once.

    The first change after a loss stands for all that came meanwhile.
    """
    pause = Pause()
    while wanted():
        try:
            for change in _changes(connection, wanted):
                pause = Pause()
                yield change
        except BoardError as error:
            if not pause.seconds:
                yield error
            pause = pause.longer(time.monotonic(), _PAUSE_SECONDS, _PAUSE_SECONDS_MAX)
            _rest(pause.seconds, wanted)


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
