from collections.abc import Callable, Sequence
from typing import Any

import pytest

from hpc_board.errors import InputError
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.schedulers import kind
from hpc_board.schedulers.slurm import Request, RequestStyle, gpu_options, with_options
from hpc_board.schedulers.slurm.kind import SLURM
from hpc_board.schedulers.slurm.sbatch import (
    MANAGED,
    argument,
    directive,
    extra_faults,
    options_for,
    time_limit,
    with_gpus,
)
from tests.values import replace

CLUSTER = Cluster("main", "slurm")
PLAIN = Gpu("H100", CLUSTER, Device.CUDA, "gpu-h100")


def faults(extras: Sequence[str], *, retries: int = 0) -> list[str]:
    return [message for _, message in extra_faults(extras, retries=retries)]


def test_a_plain_value_stays_readable() -> None:
    assert directive("gres", "gpu:h100:1") == "#SBATCH --gres=gpu:h100:1"
    assert directive("constraint", "(a100)&(nvlink)") == "#SBATCH --constraint=(a100)&(nvlink)"
    assert directive("exclusive") == "#SBATCH --exclusive"


@pytest.mark.parametrize("value", ["two words", "it's", 'say "hi"', "back\\slash", "#5", "a;b", "größe"])
def test_any_other_value_is_quoted(value: str) -> None:
    line = directive("comment", value)
    assert line.startswith('#SBATCH --comment="')
    assert line.endswith('"')
    assert "\n" not in line


def test_quotes_and_backslashes_are_escaped() -> None:
    assert directive("comment", 'a\\b"c') == '#SBATCH --comment="a\\\\b\\"c"'


def test_an_argument_is_taken_as_it_is() -> None:
    assert argument("comment", 'a "b" $c') == '--comment=a "b" $c'
    assert argument("exclusive") == "--exclusive"


@pytest.mark.parametrize("value", ["a\nrm -rf ~", "a\r", "\x00", "\x7f", "\x1b[2J", "a\u2028b", "\udcff", "\t"])
@pytest.mark.parametrize("write", [directive, argument])
def test_a_control_character_is_refused_by_the_name_of_its_option(write: Callable[[str, str], str], value: str) -> None:
    with pytest.raises(InputError, match="--comment"):
        write("comment", value)


@pytest.mark.parametrize("name", ["", "-p", "--partition", "a b", "x=y", "Mem", "a\nb"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="not the long name"):
        directive(name, "1")


def test_the_least_gpu_needs_a_partition_and_a_time() -> None:
    assert options_for(PLAIN, 1200) == {
        "partition": "gpu-h100",
        "nodes": "1",
        "ntasks": "1",
        "time": "00:20:00",
        "no-requeue": "",
    }


def test_every_setting_becomes_its_option() -> None:
    gpu = with_options(
        PLAIN,
        request=Request(RequestStyle.GRES, "gpu:h100:1"),
        account="kernels",
        qos="high",
        constraint="nvlink",
        reservation="contest",
        nodelist="n1",
        exclude="n2",
        cpus_per_task=8,
        memory="64G",
        exclusive=True,
        gpu_freq="high",
        sbatch=("--comment=a=b c", "--contiguous"),
    )
    assert options_for(gpu, 60) == {
        "partition": "gpu-h100",
        "nodes": "1",
        "ntasks": "1",
        "gres": "gpu:h100:1",
        "account": "kernels",
        "qos": "high",
        "constraint": "nvlink",
        "reservation": "contest",
        "nodelist": "n1",
        "exclude": "n2",
        "cpus-per-task": "8",
        "mem": "64G",
        "gpu-freq": "high",
        "time": "00:01:00",
        "exclusive": "",
        "no-requeue": "",
        "comment": "a=b c",
        "contiguous": "",
    }
    assert set(options_for(with_options(gpu, sbatch=()), 60)) <= MANAGED
    assert {str(style) for style in RequestStyle} - {"none"} <= MANAGED


def test_two_constraints_are_joined_so_that_both_hold() -> None:
    by_feature = with_options(PLAIN, request=Request(RequestStyle.CONSTRAINT, "a100|h100"), constraint="nvlink")
    assert options_for(by_feature, 60)["constraint"] == "(a100|h100)&(nvlink)"
    assert options_for(with_options(by_feature, constraint="a100|h100"), 60)["constraint"] == "a100|h100"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(60, "00:01:00"), (240, "00:04:00"), (3661, "01:01:01"), (86400, "1-00:00:00"), (266461, "3-02:01:01")],
)
def test_a_time_limit_cannot_be_misread(seconds: int, text: str) -> None:
    assert time_limit(seconds) == text


def test_what_an_administrator_may_add_has_no_faults() -> None:
    extras = ["--comment=kernels", "--contiguous", "--licenses=x:1", "--mail-type=END", "--mem-per-gpu=8G", "--hold"]
    extras.append("--time-min=00:05:00")
    assert faults(extras) == []


