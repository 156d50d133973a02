"""What PostgreSQL refuses of a turn is found and told to whoever asked it; all else is done meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid4, uuid5

import msgspec
import pytest_asyncio

from controller import store
from controller.asking import _answer
from controller.configuration import ServiceSettings
from controller.core import records as facts
from controller.core.plan_rows import Plan, PlanPhase, PlanStep
from controller.core.plans import COMPUTE_PLAN
from controller.core.requests import KEY, KIND, Asked
from controller.core.settings import ControllerSettings
from controller.enrolment import enroll
from controller.service import ControllerService
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.messages.link.from_broker import CreateTopics, DeleteTopics, NamedTopic, NewTopic, Wish
from muster.messages.link.plans import PlanKind, PlanOptions
from muster.messages.link.rows import BrokerRow, PartitionRow, TopicRow
from muster.messages.link.to_broker import CreateTopicsAnswer, TopicResults
from runtime import clock, cluster, requests
from runtime.freshness import Freshness
from runtime.lanes import Lanes
from runtime.metrics import REGISTRY
from runtime.ports import ConnectionLost, LiveNode
from runtime.postgres import LaneConnection, Postgres
from runtime.refusals import RefusalNotes, Refused
from runtime.requests import NewRequest
from tests.unit.messages.made_rows import gathered

RUN = "aaaaaaaaaaaaaaaa"
ORDERS = UUID(int=1)
PLAN = UUID(int=9)


def created(name: str) -> CreateTopics:
    return CreateTopics(topics=(NewTopic(name=name, assignments={0: (1,)}),), timeout_ms=0)


@dataclass
class Night:
    """One node that holds the controller's lease; nobody looks after it but the test."""

    connection: LaneConnection
    lanes: Lanes
    notes: RefusalNotes
    lost: list[str] = field(default_factory=list)
    node: str = "node-1"
    frozen: bool = False
    kafka_callers: Any = None

    @property
    def kafka_callers_at(self) -> Instant:
        return clock.now()

    def now(self) -> Instant:
        return clock.now()

    def wake(self, name: str, key: str = "") -> None: ...

    def live_nodes(self) -> tuple[LiveNode, ...]:
        return ()

    def owners(self) -> Mapping[str, LiveNode]:
        return {}

    async def query(self, function: Callable[[Any], Any]) -> Any:
        with self.connection.transaction():
            return function(self.connection)

    async def owner(self, settings: ServiceSettings | None = None) -> ControllerService:
        """Take the lease; the one before is forgotten."""
        row = self.connection.execute("SELECT epoch FROM lease WHERE name = 'controller'").fetchone()
        assert row is not None
        lane = await self.lanes.take("controller", 0, row[0], None, lambda: self.lost.append("controller"))
        assert lane is not None
        given = settings or ServiceSettings()
        service = ControllerService(self, given, lambda *_: ())  # type: ignore[arg-type]
        await service.accept(lane)
        return service

    def asks(self, wish: Wish) -> str:
        with self.connection.cursor() as cursor:
            return requests.store(cursor, NewRequest(KIND, "controller", KEY, "mira", "we test", Asked(wish)))

    async def answers(self, service: ControllerService, *asked: str) -> list[Any]:
        """What is answered to these, when all of them are."""
        service.woken("work", f"{KIND} {KEY}")
        async with asyncio.timeout(30):
            while len(found := requests.answers(self.connection, asked)) < len(asked):
                await asyncio.sleep(0.01)
        by_id = {row.id: row for row in found}
        return [_answer(by_id[one].answer) for one in asked]

    def does(self, statement: str) -> None:
        """Something that no turn of ours has done."""
        self.connection.execute(statement)

    def has(self, *records: facts.ClusterRecord) -> None:
        with self.connection.transaction():
            rows = store.load(self.connection)
            store.save(self.connection, rows, (facts.TurnStamped(rows.metadata_version + 1), *records))


@pytest_asyncio.fixture
async def night(fresh_database: str) -> AsyncIterator[Night]:
    freshness = Freshness(clock.now, lease_ttl_ms=60_000)
    freshness.confirm(clock.now())
    freshness.thaw()
    with LaneConnection.connect(fresh_database, autocommit=True) as connection:
        with connection.transaction():
            cluster.initialise(connection, uuid4(), ["controller"])
            enroll(connection, 1, "a secret", rotate=False)
        database = Postgres(fresh_database, "node-1")
        session = database.connect(RUN, "session")
        session.begin_run(RUN, "node-1", "ws://127.0.0.1:9301")
        notes = RefusalNotes("node-1")
        lanes = Lanes(database, "node-1", RUN, freshness, clock.now, lambda _: None, on_refused=notes.add)
        lanes.start()
        made = Night(connection, lanes, notes)
        new = gathered([PartitionRow(ORDERS, 0, (1,), -1, 0, (), 1)])
        made.has(
            facts.BrokerChanged(BrokerRow(1, 1, str(UUID(int=7)), {})),
            facts.TopicCreated(TopicRow(ORDERS, "orders", 1, 1)),
            *(facts.PartitionsCreated(one, 1) for one in new),
        )
        yield made
        await lanes.stop()
        session.close()


