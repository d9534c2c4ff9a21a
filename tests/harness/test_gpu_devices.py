"""The GPUs of a job: their number, and the device files that its confined processes may open."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from hpc_board.harness.confine.gpu_devices import job_gpus, see_one
from hpc_board.model.gpu import Device
from hpc_board.model.result import Verdict
from tests.harness.evaluations import RIGHT, evaluate, said_confined
from tests.harness.harness_file import Edit, edited

UUIDS = ("GPU-6ff3f9b9-0001", "GPU-6ff3f9b9-0002", "GPU-70000000-0003")
COMMON = ("nvidia-caps", "nvidia-uvm", "nvidiactl")
INFORMATION = """\
Model: \t\t NVIDIA H100 80GB HBM3
IRQ:   \t\t 16
GPU UUID: \t {uuid}
Bus Location: \t 0000:{bus}:00.0
Device Minor: \t {minor}
GPU Excluded:\t No
"""


def written(file: Path, text: str = "") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def nvidia(tmp_path: Path) -> Path:
    """A node with three GPUs, whose numbers in /dev are not in the order of their PCI addresses."""
    for minor, (bus, uuid) in zip(("2", "0", "1"), zip(("19", "3b", "cb"), UUIDS, strict=True), strict=True):
        text = INFORMATION.format(uuid=uuid, bus=bus, minor=minor)
        written(tmp_path / f"proc/driver/nvidia/gpus/0000:{bus}:00.0/information", text)
    for name in ("nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1", "nvidia2", "nvidia-caps/nvidia-cap30", "dri/card0"):
        written(tmp_path / "dev" / name)
    return tmp_path


def names(files: Iterable[str], root: Path) -> tuple[str, ...]:
    return tuple(each.removeprefix(f"{root}/dev/") for each in files)


@pytest.mark.parametrize(
    ("visible", "count", "own"),
    [
        (None, 3, ("nvidia2", "nvidia0", "nvidia1")),
        ("0", 1, ("nvidia2",)),
        ("1, 2", 2, ("nvidia0", "nvidia1")),
        ("1,7,2", 1, ("nvidia0",)),
        ("", 0, ()),
        ("NoDevFiles", 0, ()),
        ("GPU-6ff3f9b9-0002", 1, ("nvidia0",)),
        ("GPU-7000", 1, ("nvidia1",)),
        ("GPU-6ff3", 1, ("nvidia0", "nvidia1", "nvidia2")),
        ("MIG-GPU-70000000-0003/1/0", 1, ("nvidia1",)),
        ("MIG-6ff3f9b9-0001", 1, ("nvidia0", "nvidia1", "nvidia2")),
    ],
)
def test_a_job_opens_the_gpus_alone_that_its_environment_names(
    nvidia: Path, visible: str | None, count: int, own: tuple[str, ...]
) -> None:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    found = job_gpus("cuda", environ, nvidia)
    assert (found.number, names(found.files, nvidia)) == (count, (*COMMON, *own))


@pytest.mark.parametrize("visible", [None, "0"])
def test_an_index_counts_the_gpus_that_the_control_group_lets_the_job_open(nvidia: Path, visible: str | None) -> None:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    found = job_gpus("cuda", environ, nvidia, lambda path: path.name == "nvidia1")
    assert (found.number, names(found.files, nvidia)) == (1, (*COMMON, "nvidia1"))
    found = job_gpus("cuda", {"CUDA_VISIBLE_DEVICES": "MIG-6ff3"}, nvidia, lambda path: path.name == "nvidia1")
    assert (found.number, names(found.files, nvidia)) == (1, (*COMMON, "nvidia1"))


def test_a_mig_device_named_by_its_instances_has_its_capabilities_alone(nvidia: Path) -> None:
    for name, minor in (("gi1/access", 30), ("gi1/ci0/access", 31)):
        text = f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\n"
        written(nvidia / "proc/driver/nvidia/capabilities/gpu1/mig" / name, text)
    found = job_gpus("cuda", {"CUDA_VISIBLE_DEVICES": "MIG-GPU-70000000-0003/1/0"}, nvidia)
    own = ("nvidia-caps/nvidia-cap30", "nvidia-caps/nvidia-cap31")
    assert names(found.files, nvidia) == ("nvidia-uvm", "nvidiactl", "nvidia1", *own)


@pytest.mark.parametrize(("visible", "count"), [(None, 3), ("1", 1), ("0,1", 2), ("", 0)])
def test_all_gpus_stay_open_where_the_driver_tells_nothing(nvidia: Path, visible: str | None, count: int) -> None:
    for file in nvidia.glob("proc/driver/nvidia/gpus/*/information"):
        file.unlink()
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    found = job_gpus("cuda", environ, nvidia)
    assert (found.number, names(found.files, nvidia)) == (count, (*COMMON, "nvidia0", "nvidia1", "nvidia2"))


@pytest.mark.parametrize(
    ("environ", "count", "own"),
    [
        ({}, 2, ("dri/renderD128", "dri/renderD136")),
        ({"ROCR_VISIBLE_DEVICES": "1"}, 1, ("dri/renderD136",)),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, 1, ("dri/renderD136",)),
        ({"HIP_VISIBLE_DEVICES": "0"}, 1, ("dri/renderD128",)),
        ({"ROCR_VISIBLE_DEVICES": "GPU-00000000000000ff"}, 1, ("dri/renderD136",)),
    ],
)
def test_a_job_on_amd_opens_kfd_and_the_render_node_of_its_gpu(
    tmp_path: Path, environ: dict[str, str], count: int, own: tuple[str, ...]
) -> None:
    nodes = tmp_path / "sys/class/kfd/kfd/topology/nodes"
    for number, minor in ((0, 0), (1, 128), (10, 136)):
        written(
            nodes / f"{number}/properties",
            f"simd_count 4\ndrm_render_minor {minor}\nunique_id {5 if minor == 128 else 255}\n",
        )
    for name in ("kfd", "dri/card1", "dri/renderD128", "dri/renderD136"):
        written(tmp_path / "dev" / name)
    found = job_gpus("hip", environ, tmp_path)
    assert (found.number, names(found.files, tmp_path)) == (count, ("kfd", *own))
    assert job_gpus("cpu", environ, tmp_path) == (0, ())


OPENS = """
import json
from pathlib import Path
from hpc_board.harness.confine import gpu_devices
root = Path(sys.argv[1])
sandbox.gpu_devices = lambda: gpu_devices.job_gpus("cuda", os.environ, root).files
sandbox.confine([ROOT], [])

