"""This room walks the page of the cluster: its links to more lead to every partition once."""

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from tests.integration.web import cast
from tests.integration.web.test_pages_say_what_is import text

pytestmark = pytest.mark.django_db


def walk(client: Client, address: str) -> list[str]:
    """Every partition that the page of the cluster shows, its links to more followed."""
    seen: list[str] = []
    while address:
        page = client.get(address).content.decode()
        seen += re.findall(r'<th scope="row" class="id[^"]*" title="([^"]+)"', page)
        more = re.search(r'href="([^"]+)">(?:All|Next partitions)', page)
        address = "/cluster/" + unescape(more[1]).partition("#")[0] if more else ""
    return seen


def test_the_cluster_page_tells_and_pages_all_troubled_partitions(viewer: Client) -> None:
    cast.add_broker(1)
    cast.add_broker(2, fenced=True)
    cast.add_topic("orders", 43, [(1, 2)])
    cast.add_topic("clicks", 3, [(1, 2)])
    page = text(viewer, "/cluster/")
    assert "Partitions 1 to 20 of 43. All 43" in page
    assert {f"orders-{number}" for number in range(43)} <= set(walk(viewer, "/cluster/"))


def test_a_topic_of_more_partitions_than_a_page_holds_is_walked_whole(
    viewer: Client, monkeypatch: Any
) -> None:
    monkeypatch.setattr("controller.views.PARTITIONS_OF_AN_OPENED_TOPIC", 50)
    cast.add_broker(1)
    cast.add_broker(2, fenced=True)
    for show in ("attention", "all"):
        cast.add_topic(f"orders-{show}", 120, [(1, 2)])
        seen = walk(viewer, f"/cluster/?show={show}&open=orders-{show}&q=-{show}")
        assert sorted(seen, key=lambda name: int(name.rpartition("-")[2])) == [
            f"orders-{show}-{number}" for number in range(120)
        ]
    assert "Partitions 51 to 100 of 120." in text(viewer, "/cluster/?q=-all&open=orders-all&from=50")


def test_a_cursor_of_another_list_of_topics_is_refused(viewer: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr("controller.views.TOPICS_OF_A_PAGE", 2)
    cast.add_broker(1)
    for number in range(5):
        cast.add_topic(f"topic-{number}", 1, [(1,)])
    page = viewer.get("/cluster/?q=topic").content.decode()
    following = re.search(r'rel="next" href="([^"]+)"', page)
    assert following
    address = "/cluster/" + unescape(following[1]).partition("#")[0]
    assert "topic-2" in text(viewer, address)
    assert viewer.get(address.replace("q=topic", "q=other")).status_code == 400
    assert viewer.get("/cluster/?after=topic-2").status_code == 400
