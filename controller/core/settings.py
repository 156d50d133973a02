"""This room names the numbers that the controller decides with; defaults are Kafka's where Kafka has one."""

from dataclasses import dataclass, field


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
    max_elections_in_the_turn: int = 200
    """A death that touches more partitions is computed by a worker (`on_broker_change`), not on the node."""
    max_changed_in_bulk: int = 10_000
    """Partitions that a turn changes for a worker or for a broker that comes or goes; the rest is done in the
    turns behind it: a transaction of two seconds would be ended."""
    max_reassignments: int = 500
    """Reassignments that are in progress at a time; the others wait in the order of asking."""
    max_reassignments_per_broker: int = 100
    """Of these, how many a broker may lead or be added to."""
    producer_ids_per_block: int = 1_000
    replication_key: str = field(default="", repr=False, compare=False)
    """Told to every broker: by it they know each other on their replication listeners."""
