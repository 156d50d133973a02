"""A Django process knows from its environment who it is, which stack it serves, and which database."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from config import environment
from muster.kernel.addresses import is_loopback
from muster.kernel.environment import SettingError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of a stack that runs."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "secret_key").write_text("of the stack\n", encoding="utf-8")
    stack = {"database_url": "postgresql://a/b", "redis_url": "redis://a", "web": "http://127.0.0.1:1"}
    (tmp_path / "stack.json").write_text(json.dumps(stack), encoding="utf-8")
    return tmp_path


def test_a_tool_works_on_the_stack_in_its_home(home: Path) -> None:
    shell = {"MUSTER_HOME": str(home), "DATABASE_URL": "postgresql://other/one", "SECRET_KEY_FILE": "/no"}
    told = environment.reader(environment.of_a_tool(shell))
    assert told.text("DATABASE_URL") == told.text("DATABASE_DIRECT_URL") == "postgresql://a/b"
    assert (told.text("SECRET_KEY"), told.text("MUSTER_WEB_URL")) == ("of the stack", "http://127.0.0.1:1")


def test_a_tool_works_on_the_demos_stack_when_no_other_runs(home: Path) -> None:
    above = home.parent / "above"
    above.mkdir()
    home.rename(above / "demo")
    told = environment.reader(environment.of_a_tool({"MUSTER_HOME": str(above)}))
    assert told.text("DATABASE_URL") == "postgresql://a/b"


@pytest.mark.parametrize("broken", ["", "[]", "{}", '{"database_url": 1'])
def test_a_tool_works_on_the_database_that_is_named_when_no_stack_tells_one(home: Path, broken: str) -> None:
    (home / "stack.json").write_text(broken, encoding="utf-8")
    shell = {"MUSTER_HOME": str(home), "DATABASE_URL": "postgresql://other/one"}
    assert environment.of_a_tool(shell) == shell


def test_a_database_that_is_named_is_not_given_up_for_a_stack_that_nobody_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".muster").mkdir()
    for name in ("stack.json", "secrets"):
        (home / name).rename(home / ".muster" / name)
    monkeypatch.chdir(home)
    shell = {"DATABASE_URL": "postgresql://other/one"}
    assert environment.of_a_tool(shell) == shell
    assert environment.of_a_tool({})["DATABASE_URL"] == "postgresql://a/b"


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


def test_two_servers_may_be_named() -> None:
    """Whichever of them is the primary is used; libpq asks one after the other."""
    told = "postgresql://ann:p@a.example:5432,b.example:6432/orders?target_session_attrs=read-write"
    entry = environment.database(told, "web")
    assert (entry["HOST"], entry["PORT"]) == ("a.example,b.example", "5432,6432")
    assert entry["OPTIONS"]["target_session_attrs"] == "read-write"


@pytest.mark.parametrize("role", ["node", "worker"])
def test_node_and_worker_bound_every_transaction(role: str) -> None:
    options = environment.database("postgresql://127.0.0.1/orders", role)["OPTIONS"]["options"]
    assert options == (
        "-c transaction_timeout=2000 -c idle_in_transaction_session_timeout=2000"
        r" -c statement_timeout=0 -c lock_timeout=0 -c default_transaction_isolation=read\ committed"
    )


def test_web_bounds_every_statement_and_keeps_its_connections() -> None:
    entry = environment.database("postgresql://127.0.0.1/orders?options=-c%20work_mem%3D8MB", "web")
    assert entry["OPTIONS"]["options"] == (
        r"-c work_mem=8MB -c statement_timeout=5000 -c default_transaction_isolation=read\ committed"
    )
    assert entry["OPTIONS"]["tcp_user_timeout"] == 25_000
    assert entry["CONN_MAX_AGE"] == 60


def test_what_libpq_does_not_take_is_refused_with_its_reason() -> None:
    """Nodes hand the address to libpq as it is."""
    with pytest.raises(SettingError, match="separator") as refused:
        environment.database("postgresql://ann:hidden@db/orders?options=-c%20work_mem=8MB", "web")
    assert "hidden" not in str(refused.value)


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
    assert is_loopback(environment.host_of(address)) is near


def test_a_checkout_in_a_folder_called_celery_is_no_worker() -> None:
    assert environment.process_role(["/srv/celery/manage.py", "run_node"]) == "node"


@pytest.mark.parametrize(
    ("name", "wrong", "wanted"),
    [
        ("MUSTER_NODE_LISTEN", "node-1", "HOST:PORT"),
        ("MUSTER_NODE_LISTEN", "127.0.0.1:99999", "HOST:PORT"),
        ("MUSTER_NODE_ADDRESS", "http://node-1:9301", "ws://HOST:PORT or wss://HOST:PORT"),
        ("MUSTER_NODE_ADDRESS", "node-1:9301", "ws://HOST:PORT or wss://HOST:PORT"),
        ("MUSTER_NODE_KAFKA_ADDRESS", "node-1", "HOST:PORT"),
        ("MUSTER_WEB_LISTEN", "8000", "HOST:PORT"),
        ("MUSTER_WEB_URL", "muster.example", "http://HOST:PORT or https://HOST:PORT"),
        ("MUSTER_WEB_URL", "https://muster.example:https", "http://HOST:PORT or https://HOST:PORT"),
    ],
)
def test_an_address_that_is_none_is_refused_by_its_name(name: str, wrong: str, wanted: str) -> None:
    shell = {key: text for key, text in os.environ.items() if not key.startswith("MUSTER_")}
    done = subprocess.run(
        [sys.executable, "-c", "import config.settings"],
        capture_output=True,
        text=True,
        env=shell | {name: wrong},
    )
    assert done.stderr.splitlines()[-1].endswith(f"SettingError: {name}={wrong!r} is not {wanted}.")


@pytest.mark.parametrize(
    "origin",
    ["https://muster.example", "http://127.0.0.1:8000", "https://[::1]:8443", "https://*.muster.example"],
)
def test_an_origin_is_taken_as_a_browser_says_it(origin: str) -> None:
    assert environment.origin("MUSTER_TRUSTED_ORIGINS", origin) == origin


@pytest.mark.parametrize(
    "wrong",
    [
        *("https://Muster.example", "https://muster.example:443", "http://muster.example:80"),
        *("https://muster.example:", "https://muster.example:08443", "https://münster.example"),
        *("https://muster.example?", "https://ann@muster.example", "ftp://muster.example", "https://:8443"),
    ],
)
def test_an_origin_that_no_browser_says_is_refused_by_its_name(wrong: str) -> None:
    """It would be equal to none, and each form refused without a word why."""
    with pytest.raises(SettingError, match=r"MUSTER_TRUSTED_ORIGINS: .* is no origin such as"):
        environment.origin("MUSTER_TRUSTED_ORIGINS", wrong)


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("MUSTER_NODE_LISTEN", "[::1]:9301"),
        ("MUSTER_NODE_LISTEN", "127.0.0.1:0"),
        ("MUSTER_NODE_ADDRESS", "wss://node-1.example"),
        ("MUSTER_NODE_KAFKA_ADDRESS", "node-1.example:9094"),
        ("MUSTER_WEB_LISTEN", "0.0.0.0:8000"),
        ("MUSTER_WEB_URL", "https://muster.example"),
    ],
)
def test_addresses_that_people_use_are_taken_as_they_are(name: str, right: str) -> None:
    shell = {key: text for key, text in os.environ.items() if not key.startswith("MUSTER_")}
    program = f"from config import settings; print(settings.{name})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=shell | {name: right}, check=True
    )
    assert done.stdout.strip() == right
