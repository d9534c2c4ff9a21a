"""Decisions of admins about users, leaderboards and submissions that are in force.

The newest row about a subject is in force; nothing is taken back but by another row.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from hpc_board.domain.budget import Budget, BudgetLeft
from hpc_board.domain.moderation import (
    BAN,
    BOARD,
    EVERYTHING,
    LIMIT,
    LINK,
    RERUN,
    START,
    STOP,
    UNBAN,
    UNLINK,
    USER,
    Category,
    Decision,
    GpuDemand,
    GpuLimit,
    GpuUse,
    Limits,
    Link,
    Period,
    Sender,
    ban_refusal,
    gpu_limit_refusal,
    limit_refusal,
    limits_for,
    stop_refusal,
)
from hpc_board.domain.origin import author_text
from hpc_board.errors import Refused
from hpc_board.model.task import Mode
from hpc_board.store import usage
from hpc_board.store.row_values import UndecodableError, decoded, decoded_json, moment, plain_text, time_text
from hpc_board.store.rows import decision_row
from hpc_board.store.sqlite import Database

# A rerun is an admin's doing and a milestone is the board's: neither takes anything from its user's limit.
_SINCE = """
  FROM submissions
 WHERE user = :user AND task = :task AND submitted_at > :since AND (mode = 'ranked') = :ranked AND milestone = ''
   AND (:entrant IS NULL OR entrant = :entrant)
   AND NOT EXISTS (SELECT 1 FROM remarks WHERE remarks.submission = submissions.id AND remarks.action = :rerun)
"""

_RUNS_SINCE = """
SELECT COUNT(*)
  FROM submissions
 CROSS JOIN runs ON runs.submission = submissions.id
 WHERE submissions.user = :user AND submitted_at > :since AND milestone = ''
   AND (:entrant IS NULL OR entrant = :entrant)
   AND NOT EXISTS (SELECT 1 FROM remarks WHERE remarks.submission = submissions.id AND remarks.action = :rerun)
"""

_OF_LINKS = """
kind = ? AND action IN (?, ?)
AND NOT EXISTS (SELECT 1 FROM boards
                 WHERE boards.name = decisions.subject AND boards.action = 'delete' AND boards.at >= decisions.at)
