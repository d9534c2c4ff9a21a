"""The probe's calls of NVIDIA's driver, against a library in its place: their order, and each argument's size."""

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hpc_board.harness.device.gpu_driver import GpuDriver, NotShared
from tests.gpu.doubles import CHECK

pytestmark = pytest.mark.torch

DRIVER = r"""
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef WITH_HEADER
#include <cuda.h>
#else
typedef int CUresult, CUdevice, CUdevice_attribute;
typedef uint64_t CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUstream_st *CUstream;
typedef struct { char reserved[64]; } CUipcMemHandle;
typedef struct { int type, id; } CUmemLocation;
typedef struct { int type, requestedHandleTypes; CUmemLocation location; void *win32HandleMetaData; uint64_t allocFlags; } CUmemAllocationProp;
typedef struct { CUmemLocation location; int flags; } CUmemAccessDesc;
typedef int CUmemAllocationHandleType, CUmemAllocationGranularity_flags;
typedef uint32_t cuuint32_t;
typedef struct {
    size_t srcXInBytes, srcY; unsigned srcMemoryType; const void *srcHost; CUdeviceptr srcDevice; void *srcArray; size_t srcPitch;
    size_t dstXInBytes, dstY; unsigned dstMemoryType; void *dstHost; CUdeviceptr dstDevice; void *dstArray; size_t dstPitch;
    size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;
#define cuMemGetAddressRange cuMemGetAddressRange_v2
#define cuIpcOpenMemHandle cuIpcOpenMemHandle_v2
#define cuMemsetD8 cuMemsetD8_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#define cuMemcpy2DAsync cuMemcpy2DAsync_v2
#define cuStreamWaitValue32 cuStreamWaitValue32_v2
#define cuStreamWriteValue32 cuStreamWriteValue32_v2
#endif

static char pool[4096];

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute number, CUdevice device) { *value = number + device; return 0; }
CUresult cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream) {
    *address = (CUdeviceptr)pool;
    return size != 1 << 20 || stream;
}
CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr address) {
    *base = address & ~(CUdeviceptr)63;
    *size = 1 << 20;
    return 0;
}
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr base) { memcpy(handle->reserved + 50, &base, 8); return 0; }
CUresult cuIpcOpenMemHandle(CUdeviceptr *base, CUipcMemHandle handle, unsigned flags) {
    memcpy(base, handle.reserved + 50, 8);
    return flags != 1;
}
CUresult cuMemsetD8(CUdeviceptr address, unsigned char value, size_t size) { memset((void *)address, value, size); return 0; }
CUresult cuMemcpyDtoH(void *target, CUdeviceptr source, size_t size) { memcpy(target, (void *)source, size); return 0; }
CUresult cuMemGetAllocationGranularity(size_t *step, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags flags) {
    *step = 1 << 21;
    return prop->type != 1 || prop->requestedHandleTypes != 1 || prop->location.type != 1 || flags;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags) {
    int file = memfd_create("memory", 0);
    *handle = file;
    return ftruncate(file, size) || prop->location.id || flags;
}
CUresult cuMemExportToShareableHandle(void *to, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags) {
    *(int *)to = dup((int)handle);
    return type != 1 || flags;
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *from, CUmemAllocationHandleType type) {
    *handle = (uintptr_t)from;
    return type != 1;
}
CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wish, unsigned long long flags) {
    *address = (CUdeviceptr)mmap(0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return alignment || wish || flags;
}
CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
    void *mapped = mmap((void *)address, size, PROT_NONE, MAP_SHARED | MAP_FIXED, (int)handle, offset);
    return mapped == MAP_FAILED || flags;
}
CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count) {
    return mprotect((void *)address, size, PROT_READ | PROT_WRITE) || access->flags != 3 || access->location.type != 1 || count != 1;
}
CUresult cuIpcCloseMemHandle(CUdeviceptr base) { return base == 0; }
CUresult cuMemUnmap(CUdeviceptr address, size_t size) { return munmap((void *)address, size); }
CUresult cuMemAddressFree(CUdeviceptr address, size_t size) { return address == 0 || size == 0; }
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) { return handle == 0; }
CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
    (void)stream, (void)address, (void)value;
    return flags != 1;
}
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
    (void)stream;
    *(volatile uint32_t *)address = value;
    return flags;
}
CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t size, CUstream stream) {
    memset((void *)address, value, size);
    return stream != (CUstream)7;
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream) {
    for (size_t row = 0; row < copy->Height; row++)
        memcpy((char *)copy->dstDevice + row * copy->dstPitch, (char *)copy->srcDevice + row * copy->srcPitch, copy->WidthInBytes);
    return stream != (CUstream)7 || copy->srcMemoryType != 2 || copy->dstMemoryType != 2;
}
"""  # noqa: E501 - C in the width of its declarations


