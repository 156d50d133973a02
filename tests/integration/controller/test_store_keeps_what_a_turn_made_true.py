"""The controller's rows come back as they were written, and a turn on old rows writes nothing."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import psycopg
import pytest
from msgspec.structs import replace

from controller import catalog, store
from controller.core import records as facts
from controller.core.plan_rows import Plan, PlanPhase, PlanStep, StepState
from controller.core.state import ClusterRows, apply
from controller.enrolment import Enrolment, enroll
from muster.kernel.ids import TopicName
from muster.messages.link.from_broker import HighWatermark
from muster.messages.link.plans import PlanKind, PlanOptions
from muster.messages.link.quotas import QuotaRow
from muster.messages.link.rows import BrokerConfigs, BrokerRow, PartitionRow, TopicRow
from runtime import cluster
from runtime.ports import VersionConflict
from runtime.postgres import LaneConnection
from tests.integration.coordinator.control_plane import eventually
from tests.unit.messages.made_rows import changed, gathered

ORDERS = UUID(int=1)
ORDERS_NAME = TopicName("orders")


@pytest.fixture
def connection(fresh_database: str) -> Iterator[LaneConnection]:
    with LaneConnection.connect(fresh_database) as connection:
        cluster.initialise(connection, uuid4(), ["controller"])
        for broker_id in (1, 2, 3):
            enroll(connection, broker_id, f"secret of {broker_id}", rotate=False)
        connection.commit()
        yield connection
        connection.rollback()


def broker(broker_id: int, epoch: int = 1, *, live: bool = True, incarnation: int = 7) -> BrokerRow:
    endpoints = {"client": f"127.0.0.1:{9090 + broker_id}", "replication": f"127.0.0.1:{9190 + broker_id}"}
    return BrokerRow(broker_id, epoch, str(UUID(int=incarnation)), endpoints, "a", live)


def new_partition(number: int, topic_id: UUID = ORDERS, version: int = 1) -> PartitionRow:
    return PartitionRow(topic_id, number, (1, 2, 3), -1, 0, (), version)


def turn(connection: LaneConnection, rows: ClusterRows, *records: facts.ClusterRecord) -> None:
    """One committed turn; `rows` is then what memory holds. Topics have the version of the turn."""
    version = rows.metadata_version + 1
    topics = facts.TopicCreated | facts.TopicChanged
    said = (type(r)(replace(r.row, version=version)) if isinstance(r, topics) else r for r in records)
    stamped = (facts.TurnStamped(version), *said)
    store.save(connection, rows, stamped)
    connection.commit()
    for record in stamped:
        apply(rows, record)


def with_orders(connection: LaneConnection, partitions: int = 3) -> ClusterRows:
    rows = store.load(connection)
    new = gathered(new_partition(number) for number in range(partitions))
    turn(
        connection,
        rows,
        *(facts.BrokerChanged(broker(broker_id)) for broker_id in (1, 2, 3)),
        facts.TopicCreated(TopicRow(ORDERS, "orders", partitions, 3, {"min.insync.replicas": "2"})),
        *(facts.PartitionsCreated(one, 1) for one in new),
    )
    return rows


def test_what_was_folded_is_what_is_loaded(connection: LaneConnection) -> None:
    rows = with_orders(connection)
    led = PartitionRow(ORDERS, 0, (1, 2, 3), 1, 1, (1, 2, 3), 2)
    turn(
        connection,
        rows,
        changed(led, 1),
        facts.BrokerChanged(broker(3, live=False)),
        facts.ProducerIdsGiven(0, 1_000),
    )
    loaded = store.load(connection)
    assert loaded == rows
    assert (loaded.metadata_version, loaded.next_producer_id) == (2, 1_000)
    assert loaded.partitions[ORDERS, 0] == led
    assert [live.broker_id for live in catalog.live_brokers(connection)] == [1, 2]
    assert catalog.layouts(connection)["orders"].partition_count == 3  # type: ignore[index]


def test_a_broker_that_never_registered_is_not_loaded(connection: LaneConnection) -> None:
    assert store.load(connection).brokers == {}


def test_a_turn_on_an_old_metadata_version_writes_nothing(connection: LaneConnection) -> None:
    rows = with_orders(connection)
    outdated = store.load(connection)
    turn(connection, rows, changed(PartitionRow(ORDERS, 0, (1, 2, 3), 1, 1, (1, 2), 2), 1))
    with pytest.raises(VersionConflict, match="metadata_version"):
        change = changed(PartitionRow(ORDERS, 1, (1, 2, 3), 2, 1, (2,), 2), 1)
        store.save(connection, outdated, (facts.TurnStamped(2), change))
    connection.rollback()
    assert store.load(connection) == rows


def test_no_producer_id_is_given_twice_though_a_node_takes_some_itself(connection: LaneConnection) -> None:
    outdated = with_orders(connection)
    assert cluster.take_producer_ids(connection, 1_000) == 0
    connection.commit()
    with pytest.raises(VersionConflict, match="metadata_version"):
        store.save(connection, outdated, (facts.TurnStamped(2), facts.ProducerIdsGiven(0, 1_000)))
    connection.rollback()
    rows = store.load(connection)
    turn(connection, rows, facts.ProducerIdsGiven(rows.next_producer_id, 1_000))
    assert cluster.take_producer_ids(connection, 1_000) == 2_000


def test_a_partition_that_changed_underneath_is_not_overwritten(connection: LaneConnection) -> None:
    rows = with_orders(connection)
    fits = changed(PartitionRow(ORDERS, 0, (1, 2, 3), 1, 1, (1,), 2), 1)
    misfit = changed(PartitionRow(ORDERS, 1, (1, 2, 3), 1, 1, (1,), 2), 9)
    with pytest.raises(VersionConflict, match="partition: 1 rows of 2"):
        store.save(connection, rows, (facts.TurnStamped(2), fits, misfit))
    connection.rollback()
    assert store.load(connection) == rows


def test_an_epoch_never_falls(connection: LaneConnection) -> None:
    rows = with_orders(connection)
    turn(connection, rows, facts.BrokerChanged(broker(1, epoch=5, incarnation=8)))
    with pytest.raises(VersionConflict, match="broker"):
        store.save(connection, rows, (facts.TurnStamped(3), facts.BrokerChanged(broker(1, epoch=4))))


def test_a_stranger_is_not_registered(connection: LaneConnection) -> None:
    rows = store.load(connection)
    with pytest.raises(VersionConflict, match="broker"):
        store.save(connection, rows, (facts.TurnStamped(1), facts.BrokerChanged(broker(9))))


@pytest.mark.parametrize(
    "forbidden",
    [
        PartitionRow(ORDERS, 0, (1, 2, 3), 3, 1, (1, 2), 2),
        PartitionRow(ORDERS, 0, (1, 2), 1, 1, (1, 2, 3), 2),
        PartitionRow(ORDERS, 0, (1, 2, 3), -1, 1, (), 2),
    ],
    ids=["leader outside the ISR", "ISR outside the replicas", "ISR empty after a leader"],
)
def test_the_database_refuses_an_impossible_row(connection: LaneConnection, forbidden: PartitionRow) -> None:
    rows = with_orders(connection)
    with pytest.raises(psycopg.errors.CheckViolation):
        store.save(connection, rows, (facts.TurnStamped(2), changed(forbidden, 1)))


@pytest.mark.parametrize("name", ["orders", "or.ders", "or_ders"])
def test_two_topics_cannot_have_one_name(connection: LaneConnection, name: str) -> None:
    rows = store.load(connection)
    turn(connection, rows, facts.TopicCreated(TopicRow(ORDERS, name.replace(".", "_"), 1, 1)))
    with pytest.raises(psycopg.errors.UniqueViolation):
        store.save(
            connection, rows, (facts.TurnStamped(2), facts.TopicCreated(TopicRow(uuid4(), name, 1, 1)))
        )


def test_configs_of_brokers_and_of_the_cluster_are_kept_and_only_rise(connection: LaneConnection) -> None:
    rows = with_orders(connection)
    configs = (BrokerConfigs(0, {"log.retention.ms": "5"}, 2), BrokerConfigs(3, {"log.roll.ms": "6"}, 2))
    turn(connection, rows, *map(facts.BrokerConfigsChanged, configs))
    turn(connection, rows, facts.BrokerConfigsChanged(BrokerConfigs(3, {}, 3)))
    loaded = store.load(connection)
    assert loaded == rows
    assert loaded.configs == {0: configs[0], 3: BrokerConfigs(3, {}, 3)}

    with pytest.raises(VersionConflict):
        records = facts.TurnStamped(3), facts.BrokerConfigsChanged(BrokerConfigs(3, {}, 3))
        store.save(connection, rows, records)
    connection.rollback()


def test_a_topic_has_the_configs_of_the_turn_that_changed_it_last(connection: LaneConnection) -> None:
    rows = with_orders(connection)
    changed_row = replace(rows.topics[ORDERS], configs={"retention.ms": "5"})
    turn(connection, rows, facts.TopicChanged(changed_row))
    loaded = store.load(connection)
    assert loaded == rows
    assert (loaded.topics[ORDERS].configs, loaded.topics[ORDERS].version) == ({"retention.ms": "5"}, 2)


def test_thousands_of_partitions_change_in_one_turn(connection: LaneConnection) -> None:
    rows = with_orders(connection, 3_000)
    led = gathered(PartitionRow(ORDERS, n, (1, 2, 3), 1 + n % 3, 1, (1, 2, 3), 1) for n in range(3_000))
    turn(connection, rows, *(facts.PartitionsChanged(one, 2, (1,) * len(one.partitions)) for one in led))
    assert store.load(connection) == rows
    each = (PartitionRow(ORDERS, n, (1, 2, 3), 1 + n % 3, 1 + n % 9, (1, 2, 3), 3) for n in range(3_000))
    turn(connection, rows, *(changed(row, 2) for row in each))
    assert store.load(connection) == rows


def test_progress_is_noted_and_noted_again(connection: LaneConnection) -> None:
    with_orders(connection)
    store.note_progress(connection, [HighWatermark(ORDERS, 0, 5), HighWatermark(uuid4(), 0, 99)])
    store.note_progress(connection, [HighWatermark(ORDERS, 0, 8), HighWatermark(ORDERS, 2, 1)])
    noted = connection.execute(
        "SELECT partition.partition, high_watermark FROM partition_progress"
        " JOIN partition ON partition.id = partition_id ORDER BY 1"
    ).fetchall()
    assert noted == [(0, 8), (2, 1)]


def test_a_secret_admits_its_own_broker_only(connection: LaneConnection) -> None:
    assert not enroll(connection, 1, "another", rotate=False)
    assert Enrolment.load(connection).admits(1, "secret of 1")
    assert enroll(connection, 1, "another", rotate=True)
    enrolment = Enrolment.load(connection)
    assert enrolment.admits(1, "another")
    assert not enrolment.admits(1, "secret of 1")
    assert not enrolment.admits(2, "another")
    assert not enrolment.admits(9, "another")
    stored = connection.execute("SELECT secret_hash FROM broker WHERE broker_id = 1").fetchone()
    assert stored is not None and b"another" not in stored[0]


def test_a_deleted_topic_leaves_no_row_and_its_name_is_free_in_the_same_turn(
    connection: LaneConnection,
) -> None:
    rows = with_orders(connection)
    store.note_progress(connection, [HighWatermark(ORDERS, 0, 7)])
    again = uuid4()
    new = gathered([new_partition(0, again, version=2)])
    turn(
        connection,
        rows,
        facts.TopicDeleted(ORDERS, "orders", 3),
        facts.TopicCreated(TopicRow(again, "orders", 1, 3)),
        *(facts.PartitionsCreated(one, 2) for one in new),
    )
    assert store.load(connection) == rows
    assert list(rows.topics) == [again]


@pytest.mark.parametrize(
    "gone",
    [facts.TopicDeleted(ORDERS, "orders", 3), facts.PartitionsRemoved(ORDERS, "orders", 1, 2)],
    ids=["the topic", "some partitions"],
)
def test_progress_that_is_noted_while_partitions_go_goes_with_them(
    connection: LaneConnection, fresh_database: str, gone: facts.ClusterRecord
) -> None:
    """Each by itself is committed; which comes first is the lock of the partition's row to say."""
    with_orders(connection)
    noting = psycopg.connect(fresh_database, autocommit=False)
    with noting, ThreadPoolExecutor(1) as beside:
        noting.execute(
            "INSERT INTO partition_progress (partition_id, high_watermark, at)"
            " SELECT id, 7, now() FROM partition WHERE partition = 2"
        )
        noting.execute("SET CONSTRAINTS ALL IMMEDIATE")
        saved = beside.submit(store.save, connection, store.load(connection), (facts.TurnStamped(2), gone))
        with psycopg.connect(fresh_database, autocommit=True) as looking:
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = %s"
            eventually(
                lambda: saved.done() or looking.execute(waits, (looking.info.dbname,)).fetchone() == (1,),
                "it waits for who notes progress",
            )
        noting.commit()
        saved.result()
    connection.commit()
    assert connection.execute("SELECT count(*) FROM partition_progress").fetchall() == [(0,)]


