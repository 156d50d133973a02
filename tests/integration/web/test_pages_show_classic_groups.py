"""This room tests what pages say of groups whose members speak Kafka's classic protocol."""

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controller.models import PartitionProgress
from groups import standing
from groups.models import ClassicMember, CommittedOffset, ConsumerGroup, GroupWaiting
from tests.integration.web import cast, classic_cast
from tests.integration.web.classic_cast import ANN, BEN, CLEO
from tests.integration.web.test_pages_say_what_is import text

pytestmark = pytest.mark.django_db


@pytest.fixture
def parcels(viewer: Client) -> ConsumerGroup:
    cast.add_cluster()
    cast.add_broker(1)
    return classic_cast.parcels(cast.add_topic("orders", 6, [(1,)]))


def test_the_page_tells_strategy_leader_members_and_timers(viewer: Client, parcels: ConsumerGroup) -> None:
    page = text(viewer, "/groups/parcels/")
    for told in (
        "cooperative-sticky, made by ann-5b1f03c2",
        "Protocol Kafka (classic), of the type consumer",
        "Strategy cooperative-sticky; all members know cooperative-sticky and range",
        "Static members 1 of 3",
        "Rebalance timeout 5m 0s",
        "3 members session timeout 45s",
        "parcels-b static 2, 3",
        "parcels-b 2 kept",
        "leader 0, 1",
        "10.0.2.17 cleo orders",
    ):
        assert told in page, told
    assert "sticky, incremental" not in page and "one ping" not in page


def test_what_clients_call_themselves_is_shown_as_it_is(viewer: Client, parcels: ConsumerGroup) -> None:
    """Long ids too, of which only ends are shown: what is escaped once, by then, is not escaped again."""
    odd = "<b>till & co</b>" + "-x" * 20
    ClassicMember.objects.filter(member_id=BEN).update(group_instance_id=odd)
    page = viewer.get("/groups/parcels/").content.decode()
    assert "&amp;lt;" not in page and "<b>till" not in page
    assert "&lt;b&gt;till &amp; co" in page


def test_the_history_tells_cause_length_and_what_the_leader_moved(
    viewer: Client, parcels: ConsumerGroup
) -> None:
    page = text(viewer, "/groups/parcels/")
    assert "last rebalance: 3.40s" in page
    last, first = re.findall(r"member joined (?:\S+ )+?(\d\.\d\ds) (\d of 6) (\d)", page)
    assert (last, first) == (("3.40s", "2 of 6", "3"), ("3.40s", "6 of 6", "2"))
    # The picture ties what moved last to whom it came from.
    assert page.count("2 kept, 1 given up") == 2 and page.count("2 added") == 1


def test_an_open_rebalance_says_when_it_ends_by_itself(viewer: Client, parcels: ConsumerGroup) -> None:
    ConsumerGroup.objects.update(phase="PreparingRebalance", phase_entered_at=timezone.now())
    assert "this one ends by" in text(viewer, "/groups/parcels/")
    ConsumerGroup.objects.update(phase_entered_at=cast.ago(minutes=4))
    assert "Nothing needs attention" in text(viewer, "/")
    ConsumerGroup.objects.update(phase_entered_at=cast.ago(minutes=6), version=418)
    assert "rebalance stuck" in text(viewer, "/groups/")


def test_a_generation_that_is_not_assigned_yet_keeps_the_old_picture(
    viewer: Client, parcels: ConsumerGroup
) -> None:
    before = text(viewer, "/groups/parcels/")
    assert "Generation 2: 2 of 6 partitions moved." in before
    classic_cast.opens(parcels, cast.ago(seconds=5))
    ConsumerGroup.objects.update(phase="PreparingRebalance", phase_entered_at=cast.ago(seconds=5))
    page = text(viewer, "/groups/parcels/")
    assert "Generation 3 is being prepared" in page and "The picture shows generation 2 until then" in page
    assert "it goes on without whoever has not joined" in page
    classic_cast.all_joined(parcels, cast.ago(seconds=2), 3)
    ConsumerGroup.objects.update(phase="CompletingRebalance", generation=3)
    page = text(viewer, "/groups/parcels/")
    assert "Generation 3 is being completed" in page and "The picture shows generation 2 until then" in page
    assert re.search(r"Whoever has not asked for its partitions by \S+ is removed", page)
    assert "Generation 2: 2 of 6 partitions moved." in page and "2 kept, 1 given up" in page


