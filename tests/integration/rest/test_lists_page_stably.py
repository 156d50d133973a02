"""This room tests that a walk through pages sees each row once while others come and go."""

from typing import Any
from urllib.parse import quote

import pytest

from controller.models import Broker
from groups.core.phases import Phase
from groups.core.records import GenerationOpened, PhaseEntered
from groups.models import ConsumerGroup
from runtime.models import JournalEntry
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


def test_a_rebalance_that_begins_meanwhile_has_none_told_twice(viewer: Caller) -> None:
    group = cast.add_group("ann")

    def rebalance(generation: int) -> None:
        records = [cast.came(f"m-{generation}"), GenerationOpened(generation), PhaseEntered(Phase.STABLE)]
        at = cast.ago(seconds=90 - 10 * generation)
        cast.journal(f"coordinator/{group.shard}", "ann", at, "turn", records)

    for generation in range(1, 6):
        rebalance(generation)
    told = walk(viewer, "rebalances/ann", 2, lambda: rebalance(6))
    assert [item["generation"] for item in told] == [5, 4, 3, 2, 1]


def test_rebalances_from_before_the_clock_was_set_back_are_told(viewer: Caller) -> None:
    group = cast.add_group("ann")
    for generation, ago in ((1, 90), (2, 80), (3, 3_600), (4, 3_590)):
        records = [cast.came(f"m-{generation}"), GenerationOpened(generation), PhaseEntered(Phase.STABLE)]
        cast.journal(f"coordinator/{group.shard}", "ann", cast.ago(seconds=ago), "turn", records)
    assert [item["generation"] for item in walk(viewer, "rebalances/ann", 1)] == [4, 3, 2, 1]
    told = walk(viewer, "rebalances/ann", 1, lambda: JournalEntry.objects.order_by("id")[3].delete())
    assert [item["generation"] for item in told] == [4], "a walk whose place is gone has an end"


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


LISTS = (
    "groups",
    "groups?q=a",
    "groups?topic=orders",
    "groups?lag_over=0",
    "brokers",
    "brokers?state=live",
    "topics",
    "topics?q=o",
    "partitions",
    "partitions?topic=orders",
    "partitions?replica=1",
    "offsets",
    "offsets?group=ann",
    "journal",
    "journal?key=ann",
    "journal?lane=controller",
    "rebalances/ann",
    "rebalances/anna",
    "members/ann",
)


def test_a_cursor_of_another_list_is_refused(viewer: Caller) -> None:
    """Every list against every other: their places do not compare, and some would even read rows."""
    for broker in (1, 2):
        cast.add_broker(broker)
    topics = [cast.add_topic(name, 2, [(1, 2)], high_watermark=9) for name in ("orders", "clicks-o")]
    for name in ("ann", "anna"):
        group = cast.add_group(name)
        for topic in topics:
            for partition in (0, 1):
                cast.commit(group, topic, partition, 1)
        for member in ("m-0", "m-1"):
            cast.add_member(group, member)
            records = [cast.came(member), GenerationOpened(1), PhaseEntered(Phase.STABLE)]
            cast.journal(f"coordinator/{group.shard}", name, cast.ago(seconds=9), "turn", records)
    for number in range(2):
        cast.journal("controller", "cluster", cast.ago(seconds=number), "turn", [])
    cursors = {}
    for path in LISTS:
        joint = "&" if "?" in path else "?"
        cursors[path] = viewer.get(f"{path}{joint}limit=1").json()["next"]
        assert cursors[path], path
    for path in LISTS:
        joint = "&" if "?" in path else "?"
        for other, cursor in cursors.items():
            answer = viewer.get(f"{path}{joint}limit=1&cursor={cursor}")
            assert answer.status_code == (200 if path == other else 400), (path, other)


def test_a_lag_of_any_size_can_be_asked_for(viewer: Caller) -> None:
    assert viewer.get("groups?lag_over=99999999999").status_code == 200


def test_text_is_found_in_capitals_or_not(viewer: Caller) -> None:
    cast.add_topic("Orders.EU", 1, [(1,)])
    group = cast.add_group("Billing")
    cast.commit(group, cast.add_topic("CLICKS", 1, [(1,)]), 0, 1)
    for path, found in (("groups?q=bILL", 1), ("groups?q=clicks", 1), ("groups?q=x", 0), ("topics?q=eu", 1)):
        assert len(viewer.get(path).json()["items"]) == found, path


def test_under_replicated_is_what_the_page_counts(viewer: Caller) -> None:
    """The row keeps the last two members of the ISR although broker 2 is dead."""
    cast.add_broker(1)
    cast.add_broker(2, fenced=True)
    cast.add_topic("orders", 1, [(1, 2)], configs={"min.insync.replicas": "2"})
    cast.add_topic("clicks", 1, [(1,)])
    items = viewer.get("partitions?state=under-replicated").json()["items"]
    assert [item["topic"] for item in items] == ["orders"]


def test_the_word_of_a_brokers_state_is_the_word_of_the_filter(viewer: Caller) -> None:
    cast.add_broker(1)
    cast.add_broker(2, fenced=True)
    Broker.objects.create(broker_id=3, secret_hash=bytes(32))
    for broker_id, state in enumerate(("live", "fenced", "never-connected"), start=1):
        items = viewer.get(f"brokers?state={state}").json()["items"]
        assert [(item["broker_id"], item["state"]) for item in items] == [(broker_id, state)]


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
        "lag_over=9223372036854775808",
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
