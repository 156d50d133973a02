"""This room remembers whom a door has just lost, and which topics nobody leads yet: answers can wait.

A client that loses its leader asks at once, before anybody can have been elected; told of the same leader it
asks again only a second later (librdkafka). And a broker that it is told of no more it takes apart, with the
partitions that it had there, which costs it another second: so the lost one stays listed for a while.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from kafkaserver.cluster_answers import BrokerView, MetadataView, TopicView

WAIT_S: Final = 0.3
"""So long an answer waits for another leader, counted from the loss: an election takes some milliseconds. So
long, too, for the first one of a partition, from when somebody first asked for it."""

HEARD_WITHIN_S: Final = 0.02
"""A process that is killed loses its connections one after the other: so long until all have heard of it."""

HELD_AGAIN_S: Final = 0.5
"""So long a connection that was held up for that is not held up again: an admin client asks who leads before
each of thousands of questions, and one that misses its leader looks again a second later."""

LISTED_S: Final = 3.0
"""So long a fenced broker is listed to who asks for topics by name: every client looks once a second."""

MOST_WAITING: Final = 1_000
"""Answers of one door that wait; who comes beyond them is told what is known."""

MOST_REMEMBERED: Final = 10_000
"""Connections that have asked for topics by name; topics whose first leader somebody has waited for."""

FORGOTTEN_S: Final = 600.0
"""So much later a topic that has no leader yet counts as new once more, if it is asked for."""


class MissedBrokers:
    """Brokers whose connection to this process broke, those that were fenced a moment ago, and new topics."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: seconds that only rise."""
        self._clock = clock
        self._lost: dict[int, float] = {}
        self._fenced: dict[int, tuple[BrokerView, float]] = {}
        self._view = MetadataView()
        self._news = asyncio.Event()
        self._held: dict[str, float] = {}
        self._new: dict[tuple[UUID, int], float] = {}
        self.waiting = 0
        """Answers that wait now."""

    def lose(self, broker_id: int) -> None:
        """A connection that stood until now broke at the other end: its process may have ended."""
        self._lost[broker_id] = self._clock() + WAIT_S

    def see(self, view: MetadataView) -> None:
        """This is told from now on: who waits looks again, and who was fenced stays listed for a while."""
        before, self._view = self._view, view
        until = self._clock() + LISTED_S
        for one in view.fenced:
            if one.broker_id in before.brokers:
                self._fenced[one.broker_id] = one, until
        news, self._news = self._news, asyncio.Event()
        news.set()

    @property
    def lost(self) -> frozenset[int]:
        """Whose connection broke less than `WAIT_S` ago."""
        if self._lost:
            now = self._clock()
            self._lost = {broker_id: until for broker_id, until in self._lost.items() if until > now}
        return frozenset(self._lost)

    def just_fenced(self, view: MetadataView) -> Iterable[BrokerView]:
        """Who is fenced in this view, and was live `LISTED_S` ago."""
        if not self._fenced:
            return ()
        now, fenced = self._clock(), {one.broker_id for one in view.fenced}
        self._fenced = {
            broker_id: (one, until) for broker_id, (one, until) in self._fenced.items() if until > now
        }
        return [one for broker_id, (one, _) in self._fenced.items() if broker_id in fenced]

    @property
    def may_wait(self) -> bool:
        """False while as many answers wait as may."""
        return self.waiting < MOST_WAITING

    def asks_again(self, peer: str) -> bool:
        """Whether this connection has asked before who leads: it may know of a loss before this door does.

        True once in `HELD_AGAIN_S`, and of what comes while that one is held up.
        """
        now, held_at = self._clock(), self._held.get(peer)
        if held_at is None:
            self._held[peer] = -math.inf
            if len(self._held) > MOST_REMEMBERED:
                del self._held[next(iter(self._held))]
            return False
        if now - held_at >= HELD_AGAIN_S:
            self._held[peer] = held_at = now
        # Not from the last one on: who sends without waiting for answers would be held up for ever.
        return now - held_at < HEARD_WITHIN_S

    def may_soon_be_led(self, topic: TopicView) -> bool:
        """True of a topic with partitions that never had a leader, until `WAIT_S` after this was first asked.

        It has one as soon as a worker has proposed it. Where it has none by then nobody lives who could lead.
        """
        now, new, key = self._clock(), self._new, (topic.topic_id, len(topic.partitions))
        until = new.get(key)
        if until is None:
            while new and next(iter(new.values())) < now - FORGOTTEN_S:
                del new[next(iter(new))]
            if len(new) >= MOST_REMEMBERED:
                # Forgotten for another one it would be waited for again, and that one, for ever.
                return False
            until = new[key] = now + WAIT_S
        return until > now

    async def until_known(self, is_too_early: Callable[[], bool]) -> None:
        """Return as soon as it is not any more, which each new view may bring; at latest `WAIT_S` after the
        last loss, or the first question for a new topic. If not, a loss is awaited for `HEARD_WITHIN_S`.
        """
        self.waiting += 1
        try:
            if not is_too_early():
                await asyncio.sleep(HEARD_WITHIN_S)
            newest = next(reversed(self._new.values()), 0.0)
            until = max(self._lost.values(), default=0.0)
            async with asyncio.timeout(max(until, newest) - self._clock()):
                while is_too_early():
                    await self._news.wait()
        except TimeoutError:
            return
        finally:
            self.waiting -= 1
