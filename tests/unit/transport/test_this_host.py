import os
import shutil
from pathlib import Path

import pytest

from hpc_board.transport import CommandMissing, CommandTimeout, Completed
from hpc_board.transport.this_host import OUTPUT_BYTES_MAX, ThisHost, scrubbed_environment
from tests.waiting import ended_writers

ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/home/ada", "USER": "ada"}


def run(*argv: str, timeout_seconds: float = 60, **options: str) -> Completed:
    return ThisHost(ENVIRON).run(argv, timeout_seconds=timeout_seconds, **options)  # type: ignore[arg-type]


def test_the_environment_is_an_allow_list() -> None:
    kept = {
        "PATH": "/opt/slurm/bin:/usr/bin",
        "HOME": "/home/ada",
        "USER": "ada",
        "LOGNAME": "ada",
        "SHELL": "/bin/zsh",
        "TZ": "Europe/Berlin",
        "LD_LIBRARY_PATH": "/opt/slurm/lib",
        "KRB5CCNAME": "FILE:/tmp/krb5cc_1000",
        "SLURM_CONF": "/etc/slurm/slurm.conf",
        "SLURM_CONF_SERVER": "ctl:6817",
        "SLURM_JWT": "token",
    }
    dropped = {
        "SBATCH_PARTITION": "debug",
        "SLURM_CPU_BIND": "mask_cpu:0x1",
        "SQUEUE_FORMAT": "%i",
        "SCANCEL_INTERACTIVE": "1",
        "PYTHONPATH": "/home/ada/lib",
        "LC_TIME": "de_DE.UTF-8",
        "TMPDIR": "/scratch/login3",
        "SSH_AUTH_SOCK": "/run/user/1000/agent",
        "LD_PRELOAD": "/home/ada/hook.so",
        "BASH_ENV": "/home/ada/.bash_env",
        "CUDA_VISIBLE_DEVICES": "3",
    }
    assert scrubbed_environment({**kept, **dropped, "LC_ALL": "de_DE"}) == {**kept, "LC_ALL": "C.UTF-8"}


def test_a_command_sees_the_scrubbed_environment_and_what_it_is_given() -> None:
    host = ThisHost({**ENVIRON, "SQUEUE_FORMAT": "%u"})
    done = host.run(["env"], timeout_seconds=60, env={"SLURM_TIME_FORMAT": "%s"})
    assert set(done.stdout.splitlines()) == {
        *(f"{name}={value}" for name, value in ENVIRON.items()),
        "LC_ALL=C.UTF-8",
        "SLURM_TIME_FORMAT=%s",
    }


def test_a_command_that_was_killed_has_a_negative_status() -> None:
    assert run("sh", "-c", "kill -9 $$").returncode == -9


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert run("printf", r"a\377b").stdout == "a\ufffdb"


@pytest.mark.parametrize(("more_bytes", "truncated"), [(0, False), (1, True)])
def test_an_output_that_was_cut_says_so(more_bytes: int, truncated: bool) -> None:
    done = run("head", "-c", str(OUTPUT_BYTES_MAX + more_bytes), "/dev/zero")
    assert (len(done.stdout), done.truncated) == (OUTPUT_BYTES_MAX, truncated)


def test_a_file_that_cannot_be_run_is_missing(tmp_path: Path) -> None:
    (tmp_path / "sbatch").write_text("not for execution")
    with pytest.raises(CommandMissing):
        run(str(tmp_path / "sbatch"))


def test_a_command_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(CommandTimeout, match=r"sh did not finish within 0\.5 s"):
            run("sh", "-c", f"sleep 600 > {fifo} & sleep 600 > {fifo}", timeout_seconds=0.5)
        assert ended_writers(reader), "a process that has the FIFO open for writing is left"
    finally:
        os.close(reader)


def test_a_command_that_closed_its_outputs_is_still_killed() -> None:
    with pytest.raises(CommandTimeout):
        run("sh", "-c", "exec >&- 2>&-; sleep 600", timeout_seconds=0.3)


def test_no_descriptor_is_left_open() -> None:
    host = ThisHost(ENVIRON)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        host.run(["true"], timeout_seconds=60)
        host.run(["cat"], timeout_seconds=60, stdin="words")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_programs_are_looked_up_in_the_path_that_it_was_given(tmp_path: Path) -> None:
    true = shutil.which("true")
    assert true is not None
    (tmp_path / "our-true").symlink_to(true)
    assert ThisHost({"PATH": str(tmp_path)}).run(["our-true"], timeout_seconds=60).returncode == 0
    with pytest.raises(CommandMissing):
        ThisHost({"PATH": str(tmp_path)}).run(["true"], timeout_seconds=60)
