"""The preview of a submission: command and batch script for each GPU."""

import shlex
from collections.abc import Iterator, Sequence

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static, Tab, Tabs

from hpc_board.domain.draft import Preview
from hpc_board.model.gpu import Gpu
from hpc_board.schedulers import Remark, kind_of
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.widgets.source_view import SourceView


class PreviewPane(Vertical):
    """The scripts of a draft, a tab for each GPU."""

    _previews: tuple[Preview, ...] = ()
    _reason = ""

    def compose(self) -> ComposeResult:
        yield Tabs(id="preview-gpus")
        yield Static(id="command", markup=False)
        yield Static(id="unusual", markup=False)
        yield SourceView("Script", view="script", framed=False)

    def on_mount(self) -> None:
        self._show(None)

    async def show(self, previews: Sequence[Preview], reason: str = "") -> None:
        """Show these scripts, and keep the selected GPU if it is among them; without one, show the `reason`."""
        if (tuple(previews), reason) == (self._previews, self._reason):
            return
        self._reason = reason
        tabs = self.query_one(Tabs)
        before = [preview.gpu.name for preview in self._previews]
        names = [preview.gpu.name for preview in previews]
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
        remarks = unusual(preview.gpu, preview.script) if preview else ()
        notes = self.query_one("#unusual", Static)
        notes.display = bool(remarks)
        notes.update(Text("\n").join(toned(remark.words, Tone.WAITING, 300) for remark in remarks))
        source = self.query_one(SourceView)
        source.display = preview is not None
        if preview is None:
            words = self._reason or "The batch script appears here once file, task and GPU are chosen."
            self.query_one("#command", Static).update(toned(words, Tone.MUTED, 500))
            return
        command = toned(shlex.join(preview.command), Tone.MUTED, 1000)
        self.query_one("#command", Static).update(Text.assemble(("$ ", Tone.ACCENT.value), command))
        source.show_source(preview.script, "sh", [line for remark in remarks for line in remark.lines])


def unusual(gpu: Gpu, script: str) -> tuple[Remark, ...]:
    """Return remarks on the script of a job for `gpu`."""
    lines = script.splitlines()
    return tuple(_remarks(gpu, lines))


def _remarks(gpu: Gpu, lines: list[str]) -> Iterator[Remark]:
    if gpu.template is not None:
        yield Remark(f"Script from the template of the settings: {gpu.template}")
    yield from kind_of(gpu.cluster).remarks(gpu, lines)
    if gpu.container is not None:
        yield Remark(f"The job runs in a container: {gpu.container.runtime}, {gpu.container.image}")
    if gpu.emulated:
        yield Remark(f"{gpu.name} is emulated on a CPU: the times are not those of the GPU.")
