"""The commands of every page of the manual, typed in an empty home: each works, or the page says why it is left out.

A comment before a block is for this test: `<!-- not run: REASON -->`, or `<!-- example output: REASON -->` for a block
whose commands run, and print other rows than the page shows.
"""

import getpass
import os
import pty
import re
import select
import shlex
import shutil
import stat
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from hpc_board.model.result import Verdict
from tests.conftest import skip_without
from tests.e2e.boards import RIGHT, write_task
from tests.e2e.installation import install
from tests.harness.evaluations import QUICK
from tests.pages import blocks, comparable, pattern_of
from tests.slurm.lab import SlurmLab
from tests.unit.recorded import REPOSITORY, Recorded, result_of, timed_case

PAGES = [
    page
    for page in (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md")))
    if any(block.has_commands for block in blocks(page))
]
GPU = {"cluster": "here", "device": "cpu", "python": sys.executable}
KERNEL = RIGHT.partition("\n")[2]
SETTINGS = {
    "board": "board",
    "tasks": ["tasks"],
    "clusters": {"here": {"scheduler": "local"}},
    "gpus": {"CPU": {"cluster": "here", "python": sys.executable}, "H100": GPU, "A100": GPU},
}

pytestmark = pytest.mark.slow


def changed(task: Path, **keys: object) -> None:
    """Change the task in a folder."""
    file = task / "task.yml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **keys}))


class Home:
    """An empty home with settings for three GPUs, which are this machine's processors."""

    def __init__(self, folder: Path, lab: Callable[[], SlurmLab]) -> None:
        self.folder = folder
        self.lab = lab
        self.settings()
        (folder / "tasks").mkdir()
        program = self.program(".local/bin/hpc-board", f"{shlex.quote(sys.executable)} -P -m hpc_board")
        self.environ = {
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONPATH": str(REPOSITORY),
            "TERM": "xterm-256color",
            "TZ": "UTC",
        }

    def program(self, name: str, command: str) -> Path:
        """Install a program that runs a command with its arguments."""
        path = self.folder / name
        path.parent.mkdir(parents=True)
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        path.chmod(0o755)
        return path

    def settings(self, **changes: object) -> None:
        (self.folder / "hpc-board.yaml").write_text(yaml.safe_dump({**SETTINGS, **changes}))

    def task(self, name: str, *, folder: str = "tasks", **changes: object) -> None:
        """Add a task that takes milliseconds, or change it."""
        place = self.folder / folder / name
        if not place.exists():
            write_task(place)
        changed(place, templates={"Python": "template.py"}, **changes)
        (place / "template.py").write_text(RIGHT.replace("double", name))

    def kernel(self, task: str, *directives: str) -> None:
        head = "\n".join(f"#!POPCORN {each}" for each in (f"leaderboard {task}", *directives))
        (self.folder / "kernel.py").write_text(f"{head}\n{KERNEL}")

    def history(self, task: str, runs: int = 15) -> None:
        """Record ranked runs of three users."""
        board = Recorded(self.folder)
        for number in range(1, runs + 1):
            board.add(
                result=result_of(Verdict.PASS, timed_case()),
                score_s=1e-3 / number,
                gpu="H100",
                user=[getpass.getuser(), "bob", "eve"][number % 3 if number not in (7, 12, 15) else 0],
                task=task,
                code=RIGHT.replace("double", task).encode(),
            )

    def type(self, command: str, seconds: float = 240) -> "subprocess.CompletedProcess[str]":
        """Type a command line."""
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )

    def in_terminal(self, command: str, awaited: bytes, keys: bytes) -> int:
        """Type a command line in a terminal, press keys at each pause after a text, and return the exit status."""
        leader, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (30, 100))
        seen = bytearray()
        with subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environ,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        ) as process:
            os.close(terminal)
            deadline = time.monotonic() + 60
            while process.poll() is None and time.monotonic() < deadline:
                ready, _, _ = select.select([leader], [], [], 0.2)
                try:
                    seen += os.read(leader, 65536) if ready else b""
                except OSError:
                    break
                if awaited in seen and not ready:
                    os.write(leader, keys)
            if process.poll() is None and time.monotonic() >= deadline:
                process.kill()
        os.close(leader)
        return process.returncode

    def follow(self, command: str) -> tuple[int, str]:
        """Type a command of a page, in a terminal if it needs one, and return the exit status and the output."""
        if re.fullmatch(r"hpc-board *(?:#.*)?", command):
            return self.in_terminal(command, b"\x1b[?1049h", b"q"), ""
        if deleted := re.match(r"hpc-board delete (\w+)", command):
            return self.in_terminal(command, b"Type the name", deleted[1].encode() + b"\n"), ""
        done = self.type(command)
        return done.returncode, done.stdout

    def close(self) -> None:
        """End the runs that are still in flight, and the runners."""
        self.type("hpc-board release")
        for _ in range(100):
            runs = self.type("hpc-board poll; hpc-board runs --state active --json").stdout
            found = re.findall(r'"id": (\d+)', runs)
            if not found:
                return
            self.type(f"hpc-board cancel {' '.join(found)}")
            time.sleep(0.2)


