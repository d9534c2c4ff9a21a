"""The vectorization of a C++ submission: the compiler's remarks, and the instructions of its innermost loops.

A second compilation, after all measurements, has the options of the first and asks for remarks, which change no
instruction. Compiler and `objdump` read a participant's text, so they are confined, and their output, which
the source influences, is parsed strictly and bounded.
"""

import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from hpc_board.harness.build.builder import compiler_log, compiler_room, job_toolchain
from hpc_board.harness.build.toolchain import CRASH, HEADER, BuildFailed, command, header_text
from hpc_board.harness.files import write_files
from hpc_board.harness.job_spec import JobSpec
from hpc_board.harness.launcher import Processes
from hpc_board.model.files import open_regular
from hpc_board.model.kernels import LIBRARY
from hpc_board.model.loops import LOOPS_MAX, REMARKS_MAX, TEXT_CHARACTERS_MAX, Loop, Remark
from hpc_board.model.text import one_line

TOOL = "objdump"

_REMARKS = "-fopt-info-vec-optimized-missed=remarks"
_LISTED = "listing"
_BYTES_MAX = 32 * 2**20
_OVERLAPPING = 4
"""The most instructions of all loops of a function, as a multiple of its own: contrived loops overlap without end."""

_REMARK = re.compile(r"(?P<file>[^\s:]+):(?P<line>\d{1,6}):\d+: (?P<kind>optimized|missed): +(?P<text>.+)")
_VECTORIZED = re.compile(r"(?:loop|basic block part) vectorized using (\d+) byte vectors")
_FUNCTION = re.compile(r"[0-9a-f]+ <(.+)>:")
_PLACE = re.compile(r"(\S+):(\d{1,6})(?: \(discriminator \d+\))?")
_INSTRUCTION = re.compile(
    r" +([0-9a-f]+):\s+(?:(?:data16|cs|ds|lock|rep[nz]*|bnd|notrack) )*([a-z]\w*)(?:,p[nt])?\s*([^#<]*)"
)
_JUMP = re.compile(r"j[a-z]+")
_OF_FLOATS = r"(?:add|sub|mul|div|sqrt|max|min|hadd|hsub|addsub|dp|rcp(?:14|28)?|rsqrt(?:14|28)?|fn?m(?:add|sub)\w*)"
_VECTOR = re.compile(rf"v?{_OF_FLOATS}p[sdh]|v?p(?:add|sub|mul|madd|max|min|abs|sll|srl|sra|dp)\w*")
_SCALAR = re.compile(rf"v?{_OF_FLOATS}s[sdh]")
_NO_ACCESS = re.compile(r"lea\w*|nop\w*|prefetch\w*")
_READS = re.compile(r"cmp\w*|test\w*|u?comis\w|vu?comis\w|call\w*|jmp\w*|push\w*")
_WIDTHS = {"%zmm": 512, "%ymm": 256, "%xmm": 128}


def remarks_in(text: str, source: str) -> list[Remark]:
    """Return the remarks of g++ on a source: for each line the widest vectors, or the reason why there are none."""
    widest: dict[int, int] = {}
    missed: dict[int, str] = {}
    loop = 0
    for line in text.splitlines():
        found = _REMARK.fullmatch(line)
        if found is None or found["file"] != source:
            continue
        number, words = int(found["line"]), found["text"]
        if found["kind"] == "optimized":
            if vectorized := _VECTORIZED.fullmatch(words):
                widest[number] = max(widest.get(number, 0), int(vectorized[1]))
        elif words.startswith("couldn't vectorize loop"):
            loop = number
            missed.setdefault(number, "not vectorized")
        elif words.startswith("not vectorized: ") and missed.get(loop) == "not vectorized":
            place = f" (line {number})" if number != loop else ""
            missed[loop] = one_line(words.rstrip(" ;"), TEXT_CHARACTERS_MAX - len(place)) + place
    remarks = [Remark(number, True, f"vectorized with {size}-byte vectors") for number, size in widest.items()]
    remarks += [Remark(number, False, words) for number, words in missed.items() if number not in widest]
    return sorted(remarks, key=lambda each: each.line)[:REMARKS_MAX]


