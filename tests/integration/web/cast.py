"""This room fills the tables for tests of pages and REST: the usual cast, and one whole night."""

import hashlib
import random
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from zlib import crc32

import msgspec
from django.db import connection
from django.utils import timezone

from controller.models import (
    Broker,
    BrokerCondition,
    LagNote,
    LogNote,
    Partition,
    PartitionProgress,
    Reassignment,
    Topic,
)
from groups.core.phases import Phase
from groups.core.records import (
    GenerationOpened,
    GroupRecord,
    MemberAdded,
    MemberRemoved,
    PartitionsAssigned,
    PartitionsReleased,
    PhaseEntered,
)
from groups.models import CommittedOffset, ConsumerGroup, GroupMember, PartitionOwnership
from muster.messages.link.rows import PartitionRow
from muster.messages.member import TopicCount, TopicPartitions
from runtime.models import Cluster, JournalEntry, Lease, NodeSession
from tests.unit.messages.made_rows import changed


def ago(**duration: float) -> datetime:
    """The moment that long ago."""
    return timezone.now() - timedelta(**duration)


def add_cluster() -> None:
    """The cluster's row, 64 shard leases and the controller's, all held by node-1."""
    Cluster.objects.create(id=1, system_identifier=1, timeline=1, metadata_version=88_412)
    NodeSession.objects.create(run="run-1", node="node-1", pid=1, backend_start=timezone.now())
    names = ["controller", *(f"coordinator/{shard}" for shard in range(64))]
    Lease.objects.bulk_create(Lease(name=name, run="run-1", epoch=17) for name in names)


def add_broker(
    broker_id: int, *, fenced: bool = False, rack: str = "", since: datetime | None = None
) -> Broker:
    """A broker that has registered, live or fenced."""
    return Broker.objects.create(
        broker_id=broker_id,
        secret_hash=hashlib.sha256(b"secret").digest(),
        endpoints={"client": f"10.0.{broker_id}.11:9092", "replication": f"10.0.{broker_id}.11:9093"},
        rack=rack,
        broker_epoch=200 + broker_id,
        incarnation=uuid.uuid4(),
        fenced=fenced,
        metadata_version=88_000 + broker_id,
        registered_at=ago(days=2),
        changed_at=since or ago(days=2),
    )


GIGABYTE = 10**9


def say(broker_id: int, usable_bytes: int, **more: Any) -> None:
    """The broker said how much of its disk of 480 GB is left; it keeps 1 GB back."""
    short = {"short_since": ago(minutes=4)} if usable_bytes < GIGABYTE else {}
    disk = {"disk_total_bytes": 480 * GIGABYTE, "disk_reserve_bytes": GIGABYTE}
    values = {**disk, "disk_usable_bytes": usable_bytes, **short, **more}
    BrokerCondition.objects.update_or_create(broker_id=broker_id, defaults=values)


def waits(client_id: str, *, user: str | None = None, **more: Any) -> dict[str, Any]:
    """A client that its quota makes wait, as a broker says it."""
    told = {"quota": "producer_byte_rate", "rate": 10_000_000, "wait_ms": 812, "answers": 96, "age_ms": 9_000}
    return {"user": user, "client_id": client_id, **told, **more}


def note_log(
    broker_id: int, topic: Topic, partition: int, state: str, why: str = "", end_offset: int | None = None
) -> None:
    """The broker said how its log of a partition is, three minutes ago."""
    LogNote.objects.create(
        broker_id=broker_id,
        topic_id=topic.topic_id,
        partition=partition,
        state=state,
        why=why,
        end_offset=end_offset,
        since=ago(minutes=3),
    )


def lags(topic: Topic, partition: int, leader: int, *members: int, since: datetime | None = None) -> None:
    """The leader said that it refuses acks=all there, as these members of the ISR do not keep up."""
    values = {"broker_id": leader, "topic_id": topic.topic_id, "partition": partition}
    LagNote.objects.create(**values, lagging=list(members), since=since or ago(minutes=3))


