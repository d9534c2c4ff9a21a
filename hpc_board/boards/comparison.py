"""Comparison of the files of two runs: their comparable runs and the differences of their times."""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from msgspec.structs import replace

from hpc_board.domain.comparison import Compared, Difference, MeasuredScore, compared, measured_score, score_difference
from hpc_board.domain.feed import FeedEntry
from hpc_board.domain.run import Run
from hpc_board.domain.standing import Placing, Standing
from hpc_board.domain.time_change import COMPARED_MAX
from hpc_board.errors import InputError, NoTimes
from hpc_board.model.result import Result
from hpc_board.model.task import Mode, Ranking, Task
from hpc_board.store import Store
from hpc_board.store.listing import RunQuery

_HINT = "Modes benchmark, ranked and profile measure; `hpc-board runs --all --task TASK` lists what has run."

_SCORES_KEPT = 20_000
_RANKINGS_KEPT = 200


def compare(store: Store, one: Run, other: Run, gpus: Sequence[str] = ()) -> list[Compared]:
    """Compare the files of two runs of one version of a task on `gpus`, or on those of `Submissions.compare`.

    Raises:
        InputError: they are of one submission, or their tasks or versions differ.
        NoTimes: one of the files has no times there.
    """
    if one.submission == other.submission:
        raise InputError(
            f"runs {one.id} and {other.id} are of one submission, which has one file",
            hint="Choose a run of another submission.",
        )
    if (one.task, one.task_version) != (other.task, other.task_version):
        kinds = "tasks" if one.task != other.task else f"versions of {one.task}"
        raise InputError(
            f"runs {one.id} and {other.id} are for different {kinds}, so their times cannot be compared",
            hint=f"`hpc-board runs --all --task {one.task}` lists what has run for the task of the first.",
        )
    first, second = (_timed_runs(store, each) for each in (one, other))
    common = [gpu for gpu in first if gpu in second]
    gpus = gpus or ([one.gpu] if one.gpu == other.gpu else common)
    if not gpus or not set(gpus) <= set(common):
        raise NoTimes(_missing(store, (one, other), (first, second), gpus), hint=_HINT)
    ranking_by = store.submissions.task(one.task, one.task_version).ranking_by
    found = []
    for gpu in gpus:
        (run, result), (other_run, other_result) = first[gpu], second[gpu]
        difference = compared(result.cases, other_result.cases, ranking_by)
        found.append(Compared((run, other_run), (result, other_result), difference))
    return found


