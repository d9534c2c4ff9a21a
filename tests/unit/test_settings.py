"""Settings: found in a fixed order, read strictly, with every fault of the file at once."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from hpc_board import bundled
from hpc_board.domain.job_options import time_limit_seconds
from hpc_board.domain.service_address import SshAddress
from hpc_board.errors import DocumentError, InputError
from hpc_board.model.gpu import (
    Cluster,
    ContainerRuntime,
    Device,
    Gpu,
    JobContainer,
    Login,
    Sandbox,
    SandboxRuntime,
)
from hpc_board.schedulers import kind_of
from hpc_board.schedulers.slurm import ClusterOptions, GpuOptions, Request, RequestStyle
from hpc_board.settings import Settings, load, machine_gpu_names
from hpc_board.settings_file import Found, find
from tests.conftest import short_folder
from tests.unit.users import NEEDS_ROOT, another_user

FULL = """\
board: boards/ours
tasks: [tasks, bundled]
clusters:
  main: {scheduler: slurm, client: cli, poll_seconds: 30, allow_root: true}
  box: {scheduler: local}
gpus:
  H100:
    cluster: main
    partition: gpu-h100
    request: {style: gres, value: "gpu:h100:1"}
    arch: sm_90a
    std: c++17
    include: [/opt/cutlass/include]
    device: cuda
    time: "00:20:00"
    account: kernels
    qos: high
    constraint: "ib&nvlink"
    reservation: class
    nodelist: "node[01-04]"
    exclude: node09
    cpus_per_task: 8
    memory: 32G
    exclusive: true
    gpu_freq: high
    modules: [cuda/13.0]
    python: /shared/envs/torch/bin/python
    env: {OMP_NUM_THREADS: 8, MODE: on}
    sbatch: ["--comment=kernels"]
    template: job.sh.j2
  CPU: {cluster: box}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "hpc-board.yaml"
    path.write_text(text)
    return path


def faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(DocumentError) as caught:
        load(written(folder, text), {})
    assert caught.value.exit_code == 2
    assert caught.value.hint == "Correct these lines of the settings file."
    return [str(fault) for fault in caught.value.faults]


def gpu_faults(folder: Path, keys: str, *, scheduler: str = "slurm", name: str = "H100") -> list[str]:
    partition = ", partition: p" if scheduler == "slurm" else ""
    clusters = f"clusters: {{main: {{scheduler: {scheduler}}}}}"
    return faults(folder, f"{clusters}\ngpus:\n  {name}: {{cluster: main{partition}, {keys}}}\n")


def test_jobs_of_another_account_have_a_folder_of_their_own(tmp_path: Path) -> None:
    text = (
        "jobs: {account: hpcboard-run, folder: /srv/jobs}\n"
        "clusters:\n  main: {scheduler: slurm}\n"
        "  far: {scheduler: slurm, ssh: {host: login2}, board_folder: /scratch/board}\n"
        "gpus: {H100: {cluster: main, partition: p}}\n"
    )
    main, far = load(written(tmp_path, text), {}).clusters
    assert (main.account, main.board_folder) == ("hpcboard-run", "/srv/jobs")
    assert (far.account, far.board_folder) == ("", "/scratch/board")


@pytest.mark.parametrize(
    ("jobs", "cluster", "fault"),
    [
        ("{account: run}", "slurm", "jobs.folder: is missing; jobs of run need their own folder"),
        ("{folder: /jobs}", "slurm", "jobs.folder: requires `account`; without it, `board` is the folder for jobs"),
        (
            "{account: run, folder: jobs}",
            "slurm",
            'such as /scratch/alice/board, found "jobs"',
        ),
        (
            "{account: run, folder: /a/../b}",
            "slurm",
            'such as /scratch/alice/board, found "/a/../b"',
        ),
        ("{account: '@staff', folder: /jobs}", "slurm", "the name of a Unix user"),
        ("{account: -u, folder: /jobs}", "slurm", "the name of a Unix user"),
        (
            "{account: run, folder: /jobs}",
            "local",
            "jobs.account: requires Slurm; cluster main runs its",
        ),
        ("{account: run, folder: /jobs}", "slurm, client: pyslurm", "pyslurm submits jobs only as this account"),
    ],
)
def test_a_fault_in_jobs_is_told(tmp_path: Path, jobs: str, cluster: str, fault: str) -> None:
    partition = "" if cluster == "local" else ", partition: p"
    text = f"jobs: {jobs}\nclusters: {{main: {{scheduler: {cluster}}}}}\ngpus: {{X: {{cluster: main{partition}}}}}\n"
    assert fault in faults(tmp_path, text)[0]


