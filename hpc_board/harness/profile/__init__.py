"""Evaluation under a profiler."""
