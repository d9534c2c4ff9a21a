"""Evaluation by a task's own eval program."""