def test_every_key_of_the_settings_arrives(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "job.sh.j2").touch()
    main, box = (
        Cluster("main", "slurm", 30.0, allow_root=True, scheduler_options=ClusterOptions()),
        Cluster("box", "local", 0.5),
    )
    assert load(written(tmp_path, FULL), {"XDG_STATE_HOME": str(tmp_path / "state")}) == Settings(
        board=tmp_path / "boards/ours",
        devices=tmp_path / "state/hpc-board/devices",
        tasks=(tmp_path / "tasks", bundled.folder("tasks")),
        clusters=(main, box),
        gpus=(
            Gpu(
                name="H100",
                cluster=main,
                device=Device.CUDA,
                partition="gpu-h100",
                arch="sm_90a",
                std="c++17",
                include=("/opt/cutlass/include",),
                time_limit_seconds=1200,
                modules=("cuda/13.0",),
                python="/shared/envs/torch/bin/python",
                env={"OMP_NUM_THREADS": "8", "MODE": "on"},
                template=str(tmp_path / "job.sh.j2"),
                scheduler_options=GpuOptions(
                    request=Request(RequestStyle.GRES, "gpu:h100:1"),
                    account="kernels",
                    qos="high",
                    constraint="ib&nvlink",
                    reservation="class",
                    nodelist="node[01-04]",
                    exclude="node09",
                    cpus_per_task=8,
                    memory="32G",
                    exclusive=True,
                    gpu_freq="high",
                    sbatch=("--comment=kernels",),
                ),
            ),
            Gpu("CPU", box, Device.CPU, python=sys.executable),
        ),
        file=tmp_path / "hpc-board.yaml",
    )


@pytest.mark.parametrize("address", ["127.0.0.1:8080", "[::1]:80", "localhost:65535", "0.0.0.0:1"])
def test_the_address_of_the_page_arrives(tmp_path: Path, address: str) -> None:
    settings = load(written(tmp_path, f"serve: {{web: '{address}', metrics: true}}"), {"HOME": "/home/ada"})
    assert (settings.web, settings.web_metrics) == (address, True)


@pytest.mark.parametrize(
    "address",
    [
        *("8080", ":8080", "127.0.0.1", "127.0.0.1:0", "evil.example:80", "::1:80", "1.2.3.4:x"),
        *("127.0.0.01:80", "256.0.0.1:80", "[127.0.0.1]:80", "[::1::]:80", "127.0.0.1:65536"),
    ],
)
def test_a_text_that_is_no_address_of_the_page_is_a_fault(tmp_path: Path, address: str) -> None:
    (fault,) = faults(tmp_path, f"serve: {{web: '{address}'}}")
    assert fault.startswith("line 1: serve.web: ")
    assert "127.0.0.1:8080 or [::1]:8080" in fault


def test_metrics_on_tcp_need_an_address(tmp_path: Path) -> None:
    assert faults(tmp_path, "serve: {metrics: true}") == ["line 1: serve.metrics: requires `web`, the address for it"]


def test_the_name_of_the_page_arrives_and_is_a_name_alone(tmp_path: Path) -> None:
    environ = {"HOME": "/home/ada"}
    assert load(written(tmp_path, "serve: {web_host: boards.site.org}"), environ).web_host == "boards.site.org"
    for text in ("https://boards.site.org", "boards.site.org:80", "-x", "a b"):
        (fault,) = faults(tmp_path, f"serve: {{web_host: '{text}'}}")
        assert fault.startswith("line 1: serve.web_host: ")


@pytest.mark.parametrize(
    ("scheduler", "allow_root", "judges"),
    [("slurm", "", False), ("slurm", "true", True), ("local", "", True), ("local", "false", False)],
)
def test_root_judges_on_its_own_machine_and_on_a_cluster_that_says_so(
    tmp_path: Path, scheduler: str, allow_root: str, judges: bool
) -> None:
    key = f", allow_root: {allow_root}" if allow_root else ""
    partition = ", partition: p" if scheduler == "slurm" else ""
    text = f"clusters: {{main: {{scheduler: {scheduler}{key}}}}}\ngpus: {{L4: {{cluster: main{partition}}}}}"
    (cluster,) = load(written(tmp_path, text), {"HOME": "/home/ada"}).clusters
    assert kind_of(cluster).judges_as_root(cluster) is judges


def test_keys_that_are_left_out_take_their_defaults(tmp_path: Path) -> None:
    text = "clusters: {main: {scheduler: slurm}}\ngpus: {L4: {cluster: main, partition: p}}"
    settings = load(written(tmp_path, text), {"HOME": "/home/ada"})
    assert settings.board == Path("/home/ada/.local/share/hpc-board")
    assert settings.tasks == (bundled.folder("tasks"),)
    main = Cluster("main", "slurm", poll_seconds=15, scheduler_options=ClusterOptions())
    assert settings.gpus == (Gpu("L4", main, Device.CUDA, "p", scheduler_options=GpuOptions()),)


