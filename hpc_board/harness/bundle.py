"""The harness as one file: a zipapp of `harness/`, `model/` and `errors.py`, the same bytes each time it is made."""

import io
import zipfile
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_EPOCH = (1980, 1, 1, 0, 0, 0)
# Any Python can read this much, and an older one is told what is missing.
_MAIN = """\
import sys
if sys.version_info < (3, 10):
    found = (sys.executable,) + tuple(sys.version_info[:2])
    sys.exit("hpc-board: the judge needs Python 3.10 or newer; %s is %d.%d" % found)
from hpc_board.harness.main import main
sys.exit(main(sys.argv))
"""


def harness_bytes() -> bytes:
    """The zipapp that travels with every job; its sha256 is kept with every run."""
    files = [_PACKAGE / "__init__.py", _PACKAGE / "errors.py"]
    files += sorted((_PACKAGE / "model").glob("*.py")) + sorted((_PACKAGE / "harness").rglob("*.py"))
    files += sorted((_PACKAGE / "harness").rglob("*.h"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", _MAIN.encode())
        for path in files:
            _add(archive, f"hpc_board/{path.relative_to(_PACKAGE).as_posix()}", path.read_bytes())
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    archive.writestr(info, data)
