"""Acting as another account, for tests of the limits of other users."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

NOBODY = 65534
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@contextmanager
def another_user() -> Iterator[None]:
    """Act with the rights of `nobody`."""
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