def test_without_a_file_this_machine_is_the_board(tmp_path: Path) -> None:
    settings = load(None, {"XDG_DATA_HOME": str(tmp_path)})
    here = Cluster("local", "local", poll_seconds=0.5)
    assert settings.board == tmp_path / "hpc-board"
    assert settings.tasks == (bundled.folder("tasks"),)
    assert settings.clusters == (here,)
    assert [gpu.name for gpu in settings.gpus] == [*machine_gpu_names(), "CPU"]
    assert settings.gpus[-1] == Gpu("CPU", here, Device.CPU, python=sys.executable)
    assert settings.file is None


def test_a_file_without_clusters_and_gpus_uses_those_of_this_machine(tmp_path: Path) -> None:
    settings = load(written(tmp_path, "board: b"), {})
    assert settings.board == tmp_path / "b"
    assert settings.gpus == load(None, {}).gpus


def test_a_service_on_another_machine_has_an_address(tmp_path: Path) -> None:
    settings = load(written(tmp_path, "service: ssh://login1/run/board.sock"), {})
    assert settings.service == SshAddress("login1", "/run/board.sock")


def test_a_service_on_this_machine_has_a_path(tmp_path: Path) -> None:
    assert load(written(tmp_path, "service: run/board.sock"), {}).service == tmp_path / "run/board.sock"


def test_a_text_that_is_no_address_of_a_service_is_named_with_its_line(tmp_path: Path) -> None:
    assert faults(tmp_path, "# ours\nservice: http://login1:7411") == [
        (
            "line 2: service: expected the full path of a socket, or ssh://[USER@]HOST[:PORT]/PATH[?command=PATH], "
            'found "http://login1:7411"'
        )
    ]
    assert faults(tmp_path, "service: ssh://login1:70000/run/b") == [
        'line 1: service: expected a port from 1 to 65535, found "ssh://login1:70000/run/b"'
    ]


def test_a_home_folder_in_a_path_is_expanded(tmp_path: Path) -> None:
    assert load(written(tmp_path, "board: ~/b"), {}).board == Path.home() / "b"


def test_a_path_that_climbs_is_shown_without_its_detour_unless_a_link_is_on_the_way(tmp_path: Path) -> None:
    own, far = tmp_path / "own", tmp_path / "far/away"
    own.mkdir()
    far.mkdir(parents=True)
    (own / "link").symlink_to(far)
    assert load(written(own, "board: ../b"), {}).board == tmp_path / "b"
    assert load(own / "../own/hpc-board.yaml", {}).board == tmp_path / "b"
    assert load(written(own, "board: link/../b"), {}).board.resolve() == tmp_path / "far/b"
    assert faults(tmp_path, "board: ~nobody-of-this-name/b") == [
        'line 1: board: unknown home folder in "~nobody-of-this-name/b"'
    ]


def test_all_faults_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    text = """\
taskz: [bundled]
tasks: [missing]
clusters:
  main: {scheduler: slurm}
  other: {scheduler: slrum}
gpus:
  H100: {cluster: mian, partition: a}
  L4: {cluster: main}
  T4: {cluster: other, partition: p}
"""
    found = faults(tmp_path, text)
    assert [": ".join(line.split(": ")[:2]) for line in found] == [
        "line 1: taskz",
        "line 2: tasks[0]",
        "line 5: clusters.other.scheduler",
        "line 7: gpus.H100.cluster",
        "line 8: gpus.L4.partition",
    ]
    assert found[0].startswith('line 1: taskz: is not a known key. Did you mean "tasks"?')
    assert found[1] == f"line 2: tasks[0]: {tmp_path}/missing is not a folder"
    assert found[3] == ('line 7: gpus.H100.cluster: unknown cluster "mian". Did you mean "main"? Clusters: main, other')


