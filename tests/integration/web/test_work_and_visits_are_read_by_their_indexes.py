"""A week of work and a year of visits are not read as a whole by who looks at what is now."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.forgetting import RETENTION_DAYS, forget_events
from access.models import AccessEvent
from controller import leases
from tests.integration.web import cast

pytestmark = pytest.mark.django_db

A_WEEK = """
INSERT INTO work_item (id, kind, lane, key, principal, reason, payload, state, claim_epoch, claimed_by, error,
                       offered_at, claimed_at, finished_at, adopted_at)
SELECT gen_random_uuid(), 'rebalance', 'coordinator/1', 'billing', '', '', '{}', 'adopted', 1,
    CASE WHEN n <= %s THEN 'spare of node-1' ELSE 'worker host ' || n %% 4 END, '', at, at, at, at
FROM (SELECT n, now() - n * interval '15 seconds' AS at FROM generate_series(1, 40000) AS n) AS taken
"""
A_YEAR = """
INSERT INTO access_accessevent (at, action, name, address, allowed, detail)
SELECT now() - n * interval '20 minutes', 'sign in', 'olga', '10.0.0.1', true, ''
FROM generate_series(1, 30000) AS n
"""


def how_it_is_read(captured: CaptureQueriesContext) -> str:
    """How PostgreSQL reads what was asked."""
    told = []
    with connection.cursor() as cursor:
        for one in captured.captured_queries:
            cursor.execute(f"EXPLAIN {one['sql']}")
            told += [row[0] for row in cursor.fetchall()]
    return "\n".join(told)


@pytest.mark.parametrize("by_spares", [0, 3, 40_000])
def test_who_did_the_last_work_is_found_without_all_the_work_of_a_week(by_spares: int) -> None:
    """Each look at the cluster read all of it, twice: 0.15 s of 277,500 items."""
    cast.add_cluster()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE node_session SET started_at = now() - interval '30 days'")
        cursor.execute(A_WEEK, [by_spares])
        cursor.execute("ANALYZE work_item")
    with CaptureQueriesContext(connection) as captured:
        found = leases.work()
    assert found.by_spares == by_spares
    read = how_it_is_read(captured)
    assert "work_item_taken" in read and "Seq Scan on work_item" not in read


@pytest.fixture
def a_year() -> None:
    """Somebody signed in every twenty minutes."""
    with connection.cursor() as cursor:
        cursor.execute(A_YEAR)
        cursor.execute("ANALYZE access_accessevent")


def test_access_events_are_read_newest_first(a_year: None) -> None:
    with CaptureQueriesContext(connection) as captured:
        assert len(AccessEvent.objects.all()[:100]) == 100
    read = how_it_is_read(captured)
    assert "access_event_by_time" in read and "Sort" not in read


def test_access_events_are_forgotten_after_a_year_a_batch_at_a_time(a_year: None) -> None:
    kept = RETENTION_DAYS * 24 * 3
    with connection.cursor() as cursor:
        batches = [forget_events(cursor.connection, rows=2_000) for _ in range(3)]
    assert batches == [2_000, 30_000 - 2_000 - kept, 0]
    assert AccessEvent.objects.count() == kept
