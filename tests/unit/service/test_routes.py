"""The routes of a service."""

import msgspec

from hpc_board.service import routes


def test_every_route_has_a_schema_on_both_sides() -> None:
    for route in routes.ROUTES:
        msgspec.json.Decoder(routes.arguments_type(route))
        msgspec.json.Decoder(routes.answer_type(route), dec_hook=lambda _, value: value)
