"""What one request writes counts: a thousand wishes for thousands of partitions are not one turn."""

from uuid import UUID

import pytest

from controller.core.turn import weight
from muster.messages.link.configs import AlterConfigs, AlteredConfigs, ResourceType
from muster.messages.link.from_broker import (
    AlterPartition,
    AlterReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    FromBroker,
    GrownTopic,
    NamedTopic,
    NewTopic,
    WantedReplicas,
)
from muster.messages.link.quotas import AlterClientQuotas, QuotaAlteration
from runtime.queued import TURN_WEIGHT_MAX
from tests.unit.controller_core.stage import heard

TOPIC = UUID(int=1)


def of(frame: FromBroker) -> int:
    return weight(heard("link-1a", frame))


def test_what_is_made_counts_by_its_partitions() -> None:
    asked = NewTopic(name="a", partition_count=5_000)
    placed = NewTopic(name="b", assignments={0: (1,), 1: (2,)})
    of_its_own = NewTopic(name="c")
    assert of(CreateTopics(topics=(asked, placed, of_its_own), timeout_ms=0)) == 5_003
    grown = GrownTopic(name="a", partition_count=6_000)
    assert of(CreatePartitions(topics=(grown,), timeout_ms=0)) == 6_000


def test_what_is_changed_counts_by_its_names() -> None:
    wanted = WantedReplicas(topic="a", partition=0)
    assert of(AlterReassignments(partitions=(wanted,) * 700)) == 700
    altered = AlteredConfigs(type=ResourceType.TOPIC, name="a", changes=())
    assert of(AlterConfigs(resources=(altered,) * 30)) == 30
    assert of(DeleteTopics(topics=(NamedTopic(name="a"),) * 20)) == 20
    assert of(AlterClientQuotas(alterations=(QuotaAlteration((), ()),) * 9)) == 9
    assert of(ElectLeaders(correlation_id=0, partitions=(("a", 0),) * 40)) == 40


def test_who_asks_about_every_partition_fills_a_turn() -> None:
    assert of(ElectLeaders(correlation_id=0)) >= TURN_WEIGHT_MAX


@pytest.mark.parametrize("frame", [AlterPartition(proposals=()), DeleteTopics(topics=())])
def test_everything_counts_as_something(frame: FromBroker) -> None:
    assert of(frame) == 1
