"""Write the tables of columns in docs/data.md anew, from the Structs of `hpc_board.admin.export.columns`."""

import inspect
import runpy
from collections.abc import Iterator
from pathlib import Path

from hpc_board.admin.export.columns import COLUMNS, CodeColumns, Columns, OutputColumns, kinds_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "data.md"

_BEGIN = "<!-- The part from here to the end mark is made by `make docs`. -->\n"
_END = "<!-- end -->\n"

meanings = runpy.run_path(str(Path(__file__).with_name("settings_page.py")))["meanings"]


def page_with_columns(page: str) -> str:
    """The text of the page with its tables of columns made anew."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{chr(10).join(_sections())}\n{_END}{after}"


def _sections() -> Iterator[str]:
    for name, struct in COLUMNS.items():
        yield _section(f"Table `{name}`", struct)
        if name == "runs":
            yield _section("Table `runs` with `--with-code`", CodeColumns)
            yield _section("Table `runs` with `--with-output`", OutputColumns)


def _section(title: str, struct: type[Columns]) -> str:
    found = meanings(struct)
    rows = [f"| `{name}` | {kind} | {found[name]} |" for name, kind in kinds_of(struct).items()]
    about = inspect.cleandoc(struct.__doc__ or "")
    return "\n".join([f"### {title}", "", about, "", "| column | type | meaning |", "|---|---|---|", *rows, ""])


if __name__ == "__main__":
    PAGE.write_text(page_with_columns(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
