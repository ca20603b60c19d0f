"""The documents as a site: built without a warning, readable in a browser, complete without a network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import konverge

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[3]
CONFIG = ROOT / "mkdocs.yml"
NAMES = [name for name in konverge.__all__ if name != "__version__"]


def in_navigation() -> Iterator[str]:
    """Yield each page of the navigation."""

    class Loader(yaml.SafeLoader):
        """Loads the configuration without the functions that it names."""

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)

    def pages(entry: Any) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        for value in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
            yield from pages(value)

    return pages(yaml.load(CONFIG.read_text(), Loader)["nav"])


PAGES = [page.removesuffix(".md").replace("README", "index") + ".html" for page in in_navigation()]


def test_each_page_of_the_guide_is_in_the_navigation() -> None:
    guide = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs" / "guide").glob("*.md")}
    assert guide <= set(in_navigation())


def test_each_public_name_is_on_a_single_page_of_the_reference(site: Path) -> None:
    from pages import api

    assert sorted(name for part in api.PAGES.values() for name in part.names.split()) == sorted(NAMES)


def test_each_name_of_konverge_in_the_documents_exists() -> None:
    documents = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "testkit" / "docs").glob("*.md")]
    unknown = {
        (path.name, name)
        for path in documents
        if "adr" not in path.parts
        for name in re.findall(r"\bkv\.([A-Za-z_]+)", path.read_text())
        if not hasattr(konverge, name)
    }
    assert unknown == set()


@pytest.mark.parametrize("mistake", ["[a](no-page.md)", "[a](#no-heading)", "[a](other.md#no-heading)"])
def test_the_build_fails_on_a_link_without_a_target(tmp_path: Path, site: Path, mistake: str) -> None:
    from pages.build import generate

    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# A\n\n{mistake}\n")
    (tmp_path / "docs" / "other.md").write_text("# B\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: a\nstrict: true\n")
    done = generate(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr


def test_a_link_to_a_missing_file_of_the_repository_is_an_error(site: Path) -> None:
    from pages import links

    with pytest.raises(FileNotFoundError, match=r"examples/none\.py is linked"):
        links.rewritten("docs/guide/plan.md", "[a](../../examples/none.py)", ROOT)


def test_links_between_documents_become_links_between_pages(site: Path) -> None:
    from pages import links

    text = (
        "[a](../../testkit/docs/lab.md#plans) [b](../../README.md) [c](../../examples/family)\n```\n[d](none.md)\n```\n"
    )
    assert links.rewritten("docs/guide/plan.md", text, ROOT) == (
        "[a](../testing/lab.md#plans) [b](../index.md) [c](../sources/examples/family.md)\n```\n[d](none.md)\n```\n"
    )


def test_the_reference_shows_signatures_and_examples_as_code(site: Path) -> None:
    page = (site / "reference" / "api" / "errors.html").read_text()
    assert 'id="konverge.ApiError"' in page
    assert '<span class="gp">&gt;&gt;&gt; </span>' in page
    assert "<blockquote>" not in page


@pytest.fixture
def opened(browser: Browser, address: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page of the browser that may reach the site and no other host, with the width and the colours of the test's parameter."""
    width, scheme = request.param
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    others: list[str] = []
    page.on("request", lambda sent: None if sent.url.startswith(("data:", address)) else others.append(sent.url))
    page.on("pageerror", lambda error: others.append(str(error)))
    yield page
    page.close()
    assert others == []


SEARCHING = "(document.activeElement.shadowRoot ?? document).activeElement.tagName == 'INPUT'"
SCREENS = [(1300, "light"), (1300, "dark"), (400, "light"), (400, "dark")]


@pytest.mark.parametrize("opened", SCREENS[::3], ids=str, indirect=True)
def test_no_page_is_wider_than_the_window(opened: Page, address: str) -> None:
    wide = []
    for path in PAGES:
        opened.goto(f"{address}/{path}", wait_until="domcontentloaded")
        if opened.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
            wide.append(path)
    assert wide == []


@pytest.mark.parametrize("opened", SCREENS[:2], ids=str, indirect=True)
def test_text_has_enough_contrast(opened: Page, address: str) -> None:
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # it has no types

    few = []
    for path in ("index.html", "guide/reconcilers.html", "reference/api/controllers.html"):
        opened.goto(f"{address}/{path}")
        found = Axe().run(opened, options={"runOnly": {"type": "rule", "values": ["color-contrast"]}})
        few += [
            (path, node["html"], node["any"][0]["message"])
            for rule in found.response["violations"]
            for node in rule["nodes"]
        ]
    assert few == []


@pytest.mark.parametrize("opened", SCREENS[:1], ids=str, indirect=True)
def test_the_search_finds_a_word_without_a_network(opened: Page, address: str) -> None:
    opened.goto(f"{address}/index.html")
    while not opened.evaluate(SEARCHING):  # the page listens to the key some time after it has loaded
        opened.keyboard.press("Control+k")
        opened.wait_for_timeout(500)
    opened.keyboard.type("finalizer")
    opened.get_by_text(re.compile(r"^\d+ results$")).wait_for()
