"""An input field for the options of jobs with completion, and the line below it."""

from collections.abc import Collection, Sequence

from rich.text import Text
from textual.suggester import Suggester

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
    """A field for options such as "qos=night time=5"; it knows the `rules` of the board once they are read."""

    def __init__(self, *, value: str, id: str) -> None:  # noqa: A002 - Textual's name for it
        self._suggester = _OptionSuggester()
        super().__init__(
            value=value,
            suggester=self._suggester,
            compact=True,
            select_on_focus=False,
            id=id,
        )
        self._rules = OptionRules()
        self._known: Collection[str] = OPTION_NAMES
        self._header = NO_OPTIONS
        self._refusal: BoardError | None = None
        self._offer()

    def permit(self, rules: OptionRules) -> None:
        """Set the rules of the board."""
        self._rules = rules
        self._offer()

    def fit(self, known: Collection[str]) -> None:
        """Set the options that the schedulers of the form's GPUs have."""
        self._known = known
        self._offer()

    def _offer(self) -> None:
        self._suggester.names = self._names
        shown = [text for name, text in _EXAMPLES if name in self._names]
        self.placeholder = f"optional, such as {' '.join(shown)}" if shown else "optional"

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for name in self._rules.names if name in self._known)

    def hear(self, header: JobOptions) -> None:
        """Set the options in the header of the file."""
        self._header = header

    def refuse(self, refusal: BoardError | None) -> None:
        """Set the error with which the board refuses the options; None without one."""
        self._refusal = refusal

    @property
    def options(self) -> JobOptions:
        """Return the options in the field.

        Raises:
            InputError: they are invalid.
            Refused: the settings do not permit one.
        """
        found = parsed(self.value)
        self._rules.check(found, "this field")
        return found

    @property
    def fault(self) -> str:
        """Return the fault of the field with its remedy; empty without one."""
        error = self._refusal
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
        if self._header.given:
            return toned(f"Set already: {self._header.brief} (the header).", Tone.MUTED, 300)
        permitted = ", ".join(self._names)
        return toned(f"Permitted: {permitted}" if permitted else "No options are permitted here.", Tone.MUTED, 300)


class _OptionSuggester(Suggester):
    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self.names: Sequence[str] = OPTION_NAMES

    async def get_suggestion(self, value: str) -> str | None:
        return completed(value, self.names)
