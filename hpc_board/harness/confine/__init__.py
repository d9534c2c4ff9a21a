"""Confinement of processes: Landlock, seccomp, containers, scratch folders."""
