"""This room tests findings: none begins before its cause, none is hidden, and no verdict says otherwise."""

import re
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from access.grants import Role
from access.service import create_user
from controller import findings, leases, move_queries, queries
from controller.fingerprints import of_cluster
from controller.models import Broker, Partition
from groups import standing
from groups.models import ConsumerGroup
from runtime.models import Lease, NodeSession, Refusal, WorkItem
from tests.integration.web import cast
from tests.integration.web.test_pages_say_what_is import text
from web.findings_api import _words

pytestmark = pytest.mark.django_db


def found() -> dict[str, findings.Finding]:
    """The findings of the cluster by kind."""
    rows = queries.brokers()
    health = queries.health(queries.live_ids(row.broker for row in rows))
    told = findings.find(rows, health, leases.orphans(), leases.work())
    return {one.kind: one for one in told + findings.of_making_way(leases.made_way())}


def test_partitions_are_under_min_isr_since_the_broker_was_lost_not_since_their_row_changed() -> None:
    """The row keeps the last two members of the ISR although one is dead: it was not changed by the loss."""
    lost = cast.ago(minutes=3)
    cast.add_broker(1)
    cast.add_broker(2, fenced=True, since=lost)
    cast.add_topic("orders", 3, [(1, 2)], configs={"min.insync.replicas": "2"}, since=cast.ago(minutes=9))
    told = found()
    for kind in ("partitions_under_min_isr", "partitions_one_copy"):
        assert told[kind].since == lost
        assert [row.broker.broker_id for row in told[kind].facts["because"]] == [2]
    assert queries.health([1]).since == lost


def test_of_several_losses_the_one_that_made_it_trouble_counts() -> None:
    first, second = cast.ago(minutes=5), cast.ago(minutes=3)
    for broker_id, since in ((1, None), (2, first), (3, second)):
        cast.add_broker(broker_id, fenced=since is not None, since=since)
    cast.add_topic("orders", 1, [(1, 2, 3)], configs={"min.insync.replicas": "2"}, since=cast.ago(days=1))
    told = found()
    assert told["partitions_under_min_isr"].since == told["partitions_one_copy"].since == second
    assert queries.health([1]).since == first


def test_a_broker_that_was_lost_later_is_no_cause() -> None:
    """Both followers fell behind nine minutes ago; that one of them is dead now came after."""
    began = cast.ago(minutes=9)
    cast.add_broker(1)
    cast.add_broker(2, fenced=True, since=cast.ago(minutes=3))
    cast.add_topic("orders", 1, [(1, 2)], out=[2], configs={"min.insync.replicas": "2"}, since=began)
    finding = found()["partitions_under_min_isr"]
    assert (finding.since, finding.facts["because"]) == (began, [])


def test_a_broker_that_was_stopped_in_order_is_the_cause() -> None:
    """It leaves the in-sync replicas first, and is fenced when its process has ended."""
    cast.add_broker(1)
    cast.add_broker(2, fenced=True, since=cast.ago(minutes=3))
    cast.add_topic("orders", 1, [(1, 2)], out=[2], since=cast.ago(minutes=3, seconds=10))
    assert "Broker 2 is fenced." in words("partitions_one_copy")


def test_lanes_that_the_last_node_gave_back_have_no_owner_since_it_was_heard() -> None:
    cast.add_cluster()
    heard = cast.ago(minutes=4)
    NodeSession.objects.update(ended=True, renewed_at=heard)
    Lease.objects.update(run=None)
    assert found()["lanes_without_owner"].since == heard
    assert "They were last held by node-1." in words("lanes_without_owner")
    NodeSession.objects.create(run="run-2", node="node-2", pid=2, backend_start=heard)
    assert found()["lanes_without_owner"].since is None, "node-2 is there: nobody knows"
    assert "last held" not in words("lanes_without_owner")


