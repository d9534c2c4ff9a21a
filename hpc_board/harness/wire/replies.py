"""Answers of a worker or judge, parsed from frames that may be forged: any other frame is a violation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

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

REST = ".rest"
"""The end of the name under which the judge keeps facts of a case whose fixed inputs a worker has before its calls."""

_HANDLE_BYTES = 64
_Read = TypeVar("_Read")


class Answer:
    """An answer; one of no other class says all by its type of frame."""


@dataclass(frozen=True)
class Confined(Answer):
    """Confirmation that a worker is confined at the level `isolation`, with nothing of the submission imported yet.

    `lacking` has a message for each library that the worker's Python does not find.
    """

    isolation: str
    lacking: Mapping[str, str]


@dataclass(frozen=True)
class Loaded(Answer):
    """Confirmation that a worker has imported its code, and whether that `prepares` fixed inputs, by its word."""

    prepares: bool


@dataclass(frozen=True)
class Done(Answer):
    """The end of the call with this number, and the time that the worker claims for it.

    `blocks` holds the addresses of the blocks of answers that have the task's form, one answer after the other;
    `outputs` the offset in the room and the size in bytes of each answer that was written there instead.
    """

    call: int
    elapsed_ns: float
    outputs: tuple[tuple[int, int], ...] = ()
    blocks: tuple[int, ...] = ()


class SharedPlace(NamedTuple):
    """Memory of a GPU that a process offers: the index of the allocation's handle, the offset in it, the size."""

    handle: int
    offset: int
    size: int


@dataclass(frozen=True)
class Reserved(Answer):
    """Memory of the GPU for a call's inputs and for the signals; `handles` names the allocations, as hexadecimals."""

    handles: tuple[str, ...]
    inputs: tuple[SharedPlace, ...]
    signals: SharedPlace


@dataclass(frozen=True)
class Unshared(Answer):
    """Report that a worker's memory of the GPU cannot be shared with another process."""

    message: str


@dataclass(frozen=True)
class Queued(Answer):
    """Confirmation that a call waits in the GPU's queue, with the places of its answer's blocks that are not empty."""

    call: int
    handles: tuple[str, ...]
    blocks: tuple[SharedPlace, ...]


@dataclass(frozen=True)
class Windowed(Answer):
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
class Overlapped(Answer):
    """Report that outputs of calls in a row lie in the same memory, so that the first ones are lost."""


@dataclass(frozen=True)
class Failure(Answer):
    """Report that a worker or judge failed to carry out a request; `module` is the library that it did not find."""

    verdict: Verdict
    message: str
    module: str = ""


@dataclass(frozen=True)
class Ready(Answer):
    """Confirmation that the judge has imported the reference."""

    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Generated(Answer):
    """Inputs that the judge has generated; they take `size` bytes.

    `work` is the minimum of bytes to move and operations to compute for a right call, if the task declares it. `form`
    is the form of a right answer; None if it is unknown, depends on the values, or has parts that are no tensors or
    arrays. `own` holds for each block the input that the reference returns in its place, -1 for none: its offset, or on
    a GPU its number.
    `steady` states that the inputs of other seeds had the same layout, so that the layout reveals nothing about this
    seed; `in_tensors` that nearly all of the inputs are in tensors. `reference_seconds` is the longest time that the
    reference has taken so far, 0 if it was not called.
    """

    size: int
    steady: bool = False
    in_tensors: bool = False
    work: Work | None = None
    form: Form | None = None
    own: tuple[int, ...] = ()
    reference_seconds: float = 0.0


@dataclass(frozen=True)
class Filled(Answer):
    """Confirmation that the judge has written inputs to the requested place."""


@dataclass(frozen=True)
class Checked(Answer):
    """The judge's opinion of an output, with the details of wrong values, or the largest error of right ones.

    `throttled`: the GPU had lowered its clocks for its own protection.
    """

    verdict: Verdict
    message: str
    mismatch: Mismatch | None = None
    throttled: bool = False
    of_tolerance: float | None = None


