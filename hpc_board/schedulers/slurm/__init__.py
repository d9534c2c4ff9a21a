"""Slurm, by its commands: sbatch, squeue, sacct, scancel and sinfo with text formats, on any release from 21.08 up."""
