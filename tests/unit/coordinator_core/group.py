"""This room is a group under test: short words for events, and the rows folded from records beside it."""

from coordinator.core import rebalance
from coordinator.core.decide import decide, load
from coordinator.core.draft import GroupDecision
from coordinator.core.events import ConnectionId, GroupEvent, HangUp, Heard, ItemFinished, Say, SayLater
from coordinator.core.settings import GroupSettings, Surroundings
from groups.core.rows import apply
from groups.core.state import GroupRows
from muster.kernel.instants import Instant
from muster.messages.member import (
    Frame,
    PingRequest,
    PingResponse,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
    StartFetcherRequest,
    StartFetcherResponse,
    StopFetcherRequest,
    StopFetcherResponse,
    TopicCount,
)
from muster.messages.partitions import Partition, Position, positions_by_topic
from tests.simulation.native.topics import layout, layouts

ORDERS = layout("orders", 1, 6)
CLICKS = layout("clicks", 2, 3)
LAYOUTS = layouts(ORDERS, CLICKS)
SESSION_MS = 9_000


def orders(number: int) -> Partition:
    return Partition("orders", ORDERS.topic_id, number)


class Group:
    """One group; members answer only when they are told to."""

    def __init__(self, settings: GroupSettings | None = None, rows: GroupRows | None = None) -> None:
        self.settings = settings or GroupSettings()
        self.rows = rows or GroupRows("readers")
        self.surroundings = Surroundings(matches=lambda pattern, topic: topic.startswith(pattern))
        self.now = Instant(0)
        self.items = 0
        self.state = load(self.rows, self.now, self.settings, self.surroundings).state

    def turn(self, *events: GroupEvent) -> GroupDecision:
        """One turn; what is stored must be what is remembered."""
        decision = decide(self.state, events, self.now, self.settings, self.surroundings)
        if decision.records:
            self.rows = apply(self.rows, decision.records)
            assert self.rows == decision.state.rows
        else:
            assert decision.state.rows is self.state.rows
        self.state = decision.state
        return decision

    def wait(self, ms: int) -> GroupDecision:
        self.now = Instant(self.now + ms)
        return self.turn()

    def register(self, name: str, *topics: str, **wishes: object) -> GroupDecision:
        return self.turn(
            registering(name, *topics, **wishes)  # type: ignore[arg-type]
        )

    def rebalance(self) -> GroupDecision:
        """A handler computes and its item is finished."""
        proposal = rebalance.compute(self.rows, LAYOUTS, self.surroundings.matches)
        self.items += 1
        return self.turn(ItemFinished(f"item-{self.items}", proposal))

    def obey(self, decision: GroupDecision, *, offset: int = 0) -> GroupDecision:
        """Everybody answers the commands of a decision; the last turn's decision."""
        for saying in decision.commands:
            if isinstance(saying, Say | SayLater) and (answer := answer_to(saying.message, offset)):
                decision = self.turn(Heard(saying.connection, answer))
        return decision

    def settled(self, *names: str) -> "Group":
        """A group in which these members own everything they want, running."""
        for name in names:
            self.register(name)
        for _ in range(6):
            decision = self.rebalance()
            while any(isinstance(saying, Say | SayLater) for saying in decision.commands):
                decision = self.obey(decision)
        assert self.rows.phase == "Stable"
        return self


def registering(name: str, *topics: str, connection: str = "", **wishes: object) -> Heard:
    request = RegisterConsumerRequest(
        correlation_id=7,
        group_id="readers",
        consumer_id=name,
        token=str(wishes.pop("token", f"token of {name}")).ljust(43, "."),
        topic_count=wishes.pop("topic_count", tuple(map(TopicCount, topics or ("orders",)))),  # type: ignore[arg-type]
        session_timeout_ms=wishes.pop("session_timeout_ms", SESSION_MS),  # type: ignore[arg-type]
        **wishes,  # type: ignore[arg-type]
    )
    return Heard(ConnectionId(connection or f"{name}/1"), request)


def ping_answer(name: str, number: int, positions: dict[Partition, Position], connection: str = "") -> Heard:
    answer = PingResponse(consumer_id=name, number=number, offset_info=positions_by_topic(positions))
    return Heard(ConnectionId(connection or f"{name}/1"), answer)


def answer_to(message: object, offset: int = 0) -> StopFetcherResponse | StartFetcherResponse | None:
    match message:
        case StopFetcherRequest():
            positions = {
                Partition(topic.topic, topic.topic_id, number): Position(offset, message.generation)
                for topic in message.partitions
                for number in topic.partitions
            }
            return StopFetcherResponse(
                consumer_id=message.consumer_id,
                generation=message.generation,
                version=message.version,
                offset_info=positions_by_topic(positions),
            )
        case StartFetcherRequest():
            return StartFetcherResponse(
                consumer_id=message.consumer_id, generation=message.generation, version=message.version
            )
    return None


def error_of(decision: GroupDecision) -> int:
    """The error of the one answer."""
    (answer,) = decision.replies
    assert isinstance(answer, Say) and isinstance(answer.message, RegisterConsumerResponse)
    return answer.message.error_code


def said(decision: GroupDecision, kind: type[Frame]) -> list[str]:
    """On which connections such a command was said."""
    return [
        saying.connection
        for saying in decision.commands
        if isinstance(saying, Say | SayLater) and isinstance(saying.message, kind)
    ]


def pinged(decision: GroupDecision) -> list[str]:
    return said(decision, PingRequest)


def hung_up(decision: GroupDecision) -> list[str]:
    return [saying.connection for saying in decision.commands if isinstance(saying, HangUp)]
