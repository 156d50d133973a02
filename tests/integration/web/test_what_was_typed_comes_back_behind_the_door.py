"""This room tests that a form sent after its session ended is filled in again behind the door, not done."""

from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from access.grants import Role
from access.service import create_user
from runtime.models import WorkItem
from tests.integration.web import cast

pytestmark = pytest.mark.django_db

PASSWORD = "a horse, a battery and a staple"
TYPED = {
    "topic": "gates",
    "partitions": "3",
    "configs": "retention.ms=1\nsegment.ms=60000",
    "reason": "R&D <1>",
}
OF_THE_FORM = {"key": "k" * 32, "version": "7", "shown": "abc", "go": "yes", "confirm": "gates"}


def test_it_is_filled_in_again_and_nothing_is_done(client: Client) -> None:
    cast.add_cluster()
    create_user("mira", Role.OPERATOR, PASSWORD)
    answer = client.post("/cluster/ask/create-topic/", {**TYPED, **OF_THE_FORM})
    door = answer.headers["Location"]
    assert "Nothing was done. What you typed is in it again" in client.get(door).content.decode()
    [onward] = parse_qs(urlsplit(door).query)["next"]
    answer = client.post("/login/", {"username": "mira", "password": PASSWORD, "next": onward})
    assert answer.headers["Location"] == onward
    page = unescape(client.get(onward).content.decode())
    for text in ('value="gates"', 'value="3"', TYPED["configs"], TYPED["reason"]):
        assert text in page, text
    assert 'name="go"' not in page and OF_THE_FORM["key"] not in page
    assert not WorkItem.objects.exists()


def test_what_no_address_bears_is_left_out(client: Client) -> None:
    answer = client.post(
        "/cluster/ask/create-topic/", {**TYPED, **OF_THE_FORM, "assignments": "1,2\n" * 2000}
    )
    door = answer.headers["Location"]
    assert len(door) < 200 and "kept" not in door


def test_what_is_no_form_of_ours_goes_to_the_door_as_ever(client: Client) -> None:
    assert client.post("/logout/").headers["Location"] == "/login/?next=/logout/"
    assert client.get("/groups/?q=a").headers["Location"] == "/login/?next=/groups/%3Fq%3Da"
