"""The details of wrong values as blocks."""

from collections.abc import Iterator

from hpc_board.model.mismatch import Mismatch
from hpc_board.model.score import figures
from hpc_board.report.blocks import Block, Column, Facts, Paragraph, table


def mismatch_blocks(found: Mismatch) -> Iterator[Block]:
    """Yield the share of wrong elements with their pattern, the largest errors, and the first places."""
    facts = [("part", found.part)] if found.part else []
    facts.append(("shape", " x ".join(map(str, found.shape))))
    if found.wrong is not None:
        share = f"{found.wrong:,} of {found.elements:,} elements ({_percent(found.wrong / found.elements)})"
        facts.append(("wrong", f"{share}: {found.pattern}" if found.pattern else share))
    if found.largest_absolute is not None:
        relative = "" if found.largest_relative is None else f", relative {found.largest_relative:.3g}"
        facts.append(("largest error", f"{found.largest_absolute:.3g}{relative}"))
    if not found.places:
        facts.append(("places", "not shown: the inputs are secret"))
    yield Facts(tuple(facts))
    if found.places:
        if found.wrong is None:
            yield Paragraph(
                "By the task's own check, whose tolerance is unknown. The elements with the largest errors:"
            )
        yield table(
            found.places,
            (Column("INDEX"), lambda place: str(list(place.index))),
            (Column("GOT", right=True, stays=True), lambda place: place.got),
            (Column("EXPECTED", right=True, stays=True), lambda place: place.expected),
        )


def _percent(share: float) -> str:
    return f"{figures(100 * share, 3)} %"
