"""Answers of a worker or judge, parsed from frames that may be forged: any other frame is a violation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from hpc_board.harness.wire.channel import Frame, ProtocolViolation
from hpc_board.harness.wire.form import BLOCKS_MAX, Form
from hpc_board.model.mismatch import Mismatch
from hpc_board.model.peaks import WORK_MAX, Work
from hpc_board.model.result import Verdict
from hpc_board.model.text import printable

_MESSAGE_MAX = 16_000
_FACTS_MAX = 100
_ELAPSED_NS_MAX = 1e18

HANDLES_MAX = 150
"""Largest number of allocations that the parts of one call may lie in: a frame holds no more handles."""

PLACES_MAX = 400
"""Largest number of tensors on a GPU in the inputs or outputs of a call."""

_HANDLE_BYTES = 64


@dataclass(frozen=True)
class Confined:
    """Confirmation that a worker is confined at the level `isolation`, with nothing of the submission imported yet.

    `lacking` has a message for each library that the worker's Python does not find.
    """

    isolation: str
    lacking: Mapping[str, str]


@dataclass(frozen=True)
class Loaded:
    """Confirmation that a worker has imported the submission."""


@dataclass(frozen=True)
class Prepared:
    """Confirmation that a worker is ready for the inputs of a timed call."""


@dataclass(frozen=True)
class Mapped:
    """Confirmation that a worker has mapped, with all pages present, the memory for its next calls' inputs."""


@dataclass(frozen=True)
class Done:
    """The end of the call with this number, and the time that the worker claims for it.

    `blocks` holds the addresses of the blocks of answers that have the task's form, one answer after the other;
    `outputs` the offset in the room and the size in bytes of each answer that was written there instead.
    """

    call: int
    elapsed_ns: float
    outputs: tuple[tuple[int, int], ...] = ()
    blocks: tuple[int, ...] = ()


@dataclass(frozen=True)
class SharedPlace:
    """Memory of a GPU that a process offers: the index of the allocation's handle, the offset in it, the size."""

    handle: int
    offset: int
    size: int


@dataclass(frozen=True)
class Reserved:
    """Memory of the GPU for a call's inputs and for the signals; `handles` names the allocations, as hexadecimals."""

    handles: tuple[str, ...]
    inputs: tuple[SharedPlace, ...]
    signals: SharedPlace


@dataclass(frozen=True)
class Unshared:
    """Report that a worker's memory of the GPU cannot be shared with another process."""

    message: str


@dataclass(frozen=True)
class Queued:
    """Confirmation that a call waits in the GPU's queue, with the places of its answer's blocks that are not empty."""

    call: int
    handles: tuple[str, ...]
    blocks: tuple[SharedPlace, ...]


@dataclass(frozen=True)
class Finished:
    """Confirmation that the GPU has done a call's work."""


@dataclass(frozen=True)
class Windowed:
    """The time of a window by the judge's clock, None if it is not closed yet.

    `copied_ns` is the time of copying the outputs behind the window. `fault` says that the worker's memory is not as
    it says. `responded` states that the worker's GPU has computed the response to the challenge, `unchanged` that the
    inputs still hold their values.
    """

    elapsed_ns: float | None
    copied_ns: float = 0.0
    fault: str = ""
    responded: bool = False
    unchanged: bool = False


@dataclass(frozen=True)
class Overlapped:
    """Report that outputs of calls in a row lie in the same memory, so that the first ones are lost."""


@dataclass(frozen=True)
class Failure:
    """Report that a worker or judge failed to carry out a request; `module` is the library that it did not find."""

    verdict: Verdict
    message: str
    module: str = ""


@dataclass(frozen=True)
class Ready:
    """Confirmation that the judge has imported the reference."""

    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Generated:
    """Inputs that the judge has generated; they take `size` bytes.

    `work` is the minimum of bytes to move and operations to compute for a right call, if the task declares it. `form`
    is the form of a right answer; None if it is unknown, depends on the values, or has parts that are no tensors or
    arrays. `own` holds for each block the input that the reference returns in its place, -1 for none: its offset, or on
    a GPU its number.
    `steady` states that the inputs of other seeds had the same layout, so that the layout reveals nothing about this
    seed; `in_tensors` that nearly all of the inputs are in tensors.
    """

    size: int
    steady: bool = False
    in_tensors: bool = False
    work: Work | None = None
    form: Form | None = None
    own: tuple[int, ...] = ()


@dataclass(frozen=True)
class Filled:
    """Confirmation that the judge has written inputs to the requested place."""


@dataclass(frozen=True)
class Checked:
    """The judge's opinion of an output, with the details of wrong values.

    `throttled`: the GPU had lowered its clocks for its own protection.
    """

    verdict: Verdict
    message: str
    mismatch: Mismatch | None = None
    throttled: bool = False


OfJudge = TypeVar("OfJudge", Ready, Generated, Filled, Checked, Windowed)
TYPES_OF_JUDGE: dict[type, str] = {
    Ready: "ready",
    Generated: "generated",
    Filled: "filled",
    Checked: "checked",
    Windowed: "windowed",
}
"""The type of frame for each answer of a judge except a failure."""

Answer = (
    Confined
    | Loaded
    | Prepared
    | Mapped
    | Done
    | Reserved
    | Unshared
    | Queued
    | Finished
    | Overlapped
    | Failure
    | Ready
    | Generated
    | Filled
    | Checked
    | Windowed
)