def test_a_cluster_with_faults_is_named_among_the_clusters(tmp_path: Path) -> None:
    text = "clusters: {here: {scheduler: locl}}\ngpus: {CPU: {cluster: her, device: cpu}}\n"
    scheduler, cluster = faults(tmp_path, text)
    assert scheduler.startswith("line 1: clusters.here.scheduler: ")
    assert cluster == 'line 2: gpus.CPU.cluster: unknown cluster "her". Did you mean "here"? Clusters: here'


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ("device: tpu", 'device: expected one of cuda, hip, cpu, found "tpu".'),
        ("request: {style: gres}", 'request.value: is missing; style gres needs one, such as "gpu:1"'),
        (
            "request: {style: none, value: x}",
            "request.value: is set, but style none makes no request",
        ),
        (
            "gpu_freq: high",
            "gpu_freq: requires a `request` for a number of GPUs: Slurm sets the clocks only of requested GPUs",
        ),
        (
            "gpu_freq: high, request: {style: constraint, value: a}",
            "gpu_freq: requires a `request` for a number of GPUs",
        ),
        ("cpus_per_task: 0", 'cpus_per_task: expected a whole number from 1, found "0".'),
        ("memory: lots", 'memory: expected an amount of memory such as "16G", found "lots".'),
        ("account: 'a b'", "account: expected a value for sbatch"),
        ("account: --wrap=x", "account: expected a value for sbatch"),
        ("reservation: 'x\n\n  #SBATCH'", "reservation: expected a value for sbatch"),
        ('python: "a\\nb"', "python: expected one line of text"),
        ('python: "a\\e[31mb"', "python: contains a control character"),
        ("env: {A-B: x}", "env.A-B: expected the name of an environment variable"),
        ("env: {A: [x]}", "env.A: expected one line of text, found a list."),
        ("modules: cuda", "modules: expected a list"),
        ("sbatch: ['--partition=x']", "sbatch[0]: --partition is set by hpc-board"),
        ("sbatch: [--nice=1, --contiguous, --nice=2]", "sbatch[2]: --nice is given twice"),
        ("template: missing.j2", "template: "),
        ("container: {runtime: docker, image: a.sif}", "container.runtime: expected one of apptainer, pyxis, enroot"),
        ("container: {runtime: apptainer}", "container.image: is missing"),
        ("container: {runtime: enroot, image: --rw}", 'container.image: "--rw" would be read as an option'),
        ("include: [cutlass]", "include[0]: expected the full path of a folder"),
        ("include: ['/a,b']", "include[0]: expected the full path of a folder"),
        ("std: c++11", "std: expected one of c++14, c++17, c++20, c++23"),
        ("container: {runtime: enroot, image: a, mounts: [data]}", "container.mounts[0]: expected the full path"),
        ("container: {runtime: enroot, image: a, mounts: ['/a b']}", "container.mounts[0]: expected the full path"),
        (
            "container: {runtime: enroot, image: a}, sandbox: {runtime: apptainer, image: b}",
            "container: conflicts with gpus.H100.sandbox",
        ),
    ],
)
def test_a_value_that_a_gpu_cannot_have_is_named(tmp_path: Path, keys: str, fault: str) -> None:
    (found,) = gpu_faults(tmp_path, keys)
    assert found.split(": ", 1)[1].startswith(f"gpus.H100.{fault}")


@pytest.mark.parametrize(
    ("cluster", "fault"),
    [
        ("scheduler: local, client: pyslurm", "client: is not a known key. Allowed: scheduler, poll_seconds"),
        ("scheduler: slurm, pyslurm_python: /x", "pyslurm_python: is set although client is not pyslurm"),
        ("scheduler: slurm, slurm_conf: west.conf", "slurm_conf: expected a full path, such as"),
        ("scheduler: slurm, slurm_cluster: all", "slurm_cluster: expected the name of one of Slurm's clusters"),
        ("scheduler: slurm, slurm_cluster: 'a,b'", "slurm_cluster: expected the name of one of Slurm's clusters"),
        (
            "scheduler: slurm, client: pyslurm, slurm_cluster: a",
            "client: pyslurm queries only the cluster of one slurm.conf",
        ),
        ("scheduler: local, slurm_conf: /a", "slurm_conf: is not a known key. Allowed: scheduler"),
        ("scheduler: slurm, ssh: {host: login2}", "board_folder: is missing; with `ssh`, it is the cluster"),
        ("scheduler: slurm, board_folder: /x", "board_folder: requires `ssh`"),
        ("scheduler: slurm, board_folder: x, ssh: {host: a}", "board_folder: expected a full path such as"),
        ("scheduler: slurm, board_folder: /a/../b, ssh: {host: a}", "board_folder: expected a full path such as"),
        ("scheduler: slurm, board_folder: /, ssh: {host: a}", "board_folder: expected a full path such as"),
        ("scheduler: slurm, board_folder: /x, ssh: {user: a}", "ssh.host: is missing; expected a name without spaces"),
        ("scheduler: slurm, board_folder: /x, ssh: {host: -oProxyCommand=id}", "ssh.host: expected a name"),
        ("scheduler: slurm, board_folder: /x, ssh: {host: a, user: 'a b'}", "ssh.user: expected a name"),
        ("scheduler: slurm, board_folder: /x, ssh: {host: a, port: 65536}", "ssh.port: expected a port number"),
        ("scheduler: slurm, board_folder: /x, ssh: {host: a, key: none}", "ssh.key: "),
        (
            "scheduler: slurm, board_folder: /x, ssh: {host: a, proxy_jump: b, proxy_command: c}",
            "ssh.proxy_command: conflicts with `proxy_jump`",
        ),
        (
            "scheduler: local, ssh: {host: a}",
            "ssh: is not a known key. Allowed: scheduler",
        ),
        ("scheduler: slurm, poll_seconds: 0.5", "poll_seconds: expected at least 1 second"),
        ("scheduler: local, poll_seconds: 0", "poll_seconds: expected a number of seconds"),
        ("scheduler: local, poll_seconds: .nan", "poll_seconds: expected a number of seconds"),
        ("client: cli", "scheduler: is missing; expected one of slurm, local"),
    ],
)
def test_a_value_that_a_cluster_cannot_have_is_named(tmp_path: Path, cluster: str, fault: str) -> None:
    text = f"clusters: {{main: {{{cluster}}}}}\ngpus: {{A: {{cluster: main, partition: p}}}}"
    if "local" in cluster:
        text = text.replace(", partition: p", "")
    (found,) = faults(tmp_path, text)
    assert found.startswith(f"line 1: clusters.main.{fault}")


