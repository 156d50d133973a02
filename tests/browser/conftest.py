"""This room opens Chromium on the real web process; without a browser tests are skipped, and fail in CI."""

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from pytest_django import DjangoDbBlocker

from access.grants import Role
from access.service import create_user
from standalone.postgres import Postgres
from tests.conftest import database_of_its_own
from tests.integration.web.served import SharedWeb, WebProcess

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first has no window to draw into, which saves a fifth of the whole room."""
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), "")
WITHOUT_GPU = ["--disable-gpu", "--disable-gpu-rasterization", "--disable-software-rasterizer"]
"""One that is played by the processor costs a fifth of the whole room."""
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)

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
        arguments = [*WITHOUT_GPU, "--no-sandbox"] if os.geteuid() == 0 else WITHOUT_GPU
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
            yield opened
        opened.close()


@pytest.fixture(scope="module")
def shared_web(
    postgres_server: Postgres,
    migrated_template: str,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SharedWeb]:
    """A web process of the cluster aero-prod, on a database of this module."""
    with (
        pytest.MonkeyPatch.context() as patch,
        database_of_its_own(postgres_server, migrated_template, django_db_blocker, patch),
    ):
        log = tmp_path_factory.mktemp("web") / "web.log"
        shared = SharedWeb(log, MUSTER_CLUSTER_NAME="aero-prod", MUSTER_ENVIRONMENT="Production")
        yield shared
        shared.stop()


@pytest.fixture
def web(shared_web: SharedWeb) -> WebProcess:
    """The web process on empty tables."""
    return shared_web.for_a_test()


@pytest.fixture
def session(web: WebProcess) -> dict[str, Any]:
    """The cookie of an operator's session; that a link gives one is tested elsewhere."""
    Session.objects.all().delete()
    client = Client()
    client.force_login(create_user("mira", Role.OPERATOR, None))
    value = client.cookies[settings.SESSION_COOKIE_NAME].value
    return {"name": settings.SESSION_COOKIE_NAME, "value": value, "url": web.url}


@pytest.fixture
def open_page(browser: Browser, web: WebProcess, session: dict[str, Any]) -> Iterator[Open]:
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
        if signed_in:
            context.add_cookies([session])  # type: ignore[list-item]
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if "Content Security" in said.text else None)
        page.goto(f"{web.url}{address}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []
