"""Examining an installation, on folders and answers made for it."""

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpc_board.admin.doctor import Installation, diagnose
from hpc_board.domain.catalog import Catalog
from hpc_board.domain.diagnostic import Diagnostic, Severity
from hpc_board.domain.roles import Roles
from hpc_board.domain.run import Run
from hpc_board.errors import DocumentError, Fault, SchedulerError, StorageError
from hpc_board.harness.node import is_root
from hpc_board.model.gpu import Cluster, ContainerRuntime, Device, Gpu, JobContainer, Login
from hpc_board.report.diagnostics import diagnostics_report
from hpc_board.report.plain import plain
from hpc_board.report.views import view_of
from hpc_board.report.views.diagnostics import DiagnosticView
from hpc_board.runs.reconciler import lock_name
from hpc_board.settings import Settings
from hpc_board.store.folder import DATABASE
from hpc_board.transport import CommandMissing, CommandTimeout, Completed
from hpc_board.transport.this_host import ThisHost
from tests.harness.evaluations import a_task
from tests.unit.recorded import Recorded
from tests.values import replace

HERE = Cluster("here", "local", poll_seconds=0.5)
SLURM = Cluster("main", "slurm")
EXT4 = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
CONFIG = "AccountingStorageType   = accounting_storage/none\nMinJobAge  = 300 sec\nPrivateData = none\n"
TASKS = Catalog((a_task(),))


@dataclass
class Answers:
    """A host on which programs answer by their names; what has no answer here prints Slurm's release."""

    answers: Mapping[str, Completed | Exception] = field(default_factory=dict)
    asked: list[Sequence[str]] = field(default_factory=list)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_seconds: float,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str = "",
        until: Sequence[str] = (),
    ) -> Completed:
        self.asked.append(argv)
        if argv[0].startswith("/"):
            return ThisHost().run(argv, timeout_seconds=timeout_seconds, env=env, cwd=cwd, stdin=stdin, until=until)
        default = Completed(0, CONFIG if tuple(argv[:2]) == ("scontrol", "show") else "slurm 23.11.4\n", "")
        any_other = "" if argv[1:] == ["--version"] else f"{argv[0]} ..."
        names = (" ".join(argv), argv[0], any_other)
        found = next((self.answers[name] for name in names if name in self.answers), default)
        if isinstance(found, Exception):
            raise found
        return found


def none_in_flight() -> Sequence[Run]:
    return ()


def installation(tmp_path: Path, cluster: Cluster = HERE, mounts: str = EXT4, **gpu: Any) -> Installation:
    (tmp_path / "mountinfo").write_text(mounts)
    entry = replace(Gpu("CPU", cluster, Device.CPU, "cpu", python=sys.executable), **gpu)
    settings = Settings(tmp_path / "board", tmp_path / "devices", (), (entry,), (cluster,))
    return Installation(settings, "from --config", TASKS, none_in_flight, Answers(), tmp_path / "mountinfo")


def lines(examined: Installation, subject: str = "") -> list[Diagnostic]:
    return [line for line in diagnose(examined) if not subject or line.subject == subject]


def only(examined: Installation, subject: str) -> Diagnostic:
    (line,) = lines(examined, subject)
    return line


def levels(examined: Installation) -> set[Severity]:
    return {line.severity for line in diagnose(examined)}


def test_an_installation_without_faults_has_none(tmp_path: Path) -> None:
    (tmp_path / "board").mkdir(mode=0o700)
    assert levels(installation(tmp_path)) == {Severity.OK}
    assert sorted(path.name for path in (tmp_path / "board").iterdir()) == []


def test_a_board_that_is_not_there_yet_is_not_made(tmp_path: Path) -> None:
    found = installation(tmp_path)
    assert "does not exist yet, and can be created" in only(found, "board").message
    assert not found.settings.board.exists()


def test_a_settings_file_is_named_with_what_led_to_it(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("")
    file.chmod(0o666)
    found = installation(tmp_path)
    first, second = lines(replace(found, settings=replace(found.settings, file=file)), "settings")
    assert first.message == f"{file} (from --config); 1 GPU entry"
    assert (second.severity, second.hint) == (Severity.WARNING, f"chmod go-w {file}")


@pytest.mark.parametrize(
    ("folder", "origin"), [("", "in the current folder"), ("other", "yours"), ("/etc/hpc-board", "the system's")]
)
def test_a_settings_file_that_nothing_names_is_told_by_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, origin: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found = installation(tmp_path)
    file = tmp_path / folder / "hpc-board.yaml"
    first, *_ = diagnose(replace(found, origin="", settings=replace(found.settings, file=file)))
    assert first.message.startswith(f"{file} ({origin}); ")


def test_a_board_that_is_a_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "board").write_text("")
    assert only(installation(tmp_path), "board").severity is Severity.ERROR


