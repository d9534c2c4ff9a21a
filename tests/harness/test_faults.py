"""The blame that PyTorch's errors give."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hpc_board.harness.device.device import DeviceMissing
from hpc_board.harness.device.faults import absent, fault, install_command, lacking, message_of, unreadable
from hpc_board.harness.judge.judge import failed
from hpc_board.harness.wire.payload import NoRoom
from hpc_board.harness.worker.worker import _Naming
from hpc_board.model.device_faults import DEVICE_FAULTS, with_words
from hpc_board.model.gpu import Device
from hpc_board.model.result import Verdict
from hpc_board.report.explanations import verdict_meaning
from tests.harness.evaluations import evaluate
from tests.harness.harness_file import Edit, edited

NODE_S = {
    "CUDA error: CUDA-capable device(s) is/are busy or unavailable": "the GPU is held by another process",
    "CUDA error: uncorrectable ECC error encountered": "the GPU has a hardware error",
    "CUDA error: uncorrectable NVLink error detected during the execution": "the GPU has a hardware error",
    "CUDA error: CUDA driver version is insufficient for CUDA runtime version": "the node's driver is too old",
    "CUDA error: the provided PTX was compiled with an unsupported toolchain.": "the node's driver is too old",
    "CUDA error: system has unsupported display driver / cuda driver combination": "the node's driver is too old",
    "CUDA error: forward compatibility was attempted on non supported HW": "the node's driver is too old",
    "The NVIDIA driver on your system is too old (found version 11040).": "the node's driver is too old",
    "CUDA error: system not yet initialized": "the node's GPUs are not initialized",
    "CUDA error: MPS server is not ready to accept new MPS client requests": "the node's MPS server rejects the job",
    "CUDA error: no CUDA-capable device is detected": "the GPU is not usable",
    "HIP error: no ROCm-capable device is detected": "the GPU is not usable",
    "No CUDA GPUs are available": "the GPU is not usable",
    "Triton Error [CUDA]: GPU is lost": "the GPU was lost during the run",
}
"""Messages of CUDA 13, HIP and PyTorch, and the beginning of our words for each."""

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


@pytest.mark.parametrize(("text", "words"), NODE_S.items())
def test_each_fault_of_a_node_has_its_own_words_and_its_remedy(text: str, words: str) -> None:
    assert fault(RuntimeError(text + ASYNCHRONOUS)) is Verdict.DEVICE_ERROR
    assert with_words(text).startswith(words)
    assert with_words(text).endswith(f": {text}")
    meaning = verdict_meaning(Verdict.DEVICE_ERROR, with_words(text))
    assert meaning.what.casefold().startswith(words.casefold())
    assert meaning.next != verdict_meaning(Verdict.DEVICE_ERROR, text).next


@pytest.mark.parametrize(
    ("version", "commands"),
    [
        ("12.8", ("cupy-cuda12x", "'numba-cuda[cu12]'", "'jax[cuda12]'")),
        (None, ("cupy-cuda13x", "numba-cuda", "jax")),
    ],
)
def test_a_library_is_installed_for_pytorch_s_version_of_cuda(
    monkeypatch: pytest.MonkeyPatch, version: str | None, commands: tuple[str, ...]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(version=SimpleNamespace(cuda=version)))
    found = [install_command(module) for module in ("cupy", "numba", "jax")]
    assert found == [f"{sys.executable} -m pip install {package}" for package in commands]


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        ("cupy_backends.cuda.api.runtime", "CUDARuntimeError", "cudaErrorIllegalAddress: an illegal memory access was"),
        (
            "numba.cuda.cudadrv.driver",
            "CudaAPIError",
            "[700] cuMemcpyDtoH results in CUDA_ERROR_ILLEGAL_ADDRESS",
        ),
        ("jaxlib._jax", "JaxRuntimeError", "INTERNAL: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure"),
    ],
)
def test_an_error_of_a_kernel_is_a_crash_in_the_words_of_any_library(module: str, name: str, message: str) -> None:
    kind = type(name, (RuntimeError,), {"__module__": module})
    assert fault(kind(message)) is Verdict.CRASH
    assert fault(kind("another message")) is None


def test_the_manual_has_each_fault_of_a_gpu() -> None:
    page = (Path(__file__).parents[2] / "docs/results.md").read_text()
    assert [each.words for each in DEVICE_FAULTS if f"\n| {each.words} |" not in page] == []


def test_a_mig_device_that_the_job_may_not_open_is_told() -> None:
    text = "no cuda device can be used on this node: PyTorch 2.11.0 is built for 13.0; visible devices: 'MIG-1e2f'"
    assert with_words(text).startswith("the job has no permission to use its MIG device or GPU: no cuda device")


def test_a_capture_s_own_rules_are_no_fault_of_the_node() -> None:
    assert fault(RuntimeError("CUDA error: operation not permitted when stream is capturing")) is None


@pytest.mark.parametrize(
    ("device", "imports", "verdict"),
    [
        ("cuda", False, Verdict.DEVICE_ERROR),
        ("cuda", True, Verdict.CRASH),
        ("cpu", True, Verdict.EXCEPTION),
    ],
)
def test_a_worker_blames_the_device_only_before_the_submission_is_imported(
    device: str, imports: bool, verdict: Verdict
) -> None:
    naming = _Naming("/scratch", "k.py", "k.py", device)
    naming.imports = imports
    error = RuntimeError("CUDA error: uncorrectable ECC error encountered")
    assert naming.raised(error, Verdict.EXCEPTION)["verdict"] is verdict


LOST = "def custom_kernel(data):\n    raise RuntimeError('CUDA error: GPU is lost')\n"
NO_NEW_DEVICE = (
    Edit(
        "launcher.py",
        "self.dismiss(self.waiting_worker())",
        '(self.scratch / "lost").touch(); self.dismiss(self.waiting_worker())',
    ),
    Edit(
        "worker/worker.py",
        '        device = open_device(frame["device"])\n',
        '        device = open_device(frame["device"])\n'
        '        if any((each / "lost").exists() for each in Path(frame["scratch"]).parents):\n'
        '            raise RuntimeError("CUDA error: no CUDA-capable device is detected")\n',
    ),
)


@pytest.mark.parametrize(("edits", "verdict"), [((), Verdict.EXCEPTION), (NO_NEW_DEVICE, Verdict.DEVICE_ERROR)])
def test_a_submission_s_word_of_a_lost_gpu_counts_if_a_process_without_it_says_so_too(
    tmp_path: Path, edits: tuple[Edit, ...], verdict: Verdict
) -> None:
    result = evaluate(tmp_path, LOST, harness=edited(edits)).result
    assert result.verdict is verdict, result.message
    assert [case.verdict for case in result.cases] == [Verdict.EXCEPTION] * len(result.cases)
    told = "the GPU is not usable: RuntimeError: CUDA error: no CUDA-capable device is detected; test"
    assert told in result.message or not edits


@pytest.mark.parametrize("error", [RuntimeError("CUDA error: GPU is lost"), DeviceMissing("visible devices: 'MIG-1'")])
def test_the_judge_puts_the_words_before_an_error_of_the_gpu(error: Exception) -> None:
    frame = failed("ref_kernel fails", error, "cuda")
    assert frame["verdict"] is Verdict.DEVICE_ERROR
    assert frame["message"].startswith(
        ("the GPU was lost during the run: ", "the job has no permission to use its MIG device")
    )


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


UUID = "GPU-6ff3f9b9-9c1c-4f3e-8f3c-0c1d2e3f4a5b"
ON_A_GPU = Edit("supervisor.py", 'return str(self._provenance.get("gpu_uuid", ""))', f'return "{UUID}"')
"""A CPU in the place of the GPU, which nvidia-smi describes."""

NVIDIA_SMI = """#!/bin/sh
# Describes the GPU, and then answers the question for the GPUs that are left.
case "$1" in
--query-gpu=uuid) {later}; exit ;;
--query-gpu=ecc.*) echo asked >> "$0.asked"; {errors}; exit ;;
esac
echo "NVIDIA H200, GPU-6, 570.1, Disabled, Default, 1980, 3201, 41, 0x0"
"""


@pytest.mark.parametrize(
    ("later", "errors", "told"),
    [
        ("echo 'Unable to determine the device handle: GPU is lost'; exit 15", "echo 0", "nvidia-smi no longer"),
        ("echo GPU-00000000-0000-0000-0000-000000000000", "echo 0", "nvidia-smi no longer"),
        (f"echo {UUID}", 'wc -l < "$0.asked"', "nvidia-smi counts 1 new uncorrectable ECC errors"),
        (f"echo {UUID}", "echo 7", ""),
        (f"echo {UUID}", "echo '[N/A]'", ""),
        ("sleep 8", "echo 0", ""),
        ("kill -9 $$", "echo 0", ""),
    ],
    ids=["fails", "has another", "counts errors", "counted before", "counts none", "is slow", "is killed"],
)
def test_a_kernel_whose_gpu_is_lost_is_not_to_blame(tmp_path: Path, later: str, errors: str, told: str) -> None:
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    (tmp_path / "nvidia-smi").write_text(NVIDIA_SMI.format(later=later, errors=errors))
    (tmp_path / "nvidia-smi").chmod(0o755)
    verdict = Verdict.DEVICE_ERROR if told else Verdict.CRASH
    source = "import os\n\n\ndef custom_kernel(data):\n    os.abort()\n"
    result = evaluate(tmp_path / "job", source, environ=environ, harness=edited((ON_A_GPU,))).result
    assert result.verdict is verdict, result.message
    assert [case.verdict for case in result.cases] == [Verdict.CRASH]
    assert told in result.message
    assert result.message.startswith("the GPU ") is bool(told)


@pytest.mark.parametrize(
    ("capability", "arch", "fault"),
    [
        ("8.0", "sm_90a", "it has the compute capability 8.0, and gpus.CPU in the settings has the arch sm_90a"),
        ("9.0", "sm_90a", ""),
        ("10.3", "sm_100a", "it has the compute capability 10.3, and gpus.CPU in the settings has the arch sm_100a"),
        ("10.3", "sm_100f", ""),
        ("10.3", "sm_100", ""),
    ],
)
def test_a_node_with_another_gpu_than_the_settings_is_told(
    tmp_path: Path, capability: str, arch: str, fault: str
) -> None:
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho {capability}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    result = evaluate(tmp_path / "job", "", device=Device.CUDA, environ=environ, arch=arch).result
    assert result.verdict is Verdict.DEVICE_ERROR
    told = f"the node's GPU is not the one of the board's settings: {fault}"
    assert (result.message.startswith("the node's GPU is not"), not fault or result.message == told) == (
        bool(fault),
        True,
    )


def test_a_broken_package_is_looked_for_without_its_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / "__init__.py").write_text("raise RuntimeError('no driver')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert {"cuda", "cuda.tile"} & {*absent()} == {"cuda.tile"}
    (tmp_path / "cuda" / "tile.py").touch()
    importlib.invalidate_caches()
    assert {"cuda", "cuda.tile"} & {*absent()} == set()
