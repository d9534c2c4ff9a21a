"""Scripts of the repository as modules, for tests of their functions."""

import importlib.util
import sys
from types import ModuleType

from tests.unit.recorded import REPOSITORY

SCRIPTS = REPOSITORY / "scripts"


def script(name: str) -> ModuleType:
    """Return a script as a module; it may import the other scripts."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(SCRIPTS))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(SCRIPTS))
    return module
