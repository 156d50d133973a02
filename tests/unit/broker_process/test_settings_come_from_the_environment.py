"""A broker reads its settings from the environment and refuses what would not be safe."""

from pathlib import Path

import pytest

from broker.settings import Address, from_environment
from muster.kernel.environment import SettingError

ENOUGH = {
    "MUSTER_BROKER_ID": "1",
    "MUSTER_BROKER_DATA": "/data/1",
    "MUSTER_NODES": "ws://127.0.0.1:9301",
    "MUSTER_BROKER_SECRET": "s3cret",
}


def test_what_is_not_said_has_kafkas_default() -> None:
    settings = from_environment(ENOUGH)
    assert settings.listen == Address("127.0.0.1", 9092)
    assert settings.replica_lag_time_max_ms == 30_000
    assert settings.replica_fetch_response_max_bytes == 10_485_760
    assert settings.http_listen is None


def test_every_key_is_a_variable() -> None:
    settings = from_environment(
        {
            **ENOUGH,
            "MUSTER_BROKER_LISTEN": "[::1]:19092",
            "MUSTER_BROKER_HTTP_LISTEN": "127.0.0.1:9402",
            "MUSTER_REPLICA_LAG_TIME_MAX_MS": "1500",
            "MUSTER_KAFKA_CONNECTIONS_PER_ADDRESS": "7",
            "MUSTER_CLUSTER_ID": "6F1C3A52-8B0E-4D6A-9C53-2E7F0B1D4A90",
            "MUSTER_NODES": "ws://127.0.0.1:9301/, wss://node.example:443",
        }
    )
    assert settings.listen == Address("::1", 19092)
    assert str(settings.listen) == "[::1]:19092"
    assert settings.http_listen == Address("127.0.0.1", 9402)
    assert settings.replica_lag_time_max_ms == 1_500
    assert settings.client_limits.connections_of_one_address == 7
    assert settings.cluster_id == "6f1c3a52-8b0e-4d6a-9c53-2e7f0b1d4a90"
    assert settings.nodes == ("ws://127.0.0.1:9301", "wss://node.example:443")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("MUSTER_BROKER_ID", "", "is not set"),
        ("MUSTER_BROKER_ID", "0", "from 1 to 9999"),
        ("MUSTER_BROKER_ID", "10000", "from 1 to 9999"),
        ("MUSTER_BROKER_ID", "one", "from 1 to 9999"),
        ("MUSTER_BROKER_REPLICATION_LISTEN", "9093", "is not HOST:PORT"),
        ("MUSTER_BROKER_REPLICATION_ADDRESS", "one.example", "is not HOST:PORT"),
        ("MUSTER_BROKER_LISTEN", "127.0.0.1", "is not HOST:PORT"),
        ("MUSTER_BROKER_LISTEN", "127.0.0.1:99999", "is not HOST:PORT"),
        ("MUSTER_NODES", "127.0.0.1:9301", "is not ws://HOST:PORT"),
        ("MUSTER_NODES", "ws://node.example:9301", "use wss://"),
        ("MUSTER_REPLICA_LAG_TIME_MAX_MS", "soon", "whole number from 1 to"),
        ("MUSTER_LOG_SEGMENT_BYTES", "0", "whole number from 1 to"),
        ("MUSTER_BROKER_DATA", "/data/1,/data/2", "a broker has one log directory"),
        ("MUSTER_BROKER_DATA", "/data/1, /data/2", "a broker has one log directory"),
        ("MUSTER_BROKER_SECRET_FILE", "/nowhere/secret", "keep one"),
        ("MUSTER_BROKER_RACK", "r" * 250, "249 printable characters"),
        ("MUSTER_BROKER_RACK", "a\nb", "249 printable characters"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(name: str, value: str, says: str) -> None:
    with pytest.raises(SettingError, match=says) as refused:
        from_environment({**ENOUGH, name: value})
    assert name.removesuffix("_FILE") in str(refused.value)


def test_the_secret_may_lie_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n", encoding="utf-8")
    environment = {
        **ENOUGH,
        "MUSTER_BROKER_SECRET": "",
        "MUSTER_BROKER_SECRET_FILE": str(tmp_path / "secret"),
    }
    assert from_environment(environment).secret == "s3cret"


def test_the_secret_is_not_printed() -> None:
    assert "s3cret" not in repr(from_environment(ENOUGH))