def test_a_board_and_a_home_in_folders_that_submissions_read_are_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "board").symlink_to("/usr/lib")
    monkeypatch.setenv("HOME", "/usr/share/ada")
    seen = [line for line in lines(installation(tmp_path), "board") if "submissions" in line.message]
    end = "which submissions can read: every run will end as infra_error"
    assert [(line.severity, line.message, line.hint) for line in seen] == [
        (
            Severity.ERROR,
            f"the board {tmp_path}/board is in {os.path.realpath('/usr/lib')}, {end}",
            "Choose another folder for the board, e.g. /srv/hpc-board.",
        ),
        (
            Severity.ERROR,
            f"the home folder /usr/share/ada is in /usr/share, {end}",
            "Use an account with a different home folder, e.g. in /home.",
        ),
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "board").mkdir(mode=0o500)
    line = only(installation(tmp_path), "board")
    assert (line.severity, "cannot be written: Permission denied" in line.message) == (Severity.ERROR, True)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_a_board_of_another_account_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "board").mkdir()
    os.chown(tmp_path / "board", 12345, 12345)
    assert "belongs to 12345" in lines(installation(tmp_path), "board")[0].message


class Unreachable:
    """A login node that cannot be reached."""

    def run(self, argv: Sequence[str], **_: Any) -> Completed:
        raise SchedulerError(f"login2 cannot be reached for {argv[0]}", hint="Look whether `ssh login2` works.")


def test_a_cluster_over_ssh_is_asked_on_its_login_node(tmp_path: Path) -> None:
    far = Cluster("far", "slurm", ssh=Login("login2"), board_folder="/scratch/board")
    found = lines(replace(installation(tmp_path, far), hosts={"far": Unreachable()}))
    told = [line.message for line in found if line.subject == "slurm far" and line.severity is not Severity.OK]
    assert told == ["login2 cannot be reached for sbatch"], "one problem, however many commands there are"
    assert next(line for line in found if line.message == told[0]).hint == "Look whether `ssh login2` works."
    (python,) = [line for line in found if line.subject == "gpu CPU"]
    assert "of the nodes" in python.message, "what is on this machine says nothing of that cluster"


def test_a_cluster_over_ssh_has_its_job_folders_elsewhere(tmp_path: Path) -> None:
    far = Cluster("far", "slurm", ssh=Login("login2"), board_folder="/scratch/board")
    messages = [line.message for line in lines(installation(tmp_path, far), "file system")]
    assert not any("compute nodes must see" in message for message in messages)
    assert any("compute nodes must see" in line.message for line in lines(installation(tmp_path, SLURM), "file system"))


def test_names_in_roles_that_this_machine_does_not_know_are_told(tmp_path: Path) -> None:
    found = installation(tmp_path)
    roles = Roles(admins=("root",), creators=("nobody-has-this-name",), participants=("root", "@no-such-group"))
    told = lines(replace(found, settings=replace(found.settings, roles=roles)), "roles")
    assert [(line.severity, line.message) for line in told] == [
        (Severity.WARNING, "roles.creators: unknown on this machine: nobody-has-this-name"),
        (Severity.WARNING, "roles.participants: unknown on this machine: @no-such-group"),
    ]


@pytest.mark.parametrize(
    ("cluster", "refused"),
    [
        (SLURM, True),
        (replace(SLURM, allow_root=True), False),
        (replace(SLURM, account="hpcboard-run", board_folder="/srv/jobs"), False),
        (replace(SLURM, ssh=Login("login2"), board_folder="/scratch/board"), False),
        (HERE, False),
        (replace(HERE, allow_root=False), True),
    ],
)
def test_root_is_told_that_the_judge_refuses_its_jobs(tmp_path: Path, cluster: Cluster, refused: bool) -> None:
    told = lines(installation(tmp_path, cluster), "root")
    assert [line.severity for line in told] == [Severity.ERROR] * (refused and is_root())
    assert all(f"clusters.{cluster.name}.allow_root" in line.hint for line in told)


def test_a_file_system_that_writes_nothing_is_a_problem() -> None:
    if not Path("/sys/kernel").is_dir():
        pytest.skip("there is no /sys here")
    settings = Settings(Path("/sys/kernel"), Path("/tmp/devices"), (), (), (HERE,))
    found = Installation(settings, "", TASKS, none_in_flight, Answers())
    assert any(
        line.severity is Severity.ERROR and "cannot be written" in line.message for line in lines(found, "board")
    )