def test_a_cluster_over_ssh_has_its_login_and_its_folder(tmp_path: Path) -> None:
    (tmp_path / "key").touch()
    path = tmp_path / "hpc-board.yaml"
    path.write_text(
        "clusters: {far: {scheduler: slurm, board_folder: /scratch/alice/board, ssh: {host: login2, user: alice,"
        " port: 2222, key: key, proxy_jump: 'bob@gate:22,inner'}}}\ngpus: {A: {cluster: far, partition: p}}\n"
    )
    (cluster,) = load(path, {}).clusters
    assert cluster.ssh == Login("login2", "alice", 2222, str(tmp_path / "key"), "bob@gate:22,inner")
    assert cluster.board_folder == "/scratch/alice/board"


def test_an_image_on_another_machine_needs_a_full_path(tmp_path: Path) -> None:
    text = (
        "clusters: {far: {scheduler: slurm, board_folder: /x, ssh: {host: a}}}\n"
        "gpus: {A: {cluster: far, partition: p, sandbox: {runtime: apptainer, image: IMAGE}}}"
    )
    (found,) = faults(tmp_path, text.replace("IMAGE", "~/k.sif"))
    assert found.startswith("line 2: gpus.A.sandbox.image: expected a full path")
    assert load(written(tmp_path, text.replace("IMAGE", "/shared/k.sif")), {}).gpus


def test_what_only_slurm_understands_is_refused_on_a_local_cluster(tmp_path: Path) -> None:
    found = gpu_faults(tmp_path, "partition: p, account: a, sbatch: [--x], time: 5", scheduler="local")
    assert [line.partition(" known key")[0] for line in found] == [
        f"line 3: gpus.H100.{key}: is not a" for key in ("partition", "account", "sbatch")
    ]


@pytest.mark.parametrize("name", ["-x", "'a b'", "x/y", "é", "x" * 65, '"a\\nb"', "''"])
def test_a_name_that_cannot_be_written_safely_is_refused(tmp_path: Path, name: str) -> None:
    (found,) = gpu_faults(tmp_path, "time: 5", name=name)
    assert found.isprintable()
    assert "gpus" in found


def test_gpu_names_that_people_would_confuse_are_refused(tmp_path: Path) -> None:
    text = "clusters: {b: {scheduler: local}}\ngpus: {L4: {cluster: b}, l4: {cluster: b}, All: {cluster: b}}"
    assert faults(tmp_path, text) == [
        "line 2: gpus.l4: differs from L4 only in case",
        'line 2: gpus.All: is reserved: "all" means every GPU',
    ]


def test_a_board_has_at_least_one_gpu(tmp_path: Path) -> None:
    assert faults(tmp_path, "clusters: {b: {scheduler: local}}") == [
        "gpus: no GPU is defined; a board needs at least one"
    ]


def test_a_gpu_whose_jobs_run_on_the_cpu_is_emulated(tmp_path: Path) -> None:
    text = "clusters: {b: {scheduler: local}}\ngpus: {H100: {cluster: b, device: cpu}, cpu: {cluster: b}}"
    assert [gpu.emulated for gpu in load(written(tmp_path, text), {}).gpus] == [True, False]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("20", 1200),
        ("10:30", 630),
        ("90:00", 5400),
        ("01:02:03", 3723),
        ("2-3", 183_600),
        ("1-00:30", 88_200),
        ("0-01:00:01", 3601),
    ],
)
def test_a_time_limit_is_read_as_slurm_reads_it(text: str, seconds: int) -> None:
    assert time_limit_seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "0", "0-0", "UNLIMITED", "-5", "1:2:3:4", "1-", "5 ", "1.5", "9999-0", "٣", "1-1:1:1:1"]
)
def test_what_is_no_time_limit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a time up to a year"):
        time_limit_seconds(text)


