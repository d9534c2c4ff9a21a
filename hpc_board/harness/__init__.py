"""The part of hpc-board that runs on the compute node: a supervisor, a judge and a worker, as three processes.

Imports need the standard library alone; numpy and PyTorch are imported where a task's values need them.
"""
