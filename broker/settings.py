"""This room turns the environment into a broker's settings, and refuses what would not be safe."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from kafkaserver.authorities import CA, refuse_unusable_authorities
from kafkaserver.guard import CERTIFICATE, KEY, NEW, SASL, STANDING, Belief, Guard
from kafkaserver.limits import ServerLimits, client_limits, peer_limits
from muster.kernel.addresses import is_loopback, is_unspecified, place_of_websocket
from muster.kernel.environment import Environment, SettingError
from muster.kernel.settings import DECLARED
from muster.messages.limits import LONGEST_RACK


class Address(NamedTuple):
    """A host and a TCP port; port 0 asks the system for a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """What one broker process was told; each field is one variable of `docs/settings.md`."""

    broker_id: int
    listen: Address
    """Kafka listener of clients."""
    replication_listen: Address
    """Kafka listener of the other brokers; the only one that takes a replica id (design chapter 8)."""
    data: Path
    nodes: tuple[str, ...]
    """Websocket addresses of nodes; any one suffices, it names the controller's."""
    secret: str = field(repr=False)
    address: Address | None = None
    """Where Kafka clients reach `listen`; None: as it is."""
    replication_address: Address | None = None
    """Where other brokers reach `replication_listen`; None: as it is."""
    ca_file: str | None = None
    """Whom this broker trusts as nodes and as brokers; None: whom the system trusts."""
    rack: str = ""
    cluster_id: str = ""
    """If given, the cluster that this broker belongs to; it refuses any other."""
    strangers_per_address: int = 0
    """Connections of one address that have not said yet who they are; 0: any number."""
    connections_per_address: int = 0
    """Connections of one address; 0: any number."""
    http_listen: Address | None = None
    """/livez, /readyz, /metrics; None: not served."""
    socket_send_buffer_bytes: int = ServerLimits().send_buffer_bytes
    """Of each connection of clients and of other brokers; 0: as much as the system likes."""
    heartbeat_interval_ms: int = 500
    relink_interval_ms: int = 200
    replica_lag_time_max_ms: int = 30_000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1_048_576
    replica_fetch_response_max_bytes: int = 10_485_760
    replica_fetch_backoff_ms: int = 200
    replica_socket_timeout_ms: int = 10_000
    max_incremental_fetch_session_cache_slots: int = 1_000
    initial_broker_registration_timeout_ms: int = 60_000
    """How long another process of this id may keep this one out before it gives up."""
    controlled_shutdown_timeout_ms: int = 5_000
    """How long a broker that was told to stop serves on for others to lead what it leads."""
    log_segment_bytes: int = 1_073_741_824
    log_reserve_bytes: int = 67_108_864
    """With less room on the disk producers are refused."""
    message_max_bytes: int = 1_048_588
    stray_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    high_watermark_checkpoint_interval_ms: int = 5_000

    @property
    def client_limits(self) -> ServerLimits:
        """What the listener of clients lets them do."""
        return client_limits(
            strangers_of_one_address=self.strangers_per_address,
            connections_of_one_address=self.connections_per_address,
            send_buffer_bytes=self.socket_send_buffer_bytes,
        )

    @property
    def peer_limits(self) -> ServerLimits:
        """What the listener of other brokers lets them do."""
        return peer_limits(self.socket_send_buffer_bytes)


NUMBERS = (
    *("heartbeat_interval_ms", "relink_interval_ms"),
    *("replica_lag_time_max_ms", "replica_fetch_wait_max_ms", "replica_fetch_min_bytes"),
    *("replica_fetch_max_bytes", "replica_fetch_response_max_bytes", "replica_fetch_backoff_ms"),
    *("replica_socket_timeout_ms", "log_segment_bytes", "message_max_bytes"),
    *("max_incremental_fetch_session_cache_slots", "socket_send_buffer_bytes"),
    "log_reserve_bytes",
    *("controlled_shutdown_timeout_ms", "initial_broker_registration_timeout_ms"),
    *("stray_retention_ms", "file_delete_delay_ms"),
    "high_watermark_checkpoint_interval_ms",
)
"""The fields that are whole numbers of their own variable."""

PREFIXES = {
    "heartbeat_interval_ms": "MUSTER_BROKER_",
    "relink_interval_ms": "MUSTER_BROKER_",
    "high_watermark_checkpoint_interval_ms": "MUSTER_REPLICA_",
}


def variable(name: str) -> str:
    """The environment variable of a field that is a number."""
    return PREFIXES.get(name, "MUSTER_") + name.upper()