def test_progress_of_what_is_deleted_at_that_moment_is_left_out(
    connection: LaneConnection, fresh_database: str
) -> None:
    """The foreign key refused all of it: a removal that waited for the note was never decided."""
    with_orders(connection)
    noted = [HighWatermark(ORDERS, number, 5) for number in (0, 2)]
    with LaneConnection.connect(fresh_database) as noting, ThreadPoolExecutor(1) as beside:
        noter = noting.info.backend_pid
        gone = facts.PartitionsRemoved(ORDERS, "orders", 1, 2)
        store.save(connection, store.load(connection), (facts.TurnStamped(2), gone))
        writing = beside.submit(store.note_progress, noting, noted)
        with psycopg.connect(fresh_database, autocommit=True) as looking:
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = %s"
            eventually(
                lambda: writing.done() or looking.execute(waits, (noter,)).fetchone() == (1,),
                "it waits for who removes partitions",
            )
        connection.commit()
        writing.result()
        noting.commit()
    found = connection.execute(
        "SELECT partition.partition FROM partition_progress JOIN partition ON partition.id = partition_id"
    )
    assert found.fetchall() == [(0,)]


def test_a_topic_that_is_gone_already_is_not_deleted_again(connection: LaneConnection) -> None:
    rows = with_orders(connection)
    with pytest.raises(VersionConflict, match="partition"):
        store.save(connection, rows, (facts.TurnStamped(2), facts.TopicDeleted(uuid4(), "clicks", 1)))


