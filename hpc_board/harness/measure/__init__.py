"""Phases of an evaluation, calls of a submission and their times."""
