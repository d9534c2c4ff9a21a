"""The worker: imports the submission and calls it on inputs that it is given one at a time.

It holds no secret: neither reference nor seeds nor tolerances nor the other cases. What it answers is a claim; its
outputs are checked byte by byte elsewhere and its times are bounded by the supervisor's clock. The reference is timed
by such a worker too, so that it is known what a call costs beside the call itself. Under a profiler that has to start
it (`traced`) a worker gives up less, see profile.py.

Frames: `load` -> `confined`, then `loaded` or `raised`; `prepare` -> `prepared`; `map` (with memory for inputs, and for
the outputs of each call) -> `mapped`; `run` -> `done`, `raised` or `overlapped`: outputs of a row of calls that lie in
one buffer are lost unless the row is asked for with copies. While the inputs are written, between `mapped` and
`run`, the process is stopped.
"""

import importlib.util
import linecache
import mmap
import os
import sys
import traceback
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence

from hpc_board.harness import compiled, payload, sandbox
from hpc_board.harness.answers import HELD_MAX
from hpc_board.harness.channel import Channel, ChannelClosed, Frame
from hpc_board.harness.device import Device, open_device
from hpc_board.harness.faults import fault, message_of
from hpc_board.harness.profiled import ProfiledDevice
from hpc_board.harness.seccomp import deny_outside_effects
from hpc_board.harness.zygote import preload
from hpc_board.model.result import Verdict
from hpc_board.model.text import printable

Kernel = Callable[[Any], Any]

_MESSAGE_MAX = 8000


def serve(channel: Channel, modules: Sequence[str] = ()) -> None:
    """Give up what a submission must not have, import it, and answer the supervisor until it is gone.

    A process that was not forked from the zygote imports `modules` before: they take long, and no call is to wait.
    """
    frame, _ = channel.receive()
    sandbox.show_memory()
    sandbox.limit_resources(frame["value_bytes"], frame["spared_processes"])
    traced = frame["traced"]
    landlock = sandbox.confine(frame["readable"], [frame["scratch"]], scoped=not traced)
    level = sandbox.level_of(landlock, filtered=not traced and deny_outside_effects())
    # Not later: what comes after the import, the submission may have written.
    channel.send({"type": "confined", "isolation": level})
    # Not earlier: what they import may start threads, and a thread keeps what it had.
    preload(modules)
    naming = _Naming(frame["folder"], frame["file"], frame["shown_as"])
    try:
        device = open_device(frame["device"])
        if frame["profile"]:
            device = ProfiledDevice(device, frame["profile"], Path(frame["scratch"]))
        kernel: Any
        if frame["compiled"]:
            kernel = compiled.open_kernel(Path(frame["folder"]) / frame["file"])
        else:
            kernel = _kernel(Path(frame["folder"]), frame["file"], frame["entry"], frame["shown_as"])
    except BaseException as error:  # noqa: BLE001 - whatever a submission raises is a result
        channel.send(naming.raised(error, Verdict.LOAD_ERROR))
        return
    channel.send({"type": "loaded"})
    worker = _Worker(kernel, device, naming)
    while True:
        try:
            frame, fds = channel.receive()
        except ChannelClosed:
            return
        channel.send(worker.answer(frame, fds))


