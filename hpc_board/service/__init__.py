"""The service: one process owns a board, and clients reach it over a socket whose peer the kernel identifies."""

LOCK = "serve.lock"
"""The file in the board's folder that the serving process locks."""
