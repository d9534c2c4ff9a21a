"""The recordings of the app: well-formed and small."""

import json
import re
from pathlib import Path

from tests.unit.recorded import REPOSITORY

COMMITTED = REPOSITORY / "docs/recordings/app.cast"
EVENING = REPOSITORY / "docs/recordings/evening.cast"
HOLD = REPOSITORY / "docs/recordings/hold.cast"
SHOWN = (
    "Template of heat written to mine.py",
    "Ready: heat on CPU, mode ranked",
    " on CPU: ",
    "[reference]",
    "Passed: 5 tests and 3 benchmarks.",
    "Speedups are relative to the reference",
)
SHOWN_IN_THE_EVENING = (
    "Ready: double on H100 and A100, mode test: 2 jobs.",
    "Cancel 2 runs: ",
    "watching: save the file to submit it",
    "Second place on H100",
    "First place on H100",
    "took first place on double, H100",
)

SHOWN_OF_A_HELD_GPU = (
    "hpc-board hold H100 --for 30m --wait",
    "Failed: wrong value",
    "Passed: 2 tests.",
    " on H100: ",
    "watching: save the file to submit it",
    "H100 held",
    "Runner 1: release requested",
)


def texts(recording: Path, width: int = 100, height: int = 30) -> str:
    """All that a recording shows, one change after the other, once its form is found right."""
    header, *events = map(json.loads, recording.read_text(encoding="utf-8").splitlines())
    assert (header["version"], header["width"], header["height"]) == (2, width, height)
    times = [at for at, _, _ in events]
    assert (times == sorted(times), times[0] >= 0, {kind for _, kind, _ in events}) == (True, True, {"o"})
    return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", "".join(text for _, _, text in events))


def test_the_recording_of_the_manual_is_small_and_goes_from_a_starter_to_a_rank() -> None:
    assert COMMITTED.stat().st_size < 300_000
    told = texts(COMMITTED)
    assert [words for words in SHOWN if words not in told] == []


def test_the_recording_of_an_evening_on_slurm_goes_to_a_first_place() -> None:
    assert EVENING.stat().st_size < 900_000
    told = " ".join(texts(EVENING, 120, 40).split())
    assert "/tmp/" not in told
    assert [words for words in SHOWN_IN_THE_EVENING if words not in told] == []


def test_the_recording_of_a_held_gpu_goes_from_hold_to_release() -> None:
    assert HOLD.stat().st_size < 300_000
    told = " ".join(texts(HOLD, 120, 40).split())
    assert "/tmp/" not in told
    assert [words for words in SHOWN_OF_A_HELD_GPU if words not in told] == []
