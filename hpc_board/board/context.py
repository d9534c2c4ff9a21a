"""The context that the parts of a board share: the installation, and the user who asks."""

import hashlib
import shlex
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from functools import cache, cached_property
from typing import TYPE_CHECKING

from hpc_board.accounts import Groups, user_name
from hpc_board.domain.gpus import gpu
from hpc_board.domain.roles import GROUP, Role
from hpc_board.errors import BoardError, Refused
from hpc_board.files import LOCK_SECONDS
from hpc_board.model.gpu import Gpu
from hpc_board.model.text import one_line
from hpc_board.runs.clusters import Clusters
from hpc_board.settings import Settings
from hpc_board.store import Store
from hpc_board.store.folder import DATABASE, check_own, is_served, make_board_folder

if TYPE_CHECKING:
    from hpc_board.boards.comparison import ChangeSpreads
    from hpc_board.boards.editor import BoardUser, LeaderboardEditor
    from hpc_board.catalog.known_tasks import TaskCache
    from hpc_board.domain.moderation import Sender
    from hpc_board.domain.run import Run
    from hpc_board.runs.reconciler import Reconciler


_SERVED_LOCK_SECONDS = 1.0


class Installation:
    """The settings of a board, its database and its clusters, which all its users share.

    `account` is the Unix account that owns the folder and sends the jobs. With `launch`, the board is served: that
    function takes new runs, and the service advances all runs; without it, each client of the account does both.
    `warn` is called from any thread with warnings about the settings. `former` is the installation before a change of
    the settings, whose connections this one keeps as far as it needs them.
    """

    def __init__(
        self,
        settings: Settings,
        account: str,
        warn: Callable[[str], object],
        launch: "Callable[[Sequence[Run]], Sequence[BoardError]] | None" = None,
        former: "Installation | None" = None,
    ) -> None:
        self.settings = settings
        self.account = account
        self.served = launch is not None
        self._launch = launch
        self._warn = warn
        # Not cached properties, which two threads could make twice: the one holds the connections to clusters.
        self.clusters: Clusters = Clusters(settings, warn, None if former is None else former.clusters)
        self.groups = Groups()
        self.reading = Store(settings.board / DATABASE)

    def with_settings(self, settings: Settings) -> "Installation":
        """Return the same installation with other settings."""
        return Installation(settings, self.account, self._warn, self._launch, self)

    @cached_property
    def store(self) -> Store:
        """The store for writing; its folder is created."""
        make_board_folder(self.settings.board)
        return self.reading

    @cached_property
    def known_tasks(self) -> "TaskCache":
        """The tasks of the settings that this process has read."""
        from hpc_board.catalog.known_tasks import TaskCache

        return TaskCache()

    @cached_property
    def changes(self) -> "ChangeSpreads":
        """The significance of changes between runs."""
        from hpc_board.boards.comparison import ChangeSpreads

        return ChangeSpreads(self.reading)

    def served_by_another(self) -> bool:
        """Return whether a service, another process, owns the board: only it sends and follows jobs."""
        return not self.served and is_served(self.settings.board)

    def require_unserved(self, what: str) -> None:
        """Require that no other process serves the board; `what` completes "only the service ...".

        Raises:
            Refused: a service owns the board.
        """
        if self.served_by_another():
            socket = "SOCKET" if self.settings.socket is None else shlex.quote(str(self.settings.socket))
            raise Refused(
                f"{self.settings.board} is served by `hpc-board serve`, and only the service {what}.",
                hint=f"Use the board through the service: export HPC_BOARD_SERVICE={socket}",
            )

    def source_of_roles(self, role: Role) -> str:
        """Return the advice for a user without `role`: a service's settings are not for its clients to read."""
        if not self.served:
            return "The key `roles` in the settings assigns roles."
        admins = (name for name in self.settings.roles.admins if not name.startswith(GROUP))
        return f"Ask the service's admin, {next(admins, self.account)}, for the role {role}."

    @property
    def runs_per_user(self) -> int | None:
        """The number of a user's runs that schedulers may have at one time; None without a limit."""
        return self.settings.runs_per_user if self.served else None

    def launch(self, runs: "Sequence[Run]") -> "Sequence[BoardError]":
        """Send new runs to their schedulers, now or by the service, and return at most one error for each."""
        return self.reconciler.launch(runs) if self._launch is None else self._launch(runs)

    @cached_property
    def reconciler(self) -> "Reconciler":
        """The reconciler of the board's runs."""
        from hpc_board.runs.reconciler import Reconciler

        return Reconciler(
            folder=self.settings.board,
            store=self.store,
            schedulers=self.clusters.schedulers,
            clusters={cluster.name: cluster for cluster in self.settings.clusters},
            gpus={each.name: each for each in self.settings.gpus},
            harness=harness,
            folders=self.clusters.folders,
            runs_per_user=self.runs_per_user,
            prune_after=None if self.settings.prune_days is None else timedelta(days=self.settings.prune_days),
            # A service answers all users, and its own threads send the runs that a busy cluster holds up.
            lock_seconds=_SERVED_LOCK_SECONDS if self.served else LOCK_SECONDS,
            runner_rules=self.settings.runners,
            served=self.served,
        )


