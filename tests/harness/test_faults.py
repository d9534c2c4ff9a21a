"""The blame that PyTorch's errors give."""

import subprocess
import sys
from pathlib import Path

import pytest

from hpc_board.harness.device.device import DeviceMissing
from hpc_board.harness.device.faults import fault, lacking, message_of, unreadable
from hpc_board.harness.wire.payload import NoRoom
from hpc_board.model.result import Verdict

ASYNCHRONOUS = "\nCUDA kernel errors might be asynchronously reported at some other API call."


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: an illegal memory access was encountered",
        "HIP error: an illegal memory access was encountered",
        "CUDA error: misaligned address",
        "CUDA error: device-side assert triggered",
        "CUDA error: unspecified launch failure",
        "Triton Error [CUDA]: an illegal memory access was encountered",
    ],
)
def test_what_a_kernel_does_to_a_device_is_a_crash(text: str) -> None:
    assert fault(RuntimeError(text + ASYNCHRONOUS)) is Verdict.CRASH


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        "CUDA error: no CUDA-capable device is detected",
        "CUDA error: uncorrectable ECC error encountered",
        "CUDA error: initialization error",
        "CUDA error: CUDA driver version is insufficient for CUDA runtime version",
        "No CUDA GPUs are available",
        "Found no NVIDIA driver on your system.",
    ],
)
def test_what_a_device_or_node_lacks_is_a_device_error(text: str) -> None:
    assert fault(RuntimeError(text + ASYNCHRONOUS)) is Verdict.DEVICE_ERROR


@pytest.mark.parametrize(
    "error",
    [
        ValueError("CUDA error: an illegal memory access was encountered"),
        type("Mine", (RuntimeError,), {})("CUDA error: no CUDA-capable device is detected"),
        RuntimeError("I met an illegal memory access"),
        RuntimeError("CUDA error: invalid configuration argument"),
        AssertionError("no NVIDIA driver"),
    ],
)
def test_other_errors_are_the_submission_s_own(error: Exception) -> None:
    assert fault(error) is None


@pytest.mark.parametrize(
    "error",
    [MemoryError(), NoRoom(), RuntimeError("CUDA error: out of memory"), RuntimeError("HIP error: out of memory")],
)
def test_an_error_for_want_of_memory_is_one(error: Exception) -> None:
    assert fault(error) is Verdict.OUT_OF_MEMORY


class Mute(RuntimeError):
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        raise SystemExit(0)


class Text(str):
    """A text that does not let itself be used."""

    __slots__ = ()

    def __format__(self, _spec: str) -> str:
        raise ValueError

    __getitem__ = __len__ = __str__ = __format__  # type: ignore[assignment]


def test_an_exception_that_cannot_say_what_it_is_is_told_all_the_same() -> None:
    assert fault(Mute()) is None
    assert message_of(Mute()) == "(its message cannot be read: its __str__ fails)"


def test_what_an_exception_says_is_a_plain_text() -> None:
    said = message_of(type("Odd", (Exception,), {"__str__": lambda _: Text("odd")})())
    assert type(said) is str
    assert f"{said[:2]}" == "od"


def test_a_missing_device_is_a_device_error() -> None:
    assert fault(DeviceMissing("none")) is Verdict.DEVICE_ERROR


@pytest.mark.torch
def test_pytorch_s_own_error_types_are_known() -> None:
    torch = pytest.importorskip("torch")
    assert fault(torch.OutOfMemoryError("CUDA out of memory.")) is Verdict.OUT_OF_MEMORY
    if not hasattr(torch, "AcceleratorError"):
        pytest.skip("this PyTorch has no AcceleratorError")
    assert fault(torch.AcceleratorError("misaligned address")) is Verdict.CRASH
    assert fault(torch.AcceleratorError("device(s) is/are busy or unavailable")) is Verdict.DEVICE_ERROR


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("torch", "torch"),
        ("numpy", "numpy"),
        ("cutlass", "cutlass"),
        ("cuda.tile", "cuda.tile"),
        ("torch.nothing", ""),
        ("triton.nothing", ""),
        ("helper", ""),
    ],
)
def test_only_what_an_installation_has_to_provide_is_lacking(name: str, module: str) -> None:
    error = ModuleNotFoundError(f"No module named '{name}'", name=name)
    missing = DeviceMissing("this Python has none")
    missing.__cause__ = error
    assert lacking(error) == lacking(missing) == module
    assert lacking(DeviceMissing("no cuda device")) == lacking(ImportError("broken", name=name)) == ""


def test_a_file_of_the_installation_that_must_not_be_read_is_told_from_the_task_s_own() -> None:
    inside = f"{sys.prefix}/lib/python3/site-packages/torch/__init__.py"
    assert unreadable(PermissionError(13, "Permission denied", inside)) == inside
    assert unreadable(PermissionError(13, "Permission denied", "/srv/tasks/scan/data.bin")) == ""
    assert unreadable(PermissionError(13, "Permission denied", f"{sys.prefix}-other/lib")) == ""
    assert unreadable(PermissionError("closed")) == unreadable(FileNotFoundError(2, "none", inside)) == ""


IMPORTS = """
import os, sys
sys.path.insert(0, sys.argv[1])
from hpc_board.harness.confine import sandbox
from hpc_board.harness.device.faults import unreadable
scratch = sys.argv[2]
if not sandbox.confine(sandbox.readable_folders(os.environ, [sys.argv[1]], []), [scratch]):
    sys.exit("no Landlock")
try:
    import linked
except OSError as error:
    print(unreadable(error))
"""


def test_a_package_that_links_to_a_folder_which_jobs_do_not_see_is_the_installation_s_fault(tmp_path: Path) -> None:
    venv, cache, scratch = tmp_path / "venv", tmp_path / "cache", tmp_path / "scratch"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (package,) = venv.glob("lib/python3*/site-packages")
    for folder in (cache, scratch, package / "linked"):
        folder.mkdir()
    (cache / "code.py").write_text("")
    (package / "linked" / "__init__.py").symlink_to(cache / "code.py")
    command = [str(venv / "bin" / "python"), "-B", "-c", IMPORTS, str(Path(__file__).parents[2]), str(scratch)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.stderr == "no Landlock\n":
        pytest.skip("this kernel has no Landlock")
    assert done.stdout.strip() == str(package / "linked" / "__init__.py"), done.stderr
