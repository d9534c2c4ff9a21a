"""A real munged for tests, with a key of its own."""

import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import awaited

_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
time_t time(time_t *at) {
    time_t (*real)(time_t *) = dlsym(RTLD_NEXT, "time");
    time_t now = real(0) + atol(getenv("CLOCK_OFFSET"));
    if (at) *at = now;
    return now;
}
"""


def skip_without_munge() -> None:
    absent = [name for name in ("munged", "munge", "unmunge") if shutil.which(name) is None]
    if absent:
        pytest.skip(f"munge is not installed: no {', '.join(absent)}")


def new_key(path: Path) -> Path:
    """A new key at `path`, which several daemons may have."""
    path.touch(mode=0o600)
    path.write_bytes(secrets.token_bytes(128))
    return path


def clock_offset(folder: Path, seconds: int) -> dict[str, str]:
    """The environment of a program whose clock is so far ahead."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler is here to set a daemon's clock")
    library = folder / "clock.so"
    if not library.exists():
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library), "-ldl"], input=_CLOCK, text=True, check=True
        )
    return {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(seconds)}


@contextmanager
def munged(folder: Path, key: Path, environ: Mapping[str, str] | None = None) -> Iterator[Path]:
    """Run munged with this key and environment; yield its socket, at which every account may ask."""
    folder.mkdir(mode=0o755, parents=True)
    place = folder / "m"
    daemon = subprocess.Popen(
        [
            "munged",
            "--foreground",
            "--force",
            f"--key-file={key}",
            *(f"--{name}-file={folder / name}" for name in ("pid", "log", "seed")),
            f"--socket={place}",
            "--num-threads=4",
        ],
        env={**os.environ, **(environ or {})},
        stderr=subprocess.DEVNULL,
    )
    try:
        awaited(lambda: _listens(place) or daemon.poll() is not None)
        assert daemon.poll() is None, (folder / "log").read_text()
        yield place
    finally:
        daemon.terminate()
        daemon.wait(30)


def _listens(place: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(str(place)) == 0
