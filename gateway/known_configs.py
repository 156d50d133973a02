"""This room tells the door of a node which configs are set: it reads the rows, which are always as of now."""

from collections.abc import Collection, Mapping
from functools import partial

from controller import catalog
from gateway.shared_reads import InTurn
from kafkaserver.admin.asking import ControllerUnreachable
from kafkaserver.admin.configs import SetConfigs
from muster.kernel.config_levels import Levels
from runtime.ports import Connection, ConnectionLost, NodeContext


class ConfigsOfNode:
    """What is set (kafkaserver.admin.configs.KnownConfigs); `static` is what this node was started with."""

    def __init__(self, node: NodeContext, static: Mapping[str, str]) -> None:
        self._node = node
        self._in_turn = InTurn(node)
        self._static = static

    async def look(self, topics: Collection[str], brokers: Collection[int]) -> SetConfigs:
        """What is set for these. Raises ControllerUnreachable."""
        try:
            # No topic has a name that the database does not take.
            names = [name for name in topics if "\0" not in name]
            found = await self._in_turn.query(partial(_read_configs, topics=names, brokers=list(brokers)))
        except ConnectionLost as problem:
            raise ControllerUnreachable(str(problem)) from problem
        cluster = found.cluster
        return SetConfigs(
            topics=found.topics,
            brokers={
                broker_id: Levels(one.configs, cluster, {**one.static, **self._static})
                for broker_id, one in found.brokers.items()
            },
            nodes={one.node_id for one in self._node.live_nodes()},
            levels=Levels(cluster=cluster, static={**found.static, **self._static}),
        )

    async def until_known(self, version: int, timeout_s: float) -> None:
        """What is committed is read."""


def _read_configs(connection: Connection, topics: list[str], brokers: list[int]) -> catalog.StoredConfigs:
    return catalog.configs(connection, topics, brokers)
