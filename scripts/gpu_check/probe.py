"""Probe a GPU for the facts on which the judge's clock rests, with the harness's confinement and driver calls alone.

`probe.py facts` prints this Python's facts. `probe.py steps HARNESS SECONDS` makes the steps and prints a line of JSON
for each at once. The GPU is used by four processes: a judge, two workers, and one in a PID namespace, all confined as
the harness confines its own. If one of them dies or takes too long, all are ended, and the next step has new ones.
"""

import contextlib
import importlib.util
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import probe_gpu  # noqa: E402 - found by the line above

JUDGE, ONE, TWO, INSIDE = "judge", "one", "two", "inside"
_START_SECONDS = 25.0
_FRAME_BYTES = 2**18
_VALUE_BYTES = 2**32
_MODULES = ("triton", "cupy", "jax", "helion", "tilelang", "cutlass", "cuda.tile", "numba")
_QUERY = (
    "name,driver_version,compute_mode,mig.mode.current,ecc.mode.current,persistence_mode,clocks.current.sm,"
    "clocks.max.sm,clocks.current.memory,power.limit,temperature.gpu,clocks_event_reasons.active"
)
WINDOWS, DRIFT_WINDOWS = 50, 20
SMALL, COPIED = 2**20, 2**24


class StepFailed(Exception):
    """A step that has no answer; the message says why."""


class PeerLost(StepFailed):
    """A process that does not answer, or has ended."""


def main(argv: Sequence[str]) -> int:
    """Run the part that the arguments name."""
    if argv[0] == "facts":
        print(json.dumps(facts()), flush=True)
    elif argv[0] == "peer":
        serve(socket.socket(fileno=int(argv[2])), argv[1], argv[3], argv[4])
    else:
        probe(argv[1], time.monotonic() + float(argv[2]) - 1)
    return 0


def facts() -> dict[str, Any]:
    """Return the facts of this Python and its GPU; `gpu` is None without one, and `why` says so then."""
    import torch

    versions = {name: version(name) for name in _MODULES}
    built = torch.version.cuda or torch.version.hip
    found: dict[str, Any] = {"torch": torch.__version__, "gpu": None, "why": "", "gpus": 0, "modules": versions}
    try:
        if torch.cuda.is_available():
            torch.ones(1, device="cuda").sum().item()
            found |= {"gpu": torch.cuda.get_device_name(0), "runtime": built, "gpus": torch.cuda.device_count()}
        else:
            found["why"] = "PyTorch finds no GPU" + ("" if built else " (a CPU build)")
    except Exception as error:  # noqa: BLE001 - PyTorch raises many types
        found["why"] = f"PyTorch cannot use the GPU: {error}"
    return found


