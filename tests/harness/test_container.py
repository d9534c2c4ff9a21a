"""The container around the processes that run a submission: bubblewrap as it is, Apptainer played by a script.

The script takes the arguments that Apptainer's documentation names and runs the command on this machine, without a
container: it shows what is asked for and that the rest of the harness works with it, not what an image does.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpc_board.harness.confine.container import Apptainer, Bubblewrap, ContainerUnavailable, container, through_links
from hpc_board.harness.processes.output import Printed
from hpc_board.harness.processes.spawn import started
from hpc_board.harness.processes.tree import children_by_parent
from hpc_board.model.gpu import Sandbox, SandboxRuntime
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Mode
from hpc_board.runs import job_folder
from tests.conftest import skip_without
from tests.harness import test_profile
from tests.harness.adversarial.suite import KERNELS
from tests.harness.adversarial.tasks import TASKS
from tests.harness.compiling import ALL, needs_gcc
from tests.harness.compiling import REFERENCE as SCALE
from tests.harness.compiling import kernel as cpp
from tests.harness.evaluations import QUICK, RIGHT, a_task, await_step, evaluate, make_job_folder
from tests.harness.evaluations import REFERENCE as DOUBLE
from tests.harness.test_build import TIME_BOMB
from tests.harness.test_verdicts import kernel
from tests.waiting import awaited

BUBBLEWRAP = Sandbox(SandboxRuntime.BUBBLEWRAP, setting="gpus.CPU.sandbox")


def unusable() -> str:
    """Return the reason why bubblewrap cannot be tried here, "" if it can."""
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap is not installed: no bwrap"
    command = [program, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"bubblewrap may make no container here: {done.stderr.strip()}"


UNUSABLE = unusable()
needs_bwrap = pytest.mark.skipif(bool(UNUSABLE), reason=UNUSABLE)


def contained(where: Path, source: str, mode: Mode = Mode.TEST, **limits: float) -> Result:
    """The result of a Python submission that runs in bubblewrap."""
    return evaluate(where, source, a_task(limits={**QUICK, **limits}), mode, sandbox=BUBBLEWRAP).result


def compiled(
    where: Path, mode: Mode, sandbox: Sandbox, environ: dict[str, str] | None = None, body: str = ""
) -> Result:
    """The result of a submission in C++ that is compiled and run in a container."""
    task = a_task(SCALE, languages=ALL)
    source = cpp(body) if body else cpp()
    return evaluate(where, source, task, mode, environ=environ, file_name="k.cpp", sandbox=sandbox).result


@needs_bwrap
def test_a_right_kernel_passes_in_bubblewrap_and_the_result_says_so(tmp_path: Path) -> None:
    result = contained(tmp_path, RIGHT, Mode.RANKED)
    assert result.verdict is Verdict.PASS, result.message
    assert str(result.provenance["sandbox"]).startswith("bubblewrap ")
    assert "left_processes" not in result.provenance
    assert result.score_s is not None
    assert all(case.timing and case.timing.reference_ns for case in result.cases if case.phase == "benchmark")


@needs_bwrap
@needs_gcc
def test_a_compiled_kernel_passes_in_bubblewrap(tmp_path: Path) -> None:
    result = compiled(tmp_path, Mode.RANKED, BUBBLEWRAP)
    assert result.verdict is Verdict.PASS, result.message
    assert result.provenance["compiles"] == 1


def test_without_a_setting_there_is_no_container(tmp_path: Path) -> None:
    assert "sandbox" not in evaluate(tmp_path, RIGHT).result.provenance


LOOK = """
import os, socket
def seen(path):
    try:
        return sorted(os.listdir(path))
    except FileNotFoundError:
        return "nothing"
    except OSError as error:
        return type(error).__name__
pids = [pid for pid in (*range(1, 100), TEST) if os.path.exists(f"/proc/{pid}")]
print("PIDS", pids)
print("COMMANDS", [open(f"/proc/{pid}/cmdline").read() for pid in pids])
print("LINKS", [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line])
print("HOST", socket.gethostname())
for path in PATHS:
    print("SEEN", path, seen(path), os.path.exists(path))
