"""Drafts: checked submissions made of a file, its header and options, before storage and dispatch."""

import hashlib
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hpc_board.domain.board_options import deadline_of, deadline_refusal, is_past, moment_words
from hpc_board.domain.draft import Draft, Source, SubmissionRequest
from hpc_board.domain.gpus import allowed_gpus, gpu, languages_of, none_allowed
from hpc_board.domain.job_options import (
    CHOICE_NAMES,
    CHOICES,
    NO_OPTIONS,
    JobOptions,
    OptionRules,
    time_limit_seconds,
)
from hpc_board.domain.moderation import REASON_CHARACTERS_MAX
from hpc_board.domain.origin import Origin, entrant_of, tag_words, tags_of
from hpc_board.domain.run import Run
from hpc_board.domain.submission import (
    EXTENSIONS,
    NOTE_CHARACTERS_MAX,
    SOURCE_BYTES_MAX,
    DirectiveError,
    Directives,
    Submission,
    directives,
)
from hpc_board.errors import InputError, Refused
from hpc_board.files import read_text
from hpc_board.model.gpu import Device, Gpu
from hpc_board.model.names import NAME, NAME_WORDS, listed, suggestion
from hpc_board.model.sanitizer import CPU_TOOL, CUDA_TOOLS, tools_in
from hpc_board.model.task import ISOLATED, OWN, Language, Milestone, Mode, Task, Template, language_of
from hpc_board.model.text import one_line
from hpc_board.schedulers import kind_of

EVERY_OPTION = OptionRules()
GPU_NAMES_MAX = 100
"""The maximum number of names of GPUs in a file's header, or with a submission: a file has room for a million."""

_FILE_NAME_BYTES_MAX = 200
_BEGINS_WITH_INCLUDE = re.compile(
    r'\ufeff?(?>\s+|//[^\n]*|/\*.*?\*/|#(?![ \t]*include[ \t]*[<"])[^\n]*)*+#[ \t]*include[ \t]*[<"]', re.DOTALL
)
"""An `#include` after comments of C++ and other lines of its preprocessor alone; it is matched in linear time."""

_MODE_ALIASES = {"leaderboard": Mode.RANKED}


def read_source(path: Path) -> Source:
    """Read the submission in the file `path`.

    Raises:
        InputError: it is missing, special, unreadable, empty, too large, binary, not UTF-8 or of another language.
    """
    _check_file_name(path.name)
    text = read_text(path, SOURCE_BYTES_MAX)
    _check_text(path.suffix, text, str(path))
    return Source(path.name, text)


def check_source(source: Source) -> None:
    """Require that `source` could have been read from a file, as `read_source` does.

    Raises:
        InputError: its name is not a plain file name, or it is empty, too large or of another language.
    """
    if "/" in source.file_name or len(source.data) > SOURCE_BYTES_MAX:
        raise InputError(
            f"invalid submission {one_line(source.file_name, 80)}.",
            hint=f"Use a file name without a folder, and at most {SOURCE_BYTES_MAX} bytes.",
        )
    _check_file_name(source.file_name)
    _check_text(Path(source.file_name).suffix, source.text, source.file_name)


def _check_file_name(name: str) -> None:
    if not name.isprintable() or len(name.encode(errors="replace")) > _FILE_NAME_BYTES_MAX:
        raise InputError(
            f"invalid file name {one_line(name, 80)}.",
            hint=f"Use printable characters, at most {_FILE_NAME_BYTES_MAX} bytes.",
        )


def _check_text(ending: str, text: str, shown: str) -> None:
    if ending not in EXTENSIONS:
        raise InputError(
            f"{one_line(shown)}: unsupported file type. Submit a Python (.py), C++ (.cpp), CUDA (.cu / .cuh) or HIP "
            "(.hip) file.",
            hint="Rename the file if it is one of these.",
        )
    if not text.strip():
        raise InputError(f"{one_line(shown)} is empty.", hint="`hpc-board template NAME` prints a template.")
    if ending == ".py" and _BEGINS_WITH_INCLUDE.match(text):
        from hpc_board.catalog.contract import parsed

        try:
            parsed(text.removeprefix("\ufeff"))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise InputError(
                f"{one_line(shown)} begins with #include and is not Python.", hint="Name the file .cpp, .cu or .hip."
            ) from error


def header(source: Source) -> Directives:
    """Parse the header of `source`.

    Raises:
        InputError: the header has an unknown directive.
    """
    try:
        return directives(source.text.removeprefix("\ufeff"))
    except DirectiveError as error:
        raise InputError(
            f"{source.file_name}: {one_line(str(error), 400)}.",
            hint="Header lines are, for example, `#!POPCORN leaderboard TASK` and `#!POPCORN gpus A B`.",
        ) from error


