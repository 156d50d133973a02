"""This room is what every deed of chaos needs: a cluster, whoever writes and reads, dice, kill -9."""

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Final

from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from muster.kafkawire.api_table import ApiKey, build, part, request_class
from tests.acceptance.chaos_cluster import FOUR, PARTITIONS, TOPICS, ChaosCluster
from tests.acceptance.chaos_records import Account
from tests.acceptance.cut_links import Cut

SHORT_NAP_S: Final = 1.0
"""Shorter than a broker's session and a lease: whoever sleeps so long is not missed."""


class Deeds:
    """One seed's deeds on one cluster; `say` tells what is done."""

    def __init__(
        self, cluster: ChaosCluster, account: Account, seed: int, say: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._account = account
        self._dice = Random(seed)
        self._say = say

    def _place(self) -> tuple[str, int]:
        """Some partition."""
        return self._dice.choice(TOPICS), self._dice.randrange(PARTITIONS)

    def _kill(self, name: str) -> None:
        self._cluster.process(name).kill()

    def _how(self) -> Cut:
        return self._dice.choice(list(Cut))

    def _start_all(self) -> None:
        for name in [*self._cluster.nodes, *(f"broker-{number}" for number in FOUR)]:
            self._cluster.again(name)

    def _set_config(self, broker: str, key: str, value: str | None) -> None:
        """As an operator's tool does; None: it is set no more."""
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(key, value or "", incremental_operation=operation)
        number = broker.removeprefix("broker-")
        resource = ConfigResource(ResourceType.BROKER, number, incremental_configs=[entry])
        admin = self._cluster.admin()
        admin.incremental_alter_configs([resource], request_timeout=20.0)[resource].result(30)

    def _ask_to_move(self, topic: str, number: int, target: tuple[int, ...] | None, *without: str) -> None:
        """As Kafka's tool does, at any door but those of `without`; None: cancel."""
        key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
        shape = request_class(key, 0)
        place = build(part(shape, "ReassignablePartition"), partition_index=number, replicas=target)
        named = build(part(shape, "ReassignableTopic"), name=topic, partitions=(place,))
        port = self._dice.choice(self._cluster.ports_of_doors(*without))
        body = build(shape, topics=(named,), timeout=timedelta(seconds=10))
        answer = self._cluster.ask_at(port, key, 0, body)
        (one,) = answer.responses[0].partitions
        assert int(one.error_code) == 0, (topic, number, target, one)
