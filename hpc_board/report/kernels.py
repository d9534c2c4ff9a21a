"""The kernels of a profile as words: a line for each, and a table of two submissions."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from hpc_board.domain.comparison import KernelPair
from hpc_board.model.kernels import METRICS, Kernel
from hpc_board.model.loops import Loop, Remark
from hpc_board.model.score import duration_text, figures
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Bar, Bars, Block, Column, Paragraph, Table, table
from hpc_board.report.formatting import count_text
from hpc_board.report.plain import cut

if TYPE_CHECKING:
    from hpc_board.report.views.results import KernelView, LoopView

_LINES_MAX = 8
_BAR_NAME_MAX, _NAME_MAX = 40, 60
_WHOLE = 0.995

_NAMES: Mapping[str, str] = {
    "duration_ns": "time of a launch",
    "time_share": "share of the time",
    "dram_share": "of DRAM",
    "sm_share": "of SM",
    "tensor_share": "of tensor cores",
    "occupancy": "occupancy",
    "registers": "registers",
    "static_shared_bytes": "static shared memory",
    "dynamic_shared_bytes": "dynamic shared memory",
    "spills": "spill instructions",
}


def kernel_lines(kernels: Sequence[Kernel], where: str = "", *, with_rest: bool = True) -> Iterator[Block]:
    """Yield one paragraph with a line for each of the longest kernels of each case; `where` has all numbers.

    Functions with shares of the time alone, as on a CPU, are followed by the share of all others `with_rest`.
    """
    if not kernels:
        return
    cases, lines, rest = _by_case(kernels), [], 0
    for case, found in cases.items():
        shown = found[: max(1, _LINES_MAX // len(cases))]
        place = f"case {case + 1}, " if len(cases) > 1 else ""
        lines += [f"{place}{cut(one_line(each.name), _NAME_MAX, middle=True)}: {numbers_text(each)}" for each in shown]
        if all(each.duration_ns is None and each.time_share is not None for each in found):
            if with_rest:
                others = 1 - math.fsum(each.time_share or 0 for each in shown)
                lines.append(f"{place}others: {_text('time_share', max(0.0, others))} of the time")
        else:
            rest += len(found) - len(shown)
    more = [f"{rest:,} more in the profile{where}"] if rest else []
    yield Paragraph("\n".join([*lines, *more]))


def kernel_bars(kernels: Sequence[Kernel]) -> Iterator[Bars]:
    """Yield the bars of the longest kernels of each case, by their shares of its profiled time.

    There are none where these are unknown, or each case has one kernel that took all of the time.
    """
    cases, rows = _by_case(kernels), list[Bar]()
    for case, found in cases.items():
        for index, each in enumerate(found[: max(1, _LINES_MAX // len(cases))]):
            group = f"case {case + 1}" if len(cases) > 1 and not index else ""
            if share := each.time_share:
                name = cut(one_line(each.name), _BAR_NAME_MAX, middle=True)
                rows.append(Bar(name, _text("time_share", share), share, group=group))
    if any(bar.share < _WHOLE for bar in rows):
        yield Bars("Share of the profiled time", tuple(rows))


def kernel_numbers(kernels: Sequence[Kernel]) -> Iterator[Table]:
    """Yield a table of the longest kernels of each case, if a profiler with counters measured them."""
    cases = _by_case(kernels)
    rows = [each for found in cases.values() for each in found[: max(1, _LINES_MAX // len(cases))]]
    if all(each.dram_share is None and each.registers is None for each in rows):
        return

    def number(title: str, key: str, leaves: int = 0) -> tuple[Column, Callable[[Kernel], str]]:
        def cell(kernel: Kernel) -> str:
            return "" if (value := getattr(kernel, key)) is None else _text(key, value)

        return Column(title, right=True, optional=True, leaves=leaves), cell

    yield table(
        rows,
        (Column("Case", right=True), lambda kernel: str(kernel.case + 1)) if len(cases) > 1 else None,
        (Column("Kernel", flexible=True, middle=True, least=24), lambda kernel: one_line(kernel.name)),
        number("Time", "duration_ns"),
        number("DRAM", "dram_share"),
        number("SM", "sm_share"),
        number("Tensor", "tensor_share", 3),
        number("Occupancy", "occupancy"),
        number("Registers", "registers", 4),
        number("Static shared", "static_shared_bytes", 1),
        number("Dynamic shared", "dynamic_shared_bytes", 2),
        number("Spills", "spills", 5),
    )


def _by_case(kernels: Sequence[Kernel]) -> Mapping[int, Sequence[Kernel]]:
    return {case: list(each) for case, each in groupby(sorted(kernels, key=_case), key=_case)}


def _case(kernel: Kernel) -> int:
    return kernel.case


def loop_blocks(loops: Sequence[Loop], remarks: Sequence[Remark], file_name: str) -> Iterator[Block]:
    """Yield a table of the innermost loops of a profiled C++ file, and one paragraph with a line for each remark."""

    def number(title: str, key: str, leaves: int = 0) -> tuple[Column, Callable[[Loop], str]]:
        return Column(title, right=True, leaves=leaves), lambda loop: str(getattr(loop, key))

    file = one_line(file_name)
    if loops:
        yield table(
            loops,
            number("LINE", "line"),
            (Column("FUNCTION", flexible=True, middle=True, least=16), lambda loop: one_line(loop.function, 60)),
            number("INSTRUCTIONS", "instructions", 1),
            number("VECTOR OPS", "vector_arithmetic"),
            (Column("BITS", right=True, optional=True), lambda loop: str(loop.vector_bits or "")),
            number("SCALAR OPS", "scalar_arithmetic"),
            number("LOADS", "loads", 2),
            number("STORES", "stores", 3),
            title=f"Innermost loops of {file}",
        )
    if remarks:
        yield Paragraph("\n".join(f"{file}:{each.line}: {one_line(each.text, 300)}" for each in remarks))


def loop_text(loop: "Loop | LoopView") -> str:
    """Return the function of a loop with the numbers of its instructions as words."""
    width = f" of {loop.vector_bits} bits" if loop.vector_bits else ""
    return (
        f"loop in {one_line(loop.function, 60)}, {count_text(loop.instructions, 'instruction')}: "
        f"{count_text(loop.vector_arithmetic, 'vector operation')}{width}, "
        f"{count_text(loop.scalar_arithmetic, 'scalar operation')}, "
        f"{count_text(loop.loads, 'load')}, {count_text(loop.stores, 'store')}"
    )


def kernel_table(pairs: Sequence[KernelPair], titles: tuple[str, str]) -> Iterator[Block]:
    """Yield the table of the kernels of two submissions, whose columns have these titles; nothing without one."""
    if not pairs:
        return
    columns = (
        Column("KERNEL", flexible=True, least=24),
        Column("NUMBER", stays=True),
        *(Column(title, right=True, stays=True) for title in titles),
        Column("CHANGE", right=True),
    )
    rows: list[tuple[str, ...]] = []
    for pair in pairs:
        found = [key for key in METRICS if any(getattr(each, key, None) is not None for each in pair.kernels)]
        for key in found:
            one, other = (getattr(each, key, None) for each in pair.kernels)
            change = f"{100 * (other / one - 1):+.0f} %" if one and other is not None else ""
            rows.append((_pair_name(pair), _NAMES[key], _text(key, one), _text(key, other), change))
    yield Table(columns, tuple(rows), "")


def _pair_name(pair: KernelPair) -> str:
    names = dict.fromkeys(one_line(each.name, 60) for each in pair.kernels if each is not None)
    return f"case {pair.case + 1}: {' / '.join(names)}"


def numbers_text(kernel: "Kernel | KernelView") -> str:
    """Return the numbers of a kernel as words."""
    parts = []
    if kernel.duration_ns is not None:
        times = f"{kernel.launches} x " if (kernel.launches or 1) > 1 else ""
        parts.append(f"{times}{duration_text(kernel.duration_ns)}")
    if kernel.time_share is not None:
        parts.append(f"{_text('time_share', kernel.time_share)} of the time")
    for key in ("dram_share", "sm_share", "tensor_share", "occupancy", "registers"):
        value = getattr(kernel, key)
        if value is not None and (value or key != "tensor_share"):
            parts.append(f"{_text(key, value)} {_NAMES[key]}")
    shared = (kernel.static_shared_bytes or 0) + (kernel.dynamic_shared_bytes or 0)
    if shared:
        parts.append(f"{_text('static_shared_bytes', shared)} shared memory")
    if kernel.spills is not None:
        parts.append(f"{_text('spills', kernel.spills)} spill instructions" if kernel.spills else "no spills")
    if stalls := dict(kernel.stalls).items():
        reasons = (f"{one_line(reason, 64).replace('_', ' ')} {figures(cycles, 2)}" for reason, cycles in stalls)
        parts.append(f"stalls: {', '.join(reasons)}")
    return ", ".join(parts)


def _text(key: str, value: float | None) -> str:
    if value is None:
        return "-"
    if key == "duration_ns":
        return duration_text(value)
    if key.endswith("_share") or key == "occupancy":
        return f"{100 * value:.0f} %"
    return f"{figures(value / 1024, 3)} KiB" if key.endswith("_bytes") else f"{value:,.0f}"
