"""sqlite_utils, loaded without numpy and pandas, whose number types it would learn; the store has none of them."""

import sys
from typing import Any

_modules: dict[str, Any] = sys.modules
_hidden = [name for name in ("numpy", "pandas") if name not in _modules]
# A module that is None here counts as one that is not installed. Beside PyTorch numpy nearly always is, and loading it
# would take as long as the whole rest of a command.
_modules.update(dict.fromkeys(_hidden))
try:
    from sqlite_utils import Database
finally:
    for _name in _hidden:
        if _modules.get(_name) is None:
            _modules.pop(_name, None)

__all__ = ["Database"]
