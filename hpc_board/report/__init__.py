"""Reports: what a user reads about runs, boards, tasks and GPUs, as blocks that each front end draws in its own way.

Every text of a block is safe to print: what came from files, jobs and schedulers is made printable here.

The module of a name is imported when the name is first used: a command pays for the parts that it prints.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpc_board.report.blocks import Block, Column, Facts, Heading, Log, Paragraph, Table, Tone
    from hpc_board.report.boards import changes_table, created_report, plan_report, synced_table
    from hpc_board.report.checks import check_report
    from hpc_board.report.comparisons import comparison_report
    from hpc_board.report.diagnostics import diagnostic_object, diagnostics_report, finding_object
    from hpc_board.report.explanations import Meaning, state_meaning, verdict_meaning
    from hpc_board.report.feeds import feed_line, feed_lines
    from hpc_board.report.formatting import span_text, speedup_text
    from hpc_board.report.histories import bests, history_report
    from hpc_board.report.logs import nothing_printed, run_logs
    from hpc_board.report.moderation import (
        bans_table,
        decisions_table,
        detail_text,
        limit_text,
        limits_facts,
        limits_table,
        limits_text,
        remarks_text,
        removal_text,
        removed_blocks,
        rerun_table,
        subject_text,
    )
    from hpc_board.report.next_steps import NextSteps, next_steps
    from hpc_board.report.plain import plain
    from hpc_board.report.run_columns import outcome
    from hpc_board.report.runs import (
        outcome_line,
        run_evidence,
        run_overview,
        run_report,
        run_summary,
        run_tone,
        runs_table,
        step_text,
        trial_report,
    )
    from hpc_board.report.standing_columns import OVERLAPS
    from hpc_board.report.standings import SHORT_VERSION, board_report, rank_report, standings_table, versions_table
    from hpc_board.report.tables import gpus_table, tasks_table
    from hpc_board.report.tasks import task_report
    from hpc_board.report.times import advice, in_rows, processors_of, scatter_name, scatter_text

_PARTS = {
    "blocks": "Block Column Facts Heading Log Paragraph Table Tone",
    "boards": "changes_table created_report plan_report synced_table",
    "checks": "check_report",
    "comparisons": "comparison_report",
    "diagnostics": "diagnostic_object diagnostics_report finding_object",
    "explanations": "Meaning state_meaning verdict_meaning",
    "feeds": "feed_line feed_lines",
    "formatting": "span_text speedup_text",
    "histories": "bests history_report",
    "logs": "nothing_printed run_logs",
    "moderation": (
        "bans_table decisions_table detail_text limit_text limits_facts limits_table limits_text remarks_text "
        "removal_text removed_blocks rerun_table subject_text"
    ),
    "next_steps": "NextSteps next_steps",
    "plain": "plain",
    "run_columns": "outcome",
    "runs": (
        "outcome_line run_evidence run_overview run_report run_summary run_tone runs_table step_text trial_report"
    ),
    "standing_columns": "OVERLAPS",
    "standings": "SHORT_VERSION board_report rank_report standings_table versions_table",
    "tables": "gpus_table tasks_table",
    "tasks": "task_report",
    "times": "advice in_rows processors_of scatter_name scatter_text",
}
"""The public names of each module; tests compare them with the imports above, which only type checkers see."""

_MODULES = {name: module for module, names in _PARTS.items() for name in names.split()}

if not TYPE_CHECKING:  # a type checker takes a name that is not imported above for a mistake

    def __getattr__(name: str) -> Any:
        """Import the module that defines `name`, and keep the value for the next use."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        return value


__all__ = [
    "OVERLAPS",
    "SHORT_VERSION",
    "Block",
    "Column",
    "Facts",
    "Heading",
    "Log",
    "Meaning",
    "NextSteps",
    "Paragraph",
    "Table",
    "Tone",
    "advice",
    "bans_table",
    "bests",
    "board_report",
    "changes_table",
    "check_report",
    "comparison_report",
    "created_report",
    "decisions_table",
    "detail_text",
    "diagnostic_object",
    "diagnostics_report",
    "feed_line",
    "feed_lines",
    "finding_object",
    "gpus_table",
    "history_report",
    "in_rows",
    "limit_text",
    "limits_facts",
    "limits_table",
    "limits_text",
    "next_steps",
    "nothing_printed",
    "outcome",
    "outcome_line",
    "plain",
    "plan_report",
    "processors_of",
    "rank_report",
    "remarks_text",
    "removal_text",
    "removed_blocks",
    "rerun_table",
    "run_evidence",
    "run_logs",
    "run_overview",
    "run_report",
    "run_summary",
    "run_tone",
    "runs_table",
    "scatter_name",
    "scatter_text",
    "span_text",
    "speedup_text",
    "standings_table",
    "state_meaning",
    "step_text",
    "subject_text",
    "synced_table",
    "task_report",
    "tasks_table",
    "trial_report",
    "verdict_meaning",
    "versions_table",
]