def test_the_gpus_of_the_driver_are_listed_once_each(tmp_path: Path) -> None:
    for index, model in enumerate(["NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", "NVIDIA L4"]):
        folder = tmp_path / f"0000:{index:02}:00.0"
        folder.mkdir()
        (folder / "information").write_text(f"Model: \t\t {model}\nIRQ:   \t\t 17\nGPU UUID: \t GPU-0\n")
    assert machine_gpu_names(tmp_path) == ("H100", "L4")
    assert machine_gpu_names(tmp_path / "missing") == ()


def path_found(explicit: Path | None, environ: Mapping[str, str], cwd: Path) -> Path | None:
    found = find(explicit, environ, cwd)
    return found.path if isinstance(found, Found) else found


def test_the_settings_file_is_searched_in_a_fixed_order(tmp_path: Path) -> None:
    cwd, own = tmp_path / "cwd", tmp_path / "config/hpc-board/config.yaml"
    variable, option = tmp_path / "variable.yaml", tmp_path / "option.yaml"
    cwd.mkdir()
    own.parent.mkdir(parents=True)
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    own.touch()
    assert path_found(None, environ, cwd) == own
    assert path_found(None, {"HOME": str(tmp_path)}, cwd) in (None, Path("/etc/hpc-board/config.yaml"))
    (cwd / "hpc-board.yaml").touch()
    assert path_found(None, environ, cwd) == cwd / "hpc-board.yaml"
    variable.touch()
    environ["HPC_BOARD_CONFIG"] = str(variable)
    assert find(None, environ, cwd) == variable
    option.touch()
    assert find(option, environ, cwd) == option


def test_the_default_configuration_folder_is_in_the_home_folder(tmp_path: Path) -> None:
    own = tmp_path / ".config/hpc-board/config.yaml"
    own.parent.mkdir(parents=True)
    own.touch()
    assert path_found(None, {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "relative"}, tmp_path) == own


@pytest.mark.parametrize(
    ("option", "environ", "origin"),
    [(Path("/nowhere/a.yaml"), {}, "--config"), (None, {"HPC_BOARD_CONFIG": "/nowhere/b.yaml"}, "HPC_BOARD_CONFIG")],
)
def test_a_file_that_is_named_outright_must_exist(
    tmp_path: Path, option: Path | None, environ: Mapping[str, str], origin: str
) -> None:
    with pytest.raises(InputError, match="the settings file does not exist") as caught:
        find(option, environ, tmp_path)
    assert origin in caught.value.message
    assert origin in caught.value.hint


@pytest.mark.root
@NEEDS_ROOT
def test_a_path_behind_a_folder_that_one_may_not_enter_is_a_fault_of_its_key() -> None:
    with short_folder() as folder:
        (folder / "closed").mkdir(mode=0o700)
        (folder / "closed" / "tasks").mkdir()
        (folder / "closed" / "job.sh.j2").touch()
        text = "tasks: [closed/tasks]\nclusters: {b: {scheduler: local}}\n"
        text += "gpus: {L4: {cluster: b, template: closed/job.sh.j2}}\n"
        file = written(folder, text)
        with another_user(), pytest.raises(DocumentError) as caught:
            load(file, {})
        assert [str(fault) for fault in caught.value.faults] == [
            f"line 1: tasks[0]: {folder}/closed/tasks cannot be reached: Permission denied",
            f"line 3: gpus.L4.template: {folder}/closed/job.sh.j2 cannot be reached: Permission denied",
        ]


# Files that another account may change

ONLY_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
STRANGER = 12345
OWN, OTHER = "board: mine\n", "board: theirs\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home folder of a user, whose settings lie below it, and who works in its folder `work`."""
    (tmp_path / "home" / ".config" / "hpc-board").mkdir(parents=True)
    (tmp_path / "home" / "work").mkdir()
    return tmp_path / "home"


def loaded(home: Path, explicit: Path | None = None, **environ: str) -> Settings:
    variables = {"HOME": str(home), **environ}
    return load(find(explicit, variables, home / "work"), variables)


