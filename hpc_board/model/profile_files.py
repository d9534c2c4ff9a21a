"""The files of a profile in the job folder: where they lie, and the names that leave it."""

import re

FOLDER = "profile"
"""The folder in the job folder."""

_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,120}\.(?:ncu-rep|nsys-rep|csv|pftrace|json|data|ptx|sass)"


def is_profile_file(name: str) -> bool:
    """Return whether the harness gives files of a profile such a name; the job's folder may have any others."""
    return re.fullmatch(_NAME, name) is not None
