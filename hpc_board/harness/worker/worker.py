"""The worker: imports the submission and calls it on inputs that it receives one at a time.

It holds no secret: neither reference nor seeds nor tolerances nor the other cases. Its answers are claims; its outputs
are checked byte by byte elsewhere and its times are bounded by the supervisor's clock. The reference is timed by such a
worker too, which gives the overhead of a call beyond the call itself. Under a profiler that must start it (`traced`) a
worker gives up fewer privileges, see profile.py.

Frames: `load` -> `confined`, then `device_ready` or `raised`, then answers to others until `import` -> `loaded` or
`raised`. `keep_state` (with fixed inputs) -> `kept_state` or `raised`. `prepare_device` and `trace` (with a folder for
the names of kernels) -> `device_ready`; `map` (with memory for inputs and for the description of outputs) -> `mapped`;
`run` -> `done`, `raised` or `overlapped`. While the inputs are written, between `mapped` and `run`, the process is
stopped; between `run` and `done` the supervisor's clock runs, so all work that can be done before is done at `map`.

On a GPU whose memory several processes can share, a timed call has other frames: `reserve` (memory for inputs on the
GPU) -> `reserved` or `unshared`; `queue` (the call, which the GPU begins at the judge's sign) -> `queued`, `raised` or
`unshared`; after the judge's window `finish` -> `finished` or `raised`.
"""

import ctypes
import errno
import faulthandler
import importlib.util
import linecache
import mmap
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from hpc_board.harness.confine import sandbox
from hpc_board.harness.confine.seccomp import deny_outside_effects
from hpc_board.harness.device.device import CudaDevice, Device, open_device
from hpc_board.harness.device.faults import LIBRARIES, absent, fault, install_command, lacking, message_of, needs_gpu
from hpc_board.harness.device.gpu_driver import NotShared
from hpc_board.harness.device.gpu_queue import GpuQueue
from hpc_board.harness.processes.libraries import forget_use
from hpc_board.harness.processes.memory import KEPT_BLOCK_BYTES_MAX, keep_freed_memory, new_memory_filled
from hpc_board.harness.processes.zygote import preload
from hpc_board.harness.profile.profilers import ProfiledDevice
from hpc_board.harness.wire import payload
from hpc_board.harness.wire.channel import Channel, ChannelClosed, Frame, inherited
from hpc_board.harness.wire.form import Aliased, Taker
from hpc_board.harness.wire.poison import FRESH_BYTE
from hpc_board.harness.wire.replies import HANDLES_MAX, PLACES_MAX
from hpc_board.harness.worker import compiled
from hpc_board.model.result import LIBRARY_LACKING, Verdict
from hpc_board.model.task import PREPARE_ENTRY
from hpc_board.model.text import printable

Kernel = Callable[[Any], Any]

_MESSAGE_MAX = 8000
_SHARED_MEMORY_CLOSED = "locks and pools of multiprocessing need /dev/shm, which is closed to submissions: use threads"


def serve(channel: Channel, modules: Sequence[str] = ()) -> None:
    """Drop the privileges denied to a submission, import it, and answer the supervisor until its end closes.

    A process that was not forked from the zygote imports `modules` before: they take long, and no call should wait.
    """
    frame, crash = channel.receive()
    sandbox.show_memory()
    keep_freed_memory()
    sandbox.limit_resources(frame["value_bytes"], frame["spared_processes"])
    traced = frame["traced"]
    landlock = sandbox.confine(frame["readable"], [frame["scratch"], *frame["writable"]], scoped=not traced)
    level = sandbox.level_of(landlock, filtered=not traced and deny_outside_effects(others=frame["others"]))
    # Not later: a frame sent after the import may come from the submission.
    lacks = {name: _lacks(name, frame["device"]) for name in absent()}
    channel.send({"type": "confined", "isolation": level, "lacking": lacks})
    # Not earlier: their import may start threads, and a thread keeps its privileges.
    preload(modules)
    naming = _Naming(frame["folder"], frame["file"], frame["shown_as"], frame["device"])
    try:
        device = open_device(frame["device"])
        if frame["profile"]:
            device = ProfiledDevice(device, frame["profile"], Path(frame["scratch"]))
        worker = _Worker(device, naming, copies_inputs=frame["profile"] == "asan")
        if frame["device"] == "cpu":
            forget_use()
        # From here on the supervisor believes no word about the device: it may be the submission's.
        channel.send({"type": "device_ready"})
        naming.imports = True
        if crash and frame["profile"] != "asan":
            faulthandler.enable(crash[0], all_threads=False)
        _answer_until("import", worker, channel)
        if frame["compiled"]:
            worker.kernel = compiled.open_kernel(Path(frame["folder"]) / frame["file"], *crash)
            if frame["prepares"] and worker.kernel.prepares:
                worker.prepare = partial(worker.kernel.keep_state, _device_number(device))
        elif frame["file"]:
            module = frame["adapter"] or frame["file"]
            worker.kernel = _kernel(Path(frame["folder"]), module, frame["entry"], frame["shown_as"])
            if frame["prepares"]:
                worker.prepare = _prepare_of(module)
    except ChannelClosed:
        return
    except BaseException as error:  # noqa: BLE001 - any exception of a submission is a result
        channel.send(naming.raised(error, Verdict.LOAD_ERROR))
        return
    channel.send({"type": "loaded", "prepares": worker.prepare is not None})
    with suppress(ChannelClosed):
        _answer_until("", worker, channel)


