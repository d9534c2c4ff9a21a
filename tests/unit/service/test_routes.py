"""The routes of a service."""

import msgspec
import pytest

from hpc_board.service import routes, wire


def test_every_route_has_a_schema_on_both_sides() -> None:
    for route in routes.ROUTES:
        msgspec.json.Decoder(routes.arguments_type(route))
        msgspec.json.Decoder(routes.answer_type(route), dec_hook=lambda _, value: value)


def test_a_value_without_a_form_on_the_wire_is_an_error() -> None:
    with pytest.raises(NotImplementedError, match="object does not cross the wire"):
        wire.encoded(object())
    with pytest.raises(NotImplementedError, match="Decoder does not cross the wire"):
        wire.decoded(b"1", msgspec.json.Decoder)