@pytest.mark.parametrize(
    ("mounts", "cluster", "words", "severity"),
    [
        (EXT4, HERE, "ext4, local to this machine; SQLite's journal is wal", Severity.OK),
        (EXT4, SLURM, "compute nodes must see", Severity.WARNING),
        ("1 0 0:1 / / rw - nfs4 a:/b rw,vers=4.2\n", SLURM, "nfs4, possibly shared between machines", Severity.OK),
        ("1 0 0:1 / / rw - tmpfs none rw\n", HERE, "tmpfs is lost when the machine reboots", Severity.WARNING),
        ("", HERE, "unknown, possibly shared between machines; SQLite's journal is del", Severity.OK),
    ],
)
def test_the_file_system_says_what_it_means_for_the_board(
    tmp_path: Path, mounts: str, cluster: Cluster, words: str, severity: Severity
) -> None:
    found = lines(installation(tmp_path, cluster, mounts), "file system")
    assert [line for line in found if line.severity is severity and line.message.startswith(words)], found


def test_a_shared_file_system_is_no_reason_to_warn_of_compute_nodes(tmp_path: Path) -> None:
    found = lines(installation(tmp_path, SLURM, "1 0 0:1 / / rw - nfs4 a:/b rw\n"), "file system")
    assert [line.severity for line in found] == [Severity.OK]


@pytest.mark.parametrize(
    ("options", "local"),
    [
        ("rw,vers=3,local_lock=none", False),
        ("rw,vers=3,local_lock=all", True),
        ("rw,nolock,vers=3", True),
        ("rw,localflock", True),
        ("rw,nolockd", False),
    ],
)
def test_a_mount_whose_locks_hold_on_one_machine_alone_is_a_warning(tmp_path: Path, options: str, local: bool) -> None:
    found = lines(installation(tmp_path, mounts=f"1 0 0:1 / / rw,relatime - nfs a:/b {options}\n"), "locks")
    assert [line.severity for line in found] == [Severity.OK] + [Severity.WARNING] * local


@pytest.fixture
def held(tmp_path: Path) -> Iterator[int]:
    """A process that holds the board's lock."""
    (tmp_path / "board").mkdir()
    code = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "board" / lock_name("main"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    yield holder.pid
    holder.communicate()


def test_a_lock_that_somebody_holds_is_named_with_the_holder(tmp_path: Path, held: int) -> None:
    line = only(installation(tmp_path), "lock")
    assert (line.severity, f"held by process {held} of this machine" in line.message) == (Severity.WARNING, True), line


def test_a_lock_file_that_nobody_holds_is_free(tmp_path: Path) -> None:
    (tmp_path / "board").mkdir()
    with (tmp_path / "board" / lock_name("main")).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
    assert only(installation(tmp_path), "lock") == Diagnostic(Severity.OK, "lock", "no lock is held")


def test_a_board_without_a_database_gets_one_at_first_use(tmp_path: Path) -> None:
    (tmp_path / "board").mkdir()
    assert only(installation(tmp_path), "database") == Diagnostic(
        Severity.OK, "database", "will be created at first use"
    )


def test_what_killed_programs_have_left_is_named(tmp_path: Path) -> None:
    (tmp_path / "board" / "checks" / "a").mkdir(parents=True)
    old, new = tmp_path / "board" / "runs" / ".1.77", tmp_path / "board" / "runs" / ".2.78"
    for folder in (old, new, tmp_path / "board" / "runs" / "3"):
        folder.mkdir(parents=True)
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    checks, drafts = lines(installation(tmp_path), "left over")
    assert "the folders of 1 checks" in checks.message
    assert drafts.message.startswith("1 unfinished job folders, such as ")
    assert ".1.77" in drafts.message


def test_a_database_that_cannot_be_read_is_a_problem_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "board").mkdir()
    (tmp_path / "board" / DATABASE).write_text("x")

    def broken() -> Sequence[Run]:
        raise StorageError("board.db is no database", hint="Restore it.")

    line = only(replace(installation(tmp_path), in_flight=broken), "database")
    assert line == Diagnostic(Severity.ERROR, "database", "board.db is no database", "Restore it.")
    assert only(installation(tmp_path), "database").message == "0.0 MiB; 0 runs in flight"


