"""This room tests what pages say: empty, healthy, in trouble, no match, gone, past the end."""

import re
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import strip_tags

from access.models import Principal
from controller import queries
from controller.models import Partition
from controller.standing import ClusterStanding
from groups import group_page
from groups.core.phases import Phase
from groups.core.records import PhaseEntered
from groups.models import CommittedOffset, ConsumerGroup, GroupMember, PartitionOwnership
from runtime.models import JournalEntry, NodeSession
from tests.integration.web import cast

pytestmark = pytest.mark.django_db


def text(client: Client, address: str, status: int = 200) -> str:
    """What a person reads at an address."""
    answer = client.get(address)
    assert answer.status_code == status, (address, answer.status_code)
    # A name is one word, although it may be cut off where there is no room, and is not parted at its hyphens.
    page = re.sub(r'<span class="nowrap">(?=-)([^<]*)</span>', r"\1", answer.content.decode())
    spaced = unescape(strip_tags(page.replace("<", " <")))
    words = re.sub(r"[\s\u202f]+", " ", spaced)
    return re.sub(r" ([.,:;])", r"\1", words)


def test_every_page_wants_a_session(client: Client) -> None:
    for address in ("/", "/groups/", "/groups/departures/", "/cluster/", "/admin/"):
        assert client.get(address).headers["Location"].split("?")[0] in ("/login/", "/admin/login/")


def test_a_consumer_has_no_pages(viewer: Client) -> None:
    Principal.objects.update(role="consumer")
    assert "You may not see this" in text(viewer, "/", 403)


def test_an_empty_cluster_says_how_the_first_ones_come(viewer: Client) -> None:
    assert "Nothing needs attention" in text(viewer, "/")
    assert "A group appears when its first consumer connects" in text(viewer, "/groups/")
    assert "manage.py enroll_broker 1" in text(viewer, "/cluster/")


def test_a_healthy_cluster_is_quiet(viewer: Client) -> None:
    cast.add_cluster()
    for broker in (1, 2, 3):
        cast.add_broker(broker)
    cast.departures(cast.add_topic("flights", 6, [(1, 2, 3)]))
    page = viewer.get("/").content.decode()
    assert "Nothing needs attention" in page
    assert 'class="bad"' not in page and 'class="warn"' not in page
    assert "Every partition is in full sync" in text(viewer, "/cluster/")


def test_a_night_is_told_most_urgent_first_with_cause_and_way_out(viewer: Client) -> None:
    cast.one_night(groups=3)
    page = text(viewer, "/")
    assert "4 need attention" in page
    places = [
        page.index(words)
        for words in (
            "gate-events-3 is offline",
            "Broker 3 is fenced 7 replicas",
            "2 partitions have one copy left",
            "departures: flights-5 is stalled",
        )
    ]
    assert places == sorted(places)
    assert "gate-display waits" in page
    assert "Bring broker 3 back: nothing is lost." in page
    assert "1 offline" in page and "1 fenced" in page and "2 of 5" in page


def test_the_cluster_page_shows_leaders_and_isr_by_broker(viewer: Client) -> None:
    cast.one_night(groups=1)
    page = text(viewer, "/cluster/")
    assert "1 partition offline, 7 under-replicated" in page
    assert "gate-events-3 out of sync 0 of 1" in page
    assert "offline, last ISR 3" in page
    assert "orders" not in text(viewer, "/cluster/?show=attention").split("Partitions by broker")[1]
    assert "orders 12 partitions" in text(viewer, "/cluster/?show=all")
    assert "No partition matches" in text(viewer, "/cluster/?q=nothing&show=all")


def test_members_with_a_dead_session_do_not_count_as_in_sync(viewer: Client) -> None:
    cast.add_broker(1)
    cast.add_broker(2, fenced=True)
    cast.add_topic("orders", 1, [(1, 2)], configs={"min.insync.replicas": "2"})
    # The row keeps the last two members of the ISR although broker 2 is dead: pages do not count it.
    assert Partition.objects.get().isr == [1, 2]
    page = text(viewer, "/cluster/")
    assert "orders-0 leader out of sync 1 of 2" in page
    assert "1 under min ISR" in page


def test_the_group_page_tells_phase_owners_lag_and_what_moved(viewer: Client) -> None:
    cast.one_night(groups=1)
    page = text(viewer, "/groups/departures/")
    for words in (
        "Stable generation 43",
        "Generation 43: 2 of 6 partitions moved",
        "from ann",
        "to cleo",
        "flights-5 cleo 8 407 233 8 434 691",
        "32 004",
        "3 members",
        "node-1, shard",
        "epoch 17",
        "member joined cleo",
        "1.24s",
        "2 of 6",
        "member expired dora",
        "2.31s",
    ):
        assert words in page, words


