"""The site, built once for all tests of it, behind a server on loopback, and a browser without a network."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site."""
    from pages.assemble import assemble
    from pages.build import generate

    folder = tmp_path_factory.mktemp("site")
    assemble(ROOT, folder / "build" / "pages")
    (folder / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text())
    for name in ("konverge", "tools", *_rooms()):
        (folder / name).symlink_to(ROOT / name)
    done = generate(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build" / "site"


def _rooms() -> list[str]:
    """The folders of the root to which the package has links."""
    return sorted({Path(path.readlink()).parts[1] for path in (ROOT / "konverge").iterdir() if path.is_symlink()})


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """The address of the site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium of the system without a window; it runs in an event loop of this thread, so it ends with the module."""
    from browser import browser as path_of_browser
    from playwright.sync_api import sync_playwright

    path = path_of_browser()
    if path is None:
        pytest.skip("no Chromium or Chrome in PATH: python tools/browser.py says what to install")
    with sync_playwright() as play:
        running = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()
