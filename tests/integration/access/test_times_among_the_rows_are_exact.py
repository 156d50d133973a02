"""Among the rows, the audit among them, a time has its second and its zone, and rows the name of many."""

from datetime import UTC, datetime

import pytest
from django.test import Client

from access.grants import Role
from access.models import AccessEvent
from access.service import create_user

pytestmark = pytest.mark.django_db


def test_an_event_is_told_to_the_second_and_with_its_zone(client: Client) -> None:
    """`Nov. 26, 2026, 4:27 p.m.` tells no two tries of a minute apart."""
    client.force_login(create_user("root", Role.ADMIN, None))
    AccessEvent.objects.update(at=datetime(2026, 11, 26, 16, 27, 9, tzinfo=UTC))
    page = client.get("/admin/access/accessevent/").content.decode()
    assert "2026-11-26 16:27:09 UTC" in page and "p.m." not in page


def test_elections_that_lost_something_are_losses(client: Client) -> None:
    client.force_login(create_user("root", Role.ADMIN, None))
    page = client.get("/admin/controller/electionloss/").content.decode()
    assert "election losses" in page.lower() and "losss" not in page
