"""The files of a run, brought from its job folder by `hpc-board run ID --files`."""

import hashlib
import os
from pathlib import Path
from typing import cast

import msgspec
import pytest

from hpc_board.board import Board
from hpc_board.board.run_files import fetch_run_files
from hpc_board.board.runs import Runs
from hpc_board.domain.run import Run, WholeRun
from hpc_board.domain.run_files import FILE_BYTES_MAX, FILES_MAX, RUN_BYTES_MAX, RunFile, RunFiles, within_bounds
from hpc_board.errors import BoardError, InputError, Refused
from hpc_board.model.profile_files import is_profile_file
from hpc_board.model.result import Log, Verdict
from hpc_board.model.task import Mode
from hpc_board.store import Store
from tests.unit.recorded import Recorded, call, read, recorded, result_of
from tests.values import replace

REPORT = os.urandom(5_000_000)


def profiled(board: Recorded, *, mode: Mode = Mode.PROFILE, user: str | None = None) -> tuple[Run, Path]:
    """Record a run with files in its job folder, and return the run and the folder."""
    result = replace(result_of(Verdict.PASS), build=Log("ptxas info: 32 registers\n"), profile=Log("case 1\n"))
    run = board.add(result=result, mode=mode, user=user)
    folder = board.folder / "board" / "runs" / str(run.id)
    (folder / "profile").mkdir(parents=True)
    (folder / "task").mkdir()
    (folder / "task" / "reference.py").write_text("secret")
    (folder / "job.json").write_text("secret")
    (folder / f"slurm-{run.status.job_id}.out").write_text("loading modules\n")
    (folder / "profile" / "case-1.ncu-rep").write_bytes(REPORT)
    (folder / "profile" / "case-1.trace.json").write_text("{}")
    return run, folder


@pytest.fixture
def recorded_run(tmp_path: Path) -> Run:
    """A run of a board by its files."""
    return recorded(tmp_path / "site").add(result=result_of(Verdict.PASS))


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".hpc-board-run"}


def test_files_come_home_whole_with_the_texts_of_the_result(board: Recorded, tmp_path: Path) -> None:
    run, _ = profiled(board)
    done = call(board, "run", str(run.id), "--files", tmp_path / "home")
    folder = tmp_path / "home" / f"run-{run.id}"
    log = f"slurm-{run.status.job_id}.out"
    names = [log, "case-1.ncu-rep", "case-1.trace.json", "build.txt", "profile.txt"]
    assert done.stdout.split() == [str(folder / name) for name in names]
    assert done.stderr == f"5 files of run {run.id}, 5 MiB.\n"
    assert (folder / "case-1.ncu-rep").read_bytes() == REPORT
    assert (folder / log).read_text() == "loading modules\n"
    assert (folder / "build.txt").read_text() == "ptxas info: 32 registers\n"
    assert names_in(folder) == set(names)


def test_json_lists_paths_sizes_and_hashes(board: Recorded, tmp_path: Path) -> None:
    run, _ = profiled(board)
    found = read(board, "run", str(run.id), "--files", tmp_path / "home")
    report = next(each for each in found["files"] if each["path"].endswith("ncu-rep"))
    assert report == {
        "path": str(tmp_path / "home" / f"run-{run.id}" / "case-1.ncu-rep"),
        "bytes": len(REPORT),
        "sha256": hashlib.sha256(REPORT).hexdigest(),
    }
    assert (found["run"], found["left_out"]) == (run.id, [])


def test_links_and_names_of_others_stay_in_the_job_folder(board: Recorded, tmp_path: Path) -> None:
    run, folder = profiled(board)
    (folder / "profile" / "linked.json").symlink_to(folder / "job.json")
    (folder / "profile" / "reference.py").write_text("secret")
    (folder / "profile" / ".hidden.json").write_text("secret")
    os.mkfifo(folder / "profile" / "pipe.json")
    read(board, "run", str(run.id), "--files", tmp_path / "home")
    got = names_in(tmp_path / "home" / f"run-{run.id}")
    assert {name for name in got if not name.startswith(("case-1", "slurm-"))} == {"build.txt", "profile.txt"}
    door = board.door
    for name, error in (("linked.json", BoardError), ("../job.json", InputError), ("reference.py", InputError)):
        with door.session(), pytest.raises(error, match=r"is not a regular file|has no file"):
            door.runs.file_part(run.id, name, 0)


