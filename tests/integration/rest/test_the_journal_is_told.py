"""This room tests the journal and the rebalances of a group over REST."""

import pytest

from runtime.models import JournalEntry
from tests.integration.rest.conftest import Caller
from tests.integration.web import cast

pytestmark = pytest.mark.django_db


def test_turns_are_walked_newest_first_without_a_gap(viewer: Caller) -> None:
    cast.one_night(groups=1)
    expected = list(JournalEntry.objects.order_by("-id").values_list("lane", "seq"))
    found, address = [], "journal?limit=3"
    while address:
        page = viewer.get(address).json()
        found += [(row["lane"], row["seq"]) for row in page["items"]]
        address = f"journal?limit=3&cursor={page['next']}" if page["next"] else ""
    assert found == expected and expected


def test_turns_of_one_key_only(viewer: Caller) -> None:
    cast.one_night(groups=1)
    rows = viewer.get("journal?key=departures").json()["items"]
    assert rows and {row["key"] for row in rows} == {"departures"}


def test_rebalances_tell_cause_length_and_what_moved(viewer: Caller) -> None:
    cast.one_night(groups=1)
    rows = viewer.get("rebalances/departures").json()["items"]
    closed = [row for row in rows if row["generation"]]
    assert closed
    for row in closed:
        assert row["length_ms"] == pytest.approx(row["preparing_ms"] + row["completing_ms"])
        assert row["cause"]
    assert [row["generation"] for row in closed] == sorted(
        (row["generation"] for row in closed), reverse=True
    )


def test_rebalances_of_an_unknown_group_are_a_problem(viewer: Caller) -> None:
    answer = viewer.get("rebalances/nobody")
    assert answer.status_code == 404 and answer["Content-Type"].startswith("application/problem+json")
