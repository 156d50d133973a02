"""This room loads and saves brokers, topics and partitions; nobody else writes their tables.

It runs inside the turn's transaction, on the lane's connection, behind the fence of the lease `controller`
(design chapters 4.1 to 4.3). Nothing here decides: what does not fit the rows raises VersionConflict.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from psycopg import Connection, Cursor

from controller import statements
from controller.core import records as facts
from controller.core.records import ClusterRecord
from controller.core.state import ClusterRows
from controller.statements import arrays, numbers, partition_rows, uuids
from muster.messages.cluster import BrokerRow, HighWatermark, PartitionRow, TopicRow
from runtime import cluster, work
from runtime.ports import VersionConflict

BULK = 500
"""From so many partitions on, the planner is told that they are many."""


class ControllerStore:
    """The store of the controller's lane; there is one key, the cluster."""

    def load(self, connection: Connection[Any], key: str) -> ClusterRows:
        """All that is stored, as one snapshot of the transaction it runs in."""
        return load(connection)

    def save(
        self, connection: Connection[Any], key: str, before: ClusterRows, records: Sequence[ClusterRecord]
    ) -> None:
        """Write what a turn made true. Raises VersionConflict if the rows are not those of `before`."""
        save(connection, before, records)


def load(connection: Connection[Any]) -> ClusterRows:
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
    return ClusterRows.of(
        cluster_id=str(stored.cluster_id),
        metadata_version=stored.metadata_version,
        next_producer_id=stored.next_producer_id,
        brokers=brokers,
        topics=topics,
        partitions=partitions,
    )


def save(connection: Connection[Any], before: ClusterRows, records: Sequence[ClusterRecord]) -> None:
    """Write what a turn made true. Raises VersionConflict if the rows are not those of `before`."""
    kinds: dict[type, list[Any]] = defaultdict(list)
    for record in records:
        kinds[type(record)].append(record)
    version = _advance(connection, before, kinds)
    with connection.cursor() as cursor:
        if brokers := [record.row for record in kinds[facts.BrokerChanged]]:
            _save_brokers(cursor, brokers, version)
        if topics := [record.row for record in kinds[facts.TopicCreated]]:
            _add_topics(cursor, topics, version)
        if created := [record.row for record in kinds[facts.PartitionCreated]]:
            _add_partitions(cursor, created)
        if changed := kinds[facts.PartitionChanged]:
            _change_partitions(cursor, changed)
    for offered in kinds[facts.WorkOffered]:
        work.offer(connection, offered.kind, offered.key, offered.based_on, {})
    for adopted in kinds[facts.WorkAdopted]:
        work.adopt(connection, str(adopted.item_id))


def note_progress(connection: Connection[Any], high_watermarks: Iterable[HighWatermark]) -> None:
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


def _advance(connection: Connection[Any], before: ClusterRows, kinds: dict[type, list[Any]]) -> int:
    """Raise the cluster's numbers to those of this turn; returns the turn's metadata version."""
    stamps: list[facts.TurnStamped] = kinds[facts.TurnStamped]
    version = stamps[-1].version if stamps else before.metadata_version
    given: list[facts.ProducerIdsGiven] = kinds[facts.ProducerIdsGiven]
    next_producer_id = max((block.first + block.count for block in given), default=before.next_producer_id)
    cluster.advance(connection, before.metadata_version, version, next_producer_id)
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


def _add_partitions(cursor: Cursor[Any], rows: Sequence[PartitionRow]) -> None:
    cursor.execute(statements.ADD_PARTITIONS, _columns(rows))


def _change_partitions(cursor: Cursor[Any], changed: Sequence[facts.PartitionChanged]) -> None:
    first_base: dict[tuple[Any, int], int] = {}
    latest: dict[tuple[Any, int], PartitionRow] = {}
    for record in changed:
        # One turn may change a partition twice (a death, then a return): stored once, from where it was.
        key = record.row.key
        first_base.setdefault(key, record.base_version)
        latest[key] = record.row
    # By number: UUIDs compare in Python, and ten thousand of them would cost more than the statement.
    rows = sorted(latest.values(), key=lambda row: (row.topic_id.int, row.partition))
    if len(rows) >= BULK:
        cursor.execute(statements.PLAN_FOR_BULK)
    bases = numbers(first_base[row.key] for row in rows)
    cursor.execute(statements.CHANGE_PARTITIONS, {**_columns(rows), "version_before": bases})
    _require(cursor, len(rows), "partition")


def _columns(rows: Sequence[PartitionRow]) -> dict[str, str]:
    return {
        "topic_id": uuids(row.topic_id for row in rows),
        "partition": numbers(row.partition for row in rows),
        "assigned": arrays([row.assigned for row in rows]),
        "leader": numbers(row.leader for row in rows),
        "leader_epoch": numbers(row.leader_epoch for row in rows),
        "isr": arrays([row.isr for row in rows]),
        "version": numbers(row.version for row in rows),
    }


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _require(cursor: Cursor[Any], count: int, table: str) -> None:
    if cursor.rowcount != count:
        raise VersionConflict(f"{table}: {cursor.rowcount} rows of {count} were as decided on")
