"""Checks of nodes as blocks: a table for each GPU, and the remedies of nodes with problems."""

from collections import Counter
from collections.abc import Iterator, Sequence

from hpc_board.domain.node_checks import NodeCheck, NodeVerdict
from hpc_board.model.text import one_line, printable
from hpc_board.report.blocks import Block, Column, Facts, Heading, Paragraph, Table, Tone
from hpc_board.report.formatting import count_text

_REMEDIES_MAX = 10
_TONES = {NodeVerdict.OK: Tone.GOOD, NodeVerdict.WRONG: Tone.BAD, NodeVerdict.BROKEN: Tone.BAD}


def node_checks_report(checks: Sequence[NodeCheck]) -> tuple[Block, ...]:
    """Return a table of the nodes of each GPU, in the order of the checks."""
    return tuple(
        block
        for gpu in dict.fromkeys(each.gpu for each in checks)
        for block in _of_gpu(gpu, [each for each in checks if each.gpu == gpu])
    )


def _of_gpu(gpu: str, checks: Sequence[NodeCheck]) -> Iterator[Block]:
    yield Heading(printable(gpu, 200))
    # Nodes without PyTorch have other rates than the others.
    names = list(dict.fromkeys((speed.name, speed.unit) for each in checks for speed in each.speeds))
    columns = [Column("NODE"), Column("RESULT", toned=True), Column("STATE")]
    columns += [Column("GPU", flexible=True, least=8)] if any(each.device for each in checks) else []
    for name, unit in names:
        columns += [Column(f"{name.upper()} {unit}", right=True), Column("SPREAD", right=True, leaves=1)]
        columns += [Column("OF MEDIAN", right=True)]
    columns += [Column("REMARK", flexible=True, least=20)]
    rows = tuple(_row(each, names, gpus=len(columns) > 4 + 3 * len(names)) for each in checks)
    tones = tuple(_TONES.get(each.verdict, Tone.STRONG) for each in checks)
    yield Table(tuple(columns), rows, "No nodes.", tones)
    problems = [each for each in checks if each.verdict.is_problem]
    told = [(each.node, error) for each in problems[:_REMEDIES_MAX] for error in each.errors]
    if told:
        yield Facts(
            tuple(
                row
                for node, error in told
                for row in (
                    (f"{one_line(node)} {error.subject}", one_line(error.message, 500)),
                    ("", f"-> {one_line(error.hint, 500)}"),
                )
                if row[1] != "-> "
            )
        )
    counts = Counter(each.verdict for each in checks)
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in NodeVerdict if counts[verdict])
    yield Paragraph(f"{count_text(len(checks), 'node')}: {words}.", Tone.BAD if problems else Tone.GOOD)


def _row(check: NodeCheck, names: Sequence[tuple[str, str]], *, gpus: bool) -> tuple[str, ...]:
    speeds = {(speed.name, speed.unit): speed for speed in check.speeds}
    cells = []
    for key in names:
        speed = speeds.get(key)
        if speed is None:
            cells += ["", "", ""]
        else:
            rate = f"{speed.rate:,.0f}" if speed.rate >= 100 else f"{speed.rate:.1f}"
            cells += [rate, f"{speed.spread:.0%}", f"{check.of_median[speed.name]:.0%}"]
    return (
        one_line(check.node),
        str(check.verdict),
        one_line(check.state),
        *([one_line(check.device)] if gpus else []),
        *cells,
        one_line(check.reason),
    )