def test_a_topic_grows(connection: LaneConnection) -> None:
    rows = with_orders(connection)
    new = gathered([new_partition(3, version=2)])
    turn(
        connection,
        rows,
        facts.TopicChanged(TopicRow(ORDERS, "orders", 4, 3, {"min.insync.replicas": "2"})),
        *(facts.PartitionsCreated(one, 2) for one in new),
    )
    assert store.load(connection) == rows
    assert catalog.layouts(connection)["orders"].partition_count == 4  # type: ignore[index]


def test_partitions_are_removed_and_others_take_their_numbers(connection: LaneConnection) -> None:
    rows = with_orders(connection)
    store.note_progress(connection, [HighWatermark(ORDERS, number, 5) for number in (0, 2)])
    assert catalog.layouts(connection)[ORDERS_NAME].added_again == ()
    shrunk = replace(rows.topics[ORDERS], partition_count=1, removed_epoch=7)
    turn(connection, rows, facts.PartitionsRemoved(ORDERS, "orders", 1, 2), facts.TopicChanged(shrunk))
    assert store.load(connection) == rows
    assert rows.topics[ORDERS].removed_epoch == 7 and list(rows.partitions.by_topic[ORDERS]) == [0]
    assert connection.execute("SELECT count(*) FROM partition_progress").fetchall() == [(1,)]

    again = PartitionRow(ORDERS, 1, (1, 2, 3), -1, 7, (), 3, base_epoch=7)
    [created] = gathered([again])
    turn(
        connection,
        rows,
        facts.TopicChanged(replace(rows.topics[ORDERS], partition_count=2)),
        facts.PartitionsCreated(created, 3),
    )
    assert store.load(connection) == rows and rows.partitions[ORDERS, 1] == again
    assert catalog.layouts(connection)[ORDERS_NAME].added_again == ((1, 7),)
    found = connection.execute("SELECT partition, added_again_at IS NULL FROM partition ORDER BY 1")
    assert found.fetchall() == [(0, True), (1, False)]
    led = replace(again, leader=1, leader_epoch=8, isr=(1, 2, 3), version=4)
    turn(connection, rows, changed(led, 3))
    assert store.load(connection).partitions[ORDERS, 1] == led


