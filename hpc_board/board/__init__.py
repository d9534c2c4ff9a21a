"""`Board`, the facade that both front ends hold: a part for each noun."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpc_board.board.admin_views import AdminViews
    from hpc_board.board.administration import Administration
    from hpc_board.board.context import Context
    from hpc_board.board.gpus import Gpus
    from hpc_board.board.leaderboards import Leaderboards
    from hpc_board.board.moderation import Moderation
    from hpc_board.board.runners import Runners
    from hpc_board.board.runs import Runs
    from hpc_board.board.standings import Standings
    from hpc_board.board.submissions import Submissions
    from hpc_board.board.tasks import Tasks
    from hpc_board.domain.change import Change
    from hpc_board.domain.roles import Role
    from hpc_board.domain.service_address import SshAddress
    from hpc_board.errors import BoardError
    from hpc_board.settings import Settings


class Board:
    """Tasks, GPUs, submissions, runs and standings of one installation; each part is imported when first used.

    Every method is thread-safe and raises BoardError for problems that a user can solve. `warn` is called from any
    thread with warnings; a front end may replace it. `service/client.py` has the same board behind a service.
    """

    context: "Context"

    def __init__(
        self, settings: "Settings", *, user: str | None = None, warn: Callable[[str], object] = lambda _: None
    ) -> None:
        from hpc_board.accounts import user_name
        from hpc_board.board.context import Context, Installation

        self.warn = warn
        name = user or user_name(os.geteuid())
        self.context = Context(Installation(settings, name, self._warn), name, self._warn)

    @classmethod
    def open(
        cls,
        explicit: Path | None = None,
        environ: Mapping[str, str] = os.environ,
        *,
        warn: Callable[[str], object] = lambda _: None,
    ) -> "Board":
        """Return the board of this user's settings.

        Raises:
            InputError: the settings file is missing or has faults.
        """
        from hpc_board.settings import open_settings

        return cls(open_settings(explicit, environ), warn=warn)

    @classmethod
    def within(cls, context: "Context") -> "Board":
        """Return the board of an installation as the user of the context sees it."""
        board = cls.__new__(cls)
        board.warn = context.warn
        board.context = context
        return board

    def _warn(self, text: str) -> None:
        self.warn(text)

    @cached_property
    def settings(self) -> "Settings":
        """The settings of the board."""
        return self.context.settings

    served = False
    """True if a service has the board and advances its runs; here each client does."""

    @property
    def exists(self) -> bool:
        """Return whether the board's folder exists; the first submission creates it."""
        return self.settings.board.is_dir()

    @cached_property
    def address(self) -> "Path | SshAddress":
        """The board's folder, or the address of its service."""
        return self.settings.board

    @cached_property
    def user(self) -> str:
        """The user who holds the board."""
        return self.context.user

    @cached_property
    def role(self) -> "Role":
        """The user's role, from the settings' `roles` and the owner of the board's folder."""
        return self.context.role

    def session(self) -> AbstractContextManager[None]:
        """Keep the database open for the calls of this thread; without it, each transaction opens the database."""
        return self.context.reading.file.session()

    def changes(self, wanted: Callable[[], bool]) -> "Iterator[Change | BoardError]":  # noqa: ARG002 - of a service
        """Yield the changes that a service tells. Without one there are none: a front end asks from time to time."""
        return iter(())

    # Parts

    @cached_property
    def tasks(self) -> "Tasks":
        """The tasks that are visible to the user."""
        from hpc_board.board.tasks import Tasks

        return Tasks(self.context)

    @cached_property
    def gpus(self) -> "Gpus":
        """The GPUs of the settings."""
        from hpc_board.board.gpus import Gpus

        return Gpus(self.context)

    @cached_property
    def runs(self) -> "Runs":
        """The runs that are visible to the user."""
        from hpc_board.board.runs import Runs

        return Runs(self.context)

    @cached_property
    def runners(self) -> "Runners":
        """The runners of the board: jobs that hold a GPU for a user's runs."""
        from hpc_board.board.runners import Runners

        return Runners(self.context)

    @cached_property
    def leaderboards(self) -> "Leaderboards":
        """The leaderboards that users created."""
        from hpc_board.board.leaderboards import Leaderboards

        return Leaderboards(self.context, self.tasks)

    @cached_property
    def submissions(self) -> "Submissions":
        """Submissions: drafts, dispatch, code and notes."""
        from hpc_board.board.submissions import Submissions

        return Submissions(self.context, self.tasks)

    @cached_property
    def standings(self) -> "Standings":
        """The standings on the leaderboards that are visible to the user."""
        from hpc_board.board.standings import Standings

        return Standings(self.context, self.tasks, self.runs)

    @cached_property
    def moderation(self) -> "Moderation":
        """Limits, bans, removals, the audit log and notes, as far as the user's role permits."""
        from hpc_board.board.moderation import Moderation

        return Moderation(self.context)

    @cached_property
    def admin(self) -> "Administration":
        """Administration of the whole board."""
        from hpc_board.board.administration import Administration

        return Administration(self.context, self.tasks, self.runs)

    @cached_property
    def admin_views(self) -> "AdminViews":
        """Overviews of leaderboards and users, for admins and creators."""
        from hpc_board.board.admin_views import AdminViews

        return AdminViews(self.context, self.tasks)
