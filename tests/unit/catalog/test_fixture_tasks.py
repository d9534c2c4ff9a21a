"""The fixture tasks: they read, keep their version in the store, use every key there is, and check as expected."""

import importlib.util
import typing
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest
import yaml

from hpc_board.catalog.folders import FileEntry, OwnSection, TaskDocument
from hpc_board.domain.diagnostic import Severity
from hpc_board.errors import DocumentError
from hpc_board.model.eval_program import EvalProgram, eval_program
from hpc_board.model.task import ISOLATED, OWN, CaseValue, Mode, Ranking
from hpc_board.store import NewRun, NewSubmission, Store
from hpc_board.task_check.lint import Bounds, check
from tests.fixture_tasks import FIXTURES, FOLDER, KINDS, Fixture

SECTIONS = {TaskDocument: (), OwnSection: ("hpc_board",), FileEntry: ("files",)}
"""The structs of a task file, and the keys below which they stand."""

NOT_RUN = ("not_run",)

every_fixture = pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.name)
each_way = pytest.mark.parametrize(
    ("fixture", "kind"),
    [pytest.param(fixture, kind, id=f"{fixture.name}-{kind}") for fixture in FIXTURES for kind in fixture.checks],
)


def documents() -> Iterator[dict[str, Any]]:
    """The task files of all fixtures that have one."""
    for path in sorted(FOLDER.glob("*/task.yml")):
        content = yaml.safe_load(path.read_text())
        assert isinstance(content, dict)
        yield content


def sections(struct: type[msgspec.Struct]) -> Iterator[dict[str, Any]]:
    """All that the fixtures have where `struct` says what may stand there."""
    for document in documents():
        found: Any = document
        for key in SECTIONS[struct]:
            found = found.get(key, {})
        yield from found if isinstance(found, list) else [found]


def literals(hint: object) -> set[str]:
    """The words that a type allows, wherever in it they stand."""
    if get_origin(hint) is Literal:
        return set(get_args(hint))
    return set().union(*(literals(each) for each in get_args(hint)))


def words(value: object) -> set[str]:
    """Every text in a value, keys included."""
    if isinstance(value, dict):
        return words(list(value)) | words(list(value.values()))
    if isinstance(value, list):
        return set().union(*map(words, value))
    return {value} if isinstance(value, str) else set()


def needs_libraries(fixture: Fixture) -> None:
    """Leave out a fixture whose reference imports what this Python lacks."""
    text = fixture.task.text("reference.py") or ""
    for library in ("torch", "numpy"):
        if f"import {library}" in text and importlib.util.find_spec(library) is None:
            pytest.skip(f"no {library}")


def test_every_folder_is_a_fixture_and_there_are_enough() -> None:
    assert {path.name for path in FOLDER.iterdir() if path.is_dir()} == {fixture.name for fixture in FIXTURES}
    assert len(FIXTURES) >= 12


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
        )
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


@every_fixture
def test_a_fixture_has_a_right_and_a_wrong_submission_for_each_harness_that_it_can_have(fixture: Fixture) -> None:
    assert set(fixture.checks) <= set(KINDS)
    for kind, found in fixture.checks.items():
        names = {attempt.file.stem for attempt in fixture.attempts if attempt.kind == kind}
        can_be_had = found != NOT_RUN and not isinstance(found, str)
        assert names >= {"right", "wrong"} if can_be_had else not names
    assert all(attempt.file.is_file() for attempt in fixture.attempts)
    assert len({attempt.verdict for attempt in fixture.attempts}) > 1


@pytest.mark.parametrize("struct", SECTIONS)
def test_every_key_of_a_task_file_is_used(struct: type[msgspec.Struct]) -> None:
    used = set().union(*sections(struct))
    assert set(struct.__struct_fields__) - used == set()


@pytest.mark.parametrize("struct", SECTIONS)
def test_every_word_that_a_key_may_have_is_used(struct: type[msgspec.Struct]) -> None:
    for key, hint in typing.get_type_hints(struct, include_extras=False).items():
        found = [section[key] for section in sections(struct) if key in section]
        assert literals(hint) <= set().union(*map(words, found)), key


def test_every_language_ranking_and_part_of_a_config_is_used() -> None:
    tasks = [fixture.task for fixture in FIXTURES]
    assert {task.ranking_by for task in tasks} == set(Ranking)
    assert {str(language) for task in tasks for language in task.accepted} == {"py", "cpp", "cu", "hip"}
    programs = [eval_program(task)[0] for task in tasks if task.harness == OWN]
    parts = {part for program in programs for part in EvalProgram.__annotations__ if getattr(program, part)}
    assert parts == set(EvalProgram.__annotations__)


def test_every_kind_of_value_stands_in_a_case() -> None:
    def kinds(value: CaseValue, depth: int = 0) -> Iterator[str]:
        yield f"{type(value).__name__} {depth}" if depth else type(value).__name__
        for item in value if isinstance(value, tuple) else ():
            yield from kinds(item, depth + 1)

    cases = [case for fixture in FIXTURES for case in (*fixture.task.tests, *fixture.task.benchmarks)]
    found = {kind for case in cases for value in case.values() for kind in kinds(value)}
    assert found >= {"int", "float", "bool", "str", "tuple", "float 1", "tuple 1", "int 2"}
    assert {} in cases
