"""The part of the board's values that leaves the service: no text of a task's files, no login to a cluster."""

from collections.abc import Mapping
from dataclasses import replace
from operator import is_
from typing import Any

import msgspec

from hpc_board.model.gpu import Gpu
from hpc_board.model.task import Task
from hpc_board.model.value import Value


def published(value: Any) -> Any:
    """Return `value` with every task and GPU in it as its users may see it.

    A task keeps its description, templates, cases and the names of its files. The reference, the checks and the
    milestones stay with the service, and so do the settings by which jobs reach a GPU's cluster.
    """
    if isinstance(value, Task):
        return replace(
            value,
            files=tuple(replace(file, text=None if file.text is None else "") for file in value.files),
            milestones=tuple(replace(each, text="") for each in value.milestones),
            published_version=value.version,
        )
    if isinstance(value, Gpu):
        cluster = replace(value.cluster, ssh=None, account="", board_folder="", scheduler_options=None)
        return replace(value, cluster=cluster, env={}, scheduler_options=None)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        items = [published(item) for item in value]
        return value if all(map(is_, items, value)) else type(value)(items)
    if isinstance(value, Mapping):
        return {**value, **_changed(value)}
    if isinstance(value, msgspec.Struct):
        changed = _changed({name: getattr(value, name) for name in value.__struct_fields__})
        return msgspec.structs.replace(value, **changed) if changed else value
    if isinstance(value, Value):
        changed = _changed(vars(value))
        return replace(value, **changed) if changed else value
    return value


def _changed(fields: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the published values of those fields that differ from them."""
    found = {name: published(value) for name, value in fields.items()}
    return {name: value for name, value in found.items() if value is not fields[name]}


def holds_secrets(type_: Any) -> bool:
    """Return whether a value of `type_` may have a task or a GPU in it, so that it must be `published`."""
    return _reaches(msgspec.inspect.type_info(type_), set())


def _reaches(info: Any, seen: set[type]) -> bool:
    kind = getattr(info, "cls", None)
    if kind in (Task, Gpu):
        return True
    if kind in seen:
        return False
    if kind is not None:
        seen.add(kind)
    inner = [getattr(info, name, None) for name in ("item_type", "key_type", "value_type")]
    inner += [*getattr(info, "types", ()), *getattr(info, "item_types", ())]
    inner += [field.type for field in getattr(info, "fields", ())]
    return any(_reaches(each, seen) for each in inner if each is not None)