class Context:
    """An installation as one user sees it; `warn` is called from any thread with warnings for this user."""

    def __init__(self, installation: Installation, user: str, warn: Callable[[str], object]) -> None:
        self.installation = installation
        self.user = user
        self.warn = warn
        self.settings = installation.settings
        self.clusters = installation.clusters

    @cached_property
    def reading(self) -> Store:
        """The store as the user may see it; it creates no folder, `store` is for writing."""
        whole = self.installation.reading
        return whole if self.is_admin else whole.read_by(self.editor.reader)

    @property
    def store(self) -> Store:
        """The store for writing; its folder is created."""
        whole = self.installation.store
        return whole if self.is_admin else self.reading

    @property
    def reconciler(self) -> "Reconciler":
        """The reconciler of the installation's runs."""
        return self.installation.reconciler

    def gpu(self, name: str) -> Gpu:
        """Return the GPU of the settings called `name`, compared without case.

        Raises:
            InputError: no GPU has this name; the hint offers the nearest one.
        """
        return gpu(name, self.settings.gpus)

    # The user

    @cached_property
    def role(self) -> Role:
        """The user's role, from the settings' `roles` and the owner of the board's folder."""
        check_own(self.settings.board)
        return self.role_of(self.user)

    @property
    def is_admin(self) -> bool:
        """Return whether the user is an admin."""
        return self.role is Role.ADMIN

    @property
    def sender(self) -> "Sender":
        """The user as a sender of submissions."""
        from hpc_board.domain.moderation import Sender

        is_bound = not (self.is_admin and self.installation.served)
        return Sender(self.role, self.installation.groups.of(self.user), is_bound)

    def role_of(self, user: str) -> Role:
        """Return the role of `user`."""
        roles = self.settings.roles
        groups = self.installation.groups.of(user) if roles.name_groups else frozenset()
        return roles.role(user, groups, owner=self.owns_folder(user))

    def require(self, least: Role, what: str) -> None:
        """Require at least the role `least`; `what` completes "you may not ...".

        Raises:
            Refused: the user's role is lower.
        """
        if not self.role.may_act_as(least):
            own = f"{self.user} has no role" if self.role is Role.NONE else f"{self.user}'s is {self.role}"
            raise Refused(
                f"you may not {what}: this requires the role {least}, but {own}.",
                hint=self.installation.source_of_roles(least),
            )

    def manages(self, board: str) -> bool:
        """Return whether the user has an admin's rights on a leaderboard: as its creator or maintainer, too."""
        return self.is_admin or (self.role.may_act_as(Role.CREATOR) and self.editor.manages(board))

    def require_manager(self, boards: Collection[str], what: str) -> None:
        """Require the rights of an admin on these leaderboards, or on all without any; `what` completes "you may not".

        Raises:
            Refused: the user does not have them.
        """
        self.require(Role.CREATOR if boards else Role.ADMIN, what)
        for board in boards:
            if not self.manages(board):
                raise Refused(
                    f"you may not {what}: {one_line(board, 80)} is not a board of {self.user}, a {self.role}.",
                    hint="Ask an admin, or the board's creator to add you by `update NAME --maintainer USER`.",
                )

    def owns_folder(self, user: str) -> bool:
        """Return whether `user` owns the board's folder, or will own it once it is made."""
        try:
            owner = self.settings.board.stat().st_uid
        except OSError:
            return user == self.installation.account  # its maker will own the folder
        return user == user_name(owner)

    def person(self) -> "BoardUser":
        """Return the user with their groups and role."""
        from hpc_board.boards.editor import BoardUser

        return BoardUser(self.user, self.installation.groups.of(self.user), self.role)

    # The database

    def has_database(self) -> bool:
        """Return whether the database exists; a command that only reads does not create it."""
        return self.reading.file.is_there()

    # Runs and leaderboards

    @cached_property
    def editor(self) -> "LeaderboardEditor":
        """The leaderboards that users created; reading them creates no folder."""
        from hpc_board.boards.editor import LeaderboardEditor

        return LeaderboardEditor(self.installation.reading, self.person, self.role_of, self.settings.gpus)


class PublicContext(Context):
    """An installation as the public sees it: a participant without a name, who is a member of no closed leaderboard.

    Those of `guest_of` are visible, too.
    """

    def __init__(
        self, installation: Installation, warn: Callable[[str], object], guest_of: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(installation, "", warn)
        self._guest_of = guest_of

    def role_of(self, user: str) -> Role:
        """Return the role of a participant, whatever the settings say of `user`."""
        del user
        return Role.PARTICIPANT

    def person(self) -> "BoardUser":
        """Return a user without a name and groups, so that neither a list of members nor a group fits."""
        from hpc_board.boards.editor import BoardUser

        return BoardUser("", frozenset(), self.role, self._guest_of)


@cache
def harness() -> bytes:
    """Return the harness file that is copied to clusters."""
    from hpc_board.harness.bundle import harness_bytes

    return harness_bytes()


@cache
def harness_sha256() -> str:
    """Return the hash of the harness, which runs and runners have that were stored by this version."""
    return hashlib.sha256(harness()).hexdigest()