def test_lanes_have_no_owner_since_their_last_owner_was_heard(client: Client) -> None:
    cast.add_cluster()
    heard = cast.ago(minutes=4)
    NodeSession.objects.update(ended=True, renewed_at=heard)
    assert found()["lanes_without_owner"].since == heard
    # A node that was killed alone is ended by nobody.
    NodeSession.objects.update(ended=False)
    assert found()["lanes_without_owner"].facts["number"] == 65
    assert "They were last held by node-1." in words("lanes_without_owner")
    NodeSession.objects.update(renewed_at=timezone.now())
    assert found() == {}


def test_a_node_that_made_way_is_named_with_whom_brokers_reached(viewer: Client) -> None:
    cast.add_cluster()
    since = cast.ago(minutes=4)
    told = {"made_way_for": "run-2", "made_way_at": since}
    NodeSession.objects.update(**told)
    assert "the last time" not in words("node_apart") and "node-1" in words("node_apart")
    NodeSession.objects.create(run="run-2", node="node-2", pid=2, backend_start=since)
    finding = found()["node_apart"]
    assert (finding.facts["names"], finding.since) == (["node-1"], since)
    assert "the last time to node-2" in words("node_apart")
    assert "the last time to node-2" in text(viewer, "/")
    NodeSession.objects.filter(run="run-1").update(made_way_at=cast.ago(hours=13))
    assert found() == {}
    NodeSession.objects.filter(run="run-1").update(**told, ended=True)
    assert "node_apart" not in found(), "it was started anew, or is gone"


def moments(page: str) -> list[datetime]:
    """Every time that a page names, in its order."""
    return [datetime.fromisoformat(found) for found in re.findall(r'<time datetime="([^"]+)"', page)]


def test_a_group_in_a_rebalance_says_since_when_that_is_so(viewer: Client) -> None:
    group = cast.departures(cast.add_topic("flights", 6, [(1,)]))
    opened = cast.ago(seconds=41)
    ConsumerGroup.objects.update(phase="PreparingRebalance", phase_entered_at=opened)
    page = viewer.get("/groups/departures/").content.decode()
    assert moments(page.partition("big-state")[2])[0] == opened.replace(microsecond=0)
    ConsumerGroup.objects.filter(pk=group.pk).update(phase="CompletingRebalance", changed_at=timezone.now())
    assert "departures is stuck" in text(viewer, "/")


def test_no_verdict_says_that_all_is_well_above_a_finding(viewer: Client) -> None:
    cast.add_cluster()
    for broker in (1, 2, 3):
        cast.add_broker(broker)
    cast.departures(cast.add_topic("flights", 6, [(1, 2, 3)]))
    NodeSession.objects.update(ended=True)
    cluster = text(viewer, "/cluster/")
    assert "65 lanes have no owner" in cluster and "Every partition is in full sync" not in cluster
    assert "1 needs attention" in cluster.split("What is wrong")[0]
    assert "65 lanes have no owner" in text(viewer, "/groups/departures/")
    groups = text(viewer, "/groups/")
    assert "Nothing needs attention" not in groups and "No group by itself, but 1 needs attention" in groups


def test_a_group_shows_everything_that_is_wrong_with_it(viewer: Client) -> None:
    cast.one_night(groups=0)
    NodeSession.objects.update(ended=True)
    ConsumerGroup.objects.filter(name="departures").update(error="ben did not start")
    page = text(viewer, "/groups/departures/")
    for words in ("65 lanes have no owner", "flights-5 is stalled", "The group has an error"):
        assert words in page, words


def add_work(claimed_by: str, state: str = "adopted", taken_after_s: float = 1, **offered: float) -> None:
    """A rebalance that was offered that long ago, and taken so much later."""
    at = cast.ago(**offered)
    WorkItem.objects.create(
        kind="rebalance",
        lane="coordinator/1",
        key="billing",
        state=state,
        claimed_by=claimed_by,
        offered_at=at,
        claimed_at=at + timedelta(seconds=taken_after_s) if claimed_by else None,
    )


def nodes_began(**ago: float) -> None:
    cast.add_cluster()
    NodeSession.objects.update(started_at=cast.ago(**ago))