def draft(
    request: SubmissionRequest,
    *,
    rules: OptionRules = EVERY_OPTION,
    find_task: Callable[[str], Task],
    gpus: Sequence[Gpu],
    now: datetime,
    closes_at: Callable[[Task], datetime | None] = lambda task: task.deadline,
    served: bool = False,
    user: str = "",
) -> Draft:
    """Return the draft that `request` and the header of its file ask for at the time `now`.

    The request must agree with the header: the same task, and only GPUs that the header names. Its GPUs may hold commas
    and `all`; the only GPU of the settings is the default. The default mode is `test`, so that no submission is ranked
    by accident. `rules` are the settings' for the options of jobs. `find_task` raises InputError for an unknown name.
    `closes_at` returns the last moment to submit to a task, None without an end. On a `served` board all runs need the
    isolation of their GPU.

    Raises:
        InputError: the file, the task, a GPU, the mode or the note is invalid.
        Refused: the settings do not permit an option of its jobs, or the task's deadline has passed.
    """
    source, asked = request.source, header(request.source)
    task = _task(request.task, asked, find_task)
    mode = mode_called(request.mode)
    _check_deadline(task, closes_at(task), now)
    check_support(task)
    language = _language(source, task)
    _check_means(source, task, language)
    chosen = _chosen_gpus(task, request.gpus, asked, gpus)
    _check_devices(source, language, chosen)
    for each in chosen:
        kind_of(each.cluster).with_gpus(each, task.world_size)
    _check_cases(task, mode)
    check_note(request.note)
    effective = rules.effective(request.options, asked.options, source.file_name)
    _check_choices(task, mode, chosen, effective)
    _check_tools(task, mode, language, chosen, effective, served=served)
    _check_job_options(task, mode, chosen, effective)
    return Draft(source, task, chosen, mode, request.note, options=effective, origin=_origin(request, asked, user))


def _origin(request: SubmissionRequest, asked: Directives, user: str) -> Origin:
    """Return the origin of a submission of `user`: that of the request, over that of the header."""
    entrant = request.origin.entrant or asked.origin.entrant
    tags = tags_of(tag_words(tuple({**dict(asked.origin.tags), **dict(request.origin.tags)}.items())))
    return Origin(entrant_of(entrant, user) if entrant else "", tags, request.origin.parent)


def _check_choices(task: Task, mode: Mode, gpus: Sequence[Gpu], options: JobOptions) -> None:
    """Require that the mode and each GPU have the options of `CHOICES` that are given, and the task their case."""
    for name in options.choices:
        if name not in CHOICES.get(mode, ()):
            modes = ", ".join(str(each) for each, names in CHOICES.items() if name in names)
            raise InputError(f"--{name} is an option of mode {modes}, not of mode {mode}.", hint="Omit it.")
        if task.harness == OWN:
            raise InputError(f"--{name} is not supported: {task.name} uses its own eval.", hint="Omit the option.")
    for each in gpus:
        of_ncu = [name for name in ("kernel", "set") if name in options.choices]
        if of_ncu and each.device is not Device.CUDA:
            raise InputError(
                f"--{of_ncu[0]} is an option of Nsight Compute, which profiles on the device cuda, not on {each.name}.",
                hint="Omit it.",
            )
    phase = "test" if mode is Mode.TEST else "benchmark"
    cases = len(task.tests if mode is Mode.TEST else task.benchmarks)
    if options.case and int(options.case) > cases:
        raise InputError(f"--case {options.case}: expected 1 to {cases}, the {phase} cases of {task.name}.")


def sanitizers(device: Device, language: Language) -> tuple[str, ...]:
    """Return the tools of mode sanitize that work for a language on a device; empty without any."""
    if device is Device.CUDA:
        return CUDA_TOOLS
    return (CPU_TOOL,) if device is Device.CPU and language is Language.CPP else ()


