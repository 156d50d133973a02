"""This room tests what REST tells of standbys and racks."""

from tests.integration.rest.conftest import Caller
from tests.integration.web import cast


def test_a_member_tells_its_rack_and_what_it_stands_by_for(viewer: Caller) -> None:
    topic = cast.add_topic("flights", 3, [(1,)])
    group = cast.add_group("search", assignor="redundant", copies=3)
    cast.add_member(group, "ann", rack="a", stands_by=True)
    cast.add_member(group, "ben")
    cast.own(group, topic, "ann", [0])
    cast.own(group, topic, "ben", [1, 2])
    cast.stand_by(group, topic, "ann", [2, 1])
    told = viewer.get("groups/search").json()
    assert (told["assignor"], told["copies"]) == ("redundant", 3)
    ann, ben = told["members"]
    assert (ann["rack"], ann["stands_by"], ben["rack"], ben["stands_by"]) == ("a", True, "", False)
    assert [one["partition"] for one in ann["owns"]] == [0]
    assert [(one["topic"], one["partition"]) for one in ann["standby_for"]] == [
        ("flights", 1),
        ("flights", 2),
    ]
    assert ben["standby_for"] == []
