"""The app's own themes: contrast, and tones that can be told apart."""

from itertools import combinations

import pytest
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from hpc_board.tui.themes import DARK, LIGHT, contrast, has_quiet_rows, readable, tone_variables

LEAST = 4.5
"""The least contrast of text by WCAG 2.2, level AA."""

THEMES = DARK, LIGHT, *(readable(theme) for theme in BUILTIN_THEMES.values() if not theme.ansi)
EACH = pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
OWN = pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)


def texts(theme: Theme) -> dict[str, str]:
    tones = tone_variables(theme)
    return {"foreground": str(theme.foreground), **{name: tones[name] for name in tones if name != "edge"}}


@EACH
def test_text_in_each_tone_can_be_read_on_each_ground(theme: Theme) -> None:
    made = {**theme.to_color_system().generate(), **theme.variables}
    names = "background", "surface", "panel", "block-cursor-background", "block-cursor-blurred-background"
    found = {
        (text, ground): contrast(Color.parse(colour), Color.parse(made[ground]))
        for text, colour in texts(theme).items()
        for ground in names
    }
    assert {pair: value for pair, value in found.items() if value < LEAST} == {}


@EACH
def test_the_selected_row_can_be_seen_and_read(theme: Theme) -> None:
    made = {name: Color.parse(theme.variables[f"block-cursor-{name}"]) for name in ("foreground", "background")}
    assert contrast(*made.values()) >= LEAST
    background = Color.parse(theme.to_color_system().generate()["background"])
    assert contrast(made["background"], background) > 1.2
    assert has_quiet_rows(theme)


def test_a_users_own_colours_stay() -> None:
    own = {"good": "#113311", "block-cursor-background": "#88c0d0", "block-cursor-foreground": "#2e3440"}
    theme = readable(Theme("own", primary="#88c0d0", background="#2e3440", variables=own))
    assert own.items() <= theme.variables.items()
    assert not has_quiet_rows(theme)


@OWN
def test_tones_can_be_told_apart(theme: Theme) -> None:
    tones = {name: Color.parse(colour) for name, colour in texts(theme).items()}
    near = {
        (one, other)
        for one, other in combinations(tones, 2)
        if sum(abs(a - b) for a, b in zip(tones[one].rgb, tones[other].rgb, strict=True)) < 60
    }
    assert near == set()
