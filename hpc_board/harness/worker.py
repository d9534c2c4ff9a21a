"""The worker: imports the submission and calls it on inputs that it is given one at a time.

It holds no secret: neither reference nor seeds nor tolerances nor the other cases. What it answers is a claim; its
outputs are checked byte by byte elsewhere and its times are bounded by the supervisor's clock. The reference is timed
by such a worker too, so that it is known what a call costs beside the call itself. Under a profiler that has to start
it (`traced`) a worker gives up less, see profile.py.

Frames: `load` -> `loaded` or `raised`; `prepare` -> `prepared`; `run` (with the inputs of one call or several, and as
many rooms for outputs) -> `done` or `raised`.
"""

import importlib.util
import linecache
import os
import sys
import traceback
from pathlib import Path
from typing import Any, Callable, Dict, List

from hpc_board.harness import payload, sandbox
from hpc_board.harness.channel import Channel, ChannelClosed, Frame
from hpc_board.harness.device import Device, open_device
from hpc_board.harness.faults import fault
from hpc_board.harness.profiled import ProfiledDevice
from hpc_board.harness.seccomp import deny_outside_effects
from hpc_board.model.result import Verdict
from hpc_board.model.text import printable

Kernel = Callable[[Any], Any]

_MESSAGE_MAX = 8000


def serve(channel: Channel) -> None:
    """Give up what a submission must not have, import it, and answer the supervisor until it is gone."""
    frame, _ = channel.receive()
    sandbox.show_memory()
    sandbox.limit_resources(frame["value_bytes"])
    traced = frame["traced"]
    landlock = sandbox.confine(frame["readable"], [frame["scratch"]], scoped=not traced)
    level = sandbox.level_of(landlock, filtered=not traced and deny_outside_effects())
    naming = _Naming(frame["folder"], frame["file"], frame["shown_as"])
    try:
        device = open_device(frame["device"])
        if frame["profile"]:
            device = ProfiledDevice(device, frame["profile"], Path(frame["scratch"]))
        kernel = _kernel(Path(frame["folder"]), frame["file"], frame["entry"], frame["shown_as"])
    except BaseException as error:  # noqa: BLE001 - whatever a submission raises is a result
        channel.send(naming.raised(error, Verdict.LOAD_ERROR))
        return
    channel.send({"type": "loaded", "isolation": level})
    worker = _Worker(kernel, device, naming)
    while True:
        try:
            frame, fds = channel.receive()
        except ChannelClosed:
            return
        answer = worker.answer(frame, fds)
        for descriptor in fds:
            os.close(descriptor)
        channel.send(answer)


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

    def __init__(self, kernel: Kernel, device: Device, naming: "_Naming") -> None:
        self._kernel = kernel
        self._device = device
        self._naming = naming

    def answer(self, frame: Frame, fds: List[int]) -> Frame:
        try:
            if frame["type"] == "prepare":
                self._device.prepare()
                return {"type": "prepared"}
            return self._run(frame, fds)
        except payload.TooLarge as error:
            return _message(Verdict.OUTPUT_LIMIT, f"the output cannot be taken: {error}")
        except payload.PayloadError as error:
            return _message(Verdict.WRONG_DTYPE, f"the output cannot be taken: {error}")
        except BaseException as error:  # noqa: BLE001 - whatever a submission raises is a result
            return self._naming.raised(error, Verdict.EXCEPTION)

    def _run(self, frame: Frame, fds: List[int]) -> Frame:
        count = len(fds) // 2
        data = [payload.read(descriptor, self._device.place)[0] for descriptor in fds[:count]]
        outputs, elapsed_ns = self._device.timed(lambda: [self._called(each) for each in data], cold=frame["cold"])
        for value, descriptor in zip(outputs, fds[count:], strict=True):
            if value is None:
                return _message(Verdict.WRONG_DTYPE, "custom_kernel returned None; is a `return` missing?")
            payload.write(value, descriptor, frame["value_bytes"])
        if frame["fresh_output"] and any(map(payload.share_memory, data, outputs)):
            return _message(Verdict.WRONG_ALIASED, "the output lies in the memory of an input; it has to be new")
        if frame["const_inputs"] and self._device.name != "cpu":
            for value, descriptor in zip(data, fds[:count], strict=True):
                payload.write(value, descriptor, frame["value_bytes"])
        return {"type": "done", "call": frame["call"], "elapsed_ns": elapsed_ns}

    def _called(self, data: Any) -> Any:
        return payload.dense(self._kernel(data))


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
        head = f"{type(error).__name__}: {str(error)[:2000]}"
        return _message(verdict, self._renamed(f"{head}\n{lines[-_MESSAGE_MAX:]}".strip()))

    def _renamed(self, text: str) -> str:
        text = text.replace(f"{self._folder}/{self._file}", self._shown_as).replace(f"{self._folder}/", "")
        return text.replace(f"({self._file}, line ", f"({self._shown_as}, line ")


def _message(verdict: Verdict, text: str) -> Frame:
    answer: Dict[str, Any] = {"type": "raised", "verdict": verdict, "message": printable(text, 2 * _MESSAGE_MAX)}
    return answer
