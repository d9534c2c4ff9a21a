"""YAML documents that people write, read strictly: every fault is reported at once."""

import enum
import re
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
import yaml

from hpc_board.errors import DocumentError, Fault
from hpc_board.files import read_text
from hpc_board.model.names import nearest, suggestion
from hpc_board.model.text import is_simple, one_line
from hpc_board.yaml_sections import DOCUMENT_BYTES_MAX, Part, Place

_VALUES_MAX = 100_000
_DEPTH_MAX = 32
_FAULTS_SHOWN_MAX = 100
_NUMBER_CHARACTERS_MAX = 1000
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
_TAG = "tag:yaml.org,2002:"
_NUMBERS = {f"{_TAG}int": int, f"{_TAG}float": float, f"{_TAG}bool": bool, f"{_TAG}null": types.NoneType}
_TEXTS = {f"{_TAG}{name}" for name in ("str", "timestamp", "merge", "value")}

T = TypeVar("T", bound=msgspec.Struct)


class Document:
    """A YAML file under examination: its contents by their types, and the faults and warnings found so far.

    Keys that a Struct does not have are faults where the Struct forbids unknown fields, else warnings. Where
    text is expected, a plain number, date or truth value is taken as written: `time: 10:00` is the text "10:00".
    """

    def __init__(self, path: Path, root: yaml.Node, hint: str) -> None:
        self.path = path
        self.hint = hint
        self.faults: list[Fault] = []
        self.warnings: list[str] = []
        self._root = root
        self._lines: dict[Place, int] = {(): 0}
        self._values = 0
        self._stand_ins: Mapping[str, Any] = {}

    @classmethod
    def read(cls, path: Path, *, hint: str = "") -> "Document":
        """Read the document in the file `path`; `hint` is the remedy for its faults.

        Raises:
            InputError: the file cannot be read.
            DocumentError: it is not one YAML document.
        """
        return cls.parse(read_text(path, DOCUMENT_BYTES_MAX), path, hint=hint)

    @classmethod
    def parse(cls, text: str, path: Path, *, hint: str = "") -> "Document":
        """Return the document in `text`, which was read from `path`; `hint` is the remedy for its faults.

        Raises:
            DocumentError: it is not one YAML document.
        """
        try:
            root = _composed(text)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 0
            context = f" {error.context}" if error.context else ""
            raise _not_yaml(path, f"{error.problem}{context}", line) from error
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, int(error.position)) + 1
            raise _not_yaml(path, str(error.reason), line) from error
        except (ValueError, OverflowError) as error:
            raise _not_yaml(path, f"invalid escape sequence: {error}") from error
        except RecursionError as error:
            raise _not_yaml(path, f"nested more than {_DEPTH_MAX} levels deep") from error
        return cls(path, root or yaml.MappingNode(f"{_TAG}map", []), hint)

    def value(self, type_: type[T], stand_ins: Mapping[str, Any] = MappingProxyType({})) -> T:
        """Return the document as `type_`, as complete as possible: faulty values are noted and take their defaults.

        A mapping loses its faulty entries, a list with a faulty item is faulty as a whole. Until `check` has passed the
        value serves only the search for more faults. `stand_ins` are values for keys of the document itself that have
        no default, for that search.

        Raises:
            DocumentError: a key without a default or stand-in is missing or faulty, or the document is too large.
        """
        self._stand_ins = stand_ins
        found: T | msgspec.UnsetType = self._value(self._root, type_, ())
        if isinstance(found, msgspec.UnsetType):
            raise self._error()
        return found

    def part(self, part: Part, type_: type[T]) -> T | None:
        """Return a part as `type_`, as far as it can be had; None if a key without a default is missing or faulty."""
        found: T | msgspec.UnsetType = self._struct(part.node, type_, part.place)
        return None if isinstance(found, msgspec.UnsetType) else found

    def peek(self, part: Part, key: str) -> str | None:
        """Return the text at a key of a part that is not read yet; None without one."""
        texts = {
            name.value: value.value
            for name, value in reversed(part.node.value)
            if isinstance(name, yaml.ScalarNode) and isinstance(value, yaml.ScalarNode)
        }
        return texts.get(key)

    def has(self, place: Place) -> bool:
        """Return whether the document has a value at `place`, faulty or not."""
        return place in self._lines

    def has_no_faults(self, path: str) -> bool:
        """Return whether no fault is known at a key's path, or below it."""
        return not any(re.match(rf"{re.escape(path)}(?:[.\[]|\Z)", fault.path) for fault in self.faults)

    def fault(self, place: Place, message: str) -> None:
        """Note that the value at `place` is faulty or missing."""
        known = next(place[:length] for length in range(len(place), -1, -1) if place[:length] in self._lines)
        self.faults.append(Fault(_path(place), message, self._lines[known]))

    def check(self) -> None:
        """Check that the document has no faults.

        Raises:
            DocumentError: it has; they are listed in the order of their lines.
        """
        if self.faults:
            raise self._error()

    def _error(self) -> DocumentError:
        faults = sorted(self.faults, key=lambda fault: fault.line)
        shown = faults[:_FAULTS_SHOWN_MAX]
        if len(faults) > len(shown):
            shown.append(Fault("", f"{len(faults) - len(shown)} more faults are not shown"))
        return DocumentError(one_line(str(self.path), 300), shown, hint=self.hint)

    def _value(self, node: yaml.Node, type_: Any, place: Place) -> Any:
        self._values += 1
        if self._values > _VALUES_MAX:
            raise _not_yaml(self.path, f"contains more than {_VALUES_MAX} values, counting aliases")
        if len(place) > _DEPTH_MAX:
            raise _not_yaml(self.path, f"nested more than {_DEPTH_MAX} levels deep", node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, type_, place)
        type_ = _member(type_, mapping=isinstance(node, yaml.MappingNode))
        if isinstance(node, yaml.MappingNode):
            if type_ is Part:
                return Part(place, node)
            if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
                return self._struct(node, type_, place)
            if type_ is Any or get_origin(type_) is dict:
                key_type, value_type = get_args(type_) or (str, Any)
                return self._mapping(node, key_type, value_type, place)
        elif isinstance(node, yaml.SequenceNode) and (type_ is Any or get_origin(type_) in (list, tuple)):
            return self._list(node, (get_args(type_) or (Any,))[0], place)
        return self._unexpected(node, type_, place)

    def _struct(self, node: yaml.MappingNode, type_: type[msgspec.Struct], place: Place) -> Any:
        fields = _fields(type_)
        found = {}
        entries = self._entries(node, place)
        for key, (_, value_node) in entries.items():
            if key in fields:
                found[key] = self._value(value_node, fields[key].type, (*place, key))
            else:
                self._unknown_key(key, type_, (*place, key))
        missing = [key for key, field in fields.items() if field.required and key not in found]
        unknown = [] if type_.__struct_config__.forbid_unknown_fields else [key for key in entries if key not in fields]
        for key in missing:
            near = nearest(key, unknown)
            meant = f'. Is "{one_line(near)}" in line {self._lines[*place, near]} meant for it?' if near else ""
            self.fault((*place, key), f"is missing; expected {_words(fields[key].type)}{meant}")
        usable = {key: value for key, value in found.items() if value is not msgspec.UNSET}
        if not place:
            usable = {**self._stand_ins, **usable}
        if any(field.required and key not in usable for key, field in fields.items()):
            return msgspec.UNSET
        return type_(**{fields[key].name: value for key, value in usable.items()})

    def _unknown_key(self, key: str, type_: type[msgspec.Struct], place: Place) -> None:
        allowed = list(_fields(type_))
        if type_.__struct_config__.forbid_unknown_fields:
            self.fault(place, f"is not a known key.{suggestion(key, allowed)} Allowed: {', '.join(allowed)}")
        else:
            near = suggestion(key, allowed)
            self.warnings.append(f"line {self._lines[place]}: unknown key {_path(place)} is ignored.{near}")

    def _mapping(self, node: yaml.MappingNode, key_type: Any, value_type: Any, place: Place) -> dict[str, Any]:
        found = {}
        for key, (key_node, value_node) in self._entries(node, place).items():
            name = self._scalar(key_node, key_type, (*place, key))
            value = self._value(value_node, value_type, (*place, key))
            if name is not msgspec.UNSET and value is not msgspec.UNSET:
                found[name] = value
        return found

    def _list(self, node: yaml.SequenceNode, type_: Any, place: Place) -> Any:
        items = []
        for index, item in enumerate(node.value):
            self._lines[*place, index] = item.start_mark.line + 1
            items.append(self._value(item, type_, (*place, index)))
        return msgspec.UNSET if msgspec.UNSET in items else items

    def _entries(self, node: yaml.MappingNode, place: Place) -> dict[str, tuple[yaml.ScalarNode, yaml.Node]]:
        entries: dict[str, tuple[yaml.ScalarNode, yaml.Node]] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self.faults.append(Fault(_path(place), "a key is a list or a mapping; expected text", line))
            elif key_node.value in entries:
                self.faults.append(Fault(_path((*place, key_node.value)), "is given twice", line))
            else:
                self._lines[*place, key_node.value] = line
                entries[key_node.value] = (key_node, value_node)
        return entries

    def _scalar(self, node: yaml.ScalarNode, type_: Any, place: Place) -> Any:
        text = str(node.value)
        if not is_simple(text) and re.search(_CONTROL, text):
            self.fault(place, "contains a control character")
            return msgspec.UNSET
        if node.tag not in _NUMBERS and node.tag not in _TEXTS:
            self.fault(place, f"has the tag {one_line(node.tag)}, which is not supported")
            return msgspec.UNSET
        value: Any = text
        if node.tag == f"{_TAG}null" or (node.tag in _NUMBERS and not _text_only(type_)):
            wanted = _NUMBERS[node.tag] if type_ is Any else type_
            # A number in parts of sixty (1:59:59) takes time that grows with the square of its length.
            if len(text) > _NUMBER_CHARACTERS_MAX:
                return self._unexpected(node, wanted, place)
            try:
                value = yaml.constructor.SafeConstructor().construct_object(node)
            except (ValueError, LookupError, OverflowError):
                # An explicit tag makes PyYAML read a text that is of another kind: `!!bool maybe`, `!!int ""`.
                return self._unexpected(node, wanted, place)
        elif type_ is Any or type_ is str:
            return text
        try:
            return msgspec.convert(value, type_)
        except msgspec.ValidationError:
            return self._unexpected(node, type_, place)

    def _unexpected(self, node: yaml.Node, type_: Any, place: Place) -> Any:
        if isinstance(node, yaml.ScalarNode):
            shown = "nothing" if node.tag == f"{_TAG}null" else f'"{one_line(node.value)}"'
            near = suggestion(node.value, _choices(type_))
        else:
            shown = "a mapping" if isinstance(node, yaml.MappingNode) else "a list"
            near = ""
        self.fault(place, f"expected {_words(type_)}, found {shown}.{near}")
        return msgspec.UNSET


