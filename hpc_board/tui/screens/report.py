"""The report of a run, page by page, updated while the run is in flight."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual import getters
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.widget import Widget
from textual.widgets import Static

from hpc_board.board import Board
from hpc_board.board.standings import leader_of
from hpc_board.domain.comparison import LeaderRun
from hpc_board.domain.reference import ratio_of
from hpc_board.domain.run import Run, RunState
from hpc_board.domain.submission import NOTE_CHARACTERS_MAX
from hpc_board.errors import Refused
from hpc_board.model.result import Case, Result, Verdict
from hpc_board.model.text import one_line, printable
from hpc_board.report.blocks import Bars, Facts, Paragraph
from hpc_board.report.formatting import score_text
from hpc_board.report.logs import nothing_printed, profile_text, run_logs
from hpc_board.report.plain import BARS_FROM
from hpc_board.report.rooflines import has_roofline, roofline_report
from hpc_board.report.run_progress import BegunCase, begun_cases
from hpc_board.report.run_words import canceller
from hpc_board.report.runs import machine_blocks, origin_facts, run_evidence, speedup_facts
from hpc_board.report.times import processors_of
from hpc_board.report.tones import profile_tones
from hpc_board.tui import targets
from hpc_board.tui.formatting import since, state
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.screens.base import Clock, is_ready_to_rank
from hpc_board.tui.screens.run_keys import NamedRun, RunScreen
from hpc_board.tui.verbs import binding, page_bindings
from hpc_board.tui.widgets.bars import PageTabs
from hpc_board.tui.widgets.blocks import Blocks, set_style, show_text, speedup_cell
from hpc_board.tui.widgets.cases import CasesPane
from hpc_board.tui.widgets.filter_line import FilterLine
from hpc_board.tui.widgets.progress_line import ProgressLine, RunRead, UsualTimes, read_run
from hpc_board.tui.widgets.text_pane import SourceText, SourceView, TextPane, source_of

_PAGES = (
    ("overview", "Overview"),
    ("cases", "Cases"),
    ("log", "Log"),
    ("code", "Code"),
    ("evidence", "Evidence"),
    ("profile", "Profile"),
    ("build", "Build"),
    ("roof", "Roof"),
)
"""The pages by their digits; those that only some runs have are the last ones."""
_NAMES = tuple(name for name, _ in _PAGES)

_LACKING = {
    "profile": "No profile: runs in mode profile or sanitize have one; s submits the file.",
    "build": "No build log: nothing was compiled.",
    "roof": "No roofs: the task states no minimal work, the peaks of the device are unknown, or the run has no times.",
}
"""The reasons for which a run has no such page."""


_NEXT_RANKED = "Next: s submits it in mode ranked. Only ranked runs enter the standings."
_NEXT_EDIT = "Next: e edits the file, s submits it again."
_NEXT_RERUN = "Next: R reruns it."
_ROOF_SIDES = 6
"""The columns beside the contents of the page Roof, and the lines around them."""

_PROFILE_SIDES = 5
"""The cells beside the lines of the page Profile."""

_BESIDE_CASES = 8
"""The lines of the panels of cases without times that are not cases."""

_OVERVIEW_NEXT = "Press 1 for the overview."


class ReportScreen(RunScreen):
    """A run on several pages, read again while the run is in flight."""

    NAME: ClassVar[str] = "Run"
    BINDINGS: ClassVar[list[BindingType]] = [
        binding("search", "Search the text beside the overview or the cases"),
        *page_bindings(_PAGES),
    ]
    SHOWS_OUTPUT: ClassVar[bool] = True
    LOADED: ClassVar[tuple[str, ...]] = ("run",)
    HELP: ClassVar[str] = (
        "While the run is in flight, progress and log are updated; the view follows the log while its end is visible. "
        "The digits open the pages; [ and ] switch to the previous and the next one. The log has the kernel's output, "
        "which comes with the result, and the end of the batch script's output, without control characters. The "
        "roofs are the peaks in the vendor's data sheet, for arithmetic in the fastest matrix format; the points use "
        "the minimal work that the task states."
    )

    blocks = getters.query_one("#overview", Blocks)
    cases_pane = getters.query_one(CasesPane)
    printed = getters.query_one("#printed", TextPane)
    build = getters.query_one("#build", TextPane)
    profile = getters.query_one("#profile", TextPane)
    evidence = getters.query_one("#evidence", Blocks)
    roof = getters.query_one("#roof", Blocks)
    submitted = getters.query_one("#submitted", SourceView)
    page_tabs = getters.query_one(PageTabs)
    headline = getters.query_one("#headline", Static)
    progress_line = getters.query_one(ProgressLine)

    def __init__(self, board: Board, now: Clock, target: targets.Report) -> None:
        super().__init__(board, now, target)
        self.run_id = target.run
        self._read: RunRead | None = None
        self._best: LeaderRun | None = None
        self._file: SourceText | None = None
        """The submitted file, once it has been read; without a name it is the reason why the user may not read it."""
        self._page = "overview"
        self._usual_times: UsualTimes = {}

    def compose_body(self) -> ComposeResult:
        yield Static(toned("Loading the run …", Tone.MUTED), id="headline", markup=False)
        yield ProgressLine(id="progress-line")
        yield PageTabs(_PAGES)
        with Container(id="panes"):
            yield Blocks("Overview", id="overview")
            yield CasesPane(id="cases-pane")
            yield TextPane("Log", view="log", id="printed")
            yield SourceView("Code", view="submitted-lines", id="submitted")
            yield Blocks("Evidence", id="evidence")
            yield TextPane("Profile", view="profile-log", id="profile", tones=profile_tones)
            yield TextPane("Build", view="build-log", id="build")
            yield Blocks("Roof", id="roof")

    def begin(self) -> None:
        self.show_place(f"Run {self.run_id}")
        self.submitted.say("Loading the file …")
        # The layout follows the run.
        self.query_one("#panes").visible = False

    def look_again(self) -> None:
        if self._read is None or not self._read.run.state.ended:
            self.ask("run", self._read_run, self._show_run, patient=True)
        if self._read is not None:
            self._show_headline(self._read)

    def show_ages(self) -> None:
        super().show_ages()
        if self._read is not None:
            self._show_headline(self._read)

    def read_again(self) -> None:
        # An ended run is not read again by `look_again`.
        self.ask("run", self._read_run, self._show_run)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "show" and parameters[0] not in self._shown_pages:
            return None
        if action == "search" and (self._searched is None or any(field.display for field in self.query(FilterLine))):
            return False
        return super().check_action(action, parameters)

    def reason_against(self, action: str) -> str:
        for page, reason in _LACKING.items():
            if action == f"show('{page}')" and page not in self._shown_pages:
                has_result = self._read is not None and self._read.run.state.ended
                return reason if has_result else "This page appears with the result."
        return super().reason_against(action)

    def action_show(self, page: str) -> None:
        self._page = page
        self.fit_body()
        self._main_of(page).focus()
        if page == "log" and self._read is not None and not self._read.run.state.ended:
            self.printed.view.anchor()

    def action_turn(self, by: int) -> None:
        pages = self._shown_pages
        self.action_show(pages[(pages.index(self._page) + by) % len(pages)])

    def action_code(self) -> None:
        self.action_show("code")

    def action_search(self) -> None:
        if self._searched is not None:
            self._searched.action_search()

    @property
    def _searched(self) -> TextPane | None:
        """Return the first text in sight, if any."""
        return next((pane for pane in self.query(TextPane) if pane.display and not pane.is_empty), None)

    @property
    def run_in_hand(self) -> Run | NamedRun | None:
        return None if self._read is None else self._read.run

    @property
    def _panes(self) -> Mapping[str, Widget]:
        return dict(zip(_NAMES, self.query_one("#panes").children, strict=True))

    def _main_of(self, page: str) -> Widget:
        pane = self._panes[page]
        if isinstance(pane, TextPane):
            return pane.view
        return pane.query_one("#cases") if page == "cases" else pane

    def fit_body(self) -> None:
        """Show the open page, and where they fit log, cases and code with the overview, and the code with the cases."""
        if (read := self._read) is None:
            return
        is_overview, is_huge, is_high = self._page == "overview", self.has_class("-huge"), self.has_class("-high")
        log = is_overview and self.has_class("-wide") and not self.printed.is_empty
        has_room = is_huge or (is_overview and is_high and not log)
        code = self._has_code and has_room and self._page in ("overview", "cases")
        if code or self._page == "code":
            self._read_code()
        cases = is_huge and is_overview and is_high and bool(_cases(read))
        beside = {self._page, *("log",) * log, *("code",) * code, *("cases",) * cases}
        self._show_overview(read, cases=not cases)
        if read.result is not None:
            self._show_profile(read.run, read.result)
            self._show_roof(read.result)
        self.cases_pane.has_bars = not cases
        for page, pane in self._panes.items():
            pane.display = page in beside
        panes = self.query_one("#panes")
        panes.set_class(len(beside) > 1, "-beside")
        panes.set_class(log and code and not cases, "-both")
        panes.set_class(cases and (log or code), "-below")
        panes.set_class(cases and log is not code, "-across")
        is_divided = cases and read.run.state.ended
        set_style(panes, "grid_rows", self._grid_rows(_cases(read), log=log, code=code) if is_divided else None)
        has = {"cases": bool(_cases(read)), "log": not self.printed.is_empty, "code": self._has_code}
        shown = self._shown_pages
        self.page_tabs.show_page(
            self._page,
            empty=[page for page, full in has.items() if not full],
            hidden=[page for page in _NAMES if page not in shown],
        )

    def _grid_rows(self, cases: Sequence[Case | BegunCase], *, log: bool, code: bool) -> tuple[str, ...]:
        """Return the heights of overview and cases, and of the texts below, by the lines that these have at most."""
        height = self.size.height
        if all(_is_plain_pass(case) for case in cases):
            return f"{min(2 * len(cases) + _BESIDE_CASES, height * 3 // 5)}", "1fr"
        lines = (self.printed.view.line_count * log, self.submitted.view.line_count * code)
        return ("1fr", f"{min(max(lines) + 2, height * 2 // 5)}") if any(lines) else ("1fr",)

    def _show_overview(self, read: RunRead, *, cases: bool) -> None:
        """Show the overview, without the output and, unless it has its `cases`, their tables: these are beside it."""
        logs = self.printed.is_empty or not self.has_class("-wide")
        run, user = read.run, self.board.user
        first, *rest = read.outcome(user, logs=logs, tables=cases, tests=True, best=self._best)
        if self.size.width < BARS_FROM:
            rest = [block for block in rest if not isinstance(block, Bars)]
        above = []
        if run.user == user and canceller(run) == user:
            above.append(Paragraph(_NEXT_RERUN))
        if run.user == user and run.verdict is not None and run.verdict.blames_kernel:
            above.append(Paragraph(_NEXT_EDIT))
        if run.user == user and is_ready_to_rank(run):
            above.append(Paragraph(_NEXT_RANKED))
        if notes := [note for note in (run.note, *(each.text for each in run.remarks.notes)) if note]:
            above.append(Paragraph("\n".join(f"Note: {one_line(note, NOTE_CHARACTERS_MAX)}" for note in notes)))
        facts = (*speedup_facts(run), *origin_facts(run, read.children))
        self.blocks.show((first, *above, *rest, *([Facts(facts)] if facts else [])))

    def _show_profile(self, run: Run, result: Result) -> None:
        """Show the profile in the width of the screen; the key y copies it with whole names."""
        text = profile_text(result, run.file_name, self.size.width - _PROFILE_SIDES)
        self.profile.show(text)
        self.profile.copied = result.profile.text

    def _show_roof(self, result: Result) -> None:
        width, height = self.size.width - _ROOF_SIDES, self.size.height - _ROOF_SIDES
        self.roof.show(roofline_report(result, self._best, width, height))

    def _read_code(self) -> None:
        if self._file is None:
            self.ask("code", self._code, self._show_code, patient=True)

    @property
    def _has_code(self) -> bool:
        """Return whether the submitted file is known, or may be read."""
        return self._file is None or bool(self._file.name)

    def _code(self) -> SourceText:
        try:
            return source_of(self.board, self.run_id)
        except Refused as error:
            return SourceText(f"You may not read this file: {error.message}", "")

    def _set_code(self, file: SourceText) -> None:
        self._file = file
        if file.name:
            self.submitted.show_source(file)
        else:
            self.submitted.say(file.text)

    def _show_code(self, file: SourceText) -> None:
        self._set_code(file)
        self.fit_body()
        if self._page == "code":
            self.submitted.view.focus()

    @property
    def _shown_pages(self) -> list[str]:
        """Return the names of the pages, without those that only some runs have as long as they are empty."""
        result = None if self._read is None else self._read.result
        has = {
            "build": result is not None and bool(result.build.text),
            "profile": result is not None and bool(result.profile.text),
            "roof": result is not None and has_roofline(result),
        }
        return [name for name in _NAMES if has.get(name, True)]

    def _read_run(self) -> tuple[RunRead, LeaderRun | None, SourceText | None]:
        read = read_run(self.board, self.run_id, self._usual_times)
        # The layout of a huge terminal follows the file, too.
        file = self._code() if self._file is None and self.has_class("-huge") else None
        return read, leader_of(self.board, read.run, read.result, read.placing), file

    def _show_run(self, answer: tuple[RunRead, LeaderRun | None, SourceText | None]) -> None:
        is_first = self._read is None
        read, self._best, file = answer
        self._read = read
        if file is not None:
            self._set_code(file)
        run, result = read.run, read.result
        self.refresh_bindings()
        self._show_headline(read)
        self.evidence.show(run_evidence(run, read.history, result, read.children), tuple(machine_blocks(result)))
        waits = "" if run.state.ended else " yet; each appears when the job starts it"
        processors = processors_of(result) if result else None
        nothing = f"No cases{waits}.\n{_OVERVIEW_NEXT}"
        self.cases_pane.show(_cases(read), nothing=nothing, processors=processors, best=self._best)
        logs = run_logs(result, read.log)
        text = "\n".join(f"── {log.title}\n{log.text.rstrip()}\n" for log in logs)
        # The log of a run on its node may be beside the overview.
        next_step = "" if run.state in (RunState.RUNNING, RunState.COLLECTING) else f"\n{_OVERVIEW_NEXT}"
        self.printed.show(text, nothing=f"{nothing_printed(run)}{next_step}", growing=not run.state.ended)
        build = printable(result.build.text, len(result.build.text)) if result else ""
        self.build.show(build)
        self.fit_body()
        if is_first:
            self.query_one("#panes").visible = True
            self._main_of(self._page).focus()

    def _show_headline(self, read: RunRead) -> None:
        run = read.run
        word, tone = state(run)
        whose = "" if run.user == self.board.user else f" by {run.author}"
        what = toned(f"{run.task} on {run.gpu}, {run.mode}{whose}: ")
        # While the board does not answer, the run may have ended.
        now = (self.has_failed("run") and self.answered_at("run")) or self.now()
        age = toned(since(run, now), Tone.MUTED)
        placing = read.placing
        place = "first place" if placing is not None and placing.rank == 1 and placing.users > 1 else ""
        outcome = [Text(words, f"bold {tone.value}") for words in (word, place)]
        score = toned(score_text(run.score_s)), speedup_cell(ratio_of(run.speedup))
        of = toned("over the task's reference" if run.speedup is not None and self.has_class("-wide") else "")
        show_text(self.headline, Text.assemble(what, " ", Text(" ").join(filter(None, [*outcome, *score, of, age]))))
        self.progress_line.show(read, now)


def _is_plain_pass(case: Case | BegunCase) -> bool:
    return isinstance(case, Case) and case.verdict is Verdict.PASS and case.timing is None


def _cases(read: RunRead) -> tuple[Case | BegunCase, ...]:
    """Return the cases of a result, or those that a run in flight has begun."""
    if read.result is not None:
        return read.result.cases
    return () if read.run.state.ended else tuple(begun_cases(read.progress))
