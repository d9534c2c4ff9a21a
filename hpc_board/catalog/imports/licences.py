"""The licence of a source, as the source states it: by an SPDX line, or by a file beside or above it."""

import re
from pathlib import Path

from hpc_board.errors import InputError
from hpc_board.files import read_bounded
from hpc_board.model.text import one_line

_FILE = re.compile(r"(?:licen[cs]e|copying)(?:[.-].*)?\Z", re.IGNORECASE)
_SPDX = re.compile(r"SPDX-License-Identifier:\s*([A-Za-z0-9.+-]+(?: (?:AND|OR|WITH) [A-Za-z0-9.+-]+)*)")
_HEAD_BYTES = 4096
_ABOVE_MAX = 8
_FILES_MAX = 1000
_KNOWN = (
    (r"Apache License\s+Version 2\.0", "Apache-2.0"),
    (r"Permission is hereby granted, free of charge", "MIT"),
    (r"Redistribution and use in source and binary forms[\s\S]*Neither the name", "BSD-3-Clause"),
    (r"Redistribution and use in source and binary forms", "BSD-2-Clause"),
    (r"GNU LESSER GENERAL PUBLIC LICENSE", "LGPL"),
    (r"GNU GENERAL PUBLIC LICENSE", "GPL"),
    (r"Mozilla Public License", "MPL"),
)


def licence_of(source: Path) -> str:
    """Return the licence of the file or folder `source` and the place that names it; empty if none does."""
    if source.is_file() and (found := _SPDX.search(_head(source))):
        return f"{found[1]} (SPDX line)"
    place = source.resolve()
    for folder in [place, *place.parents][: _ABOVE_MAX + 1]:
        try:
            entries = sorted(folder.iterdir())[:_FILES_MAX] if folder.is_dir() else []
        except OSError:
            return ""
        for entry in entries:
            if _FILE.match(entry.name) and entry.is_file():
                return f"{_named(_head(entry))} ({one_line(str(entry), 300)})"
        if any(entry.name == ".git" for entry in entries):
            return ""
    return ""


def _named(text: str) -> str:
    """Return the licence of this text by its SPDX name, else its first line."""
    if found := _SPDX.search(text):
        return found[1]
    first = next((line for line in text.splitlines() if line.strip()), "unnamed")
    return next((name for pattern, name in _KNOWN if re.search(pattern, text)), one_line(first, 60))


def _head(path: Path) -> str:
    try:
        return read_bounded(path, _HEAD_BYTES).decode(errors="replace")
    except (OSError, InputError):
        return ""
