"""A task folder, with KernelBot's `task.yml` in it, as a task."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from hpc_board.catalog.contract import GENERATOR, Signature, case_faults, missing, signature
from hpc_board.domain.board_options import YEAR_MAX, YEAR_MIN, moment_in_utc
from hpc_board.domain.task_rules import (
    ARGUMENTS_MAX,
    CASE_KEY,
    FILE_BYTES_MAX,
    FILES_MAX,
    MILESTONE_NAME,
    TASK_BYTES_MAX,
    TIMEOUT_SECONDS_MAX,
    Layout,
    case_value,
    is_plain_path,
)
from hpc_board.errors import DocumentError, Fault, InputError
from hpc_board.files import read_text
from hpc_board.model.means import KINDS
from hpc_board.model.names import NAME, NAME_WORDS, suggestion
from hpc_board.model.task import (
    OWN,
    SUBMISSION,
    CaseValue,
    Language,
    MeansRule,
    Milestone,
    Ranking,
    Task,
    TaskFile,
    Template,
    Timeouts,
    language_of,
)
from hpc_board.model.text import one_line
from hpc_board.yaml_document import Document
from hpc_board.yaml_sections import DOCUMENT_BYTES_MAX, Place

TASK_FILE = "task.yml"
HINT = "Correct these lines of the task file. For a file above the task's folder, use the folder that has both."
"""The remedy for faults of a task file."""

_STAND_INS: dict[str, Any] = {"files": [], "lang": "py", "description": ""}

Name = Annotated[str, Meta(pattern=rf"\A{NAME}\Z", description=NAME_WORDS)]
CaseKey = Annotated[
    str,
    Meta(pattern=rf"\A{CASE_KEY}\Z", description="the name of an argument of generate_input"),
]
TimeoutSeconds = Annotated[
    int,
    Meta(ge=1, le=TIMEOUT_SECONDS_MAX, description=f"a whole number of seconds from 1 to {TIMEOUT_SECONDS_MAX}"),
]


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of `files:`."""

    name: str
    """The file's name on the node, relative to the folder that a run works in."""
    source: str
    """The path of its text, relative to the task's folder; @SUBMISSION@ for the participant's file."""


class MilestoneEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of `hpc_board.milestones:`."""

    name: Annotated[
        str,
        Meta(pattern=rf"\A{MILESTONE_NAME}\Z", description="up to 40 letters, digits, spaces and . , + / ( ) - _"),
    ]
    """The name in the place of a user on the leaderboards."""
    source: str
    """The path of its file, relative to the task's folder: a submission like any other."""
    description: str = ""
    """The description for participants."""
    exclude_gpus: list[Name] = []
    """The GPUs on whose boards it is not shown."""


class MeansSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`hpc_board.means:`, each a name or a list of names."""

    require: str | list[str] = []
    """Each of them is used."""
    forbid: str | list[str] = []
    """None of them is used."""


class OwnSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`hpc_board:`, the keys that KernelBot does not have."""

    harness: Literal["isolated", "task"] | None = None
    """The evaluator: the judge of hpc-board, or the task's own eval.

    The judge is the default if the task's reference.py defines generate_input and check_implementation, but for tasks
    for several GPUs that bring an eval.
    """
    deadline: str | None = None
    """The last moment to submit, an ISO date or time; UTC without a zone, a date means its midnight."""
    limits: dict[str, float] = {}
    """Limits and timing numbers of the judge that differ from its defaults."""
    const_inputs: bool = False
    """A call must leave its inputs unchanged (verdict mutated_input)."""
    fresh_output: bool = False
    """The output must lie in memory of its own, not in that of an input (verdict wrong_aliased)."""
    languages: list[Language] = []
    """The languages of submissions; only `lang` if empty."""
    flags: list[str] = []
    """Flags for the compilers beside their usual ones."""
    accepts: list[Literal["tf32", "float16", "input", "one_element", "exact"]] = []
    """The bogus answers that the check is meant to let pass; `hpc-board task check` reports all others."""
    hidden_tests: list[dict[CaseKey, Any]] = []
    """The arguments of further test cases, which only ranked runs judge and nothing shows."""
    hidden_benchmarks: list[dict[CaseKey, Any]] = []
    """The same for further benchmark cases; they count in the score behind the others."""
    adapter: str = ""
    """The file of the task that calls submissions in Python of another form; it is imported in their place."""
    means: MeansSection = MeansSection()
    """The kernels and libraries that a submission must or must not use."""
    prepare: list[str | int] = []
    """The keys or the positions of the inputs that are the same for all calls of a case in a process."""
    start_here: bool = False
    """The app marks the task and lists it first for users without a rank on it."""
    milestones: list[MilestoneEntry] = []
    """Submissions of the author, shown on leaderboards beside the ranks once `admin milestones` has run them."""


