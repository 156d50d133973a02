"""Clients call their groups as they like: each has a page and spoils none; the cluster's name is whole."""

import re
from html import unescape
from typing import Any
from urllib.parse import urljoin

import pytest
from django.test import Client
from django.urls import reverse

from access.grants import Role
from access.service import create_user
from controller.models import Topic
from groups.fingerprints import GROUP
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
    ".",
    "..",
    "a/../b",
    "~..",
)


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
    for address in ("/", "/groups/", "/journal/"):
        page = operator.get(address)
        assert page.status_code == 200, address
        links = set(re.findall(r'href="(/groups/[^"?]+/)"', unescape(page.content.decode())))
        assert len(links) == 1, address
    [link] = links
    own = operator.get(followed(link))
    assert own.status_code == 200 and own.context["group"].name == name
    forms = re.findall(r'href="(/ask/[^"]*)"', unescape(own.content.decode()))
    assert len(forms) == 7
    for form in forms:
        assert operator.get(followed(form)).context["group"].name == name, form


def followed(link: str) -> str:
    """Where a browser goes: dots are the way up for it, however they are quoted."""
    plain = re.sub("%2e", ".", link, flags=re.IGNORECASE)
    return urljoin("http://muster/", plain).removeprefix("http://muster")


def test_a_name_of_dots_leads_to_no_other_group(operator: Client) -> None:
    """Whoever wanted to delete `a/../b` was asked whether to delete `b`."""
    for name in ("b", "a/../b", "a/~../b", "../b", "./b", "b/.", "~b", ".b", "...", "~.", "a/.~"):
        cast.add_group(name)
        for kind, args in (("group", [name]), ("ask", ["delete_group", name])):
            link = followed(reverse(kind, args=args))
            assert operator.get(link).context["group"].name == name, link


def test_a_filter_without_rows_is_ended_on_the_page_of_the_same_group(operator: Client) -> None:
    name = "a/b?c=d&e#f%20"
    group = cast.add_group(name)
    for number in range(60):
        cast.add_member(group, f"m-{number}")
    page = operator.get(f"{reverse('group', args=[name])}?member=nobody").content.decode()
    assert '<a class="btn small" href="?#members">Show all</a>' in page


@pytest.mark.parametrize("name", ["a\rb", "a\r\nb", "a\nb", "a\tb"])
def test_a_page_watches_the_group_that_it_shows(operator: Client, name: str) -> None:
    """A browser reads a carriage return as the end of a line: the page watched another group, or none."""
    cast.add_group(name)
    page = operator.get(reverse("group", args=[name])).content.decode()
    [said] = re.findall(r'data-watch="([^"]*)"', page)
    assert unescape(said.replace("\r\n", "\n").replace("\r", "\n")) == f"{GROUP}{name}"


@pytest.mark.parametrize(("address", "status"), [("/", 200), ("/groups/gone/", 404), ("/login/?next=/", 200)])
def test_the_name_of_the_cluster_is_whole(viewer: Client, settings: Any, address: str, status: int) -> None:
    """Its middle was left out, by which clusters may differ."""
    settings.MUSTER_CLUSTER_NAME = "kafka-of-the-cluster-aero-production-europe-central-one"
    if address.startswith("/login"):
        viewer.logout()
    page = viewer.get(address)
    assert page.status_code == status
    html = re.sub("</?span[^>]*>", "", page.content.decode().partition("<body")[2])
    assert re.search(f">(Sign in to )?{settings.MUSTER_CLUSTER_NAME}", html)
