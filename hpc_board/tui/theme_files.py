"""The reader of a user's own themes: the YAML files in the folder `themes` beside `app.yaml`."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from textual.color import Color, ColorParseError
from textual.theme import Theme

from hpc_board.errors import BoardError, InputError
from hpc_board.model.names import NAME, NAME_WORDS, suggestion
from hpc_board.model.text import one_line
from hpc_board.tui import themes
from hpc_board.yaml_document import Document
from hpc_board.yaml_sections import Line, Name, Section

_STYLES = frozenset(("bold", "dim", "italic", "reverse", "strike", "underline"))

Share = Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")]


class ThemeFile(Section, frozen=True):
    """The contents of a theme's file, the fields of Textual's Theme; docs/app.md has their meanings."""

    primary: Line
    name: Name | None = None
    secondary: Line | None = None
    accent: Line | None = None
    success: Line | None = None
    warning: Line | None = None
    error: Line | None = None
    foreground: Line | None = None
    background: Line | None = None
    surface: Line | None = None
    panel: Line | None = None
    boost: Line | None = None
    dark: bool = True
    luminosity_spread: Share = 0.15
    text_alpha: Share = 0.95
    variables: dict[Line, Line] = msgspec.field(default_factory=dict)


def load(folder: Path, taken: Collection[str]) -> tuple[list[Theme], list[BoardError]]:
    """Return the themes in the files of `folder` without those that have faults, and the errors of these.

    The names `taken` are those of other themes.
    """
    found: dict[str, Theme] = {}
    errors: list[BoardError] = []
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix in (".yaml", ".yml"))
    except OSError as error:
        return [], [InputError(f"{one_line(str(folder), 300)}: {error.strerror}.", hint="Correct the folder.")]
    for file in files:
        try:
            theme = _read(file, {*taken, *found})
        except BoardError as error:
            errors.append(error)
        else:
            found[theme.name] = theme
    return [*found.values()], errors


def _read(file: Path, taken: Collection[str]) -> Theme:
    """Return the theme in `file`.

    Raises:
        BoardError: the file cannot be read, or has faults.
    """
    document = Document.read(file, hint="The app continues without this theme; correct these lines.")
    # Of a file without a colour, the other faults are told too.
    section = document.value(ThemeFile, {"primary": "white"})
    name = section.name or file.stem
    if not re.fullmatch(NAME, name):
        document.fault(("name",), f"is missing, and the file's name is not {NAME_WORDS}")
    if name in taken:
        document.fault(("name",), f'another theme has the name "{one_line(name)}"')
    fields = {key: getattr(section, key) for key in ThemeFile.__struct_fields__ if key != "name"}
    own = [((key,), value) for key, value in fields.items() if isinstance(value, str)]
    known = {*themes.DARK.to_color_system().generate(), *themes.DARK.variables}
    for place, value in (*own, *((("variables", key), value) for key, value in section.variables.items())):
        key = place[-1]
        if key not in known:
            document.fault(place, f"is not a variable of a theme.{suggestion(key, known)}")
        elif fault := _style_fault(value) if key.endswith(("-style", "-style-hover")) else _colour_fault(value):
            document.fault(place, fault)
    document.check()
    # Textual's own defaults are the primary and the secondary colour, the same for a pass and for a failure.
    usual = themes.DARK if section.dark else themes.LIGHT
    fields |= {key: fields[key] or getattr(usual, key) for key in ("success", "warning", "error")}
    return Theme(name=name, **fields)


def _colour_fault(text: str) -> str:
    near = ""
    try:
        colour = Color.parse(text)
        # Textual computes shades of these colours, and no shade is known of "auto", of "ansi_red" and of "transparent".
        if colour.a == 1 and colour.ansi is None and not colour.auto:
            return ""
    except ColorParseError as error:
        near = f' Did you mean "{error.suggested_color}"?' if error.suggested_color else ""
    return f'expected a colour such as "#7ab8f5" or "teal", found "{one_line(text, 80)}".{near}'


def _style_fault(text: str) -> str:
    unknown = next((word for word in text.split() if word not in _STYLES), "")
    if not unknown or text == "none":
        return ""
    known, near = ", ".join(sorted(_STYLES)), suggestion(unknown, _STYLES)
    return f'expected "none", or words of {known}, found "{one_line(unknown, 80)}".{near}'