def test_work_that_only_nodes_do_says_that_no_worker_takes_any(viewer: Client) -> None:
    nodes_began(hours=1)
    add_work("worker host 71", minutes=9)
    add_work("spare of node-1", minutes=5)
    assert found() == {}
    add_work("spare of node-1", minutes=4)
    finding = found()["workers_away"]
    assert finding.since is not None and abs((finding.since - cast.ago(minutes=5)).total_seconds()) < 30
    assert "No worker takes work The nodes did the last 2 work items themselves" in text(viewer, "/")
    add_work("worker host 71", minutes=1)
    assert found() == {}


def test_that_no_worker_takes_work_is_so_since_a_node_took_it_in_its_place() -> None:
    """The first waited for half a minute until a node took it; a worker was at work on another meanwhile."""
    nodes_began(hours=1)
    add_work("spare of node-1", minutes=5, taken_after_s=30)
    add_work("worker host 71", minutes=5, taken_after_s=10)
    assert found() == {}
    add_work("spare of node-1", minutes=3)
    since = found()["workers_away"].since
    assert since is not None and abs((since - cast.ago(minutes=4, seconds=30)).total_seconds()) < 15


def test_what_nodes_did_before_the_nodes_of_today_began_says_nothing_of_the_workers_of_today() -> None:
    """As after a night without the stack, or in a database that was restored from a backup."""
    nodes_began(minutes=20)
    for days in (2, 1):
        add_work("spare of node-1", days=days)
    assert found() == {}
    for minutes in (10, 5):
        add_work("spare of node-1", minutes=minutes)
    finding = found()["workers_away"]
    assert finding.facts["number"] == 2
    assert finding.since is not None and finding.since > cast.ago(minutes=15)


def test_what_was_done_while_the_databases_clock_was_ahead_says_nothing_of_the_workers_of_today() -> None:
    nodes_began(days=-3)
    for hours in (1, 2):
        add_work("spare of node-1", days=-3, hours=hours)
    assert found() == {}
    add_work("worker host 71", days=-3)
    for minutes in (10, 5):
        add_work("spare of node-1", minutes=minutes)
    assert found()["workers_away"].facts["number"] == 2


def refuse(
    lane: str, key: str, events: str, number: int = 1, error: str = "UniqueViolation", **last: float
) -> None:
    """What some turns of node-1 refused, the first of them ten minutes before the last."""
    at = cast.ago(**last)
    Refusal.objects.create(
        node="node-1",
        lane=lane,
        key=key,
        events=events,
        error=error,
        text="duplicate key <b>",
        number=number,
        first_at=at - timedelta(minutes=10),
        last_at=at,
    )


def test_what_turns_refused_is_told_where_for_whom_and_what_to_do(viewer: Client) -> None:
    nodes_began(hours=20)
    cast.departures(cast.add_topic("flights", 6, [(1, 2, 3)]))
    for broker in (1, 2, 3):
        cast.add_broker(broker)
    assert findings.of_refusals(leases.refusals()) == []
    refuse("coordinator/9", "long ago", "Joined", hours=13)
    assert findings.of_refusals(leases.refusals()) == []
    refuse("controller", "cluster", "", hours=2)
    refuse("coordinator/12", "departures", "Joined", number=3, minutes=4)
    [finding] = findings.of_refusals(leases.refusals())
    assert finding.groups == ("departures",) and finding.since == min(
        row.first_at for row in finding.facts["rows"]
    )
    told = {part: _words(finding, part) for part in ("what", "means", "because", "may")}
    assert told["what"] == "4 requests were refused by a mistake of ours"
    assert (
        "Group departures (coordinator/12): Joined, 3 ×; Controller: what it goes on with by itself, 1 ×."
        in (told["means"])
    )
    assert told["because"].startswith("UniqueViolation: duplicate key <b>. The last at ")
    assert "turn failed in the log of node-1" in told["may"] and "Pause the plan" in told["may"]
    overview = text(viewer, "/")
    assert told["what"] in overview and "departures refused" in overview
    assert told["what"] in text(viewer, "/groups/departures/")


