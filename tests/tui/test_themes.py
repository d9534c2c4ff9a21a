"""The app's own themes: contrast, and tones that can be told apart."""

from itertools import combinations

import pytest
from textual.color import Color
from textual.theme import Theme

from hpc_board.tui.themes import DARK, LIGHT, tone_variables

LEAST = 4.5
"""The least contrast of text by WCAG 2.2, level AA."""

OWN = pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)


def luminance(colour: Color) -> float:
    """Return the relative luminance of a colour as WCAG defines it."""
    parts = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(Color.parse(one)), luminance(Color.parse(other))))
    return (high + 0.05) / (low + 0.05)


def texts(theme: Theme) -> dict[str, str]:
    tones = tone_variables(theme)
    return {"foreground": str(theme.foreground), **{name: tones[name] for name in tones if name != "edge"}}


@OWN
def test_text_in_each_tone_can_be_read_on_each_ground(theme: Theme) -> None:
    grounds = {name: str(getattr(theme, name)) for name in ("background", "surface", "panel")}
    grounds["selected row"] = theme.variables["block-cursor-background"]
    grounds["selected row without the focus"] = theme.variables["block-cursor-blurred-background"]
    found = {
        (text, ground): contrast(*pair)
        for text, one in texts(theme).items()
        for ground, other in grounds.items()
        for pair in [(one, other)]
    }
    assert {pair: value for pair, value in found.items() if value < LEAST} == {}


@OWN
def test_the_selected_row_can_be_read(theme: Theme) -> None:
    made = theme.variables
    assert contrast(made["block-cursor-foreground"], made["block-cursor-background"]) >= LEAST


@OWN
def test_tones_can_be_told_apart(theme: Theme) -> None:
    tones = {name: Color.parse(colour) for name, colour in texts(theme).items()}
    near = {
        (one, other)
        for one, other in combinations(tones, 2)
        if sum(abs(a - b) for a, b in zip(tones[one].rgb, tones[other].rgb, strict=True)) < 60
    }
    assert near == set()