@pytest.fixture
def home(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Home]:
    found = Home(tmp_path, lambda: request.getfixturevalue("slurm_lab"))
    yield found
    found.close()


def nothing_more(home: Home) -> None:
    """Leave the home as it is."""


SCENES: dict[str, Callable[[Home], None]] = {}
"""The steps before a page's first command, by the page's name."""


def before(name: str) -> Callable[[Callable[[Home], None]], Callable[[Home], None]]:
    def kept(scene: Callable[[Home], None]) -> Callable[[Home], None]:
        SCENES[name] = scene
        return scene

    return kept


@before("README.md")
@before("index.md")
def a_kernel_and_the_bundled_tasks(home: Home) -> None:
    skip_without("torch")
    home.settings(tasks=["tasks", "bundled"])
    home.task("double")
    home.kernel("double")


@before("tutorial.md")
def one_processor_and_the_bundled_tasks(home: Home) -> None:
    skip_without("torch")
    (home.folder / "installed").mkdir()
    home.environ["PYTHONPATH"] = str(install(home.folder / "installed"))
    settings = {"clusters": SETTINGS["clusters"], "gpus": {"CPU": {"cluster": "here"}}}
    (home.folder / "hpc-board.yaml").write_text(yaml.safe_dump(settings))


def two_gpus_of_a_cluster(home: Home) -> None:
    environ = home.lab().environment
    home.environ |= {"SLURM_CONF": environ["SLURM_CONF"], "PATH": f"{home.environ['PATH']}:{environ['PATH']}"}
    common = {"cluster": "main", "device": "cpu", "python": sys.executable}
    gpus = {
        kind.upper(): {**common, "partition": kind, "request": {"style": "gres", "value": f"gpu:{kind}:1"}}
        for kind in ("h100", "a100")
    }
    clusters = {"main": {"scheduler": "slurm", "poll_seconds": 1, "allow_root": True}}
    (home.folder / "hpc-board.yaml").write_text(yaml.safe_dump({"clusters": clusters, "gpus": gpus}))


@before("boards.md")
def a_board_with_history_and_a_competition(home: Home) -> None:
    a_board_of_three(home)
    for name in ("softmax_py", "sort_v1"):
        home.task(name)
    home.task("softmax_task", folder="")
    practice = yaml.safe_load(next(b for b in blocks(REPOSITORY / "docs/boards.md") if b.language == "yaml").text)
    for problem in practice["problems"]:
        write_task(home.folder / "competitions" / "problems" / problem["directory"])
    (home.folder / "competitions" / "problems" / "practice.yaml").write_text(yaml.safe_dump(practice))
    assert home.type("hpc-board admin sync ./competitions").returncode == 0


@before("clusters.md")
def no_settings(home: Home) -> None:
    (home.folder / "hpc-board.yaml").unlink()


@before("course.md")
def a_task_of_the_first_week(home: Home) -> None:
    skip_without("numpy")
    home.task("week1", folder="")
    shutil.copytree(REPOSITORY / "tasks" / "heat", home.folder / "course" / "week2")
    changed(home.folder / "course" / "week2", benchmarks=[{"rows": 301, "columns": 403, "steps": 5, "seed": 1}])
    shutil.copy(REPOSITORY / "tasks" / "utils_np.py", home.folder / "course")
    home.program("envs/torch/bin/python", shlex.quote(sys.executable))


@before("grading.md")
@before("end-of-term.md")
def the_boards_of_a_course(home: Home) -> None:
    for week in ("week1", "week2"):
        home.task(week, folder="")
        assert home.type(f"hpc-board create {week} ./{week} --closed --member bob").returncode == 0


@before("results.md")
def two_boards_with_history(home: Home) -> None:
    a_board_of_three(home)
    home.task("softmax_py")
    home.history("softmax_py")


@before("maintenance.md")
@before("scripts.md")
@before("experiments.md")
def a_board_of_three(home: Home) -> None:
    home.task("matmul")
    home.kernel("matmul", "gpu CPU")
    home.history("matmul")


@before("hold.md")
def a_kernel(home: Home) -> None:
    home.task("matmul")
    home.kernel("matmul")


@before("agents.md")
def a_bundled_task(home: Home) -> None:
    skip_without("numpy")
    home.settings(tasks=["bundled"])


@before("authors.md")
def files_of_other_authors(home: Home) -> None:
    skip_without("torch")
    if shutil.which("g++") is None:
        pytest.skip("there is no g++ here")
    write_task(home.folder / "zipped" / "histogram")
    shutil.make_archive(str(home.folder / "histogram"), "zip", home.folder / "zipped")
    write_task(home.folder / "problems" / "double")
    (home.folder / "reference_code.py").write_text(
        "def generate_input():\n    return [1, 2, 3]\n\n\ndef ref_kernel(data):\n    return [2 * x for x in data]\n\n\n"
        "def check_implementation(output, expected):\n    return output == expected\n"
    )
    (home.folder / "train.py").write_text(KERNEL)
    (home.folder / "problems" / "beginner.yaml").write_text(
        "name: Beginners\nproblems: [{directory: double, name: double}]\n"
    )