def answer_of(frame: Frame) -> Answer:
    """Return the answer in `frame`.

    Raises:
        ProtocolViolation: the frame holds no answer.
    """
    try:
        return _KINDS[frame["type"]](frame)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ProtocolViolation("a frame with unexpected content") from error


def _confined(frame: Frame) -> Confined:
    lacking = {_text(name, 40): _text(message, 1000) for name, message in frame["lacking"].items()}
    return Confined(_text(frame["isolation"], 40), lacking)


def _done(frame: Frame) -> Done:
    call, elapsed_ns = frame["call"], frame["elapsed_ns"]
    if type(call) is not int or type(elapsed_ns) not in (int, float) or not abs(elapsed_ns) <= _ELAPSED_NS_MAX:
        raise ValueError("no call, or no time")
    outputs, blocks = frame["outputs"], frame["blocks"]
    if not isinstance(outputs, list) or not isinstance(blocks, list) or len(blocks) > BLOCKS_MAX:
        raise ValueError("no outputs, or too many")
    return Done(call, float(elapsed_ns), tuple(map(_extent, outputs)), tuple(map(_position, blocks)))


def _position(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError("no position in memory")
    return value


def _extent(extent: Any) -> tuple[int, int]:
    base, size = extent
    return _position(base), _position(size)


def _handles(frame: Frame) -> tuple[str, ...]:
    handles = frame["handles"]
    if not isinstance(handles, list) or not len(handles) <= HANDLES_MAX or not all(map(_is_handle, handles)):
        raise ValueError("no handles, or too many")
    return tuple(handles)


def _is_handle(text: Any) -> bool:
    return isinstance(text, str) and len(text) == 2 * _HANDLE_BYTES and set(text) <= set("0123456789abcdef")


def _shared_place(place: Any, handles: tuple[str, ...]) -> SharedPlace:
    handle, offset, size = map(_position, place)
    if handle >= len(handles) or not size:
        raise ValueError("a place in an unknown allocation, or without a byte")
    return SharedPlace(handle, offset, size)


def _reserved(frame: Frame) -> Reserved:
    handles, inputs = _handles(frame), frame["inputs"]
    if not isinstance(inputs, list) or len(inputs) > PLACES_MAX:
        raise ValueError("no places of inputs, or too many")
    places = tuple(_shared_place(each, handles) for each in inputs)
    return Reserved(handles, places, _shared_place(frame["signals"], handles))


def _queued(frame: Frame) -> Queued:
    handles, blocks = _handles(frame), frame["blocks"]
    if not isinstance(blocks, list) or len(blocks) > BLOCKS_MAX:
        raise ValueError("no blocks, or too many")
    return Queued(_position(frame["call"]), handles, tuple(_shared_place(each, handles) for each in blocks))


def _windowed(frame: Frame) -> Windowed:
    elapsed_ns = frame["elapsed_ns"]
    if elapsed_ns is not None:
        elapsed_ns = _amount(elapsed_ns)
    return Windowed(
        elapsed_ns,
        _amount(frame["copied_ns"]),
        _text(frame["fault"], _MESSAGE_MAX),
        frame["responded"] is True,
        frame["unchanged"] is True,
    )


def _failure(frame: Frame) -> Failure:
    verdict, module = Verdict(_text(frame["verdict"], 40)), _text(frame.get("module", ""), 40)
    return Failure(verdict, _text(frame["message"], _MESSAGE_MAX), module)


def _ready(frame: Frame) -> Ready:
    facts: dict[str, Any] = {}
    for name, value in frame["facts"].items():
        if len(facts) == _FACTS_MAX or type(value) not in (str, int, bool):
            raise ValueError("no facts")
        facts[_text(name, 100)] = _text(value, 1000) if isinstance(value, str) else value
    return Ready(facts)


def _generated(frame: Frame) -> Generated:
    work, form, size = frame.get("work"), frame["form"], frame["size"]
    if type(size) is not int or not 0 < size < 2**63:
        raise ValueError("no size")
    return Generated(
        size,
        frame["steady"] is True,
        frame["in_tensors"] is True,
        None if work is None else Work(_amount(work["bytes"]), _amount(work["operations"])),
        None if form is None else Form(form),
        tuple(each if each == -1 else _position(each) for each in frame["own"]),
    )


def _amount(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= WORK_MAX:
        raise ValueError("no amount")
    return float(value)


def _checked(frame: Frame) -> Checked:
    found = frame["mismatch"]
    details = None if found is None else Mismatch.of(found)
    message = _text(frame["message"], _MESSAGE_MAX)
    return Checked(Verdict(_text(frame["verdict"], 40)), message, details, frame["throttled"] is True)


def _text(value: Any, limit: int) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return printable(value, limit)


_KINDS: dict[str, Callable[[Frame], Answer]] = {
    "confined": _confined,
    "loaded": lambda _: Loaded(),
    "prepared": lambda _: Prepared(),
    "mapped": lambda _: Mapped(),
    "done": _done,
    "reserved": _reserved,
    "unshared": lambda frame: Unshared(_text(frame["message"], _MESSAGE_MAX)),
    "queued": _queued,
    "finished": lambda _: Finished(),
    "windowed": _windowed,
    "overlapped": lambda _: Overlapped(),
    "raised": _failure,
    "ready": _ready,
    "failed": _failure,
    "generated": _generated,
    "filled": lambda _: Filled(),
    "checked": _checked,
}