@cache
def _fields(type_: type[msgspec.Struct]) -> Mapping[str, msgspec.structs.FieldInfo]:
    """Return the fields of a Struct by their names in documents."""
    return {field.encode_name: field for field in msgspec.structs.fields(type_)}


def _composed(text: str) -> yaml.Node | None:
    """Return the document's node; the faults of YAML are told in PyYAML's own words.

    libyaml reads ten times as fast, and its errors name other lines and causes.
    """
    if _LIBYAML is not None:
        with suppress(yaml.YAMLError, ValueError):
            return _LIBYAML(text).get_single_node()
    return yaml.compose(text, Loader=yaml.SafeLoader)


def _libyaml_loader() -> "Callable[[str], yaml.composer.Composer] | None":
    """Return a loader with libyaml's parser; None where PyYAML was built without it.

    Its nodes are composed in Python, where depth ends in a RecursionError: CSafeLoader recurses in C.
    """
    if not yaml.__with_libyaml__:
        return None

    class Loader(yaml.composer.Composer, yaml.CSafeLoader):
        def __init__(self, stream: str) -> None:
            yaml.CSafeLoader.__init__(self, stream)
            yaml.composer.Composer.__init__(self)

    return Loader


_LIBYAML = _libyaml_loader()


def _not_yaml(path: Path, message: str, line: int = 0) -> DocumentError:
    return DocumentError(
        one_line(str(path), 300), [Fault("", one_line(message, 300), line)], hint="Correct the YAML of the file."
    )