def quick(home: Home) -> None:
    task = home.folder / "softsign"
    own = yaml.safe_load((task / "task.yml").read_text())["hpc_board"]
    limits = {**QUICK, "workers": 1}
    changed(task, benchmarks=[{"size": 65_536, "seed": 1}], hpc_board={**own, "limits": limits})


def another_version(home: Home) -> None:
    home.task("matmul", benchmarks=[{"size": 200, "seed": 3}])


def the_board_again(home: Home) -> None:
    assert home.type("hpc-board create softmax ./softmax_task").returncode == 0


AFTER: dict[str, Callable[[Home], None]] = {
    "hpc-board task new softsign --language py --language cpp": quick,
    'hpc-board admin remove 12 --reason "returns what an earlier call computed"': another_version,
    'hpc-board delete softmax --reason "the course is over"': the_board_again,
    "hpc-board show softmax_py --own": two_gpus_of_a_cluster,
}
"""The events between a command and the next one of its page."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_the_page_works(page: Path, home: Home) -> None:
    found = [block for block in blocks(page) if block.mark != "not run"]
    if any(block.has_commands for block in found):
        SCENES.get(page.name, nothing_more)(home)
    for block in found:
        if block.language == "python" and block.text.startswith("#!POPCORN"):
            (home.folder / "kernel.py").write_text(block.text)
        if not block.has_commands:
            continue
        for command, shown in block.steps:
            place = f"{page.name}, line {block.line}: {command}"
            status, output = home.follow(command)
            if shown is None or block.mark == "example output":
                assert status == 0, f"{place}\n{output}"
            else:
                assert re.fullmatch(pattern_of(shown), comparable(output)), f"{place}\n{output}"
            AFTER.get(command, nothing_more)(home)


def test_the_nightly_backup_of_a_course_works_under_cron(home: Home) -> None:
    course = blocks(REPOSITORY / "docs/course.md")
    (line,) = [line for block in course for line in block.lines if "admin backup" in line]
    (folder,) = [line for block in course for line in block.lines if line.endswith("~/backups")]
    home.task("double")
    assert home.type("hpc-board list").returncode == 0
    service = home.folder / "kernels-service" / "hpc-board.yaml"
    service.parent.mkdir()
    service.write_text(yaml.safe_dump({**SETTINGS, "board": str(home.folder / "board"), "tasks": []}))
    assert home.type(f"{folder} && {folder}").returncode == 0
    command = re.fullmatch(r"(?:\S+ ){5}((~/\S+/)hpc-board .*[^\\]\\%.*)", line)
    assert command, line
    installed = [each for block in blocks(REPOSITORY / "docs/service.md") for each in block.lines]
    assert f"{command[2]}pip install ." in installed
    home.program("hpc-board/bin/hpc-board", f"{shlex.quote(sys.executable)} -P -m hpc_board")
    # cron hands the line to sh, with a short PATH, and takes the backslash from each %.
    home.environ["PATH"] = "/usr/bin:/bin"
    for day in ("2030-01-01", "2030-01-02"):
        home.program(f"{day}/date", f"/bin/date -d {day}")
        home.environ["PATH"] = f"{home.folder / day}:/usr/bin:/bin"
        done = home.type(command[1].replace("\\%", "%"))
        assert done.returncode == 0, done.stdout
    kept = sorted((home.folder / "backups").iterdir())
    assert [path.name for path in kept] == ["board-2030-01-01.db", "board-2030-01-02.db"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in (home.folder / "backups", *kept)} == {0o700, 0o600}


def test_a_mark_has_a_reason_and_a_block_of_commands() -> None:
    marks = sum(len(re.findall(r"<!-- (?:not run|example output): ", page.read_text())) for page in PAGES)
    assert marks == sum(bool(block.mark and block.has_commands) for page in PAGES for block in blocks(page))


def test_blocks_are_found_with_their_marks_and_steps(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Say\n\n    hpc-board list   # tasks\n    make x\n\n<!-- not run: it is long -->\n\n"
        "```console\n$ hpc-board a\nb\n$ hpc-board c\n```\n\n1. One\n\n"
        "    ```sh\n    pip x\n    ```\n\n    tree/\n      file\n"
    )
    first, second, third, fourth = blocks(page)
    assert [*first.steps] == [("hpc-board list   # tasks", None), ("make x", None)]
    assert (second.mark, second.reason) == ("not run", "it is long")
    assert [*second.steps] == [("hpc-board a", "b\n"), ("hpc-board c", None)]
    assert (third.lines, third.has_commands, fourth.has_commands) == (("pip x",), True, False)
