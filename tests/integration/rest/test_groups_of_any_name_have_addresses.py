"""Clients call their groups as they like, of several lines too: REST tells of each under its name."""

from urllib.parse import quote

import pytest

from tests.integration.rest.conftest import Caller
from tests.integration.web import cast

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("name", ["two\nlines", "a/b?c=d&e#f%20", "line\u2028end", " "])
def test_each_address_of_a_group_takes_its_name(viewer: Caller, name: str) -> None:
    orders = cast.add_topic("orders", 1, [(1,)], high_watermark=10)
    group = cast.add_group(name)
    cast.add_member(group, "ann")
    cast.commit(group, orders, 0, 7)
    told = viewer.get(f"groups/{quote(name)}")
    assert (told.status_code, told.json()["group"]) == (200, name)
    assert viewer.get(f"offsets/{quote(name)}/orders/0").json()["offset"] == 7
    for noun in ("members", "requests", "rebalances"):
        assert viewer.get(f"{noun}/{quote(name)}").status_code == 200, noun
