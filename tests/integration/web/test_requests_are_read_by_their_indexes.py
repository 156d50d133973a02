"""A list of requests reads what it shows, whatever else the week's work was."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controller import asking
from groups import asking as asking_groups
from runtime.models import WorkItem

pytestmark = pytest.mark.django_db

A_WEEK = """
    INSERT INTO work_item (id, kind, lane, key, principal, reason, payload, state, claim_epoch, claimed_by,
                           result, error, offered_at, adopted_at)
    SELECT gen_random_uuid(),
           CASE n % 3 WHEN 0 THEN 'rebalance' WHEN 1 THEN 'controller.request' ELSE 'group.request' END,
           'controller', CASE n % 3 WHEN 1 THEN 'cluster' ELSE 'group-' || n % 500 END, 'olga', 'we test',
           '{"wish": {"type": "DeleteTopics", "topics": [{"name": "orders"}]}}', 'adopted', 0, '',
           '{"topics": [{"error": 0}]}', '', now() - n * interval '1 second', now()
    FROM generate_series(1, 30000) AS n
"""


def how_it_is_read(captured: CaptureQueriesContext) -> str:
    """How PostgreSQL reads the work items of what was asked."""
    told = []
    with connection.cursor() as cursor:
        for one in captured.captured_queries:
            if 'FROM "work_item"' in one["sql"]:
                cursor.execute(f"EXPLAIN {one['sql']}")
                told += [row[0] for row in cursor.fetchall()]
    return "\n".join(told)


@pytest.fixture
def week() -> None:
    """Rebalances and requests, as many of each."""
    with connection.cursor() as cursor:
        cursor.execute(A_WEEK)
        cursor.execute("ANALYZE work_item")


@pytest.mark.parametrize(
    "wanted",
    [{}, {"state": "done"}, {"principal": "olga"}],
    ids=lambda wanted: next(iter(wanted), "everything"),
)
def test_the_controllers_are_read_newest_first(week: None, wanted: dict[str, str]) -> None:
    """A page of a hundred read and sorted all of them: 0.7 s of 77,500."""
    middle = WorkItem.objects.filter(kind="controller.request").order_by("-offered_at")[4_000]
    for after in (None, (middle.offered_at, middle.id)):
        with CaptureQueriesContext(connection) as captured:
            rows = asking.requests_after(after, 101, **wanted)
        assert len(rows) == 101
        plan = how_it_is_read(captured)
        assert "Index Scan using work_item_controller_requests" in plan, plan
        assert "Sort Key: offered_at" not in plan, plan
        assert ("Index Cond: (offered_at <=" in plan) is (after is not None), plan


def test_those_of_a_group_are_found_without_the_others(week: None) -> None:
    with CaptureQueriesContext(connection) as captured:
        asking_groups.requests_of("group-5", None, 0, 1)
    plan = how_it_is_read(captured)
    assert "work_item_group_requests" in plan and "Sort Key" not in plan, plan
