"""Clients call their groups as they like: each name is listed, has a page, and spoils nobody else's."""

import re
from html import unescape
from urllib.parse import quote

import pytest
from django.test import Client

from access.grants import Role
from access.service import create_user
from controller.models import Topic
from tests.integration.web import cast

pytestmark = pytest.mark.django_db

NAMES = (
    "two\nlines",
    "carriage\r\nreturn",
    "a/b?c=d&e#f%20",
    "/",
    " ",
    "pay\u202eroll",
    "line\u2028end",
    "\U0001f680" * 249,
    "<b>'\"&amp;",
)

LEFT_AS_THEY_ARE = "/~:@!$&'()*+,;="
"""By an address that Django makes."""


@pytest.fixture
def operator(db: None, client: Client) -> Client:
    """A browser with the session of an operator, and a topic that groups read."""
    cast.add_cluster()
    cast.add_broker(1)
    cast.add_topic("orders", 1, [(1,)], high_watermark=10)
    client.force_login(create_user("olga", Role.OPERATOR, None))
    return client


@pytest.mark.parametrize("number", range(len(NAMES)))
def test_it_is_listed_and_its_links_lead_to_it(operator: Client, number: int) -> None:
    """One of two lines had the overview and the list of groups fail, for everybody."""
    name = NAMES[number]
    group = cast.add_group(name)
    cast.add_member(group, name)
    cast.commit(group, Topic.objects.get(name="orders"), 0, 1)
    cast.journal(f"coordinator/{group.shard}", name, cast.ago(minutes=3), "a member came", [])
    link = f'href="/groups/{quote(name, safe=LEFT_AS_THEY_ARE)}/"'
    for address in ("/", "/groups/", "/journal/"):
        page = operator.get(address)
        assert page.status_code == 200, address
        assert link in unescape(page.content.decode()), address
    own = operator.get(f"/groups/{quote(name)}/")
    assert own.status_code == 200
    forms = re.findall(r'href="(/ask/[^"]*)"', unescape(own.content.decode()))
    assert len(forms) == 7
    for form in forms:
        assert operator.get(form).status_code == 200, form
