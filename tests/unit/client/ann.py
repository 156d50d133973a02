"""This room is a consumer without a coordinator: the test says what is heard, and when."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from muster.client.conversation import WITHOUT_END, Conversation, Patience
from muster.client.core.session import Stage
from muster.client.core.wishes import Wishes
from muster.client.fetching import FetchOptions
from muster.client.tenure import Tenure
from muster.kernel.instants import Instant, after
from muster.messages.member import (
    CommitOffsetsRequest,
    CommitOffsetsResponse,
    Frame,
    RegisterConsumerResponse,
    StartFetcherRequest,
    TopicCount,
)
from muster.messages.partitions import Partition, Position, each_position
from tests.unit.client_core.test_a_member_obeys_its_coordinator import NOW, start

S = 10_000


class Quiet:
    """A transport that says nothing and hears nothing."""

    address = "ws://one"

    def hang_up(self) -> None:
        """Nothing to close."""


class Line:
    """What the conversation would write to the coordinator."""

    def __init__(self) -> None:
        self.transport = Quiet()
        self.outbox: asyncio.Queue[Frame] = asyncio.Queue()

    def said(self) -> list[Frame]:
        """What waits to be written; asked once."""
        return [self.outbox.get_nowait() for _ in range(self.outbox.qsize())]


class Ann:
    """One consumer of `orders`; its clock is the test's."""

    def __init__(self, nodes: Sequence[str] = (), patience: Patience = WITHOUT_END, **wishes: Any) -> None:
        stated = {"session_timeout_ms": S, **wishes}
        self.line = Line()
        self.conversation = Conversation(
            Wishes("readers", "ann", "t" * 43, (TopicCount("orders"),), **stated),
            nodes,
            "",
            FetchOptions("tests"),
            patience,
        )

    def registers(self, now: Instant = NOW, *, known: bool = False, generation: int = 0) -> None:
        """Connected, registered; what was said before is forgotten."""
        session = self.conversation.session
        self.line = Line()
        self.conversation._link = self.line  # type: ignore[assignment]
        self.conversation._obey(session.connected(now))
        answer = RegisterConsumerResponse(
            correlation_id=session._register_id, known=known, generation=generation
        )
        self.hears(answer, now)
        assert session.stage is Stage.REGISTERED
        self.line.said()

    def hears(self, message: Any, now: Instant = NOW) -> None:
        """A frame of the coordinator."""
        self.conversation._obey(self.conversation.session.hear(message, now))

    def starts(self, message: StartFetcherRequest, now: Instant = NOW) -> Tenure:
        """A StartFetcher that leaves it with one partition."""
        self.hears(message, now)
        [tenure] = self.tenures()
        return tenure

    def tenures(self) -> list[Tenure]:
        """What it fetches."""
        return list(self.conversation.fetching.tenures())

    def loses_its_connection(self, now: Instant = NOW) -> None:
        """The connection breaks; its fetchers run on."""
        self.conversation._hang_up()
        self.conversation._obey(self.conversation.session.disconnected(now))

    def is_late(self) -> Instant:
        """Its own deadline passes."""
        late = after(NOW, S)
        self.conversation._obey(self.conversation.session.tick(late))
        assert not self.tenures()
        return late

    def answers(self, commit: CommitOffsetsRequest) -> None:
        """The coordinator has committed it."""
        self.hears(CommitOffsetsResponse(correlation_id=commit.correlation_id))

    def positions_in(self, commit: CommitOffsetsRequest) -> "Iterator[tuple[Partition, Position]]":
        """What it says."""
        return each_position(commit.offset_info)

    async def commits(self) -> "tuple[asyncio.Task[None], CommitOffsetsRequest]":
        """A commit under way, and what was said for it."""
        task = asyncio.create_task(self.conversation.commit())
        return task, await self.says_a_commit()

    async def says_a_commit(self) -> CommitOffsetsRequest:
        """The next CommitOffsets that is written."""
        while True:
            frame = await asyncio.wait_for(self.line.outbox.get(), 5)
            if isinstance(frame, CommitOffsetsRequest):
                return frame


def ann_who_has_read(count: int, **wishes: Any) -> Ann:
    """She owns orders-0 from offset 40 on."""
    ann = Ann(**wishes)
    ann.registers()
    ann.starts(start(1, 40)).delivered_to += count
    return ann
