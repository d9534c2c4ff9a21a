"""Commands on this machine, and on a login node by a real OpenSSH server: what goes in and what comes back."""

import sys
import time
from pathlib import Path

import pytest

from hpc_board.errors import SchedulerError
from hpc_board.transport import CommandMissing, CommandStopped, CommandTimeout, Completed, Host
from hpc_board.transport.this_host import OUTPUT_BYTES_MAX
from tests.waiting import awaited


def run(host: Host, *argv: str, timeout_seconds: float = 60, **options: str) -> Completed:
    return host.run(argv, timeout_seconds=timeout_seconds, **options)  # type: ignore[arg-type]


def test_status_and_both_outputs_come_back(host: Host) -> None:
    assert run(host, "sh", "-c", "echo out; echo err >&2; exit 3") == Completed(3, "out\n", "err\n")
    assert run(host, "printf", "no newline") == Completed(0, "no newline", "")


def test_arguments_reach_the_command_unchanged(host: Host) -> None:
    arguments = ["two words", "$HOME", "`id`", "a;b", "*", "", "ünï", "new\nline", "it's", '"', "!x", "\\", "-n", "~"]
    done = run(host, sys.executable, "-c", "import sys; print(sys.argv[1:])", *arguments)
    assert done.stdout == f"{arguments}\n"


def test_a_command_runs_in_its_folder(host: Host, tmp_path: Path) -> None:
    folder = tmp_path / "it's a folder"
    folder.mkdir()
    assert run(host, "pwd", cwd=str(folder)).stdout == f"{folder}\n"


@pytest.mark.parametrize(
    "text", ["größe\n", "no newline", "%s \\n '\"", "x" * 300_000], ids=["umlauts", "no newline", "special", "long"]
)
def test_the_command_reads_its_input_and_has_none_by_default(host: Host, text: str) -> None:
    assert run(host, "cat", stdin=text).stdout == text
    assert run(host, "cat").stdout == ""


def test_a_command_is_stopped_at_the_words_for_which_it_was_to_be(host: Host, tmp_path: Path) -> None:
    script = f"echo $$ > '{tmp_path}/pid'; echo 'no room, sleeping and retrying' >&2; exec sleep 600"
    with pytest.raises(CommandStopped, match="sleeping and retrying"):
        host.run(["sh", "-c", script], timeout_seconds=15, until=["full", "sleeping and retrying"])
    pid = (tmp_path / "pid").read_text().strip()
    awaited(lambda: not Path(f"/proc/{pid}").exists() or "State:\tZ" in Path(f"/proc/{pid}/status").read_text())
    assert host.run(["echo", "out"], timeout_seconds=60, until=["out"]) == Completed(0, "out\n", "")


def test_output_is_bounded_and_never_blocks_the_command(host: Host) -> None:
    size = OUTPUT_BYTES_MAX + 1_000_000
    done = run(host, "sh", "-c", f"head -c {size} /dev/zero; head -c {size} /dev/zero >&2; echo done >&2; exit 4")
    assert (done.returncode, len(done.stdout), len(done.stderr)) == (4, OUTPUT_BYTES_MAX, OUTPUT_BYTES_MAX)
    assert done.truncated


def test_a_program_that_is_not_there_is_missing(host: Host) -> None:
    with pytest.raises(CommandMissing, match="sbatch-of-nowhere"):
        run(host, "sbatch-of-nowhere")


def test_a_folder_that_cannot_be_entered_is_told(host: Host, tmp_path: Path) -> None:
    with pytest.raises(SchedulerError, match=r"cannot enter the folder for pwd|pwd cannot be started now"):
        run(host, "pwd", cwd=str(tmp_path / "none"))


def test_a_command_that_takes_too_long_is_ended(host: Host) -> None:
    run(host, "true")
    with pytest.raises(CommandTimeout, match="sleep did not finish within 1 s"):
        run(host, "sleep", "600", timeout_seconds=1)


def test_what_a_command_leaves_behind_is_not_waited_for(host: Host) -> None:
    begun = time.monotonic()
    assert run(host, "sh", "-c", "echo ready; sleep 600 &", timeout_seconds=300) == Completed(0, "ready\n", "")
    assert time.monotonic() - begun < 150, "the command's end counts, not that of its orphan"
