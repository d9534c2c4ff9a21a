"""Networks for tests: an address of this machine, or two networks with one cable between them."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.waiting import awaited

SERVER_ADDRESS, CLIENT_ADDRESS = "198.51.100.1", "198.51.100.2"
"""The two ends of the cable, from the addresses that are for examples (RFC 5737)."""


def own_address() -> str:
    """An address of this machine that is no loopback; to ask for it sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((SERVER_ADDRESS, 9))
        except OSError:
            pytest.skip("this machine has no address besides its loopback ones")
        return str(probe.getsockname()[0])


class Networks(NamedTuple):
    """The beginnings of commands that run on either side; a side has its end of the cable and loopback, no more."""

    server: list[str]
    client: list[str]


@contextmanager
def linked_networks() -> Iterator[Networks]:
    """Make both networks, which end with the block."""
    if os.geteuid() != 0:
        pytest.skip("only root can make networks")
    absent = [name for name in ("ip", "nsenter", "unshare") if shutil.which(name) is None]
    if absent:
        pytest.skip(f"no networks can be made: no {', '.join(absent)}")
    with ExitStack() as stack:
        holders = [_holder(stack) for _ in range(2)]
        made = Networks(*(["nsenter", f"--net=/proc/{holder}/ns/net", "--"] for holder in holders))
        _ip(made.server, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", str(holders[1]))
        for side, address in zip(made, (SERVER_ADDRESS, CLIENT_ADDRESS), strict=True):
            _ip(side, "address", "add", f"{address}/24", "dev", "cable")
            for device in ("lo", "cable"):
                _ip(side, "link", "set", device, "up")
        yield made


def _holder(stack: ExitStack) -> int:
    """The process that keeps a new network alive."""
    process = stack.enter_context(subprocess.Popen(["unshare", "--net", "sleep", "infinity"]))
    stack.callback(process.kill)
    ours = Path("/proc/self/ns/net").readlink()
    awaited(lambda: process.poll() is not None or Path(f"/proc/{process.pid}/ns/net").readlink() != ours)
    if process.poll() is not None:
        pytest.skip("this machine lets no process make a network")
    return process.pid


def _ip(side: list[str], *words: str) -> None:
    done = subprocess.run([*side, "ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"this machine has no networks for tests: {done.stderr.strip()}")