def test_a_task_that_cannot_be_read_is_a_problem_and_none_at_all_a_warning(tmp_path: Path) -> None:
    fault = DocumentError("tasks/x/task.yml", [Fault("lang", "is missing", 2)])
    faulty = Catalog((replace(a_task(), warnings=("line 3: the key x is not known",)),), (fault,))
    found = lines(replace(installation(tmp_path), tasks=faulty), "tasks")
    assert [line.severity for line in found] == [Severity.ERROR, Severity.WARNING, Severity.OK]
    assert "lang: is missing" in found[0].message
    bare = replace(installation(tmp_path), tasks=Catalog(()))
    assert only(bare, "tasks").severity is Severity.WARNING
    assert only(replace(bare, count_boards=lambda: 2), "tasks").severity is Severity.OK

    def broken() -> int:
        raise StorageError("board.db is no database")

    assert only(replace(bare, count_boards=broken), "tasks").severity is Severity.WARNING


def test_a_board_whose_only_tasks_are_those_of_users_has_tasks(board: Recorded) -> None:
    settings = yaml.safe_load(board.settings.read_text())
    created = board.hpc_board("create", "week1", "vectoradd_py")
    assert created.returncode == 0, created.stderr
    board.settings.write_text(yaml.safe_dump({**settings, "tasks": []}))
    told = json.loads(board.hpc_board("admin", "doctor", "--json").stdout)
    (tasks,) = [line for line in told if line["subject"] == "tasks"]
    assert (tasks["level"], tasks["message"]) == ("ok", "none in the settings' folders; users created 1 board")


@pytest.mark.parametrize(
    ("answers", "severity", "words"),
    [
        ({}, Severity.OK, "slurm 23.11.4"),
        ({}, Severity.OK, "the controller answers in "),
        ({}, Severity.OK, "no accounting: a job that left the queue"),
        ({}, Severity.OK, "MinJobAge is 300 s"),
        ({"sbatch": CommandMissing("no sbatch")}, Severity.ERROR, "sbatch: no sbatch"),
        ({"sacct": CommandMissing("no sacct")}, Severity.WARNING, "sacct: no sacct; without it, a job that left"),
        (
            {name: Completed(1, "", f"{name}: fatal: no configuration\n") for name in ("sbatch", "sinfo", "sacct")},
            Severity.ERROR,
            "sbatch, sinfo, sacct: no configuration; without it",
        ),
        (
            {"sinfo": Completed(0, "slurm 22.05.8", "")},
            Severity.WARNING,
            "commands from different releases: slurm 23.11.4 (sb",
        ),
        ({"sinfo": Completed(0, "slurm 20.11.9", "")}, Severity.WARNING, "releases before 21.08"),
        (
            {
                "sbatch": Completed(0, "This site bills GPU hours.\nslurm 23.11.4\n", ""),
                "squeue": Completed(0, "slurm 23.11.4-1.el9\n", ""),
                "sinfo": Completed(0, "slurm-wlm 23.11.4\n", ""),
            },
            Severity.OK,
            "slurm 23.11.4",
        ),
        (
            {"squeue --noheader --me --format=%i": Completed(1, "", "squeue: error: Unable to contact\n")},
            Severity.ERROR,
            "the controller does not answer: Unable to contact",
        ),
        (
            {"squeue --noheader --me --format=%i": CommandTimeout("late")},
            Severity.ERROR,
            "the controller does not answer: no answer within 30 s",
        ),
        (
            {"scontrol show config": Completed(1, "", "denied")},
            Severity.WARNING,
            "its configuration is unknown: denied",
        ),
        ({"scontrol show config": Completed(0, "MinJobAge = 30 sec\n", "")}, Severity.WARNING, "MinJobAge is 30 s"),
        ({"scontrol show config": Completed(0, "PrivateData = jobs,users\n", "")}, Severity.OK, "PrivateData hides"),
        (
            {"scontrol show config": Completed(0, "AccountingStorageType = accounting_storage/slurmdbd\n", "")},
            Severity.OK,
            "sacct answers",
        ),
    ],
)
def test_slurm_is_told_by_what_its_commands_answer(
    tmp_path: Path, answers: Mapping[str, Completed | Exception], severity: Severity, words: str
) -> None:
    found = lines(replace(installation(tmp_path, SLURM), host=Answers(answers)), "slurm main")
    assert [line for line in found if line.severity is severity and line.message.startswith(words)], found


