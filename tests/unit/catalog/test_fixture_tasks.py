"""The fixture tasks: they read, keep their version in the store, use every key there is, and check as expected."""

import importlib.util
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hpc_board.domain.diagnostic import Severity
from hpc_board.errors import DocumentError
from hpc_board.model.task import ISOLATED, Mode
from hpc_board.store import Store
from hpc_board.store.submissions import NewRun, NewSubmission
from hpc_board.task_check.lint import Bounds, check
from tests.fixture_tasks import FIXTURES, Fixture

NOT_RUN = ("not_run",)

every_fixture = pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.name)
each_way = pytest.mark.parametrize(
    ("fixture", "kind"),
    [pytest.param(fixture, kind, id=f"{fixture.name}-{kind}") for fixture in FIXTURES for kind in fixture.checks],
)


def needs_libraries(fixture: Fixture) -> None:
    """Leave out a fixture whose reference imports what this Python lacks."""
    text = fixture.task.text("reference.py") or ""
    for library in ("torch", "numpy"):
        if f"import {library}" in text and importlib.util.find_spec(library) is None:
            pytest.skip(f"no {library}")


@every_fixture
def test_a_fixture_reads_without_a_warning_and_has_the_harness_that_is_expected(fixture: Fixture) -> None:
    assert (fixture.task.harness, fixture.task.warnings) == (fixture.harness, ())


@every_fixture
def test_a_fixture_comes_back_from_the_store_as_it_went_in(fixture: Fixture, tmp_path: Path) -> None:
    task = fixture.task
    store = Store(tmp_path / "board.db")
    submission, _ = store.submissions.add(
        NewSubmission(
            task=task,
            user="ada",
            file_name=fixture.attempts[0].file.name,
            code=fixture.attempts[0].file.read_bytes(),
            mode=Mode.TEST,
            note="",
            at=datetime(2026, 5, 1, tzinfo=UTC),
            runs=[NewRun("CPU", "here", "", "token", "nonce", "self-run", emulated=False, harness_sha256="")],
        ),
        sender=None,
    )
    stored = store.submissions.task(task.name, submission.task_version)
    assert stored.version == task.version == submission.task_version
    assert stored == task


@every_fixture
def test_a_fixture_s_version_is_the_same_when_it_is_read_again_and_another_for_another_harness(
    fixture: Fixture, tmp_path: Path
) -> None:
    assert fixture.task.version == fixture.task.version
    same = fixture.task_under(fixture.harness, tmp_path / "same")
    assert same.version == fixture.task.version
    for kind, found in fixture.checks.items():
        if kind != fixture.harness and not isinstance(found, str):
            assert fixture.task_under(kind, tmp_path / "other").version != fixture.task.version


@each_way
@pytest.mark.slow
def test_checking_a_fixture_says_what_is_expected_of_each_harness(fixture: Fixture, kind: str, tmp_path: Path) -> None:
    expected = fixture.checks[kind]
    if isinstance(expected, str):
        with pytest.raises(DocumentError) as caught:
            fixture.task_under(kind, tmp_path)
        assert expected in " ".join(str(fault) for fault in caught.value.faults)
        return
    needs_libraries(fixture)
    checked = check(fixture.task_under(kind, tmp_path), Bounds())
    assert tuple(found.subject for found in checked.findings) == expected, checked.findings
    if expected == NOT_RUN:
        assert not checked.passed
        return
    assert checked.passed
    assert all(found.severity is Severity.WARNING for found in checked.findings)
    assert bool(checked.lint.cases) == (kind == ISOLATED)
