"""Lies that go with any kernel: each wraps the `custom_kernel` of an honest submission in Python.

A wrapper is the text that is put behind the submission. It knows the harness as a reader of its source does.
"""

_HARNESS = """
import ctypes as _ctypes, gc as _gc, json as _json, mmap as _mmap, os as _os, socket as _socket
import sys as _sys, threading as _threading, time as _time
from hpc_board.harness.wire import payload as _payload
from hpc_board.harness.worker import worker as _worker
from hpc_board.harness.device.device import CpuDevice as _Cpu

_honest = custom_kernel
_run = _worker._Worker._run

def _is_row(worker):
    return worker._row["blocks"] and worker._row["made_so"]

def _tensors(value):
    if isinstance(value, (list, tuple)):
        return [each for part in value for each in _tensors(part)]
    return [value] if hasattr(value, "shape") else []

def _address(value):
    return value.data_ptr() if hasattr(value, "data_ptr") else value.ctypes.data

def _named(number, addresses):
    return {"type": "done", "call": number, "elapsed_ns": 1, "outputs": [], "blocks": addresses}

def _lying(lie):
    # Rows are answered by `lie`, which is given the worker and the number of the call.
    def run(self, number, fds):
        if not _is_row(self):
            return _run(self, number, fds)
        if not self._calls:
            self._lay_out()
        return lie(self, number)
    _worker._Worker._run = run

def _moved(make):
    # Each answer is copied to memory that `make` returns for a size in bytes.
    def move(value):
        if isinstance(value, (list, tuple)):
            return type(value)(map(move, value))
        torch, memory = _sys.modules.get("torch"), make(max(1, value.nbytes))
        if torch is not None and isinstance(value, torch.Tensor):
            flat = torch.frombuffer(memory, dtype=torch.uint8)[:value.nbytes].view(value.dtype)
            return flat.reshape(value.shape).copy_(value)
        import numpy
        flat = numpy.frombuffer(memory, dtype=value.dtype)[:value.size].reshape(value.shape)
        flat[...] = value
        return flat
    return lambda data: move(_honest(data))
"""

