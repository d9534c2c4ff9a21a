"""Mode `sanitize`: the test cases under compute-sanitizer on CUDA, under AddressSanitizer for C++ on a CPU.

A tool writes the faults into files, but UndefinedBehaviorSanitizer prints them, since its library has no name of a file
beside AddressSanitizer's. Where a tool works within the submission's process, that may hide or invent faults of its
own: nothing of this mode is ranked. The forms of compute-sanitizer's output are those of its documentation, not
measured.
"""

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from hpc_board.harness.processes.output import output_of
from hpc_board.harness.profile.profilers import Unusable
from hpc_board.model.files import open_regular
from hpc_board.model.sanitizer import FINDINGS_MAX, TEXT_CHARACTERS_MAX, SanitizerFinding
from hpc_board.model.text import one_line, printable

LOG_BYTES_MAX = 2 * 2**20

_LOG_FILES_MAX = 20
_ASK_SECONDS = 30
_PRINT_LIMIT = 100
_PROGRAM = "compute-sanitizer"


@dataclass(frozen=True)
class Tool:
    """A tool: the command in front of a worker, whether the worker has to be `traced`, and how its logs are read.

    `command` takes the path of the log; a tool within the worker's process writes one for each process, whose name has
    an ending. `done` is a part of the log of a tool that worked to its end.
    """

    name: str
    command: Callable[[Path], Sequence[str]]
    parse: Callable[[str, str], Iterator[SanitizerFinding]]
    traced: bool
    done: str = ""


def cuda_tool(name: str, environ: Mapping[str, str]) -> Tool:
    """Return a tool of compute-sanitizer.

    Raises:
        Unusable: the node has no compute-sanitizer.
    """
    if shutil.which(_PROGRAM, path=environ.get("PATH")) is None:
        raise Unusable(_missing(_PROGRAM))
    # A tensor within a larger block of PyTorch's allocator would have no end that a tool knows.
    command = ["env", "PYTORCH_NO_CUDA_MEMORY_CACHING=1", _PROGRAM, "--tool", name, "--print-limit", str(_PRINT_LIMIT)]
    command += ["--show-backtrace", "no"]
    # PyTorch probes for functions of the driver that fail; a failed call of a kernel is told by its case.
    command += ["--report-api-errors", "no"] if name == "memcheck" else []
    return Tool(
        name,
        lambda log: [*command, "--log-file", str(log)],
        _of_compute_sanitizer,
        traced=True,
        done=" SUMMARY: ",
    )


def cpu_tool(name: str, environ: Mapping[str, str]) -> Tool:
    """Return AddressSanitizer, whose library has to be loaded before the interpreter.

    Raises:
        Unusable: the compiler has no such library.
    """
    library = output_of(["g++", "-print-file-name=libasan.so"], _ASK_SECONDS, environ).strip()
    # The compiler repeats the name of a library that it does not have.
    if not library.startswith("/"):
        raise Unusable(_missing("libasan.so of g++"))
    options = "detect_leaks=0:halt_on_error=0:detect_stack_use_after_return=1"
    return Tool(
        name,
        lambda log: ["env", f"LD_PRELOAD={library}", f"ASAN_OPTIONS={options}:log_path='{log}'"],
        _of_asan,
        traced=False,
    )


def _missing(what: str) -> str:
    return f"this node has no {what}, which mode sanitize needs; `modules` and `env` of the GPU in the settings add it"


def logged(log: Path) -> tuple[str, bool]:
    """Return the contents of a tool's logs, which a submission may have written, and whether a part is left out."""
    data = b""
    try:
        paths = [*islice(log.parent.glob(f"{log.name}*"), _LOG_FILES_MAX + 1)]
        for path in paths[:_LOG_FILES_MAX]:
            with open_regular(path) as file:
                data += file.read(LOG_BYTES_MAX + 1 - len(data))
    except OSError:
        return "", True
    text = data[:LOG_BYTES_MAX].decode("utf-8", "replace")
    return printable(text, len(text)), len(data) > LOG_BYTES_MAX or len(paths) > _LOG_FILES_MAX


def findings(tool: Tool, text: str) -> tuple[SanitizerFinding, ...]:
    """Return the faults that a tool has found, each once with its count, and its warnings behind them."""
    found: dict[tuple[bool, str, str, str], SanitizerFinding] = {}
    for each in tool.parse(tool.name, text):
        key = (each.warning, each.kind, each.kernel, each.place)
        found[key] = replace(found[key], count=found[key].count + 1) if key in found else each
    return tuple(sorted(found.values(), key=lambda each: each.warning)[:FINDINGS_MAX])