def opens(path):
    try:
        os.close(os.open(path, os.O_RDWR))
    except PermissionError:
        return False
    return True

print(json.dumps({name: opens(root / "dev" / name) for name in sys.argv[2:]}))
"""


def test_landlock_closes_the_other_gpus_of_the_node(nvidia: Path) -> None:
    wanted = {"nvidia0": True, "nvidia1": False, "nvidia2": False, "nvidiactl": True, "nvidia-uvm": True}
    assert json.loads(said_confined(OPENS, nvidia, *wanted, CUDA_VISIBLE_DEVICES="1")) == wanted


TWO_GPUS = Edit("supervisor.py", "job_gpus(self._job.device, os.environ).number", "2")


def test_a_second_gpu_is_refused_for_a_task_of_one_before_anything_of_it_runs(tmp_path: Path) -> None:
    source = f"open({str(tmp_path / 'ran')!r}, 'w')\n{RIGHT}"
    result = evaluate(tmp_path, source, device=Device.CUDA, harness=edited((TWO_GPUS,))).result
    assert result.verdict is Verdict.INFRA_ERROR
    assert "the job sees 2 GPUs, but the task uses one: set ConstrainDevices=yes" in result.message
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("device", "environ", "seen"),
    [
        ("cuda", {}, {"CUDA_VISIBLE_DEVICES": "0"}),
        ("cuda", {"CUDA_VISIBLE_DEVICES": "3,1"}, {"CUDA_VISIBLE_DEVICES": "3"}),
        ("cuda", {"CUDA_VISIBLE_DEVICES": ""}, {"CUDA_VISIBLE_DEVICES": ""}),
        ("hip", {"ROCR_VISIBLE_DEVICES": "1,2"}, {"ROCR_VISIBLE_DEVICES": "1"}),
        ("hip", {"HIP_VISIBLE_DEVICES": "2,3"}, {"HIP_VISIBLE_DEVICES": "2"}),
        ("hip", {}, {"ROCR_VISIBLE_DEVICES": "0"}),
        ("cpu", {}, {}),
    ],
)
def test_a_job_with_its_whole_node_sees_one_gpu(device: str, environ: dict[str, str], seen: dict[str, str]) -> None:
    see_one(device, environ)
    assert environ == seen
