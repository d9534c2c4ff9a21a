"""Settings from what clusters say of themselves, on recorded sinfo and scontrol output of several styles of sites."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from hpc_board import settings
from hpc_board.admin import detect
from hpc_board.domain.cluster_info import ClusterInfo
from hpc_board.domain.diagnostic import Severity
from hpc_board.errors import NotAvailable, SchedulerError
from hpc_board.model.gpu import Device, Gpu
from hpc_board.schedulers.slurm import Request, RequestStyle, gpu_options
from hpc_board.schedulers.slurm.cluster_info import CONFIGURATION, NODES, PARTITIONS, seconds, site
from hpc_board.schedulers.slurm.detection import detected_settings
from hpc_board.schedulers.slurm.sbatch import options_for
from hpc_board.transport import CommandMissing, CommandTimeout, Completed

RECORDED = Path(__file__).parents[2] / "fixtures" / "slurm" / "sites"
SITES = sorted(path.stem for path in RECORDED.glob("*.txt"))


class Recording:
    """A host that answers each command with what a file holds after "$ command"; others fail as scontrol does."""

    def __init__(self, text: str) -> None:
        parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)[1:]
        self.answers: dict[str, Completed | Exception] = {
            command: Completed(0, output, "") for command, output in zip(parts[::2], parts[1::2], strict=True)
        }

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_seconds: float,  # noqa: ARG002 - the protocol's
        env: Mapping[str, str] | None = None,  # noqa: ARG002
        cwd: str | None = None,  # noqa: ARG002
        stdin: str = "",  # noqa: ARG002
        until: Sequence[str] = (),  # noqa: ARG002
    ) -> Completed:
        answer = self.answers.get(" ".join(argv), Completed(1, "", "slurm_load_ctl_conf error: Access denied\n"))
        if isinstance(answer, Exception):
            raise answer
        return answer


def recorded_site(name: str) -> ClusterInfo:
    return site(Recording((RECORDED / f"{name}.txt").read_text()))


@pytest.mark.parametrize("name", SITES)
def test_the_settings_of_a_site_are_those_beside_its_recording(name: str) -> None:
    assert detected_settings(recorded_site(name)).text == (RECORDED / f"{name}.yaml").read_text()


@pytest.mark.parametrize("name", SITES)
def test_the_settings_of_a_site_can_be_read_as_they_are(name: str, tmp_path: Path) -> None:
    detected = detected_settings(recorded_site(name))
    path = tmp_path / "hpc-board.yaml"
    path.write_text(detected.text)
    read = settings.load(path, {})
    assert tuple(gpu.name for gpu in read.gpus) == detected.gpus
    for gpu in read.gpus:
        assert options_for(gpu, 60)["partition"] == gpu.partition


@pytest.mark.parametrize("name", SITES)
def test_an_entry_that_is_commented_can_be_read_when_its_marks_are_taken_away(name: str, tmp_path: Path) -> None:
    detected = detected_settings(recorded_site(name))
    lines = []
    for line in detected.text.splitlines():
        bare = line.removeprefix("  # ")
        is_key = bare != line and re.fullmatch(r"(  )?\"?[A-Za-z0-9_.+-]+\"?:( [^#]*)?", bare)
        lines.append(f"  {bare}" if is_key else line)
    path = tmp_path / "hpc-board.yaml"
    path.write_text("\n".join(lines))
    read = {gpu.name for gpu in settings.load(path, {}).gpus}
    assert read >= set(detected.gpus)
    assert len(read) == len(re.findall(r"^(?:  # )?    *cluster: |^  #   cluster: ", detected.text, re.MULTILINE))


def test_the_order_in_which_slurm_lists_things_changes_nothing() -> None:
    text = (RECORDED / "features.txt").read_text()
    head, *lines = text.splitlines()
    end = next(index for index, line in enumerate(lines) if line.startswith("$"))
    turned = "\n".join([head, *reversed(lines[:end]), *lines[end:], ""])
    assert detected_settings(site(Recording(turned))) == detected_settings(site(Recording(text)))


def test_a_typed_gpu_is_asked_for_by_its_type_and_an_untyped_one_by_a_feature_beside(tmp_path: Path) -> None:
    path = tmp_path / "hpc-board.yaml"
    found: dict[tuple[str, str], Gpu] = {}
    for name in ("autodetect", "features"):
        path.write_text((RECORDED / f"{name}.yaml").read_text())
        found |= {(name, gpu.name): gpu for gpu in settings.load(path, {}).gpus}
    typed, untyped = found["autodetect", "H100"], found["features", "A100-40GB"]
    assert gpu_options(typed).request == Request(RequestStyle.GRES, "gpu:nvidia_h100_80gb_hbm3:1")
    asked = gpu_options(untyped)
    assert (asked.request.value, asked.constraint) == ("gpu:1", "GPU_SKU:A100_SXM4&GPU_MEM:40GB")
    assert found["features", "CPU"].device is Device.CPU


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("", "State=DOWN"),
        ("", "RootOnly=YES"),
        ("", "ReqResv=YES"),
        ("", "AllowAccounts=lab"),
        ("AllowAccounts=ALL AllowGroups=ALL AllowQos=ALL", "AllowQos=high"),
        ("PreemptMode=OFF", "PreemptMode=REQUEUE"),
    ],
)
def test_of_partitions_with_the_same_gpus_one_that_takes_everybody_s_jobs_is_chosen(better: str, worse: str) -> None:
    rows = "n1|a|up|idle|8|infinite|gpu:h100:1||\nn1|b|up|idle|8|infinite|gpu:h100:1||\n"
    rows += "n2|a|up|idle|8|infinite|gpu:h100:1||\n"
    recording = Recording("")
    recording.answers[" ".join(NODES)] = Completed(0, rows, "")
    assert "partition: a\n" in detected_settings(site(recording)).text
    described = f"PartitionName=a {worse}\nPartitionName=b {better}\n"
    recording.answers[" ".join(PARTITIONS)] = Completed(0, described, "")
    assert "partition: b\n" in detected_settings(site(recording)).text


ROW = "n1|gpu|up|idle|8|1:00:00|gpu:{type}:1|{features}|\n"


@pytest.mark.parametrize(
    ("gres_type", "features"),
    [
        ("h100\x1b]0;x\x07", "a"),
        ('h100"}, python: "/bin/sh', "a"),
        ("h100", "a\u2028b,h100\x85"),
        ("h100", "\ufffe\U0001f600"),
        ("h100" * 100, "a100" * 400),
        ("null", "~"),
    ],
)
def test_what_a_cluster_prints_adds_no_line_and_no_key(gres_type: str, features: str, tmp_path: Path) -> None:
    rows = ROW.format(type=gres_type, features=features) + "n1|a: b #|up|idle|8|infinite|gpu:a100:1||\n"
    recording = Recording("")
    recording.answers[" ".join(NODES)] = Completed(0, rows, "")
    detected = detected_settings(site(recording))
    assert detected.text.isascii()
    assert detected.text.replace("\n", "").isprintable()
    path = tmp_path / "hpc-board.yaml"
    path.write_text(detected.text)
    assert {gpu.python for gpu in settings.load(path, {}).gpus} <= {"python3", *_local_pythons()}
    assert set(detected.gpus) <= {"H100"}


def _local_pythons() -> set[str]:
    return {gpu.python for gpu in settings.load(None, {}).gpus}


def test_a_cluster_without_a_certain_entry_gives_comments_alone(tmp_path: Path) -> None:
    recording = Recording("")
    recording.answers[" ".join(NODES)] = Completed(0, "n1|gpu|up|idle|8|infinite|gpu:kepler:2|(null)|\n", "")
    detected = detect.detected_settings(recording, cluster="mine")
    assert detected.gpus == ()
    assert [(each.severity, each.subject) for each in detected.diagnostics] == [(Severity.WARNING, "gpus")]
    assert all(line.lstrip().startswith("#") for line in detected.text.splitlines() if line)
    assert "#   mine: {scheduler: slurm}" in detected.text
    path = tmp_path / "hpc-board.yaml"
    path.write_text(detected.text)
    assert settings.load(path, {}).gpus


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (CommandMissing("sinfo is not here"), NotAvailable, "cannot be run"),
        (CommandTimeout("late"), SchedulerError, "did not answer within 60 s"),
        (Completed(1, "", "slurm_load_partitions: Unable to contact slurm controller"), SchedulerError, "Unable to"),
        (
            Completed(1, "", "sinfo: error: fetch_config: DNS SRV lookup failed\nsinfo: fatal: Could not establish"),
            NotAvailable,
            "sinfo finds no slurm.conf here",
        ),
        (Completed(0, "Welcome to the cluster\n", ""), SchedulerError, "something other than its table"),
        (Completed(0, "n1|p|", "", truncated=True), SchedulerError, "exceeds the limit"),
    ],
)
def test_a_sinfo_that_fails_is_an_error_with_its_words(
    answer: Completed | Exception, error: type[SchedulerError], words: str
) -> None:
    recording = Recording("")
    recording.answers[" ".join(NODES)] = answer
    with pytest.raises(error, match=words) as raised:
        site(recording)
    assert raised.value.title == ("The scheduler is not available" if error is NotAvailable else "The scheduler failed")


def test_no_more_cpus_are_proposed_than_a_node_has() -> None:
    recorded = (RECORDED / "typed.txt").read_text()
    assert "    cpus_per_task: 2    # the judge and the kernel; " in cpu_entry(recorded)
    small = re.sub(r"\|([a-z*]+)\|[0-9]+\|([^|]*)\|\(null\)\|", r"|\1|1|\2|(null)|", recorded)
    assert small != recorded
    assert "cpus_per_task" not in cpu_entry(small)


def cpu_entry(recorded: str) -> str:
    return detected_settings(site(Recording(recorded))).text.partition("\n  CPU:\n")[2]


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ("DefMemPerCPU=1000", ["cpus_per_task: 2", "memory: 4000M    # without it a job gets 2000 MiB"]),
        ("DefMemPerCPU=2000", ["cpus_per_task: 2"]),
        ("DefMemPerNode=800", ["cpus_per_task: 2", "memory: 4000M    # without it a job gets 800 MiB"]),
        ("DefMemPerNode=UNLIMITED", ["cpus_per_task: 2"]),
        ("DefMemPerCPU=1000 JobDefaults=DefCpuPerGPU=8,DefMemPerGPU=16000", []),
        ("DefMemPerCPU=100 JobDefaults=DefCpuPerGPU=8", ["memory: 4000M    # without it a job gets 800 MiB"]),
        (
            "DefMemPerCPU=100 MaxMemPerNode=3000",
            [
                "cpus_per_task: 2",
                "memory: 3000M    # the partition's maximum; ranked runs may need 4000 MiB",
            ],
        ),
        (
            "DefMemPerCPU=500 MaxMemPerCPU=1000",
            ["cpus_per_task: 4", "memory: 4000M    # without it a job gets 2000 MiB"],
        ),
    ],
)
@pytest.mark.parametrize("of", ["partition", "cluster"])
def test_an_entry_asks_for_cpus_and_memory_where_the_default_would_not_do(
    fields: str, lines: list[str], of: str
) -> None:
    recorded = re.sub(
        r"DefMemPer(CPU|Node)=\S+|MaxMemPer(CPU|Node)=\S+|JobDefaults=\S+", "", (RECORDED / "lab-22.05.txt").read_text()
    )
    recorded = re.sub(r"(?m)^(DefMemPer|MaxMemPer|JobDefaults).*\n", "", recorded)
    if of == "partition":
        recorded = re.sub(r"(?m)^(PartitionName=\S+)", rf"\1 {fields}", recorded)
    else:
        settings = "".join(f"{field.replace('=', ' = ', 1)}\n" for field in fields.split(" "))
        recorded = recorded.replace("SelectTypeParameters", f"{settings}SelectTypeParameters")
    entry = detected_settings(site(Recording(recorded))).text.partition("\n  H100:\n")[2].partition("\n\n")[0]
    found = [line.strip() for line in entry.splitlines() if re.match("    (cpus_per_task|memory)", line)]
    assert [line.partition("    # the judge")[0] for line in found] == lines


def test_a_scontrol_that_fails_is_named_as_not_known() -> None:
    recording = Recording((RECORDED / "typed.txt").read_text())
    recording.answers[" ".join(PARTITIONS)] = CommandMissing("scontrol is not here")
    recording.answers[" ".join(CONFIGURATION)] = CommandTimeout("late")
    text = detected_settings(site(recording)).text
    assert "# Unknown: scontrol cannot be run: scontrol is not here." in text
    assert "# Unknown: scontrol did not answer within 60 s." in text


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("infinite", None),
        ("UNLIMITED", None),
        ("n/a", None),
        ("", None),
        ("30", 1800),
        ("30:00", 1800),
        ("1:00:00", 3600),
        ("01:30:15", 5415),
        ("2-00:00:00", 172_800),
        ("1-12", 129_600),
        ("0:00", None),
        ("x", None),
    ],
)
def test_a_time_limit_is_read_as_slurm_prints_it(text: str, limit: int | None) -> None:
    assert seconds(text) == limit