def test_a_link_in_place_of_the_folder_of_profiles_is_not_followed(board: Recorded, tmp_path: Path) -> None:
    run, folder = profiled(board)
    (folder / "profile").rename(tmp_path / "elsewhere")
    (folder / "profile").symlink_to(tmp_path / "elsewhere")
    done = call(board, "run", str(run.id), "--files", tmp_path / "home")
    assert done.exit_code == 3
    assert "cannot be read at the moment: Not a directory" in " ".join(done.stderr.split())


def test_a_ranked_run_has_no_files_of_a_profile(board: Recorded, tmp_path: Path) -> None:
    run, _ = profiled(board, mode=Mode.RANKED)
    call(board, "run", str(run.id), "--files", tmp_path)
    assert not any(name.startswith("case-") for name in names_in(tmp_path / f"run-{run.id}"))
    door = board.door
    with door.session(), pytest.raises(InputError):
        door.runs.file_part(run.id, "case-1.ncu-rep", 0)


def test_a_file_above_the_bound_is_left_out_with_words(board: Recorded, tmp_path: Path) -> None:
    run, folder = profiled(board)
    os.truncate(folder / "profile" / "case-1.ncu-rep", FILE_BYTES_MAX + 1)
    done = call(board, "run", str(run.id), "--files", tmp_path)
    assert "Skipped case-1.ncu-rep (64 MiB): exceeds the limit of 64 MiB per file.\n" in done.stderr
    assert "case-1.ncu-rep" not in names_in(tmp_path / f"run-{run.id}")


def test_a_large_file_tells_its_progress(board: Recorded, tmp_path: Path) -> None:
    run, folder = profiled(board)
    os.truncate(folder / "profile" / "case-1.ncu-rep", 20 * 2**20)
    done = call(board, "run", str(run.id), "--files", tmp_path)
    assert done.stderr.startswith("case-1.ncu-rep: 16 MiB of 20 MiB\n")


def test_the_folder_of_a_run_is_filled_again_and_any_other_stays(board: Recorded, tmp_path: Path) -> None:
    run, folder = profiled(board)
    call(board, "run", str(run.id), "--files", tmp_path / "home")
    (folder / "profile" / "case-1.trace.json").write_text("[1]")
    assert call(board, "run", str(run.id), "--files", tmp_path / "home").exit_code == 0
    assert (tmp_path / "home" / f"run-{run.id}" / "case-1.trace.json").read_text() == "[1]"
    other = tmp_path / "other" / f"run-{run.id}"
    other.mkdir(parents=True)
    (other / "case-1.trace.json").write_text("mine")
    done = call(board, "run", str(run.id), "--files", tmp_path / "other")
    assert (done.exit_code, names_in(other)) == (2, {"case-1.trace.json"})
    assert "is not a folder with files of this run" in " ".join(done.stderr.split())
    assert (other / "case-1.trace.json").read_text() == "mine"
    (tmp_path / "home" / f"run-{run.id}" / ".hpc-board-run").write_text("hb-of-another-board\n")
    assert call(board, "run", str(run.id), "--files", tmp_path / "home").exit_code == 2


