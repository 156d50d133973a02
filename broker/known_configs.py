"""This room tells the door of clients which configs are set, by what the controller told this broker."""

import asyncio
import contextlib
from collections.abc import Callable, Collection

from broker.core.cluster_view import ClusterView
from broker.known_topics import KnownTopics
from kafkaserver.admin.configs import SetConfigs
from kafkaserver.cluster_answers import MetadataView
from muster.kernel.config_levels import Levels


class ConfigsOfBroker:
    """What this broker was told (kafkaserver.admin.configs.KnownConfigs); `view` is what clients are told."""

    def __init__(self, known: ClusterView, topics: KnownTopics, view: Callable[[], MetadataView]) -> None:
        self._known = known
        self._topics = topics
        self._view = view
        self._applied = 0
        self._waiting: set[asyncio.Event] = set()

    def applied(self, version: int) -> None:
        """Everything up to this metadata version holds here."""
        self._applied = version
        for waiting in self._waiting:
            waiting.set()

    async def look(self, topics: Collection[str], brokers: Collection[int]) -> SetConfigs:
        """What is set for these, as far as this broker was told."""
        named = self._view().topics
        found = ((name, self._topics.get(named[name].topic_id)) for name in topics if name in named)
        return SetConfigs(
            topics={name: topic.configs for name, topic in found if topic is not None},
            brokers={
                broker_id: levels
                for broker_id in brokers
                if (levels := self._levels_of(broker_id)) is not None
            },
            nodes=self._view().nodes,
            levels=self._topics.levels,
        )

    def _levels_of(self, broker_id: int) -> Levels | None:
        if broker_id == self._known.broker_id:
            return self._topics.levels
        row = self._known.brokers.get(broker_id)
        if row is None:
            return None
        static = {**row.static_configs, **self._topics.nodes_static}
        return Levels(self._known.configs_of(broker_id), self._known.cluster_configs, static)

    async def until_known(self, version: int, timeout_s: float) -> None:
        """Return when the turn of this version is applied, or the time is over."""
        changed = asyncio.Event()
        self._waiting.add(changed)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    while self._applied < version:
                        changed.clear()
                        await changed.wait()
        finally:
            self._waiting.discard(changed)