def test_what_the_database_did_not_take_is_called_no_mistake_of_ours() -> None:
    refuse("controller", "cluster", "BrokerGone", error="GaveUp", minutes=2)
    refuse("coordinator/12", "departures", "", error="DiskFull", minutes=4)
    [finding] = findings.of_refusals(leases.refusals())
    told = {part: _words(finding, part) for part in ("what", "may")}
    assert told["what"] == "2 requests were refused: the database did not take them"
    assert "pg_stat_activity" in told["may"] and "traceback" not in told["may"]
    # A turn of ours that is too long for a transaction is ended by the database, too.
    assert "what it writes takes too long: report turn failed in the log of node-1" in told["may"]
    refuse("coordinator/12", "departures", "Joined", minutes=6)
    [finding] = findings.of_refusals(leases.refusals())
    assert _words(finding, "what") == "3 requests were refused by a mistake of ours"
    assert "GaveUp (somebody kept its tables locked)" in _words(finding, "may")


def test_that_a_shard_could_not_be_taken_over_names_no_group() -> None:
    refuse("coordinator/12", "", "", number=3, minutes=4)
    [finding] = findings.of_refusals(leases.refusals())
    assert finding.groups == ()
    told = _words(finding, "means")
    assert "All groups of coordinator/12: their rows could not be taken over, 3 ×." in told


def test_a_page_follows_what_is_refused() -> None:
    cast.add_cluster()
    before = of_cluster()
    refuse("controller", "cluster", "Asked", minutes=1)
    once = of_cluster()
    Refusal.objects.update(number=2)
    assert len({before, once, of_cluster()}) == 3


def words(kind: str) -> str:
    """All that a finding says, without its links."""
    return " ".join(_words(found()[kind], part) for part in ("what", "means", "because", "may"))


def test_where_all_brokers_are_gone_nobody_is_told_that_it_is_not_so_bad(viewer: Client) -> None:
    for broker in (1, 2):
        cast.add_broker(broker, fenced=True, since=cast.ago(minutes=3))
    cast.add_topic("orders", 2, [(1, 2)])
    Partition.objects.update(leader=-1, isr=[2])
    told = words("broker_fenced")
    assert "No broker is live. 2 partitions are under-replicated; 2 offline." in told
    assert "Where all run, none of them reaches the node of the controller" in told
    assert "min ISR" not in told and "min ISR" not in text(viewer, "/cluster/").split("Partitions by")[0]
    assert "elect any live replica" not in words("partitions_offline"), "there is none"


def test_the_only_broker_of_a_cluster_has_nobody_in_its_place() -> None:
    cast.add_broker(1, fenced=True, since=cast.ago(minutes=3))
    assert "Broker 1 is fenced It holds no replica. No broker is live. The controller" in words(
        "broker_fenced"
    )
    cast.add_topic("orders", 1, [(1,)])
    Partition.objects.update(leader=-1, changed_at=cast.ago(minutes=3))
    assert "1 replica, none in sync. No broker is live. 1 partition is under-replicated; 1 offline." in words(
        "broker_fenced"
    )
    told = words("partitions_offline")
    assert "Bring broker 1 back" in told and "elect any live replica" not in told


def test_partitions_that_wait_for_logs_say_for_whose_and_how_to_go_on_without(viewer: Client) -> None:
    cast.add_broker(1)
    cast.add_broker(2, fenced=True, since=cast.ago(minutes=3))
    cast.add_topic("orders", 1, [(1, 2)])
    Partition.objects.update(leader=-1, isr=[1, 2], unproven=1, changed_at=cast.ago(minutes=3))
    told = words("partitions_offline")
    assert "when all replicas have shown their logs" in told and "Broker 2 is fenced" in told
    assert "Bring broker 2 back" in told and "To go on without them: elect any live replica" in told
    assert "waits for all logs to be shown" in text(viewer, "/cluster/?show=offline")


def test_who_is_lost_long_after_a_lift_is_waited_for_as_well() -> None:
    cast.add_broker(1)
    cast.add_broker(2, fenced=True, since=cast.ago(minutes=3))
    cast.add_topic("orders", 1, [(1, 2)])
    Partition.objects.update(leader=-1, isr=[1, 2], unproven=1, changed_at=cast.ago(minutes=30))
    assert "Bring broker 2 back" in words("partitions_offline")


