"""The field for the path of a file, alone in an app."""

import pytest
from textual import events
from textual.app import App, ComposeResult

from hpc_board.tui.widgets.form import PathInput

FILE = "/home/ada/kernel.py"

Keys = tuple[str, ...]
"""Keys by their names; a text is typed."""


class OneField(App[None]):
    def compose(self) -> ComposeResult:
        yield PathInput(value="", id="file")


@pytest.mark.parametrize(
    ("offered", "steps", "value"),
    [
        # A whole path takes the place of the one that is offered, or of a folder.
        (FILE, ["/other.py"], "/other.py"),
        (FILE, [events.Paste("/other.py")], "/other.py"),
        (FILE, [("home",), "/other.py"], "/other.py"),
        (FILE, [("home",), events.Paste("/other.py")], "/other.py"),
        (FILE, [("left",) * 3, events.Paste("~/other.py")], "~/other.py"),
        (FILE, ["old/", events.Paste("/other.py")], "/other.py"),
        ("", ["sub/~"], "~"),
        # A path that the user goes on from is kept.
        (FILE, ["old", "/other.py"], f"{FILE}old/other.py"),
        (FILE, ["old", events.Paste("/other.py")], f"{FILE}old/other.py"),
        (FILE, ["old/", "/other.py"], f"{FILE}old//other.py"),
        (FILE, [("left",) * 3, "/"], f"{FILE[:-3]}/{FILE[-3:]}"),
        (FILE, [("shift+left",), events.Paste("/y")], f"{FILE[:-1]}/y"),
        ("", ["sub//x"], "sub//x"),
        ("", ["sub/~ada/k~/x", ("backspace", "left"), "/"], "~ada/k~//"),
        # A pasted path is one line, unquoted if it is a word of a shell.
        *(
            ("", [events.Paste(pasted)], "/my file.py")
            for pasted in ("'/my file.py' ", '"/my file.py"\n', "/my\\ file.py")
        ),
        *(("", [events.Paste(f"{name}\n")], name) for name in ("it's.py", "a b.py", "/my file.py", "")),
    ],
)
async def test_a_path_that_is_typed_or_pasted(offered: str, steps: list[str | Keys | events.Paste], value: str) -> None:
    async with OneField().run_test() as pilot:
        field = pilot.app.query_one(PathInput)
        field.focus()
        field.offer(offered)
        for step in steps:
            if isinstance(step, events.Paste):
                pilot.app.post_message(events.Paste(step.text))
                await pilot.pause()
            else:
                await pilot.press(*step)
        assert field.value == value