class TaskDocument(msgspec.Struct, frozen=True):
    """A whole `task.yml`; keys that are not known are ignored with a warning."""

    files: list[FileEntry]
    """The files of a run."""
    lang: Literal["py", "cu"]
    """The language of submissions, unless `hpc_board.languages` has others."""
    description: str
    """The description of the kernel to implement, for participants."""
    name: Name | None = None
    """The task's name if it differs from its folder's."""
    config: dict[str, str | int | float | bool | list[str] | dict[str, str] | None] | None = None
    """The start or compilation of the task's own eval."""
    templates: dict[Template, str] | None = None
    """Files to begin with, by language."""
    tests: list[dict[CaseKey, Any]] = []
    """The arguments of each test case."""
    benchmarks: list[dict[CaseKey, Any]] = []
    """The arguments of each benchmark case."""
    test_timeout: TimeoutSeconds = Timeouts.test_seconds
    """Seconds for a run in mode test."""
    benchmark_timeout: TimeoutSeconds = Timeouts.benchmark_seconds
    """Seconds for a run in mode benchmark."""
    ranked_timeout: TimeoutSeconds = Timeouts.ranked_seconds
    """Seconds for the timed part of a ranked run."""
    ranking_by: Ranking = Ranking.LAST
    """The rule that computes the score from the benchmarks."""
    seed: int | None = None
    """KernelBot's public seed."""
    multi_gpu: bool = False
    """A run needs several GPUs; then each case has a world_size."""
    libraries: list[str] = []
    """KernelBot's libraries."""
    gpus: list[Name] = []
    """The GPUs that the task may run on; all of the board's if empty."""
    hpc_board: OwnSection = OwnSection()
    """The keys that KernelBot does not have."""


def task_or_fault(folder: Path, root: Path | None = None, texts: dict[Path, str] | None = None) -> Task | DocumentError:
    """Return the task in `folder`, as `read_task` does, or its faults."""
    try:
        return read_task(folder, root, texts)
    except DocumentError as error:
        return error
    except InputError as error:
        return DocumentError(str(folder / TASK_FILE), [Fault("", error.message)], hint=error.hint)
    except OSError as error:
        return unreadable(folder / TASK_FILE, error)


def unreadable(path: Path, error: OSError) -> DocumentError:
    """Return the fault of a folder that cannot be read."""
    return DocumentError(
        str(path), [Fault("", f"cannot be read: {error.strerror}")], hint="Check the permissions of the folder."
    )


def read_task(folder: Path, root: Path | None = None, texts: dict[Path, str] | None = None) -> Task:
    """Read the task in `folder`, all of whose files lie in `root`, by default the parent of `folder`.

    The text of each file is added to `texts`.

    Raises:
        InputError: `task.yml` is missing or not readable.
        DocumentError: it has faults; all of them are listed.
    """
    texts = {} if texts is None else texts
    texts[folder / TASK_FILE] = read_text(folder / TASK_FILE, DOCUMENT_BYTES_MAX)
    document = Document.parse(texts[folder / TASK_FILE], folder / TASK_FILE, hint=HINT)
    section = document.value(TaskDocument, _STAND_INS)
    own = section.hpc_board
    real_folder = folder.resolve()
    sources = _Sources(document, real_folder, real_folder.parent if root is None else root.resolve(), texts)
    files = sources.files(section.files)
    templates: dict[str, str] = {
        str(name): sources.text(("templates", str(name)), source) or ""
        for name, source in (section.templates or {}).items()
    }
    reference = next((file.text for file in files if file.name == "reference.py"), None)
    lacks = missing(reference) if reference is not None and document.has_no_faults("files") else ()
    harness = own.harness or _default_harness(section, files, lacks=bool(lacks))
    if harness == "isolated" and reference is None and document.has_no_faults("files"):
        document.fault(("hpc_board", "harness"), "isolated needs a file named reference.py")
    elif harness == "isolated" and lacks:
        document.fault(
            ("files",), f"reference.py does not define {' and '.join(lacks)}, which the isolated judge calls"
        )
    if own.adapter:
        _check_adapter(document, own.adapter, [file.name for file in files if file.text is not None])
    _check_limits(document, own)
    means = _means(document, own.means)
    _check_compiled(document, own)
    generator = signature(reference or "", GENERATOR) if harness == "isolated" else None
    cases: dict[str, Any] = {
        place[-1]: _cases(document, place, entries, generator, section.multi_gpu)
        for place, entries in (
            (("tests",), section.tests),
            (("benchmarks",), section.benchmarks),
            (("hpc_board", "hidden_tests"), own.hidden_tests),
            (("hpc_board", "hidden_benchmarks"), own.hidden_benchmarks),
        )
    }
    task = Task(
        name=_name(document, section, real_folder),
        language=Language(section.lang),
        description=section.description,
        files=files,
        **cases,
        templates=templates,
        config=section.config or {},
        timeouts=Timeouts(section.test_timeout, section.benchmark_timeout, section.ranked_timeout),
        ranking_by=section.ranking_by,
        seed=section.seed,
        multi_gpu=section.multi_gpu,
        libraries=tuple(section.libraries),
        gpus=tuple(section.gpus),
        deadline=deadline(document, ("hpc_board", "deadline"), own.deadline),
        harness=harness,
        limits=own.limits,
        const_inputs=own.const_inputs,
        fresh_output=own.fresh_output,
        accepts=tuple(own.accepts),
        warnings=tuple(document.warnings),
        languages=tuple(own.languages),
        flags=tuple(own.flags),
        start_here=own.start_here,
        adapter=own.adapter,
        prepare=tuple(own.prepare),
        means=means,
        milestones=_milestones(document, sources, own, own.languages or [Language(section.lang)]),
    )
    _check_own_eval(document, task, own)
    document.check()
    return task


def _name(document: Document, section: TaskDocument, folder: Path) -> str:
    name = section.name or folder.name
    if section.name is None and not re.fullmatch(NAME, name):
        document.fault(("name",), f'is missing, and the folder\'s name "{one_line(name)}" is not {NAME_WORDS}')
    return name


def _check_own_eval(document: Document, task: Task, section: OwnSection) -> None:
    main, names = task.config.get("main"), {file.name for file in task.files}
    if task.harness == OWN:
        from hpc_board.model.eval_program import eval_program

        for key, message in eval_program(task)[1]:
            document.fault(tuple(key.split(".")), message)
        for key in ("hidden_tests", "hidden_benchmarks", "prepare", "means"):
            if getattr(section, key) != getattr(OwnSection(), key):
                document.fault(("hpc_board", key), "needs the isolated judge, not an eval of the task's own")
    elif isinstance(main, str) and main not in names:
        # With a wrong name, the judge would take the place of the task's own eval.
        document.fault(("config", "main"), f'"{one_line(main)}" is not in `files`.{suggestion(main, names)}')