def test_where_all_are_there_and_one_shows_no_log_nobody_is_told_to_start_one_that_runs() -> None:
    for broker in (1, 2):
        cast.add_broker(broker)
    cast.add_topic("orders", 1, [(1, 2)])
    Partition.objects.update(leader=-1, isr=[1, 2], unproven=1, changed_at=cast.ago(minutes=3))
    told = words("partitions_offline")
    assert "A log that cannot be used is not shown: start its broker again." in told
    assert "Start a broker that holds a replica" not in told


def test_offline_partitions_beside_others_under_min_isr_are_both_counted() -> None:
    cast.add_broker(1)
    cast.add_broker(2, fenced=True, since=cast.ago(minutes=3))
    cast.add_topic("orders", 2, [(1, 2)], configs={"min.insync.replicas": "2"})
    Partition.objects.filter(partition=0).update(leader=-1, isr=[2])
    told = words("broker_fenced")
    assert "2 partitions are under-replicated; 1 offline, 1 under min ISR." in told
    assert "reaches the node of the controller" not in told, "broker 1 does"
    assert "elect any live replica" in words("partitions_offline")
    assert "One more failure takes it offline" in words("partitions_one_copy")


def test_each_group_is_told_how_many_of_its_partitions_are_offline(viewer: Client) -> None:
    cast.add_broker(1, fenced=True, since=cast.ago(minutes=3))
    for name, count in (("orders", 2), ("clicks", 3)):
        topic, group = cast.add_topic(name, count, [(1,)]), cast.add_group(f"{name}-readers")
        cast.add_member(group, "ann")
        cast.own(group, topic, "ann", range(count))
    Partition.objects.update(leader=-1)
    page = text(viewer, "/")
    assert "5 partitions are offline" in page
    for address in ("/", "/groups/"):
        page = text(viewer, address)
        assert "orders-readers 2 offline" in page and "clicks-readers 3 offline" in page, address


def test_nobody_serves_on_where_nobody_leads() -> None:
    topic = cast.add_topic("orders", 2, [(1, 2)])
    for broker in (1, 2, 3):
        cast.add_broker(broker, fenced=True, since=cast.ago(minutes=3))
    for number in (0, 1):
        cast.move(topic, number, [1, 3])
    Partition.objects.update(leader=-1)

    def told() -> str:
        [finding] = findings.of_moves(move_queries.counts())
        return _words(finding, "means")

    assert told().startswith("Nobody leads them: produce and fetch are refused.")
    Partition.objects.filter(partition=0).update(leader=1)
    assert told().startswith("The old replicas serve on where one of them leads.")


def test_of_a_thousand_lost_brokers_the_first_are_named() -> None:
    cast.add_broker(1)
    for broker in range(2, 9):
        cast.add_broker(broker, fenced=True, since=cast.ago(minutes=3))
    cast.add_topic("orders", 1, [tuple(range(1, 9))], configs={"min.insync.replicas": "2"})
    for kind in ("partitions_under_min_isr", "partitions_one_copy"):
        assert "Broker 5 is fenced and so are 3 more." in words(kind)


def test_who_knows_more_than_the_database_is_not_to_be_started_again() -> None:
    """It is kept out whatever its process does, and comes back when the restore is adopted."""
    cast.add_broker(1)
    cast.add_broker(2, fenced=True, since=cast.ago(minutes=3))
    Broker.objects.filter(pk=2).update(set_back="broker 2 has applied version 99, and this is 41")
    assert list(found()) == ["database_set_back"]
    topic = cast.add_topic("orders", 3, [(1, 2)], configs={"min.insync.replicas": "2"})
    Partition.objects.filter(partition=0).update(leader=-1, isr=[2])
    cast.move(topic, 1, [1, 2, 3])
    cast.add_broker(3, fenced=True, since=cast.ago(minutes=1))
    Partition.objects.filter(partition=1).update(assigned=[1, 2, 3], adding=[2, 3], isr=[1])
    kept_out = "Broker 2 is kept out because the database was set back: manage.py adopt_restore lets it in."
    for kind in ("partitions_offline", "partitions_under_min_isr"):
        told = _words(found()[kind], "may")
        assert kept_out in told and not re.search("(?i)(start|bring) .*broker", told.split("Broker 2")[0])
    [waits] = findings.of_moves(move_queries.counts())
    assert "Start broker 3, or move" in _words(waits, "may") and "Broker 2 comes back" in _words(waits, "may")


