"""This room loads and saves brokers, topics and partitions; nobody else writes their tables.

It runs inside the turn's transaction, on the lane's connection, behind the fence of the lease `controller`
(design chapters 4.1 to 4.3). Nothing here decides: what does not fit the rows raises VersionConflict.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any
from uuid import UUID

import msgspec
from psycopg import Cursor

from controller import statements
from controller.core import records as facts
from controller.core.records import ClusterRecord
from controller.core.state import ClusterRows
from controller.statements import arrays, numbers, partition_rows, places, uuids
from muster.messages.link.from_broker import HighWatermark
from muster.messages.link.rows import BrokerRow, TopicRow
from runtime import cluster, work
from runtime.ports import VersionConflict
from runtime.postgres import LaneConnection

BULK = 500
"""From so many partitions on, the planner is told that they are many."""


class ControllerStore:
    """The store of the controller's lane; there is one key, the cluster."""

    def load(self, connection: LaneConnection, key: str) -> ClusterRows:
        """All that is stored, as one snapshot of the transaction it runs in."""
        return load(connection)

    def save(
        self, connection: LaneConnection, key: str, before: ClusterRows, records: Sequence[ClusterRecord]
    ) -> None:
        """Write what a turn made true. Raises VersionConflict if the rows are not those of `before`."""
        save(connection, before, records)


def load(connection: LaneConnection) -> ClusterRows:
    """All that is stored, as one snapshot of the transaction it runs in."""
    stored = cluster.read(connection)
    with connection.cursor() as cursor:
        brokers = [
            BrokerRow(broker_id, epoch, str(incarnation), endpoints, rack, live)
            for broker_id, epoch, incarnation, endpoints, rack, live in cursor.execute(
                statements.READ_BROKERS
            )
        ]
        topics = [TopicRow(*row) for row in cursor.execute(statements.READ_TOPICS)]
        partitions = partition_rows(cursor.execute(statements.READ_PARTITIONS).fetchone())
        reassignments = [
            _reassignment(*row) for row in cursor.execute(statements.READ_REASSIGNMENTS).fetchall()
        ]
    return ClusterRows.of(
        cluster_id=str(stored.cluster_id),
        metadata_version=stored.metadata_version,
        next_producer_id=stored.next_producer_id,
        brokers=brokers,
        topics=topics,
        partitions=partitions,
        reassignments=reassignments,
    )


def _reassignment(
    move_id: UUID,
    topic_id: UUID,
    topic: str,
    partition: int,
    origin: list[int],
    target: list[int],
    phase: str,
    principal: str,
    reason: str,
) -> facts.Reassignment:
    return facts.Reassignment(
        UUID(str(move_id)),
        UUID(str(topic_id)),
        topic,
        partition,
        tuple(origin),
        tuple(target),
        facts.Phase(phase),
        principal,
        reason,
    )


def save(connection: LaneConnection, before: ClusterRows, records: Sequence[ClusterRecord]) -> None:
    """Write what a turn made true. Raises VersionConflict if the rows are not those of `before`."""
    kinds: dict[type, list[Any]] = defaultdict(list)
    for record in records:
        kinds[type(record)].append(record)
    version = _advance(connection, before, kinds)
    with connection.cursor() as cursor:
        if brokers := [record.row for record in kinds[facts.BrokerChanged]]:
            _save_brokers(cursor, brokers, version)
        if deleted := kinds[facts.TopicDeleted]:
            _delete_topics(cursor, deleted)
        if topics := [record.row for record in kinds[facts.TopicCreated]]:
            _add_topics(cursor, topics, version)
        if grown := [record.row for record in kinds[facts.TopicChanged]]:
            _change_topics(cursor, grown, version)
        if created := kinds[facts.PartitionsCreated]:
            _add_partitions(cursor, created)
        if changed := kinds[facts.PartitionsChanged]:
            _change_partitions(cursor, changed)
        if moved := [record.row for record in kinds[facts.ReassignmentChanged]]:
            _save_reassignments(cursor, before, moved, version)
        for proof in kinds[facts.SetBackProven]:
            values = {"broker_id": proof.broker_id, "why": proof.why, "version": version}
            cursor.execute(statements.NOTE_SET_BACK, values)
            _require(cursor, 1, "broker")
    for offered in kinds[facts.WorkOffered]:
        work.offer(connection, offered.kind, offered.key, offered.based_on, {})
    for adopted in kinds[facts.WorkAdopted]:
        work.adopt(connection, str(adopted.item_id))


def note_progress(connection: LaneConnection, high_watermarks: Iterable[HighWatermark]) -> None:
    """Store how far partitions got, for people; partitions that are gone are left out."""
    told = list(high_watermarks)
    if not told:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            statements.NOTE_PROGRESS,
            {
                "topic_id": uuids(said.topic_id for said in told),
                "partition": numbers(said.partition for said in told),
                "high_watermark": numbers(said.high_watermark for said in told),
            },
        )


def lift(connection: LaneConnection, by: int, metadata_version: int) -> int:
    """Let every broker epoch and leader epoch go on so much higher (runtime.succession); how many rows."""
    values = {"by": by, "version": metadata_version}
    brokers = connection.execute(statements.LIFT_BROKERS, values).rowcount
    return brokers + connection.execute(statements.LIFT_PARTITIONS, values).rowcount


