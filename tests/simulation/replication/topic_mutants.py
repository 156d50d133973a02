"""This room switches single rules of topics off that come, go, grow and shrink: walks would notice.

Registered with the other mutants.
"""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch
from uuid import UUID

from msgspec import structs

from broker.core.cluster_view import ClusterView, Heeded
from broker.core.replica import Replica
from controller.core import growing, shrinking, topics
from controller.core.draft import Draft
from controller.core.topics import Refused
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.rows import TopicRow
from tests.simulation.replication.move_mutants import MUTANTS
from tests.simulation.replication.mutants import mutant
from tests.simulation.replication.world import TOPIC

__all__ = ["MUTANTS"]

MUTANTS["moves_outlive_topics"] = lambda: patch.object(Draft, "fail_moves", lambda *_: None)
MUTANTS["id_by_name"] = lambda: patch.object(topics, "uuid5", lambda *_: TOPIC)


@mutant("deleted_is_kept")
def _() -> Iterator[None]:
    """A broker that hears of a deletion forgets the topic, and not its logs."""
    delete = ClusterView._delete

    def forget(self: ClusterView, topic_id: UUID, heeded: Heeded) -> None:
        delete(self, topic_id, heeded)
        heeded.deleted.clear()

    with patch.object(ClusterView, "_delete", forget):
        yield


@mutant("strays_are_kept")
def _() -> Iterator[None]:
    """Who was away while the topic was deleted keeps its logs."""
    with patch.object(ClusterView, "strays", lambda *_: []):
        yield


@mutant("deletion_waits_for_the_dead")
def _() -> Iterator[None]:
    """A topic with a replica on a dead broker stays until that is back."""
    delete = Draft.delete_topic

    def delete_among_the_live(self: Draft, row: TopicRow) -> None:
        for partition in self.partitions_of_topic(row.topic_id):
            if not self.live().issuperset(partition.assigned):
                raise Refused(ErrorCode.REQUEST_TIMED_OUT, "a broker of the topic is away")
        delete(self, row)

    with patch.object(Draft, "delete_topic", delete_among_the_live):
        yield


@mutant("growth_begins_at_0")
def _() -> Iterator[None]:
    """New partitions are numbered as those of a new topic."""
    put = topics.put_partitions

    def put_from_0(draft: Draft, topic: TopicRow, first: int, assignments: Any) -> None:
        put(draft, topic, 0, assignments)

    with patch.object(growing, "put_partitions", put_from_0):
        yield


@mutant("epoch_begins_again")
def _() -> Iterator[None]:
    """What is added behind a removal counts its leader epochs from the beginning."""
    put = topics.put_partitions

    def put_as_new(draft: Draft, topic: TopicRow, first: int, assignments: Any) -> None:
        put(draft, structs.replace(topic, removed_epoch=0), first, assignments)

    with patch.object(growing, "put_partitions", put_as_new):
        yield


@mutant("removed_leads_on")
def _() -> Iterator[None]:
    """A broker that hears that a topic has fewer partitions goes on with all of them."""

    def heed_nothing(self: ClusterView, topic: TopicRow, heeded: Heeded) -> None:
        pass

    with patch.object(ClusterView, "_shrink", heed_nothing):
        yield


MUTANTS["removed_is_kept"] = lambda: patch.object(Replica, "_is_of_removed", lambda *_: False)
MUTANTS["removed_unread"] = lambda: patch.object(shrinking, "_require_read", lambda *_: None)
MUTANTS["removed_unheeded"] = lambda: patch.object(shrinking, "_require_understood", lambda *_: None)
