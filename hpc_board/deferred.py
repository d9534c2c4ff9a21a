"""Modules that libraries import and few commands use: they are loaded at their first use, or left out.

Without them, a command that asks a service takes a fifth less processor time: libraries are most of its start.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from threading import RLock
from types import ModuleType
from typing import Any

_SELDOM_USED = ("inspect", "ipaddress", "textwrap")
"""Modules of Python that click, pathlib and msgspec import, and use for help texts, URLs and schemas."""

_LOADER = "__deferred_loader__"
_LOADING = RLock()


class _Deferred(ModuleType):
    """A module without its contents, which are loaded when one of its names is first asked for.

    `importlib.util.LazyLoader` would load it as soon as a second module imports it.
    """

    in_command = False
    """True in a process of the command line. In a script that imports hpc-board, no import is changed."""

    def __getattr__(self, name: str) -> Any:
        """Load the module, and return its attribute."""
        with _LOADING:
            loader = self.__dict__.pop(_LOADER, None)
            if loader is not None:
                loader.exec_module(self)
                self.__class__ = ModuleType  # type: ignore[assignment]
        return ModuleType.__getattribute__(self, name)


def defer() -> None:
    """Have these modules loaded at their first use, as far as they are not loaded yet: in a process of ours alone."""
    _Deferred.in_command = True
    for name in _SELDOM_USED:
        spec = None if name in sys.modules else PathFinder.find_spec(name)
        if spec is None or spec.loader is None:
            continue
        module = module_from_spec(spec)
        module.__dict__[_LOADER] = spec.loader
        if name == "inspect":
            module.__dict__["cleandoc"] = _cleandoc
        module.__class__ = _Deferred
        sys.modules[name] = module


def load_msgspec() -> None:
    """Import msgspec with the names of `typing`, in a command; it takes the same ones from typing_extensions else."""
    if not _Deferred.in_command or "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # absent, for this import alone
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]


def _cleandoc(text: str) -> str:
    """Return the help of an option as `inspect.cleandoc` does, which click calls for each; almost all are one line."""
    if "\n" not in text:
        return text.expandtabs().lstrip()
    import inspect

    inspect.getdoc  # noqa: B018 - loads the module, and thus its own `cleandoc`
    return inspect.cleandoc(text)