def test_partitions_that_are_gone_already_are_not_removed_again(connection: LaneConnection) -> None:
    rows = with_orders(connection)
    with pytest.raises(VersionConflict, match="partition: 3 rows of 4"):
        store.save(connection, rows, (facts.TurnStamped(2), facts.PartitionsRemoved(ORDERS, "orders", 0, 4)))
    connection.rollback()
    assert store.load(connection) == rows


def test_the_moves_of_what_is_gone_fail_in_one_statement(connection: LaneConnection) -> None:
    rows = with_orders(connection)
    moves = [
        facts.Reassignment(UUID(int=n + 1), ORDERS, "orders", n, (1, 2, 3), (3, 2, 1), facts.Phase.INIT)
        for n in range(3)
    ]
    turn(connection, rows, *map(facts.ReassignmentChanged, moves))
    turn(connection, rows, facts.MovesFailed(ORDERS, (1, 2), "the partition was removed"))
    assert store.load(connection) == rows and list(rows.reassignments) == [(ORDERS, 0)]
    found = connection.execute("SELECT phase, reason, ended_at IS NULL FROM reassignment ORDER BY partition")
    why = ("Failed", "the partition was removed", False)
    assert found.fetchall() == [("Init", "", True), why, why]
    with pytest.raises(VersionConflict, match="reassignment: 0 rows of 1"):
        store.save(connection, rows, (facts.TurnStamped(4), facts.MovesFailed(ORDERS, (1,), "again")))