"""


@needs_bwrap
def test_a_submission_finds_no_other_process_no_network_and_no_home(tmp_path: Path) -> None:
    home, neighbour = tmp_path / "home", tmp_path / "neighbour"
    home.mkdir()
    (home / "secret").write_text("x")
    neighbour.mkdir()
    job = tmp_path / "runs" / "7"
    paths = [str(each) for each in (home, home / "secret", neighbour, job / "job.json", job / "task" / "reference.py")]
    source = f"PATHS, TEST = {paths!r}, {os.getpid()}\n{LOOK}\n{RIGHT}"
    environ = {"HOME": str(home)}
    free = evaluate(tmp_path / "free", source, environ=environ).result.stdout.text
    assert str(os.getpid()) in free.partition("PIDS")[2].splitlines()[0], "the look itself shows nothing"
    assert f"SEEN {home} nothing" not in free, "what is looked for is not there"
    found = evaluate(tmp_path, source, environ=environ, sandbox=BUBBLEWRAP).result
    assert found.verdict is Verdict.PASS, found.message
    text = found.stdout.text
    lines = {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in text.splitlines() if not line.startswith("SEEN")}
    assert lines["PIDS"] == "[1, 2]"
    assert "supervise" not in lines["COMMANDS"]
    assert lines["LINKS"] == "['lo']"
    for path in paths:
        assert f"SEEN {path} nothing False" in text


@needs_bwrap
@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 11)", "os.kill(os.getpid(), 9)"])
def test_how_a_worker_ended_is_told_through_the_container(tmp_path: Path, end: str) -> None:
    result = contained(tmp_path, kernel(end))
    assert result.verdict is Verdict.CRASH
    assert f"it was killed by signal {end[-3:-1].strip(' ,')}" in result.message


BASELINE_LOOKS = DOUBLE.replace(
    "def ref_kernel(data):\n",
    "def ref_kernel(data):\n"
    "    import os, sys\n"
    "    assert 'worker' not in sys.argv or os.getpid() == 2, 'not contained'\n",
)


@needs_bwrap
def test_the_reference_is_timed_in_a_container_too(tmp_path: Path) -> None:
    task = a_task(BASELINE_LOOKS)
    assert evaluate(tmp_path / "in", RIGHT, task, Mode.BENCHMARK, sandbox=BUBBLEWRAP).result.verdict is Verdict.PASS
    outside = evaluate(tmp_path / "out", RIGHT, task, Mode.BENCHMARK).result
    assert outside.verdict is Verdict.TASK_ERROR
    assert "not contained" in outside.message


@needs_bwrap
@pytest.mark.quiet
def test_a_helper_that_works_on_after_a_call_is_stopped_in_the_container(tmp_path: Path) -> None:
    skip_without("numpy")
    source = (KERNELS / "x35_helper_finishes_the_end.py").read_text()
    result = evaluate(tmp_path, source, TASKS["digest, large output"], sandbox=BUBBLEWRAP).result
    assert result.verdict is Verdict.LATE_WRITE, result.message


@needs_bwrap
def test_what_takes_long_to_import_is_there_before_the_first_call(tmp_path: Path) -> None:
    source = f"import os, sys\nprint('numpy' in sys.modules, 'channel' in os.listdir(os.environ['HOME']))\n{RIGHT}"
    result = evaluate(tmp_path, source, a_task(f"import numpy\n{DOUBLE}"), sandbox=BUBBLEWRAP).result
    assert result.stdout.text.split() == ["True", "False"]


@needs_bwrap
def test_a_supervisor_that_is_killed_takes_the_container_along(tmp_path: Path) -> None:
    folder = make_job_folder(tmp_path, kernel("import time\ntime.sleep(300)"), a_task(), Mode.TEST, sandbox=BUBBLEWRAP)
    environ = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-I", "-B", job_folder.HARNESS, "supervise", job_folder.FACTS]
    scratch = f"{tmp_path}/hpc-board-"
    with subprocess.Popen(command, cwd=folder, env=environ) as supervisor:
        try:
            await_step(folder, "test", 1)
            assert named(scratch)
        finally:
            supervisor.kill()
    awaited(lambda: named(scratch) == [])


@needs_bwrap
def test_what_a_submission_prints_is_kept_apart_from_its_errors(tmp_path: Path) -> None:
    result = contained(tmp_path, kernel("import sys\nprint('to out')\nprint('to err', file=sys.stderr)"))
    assert set(result.stdout.text.split("\n")) == {"to out", ""}
    assert set(result.stderr.text.split("\n")) == {"to err", ""}


def named(marker: str) -> list[str]:
    """The processes of this machine that have `marker` in their arguments."""
    found = []
    for pid in (each for children in children_by_parent().values() for each in children):
        path = Path(f"/proc/{pid}/cmdline")
        if path.exists() and marker in path.read_text(errors="replace"):
            found.append(str(pid))
    return found


@needs_bwrap
def test_a_time_out_ends_all_that_is_in_the_container(tmp_path: Path) -> None:
    marker = f"hpc-board-left-{os.getpid()}"
    sleeper = f"[sys.executable, '-c', 'import time; time.sleep(300)', {marker!r}]"
    daemon = f"import subprocess, sys\nsubprocess.Popen({sleeper}, start_new_session=True)\nwhile True:\n    pass"
    begin = time.monotonic()
    result = contained(tmp_path, kernel(daemon), call_seconds=1, first_call_seconds=1)
    assert result.verdict is Verdict.TIMEOUT, result.message
    assert "left_processes" not in result.provenance
    assert named(marker) == []
    assert time.monotonic() - begin < 30


@needs_bwrap
@needs_gcc
def test_a_compiler_that_takes_too_long_is_ended_with_its_container(tmp_path: Path) -> None:
    task = a_task(SCALE, languages=ALL, limits={**QUICK, "build_seconds": 2})
    environ = {"TMPDIR": str(tmp_path)}
    result = evaluate(tmp_path, TIME_BOMB, task, environ=environ, file_name="k.cpp", sandbox=BUBBLEWRAP).result
    assert result.verdict is Verdict.COMPILE_TIMEOUT, result.message
    assert named(f"{tmp_path}/hpc-board-") == []


@needs_bwrap
@needs_gcc
def test_a_compiler_sees_no_home_and_no_job_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "secret.h").write_text("int secret;\n")
    source = f'#include "{home / "secret.h"}"\n' + cpp()
    task = a_task(SCALE, languages=ALL)
    result = evaluate(tmp_path, source, task, environ={"HOME": str(home)}, file_name="k.cpp", sandbox=BUBBLEWRAP).result
    assert result.verdict is Verdict.COMPILE_ERROR
    assert "No such file or directory" in result.build.text


@needs_bwrap
def test_perf_reaches_a_worker_in_its_container(tmp_path: Path) -> None:
    if not test_profile.perf_works():
        pytest.skip("perf may not count here")
    found = evaluate(tmp_path, test_profile.BUSY, mode=Mode.PROFILE, sandbox=BUBBLEWRAP)
    assert found.result.verdict is Verdict.PASS, found.result.message
    assert "python" in found.result.profile.text.partition("by perf")[2]


@needs_bwrap
def test_a_profiler_that_starts_the_worker_does_so_in_the_container(tmp_path: Path) -> None:
    # In the container, its own folder is read-only.
    ncu = test_profile.NCU.replace('open(sys.argv[0] + ".chosen", "a")', "open(os.devnull, 'a')")
    looks = f"import glob\nassert '--import' in args or len(glob.glob('/proc/[0-9]*')) < 6\n{ncu}"
    test_profile.script(tmp_path / "bin", "ncu", looks)
    found = test_profile.as_gpu("cuda", tmp_path, sandbox=BUBBLEWRAP)
    assert found.result.profile.text.count("GPU Speed Of Light Throughput of the kernel") == 2
    assert (found.folder / "profile" / "case-2.ncu-rep").read_text() == "a report"


def without(name: str, folder: Path) -> dict[str, str]:
    """An environment in whose PATH are the programs that a job takes, and none called `name`."""
    folder.mkdir(parents=True)
    for program in ("bash", "chmod", "rm", "sh", "env"):
        (folder / program).symlink_to(shutil.which(program) or "")
    assert not (folder / name).exists()
    return {"PATH": str(folder)}


def test_a_node_without_bubblewrap_says_what_is_missing_and_who_asked(tmp_path: Path) -> None:
    result = evaluate(tmp_path, RIGHT, environ=without("bwrap", tmp_path / "bin"), sandbox=BUBBLEWRAP).result
    assert result.verdict is Verdict.INFRA_ERROR
    assert "the settings ask for bubblewrap (gpus.CPU.sandbox), but this node has no bwrap in PATH" in result.message
    assert "sandbox" not in result.provenance


def test_a_node_that_forbids_namespaces_says_so(tmp_path: Path) -> None:
    words = "bwrap: No permissions to create new namespace"
    test_profile.script(tmp_path / "bin", "bwrap", f"sys.exit({words!r})\n")
    environ = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    result = evaluate(tmp_path, RIGHT, environ=environ, sandbox=BUBBLEWRAP).result
    assert result.verdict is Verdict.INFRA_ERROR
    assert "gpus.CPU.sandbox" in result.message
    assert words in result.message
    assert "unprivileged user namespaces" in result.message


def test_a_container_that_does_not_start_in_time_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpc_board.harness.confine.container._CHECK_SECONDS", 0.2)
    test_profile.script(tmp_path / "bin", "bwrap", "import time\ntime.sleep(60)\n")
    environ = {"PATH": f"{tmp_path / 'bin'}:/bin:/usr/bin"}
    with pytest.raises(ContainerUnavailable, match=r"does not start on this node \(no answer within 0.2 s\)"):
        container(BUBBLEWRAP, tmp_path / "harness.pyz", environ, tmp_path)


def test_bubblewrap_is_given_the_readable_the_scratch_folder_and_no_more() -> None:
    wrap = Bubblewrap("/usr/bin/bwrap", "bubblewrap 0", Path("/jobs/7/harness.pyz"))
    scratch, report = Path("/scratch/worker"), Path("/scratch/profiler")
    readable = ["/usr", "/usr/bin", "/sys", "/opt/python", "/opt/python/bin"]
    assert wrap.command(scratch, readable, [report], "cpu") == [
        *("/usr/bin/bwrap", "--unshare-all", "--die-with-parent", "--tmpfs", "/tmp"),
        *("--ro-bind-try", "/sys", "/sys", "--ro-bind-try", "/usr", "/usr"),
        *("--ro-bind-try", "/etc/alternatives", "/etc/alternatives"),
        *("--ro-bind-try", "/opt/python", "/opt/python"),
        *("--ro-bind-try", "/jobs/7/harness.pyz", "/jobs/7/harness.pyz"),
        *("--proc", "/proc", "--dev", "/dev"),
        *("--bind", "/scratch/worker", "/scratch/worker", "--bind", "/scratch/profiler", "/scratch/profiler"),
        *("--remount-ro", "/", "--chdir", "/scratch/worker", "--"),
    ]


@pytest.mark.parametrize(("device", "count"), [("cpu", 0), ("cuda", 2), ("hip", 2)])
def test_bubblewrap_is_given_gpus_where_the_board_has_them(
    monkeypatch: pytest.MonkeyPatch, device: str, count: int
) -> None:
    monkeypatch.setattr(
        "hpc_board.harness.confine.sandbox.gpu_devices",
        lambda: ["/dev/nvidia0", "/dev/nvidia-caps", "/dev/nvidia-caps/nvidia-cap1"],
    )
    wrap = Bubblewrap("bwrap", "bubblewrap 0", Path("/jobs/7/harness.pyz"))
    assert wrap.command(Path("/scratch"), [], (), device).count("--dev-bind-try") == count


def test_where_links_lead_is_named_too(tmp_path: Path) -> None:
    real, between, first = tmp_path / "real", tmp_path / "between", tmp_path / "first"
    (real / "bin").mkdir(parents=True)
    between.symlink_to("real")
    first.symlink_to(between)
    found = through_links([f"{first}/bin"])
    assert found[:3] == [f"{each}/bin" for each in (first, between, real)]
    assert through_links(["//bin/../usr"])[0] == "/usr"
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    assert through_links([str(loop)]) == [str(loop)]


@pytest.mark.parametrize(("device", "option"), [("cpu", []), ("cuda", ["--nv"]), ("hip", ["--rocm"])])
def test_apptainer_is_given_the_scratch_folder_the_harness_and_no_network(device: str, option: list[str]) -> None:
    made = Apptainer("/bin/apptainer", "apptainer version 1.3.4", Path("/jobs/7/harness.pyz"), "/shared/k.sif")
    assert made.command(Path("/scratch/worker"), ["/usr"], [Path("/scratch/profiler")], device) == [
        *("/bin/apptainer", "--silent", "exec", "--containall", "--no-eval", "--net", "--network", "none", *option),
        *("--no-home", "--home", "/scratch/worker", "--pwd", "/scratch/worker"),
        *("--bind", "/scratch/worker:/scratch/worker", "--bind", "/scratch/profiler:/scratch/profiler"),
        *("--bind", "/jobs/7/harness.pyz:/jobs/7/harness.pyz:ro", "/shared/k.sif"),
    ]
    environ = {"PATH": "/node/bin", "LD_LIBRARY_PATH": "/node/lib", "HOME": "/scratch/worker", "TMPDIR": "/scratch"}
    assert made.environment(environ) == {
        "PATH": "/node/bin",
        "HOME": "/scratch/worker",
        "APPTAINERENV_TMPDIR": "/scratch",
    }


PLAYED = """
if args == ["--version"]:
    print("apptainer version 1.3.4")
    sys.exit()