def test_an_open_rebalance_counts_its_own_time_and_not_that_of_the_last_one(
    viewer: Client, parcels: ConsumerGroup
) -> None:
    page = text(viewer, "/groups/parcels/")
    took = re.search(r"PreparingRebalance (\S+) CompletingRebalance (\S+) Stable", page)
    assert took is not None
    ConsumerGroup.objects.update(phase="PreparingRebalance", phase_entered_at=cast.ago(seconds=70))
    page = text(viewer, "/groups/parcels/")
    assert "last rebalance: 3.40s" in page and re.search(
        r"PreparingRebalance 1m 1\ds CompletingRebalance Stable", page
    )
    ConsumerGroup.objects.update(phase="CompletingRebalance")
    page = text(viewer, "/groups/parcels/")
    assert re.search(rf"PreparingRebalance {took[1]} CompletingRebalance 1m 1\ds Stable", page)


def note(phase: str, *missing: str, arrived: int, seconds_ago: float = 0) -> None:
    GroupWaiting.objects.update_or_create(
        group_id="parcels",
        defaults={
            "phase": phase,
            "waits_for": missing,
            "missing": len(missing),
            "arrived": arrived,
            "ends_at": timezone.now(),
            "told_at": cast.ago(seconds=seconds_ago),
        },
    )


def test_an_open_rebalance_says_for_whom_it_waits(viewer: Client, parcels: ConsumerGroup) -> None:
    ConsumerGroup.objects.update(phase="PreparingRebalance", phase_entered_at=cast.ago(seconds=9))
    note("PreparingRebalance", BEN, CLEO, arrived=1, seconds_ago=2)
    page = text(viewer, "/groups/parcels/")
    assert "Waits for parcels-b, cleo-5b1f03c2" in page
    assert "to join again; 1 has. It goes on without them at" in page
    note("PreparingRebalance", arrived=3)
    assert "All 3 members have joined; it waits for more that may come" in text(viewer, "/groups/parcels/")
    ConsumerGroup.objects.update(phase="CompletingRebalance")
    assert "Waits for" not in text(viewer, "/groups/parcels/"), "it speaks of the phase before"
    note("CompletingRebalance", ANN, arrived=2)
    page = text(viewer, "/groups/parcels/")
    assert "to ask for its share; 2 have. The leader is among them" in page


def test_what_was_noted_of_a_rebalance_before_is_not_told(viewer: Client, parcels: ConsumerGroup) -> None:
    note("PreparingRebalance", BEN, arrived=2, seconds_ago=60)
    ConsumerGroup.objects.update(phase="PreparingRebalance", phase_entered_at=cast.ago(seconds=1))
    assert "Waits for" not in text(viewer, "/groups/parcels/")


def test_a_group_of_which_only_offsets_are_known_says_so(viewer: Client) -> None:
    topic = cast.add_topic("orders", 2, [(1,)], high_watermark=50)
    cast.commit(classic_cast.add_group("nightly", protocol_type=""), topic, 0, 20)
    page = text(viewer, "/groups/nightly/")
    assert "no members, offsets only" in page
    assert "Strategy" not in page and "30" in page
    assert "offsets only" in text(viewer, "/groups/")


def test_what_other_members_are_given_stays_theirs(viewer: Client) -> None:
    group = classic_cast.add_group(
        "workers", protocol_type="connect", phase="Stable", protocol_name="sessioned"
    )
    classic_cast.add_member(group, "worker-1", said=b"\xff\x00\xff", strategies=("sessioned",))
    page = text(viewer, "/groups/workers/")
    assert "What members of the type connect are given is known to themselves alone." in page
    assert "worker-1 N/A N/A" in page, "neither partitions nor lag"
    assert "Lag is counted from" not in page
    assert "Members of the type connect read no topic under this name, so there is no lag." in page
    assert "A sink connector commits as a group of its own, connect-NAME" in page
    assert "classic connect" in text(viewer, "/groups/")


def test_nobody_is_offered_to_change_offsets_where_none_are_committed(operator: Client) -> None:
    """Whoever shares something else than partitions reads no topic."""
    group = classic_cast.add_group(
        "workers", protocol_type="connect", phase="Stable", protocol_name="sessioned"
    )
    classic_cast.add_member(group, "worker-1", said=b"\xff\x00\xff", strategies=("sessioned",))
    page = text(operator, "/groups/workers/")
    assert "Rebalance now" in page and "What it has goes to the others." in page
    assert "Reset offsets" not in page and "Delete offsets" not in page
    cast.commit(group, cast.add_topic("orders", 2, [(1,)], high_watermark=50), 0, 20)
    page = text(operator, "/groups/workers/")
    assert "Reset offsets" in page and "Delete offsets" in page


