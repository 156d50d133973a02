"""This room tests that nothing on the page of a group changes without its fingerprint, or it is not live."""

from collections.abc import Callable

import pytest

from controller.fingerprints import of_cluster
from controller.models import Broker, Partition, PartitionProgress
from groups.fingerprints import of_groups, of_lists
from groups.models import CommittedOffset, ConsumerGroup
from groups.queries import GroupRow, PartitionStanding
from runtime.models import Lease, NodeSession
from tests.integration.web import cast

pytestmark = pytest.mark.django_db


def turn() -> None:
    """Whatever a turn changes of a group, its members and their ownership raises the version of the group."""
    ConsumerGroup.objects.filter(name="departures").update(version=9_000)


def commit() -> None:
    CommittedOffset.objects.filter(group="departures", partition=1).update(version=9_000)


def controller_turn() -> None:
    Partition.objects.filter(partition=1).update(version=99_000)


def progress() -> None:
    PartitionProgress.objects.filter(partition__partition=1).update(high_watermark=10**9)


def fixed() -> None:
    """Never changes as long as the row is there."""


def by_time() -> None:
    """Changes with every word of a leader; the page counts the age on, and reads itself now and then."""


OF_PARTITIONS: dict[str, Callable[[], None]] = {
    "topic_id": fixed,
    "topic_name": fixed,
    "partition": fixed,
    "owner": turn,
    "state": turn,
    "since_generation": turn,
    "standbys": turn,
    "committed": commit,
    "version": commit,
    "committed_s": commit,
    "leader": controller_turn,
    "leader_epoch": controller_turn,
    "isr": controller_turn,
    "assigned": controller_turn,
    "high_watermark": progress,
    "progress_s": by_time,
}
OF_LISTS: dict[str, Callable[[], None]] = {
    **dict.fromkeys(("name", "shard", "created_at"), fixed),
    **dict.fromkeys(("phase", "generation", "version", "error", "changed_at", "members"), turn),
    **dict.fromkeys(("protocol", "protocol_type"), turn),
    **dict.fromkeys(("session_timeout_ms", "partitions", "topics"), turn),
    **dict.fromkeys(("unknown", "committed_at"), commit),
    "lag": progress,
}


def test_every_field_has_something_that_changes_the_fingerprint_with_it() -> None:
    assert set(PartitionStanding._fields) == OF_PARTITIONS.keys()
    assert set(GroupRow._fields) == OF_LISTS.keys()


def lease() -> None:
    Lease.objects.filter(name="coordinator/1").update(epoch=18)


def node_ends() -> None:
    NodeSession.objects.update(ended=True)


def node_falls_silent() -> None:
    NodeSession.objects.update(renewed_at=cast.ago(minutes=1))


def node_makes_way() -> None:
    NodeSession.objects.update(made_way_for="run-2")


def broker_is_fenced() -> None:
    Broker.objects.update(fenced=True, metadata_version=99_001)


@pytest.mark.parametrize(
    "change",
    [
        turn,
        commit,
        controller_turn,
        progress,
        lease,
        node_ends,
        node_falls_silent,
        node_makes_way,
        broker_is_fenced,
    ],
)
def test_a_change_of_what_the_page_of_a_group_shows_is_seen(change: Callable[[], None]) -> None:
    cast.one_night(groups=1)
    before = of_groups(["departures"])
    change()
    assert of_groups(["departures"]) != before


@pytest.mark.parametrize(
    "change", [turn, commit, controller_turn, progress, lease, node_ends, broker_is_fenced]
)
def test_a_change_of_what_lists_show_is_seen(change: Callable[[], None]) -> None:
    cast.one_night(groups=1)
    before = of_lists(of_cluster())
    change()
    assert of_lists(of_cluster()) != before
