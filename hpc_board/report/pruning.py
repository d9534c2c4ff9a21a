"""The outcome of a pruning as blocks."""

from collections.abc import Iterator

from hpc_board.domain.pruned import Pruned
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Block, Paragraph, Tone
from hpc_board.report.formatting import bytes_text, count_text, moment_text


def pruned_report(pruned: Pruned) -> Iterator[Block]:
    """Yield the number of removed folders and the freed space, and the problems of clusters."""
    done = pruned.clusters.values()
    parts = [count_text(sum(each.folders for each in done), "job folder")]
    if harnesses := sum(each.harness_files for each in done):
        parts.append(count_text(harnesses, "unused harness file"))
    space = bytes_text(sum(each.bytes for each in done))
    verb, end = ("Would remove", "would be freed") if pruned.dry_run else ("Removed", "freed")
    yield Paragraph(
        f"{verb} {' and '.join(parts)} of runs that ended before {moment_text(pruned.before)}: {space} {end}."
    )
    for name, each in pruned.clusters.items():
        if each.problem:
            yield Paragraph(f"Cluster {one_line(name)}: {one_line(each.problem, 300)}", Tone.BAD)
