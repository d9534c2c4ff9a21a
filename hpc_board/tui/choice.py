"""The user's choices in the submit form."""

from pathlib import Path

import msgspec

from hpc_board.model.task import Mode


class Choice(msgspec.Struct, frozen=True):
    """An incomplete submission.

    `folder` is the start of the search for files; `options` are those of the jobs, as the user typed them.
    """

    folder: Path = Path()
    file: Path | None = None
    task: str | None = None
    gpus: tuple[str, ...] = ()
    mode: Mode = Mode.TEST
    note: str = ""
    options: str = ""
    is_sent: bool = False
    """True once it was submitted: the mode of the next form is the one after the latest run."""

    @property
    def is_begun(self) -> bool:
        """Return whether the user has given more than task, GPUs and mode."""
        return self.file is not None or bool(self.note or self.options)

    @property
    def missing(self) -> str:
        """Return the next choice to make as a sentence, empty if the submission is complete."""
        if self.file is None:
            return "Choose a file."
        if self.task is None:
            return "Choose a task."
        return "" if self.gpus else "Choose at least one GPU."
