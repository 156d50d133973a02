"""This room turns the environment into a broker's settings, and refuses what would not be safe."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

FIRST_BROKER_ID, LAST_BROKER_ID = 1, 9_999


class SettingError(Exception):
    """A setting is missing or unusable; the text names the variable and says what would do."""


class Address(NamedTuple):
    """A host and a TCP port; port 0 asks the system for a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """What one broker process was told; each field is one variable (README, table of settings)."""

    broker_id: int
    listen: Address
    """Kafka listener of clients."""
    replication_listen: Address
    """Kafka listener of the other brokers; the only one that takes a replica id (design chapter 8)."""
    data: Path
    nodes: tuple[str, ...]
    """Websocket addresses of nodes; any one suffices, it names the controller's."""
    secret: str = field(repr=False)
    rack: str = ""
    cluster_id: str = ""
    """If given, the cluster that this broker belongs to; it refuses any other."""
    http_listen: Address | None = None
    """/livez, /readyz, /metrics; None: not served."""
    heartbeat_interval_ms: int = 500
    relink_interval_ms: int = 200
    replica_lag_time_max_ms: int = 30_000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1_048_576
    replica_fetch_response_max_bytes: int = 10_485_760
    replica_fetch_backoff_ms: int = 200
    replica_socket_timeout_ms: int = 10_000
    min_insync_replicas: int = 1
    """For topics that set none; the controller's value must be the same."""
    log_segment_bytes: int = 1_073_741_824
    message_max_bytes: int = 1_048_588
    stray_retention_ms: int = 86_400_000
    high_watermark_checkpoint_interval_ms: int = 5_000


NUMBERS = {
    "broker.heartbeat.interval.ms": "heartbeat_interval_ms",
    "broker.relink.interval.ms": "relink_interval_ms",
    "replica.lag.time.max.ms": "replica_lag_time_max_ms",
    "replica.fetch.wait.max.ms": "replica_fetch_wait_max_ms",
    "replica.fetch.min.bytes": "replica_fetch_min_bytes",
    "replica.fetch.max.bytes": "replica_fetch_max_bytes",
    "replica.fetch.response.max.bytes": "replica_fetch_response_max_bytes",
    "replica.fetch.backoff.ms": "replica_fetch_backoff_ms",
    "replica.socket.timeout.ms": "replica_socket_timeout_ms",
    "min.insync.replicas": "min_insync_replicas",
    "log.segment.bytes": "log_segment_bytes",
    "message.max.bytes": "message_max_bytes",
    "stray.retention.ms": "stray_retention_ms",
    "replica.high.watermark.checkpoint.interval.ms": "high_watermark_checkpoint_interval_ms",
}
"""Kafka's key of each whole-numbered setting; its variable is MUSTER_ and the key in capitals."""


def variable(key: str) -> str:
    """The environment variable of a key: `replica.lag.time.max.ms` is MUSTER_REPLICA_LAG_TIME_MAX_MS."""
    return "MUSTER_" + key.upper().replace(".", "_")


def from_environment(environment: Mapping[str, str] = os.environ) -> BrokerSettings:
    """Read a broker's settings. Raises SettingError, naming the variable, for whatever cannot be used."""
    http_listen = environment.get("MUSTER_BROKER_HTTP_LISTEN", "")
    return BrokerSettings(
        broker_id=_broker_id(environment),
        listen=_loopback_address("MUSTER_BROKER_LISTEN", environment, "127.0.0.1:9092"),
        replication_listen=_loopback_address("MUSTER_BROKER_REPLICATION_LISTEN", environment, "127.0.0.1:0"),
        data=Path(_required("MUSTER_BROKER_DATA", environment)),
        nodes=_nodes(environment),
        secret=_secret(environment),
        rack=environment.get("MUSTER_BROKER_RACK", ""),
        cluster_id=environment.get("MUSTER_CLUSTER_ID", ""),
        http_listen=_address("MUSTER_BROKER_HTTP_LISTEN", http_listen) if http_listen else None,
        **{name: _number(key, environment) for key, name in NUMBERS.items() if variable(key) in environment},
    )


def is_loopback(host: str) -> bool:
    """True if `host` names only this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _required(name: str, environment: Mapping[str, str]) -> str:
    value = environment.get(name, "").strip()
    if not value:
        raise SettingError(f"{name} is not set.")
    return value


def _broker_id(environment: Mapping[str, str]) -> int:
    text = _required("MUSTER_BROKER_ID", environment)
    if not text.isdecimal() or not FIRST_BROKER_ID <= int(text) <= LAST_BROKER_ID:
        raise SettingError(f"MUSTER_BROKER_ID={text!r} is not a whole number from 1 to 9999.")
    return int(text)


def _number(key: str, environment: Mapping[str, str]) -> int:
    text = environment[variable(key)].strip()
    if not text.isdecimal() or int(text) < 1:
        raise SettingError(f"{variable(key)}={text!r} is not a whole number above 0.")
    return int(text)


def _address(name: str, text: str) -> Address:
    try:
        split = urlsplit(f"//{text}")
        host, port = split.hostname, split.port
    except ValueError:
        host, port = None, None
    if not host or port is None:
        raise SettingError(f"{name}={text!r} is not HOST:PORT.")
    return Address(host, port)


def _loopback_address(name: str, environment: Mapping[str, str], default: str) -> Address:
    address = _address(name, environment.get(name, default))
    if not is_loopback(address.host):
        raise SettingError(
            f"{name}={address}: the Kafka listeners have no SASL and no TLS yet, so they bind to loopback "
            "only; use 127.0.0.1 or [::1]."
        )
    return address


def _nodes(environment: Mapping[str, str]) -> tuple[str, ...]:
    addresses = [part.strip().rstrip("/") for part in _required("MUSTER_NODES", environment).split(",")]
    for address in addresses:
        split = urlsplit(address)
        if split.scheme not in ("ws", "wss") or not split.hostname:
            raise SettingError(f"MUSTER_NODES: {address!r} is not ws://HOST:PORT or wss://HOST:PORT.")
        if split.scheme == "ws" and not is_loopback(split.hostname):
            raise SettingError(
                f"MUSTER_NODES: {address} would send the secret in the clear; use wss:// there."
            )
    return tuple(addresses)


def _secret(environment: Mapping[str, str]) -> str:
    name, file_name = "MUSTER_BROKER_SECRET", environment.get("MUSTER_BROKER_SECRET_FILE", "")
    if not file_name:
        return _required(name, environment)
    if environment.get(name):
        raise SettingError(f"{name} and {name}_FILE are both set; keep one.")
    try:
        secret = Path(file_name).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingError(f"{name}_FILE={file_name} cannot be read: {error.strerror}.") from error
    if not secret:
        raise SettingError(f"{name}_FILE={file_name} is empty.")
    return secret
