"""Machines that clients come from, as far as their addresses tell."""

from ipaddress import IPv6Address, IPv6Network, ip_address

THIS_MACHINE = "loopback"
"""The machine of all loopback addresses."""


def machine_of(address: str) -> str:
    """Return a name for the machine with this address; all addresses that a machine has at will are one name."""
    try:
        place = ip_address(address)
    except ValueError:
        return address
    if isinstance(place, IPv6Address):
        place = place.ipv4_mapped or place
    if place.is_loopback:
        return THIS_MACHINE
    # A machine takes any address of its network of IPv6.
    return str(IPv6Network((int(place), 64), strict=False)) if isinstance(place, IPv6Address) else str(place)
