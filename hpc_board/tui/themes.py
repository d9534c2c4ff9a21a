"""Colours of the app: its own themes, the tones that Textual's themes lack, and the look without colours."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from rich.theme import Theme as RichTheme
from textual.app import App
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import BUILTIN_THEMES, Theme

from hpc_board.tui.palette import Tone


def _theme(name: str, *, dark: bool, **colours: str) -> Theme:
    accent, background = colours["accent"], colours["background"]
    return Theme(
        name=name,
        primary=accent,
        secondary=colours["own"],
        accent=colours["own"],
        success=colours["good"],
        warning=colours["waiting"],
        error=colours["bad"],
        foreground=colours["foreground"],
        background=background,
        surface=colours["surface"],
        panel=colours["panel"],
        dark=dark,
        variables={
            **{tone: colours[tone] for tone in ("muted", "own", "good", "waiting", "bad")},
            "accented": accent,
            "block-cursor-background": colours["cursor"],
            "block-cursor-foreground": colours["on_cursor"],
            "block-cursor-blurred-background": colours["faint"],
            "input-selection-background": colours["cursor"],
            "scrollbar": colours["bar"],
            "scrollbar-hover": colours["bar_hover"],
            "scrollbar-background": background,
            "border-blurred": colours["bar"],
            "edge": colours["bar"],
        },
    )


DARK = _theme(
    "hpc-board",
    dark=True,
    accent="#2fe0d0",
    own="#f59be6",
    muted="#93b0b1",
    good="#a5e075",
    waiting="#ffcf6b",
    bad="#ff8d80",
    foreground="#dcebea",
    background="#0a1416",
    surface="#0f1f22",
    panel="#11363a",
    cursor="#10454a",
    on_cursor="#ffffff",
    faint="#1a3336",
    bar="#2c5156",
    bar_hover="#45777c",
)

LIGHT = _theme(
    "hpc-board-light",
    dark=False,
    accent="#00686a",
    own="#a0148c",
    muted="#46605f",
    good="#2b661b",
    waiting="#7a5200",
    bad="#b3261e",
    foreground="#10292b",
    background="#f7fbfa",
    surface="#eaf4f3",
    panel="#cfe7e5",
    cursor="#a4e3dd",
    on_cursor="#06272a",
    faint="#dcebea",
    bar="#a9c4c2",
    bar_hover="#7fa3a1",
)

COLOURLESS = _theme(
    "colourless",
    dark=True,
    accent="#ffff00",
    own="#ffff00",
    muted="#808080",
    good="#ffffff",
    waiting="#ffffff",
    bad="#ffff00",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#000000",
    cursor="#ffffff",
    on_cursor="#000000",
    faint="#000000",
    bar="#808080",
    bar_hover="#808080",
)
"""The theme of a terminal without colours, whose colours `Colourless` replaces."""

_LIGHT_GROUND = 0.35
"""The least brightness of a ground that is light."""

_GREY = (0.2, 0.75)
"""The brightness of greys that become dim; darker text lies on a light ground."""

_HUE = 0.2
"""The least difference of the strongest and the weakest part of a colour that has a hue."""

SIXTEEN = {DARK.name: "ansi-dark", LIGHT.name: "ansi-light"}
"""Textual's themes in the terminal's own colours, for terminals with sixteen colours."""


class Colourless(LineFilter):
    """A filter that replaces colours: text with a hue is bold, grey text is dim, and a light ground is reversed."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - Textual's
        return [
            Segment(text, None if style is None else _colourless(style), control) for text, style, control in segments
        ]


@lru_cache(1024)
def _colourless(style: Style) -> Style:
    ground, colour = _rgb(style.bgcolor), _rgb(style.color)
    # The meta of a style leads a click to its row.
    kept = style.without_color + Style(meta=style.meta)
    if ground is not None and ground.brightness >= _LIGHT_GROUND and not style.reverse:
        kept += Style(reverse=True)
    if colour is not None and max(colour.normalized) - min(colour.normalized) >= _HUE:
        kept += Style(bold=True)
    elif colour is not None and _GREY[0] <= colour.brightness <= _GREY[1] and not kept.reverse:
        kept += Style(dim=True)
    return kept


def _rgb(colour: RichColor | None) -> Color | None:
    return None if colour is None or colour.is_default else Color.from_rich_color(colour)


_CONTRAST = 4.5
"""The least contrast of text by WCAG 2.2, level AA."""

_MIDDLE = 0.5
"""The brightness of grounds between dark and light ones."""

_CURSOR, _BLURRED_CURSOR = 0.25, 0.1
"""The shares of the accent in the selected row's ground, and of the foreground in that without the focus."""

_LOUD_ROW = 2.5
"""The least contrast with the background of a selected row that tones cannot be read on."""


