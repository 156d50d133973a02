"""This room is the Consumer that applications use."""

import asyncio
import secrets
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Literal, Self

from muster.client import arguments
from muster.client.arguments import Subscription
from muster.client.broker_questions import EARLIEST, LATEST
from muster.client.conversation import Conversation, Patience
from muster.client.core.wishes import Wishes
from muster.client.fetching import FetchOptions
from muster.client.record import Record
from muster.client.standing import State

_RESET_TO = {"earliest": EARLIEST, "latest": LATEST, "none": None}
_MIB = 1024 * 1024


class Consumer:
    """A member of a consumer group: an asynchronous iterator over the records of its partitions.

        async with Consumer("departures", ["flights"], nodes=nodes, token=token) as consumer:
            async for record in consumer:
                print(record.partition, record.offset, record.key)
                await consumer.commit()

    `topics` are names, or compiled patterns (`re.compile("flights-.*")`) that name whole topics; the
    coordinator matches them with RE2. `nodes` are websocket addresses, one that answers is enough.
    `consumer_id` must be unique within the group; by default it is made at random. A record is finished
    when the next one is asked for, or when it is committed; with `auto_commit` what is finished is committed
    with each ping and at the end.

    `ready_timeout_ms` is how long the group may take to let it in, `max_poll_interval_ms` how long the
    application may take to ask for the next record before others get its partitions; 0: any time.
    `max_batch_bytes` is how large one batch of records may become when it is decompressed.

    Raises ValueError at once for what can never work. Iterating raises ConsumerRefused when the group or a
    node refuses this consumer for good, NotReady, NoOffset, and UnreadableBatch, after which `skip` and
    another iteration go on. Trouble that may pass is told by `state`, and sparingly by the logger "muster".

    Everything happens on the event loop that entered the Consumer; it is not to be shared between threads,
    and one task at a time iterates.
    """

    def __init__(
        self,
        group: str,
        topics: Iterable[Subscription],
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
    ) -> None:
        arguments.words("group", group)
        arguments.words("client_id", client_id)
        self.consumer_id = f"{client_id}-{secrets.token_hex(8)}" if consumer_id is None else consumer_id
        arguments.words("consumer_id", self.consumer_id)
        arguments.one_of("auto_offset_reset", auto_offset_reset, _RESET_TO)
        arguments.flag("auto_commit", auto_commit)
        arguments.flag("ephemeral", ephemeral)
        arguments.at_least("session_timeout_ms", session_timeout_ms, 1)
        arguments.at_least("ready_timeout_ms", ready_timeout_ms, 0)
        arguments.at_least("max_poll_interval_ms", max_poll_interval_ms, 0)
        arguments.at_least("max_batch_bytes", max_batch_bytes, 1)
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
        )
        arguments.registrable(wishes.in_a_frame(0, 0))
        options = FetchOptions(
            client_id=client_id, reset_to=_RESET_TO[auto_offset_reset], batch_max_bytes=max_batch_bytes
        )
        self._conversation = Conversation(
            wishes,
            arguments.checked_nodes(nodes),
            arguments.checked_token(token),
            options,
            Patience(ready_timeout_ms, max_poll_interval_ms),
        )
        self._running: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[object] | None = None

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
            self._conversation.processing.finish()
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        conversation = self._conversation
        if self._running is None:
            raise RuntimeError("a Consumer is entered by `async with` first")
        if conversation.processing.asked:
            raise RuntimeError("another task waits for the next record of this Consumer; one task iterates")
        if conversation.absent:
            conversation.come_back()
        self._reader = asyncio.current_task()
        record = await conversation.processing.next_record()
        if record is not None:
            return record
        if conversation.failure is not None:
            raise conversation.failure
        if self._running.done():
            # A mistake of ours: show it, rather than an end that looks regular.
            self._running.result()
        raise StopAsyncIteration

    @property
    def state(self) -> State:
        """How the consumer stands, in one word."""
        return State.NEW if self._running is None else self._conversation.standing().state

    @property
    def state_text(self) -> str:
        """Why it stands so, in one sentence for people; empty when all is well."""
        return "" if self._running is None else self._conversation.standing().why

    @property
    def generation(self) -> int:
        """The highest generation of the group that this member has heard of; 0 before the first."""
        return self._conversation.session.generation

    @property
    def assignment(self) -> frozenset[tuple[str, int]]:
        """The partitions that are being fetched now, as (topic, partition)."""
        return frozenset((tenure.topic, tenure.partition) for tenure in self._conversation.fetching.tenures())

    async def commit(self) -> None:
        """Commit all records handed out so far, the one in hand included; returns after it is durable.

        It asks again for a session timeout while coordinators change. Raises CommitUnanswered when that was
        not enough (ask again), PartitionsLost when records come again, CommitFailed once the session is over.
        """
        await self._conversation.commit()

    def skip(self, topic: str, partition: int, to_offset: int) -> None:
        """Go on at `to_offset`; what lies before it counts as finished, read or not.

        Raises ValueError unless this consumer fetches the partition and `to_offset` lies ahead.
        """
        conversation = self._conversation
        for tenure in conversation.fetching.tenures():
            if (tenure.topic, tenure.partition) == (topic, partition):
                if to_offset <= tenure.delivered_to:
                    raise ValueError(f"{tenure} is at {tenure.delivered_to} already; skip goes ahead only")
                conversation.processing.skip(tenure, to_offset)
                conversation.fetching.skip(tenure, to_offset)
                return
        raise ValueError(f"{topic}-{partition} is not fetched by this consumer now")

    async def close(self) -> None:
        """End fetching, commit what is finished (with auto_commit), leave the group; may be called twice.

        Called from another task than the one that iterates, it waits for the record in hand, for at
        most a third of the session timeout; the iteration then ends. It takes a session timeout at most.
        """
        conversation = self._conversation
        if self._running is None:
            return
        if not conversation.left.is_set():
            if self._reader is asyncio.current_task():
                conversation.processing.release()
            conversation.leave()
            conversation.processing.close()
            await conversation.left.wait()
        await asyncio.wait([self._running])
