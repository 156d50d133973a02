"""This room is a consumer's session with its group's coordinator, without any socket (000 chapter 11).

It obeys section 3 of the native protocol's tables: one connection at a time, whole ownership, and its own
deadline, which is S after it *sent* the last answer that it knows was received (section 5). The shell
tells it what happened and obeys the directives in their order, before it tells the next thing.

    session = MemberSession(wishes)
    session.connected(now)                 -> Send(RegisterConsumer)
    session.hear(message, now)             -> directives
    session.fetchers_ended(answer, now)    -> after EndFetchers(answer=…)
    session.may_fetch(now)                 before each fetch; False: call tick(now)
    session.advance(partition, offset)     as records are consumed
    session.tick(now)                      at session.look_again_at, at the latest
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum, auto

from muster.client.core import told
from muster.client.core.directives import (
    CommitAnswered,
    CommitLost,
    Directive,
    Disconnect,
    EndFetchers,
    Left,
    Rediscover,
    Refused,
    Send,
    StandBy,
    StartFetchers,
)
from muster.client.core.endings import UNREACHED, Ending, Farewell
from muster.client.core.wishes import Wishes
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, after
from muster.messages.member import (
    BrokerInfo,
    ClusterMetadataResponse,
    CommitOffsetsResponse,
    LeaveResponse,
    NodeInfo,
    PingRequest,
    PingResponse,
    RegisterConsumerResponse,
    StartFetcherRequest,
    StartFetcherResponse,
    StopFetcherRequest,
    ToMember,
    TopicCount,
    TopicOffsets,
)
from muster.messages.partitions import Partition, Position, by_topic, each_partition, positions_by_topic

NO_OFFSET = -1
RETRY_MS = 500
"""How long a member waits after a refusal that may pass."""

SOON_MS = 100
"""How long it waits while a shard changes hands, or its new owner loads it."""

_CHANGING_HANDS = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class Stage(Enum):
    """Where the conversation stands."""

    APART = auto()
    WAITING = auto()
    REGISTERED = auto()
    LEAVING = auto()
    OVER = auto()


class MemberSession:
    """One consumer's session; not shared between threads.

    `told` is true from the first StartFetcher of the present connection on: what it fetches is what it owns.
    `threads` is to which consumer thread the coordinator dealt each partition; a new mapping at each word.
    `standbys` is what it stands by for, and what was committed there when it was told.
    """

    def __init__(self, wishes: Wishes) -> None:
        self.wishes = wishes
        self.stage = Stage.APART
        self.deadline: Instant | None = None
        self.generation = 0
        self.nodes: tuple[NodeInfo, ...] = ()
        self.brokers: tuple[BrokerInfo, ...] = ()
        self.fetching: dict[Partition, Position] = {}
        self.threads: Mapping[Partition, str] = {}
        self.standbys: Mapping[Partition, int] = {}
        self.told = False
        self._obeyed = (0, 0)
        self._registered_at = Instant(0)
        self._correlation_id = 0
        self._register_id = 0
        self._answered: tuple[int, Instant] = (0, Instant(0))
        self._out_of_range: dict[Partition, int | None] = {}
        """The committed offset that counts for nothing; None: whatever is told next."""
        self._lapsed: dict[Partition, int] = {}
        self._commits: dict[int, None] = {}
        self._ending: dict[int, Ending] = {}
        self._last_ending = self._leave_id = 0
        self._is_abandoned = False
        self._farewell: Farewell | None = None

    # -- what the shell may ask -------------------------------------------------------------

    @property
    def look_again_at(self) -> Instant | None:
        """When `tick` has something to do though nothing is heard."""
        instants = [] if self.deadline is None else [self.deadline]
        if self.stage is Stage.WAITING:
            instants.append(after(self._registered_at, self._third_ms))
        if self._farewell is not None:
            instants.append(self._farewell.by)
        return min(instants, default=None)

    def may_fetch(self, now: Instant) -> bool:
        """Whether a fetch may be begun now, or a frame handled: the deadline has not passed."""
        deadline = self.deadline
        return deadline is None or now < deadline

    def advance(self, partition: Partition, next_offset: int) -> None:
        """The consumer is done with everything before `next_offset`; unknown partitions are passed over."""
        for positions in (self.fetching, *(ending.positions for ending in self._ending.values())):
            if (position := positions.get(partition)) is not None:
                positions[partition] = Position(next_offset, position.generation)
        self._has_come_to(partition, next_offset)

    # -- what the shell tells ---------------------------------------------------------------

    def connected(self, now: Instant) -> list[Directive]:
        """A connection to the coordinator is open, the only one."""
        if self.stage is Stage.OVER:
            return [Disconnect("the session is over")]
        late: list[Directive] = []
        if not self.may_fetch(now):
            if self._farewell is not None:
                return [Disconnect("leaving"), *self._stop_by_clock(now)]
            late, self.deadline = self._lapse(), None
        self.stage = Stage.WAITING
        self._registered_at = now
        self._answered = (0, now)
        self._register_id = self._next_id()
        return [*late, Send(self.wishes.in_a_frame(self._register_id, self.generation))]

    def disconnected(self, now: Instant) -> list[Directive]:
        """The connection broke or was closed by the other side; fetchers run on until the deadline."""
        if self.stage in (Stage.APART, Stage.OVER):
            return []
        if self._is_abandoned:
            return self._over("the connection went first")
        if self._farewell is not None:
            self._farewell.unheard = "the connection went first"
        return [*self._part(), Rediscover(now)]

    def hear(self, message: ToMember, now: Instant) -> list[Directive]:
        """One frame of the present connection."""
        if self.stage in (Stage.APART, Stage.OVER):
            return []
        if not self.may_fetch(now):
            return self._stop_by_clock(now)
        match message:
            case RegisterConsumerResponse():
                return self._registered(message, now)
            case ClusterMetadataResponse():
                self.nodes = message.nodes or self.nodes
                self.brokers = message.brokers_info or self.brokers
                return []
            case _ if self.stage is Stage.WAITING:
                return self._give_up("a command before the answer to RegisterConsumer", now)
            case PingRequest():
                return self._pinged(message, now)
            case StopFetcherRequest():
                return self._told_to_stop(message, now)
            case StartFetcherRequest():
                return self._told_to_start(message, now)
            case CommitOffsetsResponse():
                return self._commit_answered(message, now)
            case LeaveResponse():
                return self._over(self._farewell.unheard if self._farewell else "")

    def tick(self, now: Instant) -> list[Directive]:
        """Time has passed."""
        if self.stage is Stage.OVER:
            return []
        if not self.may_fetch(now):
            return self._stop_by_clock(now)
        if self._farewell is not None and now >= self._farewell.by:
            return self._over(self._farewell.unheard or "the coordinator is silent")
        if self.stage is Stage.WAITING and now >= after(self._registered_at, self._third_ms):
            return self._give_up("RegisterConsumer stayed unanswered", now)
        return []

    def fetchers_ended(self, answer: int, now: Instant) -> list[Directive]:
        """The fetchers of an EndFetchers with this `answer` have ended; positions were told by `advance`."""
        ending = self._ending.pop(answer, None)
        if ending is None or self.stage is Stage.OVER:
            return []
        if not self.may_fetch(now):
            return self._stop_by_clock(now)
        farewell, answers = self._farewell, list[Directive]()
        if ending.request is not None:
            where = self._known(ending.positions) if self.wishes.auto_commit else ()
            answers.append(Send(self.wishes.stopped(ending.request, where)))
        elif farewell is not None:
            farewell.ended.update(ending.positions)
        if farewell is None or farewell.positions is not None or self._ending:
            return answers
        farewell.positions, self.deadline = farewell.ended, None
        leaving = self._commit_then_leave(farewell.ended) if self.stage is Stage.LEAVING else ()
        return [*answers, *leaving]

    def out_of_range(self, partition: Partition, now: Instant) -> list[Directive]:
        """A fetcher's offset does not exist at the leader: stop, disconnect, register again (000 chapter 11).

        Its starts follow auto_offset_reset until something else is committed, as others are found only one by
        one; or until the consumer has come to what is committed, or another may have had the partition.
        """
        if partition not in self.fetching:
            return []
        self._out_of_range[partition] = None
        return [*self._end(self.fetching), *self._give_up(f"{partition} is out of range", now)]

    def subscribe(self, topic_count: tuple[TopicCount, ...], now: Instant) -> list[Directive]:
        """Other topics: register again with the same token."""
        self.wishes = replace(self.wishes, topic_count=topic_count)
        if self.stage in (Stage.WAITING, Stage.REGISTERED):
            return self._give_up("the subscription changed", now)
        return []

    def commit(self, positions: Mapping[Partition, Position]) -> tuple[int, list[Directive]]:
        """Commit offsets, each with the generation it was fetched under; the number names the answer.

        The number is 0 and nothing is sent while no connection is registered. A member that leaves may
        still commit what it holds: its rows name it until its Leave.
        """
        if self.stage not in (Stage.REGISTERED, Stage.LEAVING) or not positions:
            return 0, []
        for partition, position in positions.items():
            self._has_come_to(partition, position.offset)
        correlation_id = self._next_id()
        self._commits[correlation_id] = None
        return correlation_id, [Send(self.wishes.commit(correlation_id, positions_by_topic(positions)))]

    def leave(self, now: Instant, reason: str = "") -> list[Directive]:
        """End fetchers, commit, leave: each step after the answer to the one before, all within a session.

        Where the connection goes meanwhile, or is not there, it is done at the next one. Asked again, it goes
        on leaving. `reason` is for people: the journal keeps it.
        """
        if self._farewell is not None or self.stage is Stage.OVER:
            return []
        if self.deadline is None or not self.may_fetch(now):
            was_there = self.deadline is not None or bool(self._lapsed)
            return self._over(UNREACHED if was_there else "")
        # Its pings keep the session alive, so its own deadline would never end a farewell without an answer.
        self._farewell = Farewell(after(now, self.wishes.session_timeout_ms), reason)
        if self.stage is Stage.REGISTERED:
            self.stage = Stage.LEAVING
        else:
            self._farewell.unheard = UNREACHED
        return [self._end_and_answer(None, frozenset(self.fetching))]

    def abandon(self, now: Instant) -> list[Directive]:
        """Leave, with nothing committed by itself that is not yet: it comes again. Nobody is looked for."""
        self.wishes, self._is_abandoned = replace(self.wishes, auto_commit=False), True
        if self.stage in (Stage.APART, Stage.WAITING):
            return self._over(UNREACHED if self.deadline or self._lapsed or self._farewell else "")
        return self.leave(now)

    # -- frames -----------------------------------------------------------------------------

    def _registered(self, answer: RegisterConsumerResponse, now: Instant) -> list[Directive]:
        if self.stage is not Stage.WAITING or answer.correlation_id != self._register_id:
            return []
        error = ErrorCode(answer.error_code)
        if error is not ErrorCode.NONE:
            return self._refused(error, answer, now)
        if self._farewell is not None:
            self.stage, self._farewell.unheard = Stage.LEAVING, self._farewell.refused
            self._live_from(self._registered_at)
            positions = self._farewell.positions
            return [] if positions is None else self._commit_then_leave(positions)
        self.stage = Stage.REGISTERED
        # By the generation known before: in the one that is answered they may be another's already.
        lapsed = [] if answer.known else self._lapse()
        self.generation = max(self.generation, answer.generation)
        self._live_from(self._registered_at)
        return lapsed

    def _refused(self, error: ErrorCode, answer: RegisterConsumerResponse, now: Instant) -> list[Directive]:
        if error.retriable:
            redirected = error is ErrorCode.NOT_COORDINATOR and answer.coordinator_address
            wait_ms = SOON_MS if error in _CHANGING_HANDS else RETRY_MS
            not_before = now if redirected else after(now, wait_ms)
            return [*self._hang_up(answer.error_text), Rediscover(not_before, answer.coordinator_address)]
        if self._farewell is not None:
            return self._over(f"it was refused: {error.name}")
        ended = [*self._end(self.fetching), *self._stand_by({})]
        parted = self._hang_up(answer.error_text)
        self.stage, self.deadline = Stage.OVER, None
        return [*ended, *parted, Refused(error, answer.error_text)]

    def _pinged(self, ping: PingRequest, now: Instant) -> list[Directive]:
        last, answered_at = self._answered
        if ping.number == last + 1:
            if last > 0:
                self._live_from(answered_at)
            self._answered = (ping.number, now)
        elif ping.number != last:
            self._answered = (ping.number, now)
        self.nodes = ping.nodes or self.nodes
        self.generation = max(self.generation, ping.generation)
        positions = self.fetching
        if not self.wishes.auto_commit:
            positions = {one: Position(NO_OFFSET, position.generation) for one, position in positions.items()}
        return [
            Send(
                PingResponse(
                    consumer_id=self.wishes.consumer_id,
                    number=ping.number,
                    generation=self.generation,
                    offset_info=positions_by_topic(positions),
                    standby_info=by_topic(self.standbys),
                )
            )
        ]

    def _told_to_stop(self, request: StopFetcherRequest, now: Instant) -> list[Directive]:
        if not self._obey(request.generation, request.version):
            return self._give_up("StopFetcher with an old key", now)
        if self._farewell is not None and self._farewell.positions is None:
            # All of them end anyway; until the record in hand is done nobody else may have its partition.
            return []
        return [self._end_and_answer(request, frozenset(each_partition(request.partitions)))]

    def _told_to_start(self, request: StartFetcherRequest, now: Instant) -> list[Directive]:
        if not self._obey(request.generation, request.version):
            return self._give_up("StartFetcher with an old key", now)
        self.nodes = request.nodes or self.nodes
        self.brokers = request.brokers_info or self.brokers
        self.told = True
        directives: list[Directive] = []
        if self.stage is Stage.REGISTERED:
            self.threads = told.threads(request)
            directives = self._become(told.whole_ownership(request), request.generation)
            directives += self._stand_by(told.standbys(request))
        answer = StartFetcherResponse(
            consumer_id=self.wishes.consumer_id, generation=request.generation, version=request.version
        )
        return [*directives, Send(answer)]

    def _become(self, owned: Mapping[Partition, int], generation: int) -> list[Directive]:
        """Stop what is not named, start what is missing, leave the rest alone."""
        directives = self._end([one for one in self.fetching if one not in owned])
        self._out_of_range = {one: at for one, at in self._out_of_range.items() if one in owned}
        missing = {one: offset for one, offset in owned.items() if one not in self.fetching}
        kept = frozenset(one for one in missing if self._nobody_else_had(one, generation))
        for partition in self._out_of_range.keys() & missing.keys():
            told, ignored = missing[partition], self._out_of_range.pop(partition)
            if ignored in (None, told):
                self._out_of_range[partition], missing[partition] = told, NO_OFFSET
        for partition, offset in missing.items():
            self._lapsed.pop(partition, None)
            self.fetching[partition] = Position(offset, generation)
        if missing:
            directives.append(StartFetchers(missing, kept))
        return directives

    def _stand_by(self, standbys: Mapping[Partition, int]) -> list[Directive]:
        if standbys.keys() == self.standbys.keys():
            return []
        self.standbys = standbys
        return [StandBy(standbys)]

    def _nobody_else_had(self, partition: Partition, generation: int) -> bool:
        """It lapsed here, and the only generation that was opened since, if one was, gave it back.

        Partitions change hands at the opening of a generation and at no other time.
        """
        lapsed = self._lapsed.get(partition)
        return lapsed is not None and generation <= lapsed + 1

    def _has_come_to(self, partition: Partition, offset: int) -> None:
        if self._out_of_range.get(partition) == offset:
            del self._out_of_range[partition]

    def _commit_answered(self, answer: CommitOffsetsResponse, now: Instant) -> list[Directive]:
        if self._farewell is not None and answer.correlation_id == self._leave_id:
            self._farewell.unheard = told.why_refused(answer)
            if ErrorCode(answer.error_code).retriable:
                # Said again at the next connection, as everything that has no answer.
                return [*self._hang_up(self._farewell.unheard), Rediscover(after(now, SOON_MS))]
            self._farewell.refused, self._farewell.positions = self._farewell.unheard, {}
            return self._say_leave()
        if answer.correlation_id not in self._commits:
            return []
        del self._commits[answer.correlation_id]
        error = ErrorCode(answer.error_code)
        return [CommitAnswered(answer.correlation_id, error, told.refused(answer))]

    # -- endings ----------------------------------------------------------------------------

    def _live_from(self, at: Instant) -> None:
        """Who leaves and fetches nothing any more has no deadline but that: it is judged by who owns what."""
        if self._farewell is None or self._farewell.positions is None:
            self.deadline = after(at, self.wishes.session_timeout_ms)

    def _stop_by_clock(self, now: Instant) -> list[Directive]:
        """The deadline has passed: the partitions may be another's already."""
        if self._farewell is not None:
            return self._over(self._farewell.unheard or "the coordinator is silent")
        ended = self._lapse()
        self.deadline = None
        return [*ended, *self._give_up("the session is over by its own clock", now)]

    def _give_up(self, text: str, now: Instant) -> list[Directive]:
        return [*self._hang_up(text), Rediscover(now)]

    def _hang_up(self, text: str) -> list[Directive]:
        connected = self.stage not in (Stage.APART, Stage.OVER)
        parted = self._part()
        return [Disconnect(text), *parted] if connected else parted

    def _part(self) -> list[Directive]:
        """The connection is over; whatever it still holds is never read."""
        self.stage = Stage.APART
        self.told = False
        # Who leaves commits with the rest what was to be stopped for it.
        self._ending = {n: replace(one, request=None) for n, one in self._ending.items() if self._farewell}
        lost, self._commits = tuple(self._commits), {}
        return [CommitLost(lost)] if lost else []

    def _over(self, unheard: str) -> list[Directive]:
        directives = [*self._end(self.fetching), *self._stand_by({}), *self._hang_up("leaving")]
        self.stage, self.deadline = Stage.OVER, None
        return [*directives, Left(unheard)]

    def _lapse(self) -> list[Directive]:
        """End everything: by now it may be another's, though not before the generation rises."""
        self._lapsed.update(dict.fromkeys(self.fetching, self.generation))
        self._out_of_range.clear()
        return self._end(self.fetching)

    def _end(self, partitions: Iterable[Partition]) -> list[Directive]:
        ended = frozenset(partitions)
        for partition in ended:
            self.fetching.pop(partition, None)
        return [EndFetchers(ended)] if ended else []

    def _end_and_answer(
        self, request: StopFetcherRequest | None, partitions: frozenset[Partition]
    ) -> EndFetchers:
        """From now on these are not fetched; the answer leaves when the shell says that they have ended."""
        ending = {one: self.fetching.pop(one) for one in partitions if one in self.fetching}
        self._out_of_range = {one: at for one, at in self._out_of_range.items() if one not in partitions}
        self._last_ending += 1
        self._ending[self._last_ending] = Ending(request, ending)
        return EndFetchers(frozenset(ending), self._last_ending)

    def _commit_then_leave(self, positions: Mapping[Partition, Position]) -> list[Directive]:
        offset_info = self._known(positions)
        if not self.wishes.auto_commit or not offset_info:
            return self._say_leave()
        self._leave_id = self._next_id()
        return [Send(self.wishes.commit(self._leave_id, offset_info))]

    def _say_leave(self) -> list[Directive]:
        return [Send(self.wishes.leave(self._next_id(), self._farewell.reason if self._farewell else ""))]

    # -- small things -----------------------------------------------------------------------

    @property
    def _third_ms(self) -> int:
        return max(1, self.wishes.session_timeout_ms // 3)

    def _next_id(self) -> int:
        self._correlation_id += 1
        return self._correlation_id

    def _obey(self, generation: int, version: int) -> bool:
        """Keys never go back; a frame that does so cannot come on one connection."""
        if (generation, version) < self._obeyed:
            return False
        self._obeyed = (generation, version)
        self.generation = max(self.generation, generation)
        return True

    def _known(self, positions: Mapping[Partition, Position]) -> tuple[TopicOffsets, ...]:
        return positions_by_topic({one: at for one, at in positions.items() if at.offset != NO_OFFSET})