def add_topic(
    name: str,
    partitions: int,
    assigned: Sequence[Sequence[int]],
    *,
    out: Sequence[int] = (),
    high_watermark: int = 0,
    configs: dict[str, str] | None = None,
    since: datetime | None = None,
) -> Topic:
    """A topic whose partitions take `assigned` in turn; brokers in `out` left every ISR and lead nothing."""
    topic = Topic.objects.create(
        name=name,
        partition_count=partitions,
        replication_factor=len(assigned[0]),
        configs=configs or {},
        metadata_version=88_001,
    )
    rows = []
    for number in range(partitions):
        replicas = list(assigned[number % len(assigned)])
        isr = [replica for replica in replicas if replica not in out]
        rows.append(
            Partition(
                topic=topic,
                partition=number,
                assigned=replicas,
                leader=isr[0] if isr else -1,
                leader_epoch=9 + number % 5,
                isr=isr or replicas[:1],
                version=88_010 + number,
                changed_at=since or ago(days=1),
            )
        )
    made = Partition.objects.bulk_create(rows)
    PartitionProgress.objects.bulk_create(
        PartitionProgress(partition=row, high_watermark=high_watermark, at=timezone.now()) for row in made
    )
    return topic


def add_group(name: str, *, phase: str = "Stable", generation: int = 1, **more: Any) -> ConsumerGroup:
    """A group without members."""
    more.setdefault("phase_entered_at", more.get("changed_at") or timezone.now())
    return ConsumerGroup.objects.create(
        name=name,
        shard=crc32(name.encode()) % 64,
        phase=phase,
        generation=generation,
        version=more.pop("version", 417),
        **more,
    )


def add_member(group: ConsumerGroup, member_id: str, **more: Any) -> GroupMember:
    """A member that registered two hours ago."""
    values = {
        "token_hash": hashlib.sha256(member_id.encode()).digest(),
        "subscription": [{"topic": "flights", "threads": 1}],
        "session_timeout_ms": 10_000,
        "client_id": "departures 1.9.2",
        "client_host": "10.0.1.31",
        "node": "node-1",
        "joined_at": ago(hours=2),
    }
    return GroupMember.objects.create(group=group, member_id=member_id, **{**values, **more})


def own(
    group: ConsumerGroup, topic: Topic, member_id: str, partitions: Sequence[int], since: int = 1
) -> None:
    """The member fetches these partitions since generation `since`."""
    PartitionOwnership.objects.bulk_create(
        PartitionOwnership(
            group=group,
            topic_id=topic.topic_id,
            topic_name=topic.name,
            partition=number,
            owner=member_id,
            since_generation=since,
            state="running",
        )
        for number in partitions
    )


def stand_by(group: ConsumerGroup, topic: Topic, member_id: str, partitions: Sequence[int]) -> None:
    """The member reads these along; nobody else does."""
    PartitionOwnership.objects.bulk_create(
        PartitionOwnership(
            group=group,
            topic_id=topic.topic_id,
            topic_name=topic.name,
            partition=number,
            copy=1,
            owner=member_id,
            since_generation=1,
            state="assigned",
        )
        for number in partitions
    )


def commit(
    group: ConsumerGroup, topic: Topic, partition: int, offset: int, at: datetime | None = None
) -> None:
    """The group committed `offset` for the partition."""
    CommittedOffset.objects.update_or_create(
        group=group,
        topic_id=topic.topic_id,
        partition=partition,
        defaults={
            "topic_name": topic.name,
            "offset": offset,
            "leader_epoch": 9,
            "version": 2_500 + partition,
            "committed_at": at or ago(seconds=0.3),
            "moved_at": at or ago(seconds=0.3),
        },
    )


def reach(topic: Topic, partition: int, high_watermark: int, at: datetime | None = None) -> None:
    """The leader said that the partition's log got that far, now or at the given time."""
    PartitionProgress.objects.filter(partition__topic=topic, partition__partition=partition).update(
        high_watermark=high_watermark, at=at or timezone.now()
    )