_AT = re.compile(r"at (?P<kernel>[^\n]{1,2000}?)(?:\+|:)0x[0-9a-f]{1,16}(?: in (?P<place>\S{1,300}:\d{1,9}))?(?:$| \[)")
_AT_OFFSET = re.compile(r"at 0x[0-9a-f]{1,16} in (?:(?P<place>\S{1,300}?:\d{1,9})(?::|$))?(?P<kernel>[^\n]{0,2000})")
_RACE = re.compile(r"Race reported between \w+ access")
_SUMMARY = re.compile(r"ERROR SUMMARY: [1-9]\d{0,9} errors?|RACECHECK SUMMARY: [^\n]{0,100}\([1-9]\d{0,9} errors?\b")


def _of_compute_sanitizer(tool: str, text: str) -> Iterator[SanitizerFinding]:
    """Yield the faults in the output of compute-sanitizer: blocks of a line and the indented ones below it."""
    blocks: list[list[str]] = []
    summary = ""
    for line in text.splitlines():
        match = re.fullmatch(r"={8,9}(?: ( *)(\S.*))?", line)
        if match is None:
            continue
        if match[2] is None:
            blocks.append([])
        elif match[1] and blocks:
            blocks[-1].append(match[2])
        else:
            blocks.append([match[2]])
            counted = _SUMMARY.match(match[2])
            summary = _cut(match[2]) if counted else summary
    found = [finding for block in blocks if (finding := _of_block(tool, block)) is not None]
    yield from found
    if summary and all(finding.warning for finding in found):
        # A fault that this version of the tool words in another way.
        yield SanitizerFinding(tool, summary)


def _of_block(tool: str, block: Sequence[str]) -> SanitizerFinding | None:
    """Return the fault of a block; None if it is another message."""
    if not block:
        return None
    level, _, first = block[0].partition(": ") if block[0].startswith(("Error: ", "Warning: ")) else ("", "", block[0])
    race = _RACE.match(first)
    places = [line for line in (first, *block[1:]) if " at " in f" {line}"]
    at = next((found for line in places if (found := _AT_OFFSET.search(line) or _AT.search(line))), None)
    if race is None and at is None:
        return None
    thread = next((line for line in block[1:] if line.startswith("by thread ")), "")
    details = [line for line in block[1:] if re.match(r"(?:Address|Access|and) ", line)]
    return SanitizerFinding(
        tool,
        _cut(race[0] if race else first),
        _cut(at["kernel"] if at else ""),
        _cut((at["place"] or "") if at else ""),
        _cut(thread.removeprefix("by ")),
        _cut(" ".join(details)),
        warning=level == "Warning",
    )


_ASAN = re.compile(r"^==\d+==ERROR: AddressSanitizer: (?P<kind>[a-zA-Z-]{1,60})(?P<rest>[^\n]*)$", re.MULTILINE)
_ACCESS = re.compile(
    r"^(?P<access>(?:READ|WRITE) of size \d{1,9}) at [^\n]*? thread (?P<thread>T\d{1,6})", re.MULTILINE
)
_FRAME = re.compile(
    r"^    #\d+ 0x[0-9a-f]+ in (?P<kernel>[^\n]{1,1000}?) (?:/[^\s:]*/)?(?P<place>[^\s:/]+:\d+)", re.MULTILINE
)
_LOCATED = re.compile(r"^0x[0-9a-f]+ is located [^\n]*", re.MULTILINE)
_UBSAN = re.compile(r"^(?:/?[^\s:]*/)?(?P<place>[^\s:/]+:\d+):\d+: runtime error: (?P<kind>[^\n]*)$", re.MULTILINE)


def _of_asan(tool: str, text: str) -> Iterator[SanitizerFinding]:
    """Yield the faults in the output of AddressSanitizer and of UndefinedBehaviorSanitizer."""
    heads = [*_ASAN.finditer(text)]
    ends = [*(each.start() for each in heads[1:]), len(text)]
    for head, end in zip(heads, ends, strict=False):
        body = text[head.end() : end]
        access, frame, located = _ACCESS.search(body), _FRAME.search(body), _LOCATED.search(body)
        yield SanitizerFinding(
            tool,
            _cut(", ".join(filter(None, (head["kind"], access["access"] if access else "")))),
            _cut(frame["kernel"] if frame else ""),
            _cut(frame["place"] if frame else ""),
            f"thread {access['thread']}" if access else "",
            # An address differs from call to call.
            _cut(re.sub(r"^0x[0-9a-f]+ is |(?<=region) \[[^\]]*\]", "", located[0]) if located else ""),
        )
    for match in _UBSAN.finditer(text):
        yield SanitizerFinding(tool, _cut(match["kind"]), place=_cut(match["place"]))


def _cut(text: str) -> str:
    return one_line(text, TEXT_CHARACTERS_MAX)
