"""The parts of the submit form: its fields, the list of GPUs, and the preview of the scripts."""

import asyncio
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.geometry import Region
from textual.message import Message
from textual.reactive import var
from textual.suggester import Suggester
from textual.widgets import Input, OptionList, Select, Static, Tab, Tabs
from textual.widgets.option_list import Option

from hpc_board.domain.draft import Preview
from hpc_board.domain.job_options import NO_OPTIONS, OPTION_NAMES, OptionRules, completed, parsed
from hpc_board.domain.submission import EXTENSIONS
from hpc_board.errors import BoardError, InputError
from hpc_board.model.gpu import Gpu, GpuStatus
from hpc_board.model.task import Language
from hpc_board.report.formatting import span_text
from hpc_board.report.tasks import known_count
from hpc_board.schedulers import Remark, kind_of
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.verbs import binding
from hpc_board.tui.widgets.bars import FRESH
from hpc_board.tui.widgets.blocks import facts
from hpc_board.tui.widgets.list_pane import LOADING
from hpc_board.tui.widgets.text_pane import SourceText, SourceView

_ENTRIES_MAX = 5000


class _Completer(Suggester):
    """The completion of a value by a function, in a thread."""

    def __init__(self, complete: Callable[[str], str | None]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._complete = complete

    async def get_suggestion(self, value: str) -> str | None:
        return await asyncio.to_thread(self._complete, value)


class CompletedInput(Input):
    """A field with completion by `complete`; Tab or the right arrow accepts the grey text."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "complete", show=False)]

    def __init__(self, complete: Callable[[str], str | None], *, value: str, id: str) -> None:
        super().__init__(value, suggester=_Completer(complete), compact=True, select_on_focus=False, id=id)

    def action_complete(self) -> None:
        before = self.value
        if self.cursor_at_end:
            self.action_cursor_right()
        if self.value == before:
            self.screen.focus_next()


class PathInput(CompletedInput):
    """A field for the path of a submission; the arrows go through the files of the folder."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "next_file(1)", show=False),
        Binding("up", "next_file(-1)", show=False),
    ]

    def __init__(self, *, value: str, id: str) -> None:
        super().__init__(completion, value=value, id=id)
        self._offered = value

    def show_languages(self, languages: Iterable[Language]) -> None:
        """Show the file name extensions of these languages in an empty field."""
        *others, last = [ending for language in languages for ending in language.extensions]
        self.placeholder = f"{' or '.join(filter(None, (', '.join(others), last)))} file"

    def on_paste(self, event: events.Paste) -> None:
        """Remove the quotes and blanks around a path, as terminals paste a dropped file."""
        event.text = _unquoted(event.text)

    def on_resize(self) -> None:
        """Show the cursor: of a long path that the app has filled in, the end is seen, which has the file's name."""
        self.scroll_to_region(Region(cell_len(self.value[: self.cursor_position]), 0, 1, 1), force=True, animate=False)

    def offer(self, value: str) -> None:
        """Set a default value, which the user can extend or overwrite."""
        self._offered = self.value = value
        self.cursor_position = len(value)

    def replace(self, text: str, start: int, end: int) -> None:
        """Replace a range by `text`; an absolute path replaces a default or incomplete value as a whole."""
        if start == end and text.startswith(("/", "~")) and self._begins_anew(text, start):
            start, end = 0, len(self.value)
        super().replace(text, start, end)

    def _begins_anew(self, text: str, cursor: int) -> bool:
        """Return whether a path that begins with `text` replaces the value instead of extending it."""
        pasted = len(text) > 1
        at_end = cursor == len(self.value)
        if self.value == self._offered:
            return pasted or at_end or cursor == 0
        # A second "/" typed after a folder is a typing error, not an absolute path.
        return at_end and self.value.endswith("/") and (pasted or text == "~")

    async def action_next_file(self, step: int) -> None:
        head, slash, begun = self.value.rpartition("/")
        names = await asyncio.to_thread(files_in, head + slash)
        beyond = [name for name in names if (name > begun if step > 0 else name < begun)] or names
        if beyond:
            self.offer(head + slash + beyond[0 if step > 0 else -1])

    @property
    def named(self) -> Path | None:
        """Return the path in the field with "~" expanded; None without one."""
        return expanded(self.value) if self.value.strip() else None

    @property
    def path(self) -> Path | None:
        """Return the path in the field with "~" expanded; None unless its extension can be submitted."""
        path = self.named
        return path if path is not None and path.suffix in EXTENSIONS else None