def nothing(*_arguments: Any, **_names: Any) -> None:
    """Stand in for work of the GPU."""


class Event:
    """An event of a device that takes a millisecond for everything."""

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, stream: Any = None) -> None:
        assert stream is None or stream.cuda_stream == 7

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: "Event") -> float:
        assert end is not self
        return 1.0


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The probe's GPU, with PyTorch's tensors in host memory."""
    torch = pytest.importorskip("torch")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "driver.c").write_text(DRIVER)
    command = [compiler, "-shared", "-fPIC", "driver.c", "-o", "libcuda.so.1"]
    subprocess.run(command, check=True, cwd=tmp_path)
    library = ctypes.CDLL(str(tmp_path / "libcuda.so.1"))
    cuda = SimpleNamespace(
        init=lambda: None,
        synchronize=lambda: None,
        device_count=lambda: 1,
        current_stream=lambda: SimpleNamespace(cuda_stream=0),
        Stream=lambda: SimpleNamespace(cuda_stream=7, wait_event=nothing),
        stream=contextlib.nullcontext,
        Event=Event,
        memory=SimpleNamespace(_set_allocator_settings=nothing),
        _compile_kernel=lambda *_arguments: nothing,
    )
    monkeypatch.setattr(torch, "cuda", cuda)
    monkeypatch.setattr(torch, "set_default_device", nothing)
    monkeypatch.syspath_prepend(CHECK)
    monkeypatch.delitem(sys.modules, "probe_gpu", raising=False)
    import probe_gpu  # type: ignore[import-not-found,unused-ignore]  # found by the line above

    monkeypatch.setattr(probe_gpu, "_FLUSH_BYTES", 2**12)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    yield probe_gpu.Gpu()
    sys.modules.pop("probe_gpu")


@pytest.mark.parametrize("kind", ["plain", "expandable", "async"])
def test_memory_is_shared_by_the_handle_of_its_allocation_and_an_offset(gpu: Any, kind: str) -> None:
    gpu.open_and_fill(gpu.allocate(kind, 2**20), 77)
    assert gpu.first_byte() == 77


def test_memory_is_shared_by_a_descriptor(gpu: Any) -> None:
    created = gpu.create(2**20)
    assert created["size"] == 2**21
    gpu.import_and_fill(created["descriptor"], created["size"], 55)
    assert gpu.first_byte() == 55
    os.close(created["descriptor"])


@pytest.mark.parametrize("function", ["exported", "allocated", "await_value", "write_value"])
def test_memory_and_flags_are_those_of_the_harness(gpu: Any, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    def fail(*_: Any) -> None:
        raise NotShared(function)

    monkeypatch.setattr(GpuDriver, function, fail)
    step = {
        "exported": lambda: gpu.allocate("plain", 2**20),
        "allocated": lambda: gpu.create(2**20),
        "await_value": lambda: gpu.arm(1, "nothing"),
        "write_value": lambda: gpu.window(1),
    }
    with pytest.raises(NotShared, match=function):
        step[function]()


def test_a_window_gives_the_sign_and_the_armed_process_answers_with_the_flag(gpu: Any) -> None:
    gpu.open_signals(gpu.signals())
    for made in ("nothing", "response", "fmas"):
        gpu.arm(5, made)
    assert gpu.window(6) == 1000.0
    assert [int(gpu._signals[at]) for at in (0, 64)] == [6, 5]
    gpu.idle()


@pytest.mark.parametrize(("kind", "right"), [("memcpy2d", [1, 2]), ("memset", [3, 3]), ("kernel", [4, 4])])
def test_a_stream_of_its_own_copies_or_clears_memory(gpu: Any, kind: str, right: list[int]) -> None:
    gpu.signals()
    gpu.arm_stream(1, kind, 2**18)
    target = gpu._kept[-1]
    assert [int(target[at]) for at in (0, 2**16)] == right
    assert gpu.window_beside_kernel(2) == [1000.0, 1000.0]


def test_the_other_measurements_have_as_many_times_as_they_promise(gpu: Any) -> None:
    assert gpu.attributes()["gpus"] == 1
    assert {name: len(times) for name, times in gpu.copies(2**12).items()} == {"warm": 20, "cold": 20}
    assert gpu.fmas(3) == [1000.0] * 3
    gpu.busy(0.0)