def _check_tools(
    task: Task, mode: Mode, language: Language, gpus: Sequence[Gpu], options: JobOptions, *, served: bool = False
) -> None:
    """Require that mode sanitize has a tool that works for the language on each GPU, and those of `options`."""
    if mode is not Mode.SANITIZE:
        return
    if task.harness == OWN:
        raise InputError(
            f"mode sanitize is not supported: {task.name} uses its own eval.", hint="Choose another --mode."
        )
    for each in gpus:
        tools = sanitizers(each.device, language)
        if not tools:
            raise InputError(
                f"{each.name}: mode sanitize has no tool for {language} submissions on the device {each.device}.",
                hint="It supports Python and CUDA submissions on the device cuda, and C++ on the device cpu.",
            )
        unknown = [name for name in tools_in(options.tool) if name not in tools]
        if unknown:
            only = f"the only tool on {each.name} is {tools[0]}"
            told = f"{each.name} has the tools {', '.join(tools)}" if len(tools) > 1 else only
            raise InputError(f"--tool {unknown[0]}: {told}.")
        if each.device is Device.CPU and each.sandbox is not None:
            raise InputError(
                f"{each.name}: mode sanitize does not work on a CPU in a submission container.",
                hint="Choose another --mode.",
            )
        # The isolation that is left to a process that compute-sanitizer has started.
        if served and each.device is Device.CUDA and each.sandbox is None and each.minimum_isolation > "S1":
            raise InputError(
                f"{each.name}: mode sanitize does not reach the isolation {each.minimum_isolation} that this board "
                "requires of every run.",
                hint="Choose another --mode, or ask the admin for a submission container (`sandbox`).",
            )


def _check_job_options(task: Task, mode: Mode, gpus: Sequence[Gpu], options: JobOptions) -> None:
    """Require that each GPU's scheduler has the options, and enough time for them."""
    # The completion of a file's name needs the module, and no folder of a job.
    from hpc_board.runs import job_folder

    for each in gpus:
        kind = kind_of(each.cluster)
        unknown = [name for name in options.given if name not in (*kind.job_options, *CHOICE_NAMES)]
        if unknown:
            raise InputError(
                f"{each.name}: cluster {each.cluster.name} (scheduler {kind.name}) does not support --{unknown[0]}.",
                hint=f"Omit it; jobs on {each.name} support: {', '.join(f'--{name}' for name in kind.job_options)}.",
            )
        most = job_folder.time_limit_seconds(task, each, mode)
        if options.time and time_limit_seconds(options.time) > most:
            setting = f"gpus.{each.name}.time in the settings" if each.time_limit_seconds else f"the task {task.name}"
            raise Refused(
                f"--time {options.time} is longer than {timedelta(seconds=most)}, the time limit of jobs on "
                f"{each.name} in mode {mode}, set by {setting}.",
                hint="Use a shorter time, or omit the option.",
            )


def milestone_draft(milestone: Milestone, task: Task, gpus: Sequence[Gpu]) -> Draft:
    """Return the ranked draft that measures a milestone of `task` on each of `gpus`; the deadline does not apply.

    Raises:
        InputError: the milestone cannot run on one of the GPUs.
    """
    source = Source(milestone.file_name, milestone.text)
    check_fit(source, task, gpus, Mode.RANKED)
    return Draft(source, task, tuple(gpus), Mode.RANKED, milestone=milestone.name)


def check_fit(source: Source, task: Task, gpus: Sequence[Gpu], mode: Mode) -> None:
    """Require that `source` can run for `task` on each of `gpus` in this mode; limits and deadlines are not checked.

    Raises:
        InputError: the source cannot run there.
    """
    check_support(task)
    language = _language(source, task)
    _check_means(source, task, language)
    _check_devices(source, language, gpus)
    for each in gpus:
        kind_of(each.cluster).with_gpus(each, task.world_size)
    _check_cases(task, mode)
    _check_tools(task, mode, language, gpus, NO_OPTIONS)


def _check_means(source: Source, task: Task, language: Language) -> None:
    """Require that a file keeps its task's rule on means, if it has one, as far as its text tells."""
    if task.means.words():
        from hpc_board.runs.file_means import check_means

        check_means(source, task, language)


