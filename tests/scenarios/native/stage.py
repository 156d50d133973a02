"""This room plays a transcript: commands drive the real cores by hand, and all that is said comes out.

> start ann orders        a consumer process; it connects and sends Register
> hear ann [n]            the coordinator handles (the next n) frames of ann, one turn each
> reach ann [n]           ann handles (the next n) frames that were sent to her
> exchange                everything under way arrives, until nothing is
> handler                 a rebalance handler reads, computes and hands in (reads / hands in: one step)
> wait 2000               time passes, for everybody who is not paused; no frame moves
    > live 2000               time passes, and everything that is said arrives at once
> lose to|from ann        what is under way in this direction is lost
> cut ann                 ann's connection breaks; she notices, the coordinator does not yet
> notice ann              the coordinator notices that ann's last broken connection is closed
> connect ann             ann opens a new connection and registers
> subscribe ann clicks    other topics
> consume ann orders-0 5  ann is done with everything before offset 5
> commit ann              ann commits where she is
> reset orders-0 5        an operator sets the committed offset (-1: a tool of Kafka's deletes it)
> outside orders-0 5      somebody who is no member commits, as Kafka's tool does to reset offsets
> knock                   a Kafka consumer comes, is given an id, and never joins
> crash|pause|wake|mute|unmute ann
> mute ann StopFetcher    ann reacts to everything else
> take over               another owner loads the group; the old connections are dead
> drop cache              the same owner loads the group again
> show                    rows and what everybody fetches
"""

from collections import deque

import msgspec

from coordinator.core import offsets, rebalance
from coordinator.core.classic import offsets as classic_offsets
from coordinator.core.decide import decide, load
from coordinator.core.draft import GroupDecision
from coordinator.core.events import (
    ClassicAnswer,
    ConnectionClosed,
    ConnectionId,
    GroupEvent,
    HangUp,
    Heard,
    ItemFinished,
    Join,
    OffsetDeletion,
    OutsideOffsets,
    Say,
    SayLater,
    Waiter,
)
from coordinator.core.memory import GroupState
from coordinator.core.proposal import Proposal
from coordinator.core.settings import GroupSettings, Surroundings
from groups.core import records
from groups.core.requests import Asked, Findings, Found, GroupRequest, ResetOffsets
from groups.core.rows import apply
from groups.core.state import GroupRows
from muster.client.core import directives
from muster.client.core.session import MemberSession, Stage
from muster.client.core.wishes import Wishes
from muster.kernel.instants import Instant
from muster.messages.member import (
    CommitOffsetsRequest,
    CommitOffsetsResponse,
    Frame,
    StartFetcherRequest,
    StopFetcherRequest,
    TopicCount,
    TopicPartitions,
)
from muster.messages.partitions import Partition, each_position
from tests.simulation.native.topics import layout, layouts

SETTINGS = GroupSettings(rebalance_max_retries=1, lease_ttl_ms=2_000)
TOOL = ConnectionId("tool")
LAYOUTS = layouts(layout("orders", 1, 2), layout("clicks", 2, 2))


class Actor:
    """A consumer on the stage; `inbound` and `outbound` are the frames under way."""

    def __init__(self, name: str, topics: tuple[str, ...], token: str) -> None:
        self.name = name
        wishes = Wishes("readers", name, token.ljust(43, "."), _counts(topics), session_timeout_ms=6_000)
        self.session = MemberSession(wishes)
        self.connection = ConnectionId("")
        self.inbound: deque[Frame] = deque()
        self.outbound: deque[Frame] = deque()
        self.fetchers: dict[Partition, int] = {}
        self.away = False
        self.mute: tuple[str, ...] = ()


