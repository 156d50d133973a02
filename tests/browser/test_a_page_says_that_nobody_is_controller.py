"""This room shows pages while no node is controller: they say so without a reload, and when it is over."""

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from runtime import wake
from runtime.models import NodeSession
from tests.browser.conftest import Open
from tests.browser.test_pages_in_chromium import BASICS, CONTRAST, FITS, live, width_of
from tests.integration.web import cast

pytestmark = pytest.mark.browser

SAID = "No node is controller"


def test_pages_of_topics_and_brokers_say_so_while_it_lasts(open_page: Open) -> None:
    cast.one_night(groups=1)
    pages = [open_page(address) for address in ("/topics/flights/", "/brokers/", "/topics/flights/0/")]
    for page in pages:
        live(page)
        expect(page.get_by_text(SAID)).to_have_count(0)
        page.evaluate("window.loadedOnce = true")
    NodeSession.objects.update(ended=True, renewed_at=cast.ago(seconds=20))
    wake.notify("lease", "controller")
    for page in pages:
        expect(page.get_by_text(SAID)).to_be_visible()
        expect(page.get_by_text("may be older than that")).to_be_visible()
        for width, theme in ((1440, "light"), (390, "dark")):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            content, window = width_of(page)
            assert content <= window
            for question in (BASICS, FITS, CONTRAST):
                assert page.evaluate(question) == [], (page.url, width)
    NodeSession.objects.update(ended=False, renewed_at=timezone.now())
    wake.notify("lease", "controller")
    for page in pages:
        expect(page.get_by_text(SAID)).to_have_count(0)
        assert page.evaluate("window.loadedOnce"), "nobody had to load it again"