def _default_harness(section: TaskDocument, files: Sequence[TaskFile], *, lacks: bool) -> Literal["isolated", "task"]:
    """Return the evaluator for a task that names none: its own eval if our judge could not.

    `lacks` says that its reference.py does not define the functions that our judge calls.
    """
    names = [file.name for file in files]
    brings_eval = (section.config or {}).get("main", "eval.py") in names
    return "task" if "reference.py" not in names or ((section.multi_gpu or lacks) and brings_eval) else "isolated"


def _check_adapter(document: Document, name: str, names: Sequence[str]) -> None:
    """Note the fault of an adapter that a worker could not import."""
    if name not in names:
        document.fault(("hpc_board", "adapter"), f'"{one_line(name)}" is not in `files`.{suggestion(name, names)}')
    elif not re.fullmatch(r"(?!reference|eval)\w+\.py", name):
        expected = "a Python file at the top whose name does not begin with reference or eval, which workers do not get"
        document.fault(("hpc_board", "adapter"), f'expected {expected}, found "{one_line(name)}"')


def _check_limits(document: Document, own: OwnSection) -> None:
    """Note the faults of a task's own limits, which few tasks have."""
    if not own.limits:
        return
    from hpc_board.model.limits import limit_faults

    for key, message in limit_faults(own.limits).items():
        document.fault(("hpc_board", "limits", key), message)


def _means(document: Document, section: MeansSection) -> MeansRule:
    """Return a task's rule on means; note a fault for each unknown name, and for one that is in both lists."""
    found: dict[str, tuple[str, ...]] = {}
    for verb in MeansSection.__struct_fields__:
        words = getattr(section, verb)
        found[verb] = (words,) if isinstance(words, str) else tuple(words)
        for index, name in enumerate(found[verb]):
            place = ("hpc_board", "means", verb) if isinstance(words, str) else ("hpc_board", "means", verb, index)
            if name not in KINDS:
                near, known = suggestion(name, KINDS), ", ".join(KINDS)
                document.fault(place, f'unknown means "{one_line(name, 80)}".{near} Known: {known}.')
            elif verb == "forbid" and name in found["require"]:
                document.fault(place, f'"{name}" is required, too')
    return MeansRule(**found)


def _check_compiled(document: Document, own: OwnSection) -> None:
    """Note the faults of a task's languages and of the flags for their compilers."""
    for index, language in enumerate(own.languages):
        if language in own.languages[:index]:
            document.fault(("hpc_board", "languages", index), f"{language} is given twice")
    if not own.flags:
        return
    from hpc_board.model.build_flags import flag_fault

    for index, flag in enumerate(own.flags):
        if message := flag_fault(flag):
            document.fault(("hpc_board", "flags", index), f'"{one_line(flag, 80)}" {message}')


def _milestones(
    document: Document, sources: "_Sources", own: OwnSection, languages: Sequence[Language]
) -> tuple[Milestone, ...]:
    """Return the milestones with their files; note a fault for each that could not be submitted."""
    found: list[Milestone] = []
    for index, entry in enumerate(own.milestones):
        place = ("hpc_board", "milestones", index)
        if entry.name in [each.name for each in found]:
            document.fault((*place, "name"), f'"{entry.name}" is given twice')
        if language_of(entry.source) not in languages:
            endings = " ".join(ending for language in languages for ending in language.extensions)
            document.fault(
                (*place, "source"), f'expected a file that ends in {endings}, found "{one_line(entry.source)}"'
            )
            continue
        text = sources.text((*place, "source"), entry.source)
        name = PurePosixPath(entry.source).name
        found.append(Milestone(entry.name, name, text or "", entry.description, tuple(entry.exclude_gpus)))
    return tuple(found)


