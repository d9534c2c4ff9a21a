"""Mode `sanitize`: the tools that look for faulty accesses, and the faults that they find."""

from hpc_board.model.value import Value

CUDA_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
"""The tools of NVIDIA's compute-sanitizer, one after the other."""

CPU_TOOL = "asan"
"""AddressSanitizer with UndefinedBehaviorSanitizer, for C++ on a CPU."""

SLOWDOWN = 4
"""The factor by which the time limits of mode `test` are longer under a tool."""

FINDINGS_MAX = 50
TEXT_CHARACTERS_MAX = 300


def tools_in(text: str) -> tuple[str, ...]:
    """Return the names in a list of tools with commas between."""
    return tuple(each.strip() for each in text.split(",")) if text else ()


class SanitizerFinding(Value):
    """A fault that a tool found `count` times in one place; each text may be empty.

    `kind` is the tool's own first line, `kernel` the kernel or function, `place` its "file:line", `thread` the first
    thread, `detail` its address or the other access. A `warning` does not fail a run.
    """

    tool: str
    kind: str
    kernel: str = ""
    place: str = ""
    thread: str = ""
    detail: str = ""
    count: int = 1
    warning: bool = False
