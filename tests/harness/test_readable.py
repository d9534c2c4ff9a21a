"""The files of the node that a submission reads: the system's own, one folder each, and nothing of other processes."""

import json
import os
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

import pytest

from hpc_board.harness.confine import sandbox
from hpc_board.harness.confine.sandbox import read_by_submissions, readable_folders
from hpc_board.model.result import Result, Verdict
from tests.harness.compiling import compiled, kernel, needs_gcc
from tests.harness.evaluations import RIGHT, evaluate, said_confined

ROOT = Path(__file__).parents[2]
PATH = "/usr/local/bin:/usr/bin:/bin"

READ = (
    *("/bin", "/lib", "/lib32", "/lib64", "/sbin", "/sys"),
    *("/usr/bin", "/usr/include", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/sbin", "/usr/share"),
    *("/usr/local/bin", "/usr/local/cuda", "/usr/local/cuda-[0-9]*", "/usr/local/include", "/usr/local/lib"),
    *("/usr/local/lib64", "/usr/local/libexec", "/usr/local/man", "/usr/local/share"),
    *("/opt/AMD", "/opt/amdgpu", "/opt/cray", "/opt/intel", "/opt/nvidia", "/opt/rh", "/opt/rocm", "/opt/rocm-[0-9]*"),
    *("/nix/store", "/run/opengl-driver"),
    *("/etc/OpenCL", "/etc/alternatives", "/etc/crypto-policies", "/etc/group", "/etc/host.conf", "/etc/hosts"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/localtime"),
    *("/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd", "/etc/python3*", "/etc/timezone"),
    *("/proc/driver", "/proc/net", "/proc/self", "/proc/thread-self"),
)
"""All that a submission may read of the folders in PARENTS, on any node."""

PARENTS = ("/", "/etc", "/nix", "/opt", "/run", "/usr", "/usr/local")
NOT_TRIED = ("/dev", "/proc")


def isolated(result: Result) -> bool:
    return sandbox.reaches(str(result.provenance.get("isolation", "")), "S3")


def said(folder: Path, body: str, given: object = None, **environ: str) -> list[str]:
    """Return the lines that a submission prints; `body` may use `given`."""
    source = f"import json, os\ngiven = json.loads({json.dumps(given)!r})\n{textwrap.dedent(body)}\n{RIGHT}"
    result = evaluate(folder, source, environ=environ).result
    assert result.verdict is Verdict.PASS, result.message
    if not isolated(result):
        pytest.skip("this kernel has no Landlock")
    return result.stdout.text.splitlines()


READS = """
for path in given:
    try:
        os.listdir(path) if os.path.isdir(path) else open(path, "rb").close()
    except OSError:
        continue
    print(path)
"""


def in_list(path: str) -> bool:
    return any(fnmatch(path, name) for name in READ)


def test_a_submission_reads_these_of_the_node_s_folders_and_no_others(tmp_path: Path) -> None:
    of_python = readable_folders({"PATH": PATH}, (), ())
    there = [path for parent in PARENTS if Path(parent).is_dir() for path in Path(parent).iterdir()]
    # A link leads to another folder that is tried itself.
    found = {str(path) for path in there if path.exists() and (in_list(str(path)) or not path.is_symlink())}
    processes = {str(path) for path in Path("/proc").iterdir() if path.name.isdigit() or in_list(str(path))}
    tried = found.difference(NOT_TRIED, (path for path in of_python if not in_list(path))) | processes
    assert set(said(tmp_path, READS, sorted(tried), PATH=PATH)) == set(filter(in_list, tried))


@pytest.fixture(params=["/opt", "/usr/local"])
def beside_the_system(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder beside those of the system's programs."""
    with _folder_in(request.param) as path:
        yield path


@contextmanager
def _folder_in(parent: str) -> Iterator[Path]:
    if not os.access(parent, os.W_OK):
        pytest.skip(f"this account may not write {parent}")
    with tempfile.TemporaryDirectory(prefix="hb-readable-", dir=parent) as name:
        yield Path(name)


WALKS = """
for top, _, files in os.walk(given):
    for name in files:
        print(open(os.path.join(top, name), "rb").read())
for name in ("job.json", "harness.py"):
    try:
        print(open(os.path.join(given, "runs", "7", name), "rb").read())
    except OSError as error:
        print(error.strerror)
"""


def test_a_board_beside_the_system_s_folders_is_hidden(beside_the_system: Path) -> None:
    assert said(beside_the_system, WALKS, str(beside_the_system)) == ["Permission denied"] * 2


@needs_gcc
@pytest.mark.parametrize("line", ['#include "{}"', 'asm(".incbin \\"{}\\"");'])
def test_a_board_beside_the_system_s_folders_is_hidden_from_compilers(beside_the_system: Path, line: str) -> None:
    pytest.importorskip("numpy")
    secret = beside_the_system / "secret.h"
    secret.write_text("constexpr int secret = 42;\n")
    result = compiled(beside_the_system / "board", kernel(before=line.format(secret)))
    if not isolated(result):
        pytest.skip("this kernel has no Landlock")
    assert result.verdict is Verdict.COMPILE_ERROR, result.message
    assert "secret = 42" not in result.build.text


def test_a_board_in_a_folder_that_submissions_read_judges_nothing() -> None:
    with _folder_in("/usr/lib") as folder:
        result = evaluate(folder, f"print('it ran')\n{RIGHT}").result
        assert (result.verdict, result.stdout.text) == (Verdict.INFRA_ERROR, "")
        assert result.message == (
            f"the job folder {folder}/runs/7 is in /usr/lib, which submissions can read. "
            "Move the board, e.g. to /srv/hpc-board"
        )


def test_a_home_in_a_folder_that_submissions_read_judges_nothing(tmp_path: Path) -> None:
    result = evaluate(tmp_path, RIGHT, environ={"HOME": "/usr/share/ada"}).result
    assert result.verdict is Verdict.INFRA_ERROR
    assert result.message == (
        "the home folder /usr/share/ada is in /usr/share, which submissions can read. Move it, e.g. to /home"
    )


@pytest.mark.parametrize(
    ("folder", "seen"),
    [
        ("/usr/lib/board", "/usr/lib"),
        ("/usr/share", "/usr/share"),
        ("/usr/local/cuda-13.0/board", "/usr/local/cuda-13.0"),
        ("/opt/rocm-9.9.9/board/runs/7", "/opt/rocm-9.9.9"),
        ("/nix/store/board", "/nix/store"),
        ("/etc/ld.so.conf.d/board", "/etc/ld.so.conf.d"),
        ("/usr/local/cuda-board", ""),
        ("/usr/local/board", ""),
        ("/usr/libboard", ""),
        ("/opt/board", ""),
        ("/nix/board", ""),
        ("/srv/hpc-board", ""),
        ("/", ""),
    ],
)
def test_a_folder_in_one_of_the_system_s_is_known(folder: str, seen: str) -> None:
    assert read_by_submissions(Path(folder)) == seen


def test_a_link_into_a_folder_of_the_system_is_followed(tmp_path: Path) -> None:
    (tmp_path / "board").symlink_to("/usr/lib")
    assert read_by_submissions(tmp_path / "board" / "runs") == os.path.realpath("/usr/lib")


def test_no_folder_of_many_owners_is_read_whole() -> None:
    environ = {"PATH": "/usr/bin:/opt/bin:/usr/local/bin:/opt/tool/bin", "LD_LIBRARY_PATH": "/opt", "CUDA_HOME": "/usr"}
    found = readable_folders(environ, ["/nix"], [])
    assert {"/opt/bin", "/opt/lib", "/opt/tool"} <= set(found)
    assert not {"/", "/usr", "/usr/local", "/opt", "/nix"} & set(found)


def test_the_folders_of_the_loader_s_configuration_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ld.so.conf").write_text("# of /srv/old\ninclude ld.so.conf.d/*.conf\n/srv/lib # new\n/home\n")
    monkeypatch.setattr(sandbox, "_found", lambda *_: [f"{tmp_path}/ld.so.conf", f"{tmp_path}/missing.conf"])
    found = readable_folders({}, (), ["/home/ada"])
    assert "/srv/lib" in found
    assert not {"/srv/old", "/home", "ld.so.conf.d/*.conf"} & set(found)


OF_ITSELF = """
import subprocess, sys
print(sorted(set(os.listdir("/proc/self")) & {"fd", "task"}), len(os.listdir("/proc/self/task")) > 0)
print(len(os.listdir("/proc/self/fd")) > 3, len(os.listdir("/proc/thread-self/fd")) > 3)
names = ("cpuinfo", "meminfo", "stat", "loadavg", "self/maps", "self/status", "self/cgroup", "sys/kernel/osrelease")
print(all(open(f"/proc/{name}").read() for name in names))
print(subprocess.run([sys.executable, "-c", "print(open('/proc/self/status').read(4))"], stdout=-1).stdout)
"""


def test_a_submission_sees_itself_and_the_machine_in_proc(tmp_path: Path) -> None:
    assert said(tmp_path, OF_ITSELF) == ["['fd', 'task'] True", "True True", "True", "b'Name\\n'"]


SHORT_OF_MEMORY = """
drop = os.open("/proc/sys/vm/drop_caches", os.O_WRONLY)
sandbox.confine(sys.path, [])
os.write(drop, b"2")
print(len(os.listdir("/proc/self/fd")) > 0, len(os.listdir("/proc/driver")) >= 0)
"""


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root empties the kernel's caches")
def test_a_process_sees_itself_after_memory_ran_short() -> None:
    assert said_confined(SHORT_OF_MEMORY) == "True True\n"
