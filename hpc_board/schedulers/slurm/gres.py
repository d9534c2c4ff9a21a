"""Slurm's notation for generic resources: "gpu:h100:2(S:0-1),nvme:no_consume:1"."""

import re

import msgspec

from hpc_board.schedulers.slurm import Request, RequestStyle

_ENTRY = re.compile(r"(?:[^,()]|\([^()]*\))+")
_COUNT = re.compile(r"([0-9]{1,9})([KMGTP]?)", re.IGNORECASE | re.ASCII)
_FACTORS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}


class Gres(msgspec.Struct, frozen=True):
    """A number of generic resources of one name, and of one type where the site has given it any."""

    name: str
    type: str
    count: int


def gres_list(text: str) -> list[Gres]:
    """Return the entries of a node's `Gres` or `GresUsed`, or of a request; none for "(null)" and "N/A"."""
    if text.strip() in ("", "(null)", "N/A"):
        return []
    return [_gres(entry) for entry in _ENTRY.findall(text)]


def requested_gres(request: Request) -> Gres | None:
    """Return the resource that `request` names, with or without a type; None if it names none."""
    if request.style is RequestStyle.GRES:
        wanted = gres_list(request.value)
        return next((entry for entry in wanted if entry.name == "gpu"), wanted[0] if wanted else None)
    if request.style in (RequestStyle.GPUS, RequestStyle.GPUS_PER_NODE, RequestStyle.GPUS_PER_TASK):
        return _gres(f"gpu:{request.value}")
    if request.style is RequestStyle.CONSTRAINT:
        return Gres("gpu", "", 1)
    return None


def matching_count(text: str, wanted: Gres) -> int:
    """Count the `wanted` resources in a node's `Gres` or `GresUsed`."""
    return sum(
        entry.count for entry in gres_list(text) if entry.name == wanted.name and wanted.type in ("", entry.type)
    )


def _gres(entry: str) -> Gres:
    """Parse one entry: name[:type][:no_consume][:count][(where)]; the type is the field that is not a count.

    A type that is not known is printed as (null), a place as (S:0-1) or (IDX:0,2).
    """
    bare = entry.replace("(null)", "").partition("(")[0].strip()
    name, *fields = bare.removeprefix("gres/").replace("=", ":").split(":")
    kind, count = "", 1
    for field in fields:
        number = _COUNT.fullmatch(field)
        if number is None:
            kind = kind if field in ("no_consume", "") else field
        else:
            count = int(number[1]) * _FACTORS[number[2].upper()]
    return Gres(name, kind, count)
