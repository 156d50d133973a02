"""This room follows: one connection and one incremental fetch per peer, over the replication listeners.

Rules: replication.md section 5. An answer is taken over only if it answers the leader epoch and the offset
at which the log still stands; a partition that a peer refuses rests for `replica.fetch.backoff.ms`, for less
where the peer may not know yet that it leads.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import islice
from typing import Final

import structlog

from broker.core import throttling
from broker.core.fetch_sessions import FetchRefused
from broker.core.peer_proof import NO_KEY, Incarnation, ReplicationKey
from broker.core.replica import FetchPosition
from broker.core.replica_log import PartitionKey
from broker.fetch_session import FetchedAnswer, FetchLimits, FetchSession
from broker.hosted import HostedPartition
from broker.introduction import introduce
from broker.log.cutting import Replay
from broker.log.outcomes import AppendRefused, StorageFailed
from broker.long_cuts import LongCuts
from broker.peer_connection import PeerConnection
from broker.replicas import DataPlane
from broker.settings import BrokerSettings
from kafkaserver.missed import MissedBrokers
from muster.client.reaching import reach
from muster.client.securing import trusting
from muster.kafkawire.errors import KafkaWireError, MalformedFrame
from muster.kafkawire.fetch_requests import fetch_frame
from muster.kafkawire.fetching import read_fetch_answer
from muster.kernel.addresses import is_loopback
from muster.kernel.error_codes import ErrorCode
from muster.kernel.security_protocols import SSL
from muster.kernel.tuples import made
from muster.messages.limits import MAX_ROWS_PER_FRAME
from muster.messages.link.from_broker import Arriving
from muster.messages.link.rows import REPLICATION_LISTENER, REPLICATION_SECURITY, BrokerRow

log = structlog.get_logger(__name__)

CONNECT_TIMEOUT_S: Final = 2.0
MOST_DOUBLINGS: Final = 5
"""Of `replica.fetch.backoff.ms`, for a partition whose answers cannot be stored."""
FIRST_REST_MS: Final = 20
"""Where a leader may not know yet that it leads; doubled each time up to `replica.fetch.backoff.ms`."""
MOST_ASKED: Final = 0x7FFFFFFF
"""Questions are numbered by 31 bits."""

_NOT_YET: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)
"""What one of two brokers says, or hears, that the controller has not told of a new leader epoch yet."""


class Replication:
    """What this broker follows, peer by peer; `look_at` is called for each partition whose row changed."""

    def __init__(
        self, plane: DataPlane, settings: BrokerSettings, missed: MissedBrokers | None = None
    ) -> None:
        """`missed` is told of each leader whose connection breaks at its end."""
        self._plane = plane
        self._settings = settings
        self.missed = missed or MissedBrokers()
        self._broker_epoch = 0
        self.key = NO_KEY
        self._endpoints: dict[int, dict[str, str]] = {}
        self._peers: dict[int, PeerFetcher] = {}
        self._leader_of: dict[PartitionKey, int] = {}
        self._arriving: dict[PartitionKey, HostedPartition] = {}

    @property
    def peers(self) -> Mapping[int, "PeerFetcher"]:
        return self._peers

    @property
    def broker_epoch(self) -> int:
        """The epoch of this incarnation; fetches state it, so that an earlier one's are refused."""
        return self._broker_epoch

    def know_self(self, broker_epoch: int, key: ReplicationKey) -> None:
        """The controller registered this incarnation, and told what all brokers share."""
        self._broker_epoch, self.key = broker_epoch, key

    def know_brokers(self, brokers: Iterable[BrokerRow]) -> None:
        """Where peers listen for followers; a changed address is used from the next connection on."""
        self._endpoints = {row.broker_id: row.endpoints for row in brokers}

    def endpoint_of(self, peer: int) -> str:
        return self._endpoints.get(peer, {}).get(REPLICATION_LISTENER, "")

    def trust_of(self, peer: int, host: str) -> ssl.SSLContext | None:
        """What TLS with this peer is spoken with; None: in the clear. Raises OSError for neither."""
        if self._endpoints.get(peer, {}).get(REPLICATION_SECURITY) == SSL:
            return trusting(self._settings.ca_file)
        if not is_loopback(host):
            raise OSError("the peer is on another machine and speaks no TLS")
        return None

    def look_at(self, key: PartitionKey) -> None:
        """Fetch this partition from where its replica now stands, from whom it now follows, or not at all."""
        hosted = self._plane.hosted(*key)
        position = hosted.replica.next_fetch() if hosted is not None else None
        self._note_arriving(key, hosted)
        before = self._leader_of.get(key)
        if before is not None and (position is None or position.leader != before):
            del self._leader_of[key]
            self._peers[before].move(key, None)
        if position is not None:
            self._leader_of[key] = position.leader
            self._fetcher(position.leader).move(key, position)

    def arriving(self) -> tuple[Arriving, ...]:
        """What is here of each partition that a reassignment brings to this broker, for people."""
        return tuple(
            Arriving(*key, hosted.log.size_bytes)
            for key, hosted in islice(self._arriving.items(), MAX_ROWS_PER_FRAME)
        )

    def _note_arriving(self, key: PartitionKey, hosted: HostedPartition | None) -> None:
        """Its row may be another: remember it for as long as it comes and is not in sync."""
        row = hosted.replica.row if hosted is not None else None
        me = self._settings.broker_id
        if hosted is not None and row is not None and me in row.adding and me not in row.isr:
            self._arriving[key] = hosted
        elif self._arriving:
            self._arriving.pop(key, None)

    def _fetcher(self, peer: int) -> "PeerFetcher":
        fetcher = self._peers.get(peer)
        if fetcher is None:
            fetcher = self._peers[peer] = PeerFetcher(peer, self, self._plane, self._settings)
            fetcher.start()
        return fetcher

    async def close(self) -> None:
        """Stop fetching; nothing is appended after this."""
        fetchers, self._peers = list(self._peers.values()), {}
        self._leader_of.clear()
        await asyncio.gather(*(fetcher.stop() for fetcher in fetchers))


