"""The board of each command, by its files and behind a service."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.service import Services
from tests.unit.recorded import Recorded, recorded


@pytest.fixture(params=["files", "service"])
def board(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Recorded]:
    """A board of its own for each test, with no run in it, through either door."""
    made = recorded(tmp_path)
    if request.param == "files":
        yield made
        return
    if mark := request.node.get_closest_marker("files_alone"):
        pytest.skip(mark.args[0])
    services = Services(made.settings)
    try:
        yield replace(made, services=services)
    finally:
        services.close()