@pytest.mark.parametrize(
    ("silent", "unchecked"),
    [
        ("sbatch --version", "the other commands, the controller and the configuration were not checked"),
        ("scancel --version", "the other commands, the controller and the configuration were not checked"),
        ("squeue --noheader --me --format=%i", "its configuration was not checked"),
        ("scontrol show config", "the accounting was not checked"),
    ],
)
def test_a_cluster_that_gave_no_answer_is_asked_nothing_more(tmp_path: Path, silent: str, unchecked: str) -> None:
    said: list[str] = []
    host = Answers({silent: CommandTimeout("late")})
    found = lines(replace(installation(tmp_path, SLURM), host=host, say=said.append), "slurm main")
    (told,) = [line.message for line in found if "no answer within 30 s" in line.message]
    assert told.endswith(f"; {unchecked}")
    asked = [" ".join(argv) for argv in host.asked if not argv[0].startswith("/")]
    assert (asked[-1], asked.count(silent)) == (silent, 1)
    assert said == ["Cluster main: querying Slurm"]


def test_this_machine_is_no_cluster_to_wait_for(tmp_path: Path) -> None:
    said: list[str] = []
    lines(replace(installation(tmp_path), say=said.append))
    assert said == []


def test_an_sacct_that_fails_where_there_is_accounting_is_a_warning(tmp_path: Path) -> None:
    answers = {
        "scontrol show config": Completed(0, "AccountingStorageType = accounting_storage/slurmdbd\n", ""),
        "sacct ...": Completed(1, "", "sacct: error: Problem talking to the database\n"),
    }
    found = lines(replace(installation(tmp_path, SLURM), host=Answers(answers)), "slurm main")
    assert [line.message for line in found if line.severity is Severity.WARNING] == [
        "accounting is enabled, but sacct fails: Problem talking to the database"
    ]


@pytest.mark.parametrize(
    ("python", "severity", "words"),
    [
        (sys.executable, Severity.OK, f"{sys.executable} is Python 3."),
        ("python3", Severity.OK, "`hpc-board admin check CPU` shows the `python3` of the nodes"),
        ("/no/such", Severity.WARNING, "/no/such is not on this machine"),
        ("/bin/true", Severity.ERROR, "/bin/true does not run here: it exited with status 0"),
        ("/bin/echo", Severity.ERROR, "/bin/echo does not run here"),
    ],
)
def test_the_python_of_an_entry_is_tried_where_it_is(
    tmp_path: Path, python: str, severity: Severity, words: str
) -> None:
    line = only(installation(tmp_path, python=python), "gpu CPU")
    assert (line.severity, line.message.startswith(words)) == (severity, True), line


def test_a_python_in_an_image_is_not_looked_for_on_this_machine(tmp_path: Path) -> None:
    container = JobContainer(ContainerRuntime.ENROOT, "kernels", (), "gpus.CPU.container")
    line = only(installation(tmp_path, python="/no/such", container=container), "gpu CPU")
    assert (line.severity, line.message) == (
        Severity.OK,
        "`hpc-board admin check CPU` examines kernels on a node",
    )


def test_a_python_that_is_too_old_is_a_problem(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\necho 3.6.8\n")
    old.chmod(0o755)
    line = only(installation(tmp_path, python=str(old)), "gpu CPU")
    assert (line.severity, line.message) == (Severity.ERROR, f"{old} is Python 3.6.8, too old")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ nothing }}", "cannot be rendered"),
        ("python harness.py supervise job.json", "its template does not run `account`"),
        ("python harness.pyz supervise x; python harness.pyz account x", "does not run `supervise and account`"),
        ("python harness.py supervise job.json; python harness.py account job.json 1", "its template is rendered"),
    ],
)
def test_a_template_has_to_be_rendered_and_to_run_the_harness(tmp_path: Path, template: str, words: str) -> None:
    (tmp_path / "job.sh.j2").write_text(template)
    first = lines(installation(tmp_path, template=str(tmp_path / "job.sh.j2")), "gpu CPU")[0]
    assert words in first.message


def test_the_report_counts_what_is_wrong_and_says_what_to_do() -> None:
    shown = plain(
        diagnostics_report(
            "",
            [
                Diagnostic(Severity.OK, "board", "fine"),
                Diagnostic(Severity.WARNING, "x", "a\nb\x1b[31m", "Do this."),
                Diagnostic(Severity.ERROR, "y", ""),
            ],
            "No errors",
        )
    )
    assert shown == (
        "ok       board  fine\n"
        "warning  x      a\n"
        "                  b\n"
        "                -> Do this.\n"
        "error    y\n"
        "\n"
        "1 error, 1 warning.\n"
    )


def test_the_json_of_a_diagnostic_has_no_escape_sequences() -> None:
    assert view_of(DiagnosticView, Diagnostic(Severity.OK, "x", "a\x1b[31m", "Do this.")).message == "a"
