"""Settings are read from variables, secrets also from files, and what cannot work is refused by name."""

from pathlib import Path

import pytest

from config import environment
from config.environment import SettingError


def test_a_secret_is_read_from_the_file_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from the file\n", encoding="utf-8")
    assert environment.text("SECRET_KEY", "", {"SECRET_KEY_FILE": str(tmp_path / "key")}) == "from the file"


def test_a_variable_and_its_file_together_are_refused() -> None:
    with pytest.raises(SettingError, match="SECRET_KEY and SECRET_KEY_FILE are both set"):
        environment.text("SECRET_KEY", "", {"SECRET_KEY": "a", "SECRET_KEY_FILE": "b"})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"SECRET_KEY_FILE=.*missing cannot be read: No such file"):
        environment.text("SECRET_KEY", "", {"SECRET_KEY_FILE": str(tmp_path / "missing")})


def test_a_number_that_is_none_is_named() -> None:
    with pytest.raises(SettingError, match="BROKERS='three' is not a whole number"):
        environment.number("BROKERS", 3, {"BROKERS": "three"})


def test_a_database_address_becomes_djangos_entry() -> None:
    url = "postgresql://ann:p%40ss@db.example:6432/orders?sslmode=require"
    entry = environment.database(url, "tool")
    assert (entry["HOST"], entry["PORT"], entry["USER"], entry["PASSWORD"], entry["NAME"]) == (
        *("db.example", "6432"),
        *("ann", "p@ss", "orders"),
    )
    assert entry["OPTIONS"]["sslmode"] == "require"
    assert "options" not in entry["OPTIONS"]
    assert entry["CONN_MAX_AGE"] == 0


def test_a_socket_folder_may_be_the_host() -> None:
    assert environment.database("postgresql:///orders?host=/run/pg", "web")["HOST"] == "/run/pg"


@pytest.mark.parametrize("role", ["node", "worker"])
def test_node_and_worker_bound_every_transaction(role: str) -> None:
    options = environment.database("postgresql://127.0.0.1/orders", role)["OPTIONS"]["options"]
    assert options == "-c transaction_timeout=2000 -c idle_in_transaction_session_timeout=2000"


def test_web_bounds_every_statement_and_keeps_its_connections() -> None:
    entry = environment.database("postgresql://127.0.0.1/orders?options=-c%20work_mem=8MB", "web")
    assert entry["OPTIONS"]["options"] == "-c work_mem=8MB -c statement_timeout=5000"
    assert entry["OPTIONS"]["tcp_user_timeout"] == 25_000
    assert entry["CONN_MAX_AGE"] == 60


def test_another_kind_of_database_is_refused() -> None:
    with pytest.raises(SettingError, match="DATABASE_URL must start with postgresql://"):
        environment.database("sqlite:///orders", "web")


@pytest.mark.parametrize(
    ("command", "role"),
    [
        (["manage.py", "run_node"], "node"),
        (["manage.py", "run_web"], "web"),
        (["/venv/bin/celery", "-A", "config", "worker"], "worker"),
        (["/venv/lib/celery/__main__.py", "-A", "config", "worker"], "worker"),
        (["manage.py", "migrate"], "tool"),
        ([], "tool"),
    ],
)
def test_a_process_knows_its_role_from_its_command_line(command: list[str], role: str) -> None:
    assert environment.process_role(command) == role


@pytest.mark.parametrize(
    ("address", "near"),
    [
        ("127.0.0.1:9301", True),
        ("[::1]:9301", True),
        ("localhost", True),
        ("http://127.0.0.2/", True),
        ("0.0.0.0:80", False),
        ("node-1:9301", False),
        ("localhost.example:80", False),
        ("*", False),
    ],
)
def test_loopback_is_told_from_the_world(address: str, near: bool) -> None:
    assert environment.is_loopback(environment.host_of(address)) is near


def test_an_empty_variable_is_one_that_is_not_set() -> None:
    """`MUSTER_HOME= make clean` must not mean the checkout itself."""
    assert environment.text("MUSTER_HOME", ".muster", {"MUSTER_HOME": ""}) == ".muster"
    assert environment.number("BROKERS", 3, {"BROKERS": ""}) == 3


def test_a_checkout_in_a_folder_called_celery_is_no_worker() -> None:
    assert environment.process_role(["/srv/celery/manage.py", "run_node"]) == "node"
