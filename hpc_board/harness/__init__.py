"""The part of hpc-board that runs on the compute node: a supervisor, a judge and a worker, as three processes.

Imports need only the standard library; numpy and PyTorch are imported where a task's values need them.
"""
