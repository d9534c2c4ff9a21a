"""The harness file for a simulated GPU: PyTorch's CPU tensors, in files that several processes map.

It shows the order of the frames and the copying of all bytes on a machine without a GPU. Work of a stream is done when
it is queued, and a worker that waits for a flag blocks, so that each call counts as one that waits for the GPU itself;
with `waiting=False` no worker waits, so that each call is queued at once and reads memory full of zeros. Times mean
nothing. `make gpu-check` has the real thing.
"""

from tests.harness.harness_file import Edit, edited

_DRIVER = '''
import ctypes, mmap, os, time

HANDLE_BYTES = 64
WAITING = True
NAME = "simulated"
ALLOCATIONS = {}


class NotShared(Exception):
    pass


class OutOfMemoryError(Exception):
    pass


def allocate(size):
    """Return a flat tensor of bytes in a file of its own."""
    import torch

    path = f"/dev/shm/{NAME}.{os.getpid()}.{len(ALLOCATIONS)}"
    memory = _map(path, max(size, 1))
    tensor = torch.frombuffer(memory, dtype=torch.uint8)[:size]
    ALLOCATIONS[tensor.data_ptr()] = (max(size, 1), path, memory)
    return tensor


def _map(path, size):
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if size:
            os.ftruncate(descriptor, size)
        return mmap.mmap(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


class GpuDriver:
    def __init__(self):
        self._opened = {}

    def exported(self, address):
        for base, (size, path, _) in ALLOCATIONS.items():
            if base <= address < base + size:
                return path.encode().ljust(HANDLE_BYTES, b" "), address - base
        raise NotShared("not shared")

    def opened(self, handle):
        try:
            memory = _map(handle.decode().strip(), 0)
        except (OSError, ValueError) as error:
            raise NotShared(f"not opened: {error}")
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._opened[base] = memory
        return base, len(memory)

    def close(self, base):
        self._opened.pop(base)

    def allocated(self, size):
        descriptor = os.memfd_create("pool")
        os.ftruncate(descriptor, size)
        return self.imported(descriptor, size), size, descriptor

    def imported(self, descriptor, size):
        memory = mmap.mmap(descriptor, size)
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._opened[base] = memory
        return base

    def free(self, address, size):
        self._opened.pop(address)

    def await_value(self, stream, address, value):
        flag = ctypes.c_uint32.from_address(address)
        if JUDGE:
            PENDING[:] = [(flag, value)]
            return
        while WAITING and flag.value != value:
            time.sleep(0.0001)

    def write_value(self, stream, address, value):
        ctypes.c_uint32.from_address(address).value = value


JUDGE = False
PENDING = []
"""The flag for which the judge's stream waits."""


def simulated():
    """Return PyTorch with a simulated GPU."""
    import torch
    from types import SimpleNamespace

    class Event:
        def __init__(self, enable_timing=True):
            self.at = 0

        def record(self, stream=None):
            self.at = time.perf_counter_ns()

        def synchronize(self):
            pass

        def query(self):
            return all(flag.value == value for flag, value in PENDING)

        def elapsed_time(self, end):
            return (end.at - self.at) / 1e6

    def empty(size, dtype=None, device=None):
        return allocate(size) if size < 2**26 else torch.empty(1, dtype=torch.uint8)

    def zeros(size, dtype=None, device=None):
        return allocate(size)

    def as_tensor(memory, device=None):
        found = memory.__cuda_array_interface__
        return torch.frombuffer((ctypes.c_char * found["shape"][0]).from_address(found["data"][0]), dtype=torch.uint8)

    names = ("bool", "uint8", "int64", "empty_like", "ne", "any", "mul", "nn")
    cuda = SimpleNamespace(
        Event=Event,
        synchronize=lambda: None,
        set_stream=lambda stream: None,
        default_stream=lambda: "default",
        current_stream=lambda: "default",
        get_device_properties=lambda index: SimpleNamespace(L2_cache_size=2**20),
    )
    return SimpleNamespace(
        cuda=cuda,
        version=SimpleNamespace(hip=None),
        Tensor=Tensor(torch),
        _C=torch._C,
        tensor=lambda values, dtype=None, device=None: torch.tensor(values, dtype=dtype),
        empty=empty,
        zeros=zeros,
        as_tensor=as_tensor,
        **{name: getattr(torch, name) for name in names},
    )


class Tensor:
    def __init__(self, torch):
        self._tensor = torch.Tensor

    def __getattr__(self, name):
        if name == "to":
            return lambda tensor, device: tensor
        return getattr(self._tensor, name)

    def clone(self, tensor):
        copy = allocate(tensor.numel() * tensor.element_size()).view(tensor.dtype).view(tensor.shape)
        copy.copy_(tensor)
        return copy
'''