async def test_who_asked_what_the_database_refuses_is_told_and_all_others_are_served(night: Night) -> None:
    night.does("CREATE TABLE note (topic_id uuid REFERENCES topic)")
    night.does("INSERT INTO note SELECT topic_id FROM topic")
    service = await night.owner()
    asked = [
        night.asks(created("before")),
        night.asks(DeleteTopics(topics=(NamedTopic(name="orders"),))),
        night.asks(created("behind")),
    ]
    before, refused, behind = await night.answers(service, *asked)
    for answer in (before, behind):
        assert isinstance(answer, CreateTopicsAnswer) and answer.topics[0].error is ErrorCode.NONE
    assert isinstance(refused, TopicResults)
    assert refused.topics[0].error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "ForeignKeyViolation" in refused.topics[0].text and "log of node-1" in refused.topics[0].text
    names = {topic.name for topic in store.load(night.connection).topics.values()}
    assert names == {"orders", "before", "behind"}
    assert requests.ready(night.connection, KIND, [KEY]) == [], "no successor meets it again"
    assert night.lost == []


async def test_what_was_refused_is_kept_for_people_with_its_lane_kind_and_error(night: Night) -> None:
    night.does("CREATE TABLE note (topic_id uuid REFERENCES topic)")
    night.does("INSERT INTO note SELECT topic_id FROM topic")
    service = await night.owner()
    for number in (1, 2):
        await night.answers(service, night.asks(DeleteTopics(topics=(NamedTopic(name="orders"),))))
        assert night.notes.is_due
        await night.notes.write(night.query)
        columns = "node, lane, key, events, error, number, last_at >= first_at"
        [row] = night.connection.execute(f"SELECT {columns} FROM refusal").fetchall()
        assert row == ("node-1", "controller", KEY, "DeleteTopics", "ForeignKeyViolation", number, True)
    [(text,)] = night.connection.execute("SELECT text FROM refusal").fetchall()
    assert text.startswith("update or delete on table") and "\n" not in text
    assert not night.notes.is_due


async def test_what_could_not_be_written_of_it_is_written_later(night: Night) -> None:
    async def lost(_function: Any) -> None:
        raise ConnectionLost("away")

    night.notes.add(Refused("coordinator/1", "orders", ("Joined", "Left"), ValueError("first\nsecond")))
    await night.notes.write(lost)
    night.notes.add(Refused("coordinator/1", "clicks", ("Left", "Joined"), ValueError("third")))
    await night.notes.write(night.query)
    rows = night.connection.execute("SELECT lane, key, events, number, text FROM refusal").fetchall()
    assert rows == [("coordinator/1", "clicks", "Joined, Left", 4, "third")]


async def test_a_mistake_that_comes_again_after_a_day_begins_anew(night: Night) -> None:
    for number in (1, 1):
        night.notes.add(Refused("controller", KEY, (), ValueError("it")))
        await night.notes.write(night.query)
        counted = night.connection.execute("SELECT number, first_at > now() - interval '1 h' FROM refusal")
        assert counted.fetchall() == [(number, True)]
        night.does(
            "UPDATE refusal SET first_at = now() - interval '1 day', last_at = now() - interval '13 h'"
        )


async def test_a_computed_plan_that_cannot_be_stored_has_failed(night: Night) -> None:
    """It was brought to the lane once a second, for ever, and by each owner anew."""
    options = PlanOptions(kind=PlanKind.SPREAD)
    plan = Plan(PLAN, options, PlanPhase.COMPUTING, 2, 0, 1, proposed_by="mira")
    night.has(facts.PlanChanged(plan), facts.WorkOffered(COMPUTE_PLAN, str(PLAN), 2))
    night.does("ALTER TABLE plan_step ADD CHECK (number < 1)")
    steps = [PlanStep(number, ORDERS, "orders", 0, 1, (1,), (1,)) for number in range(2)]
    result = {"parts": [msgspec.json.encode(steps).decode()], "cost": {}}
    done = "UPDATE work_item SET state = 'done', result = %s::jsonb WHERE kind = %s"
    night.connection.execute(done, (msgspec.json.encode(result).decode(), COMPUTE_PLAN))
    service = await night.owner()
    found = "SELECT phase, why FROM plan"
    async with asyncio.timeout(30):
        while (row := night.connection.execute(found).fetchone()) == ("Computing", ""):
            # The desk tells again of what is done and not adopted.
            service.woken("work", f"{COMPUTE_PLAN} {PLAN}")
            await asyncio.sleep(0.05)
    assert row is not None and row[0] == "Failed" and "CheckViolation" in row[1]


