"""The names of tasks and GPUs for completion: kept for some minutes, since a board takes long to open for one Tab."""

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import click

from hpc_board.cli.global_options import config_of

_LIFE_SECONDS = 300
_BYTES_MAX = 1024 * 1024
_PLACES_MAX = 20


def cached(kind: str, ctx: click.Context, read: Callable[[], Iterable[str]]) -> list[str]:
    """Return the names of this kind that the board had within the last minutes; `read` reads them anew."""
    file, key = _file(os.environ), _key(kind, ctx, os.environ)
    places = _stored(file)
    known = places.get(key, {})
    names, at = known.get("names"), known.get("at")
    if isinstance(names, list) and isinstance(at, (int, float)) and 0 <= time.time() - at < _LIFE_SECONDS:
        return [name for name in names if isinstance(name, str) and name.isprintable()]
    found = list(read())
    kept = {place: value for place, value in places.items() if place != key}
    newest = dict([*kept.items(), (key, {"at": time.time(), "names": found})][-_PLACES_MAX:])
    with suppress(OSError):
        from hpc_board.files import write_whole

        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(file, json.dumps(newest).encode())
    return found


def _file(environ: Mapping[str, str]) -> Path:
    # As `files.user_folder` has it, whose module costs each Tab more than these lines.
    given = Path(environ.get("XDG_CACHE_HOME", ""))
    if not given.is_absolute():
        given = Path(environ.get("HOME") or "/nonexistent") / ".cache"
    return given / "hpc-board" / "names.json"


def _key(kind: str, ctx: click.Context, environ: Mapping[str, str]) -> str:
    """Return a text that differs where another settings file, or a change of it, may bring other names."""
    parts = [kind, environ.get("HPC_BOARD_SERVICE", "")]
    with suppress(OSError):
        parts.append(str(Path.cwd()))
    named = config_of(ctx) or environ.get("HPC_BOARD_CONFIG")
    own = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '')}/.config"
    for path in (named, "hpc-board.yaml", f"{own}/hpc-board/config.yaml", "/etc/hpc-board/config.yaml"):
        with suppress(OSError, ValueError):
            status = os.stat(path or "")  # noqa: PTH116 - pathlib is no shorter
            parts += [str(path), str(status.st_mtime_ns), str(status.st_ino)]
    return "\n".join(parts)


def _stored(file: Path) -> dict[str, dict[str, object]]:
    """Return the stored names; none from a damaged file."""
    try:
        with file.open("rb") as opened:
            found = json.loads(opened.read(_BYTES_MAX))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {place: value for place, value in found.items() if isinstance(value, dict)}
