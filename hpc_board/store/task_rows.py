"""Conversion of tasks to database rows and back."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from hpc_board.domain.task_rules import task_faults
from hpc_board.model.task import Language, Milestone, Ranking, Task, TaskFile, Timeouts, case_of
from hpc_board.store.row_values import UndecodableError, time_text
from hpc_board.store.sqlite import Row


def task_definition(task: Task) -> str:
    """Return all of the task as JSON, to explain its standings once its files have changed."""
    document = _as_json(task)
    del document["published_version"]  # a stored task is whole
    return json.dumps(document)


def task_value(row: Row, more: Mapping[str, Any] | None = None) -> Task:
    """Return the task in a row of `tasks`, with the keys of `more` replaced; the rules are those for a task file.

    Raises:
        UndecodableError: the row has no task, or one that a task file could not have.
    """
    try:
        value = {**json.loads(row["definition"]), **(more or {}), "published_version": ""}
        msgspec.convert(value, Task)
        task = task_of(value)
        fault = next(task_faults(task), "" if task.name == row["name"] else f"its name is {task.name}")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UndecodableError(f"task {row['name']}: {error}") from error
    if fault:
        raise UndecodableError(f"task {row['name']}: {fault}")
    return task


def task_of(value: Mapping[str, Any]) -> Task:
    """Return the task with this definition, whose types are right."""
    return Task(
        **{
            **value,
            "language": Language(value["language"]),
            "files": tuple(TaskFile(**file) for file in value["files"]),
            "tests": tuple(map(case_of, value["tests"])),
            "benchmarks": tuple(map(case_of, value["benchmarks"])),
            "timeouts": Timeouts(**value["timeouts"]),
            "ranking_by": Ranking(value["ranking_by"]),
            "libraries": tuple(value["libraries"]),
            "gpus": tuple(value["gpus"]),
            "deadline": None if value["deadline"] is None else datetime.fromisoformat(value["deadline"]),
            "accepts": tuple(value.get("accepts", ())),
            "warnings": tuple(value["warnings"]),
            "languages": tuple(map(Language, value.get("languages", ()))),
            "flags": tuple(value.get("flags", ())),
            "milestones": tuple(
                Milestone(**{**each, "exclude_gpus": tuple(each["exclude_gpus"])})
                for each in value.get("milestones", ())
            ),
        }
    )


def _as_json(value: Any) -> Any:
    from dataclasses import fields, is_dataclass

    if is_dataclass(value):
        return {field.name: _as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_as_json(item) for item in value]
    return time_text(value) if isinstance(value, datetime) else value
