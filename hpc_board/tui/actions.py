"""The command palette."""

from textual.command import CommandList, CommandPalette


class Actions(CommandPalette):
    """Textual's palette, which ignores cursor keys until its list has been laid out."""

    def _action_command_list(self, action: str) -> None:
        if self.query_one(CommandList).scrollable_content_region.height:
            super()._action_command_list(action)