def version(module: str) -> str:
    """Return the version of a module of this Python without importing it; "" without the module."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as of_distribution

    try:
        if importlib.util.find_spec(module) is None:
            return ""
        return of_distribution(module)
    except PackageNotFoundError:
        return "there"
    except (ImportError, ValueError):
        return ""


def confined(role: str, harness: str, scratch: str, home: str) -> str:
    """Confine this process as the harness confines its own, and return the isolation level."""
    sys.path.insert(0, harness)
    from hpc_board.harness.confine import sandbox
    from hpc_board.harness.confine.seccomp import deny_outside_effects

    readable = sandbox.readable_folders(os.environ, (str(HERE),), (home,))
    if role == JUDGE:
        return sandbox.confine_task(readable, scratch, _VALUE_BYTES)
    sandbox.limit_resources(_VALUE_BYTES)
    return sandbox.level_of(sandbox.confine(readable, [scratch]), filtered=deny_outside_effects())


def serve(channel: socket.socket, role: str, harness: str, scratch: str) -> None:
    """Answer the requests of the coordinator, in a process that has the GPU."""
    home = str(Path.home())
    os.environ.update(HOME=scratch, TMPDIR=scratch, CUDA_CACHE_PATH=scratch)
    try:
        level = confined(role, harness, scratch, home)
        gpu = probe_gpu.Gpu()
        channel.send(json.dumps({"value": level}).encode())
    except BaseException as error:  # noqa: BLE001 - the coordinator reports it
        channel.send(json.dumps({"error": f"{type(error).__name__}: {error}"[:500]}).encode())
        return
    while True:
        data, descriptors, _, _ = socket.recv_fds(channel, _FRAME_BYTES, 1)
        if not data:
            return
        frame = json.loads(data)
        try:
            value = getattr(gpu, frame["do"])(*descriptors, *frame["args"])
            sent = [value.pop("descriptor")] if isinstance(value, dict) and "descriptor" in value else []
            socket.send_fds(channel, [json.dumps({"value": value}).encode()], sent)
        except Exception as error:  # noqa: BLE001 - the coordinator reports it
            channel.send(json.dumps({"error": f"{type(error).__name__}: {error}"[:500]}).encode())


class Peer:
    """A process with the GPU; `level` is its isolation, or `fault` the reason for which it has not started."""

    def __init__(self, role: str, harness: str) -> None:
        self.level = self.fault = ""
        self.descriptors: list[int] = []
        self._scratch = tempfile.mkdtemp(prefix=f"probe-{role}-", dir=HERE)
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        descriptor, self._role = theirs.fileno(), role
        command = [sys.executable, "-I", __file__, "peer", role, str(descriptor), harness, self._scratch]
        self._child = subprocess.Popen(
            [*(in_namespace() if role == INSIDE else []), *command], pass_fds=[descriptor], stdin=subprocess.DEVNULL
        )
        theirs.close()

    def ready(self, deadline: float) -> None:
        """Wait until the process has the GPU, if it has not come to that yet."""
        if not self.level and not self.fault:
            try:
                self.level = str(self.answer(deadline))
            except StepFailed as error:
                self.fault = str(error)

    def ask(self, what: str, *arguments: Any, descriptor: "int | None" = None) -> None:
        """Send a request."""
        if self.fault:
            raise StepFailed(f"the process {self._role} has not started: {self.fault}")
        frame = json.dumps({"do": what, "args": arguments}).encode()
        try:
            socket.send_fds(self._channel, [frame], [] if descriptor is None else [descriptor])
        except OSError as error:
            raise PeerLost(f"the process {self._role} has ended: {error}") from None

    def answer(self, deadline: float) -> Any:
        """Return the answer to the last request; a descriptor with it goes to `descriptors`."""
        self._channel.settimeout(max(0.01, deadline - time.monotonic()))
        try:
            data, descriptors, _, _ = socket.recv_fds(self._channel, _FRAME_BYTES, 1)
        except TimeoutError:
            raise PeerLost(f"the process {self._role} did not answer in time") from None
        except OSError as error:
            raise PeerLost(f"the process {self._role} has ended: {error}") from None
        if not data:
            raise PeerLost(f"the process {self._role} has ended")
        self.descriptors += descriptors
        found = json.loads(data)
        if "error" in found:
            raise StepFailed(found["error"])
        return found["value"]

    def end(self) -> None:
        """Kill the process; the driver of a broken GPU may hold it, so no wait is for it."""
        self._child.kill()
        self._channel.close()
        for descriptor in self.descriptors:
            os.close(descriptor)
        shutil.rmtree(self._scratch, ignore_errors=True)


def in_namespace() -> list[str]:
    """Return the command that starts a process in a PID namespace of its own."""
    program = shutil.which("bwrap")
    if program:
        return [program, "--unshare-pid", "--die-with-parent", "--dev-bind", "/", "/", "--proc", "/proc", "--"]
    return ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--"]


class Peers:
    """The processes with the GPU, until the `deadline` of the present step."""

    def __init__(self, harness: str) -> None:
        self.deadline = 0.0
        self._harness = harness
        self._peers: dict[str, Peer] = {}

    def start(self) -> None:
        """Start all processes at once, where they are not there; the one in the namespace may come later."""
        if not self._peers:
            self._peers = {role: Peer(role, self._harness) for role in (JUDGE, ONE, TWO, INSIDE)}
            end = time.monotonic() + _START_SECONDS
            for role in (JUDGE, ONE, TWO):
                self._peers[role].ready(end)

    def end(self) -> None:
        """End all processes."""
        for peer in self._peers.values():
            peer.end()
        self._peers.clear()

    def levels(self) -> dict[str, str]:
        """Return each process's isolation, or the reason for which it has not started."""
        return {role: self._peers[role].level or self._peers[role].fault for role in (JUDGE, ONE, TWO)}

    def __call__(self, role: str, what: str, *arguments: Any, descriptor: "int | None" = None) -> Any:
        """Return a process's answer to a request."""
        if role == INSIDE:
            self._peers[role].ready(self.deadline)
        self._peers[role].ask(what, *arguments, descriptor=descriptor)
        return self._peers[role].answer(self.deadline)

    def beside(self, role: str, what: str, *arguments: Any) -> None:
        """Send a request whose answer comes later, to `finished`."""
        self._peers[role].ask(what, *arguments)

    def finished(self, role: str) -> Any:
        """Return the answer to a request that was sent before."""
        return self._peers[role].answer(self.deadline)

    def descriptor(self, role: str) -> int:
        """Return the last descriptor that a process has sent."""
        return self._peers[role].descriptors[-1]


