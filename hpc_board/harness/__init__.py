"""What runs on the compute node: a supervisor, a judge and a worker, as three processes.

Standard library alone at import time; numpy and PyTorch are imported where a task's values need them.
"""
