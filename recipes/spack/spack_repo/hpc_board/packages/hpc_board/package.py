# An environment of its own, from which Spack shows only the program: jobs inherit PATH and PYTHONPATH, and must not
# find hpc-board's Python and libraries there. Spack's own packages of some libraries are too old for it, so pip
# installs them. docs/clusters.md has the commands.
import os

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class HpcBoard(Package):
    """GPU-kernel leaderboards on a Slurm cluster: an app, commands, a judge and a service."""

    homepage = "https://example.org/hpc-board"  # where your site keeps it
    # The archive lies in the current folder, or in a mirror of the site.
    url = f"file://{os.getcwd()}/hpc_board-0.1.0.tar.gz"
    manual_download = True

    license("MIT")

    version("0.1.0")  # with sha256="..." of your archive, `spack install` needs no --no-checksum

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-pip@22.3:", type="build")

    def install(self, spec, prefix):
        python = spec["python"].command
        # Spack's Python may lack ensurepip, which puts pip into an environment.
        python("-m", "venv", "--without-pip", prefix.venv)
        python("-m", "pip", f"--python={prefix.venv.bin.python3}", "install", "--constraint=constraints.txt", ".")
        mkdirp(prefix.bin)
        symlink(prefix.venv.bin.join("hpc-board"), prefix.bin.join("hpc-board"))

    def setup_run_environment(self, env):
        env.prepend_path("MANPATH", self.prefix.venv.share.man)
        env.prepend_path("XDG_DATA_DIRS", self.prefix.venv.share)
        # Unset, it means these two folders, which programs would lose with a value without them.
        env.append_path("XDG_DATA_DIRS", "/usr/local/share")
        env.append_path("XDG_DATA_DIRS", "/usr/share")