class _Sources:
    """The files that a task names, read within the folder that it may not leave."""

    def __init__(self, document: Document, folder: Path, root: Path, texts: dict[Path, str]) -> None:
        self._document = document
        self._folder = folder
        self._root = root
        self._texts = texts
        self._bytes = 0

    def files(self, entries: Sequence[FileEntry]) -> tuple[TaskFile, ...]:
        files: dict[str, TaskFile] = {}
        layout = Layout()
        if len(entries) > FILES_MAX:
            self._document.fault(("files",), f"expected at most {FILES_MAX:,} files, found {len(entries):,}")
        for index, entry in enumerate(entries[:FILES_MAX]):
            place = ("files", index)
            name = str(PurePosixPath(entry.name))
            if not is_plain_path(entry.name):
                self._document.fault(
                    (*place, "name"), f'expected a relative path without "..", found "{one_line(entry.name)}"'
                )
            elif not layout.add(entry.name):
                self._document.fault((*place, "name"), f'duplicate file name "{entry.name}"')
            elif entry.source == SUBMISSION:
                files[name] = TaskFile(name, None)
            else:
                files[name] = TaskFile(name, self.text((*place, "source"), entry.source) or "")
        submissions = sum(entry.source == SUBMISSION for entry in entries)
        if submissions != 1 and (entries or self._document.has_no_faults("files")):
            self._document.fault(("files",), f"expected one file with the source {SUBMISSION}, found {submissions}")
        return tuple(files.values())

    def text(self, place: Place, source: str) -> str | None:
        """Return the text of the file `source`; None, and a fault at `place`, if it cannot be read."""
        try:
            path = (self._folder / source).resolve()
            if not path.is_relative_to(self._root):
                self._document.fault(place, f'"{one_line(source)}" is outside {self._root}')
                return None
            # By the path with its links: one may lead somewhere else the next time.
            text = self._texts[self._folder / source] = read_text(path, FILE_BYTES_MAX)
        except InputError as error:
            self._document.fault(place, error.message)
            return None
        except (OSError, RuntimeError, ValueError) as error:
            self._document.fault(place, f'invalid path "{one_line(source)}": {error}')
            return None
        within = self._bytes <= TASK_BYTES_MAX
        self._bytes += len(text.encode())
        if within and self._bytes > TASK_BYTES_MAX:
            self._document.fault(place, f"the files of the task exceed the limit of {TASK_BYTES_MAX:,} bytes")
        return text


def _cases(
    document: Document,
    place: tuple[str, ...],
    entries: Sequence[Mapping[str, Any]],
    generator: Signature | None,
    multi_gpu: bool,
) -> tuple[Mapping[str, CaseValue], ...]:
    """Return the cases; `generator` is the signature of `generate_input`, None if only the judge can tell."""
    supplied = ("rank",) if multi_gpu else ()
    cases = []
    for index, entry in enumerate(entries):
        case = {}
        if len(entry) > ARGUMENTS_MAX:
            document.fault((*place, index), f"has {len(entry)} arguments (limit {ARGUMENTS_MAX})")
        for name, value in entry.items():
            try:
                case[name] = case_value(value)
            except ValueError as error:
                document.fault((*place, index, name), str(error))
        if multi_gpu and "world_size" not in case:
            document.fault((*place, index), "has no world_size, which a multi_gpu task needs")
        # A case that lost a value to another fault has to lack it here.
        if generator is not None and len(case) == len(entry):
            for name, message in case_faults(generator, case, supplied):
                document.fault((*place, index, name) if name else (*place, index), message)
        cases.append(case)
    return tuple(cases)


def deadline(document: Document, place: Place, text: str | None) -> datetime | None:
    """Return the time in UTC that an ISO date or time names; None, and a fault at `place`, if it names none."""
    if not text:
        return None
    try:
        return moment_in_utc(text)
    except (ValueError, OverflowError):
        years = f"in the years {YEAR_MIN} to {YEAR_MAX}"
        expected = f'an ISO date or time such as "2030-12-31" or "2030-12-31T18:00+01:00", {years}'
        document.fault(place, f'expected {expected}, found "{one_line(text)}"')
        return None
