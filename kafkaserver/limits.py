"""This room says what strangers may make a Kafka door do, and counts what they did."""

import resource
from dataclasses import dataclass, field

from muster.kafkawire.framing import DEFAULT_LIMIT_BYTES


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What a stranger may make this door do."""

    request_bytes: int = DEFAULT_LIMIT_BYTES
    requests_in_memory_bytes: int = 512 * 1024 * 1024
    """Of all connections together; who needs more waits for its turn (`kafkaserver.request_memory`)."""
    memory_turn_ms: int = 10_000
    """So long may a frame take that is let in although memory is short."""
    connections: int = 5_000
    accept_pause_ms: int = 1_000
    """So long nobody is accepted when the process has no descriptor left."""
    admission_ms: int = 5_000
    """A door with a gate closes who has not passed it by then; until then they are strangers."""
    connections_of_one_address: int = 0
    """So many of one address (a /64 of IPv6), strangers or not: Kafka's `max.connections.per.ip`. 0: any
    number."""
    strangers_of_one_address: int = 0
    """So many of one address (a /64 of IPv6) may be here; beyond, the oldest goes. 0: any number."""
    idle_ms: int = 600_000
    """Kafka's `connections.max.idle.ms`."""
    parked_replies: int = 128
    """Requests of one connection that may wait for an answer before it is read no further."""
    parked_elements: int = 20_000
    """Partitions that the waiting requests of one connection may name before it is read no further."""
    parked_elements_in_all: int = 500_000
    """Of all connections together; a fetch above it is answered at once with what there is."""
    outbox_bytes: int = 64 * 1024 * 1024
    """Bytes that may wait for one connection before it is read no further."""
    answers_bytes: int = 1024 * 1024
    """Of these, bytes in memory: regions of files cost none."""
    send_buffer_bytes: int = 256 * 1024
    """What a connection's socket takes before its peer has taken some (the system holds twice as much, and
    net.core.wmem_max bounds it): Kafka's `socket.send.buffer.bytes`. 0: as much as the system likes, which
    wakes the reader of a large answer for every piece: a megabyte costs about twice the CPU then."""
    answers_in_memory_bytes: int = 512 * 1024 * 1024
    """Of all connections together; above it, who holds most of them is hung up on."""


@dataclass(slots=True)
class ServerCounters:
    """What happened at this door since it was opened."""

    accepted: int = 0
    refused: int = 0
    late: int = 0
    """Closed because they had not said in time who they are."""
    crowding: dict[str, int] = field(default_factory=dict)
    """Closed before they had said who they are, to make room for others, by why (`kafkaserver.strangers`)."""
    unproved: int = 0
    """Closed because they did not prove who they are, or because nobody could say."""
    without_tls: int = 0
    """Closed because they and we could not agree on TLS, or on whom to trust."""
    accept_pauses: int = 0
    """How often nobody was accepted for a while, because the process had no descriptor left."""
    requests: int = 0
    malformed: int = 0
    oversize: int = 0
    idle: int = 0
    greedy: int = 0
    """Closed because answers to them filled the memory, or a frame came too slowly while it was short."""
    failed: int = 0
    """Closed because of our own mistake, not the peer's."""


def client_limits(
    connections: int = ServerLimits().connections,
    strangers_of_one_address: int = 0,
    connections_of_one_address: int = 0,
    send_buffer_bytes: int = ServerLimits().send_buffer_bytes,
) -> ServerLimits:
    """So many clients, that take at most half of this process's descriptors: whatever else it has needs
    the others.
    """
    return ServerLimits(
        connections=_at_most_one_in(2, connections),
        connections_of_one_address=connections_of_one_address,
        strangers_of_one_address=strangers_of_one_address,
        send_buffer_bytes=send_buffer_bytes,
    )


def peer_limits(send_buffer_bytes: int = ServerLimits().send_buffer_bytes) -> ServerLimits:
    """Peers take at most an eighth of them, whoever they are: none has proved yet that it is a broker."""
    most = _at_most_one_in(8, ServerLimits().connections)
    return ServerLimits(connections=most, send_buffer_bytes=send_buffer_bytes)


def _at_most_one_in(share: int, connections: int) -> int:
    """So many, but for what this process may open."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(connections, max(descriptors // share, 1))
