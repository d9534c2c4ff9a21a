"""The texts of a task's files, which stay with the service."""

import json
from pathlib import Path

import pytest

from tests.unit.recorded import (
    TASK,
    Recorded,
)
from tests.unit.service.clients import REFERENCE, asking, command, raw


def test_no_text_of_a_tasks_files_leaves_the_service(door: Path) -> None:
    with raw(door) as client:
        client.greeted()
        answers = [client.ask("tasks.catalog"), client.ask("tasks.get", name="narrow")]
    assert REFERENCE not in json.dumps(answers)
    assert '"reference.py"' in json.dumps(answers)


@pytest.mark.parametrize(
    "words",
    [
        ("task", "check", "narrow"),
        ("task", "test", "narrow", "--submission", __file__),
        ("task", "narrow", "--file", "reference.py"),
        ("eval-code", "own"),
    ],
)
def test_a_command_that_needs_the_texts_of_a_task_says_that_the_service_keeps_them(
    board: Recorded, door: Path, words: tuple[str, ...]
) -> None:
    own = board.folder / "tasks" / "own"
    own.mkdir()
    (own / "task.yml").write_text(
        TASK.replace("gpus: [H100]", "hpc_board: {harness: task}").replace("reference", "eval")
    )
    (own / "eval.py").write_text(f"# {REFERENCE}\n")
    done = command(door, *words)
    assert done.exit_code == 2
    assert f"the service does not send the files of task {'own' if 'own' in words else 'narrow'}" in done.stderr


def test_the_files_of_a_task_are_shown_to_be_with_the_service(door: Path) -> None:
    shown = command(door, "task", "narrow").stdout
    assert "reference.py   not published by the service\n" in shown
    assert "submission.py  your submission\n" in shown


def test_a_task_from_the_service_has_the_version_that_its_files_give(board: Recorded, door: Path) -> None:
    with asking(door) as remote:
        assert remote.tasks.get("narrow").version == board.board.tasks.get("narrow").version
