"""This room tests the door for people: passwords, one-time links, the bound on failures, sign out."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from access.grants import Role
from access.login_limits import FAILURES_OF_A_NAME, FAILURES_OF_AN_ADDRESS
from access.middleware import IDLE_MS
from access.models import AccessEvent, LoginLink, Principal
from access.service import create_user

pytestmark = pytest.mark.django_db
PASSWORD = "korrekt-horse-battery"


def sign_in(client: Client, name: str = "ann", password: str = PASSWORD, **more: str) -> int:
    """Send the form; the status of the answer."""
    return client.post("/login/", {"username": name, "password": password, **more}).status_code


def test_a_person_signs_in_and_out_and_both_are_recorded(client: Client) -> None:
    create_user("ann", Role.VIEWER, PASSWORD)
    answer = client.post("/login/?next=/groups/", {"username": "ann", "password": PASSWORD})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/groups/")
    assert client.get("/groups/").status_code == 200
    assert client.post("/logout/").status_code == 302
    assert client.get("/groups/").headers["Location"].startswith("/login/")
    assert [(event.action, event.name, event.allowed) for event in AccessEvent.objects.order_by("id")] == [
        ("sign in", "ann", True),
        ("sign out", "ann", True),
    ]


def test_unknown_name_and_wrong_password_get_the_same_answer(client: Client) -> None:
    create_user("ann", Role.VIEWER, PASSWORD)
    wrong = client.post("/login/", {"username": "ann", "password": "wrong"})
    unknown = client.post("/login/", {"username": "eve", "password": "wrong"})
    assert wrong.status_code == unknown.status_code == 403
    assert b"Name or password is wrong" in wrong.content
    assert wrong.content.replace(b"ann", b"eve").count(b"wrong") == unknown.content.count(b"wrong")
    assert AccessEvent.objects.filter(allowed=False).count() == 2


def test_too_many_failures_are_refused_before_the_password_is_looked_at(client: Client) -> None:
    create_user("ann", Role.VIEWER, PASSWORD)
    for _ in range(FAILURES_OF_A_NAME):
        assert sign_in(client, password="wrong") == 403
    assert sign_in(client) == 429
    # Another name from the same address is still asked, until the address itself is over its bound.
    for number in range(FAILURES_OF_AN_ADDRESS - FAILURES_OF_A_NAME):
        assert sign_in(client, name=f"eve-{number}", password="wrong") == 403
    assert sign_in(client, name="ben") == 429
    AccessEvent.objects.update(at=timezone.now() - timedelta(minutes=6))
    assert sign_in(client) == 302


def test_a_stranger_elsewhere_cannot_lock_a_person_out(client: Client) -> None:
    create_user("ann", Role.VIEWER, PASSWORD)
    stranger = Client(REMOTE_ADDR="203.0.113.9")
    for _ in range(FAILURES_OF_A_NAME):
        sign_in(stranger, password="wrong")
    assert sign_in(client) == 302


def test_the_form_needs_the_csrf_secret() -> None:
    create_user("ann", Role.VIEWER, PASSWORD)
    strict = Client(enforce_csrf_checks=True)
    assert sign_in(strict) == 403
    strict.get("/login/")
    secret = strict.cookies["csrftoken"].value
    assert sign_in(strict, csrfmiddlewaretoken=secret) == 302
    assert strict.post("/logout/").status_code == 403


@pytest.mark.parametrize(
    "wanted", ["//evil.example/", "https://evil.example/", "javascript:alert(1)", "\\\\evil"]
)
def test_signing_in_never_leads_to_another_site(client: Client, wanted: str) -> None:
    create_user("ann", Role.VIEWER, PASSWORD)
    answer = client.post("/login/", {"username": "ann", "password": PASSWORD, "next": wanted})
    assert answer.headers["Location"] == "/"


def test_a_person_without_a_role_stays_outside(client: Client) -> None:
    create_user("ann", Role.VIEWER, PASSWORD)
    Principal.objects.update(disabled=True)
    assert sign_in(client) == 403


def test_a_role_taken_away_closes_the_pages_of_an_open_session(client: Client) -> None:
    create_user("ann", Role.VIEWER, PASSWORD)
    sign_in(client)
    assert client.get("/").status_code == 200
    Principal.objects.update(disabled=True)
    assert client.get("/").status_code == 403


def test_a_session_ends_half_an_hour_after_its_last_use(client: Client) -> None:
    create_user("ann", Role.VIEWER, PASSWORD)
    sign_in(client)
    assert client.get("/").status_code == 200
    session = client.session
    session["seen_ms"] -= IDLE_MS + 1
    session.save()
    assert client.get("/").headers["Location"] == "/login/?next=/"


def link(capsys: pytest.CaptureFixture[str]) -> str:
    """The path that the command prints."""
    call_command("login_link", "--user", "mira", "--role", "operator")
    return capsys.readouterr().out.strip()


def test_a_link_signs_in_once(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    path = link(capsys)
    assert client.get(path).headers["Location"] == "/"
    assert client.get("/").status_code == 200
    second = Client()
    assert second.get(path).status_code == 403
    assert second.get("/").status_code == 302


def test_a_link_ends_after_ten_minutes(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    path = link(capsys)
    assert LoginLink.objects.get().expires_at <= timezone.now() + timedelta(minutes=10)
    LoginLink.objects.update(expires_at=timezone.now())
    assert client.get(path).status_code == 403


def test_a_browser_that_fetches_ahead_does_not_use_the_link_up(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    path = link(capsys)
    assert client.get(path, headers={"Sec-Purpose": "prefetch;prerender"}).status_code == 204
    assert client.head(path).status_code == 405
    assert client.get(path).status_code == 302


def test_the_link_is_stored_as_a_digest(capsys: pytest.CaptureFixture[str]) -> None:
    secret = link(capsys).split("/")[3]
    assert secret.encode() not in bytes(LoginLink.objects.get().digest)
    assert len(bytes(LoginLink.objects.get().digest)) == 32
