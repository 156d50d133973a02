"""Of a name that loses its middle the whole lies over it, unseen: drawn, too, it makes the name a blot."""

import pytest

from groups.models import ConsumerGroup
from tests.browser.conftest import Open
from tests.integration.web import cast

DRAWN = """() => [...document.querySelectorAll('.cut > span')]
    .map((e) => getComputedStyle(e)).filter((one) => one.color !== 'rgba(0, 0, 0, 0)').length"""


@pytest.mark.parametrize("address", ["/", "/groups/"])
def test_a_long_name_of_a_group_is_drawn_once(open_page: Open, address: str) -> None:
    cast.one_night(groups=1)
    for error in ("", "no strategy is common"):
        ConsumerGroup.objects.create(name=f"departures-of-{error or 'every'}-airport", shard=1, error=error)
    page = open_page(address)
    assert page.locator(".cut > span").count() > 1
    assert page.evaluate(DRAWN) == 0
    assert page.get_by_text("departures-of-every-airport", exact=True).count() == 1