@pytest.mark.parametrize("name", sorted(MANAGED))
def test_an_option_that_the_board_manages_is_refused(name: str) -> None:
    (fault,) = faults([f"--{name}=x"])
    assert fault.startswith(f"--{name} is set by hpc-board")


def test_slurm_may_requeue_only_where_retries_limit_it() -> None:
    (fault,) = faults(["--requeue"])
    assert fault.startswith("--requeue requires `retries` for this GPU")
    assert faults(["--requeue"], retries=1) == []
    assert faults(["--no-requeue", "--requeue=x"], retries=1)[0].startswith("--no-requeue is set")
    gpu = with_options(PLAIN, sbatch=("--requeue",))
    assert "no-requeue" in options_for(gpu, 60)
    assert "requeue" not in options_for(gpu, 60)
    assert "requeue" in options_for(replace(gpu, retries=1), 60)
    assert "no-requeue" not in options_for(replace(gpu, retries=1), 60)


def test_the_beginning_of_a_managed_option_is_refused_as_sbatch_takes_it_for_the_whole() -> None:
    (fault,) = faults(["--parti=x"])
    assert fault.startswith("--parti (short for --partition) is set by hpc-board")


@pytest.mark.parametrize("extra", ["-p x", "comment=x", "--comment x", "--", "", "---x", "-comment=x", "--=x", "--X=1"])
def test_an_extra_that_is_no_long_option_is_refused(extra: str) -> None:
    (fault,) = faults([extra])
    assert "not a long option" in fault


def test_other_faults_of_extras_are_all_named() -> None:
    found = [*extra_faults(["--comment=a\nb", "--comment=", "--nice=1", "--time=5"])]
    told = [(index, message.split()[0]) for index, message in found]
    assert told == [(0, "--comment"), (1, "--comment="), (1, "--comment"), (3, "--time")]


@pytest.mark.parametrize(
    ("style", "value", "wanted"),
    [
        (RequestStyle.GRES, "gpu:h100:1", "gpu:h100:4"),
        (RequestStyle.GRES, "gpu:h100", "gpu:h100:4"),
        (RequestStyle.GRES, "gpu:1", "gpu:4"),
        (RequestStyle.GRES, "gpu", "gpu:4"),
        (RequestStyle.GRES, "gpu:nvidia_h100_80gb_hbm3:1", "gpu:nvidia_h100_80gb_hbm3:4"),
        (RequestStyle.GPUS, "1", "4"),
        (RequestStyle.GPUS, "h100:1", "h100:4"),
        (RequestStyle.GPUS_PER_NODE, "a100:8", "a100:4"),
    ],
)
def test_a_request_asks_for_as_many_gpus_as_a_task_has_ranks(style: RequestStyle, value: str, wanted: str) -> None:
    gpu = with_options(PLAIN, request=Request(style, value))
    assert gpu_options(with_gpus(gpu, 4)).request == Request(style, wanted)
    assert options_for(with_gpus(gpu, 4), 60)[str(style)] == wanted
    assert with_gpus(gpu, 1) is gpu


@pytest.mark.parametrize(
    ("style", "value"),
    [
        (RequestStyle.NONE, ""),
        (RequestStyle.CONSTRAINT, "h100"),
        (RequestStyle.GRES, "gpu:h100:1,shard:2"),
        (RequestStyle.GRES, "gpu:1g.10gb:1"),
    ],
)
def test_a_request_without_a_place_for_a_number_is_refused(style: RequestStyle, value: str) -> None:
    gpu = with_options(PLAIN, request=Request(style, value))
    with pytest.raises(InputError, match="the task needs 2 GPUs, and"):
        with_gpus(gpu, 2)


def test_the_embedded_scheduler_gives_a_job_one_gpu() -> None:
    with pytest.raises(InputError, match="gives each job only one"):
        kind("local").with_gpus(replace(PLAIN, cluster=Cluster("here", "local")), 2)


def test_ranks_on_a_cpu_need_no_request() -> None:
    assert gpu_options(with_gpus(replace(PLAIN, device=Device.CPU), 2)).request == Request()
    emulated = with_options(replace(PLAIN, device=Device.CPU), request=Request(RequestStyle.GRES, "gpu:h100:1"))
    assert gpu_options(with_gpus(emulated, 2)).request.value == "gpu:h100:2"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ""),
        ({"srun": True}, "--cpu-bind=none"),
        ({"gpu_freq": "high"}, "--cpu-bind=none --gpu-freq=high"),
        ({"gpu_freq": "medium,memory=high; rm"}, "--cpu-bind=none '--gpu-freq=medium,memory=high; rm'"),
    ],
)
def test_a_judge_runs_as_a_step_where_the_settings_want_one(options: dict[str, Any], words: str) -> None:
    found = SLURM.step(with_options(PLAIN, **options))
    assert found.endswith(words)
    assert found.startswith("srun --nodes=1 --ntasks=1 ") == bool(words)
