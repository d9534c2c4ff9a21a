"""Reports: what a user reads about runs, boards, tasks and GPUs, as blocks that each front end draws in its own way.

Every text of a block is safe to print: what came from files, jobs and schedulers is made printable here.
"""