def expanded(text: str) -> Path:
    """Return the path in `text`, with "~" expanded if the user has a home folder."""
    path = Path(text.strip().replace("\0", ""))
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def _unquoted(text: str) -> str:
    """Return the first line of `text` without blanks around it, and unquoted if it is one word of a shell."""
    line = (text.splitlines() or [""])[0].strip()
    try:
        words = shlex.split(line)
    except ValueError:
        return line
    return words[0] if len(words) == 1 else line


def completion(value: str) -> str | None:
    """Return the first folder or submission file that begins with `value`, if any."""
    head, slash, begun = value.rpartition("/")
    names = _entries(head + slash, begun)
    return head + slash + names[0] if begun and names else None


def files_in(folder: str) -> list[str]:
    """Return the names of the files in a folder, "" for the present one, that can be submitted."""
    return [name for name in _entries(folder) if not name.endswith("/")]


def _entries(folder: str, begun: str = "") -> list[str]:
    """Return the names of folders, with a slash, and submission files that begin with `begun`; none after an error."""
    names = []
    try:
        for entry in islice(expanded(folder or ".").iterdir(), _ENTRIES_MAX):
            if not entry.name.startswith(begun) or not entry.name.isprintable():
                continue
            if entry.is_dir():
                names.append(entry.name + "/")
            elif entry.suffix in EXTENSIONS:
                names.append(entry.name)
    except (OSError, ValueError):
        return []
    return sorted(names)


_EXAMPLES = (("qos", "qos=night"), ("time", "time=5"))


class OptionsInput(CompletedInput):
    """A field for options such as "qos=night time=5"."""

    rules: var[OptionRules] = var(OptionRules())
    """The rules of the board."""
    known: var[Collection[str]] = var(OPTION_NAMES)
    """The options that the schedulers of the form's GPUs have."""
    header = NO_OPTIONS
    """The options in the header of the file."""
    refusal: BoardError | None = None
    """The error with which the board refuses the options."""

    def __init__(self, *, value: str, id: str) -> None:
        super().__init__(lambda text: completed(text, self._names), value=value, id=id)

    def watch_rules(self) -> None:
        shown = [text for name, text in _EXAMPLES if name in self._names]
        self.placeholder = f"optional, such as {' '.join(shown)}" if shown else "optional"

    def watch_known(self) -> None:
        self.watch_rules()

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for name in self.rules.names if name in self.known)

    @property
    def fault(self) -> str:
        """Return the fault of the field with its remedy; empty without one."""
        try:
            options = parsed(self.value)
        except InputError as found:
            permitted = ", ".join(f"{name}=…" for name in self._names)
            return f"{found.message} Permitted: {permitted or 'none'}"
        error = self.refusal
        try:
            self.rules.check(options, "this field")
        except BoardError as found:
            error = found
        return "" if error is None else f"{error.message} {error.hint}".strip()

    @property
    def remark(self) -> Text:
        """Return the text below the field: its fault, the options that apply without it, or the permitted ones."""
        # An incomplete name is not a fault yet.
        if (fault := self.fault) and completed(self.value, self._names) is None:
            return toned(fault, Tone.BAD, 300)
        if self.header.given:
            return toned(f"Set already: {self.header.brief} (the header).", Tone.MUTED, 300)
        permitted = ", ".join(self._names)
        return toned(f"Permitted: {permitted}" if permitted else "No options are allowed here.", Tone.MUTED, 300)


_AGE = "age"