async def test_a_computed_plan_outlives_a_full_disk(night: Night) -> None:
    """That is no fault of the plan: what it asks for is written as soon as there is room."""
    plan = Plan(PLAN, PlanOptions(kind=PlanKind.SPREAD), PlanPhase.COMPUTING, 2, 0, 1, proposed_by="mira")
    night.has(facts.PlanChanged(plan), facts.WorkOffered(COMPUTE_PLAN, str(PLAN), 2))
    night.does(
        "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$"
    )
    night.does("CREATE TRIGGER no_room BEFORE INSERT ON plan_step FOR EACH ROW EXECUTE FUNCTION no_room()")
    steps = [PlanStep(0, ORDERS, "orders", 0, 1, (1,), (1,))]
    result = {"parts": [msgspec.json.encode(steps).decode()], "cost": {}}
    done = "UPDATE work_item SET state = 'done', result = %s::jsonb WHERE kind = %s"
    night.connection.execute(done, (msgspec.json.encode(result).decode(), COMPUTE_PLAN))
    service = await night.owner()

    def refused() -> float:
        return REGISTRY.get_sample_value("muster_events_refused_total", {"room": "controller"}) or 0.0

    before = refused()
    async with asyncio.timeout(30):
        while refused() == before:
            service.woken("work", f"{COMPUTE_PLAN} {PLAN}")
            await asyncio.sleep(0.05)
        night.does("DROP TRIGGER no_room ON plan_step")
        found = "SELECT phase, why FROM plan"
        while (row := night.connection.execute(found).fetchone()) == ("Computing", ""):
            service.woken("work", f"{COMPUTE_PLAN} {PLAN}")
            await asyncio.sleep(0.05)
    assert row is not None and row[0] != "Failed"


async def test_a_plan_whose_next_move_cannot_be_written_holds_up_nobody_else(night: Night) -> None:
    """What a turn goes on with by itself is met by each owner from its first turn on."""
    plan = Plan(PLAN, PlanOptions(kind=PlanKind.SPREAD), PlanPhase.RUNNING, 2, 0, 1, step_count=1)
    step = PlanStep(0, ORDERS, "orders", 0, 1, (1,), (2,))
    night.has(facts.PlanChanged(plan), facts.PlanStepsAdded(PLAN, (step,)))
    with night.connection.transaction():
        enroll(night.connection, 2, "another secret", rotate=False)
    night.has(facts.BrokerChanged(BrokerRow(2, 1, str(UUID(int=8)), {})))
    known = uuid5(PLAN, "0")
    move = facts.Reassignment(known, UUID(int=2), "gone", 0, (1,), (2,), facts.Phase.INIT, "mira", "")
    night.has(facts.ReassignmentChanged(move))
    night.does("UPDATE reassignment SET phase = 'Done', ended_at = now(), copied_bytes = 0")
    for _ in range(2):
        service = await night.owner()
        [answer] = await night.answers(service, night.asks(created(f"of-{uuid4()}")))
        assert isinstance(answer, CreateTopicsAnswer) and answer.topics[0].error is ErrorCode.NONE
        await service.give_up(None)
    assert night.connection.execute("SELECT state FROM plan_step").fetchall() == [("Waiting",)]


async def test_a_session_whose_end_cannot_be_written_holds_up_nobody_for_long(night: Night) -> None:
    """Time asks for it in every turn; as after a takeover the session begins anew meanwhile."""
    night.does(
        "CREATE FUNCTION refused() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'no broker is ever fenced'; END $$"
    )
    night.does("CREATE TRIGGER refused BEFORE UPDATE ON broker FOR EACH ROW EXECUTE FUNCTION refused()")
    core = replace(ControllerSettings(), broker_session_timeout_ms=2_000, closed_link_timeout_ms=2_000)
    service = await night.owner(ServiceSettings(core=core))

    def failed() -> float:
        return REGISTRY.get_sample_value("muster_events_refused_total", {"room": "controller"}) or 0.0

    before = failed()
    async with asyncio.timeout(60):
        while failed() < before + 4:
            [answer] = await night.answers(service, night.asks(created(f"of-{uuid4()}")))
            assert answer.topics[0].error is ErrorCode.NONE
            await asyncio.sleep(0.05)
    assert night.lost == []
