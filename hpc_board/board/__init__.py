"""The product on one page: everything that a front end may do. Both front ends hold one Board."""

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from hpc_board import settings as config
from hpc_board.accounts import user_name
from hpc_board.board.context import Context
from hpc_board.domain.roles import Role

if TYPE_CHECKING:
    from hpc_board.board.administration import Administration
    from hpc_board.board.gpus import Gpus
    from hpc_board.board.leaderboards import Leaderboards
    from hpc_board.board.runs import Runs
    from hpc_board.board.standings import Standings
    from hpc_board.board.submissions import Submissions
    from hpc_board.board.tasks import Tasks
    from hpc_board.boards.admin_views import AdminViews
    from hpc_board.boards.moderation import Rules


class Board:
    """Tasks, GPUs, submissions, runs and standings under one folder, one part for each; a part is imported when used.

    Every method may be called from any thread, opens what it needs, and raises BoardError for what a user can mend.
    `warn` is told, from any thread, what works although not as the settings say; a front end may put its own there.
    """

    def __init__(
        self, settings: config.Settings, *, user: str | None = None, warn: Callable[[str], object] = lambda _: None
    ) -> None:
        self.settings = settings
        self.user = user or user_name(os.geteuid())
        self.warn = warn
        self.context = Context(settings, self.user, self._warn)

    @classmethod
    def open(
        cls,
        explicit: Path | None = None,
        environ: Mapping[str, str] = os.environ,
        *,
        warn: Callable[[str], object] = lambda _: None,
    ) -> "Board":
        """The board that the settings found for this user describe.

        Raises:
            InputError: the settings file is missing or has faults.
        """
        try:
            here = Path.cwd()
        except FileNotFoundError:
            here = Path("/")  # the working folder was removed, so no settings lie in it
        file = config.find(explicit, environ, here)
        return cls(config.load(file, environ), warn=warn)

    def _warn(self, text: str) -> None:
        self.warn(text)

    @cached_property
    def role(self) -> Role:
        """What the user may do here, by the settings' `roles` and who owns the board's folder."""
        return self.context.role

    def session(self) -> AbstractContextManager[None]:
        """Keep the database open for the calls of this thread, which else open it for each transaction."""
        return self.context.looking.file.session()

    # Parts

    @cached_property
    def tasks(self) -> "Tasks":
        """The tasks that the user sees."""
        from hpc_board.board.tasks import Tasks

        return Tasks(self.context)

    @cached_property
    def gpus(self) -> "Gpus":
        """The GPUs of the settings."""
        from hpc_board.board.gpus import Gpus

        return Gpus(self.context)

    @cached_property
    def runs(self) -> "Runs":
        """The runs that the user may see."""
        from hpc_board.board.runs import Runs

        return Runs(self.context)

    @cached_property
    def leaderboards(self) -> "Leaderboards":
        """The leaderboards that users made."""
        from hpc_board.board.leaderboards import Leaderboards

        return Leaderboards(self.context, self.tasks)

    @cached_property
    def submissions(self) -> "Submissions":
        """The submissions that the user may send and read."""
        from hpc_board.board.submissions import Submissions

        return Submissions(self.context, self.tasks, self.gpus, self.runs, self.leaderboards)

    @cached_property
    def standings(self) -> "Standings":
        """The standings on the leaderboards that the user sees."""
        from hpc_board.board.standings import Standings

        return Standings(self.context, self.tasks, self.gpus, self.runs)

    @cached_property
    def moderation(self) -> "Rules":
        """Limits, bans, removals, the audit log and notes, each as far as the user may have to do with it."""
        return self.context.rules

    @cached_property
    def admin(self) -> "Administration":
        """What admins do with the whole board."""
        from hpc_board.board.administration import Administration

        return Administration(self.context, self.tasks, self.gpus, self.runs)

    @cached_property
    def admin_views(self) -> "AdminViews":
        """How boards stand, and users with what holds for them, as far as the user may look after them."""
        from hpc_board.boards.admin_views import AdminViews

        context = self.context
        return AdminViews(
            context.store,
            self.user,
            self.role,
            self.settings.roles,
            context.require,
            self.tasks.catalog,
            context.editor.visible,
            context.role_of,
        )
