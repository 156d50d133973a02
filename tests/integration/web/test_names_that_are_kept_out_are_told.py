"""Whom an operator keeps out of a group its page tells, for how long and why, and how to end it."""

import pytest
from django.test import Client

from access.grants import Role
from access.service import create_user
from tests.integration.web import cast
from tests.integration.web.test_pages_say_what_is import text

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("role", "ends_it"), [(Role.VIEWER, False), (Role.OPERATOR, True)])
def test_the_page_of_a_group_names_who_is_kept_out(client: Client, role: Role, ends_it: bool) -> None:
    """A group without members did not say that its only client was refused."""
    client.force_login(create_user("mira", role, None))
    group = cast.add_group("parcels", phase="Empty")
    why = "removed by ola: it commits nonsense"
    group.quarantines.create(member_id="rdkafka & sons", length_ms=90_000, why=why)
    assert "Kept out: rdkafka & sons, since" in text(client, "/groups/parcels/")
    assert "for 1m 30s: removed by ola: it commits nonsense." in text(client, "/groups/parcels/")
    form = "/ask/lift_quarantine/parcels/?member=rdkafka%20%26%20sons"
    assert (f'href="{form}"' in client.get("/groups/parcels/").content.decode()) == ends_it
    if ends_it:
        assert 'value="rdkafka &amp; sons"' in client.get(form).content.decode()


def test_the_page_of_a_group_says_how_many_more_are_kept_out(viewer: Client) -> None:
    """A group keeps a thousand names out: a hundred were listed, and of the rest nothing was said."""
    group = cast.add_group("parcels", phase="Empty")
    for number in range(1_000):
        group.quarantines.create(member_id=f"gate-{number:03d}", length_ms=1, why="removed by ola")
    page = viewer.get("/groups/parcels/").content.decode()
    assert page.count("Kept out:") == 100
    assert "And 900 more." in text(viewer, "/groups/parcels/")
    shown, _, folded = page.partition("<details><summary>995 more names are kept out</summary>")
    assert shown.count("Kept out:") == 5 and folded.count("Kept out:") == 95
