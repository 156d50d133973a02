"""This room tests what REST tells of groups whose members speak Kafka's classic protocol."""

import pytest

from groups.models import ConsumerGroup, GroupWaiting
from tests.integration.rest.conftest import Caller
from tests.integration.web import cast, classic_cast
from tests.integration.web.classic_cast import ANN, BEN, CLEO, STRATEGIES


@pytest.fixture
def parcels(viewer: Caller) -> ConsumerGroup:
    return classic_cast.parcels(cast.add_topic("orders", 6, [(1,)]))


def test_a_classic_group_tells_what_its_members_agreed_on(viewer: Caller, parcels: ConsumerGroup) -> None:
    told = viewer.get("groups/parcels").json()
    assert (told["protocol"], told["protocol_type"], told["leader"]) == ("classic", "consumer", ANN)
    assert (told["assignor"], told["rebalance_mode"]) == ("cooperative-sticky", None)
    assert told["member_count"] == 3
    assert [one["member"] for one in told["members"]] == [ANN, BEN, CLEO]


def test_an_open_rebalance_tells_for_whom_it_waits(viewer: Caller, parcels: ConsumerGroup) -> None:
    assert viewer.get("groups/parcels").json()["waiting"] is None
    ConsumerGroup.objects.update(phase="PreparingRebalance", phase_entered_at=cast.ago(seconds=9))
    GroupWaiting.objects.create(
        group=parcels,
        phase="PreparingRebalance",
        waits_for=[BEN],
        missing=1,
        arrived=2,
        told_at=cast.ago(seconds=1),
    )
    told = viewer.get("groups/parcels").json()["waiting"]
    assert (told["members"], told["missing"], told["arrived"], told["ends_at"]) == ([BEN], 1, 2, None)


def test_a_classic_member_tells_itself_and_what_it_was_given(viewer: Caller, parcels: ConsumerGroup) -> None:
    classic_cast.add_member(parcels, "z", ["gone"], {"gone": [1]}, said=b"?")
    pages = [viewer.get("members/parcels?limit=3").json()]
    pages.append(viewer.get("members/parcels?limit=3&cursor=" + pages[0]["next"]).json())
    _, ben, _, odd = [one for page in pages for one in page["items"]]
    assert (ben["group_instance_id"], ben["strategies"]) == ("parcels-b", list(STRATEGIES))
    assert (ben["session_timeout_ms"], ben["rebalance_timeout_ms"]) == (45_000, 300_000)
    assert ben["subscription"] == [{"topic": "orders"}]
    assert (ben["auto_commit"], ben["auto_offset_reset"]) == (None, None)
    assert [(one["topic"], one["partition"], one["state"]) for one in ben["owns"]] == [
        ("orders", 2, "running"),
        ("orders", 3, "running"),
    ]
    assert odd["subscription"] is None
    assert [(one["topic"], one["topic_id"]) for one in odd["owns"]] == [("gone", None)]


def test_lists_tell_and_narrow_by_protocol(viewer: Caller, parcels: ConsumerGroup) -> None:
    cast.add_group("departures")
    (row,) = viewer.get("groups?protocol=classic").json()["items"]
    assert (row["group"], row["protocol_type"], row["members"], row["partitions"]) == (
        "parcels",
        "consumer",
        3,
        6,
    )
    assert [one["group"] for one in viewer.get("groups?protocol=native").json()["items"]] == ["departures"]
    assert viewer.get("groups?protocol=other").status_code == 400


def test_rebalances_of_a_classic_group_are_told(viewer: Caller, parcels: ConsumerGroup) -> None:
    last, first = viewer.get("rebalances/parcels").json()["items"]
    assert (last["generation"], last["cause"], last["detail"], last["moved"]) == (2, "member joined", CLEO, 2)
    assert (first["generation"], first["moved"], first["preparing_ms"]) == (1, 6, 3000.0)
