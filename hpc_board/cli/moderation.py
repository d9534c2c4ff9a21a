"""Moderation by admins (limits, bans, removals, reruns), and notes of users."""

from functools import partial
from typing import Any

import click

from hpc_board.cli.exits import DONE, NO_VERDICT
from hpc_board.cli.follow import report_unsent, watch_hint
from hpc_board.cli.options import (
    NUMBER,
    SUBMISSION_NUMBER,
    Number,
    Open,
    command,
    created_names,
    gpus_option,
    limit_option,
    run_numbers,
    submission_numbers,
    task_names,
)
from hpc_board.cli.output import listed_rows, listed_runs, print_blocks, print_done, print_found, print_json, remark
from hpc_board.domain.board_options import moment_words
from hpc_board.domain.moderation import (
    CONFIRMING_RUNS,
    GPU_SECONDS_MAX,
    LIMIT_MAX,
    LINK_DAYS_MAX,
    LINK_PATH,
    Category,
    Limits,
    Period,
)
from hpc_board.domain.roles import Role
from hpc_board.errors import Refused
from hpc_board.model.names import listed
from hpc_board.report.moderation import (
    bans_table,
    board_limits_text,
    decisions_table,
    gpu_limit_text,
    limits_table,
    links_table,
    rerun_table,
)
from hpc_board.report.run_table import runs_table
from hpc_board.report.views import views_of
from hpc_board.report.views.moderation import (
    DecisionView,
    LimitsView,
    LinkView,
    RemovalsView,
    RerunCandidateView,
    RerunsView,
    SwitchView,
)
from hpc_board.report.views.runs import SubmissionNoteView

_NONE = "none"