def test_unknown_is_not_zero(viewer: Client) -> None:
    topic = cast.add_topic("orders", 2, [(1,)], high_watermark=100)
    group = cast.add_group("billing")
    cast.add_member(group, "ann")
    cast.own(group, topic, "ann", (0, 1))
    cast.commit(group, topic, 0, 60)
    page = text(viewer, "/groups/billing/")
    assert "orders-1 ann never 100 N/A" in page
    assert "Sum ≥ 40" in page
    assert "≥ 40" in text(viewer, "/groups/")


def test_a_rebalance_that_is_open_says_so_and_keeps_the_old_picture(viewer: Client) -> None:
    topic = cast.add_topic("orders", 2, [(1,)])
    group = cast.add_group("billing", phase="PreparingRebalance", generation=7)
    cast.add_member(group, "ann")
    cast.own(group, topic, "ann", (0, 1))
    records = [cast.came("ben"), PhaseEntered(Phase.PREPARING_REBALANCE)]
    cast.journal(f"coordinator/{group.shard}", "billing", cast.ago(seconds=1), "joined", records)
    page = text(viewer, "/groups/billing/")
    assert "Generation 8 is being prepared" in page
    assert "Member joined: ben" in page
    assert "The picture shows generation 7 until then" in page


def test_a_stuck_rebalance_and_an_error_are_findings(viewer: Client) -> None:
    stuck = cast.add_group("billing", phase="CompletingRebalance", changed_at=cast.ago(minutes=5))
    cast.add_member(stuck, "ann")
    fresh = cast.add_group("clicks", phase="CompletingRebalance")
    cast.add_member(fresh, "ann")
    cast.add_group("orders", error="ben did not start orders-1")
    page = text(viewer, "/")
    assert "billing is stuck" in page and "orders has an error" in page
    assert "clicks is stuck" not in page
    assert "ben did not start orders-1" in text(viewer, "/groups/orders/")


def test_lanes_without_an_owner_are_the_first_finding(viewer: Client) -> None:
    cast.one_night(groups=1)
    assert "no owner" not in text(viewer, "/")
    NodeSession.objects.update(ended=True)
    page = text(viewer, "/")
    assert "5 need attention" in page
    assert page.index("65 lanes have no owner") < page.index("gate-events-3 is offline")
    assert "none now: shard" in text(viewer, "/groups/departures/")


def test_an_abandoned_group_is_said_in_words_without_colour(viewer: Client) -> None:
    topic = cast.add_topic("orders", 1, [(1,)], high_watermark=5_000)
    group = cast.add_group("invoices", phase="Empty")
    cast.commit(group, topic, 0, 10, cast.ago(days=1))
    page = viewer.get("/groups/").content.decode()
    assert "nobody reads" in page
    assert '<tr data-key="invoices">' in page
    assert "Nobody reads; 4 990 records wait." in text(viewer, "/groups/invoices/")


def test_filters_say_what_they_hide(viewer: Client) -> None:
    cast.one_night(groups=3)
    assert "No group matches “depatures”" in text(viewer, "/groups/?q=depatures")
    assert "5 groups are hidden by this filter" in text(viewer, "/groups/?q=depatures")
    for address, rows in (
        ("?attention=yes", 2),
        ("?phase=Stable&q=service", 3),
        ("?lag_over=30000", 1),
        ("?topic=flights", 1),
        ("?sort=name", 5),
        ("", 5),
        ("?q=DEPART", 1),
        ("?phase=Stable&phase=Empty", 5),
        ("?phase=Empty", 0),
    ):
        assert viewer.get(f"/groups/{address}").content.count(b"data-key=") == rows, address


def test_what_does_not_fit_is_refused(viewer: Client) -> None:
    for address in (
        "/groups/?sort=x",
        "/groups/?phase=x",
        "/groups/?after=x",
        "/groups/?q=%00",
        "/cluster/?show=x",
        "/cluster/?q=%00",
    ):
        assert viewer.get(address).status_code == 400, address


def test_a_cursor_of_another_list_of_groups_is_refused(viewer: Client) -> None:
    topic = cast.add_topic("orders", 1, [(1,)], high_watermark=1_000)
    cast.many_groups(topic, 150)
    lists = ("", "?sort=name", "?q=service", "?q=SERVICE-", "?phase=Stable", "?topic=orders", "?lag_over=1")
    cursors = {}
    for query in lists:
        found = re.search(r'rel="next" href="([^"]+)"', viewer.get(f"/groups/{query}").content.decode())
        assert found, query
        cursors[query] = found[1].rpartition("after=")[2]
    for query in lists:
        for other, cursor in cursors.items():
            answer = viewer.get(f"/groups/{query or '?'}&after={cursor}")
            assert answer.status_code == (200 if query == other else 400), (query, other)