def named_gpus(words: Sequence[str], task: Task, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Return the GPUs in `words` for `task`, without duplicates, in the order of the words; `all` is every allowed GPU.

    Raises:
        InputError: no GPU has one of the names, or the task does not allow it.
    """
    return _resolved(words, task, allowed_gpus(task, gpus), gpus)


def check_owner(owned: Run | Submission, user: str) -> None:
    """Require that `owned` belongs to the user.

    Raises:
        Refused: it belongs to another user.
    """
    if owned.user != user:
        raise Refused(f"the owner is {owned.user}, not {user}.", hint="`hpc-board runs` lists your runs.")


def check_no_milestone(sent: Run | Submission) -> None:
    """Require that `sent` can be sent again as a submission of its user.

    Raises:
        InputError: it measures a milestone, which is never ranked.
    """
    if sent.milestone:
        raise InputError(
            f'this measures the milestone "{one_line(sent.milestone, 80)}" of {sent.task}, which is not ranked.',
            hint=f"`hpc-board admin milestones {sent.task}` reruns the milestones.",
        )


def _task(option: str | None, header: Directives, find_task: Callable[[str], Task]) -> Task:
    found = find_task(option) if option is not None else None
    if option is not None and header.leaderboard is not None and option != header.leaderboard:
        raise InputError(
            f'the file\'s header names the task "{one_line(header.leaderboard, 80)}", not "{one_line(option, 80)}".',
            hint="Choose that task (or omit --task), or correct the header.",
        )
    name = option if option is not None else header.leaderboard
    if not name:
        raise InputError(
            "missing task name.",
            hint="Use --task TASK, or begin the file with a line `#!POPCORN leaderboard TASK`.",
        )
    return found or find_task(name)


def is_over(task: Task, now: datetime) -> bool:
    """Return whether the deadline of `task` has passed at the time `now`."""
    return is_past(task.deadline, now)


def _check_deadline(task: Task, closes_at: datetime | None, now: datetime) -> None:
    if closes_at is not None and is_past(closes_at, now):
        raise Refused(
            deadline_refusal(task.name, closes_at, now),
            hint="`hpc-board list` shows the tasks that are open.",
        )


def mode_called(name: str | None) -> Mode:
    """Return the mode called `name`; `test` if no name is given.

    Raises:
        InputError: no mode has this name; the hint offers the nearest one.
    """
    if name is None:
        return Mode.TEST
    known = {str(mode): mode for mode in Mode} | _MODE_ALIASES
    key = name.strip().casefold()
    if key not in known:
        raise InputError(
            f'unknown mode "{one_line(name, 80)}".{suggestion(name, known)}',
            hint=f"Modes: {', '.join(Mode)}.",
        )
    return known[key]


def check_support(task: Task) -> None:
    """Require that this version can run submissions to `task`.

    Raises:
        InputError: the task needs another version.
    """
    if task.multi_gpu and task.harness == ISOLATED:
        raise InputError(
            f"{task.name}: this version of hpc-board does not run tasks for several GPUs (multi_gpu) under its own "
            "judge.",
            hint="Add an eval.py, and `hpc_board: {harness: task}` in task.yml.",
        )


def _check_devices(source: Source, language: Language, gpus: Sequence[Gpu]) -> None:
    """Require that each GPU runs the language."""
    for chosen in gpus:
        if language not in languages_of(chosen):
            raise InputError(
                f"{source.file_name} is {Template.of(language)}, "
                f"which does not run on {chosen.name} (device {chosen.device}).",
                hint=f"{chosen.name} supports {', '.join(map(Template.of, languages_of(chosen)))}.",
            )


def _check_cases(task: Task, mode: Mode) -> None:
    key, cases = ("tests", task.tests) if mode in (Mode.TEST, Mode.SANITIZE) else ("benchmarks", task.benchmarks)
    if not cases:
        meant = next((f" There, {each}" for each in task.warnings if f'"{key}"' in each), "")
        raise InputError(
            f"{task.name} cannot be run in mode {mode}: the task has no {key}.",
            hint=f"Choose another --mode, or ask the task's author for `{key}` in its task.yml.{meant}",
        )


def _language(source: Source, task: Task) -> Language:
    """Return the language of the submission by its file extension."""
    language = language_of(source.file_name)
    if language is None or language not in task.accepted:
        what = "the language" if len(task.accepted) == 1 else "the languages"
        extensions = [ending for accepted in task.accepted for ending in accepted.extensions]
        raise InputError(
            f"{source.file_name}: {task.name} accepts only {what} {', '.join(task.accepted)}.",
            hint=f"Use a file that ends in {' or '.join(extensions)}.",
        )
    return language


def _chosen_gpus(task: Task, options: Sequence[str], header: Directives, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    allowed = allowed_gpus(task, gpus)
    names = [candidate.name for candidate in allowed]
    if not allowed:
        raise none_allowed(task, gpus)
    from_header = _resolved_from_header(header, task, allowed, gpus)
    from_options = _resolved(options, task, allowed, gpus)
    not_in_header = [chosen.name for chosen in from_options if chosen not in from_header]
    if header.gpus and not_in_header:
        raise InputError(
            f"the file's header names {', '.join(chosen.name for chosen in from_header)}, "
            f"not {', '.join(not_in_header)}.",
            hint="Choose from the header's GPUs (or omit --gpu), or correct the header.",
        )
    chosen = from_options or from_header
    if chosen:
        return chosen
    if len(allowed) > 1:
        raise InputError(
            f"{task.name} has {len(allowed)} GPUs: {', '.join(names)}.",
            hint="Choose with --gpu NAME or --gpu all, or begin the file with a line `#!POPCORN gpu NAME`.",
        )
    return allowed


def _resolved_from_header(
    header: Directives, task: Task, allowed: Sequence[Gpu], gpus: Sequence[Gpu]
) -> tuple[Gpu, ...]:
    try:
        return _resolved(header.gpus, task, allowed, gpus)
    except InputError as error:
        raise InputError(
            f"in the file's header: {error.message}",
            hint=f"Correct or remove the GPUs in the header. {error.hint}",
        ) from error


def _resolved(words: Sequence[str], task: Task, allowed: Sequence[Gpu], gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Return the GPUs in `words`, without duplicates, in the order of the words; `all` is every allowed GPU."""
    names = listed(words)
    if len(names) > GPU_NAMES_MAX:
        raise InputError(
            f"too many GPU names: {len(names):,} (limit {GPU_NAMES_MAX}).", hint="List each GPU once, or use `all`."
        )
    resolved: list[Gpu] = []
    for name in names:
        if not name:
            raise InputError("empty GPU name.", hint="Use --gpu NAME, --gpu A,B or --gpu all.")
        for candidate in allowed if name.casefold() == "all" else [gpu(name, gpus)]:
            if candidate not in allowed:
                unfit = not set(languages_of(candidate)) & set(task.accepted)
                why = f": it does not run {' or '.join(task.accepted)}" if unfit else ""
                raise InputError(
                    f"GPU {candidate.name} not available for {task.name}{why}.",
                    hint=f"Choose one of: {', '.join(each.name for each in allowed)}.",
                )
            if candidate not in resolved:
                resolved.append(candidate)
    return tuple(resolved)


def check_note(note: str) -> None:
    """Require that `note` can be stored with a submission.

    Raises:
        InputError: it is too long, or not one line.
    """
    _check_line(note, NOTE_CHARACTERS_MAX, "The note", "it")


def check_key(key: str) -> None:
    """Require that `key` can be that of a submission.

    Raises:
        InputError: it is no name.
    """
    if not re.fullmatch(NAME, key):
        raise InputError(f'invalid key "{one_line(key, 80)}".', hint=f"Use {NAME_WORDS}.")


def request_sha256(requests: Sequence[SubmissionRequest], gpus: Sequence[Gpu], user: str) -> str:
    """Return a hash of all that `requests` of `user` ask for: themselves, in the headers of their files, or by default.

    The tasks, `gpus` and names are not looked up: they may have changed since the first of equal requests.

    Raises:
        InputError: a header has an unknown directive, or no mode has the name.
    """
    return hashlib.sha256(msgspec.json.encode([_completed(each, gpus, user) for each in requests])).hexdigest()


def _completed(request: SubmissionRequest, gpus: Sequence[Gpu], user: str) -> SubmissionRequest:
    asked = header(request.source)
    names = request.gpus or asked.gpus or tuple(gpu.name for gpu in gpus if len(gpus) == 1)
    return replace(
        request,
        task=request.task or asked.leaderboard,
        gpus=tuple(name.strip().casefold() for words in names for name in words.split(",")),
        mode=str(mode_called(request.mode)),
        options=request.options.over(asked.options),
        origin=_origin(request, asked, user),
    )


def check_reason(reason: str) -> None:
    """Require that `reason` can be stored with a decision.

    Raises:
        InputError: it is too long, or not one line.
    """
    _check_line(reason, REASON_CHARACTERS_MAX, "the reason", "--reason")


def end_given(words: str, now: datetime, *, what: str, option: str) -> datetime | None:
    """Return the future moment that `words` give for `what`, such as a deadline, by `option`; None for "none".

    Raises:
        InputError: the words are no moment, or one before `now`.
    """
    try:
        moment = deadline_of(words, now)
    except ValueError as error:
        raise InputError(f'invalid {what} "{one_line(words, 80)}".', hint=f"{option} {error}.") from error
    if moment is not None and moment <= now:
        raise InputError(
            f"the {what} {moment_words(moment)} has passed; the current time is {moment_words(now)}.",
            hint="Use a time in the future, or omit it.",
        )
    return moment


def _check_line(text: str, characters_max: int, what: str, it: str) -> None:
    if len(text) > characters_max:
        raise InputError(f"{what} is too long: {len(text)} characters (limit {characters_max}).", hint=f"Shorten {it}.")
    if not text.isprintable():
        raise InputError(f"{what} contains a line break or a control character.", hint=f"Write {it} on one line.")