class PeerFetcher:
    """The one fetch that is in flight to one peer; reconnects for as long as something is followed there."""

    def __init__(
        self, peer: int, replication: Replication, plane: DataPlane, settings: BrokerSettings
    ) -> None:
        self.peer = peer
        self._replication = replication
        self._plane = plane
        self._settings = settings
        self._wanted: dict[PartitionKey, FetchPosition] = {}
        self._resting: dict[PartitionKey, asyncio.TimerHandle] = {}
        self._long_cuts = LongCuts(plane, self._cut)
        self._session: FetchSession | None = None
        self._connection: PeerConnection | None = None
        self._name = f"broker-{settings.broker_id}"
        self._questions = 0
        self._asks_soon = False
        self._waiting: asyncio.TimerHandle | None = None
        """Ends the connection when the fetch that is under way is not answered."""
        self._has_work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._last_failure = ""
        self._refusals: dict[PartitionKey, tuple[str, int]] = {}
        """Partitions whose last answer could not be stored: why, and how often in a row."""
        self._too_early: dict[PartitionKey, int] = {}
        """How often in a row the peer said that it does not lead a partition in this epoch."""
        self.bytes_fetched = 0
        self.answers = 0

    def __len__(self) -> int:
        """How many partitions are followed at this peer."""
        return len(self._wanted)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"follow broker {self.peer}")

    async def stop(self) -> None:
        self._long_cuts.stop()
        for timer in self._resting.values():
            timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def move(self, key: PartitionKey, position: FetchPosition | None) -> None:
        """Fetch `key` from `position` from the next request on; None: not from this peer any more."""
        if timer := self._resting.pop(key, None):
            timer.cancel()
        if position is not None and self._long_cuts.holds(key, position):
            return
        self._long_cuts.drop(key)
        if position is None:
            self._wanted.pop(key, None)
            self._refusals.pop(key, None)
            self._too_early.pop(key, None)
        else:
            if not self._wanted:
                self._has_work.set()
            self._wanted[key] = position
        if self._session is not None:
            self._session.move(key, position)
            if self._waiting is None:
                self._ask_soon()

    async def _run(self) -> None:
        while True:
            await self._has_work.wait()
            if not self._wanted:
                self._has_work.clear()
                continue
            try:
                await self._follow()
            except (OSError, TimeoutError, EOFError, KafkaWireError, FetchRefused) as error:
                self._note_failure(f"{type(error).__name__} {error}")
            except Exception:
                # Our own mistake must not leave everything that this peer leads unfollowed for ever.
                log.exception("following failed", peer=self.peer)
            finally:
                self._session = None
            await asyncio.sleep(self._settings.replica_fetch_backoff_ms / 1000)

    def _note_failure(self, text: str) -> None:
        if text != self._last_failure:
            address = self._replication.endpoint_of(self.peer)
            log.warning("cannot follow", peer=self.peer, address=address, reason=text)
        self._last_failure = text

    async def _follow(self) -> None:
        """One connection: fetches one after the other until it breaks."""
        host, _, port = self._replication.endpoint_of(self.peer).rpartition(":")
        if not host:
            raise OSError("the peer's replication listener is not known")
        host = host.strip("[]")
        trust = self._replication.trust_of(self.peer, host)
        async with _in_time(f"no connection to {host}:{port}"):
            taken = await reach(host, int(port))
            name = host if trust else None
            reader, writer = await asyncio.open_connection(sock=taken, ssl=trust, server_hostname=name)
        me = Incarnation(self._settings.broker_id, self._replication.broker_epoch)
        connection = PeerConnection(self._hear)
        try:
            async with _in_time(f"no answer of {host}:{port} to an introduction"):
                await introduce(reader, writer, self._replication.key, me, self.peer)
            self._begin_session(me)
            connection.take_over(writer.transport)
            self._connection = connection
            self._ask()
            await connection.closed
        except (ConnectionError, EOFError):
            # Whose door hangs up each time is missed once: clients wait for another leader whenever it is.
            if not self._last_failure:
                self._replication.missed.lose(self.peer)
            raise
        finally:
            self._connection = None
            self._stop_waiting()
            writer.transport.abort()
            await connection.leave()

    def _begin_session(self, me: Incarnation) -> None:
        """Everything that is followed here, from where each log stands."""
        settings = self._settings
        session = FetchSession(
            *me,
            FetchLimits(
                settings.replica_fetch_wait_max_ms,
                settings.replica_fetch_min_bytes,
                settings.replica_fetch_response_max_bytes,
                settings.replica_fetch_max_bytes,
            ),
        )
        for key, position in self._wanted.items():
            if key not in self._resting and not self._long_cuts.holds(key, position):
                session.move(key, position)
        self._session = session

    # -- one fetch after the other

    def _ask_soon(self) -> None:
        """Once for all that moves in this loop turn."""
        if not self._asks_soon:
            self._asks_soon = True
            asyncio.get_running_loop().call_soon(self._ask_or_end)

    def _ask_or_end(self) -> None:
        try:
            self._ask()
        except Exception as error:
            # Nobody else hears of it, and nothing would be fetched any more.
            assert self._connection is not None
            self._connection.end(error)

    def _ask(self) -> None:
        """The next fetch, unless one is under way or nothing is followed: `move` asks then."""
        self._asks_soon = False
        session, connection = self._session, self._connection
        if session is None or connection is None or self._waiting is not None or not len(session):
            return
        settings = self._settings
        self._wait(connection, settings.replica_fetch_wait_max_ms + settings.replica_socket_timeout_ms, 0)
        self._questions += 1
        connection.send(fetch_frame(self._questions & MOST_ASKED, self._name, session.request()))

    def _wait(self, connection: PeerConnection, for_ms: int, begun_bytes: int) -> None:
        loop = asyncio.get_running_loop()
        self._waiting = loop.call_later(for_ms / 1000, self._look_for_more, connection, begun_bytes)

    def _look_for_more(self, connection: PeerConnection, had_bytes: int) -> None:
        """Hang up on a leader that was silent so long. One whose answer is long, and the way here narrow, is
        not: asked anew it would begin at the same record, and never get further.
        """
        has_bytes = connection.begun_bytes
        if has_bytes > had_bytes:
            self._wait(connection, self._settings.replica_socket_timeout_ms, has_bytes)
        else:
            connection.end(TimeoutError("an answer began and did not go on" if has_bytes else "no answer"))

    def _hear(self, frame: memoryview) -> None:
        """Take an answer over and ask on. Raises KafkaWireError, FetchRefused."""
        session = self._session
        answer = read_fetch_answer(frame)
        if self._waiting is None or session is None or answer.correlation_id != self._questions & MOST_ASKED:
            raise MalformedFrame(f"an answer to {answer.correlation_id}, which is not the question")
        self.bytes_fetched += len(frame)
        heard = session.hear(answer)
        self._long_cuts.expect(foresee_cuts(self._plane, heard))
        for one in heard:
            self._take(one)
        self._last_failure = ""
        self._stop_waiting()
        self._ask()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _take(self, answer: FetchedAnswer, replay: Replay | None = None) -> None:
        """Take one partition's answer over, and ask on from where the log then stands."""
        key = made(PartitionKey, answer.key)
        self.answers += 1
        try:
            if answer.diverging is not None and replay is None and self._long_cuts.begin(answer):
                if self._session is not None:
                    self._session.move(key, None)
                return
            fits = take_over(self._plane, key, answer, replay)
        except (AppendRefused, StorageFailed) as error:
            # This partition's own trouble: the others of this peer go on, and it rests longer each time.
            self._rest(key, self._refused(key, str(error)))
            return
        self._refusals.pop(key, None)
        if not fits:
            self._rest_for(key, self._rest_s(key, answer.error))
        else:
            self._too_early.pop(key, None)
            self._go_on_if_paid(key, len(answer.records or b""))

    def _cut(self, answer: FetchedAnswer, replay: Replay) -> None:
        """What is to be read for a cut is read."""
        try:
            self._take(answer, replay)
            if self._waiting is None:
                self._ask_soon()
        except Exception as error:
            # Nobody else hears of it: all that is followed begins anew.
            log.exception("a log was not cut", peer=self.peer)
            if self._connection is not None:
                self._connection.end(error)

    def _go_on_if_paid(self, key: PartitionKey, size_bytes: int) -> None:
        """Count what was taken of a replica that comes, and fetch more of it once that is paid."""
        hosted = self._plane.hosted(*key)
        buckets = self._plane.throttled.taking(hosted) if hosted is not None else ()
        if buckets:
            throttling.take(buckets, size_bytes)
            if wait_ms := throttling.wait_ms(buckets, self._plane.clock()):
                self._rest_for(key, wait_ms / 1000)
                return
        position = hosted.replica.next_fetch() if hosted is not None else None
        if position is not None and position.leader == self.peer:
            self.move(key, position)
        else:
            self._replication.look_at(key)

    def _refused(self, key: PartitionKey, reason: str) -> int:
        """How often in a row this partition's answers could not be stored before; a new reason is logged."""
        known, times = self._refusals.get(key, ("", 0))
        if reason != known:
            log.error(
                "fetched records not stored",
                topic_id=str(key.topic_id),
                partition=key.partition,
                leader=self.peer,
                reason=reason,
            )
        self._refusals[key] = (reason, times + 1)
        return times

    def _rest(self, key: PartitionKey, times: int) -> None:
        """For twice as long each time that it could not be stored before."""
        self._rest_for(key, self._settings.replica_fetch_backoff_ms / 1000 * 2 ** min(times, MOST_DOUBLINGS))

    def _rest_s(self, key: PartitionKey, error: int) -> float:
        """How long to rest behind a refusal: a moment at first, where one of both may know more very soon."""
        longest_ms = self._settings.replica_fetch_backoff_ms
        if error not in _NOT_YET:
            return longest_ms / 1000
        times = self._too_early.get(key, 0)
        self._too_early[key] = times + 1
        return early_rest_ms(times, longest_ms) / 1000

    def _rest_for(self, key: PartitionKey, delay_s: float) -> None:
        """Leave the partition out of the session for a while: its error would end each long poll at once."""
        if key not in self._wanted or self._session is None:
            return
        self._session.move(key, None)
        loop = asyncio.get_running_loop()
        self._resting[key] = loop.call_later(delay_s, self._resume, key)

    def _resume(self, key: PartitionKey) -> None:
        self._resting.pop(key, None)
        self._go_on_if_paid(key, 0)


