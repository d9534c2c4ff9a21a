"""Single widgets, each in an app of its own."""

from datetime import timedelta

import pytest
from textual.app import App, ComposeResult

from hpc_board.errors import SchedulerError
from hpc_board.report.blocks import Column, Facts, Paragraph, Table
from hpc_board.report.blocks import Tone as ReportTone
from hpc_board.tui import themes
from hpc_board.tui.messages import RunsState
from hpc_board.tui.palette import Tone, coded
from hpc_board.tui.widgets.bars import ErrorBox, TitleBar
from hpc_board.tui.widgets.blocks import Blocks, speedup_cell
from hpc_board.tui.widgets.description import Description
from tests.tui.driving import app_on, settled, text_of, until
from tests.tui.fake_board import NOW, FakeBoard

_BENCHMARKS = Table(
    (
        Column("#", right=True),
        Column("OUTCOME"),
        *(Column(title, right=True) for title in ("MEDIAN", "REFERENCE", "SPEEDUP", "MEAN", "STD ERROR", "CALLS")),
        Column("CASE", flexible=True),
        Column("MESSAGE", flexible=True),
    ),
    (
        (
            *("1", "pass", "12.0 µs", "17.3 µs", "1.44x", "12.1 µs", "± 0.02 µs", "100"),
            *("size: 1024; seed: 1", "the times vary by 21 %"),
        ),
        ("2", "wrong value", *("",) * 6, "size: 2048; seed: 1", ""),
    ),
)


@pytest.mark.parametrize(
    ("speedup", "text", "tone"), [(None, "", Tone.OWN), (0.999, "1.00x", Tone.BAD), (1.0, "1.00x", Tone.OWN)]
)
def test_a_speedup_below_1_has_the_tone_of_something_bad(speedup: float | None, text: str, tone: Tone) -> None:
    cell = speedup_cell(speedup, Tone.OWN)
    assert (cell.plain, cell.style) == (text, tone.value)


@pytest.mark.parametrize(
    ("words", "shown", "code"),
    [
        ("for whole nodes (`exclusive: true`).", "for whole nodes (exclusive: true).", ["exclusive: true"]),
        ("`a` and `b`\n`c`", "a and b\nc", ["a", "b", "c"]),
        ("[bold]`x`[/] \x1b[31mred", "[bold]x[/] red", ["x"]),
        ("in `main': undefined reference to `f()'", "in `main': undefined reference to `f()'", []),
        ("echo `date", "echo `date", []),
    ],
)
def test_code_in_a_text_has_a_style_in_place_of_backticks(words: str, shown: str, code: list[str]) -> None:
    text = coded(words, Tone.MUTED)
    assert text.plain == shown
    assert [text.plain[span.start : span.end] for span in text.spans] == code
    assert text.style == Tone.MUTED.value


async def test_a_sentence_breaks_at_no_unit_and_keeps_the_tone_of_its_first_words() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 30)) as pilot:
        await settled(pilot)
        await pilot.app.screen.mount(Blocks(id="sentence"))
        shown = pilot.app.screen.query_one("#sentence", Blocks)
        shown.styles.width, shown.styles.height = 38, 6
        shown.show((Paragraph("Passed: 5 tests. First place: 10.2 µs.", ReportTone.GOOD, 16),))
        await settled(pilot)
        strips = [shown.query_one("#blocks").render_line(line) for line in range(2)]
        assert [strip.text.rstrip() for strip in strips] == ["Passed: 5 tests. First place:", "10.2 µs."]
        parts = [(part.text, part.style and part.style.color) for part in strips[0]]
        (_, toned), (_, rest) = [part for part in parts if part[0].strip()]
        assert toned != rest


async def test_a_foreign_text_keeps_its_backticks() -> None:
    foreign = "error: use of undeclared identifier `idx` in `kernel`"
    async with app_on(FakeBoard()).run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await pilot.app.screen.mount(Blocks(id="foreign"))
        shown = pilot.app.screen.query_one("#foreign", Blocks)
        shown.styles.height = 8
        shown.show((Paragraph(foreign), Facts((("reason", "`sbatch` refused"),))))
        pilot.app.screen.query_one(ErrorBox).show(SchedulerError(foreign))
        await settled(pilot)
        assert text_of(pilot.app).count(foreign) == 2
        assert "`sbatch` refused" in text_of(pilot.app)


class _Plain(App[None]):
    """An app in the product's colours."""

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.tone_variables(self.current_theme)

    def __init__(self) -> None:
        super().__init__()
        themes.register(self)


