"""The palette in which actions are found by their names."""

from textual.command import CommandList, CommandPalette


class Actions(CommandPalette):
    """Textual's palette; keys that move through its list wait until that has been laid out."""

    def _action_command_list(self, action: str) -> None:
        if self.query_one(CommandList).scrollable_content_region.height:
            super()._action_command_list(action)
