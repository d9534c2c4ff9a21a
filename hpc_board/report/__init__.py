"""Reports: what a user reads about runs, boards, tasks and GPUs, as blocks that each front end draws in its own way.

Every text of a block is safe to print: what came from files, jobs and schedulers is made printable here.
"""

from hpc_board.report.blocks import Block, Column, Facts, Heading, Log, Paragraph, Table, Tone
from hpc_board.report.checks import check_report
from hpc_board.report.checkups import checkup_report
from hpc_board.report.comparisons import comparison_report
from hpc_board.report.meanings import Meaning, state_meaning, verdict_meaning
from hpc_board.report.plain import plain
from hpc_board.report.printed import nothing_printed, run_logs
from hpc_board.report.runs import (
    outcome,
    outcome_line,
    run_report,
    run_summary,
    run_tone,
    runs_table,
    step_text,
    trial_report,
)
from hpc_board.report.tables import gpus_table, standings_table, tasks_table
from hpc_board.report.tasks import task_report
from hpc_board.report.texts import span_text

__all__ = [
    "Block",
    "Column",
    "Facts",
    "Heading",
    "Log",
    "Meaning",
    "Paragraph",
    "Table",
    "Tone",
    "check_report",
    "checkup_report",
    "comparison_report",
    "gpus_table",
    "nothing_printed",
    "outcome",
    "outcome_line",
    "plain",
    "run_logs",
    "run_report",
    "run_summary",
    "run_tone",
    "runs_table",
    "span_text",
    "standings_table",
    "state_meaning",
    "step_text",
    "task_report",
    "tasks_table",
    "trial_report",
    "verdict_meaning",
]
