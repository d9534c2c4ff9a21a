"""Checks of a task and trial runs of a submission on this machine."""