def test_the_folder_of_a_run_is_the_users_own(board: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = profiled(board)
    assert call(board, "run", str(run.id), "--files", tmp_path).exit_code == 0
    assert (tmp_path / f"run-{run.id}").stat().st_mode & 0o077 == 0
    monkeypatch.setattr("hpc_board.board.run_files.os.getuid", lambda: os.geteuid() + 1)
    done = call(board, "run", str(run.id), "--files", tmp_path)
    assert done.exit_code == 2
    assert "is not a folder with files of this run" in " ".join(done.stderr.split())


def test_a_pruned_run_says_that_its_folder_was_removed(board: Recorded, tmp_path: Path) -> None:
    run, folder = profiled(board)
    folder.rename(tmp_path / "gone")
    Store(board.folder / "board" / "board.db").runs.prune({run.id: ""})
    done = call(board, "run", str(run.id), "--files", tmp_path / "home")
    assert done.exit_code == 2
    assert f"the job folder of run {run.id} was removed at" in " ".join(done.stderr.split())
    assert not (tmp_path / "home").exists()


def test_another_s_files_are_for_those_who_manage_the_board(board: Recorded) -> None:
    run, _ = profiled(board, user="eve")
    bob = Board(board.board.settings, user="bob")
    for ask in (lambda: bob.runs.files(run.id), lambda: bob.runs.file_part(run.id, "case-1.ncu-rep", 0)):
        with pytest.raises(Refused, match="only eve, the board's creator and admins may read the files"):
            ask()
    assert Board(board.board.settings, user="eve").runs.files(run.id).files


class _Hostile:
    """The runs of a service that claims any names and sizes."""

    def __init__(self, run: Run, *files: RunFile) -> None:
        self._run, self._files = run, files

    def whole(self, _: int) -> WholeRun:
        return WholeRun(self._run, None, None, ())

    def files(self, _: int) -> RunFiles:
        return RunFiles(self._files)

    def file_part(self, *_: object) -> bytes:
        return b"bad"


@pytest.mark.parametrize("name", ["../evil.json", "/tmp/evil.json", ".bashrc", "a/b.json"])
def test_a_service_with_a_name_that_leads_elsewhere_is_refused(recorded_run: Run, tmp_path: Path, name: str) -> None:
    with pytest.raises(BoardError, match="sent an unsafe file name for run"):
        fetch_run_files(cast("Runs", _Hostile(recorded_run, RunFile(name, 3))), 7, tmp_path / "home")
    assert names_in(tmp_path / "home" / "run-7") == set()


def test_a_file_of_a_huge_size_by_the_service_is_not_read(recorded_run: Run, tmp_path: Path) -> None:
    hostile = _Hostile(recorded_run, RunFile("huge.ptx", 2**60), RunFile("small.ptx", 3))
    found = fetch_run_files(cast("Runs", hostile), 7, tmp_path)
    assert names_in(tmp_path / "run-7") == {"small.ptx"}
    assert [(each.name, each.reason) for each in found.left_out] == [
        ("huge.ptx", "exceeds the limit of 64 MiB per file")
    ]


def test_a_negative_size_that_would_raise_the_bound_of_all_files_is_no_answer() -> None:
    with pytest.raises(msgspec.ValidationError, match="files"):
        msgspec.json.decode(b'{"files": [{"name": "a.ptx", "bytes": -1}]}', type=RunFiles)


def test_names_of_profiles_are_a_closed_list() -> None:
    assert all(map(is_profile_file, ["case-1.ncu-rep", "case-12.kernel-stats.csv", "kernel.sass", "perf.data"]))
    assert not any(
        map(is_profile_file, ["a/b.json", ".json", "-x.json", "reference.py", "x.json\n", "a" * 200 + ".ptx"])
    )


def test_files_within_bounds_are_the_first_and_the_others_have_their_reason() -> None:
    many = within_bounds(RunFile(f"{number}", 1) for number in range(FILES_MAX + 2))
    assert (len(many.files), [each.name for each in many.left_out]) == (FILES_MAX, ["200", "201"])
    large = within_bounds(RunFile(f"{number}", FILE_BYTES_MAX) for number in range(6))
    assert sum(each.bytes for each in large.files) == RUN_BYTES_MAX
    assert [each.reason for each in large.left_out] == ["exceeds the limit of 320 MiB per run"]