def tone_variables(theme: Theme) -> dict[str, str]:
    """Return the colours of the tones in `theme` by CSS variable."""
    made = {**theme.to_color_system().generate(), **theme.variables}
    if theme.ansi:
        muted = edge = "ansi_bright_black"
    else:
        background, foreground = Color.parse(made["background"]), Color.parse(made["foreground"])
        muted = background.blend(foreground, 0.65).hex
        # The themes' own colour of an edge without the focus is that of their background.
        edge = background.blend(foreground, 0.25).hex
    found = {
        "muted": muted,
        "edge": edge,
        "accented": made["text-primary"],
        "own": made["text-secondary"],
        "good": made["text-success"],
        "waiting": made["text-warning"],
        "bad": made["text-error"],
    }
    return {name: theme.variables.get(name, value) for name, value in found.items()}


def readable(theme: Theme) -> Theme:
    """Return a theme of Textual or of a user with tones that can be read on each ground, also on the selected row.

    The variables and the foreground in a user's file stay as they are.
    """
    if theme.ansi or theme.name in (DARK.name, LIGHT.name, COLOURLESS.name):
        return theme
    is_own = theme.name not in BUILTIN_THEMES
    kept = theme.variables if is_own else {}
    made = {**theme.to_color_system().generate(), **kept}
    background, foreground, accent = (Color.parse(made[name]) for name in ("background", "foreground", "text-primary"))
    cursors = {
        "block-cursor-background": background.blend(accent, _CURSOR),
        "block-cursor-blurred-background": background.blend(foreground, _BLURRED_CURSOR),
    }
    grounds = background, *(Color.parse(made[name]) for name in ("surface", "panel")), *cursors.values()
    text = foreground.hex if is_own and theme.foreground else contrasting(foreground, grounds).hex
    tones = {
        name: value if name == "edge" else contrasting(Color.parse(value), grounds).hex
        for name, value in tone_variables(replace(theme, variables=kept)).items()
    }
    rows = {name: colour.hex for name, colour in cursors.items()}
    variables = {**theme.variables, **tones, **rows, "block-cursor-foreground": text, **kept}
    return replace(theme, foreground=text, variables=variables)


@lru_cache(1024)
def contrasting(colour: Color, grounds: tuple[Color, ...]) -> Color:
    """Return the first shade of a colour of text, from itself towards white or black, that can be read on `grounds`."""
    limit = Color.parse("white" if grounds[0].brightness < _MIDDLE else "black")
    shades = (colour.blend(limit, step / 20) for step in range(20))
    has_contrast = (shade for shade in shades if min(contrast(shade, each) for each in grounds) >= _CONTRAST)
    return next(has_contrast, limit)


def has_quiet_rows(theme: Theme) -> bool:
    """Return whether the tones can be read on the selected row, too, as its ground is near that of the others."""
    made = {**theme.to_color_system().generate(), **theme.variables}
    grounds = (Color.parse(made[name]) for name in ("background", "block-cursor-background"))
    return not theme.ansi and contrast(*grounds) < _LOUD_ROW


def contrast(one: Color, other: Color) -> float:
    """Return the contrast of two colours as WCAG defines it, from 1 to 21."""
    low, high = sorted(map(_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Color) -> float:
    parts = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


_MARKDOWN = {
    **{f"h{level}": Tone.OWN for level in range(1, 7)},
    **dict.fromkeys(("code", "link"), Tone.ACCENT),
    **dict.fromkeys(("block_quote", "hr", "item.bullet", "item.number", "table.border", "table.header"), Tone.MUTED),
}
"""The tones of the parts of a text in Markdown, by Rich's names of their styles."""


def rich_theme(theme: Theme) -> RichTheme:
    """Return the tones as styles for Rich, by the names in texts, and those of a text in Markdown."""
    styles: dict[str, str | Style] = {}
    for name, value in tone_variables(theme).items():
        colour = Color.parse(value).rich_color
        styles[f"${name}"] = Style(color=colour)
        styles[f"bold ${name}"] = Style(color=colour, bold=True)
    styles |= {f"markdown.{part}": styles[tone.value] for part, tone in _MARKDOWN.items()}
    return RichTheme(styles, inherit=False)


def register(app: App[Any], own: Sequence[Theme] = ()) -> None:
    """Register the themes of an app, and the user's `own` ones, and select the dark one."""
    for theme in (DARK, LIGHT, *own, *([COLOURLESS] if app.no_color else [])):
        app.register_theme(theme)
    app.theme = DARK.name
    app.console.push_theme(rich_theme(DARK))


def apply(app: App[Any]) -> None:
    """Switch Rich to the app's current theme."""
    app.console.pop_theme()
    app.console.push_theme(rich_theme(app.current_theme))