def move(
    topic: Topic, number: int, target: Sequence[int], *, phase: str = "InProgress", **more: Any
) -> Reassignment:
    """A partition on its way to `target`, none of the new replicas in sync; or what is left of its move."""
    row = Partition.objects.get(topic=topic, partition=number)
    origin = list(row.assigned)
    if phase == "InProgress":
        row.adding = [broker for broker in target if broker not in origin]
        row.removing = [broker for broker in origin if broker not in target]
        row.assigned = [*target, *row.removing]
        row.save()
    turn = 88_100 + Reassignment.objects.count()
    values = {"asked_version": turn, "asked_place": 1, "version": turn, "principal": "ola"}
    if phase != "Init":
        values["started_at"] = ago(minutes=21)
    if phase not in ("Init", "InProgress"):
        values["ended_at"] = ago(minutes=2)
    return Reassignment.objects.create(
        topic_id=topic.topic_id,
        topic_name=topic.name,
        partition=number,
        origin=origin,
        target=list(target),
        phase=phase,
        **{**values, **more},
    )


def journal(lane: str, key: str, at: datetime, cause: str, records: Sequence[Any], **summary: Any) -> None:
    """One turn in the journal, at the given time; records as the turn wrote them, or as they are stored."""
    seq = JournalEntry.objects.filter(lane=lane).count() + 1
    JournalEntry.objects.create(
        lane=lane,
        seq=seq,
        turn_id=uuid.uuid4(),
        node="node-1",
        key=key,
        cause=cause,
        summary=summary,
        records=msgspec.to_builtins(records),
        at=at,
    )


def tell_a_rebalance(
    group: ConsumerGroup,
    topic: Topic,
    at: datetime,
    generation: int,
    why: GroupRecord,
    moves: Sequence[tuple[str | None, str, Sequence[int]]],
    *,
    preparing_ms: int,
    completing_ms: int,
) -> None:
    """The turns of one rebalance as the coordinator journals them."""
    lane = f"coordinator/{group.shard}"

    def parts(numbers: Sequence[int]) -> tuple[TopicPartitions, ...]:
        return (TopicPartitions(topic.name, topic.topic_id, tuple(numbers)),)

    closed = at + timedelta(milliseconds=preparing_ms)
    ended = closed + timedelta(milliseconds=completing_ms)
    opening = [why, PhaseEntered(Phase.PREPARING_REBALANCE)]
    closing: list[GroupRecord] = [GenerationOpened(generation)]
    for before, after, numbers in moves:
        if before:
            closing.append(PartitionsReleased(before, parts(numbers)))
        closing.append(PartitionsAssigned(after, generation, parts(numbers)))
    closing.append(PhaseEntered(Phase.COMPLETING_REBALANCE))
    journal(lane, group.name, at, "rebalance opened", opening)
    journal(lane, group.name, closed, "rebalance closed", closing)
    journal(lane, group.name, ended, "settled", [PhaseEntered(Phase.STABLE)])


def came(name: str) -> MemberAdded:
    """What the journal says of a member that came."""
    topics = (TopicCount("flights"),)
    return MemberAdded(member_id=name, token_hash="0" * 64, topic_count=topics, session_timeout_ms=10_000)


def departures(topic: Topic, *, stalled: bool = False) -> ConsumerGroup:
    """Group `departures`: ann, ben and cleo share six partitions; cleo came last and got 4 and 5."""
    opened = ago(minutes=2, seconds=48)
    group = add_group("departures", generation=43, changed_at=opened)
    for member_id, host, joined in (
        ("ann", "10.0.1.31", ago(hours=11)),
        ("ben", "10.0.2.31", ago(hours=10.9)),
        ("cleo", "10.0.3.44", opened),
    ):
        add_member(group, member_id, client_host=host, joined_at=joined)
    own(group, topic, "ann", (0, 1), 39)
    own(group, topic, "ben", (2, 3), 41)
    own(group, topic, "cleo", (4, 5), 43)
    ends = (8_412_931, 8_398_150, 8_405_689, 8_391_047, 8_424_730, 8_434_691)
    lags = (24, 36, 29, 45, 4_412, 27_458)
    for number, (end, lag) in enumerate(zip(ends, lags, strict=True)):
        late = stalled and number == 5
        reach(topic, number, end, ago(minutes=2) if late else None)
        commit(group, topic, number, end - lag, ago(minutes=2, seconds=43) if late else None)
    tell_a_rebalance(
        group,
        topic,
        ago(hours=11),
        40,
        came("ann"),
        [(None, "ann", (0, 1, 2, 3, 4, 5))],
        preparing_ms=440,
        completing_ms=270,
    )
    tell_a_rebalance(
        group,
        topic,
        ago(hours=10.9),
        41,
        came("ben"),
        [("ann", "ben", (2, 3, 5))],
        preparing_ms=610,
        completing_ms=270,
    )
    tell_a_rebalance(
        group,
        topic,
        ago(minutes=8, seconds=20),
        42,
        MemberRemoved("dora", "session over"),
        [],
        preparing_ms=2020,
        completing_ms=290,
    )
    tell_a_rebalance(
        group,
        topic,
        opened - timedelta(milliseconds=1240),
        43,
        came("cleo"),
        [("ann", "cleo", (4,)), ("ben", "cleo", (5,))],
        preparing_ms=980,
        completing_ms=260,
    )
    return group


