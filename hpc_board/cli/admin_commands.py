"""The `admin` group with its commands from several modules."""

import hpc_board.cli.moderation  # noqa: F401 - adds its commands to `admin`
from hpc_board.cli.admin import admin
from hpc_board.cli.boards import milestones, sync
from hpc_board.cli.export import export, stats
from hpc_board.cli.init import init

for command in (export, init, milestones, stats, sync):
    admin.add_command(command)

__all__ = ["admin"]