def test_lanes_whose_nodes_cannot_write_ask_for_no_node() -> None:
    cast.add_cluster()
    NodeSession.objects.update(renewed_at=cast.ago(minutes=4))
    assert "start a node" in words("lanes_without_owner")
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
    told = words("lanes_without_owner")
    assert "the database only reads" in told and "start a node" not in told


def test_where_no_replica_lives_none_is_offered_for_election(client: Client) -> None:
    client.force_login(create_user("olga", Role.OPERATOR, None))
    cast.add_broker(1, fenced=True, since=cast.ago(minutes=3))
    cast.add_broker(2)
    cast.add_topic("orders", 1, [(1, 2)])
    Partition.objects.update(leader=-1, isr=[1])
    assert "Elect any live replica" in text(client, "/topics/orders/0/")
    Broker.objects.update(fenced=True)
    standing.forget()
    page = text(client, "/topics/orders/0/")
    assert "Elect any live replica" not in page and "No replica is live that could lead" in page


def test_the_controllers_lane_alone_keeps_no_group_from_committing() -> None:
    cast.add_cluster()
    Lease.objects.filter(name="controller").update(run=None)
    told = words("lanes_without_owner")
    assert "1 lane has no owner Without the controller no leader is elected" in told and "groups" not in told
    assert "Brokers and partitions are shown as it left them." in told
    Lease.objects.filter(name="controller").update(run="run-1")
    Lease.objects.filter(name="coordinator/7").update(run=None)
    told = words("lanes_without_owner")
    assert "Its groups accept no commit and expel nobody. No node holds its lease" in told


def test_work_that_nobody_does_is_told_to_the_group_that_waits(viewer: Client) -> None:
    cast.add_group("billing")
    add_work("", "due", seconds=2)
    assert found() == {}
    add_work("", "due", seconds=40)
    assert "1 work item waits" in text(viewer, "/")
    assert "the rebalance of billing goes no further" in text(viewer, "/groups/billing/")


def test_that_the_database_was_set_back_stands_on_every_page_with_its_proof(viewer: Client) -> None:
    cast.add_broker(1)
    cast.add_broker(2, fenced=True, since=cast.ago(minutes=3))
    Broker.objects.filter(pk=2).update(set_back="broker 2 has applied version 99, and this is 41")
    assert found()["database_set_back"].severity == findings.CRITICAL
    page = text(viewer, "/")
    assert "The database was set back" in page and "adopt_restore" in page
    assert "Broker 2 has applied version 99, and this is 41." in page


def test_while_nobody_is_controller_every_page_says_that_it_may_be_out_of_date(viewer: Client) -> None:
    cast.add_cluster()
    cast.add_broker(1)
    cast.add_topic("orders", 1, [(1,)])
    places = ("/topics/", "/topics/orders/", "/topics/orders/0/", "/brokers/", "/brokers/1/", "/journal/")
    for address in places:
        assert "No node is controller" not in text(viewer, address), address
    NodeSession.objects.update(ended=True, renewed_at=cast.ago(minutes=4))
    for address in places:
        assert "No node is controller since" in text(viewer, address), address
    assert "65 lanes have no owner" in text(viewer, "/"), "there it is the first finding"
    # That it was live was known to the controller alone: it may have died since.
    for address in ("/", "/cluster/", "/brokers/", "/brokers/1/"):
        page = text(viewer, address)
        assert "Not seen" in page and "Live" not in page and "none seen" in page, address
    assert "Nobody was throttled here when it was last seen" in page
    assert Broker.objects.all().delete() and "none seen" not in text(viewer, "/brokers/"), "there is none"
