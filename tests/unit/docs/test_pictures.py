"""The pictures of the app in the documentation are what it really shows."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SNAPSHOTS = ROOT / "tests/tui/__snapshots__/test_snapshots"
AROUND_BOARDS = "../test_board_snapshots/test_a_screen_looks_as_designed"
AROUND_RUNS = "../test_run_snapshots/test_a_screen_looks_as_designed"
HELD = "../test_run_snapshots/test_a_held_gpu_looks_as_designed"
AROUND_ADMIN = "../test_admin_snapshots/test_a_page_looks_as_designed"
PICTURES = {
    "admin.svg": f"{AROUND_ADMIN}[boards-80x24].svg",
    "standings.svg": "test_a_screen_looks_as_designed[standings-80x24].svg",
    "submit.svg": "../test_run_snapshots/test_a_script_with_unusual_lines_looks_as_designed.svg",
    "runs.svg": f"{AROUND_RUNS}[runs_while_filtering-80x24].svg",
    "run-cases.svg": f"{AROUND_RUNS}[cases_of_a_pass-80x24].svg",
    "run.svg": "test_a_screen_looks_as_designed[report_of_a_pass-80x24].svg",
    "run-log.svg": "test_a_screen_looks_as_designed[log_of_a_running_run-80x24].svg",
    "run-evidence.svg": f"{AROUND_RUNS}[evidence_of_a_lost_run-80x24].svg",
    "watch.svg": "../test_run_snapshots/test_a_watch_looks_as_designed[80x24].svg",
    "trend.svg": f"{AROUND_BOARDS}[trend-80x24].svg",
    "code.svg": f"{AROUND_BOARDS}[code-80x24].svg",
    "palette.svg": "test_every_action_is_found_by_its_name[tasks].svg",
    "run-roof.svg": "../test_run_snapshots/test_the_roofs_look_as_designed[80x24].svg",
    "cluster.svg": f"{HELD}[cluster-80x24].svg",
    "hold.svg": f"{HELD}[times_to_hold_a_gpu-80x24].svg",
    "feed.svg": f"{AROUND_BOARDS}[feed-80x24].svg",
    "compare.svg": f"{AROUND_BOARDS}[comparison_of_times-80x24].svg",
    "tasks.svg": "test_a_screen_looks_as_designed[tasks-80x24].svg",
}


@pytest.mark.parametrize("picture", sorted(path.name for path in (ROOT / "docs/pictures").glob("*.svg")))
def test_a_picture_is_a_snapshot_that_the_app_is_tested_against(picture: str) -> None:
    shown = (ROOT / "docs/pictures" / picture).read_bytes()
    assert shown == (SNAPSHOTS / PICTURES[picture]).read_bytes(), f"copy {PICTURES[picture]} to docs/pictures/{picture}"