assert args[:2] == ["--silent", "exec"], args
flags, values, binds, words = [], {}, [], args[2:]
while words[0].startswith("--"):
    word = words.pop(0)
    if word in ("--containall", "--no-eval", "--net", "--no-home"):
        flags.append(word)
    elif word == "--bind":
        binds.append(words.pop(0))
    else:
        assert word in ("--network", "--home", "--pwd"), word
        values[word] = words.pop(0)
assert len(flags) == 4 and values["--network"] == "none", args
image, *command = words
assert image.endswith("kernels.sif"), image
home = values["--home"]
assert f"{home}:{home}" in binds and values["--pwd"] == home, binds
assert any(each.endswith("harness.pyz:ro") for each in binds), binds
prefix = "APPTAINERENV_"
inside = {name[len(prefix):]: value for name, value in os.environ.items() if name.startswith(prefix)}
assert not {"PATH", "LD_LIBRARY_PATH", "HOME"} & inside.keys(), inside
inside |= {"HOME": home, "PATH": IMAGE_PATH}
os.chdir(home)
status = subprocess.run(command, env=inside).returncode
sys.exit(status if status >= 0 else 128 - status)
"""


def played(where: Path) -> tuple[Sandbox, dict[str, str]]:
    """A board with Apptainer, and the environment of a node on which a script plays it."""
    image, inside = where / "kernels.sif", where / "image"
    inside.mkdir(parents=True)
    image.write_text("an image")
    # A link to an environment's Python is that of the environment only if it lies there.
    (inside / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (inside / "python3").chmod(0o755)
    script = f"IMAGE_PATH = {f'{inside}:/usr/bin:/bin'!r}\n{PLAYED}"
    test_profile.script(where / "bin", "apptainer", script)
    wanted = Sandbox(SandboxRuntime.APPTAINER, str(image), "defaults.sandbox")
    return wanted, {"PATH": f"{where / 'bin'}:{os.environ['PATH']}"}


def test_a_kernel_passes_in_an_image_of_apptainer(tmp_path: Path) -> None:
    wanted, environ = played(tmp_path)
    result = evaluate(tmp_path, RIGHT, mode=Mode.RANKED, environ=environ, sandbox=wanted).result
    assert result.verdict is Verdict.PASS, result.message
    assert result.provenance["sandbox"] == f"apptainer version 1.3.4, {wanted.image}"


@needs_gcc
def test_a_compiled_kernel_passes_in_an_image_whose_compiler_is_looked_up_in_it(tmp_path: Path) -> None:
    wanted, environ = played(tmp_path)
    compiler = tmp_path / "image" / "g++"
    compiler.write_text(
        '#!/bin/sh\n[ "$1" != --version ] || { echo "g++ of the image 1.2"; exit; }\nexec /usr/bin/g++ "$@"\n'
    )
    compiler.chmod(0o755)
    result = compiled(tmp_path, Mode.TEST, wanted, environ)
    assert result.verdict is Verdict.PASS, f"{result.message}\n{result.build.text}"
    assert result.provenance["compiler"] == "g++ of the image 1.2"


@needs_gcc
def test_a_compiler_that_is_killed_in_its_container_is_told_from_one_that_fails(tmp_path: Path) -> None:
    wanted, environ = played(tmp_path)
    compiler = tmp_path / "image" / "g++"
    compiler.write_text('#!/bin/sh\n[ "$1" != --version ] || { echo 1.2; exit; }\nkill -9 $$\n')
    compiler.chmod(0o755)
    result = compiled(tmp_path, Mode.TEST, wanted, environ)
    assert result.verdict is Verdict.COMPILE_ERROR
    assert "g++ was killed, most likely because the node ran out of memory" in result.message


def test_a_node_without_the_image_says_which_and_who_asked(tmp_path: Path) -> None:
    wanted, environ = played(tmp_path)
    Path(wanted.image).unlink()
    result = evaluate(tmp_path, RIGHT, environ=environ, sandbox=wanted).result
    assert result.verdict is Verdict.INFRA_ERROR
    assert f"for apptainer (defaults.sandbox), but this node has no image {wanted.image}" in result.message


def test_an_image_whose_python_is_too_old_says_so(tmp_path: Path) -> None:
    wanted, environ = played(tmp_path)
    (tmp_path / "image" / "python3").write_text("#!/bin/sh\n: >ready\necho 3 8\n")
    result = evaluate(tmp_path, RIGHT, environ=environ, sandbox=wanted).result
    assert result.verdict is Verdict.INFRA_ERROR
    assert "its Python is 3.8; the harness requires 3.10 or newer" in result.message


CONNECTS = """
import json, os, socket, sys
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect(sys.argv[2])
connection.send(json.dumps({"type": "here", "pid": os.getpid()}).encode())
connection.recv(1)
"""


@needs_bwrap
def test_the_worker_behind_a_command_is_known_by_its_id_outside(tmp_path: Path) -> None:
    harness = tmp_path / "harness.py"
    harness.write_text(CONNECTS)
    child = started(
        ["bwrap", "--unshare-all", "--die-with-parent", "--bind", "/", "/", "--proc", "/proc"],
        harness,
        environment={"PATH": os.environ["PATH"]},
        cwd=tmp_path,
        printed=[Printed()],
        printed_bytes_max=1000,
        deadline=time.monotonic() + 30,
    )
    try:
        frame = child.answer(("here",), time.monotonic() + 30)
        assert frame["pid"] < 10
        assert child.worker_pid not in (*child.launchers, frame["pid"])
        assert child.launchers[0] == child.pid
        assert child.launchers[1:] == children_by_parent()[child.pid]
        assert str(harness) in Path(f"/proc/{child.worker_pid}/cmdline").read_text()
    finally:
        child.end()
