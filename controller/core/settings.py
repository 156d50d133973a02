"""This room names the numbers that the controller decides with; defaults are Kafka's where Kafka has one."""

from dataclasses import dataclass, field

from muster.kernel.topic_configs import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Durations in milliseconds; names are the settings' keys with underscores."""

    broker_session_timeout_ms: int = 9_000
    """A broker that was not heard for this long is dead; one that hangs has this long."""
    closed_link_timeout_ms: int = 1_000
    """A closed link shortens the session to this: it proves nothing, but a broker relinks at once."""
    default_partition_count: int = 1
    default_replication_factor: int = 1
    default_min_insync_replicas: int = 1
    default_unclean_leader_election: bool = False
    max_partitions_per_request: int = 10_000
    max_changed_in_bulk: int = 10_000
    """Partitions that a turn changes for a worker or for a broker that comes or goes; the rest is done in the
    turns behind it: a transaction of two seconds would be ended. What a death leaves to them is computed by a
    worker (`on_broker_change`)."""
    max_altered_in_a_turn: int = 1_000
    """Partitions whose reassignments one turn asks for or cancels by request: it holds the loop for some
    milliseconds. The rest of a request is done in the turns behind it, then it is answered."""
    max_reassignments: int = 500
    """Reassignments that are in progress at a time; the others wait in the order of asking."""
    max_waiting_reassignments: int = 20_000
    """How many may wait for that: who deletes their topic ends all of them in one transaction."""
    max_reassignments_per_broker: int = 100
    """Of those in progress, how many a broker may lead or be added to."""
    auto_leader_rebalance: bool = True
    """Partitions go back to the broker that stands first for them, some time after it is in sync again."""
    leader_imbalance_per_broker_percentage: int = 10
    """Only if a broker does not lead more than this of what it stands first for."""
    leader_imbalance_check_interval_ms: int = 300_000
    max_elections_per_pass: int = 1_000
    """Leaders that one look at all partitions changes; the next follows soon."""
    unproven_patience_ms: int = 30_000
    """After the database was set back: how long a partition waits for replicas that have not shown their
    logs, once one of its brokers is there. Whoever leads then may lack what they hold."""
    producer_ids_per_block: int = 1_000
    replication_key: str = field(default="", repr=False, compare=False)
    """Told to every broker: by it they know each other on their replication listeners."""

    @property
    def static_configs(self) -> dict[str, str]:
        """What the environment says of configs that the controller obeys, by their names."""
        return {
            MIN_INSYNC_REPLICAS: str(self.default_min_insync_replicas),
            UNCLEAN_LEADER_ELECTION: "true" if self.default_unclean_leader_election else "false",
        }
