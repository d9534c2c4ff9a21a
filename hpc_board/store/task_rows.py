"""Conversion of tasks to database rows and back."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from hpc_board.domain.task_rules import task_faults
from hpc_board.model.task import Task, case_of
from hpc_board.store.row_values import UndecodableError
from hpc_board.store.sqlite import Row

_CASES = ("tests", "benchmarks", "hidden_tests", "hidden_benchmarks")


def task_definition(task: Task) -> str:
    """Return all of the task as JSON, to explain its standings once its files have changed."""
    document = msgspec.to_builtins(task)
    del document["published_version"]  # a stored task is whole
    return json.dumps(document)


def task_value(row: Row, more: Mapping[str, Any] | None = None) -> Task:
    """Return the task in a row of `tasks`, with the keys of `more` replaced; the rules are those for a task file.

    Raises:
        UndecodableError: the row has no task, or one that a task file could not have.
    """
    from dataclasses import replace

    try:
        value = {**json.loads(row["definition"]), **(more or {}), "published_version": ""}
        cases: dict[str, Any] = {kind: tuple(map(case_of, value.get(kind, ()))) for kind in _CASES}
        # The version of a task tells 2 from 2.0: its limits are those that its file has.
        task = replace(msgspec.convert(value, Task), **cases, limits=value["limits"])
        fault = next(task_faults(task), "" if task.name == row["name"] else f"its name is {task.name}")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UndecodableError(f"task {row['name']}: {error}") from error
    if fault:
        raise UndecodableError(f"task {row['name']}: {fault}")
    return task