def test_a_reassignment_is_kept_through_its_phases_and_two_are_never_active(
    connection: LaneConnection,
) -> None:
    rows = with_orders(connection)
    asked = facts.Reassignment(uuid4(), ORDERS, "orders", 0, (1, 2, 3), (3, 2), facts.Phase.INIT, "mira", "")
    turn(connection, rows, facts.ReassignmentChanged(asked))
    assert store.load(connection) == rows
    begun = replace(asked, phase=facts.Phase.IN_PROGRESS)
    moving = PartitionRow(ORDERS, 0, (3, 2, 1), -1, 0, (), 3, (), (1,))
    turn(connection, rows, changed(moving, 1), facts.ReassignmentChanged(begun))
    loaded = store.load(connection)
    assert loaded == rows and loaded.partitions[ORDERS, 0] == moving

    another = replace(asked, id=uuid4(), target=(1,))
    with pytest.raises(psycopg.errors.UniqueViolation):
        store.save(connection, rows, (facts.TurnStamped(4), facts.ReassignmentChanged(another)))
    connection.rollback()
    ended = replace(begun, phase=facts.Phase.CANCELLED, reason="replaced by another")
    turn(connection, rows, facts.ReassignmentChanged(ended), facts.ReassignmentChanged(another))
    assert store.load(connection) == rows
    with pytest.raises(VersionConflict, match="reassignment"):
        rows.reassignments[ORDERS, 0] = begun
        store.save(connection, rows, (facts.TurnStamped(5), facts.ReassignmentChanged(ended)))


