"""The style sheet of the app."""

from textual.css.stylesheet import Stylesheet


class Sheet(Stylesheet):
    """A style sheet that parses each source once for each theme.

    Textual's own parses all sources again for the app itself, for its first widget and for each screen with a source of
    its own.
    """

    def reparse(self) -> None:
        """Parse the sources that are new; `set_variables` has dropped those with the variables of another theme."""
        # `parse` replaces the rules at its end, so a fault in a source leaves the former rules.
        self.parse()
