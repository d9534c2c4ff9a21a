"""The labs with another Slurm than this host's."""

from collections.abc import Iterator

import pytest

from tests.slurm import places
from tests.slurm.places import ChrootLab


@pytest.fixture(scope="module")
def chroot_lab() -> Iterator[ChrootLab]:
    with places.chroot_labs() as lab:
        yield lab
