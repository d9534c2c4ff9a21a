"""The report of a node: its GPU, and whether memory ran out."""

from pathlib import Path

import pytest

from hpc_board.harness.measure.usage import group_peak_bytes
from hpc_board.harness.node import gpu_facts, gpu_state_after, oom_kills, visible_gpu

UUID = "GPU-6ff3f9b9-9c1c-4f3e-8f3c-0c1d2e3f4a5b"

NVIDIA_SMI = """#!/bin/sh
# Answers as nvidia-smi does for the one GPU of the job, and says no to a field that it does not know.
case "$*" in *--id={uuid}*) ;; *) echo "No devices were found"; exit 6;; esac
case "$*" in *{unknown}*) echo 'Field "{unknown}" is not a valid field to query.'; exit 2;; esac
case "$*" in
    *name,uuid*) echo "NVIDIA H200, {uuid}, 570.1, Disabled, Default, 1980, 3201, 41, 0x0000000000000004";;
    *) echo "1755, 3201, 63, 0x0000000000000020";;
esac
"""


def install_nvidia_smi(folder: Path, monkeypatch: pytest.MonkeyPatch, unknown: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(NVIDIA_SMI.format(uuid=UUID, unknown=unknown))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


@pytest.mark.parametrize("unknown", ["clocks_throttle_reasons.active", "clocks_event_reasons.active"])
def test_the_job_s_gpu_is_described_by_drivers_old_and_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unknown: str
) -> None:
    install_nvidia_smi(tmp_path, monkeypatch, unknown)
    assert gpu_facts(UUID) == {
        "gpu_name": "NVIDIA H200",
        "gpu_uuid": UUID,
        "gpu_driver_version": "570.1",
        "gpu_mig_mode_current": "Disabled",
        "gpu_compute_mode": "Default",
        "gpu_clocks_sm": "1980",
        "gpu_clocks_mem": "3201",
        "gpu_temperature_gpu": "41",
        "gpu_clocks_event_reasons_active": "0x0000000000000004",
    }
    assert gpu_state_after(UUID) == {
        "gpu_after_clocks_sm": "1755",
        "gpu_after_clocks_mem": "3201",
        "gpu_after_temperature_gpu": "63",
        "gpu_after_clocks_event_reasons_active": "0x0000000000000020",
    }


def test_another_gpu_than_the_job_s_is_never_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_nvidia_smi(tmp_path, monkeypatch, "nothing")
    assert gpu_facts(UUID.replace("6ff3", "0000")) == {}
    assert gpu_facts("") == {}
    assert gpu_facts("0") == {}


@pytest.mark.parametrize(
    ("visible", "found"),
    [
        (None, "GPU-0000000a"),
        ("1", "GPU-0000000b"),
        ("1,0", "GPU-0000000b"),
        ("GPU-0000000b", "GPU-0000000b"),
        ("2", ""),
        ("", ""),
        ("-1", ""),
        ("MIG-GPU-0000000b/1/0", ""),
        ("GPU-0000000c", ""),
    ],
)
def test_the_first_gpu_that_a_job_may_use_is_known_without_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, found: str
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho GPU-0000000a\necho GPU-0000000b\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert visible_gpu({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}) == found


def cgroups(folder: Path, own: str, counts: dict[str, str]) -> tuple[Path, Path]:
    (folder / "own").write_text(own)
    for name, text in counts.items():
        path = folder / "mount" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return folder / "own", folder / "mount"


def test_the_nearest_control_group_that_counts_tells_how_many_memory_has_cost(tmp_path: Path) -> None:
    events = {"slurm/job_7/memory.events": "low 0\noom 2\noom_kill 2\noom_group_kill 0\n"}
    assert oom_kills(*cgroups(tmp_path, "0::/slurm/job_7/step_batch/task_0\n", events)) == 2


def test_the_first_version_of_control_groups_tells_it_too(tmp_path: Path) -> None:
    counts = {"memory/slurm/job_7/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"}
    assert oom_kills(*cgroups(tmp_path, "9:cpuset:/\n4:memory:/slurm/job_7\n0::/\n", counts)) == 1


@pytest.mark.parametrize("own", ["", "nonsense\n", "0::/gone\n"])
def test_a_node_that_does_not_tell_counts_none(tmp_path: Path, own: str) -> None:
    assert oom_kills(*cgroups(tmp_path, own, {})) == 0


@pytest.mark.parametrize(
    ("own", "file"),
    [
        (
            "0::/system.slice/slurmstepd.scope/job_7/step_batch/user/task_0\n",
            "system.slice/slurmstepd.scope/job_7/memory.peak",
        ),
        ("4:memory:/slurm/uid_5/job_7/step_0\n0::/\n", "memory/slurm/uid_5/job_7/memory.max_usage_in_bytes"),
    ],
)
def test_the_peak_of_memory_is_that_of_the_job_s_control_group_and_of_no_other(
    tmp_path: Path, own: str, file: str
) -> None:
    paths = cgroups(tmp_path, own, {file: "123456789\n"})
    assert group_peak_bytes("7", *paths) == 123456789
    assert group_peak_bytes("70", *paths) == 0
    assert group_peak_bytes("", *paths) == 0