Step = Callable[[Peers], dict[str, Any]]


def probe(harness: str, deadline: float) -> None:
    """Make all steps in their order, and print each one's answer."""
    with tempfile.TemporaryFile("w+") as told:
        query = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv"]
        with contextlib.suppress(OSError):
            subprocess.Popen(query, stdin=subprocess.DEVNULL, stdout=told, stderr=subprocess.STDOUT)
        peers = Peers(harness)
        for name, seconds, step in steps():
            start = time.monotonic()
            left = deadline - start
            if left < 1:
                say(name, start, {"answer": "left out: no time"})
                continue
            try:
                peers.start()
                peers.deadline = time.monotonic() + min(seconds, left)
                found = step(peers)
            except StepFailed as error:
                found = {"answer": f"failed: {error}"}
                if isinstance(error, PeerLost):
                    peers.end()
            say(name, start, found)
        peers.end()
        told.seek(0)
        say("nvidia-smi", time.monotonic(), {"answer": "; ".join(told.read().split("\n")[:9])})


def say(name: str, start: float, found: dict[str, Any]) -> None:
    """Print the answer of a step."""
    print(json.dumps({"step": name, "took_s": round(time.monotonic() - start, 2), **found}), flush=True)


def steps() -> Iterator[tuple[str, float, Step]]:
    """Yield the name of each step, its limit in seconds, and the step."""
    yield "processes and their isolation", 1, lambda peers: {"answer": json.dumps(peers.levels())}
    yield "attributes of the device", 2, lambda peers: {"answer": json.dumps(peers(JUDGE, "attributes"))}
    for kind in ("plain", "expandable", "async"):
        yield f"IPC handle of {kind} memory", 3, lambda peers, kind=kind: by_handle(peers, ONE, kind)  # type: ignore[misc]
    yield "wait and write of values", 3, lambda peers: {"answer": f"{one_window(peers, ONE, 'nothing')} us"}
    yield "windows", 8, windows
    yield "copy engine in another's time", 6, copy_engines
    yield "VMM memory by descriptor", 3, lambda peers: by_descriptor(peers, ONE)
    yield "VMM memory across a PID namespace", 8, lambda peers: by_descriptor(peers, INSIDE)
    yield "IPC handle across a PID namespace", 3, lambda peers: by_handle(peers, INSIDE, "plain")
    yield (
        "output copy of 16 MiB",
        4,
        lambda peers: {"answer": described(found := peers(JUDGE, "copies", COPIED)), **found},
    )
    yield "10 ms of FMAs", 6, time_slices
    yield "drift after 5 s of products", 9, drift


