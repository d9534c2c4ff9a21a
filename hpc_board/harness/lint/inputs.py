"""The inputs of a test case as a file in the format safetensors, made by the task's own generator in the judge.

The format has the bytes of each tensor in row-major order behind a header in JSON. It has bfloat16 and float8, and
needs no library to write. The metadata `data` has the nesting, and the values that are no tensors.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

from hpc_board.harness.confine import sandbox
from hpc_board.harness.job_spec import facts
from hpc_board.harness.launcher import Processes, processes_for
from hpc_board.harness.processes.calls import CallFailed, judge_answer, public_seed
from hpc_board.harness.wire import payload
from hpc_board.harness.wire.payload import NESTS, Node, leaves_of
from hpc_board.harness.wire.replies import Filled, Generated
from hpc_board.model.inputs import INPUTS, INPUTS_FAULT
from hpc_board.model.task import CaseValue, case_text

_TYPES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}
_PIECE_BYTES = 2**20
_BLANKS = 8
"""The header's size is a multiple of this number."""


class _Unwritable(Exception):
    """The inputs have a part without a form in such a file."""


def write_inputs(path: Path, harness: Path, index: int) -> int:
    """Write the inputs of a test case beside the job file at `path`, and the reason if there are none."""
    sandbox.guard_supervisor()
    os.umask(0o077)
    job, folder, fault = facts(path), path.resolve().parent, ""
    with processes_for(job, folder, harness) as processes, (folder / "payload").open("w+b") as raw:
        try:
            _generate(processes, job.tests[index], job.limits.judge_seconds, raw)
            _write(raw, folder / INPUTS, case_text(job.tests[index]))
        except (CallFailed, _Unwritable, OSError) as error:
            fault = error.message if isinstance(error, CallFailed) else str(error)
    (folder / INPUTS_FAULT).write_text(json.dumps({"fault": fault}), encoding="utf-8")
    return 0


def _generate(processes: Processes, case: Mapping[str, CaseValue], seconds: float, raw: BinaryIO) -> None:
    processes.other_python = "with --python"
    processes.start()
    judge = processes.of_task("judge")
    processes.await_judge(judge)
    frame = {
        "type": "generate",
        "call": 1,
        "group": "test",
        "seed": public_seed(case),
        "case": dict(case),
        "fixed": None,
    }
    judge.send({**frame, "public": True})
    late, deadline = f"the task did not generate the inputs within {seconds:g} s", time.monotonic() + seconds
    os.ftruncate(raw.fileno(), judge_answer(judge, Generated, deadline, late).size)
    judge.send({"type": "fill", "calls": [1], "bases": [0], "cold": False}, [raw.fileno()])
    judge_answer(judge, Filled, deadline, late)


def _write(raw: BinaryIO, path: Path, case: str) -> None:
    """Write the file from a payload, which no code of the task can change any more."""
    with closing(payload.mapped(raw.fileno(), populated=False)) as memory:
        start, layout = payload.header(memory)
    tensors = [(place, leaf) for leaf, place in leaves_of(layout, "data") if leaf["k"] in ("tensor", "array")]
    head: dict[str, Any] = {"__metadata__": {"case": case, "data": json.dumps(_tree(layout, "data"))}}
    end = 0
    for place, leaf in tensors:
        if leaf["dtype"] not in _TYPES:
            raise _Unwritable(f"{place} is of the type {leaf['dtype']}, which safetensors files do not have")
        size = payload.leaf_bytes(leaf)
        head[place] = {"dtype": _TYPES[leaf["dtype"]], "shape": leaf["shape"], "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % _BLANKS)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, leaf in tensors:
            raw.seek(start + leaf["at"])
            for piece in _row_major(raw, leaf):
                file.write(piece)


def _row_major(raw: BinaryIO, leaf: Node) -> Iterator[bytes]:
    size = payload.leaf_bytes(leaf)
    if "order" in leaf:
        import numpy as np

        order = leaf["order"]
        words = np.frombuffer(raw.read(size), dtype=f"V{payload.ITEM_BYTES[leaf['dtype']]}")
        stored = words.reshape([leaf["shape"][axis] for axis in order])
        yield np.ascontiguousarray(stored.transpose(np.argsort(order))).tobytes()
        return
    for begin in range(0, size, _PIECE_BYTES):
        yield raw.read(min(_PIECE_BYTES, size - begin))


def _tree(node: Node, place: str) -> Any:
    """Return a layout as JSON: a list or an object for a nest, the name of a tensor, or a number or text as such."""
    kind = node["k"]
    if kind == "dict":
        return {
            str(key): _tree(item, f"{place}[{key!r}]") for key, item in zip(node["keys"], node["items"], strict=True)
        }
    if kind in NESTS:
        return [_tree(item, f"{place}[{index}]") for index, item in enumerate(node["items"])]
    if kind in ("tensor", "array"):
        return {"$tensor": place}
    if kind == "float":
        return float.fromhex(node["v"])
    if kind in ("bytes", "complex"):
        raise _Unwritable(f"{place} is {kind}, which JSON does not have")
    return node.get("v")