def test_pages_of_groups_follow_each_other_without_gap_or_double(viewer: Client) -> None:
    topic = cast.add_topic("orders", 1, [(1,)], high_watermark=1_000)
    cast.many_groups(topic, 250)
    for sort in ("lag", "name"):
        seen: list[str] = []
        address = f"/groups/?sort={sort}"
        while address:
            page = viewer.get(address).content.decode()
            seen += re.findall(r'data-key="([^"]+)"', page)
            found = re.search(r'rel="next" href="([^"]+)"', page)
            address = "/groups/" + unescape(found[1]) if found else ""
        assert len(seen) == len(set(seen)) == 250, sort
        if sort == "name":
            assert seen == sorted(seen)


def test_a_group_that_is_gone_is_404(viewer: Client) -> None:
    assert "There is nothing at this address" in text(viewer, "/groups/nobody/", 404)


def test_names_are_shown_as_text(viewer: Client) -> None:
    group = cast.add_group("<script>alert(1)</script>", error="<b>no</b>")
    cast.add_member(group, '"><img src=x>')
    for address in ("/", "/groups/", "/groups/%3Cscript%3Ealert(1)%3C%2Fscript%3E/"):
        page = viewer.get(address).content.decode()
        assert "<script>alert" not in page and "<img" not in page and "<b>no</b>" not in page


def test_many_partitions_are_drawn_as_strokes_and_listed_by_the_hundred(viewer: Client) -> None:
    topic = cast.add_topic("clicks", 250, [(1,)], high_watermark=10)
    group = cast.add_group("clicks-raw")
    cast.add_member(group, "ann")
    cast.own(group, topic, "ann", range(250))
    page = text(viewer, "/groups/clicks-raw/")
    assert "250 partitions Owns" in page
    assert "Partitions 1 to 100 of 250." in page
    assert "clicks-249" in text(viewer, "/groups/clicks-raw/?from=200")


def test_pages_forbid_whatever_is_inline_or_from_elsewhere(viewer: Client) -> None:
    cast.one_night(groups=1)
    for address in ("/", "/groups/", "/groups/departures/", "/cluster/", "/login/"):
        answer = viewer.get(address, follow=True)
        page = answer.content.decode()
        assert "unsafe" not in answer["Content-Security-Policy"]
        assert answer["X-Frame-Options"] == "DENY"
        assert " style=" not in page and "<style" not in page and " onclick" not in page
        assert not re.search(r"<script(?![^>]* src=\"/static/)", page)
        assert not re.search(r"(?:src|href)=\"(?:https?:)?//", page)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("groups/consumergroup", "departures"),
        ("groups/groupmember", "cleo"),
        ("groups/partitionownership", "Running"),
        ("groups/committedoffset", "flights"),
        ("controller/broker", "201"),
        ("controller/topic", "gate-events"),
        ("controller/partition", "flights"),
        ("controller/partitionprogress", "500"),
        ("runtime/lease", "coordinator/0"),
        ("runtime/nodesession", "run-1"),
        ("runtime/journalentry", "rebalance opened"),
        ("runtime/workitem", "0 work items"),
        ("runtime/cluster", "88412"),
    ],
)
def test_the_admin_shows_rows_and_changes_none(model: str, words: str, viewer: Client) -> None:
    cast.one_night(groups=2)
    page = text(viewer, f"/admin/{model}/")
    assert words in page
    assert viewer.get(f"/admin/{model}/?q=zz").status_code == 200
    assert viewer.get(f"/admin/{model}/add/").status_code == 403
    with connection.cursor() as cursor:
        app, name = model.split("/")
        from django.apps import apps

        table = apps.get_model(app, name)
        cursor.execute(f"SELECT count(*) FROM {table._meta.db_table}")
        before = cursor.fetchone()
        first = table._default_manager.order_by("pk").first()
        if first is not None:
            assert (
                viewer.get(f"/admin/{model}/{str(first.pk).replace('/', '_2F')}/change/").status_code == 200
            )
            assert (
                viewer.post(f"/admin/{model}/{str(first.pk).replace('/', '_2F')}/delete/").status_code == 403
            )
        cursor.execute(f"SELECT count(*) FROM {table._meta.db_table}")
        assert cursor.fetchone() == before


