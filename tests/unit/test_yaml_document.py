"""Documents: text and YAML are read strictly, and every fault is reported at once."""

import enum
import os
import socket
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpc_board import yaml_document
from hpc_board.errors import DocumentError, InputError
from hpc_board.files import read_text
from hpc_board.yaml_document import Document
from hpc_board.yaml_sections import DOCUMENT_BYTES_MAX, Part


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Wheel(msgspec.Struct, forbid_unknown_fields=True):
    inches: int
    colour: Colour = Colour.RED


class Bicycle(msgspec.Struct, forbid_unknown_fields=True):
    name: str = ""
    wheels: dict[str, Wheel] = {}
    sizes: list[int] = []
    gears: Annotated[int, msgspec.Meta(ge=1, description="a number of gears")] = 1
    electric: bool = False
    price: float | None = None
    extra: Any = None


class Parts(msgspec.Struct):
    front: Part
    back: Part | None = None


class KindOfWheel(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    inches: int
    colour: Colour = Colour.RED


class Tolerant(msgspec.Struct):
    name: str = ""


class Needy(msgspec.Struct):
    names: list[str]
    size: int


def written(folder: Path, text: str) -> Path:
    path = folder / "bicycle.yaml"
    path.write_text(text)
    return path


def bicycle(folder: Path, text: str) -> Bicycle:
    document = Document.read(written(folder, text))
    value = document.value(Bicycle)
    document.check()
    return value


def faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(DocumentError) as caught:
        bicycle(folder, text)
    return [str(fault) for fault in caught.value.faults]


def test_a_document_without_faults_becomes_its_struct(tmp_path: Path) -> None:
    text = "name: Ada\nwheels: {front: {inches: 28, colour: green}}\nsizes: [1, 2]\nprice: 3\nextra: {a: [1, x]}\n"
    assert bicycle(tmp_path, text) == Bicycle(
        name="Ada",
        wheels={"front": Wheel(28, Colour.GREEN)},
        sizes=[1, 2],
        price=3.0,
        extra={"a": [1, "x"]},
    )


def test_an_empty_document_takes_every_default(tmp_path: Path) -> None:
    assert bicycle(tmp_path, "# nothing\n") == Bicycle()


def test_every_fault_is_reported_at_once_with_line_path_and_the_nearest_right_word(tmp_path: Path) -> None:
    text = """\
nmae: Ada
wheels:
  front:
    inches: big
    colour: gren
  back: {colour: red}
sizes: [1, two, 3, four]
gears: 0
electric: maybe
"""
    allowed = "name, wheels, sizes, gears, electric, price, extra"
    assert faults(tmp_path, text) == [
        f'line 1: nmae: is not a known key. Did you mean "name"? Allowed: {allowed}',
        'line 4: wheels.front.inches: expected a whole number, found "big".',
        'line 5: wheels.front.colour: expected one of red, green, found "gren". Did you mean "green"?',
        "line 6: wheels.back.inches: is missing; expected a whole number",
        'line 7: sizes[1]: expected a whole number, found "two".',
        'line 7: sizes[3]: expected a whole number, found "four".',
        'line 8: gears: expected a number of gears, found "0".',
        'line 9: electric: expected true or false, found "maybe".',
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("sizes: {a: 1}", "line 1: sizes: expected a list, found a mapping."),
        ("name: [a]", "line 1: name: expected text, found a list."),
        ("name:", "line 1: name: expected text, found nothing."),
        ("name: a\nname: b", "line 2: name: is given twice"),
        ("extra: {a: 1, a: 2}", "line 1: extra.a: is given twice"),
        ("[1, 2]: a", "line 1: the document: a key is a list or a mapping; expected text"),
        ("- 1", "the document: expected a mapping, found a list."),
        ("gears: true", 'line 1: gears: expected a number of gears, found "true".'),
        ("price: cheap", 'line 1: price: expected a number, found "cheap".'),
        ('name: "a\\x1bb"', "line 1: name: contains a control character"),
        ('name: "a\\ud800b"', "line 1: name: contains a control character"),
        ('"a\\x07": 1', None),
        ("extra: !!python/name:os.system x", None),
        ("extra: !!binary aGVsbG8=", None),
        ("gears: " + "9" * 5000, None),
        ("electric: !!bool maybe", 'line 1: electric: expected true or false, found "maybe".'),
        ('price: !!float ""', 'line 1: price: expected a number, found "".'),
        ("gears: !!int '-'", 'line 1: gears: expected a number of gears, found "-".'),
        ("\nextra: {a: !!bool maybe}", 'line 2: extra.a: expected true or false, found "maybe".'),
        ("price: !!float 1" + ":0" * 200, None),
        ("price: 1" + "0" * 400, None),
    ],
)
def test_each_kind_of_fault_is_named(tmp_path: Path, text: str, fault: str | None) -> None:
    found = faults(tmp_path, text)
    assert len(found) == 1
    assert fault is None or found == [fault]
    assert found[0].isprintable()


