"""Back-off between questions to schedulers and between scans of runs, for all clients of a board together."""
