"""This room opens Chromium on the real web process; without a browser tests are skipped, and fail in CI."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from access.grants import Role
from access.service import make_login_link
from tests.integration.web.served import WebProcess

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""
PATIENCE_MS = 30_000

Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser(migrated_template: str) -> Iterator[Browser]:
    """One Chromium for a module.

    Playwright's synchronous calls keep a loop in this thread: it ends with the module, so that asynchronous
    tests find none, and Django is told that rows may be written beside it.
    """
    if not CHROMIUM:
        if os.environ.get("CI"):
            pytest.fail("No chromium was found, and CI is set.")
        pytest.skip("No chromium was found: install it to run the browser tests.")
    with sync_playwright() as playwright:
        # Chromium refuses its sandbox to root.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
            yield opened
        opened.close()


@pytest.fixture
def web(fresh_database: str, tmp_path: Path) -> Iterator[WebProcess]:
    """A web process of the cluster aero-prod, on a database of its own."""
    process = WebProcess(
        tmp_path / "web.log", MUSTER_CLUSTER_NAME="aero-prod", MUSTER_ENVIRONMENT="Production"
    )
    yield process
    process.stop()


@pytest.fixture
def open_page(browser: Browser, web: WebProcess) -> Iterator[Open]:
    """Opens an address at a width and in a theme, signed in; a script error fails the test."""
    contexts: list[BrowserContext] = []
    errors: list[str] = []

    def open_page(address: str, *, width: int = 1440, theme: str = "light", signed_in: bool = True) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if theme == "dark" else "light",
            timezone_id="UTC",
            locale="en-GB",
        )
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if "Content Security" in said.text else None)
        if signed_in:
            page.goto(f"{web.url}/login/once/{make_login_link('mira', Role.OPERATOR)}/")
        page.goto(f"{web.url}{address}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []
