"""The fair queue of a served board: a limit of runs in flight for each user, and turns between users."""

from collections.abc import Sequence
from itertools import zip_longest

import msgspec

from hpc_board.domain.run import Run, RunState
from hpc_board.runs.statuses import together

_COUNTED_MAX = 10
"""The number of runs ahead up to which the reason of a waiting run is kept exact; each change of it is a row."""


class FairQueue(msgspec.Struct, frozen=True):
    """A queue that lets schedulers have at most `runs_per_user` runs of each user at one time.

    The runs of a job array go together, once there is room for all of them; an array above the limit, once its user
    has no other run in flight.
    """

    runs_per_user: int

    def admitted(self, candidates: Sequence[Run], in_flight: Sequence[Run]) -> tuple[list[Run], dict[int, str]]:
        """Return those of `candidates` to send now, users by turns, and the reason for each that waits, by its number.

        `in_flight` are all runs that have not ended, oldest first. A candidate that was sent before is not held up.
        """
        sent = [run for run in candidates if run.state is not RunState.CREATED]
        wanted = {run.id for run in candidates if run.state is RunState.CREATED}
        users: dict[str, list[Run]] = {}
        for run in in_flight:
            users.setdefault(run.user, []).append(run)
        chosen: list[list[list[Run]]] = []
        reasons: dict[int, str] = {}
        for runs in users.values():
            at_work = sum(run.state is not RunState.CREATED for run in runs)
            of_user: list[list[Run]] = []
            for group in together([run for run in runs if run.state is RunState.CREATED]):
                if at_work and at_work + len(group) > self.runs_per_user:
                    reasons |= {run.id: self._reason(at_work) for run in group if run.id in wanted}
                else:
                    of_user.append([run for run in group if run.id in wanted])
                at_work += len(group)
            chosen.append(of_user)
        by_turns = (group for round_ in zip_longest(*chosen, fillvalue=[]) for group in round_)
        return [*sent, *(run for group in by_turns for run in group)], reasons

    def _reason(self, ahead: int) -> str:
        count = f"{ahead}" if ahead <= _COUNTED_MAX else f"over {_COUNTED_MAX}"
        return f"{count} of yours {'is' if ahead == 1 else 'are'} ahead: {self.runs_per_user} at a time per user"
