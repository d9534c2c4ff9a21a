"""Examination of a task by right and cheap answers."""