def test_where_text_is_expected_a_scalar_is_taken_as_it_is_written(tmp_path: Path) -> None:
    for written_as in ("10:00", "1.10", "on", "2025-06-30", "0x10"):
        assert bicycle(tmp_path, f"name: {written_as}").name == written_as


def test_a_part_is_read_by_the_type_that_another_value_decides(tmp_path: Path) -> None:
    document = Document.read(written(tmp_path, "front:\n  kind: wheel\n  inches: 28\n  colur: red\nback: 5\n"))
    found = document.value(Parts)
    assert document.faults.pop().path == "back"
    assert found.back is None
    assert document.peek(found.front, "kind") == "wheel"
    assert document.peek(found.front, "size") is None
    assert not document.has(("front", "inches"))
    wheel = document.part(found.front, KindOfWheel)
    assert wheel == KindOfWheel(kind="wheel", inches=28)
    assert document.has(("front", "inches"))
    assert [str(fault) for fault in document.faults] == [
        'line 4: front.colur: is not a known key. Did you mean "colour"? Allowed: kind, inches, colour',
    ]
    assert document.part(found.front, Needy) is None


def test_an_alias_stands_for_its_value(tmp_path: Path) -> None:
    text = "wheels: {front: &wheel {inches: 28}, back: *wheel}"
    assert bicycle(tmp_path, text).wheels["back"] == Wheel(28)


def test_unknown_keys_are_warnings_where_the_struct_permits_them(tmp_path: Path) -> None:
    document = Document.read(written(tmp_path, "nam: Ada\nother: 1"))
    assert document.value(Tolerant) == Tolerant()
    document.check()
    assert document.warnings == [
        'line 1: unknown key nam is ignored. Did you mean "name"?',
        "line 2: unknown key other is ignored.",
    ]


def test_a_missing_key_is_looked_for_among_those_that_are_not_known(tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as caught:
        Document.read(written(tmp_path, "other: 1\nname: [Ada]")).value(Needy)
    assert [fault.message for fault in caught.value.faults] == [
        'is missing; expected a list. Is "name" in line 2 meant for it?',
        "is missing; expected a whole number",
    ]


def test_stand_ins_let_more_faults_be_found_and_cure_none(tmp_path: Path) -> None:
    document = Document.read(written(tmp_path, "size: big"))
    assert document.value(Needy, {"names": ["Ada"], "size": 1}) == Needy(["Ada"], 1)
    assert [fault.path for fault in document.faults] == ["size", "names"]
    assert not document.has_no_faults("names")
    document.fault(("other",), "is odd")
    with pytest.raises(DocumentError) as caught:
        document.check()
    assert len(caught.value.faults) == 3


def test_what_has_a_fault_in_it_is_not_sound(tmp_path: Path) -> None:
    document = Document.read(written(tmp_path, "names: [[Ada], Bob]\nsize: 3"))
    document.value(Needy, {"names": []})
    assert [document.has_no_faults(path) for path in ("names", "names[0]", "names[1]", "name", "size")] == [
        False,
        False,
        True,
        True,
        True,
    ]


def test_further_faults_join_those_of_the_structure_in_the_order_of_lines(tmp_path: Path) -> None:
    document = Document.read(written(tmp_path, "name: Ada\nsizes: 3"), hint="Mend it.")
    assert document.value(Bicycle).name == "Ada"
    assert document.has(("sizes",))
    assert not document.has(("wheels",))
    document.fault(("name", "of", "nothing"), "is odd")
    with pytest.raises(DocumentError) as caught:
        document.check()
    assert [fault.line for fault in caught.value.faults] == [1, 2]
    assert caught.value.hint == "Mend it."
    assert caught.value.exit_code == 2
    assert caught.value.message.startswith(f"{tmp_path}/bicycle.yaml:\n  line 1: name.of.nothing: is odd\n")


@pytest.mark.parametrize(
    ("text", "line"),
    [("a: [1, 2", 1), ("a: 1\n\tb: 2", 2), ("a: 1\n--- \nb: 2", 2), ("a: *nothing", 1), ("a: 1\nb: \x01", 2)],
)
def test_what_is_not_one_yaml_document_is_a_fault_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    with pytest.raises(DocumentError) as caught:
        Document.read(written(tmp_path, text))
    assert caught.value.faults[0].line == line


def test_an_escape_of_no_character_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="invalid escape sequence"):
        Document.read(written(tmp_path, 'name: "\\UFFFFFFFF"'))