def _answer_until(last: str, worker: "_Worker", channel: Channel) -> None:
    """Answer frames until one of the type `last` comes.

    Raises:
        ChannelClosed: the supervisor has closed its end.
    """
    while True:
        frame, fds = channel.receive()
        if frame["type"] == last:
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


def _device_number(device: Device) -> int:
    """Return the number of a device in the context of compiled submissions."""
    return 0 if device.name == "cuda" else -1


def _prepare_of(name: str) -> Callable[..., Any] | None:
    """Return the function by which a submission prepares fixed inputs; None if it has none."""
    found: Callable[..., Any] | None = getattr(sys.modules[Path(name).stem], PREPARE_ENTRY, None)
    return found if callable(found) else None


def _take_pool(queue: GpuQueue, connection: int) -> None:
    """Take the memory that the judge has sent over a connection.

    Raises:
        NotShared: it has none, or this process cannot use it.
    """
    channel = inherited(connection)
    try:
        frame, descriptors = channel.receive()
    finally:
        channel.close()
    if frame["fault"]:
        raise NotShared(frame["fault"])
    try:
        queue.take_pool(descriptors[0], frame["size"])
    finally:
        os.close(descriptors[0])


class _Worker:
    """A submission on a device; it has no `kernel` before the import.

    `prepare` is its function for fixed inputs, if the task has any. `copies_inputs` gives it copies of its inputs:
    AddressSanitizer knows only the ends of blocks of malloc.
    """

    def __init__(self, device: Device, naming: "_Naming", *, copies_inputs: bool = False) -> None:
        self._copies_inputs = copies_inputs
        self.kernel: Any = None
        self.prepare: Callable[..., Any] | None = None
        self._state: list[Any] = []
        self._device = device
        self._naming = naming
        self._arena: _Shared | None = None
        self._room: Any = None
        self._row: Frame = {}
        self._data: list[Any] = []
        self._calls: list[Callable[[], Any]] = []
        self._taker: Taker | None = None
        self._own: list[int] = []
        self._returned: list[Any] = []
        self._queue: GpuQueue | None = None
        self._with_memory = {"map": self._map, "keep_state": self._keep_state, "reserve": self._reserve}

    def answer(self, frame: Frame, fds: list[int]) -> Frame:
        try:
            if frame["type"] == "run":
                return self._run(frame["call"], fds)
            if frame["type"] == "prepare_device":
                self._device.prepare()
                return {"type": "device_ready"}
            if frame["type"] == "trace":
                self._device = ProfiledDevice(self._device, "torch", Path(frame["folder"]))
                return {"type": "device_ready"}
            if frame["type"] in self._with_memory:
                return self._with_memory[frame["type"]](frame, fds)
            if frame["type"] == "queue":
                return self._enqueue(frame)
            return self._finish()
        except NotShared as error:
            return {"type": "unshared", "message": printable(str(error), _MESSAGE_MAX)}
        except payload.TooLarge as error:
            return _message(Verdict.OUTPUT_LIMIT, f"the output cannot be read: {error}")
        except payload.WrongShape as error:
            return _message(Verdict.WRONG_SHAPE, str(error))
        except Aliased:
            return _message(Verdict.WRONG_ALIASED, "the output is in the memory of an input; it must be new")
        except payload.PayloadError as error:
            verdict = self._naming.verdict(error.__cause__ or error, Verdict.WRONG_DTYPE)
            return _message(verdict, f"the output cannot be read: {error}")
        except _Raised as raised:
            return self._naming.raised(raised.error, Verdict.EXCEPTION)
        except BaseException as error:  # noqa: BLE001 - code of the submission runs here as well
            own = isinstance(error, compiled.KernelFailed) or self._naming.is_in(error)
            otherwise = Verdict.EXCEPTION if own else Verdict.INFRA_ERROR
            return self._naming.raised(error, otherwise)

    def _map(self, frame: Frame, fds: list[int]) -> Frame:
        """Map the memory of the next calls, and lay out everything known about them before their inputs exist.

        `bases` holds the offset in the arena of each call's inputs; the frame's arena replaces the previous one, which
        otherwise stays. The layouts of `early` inputs are written already. With `blocks`, the answers are made to have
        the `form`, and `own` holds for each call the offsets in the arena of the inputs that may be blocks of its
        answer, -1 for none. With `empty`, the kernel is left out: each call returns a copy of an answer of that form,
        or without one the number 0, to measure the overhead of a row without the kernel, and the time of the calls is
        the run time of this thread.
        """
        self._row = frame
        self._drop()
        shared = [_Shared(descriptor) for descriptor in fds]
        self._room = shared.pop()
        if shared:
            self._arena = shared.pop()
            self._arena.map()
        _bring_in(frame["answer_bytes"], len(frame["bases"]))
        if frame["early"]:
            self._lay_out()
        return {"type": "mapped"}

    def _keep_state(self, _frame: Frame, fds: list[int]) -> Frame:
        """Have the submission prepare the fixed inputs of its next calls, and keep its answer for these."""
        assert self.prepare is not None  # noqa: S101 - a worker without it gets no such frame
        self._drop()
        self._state = []
        fixed = payload.value_in(_Shared(fds[0]).map(), self._device.place)
        fixed = payload.copied(fixed) if self._copies_inputs else fixed
        try:
            self._state = [self.prepare(*fixed)]
        except BaseException as error:  # noqa: BLE001 - any exception of a submission is a result
            raise _Raised(error) from None
        return {"type": "kept_state"}

    def _reserve(self, frame: Frame, fds: list[int]) -> Frame:
        """Allocate memory of the GPU for a call's inputs, whose layout and other values are written already.

        With `empty`, no kernel is called: the call returns an answer of the `form`; without one it returns nothing.
        `own` holds for each block of the answer the number of the input that may be it, -1 for none. With `pooled`, the
        memory is the judge's, which sends it over the connection behind all others.
        """
        queue = self._gpu()
        queue.clear()
        self._drop()
        if frame["pooled"]:
            _take_pool(queue, fds.pop())
        self._row, self._arena = frame, None
        arena = _Shared(fds.pop())
        memory = payload.mapped(arena.descriptor, populated=False)
        self._data = [payload.value_in(memory, queue.reserve)]
        if frame["form"] is not None:
            addresses = queue.input_addresses()
            self._taker = Taker(frame["form"], addresses, fresh=frame["fresh_output"], device=queue.device)
            self._own = [-1 if each < 0 else addresses[each][0] for each in frame["own"]]
            value = payload.empty(frame["form"], queue.device) if frame["empty"] else None
            make = (lambda: value) if frame["empty"] else self._kernel_call(self._data[0])
            self._calls = [_call(make, self._taker.take)]
        inputs, signals = queue.inputs(), queue.signals()
        if len(inputs) > PLACES_MAX or len(queue.handles) > HANDLES_MAX:
            raise NotShared(f"its inputs are {len(inputs)} tensors in {len(queue.handles)} allocations")
        return {"type": "reserved", "handles": _as_text(queue.handles), "inputs": inputs, "signals": signals}

    def _enqueue(self, frame: Frame) -> Frame:
        """Queue the call behind the judge's sign, and name its answer's blocks; the GPU has not begun it by then."""
        queue = self._gpu()
        queue.begin(frame["number"], challenged=frame["challenged"])
        for call in self._calls:
            call()
        if self._taker is not None:
            self._taker.settle(self._own)
        blocks = [queue.place(block) for block in (self._taker.blocks if self._taker else ()) if block.numel()]
        if len(queue.handles) > HANDLES_MAX:
            raise NotShared(f"its output is in {len(queue.handles)} allocations of the GPU")
        queue.end(frame["number"])
        return {"type": "queued", "call": frame["call"], "handles": _as_text(queue.handles), "blocks": blocks}

    def _finish(self) -> Frame:
        """Wait for the end of the call's work, and drop its memory."""
        self._gpu().synchronize()
        self._gpu().clear()
        self._drop()
        return {"type": "finished"}

    def _gpu(self) -> GpuQueue:
        if self._queue is None:
            # Only the worker of a CUDA device is asked for memory of it.
            self._queue = GpuQueue(cast("CudaDevice", self._device))
        return self._queue

    def _drop(self) -> None:
        self._data, self._calls, self._taker, self._returned = [], [], None, []

    def _lay_out(self) -> None:
        row, place = self._row, self._device.place
        # A trusted worker without a function has had no inputs.
        memory = None if self._arena is None else self._arena.map()
        self._data = [None if memory is None else payload.value_in(memory, place, base) for base in row["bases"]]
        if self._copies_inputs:
            self._data = list(map(payload.copied, self._data))
        take = self._new_taker().take if row["blocks"] and row["made_so"] else self._left
        nothing = partial(payload.copied, payload.empty(row["form"]) if row["blocks"] else 0) if row["empty"] else None
        self._calls = [_call(nothing or self._kernel_call(data), take) for data in self._data]

    def _new_taker(self) -> Taker:
        row = self._row
        begin, end = (0, 0) if self._arena is None else _bounds(self._arena.map())
        self._taker = Taker(row["form"], [(begin, end)], fresh=row["fresh_output"])
        self._own = [-1 if at < 0 else begin + at for each in row["own"] for at in each]
        return self._taker

    def _left(self, value: Any) -> Any:
        """Return the answer of a call, left as it is but for gaps in its memory."""
        value = payload.dense(value)
        return payload.copied(value) if self._row["copied"] else value

    def _run(self, number: int, fds: list[int]) -> Frame:
        if fds:
            # On a GPU, work that has begun is not stopped, and memory must not be known before its call.
            self._arena = _Shared(fds[0])
        if not self._calls:
            self._lay_out()
        row = self._row
        if row["empty"]:
            outputs, elapsed_ns = _run_timed(self._made)
        else:
            # A timed call does not pay for the poison.
            with nullcontext() if row["made_so"] else new_memory_filled(FRESH_BYTE):
                outputs, elapsed_ns = self._device.timed(self._made, self._data, cold=row["cold"])
        done = {"type": "done", "call": number, "elapsed_ns": elapsed_ns, "outputs": [], "blocks": []}
        if self._taker is None and row["blocks"]:
            self._take_as_they_are(outputs)
        if self._taker is not None:
            done["blocks"] = self._taker.addresses
            return done
        # Not `outputs`, which are copies on a GPU.
        if len(outputs) > 1 and not row["copied"] and payload.share_memory(*self._returned):
            return {"type": "overlapped"}
        done["outputs"] = self._written(outputs)
        if row["fresh_output"] and payload.share_memory(self._data[0], self._returned[0]):
            raise Aliased
        if row["const_inputs"] and self._device.name != "cpu" and self._arena is not None:
            for value, base in zip(self._data, row["bases"], strict=True):
                payload.laid_out(value, row["value_bytes"]).write(self._arena.descriptor, base)
        if fds:
            self._arena = None
            self._data, self._calls = [], []
        return done

    def _made(self) -> list[Any]:
        calls, made = self._calls, self._row["made"]
        self._returned = [call() for call in calls[:made]]
        self._returned += [payload.copied(self._returned[0]) for _ in calls[made:]]
        if self._taker is not None:
            self._taker.settle(self._own)
        return self._returned

    def _take_as_they_are(self, outputs: list[Any]) -> None:
        """Take outputs as blocks if they have the form by themselves."""
        limit, form = self._row["value_bytes"], self._row["form"]
        if all(payload.laid_out(value, limit).layout == form for value in outputs):
            taker = self._new_taker()
            for value in outputs:
                taker.take(value)
            taker.settle(self._own)

    def _written(self, outputs: list[Any]) -> list[list[int]]:
        room, places, end = self._room, [], 0
        for value in outputs:
            laid = payload.laid_out(value, self._row["value_bytes"])
            if os.fstat(room.descriptor).st_size < end + laid.size:
                os.ftruncate(room.descriptor, end + laid.size)
            laid.write(room.descriptor, end)
            places.append([end, laid.size])
            end += laid.size
        return places

    def _kernel_call(self, data: Any) -> Callable[[], Any]:
        """Return a call of the kernel on `data`, laid out as far as possible."""
        if not isinstance(self.kernel, compiled.CompiledKernel):
            return partial(self.kernel, data, *self._state)
        outputs = payload.empty(self._row["form"], self._device.name)
        return self.kernel.prepared(data, outputs, _device_number(self._device))


