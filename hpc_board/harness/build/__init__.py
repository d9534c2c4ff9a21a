"""Compilation of submissions to shared libraries."""