@asynccontextmanager
async def _in_time(otherwise: str) -> AsyncIterator[None]:
    """Raises TimeoutError, which says what did not come: where a network swallows all, nobody else does."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            yield
    except TimeoutError:
        raise TimeoutError(f"{otherwise} within {CONNECT_TIMEOUT_S:g} s") from None


def early_rest_ms(times: int, longest_ms: int) -> int:
    """How long a partition rests whose peer was asked too early, as it was `times` in a row before."""
    return min(FIRST_REST_MS << min(times, MOST_DOUBLINGS), longest_ms)


def foresee_cuts(plane: DataPlane, answers: Iterable[FetchedAnswer]) -> int:
    """Behind an election one answer may cut thousands of logs, perhaps below what was committed in them.

    What files say too much of them is stated once; returns how many they are.
    """
    ends: dict[PartitionKey, int] = {}
    for answer in answers:
        hosted = plane.hosted(*answer.key) if answer.diverging is not None and not answer.error else None
        if hosted is not None and answer.diverging is not None:
            end_offset = hosted.replica.parts_at(answer.asked, answer.diverging)
            if end_offset is not None:
                ends[hosted.key] = end_offset
    if len(ends) > 1:
        plane.upkeep.state_ends(ends)
    return len(ends)


def take_over(
    plane: DataPlane, key: PartitionKey, answer: FetchedAnswer, replay: Replay | None = None
) -> bool:
    """Let the replica heed a leader's answer; False: the partition is to rest before it is fetched again.

    Raises AppendRefused, StorageFailed.
    """
    asked = answer.asked
    if answer.error == ErrorCode.OFFSET_OUT_OF_RANGE:
        return plane.start_again_at(key, asked.leader_epoch, answer.log_start_offset)
    if answer.error:
        return False
    if answer.diverging is not None:
        plane.heed_diverging(key, asked, answer.diverging, answer.log_start_offset, replay)
        return True
    plane.append_fetched(key, asked, answer.records, answer.high_watermark, answer.log_start_offset)
    return True
