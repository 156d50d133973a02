"""What became of a request stays on the screen for a while: the board beside it goes on saying what is."""

import pytest
from playwright.sync_api import expect

from controller.models import Partition
from runtime.models import WorkItem
from tests.browser.conftest import Open
from tests.browser.test_pages_in_chromium import live
from tests.browser.test_pages_of_plans_can_be_steered import a_plan
from tests.integration.web import cast
from tests.integration.web.test_plans_are_shown_and_steered import refused

pytestmark = pytest.mark.browser


def test_a_partition_that_has_just_got_its_leader_is_not_called_offline(open_page: Open) -> None:
    """*Done*, said the page about a new topic, and *2 offline* above it, until somebody left."""
    request = refused(a_plan())
    cast.add_topic("gates", 1, [(1, 2)])
    Partition.objects.update(leader=-1)
    page = open_page(f"/cluster/requests/{request.id}/")
    tile = page.locator("#tiles").get_by_role("link", name="Topics")
    expect(tile).to_contain_text("1 offline")
    live(page)
    Partition.objects.update(leader=1, version=90_000)
    expect(tile).to_contain_text("1 partition")


def test_a_page_that_waits_for_an_answer_does_not_say_that_it_lives(open_page: Open) -> None:
    """Nothing that it watches changes by an answer: it would go on saying that there is none."""
    request = refused(a_plan())
    WorkItem.objects.update(result=None, state="due", adopted_at=None)
    page = open_page(f"/cluster/requests/{request.id}/")
    expect(page.get_by_text("Asked, not yet answered")).to_be_visible()
    expect(page.locator(".live")).to_have_count(0)
