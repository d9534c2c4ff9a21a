"""The calls of NVIDIA's driver, against a library in its place: their order, and each argument's size."""

import ctypes
import mmap
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hpc_board.harness.device.gpu_driver import GpuDriver

DRIVER = r"""
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int CUresult;
typedef uint64_t CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUstream_st *CUstream;
typedef struct { char reserved[64]; } CUipcMemHandle;
typedef struct { int type, id; } CUmemLocation;
typedef struct { int type, requestedHandleTypes; CUmemLocation location; void *win32HandleMetaData; uint64_t allocFlags; } CUmemAllocationProp;
typedef struct { CUmemLocation location; int flags; } CUmemAccessDesc;
typedef int CUmemAllocationHandleType, CUmemAllocationGranularity_flags;
typedef uint32_t cuuint32_t;
#define cuMemGetAddressRange cuMemGetAddressRange_v2
#define cuIpcOpenMemHandle cuIpcOpenMemHandle_v2
#define cuStreamWaitValue32 cuStreamWaitValue32_v2
#define cuStreamWriteValue32 cuStreamWriteValue32_v2

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
"""  # noqa: E501 - C in the width of its declarations


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GpuDriver:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "driver.c").write_text(DRIVER)
    command = [compiler, "-shared", "-fPIC", "driver.c", "-o", "libcuda.so.1"]
    subprocess.run(command, check=True, cwd=tmp_path)
    library = ctypes.CDLL(str(tmp_path / "libcuda.so.1"))
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    return GpuDriver()


def test_memory_is_shared_by_the_handle_of_its_allocation_and_an_offset(driver: GpuDriver) -> None:
    handle, offset = driver.exported(2**40 + 24)
    assert offset == 24
    assert driver.opened(handle) == (2**40, 2**20)
    driver.close(2**40)


def test_memory_is_shared_by_a_descriptor(driver: GpuDriver) -> None:
    address, size, descriptor = driver.allocated(2**20)
    assert size == 2**21
    other = driver.imported(descriptor, size)
    ctypes.memset(address + mmap.PAGESIZE, 55, 1)
    assert ctypes.string_at(other + mmap.PAGESIZE, 1) == bytes([55])
    driver.free(address, size)
    driver.free(other, size)
    os.close(descriptor)


def test_a_stream_waits_for_a_flag_and_writes_one(driver: GpuDriver) -> None:
    flag = ctypes.c_uint32()
    driver.await_value(0, ctypes.addressof(flag), 6)
    driver.write_value(0, ctypes.addressof(flag), 5)
    assert flag.value == 5
