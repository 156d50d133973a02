"""This room tests that a walk through pages sees each row once while others come and go."""

from typing import Any
from urllib.parse import quote

import pytest

from groups.core.phases import Phase
from groups.core.records import GenerationOpened, PhaseEntered
from groups.models import ConsumerGroup
from tests.integration.rest.conftest import Caller
from tests.integration.web import cast

pytestmark = pytest.mark.django_db


def walk(caller: Caller, path: str, limit: int, between: Any = None) -> list[dict[str, Any]]:
    """All items, page by page; `between` is called after the first page."""
    items: list[dict[str, Any]] = []
    cursor = None
    while True:
        joint = "&" if "?" in path else "?"
        answer = caller.get(f"{path}{joint}limit={limit}" + (f"&cursor={cursor}" if cursor else ""))
        assert answer.status_code == 200, answer.content
        page = answer.json()
        assert len(page["items"]) <= limit
        items += page["items"]
        cursor = page["next"]
        assert (cursor is not None) == ('rel="next"' in answer.get("Link", ""))
        if cursor is None:
            return items
        if between:
            between()
            between = None


def test_each_list_is_walked_whole(viewer: Caller) -> None:
    cast.one_night(groups=7)
    for path, count in (
        ("groups", 9),
        ("brokers", 6),
        ("topics", 3),
        ("partitions", 22),
        ("offsets", 6 + 3 + 7 * 12),
        ("offsets?group=departures", 6),
        ("partitions?topic=flights", 6),
        ("partitions?state=offline", 1),
        ("partitions?leader=1&topic=flights", 4),
        ("brokers?state=fenced", 1),
        ("groups?phase=Empty", 0),
        ("groups?topic=flights", 1),
        ("groups?q=gate", 1),
        ("groups?lag_over=1000", 1),
        ("topics?q=o", 1),
    ):
        items = walk(viewer, path, 4)
        assert len(items) == count, path
        assert all("version" in item for item in items), path
        assert len({str(sorted(item.items(), key=str)) for item in items}) == count, path


def test_a_row_that_comes_or_goes_moves_no_other(viewer: Caller) -> None:
    for name in ("a", "c", "e", "g"):
        cast.add_group(name)

    def change() -> None:
        cast.add_group("b")
        cast.add_group("f")
        ConsumerGroup.objects.filter(name="c").delete()

    assert [item["group"] for item in walk(viewer, "groups", 2, change)] == ["a", "c", "e", "f", "g"]


def test_a_cursor_of_other_filters_is_refused(viewer: Caller) -> None:
    for name in ("ann", "anna", "ben"):
        cast.add_group(name)
    cursor = viewer.get("groups?limit=1&q=ann").json()["next"]
    assert viewer.get(f"groups?limit=1&q=ann&cursor={cursor}").status_code == 200
    for path in (
        f"groups?cursor={cursor}",
        f"groups?q=ben&cursor={cursor}",
        "groups?cursor=abc",
        "groups?cursor=",
    ):
        answer = viewer.get(path)
        assert answer.status_code == 400, path
        assert answer.json()["kafka_error"]["name"] == "INVALID_REQUEST"


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=501",
        "limit=x",
        "limit=٣",
        "unknown=1",
        "q=a&q=b",
        "q=%00",
        "lag_over=-1",
        "phase=stable",
        "lag_over=99999999999",
    ],
)
def test_what_is_not_understood_is_400_not_ignored(query: str, viewer: Caller) -> None:
    answer = viewer.get(f"groups?{query}")
    assert answer.status_code == 400
    assert answer["Content-Type"].startswith("application/problem+json")


def test_the_link_to_the_next_page_holds_for_any_name(viewer: Caller) -> None:
    name = "a%25b?c#d e/ü"
    group = cast.add_group(name)
    for number in range(2):
        records = [cast.came(f"m-{number}"), GenerationOpened(number + 1), PhaseEntered(Phase.STABLE)]
        cast.journal(f"coordinator/{group.shard}", name, cast.ago(seconds=9 - number), "turn", records)
    first = viewer.get(f"rebalances/{quote(name, safe='')}?limit=1")
    address = first["Link"].partition(">")[0].removeprefix("<http://testserver/api/v1/")
    second = viewer.get(address)
    assert (first.status_code, second.status_code) == (200, 200)
    assert [answer.json()["items"][0]["detail"] for answer in (first, second)] == ["m-1", "m-0"]
