"""This room loads and saves brokers, topics and partitions; with `controller.store_moves` nobody else does.

It runs inside the turn's transaction, on the lane's connection, behind the fence of the lease `controller`
(design chapters 4.1 to 4.3). Nothing here decides: what does not fit the rows raises VersionConflict.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

from psycopg import Cursor

from controller import statements, store_conditions, store_losses, store_moves
from controller.core import records as facts
from controller.core.election import LAST_EPOCH
from controller.core.records import ClusterRecord
from controller.core.state import ClusterRows
from controller.statements import arrays, numbers, partition_rows, places, uuids
from controller.store_moves import as_json, require
from muster.messages.link.from_broker import HighWatermark
from muster.messages.link.quotas import QuotaRow
from muster.messages.link.rows import (
    UNPROVEN,
    UNPROVEN_AGAIN,
    BrokerConfigs,
    BrokerRow,
    TopicRow,
)
from runtime import cluster, requests, work
from runtime.ports import VersionConflict
from runtime.postgres import LaneConnection
from runtime.succession import Lifted, Proof

BULK = 500
"""What changes so many partitions has a statement of its own, and is planned for itself."""


class ControllerStore:
    """The store of the controller's lane; there is one key, the cluster.

    `not_waiting` is told of requests that a turn was not written for, as they wait for no answer any more.
    `is_wished` is asked last: False if somebody for whom it was decided is gone by now.
    """

    def __init__(
        self,
        not_waiting: Callable[[Sequence[str]], None] = lambda _: None,
        is_wished: Callable[[], bool] = lambda: True,
    ) -> None:
        self._not_waiting = not_waiting
        self._is_wished = is_wished

    def load(self, connection: LaneConnection, key: str) -> ClusterRows:
        """All that is stored, as one snapshot of the transaction it runs in."""
        return load(connection)

    def save(
        self, connection: LaneConnection, key: str, before: ClusterRows, records: Sequence[ClusterRecord]
    ) -> None:
        """Write what a turn made true. Raises VersionConflict if the rows are not those of `before`, or if
        nobody wishes it now: the server may have stood still in the middle of it.
        """
        try:
            save(connection, before, records)
        except requests.NotWaiting as refused:
            self._not_waiting(refused.request_ids)
            raise
        if not self._is_wished():
            raise VersionConflict("whoever wished it is gone")


def load(connection: LaneConnection) -> ClusterRows:
    """All that is stored, as one snapshot of the transaction it runs in."""
    stored = cluster.read(connection)
    with connection.cursor() as cursor:
        brokers = [
            BrokerRow(broker_id, epoch, str(incarnation), *rest)
            for broker_id, epoch, incarnation, *rest in cursor.execute(statements.READ_BROKERS)
        ]
        topics = [TopicRow(*row) for row in cursor.execute(statements.READ_TOPICS)]
        configs = [BrokerConfigs(*row) for row in cursor.execute(statements.READ_BROKER_CONFIGS)]
        partitions = partition_rows(cursor.execute(statements.READ_PARTITIONS).fetchone())
        reassignments, plans = store_moves.load(cursor)
        quotas = [QuotaRow(*row) for row in cursor.execute(statements.READ_QUOTAS)]
        losses = store_losses.load(cursor)
    return ClusterRows.of(
        cluster_id=str(stored.cluster_id),
        metadata_version=stored.metadata_version,
        next_producer_id=stored.next_producer_id,
        brokers=brokers,
        topics=topics,
        partitions=partitions,
        reassignments=reassignments,
        configs=configs,
        plans=plans,
        quotas=quotas,
        losses=losses,
        proven_version=stored.proven_version,
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
        if gone := [record.broker_id for record in kinds[facts.BrokerUnregistered]]:
            cursor.execute(statements.UNREGISTER_BROKERS, {"broker_id": numbers(gone)})
            require(cursor, len(gone), "broker")
            store_conditions.forget(cursor, gone)
        store_losses.change(cursor, kinds)
        if deleted := kinds[facts.TopicDeleted]:
            _delete_topics(cursor, deleted)
        for removed in kinds[facts.PartitionsRemoved]:
            _remove_partitions(cursor, removed)
        if topics := [record.row for record in kinds[facts.TopicCreated]]:
            _add_topics(cursor, topics, version)
        if grown := [record.row for record in kinds[facts.TopicChanged]]:
            _change_topics(cursor, grown, version)
        if created := kinds[facts.PartitionsCreated]:
            _add_partitions(cursor, created)
        if changed := kinds[facts.PartitionsChanged]:
            _change_partitions(cursor, changed)
        if configs := [record.row for record in kinds[facts.BrokerConfigsChanged]]:
            _save_configs(cursor, configs, version)
        store_moves.save(cursor, before, kinds, version)
        store_losses.add(cursor, kinds, version)
        if quotas := [record.row for record in kinds[facts.ClientQuotaChanged]]:
            _save_quotas(cursor, quotas)
        for proof in kinds[facts.SetBackProven]:
            values = {"broker_id": proof.broker_id, "why": proof.why, "version": version}
            cursor.execute(statements.NOTE_SET_BACK, values)
            require(cursor, 1, "broker")
    for offered in kinds[facts.WorkOffered]:
        work.offer(connection, offered.kind, offered.key, offered.based_on, {})
    for adopted in kinds[facts.WorkAdopted]:
        work.adopt(connection, str(adopted.item_id))
    for begun in kinds[facts.RequestBegun]:
        requests.go_on(connection, begun.request_id, begun.results)
    answers: list[facts.RequestAnswered] = kinds[facts.RequestAnswered]
    requests.conclude_all(connection, ((one.request_id, one.answer) for one in answers))


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
                "size_bytes": numbers(said.size_bytes for said in told),
            },
        )


def lift(connection: LaneConnection, by: int, metadata_version: int) -> Lifted:
    """Let every broker epoch and leader epoch go on so much higher (runtime.succession).

    The records name the versions that were replaced: along them the past of partitions is told.
    """
    values = {
        "by": by,
        "version": metadata_version,
        "last_epoch": LAST_EPOCH,
        "unproven": UNPROVEN,
        "again": UNPROVEN_AGAIN,
    }
    connection.execute(statements.LIFT_TOPICS, values)
    brokers = connection.execute(statements.LIFT_BROKERS, values).rowcount
    ((partitions, records),) = connection.execute(statements.TELL_LIFTED_PARTITIONS, values).fetchall()
    with connection.cursor() as cursor:
        cursor.execute(statements.LIFT_PARTITIONS, values)
        require(cursor, partitions, "partition")
    return Lifted(brokers + partitions, records)


def lacking(connection: LaneConnection, since: datetime | None, below: int | None) -> Proof:
    """How far what a broker proved to be missing since then lies above what was held, at most; of what lies
    `below` a number, if there is one.
    """
    row = connection.execute(statements.MOST_LACKING, {"since": since, "below": below}).fetchone()
    return Proof(0, "") if row is None else Proof(int(row[0]), row[1])


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
            "endpoints": [as_json(row.endpoints) for row in latest],
            "rack": [row.rack for row in latest],
            "fenced": [not row.live for row in latest],
            "leaving": [row.leaving for row in latest],
            "cordoned": [row.cordoned for row in latest],
            "static_configs": [as_json(row.static_configs) for row in latest],
        },
    )
    require(cursor, len(latest), "broker")


def _add_topics(cursor: Cursor[Any], topics: Sequence[TopicRow], version: int) -> None:
    cursor.execute(
        statements.ADD_TOPICS,
        {
            "version": version,
            "topic_id": uuids(row.topic_id for row in topics),
            "name": [row.name for row in topics],
            "partition_count": numbers(row.partition_count for row in topics),
            "replication_factor": numbers(row.replication_factor for row in topics),
            "configs": [as_json(row.configs) for row in topics],
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
            "configs": [as_json(row.configs) for row in topics],
            "removed_epoch": numbers(row.removed_epoch for row in topics),
        },
    )
    require(cursor, len(topics), "topic")


def _save_configs(cursor: Cursor[Any], rows: Sequence[BrokerConfigs], version: int) -> None:
    values = {
        "version": version,
        "broker_id": [row.broker_id for row in rows],
        "configs": [as_json(row.configs) for row in rows],
    }
    cursor.execute(statements.SAVE_BROKER_CONFIGS, values)
    require(cursor, len(rows), "broker_configs")


def _delete_topics(cursor: Cursor[Any], deleted: Sequence[facts.TopicDeleted]) -> None:
    values = {"topic_id": uuids(record.topic_id for record in deleted)}
    store_losses.close(cursor, (record.topic_id for record in deleted))
    cursor.execute(statements.DELETE_PARTITIONS, values)
    require(cursor, sum(record.partition_count for record in deleted), "partition")
    _delete_progress(cursor)
    cursor.execute(statements.DELETE_TOPICS, values)
    require(cursor, len(deleted), "topic")


def _delete_progress(cursor: Cursor[Any]) -> None:
    """Of the partitions that the cursor has just deleted."""
    cursor.execute(statements.DELETE_PROGRESS, ([row[0] for row in cursor.fetchall()],))


def _remove_partitions(cursor: Cursor[Any], removed: facts.PartitionsRemoved) -> None:
    values = {"topic_id": removed.topic_id, "first": removed.first}
    store_losses.close(cursor, (removed.topic_id,), removed.first)
    cursor.execute(statements.REMOVE_PARTITIONS, values)
    require(cursor, removed.count, "partition")
    _delete_progress(cursor)


def _add_partitions(cursor: Cursor[Any], created: Sequence[facts.PartitionsCreated]) -> None:
    cursor.execute(statements.ADD_PARTITIONS, _columns(created))


def _change_partitions(cursor: Cursor[Any], changed: Sequence[facts.PartitionsChanged]) -> None:
    count = sum(len(record.alike.partitions) for record in changed)
    bases = chain.from_iterable(record.base_versions for record in changed)
    values = {**_columns(changed), "version_before": numbers(bases)}
    if count < BULK:
        cursor.execute(statements.CHANGE_PARTITIONS, values)
    else:
        some = list(chain.from_iterable(record.alike.partitions for record in changed))
        topics = uuids({record.alike.topic_id for record in changed})
        values |= {"topics": topics, "lowest": str(min(some)), "highest": str(max(some))}
        # A plan that was kept may be of a time when there were few partitions, and look at all for each.
        cursor.execute(statements.CHANGE_PARTITIONS_IN_BULK, values, prepare=False)
    require(cursor, count, "partition")


def _save_quotas(cursor: Cursor[Any], rows: Sequence[QuotaRow]) -> None:
    """Each row once; one without a rate is deleted."""
    for statement, some in (
        (statements.SET_QUOTAS, [row for row in rows if not row.is_empty]),
        (statements.DELETE_QUOTAS, [row for row in rows if row.is_empty]),
    ):
        if not some:
            continue
        cursor.execute(
            statement,
            {
                "user_name": [row.user for row in some],
                "client_id": [row.client_id for row in some],
                "producer_byte_rate": [row.producer_byte_rate for row in some],
                "consumer_byte_rate": [row.consumer_byte_rate for row in some],
                "version": [row.version for row in some],
            },
        )
        require(cursor, len(some), "client_quota")


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
        "throttle": numbers(one.throttle for one in alike),
        "base_epoch": numbers(one.base_epoch for one in alike),
        "unproven": numbers(one.unproven for one in alike),
        "version": numbers(record.version for record in records),
        "n": places(len(one.partitions) for one in alike),
        "partition": numbers(chain.from_iterable(one.partitions for one in alike)),
    }
