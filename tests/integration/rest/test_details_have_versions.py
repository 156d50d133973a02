"""This room tests one resource at a time: its version, its ETag, 304, and 404 with Kafka's error."""

import pytest

from controller.models import Broker, Partition, Topic
from groups.api import MEMBERS_SHOWN, OWNED_SHOWN, GroupDetailShape
from groups.models import CommittedOffset, ConsumerGroup
from tests.integration.rest.conftest import Caller
from tests.integration.web import cast

pytestmark = pytest.mark.django_db
DETAILS = [
    "groups/departures",
    "topics/flights",
    "brokers/3",
    "partitions/flights/5",
    "offsets/departures/flights/5",
]


@pytest.mark.parametrize("path", DETAILS)
def test_who_has_the_version_gets_304(path: str, viewer: Caller) -> None:
    cast.one_night(groups=1)
    answer = viewer.get(path)
    tag = answer["ETag"]
    assert answer.json()["version"] >= 1
    assert tag.startswith('"')
    for header in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = viewer.get(path, If_None_Match=header)
        assert (again.status_code, again.content, again["ETag"]) == (304, b"", tag)
    assert viewer.get(path, If_None_Match='"other"').status_code == 200


def test_a_change_of_the_row_changes_the_tag(viewer: Caller) -> None:
    cast.one_night(groups=1)
    tags = {path: viewer.get(path)["ETag"] for path in DETAILS}
    ConsumerGroup.objects.filter(name="departures").update(version=418)
    Topic.objects.filter(name="flights").update(metadata_version=90_000)
    Broker.objects.filter(broker_id=3).update(metadata_version=90_000)
    Partition.objects.filter(topic__name="flights").update(version=90_000)
    CommittedOffset.objects.filter(group="departures").update(version=9_000)
    for path, tag in tags.items():
        assert viewer.get(path, If_None_Match=tag).status_code == 200, path


def test_a_topic_created_anew_has_another_tag(viewer: Caller) -> None:
    cast.add_topic("orders", 1, [(1,)])
    before = viewer.get("topics/orders")["ETag"]
    Topic.objects.all().delete()
    cast.add_topic("orders", 1, [(1,)])
    assert viewer.get("topics/orders")["ETag"] != before


def test_a_group_tells_its_members_and_what_they_own(viewer: Caller) -> None:
    cast.one_night(groups=1)
    group = viewer.get("groups/departures").json()
    assert (group["phase"], group["generation"], group["version"]) == ("Stable", 43, 417)
    owned = {member["member"]: [row["partition"] for row in member["owns"]] for member in group["members"]}
    assert owned == {"ann": [0, 1], "ben": [2, 3], "cleo": [4, 5]}
    assert "token_hash" not in str(group)


def test_an_offset_tells_its_lag_and_null_where_the_end_is_not_known(viewer: Caller) -> None:
    topic = cast.add_topic("orders", 2, [(1,)], high_watermark=100)
    group = cast.add_group("billing")
    cast.commit(group, topic, 0, 60)
    assert viewer.get("offsets/billing/orders/0").json()["lag"] == 40
    Partition.objects.get(partition=0).progress.delete()
    offset = viewer.get("offsets/billing/orders/0").json()
    assert (offset["lag"], offset["high_watermark"]) == (None, None)


def test_a_name_that_ends_with_a_slash_is_another_group(viewer: Caller) -> None:
    cast.add_group("a")
    assert viewer.get("groups/a%2F").status_code == 404
    cast.add_group("a/")
    assert [viewer.get(f"groups/{name}").json()["group"] for name in ("a", "a%2F")] == ["a", "a/"]


def test_a_group_with_slashes_and_spaces_in_its_name_is_found(viewer: Caller) -> None:
    cast.add_group("team a/orders:v2")
    assert viewer.get("groups/team%20a%2Forders%3Av2").json()["group"] == "team a/orders:v2"


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("groups/nobody", "GROUP_ID_NOT_FOUND"),
        ("rebalances/nobody", "GROUP_ID_NOT_FOUND"),
        ("topics/nothing", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("brokers/77", "BROKER_ID_NOT_REGISTERED"),
        ("brokers/99999999999999999999", "BROKER_ID_NOT_REGISTERED"),
        ("partitions/flights/6", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("offsets/nobody/flights/0", "GROUP_ID_NOT_FOUND"),
        ("offsets/departures/nothing/0", "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_what_is_not_there_is_a_problem_document(path: str, error: str, viewer: Caller) -> None:
    cast.add_group("departures")
    answer = viewer.get(path)
    problem = answer.json()
    assert answer.status_code == problem["status"] == 404
    assert problem["kafka_error"]["name"] == error
    assert problem["instance"] == f"urn:request:{answer['X-Request-Id']}"


def test_an_unknown_address_is_a_problem_document(viewer: Caller) -> None:
    answer = viewer.get("elections")
    assert answer.status_code == 404
    assert answer["Content-Type"].startswith("application/problem+json")


def test_an_end_that_went_back_and_came_again_has_another_tag(viewer: Caller) -> None:
    """A, B, A: a truncated log that grew to the same end is not the same state."""
    topic = cast.add_topic("orders", 1, [(1,)], high_watermark=100)
    cast.commit(cast.add_group("billing"), topic, 0, 60)
    paths = ("partitions/orders/0", "offsets/billing/orders/0")
    before = [viewer.get(path)["ETag"] for path in paths]
    cast.reach(topic, 0, 90)
    cast.reach(topic, 0, 100)
    for path, tag in zip(paths, before, strict=True):
        assert viewer.get(path, If_None_Match=tag).status_code == 200, path


def test_a_group_says_how_it_assigns(viewer: Caller) -> None:
    cast.add_group("billing", rebalance_mode="eager", assignor="range")
    group = viewer.get("groups/billing").json()
    assert (group["assignor"], group["rebalance_mode"]) == ("range", "eager")


def test_a_wide_group_tells_its_first_members_and_how_many_there_are(viewer: Caller) -> None:
    group = cast.add_group("wide")
    for number in range(MEMBERS_SHOWN + 5):
        cast.add_member(group, f"member-{number:04d}")
    told = viewer.get("groups/wide").json()
    assert [one["member"] for one in told["members"]] == [f"member-{n:04d}" for n in range(MEMBERS_SHOWN)]
    assert told["member_count"] == MEMBERS_SHOWN + 5
    first = viewer.get(f"members/wide?limit={MEMBERS_SHOWN}").json()
    rest = viewer.get(f"members/wide?limit={MEMBERS_SHOWN}&cursor={first['next']}").json()
    assert first["items"] == told["members"]
    assert [one["member"] for one in rest["items"]] == [f"member-{MEMBERS_SHOWN + n:04d}" for n in range(5)]
    assert rest["next"] is None


def test_members_who_own_much_are_told_in_smaller_pages(
    viewer: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groups.api.OWNED_SHOWN", 3)
    cast.one_night(groups=1)
    told = viewer.get("groups/departures").json()
    assert [one["member"] for one in told["members"]] == ["ann"]
    assert told["member_count"] == 3


def test_the_document_says_where_the_other_members_are(viewer: Caller) -> None:
    shape = GroupDetailShape.__doc__ or ""
    assert "/members/{group}" in shape
    assert f"{MEMBERS_SHOWN} of them" in shape
    assert f"{OWNED_SHOWN:,} partitions" in shape