class _TableApp(_Plain):
    def compose(self) -> ComposeResult:
        yield Blocks()

    def on_mount(self) -> None:
        self.query_one(Blocks).show([_BENCHMARKS])


_MARKDOWN = """
# The task

Add *two* vectors: `c[i] = a[i] + b[i]`, as [the paper](https://example.org/paper) does, in a sentence that is long.

- first
  - within
- second

9. nine
10. ten, with as many words as it takes to go on in a second line

> Quoted
> words

    x = [1, 2]

| size | time |
|---|---|
| 1 | 2 ms |

---
The end <b>here</b>.
"""

_LINES = """
The task

Add two vectors: c[i] = a[i] + b[i], as
the paper (https://example.org/paper)
does, in a sentence that is long.

 • first
    • within
 • second

  9 nine
 10 ten, with as many words as it takes
    to go on in a second line

▌ Quoted words


 x = [1, 2]



 size  time
 ──────────
 1     2 ms


----------------------------------------

The end <b>here</b>.
"""


class _DescriptionApp(_Plain):
    CSS = "Description { height: auto; }"

    def compose(self) -> ComposeResult:
        yield Description()


@pytest.mark.parametrize("width", range(40, 131, 5))
async def test_a_table_leaves_out_few_numbers_and_says_how_many(width: int) -> None:
    async with _TableApp().run_test(size=(width, 40)) as pilot:
        await until(pilot, lambda: "Median" in text_of(pilot.app))
        text = text_of(pilot.app)
        cells = dict(zip((column.title for column in _BENCHMARKS.columns), _BENCHMARKS.rows[0], strict=True))
        shown = [column.title for column in _BENCHMARKS.columns if column.title.capitalize() in text]
        numbers = [column.title for column in _BENCHMARKS.columns if column.right]
        assert all(cells[title] in text for title in shown if title in numbers)
        missing = len(_BENCHMARKS.columns) - len(shown)
        words = f"{missing} column{'s' * (missing > 1)} hidden. Widen the terminal."
        assert (words in text) if missing else ("Widen the terminal" not in text)


async def test_a_table_of_80_cells_keeps_the_time_of_the_reference() -> None:
    async with _TableApp().run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Median" in text_of(pilot.app))
        assert "17.3 µs" in text_of(pilot.app)


async def test_a_description_is_wrapped_at_words_and_its_parts_keep_their_form() -> None:
    app = _DescriptionApp()
    async with app.run_test(size=(40, 40)) as pilot:
        description = app.query_one(Description)
        description.show(_MARKDOWN)
        await until(pilot, lambda: "The end" in text_of(app))
        assert text_of(app).strip("\n") == _LINES.strip("\n")
        assert description.size.height == len(_LINES.strip("\n").splitlines())
        description.show("short")
        await until(pilot, lambda: description.size.height == 1)


@pytest.mark.parametrize("words", [f"{'> ' * 60}A key ends here."])
async def test_a_description_that_cannot_be_drawn_is_shown_as_it_is(words: str) -> None:
    app = _DescriptionApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.query_one(Description).show(words)
        await until(pilot, lambda: "ends here." in text_of(app))


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("A key </kbd> <details>one</details>", ["A key </kbd> <details>one</details>"]),
        ("\n".join(f"{'  ' * level}- l{level}" for level in range(12)), [f"l{level}" for level in range(12)]),
        (f"| a |\n|---|\n| {'y' * 50} |", ["y" * 38, "y" * 12]),
        (f"```\n{'中' * 25} if a\n```", [f" {'中' * 19}", f" {'中' * 6} if a"]),
        ("words " * 20_000, ["Text truncated;"]),
    ],
    ids=["html", "nested", "cell", "wide code", "long"],
)
async def test_a_description_loses_no_words(source: str, lines: list[str]) -> None:
    app = _DescriptionApp()
    async with app.run_test(size=(40, 20)) as pilot:
        description = app.query_one(Description)
        description.show(source)

        def has_all() -> bool:
            shown = [description.render_line(y).text.rstrip() for y in range(description.size.height)]
            return all(any(words in line for line in shown) for words in lines)

        await until(pilot, has_all)


async def test_the_title_has_the_age_of_an_answer_that_is_not_fresh() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        for seconds, is_old in ((4, False), (6, True)):
            asked_at = NOW - timedelta(seconds=seconds)
            pilot.app.screen.query_one(TitleBar).show_runs_state("ada", RunsState((40,), asked_at), NOW)
            await settled(pilot)
            assert ("updated 6 s ago" in text_of(pilot.app)) is is_old
            assert ("updated" in text_of(pilot.app)) is is_old