def _call(make: Callable[[], Any], take: Callable[[Any], Any]) -> Callable[[], Any]:

    def call() -> Any:
        try:
            value = make()
        except BaseException as error:  # noqa: BLE001 - any exception of a submission is a result
            raise _Raised(error) from None
        if value is None:
            raise payload.PayloadError("custom_kernel returned None; is a `return` missing?")
        return take(value)

    return call


class _Raised(Exception):
    """An exception of the kernel."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class _Shared:
    """Memory that the supervisor shares with this process."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory: mmap.mmap | None = None

    def __del__(self) -> None:
        os.close(self.descriptor)

    def map(self) -> mmap.mmap:
        """Map the memory into this process on first use, and return the mapping."""
        if self._memory is None:
            self._memory = payload.mapped(self.descriptor)
        return self._memory


class _Naming:
    """Verdicts and words of a worker's errors: with the submission's own file name, without frames of the harness."""

    def __init__(self, folder: str, file: str, shown_as: str, device: str) -> None:
        self._device = device
        self._folder = folder
        self._file = file
        self._shown_as = shown_as
        self.imports = False

    def is_in(self, error: BaseException) -> bool:
        """Return whether code of the submission raised an exception, or called the code that did."""
        return self._step(error) is not None

    def _step(self, error: BaseException) -> TracebackType | None:
        step = error.__traceback__
        while step is not None and not step.tb_frame.f_code.co_filename.startswith(self._folder):
            step = step.tb_next
        return step

    def verdict(self, error: BaseException, otherwise: Verdict) -> Verdict:
        """Return the verdict for an exception; once the submission is imported, none blames the device."""
        found = fault(error) or otherwise
        if found is Verdict.DEVICE_ERROR and self.imports:
            return otherwise if self._device == "cpu" else Verdict.CRASH
        return found

    def raised(self, error: BaseException, otherwise: Verdict) -> Frame:
        verdict, step = self.verdict(error, otherwise), self._step(error)
        if step is None and not isinstance(error, SyntaxError):
            lines = ""
        else:
            linecache.checkcache()
            lines = "".join(traceback.format_exception(type(error), error, step))
        head = f"{type(error).__name__}: {message_of(error)[:2000]}"
        if _needs_shared_memory(error):
            head += f" ({_SHARED_MEMORY_CLOSED})"
        if verdict is Verdict.INFRA_ERROR:
            lines = "".join(traceback.format_exception(error))
            head = f"hpc-board failed to read the output; this is not the submission's fault: {head}"
        text = self._renamed(f"{head}\n{lines[-_MESSAGE_MAX:]}".strip())
        return {**_message(verdict, text), "module": lacking(error)}

    def _renamed(self, text: str) -> str:
        text = text.replace(f"{self._folder}/{self._file}", self._shown_as).replace(f"{self._folder}/", "")
        return text.replace(f"({self._file}, line ", f"({self._shown_as}, line ")


