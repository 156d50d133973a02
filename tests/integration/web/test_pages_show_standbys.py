"""This room tests what the page of a group, and REST, say of standbys and racks."""

import pytest
from django.test import Client

from groups.models import ConsumerGroup
from tests.integration.web import cast
from tests.integration.web.test_pages_say_what_is import text

pytestmark = pytest.mark.django_db


@pytest.fixture
def search() -> ConsumerGroup:
    """ann owns 0 and 1, ben 2 and 3; ben stands by for 0 and 1, nobody for the others."""
    cast.add_cluster()
    cast.add_broker(1)
    topic = cast.add_topic("flights", 4, [(1,)], high_watermark=50)
    group = cast.add_group("search", assignor="redundant", copies=3)
    cast.add_member(group, "ann", rack="a")
    cast.add_member(group, "ben", stands_by=True)
    cast.own(group, topic, "ann", [0, 1])
    cast.own(group, topic, "ben", [2, 3])
    cast.stand_by(group, topic, "ben", [0, 1])
    for number in range(4):
        cast.commit(group, topic, number, 40)
    return group


def test_a_standby_is_shown_where_it_stands_and_owns_nothing_of_it(
    viewer: Client, search: ConsumerGroup
) -> None:
    page = text(viewer, "/groups/search/")
    assert "redundant: an owner and 2 standbys for each partition" in page
    assert "flights-0 ann and ben" in page and "flights-2 ben 40" in page
    assert "2, 3 stands by for 0, 1" in page
    assert "Sum 40" in page, "a partition with a standby is counted once"
    assert "ben 2 kept 0 standby 1 standby" in page and page.count("stands by for") == 1


def test_racks_are_a_column_once_somebody_tells_one(viewer: Client, search: ConsumerGroup) -> None:
    assert "Host Rack Client" in text(viewer, "/groups/search/")
    search.members.update(rack="")
    assert "Host Client" in text(viewer, "/groups/search/")
