"""Diagnostics of a Slurm cluster: its commands, its controller and its configuration."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence

from hpc_board.domain.diagnostic import Diagnostic, Severity, diagnostic
from hpc_board.model.gpu import Cluster
from hpc_board.model.text import one_line
from hpc_board.schedulers.slurm.cluster_info import CONFIGURATION, configuration
from hpc_board.schedulers.slurm.refusals import AGAIN_SECONDS, RATE_LIMIT
from hpc_board.transport import Host
from hpc_board.transport.attempt import Attempt, attempt

_NEEDED = ("sbatch", "squeue", "scancel", "sinfo")
_USEFUL = {
    "sacct": "without it, a job that left the queue without a result is `lost` after five minutes",
    "scontrol": "without it, `admin detect`, `admin check` and this page have less information about the cluster",
}
_UNASKED = "; the other commands, the controller and the configuration were not checked"
_OLDEST = (21, 8)
_SLOW_SECONDS = 5.0

_RELEASE = re.compile(r"^slurm[\w.-]*\s+(\d{2}\.\d{2}\.\d+)", re.MULTILINE)
"""`slurm 24.11.5`, and `slurm-wlm 22.05.8` in Debian."""


def diagnose(cluster: Cluster, host: Host) -> Iterator[Diagnostic]:
    """Yield a diagnostic of the commands, the controller and the configuration that `host` has.

    The first question without an answer is the last one: each further one may take as long.
    """
    subject = f"slurm {cluster.name}"
    versions: dict[str, list[str]] = {}
    failures: dict[str, list[str]] = {}
    silent = False
    for command in (*_NEEDED, *_USEFUL):
        tried = attempt(host, [command, "--version"])
        if tried.unreached is not None:
            hint = tried.unreached.hint or "Check that `ssh` logs in there without a prompt."
            yield Diagnostic(Severity.ERROR, subject, one_line(tried.unreached.message, 500), hint)
            return
        silent = tried.timed_out
        if tried.succeeded:
            versions.setdefault(_release(tried.stdout), []).append(command)
        else:
            failures.setdefault(f"{tried.failure}{_UNASKED if silent else ''}", []).append(command)
        if silent:
            break
    for words, commands in failures.items():
        bad = Severity.WARNING if set(commands) <= set(_USEFUL) else Severity.ERROR
        notes = "".join(f"; {_USEFUL[command]}" for command in commands if command in _USEFUL)
        hint = "Run hpc-board on a login node with Slurm's commands on PATH, and SLURM_CONF set if needed."
        yield Diagnostic(bad, subject, f"{', '.join(commands)}: {words}{notes}", hint)
    if not versions:
        return
    told = "; ".join(f"{version} ({', '.join(names)})" for version, names in versions.items())
    yield diagnostic(
        Severity.WARNING,
        subject,
        f"commands from different releases: {told}",
        "Put the folder of one installation first on PATH.",
        good=", ".join(versions) if len(versions) == 1 else None,
    )
    if any(_is_old(version) for version in versions):
        yield Diagnostic(Severity.WARNING, subject, "releases before 21.08 are not supported", "Ask for a newer one.")
    if silent:
        return
    answer = _controller(subject, host)
    yield answer
    if answer.severity is Severity.ERROR:
        return
    tried = _asked(host, CONFIGURATION)
    if not tried.succeeded:
        message = f"its configuration is unknown: {tried.failure}; the accounting was not checked"
        yield Diagnostic(Severity.WARNING, subject, message, "Try `scontrol show config`.")
        return
    yield from _check_job_records(subject, cluster, configuration(tried.stdout), host)


def _asked(host: Host, argv: Sequence[str]) -> Attempt:
    """Try a question; a controller that limits the rate of requests is asked once more after a pause."""
    tried = attempt(host, argv)
    if tried.succeeded or not (tried.is_silent or RATE_LIMIT.search(tried.failure)):
        return tried
    time.sleep(AGAIN_SECONDS)
    return attempt(host, argv)


def _release(printed: str) -> str:
    """Return the name and the release that a command printed, without a site's own lines and a package's revision."""
    found = _RELEASE.findall(printed)
    return f"slurm {found[-1]}" if found else one_line(printed, 60)


def _is_old(version: str) -> bool:
    match = re.search(r"(\d{2})\.(\d{2})\.", version)
    return match is not None and (int(match[1]), int(match[2])) < _OLDEST


def _controller(subject: str, host: Host) -> Diagnostic:
    start = time.monotonic()
    tried = _asked(host, ["squeue", "--noheader", "--me", "--format=%i"])
    seconds = time.monotonic() - start
    if not tried.succeeded:
        message = f"the controller does not answer: {tried.failure}; its configuration was not checked"
        return Diagnostic(Severity.ERROR, subject, message, "Try again later; nothing is lost.")
    words = f"the controller answers in {seconds * 1000:.0f} ms"
    slow = seconds > _SLOW_SECONDS
    hint = "Raise `poll_seconds` of the cluster in the settings."
    return diagnostic(Severity.WARNING, subject, words, hint, good=None if slow else words)


def _check_job_records(subject: str, cluster: Cluster, found: Mapping[str, str], host: Host) -> Iterator[Diagnostic]:
    accounted = "slurmdbd" in found.get("AccountingStorageType", "")
    if accounted:
        tried = attempt(host, ["sacct", "--allocations", "--noheader", f"--starttime=uts{int(time.time()) - 60}"])
        accounted = tried.succeeded
        hint = "Until it answers, only results and the queue show how jobs ended."
        message = f"accounting is enabled, but sacct fails: {tried.failure}"
        yield diagnostic(Severity.WARNING, subject, message, hint, good="sacct answers" if accounted else None)
    else:
        message = "no accounting: a job that left the queue without a result is `lost` after five minutes"
        yield Diagnostic(Severity.OK, subject, message)
    age = re.match(r"\d{1,9}", found.get("MinJobAge", ""))
    if age:
        short = not accounted and 0 < int(age[0]) < 4 * cluster.poll_seconds
        message = f"MinJobAge is {age[0]} s, and Slurm is polled every {cluster.poll_seconds:g} s"
        hint = "By then a job without a result may have left the queue: lower `poll_seconds`."
        yield diagnostic(Severity.WARNING, subject, message, hint, good=None if short else message)
    private = found.get("PrivateData", "").lower().split(",")
    if not {"jobs", "all"}.isdisjoint(private):
        message = "PrivateData hides the jobs of other users: the counts of waiting jobs are too low"
        yield Diagnostic(Severity.OK, subject, message)
