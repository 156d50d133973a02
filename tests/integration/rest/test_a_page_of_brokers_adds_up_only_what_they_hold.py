"""A page of brokers adds up the partitions that these hold, and not those of all others with each page."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.integration.rest.conftest import Caller
from tests.integration.web import cast

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def story() -> None:
    """Brokers 1 to 3 hold four partitions, 4 to 6 sixty, one of which is at 3, too; 6 is fenced."""
    for broker in range(1, 7):
        cast.add_broker(broker, fenced=broker == 6)
    cast.add_topic("orders", 4, [(1, 2), (2, 3)])
    cast.add_topic("clicks", 59, [(4, 5, 6), (5, 6, 4)])
    cast.add_topic("gates", 1, [(3, 6)])


def _pages(viewer: Caller, limit: int) -> list[dict[str, Any]]:
    found, cursor = [], ""
    while True:
        page = viewer.get(f"brokers?limit={limit}{cursor}").json()
        found += page["items"]
        if not page["next"]:
            return found
        cursor = f"&cursor={page['next']}"


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_pages_tell_of_each_broker_what_one_list_of_all_tells(viewer: Caller, limit: int) -> None:
    assert _pages(viewer, limit) == viewer.get("brokers").json()["items"]
    assert [one["replicas"] for one in _pages(viewer, limit)] == [2, 4, 3, 59, 59, 60]


def _partitions_added_up(viewer: Caller, address: str) -> int:
    """How many rows the database sorted and added up for this page."""
    with CaptureQueriesContext(connection) as captured:
        viewer.get(address)
    (statement,) = [one["sql"] for one in captured if "unnest(assigned)" in one["sql"]]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}")
        (told,) = cursor.fetchone()
    plan = (told if isinstance(told, list) else json.loads(told))[0]["Plan"]
    return int(_rows_of_the_join(plan) or 0)


def _rows_of_the_join(plan: dict[str, Any]) -> float | None:
    """Of the node that joins partitions with their progress, whichever kind of join it is."""
    if plan.get("Join Type") in ("Left", "Right"):
        return float(plan["Actual Rows"]) * float(plan["Actual Loops"])
    below = (_rows_of_the_join(one) for one in plan.get("Plans", []))
    return next((found for found in below if found is not None), None)


def test_what_others_hold_is_not_added_up_with_each_page(viewer: Caller) -> None:
    assert _partitions_added_up(viewer, "brokers?limit=2") == 4
    assert _partitions_added_up(viewer, "brokers?state=fenced") == 60
    assert _partitions_added_up(viewer, "brokers") == 64