class Vectorization:
    """The remarks and the loops of one submission, and a `note` where they cannot be had."""

    def __init__(self, job: JobSpec, folder: Path, processes: Processes, deadline: float) -> None:
        self.loops: list[Loop] = []
        self.remarks: list[Remark] = []
        self.note = ""
        self._job = job
        self._folder = folder
        self._processes = processes
        self._deadline = deadline
        home = Path(tempfile.mkdtemp(prefix="loops-", dir=processes.scratch))
        try:
            self._compile(home)
            self._list(home)
        except BuildFailed as error:
            self.note = f"the loops were not analysed: {one_line(error.message, TEXT_CHARACTERS_MAX)}"
        except OSError as error:
            self.note = f"the loops were not analysed: {error.strerror or error}"
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def _compile(self, home: Path) -> None:
        """Compile once more, with remarks and lines."""
        job, source = self._job, self._job.submission
        code = (self._folder / "submission" / source).read_bytes()
        write_files(home, {source: code, HEADER: header_text().encode()})
        room = compiler_room(job, self._folder, home, (), self._processes)
        line = command(job_toolchain(job, room, self._processes), job.flags, source)
        # The handler of crashes has remarks of its own, which would replace those of the submission.
        self._run(home, [line[0], _REMARKS, *(word for word in line[1:] if word != CRASH)])
        self.remarks = remarks_in(_read(home / "remarks"), source)

    def _list(self, home: Path) -> None:
        """Have the library disassembled, if the node can."""
        tool = shutil.which(TOOL)
        if tool is None:
            self.note = f"{TOOL}, of GNU binutils, is not on this node's PATH: the loops have no count of instructions"
            return
        self._run(home, [tool, "-d", "-l", "-C", "--no-show-raw-insn", LIBRARY], home / _LISTED)
        self.loops = loops_in(_read(home / _LISTED), self._job.submission)

    def _run(self, home: Path, line: list[str], output: Path | None = None) -> None:
        limits = self._job.limits
        seconds = min(limits.build_seconds, max(1.0, self._deadline - time.monotonic()))
        job = replace(self._job, limits=replace(limits, build_seconds=seconds))
        room = compiler_room(job, self._folder, home, (), self._processes)
        compiler_log(job, room, self._processes, line, {}, output)


def _read(path: Path) -> str:
    with open_regular(path) as file:
        return file.read(_BYTES_MAX).decode("utf-8", "replace")


class _Instruction:
    """An instruction of a listing in the syntax of AT&T, whose last operand is the target."""

    def __init__(self, address: int, name: str, operands: str, line: int) -> None:
        self.address = address
        self.name = name
        self.line = line
        self.operands = operands.strip()
        self.to_memory = self.operands.endswith(")")

    @property
    def jumps_to(self) -> int | None:
        """Return the address to which a jump goes; None for other instructions."""
        if not _JUMP.fullmatch(self.name) or not re.fullmatch("[0-9a-f]{1,16}", self.operands):
            return None
        return int(self.operands, 16)

    @property
    def loads(self) -> bool:
        """Return whether it reads memory."""
        if "(" not in self.operands or _NO_ACCESS.fullmatch(self.name):
            return False
        moves = self.name.startswith(("mov", "vmov", "set", "vextract", "vcvtps2ph"))
        return not (self.to_memory and moves)

    @property
    def stores(self) -> bool:
        """Return whether it writes memory."""
        return self.to_memory and not _NO_ACCESS.fullmatch(self.name) and not _READS.fullmatch(self.name)


def loops_in(listing: str, source: str) -> list[Loop]:
    """Return the innermost loops of a source in a listing of x86-64 with lines: those with the most arithmetic."""
    found: dict[tuple[int, ...], Loop] = {}
    for function, body in _functions(listing, source):
        for part in _innermost(body):
            lines = sorted(each.line for each in part if each.line)
            if lines:
                loop = _counted(function, part, lines[0])
                found.setdefault(tuple(each.address for each in part), loop)
    most = sorted(found.values(), key=lambda each: -(each.vector_arithmetic + each.scalar_arithmetic))
    return sorted(most[:LOOPS_MAX], key=lambda each: each.line)


def _functions(listing: str, source: str) -> Iterator[tuple[str, list[_Instruction]]]:
    """Yield the functions of a listing; the line of an instruction from another file is 0."""
    name, body, line = "", list[_Instruction](), 0
    for text in listing.splitlines():
        if found := _FUNCTION.fullmatch(text):
            yield name, body
            name, body, line = found[1], [], 0
        elif found := _INSTRUCTION.match(text):
            body.append(_Instruction(int(found[1], 16), found[2], found[3], line))
        elif found := _PLACE.fullmatch(text):
            line = int(found[2]) if Path(found[1]).name == source else 0
    yield name, body


def _innermost(body: Sequence[_Instruction]) -> list[Sequence[_Instruction]]:
    """Return the parts of a function from the target of a jump to the jump that have no other such part."""
    index_of = {each.address: index for index, each in enumerate(body)}
    spans: dict[int, int] = {}
    for last, each in enumerate(body):
        first = index_of.get(-1 if each.jumps_to is None else each.jumps_to, last + 1)
        if first <= last:
            spans[first] = last
    returns = [0, *accumulate(each.name.startswith("ret") for each in body)]
    inner, least, left = list[Sequence[_Instruction]](), len(body), _OVERLAPPING * len(body)
    for first, last in sorted(spans.items(), reverse=True):
        # Code behind a return that jumps back into the function is no loop.
        if last < least and returns[first] == returns[last + 1] and last - first < left:
            inner.append(body[first : last + 1])
            least = last
            left -= last - first + 1
    return inner


def _counted(function: str, part: Sequence[_Instruction], line: int) -> Loop:
    vectors = [each for each in part if _VECTOR.fullmatch(each.name)]
    return Loop(
        line=line,
        function=one_line(function, TEXT_CHARACTERS_MAX),
        instructions=len(part),
        vector_arithmetic=len(vectors),
        scalar_arithmetic=sum(_SCALAR.fullmatch(each.name) is not None for each in part),
        loads=sum(each.loads for each in part),
        stores=sum(each.stores for each in part),
        vector_bits=max(
            (bits for each in vectors for name, bits in _WIDTHS.items() if name in each.operands), default=0
        ),
    )
