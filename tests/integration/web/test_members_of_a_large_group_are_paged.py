"""A group of thousands of members: fifty a page, found by their words, beside the pages of its partitions."""

import re
from collections.abc import Iterator

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from groups import group_page
from groups.core.phases import Phase
from groups.member_rows import Member, native_members
from tests.integration.web import cast, classic_cast
from tests.integration.web.test_pages_say_what_is import text

pytestmark = pytest.mark.django_db


@pytest.fixture
def page(viewer: Client) -> str:
    """The address of a group of 250 members, of which each owns four partitions."""
    topic = cast.add_topic("clicks", 1_000, [(1,)], high_watermark=10)
    group = cast.add_group("clicks-raw", generation=2)
    for number in range(250):
        cast.add_member(group, f"m-{number:03d}", client_host=f"10.0.{number % 2}.7")
        cast.own(group, topic, f"m-{number:03d}", range(number * 4, number * 4 + 4))
    return "/groups/clicks-raw/"


def members(client: Client, address: str) -> list[str]:
    """The members that the page lists."""
    answer = client.get(address)
    assert answer.status_code == 200
    section = answer.content.decode().partition('id="members"')[2]
    return re.findall(r'<th scope="row" class="clip rest" title="([^"]*)"', section)


def test_fifty_are_listed_and_the_rest_is_a_link_away(viewer: Client, page: str) -> None:
    assert members(viewer, page) == [f"m-{number:03d}" for number in range(50)]
    shown = text(viewer, page)
    assert "250 members" in shown and "Members 1 to 50 of 250." in shown
    last = viewer.get(f"{page}?members=200&from=100").content.decode()
    assert 'href="?from=100&amp;members=150#members"' in last
    assert 'href="?members=200&amp;from=200#partitions"' in last
    assert members(viewer, f"{page}?members=200")[-1] == "m-249"
    assert members(viewer, f"{page}?members=250")[0] == "m-000", "past the end is the first page"


def test_they_are_found_by_id_client_or_host(viewer: Client, page: str) -> None:
    assert members(viewer, f"{page}?member=M-24") == [f"m-{number}" for number in range(240, 250)]
    assert members(viewer, f"{page}?member=10.0.1.&members=100")[-1] == "m-249"
    assert (
        'href="?member=10.0.1.&amp;members=50#members"'
        in viewer.get(f"{page}?member=10.0.1.").content.decode()
    )
    nobody = text(viewer, f"{page}?member=nobody")
    assert "No member matches “nobody” 250 members are hidden by this filter." in nobody


def test_static_members_of_kafkas_clients_are_found_by_their_instance(viewer: Client) -> None:
    group = classic_cast.add_group("parcels", phase=Phase.STABLE)
    for number in range(60):
        classic_cast.add_member(group, f"id-{number:02d}", instance=f"gate-{number:02d}")
    assert members(viewer, "/groups/parcels/?member=gate-5") == [f"id-5{number}" for number in range(10)]


def test_what_pushes_other_sections_away_is_folded(viewer: Client, page: str) -> None:
    shown = viewer.get(page).content.decode()
    drawn, _, folded = shown.partition("<details><summary>76 more members</summary>")
    assert drawn.count('class="ticks"') == group_page.STRIPS_OPEN and folded.count('class="ticks"') == 76


class Counted(list[Member]):
    """Members that count how often somebody goes through all of them."""

    times = 0

    def __iter__(self) -> Iterator[Member]:
        self.times += 1
        return super().__iter__()


def test_what_is_true_of_all_members_is_found_out_once(db: None) -> None:
    """Each row of a page asked whether any of 5,000 members says where it runs."""
    group = cast.add_group("clicks-raw")
    for number in range(3):
        cast.add_member(group, f"m-{number}")
    members = Counted(native_members(group.name))
    page = group_page.GroupPage(group, [], members, [], [])
    for _ in members[:]:
        assert not page.racks
    assert members.times == 1


def test_of_a_member_that_is_not_listed_no_more_is_kept_than_a_line_of_the_database(
    viewer: Client, page: str
) -> None:
    """Of 5,000 members objects of the ORM cost a third of the page, of which fifty were shown."""
    with CaptureQueriesContext(connection) as captured:
        viewer.get(page)
    (statement,) = (one["sql"] for one in captured if "FROM group_member WHERE" in one["sql"])
    assert "subscription" not in statement
