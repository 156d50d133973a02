"""This room is the Consumer that applications use."""

import asyncio
import re
import secrets
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Literal, Self

from muster.client.broker_questions import EARLIEST, LATEST
from muster.client.conversation import Conversation
from muster.client.core.session import Wishes
from muster.client.fetching import FetchOptions
from muster.client.record import Record
from muster.messages import codec
from muster.messages.errors import LocalMessageError, RemoteMessageError
from muster.messages.member import TopicCount

Subscription = str | re.Pattern[str]

_RESET_TO = {"earliest": EARLIEST, "latest": LATEST, "none": None}


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
    with each ping and at the end. Iterating raises ConsumerRefused when the group refuses this consumer for
    good, and NoOffset.

    Raises ValueError for names that are too long, and for what else no coordinator accepts.

    Everything happens on the event loop that entered the Consumer; it is not to be shared between threads.
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
    ) -> None:
        if not nodes:
            raise ValueError("nodes: at least one websocket address is needed")
        self.consumer_id = consumer_id or f"{client_id}-{secrets.token_hex(8)}"
        wishes = Wishes(
            group_id=group,
            consumer_id=self.consumer_id,
            token=secrets.token_urlsafe(32),
            topic_count=tuple(_topic_count(topic) for topic in topics),
            session_timeout_ms=session_timeout_ms,
            auto_commit=auto_commit,
            auto_offset_reset=auto_offset_reset,
            ephemeral=ephemeral,
            client_id=client_id,
        )
        if not wishes.topic_count:
            raise ValueError("topics: at least one topic is needed")
        try:
            codec.decode_from_member(codec.encode(wishes.in_a_frame(0, 0)))
        except (LocalMessageError, RemoteMessageError) as problem:
            # No coordinator would read it, however often it was said.
            raise ValueError(f"the consumer cannot register like this: {problem}") from problem
        options = FetchOptions(client_id=client_id, reset_to=_RESET_TO[auto_offset_reset])
        self._conversation = Conversation(wishes, nodes, token, options)
        self._running: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[object] | None = None

    async def __aenter__(self) -> Self:
        """Begin to look for the coordinator; does not wait for it."""
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
        if self._running is None:
            raise RuntimeError("a Consumer is entered by `async with` first")
        self._reader = asyncio.current_task()
        record = await self._conversation.processing.next_record()
        if record is not None:
            return record
        if self._conversation.failure is not None:
            raise self._conversation.failure
        if self._running.done():
            # A mistake of ours: show it, rather than an end that looks regular.
            self._running.result()
        raise StopAsyncIteration

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

        Raises CommitFailed, for instance when a partition has gone to another member meanwhile.
        """
        await self._conversation.commit()

    async def close(self) -> None:
        """End fetching, commit what is finished (with auto_commit), leave the group; may be called twice.

        Called from another task than the one that iterates, it waits for the record in hand, for at
        most a third of the session timeout; the iteration then ends.
        """
        conversation = self._conversation
        if self._running is None:
            return
        if not conversation.left.is_set():
            if self._reader is asyncio.current_task():
                conversation.processing.release()
            conversation.leave()
            conversation.processing.close()
            patience_s = conversation.session.wishes.session_timeout_ms / 1000
            try:
                async with asyncio.timeout(patience_s):
                    await conversation.left.wait()
            except TimeoutError:
                conversation.left.set()
        await asyncio.wait([self._running])


def _topic_count(topic: Subscription) -> TopicCount:
    if isinstance(topic, re.Pattern):
        return TopicCount(topic.pattern, is_pattern=True)
    return TopicCount(topic)
