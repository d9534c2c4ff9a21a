"""Text from outside is shown without anything that a terminal would obey."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_board.model.text import one_line, printable, with_article


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]52;c;aGk=\x1b\\after", "after"),
        ("\x1bP never ends", "· never ends"),
        ("\x1b]0;title\nerror: misaligned\x07", "·0;title\nerror: misaligned·"),
        ("\x1b_a\x1b[31mb\x1b\\", "·ab"),
        ("\x1b]" + "x" * 4096 + "\x07after", "after"),
        ("\x1b]" + "x" * 4097 + "\x07after", "·" + "x" * 4097 + "·after"),
        ("a\u115fb\u1160c\u3164d\uffa0e\u034ff\u17b4g", "a·b·c·d·e·f·g"),
        ("e\u0301le\u0300ve", "e\u0301le\u0300ve"),
        ("a" + "\u0336" * 50 + "b", "a" + "\u0336" * 4 + "b"),
        ("\u1100" + "\u1161" * 50 + "b", "\u1100" + "\u1161" * 4 + "b"),
        ("\x1b(Bset", "set"),
        ("10%\r20%\r\n", "10%\n20%\n"),
        ("\x9b31m", "·31m"),
        ("a\u202eb", "a·b"),
        ("a\u061cb\u2060c\U000e0041d", "a·b·c·d"),
        ("nul\x00bell\x07", "nul·bell·"),
        ("µs ± 3 日本", "µs ± 3 日本"),
    ],
)
def test_what_a_terminal_would_obey_is_gone(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(), st.integers(0, 50))
def test_nothing_but_newlines_and_tabs_controls_and_no_text_is_longer_than_asked(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert len(shown) <= limit
    assert all(character.isprintable() or character in "\n\t" or ord(character) > 0x9F for character in shown)
    assert "\x1b" not in shown


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_reads_the_same_beside_other_letters(text: str) -> None:
    assert printable(f"é{text}") == f"é{printable(text)}"


def test_no_format_character_is_shown() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    shown = printable(every, len(every))
    assert {character for character in shown if unicodedata.category(character) in ("Cf", "Zl", "Zp", "Cs")} == set()


def test_one_line_says_that_it_was_cut() -> None:
    assert one_line("a\nb" * 200, 10) == "a ba ba b…"


def test_a_name_has_the_article_with_which_it_is_spoken() -> None:
    an = ["H100", "A100", "L4", "MI300X", "RTX-6000", "int", "array", "object", "8-core"]
    a = ["B200", "V100", "T4", "GH200", "CPU", "gpu-big", "tensor", "NoneType", "Larger", "float", "dict"]
    assert [with_article(name) for name in an] == [f"an {name}" for name in an]
    assert [with_article(name) for name in a] == [f"a {name}" for name in a]
