"""Lists of many brokers and topics are filtered, sorted and paged; a thousand brokers have no column each."""

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controller.models import PartitionProgress
from groups import standing
from tests.integration.web import cast
from tests.integration.web.test_pages_say_what_is import text

pytestmark = pytest.mark.django_db


def named(client: Client, address: str, what: str) -> list[str]:
    """The names in the rows of a list, in their order."""
    standing.forget()
    page = client.get(address)
    assert page.status_code == 200, address
    return re.findall(rf'<th scope="row"[^>]*><a href="/{what}/([^/"]+)/', page.content.decode())


def test_brokers_are_found_sorted_and_paged(viewer: Client) -> None:
    for broker in range(1, 131):
        cast.add_broker(broker, rack="abc"[broker % 3], fenced=broker == 77)
    cast.add_topic("orders", 4, [(3, 4), (3, 5)])
    cast.say(9, 2 * cast.GIGABYTE)
    cast.say(8, 500_000)
    assert named(viewer, "/brokers/", "brokers") == [str(broker) for broker in range(1, 101)]
    assert named(viewer, "/brokers/?from=100", "brokers") == [str(broker) for broker in range(101, 131)]
    assert named(viewer, "/brokers/?show=fenced", "brokers") == ["77"]
    assert named(viewer, "/brokers/?show=disk", "brokers") == ["8"]
    assert named(viewer, "/brokers/?show=attention", "brokers") == ["8", "77"]
    assert named(viewer, "/brokers/?sort=leaders", "brokers")[:2] == ["3", "1"]
    assert named(viewer, "/brokers/?sort=disk", "brokers")[:3] == ["8", "9", "1"]
    assert named(viewer, "/brokers/?q=10.0.12", "brokers") == [
        "12", "120", "121", "122", "123", "124", "125", "126", "127", "128", "129",
    ]  # fmt: skip
    assert "No broker matches" in text(viewer, "/brokers/?q=nowhere")
    refused = viewer.get("/brokers/?sort=rack")
    assert refused.status_code == 400 and b"Begin at /brokers/" in refused.content
    shown = named(viewer, "/cluster/", "brokers")
    assert shown[:3] == ["8", "77", "1"] and len(shown) == 20
    assert "All 130 brokers" in text(viewer, "/cluster/")


def test_a_form_names_many_brokers_by_their_racks(operator: Client) -> None:
    """Three hundred with their racks were a telephone's ten screens, all of them the name of one field."""
    page = text(operator, "/cluster/ask/propose-plan/")
    assert "Brokers: 1, 2, 3" in page
    for broker in range(4, 61):
        cast.add_broker(broker, rack="east" if broker < 31 else "west", fenced=broker in (9, 40, 41, 42))
    cast.add_topic("orders", 1, [(1, 2)])
    for address in ("/cluster/ask/propose-plan/", "/cluster/ask/move-partition/partition/orders/0/"):
        page = text(operator, address)
        assert "60 brokers, 4 fenced: which ids there are" in page, address
        assert "Fenced: 9, 40 to 42 Without a rack: 1 to 3 Rack east: 4 to 30 Rack west: 31 to 60" in page


def test_of_many_groups_the_roll_says_how_many_it_names(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred of five hundred looked like all, under words about a lag that stood nowhere."""
    monkeypatch.setattr("web.views.ROLL_UP_TO", 1)
    cast.one_night(groups=1)
    page = text(viewer, "/").partition("3 groups")[2]
    assert "Above 1 groups the roll names only those that need attention: the first 1 of 2." in page
    assert "gate-display 1 offline" in page and "its lag in records" not in page


def test_of_many_brokers_the_replicas_are_named_in_one_column(viewer: Client) -> None:
    for broker in range(1, 14):
        cast.add_broker(broker, fenced=broker == 13)
    cast.add_topic("orders", 2, [(3, 13)])
    page = viewer.get("/cluster/?show=all").content.decode()
    matrix = page.partition('<table class="list matrix')[2].partition("</table>")[0]
    assert matrix.count('scope="col"') == 8
    assert 'aria-label="Replicas: broker 3 leader; broker 13 out of sync"' in matrix


def test_the_largest_topics_come_first_if_asked_for(viewer: Client) -> None:
    for broker in (1, 2):
        cast.add_broker(broker, fenced=broker == 2)
    sizes = {"small": 10, "large": 5_000, "middle": 300}
    for place, (name, size) in enumerate(sizes.items()):
        topic = cast.add_topic(name, place + 1, [(1,)])
        PartitionProgress.objects.filter(partition__topic=topic).update(size_bytes=size)
    cast.add_topic("silent", 1, [(1,)])
    cast.add_topic("troubled", 9, [(1, 2)])
    by_size = "/topics/?sort=size"
    assert named(viewer, by_size, "topics") == ["large", "middle", "small", "silent", "troubled"]
    assert named(viewer, "/topics/?sort=partitions", "topics")[:2] == ["troubled", "middle"]
    assert named(viewer, f"{by_size}&show=attention", "topics") == ["troubled"]
    assert named(viewer, f"{by_size}&show=one-copy", "topics") == ["troubled"]
    assert named(viewer, f"{by_size}&show=offline", "topics") == []
    assert named(viewer, f"{by_size}&q=L", "topics") == ["large", "middle", "small", "silent", "troubled"]


def test_numbers_beside_the_list_of_topics_say_what_they_count(viewer: Client) -> None:
    """A list of two topics said All 5, and nothing how many topics there are."""
    for broker in (1, 2):
        cast.add_broker(broker, fenced=broker == 2)
    cast.add_topic("orders", 2, [(1,)])
    cast.add_topic("clicks", 3, [(1, 2)])
    page = text(viewer, "/topics/")
    assert "of 5 partitions in 2 topics" in page
    assert "All 5 partitions" in page and "Not in full sync 3 partitions" in page


def test_pages_of_the_largest_topics_follow_each_other(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.topic_page.TOPICS_OF_A_PAGE", 2)
    cast.add_broker(1)
    for number in range(5):
        cast.add_topic(f"topic-{number}", 1 + number, [(1,)])
    address, seen = "/topics/?sort=partitions", []
    while address:
        page = viewer.get(address).content.decode()
        seen += re.findall(r'<th scope="row"[^>]*><a href="/topics/topic-(\d)/', page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        address = f"/topics/{following[1].replace('&amp;', '&')}" if following else ""
    assert seen == ["4", "3", "2", "1", "0"]


def test_how_safe_the_data_is_is_not_looked_at_again_while_no_turn_was_taken(viewer: Client) -> None:
    cast.add_broker(1)
    orders = cast.add_topic("orders", 3, [(1,)])
    viewer.get("/topics/")
    cast.reach(orders, 0, 7_000)
    with CaptureQueriesContext(connection) as captured:
        viewer.get("/topics/")
    assert not [one for one in captured if "AS troubled" in one["sql"]]
    standing.forget()
    with CaptureQueriesContext(connection) as captured:
        viewer.get("/topics/")
    assert [one for one in captured if "AS troubled" in one["sql"]]
