"""This room reads along what another member owns, for whoever stands by to take it over (ADR 14).

It has fetchers of its own: nothing of it is committed, told in pings, or handed to who iterates the Consumer.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Self

from muster.client.arguments import at_least
from muster.client.broker_questions import EARLIEST
from muster.client.errors import PartitionNotAssigned
from muster.client.fetching import Fetching, FetchOptions
from muster.client.listening import Listening
from muster.client.record import Record, TopicPartition
from muster.client.tenure import UNKNOWN, Tenure
from muster.messages.partitions import Partition

Begin = Callable[[Coroutine[Any, Any, None], str], None]


class Standby:
    """The partitions that a Consumer stands by for, and an asynchronous iterator over their records.

        async for record in consumer.standby:
            index.add(record)

    A partition begins where its group has committed, or by `auto_offset_reset` ("none" as "earliest"), and
    is read until another stands by for it, or this consumer owns it: then it begins, as everything that is
    owned, where its group has committed. The iteration ends when the consumer is closed.
    """

    def __init__(
        self,
        options: FetchOptions,
        ask_for_brokers: Callable[[], None],
        listening: Listening,
        begin: Begin,
    ) -> None:
        reset_to = EARLIEST if options.reset_to is None else options.reset_to
        self._fetching = Fetching(replace(options, reset_to=reset_to), self._out_of_range, ask_for_brokers)
        self._listening = listening
        self._begin = begin
        self._serving: Tenure | None = None
        self._runs = self._closed = False
        self._reads = asyncio.Lock()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """What this consumer stands by for now."""
        return frozenset(tenure.place for tenure in self._fetching.tenures())

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on at `offset`, ahead or back.

        Raises PartitionNotAssigned unless it stands by for it, and ValueError for what no offset can be.
        """
        at_least("offset", offset, 0)
        for tenure in self._fetching.tenures():
            if tenure.place == (topic, partition):
                self._fetching.seek(tenure, offset)
                return
        raise PartitionNotAssigned(f"this consumer does not stand by for {topic}-{partition}")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        async with self._reads:
            while not self._closed:
                tenure = self._serving
                if tenure is not None and tenure.ready and not tenure.resting:
                    record = tenure.ready.popleft()
                    tenure.delivered_to = record.offset + 1
                    return record
                self._serving = await self._fetching.fill(lambda one: not one.resting)
        raise StopAsyncIteration

    # What the conversation tells.

    def become(self, offsets: Mapping[Partition, int]) -> None:
        """Stand by for these and no others; what it stood by for before goes on."""
        before = {tenure.of: tenure for tenure in self._fetching.tenures()}
        for partition in before.keys() - offsets.keys():
            self._fetching.stop(before[partition].key)
        begun = []
        for partition in sorted(offsets.keys() - before.keys()):
            tenure = Tenure(*partition, UNKNOWN, offsets[partition])
            tenure.held_back = self._listening.listens
            self._fetching.start(tenure)
            begun.append(tenure)
        if offsets and not self._runs:
            self._runs = True
            self._begin(self._fetching.run(), "fetching for a standby")
        if self._listening.listens:
            self._begin(self._tell(begun), "listener: standby")

    def learn_brokers(self, addresses: Mapping[int, str], protocols: Mapping[int, str]) -> None:
        """As `Fetching.learn_brokers`."""
        self._fetching.learn_brokers(addresses, protocols)

    def close(self) -> None:
        """Whoever iterates comes to the end."""
        self._closed = True
        self._fetching.interrupt()

    async def _tell(self, begun: list[Tenure]) -> None:
        await self._listening.stands_by(self.assignment)
        for tenure in begun:
            tenure.held_back = False
            if not tenure.ended:
                self._fetching.look_again(tenure)

    def _out_of_range(self, tenure: Tenure) -> None:
        """No session ends for it: begin again as if nothing was committed."""
        self._fetching.seek(tenure, UNKNOWN)