def _path(place: Place) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{one_line(part)}" for part in place)
    return path.removeprefix(".")


@cache
def _members(type_: Any) -> tuple[Any, ...]:
    return get_args(type_) if get_origin(type_) in (Union, types.UnionType) else (type_,)


@cache
def _member(type_: Any, *, mapping: bool) -> Any:
    """Return the member of a union that a mapping can be, or else a list; the type itself if none can."""
    for member in _members(type_):
        is_struct = isinstance(member, type) and issubclass(member, msgspec.Struct)
        if (is_struct or get_origin(member) is dict) if mapping else get_origin(member) in (list, tuple):
            return member
    return type_


def _bare(type_: Any) -> Any:
    return get_args(type_)[0] if get_origin(type_) is Annotated else type_


@cache
def _text_only(type_: Any) -> bool:
    bare = [_bare(member) for member in _members(type_)]
    return str in bare and not {int, float, bool} & {member for member in bare if isinstance(member, type)}


def _choices(type_: Any) -> list[str]:
    choices: list[str] = []
    for member in map(_bare, _members(type_)):
        if get_origin(member) is Literal:
            choices += map(str, get_args(member))
        elif isinstance(member, type) and issubclass(member, enum.Enum):
            choices += [str(item.value) for item in member]
    return choices


def _words(type_: Any) -> str:
    """Return a description of a type's values, in plain words."""
    words = []
    for member in _members(type_):
        bare = _bare(member)
        described = [meta.description for meta in getattr(member, "__metadata__", ()) if meta.description]
        if described:
            words.append(described[-1])
        elif _choices(bare):
            words.append(f"one of {', '.join(_choices(bare))}")
        elif isinstance(bare, type) and bare in _PLAIN:
            words.append(_PLAIN[bare])
        elif get_origin(bare) in (list, tuple):
            words.append("a list")
        elif bare is Any:
            words.append("anything")
        else:
            words.append("a mapping")
    # That a key may be empty does not help a user who has given it a wrong value.
    return " or ".join([word for word in words if word != _PLAIN[types.NoneType]] or words)


_PLAIN = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    types.NoneType: "nothing",
}
