"""The service: one process owns a board, and clients reach it over a socket whose peer the kernel identifies."""
