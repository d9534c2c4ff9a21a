"""The memory of a simulated GPU."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def simulated() -> Iterator[str]:
    """The name of a simulated GPU, whose memory is removed at the end."""
    name = f"check-{os.getpid()}-{secrets.token_hex(4)}"
    yield name
    for path in Path("/dev/shm").glob(f"{name}.*"):
        path.unlink()
