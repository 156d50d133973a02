"""This room holds the rows that travel on the broker link: partitions, topics, brokers and nodes.

Rules of the link: replication.md section 3, design chapter 7. Epochs and versions are plain integers.
"""

from typing import Final
from uuid import UUID

import msgspec

CLIENT_LISTENER: Final = "client"
REPLICATION_LISTENER: Final = "replication"
CLIENT_SECURITY: Final = "client_security"
"""Beside the listeners' addresses: how that of clients is spoken to (muster.kernel.security_protocols)."""
REPLICATION_SECURITY: Final = "replication_security"
"""The same of the replication listener; one that says nothing is spoken to in the clear."""

NO_LEADER: Final = -1

PROVEN: Final = 0
"""Who is in sync by the row holds all that was committed."""
UNPROVEN: Final = 1
"""The rows were set back to an earlier moment: who is in sync by them may have been dropped since."""
DOUBTED: Final = 2
"""Besides, a replica has lost the tail of its log since: nobody can tell whether only it held that."""
UNPROVEN_AGAIN: Final = 3
"""The rows were set back once more before anybody led: this ISR is older than the last set-back."""

PartitionKey = tuple[UUID, int]
"""A partition by its topic's id and its number."""


class PartitionRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One partition as the controller wrote it; a bare array on the wire, as a snapshot names every one.

    `version` is the metadata_version of the turn that last changed this row: the condition of every change
    of the ISR, and the order of all that is told about this partition. `isr` is empty and `leader_epoch`
    that of `base_epoch` as long as the partition never had a leader.
    """

    topic_id: UUID
    partition: int
    assigned: tuple[int, ...]
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    version: int
    adding: tuple[int, ...] = ()
    """Replicas that a reassignment under way adds; they count for no floor before it has switched."""
    removing: tuple[int, ...] = ()
    """Replicas that leave when it has."""
    throttle: int = 0
    """Bytes a second that a broker may send, and that one may take, of what is being added; 0: any."""
    base_epoch: int = 0
    """Leader epochs up to this one were given by partitions of this number that were removed; 0: none was.

    A log that holds one of them is not of this partition."""
    unproven: int = PROVEN
    """Not PROVEN: the database was set back, so others than `isr` may hold what was committed since. Nobody
    leads, and every replica shows its log, before one is elected (replication.md section 2)."""

    # gc=False, here and below: numbers and ids make no cycles, and a collection need not walk through them.

    @property
    def key(self) -> PartitionKey:
        return self.topic_id, self.partition

    @property
    def is_unproven(self) -> bool:
        """True if nobody leads before the replicas have shown their logs; a node of before may elect."""
        return self.unproven != PROVEN and self.leader == NO_LEADER

    @property
    def settled_count(self) -> int:
        """How many replicas count for the floor: those that no reassignment is still adding."""
        return len(self.assigned) - len(self.adding)


class AlikePartitions(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Partitions of one topic whose rows differ in nothing but number and version.

    The death of a broker changes ten thousand rows to a few outcomes: what is alike is said, stored and
    journalled once.
    """

    topic_id: UUID
    assigned: tuple[int, ...]
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partitions: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    throttle: int = 0
    base_epoch: int = 0
    unproven: int = PROVEN

    def row(self, partition: int, version: int) -> PartitionRow:
        """The row of one of them."""
        return PartitionRow(
            self.topic_id,
            partition,
            self.assigned,
            self.leader,
            self.leader_epoch,
            self.isr,
            version,
            self.adding,
            self.removing,
            self.throttle,
            self.base_epoch,
            self.unproven,
        )

    def rows(self, version: int) -> list[PartitionRow]:
        """The row of each, all of one version."""
        return [self.row(partition, version) for partition in self.partitions]


class UnusableAt(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Logs of one topic, by number, that one live broker can neither read nor write, or can use again.

    Not rows: the controller knows them from the brokers' own words, and a new owner hears them anew.
    """

    broker_id: int
    topic_id: UUID
    failed: tuple[int, ...] = ()
    usable: tuple[int, ...] = ()


class TopicRow(msgspec.Struct, frozen=True):
    """One topic; `configs` holds what was set for it, by Kafka's names and as text."""

    topic_id: UUID
    name: str
    partition_count: int
    replication_factor: int
    configs: dict[str, str] = {}
    version: int = 0
    """The metadata_version of the turn that last changed this row."""
    removed_epoch: int = 0
    """No partition of it that was removed had a higher leader epoch: those that are added begin above."""


EVERY_BROKER: Final = 0
"""Whose configs hold for the whole cluster: no broker has this id."""


class BrokerConfigs(msgspec.Struct, frozen=True):
    """What was set for one broker, or for EVERY_BROKER, by the names that brokers use and as text."""

    broker_id: int
    configs: dict[str, str] = {}
    version: int = 0
    """The metadata_version of the turn that last changed them."""


class BrokerRow(msgspec.Struct, frozen=True):
    """One registered broker; `endpoints` maps a listener (`client`, `replication`) to host:port.

    It says `client_security` and `replication_security`, too, unless these are spoken to in the clear.
    """

    broker_id: int
    broker_epoch: int
    incarnation: str
    endpoints: dict[str, str]
    rack: str = ""
    live: bool = True
    leaving: bool = False
    """It serves on and will stop soon: it is neither elected nor admitted to an ISR."""
    cordoned: bool = False
    """An operator wants no new replicas on it; what it has it keeps."""
    static_configs: dict[str, str] = {}
    """What its environment says of configs, by the one name of each."""
    version: int = 0
    """The metadata_version of the turn that last changed this row."""


class NodeRow(msgspec.Struct, frozen=True):
    """One live node: its websocket's address, its number, and host:port of its Kafka listener ("": none)."""

    name: str
    address: str
    node_id: int = 0
    kafka: str = ""
