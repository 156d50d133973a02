"""This room tests the journal and the rebalances of a group over REST."""

import secrets

import pytest

from runtime.models import JournalEntry
from tests.integration.rest.conftest import Caller
from tests.integration.web import cast
from web import journal_api

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


def test_a_page_of_heavy_turns_is_short_and_goes_on(viewer: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn about ten thousand partitions weighs megabytes, and a page may ask for 500 turns."""
    monkeypatch.setattr(journal_api, "LARGEST_PAGE_BYTES", 1_000)
    for number in range(7):
        records = [{"record": "PartitionChanged", "row": secrets.token_hex(300)}]
        cast.journal("controller", "cluster", cast.ago(seconds=number), f"turn {number}", records)
    for query in ("", "lane=controller&", "key=cluster&"):
        told: list[str] = []
        cursor = ""
        while True:
            page = viewer.get(f"journal?{query}limit=5{cursor}").json()
            assert 1 <= len(page["items"]) <= 2
            told += [item["cause"] for item in page["items"]]
            if page["next"] is None:
                break
            cursor = f"&cursor={page['next']}"
        assert told == [f"turn {number}" for number in reversed(range(7))], query