class GpuList(OptionList):
    """GPUs with partition, free devices and waiting jobs; "[x]" marks the ticked ones."""

    BINDINGS: ClassVar[list[BindingType]] = [
        binding("select", "Select or deselect the GPU (in the list of GPUs)", show=False),
        binding("select_all", "Select all GPUs, or none (in the list of GPUs)"),
    ]

    class Ticked(Message):
        """A change of the ticked GPUs."""

        def __init__(self, names: tuple[str, ...]) -> None:
            super().__init__()
            self.names = names

    _offered: tuple[str, ...] = ()
    _ticked: tuple[str, ...] = ()
    _asked_at: datetime | None = None

    def show(
        self,
        gpus: Sequence[Gpu],
        statuses: Mapping[str, GpuStatus] | None,
        ticked: Sequence[str],
        expected: Mapping[str, str],
        held: Mapping[str, tuple[str, Tone]],
        remarks: Sequence[str],
    ) -> None:
        """Show these GPUs; `statuses` is None before the schedulers' first answer.

        `expected` has the expected starts of waiting jobs by GPU, as far as known, `held` the states of the user's
        runners by GPU; `remarks` are lines below the GPUs.
        """
        self._offered = tuple(gpu.name for gpu in gpus)
        self._ticked = tuple(name for name in self._offered if name in ticked)
        place = self.highlighted
        name_width = max((len(gpu.name) for gpu in gpus), default=0)
        partition_width = max((len(_place(gpu)) for gpu in gpus), default=0)
        options: list[Option] = []
        known = {""}
        for gpu in gpus:
            mark = "[x]" if gpu.name in self._ticked else "[ ]"
            line = Text.assemble((f"{mark} ", Tone.ACCENT.value if gpu.name in self._ticked else Tone.MUTED.value))
            line.append(gpu.name.ljust(name_width + 2), "bold")
            line.append(_place(gpu).ljust(partition_width + 2), Tone.MUTED.value)
            line.append_text(_state(gpu, statuses))
            problem = status.problem if (status := (statuses or {}).get(gpu.name)) else ""
            # The GPUs of a cluster have one reason.
            if problem not in known:
                known.add(problem)
                line.append("  ").append_text(toned(problem, Tone.MUTED))
            if gpu.name in held:
                word, tone = held[gpu.name]
                line.append(f"  {word}", tone.value)
            if start := expected.get(gpu.name):
                line.append(f"  start {start}", Tone.WAITING.value)
            options.append(Option(line))
        asked = [at for gpu in gpus if (status := (statuses or {}).get(gpu.name)) and (at := status.asked_at)]
        self._asked_at = min(asked, default=None)
        if self._asked_at is not None:
            options.append(Option("", id=_AGE, disabled=True))
        options += [Option(toned(remark, Tone.WAITING), disabled=True) for remark in remarks]
        self.clear_options()
        self.add_options(options)
        if gpus:
            self.highlighted = min(place or 0, len(gpus) - 1)

    @property
    def under_cursor(self) -> str | None:
        """Return the name of the GPU under the cursor, if any."""
        place = self.highlighted
        return self._offered[place] if place is not None and place < len(self._offered) else None

    @on(OptionList.OptionHighlighted)
    def _refresh_keys(self) -> None:
        """Let the line of keys offer those of the GPU under the cursor."""
        self.screen.refresh_bindings()

    def show_age(self, now: datetime) -> None:
        """Show the age of the schedulers' answers, which all clients of the board share."""
        if self._asked_at is not None:
            age = now - self._asked_at
            words = "updated just now" if age < FRESH else f"updated {span_text(age)} ago"
            self.replace_option_prompt(_AGE, toned(words, Tone.MUTED))

    def action_toggle_all(self) -> None:
        self.post_message(self.Ticked(() if self._ticked == self._offered else self._offered))

    @on(OptionList.OptionSelected)
    def _toggle(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        name = self._offered[event.option_index]
        self.post_message(
            self.Ticked(tuple(each for each in self._offered if (each in self._ticked) != (each == name)))
        )


def _place(gpu: Gpu) -> str:
    return gpu.partition or gpu.cluster.name


def _state(gpu: Gpu, statuses: Mapping[str, GpuStatus] | None) -> Text:
    status = (statuses or {}).get(gpu.name)
    if status is None:
        line = Text("asking …" if statuses is None else "", Tone.MUTED.value)
    elif status.problem:
        line = Text.assemble((f"{'no answer':>10}", Tone.BAD.value))
    else:
        counts = status.availability
        free = f"{known_count(counts.free)}/{known_count(counts.total)} free"
        queued = f"{known_count(counts.queued)} queued"
        # A narrow list cuts the end of lines: the warning comes first.
        warning = ("  python?" if status.warning else "", Tone.WAITING.value)
        line = Text.assemble(f"{free:>10}", warning, "  ", (f"{queued:>11}", Tone.MUTED.value))
    if gpu.emulated:
        line = Text.assemble(line, ("  emulated", Tone.WAITING.value))
    return line


Facts = Sequence[tuple[str, str]]
"""Names with values, one per line."""


class PreviewPane(Vertical):
    """The facts and scripts of a draft, a tab for each GPU."""

    _previews: tuple[Preview, ...] = ()
    _reason = LOADING
    _facts: Mapping[str, Facts] = MappingProxyType({})
    """The facts above the script, by GPU."""

    def compose(self) -> ComposeResult:
        yield Tabs(id="preview-gpus")
        yield Static(id="job-facts", markup=False)
        yield Static(id="command", markup=False)
        yield Static(id="unusual", markup=False)
        yield SourceView("Script", view="script", framed=False)

    def on_mount(self) -> None:
        self._show(None)

    async def show(
        self, previews: Sequence[Preview], reason: str = "", about: Mapping[str, Facts] = MappingProxyType({})
    ) -> None:
        """Show these scripts below the facts `about` their GPUs; without one, show the `reason`.

        The selected GPU stays if it is among them.
        """
        if (tuple(previews), reason, about) == (self._previews, self._reason, self._facts):
            return
        self._reason, self._facts = reason, about
        tabs = self.query_one(Tabs)
        before, names = _in_tabs(self._previews), _in_tabs(previews)
        self._previews = tuple(previews)
        if names != before:
            await tabs.clear()
            for index, name in enumerate(names):
                await tabs.add_tab(Tab(toned(name).plain, id=f"preview-{index}"))
        self._show_active()

    @on(Tabs.TabActivated)
    def _show_active(self, event: Tabs.TabActivated | None = None) -> None:
        if event is not None:
            event.stop()
        tab = self.query_one(Tabs).active_tab
        index = int((tab.id or "preview-0").removeprefix("preview-")) if tab else 0
        self._show(self._previews[index] if index < len(self._previews) else None)

    def _show(self, preview: Preview | None) -> None:
        self.query_one(Tabs).display = len(self._previews) > 1
        remarks = [*unusual(preview.gpu, preview.script)] if preview else []
        notes = self.query_one("#unusual", Static)
        notes.display = bool(remarks)
        notes.update(Text("\n").join(toned(remark.words, Tone.WAITING, 300) for remark in remarks))
        told = self.query_one("#job-facts", Static)
        rows = self._facts.get(preview.gpu.name, ()) if preview else ()
        told.display = bool(rows)
        told.update(facts(rows))
        source = self.query_one(SourceView)
        source.display = preview is not None
        if preview is None:
            self.query_one("#command", Static).update(toned(self._reason, Tone.MUTED, 500))
            return
        command = toned(shlex.join(preview.command), Tone.MUTED, 1000)
        self.query_one("#command", Static).update(Text.assemble(("$ ", Tone.ACCENT.value), command))
        marked = [line for remark in remarks for line in remark.lines]
        source.show_source(SourceText(preview.script, "job.sh"), marked=marked)


def _in_tabs(previews: Sequence[Preview]) -> list[str]:
    """Return the names of the GPUs with a tab; a single one needs none."""
    return [preview.gpu.name for preview in previews] if len(previews) > 1 else []


def unusual(gpu: Gpu, script: str) -> Iterator[Remark]:
    """Yield remarks on the script of a job for `gpu`."""
    if gpu.template is not None:
        yield Remark(f"Script from the template of the settings: {gpu.template}")
    yield from kind_of(gpu.cluster).remarks(gpu, script.splitlines())
    if gpu.container is not None:
        yield Remark(f"The job runs in a container: {gpu.container.runtime}, {gpu.container.image}")
    if gpu.emulated:
        yield Remark(f"{gpu.name} is emulated on a CPU: the times are not those of the GPU.")


PAUSE_SECONDS = 0.7
"""The pause after which a letter begins another name; that of Textual's open list."""

_Value = TypeVar("_Value")


class TypedSelect(Select[_Value]):
    """A list of choices; letters select the next one that begins with them, without opening the list.

    It takes letters, digits, `_` and `-`, so that no name acts as keys of the screen.
    """

    _begun = ""
    _typed_at = 0.0

    def __init__(self, options: Sequence[tuple[str, _Value]], **more: Any) -> None:
        self._choices = tuple(value for _, value in options)
        super().__init__(options, **more)

    def set_options(self, options: Iterable[tuple[RenderableType, _Value]]) -> None:
        options = tuple(options)
        self._choices = tuple(value for _, value in options)
        super().set_options(options)

    def check_consume_key(self, key: str, character: str | None = None) -> bool:
        del key
        return character is not None and (character.isalnum() or character in ("_", "-"))

    def on_key(self, event: events.Key) -> None:
        if event.character is None or not self.check_consume_key(event.key, event.character):
            return
        event.stop()
        event.prevent_default()
        is_new = event.time - self._typed_at > PAUSE_SECONDS
        self._typed_at = event.time
        self._begun = ("" if is_new else self._begun) + event.character.casefold()
        self._select_begun()

    def _select_begun(self) -> None:
        """Select the next choice that begins with the typed letters; a repeated letter is one of its own."""
        here = self._choices.index(self.value) if self.value in self._choices else -1
        for begun in dict.fromkeys((self._begun, self._begun[0] if len(set(self._begun)) == 1 else self._begun)):
            start = max(0, here + (len(begun) == 1))
            for choice in (*self._choices[start:], *self._choices[:start]):
                if str(choice).casefold().startswith(begun):
                    self.value = choice
                    return
