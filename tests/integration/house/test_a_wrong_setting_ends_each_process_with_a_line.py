"""Whatever process is told what it cannot use ends at once, with one line that names the setting."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT

CELERY = [sys.executable, "-m", "celery", "-A", "config", "worker", "--concurrency", "1"]
COMMANDS = {
    "web": [sys.executable, "manage.py", "run_web"],
    "node": [sys.executable, "manage.py", "run_node"],
    "worker": CELERY,
    "broker": [sys.executable, "-m", "broker"],
}
BROKER = {
    "MUSTER_BROKER_ID": "1",
    "MUSTER_BROKER_DATA": "/nowhere/at/all",
    "MUSTER_NODES": "ws://127.0.0.1:9301",
    "MUSTER_BROKER_SECRET": "s3cret",
}
OF_DJANGO = [
    ("REDIS_URL", "nonsense", "is not redis://:PASSWORD@HOST:PORT/NUMBER"),
    ("REDIS_URL", "redis://:hidden@127.0.0.1:6379/first", "'first', which is no number of a database"),
    ("DATABASE_URL", "postgresql://ann:hidden@db:x/muster", "is not postgresql://USER:PASSWORD@HOST:PORT"),
    ("DATABASE_DIRECT_URL", "postgresql://ann:hidden@db/muster?pool=no", "is not postgresql://USER"),
    ("ALLOWED_HOSTS", ",,", "names nothing"),
    ("MUSTER_TRUSTED_ORIGINS", "https://a.example,muster.example", "'muster.example' is no origin such as"),
    ("MUSTER_TRUSTED_ORIGINS", "https://muster.example/", "'https://muster.example/' is no origin such as"),
    ("MUSTER_NUM_PARTITIONS", "many", "is not a whole number from 1 to 10000"),
    ("MUSTER_COMPILED", "perhaps", "is neither on nor off"),
]
OF_DOORS = [
    ("MUSTER_KAFKA_TLS_CA", "/nowhere.pem", "cannot be read: No such file or directory"),
    ("MUSTER_KAFKA_TLS_CA", os.fspath(ROOT / "LICENSE"), "holds no certificate in PEM"),
]
CASES = [
    *((kind, *case) for kind in ("web", "node", "worker") for case in OF_DJANGO),
    *((kind, *case) for kind in ("node", "worker", "broker") for case in OF_DOORS),
    ("node", "MUSTER_GROUP_MAX_SIZE", "0", "is not a whole number from 1 to 100000"),
    ("broker", "MUSTER_NODES", ",,", "names nothing"),
    ("broker", "MUSTER_NODES", "ws://127.0.0.1:99999", "is not ws://HOST:PORT"),
    ("broker", "MUSTER_NODES", "ws://[::1", "is not ws://HOST:PORT"),
]


def end_of(kind: str, given: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """How a process of this kind ends; none of these may begin, and so none of them needs a server."""
    shell = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    settings = BROKER if kind == "broker" else {}
    return subprocess.run(
        COMMANDS[kind], cwd=ROOT, env=shell | settings | given, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(("kind", "name", "value", "says"), CASES)
def test_what_cannot_be_used_is_said_in_one_line(kind: str, name: str, value: str, says: str) -> None:
    ended = end_of(kind, {name: value})
    assert ended.returncode != 0
    [line] = (ended.stdout + ended.stderr).strip().splitlines()
    assert name in line and says in line
    assert "hidden" not in line


@pytest.mark.parametrize("kind", ["web", "node", "worker"])
@pytest.mark.parametrize(("key", "says"), [("", "is the public default"), ("changeme", "has 8 characters")])
def test_a_key_that_can_be_guessed_is_refused_where_others_come(kind: str, key: str, says: str) -> None:
    ended = end_of(kind, {"SECRET_KEY": key, "ALLOWED_HOSTS": "muster.example"})
    assert ended.returncode != 0
    assert f"SECRET_KEY {says}" in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.parametrize("kind", ["node", "worker"])
@pytest.mark.parametrize(
    "where",
    [
        {"MUSTER_KAFKA_SASL": "1", "MUSTER_NODE_KAFKA_LISTEN": "0.0.0.0:0"},
        {"MUSTER_NODE_ADDRESS": "wss://node-1.example"},
    ],
)
def test_a_key_that_all_know_lets_nobody_in_as_a_worker_or_among_brokers(
    kind: str, where: dict[str, str]
) -> None:
    ended = end_of(kind, where)
    assert ended.returncode != 0
    assert "SECRET_KEY is the public default while workers and brokers prove by it" in ended.stderr
    assert all(setting in ended.stderr for setting in ("MUSTER_KAFKA_SASL", "MUSTER_NODE_ADDRESS"))
    assert "Traceback" not in ended.stderr


def test_a_secret_that_is_no_text_is_refused_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "url").write_bytes(b"\xff\xfe")
    ended = end_of("web", {"DATABASE_URL_FILE": str(tmp_path / "url")})
    assert ended.stderr.strip().splitlines() == [
        f"manage.py: DATABASE_URL_FILE={tmp_path / 'url'} cannot be read: it is no text."
    ]


def test_a_tool_that_reaches_no_database_says_which_one() -> None:
    for command in ("initialise_cluster", "adopt_restore"):
        ended = subprocess.run(
            [sys.executable, "manage.py", command],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "DATABASE_URL": "postgresql://ann:hidden@127.0.0.1:1/muster"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ended.returncode == 1
        first, second = ended.stderr.strip().splitlines()
        assert first.startswith(f"manage.py {command}: PostgreSQL at 127.0.0.1:1/muster cannot be used")
        assert "set DATABASE_URL" in second
