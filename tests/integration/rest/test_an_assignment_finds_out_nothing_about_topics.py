"""A leader of Kafka's clients may assign what is called anything: what is told of it finds out nothing.

Somebody whose token is good for one group and one topic names others' topics in that group, and asks REST
about the group: which of them are there it is not told.
"""

from typing import Any

import pytest
from django.test import Client

from access.grants import Role
from access.service import create_token
from tests.integration.rest.conftest import Caller
from tests.integration.web import cast, classic_cast

pytestmark = pytest.mark.django_db
THERE, NOWHERE = "cards", "cardz"


@pytest.fixture(autouse=True)
def story() -> dict[str, str]:
    """Two groups that are alike: in one `cards` was assigned, which is there, in the other what is not."""
    cast.add_cluster()
    for name in ("orders", THERE):
        cast.add_topic(name, 2, [(1, 2)])
    groups = {THERE: "team-a", NOWHERE: "team-b"}
    for topic, name in groups.items():
        group = classic_cast.add_group(name, phase="Stable", protocol_name="range", leader="ann")
        classic_cast.add_member(group, "ann", ("orders", topic), {"orders": (0,), topic: (0, 1)})
    return groups


def asks(address: str, *topics: str) -> Any:
    token = create_token("olga", Role.OPERATOR, topics=topics, groups=["team-*"], replace=True)
    told = Client().get(f"/api/v1/{address}", headers={"Authorization": f"Bearer {token}"})
    assert told.status_code == 200
    return told.json()


def without_times(told: Any) -> str:
    rows = told.get("items", [told])
    for row in rows:
        members = row.get("members")
        for one in (row, *(members if isinstance(members, list) else ())):
            for name in ("shard", "changed_at", "created_at", "joined_at"):
                one.pop(name, None)
    return str(rows)


@pytest.mark.parametrize("address", ["groups/{}", "members/{}", "groups?q={}"])
def test_a_topic_that_is_there_is_told_as_one_that_is_not(story: dict[str, str], address: str) -> None:
    told = [
        without_times(asks(address.format(group), "orders")).replace(group, "IT").replace(topic, "THAT")
        for topic, group in story.items()
    ]
    assert told[0] == told[1]


def test_of_its_own_topics_it_is_told_what_they_are(story: dict[str, str]) -> None:
    (ann,) = asks(f"members/{story[THERE]}", "orders")["items"]
    ids = {one["topic"]: one["topic_id"] for one in ann["owns"]}
    assert ids["orders"] is not None and ids[THERE] is None
    (group,) = asks(f"groups?q={story[THERE]}", "orders")["items"]
    assert group["partitions"] == 1


def test_whoever_may_know_of_all_is_told_of_all(story: dict[str, str], viewer: Caller) -> None:
    (ann,) = viewer.get(f"members/{story[THERE]}").json()["items"]
    assert None not in {one["topic_id"] for one in ann["owns"]}
    assert viewer.get(f"groups?q={story[THERE]}").json()["items"][0]["partitions"] == 3
    assert asks(f"groups?q={story[THERE]}", "orders", THERE)["items"][0]["partitions"] == 3
