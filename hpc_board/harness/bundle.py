"""The harness as one file: a zipapp of `harness/` and `model/`, the same bytes each time it is made."""

import io
import zipfile
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_EPOCH = (1980, 1, 1, 0, 0, 0)
# Any Python can parse this part, so an older one reports the required version.
_MAIN = """\
import sys
if sys.version_info < (3, 10):
    found = (sys.executable,) + tuple(sys.version_info[:2])
    sys.exit("hpc-board: the judge needs Python 3.10 or newer; %s is %d.%d" % found)
from hpc_board.harness.main import main
sys.exit(main(sys.argv))
"""


def harness_bytes() -> bytes:
    """Return the zipapp that judges on the node; its sha256 is kept with every run."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", _MAIN.encode())
        for name, data in sorted(_files().items()):
            _add(archive, f"hpc_board/{name}", data)
    return buffer.getvalue()


def _files() -> dict[str, bytes]:
    """Return the files of `harness/` and `model/` by their paths in the package; nothing else travels to a node."""
    found = [path for kind in ("*.h", "*.cpp") for path in (_PACKAGE / "harness").rglob(kind)]
    found += [path for name in ("harness", "model") for path in (_PACKAGE / name).rglob("*.py")]
    found.remove(Path(__file__).resolve())
    # The package's own file has the interface for scripts, of which a node has nothing.
    return {"__init__.py": b"", **{path.relative_to(_PACKAGE).as_posix(): path.read_bytes() for path in found}}


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    archive.writestr(info, data)
