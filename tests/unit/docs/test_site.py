"""The manual as a site: every page has a place, no page loads anything from elsewhere, and dead links fail."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.e2e.browser import Page, browser_program, browsing
from tests.unit.recorded import REPOSITORY
from tests.waiting import awaited

DOCS = REPOSITORY / "docs"
SETTINGS = REPOSITORY / "zensical.toml"
LOADED = re.compile(r"""<(?:script|img|iframe|link rel="?(?:stylesheet|preload))[^>]*(?:src|href)="?https?://[^ ">]+""")

pytestmark = pytest.mark.slow
BROWSER = pytest.mark.skipif(browser_program() is None, reason="no Chromium is installed: `make browser` installs one")


def checkout(folder: Path) -> Path:
    """Copy what the site is made from into `folder`, and return it."""
    shutil.copytree(DOCS, folder / "docs")
    shutil.copy(SETTINGS, folder)
    return folder


def built(checkout: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site."""
    folder = checkout(tmp_path_factory.mktemp("site"))
    done = built(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build" / "site"


def pages(nav: Any) -> list[str]:
    """Return the pages of a menu, in their order."""
    if isinstance(nav, str):
        return [nav]
    return [page for entry in (nav.values() if isinstance(nav, dict) else nav) for page in pages(entry)]


def test_the_menu_has_every_page_once_in_the_order_of_the_manual() -> None:
    menu = pages(tomllib.loads(SETTINGS.read_text())["project"]["nav"])
    linked = re.findall(r"^- \[[^]]+\]\(([\w/.-]+\.md)\)", (DOCS / "index.md").read_text(), re.MULTILINE)
    assert menu == ["index.md", *linked]
    assert sorted(menu) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_the_site_is_built_and_loads_nothing_from_elsewhere(site: Path) -> None:
    html = {page.relative_to(site).with_suffix(".md"): page.read_text() for page in site.rglob("*.html")}
    assert {page.relative_to(DOCS) for page in DOCS.rglob("*.md")} <= set(html)
    assert [match for text in html.values() for match in LOADED.findall(text)] == []
    assert "admin rerun" in (site / "search.json").read_text()


@contextmanager
def shown(site: Path, profile: Path) -> Iterator[tuple[str, Page]]:
    """The address of the built site, and a browser with an empty profile."""
    files = partial(SimpleHTTPRequestHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), files) as server, browsing(profile) as page:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", page
        server.shutdown()


@BROWSER
def test_the_site_plays_the_recording_of_the_app(site: Path, tmp_path: Path) -> None:
    with shown(site, tmp_path / "profile") as (address, page):
        page.open(f"{address}/app.html")
        awaited(lambda: page.value("document.querySelector('[data-recording=app] .ap-overlay-start') !== null"))
        page.click("[data-recording=app] .ap-overlay-start")
        awaited(
            lambda: "hpc-board template heat" in page.value("document.querySelector('[data-recording=app]').innerText")
        )
        assert (page.complaints(), [each for each in page.requests() if not each.startswith((address, "data:"))]) == (
            [],
            [],
        )
        page.open(f"{address}/index.html")
        assert [each for each in page.requests() if "asciinema" in each] == []


@BROWSER
def test_a_reader_of_the_site_gets_the_mode_of_the_system_at_each_visit(site: Path, tmp_path: Path) -> None:
    scheme = "document.body.getAttribute('data-md-color-scheme')"
    with shown(site, tmp_path / "profile") as (address, page):
        for dark, expected in ((False, "default"), (True, "slate"), (False, "default")):
            page.open(f"{address}/index.html", dark=dark)
            awaited(partial(page.value, f"{scheme} === '{expected}'"))


def test_a_dead_link_and_a_dead_anchor_fail_the_build(tmp_path: Path) -> None:
    folder = checkout(tmp_path)
    with (folder / "docs" / "course.md").open("a") as page:
        page.write("\n[a page](nothere.md) and [an anchor](boards.md#nowhere)\n")
    done = built(folder)
    assert done.returncode != 0
    told = done.stdout + done.stderr
    assert ("page does not exist" in told, "anchor does not exist" in told, told.count("course.md:")) == (True, True, 2)
