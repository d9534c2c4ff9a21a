"""Typical mistakes on the command line, with their answers: `mistakes.txt` is the table of them."""

import shlex
from pathlib import Path

from tests.golden.board import GoldenBoard
from tests.golden.files import Golden
from tests.golden.normal import normal

MISTAKES = (
    "lst",
    "stat",
    "shwo scan",
    "submitt kernel.py",
    "run kernel.py",
    "kernel.py --wait",
    "missing.py",
    "submit",
    "submit missing.py",
    "submit board",
    "submit kernel.txt",
    "submit empty.py",
    "submit kernel.py --task scann",
    "submit kernel.py --task narrow",
    "submit kernel.py --gpu H200",
    "submit kernel.py --gpu h10",
    "submit kernel.py --gpu ''",
    "submit kernel.py --mode rank",
    "submit kernel.py --mode fastest",
    "submit kernel.py --leaderbord scan",
    "submit --file kernel.py",
    "submit kernel.py --timeout 5",
    "submit kernel.py --wait --timeout soon",
    "submit kernel.py --wait --timeout -1",
    "submit kernel.py --dry-run --wait",
    "submit kernel.py -",
    "submit kernel.py --name other.py",
    "submit kernel.py ./kernel.py",
    "submit kernel.py board/../kernel.py",
    "submit -",
    "submit kernel.py -g",
    "submit bare.py",
    "submit misspelt.py",
    "show scann",
    "show SCAN",
    "show scan --gpu H200",
    "show scan --top 0",
    "show scan --top many",
    "show scan --rank 99",
    "show scan --rank 1 --top 3",
    "show scan --task-version none",
    "show scan narrow",
    "show --rank 1",
    "show --user ada",
    "show scan --all",
    "feed --since 3",
    "history scan --user",
    "compare 1",
    "compare 1 9999",
    "compare 1 1",
    "run 9999",
    "run --id 3",
    "run",
    "run 0",
    "run twelve",
    "run 10 --samples",
    "run 10 --log --json",
    "runs --state passed",
    "runs --state bogus",
    "runs --mode leaderbord",
    "runs --limit x",
    "runs --task scann",
    "watch 9999",
    "cancel",
    "cancel 9999",
    "cancel {verdict_crash}",
    "code 9999",
    "code 1 --json -o kernel.py",
    "note 9999 text",
    "note {submission_best}",
    "template scann",
    "template scan",
    "template scan --language Rust",
    "task scan --file refrence.py",
    "task check nowhere",
    "eval-code --file judge",
    "delete scan",
    "update scan --deadline tomorrow",
    "admin bans",
    "admin export",
    "completion tcsh",
    "help submitt",
    "list --yaml",
    "--color red list",
    "admin detect --cluster",
    "admin detect --cluster 'a b'",
    "show scan --versions --rank 1",
    "show scan --all-users --top 3",
    "task check --json=3 scan",
)


def test_every_typical_mistake_has_the_answer_that_it_had(
    golden: Golden, made_board: GoldenBoard, tmp_path: Path
) -> None:
    board = made_board.copy(tmp_path / "board")
    for name, text in (
        ("kernel.txt", "x\n"),
        ("empty.py", ""),
        ("bare.py", "def custom_kernel(data):\n    return data\n"),
        ("misspelt.py", "#!POPCORN leaderbord scan\ndef custom_kernel(data):\n    return data\n"),
    ):
        (board.folder / name).write_text(text)
    told = []
    for argv in MISTAKES:
        done = board.run("ada", *shlex.split(argv))
        assert "Traceback" not in done.stderr
        told.append(f"$ hpc-board {argv}\n{done.stderr}exit code {done.exit_code}\n")
    golden.check("mistakes.txt", normal("\n".join(told), board.folder))