def from_environment(given: Mapping[str, str] = os.environ) -> BrokerSettings:
    """Read a broker's settings. Raises SettingError, naming the variable, for whatever cannot be used."""
    environment = reader(given)
    address = environment.text("MUSTER_BROKER_ADDRESS")
    replication_address = environment.text("MUSTER_BROKER_REPLICATION_ADDRESS")
    http_listen = environment.text("MUSTER_BROKER_HTTP_LISTEN")
    return BrokerSettings(
        broker_id=environment.number("MUSTER_BROKER_ID"),
        listen=_address("MUSTER_BROKER_LISTEN", environment.text("MUSTER_BROKER_LISTEN")),
        address=_address("MUSTER_BROKER_ADDRESS", address) if address else None,
        replication_listen=_address(
            "MUSTER_BROKER_REPLICATION_LISTEN", environment.text("MUSTER_BROKER_REPLICATION_LISTEN")
        ),
        replication_address=_address("MUSTER_BROKER_REPLICATION_ADDRESS", replication_address)
        if replication_address
        else None,
        ca_file=_authorities(environment.text(CA)),
        data=_folder("MUSTER_BROKER_DATA", environment.text("MUSTER_BROKER_DATA")),
        nodes=_nodes(environment),
        secret=environment.text("MUSTER_BROKER_SECRET"),
        rack=_rack(environment.text("MUSTER_BROKER_RACK")),
        cluster_id=environment.text("MUSTER_CLUSTER_ID").lower(),
        strangers_per_address=environment.number("MUSTER_STRANGERS_PER_ADDRESS"),
        connections_per_address=environment.number("MUSTER_KAFKA_CONNECTIONS_PER_ADDRESS"),
        http_listen=_address("MUSTER_BROKER_HTTP_LISTEN", http_listen) if http_listen else None,
        **{name: environment.number(variable(name)) for name in NUMBERS},
    )


def guard_of(environment: Environment) -> Guard:
    """What the listener of clients asks of them. Raises SettingError."""
    belief = Belief(environment.number(NEW), environment.number(STANDING))
    return Guard.of(environment.switch(SASL), environment.text(CERTIFICATE), environment.text(KEY), belief)


def reader(given: Mapping[str, str] = os.environ) -> Environment:
    """The environment of a broker, by the declarations that all processes share."""
    return Environment(given, DECLARED, lambda name: Path(name).read_text(encoding="utf-8"))


def _folder(name: str, text: str) -> Path:
    """The one folder of the logs. Raises SettingError for several, as Kafka's `log.dirs` names them."""
    if ",/" in text.replace(" ", ""):
        raise SettingError(
            f"{name} names several folders; a broker has one log directory:"
            " join the disks to one volume, or run a broker on each."
        )
    return Path(text)


def _authorities(ca_file: str) -> str | None:
    refuse_unusable_authorities(ca_file)
    return ca_file or None


def _address(name: str, text: str) -> Address:
    try:
        split = urlsplit(f"//{text}")
        host, port = split.hostname, split.port
    except ValueError:
        host, port = None, None
    if not host or port is None:
        raise SettingError(f"{name}={text!r} is not HOST:PORT.")
    return Address(host, port)


def refuse_open_doors(settings: BrokerSettings, guard: Guard) -> None:
    """Off loopback clients say who they are, and brokers speak TLS. Raises SettingError."""
    guard.refuse_open_door("MUSTER_BROKER_LISTEN", settings.listen.host)
    if not is_loopback(settings.replication_listen.host) and guard.certificate is None:
        raise SettingError(
            f"MUSTER_BROKER_REPLICATION_LISTEN={settings.replication_listen}: records would travel in the"
            f" clear; off loopback it needs {CERTIFICATE} and {KEY}, else use 127.0.0.1 or [::1]."
        )
    for listen, address, name in (
        (settings.listen, settings.address, "MUSTER_BROKER_ADDRESS"),
        (settings.replication_listen, settings.replication_address, "MUSTER_BROKER_REPLICATION_ADDRESS"),
    ):
        if is_unspecified(listen.host) and address is None:
            raise SettingError(f"{name} is not set, and nobody can connect to {listen}: say who this is.")


def _rack(name: str) -> str:
    if len(name) > LONGEST_RACK or not name.isprintable():
        raise SettingError(f"MUSTER_BROKER_RACK has {LONGEST_RACK} printable characters at most.")
    return name


def _nodes(environment: Environment) -> tuple[str, ...]:
    addresses = [address.rstrip("/") for address in environment.words("MUSTER_NODES")]
    for address in addresses:
        if not place_of_websocket(address):
            raise SettingError(f"MUSTER_NODES: {address!r} is not ws://HOST:PORT or wss://HOST:PORT.")
        split = urlsplit(address)
        if split.scheme == "ws" and not is_loopback(split.hostname or ""):
            raise SettingError(
                f"MUSTER_NODES: {address} would send the secret in the clear; use wss:// there."
            )
    return tuple(addresses)