def by_handle(peers: Peers, owner: str, kind: str) -> dict[str, Any]:
    """Share memory of one process by the driver's handle, and look for the other's byte in it."""
    handle = peers(owner, "allocate", kind, SMALL)
    peers(JUDGE, "open_and_fill", handle, 77)
    found = peers(owner, "first_byte")
    return {"answer": "shared" if found == 77 else f"opened, and has the byte {found} instead of 77"}


def by_descriptor(peers: Peers, other: str) -> dict[str, Any]:
    """Share memory of the judge by a descriptor, and look for the other process's byte in it."""
    size = peers(JUDGE, "create", SMALL)["size"]
    peers(other, "import_and_fill", size, 55, descriptor=peers.descriptor(JUDGE))
    found = peers(JUDGE, "first_byte")
    return {"answer": "shared" if found == 55 else f"imported, and has the byte {found} instead of 55"}


def one_window(peers: Peers, worker: str, made: str, number: int = 1) -> float:
    """Return the microseconds of one window, for whose signals the judge opens a handle if the number is 1."""
    if number == 1:
        peers(JUDGE, "open_signals", peers(worker, "signals"))
    peers(worker, "arm", number, made)
    found = float(peers(JUDGE, "window", number))
    peers(worker, "idle")
    return found


def of_windows(peers: Peers, worker: str, made: str, count: int) -> list[float]:
    """Return the microseconds of several windows; the first one is not counted."""
    return [one_window(peers, worker, made, number) for number in range(1, count + 2)][1:]


def windows(peers: Peers) -> dict[str, Any]:
    """Measure windows without work and with the response, in each of two worker processes."""
    found = {
        f"{role}, {made}": of_windows(peers, role, made, WINDOWS)
        for made in ("nothing", "response")
        for role in (ONE, TWO)
    }
    return {"answer": described(found), **found}


def drift(peers: Peers) -> dict[str, Any]:
    """Measure windows with the response before and after five seconds of products."""
    before = of_windows(peers, ONE, "response", DRIFT_WINDOWS)
    peers(ONE, "products", 5.0)
    found = {"before": before, "after": of_windows(peers, ONE, "response", DRIFT_WINDOWS)}
    return {"answer": described(found), **found}


def copy_engines(peers: Peers) -> dict[str, Any]:
    """Let a stream of a worker copy or clear memory while a kernel of the judge computes."""
    found: dict[str, Any] = {}
    peers(JUDGE, "open_signals", peers(ONE, "signals"))
    for number, kind in enumerate(("memcpy2d", "memset", "kernel"), 1):
        peers(ONE, "arm_stream", number, kind, COPIED)
        kernel_us, done_us = peers(JUDGE, "window_beside_kernel", number)
        peers(ONE, "idle")
        found[kind] = {"kernel_us": kernel_us, "done_us": done_us}
    told = [
        f"{kind} done after {each['done_us']:.0f} us of the kernel's {each['kernel_us']:.0f}"
        for kind, each in found.items()
    ]
    return {"answer": "; ".join(told), **found}


def time_slices(peers: Peers) -> dict[str, Any]:
    """Time a fixed number of FMAs alone, in windows, and beside another process's."""
    found = {"alone": peers(ONE, "fmas", 5), "windows": of_windows(peers, ONE, "fmas", 5)}
    peers.beside(TWO, "busy", 1.0)
    found["beside another process"] = peers(ONE, "fmas", 5)
    peers.finished(TWO)
    return {"answer": described(found), **found}


def described(found: dict[str, Any]) -> str:
    """Return the median and the quartiles of each list of microseconds."""
    told = []
    for name, times in found.items():
        low, middle, high = statistics.quantiles(times, n=4)
        told.append(f"{name}: {middle:.2f} us ({low:.2f} to {high:.2f})")
    return "; ".join(told)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
