"""Frozen values and pure rules, on the standard library; they travel to the compute node with the harness."""
