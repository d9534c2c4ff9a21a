from tests.slurm.conftest import slurm_lab

__all__ = ["slurm_lab"]
