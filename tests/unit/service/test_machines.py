"""Machines that clients come from, as far as their addresses tell."""

import pytest

from hpc_board.service.machines import THIS_MACHINE, machine_of


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("127.0.0.1", "127.9.8.7", True),
        ("127.0.0.1", "::1", True),
        ("127.0.0.1", "::ffff:127.0.0.2", True),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("fe80::1%eth0", "fe80::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("unknown", "10.0.0.1", False),
    ],
)
def test_addresses_that_one_machine_has_at_will_are_one_machine(one: str, other: str, same: bool) -> None:
    assert (machine_of(one) == machine_of(other)) is same


def test_this_machine_is_known_by_its_loopback_addresses_alone() -> None:
    assert [machine_of(each) == THIS_MACHINE for each in ("127.0.0.1", "::1", "10.0.0.1")] == [True, True, False]
