"""This room tests that a form sent after its session ended is filled in again behind the door, not done."""

import re
from html import unescape
from urllib.parse import parse_qs, urlencode, urlsplit

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


def test_a_form_is_only_shown_whatever_the_door_was_told(client: Client) -> None:
    """What would have it done at once does not come through, whoever wrote it."""
    create_user("mira", Role.OPERATOR, PASSWORD)
    typed = urlencode({**TYPED, **OF_THE_FORM, "csrfmiddlewaretoken": "another's"})
    said = {"username": "mira", "password": PASSWORD, "next": "/cluster/ask/create-topic/", "typed": typed}
    inside = client.post("/login/", said).content.decode()
    assert re.findall(r'<textarea name="([^"]*)"', inside) == list(TYPED)
    assert inside.count('name="csrfmiddlewaretoken"') == 1


@pytest.mark.parametrize("reason", [None, "", "too slow", "x" * 3_000])
def test_no_address_of_a_form_is_longer_than_proxies_take(client: Client, reason: str | None) -> None:
    """That of a form into which nothing was typed had 5,000 letters."""
    address = reverse("ask", args=["rebalance", "\U0001f680" * 249])
    answer = client.post(address, OF_THE_FORM if reason is None else {**OF_THE_FORM, "reason": reason})
    assert len(answer.get("Location", "")) < 2_800


@pytest.fixture
def tab(db: None) -> Client:
    """A browser that must show its secret, and has a door open at which a long form is kept."""
    cast.add_cluster()
    create_user("mira", Role.OPERATOR, PASSWORD)
    browser = Client(enforce_csrf_checks=True, headers={"Origin": "http://testserver"})
    browser.get("/login/")
    return browser


def secret(page: str) -> dict[str, str]:
    return dict(re.findall(r'name="(csrfmiddlewaretoken)" value="([^"]*)"', page))


def kept_door(tab: Client) -> dict[str, str]:
    """What the door says of a form that is too long for an address."""
    typed = {**TYPED, **OF_THE_FORM, "assignments": ASSIGNMENTS}
    page = tab.post("/cluster/ask/create-topic/", {**secret(tab.get("/login/").content.decode()), **typed})
    return {**secret(page.content.decode()), **hidden(page.content.decode())}


def test_a_door_that_lay_open_while_somebody_signed_in_elsewhere_keeps_what_it_has(tab: Client) -> None:
    """The form was refused as old, and what was typed lost: who signs in at one tab does so at the others."""
    door = kept_door(tab)
    me = {"username": "mira", "password": PASSWORD}
    assert tab.post("/login/", {**me, **secret(tab.get("/login/").content.decode())}).status_code == 302
    inside = tab.post("/login/", {**me, **door})
    assert inside.status_code == 200 and 'action="/cluster/ask/create-topic/"' in inside.content.decode()
    plain = tab.post(
        "/login/", {**me, "csrfmiddlewaretoken": door["csrfmiddlewaretoken"], "next": "/groups/"}
    )
    assert (plain.status_code, plain.headers["Location"]) == (302, "/groups/")


def test_somebody_else_at_such_a_door_signs_in_once_more(tab: Client) -> None:
    """Nothing goes on under the name of who signed in at the other tab."""
    door, other = kept_door(tab), {"username": "ola", "password": PASSWORD}
    create_user("ola", Role.OPERATOR, PASSWORD)
    me = {"username": "mira", "password": PASSWORD}
    tab.post("/login/", {**me, **secret(tab.get("/login/").content.decode())})
    again = tab.post("/login/", {**other, **door})
    page = again.content.decode()
    assert again.status_code == 403 and "Sign in once more." in page
    inside = tab.post("/login/", {**other, **secret(page), **hidden(page)})
    assert inside.status_code == 200 and "as ola" in inside.content.decode()


def sign_in(tab: Client, name: str = "mira") -> None:
    said = secret(tab.get("/login/").content.decode())
    assert tab.post("/login/", {"username": name, "password": PASSWORD, **said}).status_code == 302


def open_form(tab: Client) -> dict[str, str]:
    """A form that was opened by mira, and what she typed into it."""
    sign_in(tab)
    page = tab.get("/cluster/ask/create-topic/").content.decode()
    return {**secret(page), **TYPED, **OF_THE_FORM}


def sign_out(tab: Client) -> None:
    assert (
        tab.post("/logout/", secret(tab.get("/cluster/ask/create-topic/").content.decode())).status_code
        == 302
    )


