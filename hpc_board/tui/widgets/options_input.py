"""An input field for the options of jobs with completion, and the line below it."""

from collections.abc import Collection

from rich.text import Text
from textual.reactive import var

from hpc_board.domain.job_options import (
    NO_OPTIONS,
    OPTION_NAMES,
    JobOptions,
    OptionRules,
    completed,
    parsed,
)
from hpc_board.errors import BoardError
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.widgets.path_input import CompletedInput

_EXAMPLES = (("qos", "qos=night"), ("time", "time=5"))


class OptionsInput(CompletedInput):
    """A field for options such as "qos=night time=5"."""

    rules: var[OptionRules] = var(OptionRules())
    """The rules of the board."""
    known: var[Collection[str]] = var(OPTION_NAMES)
    """The options that the schedulers of the form's GPUs have."""
    header = NO_OPTIONS
    """The options in the header of the file."""
    refusal: BoardError | None = None
    """The error with which the board refuses the options."""

    def __init__(self, *, value: str, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(lambda text: completed(text, self._names), value=value, id=id)

    def watch_rules(self) -> None:
        shown = [text for name, text in _EXAMPLES if name in self._names]
        self.placeholder = f"optional, such as {' '.join(shown)}" if shown else "optional"

    def watch_known(self) -> None:
        self.watch_rules()

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for name in self.rules.names if name in self.known)

    @property
    def options(self) -> JobOptions:
        """Return the options in the field.

        Raises:
            InputError: they are invalid.
            Refused: the settings do not permit one.
        """
        found = parsed(self.value)
        self.rules.check(found, "this field")
        return found

    @property
    def fault(self) -> str:
        """Return the fault of the field with its remedy; empty without one."""
        error = self.refusal
        try:
            self.options  # noqa: B018 - it raises
        except BoardError as found:
            error = found
        return "" if error is None else f"{error.message} {error.hint}".strip()

    @property
    def remark(self) -> Text:
        """Return the text below the field: its fault, the options that apply without it, or the permitted ones."""
        # An incomplete name is no fault yet.
        if (fault := self.fault) and completed(self.value, self._names) is None:
            return toned(fault, Tone.BAD, 300)
        if self.header.given:
            return toned(f"Set already: {self.header.brief} (the header).", Tone.MUTED, 300)
        permitted = ", ".join(self._names)
        return toned(f"Permitted: {permitted}" if permitted else "No options are permitted here.", Tone.MUTED, 300)