PLACES = ["work/hpc-board.yaml", ".config/hpc-board/config.yaml"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mode", [0o666, 0o664, 0o602])
def test_settings_that_others_may_write_are_refused_unless_the_user_names_them(
    home: Path, place: str, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpc_board.accounts.private_group", lambda _: None)
    file = home / place
    file.write_text(OWN)
    assert loaded(home).board == file.parent / "mine"
    file.chmod(mode)
    with pytest.raises(InputError, match=rf"is writable by others \(mode {mode:o}\)") as caught:
        loaded(home)
    assert str(file) in caught.value.message
    assert "chmod go-w" in caught.value.hint
    assert "--config FILE" in caught.value.hint
    assert loaded(home, explicit=file).board == file.parent / "mine"
    assert loaded(home, HPC_BOARD_CONFIG=str(file)).board == file.parent / "mine"


@pytest.mark.parametrize("place", PLACES)
def test_settings_below_a_folder_that_others_may_write_are_refused(home: Path, place: str) -> None:
    file = home / place
    file.write_text(OWN)
    file.parent.chmod(0o777)
    with pytest.raises(InputError, match=rf"{file.parent} is writable by others"):
        loaded(home)
    file.parent.chmod(0o1777)
    assert loaded(home).board == file.parent / "mine"


def test_a_private_group_may_write_settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = home / "work" / "hpc-board.yaml"
    file.write_text(OWN)
    file.chmod(0o664)
    monkeypatch.setattr("hpc_board.accounts.private_group", lambda _: file.stat().st_gid)
    assert loaded(home).board.name == "mine"


@pytest.mark.parametrize("place", PLACES)
def test_a_link_to_settings_is_as_safe_as_the_folder_that_it_leads_to(home: Path, place: str) -> None:
    shared = home / "shared"
    shared.mkdir()
    (shared / "config.yaml").write_text(OWN)
    (home / place).symlink_to("../" * (len(Path(place).parts) - 1) + "shared/config.yaml")
    assert loaded(home).board.name == "mine"
    shared.chmod(0o777)
    with pytest.raises(InputError, match=rf"{shared} is writable by others"):
        loaded(home)


def test_settings_that_are_exchanged_after_the_check_are_not_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = home / "work" / "hpc-board.yaml"
    file.write_text(OWN)
    file.chmod(0o664)
    gid = file.stat().st_gid

    def exchange(_: int) -> int:
        (home / "other.yaml").write_text(OTHER)
        (home / "other.yaml").replace(file)
        return gid

    monkeypatch.setattr("hpc_board.accounts.private_group", exchange)
    assert loaded(home).board.name == "mine"
    assert file.read_text() == OTHER


@pytest.mark.root
@ONLY_ROOT
@pytest.mark.parametrize("link", [False, True])
def test_settings_of_another_user_are_refused_unless_the_user_names_them(home: Path, link: bool) -> None:
    file = home / "work" / "hpc-board.yaml"
    if link:
        (home / "ours.yaml").write_text(OWN)
        file.symlink_to(home / "ours.yaml")
    else:
        file.write_text(OWN)
    os.chown(file, STRANGER, STRANGER, follow_symlinks=False)
    with pytest.raises(InputError, match="belongs neither to you nor to root") as caught:
        loaded(home)
    assert caught.value.hint == "If you trust it, pass it explicitly: --config FILE"
    assert loaded(home, explicit=file).board.name == "mine"


@pytest.mark.root
@ONLY_ROOT
def test_settings_that_another_user_puts_there_between_the_search_and_the_reading_are_refused(home: Path) -> None:
    file = home / "work" / "hpc-board.yaml"
    file.write_text(OWN)
    found = find(None, {"HOME": str(home)}, home / "work")
    (home / "theirs.yaml").write_text(OTHER)
    os.chown(home / "theirs.yaml", STRANGER, STRANGER)
    (home / "theirs.yaml").replace(file)
    with pytest.raises(InputError, match="belongs neither to you nor to root"):
        load(found, {"HOME": str(home)})


@pytest.mark.root
@ONLY_ROOT
def test_settings_in_a_folder_of_another_user_are_refused(home: Path) -> None:
    (home / "work" / "hpc-board.yaml").write_text(OWN)
    os.chown(home / "work", STRANGER, STRANGER)
    with pytest.raises(InputError, match=f"{home}/work belongs neither to you nor to root"):
        loaded(home)


@pytest.mark.root
@ONLY_ROOT
def test_the_settings_of_the_system_are_root_s(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = home.parent / "config.yaml"
    monkeypatch.setattr("hpc_board.settings_file._SYSTEM_FILE", file)
    file.write_text(OWN)
    assert loaded(home).board.name == "mine"
    os.chown(file, STRANGER, STRANGER)
    with pytest.raises(InputError, match="belongs n"):
        loaded(home)


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a folder"])
def test_settings_that_are_no_file_are_told_at_once(home: Path, kind: str) -> None:
    file = home / "work" / "hpc-board.yaml"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.symlink_to("other")
        (home / "work" / "other").symlink_to("third")
        (home / "work" / "third").mkdir()
    with pytest.raises(InputError, match=r"is not a regular file|is a folder"):
        loaded(home)


SANDBOXES = """\
clusters: {box: {scheduler: local}}
defaults: {sandbox: {runtime: bubblewrap}}
gpus:
  A: {cluster: box}
  B: {cluster: box, sandbox: {runtime: apptainer, image: images/kernels.sif}}
  C: {cluster: box, sandbox: {runtime: none}}
"""


def test_a_container_is_that_of_the_gpu_or_the_default_or_none(tmp_path: Path) -> None:
    settings = load(written(tmp_path, SANDBOXES), {})
    image = str(tmp_path / "images/kernels.sif")
    assert [gpu.sandbox for gpu in settings.gpus] == [
        Sandbox(SandboxRuntime.BUBBLEWRAP, "", "defaults.sandbox"),
        Sandbox(SandboxRuntime.APPTAINER, image, "gpus.B.sandbox"),
        None,
    ]


def test_without_a_word_in_the_settings_there_is_no_container(tmp_path: Path) -> None:
    settings = load(written(tmp_path, SANDBOXES.replace("defaults: {sandbox: {runtime: bubblewrap}}\n", "")), {})
    assert settings.gpus[0].sandbox is None


def test_the_default_holds_for_the_gpus_of_this_machine_too(tmp_path: Path) -> None:
    settings = load(written(tmp_path, "defaults: {sandbox: {runtime: bubblewrap}}\n"), {})
    assert {gpu.sandbox for gpu in settings.gpus} == {Sandbox(SandboxRuntime.BUBBLEWRAP, "", "defaults.sandbox")}


def test_apptainer_needs_an_image_and_nothing_else_takes_one(tmp_path: Path) -> None:
    text = SANDBOXES.replace("{runtime: bubblewrap}", "{runtime: apptainer}").replace(
        "{runtime: none}", "{runtime: none, image: a.sif}"
    )
    assert faults(tmp_path, text.replace("runtime: apptainer, image", "runtime: bubblewrap, image")) == [
        "line 2: defaults.sandbox.image: is missing; apptainer needs the path of one, such as /shared/kernels.sif",
        "line 5: gpus.B.sandbox.image: conflicts with bubblewrap, which does not use an image",
        "line 6: gpus.C.sandbox.image: conflicts with none, which does not use an image",
    ]


def test_an_unknown_runtime_is_answered_with_those_that_there_are(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, SANDBOXES.replace("{runtime: bubblewrap}", "{runtime: docker}"))
    assert fault.startswith("line 2: defaults.sandbox.runtime:")
    assert "bubblewrap" in fault


CONTAINERS = """\
clusters: {main: {scheduler: slurm}, box: {scheduler: local}}
gpus:
  A: {cluster: main, partition: p, container: {runtime: apptainer, image: images/k.sif, mounts: [/data, /opt/cutlass]}}
  B: {cluster: main, partition: p, container: {runtime: pyxis, image: "nvcr.io#nvidia/pytorch:25.09-py3"}, python: py}
  C: {cluster: box, container: {runtime: enroot, image: kernels}}
"""


def test_the_image_of_a_job_is_a_path_or_what_its_runtime_takes(tmp_path: Path) -> None:
    gpus = load(written(tmp_path, CONTAINERS), {}).gpus
    apptainer = JobContainer(
        ContainerRuntime.APPTAINER, str(tmp_path / "images/k.sif"), ("/data", "/opt/cutlass"), "gpus.A.container"
    )
    pyxis = JobContainer(ContainerRuntime.PYXIS, "nvcr.io#nvidia/pytorch:25.09-py3", (), "gpus.B.container")
    enroot = JobContainer(ContainerRuntime.ENROOT, "kernels", (), "gpus.C.container")
    assert [gpu.container for gpu in gpus] == [apptainer, pyxis, enroot]
    assert [gpu.python for gpu in gpus] == ["python3", "py", "python3"]


def test_pyxis_needs_slurm(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, CONTAINERS.replace("runtime: enroot", "runtime: pyxis"))
    told = "line 5: gpus.C.container.runtime: pyxis is not available on cluster box"
    assert fault == f"{told}, which has apptainer, enroot"


def test_an_image_of_apptainer_on_another_machine_needs_a_full_path(tmp_path: Path) -> None:
    far = "main: {scheduler: slurm, board_folder: /x, ssh: {host: a}}"
    (fault,) = faults(tmp_path, CONTAINERS.replace("main: {scheduler: slurm}", far))
    assert fault.startswith("line 3: gpus.A.container.image: expected a full path, as cluster main sees it")
