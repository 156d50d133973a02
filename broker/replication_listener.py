"""This room is the broker's listener for other brokers: replica fetches, and nothing that clients do."""

from broker.core.peer_proof import NO_KEY
from broker.handlers_replication import ReplicaFetchHandler
from broker.introduction import gates
from broker.replicas import DataPlane
from broker.wakeups import WakeUps
from kafkaserver.limits import ServerLimits
from kafkaserver.replies import Reply
from kafkaserver.server import KafkaServer
from kafkaserver.tls import Certificate
from muster.kafkawire.api_table import ApiKey, RequestHeader
from muster.kafkawire.errors import UnsupportedRequest


class ReplicationListener:
    """The door of followers. Who connects proves first that it is a broker (`broker.core.peer_proof`).

    Then it takes only Fetch from version 15 on, with the replica id and the epoch of that broker.
    """

    def __init__(
        self, plane: DataPlane, limits: ServerLimits | None = None, certificate: Certificate | None = None
    ) -> None:
        self.key = NO_KEY
        """What the controller told; nobody is admitted before."""
        self._fetches = ReplicaFetchHandler(plane, WakeUps())
        gate = gates(plane.broker_id, lambda: self.key)
        self.server = KafkaServer("replication", self._handle, limits, gate, certificate=certificate)

    def listen(self, host: str, port: int) -> int:
        """Begin to accept; returns the port. Raises OSError."""
        return self.server.listen(host, port)

    def stop_taking(self) -> None:
        """Take nothing new, nor what has arrived and is held back; answers still leave."""
        self.server.stop_taking()

    async def drain(self, grace_ms: int) -> None:
        """Take nothing new, let answers leave, hang up."""
        await self.server.drain(grace_ms)

    def _handle(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        if header.api_key != ApiKey.FETCH:
            raise UnsupportedRequest(f"api key {header.api_key} on the replication listener")
        self._fetches.handle(header, frame, reply)
