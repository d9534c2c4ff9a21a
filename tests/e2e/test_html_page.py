"""The page of the boards in a real browser: it asks for nothing, and shows hostile names as text."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_board.model.result import Verdict
from tests.e2e.browser import Page, browser_program, browsing
from tests.unit.recorded import Recorded, recorded, result_of, timed_case

HOSTILE = (
    "<script>document.title = 'taken'</script>",
    '"><img src=x onerror="document.title=\'taken\'">',
    "</td></table><style>body{display:none}</style>",
    "javascript:alert(1)&lt;b&gt;",
    "\u202eevil\x1b[31m" + "w" * 150,
)

pytestmark = pytest.mark.skipif(
    browser_program() is None, reason="no Chromium is installed: `make browser` installs one"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browsing(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    board = recorded(tmp_path_factory.mktemp("board"))
    for number, user in enumerate(("ada", "Émile", "bob", *HOSTILE)):
        # A file name has no slash: the board refuses to read one that has.
        file_name = HOSTILE[number % len(HOSTILE)].replace("/", "\u2215") + ".py"
        record(board, user, 3e-6 * (number + 1), file_name=file_name)
    record(board, "eve", 4e-6, gpu="H100")
    record(board, HOSTILE[0], 3e-6, gpu="H100")
    target = board.folder / "boards.html"
    done = board.hpc_board("admin", "export", "--format", "html", "-o", target)
    assert done.returncode == 0, done.stderr
    assert "boards.html has 2 boards." in done.stderr
    return target


def record(board: Recorded, user: str, score_s: float, *, gpu: str = "CPU", file_name: str = "k.py") -> None:
    result = result_of(Verdict.PASS, timed_case())
    board.add(result=result, score_s=score_s, user=user, gpu=gpu, file_name=file_name)


def column(page: Page, number: int) -> list[str]:
    """The texts of a column of the first table, without file names, from the top."""
    cells = f"[...document.querySelector('tbody').rows].map(row => row.cells[{number}].firstChild.textContent)"
    found: list[str] = page.value(cells)
    return found


def test_it_opens_from_the_disk_and_asks_for_nothing(browser: Page, page: Path) -> None:
    browser.open(page)
    assert browser.requests() == [page.as_uri()]
    assert browser.complaints() == []
    assert browser.value("document.title") == "Leaderboards"
    assert re.search(r"(?:https?:)?//", re.sub(r"<!DOCTYPE[^>]*>", "", page.read_text(encoding="utf-8"))) is None


def test_its_policy_stops_what_is_not_its_own(browser: Page, page: Path) -> None:
    browser.open(page)
    browser.value(
        "(() => { const script = document.createElement('script'); script.textContent = 'document.title = 1';"
        "document.body.append(script); const image = document.createElement('img'); image.src = 'http://127.0.0.1:9/x';"
        "document.body.append(image); document.body.setAttribute('style', 'color: red'); })()"
    )
    assert browser.value("document.title") == "Leaderboards"
    assert browser.value("getComputedStyle(document.body).color") != "rgb(255, 0, 0)"
    assert any("Content Security Policy" in each for each in browser.complaints())


@pytest.mark.parametrize("scripts", [True, False])
def test_hostile_names_are_text(browser: Page, page: Path, scripts: bool) -> None:
    browser.open(page, scripts=scripts)
    users = column(browser, 1)
    assert users[3:6] == [*HOSTILE[:3]]
    assert users[6] == HOSTILE[3]
    assert users[7].startswith("·evilwww")
    assert browser.value("document.querySelectorAll('script, img, body style').length") == 0
    assert browser.value("document.title") == "Leaderboards"


def test_the_rows_are_in_the_order_of_their_ranks(browser: Page, page: Path) -> None:
    browser.open(page, scripts=False)
    assert column(browser, 0) == [str(number) for number in range(1, 9)]
    assert column(browser, 2)[0] == "3.00 µs"
    assert browser.value("document.querySelector('thead').innerText.split(/\\s+/)[0]") == "Rank"


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("dark", [False, True])
def test_records_and_speeds_are_drawn(browser: Page, page: Path, width: int, dark: bool) -> None:
    browser.open(page, width=width, dark=dark)
    bars = "document.querySelector('tbody').querySelectorAll('.speed rect')"
    first, second, *_ = browser.value(f"[...{bars}].map(each => each.getBoundingClientRect().width)")
    assert second == pytest.approx(first / 2, rel=0.02)
    assert browser.value("document.querySelector('path.steps').getBoundingClientRect().height") > 20
    assert browser.value("document.querySelector('figure svg').getAttribute('role')") == "img"
    assert contrast(browser, ".speed rect", "fill") >= 4.5
    assert contrast(browser, "path.steps", "stroke") >= 4.5
    assert contrast(browser, "figure text", "fill") >= 4.5


@pytest.mark.parametrize("width", [320, 1280])
def test_it_fits_any_width(browser: Page, page: Path, width: int) -> None:
    browser.open(page, width=width)
    assert browser.value("document.documentElement.scrollWidth") <= width
    edges = "Math.max(...[...document.querySelectorAll('td, th, svg, p')].map(e => e.getBoundingClientRect().right))"
    assert browser.value(edges) <= width


def contrast(browser: Page, selector: str, kind: str = "color") -> float:
    """Return the contrast of a colour with the page's, by WCAG."""
    page = "getComputedStyle(document.body).backgroundColor"
    colours = f"[getComputedStyle(document.querySelector('{selector}')).{kind}, {page}]"
    light, dark = sorted(map(luminance, browser.value(colours)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    shares = (int(each) / 255 for each in re.findall(r"\d+", colour)[:3])
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares]
    return sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_can_be_read(browser: Page, page: Path, dark: bool) -> None:
    browser.open(page, dark=dark)
    assert (luminance(browser.value("getComputedStyle(document.body).backgroundColor")) < 0.1) is dark
    for selector in ("td", ".quiet", ".file", "th"):
        assert contrast(browser, selector) >= 4.5


def test_it_can_be_printed(browser: Page, page: Path) -> None:
    browser.open(page, dark=True)
    assert browser.printed().startswith(b"%PDF")
