"""Errors of sbatch, and their remedies."""

import re
from typing import Final

from hpc_board.errors import NotAccepting, NotAvailable, SchedulerError, SchedulerRefused
from hpc_board.model.text import one_line
from hpc_board.transport import Completed

UNCONFIGURED: Final = re.compile(
    r"establish a configuration source|DNS SRV lookup failed|resolve_ctls_from_dns_srv|failed to fetch config"
    r"|Unable to process configuration file"
)
"""Words of a command that finds no slurm.conf; some releases end with status 0 then."""

UNKNOWN_CLUSTER: Final = re.compile(r"can't be reached now, or it is an invalid entry for --cluster")
_UNCONFIGURED: Final = "{} finds no slurm.conf here: set clusters.{}.slurm_conf, or SLURM_CONF, to its path"
RATE_LIMIT: Final = re.compile(r"rate limit exceeded", re.IGNORECASE)
"""Slurm's words for a controller that asks for fewer requests; a site's own rules may speak of rates, too."""

AGAIN_SECONDS: Final = 2.0
"""The pause before the one question that is repeated at once: a rate limit of Slurm admits two or more a second."""

_COMMUNICATION: Final = (
    "socket timed out",
    "timed out",
    "unable to contact slurm controller",
    "zero bytes were transmitted",
    "header lengths are longer than data received",
    "insane message length",
    "missing socket error",
    "communication shutdown failure",
    "transport endpoint",
    "network is unreachable",
    "interrupted system call",
    "operation now in progress",
    "connection refused",
    "connection reset",
    "connection failure",
    "broken pipe",
    "no route to host",
    "not connected",
    "message receive failure",
    "message send failure",
    "unexpected message",
    "incomplete or corrupted",
    "temporarily unable",
    "temporarily unavailable",
    "standby mode",
    "authentication error",
    "munge",
    "configuration source",
    "configuration file",
    "slurm.conf",
)
"""Words of failures on the way to the controller: the job may or may not exist."""

_REFUSALS: Final = re.compile(
    # the controller's own answer
    r"batch job submission failed:"
    # the same with --test-only
    r"|^allocation failure:"
    # the end of sbatch, before it asks the controller
    r"|^\S{0,200}sbatch\S{0,40}: fatal: "
    # sbatch's errors about its options and the script, before it asks the controller
    r"|^\S{0,200}sbatch\S{0,40}: (?:error: )?(?:"
    r"unrecognized option|invalid option --|option '.*' (?:is ambiguous|doesn't allow an argument|requires an argument)"
    r"|(?:invalid|unrecognized) (?:.* )?--[a-z]|--\S+ is not valid"
    r"|\".*\" is not a valid node count|invalid number of (?:tasks|cpus|nodes)"
    r"|invalid generic resource|invalid trackable resource|invalid argument: |invalid directive found in batch script"
    r"|\S.*: line [0-9]+: (?:unmatched|unexpected) "
    r"|unable to open file|could not open user environment file"
    r"|batch script is empty|batch script contains dos line breaks|this does not look like a batch script"
    r"|the slurm controller does not allow scripts|cli_filter plugin terminated with error)",
    re.IGNORECASE | re.MULTILINE,
)
"""The words that prove a refusal. Sites wrap sbatch, and a wrapper that fails may do so after the job was accepted."""

QUEUE_FULL: Final = (
    "temporarily unable to accept job, sleeping and retrying",
    "job queue full, sleeping and retrying",
    "Job creation temporarily disabled, retrying",
)
"""The words of an sbatch that was refused and tries again by itself, for two minutes."""

_SUBMIT_LIMIT: Final = re.compile(r"\b((?:(?:Assoc|QOS)(?:Max|Grp)|Max)Submit[A-Za-z]{0,40})")
_NOT_NOW: Final = (
    (
        _SUBMIT_LIMIT,
        "a limit on the submitted jobs of its account, user or QOS is reached ({0})",
        "It is sent once earlier jobs have ended; limits: `sacctmgr show assoc user=$USER`, `sacctmgr show qos`.",
    ),
    (
        re.compile(r"(Required partition not available \(inactive or drain\))", re.IGNORECASE),
        "the partition does not accept jobs ({0})",
        "It is sent once the partition accepts jobs again; see `sinfo -s` and the site's announcements.",
    ),
    (
        re.compile(r"(rate limit exceeded|Unable to create job record, try again)", re.IGNORECASE),
        "the controller asked to try again later ({0})",
        "It is sent again in one of the next polls.",
    ),
)
"""Refusals that pass, with their reasons and hints: sbatch prints the name of the limit before its general answer."""

