"""Questions that fit their routes, with any values: each is answered or refused, and none is a fault of the service."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from hpc_board.domain.run import RunState
from hpc_board.model.result import Verdict
from hpc_board.service import routes
from tests.service import serving
from tests.unit.recorded import KERNEL, recorded, result_of, status_of, timed_case
from tests.unit.service.clients import raw

NAMES = ("vectoradd_py", "narrow", "CPU", "H100", "here", "games", "all", "@games", "none", "+1d", "test", "../x", "")
TEXTS = st.sampled_from(NAMES)
ZONES = st.sampled_from(["", "Z", "+23:59", "-23:59"])


@pytest.fixture(scope="module")
def door() -> Iterator[Path]:
    """The socket of a service of a board with runs, for which the asking account is an admin."""
    with tempfile.TemporaryDirectory(prefix="hb-") as name:
        made = recorded(Path(name) / "site")
        made.add(status_of(RunState.RUNNING), result=result_of(Verdict.PASS, timed_case()), score_s=1e-5)
        made.add(status_of(RunState.CANCELLED), user="games")
        with serving(made.board.settings, Path(name) / "board.sock"):
            yield Path(name) / "board.sock"


SIMPLE: Mapping[type[inspect.Type], st.SearchStrategy[Any]] = {
    inspect.NoneType: st.none(),
    inspect.BoolType: st.booleans(),
    inspect.IntType: st.integers(-2, 5) | st.integers(-(2**63), 2**64 - 1) | st.integers(),
    inspect.FloatType: st.floats(allow_nan=False, allow_infinity=False),
    inspect.StrType: TEXTS | st.text(max_size=20) | st.just("x" * 5000) | st.just(KERNEL),
    inspect.DateTimeType: st.builds(lambda at, zone: at.isoformat() + zone, st.datetimes(), ZONES),
}


def deferred(info: inspect.Type) -> st.SearchStrategy[Any]:
    """Values that fit a type, which may contain itself."""
    return st.deferred(lambda: fitting(info))


def fitting(info: inspect.Type) -> st.SearchStrategy[Any]:
    """Values of JSON that fit a type."""
    match info:
        case inspect.EnumType():
            return st.sampled_from([each.value for each in info.cls])
        case inspect.UnionType():
            return st.one_of(*map(fitting, info.types))
        case inspect.TupleType():
            return st.tuples(*map(fitting, info.item_types)).map(list)
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType():
            return st.lists(fitting(info.item_type), max_size=3)
        case inspect.DictType():
            return st.dictionaries(TEXTS, fitting(info.value_type), max_size=2)
        case inspect.StructType() | inspect.DataclassType():
            fields = [(each, deferred(each.type)) for each in info.fields]
            needed = {each.encode_name: value for each, value in fields if each.required}
            return st.fixed_dictionaries(
                needed, optional={each.encode_name: value for each, value in fields if not each.required}
            )
        case _:
            return SIMPLE.get(type(info), st.none() | TEXTS)


@cache
def arguments(route: str) -> st.SearchStrategy[Any]:
    """Arguments that fit a route."""
    (info,) = inspect.multi_type_info([routes.arguments_type(route)])
    return fitting(info)


@pytest.mark.parametrize("route", routes.ROUTES)
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_arguments_that_fit_a_route_cause_no_fault(door: Path, route: str, data: st.DataObject) -> None:
    args = data.draw(arguments(route))
    with raw(door) as client:
        client.greeted().send(json.dumps({"id": 7, "route": route, "args": args}).encode() + b"\n")
        while "warning" in (answer := client.read()):
            pass
    assert answer.get("error", {}).get("message") != "internal error of the service.", args
