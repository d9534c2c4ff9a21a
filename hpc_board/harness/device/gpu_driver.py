"""Functions of NVIDIA's driver for GPU memory that two processes share, and for queues that wait for a flag in it.

A handle names an allocation of another process (CUDA C++ Programming Guide, "Interprocess Communication"). It does not
cross from one process namespace to another; the file descriptor of an allocation that was made for it does (CUDA Driver
API, "Virtual Memory Management"). The flag is a 32-bit number that a stream's queue writes or waits for without a
kernel (CUDA Driver API, "Stream Memory Operations").
"""

import ctypes
import os
from typing import Any

HANDLE_BYTES = 64
_PINNED = _FILE_DESCRIPTOR = _DEVICE = 1
_READ_WRITE = 3
_LAZY_ENABLE_PEER_ACCESS = 1
_WAIT_EQUAL = 1
_OUT_OF_MEMORY = 2


class NotShared(Exception):
    """GPU memory that cannot be shared, or a flag that cannot be waited for; the message names the driver's error."""


class OutOfMemoryError(Exception):
    """The GPU has too little free memory."""


class _Handle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * HANDLE_BYTES),)


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("number", ctypes.c_int))


class _Properties(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("of_windows", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class GpuDriver:
    """The driver of an NVIDIA GPU, in a process that has a CUDA context.

    Raises:
        NotShared: this process has no such driver; so does each call that the driver refuses.
        OutOfMemoryError: so does a call for which too little memory is free.
    """

    def __init__(self) -> None:
        address, flag = ctypes.c_uint64, ctypes.c_uint32
        try:
            self._library = library = ctypes.CDLL("libcuda.so.1")
            library.cuMemGetAddressRange_v2.argtypes = [ctypes.c_void_p, ctypes.c_void_p, address]
            library.cuIpcGetMemHandle.argtypes = [ctypes.c_void_p, address]
            library.cuIpcOpenMemHandle_v2.argtypes = [ctypes.c_void_p, _Handle, ctypes.c_uint]
            library.cuIpcCloseMemHandle.argtypes = [address]
            library.cuStreamWaitValue32_v2.argtypes = [ctypes.c_void_p, address, flag, ctypes.c_uint]
            library.cuStreamWriteValue32_v2.argtypes = [ctypes.c_void_p, address, flag, ctypes.c_uint]
            library.cuMemAddressReserve.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, address, address]
            library.cuMemCreate.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, address]
            library.cuMemExportToShareableHandle.argtypes = [ctypes.c_void_p, address, ctypes.c_int, address]
            library.cuMemImportFromShareableHandle.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
            library.cuMemMap.argtypes = [address, ctypes.c_size_t, ctypes.c_size_t, address, address]
            library.cuMemSetAccess.argtypes = [address, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t]
            for name in ("cuMemUnmap", "cuMemAddressFree"):
                getattr(library, name).argtypes = [address, ctypes.c_size_t]
            library.cuMemRelease.argtypes = [address]
        except (OSError, AttributeError) as error:
            raise NotShared(f"no driver with memory for several processes: {error}") from None

    def exported(self, address: int) -> tuple[bytes, int]:
        """Return the handle of the allocation around an address, and the address's offset in it."""
        base, _ = self._allocation(address)
        handle = _Handle()
        self._call("cuIpcGetMemHandle", ctypes.byref(handle), base)
        return bytes(handle), address - base

    def opened(self, handle: bytes) -> tuple[int, int]:
        """Map the allocation of a handle into this process; return its address and its size."""
        base = ctypes.c_uint64()
        given = _Handle.from_buffer_copy(handle)
        self._call("cuIpcOpenMemHandle_v2", ctypes.byref(base), given, _LAZY_ENABLE_PEER_ACCESS)
        return self._allocation(base.value)

    def close(self, base: int) -> None:
        """Unmap an allocation that `opened` has mapped."""
        self._library.cuIpcCloseMemHandle(base)

    def allocated(self, size: int) -> tuple[int, int, int]:
        """Allocate memory for another process; return its address, its size and a file descriptor of it."""
        properties = _Properties(_PINNED, _FILE_DESCRIPTOR, _Location(_DEVICE, 0))
        step, handle, descriptor = ctypes.c_size_t(), ctypes.c_uint64(), ctypes.c_int()
        described = ctypes.byref(properties)
        self._call("cuMemGetAllocationGranularity", ctypes.byref(step), described, 0)
        size = -(-size // step.value) * step.value
        self._call("cuMemCreate", ctypes.byref(handle), size, described, 0)
        try:
            exported = ctypes.byref(descriptor)
            self._call("cuMemExportToShareableHandle", exported, handle, _FILE_DESCRIPTOR, 0)
            try:
                return self._mapped(handle, size), size, descriptor.value
            except BaseException:
                os.close(descriptor.value)
                raise
        finally:
            # The mapping and the descriptor keep the memory.
            self._library.cuMemRelease(handle)

    def imported(self, descriptor: int, size: int) -> int:
        """Map the memory at a descriptor, of this size, into this process; return its address."""
        handle = ctypes.c_uint64()
        self._call("cuMemImportFromShareableHandle", ctypes.byref(handle), descriptor, _FILE_DESCRIPTOR)
        try:
            return self._mapped(handle, size)
        finally:
            self._library.cuMemRelease(handle)

    def _mapped(self, handle: ctypes.c_uint64, size: int) -> int:
        address, access = ctypes.c_uint64(), _Access(_Location(_DEVICE, 0), _READ_WRITE)
        self._call("cuMemAddressReserve", ctypes.byref(address), size, 0, 0, 0)
        try:
            self._call("cuMemMap", address, size, 0, handle, 0)
            self._call("cuMemSetAccess", address, size, ctypes.byref(access), 1)
        except BaseException:
            self.free(address.value, size)
            raise
        return address.value

    def free(self, address: int, size: int) -> None:
        """Unmap memory that `allocated` or `imported` has mapped."""
        self._library.cuMemUnmap(address, size)
        self._library.cuMemAddressFree(address, size)

    def await_value(self, stream: int, address: int, value: int) -> None:
        """Let the work that is queued on a stream from now on wait until the flag at an address has a value."""
        self._call("cuStreamWaitValue32_v2", stream, address, value, _WAIT_EQUAL)

    def write_value(self, stream: int, address: int, value: int) -> None:
        """Write the flag at an address once all work that is queued on a stream is done."""
        self._call("cuStreamWriteValue32_v2", stream, address, value, 0)

    def _allocation(self, address: int) -> tuple[int, int]:
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        self._call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), address)
        return base.value, size.value

    def _call(self, function: str, *arguments: Any) -> None:
        error = getattr(self._library, function)(*arguments)
        function = function.removesuffix("_v2")
        if error == _OUT_OF_MEMORY:
            raise OutOfMemoryError(f"{function}: out of memory")
        if error:
            raise NotShared(f"{function} fails with error {error} of the CUDA driver")