def simulating(
    name: str,
    *,
    waiting: bool = True,
    change_ns_min: float = -1e9,
    scatter_ns_max: float = 1e12,
    output_share_max: float = 1e12,
    edits: tuple[Edit, ...] = (),
) -> bytes:
    """Return the harness file with a simulated GPU, whose memory lies in files of /dev/shm that begin with a name."""
    driver = _DRIVER.replace('NAME = "simulated"', f"NAME = {name!r}")
    driver = driver if waiting else driver.replace("WAITING = True", "WAITING = False")
    challenge = "_entropy.getrandbits(62)"
    return edited(
        (
            Edit("device/device.py", "    return CudaDevice(torch)", _OPENED),
            Edit("device/device.py", "    if not torch.cuda.is_available():", "    if False:"),
            Edit("device/device.py", '    torch.set_default_device("cuda")\n', ""),
            Edit("device/device.py", "_WARM_NS = 500_000_000", "_WARM_NS = 0"),
            Edit("measure/gpu_bench.py", "_STOPPED_SECONDS = 5.0", "_STOPPED_SECONDS = 1.0"),
            Edit("measure/gpu_worker.py", "_QUEUE_SECONDS = 0.25", f"_QUEUE_SECONDS = {0.02 if waiting else 5}"),
            Edit("measure/window_benchmarks.py", "_CHANGE_NS_MIN = 20_000.0", f"_CHANGE_NS_MIN = {change_ns_min}"),
            # Real time scatters by milliseconds, that of a GPU by less than a microsecond.
            Edit("measure/window_benchmarks.py", "_SHORT_NS = 20_000.0", "_SHORT_NS = 500_000_000.0"),
            Edit("measure/window_benchmarks.py", "SCATTER_NS_MAX = 5000.0", f"SCATTER_NS_MAX = {scatter_ns_max}"),
            Edit("measure/window_benchmarks.py", "_OUTPUT_SHARE_MAX = 0.1", f"_OUTPUT_SHARE_MAX = {output_share_max}"),
            Edit(
                "worker/worker.py",
                'sandbox.confine(frame["readable"], [frame["scratch"], *frame["writable"]], scoped=not traced)',
                "0",
            ),
            Edit(
                "judge/judge.py",
                'sandbox.confine_task(frame["readable"], frame["scratch"], frame["value_bytes"])',
                "_simulated_level()",
            ),
            Edit("judge/judge.py", "\n\nclass _Judge:", _LEVEL),
            Edit("judge/judge.py", '        if device.name == "cuda":', "        if False:"),
            Edit("device/gpu_window.py", f"= {challenge}", f"= {challenge if waiting else '0'}"),
            *edits,
        ),
        replaced={"device/gpu_driver.py": driver},
    )


_OPENED = """    from hpc_board.harness.device.gpu_driver import simulated

    device = CudaDevice(simulated())
    return device"""
_LEVEL = """


def _simulated_level() -> str:
    from hpc_board.harness.device import gpu_driver

    gpu_driver.JUDGE = True
    return "S0"


class _Judge:"""
