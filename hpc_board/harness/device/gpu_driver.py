"""Functions of NVIDIA's driver for GPU memory that two processes share, and for queues that wait for a flag in it.

A handle names an allocation of another process (CUDA C++ Programming Guide, "Interprocess Communication"). The flag is
a 32-bit number that a stream's queue writes or waits for without a kernel (CUDA Driver API, "Stream Memory
Operations").
"""

import ctypes

HANDLE_BYTES = 64
_LAZY_ENABLE_PEER_ACCESS = 1
_WAIT_EQUAL = 1


class NotShared(Exception):
    """GPU memory that cannot be shared, or a flag that cannot be waited for; the message names the driver's error."""


class _Handle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * HANDLE_BYTES),)


class GpuDriver:
    """The driver of an NVIDIA GPU, in a process that has a CUDA context.

    Raises:
        NotShared: this process has no such driver.
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
        except (OSError, AttributeError) as error:
            raise NotShared(f"no driver with memory for several processes: {error}") from None

    def exported(self, address: int) -> tuple[bytes, int]:
        """Return the handle of the allocation around an address, and the address's offset in it.

        Raises:
            NotShared: the driver cannot share this memory.
        """
        base, _ = self._allocation(address)
        handle = _Handle()
        self._check("cuIpcGetMemHandle", self._library.cuIpcGetMemHandle(ctypes.byref(handle), base))
        return bytes(handle), address - base

    def opened(self, handle: bytes) -> tuple[int, int]:
        """Map the allocation of a handle into this process; return its address and its size.

        Raises:
            NotShared: no other process has such an allocation.
        """
        base = ctypes.c_uint64()
        given = _Handle.from_buffer_copy(handle)
        error = self._library.cuIpcOpenMemHandle_v2(ctypes.byref(base), given, _LAZY_ENABLE_PEER_ACCESS)
        self._check("cuIpcOpenMemHandle", error)
        return self._allocation(base.value)

    def close(self, base: int) -> None:
        """Unmap an allocation that `opened` has mapped."""
        self._library.cuIpcCloseMemHandle(base)

    def await_value(self, stream: int, address: int, value: int) -> None:
        """Let the work that is queued on a stream from now on wait until the flag at an address has a value."""
        error = self._library.cuStreamWaitValue32_v2(stream, address, value, _WAIT_EQUAL)
        self._check("cuStreamWaitValue32", error)

    def write_value(self, stream: int, address: int, value: int) -> None:
        """Write the flag at an address once all work that is queued on a stream is done."""
        self._check("cuStreamWriteValue32", self._library.cuStreamWriteValue32_v2(stream, address, value, 0))

    def _allocation(self, address: int) -> tuple[int, int]:
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        error = self._library.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), address)
        self._check("cuMemGetAddressRange", error)
        return base.value, size.value

    @staticmethod
    def _check(function: str, error: int) -> None:
        if error:
            raise NotShared(f"{function} fails with error {error} of the CUDA driver")
