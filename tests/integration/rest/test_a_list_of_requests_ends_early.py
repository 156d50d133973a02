"""A list of requests ends early when they tell of many partitions: each may tell of ten thousand."""

from uuid import UUID

import msgspec
import pytest
from django.utils import timezone

from groups import asking, requests_api
from groups.core.requests import KIND, Answer, Asked, OffsetChange, ResetOffsets, Verdict
from groups.models import ConsumerGroup
from runtime.models import WorkItem
from tests.integration.rest.conftest import Caller

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five resets of three partitions each, and pages that tell of at most seven."""
    monkeypatch.setattr(requests_api, "MOST_CHANGES", 7)
    ConsumerGroup.objects.create(
        name="readers", shard=0, protocol="native", phase="Empty", generation=1, version=1,
        rebalance_mode="incremental", assignor="sticky",
    )  # fmt: skip
    changes = tuple(OffsetChange("orders", UUID(int=1), number, 1, 2) for number in range(3))
    for _ in range(5):
        WorkItem.objects.create(
            kind=KIND, lane="coordinator/0", key="readers", principal="olga", reason="we test",
            payload=msgspec.to_builtins(Asked(ResetOffsets("latest"))), state="adopted",
            result=msgspec.json.decode(msgspec.json.encode(Answer(Verdict.DONE, changes=changes))),
            adopted_at=timezone.now(),
        )  # fmt: skip


def pages(viewer: Caller) -> list[list[str]]:
    """The ids on each page."""
    told, following = [], ""
    while True:
        answer = viewer.get(f"requests/readers?limit=100{following}").json()
        told.append([one["request"] for one in answer["items"]])
        if answer["next"] is None:
            return told
        following = f"&cursor={answer['next']}"


def test_a_page_ends_before_it_tells_of_too_many_partitions(asked: None, viewer: Caller) -> None:
    told = pages(viewer)
    assert [len(page) for page in told] == [2, 2, 1]
    kept = WorkItem.objects.values_list("id", flat=True)
    assert sorted(one for page in told for one in page) == sorted(map(str, kept))


def test_one_request_is_told_however_many_it_names(
    asked: None, viewer: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_api, "MOST_CHANGES", 1)
    assert [len(page) for page in pages(viewer)] == [1, 1, 1, 1, 1]
    assert len(asking.requests_of("readers", None, 100, 100)[0]) == 5
