"""This room tests the door for people: passwords, one-time links, the bound on failures, sign out."""

import contextlib
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.db.models import F
from django.db.models.functions import Now
from django.test import Client
from django.utils import timezone

from access.grants import Role
from access.login_limits import FAILURES_OF_A_NAME, FAILURES_OF_AN_ADDRESS
from access.models import AccessEvent, LoginLink, Principal
from access.service import create_token, create_user, may_enter, verify
from access.sessions import IDLE_MS, LONGEST_MS

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
    told = AccessEvent.objects.filter(action__startswith="sign").order_by("id")
    assert [(event.action, event.name, event.allowed) for event in told] == [
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
    assert sign_in(client, name="eve", password="wrong") == 403
    AccessEvent.objects.update(at=timezone.now() - timedelta(minutes=6))
    assert sign_in(client) == 302


def test_wrong_tries_of_an_address_do_not_shut_out_who_shares_it(client: Client) -> None:
    create_user("ann", Role.VIEWER, PASSWORD)
    for number in range(FAILURES_OF_AN_ADDRESS - 1):
        assert sign_in(client, name=f"eve-{number}", password="wrong") == 403
    tried = AccessEvent.objects.count
    # From here on a wrong password is answered as a name that nobody has, and only people's names are asked.
    assert [sign_in(client, name="ann", password="wrong") for _ in range(2)] == [429, 429]
    before = tried()
    assert sign_in(client, name="eve-99", password="wrong") == 429
    assert tried() == before
    assert sign_in(client) == 302


def test_a_stranger_elsewhere_cannot_lock_a_person_out(client: Client) -> None:
    create_user("ann", Role.VIEWER, PASSWORD)
    stranger = Client(REMOTE_ADDR="203.0.113.9")
    for _ in range(FAILURES_OF_A_NAME):
        sign_in(stranger, password="wrong")
    assert sign_in(client) == 302


def test_whoever_has_a_network_of_ipv6_is_one_stranger_by_whatever_address(client: Client) -> None:
    create_user("ann", Role.VIEWER, PASSWORD)
    strangers = [Client(REMOTE_ADDR=f"2001:db8:0:7::{number:x}") for number in range(1, 30)]
    for stranger in strangers[:FAILURES_OF_A_NAME]:
        assert sign_in(stranger, password="wrong") == 403
    assert sign_in(strangers[5]) == 429
    for number, stranger in enumerate(strangers[FAILURES_OF_A_NAME:FAILURES_OF_AN_ADDRESS]):
        sign_in(stranger, name=f"eve-{number}", password="wrong")
    assert sign_in(strangers[-1], name="eve", password="wrong") == 429
    assert sign_in(Client(REMOTE_ADDR="2001:db8:0:8::1")) == 302
    assert sign_in(client) == 302


def test_who_has_no_address_pays_for_nobodys_wrong_passwords(client: Client) -> None:
    create_user("ann", Role.VIEWER, PASSWORD)
    for number in range(FAILURES_OF_A_NAME):
        assert sign_in(Client(REMOTE_ADDR=f"192.0.2.{number}"), password="wrong") == 403
    assert sign_in(Client(REMOTE_ADDR="")) == 302


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
    """The path of the address that the command prints."""
    call_command("login_link", "--user", "mira", "--role", "operator")
    address = capsys.readouterr().out.strip()
    assert address.startswith(f"{settings.MUSTER_WEB_URL}/login/")
    return address.removeprefix(settings.MUSTER_WEB_URL)


def test_a_link_signs_in_once(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    path = link(capsys)
    assert client.post(path).headers["Location"] == "/"
    assert client.get("/").status_code == 200
    second = Client()
    assert (second.get(path).status_code, second.post(path).status_code) == (403, 403)
    assert second.get("/").status_code == 302


def test_looking_at_a_link_shows_a_button_and_does_not_use_it_up(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """Mail scanners look at every link, and other sites can make a browser look."""
    path = link(capsys)
    for _ in range(2):
        page = client.get(path).content.decode()
        assert "Sign in as mira" in page
        assert client.get("/").status_code == 302
    strict = Client(enforce_csrf_checks=True)
    assert strict.post(path).status_code == 403
    strict.get(path)
    secret = strict.cookies["csrftoken"].value
    assert strict.post(path, {"csrfmiddlewaretoken": secret}).status_code == 302


def test_a_link_without_its_database_is_a_sentence(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody_answers(*_: object) -> None:
        raise OperationalError("connection refused\nmore of the driver's")

    monkeypatch.setattr("access.management.commands.login_link.make_login_link", nobody_answers)
    with pytest.raises(CommandError, match=r"connection refused\. Is a stack"):
        call_command("login_link")


def test_a_link_of_a_database_that_only_reads_is_a_sentence(client: Client) -> None:
    """It answers: whether a stack runs is not the question."""
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
    with pytest.raises(CommandError, match=r"^The database writes nothing now: cannot execute [A-Z]+ in a"):
        call_command("login_link")


def test_a_link_for_a_name_that_nobody_bears_says_whom_it_made(capsys: pytest.CaptureFixture[str]) -> None:
    for said in ("mirra was not known: made now, as operator.", ""):
        call_command("login_link", "--user", "mirra")
        assert capsys.readouterr().err.strip() == said


def test_who_is_locked_out_is_given_no_link(capsys: pytest.CaptureFixture[str]) -> None:
    link(capsys)
    may_enter("mira", allowed=False)
    with pytest.raises(CommandError, match=r"mira is locked out; `manage.py lock_out mira --undo`"):
        call_command("login_link", "--user", "mira")


def test_of_a_link_that_is_refused_nothing_is_left() -> None:
    """The name of a program that is locked out: a person of it was made, of another role, and no link."""
    create_token("loader", Role.VIEWER)
    may_enter("loader", allowed=False)
    with pytest.raises(CommandError, match="loader is locked out"):
        call_command("login_link", "--user", "loader")
    loader = Principal.objects.get(name="loader")
    assert (loader.role, loader.user, LoginLink.objects.count()) == ("viewer", None, 0)


@pytest.mark.parametrize(
    ("typed", "said"), [((PASSWORD, PASSWORD), ""), ((PASSWORD, PASSWORD + "s"), "two passwords")]
)
def test_a_password_is_typed_twice(
    typed: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = list(typed)
    monkeypatch.setattr("getpass.getpass", lambda _prompt: left.pop(0))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    with pytest.raises(CommandError, match=said) if said else contextlib.nullcontext():
        call_command("create_user", "ann", "--role", "viewer")
    assert Principal.objects.filter(name="ann").exists() == (not said)


def test_a_password_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    words = ("create_user", "ann", "--role", "viewer", "--password-file")
    with pytest.raises(CommandError, match=r"The password cannot be read: .*No such file"):
        call_command(*words, str(tmp_path / "absent"))
    (tmp_path / "password").write_text(PASSWORD, encoding="utf-8")
    call_command(*words, str(tmp_path / "password"))
    assert sign_in(Client()) == 302


def test_a_link_ends_after_ten_minutes(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    path = link(capsys)
    assert LoginLink.objects.get().expires_at <= timezone.now() + timedelta(minutes=10)
    LoginLink.objects.update(expires_at=timezone.now())
    assert client.post(path).status_code == 403


@pytest.mark.parametrize("days", [-3, 3])
def test_a_link_ends_by_the_databases_clock_whatever_the_host_that_made_it_believes(
    client: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    with monkeypatch.context() as patch:
        off = timezone.now() + timedelta(days=days)
        patch.setattr(timezone, "now", lambda: off)
        path = link(capsys)
    assert LoginLink.objects.filter(expires_at__lte=Now() + timedelta(minutes=10)).count() == 1
    assert client.post(path).status_code == 302


def test_a_link_of_before_the_clock_was_set_back_signs_nobody_in(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """It lived for as long as the clock was set back, and ten minutes more."""
    path = link(capsys)
    an_hour = timedelta(hours=1)
    LoginLink.objects.update(created_at=F("created_at") + an_hour, expires_at=F("expires_at") + an_hour)
    assert client.get(path).status_code == 403
    assert client.post(path).status_code == 403
    # Nor when the clock gets there a second time.
    link(capsys)
    assert LoginLink.objects.count() == 1


def test_the_link_is_stored_as_a_digest(capsys: pytest.CaptureFixture[str]) -> None:
    secret = link(capsys).split("/")[3]
    assert secret.encode() not in bytes(LoginLink.objects.get().digest)
    assert len(bytes(LoginLink.objects.get().digest)) == 32


def test_no_clock_that_is_set_back_keeps_a_session(client: Client) -> None:
    create_user("ann", Role.VIEWER, PASSWORD)
    sign_in(client)
    assert client.get("/").status_code == 200
    session = client.session
    session["begun_ms"] += IDLE_MS + 60_000
    session["seen_ms"] += IDLE_MS + 60_000
    session.save()
    assert client.get("/").headers["Location"] == "/login/?next=/"


def test_no_use_makes_a_session_longer_than_twelve_hours(client: Client) -> None:
    create_user("ann", Role.VIEWER, PASSWORD)
    sign_in(client)
    assert client.get("/").status_code == 200
    session = client.session
    session["begun_ms"] -= LONGEST_MS + 1
    session.save()
    assert client.get("/").headers["Location"] == "/login/?next=/"


def test_the_admin_has_no_door_of_its_own(client: Client) -> None:
    """A second form would try passwords without bound and without a line in the audit."""
    create_user("ann", Role.VIEWER, PASSWORD)
    form = {"username": "ann", "password": PASSWORD, "next": "/admin/"}
    answer = client.post("/admin/login/?next=/admin/runtime/lease/", form)
    assert answer.headers["Location"] == "/login/?next=/admin/runtime/lease/"
    assert client.get("/").status_code == 302
    sign_in(client)
    assert client.get("/admin/runtime/lease/").status_code == 200
    assert client.get("/admin/password_change/").status_code == 404
    assert "password_change" not in client.get("/admin/").content.decode()
    assert client.post("/admin/logout/").status_code == 302
    assert AccessEvent.objects.filter(action="sign out", name="ann").exists()


def test_whoever_lost_the_role_is_told_so_by_the_admin(client: Client) -> None:
    create_user("ann", Role.VIEWER, PASSWORD)
    sign_in(client)
    Principal.objects.update(disabled=True)
    assert client.get("/admin/").status_code == 302
    assert client.get("/admin/", follow=True).status_code == 403


def test_a_name_with_a_zero_byte_is_a_wrong_name(client: Client) -> None:
    assert sign_in(client, name="an\x00n", password="x\x00y") == 403
    assert AccessEvent.objects.get().name == "ann"


def test_wrong_links_do_not_fill_the_audit(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    path = link(capsys)
    for number in range(FAILURES_OF_AN_ADDRESS + 5):
        assert client.get(f"/login/once/wrong-{number}/").status_code == 403
    assert AccessEvent.objects.filter(allowed=False).count() == FAILURES_OF_AN_ADDRESS
    assert client.post(path).status_code == 302


def test_the_address_is_the_one_that_the_proxy_wrote(client: Client, settings: Any) -> None:
    forwarded = {"X-Forwarded-For": "198.51.100.1, 203.0.113.9"}
    client.post("/login/", {"username": "eve", "password": "wrong"}, headers=forwarded)
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    client.post("/login/", {"username": "eve", "password": "wrong"}, headers=forwarded)
    client.post("/login/", {"username": "eve", "password": "wrong"}, headers={"X-Forwarded-For": "nonsense"})
    told = AccessEvent.objects.order_by("id").values_list("address", flat=True)
    assert list(told) == ["127.0.0.1", "203.0.113.9", "127.0.0.1"]


def test_whoever_is_locked_out_has_no_door_left_until_let_in_again(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    path = link(capsys)
    create_user("mira", Role.OPERATOR, PASSWORD)
    token = create_token("mira", Role.OPERATOR)
    sign_in(client, name="mira")
    call_command("lock_out", "mira")
    assert client.get("/").status_code == 403
    assert sign_in(Client(), name="mira") == 403
    assert Client().post(path).status_code == 403
    assert verify(token) is None
    call_command("lock_out", "mira", "--undo")
    assert client.get("/").status_code == 200
    assert verify(token) is not None
    with pytest.raises(CommandError, match="Nobody is named"):
        call_command("lock_out", "nobody")


def test_who_gave_which_door_stands_in_the_audit(capsys: pytest.CaptureFixture[str]) -> None:
    link(capsys)
    create_user("mira", Role.VIEWER, None)
    call_command("lock_out", "mira")
    told = AccessEvent.objects.order_by("id").values_list("action", "name", "detail")
    assert list(told) == [
        ("user made", "mira", "operator"),
        ("link made", "mira", ""),
        ("user changed", "mira", "viewer"),
        ("locked out", "mira", ""),
    ]


def test_rows_of_sessions_that_ended_go_when_somebody_comes(client: Client) -> None:
    create_user("ann", Role.VIEWER, PASSWORD)
    for _ in range(3):
        sign_in(Client())
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    sign_in(client)
    assert Session.objects.count() == 1
