"""A move of which no byte comes is a finding, with what to do; one that goes on, waits or is over is none."""

from datetime import timedelta

import pytest
from django.contrib.postgres.functions import TransactionNow
from django.test import Client
from django.utils import timezone

from access.grants import Role
from access.service import create_user
from controller import findings, move_queries, standing
from controller.models import Arrival, Broker, Partition, PartitionProgress, Reassignment
from tests.integration.web import cast
from tests.integration.web.test_pages_say_what_is import text

pytestmark = pytest.mark.django_db

LARGE = 1_000_000


@pytest.fixture
def move() -> Reassignment:
    """The move of orders-0 from broker 2 to broker 3, begun two minutes ago."""
    standing.forget()
    cast.add_cluster()
    for broker in (1, 2, 3):
        cast.add_broker(broker)
    cast.add_topic("orders", 1, [(1, 2)])
    PartitionProgress.objects.update(size_bytes=LARGE)
    partition = Partition.objects.get()
    partition.assigned, partition.adding, partition.removing = [1, 3, 2], [3], [2]
    partition.save()
    return Reassignment.objects.create(
        topic_id=partition.topic_id, topic_name="orders", partition=0, origin=[1, 2], target=[1, 3],
        phase="InProgress", asked_version=5, asked_place=0, version=5,
        asked_at=cast.ago(seconds=130), started_at=cast.ago(seconds=120),
    )  # fmt: skip


def came(move: Reassignment, held_bytes: int, seconds_ago: int) -> None:
    """Broker 3 has said so just now; the last byte came then."""
    Arrival.objects.filter(move=move).delete()
    Arrival.objects.create(move=move, broker_id=3, held_bytes=held_bytes, recent_bytes=held_bytes)
    # By the clock that it is judged by: however long the test takes, no second of it counts.
    Arrival.objects.update(grew_at=TransactionNow() - timedelta(seconds=seconds_ago))


def kinds() -> list[str]:
    return [one.kind for one in findings.of_moves(move_queries.counts())]


def test_it_is_found_once_no_byte_came_for_a_minute(move: Reassignment) -> None:
    assert kinds() == [], "nobody has said what came"
    came(move, 0, 61)
    assert kinds() == ["moves_stand_still"], "nothing ever came"
    came(move, LARGE // 2, 30)
    assert kinds() == []
    came(move, LARGE // 2, 61)
    assert kinds() == ["moves_stand_still"]
    came(move, LARGE, 61)
    assert kinds() == [], "it has all"


def test_what_waits_for_somebody_or_is_over_is_told_otherwise(move: Reassignment) -> None:
    came(move, 0, 61)
    Broker.objects.filter(broker_id=3).update(fenced=True)
    assert kinds() == ["reassignments_wait"]
    Broker.objects.filter(broker_id=3).update(fenced=False)
    Partition.objects.update(leader=-1)
    assert kinds() == ["reassignments_wait"]
    Partition.objects.update(leader=1)
    assert kinds() == ["moves_stand_still"]
    Partition.objects.update(isr=[1, 2, 3])
    assert kinds() == []
    Reassignment.objects.update(phase="Cancelled", ended_at=timezone.now())
    assert kinds() == []


def test_the_overview_names_it_and_says_what_to_do(move: Reassignment, client: Client) -> None:
    came(move, 0, 61)
    client.force_login(create_user("mira", Role.VIEWER, None))
    shown = text(client, "/")
    assert "The move of orders-0 stands still" in shown
    assert "Nothing comes from broker 1 to broker 3" in shown and "or cancel the move" in shown
