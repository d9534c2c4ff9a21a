"""The comparison by which a task's check finds an output wrong: its two tensors and its tolerance.

Checks call functions of known names: those of KernelBot's and hpc-board's `utils.py`, and those of PyTorch and NumPy.
While a check runs, such a function is replaced by one that calls it and notes its arguments if it finds a difference.
"""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

_EXACT = ("equal", "verbose_allequal")
_CLOSE = ("close", "verbose_allclose")
_OF_LIBRARIES = {"torch": ("equal", "allclose"), "numpy": ("array_equal", "allclose")}
_DEFAULTS = {"rtol": 1e-5, "atol": 1e-8}
_HELD_MAX = 8
"""Number of comparisons without a difference that are noted: each holds two tensors."""


@dataclass(frozen=True)
class Comparison:
    """Two tensors or arrays of one shape, and the tolerance of their comparison.

    An element is right within `atol` and `rtol` times the expected one, or within its own `tolerance` if that is not
    None. `exact` asks for equal ones; `known` is False if the tolerance is unknown. With `nans`, NaN equals NaN.
    """

    got: Any
    expected: Any
    atol: float = 0.0
    rtol: float = 0.0
    tolerance: Any = None
    exact: bool = False
    known: bool = True
    nans: bool = False


class Comparisons:
    """The comparisons of a task's check; within the context, the first one that fails is noted.

    `parts` of the output tell which side of a library's comparison is the output. If asked for, `passed` has those that
    found no difference.
    """

    def __init__(self, reference: ModuleType, folder: str) -> None:
        self.failed: Comparison | None = None
        self.passed: list[Comparison] = []
        self._notes_passed = False
        self._parts: Sequence[Any] = ()
        self._replaced: list[tuple[dict[str, Any], str, Any, Any]] = []
        for module in (reference, sys.modules.get("utils")):
            names = vars(module) if isinstance(module, ModuleType) else {}
            for name in set(_EXACT + _CLOSE) & set(names):
                function = names[name]
                own = inspect.unwrap(function)  # below decorators such as torch.no_grad
                if isinstance(own, FunctionType) and own.__code__.co_filename.startswith(folder):
                    self._replaced.append((names, name, function, self._noting(function, own.__name__)))
        for library, functions in _OF_LIBRARIES.items():
            names = vars(sys.modules[library]) if library in sys.modules else {}
            for name in functions:
                if name in names:
                    noting = self._noting(names[name], name, of_library=True)
                    self._replaced.append((names, name, names[name], noting))

    def of(self, parts: Sequence[Any], *, passed: bool = False) -> "Comparisons":
        """Return this for a check of an output with these parts."""
        self._parts, self._notes_passed = parts, passed
        self.drop()
        return self

    def drop(self) -> None:
        """Drop the noted comparisons, which hold tensors."""
        self.failed, self.passed = None, []

    def __enter__(self) -> None:
        for names, name, _, noting in self._replaced:
            names[name] = noting

    def __exit__(self, *_: object) -> None:
        for names, name, function, _ in self._replaced:
            names[name] = function

    def _noting(self, function: Callable[..., Any], name: str, *, of_library: bool = False) -> Callable[..., Any]:
        def noting(*args: Any, **named: Any) -> Any:
            answer = function(*args, **named)
            # A task's own function of a known name may answer, and take, anything.
            with suppress(Exception):
                note = self._of_library if of_library else _of_utils
                if _is_wrong(answer):
                    self.failed = self.failed or note(function, name, args, named)
                elif self._notes_passed and len(self.passed) < _HELD_MAX:
                    found = note(function, name, args, named)
                    self.passed += [] if found is None else [found]
            return answer

        return noting

    def _of_library(
        self, _: Callable[..., Any], name: str, args: Sequence[Any], named: Mapping[str, Any]
    ) -> "Comparison | None":
        if len(args) < 2:
            return None
        got, expected = args[:2]
        is_part = [any(part is side for part in self._parts) for side in (got, expected)]
        if is_part == [False, True]:
            got, expected = expected, got
        elif is_part != [True, False]:
            return None
        if name != "allclose":
            return Comparison(got, expected, exact=True)
        given = {**_DEFAULTS, **dict(zip(("rtol", "atol"), args[2:4], strict=False)), **named}
        nans = bool(given.get("equal_nan", False))
        return Comparison(got, expected, float(given["atol"]), float(given["rtol"]), nans=nans)


def _of_utils(
    function: Callable[..., Any], name: str, args: Sequence[Any], named: Mapping[str, Any]
) -> "Comparison | None":
    bound = inspect.signature(function).bind(*args, **named)
    bound.apply_defaults()
    got, expected = list(bound.arguments.values())[:2]
    if name in _EXACT:
        return Comparison(got, expected, exact=True)
    if "tolerance" in bound.arguments:
        return Comparison(got, expected, tolerance=bound.arguments["tolerance"])
    atol, rtol = (float(bound.arguments[key]) for key in ("atol", "rtol"))
    return Comparison(got, expected, atol, rtol, nans=True)


def _is_wrong(answer: Any) -> bool:
    """Return whether a comparison found a difference; it answers by a truth value, the differences, or a pair."""
    if isinstance(answer, tuple):
        return not answer[0]
    return bool(answer) if isinstance(answer, (list, str)) else not answer
