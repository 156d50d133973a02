"""This room tests that a form sent after its session ended is filled in again behind the door, not done."""

import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.urls import reverse

from access.grants import Role
from access.service import create_user
from controller.models import ClientQuota
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


def test_the_name_of_a_group_may_look_like_an_address(client: Client) -> None:
    name = "a?b=1&c#d%20/\u00e9 f"
    cast.add_group(name)
    page = behind_the_door(client, reverse("ask", args=["rebalance", name]), {"reason": "R&D <1>"})
    assert 'value="R&D <1>"' in page and f"Rebalance now: {name}" in page


def test_a_field_that_was_emptied_is_empty(client: Client) -> None:
    """Not filled with what is set: it would be asked for as it was before."""
    ClientQuota.objects.create(pk=1, user_name="olga", producer_byte_rate=5_000_000, version=7)
    typed = {"producer_byte_rate": "", "consumer_byte_rate": "2", "reason": "too slow"}
    page = behind_the_door(client, "/cluster/ask/change-quota/quota/1/", typed)
    for name, text in typed.items():
        assert re.search(rf'name="{name}" value="{text}"', page), name


def behind_the_door(client: Client, address: str, typed: dict[str, str]) -> str:
    """What is shown, once somebody signed in, of a form that was sent without a session."""
    answer = client.post(address, {**typed, **OF_THE_FORM})
    [onward] = parse_qs(urlsplit(answer.headers["Location"]).query)["next"]
    client.force_login(create_user("mira", Role.OPERATOR, PASSWORD))
    answer = client.get(onward)
    assert answer.status_code == 200, onward
    return unescape(answer.content.decode())


@pytest.mark.parametrize("letters", [100, 230, 280, 500])
def test_a_proxy_takes_the_head_of_the_answer(client: Client, letters: int) -> None:
    """Of nginx, as it is delivered, all of it fits into 4 KiB; what is longer is left out."""
    typed = {**TYPED, **OF_THE_FORM, "reason": "\u0436" * letters}
    answer = client.post("/cluster/ask/create-topic/", typed)
    head = sum(len(f"{name}: {value}\r\n") for name, value in answer.items())
    assert head < 3600 and answer.status_code == (302 if letters < 250 else 403)
    assert ("kept" in answer.get("Location", "")) == (letters < 250)


ASSIGNMENTS = "\n<1>,2\n" * 2_000


def test_what_no_address_bears_is_kept_by_the_door(client: Client) -> None:
    """It was dropped without a word: the form behind the door was empty."""
    cast.add_cluster()
    create_user("mira", Role.OPERATOR, PASSWORD)
    typed = {**TYPED, "assignments": ASSIGNMENTS}
    door = client.post("/cluster/ask/create-topic/", {**typed, **OF_THE_FORM}).content.decode()
    assert "Nothing was done. What you typed is in it again" in door
    said = hidden(door)
    wrong = client.post("/login/", {**said, "username": "mira", "password": "wrong"})
    assert hidden(wrong.content.decode())["typed"] == said["typed"]
    inside = client.post("/login/", {**said, "username": "mira", "password": PASSWORD}).content.decode()
    assert 'action="/cluster/ask/create-topic/"' in inside
    kept = dict(re.findall(r'<textarea name="([^"]*)" hidden>\n([^<]*)</textarea>', inside))
    assert {name: unescape(text).replace("\r\n", "\n") for name, text in kept.items()} == typed
    assert not WorkItem.objects.exists()


def test_what_is_too_long_to_be_kept_is_said_to_be_lost(client: Client) -> None:
    long = {**TYPED, **OF_THE_FORM, "assignments": "1,2\n" * 100_000}
    for answer in (
        client.post("/cluster/ask/create-topic/", long),
        client.get("/journal/", {"by": "\u0436" * 249, "group": "\u0436" * 249}),
        client.get(reverse("group", args=["\U0001f680" * 249])),
    ):
        door = answer.headers["Location"]
        assert len(door) < 2_800
        assert (
            "What you had typed, or filtered by, is too long to be kept" in client.get(door).content.decode()
        )


def hidden(page: str) -> dict[str, str]:
    """The fields of the door that nobody sees."""
    found = re.findall(r'type="hidden" name="(next|typed)" value="([^"]*)"', page)
    return {name: unescape(text) for name, text in found}


def test_what_is_no_form_is_no_form_at_the_door(client: Client) -> None:
    create_user("mira", Role.OPERATOR, PASSWORD)
    for typed in ("&".join("a=1" for _ in range(1_001)), "x" * 300_000):
        answer = client.post("/login/", {"username": "mira", "password": PASSWORD, "typed": typed})
        assert answer.status_code == 302


def test_whoever_signs_out_of_a_session_that_ended_comes_back_to_the_overview(client: Client) -> None:
    """What can only be sent is no page to be led to: there was an error behind the door."""
    door = client.post("/logout/").headers["Location"]
    client.force_login(create_user("mira", Role.OPERATOR, PASSWORD))
    answer = client.get(door, follow=True)
    assert answer.status_code == 200 and answer.redirect_chain[-1][0] == "/"


def test_a_page_is_shown_behind_the_door(client: Client) -> None:
    assert client.get("/groups/?q=a").headers["Location"] == "/login/?next=/groups/%3Fq%3Da"