@pytest.mark.parametrize(
    "bytes_of_a_member", [b"", b"\x00", b"\x7f\xff\xff\xff\xff", b"\x00\x00\x7f\xff\xff\xff"]
)
def test_bytes_that_nobody_can_read_break_no_page(viewer: Client, bytes_of_a_member: bytes) -> None:
    group = classic_cast.add_group("odd", phase="Stable")
    classic_cast.add_member(group, ANN, said=bytes_of_a_member)
    assert "N/A" in text(viewer, "/groups/odd/")


def test_a_topic_that_is_gone_and_a_partition_given_twice_are_shown_as_they_are(viewer: Client) -> None:
    topic = cast.add_topic("orders", 2, [(1,)], high_watermark=10)
    group = classic_cast.add_group("odd", phase="Stable", generation=1)
    classic_cast.add_member(group, ANN, ["orders", "gone"], {"orders": [0, 1], "gone": [7]})
    classic_cast.add_member(group, BEN, ["orders"], {"orders": [1]})
    cast.commit(group, topic, 0, 4)
    page = text(viewer, "/groups/odd/")
    assert page.count("orders-1") >= 2 and "gone-7" not in page


def test_lists_are_narrowed_by_protocol(viewer: Client, parcels: ConsumerGroup) -> None:
    cast.add_group("departures")

    def listed(query: str) -> list[str]:
        return re.findall(r'data-key="([^"]+)"', viewer.get(f"/groups/{query}").content.decode())

    assert listed("?protocol=classic") == ["parcels"]
    assert listed("?protocol=native") == ["departures"]
    assert listed("?protocol=") == listed("") == ["parcels", "departures"]
    assert listed("?q=ORD") == listed("?topic=orders") == ["parcels"]
    assert viewer.get("/groups/?protocol=other").status_code == 400
    row = text(viewer, "/groups/?protocol=classic")
    assert re.search(r"parcels 15 3 6 orders classic", row)


def test_a_member_that_stands_still_is_found(viewer: Client, parcels: ConsumerGroup) -> None:
    CommittedOffset.objects.filter(partition=4).update(moved_at=cast.ago(minutes=3))
    PartitionProgress.objects.update(
        recent_high_watermark=900, recent_at=cast.ago(minutes=2), earlier_at=cast.ago(minutes=3)
    )
    assert "orders-4 stalled" in text(viewer, "/groups/")
    ClassicMember.objects.filter(member_id=CLEO).update(observed={})
    CommittedOffset.objects.update(version=9_000)
    assert "stalled" not in text(viewer, "/groups/")


def test_many_members_cost_no_more_statements(viewer: Client, parcels: ConsumerGroup) -> None:
    def statements() -> int:
        standing.forget()
        with CaptureQueriesContext(connection) as asked:
            text(viewer, "/groups/parcels/")
        return len(asked)

    statements()  # the first one of a session notes its use
    few = statements()
    for number in range(60):
        classic_cast.add_member(parcels, f"m-{number}", ["orders"], {"orders": [number % 6]})
    assert statements() == few


def test_of_partitions_that_the_group_has_no_more_it_is_not_said_how_many_there_were(
    viewer: Client, parcels: ConsumerGroup
) -> None:
    """`2 of 0` moved, where all members had left and nothing was committed."""
    parcels.classic_members.all().delete()
    CommittedOffset.objects.all().delete()
    assert re.findall(r"\d of 0\b", text(viewer, "/groups/parcels/")) == []


def test_long_names_of_what_a_member_subscribes_to_are_shown_short_and_not_as_markup(
    viewer: Client, parcels: ConsumerGroup
) -> None:
    topics = [f"app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-{kind}" for kind in ("changelog", "repartition")]
    classic_cast.add_member(parcels, "streams-1", [*topics, "a<b"], {})
    page = viewer.get("/groups/parcels/").content.decode()
    assert "&lt;span" not in page and "a&lt;b" in page
    assert all(f'title="{topic}"' in page for topic in topics)


def test_what_strangers_call_protocol_and_strategy_turns_no_words_around(viewer: Client) -> None:
    odd = "range\u202egnp\u2067"
    group = classic_cast.add_group("odd", phase="Stable", protocol_name=odd, protocol_type=odd)
    classic_cast.add_member(group, "ann-1", strategies=(odd,))
    for address in ("/groups/", "/groups/odd/"):
        page = viewer.get(address).content.decode()
        assert "range\ufffdgnp\ufffd" in page
        assert "\u202e" not in re.sub(r'="[^"]*"', "", page)
