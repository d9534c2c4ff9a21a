"""The pages of the manual as a reader types them: their blocks of commands, and what is other on each machine."""

import os
import pwd
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

USER = pwd.getpwuid(os.getuid()).pw_name

TIME = r"[\d.]+(?: ± [\d.]+)? (?:ns|µs|ms|s)\b"
_OTHER_ELSEWHERE = [
    # A busy machine decides the times of single calls, which the report then says.
    (r" calls may overlap: [^\n]*", ""),
    (r" MESSAGE\n", "\n"),
    (rf"\b{re.escape(USER)}\b", "ada"),
    (rf" \([\d.]+(?: [nµm]?s)? to {TIME}\)", ""),
    (rf"[\d.]+(?: [nµm]?s)? to {TIME}", "INTERVAL"),
    (rf"(?:\d+ min )?{TIME}", "TIME"),
    (r"\d[\d.]*x\b", "SPEEDUP"),
    # A board has this column where an interval is wide.
    (r"SCORE 80 % CI", "SCORE"),
    (r"TIME 80 % CI SPEEDUP", "TIME SPEEDUP"),
    (r"Noisy: [^\n]*\n\n", ""),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d", "DATE"),
    (r"( · run as \S+)? · node \S+ · job", " · node NODE · job"),
    (r"\bon node \S+", "on node NODE"),
    (r" \(emulated\)", ""),
    (r"largest error is [\d.]+ % of the tolerance \(test \d+\)", "largest error is MARGIN"),
]
"""Patterns of texts that depend on the machine, the user and the hour, and their substitutes in a comparison."""

PROGRAMS = (
    "hpc-board",
    "make",
    "pip",
    "python3",
    "source",
    "export",
    "useradd",
    "install",
    "mv",
    "ssh",
    "sudo",
    "apt-get",
    "eb",
    "uv",
    "pipx",
    "ansible-playbook",
    "apptainer",
    "spack",
)
_COMMAND = re.compile(
    rf"(?:\$ )?(?:\S+=\S+ )*(?:(?:[\d*/,-]+ ){{5}})?(?:~?/[\w./-]+/)?(?:{'|'.join(PROGRAMS)})\b(?! +──)"
)
_FENCE = re.compile(r" *```(\w*)")
_MARK = re.compile(r" *<!-- (not run|example output): (.+) -->")


@dataclass(frozen=True)
class Block:
    """A block of a page, from its first line on, with the mark before it: `not run`, `example output` or none."""

    line: int
    language: str
    lines: tuple[str, ...]
    mark: str = ""
    reason: str = ""

    @property
    def has_commands(self) -> bool:
        return self.language in ("console", "sh") or (
            self.language in ("", "indented") and bool(_COMMAND.match(self.lines[0]))
        )

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def steps(self) -> Iterator[tuple[str, str | None]]:
        """The commands, each with the output that a block in the language `console` shows for it, else None."""
        if self.language != "console":
            yield from ((line, None) for line in self.lines if line)
            return
        for step in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command, _, output = step.partition("\n")
            yield command, output or None


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, fenced and indented ones, in their order."""
    found: list[Block] = []
    mark = ("", "")
    lines = [*page.read_text(encoding="utf-8").splitlines(), ""]
    number = 0
    while number < len(lines):
        line, start = lines[number], number + 1
        number += 1
        if marked := _MARK.fullmatch(line):
            mark = (marked[1], marked[2])
        if opening := _FENCE.match(line):
            end = next(at for at in range(number, len(lines)) if lines[at].strip() == "```")
            body, language = lines[number:end], opening[1]
            number = end + 1
        elif line.startswith("    ") and not lines[number - 2].strip() and not line.lstrip().startswith("<!--"):
            end = next(at for at in range(number, len(lines)) if not lines[at].startswith("    "))
            body, language = lines[number - 1 : end], "indented"
            number = end
        else:
            mark = mark if marked or not line.strip() else ("", "")
            continue
        margin = min((len(each) - len(each.lstrip()) for each in body if each.strip()), default=0)
        found.append(Block(start, language, tuple(each[margin:] for each in body), *mark))
        mark = ("", "")
    return found


def comparable(text: str) -> str:
    """A text without what is other elsewhere, and without the width of columns."""
    text = re.sub(" +", " ", text)
    for pattern, stand_in in _OTHER_ELSEWHERE:
        text = re.sub(pattern, stand_in, text)
    return text


def pattern_of(shown: str) -> str:
    """Return a pattern of the output that the page shows: `...` is the rest of a line, or any lines if it is alone."""
    lines = comparable(shown).splitlines()
    return "".join(
        r"(?:.*\n)*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n" for line in lines
    )
