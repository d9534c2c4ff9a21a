"""What a user has chosen to submit so far."""

from pathlib import Path

import msgspec

from hpc_board.model.task import Mode


class Choice(msgspec.Struct, frozen=True):
    """A submission that is being put together; `folder` is where files are looked for."""

    folder: Path = Path()
    file: Path | None = None
    task: str | None = None
    gpus: tuple[str, ...] = ()
    mode: Mode = Mode.TEST
    note: str = ""

    @property
    def missing(self) -> str:
        """What has to be chosen next, as a sentence; empty where nothing is missing."""
        if self.file is None:
            return "Choose a file."
        if self.task is None:
            return "Choose a task."
        return "" if self.gpus else "Choose at least one GPU."
