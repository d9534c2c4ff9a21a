"""Processes of an evaluation: start, watch, stop and end."""
