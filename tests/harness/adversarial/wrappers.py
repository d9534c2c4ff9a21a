"""Lies that go with any kernel: each wraps the `custom_kernel` of an honest submission in Python.

A wrapper is the text that is put behind the submission. It knows the harness as a reader of its source does.
"""

_HARNESS = """
import gc as _gc, os as _os, threading as _threading, time as _time
from hpc_board.harness.wire import payload as _payload
from hpc_board.harness.worker import worker as _worker
from hpc_board.harness.device.device import CpuDevice as _Cpu

_honest = custom_kernel
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
_run = _worker._Worker._run
def _short(self, frame, fds):
    if self._known is None or len(self._calls) < 2:
        return _run(self, frame, fds)
    outputs = [_honest(data) for data in self._data]
    self._holders += outputs
    addresses = self._known.addresses(outputs)
    if addresses is None:
        return _run(self, frame, fds)
    return {"type": "done", "call": frame["call"], "elapsed_ns": 1, "outputs": [], "held": [], "alike": addresses}
_worker._Worker._run = _short
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
        base = worker._bases[0]
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