def test_a_plan_and_its_steps_come_back_as_far_as_they_are_not_over(connection: LaneConnection) -> None:
    rows = with_orders(connection)
    options = PlanOptions(kind=PlanKind.DRAIN, brokers=(1,))
    plan = Plan(uuid4(), options, PlanPhase.COMPUTING, 2, 5_000, 10, proposed_by="mira", reason="old")
    turn(connection, rows, facts.PlanChanged(plan))
    steps = tuple(PlanStep(n, ORDERS, "orders", n, 1, (1, 2, 3), (3, 2), size_bytes=n - 1) for n in range(3))
    plan = replace(plan, phase=PlanPhase.DRAFT, step_count=3, cost={"bytes": 1}, version=3)
    turn(connection, rows, facts.PlanStepsAdded(plan.id, steps), facts.PlanChanged(plan))
    assert store.load(connection) == rows
    assert rows.plans.waiting[plan.id][0] == steps[0]

    plan = replace(plan, phase=PlanPhase.RUNNING, version=4)
    moves = [
        facts.Reassignment(
            uuid4(), ORDERS, "orders", n, (1, 2, 3), (3, 2), facts.Phase.INIT, "mira", "", 5_000, plan.id, n
        )
        for n in (0, 1)
    ]
    turn(
        connection,
        rows,
        *map(facts.ReassignmentChanged, moves),
        facts.PlanStepsChanged(plan.id, StepState.ASKED, (0, 1)),
        facts.PlanChanged(plan),
    )
    assert store.load(connection) == rows
    ended = replace(moves[0], phase=facts.Phase.DONE)
    skipped = facts.PlanStepsChanged(plan.id, StepState.SKIPPED, (2,), "the topic was deleted")
    turn(
        connection,
        rows,
        facts.ReassignmentChanged(ended),
        facts.PlanStepsChanged(plan.id, StepState.DONE, (0,)),
        skipped,
        facts.PlanChanged(replace(plan, phase=PlanPhase.CANCELLED, version=5)),
    )
    loaded = store.load(connection)
    assert loaded == rows and list(loaded.plans.asked[plan.id]) == [1], "one move goes on"
    turn(
        connection,
        rows,
        facts.ReassignmentChanged(replace(moves[1], phase=facts.Phase.CANCELLED)),
        facts.PlanStepsChanged(plan.id, StepState.CANCELLED, (1,), "replaced by another"),
    )
    assert store.load(connection) == rows and not rows.plans.plans
    with pytest.raises(VersionConflict, match="plan_step: 0 rows of 1"):
        store.save(connection, rows, (facts.TurnStamped(7), skipped))


def _set_back(connection: LaneConnection) -> list[str]:
    return [why for (why,) in connection.execute("SELECT set_back FROM broker ORDER BY broker_id")]


def test_a_proof_that_the_database_was_set_back_stays_until_its_broker_registers(
    connection: LaneConnection,
) -> None:
    rows = with_orders(connection)
    turn(connection, rows, facts.SetBackProven(2, 99, "broker 2 has applied version 99, and this is 1"))
    turn(connection, rows, facts.BrokerChanged(broker(2, live=False)))
    assert _set_back(connection) == ["", "broker 2 has applied version 99, and this is 1", ""]
    turn(connection, rows, facts.BrokerChanged(broker(2, epoch=2)))
    assert _set_back(connection) == ["", "", ""]


def test_a_lift_clears_the_proofs(connection: LaneConnection) -> None:
    rows = store.load(connection)
    turn(connection, rows, facts.SetBackProven(3, 99, "broker 3 was given epoch 9, and this is 0"))
    before = store.load(connection)
    assert store.lift(connection, 1_000, before.metadata_version).rows == 1
    assert _set_back(connection) == ["", "", ""]


def test_quotas_of_clients_come_back_until_they_have_no_rate(connection: LaneConnection) -> None:
    rows = store.load(connection)
    quotas = [
        QuotaRow("ann", None, producer_byte_rate=5, version=1),
        QuotaRow("ann", "", consumer_byte_rate=6, version=1),
        QuotaRow(None, "till", 7, 8, version=1),
        QuotaRow("", None, 9, version=1),
    ]
    turn(connection, rows, *map(facts.ClientQuotaChanged, quotas))
    assert store.load(connection) == rows
    changed_one = facts.ClientQuotaChanged(QuotaRow("ann", None, consumer_byte_rate=10, version=2))
    gone = facts.ClientQuotaChanged(QuotaRow(None, "till", version=2))
    turn(connection, rows, changed_one, gone)
    assert store.load(connection) == rows
    assert len(rows.quotas) == 3


def test_a_quota_that_is_newer_than_the_turn_is_not_overwritten(connection: LaneConnection) -> None:
    rows = store.load(connection)
    turn(connection, rows, facts.ClientQuotaChanged(QuotaRow("ann", None, producer_byte_rate=5, version=9)))
    with pytest.raises(VersionConflict, match="client_quota"):
        older = facts.ClientQuotaChanged(QuotaRow("ann", None, producer_byte_rate=6, version=2))
        store.save(connection, rows, (facts.TurnStamped(2), older))