def one_night(*, groups: int = 40) -> None:
    """Broker 3 of six fenced eight minutes ago, one partition offline, a stalled group, many healthy ones."""
    since = ago(minutes=8, seconds=23)
    add_cluster()
    racks = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}
    for broker_id, rack in racks.items():
        fenced = broker_id == 3
        add_broker(broker_id, rack=rack, fenced=fenced, since=since if fenced else None)
    flights = add_topic("flights", 6, [(1, 2, 3), (2, 4, 6), (1, 5, 3)], out=[3], since=since)
    gates = add_topic("gate-events", 4, [(4, 3), (1, 3), (2, 5), (3,)], out=[3], since=since)
    orders = add_topic("orders", 12, [(1, 2, 4), (4, 5, 6), (6, 1, 2)], high_watermark=1_000)
    departures(flights, stalled=True)
    gate_display = add_group("gate-display", generation=27)
    add_member(gate_display, "screen-1")
    own(gate_display, gates, "screen-1", range(4))
    for number in range(3):
        reach(gates, number, 500)
        commit(gate_display, gates, number, 480)
    many_groups(orders, groups)
    turn: list[dict[str, Any]] = [{"record": "TurnStamped", "version": 88_411}]
    turn.append({"record": "BrokerChanged", "row": {"broker_id": 3, "live": False}})
    for number, leader in enumerate((1, 1, 1, 1, -1)):
        row = PartitionRow(flights.topic_id, number, (1, 2, 3), leader, 2, (1,), 88_411)
        turn.append(msgspec.to_builtins(changed(row, 1)))
    journal("controller", "cluster", since, "broker 3 has no session", turn)


def many_groups(topic: Topic, number: int) -> None:
    """Groups `service-00000` and on; each has one member that owns and commits every partition."""
    rng = random.Random(7)
    phases = ["Stable"] * 12 + ["Empty"]
    groups = []
    for index in range(number):
        name = f"service-{index:05d}"
        phase = phases[index % len(phases)]
        groups.append(
            ConsumerGroup(
                name=name, shard=crc32(name.encode()) % 64, phase=phase, generation=3, version=index
            )
        )
    ConsumerGroup.objects.bulk_create(groups, batch_size=2_000)
    stable = [group for group in groups if group.phase == "Stable"]
    GroupMember.objects.bulk_create(
        (
            GroupMember(
                group=group, member_id="ann", token_hash=bytes(32), subscription=[], session_timeout_ms=10_000
            )
            for group in stable
        ),
        batch_size=2_000,
    )
    keys = {"topic_id": topic.topic_id, "topic_name": topic.name}
    PartitionOwnership.objects.bulk_create(
        (
            PartitionOwnership(
                group=group, partition=part, owner="ann", since_generation=3, state="running", **keys
            )
            for group in stable
            for part in range(topic.partition_count)
        ),
        batch_size=5_000,
    )
    CommittedOffset.objects.bulk_create(
        (
            CommittedOffset(group=group, partition=part, offset=1_000 - rng.randrange(50), **keys)
            for group in groups
            for part in range(topic.partition_count)
        ),
        batch_size=5_000,
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