class Player:
    """One transcript's world."""

    def __init__(self, settings: GroupSettings = SETTINGS, rows: GroupRows | None = None) -> None:
        self.settings = settings
        self.now = Instant(0)
        self.rows = rows or GroupRows("readers")
        self.actors: dict[str, Actor] = {}
        self.lines: list[str] = []
        self.snapshot: Proposal | None = None
        self.items = 0
        self.tokens = 0
        self.connections = 0
        self.state: GroupState = self._load({})

    # -- commands ---------------------------------------------------------------------------

    def play(self, command: str) -> list[str]:
        """One command; the lines that it brought about."""
        self.lines = []
        verb, *words = command.split()
        getattr(self, f"_{verb}")(*words)
        return self.lines

    def _start(self, name: str, *topics: str) -> None:
        self.tokens += 1
        self.actors[name] = Actor(name, topics or ("orders",), f"token-{self.tokens}")
        self._connect(name)

    def _connect(self, name: str) -> None:
        actor = self.actors[name]
        self.connections += 1
        actor.connection = ConnectionId(f"{name}/{self.connections}")
        actor.inbound.clear()
        actor.outbound.clear()
        self._obey(actor, actor.session.connected(self.now))

    def _hear(self, name: str, count: str = "all") -> None:
        actor = self.actors[name]
        for _ in range(len(actor.outbound) if count == "all" else int(count)):
            frame = actor.outbound.popleft()
            if isinstance(frame, CommitOffsetsRequest):
                self._commit_heard(actor, frame)
            else:
                self._turn(Heard(actor.connection, frame))  # type: ignore[arg-type]

    def _reach(self, name: str, count: str = "all") -> None:
        actor = self.actors[name]
        for _ in range(len(actor.inbound) if count == "all" else int(count)):
            if not actor.inbound:
                return
            frame = actor.inbound.popleft()
            if type(frame).__name__.removesuffix("Request") in actor.mute:
                self._say(f"{name} does not react to {_text(frame)}")
                continue
            self._obey(actor, actor.session.hear(frame, self.now))  # type: ignore[arg-type]

    def _exchange(self) -> None:
        for _ in range(100):
            busy = [
                actor
                for actor in self.actors.values()
                if not actor.away and (actor.inbound or actor.outbound)
            ]
            if not busy:
                return
            for actor in busy:
                self._hear(actor.name)
                self._reach(actor.name)
        raise AssertionError("the exchange does not end")

    def _handler(self, *step: str) -> None:
        if step != ("hands", "in"):
            if not self.rows.handler_asked:
                self._say("no handler is asked for")
                return
            self.snapshot = rebalance.compute(self.rows, LAYOUTS, _no_pattern)
        if step != ("reads",):
            assert self.snapshot is not None
            self.items += 1
            result = msgspec.json.decode(msgspec.json.encode(self.snapshot), type=Proposal)
            self._say(f"handler: {result.why or 'not necessary'}")
            self._turn(ItemFinished(f"item-{self.items}", result))

    def _live(self, ms: str) -> None:
        self._wait(ms, exchange=True)

    def _wait(self, ms: str, exchange: bool = False) -> None:
        end = self.now + int(ms)
        while True:
            instants = [actor.session.look_again_at for actor in self.actors.values() if not actor.away]
            instants.append(self.decision.look_again_at)
            due = [instant for instant in instants if instant is not None and instant <= end]
            self.now = Instant(max(self.now, min(due))) if due else Instant(end)
            self._turn()
            for actor in self.actors.values():
                if not actor.away:
                    self._obey(actor, actor.session.tick(self.now))
            if exchange:
                self._exchange()
            if not due:
                return

    def _lose(self, direction: str, name: str) -> None:
        actor = self.actors[name]
        (actor.inbound if direction == "to" else actor.outbound).clear()

    def _cut(self, name: str) -> None:
        actor = self.actors[name]
        actor.inbound.clear()
        actor.outbound.clear()
        self._obey(actor, actor.session.disconnected(self.now))

    def _notice(self, name: str) -> None:
        self._turn(ConnectionClosed(self.actors[name].connection))

    def _subscribe(self, name: str, *topics: str) -> None:
        actor = self.actors[name]
        self._obey(actor, actor.session.subscribe(_counts(topics), self.now))

    def _consume(self, name: str, partition: str, offset: str) -> None:
        actor = self.actors[name]
        one = next(each for each in actor.fetchers if str(each) == partition)
        actor.fetchers[one] = int(offset)
        actor.session.advance(one, int(offset))

    def _commit(self, name: str) -> None:
        actor = self.actors[name]
        _, asked = actor.session.commit(dict(actor.session.fetching))
        self._obey(actor, asked)

    def _reset(self, partition: str, offset: str) -> None:
        one = next(each for each in self.rows.offsets if str(each) == partition)
        if int(offset) < 0:
            self._turn(OffsetDeletion(TOOL, Waiter(-1), (one,)))
            return
        findings = Findings((Found(one.topic, one.topic_id, one.number, 0, 1_000),))
        asked = Asked(ResetOffsets("offset", int(offset)))
        self._turn(GroupRequest("r", "olga", "we test", asked, findings))

    def _outside(self, partition: str, offset: str) -> None:
        offsets_of = {one: int(offset) for one in self.rows.offsets if str(one) == partition}
        judgement = classic_offsets.judge(self.state, "", None, -1, offsets_of, {})
        if judgement.not_ready:
            self._turn(OutsideOffsets())
            judgement = classic_offsets.judge(self.state, "", None, -1, offsets_of, {})
        self._committed(judgement)
        self._say(f"  -> {TOOL} hears {judgement.error.name}")

    def _knock(self) -> None:
        self._turn(
            Join(
                connection=TOOL,
                waiter=Waiter(-1),
                fresh_member_id="stranger",
                session_timeout_ms=6_000,
                rebalance_timeout_ms=6_000,
                protocol_type="consumer",
                protocols=(("range", b""),),
                must_know_id=True,
            )
        )

    def _leave(self, name: str) -> None:
        actor = self.actors[name]
        self._obey(actor, actor.session.leave(self.now))

    def _crash(self, name: str) -> None:
        actor = self.actors[name]
        actor.away = True
        actor.fetchers.clear()
        actor.inbound.clear()
        actor.outbound.clear()

    def _pause(self, name: str) -> None:
        self.actors[name].away = True

    def _wake(self, name: str) -> None:
        actor = self.actors[name]
        actor.away = False
        self._obey(actor, actor.session.tick(self.now))

    def _mute(self, name: str, *commands: str) -> None:
        self.actors[name].mute = commands or ("StopFetcher", "StartFetcher")

    def _unmute(self, name: str) -> None:
        self.actors[name].mute = ()

    def _take(self, _over: str) -> None:
        self.state = self._load({})

    def _drop(self, _cache: str) -> None:
        bound = {member: connection for connection, member in self.state.memory.bound.items()}
        self.state = self._load(bound)

    def _show(self) -> None:
        rows = self.rows
        self._say(f"{rows.phase} generation {rows.generation} version {rows.version} {rows.error}".rstrip())
        for member_id in sorted(rows.members):
            owned = rows.owned.get(member_id, {})
            text = ", ".join(
                f"{one} since {tenure.since_generation}{'' if tenure.running else ' assigned'}"
                for one, tenure in sorted(owned.items())
            )
            self._say(f"{member_id} owns {text or 'nothing'}")
        for name, actor in sorted(self.actors.items()):
            fetched = ", ".join(f"{one}@{offset}" for one, offset in sorted(actor.fetchers.items()))
            self._say(f"{name} fetches {fetched or 'nothing'} ({actor.session.stage.name.lower()})")

    # -- the coordinator --------------------------------------------------------------------

    def _turn(self, *events: GroupEvent) -> None:
        self._settle(decide(self.state, events, self.now, self.settings, Surroundings()))

    def _load(self, bound: dict[str, ConnectionId]) -> GroupState:
        self._settle(load(self.rows, self.now, self.settings, Surroundings(), bound))
        return self.state

    def _settle(self, decision: GroupDecision) -> None:
        if decision.records:
            self.rows = apply(self.rows, decision.records)
            assert self.rows == decision.state.rows
        self.state, self.decision = decision.state, decision
        for record in decision.records:
            self._say(f"  {_text_of_record(record)}")
        for saying in (*decision.replies, *decision.commands):
            if saying.connection == TOOL:
                self._say(f"  -> {TOOL} is answered")
                continue
            name = saying.connection.partition("/")[0]
            actor = self.actors[name]
            present = saying.connection == actor.connection and not actor.away
            match saying:
                case Say() | SayLater():
                    assert not isinstance(saying.message, ClassicAnswer), "nobody speaks Kafka's protocol"
                    self._say(f"  -> {saying.connection} {_text(saying.message)}")
                    if present and actor.session.stage is not Stage.APART:
                        actor.inbound.append(saying.message)
                case HangUp():
                    self._say(f"  -> {saying.connection} closed: {saying.text}")
                    if present:
                        self._reach(name)
                        self._obey(actor, actor.session.disconnected(self.now))

    def _commit_heard(self, actor: Actor, request: CommitOffsetsRequest) -> None:
        judgement = offsets.judge(
            self.state, actor.connection, request.consumer_id, each_position(request.offset_info)
        )
        self._committed(judgement)
        answer = CommitOffsetsResponse(correlation_id=request.correlation_id, error_code=judgement.error)
        actor.inbound.append(answer)

    def _committed(self, judgement: offsets.Judgement) -> None:
        self.state = offsets.committed(self.state, judgement.accepted)
        self.rows = self.state.rows
        taken = {str(one): offset for one, offset in judgement.accepted.items()}
        refused = {one._replace(number=0) for one in judgement.refused}
        self._say(f"  committed {taken}, refused {len(refused)} topics")

    # -- members ----------------------------------------------------------------------------

    def _obey(self, actor: Actor, asked: list[directives.Directive]) -> None:
        for directive in asked:
            match directive:
                case directives.Send():
                    self._say(f"{actor.name} says {_text(directive.message)}")
                    actor.outbound.append(directive.message)
                case directives.EndFetchers():
                    for one in directive.partitions:
                        actor.fetchers.pop(one, None)
                    self._say(f"{actor.name} ends {_partitions(directive.partitions)}")
                    if directive.answer is not None:
                        self._obey(actor, actor.session.fetchers_ended(directive.answer, self.now))
                case directives.StartFetchers():
                    actor.fetchers.update(directive.offsets)
                    self._check_fetchers()
                    self._say(f"{actor.name} starts {_partitions(directive.offsets)}")
                    if directive.kept:
                        self._say(f"{actor.name} goes on where it was: {_partitions(directive.kept)}")
                    for one, offset in directive.offsets.items():
                        actor.session.advance(one, max(offset, 0))
                case directives.Disconnect():
                    self._say(f"{actor.name} hangs up: {directive.text}")
                    actor.inbound.clear()
                case directives.Rediscover():
                    pass
                case _:
                    self._say(f"{actor.name} learns {type(directive).__name__}")

    def _check_fetchers(self) -> None:
        """No two may fetch one partition."""
        for actor in self.actors.values():
            for other in self.actors.values():
                shared = actor.fetchers.keys() & other.fetchers.keys()
                if actor is not other and shared and actor.session.may_fetch(self.now):
                    self._say(f"VIOLATION: {actor.name} and {other.name} fetch {_partitions(shared)}")

    def _say(self, line: str) -> None:
        self.lines.append(line)


