"""The harness file holds the modules that a node imports: each of them, and no other one."""

import ast
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import hpc_board
from hpc_board.harness.bundle import harness_bytes

PACKAGE = Path(hpc_board.__file__).parent
STARTED = "harness/main.py"


def modules_in_the_file() -> set[str]:
    """Return the modules of hpc_board in the harness file, by their paths in the package."""
    names = zipfile.ZipFile(io.BytesIO(harness_bytes())).namelist()
    return {name.removeprefix("hpc_board/") for name in names if name.endswith(".py")} - {"__main__.py"}


def file_of(module: str) -> str | None:
    """Return the path of a module in the package; None where hpc_board has no such module."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    found = [each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()]
    return found[0].relative_to(PACKAGE).as_posix() if found else None


def imported_by(name: str) -> set[str]:
    """Return the modules of hpc_board that a file imports anywhere in it, with their packages."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse((PACKAGE / name).read_text())):
        if isinstance(node, ast.Import):
            modules |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    ours = [module.split(".") for module in modules if module.partition(".")[0] == "hpc_board"]
    packages = {".".join(parts[:length]) for parts in ours for length in range(1, len(parts) + 1)}
    return {file for file in map(file_of, packages) if file is not None}


def reached_from(name: str) -> set[str]:
    """Return `name` and every file that its imports reach; the package's own file is empty on a node."""
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached.add(file)
            waiting += imported_by(file) if file != "__init__.py" else ()
    return reached


def test_the_file_holds_what_its_entry_reaches_and_no_more() -> None:
    assert modules_in_the_file() == reached_from(STARTED)


def test_every_module_of_the_harness_is_reached() -> None:
    login_side = {"harness/bundle.py"}
    assert {f"harness/{path.relative_to(PACKAGE / 'harness')}" for path in (PACKAGE / "harness").rglob("*.py")} == {
        name for name in reached_from(STARTED) if name.startswith("harness/")
    } | login_side


def test_a_module_of_the_login_side_is_left_out() -> None:
    assert zipfile.ZipFile(io.BytesIO(harness_bytes())).read("hpc_board/__init__.py") == b""
    held = modules_in_the_file()
    assert not {"errors.py", "runs/job_folder.py", "harness/bundle.py"} & held
    assert file_of("hpc_board.runs.job_folder") == "runs/job_folder.py"


def test_all_of_it_is_imported_by_a_python_that_has_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "harness.pyz"
    file.write_bytes(harness_bytes())
    names = [f"hpc_board.{name.removesuffix('.py').replace('/', '.')}" for name in sorted(modules_in_the_file())]
    program = (
        f"import importlib, sys; sys.path.insert(0, {str(file)!r})\nfor each in {names}: importlib.import_module(each)"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_is_the_same_bytes_each_time() -> None:
    assert harness_bytes() == harness_bytes()
