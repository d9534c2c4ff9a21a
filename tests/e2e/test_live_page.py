"""The live pages of a service in a real browser: new ranks come by themselves, and every width and scheme is read."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec
import pytest

from hpc_board.domain.board_options import RequestedOptions
from hpc_board.domain.run import RunState
from hpc_board.model.result import Verdict
from tests.e2e.browser import Page, browser_program, browsing
from tests.e2e.test_html_page import HOSTILE, contrast, luminance
from tests.service import serving
from tests.slurm.lab import free_ports
from tests.unit.recorded import Recorded, recorded, result_of, status_of, timed_case
from tests.values import created
from tests.waiting import awaited

pytestmark = pytest.mark.skipif(
    browser_program() is None, reason="no Chromium is installed: `make browser` installs one"
)

BOARD = "boards/vectoradd_py"


class Site:
    """A board with a service that can be ended and started again."""

    def __init__(self, board: Recorded, folder: Path) -> None:
        self.board = board
        self.port = free_ports(1)[0]
        self._folder = folder
        self._serving = ExitStack()

    def start(self) -> None:
        changed = msgspec.structs.replace(self.board.board.settings, web=f"127.0.0.1:{self.port}")
        self._serving.enter_context(serving(changed, self._folder / "board.sock"))

    def close(self) -> None:
        self._serving.close()

    def at(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    def passed(self, user: str, score_s: float, gpu: str = "CPU", file_name: str = "kernel.py") -> int:
        result = result_of(Verdict.PASS, timed_case(time_ns=score_s * 1e9))
        return self.board.add(result=result, score_s=score_s, user=user, gpu=gpu, file_name=file_name).id


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browsing(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="hb-") as folder:
        found = Site(recorded(tmp_path), Path(folder))
        with closing(found):
            found.passed("ada", 6e-3)
            found.passed("ada", 6e-3, gpu="H100")
            found.start()
            yield found


def until(page: Page, expression: str) -> None:
    """Wait until an expression is true in the page."""
    awaited(lambda: page.value(expression), lambda: f"{expression}: {page.value('document.body.innerText')}")


def live(page: Page, address: str, **how: object) -> None:
    """Open a page, and wait until it has asked for changes."""
    page.open(address, **how)  # type: ignore[arg-type]
    until(page, "document.getElementById('status')?.textContent === 'Live'")


ROWS = "[...document.querySelectorAll('article.board:first-of-type tbody tr')]"
USERS = f"{ROWS}.map(row => row.cells[1].firstChild.textContent.trim())"


def test_a_new_rank_appears_without_reload_is_marked_and_moves_no_focus(browser: Page, site: Site) -> None:
    live(browser, site.at(BOARD))
    browser.value("window.kept = document.querySelector('article.board:last-child table')")
    browser.value("document.querySelector('article.board:first-of-type td a').focus()")
    focused = browser.value("document.activeElement.getAttribute('href')")
    site.passed("bob", 1e-3)
    until(browser, f"{USERS}[0] === 'bob'")
    assert browser.value(USERS) == ["bob", "ada"]
    assert browser.value(
        "[...document.querySelectorAll('.new')].map(row => row.cells[1].firstChild.textContent.trim())"
    ) == ["bob"]
    # A part that has not changed is the element that it was.
    assert browser.value("window.kept === document.querySelector('article.board:last-child table')")
    assert browser.value("document.activeElement.getAttribute('href')") == focused
    browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    cell = "getComputedStyle(document.querySelector('.new td'))"
    assert browser.value(f"{cell}.animationName") == "none"
    assert "inset" in browser.value(f"{cell}.boxShadow")
    assert browser.complaints() == []

    def is_unchanged() -> bool:
        """Return whether the browser has been told that the page has not changed."""
        browser.value("0")
        answers = [each["params"] for each in browser.events if each["method"] == "Network.responseReceivedExtraInfo"]
        return 304 in [answer["statusCode"] for answer in answers]

    awaited(is_unchanged)


def test_a_hidden_page_asks_for_nothing_and_follows_once_it_is_seen(browser: Page, site: Site) -> None:
    live(browser, site.at(BOARD))
    # Headless Chromium hides no tab.
    browser.value("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    # The longest pause between two questions is 5 seconds.
    browser.value("setTimeout(() => { window.paused = true; }, 6000)")
    site.passed("bob", 1e-3)
    until(browser, "window.paused === true")
    assert browser.value(USERS) == ["ada"]
    browser.value("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    until(browser, f"{USERS}[0] === 'bob'")


def test_the_list_of_boards_and_the_feed_follow_too(browser: Page, site: Site) -> None:
    live(browser, site.at(""))
    site.passed("bob", 1e-3)
    until(browser, "document.querySelector('.new .user')?.textContent === 'bob'")
    live(browser, site.at("feed"))
    site.passed("cyd", 5e-4)
    until(browser, "document.querySelector('li.new')?.textContent.includes('cyd took first place')")
    assert browser.value("document.querySelectorAll('li.new').length") == 1


def test_a_run_goes_through_its_states(browser: Page, site: Site) -> None:
    run = site.board.add(status_of(RunState.QUEUED), user="ada")
    live(browser, site.at(f"runs/{run.id}"))
    site.board.board.context.store.runs.record(run.id, status_of(RunState.LOST))
    until(browser, "document.querySelector('.state strong')?.textContent === 'Lost'")


def test_a_board_on_a_further_gpu_reloads_the_page(browser: Page, site: Site) -> None:
    site.board.settings.write_text(site.board.settings.read_text() + "  A100: {cluster: here, device: cpu}\n")
    site.close()
    site.start()
    live(browser, site.at(BOARD))
    site.passed("bob", 1e-3, gpu="A100")
    until(browser, "document.querySelectorAll('article.board').length === 3")


def test_a_board_that_is_closed_leaves_the_browser(browser: Page, site: Site) -> None:
    live(browser, site.at(BOARD))
    created(site.board.board, "vectoradd_py", None, RequestedOptions(closed=True))
    until(browser, "document.querySelector('h1')?.textContent === 'Not found'")
    assert "ada" not in browser.value("document.documentElement.outerHTML")


def test_a_link_to_a_closed_board_follows_its_ranks_until_it_is_revoked(browser: Page, site: Site) -> None:
    owners = site.board.board
    created(owners, "vectoradd_py", None, RequestedOptions(closed=True))
    _, secret = owners.moderation.link("vectoradd_py", "projector", "+1d")
    live(browser, site.at(f"link/{secret}/"))
    site.passed("bob", 1e-3)
    until(browser, f"{USERS}[0] === 'bob'")
    browser.value(f"{ROWS}[0].querySelector('a').click()")
    until(browser, "document.querySelector('.state strong')?.textContent === 'Pass'")
    assert browser.value("location.pathname").startswith(f"/link/{secret}/runs/")
    browser.value("document.querySelector('nav a').click()")
    until(browser, "document.querySelector('h1')?.textContent === 'vectoradd_py'")
    assert browser.value("document.querySelectorAll('nav a').length") == 1
    assert [each for each in browser.complaints() if "404" not in each] == []
    owners.moderation.unlink("vectoradd_py", "projector")
    until(browser, "document.querySelector('h1')?.textContent === 'Not found'")


def test_a_lost_connection_is_told_and_found_again_with_what_came_meanwhile(browser: Page, site: Site) -> None:
    live(browser, site.at(BOARD))
    site.close()
    until(browser, "document.getElementById('status')?.textContent === 'Not connected'")
    site.passed("bob", 1e-3)
    site.start()
    until(browser, "document.getElementById('status')?.textContent === 'Live'")
    until(browser, f"{USERS}[0] === 'bob'")


def test_the_pages_are_read_without_scripts(browser: Page, site: Site) -> None:
    site.passed("bob", 1e-3)
    browser.open(site.at(BOARD), scripts=False)
    assert browser.value(USERS) == ["bob", "ada"]
    assert browser.value("document.getElementById('status').textContent").startswith("As of ")


@pytest.mark.parametrize("width", [320, 1200])
def test_every_page_fits_its_width_and_asks_no_other_origin(browser: Page, site: Site, width: int) -> None:
    runs = [site.passed(user, 1e-3 * (place + 1), file_name=f"{'w' * 80}.py") for place, user in enumerate(HOSTILE)]
    site.passed("a" * 60, 9e-3)
    browser.open("about:blank")  # the page of an earlier test tries to connect again
    for path in ("", "feed", BOARD, f"runs/{runs[0]}", "nothing"):
        browser.open(site.at(path), width=width)
        assert browser.value("document.documentElement.scrollWidth") <= width, path
        assert browser.value("document.title") != "taken"
        assert {address.split("/")[2] for address in browser.requests()} == {f"127.0.0.1:{site.port}"}
        found = [each for each in browser.complaints() if "404" not in each]
        assert found == []


def test_the_words_of_a_case_stay_whole_on_a_phone(browser: Page, site: Site) -> None:
    run = site.passed("ada", 1e-3)
    browser.open(site.at(f"runs/{run}"), width=390)
    lines = "(range => { range.selectNodeContents(cell.firstChild); range.setEnd(cell.firstChild, 9);"
    lines += " return range.getClientRects().length })(document.createRange())"
    browser.value("window.cell = document.querySelector('.cases tbody th')")
    assert browser.value("cell.textContent") == "benchmark 1"
    browser.value("cell.parentElement.querySelector('.spec').textContent = 'size: 1024; seed: 4242; mode: wide'")
    assert browser.value(lines) == 1
    assert browser.value("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_can_be_read(browser: Page, site: Site, dark: bool) -> None:
    browser.open(site.at(BOARD), dark=dark)
    assert (luminance(browser.value("getComputedStyle(document.body).backgroundColor")) < 0.1) is dark
    for selector in ("td", ".quiet", ".bar a", "#status", "tr.first td", ".file", "td a", "th", "footer"):
        assert contrast(browser, selector) >= 4.5, selector
    browser.open(site.at("feed"), dark=dark)
    for selector in (".feed time", ".feed .links a", ".bar a[aria-current]"):
        assert contrast(browser, selector) >= 4.5, selector


def test_the_keyboard_reaches_each_link_and_shows_where_it_is(browser: Page, site: Site) -> None:
    browser.open(site.at(BOARD))
    seen = []
    for _ in range(5):
        browser.press("Tab")
        seen.append(browser.value("document.activeElement.textContent.trim()"))
        assert browser.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert seen[:3] == ["Skip to the standings", "Boards", "Feed"]


def test_tables_have_captions_and_scopes(browser: Page, site: Site) -> None:
    for path in ("", BOARD, "runs/1"):
        browser.open(site.at(path))
        assert browser.value("document.querySelectorAll('table').length") > 0
        assert browser.value("document.querySelectorAll('table:not(:has(caption))').length") == 0
        assert browser.value("document.querySelectorAll('th:not([scope])').length") == 0
        assert browser.value("document.querySelectorAll('h1').length") == 1
