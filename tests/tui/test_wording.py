"""The words of values, and the completion of paths."""

from datetime import timedelta
from pathlib import Path

import pytest

from hpc_board.domain.run import RunState
from hpc_board.model.result import Verdict
from hpc_board.model.task import Language
from hpc_board.tui.formatting import languages, state, time_left
from hpc_board.tui.palette import Tone
from hpc_board.tui.widgets.form import completion
from tests.tui.fake_board import NOW, TASKS, run
from tests.values import replace


@pytest.mark.parametrize("run_state", RunState)
def test_every_state_has_a_word_that_fits_its_column(run_state: RunState) -> None:
    word, _ = state(run(1, run_state, verdict=Verdict.PASS))
    assert 0 < len(word) <= 13


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


def test_the_last_day_of_a_task_is_a_warning() -> None:
    assert time_left(NOW + timedelta(hours=7), NOW) == ("7 h", Tone.WAITING)
    assert time_left(NOW + timedelta(days=9), NOW) == ("9 d", Tone.PLAIN)
    assert time_left(NOW, NOW) == ("0 s", Tone.WAITING)
    assert time_left(NOW, NOW + timedelta(seconds=1)) == ("over", Tone.MUTED)
    assert time_left(None, NOW) == ("-", Tone.MUTED)


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
