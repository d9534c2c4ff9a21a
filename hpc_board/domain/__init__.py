"""Frozen values and pure rules of the login side; none of them travels to a node."""