def _needs_shared_memory(error: BaseException) -> bool:
    """Return whether the system refused an object in /dev/shm to `multiprocessing`, or to PyTorch's."""
    if isinstance(error, RuntimeError):
        text = message_of(error)
        return "shared memory object" in text and os.strerror(errno.EACCES) in text
    places = [step.f_globals.get("__name__") for step, _ in traceback.walk_tb(error.__traceback__)]
    # The submission chooses its own names.
    return isinstance(error, PermissionError) and isinstance(places[-1], str) and "multiprocessing" in places[-1]


def _lacks(module: str, device: str) -> str:
    advice = f"`{install_command(module)}` installs it"
    if device == "cpu" and needs_gpu(module):
        advice = "its kernels run only on GPUs, but this job runs on a CPU"
    return f"the Python {sys.executable} has no {LIBRARIES[module].title}, {LIBRARY_LACKING} ({module}); {advice}"


def _as_text(handles: Sequence[bytes]) -> list[str]:
    return [handle.hex() for handle in handles]


def _bring_in(size: int, count: int) -> None:
    """Fault in memory for `count` outputs of a size, at the places where malloc will allocate them."""
    blocks = [b"\1" * min(size, KEPT_BLOCK_BYTES_MAX) for _ in range(count)]
    del blocks


def _bounds(memory: mmap.mmap) -> tuple[int, int]:
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return begin, begin + len(memory)


def _run_timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.thread_time_ns()
    value = call()
    return value, float(time.thread_time_ns() - start)


def _message(verdict: Verdict, text: str) -> Frame:
    return {"type": "raised", "verdict": verdict, "message": printable(text, 2 * _MESSAGE_MAX)}
