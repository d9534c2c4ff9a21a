"""A user's own themes: the files, their faults, and the app with them."""

import re
from pathlib import Path

import pytest
from textual.widgets import OptionList

from hpc_board.tui import themes
from hpc_board.tui.app import BoardApp, load_preferences
from hpc_board.tui.theme_files import ThemeFile
from tests.tui.driving import press, settled, text_of, until
from tests.tui.fake_board import NOW, FakeBoard

PAGE = Path(__file__).parents[2] / "docs" / "app.md"
REEF = """\
name: reef
primary: "#5fd7c4"
secondary: coral
background: "#0b1a1e"
variables:
  footer-key-foreground: coral
"""


def folder(tmp_path: Path, **files: str) -> Path:
    """Return the folder for settings with these files of themes."""
    own = tmp_path / "hpc-board" / "themes"
    own.mkdir(parents=True)
    for name, text in files.items():
        (own / f"{name}.yaml").write_text(text)
    return tmp_path


def app_with(config: Path) -> BoardApp:
    found = load_preferences({"XDG_CONFIG_HOME": str(config)})
    return BoardApp(FakeBoard, now=lambda: NOW, tick_seconds=3600, follow_seconds=3600, user_preferences=found)


def fault_of(tmp_path: Path, text: str) -> str:
    found = load_preferences({"XDG_CONFIG_HOME": str(folder(tmp_path, own=text))})
    assert found.themes == ()
    assert found.fault is not None
    return found.fault.message


def test_the_example_of_the_manual_is_a_theme() -> None:
    assert REEF in PAGE.read_text()


def test_the_manual_has_every_key() -> None:
    table = PAGE.read_text().partition("### Themes of your own")[2].partition("## Terminals")[0]
    assert [key for key in ThemeFile.__struct_fields__ if f"`{key}`" not in table] == []
    tones = themes.tone_variables(themes.DARK)
    assert [key for key in tones if f"`{key}`" not in table] == []


@pytest.mark.parametrize("text", [REEF, "primary: teal\ndark: false\n"])
def test_a_theme_without_colours_of_outcomes_has_those_of_the_app(tmp_path: Path, text: str) -> None:
    (theme,) = load_preferences({"XDG_CONFIG_HOME": str(folder(tmp_path, own=text))}).themes
    tones = themes.tone_variables(themes.readable(theme))
    assert len({tones[name] for name in ("good", "waiting", "bad", "own")}) == 4
    usual = themes.DARK if theme.dark else themes.LIGHT
    assert (theme.success, theme.warning, theme.error) == (usual.success, usual.warning, usual.error)


async def test_a_theme_of_a_file_is_in_the_list_and_is_taken_by_its_name(tmp_path: Path) -> None:
    config = folder(tmp_path, reef=REEF, plain="primary: teal\ndark: false\n")
    (config / "hpc-board" / "app.yaml").write_text("theme: reef\n")
    app = app_with(config)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert (app.theme, app.theme_variables["footer-key-foreground"]) == ("reef", "coral")
        for keys in (("r",), ("escape", "end", "b"), ("s",), ("f1",)):
            await press(pilot, *keys)
        await press(pilot, "escape", "escape", "ctrl+p", *"theme")
        await until(pilot, lambda: "now reef" in text_of(app))
        await press(pilot, "enter")
        await until(pilot, lambda: "Choose a theme" in text_of(app))
        await settled(pilot)
        names = [option.hit.text for option in app.screen.query_one(OptionList).options]  # type: ignore[attr-defined]
        assert {"reef", "plain"} <= {*names}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("primry: teal\n", ("line 1: primry", 'Did you mean "primary"', "primary: is missing")),
        ("primary: teal\nerror: cora\n", ("line 2: error", 'found "cora"', 'Did you mean "coral"')),
        ("primary: auto\nsurface: ansi_red\npanel: '#00000080'\n", ("line 1", "line 2", "line 3")),
        ("primary: teal\ndark: perhaps\ntext_alpha: 2\n", ("line 2: dark", "line 3: text_alpha", "from 0 to 1")),
        ("primary: teal\nvariables:\n  scrollbr: red\n", ("line 3: variables.scrollbr", 'Did you mean "scrollbar"')),
        ("primary: teal\nvariables:\n  muted: '{'\n", ("line 3: variables.muted", "expected a colour")),
        ("primary: teal\nvariables:\n  block-cursor-text-style: blod\n", ("line 3", 'Did you mean "bold"')),
        ("primary: teal\nvariables:\n  block-cursor-text-style: none bold\n", ("line 3", 'found "none"')),
        ("primary: teal\nvariables:\n  link-style-hover: red\n", ("line 3", 'found "red"')),
        ("name: nord\nprimary: teal\n", ("line 1: name: another theme",)),
        ("name: a b\nprimary: teal\n", ("line 1: name: expected a name",)),
        ("primary: [teal\n", ("line",)),
        ("a: &a [*a]\n", ("primary: is missing",)),
        ("# " + "x" * 1_000_000, ("too large", "own.yaml")),
    ],
)
def test_faults_are_told_with_line_key_and_nearest_name(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    message = fault_of(tmp_path, text)
    assert [each for each in words if each not in message] == [], message


def test_names_of_files_are_names_of_themes_and_count_once(tmp_path: Path) -> None:
    config = folder(tmp_path, **{"two words": "primary: teal\n", "a": REEF, "b": REEF})
    found = load_preferences({"XDG_CONFIG_HOME": str(config)})
    assert [theme.name for theme in found.themes] == ["reef"]
    assert found.fault is not None
    assert re.search("another theme(?s:.*)the file's name is not", found.fault.message)


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "hpc-board").mkdir()
    (tmp_path / "hpc-board" / "themes").touch()
    fault = load_preferences({"XDG_CONFIG_HOME": str(tmp_path)}).fault
    assert fault is not None
    assert "themes: Not a directory" in fault.message


async def test_broken_files_are_told_in_one_box_and_the_app_goes_on(tmp_path: Path) -> None:
    config = folder(tmp_path, bad="primary: tel\n", good=REEF)
    (config / "hpc-board" / "app.yaml").write_text("theme: hpc-bord\n")
    app = app_with(config)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        shown = " ".join(text_of(app).split())
        assert re.search('Did you mean "hpc-board".*The app uses its defaults.*Did you mean "teal"', shown)
        assert not app._notifications
        await press(pilot, "escape", "r")
        assert "Runs" in text_of(app)
        assert "reef" in app.available_themes


async def test_without_colours_own_themes_do_not_apply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    config = folder(tmp_path, reef=REEF)
    (config / "hpc-board" / "app.yaml").write_text("theme: reef\n")
    app = app_with(config)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert app.theme == themes.COLOURLESS.name
