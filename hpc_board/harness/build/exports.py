"""Exported names of a shared library, read from the file alone: no code of it runs."""

import struct

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_ELF64_LITTLE = b"\x7fELF\x02\x01"
_DYNAMIC_SYMBOLS = 11
_SECTIONS_MAX, _SYMBOLS_MAX = 10_000, 1_000_000


def exported(library: bytes) -> set[str]:
    """Return the names that a 64-bit little-endian ELF library exports; none if the file is no such library."""
    try:
        return _exported(library)
    except (IndexError, ValueError, struct.error):
        return set()


def _exported(library: bytes) -> set[str]:
    header = _HEADER.unpack_from(library)
    if not header[0].startswith(_ELF64_LITTLE):
        return set()
    offset, count = header[6], min(header[12], _SECTIONS_MAX)
    sections = [_SECTION.unpack_from(library, offset + _SECTION.size * index) for index in range(count)]
    names: set[str] = set()
    for section in sections:
        if section[1] != _DYNAMIC_SYMBOLS:
            continue
        strings = sections[section[6]][4]
        for index in range(min(section[5] // _SYMBOL.size, _SYMBOLS_MAX)):
            name, _, other, defined_in, _, _ = _SYMBOL.unpack_from(library, section[4] + index * _SYMBOL.size)
            visible = other & 3 in (0, 3)
            if defined_in and visible:
                names.add(library[strings + name : library.index(b"\0", strings + name)].decode("ascii", "replace"))
    return names
