"""This room tests that a page says of which topic a partition is, wherever there are several."""

import re

import pytest
from django.test import Client

from tests.integration.web import cast
from tests.integration.web.test_pages_say_what_is import text

pytestmark = pytest.mark.django_db


def test_in_a_group_of_several_topics_each_partition_is_named_with_its_topic(viewer: Client) -> None:
    """Also those of a member that has partitions of one of them only."""
    cast.add_cluster()
    group = cast.add_group("billing")
    for name, member in (("orders", "ann"), ("clicks", "ben")):
        cast.add_member(group, member)
        cast.own(group, cast.add_topic(name, 3, [(1,)]), member, [0, 2])
    page = text(viewer, "/groups/billing/")
    assert "ann orders 0, 2" in page and "ben clicks 0, 2" in page


def test_topics_that_begin_alike_are_told_apart_above_their_columns(viewer: Client) -> None:
    cast.add_cluster()
    group = cast.add_group("billing")
    cast.add_member(group, "ann")
    for name in ("telemetry-raw-eu", "telemetry-raw-us"):
        cast.own(group, cast.add_topic(name, 1, [(1,)]), "ann", [0])
    page = viewer.get("/groups/billing/").content.decode()
    heads = re.findall(r'<th scope="col" title="telemetry-[^"]*">(.*?)</th>', page)
    assert len(heads) == 2 and len(set(heads)) == 2
