"""The list of a task's GPUs with tick boxes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from hpc_board.model.gpu import Gpu, GpuStatus
from hpc_board.report.formatting import span_text
from hpc_board.tui.formatting import capacity
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.widgets.title_bar import FRESH

_AGE = "age"


class GpuList(OptionList):
    """GPUs with partition, free devices and waiting jobs; "[x]" marks the ticked ones."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "select", "Tick", show=False, tooltip="Tick or untick the GPU (in the list of GPUs)"),
        Binding("asterisk", "toggle_all", "All", show=False, tooltip="Tick all GPUs, or none (in the list of GPUs)"),
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
        expected: Mapping[str, str] | None = None,
        remarks: Sequence[str] = (),
    ) -> None:
        """Show these GPUs; `statuses` is None before the schedulers' first answer.

        `expected` has the expected starts of waiting jobs by GPU, as far as known; `remarks` are lines below the GPUs.
        """
        self._offered = tuple(gpu.name for gpu in gpus)
        self._ticked = tuple(name for name in self._offered if name in ticked)
        place = self.highlighted
        name_width = max((len(gpu.name) for gpu in gpus), default=0)
        partition_width = max((len(_place(gpu)) for gpu in gpus), default=0)
        options = []
        for gpu in gpus:
            mark = "[x]" if gpu.name in self._ticked else "[ ]"
            line = Text.assemble((f"{mark} ", Tone.ACCENT.value if gpu.name in self._ticked else Tone.MUTED.value))
            line.append(gpu.name.ljust(name_width + 2), "bold")
            line.append(_place(gpu).ljust(partition_width + 2), Tone.MUTED.value)
            line.append_text(_state(gpu, statuses))
            if start := (expected or {}).get(gpu.name):
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
        free, queued = capacity(status.availability)
        # A narrow list cuts the end of lines: the warning comes first.
        warning = ("  python?" if status.warning else "", Tone.WAITING.value)
        line = Text.assemble(f"{free:>10}", warning, "  ", (f"{queued:>11}", Tone.MUTED.value))
    if gpu.emulated:
        line = Text.assemble(line, ("  emulated", Tone.WAITING.value))
    if status is not None and status.problem:
        line = Text.assemble(line, "  ", toned(status.problem, Tone.MUTED))
    return line
