"""Frozen values and pure rules, from the standard library alone; they travel to the compute node with the harness."""
