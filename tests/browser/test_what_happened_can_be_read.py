"""This room reads the journal and what elections lost in Chromium: both widths and themes, empty and full."""

import os
import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from controller.models import ElectionLoss, Topic
from runtime import wake
from tests.browser.conftest import Open
from tests.browser.test_pages_in_chromium import BASICS, CONTRAST, FITS, live, width_of
from tests.integration.web import cast

pytestmark = pytest.mark.browser

PICTURES = os.environ.get("MUSTER_PICTURES", "")
"""A folder for pictures of these pages, for whoever wants to look at them."""

SIZES = ((1440, "light"), (1440, "dark"), (390, "light"), (390, "dark"))
REQUEST = "5f0c1c57-58a0-4d1c-8b53-6b3a0f5b8f11"


def a_night_with_a_loss() -> None:
    """A night of flights, an operator's deeds, and an unclean election that lost 240 records."""
    cast.one_night(groups=2)
    topic = Topic.objects.get(name="flights")
    asked = [{"what": "ElectLeaders", "by": "olga", "why": "broker 1 burnt down", "request": REQUEST}]
    cast.journal(
        "controller",
        "cluster",
        cast.ago(minutes=3),
        "leaders were to be elected",
        [],
        asked=asked,
        partitions_changed=1,
        possible_losses=1,
        topics=["flights"],
    )
    told = ["flights-5 in leader epoch 7: broker 2 began at 10000; broker 1 was cut from 10250 to 10000"]
    cast.journal(
        "controller",
        "cluster",
        cast.ago(minutes=2),
        "a broker told what an election lost",
        [],
        losses_told=told,
        brokers_fenced=[1],
    )
    alike = {
        "topic_id": topic.topic_id,
        "topic_name": "flights",
        "leader": 2,
        "isr": [1],
        "committed": 10_240,
        "version": 7,
    }
    ElectionLoss.objects.create(
        partition=5,
        leader_epoch=7,
        reason="unclean election asked for by olga",
        start_offset=10_000,
        told_at=timezone.now(),
        cuts=[[1, 10_250, 10_000, 10_245, 25_600]],
        **alike,
    )
    ElectionLoss.objects.create(partition=1, leader_epoch=3, reason="unclean election", **alike)
    ElectionLoss.objects.create(
        partition=2,
        leader_epoch=4,
        reason="the last member of the ISR may have lost its tail",
        told_at=timezone.now(),
        acknowledged_at=timezone.now() - timedelta(hours=1),
        acknowledged_by="olga",
        acknowledged_why="replayed from the source",
        **alike,
    )


def check(page: Page, name: str) -> None:
    """It fits and can be read at every size; where somebody wants it, it is drawn."""
    for width, theme in SIZES:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        look = f"{name} {width} {theme}"
        if PICTURES:
            page.screenshot(path=str(Path(PICTURES) / f"{name}-{width}-{theme}.png"), full_page=True)
        content, window = width_of(page)
        assert content <= window, look
        for question in (BASICS, FITS, CONTRAST):
            assert page.evaluate(question) == [], look


def test_the_journal_fits_and_is_filtered(open_page: Open) -> None:
    a_night_with_a_loss()
    page = open_page("/journal/")
    check(page, "journal")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_role("searchbox", name="Asked by").fill("olga")
    page.get_by_role("button", name="Filter", exact=True).click()
    expect(page).to_have_url(re.compile("by=olga"))
    rows = page.locator("table.journal tbody tr td.num")
    expect(rows).to_have_count(1)
    expect(page.get_by_text("broker 1 burnt down")).to_be_visible()
    page.get_by_role("link", name="Elect leaders").click()
    expect(page).to_have_url(re.compile(REQUEST))
    page.go_back()
    page.get_by_role("link", name="Show all").click()
    expect(page.get_by_role("searchbox", name="Asked by")).to_have_value("")


def test_an_empty_journal_and_one_without_a_match_fit(open_page: Open) -> None:
    page = open_page("/journal/")
    expect(page.get_by_text("Nothing has happened yet")).to_be_visible()
    check(page, "journal-empty")
    page.goto(page.url + "?by=nobody")
    expect(page.get_by_text("No turn matches")).to_be_visible()
    page.goto(page.url.split("?")[0] + "?since=yesterday")
    expect(page.get_by_text("since must be a time like")).to_be_visible()


def test_what_elections_lost_fits_and_leads_to_its_acknowledgement(open_page: Open) -> None:
    a_night_with_a_loss()
    page = open_page("/losses/")
    expect(page.get_by_text("at least 245")).to_be_visible()
    check(page, "losses")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_role("link", name="Acknowledge").last.click()
    expect(page.get_by_text("committed records are lost")).to_be_visible()
    check(page, "losses-ask")
    page.goto(page.url.split("/cluster/")[0] + "/topics/flights/5/")
    expect(page.get_by_role("heading", name="What elections lost")).to_be_visible()
    check(page, "partition-with-a-loss")


def test_on_a_telephone_the_name_of_what_lost_records_has_the_line_and_when_is_told(open_page: Open) -> None:
    """It stood in a seventh of the line, eight letters each, and when and why were left out."""
    a_night_with_a_loss()
    name = "eu-central-1.warehouse-inventory.adjustments.compacted.by-region"
    ElectionLoss.objects.update(topic_name=name)
    page = open_page("/losses/", width=390)
    row = page.locator(".losses tbody tr").filter(has_text="at least 245 lost")
    box = row.get_by_role("link", name=name).bounding_box()
    assert box is not None and box["height"] < 60
    expect(row.get_by_text("unclean election asked for by olga")).to_be_visible()
    expect(row.get_by_role("rowheader")).to_have_count(1)


def test_no_loss_fits_as_well(open_page: Open) -> None:
    page = open_page("/losses/")
    expect(page.get_by_text("No election has lost anything")).to_be_visible()
    check(page, "losses-empty")


def test_the_journal_says_how_many_turns_are_new_and_moves_nothing(open_page: Open) -> None:
    cast.one_night(groups=1)
    page = open_page("/journal/")
    live(page)
    rows = page.locator("table.journal td.num").count()
    for _ in range(2):
        cast.journal("controller", "cluster", timezone.now(), "a new thing was done", [])
    wake.notify("journal", "controller")
    link = page.get_by_role("link", name="2 new turns: show them")
    expect(link).to_be_visible()
    assert page.locator("table.journal td.num").count() == rows
    expect(page.get_by_text("a new thing was done")).to_have_count(0)
    for width, theme in SIZES:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        content, window = width_of(page)
        assert content <= window
        for question in (BASICS, FITS, CONTRAST):
            assert page.evaluate(question) == [], width
    link.click()
    expect(page.get_by_text("a new thing was done")).to_have_count(2)
    expect(page.locator("#newer a")).to_have_count(0)