class _LimitNumber(click.IntRange):
    """A number up to `most`; -1 stands for the word `none`, no limit."""

    def __init__(self, most: int) -> None:
        super().__init__(0, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in (_NONE, -1):
            return -1
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is neither a number from 0 to {self.max} nor `{_NONE}`.", param, ctx)


_limit_number = _LimitNumber(LIMIT_MAX)
_submissions = click.argument(
    "submissions",
    metavar="SUBMISSION...",
    nargs=-1,
    required=True,
    type=SUBMISSION_NUMBER,
    shell_complete=submission_numbers,
)
_REASON = "Reason, shown to the users concerned."
_required_reason = click.option("--reason", metavar="TEXT", required=True, help=_REASON)
_optional_reason = click.option("--reason", metavar="TEXT", default="", help=_REASON)


# Limits


@command(
    "hpc-board admin limit matmul --ranked 5",
    "hpc-board admin limit matmul --ranked 20 --other 100 --per day",
    "hpc-board admin limit matmul --ranked 50 --per all --user bob",
    "hpc-board admin limit matmul --other 60 --user ada/agent-b",
    "hpc-board admin limit matmul --none",
    "hpc-board admin limit --gpu-seconds 3600 --per day",
)
@click.argument("name", metavar="[TASK]", required=False, shell_complete=task_names)
@click.option("--ranked", metavar="N", type=_limit_number, help="Ranked submissions per --per: N, 0 or `none`.")
@click.option("--other", metavar="N", type=_limit_number, help="Submissions in all other modes combined.")
@click.option("--none", "no_limits", is_flag=True, help="Remove both limits, of all periods without --per.")
@click.option("--user", "user", metavar="USER", default="", help="Only for this user, or for an entrant: USER/NAME.")
@click.option("--role", type=click.Choice([str(Role.CREATOR), str(Role.PARTICIPANT)]), help="Only for this role.")
@click.option(
    "--gpu-seconds",
    metavar="N",
    type=_LimitNumber(GPU_SECONDS_MAX),
    help="GPU-seconds on all boards per --per: N, 0 or `none`.",
)
@click.option(
    "--per",
    type=click.Choice([str(each) for each in Period]),
    help="Period of the limits; default: hour, or day for --gpu-seconds.",
)
def limit(
    open_: Open,
    *,
    name: str | None,
    ranked: int | None,
    other: int | None,
    no_limits: bool,
    user: str,
    role: str | None,
    gpu_seconds: int | None,
    per: str | None,
    as_json: bool,
) -> None:
    """Limit each user's submissions to a board, or their GPU time.

    A limit counts the submissions of the last 60 minutes, 24 hours, 7 days, or all to the board; 0 closes the board.
    Limits of several periods apply together. In each period, a limit with --user overrides one with --role, which
    overrides that of all users. A submission to several GPUs counts once; each file of a batch counts. A limit of an
    entrant, ada/agent-b, applies in addition to those of its user. Admins of a served board have no limits, and their
    reruns do not count.

    --gpu-seconds, without TASK, limits the GPU time of each user on all boards.
    A run counts with its time limit until it has ended, then with its own
    seconds for the next hour, day or week, or for ever; so does a held GPU, without the
    seconds of the runs there. A user below the limit and without other runs in
    flight may always send one, or hold one GPU.
    """
    given = ranked is not None or other is not None
    if gpu_seconds is not None:
        if name is not None or given or no_limits or user or role:
            raise click.UsageError("--gpu-seconds is for all boards; expected neither TASK nor another limit.")
        of_gpus = open_().moderation.limit_gpu_time(_positive(gpu_seconds), Period(per or Period.DAY))
        print_done(LimitsView.of_gpus(of_gpus), f"All boards: {gpu_limit_text(of_gpus)}.", as_json=as_json)
        return
    if user and role:
        raise click.UsageError("--user and --role are mutually exclusive.")
    if name is None:
        raise click.UsageError("expected TASK, or --gpu-seconds N to limit the GPU time on all boards.")
    if given == no_limits:
        raise click.UsageError("expected --ranked N, --other N or both, or --none to remove both limits.")
    board = open_()
    if not (no_limits and any(decision.subject == name for decision, _ in board.moderation.limits())):
        board.tasks.get(name)  # a former task's limits can only be removed

    asked = {Category.RANKED: ranked, Category.OTHER: other}
    kept = () if no_limits else tuple(each for each, number in asked.items() if number is None)
    periods = list(Period) if no_limits and per is None else [Period(per or Period.HOUR)]
    whose = Role(role) if role else None
    asked_for = [Limits(_positive(ranked), _positive(other), period, user, whose) for period in periods]
    limits = board.moderation.limit(name, asked_for, kept)
    holding = [each for decision, each in board.moderation.limits() if decision.subject == name]
    text = f"Limits of {name}: {board_limits_text(holding)}."
    print_done(LimitsView.of(name, limits[0], all_periods=len(periods) > 1), text, as_json=as_json)


def _positive(limit: int | None) -> int | None:
    """Return `limit`; None for a negative one, which removes the limit."""
    return None if limit is None or limit < 0 else limit


@command("hpc-board admin limits", "hpc-board admin limits --json")
def limits(open_: Open, as_json: bool) -> None:
    """List the limits of all boards, and that on GPU time.

    Limits of other users are shown to the managers of the board.
    """
    moderation = open_().moderation
    found, of_gpus = moderation.limits(), moderation.gpu_limit()
    views = [LimitsView.of(decision.subject, each, decision) for decision, each in found]
    if of_gpus is not None:
        decision, limit_ = of_gpus
        views.insert(0, LimitsView.of_gpus(limit_, decision))
    print_found(views, limits_table(found, of_gpus), as_json=as_json)


# Links to the live page


@command("hpc-board admin link week1 projector", "hpc-board admin link week1 projector --until +90d")
@click.argument("name", shell_complete=created_names)
@click.argument("link_name", metavar="LINK")
@click.option(
    "--until",
    metavar="D",
    default="+30d",
    show_default=True,
    help=f'End of the link: "2030-12-31 18:00" (UTC) or "+90d", within {LINK_DAYS_MAX} days.',
)
def link(open_: Open, *, name: str, link_name: str, until: str, as_json: bool) -> None:
    """Make a link to the live page of a board.

    All who have the link can see this board, even if it is closed, and its runs. The secret in it is shown once. A link
    of the same name is replaced, `admin unlink` revokes it. Requires the rights of the board's creator.
    """
    made, secret = open_().moderation.link(name, link_name, until)
    path = LINK_PATH.format(secret)
    if as_json:
        print_json(LinkView.of(made, path))
        return
    click.echo(path)
    remark(f"This path is below the address of the live page, and holds until {moment_words(made.until)}.")


@command("hpc-board admin unlink week1 projector")
@click.argument("name", shell_complete=created_names)
@click.argument("link_name", metavar="LINK")
def unlink(open_: Open, name: str, link_name: str, as_json: bool) -> None:
    """Revoke a link to the live page of a board."""
    revoked = open_().moderation.unlink(name, link_name)
    print_done(LinkView.of(revoked), f"Link {link_name} to {name} revoked.", as_json=as_json)


@command("hpc-board admin links", "hpc-board admin links --json")
def links(open_: Open, as_json: bool) -> None:
    """List the links to your boards, also the expired ones, without their secrets."""
    found = open_().moderation.links()
    print_found(list(map(LinkView.of, found)), links_table(found), as_json=as_json)


# Users and the whole board


@command(
    "hpc-board admin ban eve --reason 'submits the work of others'",
    "hpc-board admin ban eve --reason 'floods the queue' --until +2d",
)
@click.argument("user")
@_required_reason
@click.option(
    "--until", metavar="D", default="", help='End of the ban: "2030-12-31 18:00" (UTC) or "+2d"; default: never.'
)
def ban(open_: Open, *, user: str, reason: str, until: str, as_json: bool) -> None:
    """Ban USER from submitting, permanently or until a given time.

    Runs in flight continue, and standings are kept; `admin remove` removes
    entries. A ban with a different end replaces the current one.
    """
    stored = open_().moderation.ban(user, reason, until)
    text = f"{user} is banned." if stored else f"{user} is already banned; `admin bans` lists the reason."
    print_done(SwitchView(action="ban", user=user, changed=stored), text, as_json=as_json)


@command("hpc-board admin unban eve", "hpc-board admin unban eve --reason 'a misunderstanding'")
@click.argument("user")
@_optional_reason
def unban(open_: Open, user: str, reason: str, as_json: bool) -> None:
    """Lift the ban of USER."""
    stored = open_().moderation.unban(user, reason)
    text = f"{user} may submit again." if stored else f"{user} was not banned."
    print_done(SwitchView(action="unban", user=user, changed=stored), text, as_json=as_json)


@command("hpc-board admin bans", "hpc-board admin bans --json")
def bans(open_: Open, as_json: bool) -> None:
    """List the bans."""
    found = open_().moderation.bans()
    print_found(views_of(DecisionView, found), bans_table(found), as_json=as_json)


@command("hpc-board admin stop --reason 'the cluster is down until Monday'")
@_optional_reason
def stop(open_: Open, reason: str, as_json: bool) -> None:
    """Stop new submissions to all boards.

    Runs in flight continue, and admins can still submit.
    """
    stored = open_().moderation.stop(reason)
    text = "No new submissions are accepted." if stored else "Submissions are already stopped."
    print_done(SwitchView(action="stop", user=None, changed=stored), text, as_json=as_json)


@command("hpc-board admin start")
@_optional_reason
def start(open_: Open, reason: str, as_json: bool) -> None:
    """Accept new submissions to all boards again."""
    stored = open_().moderation.start(reason)
    text = "New submissions are accepted." if stored else "New submissions are already accepted."
    print_done(SwitchView(action="start", user=None, changed=stored), text, as_json=as_json)


# Submissions of others


@command("hpc-board admin remove 12 --reason 'returns cached outputs'")
@_submissions
@_required_reason
def remove(open_: Open, submissions: tuple[int, ...], reason: str, as_json: bool) -> None:
    """Remove submissions from the standings.

    The user's next-best run takes the rank. Nothing is deleted; the owners
    can see the admin, the time and the reason.
    """
    open_().moderation.remove(submissions, reason)
    numbers = list(dict.fromkeys(submissions))
    undo = " ".join(["hpc-board admin readmit", *map(str, numbers)])
    text = f"{_named(submissions)} removed from the standings; undo: `{undo}`."
    print_done(RemovalsView(action="remove", submissions=numbers), text, as_json=as_json)


@command("hpc-board admin readmit 12", "hpc-board admin readmit 12 --reason 'it was correct'")
@_submissions
@_optional_reason
def readmit(open_: Open, submissions: tuple[int, ...], reason: str, as_json: bool) -> None:
    """Put removed submissions back into the standings."""
    open_().moderation.readmit(submissions, reason)
    text = f"{_named(submissions)} back in the standings, with all passing runs."
    numbers = list(dict.fromkeys(submissions))
    print_done(RemovalsView(action="readmit", submissions=numbers), text, as_json=as_json)


def _named(submissions: tuple[int, ...]) -> str:
    numbers = ", ".join(map(str, dict.fromkeys(submissions)))
    return f"Submission {numbers} is" if len(set(submissions)) == 1 else f"Submissions {numbers} are"


@command("hpc-board admin log", "hpc-board admin log --user eve", "hpc-board admin log --board matmul")
@click.option("--user", metavar="USER", help="Only actions by USER, or about USER or their submissions.")
@click.option("--board", "name", metavar="NAME", help="Only about this board and submissions to it.")
@limit_option("entries", 50)
def log(open_: Open, *, user: str | None, name: str | None, limit: int | None, as_json: bool) -> None:
    """Show the audit log, newest first."""
    read = partial(open_().moderation.decisions, user=user, board=name)
    found = listed_rows(lambda size, newer: read(limit=size, offset=len(newer)), limit, 50, as_json=as_json)
    print_found(views_of(DecisionView, found), decisions_table(found), as_json=as_json)


@command(
    "hpc-board admin rerun matmul --dry-run",
    "hpc-board admin rerun matmul --top 10 --gpu H100",
    "hpc-board admin rerun matmul --submission 12 --submission 15",
    "hpc-board admin rerun matmul --top 3 --confirm",
)
@click.argument("name", metavar="TASK", shell_complete=task_names)
@click.option("--top", metavar="N", type=Number(10_000), help="Only the top N users on each GPU; default: 100.")
@gpus_option("Only this GPU; comma-separated or repeated. Default: all GPUs of the task.")
@click.option(
    "--submission",
    "submissions",
    metavar="ID",
    multiple=True,
    type=SUBMISSION_NUMBER,
    help="This submission, regardless of rank; may be repeated.",
    shell_complete=submission_numbers,
)
@click.option(
    "--confirm",
    is_flag=True,
    help=f"Send each submission {CONFIRMING_RUNS} times, without --submission the best of the current version.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan without storing or sending it.")
def rerun(
    open_: Open,
    *,
    name: str,
    top: int | None,
    gpus: tuple[str, ...],
    submissions: tuple[int, ...],
    confirm: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Rerun the best submissions after a task has changed.

    Each user's best submission for the previous version is sent in mode ranked for the current one. It still
    belongs to its author, who gets the rank. The jobs run under your account, so the results are verified; the
    sandbox in the settings confines the code of other users.

    Files already sent for the current version are skipped. A rerun of code that its
    author has sent for the current version belongs to the same entry, whose score is
    the median of its runs: --confirm makes that certain. The exit codes are those of
    `submit` without --wait, and 5 if each --submission is skipped.
    """
    if submissions and top is not None:
        raise click.UsageError("--top and --submission are mutually exclusive.")
    board = open_()
    words = listed(gpus)
    plan = board.submissions.rerun_plan(name, top=top or 100, gpus=words, submissions=submissions, confirm=confirm)
    if dry_run:
        print_found(list(map(RerunCandidateView.of, plan)), rerun_table(plan), as_json=as_json)
        return
    chosen = [each.submission.id for each in plan if each.source is not None]
    runs = board.submissions.rerun(name, chosen, top=top or 100, gpus=words, submissions=submissions, confirm=confirm)
    if as_json:
        left_out = [RerunCandidateView.of(each) for each in plan if each.why]
        print_json(RerunsView(runs=listed_runs(board, runs), left_out=left_out))
    else:
        for each in plan:
            if each.why:
                remark(f"Submission {each.submission.id} of {each.submission.user} skipped: {each.why}")
        print_blocks(runs_table(runs, users=True, empty="Nothing to rerun."))
    report_unsent(runs, served=board.served)
    if going := [run.id for run in runs if not run.state.ended]:
        remark(watch_hint(going))
    if submissions and not runs:
        raise click.exceptions.Exit(Refused.exit_code)
    raise click.exceptions.Exit(NO_VERDICT if any(run.state == "error" for run in runs) else DONE)


# The user's own submissions


@command("hpc-board note 12 'four values per thread'")
@click.argument("id_", metavar="ID", type=NUMBER, shell_complete=run_numbers)
@click.argument("text")
def note(open_: Open, *, id_: int, text: str, as_json: bool) -> None:
    """Add a note to the submission of one of your runs.

    A run shows its notes in order, starting with that of `submit --note`.
    All users who can see the run can see them.
    """
    board = open_()
    submission = board.runs.get(id_).submission
    board.submissions.note(submission, text)
    told = f"Note added to submission {submission}; `hpc-board runs --note TEXT` finds it."
    print_done(SubmissionNoteView(submission=submission, text=text), told, as_json=as_json)
