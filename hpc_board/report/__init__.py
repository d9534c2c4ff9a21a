"""Reports on runs, boards, tasks and GPUs, as blocks that each front end renders in its own way.

Every text of a block is safe to print: this package makes text from files, jobs and schedulers printable.
"""