WRAPPERS: dict[str, str] = {
    "claims a nanosecond": """
_timed = _Cpu.timed
_Cpu.timed = lambda self, call, shown, *, cold: (_timed(self, call, shown, cold=cold)[0], 1.0)
""",
    "slows the clocks of its process": """
for _name in ("perf_counter_ns", "monotonic_ns", "time_ns", "process_time_ns"):
    setattr(_time, _name, (lambda clock, start: lambda: start + (clock() - start) // 20)(*(
        lambda clock: (clock, clock()))(getattr(_time, _name))))
""",
    "skips the harness around its calls": """
def _short(self, number):
    outputs = [_honest(data) for data in self._data]
    self._returned = outputs
    return _named(number, [_address(each) for value in outputs for each in _tensors(value)])
_lying(_short)
""",
    "answers a row by a message of its own": """
def _until(last, worker, channel):
    ready = None
    while True:
        message, control, *_ = channel._socket.recvmsg(65536, 1024, 0x40000000)
        if not message:
            raise _worker.ChannelClosed
        if ready is not None and message.startswith(b'{"type": "run"'):
            outputs = list(map(_honest, ready))
            named = ",".join(str(_address(each)) for value in outputs for each in _tensors(value))
            number = message[message.index(b"call") + 6:-1]
            worker._returned = outputs
            channel._socket.send(b'{"type": "done", "call":%b, "elapsed_ns": 1, "outputs": [], "blocks": [%b]}'
                                 % (number, named.encode()))
            ready = None
            continue
        frame, fds = _json.loads(message), [each for *_, data in control for each in memoryview(data).cast("i")]
        if frame["type"] == last:
            return
        channel.send(worker.answer(frame, fds))
        if frame["type"] == "map":
            ready = worker._data if _is_row(worker) and worker._data else None
_worker._answer_until = _until
""",
    "names its inputs as its answers": """
_lying(lambda self, number: _named(number, [
    [_address(each) for each in _tensors(data)][k % len(_tensors(data))]
    for data in self._data for k, _ in enumerate(_payload.leaves_of(self._row["form"]))]))
""",
    "names parts of its inputs as parts of its answers": """
_lying(lambda self, number: _named(number, [
    _address(each) + 64 * k for data in self._data for each in _tensors(data) for k in range(4)]))
""",
    "names a second mapping of its inputs": """
def _second(self, number):
    size, begin = len(self._arena.map()), _ctypes.addressof(_ctypes.c_char.from_buffer(self._arena.map()))
    again = _mmap.mmap(self._arena.descriptor, size, _mmap.MAP_PRIVATE)
    self._returned = [again]
    moved = _ctypes.addressof(_ctypes.c_char.from_buffer(again)) - begin
    return _named(number, [
        moved + _address(_tensors(data)[k % len(_tensors(data))])
        for data in self._data for k, _ in enumerate(_payload.leaves_of(self._row["form"]))])
_lying(_second)
""",
    "names one answer for all calls": """
def _one(self, number):
    outputs = [_honest(data) for data in self._data]
    self._returned = outputs
    return _named(number, [_address(each) for each in _tensors(outputs[-1])] * len(outputs))
_lying(_one)
""",
    "names fewer answers than calls": """
def _fewer(self, number):
    outputs = [_honest(data) for data in self._data[1:]]
    self._returned = outputs
    return _named(number, [_address(each) for value in outputs for each in _tensors(value)])
_lying(_fewer)
""",
    "writes answers with a gap in place of a row's blocks": """
def _gaps(self, number):
    outputs, places, end, room = [_honest(data) for data in self._data], [], 0, self._room.descriptor
    for value in outputs:
        laid = _payload.laid_out(value, 2**40)
        head, start = _payload.head(_json.dumps(laid.layout).replace('"at": 0', '"at": 104857600').encode())
        _os.ftruncate(room, end + 2**27)
        _os.pwrite(room, head, end)
        for each in _tensors(value):
            _payload.write_at(room, end + start + 104857600, _payload._bytes_of(each, _sys.modules["torch"])
                              if hasattr(each, "data_ptr") else each)
        places.append([end, start + 104857600 + sum(each.nbytes for each in _tensors(value))])
        end += 2**27
    return {"type": "done", "call": number, "elapsed_ns": 1, "outputs": places, "blocks": []}
_lying(_gaps)
""",
    "returns views with gaps": """
def custom_kernel(data):
    def gapped(value):
        if isinstance(value, (list, tuple)):
            return type(value)(map(gapped, value))
        torch = _sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            return torch.stack([value, value], -1)[..., 0]
        import numpy
        return numpy.stack([value, value], -1)[..., 0]
    return gapped(_honest(data))
""",
    "returns its answers in a file": """
import tempfile as _tempfile
def _file(size):
    with _tempfile.TemporaryFile() as file:
        file.truncate(size)
        return _mmap.mmap(file.fileno(), size)
custom_kernel = _moved(_file)
""",
    "returns its answers in shared memory": """
custom_kernel = _moved(lambda size: _mmap.mmap(-1, size, _mmap.MAP_SHARED | _mmap.MAP_ANONYMOUS))
""",
    "answers with more and more bytes": """
_sizes = iter(range(1, 10**6))
def custom_kernel(data):
    def longer(value):
        if isinstance(value, (list, tuple)):
            return type(value)(map(longer, value))
        torch, more = _sys.modules.get("torch"), next(_sizes)
        if torch is not None and isinstance(value, torch.Tensor):
            return torch.nn.functional.pad(value.reshape(-1).double(), (0, more)).to(value.dtype)
        import numpy
        return numpy.pad(value.reshape(-1), (0, more))
    return longer(_honest(data))
""",
    "overlaps the calls of a row": """
from concurrent.futures import ThreadPoolExecutor as _Executor
_pool, _answers = _Executor(len(_os.sched_getaffinity(0))), {}
def _row():
    return next(each for each in _gc.get_objects() if type(each) is _worker._Worker)._data
def custom_kernel(data):
    if not _answers:
        inputs = _row()
        if len(inputs) < 2:
            return _honest(data)
        _answers.update(zip(map(id, inputs), _pool.map(_honest, inputs)))
    return _answers.pop(id(data)) if id(data) in _answers else _honest(data)
""",
    "does all calls of a row in the first one": """
_answers = {}
def _row():
    return next(each for each in _gc.get_objects() if type(each) is _worker._Worker)._data
def custom_kernel(data):
    if not _answers:
        _answers.update((id(each), _honest(each)) for each in _row())
    return _answers.pop(id(data)) if id(data) in _answers else _honest(data)
""",
    "is slow at first": """
_calls = [0]
def custom_kernel(data):
    _calls[0] += 1
    if _calls[0] < 8:
        _time.sleep(0.05)
    return _honest(data)
""",
    "has another thread begin when the process is let go on": """
_seen = [None]
_begun = {}
def _first():
    workers = [each for each in _gc.get_objects() if type(each) is _worker._Worker]
    return workers[0] if workers else None
def _watch():
    worker = None
    while True:
        worker = worker or _first()
        data = worker._data if worker else None
        if not data or id(data[0]) == _seen[0] or worker._arena is None:
            _time.sleep(0.0001)
            continue
        base = worker._row["bases"][0]
        before = bytes(worker._arena.map()[base:base + 65536])
        _time.sleep(0.0001)
        if bytes(worker._arena.map()[base:base + 65536]) != before:
            _seen[0] = id(data[0])
            _begun[id(data[0])] = _honest(data[0])
_threading.Thread(target=_watch, daemon=True).start()
def custom_kernel(data):
    return _begun.pop(id(data)) if id(data) in _begun else _honest(data)
""",
    "has its first thread wait while another one computes": """
import queue as _queue
_asked, _answered, _busy = _queue.SimpleQueue(), _queue.SimpleQueue(), _threading.Event()
def _compute():
    while True:
        _answered.put(_honest(_asked.get()))
def _hog():
    import hashlib
    while _busy.wait():
        hashlib.pbkdf2_hmac("sha256", b"nothing", b"salt", 500)
for _each in (_compute, *[_hog] * 2 * len(_os.sched_getaffinity(0))):
    _threading.Thread(target=_each, daemon=True).start()
def custom_kernel(data):
    _asked.put(data)
    _busy.set()
    while _answered.empty():
        _time.sleep(0)
    _busy.clear()
    return _answered.get()
""",
    "returns the same memory each time": """
_buffers = {}
def custom_kernel(data):
    answer = _honest(data)
    kept = _buffers.setdefault(tuple(answer.shape), answer)
    kept[...] = answer
    return kept
""",
    "finishes the end when it has answered": """
_late = []
def _finish():
    while True:
        if _late:
            output, answer = _late.pop()
            output[...] = answer
        _time.sleep(0)
_threading.Thread(target=_finish, daemon=True).start()
def custom_kernel(data):
    answer = _honest(data)
    output = answer.clone() if hasattr(answer, "clone") else answer.copy()
    output.reshape(-1)[-16:] = 0
    _late.append((output, answer))
    return output
""",
    "remembers answers by the first numbers of the input": """
_known = {}
def _key(data):
    parts = data if isinstance(data, (tuple, list)) else [data]
    return tuple(next(each for each in parts if hasattr(each, "reshape")).reshape(-1)[:16].tolist())
def custom_kernel(data):
    key = _key(data)
    if key not in _known:
        _known[key] = _honest(data)
    return _known[key]
""",
}


def wrapped(source: str, wrapper: str) -> str:
    """Return an honest submission with a lie around it."""
    return f"{source}\n{_HARNESS}\n{WRAPPERS[wrapper]}"
