"""A row that its controller or a broker could not read is refused by the database: it let no broker in."""

from collections.abc import Iterator

import psycopg
import pytest
from django.core.management import call_command
from psycopg.errors import CheckViolation
from pytest_django import DjangoDbBlocker
from structlog.testing import capture_logs

from controller import store
from runtime.postgres import LaneConnection
from standalone.postgres import Postgres
from tests.conftest import database_of_its_own
from tests.integration.controller.test_store_keeps_what_a_turn_made_true import connection, with_orders

__all__ = ["connection"]

BY_HAND = {
    "a number among a topic's configs": """UPDATE topic SET configs = '{"retention.ms": 1000}'""",
    "a list for a topic's configs": "UPDATE topic SET configs = '[]'",
    "nothing for a topic's configs": "UPDATE topic SET configs = 'null'",
    "a flag among the cluster's configs": """INSERT INTO broker_configs
        VALUES (0, '{"unclean.leader.election.enable": true}', 1, now())""",
    "a number in a broker's environment": """UPDATE broker SET static_configs = '{"retention.ms": 1}'""",
    "no text for a broker's address": """UPDATE broker SET endpoints = '{"client": null}'""",
    "no number for a replica": "UPDATE partition SET assigned = array_append(assigned, NULL)",
}


@pytest.mark.parametrize("written", BY_HAND.values(), ids=BY_HAND.keys())
def test_what_nobody_could_read_is_not_let_in(connection: LaneConnection, written: str) -> None:
    rows = with_orders(connection)
    with pytest.raises(CheckViolation), connection.transaction():
        connection.execute(written)
    assert store.load(connection) == rows


@pytest.fixture
def empty(
    postgres_server: Postgres, django_db_blocker: DjangoDbBlocker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A database without any table, at which Django points."""
    with database_of_its_own(postgres_server, "template0", django_db_blocker, monkeypatch) as url:
        yield url


def test_what_was_let_in_before_is_made_what_was_meant(empty: str) -> None:
    call_command("migrate", "controller", "0014", verbosity=0)
    with psycopg.connect(empty) as by_hand:
        by_hand.execute(
            """
            INSERT INTO topic (topic_id, name, partition_count, replication_factor, metadata_version, configs)
            VALUES
                ('00000000-0000-0000-0000-000000000001', 'clicks', 1, 1, 1,
                 '{"retention.ms": 1000, "cleanup.policy": "compact", "flush": null, "more": [1]}'),
                ('00000000-0000-0000-0000-000000000002', 'orders', 1, 1, 1, '[]')
            """
        )
        by_hand.execute(
            """
            INSERT INTO broker_configs (broker_id, configs, metadata_version)
            VALUES (0, '{"unclean.leader.election.enable": true}', 1)
            """
        )
        by_hand.execute(
            """
            INSERT INTO partition
                (topic_id, partition, assigned, adding, removing, leader, leader_epoch, isr, version)
            VALUES ('00000000-0000-0000-0000-000000000001', 0, '{1,NULL,2}', '{}', '{}', 1, 1, '{1}', 1)
            """
        )
    call_command("migrate", "controller", verbosity=0)
    with psycopg.connect(empty) as mended:
        topics = mended.execute("SELECT name, configs FROM topic ORDER BY name").fetchall()
        cluster = mended.execute("SELECT configs FROM broker_configs").fetchall()
        replicas = mended.execute("SELECT assigned FROM partition").fetchall()
    assert topics == [("clicks", {"retention.ms": "1000", "cleanup.policy": "compact"}), ("orders", {})]
    assert cluster == [({"unclean.leader.election.enable": "true"},)]
    assert replicas == [([1, 2],)]


def _partition(topic: str, number: int, assigned: str, leader: int = -1) -> str:
    isr, epoch = ("{}", 0) if leader < 0 else (f"{{{leader}}}", 1)
    return f"""
        INSERT INTO partition
            (topic_id, partition, assigned, adding, removing, isr, leader, leader_epoch, version)
        SELECT topic_id, {number}, '{assigned}', '{{}}', '{{}}', '{isr}', {leader}, {epoch}, 1
        FROM topic WHERE name = '{topic}'
        """


@pytest.mark.parametrize(
    ("brokers", "alone"), [((), [1]), ((7, 3), [3])], ids=["no broker is enrolled", "two are"]
)
def test_a_partition_that_names_no_replica_is_placed_and_told(
    empty: str, brokers: tuple[int, ...], alone: list[int]
) -> None:
    call_command("migrate", "controller", "0014", verbosity=0)
    with psycopg.connect(empty) as by_hand:
        by_hand.execute(
            """
            INSERT INTO topic (topic_id, name, partition_count, replication_factor, metadata_version, configs)
            VALUES ('00000000-0000-0000-0000-000000000001', 'clicks', 3, 2, 1, '{}'),
                   ('00000000-0000-0000-0000-000000000002', 'orders', 1, 1, 1, '{}')
            """
        )
        for broker in brokers:
            by_hand.execute(
                """
                INSERT INTO broker (broker_id, broker_epoch, endpoints, rack, fenced, leaving, cordoned,
                    static_configs, metadata_version, secret_hash, set_back)
                VALUES (%s, 0, '{}', '', true, false, false, '{}', 1, sha256('x'), '')
                """,
                (broker,),
            )
        by_hand.execute(_partition("clicks", 0, "{NULL,NULL}"))
        by_hand.execute(_partition("clicks", 1, "{1,NULL,2}", 1))
        by_hand.execute(_partition("clicks", 2, "{3,1}", 1))
        by_hand.execute(_partition("orders", 0, "{NULL}"))
    with capture_logs() as told:
        call_command("migrate", "controller", verbosity=0)
    with psycopg.connect(empty) as mended:
        found = mended.execute(
            """
            SELECT name, partition, assigned, leader FROM partition JOIN topic USING (topic_id) ORDER BY 1, 2
            """
        ).fetchall()
    assert found == [
        ("clicks", 0, [1, 2], -1),
        ("clicks", 1, [1, 2], 1),
        ("clicks", 2, [3, 1], 1),
        ("orders", 0, alone, -1),
    ]
    placed = [one for one in told if one["event"] == "placed_a_partition_without_replicas"]
    assert sorted((one["topic"], one["partition"], one["replicas"]) for one in placed) == [
        ("clicks", 0, [1, 2]),
        ("orders", 0, alone),
    ]
