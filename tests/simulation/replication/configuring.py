"""This room looks whether everybody obeys the configs that change while a walk runs.

Whoever has heard of another min.insync.replicas commits by it, elections and shrinks go by the rows, and in
the end leaders obey what the rows say (`runner.settle`).
"""

from typing import TYPE_CHECKING
from uuid import UUID

from controller.core.draft import levels_of, policy_of
from muster.kernel import config_levels
from muster.kernel.config_levels import Levels
from muster.kernel.topic_configs import MIN_INSYNC_REPLICAS
from muster.messages.link.rows import EVERY_BROKER

if TYPE_CHECKING:
    from tests.simulation.replication.world import World


class Configuring:
    """What holds by the rows of one world, and by what each broker has heard of them."""

    def least(self, world: "World", topic_id: UUID) -> int:
        """The topic's min.insync.replicas as it is written."""
        rows = world.rows()
        cluster = rows.configs.get(EVERY_BROKER)
        levels = levels_of(cluster.configs if cluster else {}, world.settings)
        return policy_of(rows.topics[topic_id].configs, levels).min_insync_replicas

    def look(self, world: "World") -> str:
        """What does not hold; "" if all does."""
        static = world.settings.static_configs
        for broker in world.brokers.values():
            view = broker.view
            if not (broker.up and view.ready):
                continue
            levels = Levels({}, view.cluster_configs, static)
            for key, replica in broker.replicas.items():
                topic = view.topics.get(key[0])
                heard = config_levels.number(MIN_INSYNC_REPLICAS, topic.configs, levels) if topic else 0
                if topic is not None and replica.min_insync_replicas != heard:
                    return "a replica obeys another min.insync.replicas than its broker has heard"
        return ""