_ALONE: Final = (
    "This job alone exceeds the limit: request less with gpus.{gpu}.request, cpus_per_task or memory, or correct "
    "--qos; `sacctmgr show qos` and `sacctmgr show assoc user=$USER` list the limits."
)
_ACCOUNT: Final = (
    "Correct --account, or gpus.{gpu}.account in the settings: `sacctmgr show assoc user=$USER` lists the accounts. "
    "For a user without one, an administrator runs `sacctmgr add user USER account=ACCOUNT`."
)
_HINTS: Final = (
    ("qosmaxwall", "Correct --time, or gpus.{gpu}.time in the settings; `sacctmgr show qos` lists the limits."),
    ("assocmaxwall", "Correct --time, or gpus.{gpu}.time in the settings; `sacctmgr show assoc user=$USER`."),
    ("qosmin", "The QOS has a minimum job size: correct gpus.{gpu}.request or --qos; `sacctmgr show qos` lists it."),
    # A job that waits for others is not refused for them.
    *((limit, _ALONE) for limit in ("qosgrp", "assocgrp", "qosmax", "assocmax", "maxcpu", "maxgres", "maxmemory")),
    # Its sentence also names the time limit.
    ("policy", "A limit of the account or QOS is reached: wait for earlier jobs to end, or ask for a higher limit."),
    ("invalid partition", "Correct gpus.{gpu}.partition in the settings; `sinfo -s` lists the partitions."),
    ("invalid account", _ACCOUNT),
    ("invalid qos", "Correct --qos, or gpus.{gpu}.qos in the settings; `sacctmgr show qos` lists them."),
    (
        "invalid feature",
        "Correct --constraint, or gpus.{gpu}.constraint or .request in the settings; `sinfo -o '%N %f'` lists them.",
    ),
    (
        "reservation",
        "Correct --reservation, or gpus.{gpu}.reservation in the settings; `scontrol show reservation` lists them.",
    ),
    (
        "invalid node name",
        "Correct --nodelist or --exclude, or gpus.{gpu}.nodelist or .exclude in the settings; `sinfo -N` lists them.",
    ),
    ("--gpu-freq", "Correct gpus.{gpu}.gpu_freq in the settings."),
    ("memory", "Correct gpus.{gpu}.memory in the settings; `sinfo -o '%N %m'` lists the nodes' memory."),
    ("--mem", "Correct gpus.{gpu}.memory in the settings."),
    ("time limit", "Correct --time, or gpus.{gpu}.time in the settings; `sinfo -o '%P %l'` lists the limits."),
    ("gres", "Correct gpus.{gpu}.request in the settings; `sinfo -o '%P %G'` lists the GPUs of each partition."),
    ("tres", "Correct gpus.{gpu}.request in the settings; `sinfo -o '%P %G'` lists the GPUs of each partition."),
    (
        "node configuration is not available",
        "Correct gpus.{gpu}.request, cpus_per_task or memory in the settings: `sinfo -o '%P %G %c %m'` shows it.",
    ),
    ("unrecognized option", "Correct gpus.{gpu}.sbatch in the settings."),
    (
        "job_submit plugin",
        "The site's job_submit plugin rejected the job; ask its administrators which option is required.",
    ),
    ("submit limit", "A limit on the number of jobs is reached: wait for earlier jobs to end."),
    ("permission", "Ask the administrators for access, or correct gpus.{gpu}.account and gpus.{gpu}.partition."),
)
_GENERAL_HINT: Final = "Compare gpus.{gpu} in the settings with what the cluster offers: `sinfo -o '%P %G %f %l'`."


def query_failed(program: str, done: Completed, cluster: str) -> SchedulerError:
    """Return the error for a question that `program` could not answer, with its cause by name as far as it is known."""
    said = one_line(done.stderr, 300)
    if UNCONFIGURED.search(done.stderr):
        words = _UNCONFIGURED.format(program, cluster)
        return NotAvailable(words, hint="Or run hpc-board on a login node of the cluster.")
    if "access/permission denied" in done.stderr.lower():
        return SchedulerError(
            f"{program} failed: {said}",
            hint=f"The site hides this from the account (PrivateData in slurm.conf): ask the administrators to allow "
            f"{program}.",
        )
    # A command that is refused for its rate ends with status 1, often without words. slurmdbd, which sacct asks, limits
    # no rate; sinfo is no question about jobs, and an empty answer of it delays none.
    asks = program in ("squeue", "scontrol", "scancel")
    wordless = asks and done.returncode == 1 and not (done.stderr.strip() or done.stdout.strip())
    if wordless or RATE_LIMIT.search(done.stderr):
        return SchedulerError(
            f"{program} failed: {said or f'status {done.returncode}, no message'}",
            hint="The controller may limit the rate of requests (rl_enable): hpc-board sends fewer requests for a "
            "while.",
            throttled=True,
        )
    return SchedulerError(
        f"{program} failed: {said or f'status {done.returncode}'}",
        hint=f"Slurm on cluster {cluster} may be busy or down; nothing was changed; try again later.",
    )


def not_accepted(stderr: str, gpu: str, cluster: str) -> SchedulerError:
    """Return the error for an sbatch that failed with `stderr`, for `gpu` of `cluster`.

    SchedulerRefused if the controller or sbatch itself understood and refused, NotAccepting if the refusal will pass; a
    plain SchedulerError, so that the job is looked up, if the words are about the way to the controller, about anything
    else, or absent.
    """
    shown = words_of(stderr) or "no reason given"
    folded = stderr.lower()
    if UNCONFIGURED.search(stderr):
        words = _UNCONFIGURED.format("sbatch", cluster)
        return SchedulerError(words, hint="The job is looked up by its name before it is sent again.")
    if not _REFUSALS.search(stderr) or any(phrase in folded for phrase in _COMMUNICATION):
        return SchedulerError(
            f"sbatch got no definite answer: {shown}",
            hint="The job is looked up by its name before it is sent again.",
        )
    for pattern, reason, passes in _NOT_NOW:
        if found := pattern.search(stderr):
            words = reason.format(one_line(found[1], 80))
            limited = bool(RATE_LIMIT.search(found[1]))
            return NotAccepting(words, hint=passes, throttled=limited, full=pattern is _SUBMIT_LIMIT)
    # No phrase begins within a word, such as "gres" in "progress".
    found_hints = (text for phrase, text in _HINTS if re.search(rf"(?<![a-z]){re.escape(phrase)}", folded))
    hint = next(found_hints, _GENERAL_HINT)
    return SchedulerRefused(f"sbatch rejected the job for {gpu}: {shown}", hint=hint.format(gpu=gpu))


def words_of(stderr: str) -> str:
    """Return sbatch's standard error on one line, without its name before each message."""
    lines = (line.removeprefix("sbatch: ").removeprefix("error: ") for line in stderr.splitlines() if line)
    return one_line("; ".join(lines), 300)
