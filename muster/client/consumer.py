"""This room is the Consumer that applications use."""

import asyncio
import secrets
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Literal, Self

from muster.client import arguments
from muster.client.arguments import Subscription
from muster.client.broker_questions import EARLIEST, LATEST
from muster.client.conversation import Conversation, Patience
from muster.client.core.wishes import Wishes
from muster.client.errors import PartitionNotAssigned
from muster.client.fetching import FetchOptions
from muster.client.listening import RebalanceListener
from muster.client.metrics import Metrics
from muster.client.processing import the_hand
from muster.client.record import Offsets, Record, TopicPartition
from muster.client.standby import Standby
from muster.client.standing import State
from muster.client.tenure import UNKNOWN, Tenure
from muster.client.working import Handler, work

_RESET_TO = {"earliest": EARLIEST, "latest": LATEST, "none": None}
_MIB = 1024 * 1024


class Consumer:
    """A member of a consumer group: an asynchronous iterator over the records of its partitions.

        async with Consumer("departures", ["flights"], nodes=nodes, token=token) as consumer:
            async for record in consumer:
                print(record.partition, record.offset, record.key)
                await consumer.commit()

    `topics` are names, or compiled patterns (`re.compile("flights-.*")`) that name whole topics; the
    coordinator matches them with RE2. As a mapping, `{"flights": 4}`, it says with how many threads each
    is read by `run`. `nodes` are websocket addresses, one that answers is enough.
    `consumer_id` must be unique within the group; by default it is made at random. A record is finished
    when the next one is asked for, or when it is committed; with `auto_commit` what is finished is committed
    with each ping and at the end. `listener` hears of partitions that come and go.

    `rack` is where it runs, as brokers name their racks. `stands_by`: it may be told to read along what
    another member owns; `standby` then hands out these records, and `listener.on_standby` hears of them.

    `ready_timeout_ms` is how long the group may take to let it in, `max_poll_interval_ms` how long the
    application may take to ask for the next record before others get its partitions; 0: any time.
    `max_batch_bytes` is how large one batch of records may become when it is decompressed.

    Brokers are spoken to as the nodes say, or by `security_protocol`; where they ask for it the token is
    proved by `sasl_mechanism`. `ca_file` (PEM) holds whom to trust in place of what the system trusts.

    Raises ValueError at once for what can never work. Iterating raises ConsumerRefused when the group or a
    node refuses this consumer for good, NotReady, NoOffset, ListenerFailed, and UnreadableBatch, after which
    `skip` and another iteration go on. Trouble that may pass is told by `state`, and sparingly by the logger
    "muster".

    Everything happens on the event loop that entered the Consumer; it is not to be shared between threads,
    and one task at a time iterates. `BlockingConsumer` is for programs without an event loop.
    """

    def __init__(
        self,
        group: str,
        topics: Iterable[Subscription] | Mapping[Subscription, int],
        *,
        nodes: Sequence[str],
        token: str,
        consumer_id: str | None = None,
        session_timeout_ms: int = 10_000,
        auto_commit: bool = True,
        auto_offset_reset: Literal["earliest", "latest", "none"] = "latest",
        ephemeral: bool = False,
        client_id: str = "muster-python",
        ready_timeout_ms: int = 0,
        max_poll_interval_ms: int = 0,
        max_batch_bytes: int = 64 * _MIB,
        listener: RebalanceListener | None = None,
        security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] | None = None,
        sasl_mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"] = "SCRAM-SHA-256",
        ca_file: str | PathLike[str] | None = None,
        rack: str = "",
        stands_by: bool = False,
    ) -> None:
        arguments.words("group", group)
        arguments.words("client_id", client_id)
        self.consumer_id = f"{client_id}-{secrets.token_hex(8)}" if consumer_id is None else consumer_id
        arguments.words("consumer_id", self.consumer_id)
        arguments.one_of("auto_offset_reset", auto_offset_reset, _RESET_TO)
        arguments.flag("auto_commit", auto_commit)
        arguments.flag("ephemeral", ephemeral)
        arguments.flag("stands_by", stands_by)
        if rack:
            arguments.words("rack", rack)
        arguments.at_least("session_timeout_ms", session_timeout_ms, 1)
        arguments.at_least("ready_timeout_ms", ready_timeout_ms, 0)
        arguments.at_least("max_poll_interval_ms", max_poll_interval_ms, 0)
        arguments.at_least("max_batch_bytes", max_batch_bytes, 1)
        arguments.listener(listener, RebalanceListener)
        wishes = Wishes(
            group_id=group,
            consumer_id=self.consumer_id,
            token=secrets.token_urlsafe(32),
            topic_count=arguments.checked_topics(topics),
            session_timeout_ms=session_timeout_ms,
            auto_commit=auto_commit,
            auto_offset_reset=auto_offset_reset,
            ephemeral=ephemeral,
            client_id=client_id,
            rack=rack,
            stands_by=stands_by,
        )
        arguments.registrable(wishes.in_a_frame(0, 0))
        token = arguments.checked_token(token)
        options = FetchOptions(
            client_id=client_id,
            security=arguments.checked_security(token, security_protocol, sasl_mechanism, ca_file),
            reset_to=_RESET_TO[auto_offset_reset],
            batch_max_bytes=max_batch_bytes,
        )
        self._conversation = Conversation(
            wishes,
            arguments.checked_nodes(nodes),
            token,
            options,
            Patience(ready_timeout_ms, max_poll_interval_ms),
            listener,
        )
        self._running: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[object] | None = None
        self._works = False

    # Coming and going.

    async def __aenter__(self) -> Self:
        """Begin to look for the coordinator; does not wait for it."""
        if self._running is not None:
            raise RuntimeError("this Consumer was entered before; make another one")
        self._running = asyncio.create_task(self._conversation.run(), name=f"consumer {self.consumer_id}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the group. After an exception the record in hand does not count as finished."""
        if kind is None:
            self._conversation.processing.main.finish()
        await self.close()

    async def close(self) -> None:
        """End fetching, commit what is finished (with auto_commit), leave the group; may be called twice.

        Called from another task than the one that iterates, it waits for the record in hand, for at
        most a third of the session timeout; the iteration then ends. It takes a session timeout at most: so
        long the next coordinator is looked for where the present one goes, or none is there.
        Raises RuntimeError inside a listener, which it would wait for.
        """
        conversation = self._conversation
        if self._running is None:
            return
        if conversation.listening.in_a_listener:
            raise RuntimeError("a listener cannot close its consumer: closing waits for the listener")
        if not conversation.left.is_set():
            if self._reader is asyncio.current_task():
                conversation.processing.main.release()
            if (hand := the_hand.get()) is not None:
                hand.release()
            self._begin_to_leave()
            await conversation.left.wait()
        await asyncio.wait([self._running])

    def _begin_to_leave(self) -> None:
        if not self._conversation.left.is_set():
            self._conversation.leave()
            self._conversation.processing.close()

    # Records.

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        record = self._conversation.processing.main.take() if self._reader is asyncio.current_task() else None
        if record is None:
            self._begin_to_read()
            record = await self._conversation.processing.main.next_record()
        if record is None:
            self._raise_why_it_ended()
            raise StopAsyncIteration
        return record

    async def next_batch(self, max_records: int = 500, *, timeout_ms: int = 0) -> list[Record]:
        """The next records of one partition, in order: at least one, at most `max_records`.

        They are finished together, when the next are asked for or by `commit`. Empty when none came within
        `timeout_ms` (0: wait), or when the consumer is closed. Raises as iterating does.
        """
        arguments.at_least("max_records", max_records, 1)
        arguments.at_least("timeout_ms", timeout_ms, 0)
        self._begin_to_read()
        main = self._conversation.processing.main
        main.finish()
        try:
            async with asyncio.timeout(timeout_ms / 1000 if timeout_ms else None):
                record = await main.next_record()
        except TimeoutError:
            return []
        if record is None:
            self._raise_why_it_ended()
            return []
        return [record, *main.take_more(max_records - 1)]

    async def run(self, handler: Handler) -> None:
        """Call `handler(record)` for each record, with one handler at a time for each thread of each topic.

        Topics are read by as many threads as `topics` says, patterns together by the largest of their
        numbers. Each partition belongs to one thread, so its records come in order. A record is finished
        when its handler returns; `commit` in a handler commits what is finished, and that handler's record.
        Returns when the consumer is closed. Raises what a handler raises, after the other handlers were
        cancelled, and as iterating does; called again, it begins with what was not finished.
        """
        self._begin_to_read()
        self._works = True
        try:
            await work(self._conversation.processing, self._conversation.ownership, handler)
        finally:
            self._works = False
        self._raise_why_it_ended()

    def _begin_to_read(self) -> None:
        if self._running is None:
            raise RuntimeError("a Consumer is entered by `async with` first")
        if self._conversation.processing.main.asked or self._works:
            raise RuntimeError("another task waits for the next record of this Consumer; one task iterates")
        self._reader = asyncio.current_task()

    def _raise_why_it_ended(self) -> None:
        if self._conversation.failure is not None:
            raise self._conversation.failure
        if self._running is not None and self._running.done():
            # A mistake of ours: show it, rather than an end that looks regular.
            self._running.result()

    # Offsets.

    async def commit(self, offsets: Offsets | None = None, *, timeout_ms: int = 0) -> None:
        """Commit all records handed out so far, the one in hand included; returns after it is durable.

        With `offsets`, the next offset to read by (topic, partition): commit these instead, of partitions
        that are this consumer's, not beyond what was handed out. What other handlers of `run` have in
        hand is left out. It asks again while coordinators change, for `timeout_ms` (0: a session timeout).

        Raises CommitUnanswered when that was not enough (ask again), PartitionsLost when records come
        again, CommitFailed once the session is over, PartitionNotAssigned and ValueError for such offsets.
        """
        arguments.at_least("timeout_ms", timeout_ms, 0)
        await self._conversation.commit(self._conversation.question(offsets, timeout_ms))

    def skip(self, topic: str, partition: int, to_offset: int) -> None:
        """Go on at `to_offset`; what lies before it counts as finished, read or not.

        Raises PartitionNotAssigned, and ValueError unless `to_offset` lies ahead.
        """
        arguments.at_least("to_offset", to_offset, 0)
        tenure = self._tenure(topic, partition)
        if to_offset <= tenure.delivered_to:
            raise ValueError(f"{tenure} is at {tenure.delivered_to} already; skip goes ahead only")
        self._conversation.fetching.seek(tenure, to_offset)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on at `offset`, ahead or back; what lies before it counts as finished.

        The next commit makes it durable. An offset that the log does not have leads to where
        `auto_offset_reset` says. Raises PartitionNotAssigned, and ValueError for what no offset can be.
        """
        arguments.at_least("offset", offset, 0)
        self._conversation.fetching.seek(self._tenure(topic, partition), offset)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Go on where the logs begin, of all that are assigned by default. Raises PartitionNotAssigned."""
        self._seek_to(EARLIEST, partitions)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Go on where the logs end, of all that are assigned by default. Raises PartitionNotAssigned."""
        self._seek_to(LATEST, partitions)

    def _seek_to(self, reset_to: int, partitions: Iterable[tuple[str, int]]) -> None:
        for tenure in self._chosen(partitions):
            self._conversation.fetching.seek(tenure, UNKNOWN, reset_to)

    def position(self, topic: str, partition: int) -> int | None:
        """The next offset to be handed out; None until it is known. Raises PartitionNotAssigned."""
        offset = self._tenure(topic, partition).delivered_to
        return None if offset == UNKNOWN else offset

    async def beginning_offsets(self, *partitions: tuple[str, int]) -> dict[TopicPartition, int]:
        """Where the logs begin, asked of brokers now; of any partitions. Raises OffsetsUnknown."""
        return await self._offsets_at(EARLIEST, partitions)

    async def end_offsets(self, *partitions: tuple[str, int]) -> dict[TopicPartition, int]:
        """The high watermarks, asked of brokers now; of any partitions. Raises OffsetsUnknown."""
        return await self._offsets_at(LATEST, partitions)

    async def offsets_for_time(
        self, timestamp_ms: int, *partitions: tuple[str, int]
    ) -> dict[TopicPartition, int]:
        """Where the first record not older than `timestamp_ms` (wall time) lies; −1: nowhere.

        Raises OffsetsUnknown, and ValueError for what no time can be.
        """
        arguments.at_least("timestamp_ms", timestamp_ms, 0)
        return await self._offsets_at(timestamp_ms, partitions)

    async def _offsets_at(
        self, timestamp_ms: int, partitions: Iterable[tuple[str, int]]
    ) -> dict[TopicPartition, int]:
        places = [TopicPartition(*one) for one in partitions] or sorted(self.assignment)
        return await self._conversation.fetching.offsets_at(places, timestamp_ms)

    # Pausing.

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Hand out and fetch nothing more of these (by default of all that are assigned) until `resume`.

        It ends when the partition is revoked or lost. Raises PartitionNotAssigned.
        """
        for tenure in self._chosen(partitions):
            tenure.paused = True
            self._conversation.processing.let_go(tenure)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Go on where `pause` stopped, all that are assigned by default. Raises PartitionNotAssigned."""
        for tenure in self._chosen(partitions):
            tenure.paused = False
            self._conversation.fetching.look_again(tenure)
        if not partitions:
            self._conversation.ownership.forget_pauses()

    def _chosen(self, partitions: Iterable[tuple[str, int]]) -> list[Tenure]:
        """All of them or none: nothing is done if one is not assigned."""
        chosen = [self._tenure(*one) for one in partitions]
        return chosen or list(self._conversation.fetching.tenures())

    def _tenure(self, topic: str, partition: int) -> Tenure:
        for tenure in self._conversation.fetching.tenures():
            if (tenure.topic, tenure.partition) == (topic, partition):
                return tenure
        raise PartitionNotAssigned(f"{topic}-{partition} is not fetched by this consumer now")

    # How it stands.

    @property
    def state(self) -> State:
        """How the consumer stands, in one word."""
        return State.NEW if self._running is None else self._conversation.standing().state

    @property
    def state_text(self) -> str:
        """Why it stands so, in one sentence for people; empty when all is well."""
        return "" if self._running is None else self._conversation.standing().why

    @property
    def metrics(self) -> Metrics:
        """Counters of this consumer, and its lag; always the same object."""
        return self._conversation.metrics

    @property
    def generation(self) -> int:
        """The highest generation of the group that this member has heard of; 0 before the first."""
        return self._conversation.session.generation

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are being fetched now, paused ones included."""
        return frozenset(tenure.place for tenure in self._conversation.fetching.tenures())

    @property
    def standby(self) -> Standby:
        """What it stands by for: an asynchronous iterator over these records, always the same object."""
        return self._conversation.standby

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """Those of the assignment that `pause` named."""
        return frozenset(one.place for one in self._conversation.fetching.tenures() if one.paused)

    @property
    def threads(self) -> dict[str, frozenset[TopicPartition]]:
        """The assignment by consumer thread id, as the coordinator dealt it to the threads of `topics`."""
        dealt: dict[str, set[TopicPartition]] = {}
        for tenure in self._conversation.fetching.tenures():
            dealt.setdefault(tenure.stream.thread, set()).add(tenure.place)
        return {thread: frozenset(places) for thread, places in dealt.items()}
