"""The fixed inputs of a task: parts of the value of `generate_input`, by their keys or positions."""

from collections.abc import Sequence
from typing import Any

from hpc_board.model.names import suggestion


def parts_at(data: Any, places: Sequence[str | int]) -> list[Any]:
    """Return the parts of inputs at these keys of a dictionary, or positions in a list or tuple.

    Raises:
        ValueError: the inputs have no such part, or no other one.
    """
    known = list(data) if isinstance(data, dict) else list(range(len(data))) if isinstance(data, (list, tuple)) else []
    for place in places:
        if place not in known:
            near = suggestion(str(place), [each for each in known if isinstance(each, str)])
            raise ValueError(f"hpc_board.prepare names {place!r}, but the inputs have the parts {known!r}.{near}")
    if len(set(places)) == len(known):
        raise ValueError("hpc_board.prepare names all inputs, so that no call would get any")
    return [data[place] for place in places]


def with_parts(data: Any, places: Sequence[str | int], parts: Sequence[Any]) -> Any:
    """Return inputs with these parts in the place of their own: a dictionary, list, tuple or named tuple."""
    new = dict(zip(places, parts, strict=True))
    if isinstance(data, dict):
        return {**data, **new}
    parts_of_all = [new.get(place, each) for place, each in enumerate(data)]
    # The constructor of another subclass may take the parts one by one.
    return parts_of_all if isinstance(data, list) else getattr(type(data), "_make", tuple)(parts_of_all)


def without_parts(data: Any, places: Sequence[str | int]) -> Any:
    """Return the inputs of a call of a submission that has the others before; those of a named tuple have no names."""
    if isinstance(data, dict):
        return {key: each for key, each in data.items() if key not in places}
    rest = [each for place, each in enumerate(data) if place not in places]
    return rest if isinstance(data, list) else tuple(rest)
