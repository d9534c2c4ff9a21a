"""The worker: imports the submission and calls it on inputs that it is given one at a time.

It holds no secret: neither reference nor seeds nor tolerances nor the other cases. What it answers is a claim; its
outputs are checked byte by byte elsewhere and its times are bounded by the supervisor's clock. Frames: `load` ->
`loaded` or `raised`; `run` (with inputs and room for outputs) -> `done` or `raised`.
"""

import importlib.util
import os
import sys
import traceback
from pathlib import Path
from typing import Any, Callable, List

from hpc_board.harness import compiled, payload, sandbox
from hpc_board.harness.channel import Channel, ChannelClosed, Frame
from hpc_board.harness.device import Device, open_device
from hpc_board.harness.faults import fault
from hpc_board.harness.seccomp import deny_outside_effects
from hpc_board.model.result import Verdict
from hpc_board.model.text import printable

_MESSAGE_MAX = 8000
_ENTRY = "custom_kernel"


def serve(channel: Channel) -> None:
    """Give up what a submission must not have, import it, and answer the supervisor until it is gone."""
    frame, _ = channel.receive()
    sandbox.limit_resources(frame["value_bytes"])
    level = sandbox.confine(frame["readable"], [frame["scratch"]])
    if deny_outside_effects():
        level += "+seccomp"
    try:
        device = open_device(frame["device"])
        kernel: Any
        if frame.get("language", "py") == "py":
            kernel = _kernel(Path(frame["folder"]), frame["submission"])
        else:
            kernel = compiled.open_kernel(Path(frame["folder"]) / frame["submission"])
    except BaseException as error:  # noqa: BLE001 - whatever a submission raises is a result
        channel.send(_raised(error, Verdict.LOAD_ERROR, frame["folder"]))
        return
    channel.send({"type": "loaded", "isolation": level})
    folder = frame["folder"]
    while True:
        try:
            frame, fds = channel.receive()
        except ChannelClosed:
            return
        answer = _answer(kernel, device, frame, fds, folder)
        for descriptor in fds:
            os.close(descriptor)
        channel.send(answer)


def _kernel(folder: Path, name: str) -> Callable[[Any], Any]:
    sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location("submission", folder / name)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["submission"] = module
    spec.loader.exec_module(module)
    kernel = getattr(module, _ENTRY, None)
    if not callable(kernel):
        raise TypeError(f"{name} defines no function called {_ENTRY}")
    found: Callable[[Any], Any] = kernel
    return found


def _answer(kernel: Any, device: Device, frame: Frame, fds: List[int], folder: str) -> Frame:
    try:
        data, _ = payload.read(fds[0], device.name)
        call: Callable[[], Any] = lambda: kernel(data)  # noqa: E731
        if isinstance(kernel, compiled.CompiledKernel):
            call = compiled.prepared(kernel, data, frame["form"], device)
        if frame["timed"]:
            device.flush()
        output, elapsed_ns = device.timed(call)
        try:
            payload.write(output, fds[1], frame["value_bytes"])
        except payload.TooLarge as error:
            return _message(Verdict.OUTPUT_LIMIT, f"the output cannot be taken: {error}")
        except payload.PayloadError as error:
            return _message(Verdict.WRONG_DTYPE, f"the output cannot be taken: {error}")
    except BaseException as error:  # noqa: BLE001 - whatever a submission raises is a result
        return _raised(error, Verdict.EXCEPTION, folder)
    return {"type": "done", "call": frame["call"], "elapsed_ns": elapsed_ns}


def _raised(error: BaseException, otherwise: Verdict, folder: str) -> Frame:
    kind = type(error).__name__
    text = str(error)
    verdict = fault(error) or otherwise
    step = error.__traceback__
    while step is not None and not step.tb_frame.f_code.co_filename.startswith(folder):
        step = step.tb_next
    lines = "".join(traceback.format_exception(type(error), error, step)).replace(f"{folder}/", "") if step else ""
    return _message(verdict, f"{kind}: {text[:2000]}\n{lines[-_MESSAGE_MAX:]}".strip())


def _message(verdict: Verdict, text: str) -> Frame:
    return {"type": "raised", "verdict": verdict, "message": printable(text, 2 * _MESSAGE_MAX)}