@dataclass(frozen=True)
class Taken(Answer):
    """Confirmation of the prober that it knows a right answer, with the names of the probes that it can make."""

    probes: tuple[str, ...]


@dataclass(frozen=True)
class Kept(Answer):
    """Confirmation of the prober that it has a submission's answer."""


@dataclass(frozen=True)
class Made(Answer):
    """A probe, which may be the `same` as the right answer; `fault` is the reason why there is none."""

    same: bool
    fault: str


OfJudge = TypeVar("OfJudge", bound=Answer)
"""An answer of the judge, whose type of frame is the class's name in lower case."""


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
    outputs, blocks = _several(frame, "outputs", BLOCKS_MAX, _extent), _several(frame, "blocks", BLOCKS_MAX, _position)
    return Done(call, float(elapsed_ns), outputs, blocks)


def _several(frame: Frame, name: str, most: int, read: Callable[[Any], _Read]) -> tuple[_Read, ...]:
    found = frame[name]
    if not isinstance(found, list) or len(found) > most:
        raise ValueError(f"no {name}, or too many")
    return tuple(map(read, found))


def _position(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError("no position in memory")
    return value


def _extent(extent: Any) -> tuple[int, int]:
    base, size = extent
    return _position(base), _position(size)


def _handle(text: Any) -> str:
    if not isinstance(text, str) or len(text) != 2 * _HANDLE_BYTES or not set(text) <= set("0123456789abcdef"):
        raise ValueError("no handle")
    return text


def _shared_place(place: Any, handles: Sequence[str]) -> SharedPlace:
    handle, offset, size = map(_position, place)
    if handle >= len(handles) or not size:
        raise ValueError("a place in an unknown allocation, or without a byte")
    return SharedPlace(handle, offset, size)


def _reserved(frame: Frame) -> Reserved:
    handles = _several(frame, "handles", HANDLES_MAX, _handle)
    inputs = _several(frame, "inputs", PLACES_MAX, partial(_shared_place, handles=handles))
    return Reserved(handles, inputs, _shared_place(frame["signals"], handles))


def _queued(frame: Frame) -> Queued:
    handles = _several(frame, "handles", HANDLES_MAX, _handle)
    blocks = _several(frame, "blocks", BLOCKS_MAX, partial(_shared_place, handles=handles))
    return Queued(_position(frame["call"]), handles, blocks)


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
        _amount(frame["reference_seconds"]),
    )


def _amount(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= WORK_MAX:
        raise ValueError("no amount")
    return float(value)


def _checked(frame: Frame) -> Checked:
    found = frame["mismatch"]
    details = None if found is None else Mismatch.of(found)
    message = _text(frame["message"], _MESSAGE_MAX)
    of_tolerance = None if frame["of_tolerance"] is None else _amount(frame["of_tolerance"])
    return Checked(Verdict(_text(frame["verdict"], 40)), message, details, frame["throttled"] is True, of_tolerance)


def _text(value: Any, limit: int) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return printable(value, limit)


_KINDS: dict[str, Callable[[Frame], Answer]] = {
    **dict.fromkeys(("device_ready", "mapped", "finished", "kept_state"), lambda _: Answer()),
    "loaded": lambda frame: Loaded(frame["prepares"] is True),
    "confined": _confined,
    "done": _done,
    "reserved": _reserved,
    "unshared": lambda frame: Unshared(_text(frame["message"], _MESSAGE_MAX)),
    "queued": _queued,
    "windowed": _windowed,
    "overlapped": lambda _: Overlapped(),
    "raised": _failure,
    "ready": _ready,
    "failed": _failure,
    "generated": _generated,
    "filled": lambda _: Filled(),
    "taken": lambda frame: Taken(tuple(_text(each, 40) for each in frame["probes"])),
    "kept": lambda _: Kept(),
    "made": lambda frame: Made(frame["same"] is True, _text(frame["fault"], _MESSAGE_MAX)),
    "checked": _checked,
}