class ChangeSpreads:
    """The spreads of changes between ended runs of one version of a task; the scores of runs are kept."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # The many readers of a feed ask for the same runs again and again, from several threads.
        self._score = lru_cache(_SCORES_KEPT)(self._score_of)
        self._ranking_by = lru_cache(_RANKINGS_KEPT)(self._ranking_of)

    def between(self, task: str, version: str, before: int | None, after: int) -> float | None:
        """Return the factor within which the change between two runs' scores may be noise; None if it is unknown."""
        difference = None if before is None else self._difference(task, version, before, after)
        return None if difference is None else difference.spread

    def _difference(self, task: str, version: str, before: int, after: int) -> Difference | None:
        ranking_by = self._ranking_by(task, version)
        return score_difference(self._score(before, ranking_by), self._score(after, ranking_by))

    def of_feed(self, entries: Sequence[FeedEntry]) -> tuple[FeedEntry, ...]:
        """Return entries of a feed, the newest first, with the spreads of the first COMPARED_MAX changes."""
        spreads = [
            self.between(each.task, each.task_version, each.former_run, each.run) for each in entries[:COMPARED_MAX]
        ]
        compared_ones = (replace(each, change_spread=spread) for each, spread in zip(entries, spreads, strict=False))
        return (*compared_ones, *entries[COMPARED_MAX:])

    def of_placing(self, run: Run, placing: Placing | None, store: Store) -> Placing | None:
        """Return the placing of a run with the spread of its change, which is unknown before the run has ended.

        That of a benchmark, or of a run that will have a time, is relative to its user's best earlier run. That of an
        entrant is relative to the entrant's own, where there is one. The run, the placing and `store` are those of one
        reader, who may not see the names of all users.
        """
        earlier = None
        by_other = placing is not None and placing.rank is None and _best_by_other(store, run, placing)
        will_have_time = run.mode is Mode.RANKED and not run.state.ended
        if by_other or (placing is None and (run.mode is Mode.BENCHMARK or will_have_time)):
            earlier = store.runs.best_of_user(run)
        if earlier is not None and earlier.score_s is not None:
            placing = Placing(None, 0, earlier.score_s, earlier.id, first=False, best_by=run.origin.entrant)
        elif placing is not None and by_other:
            placing = replace(placing, best_by=by_other)
        if placing is None or not run.state.ended:
            return placing
        before = placing.former_run if placing.rank is not None else placing.best_run
        found = None if before is None else self._difference(run.task, run.task_version, before, run.id)
        few_samples = found is not None and found.spread is None
        return replace(placing, change_spread=found and found.spread, few_samples=few_samples)

    def of_newest(self, task: Task, rows: Sequence[Standing]) -> list[Standing]:
        """Return a user's runs with the spread of the change of each from the fastest earlier one.

        It is unknown for runs before the newest COMPARED_MAX.
        """
        in_order = sorted(rows, key=lambda row: (row.submitted_at, row.run))
        first = len(in_order) - COMPARED_MAX
        spreads: dict[int, float | None] = {}
        fastest: Standing | None = None
        for index, row in enumerate(in_order):
            before = fastest.run if fastest is not None and index >= first else None
            spreads[row.run] = self.between(task.name, task.version, before, row.run)
            fastest = row if fastest is None or row.score_s < fastest.score_s else fastest
        return [replace(row, change_spread=spreads[row.run]) for row in rows]

    def _ranking_of(self, task: str, version: str) -> Ranking:
        return self._store.submissions.task(task, version).ranking_by

    def _score_of(self, run: int, ranking_by: Ranking) -> MeasuredScore | None:
        result = self._store.runs.result(run)
        return None if result is None else measured_score(result.cases, ranking_by)


def _best_by_other(store: Store, run: Run, placing: Placing) -> str:
    """Return the entrant or the user of the best run, if the run is another entrant's; empty for a team."""
    best = store.runs.get(placing.best_run)
    return "" if placing.team or best.origin.entrant == run.origin.entrant else best.origin.entrant or best.user


def _timed_runs(store: Store, of: Run) -> dict[str, tuple[Run, Result]]:
    """Return the newest run with times, or with the kernels of a profile, of a run's submission on each GPU."""
    timed: dict[str, tuple[Run, Result]] = {}
    for run in reversed(store.runs.list(RunQuery(submission=of.submission))):
        result = store.runs.result(run.id) if run.verdict is not None else None
        timed_cases = [case for case in result.cases if case.phase == "benchmark" and case.timing] if result else []
        if result is not None and (timed_cases or result.kernels):
            timed[run.gpu] = run, result
    return timed


def _missing(
    store: Store, compared_runs: Sequence[Run], timed: Sequence[Mapping[str, object]], gpus: Collection[str]
) -> str:
    parts = []
    for each, of in zip(compared_runs, timed, strict=True):
        runs = [run for run in store.runs.list(RunQuery(submission=each.submission)) if run.gpu not in of]
        ends = ", ".join(f"run {run.id} on {run.gpu}, mode {run.mode}: {run.verdict or run.state}" for run in runs)
        why = f" ({ends})" if ends else ""
        lacking = sorted(set(gpus) - set(of))
        if lacking:
            parts.append(f"the file of run {each.id} has no times on {', '.join(lacking)}{why}")
        elif not gpus:
            times = f"times on {', '.join(of)}" if of else "no times"
            parts.append(f"the file of run {each.id} has {times}{why}")
    return "the times cannot be compared: " + "; ".join(parts)