def test_the_admin_never_shows_a_secret_and_keeps_tokens_to_administrators(viewer: Client) -> None:
    cast.one_night(groups=1)
    member = GroupMember.objects.get(member_id="cleo")
    page = viewer.get(f"/admin/groups/groupmember/{member.pk}/change/").content.decode()
    assert "oken hash" not in page
    assert "ecret" not in viewer.get("/admin/controller/broker/1/change/").content.decode()
    assert viewer.get("/admin/access/apitoken/").status_code == 403
    Principal.objects.update(role="admin")
    assert viewer.get("/admin/access/apitoken/").status_code == 200


def test_a_partition_without_owner_is_named(viewer: Client) -> None:
    topic = cast.add_topic("flights", 6, [(1,)])
    cast.departures(topic)
    PartitionOwnership.objects.filter(partition=5).delete()
    assert "nobody 1 without owner" in text(viewer, "/groups/departures/")
    assert ConsumerGroup.objects.count() == 1


@pytest.fixture
def standing_that_outlives_slowness(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read is kept for ten minutes, not two seconds: so that changes alone end it."""
    for module in ("groups.standing", "controller.standing"):
        monkeypatch.setattr(f"{module}.KEPT_MS", 600_000)


@pytest.mark.usefixtures("standing_that_outlives_slowness")
def test_what_is_kept_of_the_standing_ends_with_any_change(viewer: Client) -> None:
    cast.one_night(groups=3)
    for address in ("/", "/groups/"):
        text(viewer, address)
        with CaptureQueriesContext(connection) as asked:
            text(viewer, address)
        assert not any(
            "GREATEST" in one["sql"] and "sum" in one["sql"] and "lags" in one["sql"] for one in asked
        )
    NodeSession.objects.update(ended=True)
    assert "65 lanes have no owner" in text(viewer, "/")
    cast.add_group("zz-new", error="broken")
    assert "zz-new has an error" in text(viewer, "/")
    CommittedOffset.objects.filter(group="departures", partition=0).update(offset=1, version=99_999)
    page = viewer.get("/groups/").content.decode()
    assert re.findall(r'data-key="([^"]+)"', page)[:3] == ["gate-display", "departures", "zz-new"]


@pytest.mark.usefixtures("standing_that_outlives_slowness")
def test_the_page_of_the_cluster_passes_over_its_partitions_only_when_one_changed(viewer: Client) -> None:
    cast.one_night(groups=1)

    def passes() -> list[str]:
        with CaptureQueriesContext(connection) as asked:
            text(viewer, "/cluster/")
        return [one["sql"] for one in asked if "GROUP BY replica" in one["sql"] or "lost_at[" in one["sql"]]

    at_first, again = passes(), passes()
    Partition.objects.filter(partition=1).update(version=99_000)
    assert len(again) < len(at_first)
    assert passes() == at_first


def test_partitions_that_lie_alike_are_counted_one_by_one(viewer: Client) -> None:
    for broker in (1, 2, 3):
        cast.add_broker(broker, fenced=broker == 3)
    cast.add_topic("clicks", 30, [(1, 2), (2, 3), (1, 3)])
    cast.add_topic("orders", 10, [(3,)])
    live = [1, 2]
    assert queries.health(live) == queries.Health(40, 70, 0, 30, 10, 20, queries.health(live).since)
    held = [(row.replicas, row.leaders, row.out_of_sync) for row in queries.brokers()]
    assert held == [(20, 20, 0), (20, 10, 0), (30, 10, 30)]
    first, second = queries.topics(live, contains="", show="all", after="", limit=9)
    assert (first.name, first.partition_count, first.in_full_sync, first.one_copy) == ("clicks", 30, 10, 20)
    assert [first.held_by(broker) for broker in (1, 2, 3)] == [(20, 20), (10, 20), (0, 20)]
    assert (second.name, second.held_by(3), second.held_by(1)) == ("orders", (10, 10), (0, 0))
    (only,) = queries.topics(live, contains="", show="one-copy", after="", limit=9)
    assert (only.name, only.partition_count, only.matching) == ("clicks", 30, 20)


def test_a_group_of_many_members_and_partitions_is_drawn_in_reasonable_space(viewer: Client) -> None:
    """Members times partitions would be a quarter of a million cells here, and ten million at the limits."""
    topic = cast.add_topic("clicks", 1_000, [(1,)], high_watermark=10)
    group = cast.add_group("clicks-raw", generation=2)
    for number in range(250):
        cast.add_member(group, f"m-{number:03d}")
        cast.own(group, topic, f"m-{number:03d}", range(number * 4, number * 4 + 4))
    page = text(viewer, "/groups/clicks-raw/")
    assert "The first 100 of 250 members are drawn." in page
    shown = group_page.read(group, ClusterStanding("", "", 0, [], None, None, [], []), 0)  # type: ignore[arg-type]
    assert [(strip.owner, strip.kept) for strip in shown.strips[:2]] == [
        ("m-000", [0, 1, 2, 3]),
        ("m-001", [4, 5, 6, 7]),
    ]
    assert "lanes" not in shown.__dict__


def test_an_offset_past_the_last_partition_is_the_first_page(viewer: Client) -> None:
    cast.departures(cast.add_topic("flights", 6, [(1,)]))
    assert "flights-0" in text(viewer, "/groups/departures/?from=999999999999999")


def test_a_refusal_says_what_to_do(viewer: Client) -> None:
    assert "Begin at /groups/" in text(viewer, "/groups/?sort=x", 400)
    assert "Begin at /cluster/" in text(viewer, "/cluster/?show=x", 400)


def test_only_the_topic_asked_for_is_shown_long(viewer: Client) -> None:
    for number in range(4):
        cast.add_topic(f"topic-{number}", 60, [(1, 2)])
    cast.add_broker(1)
    cast.add_broker(2, fenced=True)
    page = viewer.get("/cluster/?show=attention&open=topic-0").content.decode()
    assert page.count('class="rep leader"') == 60 + 3 * 20 + 1
    assert page.count("Partitions 1 to 20 of 60.") == 3
    assert viewer.get("/cluster/?show=all&open=topic-0").content.decode().count('class="rep leader"') == 61


def test_the_group_page_says_how_it_assigns(viewer: Client) -> None:
    cast.add_group("billing", rebalance_mode="eager", assignor="range")
    page = text(viewer, "/groups/billing/")
    assert "Assignor range" in page
    assert "Rebalance mode eager: every member stops at each rebalance" in page


def test_the_journal_in_the_admin_is_found_by_its_index(viewer: Client) -> None:
    cast.one_night(groups=1)
    turn = JournalEntry.objects.filter(cause="rebalance opened")[0].turn_id
    for question in ("departures", str(turn)):
        with CaptureQueriesContext(connection) as asked:
            assert "rebalance opened" in text(viewer, f"/admin/runtime/journalentry/?q={question}")
        journal = [one["sql"] for one in asked if 'FROM "journal"' in one["sql"]]
        assert journal and not any("UPPER" in sql or "DISTINCT" in sql for sql in journal)
        assert not any('"records"' in sql for sql in journal)
    assert viewer.get("/admin/runtime/journalentry/?lane=controller").status_code == 200


def test_a_zero_byte_in_an_address_of_the_admin_is_refused(viewer: Client) -> None:
    viewer.raise_request_exception = False
    assert viewer.get("/admin/groups/consumergroup/?error=%00").status_code == 400


def test_more_groups_in_trouble_than_a_page_holds_are_all_found(viewer: Client) -> None:
    topic = cast.add_topic("orders", 1, [(1,)], high_watermark=1_000)
    cast.many_groups(topic, 20)
    for number in range(120):
        cast.add_group(f"broken-{number:03d}", error="does not settle")
    for query, expected in (("", 140), ("?attention=yes", 120), ("?sort=name", 140), ("?q=broken", 120)):
        seen: list[str] = []
        address = f"/groups/{query}"
        while address:
            page = viewer.get(address).content.decode()
            seen += re.findall(r'data-key="([^"]+)"', page)
            assert f"{expected} match." in page
            found = re.search(r'rel="next" href="([^"]+)"', page)
            address = "/groups/" + unescape(found[1]) if found else ""
        assert len(seen) == len(set(seen)) == expected, query


def test_the_number_of_matches_counts_the_lag_too(viewer: Client) -> None:
    cast.one_night(groups=5)
    assert "1 row. 1 matches." in text(viewer, "/groups/?lag_over=30000")


def test_a_rebalance_that_many_turns_followed_is_not_said_never_to_have_been(viewer: Client) -> None:
    cast.add_cluster()
    cast.departures(cast.add_topic("flights", 6, [(1, 2, 3)]))
    assert "member joined" in text(viewer, "/")
    for number in range(200):
        cast.journal("coordinator/1", f"batch-{number}", timezone.now(), "offsets were committed", [])
    page = text(viewer, "/")
    assert "No rebalance of late" in page and "the journal keeps earlier ones" in page
    assert "No rebalance yet" not in page
