"""Lint of a task: the judge's verdicts on right and on bogus answers, and on the task's own submissions."""