def _counts(topics: tuple[str, ...]) -> tuple[TopicCount, ...]:
    return tuple(TopicCount(topic) for topic in topics)


def _no_pattern(pattern: str, topic: str) -> bool:
    return False


def _partitions(partitions: object) -> str:
    return ", ".join(str(one) for one in sorted(partitions)) or "nothing"  # type: ignore[call-overload]


def _text(frame: Frame) -> str:
    words = []
    for name in ("generation", "version", "number", "known"):
        if hasattr(frame, name):
            words.append(f"{name}={getattr(frame, name)}")
    if getattr(frame, "error_code", 0):
        words.append(f"error={frame.error_code}")  # type: ignore[attr-defined]
    if isinstance(frame, StopFetcherRequest):
        words.append(_topics(frame.partitions))
    if isinstance(frame, StartFetcherRequest):
        parts = [
            f"{topic.topic}-{one.partition}@{one.offset}"
            for thread in frame.ownership_info
            for topic in thread.assigned_parts
            for one in topic.partitions
        ]
        words.append(f"[{', '.join(parts)}]")
    if getattr(frame, "offset_info", ()):
        at = [f"{one}@{position.offset}" for one, position in each_position(frame.offset_info)]  # type: ignore[attr-defined]
        words.append(f"[{', '.join(at)}]")
    return f"{type(frame).__name__.removesuffix('Request')}({' '.join(words)})"


def _topics(topics: tuple[TopicPartitions, ...]) -> str:
    return f"[{', '.join(f'{topic.topic}-{number}' for topic in topics for number in topic.partitions)}]"


def _text_of_record(record: records.GroupRecord) -> str:
    words = []
    for name in ("member_id", "why", "generation", "phase", "cause", "item_id", "text"):
        if hasattr(record, name):
            words.append(str(getattr(record, name)))
    if hasattr(record, "partitions"):
        words.append(_topics(record.partitions))
    if hasattr(record, "offset_info"):
        words.append(str({str(one): at.offset for one, at in each_position(record.offset_info)}))
    return f"{type(record).__name__} {' '.join(words)}".rstrip()