def _kernel(folder: Path, name: str, entry: str, shown_as: str) -> Kernel:
    sys.path.insert(0, str(folder))
    module_name = Path(name).stem
    spec = importlib.util.spec_from_file_location(module_name, folder / name)
    if spec is None or spec.loader is None:
        raise ImportError(f"{shown_as} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    kernel = getattr(module, entry, None)
    if not callable(kernel):
        raise TypeError(f"{shown_as} defines no function called {entry}")
    found: Kernel = kernel
    return found


class _Worker:
    """A submission on a device."""

    def __init__(self, kernel: Any, device: Device, naming: "_Naming") -> None:
        self._kernel = kernel
        self._device = device
        self._naming = naming
        self._holders: List[Any] = []
        self._inputs: Dict[int, _Shared] = {}
        self._rooms: List[_Shared] = []

    def answer(self, frame: Frame, fds: List[int]) -> Frame:
        self._holders.clear()
        try:
            if frame["type"] == "prepare":
                self._device.prepare()
                return {"type": "prepared"}
            if frame["type"] == "map":
                self._map(frame["inputs"], fds)
                return {"type": "mapped"}
            return self._run(frame, fds)
        except payload.TooLarge as error:
            return _message(Verdict.OUTPUT_LIMIT, f"the output cannot be taken: {error}")
        except payload.PayloadError as error:
            return _message(Verdict.WRONG_DTYPE, f"the output cannot be taken: {error}")
        except BaseException as error:  # noqa: BLE001 - whatever a submission raises is a result
            return self._naming.raised(error, Verdict.EXCEPTION)

    def _map(self, places: List[int], fds: List[int]) -> None:
        """Take in the memory of some of the inputs, and rooms for the outputs, before the calls in which they are used.

        That takes longer than many a kernel, and is not to be part of a call. The rest of the inputs lie where they
        lay before.
        """
        self._rooms.clear()
        count = len(fds) - len(places)
        self._inputs = {place: each for place, each in self._inputs.items() if place < count and place not in places}
        shared = [_Shared(descriptor) for descriptor in fds]
        for place, each in zip(places, shared, strict=False):
            self._inputs[place] = each
            each.map()
        self._rooms = shared[len(places) :]
        if self._writes_there:
            for room in self._rooms:
                room.map()

    def _run(self, frame: Frame, fds: List[int]) -> Frame:
        rooms = self._rooms
        # On a GPU, what has been begun there is not stopped, and memory must not be known before its call.
        given = [_Shared(descriptor) for descriptor in fds] or [self._inputs[place] for place in range(len(rooms))]
        data = [payload.value_in(each.map(), self._device.place) for each in given]
        calls = [self._call(each, room, frame["form"]) for each, room in zip(data, rooms, strict=True)]
        returned: List[Any] = []
        keep = payload.copied if frame["copied"] else _itself

        made, repeated = calls[: frame["made"]], calls[frame["made"] :]

        def call() -> List[Any]:
            returned.extend(keep(each()) for each in made)
            returned.extend(payload.copied(returned[0]) for _ in repeated)
            return returned

        outputs, elapsed_ns = self._device.timed(call, data, cold=frame["cold"])
        if len(calls) > 1 and not frame["copied"] and not self._writes_there and payload.any_share_memory(returned):
            return {"type": "overlapped"}
        if any(value is None for value in outputs):
            return _message(Verdict.WRONG_DTYPE, "custom_kernel returned None; is a `return` missing?")
        held = [] if self._writes_there else self._written(outputs, rooms, frame)
        if frame["fresh_output"] and any(map(payload.share_memory, data, returned)):
            return _message(Verdict.WRONG_ALIASED, "the output lies in the memory of an input; it has to be new")
        if frame["const_inputs"] and self._device.name != "cpu":
            for value, each in zip(data, given, strict=True):
                payload.laid_out(value, frame["value_bytes"]).write(each.descriptor)
        return {"type": "done", "call": frame["call"], "elapsed_ns": elapsed_ns, "held": held}

    def _written(self, outputs: List[Any], rooms: "List[_Shared]", frame: Frame) -> List[List[int]]:
        """Write the outputs, and say where those large parts are that the supervisor reads from memory, if it can."""
        if not frame["held"]:
            for value, room in zip(outputs, rooms, strict=True):
                payload.write(value, room.descriptor, frame["value_bytes"])
            return []
        held: List[List[int]] = []
        for number, (value, room) in enumerate(zip(outputs, rooms, strict=True)):
            parts, holders = payload.outline(value, room.descriptor, frame["value_bytes"], HELD_MAX // len(rooms))
            held += [[number, *part] for part in parts]
            self._holders += holders
        return held

    @property
    def _writes_there(self) -> bool:
        """Whether the kernel writes its outputs itself into the room that was made for them."""
        return isinstance(self._kernel, compiled.CompiledKernel) and self._device.name == "cpu"

    def _call(self, data: Any, room: "_Shared", form: Any) -> Callable[[], Any]:
        """A call of the kernel on `data`, laid out as far as can be before the clock runs."""
        kernel = self._kernel
        if not isinstance(kernel, compiled.CompiledKernel):
            return lambda: payload.dense(kernel(data))
        outputs = payload.value_in(room.map()) if self._writes_there else payload.empty(form, self._device.name)
        return compiled.prepared(kernel, data, outputs, self._device)


class _Shared:
    """Memory that the supervisor shares with this process."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory: "mmap.mmap | None" = None

    def __del__(self) -> None:
        os.close(self.descriptor)

    def map(self) -> mmap.mmap:
        """It in this process's pages, from the first time on."""
        if self._memory is None:
            self._memory = payload.mapped(self.descriptor)
        return self._memory


class _Naming:
    """How a submission's errors are told: by its own file's name, without the frames of the harness."""

    def __init__(self, folder: str, file: str, shown_as: str) -> None:
        self._folder = folder
        self._file = file
        self._shown_as = shown_as

    def raised(self, error: BaseException, otherwise: Verdict) -> Frame:
        verdict = fault(error) or otherwise
        step = error.__traceback__
        while step is not None and not step.tb_frame.f_code.co_filename.startswith(self._folder):
            step = step.tb_next
        if step is None and not isinstance(error, SyntaxError):
            lines = ""
        else:
            linecache.checkcache()
            lines = "".join(traceback.format_exception(type(error), error, step))
        head = f"{type(error).__name__}: {message_of(error)[:2000]}"
        return _message(verdict, self._renamed(f"{head}\n{lines[-_MESSAGE_MAX:]}".strip()))

    def _renamed(self, text: str) -> str:
        text = text.replace(f"{self._folder}/{self._file}", self._shown_as).replace(f"{self._folder}/", "")
        return text.replace(f"({self._file}, line ", f"({self._shown_as}, line ")


def _itself(value: Any) -> Any:
    return value


def _message(verdict: Verdict, text: str) -> Frame:
    return {"type": "raised", "verdict": verdict, "message": printable(text, 2 * _MESSAGE_MAX)}
