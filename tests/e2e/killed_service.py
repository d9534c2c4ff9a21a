"""A service that looks a job up soon after an unclear submission, as a process of its own for test_killed_service."""

import os
import sys
from datetime import timedelta
from pathlib import Path

from hpc_board.service.server import Service
from hpc_board.settings import load
from tests.harness.harness_file import send_with_byte_code
from tests.values import replace


def main() -> None:
    """Serve the board of the settings file at the socket; a further word has the seconds after which it looks."""
    settings, socket = map(Path, sys.argv[1:3])
    seconds = float(*sys.argv[3:] or ["1"])
    send_with_byte_code()
    service = Service(load(settings, os.environ), socket, advance_seconds=0.2)
    installation = service._installation
    installation.__dict__["reconciler"] = replace(installation.reconciler, lookup_delay=timedelta(seconds=seconds))
    service.run()


if __name__ == "__main__":
    main()
