"""The words of values, and the completion of paths."""

from datetime import timedelta
from pathlib import Path

import pytest

from hpc_board.domain.run import RunState
from hpc_board.model.result import Verdict
from hpc_board.model.task import Language, Mode, Ranking
from hpc_board.report.formatting import RANKING_WORDS
from hpc_board.report.plain import plain
from hpc_board.report.run_words import outcome, why
from hpc_board.report.tasks import task_report
from hpc_board.tui.formatting import MODE_HELP, languages, listing, state, time_left
from hpc_board.tui.palette import Tone
from hpc_board.tui.widgets.path_input import completion
from tests.tui.fake_board import NOW, TASKS, run
from tests.values import replace


@pytest.mark.parametrize("run_state", RunState)
def test_every_state_has_a_word_that_fits_its_column(run_state: RunState) -> None:
    word, _ = state(run(1, run_state, verdict=Verdict.PASS))
    assert 0 < len(word) <= 13


@pytest.mark.parametrize("verdict", Verdict)
def test_a_verdict_is_called_what_reports_call_it(verdict: Verdict) -> None:
    finished = run(1, RunState.FINISHED, verdict=verdict, message="see the log")
    assert state(finished) == (outcome(finished), Tone.GOOD if verdict is Verdict.PASS else Tone.BAD)
    assert why(finished) == "see the log"


@pytest.mark.parametrize("mode", Mode)
def test_every_mode_is_explained_in_the_form(mode: Mode) -> None:
    assert MODE_HELP[mode]


@pytest.mark.parametrize("ranking", Ranking)
def test_the_score_of_a_task_is_named_in_words(ranking: Ranking) -> None:
    report = task_report(replace(TASKS[0], ranking_by=ranking), (), NOW)
    assert RANKING_WORDS[ranking] in plain(report, 100)


@pytest.mark.parametrize(
    ("accepted", "words"),
    [
        ((), "py"),
        ((Language.PY, Language.CU), "py cu"),
        ((Language.PY, Language.CPP), "py+1"),
        ((Language.CPP, Language.CU, Language.HIP), "cpp+2"),
        (tuple(Language), "all"),
    ],
)
def test_all_languages_of_a_task_are_told_in_a_narrow_column(accepted: tuple[Language, ...], words: str) -> None:
    assert languages(replace(TASKS[0], languages=accepted)) == words
    assert len(words) <= 5


def test_a_run_on_its_way_to_the_scheduler_says_what_is_known_of_that() -> None:
    assert why(run(1, RunState.SUBMITTING, source="sbatch hung")) == "sbatch hung"
    assert why(run(1, RunState.SUBMITTING, reason="not confirmed", source="sbatch hung")) == "not confirmed"
    assert why(run(1, RunState.QUEUED, source="squeue: PENDING")) == ""


def test_the_last_day_of_a_task_is_a_warning() -> None:
    assert time_left(NOW + timedelta(hours=7), NOW) == ("7 h", Tone.WAITING)
    assert time_left(NOW + timedelta(days=9), NOW) == ("9 d", Tone.PLAIN)
    assert time_left(NOW, NOW) == ("over", Tone.MUTED)
    assert time_left(None, NOW) == ("-", Tone.MUTED)


def test_words_are_listed_as_in_a_sentence() -> None:
    assert [listing(words) for words in ((), ("A",), ("A", "B"), ("A", "B", "C"))] == ["", "A", "A and B", "A, B and C"]


def test_a_path_is_completed_to_folders_and_submissions_alone(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "fast.cu").touch()
    assert completion(f"{tmp_path}/ker") == f"{tmp_path}/kernels/"
    assert completion(f"{tmp_path}/fa") == f"{tmp_path}/fast.cu"
    assert completion(f"{tmp_path}/not") is None
    assert completion(f"{tmp_path}/") is None
    assert completion("/no such folder/x") is None
    assert completion("a\0b/c") is None
