"""Compiler flags that a task may request, and the compilers that take each of them.

The harness owns the command that compiles a submission; a task only chooses from this list.
"""

import re
from collections.abc import Iterable

from hpc_board.model.names import suggestion
from hpc_board.model.task import Language
from hpc_board.model.value import Value

_CU, _HIP, _CPP = Language.CU, Language.HIP, Language.CPP


class _Allowed(Value):
    """A form of flag: its spelling, its pattern, the languages whose compilers take it."""

    written: str
    pattern: str
    languages: tuple[Language, ...]


def _exactly(flag: str, *languages: Language) -> _Allowed:
    return _Allowed(flag, re.escape(flag), languages)


_ALLOWED = (
    _exactly("--use_fast_math", _CU),
    _exactly("-ffast-math", _CPP, _HIP),
    _exactly("-lcublas", _CU),
    _exactly("-lcublasLt", _CU),
    _exactly("-lcurand", _CU),
    _exactly("-lcusparse", _CU),
    _Allowed("-maxrregcount=N", r"-maxrregcount=[1-9][0-9]{1,2}", (_CU,)),
    _Allowed("-DNAME[=VALUE]", r"-D ?[A-Za-z_][A-Za-z0-9_]{0,99}(=[A-Za-z0-9_.+-]{0,100})?", (_CU, _HIP, _CPP)),
    _Allowed("-std=c++NN", r"-std=c\+\+(14|17|20|23)", (_CU, _HIP, _CPP)),
)


def flag_fault(flag: str) -> str:
    """Return the reason why a task may not request `flag`; "" if it may."""
    if _allowed(flag) is not None:
        return ""
    words = [form.written for form in _ALLOWED]
    return f"is not an allowed flag.{suggestion(flag, words)} Allowed: {', '.join(words)}"


def flags_for(language: Language, flags: Iterable[str]) -> tuple[str, ...]:
    """Return the task's flags that the compiler of `language` takes, in its spelling.

    Raises:
        ValueError: one of the flags is not allowed.
    """
    taken = []
    for flag in flags:
        form = _allowed(flag)
        if form is None:
            raise ValueError(f"{flag!r} {flag_fault(flag)}")
        if language in form.languages:
            taken.append(flag.replace("-D ", "-D", 1))
    return tuple(taken)


def _allowed(flag: str) -> "_Allowed | None":
    return next((form for form in _ALLOWED if re.fullmatch(form.pattern, flag)), None)
