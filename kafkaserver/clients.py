"""This room knows which clients need not be told where nodes are: they reach a coordinator as they found it.

Java's consumer and producer connect to where FindCoordinator sent them, whether Metadata lists it or not; to
whoever is listed they send the next FindCoordinator or Metadata, where nothing else waits there. A node that
hangs would be asked, and its answer waited for as long as `request.timeout.ms`: longer than a session lasts.
"""

from typing import Final

from muster.kafkawire.api_table import SERVED, ApiKey, RequestHeader, read_request
from muster.kafkawire.errors import KafkaWireError

_JAVA: Final = "apache-kafka-java"
_NAMED_SINCE: Final = 3
"""Since this version of ApiVersions a client says of which software it is (KIP-511)."""


class Client:
    """What one connection said of its software; nothing so far."""

    __slots__ = ("finds_nodes_itself",)

    def __init__(self) -> None:
        self.finds_nodes_itself = False
        """True if who asks here for topics by name needs no list of nodes beside that of brokers."""

    def introduced(self, header: RequestHeader, frame: memoryview) -> None:
        """It said ApiVersions. What cannot be read names nobody: every version of it is answered."""
        if not _NAMED_SINCE <= header.api_version <= SERVED[ApiKey.API_VERSIONS].maximum:
            return
        try:
            self.finds_nodes_itself = read_request(header, frame).client_software_name == _JAVA
        except KafkaWireError:
            return
