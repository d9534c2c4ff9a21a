"""The worker's process: imports the submission and calls it."""
