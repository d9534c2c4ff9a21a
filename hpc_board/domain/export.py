"""The formats and the tables of exports."""

CSV, JSONL, PARQUET, TRACES, JSON, HTML = "csv", "jsonl", "parquet", "traces", "json", "html"
TABLE_FORMATS = (CSV, JSONL, PARQUET, TRACES)
FORMATS = (*TABLE_FORMATS, JSON, HTML)
"""The formats of a table, and those of a whole board."""

RUNS, CASES, SAMPLES, TASKS, OVERALL = "runs", "cases", "samples", "tasks", "overall"
TABLES = (RUNS, CASES, SAMPLES, TASKS, OVERALL)
