"""GPU-kernel leaderboards on a Slurm cluster."""

__version__ = "0.1.0"