@pytest.mark.parametrize("key", ["gears", "price", "extra", "sizes"])
def test_a_number_without_end_is_a_fault_and_is_not_worked_out(
    tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    construct = yaml.constructor.SafeConstructor.construct_object

    def counted(self: yaml.constructor.SafeConstructor, node: yaml.Node, deep: bool = False) -> Any:
        read.append(len(node.value))
        return construct(self, node, deep)

    monkeypatch.setattr(yaml.constructor.SafeConstructor, "construct_object", counted)
    digits = "1" + ":59" * 1000
    (fault,) = faults(tmp_path, f"{key}: {f'[{digits}]' if key == 'sizes' else digits}")
    assert "found" in fault
    assert "1:59:59" in fault
    assert read == []


def test_aliases_that_multiply_are_stopped(tmp_path: Path) -> None:
    layers = ["extra: {a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    layers += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(DocumentError, match="more than 100000 values"):
        bicycle(tmp_path, ", ".join(layers) + "}")


@pytest.mark.parametrize(
    "text", ["extra: &a [*a]", "extra: &a {b: *a}", "extra: " + "[" * 5000, "extra: " + "[" * 99 + "]" * 99]
)
def test_nesting_without_end_is_stopped(tmp_path: Path, text: str) -> None:
    with pytest.raises(DocumentError, match="nested more than 32 levels"):
        bicycle(tmp_path, text)


def test_a_flood_of_faults_is_cut(tmp_path: Path) -> None:
    found = faults(tmp_path, "\n".join(f"key{index}: 1" for index in range(150)))
    assert len(found) == 101
    assert found[-1] == "the document: 50 more faults are not shown"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(text=st.text(alphabet=st.sampled_from(list("ab:-[]{}&*!|>'\"\\xU0189~#%@,?.<=+ \n\t")), max_size=60))
def test_any_text_is_either_a_document_or_a_fault(tmp_path: Path, text: str) -> None:
    try:
        bicycle(tmp_path, text)
    except DocumentError as error:
        assert error.faults  # noqa: PT017


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(
    key=st.sampled_from(["name", "sizes", "gears", "electric", "price", "extra"]),
    tag=st.sampled_from(["bool", "float", "int", "null", "str", "timestamp", "merge", "value", "binary", "set"]),
    text=st.text(alphabet=list("-+.:_0x1e9yn infa"), max_size=12),
)
def test_any_text_under_any_tag_is_either_a_value_or_a_fault(tmp_path: Path, key: str, tag: str, text: str) -> None:
    try:
        bicycle(tmp_path, f'{key}: !!{tag} "{text}"')
    except DocumentError as error:
        assert error.faults[0].line == 1  # noqa: PT017


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_either_text_or_an_input_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    try:
        assert read_text(path, 100).encode() == data
    except InputError as error:
        assert error.hint  # noqa: PT017


def test_a_file_that_is_no_ordinary_text_file_is_refused_without_waiting(tmp_path: Path) -> None:
    pipe, folder, link = tmp_path / "pipe", tmp_path / "folder", tmp_path / "link"
    os.mkfifo(pipe)
    folder.mkdir()
    link.symlink_to(link)
    (tmp_path / "nul").write_bytes(b"ab\0c")
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    (tmp_path / "large").write_bytes(b"x" * 11)
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(tmp_path / "socket"))
    bound.close()
    for path, words in (
        (pipe, "is not a regular file"),
        (Path("/dev/zero"), "is not a regular file"),
        (folder, "is a folder, not a file"),
        (link, "cannot be read: Too many levels of symbolic links"),
        (tmp_path / "socket", "is not a regular file"),
        (tmp_path / "missing", "no such file"),
        (tmp_path / "nul" / "below", "cannot be read: Not a directory"),
        (Path("a\0b"), "is not a path"),
        (tmp_path / "nul", "NUL byte at offset 2: is it a binary file"),
        (tmp_path / "latin", "is it UTF-8? The byte at offset 3 is not"),
        (tmp_path / "large", "is too large (limit 10 bytes)"),
    ):
        with pytest.raises(InputError) as caught:
            read_text(path, 10)
        assert words in caught.value.message
        assert caught.value.hint
        assert caught.value.exit_code == 2


def test_a_document_that_is_too_large_is_not_parsed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="too large"):
        Document.read(written(tmp_path, "#" * (DOCUMENT_BYTES_MAX + 1)))


def test_a_document_reads_the_same_with_and_without_libyaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = (
        "a: 1",
        "a: [1, 2",
        "a: |\n  text\n",
        "- - - 1",
        "[" * 100_000,
        "a: !!int 0x1f",
        "\x01",
        "a: 1\n---\nb: 2",
        "",
    )
    read = [_told(tmp_path, text) for text in texts]
    monkeypatch.setattr(yaml_document, "_LIBYAML", None)
    assert [_told(tmp_path, text) for text in texts] == read


def _told(folder: Path, text: str) -> str:
    path = folder / "document.yaml"
    path.write_text(text)
    try:
        return yaml.serialize(Document.read(path)._root)
    except DocumentError as error:
        return str(error)
