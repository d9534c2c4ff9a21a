"""The types of which the sections of a YAML document are made; `yaml_document` reads documents as them."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hpc_board.model.names import NAME, NAME_WORDS

DOCUMENT_BYTES_MAX = 1_000_000
"""A YAML document larger than this is refused."""

Place = tuple[str | int, ...]
Name = Annotated[str, Meta(pattern=rf"\A{NAME}\Z", description=NAME_WORDS)]
Line = Annotated[str, Meta(pattern=r"\A[^\x00-\x1f\x7f-\x9f]+\Z", max_length=4096, description="one line of text")]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A mapping of a document, in which every key is known."""


class Part(msgspec.Struct, frozen=True):
    """A mapping of a document whose type depends on something else: `Document.part` reads it.

    `node` is PyYAML's MappingNode, the type of which only the reader imports.
    """

    place: Place
    node: Any