def test_a_form_that_lay_open_while_somebody_signed_in_elsewhere_is_shown_again(tab: Client) -> None:
    """It was refused as old, again and again, and what was typed was lost."""
    form = open_form(tab)
    sign_out(tab)
    sign_in(tab)
    kept = tab.post("/cluster/ask/create-topic/", form)
    page = kept.content.decode()
    assert kept.status_code == 403 and "This browser signed in anew after the form was opened." in page
    assert "Nothing was done yet." in page and "as mira" in page
    typed = dict(re.findall(r'<textarea name="([^"]*)" hidden>\n([^<]*)</textarea>', page))
    assert {name: unescape(text) for name, text in typed.items()} == TYPED
    shown = unescape(tab.post("/cluster/ask/create-topic/", {**secret(page), **typed}).content.decode())
    assert 'value="gates"' in shown and not WorkItem.objects.exclude(idempotency_key=None).exists()


def test_nobody_goes_on_with_a_form_that_lay_open_while_a_session_came_and_went(tab: Client) -> None:
    form = open_form(tab)
    sign_out(tab)
    sign_in(tab)
    sign_out(tab)
    door = tab.post("/cluster/ask/create-topic/", form)
    page = door.content.decode()
    assert door.status_code == 403 and "Nothing was done. What you typed is in it again" in page
    long = tab.post("/cluster/ask/create-topic/", {**form, "configs": "1,2\n" * 100_000})
    assert "is too long to be kept" in long.content.decode()
    me = {"username": "mira", "password": PASSWORD}
    assert 'name="topic"' in tab.post("/login/", {**me, **secret(page), **hidden(page)}).content.decode()


@pytest.mark.parametrize("origin", ["https://elsewhere.example", "null", None])
def test_a_form_of_another_site_is_not_shown(tab: Client, origin: str | None) -> None:
    form = open_form(tab)
    sign_out(tab)
    sign_in(tab)
    headers = {} if origin is None else {"Origin": origin}
    del tab.defaults["HTTP_ORIGIN"]
    refused = tab.post("/cluster/ask/create-topic/", form, headers=headers)
    assert refused.status_code == 403 and "The form was refused" in refused.content.decode()
    assert "gates" not in refused.content.decode()


@pytest.mark.parametrize("origin", ["https://elsewhere.example", "null"])
def test_a_door_of_another_site_is_refused(tab: Client, origin: str) -> None:
    said = {
        "username": "mira",
        "password": PASSWORD,
        "typed": "topic=a",
        "next": "/cluster/ask/create-topic/",
    }
    refused = tab.post("/login/", said, headers={"Origin": origin})
    assert refused.status_code == 403 and "typed" not in refused.content.decode()
    bare = Client(enforce_csrf_checks=True).post("/login/", said)
    assert bare.status_code == 403 and "The form was refused" in bare.content.decode()


@pytest.mark.parametrize("letters", ["base64", "idna", "unicode_escape", "utf-16"])
@pytest.mark.parametrize("address", ["/cluster/ask/create-topic/", "/login/"])
def test_a_form_in_letters_of_its_own_is_refused(client: Client, address: str, letters: str) -> None:
    """Whoever nobody knows had the web fail (500), and its log hold a traceback for each."""
    body = b'--x\r\nContent-Disposition: form-data; name="key"\r\n\r\n\\ud800\r\n--x--\r\n'
    kind = "multipart/form-data; boundary=x"
    refused = client.generic("POST", address, body, content_type=f"{kind}; charset={letters}")
    assert refused.status_code == 400 and "A form comes in UTF-8." in refused.content.decode()
    assert client.generic("POST", address, body, content_type=f"{kind}; charset=UTF-8").status_code in (
        302,
        403,
    )


def test_what_was_typed_about_a_topic_that_is_deleted_meanwhile_is_shown(client: Client) -> None:
    """There is no form any more that it could be typed into: it can still be read and copied."""
    client.force_login(create_user("mira", Role.OPERATOR, None))
    typed = {"assignments": "1, 2, 3\n<2, 3, 1>", "reason": "R&D", **OF_THE_FORM}
    answer = client.post("/cluster/ask/add-partitions/topic/gates/", typed)
    page = answer.content.decode()
    assert answer.status_code == 404 and "Nothing was changed." in page
    assert "What you had typed" in page and "1, 2, 3\n&lt;2, 3, 1&gt;" in page and "R&amp;D" in page
    assert OF_THE_FORM["key"] not in page
    strangers = client.post("/nothing/is/here/", typed)
    assert strangers.status_code == 404 and "R&amp;D" not in strangers.content.decode()
