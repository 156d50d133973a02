"""A host of pages whose clock is hours off signs nobody out, keeps nobody in, forgets no wrong password."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.db.models import F
from django.test import Client
from django.utils import timezone

from access.grants import Role
from access.login_limits import FAILURES_OF_A_NAME
from access.models import AccessEvent
from access.service import create_user
from access.sessions import IDLE_MS

pytestmark = pytest.mark.django_db
PASSWORD = "korrekt-horse-battery"

Other = Callable[[], AbstractContextManager[None]]


@pytest.fixture(params=[-13, -1, 1, 13])
def elsewhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Other:
    """Ask another host of pages, whose clock is so many hours off."""

    @contextmanager
    def elsewhere() -> Iterator[None]:
        with monkeypatch.context() as patch:
            off, now_s = timezone.now() + timedelta(hours=request.param), time.time()
            patch.setattr(timezone, "now", lambda: off)
            patch.setattr(time, "time", lambda: now_s + request.param * 3_600)
            yield

    return elsewhere


@pytest.fixture
def ann(client: Client) -> Client:
    create_user("ann", Role.VIEWER, PASSWORD)
    return client


def sign_in(client: Client, password: str = PASSWORD) -> int:
    return client.post("/login/", {"username": "ann", "password": password}).status_code


def test_who_signed_in_here_is_signed_in_there(ann: Client, elsewhere: Other) -> None:
    assert (sign_in(ann), ann.get("/").status_code) == (302, 200)
    with elsewhere():
        assert ann.get("/").status_code == 200
        assert sign_in(Client()) == 302, "and whoever signs in there ends nobody's session"
    assert ann.get("/").status_code == 200


def test_who_signed_in_there_is_signed_in_here(ann: Client, elsewhere: Other) -> None:
    with elsewhere():
        assert (sign_in(ann), ann.get("/").status_code) == (302, 200)
    assert ann.get("/").status_code == 200


def test_who_was_away_too_long_is_signed_out_there_too(ann: Client, elsewhere: Other) -> None:
    assert (sign_in(ann), ann.get("/").status_code) == (302, 200)
    session = ann.session
    session["seen_ms"] -= IDLE_MS + 1
    session.save()
    with elsewhere():
        assert ann.get("/").status_code == 302


def test_a_row_that_ended_signs_nobody_in_there(ann: Client, elsewhere: Other) -> None:
    assert (sign_in(ann), ann.get("/").status_code) == (302, 200)
    Session.objects.update(expire_date=F("expire_date") - timedelta(hours=12, seconds=1))
    with elsewhere():
        assert ann.get("/").status_code == 302


def test_wrong_passwords_count_at_whichever_host(ann: Client, elsewhere: Other) -> None:
    with elsewhere():
        for _ in range(FAILURES_OF_A_NAME - 1):
            assert sign_in(ann, "wrong") == 403
    assert sign_in(ann, "wrong") == 403
    assert sign_in(ann) == 429
    with elsewhere():
        assert sign_in(ann) == 429
    AccessEvent.objects.update(at=F("at") - timedelta(minutes=6))
    assert sign_in(ann) == 302


def test_wrong_passwords_shut_nobody_out_until_a_clock_that_was_set_back_has_caught_up(ann: Client) -> None:
    for _ in range(FAILURES_OF_A_NAME):
        assert sign_in(ann, "wrong") == 403
    assert sign_in(ann) == 429
    AccessEvent.objects.update(at=F("at") + timedelta(hours=3))
    assert sign_in(ann) == 302