def _advance(connection: LaneConnection, before: ClusterRows, kinds: dict[type, list[Any]]) -> int:
    """Raise the cluster's numbers to those of this turn; returns the turn's metadata version."""
    stamps: list[facts.TurnStamped] = kinds[facts.TurnStamped]
    version = stamps[-1].version if stamps else before.metadata_version
    given: list[facts.ProducerIdsGiven] = kinds[facts.ProducerIdsGiven]
    next_producer_id = max((block.first + block.count for block in given), default=before.next_producer_id)
    stored = cluster.Numbers(before.metadata_version, before.next_producer_id)
    cluster.advance(connection, stored, cluster.Numbers(version, next_producer_id))
    return version


def _save_brokers(cursor: Cursor[Any], brokers: Sequence[BrokerRow], version: int) -> None:
    latest = {row.broker_id: row for row in brokers}.values()
    cursor.execute(
        statements.REGISTER_BROKERS,
        {
            "version": version,
            "broker_id": [row.broker_id for row in latest],
            "broker_epoch": [row.broker_epoch for row in latest],
            "incarnation": [row.incarnation for row in latest],
            "endpoints": [_json(row.endpoints) for row in latest],
            "rack": [row.rack for row in latest],
            "fenced": [not row.live for row in latest],
        },
    )
    _require(cursor, len(latest), "broker")


def _add_topics(cursor: Cursor[Any], topics: Sequence[TopicRow], version: int) -> None:
    cursor.execute(
        statements.ADD_TOPICS,
        {
            "version": version,
            "topic_id": uuids(row.topic_id for row in topics),
            "name": [row.name for row in topics],
            "partition_count": numbers(row.partition_count for row in topics),
            "replication_factor": numbers(row.replication_factor for row in topics),
            "configs": [_json(row.configs) for row in topics],
        },
    )


def _change_topics(cursor: Cursor[Any], topics: Sequence[TopicRow], version: int) -> None:
    cursor.execute(
        statements.CHANGE_TOPICS,
        {
            "version": version,
            "topic_id": uuids(row.topic_id for row in topics),
            "partition_count": numbers(row.partition_count for row in topics),
            "replication_factor": numbers(row.replication_factor for row in topics),
            "configs": [_json(row.configs) for row in topics],
        },
    )
    _require(cursor, len(topics), "topic")


def _delete_topics(cursor: Cursor[Any], deleted: Sequence[facts.TopicDeleted]) -> None:
    values = {"topic_id": uuids(record.topic_id for record in deleted)}
    cursor.execute(statements.DELETE_PROGRESS, values)
    cursor.execute(statements.DELETE_PARTITIONS, values)
    _require(cursor, sum(record.partition_count for record in deleted), "partition")
    cursor.execute(statements.DELETE_TOPICS, values)
    _require(cursor, len(deleted), "topic")


def _add_partitions(cursor: Cursor[Any], created: Sequence[facts.PartitionsCreated]) -> None:
    cursor.execute(statements.ADD_PARTITIONS, _columns(created))


def _change_partitions(cursor: Cursor[Any], changed: Sequence[facts.PartitionsChanged]) -> None:
    count = sum(len(record.alike.partitions) for record in changed)
    bases = chain.from_iterable(record.base_versions for record in changed)
    is_bulk = count >= BULK
    if is_bulk:
        cursor.execute(statements.PLAN_FOR_BULK)
    values = {**_columns(changed), "version_before": numbers(bases)}
    # A plan for thousands must not be kept for the next statement, which may change one.
    cursor.execute(statements.CHANGE_PARTITIONS, values, prepare=False if is_bulk else None)
    _require(cursor, count, "partition")


def _save_reassignments(
    cursor: Cursor[Any], before: ClusterRows, changed: Sequence[facts.Reassignment], version: int
) -> None:
    """What ends makes room for another of the same partition: first those that are stored."""
    stored = {one.id for one in before.reassignments.values()}
    if known := [row for row in changed if row.id in stored]:
        cursor.execute(statements.CHANGE_REASSIGNMENTS, _reassignment_columns(known, version))
        _require(cursor, len(known), "reassignment")
    if new := [row for row in changed if row.id not in stored]:
        cursor.execute(statements.ADD_REASSIGNMENTS, _reassignment_columns(new, version))


def _reassignment_columns(rows: Sequence[facts.Reassignment], version: int) -> dict[str, Any]:
    return {
        "version": version,
        "id": uuids(row.id for row in rows),
        "topic_id": uuids(row.topic_id for row in rows),
        "topic_name": [row.topic for row in rows],
        "partition": numbers(row.partition for row in rows),
        "origin": arrays(row.origin for row in rows),
        "target": arrays(row.target for row in rows),
        "phase": [str(row.phase) for row in rows],
        "principal": [row.principal for row in rows],
        "reason": [row.reason for row in rows],
    }


def _columns(records: Sequence[facts.PartitionsCreated | facts.PartitionsChanged]) -> dict[str, str]:
    alike = [record.alike for record in records]
    return {
        "topic_id": uuids(one.topic_id for one in alike),
        "assigned": arrays(one.assigned for one in alike),
        "leader": numbers(one.leader for one in alike),
        "leader_epoch": numbers(one.leader_epoch for one in alike),
        "isr": arrays(one.isr for one in alike),
        "adding": arrays(one.adding for one in alike),
        "removing": arrays(one.removing for one in alike),
        "version": numbers(record.version for record in records),
        "n": places(len(one.partitions) for one in alike),
        "partition": numbers(chain.from_iterable(one.partitions for one in alike)),
    }


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _require(cursor: Cursor[Any], count: int, table: str) -> None:
    if cursor.rowcount != count:
        raise VersionConflict(f"{table}: {cursor.rowcount} rows of {count} were as decided on")