"""


def in_force(db: Database, kind: str, subject: str, *actions: str) -> Decision | None:
    """Return the newest decision about `subject` that is one of `actions`."""
    marks = ", ".join("?" for _ in actions)
    where = f"kind = ? AND subject = ? AND action IN ({marks})"
    row = db.row("decisions", where, [kind, plain_text(subject), *actions], order="id DESC")
    return None if row is None else decoded(Decision, row)


def decide(db: Database, decision: Decision) -> None:
    """Append a decision."""
    db.insert("decisions", decision_row(decision))


def stopped(db: Database) -> Decision | None:
    """Return the decision to take no submissions, if it is in force."""
    return switched_on(in_force(db, EVERYTHING, "", STOP, START), STOP)


def switched_on(newest: Decision | None, on: str) -> Decision | None:
    """Return the newest decision about a subject if it is the action `on`, and not the one that ends it."""
    return newest if newest is not None and newest.action == on else None


def is_over(ban: Decision, now: datetime) -> bool:
    """Return whether a ban has ended by the time `now`."""
    return ban.ends_at is not None and ban.ends_at <= now


def limits(db: Database, task: str | None = None) -> list[tuple[Decision, Limits]]:
    """Return the limits of a board, or of all boards by name, each with the decision that set them."""
    where, given = "kind = ? AND action = ?", [BOARD, LIMIT]
    if task is not None:
        where, given = f"{where} AND subject = ?", [*given, plain_text(task)]
    found = {}
    for row in db.rows("decisions", where, given, order="id"):
        decision = decoded(Decision, row)
        each = decoded_json(Limits, decision.detail)
        found[decision.subject, each.subject] = decision, each
    in_force = [pair for pair in found.values() if not pair[1].is_empty]
    return sorted(in_force, key=_place)


def _place(pair: tuple[Decision, Limits]) -> tuple[str, str, str, int]:
    decision, each = pair
    return decision.subject, each.user, each.role or "", list(Period).index(each.per)


def links(db: Database) -> list[Link]:
    """Return the newest link of each name to each board, by board and name; not those that were revoked.

    A deleted board has taken its links along.
    """
    found: dict[tuple[str, str], Link] = {}
    for row in db.rows("decisions", _OF_LINKS, [BOARD, LINK, UNLINK], order="id"):
        decision = decoded(Decision, row)
        if decision.action == UNLINK:
            found.pop((decision.subject, decision.detail), None)
            continue
        try:
            link = Link.of(decision)
        except ValueError as error:
            raise UndecodableError(f"link: {error}") from error
        found[link.board, link.name] = link
    return [found[key] for key in sorted(found)]


def gpu_limit(db: Database) -> tuple[Decision, GpuLimit] | None:
    """Return the limit of the board on GPU time with the decision that set it; None if it has none."""
    decision = in_force(db, EVERYTHING, "", LIMIT)
    if decision is None:
        return None
    limit = decoded_json(GpuLimit, decision.detail)
    return None if limit.gpu_seconds is None else (decision, limit)


def check_open(db: Database, user: str, now: datetime, *, admin: bool) -> Decision | None:
    """Check `user` as `ModerationGateway.check_open` does."""
    stop = stopped(db)
    if stop is not None and not admin:
        raise Refused(stop_refusal(stop), hint="Runs in flight continue: `hpc-board runs` shows yours.")
    ban = switched_on(in_force(db, USER, user, BAN, UNBAN), BAN)
    if ban is not None and not is_over(ban, now):
        raise Refused(ban_refusal(ban), hint=f"The ban was set by {ban.by_user}; your runs in flight continue.")
    return stop


def check_limits(
    db: Database, user: str, sender: Sender, task: str, mode: Mode, new: Sequence[str], now: datetime
) -> None:
    """Check that `user` may send more submissions in this mode to the board of `task` at the time `now`.

    `new` has the entrant of each.

    Raises:
        Refused: they, or one of their entrants, have sent too many within a period.
    """
    found = [each for _, each in limits(db, task)]
    _check_limits(db, limits_for(found, user, sender.role), user, None, task, mode, len(new), now)
    for entrant, count in Counter(filter(None, new)).items():
        own = [each for each in found if each.user == author_text(user, entrant)]
        _check_limits(db, own, user, entrant, task, mode, count, now)


def _check_limits(
    db: Database,
    limits: Iterable[Limits],
    user: str,
    entrant: str | None,
    task: str,
    mode: Mode,
    new: int,
    now: datetime,
) -> None:
    category, author = Category.of(mode), author_text(user, entrant) if entrant else ""
    for each in limits:
        limit = each.of(category)
        if limit is None:
            continue
        given = {
            "user": plain_text(user),
            "entrant": entrant,
            "task": task,
            "since": time_text(each.per.start(now)),
            "ranked": int(category is Category.RANKED),
            "rerun": RERUN,
        }
        count = db.value(f"SELECT COUNT(*) {_SINCE}", given)
        enough = {**given, "enough": max(0, limit - new + 1)}
        rows = db.execute(f"SELECT submitted_at {_SINCE} ORDER BY submitted_at DESC LIMIT :enough", enough)
        newest = [moment(at) for (at,) in rows.fetchall()]
        refusal = limit_refusal(task, category, limit, each.per, newest, count, new, now, author)
        if refusal:
            raise Refused(refusal, hint=f"`hpc-board task {task}` shows your limits.")


def check_gpu_time(db: Database, user: str, new: GpuDemand, now: datetime) -> None:
    """Check that `user` may send more runs to GPUs, or hold one, at the time `now`.

    Raises:
        Refused: their GPU time within the board's period leaves no room.
    """
    found = gpu_limit(db) if new.runs or new.held else None
    refusal = "" if found is None else _gpu_refusal(db, user, None, found[1], new, now)
    if refusal:
        if new.held:
            rule = "A held GPU counts with its longest time until it has ended; `--for` shortens it."
        else:
            rule = "A run counts with its time limit until it has ended; `submit --time` lowers it."
        raise Refused(refusal, hint=f"{rule} `hpc-board admin limits` lists the limits.")


def _gpu_refusal(db: Database, user: str, entrant: str | None, limit: GpuLimit, new: GpuDemand, now: datetime) -> str:
    """Return why more runs, or a hold, exceed a limit on GPU time; empty if they do not."""
    since, most = limit.per.start(now), limit.gpu_seconds or 0
    used_s = usage.gpu_seconds(db, user, since, entrant)
    newest = usage.reached_by(db, user, since, most, entrant) if used_s >= most else None
    full_until = None if newest is None else limit.per.free_at(newest)
    return gpu_limit_refusal(limit, GpuUse(used_s, full_until, usage.reserved(db, user, entrant)), new, now)


def check_budget(
    db: Database, budget: Budget, user: str, entrant: str, runs: int, demand: GpuDemand, now: datetime
) -> None:
    """Check that a budget has room for `runs` more, with this demand of GPUs, at the time `now`.

    Raises:
        Refused: it has none.
    """
    whose, author = entrant or None, author_text(user, entrant)
    used = _runs_since(db, budget, user, whose, now)
    if budget.runs is not None and used + runs > budget.runs:
        sent = "1 run" if used == 1 else f"{used:,} runs"
        these = "" if runs == 1 else f"; these are {runs}"
        raise Refused(
            f"budget exhausted: {author} has sent {sent} {budget.per.within}, and the budget "
            f"is {budget.runs:,}{these}.",
            hint="Nothing was sent. `--budget` or $HPC_BOARD_BUDGET set the budget of this command.",
        )
    is_limited = budget.gpu_seconds is not None and demand.runs
    refusal = _gpu_refusal(db, user, whose, budget.gpu_limit, demand, now) if is_limited else ""
    if refusal:
        raise Refused(refusal, hint=f"Nothing was sent. The budget of this command is {budget.text}.")


def budget_left(db: Database, budget: Budget, user: str, entrant: str, now: datetime) -> BudgetLeft:
    """Return the rest of a budget of a user, or of one of its entrants, at the time `now`."""
    whose, left_s = entrant or None, None
    if budget.gpu_seconds is not None:
        used_s = usage.gpu_seconds(db, user, budget.per.start(now), whose)
        left_s = max(0.0, budget.gpu_seconds - used_s - usage.reserved(db, user, whose).gpu_seconds)
    used = _runs_since(db, budget, user, whose, now)
    return BudgetLeft(None if budget.runs is None else max(0, budget.runs - used), left_s)


def _runs_since(db: Database, budget: Budget, user: str, entrant: str | None, now: datetime) -> int:
    since = time_text(budget.per.start(now))
    given = {"user": plain_text(user), "since": since, "entrant": entrant, "rerun": RERUN}
    return int(db.value(_RUNS_SINCE, given))
